"""Mechanisms that others collected to test auditors: what ours finds, and what not."""

import math

import numpy as np
import pytest

from tests.audit.benchmark import AUDITORIUM, CASES, MORE, SNIPER

pytestmark = pytest.mark.thorough
slow = pytest.mark.slow
# 40,000 runs on each input find these for certain, or almost.
EASY = {
    "noisy histogram 2", "SVT 5", "one-time RAPPOR", "prefix sums",
    *(case.name for case in AUDITORIUM if case.exceeds),
}  # fmt: skip
FAST = {"SVT 5", "prefix sums", "numerical SVT"}


def test_the_benchmark_is_that_of_the_papers():
    assert len(SNIPER) == 20
    assert sum(case.exceeds for case in SNIPER) == 11
    assert [case.exceeds for case in MORE] == [True, False]
    assert sum(case.exceeds for case in AUDITORIUM) == 6
    assert len({case.name for case in CASES}) == len(CASES)


def laplace_below(x, scale):
    tail = np.exp(-np.abs(x) / scale) / 2
    return np.where(x < 0, tail, 1 - tail)


def chances(x, threshold_scale, query_scale, threshold, most):
    """Probabilities of all outputs of a sparse vector, by integrating its threshold."""
    grid = np.linspace(-800, 800, 16_001)
    density = np.exp(-np.abs(grid) / threshold_scale) / (2 * threshold_scale)
    weights = density / density.sum()
    below = [laplace_below(grid + threshold - entry, query_scale) for entry in x]
    found = {}

    def follow(i, weights, output, n_above):
        if i == len(x) or n_above == most:
            found[output] = weights.sum()
            return
        follow(i + 1, weights * below[i], (*output, 0), n_above)
        follow(i + 1, weights * (1 - below[i]), (*output, 1), n_above + 1)

    follow(0, weights, (), 0)
    return found


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SVT 1", (20.0, 40.0, 0.5, 1)),
        ("SVT 4", (40.0, 4 / 0.3, 1.0, 1)),
        ("SVT 6", (20.0, 20.0, 1.0, None)),
        ("SVT 3 and 4", (40.0, 4 / 0.3, 1.0, 2)),
    ],
)
def test_truths_that_are_integrals(name, options):
    """The largest log ratio; and the outputs have the probabilities of the integral."""
    (case,) = (case for case in CASES if case.name == name)
    inputs = case.x, case.x_neighbour
    of_x, of_neighbour = (chances(x, *options) for x in inputs)
    ratios = [abs(math.log(of_x[output] / of_neighbour[output])) for output in of_x]
    assert max(ratios) == pytest.approx(case.truth, abs=2e-3)
    likely = max(of_x, key=of_x.get)
    outputs = case.mechanism(np.random.default_rng(0), np.array(case.x), 20_000)
    # The sparse vector without values is in the last ten columns.
    rows = outputs[:, -10 : len(likely) - 10 or None]
    share = np.mean((rows == likely).all(axis=1))
    # Five standard deviations: a false alarm in 3e-7 of the seeds.
    assert share == pytest.approx(of_x[likely], abs=5 * 0.5 / math.sqrt(20_000))


def test_the_truth_of_noisy_max_is_an_integral():
    (case,) = (case for case in CASES if case.name == "report noisy max 1")
    grid = np.linspace(-600, 600, 60_001)

    def of(x):
        below = [laplace_below(grid - entry, 20.0) for entry in x]
        product = np.prod(below, axis=0)
        return [
            np.sum(np.exp(-np.abs(grid - entry) / 20) * product / one)
            for entry, one in zip(x, below, strict=True)
        ]

    ratios = np.log(np.divide(of(case.x), of(case.x_neighbour)))
    assert np.abs(ratios).max() == pytest.approx(case.truth, abs=1e-3)


@pytest.mark.parametrize(
    ("case", "runs"),
    [
        *((case, 8_000) for case in CASES if case.name in FAST and case.exceeds),
        *(
            pytest.param(case, 40_000, marks=slow)
            for case in CASES
            if case.name in EASY
        ),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_false_claims_are_found(case, runs):
    """At confidence 0.999, so none of them is found by chance."""
    assert case.audit(0, runs, confidence=0.999).violated


@pytest.mark.parametrize(
    ("case", "runs"),
    [
        *((case, 4_000) for case in CASES if case.name in FAST and not case.exceeds),
        *(pytest.param(case, 20_000, marks=slow) for case in CASES if not case.exceeds),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_true_claims_are_not_refuted(case, runs):
    """All of them together raise a false alarm at rate 2e-3 at most."""
    report = case.audit(0, runs, confidence=1 - 1e-4)
    assert not report.violated, report
