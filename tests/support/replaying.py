"""Fits whose releases are recorded, or replaced by those of another fit.

The one place that hooks into how completions release what they randomise. Two data sets
whose fits have the same releases must leave the same things behind, but for what
protected units compute from their own entries.
"""

import math
import pickle
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
from numpy.testing import assert_array_equal
from sklearn.base import clone

from sktensordp.measure import NoisySums
from sktensordp.noise import LaplaceLattice
from tests.support.points import POINTS, original
from tests.support.seams import EntryRandomizer, level_table


@dataclass
class Trajectory:
    """The releases of a fit, one after the other.

    Attributes
    ----------
    lattices : list
        What drew the noise of each: a lattice, or a table of levels.
    exact : list of (list of ndarray of int)
        What got noise, in whole steps, or the numbers of levels.
    outputs : list of (list of ndarray)
        What the fit went on with.
    """

    lattices: list[Any] = field(default_factory=list)
    exact: list[list[np.ndarray]] = field(default_factory=list)
    outputs: list[list[np.ndarray]] = field(default_factory=list)
    _inside: bool = False

    @property
    def flat(self):
        """All that got noise."""
        return np.concatenate([np.ravel(s) for release in self.exact for s in release])

    @property
    def transcript(self):
        """All that was released."""
        parts = [np.ravel(s) for release in self.outputs for s in release]
        return np.concatenate(parts).astype(float)

    @property
    def step(self):
        return self.lattices[-1].step

    @property
    def sigma(self):
        return self.lattices[-1].sigma

    def moved(self, other):
        """For every release, how far the other fit's is from this one's, in steps."""
        return [
            [np.abs(a - b) for a, b in zip(mine, theirs, strict=True)]
            for mine, theirs in zip(self.exact, other.exact, strict=True)
        ]

    def spent(self, other):
        """Pure epsilon of the Laplace noise and tables, and mu of the Gaussian noise.

        That tell this fit from another along the same trajectory.
        """
        pure, squares = 0.0, 0.0
        for lattice, mine, theirs in zip(
            self.lattices, self.exact, other.exact, strict=True
        ):
            one, two = (np.concatenate([p.ravel() for p in s]) for s in (mine, theirs))
            if hasattr(lattice, "weights"):
                log = np.log(np.array(lattice.weights, dtype=float))
                pure += float(np.abs(log[one] - log[two]).max(axis=1).sum())
            elif hasattr(lattice, "sigma"):
                length = np.linalg.norm((one - two).astype(float)) * lattice.step
                squares += (length / lattice.sigma) ** 2
            else:
                pure += float(np.abs(one - two).sum()) * lattice.rate
        return pure, math.sqrt(squares)


def leaves(event):
    """(event, how often) of a composition."""
    if hasattr(event, "events"):
        for part in event.events:
            yield from leaves(part)
    elif type(event).__name__ == "SelfComposedDpEvent":
        for leaf, count in leaves(event.event):
            yield leaf, count * event.count
    else:
        yield event, 1


def accounted(guarantee):
    """As `Trajectory.spent`, of what a guarantee is computed from."""
    pure, squares = 0.0, 0.0
    for event, count in leaves(guarantee.event):
        if hasattr(event, "noise_multiplier"):
            squares += count / event.noise_multiplier**2
        elif hasattr(event, "noise_parameter"):
            pure += count * event.sensitivity * event.noise_parameter
        elif hasattr(event, "weights"):
            pure += count * epsilon_of(event)
    return pure, math.sqrt(squares)


def epsilon_of(table):
    """Largest log ratio of two weights of an output."""
    return float(np.ptp(np.log(np.array(table.weights, dtype=float)), axis=0).max())


