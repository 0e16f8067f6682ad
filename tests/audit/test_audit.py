"""The auditor proves what is true, and nothing more."""

import math
import re

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.preprocessing import StandardScaler

from sktensordp.audit import (
    AuditReport,
    audit_estimator,
    audit_mechanism,
    audit_one_run,
)
from sktensordp.completion import CPCompletion
from sktensordp.privacy import gaussian_sigma
from tests.support.seams import (
    Pure,
    certified_bound,
    curve_bound_of_guesses,
    epsilon_of_mu,
    lower_epsilon_of_guesses,
)

pytestmark = pytest.mark.thorough
slow = pytest.mark.slow


def randomized_response(rng, epsilon):
    keep = 1 / (1 + math.exp(-epsilon))
    return lambda x, n: np.where(rng.random((n, 1)) < keep, x, 1 - np.asarray(x))


def audited_response(seed, truth, **options):
    """Audit of randomised response by the number that it releases."""
    return audit_mechanism(
        randomized_response(np.random.default_rng(seed), truth), [0.0], [1.0],
        batched=True, log_likelihood_ratio=lambda y: y[:, 0], **options,
    )  # fmt: skip


def test_analytic_gaussian_is_certified():
    """Of seeds 0 to 19, 19 reach these bounds and none is above the truth."""
    rng = np.random.default_rng(1)
    sigma = gaussian_sigma(1.0, 1e-5)
    report = audit_mechanism(
        lambda x, n: x + sigma * rng.standard_normal((n, 1)),
        [0.0], [1.0], epsilon=1.0, delta=1e-5, n_trials=100_000, batched=True,
        gaussian=True, log_likelihood_ratio=lambda y: y[:, 0],
    )  # fmt: skip
    assert 0.246 <= report.mu_lower <= 0.2681
    assert 0.9 <= report.epsilon_lower <= 1.0
    assert not report.violated


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=slow) for k in (1, 2))])
def test_true_claims_are_not_refuted_by_any_score(seed):
    """Discrete noise of many entries: 1e-4 false alarms for each of the seeds.

    Over 20 seeds, the bound was 0.75 to 0.96; with 8,000 runs, 0.65 to 0.93.
    """
    rng = np.random.default_rng(seed)
    rate = -math.expm1(-0.1)

    def mechanism(x, n):
        size = (n, len(x))
        return x + rng.geometric(rate, size) - rng.geometric(rate, size) * 1.0

    x, neighbour = np.zeros(5), np.r_[10.0, np.zeros(4)]
    report = audit_mechanism(
        mechanism, x, neighbour, epsilon=1.0, n_trials=20_000, batched=True,
        confidence=1 - 1e-4,
    )  # fmt: skip
    assert 0.7 < report.epsilon_lower <= 1.0


def test_false_alarms_are_as_rare_as_stated():
    """100 audits at 90% of randomised response: at most 22 above the truth.

    The stated rate is one in ten; 23 or more would have probability below 2e-4 at
    exactly that rate, and the audit is conservative.
    """

    def n_violated(n, truth):
        options = {"epsilon": 0.5, "n_trials": 200, "confidence": 0.9}
        return sum(audited_response(k, truth, **options).violated for k in range(n))

    assert n_violated(100, 0.5) < 23
    # Were the truth a little higher than the claim, it would be noticed.
    assert n_violated(20, 2.0) > 17


def test_outputs_that_chose_an_event_do_not_certify_it():
    """20 audits at 80% of what reveals nothing: at most 12 find something.

    13 or more have probability below 2e-5 at the stated rate of one in five.
    """

    def violated(seed):
        rng = np.random.default_rng(seed)
        return audit_mechanism(
            lambda x, n: rng.standard_normal((n, 1)), [0.0], [1.0], epsilon=0.0,
            n_trials=200, confidence=0.8, batched=True,
        ).violated  # fmt: skip

    assert sum(map(violated, range(20))) <= 12


