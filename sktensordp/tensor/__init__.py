"""Tensor mathematics: arrays in, arrays out; no randomness, no privacy."""

from ._algebra import mode_products
from ._coordinates import group_by_index
from ._structured_cp import StructuredCP, fit_structured_cp, max_cp_rank

__all__ = [
    "StructuredCP",
    "fit_structured_cp",
    "group_by_index",
    "max_cp_rank",
    "mode_products",
]
