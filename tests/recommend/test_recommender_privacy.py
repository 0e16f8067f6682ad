"""What a recommender tells of a user, with `unit=0`: what it releases.

Two data sets differ by one user, and both fits are given the same releases. Then all
that is stored must be the same, and so must every answer to another user, although the
rows that users have are drawn anew in every fit.
"""

import copy
import pickle
import uuid

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
    TuckerCompletion,
)
from tests.support.leak_hunt import files_of, pickles_of, texts_of, walk
from tests.support.public import methods_of
from tests.support.replaying import largest_ratios, recorded

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:.* of the values are:UserWarning"),
]
ITEMS = ["Brazil", "Heat", "Jaws", "Metropolis", "Up"]
# The user who is added, removed or changed, and those who ask.
OTHER, ASKING = "mallory", ["ann", "bob", "eve", "zoe"]
USERS = sorted([OTHER, *ASKING])
VALUED = {
    "sums": CPCompletion(1, perturbation="sums"),
    "statistics": CPCompletion(1, perturbation="statistics"),
    "auto": CPCompletion(1),
    "Tucker": TuckerCompletion(1, perturbation="statistics"),
}


def make(completion, **options):
    model = clone(completion).set_params(epsilon=4.0, random_state=0)
    if not isinstance(completion, ImplicitCompletion):
        model.set_params(unit=0, value_bounds=(0, 1), max_iter=3)
    encoder = CoordinateEncoder(categories=[None, ITEMS])
    return Recommender(model, encoder, **options)


def entries(seed=0):
    """Rows of all users in any order: items, those that are not known, and values."""
    rng = np.random.default_rng(seed)
    rows = [[user, item] for user in USERS for item in [*ITEMS[1:], "unknown"]]
    rows += [[OTHER, ITEMS[k]] for k in rng.integers(0, 5, 40)]
    rng.shuffle(rows)
    return np.array(rows), rng.uniform(-1, 2, len(rows))


def neighbours(X, y):
    """The data without the user, with other rows of it, with more, and nobody else."""
    own = X[:, 0] == OTHER
    yield "removed", X[~own], y[~own]
    yield "other values", X, np.where(own, 1 - y, y)
    others = np.array([[OTHER, ITEMS[0]], [OTHER, "unknown"], [OTHER, ITEMS[0]]])
    yield (
        "other rows, which come first",
        np.concatenate([others, X[~own]]),
        np.concatenate([[1.0, 0.0, 0.0], y[~own]]),
    )
    lost = np.array([[OTHER, "unknown"]])
    yield (
        "a user of whom nothing is known",
        np.concatenate([lost, X[~own]]),
        np.concatenate([[1.0], y[~own]]),
    )


def data_of(model, X, y):
    return (X, y) if hasattr(model, "score") else (X,)


def own_rows(user):
    X, y = entries()
    return X[X[:, 0] == user], y[X[:, 0] == user]


def predict(model, user):
    everything = [[user, item] for item in [*ITEMS, "unknown"]]
    return model.predict(everything)


def recommend(model, user):
    options = {"exclude_observed": False, "return_scores": True}
    items, scores = model.recommend(user, k=7, **options)
    return np.concatenate([
        model.recommend(user, k=7), *model.recommend([user, None, "nobody"], k=7),
        items, np.nan_to_num(scores),
    ])  # fmt: skip


def similar_items(model, user):
    return model.similar_items([*ITEMS, None], k=7)


def fold_in(model, user):
    """A user comes back with the same rows; a new one joins."""
    X, y = own_rows(user)
    model = copy.copy(model).fold_in(*data_of(model, X, y))
    X = np.where(user == X, "new", X)
    model.fold_in(*data_of(model, X, y))
    return np.concatenate([recommend(model, user), recommend(model, "new")])


def forget(model, user):
    """The other user is forgotten, and then the one who asks."""
    gone = copy.copy(model).forget(OTHER)
    for answer in (predict, recommend, similar_items, fold_in):
        found, before = answer(gone, user), answer(model, user)
        assert np.array_equal(found, before), f"{answer.__name__} changes for {user}"
    own = copy.copy(model).forget([user, "nobody"])
    # What is left to say to the other user follows from releases.
    return np.concatenate([
        recommend(gone, OTHER), predict(gone, OTHER),
        recommend(own, user), predict(own, user),
    ])  # fmt: skip


def score(model, user):
    if not hasattr(model, "score"):
        return 0
    return model.score(*own_rows(user))


def sample_users(model, user):
    drawn = model.sample_users(9, random_state=0)
    return np.concatenate([np.ravel(part) for part in drawn])


def stored(model, user):
    """All that leaves the process, and what is shown."""
    pickles = *pickles_of(model), *pickles_of(copy.deepcopy(model))
    return [repr(way) for way in (*pickles, *texts_of(model))]


ANSWERS = {
    one.__name__: one
    for one in (
        predict,
        recommend,
        similar_items,
        fold_in,
        forget,
        score,
        sample_users,
        stored,
    )
}
# They make a fit, or read no data of one.
NO_ANSWERS = {
    "fit", "fit_batches", "get_params", "set_params", "get_metadata_routing",
    "set_callbacks", "set_output",
}  # fmt: skip


def test_every_public_method_is_asked():
    model = make(VALUED["sums"]).fit(*entries())
    assert methods_of(model) - NO_ANSWERS == set(ANSWERS) - {"stored"}


