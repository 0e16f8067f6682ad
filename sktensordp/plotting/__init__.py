"""Displays in the style of scikit-learn. matplotlib is imported when one is drawn."""

from ._audit import AuditDisplay
from ._expected_error import ExpectedErrorDisplay
from ._factors import FactorsDisplay
from ._guarantees import AttackRiskDisplay, PrivacyProfileDisplay
from ._privacy_utility import PrivacyUtilityDisplay

__all__ = [
    "AttackRiskDisplay",
    "AuditDisplay",
    "ExpectedErrorDisplay",
    "FactorsDisplay",
    "PrivacyProfileDisplay",
    "PrivacyUtilityDisplay",
]
