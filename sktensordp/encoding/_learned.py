"""Encoders and decoders learned for any task with a gradient.

Training starts from the closed form for the linearised task and runs L-BFGS on the loss
itself. It replaces the alternating descent of Cheng, Tang and Chinchali (2022),
Algorithm 1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..tensor._threads import one_blas_thread
from ._channels import Channel
from ._linear import LinearCode, code_norms, linear_problem, scaled_basis
from ._maps import CodeMap, MapShape, in_columns
from ._search import best_clip, search_scaling
from ._tasks import NetworkTask, Task, check_gradient, linearised
from ._training import DECODER_STEPS, JOINT_STEPS, Model, Trainer
from ._whitening import Whitening, standardized, whitening

# Candidate numbers of components.
_COMPONENTS = (1, 2, 3, 5, 8)
# Up to this many columns, one thread is faster than several.
_FEW_COLUMNS = 256


@dataclass(frozen=True)
class LearnedEncoder:
    """A trained encoder and decoder; of the training data, it keeps only moments.

    Attributes
    ----------
    mean, scale : ndarray of shape (n,)
        Mean and scale of the original columns.
    columns : ndarray of int
        Columns that varied; the others do not enter a code.
    encoder : CodeMap
        Takes standardised columns.
    decoder : CodeMap
        Takes released codes over `channel.spread`; gives standardised columns.
    channel : Channel
        Releases codes.
    expected_loss : float
        Mean loss of the task on held-out noise.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    columns: NDArray[np.int64]
    encoder: CodeMap
    decoder: CodeMap
    channel: Channel
    expected_loss: float

    @property
    def n_components(self) -> int:
        """Z, the dimension of the code; on the sphere of R^(Z + 1) for PrivUnit."""
        return self.channel.n_components

    def units(self, X: NDArray[np.floating]) -> NDArray[np.float64]:
        """Bounded codes of samples, before noise.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n)
            Any numbers including infinity, but not NaN.

        Returns
        -------
        units : ndarray of shape (n_samples, channel.n_outputs)
            Unit vectors for PrivUnit, otherwise points of the unit ball; never NaN.
        """
        standard = standardized(X, self.mean, self.scale)[:, self.columns]
        return self.channel.inputs(self.encoder(standard))

    def decode(self, F: ArrayLike) -> NDArray[np.float64]:
        """Estimates of samples, in the original columns.

        Parameters
        ----------
        F : ndarray of shape (n_samples, channel.n_outputs)
            Released codes: unbiased estimates of `units`.

        Returns
        -------
        X_hat : ndarray of shape (n_samples, n)
        """
        decoded = self.decoder(np.asarray(F, dtype=float) / self.channel.spread)
        return in_columns(decoded, self.mean, self.scale, self.columns)


def learned_encoder(
    task: Task,
    X: NDArray[np.floating],
    channel_for: Callable[[int], Channel],
    *,
    targets: NDArray[Any] | None = None,
    n_components: int | None,
    n_hidden: int,
    seed: int,
    on_step: Callable[[], bool] | None = None,
) -> LearnedEncoder:
    """Learn the encoder and decoder with the least loss of a task on held-out noise.

    Three kinds of candidates compete: closed forms of the linearised task with a
    trained decoder, the best of these with its encoder trained too, and a model trained
    from random weights.

    Parameters
    ----------
    task : NetworkTask or object
        Offers ``value_and_gradient(X_hat, targets)``, and ``outputs(X)`` unless targets
        are given.
    X : ndarray of shape (n_samples, n)
        Training data, finite: public, or of people who consent.
    channel_for : callable
        Maps a number of components to a channel; raises ValueError if none exists.
    targets : ndarray of shape (n_samples, ...), default=None
        Targets of the task. None for ``outputs(X)``.
    n_components : int or None
        Largest Z. None tries several.
    n_hidden : int
        Hidden units of the encoder and decoder that start at random; 0 for affine maps.
    seed : int
        The result is a function of the arguments.
    on_step : callable, default=None
        Called after each iteration; a true result ends one training.

    Returns
    -------
    learned : LearnedEncoder

    Raises
    ------
    TypeError
        If the task does not return a number and an array, or has no targets.
    ValueError
        If a result of the task has the wrong shape, is not finite or does not vary.
    """
    limits = _limits(n_components)
    with one_blas_thread if X.shape[1] <= _FEW_COLUMNS else nullcontext():
        trainer = make_trainer(task, X, targets, on_step)
        starts = _closed_forms(trainer, X, functools.cache(channel_for), limits)
        loss, model, vector = _best(trainer, starts, n_hidden, seed)
    theta_e, theta_d = np.split(vector, [model.encoder.size])
    return LearnedEncoder(
        trainer.white.mean,
        trainer.white.scale,
        trainer.columns,
        CodeMap(model.encoder, theta_e),
        CodeMap(model.decoder, theta_d),
        model.channel,
        loss,
    )


def most_steps(n_components: int | None) -> int:
    """Largest number of iterations of `learned_encoder`."""
    return 2 * len(_limits(n_components)) * DECODER_STEPS + 2 * JOINT_STEPS


