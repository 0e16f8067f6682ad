"""Private completion of sparse tensors."""

from ._cp import CPCompletion
from ._encoder import CoordinateEncoder

__all__ = ["CPCompletion", "CoordinateEncoder"]
