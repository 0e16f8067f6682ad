"""What an attacker can achieve, from the curve of deltas of a guarantee.

The attacker knows two neighbouring data sets, sees a release about one of them, and
guesses which one it is: the one that the attacker suspects, or the other one. A test is
described by its false positive rate (FPR) and its true positive rate (TPR). With
delta(t), the delta at epsilon t in the worse order of the two data sets,

    TPR <= e^t FPR + delta(t),    1 - FPR <= e^t (1 - TPR) + delta(t)    for all t >= 0,

and some test, or two of them mixed at random, comes as close to the least of these
bounds as one likes (Dong, Roth and Su 2022, Proposition 2.13). All numbers here follow
from these lines, and are rounded up.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from ._numbers import check_number

_Curve = Callable[[float], float]

# Epsilons between which the best line is sought first.
_EPSILONS = np.concatenate([[0.0], np.geomspace(1e-9, 1e3, 97)])
_ROUNDING = 1e-14


class PredictiveValues(NamedTuple):
    """How often an attacker's answers are right.

    Attributes
    ----------
    positive : float
        Largest probability that the suspicion is true, if the attacker says so.
    negative : float
        Largest probability that the suspicion is false, if the attacker says so.
    """

    positive: float
    negative: float


def _check_prior(prior: float) -> None:
    check_number(prior, "prior")
    if not 0 < prior < 1:
        raise ValueError(f"prior must be in (0, 1), got {prior}.")


def _check_fpr(fpr: float) -> None:
    check_number(fpr, "fpr")
    if not 0 <= fpr <= 1:
        raise ValueError(f"fpr must be in [0, 1], got {fpr}.")


def advantage(delta_at: _Curve) -> float:
    """Largest TPR - FPR."""
    return min(1.0, delta_at(0.0))


def max_accuracy(delta_at: _Curve, prior: float) -> float:
    """Largest probability of a right guess, if the suspicion is true with `prior`.

    For m, the larger one of prior and 1 - prior, m is the accuracy without a release.
    A test adds (1 - m) TPR - m FPR, if positive means the less likely answer: at most
    (1 - m) delta(ln(m / (1 - m))).
    """
    _check_prior(prior)
    more, less = max(prior, 1 - prior), min(prior, 1 - prior)
    epsilon = max(math.log(more / less) * (1 - _ROUNDING) - _ROUNDING, 0.0)
    return min(1.0, (more + less * delta_at(epsilon)) * (1 + 1e-15))


def max_tpr(delta_at: _Curve, pure_epsilon: float, fpr: float) -> float:
    """Largest TPR of a test with at most this FPR: the least of the lines at `fpr`.

    Each kind of line is convex in exp(epsilon), so its least value is between the
    neighbours of the best of a grid of epsilons.
    """
    _check_fpr(fpr)
    if fpr == 1:
        return 1.0

    def in_order(epsilon: float) -> float:
        growth = math.exp(epsilon) * fpr if fpr and epsilon < 700 else math.inf
        return (growth if fpr else 0.0) + delta_at(epsilon)

    def exchanged(epsilon: float) -> float:
        # 1 - factor (1 - fpr - delta), where nothing cancels.
        factor = math.exp(-min(epsilon, 700.0))
        return -math.expm1(-epsilon) + factor * (fpr + delta_at(epsilon))

    extra = [pure_epsilon] if math.isfinite(pure_epsilon) else []
    tpr = min(_least(in_order, extra), _least(exchanged, extra))
    return min(1.0, max(tpr, fpr) * (1 + _ROUNDING))


def _least(line: _Curve, extra: list[float]) -> float:
    """The least value of a line of one kind at one level, over its epsilon."""
    grid = np.unique([*_EPSILONS, *extra])
    values = [line(epsilon) for epsilon in grid.tolist()]
    best = int(np.argmin(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    refined = minimize_scalar(
        line, bounds=(low, high), method="bounded", options={"xatol": 1e-11 * high}
    )
    return min(values[best], float(refined.fun))


def trade_off(
    epsilons: ArrayLike, deltas: ArrayLike, alpha: ArrayLike
) -> NDArray[np.float64]:
    """Smallest type II error at each type I error `alpha`, over all tests.

    Dong, Roth and Su (2022), Proposition 2.13: the highest of the lines 1 - delta -
    e^epsilon alpha and e^-epsilon (1 - delta - alpha). The two kinds of lines belong
    to the two orders of the neighbours.
    """
    power_left = 1 - np.reshape(deltas, (-1, 1))
    factor = np.exp(np.minimum(np.reshape(epsilons, (-1, 1)), 700.0))
    alpha = np.asarray(alpha)
    lines = np.maximum(power_left - factor * alpha, (power_left - alpha) / factor)
    return np.clip(lines.max(axis=0), 0.0, 1.0)


def predictive_values(
    delta_at: _Curve, pure_epsilon: float, prior: float, fpr: float
) -> PredictiveValues:
    """Largest predictive values of a test with this FPR.

    Bayes' rule with the largest TPR. At an FPR of 0 or 1, TPR / FPR or its complement
    is replaced by its limit, e^epsilon or e^-epsilon at delta = 0.
    """
    _check_prior(prior)
    tpr = max_tpr(delta_at, pure_epsilon, fpr)
    largest = math.exp(pure_epsilon) if pure_epsilon < 700 else math.inf
    gain = min(tpr / fpr, largest) if fpr else largest
    loss = max((1 - tpr) / (1 - fpr), 1 / largest) if fpr < 1 else 1 / largest
    odds = prior / (1 - prior)
    return PredictiveValues(
        min(1.0, (1 + _ROUNDING) / (1 + 1 / (odds * gain))),
        min(1.0, (1 + _ROUNDING) / (1 + odds * loss)),
    )


def epsilon_for_accuracy(accuracy: float, delta: float = 0.0) -> float:
    """Largest epsilon at which no attacker is right more often than `accuracy`.

    The attacker hesitates between two possible neighbouring data sets, at even odds,
    and knows everything else. So ``epsilon_for_accuracy(0.6)`` is the epsilon at which
    no attacker is right about me more than 60% of the time.

    Parameters
    ----------
    accuracy : float
        Probability of a right guess, in (0.5, 1).
    delta : float, default=0.0
        The delta of the guarantee, in [0, 2 accuracy - 1).

    Returns
    -------
    epsilon : float
        ln((accuracy - delta) / (1 - accuracy)), rounded down.

    Raises
    ------
    TypeError
        If an argument is not one number.
    ValueError
        If `accuracy` is not in (0.5, 1), or if `delta` is negative or so large that
        delta alone allows more right guesses.

    See Also
    --------
    PrivacyGuarantee.max_accuracy : The accuracy that one guarantee allows.

    Notes
    -----
    The result holds for every mechanism with this epsilon and delta: it inverts the
    worst curve that an (epsilon, delta)-differentially private mechanism can have. That
    mechanism reveals everything with probability delta, and is binary randomised
    response otherwise (Kairouz, Oh and Viswanath 2017). Guesses about it are right with
    probability (e^epsilon + delta) / (e^epsilon + 1). A mechanism with a better curve,
    such as Gaussian noise, keeps below `accuracy` at a larger epsilon, too: check it by
    ``privacy_guarantee_.max_accuracy()``.

    Examples
    --------
    >>> from sktensordp.privacy import epsilon_for_accuracy
    >>> round(epsilon_for_accuracy(0.6), 3)
    0.405
    >>> round(epsilon_for_accuracy(0.6, delta=0.01), 3)
    0.389
    """
    check_number(accuracy, "accuracy")
    check_number(delta, "delta")
    if not 0.5 < accuracy < 1:
        raise ValueError(f"accuracy must be in (0.5, 1), got {accuracy}.")
    if not 0 <= delta < 2 * accuracy - 1:
        raise ValueError(
            f"delta must be >= 0 and below 2 accuracy - 1 = {2 * accuracy - 1:g}, or "
            f"no epsilon keeps the accuracy; got {delta}."
        )
    # (accuracy - delta) / (1 - accuracy) - 1, whose logarithm keeps its digits near 0.
    excess = (2 * accuracy - 1 - delta) / (1 - accuracy)
    return math.log1p(excess) * (1 - _ROUNDING)
