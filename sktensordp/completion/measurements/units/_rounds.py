"""The rounds of one fit that protects units, and the model that they determine.

After totals and counts, the fit goes from mode to mode and fits the rows of each. Units
compute their own rows from earlier releases, and contribute to the right-hand sides of
the rows' regressions. The regressors are the units' own factors and, for tensors of
more than two modes, factors of the other modes. The second moment of the units' factors
is released as one matrix for all rows of a mode. The Gram matrix of a row is this
matrix times the row's noisy count: with a noisy matrix for every row, the noise would
cost more than the matrices are worth. Units contribute residuals around the model of
the previous pass, so a wrong Gram matrix makes the next step wrong, but not the rows at
which the steps end. A row is computed from the sums of all passes, and earlier passes
count less.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....measure import BoundedSums, People, Releases
from ....tensor import CPForm, TuckerForm
from ....tensor._average_row import toward_average
from ....tensor._priors import INTERACTION_VARIANCE, LEAST_NOISE
from ....tensor._shared_rows import (
    biases_from_sums,
    drifted,
    inverse_of,
    row_information,
    rows_from_information,
)
from ..._problem import Problem
from .._measurement import OnSweep
from ._block_totals import BlockTotals
from ._first import RowCounts
from ._questions import BlockQuestion, UnitTotals
from ._shared_model import SharedModel

# Numbers of passes over the modes: for biases alone, and for factors.
BIAS_PASSES, FACTOR_PASSES = 4, 7
# The next three are not derived. Errors hardly depend on them: see the comparison with
# smaller and larger values in doc/constants.md.
# Between passes, factors change because the units' own factors do. The covariance of
# the change is assumed to be this share of the factors' prior covariance. The second
# number is the share for biases.
_DRIFT = 0.03
# Share of a block's squared budget for its totals.
_OF_TOTALS = 0.05
# Share of the variance of residuals that counts as new in every pass. Zero would be
# right if the model did not change between passes. With one, the last pass would count
# too little without noise.
_NEW_RESIDUALS = 0.05
# Bound on a unit's contribution: the root mean square over its entries, relative to the
# standard deviation of a value around the model.
BOUND = 0.7
# Prior mean of the variance of a value around the model.
_NOISE = 0.14
# Prior standard deviation of the totals around their prior means.
_USUAL = 0.1
# Prior variances of a unit's weights: in half ranges squared for the logarithm of a
# row's count, and as such for a row's bias.
OF_LOGS, OF_BIASES = 0.003, 0.1

ArrayPair = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class FirstResults:
    """What is known before the first round.

    Attributes
    ----------
    problem : Problem
        The unit's mode first.
    totals : UnitTotals
    counts : list of RowCounts
        Counts of the other modes.
    pattern : ndarray of shape (n_rows, n_features)
        Features of the rows of the first other mode, computed from which units have
        them.
    """

    problem: Problem
    totals: UnitTotals
    counts: list[RowCounts]
    pattern: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class State:
    """What is known between two rounds.

    Attributes
    ----------
    first : FirstResults
    model : SharedModel
        Biases alone at first.
    moment : ndarray of shape (F + 1, F + 1)
        Second moment of one and the factors of a unit.
    information : dict of int to tuple
        By block, the information of its sums so far: for biases alone, the sums and the
        variances of their noise; for rows of factors, precisions, and these times the
        rows that the sums suggest.
    covariances : dict of int to ndarray
        Prior covariances of rows of factors, by block.
    prior : dict of int to tuple
        By block, the biases before the model had factors, and their variances. They are
        the prior of biases once there are factors.
    """

    first: FirstResults
    model: SharedModel
    moment: NDArray[np.float64]
    information: Mapping[int, ArrayPair] = field(default_factory=dict)
    covariances: Mapping[int, NDArray[np.float64]] = field(default_factory=dict)
    prior: Mapping[int, ArrayPair] = field(default_factory=dict)


def fit(
    units: People, releases: Releases, first: FirstResults, name: str, on_sweep: OnSweep
) -> tuple[SharedModel, int]:
    """Fit a model in several passes, with one release for each block of each pass.

    Parameters
    ----------
    units : People
    releases : Releases
    first : FirstResults
    name : {"sums", "statistics"}
    on_sweep : callable
        Called after every pass; returning true ends the fit.

    Returns
    -------
    model : SharedModel
    n_passes : int
    """
    state, problem = _start(first), first.problem
    planned = planned_shares(problem, name, releases.left)
    for number, shares in enumerate(planned):
        if name == "statistics" and number == problem.biases:
            state = _with_factors(state)
        for block, share in shares.items():
            question = _question(state, block, share, releases.step)
            (sums, error), totals = releases.ask(units, question)
            kept = _kept(question, *totals)
            state, energy = _learned(state, *totals)
            if question.gains is None:
                state = _with_rows(state, question, sums, error)
            else:
                gains = kept * question.gains
                of_rows = sums[:, 0] / gains, error / gains
                state = _with_biases(state, block, *of_rows, energy)
        # Units fit weights of features from the second pass on. In the first pass, the
        # sums must show what features explain in all units alike.
        state = _with_features(state)
        if on_sweep(number):
            break
    return state.model, number + 1


def planned_shares(problem: Problem, name: str, left: float) -> list[dict[int, float]]:
    """For every pass, the shares of the squared budget for the blocks that it fits.

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
    modes = [(size,) for size in problem.shape[1:]]
    if name == "sums":
        return BIAS_PASSES * [_divided(modes, left / BIAS_PASSES)]
    blocks = problem.form.blocks(problem.shape)[1:]
    # The first pass fits only biases; factors follow.
    first = left * 0.2 * problem.biases
    of_factors = FACTOR_PASSES * [_divided(blocks, (left - first) / FACTOR_PASSES)]
    return [_divided(modes, first)] * problem.biases + of_factors


