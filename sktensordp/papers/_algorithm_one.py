"""The paper's training for general tasks, with the noise that it claims suffices."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import expit

from ..encoding._channels import BallChannel
from ..encoding._learned import LearnedEncoder, make_trainer
from ..encoding._maps import CodeMap, MapShape
from ..encoding._tasks import Task
from ..encoding._training import Model, Sample
from ..privacy.calibration._sensitivity import SensitivitySet
from ..tensor._threads import one_blas_thread
from ._declared_box import StandardBox

_DECAYS, _TINY = (0.9, 0.999), 1e-8
# The phases of a training: whether the encoder is trained, too, and whether there is
# noise.
APPROACHES = {
    "task-aware": ((True, True),),
    "privacy-agnostic": ((True, False), (False, True)),
    "task-agnostic": ((False, True),),
}
_BLOCK_ROWS = 512


@dataclass(frozen=True)
class Training:
    """Settings of Algorithm 1; the defaults are those of Appendix A.8.

    Attributes
    ----------
    eta : float
        Penalty on the encoder's squared parameters; 0.001 or 0.2 in the paper.
    n_epochs, n_steps : int
        Epochs, and steps of each.
    learning_rate : float
        Of Adam.
    """

    eta: float = 0.001
    n_epochs: int = 2000
    n_steps: int = 15
    learning_rate: float = 1e-3


@dataclass(frozen=True)
class OpenChannel(BallChannel):
    """Added Laplace noise on codes that are not clipped, as published.

    Attributes
    ----------
    sensitivity : float
        L1 distance of two codes for which the noise is calibrated.
    """

    sensitivity: float
    spread = 1.0

    @classmethod
    def from_sensitivity(
        cls, n_outputs: int, sensitivity: float, epsilon: float
    ) -> Self:
        """The channel whose noise keeps epsilon for codes within a distance."""
        variance = 2 * (sensitivity / epsilon) ** 2
        return cls("laplace", n_outputs, variance, 1, sensitivity)

    def inputs(self, codes: NDArray[np.floating]) -> NDArray[np.float64]:
        """Codes, unchanged."""
        return codes.astype(float, copy=False)

    def backward(
        self, codes: object, noise: object, saved: object, slopes: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Gradient in the codes, equal to that in the released codes."""
        return slopes


