"""Rounding of sums in two limbs, by Python's integers."""

import numpy as np
import pytest

from sktensordp.measure import rounded


@pytest.mark.parametrize("shift", [1, 20, 31, 32, 33, 40])
def test_two_limbs_are_rounded_to_the_nearest_step(shift):
    rng = np.random.default_rng(shift)
    most = 2 ** min(50 + shift, 60)
    whole = [int(n) for n in rng.integers(-most, most, 200)]
    whole += [k * 2 ** (shift - 1) for k in range(-5, 6)]
    high = np.array([n >> 32 for n in whole])
    low = np.array([n & 0xFFFFFFFF for n in whole])
    # Sums of several blocks overflow the low limb.
    high, low = high - 3, low + 3 * 2**32
    found = rounded(np.array([high, low]), shift)
    assert found.tolist() == [(n + 2 ** (shift - 1)) >> shift for n in whole]


@pytest.mark.parametrize("shift", [1, 17, 31, 32, 33, 40])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_sums_are_rounded_exactly(shift, sign):
    """Of 2^52 steps, one less and one more; their halves of a step as well."""
    steps = [2**52 + k for k in (-1, 0, 1)]
    whole = [
        sign * (n << shift) + (k << (shift - 1)) for n in steps for k in (-1, 0, 1)
    ]
    limbs = np.array([[n >> 32 for n in whole], [n & 0xFFFFFFFF for n in whole]])
    expected = [(n + (1 << (shift - 1))) >> shift for n in whole]
    assert rounded(limbs, shift).tolist() == expected
