"""The rounds of one fit that protects units, and the model that they determine.

After totals and counts, the rows of one mode after the other are fitted. Units compute
their own rows from earlier releases, and contribute to the right-hand sides of the
rows' regressions. The regressors are the units' own factors and, for tensors of more
than two modes, factors of the other modes. The second moment of the units' factors is
released as one matrix for all rows of a mode. The Gram matrix of a row is this matrix
times the row's noisy count: noise on a matrix for every row would cost more than such
matrices tell. What a unit contributes are residuals around the model of the pass
before, so a wrong Gram matrix makes the next step wrong, but not the rows at which the
steps end. A row is computed from the sums of all passes, and earlier passes count less.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ....measure import BoundedSums, People, Releases
from ....tensor import CPForm, TuckerForm
from ....tensor._average_row import with_average
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
from ._first import RowCounts
from ._questions import N_FIT_TOTALS, BlockQuestion, UnitTotals, n_totals
from ._shared_model import SharedModel

# Numbers of passes over the modes: for biases alone, and for factors.
BIAS_PASSES, FACTOR_PASSES = 4, 7
# Between passes, factors change as the units' own factors do. The covariance of the
# change is taken as this share of the factors' prior covariance. The same for biases.
_DRIFT = 0.03
# Bound on a unit's contribution: the root mean square over its entries, relative to the
# standard deviation of a value around the model.
BOUND = 0.7
# Prior mean of the variance of a value around the model.
_NOISE = 0.14

Known = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class First:
    """What is known before the first round.

    Attributes
    ----------
    problem : Problem
        The unit's mode first.
    totals : UnitTotals
    counts : list of RowCounts
        Of the other modes.
    pattern : ndarray of shape (n_rows, n_features)
        Features of the rows of the first other mode, by which units have them.
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
    first : First
    model : SharedModel
        Biases alone at first.
    moment : ndarray of shape (F + 1, F + 1)
        Second moment of one and the factors of a unit.
    known : dict of int to tuple
        By block, what its sums so far tell: for biases alone, their sums and the
        variances of the noise in these; for rows of factors, precisions, and these
        times the rows that the sums suggest.
    covariances : dict of int to ndarray
        Prior covariances of rows of factors, by block.
    prior : dict of int to tuple
        By block, the biases before the model had factors, and their variances: the
        prior of biases since then.
    """

    first: First
    model: SharedModel
    moment: NDArray[np.float64]
    known: Mapping[int, Known] = field(default_factory=dict)
    covariances: Mapping[int, NDArray[np.float64]] = field(default_factory=dict)
    prior: Mapping[int, Known] = field(default_factory=dict)


def fit(
    units: People, releases: Releases, first: First, name: str, on_sweep: OnSweep
) -> tuple[SharedModel, int]:
    """Fit a model block by block, each to a release of its own, in several passes.

    Parameters
    ----------
    units : People
    releases : Releases
    first : First
    name : {"sums", "statistics"}
    on_sweep : callable
        Called after every pass; true ends the fit.

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
            state, energy = _learned(state, *totals)
            if state.model.form:
                state = _with_rows(state, question, sums, error)
            else:
                state = _with_biases(state, block, sums[:, 0], error, energy)
        # Units fit weights of features from the second pass on. In the first, the sums
        # have to show what features explain in all units alike.
        state = _with_features(state)
        if on_sweep(number):
            break
    return state.model, number + 1


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
    modes = [(size,) for size in problem.shape[1:]]
    if name == "sums":
        return BIAS_PASSES * [_divided(modes, left / BIAS_PASSES)]
    blocks = problem.form.blocks(problem.shape)[1:]
    # The first pass fits biases alone, before factors follow.
    first = left * 0.2 * problem.biases
    of_factors = FACTOR_PASSES * [_divided(blocks, (left - first) / FACTOR_PASSES)]
    return [_divided(modes, first)] * problem.biases + of_factors


