"""Every estimator, its methods that take data, and what they may be passed."""

import copy
import functools
import math
import warnings
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from numbers import Real

import numpy as np
from hypothesis import strategies as st
from sklearn.base import clone

from sktensordp import mechanisms
from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    Recommender,
    TuckerCompletion,
)
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.papers import (
    BiScaler,
    PublishedCPCompletion,
    PublishedTensorRandomizedResponse,
)
from tests.support.every_estimator import (
    CASES,
    LEVELS,
    MATRICES,
    RANGE,
    ROWS,
    TASK,
    USERS,
    VALUES,
    WHERE,
)
from tests.support.generated import Argument, coordinates, forms, ids, numbers, shapes
from tests.support.seams import on_its_own

SHAPE = (4, 3)
TENSOR = np.where(np.eye(*SHAPE) == 1, np.nan, np.linspace(0, 1, 12).reshape(SHAPE))
TIMES = np.array([["ann", 1, 0], ["bob", 2, 90000], ["bob", 1, 5]], dtype=object)

PAIR = "coordinates", "values"
METHODS = {
    "entries": {
        **dict.fromkeys(["fit", "fit_batches", "partial_fit", "fold_in"], PAIR),
        **dict.fromkeys(["score", "scale_values", "unscale_values"], PAIR),
        **dict.fromkeys(["predict", "predict, std"], PAIR[:1]),
        "recommend": ("units",),
    },
    "choices": {
        **dict.fromkeys(["fit", "fit_batches", "fold_in", "predict"], PAIR[:1]),
        "recommend": ("units",),
    },
    "tensor": dict.fromkeys(
        ["fit", "fit_transform", "transform", "inverse_transform"], ("tensor",)
    ),
    "ids": dict.fromkeys(["fit", "partial_fit", "transform"], ("ids",)),
    "people": {
        **dict.fromkeys(["fit", "transform", "fit_transform", "score"], ("samples",)),
        "get_feature_names_out": ("names",),
    },
    "samples": {
        **dict.fromkeys(["fit", "transform", "fit_transform"], ("samples",)),
        **dict.fromkeys(
            ["privatize", "client", "variance", "estimate_mean"], ("samples",)
        ),
        "fit to y": ("samples", "targets"),
        "decode": ("codes",),
        "get_feature_names_out": ("names",),
    },
}
# Forms of NaN and of infinity.
LIKE_NAN = {"NA", "None", "huge Decimal", "long double", "signalling"}
FITS = {"fit", "fit_batches", "partial_fit", "fit_transform", "fit to y", "parameters"}
_ATTRIBUTES = {"predict, std": "predict", "fit to y": "fit", "estimate_mean": "fit"}

NAMES = [
    None, [], ["a"], ["a", "b", "c"], ["a", "b", "c", "d"], ("a", "b", "c"), "abc", 3,
    ["a", 1, None], [0, 1, 2], np.array(["a", "b", "c"]), [["a", "b", "c"]], object(),
]  # fmt: skip
WRONG_NUMBERS = [math.nan, -1, -1e-300, "1", "one", [1.0], 1j, {}]
_masked = np.ma.array([[1.0, 2.0, 3.0]], mask=[[1, 0, 0]])
MASKED = [_masked, [_masked], (_masked[0], 4.0), {1: _masked}]
ODD = [
    *WRONG_NUMBERS, math.inf, -math.inf, 0, 0.0, 1e-300, 1e-12, 1e-3, 0.5, 1, 2, 50,
    1e12, 1e300, 2**31, 2**64, 10**400, True, False, np.float64(2), np.float32(0.5),
    np.int64(1), np.bool_(True), Fraction(1, 2), Decimal("0.5"), None, "auto", b"x",
    [], [0], [0, 1], (1, 0), (0, 1), (0, 0), (0.0, math.nan), (0, math.inf), (2, 3, 4),
    (-1e300, 1e300), (0, 1e-300), (1e300, 1.1e300), (-1e-160, 1e-160), ("0", "1"),
    (0, None), ([0.0, 0.0, 0.0], 1), ([0, 0], [1, 1]), (np.zeros((4, 3)), 1), (4, 3),
    (4, 3.0), (3, 4), (0, 3), (2**40, 2**40), (-4, 3), [4], np.array([4, 3]),
    [[1.0, 0.0, 1.0]], [[1.0, math.nan, 1.0]], [[1e300] * 3], [[1e-300] * 3], [[]],
    [[0, 0, 0]], [[1, 2, 3], [1]], *MASKED,
    "gaussian", {0: np.ones((4, 2))}, {1: [[1.0]] * 3}, {5: [[1.0]]}, [None, None],
    range(3), object(),
]  # fmt: skip
# Parameters that are numbers, and those that say how long something takes.
NUMBERS = {
    "epsilon", "delta", "norm_bound", "sensitivity", "learning_rate", "gradient_clip",
    "regularization", "keep_probability", "scale",
}  # fmt: skip
COUNTS = {"max_iter", "n_pattern_components", "n_levels", "n_iter"}
WHOLE = {"rank", "unit", "n_components", "time_bins", "random_state"}
SCALARS = [value for value in ODD if isinstance(value, Real)]
LEFT_OUT = {"estimator", "param_distributions", "n_jobs", "cv", "scoring"}


