"""Intervals around released values, from the known distribution of their noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted


class AddsKnownNoise:
    """A mechanism whose noise has the same distribution for all samples."""

    noise_variance_: float | NDArray[np.float64]
    _randomizer: Any

    def interval(
        self, level: float = 0.95
    ) -> tuple[float | NDArray[np.float64], float | NDArray[np.float64]]:
        """Interval around a released value that covers the value before its noise.

        This reads nothing but the noise, which is public: it costs no privacy.

        Parameters
        ----------
        level : float, default=0.95
            Probability with which an interval covers, between 0 and 1. It holds for
            each released value by itself, not for all values of a sample at once.

        Returns
        -------
        low, high : float or ndarray of the shape of `noise_variance_`
            What to add to a released value to get the ends of its interval, as those
            of scipy's ``interval`` of the noise.

        Raises
        ------
        ValueError
            If `level` is not between 0 and 1.
        sklearn.exceptions.NotFittedError
            If the mechanism has not been fitted.

        Notes
        -----
        The interval covers the value as clipped to the declared domain, and for
        `MatrixMechanism` the exact answer. It is that of the noise: 2.12 standard
        deviations on either side for 95% of Laplace noise, and 1.96 for Gaussian noise.
        It includes the rounding to the lattice, or that is less than a millionth of
        it. There is no such method where the distribution of a released value depends
        on the value: `HybridMechanism`, `PrivUnit`, `TensorRandomizedResponse` and
        encoders. For a mean of many released samples, take its standard error
        (`sktensordp.mechanisms.estimate_mean`): such a mean is nearly Gaussian,
        whatever the noise is.

        Examples
        --------
        >>> import numpy as np
        >>> from sktensordp.mechanisms import LaplaceMechanism
        >>> counts = np.array([[120.0, 80.0, 14.0]])
        >>> mechanism = LaplaceMechanism(1.0, sensitivity=1.0).fit(counts)
        >>> low, high = mechanism.interval(0.95)
        >>> round(low, 2), round(high, 2)
        (-3.0, 3.0)
        >>> round(high / mechanism.noise_variance_**0.5, 2)
        2.12
        """
        check_is_fitted(self, "noise_variance_")
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1, got {level!r}.")
        lattice = getattr(self._randomizer, "lattice", None)
        half: float | NDArray[np.float64]
        if hasattr(lattice, "rate"):  # that of Laplace noise
            half = _of_laplace(lattice, level)
        else:
            half = np.sqrt(self.noise_variance_) * -float(ndtri((1 - level) / 2))
        half = half if np.ndim(half) else float(half)
        return -half, half


def _of_laplace(lattice: Any, level: float) -> float:
    """The least half width that covers a value before it is rounded, too.

    With r = e^-rate, an integer beyond k has the probability 2 r^(k + 1) / (1 + r).
    """
    rate = lattice.numerator / lattice.denominator
    most = (1 - level) * (1 + math.exp(-rate)) / 2
    n_steps = max(math.ceil(-math.log(most) / rate) - 1, 0)
    return (n_steps + 0.5) * lattice.step
