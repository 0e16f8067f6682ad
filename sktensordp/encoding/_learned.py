"""Encoders and decoders learned for any task with a gradient.

Instead of the alternating descent of Cheng, Tang and Chinchali (2022), Algorithm 1:
the closed form for the linearised task, then L-BFGS on the loss itself.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..tensor._blas import one_blas_thread
from ._channels import BallChannel, OpenChannel, SphereChannel
from ._linear import LinearCode, code_norms, linear_problem, scaled_basis
from ._maps import CodeMap, MapShape, in_columns
from ._search import best_clip, search_scaling
from ._tasks import NetworkTask, check_gradient, linearised
from ._training import JOINT, POLISH, Model, Trainer
from ._whitening import Whitening, standardized, whitening

__all__ = ["LearnedEncoder", "learned_encoder", "most_steps", "trainer_of"]

# Numbers of components to choose from.
_COMPONENTS = (1, 2, 3, 5, 8)
# With no more columns than this, one thread is faster than several.
_FEW_COLUMNS = 256


@dataclass(frozen=True)
class LearnedEncoder:
    """An encoder and a decoder; nothing of the training data but their moments.

    Attributes
    ----------
    mean, scale : ndarray of shape (n,)
        Of the original columns.
    columns : ndarray of int
        Those that varied; the others do not enter a code.
    encoder, decoder : CodeMap
        Of standardised columns; the decoder takes releases over `channel.spread`.
    channel : SphereChannel, BallChannel or OpenChannel
        What codes are released by.
    expected_loss : float
        Mean loss of the task, on noise that nothing was trained on.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    columns: NDArray[np.int64]
    encoder: CodeMap
    decoder: CodeMap
    channel: SphereChannel | BallChannel | OpenChannel
    expected_loss: float

    @property
    def n_components(self) -> int:
        """Z, the dimension of the code; on the sphere of R^(Z + 1) for PrivUnit."""
        return self.channel.n_components

    def units(self, X: NDArray[np.floating]) -> NDArray[np.float64]:
        """What is released of samples, before noise.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n)
            Any numbers, infinite ones included; not NaN.

        Returns
        -------
        units : ndarray of shape (n_samples, channel.n_outputs)
            Unit vectors for PrivUnit, points of the unit ball else; never NaN.
        """
        standard = standardized(X, self.mean, self.scale)[:, self.columns]
        return self.channel.inputs(self.encoder(standard))

    def decode(self, F: ArrayLike) -> NDArray[np.float64]:
        """Estimates of samples, in the original columns.

        Parameters
        ----------
        F : ndarray of shape (n_samples, channel.n_outputs)
            What was released: unbiased estimates of `units`.

        Returns
        -------
        X_hat : ndarray of shape (n_samples, n)
        """
        decoded = self.decoder(np.asarray(F, dtype=float) / self.channel.spread)
        return in_columns(decoded, self.mean, self.scale, self.columns)


def learned_encoder(
    task: Any,
    X: NDArray[np.floating],
    channel: Callable[[int], SphereChannel | BallChannel],
    *,
    targets: NDArray[Any] | None = None,
    n_components: int | None,
    n_hidden: int,
    seed: int,
    on_step: Callable[[], bool] | None = None,
) -> LearnedEncoder:
    """Encoder and decoder with the least loss of a task, on noise held out.

    Candidates are the closed form of the linearised task with its decoder trained,
    that with its encoder trained as well, and a model with random weights, trained.

    Parameters
    ----------
    task : NetworkTask or object
        With ``value_and_gradient(X_hat, targets)``, and ``outputs(X)`` unless targets
        are given.
    X : ndarray of shape (n_samples, n)
        Training data, finite: public, or of people who consent.
    channel : callable
        Maps a number of components to a channel; ValueError where there is none.
    targets : ndarray of shape (n_samples, ...), default=None
        What the task compares estimates with. None for ``outputs(X)``.
    n_components : int or None
        Z at most. None tries several.
    n_hidden : int
        Units in the hidden layer of the randomly started encoder and decoder; 0 for
        affine ones.
    seed : int
        The result is a function of the arguments.
    on_step : callable, default=None
        Called after each iteration; a true answer ends a training.

    Returns
    -------
    learned : LearnedEncoder

    Raises
    ------
    TypeError
        If the task does not answer with a number and an array, or no targets are
        known.
    ValueError
        If an answer has the wrong shape or is not finite, or does not vary.
    """
    limits = _limits(n_components)
    with one_blas_thread if X.shape[1] <= _FEW_COLUMNS else nullcontext():
        trainer, white = trainer_of(task, X, targets, on_step)
        starts = _closed_forms(trainer, white, X, functools.cache(channel), limits)
        loss, model, vector = _best(trainer, starts, n_hidden, seed)
    first, second = np.split(vector, [model.encoder.size])
    return LearnedEncoder(
        white.mean,
        white.scale,
        trainer.columns,
        CodeMap(model.encoder, first),
        CodeMap(model.decoder, second),
        model.channel,
        loss,
    )


