"""Tensor mathematics: arrays in, arrays out; no randomness, no privacy."""

from ._algebra import cp_to_dense, cp_to_tucker, mode_products
from ._coordinates import as_coordinates, occurring, times_recurring
from ._cp import CPForm, max_cp_rank, point_model
from ._cp_rows import fit_cp, padded
from ._likelihood import TableLikelihood
from ._observations import Observations
from ._pattern import Pattern, pattern_of
from ._rows import (
    Evidence,
    FittedModel,
    ObservedValues,
    Rows,
    add_entries,
    own_rows,
    rescaled,
    run_sweeps,
    with_indices,
)
from ._shared_rows import row_posterior
from ._sums import fit_biases_to_sums
from ._tucker import TuckerForm, TuckerRows, check_tucker_size, fit_tucker

__all__ = [
    "CPForm",
    "Evidence",
    "FittedModel",
    "Observations",
    "ObservedValues",
    "Pattern",
    "Rows",
    "TableLikelihood",
    "TuckerForm",
    "TuckerRows",
    "add_entries",
    "as_coordinates",
    "check_tucker_size",
    "cp_to_dense",
    "cp_to_tucker",
    "fit_biases_to_sums",
    "fit_cp",
    "fit_tucker",
    "max_cp_rank",
    "mode_products",
    "occurring",
    "own_rows",
    "padded",
    "pattern_of",
    "point_model",
    "rescaled",
    "row_posterior",
    "run_sweeps",
    "times_recurring",
    "with_indices",
]
