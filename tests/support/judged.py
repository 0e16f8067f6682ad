"""What is right for a generated input: an answer that holds, or a clear refusal."""

import contextlib
import linecache
import math
import pickle
import re
import warnings
from collections import Counter

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from sklearn.base import is_classifier
from sklearn.exceptions import (
    DataConversionWarning,
    NotFittedError,
    UndefinedMetricWarning,
)

from sktensordp.completion import Recommender
from sktensordp.exceptions import (
    AveragesOnlyWarning,
    BudgetExceededError,
    PrivacyLeakWarning,
    UnsoundClaimWarning,
)
from sktensordp.mechanisms import estimate_mean
from sktensordp.papers import BiScaler
from tests.support.budgets import recording
from tests.support.callers import SHAPE, inputs, must_be_refused
from tests.support.generated import SHOWN
from tests.support.noise import taking

MEAN_BOUNDS = -1.0, 2.0
USUAL_WARNINGS = (
    AveragesOnlyWarning,
    PrivacyLeakWarning,
    UnsoundClaimWarning,
    DataConversionWarning,
    UndefinedMetricWarning,
)
ALLOWED = ValueError, TypeError, NotFittedError, BudgetExceededError, AttributeError
# A fit that takes long, and says so, ends there.
ALLOWED += (UserWarning,)
TAKES_LONG = "Most indices of column"
# Of NumPy, pandas and scikit-learn, on arrays of other things, a sparse frame, and
# names that are no list. They show types alone.
CLEAR = re.compile(
    "setting an array element with a sequence|must be a string or a real number"
    rf"|fill value must be 0|len\(\) of unsized object|{TAKES_LONG}"
)


def tried(subject, first, size):
    """Inputs for an estimator that follow from a seed, and how each was met.

    Parameters
    ----------
    subject : Subject
    first : int
        The seed.
    size : int
        Number of inputs.

    Returns
    -------
    counts : Counter
        Of (name of the estimator, method, how it was met).
    unhandled : list of str
        Inputs that were met wrongly, and how.
    """
    counts, unhandled = Counter(), []

    @seed(first)
    @settings(
        max_examples=size,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs(subject))
    def try_one(drawn):
        met, wrong = verdict(drawn)
        counts[subject.name, drawn.method, "unhandled" if wrong else met] += 1
        if wrong:
            unhandled.append(f"{drawn!r}\n    {wrong}")

    try_one()
    return counts, unhandled


def verdict(case):
    """How an input was met, and what is wrong with that.

    Parameters
    ----------
    case : Input

    Returns
    -------
    met : str
        "answered", or the name of the error.
    wrong : str or None
        None where the answer, or the refusal, is right.
    """
    arguments = [argument.given for argument in case.arguments]
    before = [_state(argument) for argument in arguments]
    estimator, refusal = case.estimator(), must_be_refused(case)
    with _counted() as (counts, said):
        try:
            result = _call(case.method, estimator, arguments)
            outcome = _outcome(case, estimator, result)
        except Exception as error:
            wrong = _unclear(error, counts) or _shown(said)
            return type(error).__name__, wrong
        if wrong := _shown(said):
            return "answered", wrong
        if refusal:
            return "answered", f"although {refusal}: {str(outcome)[:300]}"
        for state, argument in zip(before, arguments, strict=True):
            if _state(argument) != state:
                return "answered", "the input was changed"
            if _is_shared(argument, result):
                return "answered", "the output is the input's memory"
        if any(argument.plain is None for argument in case.arguments):
            return "answered", None
        wrong = _wrong(case, estimator, outcome) or _unlike_plain(case, outcome)
    return "answered", wrong


def _call(method, estimator, given):
    if method in ("parameters", "fit to y"):
        return estimator.fit(*given)
    if method == "fit_batches":
        return estimator.fit_batches([given if len(given) > 1 else given[0]])
    if method == "predict, std":
        return estimator.predict(*given, return_std=True)
    if method == "recommend":
        return estimator.recommend(*given, k=2)
    if method == "client":
        return estimator.client(0).privatize(*given)
    if method == "estimate_mean":
        return vars(estimate_mean(*given, bounds=MEAN_BOUNDS))
    return getattr(estimator, method)(*given)