@dataclass(frozen=True, eq=False)
class Subject:
    """An estimator, with data that suit it, and of which kind these are."""

    estimator: object
    data: tuple
    kind: str

    @property
    def name(self):
        return type(self.estimator).__name__

    def fresh(self, **params):
        found = on_its_own(clone(self.estimator))
        seeds = [name for name in found.get_params() if name.endswith("random_state")]
        return found.set_params(**dict.fromkeys(seeds, 0)).set_params(**params)

    @functools.cached_property
    def _fitted(self):
        with warnings.catch_warnings(action="ignore"):
            return self.fresh().fit(*self.data)

    def fitted(self):
        """A copy of the fitted estimator; what one releases, every copy does."""
        return copy.deepcopy(self._fitted)

    @functools.cached_property
    def methods(self):
        """Names of the methods that there are, with the roles of their arguments."""
        found = {
            name: roles
            for name, roles in METHODS[self.kind].items()
            if hasattr(self._fitted, _ATTRIBUTES.get(name, name))
        }
        if not hasattr(self._fitted, "residual_variance_"):
            found.pop("predict, std", None)
        if not isinstance(self.estimator, mechanisms.LaplaceMechanism):
            found.pop("estimate_mean", None)
        if self.kind == "people" and len(self.data) == 2:
            for name in found.keys() & {"fit", "score"}:
                found[name] = "samples", "targets"
        return found

    @property
    def reads_in_fit(self):
        """Whether `fit` reads the samples, or their shape alone."""
        return (
            self.kind == "people"
            or hasattr(self.estimator, "task")
            or math.isinf(self.estimator.epsilon)
            or not self.estimator._is_declared()
        )


def _subjects():
    kinds = {"values": "entries", "users": "entries"}
    for case in CASES:
        # Rows that are counted may hold anything: tests/counts/test_tables.py.
        if case.private == "rows":
            continue
        estimator = clone(case.estimator)
        if "max_iter" in estimator.get_params(deep=False):
            estimator.set_params(max_iter=1)
        yield Subject(estimator, case.data, kinds.get(case.private, case.private))
    inf, low = math.inf, np.zeros(3)
    cp = functools.partial(CPCompletion, max_iter=1)
    tucker = functools.partial(TuckerCompletion, max_iter=1)
    for data, kind, estimators in [
        ((WHERE, VALUES), "entries", [
            cp(1, epsilon=inf), cp(0, epsilon=100.0), tucker(1, epsilon=inf, **RANGE),
            cp(1, epsilon=inf, unit=0), cp(1, epsilon=inf, perturbation="gradient"),
            PublishedCPCompletion(1, learning_rate=1e-5, max_iter=1, **RANGE),
            cp(1, shape=SHAPE, smooth_modes=[1], **LEVELS),
            BiScaler(), BiScaler(inf), BiScaler(2.0, shape=SHAPE, **RANGE),
        ]),
        ((TENSOR,), "tensor", [
            cp(1, **RANGE), cp(0, epsilon=inf), tucker(1, **LEVELS), cp(1, **USERS),
            BiScaler(1.0, **RANGE), BiScaler(inf),
        ]),
        ((ROWS,), "samples", [
            mechanisms.LaplaceMechanism(inf, bounds=(-1, 2)),
            mechanisms.LaplaceMechanism(),
            mechanisms.LaplaceMechanism(sensitivity=2.0),
            mechanisms.GaussianMechanism(inf, norm_bound=2.0),
            mechanisms.GaussianMechanism(bounds=(low, [1, 2, 3]), norm_bound=3.0),
            mechanisms.GaussianMechanism(bounds=(0, 1e-100), calibration="classic"),
            mechanisms.TensorVariateGaussian(sensitivity=1.0, tensor_shape=(3,)),
            mechanisms.HybridMechanism(inf, bounds=(0, 1e100)),
            mechanisms.PrivUnit(norm_bound=1e10),
            mechanisms.TensorRandomizedResponse(
                bounds=(low, low + 1), noise="geometric"
            ),
            PublishedTensorRandomizedResponse(bounds=(0, 1)),
            TaskAwareEncoder(inf), TaskAwareEncoder(output="code", **TASK),
        ]),
        ((MATRICES,), "samples", [
            mechanisms.TensorVariateGaussian(
                bounds=(0, 1), utility=[[1, 2, 3], [1, 2]]
            ),
        ]),
        ((TIMES,), "ids", [
            CoordinateEncoder(freq="D"), CoordinateEncoder(freq="M"),
            CoordinateEncoder(time_bins=2),
        ]),
    ]:  # fmt: skip
        yield from (Subject(estimator, data, kind) for estimator in estimators)


