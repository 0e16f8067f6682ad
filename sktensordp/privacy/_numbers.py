"""Numbers in texts: never a smaller epsilon than the truth."""

import decimal

__all__ = ["exact", "shown", "shown_below"]


def shown(value: float) -> str:
    """A number to four digits, rounded up; 0.1 + 0.2 is 0.3."""
    return _four_digits(float(value) * (1 - 1e-14), decimal.ROUND_CEILING)


def shown_below(value: float) -> str:
    """A number to four digits, rounded down: for what is at least that much."""
    return _four_digits(float(value) * (1 + 1e-14), decimal.ROUND_FLOOR)


def exact(value: float) -> str:
    """A number in the fewest digits that tell it from all others."""
    return repr(float(value)).removesuffix(".0")


def _four_digits(value: float, rounding: str) -> str:
    context = decimal.Context(prec=4, rounding=rounding)
    return f"{float(context.create_decimal_from_float(value)):.4g}"
