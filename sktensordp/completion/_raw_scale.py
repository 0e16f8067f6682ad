"""What raw values say about a declared scale, where nothing private is released.

Other warnings about a scale are in `_likely_mistakes`, and read releases only.
"""

import numpy as np
from numpy.typing import NDArray

from .._noise_only import is_one_of_many
from .._validation import warn
from ._domain import Domain

# Share of raw values beyond a declared scale, and width of a scale compared to that of
# the values, from which on the scale is probably another one.
_MOST_CLIPPED, _TOO_WIDE = 0.01, 4
# With fewer values, a narrow range says nothing.
_LEAST_VALUES = 20


def warn_of_raw_values(values: NDArray[np.floating], domain: Domain) -> None:
    """Say which values a declared scale clips, and whether it is far too wide.

    This reads raw values, and shows their range: call it only where all of them are
    released without noise.

    Parameters
    ----------
    values : ndarray of shape (n_values,)
    domain : Domain
    """
    if not len(values) or not domain.is_declared or domain.spent or is_one_of_many():
        return
    (low, high), sides = domain.bounds, _shares_off(values, domain)
    ends = f"{float(np.min(values)):g} to {float(np.max(values)):g}"
    clipped = [
        f"{share:.1%} of the values are {side}"
        for side, share in sides.items()
        if share
    ]
    if sum(sides.values()) >= _MOST_CLIPPED:
        warn(
            f"{' and '.join(clipped)} the declared scale, {low:g} to {high:g}, and were "
            f"clipped to it. The values use {ends}. If some stand for 'not rated', pass "
            f"missing_values; if all have another scale, declare it."
        )
    elif len(values) >= _LEAST_VALUES and np.ptp(values) < (high - low) / _TOO_WIDE:
        warn(
            f"The declared scale, {low:g} to {high:g}, is more than {_TOO_WIDE} times as "
            f"wide as the values, which use {ends}. Noise grows with it: declare the "
            f"scale that the values can have."
        )


def warn_of_own_values(values: NDArray[np.floating], domain: Domain) -> None:
    """Say that some values of a caller are clipped, but none of the values.

    Parameters
    ----------
    values : ndarray of shape (n_values,)
        They never leave the caller's device, where the warning is.
    domain : Domain
    """
    sides = [side for side, share in _shares_off(values, domain).items() if share]
    if sides and not is_one_of_many():
        low, high = domain.bounds
        warn(
            f"Some of these values are {' or '.join(sides)} the declared scale, {low:g} "
            f"to {high:g}, and are clipped to it. Leave out numbers that stand for 'not "
            f"rated', and convert values of another scale."
        )


def _shares_off(values: NDArray[np.floating], domain: Domain) -> dict[str, float]:
    """The shares of values below a domain, and above it."""
    if not len(values):
        return {}
    low, high = domain.bounds
    # Half a step beyond the first and the last level is rounded, not clipped.
    gap = 0.0 if domain.levels is None else min(np.diff(domain.levels)) / 2
    below, above = values < low - gap, values > high + gap
    return {"below": float(np.mean(below)), "above": float(np.mean(above))}
