"""Splits of the rows, and the protected unit whose score counts once: row or user."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
)

from ..completion import Recommender
from ..noise._discrete import bernoulli
from ._holdout import UserHoldout, UserKFold
from ._scores import STEPS

_COIN_SIDES = 2**32
# Share of a held-out user's rows that are folded in, as in `make_fold_in_scorer`.
_HISTORY = 0.8
_BY_GROUPS = (GroupKFold, GroupShuffleSplit)
_OF_USERS = (UserKFold, UserHoldout)


@dataclass(frozen=True)
class Split:
    """Rows for the fit, rows for the score, and rows to fold in before scoring."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]
    history: NDArray[np.intp]
    n_users: int = 0
    """Number of users held out, those without rows included."""
    users: Any = None
    """Indices of the users of the rows in `test`, where users are held out."""


@dataclass(frozen=True)
class Rows:
    """Each row is protected; the number of rows is public."""

    def splits(
        self, X: Any, y: Any, cv: Any, test_size: float, bits: Any, groups: Any = None
    ) -> list[Split]:
        """Training and test rows, from splits that do not depend on the values."""
        splitter = _splitter(cv, test_size, seed_from(bits))
        no_rows = np.zeros(0, np.intp)
        return [
            Split(train, test, no_rows) for train, test in splitter.split(X, y, groups)
        ]

    def total(self, steps: NDArray[np.int64], split: Split) -> int:
        """Sum of the scores; one row adds at most STEPS."""
        return int(steps.sum())

    def n_scored(self, splits: list[Split]) -> int:
        """Number of scored rows, by which to divide the sum for a mean."""
        return sum(len(split.test) for split in splits)


