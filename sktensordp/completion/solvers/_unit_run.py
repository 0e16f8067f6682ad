"""The releases of one fit that protects units, and what follows from each of them.

First come totals over units and counts of rows. Then rows of one mode after the other
are fitted: units compute their own rows from what was released so far, and contribute
right-hand sides of the rows' regressions, in which the regressors are their own factors
and, in further modes, those of others. The regressors' second moment is released as one
matrix for all rows of a mode; a row's Gram matrix is that times its noisy count. Noise
on a matrix of every row would cost more than such matrices tell.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._random import NoiseStreams
from ...tensor import CPForm, TuckerForm
from ...tensor._algebra import packed_squares
from ...tensor._counts import expected_counts
from ...tensor._shared_rows import biases_from_sums, rows_from_sums
from ...tensor._unit_entries import UnitEntries
from .._problem import Problem
from .._shared_model import SharedModel
from ._noisy_sums import NoisySums
from ._solver import OnSweep

__all__ = ["BIAS_PASSES", "BOUND", "FACTOR_PASSES", "LEFT", "UnitRun", "planned_shares"]

# Shares of the squared budget: of totals and of counts; of what is left, of the first
# pass, which has biases alone, where factors follow.
_TOTALS, _COUNTS, _FIRST = 0.03, 0.06, 0.1
LEFT = 1 - _TOTALS - _COUNTS
# Of a pass, of the totals that go with it.
_PASS_TOTALS = 0.03
# Passes over the modes: over biases alone, and over factors.
BIAS_PASSES, FACTOR_PASSES = 2, 7
# Rows get weights that fall with this power of their counts, for the sake of rare ones.
_RARE = 0.25
# Largest root mean square of what the entries of a unit contribute, beside that of a
# value around the model.
BOUND = 0.7
# Of the covariances of units' factors, the part that counts as variance of the
# regressors. All of it would be expectation maximisation, which is slow; without any,
# factors are fitted to the residuals that they have been computed from.
_PART_OF_SPREAD = 0.6
# Variances to begin with, on the scale of half the range: of a bias, of all terms of an
# interaction, of what modulates it, of the core, and of a value around the model.
_BIAS, _INTERACTION, _MODULATION, _CORE, _RESIDUAL = 0.04, 0.045, 0.04, 0.02, 0.2
# Standard deviations of what is supposed: of the residual variance, of a moment of the
# regressors, of the means of all units; of how much larger variances are than supposed.
_RESIDUAL_SPREAD, _MOMENT_SPREAD, _MEAN_SPREAD = 0.1, 0.2, 0.3
_VARIANCE_SPREAD = 0.1
# The sum of a unit's weights, over the root of their typical number, and its deviation.
_WEIGHT, _WEIGHT_SPREAD = 0.9, 0.1
# Where less than this share of the prior's variance is known, it is not learned.
_LEAST_KNOWN = 0.05
# Totals that go with a block, next to moments of its regressors.
_N_TOTALS = 7
# A fit begins with so small a share of the interaction.
_SHARE_AT_START = 0.05
# Logarithms of units' numbers of entries, and how far typical ones may be from that.
_USUAL_LOG, _LOG_RANGE = 4.0, 3.0
_LEAST_NOISE = 1e-12
# Of a second moment, beside the largest.
_LEAST_EIGENVALUE = 1e-3


class _BoundedSums:
    """Sums over units of their vectors, which are no longer than a bound.

    Parameters
    ----------
    shape : tuple of (int, int)
        Numbers of rows and of columns of a unit's vector.
    bound : float
        Its largest length; longer ones are scaled down.
    share : float
        Of the squared budget.
    step : float
        Of the noise's lattice; 0 for none.
    """

    def __init__(
        self, shape: tuple[int, int], bound: float, share: float, step: float
    ) -> None:
        self.share, self.steps = share, np.zeros(shape)
        self._bound, self._step = bound, step

    @property
    def unit(self) -> float:
        """What the sums in a release are multiples of."""
        return self._bound / math.sqrt(self.share)

    @property
    def total(self) -> NDArray[np.float64]:
        """The sums as they enter a release."""
        return self.steps * self._step if self._step else self.steps

    def add(
        self,
        starts: NDArray[np.int64],
        order: NDArray[np.int64],
        index: NDArray[np.integer],
        contributions: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Add what entries contribute to the vectors of their units.

        Returns
        -------
        scales : ndarray of shape (n_units,)
            How much vectors were scaled down to the bound.
        """
        from ...tensor.kernels._units import bounded_sums

        scales = np.empty(len(starts) - 1)
        bounded_sums(
            starts, order, index, np.ascontiguousarray(contributions), self._bound,
            math.sqrt(self.share), self._step, self.steps, scales,
        )  # fmt: skip
        return scales

    def add_entries(
        self, part: UnitEntries, block: int, contributions: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Add contributions of entries to the rows of a block; see `add`."""
        if block > len(part.orders):
            order = np.arange(len(part.values))
            return self.add(part.starts, order, np.zeros_like(order), contributions)
        rows = np.ascontiguousarray(part.others[:, block - 1])
        return self.add(part.starts, part.orders[block - 1], rows, contributions)

    def add_units(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Add vectors of one row."""
        places = np.arange(len(vectors) + 1)
        return self.add(places, places[:-1], np.zeros_like(places), vectors)


class UnitRun:
    """The releases of one fit, one after the other, and what follows from them."""

    def __init__(
        self,
        problem: Problem,
        entries: UnitEntries,
        noise: NoisySums,
        streams: NoiseStreams | None,
    ) -> None:
        self._problem, self._entries = problem, entries
        self._noise, self._streams = noise, streams
        self._sigma = math.sqrt(noise.noise_variance)
        self._step = 0.0 if noise.lattice is None else noise.lattice.step
        self._used, self._n_releases = 0.0, 0
        self._sizes = problem.shape[1:]

    def _sums(self, shape: tuple[int, int], bound: float, share: float) -> _BoundedSums:
        return _BoundedSums(shape, bound, share, self._step)

    def _release(self, *sums: _BoundedSums) -> list[tuple[NDArray[np.float64], float]]:
        """Noisy sums of one release, and the standard deviations of their noise."""
        self._used += math.fsum(s.share for s in sums)
        if self._used > 1 + 1e-9:
            raise RuntimeError("The shares of the releases exceed the budget.")
        streams = self._streams and self._streams.step(self._n_releases)
        self._n_releases += 1
        noisy = self._noise.randomize([s.total for s in sums], streams)
        return [
            (found * s.unit, self._sigma * s.unit)
            for found, s in zip(noisy, sums, strict=True)
        ]

    def totals(self) -> None:
        """How many units there are, their mean value and their typical size."""
        sums = self._sums((1, 3), math.sqrt(3.0), _TOTALS)
        for part in self._entries.chunks():
            means = _unit_sums(part, part.values[:, np.newaxis])[:, 0] / part.sizes
            logs = (_logarithms(part.sizes) - _USUAL_LOG) / _LOG_RANGE
            logs = np.clip(logs, -1.0, 1.0)
            sums.add_units(np.column_stack([np.ones(len(logs)), means, logs]))
        ((total, error),) = self._release(sums)
        self.n_units = max(float(total[0, 0]), error, 1.0)
        known = 1 / (1 + (error / self.n_units / _MEAN_SPREAD) ** 2)
        means = known * np.clip(total[0, 1:] / self.n_units, -1.0, 1.0)
        offset, log = means.tolist()
        self.typical = math.exp(_USUAL_LOG + _LOG_RANGE * log)
        biases: list[NDArray[np.float64]] | None = None
        if self._problem.biases:
            biases = [np.zeros(size + 1) for size in self._sizes]
        # Biases alone, to begin with.
        self.model = SharedModel(
            CPForm(0), self._sizes, offset, biases, [],
            self._problem.side_information[:, :0], _RESIDUAL,
        )  # fmt: skip
        self._own_moment = _usual_moment(0)
        self._bias_variances: list[Any] = [None] * len(self._sizes)

    def _weights(self, part: UnitEntries) -> NDArray[np.float64]:
        """Weight of the entries of every unit, so that squares add up to 1 at most."""
        return 1 / np.sqrt(np.maximum(part.sizes, self.typical))

    def counts(self) -> None:
        """How many entries rows have, each in the weight of its unit."""
        share = _COUNTS / len(self._sizes)
        sums = [self._sums((size, 1), 1.0, share) for size in self._sizes]
        for part in self._entries.chunks():
            weights = self._weights(part)[part.numbers, np.newaxis]
            for block, own in enumerate(sums, start=1):
                own.add_entries(part, block, weights)
        self.row_counts: list[NDArray[np.floating]] = []
        self.row_weights: list[NDArray[np.floating]] = []
        for found, error in self._release(*sums):
            counts = expected_counts(found[:, 0], error)
            floor = max(error, 1e-3 * float(counts.max()), 1e-12)
            weights = np.maximum(counts, floor) ** -_RARE
            scale = np.sqrt((counts @ weights**2) / max(float(counts.sum()), 1e-300))
            self.row_counts.append(counts)
            self.row_weights.append(weights / max(float(scale), 1e-300))

    def factors_pay(self) -> bool:
        """Whether factors are expected to explain more than their noise costs.

        From the noisy counts alone; the interaction is imagined as in `_auto`.
        """
        left = 1 - self._used
        first, form = self.row_counts[0], self._problem.form
        counts, weight = 0.8 * first, 1 / math.sqrt(self.typical)
        term = _INTERACTION / form.rank

        def share_known(
            variance: float, squares: float, share: float, moment: float = 1.0
        ) -> float:
            bound = BOUND**2 * (_RESIDUAL + 0.05) * squares
            noise = self._sigma**2 * bound / share
            spread = _RESIDUAL * counts * weight
            # Regressors are released in the unit of their lengths.
            known = variance * counts**2 * moment
            known /= np.maximum(noise + spread, _LEAST_NOISE)
            found = known / (1 + known)
            return float(first @ found / max(float(first.sum()), 1e-300))

        share = planned_shares(self._problem, "statistics", left)[-1][1]
        squares = 1 + form.rank
        biases = share_known(_BIAS, 1.0, left)
        noisy_biases = share_known(_BIAS, squares, left)
        items, units = _SHARE_AT_START, _SHARE_AT_START
        for _ in range(FACTOR_PASSES):
            items = share_known(term, squares, share, units)
            unknown = _RESIDUAL + _INTERACTION * (1 - items * units)
            known = self.typical * term * items / unknown
            units = known / (1 + known)
        # Measured, the cost is about half of that.
        return _INTERACTION * items * units > _BIAS * (biases - noisy_biases) / 2

    def passes(self, name: str, on_sweep: OnSweep) -> int:
        """Fit one block after the other; how many passes there were."""
        planned = planned_shares(self._problem, name, 1 - self._used)
        for number, shares in enumerate(planned, start=1):
            if name == "statistics" and number == 1 + self._problem.biases:
                self._begin_factors()
            for block, share in shares.items():
                self._fit_block(block, share)
            # From now on. At first, what features explain in all units alike is to be
            # seen in the sums, not taken off by every unit for itself.
            features = self._problem.side_information
            self.model = replace(self.model, features=features)
            if on_sweep(number - 1):
                return number
        return len(planned)

    def _begin_factors(self) -> None:
        """Factors at a fixed random start, with their priors."""
        form = self._problem.form
        start, factors, self._covariances = np.random.default_rng(0), [], {}
        for block, shape in enumerate(form.blocks(self._problem.shape)):
            variance = _prior_variance(form, block)
            drawn = start.standard_normal(shape) * math.sqrt(variance)
            factors.append(form.centre(block) + drawn)
            self._covariances[block] = variance * np.eye(shape[1])
        if hasattr(form, "ranks"):
            factors[-1] = form.centre(len(form.ranks))[np.newaxis]
        self.model = replace(self.model, form=form, factors=factors[1:])
        self._own_moment = _usual_moment(self._n_own)

    def _fit_block(self, block: int, share: float) -> None:
        """Release what determines the rows of one block, and fit them."""
        model, n_modes = self.model, len(self._sizes)
        n_biases = int(model.biases is not None and block <= n_modes)
        # In units in which they are about one, by what was known before.
        lengths = np.sqrt(np.diag(self._moment(block)))[1 - n_biases :]
        squares = n_biases + model.form.rank
        bound = BOUND * math.sqrt((model.noise + 0.05) * squares)
        size = self._sizes[block - 1] if block <= n_modes else 1
        sums = self._sums((size, len(lengths)), bound, share * (1 - _PASS_TOTALS))
        n_own = 1 + self._n_own
        totals = self._sums(
            (1, _N_TOTALS + n_own * (n_own + 1) // 2),
            3 + model.form.rank / 2, share * _PASS_TOTALS,
        )  # fmt: skip
        for part in self._entries.chunks():
            self._measure(part, block, n_biases, lengths, sums, totals)
        (found, error), (total, total_error) = self._release(sums, totals)
        weight = self._learn(total[0], total_error)
        moment = self._moment(block)[1 - n_biases :, 1 - n_biases :]
        moment = moment / lengths / lengths[:, np.newaxis]
        fitted = found, error, weight, moment, lengths
        if block > n_modes:
            self._update_core(*fitted)
        elif model.form:
            self._update_rows(block, n_biases, *fitted)
        else:
            self._update_biases(block, found[:, 0], error, weight)

    @property
    def _n_own(self) -> int:
        return self.model.form.blocks((1, *self._sizes))[0][1]

    def _moment(self, block: int) -> NDArray[np.float64]:
        """Second moment of one and a block's regressors, as far as known."""
        form, moments = self.model.form, [self._own_moment]
        if not form:
            return np.ones((1, 1))
        for counts, factor in zip(self.row_counts, self.model.factors, strict=False):
            rows = np.insert(factor, 0, 1.0, axis=1)
            share = counts / max(float(counts.sum()), 1e-300)
            moments.append((rows.T * share) @ rows)
        moment = form.moments(block, moments, self.model.factors[-1])
        return moment + _LEAST_NOISE * np.eye(len(moment))

    def _measure(
        self,
        part: UnitEntries,
        block: int,
        n_biases: int,
        lengths: NDArray[np.float64],
        sums: _BoundedSums,
        totals: _BoundedSums,
    ) -> None:
        """Add what the entries of some units contribute to the sums of a block."""
        model, numbers = self.model, part.numbers
        rows, shares, spread, squares, freedom = model.solve(part)
        bias, features, own = model.split(rows)
        left = part.values - model.known(part.others)
        if bias.shape[1]:
            left -= bias[numbers, 0]
        for column, weight in zip(model.features.T, features.T, strict=True):
            left -= column[part.others[:, 0]] * weight[numbers]
        regressors: Any = [np.ones((len(left), n_biases))]
        if model.form:
            at, blocks = [numbers, *part.others.T], [own, *model.factors]
            regressors.append(model.form.regressors(block, blocks, at))
        regressors = np.concatenate(regressors, axis=1) / lengths
        weight = self._weights(part)[numbers]
        if block <= len(self._sizes):
            weight *= self.row_weights[block - 1][part.others[:, block - 1]]
        contributions = regressors * (weight * left)[:, np.newaxis]
        scales = sums.add_entries(part, block, contributions)
        weight = _unit_sums(part, weight[:, np.newaxis]) * scales[:, np.newaxis]
        weight = np.minimum(weight / math.sqrt(self.typical), 2.0)
        fit = np.stack([squares, freedom], axis=1) / part.sizes[:, np.newaxis]
        moments = packed_squares(np.insert(own, 0, 1.0, axis=1))
        moments[:, moments.shape[1] - spread.shape[1] :] += _PART_OF_SPREAD * spread
        priors = self._of_priors(rows, shares)
        totals.add_units(np.concatenate([weight, fit, priors, moments], axis=1))

    def _of_priors(
        self, rows: NDArray[np.float64], shares: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """What tells variances of priors: of biases, and of weights of features.

        For each, mean squares of the posterior means over the prior's variance, and
        the mean share of the prior's variance that is known; the first over the second
        is how much larger than supposed the variance is (MacKay 1992).
        """
        model, found = self.model, []
        n_biases, n_features = int(model.biases is not None), model.features.shape[1]
        for first, size, variance in (
            (0, n_biases, model.bias_variance),
            (n_biases, n_features, model.weights_variance / max(n_features, 1)),
        ):
            squares, known = np.zeros((2, len(rows), 1))
            for column in range(first, first + size):
                squares[:, 0] += rows[:, column] ** 2 / (size * variance)
                known[:, 0] += (1 - shares[:, column]) / size
            found += [np.minimum(squares, 4.0), known]
        return np.concatenate(found, axis=1)

    def _learn(self, total: NDArray[np.float64], error: float) -> float:
        """Learn from totals of the variances and the moments of units' own factors.

        Returns
        -------
        weight : float
            Sum of the weights of all entries.
        """
        # Few vectors are scaled down, and the number of units is known better.
        n, error = self.n_units, error / self.n_units
        known: Any = 1 / (1 + (error / _WEIGHT_SPREAD) ** 2)
        weight = _WEIGHT + known * (float(total[0]) / n - _WEIGHT)
        left, freedom = np.maximum(total[1:3] / n, [1e-6, 0.1])
        known = 1 / (1 + (error / freedom / _RESIDUAL_SPREAD) ** 2)
        noise = _RESIDUAL + known * (left / freedom - _RESIDUAL)
        self.model.noise = float(np.clip(noise, 1e-6, 1.0))
        squares, known = np.maximum(total[[3, 5]], 0.0) / n, total[[4, 6]] / n
        reliable = (known > _LEAST_KNOWN) / (
            1 + (error / np.maximum(known, _LEAST_KNOWN) / _VARIANCE_SPREAD) ** 2
        )
        change = squares / np.maximum(known, _LEAST_KNOWN) - 1
        bias, weights = np.clip(1 + reliable * change, 0.1, 4.0).tolist()
        self.model.bias_variance *= bias
        self.model.weights_variance *= weights
        usual = _usual_moment(self._n_own)
        moment, upper = np.empty_like(usual), np.triu_indices(len(usual))
        moment[upper] = moment[upper[::-1]] = total[_N_TOTALS:] / n
        known = 1 / (1 + (error / _MOMENT_SPREAD) ** 2)
        self._own_moment = _positive(known * moment + (1 - known) * usual)
        return max(weight, 0.1) * self.n_units * math.sqrt(self.typical)

    def _weights_of_rows(
        self, block: int, total: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums of the weights of the entries of rows, and of their squares, about."""
        own = self.row_counts[block - 1] * self.row_weights[block - 1]
        weights = own * (total / max(float(own.sum()), 1e-300))
        return weights, weights * self.row_weights[block - 1] / math.sqrt(self.typical)

    def _update_biases(
        self, block: int, sums: NDArray[np.float64], error: float, total: float
    ) -> None:
        biases: Any = self.model.biases
        weights, squares = self._weights_of_rows(block, total)
        noise = error**2 + self.model.noise * squares
        if self._bias_variances[block - 1] is not None:
            before = self._bias_variances[block - 1]
            noise = np.maximum(noise, _LEAST_NOISE)
            variance = 1 / (1 / before + weights**2 / noise)
            change, unknown = variance * weights * sums / noise, 0.0
        else:
            counts = self.row_counts[block - 1]
            explaining = [np.ones(len(sums)), _centred_log(counts)]
            if block == 1:
                explaining += [*self._problem.side_information[:-1].T]
            change, variance, unknown = biases_from_sums(
                sums, weights, noise, np.stack(explaining, axis=1)
            )
        biases[block - 1] += np.append(change, unknown)
        self._bias_variances[block - 1] = variance

    def _update_rows(
        self,
        block: int,
        n_biases: int,
        sums: NDArray[np.float64],
        error: float,
        total: float,
        moment: NDArray[np.float64],
        lengths: NDArray[np.float64],
    ) -> None:
        biases: Any = self.model.biases
        weights, squares = self._weights_of_rows(block, total)
        before = np.full((len(sums), n_biases), _BIAS)
        if n_biases and self._bias_variances[block - 1] is not None:
            before[:, 0] = self._bias_variances[block - 1]
        own = lengths[n_biases:]
        prior_mean = np.append(np.zeros(n_biases), own * self.model.form.centre(block))
        means, spread, covariance = rows_from_sums(
            sums, weights, moment, error**2, self.model.noise * squares, prior_mean,
            before, self._covariances[block] * own * own[:, np.newaxis],
        )  # fmt: skip
        self._covariances[block] = covariance / own / own[:, np.newaxis]
        if n_biases:
            biases[block - 1][:-1] += means[:, 0]
            self._bias_variances[block - 1] = spread[:, 0, 0]
        self.model.factors[block - 1] = means[:, n_biases:] / own

    def _update_core(
        self,
        sums: NDArray[np.float64],
        error: float,
        total: float,
        moment: NDArray[np.float64],
        lengths: NDArray[np.float64],
    ) -> None:
        block, squares = len(self._sizes) + 1, total / math.sqrt(self.typical)
        means, _, _ = rows_from_sums(
            sums, np.array([total]), moment, error**2,
            np.array([self.model.noise * squares]),
            lengths * self.model.form.centre(block), np.empty((1, 0)),
            self._covariances[block] * lengths * lengths[:, np.newaxis], learn=False,
        )  # fmt: skip
        self.model.factors[-1] = means / lengths


def planned_shares(problem: Problem, name: str, left: float) -> list[dict[int, float]]:
    """Blocks that are fitted in one pass after the other: their shares, by block.

    Parameters
    ----------
    problem : Problem
    name : {"sums", "statistics"}
    left : float
        Share of the squared budget that is left for them all.
    """
    modes = {k: math.sqrt(n) for k, n in enumerate(problem.shape[1:], start=1)}
    if name == "sums":
        return BIAS_PASSES * [_divided(modes, left / BIAS_PASSES)]
    blocks = problem.form.blocks(problem.shape)
    own = {k: math.sqrt(math.prod(b)) for k, b in enumerate(blocks) if k}
    first = _FIRST * problem.biases
    passes = FACTOR_PASSES * [_divided(own, left * (1 - first) / FACTOR_PASSES)]
    return ([_divided(modes, left * first)] if first else []) + passes


def _unit_sums(part: UnitEntries, numbers: NDArray[np.floating]) -> NDArray[np.float64]:
    """Sums over the entries of every unit."""
    from ...tensor.kernels._units import unit_sums

    sums = np.empty((len(part.units), numbers.shape[1]))
    unit_sums(part.starts, numbers, sums)
    return sums


def _usual_moment(n_factors: int) -> NDArray[np.float64]:
    """Second moment of one and a unit's factors, as long as nothing is known."""
    return np.diag(np.append(1.0, np.full(n_factors, 0.5)))


def _positive(moment: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest second moment of one and something that is nowhere next to zero."""
    values, vectors = np.linalg.eigh(moment)
    moment = (vectors * np.maximum(values, _LEAST_EIGENVALUE * values[-1])) @ vectors.T
    return moment / moment[0, 0]


def _logarithms(sizes: NDArray[np.integer]) -> NDArray[np.float64]:
    """Logarithms of integers, each computed by itself."""
    found, at = np.unique(sizes, return_inverse=True)
    return np.array([math.log(size) for size in found.tolist()])[at]


def _centred_log(counts: NDArray[np.floating]) -> NDArray[np.float64]:
    """Logarithm of counts, of those above a thousandth of the largest."""
    log = np.log(np.maximum(counts, max(1e-3 * float(counts.max()), 1e-300)))
    return log - log.mean()


def _divided(parts: Mapping[int, float], whole: float) -> dict[int, float]:
    total = math.fsum(parts.values())
    return {key: whole * part / total for key, part in parts.items()}


def _prior_variance(form: CPForm | TuckerForm, block: int) -> float:
    """Of the numbers of a block around their centre."""
    if block == 1:
        return _INTERACTION / form.rank
    return _CORE if block == len(getattr(form, "ranks", ())) else _MODULATION
