"""The whole of a guarantee as a picture: delta over epsilon, or the trade-off curve."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..privacy import PrivacyGuarantee, privacy_of
from ._privacy_utility import STYLES

__all__ = ["PrivacyProfileDisplay"]

_N_EPSILONS = 121
# The range of the axis of delta.
_LEAST_DELTA = 1e-12


class PrivacyProfileDisplay:
    """Delta over epsilon of guarantees, or the errors of a test that tells neighbours.

    Parameters
    ----------
    epsilons : array-like of shape (n,)
        Increasing, at least 0.
    deltas : dict of str to array-like of shape (n,)
        For every label, the delta that holds at each epsilon.
    claimed : dict of str to (float, float), default=None
        Claims that differ from what is true: epsilon and delta.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of the axes.
    lines_ : list of matplotlib Line2D
        One a curve.

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
    ) -> None:
        self.epsilons = epsilons
        self.deltas = deltas
        self.claimed = claimed

    @classmethod
    def from_guarantee(
        cls,
        guarantee: PrivacyGuarantee | Mapping[str, PrivacyGuarantee],
        *,
        epsilons: ArrayLike | None = None,
        kind: str = "profile",
        ax: Any = None,
    ) -> Self:
        """Draw guarantees.

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
        return cls(grid, deltas, claimed=claimed).plot(kind=kind, ax=ax)

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
        """
        named = (
            estimator
            if isinstance(estimator, Mapping)
            else {type(estimator).__name__: estimator}
        )
        found = {label: privacy_of(one).guarantee for label, one in named.items()}
        return cls.from_guarantee(found, epsilons=epsilons, kind=kind, ax=ax)

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
        """
        if kind not in ("profile", "tradeoff"):
            raise ValueError(f"kind must be 'profile' or 'tradeoff', got {kind!r}.")
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots()
        self.ax_, self.figure_ = ax, ax.figure
        self.lines_: list[Any] = []
        draw = self._draw_profile if kind == "profile" else self._draw_tradeoff
        for number, label in enumerate(self.deltas):
            draw(label, np.asarray(self.deltas[label], dtype=float), number)
        if kind == "profile":
            ax.set_yscale("log")
            ax.set_ylim(_LEAST_DELTA, 2.0)
            ax.set_xlabel("epsilon")
            ax.set_ylabel("delta")
        else:
            ax.plot([0, 1], [1, 0], color="0.6", linewidth=1, label="nothing revealed")
            ax.set_xlabel("type I error")
            ax.set_ylabel("least type II error")
        ax.legend()
        return self

    def _draw(self, x, y, label, number):
        line, marker = STYLES[number % len(STYLES)]
        every = max(len(x) // 8, 1)
        (drawn,) = self.ax_.plot(
            x, y, linestyle=line, marker=marker, markevery=(number % every, every),
            label=label,
        )  # fmt: skip
        self.lines_.append(drawn)

    def _draw_profile(self, label, deltas, number):
        shown = np.where(deltas > 0, deltas, np.nan)
        self._draw(np.asarray(self.epsilons, dtype=float), shown, label, number)
        if label in (self.claimed or {}):
            epsilon, delta = self.claimed[label]
            self.ax_.plot(
                epsilon, max(delta, _LEAST_DELTA), linestyle="none", marker="*",
                markersize=12, color="black", clip_on=False, zorder=5,
                label=f"{label}: claimed",
            )  # fmt: skip

    def _draw_tradeoff(self, label, deltas, number):
        alpha = np.linspace(0.0, 1.0, 201)
        curve = trade_off(np.asarray(self.epsilons, dtype=float), deltas, alpha)
        self._draw(alpha, curve, label, number)


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
