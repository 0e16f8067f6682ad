"""The type of samples is public: bounds that contradict it are warned of.

The doors are all calls that release something of samples, of all estimators that have
`bounds`. No false alarms are possible: the type and the bounds decide alone.
"""

import inspect
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sktensordp.mechanisms import LaplaceMechanism, TensorRandomizedResponse
from tests.support.every_estimator import MATRICES, NOISY_BOX, TASK
from tests.support.public import public_estimators

ZEROS = np.zeros((8, 3, 2))
BYTES, WORDS = ZEROS.astype(np.uint8), ZEROS.astype(np.uint16)
COUNTS, SIGNS = ZEROS.astype(int), ZEROS.astype(np.int8)
BITS = ZEROS.astype(bool)
ROWS = BYTES[:, :, 0]
OF_PIXELS = "X holds uint8, 0 to 255, but bounds end at 1"
NO_ROOM, WIDE = "but bounds have room for at most one", "bounds are more than 4 times"
# Samples, bounds, and what is said; None for nothing.
TYPES = {
    "bytes": (BYTES, (0, 1), OF_PIXELS),
    "bytes around 0": (BYTES, (-1, 1), OF_PIXELS),
    "bytes, entry by entry": (BYTES, (np.zeros((3, 2)), np.ones((3, 2))), OF_PIXELS),
    "bytes below 0": (BYTES, (-9, -1), NO_ROOM),
    "bytes in thousands": (BYTES, (0, 1021), WIDE),
    "words": (WORDS, (0, 1), "X holds uint16, 0 to 65535, but bounds end at 1"),
    "integers in a half": (COUNTS, (0.0, 0.5), NO_ROOM),
    "integers between two": (COUNTS, (3.2, 3.8), NO_ROOM),
    "bits in percent": (BITS, (0, 100), "X holds bool, 0 to 1, but bounds are more"),
    "bits in a half": (BITS, (-0.5, 0.5), NO_ROOM),
    "bytes of Dask": (da.from_array(BYTES, chunks=4), (0, 1), OF_PIXELS),
    "bytes of pandas": (pd.DataFrame(ROWS), (0, 1), OF_PIXELS),
    "bytes of pandas that may be missing": (
        pd.DataFrame(ROWS).astype("UInt8"), (0, 1), "X holds uint8",
    ),
    "bytes of pandas with Arrow": (
        pd.DataFrame(ROWS).astype("uint8[pyarrow]"), (0, 1), OF_PIXELS,
    ),
    "bytes of polars": (pl.DataFrame(ROWS), (0, 1), OF_PIXELS),
    "bytes of Arrow": (
        pa.table(dict(zip("abc", ROWS.T, strict=True))), (0, 1), OF_PIXELS,
    ),
    "all bytes": (BYTES, (0, 255), None),
    "bytes with room": (BYTES, (0, 1020), None),
    "bytes of an entry that has room": (
        BYTES, (0, np.array([[1, 1], [1, 1], [1, 9]])), None,
    ),
    "scaled bytes": (BYTES / 255, (0, 1), None),
    "bits": (BITS, (0, 1), None),
    "bits around 0": (BITS, (-1, 1), None),
    "counts of 0 and 1": (COUNTS, (0, 1), None),
    "signs": (SIGNS, (-1, 1), None),
    "a list": (ROWS.tolist(), (0, 1), None),
    "several types": (pd.DataFrame(ROWS).astype({0: float}), (0, 1), None),
    "text": (pd.DataFrame(ROWS).astype(str), (0, 1), None),
}  # fmt: skip


def texts(call):
    with warnings.catch_warnings(record=True, action="always") as caught:
        call()
    return [str(w.message) for w in caught if str(w.message).startswith("X holds")]


@pytest.mark.parametrize("case", TYPES)
def test_the_type_and_the_bounds_decide(case):
    X, bounds, expected = TYPES[case]
    model = LaplaceMechanism(1.0, bounds=bounds)
    model.fit(np.zeros(X.shape if hasattr(X, "shape") else np.shape(X)))
    found = texts(lambda: model.transform(X))
    assert len(found) == (expected is not None)
    assert expected is None or expected in found[0]


def test_values_do_not_decide():
    for X in (BYTES, BYTES + 1, BYTES + 255):
        model = LaplaceMechanism(1.0, bounds=(0, 1)).fit(X)
        assert len(texts(lambda m=model, X=X: m.transform(X))) == 1


# --- the doors ------------------------------------------------------------------------

WITH_BOUNDS = {
    name: kind
    for name, kind in public_estimators().items()
    if "bounds" in inspect.signature(kind).parameters
}
# Parameters of those that have them; samples are rows of three entries.
NEEDS = {"n_levels": 4, **TASK, "tensor_shape": (3, 1), "random_state": 0, **NOISY_BOX}
CALLS = "transform", "privatize", "variance"


def fitted(name):
    kind = WITH_BOUNDS[name]
    known = inspect.signature(kind).parameters.keys()
    if kind is TensorRandomizedResponse:
        known -= {"delta"}  # shares of it are a long search
    model = kind(**{key: value for key, value in NEEDS.items() if key in known})
    with warnings.catch_warnings(action="ignore"):
        return model.fit(MATRICES[:, :, 0], MATRICES[:, 0, 0])


@pytest.mark.parametrize("name", WITH_BOUNDS)
def test_every_release_warns_before_noise_is_drawn(name):
    model = fitted(name)
    calls = [getattr(model, call) for call in CALLS if hasattr(model, call)]
    assert calls
    for call in calls:
        assert len(texts(lambda c=call: c(ROWS))) == 1
        assert not texts(lambda c=call: c(ROWS / 255))
