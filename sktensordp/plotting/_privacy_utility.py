"""Picture of the trade-off between privacy and utility."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from itertools import product
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from ..privacy import PrivacyGuarantee
from ._claims import estimators_by_label, guarantee_of_candidate, guarantee_of_fits
from ._curves import EpsilonsDisplay
from ._docs import with_shared_text
from ._style import AXIS_WIDTH, REFERENCE_STYLES, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Metrics whose common names differ from their names in scikit-learn.
_METRICS = {
    "root_mean_squared_error": "RMSE",
    "r2": "R²",
    "f1": "F1 score",
    "roc_auc": "ROC AUC",
}
# Label, epsilon, score, its standard deviation, and the guarantee if it is known.
_Point = tuple[str, float, float, float, PrivacyGuarantee | None]


@with_shared_text
@dataclass(eq=False, repr=False)
class PrivacyUtilityDisplay(EpsilonsDisplay):
    """Score over epsilon, one curve per method, beside references without privacy.

    A curve whose epsilons are claimed but not true is drawn thin, dotted and grey with
    hollow markers, and the legend lists its true epsilons.

    Parameters
    ----------
    curves : dict of str to tuple of (array-like, array-like, array-like or None)
        By label: epsilons, mean scores, and standard deviations of the scores (None
        for no error bars).
    references : dict of str to float, default=None
        Scores drawn as horizontal lines, such as that of the non-private fit.
    score_name : str, default="score"
        Label of the vertical axis. Name the score and its data, such as "RMSE of
        held-out ratings".
    true_epsilons : dict of str to array-like, default=None
        By label, for curves whose epsilons are claimed but not true: the true epsilon
        at each point, infinity if no finite epsilon holds, NaN if it is not known.
    $notes

    Attributes
    ----------
    $axes
    lines_ : list of matplotlib ErrorbarContainer
        One per curve.

    Raises
    ------
    ValueError
        If `true_epsilons` has a label without a curve, or does not have one number for
        every point.

    See Also
    --------
    ExpectedErrorDisplay : Expected error, before any estimator is fitted.

    Examples
    --------
    >>> from sktensordp.plotting import PrivacyUtilityDisplay
    >>> display = PrivacyUtilityDisplay(
    ...     {"table": ([1, 2, 4], [0.97, 0.93, 0.89], None),
    ...      "as published": ([1, 2, 4], [0.88, 0.88, 0.87], None)},
    ...     references={"non-private": 0.87},
    ...     score_name="RMSE of held-out ratings",
    ...     true_epsilons={"as published": [float("inf")] * 3})
    >>> display.plot().ax_.get_ylabel()
    'RMSE of held-out ratings'
    >>> for line in display.ax_.get_legend().get_texts():
    ...     print(line.get_text())
    table
    as published: claimed, no finite epsilon
    holds
    non-private
    """

    curves: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike | None]]
    _: KW_ONLY
    references: Mapping[str, float] | None = None
    score_name: str = "score"
    true_epsilons: Mapping[str, ArrayLike] | None = None
    notes: Mapping[str, str] | None = None

    @classmethod
    def from_search(
        cls,
        search: Any,
        *,
        references: Mapping[str, float] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the scores of a fitted search over epsilon.

        Candidates that differ in other parameters form separate curves. Candidates
        with infinite epsilon become references. For each candidate, the guarantee of
        one fit is computed from its parameters. If that is not known, or its epsilon
        is not the one at which the candidate is drawn, as with a published calibration,
        the curve is thin, dotted and grey. If curves differ in their unit, relation or
        delta, the legend says so.

        Parameters
        ----------
        search : GridSearchCV or RandomizedSearchCV
            Fitted, with one searched parameter whose name ends in "epsilon". The
            guarantees of mechanisms are known only after a refit.
        references : dict of str to float, default=None
            Further references.
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones by default.

        Returns
        -------
        display : PrivacyUtilityDisplay

        Raises
        ------
        ValueError
            If not exactly one searched parameter ends in "epsilon", or the search has
            more than one score.

        Examples
        --------
        >>> from sklearn.model_selection import GridSearchCV
        >>> from sktensordp.completion import CPCompletion
        >>> from sktensordp.datasets import make_ratings
        >>> from sktensordp.plotting import PrivacyUtilityDisplay
        >>> ratings = make_ratings(20, 20, 300, random_state=0)
        >>> model = CPCompletion(rank=1, levels=ratings.levels, shape=ratings.shape)
        >>> grid = {"epsilon": [1.0, 4.0], "perturbation": ["input", "sums"]}
        >>> search = GridSearchCV(model, grid, cv=2).fit(ratings.data, ratings.target)
        >>> display = PrivacyUtilityDisplay.from_search(search)
        >>> sorted(display.curves)
        ['perturbation = input', 'perturbation = sums']
        >>> display.true_epsilons
        {}
        """
        check_is_fitted(search)
        results = search.cv_results_
        name = _epsilon_parameter(
            {name for params in results["params"] for name in params}
        )
        if "mean_test_score" not in results:
            raise ValueError(
                "The search has more than one score. Pick one, and pass its values as "
                "`curves` to PrivacyUtilityDisplay(...)."
            )
        sign, score_name = _sign_and_name(search.scoring, search.estimator)
        points: list[_Point] = []
        like = getattr(search, "best_estimator_", None)
        for i, params in enumerate(results["params"]):
            others = dict(params)
            epsilon = others.pop(name)
            mean, std = results["mean_test_score"][i], results["std_test_score"][i]
            has_noise = np.isfinite(epsilon)
            guarantee = None
            if has_noise:
                guarantee = guarantee_of_candidate(search.estimator, params, like)
            alone = "cross-validation" if has_noise else type(search.estimator).__name__
            label = _params_text(others) or alone
            points.append((label, epsilon, sign * mean, std, guarantee))
        return cls._from_points(points, score_name, references).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        epsilons: Iterable[float],
        cv: object = None,
        scoring: object = None,
        n_jobs: int | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Cross-validate estimators at several epsilons and draw the scores.

        Use it with public or synthetic data: every fit is a separate release, and
        scores are raw statistics. A curve is thin, dotted and grey if the guarantee of
        its fits is not known or has another epsilon than the one at which it is drawn.
        If curves differ in their unit, relation or delta, the legend says so.

        Parameters
        ----------
        estimator : estimator or Pipeline, or dict of str to these
            Estimators with exactly one parameter whose name ends in "epsilon"; several
            by label, all fitted to the same splits.
        X : array-like
            Data.
        y : array-like
            Target.
        epsilons : array-like of float
            Epsilons of the fits; infinity for a reference without noise.
        cv, scoring, n_jobs
            As in ``cross_validate``.
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones by default.

        Returns
        -------
        display : PrivacyUtilityDisplay

        Raises
        ------
        ValueError
            If not exactly one parameter of an estimator ends in "epsilon". Raised
            before anything is fitted.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.linear_model import RidgeClassifier
        >>> from sklearn.pipeline import make_pipeline
        >>> from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism
        >>> from sktensordp.plotting import PrivacyUtilityDisplay
        >>> X, y = load_wine(return_X_y=True)
        >>> X = X / X.max(axis=0)
        >>> display = PrivacyUtilityDisplay.from_estimator(
        ...     {"Laplace": make_pipeline(LaplaceMechanism(bounds=(0, 1)),
        ...                               RidgeClassifier()),
        ...      "Gaussian": make_pipeline(GaussianMechanism(bounds=(0, 1), delta=1e-5),
        ...                                RidgeClassifier())},
        ...     X, y, epsilons=[16, 64, float("inf")], cv=3)
        >>> list(display.curves), list(display.references)
        (['Laplace', 'Gaussian'], ['no noise'])
        >>> display.notes
        {'Laplace': 'delta = 0', 'Gaussian': 'delta = 1e-05'}
        """
        from sklearn.base import clone, is_classifier
        from sklearn.model_selection import check_cv, cross_validate

        models = estimators_by_label(estimator)
        names = {
            label: _epsilon_parameter(model.get_params())
            for label, model in models.items()
        }
        classify = any(map(is_classifier, models.values()))
        splits = list(check_cv(cv, y, classifier=classify).split(X, y))
        sign, score_name = _sign_and_name(scoring, *models.values())
        points: list[_Point] = []
        how = {"cv": splits, "scoring": scoring, "n_jobs": n_jobs}
        for (label, model), epsilon in product(models.items(), sorted(epsilons)):
            candidate = clone(model).set_params(**{names[label]: epsilon})
            result = cross_validate(candidate, X, y, return_estimator=True, **how)
            scores, fits = sign * result["test_score"], result["estimator"]
            guarantee = guarantee_of_fits(fits) if np.isfinite(epsilon) else None
            points.append((label, epsilon, scores.mean(), scores.std(), guarantee))
        return cls._from_points(points, score_name).plot(ax=ax)

    @classmethod
    def _from_points(
        cls,
        points: Iterable[_Point],
        score_name: str,
        references: Mapping[str, float] | None = None,
    ) -> Self:
        """A display of points; those at infinite epsilon become references."""
        by_label, without_noise = defaultdict(list), {}
        for label, epsilon, score, *others in points:
            if np.isinf(epsilon):
                without_noise[label] = score
            else:
                by_label[label].append((epsilon, score, *others))
        curves, guarantees = {}, {}
        for label, of_curve in by_label.items():
            by_epsilon = sorted(of_curve, key=itemgetter(0))
            *columns, guarantees[label] = zip(*by_epsilon, strict=True)
            epsilons, mean, spread = map(np.array, columns)
            curves[label] = epsilons, mean, spread
        references = {**(references or {}), **_references(without_noise)}
        display = cls(curves, references=references, score_name=score_name)
        return display._with_guarantees(guarantees)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the curves and the references.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones by default.

        Returns
        -------
        self : PrivacyUtilityDisplay

        Examples
        --------
        >>> from matplotlib.figure import Figure
        >>> from sktensordp.plotting import PrivacyUtilityDisplay
        >>> display = PrivacyUtilityDisplay({"table": ([1, 2], [0.9, 0.8], [0.1, 0.1])})
        >>> ax = Figure().subplots()
        >>> display.plot(ax=ax).ax_ is ax
        True
        """
        self._draw_curves(self.curves, ax)
        references = []
        for i, (label, score) in enumerate((self.references or {}).items()):
            dashes = REFERENCE_STYLES[i % len(REFERENCE_STYLES)]
            references.append(self._draw_level(score, dashes, label=wrapped(label)))
        self._label_epsilons()
        self.ax_.set_ylabel(wrapped(self.score_name, AXIS_WIDTH))
        self._draw_legend([*self.lines_, *references])
        return self

    def _draw_curve(self, label: str, line: str, marker: str) -> Any:
        epsilon, mean, spread = self.curves[label]
        style = {"marker": marker, "capsize": 3, "elinewidth": 0.8}
        style |= self._style(label, line) | {"label": wrapped(self._text(label))}
        return self.ax_.errorbar(epsilon, mean, yerr=spread, **style)

    def _epsilons(self, label: str) -> NDArray[np.float64]:
        return np.asarray(self.curves[label][0], dtype=float).ravel()


