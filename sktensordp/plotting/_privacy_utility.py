"""The trade-off between privacy and utility, as a picture."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ._claims import (
    check_labels,
    differences,
    guarantee_of_candidate,
    guarantee_of_fits,
    legend_text,
    true_epsilons,
)
from ._curves import CurvesDisplay
from ._style import CLAIMED, REFERENCE_STYLES, wrapped

__all__ = ["PrivacyUtilityDisplay"]


class PrivacyUtilityDisplay(CurvesDisplay):
    """Score over epsilon, one curve a method, beside references without privacy.

    A curve whose epsilons are claims, and not what is true, is thin, dotted and grey
    with hollow markers; its true epsilons stand in the legend.

    Parameters
    ----------
    curves : dict of str to tuple of (array-like, array-like, array-like or None)
        For every label: epsilons, mean scores, and standard deviations of the
        scores (None for none).
    references : dict of str to float, default=None
        Scores drawn as horizontal lines, such as that of the non-private fit.
    score_name : str, default="score"
        Label of the vertical axis.
    true_epsilons : dict of str to array-like, default=None
        For the labels of curves whose epsilons are claims that are not true: the
        epsilon that holds at each; infinity where none does, NaN where it is not known.
    notes : dict of str to str, default=None
        What else the legend says of curves, by label.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of the axes.
    lines_ : list of matplotlib ErrorbarContainer
        One a curve.

    Raises
    ------
    ValueError
        If `true_epsilons` has a label that is none of the curves, or not one number for
        every point.

    See Also
    --------
    ExpectedErrorDisplay : The error to expect, before anything is fitted.

    Examples
    --------
    >>> from sktensordp.plotting import PrivacyUtilityDisplay
    >>> display = PrivacyUtilityDisplay(
    ...     {"table": ([1, 2, 4], [0.97, 0.93, 0.89], None),
    ...      "as published": ([1, 2, 4], [0.88, 0.88, 0.87], None)},
    ...     references={"non-private": 0.87}, score_name="RMSE",
    ...     true_epsilons={"as published": [float("inf")] * 3})
    >>> display.plot().ax_.get_ylabel()
    'RMSE'
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
        ax: Any = None,
    ) -> Self:
        """Draw the scores of a fitted search over epsilon.

        Candidates that differ in other parameters make curves of their own; those
        with infinite epsilon are references. What one fit of each candidate
        guarantees is computed from its parameters: where that is not the epsilon it is
        drawn at, as with a published calibration, or cannot be seen, the curve is
        drawn apart. Where curves differ in what they protect, or in delta, the legend
        says so.

        Parameters
        ----------
        search : GridSearchCV or RandomizedSearchCV
            Fitted, with one searched parameter whose name ends in "epsilon". What
            mechanisms guarantee is known of a search that was refitted.
        references : dict of str to float, default=None
            Further references.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.

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
        >>> model = CPCompletion(1, levels=ratings.levels, shape=ratings.shape)
        >>> grid = {"epsilon": [1.0, 4.0], "perturbation": ["input", "sums"]}
        >>> search = GridSearchCV(model, grid, cv=2).fit(ratings.data, ratings.target)
        >>> display = PrivacyUtilityDisplay.from_search(search)
        >>> sorted(display.curves)
        ['perturbation = input', 'perturbation = sums']
        >>> display.true_epsilons
        {}
        """
        results = search.cv_results_
        name = _one_epsilon({name for params in results["params"] for name in params})
        if "mean_test_score" not in results:
            raise ValueError(
                "The search has more than one score; draw one of them by the "
                "constructor."
            )
        sign, score_name = _score_name(search.scoring)
        rows, clean = defaultdict(list), {}
        for i, params in enumerate(results["params"]):
            label = _described({k: v for k, v in params.items() if k != name})
            score = sign * results["mean_test_score"][i]
            if np.isinf(params[name]):
                clean[label or type(search.estimator).__name__] = score
                continue
            guarantee = guarantee_of_candidate(search, params)
            rows[label or "cross-validation"].append(
                (params[name], score, results["std_test_score"][i], guarantee)
            )
        found = {**(references or {}), **_without_noise(clean)}
        return cls._of_rows(rows, found, score_name).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        epsilons: Iterable[float],
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        ax: Any = None,
    ) -> Self:
        """Cross-validate estimators at several epsilons and draw the scores.

        Every fit is a release of its own, and scores are raw statistics. Meant for
        public or synthetic data. A curve whose fits guarantee another epsilon than it
        is drawn at, or none that is known, is drawn apart; where curves differ in what
        they protect, or in delta, the legend says so.

        Parameters
        ----------
        estimator : estimator or Pipeline, or dict of str to these
            Each with one parameter whose name ends in "epsilon"; several by label, all
            fitted to the same splits.
        X : array-like
            The data.
        y : array-like
            The target.
        epsilons : array-like of float
            Where to fit; infinity for a reference without noise.
        cv, scoring, n_jobs
            As in ``cross_validate``.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.

        Returns
        -------
        display : PrivacyUtilityDisplay

        Raises
        ------
        ValueError
            If not exactly one parameter of an estimator ends in "epsilon"; before
            anything is fitted.

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
        names = {label: _one_epsilon(e.get_params()) for label, e in estimator.items()}
        classify = any(map(is_classifier, estimator.values()))
        splits = list(check_cv(cv, y, classifier=classify).split(X, y))
        sign, score_name = _score_name(scoring)
        rows, clean, grid = defaultdict(list), {}, sorted(epsilons)
        for label, one in estimator.items():
            for epsilon in grid:
                result = cross_validate(
                    clone(one).set_params(**{names[label]: epsilon}),
                    X, y, cv=splits, scoring=scoring, n_jobs=n_jobs,
                    return_estimator=True,
                )  # fmt: skip
                scores, fits = sign * result["test_score"], result["estimator"]
                if np.isinf(epsilon):
                    clean[label] = scores.mean()
                    continue
                guarantee = guarantee_of_fits(fits)
                rows[label].append((epsilon, scores.mean(), scores.std(), guarantee))
        return cls._of_rows(rows, _without_noise(clean), score_name).plot(ax=ax)

    @classmethod
    def _of_rows(
        cls,
        rows: Mapping[str, Iterable[Any]],
        references: Mapping[str, float],
        score_name: str,
    ) -> Self:
        """From epsilon, score, its deviation and the guarantee: a list by label."""
        curves: dict[str, Any] = {}
        guarantees, truths = {}, {}
        for label, points in rows.items():
            points = sorted(points, key=lambda point: point[0])
            *columns, guarantees[label] = zip(*points, strict=True)
            curves[label] = tuple(map(np.array, columns))
            found = true_epsilons(columns[0], guarantees[label])
            if found is not None:
                truths[label] = found
        return cls(
            curves, references=references, score_name=score_name, true_epsilons=truths,
            notes=differences(guarantees),
        )  # fmt: skip

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.

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
        lines = []
        for i, (label, score) in enumerate((self.references or {}).items()):
            dashes = REFERENCE_STYLES[i % len(REFERENCE_STYLES)]
            lines += [
                self.ax_.axhline(
                    score, color="0.35", linestyle=dashes, linewidth=1.2,
                    label=wrapped(label),
                )
            ]  # fmt: skip
        self._label_epsilons([epsilon for epsilon, *_ in self.curves.values()])
        self.ax_.set_ylabel(self.score_name)
        self._draw_legend([*self.lines_, *lines])
        return self

    def _draw_curve(self, label: str, line: str, marker: str) -> Any:
        epsilon, mean, spread = self.curves[label]
        style = CLAIMED if label in self.true_epsilons else {"linestyle": line}
        return self.ax_.errorbar(
            epsilon, mean, yerr=spread, marker=marker, capsize=3, elinewidth=0.8,
            label=wrapped(legend_text(label, self.notes, self.true_epsilons)), **style,
        )  # fmt: skip


def _one_epsilon(names: Iterable[str]) -> str:
    """The one name that ends in epsilon."""
    found = sorted(name for name in names if name.rsplit("__", 1)[-1] == "epsilon")
    if len(found) != 1:
        raise ValueError(f"Expected one parameter that ends in 'epsilon', got {found}.")
    return found[0]


def _described(params: Mapping[str, Any]) -> str:
    """Parameters in words; those that are estimators in one line each."""
    return ", ".join(
        f"{name.rsplit('__', 1)[-1]} = {' '.join(str(value).split())}"
        for name, value in sorted(params.items())
    )


def _without_noise(scores: Mapping[str, float]) -> dict[str, float]:
    """References by label; one alone where all are the same."""
    if len(scores) > 1 and len(set(scores.values())) == 1:
        return {"no noise": next(iter(scores.values()))}
    return {f"{label}, no noise": score for label, score in scores.items()}


def _score_name(scoring: Any) -> tuple[int, str]:
    """Sign that turns a scorer's value into its metric, and the metric's name."""
    if not isinstance(scoring, str):
        return 1, "score"
    if scoring.startswith("neg_"):
        name = scoring.removeprefix("neg_").replace("_", " ")
        return -1, {"root mean squared error": "RMSE"}.get(name, name)
    return 1, scoring.replace("_", " ")
