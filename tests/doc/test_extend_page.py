"""The page "How to extend": what it builds passes what it says that it passes.

The mechanism and the sums over people are made of the code on the page, as if they were
modules of the package. The mechanism goes through the tests that discovery would put it
through; of the sums, each protection is removed, and noticed.
"""

import importlib.util
import math
import re
import sys
import types
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path

import mpmath
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from sklearn.utils.estimator_checks import check_estimator

from sktensordp import mechanisms, moments
from sktensordp.audit import audit_estimator, audit_mechanism
from sktensordp.exceptions import BudgetExceededError
from sktensordp.noise import gaussian_lattice
from sktensordp.privacy import PrivacyBudget, compose, planned_guarantee, privacy_of
from tests import ROOT
from tests.hardening import test_extreme_neighbours as extreme
from tests.hardening import test_leaks as leaks
from tests.hardening import test_noise_reuse as reuse
from tests.statistical import test_estimators as statistical
from tests.support.divergence import exact_gaussian
from tests.support.every_estimator import BOX, ROWS, Case
from tests.support.points import POINTS
from tests.support.seams import NoiseStreams, gaussian_epsilon
from tests.support.walks import code_lines

pytestmark = pytest.mark.thorough
PAGE = (ROOT / "doc" / "extend.md").read_text()


def block(marker):
    return PAGE.split(f"<!-- {marker} -->\n```python\n")[1].split("```")[0]


def run(marker):
    names = {"__name__": "extend"}
    exec(compile(block(marker), "extend.md", "exec"), names)
    return names


@contextmanager
def module_of(code, package, name):
    """Code of a page, where it would be if it were a part of the package."""
    path = Path(package.__file__).with_name(f"{name}.py")
    spec = ModuleSpec(f"{package.__name__}.{name}", None, origin=str(path))
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, module)
        exec(compile(code, path, "exec"), vars(module))
        yield module


@contextmanager
def mechanism_of(code):
    with (
        module_of(code, mechanisms, "_one_bit") as module,
        pytest.MonkeyPatch.context() as patch,
    ):
        name = "OneBitMechanism"
        patch.setattr(mechanisms, name, getattr(module, name), raising=False)
        yield


def ticks_of(code):
    return module_of(code, moments, "_ticks")


@pytest.fixture(scope="module", autouse=True)
def parts():
    with mechanism_of(block("mechanism")), ticks_of(block("ticks")):
        yield


def the_case():
    """What the table says to add."""
    (row,) = re.findall(
        r"^\| `tests/support/every_estimator.py`, .*", PAGE, re.MULTILINE
    )
    names = {"mechanisms": mechanisms, "BOX": BOX}
    ((label, estimator),) = eval(f"{{{row.split('`')[5]}}}", names).items()
    return Case(estimator, (ROWS,), "samples", label)


@pytest.fixture
def case():
    return the_case()


def test_forty_lines():
    assert code_lines('"""A\n\nB."""\n\nx = [\n    1\n]  # one\n# two\n') == 3
    assert 30 < code_lines(block("mechanism")) <= 40
    assert 30 < code_lines(block("ticks")) <= 40


def test_scikit_learn(case):
    """Its own checks: those fail that are expected to, and no others."""
    expected = case.expected_failures
    results = check_estimator(
        case.estimator, expected_failed_checks=expected, on_skip=None
    )
    status = {one["check_name"]: one["status"] for one in results}
    assert {name for name, one in status.items() if one == "xfail"} == set(expected)
    assert sum(one == "passed" for one in status.values()) > 35


def test_leak_hunt(case, keys, streams, monkeypatch):
    leaks.test_nothing_is_kept(case, keys, streams)
    assert leaks.left_in_memory([case]) == []
    leaks.test_no_memory_is_released_that_was_not_written(case, monkeypatch)


def test_copies_and_threads_share_no_noise(case, tmp_path, streams):
    reuse.test_copies_and_threads_share_no_noise(case, tmp_path, streams)


def test_equal_samples_get_different_noise(case, streams):
    reuse.test_equal_samples_get_different_noise(case, streams)