@contextmanager
def recorded(follow=None, factor=1.0, wrong=1, wrong_first=1):
    """All releases while this lasts; with `follow`, the fit goes on with its outputs.

    Parameters
    ----------
    follow : Trajectory, default=None
    factor : float
        How many times larger than it is the noise is made; 0 for none.
    wrong : int
        Makes noisy sums larger before their noise, as a mistaken clipping would.
    wrong_first : int
        The same of all else: means, sums of entries, and values. A table is replaced
        by one for so many times its epsilon, as a mistaken budget would.
    """
    found = Trajectory()

    def release(lattice, exact, inputs, draw):
        found.lattices.append(lattice)
        found.exact.append(exact)
        if follow is not None:
            output = follow.outputs[len(found.exact) - 1]
        else:
            found._inside = True
            try:
                output = draw()
            finally:
                found._inside = False
            if factor != 1:
                pairs = zip(inputs, output, strict=True)
                output = [a + factor * (b.astype(float) - a) for a, b in pairs]
        found.outputs.append([part.copy() for part in output])
        return [part.astype(a.dtype) for part, a in zip(output, inputs, strict=True)]

    def of_noisy_sums(noise, sums, source):
        if noise.lattice is None:
            return sums
        step = noise.lattice.step
        # Sums of values are counted in steps.
        times = wrong_first if step == 1 else wrong
        sums = [times * s for s in sums]
        exact = [np.rint(s / step).astype(np.int64) for s in sums]
        for whole, s in zip(exact, sums, strict=True):
            assert_array_equal(whole * step, s)
        return release(
            noise.lattice, exact, sums, lambda: noisy_sums(noise, sums, source)
        )

    def of_values(randomizer, values, source, *args, **options):
        lattice, clipped = randomizer.mechanism, randomizer.domain.clip(values)
        if randomizer.has_table:
            # On a grid, the nearest point stands for the next two: the rounding is
            # inside of `draw`.
            levels = np.array(lattice.levels)
            exact = np.searchsorted((levels[1:] + levels[:-1]) / 2, clipped)
            # Without noise, there may be fewer symbols than points.
            clipped = np.minimum(exact, len(lattice.outputs) - 1).astype(np.uint8)
            if wrong_first != 1:
                lattice = level_table(lattice.levels, wrong_first * epsilon_of(lattice))
        else:
            exact = np.rint((clipped - lattice.low) / lattice.step).astype(np.int64)
            exact *= wrong_first
        (drawn,) = release(
            lattice,
            [exact],
            [clipped],
            lambda: [draw(randomizer, values, source, *args, **options)],
        )
        return drawn

    def of_lattice(lattice, values, bits, *args, **options):
        if found._inside:
            return lattice_of(lattice, values, bits, *args, **options)
        exact = np.rint((values - lattice.low) / lattice.step).astype(np.int64)
        exact *= wrong_first
        (noisy,) = release(
            lattice, [exact], [values.copy()],
            lambda: [lattice_of(lattice, values, bits, *args, **options)],
        )  # fmt: skip
        return noisy

    noisy_sums = NoisySums.randomize
    draw, lattice_of = EntryRandomizer.draw, LaplaceLattice.randomize
    rows = original("spherical rows")
    with (
        mock.patch.object(NoisySums, "randomize", of_noisy_sums),
        mock.patch.object(EntryRandomizer, "draw", of_values),
        mock.patch.object(LaplaceLattice, "randomize", of_lattice),
        mock.patch.object(*POINTS["spherical rows"], lambda *a: factor * rows(*a)),
    ):
        yield found


def replayed(fit, data, others):
    """What ``fit(*data)`` and ``fit(*others)`` return, given the same releases."""
    with recorded() as start:
        one = fit(*data)
    with recorded(start) as found:
        two = fit(*others)
    assert len(found.exact) == len(start.exact)
    assert np.any(found.flat != start.flat)  # the data sets differ
    return one, two


