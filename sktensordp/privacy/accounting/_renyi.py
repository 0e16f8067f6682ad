"""Rényi divergences of releases, for accountants that compose them.

They are those of ideal distributions. A sampler's distance from its ideal distribution
is not a Rényi divergence, since its noise is bounded.
"""

import math
from typing import TYPE_CHECKING

import numpy as np

from ._composition import Composition
from ._curves import compositions_of, curve_of
from ._events import (
    GroupDpEvent,
    SelectionDpEvent,
    ShuffledDpEvent,
)
from ._renyi_bound import renyi_without_curves
from ._shuffling import shuffled_renyi

if TYPE_CHECKING:
    from dp_accounting import DpEvent


def event_renyi(event: "DpEvent", order: float) -> float:
    """Rényi divergence between neighbours at `order` > 1; infinite if there is none."""
    return max(
        _composition_renyi(composition, order) for composition in compositions_of(event)
    )


def _composition_renyi(composition: Composition, order: float) -> float:
    if not composition.private or composition.reveal_delta:
        return math.inf
    terms = [renyi_without_curves(composition, order)]
    for event, n in composition.curves.items():
        if isinstance(event, GroupDpEvent):
            # Only the curve of a group is known.
            return math.inf
        elif isinstance(event, ShuffledDpEvent):
            # At most that of the one message that differs.
            local = event_renyi(event.event, order)
            terms.append(n * min(local, shuffled_renyi(curve_of(event), order)))
        else:
            terms.append(n * _selection_renyi(event, order))
    return math.fsum(terms)


def _selection_renyi(event: SelectionDpEvent, order: float) -> float:
    """Divergence of the best of several tries: Papernot and Steinke (2022), Theorem 2.

    The proof needs two facts about the number of tries, which hold for all
    distributions here: g(t) <= g(1), and the bound on g(t) / g(t'). The latter may be
    taken from any other order.
    """
    distribution = event.distribution
    divergence = event_renyi(event.event, order)
    if distribution.eta is None:
        divergence += curve_of(event).shift
        no_try = distribution.weights[0] / sum(distribution.weights)
        log_tries = (order - 1) * divergence + math.log(distribution.mean)
        return float(np.logaddexp(log_tries, math.log(no_try))) / (order - 1)
    divergence += math.log(distribution.mean) / (order - 1)
    other_orders = 1 + np.geomspace(1e-2, 1e4, 121)
    log_gamma = math.log1p(-distribution.rate)
    shift = min(
        (1 - 1 / other) * event_renyi(event.event, other) - log_gamma / other
        for other in other_orders
    )
    return divergence + (1 + distribution.eta) * shift
