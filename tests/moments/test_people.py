"""People with several samples: `groups`, with which they count as one."""

import logging
import math
import pickle
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score

from sktensordp.ids import people_of
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.moments import (
    MultilinearPCA,
    MultilinearRidge,
    MultilinearRidgeClassifier,
)
from sktensordp.privacy import PrivacyBudget, planned_guarantee, privacy_of
from tests.support import divergence
from tests.support.noise import drawing
from tests.support.replaying import accounted, largest_ratios, recorded
from tests.support.samples import asked
from tests.support.seams import Chunk

COMMON = {"norm_bound": 1.0, "random_state": 0}
MAKERS = {
    "PCA": partial(MultilinearPCA, **COMMON),
    "ridge": partial(MultilinearRidge, target_bounds=(-1, 1), **COMMON),
    "classes": partial(MultilinearRidgeClassifier, classes=[0, 1, 2], **COMMON),
}
WAYS = {
    "modes": {"n_components": (2, 3)},
    "all cells": {"n_components": (3, 4)},
    "centred": {"n_components": (2, 2), "center": True},
}
makers = pytest.mark.parametrize("kind", MAKERS)
ways = pytest.mark.parametrize("way", WAYS)
# How many samples each of six people has.
SIZES = [1, 5, 2, 1, 3, 1]


def targets(kind, X, seed=0):
    if kind == "PCA":
        return None
    rng = np.random.default_rng(seed)
    if kind == "ridge":
        return rng.uniform(-1.5, 1.5, len(X))
    return rng.integers(0, 4, len(X))


def people(kind, sizes=SIZES, shape=(3, 4), seed=0):
    """Samples, targets and ids of people; samples of a person do not follow others."""
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.repeat([f"p{k}" for k in range(len(sizes))], sizes))
    X = rng.standard_normal((len(groups), *shape)) * rng.uniform(0.1, 1)
    return X, targets(kind, X, seed), groups


def with_person(kind, form, n_others=3):
    """Three people, and one whose samples and targets are given."""
    X, y, groups = people(kind, [2, 1, 3][:n_others])
    samples, own = form
    X = np.concatenate([samples, X])
    if y is not None:
        y = np.concatenate([own, y])
    return X, y, np.concatenate([np.full(len(samples), "own"), groups])


def forms(kind, shape=(3, 4)):
    """All that a person may have: few samples and many, alike and opposite."""
    first, last = np.eye(math.prod(shape))[[0, -1]].reshape(2, *shape)
    rng = np.random.default_rng(3)
    found = [
        [first], [last], [first] * 7, [last] * 2, [first, last], [first, -first] * 3,
        [0 * first], [first] + [0 * first] * 30, [1e300 * last] * 3, [5e-324 * last],
        list(rng.standard_normal((300, *shape))), [-first] * 2**7,
    ]  # fmt: skip
    ends = {"ridge": [1.0, -1.0], "classes": [0, 1]}.get(kind, [0.0, 0.0])
    for samples in found:
        for own in ([ends[0]], [ends[1]], ends):
            yield np.array(samples), np.resize(own, len(samples))


# --- what it reveals ------------------------------------------------------------------


@makers
@ways
def test_one_person_moves_releases_by_what_is_accounted(kind, way):
    """All samples of a person replaced by any number of others."""
    model = MAKERS[kind](**WAYS[way], epsilon=2.0)
    own = list(forms(kind))
    start = with_person(kind, own[0])
    others = [with_person(kind, form) for form in own[1:]]
    _, ratio = largest_ratios(model, start, others)
    assert ratio <= 1
    if way == "all cells" and kind != "PCA":
        assert ratio > 0.7
    _, twice = largest_ratios(model, start, others, wrong=3)
    assert twice > 1


