"""The paper's Algorithm 1: to the letter, and as bad as it is."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from sktensordp.papers import PublishedTaskAwareEncoder
from tests.support.seams import (
    LogisticMap,
    SphereChannel,
    Training,
    _adam,
    declared_set,
    l1_diameter,
    learned_encoder,
    privunit_design,
    published_encoder,
    task_of,
)

pytestmark = pytest.mark.thorough
X, CLASSES = load_iris(return_X_y=True)
TASK = task_of(LogisticRegression(max_iter=1000).fit(X, CLASSES), X)


def publish(n_epochs=20, settings=(), **changes):
    settings = dict(settings)
    arguments = {
        "epsilon": 5.0,
        "targets": None,
        "n_components": 2,
        "n_hidden": 4,
        **changes,
    }
    training = Training(n_epochs=n_epochs, **settings)
    return published_encoder(TASK, X, training=training, **arguments)


@pytest.mark.parametrize("n_hidden", [0, 5])
def test_logistic_units(n_hidden):
    net = LogisticMap(3, n_hidden, 2)
    rng = np.random.default_rng(0)
    theta, rows = net.random(rng), rng.normal(size=(6, 3))
    A, b, V, c, B = net.split(theta)
    assert not (n_hidden and np.any(A))
    outputs, hidden = net.forward(theta, rows)
    assert_allclose(outputs, rows @ A + b + expit(rows @ V + c) @ B)

    def loss(theta):
        return np.sum(net.forward(theta, rows)[0] ** 2)

    gradient = net.gradient(theta, rows, hidden, 2 * outputs)[0]
    step = 1e-6 * rng.normal(size=theta.shape) * (gradient != 0)
    expected = (loss(theta + step) - loss(theta - step)) / 2
    assert_allclose(gradient @ step, expected, rtol=1e-6)


def test_adam():
    """First steps have the length of the learning rate; constant slopes keep it."""
    theta, moments = np.zeros(3), np.zeros((2, 3))
    slopes = np.array([1e-3, -5.0, 0.0])
    for count in range(1, 4):
        _adam(theta, moments, slopes, count, 1e-3)
        assert_allclose(theta, -1e-3 * count * np.sign(slopes), rtol=1e-4)


@pytest.mark.parametrize("n_hidden", [0, 4])
def test_sensitivity_is_that_of_the_training_data(n_hidden):
    found = publish(n_hidden=n_hidden)
    codes = found.units(X)
    assert_allclose(found.channel.sensitivity, l1_diameter(codes), rtol=1e-12)
    assert found.channel.variance == 2 * (found.channel.sensitivity / 5) ** 2
    assert_array_equal(found.units(X), publish(n_hidden=n_hidden).units(X))
    # Others' codes may be farther apart: the claim does not hold for them.
    if not n_hidden:
        assert l1_diameter(found.units(10 * X)) > found.channel.sensitivity


def test_noise_has_its_variance():
    channel = replace(publish(n_epochs=1).channel, n_outputs=4)
    noise = channel.draw(50_000, np.random.default_rng(0))
    squares = noise**2 / channel.variance
    # Of 200,000 squares of Laplace variates, whose kurtosis is 6: one in a million.
    assert abs(squares.mean() - 1) < 4.9 * np.sqrt(5 / squares.size)


@pytest.mark.slow
def test_training_lowers_the_loss_and_the_sound_encoder_has_less():
    short, long = publish(n_epochs=1), publish(n_epochs=40)
    assert long.expected_loss < 0.9 * short.expected_loss
    sound = learned_encoder(
        TASK,
        X,
        lambda size: SphereChannel(privunit_design(size + 1, 5.0)),
        n_components=None,
        n_hidden=0,
        seed=0,
    )
    assert sound.expected_loss < 0.9 * long.expected_loss


def test_benchmarks_of_section_a74():
    """What each trains: the decoder for noisy codes, and an encoder without noise."""
    agnostic = publish(approach="task-agnostic")
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    assert_allclose(agnostic.units(X), standard, rtol=1e-6)
    assert agnostic.n_components == X.shape[1]
    assert agnostic.channel.sensitivity == pytest.approx(l1_diameter(standard))
    # Training without noise does not depend on epsilon, and has no penalty.
    alone = publish(approach="privacy-agnostic")
    for settings in ({"eta": 50.0}, {}):
        other = publish(approach="privacy-agnostic", epsilon=0.01, settings=settings)
        assert_array_equal(alone.units(X), other.units(X))
    aware = publish()
    assert not np.array_equal(aware.units(X), publish(epsilon=0.01).units(X))
    assert not np.array_equal(aware.units(X), alone.units(X))
    # The second phase of each trains the decoder.
    for approach, short in (("task-agnostic", agnostic), ("privacy-agnostic", alone)):
        assert publish(n_epochs=1, approach=approach).expected_loss > (
            1.1 * short.expected_loss
        )


@pytest.mark.parametrize("approach", ["privacy-agnostic", "task-agnostic"])
@pytest.mark.parametrize("n_hidden", [0, 4])
def test_benchmarks_keep_their_claim_over_a_box(approach, n_hidden):
    box = declared_set((4,), bounds=(0, 8))
    found = publish(approach=approach, n_hidden=n_hidden, box=box)
    ends = np.random.default_rng(0).choice([0.0, 8.0], size=(300, 4))
    distance = l1_diameter(found.units(ends))
    assert 0.3 * found.channel.sensitivity < distance
    assert distance <= found.channel.sensitivity * (1 + 1e-9)
    assert found.channel.variance == 2 * (found.channel.sensitivity / 5) ** 2


def test_benchmarks_are_for_tasks_that_are_not_linear():
    encoder = PublishedTaskAwareEncoder(approach="task-agnostic", bounds=(0, 1))
    with pytest.raises(ValueError, match="PublishedTaskAgnosticEncoder"):
        encoder.fit(X)
