"""Plans for the fits of a search hold for samples of the shapes that these had."""

from typing import ClassVar

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from sktensordp.completion import CPCompletion
from sktensordp.mechanisms import LaplaceMechanism, TensorVariateGaussian
from sktensordp.privacy import compose, privacy_of

N = 24
RNG = np.random.default_rng(0)
Y = (np.arange(N) + 0.5) / N
CELLS = np.column_stack([np.arange(N) % 6, np.arange(N) // 6])


class NotedLaplace(LaplaceMechanism):
    """Notes what every release of all rows guarantees."""

    noted: ClassVar = []

    def transform(self, X):
        self.noted.append(self.privacy_guarantee_)
        return super().transform(X)


class NotedGaussian(TensorVariateGaussian):
    noted: ClassVar = []

    def transform(self, X):
        self.noted.append(self.privacy_guarantee_)
        return super().transform(X)


@pytest.mark.parametrize("earlier", ["pca__n_components", "columns", "a__tensor_shape"])
@pytest.mark.parametrize(
    "noise",
    [
        NotedLaplace(1.0, bounds=(0, 1)),
        NotedGaussian(1.0, bounds=(0, 1), calibration="published"),
    ],
)
@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.UnsoundClaimWarning")
def test_samples_of_other_shapes_than_the_best_ones(noise, earlier):
    """Where steps before a mechanism decide how many columns come to it."""
    noise.noted.clear()
    X = RNG.random((N, 12))
    steps = [("pca", PCA()), ("a", noise), ("b", Ridge())]
    values = [2, 12]
    if earlier == "columns":
        steps[:2] = [("a", ColumnTransformer([("n", noise, [0])]))]
        earlier = "a__transformers"
        values = [[("n", noise, [0])], [("n", noise, list(range(12)))]]
    elif earlier == "a__tensor_shape":
        steps, values = steps[1:], [(12,), (2, 6)]
    for order in (values, values[::-1]):
        noise.noted.clear()
        # The first one is refitted.
        search = GridSearchCV(
            Pipeline(steps), {earlier: order}, cv=[(range(12), range(12))],
            scoring=make_scorer(lambda *args: 0.0), error_score="raise",
        ).fit(X, Y)  # fmt: skip
        report = privacy_of(search)
        assert len(noise.noted) == 5
        true = compose(*noise.noted)
        for delta in (1e-9, 1e-5, 1e-2):
            counted = report.guarantee.epsilon_at(delta)
            assert counted >= true.epsilon_at(delta) * (1 - 1e-9)
        assert report.guarantee.epsilon >= true.epsilon * (1 - 1e-9)


def test_steps_that_keep_the_columns_cost_nothing():
    pipe = make_pipeline(
        StandardScaler(),
        FeatureUnion([("all", "passthrough")]),
        LaplaceMechanism(bounds=(0, 1)),
        Ridge(),
    )
    search = GridSearchCV(pipe, {"standardscaler__with_std": [True, False]}, cv=2)
    report = privacy_of(search.fit(RNG.random((N, 4)), Y))
    planned, refitted = report.releases[0][2], report.releases[-1][2]
    assert planned.event == refitted.event


def test_deltas_that_add_up_to_more_than_one():
    model = CPCompletion(
        0, unit=0, epsilon=1.0, delta=0.3, value_bounds=(0, 1), shape=(6, 4)
    )
    report = privacy_of(GridSearchCV(model, {"rank": [0]}, cv=4).fit(CELLS, Y))
    assert 0 < report.guarantee.delta < 1
    assert report.guarantee.epsilon > 1
