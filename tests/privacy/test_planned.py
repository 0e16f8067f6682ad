"""What fits will guarantee, and the epsilon that a plan leaves for each."""

import contextlib
import itertools
import math
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from sktensordp import mechanisms, papers
from sktensordp.base import PrivateEstimatorMixin
from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    TuckerCompletion,
)
from sktensordp.encoding import TaskAgnosticEncoder, TaskAwareEncoder
from sktensordp.exceptions import BudgetExceededError
from sktensordp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    TensorRandomizedResponse,
)
from sktensordp.moments import (
    MultilinearPCA,
    MultilinearRidge,
    MultilinearRidgeClassifier,
)
from sktensordp.privacy import PrivacyBudget, epsilon_per_release, planned_guarantee
from tests.support.budgets import n_released
from tests.support.every_estimator import EVERY, RELEASING
from tests.support.guarantees import guarantee
from tests.support.seams import privacy_planned

X = np.argwhere(np.ones((6, 5)))
Y = X.sum(1) % 5 + 1.0
CUBE = np.argwhere(np.ones((4, 3, 2)))
DECLARED = {"levels": [1, 2, 3, 4, 5], "shape": (6, 5)}
USERS = {"unit": 0, "epsilon": 2.0, **DECLARED}
ROWS = np.zeros((4, 3))
SAMPLES = [p for p in EVERY if p.values[0].private == "samples"]


