"""Canaries that are single values: one rating, or the label of one sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

# For each canary, the predictions of so many other items of its user, and other users
# of its item.
_N_NEAR = 8


class Ratings:
    """Ratings of known users and items, each the lowest or the highest by its bit.

    Parameters
    ----------
    X : ndarray of shape (n_rows, 2)
        Users and items, numbered from 0.
    y : ndarray of shape (n_rows,)
        Ratings.
    canaries : {"customers", "planted"}
        Whether canaries are any ratings, or those of the items and users that have the
        fewest, at most one of an item and of a user while there are such.
    n_canaries : int
    rng : numpy.random.Generator

    Attributes
    ----------
    pairs : ndarray of shape (n_pairs, 2)
        The users and items whose ratings are to be predicted.
    shape : tuple of int
        Numbers of users and of items.
    """

    names: ClassVar[Sequence[str]] = (
        "prediction of the rating",
        "prediction of other items of the user",
        "prediction of the item for other users",
        "prediction of the rating above those",
    )
    relation = "replace-one"

    def __init__(
        self,
        X: NDArray[np.int64],
        y: NDArray[np.float64],
        n_items: int,
        canaries: str,
        n_canaries: int,
        rng: np.random.Generator,
    ) -> None:
        if len(X) < n_canaries:
            raise ValueError(
                f"n_canaries={n_canaries}, but X has fewer rows. Pass a smaller one."
            )
        self.shape = int(X[:, 0].max()) + 1, n_items
        if canaries == "customers":
            self._where = rng.permutation(len(X))[:n_canaries]
        else:
            self._where = _rarely_rated(X, n_canaries, rng)
        self._X, self._y = X, y
        self._low, self._high = float(y.min()), float(y.max())
        if self._low == self._high:
            raise ValueError("All values of y are equal, so none can be told apart.")
        users, items = X[self._where].T
        others = [
            *(
                np.column_stack([users, rng.integers(0, n_items, n_canaries)])
                for _ in range(_N_NEAR)
            ),
            *(
                np.column_stack([rng.integers(0, self.shape[0], n_canaries), items])
                for _ in range(_N_NEAR)
            ),
        ]
        self.pairs = np.concatenate([X[self._where], *others])

    def table(
        self, bits: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """All rows, with the lowest or highest value at each canary."""
        y = self._y.copy()
        y[self._where] = np.where(bits, self._high, self._low)
        return self._X, y

    def statistics(self, answers: Any) -> NDArray[np.float64]:
        """What the attacker computes from the predictions for `pairs`.

        Parameters
        ----------
        answers : array-like of shape (n_pairs,)

        Returns
        -------
        statistics : ndarray of shape (n_canaries, 4)
        """
        predicted = np.asarray(answers, dtype=float)
        if predicted.shape != (len(self.pairs),) or not np.isfinite(predicted).all():
            raise ValueError(
                f"The predictions must be {len(self.pairs)} finite numbers, one for "
                f"each pair."
            )
        own, *near = predicted.reshape(1 + 2 * _N_NEAR, -1)
        of_user = np.mean(near[:_N_NEAR], axis=0)
        of_item = np.mean(near[_N_NEAR:], axis=0)
        above = own - (of_user + of_item) / 2
        return np.column_stack([own, of_user, of_item, above])


def _rarely_rated(
    X: NDArray[np.int64], n_canaries: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Rows of rarely rated items and users."""
    of_users, of_items = (np.bincount(column) for column in X.T)
    weight = of_items[X[:, 1]] + of_users[X[:, 0]] / 10 + rng.random(len(X))
    order = np.argsort(weight)
    # First rows that share neither user nor item with an earlier one, then those that
    # share no item, then all others.
    chosen: dict[int, None] = {}
    for columns in ((0, 1), (1,), ()):
        seen: list[set[int]] = [set(X[list(chosen), c].tolist()) for c in columns]
        for row in order.tolist():
            if len(chosen) == n_canaries:
                break
            values = [int(X[row, c]) for c in columns]
            is_new = all(v not in s for v, s in zip(values, seen, strict=True))
            if is_new and row not in chosen:
                chosen[row] = None
                for value, known in zip(values, seen, strict=True):
                    known.add(value)
    return np.array(list(chosen), dtype=np.int64)


class Labels:
    """Samples with a wrong label: in the data or left out, or wrong or right.

    Parameters
    ----------
    X : array-like of shape (n_samples, ...)
    y : ndarray of shape (n_samples,)
        Classes, numbered from 0.
    relation : {"add-or-remove", "replace-one"}
        Whether a bit of 0 leaves the sample out, or gives it its right label.
    n_canaries : int
    rng : numpy.random.Generator

    Attributes
    ----------
    samples : ndarray of shape (n_canaries, ...)
        The samples whose labels are to be predicted.
    """

    names: ClassVar[Sequence[str]] = (
        "score of the wrong label",
        "score of the right label",
        "score of the wrong label above the right one",
        "largest score",
    )

    def __init__(
        self,
        X: NDArray[Any],
        y: NDArray[np.int64],
        relation: str,
        n_canaries: int,
        rng: np.random.Generator,
    ) -> None:
        n, n_classes = len(y), int(y.max()) + 1
        if n < 2 * n_canaries:
            raise ValueError(
                f"n_canaries={n_canaries}, but X has fewer than twice as many samples. "
                f"Pass a smaller one."
            )
        self.relation = relation
        self._where = rng.permutation(n)[:n_canaries]
        self._right = y[self._where]
        step = rng.integers(1, n_classes, n_canaries)
        self._wrong = (self._right + step) % n_classes
        self._X, self._y, self.samples = X, y, X[self._where]

    def table(self, bits: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """All samples, the canaries by their bits."""
        y = self._y.copy()
        if self.relation == "replace-one":
            y[self._where] = np.where(bits, self._wrong, self._right)
            return self._X, y
        y[self._where] = self._wrong
        kept = np.ones(len(y), dtype=bool)
        kept[self._where] = bits
        return self._X[kept], y[kept]

    def statistics(self, answers: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the attacker computes from the scores of all classes.

        Parameters
        ----------
        answers : ndarray of shape (n_canaries, n_classes)

        Returns
        -------
        statistics : ndarray of shape (n_canaries, 4)
        """
        rows = np.arange(len(self._wrong))
        wrong, right = answers[rows, self._wrong], answers[rows, self._right]
        return np.column_stack([wrong, right, wrong - right, answers.max(axis=1)])
