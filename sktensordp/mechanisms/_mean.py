"""The mean of released samples, with its standard error."""

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from .._validation import check_numeric, checked
from ..privacy.calibration._sensitivity import declared_set

__all__ = ["MeanEstimate", "mean"]

# Entries that are worked on at a time.
_CHUNK = 2**20


@dataclass(frozen=True, eq=False)
class MeanEstimate:
    """A mean of samples, and how far from the truth it is likely to be.

    Attributes
    ----------
    mean : ndarray of the shape of a sample, float64
        The estimate.
    standard_error : ndarray of the shape of a sample, float64
        Of every entry, before clipping: the samples' standard deviation over the root
        of their number.
    """

    mean: NDArray[np.float64]
    standard_error: NDArray[np.float64]


def mean(
    released: ArrayLike,
    *,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    symmetric: bool | tuple[int, ...] = False,
) -> MeanEstimate:
    """Mean of released samples, entry by entry, with its standard error.

    What is computed from a release alone is post-processing: it costs no privacy,
    whatever is done here and however often. Two facts that are public make the mean
    better. The true mean lies within public bounds, and a mean moved to the nearest
    point of them is never farther from it. And where the tensors are symmetric, only
    the symmetric part of the noise is left: for independent noise of one variance
    on all n^N entries of a tensor with N modes of size n, the summed squared error
    shrinks by the factor C(n + N - 1, N) / n^N, which nears 1 / N!.

    Parameters
    ----------
    released : array-like of shape (n_samples, I_1, ..., I_N)
        Released samples, at least two; finite.
    bounds : tuple of (low, high), default=None
        Public range of the entries, to which the mean is clipped: numbers, or arrays
        that broadcast to a sample.
    symmetric : bool or tuple of int, default=False
        True for tensors that do not change when their modes are permuted, a tuple for
        those modes, counted from 0, that may be permuted among themselves. Every
        sample is replaced by its average over all permutations, its projection on the
        symmetric tensors, before anything else.

    Returns
    -------
    estimate : MeanEstimate
        With `mean` and `standard_error`.

    Raises
    ------
    ValueError
        If there are fewer than two samples, NaN or infinite values, if `bounds` are out
        of order or do not fit a sample, or if the modes of `symmetric` differ in size.

    Notes
    -----
    The mean is as unbiased as the mechanism, and, for samples that are not symmetric,
    it estimates the symmetric part of theirs. The standard error holds the noise and
    the spread of the samples, as for samples drawn from a population whose mean is
    wanted; for the mean of these very samples it is too large by their spread. It is
    that of the mean before clipping.

    With both, the mean is first projected and then clipped. Bounds that are not
    themselves symmetric then give a mean that need not be symmetric either.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import LaplaceMechanism
    >>> from sktensordp.mechanisms import mean
    >>> X = np.full((500, 8, 8, 8), 0.5)
    >>> laplace = LaplaceMechanism(64.0, bounds=(0, 1), random_state=6).fit(X)
    >>> released = laplace.transform(X)
    >>> def squared_error(**options):
    ...     return float(np.sum((mean(released, **options).mean - 0.5) ** 2))
    >>> round(laplace.expected_squared_error_ / 500, 1)
    131.1
    >>> round(squared_error(), 1)
    129.7

    Of what is expected, the projection leaves C(10, 3) / 8^3, which is 30.7; clipping
    takes some more off:

    >>> round(squared_error(symmetric=True), 1)
    31.6
    >>> round(squared_error(symmetric=True, bounds=(0, 1)), 1)
    27.1
    """
    check_numeric(released, "released")
    samples = checked(
        check_array,
        released,
        dtype=(np.float64, np.float32),
        allow_nd=True,
        order="C",
        ensure_min_samples=2,
        input_name="released",
    )
    shape = samples.shape[1:]
    if samples.size == 0:
        raise ValueError(f"released has samples without entries, of shape {shape}.")
    modes = _modes(symmetric, shape)
    domain = declared_set(shape, bounds=bounds)
    # In a unit in which no square overflows or vanishes.
    peak = max(abs(float(samples.min())), abs(float(samples.max())))
    exponent = math.frexp(peak)[1] if not 1e-100 < peak < 1e100 else 0
    found, squares = _moments(samples, modes, exponent)
    n_samples = len(samples)
    error = np.ldexp(np.sqrt(squares / (n_samples - 1) / n_samples), exponent)
    found = np.ldexp(found, exponent)
    if domain is not None:
        found = domain.clip(found.reshape(1, -1), slice(None), None).reshape(shape)
    return MeanEstimate(found, error)


def _modes(symmetric: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Modes that are permuted: an ordered tuple of axes of a sample."""
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
                f"symmetric must be True, False or two or more different modes from 0 "
                f"to {len(shape) - 1}, got {symmetric!r}."
            )
        modes = tuple(sorted(int(mode) for mode in modes))
    sizes = [shape[mode] for mode in modes]
    if len(set(sizes)) > 1:
        raise ValueError(
            f"Symmetric modes have one size, but the modes {modes} of samples of shape "
            f"{shape} have the sizes {sizes}."
        )
    return modes


def _moments(
    samples: NDArray[np.floating], modes: tuple[int, ...], exponent: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean of the projected samples and their sum of squares around it.

    In units of 2^`exponent`.
    """
    shape = samples.shape[1:]
    total, squares, n_seen = np.zeros(shape), np.zeros(shape), 0
    rows = max(1, _CHUNK // math.prod(shape))
    for start in range(0, len(samples), rows):
        block = np.ldexp(samples[start : start + rows].astype(float), -exponent)
        block = _symmetrized(block, modes)
        centre = block.mean(axis=0)
        # Chan, Golub and LeVeque (1983): the moments of two parts make the whole's.
        away = centre - total
        share = len(block) / (n_seen + len(block))
        squares += np.square(block - centre).sum(axis=0) + n_seen * share * away**2
        total += share * away
        n_seen += len(block)
    return total, squares


def _symmetrized(
    block: NDArray[np.float64], modes: tuple[int, ...]
) -> NDArray[np.float64]:
    """Average of the samples over all permutations of some of their modes.

    The permutations of k modes are those of the first k - 1, followed by nothing or by
    a swap of the last with one of them.
    """
    for k in range(1, len(modes)):
        swapped = [block.swapaxes(modes[i] + 1, modes[k] + 1) for i in range(k)]
        block = sum(swapped, block) / (k + 1)
    return block
