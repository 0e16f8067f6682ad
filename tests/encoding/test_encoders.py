"""The three encoders as estimators: what they release, return, refuse and keep.

Statistical tests use fixed seeds and state how often a correct encoder would fail.
"""

import math
import pickle
import time

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.datasets import make_regression
from sklearn.linear_model import (
    LinearRegression,
    PoissonRegressor,
    Ridge,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sktensordp.audit import audit_mechanism
from sktensordp.encoding import (
    PrivacyAgnosticEncoder,
    TaskAgnosticEncoder,
    TaskAwareEncoder,
)
from sktensordp.encoding._code_noise import no_noise
from sktensordp.exceptions import UnsoundClaimWarning
from sktensordp.privacy import privacy_of

ALL = [TaskAwareEncoder, TaskAgnosticEncoder, PrivacyAgnosticEncoder]
TASK = np.array([[1.0, 0.1, 0, 0, 0, 0, 0], [0, 0, 0, 2, 1e-3, 0, 0]])
FAR = np.array([[1e300] * 7, [-1e300] * 7, [1.7e308] * 7, [1e5, 0, 0, -1e9, 7, 0, 0]])


def n_releases(encoder):
    return encoder._count_releases()._count


def task_loss(encoder, X, estimates):
    """Mean over the samples, for every repetition: estimates (n_repeats, n, ...)."""
    missing = (estimates - X) @ encoder.task_.T
    return np.mean(np.sum(missing**2, axis=-1), axis=-1)


class TestLoss:
    @pytest.mark.parametrize("cls", ALL)
    @pytest.mark.parametrize("mechanism", ["laplace", "l2", "privunit", "gaussian"])
    def test_monte_carlo_equals_what_is_expected(self, cls, mechanism, low_rank):
        """Within 6 standard errors of 60 repetitions: 1e-7 for each of twelve."""
        encoder = cls(
            6.0, delta=1e-3, task=TASK, mechanism=mechanism, random_state=0
        ).fit(low_rank)
        many = [encoder.transform(low_rank) for _ in range(60)]
        found = task_loss(encoder, low_rank, np.array(many))
        error = found.std(ddof=1) / math.sqrt(len(found))
        assert abs(found.mean() - encoder.expected_task_loss_) < 6 * error
        assert error < 0.02 * encoder.task_variance_

    @pytest.mark.parametrize("mechanism", ["l2", "privunit"])
    def test_half_the_noise_is_seen(self, mechanism, low_rank):
        encoder = TaskAwareEncoder(
            6.0, task=TASK, mechanism=mechanism, random_state=0
        ).fit(low_rank)
        plan = encoder._plan
        codes = ((low_rank - plan.mean) / plan.scale) @ plan.matrix.T
        ball = no_noise(codes.shape[1], clipped=True).plan
        clipped = ball.randomize(codes, None)
        many = [
            encoder.decode((clipped + encoder.privatize(low_rank)) / 2)
            for _ in range(60)
        ]
        found = task_loss(encoder, low_rank, np.array(many))
        error = found.std(ddof=1) / math.sqrt(len(found))
        assert abs(found.mean() - encoder.expected_task_loss_) > 6 * error

    def test_load_curves(self, guide):
        """Held-out loss over the task's variance, well below the published."""
        X = guide["load_curves"](1400, seed=2)
        X = (X - X[:980].mean()) / X[:980].std()
        fitted, others = X[:980], np.repeat(X[980:], 10, axis=0)
        for epsilon, bar in [(5.0, 0.62), (10.0, 0.39), (20.0, 0.18), (50.0, 0.045)]:
            encoder = TaskAwareEncoder(
                epsilon, task=guide["task"], mechanism="privunit", random_state=0
            )
            begun = time.process_time()
            encoder.fit(fitted)
            assert time.process_time() - begun < 1
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
    def test_the_task_is_exact(self, low_rank):
        encoder = TaskAwareEncoder(math.inf, task=TASK).fit(low_rank)
        found = encoder.transform(low_rank) @ TASK.T
        assert_allclose(found, low_rank @ TASK.T, rtol=1e-9, atol=1e-9)
        assert encoder.n_components_ == 2
        assert encoder.expected_task_loss_ < 1e-12 * encoder.task_variance_
        assert encoder.mechanism_ == "none"
        assert math.isinf(encoder.clip_)
        assert not encoder.privacy_guarantee_.protects

    @pytest.mark.parametrize("cls", [TaskAwareEncoder, TaskAgnosticEncoder])
    def test_the_identity_is_exact(self, cls, low_rank):
        rows = np.hstack([low_rank, low_rank[:, :1]])  # singular
        assert_allclose(cls(math.inf).fit_transform(rows), rows, rtol=1e-8)

    def test_fewer_components_are_the_principal_ones(self, low_rank):
        encoder = PrivacyAgnosticEncoder(math.inf, n_components=1, task=TASK)
        encoder.fit(low_rank)
        values = np.linalg.eigvalsh(np.cov((low_rank @ TASK.T).T, bias=True))
        assert_allclose(encoder.expected_task_loss_, values[0], rtol=1e-6)

    def test_clipping_stays_where_it_is_asked_for(self, low_rank):
        encoder = TaskAwareEncoder(math.inf, task=TASK, clip=0.5, output="code")
        codes = encoder.fit_transform(low_rank)
        lengths = np.linalg.norm(codes, axis=1)
        assert_allclose(np.mean(lengths > 1 - 1e-12), 0.5, atol=0.01)
        assert lengths.max() < 1 + 1e-14


class TestPrivacy:
    @pytest.mark.parametrize("mechanism", ["laplace", "l2", "privunit"])
    def test_guarantee(self, mechanism, low_rank):
        encoder = TaskAwareEncoder(3.0, task=TASK, mechanism=mechanism).fit(low_rank)
        guarantee = encoder.privacy_guarantee_
        assert (guarantee.epsilon, guarantee.delta) == (3.0, 0.0)
        assert 2.9 < guarantee.event.epsilon <= 3.0
        assert "Every call spends again" in guarantee.statement
        report = privacy_of(encoder)
        assert report.guarantee == guarantee
        assert any("consent" in sentence for sentence in report.unprotected)

    def test_gaussian(self, low_rank):
        with pytest.raises(ValueError, match="needs a delta"):
            TaskAwareEncoder(1.0, mechanism="gaussian").fit(low_rank)
        encoder = TaskAwareEncoder(1.0, delta=1e-6, mechanism="gaussian")
        guarantee = encoder.fit(low_rank).privacy_guarantee_
        assert (guarantee.epsilon, guarantee.delta) == (1.0, 1e-6)

    @pytest.mark.parametrize("cls", ALL)
    def test_laplace_ratio_for_every_input(self, cls, low_rank):
        """The loss is the rate times the L1 distance of the lattice points."""
        encoder = cls(2.0, task=TASK, mechanism="laplace").fit(low_rank)
        plan, lattice = encoder._plan, encoder._plan.noise.lattice
        rng = np.random.default_rng(0)
        scales = 10.0 ** rng.uniform(-3, 300, size=(300, 1))
        X = np.vstack([FAR, low_rank, scales * rng.normal(size=(300, 7))])

        class Clipped:
            def randomize(self, samples, _):
                return np.rint(samples / lattice.step)

        object.__setattr__(plan.noise, "lattice", Clipped())
        points = plan.randomize(X, type("Source", (), {"stream": lambda *_: None})())
        assert np.all(np.isfinite(points))
        most = pdist(points, "cityblock").max()
        assert most * lattice.rate <= 2.0
        assert most * lattice.rate > 1.5

    @pytest.mark.parametrize("cls", ALL)
    @pytest.mark.parametrize("mechanism", ["l2", "privunit", "gaussian"])
    def test_every_code_ends_in_the_ball(self, cls, mechanism, low_rank):
        encoder = cls(2.0, delta=1e-6, task=TASK, mechanism=mechanism).fit(low_rank)
        assert np.all(np.isfinite(encoder.transform(FAR)))
        codes = (FAR / 1e150 - encoder._plan.mean / 1e150) / encoder._plan.scale
        codes = codes @ encoder._plan.matrix.T
        size = encoder.n_components_
        clipped = no_noise(size, clipped=True).plan.randomize(codes * 1e140, None)
        assert np.linalg.norm(clipped, axis=1).max() <= 1 + 1e-14

    @pytest.mark.parametrize("mechanism", ["laplace", "l2", "privunit"])
    def test_audit(self, mechanism, low_rank):
        """Two inputs far outside: not above epsilon, and above a quarter of it.

        A sound mechanism is accused with a probability of 1e-6 at most.
        """
        encoder = TaskAwareEncoder(
            3.0, task=TASK, mechanism=mechanism, random_state=0, n_components=1
        ).fit(low_rank)

        def run(x, n):
            return encoder.privatize(np.tile(x, (n, 1)))

        report = audit_mechanism(
            run,
            FAR[0],
            FAR[1],
            epsilon=3.0,
            n_trials=6000,
            confidence=1 - 1e-6,
            batched=True,
        )
        assert not report.violated
        assert report.epsilon_lower > 0.75

    def test_published(self, low_rank):
        encoder = TaskAwareEncoder(3.0, task=TASK, calibration="published")
        with pytest.warns(UnsoundClaimWarning, match="fitting data"):
            encoder.fit(low_rank)
        guarantee = encoder.privacy_guarantee_
        assert math.isinf(guarantee.epsilon)
        assert guarantee.claimed == (3.0, 0.0)
        plan = encoder._plan
        codes = (low_rank - plan.mean) / plan.scale @ plan.matrix.T
        scale = pdist(codes, "cityblock").max() / 3.0
        assert_allclose(encoder.noise_variance_, 2 * scale**2, rtol=1e-4)
        with pytest.raises(ValueError, match="not clipped"):
            encoder.set_params(mechanism="l2").fit(low_rank)

    def test_very_large_epsilon_in_one_component(self, low_rank):
        encoder = TaskAwareEncoder(1e4, task=TASK[:1], mechanism="privunit")
        guarantee = encoder.fit(low_rank).privacy_guarantee_
        assert guarantee.event.epsilon < guarantee.epsilon == 1e4

    def test_one_release_a_call(self, low_rank):
        encoder = TaskAwareEncoder(3.0, task=TASK).fit(low_rank)
        assert n_releases(encoder) == 0
        encoder.transform(low_rank)
        code = encoder.privatize(low_rank)
        assert n_releases(encoder) == 2
        encoder.decode(code)
        client = encoder.client()
        client.privatize(low_rank)
        assert (n_releases(encoder), n_releases(client)) == (2, 1)

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_bad_input_is_refused_before_anything_is_drawn(self, bad, low_rank):
        encoder = TaskAwareEncoder(3.0, task=TASK).fit(low_rank)
        client = encoder.client()
        broken = low_rank.copy()
        broken[3, 3] = bad
        for X in (broken, low_rank[:, :3], low_rank[0], np.array([["a"] * 7])):
            for one in (encoder.transform, encoder.privatize, client.privatize):
                with pytest.raises(ValueError, match=r"."):
                    one(X)
        assert n_releases(encoder) == n_releases(client) == 0


class TestRandomness:
    def test_seeds(self, low_rank):
        one, two = (
            TaskAwareEncoder(3.0, task=TASK, random_state=5).fit(low_rank)
            for _ in range(2)
        )
        first = one.transform(low_rank)
        assert_array_equal(first, two.transform(low_rank))
        assert not np.any(first[:, 0] == one.transform(low_rank)[:, 0])
        assert any("integer random_state" in s for s in privacy_of(one).unprotected)

    @pytest.mark.parametrize("mechanism", ["laplace", "l2", "privunit"])
    def test_fresh_entropy(self, mechanism, low_rank):
        encoder = TaskAwareEncoder(3.0, task=TASK, mechanism=mechanism).fit(low_rank)
        first = encoder.privatize(low_rank)
        assert np.mean(first == encoder.privatize(low_rank)) < 0.01
        other = pickle.loads(pickle.dumps(encoder.client()))
        assert np.mean(first == other.privatize(low_rank)) < 0.01

    def test_fit_is_deterministic(self, low_rank):
        one, two = (TaskAwareEncoder(3.0, task=TASK).fit(low_rank) for _ in range(2))
        assert_array_equal(one._plan.matrix, two._plan.matrix)
        assert one.expected_task_loss_ == two.expected_task_loss_


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
        with pytest.raises((ValueError, TypeError), match=r"no (linear )?task"):
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

    @pytest.mark.parametrize("y", [np.ones(5), ["a"] * 300, np.full(300, np.nan)])
    def test_bad_y(self, y, low_rank):
        with pytest.raises(ValueError, match=r"^y must"):
            TaskAwareEncoder().fit(low_rank, y)


class TestShapes:
    @pytest.mark.parametrize("cls", ALL)
    def test_tensors(self, cls):
        X = np.random.default_rng(0).normal(size=(60, 2, 3))
        one = cls(3.0, random_state=1).fit(X)
        flat = cls(3.0, random_state=1, tensor_shape=(2, 3)).fit(X.reshape(60, 6))
        found = one.transform(X)
        assert found.shape == X.shape
        assert_array_equal(found.reshape(60, 6), flat.transform(X.reshape(60, 6)))
        assert one.decode(one.privatize(X)).shape == X.shape
        assert one.client().privatize(X).shape == (60, one.n_components_)
        with pytest.raises(ValueError, match="feature names"):
            one.get_feature_names_out()

    def test_halves(self, low_rank):
        one, two, code = (
            TaskAwareEncoder(3.0, task=TASK, random_state=1, output=output)
            for output in ("decoded", "decoded", "code")
        )
        whole = one.fit(low_rank).transform(low_rank)
        noisy = two.fit(low_rank).privatize(low_rank)
        assert_array_equal(whole, two.decode(noisy))
        assert_array_equal(noisy, code.fit(low_rank).transform(low_rank))
        client = one.client(random_state=1)
        assert_array_equal(noisy, client.privatize(low_rank))
        with pytest.raises(ValueError, match="components"):
            one.decode(np.ones((3, 5)))

    @pytest.mark.parametrize("output", ["decoded", "code"])
    def test_types_and_frames(self, output, low_rank):
        frame = pd.DataFrame(low_rank, columns=list("abcdefg"))
        encoder = TaskAwareEncoder(3.0, task=TASK, output=output).fit(frame)
        single = frame.astype(np.float32)
        assert encoder.transform(single).dtype == np.float32
        encoder.set_output(transform="pandas")
        found = encoder.transform(frame)
        assert list(found.columns) == list(encoder.get_feature_names_out())
        if output == "decoded":
            assert list(found.columns) == list("abcdefg")
        else:
            assert found.columns[0] == "taskawareencoder0"

    def test_frames_of_tensors_are_refused(self):
        X = np.random.default_rng(0).normal(size=(60, 2, 3))
        encoder = TaskAwareEncoder(3.0).fit(X).set_output(transform="pandas")
        with pytest.raises(ValueError, match="data frame"):
            encoder.transform(X)
        assert n_releases(encoder) == 0


class TestPickle:
    def pickles(self, X):
        encoder = TaskAwareEncoder(
            3.0, task=TASK, mechanism="privunit", n_components=1
        ).fit(X)
        return pickle.dumps(encoder), pickle.dumps(encoder.client())

    def test_holds_no_sample(self, low_rank):
        for blob in self.pickles(low_rank):
            for value in np.unique(low_rank[:, :6]):
                assert value.tobytes() not in blob

    def test_size_does_not_depend_on_the_data(self, low_rank):
        many = np.tile(low_rank, (20, 1))
        for few, more in zip(self.pickles(low_rank), self.pickles(many), strict=True):
            assert abs(len(few) - len(more)) < 50

    def test_client_has_no_decoder(self, low_rank):
        encoder, client = self.pickles(low_rank)
        assert len(client) < len(encoder)
        assert b"_decoder" not in client


def test_in_a_pipeline_and_a_search():
    X, y = make_regression(200, 5, noise=1.0, random_state=0)
    model = make_pipeline(TaskAwareEncoder(random_state=0), Ridge())
    search = GridSearchCV(
        model,
        {"taskawareencoder__epsilon": [0.5, 20.0]},
        cv=3,
    ).fit(X, y)
    assert search.best_params_ == {"taskawareencoder__epsilon": 20.0}
    assert search.best_score_ > 0.8
    report = privacy_of(search)
    # Two training folds and a test fold for each candidate, and the refit.
    assert_allclose(report.guarantee.epsilon, 3 * (0.5 + 20) + 20, rtol=1e-9)


def test_guide(guide):
    lines = guide["printed"].strip().split("\n")
    assert lines[0].startswith("(epsilon = 10, delta = 0)-differential privacy")
    assert abs(float(lines[1]) - 0.33) < 0.01
    # 2000 people: the standard error is 0.01.
    assert abs(float(lines[2]) - 0.33) < 0.06


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
