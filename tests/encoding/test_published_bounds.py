"""Proposition 4 and Theorem 1 of Cheng et al., computed from Eq. 7 and 11 to 13 alone.

The page on soundness states what they find.
"""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import ortho_group

TASK = np.array([4.0, 2.0, 1.0, 0.1])  # eigenvalues of P^T P
CUBE = np.array(list(product((-1, 1), repeat=len(TASK))))


def best_encoder(c):
    """Encoder of Eq. 11 and 12, and its loss by Eq. 13, for M = 1."""
    roots = np.sqrt(TASK)
    sums, counts = np.cumsum(roots), np.arange(1, len(TASK) + 1)
    kept = np.flatnonzero(roots / sums * (1 + counts * c) - c > 0)[-1] + 1
    squares = np.zeros(len(TASK))
    squares[:kept] = roots[:kept] / sums[kept - 1] * (1 + kept * c) - c
    loss = c / (1 + kept * c) * sums[kept - 1] ** 2 + TASK[kept:].sum()
    return np.diag(np.sqrt(squares)), loss


def decoder_of(encoder, noise):
    """The decoder of Proposition 1."""
    eye = np.eye(len(TASK))
    return encoder.T @ np.linalg.inv(encoder @ encoder.T + noise * eye)


def loss_of(encoder, decoder, noise):
    missing = decoder @ encoder - np.eye(len(TASK))
    return TASK @ np.diag(missing @ missing.T + noise * decoder @ decoder.T)


@pytest.mark.thorough
def test_no_encoder_is_better_than_that_of_proposition_4():
    """None of 10,000, each with the least noise that Proposition 3 admits."""
    c, rng = 0.3, np.random.default_rng(0)
    encoder, by_formula = best_encoder(c)

    def computed(other):
        noise = c * np.sum(other**2)
        return loss_of(other, decoder_of(other, noise), noise)

    assert_allclose(computed(encoder), by_formula)
    best = np.diag(encoder) ** 2
    for _ in range(5000):
        near = np.abs(best + rng.choice([0.01, 0.1, 1]) * rng.normal(size=len(TASK)))
        assert computed(np.diag(np.sqrt(near))) >= by_formula
        turn = ortho_group.rvs(len(TASK), random_state=rng)
        assert computed(np.diag(np.sqrt(best + 1e-9)) @ turn) >= by_formula


def test_the_recipe_needs_a_new_decoder():
    """On a cube, the recipe with the decoder for its noise, and with the paper's."""
    epsilon = 5.0
    inner, outer = (8 * radius**2 / epsilon**2 for radius in (1.0, 2.0))
    encoder, most = best_encoder(outer)
    diameter = 2 * np.abs(CUBE @ encoder).sum(axis=1).max()  # Delta_1 of the cube
    noise = 2 * (diameter / epsilon) ** 2
    stale, fresh = (
        loss_of(encoder, decoder_of(encoder, of), noise) for of in (outer, noise)
    )
    losses = [best_encoder(inner)[1], fresh, stale, most]
    assert_allclose(losses, [3.28, 4.26, 4.64, 5.29], atol=0.005)
