"""Picture of what an attacker can achieve."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..privacy import PrivacyGuarantee
from ..privacy._risk import max_accuracy
from ._claims import by_label, claims_and_notes, guarantees_of
from ._curves import GuaranteesDisplay
from ._docs import with_shared_text
from ._privacy_profile import trade_off

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FPRS = np.linspace(0.0, 1.0, 201)
_PRIORS = np.linspace(0.01, 0.99, 99)
# Epsilons whose lines bound the true positive rate.
_EPSILONS = np.concatenate([[0.0], np.geomspace(1e-4, 600.0, 400)])


@with_shared_text
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

    _labels: ClassVar = {
        "tpr": ("false positive rate", "largest true positive rate", "guessing"),
        "accuracy": (
            "probability of the suspicion before the release",
            "largest probability of a right guess",
            "without the release",
        ),
    }

    def __init__(
        self,
        fprs: ArrayLike,
        tprs: Mapping[str, ArrayLike],
        priors: ArrayLike,
        accuracies: Mapping[str, ArrayLike],
        *,
        claimed: Mapping[str, tuple[float, float]] | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        self.fprs = fprs
        self.tprs = tprs
        self.priors = priors
        self.accuracies = accuracies
        self.claimed = dict(claimed or {})
        self.notes = dict(notes or {})

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
        guarantees = by_label(guarantee)
        pairs = {
            label: _rates(g.delta_at, g.epsilon_at(0.0))
            for label, g in guarantees.items()
        }
        tprs = {label: tpr for label, (tpr, _) in pairs.items()}
        accuracies = {label: accuracy for label, (_, accuracy) in pairs.items()}
        claims = claims_and_notes(guarantees)
        return cls(_FPRS, tprs, _PRIORS, accuracies, **claims).plot(kind=kind, ax=ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, kind: str = "tpr", ax: Axes | None = None
    ) -> Self:
        """Draw the total guarantees of fitted estimators, pipelines or searches.

        Parameters
        ----------
        estimator : estimator or dict of str to estimator
            Anything fitted that `privacy_of` takes.
        kind, ax
            As in `from_guarantee`.

        Returns
        -------
        display : AttackRiskDisplay

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from sktensordp.mechanisms import LaplaceMechanism
        >>> from sktensordp.plotting import AttackRiskDisplay
        >>> display = AttackRiskDisplay.from_estimator(
        ...     LaplaceMechanism(1.0, bounds=(0, 1)).fit(np.zeros((2, 3))),
        ...     ax=Figure().subplots())
        >>> display.ax_.get_ylabel()
        'largest true positive rate'
        """
        guarantees = guarantees_of(estimator)
        return cls.from_guarantee(guarantees, kind=kind, ax=ax)

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

    @property
    def _x(self) -> NDArray[np.float64]:
        return np.asarray(self.fprs if self._kind == "tpr" else self.priors, float)

    def _truth(self, label: str) -> tuple[ArrayLike, ArrayLike]:
        return self._x, (self.tprs if self._kind == "tpr" else self.accuracies)[label]

    def _claim(
        self, epsilon: float, delta: float
    ) -> tuple[tuple[ArrayLike, ArrayLike], dict[str, Any]]:
        rates = _rates(_worst_curve(epsilon, delta), epsilon, self._x)
        return (self._x, rates[self._kind == "accuracy"]), {}

    def _nothing(self) -> tuple[ArrayLike, ArrayLike]:
        x = self._x
        return x, x if self._kind == "tpr" else np.maximum(x, 1 - x)


def _worst_curve(epsilon: float, delta: float) -> Callable[[float], float]:
    """Deltas of the worst mechanism that keeps (epsilon, delta)."""

    def delta_at(other: float) -> float:
        if other >= epsilon:
            return delta
        spread = -math.expm1(other - epsilon) / (1 + math.exp(-epsilon))
        return delta + (1 - delta) * spread

    return delta_at


def _rates(
    delta_at: Callable[[float], float], epsilon: float, x: ArrayLike | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Largest true positive rates, and largest accuracies, at `x` or the defaults.

    `epsilon` is that of a corner of the curve, if finite.
    """
    fprs = _FPRS if x is None else np.asarray(x, dtype=float)
    priors = _PRIORS if x is None else np.clip(x, 1e-9, 1 - 1e-9)
    epsilons = np.append(_EPSILONS, epsilon if math.isfinite(epsilon) else [])
    deltas = np.array([delta_at(e) for e in epsilons.tolist()])
    tprs = 1 - trade_off(epsilons, deltas, fprs)
    accuracies = np.array([max_accuracy(delta_at, prior) for prior in priors.tolist()])
    return tprs, accuracies