def test_an_int_repeats_in_clones_alone(case):
    reuse.test_an_int_repeats_in_clones_alone(case)
    reuse.test_threads_do_not_matter_to_an_int(case)


def test_neighbours_look_alike(case):
    extreme.test_neighbours_look_alike(case, "f8")
    extreme.test_neighbours_look_alike(case, "f4")
    extreme.test_an_integer_beyond_floats_is_an_error_that_does_not_show_it(case)


@pytest.mark.parametrize("epsilon", statistical.EPSILONS)
def test_audit_of_the_suite(case, epsilon, pytestconfig):
    one = case.estimator, case.neighbours
    statistical.test_release_keeps_its_guarantee(*one, epsilon, pytestconfig)
    statistical.test_the_audit_would_notice_a_release(*one, pytestconfig)


def test_tests_of_its_own(divergence):
    names = run("tests")
    for epsilon in (0.1, 2.0, 30.0):
        names["test_event_covers_the_distribution"](epsilon, divergence)
    names["test_moments"]()
    for kind in (mechanisms.OneBitMechanism, names["HalfTheNoise"]):
        names["test_audit"](kind)


# Mutants of the code on the page are noticed.


def changed(marker, old, new):
    code = block(marker)
    assert code.count(old) == 1
    return code.replace(old, new)


def mutant(old, new):
    return mechanism_of(changed("mechanism", old, new))


def test_a_randomizer_that_remembers_is_noticed(keys, streams):
    keeping = 'object.__setattr__(self, "seen", samples); centre ='
    with (
        mutant("centre =", keeping),
        pytest.raises(AssertionError, match="_randomizer"),
    ):
        leaks.test_nothing_is_kept(the_case(), keys, streams)


def test_one_stream_for_all_blocks_is_noticed(streams):
    with (
        mutant("bernoulli(bits,", "bernoulli(streams.stream(0),"),
        pytest.raises(AssertionError),
    ):
        reuse.test_equal_samples_get_different_noise(the_case(), streams)


def test_more_lines_for_some_values_are_noticed():
    beyond = "if np.max(samples) > 1:\n            samples = np.minimum(samples, 1)\n"
    old = "shares = self"
    with (
        mutant(old, f"{beyond}        {old}"),
        pytest.raises(AssertionError, match="path"),
    ):
        extreme.test_neighbours_look_alike(the_case(), "f8")


def test_an_event_that_promises_more_is_noticed(divergence):
    with mutant("PureDpEvent(share)", "PureDpEvent(share * 0.999)"):
        test = run("tests")["test_event_covers_the_distribution"]
        with pytest.raises(AssertionError):
            test(2.0, divergence)


# Sums over people: their tests pass, and each protection that is removed is noticed.

FORMS = np.ones((3, 16), bool)


def test_tests_of_ticks(as_released):
    names = run("tests of ticks")
    for n_ticks in range(17):
        names["test_one_person_moves_the_sums_by_no_more_than_planned"](n_ticks)
    names["test_a_vector_that_is_too_long_adds_nothing"](as_released)
    names["test_wrong_lengths_are_noticed"]()
    names["test_noise"]()
    for noise_for in (1.0, 8.0):
        names["test_audit"](noise_for)


def test_ticks_are_counted_in_a_budget():
    with ticks_of(block("ticks")) as ticks, PrivacyBudget(epsilon=1, delta=1e-6) as b:
        model = ticks.PrivateTicks().fit(FORMS)
        with pytest.raises(BudgetExceededError):
            model.fit(FORMS)
    assert 1 - 1e-6 < b.spent.epsilon <= 1
    assert "bounded ticks" in privacy_of(model).guarantee.statement


