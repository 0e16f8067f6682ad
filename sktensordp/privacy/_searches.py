"""What a search reveals: the releases of its fits, and how often each uses one record.

Also the values in which findings about estimators travel: `Release`, `Findings` and
`Context`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ._guarantee import PrivacyGuarantee

# Maps an estimator and its context to the findings in it.
_Collect = Callable[[Any, "Context"], "Findings"]

_SEARCHES = (
    "GridSearchCV",
    "RandomizedSearchCV",
    "HalvingGridSearchCV",
    "HalvingRandomSearchCV",
)
SCORES_CAVEAT = (
    "The scores and the choice of the best candidate (cv_results_, best_score_, "
    "best_params_, best_index_): they are computed from the raw values held out."
)
_OTHERS_MOVE = (
    "{} splits by position, rank or number of records, so that one unit's data decide "
    "which other units each fit gets. Use UserKFold, UserHoldout or ItemHoldout."
)
_BY_VALUES = (
    "{} splits by the values, so that one value decides which other records each fit "
    "gets. Use KFold or ShuffleSplit, or UserKFold."
)
_DRAWS_ROWS = (
    'A halving search with resource="n_samples" draws rows by position, so that it is '
    "not known which records each fit gets. Use another resource, or GridSearchCV."
)
_UNKNOWN_SPLITS = (
    "It is not known what the splits depend on, because they were passed as a list or "
    "come from an unknown splitter. Use KFold or ShuffleSplit, or UserKFold."
)
_READS_CV = (
    "This version of scikit-learn does not store how a search split the data, so the "
    "guarantee supposes that `cv` is still what it was in the fit. scikit-learn 1.9 "
    "stores it."
)
_UNKNOWN_SCORING = (
    "It is not known how often a scoring function transforms the samples. Make it with "
    "make_scorer, or pass the name of a scorer. To score the last step on raw samples, "
    "transform once and search on the released samples."
)
_PARAMETERS_CHANGED = (
    "Parameters of this search or of its best_estimator_ were set after the fit, so "
    "it is not known what its candidates revealed. Fit the search again."
)


@dataclass(frozen=True)
class Release:
    """What an estimator releases, and how often one record goes into it.

    Parameters
    ----------
    name : str
    guarantee : PrivacyGuarantee or None
        None if not even the unit is known; `why` then says what is missing.
    in_fit : int, default=1
        How often, at most, one record goes into the release while the estimator is
        fitted.
    in_pass : int, default=0
        The same for one later call that predicts, transforms or scores the record.
    why : str, default=""
        Why the estimator's own guarantee does not count.
    protects_y : bool, default=False
        Whether the target of a record is protected with it, so that nothing may be
        split by targets.
    """

    name: str
    guarantee: PrivacyGuarantee | None
    in_fit: int = 1
    in_pass: int = 0
    why: str = ""
    protects_y: bool = False


@dataclass
class Findings:
    """What is known about the privacy of an estimator.

    Parameters
    ----------
    releases : list of Release
    unprotected : list of str
        Sentences on what the guarantees leave out.
    noisy : bool
        Whether the output is computed only from X with noise.
    fixed : bool
        Whether the output has the shape that it had in the fitted object.
    publishers : list of str
        Classes that publish which ids occur in the data, and whose releases are not
        counted yet.
    learners : list of str
        Classes whose fit learns from X without noise.
    learners_of_y : list of str
        Classes whose fit may learn from y, to which nothing adds noise.
    raw : bool
        Whether the output has columns that no mechanism made, next to noisy ones.
    dense : bool
        Whether X holds the values that a completion protects.
    divided : bool
        Whether records were divided among several fits, nobody knows how.
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
    divided: bool = False

    def add(self, other: "Findings") -> None:
        """Add the findings of a component, except those about its output."""
        self.releases += other.releases
        self.unprotected += other.unprotected
        self.publishers += other.publishers
        self.learners += other.learners
        self.learners_of_y += other.learners_of_y
        self.dense |= other.dense
        self.divided |= other.divided


