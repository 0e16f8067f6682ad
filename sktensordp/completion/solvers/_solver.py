"""What every private solver has, and what it answers."""

from dataclasses import dataclass
from typing import Any

__all__ = ["ALL_ELSE", "Outcome", "Solver"]

# How the statement of a guarantee ends.
ALL_ELSE = "all else is computed from them and the coordinates."


@dataclass(frozen=True)
class Outcome:
    """A fitted model, computed from what was released.

    Attributes
    ----------
    model : StructuredCP, StructuredTucker or SharedModel
        Without the offset.
    offset : float
    n_iter : int
    residual_variance : float, default=None
        Of the values around the model, where it was found.
    perturbation : str, default=None
        What was done, where the solver has chosen it.
    """

    model: Any
    offset: float
    n_iter: int
    residual_variance: Any = None
    perturbation: str | None = None


class Solver:
    """A way to a model, and what it reveals.

    It has a `guarantee`. `release(values, source, on_sweep)` does all that touches the
    values, and `complete(released, on_sweep)` computes an `Outcome` from that alone.

    Attributes
    ----------
    name : str
        The perturbation.
    n_sweeps : int
        How often it calls `on_sweep` at most, with the number of the sweep; true ends
        the fit.
    starts_at_random : bool
        Whether it draws even where there is no noise.
    unsound : bool
        Whether what is claimed of it does not hold.
    """

    name = ""
    n_sweeps = 0
    starts_at_random = False
    unsound = False
