"""The paper's learning for general tasks, with the noise that it claims to suffice."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ..encoding._learned import LearnedEncoder, make_trainer
from ..encoding._maps import CodeMap, MapShape
from ..encoding._training import Model, Sample
from ..tensor._blas import one_blas_thread

# Appendix A.8: Adam's learning rate, and steps of an epoch.
_RATE, _N_STEPS = 1e-3, 15
N_EPOCHS = 2000
_DECAYS, _TINY = (0.9, 0.999), 1e-8
_BLOCK_ROWS = 512


@dataclass(frozen=True)
class OpenChannel:
    """Added Laplace noise on codes without a bound, as published.

    Attributes
    ----------
    n_outputs : int
        Number of entries of a code.
    sensitivity : float
        L1 distance of two codes for which the noise is calibrated.
    epsilon : float
        That the noise keeps for codes within that distance.
    """

    n_outputs: int
    sensitivity: float
    epsilon: float
    order = 1
    spread = 1.0

    @property
    def n_components(self) -> int:
        """Dimension of the space of codes."""
        return self.n_outputs

    @property
    def variance(self) -> float:
        """Variance of the noise in each entry."""
        return 2 * (self.sensitivity / self.epsilon) ** 2

    def draw(self, size: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Noise for codes of shape (size, Z)."""
        scale = self.sensitivity / self.epsilon
        return rng.laplace(scale=scale, size=(size, self.n_outputs))

    def inputs(self, codes: NDArray[np.floating]) -> NDArray[np.float64]:
        """Codes, unchanged."""
        return codes.astype(float, copy=False)

    def forward(
        self, codes: NDArray[np.float64], noise: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], None]:
        """Released codes, and None since `backward` needs nothing else."""
        return codes + noise, None

    def backward(
        self,
        codes: NDArray[np.float64],
        noise: NDArray[np.float64],
        saved: Any,
        slopes: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Gradient in the codes, equal to that in the released codes."""
        return slopes


def published_encoder(
    task: Any,
    X: NDArray[np.floating],
    epsilon: float,
    *,
    targets: NDArray[Any] | None,
    n_components: int,
    n_hidden: int,
    penalty: float,
    seed: int,
    n_epochs: int = N_EPOCHS,
    on_epoch: Callable[[], bool] | None = None,
) -> LearnedEncoder:
    """Learn encoder and decoder by Algorithm 1 of Cheng, Tang and Chinchali (2022).

    Encoder and decoder have one hidden layer of logistic units, or none. In every
    epoch, both take steps of Adam on the loss with fixed noise. Then the L1 diameter
    of the training data's codes is computed again, and noise is drawn for it.

    Parameters
    ----------
    task : NetworkTask or object
        With ``value_and_gradient(X_hat, targets)``.
    X : ndarray of shape (n_samples, n)
        Training data.
    epsilon : float
        Claimed by the paper. It does not hold for samples of other people, whose codes
        may be farther apart than those of the training data.
    targets : ndarray of shape (n_samples, ...) or None
        Targets of the task. None for ``task.outputs(X)``; the paper takes labels.
    n_components : int
        Z; 3 in the paper.
    n_hidden : int
        Units in the hidden layers; n, or 0 for linear maps, in the paper.
    penalty : float
        eta, on the encoder's squared parameters; 0.001 or 0.2 in the paper.
    seed : int
        The result is a function of the arguments.
    n_epochs : int, default=2000
    on_epoch : callable, default=None
        Called after each epoch; a true result ends the training.

    Returns
    -------
    learned : LearnedEncoder
        Its channel holds the sensitivity and epsilon of the Laplace noise.

    Raises
    ------
    TypeError, ValueError
        As in `learned_encoder`.
    """
    rng = np.random.default_rng(seed)
    trainer, white = make_trainer(task, X, targets)
    rows, n_columns = trainer.rows, len(trainer.columns)
    encoder = _Logistic(MapShape(n_columns, n_hidden, n_components))
    decoder = _Logistic(MapShape(n_components, n_hidden, n_columns))
    split = encoder.shape.size
    theta = np.concatenate([encoder.random(rng), decoder.random(rng)])
    pull = np.concatenate([np.full(split, 2 * penalty), np.zeros(decoder.shape.size)])
    moments = np.zeros((2, len(theta)))

    def draw() -> tuple[Model, Sample]:
        """The model and its training sample, with noise for the present codes."""
        codes = CodeMap(encoder.shape, encoder.vector(theta[:split]))(rows)
        channel = OpenChannel(n_components, l1_diameter(codes), epsilon)
        noise = channel.draw(len(rows), rng)
        model = Model(encoder.shape, channel, decoder.shape)
        return model, Sample(rows, trainer.targets, noise)

    with one_blas_thread:
        model, sample = draw()
        for epoch in range(n_epochs):
            for step in range(_N_STEPS):
                vectors = encoder.vector(theta[:split]), decoder.vector(theta[split:])
                vector = np.concatenate(vectors)
                slopes = trainer.value_and_gradient(model, vector, sample)[1]
                slopes[:split] = encoder.gradient(slopes[:split])
                slopes[split:] = decoder.gradient(slopes[split:])
                slopes += pull * theta
                _adam(theta, moments, slopes, epoch * _N_STEPS + step + 1)
            model, sample = draw()
            if on_epoch is not None and on_epoch():
                break
    theta_e, theta_d = encoder.vector(theta[:split]), decoder.vector(theta[split:])
    loss = trainer.value_and_gradient(
        model, np.concatenate([theta_e, theta_d]), sample
    )[0]
    return LearnedEncoder(
        white.mean,
        white.scale,
        trainer.columns,
        CodeMap(encoder.shape, theta_e),
        CodeMap(decoder.shape, theta_d),
        model.channel,
        loss,
    )


def _adam(
    theta: NDArray[np.float64],
    moments: NDArray[np.float64],
    slopes: NDArray[np.float64],
    count: int,
) -> None:
    """One step of Kingma and Ba (2015), Algorithm 1; in place."""
    for moment, decay, power in zip(moments, _DECAYS, (1, 2), strict=True):
        moment *= decay
        moment += (1 - decay) * slopes**power
    mean, square = (
        moment / (1 - decay**count)
        for moment, decay in zip(moments, _DECAYS, strict=True)
    )
    theta -= _RATE * mean / (np.sqrt(square) + _TINY)


@dataclass(frozen=True)
class _Logistic:
    """The map b + logistic(x V + c) B, or x A + b without hidden units.

    It is expressed as a `MapShape`, whose units are tanh, by
    logistic(z) = (1 + tanh(z / 2)) / 2.
    """

    shape: MapShape

    def random(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Parameters uniform within 1 / sqrt(inputs), as in PyTorch."""
        sizes = [self.shape.n_inputs] * 4 + [self.shape.n_hidden]
        if self.shape.n_hidden:
            sizes[1] = self.shape.n_hidden
        arrays = [
            rng.uniform(-1, 1, shape) / np.sqrt(max(size, 1))
            for shape, size in zip(self.shape.shapes, sizes, strict=True)
        ]
        if self.shape.n_hidden:
            arrays[0][:] = 0
        return np.concatenate([array.ravel() for array in arrays])

    def vector(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Parameters of the `MapShape` that equals this map."""
        if not self.shape.n_hidden:
            return theta
        vector = theta.copy()
        _, b, V, c, B = self.shape.split(vector)
        V *= 0.5
        c *= 0.5
        B *= 0.5
        b += B.sum(axis=0)
        return vector

    def gradient(self, slopes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Gradient in the logistic parameters, given the gradient in `vector`."""
        if not self.shape.n_hidden:
            return slopes
        gradient = slopes.copy()
        A, b, V, c, B = self.shape.split(gradient)
        A[:] = 0
        B += b
        V *= 0.5
        c *= 0.5
        B *= 0.5
        return gradient


def l1_diameter(points: NDArray[np.float64]) -> float:
    """Largest L1 distance between two rows, exact.

    Parameters
    ----------
    points : ndarray of shape (n_points, n)

    Returns
    -------
    diameter : float

    Notes
    -----
    |x|_1 is the largest of all sums of +x_i and -x_i. The diameter is therefore the
    largest range of the points along the 2^(n - 1) vectors of signs. If these are not
    fewer than the points, all pairs of points are compared instead.
    """
    n_points, n = points.shape
    if n - 1 < np.log2(n_points):
        numbers = np.arange(2 ** (n - 1))
        signs = 1.0 - 2.0 * (numbers[:, np.newaxis] >> np.arange(n) & 1)
        ranges = [np.ptp(points @ block.T, axis=0).max() for block in _blocks(signs)]
    else:
        ranges = [cdist(block, points, "cityblock").max() for block in _blocks(points)]
    return float(max(ranges))


def _blocks(array: NDArray[Any]) -> list[NDArray[Any]]:
    """Blocks of rows, to bound the memory of a product."""
    return [array[i : i + _BLOCK_ROWS] for i in range(0, len(array), _BLOCK_ROWS)]
