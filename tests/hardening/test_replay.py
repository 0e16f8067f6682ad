"""One replay for all completions: how neighbours differ, over what the noise covers.

    python tests/hardening/test_replay.py [PART OF A NAME ...]

A fit is recorded. A neighbour is then fitted with the recorded releases in place of its
own, so that both take every later step alike. What gets noise in the two runs differs:
by a distance for Gaussian noise, in units of its scale; by a log-likelihood ratio for
Laplace noise and for tables of levels. The ratio of this to what the guarantee is
computed from is at most one for all neighbours, and close to one for the worst.
Everything that is stored must be equal. The rows of protected units are never stored.

Run as a program, it prints the largest ratios of every case, over all data sets and
neighbours. The tests take fewer of these for a case that adds something to a plain one.
"""

import itertools
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from sktensordp.completion import CPCompletion, TuckerCompletion
from tests.support.points import POINTS
from tests.support.replaying import (
    data_of,
    largest_ratios,
    neighbours,
    with_a_pattern,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

EPSILON = 2.0
SHAPES = {2: (6, 5), 3: (6, 5, 3)}
FORMS = {
    "CP": (CPCompletion, {2: 2, 3: 2}),
    "Tucker": (TuckerCompletion, {2: 2, 3: (2, 3, 2)}),
}
PERTURBATIONS = ["input", "gradient", "output", "statistics", "sums", "auto"]
NEVER_SMOOTH = ["gradient", "output", "statistics", "sums"]
UNITS = ["entry", 0, 1]
FEATURES = np.random.default_rng(5).standard_normal((6, 2))
# What a case adds to the plain one, whose values are in [0, 1].
EXTRAS = {
    "plain": {},
    "no biases": {"biases": False},
    "levels": {"value_bounds": None, "levels": [0.0, 0.25, 0.5, 1.0]},
    "side information": {},
    "smooth mode": {"smooth_modes": [1]},
    "pattern": {"n_pattern_components": 2},
}


def refused(perturbation, form, order, unit, extra):
    """What the message says of a case that there is not, or None."""
    if unit != "entry" and perturbation not in ("statistics", "sums", "auto"):
        return "unit"
    if perturbation == "sums" and extra == "no biases":
        return "biases alone"
    if extra == "smooth mode" and (unit != "entry" or perturbation in NEVER_SMOOTH):
        return "smooth_modes"
    return None


ALL = list(itertools.product(PERTURBATIONS, FORMS, SHAPES, UNITS, EXTRAS))
CASES = [case for case in ALL if not refused(*case)]
REFUSED = [case for case in ALL if refused(*case)]


def name_of(case):
    return "-".join(map(str, case))


def make(perturbation, form, order, unit, extra, epsilon=EPSILON):
    estimator, ranks = FORMS[form]
    options = {
        "rank": ranks[order], "epsilon": epsilon, "delta": 1e-6, "unit": unit,
        "value_bounds": (0, 1), "shape": SHAPES[order], "max_iter": 3,
        "random_state": 0, "perturbation": perturbation, "n_pattern_components": 0,
        **EXTRAS[extra],
    }  # fmt: skip
    if extra == "side information":
        # Of the mode that is not the unit's.
        mode = 0 if unit == 1 else 1
        options["side_information"] = {mode: FEATURES[: SHAPES[order][mode]]}
    return estimator(**options)


# Of a case: the data sets, and how much of the noise there is in their trajectories.
EVERY_RUN = list(itertools.product(["extreme", "random"], [1.0, 0.0]))
# Those with noise, and every other of the entries.
FEWER = {"runs": [run for run in EVERY_RUN if run[1]], "step": 10}


def ratios(case, runs=EVERY_RUN, step=5, **faults):
    """The largest ratios of a case: of pure releases, and of Gaussian ones."""
    _, _, order, unit, _ = case
    model = make(*case)
    where, data = data_of(SHAPES[order], unit)
    has_pattern = unit != "entry" and case[-1] == "pattern"
    with with_a_pattern() if has_pattern else nullcontext():
        found = [
            largest_ratios(
                model, (where, data[name]), neighbours(where, data[name], unit, step),
                factor=factor, **faults,
            )
            for name, factor in runs
        ]  # fmt: skip
    return np.max(found, axis=0)


def least_of(case):
    """What the worst neighbour comes to at least, in these small data."""
    if case[0] == "input":
        # Any two values at the ends of the range are the worst.
        return 0.999
    return 0.7 if case[3] == "entry" else 0.95


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_no_neighbour_exceeds_what_is_accounted_for(case, monkeypatch):
    if case[0] == "gradient" and case[-1] == "no biases":
        # So short that gradients are clipped, which are short without biases.
        monkeypatch.setattr(*POINTS["clip of gradients"], 0.03)
    options = {} if case[-1] == "plain" else FEWER
    if case[0] in ("output", "statistics") and case[-1] == "no biases":
        # Sums are then of products of factors: few entries come close to the worst.
        options = {**FEWER, "step": 1}
    found = ratios(case, **options)
    found = found[~np.isnan(found)]
    assert found.size
    assert np.all(found <= 1 + 1e-9)
    assert np.all(found > least_of(case))


@pytest.mark.parametrize("case", REFUSED, ids=name_of)
def test_there_are_no_other_cases(case):
    _, _, order, unit, _ = case
    where, data = data_of(SHAPES[order], unit)
    with pytest.raises(ValueError, match=refused(*case)):
        make(*case).fit(where, data["random"])


# --- tests of these tests ------------------------------------------------------------

FAULTS = {
    "twice the sensitivity": {"wrong": 2},
    "half the noise": {"noise_for": 2 * EPSILON},
}
# Every perturbation, form and unit, of three modes; and patterns of units.
PLAIN = [
    case
    for case in CASES
    if case[2] == 3
    and (case[-1] == "plain" or (case[-1] == "pattern" and case[3] != "entry"))
]
CAUGHT = [
    pytest.param(case, faults, id=f"{name_of(case)}-{name}")
    for case, (name, faults) in itertools.product(PLAIN, FAULTS.items())
]


@pytest.mark.parametrize(("case", "faults"), CAUGHT)
def test_it_would_notice(case, faults):
    assert np.nanmax(ratios(case, **FEWER, **faults)) > 1.3


def main():
    chosen = sys.argv[1:]
    print(
        "perturbation, form, modes, unit, what else: largest ratio, pure and Gaussian"
    )
    for case in CASES:
        if chosen and not any(part in name_of(case) for part in chosen):
            continue
        with warnings.catch_warnings(action="ignore"):
            pure, mu = ratios(case)
        print(f"{name_of(case):45} {pure:8.4f} {mu:8.4f}", flush=True)


if __name__ == "__main__":
    main()
