"""How a text file writes its table: compression, encoding, separator, header, columns.

Error messages name a line and show nothing of it.
"""

import codecs
import gzip
import io
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, cast
from zipfile import BadZipFile, ZipFile

ROLES = ("user", "item", "rating", "time")
SPACES = r"\s+"

_USUAL = (",", "\t", ";", "|", "::")
_UNUSUAL = re.compile(r"\s+[^\w\s\"']+\s+|[^\w\"'.+-]+")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
_DATE = re.compile(r"\d{4}-\d\d-\d\d.*")
_BLOCK = re.compile(r"\w+:")
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
STAND_IN = "\x01"  # stands for a separator of several; no text has it

_N_LINES = 1_000  # lines that decide on the dialect
_MOST = 0.9  # of these lines must agree on it
_N_BYTES = 2**24  # bytes that are decoded at a time
_MOST_COLUMNS = 20  # of a table that has one rating in a row
EARLIEST = 1e8  # seconds since 1970: larger numbers are times, not ratings

# Members of an archive that is a spreadsheet: Excel's, and others.
_OF_SHEETS = {"[Content_Types].xml", "xl/workbook.xml", "content.xml"}
_SHEET = (
    "{} is a spreadsheet, such as of Excel. Save its sheet as CSV, or pass what "
    "pandas.read_excel reads of it to fit."
)
# Errors of a damaged archive, depending on which of its bytes are.
# A RuntimeError says that it is encrypted.
_DAMAGED = (BadZipFile, EOFError, OSError, RuntimeError, struct.error, zlib.error)


@dataclass(frozen=True)
class Dialect:
    """How a text file writes its table."""

    encoding: str
    separator: str
    n_above: int  # lines above the table
    header: list[str] | None
    positions: list[int]  # of users, items, ratings and perhaps times
    decimal: str

    @property
    def has_long_separator(self) -> bool:
        """Whether pandas must be given another separator, of one character."""
        return len(self.separator) > 1 and self.separator != SPACES

    @property
    def names(self) -> list[str]:
        """Names of the columns at the positions."""
        if self.header is None:
            return list(ROLES[: len(self.positions)])
        return [self.header[position] for position in self.positions]

    def __str__(self) -> str:
        separator = "spaces" if self.separator == SPACES else repr(self.separator)
        comma = ", decimal comma" if self.decimal == "," else ""
        header = "no header" if self.header is None else "a header"
        where = self.positions if self.header is None else self.names
        encoding = self.encoding.removesuffix("-sig")
        return (
            f"text in {encoding}, separator {separator}{comma}, {header}; "
            f"{listed(where)}"
        )


def listed(columns: Sequence[object]) -> str:
    """Which column holds what."""
    pairs = zip(ROLES, columns, strict=False)
    return "columns: " + ", ".join(f"{role} {column}" for role, column in pairs)


def begins_with(path: Path, magic: bytes) -> bool:
    """Whether a file begins with these bytes."""
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


@contextmanager
def opened(path: Path, encoding: str) -> Iterator[IO[str]]:
    """A file of text, decompressed."""
    with _decompressed(path) as file:
        yield io.TextIOWrapper(file, encoding)


@contextmanager
def _decompressed(path: Path) -> Iterator[IO[bytes]]:
    if begins_with(path, b"\xd0\xcf\x11\xe0"):  # as of Excel before 2007
        raise ValueError(_SHEET.format(path.name))
    is_gzip, is_zip = begins_with(path, b"\x1f\x8b"), begins_with(path, b"PK\x03\x04")
    if not is_gzip and not is_zip:
        with path.open("rb") as file:
            yield file
        return
    try:
        if is_gzip:
            with gzip.open(path) as unzipped:
                yield cast(IO[bytes], unzipped)
            return
        with ZipFile(path) as archive:
            files = [info for info in archive.infolist() if not info.is_dir()]
            if _OF_SHEETS & {info.filename for info in files}:
                raise ValueError(_SHEET.format(path.name))
            if len(files) != 1:
                raise ValueError(
                    f"{path.name} holds {len(files)} files. Unzip it, and pass the one "
                    "with the ratings."
                )
            with archive.open(files[0]) as member:
                yield member
    except _DAMAGED as error:
        raise ValueError(f"{path.name} cannot be decompressed: {error}") from None