@pytest.mark.parametrize("truth", [0.6, 3.0])
def test_an_audit_that_may_stop_early_shares_its_error(truth):
    """Looks after a quarter, half and all runs spend 1/4, 1/4 and 1/2 of the error."""
    report = audited_response(
        0, truth, epsilon=1.0, n_trials=4000, confidence=0.8, early_stopping=True
    )
    assert report.violated == (truth == 3.0)
    assert report.n_trials == (1000 if report.violated else 4000)
    found = re.search(r"\((\d+) of (\d+) against (\d+)\)", report.event)
    hits, n, false_hits = map(int, found.groups())
    assert n == report.n_trials // 2
    if report.violated:
        bound = certified_bound([(hits, false_hits, n)], Pure(0.0), 0.2 / 4)
        assert report.epsilon_lower == pytest.approx(bound)
    else:
        # The two earlier stages had 500 and 1000 runs.
        full = audited_response(0, truth, n_trials=4000, confidence=0.9)
        assert report.epsilon_lower == pytest.approx(full.epsilon_lower, rel=0.2)


@slow
@pytest.mark.parametrize("early_stopping", [True, False])
def test_false_alarms_in_three_stages_are_as_rare_as_stated(early_stopping):
    """200 audits at 50% of randomised response exactly at its claim.

    The looks refute the truth with probability at most 1/8, 1/8 and 1/4, together 1/2.
    At these rates, each number here is larger with probability below 1e-6.
    """
    ends = []
    for seed in range(200):
        report = audited_response(
            seed, 2.0, epsilon=2.0, n_trials=800, confidence=0.5,
            early_stopping=early_stopping,
        )  # fmt: skip
        ends += [report.n_trials] * report.violated
    shares = {200: 1 / 8, 400: 1 / 8, 800: 1 / 4} if early_stopping else {800: 1 / 2}
    for n_trials, share in shares.items():
        assert ends.count(n_trials) <= binom.isf(1e-6, 200, share)
    # An audit that never found anything would raise no false alarm either.
    assert 20 < len(ends) <= binom.isf(1e-6, 200, 1 / 2)


def test_early_stopping_needs_a_claim():
    with pytest.raises(ValueError, match="early_stopping needs a claim"):
        audit_mechanism(lambda x: x, [0.0], [1.0], n_trials=50, early_stopping=True)


def test_special_values_do_not_hide_what_else_is_released():
    """-1000 for "no answer" in half of the entries, noise of half the scale elsewhere.

    At confidence 0.999.
    """
    rng = np.random.default_rng(0)

    def mechanism(x, n):
        noisy = np.round(x + rng.laplace(scale=0.5, size=(n, 4)), 2)
        return np.where(rng.random((n, 4)) < 0.5, -1000.0, noisy)

    report = audit_mechanism(
        mechanism, np.zeros(4), np.ones(4), epsilon=1.0, n_trials=4000, batched=True,
        confidence=0.999,
    )  # fmt: skip
    assert report.violated
    assert "pattern" in report.event or "classifier" in report.event


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_randomized_response_is_certified_without_knowing_it(epsilon):
    rng = np.random.default_rng(0)
    report = audit_mechanism(
        randomized_response(rng, epsilon), [0.0], [1.0], epsilon=epsilon,
        n_trials=20_000, batched=True,
    )  # fmt: skip
    assert 0.85 * epsilon < report.epsilon_lower <= epsilon


@pytest.mark.parametrize("batched", [True, False])
def test_batched_and_single_calls_agree(batched):
    rng = np.random.default_rng(0)

    def single(x):
        return [x[0] + (rng.random() < 0.1), [0.0, 1.0]]

    def many(x, n):
        first = x[0] + (rng.random(n) < 0.1)
        return np.column_stack([first, np.zeros(n), np.ones(n)])

    report = audit_mechanism(
        many if batched else single, [0.0], [1.0], epsilon=1.0, n_trials=2000,
        batched=batched,
    )  # fmt: skip
    assert report.violated


