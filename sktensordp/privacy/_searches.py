"""How often the fits of a search use one record; what is found on the way."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ._guarantee import PrivacyGuarantee

__all__ = ["Context", "Findings", "Release", "collect_search", "is_search", "unseen"]

# What maps an estimator and its setting to what is found in it.
_Collect = Callable[[Any, "Context"], "Findings"]

_SEARCHES = (
    "GridSearchCV",
    "RandomizedSearchCV",
    "HalvingGridSearchCV",
    "HalvingRandomSearchCV",
)
_CHOICE = (
    "The scores and the choice made by them (cv_results_, best_score_, "
    "best_params_, best_index_) are computed from the raw values held out."
)
_CHANGED = (
    "Parameters of this search or of its best_estimator_ were set after the fit, so "
    "that what its candidates revealed cannot be seen."
)


@dataclass(frozen=True)
class Release:
    """What an estimator releases, and how often one record goes into it.

    Parameters
    ----------
    name : str
    guarantee : PrivacyGuarantee or None
        None where not even the unit is known; `why` then says what is missing.
    in_fit : int, default=1
        Times that one record goes in while the estimator is fitted, at most.
    in_pass : int, default=0
        Times that one record goes in when the estimator then predicts, transforms or
        scores it once, at most.
    why : str, default=""
    """

    name: str
    guarantee: PrivacyGuarantee | None
    in_fit: int = 1
    in_pass: int = 0
    why: str = ""


@dataclass
class Findings:
    """What was found in an estimator.

    Parameters
    ----------
    releases : list of Release
    unprotected : list of str
    noisy : bool
        Whether all that it passes on is computed from X with noise alone.
    fixed : bool
        Whether what it passes on has the shape that it had in the fitted object.
    publishers : list of str
        Classes that publish which ids occur, their releases not yet counted.
    learners : list of str
        Classes that learn from X without noise in their fit.
    learners_of_y : list of str
        Classes that may learn from y, to which nothing adds noise before.
    raw : bool
        Whether columns that no mechanism made are passed on beside noisy ones.
    dense : bool
        Whether X holds the values that a completion protects.
    """

    releases: list[Release] = field(default_factory=list)
    unprotected: list[str] = field(default_factory=list)
    noisy: bool = False
    fixed: bool = False
    publishers: list[str] = field(default_factory=list)
    learners: list[str] = field(default_factory=list)
    learners_of_y: list[str] = field(default_factory=list)
    raw: bool = False
    dense: bool = False

    def add(self, other: "Findings") -> None:
        """Take in what was found in a part; not what it passes on."""
        self.releases += other.releases
        self.unprotected += other.unprotected
        self.publishers += other.publishers
        self.learners += other.learners
        self.learners_of_y += other.learners_of_y
        self.dense |= other.dense


@dataclass(frozen=True)
class Context:
    """Where an estimator stands.

    Parameters
    ----------
    planned : bool, default=False
        Whether it is not fitted itself: what its fits reveal is planned.
    like : object, default=None
        The same with other parameters, fitted, where there is one.
    noisy : bool, default=False
        Whether X comes to it with noise.
    fixed : bool, default=False
        Whether X surely has the shape that `like` saw.
    """

    planned: bool = False
    like: Any = None
    noisy: bool = False
    fixed: bool = False


def unseen(name: str, like: PrivacyGuarantee, statement: str) -> Release:
    """Release of which must be assumed that it protects nothing.

    Parameters
    ----------
    name : str
    like : PrivacyGuarantee
        Whose unit and relation it takes.
    statement : str
        What could not be seen.

    Returns
    -------
    release : Release
    """
    from dp_accounting import dp_event

    guarantee = PrivacyGuarantee.of(
        dp_event.NonPrivateDpEvent(),
        unit=like.unit,
        relation=like.relation,
        statement=statement,
        source="not private",
    )
    return Release(name, guarantee)


def is_search(obj: Any) -> bool:
    """Whether `obj` is a search whose fits are all in its `cv_results_`.

    Parameters
    ----------
    obj : object

    Returns
    -------
    known : bool
        False for subclasses, which may do more.
    """
    kind = type(obj)
    # By name: importing the halving searches needs a switch that is the user's.
    return kind.__name__ in _SEARCHES and kind.__module__.startswith(
        "sklearn.model_selection."
    )


def collect_search(search: Any, context: Context, collect: _Collect) -> Findings | None:
    """What a search reveals, fitted or planned.

    Parameters
    ----------
    search : object
        For which `is_search` holds.
    setting : Context
    collect : callable
        Maps an estimator and its setting to what is found in it.

    Returns
    -------
    found : Findings or None
        None if a planned search does not say what it is going to fit.
    """
    from sklearn.base import clone

    if context.planned:
        counts, candidates = _planned_uses(search), _planned_candidates(search)
        best = getattr(context.like, "best_estimator_", None)
        if counts is None or candidates is None:
            return None
    else:
        counts, candidates = _fitted_uses(search), search.cv_results_["params"]
        # An attribute may be left from an earlier fit that was refitted.
        best = search.best_estimator_ if search.refit else None
    at = Context(True, best, context.noisy, context.fixed or not context.planned)
    findings, inside = Findings(noisy=True), []
    for params in candidates:
        # Cloned, since parameters can be estimators that other parameters change.
        params = clone(params, safe=False)
        one = collect(clone(search.estimator).set_params(**params), at)
        inside.append(one.releases)
        findings.noisy &= one.noisy
        one.releases = [
            _counted(f"candidate {params}: {release.name}", release, counts)
            for release in one.releases
        ]
        findings.add(one)
    if context.planned and search.refit:
        findings.releases += _planned_refit(inside)
    elif not context.planned:
        _add_refit(search, best, replace(context, like=None), findings, collect)
    findings.unprotected += [
        release.why for release in findings.releases if release.why
    ] + [_CHOICE]
    return findings


def _add_refit(
    search: Any, best: Any, context: Context, findings: Findings, collect: _Collect
) -> None:
    """Take in what the refit revealed."""
    left = getattr(search, "best_estimator_", None)
    if best is not None:
        refit = collect(best, context)
        what = f"refit with {search.best_params_}"
    elif left is not None and all(r.guarantee for r in findings.releases):
        # `refit` was taken back before this fit, or after it.
        refit, what = collect(left, context), "refit, maybe of an earlier fit"
    else:
        return
    if best is not None and refit.releases and _is_changed(search):
        known = [r.guarantee for r in refit.releases if r.guarantee]
        findings.releases += [
            unseen("fits of the search", g, _CHANGED) for g in known[:1]
        ]
        findings.unprotected += [_CHANGED]
    findings.noisy = refit.noisy
    refit.releases = [
        replace(release, name=f"{what}: {release.name}") for release in refit.releases
    ]
    findings.add(refit)


def _planned_refit(inside: list[list[Release]]) -> list[Release]:
    """Releases of a refit with any of the candidates: all that differ are counted."""
    distinct: list[list[Release]] = []
    for releases in inside:
        if releases not in distinct:
            distinct.append(releases)
    return [
        replace(release, name=f"refit with any of these: {release.name}")
        for releases in distinct
        for release in releases
    ]


def _is_changed(search: Any) -> bool:
    """Whether the best candidate has other parameters than what was refitted."""
    from sklearn.base import clone

    params = clone(search.best_params_, safe=False)
    planned = clone(search.estimator).set_params(**params).get_params()
    fitted = search.best_estimator_.get_params()
    # By what they print, so that NaN is NaN.
    return any(
        _is_simple(planned[name])
        and _is_simple(fitted[name])
        and repr(planned[name]) != repr(fitted[name])
        for name in planned.keys() & fitted.keys()
    )


def _is_simple(value: Any) -> bool:
    """Whether two values are the same just if they print the same."""
    if isinstance(value, (tuple, list)):
        return all(map(_is_simple, value))
    return value is None or isinstance(value, (bool, int, float, str))


@dataclass(frozen=True)
class _RecordCounts:
    """How often one record is in the parts of a search.

    Parameters
    ----------
    n_splits : int
    memberships : tuple of (int, int) or None
        All that one record can be: so often in a training part, so often in a test
        part. None if that cannot be seen.
    per_score : int or None
        Times that samples are passed through the estimator to be scored; None if that
        cannot be seen.
    trained_are_scored : bool
    """

    n_splits: int
    memberships: tuple[tuple[int, int], ...] | None
    per_score: int | None
    trained_are_scored: bool

    def most(self, release: Release) -> int | None:
        """How often one record goes into the releases of one candidate, at most."""
        scored = 0
        if release.in_pass:
            if self.per_score is None:
                return None
            scored = release.in_pass * self.per_score
        trained = release.in_fit + scored * self.trained_are_scored
        assert release.guarantee is not None
        if isinstance(release.guarantee.unit, int):
            # What is at one index of a mode may be in all parts, unless the groups
            # of the search say otherwise, which cannot be seen afterwards.
            return self.n_splits * (trained + scored)
        if self.memberships is None:
            return None
        return max(train * trained + test * scored for train, test in self.memberships)


def _counted(name: str, release: Release, counts: _RecordCounts) -> Release:
    """A release of a candidate, as the search repeats it."""
    if release.guarantee is None:
        return replace(release, name=name, in_pass=0)
    times = counts.most(release)
    if times is not None:
        return replace(release, name=name, in_fit=times, in_pass=0)
    if release.in_pass and counts.per_score is None:
        why = (
            "How often a scoring function transforms the samples cannot be seen; make "
            "it with make_scorer, or pass its name."
        )
    else:
        why = (
            "How often a splitter that is not scikit-learn's puts one record into a "
            "part cannot be seen; pass its splits as a list."
        )
    return replace(unseen(name, release.guarantee, why), why=why)


def _fitted_uses(search: Any) -> _RecordCounts:
    from sklearn.model_selection import check_cv

    # Parameters may have been set after the fit: what the fit left is read instead.
    cv = getattr(search, "_checked_cv_orig", None) or check_cv(search.cv)
    return _RecordCounts(
        search.n_splits_,
        _memberships(cv, search.n_splits_),
        _times_scored(search.scorer_),
        any(name.startswith("mean_train_") for name in search.cv_results_),
    )


def _planned_uses(search: Any) -> _RecordCounts | None:
    """None if the number of splits depends on the data."""
    from sklearn.model_selection import check_cv

    try:
        cv = check_cv(search.cv)
        n_splits = cv.get_n_splits()
    except (TypeError, ValueError):
        return None
    per_score = _times_scored(search.scoring)
    scored = search.return_train_score
    return _RecordCounts(n_splits, _memberships(cv, n_splits), per_score, scored)


def _planned_candidates(search: Any) -> list[dict[str, Any]] | None:
    """All that a planned search may fit; None if that depends on chance or data."""
    from sklearn.model_selection import GridSearchCV, ParameterGrid, RandomizedSearchCV

    if type(search) is GridSearchCV:
        return list(ParameterGrid(search.param_grid))
    if type(search) is RandomizedSearchCV:
        given = search.param_distributions
        for one in [given] if isinstance(given, dict) else given:
            if any(hasattr(values, "rvs") for values in one.values()):
                return None
        # Which of them it draws is not known; it draws none twice.
        return list(ParameterGrid(given))
    return None


def _memberships(cv: Any, n_splits: int) -> tuple[tuple[int, int], ...] | None:
    """How often one record can be in a training part and in a test part."""
    from sklearn.model_selection import (
        GroupKFold,
        KFold,
        LeaveOneGroupOut,
        LeaveOneOut,
        RepeatedKFold,
        RepeatedStratifiedKFold,
        StratifiedGroupKFold,
        StratifiedKFold,
    )

    partitions = (
        KFold,
        StratifiedKFold,
        GroupKFold,
        StratifiedGroupKFold,
        LeaveOneOut,
        LeaveOneGroupOut,
    )
    if type(cv) in partitions:
        return ((n_splits - 1, 1),)
    if type(cv) in (RepeatedKFold, RepeatedStratifiedKFold):
        return ((n_splits - cv.n_repeats, cv.n_repeats),)
    if type(cv).__module__ != "sklearn.model_selection._split":
        return None
    if hasattr(cv, "cv"):
        return _listed(cv.cv)
    # The parts of a split are disjoint and hold no record twice.
    return (n_splits, 0), (0, n_splits)


def _listed(splits: Any) -> tuple[tuple[int, int], ...] | None:
    """The same for splits that are given as arrays; a record may be there twice."""
    counts = []
    for part in (0, 1):
        indices = [np.asarray(split[part]) for split in splits]
        indices = [np.flatnonzero(i) if i.dtype == bool else i for i in indices]
        indices = [i for i in indices if i.size]
        if any(i.dtype.kind not in "iu" or i.min() < 0 for i in indices):
            return None
        together = np.concatenate(indices) if indices else np.zeros(0, int)
        counts.append(np.bincount(together.astype(np.int64)))
    size = max(map(len, counts))
    train, test = (np.pad(c, (0, size - len(c))) for c in counts)
    return tuple({(int(a), int(b)) for a, b in zip(train, test, strict=True)})


def _times_scored(scoring: Any) -> int | None:
    """How often samples are passed through the estimator to be scored, at most."""
    from sklearn.linear_model import Ridge
    from sklearn.metrics import check_scoring, get_scorer

    if isinstance(scoring, (list, tuple, set)):
        return len(scoring)
    if isinstance(scoring, dict):
        times: list[Any] = [_times_scored(one) for one in scoring.values()]
        return None if None in times else sum(times)
    # Of make_scorer, and of an estimator's own score.
    known = (type(get_scorer("accuracy")), type(check_scoring(Ridge())))
    if scoring is None or isinstance(scoring, str) or type(scoring) in known:
        return 1
    return None
