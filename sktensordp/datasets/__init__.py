"""Data sets: ratings to read, download or generate, choices, low-rank tensors."""

from sktensordp.datasets._choices import make_choices
from sktensordp.datasets._files import read_ratings
from sktensordp.datasets._low_rank import make_low_rank_tensor
from sktensordp.datasets._movielens import fetch_movielens
from sktensordp.datasets._ratings import make_ratings

__all__ = [
    "fetch_movielens",
    "make_choices",
    "make_low_rank_tensor",
    "make_ratings",
    "read_ratings",
]
