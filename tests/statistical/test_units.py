"""Audits of what a completion reveals of one user, everything of whom is protected.

Neighbours are a tiny tensor without and with one user more, who has very many entries.
The optimal score along any trajectory is computed: the logarithm of the likelihood
ratio of all noisy sums, one release after the other, each given those before. So an
audit sees all of what is released, and one of a sound fit comes close to its claim. All
audits of this file together raise a false alarm with probability at most 1e-3.

    python -m pytest tests/statistical --audit-trials 20000
"""

import itertools
from contextlib import nullcontext
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from sktensordp import _random
from sktensordp.audit import audit_estimator, audit_mechanism
from sktensordp.completion import (
    CPCompletion,
    TuckerCompletion,
    _noisy_sums,
    _unit,
    _unit_run,
)
from sktensordp.completion._noisy_sums import NoisySums
from sktensordp.tensor import _kernels_units, _shared_rows

SHAPE, USER, DELTA = (6, 3), 5, 1e-6
CASES = {
    "sums": (CPCompletion, 0, 10.0),
    "sums, small epsilon": (CPCompletion, 0, 1.0),
    "statistics": (CPCompletion, 1, 10.0),
    "statistics, Tucker": (TuckerCompletion, 1, 10.0),
}
WRONG = ["half the noise", "no bounds"]
FALSE_ALARMS = 1e-3
CONFIDENCE = 1 - FALSE_ALARMS / (len(CASES) + 2 * len(WRONG) + 2)


def data():
    """Coordinates and values of four users, then those of the one more."""
    rng = np.random.default_rng(0)
    where = np.column_stack([np.repeat(range(4), 3), np.tile(range(3), 4)])
    more = np.column_stack([np.full(200, USER), np.arange(200) % 2])
    values = np.append(rng.uniform(0.3, 0.7, len(where)), more[:, 1].astype(float))
    where = np.concatenate([where, more]).astype(np.int32)
    return where, values, where[:, 0] == USER


WHERE, VALUES, IS_MORE = data()


def estimator(case):
    of, rank, epsilon = CASES[case]
    return of(
        rank, unit=0, epsilon=epsilon, delta=DELTA, value_bounds=(0, 1), shape=SHAPE,
        perturbation=case.split(",")[0],
    )  # fmt: skip


def half_the_noise(*args, **sizes):
    plan = _noisy_sums.plan_gaussian_sums(*args, **sizes)
    lattice = replace(plan.lattice, sigma=plan.lattice.sigma / 2)
    return replace(plan, lattice=lattice, noise_variance=plan.noise_variance / 4)


def no_bounds(starts, order, index, own, bound, share, step, sums, scales):
    scales[:] = 1.0
    for first, last in itertools.pairwise(starts.tolist()):
        vector = np.zeros_like(sums)
        np.add.at(vector, index[first:last], own[first:last])
        sums += np.trunc(share / bound * vector / step)


def wrong_in(flaw):
    if flaw == "half the noise":
        return mock.patch.object(_unit, "plan_gaussian_sums", half_the_noise)
    if flaw == "no bounds":
        return mock.patch.object(_kernels_units, "bounded_sums", no_bounds)
    return nullcontext()


class Releases:
    """What is released of the tensor without the user and with it, and of it alone."""

    def __init__(self, model):
        self._chosen = {False: ~IS_MORE, True: IS_MORE | True, "alone": IS_MORE}
        # Plans are the same for all: they follow from the shape alone.
        self._solvers = {
            name: model._solver(model._problem(WHERE[chosen], None, SHAPE), False)
            for name, chosen in self._chosen.items()
        }

    def _run(self, name, source, outputs=None):
        """All sums before the noise and after it; with `outputs`, those are taken."""
        exact, noisy = [], []
        of_sums = NoisySums.randomize

        def randomize(plan, sums, part):
            exact.append([s.copy() for s in sums])
            if outputs is None:
                noisy.append(of_sums(plan, sums, part))
            else:
                noisy.append(outputs[len(noisy)])
            return [s.copy() for s in noisy[-1]]

        values = VALUES[self._chosen[name]].copy()
        with mock.patch.object(NoisySums, "randomize", randomize):
            self._solvers[name].release(values, source, lambda _: False)
        return exact, noisy

    def log_likelihood_ratio(self, with_user, source):
        """Of a fresh release, that with the user over that without."""
        exact, noisy = self._run(with_user, source)
        # What the user adds, given what was released before each of the sums.
        own, _ = self._run("alone", None, noisy)
        total = 0.0
        for sums, found, more in zip(exact, noisy, own, strict=True):
            for s, f, m in zip(sums, found, more, strict=True):
                middle = s + (0.5 - with_user) * m
                total += float(np.sum((f - middle) * m))
        return total / self._solvers[with_user].noise.noise_variance