def after_drift(known: NDArray[np.float64]) -> NDArray[np.float64]:
    """Information about rows, times their variance, after factors have changed."""
    return known / (1 + _DRIFT * known)


def _divided(shapes: Sequence[tuple[int, ...]], whole: float) -> dict[int, float]:
    """Divide a share among blocks in proportion to the roots of their sizes."""
    roots = [math.sqrt(math.prod(shape)) for shape in shapes]
    total = math.fsum(roots)
    return {block: whole * root / total for block, root in enumerate(roots, start=1)}


# --- the model between rounds ---------------------------------------------------------


def _start(first: First) -> State:
    """A model whose biases are zero, if it has any."""
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
        # Block 0 has a row for each declared unit, and a fit needs none of them.
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
        known={},
        covariances=covariances,
        prior={
            block: (biases[:-1], variances[:-1])
            for block, (biases, variances) in enumerate(
                zip(model.biases, model.uncertainty, strict=True), start=1
            )
        },
    )


def _with_features(state: State) -> State:
    """Add to the model what is known of the rows of the first other mode."""
    first, model = state.first, state.model
    side, counts = first.problem.features.declared.T, first.counts[0]
    # Columns, after the prior variance of a unit's weight for each, in half ranges
    # squared; that of side information is for all its columns together.
    groups = [(0.03 / max(len(side), 1), [*side])]
    if model.biases:
        logs = counts.logs - counts.shares @ counts.logs
        logs = logs / max(math.sqrt(counts.shares @ logs**2), 1e-9)
        biases = model.biases[0][:-1]
        groups += [(0.003, [logs]), (0.1, [biases - counts.shares @ biases])]
    groups.append((0.01, [*first.pattern.T]))
    columns = [column for _, of_group in groups for column in of_group]
    features = np.reshape(columns, (len(columns), len(counts.counts))).T
    features = with_average(features, counts.known)
    # What is declared is known of every row.
    features[:-1, : len(side)] = side.T
    # Variances of the first pass have been learned since.
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
    # Over these lengths, regressors have a mean square of about one.
    lengths = np.sqrt(np.diag(_moment(state, block)))[1 - n_biases :]
    bound = BOUND * math.sqrt((model.noise + 0.05) * (n_biases + model.form.rank))
    most = 2.5 + len(model.groups) / 4 + model.form.rank / 2
    n_rows = len(first.counts[block - 1].counts) if is_mode else 1
    of_totals = 0.05  # of the block's budget
    sums = (
        BoundedSums((n_rows, len(lengths)), bound, share * (1 - of_totals), step),
        BoundedSums((1, n_totals(model)), most, share * of_totals, step),
    )
    return BlockQuestion(sums, model, block, n_biases, lengths, first.totals)


def _moment(state: State, block: int) -> NDArray[np.float64]:
    """Second moment of one and the regressors of a block, as far as known."""
    form, moments = state.model.form, [state.moment]
    if not form:
        return np.ones((1, 1))
    for counts, factor in zip(state.first.counts, state.model.factors, strict=False):
        rows = np.insert(factor, 0, 1.0, axis=1)
        moments.append((rows.T * counts.shares) @ rows)
    moment = form.moments(block, moments, state.model.factors[-1])
    return moment + LEAST_NOISE * np.eye(len(moment))


