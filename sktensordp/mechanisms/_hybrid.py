"""The hybrid mechanism: randomises a few sampled entries of each sample."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from .._random import NoiseStreams
from ..noise._lattice import columns_of
from ..noise._piecewise import (
    HYBRID_FROM,
    LARGEST_EPSILON,
    HybridDistribution,
    hybrid_distribution,
    subsets,
)
from ..privacy.calibration._sensitivity import SensitivitySet
from ._base import LocalMechanism, PlannedNoise
from ._docs import with_shared_text
from ._noise import Clipping, by_tiles


def best_n_sampled(epsilon: float, n_entries: int) -> int:
    """Number of entries to sample that minimises the largest squared error.

    The largest expected squared error over the box has a closed form: Wang et al.
    (2019), Lemma 1 and Algorithm 4, in units of half a range. Numbers beyond
    `epsilon` (rounded up) are not tried: they leave less than 1 to an entry, and the
    error then grows with the number.

    Parameters
    ----------
    epsilon : float
        Budget of a sample.
    n_entries : int

    Returns
    -------
    n_sampled : int
        In [1, `n_entries`].
    """
    k = np.arange(1, min(n_entries, math.ceil(epsilon)) + 1)
    entry_epsilon = np.clip(epsilon / k, 1e-9, LARGEST_EPSILON)
    root = np.expm1(entry_epsilon / 2)
    alpha = np.where(entry_epsilon > HYBRID_FROM, root / (1 + root), 0.0)
    two_points = (1 - alpha) / np.tanh(entry_epsilon / 2) ** 2
    c0 = alpha * (root + 4) / (3 * root**2) + two_points
    c2 = alpha / root - (1 - alpha)
    # The error is linear in t^2, so it is largest at the centre or at the ends.
    scale = n_entries / k
    largest = scale * c0 + np.maximum(0.0, scale * c2 + (scale - 1))
    return int(k[np.argmin(largest)])


@dataclass(frozen=True)
class SampledEntries:
    """Randomises and scales up a few entries of each sample; centres the others.

    The choice of the entries does not depend on the data.

    Attributes
    ----------
    domain : SensitivitySet
        Must have a box.
    distribution : HybridDistribution
        Distribution of one randomised entry.
    n_sampled : int
        Number of randomised entries in a sample.
    """

    domain: SensitivitySet
    distribution: HybridDistribution
    n_sampled: int

    @property
    def coefficients(self) -> tuple[float, float]:
        """c0 and c2 of the variance c0 + c2 t^2 of a released entry at t in [-1, 1]."""
        c0, c2 = map(float, self.distribution.variance_coefficients)
        scale = self.domain.n_entries / self.n_sampled
        return scale * c0, scale * c2 + (scale - 1)

    def randomize(
        self, samples: NDArray[np.floating], streams: NoiseStreams
    ) -> NDArray[np.floating]:
        """Released samples.

        Parameters
        ----------
        samples : ndarray of shape (n_samples, n_entries), float32 or float64
        streams : NoiseStreams

        Returns
        -------
        released : ndarray of the shape and type of `samples`
        """
        centre = self.domain.centre
        reach = self.domain.width / 2 * (self.domain.n_entries / self.n_sampled)

        def noisy_subset(
            block: NDArray[np.floating], bits: np.random.BitGenerator, columns: slice
        ) -> NDArray[np.floating]:
            chosen = subsets(bits, len(block), block.shape[1], self.n_sampled)
            index = self._index(np.take_along_axis(block, chosen, axis=1), chosen)
            t = self.distribution.randomize(index.ravel(), bits).reshape(chosen.shape)
            noisy = columns_of(centre, chosen) + columns_of(reach, chosen) * t
            released = np.empty_like(block)
            released[:] = centre
            np.put_along_axis(released, chosen, noisy, axis=1)
            return released

        return by_tiles(noisy_subset, samples, streams, whole_samples=True)

    def variance(self, samples: NDArray[np.floating]) -> NDArray[np.float64]:
        """Variance of every released entry; float64, of the shape of `samples`."""
        index = self._index(samples, slice(None)).astype(float)
        t = 2 * index / self.distribution.n_steps - 1
        c0, c2 = self.coefficients
        return np.square(self.domain.width / 2) * (c0 + c2 * t**2)

    def _index(
        self, values: NDArray[np.floating], entries: object
    ) -> NDArray[np.uint64]:
        """Number of the step of an entry's range that is nearest to each value."""
        low, high = (
            columns_of(self.domain.low, entries),
            columns_of(self.domain.high, entries),
        )
        steps = np.clip(values, low, high, dtype=float) - low
        steps *= self.distribution.n_steps / (high - low)
        return np.minimum(np.rint(steps), self.distribution.n_steps).astype(np.uint64)


