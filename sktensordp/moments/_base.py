"""`MomentsEstimator`: noise, guarantee and releases of all estimators of moments.

**Guarantee.** Everything that `fit` publishes is (epsilon, delta)-indistinguishable
between two data sets of equally many samples that differ in one of them.

**Proof.** All that is published follows from the releases, the number of samples and
the parameters. Each release is a vector of sums over samples (``_sums.py``) with
Gaussian noise of standard deviation sigma. Given earlier releases, one sample moves the
release with share s by at most sqrt(s) + e_s, e_s being the step g of the lattice times
the root of the number of its cells. Claim: after the share U is used, all that follows
is mu-GDP with sigma mu <= sqrt(1 - U) + E, where E^2 is the sum of e_s^2 over the
releases that may still come. For the last release that is what one sample moves. For
any release before, (sqrt(s) + e)^2 + (sqrt(1 - U - s) + E)^2 <=
(sqrt(1 - U) + sqrt(e^2 + E^2))^2 by Minkowski's inequality, and Gaussian releases
compose by adding up squares of mu, whatever the earlier ones returned (Dong, Roth and
Su 2022, Theorem 3.2). So all releases together are mu-GDP with
sigma mu <= 1 + g sqrt(cells). The largest number of cells of all that may be released
follows from the shape of a sample; the sampler's residual is accounted for it, too.
"""

from __future__ import annotations

import math
import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .._sklearn_compat import Interval
from .._validation import callers_level, described
from ..base import EstimatorMixin, PrivateEstimatorMixin
from ..exceptions import PrivacyLeakWarning
from ..measure import NoisySums, plan_gaussian_sums
from ..mechanisms._samples import checked_tensor_shape, shape_of_sample, validated
from ..privacy import PrivacyGuarantee
from ._sources import Source
from ._spectrum import Spectrum
from ._sums import CAPACITY, LARGEST_SAMPLE, Question

LARGEST_CORE = 2048
"""Most cells of a core whose moments are released."""
# A coarser lattice would round the moments of few samples to nothing.
_LARGEST_STEP = 2.0**-6
# Of the squared budget, for the mean.
MEAN_SHARE = 0.25
_SOURCE = "Dong, Roth and Su (2022), Corollary 3.3"


class Releases:
    """The releases of one fit, each chosen by earlier ones.

    Parameters
    ----------
    noise : NoisySums
    streams : NoiseStreams or None
        None if no noise is added.
    source : Source
    first : Question
    sums : ndarray or None
        Exact sums for the first question, if they are known.
    """

    def __init__(
        self,
        noise: NoisySums,
        streams: Any,
        source: Source,
        first: Question,
        sums: NDArray[Any] | None,
    ) -> None:
        self._noise, self._streams, self._source = noise, streams, source
        self._first, self._sums = first, sums
        self._used, self._n_releases = 0.0, 0
        self.sigma = math.sqrt(noise.noise_variance)

    def ask(self, question: Question) -> list[NDArray[np.float64]]:
        """Release the sums that answer a question; see `Question.read`."""
        self._used += sum(question.shares)
        if self._used > 1 + 1e-12:
            raise RuntimeError("The shares of the releases exceed the budget.")
        is_known = question is self._first and self._sums is not None
        sums: Any = self._sums if is_known else self._source.total(question)
        if not question.exact:
            return question.read(sums)
        steps = question.steps(sums, self._noise.step)
        streams = self._streams.step(self._n_releases)
        self._n_releases += 1
        noisy = self._noise.randomize([steps * self._noise.step], streams)[0]
        return question.read(noisy)

    def spectra(self, question: Question) -> list[Spectrum]:
        """Release moments; the spectrum of every matrix."""
        return list(map(Spectrum, self.ask(question), question.deviations(self.sigma)))


