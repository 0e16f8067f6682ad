"""Every public estimator with a small data set, for the tests that none may escape.

Estimators are found in the public modules (`public_estimators`); `cases_of` gives what
the tests of every estimator need of one, and says what is missing.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

from sktensordp import mechanisms, papers
from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
    TuckerCompletion,
)
from sktensordp.counts import TensorCounts
from sktensordp.encoding import TaskAgnosticEncoder, TaskAwareEncoder
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.moments import (
    MultilinearPCA,
    MultilinearRidge,
    MultilinearRidgeClassifier,
)
from sktensordp.papers import BiScaler, PrivacyAgnosticEncoder
from tests.support.seams import on_its_own

# Of a tensor of 4 x 3, all entries; samples in [0, 1], as rows and as matrices.
WHERE = np.argwhere(np.ones((4, 3)))
VALUES = np.linspace(0.07310585, 0.97, 12)
ROWS = np.linspace(0, 1, 24).reshape(8, 3)
MATRICES = np.linspace(0, 1, 48).reshape(8, 3, 2)
ONE_CELL = np.eye(8, 3)

RANGE = {"value_bounds": (0, 1)}
LEVELS = {"levels": [0, 0.5, 1]}
USERS = {**RANGE, "unit": 0, "shape": (4, 3), "delta": 1e-3}
BOX, NOISY_BOX = {"bounds": (0, 1)}, {"bounds": (0, 1), "delta": 1e-5}
TASK = {"task": [[1.0, 1.0, 0.0]]}

# scikit-learn's checks that fail, by what is protected, and why.
FRESH_NOISE = "two fits of one object never share their noise, also with an int seed"
UNREAD = "fit reads no value where the domain is declared; transform refuses NaN"
BY_ENTRIES = {
    "check_supervised_y_2d": FRESH_NOISE,
    "check_fit_idempotent": FRESH_NOISE,
}
OF_ENCODERS = {"check_fit_idempotent": FRESH_NOISE}
OF_TRANSFORMERS = {**OF_ENCODERS, "check_estimators_nan_inf": UNREAD}

# Neighbours in a box, where the noise is least, and in a ball.
CORNERS = np.zeros((3, 2)), np.ones((3, 2))
ENDS = np.array([-1.0, 0, 0]), np.array([1.0, 0, 0])


@dataclass(frozen=True)
class Case:
    """An estimator that no test fits itself: `fresh` gives a clone of it.

    What one clone releases says nothing about the others, which are fitted to other
    data: no warning of clones depends on the order of tests.

    Attributes
    ----------
    estimator : estimator
    data : tuple
        X, and y where the estimator is fitted to entries of a tensor.
    private : {"values", "users", "choices", "rows", "samples", "people", "ids"}
        What is protected: y; all of X and y about a user; all of X about a user, where
        there is no y; a row of X, or all rows of a person, of which any may be left
        out; X in `transform`; X in `fit`, and y if there is one; nothing, of
        an encoder of coordinates, which meets all ids and no value.
    label : str
    """

    estimator: object
    data: tuple
    private: str
    label: str

    def fresh(self, **params):
        estimator = on_its_own(clone(self.estimator))
        if not isinstance(estimator, Recommender):
            return estimator.set_params(**params)
        if "shape" in params:
            estimator.set_params(encoder=items(params.pop("shape")[1]))
        return estimator.set_params(
            **{
                f"completion__{k.removeprefix('completion__')}": params[k]
                for k in params
            }
        )

    def seeded(self, seed=0):
        """Parameters that let all noise follow from an integer."""
        names = self.estimator.get_params(deep=True)
        return {n: seed for n in names if n.split("__")[-1] == "random_state"}

    @property
    def is_published(self):
        """Whether it is an algorithm of a paper as printed."""
        return type(self.estimator).__name__.startswith("Published")

    @property
    def expected_failures(self):
        """scikit-learn's own checks that fail, with the reason."""
        if self.private == "samples":
            return OF_ENCODERS if hasattr(self.estimator, "task") else OF_TRANSFORMERS
        return BY_ENTRIES if len(self.data) == 2 else OF_ENCODERS

    @property
    def neighbours(self):
        """Two samples that are as far apart as the declared domain allows."""
        return ENDS if getattr(self.estimator, "norm_bound", None) else CORNERS

    @property
    def has_epsilon(self):
        names = self.estimator.get_params(deep=False)
        return "epsilon" in names or isinstance(self.estimator, Recommender)

    def release(self, **params):
        """A fitted clone that has released once, and what a caller gets of it."""
        estimator = self.fresh(**params).fit(*self.data)
        return estimator, answer(estimator, self.data[0])


