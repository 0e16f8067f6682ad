"""What an attacker can achieve, against closed forms and the best of all attackers."""

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import beta

from sktensordp.mechanisms import GaussianMechanism
from sktensordp.privacy import epsilon_for_accuracy
from tests.support import events as E
from tests.support.guarantees import guarantee, pure

FPRS = [0.0, 1e-8, 1e-3, 0.05, 0.3, 0.6, 0.95, 1.0]
PRIORS = [0.001, 0.1, 0.4, 0.5, 0.7, 0.99]
NOTHING = guarantee(E.Nothing())
EVERYTHING = guarantee(E.NonPrivate())


def is_above(stated, exact, rel=1e-9):
    """Never below the exact value, and close to it."""
    assert stated >= exact * (1 - 4e-16)
    assert stated == pytest.approx(exact, rel=rel, abs=1e-15)


def gaussian_tpr(fpr, mu):
    """Phi(Phi^-1(fpr) + mu), with mpmath."""
    if fpr in (0, 1):
        return fpr
    with mpmath.workdps(40):
        # Between the quantiles of 1e-12 and 1 - 1e-12, and a start nearby.
        at = mpmath.findroot(
            lambda x: mpmath.log(mpmath.ncdf(x)) - mpmath.log(fpr), (-8, 3),
            solver="anderson", tol=1e-30,
        )  # fmt: skip
        return float(mpmath.ncdf(at + mu))


@pytest.mark.parametrize("mu", [0.1, 0.5, 2.0])
def test_gaussian_noise(mu):
    of_noise = guarantee(E.Gaussian(1 / mu), 1e-5)
    with mpmath.workdps(40):
        advantage = float(2 * mpmath.ncdf(mpmath.mpf(mu) / 2) - 1)
    is_above(of_noise.advantage(), advantage)
    is_above(of_noise.max_accuracy(), (1 + advantage) / 2)
    for fpr in FPRS:
        is_above(of_noise.max_tpr(fpr), gaussian_tpr(fpr, mu))
    for prior in PRIORS:
        with mpmath.workdps(40):
            # The attacker who compares the posterior odds with 1.
            t = mpmath.log((1 - mpmath.mpf(prior)) / prior) / mu + mpmath.mpf(mu) / 2
            right = prior * mpmath.ncdf(mu - t) + (1 - mpmath.mpf(prior)) * mpmath.ncdf(
                t
            )
        is_above(of_noise.max_accuracy(prior), float(right))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_randomised_response(epsilon):
    answer, grow = pure(epsilon), math.exp(epsilon)
    is_above(answer.advantage(), math.tanh(epsilon / 2))
    for fpr in FPRS:
        is_above(answer.max_tpr(fpr), min(grow * fpr, 1 - (1 - fpr) / grow))
    for prior in PRIORS:
        right = max(prior, 1 - prior, grow / (1 + grow))
        is_above(answer.max_accuracy(prior), right)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_laplace_noise(epsilon):
    noise, grow = guarantee(E.Laplace(1 / epsilon)), math.exp(epsilon)
    is_above(noise.advantage(), -math.expm1(-epsilon / 2))
    for fpr in FPRS:
        exact = grow * fpr if fpr <= math.exp(-epsilon) / 2 else None
        if fpr >= 0.5:
            exact = 1 - (1 - fpr) / grow
        elif exact is None:
            exact = 1 - math.exp(-epsilon) / (4 * fpr)
        is_above(noise.max_tpr(fpr), exact)


def best_accuracy(first, second, prior):
    """Of the attacker who knows both distributions, output by output."""
    return float(np.maximum(prior * first, (1 - prior) * second).sum())


def best_tpr(first, second, fpr):
    """Largest power of all tests, by the likelihood ratio, mixed at one output."""
    with np.errstate(divide="ignore"):
        order = np.argsort(-first / second)
    tpr = np.append(0.0, np.cumsum(first[order]))
    return float(np.interp(fpr, np.append(0.0, np.cumsum(second[order])), tpr))


