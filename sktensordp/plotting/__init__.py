"""Displays in the style of scikit-learn. matplotlib is imported when one is drawn."""

from ._counts import CountsDisplay
from ._curves import ExpectedErrorDisplay, PrivacyUtilityDisplay
from ._factors import FactorsDisplay
from ._guarantees import AttackRiskDisplay, AuditDisplay, PrivacyProfileDisplay
from ._guesses import GuessesDisplay

__all__ = [
    "AttackRiskDisplay",
    "AuditDisplay",
    "CountsDisplay",
    "ExpectedErrorDisplay",
    "FactorsDisplay",
    "GuessesDisplay",
    "PrivacyProfileDisplay",
    "PrivacyUtilityDisplay",
]
