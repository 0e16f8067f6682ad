"""Kernels compiled once, before several processes need them."""

import warnings

import numpy as np

from sktensordp.completion import (
    CPCompletion,
    ImplicitCompletion,
    TuckerCompletion,
)
from sktensordp.papers import PublishedCPCompletion, PublishedTuckerCompletion


def compile_kernels():
    """Fit small models of every kind, so that numba keeps all kernels on disk."""
    X = np.indices((3, 4)).reshape(2, -1).T
    options = {"value_bounds": (0, 1), "shape": (3, 4), "max_iter": 1}
    with warnings.catch_warnings(action="ignore"):
        ImplicitCompletion(epsilon=np.inf, shape=(3, 4)).fit(X).sample_users()
        for kind in (np.float64, np.float32):
            y = np.linspace(0, 1, len(X), dtype=kind)
            for form in (CPCompletion, TuckerCompletion):
                model = form(2, perturbation="input", **options).fit(X, y)
                model.partial_fit(X, y).predict(X, return_std=True)
            for form in (PublishedCPCompletion, PublishedTuckerCompletion):
                form(2, **options).fit(X, y)
