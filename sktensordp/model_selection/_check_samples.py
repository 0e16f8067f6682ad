"""What the owner of samples may look at before a release: not private, in no fit.

Nothing else of the package calls this module.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from .._client import Client
from .._dask import loaded
from .._validation import (
    as_numpy,
    check_aligned,
    check_container,
    check_same_length,
    warn,
)
from ..completion import CompletionClient
from ..encoding import EncoderClient
from ..encoding._base import LinearEncoder
from ..exceptions import PrivacyLeakWarning
from ..ids import index_of, one_each
from ..mechanisms import MatrixMechanism
from ..mechanisms._base import ReleasingTransformer, is_domain_declared
from ..mechanisms._samples import checked_tensor_shape
from ..moments import MultilinearPCA
from ..moments._means import FAR
from ..moments._norm import search_epsilon
from ..privacy import gaussian_mu
from ..privacy._protocol import privacy_tags, states_guarantee
from ..privacy.budgets._open import OPEN
from ..privacy.budgets._reserved import current_reservation

# A range or length is likely wrong if samples use less than this share of it, or if
# more than the other share of what it bounds is clipped.
_LEAST_USE, _MOST_CLIPPED = 0.1, 0.05
_FEW_OUTSIDE = 0.01
# Standard deviations of the fitting data, or their inverse, between entries that are in
# the same unit.
_FAR = 10.0
# Largest share of the squared length that samples have in common, and largest ratio of
# units, before an offset and a scale are worth declaring.
_COMMON, _MIXED = 0.9, 30.0
# How much longer than the bound of a sum samples may be. It is best near a typical
# length, so that many are longer.
_TYPICAL = 2.0
# With fewer samples, their spread says little.
_FEW = 10


@dataclass(frozen=True, eq=False, repr=False)
class SampleCheck:
    """What `check_samples` found, for the eyes of the owner alone.

    Printing it shows all of it.

    Attributes
    ----------
    found : dict
        What was counted and measured, by name.
    likely_mistakes : tuple of str
        What looks wrong, and what to do.
    """

    found: dict[str, Any]
    likely_mistakes: tuple[str, ...]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(likely_mistakes={len(self.likely_mistakes)}, "
            f"found={len(self.found)})"
        )

    def __str__(self) -> str:
        lines = [f"{name:<45} {_text(value)}" for name, value in self.found.items()]
        lines += [f"Likely mistake: {said}" for said in self.likely_mistakes]
        return "\n".join(lines)


def check_samples(
    estimator: Any, X: ArrayLike, y: ArrayLike | None = None
) -> SampleCheck:
    """Show the owner of samples what would be clipped or lost in noise.

    **This is not private.** It is computed from raw data: call it only on data that
    you may see, and show the result only to people who may see the data, too. It
    releases nothing, draws no noise and spends no budget. No fit calls it. It warns if
    the estimator protects anything, and refuses to run while a budget is open.

    Parameters
    ----------
    estimator : estimator or client
        A mechanism, an encoder, an estimator of `sktensordp.moments`, an
        `EncoderClient` or a `CompletionClient`, with the parameters of the release. It
        stays as it is. An encoder has to be fitted.
    X : array-like of shape (n_samples, ...)
        The samples that you want to release or to fit, all in memory. For a
        `CompletionClient`, the values.
    y : array-like of shape (n_samples,), default=None
        Targets or labels, for regressions and classifiers.

    Returns
    -------
    check : SampleCheck
        Print it.

    Warns
    -----
    PrivacyLeakWarning
        If the estimator has a finite epsilon.

    Raises
    ------
    RuntimeError
        If a budget is open, or a private search is running.
    TypeError
        If the estimator is of another kind, such as a Pipeline; pass its step.
    ValueError
        If `X` does not hold numbers, has no samples, has another shape than the
        estimator expects, or another number of samples than `y`.

    See Also
    --------
    sktensordp.recommend.check_table : The same for tables of ratings and choices.
    expected_error : The error of a release, without a look at the data.

    Notes
    -----
    A mistake is likely where more than 5% of what a declaration bounds is clipped, or
    where samples use less than a tenth of it. It may be right all the same: a public
    bound is a fact about what samples can be. If you change a declaration because of
    what you saw here, it is no longer public: take it from a data sheet, from earlier
    studies or from public data.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from sktensordp.mechanisms import LaplaceMechanism
    >>> from sktensordp.model_selection import check_samples
    >>> images = np.random.default_rng(0).integers(0, 256, size=(50, 4, 4))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # these are no real people
    ...     found = check_samples(LaplaceMechanism(4.0, bounds=(0, 1)), images)
    >>> print(found)
    samples                                       50
    shape of a sample                             (4, 4)
    missing or infinite values                    0
    least value                                   0
    median value                                  134
    largest value                                 255
    share of values below bounds                  0
    share of values above bounds                  0.993
    largest distance from bounds                  254
    share of bounds that is used                  1
    standard deviation of the noise of an entry   5.66
    the same, over that of an entry as clipped    93.3
    Likely mistake: 99% of the values are outside of bounds, by up to 254, ...
    """
    if OPEN.stack or current_reservation() is not None:
        raise RuntimeError(
            "check_samples reads the data without noise, which no budget covers. Call "
            "it before the budget is opened."
        )
    if not isinstance(estimator, Client | ReleasingTransformer) and not _is_of_moments(
        estimator
    ):
        raise TypeError(
            f"check_samples knows mechanisms, encoders, estimators of moments and "
            f"clients, but not {type(estimator).__name__}. From a pipeline or a "
            f"search, pass the step that releases; for a completion or a Recommender, "
            f"call check_table."
        )
    if isinstance(estimator, LinearEncoder):
        estimator = estimator.client()
    X, y = loaded(X, y)
    samples = _read(X)
    check_aligned(X, y=y)
    if y is not None:
        check_same_length(X, y)
    if math.isfinite(_epsilon_of(estimator)):
        warn(
            "check_samples is not private: it reads all data without noise. Show its "
            "result only to people who may see the data.",
            PrivacyLeakWarning,
        )
    look = _Look({}, [])
    if isinstance(estimator, CompletionClient):
        look.at_size(samples.ravel())
        domain = estimator.randomizer.domain
        low, high = domain.bounds
        look.at_box(samples.ravel(), low, high, "value_bounds")
        if domain.levels is not None:
            _of_levels(samples, domain, look)
        return look.result()
    declared = getattr(estimator, "tensor_shape", None)
    shape = samples.shape[1:] if declared is None else checked_tensor_shape(declared)
    if isinstance(estimator, EncoderClient):
        shape = estimator.sample_shape
    if math.prod(shape) != math.prod(samples.shape[1:]):
        raise ValueError(
            f"X has samples of shape {samples.shape[1:]}, but "
            f"{type(estimator).__name__} takes samples of shape {shape}."
        )
    samples = samples.reshape(len(samples), *shape)
    look.at_size(samples)
    if isinstance(estimator, EncoderClient):
        _of_client(estimator, samples, look)
    elif isinstance(estimator, ReleasingTransformer):
        _of_mechanism(estimator, samples, look)
    else:
        _of_moments(estimator, samples, look)
        if y is not None:
            _of_targets(estimator, y, look)
    return look.result()


def _is_of_moments(estimator: Any) -> bool:
    """Whether an estimator learns from sums over samples of bounded length."""
    return (
        states_guarantee(estimator)
        and hasattr(estimator, "norm_bound")
        and privacy_tags(estimator).released_by == "fit"
    )


def _epsilon_of(estimator: Any) -> float:
    if isinstance(estimator, Client):
        return estimator.privacy_guarantee_.epsilon
    return float(estimator.epsilon)


def _read(X: Any) -> NDArray[np.float64]:
    """Samples as numbers, NaN where there are none."""
    check_container(X, "X")
    array: NDArray[np.float64] | None = None
    with suppress(TypeError, ValueError):
        array = np.ma.filled(np.ma.asarray(as_numpy(X, "X"), float), np.nan)
    # Outside of a handler, whose error would show a value.
    if array is None:
        raise ValueError("X must hold numbers.")
    if not array.ndim or not array.size:
        raise ValueError(f"X must hold samples, got an array of shape {array.shape}.")
    return array


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _percent(share: float) -> str:
    return f"{math.floor(100 * share)}%" if share >= 0.01 else "less than 1%"


@dataclass
class _Look:
    """What was found so far."""

    found: dict[str, Any]
    mistakes: list[str]

    def result(self) -> SampleCheck:
        return SampleCheck(self.found, tuple(self.mistakes))

    def at_size(self, samples: NDArray[np.float64]) -> None:
        """Number and shape of samples, and the range of their values."""
        finite = samples[np.isfinite(samples)]
        self.found["samples"] = len(samples)
        if samples.ndim > 1:
            self.found["shape of a sample"] = samples.shape[1:]
        n_missing = samples.size - finite.size
        self.found["missing or infinite values"] = n_missing
        if n_missing:
            self.mistakes.append(
                f"{n_missing} values are missing or infinite, which a fit refuses. "
                f"Fill them with a public number, each sample by itself."
            )
        for name, part in (("least", 0.0), ("median", 0.5), ("largest", 1.0)):
            value = float(np.quantile(finite, part)) if finite.size else math.nan
            self.found[f"{name} value"] = value

    def at_box(
        self, values: NDArray[np.float64], low: Any, high: Any, name: str
    ) -> None:
        """What a range clips, and how much of it is used."""
        below, above = float(np.mean(values < low)), float(np.mean(values > high))
        beyond = np.nan_to_num(np.maximum(low - values, values - high))
        beyond = np.maximum(beyond, 0.0)
        inside = np.clip(values, low, high)
        used = np.nanmax(inside - low, axis=0) - np.nanmin(inside - low, axis=0)
        share = float(np.max(used / np.subtract(high, low)))
        self.found[f"share of values below {name}"] = below
        self.found[f"share of values above {name}"] = above
        self.found[f"largest distance from {name}"] = float(beyond.max())
        self.found[f"share of {name} that is used"] = share
        if below + above > _MOST_CLIPPED:
            self.mistakes.append(
                f"{_percent(below + above)} of the values are outside of {name}, by "
                f"up to {_text(float(beyond.max()))}, and are clipped. Are they in "
                f"another unit, such as 0 to 255 for 0 to 1?"
            )
        elif share < _LEAST_USE and len(values) >= _FEW:
            self.mistakes.append(
                f"The values use {_text(share)} of {name}, but the noise "
                f"is as large as for all of it. Are they in another unit, such as 0 to "
                f"1 for 0 to 255?"
            )

    def at_lengths(
        self, lengths: NDArray[np.float64], bound: float, name: str, slack: float = 1.0
    ) -> None:
        """What a bound on the length of samples scales down, and how far it is.

        It may be right if few samples are longer than it by more than the slack.
        """
        ratios = lengths / bound
        clipped, median = float(np.mean(ratios > 1)), float(np.median(ratios))
        self.found[f"share of samples longer than {name}"] = clipped
        self.found[f"median length of a sample, over {name}"] = median
        self.found[f"largest length of a sample, over {name}"] = float(ratios.max())
        if float(np.mean(ratios > slack)) > _MOST_CLIPPED:
            self.mistakes.append(
                f"{_percent(clipped)} of the samples are longer than {name}, by up to "
                f"{_text(float(ratios.max()))} times, and are scaled down to it. Is "
                f"{name} that of another unit?"
            )
        elif ratios.max() < _LEAST_USE:
            self.mistakes.append(
                f"The longest sample has {_text(float(ratios.max()))} of {name}, but "
                f"the noise is as large as for samples of that length. Is {name} that "
                f"of another unit?"
            )


def _of_levels(values: NDArray[np.float64], domain: Any, look: _Look) -> None:
    low, high = domain.bounds
    inside = values[(values >= low) & (values <= high)]
    rounded = float(np.mean(~np.isin(inside, domain.levels))) if inside.size else 0.0
    look.found["share of values between levels"] = rounded
    if rounded > _MOST_CLIPPED:
        look.mistakes.append(
            f"{_percent(rounded)} of the values are no levels, and are rounded to the "
            f"nearest one."
        )


def _of_mechanism(mechanism: Any, samples: NDArray[np.float64], look: _Look) -> None:
    """What a mechanism clips, and its noise beside the spread of the samples."""
    if not is_domain_declared(mechanism):
        look.found["domain"] = "not declared"
        look.mistakes.append(
            "The domain of the samples is not declared, so that no finite epsilon "
            "holds. Pass what is publicly known of it."
        )
        return
    shape, kept = samples.shape[1:], samples
    bounds = getattr(mechanism, "bounds", None)
    norm_bound = getattr(mechanism, "norm_bound", None)
    if bounds is not None:
        low, high = (np.broadcast_to(np.asarray(b, float), shape) for b in bounds)
        look.at_box(samples, low, high, "bounds")
        kept = np.clip(samples, low, high)
    if norm_bound is not None:
        lengths = _lengths(samples)
        look.at_lengths(lengths, float(norm_bound), "norm_bound")
        longer = np.maximum(lengths / norm_bound, 1.0)
        kept = kept / longer.reshape(-1, *[1] * len(shape))
    if not math.isfinite(mechanism.epsilon):
        return
    zeros = np.zeros((1, *shape))
    variance = clone(mechanism).fit(zeros).noise_variance_
    noise = math.sqrt(float(np.mean(variance)))
    is_of_entries = not isinstance(mechanism, MatrixMechanism)
    what = "an entry" if is_of_entries else "an answer"
    look.found[f"standard deviation of the noise of {what}"] = noise
    if is_of_entries and len(samples) >= _FEW:
        spread = math.sqrt(float(np.nanmean(np.nanvar(kept, axis=0))))
        of_noise = noise / spread if spread else math.inf
        look.found["the same, over that of an entry as clipped"] = of_noise


def _lengths(samples: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.linalg.norm(np.nan_to_num(samples.reshape(len(samples), -1)), axis=1)


def _of_client(
    client: EncoderClient, samples: NDArray[np.float64], look: _Look
) -> None:
    """How far samples are from those that the encoder was fitted to."""
    randomizer = client.randomizer
    rows = np.nan_to_num(samples.reshape(len(samples), -1))
    standard = (rows - randomizer.mean) / randomizer.scale
    if randomizer.columns is not None:
        standard = standard[:, randomizer.columns]
    size = math.sqrt(float(np.mean(np.square(standard))))
    look.found["root mean square of standardised entries"] = size
    look.found["largest standardised entry"] = float(np.abs(standard).max())
    is_far = np.abs(np.median(standard, axis=0)) > _FAR
    # Entries that are hardly ever lit may be so for the first time.
    is_wrong = float(np.mean(is_far)) > _LEAST_USE
    if len(rows) >= _FEW:
        is_wrong |= float(np.mean(is_far)) > _FEW_OUTSIDE
        spread = standard.std(axis=0)
        is_far |= (spread > _FAR) | ((spread > 0) & (spread < 1 / _FAR))
        is_wrong |= float(np.mean(is_far)) > _LEAST_USE
    share = float(np.mean(is_far))
    look.found["share of entries far from the fitting data"] = share
    codes = randomizer.encoder(standard)
    norms = np.linalg.norm(codes, getattr(randomizer.noise, "order", 2), axis=1)
    look.found["share of codes that are clipped"] = float(np.mean(norms > 1 + 1e-9))
    if is_wrong:
        look.mistakes.append(
            f"{_percent(share)} of the entries are far from those that the encoder was "
            f"fitted to, or vary far more or less. Send samples in its units."
        )


def _of_moments(estimator: Any, samples: NDArray[np.float64], look: _Look) -> None:
    """Offset, units and lengths of samples, and the noise beside their sum."""
    n_samples, *shape = samples.shape
    if estimator.tensor_shape is None and len(shape) > 1 and n_samples < max(shape):
        look.mistakes.append(
            f"X has samples of shape {tuple(shape)}, and only {n_samples} of them. If "
            f"its first axis is not that of the samples, move it there, such as by "
            f"np.moveaxis(X, -1, 0)."
        )
    centers = bool(getattr(estimator, "center", False))
    has_offset = getattr(estimator, "offset", None) is not None
    if has_offset:
        samples = samples - np.broadcast_to(estimator.offset, shape)
    if getattr(estimator, "scale", None) is not None:
        samples = samples / np.broadcast_to(estimator.scale, shape)
    samples = np.nan_to_num(samples)
    mean = samples.mean(axis=0)
    energy = float(np.mean(np.square(samples).reshape(len(samples), -1).sum(axis=1)))
    common = float(np.sum(np.square(mean))) / energy if energy else 0.0
    look.found["share of the squared length that is offset"] = common
    takes = [n for n in ("offset", "center") if n in estimator.get_params()]
    if common > _COMMON and not centers and len(samples) >= _FEW:
        look.mistakes.append(
            f"{_percent(common)} of the squared length is the same in all samples: "
            f"most of the budget is spent on that. Subtract a public offset first"
            + (f", or pass {' or '.join(takes)}." if takes else ".")
        )
    norms = _lengths(samples)
    if centers:
        samples = samples - mean
    ratio = _ratio_of_units(samples)
    look.found["largest ratio of units along a mode"] = ratio
    if ratio > _MIXED and len(samples) >= _FEW:
        look.mistakes.append(
            f"Along a mode, some cells vary {_text(ratio)} times as much as others, so "
            f"that these do not count. Divide by public scales first."
        )
    lengths, epsilon = _lengths(samples), float(estimator.epsilon)
    if estimator.norm_bound is None:
        look.found["norm_bound"] = "not declared"
        # A fit finds about this.
        bound = float(np.median(norms[norms > 0])) if norms.any() else 1.0
        look.found["median length of a sample"] = bound
    else:
        bound = float(estimator.norm_bound)
        look.at_lengths(lengths, bound, "norm_bound", _TYPICAL)
    if centers:
        length = float(np.linalg.norm(mean)) / bound
        look.found["length of the mean, over norm_bound"] = length
        if length > (1 if isinstance(estimator, MultilinearPCA) else FAR):
            look.mistakes.append(
                f"The mean of the samples is {_text(length)} times as long as "
                f"norm_bound, which is too far for `center`. Pass a public offset."
            )
    if not math.isfinite(epsilon):
        return
    if estimator.norm_bound is None:
        try:
            search_epsilon(n_samples, epsilon, type(estimator).__name__)
        except ValueError as error:
            look.mistakes.append(str(error))
    total = float(np.sum(np.square(np.minimum(lengths / bound, 1.0))))
    signal = total * gaussian_mu(epsilon, float(estimator.delta))
    look.found["summed squares, over the noise of a sum"] = signal
    if signal < 10 * math.sqrt(max(shape)):
        look.mistakes.append(
            "The squared lengths of all samples together are about as large as the "
            "noise of a single sum. Pass more samples, a larger epsilon or, if samples "
            "are much shorter than norm_bound, a smaller norm_bound."
        )


def _ratio_of_units(samples: NDArray[np.float64]) -> float:
    """How much more the cells of an index of a mode vary than those of a low one."""
    variances, found = samples.var(axis=0), 1.0
    for mode in range(variances.ndim):
        others = tuple(k for k in range(variances.ndim) if k != mode)
        units = np.sort(np.sqrt(variances.mean(axis=others)))
        units = units[units > 0]
        if len(units):
            found = max(found, float(units[-1] / units[(len(units) - 1) // 4]))
    return found


def _of_targets(estimator: Any, y: Any, look: _Look) -> None:
    """Targets outside of their bounds; labels that are no class, and empty classes."""
    if hasattr(estimator, "target_bounds"):
        if estimator.target_bounds is None:
            look.found["target_bounds"] = "not declared"
            return
        low, high = map(float, estimator.target_bounds)
        targets = _read(y).ravel()
        outside = float(np.mean((targets < low) | (targets > high)))
        beyond = np.maximum(low - targets, targets - high)
        used = float(np.ptp(np.clip(targets, low, high))) / (high - low)
        look.found["share of targets outside of target_bounds"] = outside
        look.found["largest distance from target_bounds"] = max(
            float(np.nanmax(beyond)), 0.0
        )
        look.found["share of target_bounds that is used"] = used
        if outside > _FEW_OUTSIDE:
            look.mistakes.append(
                f"{_percent(outside)} of the targets are outside of target_bounds, and "
                f"are clipped. Are they in another unit?"
            )
        elif used < _LEAST_USE:
            look.mistakes.append(
                f"The targets use {_text(used)} of target_bounds, but the noise is as "
                f"large as for all of them. Are they in another unit?"
            )
    elif hasattr(estimator, "classes"):
        if estimator.classes is None:
            look.found["classes"] = "not declared"
            return
        classes = np.asarray(estimator.classes)
        labels = one_each(y, "y")
        index = index_of(np.unique(classes), labels)
        unknown = float(np.mean(index < 0))
        counts = np.bincount(index[index >= 0], minlength=len(classes))
        look.found["share of labels that are no class"] = unknown
        look.found["classes without samples"] = int(np.sum(counts == 0))
        look.found["samples of the smallest class"] = int(counts.min())
        if unknown > _FEW_OUTSIDE:
            look.mistakes.append(
                f"{_percent(unknown)} of the labels are no class, such as the text '1' "
                f"for the number 1, and count as no label."
            )
        if np.any(counts == 0):
            look.mistakes.append(
                f"Classes without samples, of which there is only noise: "
                f"{int(np.sum(counts == 0))} of {len(counts)}."
            )
