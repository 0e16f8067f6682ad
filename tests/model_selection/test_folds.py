"""No unit decides on which side another unit's records are, in any splitter.

At an integer unit, neighbours have everything of one unit more or less. At the level of
entries, they differ in one value. A splitter either leaves all other records where they
are, or `privacy_of` states no finite epsilon.
"""

import importlib
import inspect
import math
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn import model_selection as of_sklearn
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline

import sktensordp
from sktensordp import model_selection
from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    make_fold_in_scorer,
    make_ranking_scorer,
)
from sktensordp.model_selection import (
    ItemHoldout,
    PrivateSearchCV,
    UserHoldout,
    UserKFold,
)
from sktensordp.privacy import privacy_of

SHAPE = (20, 15, 4)
RNG = np.random.default_rng(0)
X = RNG.permutation(np.argwhere(RNG.random(SHAPE) < 0.3))
Y = 1.0 + RNG.integers(3, size=len(X))

OF_ITSELF = [
    UserKFold(3, random_state=0),
    UserHoldout(0.3, n_splits=2, random_state=0),
    ItemHoldout(0.3, n_splits=2, random_state=0),
]
OF_POSITIONS = [
    of_sklearn.KFold(3, shuffle=True, random_state=0),
    of_sklearn.RepeatedKFold(n_splits=2, n_repeats=2, random_state=0),
    of_sklearn.ShuffleSplit(2, random_state=0),
    of_sklearn.GroupKFold(3),
    of_sklearn.GroupShuffleSplit(2, random_state=0),
    of_sklearn.TimeSeriesSplit(3),
]
OF_VALUES = [
    of_sklearn.StratifiedKFold(3),
    of_sklearn.RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0),
    of_sklearn.StratifiedGroupKFold(3),
    of_sklearn.StratifiedShuffleSplit(2, random_state=0),
    of_sklearn.PredefinedSplit(np.arange(len(X)) % 3),
]
# The splitters that the pages and docstrings name: at an integer unit, and at "entry",
# whether all other records stay where they are.
SPLITTERS = {
    type(cv).__name__: (cv, splitters is OF_ITSELF, splitters is not OF_VALUES)
    for splitters in (OF_ITSELF, OF_POSITIONS, OF_VALUES)
    for cv in splitters
}
MORE = {
    "UserKFold, items": UserKFold(3, mode=1, random_state=0),
    "UserHoldout, items": UserHoldout(0.5, mode=1, random_state=0),
}
SAFE_SPLITTERS = MORE | {n: cv for n, (cv, of_unit, _) in SPLITTERS.items() if of_unit}
of_every_safe = pytest.mark.parametrize("name", SAFE_SPLITTERS)


def splitters_named_in_the_docs():
    """Names of splitter classes in pages and docstrings."""
    known = {
        name
        for module in (of_sklearn, model_selection)
        for name, value in vars(module).items()
        if inspect.isclass(value) and hasattr(value, "split")
    }
    root = Path(sktensordp.__file__).parent
    pages = [*(root.parent / "doc").glob("*.md"), *root.rglob("*.py")]
    words = {word for page in pages for word in re.findall(r"\w+", page.read_text())}
    return known & words - {"LeaveOneOut", "LeavePOut"}


def test_every_splitter_that_the_docs_name_is_listed():
    named = splitters_named_in_the_docs()
    assert {"UserKFold", "GroupKFold"} <= named
    own = {
        n for n in model_selection.__all__ if hasattr(vars(model_selection)[n], "split")
    }
    assert own <= SPLITTERS.keys()
    # What privacy_of alone knows by name is in the test of counts.
    in_code = {"LeaveOneGroupOut", "LeavePGroupsOut"}
    assert named - in_code <= SPLITTERS.keys()


def test_no_page_recommends_a_splitter_that_moves_other_units():
    package = Path(sktensordp.__file__).parent
    texts = [
        inspect.getdoc(value) or ""
        for part in pkgutil.iter_modules(sktensordp.__path__)
        if not part.name.startswith("_")
        for value in vars(importlib.import_module(f"sktensordp.{part.name}")).values()
        if inspect.isclass(value) or inspect.isfunction(value)
    ]
    texts += [page.read_text() for page in (package.parent / "doc").glob("*.md")]
    for name, (_, of_unit, _) in SPLITTERS.items():
        if not of_unit:
            for text in texts:
                assert f"cv={name}(" not in text or "unit=" not in text


# The sides.


def sides(cv, rows, y=None, groups=None):
    """In which test sets each row is, by the row's own coordinates."""
    found = {}
    for number, (train, test) in enumerate(cv.split(rows, y, groups)):
        assert not set(train) & set(test)
        for row in train:
            found.setdefault(tuple(np.asarray(rows)[row].tolist()), set())
        for row in test:
            found.setdefault(tuple(np.asarray(rows)[row].tolist()), set()).add(number)
    return found


