"""What a guarantee says, as a paragraph for a filing, in the words of NIST SP 800-226.

NIST SP 800-226, "Guidelines for Evaluating Differential Privacy Guarantees" (2025),
asks of a claim: the privacy parameters, the unit of privacy and how neighbours differ,
the threat model, the mechanism, and the implementation.
"""

from importlib.metadata import version
from typing import Any

from .. import __version__
from .._build import build
from ._group import split_relation
from ._numbers import exact, shown

_LEVELS = {
    "entry": (
        "the value of one observed entry (event level). Which entries were observed, "
        "and of whom, is public"
    ),
    "sample": (
        "one row of X. It stands for a person (user level) only if each person has a "
        "single row"
    ),
    "person": "all samples of one person (user level)",
    "cell": "one cell of one histogram (event level)",
}
_OF_USERS = (
    "all data at one index of mode {} of the tensor, such as everything about one user "
    "(user level)"
)
_RELATIONS = {
    "replace-one": (
        "one unit has other data, and the number of units is public (bounded "
        "differential privacy)"
    ),
    "add-or-remove": (
        "one unit is added or removed, so that its presence is protected, too "
        "(unbounded differential privacy)"
    ),
}
_CENTRAL = (
    "whoever computed the release saw the raw data and is trusted; everybody who sees "
    "the release alone is an adversary, with any knowledge of all other units"
)
_TRUST = {
    True: (
        f"the local model, if each unit was randomised on its own device; otherwise "
        f"the central model: {_CENTRAL}"
    ),
    False: f"the central model: {_CENTRAL}",
    None: (
        f"the central model, unless each unit was randomised on its own device: "
        f"{_CENTRAL}"
    ),
}


def filing(guarantee: Any) -> str:
    """The paragraph; see `PrivacyGuarantee.describe`."""
    unit, (relation, size) = guarantee.unit, split_relation(guarantee.relation)
    level = _OF_USERS.format(unit) if isinstance(unit, int) else _LEVELS[str(unit)]
    differ = _RELATIONS.get(relation, relation)
    if size > 1:
        differ = f"{differ}, for any {size} units together"
    lines = [
        f"Mechanism: {guarantee.statement}",
        f"Unit of privacy: {level}.",
        f"Neighbouring data sets: {differ}.",
        _parameters(guarantee),
        f"Trust model: {_TRUST[guarantee.local]}.",
    ]
    if guarantee.conditions:
        lines.append(f"The guarantee holds {' and '.join(guarantee.conditions)}.")
    if guarantee.claimed is not None:
        epsilon, delta = guarantee.claimed
        claim = f"epsilon = {shown(epsilon)}, delta = {shown(delta)}"
        lines.append(f"What was claimed or requested does not hold: {claim}.")
    lines += [
        f"Proof: {guarantee.source.rstrip('.')}.",
        f"Implementation: {versions()}, build {build()}.",
    ]
    return "\n".join(lines)


def versions() -> str:
    """Versions of this package, and of the one on which its accounting builds."""
    return f"sktensordp {__version__}, dp-accounting {version('dp-accounting')}"


def _parameters(guarantee: Any) -> str:
    """The privacy parameters, and what an attacker can do at most."""
    if not guarantee.protects:
        return (
            f"Privacy parameters: no finite epsilon holds at delta = "
            f"{exact(guarantee.delta)}, so this release is not differentially private."
        )
    accuracy = guarantee.max_accuracy()
    return (
        f"Privacy parameters: epsilon = {shown(guarantee.epsilon)}, delta = "
        f"{shown(guarantee.delta)}. Whoever holds two guesses about a unit to be "
        f"equally likely, and knows all else, learns the right one with probability at "
        f"most {shown(accuracy)}."
    )
