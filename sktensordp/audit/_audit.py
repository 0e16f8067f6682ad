"""Audits by many runs on each of two neighbouring inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_limits

from .._waiting import watched
from ..privacy._numbers import shown_below
from ..privacy.budgets._clones import on_its_own
from ._bounds import Gaussian, Pure, certified_bound, epsilon_of_mu, quick_bound
from ._report import AuditReport
from ._scores import Score, candidate_scores, mean_score

# Every stage except the last one learns from at least this many outputs on each input.
_LEAST_LEARNING = 100

# Fewer outputs on an input than this are too few to smooth counts.
_LEAST_SMOOTHED = 500

# Outputs are rounded to this fraction of their interquartile range, or less.
_GRID = 64

_NO_NOISE = "each input always gave the same output, so there is no noise"

_TwoArms = Sequence[NDArray[np.float64]]
# How often an event happened in each of two arms, and the outputs in each.
_Counts = tuple[int, int, int]

# Quantiles of the scores that serve as candidate thresholds.
_TAILS = np.geomspace(1e-4, 4e-3, 9)
_QUANTILES = np.concatenate([_TAILS, np.linspace(0.005, 0.995, 199), 1 - _TAILS[::-1]])


@watched
def audit_mechanism(
    mechanism: Callable[..., Any],
    x: object,
    x_neighbour: object,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    n_trials: int = 100_000,
    confidence: float = 0.95,
    log_likelihood_ratio: Callable[[Any], Any] | None = None,
    gaussian: bool = False,
    batched: bool = False,
    early_stopping: bool = False,
) -> AuditReport:
    """Lower bound on the epsilon of anything that can be called many times.

    The audit runs the mechanism `n_trials` times on each of two neighbouring inputs.
    From the first eighth of the outputs, it chooses an event that tells the inputs
    apart: a score above or below a threshold. It counts this event in the second
    eighth. From the first quarter it chooses another event, which it counts in the
    second quarter, and from the first half a third one, which it counts in the second
    half. The three pairs of counts certify one bound. Choosing among many events costs
    no confidence, because no output that chose an event is counted for it. With fewer
    than 800 runs, the audit leaves out events that it would choose from fewer than 100
    outputs.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(x)`` gets an input as you passed it and returns one output: an
        array-like of finite numbers, always of the same size. With `batched`,
        ``mechanism(x, n)`` gets an input as an array of floats and returns n outputs
        along the first axis.
    x, x_neighbour : array-like
        Two inputs that are neighbours in the sense of the claim.
    epsilon : float, default=None
        Claimed epsilon at `delta`.
    delta : float, default=0.0
        Delta of the claim, in [0, 1).
    n_trials : int, default=100_000
        Number of runs on each input, at least 40. No audit can show more than about
        ln(`n_trials` / 6).
    confidence : float, default=0.95
        In (0, 1). The bound is above the true epsilon with probability at most
        1 - `confidence`.
    log_likelihood_ratio : callable, default=None
        Maps outputs of shape (n, size) to the logarithm of the ratio of their
        densities on `x_neighbour` and on `x`. Pass it if it is known: the audit then
        has to choose only a threshold.
    gaussian : bool, default=False
        Whether to bound mu of Gaussian differential privacy, and epsilon through mu.
        This is tighter, but valid only for Gaussian noise.
    batched : bool, default=False
        Whether one call of the mechanism returns many outputs.
    early_stopping : bool, default=False
        Whether to stop after a quarter or half of the runs if they refute the claim.
        The report states the number of runs that were made. The bound keeps its
        `confidence`: the three looks at the counts share the error, so the audit finds
        slightly less with the same number of runs.

    Returns
    -------
    report : AuditReport

    Raises
    ------
    ValueError
        If a parameter is out of range, if the inputs are equal, if outputs differ in
        size or are not finite numbers, or if `early_stopping` has no claim to refute.
    TypeError
        If `mechanism` is not callable, or `n_trials` is not an integer.

    Notes
    -----
    The bound is above the truth with probability at most alpha = 1 - `confidence`, for
    every mechanism. Given all earlier outputs, the event of a stage is fixed, so its
    two counts are binomials, and an exact test of them has a p-value that is below any
    u with probability at most u. The p-values of the stages are combined by the inverse
    normal method, with weights that depend on `n_trials` only. This holds although a
    later event depends on earlier counts, since it needs no more than this property of
    each p-value given the earlier outputs (Bauer and Köhne 1994). With
    `early_stopping`, the looks after a quarter, half and all of the runs refute the
    truth with probability at most alpha / 4, alpha / 4 and alpha / 2; if there are only
    two looks, with alpha / 2 each. Whenever the audit stops, it reports the bound of
    that look, so the sum over all looks limits the probability that the bound is above
    the truth.

    References
    ----------
    Jagielski, Ullman and Oprea, "Auditing differentially private machine learning",
    NeurIPS 2020, for the bound. Nasr et al., "Tight auditing of differentially
    private machine learning", USENIX Security 2023, for mu. Bauer and Köhne,
    "Evaluation of experiments with adaptive interim analyses", Biometrics 50, 1994,
    for stages that depend on earlier ones.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.audit import audit_mechanism
    >>> rng = np.random.default_rng(0)
    >>> def half_the_noise(x, n):
    ...     return x + rng.laplace(scale=0.5, size=(n, 1))
    >>> report = audit_mechanism(
    ...     half_the_noise, [0.0], [1.0], epsilon=1.0, n_trials=2000, batched=True)
    >>> report.violated
    True
    """
    _check(epsilon, delta, n_trials, confidence)
    if not callable(mechanism):
        raise TypeError(
            "mechanism must be a function that takes an input and returns an output. "
            "To audit an estimator, call audit_estimator."
        )
    if _are_equal(x, x_neighbour):
        raise ValueError(
            "x and x_neighbour are equal, and nothing tells them apart. Pass two "
            "inputs that differ as much as the claim allows."
        )
    if early_stopping and epsilon is None:
        raise ValueError("early_stopping needs a claim to refute. Pass `epsilon`.")
    claim, alpha = Gaussian() if gaussian else Pure(delta), 1 - confidence
    starts = [n_trials // 8, n_trials // 4, n_trials // 2]
    starts = [n for n in starts if n >= _LEAST_LEARNING] or starts[-1:]

    def stage(arms: _TwoArms, start: int, end: int) -> tuple[_Event, _Counts]:
        """The event that the first outputs choose, and its counts in the next ones."""
        zeros, ones = arms
        with threadpool_limits(1):
            event = _chosen_event(
                (zeros[:start], ones[:start]),
                (x, x_neighbour),
                claim,
                None if gaussian else epsilon,
                alpha,
                log_likelihood_ratio,
            )
            hits, false_hits = event.count(zeros[start:end], ones[start:end])
        return event, (hits, false_hits, end - start)

    def bound_of(stages: list[_Counts], level: float) -> tuple[float, float]:
        """Lower bounds on the parameter of the claim, and on epsilon."""
        bound = certified_bound(stages, claim, level)
        return bound, epsilon_of_mu(bound, delta) if gaussian else bound

    arms: _TwoArms = []
    stages: list[_Counts] = []
    for looks_left, (start, end) in zip(
        reversed(range(len(starts))), pairwise([*starts, n_trials]), strict=True
    ):
        n = end if early_stopping else n_trials
        arms = _extended(arms, n, mechanism, (x, x_neighbour), batched)
        event, counts = stage(arms, start, end)
        stages.append(counts)
        if not early_stopping and end < n_trials:
            continue
        # The last look spends half of the error, and so on backwards.
        share = 0.5 ** min(looks_left + 1, len(starts) - 1)
        bound, lower = bound_of(stages, alpha * share if early_stopping else alpha)
        if epsilon is not None and lower > epsilon:
            break
    finding = ""
    if _are_constant(*arms):
        finding = _NO_NOISE
    elif epsilon is not None and lower > epsilon:
        rounded = _rounded(arms, starts[0])
        ends = pairwise([*(n for n in starts if n < end), end])
        again = [stage(rounded, *one)[1] for one in ends]
        finding = _finding(bound_of(again, alpha)[1], epsilon)
    hits, false_hits, n_counted = counts
    return AuditReport(
        epsilon_lower=lower,
        mu_lower=bound if gaussian else None,
        confidence=confidence,
        delta=delta,
        claimed=epsilon,
        event=f"{event} ({hits} of {n_counted} against {false_hits})",
        n_trials=end,
        finding=finding,
    )


def _rounded(arms: _TwoArms, n_learning: int) -> _TwoArms:
    """Outputs on a grid that is too coarse for the last bits of floating point.

    Rounding is post-processing: what still tells the inputs apart is the distribution.
    Each number of an output has a grid of its own, a power of two below a 64th of the
    interquartile range of its first values. A number that hardly varies is kept.
    """
    learned = np.concatenate([arm[:n_learning] for arm in arms])
    spread = np.subtract(*np.quantile(learned, [0.75, 0.25], axis=0))
    varies = spread > 0
    step = np.exp2(np.floor(np.log2(np.where(varies, spread, 1.0) / _GRID)))
    return [np.where(varies, np.round(arm / step) * step, arm) for arm in arms]


def _finding(rounded: float, claimed: float) -> str:
    """What is wrong, from the bound that rounded outputs prove."""
    if rounded > claimed:
        return (
            f"outputs on the two inputs differ more than the claim admits, also when "
            f"they are rounded (at least {shown_below(rounded)}): the scale of the "
            f"noise is wrong"
        )
    return (
        f"the evidence lies in exact or low-order values and vanishes when outputs are "
        f"rounded (to at least {shown_below(rounded)}, which the claim admits): noise "
        f"in floating point, or outputs that equal inputs"
    )


def _are_constant(*arms: NDArray[np.float64]) -> bool:
    """Whether each input always gave the same output, so that no noise was added."""
    return all(np.array_equal(arm, np.broadcast_to(arm[0], arm.shape)) for arm in arms)


def _are_equal(x: object, x_neighbour: object) -> bool:
    """Whether two inputs are surely equal: arrays of numbers, or tuples of them."""
    if isinstance(x, tuple) and isinstance(x_neighbour, tuple):
        pairs = zip(x, x_neighbour, strict=False)
        return len(x) == len(x_neighbour) and all(_are_equal(*pair) for pair in pairs)
    if x is x_neighbour:
        return True
    try:
        one, other = np.asarray(x, dtype=float), np.asarray(x_neighbour, dtype=float)
    except (TypeError, ValueError):
        return False
    return one.shape == other.shape and bool(np.array_equal(one, other, equal_nan=True))


def _chosen_event(
    arms: _TwoArms,
    inputs: tuple[Any, Any],
    claim: Pure | Gaussian,
    parameter: float | None,
    alpha: float,
    log_likelihood_ratio: Callable[[Any], Any] | None,
) -> _Event:
    """The event that tells these outputs apart best.

    Scores are fitted to each half of the outputs and compared on the other half. The
    event uses the mean of the two.
    """
    if log_likelihood_ratio is not None:
        known = Score("log likelihood ratio", log_likelihood_ratio)
        values = [(known, known(arms[0]), known(arms[1]))]
        return _best_event(values, claim, parameter, alpha)[0]
    half = len(arms[0]) // 2
    x, x_neighbour = _as_vectors(*inputs, arms[0].shape[1])
    first, second = (
        {score.name: score for score in candidate_scores(zeros, ones, x, x_neighbour)}
        for zeros, ones in zip(*((arm[:half], arm[half:]) for arm in arms), strict=True)
    )
    values = []
    for name in [name for name in first if name in second]:
        zeros, ones = (
            np.concatenate([second[name](arm[:half]), first[name](arm[half:])])
            for arm in arms
        )
        values.append((mean_score(first[name], second[name]), zeros, ones))
    event, share = _best_event(values, claim, parameter, alpha)
    # The mean of two scores varies less than one score. So keep the share of the
    # outputs above the threshold, not the threshold.
    means = np.sort(event.score(np.concatenate(arms)))
    n_below = min(max(round((1 - share) * len(means)), 1), len(means) - 1)
    threshold = means[n_below]
    if not event.above:
        # Outputs below the threshold include all that share the last of these values.
        first_above = np.searchsorted(means, means[n_below - 1], side="right")
        threshold = np.append(means, np.inf)[first_above]
    return _Event(event.score, threshold, event.above, event.swapped)


def _extended(
    arms: _TwoArms,
    n: int,
    mechanism: Callable[..., Any],
    inputs: tuple[Any, Any],
    batched: bool,
) -> _TwoArms:
    """These outputs on each of the two inputs, and further ones up to n in all."""
    have = len(arms[0]) if arms else 0
    if n == have:
        return arms
    new = [_outputs(mechanism, x, n - have, batched) for x in inputs]
    if new[0].shape[1] != new[1].shape[1]:
        raise ValueError(
            "The outputs of `mechanism` on the two inputs differ in size; all must "
            "have the same size."
        )
    if not arms:
        return new
    return [np.concatenate(pair) for pair in zip(arms, new, strict=True)]


def audit_estimator(
    estimator: BaseEstimator,
    X: object,
    X_neighbour: object,
    y: object = None,
    y_neighbour: object = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    n_trials: int = 1000,
    release: Callable[[Any], ArrayLike] | None = None,
    random_state: int | None = None,
    **options: Any,
) -> AuditReport:
    """Lower bound on the epsilon of an estimator, from everything that it releases.

    Every trial fits a clone. A transformer (`y` is None) releases the output of its
    `transform`. Any other estimator releases all numbers that a pickle would carry:
    those in all its attributes, with or without a leading underscore, except its
    parameters.

    Parameters
    ----------
    estimator : estimator
        Estimator with a parameter ``random_state``.
    X, X_neighbour : array-like
        Inputs of two neighbouring data sets.
    y, y_neighbour : array-like, default=None
        Targets of the two data sets, if any; `y_neighbour` is `y` by default.
    epsilon, delta : float, default=None
        The claim; by default that of the fitted ``privacy_guarantee_``.
    n_trials : int, default=1000
        Number of fits on each data set.
    release : callable, default=None
        Maps a fitted estimator to the numbers that it releases.
    random_state : int, default=None
        Makes the audit reproducible: trial t gets the seed ``random_state`` + t.
    **options
        Passed to `audit_mechanism`.

    Returns
    -------
    report : AuditReport

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.audit import audit_estimator
    >>> from sktensordp.completion import CPCompletion
    >>> X = [[0, 0], [1, 1]]
    >>> model = CPCompletion(rank=0, epsilon=1.0, value_bounds=(0, 1), max_iter=1)
    >>> report = audit_estimator(model, X, X, [0, 0.5], [1, 0.5], n_trials=50,
    ...                          random_state=0)
    >>> report.violated
    False
    """
    from sklearn.base import clone

    if "random_state" not in estimator.get_params(deep=False):
        raise ValueError(
            "audit_estimator needs an estimator with a parameter `random_state`. Add "
            "one, or use audit_mechanism."
        )
    y_neighbour = y if y_neighbour is None else y_neighbour
    seeds = iter(range(random_state, 2**62)) if random_state is not None else None

    def fit(data: tuple[object, object]) -> BaseEstimator:
        model = on_its_own(clone(estimator))
        model.set_params(random_state=None if seeds is None else next(seeds))
        return model.fit(data[0]) if data[1] is None else model.fit(*data)

    def run(data: tuple[object, object]) -> ArrayLike:
        model = fit(data)
        if release is not None:
            return release(model)
        return model.transform(data[0]) if data[1] is None else _released(model)

    if epsilon is None:
        guarantee = fit((X, y)).privacy_guarantee_
        epsilon = guarantee.epsilon
        delta = guarantee.delta if delta is None else delta
    return audit_mechanism(
        run,
        (X, y),
        (X_neighbour, y_neighbour),
        epsilon=epsilon,
        delta=delta or 0.0,
        n_trials=n_trials,
        **options,
    )


def _released(estimator: BaseEstimator) -> np.ndarray:
    """All numbers in the attributes of an estimator, except its parameters."""
    names = sorted(set(vars(estimator)) - set(estimator.get_params(deep=False)))
    return _numbers([getattr(estimator, name) for name in names])


@dataclass(frozen=True)
class _Event:
    """A threshold on a score, in one of four directions."""

    score: Score
    threshold: float
    above: bool
    swapped: bool

    def count(
        self, zeros: NDArray[np.float64], ones: NDArray[np.float64]
    ) -> tuple[int, ...]:
        """How often the event happened in the arm that favours it, and in the other."""
        counts = [
            int(np.sum((self.score(arm) >= self.threshold) == self.above))
            for arm in (ones, zeros)
        ]
        return tuple(reversed(counts)) if self.swapped else tuple(counts)

    def __str__(self) -> str:
        sign = ">=" if self.above else "<"
        return f"{self.score.name} {sign} {self.threshold:.6g}"


def _best_event(
    values: Sequence[tuple[Score, NDArray[np.float64], NDArray[np.float64]]],
    claim: Pure | Gaussian,
    parameter: float | None,
    alpha: float,
) -> tuple[_Event, float]:
    """The event that refutes most, and the share of outputs above its threshold.

    That is the event with the largest bound. If no bound exceeds the claimed parameter,
    it is the event with the most evidence against the claim, from its counts and
    smoothed counts together.
    """
    n = len(values[0][1])
    events: list[tuple[_Event, float]] = []
    counts: list[NDArray[np.float64]] = []
    for score, *unsorted in values:
        arms = [np.sort(arm) for arm in unsorted]
        both = np.unique(np.concatenate(arms))
        if len(both) > 400:
            both = np.unique(np.quantile(np.concatenate(arms), _QUANTILES))
        zero, one = (n - np.searchsorted(arm, both, side="left") for arm in arms)
        shares = (zero + one) / (2 * n)
        above = np.stack([zero, one, *_smoothed(zero, one)])
        for is_above in (True, False):
            found = above if is_above else n - above
            for swapped in (False, True):
                counts.append(found[[0, 1, 2, 3] if swapped else [1, 0, 3, 2]])
                events += [
                    (_Event(score, threshold, is_above, swapped), share)
                    for threshold, share in zip(both, shares, strict=True)
                ]
    hits, false_hits, smooth_hits, smooth_false = np.concatenate(counts, axis=1)
    # The best of many events owes something to chance, so each must prove more.
    bounds = quick_bound(hits, false_hits, n, claim, alpha / 100)
    best = int(np.argmax(bounds))
    if parameter is None or bounds[best] > parameter:
        parameter = float(bounds[best])
    evidence = claim.evidence(hits, false_hits, n, parameter)
    evidence += claim.evidence(smooth_hits, smooth_false, n, parameter)
    strongest = int(np.argmax(evidence))
    if bounds[best] > 0 and evidence[strongest] <= 1:
        return events[best]
    return events[strongest]


def _smoothed(
    zero: NDArray[np.int_], one: NDArray[np.int_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Counts above each threshold, smoothed by a model of two parameters.

    The model is a logistic regression on log u and log(1 - u), where u is the rank of a
    score among all outputs. Unlike the counts themselves, it is hardly affected by
    chance.
    """
    from sklearn.linear_model import LogisticRegression

    if zero[0] < _LEAST_SMOOTHED:
        return zero.astype(float), one.astype(float)
    bins = -np.diff(np.stack([zero, one]), axis=1, append=0)
    total = bins.sum(axis=0)
    rank = (np.cumsum(total) - total / 2 + 0.5) / (total.sum() + 1)
    X = np.column_stack([np.log(rank), np.log1p(-rank)])
    labels = np.repeat([0, 1], len(rank))
    model = LogisticRegression().fit(np.tile(X, (2, 1)), labels, bins.ravel())
    chance = model.predict_proba(X)[:, 1]
    ones = np.cumsum((total * chance)[::-1])[::-1]
    return np.maximum(zero + one - ones, 0.0), ones


