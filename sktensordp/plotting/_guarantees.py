"""Pictures of whole guarantees: their curves, and what an attacker can achieve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from ..privacy import PrivacyGuarantee, privacy_of
from ..privacy._numbers import shown
from ._claims import by_label, claims_and_notes, estimators_by_label
from ._curves import CurvesDisplay
from ._docs import with_shared_text
from ._style import claimed_style, shade, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Lower end of a logarithmic axis of delta, and what stands for zero there.
_LEAST_DELTA, _NEARLY_ZERO = 1e-12, 1e-300
_N_EPSILONS = 121
# Where curves are drawn: type I errors or false positive rates, and priors.
_ALPHAS = np.linspace(0.0, 1.0, 201)
_PRIORS = np.linspace(0.01, 0.99, 99)
# Epsilons whose lines bound the true positive rate.
_EPSILONS = np.concatenate([[0.0], np.geomspace(1e-4, 600.0, 400)])
# Style of a claim that is a single point.
_POINT = {
    "linestyle": "none", "markersize": 12, "markevery": None, "clip_on": False,
    "zorder": 6,
}  # fmt: skip

_Points = tuple[ArrayLike, ArrayLike]


class GuaranteesDisplay(CurvesDisplay):
    """Base of displays of whole guarantees: true curves, and claims beside them.

    A subclass says which points a true curve has, and which a claim.
    """

    claimed: Mapping[str, tuple[float, float]] | None
    claims_: dict[str, Any]
    # By kind of picture: labels of the axes, and of the line that reveals nothing.
    _labels: ClassVar[dict[str, tuple[str, str, str]]]
    _kind: str

    @classmethod
    def from_guarantee(cls, *args: Any, **options: Any) -> Self:
        """Draw guarantees."""
        raise NotImplementedError

    @classmethod
    def from_estimator(cls, estimator: Any, **options: Any) -> Self:
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

    def _truth(self, label: str) -> _Points:
        """Points of a true curve."""
        raise NotImplementedError

    def _claim(self, epsilon: float, delta: float) -> _Points:
        """Points of the worst release that keeps a claim."""
        raise NotImplementedError

    def _draw(self, labels: Iterable[str], kind: str, ax: Axes | None) -> Self:
        if kind not in self._labels:
            kinds = " or ".join(map(repr, self._labels))
            raise ValueError(f"kind must be {kinds}, got {kind!r}.")
        self._kind, self.claims_ = kind, {}
        self._draw_curves(labels, ax)
        pairs = zip(self.lines_, map(self.claims_.get, labels), strict=True)
        handles = [artist for pair in pairs for artist in pair if artist is not None]
        x_label, y_label, nothing = self._labels[kind]
        self.ax_.set(xlabel=x_label, ylabel=y_label)
        if nothing:
            style = {"color": shade(self.ax_, 0.4), "linewidth": 1, "label": nothing}
            handles += self.ax_.plot(*self._claim(0.0, 0.0), **style)
        else:
            self.ax_.set(yscale="log", ylim=(_LEAST_DELTA, 2.0))
        self._draw_legend(handles)
        return self

    def _draw_curve(self, label: str, line: str, marker: str) -> Any:
        """Draw the true curve and the claim, if any; return the true curve."""
        every = 0.03 * (len(self.lines_) % 4), 0.12
        style: dict[str, Any] = {"marker": marker, "markevery": every}
        text = wrapped(self._text(label))
        (curve,) = self.ax_.plot(
            *self._truth(label), linestyle=line, label=text, **style
        )
        if label in (claimed := self.claimed or {}):
            epsilon, delta = claimed[label]
            text = wrapped(f"{label}: claimed ({shown(epsilon)}, {shown(delta)})")
            x, y = self._claim(epsilon, delta)
            style |= claimed_style(self.ax_) | (_POINT if np.size(x) == 1 else {})
            (self.claims_[label],) = self.ax_.plot(x, y, label=text, **style)
        return curve


@with_shared_text
@dataclass(eq=False, repr=False)
class PrivacyProfileDisplay(GuaranteesDisplay):
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

    epsilons: ArrayLike
    deltas: Mapping[str, ArrayLike]
    _: KW_ONLY
    claimed: Mapping[str, tuple[float, float]] | None = None
    notes: Mapping[str, str] | None = None

    _labels: ClassVar = {
        "profile": ("epsilon", "delta", ""),
        "tradeoff": (
            "type I error",
            "smallest type II error of any test",
            "nothing revealed",
        ),
    }

    @classmethod
    def from_guarantee(
        cls,
        guarantee: PrivacyGuarantee | Mapping[str, PrivacyGuarantee],
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
        display = cls(grid, deltas, **claims_and_notes(guarantees))
        return display.plot(kind=kind, ax=ax)

    def plot(self, *, kind: str = "profile", ax: Axes | None = None) -> Self:
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
        return self._draw(self.deltas, kind, ax)

    def _truth(self, label: str) -> _Points:
        epsilons = np.asarray(self.epsilons, dtype=float)
        deltas = np.asarray(self.deltas[label], dtype=float)
        if self._kind == "profile":
            return epsilons, np.maximum(deltas, _NEARLY_ZERO)
        return _ALPHAS, trade_off(epsilons, deltas, _ALPHAS)

    def _claim(self, epsilon: float, delta: float) -> _Points:
        if self._kind == "profile":
            return [epsilon], [max(delta, _LEAST_DELTA)]
        return _ALPHAS, trade_off(np.array([epsilon]), np.array([delta]), _ALPHAS)


@with_shared_text
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
        By label, the curve of the worst mechanism that keeps the claim.

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
        "tpr": ("false positive rate", "largest true positive rate", "guessing"),
        "accuracy": (
            "probability of the suspicion before the release",
            "largest probability of a right guess",
            "without the release",
        ),
    }

    @classmethod
    def from_guarantee(
        cls,
        guarantee: PrivacyGuarantee | Mapping[str, PrivacyGuarantee],
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
        >>> person = PrivacyGuarantee.of(
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
        one = np.array([epsilon]), np.array([delta])
        if self._kind == "tpr":
            fprs = np.asarray(self.fprs, dtype=float)
            return fprs, 1 - trade_off(*one, fprs)
        # Some corner of the claim's curve is best, whatever the prior.
        fprs = np.array([0.0, (1 - delta) * expit(-epsilon), 1 - delta])
        tprs = 1 - trade_off(*one, fprs)
        priors = np.asarray(self.priors, dtype=float)
        right = np.outer(priors, tprs) + np.outer(1 - priors, 1 - fprs)
        return priors, right.max(axis=1)


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
