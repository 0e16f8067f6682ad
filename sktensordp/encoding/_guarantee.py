"""The guarantee of one call of an encoder."""

import math
from typing import TYPE_CHECKING

from ..privacy import PrivacyGuarantee

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

# How each mechanism releases a code, and the theorem that the guarantee rests on.
_MECHANISMS = {
    "laplace": (
        "with discrete Laplace noise on a public lattice",
        "Dwork, McSherry, Nissim and Smith (2006), Proposition 1",
    ),
    "l2": (
        "with K-norm noise on a public lattice",
        "Hardt and Talwar (2010), Theorem 4.3",
    ),
    "gaussian": (
        "with Gaussian noise on a public lattice",
        "Balle and Wang (2018), Theorem 8",
    ),
    "privunit": (
        "by PrivUnit, as the direction of a lattice point",
        "Bhowmick et al. (2018), Theorem 1",
    ),
    "auto": (
        "with Laplace, K-norm or PrivUnit noise, as `fit` chooses",
        "Dwork et al. (2006); Hardt and Talwar (2010); Bhowmick et al. (2018)",
    ),
}


def encoder_guarantee(
    mechanism: str, event: "DpEvent", *, epsilon: float, delta: float
) -> PrivacyGuarantee:
    """Guarantee of one call of `transform` or `privatize`.

    Parameters
    ----------
    mechanism : str
        The mechanism; "auto" before `fit` has chosen it.
    event : dp_accounting.DpEvent
        Of the release of one code.
    epsilon, delta : float
        Requested.

    Returns
    -------
    guarantee : PrivacyGuarantee
    """
    call = "One call of transform or privatize releases, for each sample"
    if math.isinf(epsilon):
        return PrivacyGuarantee.of(
            event,
            unit="sample",
            statement=f"{call}, its code without noise.",
            source="not private",
        )
    release, source = _MECHANISMS[mechanism]
    return PrivacyGuarantee(
        epsilon=epsilon,
        delta=delta if mechanism == "gaussian" else 0.0,
        event=event,
        unit="sample",
        statement=f"{call}, a noisy code. The sample may hold any numbers: its code is "
        f"moved into a ball or onto a sphere fixed in fit, and released {release}. "
        f"Every call spends again.",
        source=source,
        local=True,
    )
