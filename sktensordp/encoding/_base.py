"""The base of the encoders: learn from consenting people, privatise, decode."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from .._client import make_client
from .._dask import check_lazy, is_dask, loaded
from .._noise_only import estimates_are_noise, warn_of_noise
from .._sklearn_compat import Interval, StrOptions, fit_context, framed, validate_params
from .._validation import check_aligned, check_numeric, checked
from ..mechanisms._base import ReleasingTransformer
from ..mechanisms._chunks import DTYPES, in_chunks
from ..mechanisms._samples import validated
from ..privacy import PrivacyGuarantee, PrivacyTags
from ..tensor._threads import one_blas_thread
from ._client import ClientRandomizer, EncoderClient, LinearMap
from ._code_noise import PURE, CodeNoise, code_guarantee, code_noise, no_noise
from ._linear import LinearCode, LinearProblem, linear_problem, unclipped_code
from ._search import best_clip, clip_levels
from ._task import check_linear_model, checked_matrix, is_model, task_matrix
from ._whitening import whitening

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent


class Decoder(Protocol):
    """Estimates samples from released codes: `AffineDecoder` or `LearnedEncoder`."""

    def decode(self, code: NDArray[np.float64], /) -> NDArray[np.float64]:
        """Estimates of the samples."""


@dataclass(frozen=True)
class AffineDecoder:
    """Estimates a sample from its noisy code y, as matrix y + offset.

    Attributes
    ----------
    matrix : ndarray of shape (n, Z)
    offset : ndarray of shape (n,)
    """

    matrix: NDArray[np.float64]
    offset: NDArray[np.float64]

    def decode(self, code: NDArray[np.float64]) -> NDArray[np.float64]:
        """Estimates of shape (n_samples, n)."""
        return code @ self.matrix.T + self.offset


@dataclass(frozen=True)
class FittedCode:
    """Everything that a fit learns.

    Attributes
    ----------
    randomizer : ClientRandomizer
        The client's half: encodes, clips and randomises.
    decoder : AffineDecoder or LearnedEncoder
        The server's half.
    noise : CodeNoise
    n_components : int
        Number of entries of a code.
    radius : float
        Radius of the ball to which codes are clipped.
    loss : float
        Expected task loss.
    variance : float
        Task loss if every sample is estimated by the mean.
    kept : float
        Share of the task that estimates are expected to keep: 1 if they are exact, 0 if
        one constant is as good.
    task : ndarray of shape (m, n) or None
        K of a linear task.
    """

    randomizer: ClientRandomizer
    decoder: Decoder
    noise: CodeNoise
    n_components: int
    radius: float
    loss: float
    variance: float
    kept: float
    task: NDArray[np.float64] | None


class LinearEncoder(
    OneToOneFeatureMixin, ClassNamePrefixFeaturesOutMixin, ReleasingTransformer
):
    """A linear encoder for a linear task, noise on the code, and the best decoder.

    A subclass defines the encoder in `_encoding_matrix`.
    """

    n_components_: int
    mechanism_: str
    clip_: float
    noise_variance_: float
    expected_task_loss_: float
    task_variance_: float
    task_: NDArray[np.float64] | None
    _decoder: Decoder
    _fitted_shape: tuple[int, ...]

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ReleasingTransformer._parameter_constraints,
        "delta": [Interval(Real, 0, 1, closed="left")],
        "task": "no_validation",
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "mechanism": [StrOptions({*PURE, "gaussian", "auto"})],
        "clip": [Interval(Real, 0, 1, closed="right"), StrOptions({"auto"})],
        "output": [StrOptions({"decoded", "code"})],
    }

    def __privacy_tags__(self) -> PrivacyTags:
        tags = super().__privacy_tags__()
        tags.learns_from = "Xy" if self._learns_from_y() else "X"
        return tags

    @property
    def _clip_level(self) -> float | None:
        """Share of the samples that are not clipped; None to choose it."""
        return None if self.clip == "auto" else float(self.clip)

    def _learns_from_y(self) -> bool:
        """Whether `fit` learns from y, too, if there is one."""
        has_gradient = callable(getattr(self.task, "value_and_gradient", None))
        has_targets = callable(getattr(self.task, "outputs", None))
        return self.task is None or (has_gradient and not has_targets)

    def __sklearn_clone__(self) -> Self:
        copy = super().__sklearn_clone__()
        # If the task is a model, it stays fitted; cloning would unfit it.
        is_model = hasattr(self.task, "get_params")
        copy.task = deepcopy(self.task) if is_model else self.task
        return copy

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn encoder and decoder from public data or from people who consent.

        `fit` adds no noise to what it learns, so it does not protect the people in `X`.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            At least two samples; finite. A Dask array or frame is loaded into memory.
        y : array-like of shape (n_samples,) or (n_samples, m), default=None
            Targets of the task, numbers or labels. Read only if `task` is None or has
            no `outputs`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the task cannot be used, does not fit the samples or does not vary, or
            if the mechanism cannot keep epsilon and delta.
        """
        kept, n_samples = self._learn_all(X, y)
        if math.isfinite(self.epsilon) and self._tells_of_noise:
            warn_of_noise(
                estimates_are_noise(kept, n_samples),
                f"The codes hold little but noise: as far as a fit to {n_samples} "
                f"samples tells, estimates from them are no better than one constant. "
                f"Pass a larger epsilon, more samples, or a task of fewer outputs.",
            )
        return self

    _tells_of_noise = True
    """Whether `fit` warns of codes that hold little but noise."""

    def _learn_all(self, X: ArrayLike, y: ArrayLike | None) -> tuple[float, int]:
        """Learn all that `fit` does; the share that is kept, and from how many samples.

        See `FittedCode`.
        """
        X, y = loaded(X, y)
        check_aligned(X, y=y)
        array = validated(self, X, reset=True, ensure_min_samples=2)
        shape = self._shape_of(array)
        rows = array.reshape(len(array), -1)
        self._check_task(rows.shape[1])
        with self._progress(max_tasks=self._n_steps) as on_step:
            code = self._learn(rows, y, on_step)
        guarantee = self._guarantee(code.noise.name, code.noise.event)
        self._forget(
            _randomizer=code.randomizer,
            _decoder=code.decoder,
            _fitted_shape=array.shape[1:],
            sample_shape_=shape,
            task_=code.task,
            n_components_=code.n_components,
            mechanism_=code.noise.name,
            clip_=code.radius,
            noise_variance_=code.noise.variance,
            expected_task_loss_=code.loss,
            task_variance_=code.variance,
            privacy_guarantee_=guarantee,
        )
        return code.kept, len(rows)

    def transform(self, X: ArrayLike) -> NDArray[np.floating]:
        """Release noisy codes and decode them, with fresh noise on every call.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples of the shape seen in `fit`; finite. A Dask array or data frame,
            chunked along the samples, stays lazy, as in the mechanisms.

        Returns
        -------
        estimates : ndarray of the shape of `X`, or dask.array.Array
            ``decode(privatize(X))``; with ``output="code"`` the noisy code, of shape
            (n_samples, n_components). float32 if `X` is, otherwise float64. Dask input
            gives a Dask array.

        Raises
        ------
        ValueError
            If `X` has another shape, or holds NaN or infinity. The error is raised
            before any noise is drawn.
        """
        samples = self._samples(X)
        decodes = self.output == "decoded"
        shape = samples.shape[1:] if decodes else (self.n_components_,)
        self._check_output_container(samples, shape)
        code = self._released(samples, (self.n_components_,))
        return self._decoded(code, shape) if decodes else code

    def privatize(self, X: ArrayLike) -> NDArray[np.floating]:
        """Release noisy codes, with fresh noise on every call: the client's half.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples of the shape seen in `fit`; finite. A Dask array or data frame,
            chunked along the samples, stays lazy, as in the mechanisms.

        Returns
        -------
        code : ndarray of shape (n_samples, n_components), or dask.array.Array
            In units of the clip radius; pass it to `decode`.

        Raises
        ------
        ValueError
            If `X` has another shape, or holds NaN or infinity. The error is raised
            before any noise is drawn.
        """
        return self._released(self._samples(X), (self.n_components_,))

    def decode(self, Z: ArrayLike) -> NDArray[np.floating]:
        """Estimate samples from noisy codes: the server's half.

        Parameters
        ----------
        Z : array-like of shape (n_samples, n_components)
            Noisy codes from `privatize`. A Dask array stays lazy.

        Returns
        -------
        estimates : ndarray of shape (n_samples, ...), or dask.array.Array
            In the shape of the samples passed to `fit`; a data frame if `set_output`
            asks for one. For a linear task, the linear estimates with the least
            expected task loss.
        """
        check_is_fitted(self)
        if is_dask(Z):
            code = check_lazy(Z, "Z")
        else:
            code = check_numeric(Z, "Z")
            code = checked(check_array, code, dtype=DTYPES, order="C", input_name="Z")
        if code.shape[1:] != (self.n_components_,):
            raise ValueError(
                f"Z must have {self.n_components_} components, got {code.shape[1]}."
            )
        shape = self._fitted_shape
        self._check_output_container(code, shape)
        estimates = self._decoded(code, shape)
        if shape != (self.n_features_in_,):
            return estimates
        names = OneToOneFeatureMixin.get_feature_names_out(self)
        return framed(self, estimates, Z, names)

    def _decoded(self, code: Any, shape: tuple[int, ...]) -> Any:
        """Estimates of samples, each of shape `shape`; lazy for a Dask array."""
        decode = self._decoder.decode
        if not isinstance(code, np.ndarray):
            return in_chunks(decode, code, shape, self, input_name="Z")
        return decode(code.astype(float)).astype(code.dtype).reshape(-1, *shape)

    def client(self, random_state: int | None = None) -> EncoderClient:
        """The client's half alone, to ship to people's devices.

        Parameters
        ----------
        random_state : int or None, default=None
            Random state of the client. An int is for tests and papers only.

        Returns
        -------
        client : EncoderClient
            Offers `privatize`. Its size depends only on the shape of a sample and the
            number of components.
        """
        check_is_fitted(self)
        # The copy belongs to one fit, even if another thread fits meanwhile.
        fitted = vars(self).copy()
        client = make_client(
            EncoderClient,
            fitted["_randomizer"],
            fitted["privacy_guarantee_"],
            random_state,
            sample_shape=fitted["sample_shape_"],
            mechanism=fitted["mechanism_"],
        )
        return self._passed_on(client)

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[np.object_]:
        """Names of the output's columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the input; by default those seen in `fit`.

        Returns
        -------
        names : ndarray of str
            The input's names, or for ``output="code"`` the class name with the number
            of the component.

        Raises
        ------
        ValueError
            If decoded samples are not rows of features.
        """
        check_is_fitted(self)
        if self.output == "code":
            return ClassNamePrefixFeaturesOutMixin.get_feature_names_out(
                self, input_features
            )
        if self._fitted_shape != (self.n_features_in_,):
            raise ValueError(
                f"Samples of shape {self._fitted_shape} have no feature names. Pass "
                f"rows of features, and their shape as `tensor_shape`."
            )
        return super().get_feature_names_out(input_features)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __expected_error__(
        self, X: ArrayLike, y: ArrayLike | None = None, n_users: int | None = None
    ) -> tuple[str, Callable[[float], float]]:
        """The expected task loss; each call fits to `X`, `y`."""

        def error(epsilon: float) -> float:
            validate_params(self.set_params(epsilon=epsilon))
            self._learn_all(X, y)
            return self.expected_task_loss_ / self.task_variance_

        return "expected task loss, as a share of the task's variance", error

    @property
    def _time_is_public(self) -> bool:
        """True: the data of a fit must be public; nothing protects them."""
        return True

    @property
    def _n_steps(self) -> int:
        """Largest number of steps of a fit."""
        return 1

    def _learn(
        self,
        rows: NDArray[np.floating],
        y: ArrayLike | None,
        on_step: Callable[[], bool],
    ) -> FittedCode:
        """Learn encoder, decoder and noise for the task from the fitting data."""
        white = whitening(rows)
        task = task_matrix(self.task, rows, y, white)
        problem = linear_problem(rows, task, white)
        # The products are small: threads would cost more than they save.
        with one_blas_thread:
            code, noise = self._choose_code(problem)
        on_step()
        matrix = white.scale[:, np.newaxis] * (white.root @ code.decoder)
        encoder = code.encoder @ white.inverse / code.divisor
        return FittedCode(
            ClientRandomizer(
                white.mean, white.scale, LinearMap(encoder), noise.randomizer
            ),
            AffineDecoder(matrix, white.mean - matrix @ code.centre),
            noise,
            len(code.encoder),
            code.radius,
            code.loss,
            problem.variance,
            1 - code.loss / problem.variance,
            task,
        )

    def _encoding_matrix(
        self, problem: LinearProblem, ratio: float
    ) -> NDArray[np.float64]:
        """Encoder for a given ratio of noise to signal.

        Parameters
        ----------
        problem : LinearProblem
        ratio : float
            c, the variance of the noise in an entry over the sum of the squared
            scalings of the code; 0 for no noise.

        Returns
        -------
        encoder : ndarray of shape (Z, r)
        """
        raise NotImplementedError

    def _search_code(
        self,
        problem: LinearProblem,
        noise_for: Callable[[int], CodeNoise],
        level: float | None,
    ) -> tuple[LinearCode, CodeNoise]:
        """The best code for one mechanism, and its noise.

        Parameters
        ----------
        problem : LinearProblem
        noise_for : callable
            Maps a number of components to a CodeNoise.
        level : float or None
            Clip level; None to search for it.
        """
        encoder = self._encoding_matrix(problem, 0.0)
        noise = noise_for(len(encoder))
        return best_clip(problem, encoder, noise, clip_levels(level)), noise

    def _refined(
        self, problem: LinearProblem, code: LinearCode, noise: CodeNoise
    ) -> LinearCode:
        """Refine the parameters that the search did not vary."""
        return code

    def _choose_code(self, problem: LinearProblem) -> tuple[LinearCode, CodeNoise]:
        """The code and noise with the least expected loss."""
        epsilon = float(self.epsilon)
        level = self._clip_level
        if math.isinf(epsilon):
            encoder = self._encoding_matrix(problem, 0.0)
            noise = no_noise(len(encoder), clipped=level is not None)
            if level is None:
                return unclipped_code(problem, encoder, 0.0), noise
            return best_clip(problem, encoder, noise, clip_levels(level)), noise
        candidates, refusal = [], None
        for name in PURE if self.mechanism == "auto" else (self.mechanism,):
            noise_for = functools.partial(
                code_noise, name, epsilon=epsilon, delta=float(self.delta)
            )
            try:
                candidates.append(
                    self._search_code(problem, functools.cache(noise_for), level)
                )
            except ValueError as error:
                refusal = error
        if refusal is not None and not candidates:
            raise refusal
        code, noise = min(candidates, key=lambda pair: pair[0].loss)
        if level is None:
            code = self._refined(problem, code, noise)
        return code, noise

    def _guarantee(self, mechanism: str, event: DpEvent) -> PrivacyGuarantee:
        return code_guarantee(
            mechanism,
            event,
            epsilon=float(self.epsilon),
            delta=float(self.delta),
        )

    def _check_task(self, n_features: int | None) -> None:
        """Refuse a task that no fit to samples with this number of entries can use.

        Only a fit, which has samples, checks whether a model's predictions follow from
        its weights.
        """
        if is_model(self.task):
            check_linear_model(self.task)
        elif self.task is not None:
            checked_matrix(self.task, n_features)

    def __privacy_plan__(
        self, fitted: object = None, *, any_shape: bool = False
    ) -> PrivacyGuarantee:
        guarantee = super().__privacy_plan__(fitted, any_shape=any_shape)
        source = f"{guarantee.source}, as an upper bound for any code of a fit"
        return replace(guarantee, source=source)

    def _planned_guarantee(self, fitted: object) -> PrivacyGuarantee:
        from dp_accounting import dp_event

        has_shape = self.tensor_shape is not None or hasattr(fitted, "sample_shape_")
        shape = self._planned_shape(fitted) if has_shape else None
        self._check_task(None if shape is None else math.prod(shape))

        from ..privacy.accounting._events import PureDpEvent

        if math.isinf(self.epsilon):
            return self._guarantee("none", dp_event.NonPrivateDpEvent())
        if self.mechanism != "gaussian":
            return self._guarantee(self.mechanism, PureDpEvent(float(self.epsilon)))
        # `fit` chooses the number of components. The event that covers every choice
        # has the noise of one component and the residual of the largest number.
        epsilon, delta = float(self.epsilon), float(self.delta)
        fewest, most = (
            code_noise("gaussian", n, epsilon, delta).event.events
            for n in (1, math.prod(self._planned_shape(fitted)))
        )
        planned = self._guarantee("gaussian", dp_event.ComposedDpEvent(most))
        event = dp_event.ComposedDpEvent([fewest[0], most[1]])
        return planned.derived(event, delta=delta)

    def __privacy_unprotected__(self) -> list[str]:
        return [
            *super().__privacy_unprotected__(),
            f"{type(self).__name__} does not protect its fitting data: encoder, "
            f"decoder, clip radius and expected loss are learned from them without "
            f"noise. Fit it to public data, or to data of people who consent.",
        ]
