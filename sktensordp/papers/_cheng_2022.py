"""Cheng, Tang and Chinchali (2022): task-aware encoders with the published noise.

The paper defines the sensitivity of an encoder over X, a compact set of samples
(Section 2, below Eq. 2), and calibrates Laplace noise to it. With `bounds`, X is a box,
and the guarantee is proved (`_declared_box`). Algorithm 1 computes the sensitivity
again in every epoch (line 4), and does not say over which samples. Without `bounds`
these are the fitting data, so no finite epsilon holds for the samples of other people,
whose codes may lie farther apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._sklearn_compat import Interval, StrOptions
from .._validation import warn
from ..encoding import TaskAgnosticEncoder, TaskAwareEncoder
from ..encoding._base import FittedCode, LinearEncoder
from ..encoding._code_noise import CodeNoise
from ..encoding._learned_randomizer import fitted_code, is_linear, task_and_targets
from ..encoding._linear import LinearCode, LinearProblem, code_norms, unclipped_code
from ..exceptions import UnsoundClaimWarning
from ..mechanisms._noise import AddedNoise
from ..noise import LaplaceLattice, laplace_lattice
from ..privacy import PrivacyGuarantee
from ..privacy._numbers import exact
from ..privacy.calibration._sensitivity import SensitivitySet, declared_set
from ._algorithm_one import (
    APPROACHES,
    LogisticMap,
    Training,
    l1_diameter,
    published_encoder,
)
from ._declared_box import BoxedRandomizer, StandardBox
from ._docs import with_encoder_text
from ._privacy_agnostic import PrivacyAgnosticEncoder

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

# Dimension of the code in the paper.
_COMPONENTS = 3
# Largest ratio of the variances of noise and code: beyond it, rounding determines the
# code.
_LARGEST_RATIO = 1e12


class _PublishedEncoder(LinearEncoder):
    """Base of the published encoders, with other noise and without clipping."""

    bounds: Any
    delta, mechanism = 0.0, "laplace"
    _clip_level = None
    _tells_of_noise = False

    # Parameters that some estimators were stored without, and what they stood for.
    _later: ClassVar[dict[str, Any]] = {"bounds": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**self._later, **state})

    def _learn_all(self, X: ArrayLike, y: ArrayLike | None) -> tuple[float, int]:
        learned = super()._learn_all(X, y)
        if math.isfinite(self.epsilon) and self.bounds is None:
            warn(
                f"{type(self).__name__} takes the sensitivity from the fitting data. "
                f"No finite epsilon holds for samples outside their range. Pass "
                f"`bounds`, a box that has all samples, or take the encoders of "
                f"sktensordp.encoding, which bound the code and lose less.",
                UnsoundClaimWarning,
            )
        return learned

    def _box(self, n_entries: int) -> SensitivitySet | None:
        """X, if it is declared."""
        if self.bounds is None:
            return None
        ends = [np.ravel(end) if np.ndim(end) > 1 else end for end in self.bounds]
        return declared_set((n_entries,), bounds=ends)

    def _learn(
        self,
        rows: NDArray[np.floating],
        y: ArrayLike | None,
        on_step: Callable[[], bool],
    ) -> FittedCode:
        """What `LinearEncoder` learns; only samples in X are encoded."""
        box = self._box(rows.shape[1])
        code = super()._learn(rows, y, on_step)
        if box is None or math.isinf(self.epsilon):
            return code
        given = code.randomizer
        boxed = BoxedRandomizer(
            given.mean, given.scale, given.encoder, given.noise, given.columns, box=box
        )
        return replace(code, randomizer=boxed)

    def _choose_code(self, problem: LinearProblem) -> tuple[LinearCode, CodeNoise]:
        """The code of the recipe after Theorem 1, decoded for the final noise."""
        epsilon = float(self.epsilon)
        if math.isinf(epsilon):
            return super()._choose_code(problem)
        white, box = problem.whitening, self._box(len(problem.whitening.mean))
        if box is None:
            radius = float(code_norms(problem.h, 2).max())
        else:
            standard = StandardBox.of(box, white.mean, white.scale)
            radius = standard.longest(white.inverse.T)
        square = min(epsilon, 1e150) ** 2
        ratio = 8 * radius**2 / square if square else math.inf
        if not ratio < _LARGEST_RATIO:
            raise ValueError(
                f"epsilon = {exact(epsilon)} is too small for the published encoder: "
                f"beside its noise, no code can be distinguished from 0."
            )
        encoder = self._encoding_matrix(problem, ratio)
        if box is None:
            noise = _noise_for(
                epsilon, len(encoder), l1_diameter(problem.h @ encoder.T)
            )
        else:
            affine = LogisticMap.affine(encoder @ white.inverse)
            noise = _noise(standard.lattice(affine, epsilon), len(encoder), box)
        return unclipped_code(problem, encoder, noise.variance), noise

    def _guarantee(self, mechanism: str, event: DpEvent) -> PrivacyGuarantee:
        if math.isinf(self.epsilon):
            return super()._guarantee(mechanism, event)
        if self.bounds is not None:
            return PrivacyGuarantee(
                epsilon=float(self.epsilon),
                delta=0.0,
                event=event,
                unit="sample",
                statement="One call of transform or privatize releases, for each "
                "sample, its code with discrete Laplace noise on a public lattice, for "
                "the largest distance between two codes of the declared box. The "
                "sample is clipped to that box first. Every call spends again.",
                source="Cheng, Tang and Chinchali (2022), Section 2; Dwork, McSherry, "
                "Nissim and Smith (2006), Proposition 1",
                local=True,
            )
        return PrivacyGuarantee.from_event(
            event,
            unit="sample",
            statement="One call of transform or privatize releases, for each sample, "
            "its code with Laplace noise for the largest distance between two codes of "
            "the fitting data. Codes of other samples may lie anywhere.",
            source="Cheng, Tang and Chinchali (2022), Eq. 6, over the fitting data",
            claimed=(float(self.epsilon), 0.0),
        )

    def _planned_guarantee(self, fitted: object) -> PrivacyGuarantee:
        from dp_accounting.dp_event import NonPrivateDpEvent

        from ..privacy.accounting._events import PureDpEvent

        is_sound = self.bounds is not None and math.isfinite(self.epsilon)
        event = PureDpEvent(float(self.epsilon)) if is_sound else NonPrivateDpEvent()
        return self._guarantee("none", event)


@with_encoder_text
class PublishedTaskAgnosticEncoder(_PublishedEncoder, TaskAgnosticEncoder):
    """Randomise the whole sample, with the published noise.

    The benchmark :class:`~sktensordp.encoding.TaskAgnosticEncoder` as its paper
    calibrates it. $published_noise

    Parameters
    ----------
    $claim
    $linear_task
    $box
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
    $encoder_differs
    Every entry is standardised by itself; the paper standardises those of a time series
    jointly. For tasks that are not linear, the paper trains the decoder (Section
    A.7.4), as `approach` of `PublishedTaskAwareEncoder` does.

    References
    ----------
    .. [1] Cheng, Tang and Chinchali, "Task-aware privacy preservation for
       multi-dimensional data", 2022, Corollary 2.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from sktensordp.papers import PublishedTaskAgnosticEncoder
    >>> X = np.random.default_rng(0).normal(size=(500, 6))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     encoder = PublishedTaskAgnosticEncoder(8.0, task=np.ones((1, 6))).fit(X)
    >>> encoder.privacy_guarantee_.epsilon, encoder.privacy_guarantee_.claimed
    (inf, (8.0, 0.0))
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        task: object = None,
        bounds: ArrayLike | None = None,
        output: str = "decoded",
        tensor_shape: tuple[int, ...] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.task = task
        self.bounds = bounds
        self.output = output
        self.tensor_shape = tensor_shape
        self.random_state = random_state