def after_drift(information: NDArray[np.float64]) -> NDArray[np.float64]:
    """Information about rows, times their variance, after factors have changed."""
    return information / (1 + _DRIFT * information)


def _divided(shapes: Sequence[tuple[int, ...]], whole: float) -> dict[int, float]:
    """Divide a share among blocks in proportion to the roots of their sizes."""
    roots = [math.sqrt(math.prod(shape)) for shape in shapes]
    total = math.fsum(roots)
    return {block: whole * root / total for block, root in enumerate(roots, start=1)}


# --- the model between rounds ---------------------------------------------------------


def _start(first: FirstResults) -> State:
    """A model without factors, whose biases, if any, are zero."""
    sizes, totals = first.problem.shape[1:], first.totals
    zeros = [np.zeros(size + 1) for size in sizes if first.problem.biases]
    bias_variance = 0.045  # of a unit, in half ranges squared
    model = SharedModel(
        form=CPForm(0),
        sizes=sizes,
        offset=totals.offset,
        biases=zeros,
        factors=[],
        features=np.zeros((sizes[0] + 1, 0)),
        noise=_NOISE,
        uncertainty=zeros,
        groups=((1, bias_variance),) if first.problem.biases else (),
        n_units=totals.n_units,
    )
    return State(first, model, _prior_moment(0))


def _with_factors(state: State) -> State:
    """Add factors to the model, at a fixed random start, with their priors."""
    problem = state.first.problem
    form = problem.form
    generator, factors, covariances = np.random.default_rng(0), [], {}
    for block, shape in enumerate(form.blocks(problem.shape)):
        variance = _prior_variance(form, block)
        covariances[block] = variance * np.eye(shape[1])
        # Block 0 would have a row for each declared unit; a fit needs none of these
        # rows.
        if block:
            deviations = generator.standard_normal(shape) * math.sqrt(variance)
            factors.append(form.centre(block) + deviations)
    if hasattr(form, "ranks"):
        factors[-1] = form.centre(len(form.ranks))[np.newaxis]
    model = replace(state.model, form=form, factors=factors)
    return replace(
        state,
        model=model,
        moment=_prior_moment(model.n_factors),
        information={},
        covariances=covariances,
        prior={
            block: (biases[:-1], variances[:-1])
            for block, (biases, variances) in enumerate(
                zip(model.biases, model.uncertainty, strict=True), start=1
            )
        },
    )


