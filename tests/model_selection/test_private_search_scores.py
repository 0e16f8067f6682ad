"""Scores of a private search: clipped, of known sensitivity, with the stated noise."""

import itertools

import numpy as np
import pytest
from scipy.stats import gamma
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import KFold, PredefinedSplit, RepeatedKFold

from sktensordp.base import PrivateEstimatorMixin
from sktensordp.completion import CPCompletion
from sktensordp.model_selection import PrivateSearchCV, _private_search
from sktensordp.model_selection._groups import Users
from sktensordp.model_selection._scores import STEPS, row_score
from sktensordp.privacy import PrivacyGuarantee
from sktensordp.privacy._events import PureDpEvent

LEVELS = [1, 2, 3, 4, 5]
PURE = PrivacyGuarantee.of(
    PureDpEvent(1.0), unit="sample", statement="Nothing.", source="nobody"
)


class Constant(PrivateEstimatorMixin, RegressorMixin, BaseEstimator):
    """Says that it releases something, and predicts 0."""

    def __init__(self, which=0, random_state=None):
        self.which = which
        self.random_state = random_state

    def _planned_guarantee(self, fitted=None):
        return PURE

    def fit(self, X, y):
        with self._release(self._planned_guarantee()):
            self.is_fitted_ = True
        return self

    def predict(self, X):
        return np.zeros(np.shape(X)[0])


def constant(**kwargs):
    kwargs = {
        "param_distributions": {"which": [0, 1]}, "score_bounds": (-1, 0), "n_iter": 2,
        **kwargs,
    }  # fmt: skip
    return PrivateSearchCV(Constant(), **kwargs)


@pytest.fixture
def spy(monkeypatch):
    """One try; its score before the noise, and the lattice of that."""
    seen = {"totals": []}
    lattice = _private_search.laplace_lattice

    class Lattice:
        def __init__(self, *args, **kwargs):
            seen["lattice"] = self.inner = lattice(*args, **kwargs)
            self.epsilon = self.inner.epsilon

        def randomize(self, values, bits):
            seen["totals"].append(float(values[0]))
            return self.inner.randomize(values, bits)

    monkeypatch.setattr(_private_search, "categorical", lambda *_: np.ones(1, int))
    monkeypatch.setattr(_private_search, "laplace_lattice", Lattice)
    return seen


@pytest.mark.parametrize(
    "cv",
    [KFold(4), RepeatedKFold(n_splits=2, n_repeats=3), PredefinedSplit([0, -1, 0] * 3)],
)
def test_one_record_moves_the_sum_of_scores_by_its_steps(spy, cv):
    times = 3 if isinstance(cv, RepeatedKFold) else 1
    largest, rng = 0, np.random.default_rng(1)
    search = constant(cv=cv, score_bounds=(-2, 1), scoring=lambda e, X, y: X[:, 0])
    special = [np.nan, np.inf, -np.inf, 1e300, -1e300, -2.0, 1.0, 0.1]
    for one, other in itertools.product(special, special):
        rows = rng.normal(size=(9, 1))
        totals = []
        for value in (one, other):
            rows[5] = value
            spy["totals"].clear()
            search.fit(rows, np.zeros(9))
            totals.append(spy["totals"][0])
        largest = max(largest, abs(totals[1] - totals[0]))
        assert abs(totals[1] - totals[0]) <= times * STEPS
    assert largest == times * STEPS
    # What the noise was made for, up to the rounding of its own rate.
    assert times * STEPS <= spy["lattice"].l1_steps <= times * STEPS + 4


def test_all_rows_of_a_user_move_the_sum_by_the_steps_of_one():
    rng = np.random.default_rng(2)
    users, score = Users(0, 5), row_score(lambda e, X, y: y, (-1, 1), None)
    values = [-1.0, 1.0, np.nan, 0.3, 7.0]

    def total(where, y):
        return users.total(score.steps(None, where, y), where)

    moves = []
    for _ in range(300):
        n_rows = rng.integers(0, 12)
        where = rng.integers(0, 5, size=(n_rows, 2))
        y = rng.choice(values, size=n_rows)
        others = where[:, 0] != 2
        n_mine = rng.choice([0, 0, 1, 5])
        # Wherever the rows of the user stand: the others keep their coins.
        mine = np.column_stack([np.full(n_mine, 2), rng.integers(0, 5, n_mine)])
        changed = np.concatenate([mine, where[others]])
        new_y = np.concatenate([np.full(n_mine, rng.choice(values)), y[others]])
        moves.append(abs(total(changed, new_y) - total(where, y)))
    assert max(moves) == STEPS
    assert STEPS // 2 in moves
    assert total(np.zeros((0, 2), int), np.zeros(0)) == 5 * (STEPS // 2)


def test_nan_predictions_are_the_worst_score():
    score = row_score("neg_mean_squared_error", (-4, 0), None)

    class Nan:
        def predict(self, X):
            return np.array([np.nan, 1.0, 3.0, np.inf])

    steps = score.steps(Nan(), np.zeros((4, 1)), np.array([1.0, 1.0, 2.0, 2.0]))
    assert steps.tolist() == [0, STEPS, STEPS * 3 // 4, 0]
    assert score.reported(STEPS / 2) == -2
    root = row_score("neg_root_mean_squared_error", (-4, 0), None)
    assert root.reported(STEPS / 4) == -np.sqrt(3)
    assert row_score(None, None, CPCompletion(0, levels=LEVELS)).bounds == (-16, 0)


@pytest.mark.usefixtures("spy")
def test_noise_of_the_score_has_the_stated_scale():
    # Each record is tested twice; the range is 3, of 20 scores.
    search = constant(
        cv=RepeatedKFold(n_splits=2, n_repeats=2), score_bounds=(-3, 0), n_iter=2,
        score_epsilon=0.5, refit=False,
    )  # fmt: skip
    noise = [
        search.fit(np.zeros((10, 1)), np.zeros(10)).best_score_ for _ in range(200)
    ]

    def follows(scale):
        # A sum of n absolute Laplace variates; false alarms: one in a million.
        low, high = gamma.ppf([5e-7, 1 - 5e-7], len(noise), scale=scale)
        return low < np.sum(np.abs(noise)) < high

    scale = 2 * 3 / 0.5 / 20
    assert follows(scale)
    assert not follows(scale / 2)
    assert not follows(scale * 2)
    # Three quarters of the range: the mean is on the scale of the scores.
    far = search.fit(np.zeros((10, 1)), np.full(10, np.sqrt(0.75))).best_score_
    assert far == pytest.approx(-0.75, abs=20 * scale)
