"""The file of a budget: releases of any number of processes, in the order of writing.

The file is a SQLite database on a local disk. Every operation opens a connection of its
own and closes it, so that no fork inherits one. A writer holds the file's lock from
before it reads what was recorded until its own release is on the disk, so that two
processes never both take the last of a budget. Nothing here waits for a lock of
another process: the operation fails, has done nothing, and `patient` tries it again.

Every row holds a hash of itself and of the row before it, the first one of the facts
that never change. Another table holds the number and the hash of the last row. So a row
that was changed, moved or lost does not go unnoticed. An older copy of the whole file
looks valid: only those who know a later hash notice it.

Files of version 0.1 have no column `origin`. They are read as they are, and the first
release that is recorded adds the column.
"""

import getpass
import json
import os
import re
import socket
import sqlite3
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from ..._build import build
from .._filing import versions
from ._filter import Limits
from ._ledger import Ledger, Record
from ._open import LONGEST_WAIT, OPEN, LockedFileError, Mark, patient, process_name
from ._stored import guarantee_from_json, guarantee_to_json

_APPLICATION, _FORMAT = 0x736B6470, 3
_WITHOUT_ORIGIN = 2
"""The format of version 0.1, whose rows do not say who recorded them."""
_ACCOUNTING = 1
"""Raise this if an event of a stored guarantee changes its meaning."""
_ACCOUNTINGS = {str(number) for number in range(1, _ACCOUNTING + 1)}
_PARAMETERS = "epsilon", "delta", "adaptive"

_SCHEMA = """
CREATE TABLE budget (name TEXT NOT NULL, value TEXT NOT NULL);
CREATE TABLE head (number INTEGER NOT NULL, hash TEXT NOT NULL);
CREATE TABLE releases (
    number INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    label TEXT NOT NULL,
    guarantee TEXT,
    sentences TEXT NOT NULL,
    limits TEXT,
    versions TEXT NOT NULL,
    hash TEXT NOT NULL,
    origin TEXT
);
"""
_HEAD = re.compile(r"(\d+):([0-9a-f]{16,64})")

_LOST = (
    "{} has lost releases that were recorded in it, as if a backup had been restored; "
    "nothing was drawn. Put the file back that was there. If it is lost, make a new "
    "budget, and record in it with `spend` what has been released."
)

# No fork happens while a connection is open: SQLite would take its parent's locks for
# the child's own. A connection stays open only while it is used to read or write.
_CONNECTED = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_CONNECTED.acquire,
        after_in_parent=_CONNECTED.release,
        after_in_child=_CONNECTED.release,
    )


ORIGIN = "release", "note", "user", "host", "process", "build"
_OF_GUARANTEE = "unit", "relation", "epsilon", "delta", "event"
SHOWN = (
    "number", "time", "release", "label", *_OF_GUARANTEE, "note", "user", "host",
    "process", "versions", "build", "hash",
)  # fmt: skip
"""What the history says of a release."""


class Row(NamedTuple):
    """A row of the table of releases, as it is in the file.

    Attributes
    ----------
    number : int
        From 1, without gaps.
    time : str
        When it was recorded, in UTC.
    label : str
    guarantee, sentences, limits : str or None
        As in `Record`, in JSON.
    versions : str
        Versions of the packages that recorded it.
    origin : str or None
        Id of the release, note, user, host, process and build, in JSON. None if version
        0.1 recorded it.
    hash : str
        Hash of all this, and of the row before.
    """

    number: int
    time: str
    label: str
    guarantee: str | None
    sentences: str
    limits: str | None
    versions: str
    origin: str | None
    hash: str

    def follows(self, number: int, digest: str) -> bool:
        """Whether this is the row after the one with this number and hash."""
        said = self[:-1] if self.origin is not None else self[:-2]
        return self.number == number + 1 and self.hash == _hash(digest, *said)

    def record(self) -> Record:
        """The record that the row holds."""
        try:
            limits = None if self.limits is None else Limits(*json.loads(self.limits))
            sentences = tuple(json.loads(self.sentences))
            guarantee = None
            if self.guarantee is not None:
                guarantee = guarantee_from_json(self.guarantee)
            release = self.told()["release"] or ""
            return Record(self.label, guarantee, sentences, limits, release)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise sqlite3.DatabaseError("a release is unreadable") from error

    def told(self) -> dict[str, Any]:
        """Id of the release, note, and who recorded it with which build; or None."""
        told = {} if self.origin is None else json.loads(self.origin)
        return {name: told.get(name) for name in ORIGIN}

    def shown(self, *, as_json: bool) -> dict[str, Any]:
        """What the history says of the release, perhaps as JSON can hold it."""
        guarantee = self.record().guarantee
        told = self._asdict() | self.told() | dict.fromkeys(_OF_GUARANTEE)
        if guarantee is not None:
            told |= {name: getattr(guarantee, name) for name in _OF_GUARANTEE}
        if as_json and guarantee is not None:
            told["event"] = json.loads(guarantee_to_json(guarantee))["event"]
            if not guarantee.protects:
                told["epsilon"] = None
        return {name: told[name] for name in SHOWN}


