"""Values that a public table has randomised, as Gaussian observations of their mean.

A level x is randomised to an output y with probability Q[x, y]. Around a prediction m,
levels are taken to have probabilities ``p(x | m)`` proportional to ``h(x) exp(t x)``,
where t is such that their mean is m. The derivative of the log-likelihood of y by m is
``(E[x | y, m] - m) / V``, and its information about m is ``r / V``, where V is the
variance of ``p(x | m)`` and r V that of ``E[x | y, m]``. So near m, y is as informative
about the mean as a Gaussian observation ``z = m + (E[x | y, m] - m) / r`` of variance V
/ r. A fit to z instead of y uses all the information of y about m; y itself, whose
variance is V plus that of the table, is less informative (McCullagh and Nelder 1989,
"Generalized linear models", 2.5, for such working observations).

The weights h are learned by expectation maximisation from counts of outputs by
prediction. Only released values and predictions are read.
"""

import numpy as np
from numpy.typing import NDArray

# Number of predictions for which observations are tabulated. Those in between are
# interpolated.
_N_GRID = 64
_LEAST_WEIGHT = 1e-9


class TableLikelihood:
    """Likelihood of the outputs of a table, given the mean of the level.

    Parameters
    ----------
    levels : ndarray of shape (n_levels,)
        Ascending.
    channel : ndarray of shape (n_levels, n_outputs)
        Probabilities of the outputs.

    Attributes
    ----------
    known_share : float or None
        Share of the variance of z that the table causes; None before `update_weights`.
    """

    def __init__(
        self, levels: NDArray[np.float64], channel: NDArray[np.float64]
    ) -> None:
        # Levels are scaled to [-1, 1].
        self._middle, self._half = (levels[0] + levels[-1]) / 2, np.ptp(levels) / 2
        self._levels = (levels - self._middle) / self._half
        self._channel = channel
        # The least and largest prediction are a 25th of the range away from its ends.
        self._grid = np.linspace(-1, 1, _N_GRID) * (1 - 2 * 0.04)
        self._tilt = np.zeros(_N_GRID)
        self._weights = np.full(len(levels), 1 / len(levels))
        step = self._half * (self._grid[1] - self._grid[0])
        self._first = float(self._middle + self._half * self._grid[0]), float(step)
        self.known_share: float | None = None
        self._tabulate(np.ones(_N_GRID))

    def observe(
        self, fitted: NDArray[np.floating], outputs: NDArray[np.integer]
    ) -> tuple[NDArray[np.floating], NDArray[np.float64]]:
        """The observations that replace outputs, given predictions.

        Parameters
        ----------
        fitted : ndarray of shape (n,)
        outputs : ndarray of shape (n,), int

        Returns
        -------
        values : ndarray of shape (n,)
            They have the type of the predictions.
        counts : ndarray of shape (n_grid, n_outputs)
            Number of entries by prediction and output, for `update_weights`.
        """
        values = np.empty_like(fitted)
        n_outputs, last = self._table.shape[1], _N_GRID - 1
        table, counts = self._table.ravel(), np.zeros(self._table.size)
        (low, step), size = self._first, 2**14
        for begin in range(0, len(fitted), size):
            chunk = slice(begin, begin + size)
            at = np.clip((fitted[chunk].astype(float) - low) / step, 0, last - 1e-9)
            cell = at.astype(np.int64)
            share = at - cell
            cell *= n_outputs
            cell += outputs[chunk]
            values[chunk] = (1 - share) * table[cell] + share * table[cell + n_outputs]
            counts += np.bincount(cell, 1 - share, counts.size)
            counts += np.bincount(cell + n_outputs, share, counts.size)
        return values, counts.reshape(self._table.shape)

    def expected_noise(self, variance: float) -> float:
        """Variance that the table adds to observations, before anything is learned.

        Parameters
        ----------
        variance : float
            Assumed variance of levels around predictions. Both are assumed to be
            normal.
        """
        squares = (self._half**2 / variance) * self._levels**2
        self._weights = np.maximum(np.exp(-squares / 2), _LEAST_WEIGHT)
        of_predictions = 0.07  # assumed variance, in half ranges squared
        share = self._tabulate(np.exp(-(self._grid**2) / (2 * of_predictions)))
        return variance * (1 / share - 1)

    def _probabilities(self) -> NDArray[np.float64]:
        """Probabilities of the levels for every prediction of the grid."""
        x, m = self._levels, self._grid
        tilt = self._tilt
        for _ in range(25):
            log = np.log(self._weights) + tilt[:, np.newaxis] * x
            p = np.exp(log - log.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            mean = p @ x
            variance = np.maximum(p @ x**2 - mean**2, 1e-6)
            change = np.clip((m - mean) / variance, -2, 2)
            tilt = np.clip(tilt + change, -200, 200)
            if np.abs(change).max() < 1e-10:
                break
        self._tilt = tilt
        return p

    def update_weights(self, counts: NDArray[np.float64]) -> None:
        """Learn how levels vary around predictions.

        Parameters
        ----------
        counts : ndarray of shape (n_grid, n_outputs)
            Number of entries by prediction and output.
        """
        n = counts.sum(axis=1)
        for _ in range(3):
            p = self._probabilities()
            met = np.maximum(p @ self._channel, 1e-300)
            after = p * ((counts / met) @ self._channel.T)
            ratio = (after.sum(axis=0) + 1e-9) / (n @ p + 1e-9)
            self._weights = np.maximum(self._weights * ratio, _LEAST_WEIGHT)
            self._weights /= self._weights.sum()
        self.known_share = 1 - self._tabulate(n)

    def _tabulate(self, n: NDArray[np.float64]) -> float:
        """Tabulate z for `n` entries at every prediction.

        Returns
        -------
        share : float
            Share of the variance of z that the table does not cause.
        """
        x, m = self._levels, self._grid[:, np.newaxis]
        p = self._probabilities()
        met = np.maximum(p @ self._channel, 1e-300)
        expected = (p * x) @ self._channel / met
        informed = (met * (expected - m) ** 2).sum(axis=1)
        variance = (p * (x - m) ** 2).sum(axis=1)
        share = informed / variance
        observed = m + (expected - m) / share[:, np.newaxis]
        self._table = self._middle + self._half * observed
        return float((n @ variance) / (n @ (variance / share)))
