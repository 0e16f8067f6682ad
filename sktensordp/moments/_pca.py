"""`MultilinearPCA`: principal components of every mode of people's tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from .._dask import is_dask, loaded
from .._sklearn_compat import fit_context
from .._validation import check_numeric, checked
from ..mechanisms._chunks import AS_SAMPLES, in_chunks
from ..mechanisms._samples import checked_tensor_shape
from ..privacy._conditions import PROJECTIONS
from ._base import (
    LARGEST_CORE,
    MEAN_SHARE,
    MomentsEstimator,
    Releases,
    checked_ranks,
)
from ._sources import Batches, LazyRows, Parties, Rows
from ._spectrum import (
    Spectrum,
    best_core,
    best_ranks,
    expected_energy,
    joined,
    shares_of_modes,
    total_energy,
)
from ._sums import Question, contribute, projected, whole_basis

# Of the budget after the mean, for the moments by which the ranks are chosen.
_FIRST_SHARE = 0.5


class MultilinearPCA(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, MomentsEstimator
):
    """Principal components of each mode of people's tensors, whole samples protected.

    A sample is one person's tensor, such as features x hours. The fit releases noisy
    second moments of each mode, and their leading eigenvectors span the components: the
    truncated higher-order SVD with which multilinear PCA [1]_ starts. A mode of length
    I has I x I moments. That is far less than the moments of all pairs of cells, which
    a PCA of the flattened samples would need, and so is the noise.

    **Who is protected.** Neighbouring data sets differ in one sample, which is
    replaced; the number of samples is public. Everything that `fit` publishes keeps
    (`epsilon`, `delta`). `transform`, `inverse_transform` and `score` compute with the
    samples that they get, without noise: **their results are not protected**. To train
    a model on projections of private samples, put a mechanism between the two, such as
    `GaussianMechanism`.

    Parameters
    ----------
    n_components : tuple of int, int or None, default=None
        A tuple has the number of components of every mode. One number is the number in
        all: half of the budget goes to the moments of the modes, and the other half to
        what is then expected to find most energy, either better moments of the modes,
        or the moments of a core, whose principal components are taken. None takes, in
        every mode, the components that stand out from the noise.
    epsilon : float, default=1.0
        Budget of a sample. ``float("inf")`` adds no noise.
    delta : float, default=1e-6
        Budget of a sample.
    norm_bound : float, default=None
        Public bound on the Euclidean norm of a sample, or with `centre` of a sample
        less the mean. Longer samples are scaled down to it. The noise grows with its
        square, so a typical norm is better than the largest one. If None, it is read
        off the data with a `PrivacyLeakWarning`, and no finite epsilon holds; without
        noise, samples are not clipped then.
    centre : bool, default=False
        Whether to release a noisy mean first, with a quarter of the budget, and take
        moments about it. It rarely pays: without it, the mean is among the components.
    tensor_shape : tuple of int, default=None
        Shape of a sample, if samples are passed as rows of features.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers: every clone repeats the same noise, although two
        fits of one object never share noise.

    Attributes
    ----------
    components_ : list of ndarray of shape (I_k, r_k)
        Orthonormal factors of the modes, as in TensorLy's Tucker tensors.
    rotation_ : ndarray of shape (r_1 ... r_K, n_components) or None
        Orthonormal principal components of the core; None if the cells of the core are
        the features.
    method_ : {"modes", "core", "flat"}
        Whether the features are the cells of the core, principal components of a core,
        or principal components of all cells. The fit decides by what it has released,
        if `n_components` is one number.
    n_components_ : int
        Number of features that `transform` returns.
    explained_variance_ratio_ : ndarray of shape (n_components,) or list of ndarray
        Share of the energy (of the variance, with `centre`) of each component. What
        the noise adds is estimated and taken off. With ``method_="modes"`` and several
        modes, a list with an array of shape (r_k,) for every mode.
    mean_ : ndarray of the shape of a sample
        Released mean; zeros without `centre`.
    privacy_guarantee_ : PrivacyGuarantee
        Guarantee of everything that `fit` publishes.
    sample_shape_ : tuple of int
        Shape of a sample.
    n_features_in_ : int
        Size of the first axis of a sample.

    See Also
    --------
    MultilinearRidge : Regression on such components, with targets protected.

    Notes
    -----
    *Sensitivity.* For a clipped sample X with the unfolding X_k along mode k,
    A_k = X_k X_k' is positive semidefinite and no longer than its trace, which is at
    most R^2, R being `norm_bound`. So the moments of two samples have a distance of at
    most sqrt(2) R^2, since <A, B> >= 0. Mean and core are further releases, in order
    and with shares of the squared budget. Sums are sums of integers, the same from
    memory, batches, chunks of Dask and parties. The proof is at the top of
    ``moments/_sums.py`` and ``moments/_base.py``.

    *Without noise.* For one number a mode, the components are those of TensorLy's
    ``partial_tucker`` with ``n_iter_max=0``. For samples of one mode and with `centre`,
    they are those of scikit-learn's ``PCA``.

    References
    ----------
    .. [1] Lu, Plataniotis and Venetsanopoulos, "MPCA: Multilinear principal component
       analysis of tensor objects", 2008.
    .. [2] Dong, Roth and Su, "Gaussian differential privacy", 2022.
    .. [3] Benaych-Georges and Nadakuditi, "The eigenvalues and eigenvectors of finite,
       low rank perturbations of large random matrices", 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sktensordp.moments import MultilinearPCA
    >>> images = load_digits().images
    >>> pca = MultilinearPCA((4, 4), epsilon=1.0, norm_bound=50.0, random_state=0)
    >>> pca.fit(images).transform(images[:2]).shape
    (2, 16)
    >>> round(pca.score(images), 2)  # share of the energy that 16 of 64 numbers keep
    0.91
    >>> print(pca.privacy_guarantee_)
    (epsilon = 1, delta = 1e-06)-differential privacy for one row of X (replace-one),
    if projections of the samples are not shown without noise.
    """

    _conditions = (PROJECTIONS,)

    components_: list[NDArray[np.float64]]
    rotation_: NDArray[np.float64] | None
    method_: str
    n_components_: int
    explained_variance_ratio_: Any
    mean_: NDArray[np.float64]

    def __init__(
        self,
        n_components: int | Sequence[int] | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        norm_bound: float | None = None,
        centre: bool = False,
        tensor_shape: Sequence[int] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.norm_bound = norm_bound
        self.centre = centre
        self.tensor_shape = tensor_shape
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # --- fit --------------------------------------------------------------------------

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Release noisy moments of the samples, and find their components.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Finite samples. Workers of Dask add up the chunks of a Dask array or frame.
        y : None
            Ignored.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            Before noise is drawn: if a value is not finite, if a parameter does not fit
            the shape of the samples, or if the noise cannot be drawn accurately enough
            to keep epsilon and delta.
        """
        array, shape = self._samples(X, None)
        self._ranks(shape)
        if is_dask(array):
            return self._fit(LazyRows(array, type(self).__name__), shape)
        return self._fit(Rows(array.reshape(len(array), -1)), shape)

    @fit_context(prefer_skip_nested_validation=True)
    def fit_batches(self, batches: Iterable[ArrayLike]) -> Self:
        """Fit to samples that come in batches, such as files.

        The result, noise included, is that of `fit` on all batches concatenated.

        Parameters
        ----------
        batches : iterable of array-like of shape (n_batch_samples, ...)
            Each as the X of `fit`. Memory holds one batch at a time. With `centre`, or
            if `n_components` is one number, the batches are read two or three times:
            pass a list or another object that can be iterated over again, and that
            gives the same samples every time.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As `fit`; and if the batches can be read only once, but are needed again.
        """
        source = Batches(batches, lambda batch: (self._rows_of(batch, shape), None))
        _, shape = self._samples(source.take_first(), None)
        if source.is_read_once and self._n_passes(shape) > 1:
            raise ValueError(
                "These batches can be read only once, but `centre`, and one number of "
                "components in all, need several passes. Pass a list, or an object "
                "whose __iter__ begins anew."
            )
        return self._fit(source, shape)

    def _rows_of(self, X: Any, shape: tuple[int, ...]) -> NDArray[np.floating]:
        """Samples of a shape as rows."""
        array, _ = self._samples(X, shape)
        return array.reshape(len(array), -1)

    def fit_aggregated(
        self, ask: Callable[[Question], ArrayLike], n_samples: int
    ) -> Self:
        """Fit to samples of several parties, of which only sums arrive here.

        Parameters
        ----------
        ask : callable
            Passes a question on to all parties and returns the sum of their answers,
            ``contribute(X, question)``. A secure aggregation can add them: they are
            integers. Noise is added here, so that the guarantee does not hold against
            those who see the sums before.
        n_samples : int
            Number of samples of all parties together; public.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If `tensor_shape` or `norm_bound` is not declared, or an answer has another
            shape.
        """
        self._validate_params()
        if self.tensor_shape is None:
            raise ValueError("Pass tensor_shape: parties do not tell their samples'.")
        if isinstance(n_samples, bool) or not isinstance(n_samples, Integral):
            raise ValueError("n_samples must be a positive integer.")
        shape = checked_tensor_shape(self.tensor_shape)
        self._ranks(shape)
        source = Parties(ask, int(n_samples))
        return self._fit(source, shape, n_features_in_=shape[0])

    def contribute(self, X: ArrayLike, question: Question) -> NDArray[Any]:
        """Sum what a party's samples contribute, as `fit_aggregated` asks.

        Nothing is released: the sums have no noise. Show them to nobody, and pass them
        to a secure aggregation.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            The samples of this party.
        question : Question
            Holds earlier releases and public parameters only. It is a Python object:
            build it yourself from what the server sends, or load its pickle only if
            you trust that server, because a pickle can run code.

        Returns
        -------
        sums : ndarray of shape (2, n_sums), int64
            Numbers in two limbs. The sum of several answers, modulo 2^64, is the answer
            for all their samples.

        Raises
        ------
        ValueError
            If the server asks with another norm bound or shape than this party's.
        """
        self._validate_params()
        if type(question) is not Question:  # A subclass could sum something else.
            raise TypeError("question must be what fit_aggregated passes to `ask`.")
        array: Any = checked(check_array, X, **AS_SAMPLES, input_name="X")
        shape = self._shape_of(array)
        exact = math.isfinite(self.epsilon)
        asked = question.shape, question.bound, question.exact
        if asked != (shape, self.norm_bound, exact):
            raise ValueError(
                "Server and parties must have the same norm_bound, samples of the same "
                "shape, and both a finite epsilon."
            )
        return contribute(array.reshape(len(array), -1), question)

    def _ranks(self, shape: tuple[int, ...]) -> tuple[int, ...] | int | None:
        """The numbers of components, checked; one for each mode, or one in all."""
        return checked_ranks(self.n_components, shape)

    def _n_passes(self, shape: tuple[int, ...]) -> int:
        """Number of times that the samples are summed."""
        return 1 + self.centre + isinstance(self._ranks(shape), int)

    @property
    def _left(self) -> float:
        """Share of the squared budget that the mean leaves."""
        return 1 - MEAN_SHARE if self.centre else 1.0

    def _share_of_modes(self, shape: tuple[int, ...]) -> float:
        """Share of the squared budget of the first moments of the modes."""
        is_chosen = isinstance(self._ranks(shape), int)
        return self._left * (_FIRST_SHARE if is_chosen else 1.0)

    def _first_question(
        self, shape: tuple[int, ...], bound: float, n_further: int
    ) -> Question:
        exact = math.isfinite(self.epsilon)
        if self.centre:
            return Question(shape, bound, (MEAN_SHARE,), is_mean=True, exact=exact)
        shares = shares_of_modes(shape, self._share_of_modes(shape))
        return Question(shape, bound, shares, exact=exact)

    def _learn(
        self, releases: Releases, first: Question, n_samples: int
    ) -> dict[str, Any]:
        shape, modes, mean = first.shape, first, np.zeros(math.prod(first.shape))
        if self.centre:
            mean = _shrunk(releases.ask(first)[0], first, releases.sigma) / n_samples
            shares = shares_of_modes(shape, self._share_of_modes(shape))
            modes = replace(first, is_mean=False, mean=mean, shares=shares)
        spectra = releases.spectra(modes)
        ranks, rotation = self._ranks(shape), None
        method = "modes"
        ratio: Any = None
        if ranks is None:
            noise_free = [min(n, n_samples * math.prod(shape) // n) for n in shape]
            ranks = tuple(
                one.n_above() if one.deviation else most
                for one, most in zip(spectra, noise_free, strict=True)
            )
        elif isinstance(ranks, int):
            spectra, ranks, method = self._chosen(releases, modes, spectra, ranks)
        factors = [one.vectors[:, :r] for one, r in zip(spectra, ranks, strict=True)]
        total = total_energy(spectra)
        if method == "modes":
            ratio = [
                one.energies(total)[:r] / (total or 1.0)
                for one, r in zip(spectra, ranks, strict=True)
            ]
            ratio = ratio[0] if len(ratio) == 1 else ratio
        else:
            assert isinstance(self.n_components, Integral)
            bases = map(whole_basis, factors) if first.exact else factors
            left = self._left * (1 - _FIRST_SHARE)
            core = replace(modes, shares=(left,), bases=tuple(bases), is_joint=True)
            (spectrum,) = releases.spectra(core)
            rotation = spectrum.vectors[:, : self.n_components]
            ratio = spectrum.energies(float(np.trace(spectrum.matrix)))
            ratio = ratio[: self.n_components] / (total or 1.0)
        n_features = math.prod(ranks) if rotation is None else rotation.shape[1]
        return {
            "components_": factors,
            "rotation_": rotation,
            "method_": method,
            "n_components_": n_features,
            "explained_variance_ratio_": ratio,
            "mean_": mean.reshape(shape),
        }

    def _chosen(
        self,
        releases: Releases,
        modes: Question,
        spectra: list[Spectrum],
        n_components: int,
    ) -> tuple[list[Spectrum], tuple[int, ...], str]:
        """What is expected to find most energy with the rest of the budget.

        Returns the spectra of the modes, after a second release if that is chosen; the
        ranks; and the method.
        """
        total, left = total_energy(spectra), self._left * (1 - _FIRST_SHARE)
        true = [one.true_values(total) for one in spectra]
        # Two releases with equal shares, averaged.
        deviations = [one.deviation * math.sqrt(_FIRST_SHARE) for one in spectra]
        of_modes, ranks = best_ranks(true, total, deviations, n_components)
        energies = [one.energies(total) for one in spectra]
        noise = releases.sigma * modes.unit**2 / math.sqrt(left)
        noise = noise if releases.sigma else 0.0
        of_core, core = best_core(energies, total, noise, n_components, LARGEST_CORE)
        if of_core > of_modes * (1 + 1e-9):
            return spectra, core, "flat" if core == modes.shape else "core"
        if releases.sigma:
            again = replace(modes, shares=shares_of_modes(modes.shape, left))
            second = releases.spectra(again)
            spectra = [joined(*pair) for pair in zip(spectra, second, strict=True)]
            total = total_energy(spectra)
            true = [one.true_values(total) for one in spectra]
            _, ranks = best_ranks(true, total, deviations, n_components)
        return spectra, ranks, "modes"

    # --- use --------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def transform(self, X: ArrayLike) -> NDArray[np.floating]:
        """Project samples on the components, without noise.

        **Nothing protects the result**: of private samples, it is as private as they
        are.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples of the shape seen in `fit`. A Dask array stays lazy.

        Returns
        -------
        features : ndarray of shape (n_samples, n_components)
            With ``method_="modes"``, the cells of the cores in C order.
        """
        check_is_fitted(self)
        array, _ = self._samples(X, self.sample_shape_)
        projection = _Projection.of(self)
        if is_dask(array):
            return in_chunks(projection, array, (self.n_components_,), self)
        rows = projection(array.reshape(len(array), -1))
        return rows.astype(array.dtype, copy=False)

    def inverse_transform(self, Z: ArrayLike) -> NDArray[np.float64]:
        """Samples that have these features and nothing beside the components.

        Parameters
        ----------
        Z : array-like of shape (n_samples, n_components)
            What `transform` returns. The rows of an identity matrix give the
            components themselves, apart from the mean.

        Returns
        -------
        samples : ndarray of shape (n_samples, ...)
            Of the shape of the samples that `fit` got: tensors, or rows of features.
        """
        check_is_fitted(self)
        check_numeric(Z, "Z")
        rows: Any = checked(check_array, Z, input_name="Z", dtype=float)
        if rows.shape[1] != self.n_components_:
            raise ValueError(
                f"Z has {rows.shape[1]} columns, but there are {self.n_components_} "
                f"components."
            )
        samples = _Projection.of(self).inverse(rows)
        is_flat = self.n_features_in_ == samples.shape[1]
        return samples if is_flat else samples.reshape(-1, *self.sample_shape_)

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Share of the energy of samples that the components explain.

        **Nothing protects the result.**

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples of the shape seen in `fit`.
        y : None
            Ignored.

        Returns
        -------
        share : float
            Sum of the squares of all features, over that of all cells less `mean_`. 1.0
            if all samples equal the mean.
        """
        check_is_fitted(self)
        array, _ = self._samples(loaded(X)[0], self.sample_shape_)
        rows = array.reshape(len(array), -1).astype(float)
        centred, features = rows - self.mean_.ravel(), _Projection.of(self)(rows)
        # Scaling by a power of two leaves the share as it is, and squares finite.
        exponent = -int(np.frexp(np.max(np.abs(centred), initial=0.0))[1])
        energy, explained = (
            float(np.square(np.ldexp(part, exponent)).sum())
            for part in (centred, features)
        )
        return explained / energy if energy else 1.0

    # --- expected error ---------------------------------------------------------------

    _error_name = (
        "share of the energy that noise costs, for samples as long as norm_bound with "
        "equal energy in all components"
    )

    def _error_by_epsilon(self, X: Any, y: Any) -> Callable[[float], float]:
        """Expected error as a function of epsilon; only the shape of `X` is read."""
        if self.norm_bound is None or self.n_components is None:
            raise ValueError(
                "The expected error needs norm_bound and n_components. Pass them."
            )
        n_samples, shape = len(X), self._shape_of(X)
        ranks = self._ranks(shape)
        assert ranks is not None

        def error(epsilon: float) -> float:
            if math.isinf(epsilon):
                return 0.0
            self.set_params(epsilon=epsilon)
            sigma = math.sqrt(self._planned_noise(shape, 0).noise_variance)
            # Energies in units of all of it.
            shares = shares_of_modes(shape, self._left)
            noise = [sigma / math.sqrt(share) / n_samples for share in shares]
            alike = ranks if isinstance(ranks, tuple) else _most_alike(shape, ranks)
            kept = math.prod(
                expected_energy(_even(n, r), r, s)
                for n, r, s in zip(shape, alike, noise, strict=True)
            )
            if isinstance(ranks, int) and math.prod(shape) <= LARGEST_CORE:
                flat = sigma / math.sqrt(self._left * (1 - _FIRST_SHARE)) / n_samples
                whole = expected_energy(_even(math.prod(shape), ranks), ranks, flat)
                kept = max(kept, whole)
            lost = 1 - kept
            if self.centre:
                of_mean = 4 * sigma**2 / MEAN_SHARE / n_samples**2 * math.prod(shape)
                lost += min(of_mean, 1.0)
            return min(lost, 1.0)

        return error


class _Projection:
    """Projection of rows on the components, and back; holds released numbers only."""

    def __init__(
        self,
        shape: tuple[int, ...],
        mean: NDArray[np.float64],
        factors: list[NDArray[np.float64]],
        rotation: NDArray[np.float64] | None,
    ) -> None:
        self._shape, self._mean = shape, mean
        self._factors, self._rotation = factors, rotation

    @classmethod
    def of(cls, pca: MultilinearPCA) -> _Projection:
        """The projection of one fit, even if another thread fits meanwhile."""
        fitted = vars(pca).copy()
        return cls(
            fitted["sample_shape_"],
            fitted["mean_"].ravel(),
            fitted["components_"],
            fitted["rotation_"],
        )

    def __call__(self, rows: NDArray[np.floating]) -> NDArray[np.float64]:
        cores = projected(rows - self._mean, self._shape, self._factors)
        return cores if self._rotation is None else cores @ self._rotation

    def inverse(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows with these features."""
        cores = features if self._rotation is None else features @ self._rotation.T
        ranks = tuple(factor.shape[1] for factor in self._factors)
        rows = projected(cores, ranks, [factor.T for factor in self._factors])
        return rows + self._mean


def _shrunk(
    total: NDArray[np.float64], question: Question, sigma: float
) -> NDArray[np.float64]:
    """A noisy sum, shrunk towards zero by its share of noise (James and Stein)."""
    if not sigma:
        return total
    noise = len(total) * (2 * sigma * question.unit) ** 2 / question.shares[0]
    energy = float(np.square(total).sum())
    return total * max(1 - noise / energy, 0.0) if energy else total


def _even(n: int, rank: int) -> NDArray[np.float64]:
    """Eigenvalues with equal energy in the first `rank`, adding up to 1."""
    return np.where(np.arange(n) < rank, 1 / rank, 0.0)


def _most_alike(shape: tuple[int, ...], n_components: int) -> tuple[int, ...]:
    """Ranks that are most alike, with a product of at most a number."""
    nothing = [np.zeros(n) for n in shape]
    return best_ranks(nothing, 0.0, [0.0] * len(shape), n_components)[1]
