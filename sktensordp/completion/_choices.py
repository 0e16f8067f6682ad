"""Choices and entries grouped by user, or by the indices of several modes."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..tensor._choices import Choices


def items_by_place(
    coordinates: NDArray[np.integer], keys: Sequence[int], shape: Sequence[int]
) -> Choices:
    """The items that were observed at each place.

    Parameters
    ----------
    coordinates : ndarray of shape (n, n_modes), int
        Coordinates of observed entries; items are in mode 1.
    keys : sequence of int
        The modes that make up a place; see `places_at`.
    shape : tuple of int

    Returns
    -------
    observed : Choices
        Its users are the places.
    """
    places, n_items = places_at(coordinates, keys, shape), shape[1]
    known, rows = None, places
    if math.prod(shape[mode] for mode in keys) * n_items >= 2**63:
        known, rows = np.unique(places, return_inverse=True)
    observed = Choices.from_keys(rows * n_items + coordinates[:, 1], n_items)
    if known is None:
        return observed
    return Choices(known, observed.starts, observed.items, n_items)


def places_at(
    coordinates: NDArray[np.integer], keys: Sequence[int], shape: Sequence[int]
) -> NDArray[np.int64]:
    """Combine the indices of some modes into one number; -1 if one is unknown."""
    places = np.zeros(len(coordinates), dtype=np.int64)
    is_known = np.ones(len(coordinates), dtype=bool)
    for mode in keys:
        places = places * shape[mode] + coordinates[:, mode]
        is_known &= coordinates[:, mode] >= 0
    return np.where(is_known, places, -1)


class ByUser(NamedTuple):
    """Where each user's entries are.

    Attributes
    ----------
    order : ndarray of shape (n,), int
        Places of the entries, user by user.
    users : ndarray of shape (n,), int
        Their users, ascending.
    """

    order: NDArray[np.integer]
    users: NDArray[np.integer]

    @classmethod
    def from_coordinates(cls, coordinates: NDArray[np.integer]) -> "ByUser":
        """Look up users in the first column of coordinates."""
        order = np.argsort(coordinates[:, 0], kind="stable")
        return cls(order, coordinates[order, 0])

    def places(self, users: NDArray[np.integer]) -> NDArray[np.integer]:
        """Places of the entries of some users."""
        first = np.searchsorted(self.users, users)
        last = np.searchsorted(self.users, users, side="right")
        found = [self.order[a:b] for a, b in zip(first, last, strict=True)]
        return np.concatenate([self.order[:0], *found])
