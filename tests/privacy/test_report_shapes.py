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
from sktensordp.mechanisms import (
    LaplaceMechanism,
    MatrixVariateGaussian,
    TensorVariateGaussian,
)
from sktensordp.privacy import compose, privacy_of

N = 24
RNG = np.random.default_rng(0)
Y = (np.arange(N) + 0.5) / N
# A record is in the training part and in the one held out.
ALWAYS = [(range(N), range(N))]
CELLS = np.column_stack([np.arange(N) % 6, np.arange(N) // 6])


class Noted:
    """Notes what every release of all rows guarantees."""

    noted: ClassVar = []

    def transform(self, X):
        self.noted.append(self.privacy_guarantee_)
        return super().transform(X)


class NotedLaplace(Noted, LaplaceMechanism):
    pass


class NotedTensor(Noted, TensorVariateGaussian):
    pass


class NotedMatrix(Noted, MatrixVariateGaussian):
    pass


LAPLACE = NotedLaplace(1.0, bounds=(0, 1))
TENSOR = NotedTensor(1.0, bounds=(0, 1), calibration="published")
MATRIX = NotedMatrix(1.0, bounds=(0, 1), calibration="published")


def of_components(noise):
    return [("a", PCA()), ("b", noise), ("c", Ridge())], "a__n_components", [2, 12]


def of_columns(noise):
    values = [[("n", noise, [0])], [("n", noise, list(range(12)))]]
    steps = [("a", ColumnTransformer(values[0])), ("c", Ridge())]
    return steps, "a__transformers", values


def of_itself(noise):
    steps = [("a", noise), ("c", Ridge())]
    return steps, "a__tensor_shape", [(12, 1), (2, 6)]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(
    ("noise", "searched"),
    [
        (LAPLACE, of_components), (LAPLACE, of_columns),
        (TENSOR, of_components), (TENSOR, of_columns), (MATRIX, of_itself),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.UnsoundClaimWarning")
def test_samples_of_other_shapes_than_the_best_ones(noise, searched, first):
    """Where steps before a mechanism decide how many columns come to it."""
    Noted.noted.clear()
    steps, name, values = searched(noise)
    # The first one is refitted.
    search = GridSearchCV(
        Pipeline(steps), {name: [values[first], values[1 - first]]}, cv=ALWAYS,
        scoring=make_scorer(lambda *args: 0.0), error_score="raise",
    ).fit(RNG.random((N, 12)), Y)  # fmt: skip
    report = privacy_of(search)
    assert len(Noted.noted) == 5
    true = compose(*Noted.noted)
    assert report.guarantee.epsilon >= true.epsilon * (1 - 1e-9)
    for delta in (1e-9, 1e-5, 1e-2):
        counted = report.guarantee.epsilon_at(delta)
        assert counted >= true.epsilon_at(delta) * (1 - 1e-9)


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