TABLES = [
    ((7, 1, 2), (2, 7, 1)),
    ((90, 9, 1), (60, 39, 1)),
    ((5, 1, 1, 1), (1, 5, 1, 1), (1, 1, 5, 1)),
    ((10, 10, 1, 1), (1, 9, 6, 6)),
]


@pytest.mark.parametrize("weights", TABLES)
def test_the_best_of_all_attackers_on_a_table(weights):
    """Any pair of rows, in any order; half of the tables are asymmetric."""
    table = guarantee(E.Table(weights))
    rows = [np.array(row) / sum(row) for row in weights]
    pairs = [(p, q) for p in rows for q in rows if p is not q]
    for prior in PRIORS:
        exact = max(best_accuracy(p, q, prior) for p, q in pairs)
        is_above(table.max_accuracy(prior), exact)
    levels = np.linspace(0, 1, 201)
    for fpr in FPRS:
        exact = max(best_tpr(p, q, fpr) for p, q in pairs)
        assert table.max_tpr(fpr) >= exact * (1 - 1e-15)
        # Two attackers may toss a coin: the bound is the concave envelope of the best.
        curve = np.array([[best_tpr(p, q, a) for a in levels] for p, q in pairs])
        below = [a for a in levels if a <= fpr]
        above = [a for a in levels if a >= fpr]
        best = curve.max(axis=0)
        mixed = max(
            np.interp(fpr, [a, b], [best[levels == a][0], best[levels == b][0]])
            if b > a else best[levels == a][0]
            for a in below for b in above
        )  # fmt: skip
        assert table.max_tpr(fpr) == pytest.approx(max(mixed, exact), abs=4e-3)


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_attacks_keep_below_the_bound(scale):
    """A simulated attack, whose rates have confidence limits of 1 - 1e-7 each.

    With half of the noise, the limits contradict the bound.
    """
    n = 20_000
    mechanism = GaussianMechanism(2.0, delta=1e-5, sensitivity=1.0, random_state=0)
    X = np.repeat([0.0, 1.0], n).reshape(-1, 1)
    noisy = mechanism.fit_transform(X)
    noisy = (X + scale * (noisy - X))[:, 0]
    bound = mechanism.privacy_guarantee_
    violated = []
    for threshold in (0.5, 1.0, 2.0):
        wrong, right = (int(np.sum(part > threshold)) for part in np.split(noisy, 2))
        fpr = beta.isf(1e-7, wrong + 1, n - wrong)
        tpr = beta.ppf(1e-7, right, n - right + 1)
        violated.append(tpr > bound.max_tpr(fpr))
        if scale == 1.0:
            assert right / n >= 0.9 * bound.max_tpr(wrong / n)
    assert any(violated) == (scale < 1)


@pytest.mark.parametrize("prior", [0.01, 0.3, 0.9])
def test_predictive_values_are_those_of_bayes(prior):
    of_noise = guarantee(E.Gaussian(1.0), 1e-5)
    for fpr in (1e-6, 0.05, 0.7):
        tpr = of_noise.max_tpr(fpr)
        positive, negative = of_noise.predictive_values(prior, fpr)
        confirmed = prior * tpr + (1 - prior) * fpr
        is_above(positive, prior * tpr / confirmed, rel=1e-12)
        is_above(negative, (1 - prior) * (1 - fpr) / (1 - confirmed), rel=1e-12)
    # At the ends, by their limits: an unbounded likelihood ratio, or e^epsilon.
    assert of_noise.predictive_values(prior, 0.0).positive == 1
    assert of_noise.predictive_values(prior, 1.0).negative == 1
    odds, answer = prior / (1 - prior), pure(1.0)
    is_above(answer.predictive_values(prior, 0.0)[0], 1 / (1 + 1 / (math.e * odds)))
    is_above(answer.predictive_values(prior, 1.0)[1], 1 / (1 + odds / math.e))


