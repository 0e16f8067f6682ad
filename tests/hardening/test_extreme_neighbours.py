"""What a release shows beside its numbers is the same for the most different data.

Exceptions, warnings, shapes, attributes, random words and, until the noise is drawn,
the very lines that run are compared between neighbours, with the same noise.
"""

import warnings
from itertools import cycle

import numpy as np
import pytest

from sktensordp.base import recorded_call
from sktensordp.completion import CPCompletion
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    PrivUnit,
    TensorRandomizedResponse,
    TensorVariateGaussian,
)
from sktensordp.papers import MatrixVariateGaussian
from tests.support.every_estimator import (
    BOX,
    MATRICES,
    ROWS,
    TASK,
    VALUED,
    VALUES,
    WHERE,
    Case,
    slow_repeats,
)
from tests.support.noise import constant_noise
from tests.support.points import POINTS, original
from tests.support.side_channels import (
    LARGEST,
    LEAST,
    databases,
    differences,
    observe,
    released,
)

pytestmark = pytest.mark.thorough
SLOW = pytest.mark.slow
TURNED = [[0.6, -0.8, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 1.0]]
OTHERS = {
    "ball": (LaplaceMechanism(norm_bound=1.0), ROWS),
    "ball and box": (GaussianMechanism(norm_bound=0.8, bounds=(0.1, 1)), ROWS),
    "vouched for": (GaussianMechanism(sensitivity=1.0), ROWS),
    "vouched for, pure": (LaplaceMechanism(sensitivity=1.0), ROWS),
    "ranges": (LaplaceMechanism(bounds=([-1e9, 0, 0], [1, 1e-9, 1])), ROWS),
    "turned": (
        TensorVariateGaussian(
            bounds=(0, 1), utility=[TURNED, None], directions=[TURNED, None]
        ),
        MATRICES,
    ),
    "correlated": (
        MatrixVariateGaussian(
            row_covariance=np.eye(3) + 0.5, norm_bound=1.0
        ),
        MATRICES,
    ),
    "geometric": (
        TensorRandomizedResponse(bounds=(0, 1), noise="geometric", n_levels=50), ROWS
    ),
    "weights": (TensorRandomizedResponse(**BOX, weights=[0, 0.2, 0.4]), ROWS),
    "direction in a ball": (PrivUnit(norm_bound=1.0), ROWS),
    "code in a ball": (TaskAwareEncoder(mechanism="l2", output="code", **TASK), ROWS),
    "code on a sphere": (TaskAwareEncoder(mechanism="privunit", **TASK), ROWS),
}  # fmt: skip
MORE = [
    pytest.param(Case(estimator, (X,), "samples", label), id=label, marks=SLOW)
    for label, (estimator, X) in OTHERS.items()
]
UNIT = {"value_bounds": (0, 1)}
MORE += [
    pytest.param(
        Case(estimator, (WHERE, VALUES), "values", label), id=label, marks=SLOW
    )
    for label, estimator in {
        "levels": CPCompletion(
            0, levels=np.linspace(0, 1, 41), perturbation="input", max_iter=2
        ),
        "smooth": CPCompletion(
            0, smooth_modes=[0], perturbation="input", max_iter=2, **UNIT
        ),
        "no biases": CPCompletion(1, biases=False, perturbation="statistics", **UNIT),
    }.items()
]


ALL = [*VALUED, *MORE]


def with_others(cases, others):
    """Cases, each with one of the others, in turn."""
    return [
        pytest.param(*case.values, other, id=f"{case.id}, {other}", marks=case.marks)
        for case, other in zip(cases, cycle(others), strict=False)
    ]


@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        *with_others(slow_repeats(ALL), ["f8"]),
        *with_others(slow_repeats(ALL)[::4], ["f4"]),
    ],
)
def test_neighbours_look_alike(case, dtype):
    assert not differences(released(case), databases(case, dtype))


@pytest.mark.parametrize(
    ("case", "noise"), with_others(slow_repeats(ALL[1::3]), [1.0, -1.0])
)
def test_neighbours_look_alike_with_the_most_extreme_noise(case, noise):
    """The highest, and the lowest."""
    with constant_noise(noise):
        assert not differences(released(case), databases(case))


@pytest.mark.slow
def test_a_user_with_a_million_times_the_same_entry():
    def fitted(data):
        return CPCompletion(
            1, unit=0, shape=(4, 3), value_bounds=(0, 1), perturbation="statistics",
            random_state=0,
        ).fit(*data)  # fmt: skip

    rest = WHERE[:, 0] != 2
    where = np.concatenate([WHERE[rest], np.repeat(WHERE[7:8], 10**6, axis=0)])
    values = np.concatenate([VALUES[rest], np.resize([1.0, LARGEST], 10**6)])

    def seen(data):
        shown = observe(lambda: (lambda m: (m, m.predict(WHERE)))(fitted(data)))
        # More than half a million entries are worked on in parts.
        return {part: shown[part] for part in shown if part != "path"}

    assert seen((where, values)) == seen((WHERE[rest], VALUES[rest]))


