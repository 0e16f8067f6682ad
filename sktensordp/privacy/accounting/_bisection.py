"""Where a falling curve reaches a bound; the answer is never too small."""

from collections.abc import Callable


def first_where(
    holds: Callable[[float], bool],
    low: float,
    high: float,
    relative: float = 1e-13,
    absolute: float = 0.0,
) -> float:
    """The least number that is known to satisfy a condition, by bisection.

    Parameters
    ----------
    holds : callable
        The condition, which holds from some number on.
    low, high : float
        It does not hold at `low`, and holds at `high`.
    relative, absolute : float
        Largest distance of the result from a number that does not satisfy it.

    Returns
    -------
    high : float
        The upper end of the last bracket.
    """
    while high - low > relative * high + absolute:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return float(high)
