"""What every private solver has, and what it answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...privacy import PrivacyGuarantee

__all__ = ["ALL_ELSE", "OnSweep", "Outcome", "Solver"]

OnSweep = Callable[[int], bool]

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
    residual_variance: float | None = None
    perturbation: str | None = None


class Solver:
    """A way to a model, and what it reveals.

    It has a `guarantee`. `release(values, streams, on_sweep)` does all that touches the
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

    name: str = ""
    starts_at_random: bool = False

    @property
    def n_sweeps(self) -> int:
        """How often `on_sweep` is called at most."""
        return 0

    @property
    def unsound(self) -> bool:
        """Whether what is claimed of it does not hold."""
        return False

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """What it reveals."""
        raise NotImplementedError

    def guarantee_of(self, name: str) -> PrivacyGuarantee:
        """The same, where it chose `name` as the perturbation in the end."""
        raise NotImplementedError

    def release(self, values: Any, streams: Any, on_sweep: OnSweep) -> Any:
        """All that touches the values."""
        raise NotImplementedError

    def complete(self, released: Any, on_sweep: OnSweep) -> Outcome:
        """The model, from what was released."""
        raise NotImplementedError
