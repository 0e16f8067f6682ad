"""Tensor mathematics: arrays in, arrays out; no randomness, no privacy."""

from ._algebra import cp_to_dense, cp_to_tucker, mode_products
from ._cp import CPForm, max_cp_rank, point_model
from ._cp_rows import fit_cp, padded
from ._grouped import (
    DenseEntries,
    SparseEntries,
    as_coordinates,
    group_by_mode,
    times_recurring,
)
from ._likelihood import TableLikelihood
from ._observations import Observations
from ._pattern import Pattern, pattern_of
from ._row_posterior import row_posterior
from ._rows import Rows, continued, rescaled, updated, with_indices
from ._sums import fit_biases_to_sums
from ._tucker import StructuredTucker, TuckerForm, point_tucker_model
from ._tucker_fit import (
    check_tucker_size,
    continue_structured_tucker,
    fit_structured_tucker,
)
from ._updates import update_structured_tucker

__all__ = [
    "CPForm",
    "DenseEntries",
    "Observations",
    "Pattern",
    "Rows",
    "SparseEntries",
    "StructuredTucker",
    "TableLikelihood",
    "TuckerForm",
    "as_coordinates",
    "check_tucker_size",
    "continue_structured_tucker",
    "continued",
    "cp_to_dense",
    "cp_to_tucker",
    "fit_biases_to_sums",
    "fit_cp",
    "fit_structured_tucker",
    "group_by_mode",
    "max_cp_rank",
    "mode_products",
    "padded",
    "pattern_of",
    "point_model",
    "point_tucker_model",
    "rescaled",
    "row_posterior",
    "times_recurring",
    "update_structured_tucker",
    "updated",
    "with_indices",
]
