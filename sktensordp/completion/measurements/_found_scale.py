"""The scale of the values, found privately, and then another measurement.

A fit without a declared domain first selects a scale from a public family
(``_scales.py``), by permute-and-flip with a small part of epsilon, through the door's
`select`. The scale is then a declared one for all that follows, which has the rest of
epsilon.

**Guarantee.** Neighbouring data sets differ in the value of one entry. The number of
entries and their coordinates are public, and with them the epsilon of the search and
whether there is one. Scores of all scales change by amounts in an interval of length
`SPREAD`, so the search is epsilon_s-DP (``measure/_selection.py``). Given the scale,
the measurement has the guarantee of a fit with this scale declared, at epsilon -
epsilon_s and delta. Both compose adaptively. The event is recorded before a scale is
known, so it holds for every scale: an event of pure noise would depend on the scale,
and counts as `PureDpEvent(epsilon)` together with the search; Gaussian noise is planned
for the budget alone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..._noise_only import is_one_of_many
from ..._random import NoiseStreams
from ...base import LOGGER
from ...measure import after, left_of, select
from ...privacy import PrivacyGuarantee
from ...privacy._numbers import shown
from .._domain import Domain
from .._likely_mistakes import warn_of_mean, warn_of_sums
from .._problem import Problem
from .._scales import SPREAD, cells_of, domain_of_scale, log_priors, scale_scores
from .._sources import ObservedEntries
from .._values import entry_guarantee
from ._gradient import GradientPerturbation
from ._measurement import Measurement, OnSweep, Outcome

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

MOST_SPENT = 0.1
"""Largest share of epsilon that a search takes."""

# The search takes this much epsilon over the number of values. If the number times
# epsilon is below `_LEAST`, there is no search: a fit to so few predicts about as well
# as the mean does. See doc/constants.md.
_SPENT_ON_ALL, _LEAST = 600, 1000
_SOURCE = (
    "McKenna and Sheldon (2020), Algorithm 1, then an upper bound from the rest of the "
    "budget; adaptive composition"
)


class _Released(NamedTuple):
    """The measurement that was chosen for the scale found, and its release."""

    measurement: Measurement[Any, Any]
    released: object


def check_enough_to_find(n_values: int, epsilon: float) -> None:
    """Refuse to find the scale of too few values."""
    if n_values * epsilon < _LEAST:
        raise ValueError(
            f"Neither levels nor value_bounds is declared, and {n_values} values are "
            f"too few to find their scale under epsilon = {epsilon:g}: that takes "
            f"{math.ceil(_LEAST / epsilon)}. Declare the public scale, such as "
            f"levels=[1, 2, 3, 4, 5] or value_bounds=(0, 100)."
        )


@dataclass(frozen=True, eq=False)
class FoundScale(Measurement[ObservedEntries, _Released]):
    """Find the scale of the values, then randomise them as if it were declared.

    Attributes
    ----------
    choose : callable
        The measurement for a problem with a domain.
    eligible : callable
        The measurements that `choose` chooses from.
    name : str
        The parameter `perturbation`.
    """

    choose: Callable[[Problem], Measurement[Any, Any]]
    eligible: Callable[[Problem], Sequence[Measurement[Any, Any]]]
    name: str

    def __post_init__(self) -> None:
        """Refuse, before anything is spent, what no scale would make possible.

        Raises
        ------
        ValueError
            If there are too few values for a search, or as the measurements do.
        """
        epsilon, n_values = self.problem.epsilon, self.problem.entries.n_entries
        check_enough_to_find(n_values, epsilon)
        # The guarantee is computed for what it refuses.
        assert self._of_any_scale.guarantee
        self.problem.entries.check_supported(self._of_any_scale)

    @cached_property
    def _of_any_scale(self) -> Measurement[Any, Any]:
        """A measurement that may be chosen, planned for some scale.

        If there are several, it is the first, which has the most sweeps.
        """
        return self.eligible(self._problem_of(Domain((0.0, 1.0))))[0]

    @property
    def search_epsilon(self) -> float:
        """Epsilon of the search."""
        epsilon, n_values = self.problem.epsilon, self.problem.entries.n_entries
        return min(_SPENT_ON_ALL / n_values, MOST_SPENT * epsilon)

    @property
    def n_sweeps(self) -> int:
        """Largest number of calls of `on_sweep`."""
        return self._of_any_scale.n_sweeps

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        """Guarantee of the search and of all that follows, whatever is found."""
        return guarantee_of_any_scale(
            self.name, self.problem.epsilon, self.problem.delta, self.search_epsilon
        )

    def measure(
        self, entries: ObservedEntries, streams: NoiseStreams | None, on_sweep: OnSweep
    ) -> _Released:
        """Find the scale, and make the release of the measurement for it.

        Raises
        ------
        ValueError
            If no usual scale holds most of the values. This is a result of the search,
            and costs as much as any other.
        """
        counts = np.sum(entries.ask(cells_of), axis=0)
        index = select(
            scale_scores(counts, self.problem.entries.n_entries),
            spread=SPREAD,
            epsilon=self.search_epsilon,
            streams=streams,
            log_priors=log_priors(),
        )
        domain = domain_of_scale(index)
        if domain is None:
            raise ValueError(
                "No usual scale seems to hold most of the values. Looking for one has "
                "spent the budget of this fit. Declare levels or value_bounds."
            )
        if not is_one_of_many():
            LOGGER.info("scale of the values, found privately: %s", domain.described)
        measurement = self.choose(self._problem_of(domain))
        return _Released(measurement, measurement.measure(entries, streams, on_sweep))

    def _problem_of(self, domain: Domain) -> Problem:
        """The problem that is left once the domain is known."""
        spent = self.search_epsilon
        domain = replace(domain, spent=spent)
        left = left_of(self.problem.epsilon, spent)
        return replace(self.problem, domain=domain, epsilon=left)

    def complete(self, released: _Released, on_sweep: OnSweep) -> Outcome:
        """Compute the model from the release."""
        measurement, of_values = released
        return replace(
            measurement.complete(of_values, on_sweep),
            perturbation=measurement.name,
            domain=measurement.problem.domain,
        )

    def warn(self, released: _Released) -> None:
        """Warn as a fit with this scale declared, and if "auto" chose averages."""
        measurement, of_values = released
        measurement.warn(of_values)
        warn_of_mean(measurement.mean_of(of_values), measurement.problem.domain, None)
        if self.name == "auto":
            warn_of_sums(measurement)


def guarantee_of_any_scale(
    perturbation: str, epsilon: float, delta: float, spent: float | None = None
) -> PrivacyGuarantee:
    """Guarantee of a fit that finds the scale of the values.

    Parameters
    ----------
    perturbation : str
    epsilon, delta : float
        Budget of the fit.
    spent : float, default=None
        Epsilon of the search; None if the number of values is not known yet.
    """
    from ...privacy.accounting._events import PureDpEvent, RevealingDpEvent

    event: DpEvent = PureDpEvent(epsilon)
    stated, part = 0.0, "a part of epsilon"
    if perturbation == "gradient":
        stated, event = delta, RevealingDpEvent(delta, event)
    if spent is not None:
        part = f"epsilon = {shown(spent)}"
        if perturbation == "gradient":
            left = left_of(epsilon, spent)
            event = after(spent, GradientPerturbation.planned_event(left, delta))
    return entry_guarantee(
        event,
        f"The scale of the values was found among public ones with {part}; all else "
        f"was computed with the rest.",
        _SOURCE,
        delta=stated,
    )
