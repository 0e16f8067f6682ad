"""What a release guarantees: calibration, accounting and reporting."""

from ._gaussian import gaussian_delta, gaussian_mu, gaussian_sigma
from ._guarantee import PrivacyGuarantee, compose
from ._report import PrivacyReport, privacy_of

__all__ = [
    "PrivacyGuarantee",
    "PrivacyReport",
    "compose",
    "gaussian_delta",
    "gaussian_mu",
    "gaussian_sigma",
    "privacy_of",
]
