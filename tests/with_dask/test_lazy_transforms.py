"""Dask arrays stay lazy: one release a call, a stream a chunk, whatever is repeated."""

import io
import os
import pickle
import re

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from sktensordp.encoding import TaskAwareEncoder
from sktensordp.exceptions import BudgetExceededError, PrivacyLeakWarning
from sktensordp.mechanisms import GaussianMechanism, HybridMechanism, LaplaceMechanism
from sktensordp.privacy import PrivacyBudget
from tests.support.budgets import n_released
from tests.support.every_estimator import RELEASING
from tests.support.leak_hunt import Secrets, pickles_of, texts_of
from tests.support.noise import drawing
from tests.support.refusing import refused
from tests.with_dask.clusters import cluster

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")

SAMPLES = [case for case in RELEASING if case.values[0].private == "samples"]
ROWS = np.linspace(0, 1, 24).reshape(8, 3)
LAPLACE = LaplaceMechanism(bounds=(0, 1)).fit(ROWS)
# A number of samples that chunks of three do not divide.
CHUNKS = (3, 3, 2)


def lazily(X, rows=3):
    """In chunks of whole samples, that are read without a scheduler of threads."""
    return da.from_array(X, chunks=(rows, *X.shape[1:]))


def computed(array, scheduler="synchronous"):
    return array.compute(scheduler=scheduler)


def counted(X, read, rows=3):
    """The same, with a list of the numbers of the chunks that are read."""

    def chunk(part, block_info):
        read.append(block_info[0]["chunk-location"][0])
        return part

    return lazily(X, rows).map_blocks(chunk, dtype=X.dtype, meta=X[:0])


KINDS = np.float64, np.float32, np.int64


@pytest.mark.thorough_after_one
@pytest.mark.parametrize(
    ("case", "kind"),
    [
        pytest.param(*case.values, KINDS[number % 3], id=case.id)
        for number, case in enumerate(SAMPLES)
    ],
)
def test_chunks_are_what_their_streams_make_of_them(case, kind):
    X = case.data[0].astype(kind)
    fitted = case.fresh(random_state=3).fit(case.data[0])
    lazy = fitted.transform(lazily(X))
    found = computed(lazy)
    assert lazy.shape == found.shape
    assert lazy.dtype == found.dtype == (float if kind == np.int64 else kind)
    assert lazy.chunks[0] == CHUNKS
    assert found.tobytes() == computed(lazy).tobytes()
    # The first chunk has the streams that an array of its size has.
    eager = case.fresh(random_state=3).fit(case.data[0]).transform(X[:3])
    np.testing.assert_array_equal(found[:3], eager)
    again = case.fresh(random_state=3).fit(case.data[0]).transform(lazily(X))
    np.testing.assert_array_equal(computed(again), found)
    assert again.name != lazy.name


@pytest.mark.parametrize("case", SAMPLES)
def test_without_noise_it_is_what_arrays_give(case):
    fitted = case.fresh(epsilon=float("inf")).fit(case.data[0])
    lazy = computed(fitted.transform(lazily(case.data[0])))
    np.testing.assert_allclose(lazy, fitted.transform(case.data[0]), rtol=1e-12)


@pytest.mark.parametrize("case", SAMPLES)
def test_chunks_and_calls_share_no_noise(case):
    """By chance, two of 6 releases of 64 equal samples are alike below 1e-6."""
    X = np.repeat(case.data[0][:1], 192, axis=0)
    fitted = case.fresh().fit(case.data[0])
    found = [computed(fitted.transform(lazily(X, 64))) for _ in range(2)]
    parts = [part.tobytes() for whole in found for part in np.split(whole, 3)]
    assert len(set(parts)) == 6


@pytest.mark.parametrize("case", SAMPLES)
def test_fits_read_no_value_where_the_domain_is_declared(case):
    read = []
    lazy = counted(case.data[0], read)
    fitted = case.fresh().fit(lazy)
    eager = case.fresh().fit(case.data[0])
    is_encoder = hasattr(fitted, "decode")
    assert sorted(set(read)) == ([0, 1, 2] if is_encoder else [])
    assert fitted.sample_shape_ == eager.sample_shape_
    assert fitted.n_features_in_ == eager.n_features_in_
    np.testing.assert_array_equal(fitted.noise_variance_, eager.noise_variance_)


@pytest.mark.parametrize("mechanism", [LaplaceMechanism(), HybridMechanism()])
def test_what_is_not_declared_is_read_off_the_chunks(mechanism):
    X, read = 3 * np.linspace(0, 1, 48).reshape(8, 6) - 1, []
    with pytest.warns(PrivacyLeakWarning):
        eager = mechanism.fit(X).noise_variance_
    with pytest.warns(PrivacyLeakWarning), dask.config.set(scheduler="synchronous"):
        lazy = mechanism.fit(counted(X, read))
    np.testing.assert_allclose(lazy.noise_variance_, eager)
    assert sorted(read) == [0, 1, 2]
    assert not lazy.privacy_guarantee_.protects
    X[4] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        mechanism.fit(lazily(X))


