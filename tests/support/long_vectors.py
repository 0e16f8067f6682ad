"""A seam: vectors that would be longer than their limit become errors in all tests.

The package makes them zero before they are added, so that a bound holds whatever a kind
of sums computes. No kind may rely on that: an honest vector would be lost in silence.
"""

import numpy as np

from tests.support.seams import measure_sums

AS_RELEASED = measure_sums.without_long


def refusing_long(weights, lengths, limit):
    """The same, but a long vector is an error. One that is no number stays zero."""
    is_long = np.isfinite(lengths) & (lengths > limit)
    assert not is_long.any(), "a vector is longer than its limit"
    return AS_RELEASED(weights, lengths, limit)
