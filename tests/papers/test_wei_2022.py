"""The published algorithms: to the letter, and what of their claims is true."""

import math
import warnings
from unittest import mock

import dask.array
import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from sktensordp.audit import audit_estimator
from sktensordp.exceptions import UnsoundClaimWarning
from sktensordp.noise import LaplaceLattice
from sktensordp.papers import PublishedCPCompletion, PublishedTuckerCompletion
from sktensordp.privacy import privacy_of
from tests.papers.test_descent import RANKS, reference
from tests.support.points import POINTS, original
from tests.support.refusing import refused
from tests.support.replaying import recorded

pytestmark = pytest.mark.thorough
NAMES = ["input", "gradient", "output"]
FALSE = ["gradient", "output"]
RNG = np.random.default_rng(0)
SHAPES = {2: (5, 6), 3: (5, 6, 4)}
WHERE = {
    order: np.column_stack([RNG.integers(0, n, 25) for n in shape])
    for order, shape in SHAPES.items()
}
VALUES = RNG.uniform(0, 1, 25)
# Audits of this file raise a false alarm with probability at most 1e-3 together.
CONFIDENCE = 1 - 1e-4


def make(name, form="CP", order=3, **params):
    estimator, rank = PublishedCPCompletion, 2
    if form == "Tucker":
        estimator, rank = PublishedTuckerCompletion, RANKS[order]
    options = {
        "rank": rank, "epsilon": 1.0, "value_bounds": (0, 1), "max_iter": 3,
        "random_state": 0, **params,
    }  # fmt: skip
    return estimator(perturbation=name, **options)


# --- to the letter -----------------------------------------------------------------


def drawn_by(model, where, values):
    """What a fit drew: the start, the values' noise, and that of rows, in their order.

    With the generators as they are; nothing is put in their place.
    """
    starts, noisy, rows = [], [], []
    generator, spherical = original("generator of a start"), original("spherical rows")
    randomize = LaplaceLattice.randomize

    class Noted:
        def __init__(self, inner):
            self._inner = inner

        def random(self, size):
            starts.append(self._inner.random(size))
            return starts[-1].copy()

        def __getattr__(self, name):
            return getattr(self._inner, name)

    def note_values(lattice, values, bits, **options):
        noisy.append(randomize(lattice, values, bits, **options))
        return noisy[-1].copy()

    def note_rows(*args):
        rows.append((spherical(*args), args[1:]))
        return rows[-1][0].copy()

    with (
        mock.patch.object(
            *POINTS["generator of a start"], lambda *a: Noted(generator(*a))
        ),
        mock.patch.object(LaplaceLattice, "randomize", note_values),
        mock.patch.object(*POINTS["spherical rows"], note_rows),
    ):
        model.fit(where, values)
    return starts, noisy, rows


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("form", ["CP", "Tucker"])
@pytest.mark.parametrize("name", NAMES)
def test_the_algorithm_is_the_published_one(name, form, order):
    """The descent of Eq. 6 or 7, and noise of the published scale where it belongs.

    Algorithm 1 gives Laplace noise of the range over epsilon to the values, Algorithm 2
    noise of scale 2 m / epsilon to the clipped gradients of the last factor, Algorithm
    3 noise of scale 2 tau L eta / epsilon to the last factor at the end.
    """
    options = {"regularization": 0.05, "learning_rate": 0.02, "gradient_clip": 0.1}
    if form == "Tucker":
        options["core_regularization"] = 0.2
    model = make(name, form, order, epsilon=0.5, **options)
    starts, noisy, rows = drawn_by(model, WHERE[order], VALUES)
    assert len(noisy) == (name == "input")
    drawn = {
        "input": [],
        # A vector for every entry in every iteration.
        "gradient": 3 * [((25, 2), 2 * 0.1 / 0.5)],
        "output": [((SHAPES[order][-1], 2), 2 * 3 * 0.1 * 0.02 / 0.5)],
    }
    assert [shape for _, (shape, _) in rows] == [shape for shape, _ in drawn[name]]
    for (_, (_, scale)), (_, expected) in zip(rows, drawn[name], strict=True):
        assert scale == pytest.approx(expected, rel=1e-14)
    values = noisy[0] if noisy else VALUES
    options = {
        "rate": 0.02, "ridge": 0.05, "n_passes": 3, "clip": 0.1,
        "noise": (lambda step: rows[step][0]) if name == "gradient" else None,
    }  # fmt: skip
    if form == "Tucker":
        options["core_ridge"] = 0.2
    expected = reference(WHERE[order], values, starts, **options)
    if form == "Tucker":
        core = expected.pop().reshape(RANKS[order])
        np.testing.assert_allclose(model.decomposition_.core, core, rtol=1e-9)
    if name == "output":
        expected[-1] += rows[0][0]
    for found, factor in zip(model.factors_, expected, strict=True):
        np.testing.assert_allclose(found, factor, rtol=1e-9)
    assert model.offset_ == 0


