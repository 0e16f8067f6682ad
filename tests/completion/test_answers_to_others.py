"""What one unit is told must not depend on the entries of another.

Two data sets differ by one protected unit, and both fits are given the same noisy sums
(joint differential privacy, Kearns et al. 2014). Then every public method, called on
behalf of any other unit, must give the same answer to the last bit. The same holds for
users who are answered from their own values, where values are protected.
"""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sktensordp.completion import CPCompletion, TuckerCompletion
from tests.support.public import methods_of
from tests.support.replaying import recorded
from tests.support.tensors import dense_of, everywhere

pytestmark = pytest.mark.thorough
SHAPES = {2: (6, 7), 3: (6, 7, 5), 4: (6, 7, 5, 4)}
# The unit that is added, removed or changed, and one who asks.
OTHER = 3


def entries(order, unit, seed=0):
    """Some of every unit; no coordinates twice, so that a tensor holds them."""
    rng = np.random.default_rng(seed)
    X = np.argwhere(rng.random(SHAPES[order]) < 0.6)
    return X, rng.uniform(0, 1, len(X))


def neighbours(X, y, unit):
    """The data without the unit, with other entries of it, and with other values."""
    own = X[:, unit] == OTHER
    yield "removed", X[~own], y[~own]
    rng = np.random.default_rng(7)
    fresh = np.column_stack([rng.integers(0, X.max(axis=0) + 1) for _ in range(9)]).T
    fresh[:, unit] = OTHER
    fresh = np.unique(fresh, axis=0)
    both = np.concatenate([X[~own], fresh])
    order = np.lexsort(both.T[::-1])
    values = np.append(y[~own], rng.uniform(0, 1, len(fresh)))
    yield "other entries", both[order], values[order]
    yield "other values", X, np.where(own, 1 - y, y)


def make(form, order, unit, **params):
    options = {"epsilon": 4.0, "value_bounds": (0, 1), "shape": SHAPES[order]}
    options |= {"unit": unit, "perturbation": "statistics", "random_state": 0}
    return form(2, **options, **params)


def everywhere_of(order, unit, asking):
    """All coordinates of a unit, those with unknown others included."""
    found = everywhere(SHAPES[order])
    return found[found[:, unit] == asking]


def predict(model, order, unit, asking):
    return model.predict(everywhere_of(order, unit, asking))


def score(model, order, unit, asking):
    X = everywhere_of(order, unit, asking)
    return model.score(X, np.linspace(0, 1, len(X)))


def transform(model, order, unit, asking):
    return model.transform(np.empty(SHAPES[order])).take(asking, axis=unit)


def recommend(model, order, unit, asking):
    """Of all lists with all contexts, those that the unit gets to see."""
    found = []
    for context in everywhere(SHAPES[order][2:]) if order > 2 else [[]]:
        units = np.arange(-1, SHAPES[order][0])
        if unit == 0:
            units = [asking]
        elif unit > 1 and context[unit - 2] != asking:
            continue
        k = SHAPES[order][1]
        found.append(model.recommend(units, k, context=context))
        options = {"context": context, "exclude_observed": False, "exclude": [2]}
        found.extend(model.recommend(units, k, return_scores=True, **options))
    return np.concatenate(found)


def similar_items(model, order, unit, asking):
    return model.similar_items(np.arange(-1, SHAPES[order][1]), SHAPES[order][1])


def fold_in(model, order, unit, asking):
    """A unit comes back with its own entries, which are the same in both worlds."""
    X, y = entries(order, unit)
    own = X[:, unit] == asking
    return predict(model.fold_in(X[own], y[own]), order, unit, asking)


def forget(model, order, unit, asking):
    """The other unit is forgotten, and then the one who asks."""
    gone = copy.copy(model).forget(OTHER)
    may_rank = [] if unit == 1 else [recommend]
    for answer in (predict, score, attributes, *may_rank):
        found, before = (answer(one, order, unit, asking) for one in (gone, model))
        assert_array_equal(found, before, err_msg=f"{answer.__name__} changes")
    own = copy.copy(model).forget([asking, -1])
    # What is left to say to the other unit follows from releases.
    return np.concatenate([
        np.ravel(answer(one, order, unit, asked))
        for one, asked in ((gone, OTHER), (own, asking))
        for answer in (predict, *may_rank)
    ])  # fmt: skip


def sample_users(model, order, unit, asking):
    if unit != 0:
        return 0
    X, y = model.sample_users(9, random_state=0)
    return np.column_stack([X, y])


def attributes(model, order, unit, asking):
    return repr({
        name: value for name, value in sorted(vars(model).items()) if name[-1] == "_"
    })  # fmt: skip


ANSWERS = {
    answer.__name__: answer
    for answer in (
        attributes,
        predict,
        score,
        transform,
        recommend,
        similar_items,
        fold_in,
        forget,
        sample_users,
    )
}
# They make a fit, or read no data of one.
NO_ANSWERS = {
    "fit", "fit_batches", "fit_randomized", "fit_transform", "client",
    "privatize", "get_params", "set_params", "get_metadata_routing", "set_output",
    "set_callbacks", "get_feature_names_out",
}  # fmt: skip


def test_every_public_method_is_asked():
    for form in (CPCompletion, TuckerCompletion):
        model = make(form, 3, 0).fit(dense_of(*entries(3, 0), SHAPES[3]))
        assert methods_of(model) - NO_ANSWERS == set(ANSWERS) - {"attributes"}