@pytest.mark.thorough_after_one
@pytest.mark.parametrize(
    "params",
    [
        {}, {"perturbation": "sums"}, {"perturbation": "statistics"},
        {"biases": False}, {"side_information": {1: np.eye(5)}}, {"rank": 0},
        {"epsilon": math.inf}, {"unit": 1}, {"epsilon": 20.0, "delta": 1e-3},
        {"levels": None, "value_bounds": (0, 9)},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("kind", [CPCompletion, TuckerCompletion])
def test_a_fit_to_users_guarantees_what_was_planned(kind, params, keys):
    params = {"rank": 2, **USERS, **params}
    model = kind(params.pop("rank"), **params)
    with PrivacyBudget(math.inf) as budget:
        planned = planned_guarantee(model)
    assert not keys
    assert n_released(budget) == 0
    found = model.fit(X, Y).privacy_guarantee_
    assert planned.event == found.event
    assert (planned.epsilon, planned.delta) == (found.epsilon, found.delta)
    assert (planned.unit, planned.relation) == (found.unit, found.relation)
    # The data do not matter: the plan is the same for nobody at all.
    nobody = clone(model).fit(X[:0], Y[:0]).privacy_guarantee_
    assert nobody.event == planned.event


def test_three_modes():
    values = np.ones(len(CUBE))
    params = {"unit": 1, "levels": [1, 2], "shape": (4, 3, 2)}
    model = CPCompletion(2, **params)
    planned = planned_guarantee(model)
    assert planned.event == model.fit(CUBE, values).privacy_guarantee_.event


@pytest.mark.parametrize(
    "perturbation", ["auto", "input", "gradient", "output", "statistics", "sums"]
)
@pytest.mark.parametrize("shape", [None, (6, 5)])
def test_of_entries_it_is_a_bound_and_says_so(perturbation, shape):
    model = CPCompletion(
        1, epsilon=1.5, delta=1e-6, perturbation=perturbation, levels=[1, 2, 3, 4, 5],
        shape=shape, max_iter=3,
    )  # fmt: skip
    planned, found = planned_guarantee(model), model.fit(X, Y).privacy_guarantee_
    for at in (0.0, 0.3, 1.0, 1.5):
        assert planned.delta_at(at) >= found.delta_at(at) * (1 - 1e-9)
    exact = planned.event == found.event
    assert exact or planned.source == "upper bound from the budget"
    assert perturbation != "input" or exact


def test_what_is_not_declared_protects_nobody():
    for missing in ("levels", "shape"):
        assert not planned_guarantee(
            CPCompletion(1, **USERS | {missing: None})
        ).protects


@pytest.mark.thorough
def test_other_estimators():
    implicit = ImplicitCompletion(shape=(6, 5))
    planned = planned_guarantee(implicit)
    assert planned.event == implicit.fit(X).privacy_guarantee_.event
    ids = CoordinateEncoder(categories=[list("abcdef"), list("vwxyz")])
    pipeline = make_pipeline(ids, CPCompletion(1, **USERS))
    table = np.array([[a, b] for a in "abcdef" for b in "vwxyz"])
    planned = planned_guarantee(pipeline)
    assert planned.event == pipeline.fit(table, Y)[-1].privacy_guarantee_.event


@pytest.mark.parametrize("case", SAMPLES)
def test_what_a_fitted_mechanism_will_guarantee(case):
    """The event of its transform; of an encoder, which chooses in its fit, a bound."""
    fitted = case.fresh().fit(*case.data)
    found = fitted.privacy_guarantee_
    planned = planned_guarantee(fitted)
    if hasattr(fitted, "decode"):
        for at in (0.0, 1e-9, 1e-3):
            assert planned.epsilon_at(at) >= found.epsilon_at(at)
    else:
        assert planned == found


@pytest.mark.parametrize(
    ("estimator", "error", "message"),
    [
        (LaplaceMechanism(bounds=(0, 1)), ValueError, "shape of the samples"),
        (make_pipeline(LaplaceMechanism(bounds=(0, 1))), ValueError, "shape of the"),
        (CoordinateEncoder(), TypeError, "gives a guarantee"),
        (CPCompletion, TypeError, "gives a guarantee"),
        (CPCompletion(9, **USERS), ValueError, "rank"),
    ],
)
def test_what_cannot_be_planned(estimator, error, message):
    with pytest.raises(error, match=message):
        planned_guarantee(estimator)


def n_admitted(released, most, **budget):
    """How many releases fit into a budget, of so many at most."""
    limited, n = PrivacyBudget(**budget), 0
    while n < most and limited.admits(released):
        limited.spend(released)
        n += 1
    return n


@pytest.mark.thorough
@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize("n", [1, 2, 12])
def test_so_many_fits_are_admitted_and_hardly_more_epsilon(n, adaptive):
    model = CPCompletion(2, **USERS)
    budget = {"epsilon": 4.0, "delta": 1e-6, "adaptive": adaptive}
    found = epsilon_per_release(4.0, 1e-6, n, model, adaptive=adaptive)
    assert found == 4.0 if n == 1 else 4.0 / n < found < 4.0
    fits, more = (
        planned_guarantee(clone(model).set_params(epsilon=found * factor))
        for factor in (1, 1.001)
    )
    assert n_admitted(fits, n + 1, **budget) == n > n_admitted(more, n + 1, **budget)
    assert model.epsilon == 2.0  # a clone was asked


SEARCHABLE = [p for p in RELEASING if p.values[0].has_epsilon]


@pytest.mark.thorough
@pytest.mark.parametrize("case", SEARCHABLE)
@pytest.mark.parametrize(("epsilon", "delta", "n"), [(1.0, 1e-2, 1), (40.0, 0.2, 3)])
def test_hardly_more_epsilon_fits_whatever_the_estimator(case, epsilon, delta, n):
    """Some reveal less than their epsilon says, or nothing more from some epsilon on.

    Where the estimator admits no larger one, the answer is the largest that it does.
    """
    fitted = case.fresh().fit(*case.data)
    [name] = [n for n in fitted.get_params() if n.rpartition("__")[2] == "epsilon"]

    def admitted(one):
        try:
            planned = planned_guarantee(fitted.set_params(**{name: one}))
        except ValueError:
            return 0
        return n_admitted(planned, n, epsilon=epsilon, delta=delta)

    of_budget = planned_guarantee(fitted.set_params(**{name: epsilon}))
    # One of the published algorithms protects nobody at a small epsilon.
    small = isinstance(fitted, papers.PublishedTensorRandomizedResponse)
    if small or not of_budget.protects:
        with pytest.raises(ValueError, match="no finite guarantee"):
            epsilon_per_release(epsilon, delta, n, fitted)
        return
    found = epsilon_per_release(epsilon, delta, n, fitted)
    assert admitted(found) == n
    assert found == pytest.approx(1e6) or admitted(found * 1.0002) < n


def test_a_published_algorithm_may_have_more_epsilon_than_the_budget():
    noise = papers.PublishedTensorVariateGaussian(
        delta=1e-5, bounds=(0, 1), tensor_shape=(3, 2)
    )
    found = epsilon_per_release(1.0, 1e-5, 1, noise)
    assert found > 4
    planned = planned_guarantee(noise.set_params(epsilon=found))
    assert planned.epsilon_at(1e-5) == pytest.approx(1.0, rel=1e-3)


@pytest.mark.thorough
def test_the_largest_epsilon_may_be_the_largest_that_the_estimator_admits():
    noise = papers.PublishedTensorVariateGaussian(
        delta=1e-5, bounds=(0, 1), tensor_shape=(3, 2)
    )
    found = epsilon_per_release(2000.0, 1e-5, 1, noise)
    assert planned_guarantee(noise.set_params(epsilon=found)).epsilon < 1000
    with pytest.raises(ValueError, match="too small for epsilon"):
        planned_guarantee(noise.set_params(epsilon=found * 1.0002))


def test_other_plans():
    noise = LaplaceMechanism(bounds=(0, 1)).fit(ROWS)
    assert epsilon_per_release(1.0, 0.0, 4, noise) == pytest.approx(0.25, rel=1e-4)
    pipeline = make_pipeline(
        CoordinateEncoder(categories=[range(6), range(5)]), CPCompletion(1, **USERS)
    )
    found = epsilon_per_release(4.0, 1e-6, 3, pipeline)
    single = epsilon_per_release(4.0, 1e-6, 3, CPCompletion(1, **USERS))
    assert found == single


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((0.0, 0.0, 2), ValueError, "epsilon must be > 0"),
        ((math.inf, 0.0, 2), ValueError, "finite"),
        ((math.nan, 0.0, 2), ValueError, "epsilon"),
        (("1", 0.0, 2), TypeError, "epsilon"),
        ((1.0, 1.0, 2), ValueError, "delta must be"),
        ((1.0, 0.0, 0), ValueError, "at least 1"),
        ((1.0, 0.0, 2.5), TypeError, "integer"),
        ((1.0, 0.0, 2), ValueError, "No epsilon is small enough"),
    ],
)
def test_plans_that_make_no_sense(args, error, message):
    with pytest.raises(error, match=message):
        epsilon_per_release(*args, CPCompletion(1, **USERS))


