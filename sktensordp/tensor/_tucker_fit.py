"""Variational fit of a structured Tucker to observed entries.

Rows are fitted like those of a structured CP: Gaussian posteriors, mean field over
rows, learned prior and noise. The regressors of an entry for its row in a mode are
linear in the outer product of its rows in the other modes. So the second moment of the
regressors is linear in the outer product of second moments of rows. The fit sums these
outer products over the entries of a row first, and contracts the sum with the core only
once for each row.

The core is a point estimate: the most probable one under the expected squared error and
a Gaussian prior around the core that the fit starts from. If enough of a tensor is
observed, this start is a truncated higher-order singular value decomposition.
Otherwise, it is a matrix factorisation of the first two modes, modulated by the others.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ._algebra import mode_products, packed_squares
from ._cp_fit import MOST_NOISE, entries_noise_floor
from ._grouped import DenseEntries, GroupedEntries, SparseEntries
from ._likelihood import TableLikelihood
from ._priors import CORE_PRECISION
from ._row_fit import RowFit
from ._tucker import (
    StructuredTucker,
    TuckerColumns,
    TuckerForm,
    contracted,
    core_of_squares,
    unfolded,
)

# A fit starts at a decomposition of the whole tensor with at least this share of
# observed entries, and at most this size.
_LEAST_DENSITY, _LARGEST_START = 0.02, 2**24
_BIAS_ROUNDS, _SUBSPACE_ROUNDS, _EXTRA_VECTORS = 5, 8, 8
# Largest number of elements of a core. Memory grows with its square.
_LARGEST_CORE = 12_000
# Number of elements of the core that are solved for at a time.
_CORE_BLOCK = 1024
# Largest number of sums that a thread has in memory at a time.
_LARGEST_BLOCK = 2**21


def check_tucker_size(
    ranks: Sequence[int], biases: bool, features: NDArray[np.floating] | None = None
) -> None:
    """Refuse ranks whose second moments would not fit into memory.

    Parameters
    ----------
    ranks, biases, features
        See `fit_structured_tucker`.

    Raises
    ------
    ValueError
        If the core would have too many elements.
    """
    n_features = 0 if features is None else features.shape[1]
    sizes = TuckerColumns(tuple(ranks), bool(biases), n_features).sizes
    if math.prod(sizes) > _LARGEST_CORE:
        raise ValueError(
            f"A Tucker of ranks {tuple(ranks)} is too large to be fitted to values. "
            f"With biases and features of the pattern, its core has the shape {sizes}, "
            f"and may have at most {_LARGEST_CORE} elements. Reduce the ranks, "
            f"`n_pattern_components` or the number of modes."
        )


def fit_structured_tucker(
    entries: GroupedEntries,
    *,
    ranks: Sequence[int],
    biases: bool,
    value_scale: float,
    noise_floor: float,
    max_iter: int,
    smooth_modes: Collection[int] = (),
    features: NDArray[np.floating] | None = None,
    n_threads: int = 1,
    on_sweep: Callable[[int], Any] | None = None,
    likelihood: TableLikelihood | None = None,
) -> tuple[StructuredTucker, int]:
    """Fit biases and a Tucker decomposition to the observed entries of a tensor.

    Parameters
    ----------
    entries : SparseEntries or DenseEntries
        Their values are the observations less the offset, divided by `value_scale`.
    ranks : tuple of int
        Number of factors of every mode; all 0 for biases alone.
    biases, value_scale, noise_floor, max_iter, smooth_modes, features, n_threads, \
            on_sweep, likelihood
        See `fit_structured_cp`.

    Returns
    -------
    model : StructuredTucker
    n_iter : int
        Number of sweeps run.
    """
    columns = TuckerColumns(
        tuple(ranks), bool(biases), 0 if features is None else features.shape[1]
    )
    floor = entries_noise_floor(entries, noise_floor, value_scale)
    prior = columns.prior(smooth_modes, features)
    core = TuckerForm(columns.ranks).centre(len(ranks)).reshape(ranks)
    fit = entries.fit_class(TuckerFit)(entries, columns, *prior, core)
    fit.start_at_prior(features)
    energy = entries.energy / entries.n_entries
    if any(ranks) and _has_hosvd(entries) and floor < MOST_NOISE * energy:
        fit.start_at_hosvd()
    fit.noise = float(max(energy, floor))
    fit.likelihood = likelihood
    fit.learn(
        max_iter=max_iter, noise_floor=floor, n_threads=n_threads, on_sweep=on_sweep
    )
    return fit.model(value_scale), fit.n_iter


def continue_structured_tucker(
    model: StructuredTucker,
    entries: GroupedEntries,
    *,
    max_iter: int,
    n_threads: int = 1,
) -> StructuredTucker:
    """Run further sweeps from a model, without changing its prior or its noise.

    Parameters
    ----------
    model : StructuredTucker
        Where to start.
    entries : SparseEntries or DenseEntries
        Their values are the observations less the offset.
    max_iter : int
        Number of sweeps over the modes.
    n_threads : int, default=1

    Returns
    -------
    model : StructuredTucker
    """
    fit = entries.fit_class(TuckerFit)(
        entries,
        model.columns,
        model.prior_mean,
        model.precision,
        model.tie,
        model.core[model.columns.free_core],
    )
    fit.core_mean = model.core_mean
    fit.start(
        [m[:-1].copy() for m in model.means],
        [c[:-1].copy() for c in model.covariances],
        model.noise_variance,
    )
    fit.run_sweeps(max_iter, n_threads)
    return fit.model(1.0)


class TuckerFit(RowFit):
    """The state of a Tucker fit: posterior of the rows, core, prior and noise.

    Attributes
    ----------
    learns_core : bool
        Whether a sweep updates the core, too.
    """

    learns_core = True
    learns_row_noise = False

    def __init__(
        self,
        entries: GroupedEntries,
        columns: TuckerColumns,
        prior_mean: Sequence[NDArray[np.float64]],
        precision: Sequence[NDArray[np.float64]],
        tie: Sequence[NDArray[np.float64]],
        free_core: NDArray[np.floating],
    ) -> None:
        fixed = [columns.fixed(mode) for mode in range(len(entries.shape))]
        super().__init__(entries, fixed, [*prior_mean], [*precision], [*tie])
        self.columns = columns
        self.core_mean = free_core
        self._set_core(free_core)

    def features(self, mode: int) -> slice:
        """Columns of the features of the second mode, or of their weights."""
        return self.columns.features(mode)

    def is_bias(self, mode: int) -> NDArray[np.bool_]:
        """Columns that are free in one mode alone."""
        return np.arange(self.columns.sizes[mode]) < self.columns.first

    def start_at_hosvd(self) -> None:
        """Start at a decomposition of the tensor, with zeros for unobserved entries."""
        tensor, observed = self.entries.as_array()
        if self.columns.biases:
            biases = _mean_biases(tensor, observed)
            for mode, bias in enumerate(biases):
                self.means[mode][:, 1] = bias
        factors, core = _hosvd(tensor, self.columns.ranks)
        core /= observed.mean()
        for mode, factor in enumerate(factors):
            # Scaled to variance one, as under the prior.
            length = math.sqrt(len(factor))
            self.means[mode][:, self.columns.factors(mode)] = factor * length
            core /= length
        self.start(self.means, self.covariances, None)
        self.core_mean = core
        self._set_core(core)

    def start(
        self,
        means: Sequence[NDArray[np.floating]],
        covariances: Sequence[NDArray[np.floating]],
        noise: float | None,
    ) -> None:
        """Start from a posterior, mode by mode, and a noise variance."""
        self.means, self.covariances, self.noise = [*means], [*covariances], noise
        self.moments = [
            packed_squares(m) + c for m, c in zip(means, covariances, strict=True)
        ]

    def attach(
        self,
        entries: GroupedEntries,
        posteriors: Sequence[tuple[NDArray[np.floating], NDArray[np.floating]]],
    ) -> None:
        """Take entries, and means and second moments by mode; see `RowFit.attach`."""
        self.entries = entries
        self.means, self.moments = map(list, zip(*posteriors, strict=True))
        self.covariances = [np.zeros_like(m) for m in self.moments]

    def posterior(
        self, mode: int
    ) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]]:
        """Views of the means, covariances and second moments of a mode's rows."""
        return self.means[mode], self.covariances[mode], self.moments[mode]

    def _set_core(self, free: NDArray[np.floating]) -> None:
        """Set the core of the factors, and the unfolded cores that contract sums."""
        self.core = self.columns.core(free, float)
        squared_core = core_of_squares(self.core)
        self._unfolded = []
        for mode, size in enumerate(self.core.shape):
            # A pair off the diagonal stands for two elements, and each gets half of it.
            halves = np.where(np.equal(*np.triu_indices(size)), 1.0, 0.5)
            halves = halves.reshape(-1, *[1] * (self.core.ndim - mode - 1))
            squares = unfolded(squared_core * halves, mode)
            self._unfolded.append((squares, unfolded(self.core, mode)))

    def sums(
        self, mode: int, rows: slice
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Expected sums over the entries of some rows of a mode; see `RowFit.sums`."""
        squares, core = self._unfolded[mode]
        gram = np.empty((rows.stop - rows.start, squares.shape[1]))
        projection = np.empty((rows.stop - rows.start, core.shape[1]))
        for chunk, moment_sums, mean_sums in self._outer_sums(mode, rows):
            at = slice(chunk.start - rows.start, chunk.stop - rows.start)
            gram[at] = moment_sums @ squares
            projection[at] = mean_sums @ core
        return gram, projection

    def _outer_sums(
        self, mode: int, rows: slice
    ) -> Iterator[tuple[slice, NDArray[np.float64], NDArray[np.float64]]]:
        """Sums over entries of outer products over the other modes, a chunk at a time.

        Yields
        ------
        chunk : slice
            Rows of the mode.
        moment_sums : ndarray of shape (n_rows, product of P of the other modes)
            Sums of outer products of second moments.
        mean_sums : ndarray of shape (n_rows, product of n_columns of the other modes)
            Sums of outer products of means, times the values of the entries.
        """
        others = [k for k in range(len(self.means)) if k != mode]
        moments = [self.moments[k] for k in others]
        means = [self.means[k] for k in others]
        add = _sparse_sums if isinstance(self.entries, SparseEntries) else _dense_sums
        step = max(1, _LARGEST_BLOCK // math.prod(m.shape[1] for m in moments))
        for start in range(rows.start, rows.stop, step):
            chunk = slice(start, min(start + step, rows.stop))
            moment_sums = add(self.entries, mode, chunk, moments, weighted=False)
            mean_sums = add(self.entries, mode, chunk, means, weighted=True)
            yield chunk, moment_sums, mean_sums

    def fitted_values(self, mode: int, rows: slice) -> NDArray[np.floating]:
        """Predictions of the entries of some rows; see `RowFit.fitted_values`."""
        core = self.core.astype(self.entries.dtype)
        if isinstance(self.entries, DenseEntries):
            return mode_products(core[np.newaxis], self.means)[0][self.entries.mask > 0]
        where = cast("SparseEntries", self.entries).coordinates(mode, rows)
        fitted = np.empty(len(where), self.entries.dtype)
        for chunk, values in contracted(core, self.means, where):
            fitted[chunk] = values
        return fitted

    def sweep(
        self, pool: ThreadPoolExecutor, n_threads: int
    ) -> tuple[float, list[NDArray[np.float64] | None]]:
        """Update all modes, one after the other, then the core; see `RowFit.sweep`."""
        error, cross = super().sweep(pool, n_threads)
        if self.learns_core and any(self.columns.ranks):
            error = self.update_core(pool, n_threads)
        return error, cross

    def update_core(self, pool: ThreadPoolExecutor, n_threads: int) -> float:
        """Update the core, given the rows; return the expected squared error."""
        gram, projection = self._core_sums(pool, n_threads)
        columns = self.columns
        where = np.nonzero(columns.core(np.ones(columns.ranks), float))
        inside = [
            (at >= s.start) & (at < s.stop)
            for at, s in zip(where, columns.free_core, strict=True)
        ]
        free = np.flatnonzero(np.logical_and.reduce(inside))
        core, right = self.core[where], projection[where]
        mean = self.core_mean.ravel()
        for block in np.array_split(
            np.arange(len(free)), math.ceil(len(free) / _CORE_BLOCK)
        ):
            at = free[block]
            rows = self._core_gram(gram, where, at)
            # All other elements move to the right-hand side.
            core[at] = 0.0
            shift = (right[at] - rows @ core) / self.noise
            matrix = rows[:, at] / self.noise + CORE_PRECISION * np.eye(len(at))
            shift += CORE_PRECISION * mean[block]
            core[at] = np.linalg.solve(matrix, shift)
        self._set_core(core[free].reshape(columns.ranks))
        fitted = np.sum(gram * core_of_squares(self.core))
        return self.entries.energy + fitted - 2 * np.sum(projection * self.core)

    def _core_sums(
        self, pool: ThreadPoolExecutor, n_threads: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums over all entries of outer products over all modes.

        Returns
        -------
        gram : ndarray of shape (P of every mode)
            Sum of outer products of second moments.
        projection : ndarray of shape ``columns.sizes``
            Sum of outer products of means, times the values of the entries.
        """
        pairs = [m.shape[1] for m in self.moments]
        # Leaving the largest mode to the last keeps the outer products small.
        mode = int(np.argmax(pairs))

        def rows_sums(rows: slice) -> tuple[Any, Any]:
            gram = 0.0
            projection = 0.0
            for chunk, moment_sums, mean_sums in self._outer_sums(mode, rows):
                gram = gram + self.moments[mode][chunk].T @ moment_sums
                projection = projection + self.means[mode][chunk].T @ mean_sums
            return gram, projection

        totals: list[Any] = [0.0, 0.0]
        for sums in self.map_rows(rows_sums, mode, pool, n_threads):
            totals = [total + term for total, term in zip(totals, sums, strict=True)]
        sizes = [pairs, [*self.columns.sizes]]
        for size in sizes:
            size.insert(0, size.pop(mode))
        gram, projection = (t.reshape(n) for t, n in zip(totals, sizes, strict=True))
        return np.moveaxis(gram, 0, mode), np.moveaxis(projection, 0, mode)

    def _core_gram(
        self,
        gram: NDArray[np.float64],
        where: tuple[NDArray[np.integer], ...],
        rows: NDArray[np.integer],
    ) -> NDArray[np.float64]:
        """Rows of the Gram matrix of the core's nonzero elements.

        Parameters
        ----------
        gram : ndarray of shape (P of every mode)
            See `_core_sums`.
        where : tuple by mode of ndarray of shape (n_nonzero,), int
            Positions of the nonzero elements in the core.
        rows : ndarray of shape (n,), int
            Numbers of the elements whose rows are returned.

        Returns
        -------
        rows : ndarray of shape (n, n_nonzero)
        """
        index = []
        for at, size in zip(where, self.columns.sizes, strict=True):
            pair = np.empty((size, size), dtype=np.intp)
            first, second = np.triu_indices(size)
            pair[first, second] = pair[second, first] = np.arange(len(first))
            index.append(pair[at[rows, np.newaxis], at])
        return gram[tuple(index)]

    def model(self, scale: float) -> StructuredTucker:
        """The fitted model, with its values multiplied by `scale`."""
        columns, shape, dtype = self.columns, self.entries.shape, self.entries.dtype
        prior, means, covariances = [], [], []
        for mode, size in enumerate(columns.sizes):
            # Biases are multiplied in their own mode, all other terms in the first.
            factor = np.ones(size)
            factor[columns.first - int(columns.biases) : columns.first] = scale
            if mode == 0:
                factor[columns.first :] = scale
            n_rows = shape[mode] + 1
            means.append(np.empty((n_rows, size), dtype))
            covariances.append(np.empty((n_rows, math.comb(size + 1, 2)), dtype))
            self.write_rows(mode, factor, means[mode], covariances[mode])
            prior.append(
                (
                    self.prior_mean[mode] * factor,
                    self.precision[mode] / factor**2,
                    self.tie[mode] / factor**2,
                )
            )
        prior_mean, precision, tie = map(list, zip(*prior, strict=True))
        return StructuredTucker(
            shape,
            columns,
            self.core.astype(dtype),
            self.core_mean,
            self.fixed,
            means,
            covariances,
            prior_mean,
            precision,
            tie,
            self.noise * scale**2,
        )


def _has_hosvd(entries: GroupedEntries) -> bool:
    """Whether a tensor has three modes or more, and is small and dense enough."""
    size = math.prod(entries.shape)
    enough = _LEAST_DENSITY * size <= entries.n_entries
    return len(entries.shape) > 2 and enough and size <= _LARGEST_START


def _mean_biases(
    tensor: NDArray[np.float64], observed: NDArray[np.bool_]
) -> list[NDArray[np.float64]]:
    """Biases of every mode, by repeated means; they are subtracted in place."""
    n_modes = tensor.ndim
    biases = [np.zeros(size) for size in tensor.shape]
    for _ in range(_BIAS_ROUNDS):
        for mode, bias in enumerate(biases):
            rest = tuple(k for k in range(n_modes) if k != mode)
            step = tensor.sum(axis=rest) / np.maximum(observed.sum(axis=rest), 1)
            bias += step
            tensor -= np.where(observed, np.expand_dims(step, rest), 0.0)
    return biases


def _hosvd(
    tensor: NDArray[np.float64], ranks: Sequence[int]
) -> tuple[list[NDArray[np.float64]], NDArray[np.floating]]:
    """Factors and core of a truncated higher-order singular value decomposition."""
    factors = []
    for mode, rank in enumerate(ranks):
        unfolded = np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)
        factors.append(_leading_vectors(unfolded, rank))
    core = mode_products(tensor[np.newaxis], [f.T for f in factors])[0]
    return factors, core


