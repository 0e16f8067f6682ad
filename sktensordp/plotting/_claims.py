"""Guarantees behind the curves: what legends say of them, and which claims are true."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..privacy import PrivacyGuarantee
from ..privacy._guarantee import check_guarantee
from ..privacy._numbers import shown
from ..privacy._parts import Context, collect
from ..privacy._report import composed, counted, report_of

# A legend lists at most this many epsilons; of more, only the range.
_MOST_LISTED = 6
# Guarantees at the points of a curve; None where unknown.
OfCurve = Sequence[PrivacyGuarantee | None]


def by_label(
    guarantee: PrivacyGuarantee | Mapping[str, PrivacyGuarantee],
) -> dict[str, PrivacyGuarantee]:
    """Guarantees by label; a single one gets the label "guarantee"."""
    if isinstance(guarantee, PrivacyGuarantee):
        return {"guarantee": guarantee}
    if not isinstance(guarantee, Mapping):
        raise TypeError(
            "guarantee must be a guarantee, or a dict of guarantees by label. For "
            "fitted estimators, call from_estimator."
        )
    if not guarantee:
        raise ValueError("guarantee is an empty dict. Pass at least one guarantee.")
    for one in guarantee.values():
        check_guarantee(one)
    return dict(guarantee)


def estimators_by_label(estimator: Any) -> Mapping[str, Any]:
    """Estimators by label; a single one gets the name of its class."""
    is_single = not isinstance(estimator, Mapping)
    return {type(estimator).__name__: estimator} if is_single else estimator


def claims_and_notes(guarantees: Mapping[str, PrivacyGuarantee]) -> dict[str, Any]:
    """What legends say beside true curves: parameters of a display of guarantees."""
    lists = {label: [g] for label, g in guarantees.items()}
    return {
        "claimed": {label: g.claimed for label, g in guarantees.items() if g.claimed},
        "notes": difference_notes(lists, at_delta=False),
    }


def true_epsilon(guarantee: PrivacyGuarantee | None) -> float:
    """Epsilon of a guarantee; NaN if it is not known."""
    return math.nan if guarantee is None else guarantee.epsilon


def is_true(epsilon: float, guarantee: PrivacyGuarantee | None) -> bool:
    """Whether the guarantee has the epsilon at which it is drawn."""
    if guarantee is None:
        return False
    if guarantee.claimed is not None:
        return math.isclose(guarantee.epsilon, epsilon, rel_tol=1e-3)
    # A fit may keep less than the epsilon requested. For a unit, the guarantee is
    # planned for any number of sums, which gives a little more than any fit keeps.
    slack = 0.02 + 1e-3 * epsilon if isinstance(guarantee.unit, int) else 0.0
    return guarantee.epsilon <= epsilon * (1 + 1e-6) + slack


def guarantee_of_candidate(
    estimator: Any, params: Mapping[str, Any], like: Any
) -> PrivacyGuarantee | None:
    """Guarantee of one fit of a candidate; None if it is not known.

    Parameters
    ----------
    estimator : estimator
        What is searched, or fitted at several epsilons.
    params : dict
        Parameters of the candidate.
    like : object or None
        What saw the shape of the data: the fitted estimator, perhaps with other
        parameters, or an object with the `sample_shape_` of a mechanism.

    Returns
    -------
    guarantee : PrivacyGuarantee or None
    """
    from sklearn.base import clone

    candidate = clone(estimator).set_params(**clone(params, safe=False))
    findings = collect(candidate, Context("plan", like=like, fixed=True))
    guarantees = [release.guarantee for release in findings.releases]
    if not guarantees or None in guarantees:
        return None
    try:
        return composed(counted(findings))
    except ValueError:  # They protect different units.
        return None


def guarantee_of_fits(fits: Iterable[Any]) -> PrivacyGuarantee | None:
    """The weakest guarantee of several fits; None if any fit gives none.

    A mechanism counts as one call: its calls for scores are not part of a fit.

    Parameters
    ----------
    fits : iterable of estimator
        Fitted.

    Returns
    -------
    guarantee : PrivacyGuarantee or None
    """
    try:
        one_call = Context("call")
        guarantees = [report_of(fit, collect(fit, one_call)).guarantee for fit in fits]
    except (TypeError, ValueError):
        return None
    return max(guarantees, key=lambda guarantee: guarantee.epsilon)


def difference_notes(
    guarantees: Mapping[str, OfCurve], *, at_delta: bool = True
) -> dict[str, str]:
    """How the guarantees of curves differ, besides epsilon: a note by label.

    Parameters
    ----------
    guarantees : dict of str to list of PrivacyGuarantee or None
    at_delta : bool, default=True
        Whether to mention the delta at which epsilon is stated.

    Returns
    -------
    notes : dict of str to str
        Labels without a difference are left out.
    """
    descriptions = {
        label: _unit_relation_delta(known)[: 2 + at_delta]
        for label, of_curve in guarantees.items()
        if (known := [guarantee for guarantee in of_curve if guarantee is not None])
    }
    columns = list(zip(*descriptions.values(), strict=True))
    differ = [k for k, column in enumerate(columns) if len(set(column)) > 1]
    if 0 in differ:  # Different units make the relation superfluous.
        differ = [k for k in differ if k != 1]
    notes = {
        # The label may name a searched parameter already.
        label: ", ".join(words[k] for k in differ if words[k] not in label)
        for label, words in descriptions.items()
    }
    return {label: note for label, note in notes.items() if note}


def _unit_relation_delta(
    guarantees: Sequence[PrivacyGuarantee],
) -> tuple[str, str, str]:
    """Unit, relation and largest delta of the guarantees of one curve, in words."""
    first = guarantees[0]
    of_mode = isinstance(first.unit, int)
    unit = f"one index of mode {first.unit}" if of_mode else f"one {first.unit}"
    # A guarantee that protects nothing is listed with the delta of its claim.
    deltas = [
        g.claimed[1] if g.claimed and not g.protects else g.delta for g in guarantees
    ]
    return unit, first.relation, f"delta = {shown(max(deltas))}"


def at_claim(epsilons: NDArray[np.float64]) -> str:
    """What the legend says of a curve at mere claims that has these true epsilons."""
    if np.isnan(epsilons).any():
        return "requested epsilon, the true one is not known"
    if np.isinf(epsilons).all():
        return "claimed, no finite epsilon holds"
    listed = ", ".join(map(_number, epsilons))
    if len(epsilons) > _MOST_LISTED:
        listed = f"{_number(epsilons.min())} to {_number(epsilons.max())}"
    return f"claimed, true epsilon {listed}"


def _number(epsilon: float) -> str:
    """An epsilon as text, rounded up."""
    return f"{math.ceil(epsilon):,}" if 1e3 < epsilon < 1e7 else shown(epsilon)
