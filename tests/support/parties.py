"""Estimators whose people are at several parties, by name: what all parties share."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sktensordp.completion import CPCompletion, TuckerCompletion, fit_aggregated, party
from sktensordp.datasets import make_ratings
from sktensordp.moments import (
    MultilinearPCA,
    MultilinearRidge,
    MultilinearRidgeClassifier,
)
from tests.support.requests import Sums

RATINGS = make_ratings(n_users=60, n_items=30, n_ratings=1500, random_state=0)
_RNG = np.random.default_rng(0)
SAMPLES = _RNG.standard_normal((60, 3, 4)) * [2.0, 1.0, 0.5, 0.1]
LABELS = _RNG.integers(0, 3, 60)


@dataclass(frozen=True)
class Case:
    """An estimator with data.

    Attributes
    ----------
    make : callable
        Makes the estimator, with other parameters if they are passed.
    X, y : ndarray
    people : ndarray
        Number of the person of each row.
    n_samples : int or None
        What a server says of it.
    others : dict
        Parameters with other values, on which server and parties must agree.
    """

    make: Any
    X: Any
    y: Any
    people: Any
    n_samples: Any
    others: Any

    def of(self, k):
        """The data of party k of 3."""
        own = self.people % 3 == k
        return self.X[own], self.y[own]

    def parties(self, model=None, n=4, **options):
        """That many parties; those after the third have nobody."""
        model = model or self.make()
        data = [self.of(k) if k < 3 else ([], []) for k in range(n)]
        return [party(model, *own, **options) for own in data]

    def aggregated(self, ask, model=None, **options):
        """The estimator, fitted to sums of parties."""
        model = model or self.make()
        return fit_aggregated(model, ask, n_samples=self.n_samples, **options)

    def summed(self, **options):
        """A fit to exact sums of all parties, and what they were asked."""
        sums = Sums(self.parties(**options))
        return self.aggregated(sums), sums


def of_users(kind, rank, **options):
    defaults = {
        "levels": RATINGS.levels, "epsilon": 4.0, "random_state": 3, "unit": 0,
        "shape": (60, 30), "perturbation": "statistics",
    }  # fmt: skip
    others = {
        "epsilon": 4.1, "delta": 2e-6, "rank": 3, "biases": False, "shape": (61, 30),
        "perturbation": "auto", "levels": [1, 2, 3, 4, 5, 6], "value_bounds": (0, 5),
    }  # fmt: skip
    make = partial(kind, **{"rank": rank} | defaults | options)
    data, users = RATINGS.data, RATINGS.data[:, 0]
    return Case(make, data, RATINGS.target, users, None, others)


def of_samples(kind, n_components, others=(), **options):
    defaults = {
        "norm_bound": 3.0, "epsilon": 4.0, "random_state": 3, "tensor_shape": (3, 4)
    }  # fmt: skip
    others = {
        "epsilon": 4.1, "delta": 2e-6, "n_components": (1, 3), "norm_bound": 3.1,
        "tensor_shape": (3, 5), **dict(others),
    }  # fmt: skip
    params = {"n_components": n_components} | defaults | options
    data = SAMPLES, LABELS, np.arange(60), 60
    return Case(partial(kind, **params), *data, others)


CASES = {
    "cp": of_users(CPCompletion, 2),
    "tucker": of_users(TuckerCompletion, (2, 2)),
    "modes": of_samples(MultilinearPCA, (2, 2), {"center": False}, center=True),
    "core": of_samples(MultilinearPCA, 3, center=True, epsilon=100.0),
    "regression": of_samples(
        MultilinearRidge, (2, 2), {"target_bounds": (0, 3)}, target_bounds=(0, 2)
    ),
    "all cells": of_samples(MultilinearRidge, (3, 4), target_bounds=(0, 2)),
    "classes": of_samples(
        MultilinearRidgeClassifier, 4, {"classes": [0, 1, 3]}, classes=[0, 1, 2]
    ),
}


def released(model):
    """What a fitted model holds of releases, as arrays."""
    check_is_fitted(model)
    if isinstance(model, (CPCompletion, TuckerCompletion)):
        shared = model._fitted.shared.model
        return [*model.factors_[1:], shared.features, *shared.biases]
    found = [*model.components_]
    for name in ("mean_", "rotation_", "coef_", "intercept_", "alpha_"):
        if getattr(model, name, None) is not None:
            found.append(np.asarray(getattr(model, name)))
    return found