SUBJECTS = list(_subjects())


@dataclass(frozen=True)
class Input:
    """A call: a method, what it is passed, and parameters that are set before.

    `fresh` says whether the estimator is a new one, or one that has been fitted.
    """

    subject: Subject
    method: str
    arguments: tuple
    params: dict = field(default_factory=dict)
    fresh: bool = False

    def estimator(self):
        if self.fresh:
            return self.subject.fresh(**self.params)
        return self.subject.fitted()

    def __repr__(self):
        given = [f"{a.form}: {a.given!r} (for {a.plain!r})" for a in self.arguments]
        state = "fresh" if self.fresh else "fitted"
        passed = self.params or "; ".join(given)
        return f"{state} {self.subject.estimator} .{self.method}({passed})"


@st.composite
def inputs(draw, subject):
    """A method of an estimator with what it may be passed."""
    method = draw(st.sampled_from(["parameters", *sorted(subject.methods)]))
    if method == "parameters":
        return draw(_parameters(subject))
    roles = subject.methods[method]
    fresh = method in FITS - {"partial_fit"}
    if method == "partial_fit":
        fresh = draw(st.booleans())
    return Input(subject, method, draw(_arguments(subject, roles)), fresh=fresh)


@st.composite
def _arguments(draw, subject, roles):
    role, usual = roles[0], subject.data[0].shape
    if role == "names":
        names = draw(st.sampled_from(NAMES))
        return (Argument(names, names, "names"),)
    if role == "ids":
        return (draw(ids(usual[1])),)
    if role == "tensor":
        tensor = draw(numbers(draw(shapes(SHAPE))))
        if draw(st.booleans()):
            tensor = np.where(np.isinf(tensor), np.nan, tensor)
        return (draw(forms(tensor)),)
    if role in ("samples", "codes"):
        if role == "codes":
            usual = len(usual), subject._fitted.n_components_
        first = draw(numbers(draw(shapes(usual))))
    else:
        first = draw(coordinates(2))
        if role == "units" and first.shape[1]:
            first = first[:, 0]
    # At most one of two is spoilt: an error is then about that one.
    spoilt = draw(st.integers(0, 3))
    found = [draw(forms(first, spoil=spoilt == 0))]
    if len(roles) == 2:
        length = len(first) if first.ndim else 3
        if draw(st.integers(0, 9)) == 0:
            length = draw(st.integers(0, 8))
        found.append(draw(forms(draw(numbers((length,))), spoil=spoilt == 1)))
    return tuple(found)


@st.composite
def _parameters(draw, subject):
    """Parameters of a fit to good data, one or two of them odd."""
    names = sorted(subject.estimator.get_params(deep=False).keys() - LEFT_OUT)
    params = {}
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(names))
        scalar = name in NUMBERS | COUNTS | WHOLE
        value = draw(st.sampled_from(SCALARS if scalar else ODD))
        too_long = isinstance(value, int | float) and value > 100
        params[name] = 3 if name in COUNTS and too_long else value
    arguments = tuple(Argument(data, data, "plain") for data in subject.data)
    return Input(subject, "parameters", arguments, params, fresh=True)


def must_be_refused(case):
    """Why no answer to an input is right, or None if there may be one."""
    subject, method, arguments = case.subject, case.method, case.arguments
    for name, value in case.params.items():
        if name in NUMBERS and any(value is wrong for wrong in WRONG_NUMBERS):
            return f"{name} is {value!r}"
        if any(value is masked for masked in MASKED):
            return f"{name} is masked"
    if method in ("parameters", "get_feature_names_out"):
        return None
    if (
        subject.kind == "tensor"
        and method == "transform"
        and subject.name != "BiScaler"
    ):
        # It reads the shape alone.
        return None
    for argument in arguments:
        if argument.plain is None and not _may_be_spoilt(case, argument):
            return f"{argument.form} is no array of numbers"
    if subject.kind == "ids" or any(a.plain is None for a in arguments):
        return None
    is_table = isinstance(subject.estimator, Recommender)
    refusal = _refused_table if is_table else _REFUSALS[subject.kind]
    found = refusal(case, *(argument.plain for argument in arguments))
    # A client of an encoder answers of every sample.
    is_answered = method == "client" and subject.kind == "samples"
    return None if is_answered and found == "samples are not finite" else found


