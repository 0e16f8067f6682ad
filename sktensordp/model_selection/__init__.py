"""Expected errors and checks before any budget is spent, searches and splitters."""

from ._check_samples import SampleCheck, check_samples
from ._clean_scorer import make_clean_scorer
from ._expected_error import ExpectedError, epsilon_needed, expected_error
from ._holdout import ItemHoldout, UserHoldout, UserKFold
from ._private_search import PrivateSearchCV
from ._shuffling import epsilon_before_shuffling

__all__ = [
    "ExpectedError",
    "ItemHoldout",
    "PrivateSearchCV",
    "SampleCheck",
    "UserHoldout",
    "UserKFold",
    "check_samples",
    "epsilon_before_shuffling",
    "epsilon_needed",
    "expected_error",
    "make_clean_scorer",
]
