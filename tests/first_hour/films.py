"""Ratings of films, in the forms that somebody may have them in."""

import pandas as pd

from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_ratings

RATINGS = make_ratings(60, 40, 600, random_state=0)
X, Y, SHAPE = RATINGS.data, RATINGS.target, RATINGS.shape
TABLE = pd.DataFrame(X, columns=["user", "film"])
WIDE = TABLE.assign(stars=Y).pivot_table(index="user", columns="film", values="stars")
FILMS, STARS = list(range(40)), [1, 2, 3, 4, 5]


def cp(rank=0, **params):
    """A completion of them."""
    known = {"epsilon": 8.0, "levels": STARS, "random_state": 0}
    return CPCompletion(rank, **known | params)
