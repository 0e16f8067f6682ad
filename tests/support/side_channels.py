"""What a release shows beside its numbers, for tests that compare neighbours."""

import copy
import pickle
import sys
import threading
import warnings
from collections import Counter
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

import sktensordp
from sktensordp.exceptions import NoiseOnlyWarning
from sktensordp.privacy import privacy_of
from tests.support.every_estimator import VALUES, WHERE, answer
from tests.support.noise import closing, drawing

PACKAGE = Path(sktensordp.__file__).parent
# These meet what was released, and no raw value: how they work is post-processing.
RELEASED = {
    "tensor": None,
    "_noise_only.py": None,
    # What is fitted to the draws assumes this of the rounding; the rounding is private.
    "completion/_grid.py": {"point_probabilities", "expected_rounding", "_density"},
    "completion/measurements/_residual_variance.py": None,
    "moments/_spectrum.py": None,
    "moments/_regression.py": {
        "_learn",
        "_ranks_of",
        "_inverse",
        "best_alpha",
        "error",
        "solved",
        "_said_of_noise",
        "__init__",
        "<listcomp>",
        "<genexpr>",
    },
    "moments/_pca.py": {"_learn", "_chosen", "_shrunk", "<listcomp>", "<genexpr>"},
    # Of likelihoods, a search for the largest.
    "papers/_scales.py": {"cost", "<lambda>"},
}
# The exceptions: how long these take does depend on private data, as the documentation
# says. Loops over the different numbers of entries that units have, and over the ids
# of users; and rejection, which depends on noise and sample together, although nothing
# expected of it does.
DEPENDS = {
    "completion/measurements/units/_questions.py": {"_logarithms", "<listcomp>"},
    "completion/_local.py": {"<genexpr>", "<listcomp>", "joined_by"},
}
REJECTS = "noise/_cap.py"
LARGEST, LEAST = np.finfo(float).max, 5e-324
OUTSIDE = [-0.0, -LEAST, 1 + 2.0**-52, -1e300, LARGEST]


def values_of_one_entry(dtype):
    """Values y: of all entries alike, and of one entry anywhere."""
    yield np.full(12, 0.5)
    yield np.full(12, LARGEST)
    yield np.tile([-LARGEST, LARGEST], 6)
    for value in OUTSIDE:
        yield np.concatenate([VALUES[:5], [value], VALUES[6:]])


def entries_of_one_user():
    """X and y: user 2 has any entries or none, or is the only one."""
    rest = WHERE[:, 0] != 2
    for where, values in [
        (WHERE[6:9], VALUES[6:9]),
        (WHERE[6:9], [1e300, -1e300, LARGEST]),
        (WHERE[6:9], [-0.0, LEAST, -LEAST]),
        (WHERE[6:7], [1.0]),
        (np.repeat(WHERE[7:8], 3000, axis=0), np.tile([0.0, 1.0, LARGEST], 1000)),
        (WHERE[:0], []),
    ]:
        yield (
            np.concatenate([WHERE[rest], where]),
            np.concatenate([VALUES[rest], values]),
        )
    yield WHERE[6:9], VALUES[6:9]
    yield WHERE[6:7], np.array([LARGEST])


def rows_of_one_person(X):
    """X: sample 3 is anything, or all samples are."""
    size = X[0].size
    signs = np.resize([1.0, -1.0], size)
    for row in [
        X[3].ravel(), np.full(size, -0.0), np.full(size, LEAST), np.full(size, -1e300),
        signs * LARGEST, np.full(size, size**-0.5), np.eye(size)[0] * LARGEST,
        np.resize([LARGEST, LEAST, 0.0], size),
    ]:  # fmt: skip
        changed = X.copy()
        changed[3] = row.reshape(X[0].shape)
        yield changed
    for value in (0.0, LARGEST):
        yield np.full(X.shape, value)


def databases(case, dtype=float):
    """What is fitted or transformed: arguments that differ in what is private."""
    most = float(np.finfo(dtype).max)
    if case.private == "values":
        found = [(WHERE, y) for y in values_of_one_entry(dtype)]
    elif case.private == "users":
        found = list(entries_of_one_user())
    else:
        found = [(X,) for X in rows_of_one_person(case.data[0])]
        if case.data[1:]:
            y = case.data[1]
            others = [np.append(y[1:], y[:1]), np.full(len(y), y[0])]
            found = [(*X, y) for X in found] + [(case.data[0], z) for z in others]
            return [(np.clip(X, -most, most).astype(dtype), z) for X, z in found]
    return [
        (*where, np.clip(values, -most, most).astype(dtype)) for *where, values in found
    ]


