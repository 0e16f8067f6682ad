"""The interface of all measurements."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ..._random import NoiseStreams
from ...privacy import PrivacyGuarantee
from .._problem import Problem

if TYPE_CHECKING:
    from .._domain import Domain
    from .._local import LocalValues
    from .._own_rows import NoisyValues
    from ._expectation import Expectation

OnSweep = Callable[[int], bool]
Data = TypeVar("Data")
Released = TypeVar("Released")

# Last clause of the statement of a guarantee.
ALL_ELSE = "all else is computed from them and the coordinates."


class ReleasedMean(NamedTuple):
    """A noisy mean, a bound on its noise's deviation, and the number of values."""

    value: float
    error: float
    n: float


@dataclass(frozen=True)
class Outcome:
    """A model fitted to released values.

    Attributes
    ----------
    model : Rows or SharedModel
        Without the offset.
    offset : float
    n_iter : int
    residual_variance : float, default=None
        Variance of the values around the model, if the measurement allows an estimate.
    noise_of_value : float, default=0.0
        Least variance of the noise on a single value; 0 without such noise.
    has_estimated_variance : bool, default=True
        Whether the variance of the values around the model is estimated, and not a
        constant.
    perturbation : str, default=None
        The perturbation that was applied, if it was chosen during the release.
    guarantee : PrivacyGuarantee, default=None
        Guarantee of all releases together, if it depends on what was released.
    kept_values : NoisyValues or LocalValues, default=None
        The randomised values in memory, if the model was fitted to values.
    domain : Domain, default=None
        The domain of the values, if it was found during the release.
    """

    model: Any
    offset: float
    n_iter: int
    residual_variance: float | None = None
    noise_of_value: float = 0.0
    has_estimated_variance: bool = True
    perturbation: str | None = None
    guarantee: PrivacyGuarantee | None = None
    kept_values: "NoisyValues | LocalValues | None" = None
    domain: "Domain | None" = None


@dataclass(frozen=True, eq=False)
class Measurement(Generic[Data, Released]):
    """A way to make a release from private values, with its guarantee.

    Only `measure(entries, streams, on_sweep)` reads the values of entries.
    `complete(released, on_sweep)` computes an `Outcome` from its result alone. At the
    end of a fit, `warn(released)` warns if its result suggests a mistake. The type
    parameters are those of `entries` and of `released`.

    Attributes
    ----------
    problem : Problem
    name : str
        The perturbation.
    n_sweeps : int
        Largest number of calls of `on_sweep`, which takes the number of the sweep and
        ends the fit by returning True.
    draws : bool
        Whether the release draws random numbers.
    guarantee : PrivacyGuarantee
        Guarantee of all releases together.
    """

    problem: Problem
    name = ""

    def __post_init__(self) -> None:
        """Refuse problems that the measurement does not support."""

    @property
    def n_sweeps(self) -> int:
        """Largest number of calls of `on_sweep`."""
        return 0

    @property
    def uses_features(self) -> bool:
        """Whether the measurement fits weights of features."""
        return False

    @property
    def draws(self) -> bool:
        """Whether the release draws random numbers; without noise, it draws none."""
        return math.isfinite(self.problem.epsilon)

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """Guarantee of all releases together."""
        raise NotImplementedError

    def measure(
        self, entries: Data, streams: NoiseStreams | None, on_sweep: OnSweep
    ) -> Released:
        """Read the values, and return the release."""
        raise NotImplementedError

    def complete(self, released: Released, on_sweep: OnSweep) -> Outcome:
        """Compute the model from the release."""
        raise NotImplementedError

    def warn(self, released: Released) -> None:
        """Warn if the release suggests a mistake, or if it holds little but noise.

        A fit calls it once, when its model is stored.
        """

    def mean_of(self, released: Released) -> ReleasedMean | None:
        """The released mean of the values, or None if it is noise or not known."""
        return None

    def expected_error(self, expectation: "Expectation") -> float:
        """Expected squared error, in half ranges squared; see `Expectation`."""
        raise ValueError(f"The expected error of {self.name!r} is not known.")
