"""Post-processing, as the caller states it: a block for data that were released before.

Within the block, a release that asks for no epsilon is recorded with an event that
reveals nothing, under a name that says who states so. Every other release counts as
anywhere else: the statement lowers no epsilon.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from .._guarantee import PrivacyGuarantee

Guarantee = TypeVar("Guarantee", PrivacyGuarantee, None)

_STATED = "post-processing, as the caller states"
_UNCHECKED = (
    "The caller states that the data of releases marked as post-processing had been "
    "released before, which no budget can check."
)


class _Statement:
    """A block that is open, until it ends."""

    is_open = True


_CURRENT: ContextVar[_Statement | None] = ContextVar("already_released", default=None)


@contextmanager
def already_released() -> Iterator[None]:
    """State that what is fitted or transformed in a block had been released before.

    What is computed from released values alone reveals nothing more (post-processing).
    A budget cannot know where values come from, so it refuses a fit without noise. In
    this block it admits one, and records it as post-processing, as the caller states.

    The statement is yours to prove: all data that estimators get in the block must be
    computed from earlier releases and from public values. Where entries are protected,
    their coordinates are public. Each of those releases must have been counted where
    you count releases about these people.

    Notes
    -----
    It holds for this thread. Only what asks for no epsilon becomes post-processing: a
    release with ``epsilon=inf``, and ids that are published. A release with a finite
    epsilon counts in full, and one that asked for an epsilon and has none, because its
    domain was read off the data, is refused as anywhere else. Do not ``yield`` inside
    the block: the caller's releases would be in it, too.

    The guarantee of the fitted estimator itself does not change: it knows of no noise,
    and says so. What holds for its output is the guarantee of the releases from which
    its data were computed.

    See Also
    --------
    PrivacyBudget : Counts releases.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import LaplaceMechanism
    >>> from sktensordp.moments import MultilinearPCA
    >>> from sktensordp.privacy import PrivacyBudget, already_released
    >>> X = np.random.default_rng(0).random((100, 3, 2))
    >>> components = MultilinearPCA((1, 1), epsilon=float("inf"), norm_bound=3.0)
    >>> with PrivacyBudget(2.0) as budget:
    ...     noisy = LaplaceMechanism(2.0, bounds=(0, 1)).fit(X).transform(X)
    ...     with already_released():
    ...         components = components.fit(noisy)
    >>> print(budget)
    Privacy budget: epsilon = 2, delta = 0, for one row of X (replace-one)
    Spent: epsilon = 2 at delta = 0
    Left: nothing
      1 x epsilon = 2: transform of LaplaceMechanism
      1 x epsilon = 0: post-processing, as the caller states: fit of MultilinearPCA
    Not protected:
      - LaplaceMechanism protects the rows of X, not y.
      - MultilinearPCA protects the samples of its fit. What it computes of other
      samples later has no noise and is not protected.
      - The caller states that the data of releases marked as post-processing had been
      released before, which no budget can check.
    """
    statement = _Statement()
    token = _CURRENT.set(statement)
    try:
        yield
    finally:
        # A copy of this context, such as that of a task, may outlive the block.
        statement.is_open = False
        _CURRENT.reset(token)


def is_stated(guarantee: PrivacyGuarantee | None) -> bool:
    """Whether a release of this thread is post-processing, as the caller states.

    None stands for published ids. A guarantee with a claim asked for an epsilon.
    """
    from dp_accounting.dp_event import NonPrivateDpEvent

    current = _CURRENT.get()
    if current is None or not current.is_open:
        return False
    if guarantee is None:
        return True
    return isinstance(guarantee.event, NonPrivateDpEvent) and guarantee.claimed is None


def as_recorded(
    guarantee: Guarantee, name: str, unprotected: Iterable[str]
) -> tuple[Guarantee | PrivacyGuarantee, str, tuple[str, ...]]:
    """Guarantee, name and caveats of a release, as budgets record them."""
    if not is_stated(guarantee):
        return guarantee, name, tuple(unprotected)
    from dp_accounting.dp_event import NoOpDpEvent

    free = PrivacyGuarantee(
        event=NoOpDpEvent(),
        epsilon=0.0,
        delta=0.0,
        unit="sample" if guarantee is None else guarantee.unit,
        relation=_STATED,
        statement="Computed from what had been released before.",
        source="Dwork and Roth (2014), Proposition 2.1",
    )
    return free, f"{_STATED}: {name}", (*unprotected, _UNCHECKED)


def reveals_nothing(guarantee: PrivacyGuarantee) -> bool:
    """Whether a recorded release adds nothing, whatever its unit and relation."""
    from dp_accounting.dp_event import NoOpDpEvent

    return isinstance(guarantee.event, NoOpDpEvent)
