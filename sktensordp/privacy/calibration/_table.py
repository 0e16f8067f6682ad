"""Unbiased randomisation of a value on a public scale, by a table of integers.

A channel draws an output symbol y with probability Q[x, y] when the value is level
x. It is epsilon-locally private when Q[x, y] <= e^epsilon Q[x', y] for all x, x', y,
and unbiased when the mean output at every level is the level. A linear programme finds
the channel of least average variance under a public prior, among those whose outputs
lie on a grid. Its rows are then mixed with their average, just enough to keep the
budget exactly, and rounded to integer weights. The realised epsilon is computed from
these weights.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

# Probabilities of the outputs, with a row for each level; and the outputs.
_Channel = tuple[NDArray[np.float64], NDArray[np.float64]]

# Beyond this, the programme is ill-conditioned. Its solution at this epsilon remains a
# candidate, besides k-ary response, which is about as good.
_LARGEST_PROGRAMME_EPSILON = 8.0
# The largest log odds that 60-bit weights can tell from certainty.
_LARGEST_EPSILON = 35.0
_SMALLEST_EPSILON = 1e-9
_TOTAL = 2**60
_N_GRID = 81
_SMALLEST_MASS = 1e-9
# Relative margin below the budget, which leaves room for rounding to integers.
_MARGIN = 1e-7


@dataclass(frozen=True)
class LevelTable:
    """A table that randomises a value on a scale of levels.

    Attributes
    ----------
    levels : tuple of float
        The scale, ascending.
    outputs : tuple of float
        The value of each output symbol.
    weights : tuple of tuple of int
        Row x holds the weights of the symbols when the value is ``levels[x]``; all
        rows have the same sum.
    """

    levels: tuple[float, ...]
    outputs: tuple[float, ...]
    weights: tuple[tuple[int, ...], ...]

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """The channel: ndarray of shape (n_levels, n_outputs)."""
        return np.array(self.weights, dtype=float) / sum(self.weights[0])

    @property
    def in_order(self) -> NDArray[np.float64]:
        """The channel, with its outputs ascending."""
        return self.probabilities[:, np.argsort(self.outputs)]

    @property
    def level_variances(self) -> NDArray[np.float64]:
        """Variance of the output at each level: ndarray of shape (n_levels,)."""
        spread = np.subtract.outer(np.array(self.levels), np.array(self.outputs))
        return (self.probabilities * spread**2).sum(axis=1)


@lru_cache(maxsize=64)
def level_table(
    levels: tuple[float, ...], epsilon: float, prior: tuple[float, ...] | None = None
) -> LevelTable:
    """Table of least average variance for values on `levels` under pure `epsilon`.

    Parameters
    ----------
    levels : tuple of float
        At least two, strictly ascending.
    epsilon : float
        The budget, finite and positive.
    prior : tuple of float, default=None
        Public probabilities of the levels, which weight their variances in the average;
        uniform by default.

    Returns
    -------
    table : LevelTable
        Its realised epsilon is at most `epsilon`.

    Raises
    ------
    ValueError
        If `epsilon` is too small for integer weights.
    """
    if epsilon < _SMALLEST_EPSILON:
        raise ValueError(f"epsilon = {epsilon} is too small to be represented.")
    values = np.array(levels)
    weights = np.full(len(values), 1 / len(values)) if prior is None else prior
    weights = np.asarray(weights, dtype=float)
    budget = min(epsilon, _LARGEST_EPSILON) * (1 - _MARGIN)
    # On the scale of the programme the levels span [-1, 1].
    middle, half = (values[0] + values[-1]) / 2, (values[-1] - values[0]) / 2
    scaled = (values - middle) / half
    channels = [_k_ary(scaled, budget), _two_point(scaled, budget)]
    channels += _programme(scaled, min(budget, _LARGEST_PROGRAMME_EPSILON), weights)
    channels = [_within_budget(*channel, budget) for channel in channels]
    channels.sort(key=lambda c: weights @ (c[0] * (scaled[:, None] - c[1]) ** 2).sum(1))
    for channel, outputs in channels:
        integers = _to_integers(channel)
        # Rounding raises epsilon noticeably if a symbol is rare and the budget small.
        if _realised_epsilon(integers) <= epsilon:
            return LevelTable(
                levels=tuple(levels),
                outputs=tuple((middle + half * outputs).tolist()),
                weights=integers,
            )
    raise ValueError(f"epsilon = {epsilon} is too small to be represented.")


def _k_ary(levels: NDArray[np.float64], epsilon: float) -> _Channel:
    """K-ary randomised response, debiased: outputs spread around the mean level."""
    k = len(levels)
    stretch = (math.exp(epsilon) + k - 1) / math.expm1(epsilon)
    channel = np.ones((k, k)) + np.eye(k) * math.expm1(epsilon)
    center = levels.mean()
    return channel / (math.exp(epsilon) + k - 1), center + stretch * (levels - center)


def _two_point(levels: NDArray[np.float64], epsilon: float) -> _Channel:
    """Duchi, Jordan and Wainwright's two-point channel on [-1, 1]."""
    reach = 1 / math.tanh(epsilon / 2)
    up = 0.5 + levels / (2 * reach)
    return np.stack([1 - up, up], axis=1), np.array([-reach, reach])


