"""The matrix mechanism: answers linear queries from a strategy of least error.

To answer a workload of linear queries W x, it releases strategy queries A x with noise
and derives the answers. With G = W^T W, X = A^T A and one changed cell, the squared
sensitivity is max_i X_ii and the total squared error is proportional to tr(G X^-1),
so the best strategy minimises tr(G X^-1) over X > 0 with diag(X) <= 1 (Li, Miklau,
Hay, McGregor and Rastogi 2015). For all lam > 0, D = diag(lam) and
S = (D^1/2 G D^1/2)^1/2,

    tr(S)^2 / sum(lam) <= min tr(G X^-1) <= tr(S) max_i(S_ii / lam_i),

by Cauchy-Schwarz on tr(G X^-1) tr(D X), and since X = D^-1/2 S D^-1/2 divided by
max_i(S_ii / lam_i) attains the right side. They meet where S_ii / lam_i is constant,
a fixed point to which lam <- lam (S_ii / lam_i) converges; so does the power 1.9 of
the ratio, in half the steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils import Tags

from .._random import NoiseStreams
from ..privacy import PrivacyGuarantee
from ..privacy._guarantee import no_guarantee
from ..privacy._numbers import exact
from ..privacy.calibration._sensitivity import SensitivitySet
from ..tensor import mode_products
from ._base import PlannedRelease, ReleasingTransformer
from ._docs import with_shared_text
from ._gaussian_noise import whitened_noise
from ._intervals import AddsKnownNoise
from ._structured import flat_product

_POWER = 1.9
# Multipliers of slack cells tend to 0. This floor makes sum(lam) too large by at most
# n 1e-12.
_LEAST_MULTIPLIER = 1e-12
# Relative rounding error of an eigenvalue. Smaller eigenvalues are raised to it before
# the square root, so that the strategy of a singular G is invertible. The relative cost
# is up to n sqrt(_ROUNDING).
_ROUNDING = 8 * np.finfo(float).eps


@with_shared_text
class MatrixMechanism(
    AddsKnownNoise, ClassNamePrefixFeaturesOutMixin, ReleasingTransformer
):
    """Answers linear queries W x about cells x, with Gaussian noise of least error.

    Samples are vectors of cells, such as the counts of a histogram. One call of
    `transform` is (epsilon, delta)-differentially private for one cell of one sample
    (``unit="cell"``), which may change by at most `sensitivity`. For counts, such a
    change is one person added or removed.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget of a cell in one call of `transform`. With ``float("inf")``, the answers
        are exact.
    $delta
    workload : array-like of shape (n_queries, n_cells) or list of such, default=None
        Coefficients of the queries; a list stands for the Kronecker product of its
        matrices, over cells in C order. By default, the queries are the cells
        themselves. Must be public.
    sensitivity : float, default=1.0
        Largest change of one cell between neighbouring data sets.
    $random_state

    Attributes
    ----------
    $privacy_guarantee
    noise_variance_ : ndarray of shape (n_queries,)
        Variance of each answer, in squared units of the answers.
    expected_squared_error_ : float
        Expected squared error of a sample, summed over its answers.
    sample_shape_ : tuple of int
        ``(n_cells,)``.
    n_features_in_ : int
        Number of cells.

    See Also
    --------
    TensorCounts : Tables of counts, at the same error: for far larger shapes, and from
        rows, with standard errors.

    Notes
    -----
    **Who is protected.** If a person is counted in each of s samples, s releases
    compose: ``s * privacy_guarantee_``. Changes of several cells of one sample are
    covered if they sum to at most `sensitivity`: moving one person from a cell to
    another changes two cells by 1 each, and needs a `sensitivity` of 2.

    The mechanism chooses other queries, the strategy A, and adds Gaussian noise z to
    their values. From A x + z it computes the answers W A^+ (A x + z), where A^+ is the
    pseudoinverse of A. No other strategy has a smaller expected squared error.

    The strategy minimises tr(W^T W X^-1) over positive definite X = A^T A with a
    diagonal of at most 1, by a fixed-point iteration that certifies how close it is to
    the minimum. For a Kronecker product, the strategy is the Kronecker product of the
    factors' strategies. Noise is drawn on a lattice. To keep the floating-point errors
    of A x small beside the noise, cells are clipped at some 1e7 standard deviations of
    the noise, and the noise is larger by 0.2%.

    References
    ----------
    .. [1] Li, Miklau, Hay, McGregor and Rastogi, "The matrix mechanism: optimizing
       linear counting queries under differential privacy", 2015.
    .. [2] Yuan, Yang, Zhang and Hao, "Convex optimization for linear query
       processing under approximate differential privacy", 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import MatrixMechanism
    >>> histogram = np.array([[12.0, 5.0, 30.0, 8.0]])
    >>> running_totals = np.tril(np.ones((4, 4)))
    >>> mechanism = MatrixMechanism(1.0, workload=running_totals).fit(histogram)
    >>> mechanism.transform(histogram).shape
    (1, 4)
    >>> print(mechanism.privacy_guarantee_)
    Each call of transform: (epsilon = 1, delta = 1e-06)-differential privacy for one
    cell of one histogram (a change of at most 1).
    """

    noise_variance_: NDArray[np.float64]
    expected_squared_error_: float

    _unit = "cell"
    _parameter_constraints: ClassVar = {
        **ReleasingTransformer._parameter_constraints,
        "workload": ["array-like", None],
        "sensitivity": ReleasingTransformer._parameter_constraints["norm_bound"][:1],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-6,
        workload: ArrayLike | Sequence[ArrayLike] | None = None,
        sensitivity: float = 1.0,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.workload = workload
        self.sensitivity = sensitivity
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = False
        return tags

    @property
    def _n_features_out(self) -> int:
        return np.size(self.noise_variance_)

    def _is_declared(self) -> bool:
        return True

    def _output_shape(self, X: object) -> tuple[int, ...]:
        return (self._n_features_out,)

    def _plan_release(
        self, shape: tuple[int, ...], X: ArrayLike | None
    ) -> PlannedRelease:
        workload = self._checked_workload(shape)
        modes = tuple(w.shape[-1] for w in workload)
        n_queries = math.prod(len(w) for w in workload)
        domain = SensitivitySet(shape[0], sensitivity=float(self.sensitivity))
        fields: dict[str, Any] = {
            "unit": self._unit,
            "relation": f"a change of at most {exact(self.sensitivity)}",
        }
        if math.isinf(self.epsilon):
            text = "The queries were answered without noise."
            guarantee = no_guarantee(text, **fields)
            exact_answers = ExactAnswers(modes, tuple(workload))
            return exact_answers, guarantee, np.zeros(n_queries), 0.0
        strategies, answering = [], []
        for w in workload:
            # A vector stands for a diagonal: the cells are their own best strategy.
            a = w
            if w.ndim == 2:
                best = optimal_strategy(w.T @ w, tol=1e-6)
                a = np.linalg.cholesky(best.gram).T
                w = solve_triangular(a.T, w.T, lower=True).T
            strategies.append(a)
            answering.append(w)
        longest = math.prod(
            float(np.linalg.norm(np.atleast_2d(a), axis=0).max()) for a in strategies
        )
        noise = whitened_noise(
            domain,
            modes,
            strategies,
            answering,
            self.sensitivity * longest,
            float(self.epsilon),
            float(self.delta),
            rescale=True,
        )
        squares = [
            np.square(w) if w.ndim == 1 else np.square(w).sum(1) for w in answering
        ]
        variance = flat_product(squares, (n_queries,)) * noise.scale**2
        guarantee = PrivacyGuarantee(
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            event=noise.event,
            statement=(
                f"One call of transform, for each sample: {n_queries} linear queries "
                f"answered from a noisy strategy."
            ),
            source="Balle and Wang (2018), Theorem 8",
            **fields,
        )
        return noise.randomizer, guarantee, variance, float(variance.sum())

    def _checked_workload(self, shape: tuple[int, ...]) -> list[NDArray[np.float64]]:
        """Kronecker factors of the workload; a vector stands for a diagonal matrix."""
        if len(shape) != 1:
            raise ValueError(
                f"The samples of MatrixMechanism must be vectors, got shape {shape}."
            )
        if self.workload is None:
            return [np.ones(shape[0])]
        workload: Any = self.workload
        try:
            ragged = np.ndim(workload) != 2
        except ValueError:
            ragged = True
        given = list(workload) if ragged else [workload]
        try:
            matrices = [np.asarray(w, dtype=float) for w in given]
        except (TypeError, ValueError) as error:
            raise ValueError(
                "workload must be a matrix or a list of matrices."
            ) from error
        if not matrices or any(w.ndim != 2 or w.size == 0 for w in matrices):
            raise ValueError("workload must be a matrix or a list of matrices.")
        if not all(np.all(np.isfinite(w)) and np.any(w) for w in matrices):
            raise ValueError("workload must be finite and not zero everywhere.")
        n_cells = math.prod(w.shape[1] for w in matrices)
        if n_cells != shape[0]:
            raise ValueError(
                f"workload covers {n_cells} cells, but X has {shape[0]} features, one "
                f"for each cell. Pass a workload with as many cells as X has features."
            )
        return matrices


@dataclass(frozen=True)
class ExactAnswers:
    """Answers queries without noise: for epsilon = inf."""

    shape: tuple[int, ...]
    workload: tuple[NDArray[np.float64], ...]

    def randomize(
        self, samples: NDArray[np.floating], streams: NoiseStreams | None
    ) -> NDArray[np.floating]:
        """Exact answers; `streams` are not used."""
        answers = mode_products(samples.reshape(-1, *self.shape), self.workload)
        return answers.reshape(len(samples), -1).astype(samples.dtype, copy=False)


@dataclass(frozen=True, eq=False)
class Strategy:
    """A strategy of the Gaussian matrix mechanism.

    Parameters
    ----------
    gram : ndarray of shape (n_cells, n_cells)
        X = A^T A of the strategy queries A. It is positive definite with
        diag(X) <= 1, so that the L2 sensitivity is 1 if one cell changes by 1.
    cost : float
        tr(G X^-1): the total squared error for noise of variance 1.
    lower_bound : float
        No strategy costs less.
    """

    gram: np.ndarray
    cost: float
    lower_bound: float


def _fixed_point(
    gram: NDArray[np.float64], tol: float, max_iter: int
) -> tuple[NDArray[np.float64], float]:
    """The best X, before scaling, and the best lower bound."""
    lam = np.sqrt(gram.diagonal())
    least_cost, lower, least_gap, power = np.inf, 0.0, np.inf, _POWER
    for _ in range(max_iter):
        lam = np.maximum(lam / lam.max(), _LEAST_MULTIPLIER)
        root = np.sqrt(lam)
        outer = np.outer(root, root)
        values, vectors = np.linalg.eigh(gram * outer)
        noise = _ROUNDING * values[-1]
        singular_values = np.sqrt(np.maximum(values, noise))
        factor = vectors * np.sqrt(singular_values)
        square_root = factor @ factor.T
        ratio = square_root.diagonal() / lam
        # Subtracting the rounding error keeps the bound a lower one.
        trace = np.sqrt(np.maximum(values - noise, 0.0)).sum()
        lower = max(lower, trace**2 / lam.sum())
        cost = (np.maximum(values, 0.0) / singular_values).sum() * ratio.max()
        if cost < least_cost:
            least_cost, best = cost, square_root / outer
        gap = ratio.max() * lam.sum() / singular_values.sum() - 1
        if gap <= tol:
            break
        if gap < least_gap or power == 1:
            least_gap, kept, power = gap, (lam, ratio), _POWER
        else:
            power = 1
        lam = kept[0] * kept[1] ** power
    return best, lower


def optimal_strategy(
    gram: NDArray[np.float64], *, tol: float = 1e-9, max_iter: int = 500
) -> Strategy:
    """Strategy of least total error for a workload, if one cell changes by 1.

    Parameters
    ----------
    gram : ndarray of shape (n_cells, n_cells)
        G = W^T W of the workload's queries W. A cell that no query reads gets a query
        of its own, which costs nothing.
    tol : float, default=1e-9
        Stop if the cost is within this relative distance of the lower bound.
    max_iter : int, default=500
        Largest number of eigendecompositions. If they do not suffice, the strategy is
        still valid, and its `cost` and `lower_bound` show how far from the best it may
        be.

    Returns
    -------
    strategy : Strategy
        Cost and lower bound are those of `gram` itself. If it is singular, X is still
        invertible, at a relative cost of up to about 4e-8 n_cells.

    Raises
    ------
    ValueError
        If `gram` is not finite.

    References
    ----------
    Li, Miklau, Hay, McGregor and Rastogi, "The matrix mechanism: optimizing linear
    counting queries under differential privacy", VLDB Journal 24, 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms._matrix_mechanism import optimal_strategy
    >>> prefix_sums = np.tril(np.ones((8, 8)))
    >>> strategy = optimal_strategy(prefix_sums.T @ prefix_sums)
    >>> round(strategy.cost, 4)  # one query per cell would cost 36
    17.8662
    """
    if not np.isfinite(gram).all():
        raise ValueError(
            "The squares of the coefficients in workload overflow. Pass smaller ones."
        )
    scale = np.abs(gram).max()
    gram = gram / (scale or 1.0)
    queried = gram.diagonal() > 0
    strategy, cost, lower = np.eye(len(gram)), 0.0, 0.0
    if queried.any():
        cells = np.ix_(queried, queried)
        best, lower = _fixed_point(gram[cells], tol, max_iter)
        best /= best.diagonal().max()
        strategy[cells] = best
        cost = np.trace(cho_solve(cho_factor(best, lower=True), gram[cells]))
    strategy.setflags(write=False)
    cost = float(cost * scale)
    return Strategy(strategy, cost, min(float(lower * scale), cost))
