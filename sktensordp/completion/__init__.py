"""Private completion of sparse tensors."""

from typing import TYPE_CHECKING, Any

from ..measure import NoiseShares, fit_aggregated, party
from ._checks import entries_from_sparse
from ._client import CompletionClient
from ._cp import CPCompletion
from ._implicit import ImplicitCompletion
from ._tucker import TuckerCompletion

if TYPE_CHECKING:
    from ..recommend import (
        CoordinateEncoder,
        Recommender,
        check_table,
        columns_with_values,
        make_fold_in_scorer,
        make_ranking_scorer,
    )

__all__ = [
    "CPCompletion",
    "CompletionClient",
    "CoordinateEncoder",
    "ImplicitCompletion",
    "NoiseShares",
    "Recommender",
    "TuckerCompletion",
    "check_table",
    "columns_with_values",
    "entries_from_sparse",
    "fit_aggregated",
    "make_fold_in_scorer",
    "make_ranking_scorer",
    "party",
]


def __getattr__(name: str) -> Any:
    """Import names of `sktensordp.recommend` on first use, to avoid a cycle."""
    if name in __all__:
        from .. import recommend

        return getattr(recommend, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