@makers
@pytest.mark.parametrize("epsilon", [0.25, 4.0])
def test_the_guarantee_is_that_of_the_noise(kind, epsilon):
    """By an integral of two normal densities, with nothing of the package."""
    model = MAKERS[kind]((3, 4), epsilon=epsilon, delta=1e-5)
    with recorded() as found:
        guarantee = model.fit(*people(kind)).privacy_guarantee_
    n = 12 + {"PCA": 0, "ridge": 2, "classes": 3}[kind]
    mu = (1 + found.step * math.sqrt(6 + 10 + n * (n + 1) // 2)) / found.sigma
    delta = divergence.gaussian_stick(mu, epsilon)
    assert 0.98 * 1e-5 < delta <= 1e-5
    assert divergence.gaussian_stick(2 * mu, epsilon) > 2e-5
    assert accounted(guarantee)[1] == pytest.approx(mu, rel=1e-6)
    assert (guarantee.epsilon, guarantee.delta) == (epsilon, 1e-5)
    assert (guarantee.unit, guarantee.relation) == ("person", "replace-one")
    assert guarantee.local is False
    assert "for all rows of X of one person (replace-one)" in str(guarantee)


@makers
@ways
def test_what_is_published_follows_from_releases(kind, way, caplog):
    """Replayed, other numbers of samples give the same pickle and the same log."""
    model, texts = MAKERS[kind](**WAYS[way]), []
    with caplog.at_level(logging.DEBUG, "sktensordp"):
        with recorded() as start:
            one = clone(model).fit(*people(kind))
        texts.append(caplog.text)
        caplog.clear()
        with recorded(start):
            other = clone(model).fit(*people(kind, [9, 1, 4, 30, 2, 1], seed=5))
        texts.append(caplog.text)
    assert pickle.dumps(one) == pickle.dumps(other)
    assert texts[0] == texts[1]
    said = one.privacy_guarantee_.statement
    assert "The number of people is public: 6 people with samples of shape (3, 4)." in (
        said
    )
    assert "All samples of a person together add no more than one." in said
    assert "s left" not in texts[0]


@makers
def test_a_norm_bound_is_found_for_people(kind):
    """That of all samples of a person; who has many changes one count."""
    X, y, groups = people(kind, [1, 2, 3] * 200)
    X /= np.linalg.norm(X, axis=(1, 2), keepdims=True)
    model = MAKERS[kind](epsilon=4.0, norm_bound=None).fit(X, y, groups)
    guarantee = model.privacy_guarantee_
    assert (guarantee.unit, guarantee.epsilon) == ("person", 4.0)
    assert 1.1 < model.norm_bound_ < 1.9
    assert "600 people" in guarantee.statement
    assert planned_guarantee(model).unit == "person"


@pytest.mark.parametrize("is_mean", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 300, 4096])
@pytest.mark.parametrize("bound", [1e-50, 1.0])
def test_samples_of_a_person_are_no_longer_than_one(size, bound, is_mean):
    """In whole numbers, at the limit, and near it; others add what they would."""
    rng = np.random.default_rng(size)
    for length in (1e-3, 0.999 / size, size**-0.5, 1.0, 30.0):
        own = rng.standard_normal((size, 6))
        own *= length * bound / np.linalg.norm(own, axis=1, keepdims=True)
        other = rng.standard_normal((2, 6)) * bound / 9
        beside = rng.uniform(-1, 1, (size + 2, 2)) * math.sqrt(0.5)
        chunk = Chunk(np.concatenate([own, other]), beside, np.array([size, 1, 1]))
        question = asked(
            (6,), bound, (1.0,), is_mean=is_mean, is_joint=not is_mean, further=1.0,
            n_further=2,
        )  # fmt: skip
        cells = question.vectors(chunk)
        alone = question.vectors(chunk._replace(sizes=None))
        assert_array_equal(cells[size:], alone[size:])
        rows, limit = cells[:size].astype(int).tolist(), 2**question.length_bits
        squares = [sum(x * x for x in row) for row in rows]
        if is_mean:
            assert sum(map(math.isqrt, [s - 1 if s else 0 for s in squares])) < limit
            assert all(s * size**2 <= limit**2 for s in squares)
        else:
            assert sum(squares) <= limit**2
            before = sum(sum(x * x for x in map(int, row)) for row in alone[:size])
            assert sum(squares) == before or before > limit**2
            assert sum(squares) > min(0.99 * limit**2, 0.999 * before)
            # One factor for all samples and their further coordinates.
            factor = math.sqrt(sum(squares) / before)
            assert_allclose(cells[:size], factor * alone[:size], atol=1.01)


@pytest.mark.usefixtures("as_released")
@pytest.mark.parametrize("is_mean", [False, True])
def test_no_person_enters_a_sum_who_is_too_long(is_mean):
    """At the limit, and by one beyond it."""
    question = asked((5,), 1.0, (1.0,), is_mean=is_mean)
    (sums,), limit = question.sums, 2**question.length_bits
    # Four samples, each as long as a quarter or a half of what one may be.
    own, sizes = limit // (4 if is_mean else 2), np.array([4, 1])
    for beyond in (0, 1):
        cells = np.diag([own, own, own, own + beyond, 5.0])
        totals = sums.zeros()
        sums.add(totals, cells, sizes)
        found = int(totals[0].sum()) * 2**32 + int(totals[1].sum())
        one = 5 if is_mean else 25
        assert found == one + (0 if beyond else limit if is_mean else limit**2)


def test_blocks_hold_whole_people():
    rng = np.random.default_rng(0)
    for size in (1, 3, 8, 1000):
        sizes = rng.integers(1, 9, 40)
        rows = np.arange(float(sizes.sum()))[:, np.newaxis]
        blocks = list(Chunk(rows, rows, sizes).blocks(size))
        assert_array_equal(np.concatenate([one.rows for one in blocks]), rows)
        assert_array_equal(np.concatenate([one.sizes for one in blocks]), sizes)
        assert all(len(one.rows) == one.sizes.sum() for one in blocks)
        assert all(len(one.rows) <= max(size, one.sizes[0]) for one in blocks)
        plain = list(Chunk(rows).blocks(size))
        assert [len(one.rows) for one in plain[:-1]] == [size] * (len(plain) - 1)
        assert_array_equal(np.concatenate([one.rows for one in plain]), rows)


# --- what it is -----------------------------------------------------------------------


def numbers(model):
    """All that a fit has found."""
    names = ("components_", "coef_", "intercept_", "mean_", "_intercepts")
    found = [getattr(model, name) for name in names if hasattr(model, name)]
    return [np.ravel(one) for part in found for one in (
        part if isinstance(part, list) else [part])]  # fmt: skip


def same(one, other, tolerance=0.0):
    for mine, theirs in zip(numbers(one), numbers(other), strict=True):
        assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)
    assert one.privacy_guarantee_.event == other.privacy_guarantee_.event


