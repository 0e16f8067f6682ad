"""The error to expect over epsilon, as a picture."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ._privacy_utility import REFERENCE_STYLES, STYLES

__all__ = ["ExpectedErrorDisplay"]


class ExpectedErrorDisplay:
    """Expected errors over epsilon, one curve an estimator, and what a target asks for.

    Parameters
    ----------
    curves : dict of str to ExpectedError
        By label, all of one kind of error. What is expected at infinite epsilon is
        drawn as a horizontal line.
    target : float, default=None
        The error that is wanted, drawn as a horizontal line.
    needed : dict of str to float, default=None
        By label, the epsilon at which a curve meets the target; not there for curves
        that do not.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of the axes.
    lines_ : list of matplotlib Line2D
        One a curve.

    Raises
    ------
    ValueError
        If there is no curve, or the curves are of different kinds of error.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism
    >>> from sktensordp.plotting import ExpectedErrorDisplay
    >>> display = ExpectedErrorDisplay.from_estimator(
    ...     {"Laplace": LaplaceMechanism(bounds=(0, 1)),
    ...      "Gaussian": GaussianMechanism(bounds=(0, 1))},
    ...     np.zeros((1, 2, 2)), epsilons=[1, 4, 16], target=8.0)
    >>> {name: round(epsilon, 1) for name, epsilon in display.needed.items()}
    {'Laplace': 4.0, 'Gaussian': 7.3}
    """

    def __init__(
        self,
        curves: Mapping[str, Any],
        *,
        target: float | None = None,
        needed: Mapping[str, float] | None = None,
    ) -> None:
        if len({curve.what for curve in curves.values()}) != 1:
            raise ValueError(
                "Curves must be of one kind of error; draw others on axes of their own."
            )
        self.curves = curves
        self.target = target
        self.needed = dict(needed or {})

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        epsilons: ArrayLike,
        target: float | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw what is expected of estimators, before they are fitted.

        Parameters
        ----------
        estimator : estimator or dict of str to estimator
            As for ``expected_error``; several of one kind by label.
        X, y : array-like
            As for ``expected_error``, which says what of them is read.
        epsilons : array-like of shape (n_epsilons,)
            Positive; infinity for a line without noise.
        target : float, default=None
            The error that is wanted.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.

        Returns
        -------
        display : ExpectedErrorDisplay

        Raises
        ------
        TypeError, ValueError
            As ``expected_error``.
        """
        from ..model_selection import epsilon_needed, expected_error

        if not isinstance(estimator, Mapping):
            estimator = {type(estimator).__name__: estimator}
        curves, needed = {}, {}
        for label, one in estimator.items():
            curves[label] = found = expected_error(one, X, y, epsilons=epsilons)
            if target is None:
                continue
            # Where the curve meets it, if it does so among the epsilons asked for.
            finite = np.isfinite(found.epsilons)
            reached = found.errors[finite] <= target
            if reached.any() and not reached.all():
                needed[label] = epsilon_needed(one, X, y, error=target)
        return cls(curves, target=target, needed=needed).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.

        Returns
        -------
        self : ExpectedErrorDisplay
        """
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(layout="constrained")
        self.ax_, self.figure_, self.lines_ = ax, ax.figure, []
        ax.set_xscale("log")
        ax.set_yscale("log")
        for i, (label, curve) in enumerate(self.curves.items()):
            line, marker = STYLES[i % len(STYLES)]
            points = np.stack([curve.epsilons, curve.errors])
            points = points[:, np.isfinite(curve.epsilons)]
            text, own = self._described(label, points), np.ones(points.shape[1], bool)
            if self.target is not None and label in self.needed:
                # The line goes through the mark, where it has no marker of its own.
                points = np.column_stack([points, (self.needed[label], self.target)])
                own = np.append(own, False)
            order = np.argsort(points[0])
            drawn = ax.plot(
                *points[:, order], linestyle=line, marker=marker, markersize=4,
                markevery=np.flatnonzero(own[order]).tolist(), label=text,
            )  # fmt: skip
            self.lines_ += drawn
            self._draw_without_noise(curve, line, drawn[0].get_color())
        self._draw_target()
        self._label()
        return self

    def _described(self, label, points):
        """Text of a curve in the legend, with the epsilon for the target."""
        if self.target is None:
            return label
        if label in self.needed:
            return f"{label}: {self.needed[label]:.3g}"
        if np.all(points[1] <= self.target):
            return f"{label}: below {points[0].min():.3g}"
        return f"{label}: above {points[0].max():.3g}"

    def _draw_target(self):
        if self.target is None:
            return
        ax, grey = self.ax_, {"color": "0.35"}
        ax.axhline(self.target, linestyle=REFERENCE_STYLES[1], linewidth=1.2, **grey)
        for epsilon in self.needed.values():
            ax.plot([epsilon] * 2, [0, self.target], linewidth=0.8, **grey)
            ax.plot(epsilon, self.target, "ko", fillstyle="none", markersize=9)

    def _draw_without_noise(self, curve, line, color):
        errors = curve.errors[np.isinf(curve.epsilons)]
        # Of mechanisms it is zero, which has no place on a logarithmic axis.
        if errors.size and errors[0] > 0:
            self.ax_.axhline(errors[0], color=color, linestyle=line, linewidth=0.7)

    def _label(self):
        """Label the axes; plain numbers where they span less than a decade."""
        from matplotlib.ticker import AutoLocator, NullLocator, ScalarFormatter

        ax, curves = self.ax_, list(self.curves.values())
        ticks = np.unique(np.concatenate([curve.epsilons for curve in curves]))
        ticks = ticks[np.isfinite(ticks)]
        if len(ticks) <= 10:
            ax.set_xticks(ticks, labels=[f"{t:.3g}" for t in ticks])
            ax.xaxis.set_minor_locator(NullLocator())
        low, high = ax.get_ylim()
        if high < 10 * low:
            ax.yaxis.set_major_locator(AutoLocator())
            ax.yaxis.set_major_formatter(ScalarFormatter())
            ax.yaxis.set_minor_locator(NullLocator())
        ax.set_xlabel("epsilon (more privacy to the left)")
        ax.set_ylabel(curves[0].what)
        ax.legend(title=None if self.target is None else f"epsilon for {self.target:g}")
