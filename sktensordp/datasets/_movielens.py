"""The MovieLens ratings of GroupLens."""

import io
import os
import shutil
import tempfile
import warnings
import zlib
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import get_data_home
from sklearn.utils import Bunch

from sktensordp.datasets._editions import (
    EDITIONS,
    Edition,
    file_checksum,
    ratings_checksum,
)

__all__ = ["fetch_movielens"]

_URL = "https://files.grouplens.org/datasets/movielens/ml-{name}.zip"
_TIMEOUT = 60  # seconds

# What zipfile raises, depending on which bytes of an archive are damaged.
_UNREADABLE = (OSError, EOFError, LookupError, RuntimeError, BadZipFile, zlib.error)
_NOT_VERIFIED = "{} fails the verification: expected {}, found {}."
_COUNTS = "{} users, {} items and {} ratings, all on the scale"


def fetch_movielens(
    name: str = "latest-small",
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    *,
    as_frame: bool = False,
    as_choices: bool = False,
) -> Bunch:
    """Load the ratings of a MovieLens data set, downloading them if necessary.

    A file that is already there is used: first ``movielens/ml-{name}.zip`` in the
    data home, then the unpacked folder ``movielens/ml-{name}``, then the same two
    right in the data home. Otherwise the archive is downloaded to the first place.

    No file is used unverified. An archive must have the checksum published for it,
    or hold ratings with a known checksum. Ratings in an unpacked folder must have a
    known checksum too; for most editions none is known, and then the numbers of
    users, rated items and ratings must be those published, and all ratings must be
    on the scale. That finds a truncated or mistaken file but not a subtle change.

    Parameters
    ----------
    name : {"100k", "1m", "10m", "20m", "25m", "32m", "latest-small"}, \
            default="latest-small"
        The data set. "latest-small" is downloaded in its edition of 2018; a file
        of the edition of 2016 is recognized.
    data_home : str or path-like, default=None
        The data folder of scikit-learn, see :func:`sklearn.datasets.get_data_home`.
    download_if_missing : bool, default=True
        If False, raise an OSError when the data are not there instead of
        downloading them.
    as_frame : bool, default=False
        If True, `data` and `target` are pandas objects and there is a `frame`.
    as_choices : bool, default=False
        If True, every rating is a choice, whatever its value: `data` holds the user and
        the item alone, and `target`, `target_names`, `levels` and `frame` are not
        there.

    Returns
    -------
    ratings : :class:`~sklearn.utils.Bunch`
        Dictionary-like object, with the following attributes.

        data : ndarray or DataFrame of shape (n_ratings, 3), dtype int64
            The user, the item and the time (seconds since 1970) of each rating, in
            the order and with the identifiers of the file.
        target : ndarray or Series of shape (n_ratings,), dtype float64
            The value of each rating, in stars.
        levels : ndarray of shape (n_levels,)
            The public scale: the values a rating can take.
        edition : str
            "2016" or "2018" for "latest-small", otherwise the name.
        feature_names : list of str
            The names of the columns of `data`.
        target_names : list of str
            The name of the target.
        frame : DataFrame of shape (n_ratings, 4)
            `data` and `target` together. Only present when `as_frame=True`.
        DESCR : str
            A description of the data, with terms of use and what to cite.

    Raises
    ------
    OSError
        If the data are not there and were not to be or could not be downloaded, or
        if the file that is there fails the verification.

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
    path = _find(editions[0], home)
    if path is None and not download_if_missing:
        raise OSError("Data not found and `download_if_missing` is False")
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
    if as_frame:
        import pandas as pd

        ratings.data = pd.DataFrame(ratings.data, columns=ratings.feature_names)
        if as_choices:
            return ratings
        ratings.target = pd.Series(target, name="rating")
        ratings.frame = ratings.data.assign(rating=ratings.target)
    return ratings


def _find(edition: Edition, home: Path) -> Path | None:
    """Find the archive or the unpacked file of ratings."""
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
    """Download the archive, which gets its place only when it is verified."""
    url = _URL.format(name=editions[0].name)
    path = folder / f"ml-{editions[0].name}.zip"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="download-") as temporary:
        download = Path(temporary) / path.name
        try:
            with urlopen(url, timeout=_TIMEOUT) as answer, download.open("wb") as file:
                shutil.copyfileobj(answer, file)
        except (OSError, HTTPException) as error:
            raise OSError(
                f"Could not download {url} ({error}). Try again later, or get this "
                f"file in another way, save it as {path}, and call fetch_movielens "
                "again with the same data_home."
            ) from error
        _identify_archive(download, editions, f"{path.name} as served by {url}")
        os.replace(download, path)
    return path


def _identify_archive(
    path: Path, editions: Sequence[Edition], called: str | Path
) -> Edition:
    """Return the edition that has the checksum of the archive or of its ratings."""
    expected, found = [], []
    for edition in editions:
        if edition.zip_checksum is not None:
            checksum = file_checksum(path, edition.zip_checksum.partition(":")[0])
            if checksum == edition.zip_checksum:
                return edition
            expected.append(edition.zip_checksum)
            found.append(checksum)
        if edition.ratings_checksum is not None:
            try:
                with ZipFile(path) as archive:
                    checksum = ratings_checksum(archive.read(edition.member))
            except _UNREADABLE:
                checksum = "nothing readable"
            if checksum == edition.ratings_checksum:
                return edition
            expected.append(f"{edition.ratings_checksum} in {edition.member}")
            found.append(f"{checksum} in {edition.member}")
    raise OSError(_NOT_VERIFIED.format(called, " or ".join(expected), ", ".join(found)))


def _read_archive(
    path: Path, editions: Sequence[Edition]
) -> tuple[Edition, NDArray[np.int64], NDArray[np.float64]]:
    """Verify and read an archive."""
    edition = _identify_archive(path, editions, path)
    with ZipFile(path) as archive:
        return edition, *_parse(archive.read(edition.member), edition.member)


def _read_unpacked(
    path: Path, editions: Sequence[Edition]
) -> tuple[Edition, NDArray[np.int64], NDArray[np.float64]]:
    """Read and verify an unpacked file of ratings."""
    raw = path.read_bytes()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            data, target = _parse(raw, path.name)
    except (ValueError, Warning) as error:
        raise OSError(f"{path} is not a file of MovieLens ratings: {error}") from error
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
        expected.append(edition.ratings_checksum or _COUNTS.format(*edition.counts))
    found = f"{checksum}, {_COUNTS.format(*counts)}"
    raise OSError(_NOT_VERIFIED.format(path, " or ".join(expected), found))


def _parse(raw: bytes, name: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Parse a file of ratings, the format of which its name tells."""
    suffix = Path(name).suffix
    table = np.loadtxt(
        io.BytesIO(raw),
        dtype=[("user", "i8"), ("item", "i8"), ("rating", "f8"), ("time", "i8")],
        comments=None,
        delimiter={".data": "\t", ".dat": ":", ".csv": ","}[suffix],
        skiprows=1 if suffix == ".csv" else 0,
        # The double colon separates like a colon, with an empty column in between.
        usecols=(0, 2, 4, 6) if suffix == ".dat" else (0, 1, 2, 3),
        ndmin=1,
    )
    data = np.column_stack([table["user"], table["item"], table["time"]])
    return data, np.ascontiguousarray(table["rating"])
