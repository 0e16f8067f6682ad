"""What an estimator, a pipeline or a search reveals, all releases together."""

import html
from dataclasses import dataclass
from typing import Any

from ._guarantee import PrivacyGuarantee, compose, shown

__all__ = ["PrivacyReport", "privacy_of"]


@dataclass(frozen=True)
class PrivacyReport:
    """What an object reveals about one unit, and what its guarantee leaves out.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
        Composition of all releases.
    unprotected : tuple of str
        What the guarantee does not cover.
    releases : tuple of (str, int, PrivacyGuarantee)
        What was released, how often one record went into it at most, and what one
        such release reveals.
    """

    guarantee: PrivacyGuarantee
    unprotected: tuple[str, ...]
    releases: tuple[tuple[str, int, PrivacyGuarantee], ...]

    def __str__(self) -> str:
        lines = [f"All releases together: {self.guarantee}"]
        for name, count, one in self.releases:
            lines.append(f"  {count} x epsilon = {shown(one.epsilon)}: {name}")
        lines.append("Not protected:")
        lines += [f"  - {sentence}" for sentence in self.unprotected]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{count}</td>"
            f"<td>{shown(one.epsilon)}</td></tr>"
            for name, count, one in self.releases
        )
        items = "".join(f"<li>{html.escape(s)}</li>" for s in self.unprotected)
        return (
            f"{self.guarantee._repr_html_()}<table><tr><th>release</th><th>times</th>"
            f"<th>epsilon</th></tr>{rows}</table><p>Not protected:</p><ul>{items}</ul>"
        )


def privacy_of(obj: Any) -> PrivacyReport:
    """What a fitted estimator, pipeline or hyper-parameter search reveals.

    A completion releases in its fit, a noise mechanism at every call of `transform`;
    a fitted mechanism or pipeline is counted for one call. In a search, a record goes
    into the training part of most folds, for every candidate, and once more into the
    refit; every such fit is a release, and a mechanism also transforms the held-out
    part, to be scored. What cannot be seen is counted as if it were worst. What
    follows a noise mechanism in a pipeline is computed from its output, and from y.

    Parameters
    ----------
    obj : estimator, Pipeline, GridSearchCV or RandomizedSearchCV
        Fitted.

    Returns
    -------
    report : PrivacyReport

    Raises
    ------
    TypeError
        If nothing in `obj` gives a guarantee, or if something in it fits private
        estimators in a way that is not counted (bagging, a search in a search).

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sktensordp.completion import CPCompletion
    >>> from sktensordp.datasets import make_ratings
    >>> from sktensordp.privacy import privacy_of
    >>> ratings = make_ratings(20, 20, 300, random_state=0)
    >>> model = CPCompletion(rank=1, value_bounds=(0.5, 5), max_iter=2)
    >>> search = GridSearchCV(model, {"epsilon": [1.0, 2.0]}, cv=3).fit(
    ...     ratings.data, ratings.target)
    >>> report = privacy_of(search)
    >>> [(count, one.epsilon) for _, count, one in report.releases[:2]]
    [(2, 1.0), (2, 2.0)]
    >>> report.guarantee.epsilon == 6 + search.best_params_["epsilon"]
    True
    """
    releases, unprotected = _collect(obj)
    if not releases:
        raise TypeError(f"Nothing in this {type(obj).__name__} gives a guarantee.")
    repeated = [one for _, count, one in releases for _ in range(count)]
    total = repeated[0] if len(repeated) == 1 else compose(*repeated)
    return PrivacyReport(total, tuple(dict.fromkeys(unprotected)), tuple(releases))


def _collect(obj, like=None):
    """Releases and unprotected quantities of a fitted object.

    With `like`, those planned by an unfitted one, `like` being the same with other
    parameters, fitted (None where there is none).
    """
    from sklearn.frozen import FrozenEstimator

    planned = like is not None
    if isinstance(obj, FrozenEstimator):
        # No search fits it again: what it guarantees is what it was fitted for.
        obj, planned = obj.estimator, False
    if hasattr(obj, "cv_results_") and hasattr(obj, "estimator"):
        return _collect_search(obj)
    if hasattr(obj, "steps"):
        return _collect_pipeline(obj, like)
    unprotected = list(obj._unprotected()) if hasattr(obj, "_unprotected") else []
    name = type(obj).__name__
    if hasattr(obj, "_planned_guarantee"):
        what = f"{obj._released_by} of {name}"
        if planned:
            return [(what, 1, obj._planned_guarantee(like))], unprotected
        if hasattr(obj, "privacy_guarantee_"):
            return [(what, 1, obj.privacy_guarantee_)], unprotected
    if any(hasattr(p, "_planned_guarantee") for p in _parameters(obj)):
        raise TypeError(f"{name} fits private estimators in a way that is not counted.")
    if not unprotected:
        unprotected = [f"What {name} learned in its fit; it gives no guarantee."]
    return [], unprotected