def groups_for(cv, rows):
    """Users as groups, for splitters that take groups."""
    return rows[:, 0] if "Group" in type(cv).__name__ else None


@of_every_safe
@pytest.mark.parametrize("unit", [0, 1, 2])
def test_one_unit_more_or_less_moves_nobody(name, unit):
    cv = SAFE_SPLITTERS[name]
    everybody = sides(cv, X)
    assert len({frozenset(side) for side in everybody.values()}) > 1
    for index in range(SHAPE[unit]):
        others = X[X[:, unit] != index]
        fewer = sides(cv, others)
        assert fewer == {pair: everybody[pair] for pair in fewer}
        # And the other direction, with other data of the unit that joins.
        joins = np.argwhere(np.ones(SHAPE))
        joins = RNG.permutation(joins[joins[:, unit] == index])[:7]
        more = sides(cv, RNG.permutation(np.concatenate([joins, others])))
        assert fewer == {pair: more[pair] for pair in fewer}


@pytest.mark.parametrize("name", sorted(SPLITTERS.keys() - {"PredefinedSplit"}))
def test_the_others_do_move_records(name):
    """So that the verdicts of this file are not caution alone."""
    cv, of_unit, of_entry = SPLITTERS[name]
    everybody = sides(cv, X, Y, groups_for(cv, X))
    moved_by_a_unit = moved_by_a_value = False
    for index in range(SHAPE[0]):
        kept = X[:, 0] != index
        fewer = sides(cv, X[kept], Y[kept], groups_for(cv, X[kept]))
        moved_by_a_unit |= any(fewer[pair] != everybody[pair] for pair in fewer)
        changed = Y.copy()
        changed[index] = 1 + changed[index] % 3
        moved_by_a_value |= sides(cv, X, changed, groups_for(cv, X)) != everybody
    assert moved_by_a_unit == (not of_unit)
    assert moved_by_a_value == (not of_entry)


def test_sides_are_independent():
    """Of neighbouring ids, of seeds and of splits. False alarms: 1e-8 in all."""
    ids = np.column_stack([np.arange(40_000), np.arange(40_000) % 7])
    out = []
    for seed in range(3):
        cv = UserHoldout(0.5, n_splits=2, random_state=seed)
        for _, test in cv.split(ids):
            out.append(np.isin(np.arange(40_000), test))
    pairs = [(a, b) for i, a in enumerate(out) for b in out[:i]]
    pairs += [(a[1:], a[:-1]) for a in out]
    for a, b in pairs:
        assert abs(np.mean(a == b) - 0.5) < 6 * 0.5 / math.sqrt(len(a))
    folds = [test for _, test in UserKFold(7, random_state=1).split(ids)]
    spread = math.sqrt(40_000 / 7)
    assert all(abs(len(test) - 40_000 / 7) < 6 * spread for test in folds)


def test_every_split_is_yielded_whoever_is_there():
    for cv in SAFE_SPLITTERS.values():
        for rows in (X[:0], X[:1], X[X[:, 0] == 3]):
            assert len(list(cv.split(rows))) == cv.get_n_splits()


def test_a_new_seed_for_each_call():
    cv = UserKFold(2)
    tests = {tuple(next(cv.split(X))[1].tolist()) for _ in range(40)}
    assert len(tests) > 30


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UserKFold(1), "n_splits"),
        (lambda: UserKFold(mode=-1), "mode"),
        (lambda: UserHoldout(0.0), "test_size"),
        (lambda: list(UserKFold(mode=5).split(X)), "column 5"),
    ],
)
def test_wrong_parameters_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# What a report says.


def model(**params):
    return CPCompletion(
        0, perturbation="sums", levels=[1, 2, 3], shape=SHAPE, max_iter=1, **params
    )


def report_of(cv, unit, estimator=None, kind=GridSearchCV, **options):
    search = kind(estimator or model(unit=unit), {"epsilon": [1.0]}, cv=cv, **options)
    return privacy_of(search.fit(X, Y, groups=groups_for(cv, X)))


@pytest.mark.thorough_after_one
@pytest.mark.parametrize("unit", [0, 2, "entry"])
@pytest.mark.parametrize("name", SPLITTERS)
def test_a_report_is_finite_only_where_nobody_moves(name, unit):
    cv, of_unit, of_entry = SPLITTERS[name]
    report = report_of(cv, unit)
    is_safe = of_entry if unit == "entry" else of_unit
    assert report.guarantee.protects == is_safe
    if not is_safe:
        reasons = [s for s in report.unprotected if "Use" in s]
        assert any("UserKFold" in reason for reason in reasons)


