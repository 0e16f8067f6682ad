"""What is kept, said or stored of private data and of noise: nothing."""

import copy
import gc
import logging
import os
import subprocess
import sys
import warnings
import weakref
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import sktensordp
from sktensordp.completion import CoordinateEncoder, CPCompletion
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.noise import LaplaceLattice
from tests.support import noise
from tests.support.callbacks import Listener, needs_callbacks
from tests.support.every_estimator import CASES, EVERY, RELEASING, slow_repeats
from tests.support.generated import SHOWN, SPOILT, SPOILT_1D, SPOILT_2D
from tests.support.leak_hunt import (
    Secrets,
    generators_alive,
    in_exception,
    numbers_in,
    released,
    state_of_modules,
)
from tests.support.planted_data import (
    LARGEST,
    LEAST,
    N_USERS,
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

# Some tensors have no NaN, which warns.
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:X has no NaN:UserWarning"),
    # Threads enter `warnings.catch_warnings` side by side.
    pytest.mark.usefixtures("restored_filters"),
]

USERS = [case for case in CASES if case.private == "users"]
# The last case of each class.
OF_CLASSES = {(type(one.estimator), one.private): one for one in CASES}.values()
TENSOR = next(case for case in CASES if case.label == "CPCompletion, values, noise")


# --- kept by what is fitted ----------------------------------------------------------


def add_noise(secrets, keys, streams):
    """Keys, and the first words of all noise, of what was released."""
    for key in keys:
        secrets.add_key("key", key)
    for key, block in streams:
        secrets.add_key("noise", noise.words_of(key, block))


def local_of(estimator):
    """What an estimator keeps for this process alone; so do the steps that it fits."""
    fitted = getattr(estimator, "_fitted", None)
    found = [getattr(fitted, name, None) for name in ("local", "lookups")]
    return found + (local_of(inner) if (inner := inner_of(fitted)) else [])


def inner_of(fitted):
    """The completion that a recommender has fitted, or None."""
    return getattr(fitted, "completion", None)


def found_in(secrets, estimator, others=()):
    """Findings in an estimator, in what else it gave, and in all copies of these."""
    local = local_of(estimator)
    found = secrets.hunt(estimator, skip=local, name="estimator")
    found += secrets.hunt(copy.copy(estimator), skip=local, name="copy")
    found += released(secrets, estimator)
    for one in others:
        found += secrets.hunt(one, skip=local, name=type(one).__name__)
        if hasattr(one, "privatize"):
            found += released(secrets, one)
    return found


# TLDP as published releases some entries as they are.
HIDING = [one for one in EVERY if "PublishedTensorRandomizedResponse" not in one.id]


@pytest.mark.parametrize("case", slow_repeats(HIDING))
def test_nothing_is_kept(case, keys, streams):
    secrets = secrets_of(case)
    for way, estimator in fits_of(case):
        out = used(case, estimator, *private_data(case))
        if case.private == "samples":
            add_code_and_noise(secrets, case, estimator, out[0])
        add_noise(secrets, keys, streams)
        assert not found_in(secrets, estimator, out), way


def left_in_memory(cases):
    """What is alive after fits and uses: labels of arrays of data; sources of noise."""
    # Tests of interruptions leave some sources, in tracebacks.
    before, kept = len(generators_alive()), []
    for case in cases:
        data = private_data(case)
        estimator = fresh(case).fit(*data_of(case) if is_encoder(case) else data)
        out = used(case, estimator, *data)
        kept.append(
            (case.label, [weakref.ref(array) for array in data], estimator, out)
        )
        del data
    gc.collect()
    found = [
        label for label, arrays, *_ in kept if any(ref() is not None for ref in arrays)
    ]
    return found + ["noise"] * (len(generators_alive()) > before)


def test_nothing_stays_in_the_process(keys, streams):
    assert left_in_memory(OF_CLASSES) == []
    secrets = Secrets()
    for case in OF_CLASSES:
        # Whole numbers are many in tables of laws that other tests have asked for.
        planted = secrets_of(case)
        for name in ("user", "entries of the user", "entries", "users"):
            planted = planted.without(name)
        secrets.update(planted.without("entries of an item"))
    add_noise(secrets, keys, streams)
    assert keys
    assert streams
    assert not secrets.hunt(state_of_modules(), skip=[keys, streams])


