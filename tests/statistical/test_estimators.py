"""Every public estimator is audited below its guarantee.

Estimators are discovered, so that a new one cannot be forgotten. Each is audited on
worst-case neighbours of a tiny data set, over everything that it releases. All audits
of a run together raise a false alarm with probability at most 1e-3. By default there
are few trials; in full:

    python -m pytest tests/statistical --audit-trials 20000
"""

import inspect
import itertools
import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from sktensordp import mechanisms as ms
from sktensordp import papers
from sktensordp.audit import audit_estimator, audit_mechanism, audit_one_run
from sktensordp.completion import CPCompletion, TuckerCompletion
from sktensordp.datasets import make_ratings
from sktensordp.encoding import TaskAgnosticEncoder, TaskAwareEncoder
from tests.support.every_estimator import CASES as EVERY_CASE
from tests.support.every_estimator import CORNERS, ENDS
from tests.support.public import public_estimators

pytestmark = pytest.mark.thorough
FALSE_ALARMS = 1e-3

# Two entries of a matrix; neighbours differ in the value of the first. The first case
# of an estimator is audited in the first tier.
X, LOW, HIGH = [[0, 0], [1, 1]], [0.0, 0.5], [1.0, 0.5]
TENSOR = [[0, 0, 0], [1, 1, 0]]
LEVELS, FINE = [0, 0.5, 1], np.linspace(0, 1, 41)
CASES = [
    ("table", CPCompletion(0, levels=LEVELS, max_iter=1), X),
    ("Laplace", CPCompletion(1, value_bounds=(0, 1), max_iter=2), X),
    ("fine levels", CPCompletion(0, levels=FINE, max_iter=1), TENSOR),
    ("sums", CPCompletion(0, perturbation="sums", value_bounds=(0, 1)), X),
    (
        "sums, own answers",
        CPCompletion(0, perturbation="sums", value_bounds=(0, 1), personal=True),
        X,
    ),
    ("table", TuckerCompletion(0, levels=LEVELS, max_iter=1), X),
    ("core", TuckerCompletion(1, levels=LEVELS, max_iter=2), X),
    ("sums", papers.BiScaler(value_bounds=(0, 1)), X),
]
# Transformers release at every transform, each row on its own: neighbours are two rows,
# opposite corners of the declared box, where the noise is least, or ends of the ball.
DIAGONAL = np.full(3, -(3**-0.5)), np.full(3, 3**-0.5)
ONE_CELL = np.zeros(4), np.array([1.0, 0, 0, 0])
BOX = {"bounds": (0, 1)}
GAUSSIAN_BOX = {**BOX, "delta": 1e-5}
ROTATION = np.array([[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, 1]])
TURNED = {"utility": [[3, 2, 1], None], "directions": [ROTATION, None]}
RESPONSE = ms.TensorRandomizedResponse
TRANSFORMERS = [
    ("box", ms.LaplaceMechanism(**BOX), CORNERS),
    ("ball", ms.LaplaceMechanism(norm_bound=1.0), DIAGONAL),
    ("box", ms.GaussianMechanism(**GAUSSIAN_BOX), CORNERS),
    ("ball", ms.GaussianMechanism(delta=1e-5, norm_bound=1.0), ENDS),
    ("query", ms.GaussianMechanism(delta=1e-5, sensitivity=2.0), ENDS),
    *(
        (label, ms.TensorVariateGaussian(**GAUSSIAN_BOX, **params), CORNERS)
        for label, params in {
            "weights": {"utility": [[3, 2, 1], [1, 0.2]]}, "directions": TURNED,
        }.items()
    ),
    (
        "box and ball",
        ms.TensorVariateGaussian(
            delta=1e-5, bounds=(-1, 1), norm_bound=1.0, utility=[[3, 2, 1]]
        ),
        ENDS,
    ),
    ("weights", ms.MatrixGaussian(**GAUSSIAN_BOX, utility=[[3, 2, 1], None]), CORNERS),
    (
        "weights", ms.IndependentDirectionalNoise(**GAUSSIAN_BOX, utility=[3, 2, 1]),
        CORNERS,
    ),
    ("box", papers.PublishedMatrixGaussian(**GAUSSIAN_BOX), CORNERS),
    (
        "weights",
        ms.UnimodalDirectionalNoise(**GAUSSIAN_BOX, mode=1, utility=[1, 0.1]), CORNERS,
    ),
    ("box", papers.PublishedIndependentDirectionalNoise(**GAUSSIAN_BOX), CORNERS),
    (
        "covariance",
        papers.MatrixVariateGaussian(
            **GAUSSIAN_BOX, row_covariance=[[2, 1, 0], [1, 2, 0], [0, 0, 1]]
        ),
        CORNERS,
    ),
    (
        "running totals",
        ms.MatrixMechanism(delta=1e-5, workload=np.tril(np.ones((4, 4)))), ONE_CELL,
    ),
    *(
        (noise, RESPONSE(**BOX, n_levels=5, noise=noise), CORNERS)
        for noise in ("laplace", "gaussian", "geometric", "wrapped")
    ),
    (
        "weights and delta",
        RESPONSE(**GAUSSIAN_BOX, n_levels=3, weights=[1, 0.5, 0]), CORNERS,
    ),
    (
        "far apart on a circle", RESPONSE(**BOX, n_levels=4, noise="wrapped"),
        (np.zeros((3, 2)), np.full((3, 2), 2 / 3)),
    ),
    ("box", ms.HybridMechanism(**BOX), CORNERS),
    ("box", ms.PrivUnit(**BOX), CORNERS),
    ("ball", ms.PrivUnit(norm_bound=1.0), ENDS),
]  # fmt: skip
# Encoders are fitted to people who consent; neighbours are two rows far from them.
CONSENTING = np.random.default_rng(0).normal(size=(100, 3))
FAR = np.array([1e9, 1e9, 0.0]), np.array([-1e9, -1e9, 0.0])
LEARNED = LogisticRegression().fit(CONSENTING, CONSENTING[:, 0] > 0)
CODE = {"task": [[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]], "output": "code"}
ENCODERS = [
    *(
        TaskAwareEncoder(mechanism=name, **CODE)
        for name in ("laplace", "l2", "privunit")
    ),
    TaskAwareEncoder(mechanism="gaussian", delta=1e-5, **CODE),
    *(
        TaskAwareEncoder(task=LEARNED, encoder=kind, n_components=1, output="code")
        for kind in ("linear", "mlp")
    ),
    TaskAgnosticEncoder(**CODE),
    papers.PrivacyAgnosticEncoder(mechanism="l2", **CODE),
]
# Choices have no values; they are audited in test_units.py. What protects people in a
# fit is audited in tests/moments.
ELSEWHERE = {
    "ImplicitCompletion", "MultilinearPCA", "MultilinearRidge",
    "MultilinearRidgeClassifier", "TensorCounts",
    # Of these no epsilon holds, or they are audited in tests/papers.
    "PublishedCPCompletion", "PublishedTuckerCompletion",
    "PublishedTensorRandomizedResponse", "PublishedTaskAwareEncoder",
    "PublishedTaskAgnosticEncoder", "PublishedPrivacyAgnosticEncoder",
    # The noise of these is that of the published cases here, with other variances. Its
    # divergence is computed in tests/mechanisms/test_guarantees.py.
    "PublishedTensorVariateGaussian", "PublishedUnimodalDirectionalNoise",
    "PublishedMatrixVariateGaussian",
}  # fmt: skip


