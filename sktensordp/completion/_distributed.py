"""Completion of entries that lie in the partitions of Dask collections.

Partitions are checked and randomised where they lie. What travels between workers are
coordinates, which are public, and randomised values: they are brought together by the
rows of one of the first two modes, whose factor is fitted there (see
``tensor/_distributed.py``). What is computed of a partition is a function of the
partition, its place among all entries and the key of the release: computed again, by
whichever worker, it is the same.
"""

import math
import uuid
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import dask
import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.utils import check_array, column_or_1d

from .._validation import check_coordinates, check_numeric, checked
from ..tensor import SparseEntries
from ..tensor._distributed import DistributedEntries, computed, in_memory, tree_sum
from ..tensor._pattern import features_of_pattern
from ..tensor._sums import shared_entries
from ._blocks import Block, posterior_of, unit_of
from ._noisy_sums import row_sums
from ._problem import Problem, signs
from ._uncertainty import MOST_COMPARED

__all__ = ["DistributedProblem", "Observed", "observed_of"]

# Column of a frame that has values beside coordinates.
_VALUE = "value that is observed"
# Parts that what is observed is brought into, at most.
_MOST_PARTS = 256


def observed_of(X, y, shape, name):
    """What is observed in Dask collections, once all of it has been checked.

    Parameters
    ----------
    X : dask.dataframe.DataFrame or dask.array.Array of shape (n, n_modes)
    y : dask.dataframe.Series or dask.array.Array of shape (n,)
        With the partitions of `X`.
    shape : tuple of int or None
        None for that which the coordinates have.
    name : str
        Who asks, for messages.

    Returns
    -------
    observed : Observed
    """
    partitions = _partitions(X, y)
    found = computed(*_of_each(partitions, _described, (shape, name)))
    lengths = [one[0] for one in found]
    if not sum(lengths):
        raise ValueError("There is nothing to fit: X holds no entry.")
    n_modes = len(found[0][1])
    counts = [_total([one[1][mode] for one in found]) for mode in range(n_modes)]
    if shape is not None:
        counts = [
            np.pad(c, (0, n - len(c))) for c, n in zip(counts, shape, strict=True)
        ]
    low, high = min(one[3] for one in found), max(one[4] for one in found)
    dtype = np.result_type(*(one[2] for one in found if one[0]))
    spans = [[_span(own) for own in one[1][:2]] for one in found]
    return Observed(partitions, lengths, spans, counts, dtype, (low, high), name)


def _partitions(X, y):
    """Partitions of coordinates and values: a frame of both, or delayed pairs."""
    if not dask.is_dask_collection(y):
        raise ValueError("y must be a collection of Dask, as X is.")
    if hasattr(X, "assign") and hasattr(y, "to_frame"):
        return X.assign(**{_VALUE: y})
    places, values = map(_chunks, (X, y))
    if len(places) != len(values):
        raise ValueError(
            f"X has {len(places)} partitions and y has {len(values)}; rechunk or "
            f"repartition one as the other."
        )
    return [list(pair) for pair in zip(places, values, strict=True)]


def _chunks(collection):
    """The partitions of a collection, each a delayed array or frame."""
    if not hasattr(collection, "rechunk"):
        return collection.to_delayed()
    whole = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
    return whole.to_delayed().ravel()


def _of_each(partitions, function, *arguments):
    """A function of every partition and its number: a list of delayed.

    Of a frame, what reads a partition and the function are one task, so that it does
    not leave the worker that reads it.
    """
    task = _Task(function, arguments)
    if isinstance(partitions, list):
        task = dask.delayed(task, pure=False, traverse=False)
        return [task(pair, {"number": k}) for k, pair in enumerate(partitions)]
    options = {"enforce_metadata": False, "align_dataframes": False}
    found = partitions.map_partitions(task, meta=(None, object), **options)
    return list(found.to_delayed())


class _Task:
    """A function of partitions; what it holds is not in its name."""

    def __init__(self, function, arguments):
        self._function, self._arguments = function, arguments
        self._name = f"{function.__name__}-{uuid.uuid4().hex}"

    def __call__(self, partition, partition_info):
        number = partition_info["number"]
        return self._function(partition, number, *self._arguments)

    def __repr__(self):
        return self._name

    def __dask_tokenize__(self):
        return self._name


def _apart(partition):
    """Coordinates and values of a partition."""
    if isinstance(partition, list):
        return partition
    return partition.drop(columns=_VALUE), partition[_VALUE]


def _total(counts):
    """Sum of counts of different lengths."""
    total = np.zeros(max(map(len, counts)), dtype=np.int64)
    for own in counts:
        total[: len(own)] += own
    return total


