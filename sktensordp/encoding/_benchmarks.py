"""The two approaches that task-aware encoding is compared with."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ._base import LinearEncoder
from ._linear import LinearProblem

__all__ = ["PrivacyAgnosticEncoder", "TaskAgnosticEncoder"]


class TaskAgnosticEncoder(LinearEncoder):
    """Randomise a whole sample, and decode it for the task. A benchmark.

    The code is the sample itself, every entry standardised; it is clipped, randomised
    and decoded as by `TaskAwareEncoder`, with the same guarantee. Noise is spread over
    all entries, whether the task needs them or not.

    Moments, decoder and clip radius are learned in `fit` from public data, or from
    people who consent: towards them, what is learned is not private.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget of a sample at one call of `transform` or `privatize`.
        ``float("inf")`` adds no noise, and clips nothing unless `clip` is a number.
    delta : float, default=0
        For ``mechanism="gaussian"``, which needs it; the others are pure.
    task : array-like of shape (m, n), fitted linear model or None, default=None
        What is computed from a sample of n entries: a matrix K, or a regression of
        scikit-learn with `coef_`. None fits a ridge regression of `y` in `fit`, and
        takes the identity if there is no `y`.
    mechanism : {"auto", "laplace", "l2", "privunit", "gaussian"}, default="auto"
        How the code is released: clipped in L1, with discrete Laplace noise; clipped in
        L2, with noise of density ``exp(-epsilon |y| / 2R)``; clipped in L2, by PrivUnit
        on the lifted sphere; clipped in L2, with Gaussian noise. "auto" is the one of
        the first three, which are pure, with the least expected loss.
    clip : "auto" or float in (0, 1], default="auto"
        Share of the fitting data's codes that the ball holds; the radius is fixed in
        `fit`. "auto" takes the one with the least expected loss.
    calibration : {"sound", "published"}, default="sound"
        "published" is the paper's: nothing is clipped, and Laplace noise is for the
        largest distance of two codes in the fitting data. It warns, for no finite
        epsilon holds for the samples of other people.
    output : {"decoded", "code"}, default="decoded"
        What `transform` returns: estimates of the samples, or their noisy codes.
    tensor_shape : tuple of int, default=None
        Shape of a sample, for samples passed as rows of features.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers: it repeats the noise in every clone, although
        never in two calls of one object.

    Attributes
    ----------
    privacy_guarantee_ : PrivacyGuarantee
        Of one call of `transform` or `privatize`.
    n_components_ : int
        Number of entries of the code.
    mechanism_ : str
        The mechanism that is taken; "none" without noise.
    clip_ : float
        Radius of the ball, in units of the code; infinite where nothing is clipped.
    noise_variance_ : float
        Variance of the noise in an entry of the code, in squared units of the radius.
    expected_task_loss_ : float
        Expected ``|K x_hat - K x|^2`` of a sample, over the fitting data and the noise.
    task_variance_ : float
        What that loss would be if every sample were estimated by the mean.
    task_ : ndarray of shape (m, n)
        K.
    sample_shape_ : tuple of int
        Shape of a sample.
    n_features_in_ : int
        Size of the first axis of a sample.

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

    _parameter_constraints: ClassVar = {
        name: constraint
        for name, constraint in LinearEncoder._parameter_constraints.items()
        if name != "n_components"
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 0,
        task: object = None,
        mechanism: str = "auto",
        clip: float | str = "auto",
        calibration: str = "sound",
        output: str = "decoded",
        tensor_shape: tuple[int, ...] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.task = task
        self.mechanism = mechanism
        self.clip = clip
        self.calibration = calibration
        self.output = output
        self.tensor_shape = tensor_shape
        self.random_state = random_state

    def _encoder(self, problem: LinearProblem, ratio: float) -> NDArray[np.float64]:
        return problem.whitening.root


class PrivacyAgnosticEncoder(LinearEncoder):
    """Encode for the task as if there were no noise. A benchmark.

    The code holds the principal components of the task's output, which lose least
    without noise; it is clipped, randomised and decoded as by `TaskAwareEncoder`, with
    the same guarantee. How many components bear the noise best has to be guessed.

    Encoder, decoder and clip radius are learned in `fit` from public data, or from
    people who consent: towards them, what is learned is not private.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget of a sample at one call of `transform` or `privatize`.
        ``float("inf")`` adds no noise, and clips nothing unless `clip` is a number.
    delta : float, default=0
        For ``mechanism="gaussian"``, which needs it; the others are pure.
    task : array-like of shape (m, n), fitted linear model or None, default=None
        What is computed from a sample of n entries: a matrix K, or a regression of
        scikit-learn with `coef_`. None fits a ridge regression of `y` in `fit`, and
        takes the identity if there is no `y`.
    n_components : int, default=3
        Entries of the code at most; fewer where the task has fewer directions.
    mechanism : {"auto", "laplace", "l2", "privunit", "gaussian"}, default="auto"
        How the code is released: clipped in L1, with discrete Laplace noise; clipped in
        L2, with noise of density ``exp(-epsilon |y| / 2R)``; clipped in L2, by PrivUnit
        on the lifted sphere; clipped in L2, with Gaussian noise. "auto" is the one of
        the first three, which are pure, with the least expected loss.
    clip : "auto" or float in (0, 1], default="auto"
        Share of the fitting data's codes that the ball holds; the radius is fixed in
        `fit`. "auto" takes the one with the least expected loss.
    calibration : {"sound", "published"}, default="sound"
        "published" is the paper's: nothing is clipped, and Laplace noise is for the
        largest distance of two codes in the fitting data. It warns, for no finite
        epsilon holds for the samples of other people.
    output : {"decoded", "code"}, default="decoded"
        What `transform` returns: estimates of the samples, or their noisy codes.
    tensor_shape : tuple of int, default=None
        Shape of a sample, for samples passed as rows of features.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers: it repeats the noise in every clone, although
        never in two calls of one object.

    Attributes
    ----------
    privacy_guarantee_ : PrivacyGuarantee
        Of one call of `transform` or `privatize`.
    n_components_ : int
        Number of entries of the code.
    mechanism_ : str
        The mechanism that is taken; "none" without noise.
    clip_ : float
        Radius of the ball, in units of the code; infinite where nothing is clipped.
    noise_variance_ : float
        Variance of the noise in an entry of the code, in squared units of the radius.
    expected_task_loss_ : float
        Expected ``|K x_hat - K x|^2`` of a sample, over the fitting data and the noise.
    task_variance_ : float
        What that loss would be if every sample were estimated by the mean.
    task_ : ndarray of shape (m, n)
        K.
    sample_shape_ : tuple of int
        Shape of a sample.
    n_features_in_ : int
        Size of the first axis of a sample.

    References
    ----------
    .. [1] Cheng, Tang and Chinchali, "Task-aware privacy preservation for
       multi-dimensional data", 2022, Corollary 3.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.encoding import PrivacyAgnosticEncoder
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
        calibration: str = "sound",
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
        self.calibration = calibration
        self.output = output
        self.tensor_shape = tensor_shape
        self.random_state = random_state

    def _encoder(self, problem: LinearProblem, ratio: float) -> NDArray[np.float64]:
        values = problem.values[: self.n_components]
        directions = problem.basis[:, : self.n_components]
        return np.sqrt(values)[:, np.newaxis] * directions.T
