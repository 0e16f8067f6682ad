"""The whole of a guarantee as a picture: delta over epsilon, or the trade-off curve."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..privacy import PrivacyGuarantee, privacy_of
from ..privacy._numbers import shown
from ._claims import differences, legend_text
from ._curves import CurvesDisplay
from ._style import CLAIMED, wrapped

__all__ = ["PrivacyProfileDisplay"]

_N_EPSILONS = 121
# The range of the axis of delta.
_LEAST_DELTA = 1e-12
_NEXT_TO_ZERO = 1e-300


class PrivacyProfileDisplay(CurvesDisplay):
    """Delta over epsilon of guarantees, or the errors of a test that tells neighbours.

    Parameters
    ----------
    epsilons : array-like of shape (n,)
        Increasing, at least 0.
    deltas : dict of str to array-like of shape (n,)
        For every label, the delta that holds at each epsilon.
    claimed : dict of str to (float, float), default=None
        Claims that differ from what is true: epsilon and delta. They are thin, dotted
        and grey with hollow markers, beside the curve that is true.
    notes : dict of str to str, default=None
        What else the legend says of curves, by label.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of the axes.
    lines_ : list of matplotlib Line2D
        One a curve, of what is true.
    claims_ : dict of str to matplotlib Line2D
        By label, what is claimed: a point of the profile, or a trade-off.

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
        """Draw guarantees; where they protect different things, the legend says so.

        Parameters
        ----------
        guarantee : PrivacyGuarantee or dict of str to PrivacyGuarantee
            One, or one for every label.
        epsilons : array-like, default=None
            Where to ask for delta; by default from 0 to beyond every epsilon stated.
        kind : {"profile", "tradeoff"}, default="profile"
            As in `plot`.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.

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
        found = (
            {"guarantee": guarantee}
            if isinstance(guarantee, PrivacyGuarantee)
            else dict(guarantee)
        )
        if epsilons is None:
            stated = [g.epsilon for g in found.values() if g.protects]
            stated += [g.claimed[0] for g in found.values() if g.claimed]
            epsilons = np.linspace(0.0, 1.5 * max(stated, default=1.0), _N_EPSILONS)
        grid = np.asarray(epsilons, dtype=float)
        deltas = {
            label: np.array([g.delta_at(e) for e in grid]) for label, g in found.items()
        }
        claimed = {label: g.claimed for label, g in found.items() if g.claimed}
        notes = differences({k: [g] for k, g in found.items()}, at_delta=False)
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
        """Draw what fitted estimators, pipelines or searches reveal in all.

        Parameters
        ----------
        estimator : estimator or dict of str to estimator
            Fitted; what `privacy_of` takes.
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
        'least type II error'
        """
        named = (
            estimator
            if isinstance(estimator, Mapping)
            else {type(estimator).__name__: estimator}
        )
        found = {label: privacy_of(one).guarantee for label, one in named.items()}
        return cls.from_guarantee(found, epsilons=epsilons, kind=kind, ax=ax)

    claims_: dict[str, Any]
    # Of the plot that is being drawn.
    _kind: str
    _handles: list[Any]

    def plot(self, *, kind: str = "profile", ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        kind : {"profile", "tradeoff"}, default="profile"
            Delta over epsilon; or the least type II error over the type I error of
            any test that tells one of two neighbours from the other.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.

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
            ax.set(xlabel="type I error", ylabel="least type II error")
            handles += ax.plot(
                [0, 1], [1, 0], color="0.6", linewidth=1, label="nothing revealed"
            )
        self._draw_legend(handles)
        return self

    def _draw_curve(self, label: str, line: str, marker: str) -> Any:
        """Draw what is true, and what is claimed; the first of these."""
        draw = self._draw_profile if self._kind == "profile" else self._draw_tradeoff
        found = draw(label, line, marker, 0.03 * (len(self.lines_) % 4))
        if label in self.claimed:
            self.claims_[label] = found[1]
        self._handles += found
        return found[0]

    def _draw_profile(
        self, label: str, line: str, marker: str, start: float
    ) -> list[Any]:
        # Zero is far below the axis.
        deltas = np.maximum(np.asarray(self.deltas[label], dtype=float), _NEXT_TO_ZERO)
        drawn = self._draw(
            self.epsilons, deltas, start, linestyle=line, marker=marker,
            label=self._text(label),
        )  # fmt: skip
        if label in self.claimed:
            epsilon, delta = self.claimed[label]
            drawn += self.ax_.plot(
                epsilon, max(delta, _LEAST_DELTA), marker=marker, markersize=12,
                clip_on=False, zorder=6, label=self._claim_text(label),
                **{**CLAIMED, "linestyle": "none"},
            )  # fmt: skip
        return drawn

    def _draw_tradeoff(
        self, label: str, line: str, marker: str, start: float
    ) -> list[Any]:
        alpha = np.linspace(0.0, 1.0, 201)
        deltas = np.asarray(self.deltas[label], dtype=float)
        curve = trade_off(np.asarray(self.epsilons, dtype=float), deltas, alpha)
        drawn = self._draw(
            alpha, curve, start, linestyle=line, marker=marker, label=self._text(label)
        )
        if label in self.claimed:
            epsilon, delta = np.array(self.claimed[label])[:, np.newaxis]
            claim = trade_off(epsilon, delta, alpha)
            drawn += self._draw(
                alpha, claim, start, marker=marker, label=self._claim_text(label),
                **CLAIMED,
            )  # fmt: skip
        return drawn

    def _draw(
        self, x: ArrayLike, y: ArrayLike, start: float, **style: Any
    ) -> list[Any]:
        """A line with markers at equal distances, in shares of the axes' diagonal."""
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
    """Least type II error at type I errors, of all tests that the deltas allow.

    Dong, Roth and Su (2022), Proposition 2.13: the highest of the lines 1 - delta -
    e^epsilon alpha and e^-epsilon (1 - delta - alpha), for both orders.
    """
    beyond = 1 - deltas[:, np.newaxis]
    factor = np.exp(np.minimum(epsilons, 700.0))[:, np.newaxis]
    lines = np.maximum(beyond - factor * alpha, (beyond - alpha) / factor)
    return np.clip(lines.max(axis=0), 0.0, 1.0)