def test_which_epsilon():
    two = make_pipeline(
        TaskAwareEncoder(1.0), LaplaceMechanism(1.0, bounds=(0, 1)),
    )  # fmt: skip
    for estimator, count in ((two, 2), (CoordinateEncoder(), 0)):
        with pytest.raises(ValueError, match=f"has {count}"):
            epsilon_per_release(1.0, 0.0, 2, estimator)


SHAPE = {"tensor_shape": (3, 4)}
RECORDS = np.random.default_rng(0).random((20, 3, 4))
COMPONENTS = MultilinearPCA(2, norm_bound=1.0, delta=1e-7, **SHAPE)
LAPLACE = LaplaceMechanism(bounds=(0, 1), **SHAPE)
SHARED = {
    "Gaussian": [COMPONENTS, GaussianMechanism(delta=1e-8, bounds=(0, 1), **SHAPE)],
    "pure": [LAPLACE, LAPLACE, LAPLACE],
    "both": [LAPLACE, COMPONENTS, make_pipeline(LAPLACE)],
    "both, in another order": [COMPONENTS, make_pipeline(LAPLACE), LAPLACE],
}


@pytest.mark.thorough_after_one
@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize("kinds", SHARED)
def test_several_estimators_share_a_total(kinds, adaptive):
    """A real budget admits all of them with what was found, and not with more."""
    estimators, n = SHARED[kinds], 2
    found = epsilon_per_release(2.0, 1e-6, n, estimators, adaptive=adaptive)
    assert 2 / (len(estimators) * n) * 0.999 < found < 2

    def n_admitted_with(epsilon):
        with PrivacyBudget(2.0, delta=1e-6, adaptive=adaptive) as budget:
            for one in estimators * n:
                name = (
                    "laplacemechanism__epsilon" if hasattr(one, "steps") else "epsilon"
                )
                with contextlib.suppress(BudgetExceededError):
                    clone(one).set_params(**{name: epsilon}).fit_transform(RECORDS)
            return n_released(budget)

    assert n_admitted_with(found) == len(estimators) * n
    assert n_admitted_with(found * 1.0002) < len(estimators) * n
    # Each keeps its own delta, and the estimators stay as they are.
    assert COMPONENTS.get_params()["delta"] == 1e-7
    assert LAPLACE.epsilon == 1.0


