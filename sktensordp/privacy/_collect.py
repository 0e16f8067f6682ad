"""One walk through an estimator and everything that it fits: what each part reveals.

Each kind of composition has one rule: steps in sequence, transformers side by side,
searches, and wrappers. If an estimator without a rule contains private estimators, it
is unknown what it does with them, and nobody counts as protected.
"""

import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from .._sklearn_compat import callbacks_of, splitter_of, validate_params
from ._guarantee import PrivacyGuarantee, in_words, unit_name
from ._protocol import (
    CompositeEstimator,
    PrivacyTags,
    PrivateEstimator,
    is_composite,
    privacy_tags,
    states_guarantee,
)
from ._searches import (
    PARAMETERS_CHANGED,
    READS_CV,
    SCORES_CAVEAT,
    RecordCounts,
    candidates_of,
    is_search,
    parameters_changed,
    record_counts,
)
from ._stateless import ignores_y, reads_nothing, told_by_refusals
from .budgets._open import contents

_SAME_PEOPLE = (
    "All calls of {} of {} count as if they were about the same people. Where some "
    "were about others, such as a test set that you scored, open a PrivacyBudget "
    "before you begin, and a part of its parallel() for each group of people."
)


@dataclass(frozen=True)
class Release:
    """What an estimator releases, and how often one record goes into it.

    Parameters
    ----------
    name : str
    guarantee : PrivacyGuarantee or None
        None if not even the unit is known.
    in_fit : int, default=1
        How often, at most, one record goes into the release while the estimator is
        fitted.
    in_pass : int, default=0
        Likewise for one later call that predicts, transforms or scores the record.
    why : str, default=""
        Why it is not known what the release reveals. The guarantee then states only the
        unit.
    protects : {"X", "y", "Xy"}, default=""
        Whose values are protected. Nothing that depends on protected values is public.
    """

    name: str
    guarantee: PrivacyGuarantee | None
    in_fit: int = 1
    in_pass: int = 0
    why: str = ""
    protects: str = ""


@dataclass
class Findings:
    """What is known about the privacy of an estimator.

    Parameters
    ----------
    releases : list of Release
    unprotected : list of str
        Sentences on what the guarantees leave out.
    publishers : list of str
        Classes that publish which ids occur in the data.
    learners, learners_of_y : list of str
        Classes whose fit learns from X without noise, or may learn so from y.
    refusals : dict of str
        Of learners that learn by their refusals alone: the cause and the cure.
    notes : list of str
        Sentences on what the guarantees suppose without need.
    divided : bool
        Whether records were divided among several fits in an unknown way.
    noisy : bool
        Whether the output is computed only from X with noise.
    raw : bool
        Whether columns that no mechanism made were passed on beside noisy ones.
    fixed : bool
        Whether the output has the shape that it had in the fitted object.
    """

    releases: list[Release] = field(default_factory=list)
    unprotected: list[str] = field(default_factory=list)
    publishers: list[str] = field(default_factory=list)
    learners: list[str] = field(default_factory=list)
    learners_of_y: list[str] = field(default_factory=list)
    refusals: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    divided: bool = False
    noisy: bool = False
    raw: bool = False
    fixed: bool = False

    def add(self, other: "Findings") -> None:
        """Add the findings of a component, except for noise and shape of its output."""
        self.releases += other.releases
        self.unprotected += other.unprotected
        self.publishers += other.publishers
        self.learners += other.learners
        self.learners_of_y += other.learners_of_y
        self.refusals |= other.refusals
        self.notes += other.notes
        self.divided |= other.divided
        self.raw |= other.raw


