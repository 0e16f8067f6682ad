"""Randomised response for tensors of levels.

Statistical tests use fixed seeds and state their false-alarm rates.
"""

import json
import math
import pickle
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2, norm
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sktensordp.exceptions import UnsoundClaimWarning
from sktensordp.mechanisms import TensorRandomizedResponse, _levels
from sktensordp.mechanisms._levels import LevelDesign, design_levels
from sktensordp.privacy import gaussian_mu, privacy_of
from sktensordp.privacy._accounting import event_epsilon
from sktensordp.privacy._randomized_response import LevelLaw

NOISES = ("laplace", "gaussian", "geometric", "wrapped")
OF_NOISES = pytest.mark.parametrize("noise", NOISES)
FALSE_ALARM = 1e-6
ORACLE = json.loads(
    (Path(__file__).parent.parent / "privacy" / "response_oracle.json").read_text()
)


def fitted(epsilon=1.0, shape=(4,), bounds=(0, 1), **parameters):
    response = TensorRandomizedResponse(epsilon, bounds=bounds, **parameters)
    return response.fit(np.zeros((2, *shape)))


def integer_channel(plan, kind=0, outside=None):
    """P(output | level) as fractions, from the integers that the sampler takes.

    Two-sided geometric noise on `outside` levels beyond either end of the scale; with
    None, all outputs beyond an end are one, within which all ratios are the same.
    """
    keep = Fraction(int(plan.thresholds[kind]), 2**52)
    levels = range(plan.n_levels)
    if not isinstance(plan.moves, tuple):
        moves = [[Fraction(int(w), 2**60) for w in row] for row in plan.moves]
        outputs = list(levels)
    else:
        a = Fraction(math.exp(-plan.moves[0] / plan.moves[1]))
        reach = outside or 1
        outputs = list(range(-reach, plan.n_levels + reach))
        moves = [[a ** abs(y - x) * (1 - a) / (1 + a) for y in outputs] for x in levels]
        if outside is None:
            for row in moves:
                row[0], row[-1] = row[0] / (1 - a), row[-1] / (1 - a)
    return [
        [keep * (y == x) + (1 - keep) * moves[x][i] for i, y in enumerate(outputs)]
        for x in levels
    ]