def test_one_in_a_list_is_one():
    found = epsilon_per_release(2.0, 1e-6, 3, [COMPONENTS])
    assert found == epsilon_per_release(2.0, 1e-6, 3, COMPONENTS)
    pure = epsilon_per_release(1.0, 0.0, 1, [LAPLACE] * 4)
    assert pure == pytest.approx(0.25, rel=1e-4)


def test_lists_that_share_no_total():
    with pytest.raises(ValueError, match="list of estimators is empty"):
        epsilon_per_release(1.0, 1e-6, 1, [])
    with pytest.raises(ValueError, match="unit"):
        epsilon_per_release(1.0, 1e-6, 1, [LAPLACE, CPCompletion(1, **USERS)])
    with pytest.raises(ValueError, match="has 0"):
        epsilon_per_release(1.0, 1e-6, 1, [LAPLACE, CoordinateEncoder()])


# --- fitted objects, and what declares its shape -------------------------------------

TWELVE = np.linspace(0, 1, 60).reshape(5, 12)
NOISES = {
    "Laplace": LaplaceMechanism(bounds=(0, 1)),
    "Gaussian": GaussianMechanism(delta=1e-8, bounds=(0, 1)),
    "levels": TensorRandomizedResponse(n_levels=3, bounds=(0, 1)),
}
DESIGNED = TensorRandomizedResponse(
    n_levels=3, delta=1e-8, bounds=(0, 1), noise="gaussian"
)
PLACES = {
    "alone": lambda noise: clone(noise).fit(TWELVE),
    "in a pipeline": lambda noise: make_pipeline(noise).fit(TWELVE),
    "after a step": lambda noise: make_pipeline(Normalizer(), noise).fit(TWELVE),
    "before a step": lambda noise: make_pipeline(noise, PCA(2)).fit(TWELVE),
    "in columns": lambda noise: ColumnTransformer([("noise", noise, slice(0, 12))]).fit(
        TWELVE
    ),
    "in two pipelines": lambda noise: make_pipeline(make_pipeline(noise)).fit(TWELVE),
    "not fitted": lambda noise: clone(noise).set_params(tensor_shape=(3, 4)),
}


@pytest.mark.parametrize(
    "noise",
    [*NOISES.values(), pytest.param(DESIGNED, marks=pytest.mark.thorough)],
    ids=[*NOISES, "levels with a delta"],
)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_what_is_fitted_is_planned_exactly(noise, place):
    planned, found = planned_guarantee(place(noise)), clone(noise).fit(TWELVE)
    assert planned.event == found.privacy_guarantee_.event
    assert "upper bound" not in planned.source


def test_sixteen_releases_of_twelve_entries():
    planned = planned_guarantee(PLACES["in a pipeline"](NOISES["Laplace"]))
    assert planned.repeated(16).epsilon_at(1e-6) == pytest.approx(5.6036, rel=1e-4)


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_for_any_shape_it_is_a_bound_and_says_so(noise):
    """The number of features that a step lets through follows from the data."""
    steps = make_pipeline(FunctionTransformer(lambda X: X[:, :4]), noise).fit(TWELVE)
    planned, found = planned_guarantee(steps), steps[-1].privacy_guarantee_
    assert "upper bound for samples of any shape" in planned.source
    for delta in (0.0, 1e-8, 1e-3):
        assert planned.epsilon_at(delta) >= found.epsilon_at(delta) * (1 - 1e-9)
    encoder = TaskAwareEncoder(1.0, task=[[1.0] * 12]).fit(TWELVE)
    assert "upper bound for any code" in planned_guarantee(encoder).source


@pytest.mark.thorough
@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize("place", ["alone", "in a pipeline", "not fitted"])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_the_epsilon_of_what_is_fitted(noise, place, adaptive):
    """So many releases fit, and with .02% more epsilon they do not."""
    one = PLACES[place](noise)
    budget = {"epsilon": 3.0, "delta": 1e-6, "adaptive": adaptive}
    found = epsilon_per_release(3.0, 1e-6, 10, one, adaptive=adaptive)
    for epsilon, n in (found, 10), (found * 1.0002, 9):
        fitted = clone(noise).set_params(epsilon=epsilon).fit(TWELVE)
        released = guarantee(fitted.privacy_guarantee_.event, delta=1e-7)
        assert n_admitted(released, 11, **budget) == n


