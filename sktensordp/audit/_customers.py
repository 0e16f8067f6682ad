"""Canaries that are customers: in the data, or left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

# A canary has at least this many items; those that are planted have as many.
LEAST_ITEMS = 4
# Scores of this many accounts are in memory as double precision at once.
_BLOCK = 64

_Table = tuple[NDArray[np.int64], NDArray[np.float64] | None]


class Customers:
    """Customers of a recommender, some of whom are left out, and accounts that ask.

    A canary is a customer with a history that no bit changes. For each of them, the
    attacker has an account of their own, with all of the canary's items but one, and
    looks at what the recommender says about the one that is missing.

    Parameters
    ----------
    X : ndarray of shape (n_rows, 2)
        Users and items, numbered from 0.
    y : ndarray of shape (n_rows,) or None
        Ratings; None if the rows are choices.
    n_items : int
    canaries : {"customers", "planted"}
        Whether canaries are drawn from the customers, or made up from rare items.
    n_canaries : int
    rng : numpy.random.Generator

    Attributes
    ----------
    accounts : tuple of ndarray, and ndarray or None
        Rows of the accounts, and their ratings.
    shape : tuple of int
        Numbers of users, canaries and accounts included, and of items.
    """

    names: ClassVar[Sequence[str]] = (
        "score of the missing item",
        "rank of the missing item",
        "score among the items of the account",
        "score above that of other accounts",
        "score of other accounts",
        "score among the other accounts",
        "rank among the other accounts",
        "place in the first ten",
    )
    relation = "add-or-remove"

    def __init__(
        self,
        X: NDArray[np.int64],
        y: NDArray[np.float64] | None,
        n_items: int,
        canaries: str,
        n_canaries: int,
        rng: np.random.Generator,
    ) -> None:
        n_users = int(X[:, 0].max()) + 1
        if canaries == "customers":
            of_canary = _drawn_customers(X, n_canaries, rng)
            is_canary = of_canary[X[:, 0]] >= 0
            # The missing item must not follow from the order of the rows.
            order = rng.permutation(np.flatnonzero(is_canary))
            owner, items = of_canary[X[order, 0]], X[order, 1]
            values = None if y is None else y[order]
            base = X[~is_canary], None if y is None else y[~is_canary]
        else:
            owner = np.repeat(np.arange(n_canaries), LEAST_ITEMS)
            items = _planted_items(X, n_items, n_canaries, rng).ravel()
            values = None if y is None else rng.choice(y, len(items))
            base = X, y
        self.shape = n_users + 2 * n_canaries, n_items
        grouped = np.argsort(owner, kind="stable")
        owner, items = owner[grouped], items[grouped]
        values = None if values is None else values[grouped]
        # The last row of each canary holds the item that the account leaves out.
        is_hidden = np.append(owner[1:] != owner[:-1], True)
        self._hidden = items[is_hidden]
        self._known = owner[~is_hidden], items[~is_hidden]
        first = n_users + n_canaries
        where = np.column_stack([first + self._known[0], self._known[1]])
        self.accounts: _Table = (where, None if values is None else values[~is_hidden])
        self.users = np.arange(first, first + n_canaries)
        rows = np.concatenate([base[0], np.column_stack([n_users + owner, items])])
        # The same permutation for all bits, so that the order of rows tells nothing.
        order = rng.permutation(len(rows))
        self._X = rows[order]
        self._y = None
        if values is not None and base[1] is not None:
            self._y = np.concatenate([base[1], values])[order]
        self._owner = np.append(np.full(len(base[0]), -1), owner)[order]

    def table(self, bits: NDArray[np.bool_]) -> _Table:
        """Rows of all customers but the canaries whose bit is 0."""
        kept = np.append(bits, True)[self._owner]
        return self._X[kept], None if self._y is None else self._y[kept]

    def statistics(self, answers: Any) -> NDArray[np.float64]:
        """What the attacker computes from the answers to the accounts.

        Parameters
        ----------
        answers : array-like of shape (n_canaries, n_items), or list of lists of int
            Scores of all items for each account, or items, best first.

        Returns
        -------
        statistics : ndarray of shape (n_canaries, 8)
        """
        n, n_items = len(self._hidden), self.shape[1]
        scores = _as_scores(answers, n, n_items)
        lowest = scores.min(axis=1)
        # What an account has already is out of the race.
        scores[self._known] = lowest[self._known[0]]
        own = scores[np.arange(n), self._hidden].astype(float)
        above, z = np.empty(n), np.empty(n)
        for start in range(0, n, _BLOCK):
            rows = slice(start, start + _BLOCK)
            block, mine = scores[rows].astype(float), own[rows, np.newaxis]
            ties = (block == mine).sum(axis=1) - 1
            above[rows] = (block > mine).sum(axis=1) + ties / 2
            z[rows] = (own[rows] - block.mean(axis=1)) / (block.std(axis=1) + 1e-12)
        # What other accounts are told about the same item.
        others = scores[:, self._hidden].astype(float)
        others[np.diag_indices(n)] = 0
        mean = others.sum(axis=0) / (n - 1)
        variance = (others**2).sum(axis=0) / (n - 1) - mean**2
        spread = np.sqrt(np.maximum(variance, 0)) + 1e-12
        reached = others >= own
        reached[np.diag_indices(n)] = False
        share = reached.sum(axis=0) / (n - 1)
        return np.column_stack(
            [
                own,
                -np.log1p(above),
                z,
                own - mean,
                mean,
                (own - mean) / spread,
                -np.log(share + 1 / n),
                above < 10,
            ]
        )


def _drawn_customers(
    X: NDArray[np.int64], n_canaries: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """The canary's number of each user, -1 for those that are no canary."""
    counts = np.bincount(X[:, 0])
    able = np.flatnonzero(counts >= LEAST_ITEMS)
    if len(able) < n_canaries:
        raise ValueError(
            f"n_canaries={n_canaries}, but fewer customers have at least "
            f"{LEAST_ITEMS} rows. Pass a smaller n_canaries, or canaries='planted'."
        )
    of_canary = np.full(len(counts), -1)
    of_canary[rng.permutation(able)[:n_canaries]] = np.arange(n_canaries)
    return of_canary