def noise_of(model):
    """Noise that a fit of a tensor with many rows took, for nothing but zeros."""
    where = np.column_stack([np.arange(4000) % 5, np.arange(4000)])
    _, noisy, rows = drawn_by(model, where, np.zeros(4000))
    return noisy[0] if noisy else rows[0][0]


def score(model, law):
    """P-value of Kolmogorov and Smirnov for the lengths of the noise's rows."""
    noise = noise_of(model)
    lengths = noise if noise.ndim == 1 else np.linalg.norm(noise, axis=1)
    return stats.kstest(lengths, law.cdf).pvalue


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("name", FALSE)
def test_lengths_follow_the_exponential_mechanism(name, rank):
    """Density exp(-eps |n| / Delta) of vectors: lengths are Gamma(d, Delta / eps).

    A false alarm in 1e-6 for each; the seed is fixed.
    """
    params = {"rank": rank, "gradient_clip": 0.3, "learning_rate": 0.01, "max_iter": 2}
    sensitivity = 2 * 0.3 if name == "gradient" else 2 * 2 * 0.3 * 0.01
    law = stats.gamma(rank, scale=sensitivity / 0.5)
    assert score(make(name, epsilon=0.5, **params), law) > 1e-6
    # Half and twice the scale are found out, and so are normal rows of that variance.
    assert score(make(name, epsilon=1.0, **params), law) < 1e-6
    assert score(make(name, epsilon=0.25, **params), law) < 1e-6
    normal = law.std() * np.random.default_rng(0).standard_normal((4000, rank))
    assert stats.kstest(np.linalg.norm(normal, axis=1), law.cdf).pvalue < 1e-6


def test_directions_are_uniform():
    """Sum of unit vectors, a false alarm in 1e-9; and angles, in 1e-6."""
    noise = noise_of(make("gradient"))
    units = noise / np.linalg.norm(noise, axis=1, keepdims=True)
    # The squared sum over n/2 is about chi-squared with two degrees of freedom.
    assert np.sum(units.sum(axis=0) ** 2) / 2000 < stats.chi2(2).isf(1e-9)
    angles = np.arctan2(*units.T) / (2 * np.pi) + 0.5
    assert stats.kstest(angles, "uniform").pvalue > 1e-6
    # Rows do not depend on those of another pass.
    _, _, rows = drawn_by(make("gradient"), WHERE[2], VALUES)
    assert not np.any(np.isin(rows[0][0], rows[1][0]))


def test_noise_of_values_is_that_of_laplace():
    """A false alarm in 1e-6, for a range of two."""
    law = stats.laplace(scale=2 / 0.5)
    # So slow that it does not diverge.
    options = {"epsilon": 0.5, "learning_rate": 1e-6, "value_bounds": (-1, 1)}
    model = make("input", **options)
    assert score(model, law) > 1e-6
    assert score(model.set_params(epsilon=1.0), law) < 1e-6


@pytest.mark.parametrize("form", ["CP", "Tucker"])
def test_starts_are_uniform(form):
    params = {"rank": 4} if form == "CP" else {}
    starts, _, _ = drawn_by(make("output", form, **params), WHERE[3], VALUES)
    together = np.concatenate([start.ravel() for start in starts])
    assert stats.kstest(together, "uniform").pvalue > 1e-6
    if form == "CP":
        assert [start.shape for start in starts] == [(n, 4) for n in SHAPES[3]]


@pytest.mark.parametrize("name", NAMES)
def test_claims_for_tuckers_are_those_for_cps(name):
    """What is false leaves the core without noise, too."""
    one, two = (make(name, form).fit(WHERE[3], VALUES) for form in ("CP", "Tucker"))
    guarantee = two.privacy_guarantee_
    assert guarantee == one.privacy_guarantee_
    assert (guarantee.epsilon == math.inf) == (name in FALSE)
    assert ("the core of a Tucker" in guarantee.statement) == (name in FALSE)


# --- claims ------------------------------------------------------------------------


