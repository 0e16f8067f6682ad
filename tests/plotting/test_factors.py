"""The picture of factors shows the columns of the fitted model, by name."""

import math
import pickle

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from sktensordp.completion import CoordinateEncoder, CPCompletion, TuckerCompletion
from sktensordp.plotting import FactorsDisplay
from tests.support.seams import column_names, components_by_name

SHAPE = (30, 26, 6)
COLUMNS = {f"column {k}" for k in range(9)}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.integers(SHAPE, size=(1500, 3))
    users, items = rng.normal(size=30), rng.normal(size=26)
    season = 1 + np.sin(np.arange(6))
    y = users[X[:, 0]] * items[X[:, 1]] * season[X[:, 2]] + 0.3 * items[X[:, 1]]
    return X, np.clip(y, -3, 3)


def completion(kind=CPCompletion, rank=2, **params):
    given = {"value_bounds": (-3, 3), "shape": SHAPE, "random_state": 0, **params}
    return kind(rank, max_iter=4, **{"epsilon": 20.0, **given})


def predicted(model, where):
    """What the columns by name make of coordinates."""
    names = column_names(model)
    assert [len(own) for own in names] == [f.shape[1] for f in model.factors_]
    rows = [f[r] for f, r in zip(model.factors_, where.T, strict=True)]
    value = np.full(len(where), model.offset_)
    for name, columns in components_by_name(rows, names).items():
        columns = [column for column in columns if column is not None]
        if name == "bias":
            value += sum(columns)
        elif not name.startswith("column"):
            value += math.prod(columns)
    if "column 0" in names[0]:
        places = [[k for k, n in enumerate(own) if n in COLUMNS] for own in names]
        core = model.decomposition_.core[np.ix_(*places)]
        own = [r[:, p] for r, p in zip(rows, places, strict=True)]
        value += np.einsum("abc,na,nb,nc->n", core, *own)
    return value