@cache
def _is_private(code):
    """Whether it belongs to the path from raw data to noise."""
    path = Path(code.co_filename)
    if PACKAGE not in path.parents:
        # A mistake that a test plants.
        return path.name == "test_extreme_neighbours.py"
    within = path.relative_to(PACKAGE)
    if within.name == "_unit_entries.py":
        return True
    for place in (within.as_posix(), within.parts[0]):
        for listed in (RELEASED, DEPENDS, {REJECTS: None}):
            if place in listed:
                return listed[place] is not None and code.co_name not in listed[place]
    return True


@contextmanager
def watched():
    """Lines that run before noise ends, and how far its streams were read: a list."""
    lines, streams, found = Counter(), [], []
    before = sys.gettrace()

    def trace(frame, event, arg):
        if not _is_private(frame.f_code):
            return None

        def count(frame, event, arg):
            if event == "line":
                lines[frame.f_code.co_filename, frame.f_lineno] += 1
            return count

        return count

    with (
        drawing(after=lambda _, block, bits: streams.append((block, bits))),
        closing(lambda _: found.append(dict(lines))),
    ):
        sys.settrace(trace)
        threading.settrace(trace)
        try:
            yield found
        finally:
            sys.settrace(before)
            threading.settrace(None)
    found.append([(block, repr(bits.state)) for block, bits in streams])


def skeleton(value, seen=()):
    """Types, names, sizes, integers and words of an object: all but its numbers."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str
    if isinstance(value, (float, np.floating)):
        return type(value).__name__, bool(np.isfinite(value))
    if value is None or isinstance(value, (str, int, np.integer, bytes)):
        return value
    if id(value) in seen:
        return "again"
    seen = (*seen, id(value))
    if isinstance(value, dict):
        return {str(key): skeleton(one, seen) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value).__name__, [skeleton(one, seen) for one in value]
    parts = getattr(value, "__dict__", None)
    return type(value).__name__, None if parts is None else skeleton(parts, seen)


def observe(release):
    """All that `release` shows but the numbers in its result."""
    with (
        warnings.catch_warnings(record=True, action="always") as shown,
        watched() as seen,
    ):
        try:
            model, output = release()
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}
    model = pickle.loads(pickle.dumps(model))
    guarantee = getattr(model, "privacy_guarantee_", None)
    return {
        "warnings": [
            f"{w.category.__name__}: {w.message}"
            for w in shown
            # What was released decides it.
            if w.category is not NoiseOnlyWarning
        ],
        "state": skeleton(vars(model)),
        "output": (np.shape(output), output.dtype, bool(np.isfinite(output).all())),
        "guarantee": (str(guarantee), privacy_of(model).unprotected),
        "path": seen[:-1],
        "words": seen[-1],
    }


def fitted(case):
    """A function of a database: a model that has released once, and its output."""
    seeds = case.seeded()
    if hasattr(case.estimator, "param_distributions"):
        # Which candidate is the best is noisy, but is a choice.
        seeds["param_distributions"] = {"rank": [1]}
    if case.private != "samples":
        return lambda data: case.fresh(**seeds).fit(*data)
    model = case.fresh(**seeds).fit(*case.data)
    return lambda data: copy.deepcopy(model)


def released(case):
    fit = fitted(case)

    def release(data):
        model = fit(data)
        X = data[0] if case.private == "samples" else case.data[0]
        return model, answer(model, X)

    return release


def differences(release, data):
    """What is not as it is for the first database, or wrong there already."""
    # What is imported or compiled is there before the first comparison.
    first, *others = [observe(lambda d=d: release(d)) for d in (data[0], *data)][1:]
    assert "error" not in first, first["error"]
    assert not first["warnings"], first["warnings"]
    assert first["output"][2]
    found = {}
    for number, other in enumerate(others, start=1):
        for part in {*first, *other}:
            if first.get(part) != other.get(part):
                found[number, part] = other.get(part)
    return found