@makers
@ways
@pytest.mark.parametrize("epsilon", [2.0, math.inf])
def test_people_with_one_sample_each_are_samples(kind, way, epsilon):
    """To the bit where there is noise; but a ridge counts what people add."""
    X, y, groups = people(kind, [1] * 30)
    model = MAKERS[kind](**WAYS[way], epsilon=epsilon)
    with recorded() as one:
        of_people = clone(model).fit(X, y, groups)
    with recorded() as other:
        of_samples = clone(model).fit(X, y)
    if math.isfinite(epsilon):
        assert_array_equal(one.flat, other.flat)
        assert_array_equal(one.transcript, other.transcript)
    if kind == "PCA" or math.isinf(epsilon):
        if kind != "PCA":
            model.set_params(alpha=1.0)
            of_people = clone(model).fit(X, y, groups)
            of_samples = clone(model).fit(X, y)
        same(of_people, of_samples, 1e-12 if math.isinf(epsilon) else 0.0)


@makers
@ways
def test_the_order_of_samples_and_people_does_not_matter(kind, way):
    X, y, groups = people(kind)
    order = np.random.default_rng(9).permutation(len(X))
    model = MAKERS[kind](**WAYS[way])
    other = (
        X[order],
        None if y is None else y[order],
        7.0 + np.unique(groups, return_inverse=True)[1][order],
    )
    same(clone(model).fit(X, y, groups), clone(model).fit(*other))


