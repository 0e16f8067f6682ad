"""The hybrid mechanism on whole samples: its budget, its error and its releases.

Statistical tests use fixed seeds; a false-alarm rate is the probability, over the
seeds, that a correct mechanism fails.
"""

import copy
import itertools
import math
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2
from sklearn.base import clone

from sktensordp._random import NoiseSource
from sktensordp.exceptions import PrivacyLeakWarning
from sktensordp.mechanisms._hybrid import HybridMechanism, best_n_sampled
from sktensordp.noise._piecewise import hybrid_law

ALPHA, INF = 1e-6, math.inf
LOW = np.array([[0.0, -1.0], [2.0, -0.5], [-3.0, 1.0]])
HIGH = LOW + np.array([[1.0, 2.0], [0.3, 1.5], [0.7, 5.0]])
# Ends, the centre, and values between them and beyond.
PARTS = np.array([[0.0, 1.0], [0.5, 0.25], [0.9, 1.3]])
VALUES = LOW + PARTS * (HIGH - LOW)
THREADS = "sktensordp.mechanisms._noise.effective_n_threads"


def fitted(epsilon=1.0, shape=(3, 2), **params):
    params = {"bounds": (-1, 1), **params}
    return HybridMechanism(epsilon, **params).fit(np.zeros((1, *shape)))


def largest_error(epsilon, n_entries, k):
    """Expected squared error of a sample, from the law and the corners of the box."""
    c0, c2 = hybrid_law(epsilon / k).variance_coefficients
    # A sampled entry has the mean t d / k, in k of d cases; the others are 0.
    at = [Fraction(n_entries, k) * (c0 + c2 * t + t) - t for t in (0, 1)]
    return float(n_entries * max(at))


# Wang et al. with the best k: d, epsilon, and the squared error of the mean of 10,000.
TABLE = [(64, 1, 2.16), (64, 4, 0.41), (64, 16, 0.098),
         (784, 1, 325), (784, 4, 63), (784, 16, 15.6)]  # fmt: skip


class TestNumberOfEntries:
    @pytest.mark.parametrize("n_entries", [1, 2, 3, 17, 64])
    @pytest.mark.parametrize("epsilon", [0.01, 0.6, 1, 2, 3.3, 4, 7.7, 16, 50, 200])
    def test_least_error_of_all(self, epsilon, n_entries):
        errors = [largest_error(epsilon, n_entries, k + 1) for k in range(n_entries)]
        mechanism = fitted(epsilon, (n_entries,))
        assert mechanism.n_sampled_ == np.argmin(errors) + 1
        assert_allclose(mechanism.expected_squared_error_, min(errors), rtol=1e-9)

    @pytest.mark.parametrize(("n_entries", "epsilon", "expected"), TABLE)
    def test_published_errors(self, n_entries, epsilon, expected):
        found = fitted(epsilon, (n_entries,)).expected_squared_error_ / 10_000
        assert abs(found - expected) <= (0.005 if expected < 10 else 0.5)
        assert abs(found / expected - 1) < 0.006
        # The paper's own choice is not the best one.
        floor = max(1, min(n_entries, int(epsilon / 2.5)))
        paper = largest_error(epsilon, n_entries, floor) / 10_000
        assert paper > 1.005 * found or floor == best_n_sampled(epsilon, n_entries)

    def test_budgets_without_end(self):
        assert best_n_sampled(1e300, 5) == best_n_sampled(1e4, 5) == 5
        assert best_n_sampled(5e-324, 5) == 1
        assert best_n_sampled(1e9, 10**6) == 10**6