def _programme(
    levels: NDArray[np.float64], epsilon: float, prior: NDArray[np.float64]
) -> list[_Channel]:
    """The linear programme: Q[x, y] = t[y] + s[x, y], 0 <= s <= (e^epsilon - 1) t."""
    k = len(levels)
    _, debiased = _k_ary(levels, epsilon)
    _, duchi = _two_point(levels, epsilon)
    reach = 1.25 * np.abs(debiased).max()
    outputs = np.unique(
        np.concatenate([np.linspace(-reach, reach, _N_GRID), debiased, duchi])
    )
    m = len(outputs)
    # Variables: s row by row (k * m), then t (m).
    ones, each_row = np.ones((k, 1)), sparse.eye_array(k)
    total = sparse.hstack(
        [sparse.kron(each_row, np.ones((1, m))), sparse.csr_array(ones * np.ones(m))]
    )
    mean = sparse.hstack(
        [sparse.kron(each_row, outputs[np.newaxis]), sparse.csr_array(ones * outputs)]
    )
    bound = sparse.hstack(
        [
            sparse.eye_array(k * m),
            -math.expm1(epsilon) * sparse.kron(ones, sparse.eye_array(m)),
        ]
    )
    spread = prior[:, np.newaxis] * (levels[:, np.newaxis] - outputs) ** 2
    solution = linprog(
        np.concatenate([spread.ravel(), spread.sum(axis=0)]),
        A_ub=bound.tocsr(),
        b_ub=np.zeros(k * m),
        A_eq=sparse.vstack([total, mean]).tocsr(),
        b_eq=np.concatenate([np.ones(k), levels]),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10},
    )
    if solution.status != 0:
        return []
    s, t = solution.x[: k * m].reshape(k, m), solution.x[k * m :]
    channel = np.maximum(s, 0) + np.maximum(t, 0)
    kept = channel.max(axis=0) > _SMALLEST_MASS
    channel = channel[:, kept]
    return [(channel / channel.sum(axis=1, keepdims=True), outputs[kept])]


def _within_budget(
    channel: NDArray[np.float64], outputs: NDArray[np.float64], epsilon: float
) -> _Channel:
    """Mix the rows with their average until every ratio is within e^epsilon.

    Let h be the share of the average row c. A column with largest entry M and smallest
    entry m has a ratio within R once h c (R - 1) >= (1 - h) (M - R m). The mean output
    becomes (1 - h) level + h mean(c), which new outputs undo.
    """
    ratio = math.exp(epsilon)
    average = channel.mean(axis=0)
    excess = np.maximum(channel.max(axis=0) - ratio * channel.min(axis=0), 0)
    share = np.max(excess / (excess + average * (ratio - 1)))
    mixed = (1 - share) * channel + share * average
    return mixed, (outputs - share * (average @ outputs)) / (1 - share)


def _to_integers(channel: NDArray[np.float64]) -> tuple[tuple[int, ...], ...]:
    """Integer weights with the same sum in every row.

    They are rounded up, which lowers the ratios; the largest weight of each row is
    lowered to restore the sum.
    """
    rows = []
    for row in channel:
        weights = [math.ceil(p * _TOTAL) for p in row.tolist()]
        weights[int(np.argmax(row))] += _TOTAL - sum(weights)
        rows.append(tuple(weights))
    return tuple(rows)


def _realised_epsilon(weights: tuple[tuple[int, ...], ...]) -> float:
    """Largest log ratio of two weights in the same column."""
    ends = [(max(column), min(column)) for column in zip(*weights, strict=True)]
    if any(low == 0 < high for high, low in ends):
        return math.inf
    return max(math.log1p((high - low) / low) for high, low in ends if high)