# Numbers that no float holds are refused, and alike, but for labels: they are none of
# the declared classes.
NUMBERS = [p for p in VALUED if "Classifier" not in p.values[0].label]


@pytest.mark.parametrize("case", slow_repeats(NUMBERS))
def test_an_integer_beyond_floats_is_an_error_that_does_not_show_it(case):
    number, (X, *y) = 10**400, case.data
    if y:
        y = [np.array([number, *VALUES[1 : len(X)]], dtype=object)]
        model, release = case.fresh(), "fit"
    else:
        model, release = case.fresh().fit(X), "transform"
        X = X.astype(object)
        X.flat[0] = number
    with pytest.raises(ValueError, match="must hold numbers") as caught:
        getattr(model, release)(X, *y)
    assert "000" not in str(caught.value)


@pytest.mark.parametrize(("low", "high"), [(0, 1e51), (-1e300, 1e300), (0, 1e-310)])
@pytest.mark.parametrize("name", ["value_bounds", "levels"])
def test_a_range_whose_powers_are_no_numbers_is_refused(name, low, high):
    for y in (low, high):
        with pytest.raises(ValueError, match=f"{name} must be at most 1e\\+50"):
            CPCompletion(0, **{name: [low, high]}).fit(WHERE, np.full(12, y))


@pytest.mark.parametrize(
    ("perturbation", "low", "high", "params"),
    [
        ("input", 0, 1e50, {"rank": 1, "max_iter": 2}),
        ("sums", -1e50, 1e50, {}),
        ("gradient", 0, 1e-50, {"rank": 1, "max_iter": 2}),
        ("statistics", -1e50, 1e50, {"rank": 1}),
    ],
)
def test_the_largest_and_least_ranges_are_served(perturbation, low, high, params):
    def release(data):
        model = CPCompletion(
            value_bounds=(low, high), perturbation=perturbation, random_state=0,
            **params,
        ).fit(*data)  # fmt: skip
        return model, model.predict(WHERE)

    data = [(WHERE, np.full(12, y)) for y in (low, high, 0.0, LARGEST, -LEAST)]
    assert not differences(release, data)


# The tests notice estimators that depend on the data.


TRANSFORM = LaplaceMechanism.transform


def beyond(X):
    return np.max(X) > 1


def raises(self, X):
    return TRANSFORM(self, X) if not beyond(X) else {}[0]


def warns(self, X):
    if beyond(X):
        warnings.warn("A value was clipped.", RuntimeWarning, stacklevel=2)
    return TRANSFORM(self, X)


def counts(self, X):
    self.n_clipped_ = int(np.count_nonzero(X > 1))
    return TRANSFORM(self, X)


def shrinks(self, X):
    return TRANSFORM(self, X)[:, : 2 + (not beyond(X))]


def narrows(self, X):
    return TRANSFORM(self, X).astype("f4" if beyond(X) else "f8")


def overflows(self, X):
    return TRANSFORM(self, X) * (np.inf if beyond(X) else 1.0)


def draws(self, X):
    with recorded_call(self, self.privacy_guarantee_) as source:
        source.stream(0).random_raw(3 + int(beyond(X)))
    return TRANSFORM(self, X)


def stops(self, X):
    for value in np.ravel(X):
        if value > 1:
            break
    return TRANSFORM(self, X)


def claims(self, X):
    found = TRANSFORM(self, X)
    if beyond(X):
        other = LaplaceMechanism(2.0, bounds=(0, 1)).fit(ROWS)
        self.privacy_guarantee_ = other.privacy_guarantee_
    return found


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        (raises, "error"), (warns, "warnings"), (counts, "state"), (shrinks, "output"),
        (narrows, "output"), (overflows, "output"), (draws, "words"), (stops, "path"),
        (claims, "guarantee"),
    ],
)  # fmt: skip
def test_what_depends_on_the_data_is_noticed(wrong, part, monkeypatch):
    case = Case(LaplaceMechanism(bounds=(0, 1)), (ROWS,), "samples", "wrong")
    monkeypatch.setattr(LaplaceMechanism, "transform", wrong)
    found = differences(released(case), databases(case))
    assert part in {name for _, name in found}


def test_iterations_that_end_early_are_noticed(monkeypatch):
    """A descent that stops where residuals are small, before the noise."""
    release = original("release of a descent")

    def stops(measurement, entries, source, on_sweep):
        is_constant = bool(np.ptp(entries.values) == 0)
        return release(measurement, entries, source, lambda _: is_constant)

    case = next(param.values[0] for param in VALUED if "gradient" in param.id)
    # The first database has values that differ.
    data = databases(case)[::-1]
    monkeypatch.setattr(*POINTS["release of a descent"], stops)
    found = differences(released(case), data)
    assert {"path", "words"} <= {name for _, name in found}
