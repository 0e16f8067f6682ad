"""What a search fits, and how often its fits and scores use one record."""

from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator

from .._sklearn_compat import splitter_of

_SEARCHES = (
    "GridSearchCV",
    "RandomizedSearchCV",
    "HalvingGridSearchCV",
    "HalvingRandomSearchCV",
)
# Splitters of scikit-learn: those that test every record once in each repetition; those
# whose training and test sets are disjoint and hold no record twice; those that read
# the values; and those that read groups.
_TEST_ONCE = (
    "GroupKFold",
    "KFold",
    "LeaveOneGroupOut",
    "LeaveOneOut",
    "RepeatedKFold",
    "RepeatedStratifiedKFold",
    "StratifiedGroupKFold",
    "StratifiedKFold",
)
_DISJOINT = (
    "GroupShuffleSplit",
    "LeavePGroupsOut",
    "LeavePOut",
    "ShuffleSplit",
    "TimeSeriesSplit",
)
_STRATIFIED = (
    "RepeatedStratifiedKFold",
    "StratifiedGroupKFold",
    "StratifiedKFold",
    "StratifiedShuffleSplit",
)
_BY_GROUPS = (
    "GroupKFold",
    "GroupShuffleSplit",
    "LeaveOneGroupOut",
    "LeavePGroupsOut",
    "StratifiedGroupKFold",
)
SCORES_CAVEAT = (
    "The scores and the choice of the best candidate (cv_results_, best_score_, "
    "best_params_, best_index_): they are computed from the raw values held out."
)
READS_CV = (
    "This version of scikit-learn does not store how a search split the data, so the "
    "guarantee supposes that `cv` is still what it was in the fit. scikit-learn 1.9 "
    "stores it."
)
PARAMETERS_CHANGED = (
    "Parameters of this search or of its best_estimator_ were set after the fit, so "
    "it is not known what its candidates revealed. Fit the search again."
)
_OTHERS_MOVE = (
    "{} splits by position, rank or number of records, so that one unit's data decide "
    "which other units each fit gets. Use UserKFold, UserHoldout or ItemHoldout."
)
_PEOPLE_MOVE = (
    "How many rows a person has is private, and {} splits rows, so that one person's "
    "rows may decide which other people each fit gets. Search with one row a person, "
    "or choose parameters on public data."
)
_BY_VALUES = (
    "{} splits by the values, so that one value decides which other records each fit "
    "gets. Use KFold or ShuffleSplit, or UserKFold."
)
_GROUPS_CAVEAT = (
    "The groups passed to fit, which are treated as public: {} splits by them, so that "
    "one row in another group may move many other rows to other fits."
)
_DRAWS_ROWS = (
    'A halving search with resource="n_samples" draws rows by position, so that it is '
    "not known which records each fit gets. Use another resource, or GridSearchCV."
)
_UNKNOWN_SPLITS = (
    "It is not known what the splits depend on, because they were passed as a list or "
    "come from an unknown splitter. Use KFold or ShuffleSplit, or UserKFold."
)
# Where the scorer is defined that adds no noise.
_CLEAN_MODULE = "sktensordp.model_selection._clean_scorer"
_UNKNOWN_SCORING = (
    "It is not known how often a scoring function transforms the samples. Make it with "
    "make_scorer, or pass the name of a scorer. To score on raw samples, make it with "
    "make_clean_scorer."
)


def is_search(obj: object) -> bool:
    """Whether `obj` is a search whose fits are all in its `cv_results_`.

    Subclasses may do more.
    """
    kind = type(obj)
    # Compared by name, because only users may enable the import of halving searches.
    return kind.__name__ in _SEARCHES and kind.__module__.startswith(
        "sklearn.model_selection."
    )


def candidates_of(
    search: BaseEstimator, *, planned: bool
) -> list[dict[str, Any]] | None:
    """Parameters of all candidates; None if chance or the data decide them."""
    from sklearn.model_selection import GridSearchCV, ParameterGrid, RandomizedSearchCV

    if not planned:
        return list(search.cv_results_["params"])
    if type(search) is GridSearchCV:
        return list(ParameterGrid(search.param_grid))
    if type(search) is not RandomizedSearchCV:
        return None
    grids = search.param_distributions
    grids = [grids] if isinstance(grids, dict) else grids
    if any(hasattr(values, "rvs") for grid in grids for values in grid.values()):
        return None
    # It draws some of them, each at most once.
    return list(ParameterGrid(grids))


def parameters_changed(search: BaseEstimator) -> bool:
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


def _compares_by_repr(value: object) -> bool:
    """Whether values of this type are equal exactly if their texts are."""
    if isinstance(value, (tuple, list)):
        return all(map(_compares_by_repr, value))
    return value is None or isinstance(value, (bool, int, float, str))


