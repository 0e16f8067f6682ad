"""What is found in an estimator, and in those that pass their data to others."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ._guarantee import PrivacyGuarantee, unit_name
from ._searches import Context, Findings, Release, collect_search, is_search, unseen

__all__ = ["collect"]

# A private estimator, and its guarantee where that is known.
_Hidden = tuple[Any, PrivacyGuarantee | None]


def collect(obj: Any, context: Context) -> Findings:
    """What is found in an estimator: releases, what is unprotected, what it passes on.

    Where its class states a guarantee, that is what counts, whatever it is made of.

    Parameters
    ----------
    obj : estimator
    setting : Context

    Returns
    -------
    found : Findings
    """
    from sklearn.frozen import FrozenEstimator

    if isinstance(obj, FrozenEstimator):
        # No search fits it again: what it guarantees is what it was fitted for.
        findings = collect(obj.estimator, Context(noisy=context.noisy))
        findings.fixed = context.fixed and context.like is obj
        # It learned before, and its fit does nothing.
        findings.learners, findings.learners_of_y = [], []
        return findings
    if hasattr(type(obj), "_planned_guarantee"):
        return _of_private(obj, context)
    if is_search(obj) and (context.planned or hasattr(obj, "cv_results_")):
        read = collect_search(obj, context, collect)
    elif type(obj) in (readers := _readers()):
        read = readers[type(obj)](obj, context)
    else:
        read = None
    return _with_published_ids(_of_other(obj, context) if read is None else read)


def _readers() -> dict[type, Callable[[Any, Context], Findings]]:
    """How the estimators of scikit-learn that pass data to others are read.

    Not those of other packages, also where they are subclasses: a pipeline that
    resamples, say, uses a record more often.
    """
    from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
    from sklearn.ensemble import VotingClassifier, VotingRegressor
    from sklearn.pipeline import FeatureUnion, Pipeline

    return {
        Pipeline: _of_pipeline,
        ColumnTransformer: _of_columns,
        FeatureUnion: _of_union,
        VotingClassifier: _of_voting,
        VotingRegressor: _of_voting,
        TransformedTargetRegressor: _of_transformed_target,
    }


def _of_private(obj: Any, context: Context) -> Findings:
    """An estimator that states a guarantee."""
    findings = Findings(noisy=context.noisy, fixed=_keeps_shape(obj, context))
    findings.unprotected += obj._unprotected()
    findings.dense = bool(getattr(obj, "_dense", False))
    name, by = type(obj).__name__, obj._released_by
    guarantee: PrivacyGuarantee | None = None
    why = ""
    if context.planned:
        guarantee, why = _planned(obj, context)
        findings.unprotected += [why] if why else []
    elif hasattr(obj, "privacy_guarantee_"):
        guarantee = obj.privacy_guarantee_
    else:  # it has not been fitted: nothing was released
        return findings
    in_pass = int(by == "transform")
    findings.releases += [Release(f"{by} of {name}", guarantee, 1, in_pass, why)]
    if guarantee is not None and guarantee.protects and in_pass:
        findings.noisy = True
    return findings


def _planned(obj: Any, context: Context) -> tuple[PrivacyGuarantee | None, str]:
    """Guarantee that fits with these parameters will have, or None and why."""
    try:
        guarantee = obj._planned_guarantee(context.like)
    except (TypeError, ValueError) as error:
        return None, str(error)
    shape, seen = (_tensor_shape(one) for one in (obj, context.like))
    if obj._released_by == "fit" or (context.fixed and shape == seen):
        return guarantee, ""
    if not guarantee.protects:
        return guarantee, ""
    if guarantee.claimed is not None:
        return None, (
            f"What {type(obj).__name__} really guarantees depends on the shape of what "
            f"comes to it, which may differ between the fits of a search, so that it "
            f"cannot be seen."
        )
    return _of_any_shape(guarantee), ""


def _tensor_shape(obj: Any) -> tuple[int, ...] | None:
    shape = getattr(obj, "tensor_shape", None)
    return None if shape is None else tuple(shape)


def _of_any_shape(guarantee: PrivacyGuarantee) -> PrivacyGuarantee:
    """The same for samples of any shape.

    Epsilon and delta were asked for; of the curve through them mu alone, that of
    Gaussian noise, is the same for every shape.
    """
    from dp_accounting import dp_event

    from .accounting._events import (
        PureDpEvent,
        RevealingDpEvent,
        SamplerResidualDpEvent,
    )

    event = guarantee.event
    kinds = (dp_event.GaussianDpEvent, SamplerResidualDpEvent)
    parts = event.events if isinstance(event, dp_event.ComposedDpEvent) else [event]
    if all(isinstance(part, kinds) for part in parts):
        return guarantee
    event = PureDpEvent(guarantee.epsilon)
    if guarantee.delta:
        event = RevealingDpEvent(guarantee.delta, event)
    return replace(guarantee, event=event)


def _keeps_shape(obj: Any, context: Context) -> bool:
    """Whether `obj` passes on what has the shape that it has in the fitted object."""
    from sklearn.base import OneToOneFeatureMixin

    like = context.like
    return context.fixed and all(
        isinstance(x, OneToOneFeatureMixin) for x in (obj, like)
    )


def _of_other(obj: Any, context: Context) -> Findings:
    """An estimator that gives no guarantee; private ones in it are used unseen."""
    name = type(obj).__name__
    hidden = _hidden(obj, context)
    if hidden and not isinstance(obj, (list, tuple, set, dict)):
        return _of_hidden(name, hidden)
    findings = Findings(noisy=context.noisy, fixed=_keeps_shape(obj, context))
    if type(obj) in _stateless():
        function = name == "FunctionTransformer" and not _is_identity(obj)
        if function and not context.noisy:
            findings.unprotected += [
                f"{name} must compute each row from that row alone; its function is "
                f"not checked."
            ]
    elif context.noisy:
        findings.unprotected += [
            f"What {name} learned from y, if it was passed any; X came to it with "
            f"noise."
        ]
    elif hasattr(obj, "_unprotected"):
        findings.unprotected += obj._unprotected()
    else:
        findings.unprotected += [
            f"What {name} learned in its fit; it gives no guarantee."
        ]
        findings.learners += [name]
    if name in findings.learners or context.noisy:
        findings.learners_of_y += [name] if _may_read_y(obj) else []
    if getattr(obj, "_publishes_ids", False):
        findings.publishers += [name]
    return findings


def _may_read_y(obj: Any) -> bool:
    """Whether a fit may learn from y; it does not in most of scikit-learn's scalers."""
    from sklearn.utils import get_tags

    if not type(obj).__module__.startswith("sklearn.") or hasattr(obj, "estimator"):
        return True
    return hasattr(obj, "predict") or get_tags(obj).target_tags.required


