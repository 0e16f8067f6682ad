"""Learned encoders for the estimator: client's half, server's half and noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier

from .._validation import check_unmasked
from ..mechanisms._privunit import LiftedRelease
from ._base import FittedCode
from ._channels import code_channel
from ._client import ClientRandomizer
from ._code_noise import CodeNoise, code_noise, no_noise
from ._learned import LearnedEncoder, learned_encoder
from ._sphere_noise import SphereNoise
from ._task_models import task_of


def is_linear(task: Any) -> bool:
    """Whether a task is None, a matrix or a linear regression."""
    if callable(getattr(task, "value_and_gradient", None)):
        return False
    if not hasattr(task, "predict"):
        return True
    return hasattr(task, "coef_") and not is_classifier(task)


def learned_code(
    model: Any,
    rows: NDArray[np.floating],
    y: ArrayLike | None,
    *,
    mechanism: str,
    epsilon: float,
    delta: float,
    n_components: int | None,
    n_hidden: int,
    on_step: Callable[[], bool] | None = None,
) -> FittedCode:
    """Learn encoder and decoder for a task with a gradient, with sound noise.

    Parameters
    ----------
    model : object
        As in `task_of`.
    rows : ndarray of shape (n_samples, n)
        The fitting data.
    y : array-like or None
        Targets of a task without `outputs`.
    mechanism : str
        "auto" means "privunit"; "none" adds no noise.
    epsilon, delta : float
    n_components : int or None
    n_hidden : int
        Hidden units of encoder and decoder; 0 for affine maps.
    on_step : callable, default=None
        Called after each iteration; a true result ends one training.

    Returns
    -------
    code : FittedCode
    """
    name = "privunit" if mechanism == "auto" else mechanism

    def noise_for(size: int) -> CodeNoise:
        if name == "none":
            return no_noise(size, clipped=True)
        return code_noise(name, size, epsilon, delta)

    task, targets = task_and_targets(model, rows, y)
    learned = learned_encoder(
        task,
        rows,
        lambda size: code_channel(noise_for(size), size),
        targets=targets,
        n_components=n_components,
        n_hidden=n_hidden,
        seed=0,
        on_step=on_step,
    )
    noise = noise_for(learned.n_components)
    release: Any = noise.randomizer
    if isinstance(release, LiftedRelease):
        release = SphereNoise(release.cap)
    return fitted_code(task, rows, targets, learned, noise, release, 1.0)


def task_and_targets(
    model: Any, rows: NDArray[np.floating], y: ArrayLike | None
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
    task: Any,
    rows: NDArray[np.floating],
    targets: NDArray[Any] | None,
    learned: LearnedEncoder,
    noise: CodeNoise,
    release: Any,
    radius: float,
) -> FittedCode:
    """A trained encoder as the estimator stores it."""
    randomizer = ClientRandomizer(
        learned.mean, learned.scale, learned.encoder, release, learned.columns
    )
    if targets is None:
        targets = task.outputs(rows)
    means = np.tile(learned.mean, (len(rows), 1))
    return FittedCode(
        randomizer,
        learned,
        noise,
        learned.channel.n_outputs,
        radius,
        learned.expected_loss,
        float(task.value_and_gradient(means, targets)[0]),
        None,
    )