@pytest.mark.parametrize(
    "params",
    [
        {"perturbation": "input"},
        {"perturbation": "input", "biases": False},
        {"perturbation": "input", "n_pattern_components": 0},
        {"perturbation": "sums"},
        {"perturbation": "statistics"},
        {"perturbation": "gradient", "rank": 1},
        {"perturbation": "input", "side_information": {1: np.eye(26)[:, :2]}},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [CPCompletion, TuckerCompletion])
def test_the_columns_by_name_make_the_predictions(data, kind, params):
    model = completion(kind, **params).fit(*data)
    where = data[0][:200]
    value = np.clip(predicted(model, where), -3, 3)
    np.testing.assert_allclose(value, model.predict(where), atol=1e-9)


def heights(axes):
    return [bar.get_height() for bar in axes.patches]


def curve(axes):
    """The line that is not the zero."""
    return next(line for line in axes.lines if len(line.get_xdata()) > 2)


def test_from_estimator_draws_a_row_a_mode(data):
    model = completion(perturbation="input", smooth_modes=[-1]).fit(*data)
    display = FactorsDisplay.from_estimator(model)
    names = list(display.components)
    assert names[0] == "bias"
    assert sorted(names[1:]) == ["term 0", "term 1"]
    assert display.axes_.shape == (3, 3)
    titles = [axes.get_title() for axes in display.axes_[0]]
    assert [title.split("\n")[0] for title in titles] == names
    assert titles[0] == "bias\n(added to the prediction)"
    assert titles[1].endswith("(product over the modes)")
    labels = [row[0].get_ylabel() for row in display.axes_]
    assert labels == ["mode 0", "mode 1", "mode 2"]
    own = column_names(model)
    for name, column in zip(names, display.axes_.T, strict=True):
        factors = [
            f[:, o.index(name)] for f, o in zip(model.factors_, own, strict=True)
        ]
        # Thirty and twenty-six indices are sorted, time is in its order.
        for mode in (0, 1):
            drawn = curve(column[mode]).get_ydata()
            np.testing.assert_array_equal(drawn, np.sort(factors[mode]))
        np.testing.assert_array_equal(curve(column[2]).get_ydata(), factors[2])


@pytest.mark.thorough
def test_terms_come_by_their_strength(data):
    model = completion(rank=6, perturbation="input").fit(*data)
    display = FactorsDisplay.from_estimator(model)
    names = list(display.components)
    assert len(names) == 1 + 4
    strength = [
        math.prod(map(np.linalg.norm, columns))
        for name, columns in components_by_name(
            model.factors_, column_names(model)
        ).items()
        if name.startswith("term")
    ]
    wanted = sorted(range(6), key=lambda k: -strength[k])[:4]
    assert names[1:] == [f"term {k}" for k in wanted]


def test_small_modes_are_bars_with_their_names(data):
    model = completion(rank=1, perturbation="input").fit(*data)
    months = ["January", "March", "May", "July", "September", "November"]
    display = FactorsDisplay.from_estimator(
        model, modes=[2], components=["term 0"], labels={2: months}
    )
    ((axes,),) = display.axes_
    column = display.components["term 0"][2]
    assert heights(axes) == column.tolist()
    assert [t.get_text() for t in axes.get_xticklabels()] == months


def test_the_ends_of_large_modes_are_named():
    values = np.random.default_rng(0).normal(size=10_000)
    names = [f"item {k}" for k in range(10_000)]
    display = FactorsDisplay({"one": [values]}, labels={0: names}, n_labels=2).plot()
    ((axes,),) = display.axes_
    high, low = (text.get_text().split("\n") for text in axes.texts)
    order = np.argsort(values)
    assert high == ["highest:", names[order[-1]], names[order[-2]]]
    assert low == ["lowest:", names[order[1]], names[order[0]]]
    assert axes.get_xlabel() == "10,000 indices of mode 0, sorted"
    unnamed = FactorsDisplay({"one": [values]}).plot()
    assert unnamed.axes_[0, 0].texts[0].get_text().split("\n")[1] == str(order[-1])


def test_long_orders_have_few_ticks():
    days = [
        str(np.datetime64("2024-01-01") + np.timedelta64(k, "D")) for k in range(366)
    ]
    display = FactorsDisplay(
        {"one": [np.arange(366)]}, labels={0: days}, ordered=[0]
    ).plot()
    shown = [t.get_text() for t in display.axes_[0, 0].get_xticklabels()]
    assert len(shown) <= 12
    assert shown[0] == days[0]
    assert set(shown) <= set(days)


@pytest.mark.thorough
def test_a_protected_mode_is_not_drawn(data):
    model = completion(unit=0, epsilon=50.0, perturbation="statistics").fit(*data)
    display = FactorsDisplay.from_estimator(model)
    assert display.private == (0,)
    (text,) = display.axes_[0, 0].texts
    wanted = "mode 0: not released, because each of its indices is protected"
    assert text.get_text() == wanted
    assert not any(axes.axison for axes in display.axes_[0])
    assert not any(axes.lines or axes.patches for axes in display.axes_[0])
    assert all(columns[0] is None for columns in display.components.values())
    below = display.axes_[1, 0]
    assert below.get_ylabel() == "mode 1"
    drawn = curve(below).get_ydata()
    np.testing.assert_array_equal(drawn, np.sort(display.components["bias"][1]))
    with pytest.raises(ValueError, match="mode 0 are not released"):
        FactorsDisplay.from_estimator(model, modes=[1, 0])
    others = FactorsDisplay.from_estimator(model, modes=iter([1, 2]))
    assert others.modes == [1, 2]
    # What was stored has lost the rows of units, and is drawn as before.
    again = FactorsDisplay.from_estimator(pickle.loads(pickle.dumps(model)))
    np.testing.assert_array_equal(
        again.components["bias"][1], display.components["bias"][1]
    )


@pytest.mark.thorough
def test_a_column_that_a_mode_has_not_is_left_out(data):
    model = completion(TuckerCompletion, (3, 2, 2), perturbation="input").fit(*data)
    display = FactorsDisplay.from_estimator(model)
    assert list(display.components) == ["bias", "column 0", "column 1", "column 2"]
    assert [axes.axison for axes in display.axes_[:, 3]] == [True, False, False]


@pytest.mark.thorough
def test_axes_that_are_given_are_used(data):
    model = completion(rank=1, perturbation="input").fit(*data)
    figure, axes = plt.subplots(3, 2)
    display = FactorsDisplay.from_estimator(model, ax=axes)
    assert display.figure_ is figure
    assert display.axes_.tolist() == axes.tolist()
    assert display.axes_[2, 1].patches
    figure, (left, right) = plt.subplots(1, 2)
    display = FactorsDisplay.from_estimator(model, ax=right)
    assert display.axes_.shape == (3, 2)
    assert display.figure_ is figure
    assert left.axison
    assert not right.axison
    figure.canvas.draw()
    room = right.get_position()
    for axes in display.axes_.flat:
        place = axes.get_position()
        assert room.x0 - 1e-9 <= place.x0 < place.x1 <= room.x1 + 1e-9
    single = FactorsDisplay({"one": [[1, 2]]}).plot(ax=left)
    assert single.axes_[0, 0] is left


def test_names_of_the_data_frame_name_the_modes(data):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(data[0], columns=["user", "film", "season"])
    model = completion(rank=1, perturbation="input").fit(frame, data[1])
    display = FactorsDisplay.from_estimator(model)
    assert [row[0].get_ylabel() for row in display.axes_] == list(frame.columns)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"modes": [3]}, "modes must hold numbers of modes, from -3 to 2"),
        ({"modes": []}, "at least one mode"),
        ({"ordered": [-4]}, "ordered must hold numbers of modes"),
        ({"labels": {5: ["a"]}}, "labels must hold numbers of modes"),
        ({"labels": {2: ["a"]}}, "one name for each of its 6 indices, got 1"),
        ({"components": ["term 7"]}, "no component 'term 7'.*'term 0'"),
        ({"components": []}, "at least one component"),
    ],
)
def test_wrong_input_is_refused(data, options, message):
    model = completion(rank=1, perturbation="input").fit(*data)
    with pytest.raises(ValueError, match=message):
        FactorsDisplay.from_estimator(model, **options)
    assert plt.get_fignums() == []