@pytest.mark.parametrize("case", [case for case in EVERY if is_encoder(case.values[0])])
def test_rows_that_an_encoder_learned_from_are_not_kept(case):
    fitted_to = samples(case, 7)
    secrets = Secrets().plant("row", *fitted_to.ravel().tolist())
    secrets.add("centred row", fitted_to - fitted_to.mean(axis=0))
    estimator = fresh(case).fit(fitted_to)
    assert not found_in(secrets, estimator, [estimator.client()])


@pytest.mark.parametrize("case", USERS, ids=lambda case: case.label)
def test_rows_of_users_are_no_values_and_stay_in_the_process(case):
    X, y = tensor_data(case)
    estimator = fresh(case).fit(X, y).fold_in(X, y)
    estimator.predict(X)
    secrets = Secrets().plant("planted", RARE).add("y", y).add("scaled", 2 * y - 1)
    local = local_of(estimator)
    assert not secrets.hunt(local)
    (rows,) = (one for one in local if hasattr(one, "rows"))
    row = rows.rows[0]
    assert np.all(row)
    for kind, kept in (("row", rows), ("user", local[0])):
        found = Secrets().add("row", row) if kind == "row" else Secrets()
        assert found.add_whole("user", USER).hunt(kept)
    secrets.add("row", row).add_whole("user", USER)
    assert not released(secrets, estimator)


@pytest.mark.parametrize("case", slow_repeats(RELEASING))
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


# --- kept of the tries of a search: the best alone -----------------------------------

SEARCHED = {
    "entries": next(c for c in CASES if c.label.startswith("PublishedCPCompletion")),
    "users": USERS[0],
}
# Of each, a parameter that no two tries have the same value of, and does no harm.
PARAMETERS = {"entries": "regularization", "users": "max_iter"}


class Tries:
    """What every try was: to be searched for in what is left."""

    def __init__(self, X, y, planted, parameter):
        self.X, self.y, self.planted, self.parameter = X, y, planted, parameter
        self.secrets = Secrets()
        self.fits, self.numbers, self.params = [], [], []
        self.totals, self.splits = [], []

    def fitted(self, candidate, X, y):
        self.fits.append(weakref.ref(candidate))
        self.numbers.append(numbers_in(candidate, skip=[X]))
        self.params.append(getattr(candidate, self.parameter))
        self.splits.append([])
        self.used(y)

    def used(self, y):
        """Rows of the last try, by their values: no two are the same."""
        where = {value: k for k, value in enumerate(self.y)}
        self.splits[-1].append(np.array([where[value] for value in y]))

    def asked(self, X):
        """Those that are left."""
        left = np.setdiff1d(np.arange(len(self.y)), np.concatenate(self.splits[-1]))
        rows = {}
        for k in left:
            rows.setdefault(tuple(self.X[k]), []).append(k)
        self.splits[-1].append(np.array([rows[tuple(x)].pop(0) for x in X]))

    def scored(self, total):
        self.totals.append(total)
        self.secrets.add_whole("raw score", total)
        for rows in self.splits[-1]:
            held = np.isin(np.arange(len(self.X)), rows)
            for raw in (rows, np.sort(rows), held, ~held, rows.astype(np.int32)):
                self.secrets.add_bytes("split", raw.tobytes())
            self.secrets.add_bytes("held out", self.X[rows].tobytes())

    def losers(self, best):
        """Secrets of the tries that were not the best."""
        known = np.concatenate([numbers_in(best), [getattr(best, self.parameter)]])
        for found, param in zip(self.numbers, self.params, strict=True):
            if param != getattr(best, self.parameter):
                found = np.append(found, param)
                new = ~np.isclose(found[:, None], known, 1e-9, 0).any(axis=1)
                self.secrets.add("loser", found[new])
        return self.secrets


@pytest.fixture
def tries(kind, monkeypatch):
    """All tries, as they are fitted, given histories, and scored."""
    case = SEARCHED[kind]
    found = Tries(*tensor_data(case), secrets_of(case), PARAMETERS[kind])

    def observe(owner, name, see):
        start = getattr(owner, name)

        def observed(*args, **options):
            result = start(*args, **options)
            see(*args)
            return result

        monkeypatch.setattr(owner, name, observed)

    def scored(lattice, values, *_):
        if lattice.n_steps is None:
            found.scored(int(values[0]))

    observe(CPCompletion, "fit", found.fitted)
    observe(CPCompletion, "fold_in", lambda _, X, y: found.used(y))
    observe(CPCompletion, "predict", lambda _, X: found.asked(X))
    observe(LaplaceLattice, "randomize", scored)
    return found


class LogUniform:
    """Numbers that no other try has."""

    def rvs(self, size=None, random_state=None):
        return 10 ** random_state.uniform(-3, 0, size)


