"""The door for a selection: one of several public candidates, by their scores.

A score is a whole number that depends on the data, such as how many values lie on a
scale. Permute-and-flip (McKenna and Sheldon 2020) selects a candidate; the scores
themselves are not released.

**Guarantee.** Candidate i comes up with probability exp(q_i - max q), where q_i is the
rate times its score plus a public prior, and a uniform one of those that came up is
selected. This is the distribution of the largest of the numbers q_i + E_i, where E_i
are independent standard exponential variates (Ding et al. 2021, "The permute-and-flip
mechanism is identical to report-noisy-max with exponential noise"). It depends on
differences of the q_i alone, so adding one constant to all of them changes nothing.
Take two neighbouring data sets between which the changes of all scores lie in one
interval of length `spread`. Less its lower end, every change is in [0, spread], so no
q_i falls and none rises by more than epsilon. Given the variates of the others,
candidate i wins if E_i exceeds max over j of (q_j + E_j) - q_i, a threshold that moves
by at most epsilon either way; and P(E_i > t - epsilon) <= e^epsilon P(E_i > t) for
every t. So the selection is epsilon-DP. Rounding the rate down makes epsilon smaller.
If scores may fall as well as rise, by at most s, `spread` is 2 s.

A selection comes before all else that a release computes. What follows may depend on
the selected candidate in any way, under the rest of the budget (`left_of`); its event
is composed with that of the selection (`after`).
"""

import math
import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from .._random import NoiseStreams, check_recorded
from ..noise import permute_and_flip

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

# Rates are multiples of 1 / _UNIT.
_UNIT = 2**48
# The step of the release's streams; no other release of a fit has so large a number.
_STEP = 2**32 - 1


def select(
    scores: Sequence[int],
    *,
    spread: int,
    epsilon: float,
    streams: NoiseStreams | None,
    log_priors: Sequence[int] | None = None,
) -> int:
    """Release the number of one candidate; those with larger scores are more probable.

    Parameters
    ----------
    scores : sequence of int
        A score for each candidate.
    spread : int
        Length of an interval that holds the changes of all scores between any two
        neighbouring data sets.
    epsilon : float
        Epsilon of the selection, which the recorded event contains; see `after`.
    streams : NoiseStreams or None
        Streams of a release that the open budgets have recorded.
    log_priors : sequence of int, default=None
        Public; a candidate whose number is larger by one is favoured as if its score
        were larger by ``spread / epsilon``.

    Returns
    -------
    index : int

    Raises
    ------
    RuntimeError
        If the release is not recorded, or has selected before.
    ValueError
        If epsilon is too small for the spread.
    """
    rate = _rate(spread, epsilon)
    numbers = [rate * operator.index(score) for score in scores]
    if log_priors is not None:
        numbers = [
            number + _UNIT * operator.index(log_prior)
            for number, log_prior in zip(numbers, log_priors, strict=True)
        ]
    bits = check_recorded(streams).take(_STEP).stream(0)
    return permute_and_flip(bits, numbers, _UNIT)


def _rate(spread: int, epsilon: float) -> int:
    """What a score counts in q, in units of 1 / _UNIT, rounded down."""
    if not (spread >= 1 and 0 < epsilon < math.inf):
        raise ValueError("A selection needs a positive spread and a finite epsilon.")
    rate = math.floor(Fraction(epsilon) * _UNIT / operator.index(spread))
    if rate < 1:
        raise ValueError("epsilon is too small for this spread of scores.")
    return rate


def left_of(epsilon: float, spent: float) -> float:
    """The rest of a budget; `spent` and the rest never add up to more than `epsilon`.

    Parameters
    ----------
    epsilon, spent : float
        With ``0 <= spent < epsilon``. An infinite `epsilon` stays infinite.
    """
    is_whole = not spent or math.isinf(epsilon)
    return epsilon if is_whole else math.nextafter(epsilon - spent, 0.0)


def after(epsilon: float, event: "DpEvent") -> "DpEvent":
    """Event of an `epsilon`-DP release, such as a selection, and of what follows.

    Parameters
    ----------
    epsilon : float
    event : DpEvent
        Of all that follows, whatever came out first.
    """
    from dp_accounting import dp_event

    from ..privacy.accounting._events import PureDpEvent

    return dp_event.ComposedDpEvent([PureDpEvent(epsilon), event])
