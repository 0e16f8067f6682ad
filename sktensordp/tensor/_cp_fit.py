"""Variational fit of a structured CP to observed entries.

The posterior of a row is Gaussian, with a full covariance over its columns. Rows are
taken as independent of one another (mean field), except in modes where neighbours are
tied. Every free column has a Gaussian prior. Its precision, and the variance of the
observations around the model, are learned from the values (empirical Bayes). So the fit
learns how much to shrink: there is no regularisation to tune, and too large a rank does
no harm.

With three or more modes, sweeps from a single start often end in a poor optimum: a term
is lost, or two terms cancel. So a fit begins with more terms than it keeps, and small
fits begin several times. The starts, and the terms to keep, are chosen by what the fit
has learned from the entries; it reads nothing else. So if the entries are randomised,
these choices are post-processing.
"""

import math
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._cp import StructuredCP, cp_columns
from ._grouped import GroupedEntries
from ._likelihood import TableLikelihood
from ._row_fit import N_STARTS, SWEEPS_BEFORE_LEARNING, RowFit

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
) -> tuple[StructuredCP, int]:
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
    model : StructuredCP
    n_iter : int
        Number of sweeps run.
    """
    floor = entries_noise_floor(entries, noise_floor, value_scale)
    n_modes = len(entries.shape)
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
    options: dict[str, Any] = {"noise_floor": floor, "n_threads": n_threads}
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


def continue_structured_cp(
    model: StructuredCP,
    entries: GroupedEntries,
    *,
    max_iter: int,
    noise_floor: float = 0.0,
    n_threads: int = 1,
) -> StructuredCP:
    """Run further sweeps from a model, without changing its prior or its noise.

    Parameters
    ----------
    model : StructuredCP
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
    model : StructuredCP
    """
    known = [slice(r.start, r.stop - 1) for r in model.rows]
    fit = entries.fit_class(RowFit)(
        entries, model.fixed, model.prior_mean, model.precision, model.tie
    )
    fit.independent_columns = _is_nearly_independent(entries, noise_floor)
    fit.start(
        [model.means[r] for r in known],
        [model.covariances[r] for r in known],
        model.noise_variance,
    )
    if model.row_weights is not None:
        fit.weigh(model.row_weights[:-1])
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

    The strength of a term is the product over the modes of its mean squares.

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
    fit.gather()
    full = np.flatnonzero(~fit.fixed.any(axis=0))
    squares = [np.mean(fit.means[r][:, full] ** 2, axis=0) for r in fit.rows]
    weakest = np.argsort(math.prod(squares), kind="stable")[: len(full) - rank]
    n_columns = fit.fixed.shape[1]
    columns = np.delete(np.arange(n_columns), full[weakest])
    kept = type(fit)(
        fit.entries,
        fit.fixed[:, columns],
        fit.prior_mean[:, columns],
        fit.precision[:, columns],
        fit.tie[:, columns],
        fit.n_features,
    )
    kept.independent_columns = fit.independent_columns
    pairs = np.isin(np.triu_indices(n_columns), columns).all(axis=0)
    means = [fit.means[r][:, columns] for r in fit.rows]
    covariances = [fit.covariances[r][:, pairs] for r in fit.rows]
    kept.start(means, covariances, fit.noise)
    kept.n_iter = fit.n_iter
    kept.weigh(fit.row_weights)
    kept.stated_weights = fit.stated_weights
    return kept
