"""Channels, which add noise to codes in training, with gradients.

A channel computes a noisy code as a smooth function of the code and of drawn noise, so
that training can differentiate it. It uses plain floats, because training releases no
codes; the client randomises with the package's mechanisms instead.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit

from ..mechanisms._privunit import LiftedRelease
from ..privacy.calibration._privunit import PrivUnitDesign
from ._code_noise import CodeNoise
from ._linear import code_norms

# Below this log share of the sphere, floats cannot represent the inverse.
_LEAST_LOG_MASS = -600.0


def _strata(size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Uniform variates in (0, 1), one in each of `size` strata, in random order."""
    return (rng.permutation(size) + rng.uniform(1e-12, 1.0, size)) / size


def cosines(
    design: PrivUnitDesign, size: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Stratified draws of PrivUnit's cosine <u, v>, with their sines.

    Parameters
    ----------
    design : PrivUnitDesign
    size : int
    rng : numpy.random.Generator

    Returns
    -------
    cosine, sine : ndarray of shape (size,)
    """
    half = (design.dimension - 1) / 2
    inside = _strata(size, rng) < expit(design.log_odds)
    uniform = _strata(size, rng)
    mass = math.exp(design.log_mass)
    # Share of the sphere's area beyond the cosine that is drawn.
    beyond = np.where(inside, uniform * mass, mass + uniform * (1 - mass))
    below = beyond > 0.5
    square = betaincinv(
        half, 0.5, np.clip(2 * np.where(below, 1 - beyond, beyond), 0, 1)
    )
    if design.log_mass < _LEAST_LOG_MASS:
        # The area has density y^(half - 1) / cos, y = sin^2; cos hardly varies.
        edge = design.gap * (1 + design.cosine)
        square[inside] = edge * uniform[inside] ** (1 / half)
    cosine = np.sqrt(1 - square)
    return np.where(below, -cosine, cosine), np.sqrt(square)


@dataclass(frozen=True)
class SphereChannel:
    """PrivUnit: a code e becomes the unit vector u = e / |e|, and v / m is released.

    Noise is drawn around a random anchor a. A reflection takes a to u, and so turns a
    draw x around a into one around u. It only changes the sign of vectors orthogonal to
    both: (a + u) (a + u)^T x / (1 + <a, u>) - x.

    Attributes
    ----------
    design : PrivUnitDesign
        Its dimension is that of e.
    """

    design: PrivUnitDesign
    order = 2

    @property
    def n_outputs(self) -> int:
        """Number of entries of a code and of its release."""
        return self.design.dimension

    @property
    def n_components(self) -> int:
        """Dimension of the sphere on which codes lie."""
        return self.design.dimension - 1

    @property
    def variance(self) -> float:
        """Variance of each released entry."""
        return self.design.variance

    @property
    def spread(self) -> float:
        """Root mean square of a released entry, over all unit vectors."""
        return math.sqrt(self.variance + 1 / self.n_outputs)

    def draw(
        self, size: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Noise for codes of shape (size, D): anchors, and draws around them."""
        cosine, sine = (
            column[:, np.newaxis] for column in cosines(self.design, size, rng)
        )
        anchor, orthogonal = rng.normal(size=(2, size, self.n_outputs))
        anchor /= code_norms(anchor, 2)[:, np.newaxis]
        orthogonal -= np.sum(anchor * orthogonal, axis=1, keepdims=True) * anchor
        orthogonal /= code_norms(orthogonal, 2)[:, np.newaxis]
        draws = (cosine * anchor + sine * orthogonal) / self.design.scale
        return anchor, draws

    def inputs(self, codes: NDArray[np.floating]) -> NDArray[np.float64]:
        """Unit vectors u = e / |e|; the last axis for the code zero."""
        largest = np.abs(codes).max(axis=1, keepdims=True)
        units = codes / np.where(largest > 0, largest, 1.0)
        units[largest[:, 0] == 0, -1] = 1.0
        units /= code_norms(units, 2)[:, np.newaxis]
        return units

    def forward(
        self,
        codes: NDArray[np.float64],
        noise: tuple[NDArray[np.float64], NDArray[np.float64]],
    ) -> tuple[NDArray[np.float64], tuple[NDArray[np.float64], ...]]:
        """Released codes, and the intermediate results that `backward` needs."""
        anchor, draws = noise
        units = self.inputs(codes)
        middle = anchor + units
        scale = np.maximum(1 + np.sum(anchor * units, axis=1, keepdims=True), 1e-12)
        weight = np.sum(middle * draws, axis=1, keepdims=True) / scale
        return weight * middle - draws, (units, middle, scale, weight)

    def backward(
        self,
        codes: NDArray[np.float64],
        noise: tuple[NDArray[np.float64], NDArray[np.float64]],
        saved: Any,
        slopes: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Gradient in the codes, given `slopes`, the gradient in the released codes."""
        anchor, draws = noise
        units, middle, scale, weight = saved
        along = np.sum(slopes * middle, axis=1, keepdims=True) / scale
        gradient = weight * slopes + along * (draws - weight * anchor)
        gradient -= np.sum(gradient * units, axis=1, keepdims=True) * units
        return gradient / np.maximum(code_norms(codes, 2), 1e-150)[:, np.newaxis]


@dataclass(frozen=True)
class BallChannel:
    """Added noise, after codes are scaled into the unit ball of a norm.

    Attributes
    ----------
    name : {"laplace", "l2", "gaussian", "none"}
        Distribution of the noise; "l2" has density exp(-|y| / s).
    n_outputs : int
        Number of entries of a code.
    variance : float
        Variance of the noise in each entry.
    order : {1, 2}
        Order of the norm.
    """

    name: str
    n_outputs: int
    variance: float
    order: int

    @property
    def n_components(self) -> int:
        """Dimension of the ball that holds the codes."""
        return self.n_outputs

    @property
    def spread(self) -> float:
        """Largest root mean square of a released entry."""
        return math.sqrt(self.variance + 1 / self.n_outputs)

    def draw(self, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Noise for codes of shape (size, Z)."""
        full = (size, self.n_outputs)
        if self.name == "laplace":
            return rng.laplace(size=full) * math.sqrt(self.variance / 2)
        noise = rng.normal(size=full)
        if self.name == "l2":
            noise /= code_norms(noise, 2)[:, np.newaxis]
            noise *= rng.gamma(self.n_outputs, size=(size, 1))
            noise /= math.sqrt(self.n_outputs + 1)
        return noise * math.sqrt(self.variance)

    def inputs(self, codes: NDArray[np.floating]) -> NDArray[np.float64]:
        """Codes moved into the ball."""
        return codes / np.maximum(code_norms(codes, self.order), 1.0)[:, np.newaxis]

    def forward(
        self, codes: NDArray[np.float64], noise: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], None]:
        """Released codes, and None since `backward` needs nothing else."""
        return self.inputs(codes) + noise, None

    def backward(
        self,
        codes: NDArray[np.float64],
        noise: NDArray[np.float64],
        saved: object,
        slopes: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Gradient in the codes, given `slopes`, the gradient in the released codes."""
        norms = code_norms(codes, self.order)[:, np.newaxis]
        size = np.maximum(norms, 1.0)
        normal = np.sign(codes) if self.order == 1 else codes / size
        along = np.sum(slopes * codes, axis=1, keepdims=True) / size**2
        return slopes / size - np.where(norms > 1, along * normal, 0.0)


Channel = SphereChannel | BallChannel


def code_channel(noise: CodeNoise, n_components: int) -> Channel:
    """The channel that imitates a mechanism in training.

    Parameters
    ----------
    noise : CodeNoise
        For codes with `n_components` entries.
    n_components : int
        Z; PrivUnit's codes have one entry more.

    Returns
    -------
    channel : SphereChannel or BallChannel
    """
    if isinstance(noise.randomizer, LiftedRelease):
        return SphereChannel(noise.randomizer.cap.design)
    return BallChannel(noise.name, n_components, noise.variance, noise.order)
