"""The releases about units before the rounds: totals, counts and a pattern.

The totals over units come first, then noisy counts of rows, then the pattern: which
units have which rows, such as which users have seen which films, whatever their
ratings. A unit contributes the centred products of its rows (`ProductSums`). The
leading eigenvectors of the noisy sum are features of the rows. The pattern is released
only if earlier releases suggest that its leading eigenvalue will stand out from the
noise. A feature is used only if its eigenvalue does.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh

from ....measure import BoundedSums, People, ProductSums, Releases, whole_shares
from ....tensor._shared_rows import expected_counts
from ._population import Population
from ._questions import (
    FIRST_VECTORS,
    LOG_RANGE,
    USUAL_LOG,
    CountQuestion,
    FirstQuestion,
    NoisyTotals,
    PatternQuestion,
    UnitTotals,
)

# Share of the squared budget for the counts.
COUNTS = 0.12
# The share left after the first two releases.
LEFT = 1 - COUNTS - sum(piece.share for piece in FIRST_VECTORS)
# How far a row whose noisy count is within its noise counts as unknown: the weight of
# the average entry in what is expected of the row. With less, held-out ratings of
# people are predicted up to .3% better, and items that were left out of generated
# ratings by more than a ninth worse than by users' means.
_UNKNOWN = 0.45
# Contributions to a row are divided by this power of the number of its entries.
_EVENED = 0.12
# Least number of rows for which the pattern is released.
_LEAST_ROWS = 20
# Two numbers that were measured on ratings of films and music: the leading eigenvalue
# of the products, expected per unit if all units have the rows, and the least multiple
# of the noise's largest eigenvalue that it must reach.
_STRENGTH, _CLEAR = 0.02, 3.0
# The least such multiple for an eigenvalue that was released.
_STANDS_OUT = 1.5


# --- totals and counts ---------------------------------------------------------------


def release_totals(
    units: People, releases: Releases
) -> tuple[NoisyTotals, UnitTotals, Population]:
    """Release the number of units, their mean value and their sizes."""
    sums = [
        BoundedSums((1, p.size), p.bound, p.share, releases.step) for p in FIRST_VECTORS
    ]
    answers = releases.ask(units, FirstQuestion(tuple(sums)))
    ((vector,), error), ((lengths,), lengths_error) = answers
    noisy = NoisyTotals.of_vector(vector, error)
    totals = _estimated(noisy)
    n_units, size = totals.n_units, totals.typical_size
    return noisy, totals, Population(n_units, size, lengths, lengths_error)


def _estimated(noisy: NoisyTotals) -> UnitTotals:
    """Estimate the number of units, their mean value and their size."""
    n_units = max(noisy.number, noisy.error, 1.0)
    means = np.array([noisy.mean_values, noisy.logs]) / n_units
    offset, log = np.clip(means, -1.0, 1.0).tolist()
    return UnitTotals(n_units, offset, math.exp(USUAL_LOG + LOG_RANGE * log))


@dataclass(frozen=True, eq=False)
class RowCounts:
    """Noisy counts of the entries in the rows of a mode.

    Attributes
    ----------
    counts : ndarray of shape (n_rows,)
        Each entry counts with the weight of its unit.
    logs : ndarray of shape (n_rows,)
        Logarithms of the counts, after very small counts have been raised.
    unknown : ndarray of shape (n_rows,)
        How far each row counts as unknown, from 0 to 1. A row whose noisy count is
        within one standard deviation of zero may have no entries; then it is not known
        to be unpopular.
    """

    counts: NDArray[np.float64]
    logs: NDArray[np.float64]
    unknown: NDArray[np.float64]

    @property
    def shares(self) -> NDArray[np.float64]:
        """Shares of the entries."""
        return self.counts / max(float(self.counts.sum()), 1e-300)

    @property
    def gains(self) -> NDArray[np.float64]:
        """Factors on the contributions of entries, by their rows.

        The contributions of a unit share one bound. Those to rows with many entries are
        made smaller, and those to rows with few larger, since the sums of all rows get
        the same noise. The mean square over the entries is one.
        """
        counts = np.maximum(self.counts, 1.0)
        squares = counts ** (-2 * _EVENED)
        return np.sqrt(squares * counts.sum() / (counts @ squares))


def release_counts(
    units: People, releases: Releases, sizes: tuple[int, ...], totals: UnitTotals
) -> list[RowCounts]:
    """Release the numbers of entries in the rows of the other modes.

    Parameters
    ----------
    units : People
    releases : Releases
    sizes : tuple of int
        Numbers of rows of the other modes.
    totals : UnitTotals
    """
    share = COUNTS / len(sizes)
    sums = [BoundedSums((size, 1), 1.0, share, releases.step) for size in sizes]
    question = CountQuestion(tuple(sums), totals)
    whole = totals.n_units * math.sqrt(totals.typical_size)
    return [
        _read(noisy[:, 0], error, whole)
        for noisy, error in releases.ask(units, question)
    ]


def _read(noisy: NDArray[np.float64], error: float, whole: float) -> RowCounts:
    """Estimate counts with a known sum from noisy counts."""
    counts = expected_counts(noisy, error)
    total = float(counts.sum())
    counts *= whole / total if total > 0 else 1.0
    largest = 1e-3 * float(counts.max())
    return RowCounts(
        counts=counts,
        logs=np.log(np.maximum(counts, max(0.05 * error, largest, 1e-300))),
        # Without noise, rows without entries are known to have none.
        unknown=np.where(noisy > error, 0.0, _UNKNOWN if error else 1.0),
    )


# --- the pattern ----------------------------------------------------------------------


def most_rows(n_rows: int, sigma: float) -> int:
    """Largest number of rows whose products may be released.

    It is public and does not depend on the number of units, so declaring room for many
    more units than there are does not change the noise. Products are rounded after they
    are summed, which costs noise; their number is limited so that this costs at most a
    hundredth of the noise.

    Parameters
    ----------
    n_rows : int
    sigma : float
        Standard deviation of the noise on vectors of length one.

    Returns
    -------
    most : int
        0 if the release is never made.
    """
    most = min(n_rows, 3000)
    if sigma:
        # m rows have m (m + 1) / 2 products. Rounding moves each by at most one step of
        # the lattice, which is 2^-20 of its noise, and all together by a hundredth of a
        # unit.
        most = min(most, int(0.01 * math.sqrt(2) / (2.0**-20 * sigma)))
    return most if most >= _LEAST_ROWS else 0


def _share(
    m: NDArray[np.float64], n_units: NDArray[np.float64], sigma: float
) -> NDArray[np.float64]:
    """Share of the squared budget with which the products of m rows stand out."""
    # The largest eigenvalue of the noise is sigma sqrt(2 m / share).
    return 2 * m * (_CLEAR * sigma / (_STRENGTH * n_units)) ** 2


def rows_of_pattern(
    counts: NDArray[np.float64], totals: UnitTotals, sigma: float, most: int
) -> tuple[NDArray[np.intp], float]:
    """The rows whose products should stand out, and the share with which they do.

    Parameters
    ----------
    counts : ndarray of shape (n_rows,)
        Counts of the first other mode.
    totals : UnitTotals
    sigma : float
        Standard deviation of the noise on vectors of length one.
    most : int
        Result of `most_rows`.

    Returns
    -------
    rows : ndarray of shape (n,), int
        None if the pattern should not stand out.
    share : float
        Share of the squared budget.
    """
    order = np.argsort(-counts, kind="stable")[:most]
    m = np.arange(len(order), dtype=float) + 1
    coverage = np.cumsum(counts[order] / max(float(counts.sum()), 1e-300))
    needed = _share(m, totals.n_units * np.maximum(coverage, 1e-300), sigma)
    # Mean number of units that have both rows of a pair. Below .03, chance gives some
    # pairs large products. The release takes .02 to .15 of the squared budget.
    pairs = totals.n_units * (totals.typical_size * coverage / m) ** 2
    n_rows = int(m[(needed <= 0.15) & (pairs >= 0.03)].max(initial=0))
    if n_rows < _LEAST_ROWS:
        return order[:0], 0.0
    return order[:n_rows], max(float(needed[n_rows - 1]), 0.02)


def release_pattern(
    units: People,
    releases: Releases,
    totals: UnitTotals,
    row_counts: RowCounts,
    most: int,
    n_components: int | None,
) -> NDArray[np.float64]:
    """Release the products of rows of the first other mode, if they should stand out.

    Parameters
    ----------
    units : People
    releases : Releases
    totals : UnitTotals
    row_counts : RowCounts
        Counts of the first other mode.
    most : int
        Result of `most_rows`.
    n_components : int or None
        Largest number of features; None for as many as stand out.

    Returns
    -------
    features : ndarray of shape (n_rows, n_features)
        Each row has a length of at most one.
    """
    counts = row_counts.counts
    rows, share = rows_of_pattern(counts, totals, releases.sigma, most)
    if not rows.size:
        return np.empty((len(counts), 0))
    whole = whole_shares(np.exp(row_counts.logs[rows]))
    # Units below the typical size add shorter vectors, as in the counts.
    least = totals.typical_size / math.sqrt(2)
    sums = ProductSums(whole, least, share, releases.step)
    ((noisy, error),) = releases.ask(units, PatternQuestion((sums,), rows, len(counts)))
    most = 8 if n_components is None else n_components
    found = _leading(sums.matrix(noisy), error, totals.n_units, most)
    features = np.zeros((len(counts), found.shape[1]))
    features[rows] = found
    return features


def _leading(
    products: NDArray[np.float64], error: float, n_units: float, most: int
) -> NDArray[np.float64]:
    """Directions of rows in the space of the eigenvectors that stand out.

    Rows about which the noise leaves little information are short.
    """
    n = len(products)
    scatter = np.maximum(np.diag(products), 0.0).sum() / n
    np.fill_diagonal(products, 0.0)
    if not products.any():  # without noise, if all units have all rows
        return np.empty((n, 0))
    # Variance of a cell, from noise and chance.
    variance = error**2 + scatter**2 / n_units
    values, vectors = eigsh(products, min(most, n - 1), which="LA", v0=np.ones(n))
    kept = values > _STANDS_OUT * 2 * math.sqrt(n * variance)
    values, vectors = values[kept][::-1], vectors[:, kept][:, ::-1]
    vectors *= np.where(vectors.sum(axis=0) < 0, -1.0, 1.0)
    rows = vectors * np.sqrt(values)
    squares = np.sum(rows**2, axis=1)
    clear = np.maximum(squares - np.sum(error**2 / values), 0.0)
    scale = np.sqrt(clear) / np.maximum(squares, 1e-300)
    return rows * scale[:, np.newaxis]
