"""Scores of rows, clipped to a declared range and rounded to integer steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, is_classifier
from sklearn.metrics import get_scorer

from ..ids import are_equal, one_each
from ..recommend._scoring import FoldInScorer, RankingScorer
from ._clean_scorer import CleanScorer
from ._plan import steps_of

# The score of a row is rounded to this many steps over the declared range.
STEPS = 2**20


@dataclass(frozen=True)
class RowScore:
    """One score per row, clipped to a declared range.

    Parameters
    ----------
    of_rows : callable
        Takes a fitted estimator, X and y, and returns one score per row. Higher is
        better.
    bounds : tuple of (float, float)
        Range to which the scores of rows are clipped.
    root : bool, default=False
        Whether to report minus the root of minus the mean instead of the mean.
    """

    of_rows: Callable[[Any, ArrayLike, ArrayLike], ArrayLike]
    bounds: tuple[float, float]
    root: bool = False

    def steps(
        self, estimator: BaseEstimator, X: ArrayLike, y: ArrayLike
    ) -> NDArray[np.int64]:
        """Scores of the rows, as numbers of steps above the lower bound."""
        low, high = self.bounds
        if not np.shape(X)[0]:
            return np.zeros(0, dtype=np.int64)
        scores = _numbers(self.of_rows(estimator, X, y))
        if scores.shape != (np.shape(X)[0],):
            raise ValueError("The scoring function must return one score for each row.")
        clipped = np.clip(np.nan_to_num(scores, nan=low), low, high)
        return np.rint((clipped - low) / (high - low) * STEPS).astype(np.int64)

    def reported(self, mean_steps: float) -> float:
        """Turn a mean number of steps into the score to report."""
        low, high = self.bounds
        mean = low + mean_steps / STEPS * (high - low)
        return -float(np.sqrt(max(-mean, 0.0))) if self.root else float(mean)


def row_score(scoring: Any, bounds: Any, estimator: BaseEstimator) -> RowScore:
    """Row scores for a `scoring` name or function.

    Raises
    ------
    ValueError
        If the named score is not a mean over rows, or its range is missing or invalid.
    """
    if scoring is None:
        scoring = "accuracy" if is_classifier(estimator) else "neg_mean_squared_error"
    root = scoring == "neg_root_mean_squared_error"
    of_all_rows = (
        type(get_scorer("accuracy")), CleanScorer, FoldInScorer, RankingScorer,
    )  # fmt: skip
    if callable(scoring) and not isinstance(scoring, of_all_rows):
        of_rows, default_bounds = scoring, None
    elif isinstance(scoring, str) and scoring in _SCORES:
        of_rows, default_bounds = _SCORES[scoring]
    else:
        raise ValueError(
            f"scoring must be one of {sorted(_SCORES)}, or a function of a fitted "
            f"estimator, X and y that returns one score for every row. The sensitivity "
            f"of a score that is not a mean over rows is unknown."
        )
    if bounds is None:
        bounds = default_bounds
    if bounds is None:
        bounds = _error_bounds(scoring, steps_of(estimator)[-1])
    if bounds is None:
        raise ValueError(
            "score_bounds is not declared. Pass the range to which the score of a row "
            "is clipped, such as (-4, 0) for minus a squared error."
        )
    try:
        low, high = map(float, bounds)
    except (OverflowError, TypeError, ValueError):
        raise ValueError("score_bounds must be a pair of numbers.") from None
    if not (low < high and np.isfinite(high - low)):
        raise ValueError("score_bounds must be two finite numbers, the lower first.")
    if root and high > 0:
        raise ValueError("score_bounds of minus a squared error must be at most 0.")
    return RowScore(of_rows, (low, high), root)


def _error_bounds(
    scoring: object, estimator: BaseEstimator
) -> tuple[float, float] | None:
    """Range of minus an error, if the estimator declares the range of the values."""
    bounds = getattr(estimator, "value_bounds", None)
    levels = getattr(estimator, "levels", None)
    if bounds is None and levels is not None:
        bounds = np.min(levels), np.max(levels)
    if bounds is None or callable(scoring):
        return None
    width = float(bounds[1]) - float(bounds[0])
    return (-width if scoring == "neg_mean_absolute_error" else -width * width), 0.0


def _accuracy(
    estimator: BaseEstimator, X: ArrayLike, y: ArrayLike
) -> NDArray[np.bool_]:
    # Each label is compared by itself: in an array, a label of another type would
    # change all.
    return are_equal(one_each(estimator.predict(X), "y"), one_each(y, "y"))


def _numbers(values: ArrayLike) -> NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        pass
    # Raised outside the handler: NumPy's message quotes a value.
    raise ValueError(
        "Scores must be numbers, and an error needs numeric targets and predictions."
    )


def _squared(
    estimator: BaseEstimator, X: ArrayLike, y: ArrayLike
) -> NDArray[np.float64]:
    return -((_numbers(estimator.predict(X)) - _numbers(y)) ** 2)


def _absolute(
    estimator: BaseEstimator, X: ArrayLike, y: ArrayLike
) -> NDArray[np.float64]:
    return -np.abs(_numbers(estimator.predict(X)) - _numbers(y))


_SCORES = {
    "accuracy": (_accuracy, (0.0, 1.0)),
    "neg_mean_absolute_error": (_absolute, None),
    "neg_mean_squared_error": (_squared, None),
    "neg_root_mean_squared_error": (_squared, None),
}
