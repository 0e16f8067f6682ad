"""Budgets: every release of every estimator is counted before its noise, or refused."""

import ast
import asyncio
import html
import math
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import dp_event
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import sktensordp
from sktensordp import mechanisms
from sktensordp.base import PrivateEstimatorMixin
from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    Recommender,
    TuckerCompletion,
)
from sktensordp.datasets import make_ratings
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.exceptions import BudgetExceededError, PrivacyLeakWarning
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.papers import BiScaler
from sktensordp.privacy import PrivacyBudget, privacy_of, privacy_tags
from tests.support import divergence as D
from tests.support.budgets import guarantees_of, n_released, releases_of
from tests.support.every_estimator import (
    BOX,
    CASES,
    RANGE,
    ROWS,
    TASK,
    USERS,
    VALUES,
    WHERE,
)
from tests.support.guarantees import guarantee, pure

ENTRIES = WHERE, VALUES
RELEASES = [
    pytest.param(case.estimator, case.data, id=case.label)
    for case in CASES
    if case.has_epsilon
]
LAPLACE = LaplaceMechanism(0.1, **BOX).fit(ROWS)


def release_of(estimator, data):
    """What releases once, and how that is called."""
    estimator = clone(estimator)
    if privacy_tags(estimator).released_by != "transform":
        return estimator, lambda: estimator.fit(*data)
    estimator.fit(*data)
    return estimator, lambda: estimator.transform(*data)


def _learns_ids(estimator):
    return isinstance(estimator, Recommender) and estimator.encoder is None


class WithoutTypes(ast.NodeTransformer):
    """Takes annotations out of a module."""

    def visit_arg(self, node):
        node.annotation = None
        return node

    def visit_FunctionDef(self, node):
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node):
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)


@pytest.mark.thorough
def test_all_noise_comes_from_the_one_place():
    """Keys are made in `_random`, and taken after the record.

    `base` does so for estimators, and `_parties` for parties, which are none.
    """
    assert all(
        isinstance(case.estimator, PrivateEstimatorMixin)
        for case in CASES
        if case.private != "ids" and not isinstance(case.estimator, Recommender)
    )
    package = Path(sktensordp.__file__).parent
    using = {name: set() for name in ("NoiseStreams", "secrets", "urandom")}
    for path in package.rglob("*.py"):
        for node in ast.walk(WithoutTypes().visit(ast.parse(path.read_text()))):
            names = {getattr(node, "id", None), getattr(node, "attr", None)}
            if isinstance(node, ast.alias) and node.name != "NoiseStreams":
                names.add(node.name)
            for name in using.keys() & names:
                using[name].add(path.name)
    assert using["NoiseStreams"] == {"base.py", "_parties.py", "_random.py"}
    # In `_dask`, that of the hashes by which partitions are recognised.
    # `_file.py` names a temporary file.
    assert using["secrets"] == {
        "_dask.py", "_file.py", "_ledger.py", "_open.py", "_random.py",
    }  # fmt: skip
    assert not using["urandom"]