def _parameters(obj):
    return obj.get_params(deep=True).values() if hasattr(obj, "get_params") else ()


def _collect_pipeline(pipeline, like):
    releases, unprotected = [], []
    protected = False
    others = dict(getattr(like, "steps", ()))
    for name, step in pipeline.steps:
        if step is None or step == "passthrough":
            continue
        fitted = None if like is None else others.get(name, _NOTHING)
        found, left_out = _collect(step, fitted)
        if protected and not found:
            left_out = [
                f"What {type(step).__name__} learned from y, if it was passed any; X "
                f"came to it with noise."
            ]
        releases += found
        unprotected += left_out
        protected |= getattr(step, "_released_by", None) == "transform"
    return releases + _published_ids(pipeline, releases), unprotected


def _published_ids(pipeline, releases):
    """What steps publish of who is there, where everything of a user is protected."""
    from dp_accounting import dp_event

    of_users = [one for _, _, one in releases if isinstance(one.unit, int)]
    published = []
    for _, step in pipeline.steps if of_users else ():
        if getattr(step, "_publishes_ids", False):
            name = type(step).__name__
            guarantee = PrivacyGuarantee.of(
                dp_event.NonPrivateDpEvent(),
                unit=of_users[0].unit,
                relation=of_users[0].relation,
                statement=f"{name} publishes the ids that occur; declare categories.",
                source="not private",
            )
            published.append((f"fit of {name}", 1, guarantee))
    return published


# Stands for a fitted object that there is not.
_NOTHING = object()


def _times_used(search, releases_in_transform, of_a_mode):
    """How often one record goes into the releases of one candidate, at most.

    Everything at one index of a mode may be in all parts of a partition, unless the
    groups of the search say otherwise, which cannot be seen afterwards.
    """
    from sklearn.model_selection import (
        GroupKFold,
        KFold,
        LeaveOneOut,
        StratifiedGroupKFold,
        StratifiedKFold,
    )

    partitions = (KFold, StratifiedKFold, GroupKFold, StratifiedGroupKFold, LeaveOneOut)
    n_splits = search.n_splits_
    each_tested_once = search.cv is None or isinstance(search.cv, (int, *partitions))
    fits = n_splits - 1 if each_tested_once and not of_a_mode else n_splits
    if not releases_in_transform:
        return fits
    # Training parts are transformed in the fit, and again for every training score.
    per_score = _times_scored(search.scoring)
    trained = fits * (1 + (per_score if search.return_train_score else 0))
    return trained + per_score * (1 if each_tested_once else n_splits)


def _times_scored(scoring):
    """How often samples are transformed to be scored, at most."""
    if scoring is None or isinstance(scoring, str):
        return 1
    if isinstance(scoring, dict):
        return sum(map(_times_scored, scoring.values()))
    if isinstance(scoring, (list, tuple, set)):
        return len(scoring)
    if hasattr(scoring, "_response_method"):  # of make_scorer
        return 1
    raise TypeError(
        "How often a scoring function transforms the samples cannot be seen; make it "
        "with make_scorer, or pass its name."
    )


def _collect_search(search):
    from sklearn.base import clone

    releases, unprotected = [], []
    # An attribute may be left from an earlier fit that was refitted.
    best = search.best_estimator_ if search.refit else _NOTHING
    for params in search.cv_results_["params"]:
        candidate = clone(search.estimator).set_params(**params)
        found, left_out = _collect(candidate, best)
        for what, count, one in found:
            of_a_mode = isinstance(one.unit, int)
            times = _times_used(search, what.startswith("transform of "), of_a_mode)
            releases.append((f"candidate {params}: {what}", count * times, one))
        unprotected += left_out
    if not releases:
        return [], unprotected
    if best is not _NOTHING:
        found, left_out = _collect(best)
        releases += [
            (f"refit with {search.best_params_}: {what}", count, one)
            for what, count, one in found
        ]
        unprotected += left_out
    unprotected += [
        "The scores and the choice made by them (cv_results_, best_score_, "
        "best_params_, best_index_) are computed from the raw values held out."
    ]
    return releases, unprotected
