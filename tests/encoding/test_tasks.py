"""Tasks: gradients and metrics against references, and what is recognised."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import xlogy
from sklearn.datasets import load_iris
from sklearn.linear_model import (
    Lasso,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
)
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier

from tests.support.seams import NetworkTask, check_gradient, linearised, task_of

X, CLASSES = load_iris(return_X_y=True)
BINARY = (CLASSES == 1).astype(int)
TARGET = X @ [1.0, -2.0, 0.5, 1.5] + 3
LABELS = np.column_stack([BINARY, CLASSES == 2])
ACTIVATIONS = ("relu", "tanh", "logistic", "identity")


def network(cls, y, activation="tanh", layers=(6, 5)):
    model = cls(
        hidden_layer_sizes=layers, activation=activation, max_iter=5, random_state=0
    )
    with pytest.warns(UserWarning, match="reached and the optim"):
        return model.fit(X, y)


def models():
    for activation in ACTIVATIONS:
        for y in (BINARY, CLASSES, LABELS):
            yield network(MLPClassifier, y, activation)
        yield network(MLPRegressor, TARGET, activation)
    yield network(MLPRegressor, LABELS, layers=(7,))
    yield LogisticRegression(max_iter=1000).fit(X, BINARY)
    yield LogisticRegression(max_iter=1000).fit(X, CLASSES)
    yield LinearRegression().fit(X, TARGET)
    yield LinearRegression(fit_intercept=False).fit(X, LABELS)
    yield Ridge().fit(X, LABELS)
    yield Lasso(0.1).fit(X, TARGET)
    yield make_pipeline(StandardScaler(), StandardScaler(with_mean=False), Ridge()).fit(
        X, TARGET
    )
    for scaler in (MinMaxScaler((-2, 3)), MaxAbsScaler(), RobustScaler()):
        yield make_pipeline(scaler, LogisticRegression()).fit(X, CLASSES)
    half = RobustScaler(with_centering=False, with_scaling=False)
    yield make_pipeline(half, MinMaxScaler(), Ridge()).fit(X, TARGET)


MODELS = list(models())


def loss_of(task, outputs, targets):
    if task.link == "identity":
        return np.mean(np.sum((outputs - targets) ** 2, axis=1))
    entropy = xlogy(targets, outputs)
    if task.link == "logistic":
        entropy += xlogy(1 - targets, 1 - outputs)
    return -np.mean(np.sum(entropy, axis=1))


class Quadratic:
    """x^T A x for every sample, less a target."""

    def __init__(self, matrix):
        self.matrix = matrix

    def value_and_gradient(self, X_hat, targets):
        away = X_hat - targets
        slopes = away @ (self.matrix + self.matrix.T) / len(away)
        return np.mean(np.sum((away @ self.matrix) * away, axis=1)), slopes


class TestNetworks:
    @pytest.mark.parametrize("model", MODELS)
    def test_answers_of_the_model(self, model):
        task = task_of(model, X)
        outputs = task.outputs(X)
        if hasattr(model, "predict_proba"):
            answers = model.predict_proba(X)
            answers = answers[:, 1:] if outputs.shape[1] == 1 else answers
        else:
            answers = model.predict(X).reshape(outputs.shape)
        assert_allclose(outputs, answers, rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize("model", MODELS)
    def test_loss_and_gradient(self, model):
        task = task_of(model, X)
        rng = np.random.default_rng(0)
        rows = X[:20] + rng.normal(size=(20, 4))
        targets = task.outputs(X[:20])
        value, gradient = task.value_and_gradient(rows, targets)
        assert_allclose(value, loss_of(task, task.outputs(rows), targets), rtol=1e-9)
        for _ in range(3):
            step = 1e-6 * rng.normal(size=rows.shape)
            ends = [
                task.value_and_gradient(rows + sign * step, targets)[0]
                for sign in (1, -1)
            ]
            expected = (ends[0] - ends[1]) / 2
            # A unit of "relu" within a step of its kink makes the error O(step).
            assert_allclose(np.sum(gradient * step), expected, rtol=1e-4, atol=1e-12)


def brute_metric(task, curved):
    """J^T H J by differences of logits, sample by sample."""
    total = np.zeros((4, 4))
    for x in X:
        steps = 1e-6 * np.vstack([np.eye(4), -np.eye(4)])
        logits = task._layers(x + steps)[1]
        jacobian = (logits[:4] - logits[4:]).T / 2e-6
        p = task.outputs(x[np.newaxis])[0]
        if task.link == "softmax":
            shares = p if curved else np.full(len(p), 1 / len(p))
            hessian = np.diag(shares) - np.outer(shares, shares)
        elif task.link == "logistic" and curved:
            hessian = np.diag(p * (1 - p))
        else:
            hessian = np.eye(len(p))
        total += jacobian.T @ hessian @ jacobian
    return total / len(X)


class TestMetric:
    @pytest.mark.parametrize("curved", [True, False])
    @pytest.mark.parametrize("model", MODELS)
    def test_against_brute_force(self, model, curved):
        task = task_of(model, X)
        found = linearised(task, X, task.outputs(X), X.std(axis=0), curved=curved)
        expected = brute_metric(task, curved)
        assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())

    @pytest.mark.parametrize("scale", [1.0, 1e-8, 1e8])
    def test_by_gradients_alone(self, scale):
        matrix = np.diag([1.0, 4.0, 0.0, 2.0])
        matrix[0, 1] = 1.0
        rows = X * scale
        found = linearised(Quadratic(matrix), rows, rows, rows.std(axis=0), curved=True)
        assert_allclose(found, (matrix + matrix.T) / 2, atol=1e-6)

    def test_negative_curvature_is_left_out(self):
        matrix = np.diag([1.0, -4.0, 0.0, 2.0])
        found = linearised(Quadratic(matrix), X, X, X.std(axis=0), curved=True)
        assert_allclose(found, np.diag([1.0, 0.0, 0.0, 2.0]), atol=1e-6)


class Answers:
    def __init__(self, answer):
        self.answer = answer

    def value_and_gradient(self, X_hat, targets):
        return self.answer


class TestRefusals:
    @pytest.mark.parametrize(
        "model",
        [
            DecisionTreeClassifier().fit(X, BINARY),
            RidgeClassifier().fit(X, BINARY),
            LogisticRegression(),
            MLPClassifier(),
            make_pipeline(PowerTransformer(), Ridge()).fit(X, TARGET),
            make_pipeline(StandardScaler(), LogisticRegression()),
            np.eye(4),
            None,
        ],
    )
    def test_no_task(self, model):
        with pytest.raises(TypeError):
            task_of(model, X)

    def test_a_scaler_that_clips(self):
        model = make_pipeline(MinMaxScaler(clip=True), Ridge()).fit(X, TARGET)
        with pytest.raises(ValueError, match="clip=True has no gradient"):
            task_of(model, X)

    def test_weights_that_say_something_else(self):
        with pytest.raises(
            ValueError,
            match="do not follow from its weights",
        ):
            task_of(PoissonRegressor().fit(X, CLASSES), X)

    def test_other_samples(self):
        with pytest.raises(ValueError, match="4 entries, but the samples in X have 3"):
            task_of(Ridge().fit(X, TARGET), X[:, :3])

    def test_duck_typed_task_is_returned(self):
        task = Quadratic(np.eye(4))
        assert task_of(task, X) is task
        assert check_gradient(task, X, X + 1) == pytest.approx(4)

    @pytest.mark.parametrize("answer", [None, 1.0, (1.0,), ("a", X), (X, X)])
    def test_no_pair(self, answer):
        with pytest.raises(TypeError, match="number and an array"):
            check_gradient(Answers(answer), X, X)

    def test_wrong_gradients(self):
        with pytest.raises(ValueError, match=r"\(150, 4\), got \(150, 3\)"):
            check_gradient(Answers((1.0, X[:, :3])), X, X)
        for answer in ((np.nan, X), (1.0, X * np.inf)):
            with pytest.raises(ValueError, match="not finite"):
                check_gradient(Answers(answer), X, X)


class TestTorch:
    @pytest.mark.parametrize("link", ["identity", "logistic", "softmax"])
    def test_same_as_a_network(self, link):
        torch = pytest.importorskip("torch")
        from sktensordp.encoding import TorchTask

        first, second = torch.nn.Linear(4, 5), torch.nn.Linear(5, 3)
        module = torch.nn.Sequential(first, torch.nn.Tanh(), second).double()
        task = NetworkTask(
            tuple(layer.weight.detach().numpy().T for layer in (first, second)),
            tuple(layer.bias.detach().numpy() for layer in (first, second)),
            "tanh",
            link,
        )
        other = TorchTask(module, link)
        targets = task.outputs(X)
        assert_allclose(other.outputs(X), targets, rtol=1e-9)
        found = other.value_and_gradient(X[::-1], targets)
        expected = task.value_and_gradient(X[::-1], targets)
        assert_allclose(found[0], expected[0], rtol=1e-9)
        assert_allclose(found[1], expected[1], atol=1e-12)
        assert first.weight.grad is None
