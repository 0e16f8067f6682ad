"""The releases of one fit that protects units, and the model that they determine.

The first two releases are totals over units and noisy counts of rows. Then the rows of
one mode after the other are fitted. Units compute their own rows from earlier releases,
and contribute to the right-hand sides of the rows' regressions. The regressors are the
units' own factors and, for tensors of more than two modes, factors of the other modes.
The second moment of the units' factors is released as one matrix for all rows of a
mode. The Gram matrix of a row is this matrix times the row's noisy count: noise on a
matrix for every row would cost more than such matrices tell. What a unit contributes
are residuals around the model of the pass before, so a wrong Gram matrix makes the next
step wrong, but not the rows at which the steps end. A row is computed from the sums of
all passes, and earlier passes count less.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._random import NoiseStreams
from ...measure import NoisySums
from ...tensor import CPForm, TuckerForm
from ...tensor._average_row import with_average
from ...tensor._priors import (
    BIAS_VARIANCE,
    CORE_VARIANCE,
    INTERACTION_VARIANCE,
    MODULATION_VARIANCE,
    RESIDUAL_VARIANCE,
)
from ...tensor._shared_rows import (
    BiasPrior,
    biases_from_sums,
    drifted,
    expected_counts,
    inverse_of,
    row_information,
    rows_from_information,
)
from .._noise_shares import SharedNoise
from .._problem import Problem
from .._shared_model import SharedModel
from ._measurement import OnSweep
from ._unit_contributions import (
    LOG_RANGE,
    N_FIT_TOTALS,
    USUAL_LOG,
    BlockContributions,
    BoundedSums,
    CountContributions,
    Sums,
    Units,
    UnitTotals,
    add_totals,
)

# Shares of the squared budget: for the totals and for the counts. Of the rest, the
# share for the first pass, which fits biases alone before factors follow.
_TOTALS, _COUNTS, _FIRST = 0.03, 0.12, 0.1
LEFT = 1 - _TOTALS - _COUNTS
# Share of a block's budget for the totals that are released with it.
_BLOCK_TOTALS = 0.05
# Numbers of passes over the modes: for biases alone, and for factors.
BIAS_PASSES, FACTOR_PASSES = 4, 7
# Budgets of a pass over biases and of one over factors, relative to the pass before.
# Early passes find the direction; later ones determine the result.
_BIAS_GROWTH, _GROWTH = 1.5, 1.4
# In the first passes over factors, their prior variance stays as it is: what little is
# known of them at first would make it vanish.
_HELD = 4
# Between passes, factors change as the units' own factors do. The covariance of the
# change is taken as this share of the factors' prior covariance. The same for biases.
_DRIFT, _BIAS_DRIFT = 0.03, 0.01
# Share of the variance of residuals that counts as new in every pass. It would be zero
# if the model did not change between passes.
_NEW_SHARE = 0.05
# Least count of a row, relative to the largest.
_LEAST_COUNT = 1e-6
# Weights of rows fall with this power of their counts, in favour of rare rows.
_RARE = 0.25
# Bound on a unit's contribution: the root mean square over its entries, relative to the
# standard deviation of a value around the model.
BOUND = 0.7
# Sum of a unit's weights over the root of the typical number of its entries, on
# average: measured on ratings of films and music.
_FILLED = 0.85
# Prior means of what totals estimate, and the standard deviations of these priors: how
# much contributions follow the biases, the variance of a value around the model, the
# energy of a unit's contributions.
_FOLLOW, _NOISE, _ENERGY = 0.7, 0.14, 0.65
_FOLLOW_SPREAD, _NOISE_SPREAD, _ENERGY_SPREAD = 0.1, 0.05, 0.1
# The same standard deviations for a moment of the regressors, the means over all units,
# and the ratio of a variance to its prior.
_MOMENT_SPREAD, _MEAN_SPREAD, _VARIANCE_SPREAD = 0.2, 0.3, 0.1
# A prior variance is not learned if less than this share of it is known.
_LEAST_KNOWN = 0.02
# Prior variances, in half ranges squared, of a unit's weights for what is known of
# rows: side information (for all its columns together), the logarithm of the count, the
# bias, and the pattern.
_SIDE, _COUNT, _BIAS, _PATTERN = 0.03, 0.003, 0.1, 0.01
# Prior precisions of the coefficients that explain biases: of the intercept, and of the
# others.
_INTERCEPT, _COEFFICIENTS = 200.0, 300.0
# A total is within its noise of nothing up to so many standard deviations. Units have
# hardly an entry if the logarithm of their number exceeds 1 by less than this part of
# its range, even by so many standard deviations of the number of units.
_WITHIN_NOISE, _FEW_ENTRIES, _MARGIN = 3.0, 0.1, 5.4
# Share of the interaction that a fit is expected to recover at its start.
_SHARE_AT_START = 0.05
# Factors are taken if their expected gain is more than this part of their expected
# cost, and than this variance. In experiments with synthetic ratings, the gain was
# larger than expected, and the cost smaller.
_COST, _LEAST_GAIN = 0.125, 3e-4
_LEAST_NOISE = 1e-12
# Smallest eigenvalue of a second moment, relative to the largest.
_LEAST_EIGENVALUE = 1e-3


class UnitReleases:
    """Adaptive Gaussian releases whose shares of the squared budget add up to 1.

    Parameters
    ----------
    noise : NoisySums or SharedNoise
        Noise for vectors of length one.
    streams : NoiseStreams or None
        None if no noise is drawn here.

    Attributes
    ----------
    sigma : float
        Standard deviation of the noise; with noise in shares, if all parties answer.
    """

    def __init__(
        self, noise: NoisySums | SharedNoise, streams: NoiseStreams | None
    ) -> None:
        self._noise, self._streams = noise, streams
        self._used, self._n_releases = 0.0, 0
        self.sigma = math.sqrt(noise.noise_variance)

    @property
    def left(self) -> float:
        """Share of the squared budget that is left."""
        return 1 - self._used

    @property
    def step(self) -> float:
        """Step of the lattice of the noise; 0 for no noise."""
        return self._noise.step

    def sums(self, shape: tuple[int, int], bound: float, share: float) -> BoundedSums:
        """Empty sums for a release."""
        return BoundedSums(shape, bound, share, self.step)

    def release(self, *sums: Sums) -> list[tuple[NDArray[np.float64], float]]:
        """Noisy sums of one release, and the standard deviations of their noise."""
        self._used += math.fsum(s.share for s in sums)
        if self._used > 1 + 1e-9:
            raise RuntimeError("The shares of the releases exceed the budget.")
        streams = self._streams and self._streams.step(self._n_releases)
        self._n_releases += 1
        noisy = self._noise.randomize([s.total for s in sums], streams)
        return [
            (steps * s.unit, self._sigma(s) * s.unit)
            for steps, s in zip(noisy, sums, strict=True)
        ]

    def _sigma(self, sums: Sums) -> float:
        """Standard deviation of the noise in sums."""
        if not isinstance(self._noise, SharedNoise):
            return self.sigma
        if sums.n_answers is None:
            raise RuntimeError("Nobody has added noise to these sums.")
        return self._noise.sigma(sums.n_answers)


def release_totals(entries: Units, releases: UnitReleases) -> UnitTotals:
    """Release the number of units, their mean value and their typical size."""
    sums = releases.sums((1, 3), math.sqrt(3.0), _TOTALS)
    entries.add_to((sums,), add_totals)
    ((total, error),) = releases.release(sums)
    n_units = max(float(total[0, 0]), error, 1.0)
    reliability = 1 / (1 + (error / n_units / _MEAN_SPREAD) ** 2)
    means = reliability * np.clip(total[0, 1:] / n_units, -1.0, 1.0)
    offset, log = means.tolist()
    typical_size = math.exp(USUAL_LOG + LOG_RANGE * log)
    return UnitTotals(n_units, offset, typical_size, _are_noise(total[0], error))


def _are_noise(total: NDArray[np.float64], error: float) -> bool:
    """Whether released totals say that there may be no units, or hardly an entry.

    A unit adds 1 to the first total. To the last one, it adds the scaled logarithm of
    its number of entries, at least -1. So the two together add up by how much
    logarithms exceed the least, which is nothing for units with one or two entries.

    False alarms, in standard deviations of the number of units: if there are 10 or
    more, up to 3 come out with a probability below 1e-11. Units are said to have hardly
    an entry only if the excesses, less a tenth of the number of units, come out below
    -5.4. They have noise of 1.35, and are at least -1 for 10 units, and positive for
    any number of units that typically have four entries or more. So that has a
    probability of at most 1e-3.
    """
    n_units, _, logs = total.tolist()
    few = _FEW_ENTRIES * n_units - _MARGIN * error
    least = min(_WITHIN_NOISE * math.sqrt(2) * error, few)
    return n_units <= _WITHIN_NOISE * error or n_units + logs < least


@dataclass(frozen=True)
class RowCounts:
    """Noisy counts of the entries in rows, for every mode but the units'.

    Attributes
    ----------
    counts : list of ndarray of shape (size of the mode,)
        Each entry counts with the weight of its unit.
    variances : list of ndarray of shape (size of the mode,)
        Variances of the counts, given the noisy ones.
    weights : list of ndarray of shape (size of the mode,)
        Weights of the rows, larger for rare rows.
    logs : list of ndarray of shape (size of the mode,)
        Logarithms of the counts, of which very small ones are raised.
    known : list of ndarray of shape (size of the mode,)
        The counts, but zero for rows whose noisy count is within its noise of zero, by
        its standard deviation. They count as unknown: nothing says that they have
        entries.
    """

    counts: list[NDArray[np.float64]]
    variances: list[NDArray[np.float64]]
    weights: list[NDArray[np.float64]]
    logs: list[NDArray[np.float64]]
    known: list[NDArray[np.float64]]


def release_row_counts(
    entries: Units,
    sizes: tuple[int, ...],
    totals: UnitTotals,
    releases: UnitReleases,
) -> RowCounts:
    """Release how many entries the rows of the other modes have.

    Parameters
    ----------
    entries : UnitEntries, or another `Units`
    sizes : tuple of int
        Numbers of rows of the other modes.
    totals : UnitTotals
    releases : UnitReleases
    """
    share = _COUNTS / len(sizes)
    sums = [releases.sums((size, 1), 1.0, share) for size in sizes]
    entries.add_to(sums, CountContributions(totals))
    found = RowCounts([], [], [], [], [])
    whole = _FILLED * totals.n_units * math.sqrt(totals.typical_size)
    for noisy, error in releases.release(*sums):
        counts, variances = expected_counts(noisy[:, 0], error)
        total = float(counts.sum())
        unit = whole / total if total > 0 else 1.0
        counts *= unit
        found.variances.append(variances * unit**2)
        largest = 1e-3 * float(counts.max())
        floor = max(error, largest, 1e-12)
        weights = np.maximum(counts, floor) ** -_RARE
        scale = np.sqrt((counts @ weights**2) / max(float(counts.sum()), 1e-300))
        found.counts.append(counts)
        found.known.append(np.where(noisy[:, 0] > error, counts, 0.0))
        found.weights.append(weights / max(float(scale), 1e-300))
        least = max(0.05 * error, largest, 1e-300)
        found.logs.append(np.log(np.maximum(counts, least)))
    return found


@dataclass(frozen=True)
class _Regressions:
    """Noisy regressions of the rows of one block.

    Attributes
    ----------
    sums : ndarray of shape (n_rows, n_columns)
        Sums of residuals around the model times regressors over their lengths.
    error : float
        Standard deviation of the noise in the sums.
    energy : float
        Variance of the sum of a row per count, without weights of rows.
    moment : ndarray of shape (n_columns, n_columns)
        Second moment of the regressors over their lengths.
    lengths : ndarray of shape (n_columns,)
        Root mean squares of the regressors, as known before the release.
    """

    sums: NDArray[np.float64]
    error: float
    energy: float
    moment: NDArray[np.float64]
    lengths: NDArray[np.float64]


class UnitRun:
    """A model fitted block by block, each block to a release of its own.

    Parameters
    ----------
    problem : Problem
        The unit's mode first.
    entries : UnitEntries, or another `Units`
    releases : UnitReleases
    totals : UnitTotals
    row_counts : RowCounts
        The first two releases.
    pattern : ndarray of shape (n_rows, n_features)
        Features of the rows of the first other mode, by which units have them.

    Attributes
    ----------
    model : SharedModel
        Changed by every release; biases alone at first.
    """

    def __init__(
        self,
        problem: Problem,
        entries: Units,
        releases: UnitReleases,
        totals: UnitTotals,
        row_counts: RowCounts,
        pattern: NDArray[np.float64],
    ) -> None:
        self._pattern = pattern
        self._problem, self._entries, self._releases = problem, entries, releases
        self._totals, self._row_counts = totals, row_counts
        self._sizes = problem.shape[1:]
        biases: list[NDArray[np.float64]] | None = None
        uncertainty: list[NDArray[np.float64]] | None = None
        excess: list[NDArray[np.float64]] | None = None
        if problem.biases:
            biases = [np.zeros(size + 1) for size in self._sizes]
            uncertainty = [np.zeros(size + 1) for size in self._sizes]
            excess = [np.zeros(size + 1) for size in self._sizes]
        self.model = SharedModel(
            CPForm(0),
            self._sizes,
            totals.offset,
            biases,
            [],
            np.zeros((self._sizes[0] + 1, 0)),
            _NOISE,
            uncertainty,
            excess,
            n_units=totals.n_units,
        )
        # By how much contributions follow the biases, relative to the counts.
        self._follow = _FOLLOW / _FILLED
        # Second moment of one and the factors of a unit.
        self._unit_moment = _prior_moment(0)
        # By mode, sums that tell the biases, and the variances of their noise.
        self._bias_sums: dict[int, Any] = {}
        # Prior covariances of rows of factors, by block; empty without factors.
        self._covariances: dict[int, NDArray[np.float64]] = {}
        self._learns_covariances = False
        # By block, what the sums of earlier passes tell about rows of factors.
        self._information: dict[int, Any] = {}

    def factors_pay(self) -> bool:
        """Whether factors are expected to explain more than their noise costs."""
        return factors_pay(
            self._problem,
            self._row_counts.counts[0],
            self._totals.typical_size,
            sigma=self._releases.sigma,
            left=self._releases.left,
        )

    def passes(self, name: str, on_sweep: OnSweep) -> int:
        """Fit the blocks in turn, in several passes.

        Parameters
        ----------
        name : {"sums", "statistics"}
        on_sweep : callable
            Called after every pass; true ends the fit.

        Returns
        -------
        n_passes : int
        """
        planned = planned_shares(self._problem, name, self._releases.left)
        for number, shares in enumerate(planned, start=1):
            if name == "statistics" and number == 1 + self._problem.biases:
                self._begin_factors()
            self._learns_covariances = number > len(planned) - FACTOR_PASSES + _HELD
            for block, share in shares.items():
                self._fit_block(block, share)
            # Units fit weights of features from the second pass on. In the first, the
            # sums have to show what features explain in all units alike.
            self._add_features()
            if on_sweep(number - 1):
                return number
        return len(planned)

    def _add_features(self) -> None:
        """Add to the model what is known of the rows of the first other mode."""
        side, model = self._problem.side_information.T, self.model
        groups = [(_SIDE / max(len(side), 1), [*side])]
        counts, logs = self._row_counts.counts[0], self._row_counts.logs[0]
        if model.biases is not None:
            groups.append((_COUNT, [_standardised(logs, counts)]))
            groups.append((_BIAS, [_centred(model.biases[0][:-1], counts)]))
        groups.append((_PATTERN, [*self._pattern.T]))
        groups = [group for group in groups if group[1]]
        columns = [column for _, of_group in groups for column in of_group]
        features = np.reshape(columns, (len(columns), self._sizes[0])).T
        features = with_average(features, self._row_counts.known[0])
        # What is declared is known of every row.
        features[:-1, : len(side)] = side.T
        self.model = replace(
            model,
            features=features,
            groups=tuple(len(of_group) for _, of_group in groups),
            # Those of the first pass have been learned since.
            weight_variances=model.weight_variances
            or tuple(variance for variance, _ in groups),
        )

    def _begin_factors(self) -> None:
        """Add factors to the model, at a fixed random start, with their priors."""
        form = self._problem.form
        generator, factors = np.random.default_rng(0), []
        for block, shape in enumerate(form.blocks(self._problem.shape)):
            variance = _prior_variance(form, block)
            self._covariances[block] = variance * np.eye(shape[1])
            # Block 0 has a row for each declared unit, and a fit needs none of them.
            if block:
                deviations = generator.standard_normal(shape) * math.sqrt(variance)
                factors.append(form.centre(block) + deviations)
        if hasattr(form, "ranks"):
            factors[-1] = form.centre(len(form.ranks))[np.newaxis]
        self.model = replace(self.model, form=form, factors=factors)
        # The biases so far are prior means from now on.
        self._prior_biases = [bias[:-1].copy() for bias in self.model.biases or []]
        self._prior_variances = [v[:-1].copy() for v in self.model.uncertainty or []]
        self._unit_moment = _prior_moment(self.model.n_factors)

    def _fit_block(self, block: int, share: float) -> None:
        """Release the regressions of the rows of one block, and fit the rows."""
        model, n_modes = self.model, len(self._sizes)
        n_biases = int(model.biases is not None and block <= n_modes)
        # Over these lengths, regressors have a mean square of about one.
        lengths = np.sqrt(np.diag(self._moment(block)))[1 - n_biases :]
        squares = n_biases + model.form.rank
        bound = BOUND * math.sqrt((model.noise + 0.05) * squares)
        size = self._sizes[block - 1] if block <= n_modes else 1
        sums = self._releases.sums(
            (size, len(lengths)), bound, share * (1 - _BLOCK_TOTALS)
        )
        row_weights = self._row_counts.weights[block - 1] if block <= n_modes else None
        contribute = BlockContributions(
            model, block, n_biases, lengths, self._totals, row_weights
        )
        n_groups = int(model.biases is not None) + len(model.groups)
        totals = self._releases.sums(
            (1, contribute.n_totals),
            2.5 + n_groups / 4 + model.form.rank / 2,
            share * _BLOCK_TOTALS,
        )
        self._entries.add_to((sums, totals), contribute)
        (noisy_sums, error), (noisy_totals, totals_error) = self._releases.release(
            sums, totals
        )
        energy = self._learn(noisy_totals[0], totals_error)
        moment = self._moment(block)[1 - n_biases :, 1 - n_biases :]
        moment = moment / lengths / lengths[:, np.newaxis]
        regressions = _Regressions(noisy_sums, error, energy, moment, lengths)
        if model.form:
            self._update_rows(block, n_biases, regressions)
        else:
            self._update_biases(block, regressions)

    def _moment(self, block: int) -> NDArray[np.float64]:
        """Second moment of one and the regressors of a block, as far as known."""
        form, moments = self.model.form, [self._unit_moment]
        if not form:
            return np.ones((1, 1))
        for counts, factor in zip(
            self._row_counts.counts, self.model.factors, strict=False
        ):
            rows = np.insert(factor, 0, 1.0, axis=1)
            share = counts / max(float(counts.sum()), 1e-300)
            moments.append((rows.T * share) @ rows)
        moment = form.moments(block, moments, self.model.factors[-1])
        return moment + _LEAST_NOISE * np.eye(len(moment))

    def _learn(self, totals: NDArray[np.float64], error: float) -> float:
        """Learn variances and the moments of units' factors from noisy totals.

        Returns
        -------
        energy : float
            Variance of the sum of a row per count, without weights of rows.
        """
        # The number of units is known better from the first release. Few vectors of
        # totals are scaled down.
        model, n = self.model, self._totals.n_units
        error, means = error / n, totals / n

        def known(value: float, prior: float, spread: float) -> float:
            """Posterior mean of a total, whose prior is Gaussian."""
            return prior + (value - prior) / (1 + (error / spread) ** 2)

        follow = known(float(means[0]), _FOLLOW, _FOLLOW_SPREAD)
        self._follow = max(follow, 0.1) / _FILLED
        energy = max(known(float(means[3]), _ENERGY, _ENERGY_SPREAD), 0.1)
        counts = self._row_counts.counts[0]
        energy *= model.noise * n / max(float(counts.sum()), 1e-300)
        squares, freedom = np.maximum(means[1:3], [1e-6, 0.1]).tolist()
        noise = known(squares / freedom, _NOISE, _NOISE_SPREAD * freedom)
        model.noise = float(np.clip(noise, 1e-4, 1.0))
        n_groups = int(model.biases is not None) + len(model.groups)
        priors = means[N_FIT_TOTALS : N_FIT_TOTALS + 2 * n_groups].reshape(-1, 2)
        share = np.maximum(priors[:, 1], _LEAST_KNOWN)
        reliability = (priors[:, 1] > _LEAST_KNOWN) / (
            1 + (error / share / _VARIANCE_SPREAD) ** 2
        )
        change = np.maximum(priors[:, 0], 0.0) / share - 1
        factors = np.clip(1 + reliability * change, 0.1, 4.0).tolist()
        if model.biases is not None:
            model.bias_variance *= factors.pop(0)
        model.weight_variances = tuple(
            variance * factor
            for variance, factor in zip(model.weight_variances, factors, strict=True)
        )
        prior = _prior_moment(self.model.n_factors)
        moment, upper = np.empty_like(prior), np.triu_indices(len(prior))
        moment[upper] = moment[upper[::-1]] = means[N_FIT_TOTALS + 2 * n_groups :]
        trust = 1 / (1 + (error / _MOMENT_SPREAD) ** 2)
        self._unit_moment = _positive(trust * moment + (1 - trust) * prior)
        return energy

    def _weights_of_rows(
        self, block: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Approximate sums of the weights of rows' entries, and of their squares."""
        typical_size = self._totals.typical_size
        if block > len(self._sizes):
            weights = np.array([self._totals.n_units * math.sqrt(typical_size)])
            weights *= self._follow * _FILLED
            return weights, weights / math.sqrt(typical_size)
        row_weights = self._row_counts.weights[block - 1]
        weights = self._follow * self._row_counts.counts[block - 1] * row_weights
        return weights, weights * row_weights / math.sqrt(typical_size)

    def _update_biases(self, block: int, regressions: _Regressions) -> None:
        model, counts = self.model, self._row_counts.counts[block - 1]
        biases: Any = model.biases
        uncertainty: Any = model.uncertainty
        row_weights = self._row_counts.weights[block - 1]
        weights = self._follow * counts
        # Sums of residuals around biases of zero.
        sums = regressions.sums[:, 0] / row_weights
        start = biases[block - 1][:-1]
        sums += weights * start
        noise = (regressions.error / row_weights) ** 2
        if block in self._bias_sums:
            before, before_noise = self._bias_sums[block]
            drift = _BIAS_DRIFT * uncertainty[block - 1][-1]
            before_noise = before_noise + drift * weights**2
            share = before_noise / np.maximum(before_noise + noise, _LEAST_NOISE)
            if not regressions.error:
                share = np.ones_like(share)
            sums = before + share * (sums - before)
            noise = share * noise
        self._bias_sums[block] = sums, noise
        sampled = regressions.energy * counts
        found = biases_from_sums(
            sums,
            weights,
            noise + sampled,
            self._bias_prior(block),
            start,
            self._follow**2 * self._row_counts.variances[block - 1],
        )
        biases[block - 1] = np.append(found.means, found.centre)
        self._set_uncertainty(
            block, np.append(found.variances, found.spread), noise, sampled
        )

    def _bias_prior(self, block: int) -> BiasPrior:
        """What is known of the biases of a block before their sums."""
        logs, known = (
            self._row_counts.logs[block - 1],
            self._row_counts.known[block - 1],
        )
        declared = np.ones((len(logs), 1))
        released = (logs - logs.mean())[:, np.newaxis] / max(logs.std(), 1e-9)
        if block == 1:
            declared = np.insert(self._problem.side_information, 0, 1.0, axis=1)
            released = np.concatenate([released, self._pattern], axis=1)
        of_prior = with_average(released, known)[:-1]
        n_coefficients = declared.shape[1] + released.shape[1] - 1
        return BiasPrior(
            np.concatenate([declared, released], axis=1),
            np.concatenate([declared, of_prior], axis=1),
            np.append(_INTERCEPT, np.full(n_coefficients, _COEFFICIENTS)),
            known,
        )

    def _set_uncertainty(
        self,
        block: int,
        variances: NDArray[np.float64],
        noise: NDArray[np.float64],
        sampled: NDArray[np.float64],
    ) -> None:
        """Store how well rows are known, and how much their errors add to residuals.

        The error of a row is noise to units, so it makes residuals larger. But a row is
        also fitted to the values themselves, which makes their residuals smaller.

        Parameters
        ----------
        block : int
        variances : ndarray of shape (n_rows + 1,)
        noise, sampled : ndarray of shape (n_rows,)
            Variances that noise and that the residuals of values contribute.
        """
        share = sampled / np.maximum(noise + sampled, _LEAST_NOISE)
        model: Any = self.model
        model.uncertainty[block - 1] = variances
        model.excess[block - 1] = variances * (1 - 2 * np.append(share, 0.0))

    def _update_rows(
        self, block: int, n_biases: int, regressions: _Regressions
    ) -> None:
        biases: Any = self.model.biases
        uncertainty: Any = self.model.uncertainty
        is_core = block > len(self._sizes)
        before = self.model.factors[block - 1]
        centre = np.broadcast_to(self.model.form.centre(block), before.shape)
        bias_variance = np.empty((len(before), 0))
        weights, squares = self._weights_of_rows(block)
        if n_biases:
            before = np.insert(before, 0, biases[block - 1][:-1], axis=1)
            centre = np.insert(centre, 0, self._prior_biases[block - 1], axis=1)
            bias_variance = self._prior_variances[block - 1][:, np.newaxis]
        lengths = regressions.lengths
        residual = self.model.noise * squares
        precision, shift = row_information(
            regressions.sums,
            weights,
            regressions.moment,
            regressions.error**2,
            _NEW_SHARE * residual,
            before * lengths,
        )
        precision = precision * lengths * lengths[:, np.newaxis]
        shift = shift * lengths
        if block in self._information:
            drift = np.zeros((len(lengths), len(lengths)))
            drift[n_biases:, n_biases:] = _DRIFT * self._covariances[block]
            known, known_shift = self._information[block]
            known, known_shift = drifted(known, known_shift, drift)
            precision, shift = precision + known, shift + known_shift
        self._information[block] = precision, shift
        # All passes share the residuals of the values.
        floor = _LEAST_COUNT * max(float(weights.max()), 1e-140)
        common = (1 - _NEW_SHARE) * residual / np.maximum(weights, floor) ** 2
        inverse = inverse_of(regressions.moment) / lengths / lengths[:, np.newaxis]
        precision, shift = drifted(
            precision, shift, common[:, np.newaxis, np.newaxis] * inverse
        )
        means, spread, self._covariances[block] = rows_from_information(
            precision,
            shift,
            centre,
            bias_variance,
            self._covariances[block],
            learn=not is_core and self._learns_covariances,
        )
        if n_biases:
            biases[block - 1][:-1] = means[:, 0]
            of_regressors = regressions.moment * lengths * lengths[:, np.newaxis]
            of_rows = np.einsum("jab,ab->j", spread, of_regressors)
            noise = np.broadcast_to(regressions.error**2, residual.shape)
            unknown = uncertainty[block - 1][-1]
            self._set_uncertainty(block, np.append(of_rows, unknown), noise, residual)
        self.model.factors[block - 1] = means[:, n_biases:]


