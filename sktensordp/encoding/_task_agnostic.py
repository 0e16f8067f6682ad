"""The benchmark for task-aware encoding."""

import numpy as np
from numpy.typing import NDArray

from ._base import LinearEncoder
from ._docs import with_shared_text
from ._linear import LinearProblem


@with_shared_text
class TaskAgnosticEncoder(LinearEncoder):
    """Randomise the whole sample, and decode it for the task. A benchmark.

    As in `TaskAwareEncoder`, the code is clipped, randomised and decoded, with the same
    guarantee. But the code is the standardised sample itself, so the noise is spread
    over all entries, whether the task needs them or not.

    Parameters
    ----------
    $budget
    $linear_task
    $mechanism
    $clip
    $output
    $tensor_shape
    $random_state

    Attributes
    ----------
    $fitted_code
    $clip_radius
    $noise_variance
    $expected_task_loss
    $task_variance
    $task_matrix
    $shapes

    Notes
    -----
    `fit` learns moments, decoder and clip radius from public data or from people who
    consent, and does not protect those people. In a pipeline that sees private rows,
    use ``FrozenEstimator(encoder)``.

    References
    ----------
    .. [1] Cheng, Tang and Chinchali, "Task-aware privacy preservation for
       multi-dimensional data", 2022, Corollary 2.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.encoding import TaskAgnosticEncoder
    >>> X = np.random.default_rng(0).normal(size=(500, 6))
    >>> encoder = TaskAgnosticEncoder(8.0, task=np.ones((1, 6))).fit(X)
    >>> encoder.n_components_
    6
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 0,
        task: object = None,
        mechanism: str = "auto",
        clip: float | str = "auto",
        output: str = "decoded",
        tensor_shape: tuple[int, ...] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.task = task
        self.mechanism = mechanism
        self.clip = clip
        self.output = output
        self.tensor_shape = tensor_shape
        self.random_state = random_state

    def _encoding_matrix(
        self, problem: LinearProblem, ratio: float
    ) -> NDArray[np.float64]:
        return problem.whitening.root
