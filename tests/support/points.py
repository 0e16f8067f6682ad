"""Where the package computes what it releases, for tests that put mistakes there.

The one place that knows what does so, and how it is called there; `seams.py` knows in
which modules that is. A point is looked up when a test asks for it, so one that has
moved stops only the tests that use it.
"""

from functools import reduce
from importlib import import_module

from tests.support import seams

# By name, what has it, which is in seams or public, and how it is called there.
PLACES = {
    # The gate.
    "record of a release": "base.PrivateEstimatorMixin._record",
    "end of an earlier fit": "base.PrivateEstimatorMixin._forget",
    "recording": "base.record",
    "id of a release": "budgets_budget._new_id",
    "recording in a budget": "Ledger.commit",
    "longest wait for a file": "budgets_open.LONGEST_WAIT",
    "pause before another try": "budgets_open.sleep",
    "address of the documentation": "base._documentation",
    # Noise.
    "uniform draws": "noise_discrete.uniform_below",
    "points of a lattice": "noise_lattice._lattice_index",
    "permute and flip": "measure_selection.permute_and_flip",
    "normal noise of a lattice": "noise_lattice._dense_normal",
    "Laplace noise of a lattice": "noise_lattice.discrete_laplace",
    "noise of responses": "mechanisms_responses.discrete_laplace",
    # Values and sums.
    "table of levels": "completion_values.level_table",
    "table of points": "completion_values.table_on_grid",
    "draws of a table": "completion_values.categorical",
    "completion of sums": "SumsPerturbation.complete",
    "block of noisy sums": "measure_noisy_sums._BLOCK",
    "rounds of a fit to sums": "tensor_shared_rows._ROUNDS",
    # Blocks and gradients.
    "lengths of a block": "measurements_statistics.np",
    "bounds of a block": "measurements_statistics.scales_of",
    "plan of gradients": "measurements_gradient.plan_gaussian_sums",
    "clip of gradients": "measurements_gradient.CLIP",
    "scale of a descent's start": "measurements_gradient._START_SCALE",
    "contributions of a descent": "_Descent.contributions",
    "release of a descent": "GradientPerturbation.measure",
    # Units.
    "entries of units": "Entries.by_unit",
    "chunk of entries": "tensor_unit_entries._CHUNK",
    "pairs of items at once": "tensor_choices._CELLS",
    "noise of a release": "measure.Releases._noisy",
    "long vectors": "measure_sums.without_long",
    "bounding": "measure.BoundedSums._weighed",
    "adding": "measure.BoundedSums._add",
    "weights of units": "UnitTotals.weights",
    "bounded sums on the lattice": "measure.BoundedSums.on_lattice",
    "plan of units": "units_units.plan_gaussian_sums",
    "share of counts": "units_first.COUNTS",
    "fit of rows to sums over units": "units_rounds._with_rows",
    "strength of a pattern": "units_first._STRENGTH",
    "least rows of a pattern": "units_first._LEAST_ROWS",
    "eigenvalues that stand out": "units_first._STANDS_OUT",
    "products on the lattice": "measure.ProductSums.on_lattice",
    "release of units": "UnitPerturbation.measure",
    # Fits to what was released.
    "one thread of BLAS": "tensor_threads.one_blas_thread",
    "few entries": "tensor_cp_rows._FEW_ENTRIES",
    "weighing of rows": "tensor_cp_rows.row_weighting",
    "choice of terms": "tensor_cp_rows.with_terms",
    "start of terms": "tensor_cp_rows.leading_terms",
    "block of the core": "tensor_tucker._CORE_BLOCK",
    # The papers.
    "generator of a start": "papers_wei_2022._generator",
    "spherical rows": "papers_wei_2022._spherical",
    # Data.
    "cost of drawing a cell": "datasets_cells._COST_OF_DRAW",
    "least batch of cells": "datasets_cells._MIN_BATCH",
}


class Points(dict):
    """The places, each as what has it and a name, for `monkeypatch.setattr`."""

    def __getitem__(self, name):
        first, *path, attribute = super().__getitem__(name).split(".")
        if first in seams.NAMES:
            found = getattr(seams, first)
        else:
            found = import_module(f"sktensordp.{first}")
        return reduce(getattr, path, found), attribute


POINTS = Points(PLACES)


def original(name):
    """What is there now."""
    return getattr(*POINTS[name])