def _limits(n_components: int | None) -> tuple[int, ...]:
    """Largest numbers of components to try."""
    return _COMPONENTS if n_components is None else (n_components,)


def _best(
    trainer: Trainer,
    starts: Iterable[tuple[Model, NDArray[np.float64]]],
    n_hidden: int,
    seed: int,
) -> tuple[float, Model, NDArray[np.float64]]:
    """The best candidate on held-out noise: its loss, model and parameters."""
    training, held_out = np.random.SeedSequence(seed).spawn(2)
    rng = np.random.default_rng(training)
    candidates = []

    def compare(model: Model, vector: NDArray[np.float64]) -> None:
        sample = trainer.sample(
            model.channel, np.random.default_rng(held_out), held_out=True
        )
        loss = trainer.value_and_gradient(model, vector, sample)[0]
        candidates.append((loss, model, vector))

    for model, vector in starts:
        sample = trainer.sample(model.channel, rng)
        compare(model, trainer.train_decoder(model, vector, sample))
    _, model, vector = min(candidates, key=lambda candidate: candidate[0])
    sample = trainer.sample(model.channel, rng)
    compare(model, trainer.train(model, vector, sample))
    model = Model(
        MapShape(len(trainer.columns), n_hidden, model.channel.n_outputs),
        model.channel,
        MapShape(model.channel.n_outputs, n_hidden, len(trainer.columns)),
    )
    vector = np.concatenate([model.encoder.random(rng), model.decoder.random(rng)])
    compare(model, trainer.train(model, vector, sample))
    return min(candidates, key=lambda candidate: candidate[0])


def make_trainer(
    task: Task,
    X: NDArray[np.floating],
    targets: NDArray[Any] | None,
    on_step: Callable[[], bool] | None = None,
) -> Trainer:
    """Check the task on the training data, and standardise the data.

    Parameters
    ----------
    task, X, targets, on_step
        As in `learned_encoder`.

    Returns
    -------
    trainer : Trainer
    """
    soft = targets is None
    if targets is None:
        if not callable(getattr(task, "outputs", None)):
            raise TypeError(
                "The `task` has no outputs(X), so it needs targets. Pass them as `y`."
            )
        targets = task.outputs(X)
    white = whitening(X)
    columns = np.flatnonzero(code_norms(white.root, 2) > 0.5)
    means = np.tile(white.mean, (len(X), 1))
    base = check_gradient(task, means, targets) - check_gradient(task, X, targets)
    rows = white.standardize(X)[:, columns]
    base = base if base > 0 else 1.0
    return Trainer(task, white, columns, rows, targets, soft, base, on_step)


def _closed_forms(
    trainer: Trainer,
    X: NDArray[np.floating],
    channel_for: Callable[[int], Channel],
    limits: tuple[int, ...],
) -> Iterator[tuple[Model, NDArray[np.float64]]]:
    """The best affine models for the linearised task, under each of its metrics.

    The code phi is that of Propositions 1 to 4. For the sphere, it is placed in a
    tangent hyperplane, e = (phi, 1).
    """
    task, white, scale = trainer.task, trainer.white, trainer.white.scale
    for curved in (True, False) if isinstance(task, NetworkTask) else (True,):
        metric = linearised(task, X, trainer.targets, scale, curved=curved)
        values, vectors = np.linalg.eigh(metric * np.outer(scale, scale))
        matrix = np.sqrt(np.maximum(values, 0.0))[:, np.newaxis] * vectors.T / scale
        problem = linear_problem(X, matrix, white)
        tried = set()
        for limit in limits:
            shares, levels = search_scaling(problem, channel_for, limit, None)
            if len(shares) in tried:
                continue
            tried.add(len(shares))
            channel = channel_for(len(shares))
            code = best_clip(problem, scaled_basis(problem, shares), channel, levels)
            yield _affine_model(code, white, trainer.columns, channel)


def _affine_model(
    code: LinearCode,
    white: Whitening,
    columns: NDArray[np.int64],
    channel: Channel,
) -> tuple[Model, NDArray[np.float64]]:
    """The model of a linear code, for standardised columns, with its parameters."""
    encoding = (code.encoder @ white.inverse / code.divisor).T[columns]
    decoding = (white.root @ code.decoder).T[:, columns]
    offset = -code.centre @ decoding
    n_extra = channel.n_outputs - channel.n_components
    encoding = np.pad(encoding, ((0, 0), (0, n_extra)))
    decoding = np.pad(decoding, ((0, n_extra), (0, 0)))
    bias = np.pad(np.zeros(channel.n_components), (0, n_extra), constant_values=1.0)
    encoder = MapShape(len(columns), 0, channel.n_outputs)
    decoder = MapShape(channel.n_outputs, 0, len(columns))
    decoding = decoding * channel.spread
    vector = np.concatenate([encoding.ravel(), bias, decoding.ravel(), offset])
    return Model(encoder, channel, decoder), vector
