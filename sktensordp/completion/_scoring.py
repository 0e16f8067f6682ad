"""Scores of completions on held-out units."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._sides import below, columns_of, hashes
from .._sklearn_compat import safe_indexing
from .._validation import check_same_length


def make_fold_in_scorer(
    scoring: str = "neg_root_mean_squared_error",
    *,
    history: float = 0.8,
    random_state: int = 0,
) -> Callable[[Any, ArrayLike, ArrayLike], float]:
    """Make a scorer that tests a completion on held-out units, such as users.

    The scorer is for completions that protect units (``unit=0``, for example). It folds
    in a random share of the held-out units' entries (their history) and scores the
    predictions of the other entries. If whole units are held out, as by
    ``GridSearchCV(..., cv=UserKFold(), scoring=make_fold_in_scorer())``, the score is
    what a new unit can expect. The scorer is not private: it computes scores from raw
    values.

    Parameters
    ----------
    scoring : str, default="neg_root_mean_squared_error"
        Name of a scikit-learn scorer.
    history : float, default=0.8
        Probability with which an entry is folded in, between 0 and 1.
    random_state : int, default=0
        Seed for the choice of these entries, by a hash of their coordinates: no unit
        decides which entries of another unit are folded in.

    Returns
    -------
    scorer : callable
        Takes a fitted completion (or a pipeline that ends with one) and coordinates, or
        a fitted `Recommender` and a table of ids; and values. It does not change the
        model. If no entry is left to predict, the score is NaN.

    Raises
    ------
    ValueError
        If `history` is not between 0 and 1.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sktensordp.completion import CPCompletion, make_fold_in_scorer
    >>> from sktensordp.datasets import make_ratings
    >>> from sktensordp.model_selection import UserKFold
    >>> ratings = make_ratings(n_users=90, n_items=40, n_ratings=2000, random_state=0)
    >>> model = CPCompletion(
    ...     rank=0, unit=0, levels=ratings.levels, shape=ratings.shape, random_state=0
    ... )
    >>> search = GridSearchCV(
    ...     model, {"epsilon": [1.0, 8.0]}, cv=UserKFold(3, random_state=0),
    ...     scoring=make_fold_in_scorer(),
    ... )
    >>> search = search.fit(ratings.data, ratings.target)
    >>> search.best_params_
    {'epsilon': 8.0}
    """
    if not 0 < history < 1:
        raise ValueError(f"history must be between 0 and 1, got {history}.")
    return _FoldInScorer(scoring, history, random_state)


class _FoldInScorer:
    """A scorer that can be pickled."""

    def __init__(self, scoring: str, history: float, random_state: int) -> None:
        from sklearn.metrics import get_scorer

        self._scorer = get_scorer(scoring)
        self._history, self._random_state = history, random_state

    def __repr__(self) -> str:
        return (
            f"make_fold_in_scorer({self._scorer!r}, history={self._history}, "
            f"random_state={self._random_state})"
        )

    def __call__(self, estimator: Any, X: ArrayLike, y: ArrayLike) -> float:
        from sklearn.pipeline import Pipeline

        model = estimator
        check_same_length(X, y)
        # The ids themselves decide, not what an encoder learned to call them.
        is_history = below(hashes(columns_of(X), self._random_state), self._history)
        if isinstance(estimator, Pipeline):
            X, model = estimator[:-1].transform(X), estimator[-1]
        if np.all(is_history):
            return np.nan
        folded_in, scored = np.flatnonzero(is_history), np.flatnonzero(~is_history)
        # A shallow copy: folding in leaves the rows of the original alone.
        model = copy.copy(model).fold_in(*_rows(X, y, folded_in))
        return self._scorer(model, *_rows(X, y, scored))


def _rows(X: Any, y: Any, rows: NDArray[np.intp]) -> tuple[Any, Any]:
    """Some rows; data frames stay data frames."""
    return safe_indexing(X, rows), safe_indexing(y, rows)
