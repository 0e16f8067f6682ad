"""What the three encoders lose, the tasks that they take, and what was published.

Statistical tests use fixed seeds and state how often a correct encoder would fail.
"""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.linear_model import (
    LinearRegression,
    PoissonRegressor,
)

from sktensordp.encoding import TaskAgnosticEncoder, TaskAwareEncoder
from sktensordp.exceptions import UnsoundClaimWarning
from sktensordp.papers import PrivacyAgnosticEncoder, PublishedTaskAwareEncoder
from tests.support.noise import constant_noise

ALL = [TaskAwareEncoder, TaskAgnosticEncoder, PrivacyAgnosticEncoder]
TASK = np.array([[1.0, 0.1, 0, 0, 0, 0, 0], [0, 0, 0, 2, 1e-3, 0, 0]])
FAR = np.array([[1e300] * 7, [-1e300] * 7, [1.7e308] * 7, [1e5, 0, 0, -1e9, 7, 0, 0]])


def task_loss(encoder, X, estimates):
    """Mean over the samples, for every repetition: estimates (n_repeats, n, ...)."""
    missing = (estimates - X) @ encoder.task_.T
    return np.mean(np.sum(missing**2, axis=-1), axis=-1)


class TestLoss:
    @pytest.mark.thorough
    def test_load_curves(self, guide):
        """Held-out loss over the task's variance, well below the published."""
        X = guide["load_curves"](1400, seed=2)
        X = (X - X[:980].mean()) / X[:980].std()
        fitted, others = X[:980], np.repeat(X[980:], 10, axis=0)
        for epsilon, bar in [(5.0, 0.62), (10.0, 0.39), (20.0, 0.18), (50.0, 0.045)]:
            encoder = TaskAwareEncoder(
                epsilon, task=guide["task"], mechanism="privunit", random_state=0
            )
            encoder.fit(fitted)
            (lost,) = task_loss(encoder, others, [encoder.transform(others)])
            assert lost <= bar * encoder.task_variance_
            auto = TaskAwareEncoder(epsilon, task=guide["task"]).fit(fitted)
            assert auto.mechanism_ == "privunit"
            assert auto.expected_task_loss_ == encoder.expected_task_loss_

    def test_more_is_lost_by_the_benchmarks(self, low_rank):
        losses = [cls(5.0, task=TASK).fit(low_rank).expected_task_loss_ for cls in ALL]
        assert losses[0] <= min(losses[1:])
        assert losses[1] > 1.1 * losses[0]


class TestWithoutNoise:
    @pytest.mark.parametrize("cls", [TaskAwareEncoder, TaskAgnosticEncoder])
    def test_the_identity_is_exact(self, cls, low_rank):
        rows = np.hstack([low_rank, low_rank[:, :1]])  # singular
        assert_allclose(cls(math.inf).fit_transform(rows), rows, rtol=1e-8)

    def test_fewer_components_are_the_principal_ones(self, low_rank):
        encoder = PrivacyAgnosticEncoder(math.inf, n_components=1, task=TASK)
        encoder.fit(low_rank)
        values = np.linalg.eigvalsh(np.cov((low_rank @ TASK.T).T, bias=True))
        assert_allclose(encoder.expected_task_loss_, values[0], rtol=1e-6)


class TestPrivacy:
    @pytest.mark.parametrize("cls", ALL)
    def test_laplace_noise_is_for_the_distance_of_any_two_codes(self, cls, low_rank):
        """In L1, and of what is released where no noise is drawn."""
        encoder = cls(2.0, task=TASK, mechanism="laplace").fit(low_rank)
        scale = math.sqrt(encoder.noise_variance_ / 2)
        rng = np.random.default_rng(0)
        scales = 10.0 ** rng.uniform(-3, 300, size=(300, 1))
        X = np.vstack([FAR, low_rank, scales * rng.normal(size=(300, 7))])
        with constant_noise(0):
            codes = encoder.privatize(X)
        assert np.all(np.isfinite(codes))
        assert 1.5 < pdist(codes, "cityblock").max() / scale <= 2.0 * (1 + 1e-5)

    def test_published(self, low_rank):
        encoder = PublishedTaskAwareEncoder(3.0, task=TASK)
        with pytest.warns(UnsoundClaimWarning, match="fitting data"):
            encoder.fit(low_rank)
        guarantee = encoder.privacy_guarantee_
        assert math.isinf(guarantee.epsilon)
        assert guarantee.claimed == (3.0, 0.0)
        with constant_noise(0):
            codes = encoder.privatize(low_rank)
        scale = pdist(codes, "cityblock").max() / 3.0
        assert_allclose(encoder.noise_variance_, 2 * scale**2, rtol=1e-4)

    def test_very_large_epsilon_in_one_component(self, low_rank):
        encoder = TaskAwareEncoder(1e4, task=TASK[:1], mechanism="privunit")
        guarantee = encoder.fit(low_rank).privacy_guarantee_
        assert guarantee.event.epsilon < guarantee.epsilon == 1e4


