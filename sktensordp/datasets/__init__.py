"""Data sets of ratings: one to fetch, one to make."""

from sktensordp.datasets._movielens import fetch_movielens
from sktensordp.datasets._ratings import make_ratings

__all__ = ["fetch_movielens", "make_ratings"]
