"""The shell of the transformers that add noise: validate, plan in fit, release."""

import math
import warnings
from collections.abc import Callable
from contextlib import suppress
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .._dask import check_lazy, extremes, is_dask, named_columns
from .._sklearn_compat import Interval, fit_context, wants_frame
from .._validation import check_numeric, checked
from ..base import EstimatorMixin, PrivateEstimatorMixin
from ..exceptions import PrivacyLeakWarning, UnsoundClaimWarning
from ..privacy import PrivacyGuarantee
from ..privacy._guarantee import CALLERS_RELATION, unit_name
from ..privacy._numbers import exact
from ..privacy.calibration._sensitivity import SensitivitySet, declared_set
from ._chunks import AS_SAMPLES, in_chunks
from ._noise import Clipping

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = [
    "LocalMechanism",
    "NoiseMechanism",
    "PlannedNoise",
    "PlannedRelease",
    "ReleasingTransformer",
]

# Plan, event or guarantee, noise variance and expected squared error.
PlannedNoise = tuple[Any, "DpEvent", float | NDArray[np.float64], float]
PlannedRelease = tuple[Any, PrivacyGuarantee, float | NDArray[np.float64], float]


class ReleasingTransformer(
    EstimatorMixin, PrivateEstimatorMixin, TransformerMixin, BaseEstimator
):
    """A transformer whose `transform` is a release.

    A subclass says in `_plan_release` how samples of a shape are randomised and what
    that guarantees. Everything in the plan is public.
    """

    noise_variance_: float | NDArray[np.float64]
    sample_shape_: tuple[int, ...]
    n_features_in_: int
    fit_transform: Callable[..., NDArray[np.floating]]

    _released_by = "transform"
    _error_name = "largest expected squared error of a sample"
    _unit = "sample"

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "epsilon": [Interval(Real, 0, None, closed="right")],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "bounds": ["array-like", None],
        "norm_bound": [Interval(Real, 0, None, closed="neither"), None],
        "sensitivity": [Interval(Real, 0, None, closed="neither"), None],
        "tensor_shape": ["array-like", None],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.non_deterministic = math.isfinite(self.epsilon)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Plan the noise for samples of this shape.

        No value of `X` is read where the domain is declared and epsilon is finite:
        its shape is enough.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples. Of a Dask array, the range is computed where it is not declared;
            else its shape is enough.
        y : None
            Ignored.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter does not fit the shape of the samples, or the sampler
            cannot honour epsilon and delta.
        """
        reads = math.isinf(self.epsilon) or not self._is_declared()
        array = self._validated(
            X, reset=True, ensure_all_finite=reads, order="C" if reads else None
        )
        shape = self._shape_of(array)
        with self._progress() as on_step:
            plan, guarantee, variance, error = self._finite_plan(shape, array)
            on_step()
        if not self._is_declared():
            # What is fitted shows the range that was read off the samples.
            self._record(guarantee)
        self._forget(
            _plan=plan,
            sample_shape_=shape,
            noise_variance_=variance,
            expected_squared_error_=error,
            privacy_guarantee_=guarantee,
        )
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.floating]:
        """Release the samples, with fresh noise at every call.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples of the shape seen in `fit`; finite. A Dask array or frame in
            chunks of samples stays lazy.

        Returns
        -------
        noisy : ndarray, or dask.array.Array for one of Dask
            Of the type of `X`, if that is float32 or float64; else float64.

        Raises
        ------
        ValueError
            Before anything is drawn: if `X` has another shape, or NaN or infinite
            values. In a chunk of a Dask array these are found when it is computed,
            before its own noise is drawn.

        Notes
        -----
        Of a Dask array, the call is the release: it is recorded once, and takes a key,
        before anything is computed. The noise of a chunk follows from that key and the
        number of the chunk, so that whatever is computed again, also by another worker,
        is the same. Its values must then be the same, too, in the same order: others
        would get the same noise, and two results tell by what they differ. The lazy
        array holds the key and what makes the raw data, and is as private as these;
        what is computed from it is released.
        """
        array = self._samples(X)
        shape = self._output_shape(array)
        self._check_framed(array, shape)
        return self._released(array, shape)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "privacy_guarantee_")

    def _released(self, samples: Any, shape: tuple[int, ...]) -> Any:
        """Samples with noise, each of a shape."""
        # What was fitted decides, not a parameter that was set afterwards; plan and
        # guarantee of one fit, also where another thread fits meanwhile.
        fitted = vars(self).copy()
        randomize = fitted["_plan"].randomize
        with self._release(fitted["privacy_guarantee_"]) as streams:
            if is_dask(samples):
                return in_chunks(randomize, samples, shape, self, streams=streams)
            rows = samples.reshape(len(samples), -1)
            return randomize(rows, streams).reshape(len(samples), *shape)

    def _samples(self, X: Any) -> Any:
        """Samples of the shape seen in `fit`."""
        check_is_fitted(self)
        array = self._validated(X, reset=False)
        if self._shape_of(array) != self.sample_shape_:
            raise ValueError(
                f"The samples have shape {self._shape_of(array)}, but "
                f"{type(self).__name__} was fitted to samples of shape "
                f"{self.sample_shape_}."
            )
        return array

    def _validated(self, X: Any, *, reset: bool, **options: Any) -> Any:
        if is_dask(X):
            array, known = check_lazy(X), named_columns(X)
            checked(validate_data, self, known, reset=reset, skip_check_array=True)
        else:
            check_numeric(X, "X")
            # The order in memory has no part in what is computed.
            options = {**AS_SAMPLES, **options}
            array = checked(validate_data, self, X, reset=reset, **options)
        if not math.prod(array.shape[1:]):
            raise ValueError(f"Samples of shape {array.shape[1:]} have no entries.")
        return array

    def _shape_of(self, X: Any) -> tuple[int, ...]:
        """Shape of a sample."""
        if getattr(self, "tensor_shape", None) is None:
            return X.shape[1:]
        shape = tuple(self.tensor_shape)
        if not shape or not all(isinstance(n, Integral) and int(n) >= 1 for n in shape):
            raise ValueError(
                f"tensor_shape must hold positive integers, got {self.tensor_shape!r}."
            )
        shape = tuple(int(n) for n in shape)
        if X.shape[1:] not in (shape, (math.prod(shape),)):
            raise ValueError(
                f"Samples of shape {X.shape[1:]} are not tensors of shape {shape}, "
                f"nor those as rows of {math.prod(shape)} features."
            )
        return shape

    def _output_shape(self, X: Any) -> tuple[int, ...]:
        """Shape of what is released of a sample."""
        return X.shape[1:]

    def _check_framed(self, samples: Any, shape: tuple[int, ...]) -> None:
        """Refuse a data frame of what is lazy, or not rows."""
        if is_dask(samples) and wants_frame(self):
            raise ValueError(
                "Samples of Dask stay lazy, and set_output makes no frames of them. "
                "set_output(transform='default') leaves them an array, and "
                "dask.dataframe.from_dask_array makes that a frame."
            )
        if len(shape) > 1 and wants_frame(self):
            raise ValueError(
                f"Samples of shape {shape} do not fit into a data frame; set_output "
                f"serves 2-D output alone. set_output(transform='default') leaves them "
                f"an array."
            )

    def _error_by_epsilon(self, X: Any, y: Any) -> Callable[[float], float]:
        """Expected error as a function of epsilon; of `X` the shape alone is read.

        `y` is for estimators that learn from it.
        """
        if not self._is_declared():
            raise ValueError(
                f"The domain of {type(self).__name__} is not declared: the error would "
                f"be that of a range read off the samples."
            )
        zeros = np.zeros((1, *np.shape(X)[1:]))
        return lambda epsilon: self.set_params(epsilon=epsilon).fit(zeros)._worst_error

    @property
    def _worst_error(self) -> float:
        """Largest expected squared error of a sample of the domain."""
        return self.expected_squared_error_

    def _is_declared(self) -> bool:
        """Whether the domain is declared, so that no value need be read."""
        raise NotImplementedError

    def _plan_release(self, shape: tuple[int, ...], X: Any) -> PlannedRelease:
        """Plan, guarantee, noise variance and expected squared error.

        `X` is None where a guarantee is asked for before there are data; it is read
        only if the domain is not declared.
        """
        raise NotImplementedError

    def _finite_plan(self, shape: tuple[int, ...], X: Any) -> PlannedRelease:
        """The same, where the noise can be represented."""
        plan: Any = None, None, math.inf, math.inf
        with np.errstate(over="ignore"), suppress(OverflowError):
            plan = self._plan_release(shape, X)
        if not (np.all(np.isfinite(plan[2])) and np.isfinite(plan[3])):
            raise ValueError(
                f"epsilon = {exact(self.epsilon)} asks for more noise in this domain "
                f"than can be represented."
            )
        return plan

    def _planned_guarantee(self, fitted: Any = None) -> PrivacyGuarantee:
        if not hasattr(fitted, "sample_shape_"):
            raise TypeError(
                f"What {type(self).__name__} guarantees depends on the shape of the "
                f"samples; it is known of a search that was refitted."
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            warnings.simplefilter("ignore", UnsoundClaimWarning)
            return self._plan_release(fitted.sample_shape_, None)[1]

    def _unprotected(self) -> list[str]:
        protected = "the rows of X, not y"
        if self._unit != "sample":
            protected = f"{unit_name(self._unit)}, neither a whole sample nor y"
        return [
            *super()._unprotected(),
            f"{type(self).__name__} protects {protected}.",
        ]


class NoiseMechanism(OneToOneFeatureMixin, ReleasingTransformer):
    """A transformer that clips samples to a declared domain and adds noise.

    A subclass says in `_design` and `_noise` which noise.
    """

    expected_squared_error_: float

    @property
    def _source(self) -> str:
        """The theorem that the guarantee rests on."""
        return ""

    @property
    def _noise_name(self) -> str:
        """The noise, for the statement of the guarantee."""
        return ""

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[np.object_]:
        """Names of the output's columns: those of the input.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Those seen in `fit` by default.

        Returns
        -------
        names : ndarray of str

        Raises
        ------
        ValueError
            If the samples were not passed as rows of features.
        """
        check_is_fitted(self, "sample_shape_")
        if math.prod(self.sample_shape_) != self.n_features_in_:
            raise ValueError(
                f"Samples of shape {self.sample_shape_} have no feature names; pass "
                f"rows of features and tensor_shape to have them."
            )
        return super().get_feature_names_out(input_features)

    def _is_declared(self) -> bool:
        return any(value is not None for value in self._declarations().values())

    def _declarations(self) -> dict[str, Any]:
        """What the parameters say of the domain; a mechanism may lack some of them."""
        names = ("bounds", "norm_bound", "sensitivity")
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    def _domain(self, shape: tuple[int, ...], X: Any) -> tuple[SensitivitySet, bool]:
        """Sensitivity set, and whether it was declared."""
        declarations = self._declarations()
        domain = declared_set(shape, **declarations)
        if domain is not None:
            return domain, True
        low, high = (0.0, 1.0) if X is None else extremes(X)
        if math.isfinite(self.epsilon):
            warnings.warn(
                f"The domain of the samples is not declared ({', '.join(declarations)}"
                f"), so their range is read off the private data. No finite epsilon "
                f"holds for this release; declare it to protect the samples.",
                PrivacyLeakWarning,
                stacklevel=5,
            )
        if not low < high:
            low, high = low - 0.5, high + 0.5
        box = declared_set(shape, bounds=(low, high))
        assert box is not None
        return box, False

    def _plan_release(self, shape: tuple[int, ...], X: Any) -> PlannedRelease:
        design = self._design(shape)
        domain, declared = self._domain(shape, X)
        if math.isinf(self.epsilon):
            return Clipping(domain), self._no_guarantee(), 0.0, 0.0
        plan, event, variance, error = self._noise(shape, domain, design)
        return plan, self._guarantee(event, domain, declared), variance, error

    def _design(self, shape: tuple[int, ...]) -> Any:
        """What does not depend on the domain; raises where a parameter does not fit."""

    def _noise(
        self, shape: tuple[int, ...], domain: SensitivitySet, design: Any
    ) -> PlannedNoise:
        """Plan, event, noise variance and expected squared error."""
        raise NotImplementedError

    def _no_guarantee(self) -> PrivacyGuarantee:
        from dp_accounting import dp_event

        return PrivacyGuarantee.of(
            dp_event.NonPrivateDpEvent(),
            unit="sample",
            statement="The samples were clipped to their domain (epsilon = inf).",
            source="not private",
        )

    def _claims(self) -> tuple[float, float]:
        """Epsilon and delta that the parameters stand for, or that a paper claims."""
        return float(self.epsilon), float(getattr(self, "delta", 0.0))

    def _guarantee(
        self, event: "DpEvent", domain: SensitivitySet, declared: bool
    ) -> PrivacyGuarantee:
        """Guarantee of one call of `transform`."""
        from dp_accounting import dp_event

        asked = float(self.epsilon), float(getattr(self, "delta", 0.0))
        relation = "replace-one"
        statement = f"One call of transform, for each sample: {self._noise_name}"
        if domain.sensitivity is not None:
            relation = CALLERS_RELATION
            statement += (
                f", on a query whose sensitivity ({exact(domain.sensitivity)}) the "
                f"caller vouches for; rows about the same people compose."
            )
        elif declared:
            statement += ", after clipping to the declared domain."
        else:
            event = dp_event.NonPrivateDpEvent()
            statement += (
                ". The range of the samples was read off the samples themselves, "
                "which protects nobody; declare their domain."
            )
        fields: dict[str, Any] = {
            "unit": "sample",
            "relation": relation,
            "statement": statement,
            "source": self._source,
        }
        if not declared:
            return PrivacyGuarantee.of(event, claimed=self._claims(), **fields)
        if getattr(self, "calibration", "sound") != "sound":
            return PrivacyGuarantee.of(
                event, delta=asked[1], claimed=self._claims(), **fields
            )
        # Raises if the event does not keep what was asked for.
        return PrivacyGuarantee(event=event, epsilon=asked[0], delta=asked[1], **fields)


class LocalMechanism(NoiseMechanism):
    """A mechanism for boxes whose noise depends on the value that it protects."""

    _parameter_constraints: ClassVar = {
        name: constraint
        for name, constraint in NoiseMechanism._parameter_constraints.items()
        if name not in ("delta", "norm_bound", "sensitivity")
    }

    def variance(self, X: ArrayLike) -> NDArray[np.float64]:
        """Variance of every entry that `transform` would release of these samples.

        Nothing is released, and no noise is drawn. The variance tells something of the
        values: it is for public ones, and not to be published for private ones.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Public samples of the shape seen in `fit`; finite.

        Returns
        -------
        variance : ndarray of the shape of `X`, or dask.array.Array for one of Dask
            In squared units of the entries.

        Raises
        ------
        ValueError
            If `X` has another shape, or NaN or infinite values.
        """
        array, variance = self._samples(X), self._plan.variance
        if is_dask(array):
            return in_chunks(variance, array, array.shape[1:], self)
        return variance(array.reshape(len(array), -1)).reshape(array.shape)