@dataclass(frozen=True)
class Context:
    """Where an estimator stands: in which pipeline or search, and after which steps.

    Parameters
    ----------
    counts : {"made", "refit", "call", "plan"}, default="made"
        Which releases count. "made": those that fitted estimators have made. "refit",
        for the refit of a search: the same, but one call of frozen estimators. "call":
        one call of fitted estimators. "plan": one fit with these parameters.
    like : object, default=None
        For a plan, the same estimator after a fit, perhaps with other parameters; None
        if there is none.
    noisy : bool, default=False
        Whether its input X already has noise.
    fixed : bool, default=False
        Whether its input X surely has the shape that `like` saw.
    """

    counts: Literal["made", "refit", "call", "plan"] = "made"
    like: object = None
    noisy: bool = False
    fixed: bool = False

    @property
    def planned(self) -> bool:
        return self.counts == "plan"


_Rule = Callable[[Any, Context], Findings]


def collect(obj: object, context: Context) -> Findings:
    """Findings about an estimator: its releases, what they leave out, and its output.

    If the class states a guarantee, it counts, whatever the estimator contains.

    Parameters
    ----------
    obj : estimator
    context : Context

    Returns
    -------
    findings : Findings
    """
    findings = _rule(obj, context)(obj, context)
    findings.unprotected += [
        f"What the callback {type(callback).__name__} computes: {type(obj).__name__} "
        f"passes it the data of its fit."
        for callback in callbacks_of(obj)
        # Estimators of this package pass no data, and a progress bar reads none.
        if not _is_ours(obj) and type(callback).__name__ != "ProgressBar"
    ]
    return findings


def _is_ours(obj: object) -> bool:
    """Whether the class of an object is one of this package, not a subclass of one."""
    return type(obj).__module__.startswith(f"{__name__.split('.')[0]}.")


def _rule(obj: object, context: Context) -> _Rule:
    """The rule for what an object does with its data and the estimators in it."""
    from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
    from sklearn.ensemble import VotingClassifier, VotingRegressor
    from sklearn.frozen import FrozenEstimator
    from sklearn.pipeline import FeatureUnion, Pipeline

    if states_guarantee(obj):
        return _collect_private
    if is_composite(obj):
        return _collect_composite
    if is_search(obj) and (context.planned or hasattr(obj, "cv_results_")):
        return _collect_search
    # Subclasses in other packages are left out: for example, a pipeline that resamples
    # uses a record more often.
    rules: dict[type, _Rule] = {
        list: _collect_fits,
        Pipeline: _collect_pipeline,
        ColumnTransformer: _collect_union,
        FeatureUnion: _collect_union,
        VotingClassifier: _collect_voting,
        VotingRegressor: _collect_voting,
        TransformedTargetRegressor: _collect_transformed_target,
        FrozenEstimator: _collect_frozen,
    }
    return rules.get(type(obj), _collect_other)


# --- what is fitted once -------------------------------------------------------------


def _collect_private(obj: PrivateEstimator, context: Context) -> Findings:
    """Findings about an estimator that states a guarantee."""
    findings = Findings(noisy=context.noisy, fixed=_keeps_shape(obj, context))
    findings.unprotected += obj.__privacy_unprotected__()
    name, tags = type(obj).__name__, privacy_tags(obj)
    method = tags.released_by
    findings.learners, findings.learners_of_y = learned_by(obj, noisy=context.noisy)
    guarantee: PrivacyGuarantee | None
    guarantee, why = getattr(obj, "privacy_guarantee_", None), ""
    made: dict[PrivacyGuarantee | None, int] = {}
    if context.planned:
        guarantee, why = _planned_or_reason(obj, context)
    elif context.counts != "call":
        made.update(obj.__privacy_releases__().items())
        findings.notes += tags.notes
        if method not in (None, "fit") and sum(made.values()) > 1:
            findings.notes += [_SAME_PEOPLE.format(method, name)]
    # An estimator that is not fitted has released nothing.
    if not made and (context.planned or guarantee is not None):
        made = {guarantee: 1}
    in_pass = int(method == "transform")
    since = () if context.planned else tags.conditions
    for each, count in made.items():
        told, protects = each and each.with_conditions(*since), _protected(tags, each)
        told = told and in_words(told, protected=tags.unit_in_words)
        findings.releases.append(
            Release(f"{method} of {name}", told, count, in_pass, why, protects)
        )
    # What `transform` returned has the noise of its calls, also where a class states
    # no guarantee in `fit`.
    stated = [guarantee] if guarantee is not None else list(made)
    if in_pass and stated and all(one and one.protects for one in stated):
        findings.noisy = True
    return findings


