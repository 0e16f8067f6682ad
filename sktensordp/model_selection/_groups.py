"""Splits of the rows, and the protected unit, which has one score: row or user."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
)

from ..completion._fitted import released_n_units
from ..ids._folds import columns_of, hashes
from ..noise._discrete import bernoulli
from ..recommend import Recommender
from ._holdout import UserHoldout, UserKFold
from ._scores import STEPS

_COIN_SIDES = 2**32
# Share of a held-out user's rows that are folded in, as in `make_fold_in_scorer`.
_HISTORY = 0.8
_BY_GROUPS = (GroupKFold, GroupShuffleSplit)
_OF_USERS = (UserKFold, UserHoldout)


def _no_rows() -> NDArray[np.intp]:
    return np.zeros(0, np.intp)


class Splitter(Protocol):
    """Splits rows into folds, as the splitters of scikit-learn and of users do."""

    def split(
        self, X: ArrayLike, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield training and test rows."""

    def get_n_splits(
        self,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> int:
        """Number of folds."""


@dataclass(frozen=True)
class Split:
    """Rows for the fit, rows for the score, and rows to fold in before scoring."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]
    history: NDArray[np.intp] = field(default_factory=_no_rows)
    users: NDArray[np.intp] = field(default_factory=_no_rows)
    """Numbers of the users of the rows in `test`, if users are held out."""
    share: float = 0.0
    """Expected share of the users that are held out."""


@dataclass(frozen=True)
class Rows:
    """Each row is protected; the number of rows is public."""

    # Least and largest contribution of a row to a score, in steps.
    ends = 0, STEPS

    def splits(
        self,
        X: ArrayLike,
        y: ArrayLike,
        cv: Splitter | int | None,
        test_size: float,
        bits: np.random.BitGenerator,
        groups: ArrayLike | None = None,
    ) -> list[Split]:
        """Training and test rows, from splits that do not depend on the values."""
        splitter = _splitter(cv, test_size, seed_from(bits))
        return [Split(*rows) for rows in splitter.split(X, y, groups)]

    def fewest(
        self,
        X: ArrayLike,
        y: ArrayLike,
        cv: Splitter | int | None,
        test_size: float,
        groups: ArrayLike | None = None,
    ) -> int:
        """The smallest number of training rows; that of the splits themselves.

        Only where groups are drawn at random may it be another one.
        """
        # A generator that is a parameter must not be advanced by the look.
        splitter = copy.deepcopy(_splitter(cv, test_size, 0))
        return min(len(train) for train, _ in splitter.split(X, y, groups))

    def contributions(
        self, steps: NDArray[np.int64], split: Split
    ) -> NDArray[np.int64]:
        """The contributions of rows to the sum: their scores."""
        return steps

    def mean(self, total: float, splits: list[Split], fitted: list[Any]) -> float:
        """Mean score in steps, from the noisy sum over all splits."""
        return total / sum(len(split.test) for split in splits)


@dataclass(frozen=True)
class Users:
    """All rows at one index of a mode are protected together, as is their number.

    Whole users are held out, each by a hash of their own id, so that each user is
    either fitted or scored. An independent coin puts each row of a held-out user into
    the history or the test set; if the test set would be empty, it gets the user's last
    row. So the rows of one user never affect where another user's rows go. The test
    rows are predicted after the history has been folded in.

    **Guarantee.** Each held-out user lowers the score of a try by the shortfall of the
    mean over their test rows from the best score: a number of steps from 0 to STEPS,
    which depends on that user's rows and on the fit. So adding or removing one user
    moves the sum by at most STEPS in each split that holds them out. The number of
    held-out users is never released. The noisy sum is divided by the noisy number of
    users that the fit of the same try released, times the public odds of being held
    out. That fit is accounted for as part of the try, and the theorem of Papernot and
    Steinke protects all outputs of a try together; so the quotient is post-processing.

    Parameters
    ----------
    mode : int
        Mode whose indices are the users.
    """

    mode: int

    # Least and largest contribution of a user to a score, in steps.
    ends = -STEPS, 0

    def splits(
        self,
        X: ArrayLike,
        y: ArrayLike,
        cv: UserHoldout | UserKFold | None,
        test_size: float,
        bits: np.random.BitGenerator,
        groups: ArrayLike | None = None,
    ) -> list[Split]:
        """The splits of all rows; by default, one that holds out some users."""
        columns = columns_of(X)
        if cv is None:
            cv = UserHoldout(test_size, mode=self.mode)
        seed = seed_from(bits) if cv.random_state is None else cv._seed()
        ids = hashes([columns[self.mode]], seed)
        _, users = np.unique(ids, return_inverse=True)
        # The coins come from the secret stream: seeded ones would reveal the position
        # of a row.
        in_history = bernoulli(
            bits, round(_HISTORY * _COIN_SIDES), _COIN_SIDES, (len(users),)
        )
        # In reverse order, the first row found of a user is the user's last one.
        _, last = np.unique(users[::-1], return_index=True)
        has_test = np.bincount(users, weights=~in_history) > 0
        in_history[(len(users) - 1 - last)[~has_test]] = False
        found = []
        for number in range(cv.get_n_splits()):
            held_out = cv._held_out(columns, seed, number)
            test = np.flatnonzero(held_out & ~in_history)
            history = np.flatnonzero(held_out & in_history)
            split = Split(
                np.flatnonzero(~held_out), test, history, users[test], cv._share
            )
            found.append(split)
        return found

    def contributions(
        self, steps: NDArray[np.int64], split: Split
    ) -> NDArray[np.int64]:
        """Minus the shortfall of every user's score: 0 or less."""
        counts = np.bincount(split.users)
        sums = np.zeros(len(counts), dtype=np.int64)
        np.add.at(sums, split.users, steps)
        occur = counts > 0
        return sums[occur] // counts[occur] - STEPS

    def mean(self, total: float, splits: list[Split], fitted: list[Any]) -> float:
        """Mean score in steps, from the noisy sum over all splits.

        Parameters
        ----------
        total : float
        splits : list of Split
        fitted : list of estimator
            The fit of each split.
        """
        n_held_out = 0.0
        for split, model in zip(splits, fitted, strict=True):
            completion = getattr(model, "completion_", model)
            n_fitted = released_n_units(completion)
            n_held_out += n_fitted * split.share / (1 - split.share)
        return STEPS + total / n_held_out


def protected_units(
    estimator: BaseEstimator, unit: str | int, cv: Splitter | None
) -> Rows | Users:
    """The rows or the users, whichever the guarantee of the estimator protects.

    Raises
    ------
    ValueError
        If all entries of a user are protected, but a user's split would depend on
        entries of others.
    """
    if not isinstance(unit, int):
        return Rows()
    if isinstance(estimator, Recommender):
        _, estimator = estimator.__privacy_steps__(planned=True)
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
    if isinstance(cv, _OF_USERS) and cv.mode != unit:
        raise ValueError(
            f"cv holds out indices of mode {cv.mode}, but unit={unit} is protected: "
            f"pass {type(cv).__name__}(..., mode={unit})."
        )
    return Users(unit)


def check_groups(
    units: Rows | Users,
    cv: Splitter | None,
    X: ArrayLike,
    y: ArrayLike,
    groups: ArrayLike | None,
) -> None:
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
    if cv is not None and type(cv) in _BY_GROUPS:
        if groups is None:
            raise ValueError(
                f"cv={type(cv).__name__} splits by groups; pass `groups` to fit."
            )
        # These splits are discarded; the call only raises errors before the release.
        list(cv.split(X, y, groups))
    elif groups is not None:
        raise ValueError(
            "`groups` needs a `cv` that keeps groups together: GroupKFold, or "
            "GroupShuffleSplit(1, test_size=0.2) for a single split."
        )


def seed_from(bits: np.random.BitGenerator) -> int:
    """A seed for scikit-learn, drawn from a secret stream."""
    return int(bits.random_raw()) >> 32


def _splitter(cv: Splitter | int | None, test_size: float, seed: int) -> Splitter:
    if cv is None:
        return ShuffleSplit(1, test_size=test_size, random_state=seed)
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        return KFold(int(cv), shuffle=True, random_state=seed)
    allowed = (KFold, RepeatedKFold, ShuffleSplit, PredefinedSplit, *_BY_GROUPS)
    if not isinstance(cv, int) and type(cv) in allowed:
        return cv
    raise ValueError(
        "cv must be None, a number of folds, KFold, RepeatedKFold, ShuffleSplit, "
        "PredefinedSplit, GroupKFold or GroupShuffleSplit. Folds must not depend on "
        "the values, as stratified folds do, and their number must be known beforehand."
    )


def use_counts(units: Rows | Users, cv: Splitter | int | None) -> list[tuple[int, int]]:
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