def test_outputs_of_several_numbers_per_entry_are_compared_with_the_inputs():
    """Flags of value 0.5 among noise that is symmetric about 0.5, twice per entry.

    Each flag has probability 0.5 or 0.6. At confidence 0.999.
    """
    rng = np.random.default_rng(0)
    x, neighbour = np.repeat([1.0, 0.0], 5), np.repeat([0.0, 1.0], 5)

    def mechanism(x, n):
        flags = rng.random((n, 20)) < np.tile(np.where(x > 0, 0.6, 0.5), 2)
        return np.where(flags, 0.5, rng.random((n, 20)))

    report = audit_mechanism(
        mechanism, x, neighbour, epsilon=0.7, n_trials=2000, batched=True,
        confidence=0.999,
    )  # fmt: skip
    assert report.violated
    assert "along the difference of the inputs" in report.event


def test_an_atom_under_one_input_alone_is_found():
    """Kept exactly with probability 0.05, else noise of a tiny epsilon.

    Over 12 seeds, the bound was 3.66 to 3.91. It is below 3.4 if fewer than 140 of
    4,000 outputs are kept, which has a probability below 1e-5.
    """
    rng = np.random.default_rng(0)

    def mechanism(x, n):
        noise = rng.integers(-10_000, 10_000, (n, 1))
        return np.where(rng.random((n, 1)) < 0.05, x, noise + 0.5)

    report = audit_mechanism(
        mechanism, [0.0], [1.0], epsilon=1.0, n_trials=8_000, batched=True
    )
    assert report.violated
    assert report.epsilon_lower > 3.4


ESTIMATOR = {"X": [[0, 0], [1, 1]], "X_neighbour": [[0, 0], [1, 1]]}
ESTIMATOR |= {"y": [0.0, 0.5], "y_neighbour": [1.0, 0.5], "random_state": 0}


@slow
def test_a_true_estimator_is_not_refuted():
    # At rank 1, noise decides whether a term stays, and outputs must have one size.
    model = CPCompletion(0, epsilon=2.0, value_bounds=(0, 1), max_iter=2)
    report = audit_estimator(model, **ESTIMATOR, n_trials=700, confidence=1 - 1e-4)
    assert report.claimed == pytest.approx(2.0, rel=1e-5)
    assert 0.5 < report.epsilon_lower <= 2.0


@pytest.mark.parametrize(
    "where", ["_hidden", *(pytest.param(w, marks=slow) for w in ("mean_", "_mean"))]
)
def test_estimator_over_everything_that_it_releases(where):
    class Leaky(CPCompletion):
        def fit(self, X, y):
            super().fit(X, y)
            mean = float(np.mean(y))
            setattr(self, where, {"of": [mean]} if where == "_hidden" else mean)
            return self

    leaky = Leaky(0, epsilon=2.0, value_bounds=(0, 1), max_iter=1)
    assert audit_estimator(leaky, **ESTIMATOR, n_trials=100).violated


def test_release_may_be_chosen():
    model = CPCompletion(0, epsilon=8.0, value_bounds=(0, 1), max_iter=1)
    report = audit_estimator(
        model, **ESTIMATOR, n_trials=100, release=lambda fitted: [1.0, 2.0], epsilon=0.1
    )
    assert report.epsilon_lower <= 0.1
    assert report.claimed == 0.1


def test_an_estimator_without_random_state_is_refused():
    with pytest.raises(ValueError, match="or use audit_mechanism"):
        audit_estimator(StandardScaler(), [[0.0]], [[1.0]])


def test_one_run_with_many_canaries():
    rng = np.random.default_rng(0)
    for epsilon in (1.0, 4.0):
        keep = 1 / (1 + math.exp(-epsilon))
        report = audit_one_run(
            lambda bits, keep=keep: np.where(rng.random(bits.size) < keep, bits, ~bits),
            3000, epsilon=epsilon, random_state=0,
        )  # fmt: skip
        assert 0.8 * epsilon < report.epsilon_lower <= epsilon
    report = audit_one_run(lambda bits: bits, 100, epsilon=1.0, random_state=0)
    assert report.violated


