"""`ImplicitCompletion`: its releases, their guarantee, and what each user sees.

Tests of neighbouring data sets replay the noisy sums of one run in the other, so that
later releases are the same function of earlier ones in both.
"""

import copy
import math
import pickle
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
import sparse as pydata
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.linalg import eigh
from scipy.stats import norm
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from sktensordp.completion import ImplicitCompletion, make_ranking_scorer
from sktensordp.datasets import make_choices
from sktensordp.exceptions import BudgetExceededError
from sktensordp.measure import ProductSums
from sktensordp.model_selection import ItemHoldout
from sktensordp.privacy import PrivacyBudget, gaussian_sigma, privacy_of
from tests.support.callbacks import HAS_CALLBACKS
from tests.support.choices import KINDS_OF_CHOICES
from tests.support.noise import source_of
from tests.support.points import POINTS
from tests.support.public import methods_of
from tests.support.refusing import refused
from tests.support.replaying import accounted, recorded
from tests.support.seams import (
    BELOW_ONE,
    N_BINS,
    Choices,
    ItemModel,
    ItemSums,
    Population,
    add_products,
    centred_weights,
    measure_products,
    measure_sums,
    number_of_items,
    plan_noise,
    release_sums,
    units_cooccurrence,
    unprotected_weights,
)

pytestmark = pytest.mark.thorough

SHAPE = (60, 30)
FREE = math.inf


def choices(n_users=60, n_items=30, seed=0):
    """Distinct pairs of users with many choices, with few, and with none."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, n_items + 1)
    rows = []
    for user in range(n_users):
        size = min(int(rng.pareto(1.0) * 4), n_items)
        chosen = rng.choice(n_items, size, replace=False, p=weights / weights.sum())
        rows += [(user, item) for item in chosen]
    # One user chose everything, another a single item.
    rows += [(n_users - 1, item) for item in range(n_items)]
    return np.unique(np.array([*rows, (n_users - 2, 0)]), axis=0)


X = choices()


def make(**params):
    options = {"epsilon": 20.0, "delta": 1e-3, "shape": SHAPE, "random_state": 0}
    return ImplicitCompletion(**{**options, **params})


def released(model):
    return model.items_, model.item_counts_, model.similarity_


def assert_same(model, other):
    for value, other_value in zip(released(model), released(other), strict=True):
        assert_array_equal(value, other_value)


def as_matrix(where=X, shape=SHAPE):
    matrix = np.zeros(shape)
    matrix[tuple(where.T)] = 1
    return matrix


# --- without noise -------------------------------------------------------------------


RIDGE, EXPONENT = 10.0, 0.1


def reference(where=X, shape=SHAPE):
    """Counts, items, their shares, and choices among them, from a dense matrix."""
    x = as_matrix(where, shape)
    x = x[x.any(axis=1)]
    counts = (x / np.sqrt(x.sum(axis=1, keepdims=True))).sum(axis=0)
    items = np.argsort(-counts, kind="stable")[: np.sum(counts > 0)]
    q = np.maximum(counts[items], 1e-3 * counts.max())
    return counts, items, np.rint(q / q.sum() * 2**14) / 2**14, x[:, items]


def centred_products(x, q):
    """The sum of c y y' without noise, user by user."""
    y = x - x.sum(axis=1, keepdims=True) * q
    triangles = np.triu(y[:, :, np.newaxis] * y[:, np.newaxis, :])
    triangles -= triangles * np.eye(len(q)) / 2
    lengths = np.sqrt((triangles**2).sum(axis=(1, 2)))
    return (y.T / np.maximum(lengths, 1)) @ y


def regressed(gram):
    """The weights by which each item is predicted from all others."""
    inverse = np.linalg.inv(gram)
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    return weights


def unprotected_reference(counts, x):
    """The weights without noise, in double precision."""
    gram = (x / np.sqrt(x.sum(axis=1, keepdims=True))).T @ x
    weights = regressed(gram + RIDGE * np.diag(np.sqrt(np.diag(gram))))
    return weights * (counts / np.exp(np.mean(np.log(counts)))) ** -EXPONENT


def only(monkeypatch, ridges, exponents):
    """Fits without noise compare these values, and keep the first if none is better."""
    monkeypatch.setattr(unprotected_weights, "_RIDGES", ridges)
    monkeypatch.setattr(unprotected_weights, "_EXPONENTS", exponents)
    monkeypatch.setattr(unprotected_weights, "_USUAL", (ridges[0], exponents[0]))


def test_without_noise_it_is_the_dense_reference(monkeypatch):
    only(monkeypatch, (RIDGE,), (EXPONENT,))
    model = make(epsilon=FREE).fit(X)
    counts, items, q, x = reference()
    assert_allclose(model.item_counts_, counts, rtol=1e-9)
    assert_array_equal(model.items_, items)
    similarity = unprotected_reference(counts[items], x)
    assert_allclose(model.similarity_, similarity, atol=1e-5)
    n = x.sum(axis=1, keepdims=True)
    scores = x @ similarity + (n == 0) * q
    present = np.unique(X[:, 0])
    pairs = np.array([(user, item) for user in present for item in items])
    assert_allclose(model.predict(pairs).reshape(x.shape), scores, atol=1e-4)
    assert_allclose(model.predict([(-1, item) for item in items]), q, atol=1e-12)
    products = centred_products(x, q)
    found = model._fitted.model
    assert_allclose(found.products * len(x), products[tuple(found.pairs)], rtol=1e-4)
    assert found.products[0] * len(x) == pytest.approx(np.triu(products, 1).max())


