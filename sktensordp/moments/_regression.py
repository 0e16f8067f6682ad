"""`MultilinearRidge`, `MultilinearRidgeClassifier`: regressions, targets protected."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from numbers import Number, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from .._dask import loaded
from .._noise_only import counts_are_noise, is_one_of_many, sums_are_noise
from .._sklearn_compat import Interval, StrOptions, fit_context
from .._validation import (
    adds_noise,
    check_aligned,
    check_bounds,
    check_numeric,
    check_same_length,
    check_unmasked,
    checked,
    described,
    malformed,
    r2_of_any_size,
    range_of,
    warn,
)
from ..exceptions import PrivacyLeakWarning
from ..ids import (
    are_equal,
    check_type,
    declared_labels,
    index_of,
    one_each,
    people_of,
    type_of,
)
from ..privacy import PrivacyTags
from ._base import SHORT_SAMPLES, MomentsEstimator, SampleReleases
from ._means import MEAN_SHARE, MOST_STEPS, released_mean
from ._rehearsal import SimulatedReleases, splits
from ._samples import Samples
from ._spectrum import Spectrum, best_ranks, ranks_above, shares_of_modes
from ._sums import (
    DIAGONAL_NOISE,
    LARGEST_CORE,
    Chunk,
    Question,
    projected,
    whole_basis,
)

# Of the budget, for the moments of the modes, if a core is to be found. A compromise:
# on digits, less of it is better; on simulated subjects, more.
_MODES_SHARE = 0.2
# Length of a constant coordinate, where a target has length 1.
_CONSTANT = 0.5
# A model is said to hold little if it is expected to explain less of the variance of
# its targets, or if its products with them exceed their noise by less of it: models of
# an R2 of .4 had five times as much. Samples are far from 0 if their mean has more of
# their energy.
_LITTLE, _FAINT, _MOST = 0.05, 0.2, 0.8
# A fiftieth of the range of targets, which are scaled to [-1, 1].
_EDGE = 2 / 50
# A true count by so many deviations above what noise may be is seen (`_noise_only.py`).
_SURE = 3.1
# Samples that are so many times as long as norm_bound are far off.
_FAR_LONGER = 4.0
_NOISE = (
    "The model holds little but noise: the released products of samples and targets "
    "are no larger than theirs."
)
_FADED = (
    "The model holds little: the penalty that its noise calls for leaves next to "
    "nothing of the targets. "
)
_FAR = (
    "Most of the energy of the samples is their mean. Pass a public offset (and scale, "
    "if units differ), or center=True, and the norm_bound of what is left."
)
_NO_MEAN = (
    "The mean of so few samples is noise at this epsilon: its error is expected to be "
    "larger than norm_bound. Pass a public offset instead of center=True."
)
# Penalties that are compared, in units of the noise's largest eigenvalue; and without
# noise, of that of the features.
_ALPHAS, _FREE_ALPHAS = np.geomspace(1e-2, 1e3, 61), np.geomspace(1e-9, 10, 61)


class _Regression(MomentsEstimator):
    """A linear model of the cores of samples, from the moments of cores and targets.

    The moments are those of one vector for each sample, which holds the cells of its
    core and its targets. So their sensitivity is that of moments (``_sums.py``).

    A subclass says which parameter declares what is public about targets (`_declares`),
    and how they become coordinates.
    """

    alpha: float | str
    components_: list[NDArray[np.float64]]
    alpha_: float
    _cells: NDArray[np.float64]
    _intercepts: NDArray[np.float64]

    mean_: NDArray[np.float64]
    _declares: str
    _constant = 0.0
    _normalises = False
    _advice = SHORT_SAMPLES
    # Fits of earlier versions store none, and only a warning takes it for one.
    _scale: NDArray[np.float64] = np.ones(1)
    _of_fit: tuple[str, ...] = ("_cells", "_intercepts", "_scale")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MomentsEstimator._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
    }

    _statement = (
        "Everything that fit publishes follows from sums over the samples, clipped to "
        "norm_bound, of second moments of their modes, and of their core together with "
        "the targets (and, with center, of the samples), to which {noise} was "
        "added{by}. The targets are protected with the samples. {number} is "
        "public{size}."
    )

    def __privacy_tags__(self) -> PrivacyTags:
        tags = super().__privacy_tags__()
        tags.protects = "Xy"
        return tags

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def __privacy_unprotected__(self) -> list[str]:
        return [
            *super().__privacy_unprotected__(),
            f"{type(self).__name__} protects targets together with their samples: "
            f"splits must not depend on them.",
        ]

    # --- what is public about targets -------------------------------------------------

    def _read_off(self, targets: NDArray[Any]) -> Any:
        """The same from the targets themselves."""
        raise NotImplementedError

    def _valid_targets(self, y: Any) -> NDArray[Any]:
        """Targets of the right kind as one column, or an error."""
        raise NotImplementedError

    def _further(
        self, targets: NDArray[Any], target_domain: Any
    ) -> NDArray[np.float64]:
        """Targets as further coordinates of samples, after the constant if any."""
        raise NotImplementedError

    def _is_declared(self) -> bool:
        return getattr(self, self._declares) is not None

    def _target_domain(self, targets: NDArray[Any] | None) -> tuple[Any, bool]:
        """What is public about targets, and whether no target decided it."""
        name, target_domain = self._declares, self._declared()
        if target_domain is not None:
            return target_domain, True
        if targets is None:
            raise ValueError(f"Pass {name}: batches are read one by one.")
        if math.isfinite(self.epsilon):
            warn(
                f"{name} is not declared, so it is read off the private targets, and "
                f"no finite epsilon holds. Pass {name}.",
                PrivacyLeakWarning,
            )
        return self._read_off(targets), math.isinf(self.epsilon)

    def _checked_targets(self, X: Any, y: Any) -> NDArray[Any]:
        """Targets as an array of one for each sample."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is "
                f"None."
            )
        # Numbers of more bits than 64 may become infinite, which is refused.
        with np.errstate(over="ignore"):
            targets = self._valid_targets(y)
        check_same_length(X, targets)
        return targets

    # --- fit --------------------------------------------------------------------------

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Release noisy moments of samples and targets, and fit the model to them.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Finite samples. A Dask array is loaded.
        y : array-like of shape (n_samples,)
            Targets.
        groups : array-like of shape (n_samples,), default=None
            Whose sample each one is, if people have several: an id of the person. Then
            the guarantee is for a person with all samples and targets. These are scaled
            down together, so that they add no more than one sample may. The number of
            people is public, the number of samples of each is not.

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
        X, y, groups = loaded(X, y, groups)
        check_aligned(X, y=y, groups=groups)
        rows, shape = self._rows(X)
        people = people_of(groups, len(rows))
        targets = self._checked_targets(rows, y)
        target_domain, declared = self._target_domain(targets)
        rows = self._units(shape)(rows)
        further = self._further(targets, target_domain)
        samples = Samples.in_memory(rows, further, people)
        return self._fit_to(samples, shape, target_domain, declared=declared)

    @fit_context(prefer_skip_nested_validation=True)
    def fit_batches(self, batches: Iterable[tuple[ArrayLike, ArrayLike]]) -> Self:
        """Fit to samples and targets that come in batches, such as files.

        The result, noise included, is that of `fit` on all batches concatenated. Only
        without noise may ``alpha="auto"`` take a slightly different penalty.

        Parameters
        ----------
        batches : iterable of (X, y)
            Each as for `fit`. Memory holds one batch at a time. They are read once for
            malformed samples, before a budget is asked, and then twice, or once if the
            core has all cells; with `center`, up to three times more. So pass a list or
            another object that can be iterated over again, and that gives the same
            samples every time. An iterator that is read only once serves one release
            alone, and what is malformed then ends the fit after its record.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As `fit`; if what `fit` would read off the targets is not declared; and if
            the batches can be read only once, but are needed again.
        """
        target_domain, declared = self._target_domain(None)

        def further_of(rows: Any, batch: tuple[Any, Any]) -> NDArray[np.float64]:
            check_aligned(batch[0], y=batch[1])
            return self._further(self._checked_targets(rows, batch[1]), target_domain)

        samples, shape = self._in_batches(batches, _samples_of, further_of)
        return self._fit_to(samples, shape, target_domain, declared=declared)

    def _fit_to(
        self,
        samples: Samples,
        shape: tuple[int, ...],
        target_domain: Any,
        *,
        declared: bool,
    ) -> Self:
        facts, n_further = self._facts(target_domain), self._n_further(target_domain)
        return self._fit(samples, shape, n_further, declared=declared, **facts)

    def _facts(self, target_domain: Any) -> dict[str, Any]:
        return {f"{self._declares}_": target_domain}

    def _settings(self, target_domain: Any) -> dict[str, Any]:
        if target_domain is None:
            raise ValueError(
                f"Pass {self._declares}: all parties must know it beforehand."
            )
        labels = [repr(one) for one in np.asarray(target_domain).tolist()]
        return {self._declares: labels}

    @property
    def _length_of_further(self) -> float:  # type: ignore[override]
        return math.hypot(1.0, self._constant)

    def _further_of(self, rows: Any, y: Any) -> NDArray[np.float64]:
        return self._further(self._checked_targets(rows, y), self._declared())

    def _ranks(self, shape: tuple[int, ...]) -> tuple[int, ...] | int | None:
        """The numbers of components, of which the moments of a core are released."""
        ranks = super()._ranks(shape)
        if isinstance(ranks, tuple) and math.prod(ranks) > LARGEST_CORE:
            raise ValueError(
                f"A core may have at most {LARGEST_CORE} cells, but n_components = "
                f"{described(self.n_components)} makes {math.prod(ranks)}. Pass "
                f"smaller numbers."
            )
        return ranks

    def _finds_core(self, shape: tuple[int, ...]) -> bool:
        """Whether the core is smaller than a sample, so that modes are released."""
        return self._ranks(shape) not in (shape, math.prod(shape))

    def _n_passes(self, shape: tuple[int, ...]) -> int:
        return 1 + self._finds_core(shape) + self._n_means

    @property
    def _n_means(self) -> int:
        return MOST_STEPS * self.center

    def _learn(
        self, releases: SampleReleases, question: Question
    ) -> tuple[dict[str, Any], str]:
        shape, left, said = question.shape, 1.0, ""
        units = self._units(shape)
        mean = np.zeros(math.prod(shape))
        if self.center:
            left -= MEAN_SHARE
            mean, error = released_mean(releases, question, MEAN_SHARE)
            question = replace(question, mean=mean)
            if error > question.bound:
                said = _NO_MEAN
        core = replace(
            question,
            shares=(left,),
            further=self._length_of_further,
            is_joint=True,
        )
        factors = [np.eye(n) for n in shape]
        if self._finds_core(shape):
            of_modes = _MODES_SHARE * left
            shares = shares_of_modes(shape, of_modes)
            spectra = releases.spectra(replace(question, shares=shares))
            ranks = self._ranks_of(spectra, releases.n_samples)
            factors = [s.vectors[:, :r] for s, r in zip(spectra, ranks, strict=True)]
            bases = tuple(map(whole_basis, factors) if question.step else factors)
            core = replace(core, shares=(left - of_modes,), bases=bases)
        model = _NormalEquations(releases, core, self._constant)
        alpha = self.alpha
        if alpha == "auto":
            alpha = model.best_alpha(releases.unprotected(core))
        weights, intercepts = model.solved(float(alpha))
        of_scores: dict[str, Any] = {}
        if self._normalises:
            # Columns with equal noise count alike, however rare a class is.
            weights /= np.maximum(np.linalg.norm(weights, axis=0), 1e-300)
            of_scores["_sharpness"] = model.sharpness(float(alpha), weights)
        sides = tuple(factor.shape[1] for factor in factors)
        cells = projected(weights.T, sides, [factor.T for factor in factors])
        with np.errstate(over="ignore", invalid="ignore"):
            mean = units.outside(mean)
            cells /= units.scale
            intercepts = intercepts - cells @ mean
        fitted = {
            "components_": factors,
            "alpha_": float(alpha),
            "mean_": mean.reshape(shape),
            "_cells": cells,
            "_intercepts": intercepts,
            "_scale": units.scale,
            **of_scores,
        }
        return fitted, said or self._said_of(model, float(alpha))

    def _said_of(self, model: _NormalEquations, alpha: float) -> str:
        """Said of a model that may be noise, or nothing; "" of others."""
        said = self._said_of_targets(model)
        if model.are_noise:
            return f"{_NOISE} {said}{self._advice}"
        if said:
            return said.rstrip()
        if not model.fades(alpha):
            return ""
        return _FADED + (_FAR if model.are_far else self._advice)

    def _said_of_targets(self, model: _NormalEquations) -> str:
        """Said of targets that are noise themselves, or that nobody has."""
        return ""

    def _ranks_of(self, spectra: list[Spectrum], n_samples: int) -> tuple[int, ...]:
        """Numbers of components of the modes; one for each."""
        ranks = self._ranks(tuple(len(one.matrix) for one in spectra))
        if ranks is None:
            found = list(ranks_above(spectra, n_samples))
            while math.prod(found) > LARGEST_CORE:
                found[int(np.argmax(found))] -= 1
            return tuple(found)
        if isinstance(ranks, tuple):
            return ranks
        return best_ranks(spectra, ranks, [one.deviation for one in spectra])[1]

    def _scores(self, X: Any) -> NDArray[np.float64]:
        """What the model computes of samples, for every target."""
        check_is_fitted(self)
        fitted = vars(self).copy()
        rows, _ = self._rows(loaded(X)[0], fitted["sample_shape_"])
        with np.errstate(over="ignore", invalid="ignore"):
            return rows.astype(float) @ fitted["_cells"].T + fitted["_intercepts"]

    def _excess(self, X: Any) -> NDArray[np.float64]:
        """Lengths of samples, in the units of the fit and of `norm_bound_`."""
        rows = self._rows(loaded(X)[0], self.sample_shape_)[0].astype(float)
        with np.errstate(over="ignore", invalid="ignore"):
            about = (rows - self.mean_.reshape(-1)) / self._scale
            return np.linalg.norm(about, axis=1) / self.norm_bound_

    def _predicted(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        """Targets from what the model computes."""
        raise NotImplementedError

    # --- expected error ---------------------------------------------------------------

    _error_name: ClassVar[str]

    def _error(self, targets: NDArray[Any], predicted: NDArray[Any]) -> float:
        """Error of predictions, in the unit of `_error_name`."""
        raise NotImplementedError

    def __expected_error__(
        self, X: Any, y: Any = None, n_users: int | None = None
    ) -> tuple[str, Callable[[float], float]]:
        """The error of a rehearsal; `X` and `y` are read without protection."""
        if self.norm_bound is None or not self._is_declared():
            raise ValueError(
                f"The expected error needs norm_bound, which a fit finds in the "
                f"private samples alone, and {self._declares}. Pass them."
            )
        X, y = loaded(X, y)
        check_aligned(X, y=y)
        rows, shape = self._rows(X)
        targets, target_domain = self._checked_targets(rows, y), self._declared()
        fixed = None if self.alpha == "auto" else float(self.alpha)
        samples = self._units(shape)(rows), self._further(targets, target_domain)
        n_people, bound = n_users or len(rows), float(self.norm_bound or 0)
        self.__dict__.update(self._facts(target_domain))
        found: dict[float, float] = {}

        def error(epsilon: float) -> float:
            if epsilon not in found:
                self.set_params(epsilon=epsilon)
                found[epsilon] = rehearsed()
            return found[epsilon]

        def rehearsed() -> float:
            noise = self._planned_noise(shape, self._n_further(target_domain))
            question = Question(
                shape, bound, noise.step, n_further=self._n_further(target_domain)
            )
            errors = []
            for a_round in splits(len(rows)):
                predicted = []
                for fitted, held, seed in a_round:
                    # As much noise for each sample as in a fit to all people.
                    less = len(fitted) / n_people
                    sigma = math.sqrt(noise.noise_variance) * less
                    if fixed is not None:
                        self.alpha = fixed * less
                    chunk = Chunk(samples[0][fitted], samples[1][fitted])
                    releases = SimulatedReleases(chunk, sigma, seed)
                    learned, _ = self._learn(releases, question)
                    scores = rows[held].astype(float) @ learned["_cells"].T
                    scores += learned["_intercepts"]
                    predicted.append(self._predicted(scores))
                order = np.concatenate([held for _, held, _ in a_round])
                errors.append(self._error(targets[order], np.concatenate(predicted)))
            return float(np.mean(errors))

        return f"{self._error_name}, in a rehearsal on X and y", error


class _NormalEquations:
    """Normal equations of a ridge regression under noise that is known exactly.

    Parameters
    ----------
    releases : SampleReleases
        Asked once.
    question : Question
        For the moments of features, then of the constant if any, then of targets.
    constant : float
        The constant coordinate of every sample; 0 if there is none.

    Attributes
    ----------
    are_noise : bool
        Whether the right-hand sides, the sums of the products of features and targets,
        are within their noise of nothing.
    are_absent : ndarray of bool
        Whether the sum of each squared target is; of a class, this is its count.
    could_be_seen : bool
        Whether it would not be if every target had an equal share of the samples.
    edge : float
        End of the range, -1 or 1, at which nearly all targets are; 0 if at none. For
        one target and a constant.
    are_far : bool
        Whether most of the energy of the features is that of their mean.
    """

    def __init__(
        self, releases: SampleReleases, question: Question, constant: float
    ) -> None:
        (matrix,), sigma = releases.ask(question)
        (self._deviation,) = question.deviations(sigma)
        n, n_samples = len(matrix) - question.n_further, float(releases.n_samples)
        # The unit of the further coordinates.
        unit = question.bound if question.step else 1.0
        first = n + (constant > 0)
        gram, cross = matrix[:n, :n], matrix[:n, first:] / unit
        self._means, self._target_means = np.zeros(n), np.zeros(len(matrix) - first)
        self._cross_deviation = self._deviation / unit
        self.are_noise = sums_are_noise(cross, self._cross_deviation)
        of_targets = np.diag(matrix)[first:] / unit**2
        deviation = self._deviation / unit**2 * DIAGONAL_NOISE
        self.are_absent = np.array([counts_are_noise(c, deviation) for c in of_targets])
        if releases.of_people:
            # People with several samples may count more; what they add is released.
            own = of_targets.sum()
            if constant:
                own = matrix[n, n] / (constant * unit) ** 2
            n_samples = max(float(own), n_samples)
        self._n_samples, self._has_constant = n_samples, constant > 0
        equal = n_samples / len(of_targets)
        self.could_be_seen = not counts_are_noise(equal - _SURE * deviation, deviation)
        # Sums of the features of all who have a target, less what noise adds.
        summed = matrix[:, n : n + 1] / constant if constant else matrix[:, n:]
        far = float(np.square(summed[:n].sum(axis=1) / unit).sum())
        far -= n * summed.shape[1] * (self._cross_deviation / (constant or 1.0)) ** 2
        self.are_far = far > _MOST * n_samples * float(np.trace(gram))
        if constant:
            # The intercept has no penalty: what it explains is taken off.
            self._means = matrix[:n, n] / (constant * unit * n_samples)
            scale = constant * unit**2 * n_samples
            self._target_means = matrix[n, first:] / scale
            self.edge = self._edge(self._deviation / scale)
            gram = gram - n_samples * np.outer(self._means, self._means)
            cross = cross - n_samples * np.outer(self._means, self._target_means)
        self._squares = of_targets - n_samples * self._target_means**2
        self._values, self._vectors = np.linalg.eigh(gram)
        self._along = self._vectors.T @ cross
        # Variances of their noise: of all targets, and of the means that are taken off.
        variances = np.full(n, float(self._along.shape[1]))
        if constant:
            variances += np.square(self._target_means / constant).sum()
            variances += np.square(self._vectors.T @ self._means / (constant * unit))
        self._variances = variances * self._cross_deviation**2

    def _edge(self, error: float) -> float:
        """See `edge`; `error` is that of the released mean.

        The rule is that of completions: a mean that is at least a fiftieth of the range
        away from both ends is taken for one at an end with a probability below 1e-4.
        """
        mean = float(self._target_means.sum())
        is_at_end = len(self._target_means) == 1 and (
            abs(mean) >= 1 - _EDGE + 4 * error and 4 * error < _EDGE
        )
        return math.copysign(1.0, mean) if is_at_end else 0.0

    def _inverse(self, alpha: float) -> NDArray[np.float64]:
        """Inverses of the eigenvalues, none of which is negative, and the penalty."""
        penalized = np.maximum(self._values, 0.0) + alpha
        least = 1e-15 * float(np.max(penalized))
        is_known = penalized > least
        return np.where(is_known, 1 / np.where(is_known, penalized, 1.0), 0.0)

    def best_alpha(self, samples: NDArray[np.float64] | None) -> float:
        """The penalty with the least expected squared error of new predictions.

        If the samples' own vectors are given, each is left out in turn. Otherwise, with
        S = (G + alpha)^-1 and w = S c for noisy G and c, the error is a constant plus
        w' G w - 2 w' c, of which noise is on average responsible for
        -2 s^2 (tr(S) |w|^2 + w' S w) in the first term, up to third orders, and for
        s_c^2 tr(S) for every target in the second, or more with an intercept. New
        samples have errors that are larger by 2 tr(S G) variances of the residuals
        (Mallows 1973). Half of that is added: where noise is large, penalties leave
        much of the signal in the residuals. All, half and none of it were compared on
        digits, on components of low rank, and on sensors.
        """
        free = (max(float(self._values[-1]), 0.0) * _FREE_ALPHAS).tolist()
        if samples is not None:
            return min(free, key=self._left_out(samples))
        if not self._deviation:
            return min(free, key=self._generalised)
        edge = self._deviation * math.sqrt(len(self._values))
        alphas = (edge * _ALPHAS).tolist()
        errors = [self._error(alpha, self._along) for alpha in alphas]
        left = max(float(self._squares.sum()) + min(errors), 0.0) / self._n_samples
        values = np.maximum(self._values, 0.0)

        def new_error(alpha: float, error: float) -> float:
            return error + left * float(values @ self._inverse(alpha))

        return min(zip(alphas, errors, strict=True), key=lambda one: new_error(*one))[0]

    def _error(self, alpha: float, along: NDArray[np.float64]) -> float:
        """Expected squared error, less a constant, of the samples of the fit."""
        inverse = self._inverse(alpha)
        weights = inverse[:, np.newaxis] * along
        squares = np.square(weights).sum(axis=1)
        trace = float(inverse.sum())
        found = float(np.sum(weights * along)) - float(self._variances @ inverse)
        energy = float(self._values @ squares)
        noise = trace * float(squares.sum()) + float(inverse @ squares)
        return energy + 2 * self._deviation**2 * noise - 2 * found

    def sharpness(self, alpha: float, weights: NDArray[np.float64]) -> float:
        """What turns scores by weights of length 1 into logarithms of odds.

        It is three divided by the expected root mean square of the scores, and 0 if
        that is lost in noise. On digits and on generated classes, the logarithmic loss
        was at most .2 above that of the best number, at epsilon .3 to infinity.
        """
        along = np.square(self._vectors.T @ weights).sum(axis=1)
        inverse = self._inverse(alpha)
        energy = float(self._values @ along)
        noise = float(inverse.sum()) * float(along.sum()) + float(inverse @ along)
        energy += 2 * self._deviation**2 * noise
        mean = energy / (self._n_samples * weights.shape[1])
        return 3 / math.sqrt(mean) if mean > 0 else 0.0

    def fades(self, alpha: float) -> bool:
        """Whether the penalty is expected to leave next to nothing of the targets.

        Models of classes explain their shares, too, by the mean of the features: less
        that, and only if features are far from 0.
        """
        if not self._deviation:
            return False
        along, squares = self._along, float(self._squares.sum())
        if not self._has_constant:
            if not self.are_far or squares <= 0:
                return False
            shares = self._squares / squares
            along = along - np.outer(along.sum(axis=1), shares)
            squares *= 1 - float(np.square(shares).sum())
        inverse = self._inverse(alpha)
        noise = float(self._variances @ inverse)
        found = float(inverse @ np.square(along).sum(axis=1)) - noise
        explained = -self._error(alpha, along)
        return explained < _LITTLE * squares or found < _FAINT * noise

    def _generalised(self, alpha: float) -> float:
        """Generalised cross-validation, from sums (Golub, Heath and Wahba 1979)."""
        inverse = self._inverse(alpha)
        explained = (2 * inverse - inverse**2 * self._values) @ self._along**2
        n_free = self._n_samples - float(self._values @ inverse) - self._has_constant
        if n_free <= 0:
            return math.inf
        return float(np.sum(self._squares - explained)) / n_free**2

    def _left_out(self, samples: NDArray[np.float64]) -> Callable[[float], float]:
        """Squared errors of predictions of each sample from all others, by penalty."""
        n = len(self._values)
        features = (samples[:, :n] - self._means) @ self._vectors
        targets = samples[:, n + self._has_constant :] - self._target_means
        of_constant = self._has_constant / self._n_samples

        def error(alpha: float) -> float:
            inverse = self._inverse(alpha)
            left = 1 - of_constant - np.square(features) @ inverse
            if np.any(left <= 0):
                return math.inf
            errors = targets - features @ (inverse[:, np.newaxis] * self._along)
            return float(np.square(errors / left[:, np.newaxis]).sum())

        return error

    def solved(self, alpha: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weights of features, of shape (n_features, n_targets), and intercepts."""
        weights = self._vectors @ (self._inverse(alpha)[:, np.newaxis] * self._along)
        return weights, self._target_means - self._means @ weights


class MultilinearRidge(RegressorMixin, _Regression):
    """Ridge regression on components of people's tensors, targets protected as well.

    The fit finds components of every mode of the samples, as `MultilinearPCA` does, and
    then releases the noisy moments of their core and the targets. What it publishes
    keeps (`epsilon`, `delta`) for one sample and its target, and so do predictions for
    other people.

    Parameters
    ----------
    n_components : tuple of int, int or None, default=None
        Number of components of every mode, whose products are the features. One number
        is the number of features in all, at most 2048 either way; None takes the
        components that stand out from the noise. A fifth of the budget finds
        components. If they are all cells, the whole budget goes to the regression.
    alpha : float or "auto", default="auto"
        Penalty on the squared weights of the components, as in scikit-learn's
        ``Ridge``. "auto" takes the one with the least expected error, by what was
        released and the known noise. Without noise, it is the one with which each
        sample is best predicted from all others, as in scikit-learn's ``RidgeCV``; in
        batches, generalised cross-validation estimates that from the sums.
    epsilon : float, default=1.0
        Budget of a sample and its target. ``float("inf")`` adds no noise.
    delta : float, default=1e-6
        Budget of a sample and its target.
    norm_bound : float, default=None
        Public bound on the Euclidean norm of a sample; longer samples are scaled down
        to it. `predict` does not scale them, and is far off for much longer ones. If
        None, the fit finds about the median norm inside epsilon, with min(120 /
        n_samples, epsilon / 10) of it, and refuses fewer than 500 / epsilon samples.
        Without noise, samples are not clipped then.
    target_bounds : tuple of (low, high), default=None
        Public range of the targets; targets outside of it are moved to its ends. If
        None, it is read off the data with a `PrivacyLeakWarning`, and no finite epsilon
        holds.
    offset, scale : float or array-like, default=None
        Public units: a sample is fitted less `offset` and divided by `scale`, and
        `norm_bound` and `alpha` are of what is left. A number, or an array that
        broadcasts to a sample, such as one number for each channel, of shape
        (n_channels, 1). Choose them without a look at the data. None stands for 0
        and 1.
    center : bool, default=False
        Whether to release a noisy mean with a tenth of the budget, in up to three
        steps, and fit samples less that mean. Then `norm_bound` bounds samples less
        their mean, which may be up to 100 times as long. Declare it: what a fit finds
        is the norm of samples with their mean.
    tensor_shape : tuple of int, default=None
        Shape of a sample, if samples are passed as rows of features.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers: every clone repeats the same noise, although two
        fits of one object never share noise.

    Attributes
    ----------
    coef_ : ndarray of the shape of a sample
        Weights of the cells.
    intercept_ : float
    target_bounds_ : tuple of (low, high)
        Range of the targets and of predictions.
    components_ : list of ndarray of shape (I_k, r_k)
        Orthonormal factors of the modes.
    alpha_ : float
        The penalty that was taken.
    mean_ : ndarray of the shape of a sample
        What samples are fitted less of: the released mean with `center`, or else
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
    MultilinearRidgeClassifier : The same for classes.

    Notes
    -----
    **Who is protected.** Neighbouring data sets differ in one sample and its target,
    which are replaced; the number of samples is public. With `groups` in `fit`, they
    differ in all samples and targets of one person, and the number of people is public.
    Splits by target would move
    other people's samples, so that no finite epsilon holds for a search with them.

    A core z, a constant c and the target y, scaled to [-1, 1], make up one vector of
    bounded length. Its second moments are positive semidefinite, so that those of two
    people differ by at most sqrt(2) of that length squared, as for `MultilinearPCA`.
    They hold all sums that ridge regression needs. The proof is at the top of
    ``moments/_sums.py`` and ``moments/_base.py``. Without noise, with all components
    and an `alpha`, this is scikit-learn's ``Ridge``.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.moments import MultilinearRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((3000, 6, 8)) / 7
    >>> y = X[:, 0, 0] - X[:, 1, 0]
    >>> model = MultilinearRidge(
    ...     (6, 8), epsilon=4.0, target_bounds=(-1, 1), random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.8
    True
    """

    _declares, _constant = "target_bounds", _CONSTANT
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_Regression._parameter_constraints,
        "target_bounds": ["array-like", None],
    }

    target_bounds_: tuple[float, float]

    def __init__(
        self,
        n_components: int | Sequence[int] | None = None,
        *,
        alpha: float | str = "auto",
        epsilon: float = 1.0,
        delta: float = 1e-6,
        norm_bound: float | None = None,
        target_bounds: tuple[float, float] | None = None,
        offset: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        center: bool = False,
        tensor_shape: Sequence[int] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.epsilon = epsilon
        self.delta = delta
        self.norm_bound = norm_bound
        self.target_bounds = target_bounds
        self.offset = offset
        self.scale = scale
        self.center = center
        self.tensor_shape = tensor_shape
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = adds_noise(self.epsilon)
        return tags

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Weights of the cells."""
        return (self._cells[0] * self._half).reshape(self.sample_shape_)

    @property
    def intercept_(self) -> float:
        """Prediction for a sample of zeros."""
        return float(np.mean(self.target_bounds_) + self._intercepts[0] * self._half)

    @property
    def _half(self) -> float:
        """Half of the range of the targets."""
        low, high = self.target_bounds_
        return (high - low) / 2

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict the targets of samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples of the shape seen in `fit`.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Within `target_bounds_`.

        Warns
        -----
        UserWarning
            If most samples are more than four times as long as `norm_bound_`, to which
            the fit scaled its samples down. This is said of the `X` that you pass.
        """
        scores = self._scores(X)
        if not is_one_of_many() and np.median(self._excess(X)) > _FAR_LONGER:
            warn(
                f"Most of these samples are more than {_FAR_LONGER:g} times as long as "
                f"norm_bound_ = {self.norm_bound_:.4g}, to which a fit scales samples "
                f"down. Their predictions may be far off. Fit with the norm_bound of "
                f"a typical sample."
            )
        return self._predicted(scores)

    def _predicted(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        predicted = np.mean(self.target_bounds_) + scores[:, 0] * self._half
        return np.clip(predicted, *self.target_bounds_)

    _advice = (
        "If the samples are much shorter than norm_bound, or the targets fill only a "
        "small part of target_bounds, pass smaller ones. Otherwise, only a larger "
        "epsilon or more samples will help."
    )
    _error_name = "mean squared error over the variance of the targets"

    def _error(self, targets: NDArray[Any], predicted: NDArray[Any]) -> float:
        return 1 - r2_of_any_size(targets, predicted, None)

    def score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Score predictions of samples; **nothing protects the result**.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples of the shape seen in `fit`.
        y : array-like of shape (n_samples,)
            True targets.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
            Coefficient of determination.
        """
        check_aligned(X, y=y, sample_weight=sample_weight)
        predicted = self.predict(X)  # First: it checks X.
        targets = self._checked_targets(predicted, y)
        return r2_of_any_size(targets, predicted, sample_weight)

    def _n_further(self, target_domain: Any) -> int:
        return 2

    def _declared(self) -> tuple[float, float] | None:
        if self.target_bounds is None:
            return None
        return check_bounds(self.target_bounds, "target_bounds")

    def _read_off(self, targets: NDArray[Any]) -> tuple[float, float]:
        return range_of(targets)

    def _said_of_targets(self, model: _NormalEquations) -> str:
        if not model.edge:
            return ""
        end = "upper" if model.edge > 0 else "lower"
        return (
            f"Judging by what was released, nearly all targets are at the {end} end of "
            f"target_bounds, to which they are clipped. If they have another scale, "
            f"declare it. "
        )

    def _valid_targets(self, y: Any) -> NDArray[Any]:
        values = check_numeric(y, "y")
        values = checked(column_or_1d, values, warn=True).astype(float)
        if not np.all(np.isfinite(values)):
            raise malformed("numbers", "Input y contains NaN or infinity.")
        return values

    def _further(
        self, targets: NDArray[Any], target_domain: Any
    ) -> NDArray[np.float64]:
        low, high = target_domain
        scaled = (np.clip(targets, low, high) - (low + high) / 2) / ((high - low) / 2)
        return np.column_stack([np.full(len(scaled), self._constant), scaled])


class MultilinearRidgeClassifier(ClassifierMixin, _Regression):
    """Ridge classification on components of people's tensors, labels protected as well.

    The fit finds components of every mode of the samples, as `MultilinearPCA` does, and
    then releases the noisy moments of their core and the labels. What it publishes
    keeps (`epsilon`, `delta`) for one sample and its label, and so do predictions for
    other people.

    Parameters
    ----------
    n_components : tuple of int, int or None, default=None
        Number of components of every mode, whose products are the features. One number
        is the number of features in all, at most 2048 either way; None takes the
        components that stand out from the noise. A fifth of the budget finds
        components. If they are all cells, the whole budget goes to the regression.
    alpha : float or "auto", default="auto"
        Penalty on the squared weights of the components, as in scikit-learn's
        ``Ridge``. "auto" takes the one with the least expected error, by what was
        released and the known noise. Without noise, it is the one with which each
        sample is best predicted from all others, as in scikit-learn's ``RidgeCV``; in
        batches, generalised cross-validation estimates that from the sums.
    epsilon : float, default=1.0
        Budget of a sample and its target. ``float("inf")`` adds no noise.
    delta : float, default=1e-6
        Budget of a sample and its target.
    norm_bound : float, default=None
        Public bound on the Euclidean norm of a sample; longer samples are scaled down
        to it. If None, the fit finds about the median norm inside epsilon, with
        min(120 / n_samples, epsilon / 10) of it, and refuses fewer than 500 / epsilon
        samples. Without noise, samples are not clipped then.
    classes : array-like of shape (n_classes,), default=None
        Public, of one kind, all different. A sample with another label, of whatever
        type, counts as one without a label. If None, they are read off the data with a
        `PrivacyLeakWarning`, and no finite epsilon holds.
    offset, scale : float or array-like, default=None
        Public units: a sample is fitted less `offset` and divided by `scale`, and
        `norm_bound` and `alpha` are of what is left. A number, or an array that
        broadcasts to a sample, such as one number for each channel, of shape
        (n_channels, 1). Choose them without a look at the data. None stands for 0
        and 1.
    center : bool, default=False
        Whether to release a noisy mean with a tenth of the budget, in up to three
        steps, and fit samples less that mean. Then `norm_bound` bounds samples less
        their mean, which may be up to 100 times as long. Declare it: what a fit finds
        is the norm of samples with their mean.
    tensor_shape : tuple of int, default=None
        Shape of a sample, if samples are passed as rows of features.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers: every clone repeats the same noise, although two
        fits of one object never share noise.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted.
    coef_ : ndarray of shape (n_classes, ...)
        Weights of the cells for the score of every class.
    components_ : list of ndarray of shape (I_k, r_k)
        Orthonormal factors of the modes.
    alpha_ : float
        The penalty that was taken.
    mean_ : ndarray of the shape of a sample
        What samples are fitted less of: the released mean with `center`, or else
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
    MultilinearRidge : The same for numbers.

    Notes
    -----
    **Who is protected.** Neighbouring data sets differ in one sample and its label,
    which are replaced; the number of samples is public. With `groups` in `fit`, they
    differ in all samples and labels of one person, and the number of people is public.
    Stratified splits would move
    other people's samples, so that no finite epsilon holds for a search with them: pass
    ``cv=KFold(shuffle=True)``.

    The score of a class is a ridge regression of its indicator, scaled to weights of
    length 1, so that rare classes are predicted, too.

    A core and the indicator of its class make up one vector of bounded length, whose
    second moments are released; see `MultilinearRidge`. For samples of few cells, a
    core gains nothing: on digits of 8 x 8, all cells, ``n_components=(8, 8)``, are
    better at every epsilon.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sktensordp.moments import MultilinearRidgeClassifier
    >>> digits = load_digits()
    >>> model = MultilinearRidgeClassifier(
    ...     (8, 8), epsilon=4.0, classes=range(10), random_state=0)
    >>> model = model.fit(digits.images, digits.target)
    >>> model.score(digits.images, digits.target) > 0.8
    True
    """

    _declares, _normalises = "classes", True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_Regression._parameter_constraints,
        "classes": ["array-like", None],
    }

    classes_: NDArray[Any]
    _of_fit = (*_Regression._of_fit, "_sharpness")
    _sharpness: float

    def __init__(
        self,
        n_components: int | Sequence[int] | None = None,
        *,
        alpha: float | str = "auto",
        epsilon: float = 1.0,
        delta: float = 1e-6,
        norm_bound: float | None = None,
        classes: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        center: bool = False,
        tensor_shape: Sequence[int] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.epsilon = epsilon
        self.delta = delta
        self.norm_bound = norm_bound
        self.classes = classes
        self.offset = offset
        self.scale = scale
        self.center = center
        self.tensor_shape = tensor_shape
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = adds_noise(self.epsilon)
        return tags

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Weights of the cells for the score of every class."""
        return self._cells.reshape(-1, *self.sample_shape_)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Score the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples of the shape seen in `fit`.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes), or (n_samples,)
            Of two classes, the score of the second less that of the first.
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the classes of samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples of the shape seen in `fit`.

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        return self._predicted(self._scores(X))

    def _predicted(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        return self.classes_[scores.argmax(axis=1)]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probabilities of the classes, from their scores.

        They are the softmax of the scores, in units of what the fit has released, of
        samples scaled down to `norm_bound`, as in the fit.
        **They are not calibrated**: they rank samples, and the most probable class is
        the one that `predict` returns, but .9 is not right in nine cases of ten.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples of the shape seen in `fit`.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Of the classes in the order of `classes_`. Rows add up to 1.
        """
        scores = self._scores(X)
        best = scores.argmax(axis=1)[:, np.newaxis]
        with np.errstate(over="ignore", invalid="ignore"):
            gaps = scores - np.take_along_axis(scores, best, axis=1)
            # Scores are linear in samples less the mean.
            gaps /= np.maximum(self._excess(X), 1.0)[:, np.newaxis]
            odds = np.exp(self._sharpness * gaps)
        # No other class is as probable, also after rounding; NaN is none.
        odds = np.where(gaps <= 0, np.minimum(odds, 1 - 2.0**-50), 0.0)
        np.put_along_axis(odds, best, 1.0, axis=1)
        return odds / odds.sum(axis=1, keepdims=True)

    _error_name = "share of samples whose class is not predicted"

    def _error(self, targets: NDArray[Any], predicted: NDArray[Any]) -> float:
        return 1 - float(are_equal(targets, predicted).mean())

    def score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Score predictions of samples; **nothing protects the result**.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples of the shape seen in `fit`.
        y : array-like of shape (n_samples,)
            True classes.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
            Share of samples whose class is predicted.
        """
        check_aligned(X, y=y, sample_weight=sample_weight)
        predicted = self.predict(X)  # First: it checks X.
        # scikit-learn's metrics quote labels of another type.
        is_right = are_equal(self._checked_targets(predicted, y), predicted)
        if sample_weight is None:
            return float(is_right.mean())
        return float(np.average(is_right, weights=np.asarray(sample_weight, float)))

    def _n_further(self, target_domain: Any) -> int:
        return len(target_domain)

    def _declared(self) -> NDArray[Any] | None:
        if self.classes is None:
            return None
        return declared_labels(self.classes, "classes")

    def _read_off(self, targets: NDArray[Any]) -> NDArray[Any]:
        return np.unique(targets)

    def _valid_targets(self, y: Any) -> NDArray[Any]:
        classes = self._declared()
        if classes is None:
            check_unmasked(y, "y")
            targets = checked(column_or_1d, y, warn=True)
            checked(check_classification_targets, targets)
            return targets
        labels = one_each(y, "y")
        # By the type alone: a label of another kind in a list is just no label.
        self.__privacy_check_targets__(labels if type_of(y) is None else y)
        if labels.dtype.kind == "f" and not np.all(np.isfinite(labels)):
            raise malformed("labels", "Input y contains NaN or infinity.")
        return labels

    def __privacy_check_targets__(self, y: Any) -> None:
        classes = self._declared()
        if classes is not None:
            check_type(type_of(y), classes, "y", "classes")

    def _said_of_targets(self, model: _NormalEquations) -> str:
        classes = self._declared()
        if model.are_absent.all() and not model.could_be_seen:
            return (
                "The released counts of the classes are no larger than their noise. "
                "Pass a larger epsilon, more samples, or fewer classes. "
            )
        if model.are_absent.all():
            whom = "one of the classes"
        elif model.are_absent.any() and model.could_be_seen and classes is not None:
            labels = classes[model.are_absent].tolist()
            named = [repr(one) for one in labels[:3]] + ["..."] * (len(labels) > 3)
            whom = f"the class {' or '.join(named)}"
        else:
            return ""
        return (
            f"As far as the released numbers tell, no sample has {whom}: "
            f"check how labels are spelt in y and in classes. "
        )

    def _further(
        self, targets: NDArray[Any], target_domain: Any
    ) -> NDArray[np.float64]:
        # An unknown label is -1.
        index = index_of(target_domain, targets)
        return (index[:, np.newaxis] == np.arange(len(target_domain))).astype(float)


def _samples_of(batch: Any) -> Any:
    """The samples of a batch, which is a pair of samples and their targets."""
    is_pair = isinstance(batch, tuple | list) and len(batch) == 2
    if not is_pair or isinstance(batch[1], Number | str):
        raise malformed(
            "arrays",
            "Each batch must be a pair (X, y): several samples, and their targets.",
        )
    return batch[0]