def learned_by(obj: PrivateEstimator, *, noisy: bool) -> tuple[list[str], list[str]]:
    """What an estimator with a guarantee learns from X, and from y, without noise.

    Parameters
    ----------
    obj : estimator
    noisy : bool
        Whether its input X already has noise.

    Returns
    -------
    learners, learners_of_y : list of str
        See `Findings`.
    """
    name, learns_from = type(obj).__name__, privacy_tags(obj).learns_from
    from_X = "X" in learns_from and not noisy
    return [name] * from_X, [name] * ("y" in learns_from)


def _protected(tags: PrivacyTags, guarantee: PrivacyGuarantee | None) -> str:
    """Whose values a guarantee protects: those of "X", of "y", or of both."""
    if guarantee is None:
        return ""
    if isinstance(guarantee.unit, int):
        return "Xy"
    if guarantee.unit == "entry" and tags.protects == "X":
        return "y"  # since coordinates are public
    return tags.protects


def _planned_or_reason(
    obj: PrivateEstimator, context: Context
) -> tuple[PrivacyGuarantee | None, str]:
    """Guarantee of a fit with these parameters, or None and the reason."""
    declared, of_fitted = (
        getattr(x, "tensor_shape", None) for x in (obj, context.like)
    )
    is_known = declared is not None or (context.fixed and of_fitted is None)
    try:
        validate_params(obj)
        return obj.__privacy_plan__(context.like, any_shape=not is_known), ""
    except (TypeError, ValueError) as error:
        return None, str(error)


def _keeps_shape(obj: object, context: Context) -> bool:
    """Whether the output of `obj` has the shape that it has in the fitted object."""
    return context.fixed and all(map(keeps_shape, (obj, context.like)))


def keeps_shape(step: object) -> bool:
    """Whether the output of a step has the shape of its input."""
    from sklearn.base import OneToOneFeatureMixin

    # With output="code", an encoder passes on codes of another shape.
    decoded = getattr(step, "output", "decoded") == "decoded"
    return decoded and isinstance(step, OneToOneFeatureMixin)


def _collect_other(obj: Any, context: Context) -> Findings:
    """Findings about an estimator that gives no guarantee and has no rule.

    It is not known how it uses the private estimators that it contains.
    """
    if _is_identity(obj):
        # If another step was in its place, later steps saw another shape.
        fixed = context.fixed and _is_identity(context.like)
        return Findings(noisy=context.noisy, fixed=fixed)
    if isinstance(obj, (type, tuple, set, dict)):  # which are not estimators
        return Findings()
    name = type(obj).__name__
    hidden = _hidden_in(obj, context.like, name)
    if hidden.releases:
        return hidden
    findings = Findings(noisy=context.noisy, fixed=_keeps_shape(obj, context))
    if privacy_tags(obj).publishes_ids:
        findings.publishers += [name]
    if reads_nothing(obj):
        if name == "FunctionTransformer" and not context.noisy:
            findings.unprotected += [
                f"{name} must compute each row from that row alone; its function is "
                f"not checked."
            ]
        return findings
    if _is_ours(obj) and hasattr(type(obj), "__privacy_unprotected__"):
        # An encoder of coordinates, which ignores y.
        findings.unprotected += [] if context.noisy else obj.__privacy_unprotected__()
        return findings
    if not context.noisy:
        refusal = told_by_refusals(obj)
        findings.refusals |= {name: refusal} if refusal else {}
        findings.unprotected += [
            refusal or f"What {name} learned in its fit; it gives no guarantee."
        ]
        findings.learners += [name]
    if not ignores_y(obj):
        findings.unprotected += [_learned_from_y(obj)] if context.noisy else []
        findings.learners_of_y += [name]
    return findings


