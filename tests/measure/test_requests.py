"""Damaged and hostile requests: a party refuses them, or is moved by no more."""

import json
import math
import os
import pickle
import re

import numpy as np
import pytest

from sktensordp.completion import CPCompletion, fit_aggregated, party
from tests.support.parties import CASES
from tests.support.replaying import with_a_pattern
from tests.support.requests import Sums, header, setting, signed, with_array
from tests.support.seams import read_request

pytestmark = pytest.mark.thorough
# In place of a value of the first line.
HOSTILE = (
    None, True, -1, 0, 1, 2**31, 2**63, 2**70, 10**400, -0.5, 1e-300, 1e308, "", "x",
    "block", [], [[]], {}, [1, 2], [None] * 5, {"a": 1},
)  # fmt: skip
# In place of the numbers of an array.
EXTREME = (np.nan, np.inf, -np.inf, 1e300, -1e300, 1e9, -1e9, 0.0, -1.0, 5e-324)


# What a fit of each asks, but for further blocks and passes.
KINDS = {
    "cp": {"first", "counts", "pattern", "block"},
    "tucker": {"first", "counts", "pattern", "block"},
    "modes": {"mean", "modes"},
    "core": {"mean", "modes", "core"},
    "regression": {"modes", "core"},
    "all cells": {"core"},
}


def model_of(name):
    epsilon = 200.0 if name == "core" else 20.0
    return CASES[name].make(epsilon=epsilon, random_state=0)


def requests_of(name):
    """All requests of one fit, with a pattern among them."""
    case = CASES[name]
    with with_a_pattern():
        sums = Sums([party(model_of(name), case.X, case.y)])
        case.aggregated(sums, model_of(name))
    return sums.requests


@pytest.fixture(scope="module", params=KINDS)
def fit(request):
    """Parties of one person, and one request for each question and block.

    One maker of such parties, and one party whose people cannot be touched.
    """
    name, several = request.param, {}
    for one in requests_of(name):
        question = header(one)["question"]
        kind = question["kind"], question.get("block"), question.get("has_factors")
        several[kind] = one
    assert {kind for kind, *_ in several} == KINDS[name]
    case = CASES[name]
    own = case.people == np.bincount(case.people).argmax()

    def of_one():
        with with_a_pattern():
            return party(model_of(name), case.X[own], case.y[own])

    nobody = of_one()
    nobody._people = Untouched()
    return (of_one, nobody), list(several.values())


class Untouched:
    """People that fail the test if a request that is refused has touched them."""

    def __getattr__(self, name):
        raise AssertionError("somebody was touched")


def ask(parties, request):
    """Refuse, before anybody is touched, or let one person move sums by their share."""
    of_one, nobody = parties
    one = of_one()
    try:
        answer = one.answer(request)
    except ValueError as error:
        message = str(error)
        with pytest.raises(ValueError, match=re.escape(message)):
            nobody.answer(request)
        assert len(message) < 600
        return message
    found, asked = header(request), read_request(request, one._agreed)
    share = math.fsum(sums["share"] for sums in found["sums"])
    half = 2 ** (found["n_bits"] - 1)
    has_limbs = all(one.n_moved for one in asked.question.sums)
    if half <= (2**62 if has_limbs else math.sqrt(share) / found["step"]):
        return None  # It wraps around, which spoils the model.
    pairs = zip(
        asked.question.sums, asked.split(signed(answer, found["n_bits"])), strict=True
    )
    steps = np.concatenate([np.ravel(sums.rounded(part)) for sums, part in pairs])
    n_moved = sum(sums.n_moved for sums in asked.question.sums)
    length = np.linalg.norm(steps.astype(float)) * found["step"]
    most = math.sqrt(share) + found["step"] * math.sqrt(n_moved)
    assert length <= most * (1 + 1e-6)
    return None


def paths(found, path=()):
    """Where the values of JSON are."""
    yield path
    items = {dict: lambda: found.items(), list: lambda: enumerate(found)}
    for name, value in items.get(type(found), list)():
        yield from paths(value, (*path, name))


def test_every_value_of_a_first_line_is_checked(fit):
    """Each is exchanged for each of the hostile values; most are refused."""
    parties, requests = fit
    rng, n_refused, n_all = np.random.default_rng(0), 0, 0
    for request in requests:
        for path in filter(None, paths(header(request))):
            for k in rng.permutation(len(HOSTILE))[:6]:
                asked = setting(request, *path, to=HOSTILE[k])
                n_refused += ask(parties, asked) is not None
                n_all += 1
    assert n_all > 150
    assert n_refused > 0.8 * n_all


