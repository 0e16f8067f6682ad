"""Guarantee of one try of a private search, from its fits and its score."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import process_routing

from .._sklearn_compat import routing_enabled
from ..completion._base import BaseCompletion
from ..exceptions import PrivacyLeakWarning
from ..privacy import PrivacyGuarantee, compose, compose_parallel
from ..privacy._collect import Context, Findings, collect, keeps_shape, learned_by
from ..privacy._protocol import PrivateEstimator, privacy_tags, states_guarantee
from ..recommend import Recommender


def fit_guarantee(
    estimator: BaseEstimator, sample_shape: tuple[int, ...]
) -> PrivacyGuarantee:
    """Guarantee of one fit, from the parameters and the shape of a sample alone.

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
        If no step gives a guarantee, or if the guarantee is not known beforehand.
    """
    if getattr(estimator, "memory", None) is not None:
        raise ValueError(
            "The cache of the Pipeline (memory) would reuse the noise of one try in "
            "another. Set memory=None."
        )
    guarantees = []
    for step in steps_of(estimator):
        if states_guarantee(step):
            guarantees.append(_planned_guarantee(step, sample_shape))
        elif collect(step, Context("plan")).releases:
            raise ValueError(
                f"How often {type(step).__name__} fits private estimators is not known "
                f"beforehand. Search over the private estimator itself, or over a "
                f"Pipeline that contains it."
            )
        inner = step.estimator if isinstance(step, FrozenEstimator) else step
        if not keeps_shape(inner):
            sample_shape = ()
    if not guarantees:
        raise ValueError(
            f"No step of this {type(estimator).__name__} gives a guarantee. Add a "
            f"noise mechanism, or search over a completion."
        )
    guarantee = guarantees[0] if len(guarantees) == 1 else compose(*guarantees)
    first = steps_of(estimator)[0]
    if guarantee.unit == "cell" and not states_guarantee(first):
        raise ValueError(
            f"{type(first).__name__} may mix the {guarantee.unit}s of a sample, but "
            f"the guarantee protects one {guarantee.unit}. Put the private step first."
        )
    return guarantee


def checked_fit_guarantee(
    estimator: BaseEstimator, sample_shape: tuple[int, ...]
) -> PrivacyGuarantee:
    """`fit_guarantee`, after a check that it covers all that a fit reveals of its unit.

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
        As `fit_guarantee`, and if a step publishes what it learns from raw X, or from a
        y that another step protects; the message names the step.
    """
    steps = list(_findings_by_step(estimator))
    protects_y = any("y" in privacy_tags(step).protects for _, step, _ in steps)
    if any(states_guarantee(step) for _, step, _ in steps):
        for name, step, findings in steps:
            if findings.learners:
                _refuse_learner(name, step, findings.learners)
            if protects_y and findings.learners_of_y:
                kinds = ", ".join(dict.fromkeys(findings.learners_of_y))
                raise ValueError(
                    f"Step {name!r} may learn from y in its fit ({kinds}), which "
                    f"another step protects and the guarantee would not cover. Drop "
                    f"this step, or fit it to public data beforehand and wrap it in "
                    f"FrozenEstimator."
                )
    guarantee = fit_guarantee(estimator, sample_shape)
    for name, _, findings in steps:
        if findings.publishers and guarantee.unit != "entry":
            raise ValueError(
                f"Step {name!r} publishes the ids and times that occur, which are not "
                f"public for unit {guarantee.unit!r}. Declare all `categories` of the "
                f"CoordinateEncoder, without time_bins and freq. If the unit is a "
                f"mode, search over a Recommender."
            )
    return guarantee


def check_metadata(estimator: BaseEstimator, metadata: dict[str, object]) -> None:
    """Refuse metadata that would reach a step before noise has been added to X.

    Parameters
    ----------
    estimator : estimator or Pipeline
    metadata : dict
        Keyword arguments of its `fit`.

    Raises
    ------
    ValueError
        Also if no step takes the metadata, or if `transform_input` is set.
    """
    if getattr(estimator, "transform_input", None):
        raise ValueError(
            "transform_input passes metadata through the mechanisms, and the search "
            "would not count those releases. Set transform_input=None."
        )
    names_by_step: dict[str, set[str]] = {}
    if type(estimator) is not Pipeline:
        names_by_step[type(estimator).__name__] = set(metadata)
    elif routing_enabled():
        for step, routed in process_routing(estimator, "fit", **metadata).items():
            names_by_step[step] = {n for params in routed.values() for n in params}
    else:
        for name in metadata:
            step, _, inner = name.partition("__")
            names_by_step.setdefault(step, set()).add(inner)
    noisy = False
    for name, step in _named_steps(estimator):
        passed = names_by_step.pop(name, set())
        private = states_guarantee(step)
        if passed and (private or not noisy):
            raise ValueError(
                f"{name!r} was passed {', '.join(sorted(passed))}, which the guarantee "
                f"does not cover. Leave it out: in a private search, metadata can go "
                f"only to steps without noise that follow a noise mechanism."
            )
        parameters = inspect.signature(step.fit).parameters
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        if not takes_any and passed - set(parameters):
            names_by_step[f"{name}.fit"] = passed - set(parameters)
        noisy = noisy or (private and _releases_samples(step))
    unused = set().union(*names_by_step.values())
    unknown = [name for name in metadata if {name, name.partition("__")[2]} & unused]
    if unknown:
        raise ValueError(
            f"No step takes this metadata in its fit: {', '.join(sorted(unknown))}. "
            f"Write <step>__<parameter>, as in `ridge__sample_weight`."
        )


def _refuse_learner(name: str, step: BaseEstimator, learners: list[str]) -> NoReturn:
    advice = (
        "Put a private step first, drop this step, or replace it by a stateless one "
        "(Normalizer, FunctionTransformer). Or fit it to public data beforehand and "
        "wrap it in FrozenEstimator."
    )
    if states_guarantee(step):
        advice = (
            "Fit it to public data, encode X with it once, and search over the "
            "remaining steps with GridSearchCV: what they learn from the codes "
            "reveals nothing more about X."
        )
    kinds = ", ".join(dict.fromkeys(learners))
    raise ValueError(
        f"Step {name!r} learns from raw X in its fit ({kinds}), which the guarantee "
        f"would not cover. {advice}"
    )


def steps_of(estimator: BaseEstimator) -> list[Any]:
    """The steps of a pipeline or recommender, or a list of the estimator alone."""
    return [step for _, step in _named_steps(estimator)]


def unprotected_by(estimator: BaseEstimator) -> list[str]:
    """Sentences that say what a fit of an estimator or pipeline leaves unprotected."""
    steps = _findings_by_step(estimator)
    return [one for _, _, findings in steps for one in findings.unprotected]


def _named_steps(estimator: BaseEstimator) -> list[tuple[str, Any]]:
    if isinstance(estimator, Recommender):
        steps = estimator.__privacy_steps__(planned=True)
        return list(zip(("encoder", "completion"), steps, strict=True))
    # A subclass of Pipeline may use a record several times, such as pipelines that
    # resample.
    if type(estimator) is not Pipeline:
        return [(type(estimator).__name__, estimator)]
    return [(n, s) for n, s in estimator.steps if s is not None and s != "passthrough"]


def _findings_by_step(
    estimator: BaseEstimator,
) -> Iterator[tuple[str, Any, Findings]]:
    """Name of each step, the step, and the findings about it."""
    noisy = False
    for name, step in _named_steps(estimator):
        if not states_guarantee(step):
            yield name, step, collect(step, Context("plan", noisy=noisy))
            continue
        findings = Findings(unprotected=list(step.__privacy_unprotected__()))
        findings.learners, findings.learners_of_y = learned_by(step, noisy=noisy)
        yield name, step, findings
        noisy = noisy or _releases_samples(step)


def _releases_samples(step: PrivateEstimator) -> bool:
    """Whether later steps see only samples to which a step has added noise."""
    return privacy_tags(step).released_by == "transform"


def declare_shape(estimator: BaseEstimator, X: ArrayLike) -> None:
    """Set the `shape` of a completion that declares none, from all coordinates.

    Coordinates are public if `shape` may be None. A training set alone could lack the
    largest coordinates.
    """
    if isinstance(estimator, BaseCompletion) and estimator.shape is None:
        where = np.asarray(X)
        if where.ndim == 2 and where.dtype.kind in "iuf" and np.isfinite(where).all():
            largest = where.max(axis=0, initial=0)
            estimator.set_params(shape=tuple((largest.astype(np.int64) + 1).tolist()))


def is_seeded(estimator: BaseEstimator) -> bool:
    """Whether a private step takes its noise from an integer `random_state`."""
    return any(
        getattr(step, "random_state", None) is not None
        for step in steps_of(estimator)
        if states_guarantee(step)
    )


def _planned_guarantee(
    step: PrivateEstimator, sample_shape: tuple[int, ...]
) -> PrivacyGuarantee:
    """Guarantee of a private step, for samples of a shape that may be unknown (())."""
    fitted = SimpleNamespace(sample_shape_=sample_shape) if sample_shape else None
    with warnings.catch_warnings():
        # The fits will give this warning.
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        try:
            return step.__privacy_plan__(fitted)
        except TypeError as error:
            message = str(error)
    raise ValueError(
        f"The guarantee of {type(step).__name__} is not known beforehand. Put the "
        f"private step first or declare its tensor_shape; a search cannot be searched. "
        f"{message}"
    )


def try_guarantee(
    fit: PrivacyGuarantee, score: PrivacyGuarantee, uses: list[tuple[int, int]]
) -> PrivacyGuarantee:
    """Guarantee of one try: its fits for training records, its score for test records.

    Parameters
    ----------
    fit : PrivacyGuarantee
        Guarantee of one fit.
    score : PrivacyGuarantee
        Guarantee of the score, for a record in one or more test sets.
    uses : list of (int, int)
        Numbers of training and test sets that hold a record, from `use_counts`.

    Returns
    -------
    guarantee : PrivacyGuarantee
    """
    branches = [
        compose(*[fit] * trained, *[score] * min(tested, 1)) for trained, tested in uses
    ]
    return branches[0] if len(branches) == 1 else compose_parallel(*branches)
