"""Conditions of guarantees: every guarantee states them, and no operation loses one."""

import ast
import copy
import dataclasses
import math
import pickle
import re
import sqlite3

import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import VotingRegressor
from sklearn.feature_selection import VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline

from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    NoiseShares,
    Recommender,
    fit_aggregated,
    party,
)
from sktensordp.model_selection import PrivateSearchCV, UserKFold
from sktensordp.moments import MultilinearPCA
from sktensordp.privacy import (
    PrivacyBudget,
    PrivacyGuarantee,
    compose,
    compose_parallel,
    planned_guarantee,
    privacy_of,
)
from tests import DOC
from tests.support import events as E
from tests.support.every_estimator import RELEASING, USERS, VALUES, WHERE
from tests.support.guarantees import guarantee, pure
from tests.support.seams import VOCABULARY
from tests.test_imports import ROOT

SHUFFLER = "if the shuffler is trusted"
SECRET_SAMPLE = "if the sample stays secret"
SECRET_TRIES = "if the number of tries stays secret"
OWN_ANSWERS = "if answers for a person are shown to that person only"
CLIENTS = "if clients randomised each value once, with these parameters"
EXACT_SUMS = "if nobody but a trusted server sees the exact sums"
ONE_SUM = "if each request reveals one sum only, of no fewer answers than planned"
COLLUDERS = "if no more parties collude than planned"
MESSAGE = guarantee(E.Pure(2.0), local=True)
QUERY = guarantee(
    E.Gaussian(2.0),
    delta=1e-6,
    relation="any change within the declared sensitivity",
)


def text_of(value):
    """As one line, whatever the width of the terminal."""
    return re.sub(r"\s+", " ", str(value))


# What an operation on guarantees keeps


def in_a_budget(one):
    budget = PrivacyBudget(math.inf, delta=0.1)
    budget.spend(one)
    return budget.spent


def in_a_part_of_a_budget(one):
    budget = PrivacyBudget(math.inf, delta=0.1)
    with budget, budget.parallel() as part:
        for in_part in (one, plain(one)):
            with part():
                budget.spend(in_part)
    return budget.spent


OPERATIONS = {
    "derived": lambda one: one.derived(E.Pure(1.0)),
    "under": lambda one: one.with_conditions(OWN_ANSWERS),
    "replace": lambda one: dataclasses.replace(one, epsilon=9.0),
    "repeated": lambda one: one.repeated(3),
    "product": lambda one: 2 * one,
    "composed before": lambda one: compose(one, plain(one)),
    "composed after": lambda one: compose(plain(one), one),
    "sum": lambda one: sum([plain(one), one]),
    "parallel before": lambda one: compose_parallel(one, plain(one)),
    "parallel after": lambda one: plain(one) | one,
    "group": lambda one: one.for_group(2),
    "group of one": lambda one: one.for_group(1),
    "pickle": lambda one: pickle.loads(pickle.dumps(one)),
    "deep copy": copy.deepcopy,
    "budget": in_a_budget,
    "part of a budget": in_a_part_of_a_budget,
}
FOR_MESSAGES = {
    "shuffled": lambda one: one.shuffled(1000),
    "local group": lambda one: one.for_group(2, local=True),
}


def plain(one):
    return dataclasses.replace(one, conditions=())


@pytest.mark.parametrize("conditions", [(OWN_ANSWERS,), VOCABULARY])
@pytest.mark.parametrize("name", [*OPERATIONS, *FOR_MESSAGES])
def test_no_operation_loses_a_condition(name, conditions):
    one = dataclasses.replace(MESSAGE, conditions=conditions)
    assert set(one.conditions) == set(conditions)
    found = (OPERATIONS | FOR_MESSAGES)[name](one).conditions
    assert set(conditions) <= set(found)
    assert list(found) == sorted(set(found))


@pytest.mark.thorough
def test_a_sample_keeps_conditions_and_adds_its_own():
    found = QUERY.with_conditions(OWN_ANSWERS).subsampled(0.1)
    assert found.conditions == (OWN_ANSWERS, SECRET_SAMPLE)


@pytest.mark.thorough
def test_conditions_are_united():
    shuffled, private = MESSAGE.shuffled(1000), MESSAGE.with_conditions(OWN_ANSWERS)
    for found in (
        compose(shuffled, private, shuffled),
        compose_parallel(shuffled, private),
        shuffled + private,
    ):
        assert found.conditions == (OWN_ANSWERS, SHUFFLER)


