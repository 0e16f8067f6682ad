"""Ratings in people's own files, which pandas parses.

`fetch_movielens` does not read its files in this way: it knows their format, verifies
every byte, and does not need pandas.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import Bunch

from sktensordp._extras import imported
from sktensordp._validation import warn
from sktensordp.datasets._dialects import (
    EARLIEST,
    ROLES,
    STAND_IN,
    Dialect,
    begins_with,
    dialect_of,
    holds_times,
    listed,
    no_numbers,
    opened,
    positions_of,
)

if TYPE_CHECKING:
    import pandas as pd

_N_ROWS = 500_000  # rows that are parsed at a time
_TOO_MANY = re.compile(r"Expected (\d+) fields in line (\d+), saw (\d+)")
_OPEN_QUOTE = re.compile(r"EOF inside string starting at row (\d+)")
_WHOLE = r"(?:0|-?[1-9][0-9]{0,17})"
_WORDS = {
    "user": ("user", "reviewer", "customer"),
    "item": ("item", "movie", "film", "book", "product", "isbn"),
    "rating": ("rating", "stars", "score"),
    "time": ("time", "date"),
}


def read_ratings(
    path: str | os.PathLike[str], *, columns: Sequence[str | int] | None = None
) -> Bunch:
    r"""Read ratings from a file, whatever its dialect.

    Each row of the file has a user, an item and a rating, in this order, and perhaps a
    time. The file is text in UTF-8, UTF-16 or Latin-1, with a header or without, with
    quotes or without, and with any separator of one or more characters. It may be
    compressed (gz, or zip with one file). Or it is a Parquet file.

    Parameters
    ----------
    path : str or path-like
        The file.
    columns : sequence of 3 or 4 str or int, default=None
        Names, or positions counted from 0, of the columns of users, items, ratings and
        perhaps times, in this order. None takes the first three columns, and the
        fourth if it holds times.

    Returns
    -------
    ratings : :class:`~sklearn.utils.Bunch`
        Dictionary-like object, with the following attributes.

        data : DataFrame of shape (n_ratings, 2) or (n_ratings, 3)
            User, item and, where the file has it, time of each rating, in the order of
            the file. Ids are int64 if all ids of the column are whole numbers without
            leading zeros, and text otherwise. Times are numbers, as in the file, or
            datetimes.
        target : Series of shape (n_ratings,), dtype float64
            Value of each rating.
        feature_names : list of str
            Names of the columns of `data`.
        target_names : list of str
            Name of the target.
        frame : DataFrame of shape (n_ratings, 3) or (n_ratings, 4)
            `data` and `target` together.
        DESCR : str
            What the function found out about the file.

    Raises
    ------
    ValueError
        If the file is no table of ratings, if its columns are in another order, or if a
        line is malformed. The message names the line, and shows nothing of it.
    ModuleNotFoundError
        If pandas is not installed or, for a Parquet file, pyarrow.

    Warns
    -----
    UserWarning
        If the names of the columns suggest another order.

    See Also
    --------
    fetch_movielens : Ratings of films, downloaded and verified.
    make_ratings : Synthetic ratings, of any size.

    Notes
    -----
    The result has no `levels`: the scale must be public, and the values in a file are
    not. Declare the scale from which people could choose, or let the fit find it within
    its epsilon.

    Examples
    --------
    >>> import os, tempfile
    >>> from sktensordp.datasets import read_ratings
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "ratings.dat")
    ...     with open(path, "w") as file:
    ...         _ = file.write("ann::7::4.5::978300760\nbob::12::3::978302109\n")
    ...     ratings = read_ratings(path)
    >>> print(ratings.frame)
      user  item       time  rating
    0  ann     7  978300760     4.5
    1  bob    12  978302109     3.0
    >>> print(ratings.DESCR)
    text in utf-8, separator '::', no header; columns: user 0, item 1, rating 2, time 3
    """
    pandas = imported("pandas", "pandas")
    path = Path(path)
    if columns is not None and (
        isinstance(columns, str)
        or len(columns) not in (3, 4)
        or len(set(columns)) < len(columns)
    ):
        raise ValueError(
            "columns must name three or four different columns: users, items, ratings "
            "and perhaps times."
        )
    read = _read_parquet if begins_with(path, b"PAR1") else _read_text
    table, description = read(path, columns, pandas)
    if table.iloc[:, 2].min() >= EARLIEST:
        raise ValueError(holds_times(path))
    if columns is None:
        _warn_of_another_order(table.columns)
    target = table.iloc[:, 2]
    data = table.drop(columns=target.name)
    return Bunch(
        data=data,
        target=target,
        feature_names=list(data.columns),
        target_names=[target.name],
        frame=data.assign(**{target.name: target}),
        DESCR=description,
    )


def _read_parquet(
    path: Path, columns: Sequence[str | int] | None, pandas: Any
) -> "tuple[pd.DataFrame, str]":
    """Columns of a Parquet file, with its types, and what was found out."""
    try:
        table = pandas.read_parquet(path)
    except ImportError:
        raise ModuleNotFoundError(
            "Parquet files need pyarrow, which is not installed: pip install pyarrow"
        ) from None
    table.columns = [str(name) for name in table.columns]
    if columns is None and table.shape[1] < 3:
        raise ValueError(f"{path.name} needs three columns: users, items and ratings.")
    positions = positions_of(columns, table.columns, path)
    types = pandas.api.types
    if table.shape[1] > 3 and columns is None:
        fourth = table.iloc[:, 3]
        if types.is_datetime64_any_dtype(fourth) or (
            types.is_numeric_dtype(fourth) and fourth.min() >= EARLIEST
        ):
            positions.append(3)
    table = table.iloc[:, positions].reset_index(drop=True)
    values = table.iloc[:, 2]
    if types.is_datetime64_any_dtype(values):
        raise ValueError(holds_times(path))
    if not types.is_numeric_dtype(values):
        raise ValueError(no_numbers(path))
    for role, name in zip(ROLES, table.columns, strict=False):
        if table[name].isna().any():
            row = int(table[name].isna().to_numpy().argmax())
            raise ValueError(f"{path.name}: row {row}, counted from 0, has no {role}.")
    table = table.astype({table.columns[2]: np.float64})
    return table, f"Parquet; {listed(list(table.columns))}"


def _read_text(
    path: Path, columns: Sequence[str | int] | None, pandas: Any
) -> "tuple[pd.DataFrame, str]":
    """Columns of a text file, and what was found out about it."""
    dialect = dialect_of(path, columns)
    names = dialect.names
    if len(set(names)) < len(names):
        names = list(ROLES[: len(names)])
    parts: dict[str, list[pd.Series]] = {name: [] for name in names}
    for chunk in _chunks(path, dialect, pandas):
        for name, role, position in zip(names, ROLES, dialect.positions, strict=False):
            parts[name].append(_column(chunk[position], role, dialect, path, pandas))
    table = pandas.DataFrame(
        {
            name: _joined(parts[name], role, path, pandas)
            for name, role in zip(names, ROLES, strict=False)
        }
    )
    return table, str(dialect)


def _chunks(path: Path, dialect: Dialect, pandas: Any) -> "Iterator[pd.DataFrame]":
    """Rows of a text file, as text, with the numbers of their lines as index."""
    n_skipped = dialect.n_above + (dialect.header is not None)
    is_long = dialect.has_long_separator
    with opened(path, dialect.encoding) as file:
        try:
            for chunk in pandas.read_csv(
                _Replaced(file, dialect.separator) if is_long else file,
                sep=STAND_IN if is_long else dialect.separator,
                header=None,
                skiprows=n_skipped,
                skip_blank_lines=False,
                skipinitialspace=True,
                dtype=str,
                na_filter=False,
                chunksize=_N_ROWS,
            ):
                chunk.index += n_skipped + 1
                yield chunk[(chunk != "").any(axis=1)]
        except pandas.errors.ParserError as error:
            raise ValueError(f"{path.name}{_why(str(error))}.") from None


def _why(error: str) -> str:
    """Why pandas cannot parse a file, and in which line."""
    if found := _TOO_MANY.search(error):
        expected, line, saw = found.groups()
        return f", line {line}: {saw} columns instead of {expected}"
    if found := _OPEN_QUOTE.search(error):
        return f", line {int(found[1]) + 1}: a quote opens, and nothing closes it"
    return " is malformed"


class _Replaced:
    """A file of text in which one character stands for a separator of several."""

    def __init__(self, file: IO[str], separator: str) -> None:
        self.file, self.separator = file, separator

    def read(self, size: int = -1) -> str:
        lines = "".join(self.file.readlines(size))
        return lines.replace(self.separator, STAND_IN)

    def __iter__(self) -> Iterator[str]:
        for line in self.file:
            yield line.replace(self.separator, STAND_IN)


def _column(
    texts: "pd.Series", role: str, dialect: Dialect, path: Path, pandas: Any
) -> "pd.Series":
    """The values of a column of texts, with the type that all of them have."""
    texts = texts.str.strip()
    _refuse_first(texts == "", f"no {role}", path)
    if role == "rating":
        if dialect.decimal == ",":
            texts = texts.str.replace(",", ".")
        values = pandas.to_numeric(texts, errors="coerce")
        _refuse_first(~np.isfinite(values), "the rating is no number", path)
        return values.astype(np.float64)
    if texts.str.fullmatch(_WHOLE).all():
        return texts.astype(np.int64)
    if role == "time":
        values = pandas.to_numeric(texts, errors="coerce")
        if values.isna().any():
            values = pandas.to_datetime(texts, format="ISO8601", errors="coerce")
        _refuse_first(values.isna(), "the time is no number and no ISO date", path)
        return values
    if dialect.has_long_separator:
        texts = texts.str.replace(STAND_IN, dialect.separator)
    return texts


def _refuse_first(is_refused: "pd.Series", why: str, path: Path) -> None:
    """Raise a ValueError that names the first line that is refused."""
    if is_refused.any():
        raise ValueError(f"{path.name}, line {is_refused.idxmax()}: {why}.")


def _joined(
    parts: "list[pd.Series]", role: str, path: Path, pandas: Any
) -> "pd.Series":
    """A column from its parts, with the type that all of them have."""
    kinds = {part.dtype.kind for part in parts}
    if role == "time" and "M" in kinds and len(kinds) > 1:
        raise ValueError(f"{path.name}: some times are numbers, and others are dates.")
    if role in ("user", "item") and "i" in kinds and len(kinds) > 1:
        parts = [part.astype(str) for part in parts]
    return pandas.concat(parts, ignore_index=True)


def _warn_of_another_order(names: "pd.Index") -> None:
    """Warn if the name of a column is that of another one's content."""
    doubtful = []
    for role, name in zip(ROLES, names, strict=False):
        meant = [
            other
            for other, words in _WORDS.items()
            if any(word in str(name).lower() for word in words)
        ]
        if meant and role not in meant:
            doubtful.append(f"{name!r} as {role}s")
    if doubtful:
        warn(
            f"These columns are read by their position: {', '.join(doubtful)}. If they "
            'hold something else, say which to read: columns=["user", "item", '
            '"rating"].'
        )