@pytest.mark.thorough_after_one
@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.PrivacyLeakWarning")
@pytest.mark.parametrize(
    "epsilon", [1.0, pytest.param(math.inf, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("estimator", "data"), RELEASES)
def test_counted_once_or_refused(estimator, data, epsilon, keys):
    (parameter,) = (n for n in estimator.get_params() if n.endswith("epsilon"))
    estimator = clone(estimator).set_params(**{parameter: epsilon})
    estimator, release = release_of(estimator, data)
    large = (1e-3, 0.0) if epsilon == 1 else (1e6, 0.9)
    for limit in ({"adaptive": False}, {"adaptive": True}):
        tight, outer = PrivacyBudget(*large, **limit), PrivacyBudget(math.inf)
        with (
            outer,
            tight,
            pytest.raises(BudgetExceededError, match="nothing was drawn"),
        ):
            release()
        assert not keys
        assert tight.spent is outer.spent is None
        # An encoder has learned which ids there are, if these are public.
        learned = tuple(CoordinateEncoder().__privacy_unprotected__()) * _learns_ids(
            estimator
        )
        assert tight.unprotected == outer.unprotected == learned
    with PrivacyBudget(math.inf) as budget:
        release()
    released = getattr(estimator, "completion_", estimator)
    name = f"{privacy_tags(released).released_by} of {type(released).__name__}"
    assert releases_of(budget) == [(1, name)]
    assert len(keys) <= 1
    assert len(keys) == 1 or epsilon == math.inf
    guarantee = estimator.privacy_guarantee_
    assert guarantees_of(budget) == [guarantee]
    assert set(released.__privacy_unprotected__()) <= set(budget.unprotected)
    if epsilon == 1 and guarantee.protects:
        # It fits exactly; then nothing more does.
        with PrivacyBudget(guarantee.epsilon, guarantee.delta):
            release()
            with pytest.raises(BudgetExceededError):
                release()
        assert len(keys) == 2


@pytest.mark.thorough
def test_further_fits_count(keys):
    stream = CPCompletion(0, max_iter=1, **RANGE)
    exact = clone(stream).set_params(epsilon=math.inf)
    other = clone(stream).set_params(unit=0, shape=(4, 3), perturbation="sums")
    with PrivacyBudget(math.inf) as budget:
        stream.partial_fit(WHERE[:6], VALUES[:6])
        stream.partial_fit(WHERE[6:], VALUES[6:])
        stream.fit_batches([(WHERE[:5], VALUES[:5]), (WHERE[5:], VALUES[5:])])
        assert len(keys) == n_released(budget) == 3
        exact.partial_fit(*ENTRIES).partial_fit(*ENTRIES)
        assert n_released(budget) == 5
        with pytest.raises(ValueError, match="different units"):
            other.fit(*ENTRIES)
        with pytest.warns(PrivacyLeakWarning):
            BiScaler(None).fit(*ENTRIES)
        encoder = TaskAwareEncoder(4.0, **TASK).fit(ROWS)
        assert n_released(budget) == 6
    with PrivacyBudget(8.0) as budget:
        encoder.privatize(ROWS)
        encoder.client().privatize(ROWS)
        for release in encoder.privatize, encoder.client().privatize, encoder.transform:
            with pytest.raises(BudgetExceededError):
                release(ROWS)
    assert releases_of(budget) == [
        (1, "transform of TaskAwareEncoder"), (1, "privatize of EncoderClient"),
    ]  # fmt: skip
    assert len(keys) == 5


def test_a_refused_stream_goes_on_as_if_not_asked(keys):
    """Coordinates of a batch that was refused are not those of a second release."""
    model = CPCompletion(0, max_iter=1, **RANGE).partial_fit(WHERE[:6], VALUES[:6])
    with PrivacyBudget(0.5), pytest.raises(BudgetExceededError):
        model.partial_fit(WHERE[6:], VALUES[6:])
    model.partial_fit(WHERE[6:], VALUES[6:])
    assert len(keys) == 2
    assert model.privacy_guarantee_.epsilon == pytest.approx(1.0)


@pytest.mark.thorough
def test_post_processing_counts_nothing(keys):
    dense = np.where(np.eye(4, 3), np.nan, 0.5)
    entry = CPCompletion(1, max_iter=2, **RANGE).fit(dense)
    users = CPCompletion(1, perturbation="sums", **USERS).fit(*ENTRIES)
    scaler = BiScaler(4.0, **RANGE).fit(dense)
    encoder = TaskAwareEncoder(4.0, **TASK).fit(ROWS)
    code, noisy, drawn = encoder.privatize(ROWS), LAPLACE.transform(ROWS), len(keys)
    with PrivacyBudget(1e-9) as budget:
        for model in entry, users:
            model.predict(WHERE)
            model.score(*ENTRIES)
            model.recommend([0, 1], 2)
        entry.transform(dense)
        users.fold_in(*ENTRIES).predict(WHERE)
        scaler.inverse_transform(scaler.transform(dense))
        encoder.decode(code)
        mechanisms.estimate_mean(noisy)
        LaplaceMechanism(0.1, **BOX).fit(ROWS)
        clone(encoder).fit(ROWS)
    assert budget.spent is None
    assert len(keys) == drawn
    assert "nothing" in str(budget)


def test_the_life_of_a_budget(keys):
    budget = PrivacyBudget(0.35)
    with budget, budget:
        LAPLACE.transform(ROWS)
        with budget:
            pass
        LAPLACE.transform(ROWS)
    assert n_released(budget) == 2
    LAPLACE.transform(ROWS)
    assert n_released(budget) == 2
    with pytest.raises(IndexError), budget:
        LAPLACE.transform(ROWS)[len(ROWS)]
    assert n_released(budget) == 3
    with budget, pytest.raises(BudgetExceededError, match="transform of Laplace"):
        LAPLACE.transform(ROWS)
    assert len(keys) == 4
    # Open or not; what is asked changes nothing.
    rest = pure(0.05)
    before = str(budget), budget.spent, budget.remaining, n_released(budget)
    assert [budget.admits(g) for g in (pure(0.1), rest) * 2] == [False, True] * 2
    with pytest.raises(BudgetExceededError, match="query"):
        budget.spend(pure(0.1), "query")
    after = str(budget), budget.spent, budget.remaining, n_released(budget)
    assert after == before
    budget.spend(rest, "query")
    assert not budget.admits(rest)
    assert budget.spent.epsilon == pytest.approx(0.35)
    for bad in (0,), (-1,), (math.nan,), (1, 1.0), (1, -0.1), (1, math.nan):
        with pytest.raises(ValueError, match="must be"):
            PrivacyBudget(*bad)
    for bad in ("1",), (None,), ([1.0],), (1, "0"):
        with pytest.raises(TypeError, match="must be one number, got"):
            PrivacyBudget(*bad)


@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize("tight", [0, 1, 2])
def test_refused_by_one_is_recorded_in_none(tight, adaptive, keys):
    budgets = [
        PrivacyBudget(0.15 if k == tight else 9.0, adaptive=adaptive) for k in range(3)
    ]
    with ExitStack() as stack:
        for budget in budgets:
            stack.enter_context(budget)
        LAPLACE.transform(ROWS)
        for _ in range(2):
            with pytest.raises(BudgetExceededError):
                LAPLACE.transform(ROWS)
    assert [n_released(budget) for budget in budgets] == [1, 1, 1]
    assert len(keys) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("adaptive", [True, False])
def test_units_fill_no_budget_for_other_units(adaptive, keys):
    """Each of "entry", "sample", a mode and "cell" keeps all the others out."""
    labels = (
        "CPCompletion, values, default", "CPCompletion, users, statistics",
        "MatrixMechanism, samples, cells", "LaplaceMechanism, samples, rows",
    )  # fmt: skip
    cases = [case for case in CASES if case.label in labels]
    releases = [release_of(case.estimator, case.data)[1] for case in cases]
    assert len(releases) == len(labels)
    units = set()
    for release in releases:
        budget, inner = PrivacyBudget(99.0, 0.1, adaptive=adaptive), PrivacyBudget(99.0)
        with budget:
            release()
            units.add(budget.spent.unit)
            keys.clear()
            # The inner one alone would admit it.
            with inner:
                for other in releases:
                    if other is not release:
                        with pytest.raises(ValueError, match="different units do not"):
                            other()
        assert (n_released(budget), keys, inner.spent) == (1, [], None)
    assert units == {"entry", "sample", "cell", 0}


# Disjoint parts.


def test_parts_count_for_the_worst():
    budget = PrivacyBudget(1.0)
    with budget, budget.parallel() as part:
        with part():
            LAPLACE.transform(ROWS)
            with budget.parallel() as inner:
                for times in (1, 3):
                    with inner():
                        for _ in range(times):
                            LAPLACE.transform(ROWS)
                with pytest.raises(RuntimeError, match="block is open"), part():
                    pass
        with part():
            for _ in range(2):
                LAPLACE.transform(ROWS)
        assert budget.spent.epsilon == pytest.approx(0.4)
        # About all data, though the block is open.
        LAPLACE.transform(ROWS)
        assert budget.spent.epsilon == pytest.approx(0.5)
        # Exhausted in one part, not in another.
        with part():
            for _ in range(9):
                LAPLACE.transform(ROWS)
            with pytest.raises(BudgetExceededError):
                LAPLACE.transform(ROWS)
        with part():
            LAPLACE.transform(ROWS)
    with pytest.raises(RuntimeError, match="has ended"), part():
        pass
    with budget, pytest.raises(BudgetExceededError):
        LAPLACE.transform(ROWS)
    assert n_released(budget) == 18
    assert "part 1 of 2, disjoint" in str(budget)


@pytest.mark.thorough
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_parts_of_parts_in_any_order(data):
    """What is left is the budget less the path on which a record is in the worst."""
    budget = PrivacyBudget(64.0)

    def spent_on(depth):
        """Steps of 1/16 that the worst record of a random tree has spent."""
        total = 0
        for _ in range(data.draw(st.integers(0, 3))):
            if depth == 3 or data.draw(st.booleans()):
                steps = data.draw(st.integers(1, 16))
                budget.spend(pure(steps / 16))
                total += steps
                continue
            with budget.parallel() as part:
                worst = 0
                for _ in range(data.draw(st.integers(0, 3))):
                    with part():
                        worst = max(worst, spent_on(depth + 1))
            total += worst
        return total

    left = 64 - spent_on(0) / 16
    assert budget.admits(pure(left))
    assert not budget.admits(pure(left + 1 / 16))
    assert (budget.spent.epsilon if budget.spent else 0) == 64 - left


# What is printed.


@pytest.mark.thorough
def test_text_and_html():
    estimators = [
        CPCompletion(0, max_iter=1, **RANGE), BiScaler(0.5, **RANGE),
        TuckerCompletion(0, max_iter=1, random_state=3, **RANGE),
    ]  # fmt: skip
    budget = PrivacyBudget(4.0, 1e-6)
    assert str(budget).endswith("Spent: nothing\nLeft: epsilon = 4 at delta = 0")
    with budget, budget.parallel() as part:
        for estimator in estimators:
            with part():
                estimator.fit(*ENTRIES)
        estimators[0].fit(*ENTRIES)
        estimators[0].fit(*ENTRIES)
    budget.spend(pure(0.123456, unit="entry"), "<script>&")
    text, table = str(budget), budget._repr_html_()
    assert repr(budget) == "PrivacyBudget(4, 1e-06)"
    assert repr(PrivacyBudget(2.5, adaptive=False)).endswith("(2.5, 0, adaptive=False)")
    assert "<script>" not in table
    assert "&lt;script&gt;&amp;" in table
    # A guarantee is rounded up where it is printed.
    for shown in (
        "2 x epsilon = 1: fit of CPCompletion",
        "0.1235: <script>&",
        "part 3",
    ):
        assert shown in text
    for shown in "fit of CPCompletion</td><td>2", "0.1235", "fit of BiScaler", "1e-06":
        assert shown in table
    for sentence in {line for e in estimators for line in e.__privacy_unprotected__()}:
        assert sentence in text
        assert html.escape(sentence) in table
    counted = float(text.split("Spent: epsilon = ")[1].split()[0])
    printed = float(text.split(" if planned in advance")[0].split("(")[-1])
    assert budget.spent.epsilon <= printed < budget.spent.epsilon * 1.001
    assert printed <= counted <= budget.epsilon
    assert budget.spent.delta == 1e-6
    # No value, not rounded either.
    assert not any(f"{value:.4g}" in text + table for value in VALUES)


@pytest.mark.thorough
@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=6),
    st.floats(1e-5, 0.2),
)
def test_spent_is_no_less_than_the_composition(chosen, delta):
    """Of the record in the worst part, by an independent product of laws."""
    laws = [D.response(0.3), D.discrete_laplace(0.2, 3)]
    laws.append(D.laplace(0.5))
    events = [
        pure(0.3).event, dp_event.DiscreteLaplaceDpEvent(0.2, 3),
        dp_event.LaplaceDpEvent(2.0),
    ]  # fmt: skip
    budget, records = PrivacyBudget(math.inf, delta), ([], [])
    with budget.parallel() as part, ExitStack() as stack:
        for place, kind in sorted(chosen):
            if place and not records[place - 1]:
                stack.close()
                stack.enter_context(part())
            # 0 is about all data: both records are in it.
            for number, record in enumerate(records, start=1):
                if place in (0, number):
                    record.append(laws[kind])
            budget.spend(guarantee(events[kind]))
    for record in filter(None, records):
        law = D.product(*record)
        worst = D.epsilon_of(lambda e, law=law: D.stick(law, e), delta, 10.0)
        assert budget.spent.epsilon >= worst - 1e-9


