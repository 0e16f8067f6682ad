"""The examples of federated learning run, and their tables say what they must say."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from sktensordp.exceptions import BudgetExceededError
from sktensordp.mechanisms import GaussianMechanism
from sktensordp.privacy import gaussian_delta, gaussian_mu
from tests import EXAMPLES
from tests.support.scripts import load_definitions, rows_of

pytestmark = pytest.mark.thorough
DELTA = 1e-5


def arrays_of(printed):
    return {name: np.array(row) for name, row in rows_of(printed).items()}


@pytest.fixture
def gradients():
    return load_definitions(EXAMPLES / "papers/federated_gradients.py")


@pytest.mark.slow
def test_federated_gradients(run):
    rounds, rate = 10, 0.25
    options = ["--rounds", str(rounds), "--rate", str(rate), "--runs", "1"]
    printed = run("papers/federated_gradients.py", *options, "--epsilons", "2")
    rows = arrays_of(printed)
    least = rows["Gaussian: least noise of an entry"]
    # No weights change what hides a ball.
    for name in ("UDN", "IDN", "MGM"):
        np.testing.assert_array_equal(rows[name], rows["Gaussian"])
        noise = rows[f"{name}: least noise of an entry"]
        np.testing.assert_array_equal(noise, rows["Gaussian: least noise of an entry"])
    sound = ["Gaussian", "UDN", "IDN", "MGM", "MVG", "Gaussian, sum clipped"]
    for name in sound:
        assert 0.98 * 2 <= rows[f"{name}: true epsilon"] <= 2
    one = privacy_loss_distribution.from_gaussian_mechanism(
        least[0], value_discretization_interval=1e-3, sampling_prob=rate
    )
    found = one.self_compose(rounds).get_epsilon_for_delta(DELTA)
    assert rows["Gaussian: true epsilon"] == pytest.approx(found, rel=0.02)
    # Noise with directions is nowhere less, and elsewhere more.
    assert rows["MVG: least noise of an entry"] >= 0.99 * least
    assert rows["MVG"] < rows["Gaussian"] < rows["no noise"]
    # What claims is asked for the same epsilon.
    for name in ("UDN published", "IDN published, sum clipped"):
        assert rows[f"{name}: true epsilon"] < 0.2 * 2
        assert rows[f"{name}: least noise of an entry"] > 5 * least
        assert rows[name] < rows["Gaussian"] - 0.3
    per_entry = "Gaussian per entry, sum clipped"
    assert rows[f"{per_entry}: true epsilon of one round alone"] > 20 * 2
    assert 0.4 > rows["Gaussian, sum clipped"] < rows[per_entry] - 0.1


@pytest.mark.parametrize("clips_sum", [False, True])
def test_a_record_changes_a_sum_by_no_more_than_is_said(gradients, clips_sum):
    rng = np.random.default_rng(0)
    shape = 3, 7
    silent = GaussianMechanism(math.inf, sensitivity=gradients.SENSITIVITY)
    gradients.fitted(silent, shape)
    X = 10 * rng.normal(size=(30, 7))
    labels = np.eye(3)[rng.integers(3, size=30)]
    model = rng.normal(size=shape)
    sums = [
        gradients.Party(X[:n], labels[:n], silent, clips_sum, math.inf).send(
            model, 1.0, rng
        )
        for n in range(31)
    ]
    steps = np.linalg.norm(np.diff(sums, axis=0), axis=(1, 2))
    assert steps.max() <= gradients.SENSITIVITY
    if not clips_sum:
        assert steps.max() > 0.999 * gradients.CLIP


def test_a_party_refuses_more_than_its_budget(gradients):
    shape = 2, 3
    mechanism = gradients.exact(1.0, 1e-6, shape)["Gaussian"]
    X, labels = np.zeros((5, 3)), np.eye(2)[[0, 1, 0, 1, 0]]
    party = gradients.Party(X, labels, gradients.fitted(mechanism, shape), False, 1.5)
    party.join(1.0, 1)
    with pytest.raises(BudgetExceededError, match="50 rounds"):
        party.join(1.0, 50)


@pytest.mark.slow
def test_vertical_features(run):
    epsilons = np.array([2.0, 16.0])
    arguments = ["--runs", "2", "--epsilons", *map(str, epsilons)]
    rows = arrays_of(run("papers/vertical_features.py", *arguments))
    np.testing.assert_array_equal(rows["UDN, entries"], rows["IDN, entries"])
    additive = ["Gaussian", "TVG, rows and columns", "UDN, entries", "IDN, entries"]
    for name in additive:
        truth = rows[f"{name}: true epsilon"]
        assert np.all(truth <= epsilons)
        assert np.all(truth >= 0.98 * epsilons)
        assert rows[name][0] < rows[name][1] < rows["no noise"]
    np.testing.assert_array_equal(rows["PrivUnit: true epsilon"], epsilons)
    assert rows["PrivUnit"][0] > rows["Gaussian"][0]
    for name in ("UDN published", "IDN published"):
        assert np.all(rows[f"{name}: true epsilon"] < 0.5 * epsilons)
        assert np.all(rows[name] < rows["UDN, entries"])
    assert np.all(rows["Gaussian per entry: true epsilon"] > 5 * epsilons)
    # What is sent twenty times is known in closed form.
    np.testing.assert_allclose(rows["PrivUnit, 20 times: true"], 20 * epsilons)
    for once, often in zip(
        rows["Gaussian: true epsilon"], rows["Gaussian, 20 times: true"], strict=True
    ):
        mu = math.sqrt(20) * gaussian_mu(once, DELTA)
        assert gaussian_delta(0.98 * often, mu) > DELTA
        assert gaussian_delta(1.02 * often, mu) < DELTA
