"""What every mechanism promises. A new one needs a case in every_estimator.py.

Statistical tests have fixed seeds. A false-alarm rate is the probability, over the
seeds, that a correct mechanism fails.
"""

import copy
import math
import pickle
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from sktensordp import mechanisms as ms
from sktensordp import papers
from sktensordp.exceptions import (
    BudgetExceededError,
    PrivacyLeakWarning,
    UnsoundClaimWarning,
)
from sktensordp.privacy import PrivacyBudget, privacy_of
from tests.support.every_estimator import CASES
from tests.support.refusing import refused
from tests.support.seams import ReleasingTransformer as Release


def shown(value):
    return " ".join(repr(value).split())


INF, RNG = math.inf, np.random.default_rng(0)
BOX = {"bounds": (0, 1)}
SAMPLES, CELLS = RNG.random((5, 2, 3)), RNG.random((5, 6))
TURN = [np.array([[0.6, -0.8], [0.8, 0.6]]), None]
# Beside those of every_estimator.py, for samples of shape (2, n).
MECHANISMS = [
    ms.GaussianMechanism(**BOX, norm_bound=1.5),
    ms.TensorVariateGaussian(utility=[[1, 2], None], **BOX),
    papers.PublishedTensorVariateGaussian(directions=TURN, norm_bound=1.0),
    ms.UnimodalDirectionalNoise(sensitivity=1.0),
    papers.PublishedIndependentDirectionalNoise(mode=-1, **BOX),
    papers.MatrixVariateGaussian(row_covariance=[[2, 1], [1, 2]], **BOX),
    ms.HybridMechanism(8.0, bounds=(-1, [[1.0, 2.0, 5.0]])),
    ms.PrivUnit(4.0, norm_bound=0.8),
    ms.MatrixMechanism(workload=[np.tril(np.ones((2, 2))), np.eye(3)]),
]
MECHANISMS += [c.estimator for c in CASES if "Encoder" not in c.label
               and c.private == "samples"]  # fmt: skip
PUBLISHED = [m for m in MECHANISMS if type(m).__name__.startswith("Published")]
OF_UNITS = {
    ms.MatrixMechanism: ("cell", "a change of at most 1"),
}


def of(*needed, but=()):
    """Those that have some parameters, but for some classes."""
    chosen = [m for m in MECHANISMS if {*needed} <= m.get_params().keys()]
    chosen = [m for m in chosen if not isinstance(m, tuple(but))]
    return pytest.mark.parametrize("mechanism", chosen, ids=shown)


ALL = of()


def samples(mechanism):
    return CELLS if isinstance(mechanism, ms.MatrixMechanism) else SAMPLES


def fitted(mechanism, X=None, **params):
    X = samples(mechanism) if X is None else X
    return clone(mechanism).set_params(**params).fit(X)


def clipped(mechanism, X):
    """The nearest samples of the declared domain."""
    low, high = getattr(mechanism, "bounds", None) or (-INF, INF)
    X, radius = np.clip(X, low, high), getattr(mechanism, "norm_bound", None) or INF
    lengths = np.linalg.norm(X, axis=(1, 2), keepdims=True) if X.ndim == 3 else 1e-300
    return X * np.minimum(1, radius / np.maximum(lengths, 1e-300))


def exact(mechanism, X):
    """What is released of samples in the domain, but for the noise."""
    factors = getattr(mechanism, "workload", None)
    return X if factors is None else X @ np.kron(*factors).T


def test_no_mechanism_is_forgotten():
    public = {n for n in ms.__all__ if hasattr(getattr(ms, n), "transform")}
    public -= {"NoiseMechanism"}  # their base class
    of_papers = {n for n in papers.__all__ if issubclass(getattr(papers, n), Release)}
    of_papers -= {n for n in of_papers if "Encoder" in n}
    assert public | of_papers == {type(mechanism).__name__ for mechanism in MECHANISMS}


