"""Picture of what attackers guessed about people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._extras import imported
from ._style import shade, wrapped

if TYPE_CHECKING:
    from ..audit import Attack, AttackReport

_N_BINS = 20
_ATTACKERS = ("account", "insider")


class GuessesDisplay:
    """How well attackers told who was in the data, for one or more recommenders.

    A histogram for each report shows the ranks of the attacker's scores, for canaries
    that were in the data and for those that were left out. If nothing leaks, both are
    flat and alike. The last panel shows the share of right guesses of both attackers,
    beside that of a coin.

    Parameters
    ----------
    reports : dict of str to AttackReport
        Reports of `audit_recommender` or `audit_training`, by label.
    attacker : {"account", "insider"}, default="account"
        Whose scores the histograms show.

    Attributes
    ----------
    axes_ : ndarray of shape (n_reports + 1,), matplotlib Axes
        Axes of the histograms, then those of the guesses.
    figure_ : matplotlib Figure
        Figure of the axes.

    See Also
    --------
    AuditDisplay : Lower bounds beside claims.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sktensordp.audit import audit_training
    >>> from sktensordp.plotting import GuessesDisplay
    >>> X, y = load_digits(n_class=4, return_X_y=True)
    >>> report = audit_training(
    ...     KNeighborsClassifier(1), X, y, n_canaries=100, random_state=0)
    >>> display = GuessesDisplay({"nearest neighbour": report}).plot()
    >>> display.axes_.shape
    (2,)
    """

    def __init__(
        self, reports: Mapping[str, AttackReport], *, attacker: str = "account"
    ) -> None:
        if not isinstance(reports, Mapping) or not reports:
            raise ValueError(
                "reports must be a dict with at least one report, by label."
            )
        if attacker not in _ATTACKERS:
            raise ValueError(
                f"attacker must be one of {list(_ATTACKERS)}, got {attacker!r}."
            )
        self.reports, self.attacker = reports, attacker

    def plot(self, axes: Sequence[Any] | None = None) -> Self:
        """Draw the histograms and the right guesses.

        Parameters
        ----------
        axes : array-like of shape (n_reports + 1,), matplotlib Axes, default=None
            Axes to draw on; those of a new figure by default.

        Returns
        -------
        self : GuessesDisplay
        """
        n = len(self.reports) + 1
        if axes is None:
            plt = imported("matplotlib.pyplot", "plot")
            size = (2.8 * n, 3.0)
            axes = plt.subplots(1, n, figsize=size, layout="constrained")[1]
        self.axes_ = np.asarray(axes, dtype=object).ravel()
        if len(self.axes_) != n:
            raise ValueError(
                f"axes must hold {n} axes, one for each report and one for the "
                f"guesses; got {len(self.axes_)}."
            )
        self.figure_ = self.axes_[0].figure
        panels = zip(self.axes_, self.reports.items(), strict=False)
        for place, (ax, (label, report)) in enumerate(panels):
            self._draw_ranks(ax, getattr(report, self.attacker))
            ax.set_title(wrapped(label, 24), fontsize="medium")
            if place == 0:
                ax.set_ylabel("canaries")
                ax.legend(frameon=False, fontsize="small", loc="upper center")
        self._draw_guesses(self.axes_[-1])
        return self

    def _draw_ranks(self, ax: Any, attack: Attack) -> None:
        n = attack.n_canaries
        ranks = np.argsort(np.argsort(attack.scores, kind="stable")) / n
        bins = np.linspace(0, 1, _N_BINS + 1)
        out, inside = ranks[~attack.bits], ranks[attack.bits]
        ax.hist(out, bins, color=shade(ax, 0.25), label="left out")
        ax.hist(inside, bins, histtype="step", color="C3", lw=1.8, label="in the data")
        top = 1.45 * max(np.histogram(r, bins)[0].max() for r in (out, inside))
        ax.set(xlabel="rank of the attacker's score", xlim=(0, 1), ylim=(0, top))

    def _draw_guesses(self, ax: Any) -> None:
        rows = np.arange(len(self.reports))
        for offset, name, strength in ((-0.2, "account", 0.25), (0.2, "insider", 0.7)):
            attacks = [getattr(report, name) for report in self.reports.values()]
            shares = [100 * attack.n_right / attack.n_guesses for attack in attacks]
            color = shade(ax, strength)
            bars = ax.barh(rows + offset, shares, 0.36, color=color, label=name)
            texts = [f"{attack.n_right} of {attack.n_guesses}" for attack in attacks]
            ax.bar_label(bars, texts, padding=3, fontsize="small")
        coin = ax.axvline(50, color=shade(ax, 1.0), linestyle=":", label="a coin")
        ax.set_yticks(rows, labels=[wrapped(label, 20) for label in self.reports])
        ax.invert_yaxis()
        ax.set(xlim=(0, 140), xticks=[0, 50, 100], xlabel="right guesses (%)")
        handles = [*ax.containers, coin]
        above: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}
        ax.legend(handles=handles, frameon=False, fontsize="small", ncols=3, **above)
