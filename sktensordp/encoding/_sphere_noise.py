"""The noise of codes on the sphere."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._random import NoiseStreams
from ..mechanisms._noise import by_tiles
from ..mechanisms._privunit import CalibratedCap
from ._channels import SphereChannel


@dataclass(frozen=True)
class SphereNoise:
    """Turns codes into unit vectors and releases them by PrivUnit.

    Attributes
    ----------
    cap : CalibratedCap
    """

    cap: CalibratedCap

    def randomize(
        self, samples: NDArray[np.floating], streams: NoiseStreams
    ) -> NDArray[np.floating]:
        """Unbiased estimates of the unit vectors.

        Parameters
        ----------
        samples : ndarray of shape (n_samples, D), float64
            Finite.
        streams : NoiseStreams

        Returns
        -------
        estimates : ndarray of shape (n_samples, D)
        """
        channel = SphereChannel(self.cap.design)

        def noisy(
            codes: NDArray[np.floating], bits: np.random.BitGenerator, columns: slice
        ) -> NDArray[np.float64]:
            return self.cap.estimates(channel.inputs(codes), bits)

        return by_tiles(noisy, samples, streams, whole_samples=True)