def factors_pay(
    problem: Problem,
    counts: NDArray[np.float64],
    typical_size: float,
    *,
    sigma: float,
    left: float,
) -> bool:
    """Whether factors are expected to explain more than their noise costs.

    The expectation assumes the interaction that `_auto` does.

    Parameters
    ----------
    problem : Problem
        With biases and factors.
    counts : ndarray of shape (shape[1],)
        Of the entries in rows of the second mode, with the weights of their units.
    typical_size : float
        Geometric mean of the units' numbers of entries.
    sigma : float
        Standard deviation of the noise on vectors of length one.
    left : float
        Share of the squared budget that is left.
    """
    form, weight_sums = problem.form, 0.8 * counts
    weight, term = 1 / math.sqrt(typical_size), INTERACTION_VARIANCE / form.rank

    def information(
        variance: float, squares: float, share: float, moment: float = 1.0
    ) -> NDArray[np.float64]:
        """What a release of this share tells about rows, times their variance."""
        squared_bound = BOUND**2 * (RESIDUAL_VARIANCE + 0.05) * squares
        noise = sigma**2 * squared_bound / share
        residual = RESIDUAL_VARIANCE * weight_sums * weight
        # Regressors are released over their lengths.
        signal = variance * weight_sums**2 * moment
        return signal / np.maximum(noise + residual, _LEAST_NOISE)

    def recovered_share(known: NDArray[np.float64]) -> float:
        """Share of the rows' variance that this information recovers."""
        recovered = known / (1 + known)
        return float(counts @ recovered / max(float(counts.sum()), 1e-300))

    planned = planned_shares(problem, "statistics", left)
    squares = 1 + form.rank
    biases = recovered_share(information(BIAS_VARIANCE, 1.0, left))
    biases_with_factors = recovered_share(information(BIAS_VARIANCE, squares, left))
    unit_share, known = _SHARE_AT_START, np.zeros(len(counts))
    for shares in planned[-FACTOR_PASSES:]:
        told = information(term, squares, shares[1], unit_share)
        known = after_drift(known) + told
        item_share = recovered_share(known)
        unrecovered = INTERACTION_VARIANCE * (1 - item_share * unit_share)
        around_model = RESIDUAL_VARIANCE + unrecovered
        of_unit = typical_size * term * item_share / around_model
        unit_share = of_unit / (1 + of_unit)
    gain = INTERACTION_VARIANCE * item_share * unit_share
    cost = BIAS_VARIANCE * (biases - biases_with_factors)
    return gain > max(_COST * cost, _LEAST_GAIN)


