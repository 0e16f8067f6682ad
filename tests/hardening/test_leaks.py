"""What fitted estimators keep of private data and of their noise: nothing."""

import copy
import gc
import weakref

import numpy as np
import pytest
from every_estimator import CASES, EVERY, RELEASING
from leak_hunt import Secrets, generators_alive, released, state_of_modules
from planted_data import (
    RARE,
    USER,
    add_code_and_noise,
    data_of,
    fits_of,
    fresh,
    is_encoder,
    private_data,
    samples,
    secrets_of,
    tensor_data,
    used,
)

from sktensordp import _random

USERS = [case for case in RELEASING if case.values[0].private == "users"]


@pytest.fixture
def drawn(monkeypatch):
    """Keys and first words of all releases, as they are drawn."""
    start, stream, found = _random.NoiseSource.__init__, _random.NoiseSource.stream, []

    def recording_start(source, *arguments):
        start(source, *arguments)
        found.append(("key", source._key))

    def recording_stream(source, block):
        found.append(("noise", stream(source, block).random_raw(2).tobytes()))
        return stream(source, block)

    monkeypatch.setattr(_random.NoiseSource, "__init__", recording_start)
    monkeypatch.setattr(_random.NoiseSource, "stream", recording_stream)
    return found


def found_in(secrets, estimator, others=()):
    """Findings in an estimator, in what else it gave, and in all copies of these."""
    local = [getattr(estimator, "_local", None)]
    found = secrets.hunt(estimator, skip=local, name="estimator")
    found += secrets.hunt(copy.copy(estimator), skip=local, name="copy")
    found += released(secrets, estimator)
    for one in others:
        found += secrets.hunt(one, skip=local, name=type(one).__name__)
        if hasattr(one, "privatize"):
            found += released(secrets, one)
    return found


@pytest.mark.parametrize("case", EVERY)
def test_nothing_is_kept(case, drawn):
    secrets = secrets_of(case)
    for way, estimator in fits_of(case):
        out = used(case, estimator, *private_data(case))
        if case.private == "samples":
            add_code_and_noise(secrets, case, estimator, out[0])
        for name, key in drawn:
            secrets.add_key(name, key)
        found = found_in(secrets, estimator, out)
        assert not found, way


@pytest.mark.parametrize("case", EVERY)
def test_no_part_of_the_input_stays_in_memory(case):
    data, before = private_data(case), generators_alive()
    estimator = fresh(case).fit(*data_of(case) if is_encoder(case) else data)
    out = used(case, estimator, *data)
    kept = [weakref.ref(array) for array in data]
    del data
    gc.collect()
    assert [array() for array in kept] == [None] * len(kept)
    # Tests of interruptions leave some, in tracebacks.
    assert len(generators_alive()) <= len(before)
    assert estimator is not out


@pytest.mark.parametrize("case", [case for case in EVERY if is_encoder(case.values[0])])
def test_rows_that_an_encoder_learned_from_are_not_kept(case):
    fitted_to = samples(case, 7)
    secrets = Secrets().plant("row", *fitted_to.ravel().tolist())
    secrets.add("centred row", fitted_to - fitted_to.mean(axis=0))
    estimator = fresh(case).fit(fitted_to)
    assert not found_in(secrets, estimator, [estimator.client()])


@pytest.mark.parametrize("case", USERS)
def test_rows_of_users_are_no_values_and_stay_in_the_process(case):
    X, y = tensor_data(case)
    estimator = fresh(case).fit(X, y).fold_in(X, y)
    estimator.predict(X)
    secrets = Secrets().plant("planted", RARE).add("y", y).add("scaled", 2 * y - 1)
    assert not secrets.hunt(estimator._local)
    row = estimator._local.rows[0]
    assert np.all(row)
    secrets.add("row", row).add_whole("user", USER)
    assert secrets.hunt(estimator._local)
    assert not released(secrets, estimator)


def test_the_package_keeps_nothing(drawn):
    secrets = Secrets()
    for case in CASES:
        used(case, fresh(case).fit(*data_of(case)), *private_data(case))
        # Whole numbers are many in tables of laws that other tests have asked for.
        planted = secrets_of(case)
        for name in ("user", "entries of the user", "entries", "users"):
            planted = planted.without(name)
        secrets.update(planted.without("entries of an item"))
    for name, key in drawn:
        secrets.add_key(name, key)
    assert {"key", "noise"} == {name for name, _ in drawn}
    assert not secrets.hunt(state_of_modules(), skip=[drawn])


@pytest.mark.parametrize("case", RELEASING)
def test_no_memory_is_released_that_was_not_written(case, monkeypatch):
    """It may hold anything; here, a number that nothing else gives."""
    number = 0.618712094177

    def filled(make):
        def made(*arguments, **options):
            array = make(*arguments, **options)
            if array.dtype.kind == "f":
                array.fill(number)
            return array

        return made

    for name in ("empty", "empty_like"):
        monkeypatch.setattr(np, name, filled(getattr(np, name)))
    assert number in np.empty(3)
    secrets = Secrets().plant("memory", number)
    for _, estimator in fits_of(case):
        out = used(case, estimator, *private_data(case))
        assert not secrets.hunt([estimator, out])
