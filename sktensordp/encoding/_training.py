"""Training of encoders and decoders, by L-BFGS on fixed draws of noise."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ._channels import BallChannel, OpenChannel, SphereChannel
from ._maps import MapShape, in_columns

__all__ = ["JOINT", "POLISH", "Model", "Sample", "Trainer"]

# Copies of each training sample, and rows to which more samples are thinned out.
_COPIES, _LEAST_ROWS, _MOST_ROWS = 8, 4000, 20_000
# Rows for comparisons on noise that nothing was trained on, per training row.
_HELD_OUT = 2
# Share of a copy's deviation from the sample that is drawn anew.
_SMOOTHING = 0.3
# Penalty on squared weights, relative to the loss of an estimate that knows nothing.
_PENALTY = 3e-3
# Iterations at most, of the decoder alone and of both.
POLISH, JOINT = 50, 100
_MEMORY = 20


@dataclass(frozen=True)
class Model:
    """An encoder, a channel and a decoder.

    Attributes
    ----------
    encoder, decoder : MapShape
        Of standardised samples; the decoder takes what is released over
        `channel.spread`.
    channel : SphereChannel, BallChannel or OpenChannel
    """

    encoder: MapShape
    channel: SphereChannel | BallChannel | OpenChannel
    decoder: MapShape


@dataclass(frozen=True)
class Sample:
    """Rows with their targets and with noise.

    Attributes
    ----------
    rows : ndarray of shape (n, n_features)
        Standardised.
    targets : ndarray of shape (n, ...)
    noise : object
        As the channel draws it.
    """

    rows: NDArray[np.float64]
    targets: NDArray[Any]
    noise: Any


@dataclass(frozen=True)
class Trainer:
    """A task and its training data.

    Attributes
    ----------
    task : object
        With `value_and_gradient`.
    mean, scale : ndarray of shape (n,)
        Of the original columns.
    columns : ndarray of int, shape (n_features,)
        Those that vary; the others are estimated by their mean.
    rows : ndarray of shape (n_samples, n_features)
        Standardised.
    root : ndarray of shape (n_features, r)
        L, with L L^T their covariance.
    targets : ndarray of shape (n_samples, ...)
    soft : bool
        Whether the targets are the task's outputs, which it has for any row: what is
        trained on are then copies of samples, moved at random. That keeps a flexible
        encoder from learning the samples by heart.
    base : float
        Loss that the penalty is measured by.
    on_step : callable or None
        Called after each iteration; a true answer ends them.
    """

    task: Any
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    columns: NDArray[np.int64]
    rows: NDArray[np.float64]
    root: NDArray[np.float64]
    targets: NDArray[Any]
    soft: bool
    base: float
    on_step: Callable[[], bool] | None = None

    def sample(
        self,
        channel: SphereChannel | BallChannel | OpenChannel,
        rng: np.random.Generator,
        *,
        held_out: bool = False,
    ) -> Sample:
        """Rows, targets and noise.

        Parameters
        ----------
        channel : SphereChannel, BallChannel or OpenChannel
        rng : numpy.random.Generator
        held_out : bool, default=False
            Whether to compare models on them: more rows, none of them moved.

        Returns
        -------
        sample : Sample
        """
        n_samples = len(self.rows)
        size = min(_COPIES * n_samples, max(n_samples, _LEAST_ROWS), _MOST_ROWS)
        size *= _HELD_OUT if held_out else 1
        chosen = np.resize(rng.permutation(n_samples), size)
        rows = self.rows[chosen]
        if held_out or not self.soft:
            return Sample(rows, self.targets[chosen], channel.draw(size, rng))
        # The copies have the samples' mean and covariance.
        rows *= np.sqrt(1 - _SMOOTHING**2)
        rows += _SMOOTHING * rng.normal(size=(size, self.root.shape[1])) @ self.root.T
        targets = self.task.outputs(self.estimates(rows))
        return Sample(rows, targets, channel.draw(size, rng))

    def estimates(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Standardised rows in the original columns."""
        return in_columns(rows, self.mean, self.scale, self.columns)

    def _decoded(
        self,
        model: Model,
        vector: NDArray[np.float64],
        released: NDArray[np.float64],
        targets: NDArray[Any],
    ) -> tuple[
        float,
        NDArray[np.float64],
        tuple[NDArray[np.float64], NDArray[np.float64] | None],
    ]:
        """Loss of a decoder, its gradient, and what leads on to the input's."""
        inputs = released / model.channel.spread
        rows, hidden = model.decoder.forward(vector, inputs)
        value, slopes = self.task.value_and_gradient(self.estimates(rows), targets)
        slopes = np.asarray(slopes, dtype=float)[:, self.columns]
        slopes *= self.scale[self.columns]
        gradient, inner = model.decoder.gradient(vector, inputs, hidden, slopes)
        return float(value), gradient, (slopes, inner)

    def value_and_gradient(
        self, model: Model, vector: NDArray[np.float64], sample: Sample
    ) -> tuple[float, NDArray[np.float64]]:
        """Mean loss of a model, and its gradient.

        Parameters
        ----------
        model : Model
        vector : ndarray
            Parameters of the encoder and of the decoder.
        sample : Sample

        Returns
        -------
        value : float
        gradient : ndarray of the shape of `vector`
        """
        first, second = np.split(vector, [model.encoder.size])
        codes, hidden = model.encoder.forward(first, sample.rows)
        released, kept = model.channel.forward(codes, sample.noise)
        value, of_decoder, end = self._decoded(model, second, released, sample.targets)
        back = model.decoder.pulled_back(second, *end) / model.channel.spread
        back = model.channel.backward(codes, sample.noise, kept, back)
        of_encoder = model.encoder.gradient(first, sample.rows, hidden, back)[0]
        return value, np.concatenate([of_encoder, of_decoder])

    def polished(
        self, model: Model, vector: NDArray[np.float64], sample: Sample
    ) -> NDArray[np.float64]:
        """Parameters with the decoder trained, the encoder being left as it is."""
        first, second = np.split(vector, [model.encoder.size])
        codes = model.encoder.forward(first, sample.rows)[0]
        released = model.channel.forward(codes, sample.noise)[0]

        def loss(trial: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            return self._decoded(model, trial, released, sample.targets)[:2]

        found = self._minimised(loss, second, model.decoder.weights, POLISH)
        return np.concatenate([first, found])

    def trained(
        self, model: Model, vector: NDArray[np.float64], sample: Sample
    ) -> NDArray[np.float64]:
        """Parameters with encoder and decoder trained."""

        def loss(trial: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            return self.value_and_gradient(model, trial, sample)

        weights = np.concatenate([model.encoder.weights, model.decoder.weights])
        return self._minimised(loss, vector, weights, JOINT)

    def _minimised(
        self,
        loss: Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]],
        start: NDArray[np.float64],
        weights: NDArray[np.float64],
        n_iterations: int,
    ) -> NDArray[np.float64]:
        penalty: Any = _PENALTY * weights

        def penalised(trial: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            value, gradient = loss(trial)
            value = value / self.base + penalty @ trial**2
            return value, gradient / self.base + 2 * penalty * trial

        def on_iteration(_: NDArray[np.float64]) -> None:
            if self.on_step is not None and self.on_step():
                raise StopIteration

        options = {"maxiter": n_iterations, "maxcor": _MEMORY}
        return minimize(
            penalised, start, jac=True, method="L-BFGS-B", options=options,
            callback=on_iteration,
        ).x  # fmt: skip
