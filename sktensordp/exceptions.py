"""Warnings and errors about privacy."""

__all__ = ["BudgetExceededError", "PrivacyLeakWarning", "UnsoundClaimWarning"]


class BudgetExceededError(RuntimeError):
    """A release would exceed an open privacy budget; nothing of it was drawn.

    What was released before stays counted.
    """


class PrivacyLeakWarning(UserWarning):
    """A quantity that should have been declared was read off the private data.

    Raised, for example, when the range of the values is not given and has to be
    taken from the values themselves. Nothing that depends on such a quantity is
    covered by a finite epsilon, and the guarantee of the fitted estimator says so.
    """


class UnsoundClaimWarning(UserWarning):
    """A published calibration was asked for whose claim does not hold.

    The guarantee of the fitted estimator says what is true, and, in ``claimed``, what
    the paper claims.
    """
