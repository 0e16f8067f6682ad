"""What raw values say about a scale, where nothing is released of them.

Other warnings about a scale are in `_likely_mistakes`, and read releases only. The two
functions here read raw values, so who calls them decides what others learn:

- `warn_of_released_values` shows the range of the values. Only fits without noise call
  it, which release all of them.
- `warn_of_own_values` shows the share that is clipped, but no value: warnings end up in
  logs. Only calls that release nothing, or that run where the values are recorded, make
  it: users are folded in, predictions are scored, a client or a party reads its values.

No fit with noise calls either. A test goes through all doors.
"""

from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._noise_only import is_one_of_many
from .._validation import warn
from ._domain import Domain
from ._entries import Entries
from ._sources import ObservedEntries

# Share of raw values beyond a scale, and width of a declared scale compared to that of
# the values, from which on the scale is probably another one. See doc/constants.md.
_MOST_CLIPPED, _TOO_WIDE = 0.01, 4
# With fewer values, a narrow range says nothing.
_LEAST_VALUES = 20
_ADVICE = (
    "If some stand for 'not rated', leave these entries out, as missing_values does. "
    "If all have another scale, declare it, or convert them."
)


class _Beyond(NamedTuple):
    """Numbers of values below a scale, and above it."""

    below: int
    above: int


def warn_of_released_values(entries: ObservedEntries, domain: Domain) -> bool:
    """Say how many values a declared scale clips, or that it is far too wide.

    Parameters
    ----------
    entries : Entries or PartitionedEntries
        All of them are released without noise.
    domain : Domain

    Returns
    -------
    has_warned : bool
    """
    n = entries.n_entries
    if not n or not domain.is_declared or is_one_of_many():
        return False
    (low, high), (least, largest) = _ends(domain), entries.extremes
    used = f"The values use {least:g} to {largest:g}."
    if least == largest:
        used = f"All values are {least:g}."
    beyond = _Beyond(0, 0)
    if least < low or largest > high:  # otherwise, no worker has to count
        counted = entries.ask(_beyond_in, domain)
        beyond = _Beyond(*map(sum, zip(*counted, strict=True)))
    clipped = _clipped(beyond, n, domain)
    if clipped:
        warn(f"{clipped}, to which they were clipped. {used} {_ADVICE}")
        return True
    is_wide = largest - least < (high - low) / _TOO_WIDE
    if is_wide and n >= _LEAST_VALUES:
        warn(
            f"The declared scale, {low:g} to {high:g}, is more than {_TOO_WIDE} times "
            f"as wide as the values. {used} Noise grows with the scale: declare the "
            f"one that values can have."
        )
        return True
    return False


def warn_of_own_values(
    values: NDArray[np.floating],
    domain: Domain,
    consequence: str = "to which they are clipped",
) -> None:
    """Say which share of a caller's own values is beyond a scale, but no value.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Finite.
    domain : Domain
    consequence : str
    """
    if is_one_of_many():
        return
    clipped = _clipped(_beyond(values, domain), len(values), domain)
    if clipped:
        warn(f"{clipped}, {consequence}. {_ADVICE}")


def warn_before_sending(values: NDArray[np.floating], domain: Domain) -> None:
    """Warn of a caller's own values, of which something will be sent to others.

    Where users turn warnings into errors, an error would stop what is sent, and others
    would learn from it that the values are beyond the scale. So it is dropped.
    """
    with suppress(Warning):
        warn_of_own_values(values, domain)


def _ends(domain: Domain) -> tuple[float, float]:
    """The ends of a scale."""
    if domain.levels is None:
        return domain.bounds
    return domain.levels[0], domain.levels[-1]


def _clipped(beyond: _Beyond, n: int, domain: Domain) -> str:
    """The beginning of a warning, or nothing if only few values are clipped."""
    if not n or sum(beyond) < _MOST_CLIPPED * n:
        return ""
    shares = zip(beyond, beyond._fields, strict=True)
    sides = [
        f"{count / n:.1%} of the values are {side}" for count, side in shares if count
    ]
    is_declared = domain.is_declared and not domain.spent
    scale = "the declared scale" if is_declared else "the scale of the fit"
    if domain.is_declared or domain.spent:  # otherwise, its ends are values
        scale += ", {:g} to {:g}".format(*_ends(domain))
    return f"{' and '.join(sides)} {scale}"


def _beyond_in(chunk: Entries, domain: Domain) -> _Beyond:
    """See `_beyond`."""
    return _beyond(chunk.values, domain)


def _beyond(values: NDArray[np.floating], domain: Domain) -> _Beyond:
    """Count the values below a scale, and above it.

    Half a step beyond the first and the last level, they are rounded, not clipped.
    """
    (low, high), gap = _ends(domain), 0.0
    if domain.levels is not None:
        gap = min(np.diff(domain.levels)) / 2
    n_below, n_above = values < low - gap, values > high + gap
    return _Beyond(int(np.count_nonzero(n_below)), int(np.count_nonzero(n_above)))