@pytest.mark.parametrize("conditions", [(), (OWN_ANSWERS,), VOCABULARY])
def test_a_file_of_a_budget_keeps_them(tmp_path, conditions):
    path = tmp_path / "films.db"
    one = dataclasses.replace(MESSAGE, conditions=conditions)
    PrivacyBudget(9.0, path=path, create=True).spend(one)
    found = PrivacyBudget(9.0, path=path)
    assert set(found.spent.conditions) == set(conditions)
    assert all(condition in text_of(found) for condition in conditions)


def test_a_file_of_a_budget_takes_no_other_text(tmp_path):
    path = tmp_path / "films.db"
    PrivacyBudget(9.0, path=path, create=True).spend(
        MESSAGE.with_conditions(OWN_ANSWERS)
    )
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE releases SET guarantee = replace(guarantee, ?, 'if zoe agrees')",
            (OWN_ANSWERS,),
        )
    connection.close()
    with pytest.raises(OSError, match="or is damaged"):
        _ = PrivacyBudget(9.0, path=path).spent


def test_a_guarantee_takes_no_other_text():
    for wrong in (("if zoe agrees",), OWN_ANSWERS[:-1], (OWN_ANSWERS, 3)):
        with pytest.raises(ValueError, match="conditions must be among"):
            pure(1.0, conditions=wrong)
    assert pure(1.0, conditions=OWN_ANSWERS) == pure(1.0, conditions=[OWN_ANSWERS])


def test_equality_and_hashes_include_them():
    kinds = [pure(1.0, conditions=(one,)) for one in VOCABULARY]
    assert len({pure(1.0), *kinds}) == len(VOCABULARY) + 1
    ends = (SHUFFLER, OWN_ANSWERS)
    one, other = (pure(1.0, conditions=c) for c in (ends, (*ends[::-1], SHUFFLER)))
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.thorough
def test_pickles_without_conditions_load():
    """As of guarantees that were stored before there were any."""
    for one, expected in (
        (MESSAGE, ()),
        (MESSAGE.shuffled(1000).repeated(2), (SHUFFLER,)),
        (QUERY.subsampled(0.1), (SECRET_SAMPLE,)),
    ):
        old = object.__new__(PrivacyGuarantee)
        vars(old).update(vars(one))
        del vars(old)["conditions"]
        loaded = pickle.loads(pickle.dumps(old))
        assert loaded.conditions == expected
        assert loaded == one
        assert str(loaded) == str(one)
        assert hash(loaded.repeated(2)) == hash(one.repeated(2))


# What prints


def test_text_says_them():
    one = MESSAGE.shuffled(1000, delta=0.0)
    assert text_of(one) == (
        "(epsilon = 2, delta = 0)-differential privacy for one row of X "
        "(replace-one), if the shuffler is trusted."
    )
    both = dataclasses.replace(one.with_conditions(OWN_ANSWERS), claimed=(1.0, 0.0))
    assert text_of(both) == (
        "(epsilon = 2, delta = 0)-differential privacy for one row of X "
        "(replace-one), if answers for a person are shown to that person only and if "
        "the shuffler is trusted; the claim was (epsilon = 1, delta = 0)."
    )
    assert f"{OWN_ANSWERS} and {SHUFFLER}" in both._repr_html_()
    # Under no condition is there protection.
    nothing = one.derived(E.NonPrivate())
    assert nothing.conditions == (SHUFFLER,)
    assert "if " not in text_of(nothing)


def test_a_budget_says_them():
    budget = PrivacyBudget(9.0, delta=1e-5)
    budget.spend(MESSAGE)
    assert "for one row of X (replace-one) Spent" in text_of(budget)
    budget.spend(MESSAGE.shuffled(1000))
    budget.spend(MESSAGE.with_conditions(OWN_ANSWERS))
    said = f"for one row of X (replace-one), {OWN_ANSWERS} and {SHUFFLER} Spent"
    assert said in text_of(budget)
    assert f"(replace-one), {OWN_ANSWERS} and {SHUFFLER}" in budget._repr_html_()


