"""Scores that may tell the outputs on two inputs apart.

A score maps outputs, one per row, to numbers. The audit then looks for the threshold
that proves the most. Scores that learn are fitted to outputs that serve no other
purpose.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Score", "candidate_scores"]

_MOST_COLUMNS = 200
_MOST_TRAINING_ROWS = 20_000


@dataclass(frozen=True)
class Score:
    """A named function from outputs of shape (n, d) to scores of shape (n,)."""

    name: str
    function: Any

    def __call__(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(all="ignore"):
            values = np.asarray(self.function(outputs), dtype=float)
        return np.nan_to_num(values, nan=-1e308, posinf=1e308, neginf=-1e308)


def candidate_scores(
    zeros: NDArray[np.float64],
    ones: NDArray[np.float64],
    x: NDArray[np.float64] | None,
    x_neighbour: NDArray[np.float64] | None,
) -> list[Score]:
    """Scores to try, fitted to outputs on the two inputs.

    Parameters
    ----------
    zeros, ones : ndarray of shape (n, d)
        Outputs on `x` and on `x_neighbour`.
    x, x_neighbour : ndarray or None
        The inputs, flattened; None unless they have the size of an output.

    Returns
    -------
    scores : list of Score
    """
    scores = [
        Score("sum of the output", lambda y: y.sum(axis=1)),
        Score("norm of the output", lambda y: np.linalg.norm(y, axis=1)),
        Score("largest magnitude", lambda y: np.abs(y).max(axis=1)),
        Score("spread of the output", lambda y: y.std(axis=1)),
        Score("lowest set bit", _lowest_bit),
    ]
    if zeros.shape[1] <= _MOST_COLUMNS:
        scores.append(_linear(zeros, ones))
    if x is not None and x_neighbour is not None:
        scores += _scores_of_inputs(x, x_neighbour)
    scores += _frequency(zeros, ones)
    scores.append(_classifier(zeros, ones, list(scores)))
    return scores


def _scores_of_inputs(
    x: NDArray[np.float64], x_neighbour: NDArray[np.float64]
) -> list[Score]:
    """Distances from the inputs, and whether an output can be an input plus noise."""
    changed = np.flatnonzero(x != x_neighbour)
    old, new = x[changed], x_neighbour[changed]
    direction = (new - old) / np.linalg.norm(new - old)
    scores = [
        Score("projection on the difference", lambda y: y[:, changed] @ direction),
        Score("distance to x", lambda y: np.abs(y - x).sum(axis=1)),
        Score("distance to x'", lambda y: np.abs(y - x_neighbour).sum(axis=1)),
    ]
    for name, value in (("x", old), ("x'", new)):
        scores += [
            Score(
                f"number of entries equal to {name}",
                lambda y, v=value: (y[:, changed] == v).sum(axis=1),
            ),
            # Not every float is the rounded sum of the input and some noise.
            Score(
                f"number of entries y with (y - {name}) + {name} != y in floats",
                lambda y, v=value: ((y[:, changed] - v) + v != y[:, changed]).sum(1),
            ),
        ]
    return scores


def _lowest_bit(outputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Exponent of the lowest set bit, minimum over the entries of an output."""
    fraction, exponent = np.frexp(outputs)
    mantissa = np.abs(fraction * 2.0**53).astype(np.int64)
    lowest = np.log2((mantissa & -mantissa).astype(float))
    return np.where(outputs == 0, np.inf, exponent - 53 + lowest).min(axis=1)


def _linear(zeros: NDArray[np.float64], ones: NDArray[np.float64]) -> Score:
    """Fisher's discriminant; the tiny ridge keeps exact linear relations visible."""
    difference = ones.mean(axis=0) - zeros.mean(axis=0)
    centered = np.concatenate([zeros - zeros.mean(axis=0), ones - ones.mean(axis=0)])
    covariance = centered.T @ centered / len(centered)
    ridge = 1e-12 * max(np.trace(covariance), 1e-300) / len(covariance)
    direction = np.linalg.lstsq(
        covariance + ridge * np.eye(len(covariance)), difference, rcond=None
    )[0]
    return Score("linear discriminant", lambda y: y @ direction)


def _frequency(zeros: NDArray[np.float64], ones: NDArray[np.float64]) -> list[Score]:
    """For discrete outputs, the log ratio of the frequencies of each exact output."""
    if len(np.unique(zeros[:1000], axis=0)) > 500:
        return []
    both = np.concatenate([zeros, ones])
    values, where = np.unique(both, axis=0, return_inverse=True)
    where = where.ravel()
    counts = [
        np.bincount(arm, minlength=len(values)) + 0.5
        for arm in (where[: len(zeros)], where[len(zeros) :])
    ]
    ratios = np.log(counts[1] / counts[0])
    table = {v.tobytes(): r for v, r in zip(values, ratios, strict=True)}

    def function(outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        rows = np.ascontiguousarray(outputs)
        return np.array([table.get(row.tobytes(), 0.0) for row in rows])

    return [Score("frequency of the exact output", function)]


def _classifier(
    zeros: NDArray[np.float64], ones: NDArray[np.float64], scores: Sequence[Score]
) -> Score:
    """A boosted classifier of the outputs and of the other scores."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    def features(outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        columns = [score(outputs) for score in scores]
        return np.column_stack([outputs[:, :_MOST_COLUMNS], *columns])

    classifier = HistGradientBoostingClassifier(
        max_iter=40, max_leaf_nodes=8, early_stopping=False, random_state=0
    )
    zeros, ones = zeros[:_MOST_TRAINING_ROWS], ones[:_MOST_TRAINING_ROWS]
    labels = np.repeat([0, 1], [len(zeros), len(ones)])
    classifier.fit(features(np.concatenate([zeros, ones])), labels)
    return Score(
        "learned classifier", lambda y: classifier.decision_function(features(y))
    )