def names(*lists):
    """Names of the classes of all instances."""
    return {type(one).__name__ for one in itertools.chain(*lists)}


def audited():
    """Names of the estimators that are audited here."""
    return names(
        ENCODERS, *([one[1] for one in part] for part in (CASES, TRANSFORMERS))
    )


# A mechanism with no instance above is audited as its cases are.
LISTED = audited() | ELSEWHERE
TRANSFORMERS += [
    (case.label, clone(case.estimator), case.neighbours)
    for case in EVERY_CASE
    if case.private == "samples" and type(case.estimator).__name__ not in LISTED
]
# The first epsilon shows that too little noise is noticed; at the other, so many trials
# prove a good part of the claim.
EPSILONS = (0.7, 2.5)
slow = pytest.mark.slow
FIRST = {type(case[1]): case for case in reversed(CASES)}


def named(cases, marks=lambda case: [slow]):
    """All cases, with a name for each."""
    return [
        pytest.param(
            *case[1:], id=f"{type(case[1]).__name__}, {case[0]}", marks=marks(case)
        )
        for case in cases
    ]


AUDITS = named(CASES, lambda case: [slow] * (case not in FIRST.values()))
RELEASES = [
    pytest.param(*case.values, epsilon, id=f"{case.id}, {epsilon}", marks=marks)
    for case in named(TRANSFORMERS)
    for epsilon, marks in zip(EPSILONS, (slow, ()), strict=True)
]
N_ENCODERS = len(EPSILONS) * len(ENCODERS)
CONFIDENCE = 1 - FALSE_ALARMS / (len(AUDITS) + len(RELEASES) + N_ENCODERS)


