"""Errors and warnings about privacy."""

__all__ = [
    "AveragesOnlyWarning",
    "BudgetExceededError",
    "NoiseOnlyWarning",
    "PrivacyLeakWarning",
    "UnsoundClaimWarning",
]


class AveragesOnlyWarning(UserWarning):
    """A fit learned averages alone, so everybody gets the same ranking.

    At this epsilon, and with so few users or entries, noise would hide more. It is not
    raised if averages were asked for, by ``perturbation="sums"``, ``rank=0`` or
    ``max_items=0``.
    """


class BudgetExceededError(BaseException):
    """A release would exceed a privacy budget; no noise was drawn for it.

    Earlier releases stay counted.

    Notes
    -----
    Catch this error by its name: ``except Exception`` does not catch it, just as it
    does not catch ``asyncio.CancelledError``. scikit-learn's searches and
    ``cross_val_score`` catch every ``Exception`` of a fit and continue with a score of
    NaN. If they caught this error too, a search would silently choose among the
    candidates that came before the refusal.

    joblib and ``concurrent.futures`` pass the error from a worker to its caller. A
    ``multiprocessing.pool.ThreadPool`` does not, and waits forever for such a worker:
    catch the error inside the function that you pass to the pool.
    """


class NoiseOnlyWarning(AveragesOnlyWarning):
    """A fit learned next to nothing: its model holds little but noise.

    What was released is within its noise of nothing. Of a completion, that is the
    number of users, or their typical number of entries: perhaps columns were swapped,
    or ids are not spelt as in the catalogue, so that most rows were left out. Of
    moments, these are the moments of all modes, or the products of samples and targets.
    Of `sktensordp.mechanisms.estimate_mean`, most standard errors exceed the declared
    range. Encoders release nothing when they are fitted: their codes are expected to
    keep no more of the task of new samples than one constant does.
    """


class PrivacyLeakWarning(UserWarning):
    """Private data may be public: read off instead of declared, or passed as ids.

    For example, the range of the values was not given, so it is taken from the values
    themselves. No finite epsilon covers anything that depends on such a quantity, and
    the guarantee of the fitted estimator says so. Or a column of X, whose ids are
    public, looks as if it held the values.
    """


class UnsoundClaimWarning(UserWarning):
    """The estimator uses a published calibration whose claim does not hold.

    The guarantee of the fitted estimator states what is true; its ``claimed`` states
    what the paper claims.
    """
