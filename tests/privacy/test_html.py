"""What notebooks show of guarantees: one coloured line, and the attacker's curve."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from sktensordp.completion import CPCompletion, Recommender
from sktensordp.datasets import make_ratings
from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism
from sktensordp.model_selection import expected_error
from sktensordp.privacy import PrivacyBudget, privacy_of
from tests.support.seams import _HOLDS, _NOTHING

ROWS = np.zeros((3, 1))
LAPLACE = LaplaceMechanism(0.5, bounds=(0, 1), random_state=0).fit(ROWS)
GUARANTEES = {
    "Laplace": LAPLACE.privacy_guarantee_,
    "Gaussian": GaussianMechanism(2.0, sensitivity=1.0).fit(ROWS).privacy_guarantee_,
    "none": LaplaceMechanism(np.inf, bounds=(0, 1)).fit(ROWS).privacy_guarantee_,
}


@pytest.fixture(scope="module")
def recommender():
    ratings = make_ratings(20, 15, 200, random_state=0)
    completion = CPCompletion(rank=0, epsilon=4.0, levels=ratings.levels, max_iter=1)
    return Recommender(completion).fit(ratings.data, ratings.target)


def lines_of(page):
    """Text and colour of every coloured line."""
    return re.findall(r'<div style="border-left: 4px solid (#\w+);[^>]*>([^<]*)<', page)


def test_the_line_of_a_guarantee_has_the_colour_of_its_truth():
    for name, guarantee in GUARANTEES.items():
        (colour, text), *more = lines_of(guarantee._repr_html_())
        assert (f"{text}.", more) == (str(guarantee), [])
        assert colour == (_NOTHING if name == "none" else _HOLDS)[0]
        assert ("<svg" in guarantee._repr_html_()) == (name != "none")


def test_fitted_estimators_and_reports_say_the_guarantee(recommender):
    said = "(epsilon = 4, delta = 0)-differential privacy for the value of one observed"
    for shown in (
        recommender._repr_html_(),
        recommender._repr_mimebundle_()["text/html"],
        privacy_of(recommender)._repr_html_(),
    ):
        ((colour, text),) = lines_of(shown)
        assert colour == _HOLDS[0]
        assert said in text
    assert lines_of(Recommender(CPCompletion())._repr_html_()) == []
    ((_, text),) = lines_of(LAPLACE._repr_html_())
    assert text.startswith("Each call of transform: (epsilon = 0.5, delta = 0)")


def test_a_budget_says_whom_it_protects():
    with PrivacyBudget(1.2) as budget:
        LAPLACE.transform(ROWS)
    expected = (
        "Privacy budget: epsilon = 1.2, delta = 0, for one row of X (replace-one)"
    )
    assert lines_of(budget._repr_html_()) == [(_HOLDS[0], expected)]
    ((colour, _),) = lines_of(PrivacyBudget(np.inf)._repr_html_())
    assert colour == _NOTHING[0]


@pytest.mark.parametrize(
    ("estimator", "group", "protects"),
    [
        (LAPLACE, 1, "one row of X (replace-one), at delta = 0"),
        (
            LAPLACE, 4,
            "4 units together: each is one row of X (replace-one), at delta = 0",
        ),
        (
            CPCompletion(unit=0, value_bounds=(1, 5), shape=(3, 3)), 1,
            "everything at one index of mode 0 (add-or-remove), at delta = 1e-06",
        ),
    ],
)  # fmt: skip
def test_an_expected_error_says_what_epsilon_would_protect(estimator, group, protects):
    expected = expected_error(
        estimator, np.zeros((9, 2), int), epsilons=[np.inf, 1, 4], group=group
    )
    assert expected.protects == protects
    page = expected._repr_html_()
    ((_, text),) = lines_of(page)
    assert text == f"Each epsilon would protect {protects}. Nothing is released yet."
    for epsilon, error in zip(("inf", "1", "4"), expected.errors, strict=True):
        assert f"<th>epsilon = {epsilon}</th><td>{error:.4g}" in page


@pytest.mark.parametrize("name", ["Laplace", "Gaussian"])
def test_the_curve_is_what_an_attacker_can_achieve(name):
    guarantee = GUARANTEES[name]
    page = ElementTree.fromstring(f"<p>{guarantee._repr_html_()}</p>")
    (details,) = page.iter("details")
    size = float(next(details.iter("rect")).get("width"))
    points = next(details.iter("polyline")).get("points").split()
    places = np.array([point.split(",") for point in points], dtype=float) / size
    for fpr, missed in places[:: len(places) // 6]:
        # A point is rounded to a tenth of a pixel, in both directions.
        off = 0.1 / size * np.exp(guarantee.epsilon)
        assert 1 - missed >= guarantee.max_tpr(fpr) - off
        assert 1 - missed <= guarantee.max_tpr(fpr) + off + 0.01
    said = re.search(r"more than ([\d.]+)%", "".join(details.itertext()))[1]
    assert 0 <= float(said) / 100 - guarantee.max_accuracy(0.5) < 0.001