def _encoding_of(path: Path) -> str:
    """UTF-16 if a file says so, UTF-8 if it can be that, otherwise Latin-1."""
    with _decompressed(path) as file:
        piece = file.read(_N_BYTES)
        encoding = "utf-8-sig"
        if piece.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            encoding = "utf-16"
        elif b"\0" in piece:
            raise ValueError(f"{path.name} is neither text nor a Parquet file.")
        decoder = codecs.getincrementaldecoder(encoding)()
        try:
            while piece:
                decoder.decode(piece)
                piece = file.read(_N_BYTES)
            decoder.decode(b"", final=True)
            return encoding
        except UnicodeDecodeError:
            pass
    if encoding == "utf-16":
        # Raised outside the handler, so that the context does not show a character.
        raise ValueError(f"{path.name} says that it is UTF-16, and is not.")
    return "latin-1"


def dialect_of(path: Path, columns: Sequence[str | int] | None) -> Dialect:
    """Find out how a file writes its table.

    Raises
    ------
    ValueError
        If it is no table of ratings, or has them in another column.
    """
    encoding = _encoding_of(path)
    with opened(path, encoding) as file:
        lines = list(islice(file, _N_LINES))
    n_above = 0
    while n_above < len(lines) and lines[n_above].strip()[:1] in ("", "#", "%"):
        n_above += 1
    lines = [line.strip("\r\n") for line in lines[n_above:] if line.strip()]
    _refuse_other_formats(lines, n_above + 1, path)
    refusals = []
    for separator in (*_USUAL, *_unusual_separators(lines), SPACES):
        rows = [_fields(line, separator) for line in lines]
        found = _table_of(rows, columns, separator, path)
        if isinstance(found, str):
            refusals.append(found)
            continue
        header, positions, decimal = found
        return Dialect(encoding, separator, n_above, header, positions, decimal)
    # A separator that splits the lines says more than one that does not.
    raise ValueError(min(refusals, key=lambda text: text.endswith(_NO_SEPARATOR)))


_NO_SEPARATOR = (
    "no separator splits its lines into three columns or more, with users, items and "
    "ratings. Choices have no ratings: read them with pandas.read_csv, and fit "
    "ImplicitCompletion to them."
)


def _table_of(
    rows: list[list[str]],
    columns: Sequence[str | int] | None,
    separator: str,
    path: Path,
) -> tuple[list[str] | None, list[int], str] | str:
    """Header, positions and decimal point; or why these rows are no table."""
    counts = [len(row) for row in rows]
    n_columns = max(counts, key=counts.count)
    if n_columns < 3 or counts.count(n_columns) < _MOST * len(rows):
        return f"{path.name}: {_NO_SEPARATOR}"
    if columns is not None and len(rows[0]) != n_columns:
        return f"{path.name}: its first line has not as many columns as the others."
    try:
        positions = positions_of(columns, rows[0], path)
    except ValueError as error:
        return str(error)
    table = [row for row in rows if len(row) == n_columns]
    is_named = columns is not None and any(isinstance(name, str) for name in columns)
    values = [row[positions[2]] for row in table]
    has_header = is_named or not _are_numbers(values[:1], separator)
    values = values[has_header:]
    if not values:
        return f"{path.name} has no rows."
    if not _are_numbers(values, separator):
        if all(_DATE.fullmatch(value) for value in values):
            return holds_times(path)
        return no_numbers(path)
    if columns is None:
        times = [row[3] for row in table[has_header:]] if n_columns > 3 else []
        has_times = _are_times(times)
        positions += [3] * has_times
        others = [one for row in table for one in row[3:]]
        is_wide = n_columns > 4 and not has_times and not has_header
        if is_wide and _are_numbers(others, separator):
            return _wide(path, n_columns)
    decimal = "," if any(_DECIMAL_COMMA.fullmatch(value) for value in values) else "."
    return rows[0] if has_header else None, positions, decimal