@pytest.mark.parametrize("completion", [*VALUED.values(), ImplicitCompletion()])
def test_no_answer_depends_on_another_user(completion):
    X, y = entries()
    with recorded() as releases:
        model = make(completion).fit(*data_of(make(completion), X, y))
    for change, *data in neighbours(X, y):
        with recorded(releases) as replayed:
            other = make(completion).fit(*data_of(model, *data))
        if change != "other values" or hasattr(model, "score"):
            assert np.any(replayed.flat != releases.flat), change
        for name, answer in ANSWERS.items():
            for user in ASKING:
                one, two = answer(model, user), answer(other, user)
                assert np.array_equal(one, two), f"{name} for {user}: {change}"


def test_rows_differ_from_fit_to_fit():
    """So that the replays would notice answers that depend on them."""
    X, y = entries()
    model = make(VALUED["sums"]).fit(X, y)
    others = [make(VALUED["sums"]).fit(X, y) for _ in range(5)]

    def rows(one, user):
        return one._fitted.local.rows_of(np.array([user])).tolist()

    found = {str([rows(one, user) for user in ASKING]) for one in (model, *others)}
    # All rows agree by chance with a probability below 1e-15.
    assert len(found) > 1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("completion", VALUED.values(), ids=VALUED)
def test_no_neighbour_exceeds_what_is_accounted_for(completion):
    X, y = entries()
    others = [(X[X[:, 0] != user], y[X[:, 0] != user]) for user in USERS]
    found = largest_ratios(make(completion), (X, y), others)
    found = found[~np.isnan(found)]
    assert found.size
    assert np.all(found <= 1 + 1e-9)
    assert np.all(found > 0.5)


def test_a_fit_to_nobody_looks_like_any_other():
    """The only user is protected, too."""
    model = make(VALUED["sums"])
    alone = own_rows("ann")
    with recorded() as releases:
        one = clone(model).fit(*alone)
    for nobody in (
        (alone[0][:0], alone[1][:0]),
        (np.array([["ann", "unknown"]]), [1.0]),
    ):
        with recorded(releases):
            other = clone(model).fit(*nobody)
        assert pickle.dumps(other) == pickle.dumps(one)
        assert_array_equal(other.recommend("bob", k=5), one.recommend("bob", k=5))


# --- no id leaves the process --------------------------------------------------------

UUIDS = [uuid.uuid5(uuid.NAMESPACE_DNS, f"user {k}") for k in range(5)]
IDS = {
    "text": [f"somebody-{k * 7919 + 10**6}" for k in range(5)],
    "text beyond ASCII": [f"jemand-ü-{k * 7919 + 10**6}" for k in range(5)],
    "numbers": [0x1B2C5D6E7F8A + 7919**3 * k for k in range(5)],
    "UUIDs": UUIDS,
    "times": list(np.datetime64("2031-05-06T07:08:09") + np.arange(5) * 7919),
}


def bytes_of(id_):
    """All that the bytes of an id may look like."""
    if isinstance(id_, uuid.UUID):
        yield from (id_.bytes, id_.bytes_le, id_.bytes[::-1])
        yield from bytes_of(id_.hex)
    if isinstance(id_, np.datetime64):
        yield id_.astype("datetime64[s]").astype(np.int64).tobytes()
        yield id_.astype("datetime64[ns]").astype(np.int64).tobytes()
    if isinstance(id_, int):
        for order in ("little", "big"):
            yield id_.to_bytes(8, order)
            yield id_.to_bytes((id_.bit_length() + 7) // 8, order)
        yield np.float64(id_).tobytes()
        yield np.float64(id_).tobytes()[::-1]
    for code in ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "latin1"):
        yield str(id_).encode(code)
    yield str(id_).encode("unicode_escape")


@pytest.mark.parametrize("completion", [VALUED["sums"], ImplicitCompletion()])
@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_no_id_is_stored_copied_or_shown(ids, completion):
    X = np.empty((25, 2), dtype=object)
    X[:] = [[id_, item] for id_ in ids for item in ITEMS]
    model = make(completion)
    model.fit(*data_of(model, X, np.linspace(0, 1, 25)))
    model.fold_in(*data_of(model, X[:5], np.linspace(0, 1, 5)))
    asked = np.empty(len(ids), dtype=object)
    asked[:] = list(ids)
    assert model.recommend(asked, k=2).shape == (5, 2)
    needles = {needle for id_ in ids for needle in bytes_of(id_)}
    # They would be found.
    assert any(one in pickle.dumps(model._fitted.local._rows) for one in needles)
    loaded = pickle.loads(pickle.dumps(model))
    stores = [*pickles_of(model), *files_of(model), *pickles_of(copy.copy(model))]
    stores += pickles_of(clone(model))
    stores += [
        ("vars", pickle.dumps(vars(model))),
        ("guarantee", pickle.dumps(model.privacy_guarantee_)),
        ("completion", pickle.dumps(model.completion_)),
        ("encoder", pickle.dumps(model.encoder_)),
    ]
    for one in (model, model.completion_, model.encoder_):
        stores += [(name, text.encode()) for name, text in texts_of(one)]
    stores.append(("local", repr(model._fitted.local).encode()))
    for name, data in stores:
        assert not any(one in data for one in needles), name
    kept = {id(id_) for id_ in ids}
    for one in (copy.deepcopy(model), loaded, clone(model)):
        for path, thing in walk(one):
            assert id(thing) not in kept, path
            if isinstance(thing, str | int | uuid.UUID | np.datetime64):
                assert not any(type(thing) is type(i) and thing == i for i in ids), path
    # And no public attribute holds one.
    for name in dir(model):
        if not name.startswith("_") and not callable(getattr(model, name, None)):
            data = pickle.dumps(getattr(model, name, None))
            assert not any(one in data for one in needles), name
