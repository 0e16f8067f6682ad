"""Picture of a whole guarantee: delta over epsilon, or the trade-off curve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..privacy import PrivacyGuarantee
from ._claims import by_label, claims_and_notes, guarantees_of
from ._curves import LEAST_DELTA, GuaranteesDisplay
from ._docs import with_shared_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_N_EPSILONS = 121
# Stands for zero on the logarithmic axis.
_NEARLY_ZERO = 1e-300
_ALPHAS = np.linspace(0.0, 1.0, 201)
# Style of a claim in the profile: a point.
_POINT = {
    "linestyle": "none", "markersize": 12, "markevery": None, "clip_on": False,
    "zorder": 6,
}  # fmt: skip


@with_shared_text
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

    _labels: ClassVar = {
        "profile": ("epsilon", "delta", ""),
        "tradeoff": (
            "type I error",
            "smallest type II error of any test",
            "nothing revealed",
        ),
    }

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

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        epsilons: ArrayLike | None = None,
        kind: str = "profile",
        ax: Axes | None = None,
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

    def _truth(self, label: str) -> tuple[ArrayLike, ArrayLike]:
        epsilons = np.asarray(self.epsilons, dtype=float)
        deltas = np.asarray(self.deltas[label], dtype=float)
        if self._kind == "profile":
            return epsilons, np.maximum(deltas, _NEARLY_ZERO)
        return _ALPHAS, trade_off(epsilons, deltas, _ALPHAS)

    def _claim(
        self, epsilon: float, delta: float
    ) -> tuple[tuple[ArrayLike, ArrayLike], dict[str, Any]]:
        if self._kind == "profile":
            return ([epsilon], [max(delta, LEAST_DELTA)]), _POINT
        return (_ALPHAS, trade_off(np.array([epsilon]), np.array([delta]), _ALPHAS)), {}

    def _nothing(self) -> tuple[ArrayLike, ArrayLike]:
        return [0, 1], [1, 0]


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
