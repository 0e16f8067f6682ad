"""Randomised response for tensors of levels.

Statistical tests use fixed seeds and state their false-alarm rates.
"""

import json
import math
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2, norm

from sktensordp.mechanisms import TensorRandomizedResponse
from tests.support.goodness import chi_square
from tests.support.seams import (
    LevelDesign,
    LevelDistribution,
    _largest_in_budget,
    _theorem_budget,
    design_levels,
    event_epsilon,
)

NOISES = ("laplace", "gaussian", "geometric", "wrapped")
OF_NOISES = pytest.mark.parametrize("noise", NOISES)
SLOW = pytest.mark.slow
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


class TestGuarantee:
    @OF_NOISES
    @pytest.mark.parametrize(("k", "epsilon"), [(2, 1.0), (3, 9.0), (5, 0.01)])
    def test_ratios_of_whole_tensors(self, noise, k, epsilon):
        # Two entries, all pairs of tensors, all outputs, in fractions.
        response = fitted(epsilon, (2,), n_levels=k, noise=noise)
        table = integer_channel(response._randomizer)
        assert all(sum(row) == 1 for row in table)
        ratios = [
            max(upper[i] / lower[i] for i in range(len(upper)))
            for upper, lower in product(table, table)
        ]
        largest = max(ratios)  # of one entry; entries are independent
        assert 2 * math.log(largest) <= epsilon * (1 + 1e-12)
        assert 2 * math.log(largest) >= epsilon * (1 - 1e-5)

    @pytest.mark.thorough
    @pytest.mark.parametrize(("noise", "epsilon"), [
        ("laplace", 4.0), pytest.param("wrapped", 0.5, marks=SLOW),
        pytest.param("gaussian", 4.0, marks=SLOW),
        pytest.param("geometric", 0.5, marks=SLOW),
    ])  # fmt: skip
    def test_delta_of_whole_tensors(self, noise, epsilon):
        # Three entries, two kinds of weight; hockey-stick divergences by enumeration.
        delta, weights = 0.01, [0.0, 0.0, 0.6]
        response = fitted(
            epsilon, (3,), n_levels=3, noise=noise, weights=weights, delta=delta
        )
        plan = response._randomizer
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

    @pytest.mark.parametrize("case", ORACLE["kov_eps0_for"][:1])
    def test_an_entry_may_spend_what_the_theorem_says_or_more(self, case):
        budget = _theorem_budget(case["I"], case["eps"], 1e-5)
        assert budget == pytest.approx(case["eps0"], rel=1e-8)
        design = design_levels(
            "laplace", 64, np.ones(1), np.array([case["I"]]), True, case["eps"], 1e-5
        )
        spent = design.distribution.epsilon(design.keep)
        assert spent > 1.3 * case["eps0"]
        assert event_epsilon(design.event, 1e-5) <= case["eps"] * (1 + 1e-12)

    @SLOW
    def test_many_levels_and_a_tiny_budget(self):
        # Rounding to integers tells here, also of the weights that make up for it.
        response = fitted(1e-6, (1,), n_levels=400)
        plan = response._randomizer
        keep, total = Fraction(int(plan.thresholds[0]), 2**52), 2**60
        columns = [plan.moves[:, end].tolist() for end in (0, -1)]
        for end, column in zip((0, 399), columns, strict=True):
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

    @pytest.mark.thorough
    def test_many_weights_are_accounted_for_from_above(self):
        # With this, entries differ in more than the moves that they have in common.
        options = {"weights": np.linspace(0, 1, 60), "keep_probability": 0.01}
        response = fitted(2.0, (60,), n_levels=4, delta=1e-5, **options)
        plan = response._randomizer
        law = LevelDistribution("laplace", 4, 1 / response.scale_)
        each = [law.epsilon(keep / 2**52) for keep in plan.thresholds]
        event = response.privacy_guarantee_.event
        assert event_epsilon(event, 0.0) >= math.fsum(each)
        assert event_epsilon(event, 0.0) <= 1.1 * math.fsum(each)