# What was once counted too little.

HALF = LaplaceMechanism(0.5, **BOX).fit(ROWS)


def test_a_task_that_outlives_its_part_counts_for_all():
    async def late(started):
        await started.wait()
        HALF.transform(ROWS)

    async def main(part):
        started = asyncio.Event()
        with part():
            task = asyncio.create_task(late(started))
        started.set()
        await task
        with part():
            HALF.transform(ROWS[5:])

    with PrivacyBudget(5.0) as budget, budget.parallel() as part:
        asyncio.run(main(part))
    assert budget.spent.epsilon == 1.0


def test_a_generator_closed_late_opens_no_part_again():
    with PrivacyBudget(5.0) as budget:
        with budget.parallel() as part:

            def inside():
                with part():
                    yield

            first = inside()
            next(first)
        first.close()
        HALF.transform(ROWS)
        HALF.transform(ROWS)
    assert budget.spent.epsilon == 1.0


@pytest.mark.parametrize(
    ("epsilon", "adaptive", "said"),
    [(math.inf, True, True), (9.0, True, True), (math.inf, False, False)],
)
def test_sums_of_what_was_fixed_beforehand_say_so(epsilon, adaptive, said):
    budget = PrivacyBudget(epsilon, 1e-5, adaptive=adaptive)
    budget.spend(guarantee(dp_event.GaussianDpEvent(10.0), 1e-6))
    assert ("planned in advance" in str(budget)) is said