def _leading_vectors(matrix: NDArray[np.float64], rank: int) -> NDArray[np.float64]:
    """Leading left singular vectors, by iterating a subspace of more dimensions."""
    size = min(len(matrix), rank + _EXTRA_VECTORS)
    basis = np.random.default_rng(0).standard_normal((len(matrix), size))
    for _ in range(_SUBSPACE_ROUNDS):
        basis, _ = np.linalg.qr(matrix @ (matrix.T @ basis))
    within = basis.T @ matrix
    _, vectors = np.linalg.eigh(within @ within.T)
    return basis @ vectors[:, ::-1][:, :rank]


def _sparse_sums(
    entries: Any,
    mode: int,
    rows: slice,
    tables: Sequence[NDArray[np.floating]],
    *,
    weighted: bool,
) -> NDArray[np.float64]:
    """For every row of a mode, sum outer products over its entries.

    The outer product of an entry is over its rows in the tables of all other modes.

    Parameters
    ----------
    entries : SparseEntries
    mode : int
    rows : slice
    tables : list of ndarray of shape (size, n_columns)
        One for every other mode.
    weighted : bool
        Whether the values of the entries are weights.

    Returns
    -------
    sums : ndarray of shape (n_rows, product of all n_columns), float64
    """
    from .kernels._tucker import outer_sums

    starts, others, values = entries.groups[mode]
    sizes = np.array([t.shape[1] for t in tables])
    # The entries number the rows of all modes consecutively.
    offsets = np.delete(np.cumsum([0, *entries.shape[:-1]]), mode)
    begins = np.cumsum([0, *(t.size for t in tables[:-1])])
    sums = np.empty((rows.stop - rows.start, math.prod(sizes[:-1]), sizes[-1]))
    outer_sums(
        rows.start,
        rows.stop,
        starts,
        others,
        values if weighted else values[:0],
        np.concatenate([t.ravel() for t in tables]),
        begins - offsets * sizes,
        sizes,
        sums,
    )
    return sums.reshape(len(sums), -1)


def _dense_sums(
    entries: Any,
    mode: int,
    rows: slice,
    tables: Sequence[NDArray[np.floating]],
    *,
    weighted: bool,
) -> NDArray[np.float64]:
    """The sums of `_sparse_sums`, for `DenseEntries`."""
    tensor = entries.values if weighted else entries.mask
    tensor = np.moveaxis(tensor, mode, 0)[rows]
    sums = mode_products(tensor, [t.T for t in tables])
    return sums.reshape(len(sums), -1).astype(float)
