"""Warnings and errors about privacy."""

__all__ = ["BudgetExceededError", "PrivacyLeakWarning", "UnsoundClaimWarning"]


class BudgetExceededError(BaseException):
    """A release would exceed an open privacy budget; nothing of it was drawn.

    What was released before stays counted.

    Notes
    -----
    ``except Exception`` does not catch it, as it does not catch
    ``asyncio.CancelledError``: catch it by its name. scikit-learn's searches and
    ``cross_val_score`` catch every ``Exception`` of a fit and go on with a score of
    NaN, so that the candidates that came before the refusal would win. Workers of
    joblib and ``concurrent.futures`` pass it on to whoever waits for them; a
    ``multiprocessing.pool.ThreadPool`` does not, and waits forever for such a worker:
    catch it inside of the function that you pass to one.
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