def _stateless() -> tuple[type, ...]:
    """Transformers of scikit-learn that learn nothing and keep rows apart.

    Their tag `requires_fit` would not do: PatchExtractor, which makes several rows of
    one, has it too, and GaussianProcessRegressor, which learns where it is fitted.
    """
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.kernel_approximation import AdditiveChi2Sampler
    from sklearn.preprocessing import Binarizer, FunctionTransformer, Normalizer

    return (
        AdditiveChi2Sampler,
        Binarizer,
        FeatureHasher,
        FunctionTransformer,
        HashingVectorizer,
        Normalizer,
    )


def _of_hidden(name: str, hidden: Iterable[_Hidden]) -> Findings:
    findings = Findings()
    for part, guarantee in hidden:
        inner = type(part).__name__
        why = f"How often {name} fits {inner} cannot be seen."
        what = f"{part._released_by} of {inner} in {name}"
        if guarantee is None:
            findings.releases += [Release(what, None, why=why)]
        else:
            findings.releases += [unseen(what, guarantee, why)]
        findings.unprotected += [why]
    return findings


def _hidden(obj: Any, context: Context) -> list[_Hidden]:
    """Private estimators in an object, one of each kind, and a guarantee of each."""
    findings: dict[type, dict[tuple[str | int, str], _Hidden]] = {}
    kinds = {type(part) for part in _parts(obj)}
    for part in [*_parts(obj), *_parts(context.like)]:
        if type(part) not in kinds:
            continue
        guarantee = getattr(part, "privacy_guarantee_", None)
        if guarantee is None:
            try:
                guarantee = part._planned_guarantee(None)
            except (TypeError, ValueError):
                findings.setdefault(type(part), {})
                continue
        key = guarantee.unit, guarantee.relation
        findings.setdefault(type(part), {})[key] = (part, guarantee)
    return [
        one
        for kind, those in findings.items()
        for one in those.values() or [(_first(obj, kind), None)]
    ]


def _first(obj: Any, kind: type) -> Any:
    return next(part for part in _parts(obj) if type(part) is kind)


