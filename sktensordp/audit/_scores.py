"""Scores that may tell the outputs on two inputs apart.

A score maps outputs, one per row, to numbers. The audit then looks for the threshold
that proves the most. Scores that learn are fitted to outputs that serve no other
purpose.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

_MOST_COLUMNS = 200
_MOST_COLUMNS_OF_PATTERNS = 100
_MOST_SPECIAL = 8
_LEAST_TRAINING_ROWS, _MOST_TRAINING_ROWS = 20, 50_000


@dataclass(frozen=True)
class Score:
    """A named function from outputs of shape (n, d) to scores of shape (n,)."""

    name: str
    function: Callable[..., ArrayLike]

    def __call__(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(all="ignore"):
            values = np.asarray(self.function(outputs), dtype=float)
        return np.nan_to_num(values, nan=-1e308, posinf=1e308, neginf=-1e308)


def mean_score(first: Score, second: Score) -> Score:
    """The mean of two scores of the same name, fitted to different outputs."""
    return replace(first, function=lambda y: (first(y) + second(y)) / 2)


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
        The inputs, flattened, and repeated if an output has several numbers for each
        entry; None if their size does not divide that of an output.

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
    patterns = Patterns(np.concatenate([zeros, ones]))
    if len(zeros) >= _LEAST_TRAINING_ROWS:
        scores += _pattern_scores(patterns, zeros, ones)
        if x is not None and x_neighbour is not None and zeros.shape[1] > 1:
            scores.append(_along_difference(patterns, zeros, ones, x, x_neighbour))
        scores.append(_classifier(zeros, ones, patterns, list(scores)))
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


class Patterns:
    """Which entries of an output are special values, and what the others are.

    A special value is one that many outputs repeat exactly, such as -1000 for "below
    the threshold". If all values are special, the outputs are categories.
    """

    def __init__(self, outputs: NDArray[np.float64]) -> None:
        sample = outputs[:: max(1, len(outputs) // 4000)]
        self.special = _repeated_values(sample)
        others = np.where(np.isin(sample, self.special), np.nan, sample)
        self.columns = np.flatnonzero(~np.isnan(others).all(axis=0))
        # Quartiles of the other values, and of the differences between neighbours.
        self.cuts = _quartiles(others[:, self.columns])
        self.has_differences = len(self.columns) > 1 and len(self.special) == 0
        if self.has_differences:
            self.cuts_of_differences = _quartiles(np.diff(sample, axis=1))

    def summaries(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """How often and where each special value occurs, and sums of the others."""
        if len(self.special) == 0 or outputs.shape[1] == 1:
            return np.empty((len(outputs), 0))
        found = [outputs == value for value in self.special]
        other = ~np.logical_or.reduce(found)
        columns = []
        for mask in (*found, other):
            columns += [mask.sum(axis=1), _first(mask), _first(mask[:, ::-1])]
        if len(self.columns):
            values = np.where(other, outputs, 0.0)
            columns += [
                values.sum(axis=1),
                np.where(other, outputs, np.inf).min(axis=1, initial=1e300),
                np.where(other, outputs, -np.inf).max(axis=1, initial=-1e300),
            ]
        return np.column_stack(columns).astype(float)

    def along_difference(
        self,
        outputs: NDArray[np.float64],
        x: NDArray[np.float64],
        x_neighbour: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Where each special value occurs, along x' - x, and how near the others are.

        The last column sums, over all other entries y, |y - x| - |y - x'|, to which the
        log likelihood ratio of Laplace noise is proportional.
        """
        found = [outputs == value for value in self.special]
        other = ~np.isin(outputs, self.special)
        nearer = np.abs(outputs - x) - np.abs(outputs - x_neighbour)
        columns = [mask @ (x_neighbour - x) for mask in (*found, other)]
        return np.column_stack([*columns, np.where(other, nearer, 0.0).sum(axis=1)])

    def indicators(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """0 or 1: which entry has which special value, or exceeds which quartile."""
        parts = [outputs == value for value in self.special]
        other = ~np.isin(outputs[:, self.columns], self.special)
        for cut in self.cuts:
            parts.append(other & (outputs[:, self.columns] > cut))
        if len(self.special):
            parts.append(other)
        if self.has_differences:
            differences = np.diff(outputs, axis=1)
            parts += [differences > cut for cut in self.cuts_of_differences]
        return np.concatenate(parts, axis=1).astype(float)


def _repeated_values(outputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values that at least one in a hundred entries of a column repeats."""
    frequent: dict[float, float] = {}
    for column in outputs.T:
        values, counts = np.unique(column, return_counts=True)
        often = counts >= max(3, len(outputs) / 100)
        for value, count in zip(values[often], counts[often], strict=True):
            frequent[value] = frequent.get(value, 0) + count
    ranked = sorted(frequent, key=lambda value: -frequent[value])
    return np.array(sorted(ranked[:_MOST_SPECIAL]))


def _quartiles(values: NDArray[np.float64]) -> NDArray[np.float64]:
    if values.shape[1] == 0:
        return np.empty((0, 0))
    return np.nanquantile(values, (0.25, 0.5, 0.75), axis=0)


def _first(mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Position of the first true entry of each row; the number of columns if none."""
    return np.where(mask.any(axis=1), mask.argmax(axis=1), mask.shape[1])


def _training_rows(
    zeros: NDArray[np.float64], ones: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int_]]:
    """Outputs that train a score, and the input to which each of them belongs."""
    arms = zeros[:_MOST_TRAINING_ROWS], ones[:_MOST_TRAINING_ROWS]
    return np.concatenate(arms), np.repeat([0, 1], [len(arm) for arm in arms])


def _pattern_scores(
    patterns: Patterns, zeros: NDArray[np.float64], ones: NDArray[np.float64]
) -> list[Score]:
    """Scores learned from patterns: a logistic regression, and a few boosted trees."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    columns = zeros.shape[1]
    if columns == 1 or columns > _MOST_COLUMNS_OF_PATTERNS:
        return []

    def features(outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        return patterns.indicators(outputs) - 0.5

    outputs, labels = _training_rows(zeros, ones)
    regression = LogisticRegression(C=0.05, tol=1e-3).fit(features(outputs), labels)
    scores = [
        Score(
            "logistic regression on the pattern",
            lambda y: regression.decision_function(features(y)),
        )
    ]
    summaries = patterns.summaries(outputs)
    if summaries.shape[1]:
        # Small trees with large leaves: they find weak effects of few columns.
        trees = HistGradientBoostingClassifier(
            max_iter=30,
            max_leaf_nodes=4,
            early_stopping=False,
            random_state=0,
            min_samples_leaf=max(20, len(labels) // 100),
        ).fit(summaries, labels)
        scores.append(
            Score(
                "classifier of the pattern",
                lambda y: trees.decision_function(patterns.summaries(y)),
            )
        )
    return scores


def _along_difference(
    patterns: Patterns,
    zeros: NDArray[np.float64],
    ones: NDArray[np.float64],
    x: NDArray[np.float64],
    x_neighbour: NDArray[np.float64],
) -> Score:
    """A logistic regression on a few numbers, for which few outputs suffice."""
    from sklearn.linear_model import LogisticRegression

    outputs, labels = _training_rows(zeros, ones)
    columns = patterns.along_difference(outputs, x, x_neighbour)
    spread = columns.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    regression = LogisticRegression(C=0.05, tol=1e-3).fit(columns / scale, labels)

    def function(outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        columns = patterns.along_difference(outputs, x, x_neighbour)
        return regression.decision_function(columns / scale)

    return Score("logistic regression along the difference of the inputs", function)


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
    zeros: NDArray[np.float64],
    ones: NDArray[np.float64],
    patterns: Patterns,
    scores: Sequence[Score],
) -> Score:
    """A boosted classifier of the outputs, their patterns and the other scores."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    def features(outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        columns = [score(outputs) for score in scores]
        summaries = patterns.summaries(outputs)
        return np.column_stack([outputs[:, :_MOST_COLUMNS], summaries, *columns])

    classifier = HistGradientBoostingClassifier(
        max_iter=40, max_leaf_nodes=8, early_stopping=False, random_state=0
    )
    outputs, labels = _training_rows(zeros, ones)
    classifier.fit(features(outputs), labels)
    return Score(
        "learned classifier", lambda y: classifier.decision_function(features(y))
    )