def test_weights_of_released_products_are_those_of_the_dense_reference():
    counts, items, q, x = reference()
    products, m, noise, users, size = centred_products(x, q), len(items), 0.4, 50.0, 6.0
    population = Population(users, size, np.ones(N_BINS), 0.0)
    sums = ItemSums(population, False, counts, 0.1, items, q, products, noise)
    diagonal = np.diag(products)
    values, vectors = eigh(products - 0.9 * np.diag(diagonal))
    pushed = [
        sum((w - v) / ((w - v) ** 2 + 4 * noise**2) for v in values) for w in values
    ]
    kept = np.maximum(values - 2 * noise**2 * np.array(pushed), 0)
    gram = (vectors * kept) @ vectors.T
    np.fill_diagonal(gram, np.maximum(diagonal, np.diag(gram)))
    gram += users * size * np.outer(q, q)
    gram += (0.6 * noise * math.sqrt(m) + 3.0) * np.eye(m)
    assert_allclose(ItemModel.from_sums(sums).similarity, regressed(gram), atol=1e-9)


@pytest.mark.parametrize(
    ("ridges", "exponents", "best"),
    [
        ((1e9, 20.0), (0.0,), (20.0, 0.0)),
        ((20.0,), (5.0, 0.0), (20.0, 0.0)),
        ((20.0, 1e9), (0.0,), (20.0, 0.0)),
    ],
)
def test_the_ridge_and_the_exponent_that_find_most_hidden_choices_are_taken(
    ridges, exponents, best, monkeypatch
):
    data = make_choices(1000, 60, 12_000, item_exponent=0.3, random_state=0)
    keys = data.data[:, 0] * 60 + data.data[:, 1]
    counts = np.bincount(data.data[:, 1], minlength=60) / 4
    order = np.argsort(-counts)
    chosen = Choices.from_keys(keys, 60).among(order)
    monkeypatch.setattr(unprotected_weights, "_N_WANTED", 5)
    only(monkeypatch, ridges, exponents)
    assert unprotected_weights._best(chosen, counts[order]) == best


def test_what_finds_more_by_less_than_a_standard_error_is_not_taken(monkeypatch):
    data = make_choices(1000, 60, 12_000, item_exponent=0.3, random_state=0)
    counts = np.bincount(data.data[:, 1], minlength=60)
    order = np.argsort(-counts)
    keys = data.data[:, 0] * 60 + data.data[:, 1]
    chosen = Choices.from_keys(keys, 60).among(order)
    monkeypatch.setattr(unprotected_weights, "_N_WANTED", 5)
    taken = []
    for first, second in [(20.0, 20.5), (20.5, 20.0)]:
        only(monkeypatch, (first, second), (0.0,))
        taken.append(unprotected_weights._best(chosen, counts[order] / 4)[0])
    assert taken == [20.0, 20.5]


def test_two_fits_without_noise_and_a_clone_are_the_same_model():
    model = make(epsilon=FREE)
    first = released(model.fit(X))
    shuffled = np.random.default_rng(1).permutation(np.concatenate([X, X[:9]]))
    for again in (model.fit(shuffled), clone(model).fit(X), copy.copy(model).fit(X)):
        assert all(map(np.array_equal, released(again), first))


def test_sums_of_pairs_are_exact_up_to_single_precision():
    _, items, _, x = reference()
    chosen = Choices.from_keys(X[:, 0] * 30 + X[:, 1], 30).among(items)
    for weights in (np.full(len(x), 1e6), 1e-6 * np.arange(1.0, len(x) + 1)):
        found = unprotected_weights.pair_weights(chosen, weights)
        assert_array_equal(found, found.T)
        assert_allclose(found, (x.T * weights) @ x, rtol=1e-6, atol=1e-6 * found.max())


@pytest.mark.parametrize("n", [1, 2, 600])
@pytest.mark.parametrize("definite", [True, False])
def test_a_matrix_without_a_cholesky_factor_is_inverted_all_the_same(n, definite):
    rng = np.random.default_rng(n)
    matrix = rng.standard_normal((n, n))
    matrix = (matrix + matrix.T) / np.sqrt(n) + 9 * np.eye(n)
    matrix[-1, -1] -= 0.0 if definite else 30.0
    assert (np.linalg.eigvalsh(matrix)[0] > 0) == definite
    found = unprotected_weights._inverted(matrix.astype(np.float32))
    assert_allclose(found, np.linalg.inv(matrix), atol=1e-4)


def test_without_noise_nothing_is_drawn_and_nothing_protected(streams):
    model = make(epsilon=FREE).fit(X)
    assert not streams
    assert not model.privacy_guarantee_.protects
    assert_same(model, make(epsilon=FREE, random_state=None).fit(X))


# --- exact integers ------------------------------------------------------------------


def big_integers(chosen, shares, scale, least, diagonal=0.5):
    """Return the sum of C Y Y' in Python's integers, and each user's length and C.

    Lengths are squared, and in quarters.
    """
    unit, m = 2**14, len(shares)
    total = np.zeros((m, m), dtype=object)
    lengths = []
    P = np.array([int(p) for p in shares], dtype=object)
    for u in range(len(chosen.users)):
        items = chosen.items[chosen.starts[u] : chosen.starts[u + 1]]
        if not len(items):
            continue
        Y = -len(items) * P
        Y[items] += unit
        square, fourth = sum(Y**2), sum(Y**4)
        quarters = 2 * (square * square - fourth) + int(4 * diagonal**2) * fourth
        length = math.sqrt(quarters) / 2 / unit**2
        C = math.floor(scale / max(length, least))
        total += C * np.outer(Y, Y)
        lengths.append((C * C * quarters, C))
    return total, lengths


