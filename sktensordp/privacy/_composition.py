"""Guarantees of several releases together: on the same data, or on parts of it."""

import math
from collections.abc import Iterable

from ._guarantee import BELOW_ONE, CALLERS_RELATION, PrivacyGuarantee, unit_name

__all__ = ["compose", "compose_parallel", "neighbours", "sources_of"]


def compose(
    *guarantees: PrivacyGuarantee, delta: float | None = None
) -> PrivacyGuarantee:
    """Guarantee of several releases about the same data, taken together.

    What is released may depend on earlier outcomes; how much it reveals may not: where
    guarantees are chosen on the way, ask a `PrivacyBudget`. Pure epsilons add up,
    Gaussian releases compose in closed form, and mixtures through privacy-loss
    distributions.

    Parameters
    ----------
    *guarantees : PrivacyGuarantee
        At least one; all of the same unit and relation.
    delta : float, default=None
        Where to state the epsilon of the composition; the sum of the deltas by
        default, or the largest where the sum is no delta.

    Returns
    -------
    guarantee : PrivacyGuarantee

    Raises
    ------
    ValueError
        If there is none, or if the units or the relations differ: such guarantees
        speak of different neighbours and do not add up. A query whose sensitivity the
        caller vouches for goes with any relation; the caller then vouches for that.

    Examples
    --------
    >>> import dp_accounting
    >>> from sktensordp.privacy import PrivacyGuarantee, compose
    >>> release = PrivacyGuarantee.of(
    ...     dp_accounting.LaplaceDpEvent(noise_multiplier=2.0), unit="entry",
    ...     statement="Laplace noise.", source="Dwork et al. (2006)")
    >>> together = compose(release, release, release)
    >>> together.epsilon, together.delta
    (1.5, 0.0)
    """
    from ._accounting import compose_events

    unit, relation = neighbours(guarantees)
    claimed = None
    if any(g.claimed is not None for g in guarantees):
        pairs = [g.claimed or (g.epsilon, g.delta) for g in guarantees]
        claimed = (sum(e for e, _ in pairs), min(sum(d for _, d in pairs), BELOW_ONE))
    return PrivacyGuarantee.of(
        compose_events(g.event for g in guarantees),
        delta=_stated_delta([g.delta for g in guarantees]) if delta is None else delta,
        unit=unit,
        relation=relation,
        statement=f"Composition of {len(guarantees)} releases about the same data.",
        source=sources_of(guarantees),
        claimed=claimed,
    )


def compose_parallel(
    *guarantees: PrivacyGuarantee, delta: float | None = None
) -> PrivacyGuarantee:
    """Guarantee of releases about disjoint parts of the data, taken together.

    Each record is in one part, so that it is revealed what one release reveals: the
    worst of them, at every epsilon. Which part a record is in is fixed or public: where
    its values decide, replacing one may change two parts, and the releases compose.

    Parameters
    ----------
    *guarantees : PrivacyGuarantee
        One for every part, at least one; all of the same unit and relation.
    delta : float, default=None
        Where to state the epsilon; the largest of the deltas by default.

    Returns
    -------
    guarantee : PrivacyGuarantee

    Raises
    ------
    ValueError
        As `compose`.

    Examples
    --------
    >>> import dp_accounting
    >>> from sktensordp.privacy import PrivacyGuarantee, compose_parallel
    >>> def noise(scale):
    ...     return PrivacyGuarantee.of(
    ...         dp_accounting.LaplaceDpEvent(scale), unit="sample",
    ...         statement="Laplace noise.", source="Dwork et al. (2006)")
    >>> compose_parallel(noise(2.0), noise(4.0)).epsilon
    0.5
    >>> (10 * (noise(2.0) | noise(4.0)) + noise(1.0)).epsilon
    6.0
    """
    from ._events import ParallelDpEvent

    unit, relation = neighbours(guarantees)
    claimed = None
    if any(g.claimed is not None for g in guarantees):
        pairs = [g.claimed or (g.epsilon, g.delta) for g in guarantees]
        claimed = (max(e for e, _ in pairs), max(d for _, d in pairs))
    return PrivacyGuarantee.of(
        ParallelDpEvent(g.event for g in guarantees),
        delta=max(g.delta for g in guarantees) if delta is None else delta,
        unit=unit,
        relation=relation,
        statement=f"Releases about {len(guarantees)} disjoint parts of the data.",
        source=sources_of(guarantees),
        claimed=claimed,
    )


def neighbours(guarantees: Iterable[PrivacyGuarantee]) -> tuple[str | int, str]:
    """Unit and relation that guarantees have in common.

    Raises
    ------
    ValueError
        If there is no guarantee, or if they speak of different changes of the data.
    """
    guarantees = list(guarantees)
    if not guarantees:
        raise ValueError("A composition needs at least one guarantee.")
    units = {str(g.unit): unit_name(g.unit) for g in guarantees}
    if len(units) > 1:
        raise ValueError(
            f"Guarantees with different units do not compose: {sorted(units)}. They "
            f"are for {' and for '.join(units[u] for u in sorted(units))}; each bounds "
            f"what is learned of its own unit alone, and none says what the release "
            f"reveals of the other. Protect the same unit in all of them."
        )
    relations = {g.relation for g in guarantees}
    relations = relations - {CALLERS_RELATION} or relations
    if len(relations) > 1:
        raise ValueError(
            f"Guarantees with different relations do not compose: {sorted(relations)}. "
            f"They bound the effect of different changes of the data."
        )
    return guarantees[0].unit, min(relations)


def _stated_delta(deltas):
    """Where to state the epsilon of a composition: the sum, or the largest below 1."""
    total = math.fsum(deltas)
    return total if total < 1 else max(deltas)


def sources_of(guarantees: Iterable[PrivacyGuarantee]) -> str:
    """The theorems that guarantees rest on, each once."""
    return "; ".join(
        sorted({part for g in guarantees for part in g.source.split("; ")})
    )