@pytest.mark.thorough_after_one
@pytest.mark.parametrize("unit", [0, 1, 2])
@of_every_safe
def test_a_report_counts_the_fits_that_a_unit_is_in(name, unit):
    """By the splits themselves: training sets with the unit, and the refit."""
    cv = SAFE_SPLITTERS[name]
    report = report_of(cv, unit)
    (_, n_fits, _), (_, n_refits, _) = report.releases
    assert n_refits == 1
    most = max(
        sum(np.any(X[train, unit] == index) for train, _ in cv.split(X))
        for index in range(SHAPE[unit])
    )
    assert most <= n_fits <= cv.get_n_splits()
    if isinstance(cv, UserKFold) and cv.mode == unit:
        assert n_fits == cv.n_splits - 1


@pytest.mark.parametrize("unit", [0, "entry"])
@pytest.mark.parametrize(
    "cv", [list(of_sklearn.KFold(3).split(X)), list(UserKFold(3).split(X))]
)
def test_lists_of_splits_are_not_followed(cv, unit):
    report = report_of(cv, unit)
    assert not report.guarantee.protects
    assert any("passed as a list" in sentence for sentence in report.unprotected)


def test_a_subclass_may_split_otherwise():
    class ByRank(UserKFold):
        def _held_out(self, columns, seed, number):
            return np.unique(columns[0], return_inverse=True)[1] % 3 == number

    assert not report_of(ByRank(3), 0).guarantee.protects


@pytest.mark.parametrize("unit", [0, "entry"])
def test_halving_by_rows_is_not_followed(unit):
    cv = UserKFold(2, random_state=0) if unit == 0 else of_sklearn.KFold(2)
    options = {"kind": HalvingGridSearchCV, "min_resources": 60}
    report = report_of(cv, unit, **options)
    assert not report.guarantee.protects
    assert any('resource="n_samples"' in sentence for sentence in report.unprotected)
    options = {"kind": HalvingGridSearchCV, "resource": "max_iter", "max_resources": 2}
    assert report_of(cv, unit, **options).guarantee.protects


def test_learned_indices_void_the_folds():
    """An encoder without categories numbers ids by who occurs."""
    search = GridSearchCV(model(unit=0), {"rank": [0]}, cv=UserKFold(2))
    pipeline = make_pipeline(CoordinateEncoder(), search)
    declared = make_pipeline(
        CoordinateEncoder(categories=[range(n) for n in SHAPE]), search
    )
    assert not privacy_of(pipeline.fit(X, Y)).guarantee.protects
    assert privacy_of(declared.fit(X, Y)).guarantee.protects


def test_the_headline_is_that_of_the_fits():
    assert str(report_of(UserKFold(2), 0)).startswith("All fits of this object")


# Scorers.


class Watching(RegressorMixin, BaseEstimator):
    """Sees what is folded in; knows nothing."""

    fit_randomized = None

    def __init__(self):
        self.known = []

    def fold_in(self, X, y=None):
        self.known += map(tuple, np.asarray(X).tolist())
        return self

    def __copy__(self):
        return self

    def predict(self, X):
        return np.zeros(len(X))

    def recommend(self, users, k):
        return np.zeros((len(users), k), dtype=int)


@pytest.mark.parametrize(
    "scorer", [make_fold_in_scorer(), make_ranking_scorer()], ids=["values", "ranking"]
)
@pytest.mark.parametrize("unit", [0, 1, 2])
def test_nobody_decides_what_of_others_a_scorer_folds_in(scorer, unit):
    watching = Watching()
    scorer(watching, X, Y)
    everybody = set(watching.known)
    assert 0 < len(everybody) < len(X)
    for index in range(SHAPE[unit]):
        kept = X[:, unit] != index
        watching = Watching()
        scorer(watching, X[kept].astype(float), Y[kept])
        assert set(watching.known) == {
            pair for pair in everybody if pair[unit] != index
        }


def test_a_scorer_without_anything_to_predict():
    assert math.isnan(make_fold_in_scorer()(Watching(), X[:0], Y[:0]))


# Searches and validation.


def test_a_private_search_holds_out_the_protected_mode():
    search = PrivateSearchCV(
        model(unit=0), {"rank": [0]}, n_iter=2, refit=False, cv=UserKFold(2)
    )
    assert search.fit(X, Y).privacy_guarantee_.protects
    assert search.n_splits_ == 2
    for cv in (UserKFold(2, mode=1), UserHoldout(mode=1)):
        with pytest.raises(ValueError, match="mode=0"):
            search.set_params(cv=cv).fit(X, Y)
    with pytest.raises(ValueError, match="cv=None, UserKFold"):
        search.set_params(cv=of_sklearn.GroupKFold(2)).fit(X, Y)


def test_cross_validation_of_choices():
    scores = cross_validate(
        ImplicitCompletion(shape=SHAPE[:2], delta=1e-3), X[:, :2],
        cv=UserKFold(3, random_state=1), scoring=make_ranking_scorer(k=5),
    )  # fmt: skip
    assert scores["test_score"].shape == (3,)
