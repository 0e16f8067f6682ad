"""Statistics with features of items, however few: their weights take factors' place."""

import numpy as np
import pytest

from sktensordp.completion import CPCompletion
from tests.support.seams import Entries, Problem, StatisticsPerturbation


@pytest.mark.parametrize(("n_features", "rank"), [(0, 2), (1, 1), (3, 3)])
def test_weights_are_fitted_where_there_is_a_feature(n_features, rank):
    where = np.argwhere(np.ones((6, 5))).astype(np.int32)
    features = np.arange(5.0)[:, np.newaxis] ** np.arange(1, n_features + 1)
    declared = {"side_information": {1: features}} if n_features else {}
    model = CPCompletion(
        2, shape=(6, 5), value_bounds=(0, 1), n_pattern_components=0, **declared
    )
    problem = Problem.from_estimator(model, (6, 5), Entries(where, None, (6, 5)))
    measurement = StatisticsPerturbation(problem)
    assert measurement.uses_features == (n_features > 0)
    assert measurement._form.rank == rank