class TestGuarantee:
    # A third of 5.7, as a float, is above it.
    @pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1, 4, 5.7, 16, 33.3, 1e3, 1e4])
    def test_all_entries_together_keep_epsilon(self, epsilon):
        mechanism = fitted(epsilon, (4, 7))
        plan, guarantee = mechanism._plan, mechanism.privacy_guarantee_
        total = mechanism.n_sampled_ * Fraction(plan.law.epsilon)
        assert total <= Fraction(epsilon)
        assert guarantee.event.count == mechanism.n_sampled_
        assert guarantee.event.event.epsilon == plan.law.epsilon
        assert (guarantee.epsilon, guarantee.delta) == (epsilon, 0.0)
        assert (guarantee.unit, guarantee.relation) == ("sample", "replace-one")
        assert guarantee.claimed is None
        # Not wasted, but for the part beyond 40 for an entry.
        assert guarantee.epsilon_at(0.0) > min(epsilon, 40 * 28) * (1 - 1e-9)

    def test_law_of_a_whole_sample(self):
        """All outcomes of 2 of 3 entries with 2 values each, counted exactly."""
        law = hybrid_law(0.5)  # two points alone
        plan = replace(fitted(1.0, (3,))._plan, law=law, n_sampled=2)
        honesty = Fraction(law.honesty, 2**62)
        ones = [honesty * j + (1 - honesty) / 2 for j in (0, 1)]
        seen = np.unique(plan.randomize(np.zeros((2000, 3)), NoiseSource(0, 0)), axis=0)
        assert len(seen) == 3 * 2**2

        def probability(outcome, sample):
            chosen = [i for i in range(3) if outcome[i]]
            assert len(chosen) == 2
            p = [ones[sample[i]] if outcome[i] > 0 else 1 - ones[sample[i]]
                 for i in chosen]  # fmt: skip
            return Fraction(1, 3) * math.prod(p)

        corners = list(itertools.product([0, 1], repeat=3))
        assert all(sum(probability(o, x) for o in seen) == 1 for x in corners)
        largest = max(
            probability(o, x) / probability(o, y)
            for o, x, y in itertools.product(seen, corners, corners)
        )
        assert largest == law.ratio**2
        assert (
            math.exp(2 * 0.5 * (1 - 1e-12)) < largest < math.exp(2 * 0.5 * (1 + 1e-12))
        )

    @pytest.mark.parametrize("epsilon", [1.0, 4.0, 16.0])
    def test_as_many_entries_as_said_and_no_value_decides_which(self, epsilon):
        X = np.random.default_rng(0).uniform(-1, 1, (500, 8, 8))
        mechanism = HybridMechanism(epsilon, bounds=(-1, 1), random_state=0)
        first = mechanism.fit(X).transform(X) != 0
        assert_array_equal(first.sum(axis=(1, 2)), mechanism.n_sampled_)
        assert mechanism.n_sampled_ < 64
        other = clone(mechanism).fit(X).transform(np.sign(X)) != 0
        assert_array_equal(first, other)

    def test_undeclared_bounds(self):
        X = np.random.default_rng(0).uniform(-3, 2, (9, 4))
        mechanism = HybridMechanism()
        with pytest.warns(PrivacyLeakWarning, match=r"not declared \(bounds\)"):
            guarantee = mechanism.fit(X).privacy_guarantee_
        assert (guarantee.epsilon, guarantee.claimed) == (INF, (1.0, 0.0))
        mechanism.set_params(epsilon=INF).fit(X)  # nothing is claimed: no warning
        assert_array_equal(mechanism.transform(X), X)


def releases(epsilon, n=20_000, **params):
    params = {"bounds": (LOW, HIGH), "random_state": 3, **params}
    mechanism = HybridMechanism(epsilon, **params)
    X = np.broadcast_to(VALUES, (n, 3, 2))
    return mechanism, mechanism.fit(X).transform(X).reshape(n, -1)


def scores(mechanism, noisy):
    """P values of the means, and the largest z score of the second moments."""
    truth = np.clip(VALUES, LOW, HIGH).ravel()
    variance = mechanism.variance(VALUES[np.newaxis]).ravel()
    z = (noisy - truth) / np.sqrt(variance)
    square = z**2 - 1
    means = chi2.sf(np.sum(z.sum(axis=0) ** 2) / len(z), z.shape[1])
    spread = square.std(axis=0) * math.sqrt(len(z))
    return means, np.max(np.abs(square.sum(axis=0)) / spread)


