"""Optimal strategies against reference values, brute force and many digits."""

import json
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from tests.support.seams import Strategy, optimal_strategy

ORACLE = json.loads(
    Path(__file__).with_name("strategy_oracle.json").read_text(encoding="utf-8")
)["matrix_mechanism"]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Matrices this small lose by several, and by far on a busy machine."""
    with threadpool_limits(1):
        yield


def prefix(n):
    queries = np.tril(np.ones((n, n)))
    return queries.T @ queries


def all_range(n):
    i = np.arange(1, n + 1)
    return np.minimum.outer(i, i) * (n + 1 - np.maximum.outer(i, i))


def random_gram(n, n_queries, seed=0):
    queries = np.random.default_rng(seed).normal(size=(n_queries, n))
    return queries.T @ queries


def exact_cost(gram, strategy):
    """tr(G X^-1) with 60 digits."""
    with mpmath.workdps(60):
        solved = mpmath.inverse(mpmath.matrix(strategy.tolist()))
        product = mpmath.matrix(gram.tolist()) * solved
        return float(sum(product[i, i] for i in range(len(gram))))


def check(gram, gap):
    """Feasible, priced honestly, and certified within the relative `gap`."""
    strategy = optimal_strategy(gram)
    assert isinstance(strategy, Strategy)
    assert strategy.gram.diagonal().max() == 1.0
    assert np.array_equal(strategy.gram, strategy.gram.T)
    # Every column of the queries that are released has a norm of at most 1.
    queries = np.linalg.cholesky(strategy.gram).T
    assert (queries**2).sum(axis=0).max() <= 1 + 1e-14
    values, vectors = np.linalg.eigh(gram)
    workload = vectors * np.sqrt(np.maximum(values, 0.0))
    cost = np.sum(np.linalg.solve(queries.T, workload) ** 2)
    assert strategy.cost == pytest.approx(cost, rel=1e-8)
    assert strategy.lower_bound <= strategy.cost <= strategy.lower_bound * (1 + gap)
    return strategy


@pytest.mark.parametrize(
    ("gram", "key"),
    [(prefix(8), "prefix8"), (all_range(6), "allrange6"), (prefix(64), "prefix64")],
    ids=["prefix8", "allrange6", "prefix64"],
)
def test_oracle_cost(gram, key):
    strategy = optimal_strategy(gram, tol=1e-11)
    # The reference for 64 cells is itself known to a gap of 9.4e-10 only.
    assert strategy.cost == pytest.approx(ORACLE[key], rel=1e-9)
    assert strategy.lower_bound == pytest.approx(ORACLE[key], rel=1e-9)
    assert strategy.lower_bound <= ORACLE[key]


def test_kronecker_product_of_optima():
    left, right = prefix(8), all_range(6)
    joint = optimal_strategy(np.kron(left, right), tol=1e-10)
    a, b = optimal_strategy(left, tol=1e-11), optimal_strategy(right, tol=1e-11)
    assert joint.cost == pytest.approx(ORACLE["kron_prefix8_allrange6"], rel=1e-9)
    assert a.cost * b.cost == pytest.approx(joint.cost, rel=1e-9)
    np.testing.assert_allclose(joint.gram, np.kron(a.gram, b.gram), atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_brute_force(seed):
    gram = random_gram(3, 3, seed)

    def columns(flat):
        a = flat.reshape(3, 3)
        return a / np.linalg.norm(a, axis=0)

    def cost(flat):
        a = columns(flat)
        return np.trace(np.linalg.solve(a.T @ a + 1e-12 * np.eye(3), gram))

    starts = np.random.default_rng(seed).normal(size=(6, 9))
    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 6000, "maxfev": 6000}
    best = min(
        minimize(cost, minimize(cost, s).x, method="Nelder-Mead", options=options).fun
        for s in starts
    )
    strategy = optimal_strategy(gram)
    assert strategy.cost == pytest.approx(best, rel=1e-6)
    assert strategy.lower_bound <= best * (1 + 1e-9)


@pytest.mark.parametrize("n", [1, 2, 7, 40])
@pytest.mark.parametrize("seed", [0, 1])
def test_random_workloads(n, seed):
    gram = random_gram(n, n + 3, seed)
    strategy = check(gram, gap=1e-8)
    other = random_gram(n, 2 * n, seed + 10)
    other /= np.sqrt(np.outer(other.diagonal(), other.diagonal()))
    # No other feasible strategy does better than the bound.
    assert np.trace(np.linalg.solve(other, gram)) >= strategy.lower_bound * (1 - 1e-12)


@pytest.mark.slow
def test_256_prefix_sums():
    strategy = check(prefix(256), gap=1e-6)
    assert strategy.cost == pytest.approx(1631.4, abs=0.05)
    assert np.trace(prefix(256)) == 32896


GAUSSIAN_KERNEL = np.exp(-0.5 * np.square(np.subtract.outer(range(12), range(12)) / 5))


# The cost of an invertible strategy, n sqrt(rounding), is below 1e-6 here; the rest is
# what 500 steps leave.
@pytest.mark.parametrize(
    "gram",
    [*(random_gram(20, n) for n in (1, 2, 5, 19)), GAUSSIAN_KERNEL @ GAUSSIAN_KERNEL],
    ids=["rank 1", "rank 2", "rank 5", "rank 19", "ill conditioned"],
)
def test_low_rank_and_ill_conditioned(gram):
    strategy = check(gram, gap=1e-4)
    assert strategy.cost == pytest.approx(exact_cost(gram, strategy.gram), rel=1e-7)


@pytest.mark.parametrize("where", [0, 3, 6])
def test_cells_without_a_query(where):
    small = random_gram(6, 9)
    gram = np.insert(np.insert(small, where, 0.0, axis=0), where, 0.0, axis=1)
    strategy, reference = check(gram, gap=1e-8), optimal_strategy(small)
    assert strategy.cost == pytest.approx(reference.cost, rel=1e-12)
    assert np.array_equal(strategy.gram[where], np.eye(7)[where])
    kept = np.delete(np.delete(strategy.gram, where, axis=0), where, axis=1)
    np.testing.assert_allclose(kept, reference.gram, atol=1e-12)


def test_steps_needed():
    # The power 1.9 takes 58 steps to this gap, the power 1 twice as many.
    strategy = optimal_strategy(prefix(64), max_iter=65)
    assert strategy.cost <= strategy.lower_bound * (1 + 2e-9)