def test_every_number_of_an_array_is_checked(fit):
    parties, requests = fit
    n_refused = n_arrays = 0
    for request in requests:
        for name, kind, shape in header(request)["arrays"]:
            if not math.prod(shape):
                continue
            n_arrays += 1
            for value in EXTREME:

                def put(array, kind=kind, value=value):
                    if kind == "i8":
                        value = np.nan_to_num(value, posinf=2**62, neginf=-(2**62))
                        value = int(np.clip(value, -(2**62), 2**62))
                    array.flat[len(array) // 2] = value
                    return array

                n_refused += ask(parties, with_array(request, name, put)) is not None
    assert n_refused >= 3 * n_arrays


def test_numbers_that_are_none_are_refused_in_every_array(fit):
    parties, requests = fit
    for request in requests:
        for name, kind, shape in header(request)["arrays"]:
            if kind == "f8" and math.prod(shape):
                # A mean may be any number: what is left is clipped.
                for wrong in (np.nan, np.inf, -np.inf, 1e300)[: 3 + (name != "mean")]:
                    asked = with_array(request, name, lambda a, x=wrong: 0 * a + x)
                    assert name in (ask(parties, asked) or "")


@pytest.mark.parametrize("size", [1e308, 1e9, 1e-12])
def test_gains_of_any_size_move_sums_by_no_more(size):
    """A server's gains are finite and below a public limit, and then bounded."""
    model, case = model_of("cp"), CASES["cp"]
    first, asked = [party(model, case.X, case.y)], []
    case.aggregated(sums := Sums(first), model)
    for request in sums.requests:
        if any(name == "gains" for name, *_ in header(request)["arrays"]):
            asked.append(with_array(request, "gains", lambda gains: 0 * gains + size))
    assert asked
    own = case.people == np.bincount(case.people).argmax()

    def of_one():
        return party(model, case.X[own], case.y[own])

    nobody = of_one()
    nobody._people = Untouched()
    for request in asked:
        assert (ask((of_one, nobody), request) is not None) == (size > 1e9)


class Reached(Exception):
    """What was waited for."""


@pytest.mark.parametrize("how", ["warn", "raise"])
def test_products_that_overflow_for_some_entries_do_not_show(how):
    """A party that stopped would tell of its entries; warnings are errors here."""
    shape = (60, 2) + (1,) * 36
    model = CPCompletion(
        1, unit=0, value_bounds=(0, 1), shape=shape, epsilon=600.0, random_state=0
    )
    rng = np.random.default_rng(0)
    X = np.zeros((600, len(shape)), int)
    X[:, :2] = rng.integers(0, shape[:2], (600, 2))
    whole, requests = party(model, X, rng.uniform(0, 1, 600)), []

    def ask(request):
        if header(request)["question"].get("has_factors"):
            requests.append(request)
            raise Reached
        return whole.answer(request)

    with pytest.raises(Reached):
        fit_aggregated(model, ask)
    (request,) = requests
    for name, _, sizes in header(request)["arrays"]:
        if name.startswith("factors"):
            # The first row of the first other mode has products that overflow.
            rows = np.full(sizes, 1e9)
            rows[1:] = 0.0
            request = with_array(request, name, lambda _, rows=rows: rows)
    for row in (0, 1):
        one = np.zeros((3, len(shape)), int)
        one[:, 1] = row
        with np.errstate(all=how):
            answer = party(model, one, [0.2, 0.7, 0.9]).answer(request)
        assert len(answer) == header(request)["n_numbers"]


def test_shares_that_add_up_to_too_much_are_refused(fit):
    """Each may be one; integers are exact as long as they add up to about one."""
    parties, requests = fit
    for request in requests:
        if header(request)["question"]["kind"] == "pattern":
            asked = with_array(request, "shares", lambda shares: 0 * shares + 2**14)
            assert "shares" in (ask(parties, asked) or "")


def test_damaged_requests_are_refused(fit):
    """Cut, lengthened, with bytes changed at random: 100 of each request."""
    parties, requests = fit
    rng = np.random.default_rng(1)
    for request in requests:
        damaged = [b"", request + b"\0", b"\n".join([request, request])]
        damaged += [request[: rng.integers(len(request))] for _ in range(20)]
        for _ in range(100):
            other = bytearray(request)
            for place in rng.integers(len(other), size=rng.integers(1, 4)):
                other[place] = rng.integers(256)
            damaged.append(bytes(other))
        found = [ask(parties, one) for one in damaged]
        assert all(found[:23])


@pytest.mark.parametrize(
    "line",
    [
        *(json.dumps(value).encode() for value in HOSTILE),
        b"[" * 10**5,
        b'{"a":' * 10**5,
        b'{"format": NaN}',
        b'{"format": 1, "format": 1}',
        b'{"format": 1' + b"0" * 10**4 + b"}",
        b'{"format": 2}',
        b" " * (2**20 + 1),
        b"\xff\xfe",
    ],
    ids=lambda line: line[:12].decode(errors="replace"),
)
def test_first_lines_that_are_none(fit, line):
    parties, _ = fit
    assert "not a request of fit_aggregated" in ask(parties, line + b"\n")


def test_fields_and_arrays_that_nobody_knows_are_refused(fit):
    parties, (request, *_) = fit
    for place in ([], ["question"], ["sums", 0], ["settings"]):
        assert ask(parties, setting(request, *place, "contribute", to="os.system"))
    more = [*header(request)["arrays"], ["other", "f8", [1]]]
    assert "arrays" in ask(parties, setting(request, "arrays", to=more) + b"0" * 8)


class Runs:
    """What a pickle runs where it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_no_request_runs_code_at_a_party(fit, tmp_path):
    parties, (request, *_) = fit
    for number, found in enumerate((Runs, [request, Runs])):
        place = str(tmp_path / str(number))
        hostile = found(place) if found is Runs else [request, Runs(place)]
        assert ask(parties, pickle.dumps(hostile))
    assert not list(tmp_path.iterdir())
    # It would run where a pickle is loaded.
    pickle.loads(pickle.dumps(Runs(str(tmp_path / "run"))))
    assert list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", ["hello", None, 3, lambda *_: 0, np.zeros(3)])
def test_what_is_not_bytes_is_refused(fit, wrong):
    parties, _ = fit
    with pytest.raises(TypeError, match="A request is bytes"):
        parties[0]().answer(wrong)