def _learned_from_y(obj: BaseEstimator) -> str:
    """What a step after a mechanism learned from y, which has no noise."""
    from sklearn.utils import get_tags

    name = type(obj).__name__
    tags = get_tags(obj) if hasattr(obj, "__sklearn_tags__") else None
    if tags is None or not tags.target_tags.required:
        return f"If {name} was passed y, it learned from y without noise."
    kind = {"classifier": "the labels y", "regressor": "the targets y"}
    y = kind.get(str(tags.estimator_type), "y")
    return f"{name} learned from {y} without noise."


def _hidden_in(holder: object, like: object, name: str) -> Findings:
    """Findings about private estimators that `name` fits an unknown number of times.

    Parameters
    ----------
    holder : object
        Object that holds them as parameters, attributes or elements.
    like : object
        Object that may hold fitted ones, which know the unit.
    name : str
    """

    def inside(of: object) -> list[PrivateEstimator]:
        def is_private(item: object) -> TypeGuard[PrivateEstimator]:
            return item is not of and states_guarantee(item)

        return [item for item in contents(of, stop=is_private) if is_private(item)]

    releases: dict[type, Release] = {}
    hidden = inside(holder)
    kinds = set(map(type, hidden))
    for estimator in hidden + [one for one in inside(like) if type(one) in kinds]:
        kind = type(estimator)
        if kind in releases and releases[kind].guarantee is not None:
            continue
        guarantee = getattr(estimator, "privacy_guarantee_", None)
        if guarantee is None:
            guarantee, _ = _planned_or_reason(estimator, Context("plan"))
        method = privacy_tags(estimator).released_by
        release = f"{method} of {kind.__name__} in {name}"
        why = f"It is not known how often {name} fits {kind.__name__}."
        releases[kind] = Release(release, guarantee, why=why)
    return Findings(list(releases.values()))


# --- one after the other -------------------------------------------------------------


def _collect_pipeline(pipeline: BaseEstimator, context: Context) -> Findings:
    given, like = (
        [(name, "passthrough" if step is None else step) for name, step in steps]
        for steps in (pipeline.steps, getattr(context.like, "steps", ()))
    )
    fitted = dict(like)
    steps = [(step, fitted.get(name)) for name, step in given]
    # A step also transforms this metadata, for every later step that asks.
    more = len(pipeline.transform_input or ()) if context.planned else 0
    return _collect_steps(steps, context, more)


def _collect_composite(obj: CompositeEstimator, context: Context) -> Findings:
    """Findings about an estimator that fits clones as its steps."""
    try:
        steps = obj.__privacy_steps__(planned=context.planned)
    except (TypeError, ValueError) as error:
        return Findings([Release(f"fit of {type(obj).__name__}", None, why=str(error))])
    # A fit of this object alone has a guarantee that its steps know exactly.
    like = context.like
    alone = like is obj
    pairs = [(step, step if alone else None) for step in steps]
    findings = _collect_steps(pairs, context)
    if context.planned and type(like) is type(obj):
        # What was fitted knows the names of the columns of its table.
        fitted = like.__privacy_steps__(planned=False)  # type: ignore[union-attr]
        words = "".join(privacy_tags(step).unit_in_words for step in fitted)
        findings.releases = [
            replace(r, guarantee=r.guarantee and in_words(r.guarantee, protected=words))
            for r in findings.releases
        ]
    return findings