def test_ticks_without_a_check_of_lengths_are_noticed(as_released, monkeypatch):
    monkeypatch.setattr(*POINTS["long vectors"], lambda weights, *_: weights)
    test = run("tests of ticks")["test_a_vector_that_is_too_long_adds_nothing"]
    with pytest.raises(AssertionError):
        test(as_released)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("np.maximum(lengths, self.bound)", "self.bound"),
        ("weights @ ticks", "2 * (weights @ ticks)"),
        ("np.floor(self.longest", "(self.longest"),
    ],
)
def test_a_kind_with_a_mistake_is_noticed(old, new):
    with ticks_of(changed("ticks", old, new)):
        names = run("tests of ticks")
        test = names["test_one_person_moves_the_sums_by_no_more_than_planned"]
        with pytest.raises(AssertionError):
            list(map(test, range(17)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("n_cells=n,", "n_cells=n - 1,", "more sums than"),
        ("2.0, 1.0,", "2.0, 1.1,", "more than the budget"),
        ("noise.step),)", "noise.step / 2),)", "another lattice"),
        ("Releases(noise, streams)", "Releases(noise, None)", "No budget"),
        (
            "Releases(noise, streams)",
            "Releases(noise, NoiseStreams(0, 0))",
            "No budget",
        ),
        (
            "((self.",
            "Releases(noise, streams).ask(None, question); ((self.",
            "drawn before",
        ),
    ],
    ids=["cells", "shares", "lattice", "no streams", "other streams", "twice"],
)
def test_what_the_door_refuses(old, new, message, monkeypatch):
    """Before it asks anybody; the release counts all the same."""
    with ticks_of(changed("ticks", old, new)) as ticks:
        ticks.NoiseStreams = NoiseStreams
        asked = []
        monkeypatch.setattr(ticks.TickQuestion, "add", lambda *_: asked.append(1))
        model = ticks.PrivateTicks()
        refused = pytest.raises(RuntimeError, match=message)
        with PrivacyBudget(epsilon=1, delta=1e-6) as budget, refused:
            model.fit(FORMS)
        assert len(asked) == (old == "((self.")
        assert budget.spent.epsilon > 0.99
        assert not hasattr(model, "counts_")


def test_what_is_said_of_it(capsys):
    """The comparison, what 64 entries compose to, and what cannot be represented."""
    run("comparison")
    shown = PAGE.split("<!-- comparison -->")[1].split("```text\n")[1].split("```")[0]
    assert capsys.readouterr().out == shown
    few, many = np.zeros((1, 1)), np.zeros((1, 64))
    mechanism = mechanisms.OneBitMechanism(4.0, **BOX).fit(many)
    composed = mechanism.privacy_guarantee_.epsilon_at(1e-6)
    assert (
        f"a sample of 64 entries at epsilon 4 costs {composed:.1f} at delta = 1e-6"
        in PAGE
    )
    with pytest.raises(ValueError, match="more noise in this domain than can be"):
        mechanisms.OneBitMechanism(1e-13, **BOX).fit(few)
    assert mechanisms.OneBitMechanism(1e308, **BOX).fit(few).noise_variance_ < 0.2501
    ranges = [0.0, -1.0], [1.0, 4.0]
    mechanism.set_params(bounds=ranges).fit(few.repeat(2, axis=1))
    points = np.unique(mechanism.transform(np.zeros((1000, 2))), axis=0)
    np.testing.assert_allclose(points.mean(axis=0), [0.5, 1.5])
    assert len(points) == 4


def test_a_package_of_its_own():
    counts = run("own package")["PrivateCounts"](2.0)
    X = np.zeros((5, 3), dtype=bool)
    with PrivacyBudget(epsilon=2.0, delta=0.0) as budget:
        counts.fit(X)
    assert 2 * (1 - 1e-9) < budget.spent.epsilon <= 2
    assert counts.privacy_guarantee_.epsilon == budget.spent.epsilon
    assert "a count of every column" in privacy_of(counts).guarantee.statement
    other = X.copy()
    other[0] = True
    options = {"n_trials": 400, "confidence": 1 - 1e-4, "random_state": 0}
    options["release"] = lambda fitted: fitted.counts_
    options["log_likelihood_ratio"] = lambda rows: np.clip(rows, 0, 1).sum(axis=1)
    report = audit_estimator(counts, X, other, **options)
    assert not report.violated, report
    # The noise of three times the epsilon, under the claim.
    counts.set_params(epsilon=6.0)
    assert audit_estimator(counts, X, other, epsilon=2.0, **options).violated


