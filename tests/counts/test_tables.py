"""Tables, their sums and their standard errors."""

import itertools
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline

from sktensordp.completion import CoordinateEncoder
from sktensordp.counts import TensorCounts
from sktensordp.mechanisms import MatrixMechanism
from tests.support.seams import Reader

pytestmark = pytest.mark.filterwarnings(
    "ignore::sktensordp.exceptions.NoiseOnlyWarning"
)
SHAPE = (3, 6, 8)
RNG = np.random.default_rng(0)
ROWS = np.column_stack([RNG.integers(0, n, 3000) for n in SHAPE])
DENSE = np.zeros(SHAPE)
np.add.at(DENSE, tuple(ROWS.T), 1)


def truth(modes, dense=DENSE):
    others = tuple(i for i in range(dense.ndim) if i not in modes)
    order = np.argsort(np.argsort(modes))
    return dense.sum(axis=others).transpose(order) if len(modes) else dense.sum()


def tables_of(n_modes, most):
    return [
        B for k in range(most + 1) for B in itertools.combinations(range(n_modes), k)
    ]


# --- what is released -----------------------------------------------------------------


def test_without_noise_tables_are_counts():
    model = TensorCounts(3, epsilon=math.inf).fit(ROWS)
    assert model.shape_ == SHAPE
    for modes in [*tables_of(3, 3), (2, 0), (1, 2, 0)]:
        for nonnegative in (False, True):
            table, std = model.marginal(modes, return_std=True, nonnegative=nonnegative)
            np.testing.assert_allclose(table, truth(modes), atol=1e-6 * nonnegative)
            assert std == 0
    assert model.score(ROWS) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(
    ("margins", "params"),
    [
        (2, {}),
        (3, {"weights": [1, 2, 3, 4, 5, 6, 7, 8]}),
        ([(2, 0), (1,)], {}),
        (1, {"epsilon": 0.1}),
        (0, {}),
    ],
)
def test_standard_errors(margins, params):
    """Fails for 1e-5 of all seeds: z-scores of 150 fits, at 4.5 deviations."""
    model = TensorCounts(margins, shape=SHAPE, random_state=0, **params)
    follow = {}
    for _ in range(150):
        model.fit(ROWS)
        for modes in model._fitted.plan.workload.follow:
            table, std = model.marginal(modes, return_std=True)
            assert std == model.expected_std(modes)
            follow.setdefault(modes, []).append((table - truth(modes)) / std)
    for z in map(np.array, follow.values()):
        assert abs(z.mean(axis=0)).max() < 5.5 / math.sqrt(150)
        # Of one cell, 150 squares; of the others, no less.
        assert abs(np.square(z).mean() - 1) < 4.5 * math.sqrt(2 / 150)


def test_coverage_of_many_cells():
    """Fails for 1e-4 of all seeds: errors of cells are nearly independent."""
    shape = (40, 50, 30)
    rows = np.random.default_rng(0).integers(0, shape, (20_000, 3))
    model = TensorCounts(shape=shape, random_state=0).fit(rows)
    table = model.table((0, 1))
    true = np.zeros(shape[:2])
    np.add.at(true, tuple(rows[:, :2].T), 1)
    margin = 1.95996398454 * table["std"]
    inside = np.abs(table["count"] - true.ravel()) <= margin
    assert abs(inside.mean() - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 2000)
    np.testing.assert_allclose(
        table["low"], np.maximum(table["count"] - margin, 0), atol=1e-6
    )


@pytest.mark.parametrize(
    "ranges",
    [{}, {2: slice(3, 7)}, {1: [0, 1, 2], 2: [1, 5]}, {0: 0, 1: range(6)}, {2: []}],
)
def test_totals(ranges):
    """Fails for 1e-5 of all seeds: 150 z-scores."""
    model, z = TensorCounts(shape=SHAPE, random_state=0), []
    own = sorted(ranges)
    chosen = [np.atleast_1d(np.arange(SHAPE[i])[ranges[i]]) for i in own]
    for _ in range(150):
        total, std = model.fit(ROWS).total(ranges, return_std=True)
        true = truth(tuple(own))
        true = true[np.ix_(*chosen)].sum() if own else true
        assert total == model.total(ranges)
        z.append((total - true) / std if std else total - true)
    if ranges == {2: []}:
        assert std == 0 == total
        return
    assert abs(np.mean(z)) < 4.5 / math.sqrt(150)
    assert abs(np.mean(np.square(z)) - 1) < 4.5 * math.sqrt(2 / 150)
    # The root of the number of cells overstates it.
    naive = math.sqrt(math.prod(map(len, chosen))) * model.expected_std(own)
    assert std <= naive * (1 + 1e-9)