class TestReleases:
    @pytest.mark.parametrize("epsilon", [0.5, 4.0, 12.0, 60.0])
    def test_unbiased_with_the_variance_that_is_said(self, epsilon):
        # False-alarm rate 1e-6 for the means and 6e-6 for the variances, each by the
        # normal approximation.
        mechanism, noisy = releases(epsilon)
        p_value, z = scores(mechanism, noisy)
        assert p_value > ALPHA
        assert z < 4.9

    @pytest.mark.parametrize("epsilon", [0.5, 4.0, 12.0, 60.0])
    def test_wrong_scales_are_caught(self, epsilon):
        mechanism, noisy = releases(epsilon)
        centre = ((LOW + HIGH) / 2).ravel()
        half = centre + (noisy - centre) / 2
        p_value, z = scores(mechanism, half)
        assert p_value < ALPHA
        assert z > 4.9
        if mechanism.n_sampled_ < 6:  # not scaled by d / k
            unscaled = centre + (noisy - centre) * mechanism.n_sampled_ / 6
            p_value, z = scores(mechanism, unscaled)
            assert p_value < ALPHA
            assert z > 4.9

    @pytest.mark.parametrize("wrong", ["mixture", "focus", "honesty"])
    def test_wrong_variances_are_caught(self, wrong):
        mechanism, _ = releases(4.0)
        law = mechanism._plan.law
        changed = replace(law, **{wrong: int(0.7 * getattr(law, wrong))})
        samples = np.broadcast_to(VALUES.ravel(), (20_000, 6))
        plan = replace(mechanism._plan, law=changed)
        noisy = plan.randomize(samples, NoiseSource(3, 0))
        assert scores(mechanism, noisy)[1] > 4.9

    @pytest.mark.parametrize("epsilon", [0.5, 4.0, 60.0])
    def test_attributes_are_the_largest_of_the_domain(self, epsilon):
        mechanism = fitted(epsilon, bounds=(LOW, HIGH))
        grid = LOW + np.linspace(0, 1, 21)[:, None, None] * (HIGH - LOW)
        variance = mechanism.variance(grid)
        assert variance.shape == (21, 3, 2)
        assert_allclose(mechanism.noise_variance_, variance.max(axis=0), rtol=1e-9)
        totals = variance.sum(axis=(1, 2))
        assert_allclose(mechanism.expected_squared_error_, totals.max(), rtol=1e-9)
        # Beyond the range as at its end.
        assert_array_equal(mechanism.variance(grid + 99), variance[-1:].repeat(21, 0))

    def test_one_range_has_one_variance(self):
        mechanism = fitted(4.0, bounds=(-2, 4))
        assert isinstance(mechanism.noise_variance_, float)
        assert_allclose(mechanism.noise_variance_, 9 * fitted(4.0).noise_variance_)
        error = 6 * mechanism.noise_variance_
        assert_allclose(mechanism.expected_squared_error_, error)

    @pytest.mark.parametrize(
        "bounds", [(-1e-140, 3e-140), (1e15, 1e15 + 1), (0, 1e140)]
    )
    def test_ranges_of_any_size(self, bounds):
        X = np.repeat(np.array(bounds, dtype=float)[:, None], 50_000, axis=0)
        noisy = HybridMechanism(100.0, bounds=bounds, random_state=0).fit_transform(X)
        tolerance = 1e-7 * (bounds[1] - bounds[0]) + 2 * np.spacing(bounds[1])
        assert_allclose(noisy, X, rtol=0, atol=tolerance)

    def test_no_noise_equals_clipping(self):
        X = np.random.default_rng(0).uniform(-3, 3, (5, 3, 2))
        mechanism = HybridMechanism(INF, bounds=(-1, 1)).fit(X)
        assert_array_equal(mechanism.transform(X), np.clip(X, -1, 1))
        assert_array_equal(mechanism.variance(X), np.zeros(X.shape))
        assert mechanism.n_sampled_ == 6
        assert mechanism.noise_variance_ == mechanism.expected_squared_error_ == 0