def after_drift(known: NDArray[np.float64]) -> NDArray[np.float64]:
    """Information about rows, times their variance, after factors have changed."""
    return known / (1 + _DRIFT * known)


def planned_shares(problem: Problem, name: str, left: float) -> list[dict[int, float]]:
    """For every pass, the shares of the squared budget of the blocks that it fits.

    Parameters
    ----------
    problem : Problem
    name : {"sums", "statistics"}
    left : float
        Share of the squared budget that is left for all passes together.

    Returns
    -------
    shares : list of dict of int to float
        By pass; the keys are the numbers of the blocks.
    """
    modes = {k: math.sqrt(n) for k, n in enumerate(problem.shape[1:], start=1)}
    if name == "sums":
        growing = {number: _BIAS_GROWTH**number for number in range(BIAS_PASSES)}
        return [_divided(modes, share) for share in _divided(growing, left).values()]
    shapes = problem.form.blocks(problem.shape)
    blocks = {k: math.sqrt(math.prod(shape)) for k, shape in enumerate(shapes) if k}
    first = _FIRST * problem.biases
    growing = {number: _GROWTH**number for number in range(FACTOR_PASSES)}
    of_passes = _divided(growing, left * (1 - first)).values()
    passes = [_divided(blocks, share) for share in of_passes]
    return ([_divided(modes, left * first)] if first else []) + passes