@pytest.mark.thorough_after_one
@ALL
def test_guarantee_of_one_call(mechanism):
    mechanism = fitted(mechanism)
    guarantee = mechanism.privacy_guarantee_
    asked = mechanism.epsilon, getattr(mechanism, "delta", 0.0)
    published = type(mechanism).__name__.startswith("Published")
    if isinstance(mechanism, papers.PublishedTensorRandomizedResponse):
        # For so few entries, one is likely to be kept: nothing holds.
        assert guarantee.claimed == (asked[0], 0.0)
        assert not guarantee.protects
        with PrivacyBudget(1e6), pytest.raises(BudgetExceededError):
            mechanism.transform(samples(mechanism))
        return
    assert guarantee.claimed == (asked if published else None)
    assert (guarantee.epsilon < asked[0], guarantee.delta) == (published, asked[1])
    callers = getattr(mechanism, "sensitivity", None)
    relation = "any change within the declared sensitivity" if callers else None
    unit = OF_UNITS.get(type(mechanism), ("sample", relation or "replace-one"))
    assert (guarantee.unit, guarantee.relation) == unit
    assert guarantee.statement.startswith("One call of transform")
    # A call spends that much, and a second one again.
    with PrivacyBudget(1.001 * guarantee.epsilon, 1.001 * guarantee.delta) as budget:
        mechanism.fit(samples(mechanism))
        assert budget.spent is None
        mechanism.transform(samples(mechanism))
        with pytest.raises(BudgetExceededError, match="nothing was drawn"):
            mechanism.transform(samples(mechanism))
    assert privacy_of(mechanism).guarantee == guarantee


@pytest.mark.parametrize("mechanism", PUBLISHED, ids=shown)
def test_a_published_claim_that_is_false_is_told(mechanism):
    """The truth is beside the claim; only one that is false warns."""
    domain = dict.fromkeys({"norm_bound", "sensitivity"} & {*mechanism.get_params()})
    published = clone(mechanism).set_params(**domain, bounds=(0, 1), delta=1e-5)
    if isinstance(mechanism, ms.TensorRandomizedResponse):
        with pytest.warns(UnsoundClaimWarning, match="what holds is"):
            guarantee = published.fit(SAMPLES).privacy_guarantee_
        assert guarantee.epsilon > 5
    else:
        guarantee = published.fit(SAMPLES).privacy_guarantee_
        assert 0 < guarantee.epsilon < 0.6
        assert guarantee.delta_at(guarantee.epsilon) <= 1e-5
    assert guarantee.claimed in [(1.0, 1e-5), (1.0, 0.0)]
    assert "the claim was (epsilon = 1" in str(guarantee)


@pytest.mark.thorough_after_one
@ALL
def test_variance_and_error_are_as_measured(mechanism):
    """False-alarm rate 3e-6: sums of 20,000 samples; noise 10% off is seen."""
    mechanism = fitted(mechanism, random_state=1)
    inside = clipped(mechanism, samples(mechanism))[:1]
    X = np.repeat(inside, 20_000, axis=0)
    noise = mechanism.transform(X) - exact(mechanism, inside)
    variance = np.broadcast_to(mechanism.noise_variance_, noise.shape[1:])
    if getattr(mechanism, "utility", None) is None:
        expected = mechanism.expected_squared_error_
        assert_allclose(variance.sum(), expected, rtol=1e-12)
    if hasattr(mechanism, "variance"):
        assert np.all(mechanism.variance(inside) <= variance * (1 + 1e-9))
        variance = mechanism.variance(inside)[0]
    means = noise.mean(axis=0) / noise.std(axis=0) * math.sqrt(len(X))
    assert np.abs(means).max() < 5.2
    total = np.square(noise).reshape(len(X), -1) @ (1 / variance.ravel())
    error = total.std() / math.sqrt(len(X))
    assert abs(total.mean() - variance.size) < 4.9 * error
    assert abs(1.21 * total.mean() - variance.size) > 4.9 * error


@pytest.mark.thorough_after_one
@ALL
def test_what_lies_outside_is_released_as_its_clipped_value(mechanism):
    mechanism = clone(mechanism).set_params(random_state=4)
    if getattr(mechanism, "sensitivity", None):
        pytest.skip("the caller vouches for the domain")
    X = 9 * SAMPLES - 4
    inside = clipped(mechanism, X)
    assert not np.array_equal(inside, X)
    # Clipping here and there may round to neighbouring points of a lattice.
    released = [fitted(mechanism).transform(values) for values in (X, inside)]
    assert_allclose(*released, rtol=0, atol=1e-4 * np.ptp(released[0]))