def test_no_estimator_is_forgotten():
    private = {
        name
        for name, one in public_estimators().items()
        if "epsilon" in inspect.signature(one).parameters
    }
    assert private >= audited() | ELSEWHERE
    missing = private - audited() - ELSEWHERE
    assert not missing, (
        f"{missing} are not audited. Those with a case for samples in "
        "tests/support/every_estimator.py are. Others need an instance in `CASES` or "
        "`ENCODERS` of this file, or audits of their own, and their name in "
        "`ELSEWHERE`."
    )


def run(model, where, pytestconfig, **claim):
    trials = pytestconfig.getoption("--audit-trials")
    if isinstance(model, papers.BiScaler):
        trials *= 2  # with half of them, a sixth of its noise is not always noticed
    return audit_estimator(
        model, where, where, LOW, HIGH, n_trials=trials, random_state=0,
        confidence=CONFIDENCE, **claim,
    )  # fmt: skip


@pytest.mark.parametrize(("model", "where"), AUDITS)
def test_guarantee_holds(model, where, pytestconfig):
    epsilon = EPSILONS[0]
    report = run(model.set_params(epsilon=epsilon), where, pytestconfig)
    assert report.claimed == pytest.approx(epsilon, rel=1e-3)
    assert not report.violated, report
    if report.n_trials >= 5000:
        assert report.epsilon_lower > 0.5 * epsilon, report


@slow
@pytest.mark.parametrize(("model", "where"), named(FIRST.values()))
def test_the_audit_would_notice(model, where, pytestconfig):
    """A sixth of the noise, under the name of the claim, is caught."""
    epsilon = EPSILONS[0]
    model.set_params(epsilon=6 * epsilon)
    report = run(model, where, pytestconfig, epsilon=epsilon)
    assert report.violated, report


def score(mechanism, x, x_neighbour):
    """What tells two rows apart best: a likelihood ratio, from 5,000 other rows."""

    def transform(row, n):
        rows = mechanism.transform(np.repeat(row[np.newaxis], n, axis=0))
        return rows.reshape(n, -1)

    if isinstance(mechanism, ms.LaplaceMechanism):
        low, high = np.minimum(x, x_neighbour), np.maximum(x, x_neighbour)
        clip = low.ravel(), high.ravel()
        return lambda rows: np.clip(rows, *clip).sum(axis=1)
    exact = clone(mechanism).set_params(epsilon=math.inf).fit(x[np.newaxis])
    difference = exact.transform(np.stack([x_neighbour, x])).reshape(2, -1)
    covariance = np.atleast_2d(np.cov(transform(x, 5000), rowvar=False))
    direction = np.linalg.solve(covariance, difference[0] - difference[1])
    return lambda rows: rows @ direction


def run_rows(mechanism, x, x_neighbour, pytestconfig, epsilon):
    """Audit rows of one call, a hundred or more for each fit of a completion."""
    delta = getattr(mechanism, "delta", 0.0)
    mechanism.set_params(random_state=0).fit(x[np.newaxis])
    return audit_mechanism(
        lambda row, n: mechanism.transform(np.repeat(row[np.newaxis], n, axis=0)),
        x, x_neighbour, epsilon=epsilon, delta=delta, confidence=CONFIDENCE,
        n_trials=100 * pytestconfig.getoption("--audit-trials"), batched=True,
        log_likelihood_ratio=score(mechanism, x, x_neighbour),
        gaussian=delta > 0 and not isinstance(mechanism, RESPONSE),
    )  # fmt: skip