def optimum(shape, tables, weights, mu):
    """Least weighted variance of tables, in real numbers, by another route."""
    costs = {}
    for modes, weight in zip(tables, weights, strict=True):
        for k in range(len(modes) + 1):
            for own in itertools.combinations(modes, k):
                rest = math.prod(shape[j] for j in modes if j not in own)
                share = math.prod(1 - 1 / shape[i] for i in own)
                costs[own] = costs.get(own, 0) + weight * share / rest**2
    share = {own: math.prod(1 - 1 / shape[i] for i in own) for own in costs}
    return sum(math.sqrt(costs[own] * share[own]) for own in costs) ** 2 / mu**2


@pytest.mark.parametrize("shape", [(6, 8, 10), (2, 2, 2, 2), (30, 20), (1000, 24, 12)])
def test_weighted_variance_is_near_the_least(shape):
    tables = tables_of(len(shape), 2)
    weights = [math.sqrt(math.prod(shape[i] for i in modes)) for modes in tables]
    model = TensorCounts(shape=shape, epsilon=1.0)
    plan = model.fit([])._fitted.plan
    mu = 1 / math.sqrt(plan.noise.noise_variance)
    found = sum(
        weight * model.expected_std(modes) ** 2
        for modes, weight in zip(tables, weights, strict=True)
    )
    assert found <= 1.01 * optimum(shape, tables, weights, mu)


@pytest.mark.thorough
def test_no_worse_than_the_matrix_mechanism():
    """Each query counts the same there: a weight is the number of cells."""
    shape = (6, 8, 10)
    tables = tables_of(3, 2)
    weights = [math.prod(shape[i] for i in modes) for modes in tables]
    blocks = []
    for modes in tables:
        parts = [
            np.eye(n) if i in modes else np.ones((1, n)) for i, n in enumerate(shape)
        ]
        blocks.append(np.kron(np.kron(parts[0], parts[1]), parts[2]))
    workload = np.vstack(blocks)
    matrix = MatrixMechanism(delta=1e-6, workload=workload).fit(np.zeros((1, 480)))
    model = TensorCounts(shape=shape, weights=weights)
    found = sum(
        weight * model.expected_std(modes) ** 2
        for modes, weight in zip(tables, weights, strict=True)
    )
    assert found <= matrix.expected_squared_error_


# --- people ---------------------------------------------------------------------------


def test_people_have_k_rows_at_random():
    """Fails for 1e-5 of all seeds: how often a row is chosen."""
    rows = [[9, 0], [9, 1], [9, 2], [7, 3], [9, 9], [-1, 0], [9, -1]]
    model = TensorCounts(
        1, epsilon=math.inf, shape=(4,), unit=0, max_records=2, random_state=0
    )
    tables = np.array([model.fit(rows[:4]).marginal(0) for _ in range(600)])
    assert np.all(tables.sum(axis=1) == 3)
    assert np.all(tables[:, 3] == 1)
    assert np.all(
        abs(tables[:, :3].mean(axis=0) - 2 / 3) < 4.5 * math.sqrt(2 / 9 / 600)
    )
    # Rows that do not count are left out before.
    noisy = TensorCounts(1, epsilon=100.0, shape=(4,), unit=0, max_records=2)
    assert noisy.fit(rows).total({}) == pytest.approx(3, abs=2)


def test_the_column_of_people_is_no_mode():
    rows = np.insert(ROWS, 1, np.arange(len(ROWS)), axis=1)
    model = TensorCounts(
        epsilon=math.inf, shape=SHAPE, unit=1, max_records=1, random_state=0
    ).fit(rows)
    assert model.n_features_in_ == 4
    np.testing.assert_array_equal(model.marginal((0, 1)), truth((0, 1)))
    assert model.privacy_guarantee_.unit == 1


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_parts_keep_the_rows_of_least_words(parts):
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.integers(0, 40, 500), rng.integers(0, 9, 500)])
    reader = Reader((9,), 0, 3, seed=bytes(16))
    split = [list(part.T) for part in np.array_split(rows, parts)]
    kept = [reader.kept(part, number) for number, part in enumerate(split)]
    merged = type(kept[0]).merged(kept, 3)
    whole = [
        Reader((9,), 0, 500, seed=bytes(16)).kept(p, n) for n, p in enumerate(split)
    ]
    for person in range(40):
        words = np.sort(np.concatenate([k.words[k.people == person] for k in whole]))
        assert np.array_equal(merged.words[merged.people == person], words[:3])
    assert len(np.unique(np.concatenate([k.words for k in whole]))) == 500