def _span(counts):
    """The first row with an entry, and the one after the last; None without entries."""
    seen = np.flatnonzero(counts)
    return (int(seen[0]), len(counts)) if len(seen) else None


def _described(partition, _, checks):
    """Length, counts by mode, type and range of a partition that is as it should be."""
    where, values = _coordinates(partition, checks), _values(partition)
    if len(where) != len(values):
        raise ValueError(
            f"A partition of X has {len(where)} entries, and that of y {len(values)}."
        )
    counts = [np.bincount(column) for column in where.T]
    low, high = (values.min(), values.max()) if len(values) else (math.inf, -math.inf)
    return len(values), counts, values.dtype, float(low), float(high)


def _coordinates(partition, checks):
    X, (shape, name) = _apart(partition)[0], checks
    check_numeric(X, "X")
    X = checked(check_array, X, dtype="numeric", ensure_min_samples=0, input_name="X")
    if X.shape[1] < 2:
        raise ValueError(f"X has {X.shape[1]} feature(s); a tensor has two or more.")
    return check_coordinates(X, shape=shape, name=name)


def _values(partition):
    y = _apart(partition)[1]
    check_numeric(y, "y")
    y = checked(column_or_1d, y)
    y = np.asarray(y, dtype=np.float32 if y.dtype == np.float32 else np.float64)
    if not np.all(np.isfinite(y)):
        raise ValueError("Some values in y are NaN, infinite or missing.")
    return y