def answer(estimator, X):
    """What a caller gets of a fitted estimator for coordinates or samples."""
    if isinstance(estimator, TensorCounts):
        return np.concatenate(
            [estimator.marginal(m).ravel() for m in estimator.tables_]
        )
    if hasattr(estimator, "unscale_values"):
        return estimator.unscale_values(X, np.zeros(len(X)))
    predicts = hasattr(type(estimator), "predict")
    return estimator.predict(X) if predicts else estimator.transform(X)


def items(n):
    """An encoder that declares items, and leaves users to a recommender."""
    return CoordinateEncoder(categories=[None, range(n)])


def _cases():
    cp, tucker = partial(CPCompletion, max_iter=2), partial(TuckerCompletion, 1)
    entries = WHERE, VALUES
    yield "values", entries, {
        "default": cp(0, **RANGE),
        "noise": cp(1, perturbation="input", **RANGE),
        "table": cp(0, perturbation="input", **LEVELS),
        "sums": CPCompletion(0, perturbation="sums", **RANGE),
        "gradient": cp(1, perturbation="gradient", **RANGE),
        "statistics": CPCompletion(1, perturbation="statistics", **RANGE),
        "output": CPCompletion(1, perturbation="output", **RANGE),
        "Tucker": tucker(max_iter=2, **RANGE),
        "Tucker, table": tucker(max_iter=1, biases=False, **LEVELS),
        "scaler": BiScaler(1.0, **RANGE),
        "published": papers.PublishedCPCompletion(1, max_iter=2, **RANGE),
        "published Tucker": papers.PublishedTuckerCompletion(1, max_iter=2, **RANGE),
        "ids": Recommender(cp(0, **RANGE)),
        "search": PrivateSearchCV(
            cp(0, perturbation="input", **RANGE), {"rank": [0, 1]}, n_iter=2
        ),
    }  # fmt: skip
    yield "users", entries, {
        "sums": CPCompletion(1, perturbation="sums", **USERS),
        "statistics": CPCompletion(1, perturbation="statistics", **USERS),
        "Tucker": tucker(perturbation="sums", **USERS),
        "ids": Recommender(
            CPCompletion(1, perturbation="sums", **{**USERS, "shape": None}), items(3)
        ),
    }  # fmt: skip
    yield "choices", (WHERE,), {
        "choices": ImplicitCompletion(shape=(4, 3), delta=1e-3),
        "ids": Recommender(ImplicitCompletion(delta=1e-3), items(3)),
    }  # fmt: skip
    yield "rows", (WHERE,), {
        "tables": TensorCounts(shape=(4, 3), delta=1e-3),
        "of people": TensorCounts(
            1, shape=(3,), unit=0, max_records=3, delta=1e-3
        ),
    }  # fmt: skip
    yield "ids", entries, {"ids": CoordinateEncoder()}
    yield "samples", (ONE_CELL,), {"cells": mechanisms.MatrixMechanism(delta=1e-5)}
    boxes = [
        mechanisms.GaussianMechanism, mechanisms.TensorVariateGaussian,
        mechanisms.MatrixGaussian, mechanisms.UnimodalDirectionalNoise,
        mechanisms.IndependentDirectionalNoise, papers.MatrixVariateGaussian,
    ]  # fmt: skip
    published = [
        papers.PublishedTensorVariateGaussian, papers.PublishedMatrixGaussian,
        papers.PublishedUnimodalDirectionalNoise,
        papers.PublishedIndependentDirectionalNoise,
        papers.PublishedMatrixVariateGaussian,
        papers.PublishedTensorRandomizedResponse,
    ]  # fmt: skip
    yield "samples", (MATRICES,), {
        **{f"box {number}": make(**NOISY_BOX) for number, make in enumerate(boxes)},
        **{f"published {n}": make(**NOISY_BOX) for n, make in enumerate(published)},
        # Without delta, of which the shares of many entries are a long search.
        "box 6": mechanisms.TensorRandomizedResponse(**BOX, n_levels=4),
    }  # fmt: skip
    yield "people", (MATRICES,), {
        "modes": MultilinearPCA((2, 1), norm_bound=1.0, delta=1e-3),
        "centred": MultilinearPCA(norm_bound=1.0, center=True, delta=1e-3),
        "in units": MultilinearPCA(
            (2, 1), norm_bound=1.0, offset=0.5, scale=[2.0, 1.0], delta=1e-3
        ),
        # More would be chosen by what is released, so that neighbours part.
        "in all": MultilinearPCA(6, norm_bound=1.0, delta=1e-3),
    }  # fmt: skip
    yield "people", (MATRICES, VALUES[:8]), {
        "core": MultilinearRidge(
            (2, 1), norm_bound=1.0, target_bounds=(0, 1), delta=1e-3
        ),
        "all cells": MultilinearRidge(
            (3, 2), alpha=0.1, norm_bound=1.0, target_bounds=(0, 1), delta=1e-3
        ),
    }  # fmt: skip
    yield "people", (MATRICES, np.arange(8) % 2), {
        "classes": MultilinearRidgeClassifier(
            (2, 2), norm_bound=1.0, classes=[0, 1], delta=1e-3
        ),
    }  # fmt: skip
    yield "samples", (ROWS,), {
        "rows": mechanisms.LaplaceMechanism(**BOX),
        "ball": mechanisms.GaussianMechanism(delta=1e-5, norm_bound=1.0),
        "response": mechanisms.TensorRandomizedResponse(**BOX, n_levels=3),
        "hybrid": mechanisms.HybridMechanism(**BOX),
        "direction": mechanisms.PrivUnit(**BOX),
        "pure code": TaskAwareEncoder(mechanism="laplace", **TASK),
        "Gaussian code": TaskAwareEncoder(mechanism="gaussian", delta=1e-5, **TASK),
        "task agnostic": TaskAgnosticEncoder(**TASK),
        "privacy agnostic": PrivacyAgnosticEncoder(**TASK),
        "published, aware": papers.PublishedTaskAwareEncoder(**TASK),
        "published, box": papers.PublishedTaskAwareEncoder(**BOX, **TASK),
        "published, agnostic": papers.PublishedTaskAgnosticEncoder(**TASK),
        "published, without noise": papers.PublishedPrivacyAgnosticEncoder(**TASK),
    }  # fmt: skip


