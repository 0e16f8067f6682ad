"""What is public, and what is not, is said alike in reports, budgets and documents."""

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from sktensordp.completion import (
    CoordinateEncoder,
    CPCompletion,
    ImplicitCompletion,
    Recommender,
    TuckerCompletion,
)
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.privacy import PrivacyBudget, privacy_of
from tests.support.seams import main

USERS, FILMS = [f"user {k}" for k in range(5)], ["Brazil", "Heat", "Up"]
WHERE = np.argwhere(np.ones((5, 3)))
SEEN = np.array([[USERS[u], FILMS[f]] for u, f in WHERE], dtype=object)
OF_USERS = CoordinateEncoder(categories=[None, FILMS])
OF_BOTH = CoordinateEncoder(categories=[USERS, FILMS])
RATED = {"levels": [1, 2, 3, 4, 5]}
HIDDEN = (
    "The ids of every column but the users' are public; who the users are, and how "
    "many there are, is not."
)


def of_mode(mode):
    return (
        f"The shape is public, and so is what its indices mean; which indices of mode "
        f"{mode} have entries is not."
    )


COORDINATES = (
    "Which entries are observed (the coordinates) is public: anyone may learn who "
    "rated what, but not the ratings."
)
# By name: an estimator, its table, and what is said of the indices.
PUBLIC = {
    "users of a recommender": (
        Recommender(CPCompletion(0, unit=0, **RATED), OF_USERS), SEEN, HIDDEN
    ),
    "factors, users of a recommender": (
        Recommender(TuckerCompletion(0, unit=0, **RATED), OF_USERS), SEEN, HIDDEN
    ),
    "choices of a recommender": (
        Recommender(ImplicitCompletion(), OF_USERS), SEEN, HIDDEN
    ),
    "films of a recommender": (
        Recommender(CPCompletion(0, unit=1, **RATED), OF_BOTH), SEEN, of_mode(1)
    ),
    "users": (CPCompletion(0, unit=0, shape=(5, 3), **RATED), WHERE, of_mode(0)),
    "films": (CPCompletion(0, unit=1, shape=(5, 3), **RATED), WHERE, of_mode(1)),
    "choices": (ImplicitCompletion(shape=(5, 3)), WHERE, of_mode(0)),
    "entries of a recommender": (
        Recommender(CPCompletion(0, **RATED), OF_BOTH), SEEN, COORDINATES
    ),
    "entries": (
        CPCompletion(0, shape=(5, 3), **RATED), WHERE, COORDINATES
    ),
}  # fmt: skip


@pytest.mark.thorough_after_one
@pytest.mark.parametrize("case", PUBLIC)
@pytest.mark.filterwarnings("ignore")
def test_what_is_public_is_said_everywhere_alike(case, tmp_path, monkeypatch, capsys):
    model, X, sentence = PUBLIC[case]
    is_chosen = "choices" in case
    with PrivacyBudget(9.0, 1e-3, path=tmp_path / "budget", create=True) as budget:
        model = clone(model).fit(X, *([] if is_chosen else [np.full(15, 3.0)]))
    monkeypatch.setattr(sys, "argv", ["privacy", str(tmp_path / "budget")])
    assert main() == 0
    parts = [model] if isinstance(X[0, 0], np.integer) else [model, model.completion_]
    texts = [str(budget), capsys.readouterr().out, *(str(privacy_of(m)) for m in parts)]
    others = {s for _, _, s in PUBLIC.values()} - {sentence}
    for text in texts:
        assert f"  - {sentence}\n" in f"{text}\n"
        assert not any(other in text for other in others)
        assert "indices of every mode" not in text


def test_a_private_search_says_it_of_its_estimator():
    search = PrivateSearchCV(
        PUBLIC["users of a recommender"][0], {"completion__rank": [0]}
    )
    assert HIDDEN in search.__privacy_unprotected__()
    assert not any("shape is public" in s for s in search.__privacy_unprotected__())


def row_of(rows, *words):
    (row,) = (row for row in rows if all(word in row for word in words))
    return row


def test_the_documentation_says_the_same_is_public():
    doc = Path(__file__).parents[2] / "doc"
    rows = (doc / "threat_model.md").read_text(encoding="utf-8").splitlines()
    row = row_of(rows, "| {class}`~sktensordp.recommend.Recommender` |")
    assert row.endswith("not the users, nor how many there are; the ids of items |")
    for words in (["| the same, `unit=0` |"], ["| {class}", "ImplicitCompletion` |"]):
        assert row_of(rows, *words).endswith("the shape, what its indices mean |")
    rows = (doc / "users.md").read_text(encoding="utf-8").splitlines()
    assert row_of(rows, "| the items on offer | how they rated it |")
    assert row_of(rows, "| public, and yours to declare | private |")
    _, _, private, _ = row_of(rows, "whether they are in the data at all").split("|")
    assert "their id; how many users there are" in private
