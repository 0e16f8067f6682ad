"""Requests of a server to parties about units: data that a party checks, never code.

``measure/_requests.py`` has the general part. This module has the four questions that
only concern units.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._json import Fields
from ..measure import (
    LARGEST,
    LEAST,
    SHARE_BITS,
    Arrays,
    BoundedSums,
    NoisySums,
    ProductSums,
    Question,
    SharedNoise,
    SumFields,
    Sums,
)
from ..privacy import PrivacyGuarantee
from ..tensor import CPForm
from ._problem import Problem
from .measurements.units._block_totals import BlockTotals
from .measurements.units._questions import (
    FIRST_VECTORS,
    BlockQuestion,
    CountQuestion,
    FirstQuestion,
    PatternQuestion,
    UnitTotals,
)
from .measurements.units._shared_model import SharedModel
from .measurements.units._units import UnitPerturbation

# Most columns of features, and most groups of them.
_MOST_FEATURES = 2**12


@dataclass(frozen=True, eq=False)
class UnitTerms:
    """Terms of a completion that protects units; see `Terms`.

    Attributes
    ----------
    settings : dict
    measurement : UnitPerturbation
        The units' mode comes first.
    """

    settings: dict[str, Any]
    measurement: UnitPerturbation

    @property
    def noise(self) -> NoisySums:
        """Noise of all releases together, as one trusted server would add it."""
        return self.measurement.planned_noise

    def guarantee(self, noise: SharedNoise) -> PrivacyGuarantee:
        """Guarantee of all releases together, with the noise added in shares."""
        return replace(self.measurement, shared_noise=noise).guarantee

    def n_people(self, n_samples: int | None) -> int:
        """Number of indices of the units' mode."""
        if n_samples is not None:
            raise ValueError(
                "Leave out n_samples: the number of units follows from `shape`."
            )
        return self.measurement.problem.shape[0]

    def written(
        self, question: Question, arrays: dict[str, NDArray[Any]]
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Fields of a question, and of each of its sums; see `Terms`."""
        fields = _question_fields(question, arrays)
        return fields, [_sum_fields(sums, arrays) for sums in question.sums]

    def read(
        self, asked: Fields, arrays: Arrays, step: float, sums: list[SumFields]
    ) -> Question:
        """The question with these fields; see `Terms`."""
        make, shapes = _question(asked, arrays, self.measurement.problem)
        if len(sums) != len(shapes):
            asked.refuse("the number of sums")
        pairs = zip(sums, shapes, strict=True)
        return make(tuple(_sums(found, step, shape, arrays) for found, shape in pairs))


# --- writing --------------------------------------------------------------------------


def _sum_fields(sums: Sums, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    if isinstance(sums, ProductSums):
        arrays["shares"] = sums.shares
        return {"least": sums.least}
    assert isinstance(sums, BoundedSums)
    return {"bound": sums.bound}


def _question_fields(
    question: Question, arrays: dict[str, NDArray[Any]]
) -> dict[str, Any]:
    if isinstance(question, PatternQuestion):
        arrays["rows"] = question.rows
        return {"kind": "pattern"}
    if isinstance(question, CountQuestion):
        return {"kind": "counts", "totals": _total_fields(question.totals)}
    if not isinstance(question, BlockQuestion):
        return {"kind": "first"}
    model = question.model
    arrays["lengths"] = question.lengths
    if question.gains is not None:
        arrays["gains"] = question.gains
    for name in _OF_MODES:
        for k, of_mode in enumerate(getattr(model, name)):
            arrays[f"{name}.{k}"] = of_mode
    arrays |= {f"factors.{k}": factor for k, factor in enumerate(model.factors)}
    arrays["features"] = model.features
    return {
        "kind": "block",
        "block": question.block,
        "n_biases": question.n_biases,
        "totals": _total_fields(question.totals),
        "has_factors": bool(model.form),
        "offset": float(model.offset),
        "noise": float(model.noise),
        "groups": [[size, float(variance)] for size, variance in model.groups],
    }


def _total_fields(totals: UnitTotals) -> dict[str, float]:
    return {name: float(getattr(totals, name)) for name in _TOTALS}


# The totals on which contributions depend.
_TOTALS = ("n_units", "offset", "typical_size")
# The attributes of a model that are lists of arrays, one for each of the other modes.
_OF_MODES = ("biases", "uncertainty")


# --- reading --------------------------------------------------------------------------


def _question(
    fields: Fields, arrays: Arrays, problem: Problem
) -> tuple[Callable[..., Question], list[tuple[int, int] | None]]:
    """A question without its sums, and their shapes; None for products of rows."""
    sizes = problem.shape[1:]
    kind = fields.text("kind", "first|counts|pattern|block")
    if kind == "first":
        return FirstQuestion, [(1, piece.size) for piece in FIRST_VECTORS]
    if kind == "counts":
        of_totals = _totals(fields)
        return partial(CountQuestion, totals=of_totals), [(n, 1) for n in sizes]
    if kind == "pattern":
        return _pattern_question(arrays, sizes[0]), [None]
    model = _model(fields, arrays, problem)
    blocks = model.form.blocks((1, *sizes))
    n_blocks = len(blocks) - 1 if model.form else len(sizes)
    block = fields.integer("block", 1, n_blocks)
    is_mode = block <= len(sizes)
    # Only rows of a mode have a bias.
    n_biases = int(problem.biases and is_mode)
    fields.constant("n_biases", n_biases)
    n_rows, n_factors = blocks[block] if model.form else (sizes[block - 1], 0)
    n_columns = n_biases + n_factors
    if not n_columns:
        fields.refuse("block")
    lengths = arrays.take("lengths", (n_columns,), LEAST)
    gains = None if model.form else arrays.take("gains", (n_rows,), LEAST)
    make = partial(
        BlockQuestion,
        model=model,
        block=block,
        n_biases=n_biases,
        lengths=lengths,
        totals=_totals(fields),
        gains=gains,
    )
    return make, [(n_rows, n_columns), (1, BlockTotals.size(model))]


def _pattern_question(arrays: Arrays, n_rows: int) -> Callable[..., Question]:
    shape = arrays.shape("rows")
    if len(shape) != 1 or not 0 < shape[0] <= min(n_rows, 2**13):
        arrays.refuse("rows")
    rows = arrays.integers("rows", shape[0], n_rows - 1)
    if len(np.unique(rows)) < len(rows) or arrays.shape("shares") != shape:
        arrays.refuse("rows")
    return partial(PatternQuestion, rows=rows, n_rows=n_rows)


def _totals(fields: Fields) -> UnitTotals:
    totals = fields.object("totals")
    found = UnitTotals(
        totals.number("n_units", 0.0, 2.0**53),
        totals.number("offset", -1.0, 1.0),
        totals.number("typical_size", LEAST, LARGEST),
    )
    totals.end()
    return found


def _model(fields: Fields, arrays: Arrays, problem: Problem) -> SharedModel:
    sizes, form = problem.shape[1:], problem.form
    if not fields.flag("has_factors") or not form:
        form = CPForm(0)
    least = {"uncertainty": 0.0}
    of_modes: dict[str, Any] = {
        name: [
            arrays.take(f"{name}.{k}", (size + 1,), least.get(name, -LARGEST))
            for k, size in enumerate(sizes)
            if problem.biases
        ]
        for name in _OF_MODES
    }
    groups = []
    for found in fields.list("groups", _MOST_FEATURES):
        if not isinstance(found, list) or len(found) != 2 or type(found[0]) is not int:
            fields.refuse("groups")
        variance = fields.as_number(found[1], "groups", LEAST, LARGEST)
        if not 0 < found[0] <= _MOST_FEATURES:
            fields.refuse("groups")
        groups.append((found[0], variance))
    n_features = sum(size for size, _ in groups) - problem.biases
    is_bias_alone = groups[:1] and groups[0][0] == 1
    if not 0 <= n_features <= _MOST_FEATURES or (problem.biases and not is_bias_alone):
        fields.refuse("groups")
    # The blocks of the form after the units' block.
    blocks = form.blocks((1, *sizes))[1:] if form else []
    return SharedModel(
        form,
        sizes,
        fields.number("offset", -1.0, 1.0),
        factors=[arrays.take(f"factors.{k}", shape) for k, shape in enumerate(blocks)],
        features=arrays.take("features", (sizes[0] + 1, n_features)),
        noise=fields.number("noise", LEAST, LARGEST),
        groups=tuple(groups),
        n_units=math.nan,
        **of_modes,
    )


def _sums(
    found: SumFields, step: float, shape: tuple[int, int] | None, arrays: Arrays
) -> BoundedSums | ProductSums:
    """One of the sums of a question."""
    fields, share = found.fields, found.share
    if shape is None:
        least = fields.number("least", LEAST, LARGEST)
        n_rows = arrays.shape("shares")[0]
        shares = arrays.integers("shares", n_rows, 2**SHARE_BITS)
        if shares.sum() > 2 ** (SHARE_BITS + 1):
            fields.refuse("shares")
        return ProductSums(shares, least, share, step)
    return BoundedSums(shape, fields.number("bound", LEAST, LARGEST), share, step)
