"""Tables of counts with standard errors."""

from ._tensor_counts import TensorCounts

__all__ = ["TensorCounts"]