def _parts(obj: Any) -> list[Any]:
    """Private estimators that an object holds, as parameters or as attributes."""
    # What was seen is held, so that no other object takes its id.
    parts, seen, left = [], {}, [obj]
    while left:
        item = left.pop()
        if id(item) in seen:
            continue
        seen[id(item)] = item
        if item is not obj and hasattr(type(item), "_planned_guarantee"):
            parts.append(item)
        elif isinstance(item, dict):
            left += item.values()
        elif isinstance(item, (list, tuple, set)):
            left += item
        elif isinstance(item, np.ndarray) and item.dtype == object:
            left += item.ravel().tolist()
        elif isinstance(item, functools.partial):
            left += [item.func, item.args, item.keywords]
        elif inspect.ismethod(item):
            left.append(item.__self__)
        elif not (
            inspect.isclass(item) or inspect.isroutine(item) or inspect.ismodule(item)
        ):
            if hasattr(item, "get_params"):
                left += item.get_params(deep=False).values()
            left += getattr(item, "__dict__", {}).values()
    return parts


def _of_pipeline(pipeline: Any, context: Context) -> Findings:
    findings, at, before = Findings(), context, ""
    others = dict(getattr(context.like, "steps", ()))
    n_after = len(pipeline.steps) - 1
    for k, (name, step) in enumerate(pipeline.steps):
        like = others.get(name)
        if _is_identity(step):
            # Where another step stood in its place, what follows saw another shape.
            at = replace(at, fixed=at.fixed and name in others and _is_identity(like))
            continue
        one = collect(step, replace(at, like=like))
        if pipeline.transform_input:
            # Such metadata goes through the steps for every later one that asks.
            more = len(pipeline.transform_input) * (n_after - k)
            one.releases = [
                replace(r, in_fit=r.in_fit + more * r.in_pass) for r in one.releases
            ]
        if before and not at.noisy:
            one.unprotected += _units_after(before, one)
        findings.add(one)
        at, before = replace(at, noisy=one.noisy, fixed=one.fixed), type(step).__name__
        findings.raw = one.raw or (findings.raw and not one.noisy)
    findings.noisy, findings.fixed = at.noisy, at.fixed
    return findings


def _units_after(before: str, findings: Findings) -> list[str]:
    """Units within a sample are those of what the step `before` passes on.

    That step may mix rows or cells of a sample. A whole sample stays one sample.
    """
    units = [r.guarantee.unit for r in findings.releases if r.guarantee is not None]
    return [
        f"The guarantee is for {unit_name(unit)} as {before} passes it on, not as it "
        f"is in X."
        for unit in dict.fromkeys(units)
        if unit in ("row", "cell")
    ]


def _is_identity(step: Any) -> bool:
    """Whether a step passes on what it is given; a fitted one may stand for that."""
    from sklearn.preprocessing import FunctionTransformer

    if type(step) is FunctionTransformer:
        return step.func is None
    return step is None or (isinstance(step, str) and step == "passthrough")


def _is_dropped(part: Any) -> bool:
    return isinstance(part, str) and part == "drop"


def _of_union(union: Any, context: Context) -> Findings:
    others = dict(getattr(context.like, "transformer_list", ()))
    parts = [
        (name, part, others.get(name), context.fixed and name in others, None)
        for name, part in union.transformer_list
        if not _is_dropped(part)
    ]
    active = {name for name, part in others.items() if not _is_dropped(part)}
    return _side_by_side(union, parts, active, context)


def _of_columns(transformer: Any, context: Context) -> Findings:
    from sklearn.compose import make_column_selector

    fitted = context.like if context.planned else transformer
    widths = getattr(fitted, "output_indices_", {})
    findings = {
        name: (part, columns)
        for name, part, columns in getattr(fitted, "transformers_", ())
    }
    given: Iterable[tuple[str, Any, Any, Any, bool]]
    if context.planned:
        given = _planned_parts(transformer, fitted, findings)
    else:
        given = [(name, *those, None, True) for name, those in findings.items()]
    parts = []
    for name, part, columns, like, same in given:
        if _is_dropped(part) or _is_empty(columns):
            continue
        width = widths.get(name) if same else None
        n_columns = None if width is None else width.stop - width.start
        parts.append((name, part, like, context.fixed and same, n_columns))
    active = {
        name
        for name, (part, columns) in findings.items()
        if not _is_dropped(part) and not _is_empty(columns)
    }
    read = _side_by_side(transformer, parts, active, context)
    if context.planned and not context.noisy:
        chosen = [columns for _, _, columns in transformer.transformers]
        if any(callable(c) and type(c) is not make_column_selector for c in chosen):
            read.learners.append(type(transformer).__name__)
    return read


