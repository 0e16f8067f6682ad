"""The local epsilon for a central guarantee."""

import numpy as np
import pytest

from sktensordp.completion import CPCompletion
from sktensordp.mechanisms import (
    GaussianMechanism,
    HybridMechanism,
    LaplaceMechanism,
    TensorRandomizedResponse,
)
from sktensordp.model_selection import epsilon_before_shuffling

ZEROS = np.zeros((1, 3))
HYBRID = HybridMechanism(bounds=(0, 1))


def shuffled_delta(mechanism, local, n, epsilon):
    message = mechanism.set_params(epsilon=local).fit(ZEROS).privacy_guarantee_
    return message.shuffled(n).delta_at(epsilon)


@pytest.mark.parametrize(
    ("n", "published"), [(10**3, 2.72), (10**4, 4.80), (10**5, 7.07), (10**6, 9.37)]
)
def test_published_local_epsilons(n, published):
    local = epsilon_before_shuffling(HYBRID, ZEROS, epsilon=1.0, n_messages=n)
    # Published to three digits; the search stops within a thousandth.
    assert published - 0.008 <= local <= published + 0.01


@pytest.mark.thorough
@pytest.mark.parametrize(
    "mechanism",
    [HYBRID, LaplaceMechanism(bounds=(0, 1)), TensorRandomizedResponse(bounds=(0, 1))],
)
def test_the_guarantee_holds_and_nothing_is_wasted(mechanism):
    local = epsilon_before_shuffling(
        mechanism, ZEROS, epsilon=0.5, delta=1e-5, n_messages=5000
    )
    assert shuffled_delta(mechanism, local, 5000, 0.5) <= 1e-5
    assert shuffled_delta(mechanism, 1.0025 * local, 5000, 0.5) > 1e-5


@pytest.mark.thorough
def test_one_answer_of_few_needs_less_noise():
    # The shuffled answers to one question hide better than any message might.
    one, mechanism = np.zeros((1, 1)), TensorRandomizedResponse(bounds=(0, 1))
    settings = {"epsilon": 1.0, "n_messages": 10_000}
    assert epsilon_before_shuffling(mechanism, one, **settings) > 1.05 * (
        epsilon_before_shuffling(HYBRID, one, **settings)
    )


def test_the_mechanism_is_not_changed():
    mechanism = HybridMechanism(3.0, bounds=(0, 1))
    epsilon_before_shuffling(mechanism, ZEROS, epsilon=1.0, n_messages=100)
    assert mechanism.epsilon == 3.0
    assert not hasattr(mechanism, "privacy_guarantee_")


def test_there_is_a_largest_epsilon():
    local = epsilon_before_shuffling(
        HYBRID, ZEROS, epsilon=64.0, delta=1e-6, n_messages=100
    )
    assert local == 64.0


@pytest.mark.thorough
def test_what_is_refused():
    settings = {"epsilon": 1.0, "n_messages": 1000}
    for mechanism in (CPCompletion(), "PrivUnit"):
        with pytest.raises(TypeError, match=r"must be a mechanism.*For an encoder"):
            epsilon_before_shuffling(mechanism, ZEROS, **settings)
    with pytest.raises(ValueError, match="is not declared"):
        epsilon_before_shuffling(LaplaceMechanism(), ZEROS, **settings)
    with pytest.raises(ValueError, match="replacing one person's value"):
        epsilon_before_shuffling(LaplaceMechanism(sensitivity=1.0), ZEROS, **settings)
    for wrong in ({"epsilon": 0.0}, {"epsilon": np.inf}, {"delta": 0.0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be in"):
            epsilon_before_shuffling(HYBRID, ZEROS, **{**settings, **wrong})
    with pytest.raises(ValueError, match="n_messages must be from 2"):
        epsilon_before_shuffling(HYBRID, ZEROS, epsilon=1.0, n_messages=1)
    noisy = GaussianMechanism(delta=0.1, bounds=(0, 1))
    with pytest.raises(ValueError, match="smaller `delta`"):
        epsilon_before_shuffling(noisy, ZEROS, **settings)
