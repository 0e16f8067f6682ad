"""What a server asks parties about samples, as data that a party checks, never code.

See ``measure/_requests.py``: here is what only requests about samples have, in three
questions. Shapes, the bound and the further coordinates are the party's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._json import Fields
from .._validation import check_integer
from ..measure import Arrays, NoisySums, SharedNoise, SumFields
from ..privacy import PrivacyGuarantee
from ._means import FAR
from ._sums import CAPACITY, LARGEST_CORE, Question

_LARGEST = float(np.finfo(float).max)


@dataclass(frozen=True, eq=False)
class SampleTerms:
    """Terms of an estimator of moments; see `Terms`.

    Attributes
    ----------
    settings : dict
    noise : NoisySums
        Noise of all releases together, as one trusted server would add it.
    question : Question
        With what is the same in all questions.
    guarantee : callable
        Guarantee of all releases together, with noise in shares.
    """

    settings: dict[str, Any]
    noise: NoisySums
    question: Question
    guarantee: Callable[[SharedNoise], PrivacyGuarantee]

    def n_people(self, n_samples: int | None) -> int:
        """Number of samples of all parties together."""
        return check_integer(n_samples, "n_samples", 1, CAPACITY)

    def written(
        self, question: Question, arrays: dict[str, NDArray[Any]]
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Fields of a question, and of each of its sums; see `Terms`."""
        kind = "mean" if question.is_mean else "core" if question.is_joint else "modes"
        bases = question.bases or ()
        arrays |= {f"bases.{k}": basis for k, basis in enumerate(bases)}
        if question.mean is not None:
            arrays["mean"] = question.mean
        fields = {
            "kind": kind,
            "bound": question.bound,
            "is_centred": question.mean is not None,
            "has_bases": question.bases is not None,
        }
        return fields, [{} for _ in question.sums]

    def read(
        self, asked: Fields, arrays: Arrays, step: float, sums: list[SumFields]
    ) -> Question:
        """The question with these fields; see `Terms`."""
        kind, own = asked.text("kind", "mean|modes|core"), self.question
        is_centred, has_bases = asked.flag("is_centred"), asked.flag("has_bases")
        # Sums are in units of it, so that vectors are as short with any other.
        farthest = own.bound * (FAR if kind == "mean" else 1)
        bound = asked.number("bound", own.bound, farthest)
        shape, bases = own.shape, None
        if len(sums) != (len(shape) if kind == "modes" else 1):
            asked.refuse("the number of sums")
        if kind == "core":
            sides = shape
            if has_bases:
                bases = tuple(_basis(arrays, k, n) for k, n in enumerate(shape))
                sides = tuple(basis.shape[1] for basis in bases)
            if math.prod(sides) > LARGEST_CORE:
                asked.refuse("the number of cells")
        elif has_bases:
            asked.refuse("has_bases")
        mean = None
        if is_centred:
            mean = arrays.take("mean", (math.prod(shape),), -_LARGEST, _LARGEST)
        return replace(
            own,
            bound=bound,
            step=step,
            shares=tuple(one.share for one in sums),
            mean=mean,
            bases=bases,
            is_mean=kind == "mean",
            is_joint=kind == "core",
        )


def _basis(arrays: Arrays, mode: int, n_rows: int) -> NDArray[np.float64]:
    """The basis of a mode: whole numbers, for which alone products are exact."""
    name = f"bases.{mode}"
    shape = arrays.shape(name)
    if len(shape) != 2 or shape[0] != n_rows or not 0 < shape[1] <= n_rows:
        arrays.refuse(name)
    basis = arrays.take(name, shape)
    if np.any(basis != np.rint(basis)):
        arrays.refuse(name)
    return basis