@pytest.mark.parametrize("name", FALSE)
def test_false_claims_are_named(name):
    model = make(name)
    with pytest.warns(UnsoundClaimWarning, match="does not hold"):
        model.fit(WHERE[3], VALUES)
    guarantee = model.privacy_guarantee_
    assert guarantee.epsilon == math.inf
    assert guarantee.claimed == (1.0, 0.0)
    assert guarantee.delta_at(100.0) == 1
    assert privacy_of(model).guarantee.epsilon == math.inf
    assert "no finite epsilon holds" in str(guarantee)
    assert "the claim was (epsilon = 1, delta = 0)" in str(guarantee)


def test_the_true_claim_holds():
    model = make("input").fit(WHERE[3], VALUES)
    guarantee = model.privacy_guarantee_
    assert 1 - 1e-3 < guarantee.epsilon <= 1
    assert guarantee.delta == 0
    assert guarantee.claimed is None
    for epsilon in (0.01, 30.0):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnsoundClaimWarning)
            found = make("input", epsilon=epsilon, learning_rate=1e-6)
            found.fit(WHERE[3], VALUES)
        assert found.privacy_guarantee_.epsilon <= epsilon


@pytest.mark.parametrize("form", ["CP", "Tucker"])
@pytest.mark.parametrize("name", NAMES)
def test_without_noise_all_are_the_plain_descent(name, form):
    """From the same random start; of "gradient" without clipping, too."""
    free = make(name, form, epsilon=math.inf)
    starts, noisy, rows = drawn_by(free, WHERE[3], VALUES)
    assert not noisy
    assert not rows
    options = {
        "rate": free.learning_rate, "ridge": 0.01, "n_passes": 3, "clip": 1.0,
        "noise": None,
    }  # fmt: skip
    if form == "Tucker":
        options["core_ridge"] = free.core_regularization
    expected = reference(WHERE[3], VALUES, starts, **options)
    for found, factor in zip(free.factors_, expected[:3], strict=True):
        np.testing.assert_allclose(found, factor, rtol=1e-9)
    with recorded(factor=0.0):
        silent = make(name, form, gradient_clip=1e9).fit(WHERE[3], VALUES)
    for one, two in zip(free.factors_, silent.factors_, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)


@pytest.mark.parametrize("form", ["CP", "Tucker"])
def test_noisy_values_are_clamped(form):
    """Section 4.2: after the noise and before the descent, at no cost."""
    models = [make("input", form, epsilon=0.5, clamp=clamp) for clamp in (False, True)]
    (starts, (noisy,), _), _ = (drawn_by(m, WHERE[3], VALUES) for m in models)
    plain, clamped = models
    assert np.ptp(noisy) > 3
    options = {"rate": clamped.learning_rate, "ridge": 0.01, "n_passes": 3}
    if form == "Tucker":
        options["core_ridge"] = clamped.core_regularization
    expected = reference(
        WHERE[3], noisy.clip(0, 1), starts, clip=1.0, noise=None, **options
    )
    for found, factor in zip(clamped.factors_, expected[:3], strict=True):
        np.testing.assert_allclose(found, factor, rtol=1e-9)
    assert clamped.privacy_guarantee_ == plain.privacy_guarantee_
    for name in FALSE:
        with refused("clamp is for noisy values"):
            make(name, form, clamp=True).fit(WHERE[3], VALUES)


@pytest.mark.parametrize("name", [*NAMES, "auto", "sums", "statistics"])
def test_what_was_not_published_is_refused_before_anything_is_drawn(name):
    message = "'rank' parameter" if name in NAMES else "'perturbation'"
    with refused(message):
        make(name, rank=0).fit(WHERE[2], VALUES)


@pytest.mark.parametrize("rate", [1e3, 1e150])
@pytest.mark.parametrize("form", ["CP", "Tucker"])
@pytest.mark.parametrize("name", NAMES)
def test_what_diverges_ends_finite_and_warns(name, form, rate):
    # A clip as large as the gradients, so that noise does not hold them back.
    clip = 0.5 if name == "output" else 1e300 / rate
    model = make(name, form, learning_rate=rate, gradient_clip=clip, max_iter=20)
    with pytest.warns(ConvergenceWarning, match="smaller learning_rate"):
        model.fit(WHERE[3], VALUES)
    assert all(np.all(np.isfinite(factor)) for factor in model.factors_)
    assert np.all(np.isfinite(model.predict(WHERE[3])))
    assert model.n_iter_ >= 1


