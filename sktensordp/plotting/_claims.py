"""What is claimed and what holds: the guarantees behind a curve over epsilon."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..privacy import PrivacyGuarantee, compose, privacy_of
from ..privacy._numbers import shown
from ..privacy._parts import collect
from ..privacy._searches import Context

__all__ = [
    "check_labels",
    "differences",
    "guarantee_of_candidate",
    "guarantee_of_fits",
    "legend_text",
    "true_epsilons",
]

# As many epsilons as a legend lists; of more, the ends.
_MOST_LISTED = 6


def guarantee_of_candidate(search: Any, params: Mapping) -> PrivacyGuarantee | None:
    """What one fit of a candidate reveals; None if that cannot be seen.

    Parameters
    ----------
    search : GridSearchCV or RandomizedSearchCV
        Fitted; what depends on the shape of the data is known if it was refitted.
    params : dict
        Of the candidate.

    Returns
    -------
    guarantee : PrivacyGuarantee or None
    """
    from sklearn.base import clone

    candidate = clone(search.estimator).set_params(**clone(params, safe=False))
    like = getattr(search, "best_estimator_", None)
    releases = collect(candidate, Context(planned=True, like=like, fixed=True)).releases
    planned = [r.guarantee for r in releases for _ in range(r.in_fit)]
    found = [guarantee for guarantee in planned if guarantee is not None]
    if not found or len(found) < len(planned):
        return None
    try:
        return found[0] if len(found) == 1 else compose(*found)
    except ValueError:  # They are about different units.
        return None


def guarantee_of_fits(fits: Iterable[Any]) -> PrivacyGuarantee | None:
    """The weakest of the guarantees of fits; None if one of them gives none.

    Parameters
    ----------
    fits : iterable of estimator
        Fitted.

    Returns
    -------
    guarantee : PrivacyGuarantee or None
    """
    try:
        found = [privacy_of(one).guarantee for one in fits]
    except (TypeError, ValueError):
        return None
    return max(found, key=lambda guarantee: guarantee.epsilon)


def true_epsilons(
    epsilons: ArrayLike, guarantees: Sequence[PrivacyGuarantee | None]
) -> NDArray[np.float64] | None:
    """The epsilons that hold, NaN where not known; None where those drawn do hold.

    Parameters
    ----------
    epsilons : array-like of shape (n_epsilons,)
        Where the curve is drawn.
    guarantees : list of PrivacyGuarantee or None
        What is known there.

    Returns
    -------
    truths : ndarray of shape (n_epsilons,) or None
    """
    truths = [np.nan if g is None else g.epsilon for g in guarantees]
    drawn = np.asarray(epsilons, dtype=float).tolist()
    return None if all(map(_holds, drawn, guarantees)) else np.array(truths)


def _holds(epsilon: float, guarantee: PrivacyGuarantee | None) -> bool:
    """Whether what is drawn at an epsilon is at that epsilon."""
    if guarantee is None:
        return False
    if guarantee.claimed is not None:
        return math.isclose(guarantee.epsilon, epsilon, rel_tol=1e-3)
    # Less than was asked for is no other guarantee. Where a unit is protected, a plan
    # is for any number of sums, and so a little above what any fit keeps.
    slack = 0.02 + 1e-3 * epsilon if isinstance(guarantee.unit, int) else 0.0
    return guarantee.epsilon <= epsilon * (1 + 1e-6) + slack


def differences(
    guarantees: Mapping[str, Sequence[PrivacyGuarantee | None]],
    *,
    at_delta: bool = True,
) -> dict[str, str]:
    """In what other than epsilon the guarantees of curves differ, in words by label.

    Parameters
    ----------
    guarantees : dict of str to list of PrivacyGuarantee or None
    at_delta : bool, default=True
        Whether the delta at which epsilon is stated is such a difference.

    Returns
    -------
    notes : dict of str to str
    """
    words = {
        label: _words(known)[: 2 + at_delta]
        for label, those in guarantees.items()
        if (known := [one for one in those if one is not None])
    }
    kinds = list(zip(*words.values(), strict=True))
    differ = [k for k, kind in enumerate(kinds) if len(set(kind)) > 1]
    if 0 in differ:  # Units say enough.
        differ = [k for k in differ if k != 1]
    found = {
        # A searched parameter is in the label already.
        label: ", ".join(those[k] for k in differ if those[k] not in label)
        for label, those in words.items()
    }
    return {label: note for label, note in found.items() if note}


def _words(known: Sequence[PrivacyGuarantee]) -> tuple[str, str, str]:
    """Unit, relation and delta of guarantees."""
    one = known[0]
    of_mode = isinstance(one.unit, int)
    unit = f"one index of mode {one.unit}" if of_mode else f"one {one.unit}"
    # Where nothing holds, the delta of the claim.
    pairs = [g.claimed if g.claimed and not g.protects else (0, g.delta) for g in known]
    return unit, one.relation, f"delta = {shown(max(delta for _, delta in pairs))}"


def check_labels(given: Mapping[str, ArrayLike], sizes: Mapping[str, int]) -> None:
    """Refuse true epsilons that are not those of a curve.

    Parameters
    ----------
    given : dict of str to array-like
    sizes : dict of str to int
        Numbers of points of the curves.

    Raises
    ------
    ValueError
        If a label is not one of a curve, or the numbers differ.
    """
    for label, truths in given.items():
        if label not in sizes:
            raise ValueError(
                f"true_epsilons has {label!r}, which is none of the curves: "
                f"{list(sizes)}."
            )
        if len(np.atleast_1d(truths)) != sizes[label]:
            raise ValueError(
                f"true_epsilons of {label!r} must hold one number for each of its "
                f"{sizes[label]} points."
            )


def legend_text(
    label: str, notes: Mapping[str, str], truths: Mapping[str, ArrayLike]
) -> str:
    """Text of a curve in the legend, with what is true of it.

    Parameters
    ----------
    label : str
    notes : dict of str to str
        What else is said of curves.
    truths : dict of str to array-like
        The epsilons that hold for those drawn at a claim.

    Returns
    -------
    text : str
    """
    text = f"{label} ({notes[label]})" if label in notes else label
    if label not in truths:
        return text
    values = np.asarray(truths[label], dtype=float)
    if np.isnan(values).any():
        return f"{text}: epsilon as asked for, what holds is not known"
    if np.isinf(values).all():
        return f"{text}: claimed, no finite epsilon holds"
    listed = ", ".join(map(_number, values))
    if len(values) > _MOST_LISTED:
        listed = f"{_number(values.min())} to {_number(values.max())}"
    return f"{text}: claimed, true epsilon {listed}"


def _number(epsilon: float) -> str:
    """An epsilon in words that are no less than it."""
    return f"{math.ceil(epsilon):,}" if 1e3 < epsilon < 1e7 else shown(epsilon)
