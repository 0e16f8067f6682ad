"""Picture of the lower bounds that audits proved, beside the claims."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ._docs import with_shared_text
from ._style import new_axes, shade, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BOUND, _VIOLATED, _CLAIMED = "proved lower bound", "above the claim", "claimed"


@with_shared_text
class AuditDisplay:
    """Claimed epsilons and the lower bounds that audits proved.

    Parameters
    ----------
    reports : dict of str to AuditReport
        One row per report, drawn from top to bottom.

    Attributes
    ----------
    $axes
    bars_ : matplotlib BarContainer
        Bars of the lower bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.audit import audit_mechanism
    >>> from sktensordp.plotting import AuditDisplay
    >>> rng = np.random.default_rng(0)
    >>> report = audit_mechanism(
    ...     lambda x, n: x + rng.laplace(scale=0.2, size=(n, 1)), [0.0], [1.0],
    ...     epsilon=1.0, n_trials=1000, batched=True)
    >>> display = AuditDisplay({"a fifth of the noise": report}).plot()
    >>> bool(display.bars_[0].get_width() > 1.0)
    True
    """

    def __init__(self, reports: Mapping[str, Any]) -> None:
        self.reports = reports

    @classmethod
    def from_estimator(
        cls, estimator: Any, *data: Any, ax: "Axes | None" = None, **options: Any
    ) -> Self:
        """Audit an estimator on two neighbouring data sets, and draw the result.

        Parameters
        ----------
        estimator : estimator
            Estimator to audit.
        *data
            X and its neighbour, then the targets of both, if any.
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones by default.
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

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw the claims and the lower bounds.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones by default.

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
        bounds, black = [r.epsilon_lower for r in reports], shade(ax, 1.0)
        self.bars_ = ax.barh(rows, bounds, edgecolor=black, height=0.6)
        handles: dict[str, Any] = {}
        for bar, report in zip(self.bars_, reports, strict=True):
            if report.violated:
                bar.set(facecolor=shade(ax, 0.2), hatch="//")
            else:
                bar.set(facecolor=shade(ax, 0.05))
            handles.setdefault(_VIOLATED if report.violated else _BOUND, bar)
        claims = [(r.claimed, row) for row, r in zip(rows, reports, strict=True)]
        claims = [(c, row) for c, row in claims if c is not None and np.isfinite(c)]
        if claims:
            x, y = zip(*claims, strict=True)
            style: dict[str, Any] = {"color": black, "markersize": 18, "mew": 3}
            (handles[_CLAIMED],) = ax.plot(x, y, "|", **style)
        ax.set_yticks(rows, labels=[wrapped(label) for label in self.reports])
        ax.invert_yaxis()
        ax.set_xlim(left=0)
        ax.set_xlabel("epsilon")
        above: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1, 1)}
        above |= {"frameon": False, "ncols": len(handles)}
        ax.legend(handles.values(), handles.keys(), **above)
        return self