def _outcome(case, estimator, result):
    """What a caller gets: the output, or what a fit has published and predicts."""
    if result is not estimator:
        return result
    names = [name for name in vars(estimator) if name.endswith("_") and name[0] != "_"]
    found = {name: vars(estimator)[name] for name in names}
    found.pop("feature_names_in_", None)
    if case.method == "parameters" and hasattr(estimator, "transform"):
        found["transformed"] = estimator.transform(*case.subject.data[:1])
    takes_indices = not isinstance(estimator, Recommender)
    if (
        case.subject.kind == "entries"
        and hasattr(estimator, "predict")
        and takes_indices
    ):
        where = np.zeros((1, estimator.n_features_in_))
        found["predicted"] = estimator.predict(where)
    return found


@contextlib.contextmanager
def _counted():
    """Keys that are drawn, releases that are recorded, and usual warnings.

    Those are of the package, which blames its caller. Any other warning is an error.
    """
    with (
        taking() as keys,
        recording() as releases,
        warnings.catch_warnings(record=True) as said,
    ):
        warnings.simplefilter("error")
        warnings.filterwarnings("always", category=UserWarning, module=__name__)
        for usual in USUAL_WARNINGS:
            warnings.simplefilter("always", usual)
        warnings.filterwarnings("ignore", "X .*feature names")
        warnings.filterwarnings("error", TAKES_LONG)
        yield {"key": keys, "release": releases}, said


def _shown(said):
    """What is wrong with warnings, or None."""
    texts = (str(warning.message) for warning in said)
    shown = next(filter(SHOWN.search, texts), None)
    return None if shown is None else f"a warning shows a value: {shown}"


