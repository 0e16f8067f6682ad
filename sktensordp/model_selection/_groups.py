"""Which rows are held out, and whose scores count once: a row's, or a user's."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import KFold, PredefinedSplit, RepeatedKFold, ShuffleSplit

from ..noise._discrete import bernoulli
from ._scores import STEPS

__all__ = ["Rows", "Users", "groups_of", "seed_of", "uses_of"]

_SIDES = 2**32


@dataclass(frozen=True)
class Rows:
    """Rows are protected one by one; how many there are is public."""

    def splits(self, X, y, cv, test_size, bits):
        """Training and test rows, by splits that depend on no value."""
        return list(_splitter(cv, test_size, seed_of(bits)).split(X, y))

    def total(self, steps, held_out):
        """Sum of the scores; a row adds no more than STEPS."""
        return int(steps.sum())

    def n_scored(self, splits):
        """By what to divide a sum for a mean."""
        return sum(len(test) for _, test in splits)


@dataclass(frozen=True)
class Users:
    """All rows at one index of a mode are protected together, also how many they are.

    Each row is held out by a coin of its own, so that the rows of others go where they
    went whatever a user has. A user's score is the mean of their rows', and half of
    the range where none is held out.

    Parameters
    ----------
    mode : int
    n_users : int
    """

    mode: int
    n_users: int

    def splits(self, X, y, cv, test_size, bits):
        """One pair of training and test rows."""
        # True coins: those of a seed would tell where in the data a row is.
        held_out = bernoulli(bits, round(test_size * _SIDES), _SIDES, (len(y),))
        return [(np.flatnonzero(~held_out), np.flatnonzero(held_out))]

    def total(self, steps: NDArray[np.int64], held_out: ArrayLike) -> int:
        """Sum of the users' scores; one adds no more than STEPS."""
        if not len(steps):  # which is chance
            return self.n_users * (STEPS // 2)
        users = np.asarray(held_out)[:, self.mode].astype(np.intp)
        counts = np.bincount(users, minlength=self.n_users)
        sums = np.zeros(self.n_users, dtype=np.int64)
        np.add.at(sums, users, steps)
        means = sums // np.maximum(counts, 1)
        return int(np.where(counts > 0, means, STEPS // 2).sum())

    def n_scored(self, splits):
        """By what to divide a sum for a mean."""
        return self.n_users


def groups_of(estimator: Any, unit: str | int, cv: Any) -> Rows | Users:
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
    return Users(unit, int(shape[unit]))


def seed_of(bits: Any) -> int:
    """A seed for scikit-learn, from a secret stream."""
    return int(bits.random_raw()) >> 32


def _splitter(cv, test_size, seed):
    if cv is None:
        return ShuffleSplit(1, test_size=test_size, random_state=seed)
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        return KFold(int(cv), shuffle=True, random_state=seed)
    if type(cv) in (KFold, RepeatedKFold, ShuffleSplit, PredefinedSplit):
        return cv
    raise ValueError(
        "cv must be None, a number of folds, KFold, RepeatedKFold, ShuffleSplit or "
        "PredefinedSplit: which part a record is in must not depend on its values, as "
        "it does where folds are stratified."
    )


def uses_of(groups: Rows | Users, cv: Any) -> list[tuple[int, int]]:
    """How often a record is in training and in test parts, for every such pair.

    Raises
    ------
    ValueError
        If splits may depend on values.
    """
    if isinstance(groups, Users):
        # Some of the rows in one, some in the other.
        return [(1, 1)]
    splitter = _splitter(cv, 0.5, 0)
    n_splits = splitter.get_n_splits()
    if isinstance(splitter, ShuffleSplit):
        return [(n_splits - times, times) for times in range(n_splits + 1)]
    if isinstance(splitter, PredefinedSplit):
        # A record may be in no test part.
        return [(n_splits - 1, 1), (n_splits, 0)]
    repeats = splitter.n_repeats if isinstance(splitter, RepeatedKFold) else 1
    return [(n_splits - repeats, repeats)]
