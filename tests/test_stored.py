"""Stored estimators are read by later versions, or say what to do.

tests/stored has two files for every minor version since 0.2: one of pickles, and one of
files without code (`sktensordp.io`). They grow and are never rewritten: whoever has
stored a model keeps it, and what a commit stored must load ever after, or be refused
with its version. For a new estimator,

    python -m tests.test_stored

adds what the files of this minor version lack. If a change cannot load what is there,
mend `__setstate__`; do not store it anew.
"""

import copy
import lzma
import math
import pickle
import re
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import clone

import sktensordp
from sktensordp import base, io
from sktensordp.completion import CPCompletion
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.mechanisms import LaplaceMechanism
from tests.support.every_estimator import (
    CASES,
    EVERY,
    LEVELS,
    RELEASING,
    ROWS,
    TASK,
    answer,
)

STORED = Path(__file__).with_name("stored")
LABELS = [case.label for case in CASES]


def as_pickle(thing):
    return pickle.dumps(thing, protocol=4)


def as_file(thing):
    with tempfile.TemporaryDirectory() as folder:
        io.dump(thing, Path(folder, "model"))
        return Path(folder, "model").read_bytes()


def of_file(stored):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "model").write_bytes(stored)
        return io.load(Path(folder, "model"))


FORMATS = {"pickle": (as_pickle, pickle.loads), "files": (as_file, of_file)}


def clients():
    """Clients with a guarantee, which files hold beside estimators."""
    encoder = TaskAwareEncoder(mechanism="laplace", **TASK).fit(ROWS)
    return {
        "CompletionClient": CPCompletion(0, **LEVELS).client(),
        "EncoderClient": encoder.client(),
    }


SHOWN_LATER = {"PublishedTuckerCompletion": r"learning_rate=0\.005,\s+"}
"""Parameters that were defaults when models were stored, and are shown since."""


def described(estimator, output):
    """What has to be the same after loading, of what nothing random is drawn for."""
    shown = SHOWN_LATER.get(type(estimator).__name__, "$^")
    description = {"parameters": re.sub(shown, "", str(estimator))}
    if hasattr(estimator, "privacy_guarantee_"):
        # Not the words that depend on the table, or say which release it is.
        words = {"protected": "", "scope": ""}
        description["guarantee"] = str(replace(estimator.privacy_guarantee_, **words))
    if hasattr(estimator, "noise_variance_"):
        description["variance"] = np.asarray(estimator.noise_variance_)
    if hasattr(estimator, "model_variance_"):
        description["model variance"] = np.asarray(estimator.model_variance_)
    if hasattr(estimator, "predict"):
        description["output"] = output
    return description


def store():
    """Add to the files of this minor version: estimators and what they give."""
    minor = ".".join(sktensordp.__version__.split(".")[:2])
    STORED.mkdir(exist_ok=True)
    for name, (write, _) in FORMATS.items():
        path = STORED / f"{minor}.{name}.xz"
        things = stored(path) if path.exists() else {}
        for case in CASES:
            # Each for itself, so that one that cannot be read hides no other.
            if case.label not in things:
                estimator, output = fitted(case)
                things[case.label] = write(estimator), described(estimator, output)
        if name == "files":
            for label, client in clients().items():
                things.setdefault(label, (write(client), client.to_json()))
        path.write_bytes(lzma.compress(pickle.dumps(things, protocol=4)))


def fitted(case):
    """A fitted estimator, and what it answers once it was stored."""
    seeded = {} if case.private == "ids" else {"random_state": 0}
    estimator, output = case.release(**seeded)
    if case.private in ("users", "choices"):
        # What is stored predicts without users' own rows, and warns of it.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This model was deep-copied or pickled")
            output = pickle.loads(pickle.dumps(estimator)).predict(case.data[0])
    return estimator, output


def stored(path):
    return pickle.loads(lzma.decompress(path.read_bytes()))


def loads_of(path):
    """What reads the things in a file of tests/stored."""
    return FORMATS[path.name.split(".")[2]][1]


FILES = sorted(STORED.glob("*.xz"))


def version_of(path):
    return tuple(int(part) for part in path.name.split(".")[:2])


def test_every_minor_version_that_is_read_has_a_file():
    major, minor = map(int, sktensordp.__version__.split(".")[:2])
    for name in FORMATS:
        files = {version_of(p): p for p in FILES if p.name.endswith(f"{name}.xz")}
        assert (major, minor) in files
        assert base._OLDEST in files
        assert all(version >= base._OLDEST for version in files)
        more = set(clients()) if name == "files" else set()
        assert set(stored(files[major, minor])) == set(LABELS) | more


