"""Editions of the MovieLens data sets: sizes, checksums and descriptions."""

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

_STARS = (1.0, 2.0, 3.0, 4.0, 5.0)
_HALF_STARS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)
_SMALL = "ml-latest-small/ratings.csv"

_DESCR = """\
{title}
{underline}
{n_ratings} ratings of {n_items} movies by {n_users} users on a scale of {low:g}
to {high:g} stars, given on https://movielens.org and published by GroupLens, a group
of the University of Minnesota, at https://grouplens.org/datasets/movielens/.

The data belong to GroupLens and are not part of this package. You may use them for
research. Commercial use needs the permission of GroupLens, and so does redistribution,
unless the edition allows it under the same terms. The README of the archive states
the binding terms.

Please cite the data in published work as

    F. Maxwell Harper and Joseph A. Konstan (2015). The MovieLens Datasets: History
    and Context. ACM Transactions on Interactive Intelligent Systems 5 (4), 19:1-19.
    https://doi.org/10.1145/2827872
"""


@dataclass(frozen=True)
class Edition:
    """One edition of a data set.

    Parameters
    ----------
    name, edition : str
        Name of the data set, and of its edition.
    member : str
        Path of the ratings file in the archive.
    levels : tuple of float
        Values that a rating can take.
    counts : tuple of int
        Numbers of users, rated items and ratings.
    zip_checksum : str or None
        Checksum of the archive, as "algorithm:digest"; None if unknown.
    ratings_checksum : str or None, default=None
        Checksum of the ratings file with LF line endings, in the same form.
    """

    name: str
    edition: str
    member: str
    levels: tuple[float, ...]
    counts: tuple[int, int, int]
    zip_checksum: str | None
    ratings_checksum: str | None = None

    @property
    def most_bytes(self) -> int:
        """Bound on the size of the ratings file: a rating takes less than 64 bytes."""
        return 64 * (self.counts[2] + 1)

    def describe(self) -> str:
        """Describe the data, the terms of use and how to cite them."""
        title = f"MovieLens {self.name}"
        if self.edition != self.name:
            title += f", edition of {self.edition}"
        n_users, n_items, n_ratings = self.counts
        return _DESCR.format(
            title=title,
            underline="-" * len(title),
            n_users=n_users,
            n_items=n_items,
            n_ratings=n_ratings,
            low=self.levels[0],
            high=self.levels[-1],
        )


def file_checksum(path: Path, algorithm: str) -> str:
    """Checksum of a file, as "algorithm:digest"."""
    new = partial(hashlib.new, algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        return f"{algorithm}:{hashlib.file_digest(file, new).hexdigest()}"


def ratings_checksum(raw: bytes) -> str:
    """Checksum of a ratings file, independent of its line endings."""
    return "sha256:" + hashlib.sha256(raw.replace(b"\r\n", b"\n")).hexdigest()


# fmt: off
EDITIONS = (
    Edition("100k", "100k", "ml-100k/u.data", _STARS, (943, 1682, 100_000),
        "md5:0e33842e24a9c977be4e0107933c0723"),
    Edition("1m", "1m", "ml-1m/ratings.dat", _STARS, (6040, 3706, 1_000_209),
        "sha256:a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20"),
    Edition("10m", "10m", "ml-10M100K/ratings.dat", _HALF_STARS,
        (69_878, 10_677, 10_000_054),
        "md5:ce571fd55effeba0271552578f2648bd"),
    Edition("20m", "20m", "ml-20m/ratings.csv", _HALF_STARS,
        (138_493, 26_744, 20_000_263),
        "md5:cd245b17a1ae2cc31bb14903e1204af3"),
    Edition("25m", "25m", "ml-25m/ratings.csv", _HALF_STARS,
        (162_541, 59_047, 25_000_095),
        "md5:6b51fb2759a8657d3bfcbfc42b592ada"),
    Edition("32m", "32m", "ml-32m/ratings.csv", _HALF_STARS,
        (200_948, 84_432, 32_000_204),
        "sha256:e4a68655d7386b8f95f2f2424b2ff975dfdd15ffd59e0d864a14dca43e99d6ee"),
    Edition("latest-small", "2016", _SMALL, _HALF_STARS, (671, 9066, 100_004), None,
        "sha256:b4239649fbf90ebf405c56c3ae1d929d9e7c86fc1a3a80cbef1c884df593ef73"),
    Edition("latest-small", "2018", _SMALL, _HALF_STARS, (610, 9724, 100_836),
        "sha256:696d65a3dfceac7c45750ad32df2c259311949efec81f0f144fdfb91ebc9e436"),
)
# fmt: on