def test_the_page_lists_them_all():
    page = (DOC / "guarantee.md").read_text()
    assert all(f"| {condition} |" in page for condition in VOCABULARY)


# Which conditions there are


@pytest.mark.parametrize("case", RELEASING)
def test_every_estimator_states_its_conditions(case):
    fitted, _ = case.release()
    expected = {OWN_ANSWERS} if case.private in ("users", "choices") else set()
    if isinstance(fitted, MultilinearPCA):
        expected.add("if projections of the samples are not shown without noise")
    if isinstance(fitted, PrivateSearchCV):
        expected.add(SECRET_TRIES)
    found = fitted.privacy_guarantee_
    if found.protects:
        assert set(found.conditions) == expected
        assert privacy_of(fitted).guarantee.conditions == found.conditions
    # A statement does not repeat them.
    assert not re.search("only|trusted|secret", found.statement)


def test_a_plan_states_them():
    planned = planned_guarantee(CPCompletion(1, **USERS))
    assert planned.conditions == (OWN_ANSWERS,)
    bound = CPCompletion(1, **{**USERS, "shape": None}).__privacy_plan__()
    assert bound.conditions == (OWN_ANSWERS,)


ENTRIES = CPCompletion(0, perturbation="input", value_bounds=(0, 1))


@pytest.mark.parametrize(
    "wrapped",
    [
        ENTRIES,
        Recommender(ENTRIES),
        PrivateSearchCV(ENTRIES, {"rank": [0]}, n_iter=2),
        PrivateSearchCV(Recommender(ENTRIES), {"completion__rank": [0]}, n_iter=2),
        GridSearchCV(ENTRIES, {"rank": [0]}, cv=KFold(2)),
        GridSearchCV(Recommender(ENTRIES), {"completion__rank": [0]}, cv=KFold(2)),
        make_pipeline(CoordinateEncoder(), ENTRIES),
        make_pipeline(Recommender(ENTRIES)),
        VotingRegressor([("a", ENTRIES), ("b", clone(ENTRIES))]),
        TransformedTargetRegressor(ENTRIES, check_inverse=False),
    ],
    ids=lambda one: f"{one:.50}" if isinstance(one, str) else type(one).__name__,
)
def test_who_was_folded_in_is_remembered_whatever_holds_the_model(wrapped):
    """Whoever was answered from own rows, before a further fit and after it."""
    model = clone(wrapped).fit(WHERE, VALUES)
    assert OWN_ANSWERS not in privacy_of(model).guarantee.conditions
    for _ in range(2):
        _innermost(model).fold_in(WHERE[:3], VALUES[:3])
        assert OWN_ANSWERS in privacy_of(model).guarantee.conditions
        assert OWN_ANSWERS in privacy_of(FrozenEstimator(model)).guarantee.conditions
        # A copy in other memory has lost these rows, and what was released stays.
        stored = pickle.loads(pickle.dumps(model))
        n_made = sum(n for _, n, _ in privacy_of(model).releases)
        assert sum(n for _, n, _ in privacy_of(stored).releases) == n_made
    if isinstance(wrapped, (CPCompletion, Recommender)):
        for _ in range(2):
            model.fit(WHERE, VALUES)
            report = privacy_of(model)
            assert OWN_ANSWERS in report.guarantee.conditions
        assert sum(n for _, n, _ in report.releases) == 3
        stored = pickle.loads(pickle.dumps(model))
        assert OWN_ANSWERS in privacy_of(stored).guarantee.conditions


def _innermost(model):
    for name in ("best_estimator_", "regressor_"):
        if hasattr(model, name):
            return _innermost(getattr(model, name))
    if hasattr(model, "estimators_"):
        return model.estimators_[0]
    return model[-1] if hasattr(model, "steps") else model


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("event", "condition"),
    [
        (E.Shuffled(E.Pure(1.0), 9), SHUFFLER),
        (E.Sampled(0.1, E.Gaussian(1.0)), SECRET_SAMPLE),
    ],
)
def test_events_imply_conditions_however_deep(event, condition):
    """Whoever builds the event by hand cannot leave them out."""
    deep = E.Composed([E.Pure(1.0), E.Parallel([E.Pure(1.0), event])])
    for one in (event, deep):
        found = guarantee(one, delta=1e-3, conditions=())
        assert found.conditions == (condition,)
        assert f", {condition}." in text_of(compose(found, found))