class TestEstimator:
    def test_float32(self):
        X = np.random.default_rng(0).uniform(-1, 1, (50, 3, 2)).astype(np.float32)
        mechanism = HybridMechanism(4.0, bounds=(-1, 1), random_state=0)
        single, double = (
            clone(mechanism).fit_transform(x) for x in (X, X.astype(float))
        )
        assert (single.dtype, double.dtype) == (np.float32, np.float64)
        assert_array_equal(single, double.astype(np.float32))

    def test_rows_of_features(self):
        X = np.random.default_rng(0).uniform(-1, 1, (50, 3, 2))
        mechanism = HybridMechanism(4.0, bounds=(-1, 1), random_state=0)
        rows = clone(mechanism).set_params(tensor_shape=(3, 2))
        flat = rows.fit_transform(X.reshape(50, 6))
        assert_array_equal(flat, mechanism.fit_transform(X).reshape(50, 6))
        assert list(rows.get_feature_names_out()) == [f"x{i}" for i in range(6)]
        assert rows.sample_shape_ == (3, 2)

    def test_no_two_calls_share_their_noise(self):
        X = np.zeros((200, 3, 2))
        seeded = HybridMechanism(bounds=(-1, 1), random_state=7).fit(X)
        copies = [copy.deepcopy(seeded), pickle.loads(pickle.dumps(seeded))]
        first, second = seeded.transform(X), seeded.transform(X)
        assert np.mean(first != second) > 0.2
        for other in (*copies, clone(seeded).fit(X)):
            assert_array_equal(other.transform(X), first)
        fresh = [HybridMechanism(bounds=(-1, 1)).fit_transform(X) for _ in range(2)]
        assert np.mean(fresh[0] != fresh[1]) > 0.2

    @pytest.mark.parametrize("shape", [(3, 70_000), (40_000, 6)])
    def test_noise_depends_on_no_thread_and_differs(self, shape, monkeypatch):
        X, outputs = np.zeros(shape), []
        for n_threads in (1, 2, 7):
            monkeypatch.setattr(THREADS, lambda n=n_threads: n)
            mechanism = HybridMechanism(30.0, bounds=(-1, 1), random_state=1)
            outputs.append(mechanism.fit(X).transform(X))
            assert_array_equal(outputs[-1], outputs[0])
        half = len(X) // 2
        assert not np.array_equal(outputs[0][:half], outputs[0][-half:])

    def test_fit_reads_no_value(self):
        X = np.full((5, 3, 2), np.nan)
        mechanism = HybridMechanism(bounds=(-1, 1))
        dump = pickle.dumps(clone(mechanism).fit(np.zeros((5, 3, 2))))
        assert pickle.dumps(mechanism.fit(X)) == dump

    @pytest.mark.parametrize("method", ["transform", "variance"])
    def test_bad_samples(self, method):
        mechanism = fitted(random_state=0)
        for bad, message in [
            (np.full((5, 3, 2), np.nan), "NaN"),
            (np.full((5, 3, 2), INF), "infinity"),
            (np.zeros((5, 2, 3)), "features|shape"),
            (np.zeros((5, 3, 4)), "shape"),
            (np.full((5, 3, 2), "secret"), "must hold numbers"),
        ]:
            with pytest.raises(ValueError, match=message):
                getattr(mechanism, method)(bad)
        # Nothing was drawn: the next release is the first one.
        X = np.zeros((50, 3, 2))
        assert_array_equal(mechanism.transform(X), fitted(random_state=0).transform(X))

    def test_variance_is_no_release(self):
        mechanism, X = fitted(random_state=0), np.zeros((50, 3, 2))
        mechanism.variance(X)
        assert_array_equal(mechanism.transform(X), fitted(random_state=0).transform(X))

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"epsilon": 0}, "epsilon"),
            ({"epsilon": -1.0}, "epsilon"),
            ({"epsilon": math.nan}, "epsilon"),
            ({"epsilon": 1e-30}, "too small"),
            ({"bounds": (1, -1)}, "low < high"),
            ({"bounds": (0, np.ones((2, 3)))}, "broadcast"),
            ({"bounds": (0, math.nan)}, "finite"),
            ({"bounds": (0, 1, 2)}, "pair"),
            ({"tensor_shape": (7,)}, "tensors of shape"),
            ({"random_state": "0"}, "random_state"),
        ],
    )
    def test_bad_parameters(self, params, message):
        mechanism = HybridMechanism(**{"bounds": (-1, 1), **params})
        with pytest.raises(ValueError, match=message):
            mechanism.fit(np.zeros((5, 3, 2)))
        with pytest.raises(AttributeError):
            _ = mechanism.n_sampled_
