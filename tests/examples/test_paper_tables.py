"""Tables and figures of the papers, computed anew by the scripts of examples/papers."""

import math
import re

import numpy as np
import pytest

from sktensordp.mechanisms import GaussianMechanism, MatrixMechanism
from sktensordp.papers import (
    PublishedIndependentDirectionalNoise,
    PublishedMatrixVariateGaussian,
    PublishedTensorRandomizedResponse,
    PublishedUnimodalDirectionalNoise,
)
from tests import EXAMPLES
from tests.support.scripts import load_definitions, rows_of

SEED = "--random-state", "0"
BOX = {"delta": 1e-5, "bounds": (-1, 1)}
pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def errors():
    return load_definitions(EXAMPLES / "papers/expected_errors.py")


@pytest.fixture(scope="module")
def settings():
    return load_definitions(EXAMPLES / "papers/encoder_settings.py")


@pytest.mark.parametrize("shape", [(2, 10), (3, 2, 5), (7, 3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_tables_iv_and_4_against_the_noise_of_the_theorems(errors, shape, weighted):
    """UDN and IDN are printed right; MVG needs I sqrt(I) / B for equal noise."""
    n, first = math.prod(shape), shape[0]
    weights = 1 / np.arange(1, first + 1) if weighted else np.ones(first)
    printed = errors.printed(shape, 1.5, 1e-5, weights)

    def error(mechanism, sample):
        mechanism.fit(np.zeros((1, *sample)))
        variance = np.broadcast_to(mechanism.noise_variance_, sample)
        return np.sum(weights**2 @ variance.reshape(first, -1))

    one_mode = {"utility": weights, **BOX}
    for name, design in (
        ("UDN", PublishedUnimodalDirectionalNoise),
        ("IDN", PublishedIndependentDirectionalNoise),
    ):
        assert printed[name] == pytest.approx(error(design(1.5, **one_mode), shape))
    needed = error(PublishedMatrixVariateGaussian(1.5, **BOX), (first, n // first))
    assert needed / printed["MVG"] == pytest.approx(math.sqrt(n) / first, rel=1e-3)
    exact = error(GaussianMechanism(1.5, **BOX), shape)
    assert exact == pytest.approx(printed["Optimized"], rel=0.01)


def test_orders_of_table_iv(errors):
    """Those that the table prints, but for Gaussian noise and MVG."""
    found = errors.orders(1.0, 1e-5)
    for name, order in errors.ORDERS.items():
        right = {"Gaussian": 2, "MVG": 3.5}.get(name, order)
        assert found[name] == pytest.approx(right, abs=0.05)


@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.UnsoundClaimWarning")
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_table_v_against_algorithm_1(errors, epsilon):
    """TLDP-L is printed right, and TLDP-G at epsilon = 1/2 alone."""
    printed = errors.printed_v((3, 4), epsilon, 1e-5, 256.0)
    for name, noise, ratio in (
        ("TLDP-L", "laplace", 1.0), ("TLDP-G", "gaussian", math.sqrt(2 * epsilon)),
    ):  # fmt: skip
        response = PublishedTensorRandomizedResponse(
            epsilon, delta=1e-5, bounds=(0, 256), noise=noise
        ).fit(np.zeros((1, 3, 4)))
        norm = math.sqrt(response.expected_squared_error_)
        assert norm / printed[name] == pytest.approx(ratio, rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 8.0])
def test_true_epsilons_of_equal_noise(errors, epsilon):
    mechanism = GaussianMechanism(epsilon, **BOX).fit(np.zeros((1, 4, 5)))
    sigma = math.sqrt(np.max(mechanism.noise_variance_))
    assert errors.true_epsilon(sigma, 20, 1e-5) == pytest.approx(epsilon, rel=0.01)


def test_the_matrix_mechanism_of_the_identity_is_equal_noise():
    """So Figures 3 and 4 (tensors) and 2 and 3 (matrices) need no row for it."""
    answers = MatrixMechanism(2.0, delta=1e-5, workload=np.eye(5), sensitivity=2.0)
    entry = GaussianMechanism(2.0, **BOX).fit(np.zeros((1, 1)))
    found = answers.fit(np.zeros((1, 5))).noise_variance_
    np.testing.assert_allclose(found, np.max(entry.noise_variance_), rtol=0.01)


def test_losses_of_figure_3(settings):
    """Of all codes of total power 1, that of Equation 11 loses least (Equation 9)."""
    rng = np.random.default_rng(0)
    for values in (np.array([4.0, 2, 2, 2]), np.array([4.0, 1, 0.2, 0])):
        for ratio in (0.05, 0.4, 2.0):
            # Of total power 1, by Equation 10.
            power = rng.dirichlet(np.full(4, 0.7), size=20_000)
            losses = values.sum() - (power / (power + 8 * ratio**2)) @ values
            least = settings.task_aware(values, ratio)
            assert least <= losses.min() <= least * 1.1
            equal = values.sum() * (1 - 1 / (1 + 4 * 8 * ratio**2))
            assert settings.benchmark(values, ratio, 4) == pytest.approx(equal)
            kept = values[:2].sum() * (1 - 1 / (1 + 2 * 8 * ratio**2))
            kept += values[2:].sum()
            assert settings.benchmark(values, ratio, 2) == pytest.approx(kept)
            assert least <= min(equal, kept) * (1 + 1e-12)


def test_losses_of_figure_3_are_measured(settings):
    """At 5,000 samples; their sensitivity is a little less than the sphere's."""
    for rows in settings.figure_3(5000, 0).values():
        for name in ("task-aware", "task-agnostic"):
            measured = np.array(rows[f"{name}, measured"])
            np.testing.assert_allclose(measured, rows[name], rtol=0.1)


def test_three_types(run):
    printed = run(
        "papers/three_types.py", *SEED, "--epsilons", "16", "--repeats", "1",
        "--steps", "30",
    )  # fmt: skip
    parts = re.split(r"^Type .*$", printed, flags=re.MULTILINE)[1:]
    gradients, training, testing = map(rows_of, parts)
    truth = "true epsilon"
    for rows in (gradients, training, testing):
        for name in ("UDN", "IDN", "MVG"):
            assert rows[f"{name}, published: {truth}"][0] < 16
        assert rows["IDN, published"][0] < rows["no noise"][0] - 0.05
    assert gradients["Gaussian = MM, exact"][0] > gradients["IDN, published"][0] + 0.1
    assert gradients[f"Gaussian, per entry: {truth}"][0] > 1000
    assert training[f"Gaussian = MM, per entry: {truth}"][0] > 64
    entry, exact = "matrix mechanism, per entry", "matrix mechanism, exact"
    assert testing[f"{entry}: {truth}"][0] > 1000
    assert testing[exact][0] < testing["Gaussian, exact"][0] < testing[entry][0]


def test_claims_compose_as_in_the_paper():
    """The advanced composition of Kairouz, Oh and Viswanath, by its own formula."""
    types = load_definitions(EXAMPLES / "papers/three_types.py")
    one = types.claim_of_step(4.0, 60, 0.1, 1e-5)
    amplified = math.log1p(0.1 * math.expm1(one))
    assert types.composed(amplified, 60, 1e-5) == pytest.approx(4.0, rel=1e-6)
    assert types.composed(5.0, 1, 1e-5) == 5.0
    assert types.composed(0.1, 100, 1e-5) < 100 * 0.1


def test_running_times(run):
    printed = run("papers/running_times.py", *SEED, "--shape", "6", "5")
    rows = rows_of(printed)
    assert rows.keys() == {"Gaussian", "UDN", "IDN", "MVG", "MM"}
    # Table 5 of the paper, in milliseconds.
    assert [row[-1] for row in rows.values()] == [1.64, 2.48, 2.24, 511.46, 823.23]
    assert all(min(row) > 0 for row in rows.values())


def test_encoder_settings(run, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    np.savez(tmp_path / "houses.npz", X=X, y=X[:, 0] + 0.1 * rng.normal(size=200))
    printed = run(
        "papers/encoder_settings.py", *SEED, "--figures", "5", "6", "7", "--data",
        tmp_path / "houses.npz", "--epsilons", "30", "--components", "1", "2",
        "--epochs", "30",
    )  # fmt: skip
    parts = re.split(r"^Figure .*$", printed, flags=re.MULTILINE)[1:]
    five, six, seven = map(rows_of, parts)
    assert len(five) == len(seven) == 7
    assert six.keys() == {"task-aware, Z = 1", "task-aware, Z = 2", "no noise"}
    for rows in (five, seven):
        # Noise for the fitting data alone is less than for the box.
        for name in ("task-agnostic", "privacy-agnostic"):
            assert rows[f"{name}, X is the fit"][0] < rows[name][0] * 1.02
        assert rows["task-aware"][0] < rows["task-agnostic"][0]
        assert rows["no noise"][0] < 0.2
