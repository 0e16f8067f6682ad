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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._json import Fields
from ..measure import LARGEST, Arrays, message, read_message
from ..tensor import CPForm, TuckerForm
from ._noise_shares import NoiseShares
from ._products import SHARE_BITS, ProductSums
from ._shared_model import SharedModel
from .measurements._unit_contributions import (
    BlockContributions,
    BoundedSums,
    Contributions,
    CountContributions,
    PatternContributions,
    Sums,
    UnitTotals,
    add_totals,
)

_FORMAT, _WHAT = 1, "a request of fit_aggregated of this version"
# Numbers of a request are of the order of one, variances of at least a millionth of a
# millionth. No product of such numbers overflows, whatever the entries are.
_LEAST = 1e-12
# Most columns of features, most groups of them, and most rows whose products are asked.
_MOST_FEATURES, _MOST_ROWS = 2**12, 2**13
# Sums of more steps would not be exact in floating point.
MOST_STEPS = 2.0**52


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
    contribute : Contributions
    empty : tuple of BoundedSums or ProductSums
    noise_shares : NoiseShares or None
        What the server takes the parties to have declared.
    """

    fit: str
    number: int
    n_bits: int
    contribute: Contributions
    empty: tuple[Sums, ...]
    noise_shares: NoiseShares | None = None

    @property
    def n_numbers(self) -> int:
        """Number of integers in an answer."""
        noisy = self.noise_shares is not None
        return sum(of_block.n_numbers(noisy=noisy) for of_block in self.empty)

    @property
    def share(self) -> float:
        """Share of the squared budget."""
        return sum(of_block.share for of_block in self.empty)

    @property
    def n_changed(self) -> int:
        """Number of sums that a party rounds after it has summed them."""
        return sum(of_block.n_changed for of_block in self.empty)


@dataclass(frozen=True)
class Agreement:
    """Public parameters on which a server and its parties must agree.

    Attributes
    ----------
    settings : dict
        By name, as values of JSON.
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
    shares = request.noise_shares
    fields: dict[str, Any] = {
        "format": _FORMAT,
        "fit": request.fit,
        "number": request.number,
        "n_bits": request.n_bits,
        "n_numbers": request.n_numbers,
        "settings": agreed.settings,
        "noise_shares": None
        if shares is None
        else [shares.n_parties, shares.n_dropouts, shares.n_colluders],
        "question": _question_fields(request.contribute, arrays),
        "step": request.empty[0].step,
        "sums": [_sum_fields(of_block, arrays) for of_block in request.empty],
    }
    return message(fields, arrays)


