"""Channels: the noise that codes meet, as functions of draws, with gradients.

Training needs noise that is a smooth function of the code. Plain floats will do:
the training data's codes are not released. What is released at a person's side is
randomised by the package's mechanisms.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit

from ..privacy.calibration._privunit import PrivUnitDesign
from ._code_noise import CodeNoise
from ._linear import code_norms

__all__ = ["BallChannel", "OpenChannel", "SphereChannel", "code_channel", "cosines"]

# Logarithm of the least share of the sphere whose inverse is within floats.
_LEAST_LOG_MASS = -600.0


def _strata(size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Uniform variates in (0, 1), one in each of `size` parts, in random order."""
    return (rng.permutation(size) + rng.uniform(1e-12, 1.0, size)) / size


def cosines(
    design: PrivUnitDesign, size: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cosines <u, v> as PrivUnit draws them, stratified, and their sines.

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
    # Share of the sphere's area beyond the cosine.
    mass = math.exp(design.log_mass)
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
    """PrivUnit: a code e is the unit vector u = e / |e|, and v / m is released.

    A draw x around an anchor a is turned to one around u by the reflection that
    takes a to u, which moves nothing orthogonal to both but its sign:
    (a + u) (a + u)^T x / (1 + <a, u>) - x.

    Attributes
    ----------
    design : PrivUnitDesign
        Of the dimension of e.
    """

    design: PrivUnitDesign
    order = 2

    @property
    def n_outputs(self) -> int:
        """Numbers in a code and in what is released."""
        return self.design.dimension

    @property
    def n_components(self) -> int:
        """Dimension of the sphere that codes are on."""
        return self.design.dimension - 1

    @property
    def variance(self) -> float:
        """Variance of each released number."""
        return self.design.variance

    @property
    def spread(self) -> float:
        """Root mean square of a released number, over all units."""
        return math.sqrt(self.variance + 1 / self.n_outputs)

    def draw(
        self, size: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Noise for codes (size, D): anchors, and draws around them."""
        cosine, sine = (part[:, np.newaxis] for part in cosines(self.design, size, rng))
        anchor, other = rng.normal(size=(2, size, self.n_outputs))
        anchor /= code_norms(anchor, 2)[:, np.newaxis]
        other -= np.sum(anchor * other, axis=1, keepdims=True) * anchor
        other /= code_norms(other, 2)[:, np.newaxis]
        drawn = (cosine * anchor + sine * other) / self.design.scale
        return anchor, drawn

    def inputs(self, codes: NDArray[np.floating]) -> NDArray[np.float64]:
        """U = e / |e|; the last axis for the code zero."""
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
        """What is released, and what `backward` needs of it."""
        anchor, drawn = noise
        units = self.inputs(codes)
        middle = anchor + units
        room = np.maximum(1 + np.sum(anchor * units, axis=1, keepdims=True), 1e-12)
        share = np.sum(middle * drawn, axis=1, keepdims=True) / room
        return share * middle - drawn, (units, middle, room, share)

    def backward(
        self,
        codes: NDArray[np.float64],
        noise: tuple[NDArray[np.float64], NDArray[np.float64]],
        kept: Any,
        slopes: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Gradient with respect to the codes, given the one of what is released."""
        anchor, drawn = noise
        units, middle, room, share = kept
        along = np.sum(slopes * middle, axis=1, keepdims=True) / room
        moved = share * slopes + along * (drawn - share * anchor)
        moved -= np.sum(moved * units, axis=1, keepdims=True) * units
        return moved / np.maximum(code_norms(codes, 2), 1e-150)[:, np.newaxis]


@dataclass(frozen=True)
class BallChannel:
    """Added noise: codes are scaled into the unit ball of a norm.

    Attributes
    ----------
    name : {"laplace", "l2", "gaussian", "none"}
        Law of the noise; "l2" has density exp(-|y| / s).
    n_outputs : int
        Numbers in a code.
    variance : float
        Of the noise in each.
    order : {1, 2}
        Of the norm.
    """

    name: str
    n_outputs: int
    variance: float
    order: int

    @property
    def n_components(self) -> int:
        """Dimension of the ball that codes are in."""
        return self.n_outputs

    @property
    def spread(self) -> float:
        """Root mean square of a released number, at most."""
        return math.sqrt(self.variance + 1 / self.n_outputs)

    def draw(self, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Noise for codes (size, Z)."""
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
        """Codes in the ball."""
        return codes / np.maximum(code_norms(codes, self.order), 1.0)[:, np.newaxis]

    def forward(
        self, codes: NDArray[np.float64], noise: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], None]:
        """What is released, and what `backward` needs of it."""
        return self.inputs(codes) + noise, None

    def backward(
        self,
        codes: NDArray[np.float64],
        noise: NDArray[np.float64],
        kept: Any,
        slopes: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Gradient with respect to the codes, given that of what is released."""
        norms = code_norms(codes, self.order)[:, np.newaxis]
        size = np.maximum(norms, 1.0)
        normal = np.sign(codes) if self.order == 1 else codes / size
        along = np.sum(slopes * codes, axis=1, keepdims=True) / size**2
        return slopes / size - np.where(norms > 1, along * normal, 0.0)


@dataclass(frozen=True)
class OpenChannel:
    """Laplace noise added to codes that nothing bounds, as published.

    Attributes
    ----------
    n_outputs : int
        Numbers in a code.
    sensitivity : float
        L1 distance of two codes that the noise stands for.
    epsilon : float
        That it is to keep, for such codes.
    """

    n_outputs: int
    sensitivity: float
    epsilon: float
    order = 1
    spread = 1.0

    @property
    def n_components(self) -> int:
        """Dimension of the space that codes are in."""
        return self.n_outputs

    @property
    def variance(self) -> float:
        """Variance of the noise in each number."""
        return 2 * (self.sensitivity / self.epsilon) ** 2

    def draw(self, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Noise for codes (size, Z)."""
        scale = self.sensitivity / self.epsilon
        return rng.laplace(scale=scale, size=(size, self.n_outputs))

    def inputs(self, codes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Codes as they are."""
        return codes

    def forward(
        self, codes: NDArray[np.float64], noise: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], None]:
        """What is released; nothing else is needed by `backward`."""
        return codes + noise, None

    def backward(
        self,
        codes: NDArray[np.float64],
        noise: NDArray[np.float64],
        kept: Any,
        slopes: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Gradient with respect to the codes: that of what is released."""
        return slopes


def code_channel(noise: CodeNoise, n_components: int) -> SphereChannel | BallChannel:
    """The channel of a mechanism that codes are released by.

    Parameters
    ----------
    noise : CodeNoise
        Of codes with `n_components` entries.
    n_components : int
        Z; PrivUnit's codes have one number more.

    Returns
    -------
    channel : SphereChannel or BallChannel
    """
    if noise.name == "privunit":
        plan: Any = noise.plan
        return SphereChannel(plan.cap.design)
    return BallChannel(noise.name, n_components, noise.variance, noise.order)
