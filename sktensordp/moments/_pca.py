"""`MultilinearPCA`: principal components of every mode of people's tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from .._dask import is_dask, loaded
from .._noise_only import moments_are_noise, sums_are_noise
from .._sklearn_compat import fit_context
from .._validation import check_aligned, check_numeric, checked
from ..ids import people_of
from ..mechanisms._chunks import in_chunks
from ..privacy._conditions import PROJECTIONS
from ._base import SHORT_SAMPLES, MomentsEstimator, SampleReleases
from ._means import shrunk
from ._samples import LazySamples, Samples
from ._spectrum import (
    Spectrum,
    alikeness,
    best_core,
    best_ranks,
    expected_energy,
    joined,
    ranks_above,
    ranks_within,
    shares_of_modes,
    total_energy,
)
from ._sums import LARGEST_CORE, Question, projected, whole_basis

# Of the squared budget, for the mean; and of the rest, for the moments by which the
# ranks are chosen.
_MEAN_SHARE, _FIRST_SHARE = 0.1, 0.5
# Of so small a part of every number, no sum overflows.
_PART = 2.0**-64
_NOISE = (
    "The components hold little but noise: the released moments of the samples are no "
    f"larger than theirs. {SHORT_SAMPLES}"
)


class MultilinearPCA(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, MomentsEstimator
):
    """Principal components of each mode of people's tensors, whole samples protected.

    A sample is one person's tensor, such as features x hours. The fit releases noisy
    second moments of each mode; their leading eigenvectors span the components. What it
    publishes keeps (`epsilon`, `delta`) for one sample, which may be replaced.
    `transform`, `inverse_transform` and `score` add no noise: **their results are not
    protected**.

    Parameters
    ----------
    n_components : tuple of int, int or None, default=None
        A tuple has the number of components of every mode. One number is the total:
        half of the budget goes to the moments of the modes, and the other half to
        better moments of the modes or to those of a core, whichever is then expected to
        find most energy. None takes, in every mode, the components that stand out from
        the noise.
    epsilon : float, default=1.0
        Budget of a sample. ``float("inf")`` adds no noise.
    delta : float, default=1e-6
        Budget of a sample.
    norm_bound : float, default=None
        Public bound on the Euclidean norm of a sample, and with `center` also of a
        sample less the mean. Longer samples are scaled down to it. The noise grows with
        its square, so a typical norm is better than the largest one. If None, the fit
        finds about the median norm inside epsilon, with
        min(120 / n_samples, epsilon / 10) of it, and refuses fewer than 500 / epsilon
        samples. Without noise, samples are not clipped then.
    offset, scale : float or array-like, default=None
        Public units: a sample is fitted less `offset` and divided by `scale`, and
        `norm_bound` is of what is left. A number, or an array that broadcasts to a
        sample, such as one number for each channel, of shape (n_channels, 1). Choose
        them without a look at the data. None stands for 0 and 1.
    center : bool, default=False
        Whether to release a noisy mean first, with a tenth of the budget, and take
        moments about it. It rarely pays: without it, the mean is among the components.
        The mean itself must be within `norm_bound`; pass an `offset` if it is not.
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
        Share of the energy (of the variance, with `center`) of each component, in units
        of `scale`. What the noise adds is estimated and taken off. With
        ``method_="modes"`` and several modes, a list with an array of shape (r_k,) for
        every mode.
    mean_ : ndarray of the shape of a sample
        What samples are projected less of: the released mean with `center`, or else
        `offset`.
    norm_bound_ : float
        The norm bound, declared or found; infinite if samples are not clipped.
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
    The components are those of the truncated higher-order SVD with which multilinear
    PCA [1]_ starts. A mode of length I has I x I moments, far fewer than all pairs of
    cells, so there is less noise than in a PCA of the flattened samples.

    *Who is protected.* Neighbouring data sets differ in one sample, which is replaced;
    the number of samples is public. With `groups` in `fit`, they differ in all samples
    of one person, and the number of people is public. To train a model on projections
    of private samples, put a mechanism between the two, such as `GaussianMechanism`.

    *Sensitivity.* For a clipped sample X with the unfolding X_k along mode k,
    A_k = X_k X_k' is positive semidefinite and no longer than its trace, which is at
    most R^2, R being `norm_bound`. So the moments of two samples have a distance of at
    most sqrt(2) R^2, since <A, B> >= 0. Mean and core are further releases, in order
    and with shares of the squared budget. Sums are sums of integers, the same from
    memory, batches, chunks of Dask and parties. The proof is at the top of
    ``moments/_sums.py`` and ``moments/_base.py``.

    *Without noise.* For one number a mode, the components are those of TensorLy's
    ``partial_tucker`` with ``n_iter_max=0``. For samples of one mode and with `center`,
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
    >>> pca = MultilinearPCA((4, 4), epsilon=1.0, random_state=0)
    >>> pca.fit(images).transform(images[:2]).shape
    (2, 16)
    >>> pca.norm_bound_  # about the median norm, found inside epsilon
    64.0
    >>> round(pca.score(images), 2)  # share of the energy that 16 of 64 numbers keep
    0.91
    >>> print(pca.privacy_guarantee_)
    This fit: (epsilon = 1, delta = 1e-06)-differential privacy for one row of X
    (replace-one), if projections of the samples are not shown without noise.
    """

    _conditions = (PROJECTIONS,)
    _of_fit = ("_projection",)

    components_: list[NDArray[np.float64]]
    rotation_: NDArray[np.float64] | None
    method_: str
    n_components_: int
    explained_variance_ratio_: Any
    mean_: NDArray[np.float64]
    _projection: _Projection

    def __init__(
        self,
        n_components: int | Sequence[int] | None = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        norm_bound: float | None = None,
        offset: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        center: bool = False,
        tensor_shape: Sequence[int] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.norm_bound = norm_bound
        self.offset = offset
        self.scale = scale
        self.center = center
        self.tensor_shape = tensor_shape
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # --- fit --------------------------------------------------------------------------

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Release noisy moments of the samples, and find their components.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Finite samples. Workers of Dask add up the chunks of a Dask array or frame;
            with `groups`, it is loaded.
        y : None
            Ignored.
        groups : array-like of shape (n_samples,), default=None
            Whose sample each one is, if people have several: an id of the person. Then
            the guarantee is for a person with all samples. These are scaled down
            together, so that they add no more than one sample may. The number of people
            is public, the number of samples of each is not.

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
        if groups is not None:
            X, groups = loaded(X, groups)
            check_aligned(X, groups=groups)
        rows, shape = self._rows(X)
        units = self._units(shape)
        if is_dask(rows):
            return self._fit(LazySamples(rows, units, type(self).__name__), shape)
        people = people_of(groups, len(rows))
        return self._fit(Samples.in_memory(units(rows), None, people), shape)

    @fit_context(prefer_skip_nested_validation=True)
    def fit_batches(self, batches: Iterable[ArrayLike]) -> Self:
        """Fit to samples that come in batches, such as files.

        The result, noise included, is that of `fit` on all batches concatenated.

        Parameters
        ----------
        batches : iterable of array-like of shape (n_batch_samples, ...)
            Each as the X of `fit`. Memory holds one batch at a time. They are read once
            for malformed samples, before a budget is asked, and then once or, with
            `center` or if `n_components` is one number, two or three times. So pass a
            list or another object that can be iterated over again, and that gives the
            same samples every time. An iterator that is read only once serves one
            release alone, and what is malformed then ends the fit after its record.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As `fit`; and if the batches can be read only once, but are needed again.
        """
        found = self._in_batches(batches, lambda batch: batch, lambda *_: None)
        return self._fit(*found)

    @property
    def _n_means(self) -> int:
        return int(self.center)

    def _n_passes(self, shape: tuple[int, ...]) -> int:
        return 1 + self.center + isinstance(self._ranks(shape), int)

    def _learn(
        self, releases: SampleReleases, question: Question
    ) -> tuple[dict[str, Any], str]:
        shape, left = question.shape, 1.0
        mean, are_noise = np.zeros(math.prod(shape)), True
        if self.center:
            left -= _MEAN_SHARE
            of_mean = replace(question, shares=(_MEAN_SHARE,), is_mean=True)
            (summed,), sigma = releases.ask(of_mean)
            are_noise = sums_are_noise(summed, of_mean.deviations(sigma)[0])
            mean = shrunk(summed, of_mean, sigma) / releases.n_samples
            question = replace(question, mean=mean)
        ranks, method, rotation = self._ranks(shape), "modes", None
        if isinstance(ranks, int):
            left *= _FIRST_SHARE
        modes = replace(question, shares=shares_of_modes(shape, left))
        spectra = releases.spectra(modes)
        if ranks is None:
            ranks = ranks_above(spectra, releases.n_samples)
        elif isinstance(ranks, int):
            left *= 1 / _FIRST_SHARE - 1
            spectra, ranks, method = _chosen(releases, modes, spectra, ranks, left)
        factors = [one.vectors[:, :r] for one, r in zip(spectra, ranks, strict=True)]
        total, found = total_energy(spectra), spectra
        energies = [
            one.energies(total)[:r] for one, r in zip(spectra, ranks, strict=True)
        ]
        if method != "modes":
            bases = tuple(map(whole_basis, factors) if question.step else factors)
            core = replace(question, shares=(left,), bases=bases, is_joint=True)
            (spectrum,) = releases.spectra(core)
            found = [*spectra, spectrum]
            rotation = spectrum.vectors[:, : self.n_components]
            trace = float(np.trace(spectrum.matrix))
            energies = [spectrum.energies(trace)[: self.n_components]]
        ratio = [one / (total or 1.0) for one in energies]
        # What a mean of noise adds to the moments about it.
        known = releases.n_samples * float(np.square(mean).sum())
        units = self._units(shape)
        mean = units.outside(mean)
        projection = _Projection(shape, mean, units.scale, factors, rotation)
        matrices = [(one.values, one.deviation) for one in found]
        are_noise = are_noise and moments_are_noise(matrices, known)
        fitted = {
            "components_": factors,
            "rotation_": rotation,
            "method_": method,
            "n_components_": projection.n_features,
            "explained_variance_ratio_": ratio if len(ratio) > 1 else ratio[0],
            "mean_": mean.reshape(shape),
            "_projection": projection,
        }
        return fitted, _NOISE if are_noise else ""

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
        projection = self._projection  # Once: another thread may fit meanwhile.
        rows, _ = self._rows(X, projection.shape)
        if is_dask(rows):
            return in_chunks(projection, rows, (projection.n_features,), self)
        return projection(rows).astype(rows.dtype, copy=False)

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
        rows = check_numeric(Z, "Z")
        rows = checked(check_array, rows, input_name="Z", dtype=float)
        if rows.shape[1] != self.n_components_:
            raise ValueError(
                f"Z has {rows.shape[1]} columns, but there are {self.n_components_} "
                f"components."
            )
        samples = self._projection.inverse(rows)
        is_flat = self.n_features_in_ == samples.shape[1]
        return samples if is_flat else samples.reshape(-1, *self.sample_shape_)

    def score(self, X: ArrayLike, y: object = None) -> float:
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
            Sum of the squares of all features, over that of all cells less `mean_`, in
            units of `scale`. 1.0 if all samples equal the mean.
        """
        check_is_fitted(self)
        projection = self._projection
        rows, _ = self._rows(loaded(X)[0], projection.shape)
        # Scaling by a power of two leaves the share as it is, and squares finite.
        part = _part_of(rows, projection.mean)
        centred, features = projection.centred(rows, part), projection.cores(rows, part)
        exponent = -int(np.frexp(np.max(np.abs(centred), initial=0.0))[1])
        energy, explained = (
            float(np.square(np.ldexp(part, exponent)).sum())
            for part in (centred, features)
        )
        return explained / energy if energy else 1.0

    # --- expected error ---------------------------------------------------------------

    def __expected_error__(
        self, X: Any, y: Any = None, n_users: int | None = None
    ) -> tuple[str, Callable[[float], float]]:
        """The energy that noise costs; only the shape of `X` is read."""
        if self.norm_bound is None or self.n_components is None:
            raise ValueError(
                "The expected error needs norm_bound, which a fit finds in the private "
                "samples alone, and n_components. Pass them."
            )
        n_samples, shape = len(X), self._shape_of(X)
        ranks = self._ranks(shape)
        assert ranks is not None

        def error(epsilon: float) -> float:
            if math.isinf(epsilon):
                return 0.0
            self.set_params(epsilon=epsilon)
            sigma = math.sqrt(self._planned_noise(shape, 0).noise_variance)
            left = 1 - _MEAN_SHARE * self.center

            # Energies in units of all of it.
            def kept_of(n: int, rank: int, share: float) -> float:
                even = np.where(np.arange(n) < rank, 1 / rank, 0.0)
                return expected_energy(even, rank, sigma / math.sqrt(share) / n_samples)

            n_cells, shares = math.prod(shape), shares_of_modes(shape, left)
            if isinstance(ranks, tuple):
                kept = math.prod(map(kept_of, shape, ranks, shares))
            else:
                alike = max(ranks_within(shape, ranks), key=alikeness)
                kept = math.prod(map(kept_of, shape, alike, shares))
                if n_cells <= LARGEST_CORE:
                    of_core = kept_of(n_cells, ranks, left * (1 - _FIRST_SHARE))
                    kept = max(kept, of_core)
            lost = 1 - kept
            if self.center:
                lost += 4 * sigma**2 / _MEAN_SHARE / n_samples**2 * n_cells
            return min(lost, 1.0)

        name = (
            "share of the energy that noise costs, for samples as long as norm_bound "
            "with equal energy in all components"
        )
        return name, error