def test_a_search_of_its_own(capsys):
    names = run("own package")
    exec(compile(block("planned"), "extend.md", "exec"), names)
    expected = PAGE.split("<!-- planned -->")[1].split("```text\n")[1].split("```")[0]
    assert capsys.readouterr().out == expected
    assert planned_guarantee(names["PlannedCounts"](3, 0.5)).epsilon == pytest.approx(
        0.5
    )


def test_a_transformer_of_its_own(capsys):
    NoisyAnswers = run("releasing")["NoisyAnswers"]
    expected = PAGE.split("<!-- releasing -->")[1].split("```text\n")[1].split("```")[0]
    assert capsys.readouterr().out == expected
    X = np.zeros((5, 3), dtype=bool)
    with PrivacyBudget(epsilon=2.0) as budget:
        answers = NoisyAnswers(3, 2.0).fit(X)
        assert budget.spent is None
        answers.set_params(epsilon=9.0).transform(X)
        assert budget.spent.epsilon == pytest.approx(2)
        with pytest.raises(BudgetExceededError):
            answers.transform(X)
    assert privacy_of(answers).guarantee.epsilon == pytest.approx(2)
    assert planned_guarantee(NoisyAnswers(3, 0.5)).epsilon == pytest.approx(0.5)
    with pytest.raises(ValueError, match="n_questions"):
        NoisyAnswers(2).fit(X)


def shown(marker):
    return PAGE.split(f"<!-- {marker} -->")[1].split("```text\n")[1].split("```")[0]


def test_a_completion_of_released_values(capsys):
    """A budget refuses it outside of the block, also in a budget of its own."""
    names = {"np": np, "PrivacyBudget": PrivacyBudget}
    exec(compile(block("released before"), "extend.md", "exec"), names)
    assert capsys.readouterr().out == shown("released before")
    model, ratings = names["model"], names["ratings"]
    assert not model.privacy_guarantee_.protects
    with PrivacyBudget(epsilon=9.0), pytest.raises(BudgetExceededError):
        model.fit(ratings.data, names["noisy"])


# A Gaussian mechanism, whose epsilon is computed without the accountant.

COSTS = [100.0, 1.0, 0.25]


@pytest.fixture
def costly(capsys):
    """The class on the page, in a module of its own, as pickles need."""
    module = types.ModuleType("costly")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "costly", module)
        vars(module)["__name__"] = "costly"
        exec(compile(block("gaussian"), "extend.md", "exec"), vars(module))
        assert capsys.readouterr().out == shown("gaussian")
        yield module


def mechanism_for(costly, epsilon, delta=1e-6):
    bounds = [0.0, -1.0, 2.0], [1.0, 1.0, 2.5]
    mechanism = costly.CostlyErrors(COSTS, epsilon, delta, bounds, random_state=0)
    return mechanism.fit(np.zeros((1, 3)))


def sampled_delta(lattice, times, epsilon):
    """Of so many releases in a box, the sampler included: from first principles."""
    corners = np.array([1.0, 2.0, 0.5])
    with mpmath.workdps(40):
        squares = [mpmath.mpf(r) / s for r, s in zip(corners, lattice.sigma, strict=1)]
        mu = mpmath.sqrt(times * sum(x**2 for x in squares))
        far, rest = (times * mpmath.mpf(x) for x in lattice_residual(lattice))
        ideal = exact_gaussian(mu, mpmath.mpf(epsilon) - 2 * far)
        return mpmath.exp(far) * ideal + rest * (1 + mpmath.exp(epsilon - far))


