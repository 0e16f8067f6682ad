"""From tables with ids to recommendations in ids."""

from ._check_table import check_table, columns_with_values
from ._encoder import CoordinateEncoder
from ._recommender import Recommender
from ._scoring import make_fold_in_scorer, make_ranking_scorer

__all__ = [
    "CoordinateEncoder",
    "Recommender",
    "check_table",
    "columns_with_values",
    "make_fold_in_scorer",
    "make_ranking_scorer",
]
