"""Scores of completions on units that they were not fitted to."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["make_fold_in_scorer"]


def make_fold_in_scorer(
    scoring: str = "neg_root_mean_squared_error",
    *,
    history: float = 0.8,
    random_state: int = 0,
) -> Callable[[Any, ArrayLike, ArrayLike], float]:
    """Scorer of models that protect units, on units that the model has not seen.

    Of the entries of held-out units, some are their history: they are folded in, and
    the others are predicted. So a search with whole units held out, such as
    ``GridSearchCV(..., cv=GroupKFold(), scoring=make_fold_in_scorer())`` with
    ``groups=X[:, 0]``, measures what a new unit gets. The scorer itself is not private:
    scores are computed from raw values.

    Parameters
    ----------
    scoring : str, default="neg_root_mean_squared_error"
        Name of one of scikit-learn's scorers.
    history : float, default=0.8
        Share of the entries to fold in, between 0 and 1.
    random_state : int, default=0
        Which entries these are.

    Returns
    -------
    scorer : callable
        Takes a fitted estimator, or a pipeline that ends with one, coordinates and
        values. It leaves the estimator as it is.

    Raises
    ------
    ValueError
        If `history` is not between 0 and 1.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV, GroupKFold
    >>> from sktensordp.completion import CPCompletion, make_fold_in_scorer
    >>> from sktensordp.datasets import make_ratings
    >>> ratings = make_ratings(n_users=90, n_items=40, n_ratings=2000, random_state=0)
    >>> model = CPCompletion(
    ...     rank=0, unit=0, levels=ratings.levels, shape=ratings.shape, random_state=0
    ... )
    >>> search = GridSearchCV(
    ...     model, {"epsilon": [1.0, 8.0]}, cv=GroupKFold(3),
    ...     scoring=make_fold_in_scorer(),
    ... )
    >>> search = search.fit(ratings.data, ratings.target, groups=ratings.data[:, 0])
    >>> search.best_params_
    {'epsilon': 8.0}
    """
    if not 0 < history < 1:
        raise ValueError(f"history must be between 0 and 1, got {history}.")
    return _FoldInScorer(scoring, history, random_state)


class _FoldInScorer:
    """A scorer that processes can be sent."""

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
        if isinstance(estimator, Pipeline):
            X, model = estimator[:-1].transform(X), estimator[-1]
        X, y = np.asarray(X), np.asarray(y)
        drawn = np.random.default_rng(self._random_state).random(len(y))
        known = drawn < self._history
        # A copy has rows of its own, and shares what was released.
        model = copy.copy(model).fold_in(X[known], y[known])
        return self._scorer(model, X[~known], y[~known])