def _outputs(
    mechanism: Callable[..., Any], x: object, n_trials: int, batched: bool
) -> NDArray[np.float64]:
    """Outputs of the runs, one flattened output per row."""
    if batched:
        runs = np.asarray(mechanism(np.asarray(x, dtype=float), n_trials), dtype=float)
        if len(runs) != n_trials:
            raise ValueError(
                f"`mechanism` returned {len(runs)} rows for a batch of {n_trials} "
                f"outputs; it must return one row per output."
            )
        return _checked(runs.reshape(n_trials, -1))
    rows = [_numbers(mechanism(x)) for _ in range(n_trials)]
    if len({row.size for row in rows}) > 1:
        raise ValueError(
            "The outputs of `mechanism` differ in size from run to run; all must have "
            "the same size."
        )
    return _checked(np.stack(rows))


def _checked(runs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Check that outputs are not empty, and that all their numbers are finite."""
    if not runs.shape[1]:
        raise ValueError(
            "`mechanism` returned no numbers. Return at least one for each run, and "
            "encode categories, such as yes as 1 and no as 0."
        )
    if not np.isfinite(runs).all():
        raise ValueError(
            "Some outputs of `mechanism` are NaN or infinite. Return a number in their "
            "place that is no other output, such as -1000 for no answer."
        )
    return runs


def _numbers(value: object) -> NDArray[np.float64]:
    """All numbers in a value, one after another, also inside containers."""
    if isinstance(value, (str, bytes)) or value is None:
        return np.empty(0)
    if hasattr(value, "factors") and hasattr(value, "weights"):
        value = [value.weights, *value.factors]
    elif is_dataclass(value):
        value = [getattr(value, field.name) for field in fields(value)]
    elif isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return np.concatenate([*(_numbers(v) for v in value), []])
    try:
        return np.asarray(value, dtype=float).ravel()
    except (TypeError, ValueError):
        return np.empty(0)


def _as_vectors(
    x: object, x_neighbour: object, size: int
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """The inputs as vectors, repeated to the size of an output.

    None unless they are numeric, different, and their size divides that of an output.
    """
    try:
        old, new = (np.asarray(v, dtype=float).ravel() for v in (x, x_neighbour))
    except (TypeError, ValueError):
        return None, None
    if not old.size or size % old.size or new.size != old.size:
        return None, None
    if np.array_equal(old, new):
        return None, None
    return np.tile(old, size // old.size), np.tile(new, size // old.size)


def _check(
    epsilon: float | None, delta: float, n_trials: int, confidence: float
) -> None:
    if epsilon is not None and not epsilon >= 0:
        raise ValueError(f"epsilon must be >= 0, got {epsilon}.")
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be in [0, 1), got {delta}.")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence}.")
    if not isinstance(n_trials, Integral):
        raise TypeError(f"n_trials must be an integer, got {n_trials!r}.")
    if n_trials < 40:
        raise ValueError(f"n_trials must be at least 40, got {n_trials}.")