def test_values_that_clients_sent():
    model = CPCompletion(0, levels=[0, 1], perturbation="input", shape=(4, 3))
    client = model.client()
    assert client.privacy_guarantee_.conditions == ()
    noisy = client.privatize(VALUES)
    model.fit_randomized(WHERE, noisy)
    assert model.privacy_guarantee_.conditions == (CLIENTS,)
    assert CLIENTS in text_of(privacy_of(model))
    # New entries, and again those of before, whose releases compose.
    for _ in range(2):
        model.partial_fit(WHERE[:5], VALUES[:5])
        assert model.privacy_guarantee_.conditions == (CLIENTS,)
    assert model.fit(WHERE, VALUES).privacy_guarantee_.conditions == ()
    # The later release is the worse one, and the model rests on both.
    model.fit_randomized(WHERE[5:], noisy[5:]).set_params(epsilon=3.0)
    model.partial_fit(WHERE[:5], VALUES[:5])
    assert model.privacy_guarantee_.epsilon == pytest.approx(3.0)
    assert model.privacy_guarantee_.conditions == (CLIENTS,)


def test_sums_of_parties():
    model = CPCompletion(0, perturbation="sums", **USERS)
    exact = party(model, WHERE, VALUES)
    fit_aggregated(model, exact.answer)
    assert model.privacy_guarantee_.conditions == (OWN_ANSWERS, EXACT_SUMS)
    assert EXACT_SUMS in text_of(privacy_of(model))
    shares = NoiseShares(1)
    noisy = party(model, WHERE, VALUES, noise_shares=shares)
    expected = tuple(sorted((OWN_ANSWERS, ONE_SUM, COLLUDERS)))
    assert noisy.privacy_guarantee_.conditions == expected
    with PrivacyBudget(9.0, delta=1e-2) as budget:
        fit_aggregated(model, lambda request: (noisy.answer(request), 1),
                             noise_shares=shares)  # fmt: skip
    assert model.privacy_guarantee_.conditions == expected
    assert budget.spent.conditions == expected
    assert model.fit(WHERE, VALUES).privacy_guarantee_.conditions == (OWN_ANSWERS,)


@pytest.mark.thorough
def test_searches_keep_them():
    model = CPCompletion(0, perturbation="sums", **USERS)
    search = GridSearchCV(
        model, {"epsilon": [1.0, 2.0]}, cv=UserKFold(2, random_state=0)
    )
    with PrivacyBudget(math.inf, delta=0.5) as budget:
        search.fit(WHERE, VALUES)
    assert privacy_of(search).guarantee.conditions == (OWN_ANSWERS,)
    assert budget.spent.conditions == (OWN_ANSWERS,)
    folds = UserKFold(2, mode=0)
    # A last fit would bring the conditions of a fit along.
    for refit in (True, False):
        private = PrivateSearchCV(model, {"rank": [0]}, n_iter=2, cv=folds, refit=refit)
        private.fit(WHERE, VALUES)
        found = private.privacy_guarantee_.conditions
        assert found == (OWN_ANSWERS, SECRET_TRIES)
        assert privacy_of(private).guarantee.conditions == found


def test_a_report_without_protection_says_those_of_the_private_part():
    model = CPCompletion(0, perturbation="sums", **USERS)
    found = privacy_of(make_pipeline(VarianceThreshold(), model).fit(WHERE, VALUES))
    assert not found.guarantee.protects
    assert found.guarantee.conditions == (OWN_ANSWERS,)
    assert f"(add-or-remove), {OWN_ANSWERS}, counting" in found.guarantee.statement


# The source


def built_field_by_field(source):
    """Lines that copy a field of one guarantee to another, and not by `derived`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                copied = isinstance(keyword.value, ast.Attribute) and keyword.value.attr
                if copied in ("relation", "source") and keyword.arg == copied:
                    yield node.lineno


@pytest.mark.thorough
def test_guarantees_are_made_from_others_by_one_method():
    found = {
        path.name: list(built_field_by_field(path.read_text()))
        for path in ROOT.rglob("*.py")
    }
    assert not {name: lines for name, lines in found.items() if lines}
    wrong = "PrivacyGuarantee.from_event(event, unit=one.unit, relation=one.relation)"
    assert list(built_field_by_field(wrong)) == [1]
