"""Picture of a whole guarantee: delta over epsilon, or the trade-off curve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..privacy import PrivacyGuarantee
from ..privacy._numbers import shown
from ._claims import by_label, difference_notes, guarantees_of, legend_text
from ._curves import CurvesDisplay
from ._docs import with_shared_text
from ._style import claimed_style, shade, wrapped

_N_EPSILONS = 121
# Lower end of the axis of delta.
_LEAST_DELTA = 1e-12
# Stands for zero on the logarithmic axis.
_NEARLY_ZERO = 1e-300


@with_shared_text
class PrivacyProfileDisplay(CurvesDisplay):
    """Delta over epsilon of guarantees, or errors of tests that tell neighbours apart.

    Parameters
    ----------
    epsilons : array-like of shape (n,)
        Increasing, at least 0.
    deltas : dict of str to array-like of shape (n,)
        By label, the true delta at each epsilon.
    $claimed
    $notes

    Attributes
    ----------
    $axes
    lines_ : list of matplotlib Line2D
        One true curve per label.
    claims_ : dict of str to matplotlib Line2D
        By label, the claim: a point in the profile, or a trade-off curve.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism
    >>> from sktensordp.plotting import PrivacyProfileDisplay
    >>> X = np.zeros((2, 3))
    >>> display = PrivacyProfileDisplay.from_estimator({
    ...     "Laplace": LaplaceMechanism(1.0, bounds=(0, 1)).fit(X),
    ...     "Gaussian": GaussianMechanism(1.0, delta=1e-5, bounds=(0, 1)).fit(X)})
    >>> sorted(display.deltas)
    ['Gaussian', 'Laplace']
    """

    def __init__(
        self,
        epsilons: ArrayLike,
        deltas: Mapping[str, ArrayLike],
        *,
        claimed: Mapping[str, tuple[float, float]] | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        self.epsilons = epsilons
        self.deltas = deltas
        self.claimed = dict(claimed or {})
        self.notes = dict(notes or {})

    @classmethod
    def from_guarantee(
        cls,
        guarantee: PrivacyGuarantee | Mapping[str, PrivacyGuarantee],
        *,
        epsilons: ArrayLike | None = None,
        kind: str = "profile",
        ax: Any = None,
    ) -> Self:
        """Draw guarantees. If they protect different units, the legend says so.

        Parameters
        ----------
        guarantee : PrivacyGuarantee or dict of str to PrivacyGuarantee
            One guarantee, or several by label.
        epsilons : array-like, default=None
            Epsilons at which to compute delta; by default from 0 to 1.5 times the
            largest epsilon stated or claimed.
        kind : {"profile", "tradeoff"}, default="profile"
            As in `plot`.
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones by default.

        Returns
        -------
        display : PrivacyProfileDisplay

        Examples
        --------
        >>> from dp_accounting import dp_event
        >>> from matplotlib.figure import Figure
        >>> from sktensordp.plotting import PrivacyProfileDisplay
        >>> from sktensordp.privacy import PrivacyGuarantee
        >>> half = PrivacyGuarantee.of(
        ...     dp_event.LaplaceDpEvent(0.5), unit="sample", source="none",
        ...     statement="Half of the noise.", claimed=(1.0, 0.0))
        >>> display = PrivacyProfileDisplay.from_guarantee(
        ...     {"half": half}, epsilons=[0.0, 1.0, 2.0], ax=Figure().subplots())
        >>> display.deltas["half"].round(2)
        array([0.63, 0.39, 0.  ])
        >>> display.claims_["half"].get_label()
        'half: claimed (1, 0)'
        """
        guarantees = by_label(guarantee)
        if epsilons is None:
            stated = [g.epsilon for g in guarantees.values() if g.protects]
            stated += [g.claimed[0] for g in guarantees.values() if g.claimed]
            epsilons = np.linspace(0.0, 1.5 * max(stated, default=1.0), _N_EPSILONS)
        grid = np.asarray(epsilons, dtype=float)
        deltas = {
            label: np.array([g.delta_at(e) for e in grid])
            for label, g in guarantees.items()
        }
        claimed = {label: g.claimed for label, g in guarantees.items() if g.claimed}
        lists = {label: [g] for label, g in guarantees.items()}
        notes = difference_notes(lists, at_delta=False)
        return cls(grid, deltas, claimed=claimed, notes=notes).plot(kind=kind, ax=ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        epsilons: ArrayLike | None = None,
        kind: str = "profile",
        ax: Any = None,
    ) -> Self:
        """Draw the total guarantees of fitted estimators, pipelines or searches.

        Parameters
        ----------
        estimator : estimator or dict of str to estimator
            Anything fitted that `privacy_of` takes.
        epsilons, kind, ax
            As in `from_guarantee`.

        Returns
        -------
        display : PrivacyProfileDisplay

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from sktensordp.mechanisms import LaplaceMechanism
        >>> from sktensordp.plotting import PrivacyProfileDisplay
        >>> display = PrivacyProfileDisplay.from_estimator(
        ...     LaplaceMechanism(1.0, bounds=(0, 1)).fit(np.zeros((2, 3))),
        ...     kind="tradeoff", ax=Figure().subplots())
        >>> display.ax_.get_ylabel()
        'smallest type II error of any test'
        """
        guarantees = guarantees_of(estimator)
        return cls.from_guarantee(guarantees, epsilons=epsilons, kind=kind, ax=ax)

    claims_: dict[str, Any]
    # State of the plot while it is being drawn.
    _kind: str
    _handles: list[Any]

    def plot(self, *, kind: str = "profile", ax: Any = None) -> Self:
        """Draw the curves and the claims.

        Parameters
        ----------
        kind : {"profile", "tradeoff"}, default="profile"
            "profile" draws delta over epsilon. "tradeoff" draws the smallest type II
            error over the type I error, of any test that tells two neighbours apart.
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones by default.

        Returns
        -------
        self : PrivacyProfileDisplay

        Raises
        ------
        ValueError
            If `kind` is neither.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from sktensordp.plotting import PrivacyProfileDisplay
        >>> display = PrivacyProfileDisplay([0.0, 1.0, 2.0], {"one": [0.5, 0.1, 0.0]})
        >>> display.plot(ax=Figure().subplots()).ax_.get_xlabel()
        'epsilon'
        """
        if kind not in ("profile", "tradeoff"):
            raise ValueError(f"kind must be 'profile' or 'tradeoff', got {kind!r}.")
        self._kind, self._handles, self.claims_ = kind, [], {}
        self._draw_curves(self.deltas, ax)
        ax, handles = self.ax_, self._handles
        if kind == "profile":
            ax.set(xlabel="epsilon", ylabel="delta", yscale="log")
            ax.set_ylim(_LEAST_DELTA, 2.0)
        else:
            ax.set(xlabel="type I error", ylabel="smallest type II error of any test")
            handles += ax.plot(
                [0, 1],
                [1, 0],
                color=shade(ax, 0.4),
                linewidth=1,
                label="nothing revealed",
            )
        self._draw_legend(handles)
        return self

    def _draw_curve(self, label: str, line: str, marker: str) -> Any:
        """Draw the true curve and the claim, if any; return the true curve."""
        draw = self._draw_profile if self._kind == "profile" else self._draw_tradeoff
        lines = draw(label, line, marker, 0.03 * (len(self.lines_) % 4))
        if label in self.claimed:
            self.claims_[label] = lines[1]
        self._handles += lines
        return lines[0]

    def _draw_profile(
        self, label: str, line: str, marker: str, start: float
    ) -> list[Any]:
        deltas = np.maximum(np.asarray(self.deltas[label], dtype=float), _NEARLY_ZERO)
        lines = self._draw_line(
            self.epsilons,
            deltas,
            start,
            linestyle=line,
            marker=marker,
            label=self._text(label),
        )
        if label in self.claimed:
            epsilon, delta = self.claimed[label]
            lines += self.ax_.plot(
                epsilon,
                max(delta, _LEAST_DELTA),
                marker=marker,
                markersize=12,
                clip_on=False,
                zorder=6,
                label=self._claim_text(label),
                **{**claimed_style(self.ax_), "linestyle": "none"},
            )
        return lines

    def _draw_tradeoff(
        self, label: str, line: str, marker: str, start: float
    ) -> list[Any]:
        alpha = np.linspace(0.0, 1.0, 201)
        deltas = np.asarray(self.deltas[label], dtype=float)
        curve = trade_off(np.asarray(self.epsilons, dtype=float), deltas, alpha)
        lines = self._draw_line(
            alpha, curve, start, linestyle=line, marker=marker, label=self._text(label)
        )
        if label in self.claimed:
            epsilon, delta = np.array(self.claimed[label])[:, np.newaxis]
            claim = trade_off(epsilon, delta, alpha)
            lines += self._draw_line(
                alpha,
                claim,
                start,
                marker=marker,
                label=self._claim_text(label),
                **claimed_style(self.ax_),
            )
        return lines

    def _draw_line(
        self, x: ArrayLike, y: ArrayLike, start: float, **style: Any
    ) -> list[Any]:
        """Draw a line with markers at equal distances along it."""
        return self.ax_.plot(x, y, markevery=(start, 0.12), **style)

    def _text(self, label: str) -> str:
        return wrapped(legend_text(label, self.notes, {}))

    def _claim_text(self, label: str) -> str:
        epsilon, delta = self.claimed[label]
        return wrapped(f"{label}: claimed ({shown(epsilon)}, {shown(delta)})")


def trade_off(
    epsilons: NDArray[np.float64],
    deltas: NDArray[np.float64],
    alpha: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Smallest type II error at each type I error `alpha`, over all tests.

    Dong, Roth and Su (2022), Proposition 2.13: the highest of the lines 1 - delta -
    e^epsilon alpha and e^-epsilon (1 - delta - alpha). The two kinds of lines belong
    to the two orders of the neighbours.
    """
    power_left = 1 - deltas[:, np.newaxis]
    factor = np.exp(np.minimum(epsilons, 700.0))[:, np.newaxis]
    lines = np.maximum(power_left - factor * alpha, (power_left - alpha) / factor)
    return np.clip(lines.max(axis=0), 0.0, 1.0)
