import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sktensordp.datasets import make_low_rank_tensor


def unfolding(tensor, mode):
    return np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)


def ranks(tensor):
    return tuple(
        int(np.linalg.matrix_rank(unfolding(tensor, mode), tol=1e-9))
        for mode in range(tensor.ndim)
    )


def make(*args, **params):
    return make_low_rank_tensor(*args, **{"random_state": 0, **params})


def test_types():
    made = make()
    assert made.shape == (20, 20, 20)
    assert made.data.shape == (4000, 3)
    assert made.data.dtype == np.int64
    assert made.target.shape == (4000,)
    assert made.target.dtype == made.tensor.dtype == made.truth.dtype == np.float64
    assert made.tensor.shape == made.truth.shape == made.shape
    assert "4000 of its 8000" in made.DESCR
    assert "CP decomposition of rank 3" in made.DESCR
    assert "rank (3, 2)" in make((5, 4), (3, 2), decomposition="tucker").DESCR


@pytest.mark.parametrize("shape", [(7, 5), (6, 5, 4), (4, 3, 5, 2)])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_cp_has_its_rank(shape, rank):
    expected = tuple(min(rank, n) for n in shape)
    assert ranks(make(shape, rank, scaled=False).truth) == expected
    # A constant is added by the scaling.
    more = tuple(min(rank + 1, n) for n in shape)
    assert ranks(make(shape, rank).truth) == more


def test_columns_of_a_cp_have_unit_length():
    """A term of unit vectors has norm one; five of them cannot have more than five."""
    assert np.linalg.norm(make(rank=1, scaled=False).truth) == pytest.approx(1)
    assert np.linalg.norm(make(rank=5, scaled=False).truth) <= 5


@pytest.mark.parametrize("rank", [(4, 3, 2), (3, 3, 3), (2, 2, 2)])
def test_factors_are_orthonormal(rank):
    """Every unfolding then has the singular values of that of the core."""
    core = np.random.RandomState(0).standard_normal(rank)
    truth = make((9, 8, 7), rank, decomposition="tucker", scaled=False).truth
    for mode in range(3):
        expected = np.linalg.svd(unfolding(core, mode), compute_uv=False)
        found = np.linalg.svd(unfolding(truth, mode), compute_uv=False)
        assert_allclose(found[: rank[mode]], expected, rtol=1e-12)
        assert_allclose(found[rank[mode] :], 0, atol=1e-12)


@pytest.mark.parametrize("decomposition", ["cp", "tucker"])
def test_scaling(decomposition):
    plain = make(decomposition=decomposition, scaled=False).truth
    scaled = make(decomposition=decomposition).truth
    assert scaled.min() == 0
    assert scaled.max() == 1
    assert_allclose(scaled * np.ptp(plain) + plain.min(), plain, atol=1e-14)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("snr", [0.25, 1.0, 20.0])
def test_signal_to_noise_ratio(snr, scaled):
    """Of 64,000 noises; a wrong alarm at 6 standard deviations, 2e-9, seed fixed."""
    made = make((40, 40, 40), snr=snr, scaled=scaled, missing_ratio=0)
    noise = made.tensor - made.truth
    deviation = math.sqrt(2 / noise.size)
    assert abs(noise.var() * snr / made.truth.var() - 1) < 6 * deviation
    assert abs(noise.mean()) < 6 * noise.std() / math.sqrt(noise.size)
    # Standard deviations in the place of variances would be noticed.
    assert snr == 1 or abs(noise.std() * snr / made.truth.std() - 1) > 20 * deviation


def test_no_noise():
    made = make(snr=math.inf)
    assert_array_equal(made.target, made.truth[tuple(made.data.T)])


@pytest.mark.parametrize(
    ("shape", "missing_ratio", "n_observed"),
    [
        ((20, 20, 20), 0.5, 4000),
        ((20, 20, 20), 0, 8000),
        ((7, 5, 3), 0.9, 10),
        ((7, 5, 3), 0.334, 70),
        ((4, 4), 0.999, 1),
    ],
)
def test_missing_entries(shape, missing_ratio, n_observed):
    made = make(shape, 2, missing_ratio=missing_ratio)
    assert len(made.data) == len(np.unique(made.data, axis=0)) == n_observed
    assert np.count_nonzero(~np.isnan(made.tensor)) == n_observed
    assert_array_equal(made.tensor[tuple(made.data.T)], made.target)
    assert (made.data >= 0).all()
    assert (made.data < made.shape).all()


@pytest.mark.thorough
def test_entries_are_observed_at_random():
    """How often each of 12 cells is among 4; 6 standard deviations, 2e-8 for all."""
    n_repeats = 3000
    rng = np.random.RandomState(0)
    counts = sum(
        ~np.isnan(make((4, 3), 1, missing_ratio=2 / 3, random_state=rng).tensor)
        for _ in range(n_repeats)
    )
    deviation = math.sqrt(1 / 3 * 2 / 3 / n_repeats)
    assert np.max(np.abs(counts / n_repeats - 1 / 3)) < 6 * deviation


def test_rows_are_in_random_order():
    made = make()
    position = np.arange(len(made.data))
    # 4,000 rows: 6 standard deviations, 2e-9 each.
    for column in made.data.T:
        assert abs(np.corrcoef(position, column)[0, 1]) < 6 / math.sqrt(4000)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"shape": (5,)}, "at least two modes"),
        ({"shape": (1, 1)}, "two cells"),
        ({"shape": (5, 0)}, "shape must hold positive integers"),
        ({"shape": (5, 2.5)}, "shape must hold positive integers"),
        ({"shape": 5}, "shape must hold positive integers"),
        ({"rank": 0}, "rank must be at least 1, got 0"),
        ({"rank": 2.0}, "rank must be an integer for a CP"),
        ({"rank": (3, 3, 3)}, "rank must be an integer for a CP"),
        ({"rank": 2.0, "decomposition": "tucker"}, "rank must hold positive integers"),
        (
            {"rank": (3, 3), "decomposition": "tucker"},
            "one integer for each",
        ),
        ({"rank": 21, "decomposition": "tucker"}, "must not exceed the shape"),
        ({"rank": (3, 0, 3), "decomposition": "tucker"}, "rank must hold positive"),
        ({"decomposition": "tt"}, "decomposition must be 'cp' or 'tucker', got 'tt'"),
        ({"missing_ratio": 1}, r"missing_ratio must be a number in \[0, 1\)"),
        ({"missing_ratio": -0.1}, "missing_ratio must be"),
        ({"missing_ratio": np.nan}, "missing_ratio must be"),
        ({"missing_ratio": "half"}, "missing_ratio must be"),
        ({"snr": 0}, "snr must be a positive number, got 0"),
        ({"snr": np.nan}, "snr must be a positive number"),
        ({"snr": None}, "snr must be a positive number"),
    ],
)
def test_invalid_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        make_low_rank_tensor(**params)