def _collect_steps(
    steps: Iterable[tuple[object, object]], context: Context, more: int = 0
) -> Findings:
    """Findings about steps, each of which works on the output of the one before.

    Parameters
    ----------
    steps : iterable of tuple
        Each step, and the fitted one like it.
    context : Context
    more : int, default=0
        How many more times each step transforms a record for each of the later steps.
    """
    findings, before, steps = Findings(), "", list(steps)
    for later, (step, like) in zip(reversed(range(len(steps))), steps, strict=True):
        in_step = collect(step, replace(context, like=like))
        in_step.releases = [
            replace(r, in_fit=r.in_fit + more * later * r.in_pass)
            for r in in_step.releases
        ]
        units = [r.guarantee.unit for r in in_step.releases if r.guarantee is not None]
        # The step before may mix the cells of a sample, but not those of two samples.
        if before and not context.noisy and "cell" in units:
            in_step.unprotected.append(
                f"The guarantee is for {unit_name('cell')} in the output of {before}, "
                f"not in X."
            )
        findings.add(in_step)
        findings.raw = in_step.raw or (findings.raw and not in_step.noisy)
        context = replace(context, noisy=in_step.noisy, fixed=in_step.fixed)
        before = before if _is_identity(step) else type(step).__name__
    findings.noisy, findings.fixed = context.noisy, context.fixed
    return findings


def _is_identity(step: Any) -> bool:
    """Whether a step passes on its input unchanged.

    ColumnTransformer replaces "passthrough" by a fitted FunctionTransformer.
    """
    from sklearn.preprocessing import FunctionTransformer

    if type(step) is FunctionTransformer:
        return step.func is None
    return isinstance(step, str) and step == "passthrough"


# --- side by side --------------------------------------------------------------------


def _collect_union(obj: BaseEstimator, context: Context) -> Findings:
    """Findings about transformers of the same rows: their releases add up."""
    like = context.like if context.planned else obj
    given, seen = _branches(obj, fitted=not context.planned), _branches(like)
    same = not context.planned or _same_columns(obj, like)
    if same:
        # The columns as the fit resolved them. Without remaining columns, there is no
        # remainder.
        known = [columns for _, _, columns in seen] + [()]
        given = [(n, t, c) for (n, t, _), c in zip(given, known, strict=False)]
    like_by_name = {name: transformer for name, transformer, _ in seen}
    sizes = getattr(like, "output_indices_", {}) if same else {}
    given, seen = _active(given), _active(seen)
    findings = Findings(noisy=True)
    findings.fixed = same and [name for name, *_ in given] == [n for n, *_ in seen]
    for name, transformer, _ in given:
        inner_context = replace(
            context, like=like_by_name.get(name), fixed=context.fixed and same
        )
        inner = collect(transformer, inner_context)
        if not inner.noisy:
            columns = "columns"
            if name in sizes:
                columns = f"{sizes[name].stop - sizes[name].start} column(s)"
            inner.unprotected.append(
                f"{type(obj).__name__} passes on {columns} that no noise mechanism "
                f"made (transformer {name!r}), and later steps learn from them."
            )
        findings.add(inner)
        findings.noisy &= inner.noisy
        findings.fixed &= inner.fixed
        findings.raw |= inner.raw or not inner.noisy
    findings.raw &= any(r.in_pass for r in findings.releases)
    if context.planned and not context.noisy and _selects_by_function(obj):
        findings.learners.append(type(obj).__name__)
    return findings


_Branch = tuple[str, Any, Any]


def _branches(union: BaseEstimator, *, fitted: bool = True) -> list[_Branch]:
    """Name, transformer and columns of each branch of a union; None for all columns."""
    if hasattr(union, "transformer_list"):
        return [(name, one, None) for name, one in union.transformer_list]
    if fitted:
        return list(getattr(union, "transformers_", ()))
    return [*union.transformers, ("remainder", union.remainder, None)]


def _active(branches: list[_Branch]) -> list[_Branch]:
    """The branches that are fitted: not dropped, and with columns."""
    return [
        (name, transformer, columns)
        for name, transformer, columns in branches
        if not _is_dropped(transformer) and not _selects_none(columns)
    ]


def _is_dropped(estimator: object) -> bool:
    return isinstance(estimator, str) and estimator == "drop"


