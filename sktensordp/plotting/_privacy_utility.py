"""Picture of the trade-off between privacy and utility."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ._claims import (
    check_labels,
    difference_notes,
    guarantee_of_candidate,
    guarantee_of_fits,
    legend_text,
    true_epsilons,
)
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


@with_shared_text
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

    def __init__(
        self,
        curves: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike | None]],
        *,
        references: Mapping[str, float] | None = None,
        score_name: str = "score",
        true_epsilons: Mapping[str, ArrayLike] | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        self.curves = curves
        self.references = references
        self.score_name = score_name
        self.true_epsilons = dict(true_epsilons or {})
        self.notes = dict(notes or {})
        sizes = {label: np.size(points[0]) for label, points in curves.items()}
        check_labels(self.true_epsilons, sizes)

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
        points, without_noise = defaultdict(list), {}
        for i, params in enumerate(results["params"]):
            label = _params_text({k: v for k, v in params.items() if k != name})
            score = sign * results["mean_test_score"][i]
            if np.isinf(params[name]):
                without_noise[label or type(search.estimator).__name__] = score
                continue
            guarantee = guarantee_of_candidate(search, params)
            points[label or "cross-validation"].append(
                (params[name], score, results["std_test_score"][i], guarantee)
            )
        references = {**(references or {}), **_references(without_noise)}
        return cls._from_points(points, references, score_name).plot(ax=ax)

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

        if not isinstance(estimator, Mapping):
            estimator = {type(estimator).__name__: estimator}
        names = {
            label: _epsilon_parameter(model.get_params())
            for label, model in estimator.items()
        }
        classify = any(map(is_classifier, estimator.values()))
        splits = list(check_cv(cv, y, classifier=classify).split(X, y))
        sign, score_name = _sign_and_name(scoring, *estimator.values())
        points, without_noise, grid = defaultdict(list), {}, sorted(epsilons)
        how = {"cv": splits, "scoring": scoring, "n_jobs": n_jobs}
        for label, model in estimator.items():
            for epsilon in grid:
                candidate = clone(model).set_params(**{names[label]: epsilon})
                result = cross_validate(candidate, X, y, return_estimator=True, **how)
                scores, fits = sign * result["test_score"], result["estimator"]
                if np.isinf(epsilon):
                    without_noise[label] = scores.mean()
                    continue
                guarantee = guarantee_of_fits(fits)
                points[label].append((epsilon, scores.mean(), scores.std(), guarantee))
        references = _references(without_noise)
        return cls._from_points(points, references, score_name).plot(ax=ax)

    @classmethod
    def _from_points(
        cls,
        points: Mapping[str, Iterable[Any]],
        references: Mapping[str, float],
        score_name: str,
    ) -> Self:
        """Make a display from (epsilon, score, deviation, guarantee) lists by label."""
        curves: dict[str, Any] = {}
        guarantees, truths = {}, {}
        for label, of_curve in points.items():
            by_epsilon = sorted(of_curve, key=lambda point: point[0])
            *columns, guarantees[label] = zip(*by_epsilon, strict=True)
            curves[label] = tuple(map(np.array, columns))
            true = true_epsilons(columns[0], guarantees[label])
            if true is not None:
                truths[label] = true
        texts: dict[str, Any] = {"true_epsilons": truths}
        texts["notes"] = difference_notes(guarantees)
        return cls(curves, references=references, score_name=score_name, **texts)

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
        self._label_epsilons([epsilon for epsilon, *_ in self.curves.values()])
        self.ax_.set_ylabel(wrapped(self.score_name, AXIS_WIDTH))
        self._draw_legend([*self.lines_, *references])
        return self

    def _draw_curve(self, label: str, line: str, marker: str) -> Any:
        epsilon, mean, spread = self.curves[label]
        text = wrapped(legend_text(label, self.notes, self.true_epsilons))
        style = {"marker": marker, "capsize": 3, "elinewidth": 0.8, "label": text}
        style |= self._line_style(label, line)
        return self.ax_.errorbar(epsilon, mean, yerr=spread, **style)


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
