"""What errors, warnings, logs and callbacks say of private data: nothing."""

import logging
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from every_estimator import CASES, EVERY
from leak_hunt import in_exception
from planted_data import (
    LARGEST,
    N_USERS,
    RARE,
    USER,
    data_of,
    fits_of,
    fresh,
    private_data,
    secrets_of,
    used,
)

from sktensordp.completion import CPCompletion


class Unreadable:
    """What no array can be made of, though it shows its number."""

    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f"Unreadable({self.value})"


def changed(array, value, dtype=None):
    """The array with one item replaced, next to those that are planted."""
    array = np.array(array, dtype=dtype)
    array.flat[0] = value
    return array


def spoiled(array):
    """Yield an array spoiled in every way, by name."""
    array = np.asarray(array)
    objects = array.astype(object)
    yield "NaN", changed(array, np.nan, float)
    yield "infinite", changed(array, -np.inf, float)
    yield "huge", changed(array, 1e308, float)
    yield "fraction", changed(array, RARE, float)
    yield "negative", changed(array, -USER)
    yield "outside", changed(array, N_USERS + USER, float)
    yield "text", array.astype(str)
    yield "text and more", changed(objects, f"{RARE}, {USER} apples")
    yield "texts", np.full(array.shape, f"{RARE} x{USER}")
    yield "bytes", array.astype("S")
    yield "None", changed(objects, None)
    yield "dict", changed(objects, {"value": RARE})
    yield "large integer", changed(objects, 10**400 + USER)
    yield "decimal", changed(objects, Decimal("NaN"))
    yield "complex", array + RARE * 1j
    yield "date", changed(objects, np.datetime64("2020-09-11"))
    yield "dates", array.astype("datetime64[s]")
    yield "nothing", array[:0]
    yield "one row", array[0]
    yield "flat", array.ravel()
    yield "deeper", array[..., np.newaxis]
    yield "more columns", np.concatenate([array, array], axis=-1)
    yield "scalar", array.flat[3]
    yield "ragged", [*array.tolist(), [RARE, [LARGEST, USER]]]
    yield "unreadable", Unreadable(f"{RARE} of {USER}")
    yield "of unreadable", changed(objects, Unreadable(f"{RARE} of {USER}"))
    yield "mapping", {"X": array.tolist()}
    yield "records", np.array([(USER, RARE)] * 3, dtype=[("user", int), ("y", float)])
    yield "masked", np.ma.masked_greater(array, RARE)
    if array.ndim == 2:
        yield "sparse", scipy.sparse.csr_array(array)
        frame = pd.DataFrame(array)
        yield "numbered columns", frame.rename(columns={0: "a"})
        yield "frame", frame.astype(object).replace({frame.iat[0, 0]: f"{RARE}/{USER}"})
        yield (
            "nullable",
            pd.DataFrame(array).convert_dtypes().mask(frame == frame.iat[1, 0]),
        )
        yield "category", pd.DataFrame(array).astype("category")


def bad_calls(case, estimator):
    """Yield what to call with bad data after a fit, or for one, by name."""
    X, *rest = private_data(case)
    good = data_of(case)
    names = ["fit", "fit_transform", "partial_fit", "fold_in", "score"]
    names += ["scale_values", "unscale_values", "predict", "transform", "variance"]
    names += ["privatize", "decode", "inverse_transform"]
    with_y = set(names[:7]) if rest else {"score"}
    for name in names:
        if not hasattr(estimator, name):
            continue
        method = getattr(estimator, name)
        if name == "fit":
            method = fresh(case).fit
        for spoil, bad in spoiled(X):
            yield f"{name}, X: {spoil}", method, (bad, *rest)
            if name in ("fit", "fit_transform"):
                yield f"{name}, X alone: {spoil}", method, (bad,)
        for spoil, bad in spoiled(rest[0]) if rest and name in with_y else ():
            yield f"{name}, y: {spoil}", method, (X, bad)
        if name in with_y and rest:
            yield f"{name}, y is short", method, (X, rest[0][:-1])
            yield f"{name}, pair", method, (X, np.column_stack([rest[0]] * 2))
    if hasattr(estimator, "fit_batches"):
        for spoil, bad in spoiled(X):
            batches = [good, (bad, rest[0])]
            yield f"batches, X: {spoil}", fresh(case).fit_batches, (batches,)
            yield f"batch: {spoil}", fresh(case).fit_batches, ([bad],)
        for spoil, bad in spoiled(rest[0]):
            yield f"batches, y: {spoil}", fresh(case).fit_batches, ([(X, bad)],)
    if hasattr(estimator, "recommend"):
        for spoil, bad in spoiled(X[:, 0]):
            yield f"recommend: {spoil}", estimator.recommend, (bad,)
    if hasattr(estimator, "client"):
        for spoil, bad in spoiled(rest[0] if rest else X):
            yield f"client: {spoil}", estimator.client().privatize, (bad,)


