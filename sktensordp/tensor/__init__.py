"""Tensor mathematics: arrays in, arrays out; no randomness, no privacy."""

from ._algebra import cp_to_dense, mode_products
from ._coordinates import group_by_index
from ._entries import DenseEntries, SparseEntries
from ._structured_cp import StructuredCP, fit_structured_cp, max_cp_rank

__all__ = [
    "DenseEntries",
    "SparseEntries",
    "StructuredCP",
    "cp_to_dense",
    "fit_structured_cp",
    "group_by_index",
    "max_cp_rank",
    "mode_products",
]
