"""Units whose entries are on the workers of Dask.

Every worker holds all entries of some units. What leaves a worker are sums of its
units' contributions, and answers to questions about single units. Both are functions of
the entries and of the question, so any worker that computes them again gets the same.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import dask
import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray

from ..tensor._distributed import PartitionGroups, by_thread, computed, tree_sum
from ..tensor._unit_entries import UnitEntries
from .measurements._unit_contributions import Contributions, Sums, summed


class PartitionedUnits:
    """Entries sorted by unit, in partitions of whole units; see `UnitEntries`.

    Parameters
    ----------
    partitions : list of Delayed of UnitEntries
        Computed here and kept in the memory of the workers.
    cuts : ndarray of shape (n_partitions + 1,), int
        Partition k has the units from cuts[k] to cuts[k + 1].
    """

    def __init__(self, partitions: Sequence[Delayed], cuts: NDArray[np.int64]) -> None:
        # Errors in a partition are raised here, before anything else is done.
        self._partitions, self._cuts = PartitionGroups(partitions), cuts

    def add_to(self, sums: Sequence[Sums], contribute: Contributions) -> None:
        """Add the contributions of all units to sums; see `UnitEntries.add_to`."""
        # Of a tuple that begins with a function, Dask would send every task a copy.
        question = dask.delayed((tuple(sums), contribute), traverse=False)
        task = dask.delayed(_steps, pure=False)
        steps = [task(group, question) for group in self._partitions.groups]
        totals = self._partitions.computed(tree_sum(steps))
        for of_block, total in zip(sums, totals, strict=True):
            of_block.take(total, None)

    def answers(
        self,
        fitted: Any,
        method: str,
        coordinates: NDArray[np.integer],
        *arguments: Any,
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[Any]]]:
        """Answer questions about units where their entries are.

        Parameters
        ----------
        fitted : FittedToUnits
            The released model.
        method : {"predict", "recommend"}
        coordinates : ndarray of shape (n, n_modes), int
            Their units are known.
        *arguments : object
            Further arguments of the method.

        Yields
        ------
        places : ndarray of int
            Rows of `coordinates`.
        answers : ndarray
            What the method returns for these rows.
        """
        numbers = np.searchsorted(self._cuts, coordinates[:, fitted.unit], "right") - 1
        asked = np.unique(numbers).tolist()
        places = [np.flatnonzero(numbers == k) for k in asked]
        shared = dask.delayed(fitted, traverse=False)
        task = dask.delayed(_answer, pure=False)
        groups, of_partitions = self._partitions.groups, self._partitions.places()
        answers = []
        for k, rows in zip(asked, places, strict=True):
            group, *place = of_partitions[k]
            question = shared, method, coordinates[rows], *arguments
            answers.append(task(groups[group], place, *question))
        yield from zip(places, computed(*answers), strict=True)


def _steps(
    group: list[list[UnitEntries]],
    question: tuple[tuple[Sums, ...], Contributions],
) -> tuple[NDArray[Any], ...]:
    """Sum the contributions of all units of a group; see `summed`."""
    empty, contribute = question

    def in_turn(partitions: list[UnitEntries]) -> tuple[NDArray[Any], ...]:
        sums = summed(partitions[0], contribute, empty)
        for entries in partitions[1:]:
            entries.add_to(sums, contribute)
        return tuple(of_block.steps for of_block in sums)

    totals, *others = by_thread(in_turn, group)
    for of_thread in others:
        _add_to(totals, of_thread)
    return totals


def _add_to(totals: Sequence[NDArray[Any]], terms: Sequence[NDArray[Any]]) -> None:
    for total, term in zip(totals, terms, strict=True):
        total += term


def _answer(
    group: list[list[UnitEntries]],
    place: tuple[int, int],
    fitted: Any,
    method: str,
    coordinates: NDArray[np.integer],
    *arguments: Any,
) -> NDArray[Any]:
    """What the method returns, with the rows of the units that are asked about."""
    thread, number = place
    own = group[thread][number].of(np.unique(coordinates[:, fitted.unit]))
    return getattr(fitted.with_units(own), method)(coordinates, *arguments)