def _planned_parts(
    transformer: Any, fitted: Any, findings: dict[str, tuple[Any, Any]]
) -> Iterator[tuple[str, Any, Any, Any, bool]]:
    """Name, part, columns (None: unknown), one like it, and if it saw the same."""
    others = {name: columns for name, _, columns in getattr(fitted, "transformers", ())}
    names = set()
    for name, part, columns in transformer.transformers:
        same = name in findings and name in others and _is_same(columns, others[name])
        like, seen = findings.get(name, (None, None))
        if same:
            names.add(name)
        elif callable(columns):
            seen = None
        else:
            seen = columns
        yield name, part, seen, like, same
    same = (
        bool(names)
        and names == others.keys()
        and len(names) == len(transformer.transformers)
    )
    # Where nothing was left, the fitted one has no remainder.
    like, seen = findings.get("remainder", (None, ()))
    yield "remainder", transformer.remainder, seen if same else None, like, same


def _is_same(columns: Any, others: Any) -> bool:
    """Whether two selections surely select the same columns, also of fewer rows."""
    from sklearn.compose import make_column_selector

    if callable(columns):
        # By names and types; of other functions nothing is known.
        kinds = {type(columns), type(others)}
        return kinds == {make_column_selector} and repr(vars(columns)) == repr(
            vars(others)
        )
    if isinstance(columns, slice) or isinstance(others, slice):
        return type(columns) is type(others) and columns == others
    return not callable(others) and np.array_equal(columns, others)


def _is_empty(columns: Any) -> bool:
    """Whether a part is given no column, and so is not fitted."""
    if columns is None or isinstance(columns, (str, slice)) or not np.ndim(columns):
        return False
    columns = np.asarray(columns)
    return not columns.any() if columns.dtype == bool else not columns.size


def _side_by_side(
    obj: Any,
    parts: Sequence[tuple[str, Any, Any, bool, int | None]],
    active: set[str],
    context: Context,
) -> Findings:
    """What parts reveal of the same rows: it adds up; what has no noise is named.

    The parts come with a name, a fitted one like it, whether it saw the same columns,
    and the number of columns passed on (None if unknown); `active` has the names of
    the fitted parts.
    """
    findings = Findings(noisy=True)
    findings.fixed = {name for name, *_ in parts} == active
    for name, part, like, fixed, n_columns in parts:
        if _is_identity(part):
            one = Findings(noisy=context.noisy, fixed=fixed and _is_identity(like))
        else:
            one = collect(part, replace(context, like=like, fixed=fixed))
        if not one.noisy:
            columns = "columns" if n_columns is None else f"{n_columns} column(s)"
            one.unprotected.append(
                f"{type(obj).__name__} passes on {columns} that no noise mechanism "
                f"made (part {name!r}), and what follows learns from them."
            )
        findings.add(one)
        findings.noisy &= one.noisy
        findings.fixed &= one.fixed
        findings.raw |= one.raw or not one.noisy
    findings.raw &= any(r.in_pass for r in findings.releases)
    return findings


def _of_voting(voting: Any, context: Context) -> Findings:
    findings = Findings(noisy=context.noisy)
    if context.planned:
        others = getattr(context.like, "named_estimators_", {})
        for name, part in voting.estimators:
            if not _is_dropped(part):
                findings.add(collect(part, replace(context, like=others.get(name))))
    else:
        for part in getattr(voting, "estimators_", ()):
            findings.add(collect(part, context))
    return findings


def _of_transformed_target(model: Any, context: Context) -> Findings:
    from sklearn.linear_model import LinearRegression

    transformer, regressor, like = model.transformer, model.regressor, context.like
    if context.planned:
        regressor = LinearRegression() if regressor is None else regressor
        like = getattr(like, "regressor_", None)
    else:
        transformer = getattr(model, "transformer_", None)
        regressor = getattr(model, "regressor_", None)
    name = type(model).__name__
    hidden = _hidden([transformer, model.func, model.inverse_func], Context())
    findings = Findings()
    if hidden:
        # It transforms y more than once, in part.
        findings.add(_of_hidden(name, hidden))
    elif model.func is not None or not _is_identity(transformer):
        what = "func" if transformer is None else type(transformer).__name__
        findings.unprotected += [
            f"What {what} computes from y, all of it together: {name} passes y "
            f"through it before anything protects y."
        ]
        findings.learners_of_y += [what]
    if regressor is not None:
        findings.add(collect(regressor, replace(context, like=like)))
    findings.noisy = context.noisy
    return findings


def _with_published_ids(findings: Findings) -> Findings:
    """What is published of who is there, where everything of a user is protected."""
    known = [r.guarantee for r in findings.releases if r.guarantee is not None]
    of_users = [one for one in known if isinstance(one.unit, int)]
    for name in findings.publishers if of_users else ():
        why = f"{name} publishes the ids that occur; declare categories."
        findings.releases += [unseen(f"fit of {name}", of_users[0], why)]
    if of_users:
        findings.publishers = []
    return findings