def chi_square(counts, probabilities):
    """P-value of counts, the cells with few of them taken together."""
    order = np.argsort(probabilities)
    expected = probabilities[order] * counts.sum()
    cell = np.minimum(np.cumsum(expected) // 20, np.cumsum(expected)[-1] // 20 - 1)
    cell = np.unique(cell, return_inverse=True)[1]
    expected, found = np.bincount(cell, expected), np.bincount(cell, counts[order])
    return chi2.sf(((found - expected) ** 2 / expected).sum(), len(found) - 1)


class TestGuarantee:
    @OF_NOISES
    @pytest.mark.parametrize("k", [2, 3, 5])
    @pytest.mark.parametrize("epsilon", [0.01, 1.0, 9.0])
    def test_ratios_of_whole_tensors(self, noise, k, epsilon):
        # Two entries, all pairs of tensors, all outputs, in fractions.
        response = fitted(epsilon, (2,), n_levels=k, noise=noise)
        table = integer_channel(response._plan)
        assert all(sum(row) == 1 for row in table)
        ratios = [
            max(upper[i] / lower[i] for i in range(len(upper)))
            for upper, lower in product(table, table)
        ]
        largest = max(ratios)  # of one entry; entries are independent
        assert 2 * math.log(largest) <= epsilon * (1 + 1e-12)
        assert 2 * math.log(largest) >= epsilon * (1 - 1e-5)

    @OF_NOISES
    @pytest.mark.parametrize("wrong", ["keep", "scale"])
    def test_ratios_tell_a_wrong_law(self, noise, wrong):
        # The assertion above fails where p is 10% or the moves' rate 1% too large.
        response = fitted(1.0, (2,), n_levels=3, noise=noise, keep_probability=0.005)
        keep, rate = response._plan.keep, 1 / response.scale_
        if noise == "gaussian":
            rate = rate**2 / 2
        law = LevelLaw(noise, 3, rate * (1.01 if wrong == "scale" else 1))
        keep *= 1.1 if wrong == "keep" else 1
        assert 2 * law.epsilon(keep) > 1.0 * (1 + 1e-4)

    @OF_NOISES
    @pytest.mark.parametrize("epsilon", [0.5, 4.0])
    def test_delta_of_whole_tensors(self, noise, epsilon):
        # Three entries, two kinds of weight; hockey-stick divergences by enumeration.
        delta, weights = 0.01, [0.0, 0.0, 0.6]
        response = fitted(
            epsilon, (3,), n_levels=3, noise=noise, weights=weights, delta=delta
        )
        plan = response._plan
        tables = [
            np.array(integer_channel(plan, int(kind)), dtype=float)
            for kind in plan.kinds
        ]
        worst = 0.0
        for pairs in product(product(range(3), range(3)), repeat=3):
            upper, lower = 1.0, 1.0
            for table, (x, y) in zip(tables, pairs, strict=True):
                upper = np.multiply.outer(upper, table[x]).ravel()
                lower = np.multiply.outer(lower, table[y]).ravel()
            worst = max(worst, np.maximum(upper - math.exp(epsilon) * lower, 0).sum())
        assert worst <= delta * (1 + 1e-9)
        assert worst >= 0.95 * delta
        assert response.privacy_guarantee_.epsilon == epsilon
        assert response.privacy_guarantee_.delta == delta

    @pytest.mark.parametrize("case", ORACLE["kov_eps0_for"])
    def test_an_entry_may_spend_what_the_theorem_says_or_more(self, case):
        budget = _levels._theorem_budget(case["I"], case["eps"], 1e-5)
        assert budget == pytest.approx(case["eps0"], rel=1e-8)
        design = design_levels(
            "laplace", 64, np.ones(1), np.array([case["I"]]), True, case["eps"], 1e-5
        )
        spent = design.law.epsilon(design.keep)
        assert spent > 1.3 * case["eps0"]
        assert event_epsilon(design.event, 1e-5) <= case["eps"] * (1 + 1e-12)

    def test_two_levels_spend_what_the_theorem_says(self):
        # Binary randomised response is the theorem's own worst case.
        design = design_levels(
            "laplace", 2, np.ones(1), np.array([784]), True, 1.0, 1e-5
        )
        assert design.law.epsilon(design.keep) == pytest.approx(0.0095876, rel=1e-4)

    def test_many_levels_and_a_tiny_budget(self):
        # Rounding to integers tells here, also of the weights that make up for it.
        response = fitted(1e-6, (1,), n_levels=1000)
        plan = response._plan
        keep, total = Fraction(int(plan.thresholds[0]), 2**52), 2**60
        columns = [plan.moves[:, end].tolist() for end in (0, -1)]
        for end, column in zip((0, 999), columns, strict=True):
            found = [(1 - keep) * Fraction(weight, total) for weight in column]
            found[end] += keep
            ratio = max(found) / min(found)
            assert float(ratio - 1) <= math.expm1(1e-6)

    @pytest.mark.parametrize(
        ("epsilon", "delta", "n"),
        [(10.0, 1e-16, 1), (0.5, 1e-20, 4), (5.0, 1e-300, 100), (1e-8, 1e-300, 2)],
    )
    def test_deltas_that_grant_nothing(self, epsilon, delta, n):
        guarantee = fitted(epsilon, (n,), delta=delta).privacy_guarantee_
        assert guarantee.epsilon_at(delta) <= epsilon
        assert guarantee.epsilon_at(delta) > 0.4 * epsilon

    def test_a_budget_that_is_no_number(self):
        with pytest.raises(ValueError, match="too small to be represented"):
            fitted(1e-15, (4,), delta=1e-9)

    def test_unit_relation_and_words(self):
        guarantee = fitted(2.0).privacy_guarantee_
        assert (guarantee.epsilon, guarantee.delta) == (2.0, 0.0)
        assert (guarantee.unit, guarantee.relation) == ("sample", "replace-one")
        assert "truncated Laplace" in str(guarantee)
        assert guarantee.claimed is None

    def test_many_weights_are_accounted_for_from_above(self):
        weights = np.linspace(0, 1, 60)
        response = fitted(2.0, (60,), n_levels=4, weights=weights, delta=1e-5)
        plan = response._plan
        law = LevelLaw("laplace", 4, 1 / response.scale_)
        each = [law.epsilon(keep / 2**52) for keep in plan.thresholds]
        event = response.privacy_guarantee_.event
        assert event_epsilon(event, 0.0) >= math.fsum(each)
        assert event_epsilon(event, 0.0) <= 1.1 * math.fsum(each)

    def test_pipeline_and_search(self):
        rng = np.random.default_rng(0)
        X, y = rng.integers(0, 5, (60, 6)) / 4, rng.random(60)
        pipeline = make_pipeline(
            TensorRandomizedResponse(bounds=(0, 1), n_levels=5, tensor_shape=(2, 3)),
            Ridge(),
        )
        grid = {"tensorrandomizedresponse__epsilon": [1.0, 8.0]}
        search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
        report = privacy_of(search)
        # Each row is transformed in all three splits, to teach or to test, and again
        # in the refit.
        best = search.best_params_["tensorrandomizedresponse__epsilon"]
        assert report.guarantee.epsilon == pytest.approx(3 * (1 + 8) + best)


class TestBudget:
    @OF_NOISES
    def test_the_best_share_is_found(self, noise):
        # Against a fine grid of shares, each with all that it may spend.
        epsilon, delta, n, k = 3.0, 1e-5, 50, 9
        span = LevelLaw.span_of(noise, k)

        def error(design):
            return design.errors().max()

        def shared(share, budget):
            rate = share * budget / span
            if noise == "geometric":
                rate = math.floor(rate * 2**44) / 2**44
            law = LevelLaw(noise, k, rate)
            keep = law.keep(budget)
            return LevelDesign(law, keep, np.ones(1), np.array([n]), True)

        found = design_levels(noise, k, np.ones(1), np.array([n]), True, epsilon, delta)
        grid = [
            _levels._largest(lambda e, s=s: shared(s, e), 20.0, epsilon, delta)
            for s in np.linspace(0.1, 1, 10)
        ]
        best = min(map(error, filter(None, grid)))
        assert error(found) <= 1.02 * best

    def test_what_is_given_is_taken(self):
        for parameters in (
            {"keep_probability": 0.001},
            {"scale": 400.0},
            {"scale": math.inf},
            {"keep_probability": 0.0005, "scale": 500.0},
            {"keep_probability": 0.0005, "noise": "gaussian"},
            {"scale": 400.0, "noise": "wrapped"},
            {"scale": 900.0, "noise": "geometric"},
        ):
            response = fitted(1.0, (64,), n_levels=9, delta=1e-5, **parameters)
            for name, value in parameters.items():
                if name == "noise":
                    continue
                assert getattr(response, f"{name}_") == pytest.approx(value, rel=1e-9)
            if len(parameters) == 1:
                # The rest of the budget is spent.
                found = response.privacy_guarantee_.epsilon_at(1e-5)
                assert 0.999 <= found <= 1.0 + 1e-12

    @pytest.mark.parametrize(
        "parameters",
        [
            {"keep_probability": 0.5},
            {"scale": 1.0},
            {"keep_probability": 0.5, "scale": 100.0},
            {"keep_probability": 0.01, "noise": "geometric"},
        ],
    )
    def test_what_does_not_fit_is_refused(self, parameters):
        with pytest.raises(ValueError, match="No randomised response"):
            fitted(0.1, (64,), n_levels=9, **parameters)

    def test_moves_that_lose_the_level_are_not_debiased(self):
        with pytest.raises(ValueError, match="cannot be debiased"):
            fitted(0.1, (64,), n_levels=5, keep_probability=0.0, scale=math.inf)

    def test_errors_against_other_mechanisms(self):
        # Two levels are no worse than the analytic Gaussian mechanism, and pure twice
        # as good as Laplace noise, in the worst case.
        n, delta = 784, 1e-5
        gaussian = n * n / gaussian_mu(1.0, delta) ** 2
        assert fitted(1.0, (n,), delta=delta).expected_squared_error_ < gaussian
        laplace = n * 2 * n**2
        pure = fitted(1.0, (n,)).expected_squared_error_
        assert pure == pytest.approx(laplace / 2, rel=0.01)


class TestLaw:
    @OF_NOISES
    @pytest.mark.parametrize("debias", [True, False])
    @pytest.mark.parametrize("weights", [None, [0.0, 0.5, 0.9]])
    def test_exact_moments(self, noise, debias, weights):
        # The stated mean and variance are those of the integers that are sampled.
        response = fitted(
            6.0, (3,), n_levels=4, noise=noise, debias=debias, weights=weights,
            bounds=(-1, 2),
        )  # fmt: skip
        plan = response._plan
        levels = np.tile(np.arange(4.0)[:, None], (1, 3)) - 1
        variances = response.variance(levels)
        for entry in range(3):
            kind = 0 if weights is None else int(plan.kinds[entry])
            table = np.array(integer_channel(plan, kind, 200), dtype=float)
            if noise == "geometric":
                outputs = np.arange(-200, 204) - 1.0
            else:
                outputs = plan.outputs[kind] - 1
            means = table @ outputs
            if debias or noise == "geometric":
                np.testing.assert_allclose(means, levels[:, entry], atol=1e-9)
            else:
                assert np.abs(means - levels[:, entry]).max() > 0.1
            squares = [
                row @ (outputs - mean) ** 2
                for row, mean in zip(table, means, strict=True)
            ]
            np.testing.assert_allclose(variances[:, entry], squares, rtol=1e-9)

    @OF_NOISES
    def test_worst_case_over_the_range(self, noise):
        for debias in (True, False):
            response = fitted(3.0, (2,), n_levels=4, noise=noise, debias=debias)
            values = np.tile(np.linspace(0, 1, 3001)[:, None], (1, 2))
            variance = response.variance(values)
            assert response.noise_variance_ == pytest.approx(variance.max(), rel=1e-6)
            if debias or noise == "geometric":
                worst = variance.sum(axis=1).max()
            else:
                plan = response._plan
                lower, upper, share = plan._around(values[:, :1], slice(None))
                mean = plan.means[0][lower] * (1 - share)
                mean = (mean + plan.means[0][upper] * share) / 3
                worst = 2 * (variance[:, :1] + (mean - values[:, :1]) ** 2).max()
            assert response.expected_squared_error_ == pytest.approx(worst, rel=1e-6)

    @OF_NOISES
    def test_sampled_as_stated(self, noise):
        """False-alarm rate 1e-6 for each cell of weight and level."""
        response = fitted(
            4.0, (2,), n_levels=4, noise=noise, debias=False, weights=[0.0, 0.7],
            bounds=(0, 3), random_state=1,
        )  # fmt: skip
        plan, n = response._plan, 40_000
        for level in range(4):
            released = response.transform(np.full((n, 2), float(level)))
            for entry in range(2):
                table = integer_channel(plan, int(plan.kinds[entry]), 60)
                expected = np.array(table[level], dtype=float)
                first = -60 if noise == "geometric" else 0
                index = np.rint(released[:, entry]).astype(int) - first
                counts = np.bincount(index, minlength=expected.size)
                assert chi_square(counts, expected) > FALSE_ALARM

    @pytest.mark.parametrize("wrong", ["half the noise", "kept twice as often"])
    def test_a_wrong_sampler_is_told(self, wrong):
        response = fitted(
            4.0, (2,), n_levels=4, debias=False, bounds=(0, 3), random_state=1,
            keep_probability=0.1,
        )  # fmt: skip
        expected = np.array(integer_channel(response._plan)[1], dtype=float)
        plan = response._plan
        if wrong == "half the noise":
            law = LevelLaw("laplace", 4, 2 / response.scale_)
            moves = LevelDesign(law, 0.1, np.ones(1), np.ones(1, int), False).moves
            object.__setattr__(plan, "moves", moves)
        else:
            object.__setattr__(plan, "thresholds", plan.thresholds * 2)
        released = response.transform(np.ones((20_000, 2)))
        counts = np.bincount(released.astype(int).ravel(), minlength=4)
        assert chi_square(counts, expected) < FALSE_ALARM

    @OF_NOISES
    def test_unbiased_between_levels_too(self, noise):
        """False-alarm rate 1e-6 for each of two means and variances."""
        response = fitted(
            20.0, (5, 5), n_levels=3, noise=noise, random_state=2, delta=1e-5,
            weights=np.linspace(0, 0.8, 25).reshape(5, 5),
        )  # fmt: skip
        X = np.tile(np.linspace(0, 1, 25).reshape(5, 5), (40_000, 1, 1))
        error, variance = response.transform(X) - X, response.variance(X[:1])[0]
        z = error.mean(axis=0) / np.sqrt(variance / len(X))
        assert chi2.sf((z**2).sum(), 25) > FALSE_ALARM
        squares = np.square(error)
        deviation = squares.mean(axis=0) - variance
        spread = squares.std(axis=0) / math.sqrt(len(X))
        assert np.abs(deviation / spread).max() < norm.isf(FALSE_ALARM / 50)
        # A variance 5% off is seen.
        wrong = (squares.mean(axis=0) - 0.95 * variance) / spread
        assert np.abs(wrong).max() > norm.isf(FALSE_ALARM / 50)

    def test_arrays_of_bounds(self):
        low, high = np.array([0.0, 10.0, -5.0]), np.array([1.0, 20.0, -4.0])
        response = fitted(1e3, (3,), bounds=(low, high), n_levels=11)
        X = low + (high - low) * np.array([[0.3, 0.5, 1.0], [0.0, 0.9, 0.2]])
        np.testing.assert_allclose(response.transform(X), X, atol=2e-2)
        assert response.noise_variance_.shape == (3,)
        ratio = response.noise_variance_[1] / response.noise_variance_[0]
        assert ratio == pytest.approx(100)

    def test_float32_and_shapes(self):
        X = np.full((5, 6), 0.5, dtype=np.float32)
        response = TensorRandomizedResponse(
            bounds=(0, 1), tensor_shape=(2, 3), weights=[0.1, 0.9], random_state=0
        ).fit(X)
        assert response.transform(X).dtype == np.float32
        assert response.noise_variance_.shape == (2, 3)
        by_rows = response._plan.kinds.reshape(2, 3)
        assert np.all(by_rows == by_rows[:, :1])

    def test_no_information_beyond_the_grid(self):
        # Every output is one of the numbers that the levels stand for.
        response = fitted(2.0, (50,), n_levels=4, random_state=0)
        X = np.random.default_rng(0).random((400, 50))
        outputs = response._plan.outputs[0] * response._plan.step
        assert np.isin(response.transform(X), outputs).all()

    def test_infinite_epsilon_clips_alone(self):
        response = fitted(math.inf, (2,), n_levels=4)
        X = np.array([[0.3, 2.0]])
        np.testing.assert_array_equal(response.transform(X), [[0.3, 1.0]])
        np.testing.assert_array_equal(response.variance(X), [[0.0, 0.0]])
        with pytest.raises(AttributeError, match="nothing is randomised"):
            response.keep_probability_  # noqa: B018


class TestPublished:
    @pytest.mark.parametrize(
        "case", [c for c in ORACLE["tldp_published"] if c["I"] > 1]
    )
    @pytest.mark.parametrize("name", ["L", "G"])
    def test_the_truth_against_the_oracle(self, case, name):
        noise = {"L": "laplace", "G": "gaussian"}[name]
        with pytest.warns(UnsoundClaimWarning, match="what holds is"):
            response = fitted(
                float(case["eps"]), (case["I"],), bounds=(0, case["Delta"]),
                noise=noise, delta=1e-5, calibration="published",
            )  # fmt: skip
        keep = float(case[f"p_{name}"])
        assert response.keep_probability_ == pytest.approx(keep, rel=1e-9, abs=1e-300)
        scale = float(case["b" if name == "L" else "sigma"])
        assert response.scale_ == pytest.approx(scale, rel=1e-12)
        guarantee = response.privacy_guarantee_
        exact = float(case[f"eps_at_1e-5_{name}"])
        assert guarantee.claimed == (float(case["eps"]), 0.0)
        if math.isinf(exact):
            assert not guarantee.protects
        else:
            assert exact * (1 - 1e-6) <= guarantee.epsilon <= exact * (1 + 6e-4)

    def test_the_truth_of_the_papers_size(self):
        with pytest.warns(UnsoundClaimWarning, match=r"epsilon = 382\.4"):
            response = fitted(1.0, (28, 28), delta=1e-5, calibration="published")
        assert response.privacy_guarantee_.epsilon == pytest.approx(382.3, abs=0.1)
        assert response.privacy_guarantee_.epsilon_at(0.0) == math.inf

    def test_weights_against_the_oracle(self):
        case = ORACLE["tldp_weighted"]
        with pytest.warns(UnsoundClaimWarning):
            response = fitted(
                float(case["eps"]), (case["I"],), weights=case["w"], delta=1e-5,
                calibration="published",
            )  # fmt: skip
        found = response._plan.keeps[response._plan.kinds]
        np.testing.assert_allclose(found, np.array(case["p"], float), rtol=1e-9)
        shown = response.privacy_guarantee_.event.probability
        assert shown == pytest.approx(float(case["atom"]), rel=1e-9)

    @pytest.mark.parametrize("noise", ["laplace", "gaussian"])
    def test_the_algorithm_to_the_letter(self, noise):
        """False-alarm rate 1e-6 for each of three comparisons."""
        n, epsilon, width = 200_000, 1.0, 4.0
        with pytest.warns(UnsoundClaimWarning):
            response = fitted(
                epsilon, (1,), bounds=(-1, 3), noise=noise, calibration="published",
                random_state=5,
            )  # fmt: skip
        if noise == "laplace":
            scale = width / epsilon
            keep = 1 / (2 * scale + 1)
            variance = 2 * scale**2
        else:
            scale = math.sqrt(width**2 / (2 * epsilon))
            keep = 1 / (scale * math.sqrt(2 * math.pi) + 1)
            variance = scale**2
        error = response.transform(np.full((n, 1), 0.1)).ravel() - 0.1
        kept = np.mean(error == 0)
        limit = norm.isf(FALSE_ALARM / 2)
        assert abs(kept - keep) < limit * math.sqrt(keep * (1 - keep) / n)
        added = error[error != 0]
        assert abs(added.mean()) < limit * math.sqrt(variance / len(added))
        squares = added**2
        spread = squares.std() / math.sqrt(len(added))
        assert abs(squares.mean() - variance) < limit * spread
        assert abs(squares.mean() - 0.9 * variance) > limit * spread
        assert response.noise_variance_ == pytest.approx((1 - keep) * variance, 1e-5)

    def test_noise_that_is_clipped_everywhere_protects_nobody(self):
        """Its shift is beyond the clip of the lattice."""
        with pytest.warns(UnsoundClaimWarning):
            response = fitted(
                600.0, noise="gaussian", delta=1e-5, calibration="published"
            )
        assert not response.privacy_guarantee_.protects

    def test_levels_come_first(self):
        with pytest.warns(UnsoundClaimWarning):
            response = fitted(
                30.0, (1,), n_levels=3, calibration="published", random_state=0
            )
        released = response.transform(np.full((300, 1), 0.4)).ravel()
        kept = released[np.abs(released - 0.5) < 1e-12]
        assert len(kept) > 30
        assert not np.any(released == 0.4)

    @pytest.mark.parametrize(
        "parameters",
        [
            {"noise": "wrapped"},
            {"noise": "geometric"},
            {"keep_probability": 0.1},
            {"scale": 2.0},
            {"bounds": (np.zeros(4), np.ones(4))},
        ],
    )
    def test_what_the_paper_does_not_have(self, parameters):
        with pytest.raises(ValueError, match="does not take this"):
            fitted(1.0, calibration="published", **parameters)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"bounds": (1, 0)}, "low < high"),
        ({"n_levels": 1}, "n_levels"),
        ({"n_levels": 2000}, "at most 1024"),
        ({"noise": "cauchy"}, "noise"),
        ({"noise": "geometric", "scale": math.inf}, "infinite scale"),
        ({"weights": [0.5, 2.0, 0, 0]}, r"in \[0, 1\]"),
        ({"weights": [0.5, math.nan, 0, 0]}, r"in \[0, 1\]"),
        ({"weights": np.zeros((3, 3))}, "for samples of shape"),
        ({"weights": ["a", "b", "c", "d"]}, "array of numbers"),
        ({"keep_probability": 1.0}, "keep_probability"),
        ({"scale": 0.0}, "scale"),
    ],
)
def test_bad_parameters_before_anything_is_drawn(parameters, words):
    response = TensorRandomizedResponse(**{"bounds": (0, 1), **parameters})
    with pytest.raises(ValueError, match=words):
        response.fit(np.zeros((3, 4)))
    assert not hasattr(response, "_releases")


def test_released_objects_hold_nothing_of_the_data():
    X = np.random.default_rng(0).random((50, 4))
    response = fitted(2.0, n_levels=5)
    before = pickle.dumps(clone(response).fit(np.zeros((50, 4))))
    assert pickle.dumps(clone(response).fit(X)) == before