class TestTask:
    def test_the_same_task_in_three_forms(self, low_rank):
        y = low_rank @ TASK.T + 3
        model = LinearRegression().fit(low_rank[:, :6], y)
        encoders = [
            TaskAwareEncoder(3.0, task=model.coef_).fit(low_rank[:, :6]),
            TaskAwareEncoder(3.0, task=model).fit(low_rank[:, :6]),
            TaskAwareEncoder(3.0).fit(low_rank[:, :6], y),
        ]
        for encoder in encoders:
            assert_allclose(encoder.task_, TASK[:, :6], atol=1e-3)
            assert_allclose(
                encoder.expected_task_loss_, encoders[0].expected_task_loss_, rtol=1e-3
            )

    def test_without_y_everything_is_wanted(self, low_rank):
        assert_array_equal(TaskAwareEncoder().fit(low_rank).task_, np.eye(7))

    @pytest.mark.parametrize(
        "task",
        [
            PoissonRegressor().fit([[0.0, 1], [1, 0], [2, 1]], [0, 1, 9]),
            LinearRegression(),
        ],
        ids=["log link", "not fitted"],
    )
    def test_what_is_not_linear_is_refused(self, task):
        X = np.random.default_rng(0).normal(size=(20, 2))
        with pytest.raises(
            (ValueError, TypeError), match=r"cannot be a (lin.* )?`task`"
        ):
            TaskAwareEncoder(task=task).fit(X)

    @pytest.mark.parametrize(
        "task", [np.ones(7), np.ones((2, 6)), np.full((1, 7), np.nan), "linear"]
    )
    def test_matrices_that_do_not_fit(self, task, low_rank):
        with pytest.raises(ValueError, match="task must"):
            TaskAwareEncoder(task=task).fit(low_rank)

    @pytest.mark.parametrize("labels", [["a", "b", "c"], [3, 1, 2], [True, False]])
    def test_labels_stand_for_indicators(self, labels, low_rank):
        y = np.array(labels)[np.digitize(low_rank[:, 0], [-5, 5]) % len(labels)]
        indicators = (y[:, np.newaxis] == np.unique(y)).astype(float)
        one = TaskAwareEncoder(3.0).fit(low_rank, y)
        assert_array_equal(
            one.task_, TaskAwareEncoder().fit(low_rank, indicators).task_
        )

    @pytest.mark.parametrize(
        "y",
        [
            np.ones(5), ["a"] * 300, np.full(300, np.nan), [0.5] * 299 + ["guest"],
            ["a"] * 299 + [1], ["a"] * 299 + [True],
        ],
    )  # fmt: skip
    def test_bad_y(self, y, low_rank):
        with pytest.raises(ValueError, match=r"^y must"):
            TaskAwareEncoder().fit(low_rank, y)


def test_guide(guide):
    lines = guide["printed"].strip().split("\n")
    assert "(epsilon = 10, delta = 0)-differential privacy" in lines[0]
    assert abs(float(lines[1].split()[-1]) - 0.33) < 0.01
    # 2000 people: the standard error is 0.01.
    assert abs(float(lines[2].split()[-1]) - 0.33) < 0.06


@pytest.mark.parametrize("mechanism", ["laplace", "l2", "privunit", "gaussian"])
def test_column_of_the_least_number_there_is(mechanism):
    X = np.random.default_rng(0).normal(size=(100, 3))
    X[:, 1] = 0
    X[0, 1] = 5e-324
    encoder = TaskAwareEncoder(
        4.0, mechanism=mechanism, delta=1e-5, task=[[1.0, 0.0, 1.0]]
    ).fit(X)
    assert np.all(np.isfinite(encoder.privatize([[0.0, 0, 0], [0, 1, 0], [1, 1, 1]])))


def test_search_over_a_model_leaves_the_callers_alone():
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = LinearRegression().fit(X, X[:, 0])
    encoder = TaskAwareEncoder(task=model)
    clone(encoder).set_params(task__fit_intercept=False)
    assert model.fit_intercept
    assert clone(encoder).task.coef_ is not None


@pytest.mark.parametrize("encoder", [TaskAwareEncoder, TaskAgnosticEncoder])
def test_too_few_samples_to_learn_from_are_told(encoder):
    """They are public or consented to, so that their number may be told."""
    X = np.random.default_rng(0).normal(size=(40, 12))
    for n in (2, 5, 12, 13):
        with pytest.warns(UserWarning, match="no more samples than directions"):
            encoder(10.0).fit(X[:n])
    encoder(10.0).fit(X)
    encoder(10.0).fit(np.repeat(X[:, :3], 4, axis=1)[:5])  # of three directions
