"""Picture of the expected error over epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..privacy import PrivacyGuarantee
from ..privacy._numbers import shown, shown_below
from ._claims import check_labels, difference_notes, legend_text, true_epsilons
from ._curves import EpsilonsDisplay
from ._docs import with_shared_text
from ._style import AXIS_WIDTH, REFERENCE_STYLES, shade, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROUNDING = 1e-12


@with_shared_text
class ExpectedErrorDisplay(EpsilonsDisplay):
    """Expected errors over epsilon, one curve per estimator, and epsilons for a target.

    A curve whose epsilons are claimed but not true is drawn thin, dotted and grey with
    hollow markers, as by `PrivacyUtilityDisplay`.

    Parameters
    ----------
    curves : dict of str to ExpectedError
        Curves by label, all of one kind of error. The expected error at infinite
        epsilon is drawn as a horizontal line.
    target : float, default=None
        Target for the error, drawn as a horizontal line.
    needed : dict of str to float, default=None
        By label, the epsilon at which a curve meets the target. Leave out curves that
        do not meet it.
    true_epsilons : dict of str to array-like, default=None
        As for `PrivacyUtilityDisplay`: one for every epsilon of a curve.
    $notes

    Attributes
    ----------
    $axes
    lines_ : list of matplotlib Line2D
        One per curve.

    Raises
    ------
    ValueError
        If there is no curve, if the curves are of different kinds of error, or if
        `true_epsilons` does not match them.

    See Also
    --------
    PrivacyUtilityDisplay : Measured scores over epsilon.

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
                "Curves must show one kind of error; draw each kind on separate axes."
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
        n_users: int | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the expected errors of estimators, before they are fitted.

        The guarantees of the fits are computed too. A curve whose epsilons are claimed
        but not true, as with a published calibration, is drawn thin, dotted and grey.
        If curves differ in their unit, relation or delta, the legend says so.

        Parameters
        ----------
        estimator : estimator or dict of str to estimator
            As for ``expected_error``; or several by label, all with one kind of error.
        X, y : array-like
            As for ``expected_error``, which says what it reads of them.
        epsilons : array-like of shape (n_epsilons,)
            Positive; infinity draws the error without noise as a line.
        target : float, default=None
            Target for the error.
        n_users : int, default=None
            As for ``expected_error``.
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones by default.

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
        from ..model_selection._expected_error import step_that_releases

        if not isinstance(estimator, Mapping):
            estimator = {type(estimator).__name__: estimator}
        curves, needed, guarantees, truths = {}, {}, {}, {}
        for label, model in estimator.items():
            model, rows = step_that_releases(model, X, n_users)
            curves[label] = curve = expected_error(
                model, rows, y, epsilons=epsilons, n_users=n_users
            )
            shape = np.shape(rows)[1:]
            guarantees[label] = _fit_guarantees(model, shape, curve.epsilons)
            true = true_epsilons(curve.epsilons, guarantees[label])
            if true is not None:
                truths[label] = true
            if target is None:
                continue
            # Only if the curve meets the target within the range of `epsilons`.
            finite = np.isfinite(curve.epsilons)
            reached = curve.errors[finite] <= target
            if reached.any() and not reached.all():
                needed[label] = epsilon_needed(
                    model, rows, y, error=target, n_users=n_users
                )
        texts: dict[str, Any] = {"true_epsilons": truths}
        texts["notes"] = difference_notes(guarantees)
        return cls(curves, target=target, needed=needed, **texts).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the curves and the target.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones by default.

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
        title = None
        if self.target is not None:
            title = f"epsilon for an error of {self.target:g}"
        self._draw_legend(self.lines_, title=title)
        return self

    def _draw_curve(self, label: str, line: str, marker: str) -> Any:
        curve = self.curves[label]
        points = np.stack([curve.epsilons, curve.errors])
        points = points[:, np.isfinite(curve.epsilons)]
        text, has_marker = self._text(label, points), np.ones(points.shape[1], bool)
        if self.target is not None and label in self.needed:
            # The line passes through the target, which gets a circle and no marker.
            points = np.column_stack([points, (self.needed[label], self.target)])
            has_marker = np.append(has_marker, False)
        order = np.argsort(points[0])
        style = {"marker": marker, "markersize": 4, **self._line_style(label, line)}
        every = np.flatnonzero(has_marker[order]).tolist()
        (curve_line,) = self.ax_.plot(
            *points[:, order], label=wrapped(text), markevery=every, **style
        )
        self._draw_without_noise(curve, curve_line)
        return curve_line

    def _text(self, label: str, points: NDArray[np.float64]) -> str:
        """Legend text of a curve, with the epsilon for the target."""
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
        ax, grey, black = self.ax_, shade(self.ax_, 0.65), shade(self.ax_, 1.0)
        self._draw_level(self.target, REFERENCE_STYLES[1])
        for epsilon in self.needed.values():
            ax.plot([epsilon] * 2, [0, self.target], linewidth=0.8, color=grey)
            ring = {"markersize": 9, "fillstyle": "none", "color": black}
            ax.plot(epsilon, self.target, "o", **ring)

    def _draw_without_noise(self, curve: Any, line: Any) -> None:
        errors = curve.errors[np.isinf(curve.epsilons)]
        # The error of a mechanism is zero, and that of some encoders a rounded zero,
        # neither of which a logarithmic axis can show.
        if errors.size and errors[0] > _ROUNDING * curve.errors.max():
            style = {"color": line.get_color(), "linestyle": line.get_linestyle()}
            self.ax_.axhline(errors[0], linewidth=0.7, **style)

    def _label_errors(self) -> None:
        """Label the errors, with plain numbers if they span less than a decade."""
        from matplotlib.ticker import AutoLocator, NullLocator, ScalarFormatter

        ax = self.ax_
        low, high = ax.get_ylim()
        if high < 10 * low:
            ax.yaxis.set_major_locator(AutoLocator())
            ax.yaxis.set_major_formatter(ScalarFormatter())
            ax.yaxis.set_minor_locator(NullLocator())
        ax.set_ylabel(wrapped(next(iter(self.curves.values())).what, AXIS_WIDTH))


def _fit_guarantees(
    estimator: Any, sample_shape: tuple[int, ...], epsilons: NDArray[np.float64]
) -> list[PrivacyGuarantee | None]:
    """Guarantee of a fit at each epsilon; None where it is not known."""
    from sklearn.base import clone

    from ..model_selection._plan import fit_guarantee

    guarantees: list[PrivacyGuarantee | None] = []
    for epsilon in epsilons.tolist():
        model = clone(estimator).set_params(epsilon=epsilon)
        try:
            guarantees.append(fit_guarantee(model, sample_shape))
        except ValueError:
            guarantees.append(None)
    return guarantees
