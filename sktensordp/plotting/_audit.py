"""What audits proved against what was claimed, as a picture."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from ._style import new_axes, wrapped

__all__ = ["AuditDisplay"]

_BOUND = "proved lower bound", {"facecolor": "0.95"}
_VIOLATED = "above the claim", {"facecolor": "0.8", "hatch": "//"}


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

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from sktensordp.mechanisms import LaplaceMechanism
        >>> from sktensordp.plotting import AuditDisplay
        >>> display = AuditDisplay.from_estimator(
        ...     LaplaceMechanism(1.0, bounds=(0, 1)), [[0.0]], [[1.0]],
        ...     ax=Figure().subplots(), n_trials=50, random_state=0)
        >>> display.reports["LaplaceMechanism"].violated
        False
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

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from sktensordp.audit import AuditReport
        >>> from sktensordp.plotting import AuditDisplay
        >>> report = AuditReport(
        ...     epsilon_lower=1.7, mu_lower=None, confidence=0.95, delta=0.0,
        ...     claimed=1.0, event="output >= 2", n_trials=1000)
        >>> display = AuditDisplay({"half the noise": report})
        >>> float(display.plot(ax=Figure().subplots()).bars_[0].get_width())
        1.7
        """
        rows = np.arange(len(self.reports))
        reports = list(self.reports.values())
        if ax is None:
            ax = new_axes(figsize=(6.4, 1.2 + 0.4 * len(rows)))
        self.ax_, self.figure_ = ax, ax.figure
        self.bars_ = ax.barh(
            rows, [r.epsilon_lower for r in reports], edgecolor="black", height=0.6
        )
        named: dict[str, Any] = {}
        for bar, report in zip(self.bars_, reports, strict=True):
            text, style = _VIOLATED if report.violated else _BOUND
            bar.set(**style)
            named.setdefault(text, bar)
        claims = [(r.claimed, row) for row, r in zip(rows, reports, strict=True)]
        claims = [(c, row) for c, row in claims if c is not None and np.isfinite(c)]
        if claims:
            (named["claimed"],) = ax.plot(
                *zip(*claims, strict=True), "k|", markersize=18, mew=3
            )
        ax.set_yticks(rows, labels=[wrapped(label) for label in self.reports])
        ax.invert_yaxis()
        ax.set_xlim(left=0)
        ax.set_xlabel("epsilon")
        ax.legend(
            named.values(), named.keys(), loc="lower right", bbox_to_anchor=(1, 1),
            ncols=len(named), frameon=False,
        )  # fmt: skip
        return self