def _planted_items(
    X: NDArray[np.int64], n_items: int, n_canaries: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Histories of made-up customers, from the items that fewest have."""
    counts = np.bincount(X[:, 1], minlength=n_items)
    known = np.flatnonzero(counts)
    if len(known) < LEAST_ITEMS:
        raise ValueError(
            f"X has fewer than {LEAST_ITEMS} items, too few for a planted customer."
        )
    n_needed = LEAST_ITEMS * n_canaries
    rare = known[np.argsort(counts[known] + rng.random(len(known)))[:n_needed]]
    if len(rare) == n_needed:
        return rng.permutation(rare).reshape(n_canaries, LEAST_ITEMS)
    return np.stack(
        [rng.choice(rare, LEAST_ITEMS, replace=False) for _ in range(n_canaries)]
    )


def _as_scores(answers: Any, n_accounts: int, n_items: int) -> NDArray[np.float32]:
    """Answers as finite scores, which may be written to."""
    if len(answers) != n_accounts:
        raise ValueError(
            f"The recommender answered {len(answers)} accounts; it must answer all "
            f"{n_accounts}, in the order of their numbers."
        )
    is_scores = isinstance(answers, np.ndarray) and answers.dtype.kind == "f"
    if not is_scores:
        return _ranks(answers, n_accounts, n_items)
    if answers.shape != (n_accounts, n_items):
        raise ValueError(
            f"Scores must have the shape ({n_accounts}, {n_items}), one row for each "
            f"account; got {answers.shape}."
        )
    if np.isnan(answers).any() or np.isposinf(answers).any():
        raise ValueError(
            "Scores are NaN or infinite. Return minus infinity for an item that is "
            "never recommended."
        )
    # A copy: the caller's scores stay as they are. Very large ones stay finite.
    limit = np.finfo(np.float32).max
    scores = np.clip(answers, -limit, limit).astype(np.float32)
    left_out = np.isneginf(answers)
    if left_out.any():
        finite = scores[~left_out]
        scores[left_out] = finite.min() if finite.size else 0
    return scores


def _ranks(answers: Any, n_accounts: int, n_items: int) -> NDArray[np.float32]:
    """Lists of items, best first, as scores; what is not listed comes last."""
    lists = [np.asarray(answer) for answer in answers]
    longest = max(map(len, lists))
    scores = np.full((n_accounts, n_items), -longest, dtype=np.float32)
    for row, items in zip(scores, lists, strict=True):
        listed = items[items >= 0] if len(items) else np.zeros(0, dtype=int)
        if listed.dtype.kind not in "iu" or (listed >= n_items).any():
            raise ValueError(
                f"Lists must hold items as integers from 0 to {n_items - 1}, padded "
                f"with -1. Return scores as an array of floats."
            )
        if len(np.unique(listed)) < len(listed):
            raise ValueError(
                "An item occurs twice in a list. Return scores as an array of floats."
            )
        row[listed] = -np.arange(len(listed))
    return scores
