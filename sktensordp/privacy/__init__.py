"""What a release guarantees: calibration, accounting and reporting."""

from ._guarantee import PrivacyGuarantee, compose, compose_parallel
from ._report import PrivacyReport, privacy_of
from .accounting._gaussian import gaussian_delta, gaussian_mu, gaussian_sigma
from .budgets._budget import PrivacyBudget

__all__ = [
    "PrivacyBudget",
    "PrivacyGuarantee",
    "PrivacyReport",
    "compose",
    "compose_parallel",
    "gaussian_delta",
    "gaussian_mu",
    "gaussian_sigma",
    "privacy_of",
]