def _sum_fields(sums: Sums, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    if isinstance(sums, ProductSums):
        arrays["shares"] = sums.shares
        return {"least": sums.least, "share": sums.share}
    return {"bound": sums.bound, "share": sums.share}


def _question_fields(
    contribute: Contributions, arrays: dict[str, NDArray[Any]]
) -> dict[str, Any]:
    if isinstance(contribute, PatternContributions):
        arrays["rows"] = contribute.rows
        return {"kind": "pattern"}
    if isinstance(contribute, CountContributions):
        return {"kind": "counts", "totals": _total_fields(contribute.totals)}
    if not isinstance(contribute, BlockContributions):
        return {"kind": "totals"}
    model = contribute.model
    arrays["lengths"] = contribute.lengths
    if contribute.row_weights is not None:
        arrays["row_weights"] = contribute.row_weights
    for name in _OF_MODES:
        for k, of_mode in enumerate(getattr(model, name) or []):
            arrays[f"{name}.{k}"] = of_mode
    arrays |= {f"factors.{k}": factor for k, factor in enumerate(model.factors)}
    arrays["features"] = model.features
    return {
        "kind": "block",
        "block": contribute.block,
        "n_biases": contribute.n_biases,
        "totals": _total_fields(contribute.totals),
        "has_factors": bool(model.form),
        "offset": float(model.offset),
        "noise": float(model.noise),
        "bias_variance": float(model.bias_variance),
        "groups": [
            [size, float(variance)]
            for size, variance in zip(model.groups, model.weight_variances, strict=True)
        ],
    }


def _total_fields(totals: UnitTotals) -> dict[str, float]:
    return {name: float(getattr(totals, name)) for name in _TOTALS}


# Totals on which contributions depend.
_TOTALS = ("n_units", "offset", "typical_size")
# Attributes of a model that are lists with an array for each of the other modes.
_OF_MODES = ("biases", "uncertainty", "excess")


# --- reading --------------------------------------------------------------------------


def read_request(
    data: bytes, agreed: Agreement, noise_shares: NoiseShares | None
) -> SumRequest:
    """Read a request, and refuse whatever does not follow the rules of this module.

    Parameters
    ----------
    data : bytes
    agreed : Agreement
    noise_shares : NoiseShares or None
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
    own = noise_shares
    declared = own and [own.n_parties, own.n_dropouts, own.n_colluders]
    servers = fields.take("noise_shares")
    if servers != declared:
        raise ValueError(
            "Server and parties must declare the same noise_shares. The server: "
            f"{json.dumps(servers)[:100]}; this party: {noise_shares}."
        )
    question = fields.object("question")
    read = _QUESTIONS[question.text("kind", "|".join(_QUESTIONS))]
    contribute, expected = read(question, arrays, agreed)
    question.end()
    step = fields.number("step", 0.0, LARGEST)
    sums = fields.list("sums", len(expected))
    if len(sums) != len(expected):
        fields.refuse("sums")
    request = SumRequest(
        fields.text("fit", "[0-9a-f]{32}"),
        fields.integer("number", 0, 2**32 - 1),
        fields.integer("n_bits", 1, 64),
        contribute,
        tuple(
            _sums(Fields(found, _WHAT, "sums: "), step, shape, arrays)
            for found, shape in zip(sums, expected, strict=True)
        ),
        noise_shares,
    )
    fields.constant("n_numbers", request.n_numbers)
    fields.end()
    arrays.end()
    return request


# By the sums of a question, their shape; None for the products of rows.
_Expected = list[tuple[int, int] | None]


def _totals_question(
    _: Fields, __: Arrays, agreed: Agreement
) -> tuple[Contributions, _Expected]:
    return add_totals, [(1, 3)]


def _counts_question(
    fields: Fields, _: Arrays, agreed: Agreement
) -> tuple[Contributions, _Expected]:
    return CountContributions(_totals(fields)), [(size, 1) for size in agreed.sizes]


def _pattern_question(
    _: Fields, arrays: Arrays, agreed: Agreement
) -> tuple[Contributions, _Expected]:
    n_rows = agreed.sizes[0]
    most = min(n_rows, _MOST_ROWS)
    shape = arrays.shape("rows")
    if len(shape) != 1 or not 0 < shape[0] <= most:
        arrays.refuse("rows")
    rows = arrays.integers("rows", shape[0], n_rows - 1)
    if len(np.unique(rows)) < len(rows) or arrays.shape("shares") != shape:
        arrays.refuse("rows")
    return PatternContributions(rows, n_rows), [None]


def _block_question(
    fields: Fields, arrays: Arrays, agreed: Agreement
) -> tuple[Contributions, _Expected]:
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
    row_weights = arrays.take("row_weights", (n_rows,), 0.0) if is_mode else None
    contribute = BlockContributions(
        model, block, n_biases, lengths, _totals(fields), row_weights
    )
    return contribute, [(n_rows, n_columns), (1, contribute.n_totals)]


_QUESTIONS = {
    "totals": _totals_question,
    "counts": _counts_question,
    "pattern": _pattern_question,
    "block": _block_question,
}


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
    of_modes: dict[str, Any] = {}
    if agreed.biases:
        least = {"uncertainty": 0.0}
        of_modes = {
            name: [
                arrays.take(f"{name}.{k}", (size + 1,), least.get(name, -LARGEST))
                for k, size in enumerate(sizes)
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
    n_features = sum(size for size, _ in groups)
    if n_features > _MOST_FEATURES:
        fields.refuse("groups")
    # The blocks of the form after that of the units.
    blocks = form.blocks((1, *sizes))[1:] if form else []
    model = SharedModel(
        form,
        sizes,
        fields.number("offset", -1.0, 1.0),
        None,
        [arrays.take(f"factors.{k}", shape) for k, shape in enumerate(blocks)],
        arrays.take("features", (sizes[0] + 1, n_features)),
        fields.number("noise", _LEAST, LARGEST),
        bias_variance=fields.number("bias_variance", _LEAST, LARGEST),
        groups=tuple(size for size, _ in groups),
        weight_variances=tuple(variance for _, variance in groups),
    )
    return replace(model, **of_modes)


def _sums(
    fields: Fields, step: float, shape: tuple[int, int] | None, arrays: Arrays
) -> Sums:
    """Empty sums; their lattice may have no more steps than integers hold."""
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
