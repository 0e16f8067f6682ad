"""Scores of completions on held-out units, and of recommendations."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from .._sklearn_compat import safe_indexing
from .._validation import check_same_length
from ..completion._checks import check_same_shape, entries_from_sparse, is_sparse
from ..completion._entries import check_values, is_observed
from ..completion._ranking import checked_count
from ..ids._folds import below, columns_of, hashes
from ._recommender import Recommender

_METRICS = ("recall", "ndcg")
# Shares that tell whether users, or their rows, were in the fit.
_MOST = 0.9


def make_fold_in_scorer(
    scoring: str = "neg_root_mean_squared_error",
    *,
    fold_in_fraction: float = 0.8,
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
    fold_in_fraction : float, default=0.8
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
        If `fold_in_fraction` is not between 0 and 1. The scorer itself raises it if the
        model knows the users from its fit, by other rows, as with `ItemHoldout`.

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
    if not 0 < fold_in_fraction < 1:
        raise ValueError(
            f"fold_in_fraction must be between 0 and 1, got {fold_in_fraction}."
        )
    from sklearn.metrics import get_scorer

    return FoldInScorer(get_scorer(scoring), fold_in_fraction, random_state)


@dataclass(frozen=True)
class FoldInScorer:
    """A scorer that can be pickled; see `make_fold_in_scorer`."""

    scorer: Callable[..., float]
    fold_in_fraction: float
    random_state: int

    def __call__(self, estimator: BaseEstimator, X: ArrayLike, y: ArrayLike) -> float:
        model = estimator
        check_same_length(X, y)
        X, y = _observed(estimator, X, y)
        # The ids themselves decide, not the indices that an encoder gave them.
        is_history = below(
            hashes(columns_of(X), self.random_state), self.fold_in_fraction
        )
        if isinstance(estimator, Pipeline):
            X, model = estimator[:-1].transform(X), estimator[-1]
        if np.all(is_history):
            return np.nan
        where = X
        if isinstance(estimator, Recommender):
            where = estimator._where(estimator._fitted, X)
        if getattr(model, "unit", 0) in (0, "entry"):
            _check_history(model, np.asarray(where)[:, :2], folds_in=True)
        model = _with_history(model, X, y, is_history)
        return self.scorer(model, *_rows(X, y, ~is_history))


def make_ranking_scorer(
    metric: str = "recall",
    k: int = 20,
    fold_in_fraction: float = 0.8,
    *,
    random_state: int = 0,
) -> RankingScorer:
    """Make a scorer that counts how many held-out items are recommended.

    The scorer folds in a share of each test user's items (the history) and lets the
    model recommend `k` items that are not in the history. The user's other items should
    be among them. The score is the mean over users who have other items.

    If whole users are held out, as by `UserHoldout`, keep `fold_in_fraction` above 0.
    If some items of every user are held out, as by `ItemHoldout`, pass
    ``fold_in_fraction=0``: the model knows the users from its fit.

    Parameters
    ----------
    metric : {"recall", "ndcg"}, default="recall"
        "recall" is the share of a user's held-out items that are among the first `k`.
        "ndcg" is the sum of 1 / log2(1 + place) over those items, divided by the
        largest sum that this number of held-out items can reach within `k`.
    k : int, default=20
        Number of items to recommend.
    fold_in_fraction : float, default=0.8
        Probability with which a user's item is folded in, at least 0 and below 1.
    random_state : int, default=0
        Seed for the choice of these items, by a hash of user and item: no user decides
        which items of another user are folded in.

    Returns
    -------
    scorer : callable
        Takes a fitted completion (or a pipeline that ends with one) or `Recommender`, X
        and, if there are values, y. It does not change the model. If no user has an
        item to find, the score is NaN. A sparse X must have the model's `shape_`. A
        fold of a sparse X renumbers users, so cross-validate coordinates.

    Raises
    ------
    ValueError
        If a parameter is out of range. The scorer itself raises it if the history is
        not that of the splits: if nothing is folded in of users of whom the model knows
        nothing, or some rows of users whom it knows by others.

    Notes
    -----
    If items have equal predictions, the model recommends the one with the lower index
    first. If the data are ratings, every rated item counts as chosen. The scorer is not
    private: it computes scores from raw choices.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from sktensordp.completion import ImplicitCompletion, make_ranking_scorer
    >>> from sktensordp.datasets import make_choices
    >>> from sktensordp.model_selection import UserHoldout
    >>> X = make_choices(300, 50, 6000, random_state=0)
    >>> model = ImplicitCompletion(epsilon=8.0, shape=X.shape, random_state=0)
    >>> scores = cross_val_score(
    ...     model, X.data, cv=UserHoldout(0.2, random_state=0),
    ...     scoring=make_ranking_scorer("recall", k=10),
    ... )
    >>> bool(scores[0] > 0.2)
    True
    """
    if metric not in _METRICS:
        raise ValueError(f"metric must be one of {list(_METRICS)}, got {metric!r}.")
    k = checked_count(k)
    if not 0 <= fold_in_fraction < 1:
        raise ValueError(
            f"fold_in_fraction must be at least 0 and below 1, got {fold_in_fraction}."
        )
    return RankingScorer(metric, k, float(fold_in_fraction), int(random_state))


@dataclass(frozen=True)
class RankingScorer:
    """A scorer that can be pickled; see `make_ranking_scorer`."""

    metric: str
    k: int
    fold_in_fraction: float
    random_state: int

    def __call__(
        self, estimator: BaseEstimator, X: ArrayLike, y: ArrayLike | None = None
    ) -> float:
        last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        # A recommender takes no sparse arrays, and refuses them below.
        if is_sparse(X) and not isinstance(last, Recommender):
            check_same_shape(X, last.shape_)
            X, values = entries_from_sparse(X)
            y = values if hasattr(last, "fit_randomized") else y
        check_same_length(X, y)
        X, y = _observed(estimator, X, y)
        columns = columns_of(X)[:2]
        # The ids themselves decide, not the indices that an encoder gave them.
        numbers = hashes(columns, self.random_state)
        # The model has no answer for unknown users and items, but it may learn users
        # when they are folded in.
        if isinstance(estimator, Recommender):
            model, where = estimator, estimator._where(estimator._fitted, X)
            numbers_in_model = where[:, 0].copy()
            if estimator._fitted.users_may_join:
                # Any numbers that distinguish users will do.
                users = np.asarray(columns[0]).tolist()
                number_of = {user: k for k, user in enumerate(users)}
                where[:, 0] = [number_of[user] for user in users]
        else:
            model = estimator
            if isinstance(estimator, Pipeline):
                X, model = estimator[:-1].transform(X), estimator[-1]
            where = np.asarray(X)
            numbers_in_model = where[:, 0]
        where = where[:, :2]
        is_known = np.all(where >= 0, axis=1)
        asked = np.column_stack([numbers_in_model, where[:, 1]])[is_known]
        _check_history(model, asked, folds_in=self.fold_in_fraction > 0)
        in_history = is_known & below(numbers, self.fold_in_fraction)
        if np.any(in_history):
            model = _with_history(model, X, y, in_history)
        held_out = np.flatnonzero(is_known & ~in_history)
        if not len(held_out):
            return np.nan
        where = where[held_out].astype(np.int64)
        pairs = np.unique(where, axis=0)
        users, first = np.unique(where[:, 0], return_index=True)
        if isinstance(model, Recommender):
            some = safe_indexing(X, held_out[first])
            asked = model._where(model._fitted, some)[:, 0]
            recommended = model.completion_.recommend(asked, self.k)
        else:
            recommended = model.recommend(users, self.k)
        return float(np.mean(ranking_scores(self.metric, recommended, users, pairs)))


def _observed(
    estimator: BaseEstimator, X: ArrayLike, y: ArrayLike | None
) -> tuple[Any, Any]:
    """The rows whose values are not the `missing_values` of a completion."""
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    last = last.completion_ if isinstance(last, Recommender) else last
    missing_values = getattr(last, "missing_values", None)
    if y is None or missing_values is None:
        return X, y
    return _rows(X, y, is_observed(check_values(y), missing_values))


def _check_history(model: Any, pairs: NDArray[np.integer], *, folds_in: bool) -> None:
    """Refuse a history that is not that of the splits.

    The model knows the other rows of users whose items are held out, and nothing of
    users who are held out with all of their rows.

    Parameters
    ----------
    model : estimator
    pairs : ndarray of shape (n, 2)
        Users and items of the rows to score, as the model numbers them; -1 if unknown.
    folds_in : bool
        Whether the scorer folds in some of the rows.
    """
    model = getattr(model, "completion_", model)
    fitted = vars(model).get("_fitted")
    known = getattr(fitted, "pairs_known", lambda: None)()
    if known is None or not len(known) or not len(pairs):
        return
    known_users, users = np.unique(known[:, 0]), np.unique(pairs[:, 0])
    share = float(np.isin(users, known_users).mean())
    if not folds_in:
        if share == 0:
            raise ValueError(
                "The model knows none of these users, but no history is folded in, so "
                "that all get the same answer. If whole users are held out, as by "
                "UserHoldout and UserKFold, pass fold_in_fraction=0.8."
            )
        return
    both = np.concatenate([known, pairs]).astype(np.int64)
    _, numbers = np.unique(both, axis=0, return_inverse=True)
    numbers = numbers.ravel()
    in_fit = np.isin(numbers[len(known) :], numbers[: len(known)])
    if share > _MOST and float(in_fit.mean()) < 1 - _MOST:
        raise ValueError(
            "The model knows these users from its fit, by other rows than these. "
            "Folding in some of these rows would replace what it knows. If some items "
            "of every user are held out, as by ItemHoldout and KFold, fold in nothing: "
            "make_ranking_scorer(fold_in_fraction=0), or the plain scorer of "
            'scikit-learn in place of make_fold_in_scorer, such as "r2".'
        )


def _with_history(
    model: BaseEstimator, X: ArrayLike, y: ArrayLike | None, rows: NDArray[np.bool_]
) -> BaseEstimator:
    """A copy of a model that knows some rows; it shares what was released."""
    # A shallow copy: folding in does not change the rows of the original.
    copied = copy.copy(model)
    if isinstance(copied, Recommender):
        return copied._folded_in(*_rows(X, y, rows))
    return copied.fold_in(*_rows(X, y, rows))


def _rows(
    X: ArrayLike, y: ArrayLike | None, rows: NDArray[np.bool_]
) -> tuple[Any, ...]:
    """Some rows, without values if there are none; data frames stay data frames."""
    kept = np.flatnonzero(rows)
    return tuple(safe_indexing(part, kept) for part in (X, y) if part is not None)


def ranking_scores(
    metric: str,
    recommended: NDArray[np.int64],
    users: NDArray[np.int64],
    pairs: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Score each user's recommendations.

    Parameters
    ----------
    metric : {"recall", "ndcg"}
    recommended : ndarray of shape (n_users, k)
        Items, best first; -1 if no item was left.
    users : ndarray of shape (n_users,)
        Users of the rows of `recommended`, ascending.
    pairs : ndarray of shape (n, 2)
        Distinct pairs of a user and an item to find, at least one for every user.

    Returns
    -------
    scores : ndarray of shape (n_users,)
    """
    n_items = 1 + max(int(pairs[:, 1].max()), int(recommended.max()))
    rows = np.searchsorted(users, pairs[:, 0])
    held_out_keys = rows * n_items + pairs[:, 1]
    keys = np.arange(len(users))[:, np.newaxis] * n_items + recommended
    hits = np.isin(keys, held_out_keys) & (recommended >= 0)
    sizes = np.bincount(rows, minlength=len(users))
    if metric == "recall":
        return hits.sum(axis=1) / sizes
    gains = 1 / np.log2(np.arange(2, recommended.shape[1] + 2))
    ideal = np.cumsum(gains)[np.minimum(sizes, len(gains)) - 1]
    return hits @ gains / ideal