@pytest.mark.parametrize(("mechanism", "neighbours", "epsilon"), RELEASES)
def test_release_keeps_its_guarantee(mechanism, neighbours, epsilon, pytestconfig):
    mechanism.set_params(epsilon=epsilon)
    guarantee = mechanism.fit(neighbours[0][np.newaxis]).privacy_guarantee_
    report = run_rows(mechanism, *neighbours, pytestconfig, guarantee.epsilon)
    assert not report.violated, report
    if guarantee.claimed is None:
        assert guarantee.epsilon == epsilon
        # Exact calibrations need no less noise. An audit without mu shows less.
        visible = 0.3 if report.mu_lower is not None else 0.1
        assert report.epsilon_lower > visible * epsilon, report


@pytest.mark.parametrize(("mechanism", "neighbours"), named(TRANSFORMERS))
def test_the_audit_would_notice_a_release(mechanism, neighbours, pytestconfig):
    """The noise of six times the epsilon, under the epsilon that it should keep."""
    epsilon = EPSILONS[0]
    mechanism.set_params(epsilon=epsilon)
    true = mechanism.fit(neighbours[0][np.newaxis]).privacy_guarantee_.epsilon
    mechanism.set_params(epsilon=6 * epsilon)
    report = run_rows(mechanism, *neighbours, pytestconfig, true)
    assert report.violated, report


@pytest.mark.parametrize(
    ("epsilon", "levels"),
    [
        (2.0, True),
        (math.inf, False),
        *(pytest.param(*case, marks=slow) for case in [(2.0, False), (math.inf, True)]),
    ],
)
def test_one_run_on_real_size(epsilon, levels):
    """2,000 canaries among 40,000 ratings: each the one rating of a film of its own.

    One false alarm in 10,000 for each of the two private runs.
    """
    ratings = make_ratings(600, 2000, 40_000, random_state=0)
    rng = np.random.default_rng(0)
    n_canaries = 2000
    items = np.arange(2000, 2000 + n_canaries)
    canaries = np.column_stack([rng.integers(0, 600, n_canaries), items])
    domain = {"levels": ratings.levels} if levels else {"value_bounds": (0.5, 5)}

    def fit_and_score(bits):
        model = CPCompletion(5, epsilon=epsilon, max_iter=10, random_state=1, **domain)
        model.fit(
            np.concatenate([ratings.data, canaries]),
            np.concatenate([ratings.target, np.where(bits, 5.0, 0.5)]),
        )
        # What the released factors say of the canaries' own films.
        return model.factors_[1][items, 1]

    claim = 2.0 if math.isinf(epsilon) else epsilon
    report = audit_one_run(
        fit_and_score, n_canaries, epsilon=claim, confidence=1 - 1e-4, random_state=2
    )
    assert report.violated == math.isinf(epsilon), report
    assert report.epsilon_lower > 0.5, report


@pytest.mark.parametrize(
    "epsilon", [pytest.param(EPSILONS[0], marks=slow), EPSILONS[1]]
)
@pytest.mark.parametrize("encoder", ENCODERS, ids=str)
def test_encoder_keeps_its_guarantee(encoder, epsilon, pytestconfig):
    """For rows that no fit has seen; the audit would notice six times the epsilon."""
    for times in (1, 6):
        encoder = clone(encoder).set_params(epsilon=times * epsilon, random_state=0)
        encoder.fit(CONSENTING)

        def draw(row, n, encoder=encoder):
            return encoder.transform(np.repeat(row[np.newaxis], n, axis=0))

        direction = draw(FAR[1], 5000).mean(axis=0) - draw(FAR[0], 5000).mean(axis=0)
        report = audit_mechanism(
            draw, *FAR, epsilon=epsilon, delta=encoder.delta, confidence=CONFIDENCE,
            n_trials=100 * pytestconfig.getoption("--audit-trials"), batched=True,
            log_likelihood_ratio=lambda rows, along=direction: rows @ along,
            gaussian=encoder.delta > 0,
        )  # fmt: skip
        assert report.violated == (times > 1), report