def _learned(
    state: State, totals: NDArray[np.float64], error: float
) -> tuple[State, float]:
    """Learn variances and the moments of units' factors from noisy totals.

    Returns
    -------
    state : State
    energy : float
        Variance of the sum of a row per count, without weights of rows.
    """
    # The number of units is known better from the first release. Few vectors of totals
    # are scaled down.
    first, model = state.first, state.model
    n = first.totals.n_units
    error, means = error / n, totals[0] / n
    # Totals are expected to be one, within this standard deviation.
    usual = 0.1

    def known(value: float, prior: float, spread: float = usual) -> float:
        """Posterior mean of a total, whose prior is Gaussian."""
        return prior + (value - prior) / (1 + (error / spread) ** 2)

    squares, freedom = np.maximum(means[:2], [1e-6, 0.1]).tolist()
    noise = known(squares / freedom, _NOISE, usual * freedom)
    noise = min(max(noise, 1e-4), 1.0)
    energy = max(known(float(means[2]), 1.0), 0.1) * model.noise
    energy *= n / max(float(first.counts[0].counts.sum()), 1e-300)
    n_groups = len(model.groups)
    squares, shares = means[N_FIT_TOTALS : N_FIT_TOTALS + 2 * n_groups].reshape(-1, 2).T
    shares = np.maximum(shares, 1e-9)
    change = np.maximum(squares, 0.0) / shares - 1
    factors = 1 + change / (1 + (error / shares / usual) ** 2)
    groups = [
        (size, variance * factor)
        for (size, variance), factor in zip(
            model.groups, np.clip(factors, 0.1, 4.0).tolist(), strict=True
        )
    ]
    prior = _prior_moment(model.n_factors)
    moment, upper = np.empty_like(prior), np.triu_indices(len(prior))
    moment[upper] = moment[upper[::-1]] = means[N_FIT_TOTALS + 2 * n_groups :]
    moment = _positive(prior + (moment - prior) / (1 + (error / usual) ** 2))
    model = replace(model, noise=noise, groups=tuple(groups))
    return replace(state, model=model, moment=moment), energy


def _with_biases(
    state: State, block: int, sums: NDArray[np.float64], error: float, energy: float
) -> State:
    """Fit the biases of a mode to the sums of all passes so far."""
    counts, model = state.first.counts[block - 1], state.model
    weights, start = counts.counts, model.biases[block - 1][:-1]
    # Sums of residuals around biases of zero.
    sums, noise = sums + weights * start, np.full(len(sums), error**2)
    if block in state.known:
        before, before_noise = state.known[block]
        drift = _DRIFT * model.uncertainty[block - 1][-1]
        before_noise = before_noise + drift * weights**2
        share = before_noise / np.maximum(before_noise + noise, LEAST_NOISE)
        sums, noise = before + share * (sums - before), share * noise
    explaining, of_prior = _explaining(state.first, block)
    sampled = noise + energy * counts.counts
    found = biases_from_sums(sums, weights, sampled, explaining, of_prior, counts.known)
    means = np.append(found.means, found.centre)
    variances = np.append(found.variances, found.spread)
    model = replace(
        model,
        biases=_replaced(model.biases, block, means),
        uncertainty=_replaced(model.uncertainty, block, variances),
    )
    return replace(state, model=model, known={**state.known, block: (sums, noise)})