def _with_features(state: State) -> State:
    """Add the features of the rows of the first other mode to the model."""
    first, model = state.first, state.model
    side, counts = first.problem.features.declared.T, first.counts[0]
    # Each group is the prior variance of a unit's weight for a column, in half ranges
    # squared, and the columns. Columns of side information divide one variance.
    groups = [(0.03 / max(len(side), 1), [*side])]
    if model.biases:
        logs = counts.logs - counts.shares @ counts.logs
        logs = logs / max(math.sqrt(counts.shares @ logs**2), 1e-9)
        biases = model.biases[0][:-1]
        centred = biases - counts.shares @ biases
        groups += [(OF_LOGS, [logs]), (OF_BIASES, [centred])]
    groups.append((0.01, [*first.pattern.T]))
    columns = [column for _, of_group in groups for column in of_group]
    features = np.reshape(columns, (len(columns), len(counts.counts))).T
    features = toward_average(features, counts.counts, counts.unknown)
    # Declared features are known for every row.
    features[:-1, : len(side)] = side.T
    # In later passes the groups exist already, with learned variances.
    new = [(len(of_group), variance) for variance, of_group in groups if of_group]
    if len(model.groups) > model.n_biases:
        new = []
    return replace(
        state, model=replace(model, features=features, groups=(*model.groups, *new))
    )


# --- a round --------------------------------------------------------------------------


def _question(state: State, block: int, share: float, step: float) -> BlockQuestion:
    """Ask for the regressions of the rows of a block, and for totals."""
    model, first = state.model, state.first
    is_mode = block <= len(first.counts)
    # The row of a core has no bias.
    n_biases = model.n_biases * is_mode
    # Divided by these lengths, regressors have a mean square of about one.
    lengths = np.sqrt(np.diag(_moment(state, block)))[1 - n_biases :]
    bound = BOUND * math.sqrt((model.noise + 0.05) * (n_biases + model.form.rank))
    most = 2.5 + len(model.groups) / 4 + model.form.rank / 2
    n_rows = len(first.counts[block - 1].counts) if is_mode else 1
    n_totals = BlockTotals.size(model)
    sums = (
        BoundedSums((n_rows, len(lengths)), bound, share * (1 - _OF_TOTALS), step),
        BoundedSums((1, n_totals), most, share * _OF_TOTALS, step),
    )
    gains = None if model.form else first.counts[block - 1].gains
    return BlockQuestion(sums, model, block, n_biases, lengths, first.totals, gains)


def _moment(state: State, block: int) -> NDArray[np.float64]:
    """Second moment of one and the regressors of a block, as far as it is known."""
    form, moments = state.model.form, [state.moment]
    if not form:
        return np.ones((1, 1))
    for counts, factor in zip(state.first.counts, state.model.factors, strict=False):
        rows = np.insert(factor, 0, 1.0, axis=1)
        moments.append((rows.T * counts.shares) @ rows)
    moment = form.moments(block, moments, state.model.factors[-1])
    return moment + LEAST_NOISE * np.eye(len(moment))


def _learned(
    state: State, sums: NDArray[np.float64], error: float
) -> tuple[State, float]:
    """Learn variances and the moments of units' factors from noisy totals.

    Parameters
    ----------
    state : State
    sums : ndarray of shape (1, BlockTotals.size(model))
        Noisy totals.
    error : float
        Standard deviation of their noise.

    Returns
    -------
    state : State
    energy : float
        Variance of the sum of a row per count, without weights of rows.
    """
    # The first release gives the number of units more exactly. Few vectors of totals
    # are scaled down.
    first, model = state.first, state.model
    n = first.totals.n_units
    error, means = error / n, BlockTotals.of_vector(sums[0] / n, len(model.groups))
    squares, free = max(float(means.squares), 1e-6), max(float(means.free), 0.1)
    noise = _posterior_mean(squares / free, _NOISE, error, _USUAL * free)
    noise = min(max(noise, 1e-4), 1.0)
    energy = max(_posterior_mean(float(means.energy), 1.0, error), 0.1) * model.noise
    energy *= n / max(float(first.counts[0].counts.sum()), 1e-300)
    shares = np.maximum(means.group_shares, 1e-9)
    ratios = np.maximum(means.group_squares, 0.0) / shares
    ratios = np.clip(_posterior_mean(ratios, 1.0, error / shares), 0.1, 4.0)
    groups = tuple(
        (size, variance * ratio)
        for (size, variance), ratio in zip(model.groups, ratios.tolist(), strict=True)
    )
    prior = _prior_moment(model.n_factors)
    moment = _positive(_posterior_mean(means.moment, prior, error))
    model = replace(model, noise=noise, groups=groups)
    return replace(state, model=model, moment=moment), energy


