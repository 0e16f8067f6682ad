"""Download and verification of the MovieLens ratings of GroupLens."""

import io
import os
import shutil
import tempfile
import warnings
import zlib
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from typing import IO
from urllib.error import HTTPError
from urllib.request import urlopen
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import get_data_home
from sklearn.utils import Bunch

from sktensordp._extras import imported
from sktensordp.datasets._editions import (
    EDITIONS,
    Edition,
    file_checksum,
    ratings_checksum,
)

_URL = "https://files.grouplens.org/datasets/movielens/ml-{name}.zip"
_TIMEOUT = 60  # seconds

# Errors that zipfile raises, depending on which bytes of an archive are damaged.
_UNREADABLE = (OSError, EOFError, LookupError, RuntimeError, BadZipFile, zlib.error)
_NOT_VERIFIED = "{} fails the verification: expected {}, found {}."
_COUNTS = "{} users, {} items and {} ratings"


def fetch_movielens(
    name: str = "latest-small",
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    *,
    as_frame: bool = False,
    as_choices: bool = False,
) -> Bunch:
    """Load the ratings of a MovieLens data set, and download them if necessary.

    The function uses the first of these that exists: the archive
    ``movielens/ml-{name}.zip`` in `data_home`, the unpacked folder
    ``movielens/ml-{name}`` there, and the same two directly in `data_home`. If none
    exists, it downloads the archive to the first of these paths.

    It verifies every file. An archive must have its published checksum, or hold
    ratings with a known checksum. Ratings in an unpacked folder must have a known
    checksum too. If none is known, as for most editions, the numbers of users, rated
    items and ratings must be the published ones, and all ratings must be on the scale:
    this detects a truncated or wrong file, but not a subtle change.

    Parameters
    ----------
    name : {"100k", "1m", "10m", "20m", "25m", "32m", "latest-small"}, \
            default="latest-small"
        Name of the data set. "latest-small" is downloaded in its edition of 2018; an
        existing file of the 2016 edition is recognised.
    data_home : str or path-like, default=None
        Data folder of scikit-learn, see :func:`sklearn.datasets.get_data_home`.
    download_if_missing : bool, default=True
        Whether to download the data if they are missing. If False, raise an OSError.
    as_frame : bool, default=False
        Whether `data` and `target` are pandas objects, with an additional `frame`.
    as_choices : bool, default=False
        Whether to treat every rating as a choice, whatever its value. `data` then holds
        users and items alone, and `target`, `target_names`, `levels` and `frame` are
        missing.

    Returns
    -------
    ratings : :class:`~sklearn.utils.Bunch`
        Dictionary-like object, with the following attributes.

        data : ndarray or DataFrame of shape (n_ratings, 3), dtype int64
            User id, item id and time (seconds since 1970) of each rating, as in the
            file and in its order. With ``as_choices=True``, without the time.
        target : ndarray or Series of shape (n_ratings,), dtype float64
            Value of each rating, in stars.
        levels : ndarray of shape (n_levels,)
            Public scale: the values that a rating can take.
        edition : str
            "2016" or "2018" for "latest-small", otherwise the name.
        feature_names : list of str
            Names of the columns of `data`.
        target_names : list of str
            Name of the target.
        frame : DataFrame of shape (n_ratings, 4)
            `data` and `target` together. Only present if `as_frame=True`.
        DESCR : str
            Description of the data, with terms of use and how to cite them.

    Raises
    ------
    ValueError
        If `name` is not the name of a data set.
    OSError
        If the data are missing and must not or cannot be downloaded, or if a file fails
        the verification.

    See Also
    --------
    make_ratings : Synthetic ratings, of any size.

    Examples
    --------
    >>> from sktensordp.datasets import fetch_movielens
    >>> fetch_movielens("100k").data.shape  # doctest: +SKIP
    (100000, 3)
    """
    editions = [edition for edition in EDITIONS if edition.name == name]
    if not editions:
        names = list(dict.fromkeys(edition.name for edition in EDITIONS))
        raise ValueError(f"name must be one of {names}, got {name!r}.")
    home = Path(get_data_home(data_home))
    pd = imported("pandas", "pandas") if as_frame else None
    path = _find(editions[0], home)
    if path is None and not download_if_missing:
        raise OSError(
            f"MovieLens {name} is not in {home}, and `download_if_missing` is False."
        )
    path = path or _download(editions, home / "movielens")
    read = _read_archive if path.suffix == ".zip" else _read_unpacked
    edition, data, target = read(path, editions)

    ratings = Bunch(
        data=data,
        target=target,
        levels=np.array(edition.levels),
        edition=edition.edition,
        feature_names=["user_id", "item_id", "timestamp"],
        target_names=["rating"],
        DESCR=edition.describe(),
    )
    if as_choices:
        ratings.data = np.ascontiguousarray(data[:, :2])
        ratings.feature_names = ratings.feature_names[:2]
        for name in ("target", "target_names", "levels"):
            del ratings[name]
    if pd is not None:
        ratings.data = pd.DataFrame(ratings.data, columns=ratings.feature_names)
        if as_choices:
            return ratings
        ratings.target = pd.Series(target, name="rating")
        ratings.frame = ratings.data.assign(rating=ratings.target)
    return ratings


