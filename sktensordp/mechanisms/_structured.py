"""Gaussian noise with structure: directions and weights for the modes of a tensor.

Guarantee: one call of transform is (epsilon, delta)-differentially private for each
sample (replace-one in the declared domain), by the exact curve of Gaussian noise
(Balle and Wang 2018, Theorem 8) at mu = sup ||Delta x_1 U_1^-1 ... x_N U_N^-1|| over
the domain's differences.
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._sklearn_compat import StrOptions
from ..privacy import gaussian_mu
from ..privacy.calibration._gaussian import floored, least_cost_variances
from ..privacy.calibration._sensitivity import SensitivitySet
from ._base import NoiseMechanism, PlannedNoise
from ._gaussian_noise import GaussianNoise, diagonal_noise, rotated_noise

__all__ = ["ModeDesign", "StructuredNoise", "flat_product"]

# Of every mode, directions (None for the axes), and weights or standard deviations.
ModeDesign = tuple[list[NDArray[np.float64] | None], list[NDArray[np.float64]]]


class StructuredNoise(NoiseMechanism):
    """Shared by the mechanisms whose noise has a factor for every mode."""

    _exact = "Balle and Wang (2018), Theorem 8"
    _theorem = ""

    _parameter_constraints: ClassVar = {
        **NoiseMechanism._parameter_constraints,
        "calibration": [StrOptions({"sound", "published"})],
    }

    @property
    def _source(self) -> str:
        if self.calibration == "published":
            return f"{self._theorem}; the truth by {self._exact}"
        return self._exact

    def _shared_modes(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Modes in which all entries are to have one variance."""
        return ()

    def _published_sigmas(
        self,
        shape: tuple[int, ...],
        domain: SensitivitySet,
        weights: list[NDArray[np.float64]],
    ) -> list[NDArray[np.float64]]:
        """Standard deviations along the directions of every mode."""
        raise NotImplementedError

    def _noise(
        self, shape: tuple[int, ...], domain: SensitivitySet, design: Any
    ) -> PlannedNoise:
        epsilon, delta = float(self.epsilon), float(self.delta)
        directions, weights = design
        rotated = any(d is not None for d in directions)
        sound = self.calibration == "sound"
        if sound and (not rotated or not domain.has_box):
            # Directions do not help where all of a ball is to be hidden.
            sigma = self._best_sigma(shape, domain, weights)
            noise = diagonal_noise(domain, sigma, epsilon, delta, rescale=True)
            return self._diagonal(shape, noise, domain, directions, weights)
        if sound:
            sigmas = [floored(p) ** -0.25 for p in weights]
        else:
            sigmas = self._published_sigmas(shape, domain, weights)
        if not rotated:
            sigma = flat_product(sigmas, shape)
            noise = diagonal_noise(domain, sigma, epsilon, delta, rescale=False)
            return self._diagonal(shape, noise, domain, directions, weights)
        noise = rotated_noise(
            domain, shape, directions, sigmas, epsilon, delta, rescale=sound
        )
        variances, error = [], 1.0
        for w, s, p in zip(directions, sigmas, weights, strict=True):
            variances.append(s**2 if w is None else np.square(w * s).sum(axis=1))
            error *= float(p @ s**2)
        variance = flat_product(variances, shape).reshape(shape) * noise.scale**2
        return noise.plan, noise.event, variance, error * noise.scale**2

    def _diagonal(
        self,
        shape: tuple[int, ...],
        noise: GaussianNoise,
        domain: SensitivitySet,
        directions: Sequence[NDArray[np.float64] | None],
        weights: list[NDArray[np.float64]],
    ) -> PlannedNoise:
        variance = np.square(noise.lattice.sigma)
        if np.ndim(variance) == 0:
            # The trace of the weights is that in every basis.
            error = float(variance) * math.prod(float(p.sum()) for p in weights)
            return noise.plan, noise.event, float(variance), error
        error = float(variance @ flat_product(weights, shape))
        return noise.plan, noise.event, variance.reshape(shape), error

    def _best_sigma(
        self,
        shape: tuple[int, ...],
        domain: SensitivitySet,
        weights: list[NDArray[np.float64]],
    ) -> float | NDArray[np.float64]:
        """Standard deviations of least weighted cost, for ideal noise."""
        mu = gaussian_mu(float(self.epsilon), float(self.delta))
        flat = all(np.all(p == p[0]) for p in weights)
        if not domain.has_box or (flat and np.ndim(domain.width) == 0):
            return domain.l2 / mu
        shared = self._shared_modes(shape)
        squares = np.broadcast_to(np.square(domain.widths).reshape(shape), shape)
        cost = flat_product(weights, shape).reshape(shape)
        # Entries that share a variance count together, in width and in weight.
        squares = squares.sum(axis=shared, keepdims=True)
        cost = cost.sum(axis=shared, keepdims=True)
        variances = least_cost_variances(
            np.sqrt(squares).ravel(), cost.ravel(), mu, domain.diameter
        ).reshape(squares.shape)
        return np.sqrt(np.broadcast_to(variances, shape).ravel())


def flat_product(
    vectors: Sequence[NDArray[np.float64]], shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Outer product of a vector for every mode, flat."""
    product = np.ones(1)
    for vector in vectors:
        product = np.multiply.outer(product, vector).ravel()
    return np.broadcast_to(product, (math.prod(shape),))
