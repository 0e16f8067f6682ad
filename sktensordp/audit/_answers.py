"""How the audited models are fitted and asked: estimators and functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ._customers import Customers
from ._reseeded import Reseeded, is_estimator
from ._single_values import Labels, Ratings

# So many accounts are asked at once.
_N_ASKED = 128


class Answers:
    """Fits a model to one table after the other, and asks each what an attacker asks.

    Parameters
    ----------
    ask : callable
        ``ask(*table)`` fits a model, and returns its answers and the model, or None.
    is_function : bool
        Whether the caller's function fits the model, so that its seed may be fixed.
    """

    def __init__(
        self, ask: Callable[..., tuple[Any, Any]], *, is_function: bool
    ) -> None:
        self._ask = ask
        self.is_function = is_function
        self.model: Any = None
        """The model of the last fit, if it is an estimator."""

    def __call__(self, *table: Any) -> Any:
        """Answers of a model that is fitted to this table."""
        answers, self.model = self._ask(*table)
        return answers


def of_customers(
    recommender: Any, people: Customers, items: NDArray[Any], random_state: int | None
) -> Answers:
    """Answers of a recommender to accounts; `items` are the ids of the items."""
    if not is_estimator(recommender):
        return _of_function(recommender, people.accounts, people.shape)
    make = Reseeded(recommender, random_state)
    if hasattr(recommender, "fold_in"):
        return Answers(
            lambda X, y: _asked_with_fold_in(make(), X, y, people, items),
            is_function=False,
        )
    if hasattr(recommender, "inverse_transform"):
        return Answers(
            lambda X, y: _asked_by_matrix(make(), X, y, people), is_function=False
        )
    raise TypeError(
        f"{type(recommender).__name__} has neither `fold_in`, as the recommenders of "
        f"this package, nor `inverse_transform`, as matrix factorisations of "
        f"scikit-learn. Pass a function f(X, accounts, shape) that fits it and returns "
        f"scores of shape (n_accounts, n_items)."
    )


def of_ratings(recommender: Any, people: Ratings, random_state: int | None) -> Answers:
    """Predictions of a model for pairs of users and items."""
    if not is_estimator(recommender):
        return Answers(
            lambda X, y: (_called(recommender)(X, y, people.pairs), None),
            is_function=True,
        )
    make = Reseeded(recommender, random_state)

    def ask(X: NDArray[Any], y: NDArray[Any]) -> tuple[Any, Any]:
        model = make()
        if "shape" in model.get_params(deep=False) and model.shape is None:
            model.set_params(shape=people.shape)
        return model.fit(X, y).predict(people.pairs), model

    return Answers(ask, is_function=False)


def of_labels(
    estimator: Any, people: Labels, classes: NDArray[Any], random_state: int | None
) -> Answers:
    """Scores of all classes, for the samples of the canaries."""
    if not is_estimator(estimator):
        raise TypeError(
            f"estimator must be a classifier, got {type(estimator).__name__}."
        )
    make = Reseeded(estimator, random_state)

    def ask(X: NDArray[Any], y: NDArray[np.int64]) -> tuple[Any, Any]:
        model = make().fit(X, classes[y])
        return _scores_of_classes(model, people.samples, classes), model

    return Answers(ask, is_function=False)


def _called(function: Any) -> Callable[..., Any]:
    if callable(function):
        return function
    raise TypeError(
        f"recommender must be an estimator or a function, got "
        f"{type(function).__name__}."
    )


def _of_function(function: Any, accounts: Any, shape: tuple[int, int]) -> Answers:
    """Answers of a function that fits a recommender and asks it."""
    function = _called(function)

    def ask(X: NDArray[np.int64], y: NDArray[np.float64] | None) -> tuple[Any, None]:
        if y is None:
            return function(X, accounts[0], shape), None
        return function((X, y), accounts, shape), None

    return Answers(ask, is_function=True)


def _asked_with_fold_in(
    model: Any,
    X: NDArray[np.int64],
    y: NDArray[np.float64] | None,
    people: Customers,
    items: NDArray[Any],
) -> tuple[NDArray[np.float32], Any]:
    """Scores of a recommender of this package, which learns accounts by `fold_in`."""
    n_rows, n_items = people.shape
    n_ranked = n_items
    if "shape" in (params := model.get_params(deep=False)):
        if params["shape"] is not None:
            n_ranked = params["shape"][1]
        # Room for the accounts; the same for all bits.
        model.set_params(shape=(n_rows, n_ranked))

    def table(rows: NDArray[np.int64]) -> NDArray[Any]:
        if items.dtype.kind in "iu":
            return np.column_stack([rows[:, 0], items[rows[:, 1]]])
        ids = np.empty(rows.shape, dtype=object)
        ids[:, 0], ids[:, 1] = rows[:, 0], items[rows[:, 1]]
        return ids

    where, values = people.accounts
    model.fit(table(X)) if y is None else model.fit(table(X), y)
    model.fold_in(table(where)) if y is None else model.fold_in(table(where), values)
    scores = np.full((len(people.users), n_items), -np.inf, dtype=np.float32)
    for start in range(0, len(people.users), _N_ASKED):
        asked = people.users[start : start + _N_ASKED]
        found, values_found = model.recommend(asked, k=n_ranked, return_scores=True)
        found = np.asarray(found)
        is_item = _is_item(found)
        rows, columns = np.nonzero(is_item)
        ids = found[rows, columns].astype(items.dtype)
        codes = np.minimum(np.searchsorted(items, ids), n_items - 1)
        # A catalogue may hold items that nobody has.
        known = items[codes] == ids
        scores[start + rows[known], codes[known]] = np.asarray(values_found)[
            rows[known], columns[known]
        ]
    return scores, model


def _is_item(found: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether places of a ranking hold an item, and not -1 or None."""
    if found.dtype == object:
        return np.array([[item is not None for item in row] for row in found])
    return found >= 0


def _asked_by_matrix(
    model: Any,
    X: NDArray[np.int64],
    y: NDArray[np.float64] | None,
    people: Customers,
) -> tuple[NDArray[np.float64], Any]:
    """Scores of a factorisation of the matrix of users and items."""
    where, values = people.accounts
    model.fit(_matrix(X, y, people.shape))
    known = _matrix(where, values, people.shape)[people.users]
    return np.asarray(model.inverse_transform(model.transform(known)), float), model


def _matrix(
    rows: NDArray[np.int64], values: NDArray[np.float64] | None, shape: tuple[int, int]
) -> Any:
    """A sparse matrix of users and items."""
    cells = np.ones(len(rows)) if values is None else values
    return csr_array((cells, (rows[:, 0], rows[:, 1])), shape=shape)


def _scores_of_classes(
    model: Any, samples: NDArray[Any], classes: NDArray[Any]
) -> NDArray[np.float64]:
    """Scores in the order of the classes; the lowest for classes it does not know."""
    if hasattr(model, "predict_proba"):
        found = np.asarray(model.predict_proba(samples), dtype=float)
    elif hasattr(model, "decision_function"):
        found = np.asarray(model.decision_function(samples), dtype=float)
        found = np.column_stack([-found, found]) if found.ndim == 1 else found
    else:
        found = (model.predict(samples)[:, np.newaxis] == model.classes_).astype(float)
    if found.shape != (len(samples), len(model.classes_)):
        raise ValueError(
            "The classifier must return one score for each sample and class. If it is "
            "an SVC, leave decision_function_shape='ovr'."
        )
    scores = np.full((len(samples), len(classes)), found.min())
    scores[:, np.searchsorted(classes, model.classes_)] = found
    return scores
