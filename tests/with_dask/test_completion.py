"""Completion from Dask: the same as on one machine, and what leaves a partition."""

import os
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sktensordp.completion import CPCompletion, TuckerCompletion
from sktensordp.datasets import make_ratings
from sktensordp.exceptions import BudgetExceededError
from sktensordp.privacy import PrivacyBudget, privacy_of
from tests.support import seams
from tests.support.callbacks import needs_callbacks
from tests.support.leak_hunt import Secrets
from tests.support.noise import drawing
from tests.support.refusing import refused
from tests.with_dask.partitions import (
    NAMES,
    KillAWorker,
    by_user,
    changing_in_partitions,
    check_refused,
    framed,
    in_partitions,
    lazy_frame,
    read_in_partitions,
)

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("here")]
dask = pytest.importorskip("dask.dataframe") and pytest.importorskip("dask")
RATINGS = make_ratings(n_users=120, n_items=60, n_ratings=4000, random_state=0)


def entries(n_modes=2, order=1, dtype=float):
    """Coordinates and values; `order` = -1 makes the items the first mode."""
    weeks = np.random.default_rng(0).integers(0, 4, (len(RATINGS.data), 1))
    X = np.concatenate([RATINGS.data[:, ::order], weeks], axis=1)[:, :n_modes]
    return X, RATINGS.target.astype(dtype)


def model(kind=CPCompletion, rank=2, **options):
    defaults = {"levels": RATINGS.levels, "epsilon": 4.0, "random_state": 3}
    return kind(rank, **defaults | {"n_pattern_components": 1} | options)


def both(estimator, X, y):
    """Fitted on one machine, and to partitions."""
    return clone(estimator).fit(X, y), clone(estimator).fit(*in_partitions(X, y))


KINDS = [CPCompletion, TuckerCompletion]
MODELS = {
    "auto": {"epsilon": 1.0},
    "input": {"perturbation": "input"},
    "laplace": {"perturbation": "input", "levels": None, "value_bounds": (0, 6)},
    "no noise": {"epsilon": float("inf"), "perturbation": "input"},
    "no biases": {"perturbation": "input", "biases": False},
    "no pattern": {"perturbation": "input", "n_pattern_components": 0},
    "sums": {"perturbation": "sums"},
    "sums without noise": {"epsilon": float("inf"), "perturbation": "sums"},
    "statistics": {"perturbation": "statistics", "epsilon": 1000.0},
    "statistics of features": {
        "perturbation": "statistics",
        "epsilon": 1000.0, "biases": False,
        "side_information": [None, np.empty((0, 3))],
    },
}  # fmt: skip


LESS = "auto", "no noise", "no biases", "sums without noise"


