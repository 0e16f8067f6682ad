"""Fit of biases, CP terms and weights of features by sweeps over the rows of all modes.

The precisions of the prior, and the variance of the values around the model, are
learned (empirical Bayes). So the fit learns how much to shrink, and there is no
regularisation to tune. All choices depend only on the values that the fit was given: if
these are randomised, the choices are post-processing.
"""

import math
from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._algebra import upper_triangle
from ._cp import cp_columns, exact_rows
from ._leading_terms import leading_terms
from ._likelihood import TableLikelihood
from ._normal_equations import Pairs
from ._observations import Observations
from ._priors import BIAS_PRECISION, LARGEST_PRECISION
from ._rows import (
    ObservedValues,
    RowMoments,
    Rows,
    row_weighting,
    sweep_mode,
    update_prior,
    with_row_weights,
)
from ._threads import one_blas_thread

# Number of sweeps before precisions are learned; for precisions of terms, it counts
# from when the terms started. Precisions learned from the first sweep on would treat
# columns that have hardly left their start as superfluous.
_BEFORE_LEARNING = 3
# For every start, the standard deviations around the prior means in the first two modes
# and in the others. Small ones suit noise-free values, where biases and weights of
# features should be found first. Under heavy noise, a fit shrinks small terms to zero
# if the third mode changes their sign, so it needs a large start.
_START_SCALES = (0.05, 0.2), (0.5, 1.0), (0.05, 0.2), (0.05, 0.2)
# At most this many terms of a matrix start at a time. If more terms start than the
# values support, real terms are not found among the others.
_FIRST_TERMS = 10
# For small ranks, this many more terms start than were requested.
_MORE_TERMS = 4
# Prior variance of a new term's rows, as a multiple of their mean square at its start.
# With a smaller multiple, terms with little evidence are switched off although they
# help; with a larger one, new terms fit the noise until precisions are learned.
_START_VARIANCE = 2.0
# A fit to a matrix ends this many sweeps after its last terms started, unless its
# squared errors still fall by more than the second number, as a share, from one check
# of its terms to the next. Under heavy noise, the errors do not show whether the prior
# has been learned, and all sweeps are made.
_SWEEPS_OF_TERMS, _LEAST_PROGRESS = 12, 0.01
# Fits to fewer entries than this, whose share of noise is below the second number, try
# several starts. From that share on, noise is heavy.
_FEW_ENTRIES, MOST_NOISE = 200_000, 0.8
# If a table has randomised the values, observations around the predictions replace them
# after these numbers of sweeps; each time, they change less.
_OBSERVED_AFTER = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 18, 20, 24, 32, 48, 64)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fit between two sweeps.

    Attributes
    ----------
    rows : Rows
    entries : Observations or ChunkedObservations
    floor : float
        Smallest variance of the values around the model, known beforehand.
    likelihood : TableLikelihood or None
        Likelihood of the outputs of a table, given the means. It is learned from the
        outputs; from time to time, its observations replace the values of `entries`.
    n_iter : int
        Number of sweeps so far.
    terms_since : float
        Number of sweeps before the latest terms started.
    most_noise : float
        Upper limit of the estimated variance around the model. New terms cannot
        increase the true variance, but their posterior variances increase the estimate.
    weighs : bool
        Whether weights of rows are learned.
    n_learned : int
        Number of uncounted earlier sweeps, which have learned the prior.
    error : float
        Sum of the squared errors of all entries in the latest sweep.
    n_threads : int
    """

    rows: Rows
    entries: ObservedValues
    floor: float
    likelihood: TableLikelihood | None = None
    n_iter: int = 0
    terms_since: float = -math.inf
    most_noise: float = math.inf
    weighs: bool = True
    n_learned: int = 0
    error: float = math.inf
    n_threads: int = 1


def started(
    entries: ObservedValues,
    *,
    rank: int,
    biases: bool,
    noise: float,
    shape: tuple[int, ...] | None = None,
    smooth_modes: Collection[int] = (),
    features: NDArray[np.floating] | None = None,
    seed: int = 0,
    scales: tuple[float, float] | None = None,
) -> Rows:
    """Rows near the prior means, with zero covariances.

    Parameters
    ----------
    entries : Observations or ChunkedObservations
    rank : int
        Number of terms.
    biases : bool
        Whether every mode has a column of biases.
    noise : float
        Initial variance around the model.
    shape : tuple of int, default=None
        That of the tensor; by default, the least one that has all rows.
    smooth_modes : collection of int, default=()
        Modes whose neighbouring rows are tied.
    features : ndarray of shape (n_indices + 1, n_features), default=None
        Features of the indices of the second mode and, last, of an unknown one.
    seed : int, default=0
        Seed of the start, so that a fit is a function of its entries.
    scales : tuple of float, default=None
        Standard deviations around the prior means in the first two modes and in the
        others; by default, those of the start numbered `seed`.

    Returns
    -------
    rows : Rows
    """
    n_modes = len(entries.used)
    if features is None:
        features = np.empty((1, 0))
    columns = cp_columns(n_modes, rank, biases, smooth_modes, features)
    fixed, prior_mean, *_ = columns
    generator = np.random.default_rng(seed)
    if scales is None:
        scales = _START_SCALES[seed]
    n_features, means = features.shape[1], []
    for mode, used in enumerate(entries.used):
        deviation = scales[mode > 1] * generator.standard_normal(
            (len(used), fixed.shape[1])
        )
        rows = np.where(fixed[mode], 1.0, prior_mean[mode] + deviation)
        of_features = rows[:, fixed.shape[1] - n_features :]
        if mode == 0:
            of_features[:] = 0.0
        elif mode == 1:
            of_features[:] = features[np.minimum(used, len(features) - 1)]
        means.append(rows.astype(entries.dtype))
    unknown = np.where(fixed, 1.0, prior_mean)
    unknown[1, fixed.shape[1] - n_features :] = features[-1]
    if shape is None:
        shape = tuple(int(used[-1]) + 1 for used in entries.used)
    return exact_rows(shape, entries.used, columns, means, noise, unknown, features)


def swept(fit: Fit) -> Fit:
    """Make one sweep over the rows of all modes; also learn the prior and the noise."""
    rows, entries, floor = fit.rows, fit.entries, fit.floor
    likelihood = fit.likelihood
    if likelihood is not None and fit.n_iter in _OBSERVED_AFTER:
        # This is a copy, since later learning must not change tasks.
        entries, (counts,) = entries.change_values(_observed, rows, copy(likelihood))
        likelihood.update_weights(counts)
    if likelihood is not None and likelihood.known_share is not None:
        floor = likelihood.known_share * rows.noise
    is_learned = fit.n_learned + fit.n_iter - fit.terms_since > _BEFORE_LEARNING
    rows = rows.with_core(entries, is_learned, fit.n_threads)
    # The first mode comes last, so that the errors of its rows are those of the sweep.
    # But weights of features come first of all. Otherwise, biases of rows would explain
    # what features can, and nothing would be known about rows without entries.
    modes = [*range(1, rows.n_modes), 0]
    if fit.n_learned + fit.n_iter == 0 and rows.features.shape[1]:
        modes = [0, *modes]
    found: dict[int, RowMoments] = {}
    crosses: dict[int, NDArray[np.float64] | None] = {}
    for mode in modes:
        rows, entries, found[mode], crosses[mode] = sweep_mode(
            rows, entries, mode, fit.n_threads
        )
    error = float(found[0].errors)
    noise = max(min(error / entries.n_entries, fit.most_noise), floor)
    rows = replace(rows, noise=float(noise))
    if fit.weighs and fit.n_iter >= 5:
        how = row_weighting(rows.noise, found[0], entries.counts[0], floor)
        if how is not None and entries.has_rows(0):
            rows, entries, _ = entries.change_rows(
                with_row_weights, rows, how, reads=[]
            )
        elif how is not None:
            rows, _ = with_row_weights(rows, entries, how)
    rows = _with_learned_prior(fit, rows, found, crosses)
    return replace(fit, rows=rows, entries=entries, n_iter=fit.n_iter + 1, error=error)


def _observed(
    rows: Rows, entries: Observations, likelihood: TableLikelihood
) -> tuple[NDArray[np.floating], tuple[NDArray[np.float64]]]:
    """Observations around predictions, and counts of outputs."""
    outputs = np.asarray(entries.outputs)
    values, counts = likelihood.observe(entries.fitted(rows), outputs)
    return values, (counts,)


def _with_learned_prior(
    fit: Fit,
    rows: Rows,
    found: dict[int, RowMoments],
    crosses: dict[int, NDArray[np.float64] | None],
) -> Rows:
    """Give the rows the prior that their posterior suggests after a sweep."""
    n_iter = fit.n_learned + fit.n_iter + 1
    at, prior_mean = rows.of_features, rows.prior_mean.copy()
    prior_mean[0, at] = found[0].means[at] / found[0].n_rows
    # The mean minimises the squared distances.
    moved = prior_mean[0, at] - rows.prior_mean[0, at]
    found[0].squares[at] -= found[0].n_rows * moved**2
    rows = replace(rows, prior_mean=prior_mean)
    if n_iter == _BEFORE_LEARNING:
        # Until now the prior was weak, so that the means of weights could be found. It
        # is too weak a start for learning.
        precision = rows.precision.copy()
        precision[0, at] = np.maximum(precision[0, at], BIAS_PRECISION)
        return replace(rows, precision=precision)
    if n_iter < _BEFORE_LEARNING:
        return rows
    columns = np.ones(rows.fixed.shape[1], dtype=bool)
    if n_iter - fit.terms_since <= _BEFORE_LEARNING:
        columns = rows.in_one_mode
    # Terms of a matrix are pruned; terms of a tensor have prior means of one.
    prunes = rows.in_one_mode | (rows.n_modes == 2)
    for mode, cross in sorted(crosses.items()):
        rows = update_prior(
            rows, mode, found[mode], columns, prunes=prunes, cross=cross
        )
    return rows


# --- terms ---------------------------------------------------------------------------


def strengths(rows: Rows, entries: ObservedValues) -> NDArray[np.float64]:
    """Products over the modes of the mean squares of every term."""
    found = []
    for mode, used in enumerate(entries.used):
        if entries.has_rows(mode):
            (squares,) = entries.total(_squares, rows, mode, reads=[])
        else:
            (squares,) = _squares(rows, entries, mode)
        found.append(squares / len(used))
    return np.prod(found, axis=0)


def _squares(rows: Rows, _: object, mode: int) -> tuple[NDArray[np.float64]]:
    """Sums over the rows of a mode of the squares of every term."""
    return ((rows.means[mode][:, rows.terms].astype(float) ** 2).sum(axis=0),)


def with_terms(
    rows: Rows,
    kept: NDArray[np.integer],
    new: Sequence[NDArray[np.floating]] | None = None,
    smooth_modes: Collection[int] = (),
) -> Rows:
    """Keep some of the terms of rows, and append new terms.

    Parameters
    ----------
    rows : Rows
    kept : ndarray of int
        Numbers of the terms to keep, ascending.
    new : sequence by mode of ndarray of shape (n_rows, n_new), default=None
        Means of the new terms; their covariances are zero.
    smooth_modes : collection of int, default=()
        Modes whose neighbouring rows are tied.
    """
    n_columns, n_new = rows.fixed.shape[1], 0 if new is None else new[0].shape[1]
    terms, features = np.flatnonzero(rows.terms), rows.of_features
    first = features.start - len(terms)
    # A new column gets a number just beyond the existing ones.
    columns = np.concatenate(
        [
            np.arange(first),
            terms[kept],
            np.full(n_new, n_columns),
            np.arange(features.start, n_columns),
        ]
    ).astype(int)
    prior = cp_columns(rows.n_modes, 1, False, smooth_modes)
    old = rows.fixed, rows.prior_mean, rows.precision, rows.tie
    pairs = zip(old, prior, strict=True)
    appended: list[NDArray[Any]] = [
        np.append(a, b, axis=1)[:, columns] for a, b in pairs
    ]
    fixed, prior_mean, precision, tie = appended
    unknown = np.append(rows.unknown, prior[1], axis=1)[:, columns]
    means, covariances = [], []
    for mode, (own, covariance) in enumerate(
        zip(rows.means, rows.covariances, strict=True)
    ):
        free = columns[~fixed[mode]]
        one, other = (free[k] for k in upper_triangle(len(free)))
        kept_pairs = Pairs.from_columns(rows.fixed[mode], one, other)
        covariances.append(np.zeros((len(own), len(one)), own.dtype))
        covariances[mode][:, kept_pairs.both] = covariance[:, kept_pairs.at]
        nothing = np.zeros((len(own), 1), own.dtype)
        means.append(np.append(own, nothing, axis=1)[:, columns])
        if new is not None:
            means[mode][:, columns == n_columns] = new[mode]
    return replace(
        rows,
        fixed=fixed,
        prior_mean=prior_mean,
        precision=precision,
        tie=tie,
        unknown=unknown,
        means=tuple(means),
        covariances=tuple(covariances),
    )


def padded(rows: Rows, rank: int) -> Rows:
    """The same model with at least `rank` terms; added terms are zero."""
    n_terms = int(np.count_nonzero(rows.terms))
    zeros = [np.zeros((len(m), max(rank - n_terms, 0)), m.dtype) for m in rows.means]
    return with_terms(rows, np.arange(n_terms), zeros)


def with_terms_that_stand_out(
    fit: Fit, rank: int, may_grow: bool, smooth_modes: Collection[int] = ()
) -> Fit:
    """Drop the terms of a matrix fit that are switched off, and start new terms.

    MacKay's fixed point switches off terms without evidence. New terms start at the
    leading singular vectors of the residuals. Later ones start only if no term was
    switched off, and if they stand out from the same residuals with random signs. So
    too large a rank does no harm.

    Alternatives were worse: starting all terms at once from small random rows (on 3,200
    generated values, 20 terms ended at zero and 5 did not, since all terms compete for
    the values of a row); larger starting precisions at larger ranks (real terms were
    switched off, too); the variational bound as the criterion (it preferred one term
    although four predicted better by 3.5%).

    Parameters
    ----------
    fit : Fit
    rank : int
        Largest number of terms.
    may_grow : bool
        Whether terms may start.
    smooth_modes : collection of int, default=()
    """
    rows, entries, found = fit.rows, fit.entries, strengths(fit.rows, fit.entries)
    strongest = np.sort(np.argsort(-found, kind="stable")[:rank])
    # A term with a smaller mean square is switched off.
    alive = strongest[found[strongest] > 1e-5 * rows.noise]
    room, new = min(rank - len(alive), _FIRST_TERMS), None
    is_first = not math.isfinite(fit.terms_since)
    # Where a term was switched off, no other one is found.
    if may_grow and room and (is_first or len(alive) == len(found)):
        left = entries.residuals(rows)
        if not is_first:
            new = leading_terms(left, room, stand_out=True)
        else:
            # The first terms need not stand out: the prior decides which of them stay.
            new = leading_terms(left, min(rank + _MORE_TERMS, _FIRST_TERMS))
        new = new if new[0].shape[1] else None
    if len(alive) < len(found) or new is not None:
        rows = with_terms(entries.gathered(rows), alive, new, smooth_modes)
        if new is not None:
            rows = _with_prior_of_start(rows, new, entries.counts)
        rows, entries = entries.with_rows(rows)
    fit = replace(fit, rows=rows, entries=entries, most_noise=math.inf)
    if new is None:
        return fit
    return replace(fit, terms_since=fit.n_iter, most_noise=rows.noise)


def _with_prior_of_start(
    rows: Rows,
    new: Sequence[NDArray[np.float64]],
    counts: Sequence[NDArray[np.integer]],
) -> Rows:
    """Give new terms, the last ones of rows, a prior variance that suits their start.

    With a wider prior, all new terms would fit the noise until precisions are learned,
    and biases and older terms would follow them. The mean square is that of the average
    entry, since rows with few entries start close to zero. Under heavy noise it is
    large, and the prior stays as it is.
    """
    precision, tie = rows.precision.copy(), rows.tie.copy()
    terms = np.flatnonzero(rows.terms)[-new[0].shape[1] :]
    for mode, (own, number) in enumerate(zip(new, counts, strict=True)):
        variance = _START_VARIANCE * (number @ own**2) / number.sum()
        scale = 1 / np.clip(variance, 1 / LARGEST_PRECISION, 1.0)
        precision[mode, terms] *= scale
        tie[mode, terms] *= scale
    return replace(rows, precision=precision, tie=tie)


# --- whole fits ----------------------------------------------------------------------


def fit_cp(
    entries: ObservedValues,
    *,
    rank: int,
    biases: bool,
    noise_floor: float,
    max_iter: int,
    shape: tuple[int, ...] | None = None,
    smooth_modes: Collection[int] = (),
    features: NDArray[np.floating] | None = None,
    likelihood: TableLikelihood | None = None,
    n_threads: int = 1,
    on_sweep: Callable[[int], Any] | None = None,
) -> tuple[Rows, int]:
    """Fit biases, terms and weights of features to entries.

    Parameters
    ----------
    entries : Observations or ChunkedObservations
        Their values are the observations less the offset, divided by half the width of
        their range.
    rank : int
        Largest number of terms; 0 for biases alone.
    biases : bool
    noise_floor : float
        Known part of the variance of the values around the model, on their scale.
    max_iter : int
        Number of sweeps, not counting those that compare starts.
    shape : tuple of int, default=None
        That of the tensor; by default, the least one that has all rows.
    smooth_modes : collection of int, default=()
        Modes whose neighbouring rows are tied. All their indices have rows.
    features : ndarray of shape (n_indices + 1, n_features), default=None
    likelihood : TableLikelihood, default=None
        Likelihood of the outputs, if a table has randomised the values. It is changed.
    n_threads : int, default=1
    on_sweep : callable, default=None
        Called after every counted sweep with its number; the fit stops if it returns
        true.

    Returns
    -------
    rows : Rows
    n_iter : int
        Number of sweeps.
    """
    fits, floor, noise = fits_to(entries, noise_floor, n_threads)
    start = partial(
        started,
        entries,
        biases=biases,
        shape=shape,
        smooth_modes=smooth_modes,
        features=features,
    )
    # For this many sweeps, fits of three or more modes have more terms than they keep.
    n_first = min(max_iter // 2, 30)
    with one_blas_thread:
        if len(entries.used) == 2 and rank:
            fit = fits(start(rank=0, noise=noise), likelihood=likelihood)
            fit, n_iter = grown(fit, rank, max_iter, smooth_modes, on_sweep)
        elif rank and n_first > _BEFORE_LEARNING:
            # Observations replace no values yet, so all starts read the same values.
            stopped, n_counted = False, 0
            exact = partial(start, rank=rank, scales=(0.2, 0.5))
            best = exact_start(fits, exact, entries.n_entries, noise, floor)
            if best is None:
                is_clear = floor < MOST_NOISE * noise
                one_of_many = is_clear and entries.n_entries < _FEW_ENTRIES
                watched = None if one_of_many else on_sweep
                first = partial(start, rank=rank + 2, noise=noise)
                seeds = range(len(_START_SCALES) if one_of_many else 1)
                tried = [fits(first(seed=seed), weighs=False) for seed in seeds]
                if one_of_many:
                    tried = _ahead(tried, n_first // 2)
                ended = [run(fit, n_first, watched) for fit in tried]
                best, stopped = min(ended, key=lambda one: one[0].rows.noise)
                n_counted = 0 if one_of_many else best.n_iter
            found = strengths(best.rows, best.entries)
            strongest = np.sort(np.argsort(-found, kind="stable")[:rank])
            rows = best.entries.gathered(best.rows)
            rows = with_terms(rows, strongest, None, smooth_modes)
            fit = fits(rows, likelihood=likelihood, n_learned=best.n_iter)
            n_left = 0 if stopped else max_iter - n_counted
            fit, _ = run(fit, n_left, on_sweep, n_counted)
            n_iter = n_counted + fit.n_iter
        else:
            fit = fits(start(rank=rank, noise=noise), likelihood=likelihood)
            fit, _ = run(fit, max_iter, on_sweep)
            n_iter = fit.n_iter
    rows = fit.entries.gathered(fit.rows)
    return rows.with_average_rows(entries.counts), n_iter


def _ahead(tried: Sequence[Fit], n_sweeps: int) -> list[Fit]:
    """The fits that go on after some sweeps: the best of each scale of starts.

    Starts of one scale differ only at random: in twelve fits to five data sets, none
    that was behind halfway was best at the end. Starts of other scales are compared
    only then. A large one may be behind until the ninth of twelve sweeps, and win.

    Parameters
    ----------
    tried : sequence of Fit
        One for each of `_START_SCALES`.
    n_sweeps : int
    """
    best: dict[tuple[float, float], Fit] = {}
    for fit, scales in zip(tried, _START_SCALES, strict=True):
        swept_fit, _ = run(fit, n_sweeps)
        before = best.get(scales)
        if before is None or swept_fit.rows.noise < before.rows.noise:
            best[scales] = swept_fit
    return list(best.values())


def fits_to(
    entries: ObservedValues, noise_floor: float, n_threads: int
) -> tuple[Callable[..., Fit], float, float]:
    """A function that starts fits at rows; least and initial variance of the values."""
    eps = np.finfo(entries.dtype).eps
    floor = float(max(noise_floor, 1e-9, 16 * eps))

    def fits(rows: Rows, **options: Any) -> Fit:
        rows, own = entries.with_rows(rows)
        return Fit(rows, own, floor, n_threads=n_threads, **options)

    return fits, floor, max(entries.energy / entries.n_entries, floor)


def grown(
    fit: Fit,
    rank: int,
    max_iter: int,
    smooth_modes: Collection[int],
    on_sweep: Callable[[int], Any] | None,
) -> tuple[Fit, int]:
    """Fit a matrix; terms start after biases and features.

    Further terms start as long as all terms have evidence and more stand out from the
    residuals.
    """
    # Numbers of sweeps between two checks of the terms, and between checks that only
    # prune.
    stage, pruned_after = min(5, max_iter // 4), 2
    is_clear = fit.floor < MOST_NOISE * fit.entries.energy / fit.entries.n_entries
    fit, stopped = run(fit, stage if fit.rows.fixed.size else 0, on_sweep)
    may_grow, ended = True, False
    while not stopped:
        may_grow = may_grow and fit.n_iter + max(2 * stage, 1) <= max_iter
        fit = with_terms_that_stand_out(fit, rank, may_grow, smooth_modes)
        if ended or fit.n_iter >= max_iter:
            break
        may_grow = fit.terms_since == fit.n_iter
        n, before = max(stage, 1) if may_grow else pruned_after, fit.error
        fit, stopped = run(fit, min(fit.n_iter + n, max_iter), on_sweep)
        ended = is_clear and fit.n_iter >= fit.terms_since + _SWEEPS_OF_TERMS
        ended = ended and fit.error > (1 - _LEAST_PROGRESS) * before
    return fit, fit.n_iter


def exact_start(
    fits: Callable[..., Fit],
    start: Callable[..., Rows],
    n_entries: int,
    noise: float,
    floor: float,
) -> Fit | None:
    """A start from which the fit to few noise-free values becomes exact, if found.

    As long as a fit is not exact, its residuals look like noise, and terms that are
    still small are shrunk to zero. So precisions of terms are not learned here, and the
    noise is assumed to be small. One in two to six starts then leads to an exact fit,
    if there is one (rank 3, 6 x 8 x 7 and 10 x 5 x 6, 15% missing). The tries take
    about a second in all. If there are fewer values than numbers in the terms, many
    terms would fit exactly, so nothing is tried.
    """
    # A fit is exact if its residual variance is no larger.
    exact, cap = 1e-6 * noise, noise / 10
    if floor > exact:
        return None
    rows = start(noise=cap, seed=0)
    of_terms = ~rows.fixed & ~rows.in_one_mode
    if n_entries <= of_terms.sum(axis=1) @ [len(used) for used in rows.used]:
        return None
    # The time of a sweep grows with the square of the number of modes, and so does the
    # number of sweeps that a try takes.
    most = 24 * 27 // max(rows.n_modes, 3) ** 3
    for seed in range(min(most, 30_000 // max(n_entries, 1))):
        rows = start(noise=cap, seed=seed)
        fit = fits(rows, most_noise=cap, weighs=False, terms_since=math.inf)
        while fit.n_iter < 200:
            before, (fit, _) = fit.error, run(fit, fit.n_iter + 5)
            if fit.rows.noise <= exact:
                return fit
            # If five sweeps leave most of the squared errors, there is no progress.
            if fit.error > 0.9 * before:
                break
    return None


def run(
    fit: Fit,
    n_iter: int,
    on_sweep: Callable[[int], Any] | None = None,
    first: int = 0,
) -> tuple[Fit, bool]:
    """Sweep until a number of sweeps; also return whether `on_sweep` ended the fit."""
    stopped = False
    while fit.n_iter < n_iter and not stopped:
        fit = swept(fit)
        stopped = on_sweep is not None and bool(on_sweep(first + fit.n_iter - 1))
    return fit, stopped
