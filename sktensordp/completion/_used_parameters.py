"""Which parameters a fit uses: by its perturbation, and by what it protects."""

import inspect
from typing import TYPE_CHECKING

from .._validation import warn

if TYPE_CHECKING:
    from ._sources import CompletionParameters

_OF_ENTRIES = ("input", "sums", "statistics", "output", "gradient")
_OF_UNITS = ("sums", "statistics")
_WITH_FEATURES = ("input", "sums", "statistics", "output")
# The perturbations that use a parameter: with unit="entry", and if `unit` is a mode.
# What all of them use is not listed.
USED_BY = {
    "rank": (("input", "statistics", "output", "gradient"), _OF_UNITS),
    "max_iter": (("input", "gradient"), ()),
    "level_prior": (("input",), ()),
    "side_information": (_WITH_FEATURES, _OF_UNITS),
    "n_pattern_components": (_WITH_FEATURES, _OF_UNITS),
    "smooth_modes": (("input",), ()),
    "delta": (("gradient",), _OF_UNITS),
    "check_scale": (_OF_ENTRIES, ()),
}
# `delta` is a limit, and the guarantee tells what is spent of it.
_NO_SETTINGS = {"delta"}


def table_of_parameters() -> str:
    """The table as text for docstrings."""
    heads = ("parameter", 'unit="entry"', "unit is a mode")
    rows = [heads]
    for name, (of_entries, of_units) in USED_BY.items():
        cells = (_listed(of_entries, _OF_ENTRIES), _listed(of_units, _OF_UNITS))
        rows.append((f"`{name}`", *cells))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    line = "  ".join("=" * width for width in widths)
    body = [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([line, body[0], line, *body[1:], line])


def _listed(some: tuple[str, ...], every: tuple[str, ...]) -> str:
    others = [name for name in every if name not in some]
    if len(others) == 1 and len(every) > 2:
        return f"all but {others[0]}"
    return (", ".join(some) or "none") if others else "all"


def warn_of_unused(estimator: "CompletionParameters") -> None:
    """Warn of parameters that are not at their defaults, and that the fit ignores.

    With "auto" there is no warning: the fit decides which perturbation it takes. Nor
    is there one for the published algorithms, which use all their parameters.
    """
    perturbation = estimator.perturbation
    if perturbation == "auto" or not estimator._may_ignore_parameters:
        return
    defaults = inspect.signature(type(estimator)).parameters
    is_unit = estimator.unit != "entry"
    for name, users in USED_BY.items():
        # A subclass may fix some, and not have them.
        if perturbation in users[is_unit] or name not in defaults.keys() - _NO_SETTINGS:
            continue
        given, default = getattr(estimator, name), defaults[name].default
        is_default = isinstance(given, type(default)) and given == default
        if is_default or (isinstance(given, int) and given == 0):  # 0 asks for none
            continue
        unit = f" with unit = {estimator.unit}" if is_unit else ""
        warn(
            f'perturbation="{perturbation}"{unit} does not use `{name}`. Leave it at '
            f"its default ({default!r}), or choose another perturbation."
        )
