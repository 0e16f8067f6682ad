"""Expected errors before any budget is spent, private search, and splitters."""

from ._expected_error import ExpectedError, epsilon_needed, expected_error
from ._holdout import ItemHoldout, UserHoldout, UserKFold
from ._private_search import PrivateSearchCV
from ._shuffling import epsilon_before_shuffling

__all__ = [
    "ExpectedError",
    "ItemHoldout",
    "PrivateSearchCV",
    "UserHoldout",
    "UserKFold",
    "epsilon_before_shuffling",
    "epsilon_needed",
    "expected_error",
]