CASES = [
    Case(estimator, data, private, f"{type(estimator).__name__}, {private}, {label}")
    for private, data, estimators in _cases()
    for label, estimator in estimators.items()
]


def cases_of(kind):
    """Return what the tests of every estimator need of a class.

    Parameters
    ----------
    kind : type
        A public estimator.

    Returns
    -------
    list of Case

    Raises
    ------
    AssertionError
        If there is none; the message says what to add.
    """
    found = [case for case in CASES if type(case.estimator) is kind]
    assert found, (
        f"{kind.__name__} has no case. In tests/support/every_estimator.py, add an "
        f"instance for small data to `_cases`, under what it protects: "
        f'`"a label": {kind.__name__}(...),`. For samples, declare a domain.'
    )
    return found


EVERY = [pytest.param(case, id=case.label) for case in CASES]
RELEASING = [param for param in EVERY if param.values[0].private != "ids"]


# What they release follows from values, and not from who has entries alone.
UNVALUED = {"choices", "rows"}
VALUED = [p for p in RELEASING if p.values[0].private not in UNVALUED]


def slow_repeats(params):
    """The parameters; all but the first of each class and kind of data are slow."""
    seen, found = set(), []
    for param in params:
        kind = type(param.values[0].estimator), param.values[0].private
        repeats = kind in seen or param.values[0].is_published
        marks = [*param.marks, pytest.mark.slow] if repeats else param.marks
        seen.add(kind)
        found.append(pytest.param(*param.values, id=param.id, marks=marks))
    return found
