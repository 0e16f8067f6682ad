"""A first hour: what a guarantee, a report and a budget say when they are printed."""

import contextlib
import math
import re
import warnings

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier, VotingRegressor
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktensordp.audit import audit_mechanism
from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.exceptions import BudgetExceededError, PrivacyLeakWarning
from sktensordp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    PrivUnit,
    TensorRandomizedResponse,
)
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.privacy import PrivacyBudget, compose, privacy_of
from tests.support.callbacks import ProgressBar, needs_callbacks

pytestmark = pytest.mark.thorough
RNG = np.random.default_rng(0)
X, Y = RNG.random((60, 3)), RNG.random(60)
RATINGS = make_ratings(20, 15, 200, random_state=0)


def laplace(epsilon=1.0):
    return LaplaceMechanism(epsilon, bounds=(0, 1))


def completion():
    return CPCompletion(0, levels=RATINGS.levels, max_iter=2)


def noise_beside_raw_columns():
    return make_column_transformer((laplace(), [0]), remainder="passthrough")


def pipelines():
    yield "Ridge", make_pipeline(noise_beside_raw_columns(), Ridge())
    yield "columns", noise_beside_raw_columns()
    yield "StandardScaler", make_pipeline(StandardScaler(), laplace(), Ridge())


@pytest.mark.parametrize(("named", "model"), list(pipelines()))
def test_I_put_noise_on_one_column_of_three(named, model):
    report = privacy_of(model.fit(X, Y))
    headline, why, *_ = str(report).split("\n")
    raw, parts = why.split("The private part alone")
    assert "No differential privacy for one row of X" in headline
    assert named in raw
    assert "epsilon = 1" not in headline + raw
    assert "(epsilon = 1, delta = 0)" in parts
    assert report.guarantee.epsilon == math.inf
    assert [one.epsilon for _, _, one in report.releases] == [1.0]


def test_raw_columns_that_a_later_mechanism_randomises_are_protected():
    model = make_pipeline(noise_beside_raw_columns(), laplace(2.0), Ridge())
    assert privacy_of(model.fit(X, Y)).guarantee.epsilon == 3.0


def test_I_scaled_coordinates_which_are_public():
    scaler = StandardScaler(with_mean=False, with_std=False)
    model = make_pipeline(scaler, completion()).fit(RATINGS.data, RATINGS.target)
    assert privacy_of(model).guarantee.protects


def test_I_scaled_a_dense_tensor_which_is_private():
    dense = np.full((20, 15), np.nan)
    dense[tuple(RATINGS.data.T)] = RATINGS.target
    scaler = StandardScaler(with_mean=False, with_std=False)
    model = make_pipeline(scaler, completion()).fit(dense)
    assert not privacy_of(model).guarantee.protects


def test_I_averaged_a_private_model_with_one_that_is_not():
    model = VotingRegressor([("private", completion()), ("not", Ridge())])
    report = privacy_of(model.fit(RATINGS.data, RATINGS.target))
    assert not report.guarantee.protects
    assert "Ridge learned from data without noise" in str(report)


def held():
    """Guarantees whose events are long: composed, tables, and laws of tries."""
    table = TensorRandomizedResponse(1.0, bounds=(0, 1)).fit(X).privacy_guarantee_
    noise = GaussianMechanism(1.0, delta=1e-6, bounds=(0, 1)).fit(X).privacy_guarantee_
    model = make_pipeline(laplace(), Ridge())
    search = PrivateSearchCV(model, {"ridge__alpha": [1.0]}, score_bounds=(-1, 0))
    yield completion().fit(RATINGS.data, RATINGS.target).privacy_guarantee_
    yield compose(table, *[noise, laplace().fit(X).privacy_guarantee_] * 20)
    yield search.planned_guarantee(X)


@pytest.mark.parametrize("one", list(held()))
def test_I_typed_the_name_of_a_guarantee(one):
    names = r"PrivacyGuarantee\(epsilon=(.*), delta=(.*), unit=.*, relation='.*'\)"
    found = re.fullmatch(names, repr(one))
    assert found is not None
    assert [float(number) for number in found.groups()] == [one.epsilon, one.delta]
    assert len(repr(one)) < 120
    assert one.statement in one._repr_html_()


def test_I_typed_the_name_of_what_holds_an_event():
    search = make_pipeline(laplace(), Ridge()).fit(X, Y)
    *_, searched = held()
    report = privacy_of(search)
    assert repr(report.guarantee) in repr(report)
    assert "\n" not in repr(report)
    for one in (report, searched.event):
        assert len(repr(one)) < 1000


