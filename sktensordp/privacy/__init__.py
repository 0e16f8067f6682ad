"""What a release guarantees: calibration, accounting and reporting."""

from ._budget import PrivacyBudget
from ._composition import compose, compose_parallel
from ._gaussian import gaussian_delta, gaussian_mu, gaussian_sigma
from ._guarantee import PrivacyGuarantee
from ._report import PrivacyReport, privacy_of

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
