"""Splits for recommendations: hold out some items of every user, or whole users."""

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ..completion._ranking_scorer import history_of

__all__ = ["ItemHoldout", "UserHoldout"]


class _Holdout:
    """Base of splitters of rows whose first two columns are a user and an item."""

    def __init__(
        self,
        test_size: float = 0.2,
        *,
        n_splits: int = 1,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        is_integer = isinstance(n_splits, Integral) and not isinstance(n_splits, bool)
        if not isinstance(test_size, Real) or not 0 < test_size < 1:
            raise ValueError(f"test_size must be between 0 and 1, got {test_size!r}.")
        if not is_integer or n_splits < 1:
            raise ValueError(f"n_splits must be a positive integer, got {n_splits!r}.")
        self.test_size: float = test_size
        self.n_splits: int = n_splits
        self.random_state: int | np.random.RandomState | None = random_state

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.test_size}, n_splits={self.n_splits}, "
            f"random_state={self.random_state})"
        )

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits."""
        return int(self.n_splits)

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the numbers of the training and the test rows, split by split.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Users in the first column and items in the second, as indices or ids.
        y, groups : object
            Ignored.

        Yields
        ------
        train, test : ndarray of int
        """
        where = _as_indices(X)
        rng = check_random_state(self.random_state)
        for _ in range(self.n_splits):
            held_out = self._held_out(where, int(rng.randint(2**31 - 1)))
            yield np.flatnonzero(~held_out), np.flatnonzero(held_out)

    def _held_out(self, where: NDArray[np.int64], seed: int) -> NDArray[np.bool_]:
        raise NotImplementedError


class ItemHoldout(_Holdout):
    """Split rows so that a share of every user's items is held out.

    The model is fitted to all users, and must find the other items that they chose:
    score it by ``make_ranking_scorer(history=0)``.

    Parameters
    ----------
    test_size : float, default=0.2
        Share of each user's items, rounded to whole items.
    n_splits : int, default=1
        Number of splits, each drawn anew.
    random_state : int, RandomState instance or None, default=None
        Seed for the choice of the items.

    Notes
    -----
    Rows with the same user and item count as one item, and stay together.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.model_selection import ItemHoldout
    >>> X = np.array([[0, 3], [0, 4], [0, 4], [1, 3], [1, 5]])
    >>> for train, test in ItemHoldout(0.5, random_state=0).split(X):
    ...     print(X[test].tolist())
    [[0, 4], [0, 4], [1, 5]]
    """

    def _held_out(self, where: NDArray[np.int64], seed: int) -> NDArray[np.bool_]:
        return history_of(where, float(self.test_size), seed)


class UserHoldout(_Holdout):
    """Split rows so that some users are held out, with everything they chose.

    The fit learns nothing about these users. Score it by ``make_ranking_scorer()``,
    which folds in some of their choices and tests the others.

    Parameters
    ----------
    test_size : float, default=0.2
        Share of the users, rounded to whole users. If there are two or more, at least
        one is held out and at least one is not.
    n_splits : int, default=1
        Number of splits, each drawn anew.
    random_state : int, RandomState instance or None, default=None
        Seed for the choice of the users.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.model_selection import UserHoldout
    >>> X = np.array([[0, 3], [0, 4], [7, 4], [1, 3], [1, 5]])
    >>> for train, test in UserHoldout(0.4, random_state=0).split(X):
    ...     print(X[test].tolist())
    [[0, 3], [0, 4]]
    """

    def _held_out(self, where: NDArray[np.int64], seed: int) -> NDArray[np.bool_]:
        n_users = int(where[:, 0].max(initial=-1)) + 1
        size = round(float(self.test_size) * n_users)
        size = min(max(size, 1), max(n_users - 1, 0))
        held_out = np.zeros(n_users, dtype=bool)
        held_out[np.random.default_rng(seed).permutation(n_users)[:size]] = True
        return held_out[where[:, 0]]


def _as_indices(X: Any) -> NDArray[np.int64]:
    """Number the users and the items of the rows from 0."""
    if hasattr(X, "iloc"):
        columns = [np.asarray(X.iloc[:, k]) for k in range(min(X.shape[1], 2))]
    else:
        columns = list(np.asarray(X).T[:2]) if np.ndim(X) == 2 else []
    if len(columns) != 2:
        raise ValueError("X must have users and items in its first two columns.")
    return np.column_stack([
        np.unique(column, return_inverse=True)[1] for column in columns
    ]).astype(np.int64)  # fmt: skip