def spend(budget, *epsilons):
    with budget:
        for epsilon in epsilons:
            laplace(epsilon).fit(X).transform(X)


def test_I_was_refused_a_tenth_although_less_than_ten_was_spent():
    budget = PrivacyBudget(10.0, 1e-6)
    spend(budget, *[1.99] * 5)
    assert budget.spent.epsilon < 9.93
    assert "Spent: epsilon = 9.95 at delta = 1e-06 (9.9" in str(budget)
    assert "if planned in advance)" in str(budget)
    assert "Left: epsilon = 0.05 at delta = 0" in str(budget)
    assert "Left: epsilon = 0.05 at delta = 0" in budget._repr_html_()
    with pytest.raises(
        BudgetExceededError, match=r"asks for epsilon = 0.1 .*Left: eps"
    ):
        spend(budget, 0.1)
    assert budget.remaining == pytest.approx(0.05, abs=1e-5)


def test_I_spent_a_pair_of_numbers():
    budget = PrivacyBudget(3.0)
    for use in (budget.spend, budget.admits):
        with pytest.raises(TypeError, match="privacy_guarantee_; got tuple"):
            use((1.0, 1e-5))
    assert budget.spent is None


def test_I_folded_in_somebody_who_is_not_in_the_catalogue():
    encoder = CoordinateEncoder(categories=[["ann", "bob"], ["up", "heat"]])
    encoder.fit([["ann", "up"]])
    model = CPCompletion(0, unit=0, levels=[1, 2, 3], shape=encoder.declared_shape).fit(
        [[0, 0], [1, 1]], [3, 1]
    )
    with pytest.raises(ValueError, match="does not know: leave these rows out"):
        model.fold_in(encoder.transform([["eve", "up"]]), [3])


def test_I_asked_for_a_delta_where_there_is_none():
    noise = GaussianMechanism(0.5, delta=1e-6, bounds=(0, 1)).fit(X)
    for release, said in ((noise, True), (laplace(2.0).fit(X), False)):
        with pytest.raises(BudgetExceededError) as caught, PrivacyBudget(1.0):
            release.transform(X)
        assert ("This budget admits no delta" in str(caught.value)) is said


BUDGETS = {
    "pure": (PrivacyBudget(1.2), [0.5, 0.5]),
    "mixed": (PrivacyBudget(2.0, 1e-6), [0.1] * 40),
    "fixed": (PrivacyBudget(2.0, 1e-6, adaptive=False), [0.1] * 20),
}


@pytest.mark.parametrize(("budget", "epsilons"), BUDGETS.values(), ids=BUDGETS)
def test_what_remains_can_be_released_and_no_more(budget, epsilons):
    with contextlib.suppress(BudgetExceededError):
        spend(budget, *epsilons)
    left = budget.remaining
    assert 0 < left < budget.epsilon
    # Laplace noise may say a little less than a release of which only epsilon is known.
    with pytest.raises(BudgetExceededError):
        spend(budget, 1.5 * left)
    spend(budget, left)
    assert budget.remaining < 0.5 * left


def test_what_remains_of_all_and_of_nothing():
    assert PrivacyBudget(1.5).remaining == 1.5
    assert PrivacyBudget(math.inf).remaining == math.inf
    budget = PrivacyBudget(1.0)
    spend(budget, *[0.1] * 10)
    assert budget.remaining == 0
    assert "Left: nothing" in str(budget)


def test_what_remains_of_a_budget_for_gaussian_noise():
    budget = PrivacyBudget(9.0, 1e-6)
    noise = GaussianMechanism(1.0, delta=1e-6, bounds=(0, 1)).fit(X)
    with budget:
        noise.transform(X)
    found = re.search(r"or epsilon = (\S+) at delta = 1e-06 with Gaussian", str(budget))
    assert found is not None
    epsilon = float(found[1])

    def admitted(epsilon):
        noise = GaussianMechanism(epsilon, delta=1e-6, bounds=(0, 1)).fit(X)
        return budget.admits(noise.privacy_guarantee_)

    assert admitted(0.999 * epsilon)
    assert not admitted(1.01 * epsilon)


