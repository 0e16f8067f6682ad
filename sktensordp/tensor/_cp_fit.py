"""Variational fit of a structured CP to observed entries.

The posterior of a row is Gaussian, with a full covariance over its columns. Rows are
taken as independent of one another (mean field), except in modes where neighbours are
tied. Every free column has a Gaussian prior. Its precision, and the variance of the
observations around the model, are learned from the values (empirical Bayes). So the fit
learns how much to shrink: there is no regularisation to tune.

With two modes, too large a rank does no harm. Terms start where biases and features
leave something in common, few at first, and MacKay's fixed point switches off those
without evidence; see `_grown`. They are dropped within two sweeps, since they would
take as much time as others. What was tried instead (for the pattern, see `_pattern`):

- Expectation maximisation for the precisions of terms. It comes to the same solution on
  YahooMusic and Flixster, but after more than a hundred sweeps.
- All terms at once from small random rows, with either rule. On small data (100 x 150,
  3,200 values), 20 terms end at zero where 5 do not: the variances of 20 terms together
  look like noise, and all of them compete for the values of a row.
- Larger starting precisions at larger ranks. Real terms were switched off, too.
- The variational bound as the criterion. It prefers one term on that small data, where
  four predict better by 3.5%.
- More terms whenever a singular value of what is left is above the largest one with
  random signs. A single term of noise made errors up to 1.3% larger (Flixster). Hence
  the margin of `n_standing_out`.
- Every stage adding as many terms as are there, at small random rows: errors on
  Flixster and on the small data were up to 2% larger than with the start above.

With three or more modes, sweeps from a single start often end in a poor optimum: a term
is lost, or two terms cancel. So a fit begins with more terms than it keeps, and small
fits begin several times. The starts, and the terms to keep, are chosen by what the fit
has learned from the entries; it reads nothing else. So if the entries are randomised,
these choices are post-processing.
"""

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._algebra import with_columns
from ._cp import cp_columns
from ._grouped import GroupedEntries
from ._leading_terms import leading_terms, n_standing_out
from ._likelihood import TableLikelihood
from ._row_fit import N_STARTS, SWEEPS_BEFORE_LEARNING, RowFit
from ._rows import Rows

# Fits of three or more modes begin with this many terms more than they keep, for half
# of their sweeps, but at most this number of sweeps.
_EXTRA_TERMS, _MOST_FIRST_SWEEPS = 2, 30
# Least number of entries for which a fit takes the columns of other modes' rows as
# independent, and tries a single start. Fits to fewer entries are fast anyway, and
# recover an exact decomposition more often with full covariances and several starts.
_LEAST_INDEPENDENT = 200_000
# Largest share of noise in the values for which it does so. With more noise,
# covariances are large, and the error would be up to 0.3 percent larger.
_MOST_NOISE_INDEPENDENT = 0.5
# Fits of a matrix begin with this many sweeps without terms, and terms start after each
# such stage. At first, at most so many start: with more of them than the values carry,
# real terms are not found among the others (generated ratings; MovieLens
# latest-small). For small ranks, these are so many more than asked for: with two more,
# a single term of noise stayed at rank 1 on Flixster. A term is dropped if its mean
# square is below the last share of the variance around the model.
_STAGE, _FIRST_TERMS, _EXTRA_OF_MATRIX, _LEAST_STRENGTH = 5, 10, 4, 1e-5
# Terms that were switched off are looked for after so many sweeps.
_SWEEPS_BETWEEN = 2
# Largest share of noise in the values for which starts are compared, or a Tucker fit
# starts at a decomposition: beyond, they would be chosen for what they make of noise.
MOST_NOISE = 0.8