def _explaining(
    first: First, block: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What explains the biases of a block before their sums; see `biases_from_sums`."""
    counts = first.counts[block - 1]
    logs = counts.logs - counts.logs.mean()
    declared = np.ones((len(logs), 1))
    released = logs[:, np.newaxis] / max(logs.std(), 1e-9)
    if block == 1:
        declared = np.insert(first.problem.features.declared, 0, 1.0, axis=1)
        released = np.concatenate([released, first.pattern], axis=1)
    of_prior = with_average(released, counts.known)[:-1]
    explaining = np.concatenate([declared, released], axis=1)
    return explaining, np.concatenate([declared, of_prior], axis=1)


def _replaced(
    of_blocks: list[NDArray[np.float64]], block: int, rows: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """The same with other rows of a block."""
    return [*of_blocks[: block - 1], rows, *of_blocks[block:]]


def _with_rows(
    state: State,
    question: BlockQuestion,
    sums: NDArray[np.float64],
    error: float,
) -> State:
    """Fit the rows of a block to the sums of all passes so far."""
    first, model, n_biases = state.first, state.model, question.n_biases
    block, lengths = question.block, question.lengths
    moment = _moment(state, block)[1 - n_biases :, 1 - n_biases :]
    moment = moment / lengths / lengths[:, np.newaxis]
    # Sums of the weights of rows' entries; those of their squares are approximate.
    root = math.sqrt(first.totals.typical_size)
    weights = np.array([first.totals.n_units * root])
    if block <= len(first.counts):
        weights = first.counts[block - 1].counts
    residual = model.noise * weights / root
    # Share of the variance of residuals that counts as new in every pass. It would be
    # zero if the model did not change between passes. If it were one, the last pass
    # would count too little without noise.
    new_share = 0.05
    before = model.factors[block - 1]
    centre = np.broadcast_to(model.form.centre(block), before.shape)
    bias_variance = np.empty((len(before), 0))
    if n_biases:
        before = np.insert(before, 0, model.biases[block - 1][:-1], axis=1)
        bias, variance = state.prior[block]
        centre = np.insert(centre, 0, bias, axis=1)
        bias_variance = variance[:, np.newaxis]
    precision, shift = row_information(
        sums,
        weights,
        moment,
        error**2,
        new_share * residual,
        before * lengths,
    )
    precision = precision * lengths * lengths[:, np.newaxis]
    shift = shift * lengths
    covariance = state.covariances[block]
    if block in state.known:
        drift = np.zeros((len(lengths), len(lengths)))
        drift[n_biases:, n_biases:] = _DRIFT * covariance
        earlier, earlier_shift = drifted(*state.known[block], drift)
        precision, shift = precision + earlier, shift + earlier_shift
    known = {**state.known, block: (precision, shift)}
    # All passes share the residuals of the values. Divisions stay finite where there is
    # nobody.
    floor = 1e-6 * max(float(weights.max()), 1e-140)
    common = (1 - new_share) * residual / np.maximum(weights, floor) ** 2
    inverse = inverse_of(moment) / lengths / lengths[:, np.newaxis]
    means, spread, covariance = rows_from_information(
        *drifted(precision, shift, common[:, np.newaxis, np.newaxis] * inverse),
        centre,
        bias_variance,
        covariance,
        learn=block <= len(first.counts),
    )
    if n_biases:
        biases = np.append(means[:, 0], model.biases[block - 1][-1])
        of_regressors = moment * lengths * lengths[:, np.newaxis]
        of_rows = np.einsum("jab,ab->j", spread, of_regressors)
        variances = np.append(of_rows, model.uncertainty[block - 1][-1])
        model = replace(
            model,
            biases=_replaced(model.biases, block, biases),
            uncertainty=_replaced(model.uncertainty, block, variances),
        )
    factors = _replaced(model.factors, block, means[:, n_biases:])
    return replace(
        state,
        model=replace(model, factors=factors),
        known=known,
        covariances={**state.covariances, block: covariance},
    )


# --- priors ---------------------------------------------------------------------------


def _prior_moment(n_factors: int) -> NDArray[np.float64]:
    """Prior second moment of one and the factors of a unit."""
    return np.diag(np.append(1.0, np.full(n_factors, 0.5)))


def _positive(moment: NDArray[np.float64]) -> NDArray[np.float64]:
    """Raise small eigenvalues of a second moment of one and other variables."""
    values, vectors = np.linalg.eigh(moment)
    if not values[-1] > 0:  # without noise, nobody is there
        return _prior_moment(len(moment) - 1)
    moment = (vectors * np.maximum(values, 1e-3 * values[-1])) @ vectors.T
    return moment / moment[0, 0]


def _prior_variance(form: CPForm | TuckerForm, block: int) -> float:
    """Prior variance of the elements of a block around its centre."""
    if block == 1:
        return INTERACTION_VARIANCE / form.rank
    # Of a core, or of factors that modulate the interaction.
    is_core = block == len(getattr(form, "ranks", ()))
    return 0.02 if is_core else 0.04