# Every model with both forms and both orders of the modes, but not with each pair.
@pytest.mark.parametrize(
    ("name", "kind", "order"),
    [
        pytest.param(
            name, KINDS[(i + j) % 2], 1 - 2 * j,
            marks=[pytest.mark.slow] if j or name in LESS else [],
        )
        for i, name in enumerate(MODELS)
        for j in range(1 if name in LESS else 2)
    ],
)  # fmt: skip
def test_the_same_as_on_one_machine(name, kind, order):
    options = dict(MODELS[name])
    X, y = entries(order=order)
    if "side_information" in options:
        size = X[:, 1].max() + 1
        # The longest weights of a row are in one partition.
        features = np.random.default_rng(0).normal(size=(size, 3))
        options["side_information"] = [None, features]
        weights = np.random.default_rng(1).normal(size=(X[:, 0].max() + 1, 3))
        y = 3 + np.einsum("er,er->e", features[X[:, 1]], weights[X[:, 0]])
    rank = 2 if kind is CPCompletion else (2, 2)
    one, parts = both(model(kind, rank, max_iter=2, **options), X, y)
    # Of a model that is constant, all would be the same.
    assert np.std(one.predict(X)) > 0.05
    assert parts.privacy_guarantee_ == one.privacy_guarantee_
    assert parts.perturbation_ == one.perturbation_
    assert parts.shape_ == one.shape_
    assert parts.n_iter_ == one.n_iter_
    np.testing.assert_allclose(
        parts.predict(framed(X)), one.predict(X), rtol=0, atol=1e-6
    )
    if hasattr(one, "residual_variance_"):
        assert parts.residual_variance_ == pytest.approx(one.residual_variance_, 1e-6)
    for found, expected in zip(parts.factors_, one.factors_, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("order", [1, pytest.param(-1, marks=pytest.mark.slow)])
def test_rows_that_differ_in_their_noise(order):
    """Their weights are learned where the rows are, from the sixth sweep on."""
    X, y = entries(order=order)
    noise = np.random.default_rng(1).normal(size=len(y)) * (X[:, 0] % 3)
    y = np.clip(np.rint(y + noise), 1, 5)
    estimator = model(
        levels=np.arange(1.0, 6.0), epsilon=20.0, perturbation="input", max_iter=6
    )
    less = clone(estimator).fit(X, y)
    one, parts = both(estimator.set_params(max_iter=10), X, y)
    assert np.abs(one.predict(X) - less.predict(X)).max() > 0.01
    found = parts.predict(framed(X), return_std=True)
    expected = one.predict(X, return_std=True)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    # Without their own noise, all rows would have about the same deviations.
    assert np.ptp(expected[1]) > 0.1


@pytest.mark.parametrize(("kind", "order"), [*zip(KINDS, (1, -1), strict=True)])
def test_three_modes_of_which_one_is_smooth(kind, order):
    X, y = entries(3, order, np.float32)
    rank = 2 if kind is CPCompletion else (2, 2, 2)
    options = {"perturbation": "input", "smooth_modes": [2], "max_iter": 3}
    one, parts = both(model(kind, rank, **options), X, y)
    assert parts.predict(framed(X)).dtype == np.float32
    np.testing.assert_allclose(parts.predict(framed(X)), one.predict(X), atol=1e-3)


def test_what_differs_in_the_noise_is_seen():
    X, y = entries()
    one = model(perturbation="input", max_iter=1).fit(X, y)
    other = model(perturbation="input", max_iter=1, random_state=4)
    other.fit(*in_partitions(X, y))
    assert np.abs(other.predict(framed(X)) - one.predict(X)).max() > 0.05


@pytest.mark.parametrize(
    ("kind", "domain"), [*zip(KINDS, ("levels", "value_bounds"), strict=True)]
)
def test_values_that_parties_have_randomised(kind, domain):
    X, y = entries()
    bounds = None if domain == "levels" else (0, 6)
    levels = RATINGS.levels if domain == "levels" else None
    one = model(kind, levels=levels, value_bounds=bounds, max_iter=2)
    users = [X[:, 0] % 3 == k for k in range(3)]
    places = np.concatenate([X[own] for own in users])
    noisy = np.concatenate(
        [one.client(k).privatize(y[own]) for k, own in enumerate(users)]
    )
    with drawing() as streams:
        parts = clone(one).fit_randomized(*in_partitions(places, noisy))
        one.fit_randomized(places, noisy)
    assert not streams
    assert np.std(one.predict(X)) > 0.05
    np.testing.assert_allclose(parts.predict(framed(X)), one.predict(X), atol=1e-6)
    assert parts.privacy_guarantee_ == one.privacy_guarantee_
    assert "clients" in str(privacy_of(parts))
    if levels is not None:
        with pytest.raises(ValueError, match="not in the table"):
            parts.fit_randomized(*in_partitions(X, y))


def test_a_chunk_is_made_of_the_partitions_that_have_its_rows():
    X, y = by_user(*entries())
    cuts = np.searchsorted(X[:, 0], [0, 40, 41, 100, 120]).tolist()
    estimator = model(perturbation="input", max_iter=1, n_pattern_components=0)
    results = Results()
    with results:
        parts = clone(estimator).fit(*in_partitions(X, y, cuts))
    pieces = [
        found for key, found in results.found
        if key.startswith("getitem-") and isinstance(found, tuple) and len(found) == 3
    ]  # fmt: skip
    joined = [found for key, found in results.found if key.startswith("_joined")]
    # Not four times four.
    assert len(joined) == 4
    assert len(pieces) < 8
    assert sum(len(where) for where, *_ in joined) == len(y)
    one = clone(estimator).fit(X, y)
    np.testing.assert_allclose(parts.predict(framed(X)), one.predict(X), atol=1e-6)


def test_arrays_of_dask_too():
    X, y = entries()
    lazy = dask.array.from_array(X, chunks=(1500, 1))
    estimator = model(perturbation="input", max_iter=2)
    one = clone(estimator).fit(X, y)
    parts = clone(estimator).fit(lazy, dask.array.from_array(y, chunks=1500))
    np.testing.assert_allclose(parts.predict(X), one.predict(X), atol=1e-6)


@pytest.mark.slow
def test_noise_does_not_depend_on_what_is_randomised_together():
    """Of more values than a stream serves, in partitions that cut across them."""
    rng, n = np.random.default_rng(0), 150_000
    X = np.column_stack([rng.integers(0, size, n) for size in (300, 40)])
    y = rng.uniform(1, 3, n)
    estimator = model(
        rank=0, levels=None, value_bounds=(1, 3), perturbation="input", max_iter=1
    )
    one = clone(estimator).fit(X, y)
    cuts = [0, 5, 65_536, 65_536, 70_000, 140_000, n]
    parts = estimator.fit(*in_partitions(X, y, cuts))
    for found, expected in zip(parts.factors_, one.factors_, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


class Results(dask.callbacks.Callback):
    """All that tasks return, and what is seen of the tasks."""

    def __init__(self):
        self.found, self.shown = [], []

    def _start_state(self, graph, _):
        for key, task in dict(graph).items():
            self.shown += [str(key), repr(task), str(task)]

    def _posttask(self, key, result, *_):
        self.found.append((str(key), result))


# Also what is picked out of results of ours; Dask picks columns by other names.
OURS = (*vars(seams.completion_dask), "getitem-")


def leaving(planted=2.718281828, **params):
    """Names of tasks that return a planted value, and what is seen of all tasks."""
    X, y = entries()
    y[::7] = planted
    results, secrets = Results(), Secrets().plant("value", planted)
    options = {"levels": None, "value_bounds": (0, 6), "max_iter": 1}
    with results:
        model(**options, **params).fit(*in_partitions(X, y, (0, 1500, 4000)))
    found = [key for key, one in results.found if secrets.hunt(one)]
    # Reading a partition returns them, or the search would find nothing.
    assert found
    ours = tuple(f"{start}{name}" for name in OURS for start in ("", "('"))
    return [key for key in found if key.startswith(ours)], results.shown


@pytest.mark.parametrize(
    "perturbation",
    ["input", "statistics", pytest.param("sums", marks=pytest.mark.slow)],
)
def test_raw_values_never_leave_their_partition(perturbation, keys):
    """And no text that Dask shows of a task has the key of the noise."""
    found, shown = leaving(perturbation=perturbation)
    assert not found
    assert keys
    assert shown
    for key in keys:
        assert not [text for text in shown if key.hex() in text or repr(key) in text]


@pytest.mark.slow
def test_values_without_noise_are_found_out():
    """The search of the test above, where values are left as they are."""
    assert leaving(perturbation="input", epsilon=float("inf"))[0]


def check_one_release_is_recorded(estimator, lazy, mode):
    """Of two fits at epsilon 4, a budget of 5 admits one."""
    with PrivacyBudget(5.0, delta=1e-6) as budget:
        first = estimator.fit(*lazy).factors_[mode]
        with pytest.raises(BudgetExceededError):
            estimator.fit(*lazy)
    assert budget.spent.epsilon == pytest.approx(4.0, abs=1e-3)
    # The noise of each fit is its own.
    assert not np.allclose(estimator.fit(*lazy).factors_[mode], first)


def test_one_release_is_recorded_and_none_if_it_is_refused():
    lazy = in_partitions(*entries(), (0, 1500, 4000))
    estimator = model(
        perturbation="input", max_iter=1, random_state=None, n_pattern_components=0
    )
    check_one_release_is_recorded(estimator, lazy, mode=0)


def test_what_is_fitted_holds_no_entries_and_no_key():
    X, y = entries()
    fitted = model(perturbation="input", max_iter=2).fit(*in_partitions(X, y))
    # Three numbers a row and their covariances; the entries have 96,000 bytes.
    assert len(pickle.dumps(fitted)) < 60_000
    assert not any(map(dask.is_dask_collection, vars(fitted).values()))
    with pytest.raises(ValueError, match="Pass exclude_observed=False"):
        fitted.recommend(0)
    assert len(set(fitted.recommend(0, 3, exclude_observed=False))) == 3
    assert not hasattr(fitted, "partial_fit")


@pytest.mark.parametrize("perturbation", ["input", "sums"])
def test_a_scale_that_is_not_declared_is_found_in_all_partitions_together(perturbation):
    X, y = entries()
    one, parts = both(model(perturbation=perturbation, levels=None, max_iter=2), X, y)
    assert parts.privacy_guarantee_ == one.privacy_guarantee_
    assert parts.privacy_guarantee_.epsilon == 4.0
    assert parts.value_bounds_ == one.value_bounds_
    np.testing.assert_array_equal(parts.levels_, one.levels_)
    np.testing.assert_allclose(parts.predict(framed(X)), one.predict(X), atol=1e-6)


REFUSED = {
    "NaN": ({}, {"value": np.nan}, "Some values in y are NaN"),
    "outside": ({"shape": (120, 50)}, {}, "outside the tensor"),
    "negative": ({}, {"place": [-3, 1]}, "coordinates start at 0"),
    "gradient": ({"perturbation": "gradient"}, {}, "not supported for Dask input"),
    "output": ({"perturbation": "output"}, {}, "not supported for Dask input"),
    "no features": (
        {"perturbation": "statistics", "n_pattern_components": 0}, {},
        "needs features",
    ),
    "smooth users": (
        {"perturbation": "input", "smooth_modes": [0]}, {}, "must not contain mode 0",
    ),
    "rank": ({"rank": 61}, {}, "is too large"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_errors_come_before_anything_is_drawn(name):
    options, new, message = REFUSED[name]
    check_refused(model().set_params(**options), entries(), message, **new)


def test_collections_that_do_not_belong_together():
    X, _ = in_partitions(*entries())
    arrays = [dask.array.from_array(part, chunks=1500) for part in entries()]
    for data, message in (
        ((X,), "requires y"),
        ((X, entries()[1]), "y must be one too"),
        ((arrays[0], arrays[1].rechunk(-1)), "has 3 partitions and y has 1"),
        (
            (arrays[0], arrays[1].rechunk(((1400, 1600, 1000),))),
            "must have the same length",
        ),
        (in_partitions(*entries(), cuts=(0, 0, 0)), "nothing to fit"),
    ):
        with refused(message):
            model().fit(*data)


def unknown(data, n=2):
    """A Dask collection of unknown divisions."""
    return lazy_frame(data, np.linspace(0, len(data), n + 1).astype(int))


OTHER_FRAMES = {
    "another index": lambda y: from_pandas(y.set_axis(y.index + 5)),
    "more values": lambda y: from_pandas(pd.concat([y, y], ignore_index=True)),
    "fewer values": lambda y: from_pandas(y[:-1]),
    "unknown divisions": unknown,
    "other partitions, unknown divisions": lambda y: unknown(y, 3),
}


def from_pandas(data, n=2):
    return dask.dataframe.from_pandas(data, npartitions=n)


@pytest.mark.parametrize("name", OTHER_FRAMES)
def test_values_of_another_frame(name):
    """Dask leaves out what does not fit together, or shuffles, each time anew."""
    X, y = entries()
    estimator = model(perturbation="input", n_pattern_components=0, max_iter=1)
    with refused("come from different frames"):
        estimator.fit(from_pandas(framed(X)), OTHER_FRAMES[name](pd.Series(y)))
    assert not hasattr(estimator, "n_iter_")


@pytest.mark.parametrize("n", [2, 3])
def test_values_of_another_frame_with_the_same_index(n):
    X, y = entries()
    estimator = model(perturbation="input", n_pattern_components=0, max_iter=1)
    one = clone(estimator).fit(X, y)
    parts = estimator.fit(from_pandas(framed(X)), from_pandas(pd.Series(y), n))
    np.testing.assert_allclose(parts.predict(framed(X)), one.predict(X), atol=1e-6)
    y[3] = np.nan
    with refused("Some values in y are NaN"):
        estimator.fit(from_pandas(framed(X)), from_pandas(pd.Series(y), n))


@pytest.mark.parametrize("text", [object, "U3"])
def test_coordinates_that_are_text_are_as_in_memory(text):
    """Numbers in frames of text are read; arrays of text are refused."""
    X, y = entries()
    estimator = model(perturbation="input", n_pattern_components=0, max_iter=1)
    one = clone(estimator).fit(X, y)
    if text is object:
        frame = framed(X.astype(str)).assign(value=y)
        lazy = from_pandas(frame)
        if pd.Series(["1"]).dtype == object:
            # Dask stores the text of pandas 2 in a type that scikit-learn leaves alone.
            with refused("must be integers"):
                estimator.fit(lazy[NAMES[:2]], lazy["value"])
            return
        estimator.fit(lazy[NAMES[:2]], lazy["value"])
        np.testing.assert_allclose(
            estimator.predict(framed(X)), one.predict(X), atol=1e-6
        )
        in_memory = clone(estimator).fit(frame[NAMES[:2]], y)
        np.testing.assert_array_equal(in_memory.predict(framed(X)), one.predict(X))
        return
    for as_given in (np.asarray, lambda a: dask.array.from_array(a, chunks=1500)):
        with refused("numeric"):
            clone(estimator).fit(*map(as_given, (X.astype(text), y)))


CHANGES = {
    "fewer": lambda frame: frame[:-1],
    "in another order": lambda frame: frame[::-1],
    "another value": lambda frame: frame.assign(value=frame["value"].clip(upper=4)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("perturbation", ["input", "sums"])
def test_a_source_that_changes_is_not_given_the_same_noise_again(
    change, perturbation, tmp_path
):
    lazy = changing_in_partitions(*entries(), CHANGES[change], tmp_path)
    with pytest.raises(RuntimeError, match="no longer holds the entries"):
        model(perturbation=perturbation, n_pattern_components=0).fit(*lazy)


@pytest.mark.slow
def test_processes_find_the_same(client):
    """By statistics; the test that kills workers has randomised values."""
    X, y = entries()
    estimator = model(perturbation="statistics", max_iter=2, n_pattern_components=1)
    one, parts = clone(estimator).fit(X, y), clone(estimator)
    with client.as_current(), dask.config.set(scheduler="distributed"):
        parts.fit(*in_partitions(X, y))
    np.testing.assert_allclose(parts.predict(framed(X)), one.predict(X), atol=1e-6)


@pytest.mark.slow
@needs_callbacks
def test_workers_that_are_killed_are_survived(client, tmp_path):
    """One while it randomises its values, one in the midst of the sweeps."""
    X, y = entries()

    def read(begin, end):
        marker = Path(tmp_path, f"{begin}")
        # The second reading is that of the values that are randomised.
        marker.write_text(marker.read_text() + "." if marker.exists() else ".")
        if begin == 1000 and marker.read_text() == "..":
            os._exit(1)
        return framed(X[begin:end]).assign(value=y[begin:end])

    lazy = read_in_partitions(read, (0, 1000, 2500, 4000))
    estimator = model(perturbation="input", n_pattern_components=0, max_iter=5)
    one = clone(estimator).fit(X, y)
    killer = KillAWorker(client, sweeps={3})
    parts = clone(estimator).set_callbacks(killer)
    with client.as_current(), dask.config.set(scheduler="distributed"):
        parts.fit(*lazy)
    assert killer.n_killed == 1
    assert len(Path(tmp_path, "1000").read_text()) > 2
    np.testing.assert_allclose(parts.predict(framed(X)), one.predict(X), atol=1e-6)