def published_encoder(
    task: Task,
    X: NDArray[np.floating],
    epsilon: float,
    *,
    targets: NDArray[Any] | None,
    n_components: int,
    n_hidden: int,
    training: Training = Training(),
    approach: str = "task-aware",
    box: SensitivitySet | None = None,
    on_epoch: Callable[[], bool] | None = None,
) -> LearnedEncoder:
    """Learn encoder and decoder by Algorithm 1 of Cheng, Tang and Chinchali (2022).

    Or by one of their benchmarks, which train in phases of their own.

    Encoder and decoder have one hidden layer of logistic units, or none. In every
    epoch, both take steps of Adam on the loss with fixed noise. Then the L1 diameter
    of the codes is computed again, of the box or of the training data, and noise is
    drawn for it.

    Parameters
    ----------
    task : NetworkTask or object
        With ``value_and_gradient(X_hat, targets)``.
    X : ndarray of shape (n_samples, n)
        Training data.
    epsilon : float
        Of the noise. Without a box, it does not hold for samples of other people, whose
        codes may be farther apart than those of the training data.
    targets : ndarray of shape (n_samples, ...) or None
        Targets of the task. None for ``task.outputs(X)``; the paper takes labels.
    n_components : int
        Z; 3 in the paper.
    n_hidden : int
        Units in the hidden layers; n, or 0 for linear maps, in the paper.
    training : Training, default=Training()
    approach : {"task-aware", "privacy-agnostic", "task-agnostic"}
        Algorithm 1, or a benchmark of Section A.7.4: encoder and decoder are trained
        without noise and penalty, then the decoder alone with noise; or the decoder
        alone, for codes that are the standardised samples themselves.
    box : SensitivitySet, default=None
        X, a box that holds all samples.
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
    rng = np.random.default_rng(0)
    trainer = make_trainer(task, X, targets)
    rows, n_columns = trainer.rows, len(trainer.columns)
    encoder: MapShape = LogisticMap(n_columns, n_hidden, n_components)
    first = encoder.random(rng)
    if approach == "task-agnostic":
        identity = LogisticMap.affine(np.eye(n_columns))
        encoder, first, n_components = identity.shape, identity.vector, n_columns
    decoder = LogisticMap(n_components, n_hidden, n_columns)
    split = encoder.size
    theta = np.concatenate([first, decoder.random(rng)])
    pull = np.zeros(len(theta))
    if approach == "task-aware":
        pull[:split] = 2 * training.eta
    of_box = box and StandardBox.of(
        box, trainer.white.mean, trainer.white.scale, trainer.columns
    )

    def draw(noisy: bool = True) -> tuple[Model, Sample]:
        """The model and its training sample, with noise for the present codes."""
        code = CodeMap(encoder, theta[:split])
        distance = of_box.diameter(code) if of_box else l1_diameter(code(rows))
        channel = OpenChannel.from_sensitivity(n_components, distance, epsilon)
        noise = channel.draw(len(rows), rng) * float(noisy)
        model = Model(encoder, channel, decoder)
        return model, Sample(rows, trainer.targets, noise)

    def train(both: bool, noisy: bool) -> tuple[Model, Sample]:
        """All epochs of one phase, and the last draw."""
        moments = np.zeros((2, len(theta)))
        model, sample = draw(noisy)
        for epoch in range(training.n_epochs):
            for step in range(training.n_steps):
                slopes = trainer.value_and_gradient(model, theta, sample)[1]
                slopes += pull * theta
                if not both:
                    slopes[:split] = 0.0
                count = epoch * training.n_steps + step + 1
                _adam(theta, moments, slopes, count, training.learning_rate)
            model, sample = draw(noisy)
            if on_epoch is not None and on_epoch():
                break
        return model, sample

    with one_blas_thread:
        for both, noisy in APPROACHES[approach]:
            model, sample = train(both, noisy)
    loss = trainer.value_and_gradient(model, theta, sample)[0]
    return LearnedEncoder(
        trainer.white.mean,
        trainer.white.scale,
        trainer.columns,
        CodeMap(encoder, theta[:split]),
        CodeMap(decoder, theta[split:]),
        model.channel,
        loss,
    )


def _adam(
    theta: NDArray[np.float64],
    moments: NDArray[np.float64],
    slopes: NDArray[np.float64],
    count: int,
    rate: float,
) -> None:
    """One step of Kingma and Ba (2015), Algorithm 1; in place."""
    for moment, decay, power in zip(moments, _DECAYS, (1, 2), strict=True):
        moment *= decay
        moment += (1 - decay) * slopes**power
    mean, square = (
        moment / (1 - decay**count)
        for moment, decay in zip(moments, _DECAYS, strict=True)
    )
    theta -= rate * mean / (np.sqrt(square) + _TINY)


class LogisticMap(MapShape):
    """The map b + logistic(x V + c) B, or x A + b without hidden units."""

    activation = expit

    @classmethod
    def affine(cls, matrix: NDArray[np.float64]) -> CodeMap:
        """The linear map of rows by a matrix of shape (n_outputs, n_inputs)."""
        n_outputs, n_inputs = matrix.shape
        vector = np.concatenate([matrix.T.ravel(), np.zeros(n_outputs)])
        return CodeMap(cls(n_inputs, 0, n_outputs), vector)

    @staticmethod
    def derivative(hidden: NDArray[np.float64]) -> NDArray[np.float64]:
        """Derivative of the logistic function, from its values."""
        return hidden * (1 - hidden)

    def random(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Parameters uniform within 1 / sqrt(inputs), as in PyTorch."""
        sizes = [self.n_inputs] * 4 + [self.n_hidden]
        if self.n_hidden:
            sizes[1] = self.n_hidden
        arrays = [
            rng.uniform(-1, 1, shape) / np.sqrt(max(size, 1))
            for shape, size in zip(self.shapes, sizes, strict=True)
        ]
        if self.n_hidden:
            arrays[0][:] = 0
        return np.concatenate([array.ravel() for array in arrays])

    def gradient(
        self,
        vector: NDArray[np.float64],
        rows: NDArray[np.float64],
        hidden: NDArray[np.float64] | None,
        slopes: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """As in `MapShape`; with hidden units, A stays zero."""
        gradient, inner = super().gradient(vector, rows, hidden, slopes)
        if self.n_hidden:
            self.split(gradient)[0][:] = 0
        return gradient, inner


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
    largest range of the points along the 2^(n - 1) vectors of signs. If there are at
    least as many vectors as points, all pairs of points are compared instead.
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