def _prior_moment(n_factors: int) -> NDArray[np.float64]:
    """Prior second moment of one and the factors of a unit."""
    return np.diag(np.append(1.0, np.full(n_factors, 0.5)))


def _positive(moment: NDArray[np.float64]) -> NDArray[np.float64]:
    """Raise small eigenvalues of a second moment of one and other variables."""
    values, vectors = np.linalg.eigh(moment)
    if not values[-1] > 0:  # without noise, nobody is there
        return _prior_moment(len(moment) - 1)
    moment = (vectors * np.maximum(values, _LEAST_EIGENVALUE * values[-1])) @ vectors.T
    return moment / moment[0, 0]


def _centred(
    values: NDArray[np.float64], counts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Values less their mean over the entries."""
    return values - counts @ values / max(float(counts.sum()), 1e-300)


def _standardised(
    values: NDArray[np.float64], counts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Values with mean zero and unit variance over the entries."""
    values = _centred(values, counts)
    variance = counts @ values**2 / max(float(counts.sum()), 1e-300)
    return values / max(math.sqrt(variance), 1e-9)


def _divided(lengths: Mapping[int, float], whole: float) -> dict[int, float]:
    """Divide a share in proportion to lengths."""
    total = math.fsum(lengths.values())
    return {key: whole * length / total for key, length in lengths.items()}


def _prior_variance(form: CPForm | TuckerForm, block: int) -> float:
    """Prior variance of the elements of a block around its centre."""
    if block == 1:
        return INTERACTION_VARIANCE / form.rank
    is_core = block == len(getattr(form, "ranks", ()))
    return CORE_VARIANCE if is_core else MODULATION_VARIANCE
