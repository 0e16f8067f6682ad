"""The file of a budget: releases of any number of processes, in the order of writing.

The file is a SQLite database on a local disk. Every operation opens a connection of its
own and closes it, so that no fork inherits one. A writer holds the file's lock from
before it reads what was recorded until its own release is on the disk, so that two
processes never both take the last of a budget.
"""

import json
import os
import sqlite3
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

_APPLICATION, _FORMAT = 0x736B6470, 1
_ACCOUNTING = 1
"""Raise this if an event of a stored guarantee changes its meaning."""
_TIMEOUT = 60.0
"""Seconds for which a process waits for another one to finish writing."""

_SCHEMA = """
CREATE TABLE budget (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE releases (
    number INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    label TEXT NOT NULL,
    guarantee TEXT,
    sentences TEXT NOT NULL,
    versions TEXT NOT NULL
);
"""

# No fork happens while a connection is open: SQLite would take its parent's locks for
# the child's own.
_CONNECTED = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_CONNECTED.acquire,
        after_in_parent=_CONNECTED.release,
        after_in_child=_CONNECTED.release,
    )


class Row(NamedTuple):
    """A recorded release.

    Attributes
    ----------
    number : int
        From 1, without gaps.
    time : str
        In UTC, when it was recorded.
    label : str
    guarantee : str or None
        In JSON; None if ids of records were published.
    sentences : tuple of str
        What its guarantee leaves out and no earlier row says.
    versions : str
        Of the packages that recorded it.
    """

    number: int
    time: str
    label: str
    guarantee: str | None
    sentences: tuple[str, ...]
    versions: str


class Ledger:
    """The file of a budget.

    Parameters
    ----------
    path : str or path-like
        Of an existing file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    OSError
        If it cannot be read, is damaged, or is of a newer version.
    """

    def __init__(self, path: Any) -> None:
        self.path, self.id = os.path.realpath(path), ""
        with self.reading() as connection:
            self.parameters = self.facts(connection)
        self.id = str(self.parameters["id"])

    @staticmethod
    def create(path: Any, facts: dict[str, Any]) -> None:
        """Make a new file that holds these facts, in one transaction.

        Raises
        ------
        FileExistsError
            If there is such a file already.
        OSError
            If it cannot be made.
        """
        where = os.path.realpath(path)
        try:
            # It appears at once, with its identity or not at all.
            os.close(os.open(where, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
        except FileExistsError:
            raise FileExistsError(
                f"{where} exists already. To go on with this budget, leave out "
                f"`create=True`."
            ) from None
        facts = {"id": uuid.uuid4().hex, "accounting": _ACCOUNTING, **facts}
        with _connection(where) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_FORMAT}")
            Ledger.add_facts(connection, {**facts, "created": _now()})
            connection.execute("COMMIT")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection to read with, which sees one state of the file."""
        with _connection(self.path) as connection:
            connection.execute("BEGIN")
            self._check(connection)
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection that locks the file; nothing is written without `commit`."""
        with _connection(self.path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            self._check(connection)
            yield connection

    def commit(self, connection: sqlite3.Connection) -> None:
        """Put what was written on the disk."""
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            _refuse(self.path, error)

    @staticmethod
    def facts(connection: sqlite3.Connection) -> dict[str, Any]:
        """What is fixed: parameters, id, and what the first release decided."""
        rows = connection.execute("SELECT name, value FROM budget")
        return {name: _parsed(value) for name, value in rows}

    @staticmethod
    def add_facts(connection: sqlite3.Connection, facts: dict[str, Any]) -> None:
        """Fix something more."""
        rows = [(name, json.dumps(value)) for name, value in facts.items()]
        connection.executemany("INSERT INTO budget VALUES (?, ?)", rows)

    @staticmethod
    def rows(connection: sqlite3.Connection, after: int = 0) -> Iterator[Row]:
        """The releases after the one of this number."""
        found = connection.execute(
            "SELECT number, time, label, guarantee, sentences, versions FROM releases "
            "WHERE number > ? ORDER BY number",
            (after,),
        )
        for number, time, label, guarantee, sentences, versions in found:
            spoken = tuple(_parsed(sentences))
            yield Row(number, time, label, guarantee, spoken, versions)

    @staticmethod
    def last(connection: sqlite3.Connection) -> int:
        """Number of the last release; 0 if there is none."""
        last, count = connection.execute(
            "SELECT COALESCE(MAX(number), 0), COUNT(*) FROM releases"
        ).fetchone()
        if last != count:
            raise sqlite3.DatabaseError("releases are missing")
        return int(last)

    def add(
        self,
        connection: sqlite3.Connection,
        label: str,
        guarantee: str | None,
        sentences: list[str],
    ) -> None:
        """Add one release."""
        try:
            number, said = self.last(connection) + 1, json.dumps(sentences)
            row = (number, _now(), label, guarantee, said, _versions())
            connection.execute("INSERT INTO releases VALUES (?, ?, ?, ?, ?, ?)", row)
        except sqlite3.Error as error:
            _refuse(self.path, error)

    def _check(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that is not the budget that was opened."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (form,) = connection.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION:
            raise sqlite3.DatabaseError("this is not a budget")
        facts = self.facts(connection) if form <= _FORMAT else {}
        if form > _FORMAT or facts.get("accounting", 0) > _ACCOUNTING:
            raise OSError(
                f"A newer version of sktensordp made the budget in {self.path}. "
                f"Install that version, or a later one; nothing was drawn."
            )
        if self.id and facts.get("id") != self.id:
            raise OSError(
                f"{self.path} is another budget than the one that was opened; nothing "
                f"was drawn."
            )


@contextmanager
def _connection(path: str) -> Iterator[sqlite3.Connection]:
    with _CONNECTED:
        if not os.path.isfile(path):
            raise FileNotFoundError(
                f"There is no budget in {path}. Mend the path, or pass `create=True` "
                f"to begin a new budget there."
            )
        try:
            uri = f"{Path(path).as_uri()}?mode=rw"
            opened = sqlite3.connect(
                uri, uri=True, timeout=_TIMEOUT, isolation_level=None
            )
            with closing(opened) as connection:
                # With less, a loss of power could undo a release that was made.
                connection.execute("PRAGMA synchronous = EXTRA")
                yield connection
        except sqlite3.Error as error:
            _refuse(path, error)


def _refuse(path: str, error: Exception) -> NoReturn:
    """Say what is wrong with a file; no noise was drawn, since nothing was recorded."""
    code = getattr(error, "sqlite_errorname", "")
    if code.startswith("SQLITE_READONLY"):
        problem = "The budget in {} is read-only: releases cannot be recorded"
    elif code.startswith("SQLITE_FULL"):
        problem = "There is no space left to record a release in {}"
    elif code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        problem = f"Another process has kept {{}} locked for {_TIMEOUT:g} seconds"
    elif code.startswith(("SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_PERM")):
        problem = "The budget in {} cannot be opened, read or written"
    else:
        problem = (
            "{} is not a budget, or is damaged. An empty file is one whose creation "
            "was interrupted: delete it"
        )
    raise OSError(f"{problem.format(path)}; nothing was drawn.") from error


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise sqlite3.DatabaseError("a fact is unreadable") from None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _versions() -> str:
    names = ("sktensordp", "dp-accounting")
    return ", ".join(f"{name} {version(name)}" for name in names)