def _selects_none(columns: ArrayLike | None) -> bool:
    """Whether a selection is empty, so that its transformer is not fitted."""
    if columns is None or not np.ndim(columns):
        return False
    columns = np.asarray(columns)
    return not columns.any() if columns.dtype == bool else not columns.size


def _same_columns(obj: BaseEstimator, like: BaseEstimator) -> bool:
    """Whether a union surely selects what fitted `like` did, even from fewer rows."""
    if type(like) is not type(obj) or any(map(_selects_by_function, (obj, like))):
        return False
    if not hasattr(like, "transformer_list") and not hasattr(like, "transformers_"):
        return False
    selections = [
        [(name, columns) for name, _, columns in _branches(union, fitted=False)]
        for union in (obj, like)
    ]
    names, found = [name for name, _ in selections[0]], [n for n, *_ in _branches(like)]
    # Compared as bytes, since arrays and selectors do not compare by value.
    return found in (names, names[:-1]) and len(set(map(pickle.dumps, selections))) == 1


def _selects_by_function(union: BaseEstimator) -> bool:
    """Whether a function selects columns. Selectors compare names and types alone."""
    from sklearn.compose import make_column_selector

    return any(
        callable(columns) and type(columns) is not make_column_selector
        for _, _, columns in _branches(union, fitted=False)
    )


def _collect_voting(voting: BaseEstimator, context: Context) -> Findings:
    from sklearn.ensemble import VotingClassifier

    like = context.like if context.planned else voting
    fitted = dict(getattr(like, "named_estimators_", {}))
    given = voting.estimators if context.planned else fitted.items()
    findings = _collect_each(
        [(one, fitted.get(name)) for name, one in given if not _is_dropped(one)],
        context,
    )
    if isinstance(voting, VotingClassifier):
        # It passes on numbers of classes in place of labels, and one label may change
        # all of them.
        name = type(voting).__name__
        findings.unprotected += [
            f"The labels that occur in y, which {name} lists as its classes_."
        ]
        findings.learners_of_y += [name]
    return findings


def _collect_fits(fits: list[object], context: Context) -> Findings:
    """Findings about separate fits, such as those of a cross-validation."""
    findings = _collect_each([(fit, fit) for fit in fits], context)
    findings.divided |= len(fits) > 1
    return findings


def _collect_each(
    estimators: Iterable[tuple[object, object]], context: Context
) -> Findings:
    """Findings about estimators, each with the fitted one like it."""
    findings = Findings(noisy=context.noisy)
    for estimator, like in estimators:
        findings.add(collect(estimator, replace(context, like=like)))
    return findings


# --- wrappers ------------------------------------------------------------------------


def _collect_frozen(frozen: BaseEstimator, context: Context) -> Findings:
    """Findings about a frozen estimator, whose guarantee is that of the earlier fit.

    All fits of a search share it, so it has counted the releases of all of them.
    """
    counts: Literal["made", "call"] = "made" if context.counts == "made" else "call"
    findings = collect(frozen.estimator, Context(counts, noisy=context.noisy))
    findings.fixed = context.fixed and context.like is frozen
    # It learned before this fit.
    findings.learners, findings.learners_of_y = [], []
    return findings


def _collect_transformed_target(model: BaseEstimator, context: Context) -> Findings:
    from sklearn.linear_model import LinearRegression
    from sklearn.preprocessing import FunctionTransformer

    name, like = type(model).__name__, context.like
    if context.planned:
        transformer, regressor = model.transformer, model.regressor
        like = getattr(like, "regressor_", None)
        if transformer is None:
            transformer = FunctionTransformer(model.func, model.inverse_func)
        regressor = LinearRegression() if regressor is None else regressor
    else:
        transformer = getattr(model, "transformer_", "passthrough")
        regressor = getattr(model, "regressor_", "passthrough")
    # It transforms some of y more than once.
    findings = _hidden_in([transformer], None, name)
    if findings.releases or _is_identity(transformer):
        pass
    elif reads_nothing(transformer):
        findings.unprotected += [
            f"{name} must compute each value of y from that value alone; its function "
            f"is not checked."
        ]
    else:
        learner = type(transformer).__name__
        findings.unprotected += [
            f"What {learner} computes from y, all of it together: {name} passes y "
            f"through it before anything protects y."
        ]
        findings.learners_of_y += [learner]
    findings.add(collect(regressor, replace(context, like=like)))
    findings.noisy = context.noisy
    return findings


