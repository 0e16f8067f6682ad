"""Where the package computes what it releases, for tests that put mistakes there.

The one place that knows in which modules these are: after a move, only this file
changes.
"""

from sktensordp import base
from sktensordp.completion import _entries, _values
from sktensordp.completion.measurements import _gradient, _statistics, _sums
from sktensordp.completion.measurements.units import _first, _questions, _rounds, _units
from sktensordp.datasets import _cells
from sktensordp.measure import _noisy_sums, _products, _releases
from sktensordp.measure import _sums as _sums_of_people
from sktensordp.mechanisms import _responses
from sktensordp.noise import _discrete, _lattice
from sktensordp.papers import _cheng_2022, _wei_2022
from sktensordp.privacy.budgets import _ledger, _open
from sktensordp.tensor import (
    _cp_rows,
    _shared_rows,
    _threads,
    _tucker,
    _unit_entries,
)

# By name, what has it and how it is called there, for `monkeypatch.setattr`.
POINTS = {
    # The gate.
    "record of a release": (base.PrivateEstimatorMixin, "_record"),
    "end of an earlier fit": (base.PrivateEstimatorMixin, "_forget"),
    "recording": (base, "record"),
    "recording in a budget": (_ledger.Ledger, "commit"),
    "longest wait for a file": (_open, "LONGEST_WAIT"),
    "pause before another try": (_open, "sleep"),
    # Noise.
    "uniform draws": (_discrete, "uniform_below"),
    "points of a lattice": (_lattice, "_lattice_index"),
    "normal noise of a lattice": (_lattice, "_dense_normal"),
    "Laplace noise of a lattice": (_lattice, "discrete_laplace"),
    "noise of responses": (_responses, "discrete_laplace"),
    # Values and sums.
    "table of levels": (_values, "level_table"),
    "completion of sums": (_sums.SumsPerturbation, "complete"),
    "chunk of noisy sums": (_noisy_sums, "_CHUNK"),
    "block of noisy sums": (_noisy_sums, "_BLOCK"),
    "rounds of a fit to sums": (_shared_rows, "_ROUNDS"),
    # Blocks and gradients.
    "lengths of a block": (_statistics, "np"),
    "bounds of a block": (_statistics, "scales_of"),
    "plan of gradients": (_gradient, "plan_gaussian_sums"),
    "clip of gradients": (_gradient, "CLIP"),
    "scale of a descent's start": (_gradient, "_START_SCALE"),
    "contributions of a descent": (_gradient._Descent, "contributions"),
    "release of a descent": (_gradient.GradientPerturbation, "measure"),
    # Units.
    "entries of units": (_entries.Entries, "by_unit"),
    "chunk of entries": (_unit_entries, "_CHUNK"),
    "noise of a release": (_releases.Releases, "_noisy"),
    "long vectors": (_sums_of_people, "without_long"),
    "bounding": (_sums_of_people.BoundedSums, "_weighed"),
    "adding": (_sums_of_people.BoundedSums, "_add"),
    "weights of units": (_questions.UnitTotals, "weights"),
    "bounded sums on the lattice": (_sums_of_people.BoundedSums, "on_lattice"),
    "plan of units": (_units, "plan_gaussian_sums"),
    "share of counts": (_first, "COUNTS"),
    "fit of rows to sums over units": (_rounds, "_with_rows"),
    "strength of a pattern": (_first, "_STRENGTH"),
    "least rows of a pattern": (_first, "_LEAST_ROWS"),
    "eigenvalues that stand out": (_first, "_STANDS_OUT"),
    "products on the lattice": (_products.ProductSums, "on_lattice"),
    "release of units": (_units.UnitPerturbation, "measure"),
    # Fits to what was released.
    "one thread of BLAS": (_threads, "one_blas_thread"),
    "few entries": (_cp_rows, "_FEW_ENTRIES"),
    "weighing of rows": (_cp_rows, "weighing"),
    "choice of terms": (_cp_rows, "with_terms"),
    "start of terms": (_cp_rows, "leading_terms"),
    "block of the core": (_tucker, "_CORE_BLOCK"),
    # The papers.
    "generator of a start": (_wei_2022, "_generator"),
    "spherical rows": (_wei_2022, "_spherical"),
    "published encoder": (_cheng_2022, "published_encoder"),
    # Data.
    "cost of drawing a cell": (_cells, "_COST_OF_DRAW"),
    "least batch of cells": (_cells, "_MIN_BATCH"),
}


def original(name):
    """What is there now."""
    return getattr(*POINTS[name])
