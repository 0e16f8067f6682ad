"""The shell of the encoders: fit on consenting data, privatise, decode."""

import functools
import math
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from .._dask import check_lazy, is_dask, loaded
from .._sklearn_compat import Interval, StrOptions, fit_context
from .._validation import check_numeric, checked
from ..exceptions import UnsoundClaimWarning
from ..mechanisms._base import ReleasingTransformer
from ..mechanisms._chunks import DTYPES, in_chunks
from ..privacy import PrivacyGuarantee
from ..tensor._blas import one_blas_thread
from ._client import ClientRandomizer, EncoderClient
from ._code_noise import PURE, CodeNoise, code_noise, no_noise
from ._guarantee import encoder_guarantee
from ._linear import LinearCode, LinearProblem, linear_problem, plain_code, whitening
from ._published import published_code
from ._search import best_clip, clip_levels
from ._task import task_matrix

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

__all__ = ["FittedCode", "LinearEncoder", "warn_of_published"]


def warn_of_published(stacklevel: int) -> None:
    """Say that no finite epsilon holds."""
    warnings.warn(
        "calibration='published' takes the sensitivity from the fitting data. No "
        "finite epsilon holds for samples that lie elsewhere; calibration='sound' "
        "bounds the code, and loses less.",
        UnsoundClaimWarning,
        stacklevel=stacklevel,
    )


@dataclass(frozen=True)
class AffineDecoder:
    """Estimates of samples: matrix y + offset, for a noisy code y.

    Attributes
    ----------
    matrix : ndarray of shape (n, Z)
    offset : ndarray of shape (n,)
    """

    matrix: NDArray[np.float64]
    offset: NDArray[np.float64]

    def decode(self, code: NDArray[np.float64]) -> NDArray[np.float64]:
        """Estimates, of shape (n_samples, n)."""
        return code @ self.matrix.T + self.offset


@dataclass(frozen=True)
class FittedCode:
    """What a fit finds.

    Attributes
    ----------
    plan : ClientRandomizer or LearnedRandomizer
        The person's half.
    decoder : AffineDecoder or LearnedEncoder
        The server's half.
    noise : CodeNoise
    n_components : int
        Entries of a code.
    radius : float
        Of the ball that codes are clipped to.
    loss, variance : float
        Expected task loss, and that of the mean in place of every sample.
    task : ndarray of shape (m, n) or None
        K of a linear task.
    """

    plan: Any
    decoder: Any
    noise: CodeNoise
    n_components: int
    radius: float
    loss: float
    variance: float
    task: NDArray[np.float64] | None


