"""Where a budget keeps its records: the interface, and records in one process alone."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from .._guarantee import PrivacyGuarantee
from ._filter import Limits
from ._open import Mark, process_name


class Record(NamedTuple):
    """What a budget records of a release.

    Attributes
    ----------
    label : str
    guarantee : PrivacyGuarantee or None
        None if ids of records were published.
    sentences : tuple of str
        What the guarantee leaves out, unless an earlier record has said it.
    limits : Limits or None
        Limits of an adaptive budget, in the record of its first release.
    release : str, default=""
        Id of the release; "" if an earlier version recorded it.
    """

    label: str
    guarantee: PrivacyGuarantee | None
    sentences: tuple[str, ...]
    limits: Limits | None
    release: str = ""


class Ledger:
    """Records that are handed to the budget of this process, and kept nowhere else.

    Attributes
    ----------
    path : str or None
        Path of the file that keeps them, if there is one.
    note : str
        What is stored with every record of this process.
    mark : Mark
        Identifies the budget in the objects that belong to it.
    """

    path: str | None = None
    note = ""

    def __init__(self) -> None:
        self.mark = Mark(process_name(), None, secrets.token_hex(8))
        self._added: Record | None = None
        self._committed: list[Record] = []

    def check_process(self) -> None:
        """Raise if this process cannot record releases."""
        if self.mark.process != process_name():
            raise RuntimeError(
                "This privacy budget belongs to another process, which would not learn "
                "of a release made here. Make the release there, use threads, or give "
                "the budget a path."
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock out other processes; nothing is recorded without `commit`."""
        yield

    def news(self) -> Iterator[Record]:
        """Records that were committed since this was last exhausted.

        A record that the caller does not finish is yielded again, so that an
        interruption makes this process count too much.
        """
        while self._committed:
            yield self._committed[0]
            del self._committed[0]

    def add(self, record: Record) -> None:
        """Write one record, while this is locked."""
        self._added = record

    def commit(self) -> None:
        """Commit the record that was added last."""
        assert self._added is not None
        self._committed.append(self._added)
