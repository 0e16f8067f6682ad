"""The type of samples is public: bounds that contradict it are warned of.

No false alarms are possible: nothing is drawn.
"""

import numpy as np
import pytest

from sktensordp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    TensorRandomizedResponse,
)

DOORS = {
    "Laplace": lambda X, bounds: LaplaceMechanism(1.0, bounds=bounds).fit(X),
    "Gaussian": lambda X, bounds: GaussianMechanism(1.0, bounds=bounds).fit(X),
    "responses": lambda X, bounds: TensorRandomizedResponse(
        1.0, bounds=bounds, n_levels=3
    ).fit(X),
}
BYTES = np.zeros((5, 4), dtype=np.uint8)
COUNTS = BYTES.astype(int)


@pytest.mark.parametrize("door", DOORS)
def test_bounds_that_the_type_contradicts_are_warned_of(door):
    fit = DOORS[door]
    for bounds in [(0, 1), (-1, 1), (np.zeros(4), np.ones(4))]:
        with pytest.warns(match="X holds unsigned bytes, 0 to 255, but bounds end at"):
            fit(BYTES, bounds)
    with pytest.warns(match="X holds integers, but bounds have room for at most one"):
        fit(COUNTS, (0.0, 0.5))


@pytest.mark.parametrize("door", DOORS)
def test_others_are_not(door):
    fit = DOORS[door]
    for X, bounds in [
        (BYTES, (0, 255)),
        (BYTES / 255, (0, 1)),
        (BYTES.astype(bool), (0, 1)),
        (COUNTS, (0, 1)),
        (COUNTS, (-1, 1)),
        (BYTES.tolist(), (0, 1)),
    ]:
        fit(X, bounds)