def test_a_refused_refit_keeps_the_model():
    where = np.argwhere(np.ones((6, 5)))
    values = np.arange(30) % 5 + 1.0
    model = CPCompletion(1, levels=[1, 2, 3, 4, 5], max_iter=2).fit(where, values)
    before = model.predict(where)
    with PrivacyBudget(0.5), pytest.raises(BudgetExceededError):
        model.fit(where, values)
    np.testing.assert_array_equal(model.predict(where), before)
    assert math.isclose(model.privacy_guarantee_.epsilon, 1.0, rel_tol=1e-5)


# Ids that are published count where everything of a user is protected.


@pytest.fixture(scope="module")
def ratings():
    return make_ratings(40, 30, 800, random_state=0, levels=[1, 2, 3, 4, 5])


def completion(ratings, **params):
    params = {"levels": ratings.levels, "shape": ratings.shape, **params}
    return CPCompletion(0, max_iter=2, **params)


@pytest.mark.thorough
def test_ids_then_users_are_refused(ratings):
    model = make_pipeline(CoordinateEncoder(), completion(ratings, unit=0))
    with PrivacyBudget(5.0, 1e-5) as budget:
        with pytest.raises(BudgetExceededError, match="publishes the ids"):
            model.fit(ratings.data, ratings.target)
        assert budget.spent is None
        assert not budget.admits(completion(ratings, unit=0).__privacy_plan__())


