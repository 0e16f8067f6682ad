"""Where estimators compute what they release, for tests that put mistakes there.

The one place that knows in which modules these are.
"""

from sktensordp.completion import _entries
from sktensordp.completion.solvers import (
    _blocks,
    _unit_contributions,
    _unit_run,
)
from sktensordp.completion.solvers import _units as _unit
from sktensordp.completion.solvers._gradient import GradientPerturbation
from sktensordp.papers import _cheng_2022, _wei_2022
from sktensordp.tensor import _blas, _unit_entries
from sktensordp.tensor.kernels import _units as _kernels_units

__all__ = ["POINTS", "original"]

# By name, what has it and how it is called there, for `monkeypatch.setattr`.
POINTS = {
    "lengths of a block": (_blocks.np, "abs"),
    "release of a block": (_blocks.Block, "release"),
    "bounds of a block": (_blocks.Block, "largest"),
    "release of a descent": (GradientPerturbation, "release"),
    "generator of a start": (_wei_2022, "_generator"),
    "spherical rows": (_wei_2022, "_spherical"),
    "bounded sums of units": (_unit_run, "BoundedSums"),
    "total of bounded sums": (_unit_contributions.BoundedSums, "total"),
    "bounding": (_kernels_units, "bounded_sums"),
    "chunk of entries": (_unit_entries, "_CHUNK"),
    "completion of units": (_unit.UnitPerturbation, "complete"),
    "entries of units": (_entries.Entries, "by_unit"),
    "published encoder": (_cheng_2022, "published_encoder"),
    "one thread of BLAS": (_blas, "one_blas_thread"),
    "plan of units": (_unit, "plan_gaussian_sums"),
    "shares of all releases": (_unit_run, "_TOTALS"),
    "weights of units": (_unit_contributions.UnitTotals, "weights"),
}


def original(name):
    """What is there now."""
    return getattr(*POINTS[name])
