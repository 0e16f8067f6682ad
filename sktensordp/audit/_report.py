"""What an audit found."""

import html
from dataclasses import dataclass, field

from ..privacy._numbers import exact, shown, shown_below

__all__ = ["AuditReport"]


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """What an audit found.

    Parameters
    ----------
    epsilon_lower : float
        The true epsilon at `delta` is at least this, at `confidence`.
    mu_lower : float or None
        The same for the mu of a Gaussian mechanism; None where it was not asked.
    confidence : float
        One minus the chance that the bound is above the truth.
    delta : float
        Where epsilon is bounded.
    claimed : float or None
        The epsilon that was claimed at `delta`.
    event : str
        What told the two inputs apart.
    n_trials : int
        Runs on each of the two inputs, or canaries in one run.

    Attributes
    ----------
    violated : bool
        Whether the bound is above the claim.

    Examples
    --------
    >>> from sktensordp.audit import AuditReport
    >>> report = AuditReport(
    ...     epsilon_lower=1.7, mu_lower=None, confidence=0.95, delta=0.0, claimed=1.0,
    ...     event="output >= 2", n_trials=1000)
    >>> report.violated
    True
    >>> print(report)
    epsilon >= 1.7 at delta = 0 with confidence 0.95, against a claim of 1: VIOLATED.
    Event: output >= 2; 1000 trials.
    """

    epsilon_lower: float
    mu_lower: float | None
    confidence: float
    delta: float
    claimed: float | None
    event: str
    n_trials: int
    violated: bool = field(init=False)

    def __post_init__(self) -> None:
        found = self.claimed is not None and self.epsilon_lower > self.claimed
        object.__setattr__(self, "violated", found)

    def __str__(self) -> str:
        text = (
            f"epsilon >= {shown_below(self.epsilon_lower)} at delta = "
            f"{exact(self.delta)} with confidence {exact(self.confidence)}"
        )
        if self.mu_lower is not None:
            text += f" (mu >= {shown_below(self.mu_lower)})"
        if self.claimed is not None:
            verdict = "VIOLATED" if self.violated else "not violated"
            text += f", against a claim of {shown(self.claimed)}: {verdict}"
        return f"{text}. Event: {self.event}; {self.n_trials} trials."

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(str(self))}</p>"
