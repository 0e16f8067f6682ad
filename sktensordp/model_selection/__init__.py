"""What to ask for before anything is spent, and private search."""

from ._expected_error import ExpectedError, epsilon_needed, expected_error
from ._private_search import PrivateSearchCV

__all__ = ["ExpectedError", "PrivateSearchCV", "epsilon_needed", "expected_error"]
