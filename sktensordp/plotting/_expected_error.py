"""Picture of the expected error over epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..privacy._numbers import shown, shown_below
from ._claims import estimators_by_label, guarantee_of_candidate
from ._curves import EpsilonsDisplay
from ._docs import with_shared_text
from ._style import AXIS_WIDTH, REFERENCE_STYLES, shade, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..model_selection import ExpectedError

_ROUNDING = 1e-12


@with_shared_text
@dataclass(eq=False, repr=False)
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

    curves: Mapping[str, ExpectedError]
    _: KW_ONLY
    target: float | None = None
    needed: Mapping[str, float] | None = None
    true_epsilons: Mapping[str, ArrayLike] | None = None
    notes: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if len({curve.what for curve in self.curves.values()}) != 1:
            raise ValueError(
                "Curves must show one kind of error; draw each kind on separate axes."
            )
        super().__post_init__()

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

        curves, needed, guarantees = {}, {}, {}
        for label, model in estimators_by_label(estimator).items():
            model, rows = step_that_releases(model, X, n_users)
            curve = expected_error(model, rows, y, epsilons=epsilons, n_users=n_users)
            curves[label] = curve
            like = SimpleNamespace(sample_shape_=np.shape(rows)[1:])
            guarantees[label] = [
                guarantee_of_candidate(model, {"epsilon": epsilon}, like)
                for epsilon in curve.epsilons.tolist()
            ]
            if target is None:
                continue
            # Only if the curve meets the target within the range of `epsilons`.
            reached = curve.errors[np.isfinite(curve.epsilons)] <= target
            if reached.any() and not reached.all():
                needed[label] = epsilon_needed(
                    model, rows, y, error=target, n_users=n_users
                )
        display = cls(curves, target=target, needed=needed)
        return display._with_guarantees(guarantees).plot(ax=ax)

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
        title = None
        if self.target is not None:
            self._draw_target(self.target)
            title = f"epsilon for an error of {self.target:g}"
        self._label_epsilons()
        self._label_errors()
        self._draw_legend(self.lines_, title=title)
        return self

    def _epsilons(self, label: str) -> NDArray[np.float64]:
        return self.curves[label].epsilons

    def _draw_curve(self, label: str, line: str, marker: str) -> Any:
        curve, ax = self.curves[label], self.ax_
        is_finite = np.isfinite(curve.epsilons)
        x, y = curve.epsilons[is_finite], curve.errors[is_finite]
        has_marker = np.ones(len(x), dtype=bool)
        if self.target is not None and label in (needed := self.needed or {}):
            # The line passes through the target, which gets a circle and no marker.
            x, y = np.append(x, needed[label]), np.append(y, self.target)
            has_marker = np.append(has_marker, False)
        order = np.argsort(x)
        style = {"marker": marker, "markersize": 4, **self._style(label, line)}
        style["markevery"] = np.flatnonzero(has_marker[order]).tolist()
        text = wrapped(self._text(label))
        (drawn,) = ax.plot(x[order], y[order], label=text, **style)
        # The error of a mechanism without noise is zero, and that of some encoders a
        # rounded zero, neither of which a logarithmic axis can show.
        for error in curve.errors[~is_finite]:
            if error > _ROUNDING * curve.errors.max():
                style = {"color": drawn.get_color(), "linestyle": drawn.get_linestyle()}
                ax.axhline(error, linewidth=0.7, **style)
        return drawn

    def _text(self, label: str) -> str:
        """Legend text of a curve, with the epsilon for the target."""
        text = super()._text(label)
        if self.target is None:
            return text
        if label in (needed := self.needed or {}):
            return f"{text}: {shown(needed[label])}"
        curve = self.curves[label]
        is_finite = np.isfinite(curve.epsilons)
        if np.all(curve.errors[is_finite] <= self.target):
            return f"{text}: below {shown(curve.epsilons.min())}"
        return f"{text}: above {shown_below(curve.epsilons[is_finite].max())}"

    def _draw_target(self, target: float) -> None:
        ax, grey, black = self.ax_, shade(self.ax_, 0.65), shade(self.ax_, 1.0)
        self._draw_level(target, REFERENCE_STYLES[1])
        for epsilon in (self.needed or {}).values():
            ax.plot([epsilon] * 2, [0, target], linewidth=0.8, color=grey)
            ring = {"markersize": 9, "fillstyle": "none", "color": black}
            ax.plot(epsilon, target, "o", **ring)

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