@pytest.fixture(autouse=True)
def short(monkeypatch, pytestconfig):
    """With few trials, fewer passes and rounds; what is released is bounded the same.

    The budget is divided among the passes that there are.
    """
    if pytestconfig.getoption("--audit-trials") < 5000:
        monkeypatch.setattr(_shared_rows, "_ROUNDS", 2)
        for module in (_unit, _unit_run):
            monkeypatch.setattr(module, "FACTOR_PASSES", 2)


def audit(case, pytestconfig, flaw=None):
    model, seeds = estimator(case), iter(range(10**9))
    trials = n_trials(pytestconfig)

    def mechanism(with_user):
        source = _random.NoiseSource(next(seeds), 0)
        return [releases.log_likelihood_ratio(bool(with_user), source)]

    with wrong_in(flaw):
        releases = Releases(model)
        report = audit_mechanism(
            mechanism, False, True, epsilon=model._planned_guarantee().epsilon,
            delta=DELTA, n_trials=trials, confidence=CONFIDENCE, gaussian=True,
            log_likelihood_ratio=lambda rows: rows[:, 0],
        )  # fmt: skip
    return report


@pytest.mark.parametrize("case", [*CASES])
def test_one_user_more_is_not_noticed_better_than_claimed(case, pytestconfig):
    report = audit(case, pytestconfig)
    assert not report.violated, report
    # A good part of what is claimed is seen, so that there is something to be seen.
    if CASES[case][2] >= 10:
        assert report.epsilon_lower > 0.25 * CASES[case][2], report
    # With many trials, nearly all of it.
    if report.n_trials >= 5000:
        assert report.epsilon_lower > 0.7 * CASES[case][2], report


@pytest.mark.parametrize("flaw", WRONG)
@pytest.mark.parametrize("case", ["sums", "statistics"])
def test_a_mechanism_that_is_wrong_is_found_out(case, flaw, pytestconfig):
    """With half the noise the truth is twice the mu, and 200 trials show enough."""
    report = audit(case, pytestconfig, flaw)
    assert report.violated, report


def n_trials(pytestconfig):
    """Two thirds of those of other audits, since these see all there is to be seen."""
    return max(2 * pytestconfig.getoption("--audit-trials") // 3, 200)


def fits(case, pytestconfig):
    """Everything that a pickle would carry, by fits of the estimator itself."""
    return audit_estimator(
        estimator(case), WHERE[~IS_MORE], WHERE, VALUES[~IS_MORE], VALUES,
        n_trials=n_trials(pytestconfig), random_state=0, confidence=CONFIDENCE,
        gaussian=True,
    )  # fmt: skip


def test_everything_that_a_fit_keeps(pytestconfig):
    report = fits("sums", pytestconfig)
    assert report.claimed == pytest.approx(10.0, rel=1e-2)
    assert not report.violated, report


def test_an_attribute_of_the_users_would_be_found_out(pytestconfig, monkeypatch):
    """Were rows kept where a pickle carries them, or only how many there are."""
    keep = CPCompletion._keep_rows

    def keeping(model, where, values):
        keep(model, where, values)
        model.n_users_ = float(len(model._local.units))

    monkeypatch.setattr(CPCompletion, "_keep_rows", keeping)
    report = fits("sums, small epsilon", pytestconfig)
    assert report.violated, report