def _kept(question: BlockQuestion, sums: NDArray[np.float64], error: float) -> float:
    """The share of what units contribute that is left by scaling long vectors down.

    Parameters
    ----------
    question : BlockQuestion
    sums : ndarray of shape (1, BlockTotals.size(question.model))
        Noisy totals.
    error : float
        Standard deviation of their noise.

    Returns
    -------
    share : float
        As if all vectors were equally long; 1 if noise hides how long they are.
    """
    model = question.model
    energy = float(BlockTotals.of_vector(sums[0], len(model.groups)).energy)
    if energy <= error:
        return 1.0
    length = math.sqrt(energy / question.totals.n_units * model.noise)
    return min(question.sums[0].bound / length, 1.0)


def _posterior_mean(value: Any, prior: Any, error: Any, spread: float = _USUAL) -> Any:
    """Posterior mean of a number, given a noisy value and a Gaussian prior.

    Parameters
    ----------
    value, prior : float or ndarray
        The noisy value, and the prior mean.
    error : float or ndarray
        Standard deviation of the noise.
    spread : float
        Standard deviation of the prior.
    """
    return prior + (value - prior) / (1 + (error / spread) ** 2)


def _with_biases(
    state: State,
    block: int,
    sums: NDArray[np.float64],
    errors: NDArray[np.float64],
    energy: float,
) -> State:
    """Fit the biases of a mode to the sums of all passes so far.

    Parameters
    ----------
    state : State
    block : int
    sums : ndarray of shape (n_rows,)
        Sums of weighted residuals, without gains.
    errors : ndarray of shape (n_rows,)
        Standard deviations of their noise.
    energy : float
        See `_learned`.
    """
    counts, model = state.first.counts[block - 1], state.model
    weights, start = counts.counts, model.biases[block - 1][:-1]
    # Sums of residuals around biases of zero.
    sums, noise = sums + weights * start, errors**2
    if block in state.information:
        before, before_noise = state.information[block]
        drift = _DRIFT * model.uncertainty[block - 1][-1]
        before_noise = before_noise + drift * weights**2
        share = before_noise / np.maximum(before_noise + noise, LEAST_NOISE)
        sums, noise = before + share * (sums - before), share * noise
    explaining, of_prior = _explaining(state.first, block)
    sampled = noise + energy * counts.counts
    found = biases_from_sums(
        sums, weights, sampled, explaining, of_prior, counts.unknown
    )
    means = np.append(found.means, found.centre)
    variances = np.append(found.variances, found.spread)
    model = replace(
        model,
        biases=_replaced(model.biases, block, means),
        uncertainty=_replaced(model.uncertainty, block, variances),
    )
    return replace(
        state, model=model, information={**state.information, block: (sums, noise)}
    )