def _state(given):
    """What may not change in what is passed, if it can be told."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return pickle.dumps(np.asarray(given))
    except Exception:
        return None


def _is_shared(argument, result):
    arrays = isinstance(argument, np.ndarray) and isinstance(result, np.ndarray)
    return arrays and np.shares_memory(argument, result)


def _unclear(error, counts):
    """What is wrong with an error that a caller gets, or None."""
    kind, message, link = type(error).__name__, str(error), error
    if not isinstance(error, ALLOWED):
        return f"{kind} leaks: {message}"
    if not message:
        return "the error says nothing"
    while link is not None:
        if SHOWN.search(str(link)):
            return f"the error shows a value: {link}"
        link = link.__cause__ or link.__context__
    if any(counts.values()):
        seen = {name: len(those) for name, those in counts.items()}
        return f"{kind} after {seen}: {message}"
    trace = error.__traceback__
    while trace.tb_next:
        trace = trace.tb_next
    file = trace.tb_frame.f_code.co_filename
    line = linecache.getline(file, trace.tb_lineno).strip()
    known = "sktensordp/" in file or "/sklearn/" in file
    if not (known and line.startswith("raise")) and not CLEAR.search(message):
        return f"{kind} was not meant, at {file}: {line}: {message}"
    return None


def _wrong(case, estimator, outcome):
    """What is wrong with an answer of itself, or None."""
    subject, method, X = case.subject, case.method, case.arguments[0].plain
    if method == "get_feature_names_out":
        return None
    if method == "score":
        if len(case.arguments) < 2:  # of samples alone
            return None if math.isfinite(outcome) else "it is not finite"
        y = case.arguments[1].plain
        predicted = estimator.predict(X)
        if is_classifier(estimator):  # a label that is no class is never right
            right = float(np.mean(predicted == y))
            return None if outcome == right else f"the score {outcome} is {right}"
        return None if len(X) < 2 else _wrong_score(outcome, predicted, y)
    if method == "parameters" and hasattr(estimator, "privacy_guarantee_"):
        if found := _wrong_guarantee(estimator):
            return found
        outcome = {
            k: v for k, v in outcome.items() if k in ("predicted", "transformed")
        }
    if isinstance(estimator, BiScaler) and subject.kind == "tensor":
        outcome = _observed(outcome, X)
    if where := _not_finite(outcome):
        return f"not finite: {where}"
    if bounds := _bounds(method, estimator):
        low, high = bounds
        if np.any(outcome < low) or np.any(outcome > high):
            return "it is outside the bounds"
    if subject.kind == "samples" and method in ("transform", "fit_transform"):
        if outcome.dtype != X.dtype or len(outcome) != len(X):
            return f"{outcome.dtype} {outcome.shape} for {X.dtype} {X.shape}"
        if math.isinf(estimator.epsilon) and estimator.get_params().get("bounds"):
            clipped = np.clip(X, *estimator.bounds).astype(X.dtype)
            return None if np.array_equal(outcome, clipped) else "it is not clipped"
    return None


def _wrong_score(score, predicted, y):
    """Against the same in numbers of a longer range, where -inf is beyond floats."""
    predicted, y = np.ravel(predicted).astype(np.longdouble), y.astype(np.longdouble)
    missed, spread = np.sum((y - predicted) ** 2), np.sum((y - np.mean(y)) ** 2)
    if spread == 0 or np.ptp(y) <= 1e-12 * np.max(np.abs(y)):
        return None  # A convention, or rounding errors alone.
    right = float(1 - missed / spread)
    agree = score == right or math.isclose(score, right, rel_tol=1e-6, abs_tol=1e-6)
    return None if agree else f"the score {score} is {right}"


def _bounds(method, estimator):
    """What is promised of an output."""
    found = None
    if method in ("transform", "fit_transform", "predict", "scale_values"):
        found = getattr(estimator, "value_bounds_", None)
    if method in ("unscale_values", "inverse_transform"):
        found = estimator.value_bounds
    if method == "recommend" and not isinstance(estimator, Recommender):
        found = -1, SHAPE[1] - 1
    return found


def _observed(outcome, X):
    """An outcome without the NaN of what was not observed."""
    if isinstance(outcome, dict):
        return {k: v for k, v in outcome.items() if k != "transformed"}
    if isinstance(outcome, np.ndarray) and outcome.shape == X.shape:
        return outcome[~np.isnan(X)]
    return outcome


def _wrong_guarantee(estimator):
    guarantee, asked = (
        estimator.privacy_guarantee_,
        estimator.get_params().get("epsilon"),
    )
    if asked is None or math.isinf(asked):
        return None
    if math.isinf(guarantee.epsilon):
        said = guarantee.claimed is not None
        return None if said else "no epsilon holds, and nothing says why"
    # A published claim that is false stands beside what is true.
    is_claim = type(estimator).__module__.startswith("sktensordp.papers.")
    if is_claim and guarantee.claimed is not None:
        return None
    if guarantee.epsilon > asked * (1 + 1e-9):
        return f"epsilon = {guarantee.epsilon} where {asked} was asked for"
    return None


def _not_finite(outcome):
    """Name or place of the first number that is none, or None."""
    if isinstance(outcome, dict):
        # An encoder that clips nothing says that its radius is infinite.
        parts = [item for item in outcome.items() if item[0] != "clip_"]
    elif isinstance(outcome, list | tuple):
        parts = enumerate(outcome, 1)
    elif (
        isinstance(outcome, float)
        or getattr(outcome, "dtype", np.dtype(int)).kind == "f"
    ):
        return None if np.all(np.isfinite(outcome)) else "a number"
    else:
        return None
    return next((name for name, part in parts if _not_finite(part)), None)


def _unlike_plain(case, outcome):
    """What the same numbers in C order get, if that is something else."""
    # Ids and labels of another type are others.
    typed = case.subject.kind == "ids" or case.method == "fit to y"
    typed |= isinstance(case.subject.estimator, Recommender)
    if typed or all(argument.form == "plain" for argument in case.arguments):
        return None
    estimator, plain = case.estimator(), [a.plain for a in case.arguments]
    try:
        result = _call(case.method, estimator, plain)
    except Exception as error:
        return f"the plain array is refused: {error}"
    expected = _outcome(case, estimator, result)
    if _same(outcome, expected):
        return None
    return f"{str(outcome)[:300]} is not that of the plain array, {str(expected)[:300]}"


def _same(one, other):
    """Whether two outcomes are equal, bit for bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, np.ndarray):
        one, other = np.ascontiguousarray(one), np.ascontiguousarray(other)
        alike = one.dtype == other.dtype and one.shape == other.shape
        return alike and (one.dtype == object or one.tobytes() == other.tobytes())
    return not isinstance(one, float) or repr(one) == repr(other)
