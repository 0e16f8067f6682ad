"""What one try of a private search reveals: its fits, and its score."""

import operator
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import OneToOneFeatureMixin
from sklearn.pipeline import Pipeline

from ..exceptions import PrivacyLeakWarning, UnsoundClaimWarning
from ..privacy import PrivacyGuarantee, compose, compose_parallel

__all__ = [
    "fit_guarantee",
    "is_seeded",
    "left_out_of",
    "set_shape",
    "steps_of",
    "try_guarantee",
]


def fit_guarantee(estimator: Any, sample_shape: tuple[int, ...]) -> PrivacyGuarantee:
    """What one fit will reveal, from parameters and the shape of a sample alone.

    Parameters
    ----------
    estimator : estimator or Pipeline
        Not fitted.
    sample_shape : tuple of int
        Shape of one row of X.

    Returns
    -------
    guarantee : PrivacyGuarantee

    Raises
    ------
    ValueError
        If nothing in it gives a guarantee, or if that cannot be known beforehand.
    """
    if getattr(estimator, "memory", None) is not None:
        raise ValueError(
            "A cache (memory) would repeat the noise of one try in another; set it to "
            "None."
        )
    found = []
    for step in steps_of(estimator):
        if hasattr(type(step), "_planned_guarantee"):
            found.append(_planned(step, sample_shape))
        elif any(
            hasattr(type(inside), "_planned_guarantee")
            for inside in step.get_params(deep=True).values()
        ):
            raise ValueError(
                f"How often {type(step).__name__} fits private estimators is not known "
                f"beforehand; search the private estimator, or a Pipeline of it."
            )
        if not _keeps_shape(step):
            sample_shape = ()
    if not found:
        raise ValueError(
            f"Nothing in this {type(estimator).__name__} gives a guarantee."
        )
    return found[0] if len(found) == 1 else compose(*found)


def steps_of(estimator: Any) -> list[Any]:
    """The estimator, or the steps of a pipeline of them."""
    # Subclasses may use a record more often, as those that resample.
    if type(estimator) is not Pipeline:
        return [estimator]
    return [s for _, s in estimator.steps if s is not None and s != "passthrough"]


def left_out_of(estimator: Any) -> list[str]:
    """What fits of an estimator or pipeline leave unprotected, in sentences."""
    found, noisy = [], False
    for step in steps_of(estimator):
        if hasattr(step, "_unprotected"):
            found += step._unprotected()
        elif not noisy:
            what = f"What {type(step).__name__} learned in its fit; it gives no"
            found.append(f"{what} guarantee.")
        noisy = noisy or hasattr(type(step), "_planned_guarantee")
    return found


def set_shape(estimator: Any, X: ArrayLike) -> None:
    """Declare the shape of all coordinates to a completion that has none.

    They are public where it may have none; in a part of the rows, the largest may be
    missing.
    """
    if hasattr(estimator, "_declared_shape") and estimator.shape is None:
        where = np.asarray(X)
        if where.ndim == 2 and where.dtype.kind in "iuf" and np.isfinite(where).all():
            most = where.max(axis=0, initial=0)
            estimator.set_params(shape=tuple((most.astype(np.int64) + 1).tolist()))


def is_seeded(estimator: Any) -> bool:
    """Whether noise follows from an integer that is known."""
    return any(
        getattr(step, "random_state", None) is not None
        for step in steps_of(estimator)
        if hasattr(type(step), "_planned_guarantee")
    )


def _keeps_shape(step):
    # An encoder may pass its codes on.
    decoded = getattr(step, "output", "decoded") == "decoded"
    return decoded and isinstance(step, OneToOneFeatureMixin)


def _planned(step, sample_shape):
    like = None
    if sample_shape and hasattr(step, "_shape_of"):
        like = SimpleNamespace(sample_shape_=sample_shape)
        if getattr(step, "tensor_shape", None) is not None:
            like.sample_shape_ = tuple(map(operator.index, step.tensor_shape))
    with warnings.catch_warnings():
        # The fits themselves will say so.
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        warnings.simplefilter("ignore", UnsoundClaimWarning)
        try:
            return step._planned_guarantee(like)
        except TypeError as error:
            message = str(error)
    raise ValueError(
        f"What a fit would reveal is not known beforehand; put the private step first, "
        f"and search no search. {message}"
    )


def try_guarantee(
    fit: PrivacyGuarantee, score: PrivacyGuarantee, uses: list[tuple[int, int]]
) -> PrivacyGuarantee:
    """What one try reveals: of records in training parts the fits, of others the score.

    Parameters
    ----------
    fit : PrivacyGuarantee
        Of one fit.
    score : PrivacyGuarantee
        Of the score, for a record that is tested at all.
    uses : list of (int, int)
        As `uses_of` gives them.

    Returns
    -------
    guarantee : PrivacyGuarantee
    """
    found = [
        compose(*[fit] * trained, *[score] * min(tested, 1)) for trained, tested in uses
    ]
    return found[0] if len(found) == 1 else compose_parallel(*found)