@ALL
def test_without_noise(mechanism):
    X = samples(mechanism) if isinstance(mechanism, ms.MatrixMechanism) else 3 * SAMPLES
    free = fitted(mechanism, epsilon=INF)
    expected = exact(mechanism, clipped(mechanism, X))
    assert_allclose(free.transform(X), expected, rtol=1e-12, atol=1e-12)
    assert not free.privacy_guarantee_.protects
    assert free.privacy_guarantee_.epsilon_at(0.5) == INF
    assert np.all(free.noise_variance_ == 0)
    assert free.expected_squared_error_ == 0
    with PrivacyBudget(9.0), pytest.raises(BudgetExceededError):
        free.transform(X)
    # The fit decides, and not a parameter that is set afterwards.
    free.set_params(epsilon=1.0)
    assert_allclose(free.transform(X), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.thorough_after_one
@ALL
@pytest.mark.parametrize("seed", [None, 3])
def test_no_two_calls_share_their_noise(mechanism, seed):
    X = np.repeat(samples(mechanism), 8, axis=0)
    mechanism = fitted(mechanism, random_state=seed)
    copies = [copy.deepcopy(mechanism), pickle.loads(pickle.dumps(mechanism))]
    outputs = [mechanism.transform(X), mechanism.transform(X)]
    outputs.append(mechanism.fit(X).transform(X))
    others = [one.transform(X) for one in (*copies, clone(mechanism).fit(X))]
    if seed is None:
        outputs += others
    else:
        for other in others:
            assert_array_equal(other, outputs[0])
    # Some entries agree by chance, where few are shown or levels are few.
    for i, one in enumerate(outputs):
        assert all(np.mean(one != other) > 0.1 for other in outputs[:i])


LONG = [ms.LaplaceMechanism(**BOX), papers.MatrixVariateGaussian(**BOX)]
LARGE = [(m, (30_000, 2, 3)) for m in [*MECHANISMS[1:3], *MECHANISMS[5:8], *LONG[:1]]]


@pytest.mark.parametrize(
    ("mechanism", "shape"),
    [*LARGE, *((m, (3, 2, 40_000)) for m in LONG)],
    ids=shown,
)
def test_noise_depends_on_no_thread_and_differs(mechanism, shape):
    """Tiles of 2^16 entries have noise of their own: false-alarm rate 1e-6 each."""
    X, outputs = np.full(shape, 0.5), []
    for n_threads in (1, 3):
        with threadpool_limits(n_threads, user_api="openmp"):
            outputs.append(fitted(mechanism, X, random_state=1).transform(X))
    assert_array_equal(*outputs)
    noise, tile = outputs[0].reshape(len(X), -1), 2**16
    if noise.shape[1] > tile:  # a sample's own tiles
        one, other = noise[:, :-tile], noise[:, tile:]
    else:
        lag = tile // noise.shape[1]
        one, other = noise[:-lag], noise[lag:]
    correlation = np.corrcoef(one.ravel(), other.ravel())[0, 1]
    # Entries of a sample may be as good as equal: six of them count as one.
    assert abs(correlation) < 4.9 / math.sqrt(one.size / 6)


@ALL
def test_fit_reads_no_value_of_a_declared_domain(mechanism):
    X = samples(mechanism)
    expected = pickle.dumps(fitted(mechanism))
    endless = np.broadcast_to(np.nan, (10**13, *X.shape[1:]))  # 480 TB to be read
    for poisoned in (np.full_like(X, np.inf), endless):
        assert pickle.dumps(fitted(mechanism, poisoned)) == expected


@of(but=[ms.MatrixMechanism])
def test_a_domain_read_off_the_samples_voids_the_guarantee(mechanism):
    names = {"bounds", "norm_bound", "sensitivity"} & set(mechanism.get_params())
    leaky, variances = clone(mechanism).set_params(**dict.fromkeys(names)), []
    for values in (SAMPLES, 9 * SAMPLES):
        with pytest.warns(PrivacyLeakWarning, match="read off the"):
            guarantee = leaky.fit(values).privacy_guarantee_
        variances.append(np.max(leaky.noise_variance_))
    assert variances[1] > 9 * variances[0]
    is_pure = isinstance(mechanism, papers.PublishedTensorRandomizedResponse)
    delta = 0.0 if is_pure else getattr(leaky, "delta", 0.0)
    assert guarantee.claimed == (mechanism.epsilon, delta)
    assert guarantee.epsilon == INF
    # What is fitted shows the range: the fit is a release.
    with (
        PrivacyBudget(100.0),
        pytest.warns(PrivacyLeakWarning),
        pytest.raises(BudgetExceededError),
    ):
        leaky.fit(SAMPLES)
    with pytest.raises(ValueError, match="NaN"):
        leaky.fit(np.full_like(SAMPLES, np.nan))
    leaky.set_params(epsilon=INF).fit(SAMPLES)  # nothing is claimed: no warning


@pytest.mark.thorough_after_one
@ALL
def test_forms_of_input(mechanism):
    mechanism, X = clone(mechanism).set_params(random_state=0), samples(mechanism)

    def noisy(samples):
        return fitted(mechanism, samples).transform(samples)

    frozen = X.copy()
    frozen.setflags(write=False)
    expected = noisy(frozen)
    for form in (np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], X.tolist()):
        assert_array_equal(noisy(form), expected)
    single = noisy(X.astype(np.float32))
    assert (expected.dtype, single.dtype) == (np.float64, np.float32)
    assert_allclose(single, expected, 1e-5, 1e-6 * np.ptp(expected))
    ones = np.ones(X.shape, dtype=int)
    assert_array_equal(noisy(ones), noisy(ones.astype(float)))


