"""Perturbation of sums over units, which protects all entries of a unit.

Guarantee. One of two neighbouring data sets has all entries of one unit, at one index
of a public mode, and the other has none of them. To each release, a unit contributes
one vector, a function of its own entries and of earlier releases. The length of the
vector is at most the share of the release, and the squares of the shares add up to 1.
One release may be a sum of products that is rounded once, which moves it by at most e
more. So Gaussian noise of standard deviation sigma makes all releases together (1 + e)
/ sigma-GDP, where e = 0 if the declared shape and epsilon exclude that release (Dong,
Roth and Su 2022, Corollary 3.3; the proof is in doc/user_proofs.md). The row of a unit
is computed from the releases and the unit's own entries, and shown to that unit alone:
joint differential privacy (Kearns, Pai, Roth and Ullman 2014; Hsu et al. 2014, Lemma
1.2).
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ...._noise_only import totals_are_noise, warn_of_noise
from ...._random import NoiseStreams
from ....measure import (
    NoisySums,
    People,
    Releases,
    SharedNoise,
    plan_gaussian_sums,
)
from ....privacy import PrivacyGuarantee, gaussian_mu
from ....privacy._conditions import OWN_ANSWERS
from ....privacy._guarantee import no_guarantee
from ..._domain import Domain
from ..._likely_mistakes import NO_USERS, warn_of_averages
from .._expectation import Expected
from .._measurement import Measurement, OnSweep, Outcome, ReleasedMean
from ._expected import best_name, expected_of_units
from ._first import most_rows, release_counts, release_pattern, release_totals
from ._questions import FIRST_VECTORS, NoisyTotals
from ._rounds import BIAS_PASSES, FACTOR_PASSES, FirstResults, fit
from ._shared_model import SharedModel

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

_SOURCE = "Dong, Roth and Su (2022), Corollary 3.3"
_PATTERN = (
    " If they were expected to stand out, sums of products were given such noise, too: "
    "they show which rows of the first other mode the same units have."
)
_ONLY_AVERAGES = " Only averages were learned: everybody gets nearly the same ranking."
_RANDOMIZED = {
    "sums": "Counts and sums of residuals of all rows of the other modes",
    "statistics": (
        "Counts, sums of residuals and right-hand sides of regressions of all rows of "
        "the other modes"
    ),
}


def unit_guarantee(
    event: "DpEvent",
    unit: int,
    name: str,
    *,
    delta: float,
    domain: Domain,
    claimed_epsilon: float | None = None,
    shared_noise: SharedNoise | None = None,
    consequence: str = "",
) -> PrivacyGuarantee:
    """Guarantee of releases that protect all entries of a unit.

    Parameters
    ----------
    event : dp_accounting.DpEvent
    unit : int
        The mode of the units.
    name : {"sums", "statistics"}
        The perturbation; "statistics" if it has not been chosen yet.
    delta : float
        Delta at which the guarantee states its epsilon.
    domain : Domain
        Domain of the values.
    claimed_epsilon : float, default=None
        The requested epsilon, if the range of the values or the shape was read off
        the data. Then no finite epsilon holds.
    shared_noise : SharedNoise, default=None
        The noise that parties added in shares; None if it was added at once.
    consequence : str, default=""
        A further sentence of the statement.

    Returns
    -------
    guarantee : PrivacyGuarantee
    """
    from dp_accounting import dp_event

    claimed: tuple[float, float] | None = None
    noise = "Gaussian noise"
    if shared_noise is not None:
        noise = shared_noise.name + shared_noise.by
    statement = (
        f"{domain.rounding}{_RANDOMIZED[name]} were given {noise}, with each "
        "unit's contribution bounded. A unit's own row is computed from these releases "
        "and its own entries (joint differential privacy)."
    )
    conditions: tuple[str, ...] = (OWN_ANSWERS,)
    source = _SOURCE
    if shared_noise is not None:
        conditions += shared_noise.conditions
        source += shared_noise.source
        statement += shared_noise.statement
    statement += consequence
    if claimed_epsilon is not None:
        event, claimed = dp_event.NonPrivateDpEvent(), (claimed_epsilon, delta)
        statement += (
            " The range of the values or the shape was read off the data, which "
            "protects nobody; declare value_bounds or levels, and shape."
        )
    return PrivacyGuarantee.from_event(
        event,
        delta=delta,
        unit=unit,
        relation="add-or-remove",
        statement=statement,
        source=source,
        claimed=claimed,
        conditions=conditions,
    )


def unit_guarantee_without_noise(unit: int) -> PrivacyGuarantee:
    """Guarantee of a fit with an infinite epsilon: none."""
    text = "The entries were used without noise."
    return no_guarantee(text, unit=unit, relation="add-or-remove")


class _Released(NamedTuple):
    """The releases about units, and their results.

    Attributes
    ----------
    model : SharedModel
        Without units' rows.
    name : {"sums", "statistics"}
        The perturbation.
    n_iter : int
        Number of passes.
    totals : NoisyTotals
        Over units.
    """

    model: SharedModel
    name: str
    n_iter: int
    totals: NoisyTotals


@dataclass(frozen=True, eq=False)
class UnitPerturbation(Measurement[People, _Released]):
    """Randomise sums over units, whose mode comes first in the problem.

    Attributes
    ----------
    unit : int
        The mode of the units in the tensor.
    perturbation : {"auto", "sums", "statistics"}
        "auto" chooses by noisy counts, as part of the release.
    shared_noise : SharedNoise, default=None
        Noise that parties add; None if it is added here.
    """

    unit: int
    perturbation: str
    shared_noise: SharedNoise | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        """The perturbation; "statistics" before "auto" has chosen."""
        fits_factors = self.problem.form and self.perturbation != "sums"
        return "statistics" if fits_factors else "sums"

    @property
    def n_sweeps(self) -> int:
        """Largest number of calls of `on_sweep`."""
        return max(BIAS_PASSES, 1 + FACTOR_PASSES * bool(self.problem.form))

    @cached_property
    def noise(self) -> NoisySums | SharedNoise:
        """Noise for vectors of length one."""
        return self.shared_noise or self.planned_noise

    @cached_property
    def planned_noise(self) -> NoisySums:
        """Noise for vectors of length one, if it is added here."""
        problem = self.problem
        rows, size = sum(problem.shape[1:]), len(problem.shape)
        blocks = problem.form.blocks(problem.shape)[1:]
        cells = sum(n_rows * (n_columns + 1) for n_rows, n_columns in blocks)
        totals = size * max(n_columns + 4 for _, n_columns in blocks) ** 2
        products = self._most_rows * (self._most_rows + 1) // 2
        n_first = 1 + sum(piece.size for piece in FIRST_VECTORS)
        n_cells = n_first + 3 * rows + self.n_sweeps * (cells + totals) + products
        return plan_gaussian_sums(
            problem.epsilon,
            problem.delta,
            total_epsilon=problem.epsilon,
            n_cells=n_cells,
            n_moved=products,
            n_entries=max(problem.shape[0], 64),
        )

    @cached_property
    def _most_rows(self) -> int:
        """Largest number of rows whose products are released; 0 for no such release."""
        problem = self.problem
        if problem.n_components == 0:
            return 0
        sigma = 0.0
        if math.isfinite(problem.epsilon) and problem.delta:
            sigma = 1 / gaussian_mu(problem.epsilon, problem.delta)
        return most_rows(problem.shape[1], sigma)

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        """Guarantee of all releases together."""
        return self.guarantee_of(self.name)

    def guarantee_of(self, name: str, *, consequence: str = "") -> PrivacyGuarantee:
        """Guarantee of all releases together.

        Parameters
        ----------
        name : {"sums", "statistics"}
            What the measurement chose.
        consequence : str, default=""
            A further sentence of the statement.
        """
        problem = self.problem
        if math.isinf(problem.epsilon):
            return unit_guarantee_without_noise(self.unit)
        return unit_guarantee(
            self.noise.event,
            self.unit,
            name,
            delta=problem.delta,
            domain=problem.domain,
            claimed_epsilon=problem.claimed_epsilon,
            shared_noise=self.shared_noise,
            consequence=(_PATTERN if self._most_rows else "") + consequence,
        )

    def expected(
        self, n_entries: int, variance: float | None, n_units: int | None
    ) -> Expected:
        """What is expected of a fit; see `expected_of_units`."""
        noise, most = self.noise.noise_variance, self._most_rows
        return expected_of_units(
            self.problem, n_entries, self.perturbation, noise, most, variance, n_units
        )

    def measure(
        self, units: People, streams: NoiseStreams | None, on_sweep: OnSweep
    ) -> _Released:
        """Release totals, counts, a pattern, and sums in several passes."""
        problem = self.problem
        releases = Releases(self.noise, streams)
        noisy_totals, totals, population = release_totals(units, releases)
        counts = release_counts(units, releases, problem.shape[1:], totals)
        pattern = release_pattern(
            units, releases, totals, counts[0], self._most_rows, problem.n_components
        )
        name = self.name
        may_choose = self.perturbation == "auto" and problem.biases
        if may_choose and name == "statistics":
            name = best_name(problem, totals, counts, releases.sigma, releases.left)
        first = FirstResults(problem, totals, counts, pattern)
        model, n_iter = fit(units, releases, first, name, on_sweep)
        # The contributions of units do not depend on the counts.
        of_modes = [of_mode.counts for of_mode in counts]
        model = replace(model, counts=of_modes, population=population)
        return _Released(model, name, n_iter, noisy_totals)

    def complete(self, released: _Released, on_sweep: OnSweep) -> Outcome:
        """Return the released model, with its mode in the tensor."""
        model, name, n_iter, _ = released
        guarantee = self.guarantee
        if name != self.name:
            consequence = _ONLY_AVERAGES if _has_only_averages(model, name) else ""
            guarantee = self.guarantee_of(name, consequence=consequence)
        return Outcome(
            replace(model, unit=self.unit),
            self._in_values(model.offset),
            n_iter,
            perturbation=name,
            guarantee=guarantee,
        )

    def _in_values(self, offset: float) -> float:
        """An offset in half ranges, in units of the values."""
        return self.problem.domain.middle + self.problem.domain.scale * offset

    def warn(self, released: _Released) -> None:
        """Warn if totals are noise, or if "auto" found too much noise for factors."""
        model, name, _, noisy = released
        warn_of_noise(_are_noise(noisy), NO_USERS)
        if _has_only_averages(model, name) and self.perturbation == "auto":
            consequence = "everybody gets nearly the same ranking"
            warn_of_averages(self.problem, consequence, "side_information")

    def mean_of(self, released: _Released) -> ReleasedMean | None:
        """The mean of the units' means."""
        model, _, _, noisy = released
        if _are_noise(noisy):
            return None
        # Both the sum and the number of units' means are noisy.
        error = math.sqrt(2) * noisy.error / model.n_units
        error = self.problem.domain.scale * error
        return ReleasedMean(self._in_values(model.offset), error, model.n_units)


def _are_noise(totals: NoisyTotals) -> bool:
    """Whether the number of units, or their typical entries, are within their noise."""
    return totals_are_noise(totals.number, totals.logs, totals.error)


def _has_only_averages(model: SharedModel, name: str) -> bool:
    """Whether units get nearly the same ranking."""
    # Every model has a feature for biases and one for counts.
    has_features = model.features.shape[1] > 2
    return name == "sums" and not has_features
