"""Training of encoders and decoders by L-BFGS on fixed draws of noise."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ._channels import Channel
from ._maps import MapShape, in_columns
from ._tasks import Task
from ._whitening import Whitening

# Copies of each training sample, and limits on the number of rows.
_COPIES, _LEAST_ROWS, _MOST_ROWS = 8, 4000, 20_000
# Rows with held-out noise, for comparing models, per training row.
_HELD_OUT = 2
# Weight of the fresh draw in a copy of a sample.
_SMOOTHING = 0.3
# Penalty on squared weights, relative to the loss of the mean as an estimate.
_PENALTY = 3e-3
# Largest numbers of iterations, for the decoder alone and for both maps.
DECODER_STEPS, JOINT_STEPS = 50, 100
_MEMORY = 20


@dataclass(frozen=True)
class Model:
    """An encoder, a channel and a decoder.

    Attributes
    ----------
    encoder : MapShape
        Takes standardised samples.
    decoder : MapShape
        Takes released codes over `channel.spread`; gives standardised samples.
    channel : Channel
    """

    encoder: MapShape
    channel: Channel
    decoder: MapShape


@dataclass(frozen=True)
class Sample:
    """Rows with their targets and their noise.

    Attributes
    ----------
    rows : ndarray of shape (n, n_features)
        Standardised.
    targets : ndarray of shape (n, ...)
    noise : object
        Noise drawn by the channel.
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
    white : Whitening
        Whitening of the training data.
    columns : ndarray of int, shape (n_features,)
        Columns that vary; the mean estimates the others.
    rows : ndarray of shape (n_samples, n_features)
        Standardised.
    targets : ndarray of shape (n_samples, ...)
    soft : bool
        Whether the targets are the task's outputs. If so, any row has targets, and the
        training rows are randomly moved copies of samples, which keeps a flexible
        encoder from learning the samples by heart.
    base : float
        The loss relative to which the penalty is measured.
    on_step : callable or None
        Called after each iteration; a true result ends the training.
    """

    task: Task
    white: Whitening
    columns: NDArray[np.int64]
    rows: NDArray[np.float64]
    targets: NDArray[Any]
    soft: bool
    base: float
    on_step: Callable[[], bool] | None = None

    def sample(
        self,
        channel: Channel,
        rng: np.random.Generator,
        *,
        held_out: bool = False,
    ) -> Sample:
        """Draw rows, targets and noise.

        Parameters
        ----------
        channel : Channel
        rng : numpy.random.Generator
        held_out : bool, default=False
            True for comparing models: draws more rows, and moves none.

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
        # The copies keep the mean and covariance of the samples.
        root = self.white.root[self.columns]
        rows *= np.sqrt(1 - _SMOOTHING**2)
        rows += _SMOOTHING * rng.normal(size=(size, root.shape[1])) @ root.T
        targets = self.task.outputs(self.estimates(rows))
        return Sample(rows, targets, channel.draw(size, rng))

    def estimates(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert standardised rows to the original columns."""
        return in_columns(rows, self.white.mean, self.white.scale, self.columns)

    def _decoder_loss(
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
        """Loss, its gradient in the decoder, and arguments of `input_gradient`."""
        inputs = released / model.channel.spread
        rows, hidden = model.decoder.forward(vector, inputs)
        value, slopes = self.task.value_and_gradient(self.estimates(rows), targets)
        slopes = np.asarray(slopes, dtype=float)[:, self.columns]
        slopes *= self.white.scale[self.columns]
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
            Parameters of the encoder, then of the decoder.
        sample : Sample

        Returns
        -------
        value : float
        gradient : ndarray of the shape of `vector`
        """
        theta_e, theta_d = np.split(vector, [model.encoder.size])
        codes, hidden = model.encoder.forward(theta_e, sample.rows)
        released, saved = model.channel.forward(codes, sample.noise)
        value, decoder_gradient, slopes = self._decoder_loss(
            model, theta_d, released, sample.targets
        )
        back = model.decoder.input_gradient(theta_d, *slopes) / model.channel.spread
        back = model.channel.backward(codes, sample.noise, saved, back)
        encoder_gradient = model.encoder.gradient(theta_e, sample.rows, hidden, back)[0]
        return value, np.concatenate([encoder_gradient, decoder_gradient])

    def train_decoder(
        self, model: Model, vector: NDArray[np.float64], sample: Sample
    ) -> NDArray[np.float64]:
        """Parameters after training the decoder, with the encoder fixed."""
        theta_e, theta_d = np.split(vector, [model.encoder.size])
        codes = model.encoder.forward(theta_e, sample.rows)[0]
        released = model.channel.forward(codes, sample.noise)[0]

        def loss(trial: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            return self._decoder_loss(model, trial, released, sample.targets)[:2]

        theta_d = self._minimize(loss, theta_d, model.decoder.weights, DECODER_STEPS)
        return np.concatenate([theta_e, theta_d])

    def train(
        self, model: Model, vector: NDArray[np.float64], sample: Sample
    ) -> NDArray[np.float64]:
        """Parameters after training encoder and decoder together."""

        def loss(trial: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            return self.value_and_gradient(model, trial, sample)

        weights = np.concatenate([model.encoder.weights, model.decoder.weights])
        return self._minimize(loss, vector, weights, JOINT_STEPS)

    def _minimize(
        self,
        loss: Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]],
        start: NDArray[np.float64],
        weights: NDArray[np.float64],
        n_iterations: int,
    ) -> NDArray[np.float64]:
        """Parameters that minimise the loss plus a penalty on squared weights."""
        penalty = _PENALTY * weights

        def penalised(trial: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            value, gradient = loss(trial)
            value = value / self.base + float(penalty @ trial**2)
            return value, gradient / self.base + 2 * penalty * trial

        def on_iteration(_: NDArray[np.float64]) -> None:
            if self.on_step is not None and self.on_step():
                raise StopIteration

        options = {"maxiter": n_iterations, "maxcor": _MEMORY}
        return minimize(
            penalised,
            start,
            jac=True,
            method="L-BFGS-B",
            options=options,
            callback=on_iteration,
        ).x
