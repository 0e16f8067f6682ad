"""The three algorithms of Wei, Li, Mao and Wang (2022), as printed.

What differs is in the notes of the classes, from `_docs.py`.

Stochastic gradient descent (Eq. 6 and 7) fits a CP or Tucker decomposition without
biases or offset. Algorithm 1 adds Laplace noise to the values first, Algorithm 2 adds
noise to the gradients of the last factor, and Algorithm 3 to the last factor at the
end. The claims of the latter two do not hold: the other factors, and the core, are
updated from the raw values and released.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags

from .._random import NoiseStreams
from .._sklearn_compat import Interval, StrOptions
from .._validation import warn
from ..completion import CPCompletion, TuckerCompletion
from ..completion._base import BaseCompletion
from ..completion._domain import Domain
from ..completion._entries import Entries
from ..completion._problem import Problem, check_parameters, domain_of
from ..completion._values import (
    domain_lattice,
    entry_guarantee,
    guarantee_without_noise,
)
from ..completion.measurements._measurement import Measurement, OnSweep, Outcome
from ..exceptions import UnsoundClaimWarning
from ..noise import LaplaceLattice
from ..privacy import PrivacyGuarantee
from ._descent import descend
from ._docs import with_shared_text

_PAPER = "Wei, Li, Mao and Wang (2022), Algorithm {number} and Theorem {number}"
_NUMBERS = {"input": 1, "gradient": 2, "output": 3}
_INPUT = (
    "Each observed value was given discrete Laplace noise on a public lattice; all "
    "else is computed from these draws and the coordinates."
)
_CLAIMS = {
    "gradient": (
        "Only the gradients of the last factor were given noise. All other factors, "
        "and the core of a Tucker decomposition, were updated from the raw values and "
        "are released. Nor does the claim count the passes over the data."
    ),
    "output": (
        "Only the last factor was given noise, after the descent. All other factors, "
        "and the core of a Tucker decomposition, are released as they were fitted to "
        "the raw values. The claimed sensitivity comes from a theorem about convex "
        "costs; this cost is not convex."
    ),
}


@dataclass(frozen=True, eq=False)
class _Algorithm(Measurement):
    """Fit a decomposition with one of the published algorithms.

    Attributes
    ----------
    learning_rate : float
    regularization, core_regularization : float
        Weights of the squared norms of the factors and of the core in the cost.
    gradient_clip : float
    clamp : bool
        Whether noisy values are clipped to the range before the descent.
    name : {"input", "gradient", "output"}
    """

    learning_rate: float
    regularization: float
    core_regularization: float
    gradient_clip: float
    clamp: bool
    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.problem.entries, Entries):
            raise ValueError("The published algorithms do not support Dask input.")

    @property
    def draws(self) -> bool:
        """True: the descent starts from random factors."""
        return True

    @property
    def n_sweeps(self) -> int:
        """Largest number of calls of `on_sweep`."""
        return self.problem.max_iter

    @cached_property
    def _lattice(self) -> LaplaceLattice:
        problem = self.problem
        return domain_lattice(problem.epsilon, Domain(problem.domain.bounds))

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        """The guarantee that holds, with the published claim if that is stronger."""
        problem = self.problem
        if math.isinf(problem.epsilon):
            return guarantee_without_noise()
        lattice = self._lattice
        return _guarantee_of(
            self.name, problem.epsilon, lattice, claimed_epsilon=problem.claimed_epsilon
        )

    def measure(
        self, entries: Entries, streams: NoiseStreams | None, on_sweep: OnSweep
    ) -> tuple[list[NDArray[np.float64]], int, np.dtype]:
        """Run the algorithm, and return the blocks."""
        assert streams is not None
        problem, shape, dtype = self.problem, entries.shape, entries.dtype
        private, last = math.isfinite(problem.epsilon), len(shape) - 1
        generator = _generator(streams, 0)
        factors: list[NDArray[np.float64]] = [
            generator.random(block) for block in problem.form.blocks(shape)
        ]
        rank = factors[last].shape[1]
        values = problem.domain.clip(entries.values.astype(float))
        if self.name == "input" and private:
            values = self._lattice.randomize(values, streams.step(1).stream(0))
            if self.clamp:
                values = problem.domain.clip(values)
        noise: Callable[[int], NDArray[np.float64]] | None = None
        if self.name == "gradient" and private:
            scale = 2 * self.gradient_clip / problem.epsilon

            def noise(number: int) -> NDArray[np.float64]:
                return _spherical(
                    _generator(streams, number + 1), (len(values), rank), scale
                )

        stopped: list[int] = []

        def on_pass(number: int) -> bool:
            if on_sweep(number):
                stopped.append(number)
            return bool(stopped)

        factors, n_iter = descend(
            entries.coordinates,
            values,
            factors,
            rate=self.learning_rate,
            ridge=self.regularization,
            n_passes=problem.max_iter,
            clip=self.gradient_clip,
            noise=noise,
            on_pass=on_pass,
            form=problem.form,
            core_ridge=self.core_regularization,
        )
        if n_iter < problem.max_iter and not stopped:
            warn(
                f"The descent diverged in pass {n_iter + 1}; the factors are those "
                "before that pass. Take a smaller learning_rate.",
                ConvergenceWarning,
            )
        if self.name == "output" and private:
            # 2 tau L eta. The paper does not give L; this is the clipping constant of
            # Algorithm 2.
            sensitivity = 2 * problem.max_iter * self.gradient_clip
            scale = sensitivity * self.learning_rate / problem.epsilon
            factors[last] = factors[last] + _spherical(
                _generator(streams, 1), factors[last].shape, scale
            )
        return factors, max(n_iter, 1), dtype

    def complete(
        self,
        released: tuple[list[NDArray[np.float64]], int, np.dtype],
        on_sweep: OnSweep,
    ) -> Outcome:
        """Make a model from the blocks."""
        blocks, n_iter, dtype = released
        problem = self.problem
        model = problem.form.point_model(problem.shape, math.nan, dtype, blocks=blocks)
        return Outcome(model, 0.0, n_iter)


def _guarantee_of(
    name: str,
    epsilon: float,
    lattice: LaplaceLattice | None = None,
    *,
    claimed_epsilon: float | None = None,
) -> PrivacyGuarantee:
    """Guarantee that holds for an algorithm, with the published claim if stronger."""
    from dp_accounting import dp_event

    from ..privacy.accounting._events import LatticeLaplaceDpEvent, PureDpEvent

    source = _PAPER.format(number=_NUMBERS[name])
    if name != "input":
        return entry_guarantee(
            dp_event.NonPrivateDpEvent(), _CLAIMS[name], source, claimed=(epsilon, 0.0)
        )
    event = PureDpEvent(float(epsilon))
    if lattice is not None:
        event = LatticeLaplaceDpEvent.from_lattice(lattice, lattice.n_steps)
    return entry_guarantee(
        event, _INPUT, source, claimed_epsilon=claimed_epsilon, local=None
    )


def _generator(streams: NoiseStreams, number: int) -> np.random.Generator:
    return np.random.Generator(streams.step(number).stream(0))


def _spherical(
    generator: np.random.Generator, shape: tuple[int, ...], scale: float
) -> NDArray[np.float64]:
    """Random rows with a density proportional to exp(-||row|| / scale)."""
    rows = generator.standard_normal(shape)
    lengths = generator.gamma(shape[1], scale, shape[0])
    rows *= (lengths / np.linalg.norm(rows, axis=1))[:, np.newaxis]
    return rows


class _PublishedCompletion(BaseCompletion):
    """Base of the published algorithms: another measurement, and fewer parameters.

    The other parameters, which `BaseCompletion` reads, have fixed values here.
    """

    delta, unit, levels, level_prior, side_information = 0.0, "entry", None, None, None
    biases, n_pattern_components, smooth_modes, personal = False, 0, None, False
    missing_values, check_scale = None, False
    learning_rate: float
    regularization: float
    core_regularization = 0.0
    gradient_clip: float
    clamp: bool
    _folds_in = False
    _may_find_scale = False
    _may_ignore_parameters = False

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's protocol)
        **BaseCompletion._parameter_constraints,
        "perturbation": [StrOptions(set(_NUMBERS))],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "regularization": [Interval(Real, 0, None, closed="left")],
        "gradient_clip": [Interval(Real, 0, None, closed="neither")],
        "clamp": ["boolean"],
    }

    def __init__(
        self,
        rank: int | Sequence[int] | None = None,
        *,
        epsilon: float = 1.0,
        perturbation: str = "input",
        value_bounds: tuple[float, float] | None = None,
        shape: Sequence[int] | None = None,
        max_iter: int = 100,
        learning_rate: float = 0.005,
        regularization: float = 0.01,
        gradient_clip: float = 0.5,
        clamp: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.rank = rank
        self.epsilon = epsilon
        self.perturbation = perturbation
        self.value_bounds = value_bounds
        self.shape = shape
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.regularization = regularization
        self.gradient_clip = gradient_clip
        self.clamp = clamp
        self.random_state = random_state

    def __setstate__(self, state: dict[str, Any]) -> None:
        # What was stored before there was this parameter was fitted without it.
        super().__setstate__({"clamp": False, **state})

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # The descent starts from random factors.
        tags.non_deterministic = True
        return tags

    def _measurement(self, problem: Problem, *_: object) -> Measurement:
        if self.clamp and self.perturbation != "input":
            raise ValueError(
                f"clamp is for noisy values, and perturbation={self.perturbation!r} "
                f"gives them no noise. Leave clamp=False, or take 'input'."
            )
        algorithm = _Algorithm(
            problem,
            name=self.perturbation,
            learning_rate=float(self.learning_rate),
            regularization=float(self.regularization),
            core_regularization=float(self.core_regularization),
            gradient_clip=float(self.gradient_clip),
            clamp=bool(self.clamp),
        )
        if self.perturbation in _CLAIMS and math.isfinite(self.epsilon):
            guarantee = algorithm.guarantee
            warn(
                f"The claim of {guarantee.source} does not hold. {guarantee.statement}",
                UnsoundClaimWarning,
            )
        return algorithm

    def __privacy_plan__(
        self, fitted: object = None, *, any_shape: bool = False
    ) -> PrivacyGuarantee:
        check_parameters(self)
        epsilon, domain = float(self.epsilon), domain_of(self)
        if math.isinf(epsilon):
            return guarantee_without_noise()
        claimed_epsilon = None if domain.is_declared else epsilon
        return _guarantee_of(
            self.perturbation, epsilon, claimed_epsilon=claimed_epsilon
        )

    @property
    def _randomizes_single_values(self) -> bool:
        """False: the published algorithms support no further batches and no clients."""
        return False

    def __expected_error__(
        self, X: ArrayLike, y: ArrayLike | None = None, n_users: int | None = None
    ) -> NoReturn:
        raise ValueError(f"The expected error of {type(self).__name__} is not known.")


@with_shared_text
class PublishedCPCompletion(_PublishedCompletion, CPCompletion):
    """CP completion by Algorithms 1 to 3 of Wei, Li, Mao and Wang, as printed.

    $algorithms

    Parameters
    ----------
    rank : int, default=None
        Number of CP terms, at least 1. None takes 10, or the largest rank that the
        shape admits if that is smaller.
    $parameters
    learning_rate : float, default=0.005
        Length of a step of the descent.
    $random_state

    Attributes
    ----------
    $attributes
    decomposition_ : tensorly.cp_tensor.CPTensor
        The fitted model.
    factors_ : list of ndarray of shape (shape_[mode], rank)
        Its factors.

    Notes
    -----
    $descent

    $differs

    References
    ----------
    .. [1] Wei, Li, Mao and Wang, "Applying Differential Privacy to Tensor
       Completion", 2022, Algorithms 1 to 3 and Theorems 1 to 3.

    Examples
    --------
    >>> from sktensordp.datasets import make_ratings
    >>> from sktensordp.papers import PublishedCPCompletion
    >>> ratings = make_ratings(n_users=50, n_items=40, n_ratings=1000, random_state=0)
    >>> model = PublishedCPCompletion(rank=2, epsilon=4.0, value_bounds=(1, 5))
    >>> print(model.fit(ratings.data, ratings.target).privacy_guarantee_)
    This fit: (epsilon = 4, delta = 0)-differential privacy for the value of one
    observed entry (replace-one).
    """

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's protocol)
        "rank": [Interval(Integral, 1, None, closed="left"), None],
        **_PublishedCompletion._parameter_constraints,
    }


@with_shared_text
class PublishedTuckerCompletion(_PublishedCompletion, TuckerCompletion):
    """Tucker completion by Algorithms 1 to 3 of Wei, Li, Mao and Wang, as printed.

    $algorithms

    Parameters
    ----------
    rank : int or sequence of int, default=None
        One rank for each mode, or one for all, as in
        :class:`~sktensordp.completion.TuckerCompletion`; at least 1.
    $parameters
    learning_rate : float, default=0.003
        Length of a step of the descent.
    core_regularization : float, default=0.001
        Weight of the core's squared norm in the cost.
    $random_state

    Attributes
    ----------
    $attributes
    decomposition_ : tensorly.tucker_tensor.TuckerTensor
        The fitted model.
    factors_ : list of ndarray of shape (shape_[mode], rank of the mode)
        Its factors.

    Notes
    -----
    $descent

    $differs

    References
    ----------
    .. [1] Wei, Li, Mao and Wang, "Applying Differential Privacy to Tensor
       Completion", 2022, Algorithms 1 to 3 and Theorems 1 to 3.

    Examples
    --------
    >>> from sktensordp.datasets import make_ratings
    >>> from sktensordp.papers import PublishedTuckerCompletion
    >>> ratings = make_ratings(n_users=50, n_items=40, n_ratings=1000, random_state=0)
    >>> model = PublishedTuckerCompletion(rank=2, epsilon=4.0, value_bounds=(1, 5))
    >>> model.fit(ratings.data, ratings.target).predict([[0, 0], [3, 2]]).shape
    (2,)
    """

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's protocol)
        "rank": [Interval(Integral, 1, None, closed="left"), "array-like", None],
        **_PublishedCompletion._parameter_constraints,
        "core_regularization": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        rank: int | Sequence[int] | None = None,
        *,
        epsilon: float = 1.0,
        perturbation: str = "input",
        value_bounds: tuple[float, float] | None = None,
        shape: Sequence[int] | None = None,
        max_iter: int = 100,
        learning_rate: float = 0.003,
        regularization: float = 0.01,
        core_regularization: float = 0.001,
        gradient_clip: float = 0.5,
        clamp: bool = False,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            rank,
            epsilon=epsilon,
            perturbation=perturbation,
            value_bounds=value_bounds,
            shape=shape,
            max_iter=max_iter,
            learning_rate=learning_rate,
            regularization=regularization,
            gradient_clip=gradient_clip,
            clamp=clamp,
            random_state=random_state,
        )
        self.core_regularization = core_regularization
