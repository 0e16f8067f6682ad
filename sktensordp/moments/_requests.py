"""Questions to parties as data that a party checks, never code.

A party has the code of all questions, and reads only which one it is and the arrays
that follow from earlier releases. Shapes and the bound are its own.
"""

import math
from dataclasses import replace

import numpy as np

from ..measure import message, read_message
from ._sums import LARGEST_CORE, Question

_FORMAT, _WHAT = 1, "a question of fit_aggregated of this version"
_LARGEST = float(np.finfo(float).max)


def question_bytes(question: Question) -> bytes:
    """A question as bytes, for `read_question` of a party."""
    kind = "mean" if question.is_mean else "core" if question.is_joint else "modes"
    bases = question.bases or ()
    arrays = {f"bases.{k}": basis for k, basis in enumerate(bases)}
    if question.mean is not None:
        arrays["mean"] = question.mean
    fields = {
        "format": _FORMAT,
        "settings": _settings(question),
        "kind": kind,
        "is_centred": question.mean is not None,
    }
    return message(fields, arrays)


def _settings(question: Question) -> dict[str, object]:
    bound = question.bound if math.isfinite(question.bound) else None
    return {"shape": list(question.shape), "bound": bound, "exact": question.step > 0}


def read_question(data: bytes, own: Question) -> Question:
    """Read a question, and refuse whatever does not follow the rules of this module.

    Parameters
    ----------
    data : bytes
    own : Question
        With the shape of the party's samples, its bound, and whether it adds noise.

    Returns
    -------
    question : Question
        With shares of 1.

    Raises
    ------
    ValueError
        If the message is damaged, or if the server's parameters are not the party's.
    TypeError
        If `data` is not bytes.
    """
    fields, arrays = read_message(data, _WHAT)
    fields.constant("format", _FORMAT)
    if fields.object("settings").rest() != _settings(own):
        raise ValueError(
            "Server and parties must have the same norm_bound, samples of the same "
            "shape, and both a finite epsilon."
        )
    kind = fields.text("kind", "mean|modes|core")
    # Contributions do not depend on shares.
    shares = (1.0,) * (len(own.shape) if kind == "modes" else 1)
    question = replace(
        own, shares=shares, is_mean=kind == "mean", is_joint=kind == "core"
    )
    if fields.flag("is_centred"):
        mean = arrays.take("mean", (math.prod(own.shape),), -_LARGEST, _LARGEST)
        question = replace(question, mean=mean)
    fields.end()
    if question.is_joint:
        bases, n_cells = [], 1
        for k, n in enumerate(own.shape):
            name = f"bases.{k}"
            shape = arrays.shape(name)
            if len(shape) != 2 or shape[0] != n or not 0 < shape[1] <= n:
                arrays.refuse(name)
            bases.append(arrays.take(name, shape))
            n_cells *= shape[1]
            # Products are exact for whole numbers alone.
            if own.step and np.any(bases[k] != np.rint(bases[k])):
                arrays.refuse(name)
        if n_cells > LARGEST_CORE:
            arrays.refuse("bases")
        question = replace(question, bases=tuple(bases))
    arrays.end()
    return question
