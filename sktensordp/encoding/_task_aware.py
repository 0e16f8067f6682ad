"""The task-aware encoder, which spends the budget where the task is sensitive."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._sklearn_compat import StrOptions
from ..mechanisms._privunit import LiftedRelease
from ._base import FittedCode, LinearEncoder
from ._channels import code_channel
from ._code_noise import CodeNoise, code_noise, no_noise
from ._docs import with_shared_text
from ._learned import learned_encoder, most_steps
from ._learned_randomizer import fitted_code, is_linear, task_and_targets
from ._linear import LinearCode, LinearProblem, noise_shares, scaled_basis
from ._search import best_clip, refined, search_scaling
from ._sphere_noise import SphereNoise
from ._task_models import task_of


@with_shared_text
class TaskAwareEncoder(LinearEncoder):
    """Encode what a task needs, randomise only that, and decode.

    An encoder maps a sample to a few numbers, the code, and uses their range where the
    task's output varies most. The code is clipped and noise is added; a decoder then
    estimates the sample with the least task loss. One call of `transform` or
    `privatize` is epsilon-differentially private for each sample ((epsilon, delta) for
    ``mechanism="gaussian"``). `fit` learns from public data or from people who consent,
    and does not protect them.

    Parameters
    ----------
    $budget
    task : array-like of shape (m, n), fitted model, object or None, default=None
        Task that is computed from a sample of n entries.

        - A linear task has squared error: a matrix K, or a linear regression of
          scikit-learn with `coef_`. With None, `fit` learns a ridge regression of `y`
          (of an indicator of every class, if `y` holds labels); without `y`, the task
          is the identity.
        - For other tasks, `fit` trains encoder and decoder by gradients; the result is
          called a learned code. The task is a fitted multilayer perceptron or logistic
          regression of scikit-learn, alone or after scalers in a Pipeline
          (`StandardScaler`, `MinMaxScaler`, `MaxAbsScaler` or `RobustScaler`); the loss
          is the cross-entropy or squared error between its outputs for the
          estimate and for the sample. A `TorchTask` wraps a torch module. Any other
          object needs ``value_and_gradient(X_hat, targets)``, which returns a mean loss
          and its gradient, of the shape of ``X_hat``, and ``outputs(X)``, which returns
          the targets. Without `outputs`, the targets are `y`.

        A model stays fitted in clones. Models without gradients, such as a random
        forest, cannot be a task: leave ``task=None`` and pass `y`.
    n_components : int or None, default=None
        Largest number of entries of the code; None searches for it. Learned codes that
        PrivUnit releases have one entry more.
    encoder : {"linear", "mlp"}, default="linear"
        For tasks that are not linear: "linear" learns affine maps, and "mlp" also tries
        maps with a hidden layer of n units.
    $mechanism
        For learned codes, "auto" means "privunit".
    $clip
        Learned codes need ``clip="auto"``: the encoder learns how to use the ball.
    $output
    $tensor_shape
    $random_state

    Attributes
    ----------
    $fitted_code
    $clip_radius
        It is 1 for learned codes.
    $noise_variance
    $expected_task_loss
        For learned codes, the mean loss of the task on the fitting data, with noise
        that was not used in training.
    $task_variance
    task_ : ndarray of shape (m, n) or None
        Matrix K of a linear task; None for other tasks.
    $shapes

    Notes
    -----
    The guarantee holds for every sample of finite numbers, from anybody. A pipeline or
    search fits its steps to its own rows: to protect these, fit the encoder to public
    data, and pass it as scikit-learn's ``FrozenEstimator(encoder)``.

    For a linear task, `fit` takes the encoder from Proposition 4 of [1]_, searches for
    its noise-to-signal ratio together with the clip radius, and refines it by descent
    on the expected loss. For other tasks, it trains encoder and decoder from the same
    closed form for the linearised task and from a random start, and keeps the pair with
    the least loss on held-out noise. `random_state` does not affect this. The loss on
    new people is larger than on the fitting data, and the difference grows with
    epsilon. The loss depends on the units of the columns: standardise them, or weight
    them by the task.

    References
    ----------
    .. [1] Cheng, Tang and Chinchali, "Task-aware privacy preservation for
       multi-dimensional data", 2022, Propositions 1 to 4 and Theorem 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.encoding import TaskAwareEncoder
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2)) @ rng.normal(size=(2, 6))
    >>> encoder = TaskAwareEncoder(8.0, task=np.ones((1, 6))).fit(X)
    >>> encoder.transform(X).shape
    (500, 6)
    >>> encoder.n_components_, encoder.mechanism_
    (1, 'privunit')
    >>> encoder.expected_task_loss_ < 0.2 * encoder.task_variance_
    True
    >>> print(encoder.privacy_guarantee_)
    Each call of transform: (epsilon = 8, delta = 0)-differential privacy for one row of
    X (replace-one).
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearEncoder._parameter_constraints,
        "encoder": [StrOptions({"linear", "mlp"})],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 0,
        task: object = None,
        n_components: int | None = None,
        encoder: str = "linear",
        mechanism: str = "auto",
        clip: float | str = "auto",
        output: str = "decoded",
        tensor_shape: tuple[int, ...] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.task = task
        self.n_components = n_components
        self.encoder = encoder
        self.mechanism = mechanism
        self.clip = clip
        self.output = output
        self.tensor_shape = tensor_shape
        self.random_state = random_state

    @property
    def _n_steps(self) -> int:
        if is_linear(self.task):
            return 1
        return most_steps(self.n_components)

    def _learn(
        self,
        rows: NDArray[np.floating],
        y: ArrayLike | None,
        on_step: Callable[[], bool],
    ) -> FittedCode:
        if is_linear(self.task):
            return super()._learn(rows, y, on_step)
        return self._learn_maps(rows, y, on_step)

    def _check_task(self, n_features: int | None) -> None:
        if is_linear(self.task) and self.encoder == "mlp":
            raise ValueError(
                "encoder='mlp' is for tasks that are not linear. The best encoder of a "
                "linear task is linear: leave encoder='linear'."
            )
        if not is_linear(self.task) and self._clip_level is not None:
            raise ValueError(
                "clip is for linear tasks. For others, the encoder learns the scale of "
                "the code: leave clip='auto'."
            )
        if is_linear(self.task):
            super()._check_task(n_features)
        elif n_features is not None:
            task_of(self.task, np.zeros((1, n_features)))

    def _learn_maps(
        self,
        rows: NDArray[np.floating],
        y: ArrayLike | None,
        on_step: Callable[[], bool],
    ) -> FittedCode:
        """Learn encoder, decoder and noise for a task with a gradient."""
        epsilon, delta = float(self.epsilon), float(self.delta)
        name = "privunit" if self.mechanism == "auto" else self.mechanism

        def noise_for(size: int) -> CodeNoise:
            if math.isinf(epsilon):
                return no_noise(size, clipped=True)
            return code_noise(name, size, epsilon, delta)

        task, targets = task_and_targets(self.task, rows, y)
        learned = learned_encoder(
            task,
            rows,
            lambda size: code_channel(noise_for(size), size),
            targets=targets,
            n_components=self.n_components,
            n_hidden=rows.shape[1] if self.encoder == "mlp" else 0,
            seed=0,
            on_step=on_step,
        )
        noise = noise_for(learned.n_components)
        given = noise.randomizer
        release = SphereNoise(given.cap) if isinstance(given, LiftedRelease) else given
        return fitted_code(task, rows, targets, learned, noise, release, 1.0)

    def _encoding_matrix(
        self, problem: LinearProblem, ratio: float
    ) -> NDArray[np.float64]:
        values = problem.values[: self.n_components]
        return scaled_basis(problem, noise_shares(values, ratio)[0])

    def _search_code(
        self,
        problem: LinearProblem,
        noise_for: Callable[[int], CodeNoise],
        level: float | None,
    ) -> tuple[LinearCode, CodeNoise]:
        shares, levels = search_scaling(problem, noise_for, self.n_components, level)
        noise = noise_for(len(shares))
        return best_clip(problem, scaled_basis(problem, shares), noise, levels), noise

    def _refined(
        self, problem: LinearProblem, code: LinearCode, noise: CodeNoise
    ) -> LinearCode:
        return refined(problem, code, noise)
