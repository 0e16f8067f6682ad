"""The noise on tables of counts: which tables are released, and how much on each.

**Guarantee.** Two data sets are neighbours if one has one record more, of any content.
All residual tables of a fit together are mu-GDP for them, for the mu of `Plan.noise`.

**Residual tables.** For a set A of modes, x_A is the table of counts over these modes.
What is released is T_A = (product of C_i over i in A) x_A. For the smallest modes,
whose sizes have a product m_A of at most 4096, C_i = n_i I - J, where J is full of
ones; for the others, C_i = I. Whole numbers stay whole numbers, so that nothing is
rounded.

**Proof.** A record adds a product of columns of the C_i to T_A. A column of n_i I - J
has the square n_i (n_i - 1), and one of I has 1, so every record moves T_A by a vector
of whole numbers with the square S_A = product of n_i (n_i - 1) over the centred modes.
With Gaussian noise of standard deviation s_A on T_A, it is sqrt(S_A) / s_A-GDP, and all
of them together are mu-GDP with mu^2 = sum of S_A / s_A^2 (Dong, Roth and Su 2022,
Corollary 3.3). The step of each lattice is a power of two of at most 1: whole numbers
lie on it, and rounding of the noise to it is post-processing. Samplers of all tables
are accounted for together, at the residual of the worst.

**People.** With `max_records` = k, a person adds at most k records: by the triangle
inequality, all tables together move by at most k mu. Which records of a person are kept
is decided by independent random words (``_rows.py``). Given the words of all others,
the tables of the others are the same in both data sets, and the release with the person
is a mixture of releases that are k mu-GDP from the one without. A hockey-stick
divergence from a fixed distribution is convex, so the mixture is as close.

**Replace-one.** Two records that differ in the modes D move T_A by a vector with the
square 2 S_A - 2 prod <C_i e_x, C_i e_y>, where the inner product is n_i (n_i - 1) or 1
for a mode outside of D and -n_i or 0 for one inside. The largest sum over A of these
squares, each over s_A^2, is found by going through all D. A record may be replaced by
one that is not counted, which is at a distance of mu. Of a person's records, pair as
many as there are on both sides; so the distance is at most k times that of one.

**Least noise.** A cell of table B has the variance sum of sigma_A^2 prod (1 - 1/n_i)
over i in A / prod n_j^2 over j in B without A, over all A in B, where sigma_A = s_A /
m_A. For weights w_B of these variances, sigma_A^2 has the coefficient v_A, and
Lagrange's condition gives sigma_A^2 in proportion to sqrt((S_A / m_A^2) / v_A).
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..measure import NoisySums, TableNoise
from ..mechanisms._gaussian_noise import gaussian_event, mu_within
from ..noise import GaussianLattice, gaussian_lattice
from ..privacy import gaussian_mu

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

Modes = tuple[int, ...]

# Largest product of the sizes of centred modes, which is a factor on all counts.
_LARGEST_FACTOR = 2**12
# The step is 2^-10 of the noise or less: rounding adds a part of 1e-7 to its variance.
_FINENESS = 10
# Covers tolerances of the door and rounding errors of sums: together less than 2e-10.
_ROUNDED_UP = 1 + 5e-10
# The most modes whose sets are all gone through for the replacement of a record.
_MOST_MODES = 16


def subsets(modes: Modes) -> list[Modes]:
    """All subsets of modes, smaller ones first."""
    sizes = range(len(modes) + 1)
    return [A for size in sizes for A in itertools.combinations(modes, size)]


def size_of(shape: Modes, modes: Iterable[int]) -> int:
    """Number of cells of a table."""
    return math.prod(shape[i] for i in modes)


@dataclass(frozen=True)
class Residual:
    """What a table of counts adds to those of fewer modes, in whole numbers.

    Attributes
    ----------
    modes : tuple of int
    sizes : tuple of int
        Their sizes, each at least 2.
    """

    modes: Modes
    sizes: Modes

    @cached_property
    def is_centred(self) -> tuple[bool, ...]:
        """For each mode, whether counts are centred along it."""
        left, found = _LARGEST_FACTOR, [False] * len(self.sizes)
        for k in sorted(range(len(self.sizes)), key=self.sizes.__getitem__):
            if self.sizes[k] > left:
                break
            found[k], left = True, left // self.sizes[k]
        return tuple(found)

    @property
    def _centred(self) -> list[int]:
        return [n for n, yes in zip(self.sizes, self.is_centred, strict=True) if yes]

    @property
    def factor(self) -> int:
        """m_A: by how much counts are multiplied."""
        return math.prod(self._centred)

    @property
    def square(self) -> int:
        """S_A: the squared length of what a record adds."""
        return math.prod(n * (n - 1) for n in self._centred)

    @property
    def part(self) -> float:
        """Part of the noise that is left after means along the modes are taken off."""
        return math.prod(1 - 1 / n for n in self.sizes)

    def squared_distance(self, differ: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Squared distance of what two records add, by modes in which they differ.

        Parameters
        ----------
        differ : ndarray of shape (n_sets, n_modes), bool
            Of these modes.
        """
        product = np.ones(len(differ))
        for k, (n, centred) in enumerate(zip(self.sizes, self.is_centred, strict=True)):
            same, other = (n * (n - 1), -n) if centred else (1, 0)
            product *= np.where(differ[:, k], other, same)
        return 2.0 * (self.square - product)

    def of_counts(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """T_A, in exact whole numbers."""
        for k, (n, centred) in enumerate(zip(self.sizes, self.is_centred, strict=True)):
            if centred:
                counts = n * counts - counts.sum(axis=k, keepdims=True)
        return counts

    def read(self, released: NDArray[np.float64]) -> NDArray[np.float64]:
        """Counts less those that tables of fewer modes give."""
        table = released / self.factor
        for k in range(len(self.sizes)):
            table -= table.mean(axis=k, keepdims=True)
        return table


@dataclass(frozen=True)
class Workload:
    """Which tables are wanted, and which residual tables these need.

    Attributes
    ----------
    shape : tuple of int
    tables : tuple of tuple of int
        Modes of the tables, each in ascending order.
    weights : tuple of float
        Weights of the variances of their cells.
    """

    shape: Modes
    tables: tuple[Modes, ...]
    weights: tuple[float, ...]

    @cached_property
    def residuals(self) -> tuple[Residual, ...]:
        """All residual tables, those of few modes first."""
        found = {A for B in self.tables for A in subsets(B)}
        wanted = [A for A in found if all(self.shape[i] > 1 for i in A)]
        wanted.sort(key=lambda A: (len(A), A))
        return tuple(Residual(A, tuple(self.shape[i] for i in A)) for A in wanted)

    @cached_property
    def follow(self) -> frozenset[Modes]:
        """All tables that follow from what is released."""
        return frozenset(A for B in self.tables for A in subsets(B))

    def within(self, modes: Modes) -> list[tuple[int, Residual, float]]:
        """The residual tables of a table: number, table, and square of the share.

        A cell of the table has that part of the variance of the noise of the residual.
        """
        inside = []
        for number, one in enumerate(self.residuals):
            if set(one.modes) <= set(modes):
                rest = size_of(self.shape, set(modes) - set(one.modes))
                inside.append((number, one, one.part / rest**2))
        return inside

    def scales(self) -> NDArray[np.float64]:
        """The noise s_A of least weighted variance, for any mu, up to a factor."""
        cost = np.zeros(len(self.residuals))
        for table, weight in zip(self.tables, self.weights, strict=True):
            for number, _, share in self.within(table):
                cost[number] += weight * share
        factors = np.array([one.factor for one in self.residuals], float)
        squares = np.array([one.square for one in self.residuals], float)
        return factors * (squares / factors**2 / cost) ** 0.25

    def squared_mu(self, sigmas: Sequence[float]) -> float:
        """Sum of S_A / s_A^2: the squared mu of one record."""
        pairs = zip(self.residuals, sigmas, strict=True)
        return math.fsum(one.square / sigma**2 for one, sigma in pairs)

    def replacing(self, sigmas: Sequence[float]) -> float:
        """Distance of two records in units of that of one and none."""
        modes = sorted({i for one in self.residuals for i in one.modes})
        if len(modes) > _MOST_MODES:
            return 2.0
        sets = np.arange(2 ** len(modes))
        differ = {i: (sets >> k) & 1 > 0 for k, i in enumerate(modes)}
        squares = np.zeros(len(sets))
        for one, sigma in zip(self.residuals, sigmas, strict=True):
            if one.modes:
                own = np.column_stack([differ[i] for i in one.modes])
                squares += one.squared_distance(own) / sigma**2
        most = math.sqrt(float(squares.max()) / self.squared_mu(sigmas))
        return max(1.0, most * (1 + 1e-12))


@dataclass(frozen=True)
class Plan:
    """The noise of a fit: everything but the counts.

    Attributes
    ----------
    workload : Workload
    noise : NoisySums or TableNoise
        Of all residual tables; without a lattice for no noise.
    n_records : int
        Number of records of a person.
    """

    workload: Workload
    noise: NoisySums
    n_records: int

    @property
    def sigmas(self) -> list[float]:
        """The noise s_A on each residual table."""
        noise = self.noise
        if not isinstance(noise, TableNoise):
            return [0.0] * len(self.workload.residuals)
        return [float(one.sigma) for one in noise.of_tables]

    def variance(self, modes: Modes) -> float:
        """Variance of the noise in every cell of a table."""
        sigmas = self.sigmas
        return math.fsum(
            share * (sigmas[number] / one.factor) ** 2
            for number, one, share in self.workload.within(modes)
        )

    def variance_of_sum(self, n_chosen: Mapping[int, int]) -> float:
        """Variance of the noise in a sum over a rectangle of cells.

        Parameters
        ----------
        n_chosen : dict of int to int
            How many indices of each mode are in it.
        """
        shape, sigmas = self.workload.shape, self.sigmas
        parts = {i: n / shape[i] for i, n in n_chosen.items()}
        return math.fsum(
            (sigmas[number] / one.factor) ** 2
            * math.prod(n_chosen[i] * (1 - parts[i]) for i in one.modes)
            * math.prod(parts[i] ** 2 for i in parts if i not in one.modes)
            for number, one, _ in self.workload.within(tuple(n_chosen))
        )

    def replace_one_event(self) -> "DpEvent":
        """Event of the same release, if a record or a person is replaced."""
        noise, sigmas = self.noise, self.sigmas
        assert isinstance(noise, TableNoise)
        mu = self.workload.replacing(sigmas) / math.sqrt(noise.noise_variance)
        return gaussian_event(mu, _worst(noise.of_tables))


def plan_tables(
    workload: Workload, epsilon: float, delta: float, n_records: int
) -> Plan:
    """Gaussian noise of least weighted variance that keeps (epsilon, delta).

    Parameters
    ----------
    workload : Workload
    epsilon, delta : float
        An infinite epsilon for no noise.
    n_records : int
        Number of records of a person.

    Raises
    ------
    ValueError
        If delta is too small for epsilon and the number of cells.
    """
    if math.isinf(epsilon):
        return Plan(workload, NoisySums(), n_records)
    n_cells = sum(math.prod(one.sizes) for one in workload.residuals)
    scales = workload.scales()
    scales *= math.sqrt(workload.squared_mu(scales.tolist()))  # mu = 1 for one record
    mu = gaussian_mu(epsilon, delta)
    while True:
        factor = n_records * _ROUNDED_UP / mu
        lattices = tuple(
            gaussian_lattice(
                sigma,
                n_cells,
                epsilon,
                delta,
                # So that the step is at most 1.
                fineness=max(_FINENESS, math.frexp(sigma)[1] - 1),
            )
            for sigma in (factor * scales).tolist()
        )
        worst = _worst(lattices)
        most = mu_within(epsilon, delta, worst)
        if mu <= most:
            break
        mu = most * (1 - 1e-9)
    squared = workload.squared_mu([float(one.sigma) for one in lattices])
    mu = n_records * math.sqrt(squared) * _ROUNDED_UP
    event = gaussian_event(mu, worst)
    noise = TableNoise(worst, 1 / mu**2, event, n_cells, of_tables=lattices)
    return Plan(workload, noise, n_records)


def _worst(lattices: Sequence[GaussianLattice]) -> GaussianLattice:
    """The lattice whose sampler is the least exact, which bounds that of all."""
    return max(lattices, key=lambda one: one.residual_epsilon)