@dataclass(frozen=True, eq=False)
class Observed:
    """Entries in partitions, and what is known of all of them.

    Attributes
    ----------
    partitions : dask.dataframe.DataFrame or list of pairs of Delayed
        Of coordinates and values.
    lengths : list of int
    spans : list of pairs of (int, int) or None
        For the first two modes, the first row of a partition and the one after the
        last; None where it has no entries.
    counts : list by mode of ndarray of shape (size of the mode,), int
        Entries of every row.
    dtype : dtype
        Of the values.
    limits : tuple of float
        Least and largest value; private.
    name : str
        Who asked, for messages.
    """

    partitions: Any
    lengths: list[int]
    spans: list[Any]
    counts: list[np.ndarray]
    dtype: Any
    limits: tuple[float, float]
    name: str

    @property
    def shape(self):
        """Sizes of the modes."""
        return tuple(map(len, self.counts))

    @property
    def n_entries(self):
        """Of all partitions."""
        return sum(self.lengths)

    @cached_property
    def mode(self):
        """The mode whose rows are brought together: the larger of the first two."""
        return int(np.argmax(self.shape[:2]))

    @cached_property
    def cuts(self):
        """Part k has the rows cuts[k] to cuts[k + 1].

        Where all entries of a row are in one partition, in the order of the rows, a
        part is a partition, whose entries stay where they are; otherwise, parts have
        about as many entries.
        """
        own, size = self.counts[self.mode], self.shape[self.mode]
        spans = [one for one in self._own_spans if one]
        if all(one[1] <= other[0] for one, other in pairwise(spans)):
            starts = [first for first, _ in spans[1:]]
            return np.array([0, *starts[:: len(starts) // _MOST_PARTS + 1], size])
        n = min(len(self.lengths), _MOST_PARTS, size)
        ends = np.linspace(0, self.n_entries, n + 1)[1:-1]
        return np.unique([0, *np.searchsorted(np.cumsum(own), ends), size])

    @property
    def _own_spans(self):
        return [one[self.mode] for one in self.spans]

    @cached_property
    def coordinates(self):
        """Coordinates by part, in memory; rows of the mode are numbered by part."""
        found = self._of_each(_split_coordinates, self.cuts, self.mode)
        return self._brought_together(found)

    def _of_each(self, function, *arguments):
        checks = self.shape, self.name
        return _of_each(self.partitions, function, checks, *arguments)

    def randomized(self, values, source, every):
        """Randomised values by part, in memory, in the order of the coordinates.

        Parameters
        ----------
        values : EntryRandomizer
        source : object
            Of streams that is passed to the workers; None for no noise.
        every : int
            Every so manieth of all values is compared with the model.

        Returns
        -------
        parts : list of Delayed of (ndarray of float, ndarray of int8)
            Values, and signs, which are doubled where a value is compared.
        """
        first = np.cumsum([0, *self.lengths]).tolist()
        noise = values, source, every, first
        found = self._of_each(_split_values, self.cuts, self.mode, noise)
        return self._brought_together(found)

    def __len__(self):
        return self.n_entries

    def row_sums(self, weigh):
        """Sums over the entries of every row of every mode, one after the other.

        Parameters
        ----------
        weigh : callable or None
            Of values; exact numbers are summed exactly. None counts entries.

        Returns
        -------
        sums : ndarray of shape (sum of shape,)
        """
        if weigh is None:
            return np.concatenate(self.counts)
        totals = [np.zeros(size) for size in self.shape]
        for found in self.of_partitions(_row_sums, weigh):
            for total, (rows, sums) in zip(totals, found, strict=True):
                total[rows] += sums
        return np.concatenate(totals)

    def of_partitions(self, function, *arguments):
        """A function of coordinates and values, partition by partition."""
        return computed(*self._of_each(function, *arguments))

    @cached_property
    def _gram(self):
        """How often two rows share an entry, part by part, in memory."""
        make = dask.delayed(_shared, pure=False)
        pairs = zip(self.coordinates, self.part_shapes, strict=True)
        return in_memory(*(make(*pair) for pair in pairs))

    @property
    def part_shapes(self):
        """Sizes of the modes in every part."""
        for size in np.diff(self.cuts).tolist():
            yield *self.shape[: self.mode], size, *self.shape[self.mode + 1 :]

    def diagonal(self):
        """Of what `shared_entries` is of all coordinates."""
        return np.concatenate(self.counts).astype(float)

    def __matmul__(self, x):
        """Product of that with a vector or matrix."""
        multiply = dask.delayed(_shared_product, nout=2, pure=False)
        x = np.split(x, np.cumsum(self.shape)[:-1])
        own = np.split(x[self.mode], self.cuts[1:-1])
        x[self.mode] = None
        others = dask.delayed(x, traverse=False)
        pairs = zip(self._gram, own, strict=True)
        found = [multiply(gram, part, others) for gram, part in pairs]
        rows, total = computed(
            [one[0] for one in found], tree_sum(one[1] for one in found)
        )
        product = list(total)
        product.insert(self.mode, np.concatenate(rows))
        return np.concatenate(product)

    def _brought_together(self, found):
        """Parts of what was made of every partition, in memory."""
        join, parts = dask.delayed(_joined, pure=False), []
        for k, (first, last) in enumerate(pairwise(self.cuts.tolist())):
            pieces = [
                pieces[k]
                for pieces, span in zip(found, self._own_spans, strict=True)
                if span and span[0] < last and first < span[1]
            ]
            parts.append(join(*(pieces or [found[0][k]])))
        return in_memory(*parts)


def _row_sums(partition, _, checks, weigh):
    """Rows of every mode that a partition has, and the sums of its entries there."""
    where = _coordinates(partition, checks)
    weights = weigh(_values(partition))
    found = []
    for column in where.T:
        rows, index = np.unique(column, return_inverse=True)
        found.append((rows, np.bincount(index, weights=weights)))
    return found


def _shared(coordinates, shape):
    (where,) = coordinates
    return shared_entries(where, shape), np.cumsum(shape)[:-1]


def _shared_product(shared, own, others):
    """Rows of the mode that is cut into parts, and those of the others."""
    gram, ends = shared
    x = [own if other is None else other for other in others]
    product = np.split(gram @ np.concatenate(x), ends)
    mode = next(m for m, other in enumerate(others) if other is None)
    return product.pop(mode), tuple(product)


@dataclass(frozen=True)
class _OneRow:
    """All entries in a single row."""

    observed: Any

    def __len__(self):
        return len(self.observed)

    def row_sums(self, weigh):
        """Sum over all entries."""
        if weigh is None:
            return np.array([len(self)])
        return np.array([sum(self.observed.of_partitions(_total_of, weigh))])


def _total_of(partition, _, checks, weigh):
    return weigh(_values(partition)).sum()


class _DistributedBlock:
    """Sums of residuals in the rows of the first mode; see `Block`."""

    def __init__(self, observed, form, factors):
        self._observed, self._form = observed, form
        self._shape, self._others = factors[0].shape, factors[1:]

    def release(self, left, noise, source):
        """Noisy sums of residuals, each in the unit of its row."""
        n_rows, n_columns = self._shape
        largest = np.zeros(n_rows)
        self._squares = np.zeros((n_rows, n_columns, n_columns))
        own = self._form, n_columns, self._others
        for rows, norms, squares in self._observed.of_partitions(_weights, *own):
            largest[rows] = np.maximum(largest[rows], norms)
            self._squares[rows] += squares
        self._unit, sums = unit_of(largest), np.zeros(self._shape)
        step = None if noise.lattice is None else noise.lattice.step
        options = *own, left, self._unit, step
        for rows, found in self._observed.of_partitions(_contributions, *options):
            sums[rows] += found
        return noise.randomize([sums], source)[0]

    def posterior(self, sums, noise, residual_variance):
        """Posterior means of the rows, given noisy sums."""
        squares = self._squares
        return posterior_of(
            sums, self._unit, squares, squares, noise, residual_variance
        )


def _block(where, form, n_columns, others):
    """The block of the rows of the first mode that a partition has."""
    rows, index = np.unique(where[:, 0], return_inverse=True)
    factors = [np.empty((len(rows), n_columns)), *others]
    return rows, Block(form, 0, factors, [index, *where.T[1:]])


def _weights(partition, _, checks, *own):
    rows, block = _block(_coordinates(partition, checks), *own)
    return rows, block.largest(), block.products(block.weights, block.weights)


def _contributions(partition, _, checks, *arguments):
    *own, left, unit, step = arguments
    where = _coordinates(partition, checks)
    rows, block = _block(where, *own)
    block.unit = unit[rows]
    contributions = block.contributions(left(where, _values(partition)))
    return rows, row_sums(block.rows, block.shape, contributions, step)


def _split_coordinates(partition, _, checks, cuts, mode):
    """Coordinates of a partition, by the part that they belong to."""
    where = _coordinates(partition, checks)
    order, ends = _order(where[:, mode], cuts)
    where[:, mode] -= cuts[:-1].astype(np.int32)[_part_of(where[:, mode], cuts)]
    return tuple((own,) for own in np.split(where[order], ends))


def _split_values(partition, number, checks, cuts, mode, noise):
    """Randomised values of a partition, and their signs, by part."""
    values, source, every, first = noise
    own = slice(*first[number : number + 2])
    where, raw = _coordinates(partition, checks), _values(partition)
    # Of other values than were here before, the same noise would tell differences.
    if not len(where) == len(raw) == own.stop - own.start:
        raise RuntimeError("A partition has other entries than when it was checked.")
    if source is None:
        noisy = values.clip(raw)
    else:
        noisy = values.randomize(raw, source, own.start, first[-1])
    tags = signs(own.start, own.stop)
    tags[-own.start % every :: every] *= 2
    order, ends = _order(where[:, mode], cuts)
    pieces = (np.split(own[order], ends) for own in (noisy, tags))
    return tuple(zip(*pieces, strict=True))


def _part_of(rows, cuts):
    return np.searchsorted(cuts, rows, side="right") - 1


def _order(rows, cuts):
    """Order of entries by their part, and where parts end."""
    parts = _part_of(rows, cuts)
    ends = np.cumsum(np.bincount(parts, minlength=len(cuts) - 1))[:-1]
    return np.argsort(parts, kind="stable"), ends


def _joined(*pieces):
    return tuple(map(np.concatenate, zip(*pieces, strict=True)))


@dataclass(frozen=True, eq=False)
class DistributedProblem(Problem):
    """A tensor to complete whose entries are in partitions: `where` is an Observed."""

    is_distributed = True

    def __post_init__(self):
        if self.where.mode in self.smooth_modes:
            raise ValueError(
                f"Mode {self.where.mode}, the larger of the first two, is cut into "
                f"parts of data of Dask, and cannot be smooth."
            )

    @property
    def n_entries(self):
        """Number of observed entries."""
        return self.where.n_entries

    @property
    def coordinates(self):
        """What answers for them; they stay where they are."""
        return self.where

    @property
    def one_row(self):
        """The entries, in a tensor of one row."""
        return _OneRow(self.where)

    @property
    def counts(self):
        """Numbers of entries of the rows, mode by mode; public."""
        return self.where.counts

    def block(self, form, factors):
        """Sums of residuals in the rows of the first block; see `Block`."""
        return _DistributedBlock(self.where, form, factors)

    def _pattern(self):
        pattern = _Pattern(self.where)
        return features_of_pattern(self.counts, self.n_components, pattern.decompose)

    def randomized(self, values, source):
        """Randomised values, by part."""
        every = math.ceil(self.n_entries / MOST_COMPARED)
        source = None if math.isinf(self.epsilon) else source.sent()
        return values.randomized(self.values, source, every)

    def mean(self, released):
        """Mean of randomised values."""
        total = dask.delayed(_sum_of, pure=False)
        return computed(tree_sum(map(total, released)))[0][0] / self.n_entries

    def compared(self, released, n):
        """Randomised values to compare; see `Problem.compared`."""
        pick = dask.delayed(_compared, pure=False)
        pairs = zip(self.where.coordinates, released, strict=True)
        found = computed(*(pick(*pair) for pair in pairs))
        for (coordinates, *_), first in zip(found, self.where.cuts, strict=False):
            coordinates[:, self.where.mode] += first
        return tuple(map(np.concatenate, zip(*found, strict=True)))

    def entries(self, released, offset=0.0, scale=1.0, move=0.0):
        """Entries in parts; see `Problem.entries`."""
        where, prepare = self.where, dask.delayed(_entries, pure=False)
        triples = zip(where.coordinates, released, where.part_shapes, strict=True)
        parts = [prepare(*triple, offset, scale, move) for triple in triples]
        return DistributedEntries(
            parts, where.cuts, where.mode, self.shape, where.counts, where.dtype
        )


def _sum_of(released):
    return (released[0].sum(dtype=float),)


def _compared(coordinates, released):
    (where,), (values, tags) = coordinates, released
    chosen = np.abs(tags) == 2
    return where[chosen], values[chosen], tags[chosen] // 2


def _entries(coordinates, released, shape, offset, scale, move):
    (where,), (values, tags) = coordinates, released
    moved = values + values.dtype.type(move) * np.sign(tags) if move else values.copy()
    moved -= offset
    moved /= scale
    return SparseEntries(np.asfortranarray(where), moved, shape)


class _Pattern:
    """Incidence of the rows of the first two modes, in parts; see `pattern_features`.

    One of the modes is cut into parts. The singular vectors of the other are
    eigenvectors of a sum over the parts.
    """

    def __init__(self, where):
        self._where = where
        self._seen = [np.flatnonzero(own) for own in where.counts[:2]]
        self._weights = [
            1 / np.sqrt(own[seen] + own[seen].mean())
            for own, seen in zip(where.counts, self._seen, strict=False)
        ]

    def decompose(self, n_values, at_random=False):
        """Largest singular values, and right vectors."""
        own, other = self._where.mode, 1 - self._where.mode
        scaled = self._scaled(at_random)
        size = len(self._seen[other])
        multiply = dask.delayed(_gram_product, pure=False)

        def product(x):
            x = dask.delayed(x, traverse=False)
            return computed(tree_sum(multiply(part, x) for part in scaled))[0][0]

        start = np.random.default_rng(0).standard_normal(size)
        operator = LinearOperator((size, size), matvec=product, dtype=float)
        values, vectors = eigsh(operator, k=n_values, v0=start)
        order = np.argsort(-values)
        values, vectors = np.sqrt(np.maximum(values[order], 0)), vectors[:, order]
        if own == 1 and not at_random:
            project = dask.delayed(_projection, pure=False)
            parts = computed(*(project(part, vectors) for part in scaled))
            vectors = np.concatenate(parts) / values
        return values, vectors

    def _scaled(self, at_random):
        """Scaled incidence of every part, its own rows first, in memory."""
        where, make = self._where, dask.delayed(_incidence, pure=False)
        own, other = where.mode, 1 - where.mode
        chances = None
        if at_random:
            chances = where.counts[other][self._seen[other]] / where.n_entries
        cuts = np.searchsorted(self._seen[own], where.cuts)
        parts = []
        for k, coordinates in enumerate(where.coordinates):
            part = slice(cuts[k], cuts[k + 1])
            rows = self._seen[own][part] - where.cuts[k]
            weights = self._weights[own][part], self._weights[other]
            parts.append(
                make(coordinates, own, rows, self._seen[other], weights, chances, k)
            )
        return in_memory(*parts)


def _incidence(coordinates, mode, rows, columns, weights, chances, k):
    """Scaled incidence of a part, or of one that is random."""
    (where,) = coordinates
    row = np.searchsorted(rows, where[:, mode])
    if chances is None:
        column = np.searchsorted(columns, where[:, 1 - mode])
    else:
        random = np.random.default_rng((0, k))
        column = random.choice(len(columns), size=len(where), p=chances)
    ones, shape = np.ones(len(where), dtype=np.float32), (len(rows), len(columns))
    incidence = sparse.coo_array((ones, (row, column)), shape=shape).tocsr()
    return incidence, *weights


def _projection(scaled, vectors):
    """Product of a part's incidence with vectors of the other mode."""
    incidence, own, other = scaled
    return own[:, np.newaxis] * (incidence @ (other[:, np.newaxis] * vectors))


def _gram_product(scaled, x):
    """Product of a part's Gram matrix with a vector of the other mode."""
    incidence, own, other = scaled
    return (other * (incidence.T @ (own**2 * (incidence @ (other * x)))),)
