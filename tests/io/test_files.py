"""Files without code: what they hold, what they refuse, and how they are written."""

import os
import pickle
import re
import stat
import threading
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import sktensordp
from sktensordp import io
from sktensordp.completion import CoordinateEncoder, CPCompletion, Recommender
from sktensordp.encoding import TaskAwareEncoder, TorchTask
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.model_selection import PrivateSearchCV, UserKFold
from sktensordp.privacy import PrivacyBudget, privacy_of
from tests import golden
from tests.support.answers import ASKED, NOT_ASKED, answers_of, methods_of
from tests.support.every_estimator import (
    CASES,
    RANGE,
    ROWS,
    TASK,
    USERS,
    VALUES,
    WHERE,
)
from tests.support.processes import in_spawned
from tests.support.seams import TABLE, class_of

safetensors = pytest.importorskip("safetensors")

# What loses users' rows warns of it once.
pytestmark = pytest.mark.filterwarnings("ignore:This model was deep-copied or pickled")


@pytest.fixture
def again(tmp_path):
    """What is loaded after a model was stored."""

    def stored_and_loaded(model):
        io.dump(model, tmp_path / "model")
        return io.load(tmp_path / "model")

    return stored_and_loaded


def asked(case):
    """What answers are asked about: X, and y if there is one."""
    return case.data[:2]


def expected(estimator, case):
    """The answers of the model, or where it forgets users' rows, of its pickle."""
    if case.private in ("users", "choices"):
        estimator = pickle.loads(pickle.dumps(estimator))
    return answers_of(estimator, *asked(case))


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, id=case.label, marks=[pytest.mark.thorough] * ("search" in case.label)
        )
        for case in CASES
    ],
)
def test_all_answers_are_restored(case, again):
    estimator, _ = case.release(**case.seeded())
    loaded = again(estimator)
    assert answers_of(loaded, *asked(case)) == expected(estimator, case)
    unfitted = again(case.fresh())
    assert not hasattr(unfitted, "privacy_guarantee_")
    assert str(unfitted) == str(case.fresh())


def of_files(files):
    """Answers of files, in another process."""
    return [answers_of(io.load(path), *data) for path, data in files]


@pytest.mark.thorough
def test_in_another_process(tmp_path):
    files, here = [], []
    for number, case in enumerate(CASES):
        estimator, _ = case.release(**case.seeded())
        files.append((tmp_path / f"{number}", asked(case)))
        io.dump(estimator, files[-1][0])
        here.append(expected(estimator, case))
    assert in_spawned(of_files, files) == here
    # Each method answers somewhere.
    answered = set().union(*here)
    assert ASKED.keys() <= answered


def test_all_methods_are_asked():
    for case in CASES:
        assert methods_of(type(case.estimator)) <= ASKED.keys() | NOT_ASKED


@pytest.mark.slow
def test_fits_of_other_parameters(monkeypatch, tmp_path):
    """All seeded fits of the project, not only those of one case for each class."""
    n_restored, refused = 0, []

    def restored(estimator, **_):
        nonlocal n_restored
        try:
            io.dump(estimator, tmp_path / "model")
        except TypeError as error:
            refused.append(str(error))
        else:
            before = golden_parts(estimator)
            after = golden_parts(io.load(tmp_path / "model"))
            for name, value in before.items():
                assert golden.hashed(value) == golden.hashed(after[name])
            n_restored += 1
        return {}

    golden_parts = golden.parts
    monkeypatch.setattr(golden, "parts", restored)
    errors = [one for one in golden.results("").values() if "error" in one]
    assert not errors
    assert all(re.search("Ridge|MLPRegressor|GridSearchCV", text) for text in refused)
    assert n_restored > 100


def test_clients(again):
    for client in (
        CPCompletion(0, levels=[1, 2, 3]).client(),
        TaskAwareEncoder(mechanism="laplace", **{"task": TASK["task"]})
        .fit(ROWS)
        .client(),
    ):
        loaded = again(client)
        assert loaded.to_json() == client.to_json()
        assert loaded.privacy_guarantee_ == client.privacy_guarantee_


def test_the_noise_of_a_seed_is_never_repeated(tmp_path):
    mechanism = LaplaceMechanism(bounds=(0, 1), random_state=0).fit(ROWS)
    released = [mechanism.transform(ROWS)]
    io.dump(mechanism, tmp_path / "one")
    for number in range(3):
        mechanism = io.load(tmp_path / "one")
        released.append(mechanism.transform(ROWS))
        io.dump(mechanism, tmp_path / "one")
        assert privacy_of(mechanism).releases[0][1] == number + 2
    for first in range(4):
        for second in range(first):
            assert np.all(released[first] != released[second])


