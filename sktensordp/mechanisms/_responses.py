"""The randomizer that keeps or moves levels."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .._random import NoiseStreams
from ..noise import bernoulli, categorical, discrete_laplace
from ..noise._lattice import columns_of
from ..privacy.calibration._sensitivity import SensitivitySet
from ._levels import LevelDesign
from ._noise import by_tiles

# Denominator of the probability of keeping.
_KEEP_TOTAL = 2**52


@dataclass(frozen=True, eq=False)
class LevelResponse:
    """Puts entries on levels, and keeps or moves each level.

    Attributes
    ----------
    domain : SensitivitySet
    n_levels : int
    keep : float
        Probability of keeping an entry of weight 0.
    scale : float
        Scale of the moves, in levels.
    thresholds : ndarray of shape (n_kinds,), int
        Probability of keeping an entry of each kind, in units of 2^-52.
    kinds : int or ndarray of shape (n_entries,)
        The kind of each entry.
    moves : ndarray of shape (n_levels, n_levels), int64, or (int, int)
        Integer weights of the moves; for two-sided geometric noise, its rate as a
        fraction.
    outputs : ndarray of shape (n_kinds, n_levels)
        Released number of each output level, in levels.
    means, variances : ndarray of shape (n_kinds, n_levels)
        Mean and variance of the release of each level, in levels.
    """

    domain: SensitivitySet
    n_levels: int
    keep: float
    scale: float
    thresholds: np.ndarray
    kinds: int | np.ndarray
    moves: np.ndarray | tuple[int, int]
    outputs: NDArray[np.float64]
    means: NDArray[np.float64]
    variances: NDArray[np.float64]

    @classmethod
    def from_design(
        cls,
        design: LevelDesign,
        domain: SensitivitySet,
        kinds: NDArray[np.integer] | None,
    ) -> Self:
        """Randomizer of a design, for the entries of a domain."""
        distribution = design.distribution
        scale = 1 / distribution.rate if distribution.rate else math.inf
        if distribution.noise == "gaussian":
            scale = math.sqrt(scale / 2)
        moves = design.moves
        return cls(
            domain,
            distribution.n_levels,
            float(design.keeps.max()) if kinds is None else design.keep,
            scale,
            (design.keeps * _KEEP_TOTAL).astype(np.int64),
            0 if kinds is None else kinds,
            distribution.rate.as_integer_ratio() if moves is None else moves,
            design.outputs,
            *design.moments(),
        )

    @property
    def step(self) -> float | NDArray[np.float64]:
        """Distance of neighbouring levels, in units of the entries."""
        return self.domain.width / (self.n_levels - 1)

    @property
    def noise_variance(self) -> float | NDArray[np.float64]:
        """Largest variance of each entry over its range."""
        squares = self.variances + self.means**2
        # Between two levels, both moments are linear and the variance is a parabola.
        middle = _halfway(squares) - _halfway(self.means) ** 2
        largest = _largest_between(self.variances, middle)
        return columns_of(largest, self.kinds) * self.step**2

    @property
    def expected_squared_error(self) -> float:
        """Largest expected squared error of a sample."""
        levels = np.arange(self.n_levels)
        errors = self.variances + (self.means - levels) ** 2
        squares = self.variances + self.means**2
        between = levels[:-1] + 0.5
        middle = _halfway(squares) - 2 * between * _halfway(self.means) + between**2
        error = columns_of(_largest_between(errors, middle), self.kinds)
        error = np.broadcast_to(error * self.step**2, self.domain.n_entries)
        return float(error.sum())

    def variance(self, samples: NDArray[np.floating]) -> NDArray[np.float64]:
        """Exact variance of every released entry."""
        lower, upper, share = self._levels_around(samples, slice(None))
        kinds = np.broadcast_to(self.kinds, samples.shape[1:])

        def interpolated(moment: NDArray[np.float64]) -> NDArray[np.float64]:
            return moment[kinds, lower] * (1 - share) + moment[kinds, upper] * share

        squares = interpolated(self.variances + self.means**2)
        return (squares - interpolated(self.means) ** 2) * self.step**2

    def randomize(
        self, samples: NDArray[np.floating], streams: NoiseStreams
    ) -> NDArray[np.floating]:
        """Released samples.

        Parameters
        ----------
        samples : ndarray of shape (n_samples, n_entries), float32 or float64
        streams : NoiseStreams

        Returns
        -------
        released : ndarray of the shape and type of `samples`
        """

        def respond(
            block: NDArray[np.floating], bits: np.random.BitGenerator, columns: slice
        ) -> NDArray[np.float64]:
            kinds = columns_of(self.kinds, columns)
            lower, upper, share = self._levels_around(block, columns)
            up = np.random.Generator(bits).random(share.shape) < share
            levels = np.where(up, upper, lower)
            kept = bernoulli(bits, self.thresholds[kinds], _KEEP_TOTAL, levels.shape)
            outputs = np.where(kept, levels, self._moved(levels, bits))
            if not isinstance(self.moves, tuple):
                outputs = self.outputs[np.broadcast_to(kinds, outputs.shape), outputs]
            step = columns_of(self.step, columns)
            return columns_of(self.domain.low, columns) + outputs * step

        return by_tiles(respond, samples, streams)

    def _levels_around(
        self, block: NDArray[np.floating], columns: slice
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Levels below and above each value, and its place between them in [0, 1]."""
        position = self.domain.clip(block, columns, None)
        position -= columns_of(self.domain.low, columns)
        position /= columns_of(self.step, columns)
        lower = np.clip(np.floor(position), 0, self.n_levels - 2).astype(np.int64)
        return lower, lower + 1, np.clip(position - lower, 0, 1)

    def _moved(
        self, levels: NDArray[np.int64], bits: np.random.BitGenerator
    ) -> NDArray[np.int64]:
        """Levels after a random move."""
        if isinstance(self.moves, tuple):
            noise = discrete_laplace(bits, *self.moves, levels.size)
            return levels + noise.reshape(levels.shape)
        return categorical(bits, self.moves, levels.ravel()).reshape(levels.shape)


def _halfway(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of neighbouring columns."""
    return (values[:, 1:] + values[:, :-1]) / 2


def _largest_between(
    ends: NDArray[np.float64], middle: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Largest value of each row of parabolas, given by their ends and middles."""
    left, right = ends[:, :-1], ends[:, 1:]
    # The parabola on [0, 1] is left + slope t + 2 bend t (1 - t).
    bend = 2 * middle - left - right
    slope = right - left
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.clip(0.5 + slope / (4 * bend), 0, 1)
    t = np.where(bend > 0, t, 0.5)
    inside = left + slope * t + 2 * bend * t * (1 - t)
    return np.maximum(ends.max(axis=1), inside.max(axis=1))