def positions_of(
    columns: Sequence[str | int] | None, names: Sequence[str], path: Path
) -> list[int]:
    """Positions of users, items, ratings and perhaps times in a table."""
    if columns is None:
        if len(names) > _MOST_COLUMNS:
            raise ValueError(_wide(path, len(names)))
        return [0, 1, 2]
    positions = []
    for column in columns:
        if isinstance(column, str) and list(names).count(column) == 1:
            positions.append(list(names).index(column))
        elif not isinstance(column, str) and 0 <= column < len(names):
            positions.append(int(column))
        else:
            raise ValueError(
                f"columns: {path.name} has no column {column!r}, or has it twice. It "
                f"has {len(names)} columns."
            )
    return positions


def _wide(path: Path, n_columns: int) -> str:
    """The message for what may be a matrix of users and items."""
    return (
        f"{path.name} has {n_columns} columns. If each row is a user and each column "
        "an item, stack it: read it with pandas.read_csv(path, index_col=0), call its "
        "stack().reset_index(), and fit to the result. Otherwise say which columns "
        'hold users, items and ratings: columns=["user", "item", "rating"], by name, '
        "or by position from 0."
    )


def no_numbers(path: Path) -> str:
    """The message for ratings that are not numbers."""
    return (
        f"{path.name}: the column of ratings holds something other than numbers. Say "
        'which columns to read: columns=["user", "item", "rating"], by name, or by '
        "position from 0."
    )


def holds_times(path: Path) -> str:
    """The message for times in the place of ratings."""
    return (
        f"{path.name}: the column of ratings holds times. Say which columns to read: "
        "columns=[0, 1, 3, 2] if times are the third column and ratings the fourth. "
        "Without ratings, fit ImplicitCompletion to the users and items."
    )


def _refuse_other_formats(lines: list[str], first: int, path: Path) -> None:
    """Raise a ValueError if these are no lines of a table."""
    if not lines:
        raise ValueError(f"{path.name} has no rows.")
    if lines[0].lstrip()[0] in "{[":
        raise ValueError(
            f"{path.name} holds JSON from line {first} on. Read it with "
            "pandas.read_json(path, lines=True), and fit to columns of the result."
        )
    if lines[0].lstrip()[0] == "<":
        raise ValueError(f"{path.name} holds XML or HTML, which is no table.")
    if _BLOCK.fullmatch(lines[0].strip()):
        raise ValueError(
            f"{path.name} holds blocks: line {first} is the id of an item, say, and "
            "its ratings follow. Write it in every row:\n"
            'table = pandas.read_csv(path, names=["user", "rating", "time"])\n'
            'starts = table["user"].str.endswith(":")\n'
            'table["item"] = table["user"].where(starts).str[:-1].ffill()\n'
            'table = table.loc[~starts, ["user", "item", "rating", "time"]]'
        )


def _unusual_separators(lines: list[str]) -> list[str]:
    """What stands between the words of the last line, and is no usual separator."""
    found = dict.fromkeys(_UNUSUAL.findall(re.sub(r'"[^"]*"', "0", lines[-1])))
    return [text for text in found if text.strip() and text not in _USUAL]


def _fields(line: str, separator: str) -> list[str]:
    """Fields of a line, without their quotes; quoted separators do not count."""
    between = " " if separator == SPACES else separator
    masked = _QUOTED.sub(lambda found: found[0].replace(between, STAND_IN), line)
    parts = masked.split() if separator == SPACES else masked.split(separator)
    fields = [part.replace(STAND_IN, between).strip() for part in parts]
    return [
        field[1:-1].replace('""', '"') if _QUOTED.fullmatch(field) else field
        for field in fields
    ]


def _are_numbers(values: list[str], separator: str) -> bool:
    """Whether most of these texts, and at least one, are numbers."""
    n_numbers = sum(
        _NUMBER.fullmatch(value) is not None
        or (separator != "," and _DECIMAL_COMMA.fullmatch(value) is not None)
        for value in values
    )
    return n_numbers > 0 and n_numbers >= _MOST * len(values)


def _are_times(values: list[str]) -> bool:
    """Whether all of these texts, and at least one, are times."""
    return bool(values) and all(
        _DATE.fullmatch(value) is not None
        or (_NUMBER.fullmatch(value) is not None and float(value) >= EARLIEST)
        for value in values
    )
