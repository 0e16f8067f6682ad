"""The error to expect over epsilon, as a picture."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..privacy import PrivacyGuarantee
from ..privacy._numbers import shown, shown_below
from ._claims import check_labels, differences, legend_text, true_epsilons
from ._curves import CurvesDisplay
from ._style import CLAIMED, REFERENCE_STYLES, wrapped

__all__ = ["ExpectedErrorDisplay"]

_ROUNDING = 1e-12


class ExpectedErrorDisplay(CurvesDisplay):
    """Expected errors over epsilon, one curve an estimator, and what a target asks for.

    A curve whose epsilons are claims, and not what is true, is drawn apart, as by
    `PrivacyUtilityDisplay`.

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
    true_epsilons : dict of str to array-like, default=None
        As for `PrivacyUtilityDisplay`: one for every epsilon of a curve.
    notes : dict of str to str, default=None
        What else the legend says of curves, by label.

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
        If there is no curve, or the curves are of different kinds of error, or if
        `true_epsilons` does not fit to them.

    See Also
    --------
    PrivacyUtilityDisplay : What was reached, over epsilon.

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
        true_epsilons: Mapping[str, ArrayLike] | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        if len({curve.what for curve in curves.values()}) != 1:
            raise ValueError(
                "Curves must be of one kind of error; draw others on axes of their own."
            )
        self.curves = curves
        self.target = target
        self.needed = dict(needed or {})
        self.true_epsilons = dict(true_epsilons or {})
        self.notes = dict(notes or {})
        sizes = {label: len(curve.epsilons) for label, curve in curves.items()}
        check_labels(self.true_epsilons, sizes)

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

        What a fit would guarantee is planned too: a curve that is at a claim which is
        not true, as with a published calibration, is drawn apart, and where curves
        differ in what they protect, or in delta, the legend says so.

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

        Examples
        --------
        >>> import numpy as np
        >>> from sktensordp.mechanisms import GaussianMechanism
        >>> from sktensordp.plotting import ExpectedErrorDisplay
        >>> display = ExpectedErrorDisplay.from_estimator(
        ...     {"1e-5": GaussianMechanism(bounds=(0, 1), delta=1e-5),
        ...      "1e-9": GaussianMechanism(bounds=(0, 1), delta=1e-9)},
        ...     np.zeros((1, 2, 2)), epsilons=[1, 4])
        >>> {label: curve.errors.round(1) for label, curve in display.curves.items()}
        {'1e-5': array([222.7,  18.7]), '1e-9': array([483.2,  35.4])}
        >>> [text.get_text() for text in display.ax_.get_legend().get_texts()]
        ['1e-5 (delta = 1e-05)', '1e-9 (delta = 1e-09)']
        """
        from ..model_selection import epsilon_needed, expected_error

        if not isinstance(estimator, Mapping):
            estimator = {type(estimator).__name__: estimator}
        curves, needed, guarantees, truths = {}, {}, {}, {}
        for label, one in estimator.items():
            curves[label] = found = expected_error(one, X, y, epsilons=epsilons)
            guarantees[label] = _planned(one, np.shape(X)[1:], found.epsilons)
            true = true_epsilons(found.epsilons, guarantees[label])
            if true is not None:
                truths[label] = true
            if target is None:
                continue
            # Where the curve meets it, if it does so among the epsilons asked for.
            finite = np.isfinite(found.epsilons)
            reached = found.errors[finite] <= target
            if reached.any() and not reached.all():
                needed[label] = epsilon_needed(one, X, y, error=target)
        return cls(
            curves, target=target, needed=needed, true_epsilons=truths,
            notes=differences(guarantees),
        ).plot(ax=ax)  # fmt: skip

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.

        Returns
        -------
        self : ExpectedErrorDisplay

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from sktensordp.mechanisms import LaplaceMechanism
        >>> from sktensordp.model_selection import expected_error
        >>> from sktensordp.plotting import ExpectedErrorDisplay
        >>> mechanism = LaplaceMechanism(bounds=(0, 1))
        >>> curve = expected_error(mechanism, np.zeros((1, 2, 2)), epsilons=[1, 4])
        >>> display = ExpectedErrorDisplay({"Laplace": curve})
        >>> display.plot(ax=Figure().subplots()).lines_[0].get_ydata().round(1)
        array([128.,   8.])
        """
        self._draw_curves(self.curves, ax)
        self.ax_.set_yscale("log")
        self._draw_target()
        self._label_epsilons([curve.epsilons for curve in self.curves.values()])
        self._label_errors()
        title = None if self.target is None else f"epsilon for {self.target:g}"
        self._draw_legend(self.lines_, title=title)
        return self

    def _draw_curve(self, label: str, line: str, marker: str) -> Any:
        curve = self.curves[label]
        points = np.stack([curve.epsilons, curve.errors])
        points = points[:, np.isfinite(curve.epsilons)]
        text, own = self._described(label, points), np.ones(points.shape[1], bool)
        if self.target is not None and label in self.needed:
            # The line goes through the mark, where it has no marker of its own.
            points = np.column_stack([points, (self.needed[label], self.target)])
            own = np.append(own, False)
        order = np.argsort(points[0])
        style = CLAIMED if label in self.true_epsilons else {"linestyle": line}
        (drawn,) = self.ax_.plot(
            *points[:, order], marker=marker, markersize=4, label=wrapped(text),
            markevery=np.flatnonzero(own[order]).tolist(), **style,
        )  # fmt: skip
        self._draw_without_noise(curve, drawn)
        return drawn

    def _described(self, label: str, points: NDArray[np.float64]) -> str:
        """Text of a curve in the legend, with the epsilon for the target."""
        truths = {}
        if label in self.true_epsilons:
            epsilons = self.curves[label].epsilons
            order = np.argsort(epsilons)[: np.isfinite(epsilons).sum()]
            truths[label] = np.asarray(self.true_epsilons[label], dtype=float)[order]
        text = legend_text(label, self.notes, truths)
        if self.target is None:
            return text
        if label in self.needed:
            return f"{text}: {shown(self.needed[label])}"
        if np.all(points[1] <= self.target):
            return f"{text}: below {shown(points[0].min())}"
        return f"{text}: above {shown_below(points[0].max())}"

    def _draw_target(self) -> None:
        if self.target is None:
            return
        ax, grey = self.ax_, {"color": "0.35"}
        ax.axhline(self.target, linestyle=REFERENCE_STYLES[1], linewidth=1.2, **grey)
        for epsilon in self.needed.values():
            ax.plot([epsilon] * 2, [0, self.target], linewidth=0.8, **grey)
            ax.plot(epsilon, self.target, "ko", fillstyle="none", markersize=9)

    def _draw_without_noise(self, curve: Any, drawn: Any) -> None:
        errors = curve.errors[np.isinf(curve.epsilons)]
        # Of mechanisms it is zero, and of some encoders the rounding of a zero, which
        # has no place on a logarithmic axis.
        if errors.size and errors[0] > _ROUNDING * curve.errors.max():
            style = {"color": drawn.get_color(), "linestyle": drawn.get_linestyle()}
            self.ax_.axhline(errors[0], linewidth=0.7, **style)

    def _label_errors(self) -> None:
        """Name the errors; plain numbers where they span less than a decade."""
        from matplotlib.ticker import AutoLocator, NullLocator, ScalarFormatter

        ax = self.ax_
        low, high = ax.get_ylim()
        if high < 10 * low:
            ax.yaxis.set_major_locator(AutoLocator())
            ax.yaxis.set_major_formatter(ScalarFormatter())
            ax.yaxis.set_minor_locator(NullLocator())
        ax.set_ylabel(next(iter(self.curves.values())).what)


def _planned(
    estimator: Any, sample_shape: tuple[int, ...], epsilons: NDArray[np.float64]
) -> list[PrivacyGuarantee | None]:
    """What a fit at each epsilon would guarantee; None where that is not known."""
    from sklearn.base import clone

    from ..model_selection._plan import fit_guarantee

    found: list[PrivacyGuarantee | None] = []
    for epsilon in epsilons.tolist():
        one = clone(estimator).set_params(epsilon=epsilon)
        try:
            found.append(fit_guarantee(one, sample_shape))
        except ValueError:
            found.append(None)
    return found