def _find(edition: Edition, home: Path) -> Path | None:
    """Path of the archive or the unpacked ratings file, if either exists."""
    unpacked_as, file = edition.member.split("/")
    for folder in (home / "movielens", home):
        for path in (
            folder / f"ml-{edition.name}.zip",
            folder / f"ml-{edition.name}" / file,
            folder / unpacked_as / file,
        ):
            if path.is_file():
                return path
    return None


def _download(editions: Sequence[Edition], folder: Path) -> Path:
    """Download the archive, and move it to its final path once it is verified."""
    url = _URL.format(name=editions[0].name)
    path = folder / f"ml-{editions[0].name}.zip"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="download-") as temporary:
        download = Path(temporary) / path.name
        try:
            with urlopen(url, timeout=_TIMEOUT) as reply, download.open("wb") as file:
                shutil.copyfileobj(reply, file)
        except (OSError, HTTPException) as error:
            if isinstance(error, HTTPError):
                error.close()  # The error is also the response.
            raise OSError(
                f"Could not download {url} ({error}). Try again later, or get the "
                f"file in another way, save it as {path}, and call fetch_movielens "
                "again with the same data_home."
            ) from error
        _identify_archive(download, editions, f"{path.name} as served by {url}")
        os.replace(download, path)
    return path


def _identify_archive(
    path: Path, editions: Sequence[Edition], name: str | Path
) -> Edition:
    """Find the edition by the archive's checksum; error messages call it `name`."""
    expected, actual = [], []
    for edition in editions:
        if edition.zip_checksum is not None:
            checksum = file_checksum(path, edition.zip_checksum.partition(":")[0])
            if checksum == edition.zip_checksum:
                return edition
            expected.append(edition.zip_checksum)
            actual.append(checksum)
        if edition.ratings_checksum is not None:
            try:
                checksum = ratings_checksum(_unpacked(path, edition))
            except _UNREADABLE:
                checksum = "nothing readable"
            if checksum == edition.ratings_checksum:
                return edition
            expected.append(f"{edition.ratings_checksum} in {edition.member}")
            actual.append(f"{checksum} in {edition.member}")
    raise OSError(_NOT_VERIFIED.format(name, " or ".join(expected), ", ".join(actual)))


def _read_archive(
    path: Path, editions: Sequence[Edition]
) -> tuple[Edition, NDArray[np.int64], NDArray[np.float64]]:
    """Verify and read an archive."""
    edition = _identify_archive(path, editions, path)
    return edition, *_parse(_unpacked(path, edition), edition.member)


def _unpacked(path: Path, edition: Edition) -> bytes:
    """The ratings file in an archive; raise an OSError if it is too large."""
    with ZipFile(path) as archive:
        size = archive.getinfo(edition.member).file_size
        with archive.open(edition.member) as file:
            return _read_at_most(edition.most_bytes, file, size, path)


def _read_at_most(limit: int, file: IO[bytes], size: int, path: Path) -> bytes:
    """Read a file of a declared size; raise an OSError if it exceeds a limit."""
    raw = b"" if size > limit else file.read(limit + 1)
    if size > limit or len(raw) > limit:
        raise OSError(
            f"{path} fails the verification: its ratings take more than {limit:,} "
            f"bytes."
        )
    return raw


def _read_unpacked(
    path: Path, editions: Sequence[Edition]
) -> tuple[Edition, NDArray[np.int64], NDArray[np.float64]]:
    """Read and verify an unpacked ratings file."""
    limit = max(edition.most_bytes for edition in editions)
    with path.open("rb") as file:
        raw = _read_at_most(limit, file, path.stat().st_size, path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            data, target = _parse(raw, path.name)
    except (ValueError, Warning) as error:
        raise OSError(f"{path} is not a MovieLens ratings file: {error}") from error
    checksum = ratings_checksum(raw)
    counts = (len(np.unique(data[:, 0])), len(np.unique(data[:, 1])), len(data))
    expected = []
    for edition in editions:
        if edition.ratings_checksum is not None:
            verified = checksum == edition.ratings_checksum
        else:
            on_scale = bool(np.isin(target, edition.levels).all())
            verified = counts == edition.counts and on_scale
        if verified:
            return edition, data, target
        all_on_scale = f"{_COUNTS.format(*edition.counts)}, all on the scale"
        expected.append(edition.ratings_checksum or all_on_scale)
    actual = f"{checksum}, {_COUNTS.format(*counts)}"
    raise OSError(_NOT_VERIFIED.format(path, " or ".join(expected), actual))


def _parse(raw: bytes, name: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Parse a ratings file, in the format of its file name extension."""
    suffix = Path(name).suffix
    table = np.loadtxt(
        io.BytesIO(raw),
        dtype=[("user", "i8"), ("item", "i8"), ("rating", "f8"), ("time", "i8")],
        comments=None,
        delimiter={".data": "\t", ".dat": ":", ".csv": ","}[suffix],
        skiprows=1 if suffix == ".csv" else 0,
        # A double colon reads as two separators with an empty column between them.
        usecols=(0, 2, 4, 6) if suffix == ".dat" else (0, 1, 2, 3),
        ndmin=1,
    )
    data = np.column_stack([table["user"], table["item"], table["time"]])
    return data, np.ascontiguousarray(table["rating"])
