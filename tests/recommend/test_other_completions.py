"""`Recommender` takes any completion that has the methods it calls."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

from sktensordp.completion import Recommender
from sktensordp.privacy import privacy_of

TABLE = [["ann", "Heat"], ["ann", "Up"], ["bob", "Heat"], ["eve", "Brazil"]]
STARS = [5, 1, 4, 3]


class ItemMeans(RegressorMixin, BaseEstimator):
    """Recommends the items with the best mean; somebody else's, without privacy."""

    unit = "entry"

    def __init__(self, shape=None):
        self.shape = shape

    def fit(self, X, y):
        sums, counts = (np.bincount(X[:, 1], weights=w) for w in (y, None))
        self.means_ = sums / counts
        return self

    def predict(self, X):
        return self.means_[X[:, 1]]

    def recommend(self, units, k=10, *, candidates=None, exclude=None,
                  exclude_observed=True, return_scores=False):  # fmt: skip
        best = np.argsort(-self.means_)[:k]
        return np.broadcast_to(best, (len(units), len(best)))


def test_a_completion_of_somebody_else():
    model = Recommender(ItemMeans()).fit(TABLE, STARS)
    assert model.recommend("bob", k=3).tolist() == ["Heat", "Brazil", "Up"]
    assert model.predict([["eve", "Up"]]).tolist() == [1.0]
    assert model.score(TABLE, STARS) > 0.9
    assert model.completion_.shape == (3, 3)
    assert not hasattr(model, "fold_in")
    assert not hasattr(model, "sample_users")


def test_nothing_in_it_gives_a_guarantee():
    model = Recommender(ItemMeans()).fit(TABLE, STARS)
    with pytest.raises(TypeError, match="gives a guarantee"):
        privacy_of(model)
    assert not hasattr(model, "privacy_guarantee_")


@pytest.mark.parametrize("other", [object(), RegressorMixin(), "completion"])
def test_what_is_no_completion(other):
    with pytest.raises(ValueError, match="recommend"):
        Recommender(other).fit(TABLE, STARS)