@pytest.mark.thorough
@pytest.mark.parametrize("n", [1, 3, 1000])
@pytest.mark.parametrize("adaptive", [True, False])
def test_few_plans_are_needed(n, adaptive, monkeypatch):
    asked, plan = [], privacy_planned.planned_guarantee
    monkeypatch.setattr(
        privacy_planned, "planned_guarantee", lambda one: asked.append(1) or plan(one)
    )
    noise = PLACES["alone"](NOISES["Gaussian"])
    assert epsilon_per_release(3.0, 1e-3, n, noise, adaptive=adaptive) > 3 / n / 2
    # For one fit, it looks beyond the epsilon of the budget, whose delta is larger.
    assert len(asked) <= (25 if n == 1 else 10)


@pytest.mark.thorough
def test_why_no_epsilon_is_small_enough():
    raw = make_pipeline(StandardScaler(), LaplaceMechanism(bounds=(0, 1))).fit(TWELVE)
    with pytest.raises(ValueError, match="StandardScaler learned from data"):
        epsilon_per_release(1.0, 0.0, 2, raw)
    with pytest.raises(ValueError, match="Give the estimator a smaller delta"):
        epsilon_per_release(1.0, 0.0, 2, PLACES["alone"](NOISES["Gaussian"]))


# --- what a plan and a fit refuse ----------------------------------------------------


class Reached(BaseException):
    """A fit came to its release, so that no parameter was refused."""


def reach(self, guarantee):
    raise Reached