@pytest.mark.thorough_after_one
@of(but=[ms.MatrixMechanism])
def test_rows_of_features_get_the_noise_of_tensors(mechanism):
    rows = clone(mechanism).set_params(random_state=0, tensor_shape=(2, 3))
    tensors = clone(mechanism).set_params(random_state=0)
    X = SAMPLES.reshape(5, 6)
    noisy = rows.fit(X).transform(X)
    assert_array_equal(noisy, tensors.fit(SAMPLES).transform(SAMPLES).reshape(5, 6))
    assert rows.sample_shape_ == tensors.sample_shape_ == (2, 3)


@ALL
def test_bad_samples_are_refused_and_not_shown(mechanism):
    X, mechanism = samples(mechanism), fitted(mechanism)
    gaps, words = np.full(X.shape, 271.828), np.full(X.shape, "secret 271.828")
    gaps[1] = np.nan
    methods = [mechanism.transform, getattr(mechanism, "variance", mechanism.transform)]
    for bad, message in [
        (gaps, "NaN"),
        (np.nan_to_num(gaps, nan=-np.inf), "infinity"),
        (np.full((5, 2, 4), 271.828), "shape|features"),
        (np.full(6, 271.828), "1D|dim"),
        (gaps * 1j, "[cC]omplex"),
        (words, "must hold numbers"),
        (words.astype(object), "must hold numbers"),
    ]:
        for method in methods:
            with refused(message, secret=("secret", "271")):
                method(bad)


BAD = {
    "epsilon": [(0, "'epsilon'"), (-1.0, "'epsilon'"), (math.nan, "'epsilon'"),
                (1e-30, "too small|cannot be honour|than can be represented")],
    "delta": [(1.0, "'delta'"), (-0.1, "'delta'"), (math.nan, "'delta'")],
    "bounds": [((1, 0), "low < high"), ((0, math.nan), "finite"), ((0, 1, 2), "pair"),
               ((0, np.ones((5, 5))), "must broadcast")],
    "norm_bound": [(0, "'norm_bound'"), (math.nan, "norm_bound")],
    "sensitivity": [(0, "'sensitivity'")],
    "tensor_shape": [((7,), "needs samples of that"), ((0, 6), "positive integers")],
    "random_state": [("0", "random_state"), (-1, "random_state")],
}  # fmt: skip


@ALL
def test_bad_parameters_are_refused_before_anything_is_planned(mechanism):
    for name in BAD.keys() & mechanism.get_params().keys():
        for value, message in BAD[name]:
            if value == 1e-30 and mechanism in PUBLISHED:
                continue  # Their noise may be that large: they state its epsilon.
            bad = clone(mechanism).set_params(**{name: value})
            if name in ("bounds", "norm_bound") and "sensitivity" in bad.get_params():
                bad.set_params(sensitivity=None)
            with pytest.raises(ValueError, match=message):
                bad.fit(samples(mechanism))
            assert not hasattr(bad, "privacy_guarantee_")


@pytest.mark.thorough
def test_a_search_that_was_not_refitted_knows_a_declared_shape():
    """Beside tests/privacy/test_report_counts.py, which has all other searches."""
    noise = papers.PublishedMatrixVariateGaussian(tensor_shape=(2, 3), **BOX)
    search = GridSearchCV(
        make_pipeline(noise, Ridge()), {"ridge__alpha": [1.0, 2.0]}, cv=3, refit=False
    )
    search.fit(RNG.random((12, 6)), RNG.random(12))
    assert [n for _, n, _ in privacy_of(search).releases] == [3, 3]


@pytest.mark.thorough
@pytest.mark.parametrize("mechanism", [*LONG, ms.PrivUnit(3.0, **BOX)], ids=shown)
def test_memory(mechanism):
    X = np.zeros((400_000, 2, 3), np.float32)
    mechanism = fitted(mechanism, X[:2])
    with threadpool_limits(2, user_api="openmp"):
        tracemalloc.start()
        noisy = mechanism.transform(X)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert noisy.dtype == np.float32
    # The output, and some arrays of a tile's size on each thread: no copy in float64.
    assert peak <= X.nbytes + 24 * 2**20