def _may_be_spoilt(case, argument):
    kind, method = case.subject.kind, case.method
    if method == "fit to y" and argument is case.arguments[1]:
        # Labels, or nothing to a mechanism.
        return True
    if method == "fit" and argument.form == "nothing":
        # Without y, X is a tensor.
        return argument is not case.arguments[0]
    is_table = isinstance(case.subject.estimator, Recommender)
    if kind == "ids" or (is_table and argument is case.arguments[0]):
        return "masked" not in argument.form
    if kind == "tensor":
        return argument.form == "None"
    if kind == "samples" and method in FITS and not case.subject.reads_in_fit:
        return argument.form in LIKE_NAN
    return False


def _refused_entries(case, X, y=None):
    estimator, method = case.subject.estimator, case.method
    cells = X.reshape(-1, 1) if method == "recommend" else X
    protects_units = isinstance(getattr(estimator, "unit", None), int)
    # A batch without rows needs no columns.
    is_empty = X.shape == (0, len(SHAPE)) or (
        method == "fit_batches" and X.ndim > 0 and not len(X)
    )
    if y is not None and is_empty and protects_units:
        # The tensor's only unit may be missing.
        return "there are values without entries" if len(y) else None
    is_request = method.startswith(("predict", "recommend"))
    asks_nothing = (0,) if method == "recommend" else (0, len(SHAPE))
    if is_request and X.shape == asks_nothing and not isinstance(estimator, BiScaler):
        # Nothing is the answer.
        return None
    if cells.ndim != 2 or not cells.size:
        return "there are no coordinates"
    takes_unknown = method not in FITS | {"fold_in"}
    whole = (cells == np.rint(cells)) & (cells < 2**31 - 1)
    if not np.all(whole & (cells >= (-1 if takes_unknown else 0))):
        return "coordinates are no indices"
    shape = getattr(estimator, "shape", None)
    if shape is not None or not (case.fresh or method == "partial_fit"):
        width = 1 if method == "recommend" else len(SHAPE)
        # Beyond a shape that was read off coordinates, indices are unknown. Users of
        # entries who are folded in are new.
        is_asked = is_request or method == "score"
        is_inside = cells[:, :width] < SHAPE[:width]
        if not isinstance(estimator, BiScaler) and shape is None and is_asked:
            is_inside[:] = True
        elif method == "fold_in" and not protects_units:
            is_inside[:, 0] = True
        if cells.shape[1] != width or not np.all(is_inside):
            return "coordinates are outside the tensor"
    if y is not None and not (len(y) == len(X) and np.all(np.isfinite(y))):
        return "there is not a finite value for every entry"
    return None


def _refused_choices(case, X):
    if case.method in ("fit", "fit_batches", "fold_in") and X.shape == (0, 2):
        # Nobody chose anything.
        return None
    return _refused_entries(case, X)


def _refused_table(case, X, y=None):
    """Of ids, which may be any numbers; but at a unit, all that is not known goes."""
    protects_users = case.subject.estimator.completion.unit == 0
    if case.method == "recommend":
        is_answered = X.shape == (0,) or (X.size and not np.any(np.isnan(X)))
        return None if is_answered else "there are no users"
    if X.ndim != 2 or not (X.size or protects_users):
        return "it is no table"
    if X.shape[1] < 2 or (protects_users and X.shape[1] != 2):
        return "it lacks users or items"
    if np.any(np.isnan(X)):
        return "ids are missing"
    if y is not None and len(y) != len(X):
        return "there is not a value for every row"
    if y is not None and not (protects_users or np.all(np.isfinite(y))):
        return "values are not finite"
    return None


def _refused_tensor(case, X):
    if X.ndim < 2 or not X.size or np.any(np.isinf(X)):
        return "it is no tensor of numbers"
    if not case.fresh and X.shape != SHAPE:
        return "it has another shape"
    return None


def _refused_samples(case, X, *_):
    if X.ndim < 2 or not X.size:
        return "there are no samples"
    reads = case.method not in FITS - {"fit_transform"} or case.subject.reads_in_fit
    if reads and not np.all(np.isfinite(X)):
        return "samples are not finite"
    return None


_REFUSALS = {
    "choices": _refused_choices,
    "entries": _refused_entries,
    "tensor": _refused_tensor,
    "samples": _refused_samples,
    "people": _refused_samples,
}