def refused_by_fit(model, *data):
    """What a fit refuses before it releases anything; "" if it refuses nothing."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setattr(PrivateEstimatorMixin, "_record", reach)
        warnings.simplefilter("ignore")
        try:
            model.fit(*data).transform(data[0])  # one of which releases
        except Reached:
            return ""
        except (TypeError, ValueError) as error:
            return str(error)
    raise AssertionError("It releases nothing.")


def refused_by_plan(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            planned_guarantee(model)
        except ValueError as error:
            return str(error).partition(": ")[2]
    return ""


SMALL = np.argwhere(np.ones((4, 3)))
SMALL_VALUES = np.linspace(0.1, 0.9, 12)
# At this epsilon, so few data are enough to find a scale or a norm. At a smaller one, a
# fit refuses to search, and a plan, which knows no number of data, cannot: see below.
ENOUGH = 100.0
OF_COMPLETIONS = {
    "unit": ["entry", 0, 1],
    "perturbation": ["auto", "input", "gradient", "output", "statistics", "sums"],
    "biases": [True, False],
    "range": [
        {}, {"value_bounds": (0, 1)}, {"levels": [0, 0.5, 1]},
        {"levels": [0, 0.1, 1], "level_prior": [0.2, 0.3, 0.5],
         "value_bounds": (-1, 2)},
        {"level_prior": [0.5, 0.5]},
    ],
    "shape": [None, (4, 3)],
    "personal": [False, True],
    "smooth_modes": [None, [0], [1]],
    "side_information": [
        None, {1: np.eye(3)}, {0: np.eye(4)}, {1: np.full((3, 1), np.nan)}
    ],
    "rank": [0, 1, None],
    "epsilon": [ENOUGH],
}  # fmt: skip
# Those whose shape must be known for what is wrong to be known.
OF_SHAPES = {
    "epsilon": [ENOUGH, math.inf],
    "unit": ["entry", 0, 1, 2],
    "shape": [(4, 3)],
    "rank": [1, 2, 9],
    "smooth_modes": [None, [], [-1], [-2], [5]],
    "side_information": [None, {}, {1: np.eye(4)}, [None, np.eye(3)], [np.eye(4)]],
    "personal": [False, True],
}  # fmt: skip
OF_PUBLISHED = {
    "perturbation": ["input", "gradient", "output"],
    "value_bounds": [None, (0, 1), (1, 0)],
    "shape": [None, (4, 3)],
    "rank": [0, 1],
}


def settings(kind, grid):
    for values in itertools.product(*grid.values()):
        params = dict(zip(grid, values, strict=True))
        yield kind(**{**params.pop("range", {}), **params})


def drawn(grid, n):
    """The same number of settings each time, spread over the grid."""
    rng = np.random.default_rng(0)
    for _ in range(n):
        yield {name: [values[rng.integers(len(values))]]
               for name, values in grid.items()}  # fmt: skip


def compare(model, *data):
    """A plan refuses what a fit refuses, for the same reason, and nothing else."""
    in_fit, in_plan = refused_by_fit(model, *data), refused_by_plan(model)
    # Of a matrix mechanism, which declares no shape, nothing can be planned.
    if "depends on the shape of the samples" not in in_plan:
        assert in_plan == in_fit, model


@pytest.mark.parametrize("kind", [CPCompletion, TuckerCompletion])
def test_a_plan_refuses_what_a_fit_of_entries_refuses(kind):
    for grid in drawn(OF_COMPLETIONS, 60):
        compare(*settings(kind, grid), SMALL, SMALL_VALUES)


@pytest.mark.slow
@pytest.mark.parametrize("grid", [OF_COMPLETIONS, OF_SHAPES], ids=["all", "shapes"])
@pytest.mark.parametrize("kind", [CPCompletion, TuckerCompletion])
def test_a_plan_refuses_what_a_fit_refuses_at_every_setting(kind, grid):
    for model in settings(kind, grid):
        compare(model, SMALL, SMALL_VALUES)


@pytest.mark.parametrize(
    "kind", [papers.PublishedCPCompletion, papers.PublishedTuckerCompletion]
)
def test_a_plan_refuses_what_a_fit_of_a_published_algorithm_refuses(kind):
    for model in settings(kind, OF_PUBLISHED):
        compare(model, SMALL, SMALL_VALUES)


MATRICES = np.linspace(0, 1, 48).reshape(8, 3, 2)
OF_ALL = {"epsilon": [1.0, math.inf, 0.0, -1.0], "tensor_shape": [(3, 2)]}
DELTAS = {"delta": [0, 1e-5, 1.0]}
OF_DOMAINS = {
    "range": [
        {}, {"bounds": (0, 1)}, {"norm_bound": 1.0}, {"sensitivity": 1.0},
        {"bounds": (0, 1), "norm_bound": 1.0}, {"sensitivity": 1.0, "bounds": (0, 1)},
        {"bounds": (1, 0)}, {"bounds": (0, np.ones(5))}, {"norm_bound": -1.0},
    ],
}  # fmt: skip
OF_BOXES = {"bounds": [None, (0, 1), (1, 0), (0, np.ones(5))]}
OF_DIRECTIONS = {
    "utility": [None, [np.eye(3), None], [np.ones(4), None], np.ones(3), "x"],
    "directions": [None, [np.eye(3), np.eye(2)], [np.eye(4), None], np.eye(3)],
}
OF_CELLS = {
    "epsilon": [1.0, math.inf, 0.0],
    "sensitivity": [1.0, -1.0],
    "workload": [np.eye(6), np.ones((2, 3)), np.full((2, 6), np.nan)],
}
OF_CODES = {
    "mechanism": ["laplace", "l2", "privunit", "gaussian", "auto", "none"],
    "clip": ["auto", 0.5, 2.0],
    "task": [
        None, np.ones((1, 6)), np.ones((2, 5)), np.full((1, 6), np.nan), "x", 3.0,
        Ridge().fit(MATRICES.reshape(8, 6), np.arange(8.0)),
        RandomForestRegressor(2, random_state=0), LogisticRegression(),
        MLPRegressor(hidden_layer_sizes=2, max_iter=300, tol=10, random_state=0).fit(
            MATRICES.reshape(8, 6), np.arange(8.0)
        ),
    ],
}  # fmt: skip
OF_PEOPLE = {
    "n_components": [None, 1, 6, 7, 0, (2, 1), (4, 1), (1,), (2, 1, 1)],
    "norm_bound": [None, 1.0, -1.0, math.inf],
    "epsilon": [ENOUGH, math.inf, 0.0, -1.0],
}
MODES, ENCODERS = {"mode": [0, 1, 2, -1]}, {"encoder": ["linear", "mlp"]}
SIZES = {"n_components": [1, 3, 0]}
GRIDS = {
    mechanisms.LaplaceMechanism: OF_ALL | OF_DOMAINS,
    mechanisms.GaussianMechanism:
        OF_ALL | DELTAS | OF_DOMAINS | {"calibration": ["sound", "classic", "x"]},
    mechanisms.TensorVariateGaussian: OF_ALL | DELTAS | OF_DOMAINS | OF_DIRECTIONS,
    mechanisms.MatrixGaussian: OF_ALL | DELTAS | OF_DOMAINS | OF_DIRECTIONS,
    mechanisms.UnimodalDirectionalNoise:
        OF_ALL | DELTAS | OF_DOMAINS | OF_DIRECTIONS | MODES,
    mechanisms.IndependentDirectionalNoise:
        OF_ALL | DELTAS | OF_DOMAINS | MODES
        | {"utility": OF_DIRECTIONS["utility"]},
    mechanisms.HybridMechanism: OF_ALL | OF_BOXES,
    mechanisms.PrivUnit: OF_ALL | OF_DOMAINS | {"range": OF_DOMAINS["range"][:3]},
    mechanisms.TensorRandomizedResponse: OF_ALL | OF_BOXES | {
        "delta": [0, 1e-5], "n_levels": [1, 2, 3], "debias": [True, False],
        "noise": ["laplace", "gaussian", "geometric", "wrapped"],
        "weights": [None, np.ones((3, 2)), np.ones(5)],
    },
    mechanisms.MatrixMechanism: OF_CELLS | DELTAS,
    TaskAwareEncoder: OF_ALL | DELTAS | OF_CODES | ENCODERS | SIZES,
    TaskAgnosticEncoder: OF_ALL | DELTAS | OF_CODES,
    papers.PrivacyAgnosticEncoder: OF_ALL | DELTAS | OF_CODES | SIZES,
    MultilinearPCA: OF_ALL | DELTAS | OF_PEOPLE | {"center": [True, False]},
    MultilinearRidge: OF_ALL | DELTAS | OF_PEOPLE | {
        "alpha": ["auto", 0.1, -1.0],
        "target_bounds": [None, (0, 1), (1, 0), (0, 1, 2)],
    },
    MultilinearRidgeClassifier: OF_ALL | DELTAS | OF_PEOPLE | {
        "classes": [None, [0, 1], [], [0, 0, 1], [[0, 1]]],
    },
}  # fmt: skip


def compare_with_samples(kind, model):
    X = np.eye(8, 6) if kind is mechanisms.MatrixMechanism else MATRICES
    y = [np.arange(8) % 2] if hasattr(model, "predict") else []
    compare(model, X, *y)


@pytest.mark.thorough_after_one
@pytest.mark.parametrize("kind", GRIDS, ids=lambda kind: kind.__name__)
def test_a_plan_refuses_what_a_fit_to_samples_refuses(kind):
    for grid in drawn(GRIDS[kind], 40):
        compare_with_samples(kind, *settings(kind, grid))


@pytest.mark.slow
@pytest.mark.parametrize("kind", GRIDS, ids=lambda kind: kind.__name__)
def test_a_plan_refuses_what_a_fit_to_samples_refuses_at_every_setting(kind):
    for model in settings(kind, GRIDS[kind]):
        compare_with_samples(kind, model)


OF_FEW = {
    CPCompletion: {"rank": [1], "shape": [(4, 3)]},
    TuckerCompletion: {"rank": [1], "shape": [(4, 3)]},
    MultilinearPCA: {"n_components": [1], "tensor_shape": [(3, 2)]},
    MultilinearRidge: {
        "n_components": [1], "tensor_shape": [(3, 2)], "target_bounds": [(0, 1)],
    },
    MultilinearRidgeClassifier: {
        "n_components": [1], "tensor_shape": [(3, 2)], "classes": [[0, 1]],
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", OF_FEW, ids=lambda kind: kind.__name__)
def test_only_a_fit_refuses_too_few_data(kind):
    """What the data are too few for, a plan cannot know: it is asked without data."""
    data = SMALL, SMALL_VALUES
    if "tensor_shape" in OF_FEW[kind]:
        data = MATRICES, np.arange(8) % 2
    for epsilon in (1.0, ENOUGH):
        [model] = settings(kind, OF_FEW[kind] | {"epsilon": [epsilon]})
        few = "too few to find" in refused_by_fit(model, *data)
        assert few == (epsilon == 1.0)
        assert not refused_by_plan(model)
