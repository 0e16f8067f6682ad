"""Users who are answered from their own values, where single values are protected.

What a user gets to see may depend on that user's values without limit, and on those of
others through the release alone.
"""

import copy
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sktensordp.completion import CPCompletion, Recommender, TuckerCompletion
from sktensordp.datasets import make_ratings
from sktensordp.model_selection import PrivateSearchCV, expected_error
from sktensordp.papers import PublishedCPCompletion
from sktensordp.privacy import PrivacyBudget, planned_guarantee, privacy_of
from tests.support.refusing import refused
from tests.support.replaying import replayed
from tests.support.tensors import error_on

FOR_OWN_EYES = "if answers for a person are shown to that person only"
FORMS = {"CP": CPCompletion, "Tucker": TuckerCompletion}
# The user whose values change, and one who is new.
OTHER, NEW = 3, 50
RATINGS = make_ratings(12, 9, 70, random_state=1)
X, Y = np.unique(RATINGS.data, axis=0), None
Y = np.random.default_rng(0).choice(RATINGS.levels, len(X))
MASK = X[:, 0] == OTHER
TOLD = np.random.default_rng(1).choice(RATINGS.levels, MASK.sum())


def make(form="CP", **params):
    options = {
        "epsilon": 2.0, "levels": RATINGS.levels, "shape": (12, 9), "max_iter": 3,
        "perturbation": "input", "n_pattern_components": 0, "random_state": 0,
    }  # fmt: skip
    return FORMS[form](2, **options | params)


def everywhere(users):
    """All coordinates of some users, and those of an unknown item."""
    users = np.atleast_1d(users)
    items = np.tile(np.arange(-1, 9), len(users))
    return np.column_stack([np.repeat(users, 10), items])