class Listener(logging.Handler):
    """All records of all loggers, as text."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.said = []

    def emit(self, record):
        self.said.append((record.getMessage(), record.args, record.exc_info))


@pytest.fixture
def heard(capfd, monkeypatch):
    """Findings of secrets in all that was said since the test began."""
    listener, root = Listener(), logging.getLogger()
    monkeypatch.setattr(root, "level", logging.DEBUG)
    root.addHandler(listener)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        def findings(secrets):
            said = [(w.message.args, str(w.message), w.source) for w in caught]
            return secrets.hunt([said, listener.said, *capfd.readouterr()])

        yield findings
    root.removeHandler(listener)


# Checks of data are those of a class: the last case of each.
OF_CLASSES = {(type(one.estimator), one.private): one for one in CASES}.values()


@pytest.mark.parametrize("case", OF_CLASSES, ids=lambda case: case.label)
def test_errors_show_no_data(case, heard):
    # How long arrays are, messages say.
    secrets = secrets_of(case).without("entries")
    estimator = fresh(case).fit(*data_of(case))
    found, raised = {}, 0
    for name, method, bad in bad_calls(case, estimator):
        try:
            method(*bad)
        except Exception as error:
            raised += 1
            if what := in_exception(secrets, error):
                found[name] = what
    assert raised > 20
    assert not found
    assert not heard(secrets)


@pytest.mark.parametrize("case", EVERY)
def test_nothing_is_said_by_the_way(case, heard):
    secrets = secrets_of(case)
    estimator = fresh(case)
    if hasattr(estimator, "verbose"):
        estimator.verbose = 3
    used(case, estimator.fit(*data_of(case)), *private_data(case))
    assert not heard(secrets)


class Watcher:
    """A callback that hunts in all that it is handed."""

    def __init__(self, secrets):
        self.secrets, self.found, self.n_fits, self.n_hooks = secrets, [], 0, 0

    def setup(self, estimator, context):
        self.n_fits += 1
        self.look(estimator, context)

    def teardown(self, estimator, context):
        self.look(estimator, context)

    def look(self, *handed):
        self.n_hooks += 1
        local = getattr(handed[0], "_local", None)
        self.found += self.secrets.hunt(handed, skip=[self, local])

    def on_fit_task_begin(
        self,
        estimator,
        context,
        *,
        X=None,
        y=None,
        metadata=None,
        fitted_estimator=None,
    ):
        self.look(estimator, context, X, y, metadata, fitted_estimator)

    on_fit_task_end = on_fit_task_begin


LONG = [case for case in EVERY if hasattr(case.values[0].estimator, "set_callbacks")]


@pytest.mark.parametrize("case", LONG)
def test_callbacks_are_handed_no_data(case):
    watcher = Watcher(secrets_of(case))
    for way, estimator in fits_of(case, lambda one: one.set_callbacks(watcher)):
        used(case, estimator, *private_data(case))
        assert not watcher.found, way
    is_search = hasattr(case.estimator, "param_distributions")
    assert (watcher.n_hooks > 4) is not is_search


def test_what_callbacks_are_handed_is_searched(monkeypatch):
    problem = CPCompletion._problem

    def leaking(estimator, where, values, shape):
        estimator._values = values
        return problem(estimator, where, values, shape)

    case = LONG[0].values[0]
    watcher = Watcher(secrets_of(case))
    monkeypatch.setattr(CPCompletion, "_problem", leaking)
    fresh(case).set_callbacks(watcher).fit(*data_of(case))
    assert watcher.found
