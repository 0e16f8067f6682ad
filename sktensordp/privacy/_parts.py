"""Findings about an estimator, and about those that pass their data to others."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from ._guarantee import PrivacyGuarantee, unit_name
from ._searches import (
    Context,
    Findings,
    Release,
    collect_search,
    is_search,
    unprotected_release,
)
from ._stateless import reads_nothing
from .budgets._open import contents

# A private estimator, and its guarantee if that is known.
_HiddenEstimator = tuple[Any, PrivacyGuarantee | None]


def collect(obj: Any, context: Context) -> Findings:
    """Findings about an estimator: its releases, what they leave out, and its output.

    If its class states a guarantee, that counts, whatever the estimator contains.

    Parameters
    ----------
    obj : estimator
    context : Context

    Returns
    -------
    findings : Findings
    """
    findings = _collected(obj, context)
    findings.unprotected += [
        f"What the callback {type(callback).__name__} computes: {type(obj).__name__} "
        f"passes it the data of its fit."
        for callback in getattr(obj, "_skl_callbacks", ())
        # Estimators of this package pass no data, and a progress bar reads none.
        if not type(obj).__module__.startswith(f"{__name__.split('.')[0]}.")
        and type(callback).__name__ != "ProgressBar"
    ]
    return findings


def _collected(obj: Any, context: Context) -> Findings:
    """What `collect` returns, without callbacks."""
    from sklearn.frozen import FrozenEstimator

    if isinstance(obj, FrozenEstimator):
        # No search fits it again, so its guarantee is that of the earlier fit. All fits
        # of a search share it, so that it has counted the releases of all of them.
        counted = context.counted and not context.in_search
        inner = Context(noisy=context.noisy, counted=counted)
        findings = collect(obj.estimator, inner)
        findings.fixed = context.fixed and context.like is obj
        # It learned earlier; its fit does nothing now.
        findings.learners, findings.learners_of_y = [], []
        return findings
    if hasattr(type(obj), "_planned_guarantee"):
        return _collect_private(obj, context)
    context = replace(context, alone=False)
    if isinstance(obj, list):
        return _add_published_ids(_collect_fits(obj, context))
    if hasattr(type(obj), "_fitted_steps"):
        return _add_published_ids(_collect_steps(obj, context))
    if is_search(obj) and (context.planned or hasattr(obj, "cv_results_")):
        followed = collect_search(obj, context, collect)
    elif type(obj) in (collectors := _collectors()):
        followed = collectors[type(obj)](obj, context)
    else:
        followed = None
    findings = _collect_other(obj, context) if followed is None else followed
    return _add_published_ids(findings)


def _collectors() -> dict[type, Callable[[Any, Context], Findings]]:
    """Functions for the estimators of scikit-learn that pass data to others.

    Subclasses in other packages are left out: for example, a pipeline that resamples
    uses a record more often.
    """
    from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
    from sklearn.ensemble import VotingClassifier, VotingRegressor
    from sklearn.pipeline import FeatureUnion, Pipeline

    return {
        Pipeline: _collect_pipeline,
        ColumnTransformer: _collect_column_transformer,
        FeatureUnion: _collect_union,
        VotingClassifier: _collect_voting,
        VotingRegressor: _collect_voting,
        TransformedTargetRegressor: _collect_transformed_target,
    }


def _collect_private(obj: Any, context: Context) -> Findings:
    """Findings about an estimator that states a guarantee."""
    findings = Findings(noisy=context.noisy, fixed=_keeps_shape(obj, context))
    findings.unprotected += obj._unprotected()
    findings.dense = bool(getattr(obj, "_dense", False))
    name, method = type(obj).__name__, obj._released_by
    if getattr(obj, "_learns_in_fit", False) and not (context.alone or context.noisy):
        # The steps around it were fitted to the same rows.
        findings.learners.append(name)
    guarantee: PrivacyGuarantee | None = getattr(obj, "privacy_guarantee_", None)
    why = ""
    made: dict[PrivacyGuarantee | None, int] = {}
    if context.planned:
        guarantee, why = _planned_or_reason(obj, context)
        findings.unprotected += [why] if why else []
    elif context.counted:
        made.update(getattr(obj, "_made", {}))
    if not made:
        # What is not fitted has released nothing.
        made = {guarantee: 1} if context.planned or guarantee is not None else {}
    in_pass = int(method == "transform")
    protects_y = getattr(obj, "_protects_y", False)
    findings.releases += [
        Release(f"{method} of {name}", each, count, in_pass, why, protects_y)
        for each, count in made.items()
    ]
    if guarantee is not None and guarantee.protects and in_pass:
        findings.noisy = True
    return findings


def _collect_fits(fits: Sequence[Any], context: Context) -> Findings:
    """Findings about fits of their own, such as those of a cross-validation."""
    findings = Findings(noisy=context.noisy, divided=len(fits) > 1)
    for fit in fits:
        findings.add(collect(fit, replace(context, like=fit)))
    return findings


def _collect_steps(obj: Any, context: Context) -> Findings:
    """Findings about an estimator of this package that fits clones as its steps."""
    steps = obj._fitted_steps()
    if context.planned:
        try:
            steps = obj._steps()
        except (TypeError, ValueError) as error:
            why = str(error)
            return Findings([Release(f"fit of {type(obj).__name__}", None, why=why)])
    findings = Findings()
    for step in steps:
        # A fit of this object alone has a guarantee that its steps know exactly.
        like = step if context.like is obj else None
        findings.add(collect(step, replace(context, like=like)))
    return findings


def _planned_or_reason(
    obj: Any, context: Context
) -> tuple[PrivacyGuarantee | None, str]:
    """Guarantee of fits with these parameters, or None and the reason."""
    from dp_accounting import dp_event

    like, is_known = context.like, True
    if obj._released_by == "transform":
        declared, of_fitted = (getattr(x, "tensor_shape", None) for x in (obj, like))
        is_known = declared is not None or (context.fixed and of_fitted is None)
        if declared is not None:
            like = SimpleNamespace(sample_shape_=tuple(declared))
    try:
        guarantee = obj._planned_guarantee(like)
    except (TypeError, ValueError) as error:
        return None, str(error)
    if getattr(obj, "_learns_in_fit", False):
        source = f"{guarantee.source}, as an upper bound for any code of a fit"
        guarantee = replace(guarantee, source=source)
    if is_known:
        return guarantee, ""
    if not guarantee.protects:
        # At some other delta it might protect, but only for this shape.
        return replace(guarantee, event=dp_event.NonPrivateDpEvent()), ""
    if guarantee.claimed is not None:
        return None, (
            f"The true guarantee of {type(obj).__name__} depends on the shape of its "
            f"input, which may differ between the fits of a search, so it is not known."
        )
    return obj._for_any_shape(guarantee, context.like), ""


def _keeps_shape(obj: Any, context: Context) -> bool:
    """Whether the output of `obj` has the shape that it has in the fitted object."""
    from sklearn.base import OneToOneFeatureMixin

    like = context.like
    return context.fixed and all(
        isinstance(x, OneToOneFeatureMixin) for x in (obj, like)
    )


def _collect_other(obj: Any, context: Context) -> Findings:
    """Findings about an estimator that gives no guarantee and is not followed.

    It is not known how it uses the private estimators that it contains.
    """
    name = type(obj).__name__
    hidden = _hidden_estimators(obj, context)
    if hidden and not isinstance(obj, (tuple, set, dict)):
        return _collect_hidden(name, hidden)
    findings = Findings(noisy=context.noisy, fixed=_keeps_shape(obj, context))
    if reads_nothing(obj):
        has_function = name == "FunctionTransformer" and not _is_identity(obj)
        if has_function and not context.noisy:
            findings.unprotected += [
                f"{name} must compute each row from that row alone; its function is "
                f"not checked."
            ]
    elif context.noisy:
        findings.unprotected += [_learned_from_y(obj)]
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


def _learned_from_y(obj: Any) -> str:
    """What a step after a mechanism learned from y, to which nothing adds noise."""
    from sklearn.utils import get_tags

    name = type(obj).__name__
    tags = get_tags(obj) if hasattr(obj, "__sklearn_tags__") else None
    if tags is None or not tags.target_tags.required:
        return f"If {name} was passed y, it learned from y without noise."
    kind = {"classifier": "the labels y", "regressor": "the targets y"}
    y = kind.get(str(tags.estimator_type), "y")
    return f"{name} learned from {y} without noise."


def _may_read_y(obj: Any) -> bool:
    """Whether a fit may learn from y; most scalers of scikit-learn do not."""
    from sklearn.utils import get_tags

    if not type(obj).__module__.startswith("sklearn.") or hasattr(obj, "estimator"):
        return True
    return hasattr(obj, "predict") or get_tags(obj).target_tags.required


def _collect_hidden(name: str, hidden: Iterable[_HiddenEstimator]) -> Findings:
    """Findings about private estimators that `name` fits an unknown number of times."""
    findings = Findings()
    for estimator, guarantee in hidden:
        inner = type(estimator).__name__
        why = f"It is not known how often {name} fits {inner}."
        release_name = f"{estimator._released_by} of {inner} in {name}"
        if guarantee is None:
            findings.releases += [Release(release_name, None, why=why)]
        else:
            findings.releases += [unprotected_release(release_name, guarantee, why)]
        findings.unprotected += [why]
    return findings


def _hidden_estimators(obj: Any, context: Context) -> list[_HiddenEstimator]:
    """Private estimators in an object: one for each class, unit and relation.

    A class of which no guarantee is known comes once, with None.
    """
    by_class: dict[type, dict[tuple[str | int, str], _HiddenEstimator]] = {}
    classes = {type(estimator) for estimator in _private_estimators_in(obj)}
    for estimator in [
        *_private_estimators_in(obj),
        *_private_estimators_in(context.like),
    ]:
        if type(estimator) not in classes:
            continue
        guarantee = getattr(estimator, "privacy_guarantee_", None)
        if guarantee is None:
            try:
                guarantee = estimator._planned_guarantee(None)
            except (TypeError, ValueError):
                by_class.setdefault(type(estimator), {})
                continue
        key = guarantee.unit, guarantee.relation
        by_class.setdefault(type(estimator), {})[key] = (estimator, guarantee)
    return [
        hidden
        for kind, by_unit in by_class.items()
        for hidden in by_unit.values() or [(_first(obj, kind), None)]
    ]


def _first(obj: Any, kind: type) -> Any:
    return next(e for e in _private_estimators_in(obj) if type(e) is kind)


def _private_estimators_in(obj: Any) -> list[Any]:
    """Private estimators that an object holds, as parameters or as attributes."""
    estimators: list[Any] = []

    def is_private(item: Any) -> bool:
        if item is obj or not hasattr(type(item), "_planned_guarantee"):
            return False
        estimators.append(item)
        return True

    for _ in contents(obj, stop=is_private):
        pass
    return estimators


def _collect_pipeline(pipeline: Any, context: Context) -> Findings:
    findings, before = Findings(), ""
    fitted_steps = dict(getattr(context.like, "steps", ()))
    last = len(pipeline.steps) - 1
    for k, (name, step) in enumerate(pipeline.steps):
        like = fitted_steps.get(name)
        if _is_identity(step):
            # If another step had its place, later steps saw another shape.
            same = name in fitted_steps and _is_identity(like)
            context = replace(context, fixed=context.fixed and same)
            continue
        in_step = collect(step, replace(context, like=like))
        if pipeline.transform_input and context.planned:
            # A step also transforms this metadata, for every later step that asks.
            more = len(pipeline.transform_input) * (last - k)
            in_step.releases = [
                replace(r, in_fit=r.in_fit + more * r.in_pass) for r in in_step.releases
            ]
        if before and not context.noisy:
            in_step.unprotected += _unit_caveats(before, in_step)
        findings.add(in_step)
        context = replace(context, noisy=in_step.noisy, fixed=in_step.fixed)
        before = type(step).__name__
        findings.raw = in_step.raw or (findings.raw and not in_step.noisy)
    findings.noisy, findings.fixed = context.noisy, context.fixed
    return findings


def _unit_caveats(before: str, findings: Findings) -> list[str]:
    """Caveats on guarantees for cells, which are units within a sample.

    They hold for the output of the step `before`, which may mix the cells of a
    sample. A whole sample stays one sample.
    """
    units = [r.guarantee.unit for r in findings.releases if r.guarantee is not None]
    return [
        f"The guarantee is for {unit_name(unit)} in the output of {before}, not in X."
        for unit in dict.fromkeys(units)
        if unit == "cell"
    ]


def _is_identity(step: Any) -> bool:
    """Whether a step passes on its input unchanged.

    ColumnTransformer puts a fitted FunctionTransformer in the place of "passthrough".
    """
    from sklearn.preprocessing import FunctionTransformer

    if type(step) is FunctionTransformer:
        return step.func is None
    return step is None or (isinstance(step, str) and step == "passthrough")


def _is_dropped(transformer: Any) -> bool:
    return isinstance(transformer, str) and transformer == "drop"


def _collect_union(union: Any, context: Context) -> Findings:
    fitted = dict(getattr(context.like, "transformer_list", ()))
    transformers = [
        (name, transformer, fitted.get(name), context.fixed and name in fitted, None)
        for name, transformer in union.transformer_list
        if not _is_dropped(transformer)
    ]
    active = {name for name, inner in fitted.items() if not _is_dropped(inner)}
    return _collect_side_by_side(union, transformers, active, context)


def _collect_column_transformer(obj: Any, context: Context) -> Findings:
    from sklearn.compose import make_column_selector

    fitted = context.like if context.planned else obj
    output_slices = getattr(fitted, "output_indices_", {})
    fitted_transformers = {
        name: (transformer, columns)
        for name, transformer, columns in getattr(fitted, "transformers_", ())
    }
    given: Iterable[tuple[str, Any, Any, Any, bool]]
    if context.planned:
        given = _planned_transformers(obj, fitted, fitted_transformers)
    else:
        given = [
            (name, *rest, None, True) for name, rest in fitted_transformers.items()
        ]
    transformers = []
    for name, transformer, columns, like, same in given:
        if _is_dropped(transformer) or _selects_none(columns):
            continue
        output = output_slices.get(name) if same else None
        n_columns = None if output is None else output.stop - output.start
        fixed = context.fixed and same
        transformers.append((name, transformer, like, fixed, n_columns))
    active = {
        name
        for name, (transformer, columns) in fitted_transformers.items()
        if not _is_dropped(transformer) and not _selects_none(columns)
    }
    findings = _collect_side_by_side(obj, transformers, active, context)
    if context.planned and not context.noisy:
        selections = [columns for _, _, columns in obj.transformers]
        if any(callable(s) and type(s) is not make_column_selector for s in selections):
            findings.learners.append(type(obj).__name__)
    return findings


def _planned_transformers(
    obj: Any, fitted: Any, fitted_transformers: dict[str, tuple[Any, Any]]
) -> Iterator[tuple[str, Any, Any, Any, bool]]:
    """The transformers of a ColumnTransformer that is not fitted.

    Yields
    ------
    name : str
    transformer : estimator or str
    columns : selection or None
        None if not known.
    like : estimator or None
        The fitted transformer of that name.
    same : bool
        Whether that saw the same columns.
    """
    fitted_columns = {
        name: columns for name, _, columns in getattr(fitted, "transformers", ())
    }
    unchanged = set()
    for name, transformer, columns in obj.transformers:
        same = (
            name in fitted_transformers
            and name in fitted_columns
            and _same_columns(columns, fitted_columns[name])
        )
        like, known_columns = fitted_transformers.get(name, (None, None))
        if same:
            unchanged.add(name)
        elif callable(columns):
            known_columns = None
        else:
            known_columns = columns
        yield name, transformer, known_columns, like, same
    same = (
        bool(unchanged)
        and unchanged == fitted_columns.keys()
        and len(unchanged) == len(obj.transformers)
    )
    # If no columns remained, the fitted object has no remainder.
    like, known_columns = fitted_transformers.get("remainder", (None, ()))
    yield "remainder", obj.remainder, known_columns if same else None, like, same


def _same_columns(columns: Any, others: Any) -> bool:
    """Whether two selections surely select the same columns, even of fewer rows."""
    from sklearn.compose import make_column_selector

    if callable(columns):
        # Selectors compare names and types; other functions are not inspected.
        kinds = {type(columns), type(others)}
        return kinds == {make_column_selector} and repr(vars(columns)) == repr(
            vars(others)
        )
    if isinstance(columns, slice) or isinstance(others, slice):
        return type(columns) is type(others) and columns == others
    return not callable(others) and np.array_equal(columns, others)


def _selects_none(columns: Any) -> bool:
    """Whether a selection is empty, so that its transformer is not fitted."""
    if columns is None or isinstance(columns, (str, slice)) or not np.ndim(columns):
        return False
    columns = np.asarray(columns)
    return not columns.any() if columns.dtype == bool else not columns.size


def _collect_side_by_side(
    obj: Any,
    transformers: Sequence[tuple[str, Any, Any, bool, int | None]],
    active: set[str],
    context: Context,
) -> Findings:
    """Findings about transformers of the same rows: their releases add up.

    Parameters
    ----------
    obj : ColumnTransformer or FeatureUnion
    transformers : sequence of tuple
        Name and transformer; a fitted one like it; whether its input surely has the
        shape that the fitted one saw; and the number of its output columns, None if not
        known.
    active : set of str
        Names of the fitted transformers that are not dropped.
    context : Context
        Of `obj`.

    Returns
    -------
    findings : Findings
    """
    findings = Findings(noisy=True)
    findings.fixed = {name for name, *_ in transformers} == active
    for name, transformer, like, fixed, n_columns in transformers:
        if _is_identity(transformer):
            inner = Findings(noisy=context.noisy, fixed=fixed and _is_identity(like))
        else:
            inner = collect(transformer, replace(context, like=like, fixed=fixed))
        if not inner.noisy:
            columns = "columns" if n_columns is None else f"{n_columns} column(s)"
            inner.unprotected.append(
                f"{type(obj).__name__} passes on {columns} that no noise mechanism "
                f"made (transformer {name!r}), and later steps learn from them."
            )
        findings.add(inner)
        findings.noisy &= inner.noisy
        findings.fixed &= inner.fixed
        findings.raw |= inner.raw or not inner.noisy
    findings.raw &= any(r.in_pass for r in findings.releases)
    return findings


def _collect_voting(voting: Any, context: Context) -> Findings:
    findings = Findings(noisy=context.noisy)
    if context.planned:
        fitted = getattr(context.like, "named_estimators_", {})
        for name, estimator in voting.estimators:
            if not _is_dropped(estimator):
                like = fitted.get(name)
                findings.add(collect(estimator, replace(context, like=like)))
    else:
        for estimator in getattr(voting, "estimators_", ()):
            findings.add(collect(estimator, context))
    return findings


def _collect_transformed_target(model: Any, context: Context) -> Findings:
    from sklearn.linear_model import LinearRegression

    transformer, regressor, like = model.transformer, model.regressor, context.like
    if context.planned:
        regressor = LinearRegression() if regressor is None else regressor
        like = getattr(like, "regressor_", None)
    else:
        transformer = getattr(model, "transformer_", None)
        regressor = getattr(model, "regressor_", None)
    name = type(model).__name__
    hidden = _hidden_estimators(
        [transformer, model.func, model.inverse_func], Context()
    )
    findings = Findings()
    if hidden:
        # It transforms some of y more than once.
        findings.add(_collect_hidden(name, hidden))
    elif model.func is not None or reads_nothing(transformer):
        if not _is_identity(transformer):
            findings.unprotected += [
                f"{name} must compute each value of y from that value alone; its "
                f"function is not checked."
            ]
    elif transformer is not None:
        learner = type(transformer).__name__
        findings.unprotected += [
            f"What {learner} computes from y, all of it together: {name} passes y "
            f"through it before anything protects y."
        ]
        findings.learners_of_y += [learner]
    if regressor is not None:
        findings.add(collect(regressor, replace(context, like=like)))
    findings.noisy = context.noisy
    return findings


def _add_published_ids(findings: Findings) -> Findings:
    """Count published ids as a release, if all data of a user is protected."""
    known = [r.guarantee for r in findings.releases if r.guarantee is not None]
    for_users = [guarantee for guarantee in known if isinstance(guarantee.unit, int)]
    for name in findings.publishers if for_users else ():
        why = (
            f"{name} publishes the ids that occur in the data. Declare all ids in "
            f"`categories`."
        )
        findings.releases += [unprotected_release(f"fit of {name}", for_users[0], why)]
    if for_users:
        findings.publishers = []
    return findings