# --- searches ------------------------------------------------------------------------


def _collect_search(search: BaseEstimator, context: Context) -> Findings:
    """Findings about a search, fitted or planned, each of whose fits is a release."""
    from sklearn.base import clone

    planned = context.planned
    counts = record_counts(search, planned=planned)
    candidates = candidates_of(search, planned=planned)
    if counts is None or candidates is None:
        return _collect_other(search, context)
    best = getattr(context.like if planned else search, "best_estimator_", None)
    # Without `refit`, the attribute would be that of an earlier fit.
    like = best if planned or search.refit else None
    fixed = context.fixed or not planned
    findings, releases_of_any = Findings(noisy=True), []
    for params in candidates:
        # Cloned, since parameters can be estimators that other parameters change.
        params = clone(params, safe=False)
        candidate = clone(search.estimator).set_params(**params)
        fit = collect(candidate, Context("plan", like, context.noisy, fixed))
        if fit.releases not in releases_of_any:
            releases_of_any.append(fit.releases)
        fit.releases = [
            _repeated(f"candidate {params}: {release.name}", release, counts)
            for release in fit.releases
        ]
        findings.add(fit)
        findings.noisy &= fit.noisy
    if planned:
        # It is not known which candidate will be refitted.
        findings.releases += [
            replace(release, name=f"refit with any of these: {release.name}")
            for releases in (releases_of_any if search.refit else ())
            for release in releases
        ]
    elif best is not None and (
        search.refit or all(r.guarantee for r in findings.releases)
    ):
        # `refit` may have been set to False before this fit, or after it.
        name = f"refit with {search.best_params_}" if search.refit else ""
        refit = _refit_of(best, name or "refit, maybe of an earlier fit", context)
        if search.refit and refit.releases and parameters_changed(search):
            guarantee = refit.releases[0].guarantee
            findings.releases += [
                Release("fits of the search", guarantee, why=PARAMETERS_CHANGED)
            ]
        findings.add(refit)
        findings.noisy = refit.noisy
    if not findings.releases:
        # It chooses by scores, whatever its candidates learn.
        name = type(search).__name__
        if not (context.noisy or findings.learners):
            findings.learners += [name]
        findings.learners_of_y += [name]
    findings.unprotected += [SCORES_CAVEAT, *counts.unprotected]
    if not planned and splitter_of(search) is None:
        findings.unprotected += [READS_CV]
    return findings


def _refit_of(best: BaseEstimator, name: str, context: Context) -> Findings:
    """Findings about the estimator that a fitted search has refitted."""
    counts: Literal["call", "refit"] = "call" if context.counts == "call" else "refit"
    refit = collect(best, replace(context, like=None, counts=counts))
    refit.releases = [
        replace(release, name=f"{name}: {release.name}") for release in refit.releases
    ]
    return refit


def _repeated(name: str, release: Release, counts: RecordCounts) -> Release:
    """A release of a candidate, counted as often as the search makes it."""
    if release.guarantee is None:
        return replace(release, name=name, in_pass=0)
    times = counts.max_uses(
        release.guarantee.unit,
        protects_y="y" in release.protects,
        in_fit=release.in_fit,
        in_pass=release.in_pass,
    )
    if isinstance(times, int):
        return replace(release, name=name, in_fit=times, in_pass=0)
    return replace(release, name=name, in_fit=1, in_pass=0, why=times)