@dataclass(frozen=True, eq=False)
class _Projection:
    """Projection of rows on the components, and back; holds released numbers only."""

    shape: tuple[int, ...]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    factors: list[NDArray[np.float64]]
    rotation: NDArray[np.float64] | None

    @property
    def ranks(self) -> tuple[int, ...]:
        """Shape of a core."""
        return tuple(factor.shape[1] for factor in self.factors)

    @property
    def n_features(self) -> int:
        """Number of features of a sample."""
        if self.rotation is not None:
            return self.rotation.shape[1]
        return math.prod(self.ranks)

    def __call__(self, rows: NDArray[np.floating]) -> NDArray[np.float64]:
        with np.errstate(over="ignore", invalid="ignore"):
            cores = self.cores(rows)
        if np.all(np.isfinite(cores)):
            return cores
        # What is too large is the largest number.
        largest = _PART * np.finfo(np.float64).max
        return np.clip(self.cores(rows, _PART), -largest, largest) / _PART

    def cores(
        self, rows: NDArray[np.floating], part: float = 1.0
    ) -> NDArray[np.float64]:
        """The features of a part of each number."""
        cores = projected(self.centred(rows, part), self.shape, self.factors)
        return cores if self.rotation is None else cores @ self.rotation

    def centred(self, rows: NDArray[np.floating], part: float) -> NDArray[np.float64]:
        """A part of each number of samples less the mean, in the units of the fit."""
        return (part * rows.astype(float, copy=False) - part * self.mean) / self.scale

    def inverse(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows with these features."""
        with np.errstate(over="ignore", invalid="ignore"):
            cores = features if self.rotation is None else features @ self.rotation.T
            rows = projected(cores, self.ranks, [f.T for f in self.factors])
            return rows * self.scale + self.mean


def _part_of(*arrays: NDArray[np.floating]) -> float:
    """A power of two that scales the largest of all numbers to about 1."""
    largest = max(float(np.max(np.abs(one), initial=0.0)) for one in arrays)
    return float(np.ldexp(1.0, min(-int(np.frexp(largest)[1]), 1000)))


def _chosen(
    releases: SampleReleases,
    modes: Question,
    spectra: list[Spectrum],
    n_components: int,
    left: float,
) -> tuple[list[Spectrum], tuple[int, ...], str]:
    """What is expected to find most energy with the rest of the budget.

    Returns the spectra of the modes, after a second release if that is chosen; the
    ranks; and the method.
    """
    sigma, shape = releases.sigma, modes.shape
    # Two releases with equal shares, averaged.
    deviations = [one.deviation * math.sqrt(_FIRST_SHARE) for one in spectra]
    of_modes, ranks = best_ranks(spectra, n_components, deviations)
    noise = sigma * modes.unit**2 / math.sqrt(left) if sigma else 0.0
    of_core, core = best_core(spectra, n_components, noise, LARGEST_CORE)
    # If both seem equal, a core is better: its components are of no single mode.
    if of_core > of_modes * (1 - 1e-9):
        return spectra, core, "flat" if core == shape else "core"
    if sigma:
        again = replace(modes, shares=shares_of_modes(shape, left))
        spectra = list(map(joined, spectra, releases.spectra(again)))
        _, ranks = best_ranks(spectra, n_components, deviations)
    return spectra, ranks, "modes"