def fit_structured_cp(
    entries: GroupedEntries,
    *,
    rank: int,
    biases: bool,
    value_scale: float,
    noise_floor: float,
    max_iter: int,
    smooth_modes: Collection[int] = (),
    features: NDArray[np.floating] | None = None,
    n_threads: int = 1,
    on_sweep: Callable[[int], Any] | None = None,
    likelihood: TableLikelihood | None = None,
) -> tuple[Rows, int]:
    """Fit biases and CP terms to the observed entries of a tensor.

    Parameters
    ----------
    entries : SparseEntries or DenseEntries
        Their values are the observations less the offset, divided by `value_scale`.
    rank : int
        Number of full CP terms; 0 for biases alone.
    biases : bool
        Whether every mode has a bias column.
    value_scale : float
        Typical size of the observations (half of their range). The starting values of
        the prior assume this scale.
    noise_floor : float
        Smallest variance of the observations around the model.
    max_iter : int
        Number of sweeps over the modes, without those that compare several starts.
    smooth_modes : collection of int, default=()
        Modes in which neighbouring rows are tied.
    features : ndarray of shape (shape[1] + 1, n_features), default=None
        Features of the rows of the second mode and, last, of an unknown row. Every row
        of the first mode has weights for them, whose prior mean is learned.
    n_threads : int, default=1
        Threads that share the rows of a sweep.
    on_sweep : callable, default=None
        Called after every sweep with its number; the fit stops if it returns true.
    likelihood : TableLikelihood, default=None
        What the values say about their means, if a table has randomised them. It is
        learned, and the entries are changed.

    Returns
    -------
    model : Rows
        A matrix may have fewer than `rank` terms; `Rows.padded` adds the rest.
    n_iter : int
        Number of sweeps run.
    """
    floor = entries_noise_floor(entries, noise_floor, value_scale)
    n_modes = len(entries.shape)
    options: dict[str, Any] = {"noise_floor": floor, "n_threads": n_threads}
    if n_modes == 2 and rank:
        columns = cp_columns(n_modes, 0, biases, smooth_modes, features)
        fit = entries.fit_class(RowFit)(
            entries, *columns, 0 if features is None else features.shape[1]
        )
        fit.independent_columns = _is_nearly_independent(entries, floor)
        fit.start_at_prior(features)
        fit.noise = float(max(entries.energy / entries.n_entries, floor))
        fit.likelihood, fit.prunes_terms = likelihood, True
        options.update(max_iter=max_iter, on_sweep=on_sweep)
        fit = _grown(fit, rank, smooth_modes, options)
        return fit.model(value_scale), fit.n_iter
    n_first = min(max_iter // 2, _MOST_FIRST_SWEEPS)
    in_stages = n_modes > 2 and rank > 0 and n_first > SWEEPS_BEFORE_LEARNING
    n_terms = rank + _EXTRA_TERMS if in_stages else rank

    def started(start: int) -> Any:
        fit = entries.fit_class(RowFit)(
            entries,
            *cp_columns(n_modes, n_terms, biases, smooth_modes, features),
            0 if features is None else features.shape[1],
        )
        fit.independent_columns = _is_nearly_independent(entries, floor)
        if in_stages:
            # As long as terms are missing, errors say little about the noise of rows.
            fit.learns_row_noise = False
        fit.start_at_prior(features, start)
        fit.noise = float(max(entries.energy / entries.n_entries, floor))
        return fit

    fit = started(0)
    n_uncounted, stopped = 0, False
    is_small = entries.n_entries < _LEAST_INDEPENDENT
    if in_stages and is_small and floor < MOST_NOISE * fit.noise:
        fits = [fit, *map(started, range(1, N_STARTS))]
        for each in fits:
            each.learn(max_iter=n_first, on_sweep=None, **options)
        fit = min(fits, key=lambda each: each.noise)
        n_uncounted = n_first
    elif in_stages:
        stopped = fit.learn(max_iter=n_first, on_sweep=on_sweep, **options)
    if in_stages:
        fit = _strongest(fit, rank)
    # Not before: all starts read the same values.
    fit.likelihood = likelihood
    if not stopped:
        fit.learn(max_iter=n_uncounted + max_iter, on_sweep=on_sweep, **options)
    return fit.model(value_scale), fit.n_iter - n_uncounted


def _grown(
    fit: RowFit, rank: int, smooth_modes: Collection[int], options: dict[str, Any]
) -> RowFit:
    """The fit of a matrix whose terms start where biases leave something in common.

    Biases and features are fitted first. Terms start at the leading singular vectors of
    what these leave, and those without evidence are switched off. More of them start if
    what is left then shows some.

    Parameters
    ----------
    fit : RowFit
        Without terms.
    rank : int
    smooth_modes : collection of int
    options : dict
        Those of `RowFit.learn`.

    Returns
    -------
    fit : RowFit
        Without the terms that were switched off.
    """
    max_iter = options["max_iter"]
    stage = min(_STAGE, max_iter // 4)
    prior = cp_columns(2, 1, False, smooth_modes)
    stopped = bool(fit.fixed.size) and fit.learn(**{**options, "max_iter": stage})
    alive: NDArray[np.integer] = np.arange(0)
    n_new = min(rank + _EXTRA_OF_MATRIX, _FIRST_TERMS)
    while n_new and not stopped:
        rows = leading_terms(fit.residuals(), n_new)
        fit = _with_terms(fit, alive, _NewTerms(rows, prior))
        fit.terms_since = fit.n_iter
        # The variance around the model with more terms is not larger. Before the fit
        # knows which terms are superfluous, their variances add to it.
        fit.most_noise = fit.noise
        stopped = fit.learn(**{**options, "max_iter": fit.n_iter + stage})
        alive = _alive(fit, rank) if stage else np.arange(min(n_new, rank))
        fit.most_noise, n_new = math.inf, 0
        room = min(rank - len(alive), _FIRST_TERMS)
        is_early = stage and fit.n_iter + 2 * stage <= max_iter
        if room and is_early and not stopped:
            n_new = n_standing_out(fit.residuals(), room)
    fit, n_terms = _with_terms(fit, alive), len(alive)
    while fit.n_iter < max_iter and not stopped:
        # Terms that were switched off would take as much time as others.
        some = min(fit.n_iter + _SWEEPS_BETWEEN, max_iter) if n_terms else max_iter
        stopped = fit.learn(**{**options, "max_iter": some})
        alive = _alive(fit, n_terms)
        if len(alive) < n_terms:
            fit, n_terms = _with_terms(fit, alive), len(alive)
    return fit


def continue_structured_cp(
    model: Rows,
    entries: GroupedEntries,
    *,
    max_iter: int,
    noise_floor: float = 0.0,
    n_threads: int = 1,
) -> Rows:
    """Run further sweeps from a model, without changing its prior or its noise.

    Parameters
    ----------
    model : Rows
        Where to start.
    entries : SparseEntries or DenseEntries
        Their values are the observations less the offset.
    max_iter : int
        Number of sweeps over the modes.
    noise_floor : float, default=0.0
        Known part of the variance of the observations around the model.
    n_threads : int, default=1

    Returns
    -------
    model : Rows
    """
    fit = entries.fit_class(RowFit)(
        entries,
        model.fixed,
        model.prior_mean,
        model.precision,
        model.tie,
        model.features.shape[1],
    )
    fit.independent_columns = _is_nearly_independent(entries, noise_floor)
    covariances = []
    for mode, free in enumerate(model.covariances):
        full = np.zeros((len(free), math.comb(model.fixed.shape[1] + 1, 2)), free.dtype)
        full[:, fit._free_pairs(mode)] = free
        covariances.append(full)
    fit.start(list(model.means), covariances, model.noise)
    if model.weights is not None:
        fit.weigh(model.weights)
    fit.run_sweeps(max_iter, n_threads)
    return fit.model(1.0)


def _is_nearly_independent(entries: GroupedEntries, noise_floor: float) -> bool:
    """Whether a fit takes the columns of other modes' rows as independent.

    There must be many entries, with little noise: the variance of the mechanism, which
    is public, is compared with that of the randomised values.
    """
    noise = noise_floor * entries.n_entries
    is_clear = noise <= _MOST_NOISE_INDEPENDENT * entries.energy
    return entries.n_entries >= _LEAST_INDEPENDENT and is_clear


def entries_noise_floor(
    entries: GroupedEntries, noise_floor: float, value_scale: float
) -> float:
    """Smallest noise variance of a fit, on the scale of the entries.

    It also keeps the fit from following rounding errors of the values.
    """
    eps: Any = np.finfo(entries.dtype).eps
    return float(max(noise_floor / value_scale**2, 1e-9, 16 * eps))


def _strongest(fit: RowFit, rank: int) -> RowFit:
    """The same fit, of whose full terms only the strongest are left.

    Parameters
    ----------
    fit : RowFit
    rank : int
        Number of full terms to keep.

    Returns
    -------
    kept : RowFit
        It goes on from the posterior, prior and noise of this one.
    """
    strengths = _strengths(fit)
    weakest = np.argsort(strengths, kind="stable")[: len(strengths) - rank]
    kept = _with_terms(fit, np.delete(np.arange(len(strengths)), weakest))
    # Row noise was not learned before, and all entries are as they were.
    kept.learns_row_noise, kept.first_sweep = True, kept.n_iter
    return kept


def _strengths(fit: RowFit) -> NDArray[np.float64]:
    """Strengths of full terms: the products over the modes of their mean squares."""
    fit.gather()
    full = ~fit.fixed.any(axis=0)
    return math.prod(np.mean(fit.means[r][:, full] ** 2, axis=0) for r in fit.rows)


def _alive(fit: RowFit, most: int) -> NDArray[np.integer]:
    """Numbers of the strongest terms of a matrix that are not off, ascending.

    Their prior means are zero, so sums of squares suffice, and no rows are gathered.
    """
    full = ~fit.fixed.any(axis=0)
    squares = [fit.row_sums(mode)[1][full] for mode in range(2)]
    strengths = math.prod(squares) / math.prod(fit.entries.shape)
    strongest = np.sort(np.argsort(-strengths, kind="stable")[:most])
    return strongest[strengths[strongest] > _LEAST_STRENGTH * fit.noise]


class _NewTerms(NamedTuple):
    """Terms to be added to a fit.

    Attributes
    ----------
    rows : list by mode of ndarray of shape (size of the mode, n_terms)
    prior : tuple of ndarray of shape (n_modes, 1)
        `fixed`, `prior_mean`, `precision` and `tie` of each of them.
    """

    rows: Sequence[NDArray[np.floating]]
    prior: tuple[NDArray[Any], ...]


def _with_terms(
    fit: RowFit, kept: NDArray[np.integer], new: _NewTerms | None = None
) -> RowFit:
    """The same fit with some of its full terms, and with new ones after them.

    Parameters
    ----------
    fit : RowFit
    kept : ndarray of int
        Numbers of the full terms to keep, ascending.
    new : _NewTerms, default=None

    Returns
    -------
    changed : RowFit
        It goes on from the posterior, prior and noise of this one.
    """
    fit.gather()
    full = np.flatnonzero(~fit.fixed.any(axis=0))
    n_columns, n_new = fit.fixed.shape[1], 0 if new is None else new.rows[0].shape[1]
    first = n_columns - fit.n_features - len(full)
    # The number of a column that is new is one too large.
    columns = np.concatenate(
        [
            np.arange(first),
            full[kept],
            np.full(n_new, n_columns),
            np.arange(first + len(full), n_columns),
        ]
    ).astype(int)
    prior = [fit.fixed, fit.prior_mean, fit.precision, fit.tie]
    if new is not None:
        prior = [np.append(a, b, axis=1) for a, b in zip(prior, new.prior, strict=True)]
    fixed, prior_mean, precision, tie = (a[:, columns] for a in prior)
    changed = type(fit)(fit.entries, fixed, prior_mean, precision, tie, fit.n_features)
    is_new = columns == n_columns
    means, covariances = [], []
    for mode, r in enumerate(fit.rows):
        rows, packed = with_columns(fit.means[r], fit.covariances[r], columns)
        if new is not None:
            rows[:, is_new] = new.rows[mode]
        means.append(rows)
        covariances.append(packed)
    changed.independent_columns = fit.independent_columns
    changed.learns_row_noise = fit.learns_row_noise
    changed.prunes_terms, changed.terms_since = fit.prunes_terms, fit.terms_since
    changed.likelihood, changed.known_noise = fit.likelihood, fit.known_noise
    changed.n_iter, changed.first_sweep = fit.n_iter, fit.first_sweep
    changed.start(means, covariances, fit.noise)
    changed.weigh(fit.row_weights)
    changed.stated_weights = fit.stated_weights
    return changed