@dataclass(frozen=True)
class Context:
    """Where an estimator stands: in which pipeline or search, and after what.

    Parameters
    ----------
    planned : bool, default=False
        Whether the estimator is not fitted itself, so that the findings are about the
        fits that its parameters plan.
    like : object, default=None
        The same estimator, fitted, perhaps with other parameters; None if unknown.
    noisy : bool, default=False
        Whether its input X already has noise.
    fixed : bool, default=False
        Whether its input X surely has the shape that `like` saw.
    alone : bool, default=True
        Whether the estimator is in no pipeline or search. It may then have been fitted
        to public data, and the report is about what it releases of others.
    in_search : bool, default=False
        Whether the fits of a search use the estimator or, if it is fitted, what is
        frozen in it.
    counted : bool, default=True
        Whether the releases are those that the estimator has counted; if not, one call.
    """

    planned: bool = False
    like: object = None
    noisy: bool = False
    fixed: bool = False
    alone: bool = True
    in_search: bool = False
    counted: bool = True


def unprotected_release(name: str, like: PrivacyGuarantee, statement: str) -> Release:
    """Release that counts as protecting nothing, because its guarantee is not known.

    Parameters
    ----------
    name : str
    like : PrivacyGuarantee
        Gives the unit and the relation.
    statement : str
        What is not known.

    Returns
    -------
    release : Release
    """
    from dp_accounting import dp_event

    guarantee = like.derived(
        dp_event.NonPrivateDpEvent(), statement=statement, source="not private"
    )
    return Release(name, guarantee)


def is_search(obj: Any) -> bool:
    """Whether `obj` is a search whose fits are all in its `cv_results_`.

    Parameters
    ----------
    obj : object

    Returns
    -------
    answer : bool
        False for subclasses, which may do more.
    """
    kind = type(obj)
    # Compared by name, because only users may enable the import of halving searches.
    return kind.__name__ in _SEARCHES and kind.__module__.startswith(
        "sklearn.model_selection."
    )


def collect_search(search: Any, context: Context, collect: _Collect) -> Findings | None:
    """What a search reveals, fitted or planned.

    Parameters
    ----------
    search : object
        One for which `is_search` is true.
    context : Context
    collect : callable
        Maps an estimator and its context to the findings in it.

    Returns
    -------
    findings : Findings or None
        None if the parameters of a planned search do not tell what it will fit.
    """
    from sklearn.base import clone

    if context.planned:
        counts, candidates = _planned_record_counts(search), _planned_candidates(search)
        best = getattr(context.like, "best_estimator_", None)
        if counts is None or candidates is None:
            return None
    else:
        counts, candidates = _fitted_record_counts(search), search.cv_results_["params"]
        # Without `refit`, the attribute would be that of an earlier fit.
        best = search.best_estimator_ if search.refit else None
    candidate_context = Context(
        True,
        best,
        context.noisy,
        context.fixed or not context.planned,
        alone=False,
        in_search=True,
    )
    findings, candidate_releases = Findings(noisy=True), []
    for params in candidates:
        # Cloned, since parameters can be estimators that other parameters change.
        params = clone(params, safe=False)
        candidate = clone(search.estimator).set_params(**params)
        candidate_findings = collect(candidate, candidate_context)
        candidate_releases.append(candidate_findings.releases)
        findings.noisy &= candidate_findings.noisy
        candidate_findings.releases = [
            _repeated(f"candidate {params}: {release.name}", release, counts)
            for release in candidate_findings.releases
        ]
        findings.add(candidate_findings)
    if context.planned and search.refit:
        findings.releases += _planned_refit(candidate_releases)
    elif not context.planned:
        context = replace(context, like=None, in_search=True)
        _add_refit(search, best, context, findings, collect)
    findings.unprotected += [
        release.why for release in findings.releases if release.why
    ] + [SCORES_CAVEAT]
    if not context.planned and _stored_cv(search) is None:
        findings.unprotected += [_READS_CV]
    return findings