# --- attacks -----------------------------------------------------------------------

# One entry in a row and a column of its own, and another.
X, LOW, HIGH = [[0, 0, 0], [1, 1, 1]], [0.0, 0.5], [1.0, 0.5]


def attack(name, *, n_trials=120, release=None, **params):
    """The un-noised row of the first factor that the entry is in; a random start."""
    model = make(
        name, rank=1, max_iter=60, random_state=None,
        **{"learning_rate": 0.1, **params},
    )  # fmt: skip
    return audit_estimator(
        model, X, X, LOW, HIGH, epsilon=params["epsilon"], delta=0.0,
        release=release or (lambda m: m.factors_[0][0]), n_trials=n_trials,
        confidence=CONFIDENCE,
    )  # fmt: skip


# Starts and noise are those of the operating system here: a rare fit may diverge.
may_diverge = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning"
)


@pytest.mark.slow
@pytest.mark.parametrize("name", FALSE)
@may_diverge
def test_false_claims_are_refuted(name):
    report = attack(name, epsilon=0.1, gradient_clip=1e-3)
    assert report.violated, report
    assert report.epsilon_lower > 1.0, report


@pytest.mark.slow
@may_diverge
def test_the_true_claim_is_not():
    # So slow that values of a hundred times the range leave it in the range of numbers.
    report = attack("input", epsilon=0.1, learning_rate=1e-3)
    assert not report.violated, report


@pytest.mark.slow
@may_diverge
def test_the_attack_finds_values_that_have_no_noise():
    """Of Algorithm 1, too, with a hundredth of its noise."""
    randomize = LaplaceLattice.randomize

    def too_little(lattice, values, bits, **options):
        return values + (randomize(lattice, values.copy(), bits) - values) / 100

    with mock.patch.object(LaplaceLattice, "randomize", too_little):
        report = attack("input", epsilon=0.1)
    assert report.violated, report


@pytest.mark.parametrize("form", ["CP", "Tucker"])
def test_one_pass_from_a_known_start_reveals_the_value(form):
    """Not to a small error: exactly, from the first factor of Algorithms 2 and 3."""
    for name in FALSE:
        model = make(name, form, max_iter=1, epsilon=1e-3, regularization=0.0)
        if form == "Tucker":
            model.set_params(core_regularization=0.0, shape=SHAPES[3])
        where = np.array([[2, 3, 1]])
        starts, _, _ = drawn_by(model, where, np.array([0.7234567]))
        a, b, c = (s[i] for s, i in zip(starts, (2, 3, 1), strict=False))
        core = np.einsum("pq,pt->pqt", np.eye(2), np.eye(2))
        if form == "Tucker":
            core = starts[3].reshape(RANKS[3])
        h = np.einsum("pqt,q,t->p", core, b, c)
        moved = (model.factors_[0][2] - a) / model.learning_rate
        np.testing.assert_allclose(moved / (2 * h) + h @ a, 0.7234567, atol=1e-9)


# --- the estimator -----------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_there_is_no_residual_variance(name):
    model = make(name).fit(WHERE[3], VALUES)
    assert not hasattr(model, "noise_variance_")
    assert not hasattr(model, "residual_variance_")


def test_a_search_counts_what_is_true():
    model = make("input", shape=SHAPES[2])
    search = GridSearchCV(model, {"epsilon": [0.5, 2.0]}, cv=3)
    search.fit(WHERE[2], VALUES)
    spent = 2 * (0.5 + 2.0) + search.best_params_["epsilon"]
    assert privacy_of(search).guarantee.epsilon == pytest.approx(spent, rel=1e-3)
    grid = {"perturbation": ["input", "output"]}
    search = GridSearchCV(model, grid, cv=3).fit(WHERE[2], VALUES)
    assert privacy_of(search).guarantee.epsilon == math.inf


def test_what_the_papers_lack_is_refused():
    model = make("input").fit(WHERE[3], VALUES)
    for name in ("partial_fit", "fold_in", "client", "fit_randomized", "party"):
        assert not hasattr(model, name)
    X, y = dask.array.from_array(WHERE[3]), dask.array.from_array(VALUES)
    with refused("do not support Dask"):
        make("input").fit(X, y)


@pytest.mark.parametrize("perturbation", ["input", "gradient", "output"])
def test_no_parameter_is_said_to_be_unused(perturbation):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UnsoundClaimWarning)
        make(perturbation, shape=SHAPES[2], rank=1, max_iter=3).fit(WHERE[2], VALUES)
