"""Private completion of sparse tensors."""

from ._biscaler import BiScaler
from ._cp import CPCompletion
from ._encoder import CoordinateEncoder
from ._scoring import make_fold_in_scorer
from ._tucker import TuckerCompletion

__all__ = [
    "BiScaler",
    "CPCompletion",
    "CoordinateEncoder",
    "TuckerCompletion",
    "make_fold_in_scorer",
]