def _add_refit(
    search: Any, best: Any, context: Context, findings: Findings, collect: _Collect
) -> None:
    """Add the releases of the refit."""
    leftover = getattr(search, "best_estimator_", None)
    if best is not None:
        refit = collect(best, context)
        name = f"refit with {search.best_params_}"
    elif leftover is not None and all(r.guarantee for r in findings.releases):
        # `refit` was set to False before this fit, or after it.
        refit, name = collect(leftover, context), "refit, maybe of an earlier fit"
    else:
        return
    if best is not None and refit.releases and _parameters_changed(search):
        known = [r.guarantee for r in refit.releases if r.guarantee]
        findings.releases += [
            unprotected_release("fits of the search", g, _PARAMETERS_CHANGED)
            for g in known[:1]
        ]
        findings.unprotected += [_PARAMETERS_CHANGED]
    findings.noisy = refit.noisy
    refit.releases = [
        replace(release, name=f"{name}: {release.name}") for release in refit.releases
    ]
    findings.add(refit)


def _planned_refit(candidate_releases: list[list[Release]]) -> list[Release]:
    """Releases of a refit with an unknown candidate: those of all that differ."""
    distinct: list[list[Release]] = []
    for releases in candidate_releases:
        if releases not in distinct:
            distinct.append(releases)
    return [
        replace(release, name=f"refit with any of these: {release.name}")
        for releases in distinct
        for release in releases
    ]


def _parameters_changed(search: Any) -> bool:
    """Whether the best candidate and the refitted estimator have other parameters."""
    from sklearn.base import clone

    params = clone(search.best_params_, safe=False)
    planned = clone(search.estimator).set_params(**params).get_params()
    fitted = search.best_estimator_.get_params()
    # Compared as text, so that NaN equals NaN.
    return any(
        _compares_by_repr(planned[name])
        and _compares_by_repr(fitted[name])
        and repr(planned[name]) != repr(fitted[name])
        for name in planned.keys() & fitted.keys()
    )


def _compares_by_repr(value: Any) -> bool:
    """Whether values of this type are equal exactly if their texts are."""
    if isinstance(value, (tuple, list)):
        return all(map(_compares_by_repr, value))
    return value is None or isinstance(value, (bool, int, float, str))


@dataclass(frozen=True)
class _RecordCounts:
    """How often the splits and scores of a search use one record.

    Parameters
    ----------
    splitter : object
    n_splits : int
    draws_rows : bool
        Whether each fit takes a sample of the rows of its training set, by position.
    passes_per_score : int or None
        How often scoring passes each sample through the estimator. None if not known.
    scores_training_sets : bool
        Whether training sets are scored as well as test sets.
    """

    splitter: Any
    n_splits: int
    draws_rows: bool
    passes_per_score: int | None
    scores_training_sets: bool

    def max_uses(self, release: Release) -> int | str:
        """How often, at most, one record goes into a release of one candidate.

        A sentence on the reason if not known.
        """
        assert release.guarantee is not None
        if self.draws_rows:
            return _DRAWS_ROWS
        unit, protects_y = release.guarantee.unit, release.protects_y
        memberships = _memberships(self.splitter, self.n_splits, unit, protects_y)
        if isinstance(memberships, str):
            return memberships
        scored = 0
        if release.in_pass:
            if self.passes_per_score is None:
                return _UNKNOWN_SCORING
            scored = release.in_pass * self.passes_per_score
        trained = release.in_fit + scored * self.scores_training_sets
        return max(train * trained + test * scored for train, test in memberships)


def _repeated(name: str, release: Release, counts: _RecordCounts) -> Release:
    """A release of a candidate, counted as often as the search makes it."""
    if release.guarantee is None:
        return replace(release, name=name, in_pass=0)
    times = counts.max_uses(release)
    if isinstance(times, int):
        return replace(release, name=name, in_fit=times, in_pass=0)
    return replace(unprotected_release(name, release.guarantee, times), why=times)


def _fitted_record_counts(search: Any) -> _RecordCounts:
    # Parameters may have been set after the fit, so read what the fit stored.
    return _RecordCounts(
        _stored_cv(search) or _default_cv(search),
        search.n_splits_,
        _draws_rows(search),
        _passes_per_score(search.scorer_),
        any(name.startswith("mean_train_") for name in search.cv_results_),
    )


def _stored_cv(search: Any) -> Any:
    """The splitter of a fitted search; None before scikit-learn 1.9."""
    return getattr(search, "_checked_cv_orig", None)


def _default_cv(search: Any) -> Any:
    """The splitter that a search makes of its `cv`: for classes, stratified folds."""
    from sklearn.base import is_classifier
    from sklearn.model_selection import check_cv

    return check_cv(search.cv, [0, 1], classifier=is_classifier(search.estimator))


