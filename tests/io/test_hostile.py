"""Damaged and hostile files are refused, before much is allocated."""

import json
import pickle
import re
import tracemalloc

import numpy as np
import pytest

from sktensordp import io
from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
)
from sktensordp.io import dump
from tests.support.every_estimator import RANGE, VALUES, WHERE
from tests.support.seams import class_of

safetensors = pytest.importorskip("safetensors.numpy")

NO_FILE = "This is not a file of sktensordp.io, or it is damaged"
LARGEST = 2**24
"""Bytes that the refusal of a small file may allocate."""


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A file with most kinds of parts, as its text, arrays and bytes."""
    path = tmp_path_factory.mktemp("stored") / "model"
    ids = CoordinateEncoder(categories=[None, [f"film {n}" for n in range(40)]])
    completion = CPCompletion(1, unit=0, perturbation="sums", random_state=0, **RANGE)
    where = [[f"user {n % 7}", f"film {n % 40}"] for n in range(60)]
    dump(Recommender(completion, ids).fit(where, np.linspace(0, 1, 60)), path)
    return content(path)


def content(path):
    whole = path.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + size])
    document = json.loads(header["__metadata__"]["sktensordp"])
    return document, safetensors.load_file(path), whole


def written(path, document, arrays):
    text = document if isinstance(document, str) else json.dumps(document)
    safetensors.save_file(arrays, path, {"sktensordp": text})
    return path


def refused(path, message=NO_FILE):
    """The file is refused, and that allocates little."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=message) as error:
            io.load(path)
        assert tracemalloc.get_traced_memory()[1] < LARGEST + 30 * path.stat().st_size
    finally:
        tracemalloc.stop()
    assert len(str(error.value)) < 300


def is_refused(path):
    """Whether the file is refused; no other error comes of it."""
    try:
        io.load(path)
    except ValueError as error:
        assert re.search(f"{NO_FILE}|stored by sktensordp", str(error))  # noqa: PT017
        return True
    return False


def header_of(header, data=b"", path=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    "whole",
    [
        b"", b"\0", b"\0" * 8, b"\xff" * 8, b"\xff" * 100, b"PK\x03\x04" * 9,
        pickle.dumps({"a": 1}), header_of([]), header_of({}), header_of(b"{"),
        header_of(b"[" * 10**5), header_of(b'{"a":' * 10**5),
        header_of({"__metadata__": 3}), header_of({"__metadata__": {}}),
        header_of({"__metadata__": {"sktensordp": 3}}),
        header_of({"__metadata__": {"sktensordp": "[" * 10**5}}),
        header_of(b'{"__metadata__": {"sktensordp": "{}"}, "__metadata__": {}}'),
        (2**24 + 1).to_bytes(8, "little") + b" " * 100,
        (2**24).to_bytes(8, "little") + b"{}",
    ],
    ids=range(19),
)  # fmt: skip
def test_what_is_no_such_file(whole, tmp_path):
    (tmp_path / "model").write_bytes(whole)
    refused(tmp_path / "model")


def test_a_file_of_somebody_else(tmp_path):
    safetensors.save_file({"weights": np.zeros(3)}, tmp_path / "model")
    refused(tmp_path / "model")


def test_every_truncation_and_many_flips(stored, tmp_path):
    whole = stored[2]
    path, rng = tmp_path / "model", np.random.default_rng(0)
    for end in [*range(0, 64), *rng.integers(64, len(whole), 40), len(whole) - 1]:
        path.write_bytes(whole[:end])
        refused(path)
    path.write_bytes(whole + b"\0")
    refused(path)
    n_refused = 0
    for place in rng.integers(0, len(whole), 200):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        n_refused += is_refused(path)
    # Others change a number, a name of an id, or a text.
    assert n_refused > 50


def tensors(whole):
    size = int.from_bytes(whole[:8], "little")
    return json.loads(whole[8 : 8 + size]), whole[8 + size :]


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [2**40]}, {"shape": [2**62, 2**62]}, {"shape": [-1]}, {"shape": []},
        {"shape": None}, {"dtype": "F64X"}, {"dtype": "F8_E4M3"}, {"dtype": None},
        {"data_offsets": [0, 2**60]}, {"data_offsets": [-8, 0]},
        {"data_offsets": [8, 0]}, {"data_offsets": [1, 9]},
    ],
    ids=str,
)  # fmt: skip
def test_hostile_sizes_and_offsets(change, stored, tmp_path):
    header, data = tensors(stored[2])
    names = sorted(header.keys() - {"__metadata__"}, key=int)
    header[names[0]] |= change
    (tmp_path / "model").write_bytes(header_of(header, data))
    refused(tmp_path / "model")
    # Two arrays in one place.
    header, data = tensors(stored[2])
    header[names[0]] = header[names[1]]
    (tmp_path / "model").write_bytes(header_of(header, data))
    refused(tmp_path / "model")


