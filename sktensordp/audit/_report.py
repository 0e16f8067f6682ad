"""Result of an audit."""

import html
from dataclasses import dataclass, field

from ..privacy._numbers import exact, shown, shown_below


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """Result of an audit: a lower bound on epsilon, and whether it refutes the claim.

    Parameters
    ----------
    epsilon_lower : float
        Lower bound on the true epsilon at `delta`, valid at `confidence`.
    mu_lower : float or None
        Lower bound on the mu of a Gaussian mechanism; None if mu was not bounded.
    confidence : float
        The bound is above the true epsilon with probability at most 1 - `confidence`.
    delta : float
        Delta at which epsilon is bounded.
    claimed : float or None
        Claimed epsilon at `delta`.
    event : str
        Event that tells the two inputs apart.
    n_trials : int
        Number of runs on each of the two inputs, or of canaries in one run.
    finding : str, default=""
        What is wrong if the event refutes the claim, in words.

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
    finding: str = ""
    violated: bool = field(init=False)

    def __post_init__(self) -> None:
        violated = self.claimed is not None and self.epsilon_lower > self.claimed
        object.__setattr__(self, "violated", violated)

    def __str__(self) -> str:
        text = (
            f"epsilon >= {shown_below(self.epsilon_lower)} at delta = "
            f"{exact(self.delta)} with confidence {exact(self.confidence)}"
        )
        if self.mu_lower is not None:
            mu = shown_below(self.mu_lower)
            text += f" (mu >= {mu}, for Gaussian noise)"
        if self.claimed is not None:
            verdict = "VIOLATED" if self.violated else "not violated"
            text += f", against a claim of {shown(self.claimed)}: {verdict}"
        text += f". Event: {self.event}; {self.n_trials} trials."
        if self.violated and self.finding:
            text += f" Finding: {self.finding}."
        return text

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(str(self))}</p>"