def _planned_record_counts(search: Any) -> _RecordCounts | None:
    """Counts of a search that is not fitted; None if the data decide n_splits."""
    try:
        cv = _default_cv(search)
        n_splits = cv.get_n_splits()
    except (TypeError, ValueError):
        return None
    passes_per_score = _passes_per_score(search.scoring)
    train_score = search.return_train_score
    return _RecordCounts(
        cv, n_splits, _draws_rows(search), passes_per_score, train_score
    )


def _draws_rows(search: Any) -> bool:
    """Whether the resource of a halving search is, or was, the number of rows."""
    return getattr(search, "resource", None) == "n_samples"


def _planned_candidates(search: Any) -> list[dict[str, Any]] | None:
    """All candidates of a planned search; None if chance or the data decide them."""
    from sklearn.model_selection import GridSearchCV, ParameterGrid, RandomizedSearchCV

    if type(search) is GridSearchCV:
        return list(ParameterGrid(search.param_grid))
    if type(search) is RandomizedSearchCV:
        grids = search.param_distributions
        for grid in [grids] if isinstance(grids, dict) else grids:
            if any(hasattr(values, "rvs") for values in grid.values()):
                return None
        # It draws some of them, each at most once.
        return list(ParameterGrid(grids))
    return None


def _memberships(
    cv: Any, n_splits: int, unit: str | int, protects_y: bool
) -> tuple[tuple[int, int], ...] | str:
    """The possible numbers of training sets and of test sets that one record is in.

    A sentence on the reason if they are not known: neighbouring data must differ in one
    record of the fits that use it, and in no other. So a side may follow from what the
    guarantee treats as public, and, where all data of a unit are protected, from the
    record's own ids.
    """
    from sklearn import model_selection as splitters

    kind, name = type(cv), type(cv).__name__
    own = kind.__module__.startswith("sktensordp.model_selection.")
    if not own and getattr(splitters, name, None) is not kind:
        return _UNKNOWN_SPLITS
    if isinstance(unit, int):
        return ((cv._training_sets(unit), 0),) if own else _OTHERS_MOVE.format(name)
    if own and unit == "entry":
        return (n_splits, 0), (0, n_splits)
    by_values = unit == "entry" or protects_y
    if kind in (splitters.StratifiedKFold, splitters.StratifiedGroupKFold):
        return _BY_VALUES.format(name) if by_values else ((n_splits - 1, 1),)
    if kind is splitters.RepeatedStratifiedKFold and not by_values:
        return ((n_splits - cv.n_repeats, cv.n_repeats),)
    if kind in (
        splitters.RepeatedStratifiedKFold,
        splitters.StratifiedShuffleSplit,
    ):
        return _BY_VALUES.format(name)
    if kind in (
        splitters.KFold,
        splitters.GroupKFold,
        splitters.LeaveOneOut,
        splitters.LeaveOneGroupOut,
    ):
        return ((n_splits - 1, 1),)
    if kind is splitters.RepeatedKFold:
        return ((n_splits - cv.n_repeats, cv.n_repeats),)
    if kind in (
        splitters.GroupShuffleSplit,
        splitters.LeavePGroupsOut,
        splitters.LeavePOut,
        splitters.ShuffleSplit,
        splitters.TimeSeriesSplit,
    ):
        # The two sets of a split are disjoint and hold no record twice.
        return (n_splits, 0), (0, n_splits)
    return _UNKNOWN_SPLITS


def _passes_per_score(scoring: Any) -> int | None:
    """How often, at most, scoring passes samples through the estimator.

    None if not known.
    """
    from sklearn.linear_model import Ridge
    from sklearn.metrics import check_scoring, get_scorer

    if isinstance(scoring, (list, tuple, set)):
        return len(scoring)
    if isinstance(scoring, dict):
        passes: list[Any] = [_passes_per_score(scorer) for scorer in scoring.values()]
        return None if None in passes else sum(passes)
    # Types of a scorer by make_scorer, and of one that calls the estimator's `score`.
    known_types = (type(get_scorer("accuracy")), type(check_scoring(Ridge())))
    if scoring is None or isinstance(scoring, str) or type(scoring) in known_types:
        return 1
    return None