def shared(model):
    """What anybody may see: all but the answers for users."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        copies = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
        found = [each.predict(everywhere(range(-1, 12))) for each in copies]
        found += [each.recommend(range(-1, 12), 9) for each in copies]
    found += [*model.factors_, model.offset_, model.shape_]
    found += [getattr(model, "model_variance_", None)]
    return [*found, pickle.dumps(model), repr(model), model._fitted.dense()]


def answers(model, users):
    found = [model.predict(everywhere(users)), model.recommend(users, 9)]
    if model.perturbation_ == "input":
        found += model.predict(everywhere(users), return_std=True)
    return found


def assert_same(one, other):
    for number, (a, b) in enumerate(zip(one, other, strict=True)):
        assert_array_equal(a, b, err_msg=str(number))


def differs(one, other):
    return any(not np.array_equal(a, b) for a, b in zip(one, other, strict=True))


# --- what others get to see ----------------------------------------------------------

CASES = [
    ("CP", "input", 2), ("Tucker", "input", 2), ("CP", "auto", 2), ("CP", "sums", 2),
    ("CP", "statistics", 2), ("CP", "gradient", 2), ("Tucker", "statistics", 2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("form", "perturbation", "epsilon"),
    [CASES[0], *(pytest.param(*c, marks=pytest.mark.thorough) for c in CASES[1:])],
)
def test_values_of_one_user_change_nothing_for_others(form, perturbation, epsilon):
    """Given the same releases, in a fit, in fold_in and in partial_fit."""
    options = {"perturbation": perturbation, "epsilon": epsilon, "personal": True}
    changed = Y.copy()
    changed[MASK] = TOLD
    others = [u for u in range(-1, 12) if u != OTHER]
    models = [make(form, **options) for _ in range(2)]
    for call in ["fit"] + ["partial_fit"] * (perturbation == "input"):
        calls = [getattr(model, call) for model in models]
        one, other = replayed(
            lambda fit, y: fit(X, y), (calls[0], Y), (calls[1], changed)
        )
        assert differs(answers(one, OTHER), answers(other, OTHER))
        assert_same(answers(one, others), answers(other, others))
        assert_same(shared(one), shared(other))


@pytest.mark.parametrize("personal", [False, True])
def test_who_folds_in_what_changes_nothing_for_others(personal):
    model = make(personal=personal).fit(X, Y)
    others = [u for u in range(-1, 12) if u != OTHER]
    before = answers(model, others), shared(model)
    told = answers(model, OTHER)
    model.fold_in(X[MASK], TOLD)
    model.fold_in(np.column_stack([np.full(3, NEW), [0, 4, 7]]), [0.5, 5, 5])
    assert differs(told, answers(model, OTHER))
    assert_same(before[0], answers(model, others))
    assert_same(before[1], shared(model))
    # Nor does it tell whether somebody has an index beyond the shape.
    for index in (NEW - 1, NEW + 1, 12):
        with pytest.raises(ValueError, match="outside the tensor: they must be below"):
            model.predict([[index, 0]])
    # Later entries go on from released rows.
    whole = make(personal=personal).fit(X, Y).partial_fit(X[:5], Y[:5])
    assert_same(shared(model.partial_fit(X[:5], Y[:5])), shared(whole))


def test_partial_fit_tells_users_their_new_values():
    """With `personal` from raw values, and else from randomised ones."""
    for personal in (True, False):
        model = make(personal=personal, epsilon=0.1).fit(X[~MASK], Y[~MASK])
        model.fold_in([[NEW, 1]], [5.0])
        before = model.predict(everywhere([OTHER, NEW]))
        model.partial_fit([[OTHER, 0], [OTHER, 1], [OTHER, 2]], [5.0, 5.0, 5.0])
        found = model.predict(everywhere([OTHER, NEW]))
        # Nobody else's rows of items change by much at this epsilon.
        moved = np.abs(found - before).reshape(2, -1).max(axis=1)
        assert (moved[0] > 0.1) == personal
        assert moved[1] < 0.1


# --- rows ----------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_row_is_that_of_all_values_of_the_user(form):
    """In a fit with `personal`, or if they are folded in later, in any order."""
    whole = make(form, personal=True).fit(X, Y)
    model = make(form).fit(X, Y)
    assert_same(shared(whole)[:4], shared(model)[:4])
    order = np.random.default_rng(2).permutation(np.flatnonzero(MASK))
    model.fold_in(X[order], Y[order])
    at = everywhere(OTHER)
    assert_allclose(model.predict(at), whole.predict(at), rtol=1e-9)
    # A row replaces an earlier one.
    again = model.fold_in(X[MASK], TOLD).fold_in(X[order], Y[order])
    assert_allclose(again.predict(at), whole.predict(at), rtol=1e-9)


def test_values_that_are_not_folded_in_stay_as_evidence():
    """Without noise, it hardly matters whether a value is folded in."""
    ratings = make_ratings(60, 40, 1200, random_state=0)
    model = CPCompletion(
        1, epsilon=np.inf, levels=ratings.levels, n_pattern_components=0
    )
    model.fit(ratings.data, ratings.target)
    own = np.flatnonzero(ratings.data[:, 0] == 7)
    at = np.column_stack([np.full(40, 7), np.arange(40)])
    model.fold_in(ratings.data[own], ratings.target[own])
    whole = model.predict(at)
    model.fold_in(ratings.data[own[:1]], ratings.target[own[:1]])
    assert np.abs(model.predict(at) - whole).max() < 0.1
    # In a copy, raw values are lost: without noise, they are never stored.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        stored = pickle.loads(pickle.dumps(model))
    stored.fold_in(ratings.data[own[:1]], ratings.target[own[:1]])
    assert np.abs(stored.predict(at) - whole).max() > 0.3


def test_randomised_values_stay_in_copies():
    model = make().fit(X, Y)
    at, one = everywhere(OTHER), np.flatnonzero(MASK)[:1]
    stored = pickle.loads(pickle.dumps(model)).fold_in(X[one], Y[one])
    model.fold_in(X[one], Y[one])
    assert_array_equal(stored.predict(at), model.predict(at))
    alone = make().fit(X[~MASK], Y[~MASK]).fold_in(X[one], Y[one])
    assert np.any(alone.predict(at) != model.predict(at))


def test_new_users_are_answered():
    model = make().fit(X, Y)
    with pytest.raises(ValueError, match="must be below 12"):
        model.predict([[NEW, 0]])
    model.fold_in([[NEW, 0], [NEW, 5]], [5.0, 5.0])
    high = model.predict(everywhere(NEW))
    assert set(model.recommend(NEW, 9)) == {-1, 1, 2, 3, 4, 6, 7, 8}
    assert model.shape_ == (12, 9)
    model.fold_in([[NEW, 0], [NEW, 5]], [0.5, 0.5])
    assert np.mean(model.predict(everywhere(NEW)) - high) < -0.2
    mixed = model.predict([[NEW, 1], [0, 1], [-1, 1]])
    alone = [model.predict([[user, 1]])[0] for user in (NEW, 0, -1)]
    assert_allclose(mixed, alone, rtol=1e-12)
    assert model.score([[NEW, 0], [NEW, 1], [0, 1]], [1.0, 2.0, 3.0]) <= 1


@pytest.mark.thorough
def test_own_rows_are_more_accurate():
    """The more, the more noise; without noise it does not matter."""
    ratings = make_ratings(150, 80, 4000, random_state=0)
    test = np.random.default_rng(0).random(4000) < 0.25
    for epsilon, least, most in ((0.5, 0.8, 0.97), (np.inf, 0.99, 1.01)):
        errors = []
        for personal in (False, True):
            model = CPCompletion(
                3, epsilon=epsilon, levels=ratings.levels, shape=(150, 80),
                personal=personal, random_state=0,
            )  # fmt: skip
            errors.append(error_on(test, model, ratings.data, ratings.target))
        assert least < errors[1] / errors[0] < most, errors


@pytest.mark.thorough
def test_auto_takes_what_is_expected_to_be_best_then():
    """The sums of items at small epsilon, and values from some epsilon on."""
    ratings = make_ratings(300, 300, 9000, random_state=0)
    epsilons, best = [1.0, 4.0], {}
    options = {"levels": ratings.levels, "shape": ratings.shape}
    for personal in (False, True):
        models = {
            name: CPCompletion(perturbation=name, personal=personal, **options)
            for name in ("input", "sums", "auto")
        }
        errors = {
            name: expected_error(model, ratings.data, epsilons=epsilons).errors
            for name, model in models.items()
        }
        best[personal] = errors.pop("auto")
        assert_array_equal(best[personal], np.min([*errors.values()], axis=0))
        assert np.argmin([*errors.values()], axis=0).tolist() == [1, 0]
    assert np.all(best[True] < best[False])
    for epsilon, taken in zip(epsilons, ("sums", "input"), strict=True):
        model = CPCompletion(epsilon=epsilon, personal=True, max_iter=2, **options)
        with warnings.catch_warnings(action="error"):  # not averages alone
            model.fit(ratings.data, ratings.target)
        assert model.perturbation_ == taken


@pytest.mark.thorough
def test_many_declared_features_do_no_harm():
    """They share the prior variance of one, whether they say something or nothing."""
    ratings = make_ratings(150, 80, 4000, random_state=0)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(80, 20))
    tastes = rng.normal(0, 0.3, (150, 20)) * (np.arange(20) < 4)
    users, films = ratings.data.T
    liked = ratings.target + np.sum(tastes[users] * features[films], axis=1)
    test = rng.random(4000) < 0.25
    ratios = []
    for values in (ratings.target, liked.clip(0.5, 5)):
        errors = []
        for known in (None, {1: features}):
            model = CPCompletion(
                epsilon=1.0, levels=ratings.levels, shape=(150, 80), personal=True,
                perturbation="sums", side_information=known, random_state=0,
            )  # fmt: skip
            errors.append(error_on(test, model, ratings.data, values))
        ratios.append(errors[1] / errors[0])
    # With the variance of one each, they would cost 11% and gain nothing.
    assert ratios[0] < 1.02, ratios
    assert ratios[1] < 0.99, ratios


def test_without_own_values_a_user_is_the_average_user():
    """After sums: whoever has none, and everybody of a copy until they fold in."""
    ratings = make_ratings(60, 40, 1200, random_state=0)
    X, y = ratings.data, ratings.target
    options = {"perturbation": "sums", "personal": True, "shape": (61, 40)}
    model = make(epsilon=2.0, **options).fit(X, y)
    items = np.arange(40)
    answers = [model.predict(np.column_stack([np.full(40, u), items]))
               for u in (60, -1, 5)]  # fmt: skip
    assert_array_equal(answers[0], answers[1])
    assert np.abs(answers[2] - answers[0]).max() > 0.1
    stored = pickle.loads(pickle.dumps(model))
    with pytest.warns(UserWarning, match="own rows are never pickled"):
        of_five = stored.predict(np.column_stack([np.full(40, 5), items]))
    assert_array_equal(of_five, answers[0])
    assert not any(model.factors_[0][:, 0])
    own = X[:, 0] == 5
    stored.fold_in(X[own], y[own])
    again = stored.predict(np.column_stack([np.full(40, 5), items]))
    assert_allclose(again, answers[2], rtol=1e-9)


def test_models_of_other_data_have_other_factors():
    """Whatever a model keeps for its answers, no other model answers with it."""
    one, other = (
        make(unit=0, perturbation="sums").fit(X, values).factors_[1]
        for values in (Y, RATINGS.levels[0] + RATINGS.levels[-1] - Y)
    )
    assert np.any(one != other)


# --- ids -----------------------------------------------------------------------------

TABLE = [[f"u{u}", f"i{i}"] for u, i in X]


def recommender(**params):
    return Recommender(make(shape=None, **params)).fit(TABLE, Y)


def ids_answered(model, users):
    rows = [[user, f"i{i}"] for user in users for i in range(10)]
    return [model.predict(rows), model.recommend(users, 9)]


def test_a_recommender_takes_new_users_and_known_ones():
    model = recommender()
    names = [f"u{u}" for u in range(12)]
    others = [name for name in names if name != f"u{OTHER}"] + ["nobody"]
    before, nobody = ids_answered(model, others), ids_answered(model, ["zoe"])
    assert_same(nobody, ids_answered(model, ["nobody"]))
    state = pickle.dumps(model)
    told = ids_answered(model, [f"u{OTHER}"])
    own = [[f"u{OTHER}", f"i{i}"] for i in X[MASK, 1]]
    model.fold_in(own, TOLD)
    model.fold_in([["zoe", "i0"], ["zoe", "i5"]], [5.0, 5.0])
    assert differs(told, ids_answered(model, [f"u{OTHER}"]))
    assert differs(nobody, ids_answered(model, ["zoe"]))
    assert not {"i0", "i5"} & set(model.recommend("zoe", 9))
    assert_same(before, ids_answered(model, others))
    # New ids are nowhere but in this process.
    assert pickle.dumps(model) == state
    assert "zoe" not in model.encoder_.categories_[0]
    stored = copy.deepcopy(model)
    assert_same(ids_answered(stored, ["zoe"]), nobody)
    # A user keeps a row of their own among all.
    found = ids_answered(model, ["zoe"])
    model.fold_in([["eve", "i0"], ["ann", "i1"]], [0.5, 5.0])
    assert_same(ids_answered(model, ["zoe"]), found)
    assert differs(ids_answered(model, ["eve"]), ids_answered(model, ["ann"]))
    assert model.privacy_guarantee_.conditions == (FOR_OWN_EYES,)
    assert FOR_OWN_EYES in str(privacy_of(model))
    (release,) = privacy_of(model).releases
    assert release[1] == 1


def test_a_recommender_tells_of_unknown_items_and_not_of_new_users():
    model = recommender()
    rows = [["zoe", "i0"], ["zoe", "a new film"]]
    with pytest.warns(UserWarning, match="1 rows are left out"):
        model.fold_in(rows, [5.0, 1.0])
    strict = recommender().set_params(handle_unknown="error")
    with pytest.raises(ValueError, match="1 rows have an id"):
        strict.fold_in(rows, [5.0, 1.0])
    strict.fold_in(rows[:1], [5.0])
    with pytest.raises(ValueError, match="numbers"):
        strict.fold_in([[7, 3]], [5.0])


def test_ids_of_frames_are_ids_of_lists():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"user": X[:, 0] + 100, "item": X[:, 1] + 7})
    model = Recommender(make(shape=None, personal=True)).fit(frame, Y)
    new = pd.DataFrame({"user": [5, 5], "item": [7, 8]})
    model.fold_in(new, [5.0, 0.5])
    assert_allclose(model.predict(new), model.completion_.predict(
        model._where(model._fitted, new)
    ))  # fmt: skip
    assert not {7, 8} & set(model.recommend(5, 9))
    assert_array_equal(model.recommend([5, 5.0], 3)[0], model.recommend(5, 3))


# --- the guarantee -------------------------------------------------------------------


def test_the_guarantee_says_who_may_see_the_answers():
    plain = make().fit(X, Y)
    assert not plain.privacy_guarantee_.conditions
    told = make(personal=True)
    assert planned_guarantee(told).conditions == (FOR_OWN_EYES,)
    with PrivacyBudget(3.0, 0.0) as budget:
        told.fit(X, Y)
        told.fold_in(X[:3], Y[:3])
        assert FOR_OWN_EYES in str(budget.spent)
        assert budget.spent.epsilon_at(0.0) <= 2.0
    assert told.privacy_guarantee_.conditions == (FOR_OWN_EYES,)
    assert FOR_OWN_EYES in str(privacy_of(told))
    # Copies of a fit with `personal` may get rows again.
    assert copy.deepcopy(told).privacy_guarantee_ == told.privacy_guarantee_
    plain.fold_in(X[MASK], TOLD)
    stored, same = pickle.loads(pickle.dumps(plain)), copy.copy(plain)
    for model, conditions in ((plain, (FOR_OWN_EYES,)), (same, (FOR_OWN_EYES,)),
                              (stored, ()), (copy.deepcopy(plain), ())):  # fmt: skip
        assert model.privacy_guarantee_.conditions == conditions
        (release,) = privacy_of(model).releases
        assert release[1:] == (1, model.privacy_guarantee_)
    plain.partial_fit(X[:3], Y[:3])
    assert plain.privacy_guarantee_.conditions == (FOR_OWN_EYES,)
    free = make(personal=True, epsilon=np.inf).fit(X, Y)
    assert not free.privacy_guarantee_.conditions


def test_copies_say_that_rows_were_lost_where_that_is_public():
    """Whether anybody was folded in is told to nobody."""
    told = make(personal=True).fit(X, Y)
    with pytest.warns(UserWarning, match="own rows are never pickled"):
        pickle.loads(pickle.dumps(told)).predict([[0, 0]])
    plain = make().fit(X, Y).fold_in(X[MASK], TOLD)
    pickle.loads(pickle.dumps(plain)).predict([[OTHER, 0]])


# --- refusals ------------------------------------------------------------------------


def test_what_cannot_be_personal_is_refused():
    with refused("ties the rows of mode 0"):
        make(personal=True, smooth_modes=[0]).fit(X, Y)
    tied = make(smooth_modes=[0]).fit(X, Y)
    with pytest.raises(ValueError, match="ties the rows of mode 0"):
        tied.fold_in(X[:2], Y[:2])
    noisy = make().client(0).privatize(Y)
    with pytest.raises(ValueError, match="fit_randomized never sees"):
        make(personal=True).fit_randomized(X, noisy)
    folded = make().fit_randomized(X, noisy).fold_in(X[MASK], TOLD)
    assert folded.privacy_guarantee_.conditions[-1].startswith("if clients")
    assert not hasattr(PublishedCPCompletion(), "fold_in")
    assert make(unit=0, perturbation="auto", personal=True).fit(X, Y) is not None


@pytest.mark.parametrize(
    ("estimator", "grid"),
    [
        (make(personal=True), {"rank": [1, 2]}),
        (make(), {"personal": [False, True]}),
        (Recommender(make(personal=True, shape=None)), {"completion__rank": [1, 2]}),
    ],
)
def test_private_searches_do_not_read_own_values(estimator, grid):
    search = PrivateSearchCV(estimator, grid, n_iter=2)
    with refused("cannot try personal=True"):
        search.fit(X, Y)
