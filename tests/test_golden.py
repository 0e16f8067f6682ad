"""What no change of a fit may move: noise, folds, guarantees and first releases.

    python -m tests.test_golden

writes `tests/golden.json` anew. Noise with a seed is made of integers and of multiples
of a step, and so are the sums that no model precedes: they are the same on every
processor, and the file has a digest of each. Of guarantees it has the numbers. Ten
digits are compared, since a search for epsilon ends at other last digits elsewhere. A
table that randomises levels solves a linear programme, and versions of SciPy end at
other solutions that are as good: the file has its variance, and the digest is that of
values which another table randomises.
Bits of models depend on the processor; `tests/golden.py` compares them on one machine.
"""

import json
import math
from contextlib import ExitStack, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from sktensordp import noise
from sktensordp.completion import CPCompletion
from sktensordp.model_selection import ItemHoldout, UserHoldout, UserKFold
from sktensordp.privacy import planned_guarantee
from tests.golden import (
    ENTRY,
    RANGE,
    UNITS,
    X,
    Y,
    choices,
    completion,
    hashed,
)
from tests.support.every_estimator import CASES
from tests.support.points import POINTS
from tests.support.seams import LevelTable, NoiseStreams, SumsRandomizer, level_table

STORED = Path(__file__).with_name("golden.json")


def bits(block=0):
    return NoiseStreams(0, 0).stream(block)


class Released(Exception):
    """Carries what a fit has released, in place of what would follow."""


def first_release(fit):
    """What a fit releases before it has a model: values or sums with their noise."""

    def recording(function):
        def recorded(*args, **kwargs):
            # What calls others of these functions is what counts.
            patches.close()
            raise Released(function(*args, **kwargs))

        return recorded

    with ExitStack() as patches:
        for lattice in (noise.LaplaceLattice, noise.GaussianLattice):
            function = recording(lattice.randomize)
            patches.enter_context(mock.patch.object(lattice, "randomize", function))
        function = recording(SumsRandomizer.release)
        patches.enter_context(mock.patch.object(SumsRandomizer, "release", function))
        try:
            fit()
        except Released as released:
            return released.args[0]
    raise AssertionError("nothing was released")


FIXED = LevelTable(
    (1.0, 2.0, 3.0, 4.0, 5.0),
    (-3.0, 0.5, 3.0, 6.0, 8.0),
    tuple(tuple(8 if x == y else 2 for y in range(5)) for x in range(5)),
)


def folds(splitter):
    return [test for _, test in splitter.split(X)]


def privatized(**params):
    return CPCompletion(**params).client(0).privatize(Y)


def by_the_table():
    """Values that a table randomises which no programme has solved for."""
    with mock.patch.object(*POINTS["table of levels"], lambda *_: FIXED):
        return privatized(epsilon=1.0, **LEVELS)


def on_a_grid():
    """Values of a range that the same table randomises, after they were rounded."""
    with mock.patch.object(*POINTS["table of points"], lambda *_: FIXED):
        return privatized(epsilon=1.0, **RANGE)


LAPLACE = noise.laplace_lattice(1, 5, 0.5)
GAUSSIAN = noise.gaussian_lattice(0.7, 1000, 1.0, 1e-6)
LEVELS = {"levels": [1, 2, 3, 4, 5]}
PRECEDED_BY_NO_MODEL = {
    "sums", "output", "output, Tucker", "statistics",
    "statistics, features", "users", "users, range", "users, sums", "mode 2",
}  # fmt: skip
DIGESTS = {
    "discrete Laplace": lambda: noise.discrete_laplace(bits(), 3, 7, 1000),
    "discrete Gaussian": lambda: noise.discrete_gaussian(bits(1), 9, 1000),
    "bernoulli": lambda: noise.bernoulli(bits(2), 3, 7, (1000,)),
    "categorical": lambda: noise.categorical(
        bits(3), np.array([[1, 2, 4], [3, 3, 1]]), np.arange(1000) % 2
    ),
    "Laplace lattice": lambda: LAPLACE.randomize(np.linspace(1, 5, 1000), bits(4)),
    "Gaussian lattice": lambda: GAUSSIAN.randomize(np.zeros(1000), bits(5)),
    "next release": lambda: NoiseStreams(0, 1).stream(0).random_raw(9),
    "step of a release": lambda: NoiseStreams(0, 0).step(2).stream(3).random_raw(9),
    "values, table": by_the_table,
    "values, grid": on_a_grid,
    "folds of users": lambda: folds(UserKFold(3, random_state=0)),
    "users held out": lambda: folds(UserHoldout(0.3, random_state=0)),
    "items held out": lambda: folds(ItemHoldout(0.3, random_state=0)),
    **{
        f"released by {name}": partial(
            first_release, partial(completion, make, **params)
        )
        for name, (make, params) in (ENTRY | UNITS).items()
        if name in PRECEDED_BY_NO_MODEL
    },
    "released by choices": partial(first_release, choices),
}


# Epsilons and public probabilities of the levels.
TABLES = {
    "one, uniform": (1.0, (0.2,) * 5),
    "four, rising": (4.0, tuple(np.arange(1, 6) / 15)),
    "one, rising": (1.0, tuple(np.arange(1, 6) / 15)),
}


def table_of(name):
    epsilon, prior = TABLES[name]
    return level_table((1.0, 2.0, 3.0, 4.0, 5.0), epsilon, prior)


def variances():
    """Average variance of what each table randomises, which no solver can better."""
    return {
        name: float(table_of(name).level_variances @ prior)
        for name, (_, prior) in TABLES.items()
    }


def planned():
    """Epsilon and delta that estimators state before a fit, and a profile."""
    found = {}
    for case in CASES:
        with suppress(TypeError, ValueError):
            guarantee = planned_guarantee(case.estimator)
            found[case.label] = [guarantee.epsilon, guarantee.delta]
            # The profile of a table depends on the solver.
            if "public table" not in guarantee.statement:
                found[case.label].append(guarantee.delta_at(0.5))
    return found


def test_noise_and_folds_are_as_stored():
    stored = json.loads(STORED.read_text())["digests"]
    found = {name: hashed(value()) for name, value in DIGESTS.items()}
    assert found == stored


def test_tables_are_as_good_as_stored():
    assert variances() == pytest.approx(json.loads(STORED.read_text())["tables"])


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_private_and_unbiased_whatever_solved_its_programme(name):
    table, (epsilon, _) = table_of(name), TABLES[name]
    assert len({sum(row) for row in table.weights}) == 1
    for column in zip(*table.weights, strict=True):
        assert max(column) <= Fraction(math.exp(epsilon)) * min(column)
    means = table.probabilities @ table.outputs
    np.testing.assert_allclose(means, table.levels, rtol=1e-9)


def test_guarantees_are_as_stored():
    stored = json.loads(STORED.read_text())["guarantees"]
    found = planned()
    assert found.keys() == stored.keys()
    for name, numbers in found.items():
        assert numbers == pytest.approx(stored[name], rel=1e-10, abs=0), name


if __name__ == "__main__":
    digests = {name: hashed(value()) for name, value in DIGESTS.items()}
    stored = {"digests": digests, "tables": variances(), "guarantees": planned()}
    STORED.write_text(json.dumps(stored, indent=1) + "\n")