def test_one_run_by_the_trade_off_curve():
    """Proves more of Gaussian noise than (epsilon, delta) does, and says how."""
    delta = 1e-5
    options = {"n_guesses": 200, "delta": delta, "random_state": 0}

    def run(bits):
        return bits + np.random.default_rng(1).standard_normal(bits.size)

    plain = audit_one_run(run, 2000, **options)
    curve = audit_one_run(run, 2000, gaussian=True, **options)
    assert 1.2 * plain.epsilon_lower < curve.epsilon_lower < epsilon_of_mu(1.0, delta)
    assert plain.mu_lower is None
    assert curve.epsilon_lower == epsilon_of_mu(curve.mu_lower, delta)
    assert "for Gaussian noise" in str(curve)


@pytest.mark.parametrize(("delta", "by_curve"), [(0.0, False), (1e-3, True)])
def test_one_run_takes_the_theorem_that_should_prove_more(delta, by_curve):
    """Decided by the claim: with a large delta, trade-off curves prove more."""
    numbers = 100, 100, 1000
    plain = lower_epsilon_of_guesses(*numbers, delta, 0.05)
    curve = curve_bound_of_guesses(*numbers, Pure(delta), 0.05)
    report = audit_one_run(
        lambda bits: bits, 1000, epsilon=2.0, delta=delta, n_guesses=100, random_state=0
    )
    assert report.epsilon_lower == pytest.approx(curve if by_curve else plain)
    assert (curve > 1.5 * plain) == by_curve


@pytest.mark.parametrize(
    "options",
    [{"delta": 1.0}, {"delta": -0.1}, {"epsilon": -1.0}, {"confidence": 1.0},
     {"n_trials": 10}],
)  # fmt: skip
def test_wrong_parameters(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        audit_mechanism(lambda x: x, [0.0], [1.0], **{"n_trials": 50, **options})


@pytest.mark.parametrize(
    ("mechanism", "n_trials", "match"),
    [
        (CPCompletion(), 50, "call audit_estimator"),
        (lambda x: x, 1e4, r"n_trials must be an integer, got 10000\.0"),
    ],
)
def test_wrong_types(mechanism, n_trials, match):
    with pytest.raises(TypeError, match=match):
        audit_mechanism(mechanism, [0.0], [1.0], n_trials=n_trials)


@pytest.mark.parametrize("output", ["yes", None, []])
def test_outputs_without_numbers_are_refused(output):
    with pytest.raises(ValueError, match=r"returned no numbers\. Return at least"):
        audit_mechanism(lambda x: output, 0, 1, n_trials=50)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("missing", [math.nan, math.inf])
def test_outputs_that_are_not_finite_are_refused(missing, batched):
    def sometimes(x, n=1):
        return np.where(np.arange(n) == n - 1, missing, x)[:, np.newaxis]

    with pytest.raises(ValueError, match=r"NaN or infinite\. Return a number"):
        audit_mechanism(sometimes, 0.0, 1.0, n_trials=50, batched=batched)


def test_outputs_of_changing_size_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="size from run to run"):
        audit_mechanism(lambda x: np.ones(rng.integers(1, 4)), 0, 1, n_trials=50)
    with pytest.raises(ValueError, match="two inputs differ in size"):
        audit_mechanism(lambda x: np.ones(x), 1, 2, n_trials=50)
    with pytest.raises(ValueError, match="returned 7 rows"):
        audit_mechanism(lambda x, n: np.ones(7), 1, 2, n_trials=50, batched=True)


@pytest.mark.parametrize(
    "options", [{"n_guesses": 0}, {"n_guesses": 11}, {"delta": 2}, {"confidence": 0}]
)
def test_wrong_parameters_of_one_run(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        audit_one_run(lambda bits: bits, 10, **options)
    with pytest.raises(ValueError, match="3 scores"):
        audit_one_run(lambda bits: bits[:3], 10)


def test_report():
    report = AuditReport(
        epsilon_lower=0.99999, mu_lower=None, confidence=0.95, delta=0.0, claimed=1.0,
        event="y < 3", n_trials=100,
    )  # fmt: skip
    assert not report.violated
    # Printed rounded down, never above what was found.
    assert "epsilon >= 0.9999 " in str(report)
    assert "&lt; 3" in report._repr_html_()