@dataclass(frozen=True)
class Users:
    """All rows at one index of a mode are protected together, and their number too.

    Whole users are held out, chosen by index alone, so that each user is either fitted
    or scored. An independent coin for each row of a held-out user puts it into the
    history or the test set; so the rows of one user never affect where another user's
    rows go. The test rows are predicted after the history has been folded in. The
    score of a user is the mean over their test rows, or half of the range if there are
    none.

    Parameters
    ----------
    mode : int
        Mode whose indices are the users.
    n_users : int
        Size of that mode.
    """

    mode: int
    n_users: int

    def splits(
        self, X: Any, y: Any, cv: Any, test_size: float, bits: Any, groups: Any = None
    ) -> list[Split]:
        """The splits of all rows: by default one, of a share of the users."""
        users = np.asarray(X)[:, self.mode].astype(np.intp)
        if cv is None:
            cv = UserHoldout(test_size, n_users=self.n_users)
        seed = seed_from(bits) if cv.random_state is None else cv._seed()
        # Coins from the secret stream: seeded ones would reveal the position of a row.
        in_history = bernoulli(
            bits, round(_HISTORY * _COIN_SIDES), _COIN_SIDES, (len(users),)
        )
        found = []
        for number in range(cv.get_n_splits()):
            is_out = cv._users_out(self.n_users, seed, number)
            held_out = is_out[users]
            test = np.flatnonzero(held_out & ~in_history)
            history = np.flatnonzero(held_out & in_history)
            n_users = int(is_out.sum())
            split = Split(
                np.flatnonzero(~held_out), test, history, n_users, users[test]
            )
            found.append(split)
        return found

    def total(self, steps: NDArray[np.int64], split: Split) -> int:
        """Sum of the users' scores; one user adds at most STEPS."""
        users = split.users
        counts = np.bincount(users, minlength=self.n_users)
        sums = np.zeros(self.n_users, dtype=np.int64)
        np.add.at(sums, users, steps)
        n_without_rows = split.n_users - int(np.count_nonzero(counts))
        total = int((sums // np.maximum(counts, 1)).sum())
        return total + n_without_rows * (STEPS // 2)

    def n_scored(self, splits: list[Split]) -> int:
        """Number of scored users, by which to divide the sum for a mean."""
        return sum(split.n_users for split in splits)


def protected_units(
    estimator: Any, unit: str | int, cv: Any, test_size: float
) -> Rows | Users:
    """Rows or users, whichever the unit of the estimator's guarantee protects.

    Raises
    ------
    ValueError
        If all entries of a user are protected, but the splits or the number of users
        would depend on those entries.
    """
    if not isinstance(unit, int):
        return Rows()
    if isinstance(estimator, Recommender):
        _, estimator = estimator._steps()
    shape = getattr(estimator, "shape", None)
    if shape is None or not (cv is None or type(cv) in _OF_USERS):
        raise ValueError(
            "To protect all entries of a user, a search needs as its estimator a "
            "completion with a declared shape or a Recommender, and cv=None, UserKFold "
            "or UserHoldout: the entries of one user must not decide how other users "
            "are split. For a table of ids, pass a Recommender instead of a Pipeline."
        )
    if unit >= len(shape):
        raise ValueError(
            f"unit = {unit} is not a mode: the tensor has modes 0 to {len(shape) - 1}."
        )
    n_users = int(shape[unit])
    if n_users < 2:
        raise ValueError(
            f"shape[{unit}] is {n_users}, but a search needs at least 2 users to hold "
            f"some out."
        )
    if cv is not None and (cv.mode, cv.n_users) != (unit, n_users):
        raise ValueError(
            f"The scores are divided by the number of declared users, so cv must "
            f"declare them: {type(cv).__name__}(..., n_users={n_users}, mode={unit})."
        )
    return Users(unit, n_users)


def check_groups(units: Rows | Users, cv: Any, X: Any, y: Any, groups: Any) -> None:
    """Refuse `groups` that `cv` would not use, and a `cv` that lacks its `groups`.

    Raises
    ------
    ValueError
        Also if there are too few groups.
    """
    if isinstance(units, Users) and groups is not None:
        raise ValueError(
            "`unit` is a mode, so all rows of a user are held out together already; "
            "leave `groups` out."
        )
    if type(cv) in _BY_GROUPS:
        if groups is None:
            raise ValueError(
                f"cv={type(cv).__name__} splits by groups; pass `groups` to fit."
            )
        # These splits are thrown away: the call raises errors before the release.
        list(cv.split(X, y, groups))
    elif groups is not None:
        raise ValueError(
            "`groups` needs a `cv` that keeps groups together: GroupKFold, or "
            "GroupShuffleSplit(1, test_size=0.2) for a single split."
        )


def seed_from(bits: Any) -> int:
    """A seed for scikit-learn, drawn from a secret stream."""
    return int(bits.random_raw()) >> 32


def _splitter(cv: Any, test_size: float, seed: int) -> Any:
    if cv is None:
        return ShuffleSplit(1, test_size=test_size, random_state=seed)
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        return KFold(int(cv), shuffle=True, random_state=seed)
    allowed = (KFold, RepeatedKFold, ShuffleSplit, PredefinedSplit, *_BY_GROUPS)
    if type(cv) in allowed:
        return cv
    raise ValueError(
        "cv must be None, a number of folds, KFold, RepeatedKFold, ShuffleSplit, "
        "PredefinedSplit, GroupKFold or GroupShuffleSplit. Folds must not depend on "
        "the values, as stratified folds do, and their number must be known beforehand."
    )


def use_counts(units: Rows | Users, cv: Any) -> list[tuple[int, int]]:
    """Possible numbers of training and test sets that hold one unit, as pairs.

    Raises
    ------
    ValueError
        If splits may depend on values.
    """
    if isinstance(units, Users) and cv is None:
        return [(1, 0), (0, 1)]
    if isinstance(cv, UserKFold):
        return [(cv.n_splits - 1, 1)]
    if isinstance(cv, UserHoldout):
        return [(cv.n_splits - times, times) for times in range(cv.n_splits + 1)]
    splitter = _splitter(cv, 0.5, 0)
    n_splits = splitter.get_n_splits()
    if isinstance(splitter, (ShuffleSplit, GroupShuffleSplit)):
        return [(n_splits - times, times) for times in range(n_splits + 1)]
    if isinstance(splitter, PredefinedSplit):
        # A row may be in no test set.
        return [(n_splits - 1, 1), (n_splits, 0)]
    repeats = splitter.n_repeats if isinstance(splitter, RepeatedKFold) else 1
    return [(n_splits - repeats, repeats)]