def lattice_residual(lattice):
    return lattice.residual_epsilon, lattice.residual_delta


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("times", [1, 7])
def test_epsilon_of_a_gaussian_mechanism(costly, epsilon, times):
    """Never smaller than the truth, alone and composed; larger by no more than 1e-6.

    In a budget, too, which adds up mu^2.
    """
    mechanism = mechanism_for(costly, epsilon)
    lattice, one = mechanism._randomizer.lattice, mechanism.privacy_guarantee_
    assert one.epsilon == epsilon
    assert one.event.events[1].epsilon > 0
    together = one.repeated(times, delta=1e-6)
    for at in (together.epsilon_at(1e-6), together.epsilon_at(1e-4)):
        truth = float(sampled_delta(lattice, times, at))
        assert truth <= together.delta_at(at) <= truth * (1 + 1e-6)
    assert sampled_delta(lattice, times, together.epsilon_at(1e-6)) <= 1e-6
    with PrivacyBudget(60.0, 1e-6) as budget:
        for _ in range(times):
            mechanism.transform(np.zeros((2, 3)))
    assert sampled_delta(lattice, times, budget.spent.epsilon) <= 1e-6
    composed = compose(*[one] * times, delta=1e-6)
    assert composed.epsilon == pytest.approx(together.epsilon)


def test_noise_of_a_gaussian_mechanism(costly):
    """Fails for 1e-6 of all seeds: means and variances at six deviations."""
    mechanism, sample = mechanism_for(costly, 2.0), np.array([0.5, 0.0, 9.0])
    released = mechanism.transform(np.tile(sample, (40_000, 1)))
    error = released.mean(axis=0) - [0.5, 0.0, 2.5]
    variance = mechanism.noise_variance_
    assert np.all(np.abs(error) < 6 * np.sqrt(variance / 40_000))
    assert np.all(np.abs(released.var(axis=0) / variance - 1) < 6 * np.sqrt(2 / 40_000))
    assert mechanism.expected_squared_error_ == pytest.approx(variance.sum())
    case = Case(costly.CostlyErrors([2.0, 1, 1], **BOX), (ROWS,), "samples", "costly")
    for cast in ("f8", "f4"):
        extreme.test_neighbours_look_alike(case, cast)


def changed_gaussian(costly, **changes):
    """The class on the page, with other functions."""
    for name, function in changes.items():
        assert name in vars(costly)
        vars(costly)[name] = function
    return mechanism_for(costly, 1.0)


def test_mistakes_with_a_gaussian_mechanism(costly):
    """Each error of the table, and an audit of a wrong mu."""
    event, mu_of = costly.gaussian_event, costly.gaussian_mu
    ideal = lambda mu, lattice: GaussianDpEvent(1 / mu)  # noqa: E731
    with pytest.raises(ValueError, match="does not count the residual"):
        changed_gaussian(costly, gaussian_event=ideal)
    with pytest.raises(ValueError, match="is smaller than the"):
        changed_gaussian(
            costly, gaussian_event=event, gaussian_mu=lambda *b: 1.01 * mu_of(*b)
        )
    with pytest.raises(TypeError, match="must be a GaussianLattice"):
        event(1.0, 2.0)
    lattice = gaussian_lattice(1.0, 1, 1.0, 1e-6)
    for wrong in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="mu must be"):
            event(wrong, lattice)


@pytest.mark.parametrize("wrong", [1.0, 3.0])
def test_audit_of_a_gaussian_mechanism(costly, wrong):
    """At mu = 1/2, or three times that under the same claim; 1e-4 of all seeds fail."""
    event, mu_of = costly.gaussian_event, costly.gaussian_mu
    costly.gaussian_event = lambda mu, lattice: event(mu / wrong, lattice)
    costly.gaussian_mu = lambda *budget: wrong * mu_of(*budget)
    mechanism = mechanism_for(costly, gaussian_epsilon(0.5, 1e-3), 1e-3)
    corners = np.array([0.0, -1.0, 2.0]), np.array([1.0, 1.0, 2.5])
    weights = (corners[1] - corners[0]) / mechanism.noise_variance_
    report = audit_mechanism(
        lambda x, n: mechanism.transform(np.tile(x, (n, 1))),
        *corners,
        epsilon=mechanism.privacy_guarantee_.epsilon,
        delta=1e-3,
        n_trials=20_000,
        confidence=1 - 1e-4,
        batched=True,
        log_likelihood_ratio=lambda rows: rows @ weights,
    )
    assert report.violated == (wrong > 1), report
