"""Splits for recommendations in which no person affects another person's side.

If `unit` is a mode, neighbouring data sets have one unit more or less. A splitter by
position, by rank or by observed counts would then move other units to other folds, so
that the fits of two neighbours differ in many units. Here the side of a row is a
function of its own ids, of public numbers and of a seed.
"""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from .._validation import check_aligned, check_integer
from ..ids._folds import below, columns_of, hashes, parts


class _Splitter:
    """Base of splitters: a subclass decides in which test sets each row is.

    A row is in the training set of a split if it is not in the test set.
    """

    n_splits: int
    random_state: int | np.random.RandomState | None

    def get_n_splits(
        self, X: object = None, y: object = None, groups: object = None
    ) -> int:
        """Return the number of splits."""
        return int(self.n_splits)

    def split(
        self, X: ArrayLike, y: object = None, groups: object = None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the numbers of the training and the test rows, split by split.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Ids or indices, one column for each mode.
        y, groups : object
            Ignored, but refused if their pandas labels differ from those of `X`.

        Yields
        ------
        train, test : ndarray of int
            One of them may be empty, depending on who is in the data.
        """
        check_aligned(X, y=y, groups=groups)
        columns = columns_of(X)
        seed = self._seed()
        for number in range(self.get_n_splits()):
            held_out = self._held_out(columns, seed, number)
            yield np.flatnonzero(~held_out), np.flatnonzero(held_out)

    def _seed(self) -> int:
        """A seed for one call of `split`; without `random_state`, always a new one."""
        if self.random_state is None:
            return int(np.random.default_rng().integers(2**63))
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _held_out(
        self, columns: list[Any], seed: int, number: int
    ) -> NDArray[np.bool_]:
        """Whether each row is in the test set of a split."""
        raise NotImplementedError

    def __privacy_training_sets__(self, unit: int) -> int:
        """Largest number of training sets that contain a unit, for `privacy_of`."""
        return int(self.n_splits)


@dataclass(eq=False)
class UserKFold(_Splitter):
    """Folds of whole users, in which no user decides another user's fold.

    Use it instead of `GroupKFold` if all data of a user are protected: with
    `GroupKFold`, one user who joins moves other users to other folds.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    mode : int, default=0
        Column of the users.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds. None draws a new one for each call of `split`.

    See Also
    --------
    UserHoldout : One or more random shares of the users.

    Notes
    -----
    The fold of a user is a hash of the user's own id, so folds differ in size as if
    every user had drawn a fold. The type of the column does not matter, since another
    user can change it. Equal ids are one user, and so are a number or a time and its
    text: 17, 17.0 and "17". Numbers that floats might not distinguish may share a fold:
    integers from 2**53 on, and fractions that agree in seven digits. With the same
    seed, numbers, text, times and UUIDs keep their folds everywhere; ids of other types
    do so within one process.

    If ids are numbered by who occurs in the data (as by `CoordinateEncoder` without
    `categories`), one user changes the ids of others, and no splitter helps.

    Every split is yielded, even if no user of the data is in its fold, because an error
    would reveal who is in the data.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.model_selection import UserKFold
    >>> X = np.array([[0, 3], [0, 4], [7, 4], [1, 3], [1, 5]])
    >>> for train, test in UserKFold(3, random_state=3).split(X):
    ...     print(X[test].tolist())
    [[1, 3], [1, 5]]
    [[0, 3], [0, 4]]
    [[7, 4]]
    """

    n_splits: int = 5
    _: KW_ONLY
    mode: int = 0
    random_state: int | np.random.RandomState | None = None

    def __post_init__(self) -> None:
        check_integer(self.n_splits, "n_splits", 2)
        check_integer(self.mode, "mode", 0)

    def _held_out(
        self, columns: list[Any], seed: int, number: int
    ) -> NDArray[np.bool_]:
        users = _column(columns, self.mode)
        return parts(hashes([users], seed), self.n_splits) == number

    @property
    def _share(self) -> float:
        """Expected share of the users in a test set."""
        return 1 / self.n_splits

    def __privacy_training_sets__(self, unit: int) -> int:
        return int(self.n_splits) - (unit == self.mode)


@dataclass(eq=False)
class UserHoldout(_Splitter):
    """Split rows so that some users are held out with all of their rows.

    The fit learns nothing about these users. Score it by ``make_ranking_scorer()`` or
    ``make_fold_in_scorer()``, which fold in some of their entries and test the others.

    Parameters
    ----------
    test_size : float, default=0.2
        Probability with which a user is held out, by a hash of the user's id.
    mode : int, default=0
        Column of the users.
    n_splits : int, default=1
        Number of splits, each drawn anew.
    random_state : int, RandomState instance or None, default=None
        Seed for the choice of the users. None draws a new one for each call of `split`.

    See Also
    --------
    UserKFold : Folds, in which every user is held out once.

    Notes
    -----
    No user decides which other users are held out; see the notes of `UserKFold`.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.model_selection import UserHoldout
    >>> X = np.array([[0, 3], [0, 4], [7, 4], [1, 3], [1, 5]])
    >>> for train, test in UserHoldout(0.4, random_state=0).split(X):
    ...     print(X[test].tolist())
    [[0, 3], [0, 4], [1, 3], [1, 5]]
    """

    test_size: float = 0.2
    _: KW_ONLY
    mode: int = 0
    n_splits: int = 1
    random_state: int | np.random.RandomState | None = None

    def __post_init__(self) -> None:
        _check_share(self.test_size)
        check_integer(self.n_splits, "n_splits", 1)
        check_integer(self.mode, "mode", 0)

    def _held_out(
        self, columns: list[Any], seed: int, number: int
    ) -> NDArray[np.bool_]:
        users = _column(columns, self.mode)
        return below(hashes([users], seed + number), self._share)

    @property
    def _share(self) -> float:
        """Expected share of the users in a test set."""
        return float(self.test_size)


@dataclass(eq=False)
class ItemHoldout(_Splitter):
    """Split rows so that a share of every user's items is held out.

    The model is fitted to all users, and must find the other items that they chose:
    score it by ``make_ranking_scorer(fold_in_fraction=0)``.

    Parameters
    ----------
    test_size : float, default=0.2
        Probability with which a user's item is held out.
    n_splits : int, default=1
        Number of splits, each drawn anew.
    random_state : int, RandomState instance or None, default=None
        Seed for the choice of the items. None draws a new one for each call of `split`.

    Notes
    -----
    The side of a row follows from its own user and item, the first two columns, by a
    hash. So rows with the same user and item stay together, and no user or item decides
    the side of another's rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.model_selection import ItemHoldout
    >>> X = np.array([[0, 3], [0, 4], [0, 4], [1, 3], [1, 5]])
    >>> for train, test in ItemHoldout(0.5, random_state=0).split(X):
    ...     print(X[test].tolist())
    [[0, 3], [1, 5]]
    """

    test_size: float = 0.2
    _: KW_ONLY
    n_splits: int = 1
    random_state: int | np.random.RandomState | None = None

    def __post_init__(self) -> None:
        _check_share(self.test_size)
        check_integer(self.n_splits, "n_splits", 1)

    def _held_out(
        self, columns: list[Any], seed: int, number: int
    ) -> NDArray[np.bool_]:
        pair = [_column(columns, 0), _column(columns, 1)]
        return below(hashes(pair, seed + number), float(self.test_size))


def _check_share(test_size: object) -> None:
    if not isinstance(test_size, Real) or not 0 < float(test_size) < 1:
        raise ValueError(f"test_size must be between 0 and 1, got {test_size!r}.")


def _column(columns: list[Any], mode: int) -> Any:
    if mode >= len(columns):
        raise ValueError(
            f"X has {len(columns)} columns, but the splitter reads column {mode}."
        )
    return columns[mode]