@contextmanager
def quick():
    """Plans and fits to sums that are made already are not made again.

    Rows of units are rough. Along a trajectory all these are the same anyway.
    """
    known, complete = {}, original("completion of sums")

    def remembered(measurement, released, on_sweep):
        problem = measurement.problem
        key = (released[0].tobytes(), problem.entries.coordinates.tobytes())
        key += (problem.shape, problem.domain.scale)
        key += (measurement.randomizer.noise_variance,)
        if key not in known:
            known[key] = complete(measurement, released, on_sweep)
        return known[key]

    with (
        mock.patch.object(*POINTS["completion of sums"], remembered),
        mock.patch.object(*POINTS["rounds of a fit to sums"], 3),
        mock.patch.object(
            *POINTS["plan of gradients"], cache(original("plan of gradients"))
        ),
    ):
        yield


@contextmanager
def with_a_pattern(*, stands_out=0.0):
    """Fits that protect units release which rows units have, however few there are."""
    with (
        mock.patch.object(*POINTS["strength of a pattern"], 1e9),
        mock.patch.object(*POINTS["least rows of a pattern"], 2),
        mock.patch.object(*POINTS["eigenvalues that stand out"], stands_out),
    ):
        yield


def data_of(shape, unit):
    """Data sets by name: values at the ends of the range; within it and beyond.

    One unit has most entries. They are at the upper end or at the lower one, by cell,
    so that no model predicts them and the unit is clipped.
    """
    rng = np.random.default_rng(len(shape))
    where = np.column_stack([rng.integers(0, size, 40) for size in shape])
    extreme = rng.choice([0.0, 1.0], 40)
    if unit != "entry":
        heavy = where[rng.integers(0, 40, 300)]
        heavy[:, unit] = 2
        where = np.concatenate([where, heavy])
        cells = rng.choice([0.0, 1.0], shape)
        extreme = np.concatenate([extreme, cells[tuple(heavy.T)]])
    return where, {"extreme": extreme, "random": rng.normal(0.5, 0.6, len(where))}


def neighbours(where, values, unit, step):
    """Another value of each `step`-th entry, far off or random; or without a unit."""
    rng = np.random.default_rng(9)
    if unit == "entry":
        for entry in range(0, len(where), step):
            for value in (-1e9, 1e9, rng.random()):
                changed = values.copy()
                changed[entry] = value
                yield where, changed
    else:
        for own in np.unique(where[:, unit]):
            rest = where[:, unit] != own
            yield where[rest], values[rest]


def largest_ratios(model, data, neighbours, *, factor=1.0, wrong=1, noise_for=None):
    """Largest ratios of what neighbours' releases differ by to what is accounted for.

    One of the pure releases, one of the Gaussian ones; NaN where there are none. What
    is stored must be the same, given the same releases.

    Parameters
    ----------
    model : estimator
    data : tuple
        Arguments of `fit`.
    neighbours : iterable of tuple
        The same of neighbouring data sets, at least one.
    factor : float
        See `recorded`.
    wrong : int
        Makes all that gets noise larger.
    noise_for : float, default=None
        Epsilon for which the noise is calibrated, if it is not what is accounted for.
    """

    def fitted(*data, follow=None, **options):
        with recorded(follow, wrong=wrong, wrong_first=wrong, **options) as found:
            fit = clone(model).fit(*data)
        return found, pickle.dumps(fit)

    with quick():
        covered = np.array(accounted(clone(model).fit(*data).privacy_guarantee_))
        if noise_for is not None:
            model = clone(model).set_params(epsilon=noise_for)
        start, _ = fitted(*data, factor=factor)
        # Replayed as well: of a remembered fit, other parts are one object.
        _, stored = fitted(*data, follow=start)
        found = []
        for other in neighbours:
            replayed, other_stored = fitted(*other, follow=start)
            assert len(replayed.exact) == len(start.exact)
            assert other_stored == stored
            found.append(start.spent(replayed))
    largest = np.max(found, axis=0)
    assert not np.any(largest[covered == 0])
    return np.divide(largest, covered, np.full(2, np.nan), where=covered > 0)