class LinearEncoder(
    OneToOneFeatureMixin, ClassNamePrefixFeaturesOutMixin, ReleasingTransformer
):
    """A linear encoder for a linear task, noise on the code, and the best decoder.

    A subclass says in `_encoder` which encoder is taken.
    """

    n_components_: int
    mechanism_: str
    clip_: float
    noise_variance_: float
    expected_task_loss_: float
    task_variance_: float
    task_: NDArray[np.float64] | None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "epsilon": ReleasingTransformer._parameter_constraints["epsilon"],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "task": "no_validation",
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "mechanism": [StrOptions({*PURE, "gaussian", "auto"})],
        "clip": [Interval(Real, 0, 1, closed="right"), StrOptions({"auto"})],
        "calibration": [StrOptions({"sound", "published"})],
        "output": [StrOptions({"decoded", "code"})],
        "tensor_shape": ["array-like", None],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
    }

    _learns_in_fit = True
    """What `fit` learns from samples is published without noise."""

    def __sklearn_clone__(self) -> Self:
        copy = super().__sklearn_clone__()
        # A fitted model that is the task stays fitted.
        is_model = hasattr(self.task, "get_params")
        copy.task = deepcopy(self.task) if is_model else self.task
        return copy

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn encoder and decoder from data of people who consent, or public data.

        What is learned is not private towards these people. Nothing is drawn.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            At least two samples; finite. Those of Dask are loaded.
        y : array-like of shape (n_samples,) or (n_samples, m), default=None
            What the task predicts, numbers or labels. Read only if `task` is None, or
            has no outputs of its own.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the task is not linear, does not fit the samples or does not vary, or
            the mechanism cannot keep epsilon and delta.
        """
        X, y = loaded(X, y)
        array = self._validated(X, reset=True, ensure_min_samples=2)
        shape = self._shape_of(array)
        if self.calibration == "published" and (
            self.mechanism not in ("laplace", "auto") or self.clip != "auto"
        ):
            raise ValueError(
                "calibration='published' is Laplace noise on a code that is not "
                "clipped; mechanism must be 'laplace' or 'auto', and clip 'auto'."
            )
        rows = array.reshape(len(array), -1)
        with self._progress(max_tasks=self._n_steps) as on_step:
            found = self._fitted(rows, y, on_step)
        guarantee = self._guarantee(found.noise.name, found.noise.event)
        self._forget(
            _plan=found.plan,
            _decoder=found.decoder,
            _fitted_shape=array.shape[1:],
            sample_shape_=shape,
            task_=found.task,
            n_components_=found.n_components,
            mechanism_=found.noise.name,
            clip_=found.radius,
            noise_variance_=found.noise.variance,
            expected_task_loss_=found.loss,
            task_variance_=found.variance,
            privacy_guarantee_=guarantee,
        )
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.floating]:
        """Estimates of the samples from their noisy codes, fresh at every call.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples of the shape seen in `fit`; finite. A Dask array or frame in
            chunks of samples stays lazy, as in a mechanism.

        Returns
        -------
        estimates : ndarray of the shape of `X`, or dask.array.Array for one of Dask
            What `decode` makes of `privatize`; with ``output="code"`` the code
            itself, of shape (n_samples, n_components). Of the type of `X`, if that
            is float32 or float64; else float64.

        Raises
        ------
        ValueError
            Before anything is drawn: if `X` has another shape, or NaN or infinite
            values.
        """
        array = self._samples(X)
        decoded = self.output == "decoded"
        shape = array.shape[1:] if decoded else (self.n_components_,)
        self._check_framed(array, shape)
        code = self._released(array, (self.n_components_,))
        return self._decoded(code, shape) if decoded else code

    def privatize(self, X: ArrayLike) -> NDArray[np.floating]:
        """The person's half: noisy codes, with fresh noise at every call.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples of the shape seen in `fit`; finite. A Dask array or frame in
            chunks of samples stays lazy, as in a mechanism.

        Returns
        -------
        code : ndarray of shape (n_samples, n_components), or dask.array.Array
            In units of the clip radius, as `decode` takes it.

        Raises
        ------
        ValueError
            Before anything is drawn: if `X` has another shape, or NaN or infinite
            values.
        """
        return self._released(self._samples(X), (self.n_components_,))

    def decode(self, Z: ArrayLike) -> NDArray[np.floating]:
        """The server's half: estimates of samples from noisy codes.

        Parameters
        ----------
        Z : array-like of shape (n_samples, n_components)
            What `privatize` returned. Of Dask, it stays lazy.

        Returns
        -------
        estimates : ndarray of shape (n_samples, ...), or dask.array.Array
            The linear estimates with the least expected task loss, in the shape of
            the samples passed to `fit`.
        """
        check_is_fitted(self)
        if is_dask(Z):
            code = check_lazy(Z, "Z")
        else:
            check_numeric(Z, "Z")
            code = checked(check_array, Z, dtype=DTYPES, order="C", input_name="Z")
        if code.shape[1:] != (self.n_components_,):
            raise ValueError(
                f"Codes have {self.n_components_} components, got {code.shape[1]}."
            )
        return self._decoded(code, self._fitted_shape)

    def _decoded(self, code: Any, shape: tuple[int, ...]) -> Any:
        """Estimates of samples, each of a shape."""
        decode = self._decoder.decode
        if is_dask(code):
            return in_chunks(decode, code, shape, self, input_name="Z")
        return decode(code.astype(float)).astype(code.dtype).reshape(-1, *shape)

    def client(self, random_state: int | None = None) -> EncoderClient:
        """What runs at a person's side, for shipping: it privatises on its own.

        Parameters
        ----------
        random_state : int or None, default=None
            Of the client. An int is for tests and papers alone.

        Returns
        -------
        client : EncoderClient
            With `privatize`; of a size that depends on the shape of a sample and the
            number of components alone.
        """
        check_is_fitted(self)
        fitted = vars(self).copy()
        names = "_plan", "sample_shape_", "privacy_guarantee_"
        plan, shape, guarantee = (fitted[name] for name in names)
        return self._passed_on(EncoderClient(plan, shape, guarantee, random_state))

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[np.object_]:
        """Names of the output's columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the input; those seen in `fit` by default.

        Returns
        -------
        names : ndarray of str
            Those of the input, or of the class and the component where the output
            is the code.

        Raises
        ------
        ValueError
            If decoded samples are not rows of features.
        """
        check_is_fitted(self)
        if self.output == "code":
            own = ClassNamePrefixFeaturesOutMixin.get_feature_names_out
            return own(self, input_features)
        if self._fitted_shape != (self.n_features_in_,):
            raise ValueError(
                f"Samples of shape {self._fitted_shape} have no feature names; pass "
                f"rows of features and tensor_shape to have them."
            )
        return super().get_feature_names_out(input_features)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    _error_name = "expected task loss, as a share of the task's variance"

    def _error_by_epsilon(self, X: Any, y: Any) -> Callable[[float], float]:
        """Expected error as a function of epsilon; it is fitted to `X` and `y`."""

        def error(epsilon: float) -> float:
            self.set_params(epsilon=epsilon).fit(X, y)
            return self.expected_task_loss_ / self.task_variance_

        return error

    @property
    def _n_steps(self) -> int:
        """How many steps a fit takes at most."""
        return 1

    def _fitted(
        self, rows: NDArray[np.floating], y: Any, on_step: Callable[[], bool]
    ) -> FittedCode:
        """Encoder, decoder and noise for the task, from the fitting data."""
        white = whitening(rows)
        task = task_matrix(self.task, rows, y, white)
        problem = linear_problem(rows, task, white)
        # Small products: threads would cost more than they save.
        with one_blas_thread:
            code, noise = self._designed(problem)
        on_step()
        matrix = white.scale[:, np.newaxis] * (white.root @ code.decoder)
        encoder = code.encoder @ white.inverse / code.unit
        return FittedCode(
            ClientRandomizer(white.mean, white.scale, encoder, noise.plan),
            AffineDecoder(matrix, white.mean - matrix @ code.centre),
            noise,
            len(code.encoder),
            code.radius,
            code.loss,
            problem.variance,
            task,
        )

    def _encoder(self, problem: LinearProblem, ratio: float) -> NDArray[np.float64]:
        """The encoder for noise of so much more variance than all of the code has.

        Parameters
        ----------
        problem : LinearProblem
        ratio : float
            c; 0 for no noise.

        Returns
        -------
        encoder : ndarray of shape (Z, r)
        """
        raise NotImplementedError

    def _searched(
        self,
        problem: LinearProblem,
        noise: Callable[[int], CodeNoise],
        level: float | None,
    ) -> tuple[LinearCode, CodeNoise]:
        """Code and noise, with what is free in the encoder searched for.

        Parameters
        ----------
        problem : LinearProblem
        noise : callable
            Maps a number of components to a CodeNoise.
        level : float or None
            Clip level; None to search for it.
        """
        encoder = self._encoder(problem, 0.0)
        chosen = noise(len(encoder))
        return best_clip(problem, encoder, chosen, clip_levels(level)), chosen

    def _improved(
        self, problem: LinearProblem, code: LinearCode, noise: CodeNoise
    ) -> LinearCode:
        """The code, with less loss if what the search left out can lessen it."""
        return code

    def _designed(self, problem: LinearProblem) -> tuple[LinearCode, CodeNoise]:
        """Code and noise, chosen by the expected loss."""
        epsilon = float(self.epsilon)
        level = None if self.clip == "auto" else float(self.clip)
        if math.isinf(epsilon):
            encoder = self._encoder(problem, 0.0)
            none = no_noise(len(encoder), clipped=level is not None)
            if level is None:
                return plain_code(problem, encoder, 0.0), none
            return best_clip(problem, encoder, none, clip_levels(level)), none
        if self.calibration == "published":
            warn_of_published(stacklevel=5)
            return published_code(problem, self._encoder, epsilon)
        found, refusal = [], None
        for name in PURE if self.mechanism == "auto" else (self.mechanism,):
            noise = functools.partial(
                code_noise, name, epsilon=epsilon, delta=float(self.delta)
            )
            try:
                found.append(self._searched(problem, functools.cache(noise), level))
            except ValueError as error:
                refusal = error
        if refusal is not None and not found:
            raise refusal
        code, chosen = min(found, key=lambda pair: pair[0].loss)
        if level is None:
            code = self._improved(problem, code, chosen)
        return code, chosen

    def _guarantee(self, mechanism: str, event: "DpEvent") -> PrivacyGuarantee:
        return encoder_guarantee(
            mechanism,
            event,
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            calibration=self.calibration,
        )

    def _planned_guarantee(self, fitted: Any = None) -> PrivacyGuarantee:
        from dp_accounting import dp_event

        from ..privacy.accounting._events import PureDpEvent

        if math.isinf(self.epsilon) or self.calibration == "published":
            return self._guarantee("none", dp_event.NonPrivateDpEvent())
        if self.mechanism != "gaussian":
            return self._guarantee(self.mechanism, PureDpEvent(float(self.epsilon)))
        if not hasattr(fitted, "sample_shape_"):
            return super()._planned_guarantee(fitted)
        # The number of components is chosen in the fit: the most noise is that of
        # the most, and so is the residual.
        epsilon, delta = float(self.epsilon), float(self.delta)
        few, many = (
            code_noise("gaussian", n, epsilon, delta).event.events
            for n in (1, math.prod(fitted.sample_shape_))
        )
        planned = self._guarantee("gaussian", dp_event.ComposedDpEvent(many))
        event = dp_event.ComposedDpEvent([few[0], many[1]])
        return PrivacyGuarantee.of(
            event, delta=delta, unit=planned.unit, relation=planned.relation,
            statement=planned.statement, source=planned.source,
        )  # fmt: skip

    def _unprotected(self) -> list[str]:
        return [
            *super()._unprotected(),
            f"What {type(self).__name__} learned in its fit (encoder, decoder, clip "
            f"radius, expected loss): fit it to public data or to those of people who "
            f"consent.",
        ]
