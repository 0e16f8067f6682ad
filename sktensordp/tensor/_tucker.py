"""Tucker models on Gaussian rows: a core combines the terms of the modes.

A Tucker model has the columns of a CP: biases, terms, and weights of features. The
value of an entry is the sum of its biases and weighted features, as in a CP, plus the
core contracted with the terms of its rows. Every mode may have a different number of
terms. The core is one more Gaussian row, whose regressors are the Kronecker products of
the terms. The regressors of a term are the core contracted with the terms of the other
modes. Their second moments are the second moments of the core contracted with those of
the terms.

The blocks of a Tucker decomposition are its factors and, last, the core as a block of
one row; see `CPForm`.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from ._algebra import mode_products, upper_triangle
from ._cp import no_covariances, point_model
from ._cp_rows import (
    MOST_NOISE,
    exact_start,
    fits_to,
    grown,
    padded,
    run,
    started,
    with_terms,
)
from ._leading_terms import leading_vectors
from ._likelihood import TableLikelihood
from ._normal_equations import Pairs, Sums, second_moments, summing
from ._observations import Observations
from ._priors import CORE_PRECISION, LARGEST_PRECISION, SMALLEST_PRECISION
from ._rows import Form, ObservedValues, Rows, inverses, unpacked
from ._threads import one_blas_thread

# Number of elements of the core that are solved for at a time.
_CORE_BLOCK = 1024
# Number of entries whose regressors are computed at a time, so that their contracted
# cores fit into the caches.
_ENTRIES = 256
# Largest size of cores that are contracted with the rows of one mode, at a time.
_CONTRACTED = 2**18
# For tensors of up to this size, a fit starts at leading singular vectors of the whole.
_LARGEST_START = 2**24


@dataclass(frozen=True)
class TuckerForm:
    """A Tucker decomposition as a form: the product of a core with an entry's rows.

    Attributes
    ----------
    ranks : tuple of int
        One for each mode; all 0 for an empty form.
    """

    ranks: tuple[int, ...]

    def __bool__(self) -> bool:
        return bool(self.rank > 0)

    @property
    def rank(self) -> int:
        """The smallest of the ranks, which bounds the terms between any two modes."""
        return min(self.ranks)

    def blocks(self, shape: Sequence[int]) -> list[tuple[int, int]]:
        """Numbers of rows and columns of every block; see `CPForm`."""
        sizes = list(zip(shape, self.ranks, strict=True))
        return [*sizes, (1, math.prod(self.ranks))]

    def rows(self, coordinates: NDArray[np.integer]) -> list[NDArray[np.integer]]:
        """The row of every entry in every block; see `CPForm`."""
        return [*coordinates.T, np.zeros(len(coordinates), dtype=np.int32)]

    def regressors(
        self, block: int, factors: Sequence[Any], rows: Sequence[NDArray[np.integer]]
    ) -> NDArray[Any]:
        """The regressors of entries; see `CPForm.regressors`."""
        # The operations are elementwise: in matrix products, the result for one entry
        # could depend on the other entries. Entries are the last axis, so that the
        # operations run on long vectors.
        n_modes, n = len(self.ranks), len(rows[0])
        gathered: list[Any] = [
            None if k == block else factors[k].T[:, rows[k]] for k in range(n_modes)
        ]
        if block == n_modes:
            outer = np.ones((1, n))
            for columns in gathered:
                outer = (outer[:, np.newaxis] * columns).reshape(-1, n)
            return np.ascontiguousarray(outer.T)
        others = [k for k in range(n_modes) if k != block]
        contracted = self._core(factors).transpose(block, *others)
        contracted = contracted.reshape(-1, 1)
        for k in reversed(others):
            contracted = contracted.reshape(-1, self.ranks[k], contracted.shape[-1])
            contracted = sum(
                contracted[:, r] * gathered[k][r] for r in range(self.ranks[k])
            )
        return np.ascontiguousarray(contracted.T)

    def moments(
        self, block: int, moments: Sequence[Any], core: NDArray[np.floating]
    ) -> NDArray[np.floating]:
        """See `CPForm.moments`; the core has shape (1, product of the ranks)."""
        others = [k for k in range(len(self.ranks)) if k != block]
        mean, square = np.ones(1), np.ones((1, 1))
        for k in others:
            mean = np.kron(mean, moments[k][0, 1:])
            square = np.kron(square, moments[k][1:, 1:])
        if block < len(self.ranks):
            core = core.reshape(self.ranks).transpose(block, *others)
            core = core.reshape(self.ranks[block], -1)
            mean, square = core @ mean, core @ square @ core.T
        return np.block(
            [[np.ones((1, 1)), mean[np.newaxis]], [mean[:, np.newaxis], square]]
        )

    def _core(self, factors: Sequence[NDArray[np.floating]]) -> NDArray[np.floating]:
        return factors[-1].reshape(self.ranks)

    def centre(self, block: int) -> NDArray[np.float64]:
        """Prior mean of the rows of a block; see `CPForm.centre`.

        The prior mean of the core pairs the columns of the first two modes, one to one;
        the first column of every other mode modulates the pairs.
        """
        if block == len(self.ranks):
            core = np.zeros(self.ranks)
            for term in range(min(self.ranks[:2])):
                core[term, term, *[0] * (len(self.ranks) - 2)] = 1.0
            return core.ravel()
        centre = np.zeros(self.ranks[block])
        centre[0] = float(block > 1)
        return centre

    def normalize(self, block: int, factors: list[Any]) -> None:
        """Make the columns of a fitted block orthogonal with mean square one, in place.

        The core absorbs the change. It is then scaled to the length of the core of a CP
        with as many terms, so that regressors are as long as the columns. See
        `CPForm.normalize`.
        """
        core = self._core(factors)
        if block < len(self.ranks):
            factor = factors[block] / _largest(factors[block])
            squares, axes = np.linalg.eigh(factor.T @ factor / len(factor))
            # Relative to the largest element, an axis has at least this squared length.
            lengths = np.sqrt(np.maximum(squares, 1e-14))
            factors[block] = factor @ axes / lengths
            turned = np.tensordot(lengths[:, np.newaxis] * axes.T, core, (1, block))
            core = np.moveaxis(turned, 0, block)
        core = core / _largest(core)
        core *= math.sqrt(self.rank / max(np.sum(core**2), 1.0))
        factors[-1] = core.reshape(1, -1)

    def point_model(
        self,
        shape: tuple[int, ...],
        noise_variance: float,
        dtype: DTypeLike,
        blocks: Sequence[NDArray[np.floating]] | None = None,
        **terms: Any,
    ) -> "Rows":
        """A model with given blocks and other terms; see `CPForm.point_model`."""
        if blocks is None:
            return point_model(shape, noise_variance, dtype, **terms)
        *factors, _ = blocks
        width, core = max(self.ranks), self._core(blocks).astype(float)
        padded = [np.pad(f, ((0, 0), (0, width - f.shape[1]))) for f in factors]
        rows = point_model(shape, noise_variance, dtype, factors=padded, **terms)
        return combined(rows, Core(core, core, CORE_PRECISION))


@dataclass(frozen=True, eq=False)
class Core:
    """The posterior and the prior of a core.

    Attributes
    ----------
    mean, prior_mean : ndarray of shape (rank of every mode)
    precision : float
        Prior precision of every element.
    covariances : tuple of ndarray of shape (n, n)
        Of blocks of consecutive elements, which are independent. Zero if there are
        none.
    """

    mean: NDArray[np.float64]
    prior_mean: NDArray[np.float64]
    precision: float
    covariances: tuple[NDArray[np.float64], ...] = ()

    @cached_property
    def squares(self) -> NDArray[np.float64]:
        """The core of the expected squared model: an array of shape (P of every mode).

        The expected square of the core's part of a value is this core, contracted with
        the upper triangles of the second moments of the terms.
        """
        ranks, n_modes = self.mean.shape, self.mean.ndim
        square, begin = np.outer(self.mean, self.mean), 0
        for covariance in self.covariances:
            block = slice(begin, begin := begin + len(covariance))
            square[block, block] += covariance
        square = square.reshape(*ranks, *ranks).transpose(
            np.arange(2 * n_modes).reshape(2, -1).T.ravel()
        )
        # From the last mode to the first, two axes become one axis of pairs.
        for mode in reversed(range(n_modes)):
            one, other = upper_triangle(ranks[mode])
            before: list[Any] = [slice(None)] * (2 * mode)
            lower = square[(*before, other, one)]
            lower[(*before, one == other)] = 0.0
            square = square[(*before, one, other)] + lower
        return np.ascontiguousarray(square)


@dataclass(frozen=True, eq=False, kw_only=True)
class TuckerRows(Rows):
    """Rows whose terms a core combines.

    Mode m has the first ranks[m] terms. The others are zero, and fixed.

    Attributes
    ----------
    posterior_core : Core
    """

    posterior_core: Core

    @property
    def ranks(self) -> tuple[int, ...]:
        """Number of terms of every mode."""
        return self.posterior_core.mean.shape

    @property
    def terms(self) -> NDArray[np.bool_]:
        """Columns that the core combines."""
        column, last = np.arange(self.fixed.shape[1]), self.of_features.start
        return (column >= last - max(self.ranks)) & (column < last)

    @property
    def in_one_mode(self) -> NDArray[np.bool_]:
        """All other columns: biases and weights of features."""
        return ~self.terms

    def terms_of(self, mode: int) -> slice:
        """The columns of a mode's terms."""
        first = self.of_features.start - max(self.ranks)
        return slice(first, first + self.ranks[mode])

    @property
    def linear(self) -> Rows:
        """The biases, features and weights alone."""
        linear = with_terms(self, np.empty(0, int))
        return Rows(**{each.name: getattr(linear, each.name) for each in fields(Rows)})

    @property
    def core(self) -> NDArray[np.floating]:
        """The core of the model as a whole, which combines `factors`."""
        ranks, (places, n_features) = self.ranks, self._layout
        sizes = [
            rank + places + n_features * (mode < 2) for mode, rank in enumerate(ranks)
        ]
        core = np.zeros(sizes, self.means[0].dtype)
        core[tuple(slice(places, places + rank) for rank in ranks)] = (
            self.posterior_core.mean
        )
        if self.has_biases:
            for index in np.eye(len(ranks), dtype=int):
                core[tuple(index)] = 1.0
        at: list[NDArray[np.int64] | int] = [0] * len(ranks)
        at[:2] = [rank + places + np.arange(n_features) for rank in ranks[:2]]
        core[tuple(at)] = 1.0
        return core

    @property
    def factors(self) -> list[NDArray[np.floating]]:
        """Columns of ones, biases, terms, and weights or features, by mode.

        There are columns of ones if there are biases or features.
        """
        factors, (places, _) = [], self._layout
        for mode, rows in enumerate(super().factors):
            ones, of_terms = np.ones((len(rows), 1), rows.dtype), self.terms_of(mode)
            own = [ones[:, : min(places, 1)], rows[:, mode : mode + self.has_biases]]
            own.append(rows[:, of_terms])
            if mode < 2:
                own.append(rows[:, self.of_features])
            factors.append(np.concatenate(own, axis=1))
        return factors

    @property
    def column_names(self) -> list[list[str | None]]:
        """Names of the columns of `factors`, by mode; None for columns of ones."""
        places, n_features = self._layout
        first = [None, "bias"][:places]
        features = [f"feature {j}" for j in range(n_features)]
        return [
            [*first, *(f"column {j}" for j in range(rank)), *features * (mode < 2)]
            for mode, rank in enumerate(self.ranks)
        ]

    @property
    def _layout(self) -> tuple[int, int]:
        """Number of columns of factors before the terms, and after them."""
        n_features = self.features.shape[1]
        return int(self.has_biases or n_features > 0) + self.has_biases, n_features

    def dense(self) -> NDArray[np.floating]:
        """Predictions of all entries: an array of the tensor's shape."""
        return mode_products(self.core[np.newaxis], self.factors)[0]

    def _has_terms(self, form: Form) -> bool:
        """Whether the terms are those of a fit with this form."""
        return isinstance(form, TuckerForm) and form.ranks == self.ranks

    def regressors(self, mode: int, rows: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """The regressors of entries in a mode, from their rows in the others."""
        core, form = self.posterior_core.mean.reshape(1, -1), TuckerForm(self.ranks)
        found, at = super().regressors(mode, rows) * self.in_one_mode, self.terms_of
        for begin in range(0, len(found), _ENTRIES):
            some = slice(begin, begin + _ENTRIES)
            terms = [r[some, at(m)] for m, r in enumerate(rows)]
            every = np.arange(len(terms[0]))
            of_some = form.regressors(mode, [*terms, core], [every] * len(rows))
            found[some, at(mode)] = of_some
        return found

    def _more_variance(
        self,
        rows: Sequence[NDArray[np.float64]],
        covariances: Sequence[NDArray[np.float64]],
        regressors: Sequence[NDArray[np.float64]],
    ) -> NDArray[np.float64]:
        """Variances of predictions beyond those of the linearised model.

        All other columns are linear in the rows of one mode. Beyond that, only the
        contracted core counts: its expected square, less the square of its mean and
        what the linearised model has of it. See `Rows.variance`.
        """
        squares, linear = [], np.zeros(len(rows[0]))
        for mode, (own, triangles) in enumerate(zip(rows, covariances, strict=True)):
            terms = np.arange(self.fixed.shape[1])[self.terms_of(mode)]
            one, other = upper_triangle(len(terms))
            pairs = Pairs.from_columns(self.fixed[mode], terms[one], terms[other])
            squares.append(second_moments(own, triangles, pairs))
            of_terms = regressors[mode][:, np.isin(self.free[mode], terms)]
            products = of_terms[:, one] * of_terms[:, other]
            products *= np.where(one == other, 1.0, 2.0)
            linear += np.einsum("np,np->n", products, triangles[:, pairs.at])
        means = np.einsum("na,na->n", of_terms, own[:, terms])
        contracted = _contracted(self.posterior_core.squares, squares)
        return contracted - means**2 - linear

    def tables(
        self, skipped: int | None = None
    ) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
        """Moments of the terms of all modes, as `Observations.outer_sums` takes them.

        Parameters
        ----------
        skipped : int, default=None
            A mode without tables. If it is not the first mode, the tables of the first
            mode are weighted.

        Returns
        -------
        squares : list by mode of ndarray of shape (1, n_rows, P)
            Second moments of terms.
        crosses : list by mode of ndarray of shape (n_single + 1, n_rows, rank)
            Second moments of terms and all other columns and, last, means of terms.
        """
        squares, crosses = [], []
        single = np.flatnonzero(self.in_one_mode)
        every = np.arange(self.fixed.shape[1])
        for mode, means in enumerate(self.means):
            if mode == skipped:
                squares.append(np.empty((1, 0, 0)))
                crosses.append(np.empty((len(single) + 1, 0, 0)))
                continue
            terms, n = every[self.terms_of(mode)], len(means)
            double, covariances = means.astype(float), self.covariances[mode]
            one, other = upper_triangle(len(terms))
            pairs = [(terms[one], terms[other])]
            pairs += [(np.tile(terms, len(single)), np.repeat(single, len(terms)))]
            square, cross = (
                second_moments(
                    double, covariances, Pairs.from_columns(self.fixed[mode], *both)
                )
                for both in pairs
            )
            cross = np.append(cross, double[:, terms], axis=1)
            if mode == 0 and self.weights is not None:
                square *= self.weights[:, np.newaxis]
                cross *= self.weights[:, np.newaxis]
            squares.append(square[np.newaxis])
            cross = cross.reshape(n, -1, len(terms)).transpose(1, 0, 2)
            crosses.append(np.ascontiguousarray(cross))
        return squares, crosses

    def summing(
        self, entries: Observations, mode: int, n_threads: int = 1
    ) -> Callable[[slice], Sums]:
        """The sums over the entries of some rows of a mode; see `sums`."""
        core, linear = self.posterior_core, self.linear
        squares, crosses = self.tables(mode)
        gram = entries.contracted_sums(mode, core.squares, squares, 0, n_threads)[0]
        cross = entries.contracted_sums(mode, core.mean, crosses, 1, n_threads)
        order = np.append(self.free[mode], np.flatnonzero(self.fixed[mode]))
        place, n_columns = np.argsort(order), len(order)
        n_needed = n_columns if mode == 0 else len(self.free[mode])
        at, single = place[self.terms_of(mode)], place[self.in_one_mode]
        sums_of_linear = summing(linear, entries, mode, n_threads)
        # Off the diagonal, a pair of terms stands for two products.
        share = np.where(np.equal(*upper_triangle(len(at))), 1.0, 0.5)

        def of_some(some: slice) -> Sums:
            n = some.stop - some.start
            whole, projection = (
                np.zeros((n, n_needed, n_columns)),
                np.zeros((n, n_columns)),
            )
            whole[:, at[:, np.newaxis], at] = unpacked(gram[some] * share, len(at))
            for own, column in zip(cross, single, strict=False):
                if column < at[0]:
                    whole[:, column, at] = own[some]
                else:
                    whole[:, at, column] = own[some]
            projection[:, at] = cross[-1, some]
            if mode == 0 and self.weights is not None:
                whole *= self.weights[some, np.newaxis, np.newaxis]
                projection *= self.weights[some, np.newaxis]
            if len(single):
                found, ordered = sums_of_linear(some), np.sort(single)
                needed = ordered[: found.gram.shape[1], np.newaxis]
                whole[:, needed, ordered] = found.gram
                projection[:, ordered] = found.projection
            return Sums(whole, projection)

        return of_some

    def with_core(
        self, entries: ObservedValues, is_learned: bool, n_threads: int = 1
    ) -> Self:
        """Replace the core by its posterior, given the rows of all modes.

        Parameters
        ----------
        entries : Observations or ChunkedObservations
        is_learned : bool
            Whether the precision of the prior is learned; see `update_prior`.
        n_threads : int, default=1
        """
        gram, right = entries.total(_core_sums, self, n_threads)
        for mode, rank in enumerate(self.ranks):
            pair = np.empty((rank, rank), dtype=int)
            one, other = upper_triangle(rank)
            pair[one, other] = pair[other, one] = np.arange(len(one))
            gram = np.take(gram, pair, axis=2 * mode)
        n_modes, n = len(self.ranks), math.prod(self.ranks)
        gram = gram.transpose(np.arange(2 * n_modes).reshape(-1, 2).T.ravel()).reshape(
            n, n
        )
        core = self.posterior_core
        mean, prior_mean = core.mean.flatten(), core.prior_mean.ravel()
        covariances = []
        for at in np.array_split(np.arange(n), math.ceil(n / _CORE_BLOCK)):
            block = slice(at[0], at[-1] + 1)
            own = gram[block, block] / self.noise
            shift = (right[block] - gram[block] @ mean) / self.noise + own @ mean[block]
            prior = np.full(len(at), core.precision)
            own[np.diag_indices(len(at))] += prior
            own = inverses(own[np.newaxis])[0]
            covariances.append(own)
            mean[block] = own @ (shift + prior * prior_mean[block])
        precision = core.precision
        if is_learned:
            variances = sum(np.trace(block) for block in covariances)
            precision = n / (np.sum((mean - prior_mean) ** 2) + variances)
            precision = float(np.clip(precision, SMALLEST_PRECISION, LARGEST_PRECISION))
        found = replace(
            core,
            mean=mean.reshape(self.ranks),
            covariances=tuple(covariances),
            precision=precision,
        )
        return replace(self, posterior_core=found)


def _core_sums(
    rows: TuckerRows, entries: Observations, n_threads: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    squares, crosses = rows.tables()
    gram = entries.outer_sums(squares, 0, n_threads)[0]
    found = entries.outer_sums(crosses, 1, n_threads)
    return gram, (found[-1] - found[:-1].sum(axis=0)).ravel()


def _contracted(
    core: NDArray[np.float64], tables: Sequence[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """A core contracted with one row of every table, for each row.

    Parameters
    ----------
    core : ndarray of shape (n_columns of every table)
    tables : sequence of ndarray of shape (n, n_columns)

    Returns
    -------
    values : ndarray of shape (n,)
    """
    n, matrix = len(tables[0]), core.reshape(len(core), -1)
    values, size = np.empty(n), max(_CONTRACTED // matrix.shape[1], 1)
    for begin in range(0, n, size):
        first, *others = (table[begin : begin + size] for table in tables)
        found = first @ matrix
        for rows in others:
            found = found.reshape(*rows.shape, -1)
            found = np.matmul(rows[:, np.newaxis], found)[:, 0]
        values[begin : begin + size] = found[:, 0]
    return values


def check_tucker_size(ranks: Sequence[int]) -> None:
    """Refuse ranks whose core would not fit into memory.

    Raises
    ------
    ValueError
        If the core would have too many elements.
    """
    # Memory grows with the square of the number of elements.
    size, most = math.prod(ranks), 10_000
    if size > most:
        raise ValueError(
            f"A Tucker of ranks {tuple(ranks)} is too large to be fitted to values. "
            f"Its core has {size} elements, and may have at most {most}. Reduce the "
            f"ranks or the number of modes."
        )


def combined(rows: Rows, core: Core) -> TuckerRows:
    """Combine the first terms of the rows of a CP by a core."""
    values = {each.name: getattr(rows, each.name) for each in fields(Rows)}
    ranks, last = core.mean.shape, rows.of_features.start
    first = last - max(ranks)
    parts = [values[name].copy() for name in ("fixed", "prior_mean", "tie", "unknown")]
    fixed, prior_mean, tie, unknown = parts
    means = [own.copy() for own in rows.means]
    for mode, (own, rank) in enumerate(zip(means, ranks, strict=True)):
        absent = slice(first + rank, last)
        for part in (own, prior_mean[mode], tie[mode], unknown[mode]):
            part[..., absent] = 0.0
        fixed[mode, absent] = True
        prior_mean[mode, first : first + rank] = TuckerForm(ranks).centre(mode)
    values.update(fixed=fixed, prior_mean=prior_mean, tie=tie, unknown=unknown)
    values.update(means=tuple(means), covariances=no_covariances(fixed, means))
    return TuckerRows(**values, posterior_core=core)


def fit_tucker(
    entries: ObservedValues,
    *,
    ranks: tuple[int, ...],
    biases: bool,
    noise_floor: float,
    max_iter: int,
    shape: tuple[int, ...] | None = None,
    smooth_modes: Collection[int] = (),
    features: NDArray[np.floating] | None = None,
    likelihood: TableLikelihood | None = None,
    n_threads: int = 1,
    on_sweep: Callable[[int], Any] | None = None,
) -> tuple[TuckerRows, int]:
    """Fit biases, a Tucker and weights of features to entries.

    For few noise-free values, it first tries an exact fit. Otherwise, the fit to a
    matrix starts at a CP. The fit to a tensor starts at the leading singular vectors of
    the residuals of biases, if enough is observed; if not, near a matrix factorisation
    of the first two modes, which the other modes modulate.

    Parameters
    ----------
    entries : Observations or ChunkedObservations
    ranks : tuple of int
        Number of terms of every mode; not zero.
    biases, noise_floor, max_iter, shape, smooth_modes, features, likelihood, \
            n_threads, on_sweep
        See `fit_cp`.

    Returns
    -------
    rows : TuckerRows
    n_iter : int
        Number of sweeps.
    """
    fits, floor, noise = fits_to(entries, noise_floor, n_threads)
    start = partial(
        started,
        entries,
        rank=max(ranks),
        shape=shape,
        biases=biases,
        smooth_modes=smooth_modes,
        features=features,
    )
    centre = TuckerForm(ranks).centre(len(ranks)).reshape(ranks)
    core = Core(centre, centre, CORE_PRECISION)
    with one_blas_thread:
        exact = partial(_random_start, start, ranks)
        best = exact_start(fits, exact, entries.n_entries, noise, floor)
        if best is not None:
            n_learned, rows = best.n_iter, best.entries.gathered(best.rows)
        elif len(ranks) == 2:
            cp = fits(start(rank=0, noise=noise))
            cp, n_learned = grown(cp, min(ranks), max_iter, smooth_modes, None)
            rows = padded(cp.entries.gathered(cp.rows), max(ranks))
            rows = combined(rows, core)
        else:
            n_learned, rows = 0, _centred(start(noise=noise), core)
            size = math.prod(len(used) for used in entries.used)
            is_small = size <= _LARGEST_START
            is_dense = entries.n_entries >= 0.02 * size
            if is_small and is_dense and floor < MOST_NOISE * noise:
                linear = rows.linear
                if linear.fixed.size:
                    # A few sweeps find most of the variance that they explain.
                    first, _ = run(fits(linear), 3)
                    linear = first.entries.gathered(first.rows)
                rows = _at_leading_vectors(rows, linear, entries.here())
        fit = fits(rows, likelihood=likelihood, n_learned=n_learned)
        fit, _ = run(fit, max_iter, on_sweep)
    fitted = fit.entries.gathered(fit.rows)
    assert isinstance(fitted, TuckerRows)
    return fitted.with_average_rows(entries.counts), fit.n_iter


def _random_start(
    start: Callable[..., Rows], ranks: tuple[int, ...], noise: float, seed: int
) -> TuckerRows:
    """A start from which a fit of noise-free values may become exact."""
    mean = np.random.default_rng(seed).standard_normal(ranks)
    rows = start(noise=noise, seed=seed, scales=(0.5, 0.5))
    return _centred(rows, Core(mean, np.zeros(ranks), precision=1.0))


def _centred(rows: Rows, core: Core) -> TuckerRows:
    """Rows near the prior means of a CP, moved to those of a Tucker."""
    found, means = combined(rows, core), []
    for mode, own in enumerate(found.means):
        moved = found.prior_mean[mode] - rows.prior_mean[mode]
        moved = np.where(found.terms & ~found.fixed[mode], moved, 0.0)
        means.append((own + moved).astype(own.dtype))
    return replace(found, means=tuple(means))


def _at_leading_vectors(
    rows: TuckerRows, linear: Rows, entries: Observations
) -> TuckerRows:
    """The rows at the leading singular vectors of residuals of biases and features."""
    means = [own.copy() for own in rows.means]
    for mode, (own, rank) in enumerate(zip(means, rows.ranks, strict=True)):
        own[:, rows.in_one_mode] = linear.means[mode]
        matrix = entries.residual_matrix(linear, mode)
        gram = partial(_squared, matrix)
        _, vectors = leading_vectors(gram, len(own), rank)
        # Vectors are scaled to mean square one, as under the prior. There may be fewer
        # vectors than terms.
        first = rows.terms_of(mode).start
        own[:, first : first + vectors.shape[1]] = vectors * math.sqrt(len(own))
    core = Core(rows.posterior_core.mean, np.zeros(rows.ranks), precision=1.0)
    return replace(rows, means=tuple(means), posterior_core=core)


def _squared(
    matrix: sparse.csr_array, vectors: NDArray[np.float64]
) -> NDArray[np.float64]:
    return matrix @ (matrix.T @ vectors)


def _largest(block: NDArray[np.floating]) -> float:
    """The largest absolute value of a block; always positive."""
    return max(np.abs(block).max(), 1e-150)
