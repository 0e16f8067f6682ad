"""Pictures of guarantees: their curves, attackers' success, and audits of claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import BaseEstimator

from ..privacy import PrivacyGuarantee, privacy_of
from ..privacy._guarantee import check_guarantee
from ..privacy._numbers import shown
from ..privacy._risk import trade_off
from . import _style
from ._curves import CurvesDisplay, difference_notes, estimators_by_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Lower end of a logarithmic axis of delta.
_LEAST_DELTA = 1e-12
# Where curves are drawn: type I errors or false positive rates, and priors.
_ALPHAS = np.linspace(0.0, 1.0, 201)
_PRIORS = np.linspace(0.01, 0.99, 99)
# Epsilons whose lines bound the true positive rate.
_EPSILONS = np.concatenate([[0.0], np.geomspace(1e-4, 600.0, 400)])
# Style of a claim that is a single point.
_POINT = {"linestyle": "none", "markersize": 12, "markevery": None}
_POINT |= {"clip_on": False, "zorder": 6}

_Points = tuple[ArrayLike, ArrayLike]
_Guarantees = PrivacyGuarantee | Mapping[str, PrivacyGuarantee]


class GuaranteesDisplay(CurvesDisplay):
    """Base of displays of whole guarantees: true curves, with claims next to them.

    A subclass computes the points of true curves and of claims.
    """

    claimed: Mapping[str, tuple[float, float]] | None
    claims_: dict[str, Any]
    # By kind of picture: labels of the axes, and of the line for a release that reveals
    # nothing.
    _labels: ClassVar[dict[str, tuple[str, str]]]
    _nothing: ClassVar[dict[str, str]]
    # Draws guarantees.
    from_guarantee: ClassVar[Callable[..., Any]]
    # Points of a true curve, and of the worst release that satisfies a claim.
    _truth: Callable[[str], _Points]
    _claim: Callable[[float, float], _Points]

    @classmethod
    def from_estimator(cls, estimator: BaseEstimator, **options: object) -> Self:
        """Draw the total guarantees of fitted estimators, pipelines or searches.

        Parameters
        ----------
        estimator : estimator or dict of str to estimator
            Anything fitted that `privacy_of` takes.
        **options
            As in `from_guarantee`.

        Returns
        -------
        display : object

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from sktensordp.mechanisms import LaplaceMechanism
        >>> from sktensordp.plotting import AttackRiskDisplay, PrivacyProfileDisplay
        >>> mechanism = LaplaceMechanism(1.0, bounds=(0, 1)).fit(np.zeros((2, 3)))
        >>> display = AttackRiskDisplay.from_estimator(
        ...     mechanism, ax=Figure().subplots())
        >>> display.ax_.get_ylabel()
        'largest true positive rate'
        >>> display = PrivacyProfileDisplay.from_estimator(
        ...     mechanism, kind="tradeoff", ax=Figure().subplots())
        >>> display.ax_.get_ylabel()
        'smallest type II error of any test'
        """
        fitted = estimators_by_label(estimator)
        guarantees = {label: privacy_of(one).guarantee for label, one in fitted.items()}
        return cls.from_guarantee(guarantees, **options)

    def _draw(self, labels: Iterable[str], kind: str, ax: Axes | None) -> Self:
        """Draw a picture: curves, claims, and the line that reveals nothing."""
        if kind not in self._labels:
            kinds = " or ".join(map(repr, self._labels))
            raise ValueError(f"kind must be {kinds}, got {kind!r}.")
        self._kind, self.claims_, handles = kind, {}, []
        for number, (label, style) in enumerate(self._start(labels, ax, None).items()):
            style["markevery"] = 0.03 * (number % 4), 0.12
            self.lines_ += self.ax_.plot(*self._truth(label), **style)
            handles.append(self.lines_[-1])
            if label in (claimed := self.claimed or {}):
                epsilon, delta = claimed[label]
                text = f"{label}: claimed ({shown(epsilon)}, {shown(delta)})"
                x, y = self._claim(epsilon, delta)
                style["label"] = _style.wrapped(text)
                style |= _style.claimed_style(self.ax_)
                style |= _POINT if np.size(x) == 1 else {}
                (self.claims_[label],) = self.ax_.plot(x, y, **style)
                handles.append(self.claims_[label])
        x_label, y_label = self._labels[kind]
        self.ax_.set(xlabel=x_label, ylabel=y_label)
        if nothing := self._nothing.get(kind):
            grey = _style.shade(self.ax_, 0.4)
            style = {"color": grey, "linewidth": 1, "label": nothing}
            handles += self.ax_.plot(*self._claim(0.0, 0.0), **style)
        else:
            self.ax_.set(yscale="log", ylim=(_LEAST_DELTA, 2.0))
        _style.place_legend(self.ax_, handles, may_grow=ax is None)
        return self


@_style.with_shared_text
@dataclass(eq=False, repr=False)
class PrivacyProfileDisplay(GuaranteesDisplay):
    """Delta over epsilon of guarantees, or errors of tests that distinguish neighbours.

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

    epsilons: ArrayLike
    deltas: Mapping[str, ArrayLike]
    _: KW_ONLY
    claimed: Mapping[str, tuple[float, float]] | None = None
    notes: Mapping[str, str] | None = None

    _labels: ClassVar = {
        "profile": ("epsilon", "delta"),
        "tradeoff": ("type I error", "smallest type II error of any test"),
    }
    _nothing: ClassVar = {"tradeoff": "nothing revealed"}

    @classmethod
    def from_guarantee(
        cls,
        guarantee: _Guarantees,
        *,
        epsilons: ArrayLike | None = None,
        kind: str = "profile",
        ax: Axes | None = None,
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
        >>> half = PrivacyGuarantee.from_event(
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
            epsilons = np.linspace(0.0, 1.5 * max(stated, default=1.0), 121)
        grid = np.asarray(epsilons, dtype=float)
        deltas = {
            label: np.array([g.delta_at(e) for e in grid])
            for label, g in guarantees.items()
        }
        display = cls(grid, deltas, **claims_and_notes(guarantees))
        return display.plot(kind=kind, ax=ax)

    def plot(self, *, kind: str = "profile", ax: Axes | None = None) -> Self:
        """Draw the curves and the claims.

        Parameters
        ----------
        kind : {"profile", "tradeoff"}, default="profile"
            "profile" draws delta over epsilon. "tradeoff" draws the smallest type II
            error over the type I error, of any test that distinguishes two neighbours.
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
        return self._draw(self.deltas, kind, ax)

    def _truth(self, label: str) -> _Points:
        if self._kind == "profile":
            # Zero cannot be shown on a logarithmic axis.
            return self.epsilons, np.maximum(self.deltas[label], 1e-300)
        return _ALPHAS, trade_off(self.epsilons, self.deltas[label], _ALPHAS)

    def _claim(self, epsilon: float, delta: float) -> _Points:
        if self._kind == "profile":
            return [epsilon], [max(delta, _LEAST_DELTA)]
        return _ALPHAS, trade_off(epsilon, delta, _ALPHAS)


@_style.with_shared_text
@dataclass(eq=False, repr=False)
class AttackRiskDisplay(GuaranteesDisplay):
    """What an attacker can achieve: true positives, or right guesses.

    The attacker knows all the rest of the data and tests a suspicion about one unit.

    Parameters
    ----------
    fprs : array-like of shape (n_rates,)
        False positive rates, increasing.
    tprs : dict of str to array-like of shape (n_rates,)
        By label, the largest true positive rate at each false positive rate.
    priors : array-like of shape (n_priors,)
        Probabilities of the suspicion before the release, increasing.
    accuracies : dict of str to array-like of shape (n_priors,)
        By label, the largest probability of a right guess at each of `priors`.
    $claimed
    $notes

    Attributes
    ----------
    $axes
    lines_ : list of matplotlib Line2D
        One true curve per label.
    claims_ : dict of str to matplotlib Line2D
        By label, the curve of the worst mechanism that satisfies the claim.

    See Also
    --------
    PrivacyProfileDisplay : Delta over epsilon, and trade-off curves.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism
    >>> from sktensordp.plotting import AttackRiskDisplay
    >>> X = np.zeros((2, 3))
    >>> display = AttackRiskDisplay.from_estimator({
    ...     "Laplace": LaplaceMechanism(1.0, bounds=(0, 1)).fit(X),
    ...     "Gaussian": GaussianMechanism(1.0, delta=1e-5, bounds=(0, 1)).fit(X)})
    >>> {label: tpr[20].round(2) for label, tpr in display.tprs.items()}
    {'Laplace': np.float64(0.23), 'Gaussian': np.float64(0.16)}
    """

    fprs: ArrayLike
    tprs: Mapping[str, ArrayLike]
    priors: ArrayLike
    accuracies: Mapping[str, ArrayLike]
    _: KW_ONLY
    claimed: Mapping[str, tuple[float, float]] | None = None
    notes: Mapping[str, str] | None = None

    _labels: ClassVar = {
        "tpr": ("false positive rate", "largest true positive rate"),
        "accuracy": (
            "probability of the suspicion before the release",
            "largest probability of a right guess",
        ),
    }
    _nothing: ClassVar = {"tpr": "guessing", "accuracy": "without the release"}

    @classmethod
    def from_guarantee(
        cls,
        guarantee: _Guarantees,
        *,
        kind: str = "tpr",
        ax: Axes | None = None,
    ) -> Self:
        """Draw guarantees. If they protect different units, the legend says so.

        Parameters
        ----------
        guarantee : PrivacyGuarantee or dict of str to PrivacyGuarantee
            One guarantee, or several by label.
        kind : {"tpr", "accuracy"}, default="tpr"
            As in `plot`.
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones by default.

        Returns
        -------
        display : AttackRiskDisplay

        Examples
        --------
        >>> from dp_accounting import dp_event
        >>> from matplotlib.figure import Figure
        >>> from sktensordp.plotting import AttackRiskDisplay
        >>> from sktensordp.privacy import PrivacyGuarantee
        >>> person = PrivacyGuarantee.from_event(
        ...     dp_event.GaussianDpEvent(2.0), delta=1e-5, unit=0, source="none",
        ...     statement="A release.", relation="add-or-remove")
        >>> display = AttackRiskDisplay.from_guarantee(
        ...     {"a person": person, "a household": person.for_group(4)},
        ...     kind="accuracy", ax=Figure().subplots())
        >>> display.accuracies["a household"][49].round(2)
        np.float64(0.84)
        """
        guarantees, tprs, accuracies = by_label(guarantee), {}, {}
        for label, g in guarantees.items():
            # At the epsilon of a pure guarantee, the curve has a corner.
            epsilons = np.append(_EPSILONS, min(g.epsilon_at(0.0), _EPSILONS[-1]))
            deltas = np.array([g.delta_at(e) for e in epsilons.tolist()])
            tprs[label] = 1 - trade_off(epsilons, deltas, _ALPHAS)
            accuracies[label] = np.array([g.max_accuracy(p) for p in _PRIORS.tolist()])
        claims = claims_and_notes(guarantees)
        return cls(_ALPHAS, tprs, _PRIORS, accuracies, **claims).plot(kind=kind, ax=ax)

    def plot(self, *, kind: str = "tpr", ax: Axes | None = None) -> Self:
        """Draw the curves and the claims.

        Parameters
        ----------
        kind : {"tpr", "accuracy"}, default="tpr"
            "tpr" draws the largest true positive rate over the false positive rate, of
            any test of the suspicion. "accuracy" draws the largest probability of a
            right guess over the probability of the suspicion before the release.
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones by default.

        Returns
        -------
        self : AttackRiskDisplay

        Raises
        ------
        ValueError
            If `kind` is neither.

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from sktensordp.plotting import AttackRiskDisplay
        >>> display = AttackRiskDisplay(
        ...     [0.0, 1.0], {"one": [0.1, 1.0]}, [0.1, 0.5], {"one": [0.9, 0.6]})
        >>> display.plot(kind="accuracy", ax=Figure().subplots()).ax_.get_ylabel()
        'largest probability of a right guess'
        """
        return self._draw(self.tprs, kind, ax)

    def _truth(self, label: str) -> _Points:
        if self._kind == "tpr":
            return self.fprs, self.tprs[label]
        return self.priors, self.accuracies[label]

    def _claim(self, epsilon: float, delta: float) -> _Points:
        if self._kind == "tpr":
            return self.fprs, 1 - trade_off(epsilon, delta, self.fprs)
        # The worst release reveals the truth with probability delta. Otherwise, it is
        # right with probability expit(epsilon), unless the prior is a better guess.
        priors = np.asarray(self.priors, dtype=float)
        right = np.maximum(np.maximum(priors, 1 - priors), expit(epsilon))
        return priors, delta + (1 - delta) * right


@_style.with_shared_text
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
        cls, estimator: Any, *data: object, ax: Axes | None = None, **options: Any
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

    def plot(self, ax: Axes | None = None) -> Self:
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
        reports, rows = list(self.reports.values()), np.arange(len(self.reports))
        if ax is None:
            ax = _style.new_axes(figsize=(6.4, 1.2 + 0.4 * len(rows)))
        self.ax_, self.figure_ = ax, ax.figure
        bounds, black = [r.epsilon_lower for r in reports], _style.shade(ax, 1.0)
        self.bars_ = ax.barh(rows, bounds, edgecolor=black, height=0.6)
        handles: dict[str, Any] = {}
        for bar, report in zip(self.bars_, reports, strict=True):
            hatch, strength = ("//", 0.2) if report.violated else (None, 0.05)
            bar.set(facecolor=_style.shade(ax, strength), hatch=hatch)
            kind = "above the claim" if report.violated else "proved lower bound"
            handles.setdefault(kind, bar)
        claims = np.array([report.claimed for report in reports], dtype=float)
        if (is_finite := np.isfinite(claims)).any():
            at = claims[is_finite], rows[is_finite]
            (handles["claimed"],) = ax.plot(*at, "|", color=black, markersize=18, mew=3)
        ax.set_yticks(rows, labels=[_style.wrapped(label) for label in self.reports])
        ax.invert_yaxis()
        ax.set(xlim=(0, None), xlabel="epsilon")
        above: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1, 1)}
        above |= {"frameon": False, "ncols": len(handles)}
        ax.legend(handles.values(), handles.keys(), **above)
        return self


def by_label(guarantee: _Guarantees) -> dict[str, PrivacyGuarantee]:
    """Guarantees by label; a single one gets the label "guarantee"."""
    if isinstance(guarantee, PrivacyGuarantee):
        return {"guarantee": guarantee}
    if not isinstance(guarantee, Mapping):
        raise TypeError(
            "guarantee must be a guarantee, or a dict of guarantees by label. For "
            "fitted estimators, call from_estimator."
        )
    if not guarantee:
        raise ValueError("guarantee is an empty dict. Pass at least one guarantee.")
    for one in guarantee.values():
        check_guarantee(one)
    return dict(guarantee)


def claims_and_notes(guarantees: Mapping[str, PrivacyGuarantee]) -> dict[str, Any]:
    """Legend texts for claims and differences, as parameters of a display."""
    lists = {label: [g] for label, g in guarantees.items()}
    return {
        "claimed": {label: g.claimed for label, g in guarantees.items() if g.claimed},
        "notes": difference_notes(lists, at_delta=False),
    }
