"""Learned encoders for the estimator: client's half, server's half and noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, is_classifier

from .._validation import check_unmasked
from ._base import FittedCode
from ._client import ClientRandomizer, ReleasesCodes
from ._code_noise import CodeNoise
from ._learned import LearnedEncoder
from ._task_models import task_of
from ._tasks import Task


def is_linear(task: object) -> bool:
    """Whether a task is None, a matrix or a linear regression."""
    if callable(getattr(task, "value_and_gradient", None)):
        return False
    if not hasattr(task, "predict"):
        return True
    return hasattr(task, "coef_") and not is_classifier(task)


def task_and_targets(
    model: BaseEstimator, rows: NDArray[np.floating], y: ArrayLike | None
) -> tuple[Any, NDArray[Any] | None]:
    """The task, and `y` as targets if the task has no `outputs`."""
    task = task_of(model, rows)
    if callable(getattr(task, "outputs", None)) or y is None:
        return task, None
    check_unmasked(y, "y")
    targets = np.asarray(y)
    if targets.ndim == 0 or len(targets) != len(rows):
        raise ValueError(
            f"y must have one target for each of the {len(rows)} samples, got an array "
            f"of shape {targets.shape}."
        )
    return task, targets


def fitted_code(
    task: Task,
    rows: NDArray[np.floating],
    targets: NDArray[Any] | None,
    learned: LearnedEncoder,
    noise: CodeNoise,
    release: ReleasesCodes,
    radius: float,
) -> FittedCode:
    """A trained encoder as the estimator stores it."""
    randomizer = ClientRandomizer(
        learned.mean, learned.scale, learned.encoder, release, learned.columns
    )
    if targets is None:
        targets = task.outputs(rows)

    def loss_of(estimates: NDArray[np.floating]) -> float:
        return float(task.value_and_gradient(estimates, targets)[0])

    # Of noise alone, the decoder makes the constant that it found best, which may be
    # better than the mean.
    constant = learned.decode(learned.units(rows).mean(axis=0, keepdims=True))
    most = loss_of(np.tile(constant, (len(rows), 1))) - loss_of(rows)
    lost = learned.expected_loss - loss_of(rows)
    return FittedCode(
        randomizer,
        learned,
        noise,
        learned.channel.n_outputs,
        radius,
        learned.expected_loss,
        loss_of(np.tile(learned.mean, (len(rows), 1))),
        1 - lost / most if most > 0 else 1.0,
        None,
    )