def test_batches_are_one_release():
    model = TensorCounts(shape=SHAPE, random_state=0)
    once = model.fit(ROWS).marginal((0, 2))
    again = TensorCounts(shape=SHAPE, random_state=0)
    again.fit_batches(iter(np.array_split(ROWS, 7)))
    np.testing.assert_array_equal(again.marginal((0, 2)), once)
    assert again.n_features_in_ == 3
    people = np.column_stack([np.arange(3000) // 10, ROWS])
    exact = TensorCounts(epsilon=math.inf, shape=SHAPE, unit=0, max_records=4)
    exact.fit_batches(np.array_split(people, 11))
    assert exact.total({}) == 1200
    with pytest.raises(ValueError, match="X has 2 columns"):
        model.fit_batches([ROWS[:, :2]])
    with pytest.raises(NotFittedError):
        model.marginal(())
    assert model.fit_batches([]).total({}) == pytest.approx(0, abs=200)


def test_many_rows_of_a_person_are_said_to_cost():
    model = TensorCounts(shape=SHAPE, unit=0, max_records=200)
    std = model.expected_std((1, 2))
    one = TensorCounts(shape=SHAPE, unit=0, max_records=1).expected_std((1, 2))
    assert std == pytest.approx(200 * one, rel=1e-4)
    with pytest.warns(UserWarning, match=f"200 times.*standard error of {std:,.0f}"):
        model.fit([])


# --- rows that do not count -----------------------------------------------------------

BAD = [
    ["x", 0, 0], [None, 0, 0], [float("nan"), 1, 1], [10**30, 0, 0], [0.5, 0, 0],
    [-1, 0, 0], [3, 0, 0], [1 + 0j, 0, 0], [float("inf"), 0, 0], [2**63, 1, 1],
    [pd.NA, 1, 1], [pd.Timestamp(0), 1, 1], [b"0", 1, 1], ["0", 1, 1], [2.0**63, 0, 0],
]  # fmt: skip


@pytest.mark.parametrize("k", [None, 1])
@pytest.mark.parametrize("bad", BAD, ids=lambda row: repr(row[0]))
def test_a_row_that_does_not_count_changes_nothing(bad, k, recwarn):
    """Same noise, same tables, and nothing is said."""
    who = {} if k is None else {"unit": 3, "max_records": k}
    model = TensorCounts(shape=SHAPE, random_state=0, **who)
    rows = [row[:3] for row in ROWS[:400].tolist()]
    if k is not None:
        rows = [[*row, person] for person, row in enumerate(rows)]
        bad = [*bad, 7]
    found = model.fit([*rows, bad]).marginal((0, 1))
    again = TensorCounts(shape=SHAPE, random_state=0, **who).fit(rows)
    np.testing.assert_array_equal(found, again.marginal((0, 1)))
    if k is not None:  # a missing person
        lost = [*rows, [0, 0, 0, bad[0]]]
        third = TensorCounts(shape=SHAPE, random_state=0, **who)
        counted = isinstance(bad[0], int) and 0 <= bad[0] < 2**63
        same = np.array_equal(third.fit(lost).marginal((0, 1)), found)
        assert same or counted
    assert not [one for one in recwarn if "NoiseOnly" not in str(one.category)]


@pytest.mark.parametrize(
    "X",
    [
        np.array([[0, 0, 0], [np.nan, 1, 1]]),
        np.array([[0, 0, 0], [2**63, 1, 1]], dtype=np.uint64),
        np.array([[0, 0, 0], [9, 1, 1]], dtype=np.int8),
        np.array([[0, 0, 0], [np.inf, 1, 1]], dtype=np.float16),
        np.array([[True, False, False]]),
        pd.DataFrame({"a": [0, None], "b": [0, 1], "c": [0, 1]}, dtype="Int64"),
        pd.DataFrame({"a": [0, 7], "b": [0, 1], "c": [0, 1]}),
    ],
    ids=lambda X: str(getattr(X, "dtype", "frame")),
)
def test_rows_of_all_types(X):
    model = TensorCounts(3, epsilon=100.0, shape=SHAPE).fit(X)
    assert model.total({}) == pytest.approx(1, abs=1.5)


def test_arrays_of_text_have_no_row_that_counts():
    model = TensorCounts(shape=SHAPE, epsilon=100.0)
    with pytest.warns(UserWarning, match="CoordinateEncoder"):
        model.fit(np.array([["a", "b", "c"]]))


def test_more_cells_than_rows():
    model = TensorCounts(shape=(100, 100), random_state=0)
    with pytest.warns(UserWarning, match=r"\(0, 1\) has 10,000 cells, more than"):
        model.fit(np.zeros((500, 2), int))


def test_no_rows():
    model = TensorCounts(shape=SHAPE)
    for empty in ([], np.zeros((0, 3)), pd.DataFrame(columns=["a", "b", "c"])):
        with pytest.warns(UserWarning, match="released total is within its noise of 0"):
            model.fit(empty)
        assert model.n_features_in_ == 3


# --- refusals -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"shape": None}, "shape is not declared"),
        ({"shape": (3, 0)}, "shape must hold positive integers"),
        ({"weights": [1, 2]}, "weights must have one number for each of the 7 tables"),
        ({"weights": [1, 2, 3, 4, 5, 6, 0]}, "weights must be positive"),
        ({"weights": [1, 2, 3, 4, 5, 6, -1]}, "weights must be positive"),
        ({"weights": [1, 2, 3, 4, 5, 6, math.nan]}, "weights must be positive"),
        ({"unit": 0}, "unit needs max_records"),
        ({"max_records": 1}, "max_records needs unit"),
        ({"unit": 4, "max_records": 1}, "unit = 4"),
        ({"margins": [(0, 3)]}, r"margins\[0\] must be .* from 0 to 2, as in"),
        ({"margins": [(0, 0)]}, r"margins\[0\] has a mode twice"),
        ({"margins": [(0, 1), (1, 0)]}, "none twice"),
        ({"margins": [0]}, r"margins=\[\(0, 1\)\] for one table"),
        ({"margins": []}, "at least one table"),
        ({"margins": -1}, "margins"),
        ({"max_records": 0, "unit": 0}, "max_records"),
        ({"margins": 3, "shape": (2**12,) * 3}, "cells in all"),
        ({"epsilon": 1e-9}, "epsilon"),
    ],
)
def test_parameters_are_refused_by_name(params, message):
    model = TensorCounts(**{"shape": SHAPE, **params})
    for call in (lambda: model.fit(ROWS), lambda: model.expected_std(())):
        with pytest.raises(ValueError, match=message):
            call()


