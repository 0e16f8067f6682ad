"""Numbers: a check of parameters, and texts that never understate an epsilon."""

import decimal
import math
import operator
from contextlib import suppress
from typing import Any

# True would count as 1.
_BOOLEANS = ("bool", "bool_")


def check_number(value: object, name: str) -> None:
    """Refuse a parameter that is not a single number, without showing it."""
    is_number = hasattr(value, "__float__") and type(value).__name__ not in _BOOLEANS
    if getattr(value, "ndim", 0) or not is_number:
        raise TypeError(f"{name} must be one number, got {type(value).__name__}.")


def checked_integer(value: Any, name: str) -> int:
    """A parameter as an integer; True does not count as one."""
    if type(value).__name__ not in _BOOLEANS:
        with suppress(TypeError):
            return operator.index(value)
    raise TypeError(f"{name} must be an integer, got {type(value).__name__}.")


def shown(value: float) -> str:
    """A number with four digits, rounded up; 0.1 + 0.2 is shown as 0.3."""
    return _four_digits(float(value) * (1 - 1e-14), decimal.ROUND_CEILING)


def shown_below(value: float) -> str:
    """A number with four digits, rounded down: for lower bounds."""
    return _four_digits(float(value) * (1 + 1e-14), decimal.ROUND_FLOOR)


def epsilon_line(epsilon: float) -> str:
    """An epsilon in a list of releases; infinity is shown as "no protection"."""
    return f"epsilon = {shown(epsilon)}" if math.isfinite(epsilon) else "no protection"


def exact(value: float) -> str:
    """A number with the fewest digits that identify the float."""
    return repr(float(value)).removesuffix(".0")


def _four_digits(value: float, rounding: str) -> str:
    context = decimal.Context(prec=4, rounding=rounding)
    return f"{float(context.create_decimal_from_float(value)):.4g}"