def search_of(kind, **options):
    params = {"shape": (N_USERS, 3)} if kind == "users" else {"max_iter": 3}
    numbers = LogUniform() if kind == "entries" else range(10**6, 10**6 + 99)
    return PrivateSearchCV(
        SEARCHED[kind].fresh(**params), {PARAMETERS[kind]: numbers},
        score_bounds=(-1, 0), n_iter_distribution="poisson", random_state=1, **options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "refit"),
    [
        ("entries", True),
        ("entries", "keep"),
        ("entries", False),
        pytest.param("users", "keep", marks=pytest.mark.slow),
    ],
)
def test_nothing_of_the_losers_is_kept(kind, refit, tries):
    search = search_of(kind, refit=refit).fit(*tensor_data(SEARCHED[kind]))
    kept = [search.best_estimator_] if refit else []
    best = kept[0] if kept else search.estimator.set_params(**search.best_params_)
    secrets = tries.losers(best)
    assert "loser" in secrets
    local = [part for one in kept for part in local_of(one)]
    if refit == "keep":
        # Coordinates are public, and which of them it was fitted to.
        local += kept[0]._fitted.observed
        secrets = secrets.without("split")
    secrets.update(tries.planted)
    assert not secrets.hunt(search, skip=local) + released(secrets, search)
    gc.collect()
    assert len(tries.totals) > 5
    alive = [fit() for fit in tries.fits[: len(tries.totals)] if fit() is not None]
    assert alive == (kept if refit == "keep" else [])


@pytest.mark.parametrize("kind", ["entries"])
def test_what_is_kept_of_tries_is_found(tries):
    search = search_of("entries", refit=False).fit(*tensor_data(SEARCHED["entries"]))
    best = search.estimator.set_params(**search.best_params_)
    secrets = tries.losers(best)
    assert not secrets.hunt(search)
    loser = next(k for k, p in enumerate(tries.params) if p != best.regularization)
    for kept in (
        tries.splits[0],
        np.isin(np.arange(12), tries.splits[0][1]),
        float(tries.totals[loser]),
        {"of": tries.params[loser]},
        tries.numbers[loser],
    ):
        search.kept_ = kept
        assert secrets.hunt(search)


@pytest.mark.parametrize("kind", ["entries"])
@needs_callbacks
def test_tries_are_not_heard_of(tries, monkeypatch):
    """How often callbacks are called, or warnings given, would tell how many were."""
    fit = CPCompletion.fit

    def warning(*arguments):
        warnings.warn("tried", UserWarning, stacklevel=2)
        return fit(*arguments)

    search, listener = search_of("entries", refit=False), Listener()
    search.estimator.set_callbacks(listener)
    pipeline = make_pipeline(CoordinateEncoder(), search.estimator)
    other = PrivateSearchCV(
        pipeline,
        {"publishedcpcompletion__rank": [1]},
        score_bounds=(-1, 0),
        refit=False,
        random_state=0,  # no fold lacks an id
    )
    monkeypatch.setattr(CPCompletion, "fit", warning)
    with warnings.catch_warnings(record=True, action="always") as caught:
        search.fit(*tensor_data(TENSOR))
        assert len(tries.totals) > 5
        other.fit(*tensor_data(TENSOR))
    assert not caught
    assert not listener.heard


# --- said by errors, warnings, logs and callbacks ------------------------------------


def changed(array, value):
    """The array with one item replaced, next to those that are planted."""
    array = np.array(array, dtype=float)
    array.flat[0] = value
    return array


def spoiled(array):
    """The array spoiled in every way, by name."""
    array = np.asarray(array)
    made = SPOILT | {1: SPOILT_1D, 2: SPOILT_2D}.get(array.ndim, {})
    numbers = [np.nan, -np.inf, 1e308, RARE, -USER, N_USERS + USER]
    return {
        **{name: make(array) for name, make in made.items()},
        **{f"with {float(number):.4}": changed(array, number) for number in numbers},
        "texts": np.full(array.shape, f"{RARE} x{USER}"),
        "all as text": array.astype(str),
        "nothing": array[:0],
        "one row": array[0],
        "flat": array.ravel(),
        "deeper": array[..., np.newaxis],
        "more columns": np.concatenate([array, array], axis=-1),
        "scalar": array.flat[3],
        "records": np.array([(USER, RARE)] * 3, dtype=[("user", int), ("y", float)]),
    }


