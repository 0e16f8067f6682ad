"""What a server asks its parties in one release: data that a party checks, never code.

A request is a message (``measure/_messages.py``): a line of JSON, then arrays. It names
one of four questions, whose code is at the party, with numbers and arrays that follow
from earlier releases. A party reads a request before it touches an entry. It derives
the size of every array from its own parameters, and refuses a request with any other
size, with a number out of range or with a field that it does not know.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._json import Fields
from ..measure import (
    LARGEST,
    MOST_STEPS,
    SHARE_BITS,
    Arrays,
    BoundedSums,
    ProductSums,
    Question,
    message,
    read_message,
)
from ..tensor import CPForm, TuckerForm
from .measurements.units._questions import (
    PIECES,
    BlockQuestion,
    CountQuestion,
    FirstQuestion,
    PatternQuestion,
    UnitTotals,
    n_totals,
)
from .measurements.units._shared_model import SharedModel

_FORMAT, _WHAT = 1, "a request of fit_aggregated of this version"
# Numbers of a request are of the order of one, variances of at least a millionth of a
# millionth. Products of a few such numbers do not overflow, whatever the entries are.
# Products of factors of dozens of modes may; a unit for which they do adds nothing.
_LEAST = 1e-12
# Most columns of features, and most groups of them.
_MOST_FEATURES = 2**12


@dataclass(frozen=True, eq=False)
class SumRequest:
    """What a server asks all parties in one release; computed from earlier releases.

    Attributes
    ----------
    fit : str
        Tells the fits of servers apart.
    number : int
        Number of the release within the fit, from 0.
    n_bits : int
        Answers are integers modulo ``2**n_bits``, above the range of all sums.
    question : Question
    is_noisy : bool, default=False
        Whether the parties add noise to their answers.
    """

    fit: str
    number: int
    n_bits: int
    question: Question
    is_noisy: bool = False

    @property
    def _shapes(self) -> list[tuple[int, ...]]:
        """Of the question's sums, in an answer: exact, or rounded to get noise."""
        sums = self.question.sums
        return [s.shape if self.is_noisy else s.zeros().shape for s in sums]

    @property
    def n_numbers(self) -> int:
        """Number of integers in an answer."""
        return sum(map(math.prod, self._shapes))

    def integers(self, totals: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
        """Exact sums as integers, which a party adds noise to or not."""
        if self.is_noisy:
            of_sums = zip(self.question.sums, totals, strict=True)
            totals = [sums.rounded(total) for sums, total in of_sums]
        return np.concatenate([total.ravel() for total in totals]).astype(np.int64)

    def split(self, integers: NDArray[np.int64]) -> list[NDArray[Any]]:
        """The sum of all answers, as one array for each of the question's sums."""
        shapes = self._shapes
        parts = np.split(integers, np.cumsum([math.prod(s) for s in shapes])[:-1])
        return [part.reshape(s) for part, s in zip(parts, shapes, strict=True)]


@dataclass(frozen=True)
class Agreement:
    """Public parameters on which a server and its parties must agree.

    Attributes
    ----------
    settings : dict
        By name, as values of JSON; ``noise_shares`` is None if answers are exact.
    form : CPForm or TuckerForm
        The decomposition, with the units' mode first.
    sizes : tuple of int
        Sizes of the other modes.
    biases : bool
        Whether the model has biases.
    """

    settings: dict[str, Any]
    form: CPForm | TuckerForm
    sizes: tuple[int, ...]
    biases: bool

    def difference(self, servers: dict[str, Any]) -> str:
        """Say how a server's parameters differ; empty if they are equal."""
        own = self.settings
        differing = [k for k in {**own, **servers} if own.get(k) != servers.get(k)]
        of_both = [
            ", ".join(f"{k} = {json.dumps(found.get(k))[:100]}" for k in differing)
            for found in (servers, own)
        ]
        return f"The server: {of_both[0]}; this party: {of_both[1]}." * bool(differing)


# --- writing --------------------------------------------------------------------------


def request_bytes(request: SumRequest, agreed: Agreement) -> bytes:
    """A request as bytes, for `read_request` of a party."""
    arrays: dict[str, NDArray[Any]] = {}
    fields: dict[str, Any] = {
        "format": _FORMAT,
        "fit": request.fit,
        "number": request.number,
        "n_bits": request.n_bits,
        "n_numbers": request.n_numbers,
        "settings": agreed.settings,
        "question": _question_fields(request.question, arrays),
        "step": request.question.sums[0].step,
        "sums": [_sum_fields(sums, arrays) for sums in request.question.sums],
    }
    return message(fields, arrays)


def _sum_fields(sums: Any, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    if isinstance(sums, ProductSums):
        arrays["shares"] = sums.shares
        return {"least": sums.least, "share": sums.share}
    return {"bound": sums.bound, "share": sums.share}


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


# Totals on which contributions depend.
_TOTALS = ("n_units", "offset", "typical_size")
# Attributes of a model that are lists with an array for each of the other modes.
_OF_MODES = ("biases", "uncertainty")


# --- reading --------------------------------------------------------------------------


def read_request(data: bytes, agreed: Agreement) -> SumRequest:
    """Read a request, and refuse whatever does not follow the rules of this module.

    Parameters
    ----------
    data : bytes
    agreed : Agreement
        The party's own parameters.

    Returns
    -------
    request : SumRequest
        With finite numbers, and with arrays of the sizes that the party's own
        parameters give.

    Raises
    ------
    ValueError
        If the request is damaged, or if the server's parameters are not the party's.
    TypeError
        If `data` is not bytes.
    """
    fields, arrays = read_message(data, _WHAT)
    fields.constant("format", _FORMAT)
    difference = agreed.difference(fields.object("settings").rest())
    if difference:
        raise ValueError(
            f"Server and parties must declare the same parameters. {difference}"
        )
    asked = fields.object("question")
    make, expected = _question(asked, arrays, agreed)
    asked.end()
    step = fields.number("step", 0.0, LARGEST)
    sums = fields.list("sums", len(expected))
    if len(sums) != len(expected):
        fields.refuse("sums")
    request = SumRequest(
        fields.text("fit", "[0-9a-f]{32}"),
        fields.integer("number", 0, 2**32 - 1),
        fields.integer("n_bits", 1, 64),
        make(
            tuple(
                _sums(Fields(found, _WHAT, "sums: "), step, shape, arrays)
                for found, shape in zip(sums, expected, strict=True)
            )
        ),
        agreed.settings["noise_shares"] is not None,
    )
    fields.constant("n_numbers", request.n_numbers)
    fields.end()
    arrays.end()
    return request


def _question(
    fields: Fields, arrays: Arrays, agreed: Agreement
) -> tuple[Callable[..., Question], list[tuple[int, int] | None]]:
    """A question but for its sums, and their shapes; None for products of rows."""
    kind = fields.text("kind", "first|counts|pattern|block")
    if kind == "first":
        return FirstQuestion, [(1, piece.size) for piece in PIECES]
    if kind == "counts":
        of_totals = _totals(fields)
        return partial(CountQuestion, totals=of_totals), [(n, 1) for n in agreed.sizes]
    if kind == "pattern":
        return _pattern_question(arrays, agreed.sizes[0]), [None]
    model, sizes = _model(fields, arrays, agreed), agreed.sizes
    blocks = model.form.blocks((1, *sizes))
    n_blocks = len(blocks) - 1 if model.form else len(sizes)
    block = fields.integer("block", 1, n_blocks)
    is_mode = block <= len(sizes)
    # Only rows of a mode have a bias.
    n_biases = int(agreed.biases and is_mode)
    fields.constant("n_biases", n_biases)
    n_rows, n_factors = blocks[block] if model.form else (sizes[block - 1], 0)
    n_columns = n_biases + n_factors
    if not n_columns:
        fields.refuse("block")
    lengths = arrays.take("lengths", (n_columns,), _LEAST)
    make = partial(
        BlockQuestion,
        model=model,
        block=block,
        n_biases=n_biases,
        lengths=lengths,
        totals=_totals(fields),
    )
    return make, [(n_rows, n_columns), (1, n_totals(model))]


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
        totals.number("typical_size", _LEAST, LARGEST),
    )
    totals.end()
    return found


def _model(fields: Fields, arrays: Arrays, agreed: Agreement) -> SharedModel:
    sizes, form = agreed.sizes, agreed.form
    if not fields.flag("has_factors") or not form:
        form = CPForm(0)
    least = {"uncertainty": 0.0}
    of_modes: dict[str, Any] = {
        name: [
            arrays.take(f"{name}.{k}", (size + 1,), least.get(name, -LARGEST))
            for k, size in enumerate(sizes)
            if agreed.biases
        ]
        for name in _OF_MODES
    }
    groups = []
    for found in fields.list("groups", _MOST_FEATURES):
        if not isinstance(found, list) or len(found) != 2 or type(found[0]) is not int:
            fields.refuse("groups")
        variance = fields.as_number(found[1], "groups", _LEAST, LARGEST)
        if not 0 < found[0] <= _MOST_FEATURES:
            fields.refuse("groups")
        groups.append((found[0], variance))
    n_features = sum(size for size, _ in groups) - agreed.biases
    is_bias_alone = groups[:1] and groups[0][0] == 1
    if not 0 <= n_features <= _MOST_FEATURES or (agreed.biases and not is_bias_alone):
        fields.refuse("groups")
    # The blocks of the form after that of the units.
    blocks = form.blocks((1, *sizes))[1:] if form else []
    return SharedModel(
        form,
        sizes,
        fields.number("offset", -1.0, 1.0),
        factors=[arrays.take(f"factors.{k}", shape) for k, shape in enumerate(blocks)],
        features=arrays.take("features", (sizes[0] + 1, n_features)),
        noise=fields.number("noise", _LEAST, LARGEST),
        groups=tuple(groups),
        n_units=math.nan,
        **of_modes,
    )


def _sums(
    fields: Fields, step: float, shape: tuple[int, int] | None, arrays: Arrays
) -> BoundedSums | ProductSums:
    """The sums of a question, on a lattice whose steps integers can count."""
    share = fields.number("share", _LEAST, 1.0)
    if not math.sqrt(share) < step * MOST_STEPS:
        raise ValueError(
            "Sums without noise are not integers; the server must set a finite epsilon."
        )
    if shape is None:
        least = fields.number("least", _LEAST, LARGEST)
        n_rows = arrays.shape("shares")[0]
        shares = arrays.integers("shares", n_rows, 2**SHARE_BITS)
        if shares.sum() > 2 ** (SHARE_BITS + 1):
            fields.refuse("shares")
        fields.end()
        return ProductSums(shares, least, share, step)
    bound = fields.number("bound", _LEAST, LARGEST)
    fields.end()
    return BoundedSums(shape, bound, share, step)