def checked_ranks(
    n_components: Any, shape: tuple[int, ...]
) -> tuple[int, ...] | int | None:
    """Numbers of components, one for each mode or one in all; None if it is open.

    Raises
    ------
    ValueError
        If samples of this shape have not so many.
    """
    if n_components is None:
        return None
    if isinstance(n_components, Integral):
        number, most = int(n_components), math.prod(shape)
        if len(shape) > 1:
            most = min(most, LARGEST_CORE)
        if number > most:
            raise ValueError(
                f"n_components = {number}, but samples of shape {shape} have at most "
                f"{most} components."
            )
        return (number,) if len(shape) == 1 else number
    ranks: tuple[Any, ...] = tuple(n_components)
    fits = len(ranks) == len(shape) and all(
        isinstance(r, Integral) and not isinstance(r, bool) and 1 <= int(r) <= n
        for r, n in zip(ranks, shape, strict=False)
    )
    if not fits:
        raise ValueError(
            f"n_components must have one number for each mode of a sample of shape "
            f"{shape}, from 1 to its size, got {described(n_components)}."
        )
    return tuple(int(r) for r in ranks)


class MomentsEstimator(EstimatorMixin, PrivateEstimatorMixin, BaseEstimator):
    """An estimator that learns from noisy second moments of samples.

    A subclass implements `_first_question` and `_learn`.
    """

    epsilon: float
    delta: float
    norm_bound: float | None
    centre: bool
    tensor_shape: Any
    privacy_guarantee_: PrivacyGuarantee
    sample_shape_: tuple[int, ...]
    n_features_in_: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [
            Interval(Integral, 1, None, closed="left"),
            "array-like",
            None,
        ],
        "epsilon": [Interval(Real, 0, None, closed="right")],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "norm_bound": [Interval(Real, 1e-100, 1e100, closed="both"), None],
        "centre": ["boolean"],
        "tensor_shape": ["array-like", None],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.non_deterministic = math.isfinite(self.epsilon)
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        # Set with all else that a fit leaves; an interrupted fit leaves a guarantee.
        return hasattr(self, "sample_shape_")

    def _shape_of(self, X: Any) -> tuple[int, ...]:
        """Shape of a sample."""
        return shape_of_sample(self.tensor_shape, X)

    def _samples(
        self, X: Any, like: tuple[int, ...] | None
    ) -> tuple[Any, tuple[int, ...]]:
        """The samples as a checked array, and the shape of one of them.

        `like` is the shape that they must have; None for the first samples of a fit.
        """
        array = validated(self, X, reset=like is None)
        shape = self._shape_of(array)
        if like is not None and shape != like:
            raise ValueError(
                f"X has samples of shape {shape}, but {type(self).__name__} was fitted "
                f"to samples of shape {like}."
            )
        return array, shape

    # --- noise and guarantee ----------------------------------------------------------

    def _planned_noise(self, shape: tuple[int, ...], n_further: int) -> NoisySums:
        """Noise with which all releases together keep epsilon and delta."""
        n_cells = math.prod(shape)
        if n_cells > LARGEST_SAMPLE:
            raise ValueError(
                f"A sample of shape {shape} has more than {LARGEST_SAMPLE} cells. Pass "
                f"smaller samples."
            )
        modes = sum(n * (n + 1) // 2 for n in shape)
        core = min(n_cells, LARGEST_CORE) + n_further
        total = modes + max(modes, core * (core + 1) // 2) + n_cells * self.centre
        noise = plan_gaussian_sums(
            float(self.epsilon),
            float(self.delta),
            within=float(self.epsilon),
            n_releases=1,
            n_cells=total,
            n_changed=total,
            n_entries=CAPACITY,
        )
        if noise.step > _LARGEST_STEP:
            raise ValueError(
                f"epsilon = {self.epsilon} and delta = {self.delta} are so small that "
                f"the noise would hide everything. Pass larger ones."
            )
        return noise

    def _bound(self, source: Source) -> tuple[float, bool]:
        """The norm bound, and whether it was declared."""
        if self.norm_bound is not None:
            return float(self.norm_bound), True
        if math.isinf(self.epsilon):
            return math.inf, True
        bound = source.largest_norm()
        warnings.warn(
            "norm_bound is not declared, so it is read off the private data, and no "
            "finite epsilon holds. Pass norm_bound, the Euclidean norm to which "
            "samples are clipped.",
            PrivacyLeakWarning,
            stacklevel=callers_level(),
        )
        return min(max(bound, 1e-100), 1e100), False

    _conditions: tuple[str, ...] = ()
    """Conditions of the guarantee."""

    def _guarantee(
        self, event: Any, *, declared: bool = True, conditions: tuple[str, ...] = ()
    ) -> PrivacyGuarantee:
        from dp_accounting import dp_event

        fields: dict[str, Any] = {
            "unit": "sample",
            "source": _SOURCE,
            "conditions": (*self._conditions, *conditions),
        }
        budget = float(self.epsilon), float(self.delta)
        if event is None:
            return PrivacyGuarantee.of(
                dp_event.NonPrivateDpEvent(),
                statement="Moments of the samples were used without noise.",
                **fields,
            )
        statement = self._statement
        if not declared:
            return PrivacyGuarantee.of(
                dp_event.NonPrivateDpEvent(),
                statement=f"{statement} What was not declared was read off the data "
                f"themselves, which protects nobody.",
                claimed=budget,
                **fields,
            )
        return PrivacyGuarantee(
            event=event,
            epsilon=budget[0],
            delta=budget[1],
            statement=statement,
            **fields,
        )

    _statement = (
        "Everything that fit publishes follows from sums over the samples, clipped to "
        "norm_bound, of their second moments (and, with centre, of the samples), to "
        "which Gaussian noise was added. The number of samples is public."
    )

    def _planned_guarantee(self, fitted: Any = None) -> PrivacyGuarantee:
        if math.isinf(self.epsilon):
            return self._guarantee(None)
        shape = getattr(fitted, "sample_shape_", None)
        if self.tensor_shape is not None:
            shape = checked_tensor_shape(self.tensor_shape)
        if shape is None:
            from ..privacy.accounting._events import PureDpEvent, RevealingDpEvent

            # Epsilon and delta hold for every shape; the rest of the curve may not.
            inner = PureDpEvent(float(self.epsilon))
            event: Any = RevealingDpEvent(float(self.delta), inner)
        else:
            event = self._planned_noise(shape, self._n_planned_further(fitted)).event
        return self._guarantee(event, declared=self._is_declared())

    def _n_planned_further(self, fitted: Any) -> int:
        """Number of further coordinates that a fit will have."""
        return 0

    def _is_declared(self) -> bool:
        """Whether everything that a fit needs beside sums is declared."""
        return self.norm_bound is not None

    def _unprotected(self) -> list[str]:
        return [
            *super()._unprotected(),
            f"{type(self).__name__} protects the samples of its fit. What it computes "
            f"of other samples later has no noise and is not protected.",
        ]

    # --- fit --------------------------------------------------------------------------

    def _fit(
        self,
        source: Source,
        shape: tuple[int, ...],
        n_further: int = 0,
        *,
        declared: bool = True,
        **facts: Any,
    ) -> Self:
        """Release what the samples of a source add up to, and learn from it.

        `facts` are attributes of the fit that follow from public values.
        """
        noise = self._planned_noise(shape, n_further)
        bound, bound_is_declared = self._bound(source)
        declared = declared and bound_is_declared
        first = self._first_question(shape, bound, n_further)
        # All samples that are here are read and checked once before a budget is spent.
        # Parties are asked only once the budgets have admitted the release.
        sums = source.total(first) if source.is_here else None
        if source.n_samples > CAPACITY:
            raise ValueError(f"There are more than {CAPACITY} samples. Pass fewer.")
        # Locked, or another thread might store its model under this guarantee.
        with self._progress("step", 2) as on_step, self._count_releases().lock:
            guarantee = self._guarantee(
                noise.event, declared=declared, conditions=source.conditions
            )
            draws = noise.event is not None
            with self._release(guarantee, anew=True, draws=draws) as streams:
                releases = Releases(noise, streams, source, first, sums)
                on_step()
                learned = self._learn(releases, first, source.n_samples)
            # One assignment, so that other threads see all of it or nothing.
            fitted = {**learned, "sample_shape_": shape, **facts}
            self.__dict__ = {**vars(self), **fitted}
            on_step()
        return self

    def _first_question(
        self, shape: tuple[int, ...], bound: float, n_further: int
    ) -> Question:
        """The question that no release precedes."""
        raise NotImplementedError

    def _learn(
        self, releases: Releases, first: Question, n_samples: int
    ) -> dict[str, Any]:
        """Attributes of the fit, from releases alone."""
        raise NotImplementedError
