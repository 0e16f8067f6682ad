"""The Johnson-Lindenstrauss release of a covariance, a baseline.

Guarantee. A sample is a matrix A whose rows are people, of norm at most B. The release
is r draws of N(0, A^T A + w^2 I). For adding or removing one row of one sample, it is
(epsilon, delta)-DP by the exact curve of ``privacy/accounting/_projections.py`` at
tau = B^2 / w^2.

The sampler draws y = v + w h with v = z R and R^T R = A^T A, and rounds v and w h to a
lattice. Given v, the distribution of y is within the lattice's residual of that of
ideal noise added to the rounded v. The rounded v is that of an ideal draw, shifted by
the rounding, the errors of R and of the product, and the coarseness of z; a shift of
length m, in units of w, is m-GDP. The guarantee accounts for the residual and the
shift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._random import NoiseStreams
from .._sklearn_compat import Interval
from .._validation import callers_level
from ..exceptions import PrivacyLeakWarning
from ..mechanisms._base import PlannedRelease, ReleasingTransformer
from ..mechanisms._docs import with_shared_text
from ..mechanisms._gaussian_noise import ideal_budget, largest_within
from ..noise import GaussianLattice, gaussian_lattice
from ..privacy import PrivacyGuarantee
from ..privacy.accounting._projections import projection_tau

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_EPS = float(np.finfo(float).eps)
# The projected normals are multiples of 2^-24, which makes their coarseness about as
# small as the residual of their sampler.
_FINENESS = 24


@with_shared_text
class JohnsonLindenstrauss(ReleasingTransformer):
    """Covariance of people's rows, from random projections: a baseline.

    A sample is a matrix A of people by features. The release is an unbiased estimate
    of A^T A, from draws of N(0, A^T A + w^2 I), where w is the standard deviation of
    noise that protects the rows. Gaussian noise on A^T A itself has less error, except
    for very few people (pass A^T A to
    :class:`~sktensordp.mechanisms.GaussianMechanism` with
    ``sensitivity=norm_bound**2``).

    One call of `transform` is (epsilon, delta)-differentially private for one row of
    one sample (``unit="row"``): the row may be added, or removed, which means set to
    zero. The number of rows is public. If a person has one row in each of s samples,
    s releases compose: ``s * privacy_guarantee_``. Two rows of one person in the same
    sample are not covered.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget of a row in one call of `transform`. With ``float("inf")``, the release
        is A^T A of the clipped rows.
    $delta
    n_projections : int, default=100
        Number of draws r. More draws average out more of the randomness, but need a
        larger w.
    norm_bound : float, default=None
        Public bound B on the Euclidean norm of a row. Rows are clipped to it. If you
        do not pass it, the largest norm is read off the rows with a
        ``PrivacyLeakWarning``, and the guarantee is void.
    $random_state

    Attributes
    ----------
    $privacy_guarantee
    noise_variance_ : ndarray of shape (n_features, n_features)
        Variance of every entry of the estimate if all rows are zero; it grows with
        the rows.
    expected_squared_error_ : float
        Expected squared Frobenius error if all rows are zero; the error of a sample
        is (tr(S)^2 + tr(S^2)) / r with S = A^T A + w^2 I.
    sample_shape_ : tuple of (int, int)
        Number of people and of features.
    n_features_in_ : int
        Number of people.

    References
    ----------
    .. [1] Blocki, Blum, Datta and Sheffet, "The Johnson-Lindenstrauss transform
       itself preserves differential privacy", 2012; its w is much larger.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.papers import JohnsonLindenstrauss
    >>> people = np.random.default_rng(0).uniform(-1, 1, size=(1, 500, 3))
    >>> mechanism = JohnsonLindenstrauss(4.0, norm_bound=1.0).fit(people)
    >>> mechanism.transform(people).shape
    (1, 3, 3)
    >>> print(mechanism.privacy_guarantee_)
    (epsilon = 4, delta = 1e-06)-differential privacy for one row of one sample
    (add-or-remove).
    """

    noise_variance_: NDArray[np.float64]
    expected_squared_error_: float

    _unit = "row"
    _parameter_constraints: ClassVar = {
        name: ReleasingTransformer._parameter_constraints[name]
        for name in ("epsilon", "delta", "norm_bound", "random_state")
    } | {"n_projections": [Interval(Integral, 1, None, closed="left")]}

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        n_projections: int = 100,
        norm_bound: float | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n_projections = n_projections
        self.norm_bound = norm_bound
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[np.object_]:
        """Always raises an error, because a data frame cannot hold the matrices.

        Parameters
        ----------
        input_features : array-like of str, default=None

        Raises
        ------
        ValueError
            Always.
        """
        raise ValueError("The released matrices have no feature names.")

    def _is_declared(self) -> bool:
        return self.norm_bound is not None

    def _output_shape(self, X: Any) -> tuple[int, ...]:
        return (X.shape[2], X.shape[2])

    @property
    def _worst_error(self) -> float:
        """Expected squared error of equal rows, each as long as the norm bound."""
        projections, (n_rows, n_features) = self._randomizer, self.sample_shape_
        if projections.noise == 0:
            return 0.0
        trace, noise = n_rows * projections.bound**2, projections.noise**2
        squares = (trace + noise) ** 2 + (n_features - 1) * noise**2
        error = (trace + n_features * noise) ** 2 + squares
        return error / projections.n_projections

    def _plan_release(self, shape: tuple[int, ...], X: Any) -> PlannedRelease:
        from dp_accounting import dp_event

        if len(shape) != 2:
            raise ValueError(
                f"The samples of JohnsonLindenstrauss must be matrices of people by "
                f"features, got shape {shape}."
            )
        n_features = shape[1]
        bound = 1.0 if self.norm_bound is None else float(self.norm_bound)
        if self.norm_bound is None and X is not None:
            bound = self._inferred_bound(X)
        fields: dict[str, Any] = {"unit": self._unit, "relation": "add-or-remove"}
        if math.isinf(self.epsilon):
            guarantee = PrivacyGuarantee.of(
                dp_event.NonPrivateDpEvent(),
                statement="The rows were clipped to the norm bound, without noise.",
                source="not private",
                **fields,
            )
            exact_release = Projections(shape, bound, 0, 0.0, None, None)
            return exact_release, guarantee, np.zeros((n_features, n_features)), 0.0
        epsilon, delta = float(self.epsilon), float(self.delta)
        r = int(self.n_projections)
        tau = projection_tau(epsilon, delta, r)
        _, residual = self._projections(shape, bound, tau, epsilon, delta)
        while True:
            tau = largest_within(
                projection_tau(*ideal_budget(epsilon, delta, *residual), r),
                partial(self._event, residual=residual),
                epsilon,
                delta,
            ) / (1 + 1e-12)
            randomizer, new = self._projections(shape, bound, tau, epsilon, delta)
            # A smaller tau has a smaller residual, unless the lattice becomes coarser.
            if all(np.less_equal(new, residual)):
                break
            residual = new
        statement = (
            f"One call of transform, for each sample: {r} random projections of its "
            f"rows plus noise; the number of rows is public."
        )
        source = (
            "Gaussian distributions compared exactly; the release of Blocki et al. "
            "(2012)"
        )
        if self.norm_bound is None:
            guarantee = PrivacyGuarantee.of(
                dp_event.NonPrivateDpEvent(),
                statement=f"{statement} The norm bound was read off the rows, which "
                f"protects nobody; declare norm_bound.",
                source=source,
                claimed=(epsilon, delta),
                **fields,
            )
        else:
            guarantee = PrivacyGuarantee(
                epsilon=epsilon,
                delta=delta,
                event=self._event(tau, residual),
                statement=statement,
                source=source,
                **fields,
            )
        variance = (1 + np.eye(n_features)) * randomizer.noise**4 / r
        return randomizer, guarantee, variance, float(variance.sum())

    def _event(self, tau: float, residual: tuple[float, float]) -> DpEvent:
        """Event of one sample: ideal draws, and the residual of the sampler."""
        from dp_accounting import dp_event

        from ..privacy.accounting._events import (
            ProjectionDpEvent,
            SamplerResidualDpEvent,
        )

        draws = ProjectionDpEvent(int(self.n_projections), tau)
        return dp_event.ComposedDpEvent([draws, SamplerResidualDpEvent(*residual)])

    def _projections(
        self,
        shape: tuple[int, ...],
        bound: float,
        tau: float,
        epsilon: float,
        delta: float,
    ) -> tuple[Projections, tuple[float, float]]:
        """Randomizer for a tau, and the residual of its sampler."""
        n_rows, n_features = shape
        r = int(self.n_projections)
        cells = r * n_features
        noise = bound / math.sqrt(tau)
        outer = gaussian_lattice(noise, cells, epsilon, delta)
        inner = gaussian_lattice(1.0, cells, epsilon, delta, fineness=_FINENESS)
        # In units of the noise; the norm of A is at most sqrt(n) B.
        length = math.sqrt(n_rows * tau)
        coarse, fine = float(outer.step), float(inner.step)
        rounding = (coarse / noise + fine * length) / 2 * math.sqrt(cells)
        # The normals exceed this norm with a probability below e^-72.
        longest = math.sqrt(cells) + 12
        errors = longest * 4 * (n_rows + 2) * (n_features + 2) * _EPS * length
        shift = rounding + errors
        # The shift dominates the residual; its delta of e^-60 suffices for a baseline.
        log_d = min(math.log(delta) - epsilon - 30.0, -60.0)
        residual_epsilon = (
            outer.residual_epsilon
            + inner.residual_epsilon
            + shift**2 / 2
            + shift * math.sqrt(-2 * log_d)
        )
        residual_delta = 2 * (
            outer.residual_delta
            + inner.residual_delta
            + math.exp(log_d)
            + math.exp(-72)
        )
        randomizer = Projections((n_rows, n_features), bound, r, noise, outer, inner)
        return randomizer, (residual_epsilon, residual_delta)

    def _inferred_bound(self, X: Any) -> float:
        """Largest norm of the rows, with a warning."""
        import warnings

        largest = float(np.linalg.norm(X, axis=2).max())
        if math.isnan(largest):  # The values of a Dask array have not been checked.
            raise ValueError("Input X contains NaN.")
        if math.isfinite(self.epsilon):
            warnings.warn(
                "norm_bound is not declared, so it is read off the private rows, and "
                "no finite epsilon holds. To protect the rows, pass norm_bound.",
                PrivacyLeakWarning,
                stacklevel=callers_level(),
            )
        return largest or 1.0


@dataclass(frozen=True)
class Projections:
    """Projects clipped rows at random, and estimates A^T A from the noisy projections.

    Attributes
    ----------
    shape : tuple of (int, int)
        Shape of a sample.
    bound : float
        Rows are clipped to this norm.
    n_projections : int
    noise : float
        w; 0 releases A^T A itself.
    outer, inner : GaussianLattice or None
        Lattices of the noise w h and of the normals z.
    """

    shape: tuple[int, int]
    bound: float
    n_projections: int
    noise: float
    outer: GaussianLattice | None
    inner: GaussianLattice | None

    def randomize(
        self, samples: NDArray[np.floating], streams: NoiseStreams
    ) -> NDArray[np.floating]:
        """Estimates of A^T A.

        Parameters
        ----------
        samples : ndarray of shape (n_samples, n_rows * n_features)
        streams : NoiseStreams

        Returns
        -------
        estimates : ndarray of shape (n_samples, n_features, n_features)
        """
        n_features = self.shape[1]
        estimates = np.empty((len(samples), n_features, n_features), samples.dtype)
        for i, sample in enumerate(samples):
            rows = np.array(sample.reshape(self.shape), dtype=float)
            # Dividing by the largest entry first keeps the squares from overflowing.
            largest = np.abs(rows).max(axis=1, keepdims=True)
            largest = np.maximum(largest, self.bound)
            rows /= largest
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            lengths = np.maximum(lengths, self.bound / largest)
            rows *= np.minimum(largest, self.bound / lengths)
            if self.outer is None or self.inner is None:
                estimates[i] = rows.T @ rows
                continue
            root = np.linalg.qr(rows, mode="r")
            bits, size = streams.stream(i), (self.n_projections, len(root))
            normals = self.inner.randomize(np.zeros(size), bits)
            draws = self.outer.randomize(normals @ root, bits)
            # All that follows is post-processing.
            estimate = draws.T @ draws / self.n_projections
            estimates[i] = estimate - self.noise**2 * np.eye(n_features)
        return estimates
