"""What a release guarantees: calibration, accounting and reporting."""

from typing import TYPE_CHECKING, Any

from ._guarantee import PrivacyGuarantee, compose, compose_parallel
from ._planned import epsilon_per_release, planned_guarantee
from ._protocol import (
    CompositeEstimator,
    ForeseeableEstimator,
    PrivacyTags,
    PrivateEstimator,
    privacy_tags,
)
from ._report import PrivacyReport, privacy_of
from ._risk import PredictiveValues, epsilon_for_accuracy
from .accounting._gaussian import gaussian_delta, gaussian_mu, gaussian_sigma
from .budgets._budget import PrivacyBudget
from .budgets._open import detach_from_budgets
from .budgets._stated import already_released

if TYPE_CHECKING:
    from .accounting._events import SamplerResidualDpEvent

__all__ = [
    "CompositeEstimator",
    "ForeseeableEstimator",
    "PredictiveValues",
    "PrivacyBudget",
    "PrivacyGuarantee",
    "PrivacyReport",
    "PrivacyTags",
    "PrivateEstimator",
    "SamplerResidualDpEvent",
    "already_released",
    "compose",
    "compose_parallel",
    "detach_from_budgets",
    "epsilon_for_accuracy",
    "epsilon_per_release",
    "gaussian_delta",
    "gaussian_mu",
    "gaussian_sigma",
    "planned_guarantee",
    "privacy_of",
    "privacy_tags",
]


def __getattr__(name: str) -> Any:
    """Import the event on first use: it imports dp-accounting, which takes long."""
    if name == "SamplerResidualDpEvent":
        from .accounting._events import SamplerResidualDpEvent

        return SamplerResidualDpEvent
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
