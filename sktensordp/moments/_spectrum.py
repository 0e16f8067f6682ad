"""Eigenvalues of moments under noise that is known exactly, and choices between ranks.

All functions read released or public numbers alone.

A released matrix of n rows is the true one plus symmetric noise, of standard deviation
s off the diagonal and sqrt(2) s on it. The noise alone has eigenvalues up to
2 s sqrt(n). A true eigenvalue t > s sqrt(n) is expected to be released as
t + s^2 n / t, and its eigenvector to have the squared cosine 1 - s^2 n / t^2 with the
true one (Benaych-Georges and Nadakuditi 2011). So the released eigenvector has the
energy sqrt(l^2 - 4 s^2 n), for a released eigenvalue l above the edge.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

# Of cores that are expected to be about as good, the largest is taken, since unequal
# samples have more energy outside of a small core than this model expects.
_AS_GOOD = 0.002


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues and eigenvectors of one released matrix, largest first.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
    deviation : float
        Standard deviation of the noise off the diagonal.
    """

    matrix: NDArray[np.float64]
    deviation: float

    @cached_property
    def _eigen(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        values, vectors = np.linalg.eigh(self.matrix)
        return values[::-1], vectors[:, ::-1]

    @property
    def values(self) -> NDArray[np.float64]:
        """Released eigenvalues."""
        return self._eigen[0]

    @property
    def vectors(self) -> NDArray[np.float64]:
        """Eigenvectors, as columns; the largest cell of each is positive."""
        vectors = self._eigen[1]
        largest = np.abs(vectors).argmax(axis=0)
        return vectors * np.sign(vectors[largest, np.arange(len(vectors))])

    @property
    def edge(self) -> float:
        """Largest eigenvalue that noise alone would have."""
        return 2 * self.deviation * math.sqrt(len(self.matrix))

    def n_above(self) -> int:
        """Number of eigenvalues that stand out from the noise, at least 1."""
        return max(int(np.sum(self.values > self.edge)), 1)

    def true_values(self, total: float) -> NDArray[np.float64]:
        """Estimates of the true eigenvalues; those in the noise share what is left.

        They add up to `total` at most, or a core would seem to have more energy than
        there is.
        """
        return self._with_rest((self.values + self._root) / 2, total)

    def energies(self, total: float) -> NDArray[np.float64]:
        """Estimated energy of each released eigenvector, free of the noise's bias."""
        return self._with_rest(self._root, total)

    @property
    def _root(self) -> NDArray[np.float64]:
        return np.sqrt(np.maximum(self.values**2 - self.edge**2, 0.0))

    def _with_rest(
        self, estimates: NDArray[np.float64], total: float
    ) -> NDArray[np.float64]:
        if not self.deviation:
            return np.maximum(self.values, 0.0)
        n_above = int(np.sum(self.values > self.edge))
        # One that is above the edge, but not above the rest, is of the rest.
        for n in range(n_above, -1, -1):
            left = max(total - float(estimates[:n].sum()), 0.0)
            rest = left / max(len(estimates) - n, 1)
            if not n or estimates[n - 1] >= rest:
                break
        found = np.append(estimates[:n], np.full(len(estimates) - n, rest))
        return found * min(total / (float(found.sum()) or 1.0), 1.0)


def total_energy(spectra: Sequence[Spectrum]) -> float:
    """Energy of all samples: the trace of every matrix, weighted by its precision."""
    traces = [float(np.trace(one.matrix)) for one in spectra]
    variances = [len(one.matrix) * one.deviation**2 or 1.0 for one in spectra]
    weights = [1 / variance for variance in variances]
    return max(float(np.dot(traces, weights)) / sum(weights), 0.0)


def ranks_above(spectra: Sequence[Spectrum], n_samples: int) -> tuple[int, ...]:
    """Numbers of components that stand out; without noise, all that samples have."""
    shape = [len(one.matrix) for one in spectra]
    return tuple(
        one.n_above() if one.deviation else min(n, n_samples * math.prod(shape) // n)
        for one, n in zip(spectra, shape, strict=True)
    )


def joined(first: Spectrum, second: Spectrum) -> Spectrum:
    """Spectrum of two releases of one matrix, averaged by precision."""
    if not (first.deviation and second.deviation):
        return first
    a, b = first.deviation**-2, second.deviation**-2
    matrix = (a * first.matrix + b * second.matrix) / (a + b)
    return Spectrum(matrix, (a + b) ** -0.5)


def expected_energy(true: NDArray[np.float64], n: int, deviation: float) -> float:
    """Expected energy of the first n eigenvectors under noise.

    Parameters
    ----------
    true : ndarray of shape (n_rows,)
        True eigenvalues.
    n : int
    deviation : float
        Of the noise off the diagonal.
    """
    noise, largest = deviation**2 * len(true), np.sort(true)[::-1]
    first = largest[:n]
    is_above = first**2 > noise
    cosines = np.where(is_above, 1 - noise / np.where(is_above, first, 1.0) ** 2, 0.0)
    found = cosines * first
    left = (float(largest.sum()) - float(found.sum())) / len(true)
    expected = float(np.sum(found + (1 - cosines) * np.minimum(left, first)))
    return min(expected, float(largest.sum()))


def best_ranks(
    spectra: Sequence[Spectrum], n_components: int, deviations: Sequence[float]
) -> tuple[float, tuple[int, ...]]:
    """Ranks of the modes whose product is at most a number, and their share of energy.

    The shares of the modes are taken to be independent. Of ranks whose expected shares
    differ by less than the noise of the eigenvalues, those are taken that are most
    alike.

    Parameters
    ----------
    spectra : list of Spectrum
    n_components : int
    deviations : list of float
        Of the noise that the moments will have.

    Returns
    -------
    share : float
    ranks : tuple of int
    """
    total, shape = total_energy(spectra) or 1.0, [len(one.matrix) for one in spectra]
    shares = []
    for one, deviation in zip(spectra, deviations, strict=True):
        true, most = one.true_values(total), min(len(one.matrix), n_components)
        found = [expected_energy(true, r + 1, deviation) for r in range(most)]
        shares.append(np.minimum(np.divide(found, total), 1.0).tolist())
    share_of = {
        ranks: math.prod(s[r - 1] for s, r in zip(shares, ranks, strict=True))
        for ranks in ranks_within(shape, n_components)
    }
    best = max(share_of, key=lambda ranks: (share_of[ranks], ranks))
    errors = (2 * r * s**2 for r, s in zip(best, deviations, strict=True))
    enough = share_of[best] - math.sqrt(sum(errors)) / total
    alike = [ranks for ranks, share in share_of.items() if share >= enough]
    ranks = max(alike, key=lambda ranks: (*alikeness(ranks), share_of[ranks], ranks))
    return share_of[best], ranks


def alikeness(ranks: tuple[int, ...]) -> tuple[int, int]:
    """Larger for ranks that are more alike, or for more features."""
    return min(ranks), math.prod(ranks)


def ranks_within(sizes: Sequence[int], most: int) -> Iterator[tuple[int, ...]]:
    """All tuples of ranks up to `sizes` whose product is at most `most`."""
    if not sizes:
        yield ()
        return
    for first in range(1, min(sizes[0], most) + 1):
        for others in ranks_within(sizes[1:], most // first):
            yield (first, *others)


def best_core(
    spectra: Sequence[Spectrum], n_components: int, deviation: float, largest: int
) -> tuple[float, tuple[int, ...]]:
    """Ranks of the core whose leading components are expected to have most energy.

    The core grows by one index of a mode at a time.

    Parameters
    ----------
    spectra : list of Spectrum
    n_components : int
    deviation : float
        Of the noise of the core's moments.
    largest : int
        Most cells of a core.

    Returns
    -------
    share : float
        Expected share of the energy; 0 if no such core has so many cells.
    ranks : tuple of int
    """
    total = total_energy(spectra) or 1.0
    shares = [one.energies(total) / total for one in spectra]

    def share_of(ranks: tuple[int, ...]) -> float:
        core = np.ones(1)
        for one, rank in zip(shares, ranks, strict=True):
            core = np.multiply.outer(core, one[:rank]).ravel()
        return min(expected_energy(core, n_components, deviation / total), 1.0)

    larger, path = [(1,) * len(shares)], [(0.0, (1,) * len(shares))]
    while larger:
        ranks = max(larger, key=lambda one: (share_of(one), -math.prod(one)))
        if math.prod(ranks) >= n_components:
            path.append((share_of(ranks), ranks))
        larger = [
            (*ranks[:mode], ranks[mode] + 1, *ranks[mode + 1 :])
            for mode, one in enumerate(shares)
            if ranks[mode] < len(one)
            and math.prod(ranks) // ranks[mode] * (ranks[mode] + 1) <= largest
        ]
    best = max(path)[0]
    return best, [ranks for share, ranks in path if share >= best - _AS_GOOD][-1]


def shares_of_modes(shape: Sequence[int], total: float) -> tuple[float, ...]:
    """Shares of the budget: the root of a mode's size, which its noise grows with."""
    roots = [math.sqrt(n) for n in shape]
    return tuple(total * root / sum(roots) for root in roots)