@pytest.mark.parametrize(
    ("kind", "way"),
    [("PCA", way) for way in WAYS] + [("ridge", "all cells"), ("classes", "all cells")],
)
def test_equal_long_samples_of_a_person_are_one(kind, way):
    """But for the roundings of a lattice of 2^18 steps or more."""
    X, y, groups = people(kind, [1] * 8)
    X *= 1e3
    if kind != "PCA":
        y = np.resize([1.0, -1], 8) if kind == "ridge" else np.arange(8) % 3
    again = np.repeat(np.arange(8), [1, 4, 9, 1, 16, 2, 3, 100])
    more = X[again], None if y is None else y[again], groups[again]
    model = MAKERS[kind](**WAYS[way], epsilon=100.0, delta=1e-2)
    with recorded() as one:
        clone(model).fit(X, y, groups)
    with recorded(one) as other:
        clone(model).fit(*more)
    for mine, theirs in zip(one.exact, other.exact, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert_allclose(a * one.step, b * one.step, atol=1e-3)


def joint_weights(X, y, groups, *, constant, bound):
    """By what samples of a person are scaled down, squared, in floats."""
    rows = X.reshape(len(X), -1) / bound
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
    squares = np.square(rows).sum(axis=1) + np.square(y) + constant**2
    _, index = np.unique(groups, return_inverse=True)
    return np.minimum((2 + constant**2) / np.bincount(index, squares)[index], 1), rows


@pytest.mark.parametrize("bound", [None, 0.5, 3.0])
def test_without_noise_it_is_a_ridge_with_weights(bound):
    """Of all samples, if nothing bounds them; else a person has the length of one."""
    X, y, groups = people("ridge", [3, 1, 7, 2] * 20)
    y = y.clip(-1, 1)
    own = MultilinearRidge(
        (3, 4), alpha=2.0, epsilon=math.inf, target_bounds=(-1, 1), norm_bound=bound
    )
    own.fit(X, y, groups)
    weights, rows = np.ones(len(X)), X.reshape(len(X), -1)
    if bound:
        weights, rows = joint_weights(X, y, groups, constant=0.5, bound=bound)
        assert 0.05 < weights.min() < 1 == weights.max()
        rows = rows * bound
    expected = Ridge(2.0).fit(rows, y, weights)
    assert_allclose(own.coef_.ravel(), expected.coef_, atol=1e-9)
    assert own.intercept_ == pytest.approx(expected.intercept_)
    if bound is None:
        sizes = np.unique(groups, return_counts=True)[1]
        index = np.unique(groups, return_inverse=True)[1]
        centred = clone(own).set_params(center=True).fit(X, y, groups)
        mean = np.average(X, axis=0, weights=1 / sizes[index])
        assert_allclose(centred.mean_, mean)
        assert_allclose(centred.coef_, own.coef_, atol=1e-9)
        # The sums decide, not samples of a person, which would predict each other.
        chosen = clone(own).set_params(alpha="auto").fit(X, y, groups)
        batched = clone(own).set_params(alpha="auto").fit_batches([(X, y)])
        assert chosen.alpha_ == pytest.approx(batched.alpha_)


@makers
def test_weak_noise_changes_little(kind):
    """The fit that counts what people add, whole numbers and all, is that in floats."""
    X, y, groups = people(kind, [3, 1, 7, 2] * 100)
    model = MAKERS[kind]((3, 4), epsilon=200.0, norm_bound=1.0)
    if kind != "PCA":
        model.set_params(alpha=30.0)
    noisy = clone(model).fit(X, y, groups)
    free = clone(model).set_params(epsilon=math.inf).fit(X, y, groups)
    if kind == "PCA":
        assert noisy.score(X) == pytest.approx(free.score(X), abs=0.01)
    else:
        scale = np.abs(free._cells).max()
        assert_allclose(noisy._cells, free._cells, atol=0.15 * scale)
        assert_allclose(noisy._intercepts, free._intercepts, atol=0.15)


def generated(seed, n=600, most=8):
    """People with up to eight noisy samples, whose target is a part of their mean."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most + 1, n)
    groups = np.repeat(np.arange(n), sizes)
    means = rng.standard_normal((n, 4, 6)) / math.sqrt(24)
    X = (means[groups] + rng.standard_normal((len(groups), 4, 6)) / 10) / 1.5
    y = (means[:, 0, 0] - means[:, 1, 1])[groups] + 0.05 * rng.standard_normal(len(X))
    return X, y, groups


@pytest.mark.thorough
def test_a_person_with_more_samples_is_known_better():
    """At epsilon 2 for the person; for a group of eight, a sample would have .21."""
    scores = []
    for seed in range(5):
        X, y, groups = generated(seed, 3000)
        new = generated(seed + 100, 500)[:2]
        model = MultilinearRidge(
            (4, 6), epsilon=2.0, norm_bound=1.0, target_bounds=(-1, 1),
            random_state=seed,
        )  # fmt: skip
        first = np.unique(groups, return_index=True)[1]
        scores.append(
            [
                clone(model).fit(X, y, groups).score(*new),
                clone(model).fit(X[first], y[first]).score(*new),
            ]
        )
    of_all, of_one = np.mean(scores, axis=0)
    assert of_all > max(of_one, 0.5)


# --- ids ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "found"),
    [
        (["b", "a", "b", "c"], [0, 1, 0, 2]),
        (np.array([7, 3, 7, -1]), [0, 1, 0, 2]),
        ([1, 1.0, "1", True], [0, 0, 1, 2]),
        (np.array(["2026-01-01", "2026-01-02"] * 2, "M8[D]"), [0, 1, 0, 1]),
        ([(1, 2), (1, 3), (1, 2), "x"], [0, 1, 0, 2]),
    ],
)
def test_ids_are_compared_each_by_itself(groups, found):
    assert_array_equal(people_of(groups, 4), found)


WRONG = {
    "None": ([None] + ["a"] * 3, "missing"),
    "NaN": ([1.0, math.nan, 1.0, 2.0], "missing"),
    "NaN in an array": (np.array([1.0, math.nan, 1.0, 2.0]), "missing"),
    "NaT": (np.array(["NaT", "2026-01-01"] * 2, "M8[D]"), "missing"),
    "lists": ([[1, 2], "a", "b", "c"], "missing"),
    "too few": (["a"] * 3, "one id for each sample"),
    "too many": (np.arange(5), "one id for each sample"),
    "a table": (np.zeros((4, 2)), "1d array"),
    "one": ("abcd", "1d array"),
}


@pytest.mark.parametrize("wrong", WRONG)
@makers
def test_wrong_ids_cost_nothing(kind, wrong):
    X, y, _ = people(kind, [4])
    groups, message = WRONG[wrong]
    with PrivacyBudget(10, 1e-5) as budget, drawing() as drawn:
        with pytest.raises(ValueError, match=message) as error:
            MAKERS[kind]().fit(X, y, groups)
        assert "3" not in str(error.value)
    assert budget.spent is None
    assert not drawn


def test_ids_of_pandas_are_those_of_the_same_rows():
    pandas = pytest.importorskip("pandas")
    X, y, groups = people("ridge")
    frame = pandas.DataFrame(X.reshape(len(X), -1))
    ids = pandas.Series(groups)
    model = MAKERS["ridge"]((3, 4), tensor_shape=(3, 4))
    same(clone(model).fit(frame, y, ids), clone(model).fit(frame, y, groups))
    with pytest.raises(ValueError, match="in another order"):
        model.fit(frame, y, ids[::-1])


def test_samples_of_dask_are_loaded():
    dask_array = pytest.importorskip("dask.array")
    for kind, make in MAKERS.items():
        X, y, groups = people(kind)
        lazy = dask_array.from_array(X, chunks=(2, 3, 4))
        same(make((2, 2)).fit(lazy, y, groups), make((2, 2)).fit(X, y, groups))


# --- plans, budgets and searches ------------------------------------------------------


@makers
def test_plans_and_budgets_know_people(kind, tmp_path):
    X, y, groups = people(kind)
    model = MAKERS[kind](epsilon=1.0, tensor_shape=(3, 4), random_state=None)
    planned = planned_guarantee(model)
    assert planned.unit == "sample"
    path = tmp_path / "budget.sqlite"
    with PrivacyBudget(2.5, 1e-5, path=path, create=True) as budget:
        model.fit(X, y, groups)
        model.fit(X, y, groups)
        # Samples of several people would not add up with people.
        with pytest.raises(ValueError, match="one person and for one row"):
            clone(model).fit(X, y)
    assert budget.spent.unit == "person"
    assert PrivacyBudget(2.5, 1e-5, path=path).spent.unit == "person"
    assert privacy_of(model).guarantee.unit == "person"
    again = planned_guarantee(model)
    assert (again.unit, again.event) == ("person", planned.event)
    assert again.for_group(2).epsilon > 2


@makers
def test_folds_are_not_counted_for_people(kind):
    X, y, groups = people(kind, [2] * 40)
    model = MAKERS[kind](random_state=None, epsilon=1.0)
    with config_context(enable_metadata_routing=True):
        model.set_fit_request(groups=True)
        for cv in (KFold(2), GroupKFold(2)):
            search = GridSearchCV(model, {"n_components": [(2, 2)]}, cv=cv)
            search.fit(X, y, groups=groups)
            assert search.best_estimator_.privacy_guarantee_.unit == "person"
            report = privacy_of(search)
            assert report.guarantee.epsilon == math.inf
            assert "How many rows a person has is private" in str(report)
        with PrivacyBudget(10, 1e-4) as budget:
            cross_val_score(model, X, y, cv=GroupKFold(2), params={"groups": groups})
        assert budget.spent.unit == "person"
        search = PrivateSearchCV(
            model, {"n_components": [(2, 2)]}, scoring=lambda *_: np.zeros(3),
            score_bounds=(0, 1), cv=GroupKFold(2),
        )  # fmt: skip
        with pytest.raises(ValueError, match="does not cover"):
            search.fit(X, np.zeros(len(X)) if y is None else y, groups=groups)
    # Without routing, a search passes groups to its splitter alone.
    search = GridSearchCV(clone(model), {"n_components": [(2, 2)]}, cv=GroupKFold(2))
    search.fit(X, y, groups=groups)
    assert search.best_estimator_.privacy_guarantee_.unit == "sample"
