"""Learned encoders as estimators: fitted classifiers and other tasks."""

import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktensordp.encoding import TaskAwareEncoder
from sktensordp.exceptions import UnsoundClaimWarning
from sktensordp.papers import PublishedTaskAwareEncoder

pytestmark = pytest.mark.thorough
IRIS, CLASSES = load_iris(return_X_y=True)
MODEL = LogisticRegression(max_iter=1000).fit(IRIS, CLASSES)
FAR = np.array([[1e300, -1e300, 1e300, 0.0], [0.0] * 4, [-1e308] * 4])


@pytest.fixture(scope="module")
def fitted():
    return TaskAwareEncoder(20.0, task=MODEL, n_components=2, random_state=0).fit(IRIS)


def test_what_is_learned(fitted):
    assert fitted.mechanism_ == "privunit"
    assert fitted.n_components_ == 3  # of the sphere that holds two
    assert fitted.clip_ == 1.0
    assert fitted.task_ is None
    assert fitted.expected_task_loss_ < 0.6 * fitted.task_variance_
    guarantee = fitted.privacy_guarantee_
    assert (guarantee.epsilon, guarantee.delta) == (20.0, 0.0)
    assert guarantee.unit == "sample"


def test_loss_is_what_was_expected(fitted):
    """The loss on the fitting data is within 15% of that on noise held out."""
    targets = MODEL.predict_proba(IRIS)
    losses = [
        -(targets * MODEL.predict_log_proba(fitted.transform(IRIS))).sum(axis=1).mean()
        for _ in range(40)
    ]
    assert np.mean(losses) == pytest.approx(fitted.expected_task_loss_, rel=0.15)
    # Half the budget loses more than that, beyond the targets' own entropy.
    half = clone(fitted).set_params(epsilon=10.0).fit(IRIS)
    entropy = -(targets * np.log(targets)).sum(axis=1).mean()
    excess = fitted.expected_task_loss_ - entropy
    assert half.expected_task_loss_ - entropy > 1.2 * excess > 0


@pytest.mark.parametrize("mechanism", ["laplace", "l2", "gaussian"])
def test_other_mechanisms(mechanism):
    delta = 1e-6 if mechanism == "gaussian" else 0
    encoder = TaskAwareEncoder(
        20.0, delta=delta, task=MODEL, mechanism=mechanism, n_components=1
    ).fit(IRIS)
    assert encoder.mechanism_ == mechanism
    assert encoder.privacy_guarantee_.delta == delta
    assert encoder.transform(IRIS).shape == IRIS.shape
    assert np.all(np.isfinite(encoder.privatize(FAR)))


def test_without_noise():
    """Of what the model tells apart, nothing is lost."""
    encoder = TaskAwareEncoder(math.inf, task=MODEL, n_components=2).fit(IRIS)
    assert not encoder.privacy_guarantee_.protects
    agreed = MODEL.predict(encoder.transform(IRIS)) == MODEL.predict(IRIS)
    assert agreed.mean() > 0.95


@pytest.mark.slow
def test_hidden_layer_and_network_in_a_pipeline():
    model = make_pipeline(
        StandardScaler(), MLPClassifier((5,), max_iter=2000, random_state=0)
    ).fit(IRIS, CLASSES)
    encoder = TaskAwareEncoder(
        20.0, task=model, encoder="mlp", n_components=2, random_state=0
    ).fit(IRIS)
    agreed = model.predict(encoder.transform(IRIS)) == model.predict(IRIS)
    assert agreed.mean() > 0.7
    scores = cross_val_score(
        make_pipeline(encoder, LogisticRegression(max_iter=1000)), IRIS, CLASSES, cv=2
    )
    assert scores.mean() > 0.6


class ThirdColumn:
    """Squared error of the third column from targets that it is given."""

    def value_and_gradient(self, X_hat, targets):
        away = X_hat[:, 2] - targets
        gradient = np.zeros_like(X_hat)
        gradient[:, 2] = 2 * away / len(away)
        return float(np.mean(away**2)), gradient


def test_task_whose_targets_are_y():
    encoder = TaskAwareEncoder(20.0, task=ThirdColumn(), n_components=1)
    encoder.fit(IRIS, IRIS[:, 2].tolist())
    assert encoder.expected_task_loss_ < 0.3 * encoder.task_variance_
    with pytest.raises(TypeError, match="needs targets"):
        encoder.fit(IRIS)
    with pytest.raises(ValueError, match="one target for each"):
        encoder.fit(IRIS, [1.0, 2.0])


def test_published():
    encoder = PublishedTaskAwareEncoder(5.0, task=MODEL, n_epochs=30)
    with pytest.warns(UnsoundClaimWarning, match="No finite epsilon"):
        encoder.fit(IRIS)
    assert encoder.n_components_ == 3
    assert encoder.privacy_guarantee_.claimed == (5.0, 0.0)
    assert not encoder.privacy_guarantee_.protects
    # Codes are not bounded: a stranger's may lie anywhere.
    assert (
        np.abs(encoder.privatize(IRIS + 1e6)).max()
        > 100 * encoder._randomizer.noise.lattice.step
    )
    assert encoder.transform(IRIS).shape == IRIS.shape


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"task": RandomForestClassifier(2).fit(IRIS, CLASSES)}, "RandomForest"),
        ({"task": LogisticRegression()}, "fitted"),
        ({"task": MODEL, "clip": 0.9}, "clip is for linear tasks"),
        ({"task": np.eye(4), "encoder": "mlp"}, "not linear"),
        ({"task": MODEL, "mechanism": "gaussian"}, "delta"),
    ],
)
def test_bad_tasks(parameters, words):
    encoder = TaskAwareEncoder(**parameters)
    with pytest.raises((ValueError, TypeError), match=words):
        encoder.fit(IRIS)
    assert not hasattr(encoder, "_releases")