def test_tables_outside_of_the_workload_are_refused():
    model = TensorCounts([(0, 1)], shape=SHAPE)
    for modes in ((0, 2), (2,), (0, 1, 2), (5,), (0, 0)):
        with pytest.raises(ValueError, match="does not follow from margins"):
            model.expected_std(modes)
        with pytest.raises(ValueError, match="does not follow from margins"):
            model.fit(ROWS).marginal(modes)
    assert model.tables_ == [(0, 1)]
    assert model.marginal((1,)).shape == (6,)
    for ranges in ({0: 3}, {0: [0, 0]}, {0: -1}, {0: [True]}, {0: "a"}, {0: 0.5}):
        with pytest.raises(ValueError, match=r"ranges\[0\]"):
            model.total(ranges)


def test_without_noise_rows_outside_are_refused():
    model = TensorCounts(epsilon=math.inf, shape=SHAPE)
    for row in ([3, 0, 0], [-1, 0, 0], [0.5, 0, 0]):
        with pytest.raises(ValueError, match="oordinates"):
            model.fit([row, [0, 0, 0]])
    with pytest.raises(ValueError, match="minimum of 1"):
        model.fit(np.zeros((0, 3)))


# --- tables that are read -------------------------------------------------------------


def test_a_table_in_long_form():
    names = ["place", "day", "hour"]
    frame = pd.DataFrame(ROWS, columns=names)
    model = TensorCounts(shape=SHAPE, random_state=0).fit(frame)
    places = [f"p{i}" for i in range(3)]
    categories = [places, range(6), range(8)]
    table = model.table((2, 0), below=120, categories=categories, level=0.9)
    expected = ["hour", "place", "count", "std", "low", "high", "is_small"]
    assert list(table.columns) == expected
    assert len(table) == 24
    assert list(table["place"][:3]) == places
    counts, std = model.marginal((2, 0), return_std=True)
    np.testing.assert_array_equal(table["count"], counts.ravel())
    np.testing.assert_array_equal(table["is_small"], counts.ravel() < 120)
    assert set(table["std"]) == {std}
    np.testing.assert_allclose(table["high"] - table["count"], 1.6448536 * std)
    assert "is_small" not in model.table((0,))
    assert model.table((0,), names=["a", "b", "c"]).columns[0] == "a"
    assert len(model.table(())) == 1
    whole = model.table((0, 2), nonnegative=True)
    np.testing.assert_array_equal(
        whole["count"], model.marginal((0, 2), nonnegative=True).ravel()
    )
    assert table.to_csv(index=False).startswith("hour,place,count")
    for wrong in ({"level": 1}, {"names": ["a"]}, {"categories": [places]}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            model.table((0,), **wrong)


def test_labels_from_the_encoder():
    places, days = ["north", "south"], ["mon", "tue", "wed"]
    encoder = CoordinateEncoder(categories=[places, days])
    X = pd.DataFrame({"place": ["south", "south"], "day": ["wed", "mon"]})
    counts = TensorCounts(epsilon=50.0, shape=encoder.declared_shape)
    pipeline = make_pipeline(encoder, counts).fit(X)
    fitted = pipeline[0]
    table = counts.table((0, 1), categories=fitted)
    assert list(table.columns[:2]) == ["place", "day"]
    assert list(table["day"][:3]) == days
    likely = table[table["count"] > 0.5]
    assert set(likely["place"]) == {"south"}
    people = CoordinateEncoder(categories=[range(9), places, days])
    Y = X.assign(person=[3, 4])[["person", "place", "day"]]
    by_person = TensorCounts(
        epsilon=50.0, shape=people.declared_shape[1:], unit=0, max_records=1
    )
    make_pipeline(people, by_person).fit(Y)
    assert list(by_person.table((1,), categories=people)["day"]) == days


@pytest.mark.parametrize("margins", [1, 2, 3])
def test_nonnegative_tables_agree(margins):
    shape = (4, 5, 6)
    rows = np.random.default_rng(1).geometric(0.5, (500, 3)) - 1
    rows = rows[(rows < shape).all(axis=1)]
    model = TensorCounts(margins, shape=shape, random_state=3).fit(rows)
    total = model.marginal((), nonnegative=True)
    for modes in tables_of(3, min(margins, 2)):
        table = model.marginal(modes, nonnegative=True)
        assert table.min() >= 0
        for k in range(len(modes)):
            fewer = model.marginal(modes[:k] + modes[k + 1 :], nonnegative=True)
            assert np.abs(table.sum(axis=k) - fewer).sum() <= 1e-4 * total
    if margins < 3:
        assert model.score(rows) > 0.8


def test_margins_that_no_table_has():
    """Three two-way tables of which no table of three modes is the sum: a gap."""
    rows = [[0, 0, 1]] * 40 + [[1, 1, 1]] * 40 + [[0, 1, 0]] * 3
    gaps = 0
    for seed in range(20):
        model = TensorCounts(3, shape=(2, 2, 2), random_state=seed, epsilon=0.5).fit(
            rows
        )
        _, gap = model._fitted.nonnegative((0, 1, 2))
        if gap > 1e-4:
            gaps += 1
            with pytest.warns(
                ConvergenceWarning, match="differ from the tables of fewer"
            ):
                model.marginal((0, 1, 2), nonnegative=True)
    assert gaps


def test_score_is_of_raw_rows():
    model = TensorCounts(shape=SHAPE, random_state=0).fit(ROWS)
    apart = []
    for modes in tables_of(3, 2)[1:]:
        table = model.marginal(modes, nonnegative=True)
        apart.append(np.abs(table / table.sum() - truth(modes) / 3000).sum() / 2)
    assert model.score(ROWS) == pytest.approx(1 - np.mean(apart))
    with pytest.raises(ValueError, match="no row within the shape"):
        model.score([[9, 9, 9]])
    assert any("core" in one for one in model.__privacy_unprotected__())


def test_pickles_and_copies():
    model = TensorCounts(shape=SHAPE, random_state=0).fit(ROWS)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.marginal((0,)), model.marginal((0,)))
    assert again.replace_one_guarantee_ == model.replace_one_guarantee_
    assert model.replace_one_guarantee_.relation == "replace-one"
    ratio = model.replace_one_guarantee_.epsilon / model.privacy_guarantee_.epsilon
    assert 1 < ratio < 2