def _explaining(
    first: FirstResults, block: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Explanatory variables for the biases of a block; see `biases_from_sums`."""
    counts = first.counts[block - 1]
    logs = counts.logs - counts.logs.mean()
    declared = np.ones((len(logs), 1))
    released = logs[:, np.newaxis] / max(logs.std(), 1e-9)
    if block == 1:
        declared = np.insert(first.problem.features.declared, 0, 1.0, axis=1)
        released = np.concatenate([released, first.pattern], axis=1)
    of_prior = toward_average(released, counts.counts, counts.unknown)[:-1]
    explaining = np.concatenate([declared, released], axis=1)
    return explaining, np.concatenate([declared, of_prior], axis=1)


def _replaced(
    of_blocks: list[NDArray[np.float64]], block: int, rows: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """Replace the rows of a block."""
    return [*of_blocks[: block - 1], rows, *of_blocks[block:]]


# --- rows of factors ------------------------------------------------------------------


def _with_rows(
    state: State,
    question: BlockQuestion,
    sums: NDArray[np.float64],
    error: float,
) -> State:
    """Fit the rows of a block to the sums of all passes so far.

    A row has Q columns: its bias, if it has one, and its factors.

    Parameters
    ----------
    state : State
    question : BlockQuestion
        The question that was answered by the sums.
    sums : ndarray of shape (n_rows, Q)
        Noisy right-hand sides.
    error : float
        Standard deviation of their noise.
    """
    block, n_biases = question.block, question.n_biases
    regression = _regression(state, question)
    found = _information(regression, sums, error, _rows_before(state.model, question))
    information = _of_all_passes(state, question, found)
    prior = _prior_of_rows(state, question)
    means, spread, covariance = rows_from_information(
        *drifted(*information, _error_of_all_passes(regression)),
        prior.means,
        prior.bias_variance,
        prior.covariance,
        update_covariance=block <= len(state.first.counts),
    )
    model = state.model
    if n_biases:
        model = _with_biases_of_rows(model, block, means[:, 0], spread, regression)
    factors = _replaced(model.factors, block, means[:, n_biases:])
    return replace(
        state,
        model=replace(model, factors=factors),
        information={**state.information, block: information},
        covariances={**state.covariances, block: covariance},
    )


@dataclass(frozen=True, eq=False)
class _Regression:
    """The regressions whose right-hand sides were summed, as far as they are known.

    Attributes
    ----------
    lengths : ndarray of shape (Q,)
        Root mean squares of the regressors. Units divide regressors by them.
    moment : ndarray of shape (Q, Q)
        Second moment of the divided regressors. All rows share it.
    weights : ndarray of shape (n_rows,)
        Sum of the weights of a row's entries.
    residual : ndarray of shape (n_rows,)
        Variance of a value around the model, times the sum of these weights' squares.
    """

    lengths: NDArray[np.float64]
    moment: NDArray[np.float64]
    weights: NDArray[np.float64]
    residual: NDArray[np.float64]


def _regression(state: State, question: BlockQuestion) -> _Regression:
    """Describe the regressions of a block by earlier releases."""
    first, block, lengths = state.first, question.block, question.lengths
    columns = slice(1 - question.n_biases, None)
    moment = _moment(state, block)[columns, columns]
    # An entry of a unit of at most the typical size weighs one over this root. So the
    # squares of a row's weights add up to about the sum of the weights over the root.
    root = math.sqrt(first.totals.typical_size)
    weights = np.array([first.totals.n_units * root])
    if block <= len(first.counts):
        weights = first.counts[block - 1].counts
    return _Regression(
        lengths=lengths,
        moment=moment / lengths / lengths[:, np.newaxis],
        weights=weights,
        residual=state.model.noise * weights / root,
    )


def _rows_before(model: SharedModel, question: BlockQuestion) -> NDArray[np.float64]:
    """The rows around which sums are residuals: an array of shape (n_rows, Q)."""
    factors = model.factors[question.block - 1]
    if not question.n_biases:
        return factors
    return np.insert(factors, 0, model.biases[question.block - 1][:-1], axis=1)


def _information(
    regression: _Regression,
    sums: NDArray[np.float64],
    error: float,
    before: NDArray[np.float64],
) -> ArrayPair:
    """Information of the sums of one pass about rows.

    Parameters
    ----------
    regression : _Regression
    sums : ndarray of shape (n_rows, Q)
        Right-hand sides with divided regressors.
    error : float
        Standard deviation of their noise.
    before : ndarray of shape (n_rows, Q)
        The rows around which residuals were taken.

    Returns
    -------
    precision : ndarray of shape (n_rows, Q, Q)
    shift : ndarray of shape (n_rows, Q)
        The precision times the rows that the sums suggest.
    """
    lengths = regression.lengths
    # A regressor is divided by its length, so an element of a row is multiplied by it.
    precision, shift = row_information(
        sums,
        regression.weights,
        regression.moment,
        error**2,
        _NEW_RESIDUALS * regression.residual,
        before * lengths,
    )
    return precision * lengths * lengths[:, np.newaxis], shift * lengths


def _of_all_passes(
    state: State, question: BlockQuestion, found: ArrayPair
) -> ArrayPair:
    """Add the information of earlier passes; factors have changed since then."""
    block, n_biases = question.block, question.n_biases
    if block not in state.information:
        return found
    covariance, size = state.covariances[block], len(question.lengths)
    drift = np.zeros((size, size))
    drift[n_biases:, n_biases:] = _DRIFT * covariance
    earlier, earlier_shift = drifted(*state.information[block], drift)
    precision, shift = found
    return precision + earlier, shift + earlier_shift


def _error_of_all_passes(regression: _Regression) -> NDArray[np.float64]:
    """Covariance of the error that all passes share: an array of (n_rows, Q, Q).

    It comes from the residuals of the values, except their new share, in the rows that
    the sums suggest.
    """
    weights, lengths = regression.weights, regression.lengths
    # This keeps divisions finite for rows without units.
    floor = 1e-6 * max(float(weights.max()), 1e-140)
    common = (1 - _NEW_RESIDUALS) * regression.residual
    common = common / np.maximum(weights, floor) ** 2
    inverse = inverse_of(regression.moment) / lengths / lengths[:, np.newaxis]
    return common[:, np.newaxis, np.newaxis] * inverse


class _PriorOfRows(NamedTuple):
    """Prior of the rows of a block.

    Attributes
    ----------
    means : ndarray of shape (n_rows, Q)
    bias_variance : ndarray of shape (n_rows, B)
        B is 1 if rows have a bias, otherwise 0.
    covariance : ndarray of shape (Q - B, Q - B)
        Covariance of the factors of a row.
    """

    means: NDArray[np.float64]
    bias_variance: NDArray[np.float64]
    covariance: NDArray[np.float64]


def _prior_of_rows(state: State, question: BlockQuestion) -> _PriorOfRows:
    """Prior from the form of the model, and from the biases before it had factors."""
    block = question.block
    shape, covariance = state.model.factors[block - 1].shape, state.covariances[block]
    centre = np.broadcast_to(state.model.form.centre(block), shape)
    if not question.n_biases:
        return _PriorOfRows(centre, np.empty((len(centre), 0)), covariance)
    bias, variance = state.prior[block]
    means = np.insert(centre, 0, bias, axis=1)
    return _PriorOfRows(means, variance[:, np.newaxis], covariance)


def _with_biases_of_rows(
    model: SharedModel,
    block: int,
    biases: NDArray[np.float64],
    spread: NDArray[np.floating],
    regression: _Regression,
) -> SharedModel:
    """Store the biases of rows, and the variance that errors of rows add to values.

    Parameters
    ----------
    model : SharedModel
    block : int
    biases : ndarray of shape (n_rows,)
    spread : ndarray of shape (n_rows, Q, Q)
        Covariances of the rows.
    regression : _Regression
    """
    lengths, earlier = regression.lengths, model.uncertainty[block - 1]
    moment = regression.moment * lengths * lengths[:, np.newaxis]
    variances = np.append(np.einsum("jab,ab->j", spread, moment), earlier[-1])
    biases = np.append(biases, model.biases[block - 1][-1])
    return replace(
        model,
        biases=_replaced(model.biases, block, biases),
        uncertainty=_replaced(model.uncertainty, block, variances),
    )


# --- priors ---------------------------------------------------------------------------


def _prior_moment(n_factors: int) -> NDArray[np.float64]:
    """Prior second moment of one and the factors of a unit."""
    return np.diag(np.append(1.0, np.full(n_factors, 0.5)))


def _positive(moment: NDArray[np.float64]) -> NDArray[np.float64]:
    """Raise small eigenvalues of a second moment of one and other variables."""
    values, vectors = np.linalg.eigh(moment)
    if not values[-1] > 0:  # without noise, if there are no units
        return _prior_moment(len(moment) - 1)
    moment = (vectors * np.maximum(values, 1e-3 * values[-1])) @ vectors.T
    return moment / moment[0, 0]


def _prior_variance(form: CPForm | TuckerForm, block: int) -> float:
    """Prior variance of the elements of a block around its centre."""
    if block == 1:
        return INTERACTION_VARIANCE / form.rank
    # The block is a core, or holds factors that modulate the interaction.
    is_core = block == len(getattr(form, "ranks", ()))
    return 0.02 if is_core else 0.04