def test_a_recommender_and_its_completion_count_together(again):
    """One count of releases stays one, so that no key is drawn twice."""
    table = [["ann", "Heat"], ["ann", "Up"], ["bob", "Heat"]]
    model = Recommender(CPCompletion(0, levels=[1, 2, 3], random_state=0))
    loaded = again(model.fit(table, [1, 2, 3]))
    first = loaded.predict(table)
    assert np.any(loaded.fit(table, [1, 2, 3]).predict(table) != first)
    counters = {id(one._count_releases()) for one in (loaded, loaded.completion_)}
    assert len(counters) == 1


IDS = {
    "text": ["b", "a", "ü\ud800", ""],
    "many texts": [f"id-{number}\ud800" for number in range(100)],
    "bytes": [b"\xff", b"a", b"", b"b"],
    "numbers": [3, 1, 2, 2**63],
    "many numbers": list(range(0, 400, 4)),
    "floats": [0.5, 1.5, -0.0, 1e300],
    "dates": [date(2026, 1, day) for day in (1, 2, 3, 4)],
    "times": [datetime(2026, 1, day, 1, 2, 3, 4, UTC) for day in (1, 2, 3, 4)],
    "times of NumPy": np.array(["2026-01-01", "2026-02-01"], "M8[D]"),
    "fixed text": np.array(["long one", "ü\ud800"]),
    "fixed text of other machines": np.array(["long one", "b"]).astype(">U8"),
    "fixed bytes": np.array([b"long one", b"b"]),
    "objects": np.array(["x", "y"], dtype=object),
    "decimals": [Decimal("1.50"), Decimal("2")],
    "uuids": [uuid.UUID(int=number) for number in range(4)],
    "booleans": [True, False],
    "a range": range(5),
    "scalars of NumPy": [np.int64(4), np.float32(0.5)],
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_ids_keep_their_types(ids, again):
    encoder = CoordinateEncoder(categories=[ids])
    kept = again(encoder).categories[0]
    assert type(kept) is type(ids)
    assert repr(list(kept)) == repr(list(ids))
    assert list(map(type, kept)) == list(map(type, ids))
    if isinstance(ids, np.ndarray):
        assert (kept.dtype, kept.shape) == (ids.dtype.newbyteorder("="), ids.shape)
    column = np.fromiter(ids, object, len(ids))[:, None]
    try:
        encoder.fit(column)
    except ValueError:
        return  # not ids of an encoder
    np.testing.assert_array_equal(
        again(encoder).transform(column), encoder.transform(column)
    )


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_frames_of_a_fit(library, again):
    frames = pytest.importorskip(library)
    table = frames.DataFrame({"user": ["a", "b"], "item": ["x", "y"]})
    model = Recommender(CPCompletion(0, levels=[1, 2])).fit(table, [1, 2])
    expected, found = model.recommend(["a"], k=1), again(model).recommend(["a"], k=1)
    assert type(found) is type(expected)
    assert found.tolist() == expected.tolist()


def test_arrays_keep_their_order_and_bits(again):
    noise = np.random.default_rng(0).integers(0, 1000, (4, 3))
    for array in (
        noise.view(float), np.asfortranarray(noise), noise[::2, ::-1], noise[:0],
        noise.astype(">i8"), np.array(3.5), noise > 0, noise.astype("f2"),
        np.array([np.nan, np.inf, -0.0]),
    ):  # fmt: skip
        kept = again(LaplaceMechanism(bounds=array)).bounds
        assert kept.dtype == array.dtype.newbyteorder("=")
        assert kept.shape == array.shape
        assert kept.astype(array.dtype).tobytes() == array.tobytes()
        assert kept.flags.writeable
        assert kept.flags.f_contiguous >= array.flags.f_contiguous
    for value in (float("nan"), float("inf"), -0.0, 10**40, {1: 2, "a": (3,)}, {4}):
        assert repr(again(LaplaceMechanism(value, bounds=(0, 1))).epsilon) == repr(
            value
        )


# --- what a file may not hold ---------------------------------------------------------


def test_no_row_and_no_id_of_a_user(tmp_path):
    items = CoordinateEncoder(categories=[None, ["Heat", "Up"]])
    model = Recommender(CPCompletion(0, unit=0, levels=[1, 2, 3]), items)
    table = [["secret-person", "Heat"], ["another-secret", "Up"]]
    model.fit(table, [1, 2]).fold_in([["secret-person", "Up"]], [3])
    io.dump(model, tmp_path / "model")
    assert b"secret" not in (tmp_path / "model").read_bytes()
    loaded = io.load(tmp_path / "model")
    with pytest.warns(UserWarning, match="never pickled"):
        loaded.recommend("secret-person", k=1)


def test_no_place_of_a_budget(tmp_path):
    """Not even in its block: a file may outlive it. Only the id is there."""
    path = tmp_path / "folder-of-the-budget.db"
    budget = PrivacyBudget(4.0, delta=1e-5, path=path, create=True)
    mechanism = LaplaceMechanism(1.0, bounds=(0, 1)).fit(ROWS)
    with budget.covers(mechanism):
        io.dump(mechanism, tmp_path / "model")
        assert b"folder-of-the-budget" in pickle.dumps(mechanism)
    assert b"folder-of-the-budget" not in (tmp_path / "model").read_bytes()
    loaded = io.load(tmp_path / "model")
    with budget:
        loaded.transform(ROWS)
    assert budget.spent.epsilon == pytest.approx(1.0, rel=1e-3)


def named_function(model, X, y):
    return np.zeros(len(X))


SEARCH = partial(PrivateSearchCV, CPCompletion(0, **RANGE), {"rank": [0]})
REFUSED = {
    "a task model": (lambda: TaskAwareEncoder(task=Ridge()), "`task` of.*Ridge"),
    "a torch task": (
        lambda: TaskAwareEncoder(task=TorchTask(module=None, link="identity")),
        "`task` of TaskAwareEncoder.*TorchTask",
    ),
    "a function": (
        lambda: SEARCH(scoring=named_function), "`scoring` of Private.*named_function",
    ),
    "a lambda in a list": (
        lambda: CoordinateEncoder(categories=[lambda: 0]), "`categories`.*lambda",
    ),
    "objects in an array": (
        lambda: CoordinateEncoder(categories=np.array([object()])), "object of",
    ),
    "a structure": (
        lambda: LaplaceMechanism(bounds=np.zeros(2, "i4,f8")), "ndarray of type",
    ),
    "a lock": (lambda: LaplaceMechanism(bounds=threading.Lock()), "lock of"),
    "a class": (lambda: LaplaceMechanism(bounds=Ridge), "Ridge of"),
    "a module": (lambda: LaplaceMechanism(bounds=os), "os of"),
    "a number of a subclass": (
        lambda: LaplaceMechanism(type("Own", (float,), {})(1), bounds=(0, 1)), "Own of",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_what_users_brought_is_refused_by_name(make, message, tmp_path):
    io.dump(LaplaceMechanism(), tmp_path / "model")
    before = (tmp_path / "model").read_bytes()
    with pytest.raises(TypeError, match=message):
        io.dump(make(), tmp_path / "model")
    assert (tmp_path / "model").read_bytes() == before


def test_what_is_no_model_is_refused(tmp_path):
    for other in (None, {}, Ridge(), LaplaceMechanism):
        with pytest.raises(TypeError, match="model must be an estimator or a client"):
            io.dump(other, tmp_path / "model")
    loop = LaplaceMechanism(bounds=[])
    loop.bounds.append(loop.bounds)
    with pytest.raises(TypeError, match="`bounds` of LaplaceMechanism holds itself"):
        io.dump(loop, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_subclass_of_a_user_is_refused(tmp_path):
    class Own(LaplaceMechanism):
        pass

    with pytest.raises(TypeError, match="model is or holds Own"):
        io.dump(Own(), tmp_path / "model")


PIPELINES = {
    "ids and a completion": (
        lambda: make_pipeline(CoordinateEncoder(), CPCompletion(0, **RANGE)),
        [["ann", "Heat"], ["bob", "Heat"], ["ann", "Up"], ["eve", "Up"]],
    ),
    "nested, with a step that is left out": (
        lambda: Pipeline(
            [
                ("none", "passthrough"),
                ("ids", make_pipeline(CoordinateEncoder(), None)),
                ("rest", CPCompletion(0, **RANGE)),
            ],
            verbose=True,
        ),
        [[1, 2], [3, 2], [1, 5], [7, 5]],
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines_of_our_estimators(name, again):
    make, X = PIPELINES[name]
    model = make().fit(X, [0.0, 1.0, 0.5, 0.25])
    loaded = again(model)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert privacy_of(loaded).releases == privacy_of(model).releases
    assert str(loaded) == str(model)
    assert (loaded.verbose, list(loaded.named_steps)) == (
        model.verbose,
        list(model.named_steps),
    )
    unfitted = again(make())
    assert not hasattr(unfitted[-1], "privacy_guarantee_")


BAD_PIPELINES = {
    "scikit-learn's": (
        lambda: make_pipeline(StandardScaler(), LaplaceMechanism(bounds=(0, 1))),
        "the step 'standardscaler' of Pipeline is or holds StandardScaler",
    ),
    "a user's": (
        lambda: make_pipeline(type("Own", (LaplaceMechanism,), {})()),
        "the step 'own' of Pipeline is or holds Own",
    ),
    "a client": (
        lambda: Pipeline([("one", CPCompletion(0, levels=[1, 2, 3]).client())]),
        "the step 'one' of Pipeline is or holds CompletionClient",
    ),
    "memory": (
        lambda: make_pipeline(LaplaceMechanism(), memory="cache"),
        "`memory` of Pipeline is not None",
    ),
    "transform_input": (
        lambda: make_pipeline(LaplaceMechanism(), transform_input=["X"]),
        "`transform_input` of Pipeline is not None",
    ),
    "a pipeline of a user": (
        lambda: type("Own", (Pipeline,), {})([("one", LaplaceMechanism())]),
        "got Own",
    ),
}


@pytest.mark.parametrize("name", BAD_PIPELINES)
def test_other_steps_and_caches_are_refused_by_name(name, tmp_path):
    make, message = BAD_PIPELINES[name]
    with pytest.raises(TypeError, match=message):
        io.dump(make(), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_letters_take_as_little_as_they_can(again, tmp_path):
    texts = [f"film {number:06d}" for number in range(1000)]
    for text, width in (("", 1), ("\u0142", 2), ("\U0001f3ac", 4)):
        ids = np.array([*texts, text])
        kept = again(CoordinateEncoder(categories=[ids])).categories[0]
        np.testing.assert_array_equal(kept, ids)
        assert kept.dtype == ids.dtype
        size = (tmp_path / "model").stat().st_size
        assert 0 < size - 11 * width * len(ids) < 2000


def test_splitters_of_this_package(again):
    search = again(SEARCH(cv=UserKFold(3, random_state=1)))
    assert (search.cv.n_splits, search.cv.random_state) == (3, 1)


# --- how it is written ----------------------------------------------------------------


def test_the_file_is_one_that_anybody_would_have_written(tmp_path, monkeypatch):
    io.dump(LaplaceMechanism(), tmp_path / "model")
    (tmp_path / "other").write_bytes(b"")
    mode = stat.S_IMODE((tmp_path / "other").stat().st_mode)
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == mode
    assert {path.name for path in tmp_path.iterdir()} == {"model", "other"}
    # A link stays one.
    (tmp_path / "link").symlink_to("model")
    io.dump(LaplaceMechanism(3.0), str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink()
    assert io.load(tmp_path / "model").epsilon == 3.0


@pytest.mark.parametrize("step", ["save_file", "fsync", "replace"])
def test_no_half_of_a_file(step, tmp_path, monkeypatch):
    io.dump(LaplaceMechanism(2.0), tmp_path / "model")

    def full(*_, **__):
        raise OSError("no space left")

    where = os if step != "save_file" else pytest.importorskip("safetensors.numpy")
    monkeypatch.setattr(where, step, full)
    with pytest.raises(OSError, match="no space left"):
        io.dump(LaplaceMechanism(3.0), tmp_path / "model")
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert io.load(tmp_path / "model").epsilon == 2.0


def test_what_is_not_there_is_the_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        io.load(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        io.dump(LaplaceMechanism(), tmp_path / "none" / "model")


def test_every_class_that_is_named_is_there():
    for key in TABLE:
        assert isinstance(class_of(key), type), key


def test_all_public_estimators_are_named():
    kinds = {type(case.estimator) for case in CASES}
    assert kinds <= {class_of(key) for key in TABLE}


def test_the_version_is_that_of_the_package(tmp_path):
    io.dump(LaplaceMechanism(), tmp_path / "model")
    text = f'\\"version\\":\\"{sktensordp.__version__}\\"'
    assert text.encode() in (tmp_path / "model").read_bytes()


def test_what_was_fitted_to_arrays_of_users(again):
    """Predictions of a loaded model, and those of new users folded in."""
    model = CPCompletion(1, perturbation="sums", **USERS).fit(WHERE, VALUES)
    loaded = again(model)
    X, y = [[0, 1], [0, 2]], [0.5, 1.0]
    one, other = (m.fold_in(X, y).predict(X) for m in (model, loaded))
    np.testing.assert_array_equal(one, other)
