"""`MomentsEstimator`: noise, guarantee and releases of all estimators of moments.

**Guarantee.** Everything that `fit` publishes is (epsilon, delta)-indistinguishable
between two data sets of equally many samples that differ in one of them. If `fit` gets
`groups`, it is so between two data sets of equally many people that differ in one of
them, with any number of samples; read "person" for "sample" below, and see
``_sums.py``.

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

**A norm bound that is found** is released before all of these, with pure epsilon_s
(``_norm.py``). The noise is planned for (epsilon - epsilon_s, delta) whatever the bound
is, because moments are in units of it. By adaptive composition, both together keep
(epsilon, delta), and their event is that of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from .._dask import is_dask
from .._noise_only import is_one_of_many, warn_of_noise
from .._random import NoiseStreams
from .._sklearn_compat import Interval
from .._validation import (
    adds_noise,
    check_numeric,
    check_ordered,
    checked,
    described,
    filled,
    is_integer,
    warn,
)
from ..base import (
    LOGGER,
    EstimatorMixin,
    NoiseBy,
    PrivateEstimatorMixin,
    recorded_fit,
)
from ..measure import (
    NoisySums,
    PartySums,
    Releases,
    SharedNoise,
    after,
    left_of,
    plan_gaussian_sums,
)
from ..mechanisms._chunks import AS_SAMPLES
from ..mechanisms._gaussian_noise import event_for_any_length
from ..mechanisms._samples import (
    check_sample_shape,
    checked_tensor_shape,
    shape_of_sample,
    validated,
)
from ..privacy import PrivacyGuarantee
from ..privacy._numbers import shown
from ._norm import found_bound, is_at_end, most_of, search_epsilon
from ._requests import SampleTerms
from ._samples import OfParties, Samples, read_first
from ._spectrum import Spectrum
from ._sums import CAPACITY, LARGEST_CORE, LARGEST_SAMPLE, Chunk, Question
from ._units import Units, written

# Most numbers that a fit releases, if its plan does not know the shape of samples:
# those of modes of 4,000 rows.
_MOST_NUMBERS = 2**24
_EXACT = (
    "Declare tensor_shape to plan what fit will state, which does not depend on the "
    "number of samples."
)
_ANY_SHAPE = f"This holds for fits that release up to {{:,}} numbers. {_EXACT}"
_LOOSE = f"This is the loosest guarantee with this epsilon and delta. {_EXACT}"
_FOUND_LATER = (
    "Part of epsilon finds norm_bound. How much follows from the number of samples, so "
    "this is the loosest guarantee with this epsilon and delta. Declare norm_bound to "
    "plan what fit will state."
)
_SEARCHED = (
    "This counts the largest search for norm_bound in full, beside all of the noise. "
    "Declare norm_bound to plan what fit will state."
)
# A coarser lattice would round the moments of few samples to nothing.
_LARGEST_STEP = 2.0**-6
# What may help if a fit releases no more than noise.
SHORT_SAMPLES = (
    "If the samples are much shorter than norm_bound, pass a smaller one. Otherwise, "
    "only a larger epsilon or more samples will help."
)
# Fits compute with the fourth powers of bounds, the variances of moments.
_NORMS = 1e-50, 1e50


def _size(n_samples: int, shape: tuple[int, ...], *, of_people: bool) -> str:
    """How many samples there are, and of which shape; "" before they were counted.

    If a person may have several, only the number of people is public.
    """
    if not n_samples:
        return ""
    if of_people:
        whose = "person with samples" if n_samples == 1 else "people with samples"
    else:
        whose = "sample" if n_samples == 1 else "samples"
    return f"{n_samples} {whose} of shape {shape}"


class SampleReleases:
    """The releases of one fit, each chosen by earlier ones.

    Parameters
    ----------
    samples : Samples
    noise : NoisySums or SharedNoise
    streams : NoiseStreams or None
        None if no noise is added here.

    Attributes
    ----------
    sigma : float
        Standard deviation of the noise; with noise in shares, if all parties answer.
    """

    def __init__(
        self,
        samples: Samples,
        noise: NoisySums | SharedNoise,
        streams: NoiseStreams | None,
    ) -> None:
        self._samples, self._releases = samples, Releases(noise, streams)
        self.sigma = self._releases.sigma

    @property
    def of_people(self) -> bool:
        """Whether a person may have several samples."""
        return self._samples.of_people

    @property
    def n_samples(self) -> int:
        """Number of samples, or of people if these have several; it is public."""
        return self._samples.n_samples

    def ask(self, question: Question) -> tuple[list[NDArray[np.float64]], float]:
        """Release the sums that answer a question; see `Question.read`.

        With the standard deviation of the noise in them.
        """
        answers = self._releases.ask(self._samples, question)
        return question.read(answers), answers[0][1]

    def unprotected(self, question: Question) -> NDArray[np.float64] | None:
        """What each sample contributes, if there is no noise and they are in memory.

        None if a person may have several, who would be left out together.
        """
        samples = self._samples
        if self._releases.step or not samples.is_in_memory or samples.of_people:
            return None
        return np.concatenate([question.vectors(chunk) for chunk in samples.chunks()])

    def spectra(self, question: Question) -> list[Spectrum]:
        """Release moments; the spectrum of every matrix."""
        matrices, sigma = self.ask(question)
        return list(map(Spectrum, matrices, question.deviations(sigma)))


class MomentsEstimator(EstimatorMixin, PrivateEstimatorMixin, BaseEstimator):
    """An estimator that learns from noisy second moments of samples.

    A subclass implements `_learn` and `_n_passes`; a regression, more.
    """

    n_components: Any
    epsilon: float
    delta: float
    norm_bound: float | None
    offset: Any
    scale: Any
    center: bool
    tensor_shape: Any
    privacy_guarantee_: PrivacyGuarantee
    norm_bound_: float
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
        "norm_bound": [Interval(Real, *_NORMS, closed="both"), None],
        "offset": [Real, "array-like", None],
        "scale": [Interval(Real, 0, None, closed="neither"), "array-like", None],
        "center": ["boolean"],
        "tensor_shape": ["array-like", None],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
    }

    _conditions: tuple[str, ...] = ()
    """Conditions of the guarantee."""
    _statement = (
        "Everything that fit publishes follows from sums over the samples, clipped to "
        "norm_bound, of their second moments (and, with center, of the samples), to "
        "which {noise} was added{by}. {number} is public{size}."
    )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.non_deterministic = adds_noise(self.epsilon)
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        # Set with all else that a fit leaves; an interrupted fit leaves a guarantee.
        return "sample_shape_" in vars(self)

    @property
    def _time_is_public(self) -> bool:
        """The number of samples and their shape are."""
        return True

    def _shape_of(self, X: Any) -> tuple[int, ...]:
        """Shape of a sample."""
        return shape_of_sample(self.tensor_shape, X)

    def _rows(
        self, X: Any, like: tuple[int, ...] | None = None
    ) -> tuple[Any, tuple[int, ...]]:
        """The samples as rows, checked, and the shape of a sample; Dask's as they are.

        `like` is the shape that they must have; None for the first samples of a fit.
        """
        array = validated(self, X, reset=like is None)
        shape = self._shape_of(array)
        if like is not None:
            check_sample_shape(self, shape, like)
        return array if is_dask(array) else array.reshape(len(array), -1), shape

    def _ranks(self, shape: tuple[int, ...]) -> tuple[int, ...] | int | None:
        """The numbers of components: one for each mode, or in all; None if it is open.

        Raises
        ------
        ValueError
            If samples of this shape have not so many, or moments of so many cells are
            not released.
        """
        if self.n_components is None:
            return None
        if isinstance(self.n_components, Integral):
            number, most = int(self.n_components), math.prod(shape)
            if len(shape) > 1:
                most = min(most, LARGEST_CORE)
            if number > most:
                raise ValueError(
                    f"n_components = {number}, but samples of shape {shape} have at "
                    f"most {most} components."
                )
            return (number,) if len(shape) == 1 else number
        check_ordered(self.n_components, "n_components")
        ranks = tuple(self.n_components)
        if len(ranks) != len(shape) or not all(
            is_integer(r) and 1 <= r <= n for r, n in zip(ranks, shape, strict=True)
        ):
            raise ValueError(
                f"n_components must have one number for each mode of a sample of shape "
                f"{shape}, from 1 to its size, got {described(self.n_components)}."
            )
        return tuple(map(int, ranks))

    # --- noise and guarantee ----------------------------------------------------------

    def _planned_noise(
        self, shape: tuple[int, ...], n_further: int, spent: float = 0.0
    ) -> NoisySums:
        """Noise with which all releases together keep epsilon and delta.

        Epsilon less what was spent before, by the search for a norm bound.

        Raises
        ------
        ValueError
            If a parameter does not fit the shape, or the noise cannot be drawn.
        """
        self._ranks(shape)
        n_cells = math.prod(shape)
        self._units(shape)  # refuses some
        modes = sum(n * (n + 1) // 2 for n in shape)
        core = min(n_cells, LARGEST_CORE) + n_further
        total = modes + max(modes, core * (core + 1) // 2) + n_cells * self._n_means
        if n_cells > LARGEST_SAMPLE:
            raise ValueError(
                f"A sample of shape {shape} has more than {LARGEST_SAMPLE} cells. Pass "
                f"smaller samples."
            )
        noise = self._noise_of(total, spent)
        if noise.step > _LARGEST_STEP:
            raise ValueError(
                f"epsilon = {self.epsilon} and delta = {self.delta} are so small that "
                f"the noise would hide everything. Pass larger ones."
            )
        return noise

    def _noise_of(self, n_numbers: int, spent: float = 0.0) -> NoisySums:
        """Noise for releases of so many numbers, after a part of epsilon was spent."""
        return plan_gaussian_sums(
            left_of(float(self.epsilon), spent),
            float(self.delta),
            total_epsilon=float(self.epsilon),
            n_cells=n_numbers,
            n_moved=n_numbers,
            n_entries=CAPACITY,
        )

    @property
    def _finds_norm(self) -> bool:
        """Whether the fit has to find a norm bound."""
        return self.norm_bound is None and math.isfinite(self.epsilon)

    def __privacy_check_rows__(self, n_rows: int) -> None:
        if self._finds_norm:
            search_epsilon(n_rows, float(self.epsilon), type(self).__name__)

    def _bound(
        self, samples: Samples, spent: float, streams: NoiseStreams | None
    ) -> float:
        """The norm bound: declared, found with what is spent on it, or none."""
        if self.norm_bound is not None:
            return float(self.norm_bound)
        return found_bound(samples, spent, streams) if spent else math.inf

    def _guarantee(
        self,
        event: Any,
        *,
        declared: bool,
        spent: float = 0.0,
        conditions: tuple[str, ...] = (),
        shared_noise: SharedNoise | None = None,
        size: str = "",
        of_people: bool = False,
    ) -> PrivacyGuarantee:
        """Guarantee of an event, and of what was spent on a norm bound before it."""
        from dp_accounting import dp_event

        of_size = f": {size}" if size else ""
        fields: dict[str, Any] = {
            "unit": "person" if of_people else "sample",
            "source": "Dong, Roth and Su (2022), Corollary 3.3",
            "conditions": (*self._conditions, *conditions),
            "statement": self._statement.format(
                noise="Gaussian noise",
                by="",
                number=f"The number of {'people' if of_people else 'samples'}",
                size=of_size,
            )
            + " All samples of a person together add no more than one." * of_people,
            "local": False,
        }
        if spent:
            event = after(spent, event)
            fields["source"] += "; McKenna and Sheldon (2020)"
            fields["statement"] += (
                f" norm_bound was found among public numbers with epsilon = "
                f"{shown(spent)}; all else was computed with the rest."
            )
        epsilon, delta = float(self.epsilon), float(self.delta)
        if shared_noise is not None:
            said = self._statement.format(
                noise=shared_noise.name,
                by=shared_noise.by,
                number="Every party's number of samples",
                size=of_size,
            )
            fields["source"] += shared_noise.source
            fields["conditions"] += shared_noise.conditions
            fields["statement"] = said + shared_noise.statement
            return PrivacyGuarantee.from_event(event, delta=delta, **fields)
        if event is not None and declared:
            return PrivacyGuarantee(event=event, epsilon=epsilon, delta=delta, **fields)
        if event is None:
            said = "Moments of the samples{} were used without noise."
            fields["statement"] = said.format(f" ({size})" if size else "")
        else:
            fields["claimed"] = epsilon, delta
            fields["statement"] += (
                " What was not declared was read off the data themselves, which "
                "protects nobody."
            )
        return PrivacyGuarantee.from_event(dp_event.NonPrivateDpEvent(), **fields)

    def __privacy_plan__(
        self, fitted: object = None, *, any_shape: bool = False
    ) -> PrivacyGuarantee:
        declared, target_domain = self._is_declared(), self._declared()
        unit = getattr(getattr(fitted, "privacy_guarantee_", None), "unit", None)
        planned = partial(self._guarantee, of_people=unit == "person")
        shape = None if any_shape else getattr(fitted, "sample_shape_", None)
        if self.tensor_shape is not None:
            shape = checked_tensor_shape(self.tensor_shape)
        if shape is not None:
            self._ranks(shape)  # refuses some
        if not declared or math.isinf(self.epsilon):
            event = None if math.isinf(self.epsilon) else self._noise_of(1).event
            return planned(event, declared=declared)
        if self._finds_norm:
            if any_shape or hasattr(fitted, "sample_shape_"):
                return self._with_any_search(self._for_any_shape(planned))
            return self._loosest(planned, _FOUND_LATER)
        if shape is not None:
            event = self._planned_noise(shape, self._n_further(target_domain)).event
            return planned(event, declared=True)
        return self._for_any_shape(planned)

    def _with_any_search(self, guarantee: PrivacyGuarantee) -> PrivacyGuarantee:
        """That of a fit that finds a norm bound in any number of samples.

        Gaussian for many fits, at an epsilon that is a little larger for one.
        """
        from ..privacy.accounting._curves import event_epsilon

        event = after(most_of(float(self.epsilon)), guarantee.event)
        return replace(
            guarantee,
            event=event,
            epsilon=event_epsilon(event, guarantee.delta),
            statement=f"{guarantee.statement} {_SEARCHED}",
        )

    def _for_any_shape(
        self, planned: Callable[..., PrivacyGuarantee]
    ) -> PrivacyGuarantee:
        """That of a fit to samples of a shape that is not known yet."""
        from ..privacy.accounting._curves import event_epsilon

        epsilon, delta = float(self.epsilon), float(self.delta)
        guarantee = planned(self._noise_of(1).event, declared=True)
        found = event_for_any_length(guarantee.event, epsilon, delta, _MOST_NUMBERS)
        if found is None:
            return self._loosest(planned, _LOOSE)
        event, most = found
        return replace(
            guarantee,
            event=event,
            epsilon=max(event_epsilon(event, delta), epsilon),
            statement=f"{guarantee.statement} {_ANY_SHAPE.format(most)}",
        )

    def _loosest(
        self, planned: Callable[..., PrivacyGuarantee], why: str
    ) -> PrivacyGuarantee:
        """That of any fit with these epsilon and delta."""
        from ..privacy.accounting._events import PureDpEvent, RevealingDpEvent

        # Both hold for every fit; the rest of the curve may not.
        event = RevealingDpEvent(float(self.delta), PureDpEvent(float(self.epsilon)))
        guarantee = planned(event, declared=True)
        return replace(guarantee, statement=f"{guarantee.statement} {why}")

    def _declared(self) -> Any:
        """What is declared about targets, checked; None if it is not."""
        return None

    def _facts(self, target_domain: Any) -> dict[str, Any]:
        """Attributes of a fit that follow from what is public about targets."""
        return {}

    def _n_further(self, target_domain: Any) -> int:
        """Number of further coordinates, from what is public about targets."""
        return 0

    @property
    def _n_means(self) -> int:
        """Largest number of releases of a mean."""
        raise NotImplementedError

    def _units(self, shape: tuple[int, ...]) -> Units:
        """Public units of the cells; refuses those of another shape."""
        return Units.of(self.offset, self.scale, shape)

    def _is_declared(self) -> bool:
        """Whether nothing is read off private data."""
        return True

    def __privacy_unprotected__(self) -> list[str]:
        return [
            *super().__privacy_unprotected__(),
            f"{type(self).__name__} protects the samples of its fit. What it computes "
            f"of other samples later has no noise and is not protected.",
        ]

    # --- fit --------------------------------------------------------------------------

    def _in_batches(
        self,
        batches: Iterable[Any],
        samples_of: Callable[[Any], Any],
        further_of: Callable[[Any, Any], Any],
    ) -> tuple[Samples, tuple[int, ...]]:
        """Samples in batches, and the shape of a sample.

        `samples_of` returns the samples of a batch; `further_of` takes their checked
        rows and the batch, and returns further coordinates or None.
        """

        def rows_of(batch: Any) -> Chunk:
            rows, _ = self._rows(samples_of(batch), shape)
            return Chunk(self._units(shape)(rows), further_of(rows, batch))

        first, batches, is_read_once = read_first(batches)
        _, shape = self._rows(samples_of(first))
        n_passes = self._n_passes(shape)
        if is_read_once and n_passes + self._finds_norm > 1:
            instead = " Or declare norm_bound, so that one pass suffices."
            raise ValueError(
                "These batches can be read only once, but are needed again. Pass a "
                "list, or an object whose __iter__ begins anew."
                + instead
                * (n_passes == 1)
            )
        return Samples(batches, rows_of, read_once=is_read_once), shape

    def _fit(
        self,
        samples: Samples,
        shape: tuple[int, ...],
        n_further: int = 0,
        *,
        declared: bool = True,
        **facts: Any,
    ) -> Self:
        """Release what samples add up to, and learn from it.

        `facts` are attributes of the fit that follow from public values.
        """
        noise = samples.noise or self._planned_noise(shape, n_further)
        samples.check()
        size = _size(samples.n_samples, shape, of_people=samples.of_people)
        spent = 0.0
        if self._finds_norm:
            epsilon, name = float(self.epsilon), type(self).__name__
            spent = search_epsilon(samples.n_samples, epsilon, name)
            noise = self._planned_noise(shape, n_further, spent)
        guarantee = self._guarantee(
            noise.event,
            declared=declared,
            spent=spent,
            conditions=samples.conditions,
            shared_noise=samples.noise,
            size=size,
            of_people=samples.of_people,
        )
        draws, recorded = noise.event is not None, samples.noise is not None
        # Locked, or another thread might store its model under this guarantee.
        progress = self._progress("step", 2, has_time=not samples.of_people)
        with progress as on_step, self._count_releases().lock:
            noise_by: NoiseBy = "others" if recorded else "fit" if draws else "nobody"
            with recorded_fit(self, guarantee, noise_by) as streams:
                on_step()
                bound = self._bound(samples, spent, streams)
                question = Question(shape, bound, noise.step, n_further=n_further)
                releases = SampleReleases(samples, noise, streams)
                learned, said = self._learn(releases, question)
            # One assignment, so that other threads see all of it or nothing.
            fitted = {
                **learned,
                "norm_bound_": bound,
                "sample_shape_": shape,
                **facts,
            }
            self.__dict__ = {**vars(self), **fitted}
            on_step()
        if not is_one_of_many():
            size = _size(samples.n_samples, shape, of_people=samples.of_people)
            LOGGER.info("%s: %s", type(self).__name__, size)
            if spent:
                self._tell_of_bound(bound, spent)
            is_guessed = self.tensor_shape is None and len(shape) > 1
            if is_guessed and samples.n_samples < max(shape) and not samples.of_people:
                warn(
                    f"The fit got {size}: fewer than its longest mode has. If the "
                    f"first axis of X is not that of the samples, move it there, such "
                    f"as by np.moveaxis(X, -1, 0)."
                )
        warn_of_noise(bool(said), said)
        return self

    def _tell_of_bound(self, bound: float, spent: float) -> None:
        """Log the norm bound that was found, and warn if it may be far off."""
        name = type(self).__name__
        LOGGER.info(
            "%s: norm_bound_ = %.4g, found with epsilon %.3g", name, bound, spent
        )
        if is_at_end(bound):
            warn(
                f"norm_bound_ = {bound:.2g} is the "
                f"{'smallest' if bound < 1 else 'largest'} one that is searched, and "
                f"samples may be far beyond it. Pass scale or norm_bound."
            )

    # --- sums over several parties: see `Aggregated` ----------------------------------

    def _terms(self) -> SampleTerms:
        self._validate_params()
        if self.tensor_shape is None:
            raise ValueError(
                "Pass tensor_shape: parties do not reveal the shape of their samples."
            )
        if self.norm_bound is None:
            raise ValueError(
                "Pass norm_bound: all parties must know it beforehand. A fit to "
                "samples in one place releases one, as norm_bound_."
            )
        shape, target_domain = checked_tensor_shape(self.tensor_shape), self._declared()
        of_targets, bound = self._settings(target_domain), float(self.norm_bound)
        n_further = self._n_further(target_domain)
        noise = self._planned_noise(shape, n_further)
        settings = {
            "estimator": type(self).__name__,
            "n_components": self._ranks(shape),
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "norm_bound": bound,
            "offset": written(self.offset),
            "scale": written(self.scale),
            "center": bool(self.center),
            "tensor_shape": shape,
            **of_targets,
        }
        further = self._length_of_further
        question = Question(
            shape, bound, noise.step, further=further, n_further=n_further
        )
        return SampleTerms(
            settings,
            noise,
            question,
            lambda shared: self._guarantee(
                shared.event, declared=True, shared_noise=shared
            ),
        )

    def _settings(self, target_domain: Any) -> dict[str, Any]:
        """What is public about targets, as values of JSON; raise if it is missing."""
        return {}

    _length_of_further = 0.0
    """Largest length of the further coordinates of a sample."""

    def _people(self, X: Any, y: Any) -> Samples:
        """The samples of a party."""
        shape = checked_tensor_shape(self.tensor_shape)
        if isinstance(X, list | tuple) and not len(X):
            X = np.zeros((0, *shape))
        check_numeric(X, "X")
        options = {**AS_SAMPLES, "ensure_min_samples": 0, "input_name": "X"}
        array = checked(check_array, filled(X), **options)
        self._shape_of(array)
        rows = array.reshape(len(array), math.prod(shape))
        further = self._further_of(rows, y)
        samples = Samples.in_memory(self._units(shape)(rows), further, None)
        samples.check()
        return samples

    def _further_of(self, rows: Any, y: Any) -> NDArray[np.float64] | None:
        """Further coordinates of samples, from their targets."""
        return None

    def _fit_sums(self, sums: PartySums) -> Self:
        shape, target_domain = checked_tensor_shape(self.tensor_shape), self._declared()
        facts = {**self._facts(target_domain), "n_features_in_": shape[0]}
        self._fit(OfParties(sums), shape, self._n_further(target_domain), **facts)
        self.__dict__.pop("feature_names_in_", None)
        return self

    def _n_passes(self, shape: tuple[int, ...]) -> int:
        """Number of times that the samples are summed."""
        raise NotImplementedError

    def _learn(
        self, releases: SampleReleases, question: Question
    ) -> tuple[dict[str, Any], str]:
        """Attributes of the fit, from releases alone.

        And what is said if what was released is within its noise of nothing; "" if it
        is not. `question` holds what is public: shape, bound and further coordinates.
        """
        raise NotImplementedError
