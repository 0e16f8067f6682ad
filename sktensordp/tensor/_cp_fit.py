"""What fits of Tuckers to grouped entries assume of noise."""

from typing import Any

import numpy as np

from ._grouped import GroupedEntries

# Largest share of noise in the values for which a Tucker fit starts at a decomposition:
# beyond, it would be chosen for what it makes of noise.
MOST_NOISE = 0.8


def entries_noise_floor(
    entries: GroupedEntries, noise_floor: float, value_scale: float
) -> float:
    """Smallest noise variance of a fit, on the scale of the entries.

    It also keeps the fit from following rounding errors of the values.
    """
    eps: Any = np.finfo(entries.dtype).eps
    return float(max(noise_floor / value_scale**2, 1e-9, 16 * eps))
