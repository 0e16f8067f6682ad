"""The benchmark that encodes for a task as if there were no noise."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..encoding._base import LinearEncoder
from ..encoding._docs import with_shared_text
from ..encoding._linear import LinearProblem


@with_shared_text
class PrivacyAgnosticEncoder(LinearEncoder):
    """Encode for the task as if there were no noise. A benchmark.

    As in :class:`~sktensordp.encoding.TaskAwareEncoder`, the code is clipped,
    randomised and decoded, with the same guarantee. The code holds the principal
    components of the task's output, which have the least loss without noise. You must
    guess how many components are best with noise.

    Parameters
    ----------
    $budget
    $linear_task
    n_components : int, default=3
        Largest number of entries of the code; fewer if the task has fewer directions.
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
    `fit` learns encoder, decoder and clip radius from public data or from people who
    consent, and does not protect those people. In a pipeline that sees private rows,
    use ``FrozenEstimator(encoder)``.

    References
    ----------
    .. [1] Cheng, Tang and Chinchali, "Task-aware privacy preservation for
       multi-dimensional data", 2022, Corollary 3.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.papers import PrivacyAgnosticEncoder
    >>> X = np.random.default_rng(0).normal(size=(500, 6))
    >>> encoder = PrivacyAgnosticEncoder(8.0, n_components=2).fit(X)
    >>> encoder.n_components_
    2
    """

    _parameter_constraints: ClassVar = {
        **LinearEncoder._parameter_constraints,
        "n_components": LinearEncoder._parameter_constraints["n_components"][:1],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 0,
        task: object = None,
        n_components: int = 3,
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
        self.mechanism = mechanism
        self.clip = clip
        self.output = output
        self.tensor_shape = tensor_shape
        self.random_state = random_state

    def _encoding_matrix(
        self, problem: LinearProblem, ratio: float
    ) -> NDArray[np.float64]:
        values = problem.values[: self.n_components]
        directions = problem.basis[:, : self.n_components]
        return np.sqrt(values)[:, np.newaxis] * directions.T