def test_duplicated_names(stored, tmp_path):
    whole = stored[2]
    header, data = tensors(whole)
    text = json.dumps(header)
    twice = text[:-1] + f', "0": {json.dumps(header["0"])}}}'
    (tmp_path / "model").write_bytes(header_of(twice.encode(), data))
    refused(tmp_path / "model")
    document, arrays, _ = stored
    text = json.dumps(document)
    for wrong in (
        '{"format": 1, ' + text[1:], text.replace("null", "Infinity", 1),
        text.replace('"kind": ', '"kind": "list", "kind": '),
        text.replace("[]", "[NaN]", 1), text + " {}",
    ):  # fmt: skip
        refused(written(tmp_path / "model", wrong, arrays))


def test_arrays_that_nothing_refers_to(stored, tmp_path):
    document, arrays, _ = stored
    refused(written(tmp_path / "model", document, {**arrays, "more": np.zeros(3)}))
    some = dict(list(arrays.items())[1:])
    refused(written(tmp_path / "model", document, some))


HOSTILE = (
    None, True, -1, 0, 2**62, 10**400, 1e308, "x", "", [], [0], [[0]], [-1], [10**9],
    [True], ["0"], {}, {"kind": "list"}, {"items": []}, "CPCompletion", "os.system",
    "builtins.eval", "number", "array",
)  # fmt: skip