def test_I_passed_a_random_forest_as_task():
    labels = (Y > 0.5).astype(int)
    forest = RandomForestClassifier(3, random_state=0).fit(X, labels)
    encoder = TaskAwareEncoder(4.0, task=forest)
    with pytest.raises(TypeError, match=r"RandomForestClassifier cannot.*pass `y`"):
        encoder.fit(X)
    codes = encoder.set_params(task=None).fit(X, forest.predict(X)).transform(X)
    assert codes.shape == X.shape


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (LogisticRegression(), "LogisticRegression learned from the labels y"),
        (Ridge(), "Ridge learned from the targets y"),
        (SelectKBest(k=1), "If SelectKBest was passed y, it learned from y"),
    ],
    ids=lambda one: "" if isinstance(one, str) else type(one).__name__,
)
def test_I_fitted_a_model_to_labels_after_the_noise(step, said):
    model = make_pipeline(laplace(), step).fit(X, (Y > 0.5).astype(int))
    assert f"{said} without noise." in privacy_of(model).unprotected


def test_I_read_which_noise_PrivUnit_adds():
    unit = PrivUnit(2.0, norm_bound=1.0).fit(X).privacy_guarantee_.statement
    assert "PrivUnit noise" in unit
    code = TaskAwareEncoder(2.0, mechanism="privunit").fit(X, Y)
    assert "with PrivUnit noise" in code.privacy_guarantee_.statement


@needs_callbacks
@pytest.mark.usefixtures("restored_filters")
def test_I_monitored_the_scores_of_a_search():
    from sklearn.callback import ScoringMonitor

    monitor = ScoringMonitor(scoring="r2")
    search = GridSearchCV(completion(), {"epsilon": [1.0, 2.0]}, cv=2)
    said = "What the callback ScoringMonitor computes: GridSearchCV passes it the data"
    for callback, named in ((monitor, True), (ProgressBar(), False)):
        search.set_callbacks(callback)
        found = " ".join(
            privacy_of(search.fit(RATINGS.data, RATINGS.target)).unprotected
        )
        assert (said in found) is named
    # A completion passes no data to its callbacks.
    model = completion().set_callbacks(monitor).fit(RATINGS.data, RATINGS.target)
    assert "callback" not in " ".join(privacy_of(model).unprotected)


@pytest.mark.parametrize(
    ("rounds", "said"),
    [(False, "noise in floating point"), (True, "differ more than the claim admits")],
)
def test_I_audited_noise_that_numpy_draws(rounds, said):
    """Twice, as the finding asks: rounded, to see that the scale is too small.

    Both claims are false, so there is no false alarm; the generator has a seed.
    """
    generator = np.random.default_rng(0)

    def noise(x, n):
        y = x + generator.laplace(scale=0.25 if rounds else 1.0, size=(n, 1))
        return np.round(y, 1) if rounds else y

    report = audit_mechanism(
        noise, [0.0], [1.0], epsilon=1.0, n_trials=4000, confidence=0.999, batched=True
    )
    assert report.violated
    assert f"Finding: {report.finding}." in str(report)
    assert said in report.finding
    honest = audit_mechanism(
        lambda x, n: np.zeros((n, 1)), [0.0], [1.0], epsilon=1.0, n_trials=400,
        batched=True,
    )  # fmt: skip
    assert "Finding" not in str(honest)


def frames():
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(X, columns=["a", "b", "c"], index=range(100, 160))


@pytest.mark.parametrize("model", [Ridge(), LogisticRegression()])
def test_I_fitted_the_task_to_a_data_frame(model):
    frame, labels = frames(), (Y > 0.5).astype(int)
    encoder = TaskAwareEncoder(4.0, task=model.fit(frame, labels))
    with warnings.catch_warnings(action="error"):
        for given in (frame, frame.to_numpy()):
            encoder.fit(given).transform(given)


@pytest.mark.parametrize("output", ["decoded", "code"])
def test_I_decoded_into_data_frames(output):
    frame = frames()
    encoder = TaskAwareEncoder(4.0, n_components=2, output=output, random_state=0)
    encoder.fit(frame, Y).set_output(transform="pandas")
    estimates = encoder.decode(encoder.privatize(frame))
    assert list(estimates.columns) == ["a", "b", "c"]
    indexed = encoder.decode(frame.iloc[:, : encoder.n_components_])
    assert indexed.index.equals(frame.index)
    encoder.set_output(transform="default")
    assert isinstance(encoder.decode(np.zeros((1, encoder.n_components_))), np.ndarray)


def test_I_declared_no_bounds_and_found_the_line_of_my_script():
    with pytest.warns(PrivacyLeakWarning, match="no finite epsilon") as caught:
        LaplaceMechanism().fit_transform(X)
    assert {one.filename for one in caught} == {__file__}
