"""The mechanisms as scikit-learn meets them, and as an attacker does."""

import copy
import math
import pickle
import struct
import tracemalloc

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline

from sktensordp import mechanisms as ms
from sktensordp.exceptions import PrivacyLeakWarning
from sktensordp.privacy import privacy_of

BOX, CLAIM = {"bounds": (0, 1)}, {"calibration": "published"}
TURN = [np.array([[0.6, -0.8], [0.8, 0.6]]), None]
ADDED = [  # to samples of shape (2, n)
    ms.LaplaceMechanism(**BOX),
    ms.GaussianMechanism(**BOX, norm_bound=1.5),
    ms.TensorVariateGaussian(utility=[[1, 2], None], **BOX),
    ms.TensorVariateGaussian(directions=TURN, norm_bound=1.0, **CLAIM),
    ms.MatrixGaussian(directions=TURN, **BOX),
    ms.UnimodalDirectionalNoise(sensitivity=1.0),
    ms.IndependentDirectionalNoise(mode=-1, **BOX, **CLAIM),
    ms.MatrixVariateGaussian(row_covariance=[[2, 1], [1, 2]], **BOX),
    ms.TensorRandomizedResponse(n_levels=33, **BOX),
]
MM = ms.MatrixMechanism(workload=[np.tril(np.ones((2, 2))), np.eye(3)])
JL = ms.JohnsonLindenstrauss(n_projections=4, norm_bound=1.0)
OF_ADDED = pytest.mark.parametrize("mechanism", ADDED, ids=repr)
OF_ALL = pytest.mark.parametrize("mechanism", [*ADDED, MM, JL], ids=repr)
SEARCHED = [
    *(ADDED[0], MM, ms.MatrixVariateGaussian(tensor_shape=(2, 3), **BOX, **CLAIM)),
    ms.GaussianMechanism(0.5, norm_bound=2.0, calibration="classic"),
]
RNG = np.random.default_rng(0)
THREADS = "sktensordp.mechanisms._noise.effective_n_threads"


def samples(mechanism):
    return RNG.random((5, 6) if mechanism is MM else (5, 2, 3))


def n_releases(mechanism):
    return mechanism._releases._count if hasattr(mechanism, "_releases") else 0


@OF_ALL
def test_fit_reads_no_value_of_a_declared_domain(mechanism):
    X = samples(mechanism)
    fitted = pickle.dumps(clone(mechanism).fit(X))
    endless = np.broadcast_to(np.nan, (10**13, *X.shape[1:]))  # 480 TB to be read
    for poisoned in (np.full_like(X, np.nan), np.full_like(X, np.inf), endless):
        assert pickle.dumps(clone(mechanism).fit(poisoned)) == fitted


@pytest.mark.parametrize("mechanism", [*ADDED, JL], ids=repr)
def test_a_domain_read_off_the_samples_voids_the_guarantee(mechanism):
    names = {"bounds", "norm_bound", "sensitivity"} & set(mechanism.get_params())
    leaky = clone(mechanism).set_params(**dict.fromkeys(names))
    X, variances = RNG.random((5, 2, 3)), []
    for values in (X, 9 * X):
        with pytest.warns(PrivacyLeakWarning, match="read off the"):
            guarantee = leaky.fit(values).privacy_guarantee_
        variances.append(np.max(leaky.noise_variance_))
    assert variances[1] > 9 * variances[0]
    assert guarantee.claimed == (1.0, getattr(leaky, "delta", 0.0))
    assert guarantee.epsilon == math.inf
    with pytest.raises(ValueError, match="NaN"):
        leaky.fit(np.full_like(X, np.nan))
    leaky.set_params(epsilon=math.inf).fit(X)  # nothing is claimed: no warning


@OF_ADDED
def test_guarantee(mechanism):
    guarantee = clone(mechanism).fit(RNG.random((5, 2, 3))).privacy_guarantee_
    asked = mechanism.epsilon, getattr(mechanism, "delta", 0.0)
    published = getattr(mechanism, "calibration", "sound") != "sound"
    assert guarantee.claimed == (asked if published else None)
    assert (guarantee.epsilon < asked[0], guarantee.delta) == (published, asked[1])
    callers = "any change within the declared sensitivity"
    assert guarantee.relation == (
        callers if getattr(mechanism, "sensitivity", None) else "replace-one"
    )
    assert guarantee.unit == "sample"