def extremes(m):
    """Users whose choices are as far as possible from the shares, and as near."""
    rng = np.random.default_rng(m)
    rows = [np.arange(m), np.array([0]), np.array([m - 1]), np.arange(m // 2 + 1)]
    rows += [rng.permutation(m)[: rng.integers(1, m + 1)] for _ in range(20)]
    starts = np.append(0, np.cumsum([len(r) for r in rows]))
    items = np.concatenate(rows).astype(np.int32)
    return Choices(np.arange(len(rows)), starts, items, m)


SHARES = {
    "even": lambda m: np.full(m, round(2**14 / m)),
    "one item": lambda m: np.append(2**14, np.zeros(m - 1, int)),
    "falling": lambda m: np.rint(2**14 / np.arange(1, m + 1) ** 2 / 1.7).astype(int),
}


def assembled(chosen, shares, scale, least, block, diagonal):
    m, n = len(shares), len(chosen.users)
    limbs = np.zeros((2, m * (m + 1) // 2), np.int64)
    weights, lengths = centred_weights(chosen, shares, 2**14, diagonal, scale, least)
    # Rounding the weight down by one may be all of it.
    assert np.all((lengths <= scale * (1 + 1e-12)) & (lengths >= 0))
    for first in range(0, n, block):
        last = min(first + block, n)
        add_products(
            limbs, chosen.chunk(first, last), weights[first:last], shares, 2**14
        )
    return [int(h) * 2**32 + int(p) for h, p in zip(*limbs, strict=True)]


@pytest.mark.parametrize("m", [*range(1, 10), 40])
@pytest.mark.parametrize("kind", SHARES)
@pytest.mark.parametrize("diagonal", [0.5, 1.0])
def test_integers_are_those_of_python_and_no_user_is_longer_than_one(
    m, kind, diagonal, monkeypatch
):
    chosen, shares = extremes(m), SHARES[kind](m).astype(np.int64)
    scale = 2.0**20 * BELOW_ONE
    for least in (0.05, 1.0, 30.0):
        expected, lengths = big_integers(chosen, shares, scale, least, diagonal)
        upper = expected[np.triu_indices(m)].tolist()
        for block, cells in ((1, 1), (5, 3 * m), (10**6, 10**6)):
            monkeypatch.setattr(*POINTS["pairs of items at once"], cells)
            assert assembled(chosen, shares, scale, least, block, diagonal) == upper
        # Exactly, in units of 2^-48.
        assert max(length for length, _ in lengths) <= 4 * 2**96
        assert max(C for _, C in lengths) > 0


def steps_of(chosen, shares, step, share=1.0):
    """The sum over these users in whole steps."""
    sums = ProductSums(shares, 1.0, share, step)
    return sums.rounded(limbs_of(sums, chosen))


def limbs_of(sums, chosen):
    """The exact sum over these users."""
    limbs = sums.zeros()
    sums.add(limbs, chosen)
    return limbs


@pytest.mark.parametrize("m", [*range(1, 10), 40])
@pytest.mark.parametrize("kind", SHARES)
def test_what_is_rounded_is_the_triangle_with_half_of_its_diagonal(m, kind):
    chosen, shares = extremes(m), SHARES[kind](m).astype(np.int64)
    length = math.sqrt(0.81)
    scale = length * BELOW_ONE * 2.0**20
    expected, _ = big_integers(chosen, shares, scale, 1.0)
    for bits in (6, 12, 20, 44):
        steps = steps_of(chosen, shares, 2.0**-bits, 0.81)
        shift, position = 48 - bits, 0
        for i in range(m):
            for j in range(i, m):
                by = shift + (i == j)
                assert steps[position] == (expected[i, j] + (1 << (by - 1))) >> by
                position += 1
    for u in range(len(chosen.users)):
        alone = steps_of(chosen.chunk(u, u + 1), shares, 2.0**-44, 0.81)
        assert np.linalg.norm(alone) * 2.0**-44 <= length + 1e-9


def worst_for_a_cell(n_users, n_chosen=100):
    """Users whose largest cell is nearly 2, before its half is taken."""
    items = np.tile(np.arange(1, n_chosen + 1, dtype=np.int32), n_users)
    chosen = Choices(
        np.arange(n_users), np.arange(n_users + 1) * n_chosen, items, n_chosen + 1
    )
    return chosen, SHARES["one item"](n_chosen + 1).astype(np.int64)


def test_no_cell_of_the_diagonal_exceeds_64_bits():
    n_users = 2**15 + 3
    chosen, shares = worst_for_a_cell(n_users)
    cell = int(steps_of(chosen.chunk(0, 1), shares, 2.0**-44)[0])
    # More than 2^62 of half the cell's 2^-49 in 2^14 users.
    assert cell > 0.97 * 2**44
    total = steps_of(chosen, shares, 2.0**-30)[0]
    assert total == pytest.approx(n_users * cell / 2**14, rel=1e-12)


def test_blocks_for_an_undivided_diagonal_would_wrap(monkeypatch):
    monkeypatch.setattr(measure_products, "_BLOCK", 2**15)
    with pytest.raises(AssertionError):
        test_no_cell_of_the_diagonal_exceeds_64_bits()


@pytest.mark.parametrize("block", [1, 3, 10**6])
def test_users_may_come_in_any_parts(block, monkeypatch):
    monkeypatch.setattr(measure_products, "_BLOCK", block)
    chosen, shares = extremes(9), SHARES["even"](9).astype(np.int64)
    sums = ProductSums(shares, 1.0, 0.5, 2.0**-30)
    whole, parts = limbs_of(sums, chosen), sums.zeros()
    n = len(chosen.users)
    sums.add(parts, chosen.chunk(0, 2))
    assert np.any(parts)
    sums.add(parts, chosen.chunk(2, 5))
    parts += limbs_of(sums, chosen.chunk(5, n))
    assert_array_equal(sums.on_lattice(parts), sums.on_lattice(whole))
    # Rounded by each party: apart by less than a step for each.
    halves = [chosen.chunk(0, 3), chosen.chunk(3, n)]
    steps = sum(sums.rounded(limbs_of(sums, half)) for half in halves)
    assert np.abs(steps - sums.rounded(whole)).max() <= 1.5


# --- the same for the same choices ---------------------------------------------------


def test_order_repetition_and_batches_change_no_bit():
    model = make().fit(X)
    assert len(model.items_)
    rng = np.random.default_rng(1)
    shuffled = rng.permutation(np.concatenate([X, X[::3]]))
    coo = sparse.coo_array((np.full(len(X), 7.5), tuple(X.T)), shape=SHAPE)
    frame = pd.DataFrame(X, columns=["user", "item"])
    tables = [shuffled, X.astype(float), X.tolist(), frame]
    arrays = [coo, coo.tocsr(), coo.tocsc(), sparse.coo_matrix(coo), coo.astype(bool)]
    for same in (*tables, *arrays, pydata.COO.from_scipy_sparse(coo)):
        assert_same(make().fit(same), model)
    halves = iter([shuffled[:50], shuffled[50:]])
    for batches in (halves, [X[5:], X[:9], X[:0]], [coo, X[:3]]):
        assert_same(make().fit_batches(batches), model)


def test_answers_do_not_depend_on_the_other_users_of_a_call():
    model = make().fit(X)
    everybody = model.recommend(np.arange(60), 30)
    rng = np.random.default_rng(0)
    for _ in range(5):
        users = rng.permutation(60)[:7]
        assert_array_equal(model.recommend(users, 30), everybody[users])


def test_threads_change_no_bit():
    model = make().fit(X)
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            assert_same(make().fit(X), model)


# --- the guarantee -------------------------------------------------------------------


def run(where, follow=None, **params):
    with recorded(follow) as record:
        record.model = make(**params).fit(where)
    if follow is not None:
        assert len(record.exact) == len(follow.exact)
    return record


@pytest.mark.parametrize("epsilon", [0.3, 20.0, 300.0])
def test_one_user_moves_all_releases_by_what_is_accounted_for(epsilon):
    start = run(X, epsilon=epsilon)
    assert len(start.exact) == 3
    bound = accounted(start.model.privacy_guarantee_)[1] * start.sigma
    longest = 0.0
    for user in np.unique(X[:, 0]):
        other = run(X[X[:, 0] != user], start, epsilon=epsilon)
        assert start.spent(other)[1] <= accounted(start.model.privacy_guarantee_)[1]
        moved = start.flat - other.flat
        longest = max(longest, np.linalg.norm(moved.astype(float)) * start.step)
    assert 0.9 < longest <= bound
    # Rounding the sums costs this much, and no more.
    assert bound < 1.01 if epsilon > 1 else bound < 1.1


@pytest.mark.parametrize("max_items", range(31))
def test_no_user_moves_more_at_any_number_of_items(max_items):
    """Users with one item, all items and repeated rows among them."""
    repeated = np.concatenate([X, X[::2]])
    start = run(repeated, epsilon=300.0, max_items=max_items)
    assert len(start.model.items_) == max_items
    bound = accounted(start.model.privacy_guarantee_)[1]
    users = [0, *range(max_items % 7, 58, 7), 58, 59]
    assert sorted(np.bincount(X[:, 0])[[58, 59]]) == [1, 30]
    for user in users:
        rest = repeated[repeated[:, 0] != user]
        other = run(rest, start, epsilon=300.0, max_items=max_items)
        assert start.spent(other)[1] <= bound


def test_the_guarantee_is_the_one_asked_for():
    for epsilon, delta in ((0.5, 1e-5), (1.0, 1e-6), (16.0, 1e-9)):
        model = make(epsilon=epsilon, delta=delta).fit(X)
        guarantee = model.privacy_guarantee_
        assert (guarantee.unit, guarantee.relation) == (0, "add-or-remove")
        assert guarantee.epsilon <= epsilon
        assert guarantee.epsilon == pytest.approx(epsilon, rel=1e-2)
        assert guarantee == model.__privacy_plan__()
        mu = accounted(guarantee)[1]
        above, below = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        assert norm.cdf(above) - math.exp(epsilon) * norm.cdf(below) <= delta


def test_twice_the_contributions_would_be_noticed(monkeypatch):
    monkeypatch.setattr(measure_sums, "BELOW_ONE", 2.0)
    with pytest.raises(AssertionError):
        test_one_user_moves_all_releases_by_what_is_accounted_for(20.0)


def test_shares_above_the_budget_are_refused(monkeypatch):
    monkeypatch.setattr(units_cooccurrence, "_MOST_COUNTS", 1.1)
    monkeypatch.setattr(units_cooccurrence, "_LEAST_COUNTS", 1.1)
    with pytest.raises(RuntimeError, match="more than the budget"):
        make().fit(X)


def test_few_choices_give_popularity_with_the_whole_budget():
    record = run(X, epsilon=0.01, delta=0.01)
    model = record.model
    assert model.items_.shape == (0,)
    assert model.similarity_.shape == (0, 0)
    # Both releases after the totals are counts; the model uses their weighted mean.
    assert [r[0].size for r in record.exact] == [2, 30, 30]
    order = np.argsort(-model.item_counts_, kind="stable")
    assert_array_equal(model.recommend(-1, 30), order)
    noise = model.item_counts_ - make(epsilon=FREE).fit(X).item_counts_
    assert np.std(noise) == pytest.approx(record.sigma / math.sqrt(0.98), rel=0.5)


def check_noise_of(release, factor):
    residuals = []
    for seed in range(20):
        record = run(X, epsilon=20.0, random_state=seed)
        exact, noisy = record.exact[release][0], record.outputs[release][0]
        residuals.append(factor * (noisy - exact * record.step))
    residuals = np.concatenate(residuals) / record.sigma
    assert abs(np.mean(residuals**2) - 1) < 5 * math.sqrt(2 / residuals.size)
    assert abs(np.mean(residuals)) < 5 / math.sqrt(residuals.size)


@pytest.mark.parametrize("release", [1, 2], ids=["counts", "products"])
def test_noise_has_the_standard_deviation_that_is_accounted_for(release):
    """A correct sampler fails this with probability of about 1e-6."""
    check_noise_of(release, 1.0)
    # Half the noise would be noticed.
    with pytest.raises(AssertionError):
        check_noise_of(release, 0.5)


def test_no_more_items_than_there_are():
    model = make().fit(X)
    found = model.recommend([0, -1], 10**9)
    assert_array_equal(found, model.recommend([0, -1], SHAPE[1]))
    assert found.shape == model.similar_items([0, 1], 10**9).shape == (2, SHAPE[1])


def test_the_diagonal_is_given_back_whole():
    """With twice the noise of the other cells; errors are within five deviations."""
    noise = plan_noise(300.0, 1e-3, SHAPE, 30)
    chosen = Choices.from_keys(X[:, 0] * 30 + X[:, 1], 30)
    noisy = release_sums(chosen, noise, source_of(0), SHAPE[0], 30)
    _, items, q, x = reference()
    place = np.argsort(items)[noisy.items]
    # Counts differ, so that the centring does; but hardly at this epsilon.
    products = centred_products(x, q)[np.ix_(place, place)]
    error = noisy.products - products
    assert np.all(np.abs(np.diag(error)) < 10 * noisy.products_noise + 0.2)
    assert np.trace(products) > 20


def test_budgets_are_charged_before_noise_is_drawn(streams):
    with PrivacyBudget(20.1, 2e-3) as budget:
        model = make().fit(X)
        drawn = len(streams)
        with pytest.raises(BudgetExceededError):
            make().fit(X)
        assert len(streams) == drawn
        before = released(model)
        with pytest.raises(BudgetExceededError):
            model.fit(X[:5])
        assert all(map(np.array_equal, released(model), before))
        model.fold_in(X[:5]).recommend(0)
    assert 19 < budget.spent.epsilon < 20


def test_a_report_counts_the_fit():
    report = privacy_of(make(random_state=None).fit(X))
    assert [(count, one.epsilon) for _, count, one in report.releases] == [
        (1, pytest.approx(20.0, rel=1e-2))
    ]
    assert any("shape" in sentence for sentence in report.unprotected)


# --- what others are told ------------------------------------------------------------

OTHER = 3
PAIRS = np.argwhere(np.ones((1, 30)))


def folded_in(model, choices):
    """Whoever passes no choices is told so, whatever others chose."""
    match = "X has no rows, so fold_in learned nobody"
    with nullcontext() if len(choices) else pytest.warns(UserWarning, match=match):
        return model.fold_in(choices)


def answers(model, asking):
    choices_of_user = X[X[:, 0] == asking]
    PAIRS[:, 0] = asking
    yield "predict", model.predict(PAIRS)
    yield "recommend", model.recommend([asking], 30)
    options = {"exclude_observed": False, "return_scores": True}
    yield "scores", model.recommend([asking], 30, exclude=[3], **options)[1]
    yield "similar_items", model.similar_items(np.arange(30), 30)
    yield "attributes", np.concatenate([np.ravel(a) for a in released(model)])
    yield "guarantee", repr(model.privacy_guarantee_)
    if asking < 0:
        yield "sample_users", model.sample_users(9, random_state=0)
    gone, own = copy.copy(model).forget(OTHER), copy.copy(model).forget([asking])
    # What is left to say to the other user follows from releases.
    for user, one in {asking: own, OTHER: gone}.items():
        yield "forget", one.recommend([user], 30)
        yield "forget, scores", one.recommend([user], 30, **options)[1]
    if asking >= 0:
        again = folded_in(copy.copy(model), choices_of_user)
        yield "fold_in", again.recommend([asking], 30)


def test_no_answer_depends_on_another_user():
    start = run(X)
    fresh = np.array([(OTHER, item) for item in range(1, 30, 2)])
    rest = X[X[:, 0] != OTHER]
    for changed in (rest, np.concatenate([rest, fresh])):
        other = run(changed, start)
        assert np.any(other.flat != start.flat)
        for asking in (-1, *range(60)):
            if asking == OTHER:
                continue
            for (name, answer), (_, other_answer) in zip(
                answers(start.model, asking), answers(other.model, asking), strict=True
            ):
                assert_array_equal(answer, other_answer, err_msg=f"{name} for {asking}")


def test_the_model_follows_from_released_integers_alone():
    """Neighbouring data sets with the same released integers have the same model."""
    start = run(X, epsilon=300.0)
    for user in (OTHER, 58, 59):
        other = run(X[X[:, 0] != user], start, epsilon=300.0)
        assert np.any(other.flat != start.flat)
        assert_same(other.model, start.model)
        found, known = other.model._fitted.model, start.model._fitted.model
        for name in ("expected", "pairs", "products", "shares"):
            assert_array_equal(getattr(found, name), getattr(known, name))


def test_with_noise_the_model_is_never_computed_from_raw_choices():
    noise = plan_noise(300.0, 1e-3, SHAPE, 30)
    chosen = Choices.from_keys(X[:, 0] * 30 + X[:, 1], 30)
    sums = release_sums(chosen, noise, source_of(0), SHAPE[0], 30)
    with pytest.raises(RuntimeError, match="must not read raw choices"):
        ItemModel.from_choices(sums, chosen)


def test_forgetting_one_user_changes_no_answer_for_another():
    model = make().fit(X)
    gone = copy.copy(model).forget(OTHER)
    assert np.any(gone.recommend(OTHER, 30) != model.recommend(OTHER, 30))
    for asking in (-1, *range(60)):
        if asking != OTHER:
            for (name, found), (_, before) in zip(
                answers(gone, asking), answers(model, asking), strict=True
            ):
                assert_array_equal(found, before, err_msg=f"{name} for {asking}")


def test_every_public_method_is_covered():
    asked = {"predict", "recommend", "similar_items", "sample_users"}
    asked |= {"fold_in", "forget"}
    others = {
        "fit", "fit_batches", "get_params", "set_params", "get_metadata_routing",
        *["set_callbacks"] * HAS_CALLBACKS,
    }  # fmt: skip
    assert methods_of(make().fit(X)) == asked | others


def test_nothing_of_a_user_leaves_with_copies_and_pickles():
    model = make().fit(X)
    known = model.recommend(np.arange(60), 5)
    for leave in (lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy):
        other = leave(model)
        with pytest.warns(UserWarning, match="call fold_in"):
            anonymous = other.recommend(np.arange(60), 5)
        # The second call does not warn.
        assert_array_equal(other.recommend(np.arange(60), 5), anonymous)
        assert_array_equal(anonymous, np.tile(model.recommend(-1, 5), (60, 1)))
        assert_array_equal(other.fold_in(X).recommend(np.arange(60), 5), known)
        assert_same(other, model)
        assert "Choices()" in repr(vars(other)["_fitted"])
    content = pickle.dumps(model)
    assert X[:, 1].astype(np.int32).tobytes() not in content
    assert not clone(model).__sklearn_is_fitted__()


def test_folding_into_a_shallow_copy_leaves_the_original_alone():
    model = make().fit(X)
    other = copy.copy(model).fold_in([[0, 1], [0, 2]])
    assert set(model.recommend(0, 30)) != set(other.recommend(0, 30))


def test_fold_in_replaces_all_choices_of_its_users_only():
    model = make().fit(X)
    before = model.recommend(np.arange(60), 30)
    model.fold_in([[5, 4], [58, 7], [5, 6], [5, 4]])
    after = model.recommend(np.arange(60), 30)
    assert set(after[5]) == set(range(30)) - {4, 6} | {-1}
    assert set(after[58]) == set(range(30)) - {7} | {-1}
    others = [user for user in range(60) if user not in (5, 58)]
    assert_array_equal(after[others], before[others])


def test_unknown_users_get_popular_items():
    model = make(epsilon=FREE).fit(X[X[:, 0] != 10])
    assert_array_equal(model.recommend(10, 5), model.recommend(-1, 5))
    assert_array_equal(model.recommend(-1, 5), np.argsort(-model.item_counts_)[:5])
    assert model.predict([[-1, -1], [3, -1]]).tolist() == [0, 0]


def test_no_items_is_private_popularity():
    """It makes the releases of a fallback, with noise for no more than these."""
    record = run(X, epsilon=2.0, max_items=0)
    assert [r[0].size for r in record.exact] == [2, 30, 30]
    model = record.model
    assert model.items_.shape == (0,)
    order = np.argsort(-model.item_counts_, kind="stable")
    assert_array_equal(model.recommend(-1, 30), order)
    assert record.sigma <= run(X, epsilon=2.0, max_items=30).sigma
    assert_allclose(
        make(epsilon=FREE, max_items=0).fit(X).item_counts_,
        make(epsilon=FREE).fit(X).item_counts_,
    )


# --- which items take part ------------------------------------------------------------

POPULAR = 300 / np.arange(1, 2001) ** 0.8


def chosen_number(counts=POPULAR, noise=1.0, products=1.0, most=2000):
    return number_of_items(counts, noise, products, 5000.0, 20.0, most)


def test_the_number_of_items_is_the_best_of_all_numbers():
    """Compare with the sum over eigenvalues, written out for every number."""
    for products in (0.3, 1.0, 3.0):
        n_real = chosen_number(products=1e-9)
        values = []
        for m in range(50, n_real + 1):
            c = POPULAR[:m]
            coverage = min(c.sum() / (5000 * math.sqrt(20)), 1)
            first = 0.5 * (np.sum(c**2) - m) / (5000 * coverage)
            edge = products * math.sqrt(m)
            expected = first / np.arange(1, min(m, 300) + 1)
            visible = expected[expected > edge]
            values.append(coverage * np.sum(visible - edge**2 / visible) / first)
        best = chosen_number(products=products)
        assert (best == 0) == (max(values) <= 0)
        if best:
            assert values[best - 50] == pytest.approx(max(values), rel=1e-9)


def test_few_users_and_much_noise_let_few_items_take_part():
    """However strongly popularity tells that choices go together."""
    strong = np.full(2000, 2000.0)
    for n_users in (100.0, 1600.0, 10_000.0):
        for products in (0.25, 1.0, 4.0):
            found = number_of_items(strong, 1.0, products, n_users, 20.0, 2000)
            assert found == max(int(7 * math.sqrt(n_users / products)), 50)
            few = number_of_items(strong, 1.0, products, n_users, 20.0, 200)
            assert few == min(found, 200)


@pytest.mark.parametrize(("most", "found"), [(10, 3), (2, 2)])
def test_without_noise_all_items_that_somebody_chose_take_part(most, found):
    counts = np.array([5.0, 2.0, 0.5, 0.0, 0.0])
    assert chosen_number(counts, 0.0, 0.0, most) == found


def test_more_noise_never_lets_more_items_take_part():
    numbers = [chosen_number(products=2.0**k) for k in range(-8, 8)]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[0] > 300
    assert numbers[-1] == 0
    assert chosen_number(products=0.0) == 2000
    assert chosen_number(products=0.0, most=7) == 7


def test_counts_of_nobody_are_not_real():
    """Of pure noise, 50 items take part with a probability below 1e-12."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        counts = np.sort(rng.standard_normal(2000))[::-1]
        assert chosen_number(counts, 1.0, 1e-6) == 0


# --- odd data are fitted, malformed ones refused -------------------------------------

EVERYTHING = np.argwhere(np.ones(SHAPE))


@pytest.mark.parametrize("epsilon", [1.0, 50.0, FREE])
@pytest.mark.parametrize(
    "where",
    [X[:0], X[:1], EVERYTHING, EVERYTHING[EVERYTHING[:, 1] == 4],
     EVERYTHING[EVERYTHING[:, 0] == 9], EVERYTHING[EVERYTHING[:, 1] < 2]],
    ids=["nobody", "one choice", "all alike", "one item", "one user", "two items"],
)  # fmt: skip
def test_any_set_of_choices_is_fitted(where, epsilon):
    model = make(epsilon=epsilon).fit(where)
    assert np.all(np.isfinite(model.item_counts_))
    assert np.all(np.isfinite(model.similarity_))
    assert np.all(np.isfinite(model.predict(EVERYTHING)))
    assert model.recommend(np.arange(60), 4).shape == (60, 4)
    empty = sparse.coo_array(SHAPE)
    folded_in(make(epsilon=epsilon).fit(empty), where).recommend(2)
    make(epsilon=epsilon).fit_batches([])


def test_a_stored_zero_is_no_choice():
    where = [0, 1, 1], [2, 3, 4]
    stored = sparse.coo_array(([1.0, 0.0, 2.0], where), shape=SHAPE)
    model = make().fit([[0, 2], [1, 4]])
    for array in (stored, stored.astype(bool)):
        assert_same(make().fit(array), model)
        assert_same(make().fit_batches([array]), model)


def stored(value, dtype=float):
    """Choices as a sparse array in which one stored value is another."""
    values = np.ones(3, dtype=dtype)
    values[1] = value
    return sparse.coo_array((values, ([0, 1, 1], [2, 3, 4])), shape=SHAPE)


WRONG = {
    "no shape": ({"shape": None}, (X,), "`shape` is not declared"),
    "another unit": ({"unit": 1}, (X,), "who chose the ranked items"),
    "no such unit": ({"unit": 2}, (X,), "must be 0"),
    "one item": ({"shape": (60, 1)}, (X,), "nothing to rank"),
    "three modes": ({"shape": (60, 30, 2)}, (X,), "n_users, n_items"),
    "too many items": ({"max_items": 31}, (X,), "max_items = 31"),
    "fewer than no items": ({"max_items": -1}, (X,), "max_items"),
    "no delta": ({"delta": 0.0}, (X,), "delta"),
    "tiny budget": ({"epsilon": 1e-9, "delta": 1e-12}, (X,), "epsilon"),
    "outside": ({}, ([[59, 29], [60, 0]],), "outside the tensor"),
    "item outside": ({}, ([[59, 30]],), "outside the tensor"),
    "negative": ({}, ([[-1, 0]],), "Negative values"),
    "fractions": ({}, ([[0.5, 0]],), "fractional"),
    "NaN": ({}, ([[np.nan, 0]],), "NaN"),
    "text": ({}, ([["ann", "up"]],), "use Recommender"),
    "values beside": ({}, (np.ones((4, 3)),), "pair of a user and an item"),
    "ratings": (
        {}, (pd.DataFrame(np.ones((2, 3)), columns=["u", "i", "rating"]),),
        "Choices have no values: leave out columns .* For values, use CPCompletion",
    ),
    "another shape": ({}, (sparse.coo_array((3, 3)),), "another shape than"),
    "dislikes": ({}, (stored(-1.0),), "are negative, NaN or infinite"),
    "dislikes in integers": ({}, (stored(-1, np.int8),), "such as X > 0"),
    "stored NaN": ({}, (stored(np.nan),), "are negative, NaN or infinite"),
    "stored infinity": ({}, (stored(np.inf),), "are negative, NaN or infinite"),
    "dislikes in another sparse array": (
        {}, (pytest.importorskip("sparse").COO.from_scipy_sparse(stored(-1.0)),),
        "are negative",
    ),
    "masked": ({}, (np.ma.array(X, mask=X > 28),), "masked"),
}  # fmt: skip


@pytest.mark.parametrize("which", WRONG)
def test_malformed_input_is_refused_before_noise_is_drawn(which):
    params, data, message = WRONG[which]
    with refused(message, secret=("ann", "0.5")):
        make(**params).fit(*data)
    if not params:
        with pytest.raises(ValueError, match=message):
            make().fit_batches([X, *data])
        with pytest.raises(ValueError, match=message):
            make().fit(X).fold_in(*data)


@pytest.mark.parametrize("y", [np.ones(len(X)), X[:, 0], np.full(len(X), np.nan), [3]])
def test_y_is_ignored_with_a_warning_whatever_it_holds(y):
    with pytest.warns(UserWarning, match="^y is ignored: every row") as caught:
        model = make().fit(X, y)
    assert len({str(one.message) for one in caught}) == 1
    assert_same(model, make().fit(X))


def test_a_refused_fit_leaves_the_earlier_one():
    frame = pd.DataFrame(X, columns=["user", "item"])
    model = make().fit(frame)
    before = released(model)
    with pytest.raises(ValueError, match="outside"):
        model.fit(X + 40)
    assert all(map(np.array_equal, released(model), before))
    assert list(model.feature_names_in_) == ["user", "item"]
    assert not hasattr(model.fit(X), "feature_names_in_")


def test_the_default_of_max_items_fits_a_small_catalogue():
    assert_same(make().fit(X), make(max_items=30).fit(X))
    assert len(make(max_items=5, epsilon=FREE).fit(X).items_) == 5
    with pytest.raises(ValueError, match="max_items = 1500, but shape declares 30"):
        make(max_items=1500).fit(X)


def test_the_default_of_max_items_depends_on_the_noise():
    def most(n_items, **options):
        return make(**options)._max_items((60, n_items))

    assert [most(20_000, epsilon=e) for e in (1.0, 1e9, FREE)] == [1500, 1500, 15_000]
    assert [most(2000, epsilon=e) for e in (1.0, FREE)] == [1500, 2000]
    assert most(20_000, epsilon=1.0, max_items=4000) == 4000
    assert most(20_000, epsilon=FREE, max_items=0) == 0


def test_malformed_queries_are_refused():
    model = make().fit(X)
    for users, k in (([60], 3), ([-2], 3), ([[1]], 3), (["a"], 3), (1, 0), (1, True)):
        with pytest.raises(ValueError, match=r".") as e:
            model.recommend(users, k)
        assert "'a'" not in str(e.value)
    with pytest.raises(ValueError, match="outside"):
        model.predict([[0, 30]])
    assert model.recommend(1, 3).shape == (3,)


# --- how good it is ------------------------------------------------------------------


def test_with_noise_it_beats_popularity():
    """And it is hardly worse if co-occurrences carry no information."""
    scorer, cv = (
        make_ranking_scorer(k=20, fold_in_fraction=0),
        ItemHoldout(random_state=0),
    )
    for affinity, least in ((0.7, 1.15), (0.0, 0.94)):
        data = make_choices(3000, 400, 60_000, affinity=affinity, random_state=0)
        ((train, test),) = cv.split(data.data)
        models = {}
        for epsilon in (4.0, 0.02):
            model = make(epsilon=epsilon, shape=data.shape, delta=1e-5)
            models[epsilon] = model.fit(data.data[train])
        assert len(models[4.0].items_) > 40
        popular = make(epsilon=FREE, shape=data.shape, max_items=0)
        popular = scorer(popular.fit(data.data[train]), data.data[test])
        assert scorer(models[4.0], data.data[test]) > least * popular
        # At so small a budget the model does not learn from noise.
        assert len(models[0.02].items_) == 0


@pytest.mark.parametrize("kind", KINDS_OF_CHOICES)
def test_it_is_no_worse_than_popularity_on_any_kind_of_choices(kind):
    """And better with a larger budget. Differences are many times their noise."""
    size, exponents = KINDS_OF_CHOICES[kind]
    data = make_choices(*size, **exponents, random_state=0)
    ((train, test),) = ItemHoldout(random_state=0).split(data.data)
    scorer, scores = make_ranking_scorer(k=20, fold_in_fraction=0), {}
    for epsilon in (0.3, 8.0):
        for max_items in (0, min(1500, size[1])):
            model = make(
                epsilon=epsilon, delta=1e-6, shape=data.shape, max_items=max_items
            ).fit(data.data[train])
            scores[epsilon, max_items > 0] = scorer(model, data.data[test])
    assert scores[0.3, True] > 0.9 * scores[0.3, False]
    assert scores[8.0, True] > 1.03 * scores[8.0, False]


def test_noise_pays_for_rounding_the_co_occurrences():
    """One user moves each cell by up to a step more than the proof's vectors."""
    n_items = 600
    noise = plan_noise(1.0, 1e-6, (1000, n_items), n_items)
    rounding = noise.lattice.step * np.sqrt(n_items * (n_items + 1) / 2)
    assert rounding > 1e-3
    least = gaussian_sigma(1.0, 1e-6) * (1 + rounding)
    assert least <= np.sqrt(noise.noise_variance) < 1.001 * least
