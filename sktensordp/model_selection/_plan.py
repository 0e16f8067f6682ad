"""What one try of a private search reveals: its fits, and its score."""

import inspect
import operator
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import OneToOneFeatureMixin
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import process_routing

from .._sklearn_compat import routing_enabled
from ..exceptions import PrivacyLeakWarning, UnsoundClaimWarning
from ..privacy import PrivacyGuarantee, compose, compose_parallel
from ..privacy._parts import collect
from ..privacy._searches import Context, Findings

__all__ = [
    "check_metadata",
    "fit_guarantee",
    "is_seeded",
    "left_out_of",
    "set_shape",
    "steps_of",
    "try_guarantee",
    "whole_guarantee",
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
        elif collect(step, Context(planned=True)).releases:
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
    guarantee = found[0] if len(found) == 1 else compose(*found)
    first = type(steps_of(estimator)[0])
    if guarantee.unit in ("row", "cell") and not hasattr(first, "_planned_guarantee"):
        raise ValueError(
            f"{first.__name__} may mix the {guarantee.unit}s of a sample, and "
            f"one {guarantee.unit} is protected; put the private step first."
        )
    return guarantee


def whole_guarantee(estimator: Any, sample_shape: tuple[int, ...]) -> PrivacyGuarantee:
    """`fit_guarantee`, where that covers all that a fit reveals about its unit.

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
        As `fit_guarantee`, and if a step publishes what it learns from raw X; the
        message names the step.
    """
    steps = list(_read(estimator))
    if any(hasattr(type(step), "_planned_guarantee") for _, step, _ in steps):
        for name, step, found in steps:
            if found.learners:
                _refuse_learner(name, step, found.learners)
    guarantee = fit_guarantee(estimator, sample_shape)
    for name, _, found in steps:
        if found.publishers and guarantee.unit != "entry":
            raise ValueError(
                f"Step {name!r} publishes the ids and times that occur, which are not "
                f"public where the unit is {guarantee.unit!r}. Declare all "
                f"`categories` of the CoordinateEncoder, without time_bins and freq; "
                f"where the unit is a mode, encode X with it before the search."
            )
    return guarantee


def check_metadata(estimator: Any, metadata: dict[str, Any]) -> None:
    """Refuse metadata that would come to a step before noise has been added to X.

    Parameters
    ----------
    estimator : estimator or Pipeline
    metadata : dict
        Passed to its `fit`.

    Raises
    ------
    ValueError
        Also if the step takes no such metadata, or if it would be transformed.
    """
    if getattr(estimator, "transform_input", None):
        raise ValueError(
            "transform_input passes metadata through the mechanisms, and the search "
            "does not count those releases. Set transform_input=None."
        )
    of_step: dict[str, set[str]] = {}
    if type(estimator) is not Pipeline:
        of_step[type(estimator).__name__] = set(metadata)
    elif routing_enabled():
        for step, routed in process_routing(estimator, "fit", **metadata).items():
            of_step[step] = {name for given in routed.values() for name in given}
    else:
        for name in metadata:
            step, _, inner = name.partition("__")
            of_step.setdefault(step, set()).add(inner)
    noisy = False
    for name, step in _named(estimator):
        given = of_step.pop(name, set())
        private = hasattr(type(step), "_planned_guarantee")
        if given and (private or not noisy):
            raise ValueError(
                f"{name!r} was passed {', '.join(sorted(given))}, which the guarantee "
                f"does not cover. Leave it out: in a private search, metadata can go "
                f"only to steps without noise that follow a noise mechanism."
            )
        known = inspect.signature(step.fit).parameters
        if not any(p.kind is p.VAR_KEYWORD for p in known.values()):
            of_step |= {f"{name}.fit": given - set(known)} if given - set(known) else {}
        noisy = noisy or (private and step._released_by == "transform")
    left = set().union(*of_step.values())
    unknown = [name for name in metadata if {name, name.partition("__")[2]} & left]
    if unknown:
        raise ValueError(
            f"Nothing takes this metadata in its fit: {', '.join(sorted(unknown))}. "
            f"Write <step>__<parameter>, as in `ridge__sample_weight`."
        )


def _refuse_learner(name: str, step: Any, learners: list[str]) -> NoReturn:
    advice = (
        "Put a private step first, drop this one, or replace it by a stateless one "
        "(Normalizer, FunctionTransformer); or fit it to public data beforehand, and "
        "wrap it in FrozenEstimator."
    )
    if hasattr(type(step), "_planned_guarantee"):
        advice = (
            "Fit it to public data, encode X with it once, and search with "
            "GridSearchCV what follows: what is learned from its codes reveals nothing "
            "more about X."
        )
    kinds = ", ".join(dict.fromkeys(learners))
    raise ValueError(
        f"Step {name!r} learns from raw X in its fit ({kinds}), and the guarantee "
        f"would not cover that. {advice}"
    )


def steps_of(estimator: Any) -> list[Any]:
    """The estimator, or the steps of a pipeline of them."""
    return [step for _, step in _named(estimator)]


def left_out_of(estimator: Any) -> list[str]:
    """What fits of an estimator or pipeline leave unprotected, in sentences."""
    return [s for _, _, found in _read(estimator) for s in found.unprotected]


def _named(estimator: Any) -> list[tuple[str, Any]]:
    # Subclasses may use a record more often, as those that resample.
    if type(estimator) is not Pipeline:
        return [(type(estimator).__name__, estimator)]
    return [(n, s) for n, s in estimator.steps if s is not None and s != "passthrough"]


def _read(estimator: Any) -> Iterator[tuple[str, Any, Findings]]:
    """Name of each step, the step, and what is found in it."""
    noisy = False
    for name, step in _named(estimator):
        if not hasattr(type(step), "_planned_guarantee"):
            yield name, step, collect(step, Context(planned=True, noisy=noisy))
            continue
        learns = getattr(step, "_learns_in_fit", False) and not noisy
        learners = [type(step).__name__] if learns else []
        yield name, step, Findings(unprotected=step._unprotected(), learners=learners)
        noisy = noisy or step._released_by == "transform"


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


def _keeps_shape(step: Any) -> bool:
    step = step.estimator if isinstance(step, FrozenEstimator) else step
    # An encoder may pass its codes on.
    decoded = getattr(step, "output", "decoded") == "decoded"
    return decoded and isinstance(step, OneToOneFeatureMixin)


def _planned(step: Any, sample_shape: tuple[int, ...]) -> PrivacyGuarantee:
    like = None
    if getattr(step, "tensor_shape", None) is not None:
        sample_shape = tuple(map(operator.index, step.tensor_shape))
    if sample_shape and hasattr(step, "_shape_of"):
        like = SimpleNamespace(sample_shape_=sample_shape)
    with warnings.catch_warnings():
        # The fits themselves will say so.
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        warnings.simplefilter("ignore", UnsoundClaimWarning)
        try:
            return step._planned_guarantee(like)
        except TypeError as error:
            message = str(error)
    raise ValueError(
        f"What a fit would reveal is not known beforehand; put the private step first "
        f"or declare its tensor_shape, and search no search. {message}"
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