def bad_calls(case, estimator):
    """Yield what to call with bad data after a fit, or for one, by name."""
    X, *rest = private_data(case)
    names = ["fit", "fit_transform", "partial_fit", "fold_in", "score"]
    names += ["scale_values", "unscale_values", "predict", "transform", "variance"]
    names += ["privatize", "decode", "inverse_transform"]
    with_y = set(names[:7]) if rest else {"score"}
    for name in names:
        if not hasattr(estimator, name):
            continue
        method = fresh(case).fit if name == "fit" else getattr(estimator, name)
        for spoil, bad in spoiled(X).items():
            yield f"{name}, X: {spoil}", method, (bad, *rest)
        if name in with_y and rest:
            for spoil, bad in spoiled(rest[0]).items():
                yield f"{name}, y: {spoil}", method, (X, bad)
            yield f"{name}, y is short", method, (X, rest[0][:-1])
            yield f"{name}, pair", method, (X, np.column_stack([rest[0]] * 2))
    if hasattr(estimator, "fit_batches"):
        for spoil, bad in spoiled(X).items():
            batches = [data_of(case), (bad, rest[0])] if rest else [*data_of(case), bad]
            yield f"batches, X: {spoil}", fresh(case).fit_batches, (batches,)
        for spoil, bad in spoiled(rest[0]).items() if rest else ():
            yield f"batches, y: {spoil}", fresh(case).fit_batches, ([(X, bad)],)
    if hasattr(estimator, "recommend"):
        for spoil, bad in spoiled(X[:, 0]).items():
            yield f"recommend: {spoil}", estimator.recommend, (bad,)
    if hasattr(estimator, "client"):
        for spoil, bad in spoiled(rest[0] if rest else X).items():
            yield f"client: {spoil}", estimator.client().privatize, (bad,)


class LogListener(logging.Handler):
    """All records of all loggers, as text."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.said = []

    def emit(self, record):
        self.said.append((record.getMessage(), record.args, record.exc_info))


@pytest.fixture
def heard(capfd, monkeypatch):
    """Findings of secrets in all that was said since the test began."""
    listener, root = LogListener(), logging.getLogger()
    monkeypatch.setattr(root, "level", logging.DEBUG)
    root.addHandler(listener)
    with warnings.catch_warnings(record=True, action="always") as caught:

        def findings(secrets):
            said = [(w.message.args, str(w.message), w.source) for w in caught]
            return secrets.hunt([said, listener.said, *capfd.readouterr()])

        yield findings
    root.removeHandler(listener)


# Of every method and way to spoil data a class tries a sixth, another one each.
N_PARTS = 6


@pytest.mark.parametrize("case", OF_CLASSES, ids=lambda case: case.label)
def test_errors_show_no_data(case, heard):
    # How long arrays are, messages say.
    secrets = secrets_of(case).without("entries")
    estimator = fresh(case).fit(*data_of(case))
    found, raised, first = {}, 0, CASES.index(case)
    for number, (name, method, bad) in enumerate(bad_calls(case, estimator), first):
        if number % N_PARTS:
            continue
        try:
            method(*bad)
        except Exception as error:
            raised += 1
            if what := in_exception(secrets, error) or SHOWN.search(str(error)):
                found[name] = what
    assert raised > 10
    assert not found
    assert not heard(secrets)


class Watcher:
    """A callback that hunts in all that it is handed."""

    def __init__(self, secrets):
        self.secrets, self.found, self.n_hooks = secrets, [], 0

    def look(self, *handed):
        self.n_hooks += 1
        self.found += self.secrets.hunt(handed, skip=[self, *local_of(handed[0])])

    def setup(self, estimator, context):
        self.look(estimator, context)

    teardown = setup

    def on_fit_task_begin(
        self, estimator, context, *, X=None, y=None, metadata=None,
        fitted_estimator=None,
    ):  # fmt: skip
        self.look(estimator, context, X, y, metadata, fitted_estimator)

    on_fit_task_end = on_fit_task_begin


@pytest.mark.parametrize("case", slow_repeats(EVERY))
@needs_callbacks
def test_nothing_is_said_by_the_way(case, heard):
    secrets = secrets_of(case)
    watcher = Watcher(secrets)

    def prepared(estimator):
        if hasattr(estimator, "verbose"):
            estimator.verbose = 3
        return estimator.set_callbacks(watcher)

    for way, estimator in fits_of(case, prepared):
        used(case, estimator, *private_data(case))
        assert not watcher.found, way
    is_search = hasattr(case.estimator, "param_distributions")
    assert (watcher.n_hooks > 4) is not is_search
    assert not heard(secrets)


@needs_callbacks
def test_what_callbacks_are_handed_is_searched(monkeypatch):
    start = CPCompletion.fit

    def leaking(estimator, X, y):
        estimator._values = y
        return start(estimator, X, y)

    watcher = Watcher(secrets_of(TENSOR))
    monkeypatch.setattr(CPCompletion, "fit", leaking)
    fresh(TENSOR).set_callbacks(watcher).fit(*data_of(TENSOR))
    assert watcher.found


# --- left on a disk ------------------------------------------------------------------

PLACES = ("HOME", "TMPDIR", "JOBLIB_TEMP_FOLDER", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
SCRIPT = """
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sktensordp.completion import CPCompletion
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.model_selection import PrivateSearchCV
from tests.support.noise import taking

