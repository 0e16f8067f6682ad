"""What one call of an encoder guarantees."""

import math
from typing import TYPE_CHECKING

from ..privacy import PrivacyGuarantee

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

__all__ = ["encoder_guarantee"]

# What is said of each mechanism, and the theorem that it rests on.
_MECHANISMS = {
    "laplace": (
        "discrete Laplace noise on a public lattice",
        "Dwork, McSherry, Nissim and Smith (2006), Proposition 1",
    ),
    "l2": (
        "K-norm noise on a public lattice",
        "Hardt and Talwar (2010), Theorem 4.3",
    ),
    "gaussian": (
        "Gaussian noise on a public lattice",
        "Balle and Wang (2018), Theorem 8",
    ),
    "privunit": (
        "PrivUnit's direction of a lattice point",
        "Bhowmick et al. (2018), Theorem 1",
    ),
    "auto": (
        "Laplace, K-norm or PrivUnit noise, chosen in the fit",
        "Dwork et al. (2006); Hardt and Talwar (2010); Bhowmick et al. (2018)",
    ),
}


def encoder_guarantee(
    mechanism: str, event: "DpEvent", *, epsilon: float, delta: float, calibration: str
) -> PrivacyGuarantee:
    """Guarantee of one call of `transform` or `privatize`.

    Parameters
    ----------
    mechanism : str
        That is taken; "auto" before it is known.
    event : dp_accounting.DpEvent
        What one release of a code is.
    epsilon, delta : float
        That were asked for.
    calibration : {"sound", "published"}

    Returns
    -------
    guarantee : PrivacyGuarantee
    """
    call = "One call of transform or privatize, for each sample"
    if math.isinf(epsilon):
        return PrivacyGuarantee.of(
            event,
            unit="sample",
            statement=f"{call}: its code without noise (epsilon = inf).",
            source="not private",
        )
    if calibration == "published":
        return PrivacyGuarantee.of(
            event,
            unit="sample",
            statement=f"{call}: its code plus Laplace noise for the largest distance "
            f"of two codes in the fitting data; another sample's may lie anywhere.",
            source="Cheng, Tang and Chinchali (2022), Theorem 1, corrected",
            claimed=(epsilon, 0.0),
        )
    name, source = _MECHANISMS[mechanism]
    return PrivacyGuarantee(
        epsilon=epsilon,
        delta=delta if mechanism == "gaussian" else 0.0,
        event=event,
        unit="sample",
        statement=f"{call}, whatever numbers it holds: its code, moved into a "
        f"ball or onto a sphere fixed in the fit, and {name}. Every call spends again.",
        source=source,
    )