@with_encoder_text
class PublishedPrivacyAgnosticEncoder(_PublishedEncoder, PrivacyAgnosticEncoder):
    """Encode for the task as if there were no noise, with the published noise.

    The benchmark `PrivacyAgnosticEncoder` as its paper calibrates it. $published_noise

    Parameters
    ----------
    $claim
    $linear_task
    n_components : int, default=3
        Largest number of entries of the code; fewer if the task has fewer directions.
    $box
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
    $encoder_differs
    Corollary 3 leaves the scales sigma_i open. Here sigma_i^2 is lambda_i, so the code
    holds the principal components of the task's output. For tasks that are not linear,
    the paper trains encoder and decoder (Section A.7.4), as `approach` of
    `PublishedTaskAwareEncoder` does.

    References
    ----------
    .. [1] Cheng, Tang and Chinchali, "Task-aware privacy preservation for
       multi-dimensional data", 2022, Corollary 3.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from sktensordp.papers import PublishedPrivacyAgnosticEncoder
    >>> X = np.random.default_rng(0).normal(size=(500, 6))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     encoder = PublishedPrivacyAgnosticEncoder(8.0, n_components=2).fit(X)
    >>> encoder.privacy_guarantee_.epsilon, encoder.privacy_guarantee_.claimed
    (inf, (8.0, 0.0))
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        task: object = None,
        n_components: int = 3,
        bounds: ArrayLike | None = None,
        output: str = "decoded",
        tensor_shape: tuple[int, ...] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.task = task
        self.n_components = n_components
        self.bounds = bounds
        self.output = output
        self.tensor_shape = tensor_shape
        self.random_state = random_state


@with_encoder_text
class PublishedTaskAwareEncoder(_PublishedEncoder, TaskAwareEncoder):
    """The task-aware encoder with the published noise, and Algorithm 1.

    That is, Proposition 4 of [1]_ for a linear task, and training for others.
    $published_noise

    Parameters
    ----------
    $claim
    task : array-like of shape (m, n), fitted model, object or None, default=None
        As in :class:`~sktensordp.encoding.TaskAwareEncoder`.
    n_components : int or None, default=None
        Largest number of entries of the code. None keeps all directions of a linear
        task, and is 3 for other tasks.
    encoder : {"linear", "mlp"}, default="linear"
        For tasks that are not linear: affine maps, or maps with a hidden layer.
    n_hidden : int, default=None
        Units of the hidden layers of ``encoder="mlp"``. None takes n, the number of
        entries of a sample.
    eta : float, default=0.001
        Penalty of Algorithm 1 on the squared parameters of the encoder. The paper has
        0.001 for breast cancer, and 0.2 for real estate.
    n_epochs : int, default=2000
        Epochs of Algorithm 1. The sensitivity is computed again after each.
    n_steps : int, default=15
        Steps of an epoch.
    learning_rate : float, default=0.001
        Of these steps, which are those of Adam.
    approach : {"task-aware", "privacy-agnostic", "task-agnostic"}, default="task-aware"
        For tasks that are not linear: Algorithm 1, or one of the two benchmarks of
        Section A.7.4, to compare. "privacy-agnostic" trains encoder and decoder without
        noise and penalty, and then the decoder alone with noise. "task-agnostic" adds
        noise to the standardised sample itself, and trains the decoder.
    $box
    $output
    $tensor_shape
    $random_state

    Attributes
    ----------
    $fitted_code
    $clip_radius
    $noise_variance
    $expected_task_loss
        For tasks that are not linear, the mean loss on the fitting data.
    $task_variance
    task_ : ndarray of shape (m, n) or None
        Matrix K of a linear task; None for other tasks.
    $shapes

    Notes
    -----
    $encoder_differs

    For a linear task, the radius r may be an upper bound (for boxes of more than 14
    entries), `n_components` may limit the code, and the decoder is that of Proposition
    1 for the final noise, which the recipe after Theorem 1 leaves open.

    Algorithm 1 leaves some things open. Here the parameters start from uniform numbers
    of a fixed seed, as layers of PyTorch do. Each step uses all samples, standardised,
    each with its own noise, which is drawn anew in every epoch. The targets are the
    outputs of the task if it has a method `outputs`, otherwise `y`; the paper's
    experiments take labels. A phase of a benchmark has `n_epochs`, too, and begins with
    new moments of Adam. Hidden layers have logistic units, as in the experiment on
    breast cancer; Section A.10 has rectified ones.

    References
    ----------
    .. [1] Cheng, Tang and Chinchali, "Task-aware privacy preservation for
       multi-dimensional data", 2022, Propositions 1 to 4, Theorem 1 and Algorithm 1.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from sktensordp.papers import PublishedTaskAwareEncoder
    >>> X = np.random.default_rng(0).normal(size=(500, 6))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     encoder = PublishedTaskAwareEncoder(8.0, task=np.ones((1, 6))).fit(X)
    >>> encoder.privacy_guarantee_.epsilon, encoder.privacy_guarantee_.claimed
    (inf, (8.0, 0.0))
    """

    _parameter_constraints: ClassVar = {
        **TaskAwareEncoder._parameter_constraints,
        "n_hidden": [Interval(Integral, 1, None, closed="left"), None],
        "eta": [Interval(Real, 0, None, closed="left")],
        "n_epochs": [Interval(Integral, 1, None, closed="left")],
        "n_steps": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "approach": [StrOptions({*APPROACHES})],
    }
    _later: ClassVar = {
        **_PublishedEncoder._later,
        "n_hidden": None,
        "eta": 0.001,
        "n_epochs": 2000,
        "n_steps": 15,
        "learning_rate": 0.001,
        "approach": "task-aware",
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        task: object = None,
        n_components: int | None = None,
        encoder: str = "linear",
        n_hidden: int | None = None,
        eta: float = 0.001,
        n_epochs: int = 2000,
        n_steps: int = 15,
        learning_rate: float = 0.001,
        approach: str = "task-aware",
        bounds: ArrayLike | None = None,
        output: str = "decoded",
        tensor_shape: tuple[int, ...] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.task = task
        self.n_components = n_components
        self.encoder = encoder
        self.n_hidden = n_hidden
        self.eta = eta
        self.n_epochs = n_epochs
        self.n_steps = n_steps
        self.learning_rate = learning_rate
        self.approach = approach
        self.bounds = bounds
        self.output = output
        self.tensor_shape = tensor_shape
        self.random_state = random_state

    @property
    def _n_steps(self) -> int:
        if is_linear(self.task) or math.isinf(self.epsilon):
            return super()._n_steps
        return int(self.n_epochs) * len(APPROACHES[self.approach])

    def _check_task(self, n_features: int | None) -> None:
        if is_linear(self.task) and self.approach != "task-aware":
            raise ValueError(
                f"approach={self.approach!r} is for tasks that are not linear. For a "
                f"linear task, take PublishedPrivacyAgnosticEncoder or "
                f"PublishedTaskAgnosticEncoder."
            )
        super()._check_task(n_features)

    def _learn_maps(
        self,
        rows: NDArray[np.floating],
        y: ArrayLike | None,
        on_step: Callable[[], bool],
    ) -> FittedCode:
        """Learn by Algorithm 1, with noise for the distances in X or in the rows."""
        epsilon, box = float(self.epsilon), self._box(rows.shape[1])
        if math.isinf(epsilon):
            return super()._learn_maps(rows, y, on_step)
        task, targets = task_and_targets(self.task, rows, y)
        width = rows.shape[1] if self.n_hidden is None else int(self.n_hidden)
        learned = published_encoder(
            task,
            rows,
            epsilon,
            targets=targets,
            n_components=self.n_components or _COMPONENTS,
            n_hidden=width if self.encoder == "mlp" else 0,
            training=Training(
                float(self.eta),
                int(self.n_epochs),
                int(self.n_steps),
                float(self.learning_rate),
            ),
            approach=self.approach,
            box=box,
            on_epoch=on_step,
        )
        channel: Any = learned.channel
        if box is None:
            noise = _noise_for(epsilon, channel.n_outputs, channel.sensitivity)
        else:
            standard = StandardBox.of(box, learned.mean, learned.scale, learned.columns)
            lattice = standard.lattice(learned.encoder, epsilon)
            noise = _noise(lattice, channel.n_outputs, box)
        return fitted_code(
            task, rows, targets, learned, noise, noise.randomizer, math.inf
        )


def _noise_for(epsilon: float, n_entries: int, sensitivity: float) -> CodeNoise:
    """The paper's Laplace noise, for codes that are not clipped.

    Parameters
    ----------
    epsilon : float
    n_entries : int
    sensitivity : float
        L1 distance of two codes for which the noise is calibrated.

    Returns
    -------
    noise : CodeNoise
        No finite epsilon holds for arbitrary codes.
    """
    lattice = laplace_lattice(
        -math.inf, math.inf, epsilon, n_cells=n_entries, l1=sensitivity
    )
    return _noise(lattice, n_entries, None)


def _noise(
    lattice: LaplaceLattice, n_entries: int, box: SensitivitySet | None
) -> CodeNoise:
    """Noise of a lattice; its epsilon holds for codes of a declared box alone."""
    from dp_accounting.dp_event import NonPrivateDpEvent

    from ..privacy.accounting._events import PureDpEvent

    added = AddedNoise(SensitivitySet(n_entries), lattice)
    event = NonPrivateDpEvent() if box is None else PureDpEvent(lattice.epsilon)
    return CodeNoise("laplace", added, event, lattice.noise_variance, 1)