numbers = list(map(float, sys.argv[1:]))

def of_rows(estimator, X, y):
    # So large an array reaches a worker as a file.
    assert list(Path(os.environ["JOBLIB_TEMP_FOLDER"]).rglob("*.pkl"))
    return -np.abs(y - estimator.predict(X))

taken = taking()
keys = taken.__enter__()
rng = np.random.default_rng(0)
y = rng.choice(numbers, 150_000)
noise = make_pipeline(LaplaceMechanism(bounds=(0, 1)), LinearRegression())
options = dict(n_iter=2, score_bounds=(-1, 0), scoring=of_rows, cv=2, n_jobs=2)
grid = {"linearregression__fit_intercept": [True]}
PrivateSearchCV(noise, grid, **options).fit(y[:, None], y)
X, y = rng.integers(0, 100, (50, 2)), y[:50]
model = CPCompletion(0, perturbation="input", value_bounds=(0, 1), max_iter=1)
users = CPCompletion(1, unit=0, shape=(100, 100), delta=1e-3, value_bounds=(0, 1))
# So large a tensor is worth a compilation.
large = CPCompletion(1, perturbation="input", value_bounds=(0, 1), max_iter=1)
large.fit(rng.integers(0, 30, (12_000, 3)), rng.choice(numbers, 12_000))
release = noise[0].fit(y[:8, None]).transform
with ThreadPoolExecutor(4) as pool:
    list(pool.map(lambda one: one.fit(X, y).predict(X[:9]), [model, users]))
    list(pool.map(release, [y[:8, None]] * 8))
print(*[key.hex() for key in keys])
"""


def files_in(folder, secrets):
    """Findings in the names and the bytes of all files."""
    found = []
    for path in folder.rglob("*"):
        said = secrets.in_text(path.name)
        if path.is_file():
            said |= secrets.in_bytes(path.read_bytes(), floats=False)
        found += [f"{path.relative_to(folder)}: {what}" for what in said]
    return found


@pytest.mark.slow
def test_no_file_holds_data_or_a_key(tmp_path):
    """Of a process that finds its folders empty, and compiles."""
    environ = {**os.environ, **{place: str(tmp_path / place) for place in PLACES}}
    for place in PLACES:
        (tmp_path / place).mkdir()
    package = Path(sktensordp.__file__).parent
    tests = Path(noise.__file__).parents[2]
    path = [str(package.parent), str(tests), environ.get("PYTHONPATH")]
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(repr, (RARE, LEAST, LARGEST))],
        env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    secrets, keys = (
        Secrets().plant("planted", RARE, LEAST, LARGEST),
        done.stdout.split(),
    )
    # Where Python stores compiled modules, and numba by default.
    assert not files_in(package, secrets)
    for key in keys:
        secrets.add_key("key", bytes.fromhex(key))
    assert len(keys) > 10
    assert list((tmp_path / "NUMBA_CACHE_DIR").rglob("*.nbi"))
    assert not secrets.in_text(done.stderr)
    assert not files_in(tmp_path, secrets)
    # What memory of large arrays was shared is gone.
    assert not list((tmp_path / "JOBLIB_TEMP_FOLDER").rglob("*.pkl"))


def test_a_file_with_data_or_a_key_is_found(tmp_path):
    key = bytes(range(7, 23))
    secrets = Secrets().plant("planted", RARE).add_key("key", key)
    (tmp_path / "deep").mkdir()
    path = tmp_path / "deep" / "left"
    path.write_bytes(b"nothing of interest, 0.123456789")
    assert not files_in(tmp_path, secrets)
    for write in (
        lambda: path.write_bytes(np.array([0.1, RARE]).tobytes()),
        lambda: np.savetxt(path, [[0.1, RARE]], fmt="%.6f"),
        lambda: path.write_text(f"seed={key.hex()}"),
    ):
        write()
        assert files_in(tmp_path, secrets)