class FileLedger(Ledger):
    """The file of a budget.

    Parameters
    ----------
    path : str or path-like
        Path of an existing file.

    Attributes
    ----------
    parameters : dict
        Parameters of the budget.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    OSError
        If it cannot be read, is damaged, or is of a newer version.
    """

    path: str

    def __init__(self, path: "str | os.PathLike[str]") -> None:
        self.path = os.path.realpath(path)
        self.mark = Mark(process_name(), self.path, "")
        self._connection: sqlite3.Connection | None = None
        self._written: list[Row] = []
        self._just_committed: list[Row] | None = None
        with self._reading() as connection:
            _check_pages(connection, self.path)
            facts = _facts(connection)
            self._position = 0, _hash(*sorted(facts.items(), key=repr))
            self._rows(connection)
            self.parameters = {name: json.loads(facts[name]) for name in _PARAMETERS}
        self.mark = self.mark._replace(id=json.loads(facts["id"]))
        OPEN.paths[self.mark.id] = self.path

    @staticmethod
    def create(path: "str | os.PathLike[str]", parameters: dict[str, Any]) -> None:
        """Make a new file that holds these parameters, in one transaction.

        Raises
        ------
        FileExistsError
            If there is such a file already.
        OSError
            If it cannot be made.
        """
        where = os.path.realpath(path)
        try:
            # The file appears in one step, with its identity, or not at all.
            os.close(os.open(where, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
        except FileExistsError:
            raise FileExistsError(
                f"{where} exists already. To go on with this budget, leave out "
                f"`create=True`."
            ) from None
        stated = {"id": uuid.uuid4().hex, "accounting": _ACCOUNTING, "created": _now()}
        facts = {
            name: json.dumps(one) for name, one in {**stated, **parameters}.items()
        }
        try:
            _fill(where, facts)
        except BaseException:
            # An empty file was not committed, and nobody else could fill it.
            with suppress(OSError):
                if os.path.getsize(where) == 0:
                    os.remove(where)
            raise

    def check_process(self) -> None:
        """Every process can record in the file."""

    @property
    def head(self) -> str:
        """Number and hash of the last row that was read."""
        number, digest = self._position
        return f"{number}:{digest[:16]}"

    def check_head(self, head: str) -> None:
        """Refuse a file that lacks the row of a number and hash.

        Raises
        ------
        ValueError
            If `head` is no number and hash.
        OSError
            If the file lost that row.
        """
        said = _HEAD.fullmatch(head) if isinstance(head, str) else None
        if said is None:
            raise ValueError(
                "head must be what `budget.head` was, such as '41:2c39f0b1c8d7e6a5'."
            )
        number = int(said[1])
        with self._reading() as connection:
            digest = _hash(*sorted(_facts(connection).items(), key=repr))
            if number:
                # SQLite's integers have 64 bits.
                where = "releases WHERE number = ?"
                found = _table(connection, where, min(number, 2**62))
                digest = found[0].hash if found else ""
        if not digest.startswith(said[2]):
            raise OSError(_LOST.format(self.path))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the file; nothing is written without `commit`."""
        with _connected(self.path) as connection:
            # Readers, too, are locked out, so that `commit` waits for none.
            _run(connection, "BEGIN EXCLUSIVE")
            self._check(connection)
            self._connection = connection
            try:
                yield
            finally:
                self._connection = self._just_committed = None

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the file: that of the lock, if any."""
        if self._connection is not None:
            with _explained(self.path):
                yield self._connection
            return
        with _connected(self.path) as connection:
            _run(connection, "BEGIN")
            self._check(connection)
            yield connection

    def news(self) -> Iterator[Record]:
        """What any process has recorded since the last call."""
        # Rows that were committed just now follow those that were read under the lock.
        rows = self._just_committed
        if rows is None:
            with self._reading() as connection:
                rows = self._rows(connection)
        while rows:
            with _explained(self.path):
                record = rows[0].record()
            yield record
            self._position = rows[0].number, rows[0].hash
            del rows[0]

    def history(self) -> list[Row]:
        """All rows, with what they say."""
        with self._reading() as connection:
            return _table(connection, "releases WHERE number > 0 ORDER BY number")

    def add(self, record: Record) -> None:
        """Write one record, while the file is locked."""
        assert self._connection is not None
        label, guarantee, sentences, limits, release = record
        number, digest = self._position
        said = (
            number + 1,
            _now(),
            label,
            None if guarantee is None else guarantee_to_json(guarantee),
            json.dumps(sentences),
            None if limits is None else json.dumps(astuple(limits)),
            versions(),
            json.dumps(dict(zip(ORIGIN, (release, self.note, *_who()), strict=True))),
        )
        row = Row(*said, _hash(digest, *said))
        with _explained(self.path):
            if _value(self._connection, "PRAGMA user_version") == _WITHOUT_ORIGIN:
                _run(self._connection, "ALTER TABLE releases ADD COLUMN origin TEXT")
                _run(self._connection, f"PRAGMA user_version = {_FORMAT}")
            names, marks = ", ".join(row._fields), ", ".join("?" * len(row))
            insert = f"INSERT INTO releases ({names}) VALUES ({marks})"
            _run(self._connection, insert, *row)
            head = row.number, row.hash
            _run(self._connection, "UPDATE head SET number = ?, hash = ?", *head)
            if self._rows(self._connection) != [row]:
                raise sqlite3.DatabaseError("a release is not found again")
        self._written = [row]

    def commit(self) -> None:
        """Store on the disk what was written."""
        assert self._connection is not None
        with _explained(self.path):
            _run(self._connection, "COMMIT")
        self._just_committed = self._written

    def _check(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that is not the budget that was opened."""
        if _value(connection, "PRAGMA application_id") != _APPLICATION:
            raise sqlite3.DatabaseError("this is not a budget")
        form = _value(connection, "PRAGMA user_version")
        facts = _facts(connection) if form <= _FORMAT else {}
        if form > _FORMAT or _is_newer(facts.get("accounting")):
            _check_pages(connection, self.path)
            raise OSError(
                f"A newer version of sktensordp made the budget in {self.path}. "
                f"Install that version, or a later one; nothing was drawn."
            )
        if form < _WITHOUT_ORIGIN or facts.get("accounting") not in _ACCOUNTINGS:
            raise sqlite3.DatabaseError("facts are missing")
        if self.mark.id and facts.get("id") != json.dumps(self.mark.id):
            raise OSError(
                f"{self.path} is not the budget that was opened; nothing "
                f"was drawn. Put the file back that was there, or open this one anew."
            )

    def _rows(self, connection: sqlite3.Connection) -> list[Row]:
        """The rows after those that were read; an error if any row is not in order."""
        number, digest = self._position
        last = _value(connection, "SELECT COALESCE(MAX(number), 0) FROM releases")
        where = "releases WHERE number >= ? ORDER BY number"
        rows = _table(connection, where, max(number, 1))
        known = rows.pop(0).hash if number and rows else digest
        if last < number or known != digest:
            raise OSError(_LOST.format(self.path))
        for row in rows:
            if not row.follows(number, digest):
                raise sqlite3.DatabaseError("a release is not what was recorded")
            number, digest = row.number, row.hash
        if _value(connection, "SELECT COUNT(*) FROM releases") != number:
            raise sqlite3.DatabaseError("releases are missing")
        head = _run(connection, "SELECT number, hash FROM head")
        if head != [(number, digest)] or last != number:
            raise sqlite3.DatabaseError("the last releases are missing")
        return rows


@patient
def _fill(path: str, facts: dict[str, str]) -> None:
    """Write a new budget into an empty file, in one transaction."""
    head = 0, _hash(*sorted(facts.items(), key=repr))
    with _connected(path) as connection:
        _run(connection, "BEGIN EXCLUSIVE")
        for statement in _SCHEMA.split(";"):
            _run(connection, statement)
        _run(connection, f"PRAGMA application_id = {_APPLICATION}")
        _run(connection, f"PRAGMA user_version = {_FORMAT}")
        for fact in facts.items():
            _run(connection, "INSERT INTO budget VALUES (?, ?)", *fact)
        _run(connection, "INSERT INTO head VALUES (?, ?)", *head)
        _run(connection, "COMMIT")


def _is_newer(accounting: object) -> bool:
    """Whether the accounting of a file is the number of a later version."""
    said = str(accounting)
    return said.isdecimal() and int(said) > _ACCOUNTING


def _run(connection: sqlite3.Connection, query: str, *values: object) -> list[Any]:
    """All results of a query at once.

    A statement that is not finished keeps its lock when its connection is closed.
    """
    try:
        return connection.execute(query, values).fetchall()
    except (ValueError, TypeError, OverflowError) as error:
        # Damaged contents may not even be text, nor may SQLite's message about them.
        raise sqlite3.DatabaseError("the file is unreadable") from error


def _facts(connection: sqlite3.Connection) -> dict[str, str]:
    """The facts that never change, as text."""
    return dict(_run(connection, "SELECT name, value FROM budget"))


def _table(connection: sqlite3.Connection, where: str, *values: int) -> list[Row]:
    form = _value(connection, "PRAGMA user_version")
    names = ", ".join(Row._fields)
    if form == _WITHOUT_ORIGIN:
        names = names.replace("origin", "NULL")
    return [Row(*r) for r in _run(connection, f"SELECT {names} FROM {where}", *values)]


def _value(connection: sqlite3.Connection, query: str) -> Any:
    """The one value that a query gives."""
    ((value,),) = _run(connection, query)
    return value


def _check_pages(connection: sqlite3.Connection, path: str) -> None:
    """Raise if pages of the database are missing, or are not what they should be."""
    if _value(connection, "PRAGMA quick_check(1)") != "ok":
        raise sqlite3.DatabaseError("pages are damaged")
    size = _value(connection, "PRAGMA page_size")
    if os.path.getsize(path) != size * _value(connection, "PRAGMA page_count"):
        raise sqlite3.DatabaseError("the file has another length")


@contextmanager
def _connected(path: str) -> Iterator[sqlite3.Connection]:
    with _CONNECTED, _explained(path):
        if not os.path.isfile(path):
            raise FileNotFoundError(
                f"There is no budget in {path}. Correct the path, or begin a new "
                f"budget there with `create=True`."
            )
        uri = f"{Path(path).as_uri()}?mode=rw"
        opened = sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None)
        with closing(opened) as connection:
            # With less, a loss of power could undo a release that was made.
            _run(connection, "PRAGMA synchronous = EXTRA")
            try:
                yield connection
            finally:
                with suppress(sqlite3.Error):
                    connection.rollback()


@contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        _refuse(path, error)


def _refuse(path: str, error: Exception) -> NoReturn:
    """Say what is wrong with a file; no noise was drawn, since nothing was recorded."""
    code, kind = getattr(error, "sqlite_errorname", ""), OSError
    if code.startswith("SQLITE_READONLY"):
        problem = (
            "The budget in {} is read-only: releases cannot be recorded",
            "Give this user the right to write the file and its folder",
        )
    elif code.startswith("SQLITE_FULL"):
        problem = (
            "There is no space left to record a release in {}",
            "Make space, and try again",
        )
    elif code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        kind = LockedFileError
        problem = (
            f"Another process has kept {{}} locked for {LONGEST_WAIT:g} seconds",
            "Try again when that process has ended",
        )
    elif code.startswith(("SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_PERM")):
        problem = (
            "The budget in {} cannot be opened, read or written",
            "Look for its disk, and for the rights of its folder",
        )
    else:
        problem = (
            "{} is not a budget, or is damaged",
            "An empty file is one whose creation was interrupted: delete it. Otherwise "
            "put back the latest good copy, and record in it with `spend` what has "
            "been released since",
        )
    what, advice = problem
    raise kind(f"{what.format(path)}; nothing was drawn. {advice}.") from error


def _hash(*parts: object) -> str:
    return sha256(repr(parts).encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _who() -> tuple[str | None, str | None, int, str]:
    """User, host, process and build, as far as the operating system tells."""
    user, host = None, None
    with suppress(OSError, KeyError, ImportError):
        user = getpass.getuser()
    with suppress(OSError):
        host = socket.gethostname()
    return user, host, os.getpid(), build()
