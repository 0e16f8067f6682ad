"""The mean of released samples, with its standard error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from .._noise_only import errors_exceed, warn_of_noise
from .._validation import check_numeric, checked, names_of, warn
from ..privacy.calibration._sensitivity import declared_set
from ._samples import check_labels

_NOISE = (
    "The mean holds little but noise: most of its standard errors are larger than the "
    "range that bounds declares. Average more samples, or release them with a larger "
    "epsilon."
)
_OUTSIDE = (
    "Most entries of the mean are outside of bounds by more than their errors, and are "
    "clipped. Are bounds those of the samples before they were released? The mechanism "
    "must be unbiased, with debias=True."
)
# An entry is outside of bounds if it is by so many standard errors, with which noise
# does that with a probability below 1e-8.
_CLEARLY = 6
# Number of entries processed at a time.
_CHUNK = 2**20


@dataclass(frozen=True, eq=False)
class MeanEstimate:
    """A mean of samples, and its standard error.

    Attributes
    ----------
    mean : ndarray of the shape of a sample, float64
        The estimate.
    standard_error : ndarray of the shape of a sample, float64
        Standard error of each entry before clipping: the standard deviation of the
        samples over the square root of their number.
    """

    mean: NDArray[np.float64]
    standard_error: NDArray[np.float64]


def estimate_mean(
    released: ArrayLike,
    *,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    symmetric: bool | tuple[int, ...] = False,
) -> MeanEstimate:
    """Mean of released samples, entry by entry, with its standard error.

    This is post-processing: it reads nothing but the release, and costs no privacy,
    however often you call it. Two public facts make the mean more accurate. If the true
    mean lies within public bounds, clipping the estimate to them never moves it away
    from the truth. If the tensors are symmetric, projecting them leaves only the
    symmetric component of the noise: for independent noise of one variance on all n^N
    entries of a tensor with N modes of size n, the summed squared error shrinks by the
    factor C(n + N - 1, N) / n^N, which approaches 1 / N! as n grows.

    Parameters
    ----------
    released : array-like of shape (n_samples, I_1, ..., I_N)
        Released samples, at least two; finite.
    bounds : tuple of (low, high), default=None
        Public range of the entries, to which the mean is clipped: numbers, or arrays
        that broadcast to a sample.
    symmetric : bool or tuple of int, default=False
        True if the tensors do not change when their modes are permuted; a tuple lists
        the modes, counted from 0, that may be permuted among themselves. Each sample is
        first replaced by its average over all permutations: its projection onto the
        symmetric tensors.

    Returns
    -------
    estimate : MeanEstimate
        Has the attributes `mean` and `standard_error`.

    Warns
    -----
    NoiseOnlyWarning
        If most standard errors exceed the widths of the ranges in `bounds`.
    UserWarning
        If most entries of the mean are far outside of `bounds`, which then are not
        those of the samples.

    Raises
    ------
    ValueError
        If there are fewer than two samples, or NaN or infinite values; if `bounds` are
        out of order or do not fit a sample; or if the modes of `symmetric` differ in
        size.

    Notes
    -----
    Before clipping, the mean has the bias of the mechanism, and no other. A
    `TensorRandomizedResponse` with ``debias=False`` has a large bias, which more
    samples do not remove, so do not average its levels. If the true tensors are not
    symmetric, the projected mean estimates their symmetric component.

    The standard error includes both the noise and the spread of the samples. It is
    right if you want the mean of the population that the samples were drawn from. For
    the mean of these very samples it is too large, by their spread. It refers to the
    mean before clipping.

    With both options, the mean is first projected and then clipped. If the bounds are
    not symmetric, the clipped mean need not be symmetric either.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import LaplaceMechanism
    >>> from sktensordp.mechanisms import estimate_mean
    >>> X = np.full((500, 8, 8, 8), 0.5)
    >>> laplace = LaplaceMechanism(64.0, bounds=(0, 1), random_state=0).fit(X)
    >>> released = laplace.transform(X)
    >>> def squared_error(**options):
    ...     return float(np.sum((estimate_mean(released, **options).mean - 0.5) ** 2))
    >>> round(laplace.expected_squared_error_ / 500, 1)
    131.1
    >>> round(squared_error(), 1)
    130.9

    The projection leaves a share of C(10, 3) / 8^3 of the expected error, which is
    30.7; clipping reduces the error further:

    >>> round(squared_error(symmetric=True), 1)
    30.1
    >>> round(squared_error(symmetric=True, bounds=(0, 1)), 1)
    27.6
    """
    samples = checked(
        check_array,
        check_numeric(released, "released"),
        dtype=(np.float64, np.float32),
        allow_nd=True,
        order="C",
        ensure_min_samples=2,
        input_name="released",
    )
    if names_of(released) is not None:
        check_labels({"bounds": bounds}, names_of(released))
    shape = samples.shape[1:]
    if samples.size == 0:
        raise ValueError(
            f"The samples of released have shape {shape}, which has no entries."
        )
    modes = _modes(symmetric, shape)
    domain = declared_set(shape, bounds=bounds)
    # Scale by a power of two, so that no square overflows or underflows.
    peak = max(abs(float(samples.min())), abs(float(samples.max())))
    exponent = math.frexp(peak)[1] if not 1e-100 < peak < 1e100 else 0
    estimate, squares = _moments(samples, modes, exponent)
    n_samples = len(samples)
    error = np.ldexp(np.sqrt(squares / (n_samples - 1) / n_samples), exponent)
    estimate = np.ldexp(estimate, exponent)
    if domain is not None:
        flat = domain.clip(estimate.reshape(1, -1), slice(None), None)
        away = np.abs(flat.ravel() - estimate.ravel())
        estimate = flat.reshape(shape)
        is_clipped = away > _CLEARLY * error.ravel() + 1e-6 * domain.width
        if 2 * np.count_nonzero(is_clipped) > error.size:
            warn(_OUTSIDE)
        widths = np.broadcast_to(domain.width, error.size)
        warn_of_noise(errors_exceed(error.ravel(), widths), _NOISE)
    return MeanEstimate(estimate, error)


def _modes(symmetric: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Symmetric modes of a sample, in ascending order."""
    if isinstance(symmetric, bool | np.bool_):
        modes = tuple(range(len(shape))) if symmetric else ()
    else:
        try:
            modes = tuple(symmetric)
        except TypeError:
            modes = (symmetric,)
        known = all(isinstance(m, Integral) and 0 <= m < len(shape) for m in modes)
        if not known or len(set(modes)) != len(modes) or len(modes) < 2:
            raise ValueError(
                f"symmetric must be True, False, or at least two different modes from "
                f"0 to {len(shape) - 1}, got {symmetric!r}."
            )
        modes = tuple(sorted(int(mode) for mode in modes))
    sizes = [shape[mode] for mode in modes]
    if len(set(sizes)) > 1:
        raise ValueError(
            f"The modes in symmetric must have the same size, but the modes {modes} of "
            f"samples of shape {shape} have sizes {sizes}."
        )
    return modes


