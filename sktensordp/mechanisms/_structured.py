"""Gaussian noise with directions and weights for the modes of a tensor.

Guarantee: one call of transform is (epsilon, delta)-differentially private for each
sample (replace-one in the declared domain), by the exact curve of Gaussian noise
(Balle and Wang 2018, Theorem 8) at mu = sup ||Delta x_1 U_1^-1 ... x_N U_N^-1|| over
the differences Delta of two samples in the domain.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags

from ..privacy import gaussian_mu
from ..privacy.calibration._gaussian import floored, least_cost_variances
from ..privacy.calibration._sensitivity import SensitivitySet
from ._base import NoiseMechanism, PlannedNoise, PlannedRelease
from ._gaussian_noise import GaussianNoise, diagonal_noise, rotated_noise
from ._intervals import AddsKnownNoise

# Theorem behind the guarantee.
EXACT = "Balle and Wang (2018), Theorem 8"

# For each mode: its directions (None for the axes), and its weights or standard
# deviations along them.
ModeDesign = tuple[list[NDArray[np.float64] | None], list[NDArray[np.float64]]]


class DirectionalNoise(AddsKnownNoise, NoiseMechanism):
    """Gaussian noise with directions and weights, which `_design` returns."""

    @property
    def _source(self) -> str:
        return EXACT

    def _shared_modes(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Modes along which the noise has one variance."""
        return ()

    def _noise(
        self, shape: tuple[int, ...], domain: SensitivitySet, design: ModeDesign
    ) -> PlannedNoise:
        directions, weights = design
        if any(basis is not None for basis in directions) and domain.has_box:
            sigmas = [floored(p) ** -0.25 for p in weights]
            return self._noise_along(shape, domain, design, sigmas, rescale=True)
        # For a ball, i.i.d. noise is optimal: directions would not help.
        epsilon, delta = float(self.epsilon), float(self.delta)
        shared = self._shared_modes(shape)
        sigma = _best_sigma(shape, domain, weights, epsilon, delta, shared)
        noise = diagonal_noise(domain, sigma, epsilon, delta, rescale=True)
        return _planned_diagonal(shape, noise, weights)

    def _noise_along(
        self,
        shape: tuple[int, ...],
        domain: SensitivitySet,
        design: ModeDesign,
        sigmas: Sequence[NDArray[np.float64]],
        *,
        rescale: bool,
    ) -> PlannedNoise:
        """Noise with given standard deviations along the directions of each mode.

        With `rescale`, it is scaled to spend the budget exactly.
        """
        epsilon, delta = float(self.epsilon), float(self.delta)
        directions, weights = design
        if all(basis is None for basis in directions):
            sigma = flat_product(sigmas, shape)
            noise = diagonal_noise(domain, sigma, epsilon, delta, rescale=rescale)
            return _planned_diagonal(shape, noise, weights)
        noise = rotated_noise(
            domain, shape, directions, sigmas, epsilon, delta, rescale=rescale
        )
        variances, error = [], 1.0
        for basis, s, p in zip(directions, sigmas, weights, strict=True):
            along_axes = s**2 if basis is None else np.square(basis * s).sum(axis=1)
            variances.append(along_axes)
            error *= float(p @ s**2)
        variance = flat_product(variances, shape).reshape(shape) * noise.scale**2
        return noise.randomizer, noise.event, variance, error * noise.scale**2


class OfMatrices(DirectionalNoise):
    """Noise for samples that are matrices."""

    tensor_shape: tuple[int, ...] | None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = self.tensor_shape is not None
        return tags

    def _plan_release(
        self, shape: tuple[int, ...], X: ArrayLike | None
    ) -> PlannedRelease:
        if len(shape) != 2:
            raise ValueError(
                f"The samples of {type(self).__name__} must be matrices, got shape "
                f"{shape}. For rows of features, pass tensor_shape."
            )
        return super()._plan_release(shape, X)


def _planned_diagonal(
    shape: tuple[int, ...], noise: GaussianNoise, weights: list[NDArray[np.float64]]
) -> PlannedNoise:
    """Independent noise, with its variance and weighted error."""
    variance = np.square(noise.lattice.sigma)
    if np.ndim(variance) == 0:
        # The weights have the same sum in every basis: a trace.
        error = float(variance) * math.prod(float(p.sum()) for p in weights)
        return noise.randomizer, noise.event, float(variance), error
    error = float(variance @ flat_product(weights, shape))
    return noise.randomizer, noise.event, variance.reshape(shape), error


def _best_sigma(
    shape: tuple[int, ...],
    domain: SensitivitySet,
    weights: list[NDArray[np.float64]],
    epsilon: float,
    delta: float,
    shared_modes: tuple[int, ...],
) -> float | NDArray[np.float64]:
    """Standard deviations of ideal noise of least weighted error."""
    mu = gaussian_mu(epsilon, delta)
    flat = all(np.all(p == p[0]) for p in weights)
    if not domain.has_box or (flat and np.ndim(domain.width) == 0):
        return domain.l2 / mu
    squares = np.broadcast_to(np.square(domain.widths).reshape(shape), shape)
    cost = flat_product(weights, shape).reshape(shape)
    # Entries that share a variance are one entry, with the sums of their squared
    # widths and of their weights.
    squares = squares.sum(axis=shared_modes, keepdims=True)
    cost = cost.sum(axis=shared_modes, keepdims=True)
    variances = least_cost_variances(
        np.sqrt(squares).ravel(), cost.ravel(), mu, domain.diameter
    ).reshape(squares.shape)
    return np.sqrt(np.broadcast_to(variances, shape).ravel())


def flat_product(
    vectors: Sequence[NDArray[np.float64]], shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Flattened outer product of one vector for each mode."""
    product = np.ones(1)
    for vector in vectors:
        product = np.multiply.outer(product, vector).ravel()
    return np.broadcast_to(product, (math.prod(shape),))