def test_nothing_and_everything():
    for prior in PRIORS:
        is_above(NOTHING.max_accuracy(prior), max(prior, 1 - prior))
        assert EVERYTHING.max_accuracy(prior) == 1
        positive, negative = NOTHING.predictive_values(prior, 0.2)
        is_above(positive, prior)
        is_above(negative, 1 - prior)
        assert EVERYTHING.predictive_values(prior, 0.0) == (1, 1)
    for fpr in FPRS:
        is_above(NOTHING.max_tpr(fpr), fpr)
        assert EVERYTHING.max_tpr(fpr) == 1
    assert NOTHING.advantage() == 0
    assert EVERYTHING.advantage() == 1


def test_rates_rise_and_groups_are_at_more_risk():
    person = guarantee(E.Gaussian(2.0), 1e-5)
    household = person.for_group(4)
    rates = [person.max_tpr(fpr) for fpr in FPRS]
    assert rates == sorted(rates)
    assert household.max_accuracy() > person.max_accuracy()
    with mpmath.workdps(30):
        is_above(household.advantage(), float(2 * mpmath.ncdf(1) - 1))


@pytest.mark.parametrize("accuracy", [0.5001, 0.6, 0.9, 0.9999])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-4])
def test_epsilon_for_accuracy_inverts_the_worst_curve(accuracy, delta):
    epsilon = epsilon_for_accuracy(accuracy, delta)
    grow = math.exp(epsilon)
    # Delta reveals everything, and the rest is randomised response.
    assert (grow + delta) / (grow + 1) <= accuracy
    worst = guarantee(E.Revealing(delta, E.Pure(epsilon)), delta)
    assert worst.max_accuracy() == pytest.approx(accuracy, rel=1e-12)


def test_epsilon_for_accuracy_takes_delta_for_no_epsilon():
    assert epsilon_for_accuracy(0.6) == pytest.approx(math.log(1.5), rel=1e-12)
    with pytest.raises(ValueError, match="no epsilon keeps the accuracy"):
        epsilon_for_accuracy(0.6, delta=0.2001)
    with pytest.raises(ValueError, match="delta must be >= 0"):
        epsilon_for_accuracy(0.6, delta=-1e-9)


OF_PRIORS = r"prior must be in \(0, 1\)", (0.0, 1.0, -0.1, 2)
OF_FPRS = r"fpr must be in \[0, 1\]", (-1e-9, 1.1)


@pytest.mark.parametrize(
    ("message", "values", "call"),
    [
        (r"accuracy must be in \(0.5, 1\)", (0.5, 1, 0, -1, 2), epsilon_for_accuracy),
        (*OF_PRIORS, NOTHING.max_accuracy),
        (*OF_PRIORS, lambda value: NOTHING.predictive_values(value, 0.1)),
        (*OF_FPRS, NOTHING.max_tpr),
        (*OF_FPRS, lambda value: NOTHING.predictive_values(0.5, value)),
    ],
)
def test_numbers_out_of_range_are_refused(message, values, call):
    for value in (*values, math.nan):
        with pytest.raises(ValueError, match=message):
            call(value)


@pytest.mark.parametrize("text", ["half", None, [0.5], np.array([0.5, 0.6])])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("prior", NOTHING.max_accuracy),
        ("prior", lambda value: NOTHING.predictive_values(value, 0.1)),
        ("fpr", lambda value: NOTHING.predictive_values(0.5, value)),
        ("fpr", NOTHING.max_tpr),
        ("accuracy", epsilon_for_accuracy),
        ("delta", lambda value: epsilon_for_accuracy(0.6, value)),
    ],
)
def test_what_is_no_number_is_refused_by_name(name, call, text):
    got = type(text).__name__
    with pytest.raises(TypeError, match=f"^{name} must be one number, got {got}"):
        call(text)
