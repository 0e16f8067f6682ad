"""The task-aware encoder: the budget goes where the task looks."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._sklearn_compat import StrOptions
from ._algorithm_one import N_EPOCHS
from ._base import FittedCode, LinearEncoder, warn_of_published
from ._code_noise import CodeNoise
from ._learned import most_steps
from ._learned_plan import is_linear, learned_code, published_learned_code
from ._linear import LinearCode, LinearProblem, noise_shares, scaled_basis
from ._search import best_clip, improved, search_scaling

__all__ = ["TaskAwareEncoder"]


class TaskAwareEncoder(LinearEncoder):
    """Encode what a task needs, randomise only that, and decode.

    One call of `transform` or `privatize` is epsilon-differentially private for each
    sample, whatever numbers it holds and whoever's it is. The encoder puts the code's
    range where the task's output varies most; the decoder estimates the sample with
    the least task loss. Both are learned in `fit` from public data, or from people who
    consent: towards them, what is learned is not private.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget of a sample at one call of `transform` or `privatize`.
        ``float("inf")`` adds no noise, and clips nothing unless `clip` is a number.
    delta : float, default=0
        For ``mechanism="gaussian"``, which needs it; the others are pure.
    task : array-like of shape (m, n), fitted model, object or None, default=None
        What is computed from a sample of n entries. Linear, with squared error: a
        matrix K, or a regression of scikit-learn with `coef_`; None fits a ridge
        regression of `y` in `fit` (of an indicator of every class, if `y` holds
        labels), and takes the identity if there is no `y`. Learned: a fitted
        multilayer perceptron or logistic regression of scikit-learn, alone or after
        StandardScalers in a Pipeline, with the cross-entropy or squared error between
        its outputs for the estimate and for the sample; a `TorchTask`; or any object
        with ``value_and_gradient(X_hat, targets)``, which returns a mean loss and its
        gradient, of the shape of ``X_hat``, and with ``outputs(X)``, the targets,
        unless they are `y`. A model stays fitted in clones. Other models, such as a
        random forest, cannot be a task: leave ``task=None`` and pass `y`.
    n_components : int or None, default=None
        Entries of the code at most; None leaves their number to the search. Learned
        codes that PrivUnit releases have one more.
    encoder : {"linear", "mlp"}, default="linear"
        Maps that are learned: affine ones, or also those with a hidden layer of n
        units. For tasks that are not linear.
    mechanism : {"auto", "laplace", "l2", "privunit", "gaussian"}, default="auto"
        How the code is released: clipped in L1, with discrete Laplace noise; clipped in
        L2, with noise of density ``exp(-epsilon |y| / 2R)``; clipped in L2, by PrivUnit
        on the lifted sphere; clipped in L2, with Gaussian noise. "auto" is the one of
        the first three, which are pure, with the least expected loss; for learned codes
        it is "privunit".
    clip : "auto" or float in (0, 1], default="auto"
        Share of the fitting data's codes that the ball holds; the radius is fixed in
        `fit`. "auto" takes the one with the least expected loss. Learned codes are
        bounded by what is learned.
    calibration : {"sound", "published"}, default="sound"
        "published" is the paper's: nothing is clipped, and Laplace noise is for the
        largest distance of two codes in the fitting data (for tasks that are not
        linear, its Algorithm 1, which takes half a minute). It warns, for no finite
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
        Radius of the ball, in units of the code; infinite where nothing is clipped,
        and 1 for learned codes.
    noise_variance_ : float
        Variance of the noise in an entry of the code, in squared units of the radius.
    expected_task_loss_ : float
        Expected ``|K x_hat - K x|^2`` of a sample, over the fitting data and the noise;
        for learned codes the mean loss of the task on the fitting data, with noise that
        was held out.
    task_variance_ : float
        What that loss would be if every sample were estimated by the mean.
    task_ : ndarray of shape (m, n) or None
        K of a linear task.
    sample_shape_ : tuple of int
        Shape of a sample.
    n_features_in_ : int
        Size of the first axis of a sample.

    Notes
    -----
    With L L^T the covariance of the standardised samples and P = K L, the code of
    h = L^+ (x - mean) is diag(sigma) Q^T h, Q being the eigenvectors of P^T P. sigma
    begins with Proposition 4 of [1]_, whose noise-to-signal ratio is searched for
    together with the clip radius; a descent on the expected loss follows, since the
    proposition is for codes that are not clipped. The code is clipped, not the sample,
    so that its sensitivity holds for every input.

    For tasks that are not linear, the same closed form for the task's linearisation
    begins; its decoder is then trained by L-BFGS on several draws of noise, then both
    maps together, from there and from a random start, and what loses least on other
    noise is taken. `random_state` has no part in it. The loss on new people is larger
    than on the fitting data, more so for a large epsilon.

    Losses are relative to what is measured: standardise the columns, or weigh them by
    the task.

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
    (epsilon = 8, delta = 0)-differential privacy for one row of X (replace-one). One
    call of transform or privatize, for each sample, whatever numbers it holds: its
    code, moved into a ball or onto a sphere fixed in the fit, and PrivUnit's direction
    of a lattice point. Every call spends again. [Bhowmick et al. (2018), Theorem 1]
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
        calibration: str = "sound",
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
        self.calibration = calibration
        self.output = output
        self.tensor_shape = tensor_shape
        self.random_state = random_state

    @property
    def _n_steps(self) -> int:
        if is_linear(self.task):
            return 1
        if self.calibration == "published" and math.isfinite(self.epsilon):
            return N_EPOCHS
        return most_steps(self.n_components)

    def _fitted(
        self, rows: NDArray[np.floating], y: Any, on_step: Callable[[], bool]
    ) -> FittedCode:
        if is_linear(self.task):
            if self.encoder == "mlp":
                raise ValueError(
                    "encoder='mlp' is for tasks that are not linear; the best encoder "
                    "of a linear task is linear."
                )
            return super()._fitted(rows, y, on_step)
        if self.clip != "auto":
            raise ValueError("clip is for linear tasks; for others it is learned.")
        epsilon = float(self.epsilon)
        options: dict[str, Any] = {
            "epsilon": epsilon,
            "n_components": self.n_components,
            "n_hidden": rows.shape[1] if self.encoder == "mlp" else 0,
            "on_step": on_step,
        }
        if self.calibration == "published" and math.isfinite(epsilon):
            warn_of_published(stacklevel=5)
            return published_learned_code(self.task, rows, y, **options)
        mechanism = self.mechanism if math.isfinite(epsilon) else "none"
        delta = float(self.delta)
        return learned_code(
            self.task, rows, y, mechanism=mechanism, delta=delta, **options
        )

    def _encoder(self, problem: LinearProblem, ratio: float) -> NDArray[np.float64]:
        values = problem.values[: self.n_components]
        return scaled_basis(problem, noise_shares(values, ratio)[0])

    def _searched(
        self,
        problem: LinearProblem,
        noise: Callable[[int], CodeNoise],
        level: float | None,
    ) -> tuple[LinearCode, CodeNoise]:
        shares, levels = search_scaling(problem, noise, self.n_components, level)
        chosen = noise(len(shares))
        return best_clip(problem, scaled_basis(problem, shares), chosen, levels), chosen

    def _improved(
        self, problem: LinearProblem, code: LinearCode, noise: CodeNoise
    ) -> LinearCode:
        return improved(problem, code, noise)