@pytest.mark.thorough
def test_users_then_ids_are_refused(ratings):
    encoder = CoordinateEncoder()
    with PrivacyBudget(5.0, 1e-5) as budget:
        completion(ratings, unit=0).fit(ratings.data, ratings.target)
        with pytest.raises(BudgetExceededError, match="Declare all ids"):
            encoder.fit(ratings.data)
    assert not hasattr(encoder, "categories_")
    assert budget.spent.epsilon <= 5


def test_a_budget_that_only_counts_says_that_nothing_holds(ratings):
    model = make_pipeline(CoordinateEncoder(), completion(ratings, unit=0))
    with PrivacyBudget(math.inf, 1e-5) as budget:
        model.fit(ratings.data, ratings.target)
    assert budget.spent.epsilon == privacy_of(model).guarantee.epsilon == math.inf


def test_declared_ids_and_public_coordinates_cost_nothing(ratings):
    catalogue = [range(n) for n in ratings.shape]
    declared = CoordinateEncoder(categories=[list(c) for c in catalogue])
    of_users = make_pipeline(declared, completion(ratings, unit=0))
    of_entries = make_pipeline(CoordinateEncoder(), completion(ratings))
    for model in (of_users, of_entries):
        with PrivacyBudget(1.0, 1e-5) as budget:
            model.fit(ratings.data, ratings.target)
        assert 0 < budget.spent.epsilon <= 1
    assert any("vocabulary" in sentence for sentence in budget.unprotected)