def test_wrong_axes_are_refused():
    display = FactorsDisplay({"one": [[1, 2], [3]]})
    with pytest.raises(ValueError, match=r"in shape \(2, 1\), got 3 Axes"):
        display.plot(ax=plt.subplots(3)[1])
    with pytest.raises(ValueError, match="part of a grid"):
        display.plot(ax=plt.figure().add_axes((0, 0, 1, 1)))
    with pytest.raises(ValueError, match="one column per mode"):
        FactorsDisplay({"one": [[1]], "two": [[1], [2]]})


def test_what_has_no_factors_is_refused(data):
    with pytest.raises(NotFittedError):
        FactorsDisplay.from_estimator(completion())
    with pytest.raises(TypeError, match="Ridge has no factors"):
        FactorsDisplay.from_estimator(Ridge().fit(*data))
    pipeline = make_pipeline(CoordinateEncoder(), completion(shape=None, rank=1))
    with pytest.raises(TypeError, match="its completion step"):
        FactorsDisplay.from_estimator(pipeline.fit(*data))
    assert FactorsDisplay.from_estimator(pipeline[-1])


def test_a_protected_mode_that_is_not_the_first(data):
    model = completion(
        TuckerCompletion, unit=1, epsilon=50.0, perturbation="statistics"
    )
    display = FactorsDisplay.from_estimator(model.fit(*data))
    sizes = [None if c is None else len(c) for c in display.components["bias"]]
    assert sizes == [30, None, 6]
    own = column_names(model)
    np.testing.assert_array_equal(
        model.factors_[2][:, own[2].index("bias")], display.components["bias"][2]
    )