@pytest.mark.parametrize(
    ("form", "order", "unit"),
    [
        (CPCompletion, 2, 1), (CPCompletion, 3, 0), (CPCompletion, 4, 3),
        (TuckerCompletion, 2, 0), (TuckerCompletion, 3, 2),
    ],
)  # fmt: skip
def test_no_answer_depends_on_another_unit(form, order, unit):
    X, y = entries(order, unit)
    with recorded() as releases:
        model = make(form, order, unit).fit(dense_of(X, y, SHAPES[order]))
    others = [k for k in range(-1, SHAPES[order][unit]) if k != OTHER]
    for change, other_X, other_y in neighbours(X, y, unit):
        with recorded(releases) as replayed:
            dense = dense_of(other_X, other_y, SHAPES[order])
            other = make(form, order, unit).fit(dense)
        assert np.any(replayed.flat != releases.flat), change
        for name, answer in ANSWERS.items():
            for asking in others:
                if name in ("fold_in", "transform") and asking < 0:
                    continue
                asked = (order, unit, asking)
                if name in ("recommend", "similar_items") and unit == 1:
                    with pytest.raises(ValueError, match="unit=1 protects them"):
                        answer(model, *asked)
                    continue
                assert_array_equal(
                    answer(model, *asked), answer(other, *asked),
                    err_msg=f"{name} for {asking}: {change}",
                )  # fmt: skip


def told(model, asking):
    """What every public method tells users who are answered from their own values."""
    order, found = len(model.shape_), {}
    for name, answer in ANSWERS.items():
        for user in asking:
            skipped = name in ("fold_in", "transform") and user < 0
            if name != "sample_users" and not skipped:
                found[name, user] = answer(model, order, 0, user)
    return found


def shown_to_anybody(model):
    """What is not for one user alone."""
    copied, order = pickle.loads(pickle.dumps(model)), len(model.shape_)
    with pytest.warns(UserWarning, match="own rows are never pickled"):
        found = [copied.predict(everywhere(copied.shape_))]
    names = "attributes", "transform", "similar_items"
    found += [ANSWERS[name](model, order, 0, OTHER) for name in names]
    return [*found, *model.factors_, pickle.dumps(model), repr(model)]


@pytest.mark.parametrize(
    ("form", "order", "perturbation", "n_features"),
    [
        (CPCompletion, 2, "sums", 0), (CPCompletion, 2, "sums", 2),
        (CPCompletion, 4, "sums", 2), (TuckerCompletion, 3, "sums", 2),
        (CPCompletion, 3, "input", 2), (TuckerCompletion, 2, "statistics", 0),
    ],
)  # fmt: skip
def test_no_answer_depends_on_another_users_own_values(
    form, order, perturbation, n_features
):
    """Of users who are answered from their own values; coordinates are public."""
    X, y = entries(order, 0)
    *_, (_, _, changed) = neighbours(X, y, 0)
    features = np.random.default_rng(2).normal(size=(SHAPES[order][1], n_features))
    others = [user for user in range(-1, SHAPES[order][0]) if user != OTHER]
    continues = {"partial_fit"} if perturbation == "input" else set()

    def answers(values, later, follow=None):
        model = make(form, order, "entry", personal=True)
        model.set_params(perturbation=perturbation, side_information={1: features})
        with recorded(follow) as releases:
            model.fit(dense_of(X, values, SHAPES[order]))
            asked = set(ANSWERS) - {"attributes", "sample_users"} | continues
            assert methods_of(model) - NO_ANSWERS == asked
            own = predict(model, order, 0, OTHER)
            found = [told(model, others), shown_to_anybody(model)]
            if continues:
                model.partial_fit(later_X, later)
                found += [told(model, others), shown_to_anybody(model)]
        return releases, own, found

    later_X, later = entries(order, 0, seed=1)
    *_, (_, _, later_changed) = neighbours(later_X, later, 0)
    releases, own, found = answers(y, later)
    replayed, own_of_changed, expected = answers(changed, later_changed, releases)
    assert np.any(replayed.flat != releases.flat)
    assert np.any(own != own_of_changed)
    for one, other in zip(found, expected, strict=True):
        keys = one if isinstance(one, dict) else range(len(one))
        for key in keys:
            assert_array_equal(one[key], other[key], err_msg=str(key))


@pytest.mark.parametrize(
    ("form", "order", "unit"),
    [(CPCompletion, 3, 0), (TuckerCompletion, 2, 0), (TuckerCompletion, 4, 3)],
)
def test_a_unit_sees_its_own_entries_left_out(form, order, unit):
    """And nothing else, the best ones first, in whichever mode it is."""
    X, y = entries(order, unit)
    model, n_items = make(form, order, unit).fit(X, y), SHAPES[order][1]
    for asking in range(-1, SHAPES[order][unit]):
        for first in range(SHAPES[order][0]):
            context = np.full(order - 2, -1)
            if unit:
                context[unit - 2] = asking
            elif first != asking:
                continue
            own = X[(X[:, unit] == asking) & (X[:, 0] == first), 1]
            items = model.recommend(first, n_items, context=context)
            items, nothing = np.split(items, [n_items - len(set(own))])
            assert sorted(items) == sorted(set(range(n_items)) - set(own))
            assert np.all(nothing == -1)
            scores = model.predict([[first, item, *context] for item in items])
            assert np.all(np.diff(scores) <= 1e-12)


def test_set_params_does_not_change_who_may_see_what():
    """The unit is that of the fit, whatever the parameters say by now."""
    X, y = entries(3, 2)
    model = make(CPCompletion, 3, 2).fit(X, y)
    before = model.recommend(np.arange(6), 7, context=[1])
    model.set_params(unit="entry")
    assert_array_equal(model.recommend(np.arange(6), 7, context=[1]), before)
    model = make(CPCompletion, 3, 1).fit(X, y).set_params(unit=0)
    with pytest.raises(ValueError, match="unit=1 protects them"):
        model.recommend(0)
