"""What audits proved against what was claimed, as a picture."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

__all__ = ["AuditDisplay"]


class AuditDisplay:
    """Claimed epsilons and the lower bounds that audits proved.

    Parameters
    ----------
    reports : dict of str to AuditReport
        One row each, drawn from top to bottom.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of the axes.
    bars_ : matplotlib BarContainer
        The lower bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.audit import audit_mechanism
    >>> from sktensordp.plotting import AuditDisplay
    >>> rng = np.random.default_rng(0)
    >>> report = audit_mechanism(
    ...     lambda x, n: x + rng.laplace(scale=0.2, size=(n, 1)), [0.0], [1.0],
    ...     epsilon=1.0, n_trials=1000, batched=True)
    >>> AuditDisplay({"a fifth of the noise": report}).plot().ax_.get_xlabel()
    'epsilon'
    """

    def __init__(self, reports: Mapping[str, Any]) -> None:
        self.reports = reports

    @classmethod
    def from_estimator(
        cls, estimator: Any, *data: Any, ax: Any = None, **options: Any
    ) -> Self:
        """Audit an estimator on two neighbouring data sets, and draw the result.

        Parameters
        ----------
        estimator : estimator
            What to audit.
        *data
            X and its neighbour, then the targets of both, where there are any.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.
        **options
            Passed to ``audit_estimator``.

        Returns
        -------
        display : AuditDisplay
        """
        from ..audit import audit_estimator

        report = audit_estimator(estimator, *data, **options)
        return cls({type(estimator).__name__: report}).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.

        Returns
        -------
        self : AuditDisplay
        """
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(figsize=(6.4, 1.2 + 0.4 * len(self.reports)))
        self.ax_, self.figure_ = ax, ax.figure
        reports = list(self.reports.values())
        rows = np.arange(len(reports))
        self.bars_ = ax.barh(
            rows, [r.epsilon_lower for r in reports],
            color=["0.65" if r.violated else "0.95" for r in reports],
            edgecolor="black", height=0.6, label="proved lower bound",
        )  # fmt: skip
        claims = [(row, r.claimed) for row, r in zip(rows, reports, strict=True)]
        claims = [(row, c) for row, c in claims if c is not None and np.isfinite(c)]
        if claims:
            at, claimed = zip(*claims, strict=True)
            ax.plot(claimed, at, "k|", markersize=18, mew=2, label="claimed")
        ax.set_yticks(rows, labels=list(self.reports))
        ax.invert_yaxis()
        ax.set_xlabel("epsilon")
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
        return self
