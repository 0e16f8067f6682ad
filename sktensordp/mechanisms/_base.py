"""Base classes of the mechanisms: `fit` chooses the noise, `transform` releases."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from .._dask import extremes, is_dask
from .._sklearn_compat import Interval, fit_context, wants_frame
from .._validation import adds_noise, warn
from ..base import EstimatorMixin, PrivateEstimatorMixin, recorded_call
from ..exceptions import PrivacyLeakWarning
from ..privacy import PrivacyGuarantee, PrivacyTags
from ..privacy._guarantee import CALLERS_RELATION, no_guarantee, unit_name
from ..privacy._numbers import exact
from ..privacy.calibration._sensitivity import SensitivitySet, declared_set
from ._chunks import in_chunks
from ._gaussian_noise import check_residual, event_for_any_length
from ._noise import Clipping
from ._samples import (
    check_sample_shape,
    checked_tensor_shape,
    shape_of_sample,
    validated,
    warn_of_type,
)

if TYPE_CHECKING:
    from dp_accounting import DpEvent

# Randomizer, event or guarantee, noise variance and expected squared error.
PlannedNoise = tuple[Any, "DpEvent", float | NDArray[np.float64], float]
PlannedRelease = tuple[Any, PrivacyGuarantee, float | NDArray[np.float64], float]


class ReleasingTransformer(
    EstimatorMixin, PrivateEstimatorMixin, TransformerMixin, BaseEstimator
):
    """A transformer whose `transform` is a release.

    A subclass implements `_plan_release`, which returns the randomizer for samples of
    a shape, and its guarantee. The randomizer holds nothing but public values.
    """

    noise_variance_: float | NDArray[np.float64]
    sample_shape_: tuple[int, ...]
    n_features_in_: int
    fit_transform: Callable[..., NDArray[np.floating]]
    _randomizer: Any

    _unit = "sample"

    # Constraints for all mechanisms; each has some of these parameters.
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "epsilon": [Interval(Real, 0, None, closed="right")],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "bounds": ["array-like", None],
        "norm_bound": [Interval(Real, 0, None, closed="neither"), None],
        "sensitivity": [Interval(Real, 0, None, closed="neither"), None],
        "tensor_shape": ["array-like", None],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
    }

    def __privacy_tags__(self) -> PrivacyTags:
        tags = super().__privacy_tags__()
        tags.released_by = "transform"
        return tags

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.non_deterministic = adds_noise(self.epsilon)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Choose the noise for samples of the shape of those in `X`.

        If epsilon is finite and the parameters declare the domain of the samples, `fit`
        reads the shape of `X` and none of its values.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples. Those of a Dask array are computed only if the domain is not
            declared, to find their range.
        y : None
            Ignored.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter does not fit the shape of the samples, or the noise cannot
            be drawn accurately enough to keep epsilon and delta.
        """
        reads_values = math.isinf(self.epsilon) or not self._is_declared()
        order = "C" if reads_values else None
        array = validated(
            self, X, reset=True, ensure_all_finite=reads_values, order=order
        )
        shape = self._shape_of(array)
        with self._progress() as on_step:
            randomizer, guarantee, variance, error = self._plan_finite_release(
                shape, array
            )
            on_step()
        if not self._is_declared():
            # The fitted attributes reveal the range that was read off the samples.
            self._record(guarantee)
            self._keep(guarantee)
        self._forget(
            _randomizer=randomizer,
            sample_shape_=shape,
            noise_variance_=variance,
            expected_squared_error_=error,
            privacy_guarantee_=guarantee,
            **self._further_attributes(shape, randomizer),
        )
        return self

    def _further_attributes(
        self, shape: tuple[int, ...], randomizer: Any
    ) -> dict[str, object]:
        """What a fit sets besides, by name; like the randomizer, it reads no sample."""
        return {}

    def transform(self, X: ArrayLike) -> NDArray[np.floating]:
        """Release the samples, with fresh noise on every call.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Finite samples of the shape seen in `fit`. A Dask array or data frame,
            chunked along the samples, stays lazy.

        Returns
        -------
        noisy : ndarray, or dask.array.Array for a Dask input
            The released samples. The data type is that of `X` if it is float32 or
            float64, else float64.

        Raises
        ------
        ValueError
            If the samples of `X` have another shape, or hold NaN or infinity. The
            error is raised before any noise is drawn. The values in a chunk of a Dask
            array are checked when the chunk is computed, before its noise is drawn.

        Notes
        -----
        For a Dask array, the call itself is the release: it is recorded once, and
        draws a key, before anything is computed. The noise of a chunk follows from
        the key and the number of the chunk, so that computing a chunk again, even on
        another worker, gives the same noise. The values of the chunk must then be the
        same and in the same order: different values would get the same noise, and two
        results would show their difference. The lazy array holds the key and the
        graph that loads the raw data: guard it like the data. The released samples are
        those computed from it.
        """
        array = self._samples(X)
        shape = self._output_shape(array)
        self._check_output_container(array, shape)
        return self._released(array, shape)

    def __sklearn_is_fitted__(self) -> bool:
        return "privacy_guarantee_" in vars(self)

    def _released(
        self, samples: NDArray[np.floating], shape: tuple[int, ...]
    ) -> NDArray[np.floating]:
        """Randomised samples, each of the given shape."""
        # Parameters set after the fit have no effect. The copy holds the randomizer
        # and the guarantee of one fit, even if another thread is fitting meanwhile.
        fitted = vars(self).copy()
        randomize = fitted["_randomizer"].randomize
        with recorded_call(self, fitted["privacy_guarantee_"]) as streams:
            if is_dask(samples):
                return in_chunks(randomize, samples, shape, self, streams=streams)
            rows = samples.reshape(len(samples), -1)
            return randomize(rows, streams).reshape(len(samples), *shape)

    def _samples(self, X: ArrayLike) -> NDArray[np.floating]:
        """The samples, checked to have the shape seen in `fit`."""
        check_is_fitted(self)
        array = validated(self, X, reset=False)
        check_sample_shape(self, self._shape_of(array), self.sample_shape_)
        warn_of_type(X, getattr(self, "bounds", None))
        return array

    def _shape_of(self, X: NDArray[np.floating]) -> tuple[int, ...]:
        """Shape of a sample."""
        return shape_of_sample(getattr(self, "tensor_shape", None), X)

    def _output_shape(self, X: NDArray[np.floating]) -> tuple[int, ...]:
        """Shape of one released sample."""
        return X.shape[1:]

    def _check_output_container(
        self, samples: ArrayLike, shape: tuple[int, ...]
    ) -> None:
        """Raise if `set_output` asks for a data frame and the output cannot be one."""
        is_lazy = not isinstance(samples, np.ndarray)
        if not (is_lazy or len(shape) > 1) or not wants_frame(self):
            return
        if is_lazy:
            raise ValueError(
                "set_output cannot make a data frame of a lazy Dask array. Call "
                "set_output(transform='default') to get a Dask array, and "
                "dask.dataframe.from_dask_array to make a Dask frame of it."
            )
        raise ValueError(
            f"Samples of shape {shape} do not fit into a data frame, which is 2-D. "
            f"Call set_output(transform='default') to get an array."
        )

    def __expected_error__(
        self, X: ArrayLike, y: ArrayLike | None = None, n_users: int | None = None
    ) -> tuple[str, Callable[[float], float]]:
        """The largest error of a sample; only the shape of `X` is read."""
        if not self._is_declared():
            raise ValueError(
                f"The domain of {type(self).__name__} is not declared, so the expected "
                f"error would depend on a range read off the samples. Declare the "
                f"domain."
            )
        zeros = np.zeros((1, *np.shape(X)[1:]))

        def error(epsilon: float) -> float:
            return self.set_params(epsilon=epsilon).fit(zeros).expected_squared_error_

        return "largest expected squared error of a sample", error

    def _is_declared(self) -> bool:
        """Whether the domain is declared, so that `fit` need not read any value."""
        raise NotImplementedError

    @property
    def _time_is_public(self) -> bool:
        """A fit that reads no value depends on shapes alone."""
        return self._is_declared()

    def _plan_release(
        self, shape: tuple[int, ...], X: ArrayLike | None
    ) -> PlannedRelease:
        """Randomizer, guarantee, noise variance and expected squared error.

        The values of `X` are read only if the domain is not declared. `X` is None when
        a guarantee is needed before any data are seen.
        """
        raise NotImplementedError

    def _plan_finite_release(
        self, shape: tuple[int, ...], X: ArrayLike | None
    ) -> PlannedRelease:
        """What `_plan_release` returns; raise if the noise overflows a float."""
        is_finite = False
        with np.errstate(over="ignore"), suppress(OverflowError):
            release = self._plan_release(shape, X)
            _, _, variance, error = release
            is_finite = bool(np.all(np.isfinite(variance)) and np.isfinite(error))
        if not is_finite:
            raise ValueError(
                f"epsilon = {exact(self.epsilon)} needs more noise in this domain than "
                f"can be represented; pass a larger epsilon or a smaller domain."
            )
        return release

    def __privacy_plan__(
        self, fitted: object = None, *, any_shape: bool = False
    ) -> PrivacyGuarantee:
        guarantee = self._planned_guarantee(fitted)
        return self._for_any_shape(guarantee, fitted) if any_shape else guarantee

    def _planned_guarantee(self, fitted: object) -> PrivacyGuarantee:
        """Guarantee for samples of the shape that is declared, or that `fitted` saw."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            return self._plan_release(self._planned_shape(fitted), None)[1]

    def _planned_shape(self, fitted: object) -> tuple[int, ...]:
        """Shape of the samples: as declared, or as in a fitted mechanism."""
        declared = getattr(self, "tensor_shape", None)
        if declared is not None:
            return checked_tensor_shape(declared)
        if not hasattr(fitted, "sample_shape_"):
            raise TypeError(
                f"The guarantee of {type(self).__name__} depends on the shape of the "
                f"samples, which is unknown before a fit. Declare `tensor_shape`, or "
                f"fit it; for a search, pass refit=True."
            )
        return fitted.sample_shape_

    def _for_any_shape(
        self, guarantee: PrivacyGuarantee, fitted: object
    ) -> PrivacyGuarantee:
        """The planned guarantee, if samples may have another shape than in `fitted`.

        Epsilon and delta are parameters, and hold for every shape. Everything else in
        the event depends on the shape.
        """
        from dp_accounting import dp_event

        from ..privacy.accounting._curves import event_epsilon
        from ..privacy.accounting._events import PureDpEvent, RevealingDpEvent

        if not guarantee.protects:
            # At another delta it might protect, but only for this shape.
            return replace(guarantee, event=dp_event.NonPrivateDpEvent())
        if guarantee.claimed is not None:
            raise ValueError(
                f"The true guarantee of {type(self).__name__} depends on the shape of "
                f"its input, which may differ between the fits of a search, so it is "
                f"not known."
            )
        epsilon, delta = guarantee.epsilon, guarantee.delta
        shape, found = getattr(fitted, "sample_shape_", ()), None
        if len(shape) == 1 and getattr(self, "tensor_shape", None) is None:
            found = event_for_any_length(guarantee.event, epsilon, delta, *shape)
        if found is not None:
            event, most = found
            statement = f"{guarantee.statement} Samples have at most {most:,} entries."
            epsilon = event_epsilon(event, delta)
            guarantee = replace(guarantee, epsilon=epsilon, statement=statement)
        else:
            event = PureDpEvent(epsilon)
            if delta:
                event = RevealingDpEvent(delta, event)
        source = f"{guarantee.source}, as an upper bound for samples of any shape"
        return replace(guarantee, event=event, source=source)

    def __privacy_unprotected__(self) -> list[str]:
        protected = "the rows of X, not y"
        if self._unit != "sample":
            protected = f"{unit_name(self._unit)}, neither a whole sample nor y"
        return [
            *super().__privacy_unprotected__(),
            f"{type(self).__name__} protects {protected}.",
        ]


def is_domain_declared(transformer: ReleasingTransformer) -> bool:
    """Whether the parameters declare the domain, so that a fit reads no value."""
    return transformer._is_declared()


class NoiseMechanism(OneToOneFeatureMixin, ReleasingTransformer):
    """Base class of mechanisms: clips samples to a declared domain and adds noise.

    A subclass is a mechanism: it says how much noise a domain needs. The base class
    does the rest: `fit` and `transform`, checks, `epsilon=inf`, Dask, budgets, plans.

    Attributes
    ----------
    privacy_guarantee_ : PrivacyGuarantee
        Guarantee of one call of `transform`.
    noise_variance_ : float or ndarray of the shape of a sample
        Variance of the noise in each entry.
    expected_squared_error_ : float
        Largest expected squared error of a sample.
    sample_shape_ : tuple of int
        Shape of a sample.
    n_features_in_ : int
        Size of the second axis of `X`.

    See Also
    --------
    gaussian_event : The event of Gaussian noise.

    Notes
    -----
    A subclass has a parameter `epsilon`, perhaps `delta`, `random_state`, one or more
    of `bounds`, `norm_bound` and `sensitivity`, which declare the domain, and perhaps
    `tensor_shape`. It defines:

    - ``_noise(shape, domain, design)``, which returns the randomizer, the event, the
      variance of the noise and the largest expected squared error. It sees no sample.
      Its method ``randomize(samples, streams)`` gets one sample a row, not clipped yet,
      and draws from ``streams.stream(number)``, with a new number for every draw.
    - ``_source``, the theorem, and ``_noise_name``, for the guarantee.
    - Perhaps ``_design(shape)``, which checks parameters before the domain is known.

    An event that does not keep epsilon and delta is refused, and so is one that lacks
    the residual of a `GaussianLattice` in the randomizer. Whether the event is true of
    the randomizer is yours to prove: ``doc/extend.md`` builds two mechanisms, with
    their proofs and tests.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import GaussianMechanism, NoiseMechanism
    >>> issubclass(GaussianMechanism, NoiseMechanism)
    True
    """

    expected_squared_error_: float

    @property
    def _source(self) -> str:
        """Theorem behind the guarantee."""
        return ""

    @property
    def _noise_name(self) -> str:
        """Name of the noise, for the statement of the guarantee."""
        return ""

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[np.object_]:
        """Names of the output columns, which are those of the input.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the input columns; by default those seen in `fit`.

        Returns
        -------
        names : ndarray of str

        Raises
        ------
        ValueError
            If `fit` did not get rows of features.
        """
        check_is_fitted(self, "sample_shape_")
        if math.prod(self.sample_shape_) != self.n_features_in_:
            raise ValueError(
                f"Samples of shape {self.sample_shape_} have no feature names. To get "
                f"names, pass samples as rows of features, and their shape as "
                f"tensor_shape."
            )
        return super().get_feature_names_out(input_features)

    def _is_declared(self) -> bool:
        return any(value is not None for value in self._declarations().values())

    def _declarations(self) -> dict[str, Any]:
        """The parameters of this mechanism that declare the domain, by name."""
        names = ("bounds", "norm_bound", "sensitivity")
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    def _domain(
        self, shape: tuple[int, ...], X: ArrayLike | None
    ) -> tuple[SensitivitySet, bool]:
        """The sensitivity set, and whether it was declared."""
        declarations = self._declarations()
        domain = declared_set(shape, **declarations)
        if domain is not None:
            return domain, True
        low, high = (0.0, 1.0) if X is None else extremes(X)
        if math.isfinite(self.epsilon):
            warn(
                f"The domain of the samples is not declared, so their range is read "
                f"off the private data, and no finite epsilon holds. To protect the "
                f"samples, pass {' or '.join(declarations)}.",
                PrivacyLeakWarning,
            )
        if not low < high:
            low, high = low - 0.5, high + 0.5
        box = declared_set(shape, bounds=(low, high))
        assert box is not None
        return box, False

    def _plan_release(
        self, shape: tuple[int, ...], X: ArrayLike | None
    ) -> PlannedRelease:
        design = self._design(shape)
        domain, declared = self._domain(shape, X)
        if math.isinf(self.epsilon):
            text = "The samples were clipped to their domain, without noise."
            return Clipping(domain), no_guarantee(text), 0.0, 0.0
        randomizer, event, variance, error = self._noise(shape, domain, design)
        check_residual(event, randomizer)
        return randomizer, self._guarantee(event, domain, declared), variance, error

    def _design(self, shape: tuple[int, ...]) -> object:
        """What `_noise` needs beside the domain; raise if a parameter does not fit."""

    def _noise(
        self, shape: tuple[int, ...], domain: SensitivitySet, design: Any
    ) -> PlannedNoise:
        """Randomizer, event, noise variance and expected squared error."""
        raise NotImplementedError

    @property
    def _claimed(self) -> tuple[float, float] | None:
        """What a theorem claims, if the noise was calibrated to something else."""
        return None

    def _guarantee(
        self, event: DpEvent, domain: SensitivitySet, declared: bool
    ) -> PrivacyGuarantee:
        """Guarantee of one call of `transform`."""
        from dp_accounting import dp_event

        epsilon, delta = float(self.epsilon), float(getattr(self, "delta", 0.0))
        relation = "replace-one"
        statement = f"One call of transform, for each sample: {self._noise_name}"
        if domain.sensitivity is not None:
            relation = CALLERS_RELATION
            statement += (
                f", on a query whose sensitivity ({exact(domain.sensitivity)}) the "
                f"caller vouches for. Releases of rows about the same person compose."
            )
        elif declared:
            statement += ", after clipping to the declared domain."
        else:
            event = dp_event.NonPrivateDpEvent()
            statement += (
                ". The range was read off the samples themselves, which protects "
                "nobody; declare their domain."
            )
        fields: dict[str, Any] = {
            "unit": "sample",
            "relation": relation,
            "statement": statement,
            "source": self._source,
        }
        if not declared:
            claimed = self._claimed or (epsilon, delta)
            return PrivacyGuarantee.from_event(event, claimed=claimed, **fields)
        if self._claimed:
            return PrivacyGuarantee.from_event(
                event, delta=delta, claimed=self._claimed, **fields
            )
        # The constructor raises if the event does not keep epsilon and delta.
        return PrivacyGuarantee(
            event=event,
            epsilon=epsilon,
            delta=delta,
            local=domain.sensitivity is None,
            **fields,
        )


class LocalMechanism(NoiseMechanism):
    """A mechanism for entries in `bounds` whose noise depends on their values."""

    def variance(self, X: ArrayLike) -> NDArray[np.float64]:
        """Variance of every entry that `transform` would release for these samples.

        Nothing is released, and no noise is drawn. The variance depends on the values:
        compute it for public samples, and do not publish it for private ones.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Public, finite samples of the shape seen in `fit`.

        Returns
        -------
        variance : ndarray of the shape of `X`, or dask.array.Array for a Dask input
            In squared units of the entries.

        Raises
        ------
        ValueError
            If the samples of `X` have another shape, or hold NaN or infinity.
        """
        array, variance = self._samples(X), self._randomizer.variance
        if is_dask(array):
            return in_chunks(variance, array, array.shape[1:], self)
        return variance(array.reshape(len(array), -1)).reshape(array.shape)