def _moments(
    samples: NDArray[np.floating], modes: tuple[int, ...], exponent: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean of the projected samples, and their sum of squared deviations from it.

    Both are in units of 2^`exponent`.
    """
    shape = samples.shape[1:]
    running_mean, squares, n_seen = np.zeros(shape), np.zeros(shape), 0
    n_rows = max(1, _CHUNK // math.prod(shape))
    for start in range(0, len(samples), n_rows):
        chunk = np.ldexp(samples[start : start + n_rows].astype(float), -exponent)
        chunk = _symmetrized(chunk, modes)
        chunk_mean = chunk.mean(axis=0)
        # Chan, Golub and LeVeque (1983): update of the moments by those of a chunk.
        away = chunk_mean - running_mean
        share = len(chunk) / (n_seen + len(chunk))
        squares += np.square(chunk - chunk_mean).sum(axis=0) + n_seen * share * away**2
        running_mean += share * away
        n_seen += len(chunk)
    return running_mean, squares


def _symmetrized(
    samples: NDArray[np.float64], modes: tuple[int, ...]
) -> NDArray[np.float64]:
    """Average of each sample over all permutations of the given modes.

    A permutation of k modes is one of the first k - 1, followed by no swap or by a swap
    of the last mode with one of them.
    """
    for k in range(1, len(modes)):
        swapped = [samples.swapaxes(modes[i] + 1, modes[k] + 1) for i in range(k)]
        samples = sum(swapped, samples) / (k + 1)
    return samples