@OF_ALL
@pytest.mark.parametrize("random_state", [None, 3])
def test_no_two_calls_share_their_noise(mechanism, random_state):
    X = samples(mechanism)
    mechanism = clone(mechanism).set_params(random_state=random_state).fit(X)
    copies = [copy.deepcopy(mechanism), pickle.loads(pickle.dumps(mechanism))]
    outputs = [mechanism.transform(X), mechanism.transform(X)]
    outputs.append(mechanism.fit(X).transform(X))
    assert n_releases(mechanism) == 3
    again = clone(mechanism).fit(X).transform(X)
    assert np.array_equal(outputs[0], again) == (random_state is not None)
    if random_state is None:
        outputs += [again, *(c.transform(X) for c in copies)]
    # Noise on 33 levels may agree by chance: false-alarm rate 1e-6 for 30 entries.
    least = 0.5 if isinstance(mechanism, ms.TensorRandomizedResponse) else 0.9
    for i, one in enumerate(outputs):
        assert all(np.mean(one != other) > least for other in outputs[:i])


@OF_ADDED
@pytest.mark.parametrize("shape", [(3, 2, 40_000), (30_000, 2, 3)])
def test_noise_depends_on_no_thread_and_differs(mechanism, shape, monkeypatch):
    """False-alarm rate 1e-6 for each of two correlations, of samples and tiles."""
    X, outputs = np.zeros(shape), []
    for n_threads in (1, 2, 7):
        monkeypatch.setattr(THREADS, lambda n=n_threads: n)
        fresh = clone(mechanism).set_params(random_state=1)
        outputs.append(fresh.fit(X).transform(X))
        np.testing.assert_array_equal(outputs[-1], outputs[0])
    noise, half, tile = outputs[0].reshape(len(X), -1), len(X) // 2, 2**16
    pairs = [(noise[:half], noise[-half:]), (noise[:, :-tile], noise[:, tile:])]
    for one, other in pairs[: 1 if noise.shape[1] < tile else 2]:
        correlation = np.corrcoef(one.ravel(), other.ravel())[0, 1]
        assert abs(correlation) < 4.9 / math.sqrt(one.size)