def test_the_call_is_one_release_and_computes_nothing(keys):
    read, budget = [], PrivacyBudget(1.0)
    with budget:
        lazy = LAPLACE.transform(counted(ROWS, read))
        assert n_released(budget) == len(keys) == 1
        assert read == []
        # Nothing is left of the budget, and nothing more is spent.
        for _ in range(2):
            computed(lazy)
        computed((lazy + 1)[2:4].sum())
        with pytest.raises(BudgetExceededError):
            LAPLACE.transform(counted(ROWS, read))
    assert n_released(budget) == len(keys) == 1
    assert budget.spent.epsilon == pytest.approx(1.0)
    assert sorted(read) == [0, 0, 0, 1, 1, 1, 2, 2]


def test_parts_of_it_have_the_noise_of_the_whole():
    lazy = LAPLACE.transform(lazily(ROWS))
    whole = computed(lazy)
    np.testing.assert_array_equal(computed(lazy[4:7, 1]), whole[4:7, 1])
    np.testing.assert_array_equal(computed(lazy[[6, 0]]), whole[[6, 0]])
    np.testing.assert_array_equal(computed(lazy.rechunk((2, 1))), whole)
    np.testing.assert_array_equal(computed(lazy, "threads"), whole)
    np.testing.assert_array_equal(lazy.persist(scheduler="threads"), whole)
    sent = pickle.loads(pickle.dumps(lazy))
    np.testing.assert_array_equal(computed(sent), whole)


def test_split_samples_are_put_together():
    X = np.linspace(0, 1, 48).reshape(8, 3, 2)
    fitted = LaplaceMechanism(bounds=(0, 1), random_state=1).fit(X)
    lazy = fitted.transform(da.from_array(X, chunks=(3, 2, 1)))
    assert lazy.chunks == (CHUNKS, (3,), (2,))
    other = LaplaceMechanism(bounds=(0, 1), random_state=1).fit(X)
    np.testing.assert_array_equal(computed(lazy), computed(other.transform(lazily(X))))


def test_a_task_reads_one_chunk():
    """So the memory of a worker is bounded by its chunks."""
    for transform in LAPLACE.transform, encoder().transform, encoder().privatize:
        source = counted(ROWS, [])
        lazy = transform(source)
        graph = dict(lazy.__dask_graph__())
        assert {key[1] for key in graph if key[0] == lazy.name} == {0, 1, 2}
        for number in range(3):
            open_, inputs = [(lazy.name, number, 0)], set()
            while open_:
                for key in graph[open_.pop()].dependencies:
                    if key[0] == source.name:
                        inputs.add(key)
                    else:
                        open_.append(key)
            assert inputs == {(source.name, number, 0)}


def encoder(**params):
    return TaskAwareEncoder(4.0, task=[[1.0, 1.0, 0.0]], **params).fit(ROWS)


def test_encoders_decode_lazily():
    lazy = encoder(random_state=2).privatize(lazily(ROWS))
    assert lazy.shape == (8, 1)
    estimates = encoder().decode(lazy)
    np.testing.assert_array_equal(computed(estimates), encoder().decode(computed(lazy)))
    decoded = encoder(random_state=2).transform(lazily(ROWS))
    np.testing.assert_array_equal(computed(decoded), computed(estimates))
    code = encoder(random_state=2, output="code").transform(lazily(ROWS))
    np.testing.assert_array_equal(computed(code), computed(lazy))
    with pytest.raises(ValueError, match="1 components, got 3"):
        encoder().decode(lazily(ROWS))
    with pytest.raises(ValueError, match="Input Z contains NaN"):
        computed(encoder().decode(lazily(np.full((4, 1), np.nan))))


def variance_is_plausible(noise, sigma):
    """Whether a sum of squares is where it is in all but 1e-9 of the cases."""
    low, high = stats.chi2.ppf([5e-10, 1 - 5e-10], noise.size)
    return low < np.sum(noise**2) / sigma**2 < high