@pytest.mark.filterwarnings("ignore:This model was deep-copied or pickled")
@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_stored_estimators_work(path, label):
    if label not in stored(path):
        pytest.skip("came later")
    whole, before = stored(path)[label]
    case = next(case for case in CASES if case.label == label)
    estimator = loads_of(path)(whole)
    output = answer(estimator, case.data[0])
    assert np.all(np.isfinite(output))
    after = described(estimator, output)
    assert after.keys() == before.keys()
    for name in after:
        if name in ("output", "variance", "model variance"):
            np.testing.assert_allclose(after[name], before[name], rtol=1e-9, atol=1e-12)
        elif name == "parameters":  # in lines that may break elsewhere
            assert after[name].split() == before[name].split()
        else:
            assert after[name] == before[name]
    # And it goes on.
    estimator.fit(*case.data)


@pytest.mark.parametrize("label", ["CompletionClient", "EncoderClient"])
@pytest.mark.parametrize(
    "path", [p for p in FILES if "files" in p.name], ids=lambda path: path.stem
)
def test_stored_clients_work(path, label):
    whole, before = stored(path)[label]
    assert loads_of(path)(whole).to_json() == before


@pytest.mark.parametrize("case", EVERY)
def test_every_pickle_carries_the_version(case):
    fitted, _ = case.release()
    for estimator in (case.fresh(), fitted):
        state = estimator.__getstate__()
        assert state["_sktensordp_version"] == sktensordp.__version__
        for copied in (
            copy.deepcopy(estimator),
            clone(estimator),
            copy.copy(estimator),
        ):
            assert "_sktensordp_version" not in vars(copied)


@pytest.mark.parametrize("case", RELEASING[::5])
@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("0.0.9", r"stored by sktensordp 0\.0\.9.*Load it with sktensordp 0\.0, in"),
        (None, "another release"),
        ("0.1.0", r"stored by sktensordp 0\.1\.0.*Load it with sktensordp 0\.1, in"),
        ("0.3.0rc1", "or a later version to load it"),
        ("3.0", "or a later version to load it"),
    ],
)
def test_what_is_not_read_says_what_to_do(case, version, message, monkeypatch):
    estimator = case.fresh().fit(*case.data)
    state = estimator.__getstate__()
    monkeypatch.setattr(
        type(estimator), "__getstate__", lambda _: other(state, version)
    )
    pickled = pickle.dumps(estimator)
    with pytest.raises(pickle.UnpicklingError, match=message):
        pickle.loads(pickled)


def other(state, version):
    state = {**state, "_sktensordp_version": version}
    if version is None:
        del state["_sktensordp_version"]
    return state


def test_older_versions_of_the_same_minor_are_read(monkeypatch):
    fitted = LaplaceMechanism(bounds=(0, 1)).fit(np.zeros((2, 3)))
    pickled = pickle.dumps(fitted)
    for version in ("0.2.0", "0.2.7", "0.2.0.dev3+local", "0.3.0"):
        monkeypatch.setattr(base, "__version__", version)
        assert pickle.loads(pickled).transform(np.zeros((2, 3))).shape == (2, 3)
    monkeypatch.setattr(base, "_OLDEST", (0, 3))
    with pytest.raises(pickle.UnpicklingError, match="another release"):
        pickle.loads(pickled)


class Gone:
    """What no other version has."""


def test_the_version_is_read_before_all_that_only_it_has(monkeypatch):
    fitted = LaplaceMechanism(bounds=(0, 1)).fit(np.zeros((2, 3)))
    fitted.gone_ = Gone()
    monkeypatch.setattr(base, "__version__", "0.9")
    pickled = pickle.dumps(fitted)
    monkeypatch.setattr(base, "__version__", "0.2.0")
    monkeypatch.delattr(f"{__name__}.Gone")
    with pytest.raises(pickle.UnpicklingError, match=r"stored by sktensordp 0\.9"):
        pickle.loads(pickled)


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_stored_is_never_stored_anew(name, monkeypatch, tmp_path):
    """A file grows: what a commit stored stays as it was."""
    (file,) = [p for p in FILES if p.name.endswith(f"{name}.xz")][-1:]
    kept, path = stored(file), tmp_path / file.name
    first, *others = kept
    path.write_bytes(lzma.compress(pickle.dumps({first: kept[first]})))
    monkeypatch.setattr(f"{__name__}.STORED", tmp_path)
    some = [case for case in CASES if case.label in (first, others[0])]
    monkeypatch.setattr(f"{__name__}.CASES", some)
    store()
    assert stored(path).keys() - clients().keys() == {first, others[0]}
    assert stored(path)[first][0] == kept[first][0]


def test_joblib_too(tmp_path, monkeypatch):
    model = CPCompletion(0, epsilon=math.inf).fit([[0, 0], [1, 1]], [0.0, 1.0])
    joblib.dump(model, tmp_path / "model")
    assert joblib.load(tmp_path / "model").predict([[1, 1]]) == model.predict([[1, 1]])
    monkeypatch.setattr(base, "__version__", "0.0.1")
    with pytest.raises(pickle.UnpicklingError, match="or a later version to load it"):
        joblib.load(tmp_path / "model")


def test_the_version_has_the_form_that_is_compared():
    assert re.match(r"\d+\.\d+", sktensordp.__version__)


if __name__ == "__main__":
    store()
