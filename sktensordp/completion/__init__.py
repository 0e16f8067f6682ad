"""Private completion of sparse tensors."""

from ._check_table import check_table, columns_with_values
from ._checks import entries_from_sparse
from ._client import CompletionClient
from ._cp import CPCompletion
from ._encoder import CoordinateEncoder
from ._implicit import ImplicitCompletion
from ._noise_shares import NoiseShares
from ._parties import fit_aggregated, party
from ._recommender import Recommender
from ._scoring import make_fold_in_scorer, make_ranking_scorer
from ._tucker import TuckerCompletion

__all__ = [
    "CPCompletion",
    "CompletionClient",
    "CoordinateEncoder",
    "ImplicitCompletion",
    "NoiseShares",
    "Recommender",
    "TuckerCompletion",
    "check_table",
    "columns_with_values",
    "entries_from_sparse",
    "fit_aggregated",
    "make_fold_in_scorer",
    "make_ranking_scorer",
    "party",
]