@OF_ALL
def test_forms_of_input(mechanism):
    mechanism, X = clone(mechanism).set_params(random_state=0), samples(mechanism)

    def noisy(samples):
        return clone(mechanism).fit(samples).transform(samples)

    X.setflags(write=False)
    expected = noisy(X)
    for form in (np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], X.tolist()):
        np.testing.assert_array_equal(noisy(form), expected)
    single = noisy(X.astype(np.float32))
    assert (expected.dtype, single.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(single, expected, 1e-5, 1e-6 * np.ptp(expected))
    ones = np.ones(X.shape, dtype=int)
    assert noisy(ones).dtype == np.float64
    np.testing.assert_array_equal(noisy(ones), noisy(ones.astype(float)))


@pytest.mark.parametrize("mechanism", [*ADDED, MM], ids=repr)
def test_rows_of_features_and_data_frames(mechanism):
    pd = pytest.importorskip("pandas")
    X, names = samples(mechanism), [f"matrixmechanism{i}" for i in range(6)]
    mechanism = clone(mechanism).set_params(random_state=0)
    frames = clone(mechanism).set_output(transform="pandas")
    if X.ndim == 3:
        with pytest.raises(ValueError, match="do not fit into a data frame"):
            frames.fit(X).transform(X)
        with pytest.raises(ValueError, match="no feature names"):
            frames.get_feature_names_out()
        names, _ = list("abcdef"), frames.set_params(tensor_shape=(2, 3))
    assert n_releases(frames) == 0
    frame = pd.DataFrame(X.reshape(5, 6), columns=list("abcdef"), index=range(3, 8))
    out = frames.fit(frame).transform(frame)
    assert list(out.columns) == list(frames.get_feature_names_out()) == names
    assert list(out.index) == list(frame.index)
    # The noise is that of tensors.
    expected = mechanism.fit(X).transform(X)
    assert (expected.shape, frames.sample_shape_) == (X.shape, X.shape[1:])
    np.testing.assert_array_equal(out.to_numpy(), expected.reshape(5, 6))


@OF_ADDED
def test_no_noise_equals_clipping(mechanism):
    X = 3 * RNG.random((5, 2, 3)) - 1
    expected = np.clip(X, 0, 1) if mechanism.bounds else X
    lengths = np.linalg.norm(expected, axis=(1, 2), keepdims=True)
    radius = getattr(mechanism, "norm_bound", None) or math.inf
    expected = expected * np.minimum(1, radius / lengths)
    free = clone(mechanism).set_params(epsilon=math.inf).fit(X)
    np.testing.assert_allclose(free.transform(X), expected, rtol=1e-12)
    assert n_releases(free) == 1  # a release without noise is one
    assert free.privacy_guarantee_.epsilon_at(0.5) == math.inf
    assert free.noise_variance_ == free.expected_squared_error_ == 0


@OF_ALL
def test_pickles_work_and_hold_no_data(mechanism, tmp_path):
    X, rare = samples(mechanism), 0.7182818284590452
    X[2], X[1] = rare / 3, rare
    mechanism = clone(mechanism).set_params(random_state=5).fit(X)
    files, dump = joblib.dump(mechanism, tmp_path / "dump"), pickle.dumps(mechanism)
    expected = mechanism.transform(X)
    for other in (pickle.loads(dump), joblib.load(files[0])):
        assert other.privacy_guarantee_ == mechanism.privacy_guarantee_
        np.testing.assert_array_equal(other.transform(X), expected)
    dump = pickle.dumps(mechanism)
    for value in [*X.ravel(), X.mean(), X.sum(), X.max(), X.min(), X.std()]:
        forms = [struct.pack(code, value) for code in ("<d", ">d", "<f", ">f")]
        assert not any(form in dump for form in forms)
    mechanism.leak_ = rare
    assert struct.pack(">d", rare) in pickle.dumps(mechanism)


@pytest.mark.parametrize("train_score", [False, True])
@pytest.mark.parametrize("mechanism", SEARCHED, ids=repr)
def test_a_search_counts_every_transform(mechanism, train_score, monkeypatch):
    """Counted on the real calls, independently of how privacy_of counts."""
    seen, transform = [], type(mechanism).transform

    def spied(self, X):
        seen.append(set(X[:, 0]))
        return transform(self, X)

    epsilons = [mechanism.epsilon, mechanism.epsilon / 2]
    pipe = make_pipeline(clone(mechanism), Ridge())
    X, y = RNG.random((12, 6)), RNG.random(12)
    grid = {f"{pipe.steps[0][0]}__epsilon": epsilons}
    search = GridSearchCV(pipe, grid, cv=KFold(3), return_train_score=train_score)
    monkeypatch.setattr(type(mechanism), "transform", spied)
    search.fit(X, y)
    report, best = privacy_of(search), search.best_estimator_
    _, counts, guarantees = zip(*report.releases, strict=True)
    assert counts == ((5, 5, 1) if train_score else (3, 3, 1))
    assert sum(counts) == max(sum(x in part for part in seen) for x in X[:, 0])
    for one, epsilon in zip(guarantees[:2], epsilons, strict=True):
        assert (one.claimed or (one.epsilon,))[0] == epsilon >= one.epsilon
    assert guarantees[2] == best[0].privacy_guarantee_ == privacy_of(best).guarantee
    assert report.guarantee.epsilon > max(one.epsilon for one in guarantees)
    assert "raw values held out" in str(report)
    assert "from y" in str(privacy_of(best))
    with pytest.raises(TypeError, match="search that was refitted"):
        privacy_of(search.set_params(refit=False).fit(X, y))


@pytest.mark.parametrize("dtype", [float, np.float32])
@pytest.mark.parametrize("mechanism", [*ADDED[:2], ADDED[4], ADDED[7]], ids=repr)
def test_memory(mechanism, dtype, monkeypatch):
    monkeypatch.setattr(THREADS, lambda: 2)
    X = np.zeros((333_333, 2, 3), dtype)
    mechanism = clone(mechanism).fit(X)
    tracemalloc.start()
    mechanism.transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 3 * X.nbytes


@OF_ALL
def test_transform_refuses_bad_samples_and_shows_none(mechanism):
    X = samples(mechanism)
    mechanism, gaps = clone(mechanism).fit(X), np.full(X.shape, 271.828)
    gaps[1], words = np.nan, np.full(X.shape, "secret 271.828")
    for bad, message in [
        (gaps, "NaN"),
        (np.nan_to_num(gaps, nan=-np.inf), "infinity"),
        (np.full((5, 2, 4), 271.828), "shape|features"),
        (np.full(6, 271.828), "1D|dim"),
        (gaps * 1j, "[cC]omplex"),
        (words, "must hold numbers"),
        (words.astype(object), "must hold numbers"),
    ]:
        with pytest.raises(ValueError, match=message) as caught:
            mechanism.transform(bad)
        assert not any(secret in str(caught.value) for secret in ("secret", "271"))
    assert n_releases(mechanism) == 0


@pytest.mark.parametrize("fitted", [1.0, math.inf])
def test_the_fit_decides_on_the_noise(fitted):
    X = np.full((3, 2), 0.25)
    mechanism = ms.GaussianMechanism(fitted, bounds=(0, 1)).fit(X)
    mechanism.set_params(epsilon=math.inf if fitted == 1 else 1.0)
    assert np.array_equal(mechanism.transform(X), X) == (fitted == math.inf)
    assert mechanism.privacy_guarantee_.epsilon == fitted