class TestBudget:
    @SLOW
    @OF_NOISES
    def test_the_best_share_is_found(self, noise):
        # Against a fine grid of shares, each with all that it may spend.
        epsilon, delta, n, k = 3.0, 1e-5, 50, 9
        span = LevelDistribution.span_of(noise, k)

        def error(design):
            return design.errors().max()

        def shared(share, budget):
            rate = share * budget / span
            if noise == "geometric":
                rate = math.floor(rate * 2**44) / 2**44
            law = LevelDistribution(noise, k, rate)
            keep = law.keep(budget)
            return LevelDesign(law, keep, np.ones(1), np.array([n]), True)

        found = design_levels(noise, k, np.ones(1), np.array([n]), True, epsilon, delta)
        grid = [
            _largest_in_budget(lambda e, s=s: shared(s, e), 20.0, epsilon, delta)
            for s in (0.1, 0.4, 0.6, 0.8, 1.0)
        ]
        best = min(map(error, filter(None, grid)))
        assert error(found) <= 1.02 * best

    def test_what_is_given_is_taken(self):
        for parameters in (
            {"keep_probability": 0.001},
            {"keep_probability": 0.0005, "scale": 500.0},
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


class TestLaw:
    @OF_NOISES
    @pytest.mark.parametrize(
        ("debias", "weights"), [(True, None), (False, [0.0, 0.5, 0.9])]
    )
    def test_exact_moments(self, noise, debias, weights):
        # The stated mean and variance are those of the integers that are sampled.
        response = fitted(
            6.0, (3,), n_levels=4, noise=noise, debias=debias, weights=weights,
            bounds=(-1, 2),
        )  # fmt: skip
        plan = response._randomizer
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
                plan = response._randomizer
                lower, upper, share = plan._levels_around(values[:, :1], slice(None))
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
        plan, n = response._randomizer, 40_000
        for level in range(4):
            released = response.transform(np.full((n, 2), float(level)))
            for entry in range(2):
                table = integer_channel(plan, int(plan.kinds[entry]), 60)
                expected = np.array(table[level], dtype=float)
                first = -60 if noise == "geometric" else 0
                index = np.rint(released[:, entry]).astype(int) - first
                counts = np.bincount(index, minlength=expected.size)
                assert chi_square(counts, expected) > FALSE_ALARM

    @OF_NOISES
    def test_unbiased_between_levels_too(self, noise):
        """False-alarm rate 1e-6 for each of two means and variances."""
        response = fitted(
            20.0, (3, 3), n_levels=3, noise=noise, random_state=2,
            weights=np.linspace(0, 0.8, 9).reshape(3, 3),
        )  # fmt: skip
        X = np.tile(np.linspace(0, 1, 9).reshape(3, 3), (40_000, 1, 1))
        error, variance = response.transform(X) - X, response.variance(X[:1])[0]
        z = error.mean(axis=0) / np.sqrt(variance / len(X))
        assert chi2.sf((z**2).sum(), 9) > FALSE_ALARM
        squares = np.square(error)
        deviation = squares.mean(axis=0) - variance
        spread = squares.std(axis=0) / math.sqrt(len(X))
        assert np.abs(deviation / spread).max() < norm.isf(FALSE_ALARM / 18)
        # A variance 7% off is seen.
        wrong = (squares.mean(axis=0) - 0.93 * variance) / spread
        assert np.abs(wrong).max() > norm.isf(FALSE_ALARM / 18)


NONE = "No randomised response"
BAD = [
    *(({"epsilon": 0.01, "n_levels": 9, **p}, NONE) for p in [
        {"keep_probability": 0.5}, {"scale": 1.0},
        {"keep_probability": 0.5, "scale": 100.0},
        {"keep_probability": 0.01, "noise": "geometric"},
    ]),
    ({"epsilon": 0.1, "keep_probability": 0.0, "scale": math.inf}, "cannot be removed"),
    ({"epsilon": 1e-15, "delta": 1e-9}, "too small to be represented"),
    ({"n_levels": 1}, "n_levels"), ({"n_levels": 1025}, "at most 1024"),
    ({"noise": "cauchy"}, "noise"),
    ({"noise": "geometric", "scale": math.inf}, "infinite scale"),
    ({"weights": [0.5, 2.0, 0, 0]}, r"in \[0, 1\]"),
    ({"weights": [0.5, math.nan, 0, 0]}, r"in \[0, 1\]"),
    ({"weights": np.zeros((3, 3))}, "for samples of shape"),
    ({"weights": ["a", "b", "c", "d"]}, "array of numbers"),
    ({"keep_probability": 1.0}, "keep_probability"), ({"scale": 0.0}, "scale"),
]  # fmt: skip


@pytest.mark.parametrize(("parameters", "words"), BAD)
def test_bad_parameters_before_anything_is_planned(parameters, words):
    response = TensorRandomizedResponse(**{"bounds": (0, 1), **parameters})
    with pytest.raises(ValueError, match=words):
        response.fit(np.zeros((3, 4)))
    assert not hasattr(response, "privacy_guarantee_")
