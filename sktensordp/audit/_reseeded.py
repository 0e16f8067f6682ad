"""Fits of clones, each with noise and starts of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from ..privacy.budgets._clones import on_its_own


def is_estimator(value: object) -> bool:
    """Whether a value is an estimator, fitted or not, rather than a function."""
    return hasattr(value, "get_params") and hasattr(value, "fit")


class Reseeded:
    """Makes clones of an estimator whose seeds differ from clone to clone.

    A seed that all fits share would make a sound mechanism look broken: the attacker
    would subtract the same noise.

    Parameters
    ----------
    estimator : estimator
    random_state : int or None
        Seed of the seeds; None leaves the choice to the operating system.
    """

    def __init__(self, estimator: Any, random_state: int | None) -> None:
        self.estimator = estimator
        self._rng = None
        if random_state is not None:
            # Another stream than that of the bits.
            self._rng = np.random.default_rng([random_state, 1])

    def __call__(self) -> Any:
        """A clone with seeds of its own."""
        model = on_its_own(clone(self.estimator))
        names = [
            name
            for name in model.get_params(deep=True)
            if name == "random_state" or name.endswith("__random_state")
        ]
        seeds = {
            name: None if self._rng is None else int(self._rng.integers(2**31))
            for name in names
        }
        return model.set_params(**seeds)