@dataclass(frozen=True)
class RecordCounts:
    """How often the splits and scores of a search use one record.

    Parameters
    ----------
    cv : splitter
    n_splits : int
    draws_rows : bool
        Whether each fit takes a sample of the rows of its training set, by position.
    passes_per_score : int or None
        How often scoring passes each sample through the estimator. None if not known.
    scores_training_sets : bool
        Whether training sets are scored as well as test sets.
    """

    cv: Any
    n_splits: int
    draws_rows: bool
    passes_per_score: int | None
    scores_training_sets: bool

    def max_uses(
        self, unit: str | int, *, protects_y: bool, in_fit: int, in_pass: int
    ) -> int | str:
        """How often, at most, one record goes into a release of one candidate.

        If that is not known, a sentence that says why.

        Parameters
        ----------
        unit : str or int
        protects_y : bool
            Whether the target of a record is protected, so that targets must not decide
            splits.
        in_fit, in_pass : int
            How often a fit of the candidate uses a record of its training set, and how
            often a later call uses a record that it is passed.
        """
        if self.draws_rows:
            return _DRAWS_ROWS
        memberships = self._memberships(unit, protects_y)
        if isinstance(memberships, str):
            return memberships
        scored = 0
        if in_pass:
            if self.passes_per_score is None:
                return _UNKNOWN_SCORING
            scored = in_pass * self.passes_per_score
        trained = in_fit + scored * self.scores_training_sets
        return max(train * trained + test * scored for train, test in memberships)

    @property
    def unprotected(self) -> list[str]:
        """Sentences on what the counts assume to be public."""
        name = type(self.cv).__name__
        return [_GROUPS_CAVEAT.format(name)] if name in _BY_GROUPS else []

    def _memberships(
        self, unit: str | int, protects_y: bool
    ) -> tuple[tuple[int, int], ...] | str:
        """The possible numbers of training sets and of test sets that a record is in.

        If they are not known, a sentence that says why. In the fits that use a record,
        neighbouring data must differ in that record alone. So the side of a record may
        depend on what the guarantee treats as public and, if all data of a unit are
        protected, on the record's own ids.
        """
        from sklearn import model_selection as splitters

        kind, n_splits = type(self.cv), self.n_splits
        name = kind.__name__
        own = kind.__module__.startswith("sktensordp.model_selection.")
        if not own and getattr(splitters, name, None) is not kind:
            return _UNKNOWN_SPLITS
        if unit == "person":
            return _PEOPLE_MOVE.format(name)
        if isinstance(unit, int):
            if not own:
                return _OTHERS_MOVE.format(name)
            return ((self.cv.__privacy_training_sets__(unit), 0),)
        if name in _STRATIFIED and (protects_y or name not in _TEST_ONCE):
            return _BY_VALUES.format(name)
        if name in _TEST_ONCE:
            tested = getattr(self.cv, "n_repeats", 1)
            return ((n_splits - tested, tested),)
        if name in _DISJOINT or (own and unit == "entry"):
            return (n_splits, 0), (0, n_splits)
        return _UNKNOWN_SPLITS


def record_counts(search: BaseEstimator, *, planned: bool) -> RecordCounts | None:
    """Counts of a fitted or planned search; None if the data decide `n_splits`."""
    from sklearn.base import is_classifier
    from sklearn.model_selection import check_cv

    # Parameters may have been set after the fit, so read what the fit stored.
    cv = None if planned else splitter_of(search)
    try:
        # For classes, an integer means stratified folds.
        cv = cv or check_cv(
            search.cv, [0, 1], classifier=is_classifier(search.estimator)
        )
        n_splits = cv.get_n_splits() if planned else search.n_splits_
    except (TypeError, ValueError):
        return None
    draws_rows = getattr(search, "resource", None) == "n_samples"
    if planned:
        scoring, scores_training_sets = search.scoring, search.return_train_score
    else:
        scoring = search.scorer_
        scores_training_sets = any(
            n.startswith("mean_train_") for n in search.cv_results_
        )
    return RecordCounts(
        cv, n_splits, draws_rows, _passes_per_score(scoring), scores_training_sets
    )


def _passes_per_score(scoring: object) -> int | None:
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
    kind = type(scoring)
    if kind.__module__ == _CLEAN_MODULE and kind.__name__ == "CleanScorer":
        # It leaves out mechanisms, or raises an error.
        return 0
    # Types of a scorer by make_scorer, and of one that calls the estimator's `score`.
    known_types = (type(get_scorer("accuracy")), type(check_scoring(Ridge())))
    if scoring is None or isinstance(scoring, str) or kind in known_types:
        return 1
    return None
