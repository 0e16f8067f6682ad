"""Which parameters a perturbation uses: the table of the docstring is what fits do.

No false alarms are possible: the noise is that of a seed.
"""

import functools
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sktensordp.completion import CPCompletion, TuckerCompletion

RNG = np.random.default_rng(0)
SHAPE = (40, 20)
WHERE = np.argwhere(RNG.random(SHAPE) < 0.6)
GROUPS = RNG.integers(2, size=SHAPE[0]), RNG.integers(2, size=SHAPE[1])
ALIKE = GROUPS[0][WHERE[:, 0]] == GROUPS[1][WHERE[:, 1]]
Y = np.clip(np.round(2.5 + 1.5 * ALIKE + RNG.normal(size=len(WHERE))), 1, 5)
ALL = np.argwhere(np.ones(SHAPE))
BASE = {
    "rank": 2, "levels": [1, 2, 3, 4, 5], "shape": SHAPE, "epsilon": 4.0,
    "max_iter": 4, "random_state": 0,
}  # fmt: skip
OTHER = {
    "rank": 3,
    "max_iter": 6,
    "level_prior": [0.05, 0.05, 0.1, 0.2, 0.6],
    "side_information": {1: np.eye(2)[GROUPS[1]]},
    "n_pattern_components": 1,
    "delta": 1e-4,
}
OF_ENTRIES = ["input", "sums", "statistics", "output", "gradient"]
OF_UNITS = ["sums", "statistics"]
FITS = [*(("entry", p) for p in OF_ENTRIES), *((0, p) for p in OF_UNITS)]


@functools.cache
def table():
    """The table of the docstring: what a parameter is used by."""
    lines = iter(CPCompletion.__doc__.splitlines())
    rows = [line for line in lines if line.startswith("`")]
    start = next(k for k, row in enumerate(rows) if row.startswith("`rank`"))
    found = {}
    for row in rows[start:]:
        name, *cells = (cell for cell in row.split("  ") if cell.strip())
        for unit, every, cell in zip(
            ("entry", 0), (OF_ENTRIES, OF_UNITS), cells, strict=True
        ):
            text = cell.strip()
            if text.startswith("all"):
                left_out = text.removeprefix("all").removeprefix(" but ")
                used = set(every) - {left_out}
            else:
                used = set(text.split(", ")) - {"none"}
            found |= {(name.strip("`"), unit, p): p in used for p in every}
    return found


def predicted(unit, perturbation, kind=CPCompletion, **options):
    options = {**BASE, "unit": unit, "perturbation": perturbation, **options}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = kind(**options).fit(WHERE, Y).predict(ALL)
    return found, [str(w.message) for w in caught if "does not use" in str(w.message)]


def test_the_table_lists_every_perturbation():
    cells = table()
    for name in [*OTHER, "smooth_modes", "check_scale"]:
        for unit, perturbation in FITS:
            assert (name, unit, perturbation) in cells


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [CPCompletion, TuckerCompletion])
@pytest.mark.parametrize(("unit", "perturbation"), FITS)
def test_what_is_not_used_changes_nothing(unit, perturbation, kind):
    """And what a table says is used, changes something, unless the data have none."""
    options = {"n_pattern_components": 0}
    plain, _ = predicted(unit, perturbation, kind, **options)
    for name, value in OTHER.items():
        found, _ = predicted(unit, perturbation, kind, **{**options, name: value})
        if not table()[name, unit, perturbation]:
            assert_array_equal(found, plain)
        elif name != "n_pattern_components":
            # One that the perturbation uses; the pattern may be that of chance.
            assert not np.array_equal(found, plain)


@pytest.mark.parametrize(("unit", "perturbation"), FITS)
def test_what_is_not_used_is_warned_of(unit, perturbation):
    defaults = {"rank": None, "max_iter": 25}
    _, quiet = predicted(unit, perturbation, rank=0, max_iter=25)
    assert not quiet
    given = {"rank": 1, "max_iter": 2, "level_prior": OTHER["level_prior"]}
    if perturbation == "gradient":
        given["side_information"] = OTHER["side_information"]
    for name, value in given.items():
        options = {**defaults, "rank": 0, name: value}
        _, messages = predicted(unit, perturbation, **options)
        assert len(messages) == (not table()[name, unit, perturbation])
        assert all(f"does not use `{name}`. Leave" in message for message in messages)


def test_a_fit_that_chooses_warns_of_nothing():
    for unit in ("entry", 0):
        assert not predicted(unit, "auto", level_prior=OTHER["level_prior"])[1]
