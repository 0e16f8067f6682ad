"""Private completion of sparse tensors."""

from ._biscaler import BiScaler
from ._cp import CPCompletion
from ._encoder import CoordinateEncoder

__all__ = ["BiScaler", "CPCompletion", "CoordinateEncoder"]
