"""Whole users protected in Dask: bit for bit the same as on one machine."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sktensordp.completion import CPCompletion, TuckerCompletion
from sktensordp.datasets import make_ratings
from sktensordp.exceptions import PrivacyLeakWarning
from tests.support.callbacks import needs_callbacks
from tests.support.refusing import refused
from tests.support.replaying import with_a_pattern
from tests.support.seams import BlockQuestion
from tests.with_dask.partitions import (
    KillAWorker,
    by_user,
    changing_in_partitions,
    check_refused,
    framed,
    in_partitions,
)
from tests.with_dask.test_completion import Results, check_one_release_is_recorded

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("here")]
dask = pytest.importorskip("dask.dataframe") and pytest.importorskip("dask")
RATINGS = make_ratings(n_users=120, n_items=50, n_ratings=4000, random_state=0)
SHAPE = (130, 50, 4)


def entries(n_modes=2, unit=0):
    """Coordinates, those of the units in their mode, and values; one has one entry."""
    weeks = np.random.default_rng(0).integers(0, 4, (len(RATINGS.data), 1))
    X = np.concatenate([RATINGS.data, weeks], axis=1)[:, :n_modes]
    y = RATINGS.target.copy()
    # Some values lie outside the levels, and some coordinates recur.
    y[::50], X[7::100] = 9.5, X[3]
    X[5, 0] = 125
    order = [*range(1, unit + 1), 0, *range(unit + 1, n_modes)]
    return X[:, order], y


def model(kind=CPCompletion, rank=2, n_modes=2, unit=0, **options):
    order = [*range(1, unit + 1), 0, *range(unit + 1, n_modes)]
    defaults = {
        "levels": RATINGS.levels, "epsilon": 4.0, "random_state": 3, "unit": unit,
        "shape": [SHAPE[k] for k in order], "perturbation": "statistics",
    }  # fmt: skip
    return kind(rank, **defaults | options)


def assert_same(parts, one):
    """The released models are equal to the last bit."""
    assert parts.privacy_guarantee_ == one.privacy_guarantee_
    assert parts.perturbation_ == one.perturbation_
    assert parts.shape_ == one.shape_
    assert parts.offset_ == one.offset_
    assert parts.model_variance_ == one.model_variance_
    for found, expected in zip(parts.factors_, one.factors_, strict=True):
        if expected is None:
            assert found is None
        else:
            assert_array_equal(found, expected)
    assert np.std(one.factors_[1 - (one.unit == 1)]) > 0.01
    if isinstance(one, TuckerCompletion):
        assert_array_equal(parts.decomposition_.core, one.decomposition_.core)


FEATURES = np.random.default_rng(5).standard_normal((50, 2))
MODELS = {
    "CP": {},
    "Tucker": {"kind": TuckerCompletion},
    "CP of three modes": {"n_modes": 3, "side_information": {1: FEATURES}},
    "Tucker of three modes": {"kind": TuckerCompletion, "n_modes": 3},
    "features": {"side_information": {1: FEATURES}, "perturbation": "auto"},
    "second mode": {"unit": 1},
    "third mode": {"kind": TuckerCompletion, "n_modes": 3, "unit": 2},
    "sums": {"perturbation": "sums", "epsilon": 0.5},
    "range": {"levels": None, "value_bounds": (1, 4), "biases": False},
}
QUICK = ["CP", "Tucker of three modes", "second mode"]


@pytest.mark.parametrize("n_modes", [2, 3])
def test_patterns_are_the_same_to_the_last_bit(n_modes):
    X, y = entries(n_modes)
    with with_a_pattern():
        one = model(n_modes=n_modes).fit(X, y)
        parts = model(n_modes=n_modes).fit(*in_partitions(X, y))
    assert_same(parts, one)
    features = [each._fitted.model.features for each in (parts, one)]
    assert features[0].shape[1] > 2
    assert_array_equal(*features)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] * (n not in QUICK)) for n in MODELS],
)
def test_the_same_as_on_one_machine_to_the_last_bit(name):
    options = MODELS[name]
    X, y = entries(options.get("n_modes", 2), options.get("unit", 0))
    one = model(**options).fit(X, y)
    parts = model(**options).fit(*in_partitions(X, y))
    assert_same(parts, one)
    # Users answer where their entries are.
    X[:50, one.unit] = -1
    assert_array_equal(parts.predict(framed(X)), one.predict(X))
    if one.unit != 1:
        for context in [None] if X.shape[1] == 2 else [[-1], [1]]:
            asked = [125, 0, 129, -1, 7] if one.unit == 0 else [0, 5]
            assert_array_equal(
                parts.recommend(asked, 4, context=context),
                one.recommend(asked, 4, context=context),
            )
            n_items = one.shape_[1]
            lists = [[k % n_items, (k + 1) % n_items] for k in range(len(asked))]
            options = {"context": context, "candidates": lists, "return_scores": True}
            for found, expected in zip(
                parts.recommend(asked, 2, **options),
                one.recommend(asked, 2, **options),
                strict=True,
            ):
                assert_array_equal(found, expected)
            assert_array_equal(parts.similar_items([0, 1]), one.similar_items([0, 1]))


def test_a_chunk_has_whole_users():
    X, y = by_user(*entries())
    # Between users; the first is alone.
    cuts = np.searchsorted(X[:, 0], [0, 1, 40, 100, 130]).tolist()
    results = Results()
    with results:
        parts = model().fit(*in_partitions(X, y, cuts))
    joined = [
        chunk.units for key, chunk in results.found if key.startswith("_joined_units")
    ]
    assert len(joined) == 4
    assert sorted(np.concatenate(joined)) == sorted(set(X[:, 0]))
    assert_same(parts, model().fit(*entries()))


def test_arrays_of_dask_and_the_order_of_entries():
    X, y = entries()
    order = np.random.default_rng(2).permutation(len(y))
    lazy = dask.array.from_array(X[order], chunks=(1500, 1))
    parts = model().fit(lazy, dask.array.from_array(y[order], chunks=1500))
    assert_same(parts, model().fit(X, y))


def test_other_data_give_another_model():
    """Of the equality above: a single value that changes is seen."""
    X, y = entries()
    one = model().fit(X, y)
    y[17] = 0.5 if y[17] > 2 else 5
    parts = model().fit(*in_partitions(X, y))
    assert np.any(parts.factors_[1] != one.factors_[1])


@pytest.mark.filterwarnings("ignore:.* of the values are:UserWarning")
def test_no_row_leaves_with_the_model():
    """Rows are computed where the entries are, or again by fold_in."""
    X, y = entries()
    parts = model().fit(*in_partitions(X, y))
    assert parts.factors_[0] is None
    before = parts.predict(framed(X))
    served = pickle.loads(pickle.dumps(parts))
    for text in (pickle.dumps(parts), repr(parts), str(vars(parts))):
        assert "Distributed" not in str(text)
    assert len(pickle.dumps(parts)) < 30_000
    with pytest.warns(UserWarning, match="treated as unknown"):
        unknown = served.predict(framed(X))
    everybody = np.column_stack([np.full(len(X), -1), X[:, 1:]])
    assert_array_equal(unknown, parts.predict(framed(everybody)))
    assert np.any(unknown != before)
    some = X[:, 0] < 60
    served.fold_in(framed(X[some]), y[some])
    assert_array_equal(served.predict(framed(X[some])), before[some])
    # Where the workers are known too, rows of this process come first.
    parts.fold_in(framed(X[some]), 5.5 - y[some])
    after = parts.predict(framed(X))
    assert np.any(after[some] != before[some])
    assert_array_equal(after[~some], before[~some])


def test_one_release_is_recorded_and_none_if_it_is_refused():
    lazy = in_partitions(*entries())
    check_one_release_is_recorded(model(random_state=None), lazy, mode=1)


def test_a_shape_that_is_not_declared_protects_nobody():
    X, y = entries()
    with pytest.warns(PrivacyLeakWarning, match="shape"):
        parts = model(shape=None).fit(*in_partitions(X, y))
    assert parts.privacy_guarantee_.epsilon == float("inf")
    with pytest.warns(PrivacyLeakWarning, match="shape"):
        assert_same(parts, model(shape=None).fit(X, y))


REFUSED = {
    "NaN": ({}, {"value": np.nan}, "Some values in y are NaN"),
    "outside": ({}, {"place": [130, 1]}, "outside the tensor"),
    "negative": ({}, {"place": [-3, 1]}, "coordinates start at 0"),
    "input": ({"perturbation": "input"}, {}, "perturbation must be one of"),
    "gradient": ({"perturbation": "gradient"}, {}, "not supported for Dask input"),
    "smooth": ({"smooth_modes": [1]}, {}, "does not support smooth_modes"),
    "no mode": ({"unit": 2}, {}, "is not a mode"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_come_before_anything_is_drawn(name):
    options, new, message = REFUSED[name]
    check_refused(model().set_params(**options), entries(), message, **new)


CHANGES = {
    "fewer entries": lambda frame: frame[:-1],
    "entries of another user": lambda frame: frame.assign(
        user=frame["user"] + (frame.index == 3)
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_source_that_changes_is_refused_and_costs_nothing(change, tmp_path):
    lazy = changing_in_partitions(*entries(), CHANGES[change], tmp_path)
    with refused("partition", (RuntimeError, ValueError)):
        model().fit(*lazy)


@pytest.mark.slow
def test_processes_find_the_same_and_answer(client):
    X, y = entries()
    one = model(TuckerCompletion).fit(X, y)
    parts = model(TuckerCompletion)
    with client.as_current(), dask.config.set(scheduler="distributed"):
        parts.fit(*in_partitions(X, y))
        assert_same(parts, one)
        assert_allclose(parts.predict(framed(X)), one.predict(X), atol=1e-12)
        assert_array_equal(parts.recommend([3, 125], 5), one.recommend([3, 125], 5))


@pytest.mark.slow
@needs_callbacks
def test_workers_that_are_killed_are_survived(client, tmp_path):
    """One between passes, and one while it sums what its users contribute."""
    X, y = entries()
    marker = str(tmp_path / "killed")

    one = model().fit(X, y)
    killer = KillAWorker(client, sweeps={3})
    parts = model().set_callbacks(killer)

    def die_once(marker=marker):
        add = BlockQuestion.add

        def add_or_die(question, chunk, *totals):
            add(question, chunk, *totals)
            if question.block == 1 and question.n_biases and question.model.form:
                try:
                    # Of all workers, only the first to get here dies.
                    os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    return
                os._exit(1)

        BlockQuestion.add = add_or_die

    client.run(die_once)
    with client.as_current(), dask.config.set(scheduler="distributed"):
        parts.fit(*in_partitions(X, y))
    assert killer.n_killed == 1
    assert Path(marker).exists()
    assert_same(parts, one)


@pytest.mark.filterwarnings("ignore:.* of the values are:UserWarning")
def test_without_noise_the_same_up_to_rounding():
    """Without a lattice, sums depend on the order in which they are added."""
    X, y = entries()
    options = {"epsilon": float("inf"), "rank": 0, "perturbation": "sums"}
    one = model(**options).fit(X, y)
    parts = model(**options).fit(*in_partitions(X, y))
    assert_allclose(parts.factors_[1], one.factors_[1], rtol=1e-9, atol=1e-12)
    assert_allclose(parts.predict(framed(X)), one.predict(X), rtol=1e-9)