@with_shared_text
class HybridMechanism(LocalMechanism):
    """Randomises a few entries of each sample: pure local privacy, without bias.

    One call of `transform` is epsilon-differentially private for each sample: a sample
    may be replaced by any other in the domain declared by `bounds`. The mean of many
    released samples estimates the mean of the samples.

    Parameters
    ----------
    $epsilon
    $bounds
    $tensor_shape
    $random_state

    Attributes
    ----------
    $privacy_guarantee
    noise_variance_ : float or ndarray of the shape of a sample
        Largest variance of a released entry over the values in its range, in squared
        units of the entries; an array if `bounds` are arrays. Call `variance` for the
        variance at given values.
    expected_squared_error_ : float
        Largest expected squared error of a sample in the domain, summed over its
        entries.
    n_sampled_ : int
        Number k of randomised entries, chosen to minimise `expected_squared_error_`.
        For ``epsilon=inf``, the number of all entries.
    $shapes

    Notes
    -----
    The mechanism draws k of the d entries at random, with a budget of epsilon / k for
    each. It randomises these by the hybrid of the Piecewise mechanism and the two-point
    mechanism of Duchi [1]_, and scales them by d / k. The other entries are released as
    the centre of their range.

    Values are rounded to 2**40 steps of their range, and randomised by exact draws of
    integers, so that no floating-point error weakens the guarantee. For epsilon / k
    beyond 40, entries are randomised as at 40. If you do not pass `bounds`, the range
    is read off the samples with a ``PrivacyLeakWarning``, and the guarantee is void.

    References
    ----------
    .. [1] Wang, Xiao, Yang, Zhao, Hui, Shin, Shin and Yu, "Collecting and analyzing
       multidimensional data with local differential privacy", 2019, Section III-C
       and Algorithm 4. There, k is max(1, min(d, floor(epsilon / 2.5))).

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import HybridMechanism
    >>> X = np.full((10_000, 2, 2), 0.5)
    >>> mechanism = HybridMechanism(epsilon=4.0, bounds=(-1, 1), random_state=0)
    >>> released = mechanism.fit_transform(X)
    >>> mechanism.n_sampled_
    2
    >>> bool(np.abs(released.mean(axis=0) - 0.5).max() < 0.1)
    True
    >>> mechanism.privacy_guarantee_.epsilon, mechanism.privacy_guarantee_.delta
    (4.0, 0.0)
    """

    _source = "Wang et al. (2019), Section III-C and Algorithm 4"
    _noise_name = "a few sampled entries, each randomised by the hybrid mechanism"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        tensor_shape: tuple[int, ...] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.tensor_shape = tensor_shape
        self.random_state = random_state

    @property
    def n_sampled_(self) -> int:
        """Number of entries of a sample that are randomised."""
        check_is_fitted(self, "sample_shape_")
        if isinstance(self._randomizer, Clipping):
            return math.prod(self.sample_shape_)
        return self._randomizer.n_sampled

    def _design(self, shape: tuple[int, ...]) -> tuple[HybridDistribution, int] | None:
        """Distribution and number of the randomised entries; None without noise."""
        epsilon = float(self.epsilon)
        if math.isinf(epsilon):
            return None
        n_sampled = best_n_sampled(epsilon, math.prod(shape))
        # n_sampled times the next float below the quotient is at most epsilon.
        entry_epsilon = max(math.nextafter(epsilon / n_sampled, 0.0), 5e-324)
        return hybrid_distribution(entry_epsilon), n_sampled

    def _noise(
        self, shape: tuple[int, ...], domain: SensitivitySet, design: Any
    ) -> PlannedNoise:
        from dp_accounting import dp_event

        from ..privacy.accounting._events import PureDpEvent

        randomizer = SampledEntries(domain, *design)
        c0, c2 = randomizer.coefficients
        largest = max(c0, c0 + c2)
        variance = np.square(domain.width / 2) * largest
        variance = variance.reshape(shape) if np.ndim(variance) else float(variance)
        error = float(np.sum(np.square(domain.widths / 2))) * largest
        entry_event = PureDpEvent(randomizer.distribution.epsilon)
        event = dp_event.SelfComposedDpEvent(entry_event, randomizer.n_sampled)
        return randomizer, event, variance, error