def test_the_noise_of_every_chunk_has_its_variance():
    """False alarms: 4 chunks and 6 correlations at 1e-9 each, below 1e-8."""
    X = np.full((40_000, 3), 0.5)
    fitted = GaussianMechanism(1.0, delta=1e-5, bounds=(0, 1)).fit(X[:1])
    noise = computed(fitted.transform(lazily(X, 10_000))) - X
    sigma = np.sqrt(fitted.noise_variance_)
    parts = np.split(noise, 4)
    assert all(variance_is_plausible(part, sigma) for part in parts)
    assert not any(variance_is_plausible(part / 2, sigma) for part in parts)
    # Standard normal, but for terms of the order of the root of 1 / 30,000.
    rows = np.corrcoef([part.ravel() for part in parts])
    assert np.all(np.abs(rows[np.triu_indices(4, 1)]) * np.sqrt(30_000) < 6.2)


def test_bad_values_stop_their_own_chunk():
    X = ROWS.copy()
    X[4, 1] = np.nan
    lazy = LAPLACE.transform(lazily(X))
    with drawing() as drawn:
        with pytest.raises(ValueError, match=r"Input X contains NaN\.$"):
            computed(lazy[3:6])
        assert drawn == []
        assert np.all(np.isfinite(computed(lazy[:3])))
        assert len(drawn) == 1
    for bad, error, message in (
        (np.inf, ValueError, "contains infinity"),
        (np.ma.masked, ValueError, "is masked"),
        (1e300, None, None),
    ):
        X = np.ma.array(ROWS, copy=True)
        X[4, 1] = bad
        lazy = LAPLACE.transform(da.from_array(X, chunks=(3, 3), asarray=False))
        if error is None:
            assert np.all(np.isfinite(computed(lazy)))
            continue
        with pytest.raises(error, match=message) as caught:
            computed(lazy)
        assert not re.search(r"0\.\d{4}", str(caught.value))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (lazily(ROWS[:, :2]), "has 2 features|of shape"),
        (lazily(ROWS.reshape(8, 3, 1)), "of shape"),
        (lazily(ROWS[:, 0]), "Expected 2D array, got 1D"),
        (lazily(ROWS[:0]), "0 sample"),
        (lazily(ROWS[:, :0], 8), "features|no entries"),
        (lazily(ROWS * 1j), "Complex data not supported"),
        (lazily(ROWS.astype(str)), "must hold numbers"),
        (lazily(ROWS.astype(object)), "must hold numbers"),
        (lazily(ROWS.astype("M8[s]")), "must hold numbers"),
        (lazily(ROWS)[:, da.from_array(np.ones(3) > 0)], "compute_chunk_sizes"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(X, message, keys):
    for fitted in LAPLACE, encoder():
        with refused(message):
            fitted.transform(X)
    assert keys == []


def test_frames_of_pandas_are_refused(keys):
    pytest.importorskip("pandas")
    for fitted in (
        LaplaceMechanism(bounds=(0, 1)).fit(ROWS), encoder(), encoder(output="code")
    ):  # fmt: skip
        fitted.set_output(transform="pandas")
        with pytest.raises(ValueError, match="from_dask_array"):
            fitted.transform(lazily(ROWS))
    assert keys == []


def test_samples_whose_number_is_not_known():
    X = lazily(ROWS)
    some = X[X[:, 0] > 0.4]
    lazy = LaplaceMechanism(bounds=(0, 1)).fit(some).transform(some)
    found = computed(lazy)
    assert np.isnan(lazy.shape[0])
    # The first chunk is empty.
    assert found.shape == (4, 3)
    decoded = encoder().transform(some)
    assert computed(decoded).shape == (4, 3)


def test_a_chunk_of_another_length_is_refused():
    X = lazily(ROWS).map_blocks(lambda part: part[:2], dtype=float, meta=ROWS[:0])
    with pytest.raises(RuntimeError, match="has 2 samples, but had 3"):
        computed(LAPLACE.transform(X))


def test_pipelines_take_lazy_samples():
    y = ROWS[:, 0]
    with PrivacyBudget(2.0) as budget:
        model = make_pipeline(LaplaceMechanism(bounds=(0, 1)), Ridge())
        model.fit(lazily(ROWS), y).predict(lazily(ROWS))
    assert n_released(budget) == 2
    fitted = LaplaceMechanism(bounds=(0, 1))
    assert fitted.fit_transform(lazily(ROWS)).chunks == (CHUNKS, (3,))


# What is seen of a key.


def shown(lazy):
    """All texts that show a lazy array, its graph and its tasks."""
    yield from (repr(lazy), str(lazy), lazy._repr_html_(), lazy.name)
    yield from (repr(lazy.dask), lazy.dask._repr_html_())
    (fused,) = dask.optimize(lazy)
    for one in lazy, fused, lazy + 1:
        for key, task in dict(one.__dask_graph__()).items():
            yield from (repr(key), repr(task), str(task))
    yield dask.base.tokenize(lazy)


@pytest.mark.parametrize("case", SAMPLES)
def test_the_key_is_in_the_graph_and_nowhere_else(case, keys):
    fitted = case.fresh().fit(case.data[0])
    lazy = fitted.transform(lazily(case.data[0]))
    if hasattr(fitted, "privatize"):
        lazy = fitted.privatize(lazily(case.data[0]))
    secrets = Secrets()
    for key in keys:
        secrets.add_key("key", key)
    assert keys
    assert not [text for text in shown(lazy) if secrets.in_text(text)]
    computed(lazy)
    assert not secrets.hunt(fitted)
    assert not [name for name, text in texts_of(fitted) if secrets.in_text(text)]
    for name, stored in pickles_of(fitted):
        assert not secrets.in_bytes(stored, floats=False), name
    # They are found where they are.
    assert secrets.in_bytes(pickle.dumps(lazy), floats=False)
    assert not any(isinstance(one, BaseEstimator) for one in sent_with(lazy))


def sent_with(thing):
    """All objects that a pickle is made of."""
    found = []

    class Recorder(pickle.Pickler):
        def persistent_id(self, one):
            found.append(one)

    Recorder(io.BytesIO()).dump(thing)
    return found


def test_names_tell_no_seed():
    """A hash of what an integer makes could be found by trying integers."""
    names = set()
    for _ in range(2):
        fitted = LaplaceMechanism(bounds=(0, 1), random_state=0).fit(ROWS)
        names.add(fitted.transform(lazily(ROWS)).name)
    assert len(names) == 2
    # Dask of 2025 adds a hash of what it is passed, which is as random.
    pattern = r"LaplaceMechanism(-[0-9a-f]{32}){1,2}"
    assert all(re.fullmatch(pattern, name) for name in names)


# Where it goes.


def test_it_is_written_to_zarr(tmp_path):
    zarr = pytest.importorskip("zarr")
    lazy = LAPLACE.transform(lazily(ROWS, 4))
    with dask.config.set(scheduler="synchronous"):
        lazy.to_zarr(str(tmp_path / "noisy"))
    stored = zarr.open_array(str(tmp_path / "noisy"))
    assert stored.chunks == (4, 3)
    np.testing.assert_array_equal(stored[:], computed(lazy))


# Dask of today sets an index in place, which pandas of today warns of.
@pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.set_index")
def test_frames_come_and_go(tmp_path):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    pytest.importorskip("pyarrow")
    columns = ["a", "b", "c"]
    frame = dd.from_pandas(pd.DataFrame(ROWS, columns=columns), npartitions=3)
    fitted = LaplaceMechanism(bounds=(0, 1)).fit(frame)
    assert list(fitted.feature_names_in_) == columns
    with pytest.raises(ValueError, match="feature names"):
        fitted.transform(frame[["b", "a", "c"]])
    lazy = fitted.transform(frame)
    with dask.config.set(scheduler="synchronous"):
        noisy = dd.from_dask_array(lazy, columns=fitted.get_feature_names_out())
        noisy.to_parquet(str(tmp_path / "noisy"))
        stored = pd.read_parquet(tmp_path / "noisy")
        code = encoder().privatize(frame.to_dask_array())
        learned = TaskAwareEncoder(4.0).fit(frame, frame["a"])
    assert list(stored.columns) == columns
    np.testing.assert_array_equal(stored.to_numpy(), computed(lazy))
    assert computed(code).shape == (8, 1)
    assert list(learned.feature_names_in_) == columns


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_killed_worker_leaves_the_same_release(tmp_path, keys):
    """What it had computed is computed again by another, and is the same."""
    folder = str(tmp_path)

    def chunk(block_info):
        number = block_info[None]["chunk-location"][0]
        read = [name.split("-")[1] for name in os.listdir(folder)]
        # Once, by a process that has two chunks behind it.
        if read.count(str(os.getpid())) >= 2 and "killed" not in read:
            open(f"{folder}/x-killed", "x").close()
            os._exit(1)
        open(f"{folder}/{number}-{os.getpid()}-{len(read)}", "x").close()
        return np.full((4, 3), 0.5)

    X = da.map_blocks(chunk, chunks=((4,) * 10, (3,)), dtype=float, meta=ROWS[:0])
    options = {"memory_limit": 0, "silence_logs": "CRITICAL"}
    with cluster(is_default=True, **options) as client:
        lazy = LAPLACE.transform(X)
        found = client.compute(lazy).result(timeout=60)
    tried = [name.split("-")[0] for name in os.listdir(folder)]
    assert "x" in tried
    assert len(tried) - 1 > len(set(tried) - {"x"}) == 10
    assert len(keys) == 1
    np.testing.assert_array_equal(found, computed(lazy))
    assert len({part.tobytes() for part in np.split(found, 10)}) == 10