def _epsilon_parameter(names: Iterable[str]) -> str:
    """The one name that ends in epsilon."""
    epsilons = sorted(name for name in names if name.rsplit("__", 1)[-1] == "epsilon")
    if len(epsilons) != 1:
        raise ValueError(
            f"Exactly one parameter must end in 'epsilon', got {epsilons}."
        )
    return epsilons[0]


def _params_text(params: Mapping[str, Any]) -> str:
    """Parameters as text; the repr of an estimator is joined into one line."""
    return ", ".join(
        f"{name.rsplit('__', 1)[-1]} = {' '.join(str(value).split())}"
        for name, value in sorted(params.items())
    )


def _references(scores: Mapping[str, float]) -> dict[str, float]:
    """References from the scores without noise; a single one if all are equal."""
    if len(scores) > 1 and len(set(scores.values())) == 1:
        return {"no noise": next(iter(scores.values()))}
    return {f"{label}, no noise": score for label, score in scores.items()}


def _sign_and_name(scoring: Any, *estimators: Any) -> tuple[int, str]:
    """Sign that turns a score into the metric to draw, and the label of its axis.

    The score of a scorer that is an object keeps its sign, so its label names it.
    """
    from sklearn.base import is_classifier, is_regressor

    sign, prefix, name = 1, "", "score"
    if isinstance(scoring, str):
        name = scoring.removeprefix("neg_")
        sign = -1 if scoring.startswith("neg_") else 1
    elif scoring is None and all(map(is_classifier, estimators)):
        name = "accuracy"
    elif scoring is None and all(map(is_regressor, estimators)):
        name = "r2"
    elif scoring is not None:
        # make_fold_in_scorer wraps a scorer of scikit-learn, which wraps a metric.
        scorer = getattr(scoring, "_scorer", scoring)
        metric = getattr(scorer, "_score_func", scorer)
        name = getattr(metric, "__name__", name).removesuffix("_score")
        name = "score" if name == "<lambda>" else name
        prefix = "negative " if getattr(scorer, "_sign", 1) < 0 else ""
    name = _METRICS.get(name, name.replace("_", " "))
    return sign, f"{prefix}{name} on held-out data"
