"""Which rows are held out, and whose scores count once: a row's, or a user's."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
)

from ..noise._discrete import bernoulli
from ._scores import STEPS

__all__ = ["Rows", "Split", "Users", "check_groups", "groups_of", "seed_of", "uses_of"]

_SIDES = 2**32
# Of a held-out user's rows, the share that is folded in, as `make_fold_in_scorer` has.
_HISTORY = 0.8
_BY_GROUPS = (GroupKFold, GroupShuffleSplit)


@dataclass(frozen=True)
class Split:
    """Rows to fit to, to score, and to fold in before that."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]
    history: NDArray[np.intp]


@dataclass(frozen=True)
class Rows:
    """Rows are protected one by one; how many there are is public."""

    def splits(
        self, X: Any, y: Any, cv: Any, test_size: float, bits: Any, groups: Any = None
    ) -> list[Split]:
        """Training and test rows, by splits that depend on no value."""
        splitter, none = _splitter(cv, test_size, seed_of(bits)), np.zeros(0, np.intp)
        parts = splitter.split(X, y, groups)
        return [Split(train, test, none) for train, test in parts]

    def total(self, steps: NDArray[np.int64], held_out: ArrayLike) -> int:
        """Sum of the scores; a row adds no more than STEPS."""
        return int(steps.sum())

    def n_scored(self, splits: list[Split]) -> int:
        """By what to divide a sum for a mean."""
        return sum(len(split.test) for split in splits)


@dataclass(frozen=True)
class Users:
    """All rows at one index of a mode are protected together, also how many they are.

    Whole users are held out, by their indices alone, so that a user is either fitted or
    scored. Of their rows, each is history by a coin of its own, so that those of others
    go where they went whatever a user has; the others are predicted once the history
    was folded in. A user's score is the mean of their predicted rows', and half of the
    range where there is none.

    Parameters
    ----------
    mode : int
    n_users : int
    n_held_out : int
        From 1 to `n_users` - 1.
    """

    mode: int
    n_users: int
    n_held_out: int

    def splits(
        self, X: Any, y: Any, cv: Any, test_size: float, bits: Any, groups: Any = None
    ) -> list[Split]:
        """One of all rows."""
        chosen = np.random.default_rng(seed_of(bits)).permutation(self.n_users)
        out = np.zeros(self.n_users, dtype=bool)
        out[chosen[: self.n_held_out]] = True
        held_out = out[np.asarray(X)[:, self.mode].astype(np.intp)]
        # True coins: those of a seed would tell where in the data a row is.
        known = bernoulli(bits, round(_HISTORY * _SIDES), _SIDES, (len(held_out),))
        parts = ~held_out, held_out & ~known, held_out & known
        return [Split(*map(np.flatnonzero, parts))]

    def total(self, steps: NDArray[np.int64], held_out: ArrayLike) -> int:
        """Sum of the users' scores; one adds no more than STEPS."""
        users = np.asarray(held_out)[:, self.mode].astype(np.intp)
        counts = np.bincount(users, minlength=self.n_users)
        sums = np.zeros(self.n_users, dtype=np.int64)
        np.add.at(sums, users, steps)
        n_without = self.n_held_out - int(np.count_nonzero(counts))
        return int((sums // np.maximum(counts, 1)).sum()) + n_without * (STEPS // 2)

    def n_scored(self, splits: list[Split]) -> int:
        """By what to divide a sum for a mean."""
        return self.n_held_out


def groups_of(
    estimator: Any, unit: str | int, cv: Any, test_size: float
) -> Rows | Users:
    """Whose scores count once, by the unit that the estimator protects.

    Raises
    ------
    ValueError
        If everything of a user is protected, and the splits or the number of users
        would depend on what users have.
    """
    if not isinstance(unit, int):
        return Rows()
    shape = getattr(estimator, "shape", None)
    if shape is None or cv is not None:
        raise ValueError(
            "To protect everything of a user, a search needs the completion itself as "
            "its estimator, with a declared shape, and cv=None: who has which entries "
            "must not decide how the others are split. Encode ids before the search, "
            "by a CoordinateEncoder with categories."
        )
    if unit >= len(shape):
        raise ValueError(f"unit = {unit}, but there are {len(shape)} modes.")
    n_users = int(shape[unit])
    if n_users < 2:
        raise ValueError(
            f"shape[{unit}] is {n_users}, but a search needs at least 2 users to hold "
            f"some out."
        )
    return Users(unit, n_users, min(max(round(test_size * n_users), 1), n_users - 1))


def check_groups(found: Rows | Users, cv: Any, X: Any, y: Any, groups: Any) -> None:
    """Refuse groups of rows that are not used, and splits that lack them.

    Raises
    ------
    ValueError
        Also if there are too few groups.
    """
    if isinstance(found, Users) and groups is not None:
        raise ValueError(
            "All rows of a user are held out together, by `unit`; leave `groups` out."
        )
    if type(cv) in _BY_GROUPS:
        if groups is None:
            raise ValueError(
                f"cv={type(cv).__name__} splits by groups; pass `groups` to fit."
            )
        # Splits that are not used, so that what is wrong is known before the release.
        list(cv.split(X, y, groups))
    elif groups is not None:
        raise ValueError(
            "`groups` needs a `cv` that holds groups out together: GroupKFold, or "
            "GroupShuffleSplit(1, test_size=0.2) for one part."
        )


def seed_of(bits: Any) -> int:
    """A seed for scikit-learn, from a secret stream."""
    return int(bits.random_raw()) >> 32


def _splitter(cv: Any, test_size: float, seed: int) -> Any:
    if cv is None:
        return ShuffleSplit(1, test_size=test_size, random_state=seed)
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        return KFold(int(cv), shuffle=True, random_state=seed)
    known = (KFold, RepeatedKFold, ShuffleSplit, PredefinedSplit, *_BY_GROUPS)
    if type(cv) in known:
        return cv
    raise ValueError(
        "cv must be None, a number of folds, KFold, RepeatedKFold, ShuffleSplit, "
        "PredefinedSplit, GroupKFold or GroupShuffleSplit. Folds must not depend on "
        "the values, as stratified folds do, and their number must be known beforehand."
    )


def uses_of(groups: Rows | Users, cv: Any) -> list[tuple[int, int]]:
    """How often a record is in training and in test parts, for every such pair.

    Raises
    ------
    ValueError
        If splits may depend on values.
    """
    if isinstance(groups, Users):
        return [(1, 0), (0, 1)]
    splitter = _splitter(cv, 0.5, 0)
    n_splits = splitter.get_n_splits()
    if isinstance(splitter, (ShuffleSplit, GroupShuffleSplit)):
        return [(n_splits - times, times) for times in range(n_splits + 1)]
    if isinstance(splitter, PredefinedSplit):
        # A record may be in no test part.
        return [(n_splits - 1, 1), (n_splits, 0)]
    repeats = splitter.n_repeats if isinstance(splitter, RepeatedKFold) else 1
    return [(n_splits - repeats, repeats)]