def most_steps(n_components: int | None) -> int:
    """Iterations of `learned_encoder` at most."""
    return 2 * len(_limits(n_components)) * POLISH + 2 * JOINT


def _limits(n_components: int | None) -> tuple[int, ...]:
    return _COMPONENTS if n_components is None else (n_components,)


def _best(
    trainer: Trainer,
    starts: Iterable[tuple[Model, NDArray[np.float64]]],
    n_hidden: int,
    seed: int,
) -> tuple[float, Model, NDArray[np.float64]]:
    """The least loss of the candidates on noise held out, its model and parameters."""
    training, held_out = np.random.SeedSequence(seed).spawn(2)
    rng = np.random.default_rng(training)
    found = []

    def compare(model: Model, vector: NDArray[np.float64]) -> None:
        sample = trainer.sample(
            model.channel, np.random.default_rng(held_out), held_out=True
        )
        loss = trainer.value_and_gradient(model, vector, sample)[0]
        found.append((loss, model, vector))

    for model, vector in starts:
        sample = trainer.sample(model.channel, rng)
        compare(model, trainer.polished(model, vector, sample))
    _, model, vector = min(found, key=lambda one: one[0])
    sample = trainer.sample(model.channel, rng)
    compare(model, trainer.trained(model, vector, sample))
    model = Model(
        MapShape(len(trainer.columns), n_hidden, model.channel.n_outputs),
        model.channel,
        MapShape(model.channel.n_outputs, n_hidden, len(trainer.columns)),
    )
    vector = np.concatenate([model.encoder.random(rng), model.decoder.random(rng)])
    compare(model, trainer.trained(model, vector, sample))
    return min(found, key=lambda one: one[0])


def trainer_of(
    task: Any,
    X: NDArray[np.floating],
    targets: NDArray[Any] | None,
    on_step: Callable[[], bool] | None = None,
) -> tuple[Trainer, Whitening]:
    """The training data, standardised, once the task has been tried on them.

    Parameters
    ----------
    task, X, targets, on_step
        As in `learned_encoder`.

    Returns
    -------
    trainer : Trainer
    white : Whitening
    """
    soft = targets is None
    if targets is None:
        if not callable(getattr(task, "outputs", None)):
            raise TypeError(
                "A task without outputs(X) needs targets to compare estimates with."
            )
        targets = task.outputs(X)
    white = whitening(X)
    columns = np.flatnonzero(code_norms(white.root, 2) > 0.5)
    nothing = np.tile(white.mean, (len(X), 1))
    base = check_gradient(task, nothing, targets) - check_gradient(task, X, targets)
    trainer = Trainer(
        task,
        white.mean,
        white.scale,
        columns,
        standardized(X, white.mean, white.scale)[:, columns],
        white.root[columns],
        targets,
        soft,
        base if base > 0 else 1.0,
        on_step,
    )
    return trainer, white


def _closed_forms(
    trainer: Trainer,
    white: Whitening,
    X: NDArray[np.floating],
    channel: Callable[[int], SphereChannel | BallChannel],
    limits: tuple[int, ...],
) -> Iterator[tuple[Model, NDArray[np.float64]]]:
    """Affine models that are best for the linearised task, both of its metrics.

    The code is the one of Propositions 1 to 4. On the sphere it is put into the
    hyperplane that touches it, e = (phi, 1).
    """
    task, scale = trainer.task, white.scale
    kinds = (True, False) if isinstance(task, NetworkTask) else (True,)
    for curved in kinds:
        metric = linearised(task, X, trainer.targets, scale, curved=curved)
        values, vectors = np.linalg.eigh(metric * np.outer(scale, scale))
        matrix = np.sqrt(np.maximum(values, 0.0))[:, np.newaxis] * vectors.T / scale
        problem = linear_problem(X, matrix, white)
        tried = set()
        for limit in limits:
            shares, levels = search_scaling(problem, channel, limit, None)
            if len(shares) in tried:
                continue
            tried.add(len(shares))
            one = channel(len(shares))
            code = best_clip(problem, scaled_basis(problem, shares), one, levels)
            yield _affine(code, white, trainer.columns, one)


def _affine(
    code: LinearCode,
    white: Whitening,
    columns: NDArray[np.int64],
    channel: SphereChannel | BallChannel,
) -> tuple[Model, NDArray[np.float64]]:
    """A linear code as an encoder and a decoder of standardised columns."""
    into = (code.encoder @ white.inverse / code.unit).T[columns]
    back = (white.root @ code.decoder).T[:, columns]
    offset = -code.centre @ back
    more = channel.n_outputs - channel.n_components
    into, back = np.pad(into, ((0, 0), (0, more))), np.pad(back, ((0, more), (0, 0)))
    bias = np.pad(np.zeros(channel.n_components), (0, more), constant_values=1.0)
    encoder = MapShape(len(columns), 0, channel.n_outputs)
    decoder = MapShape(channel.n_outputs, 0, len(columns))
    vector = np.concatenate(
        [encoder.affine(into, bias), decoder.affine(back * channel.spread, offset)]
    )
    return Model(encoder, channel, decoder), vector