def places(node, path=()):
    """Paths to all values below a node of JSON."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def changed(document, path, value):
    document = json.loads(json.dumps(document))
    node = document
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return document


@pytest.mark.thorough_after_one
@pytest.mark.parametrize("part", range(10))
def test_every_value_is_exchanged_for_hostile_ones(part, stored, tmp_path):
    """Each is refused, or another number, text or parameter in a model."""
    document, arrays, _ = stored
    rng = np.random.default_rng(part)
    found = [*places(document)]
    n_loaded = 0
    for number in rng.integers(0, len(found), 60):
        for value in rng.choice(np.array([*HOSTILE, None], object)[:-1], 4):
            other = changed(document, found[number], value)
            path = written(tmp_path / "model", other, arrays)
            n_loaded += not is_refused(path)
    assert n_loaded < 120


def document_of(*parts, version="0.2.0"):
    return {"format": 1, "version": version, "parts": list(parts)}


MODEL = {"class": "LaplaceMechanism", "kind": "object", "state": {"bounds": [0]}}


def values(*parts):
    """A document of parts, the last of which a mechanism has as a parameter."""
    return document_of(*parts, {**MODEL, "state": {"bounds": [len(parts) - 1]}})


def test_what_parts_may_say(tmp_path):
    path = tmp_path / "model"
    loaded = io.load(written(path, values({"kind": "list", "items": [1]}), {}))
    assert loaded.bounds == [1]
    number = {"kind": "number", "text": "nan"}
    assert np.isnan(io.load(written(path, values(number), {})).bounds)


@pytest.mark.parametrize(
    "parts",
    [
        [{"kind": "list", "items": [[0]]}],
        [{"kind": "list", "items": [[1]]}],
        [{"kind": "set", "items": [[0]]}],
        [{"kind": "list", "items": []}, {"kind": "set", "items": [[0]]}],
        [{"kind": "dict", "keys": {"items": [1, 1]}, "values": {"items": [1, 2]}}],
        [{"kind": "dict", "keys": {"items": [1]}, "values": {"items": []}}],
        [{"kind": "range", "items": [0, 1, 0]}],
        [{"kind": "range", "items": [0, 1]}],
        [{"kind": "timedelta", "items": [10**9, 0, 0]}],
        [{"kind": "Fraction", "text": "1/0"}],
        [{"kind": "Fraction", "text": "1e999999999"}],
        [{"kind": "Fraction", "text": "1E999999999"}],
        [{"kind": "Decimal", "text": "1E9999999999"}],
        [{"kind": "datetime", "text": "2026-W"}],
        [{"kind": "number", "text": "__import__('os')"}],
        [{"kind": "date", "text": "2026-13-01"}],
        [{"kind": "UUID", "text": "12"}],
        [{"kind": "frame", "of": "os"}],
        [{"kind": "function", "name": "os.system"}],
        [{"kind": "array", "at": "0", "order": "C"}],
        [{"kind": "objects", "shape": [2**40], "items": []}],
        [{"kind": "objects", "shape": [2**31, 0, *[1] * 8], "items": []}],
        [{"kind": "made", "class": "SentStreams", "items": ["key", True]}],
        [{"kind": "made", "class": "LaplaceMechanism", "items": []}],
        [{"kind": "made", "class": "ReleaseCounter", "items": [1.5]}],
        [{"kind": "made", "class": "ReleaseCounter", "items": []}],
        [{"kind": "made", "class": "Mark", "items": ["p", "/etc/budget.db", "id"]}],
        [{"kind": "dropped", "class": "LaplaceMechanism"}],
        [{"kind": "object", "class": "LocalUsers", "state": {"lost": False}}],
        [{"kind": "object", "class": "PureDpEvent", "state": {"epsilon": -1}}],
        [{"kind": "object", "class": "PureDpEvent", "state": {"epsilon": "x"}}],
        [{"kind": "object", "class": "Domain", "state": {}}],
        [{"kind": "object", "class": "os.system", "state": {}}],
        [{"kind": "object", "class": "PrivacyBudget", "state": {}}],
        [{**MODEL, "state": {"transform": 1}}],
        [{**MODEL, "state": {"__class__": 1}}],
        [{**MODEL, "state": {"privacy_guarantee_": 1}}],
        [{**MODEL, "state": {"sample_shape_": 1}}],
        [{**MODEL, "state": {"_releases": 1}}],
        [{**MODEL, "more": 1}],
    ],
    ids=str,
)
def test_what_parts_may_not_say(parts, tmp_path):
    refused(written(tmp_path / "model", values(*parts), {}))


def test_nesting_and_repetition(tmp_path):
    """Small files of parts that are deep, or heavy, as each holds another twice."""
    deep = [{"kind": "tuple", "items": []}]
    deep += [{"kind": "tuple", "items": [[n]]} for n in range(10_000)]
    refused(written(tmp_path / "model", values(*deep), {}))
    heavy = [{"kind": "tuple", "items": []}]
    heavy += [{"kind": "tuple", "items": [[n], [n]]} for n in range(60)]
    refused(written(tmp_path / "model", values(*heavy), {}))
    refused(written(tmp_path / "model", document_of(), {}))


@pytest.mark.parametrize(
    ("whole", "ends"),
    [
        (b"ab", [0, 1]), (b"ab", [0, 3]), (b"ab", [1, 2]), (b"ab", [0, 2, 1, 2]),
        (b"ab", []), (b"ab", [-1, 2]), (b"\xff\xff", [0, 2]),
    ],
)  # fmt: skip
def test_where_texts_begin(whole, ends, tmp_path):
    arrays = {"0": np.frombuffer(whole, np.uint8), "1": np.array(ends, np.int64)}
    part = {"kind": "list", "texts": ["0", "1"]}
    refused(written(tmp_path / "model", values(part), arrays))


@pytest.mark.parametrize(
    "letters",
    [
        np.full((2, 3), 0x110000, np.uint32), np.zeros((2, 3), np.int64),
        np.zeros((2, 0), np.uint32), np.zeros((), np.uint32),
    ],
    ids=range(4),
)  # fmt: skip
def test_letters_of_fixed_texts(letters, tmp_path):
    part = {"kind": "texts", "at": "0"}
    refused(written(tmp_path / "model", values(part), {"0": letters}))


@pytest.mark.parametrize(
    "letters",
    [
        np.zeros((2, 3), np.uint32), np.zeros((2, 3), np.int8), np.zeros((2, 0), "u1"),
        np.zeros((), np.uint16), np.zeros((2, 3), np.uint64),
    ],
    ids=range(5),
)  # fmt: skip
def test_letters_of_short_texts(letters, tmp_path):
    part = {"kind": "short texts", "at": "0"}
    refused(written(tmp_path / "model", values(part), {"0": letters}))


def test_texts_of_a_small_file_are_small(tmp_path):
    part, letters = {"kind": "short texts", "at": "0"}, np.full((50, 10**6), 65, "u1")
    tracemalloc.start()
    try:
        io.load(written(tmp_path / "model", values(part), {"0": letters}))
        assert tracemalloc.get_traced_memory()[1] < 8 * letters.nbytes
    finally:
        tracemalloc.stop()


NO_STEPS = [
    [], {}, None, "ab", [[]], [["a"]], [["a", [0], 1]], [["a", [0]], ["a", [0]]],
    [["a__b", [0]]], [[3, [0]]], [[None, [0]]], [[["a"], [0]]], [["a", [2]]],
    [["a", [-1]]], [["a", 3]], [["a", "other"]], [["a", True]], [["a", [1]]],
    [["a", [0]]] * 1001,
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(NO_STEPS)))
def test_steps_of_pipelines(number, tmp_path):
    parts = [{**MODEL, "state": {}}, {"kind": "tuple", "items": [1]}]
    path = tmp_path / "model"
    for steps, is_wrong in (([["a", [0]]], False), (NO_STEPS[number], True)):
        pipeline = {"kind": "pipeline", "steps": steps, "verbose": False}
        # The tuple is held by another part if no step holds it.
        document = document_of(*parts, pipeline)
        if is_wrong:
            refused(written(path, document, {}))
        else:
            assert len(io.load(written(path, document, {}))) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"verbose": 1}, {"verbose": None}, {"verbose": ["a"]}, {"memory": "folder"},
        {"memory": None}, {"transform_input": ["X"]}, {"class": "Pipeline"},
    ],
    ids=str,
)  # fmt: skip
def test_parameters_of_pipelines(changed, tmp_path):
    """A folder would be read as pickles by the next fit."""
    pipeline = {"kind": "pipeline", "steps": [["a", [0]]], "verbose": False} | changed
    document = document_of({**MODEL, "state": {}}, pipeline)
    refused(written(tmp_path / "model", document, {}))


def test_no_array_is_asked_for_twice(tmp_path):
    """A small file would become as large as it likes."""
    array = {"kind": "array", "at": "0", "order": "C"}
    arrays = {"0": np.zeros(10**6)}
    loaded = io.load(written(tmp_path / "model", values(array), arrays))
    assert loaded.bounds.shape == (10**6,)
    both = [{"kind": "array", "at": "0", "order": "C"}] * 1000
    parts = [*both, {"kind": "list", "items": [[n] for n in range(1000)]}]
    refused(written(tmp_path / "model", values(*parts), arrays))


COMPILED = {
    "Rows": (
        "means covariances used fixed prior_mean precision tie unknown",
        CPCompletion(1, max_iter=1, **RANGE), None,
    ),
    "SharedModel": (
        "factors biases uncertainty features",
        CPCompletion(1, unit=0, perturbation="sums", shape=(4, 3), **RANGE), None,
    ),
    "ItemModel": (
        "items shares similarity expected pairs products",
        ImplicitCompletion(shape=(4, 3)), "choices",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPILED)
def test_shapes_that_compiled_loops_trust(name, tmp_path):
    """They would read what is not theirs."""
    fields, model, kind = COMPILED[name]
    path = tmp_path / "model"
    dump(model.fit(*(WHERE, VALUES)[: 1 if kind else 2]), path)
    document, arrays, _ = content(path)
    parts = document["parts"]
    (part,) = (part for part in parts if part.get("class") == name)
    n_tried = 0
    for field in fields.split():
        for number in arrays_below(parts, part["state"][field]):
            kept = arrays[number]
            for other in (kept[..., :-1], kept[:-1], np.stack([kept, kept])):
                if other.shape == kept.shape:
                    continue
                changed = {**arrays, number: np.ascontiguousarray(other)}
                refused(written(path, document, changed))
                n_tried += 1
    assert n_tried > 6


def arrays_below(parts, value):
    """Names of the arrays to which a value leads."""
    if isinstance(value, list) and len(value) == 1:
        part = parts[value[0]]
        if part["kind"] == "array":
            yield part["at"]
        for item in part.get("items", ()):
            yield from arrays_below(parts, item)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("9.0.0", r"stored by sktensordp 9\.0\.0.*or a later version to load it"),
        ("0.1.0", r"stored by sktensordp 0\.1\.0.*Load it with sktensordp 0\.1, in"),
        ("x", NO_FILE),
        ("99999999999.1", NO_FILE),
        (None, NO_FILE),
    ],
)
def test_other_versions(version, message, tmp_path):
    document = document_of({**MODEL, "state": {}}, version=version)
    refused(written(tmp_path / "model", document, {}), message)
    for wrong in (0, 2, "1", None, 1.0, True):
        document = document_of({**MODEL, "state": {}}) | {"format": wrong}
        refused(written(tmp_path / "model", document, {}))


def test_no_model(tmp_path):
    refused(written(tmp_path / "model", document_of({"kind": "list", "items": []}), {}))


def test_nothing_is_imported_by_a_name_of_the_file():
    for name in ("os", "os.system", "builtins.eval", "sktensordp.base", "", "Ridge"):
        assert class_of(name) is None
