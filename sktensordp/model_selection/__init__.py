"""Errors to expect before any budget is spent, and private parameter search."""

from ._expected_error import ExpectedError, epsilon_needed, expected_error
from ._private_search import PrivateSearchCV

__all__ = ["ExpectedError", "PrivateSearchCV", "epsilon_needed", "expected_error"]
