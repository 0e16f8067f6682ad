"""The trade-off between privacy and utility, as a picture."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["REFERENCE_STYLES", "STYLES", "PrivacyUtilityDisplay"]

STYLES = [("-", "o"), ("--", "s"), ("-.", "^"), (":", "D"), ("-", "v"), ("--", "x")]
REFERENCE_STYLES = [(0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (8, 3))]


class PrivacyUtilityDisplay:
    """Score over epsilon, one curve a method, beside references without privacy.

    Parameters
    ----------
    curves : dict of str to tuple of (array-like, array-like, array-like or None)
        For every label: epsilons, mean scores, and standard deviations of the
        scores (None for none).
    references : dict of str to float, default=None
        Scores drawn as horizontal lines, such as that of the non-private fit.
    score_name : str, default="score"
        Label of the vertical axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of the axes.
    lines_ : list of matplotlib ErrorbarContainer
        One a curve.

    Examples
    --------
    >>> from sktensordp.plotting import PrivacyUtilityDisplay
    >>> display = PrivacyUtilityDisplay(
    ...     {"table": ([1, 2, 4], [0.97, 0.93, 0.89], None)},
    ...     references={"non-private": 0.87}, score_name="RMSE")
    >>> display.plot().ax_.get_ylabel()
    'RMSE'
    """

    def __init__(
        self,
        curves: Mapping[str, tuple[ArrayLike, ArrayLike, ArrayLike | None]],
        *,
        references: Mapping[str, float] | None = None,
        score_name: str = "score",
    ) -> None:
        self.curves = curves
        self.references = references
        self.score_name = score_name

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
        with infinite epsilon are references.

        Parameters
        ----------
        search : GridSearchCV or RandomizedSearchCV
            Fitted, with one searched parameter whose name ends in "epsilon".
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
            If not exactly one searched parameter ends in "epsilon".
        """
        results = search.cv_results_
        searched = {name for params in results["params"] for name in params}
        names = [n for n in searched if n.rsplit("__", 1)[-1] == "epsilon"]
        if len(names) != 1:
            raise ValueError(
                f"Expected one searched parameter that ends in 'epsilon', found "
                f"{sorted(names)}."
            )
        sign, score_name = _score_name(search.scoring)
        points, found = defaultdict(list), dict(references or {})
        for i, params in enumerate(results["params"]):
            others = {k: v for k, v in params.items() if k != names[0]}
            label = ", ".join(
                f"{k.rsplit('__', 1)[-1]} = {v}" for k, v in sorted(others.items())
            )
            score = sign * results["mean_test_score"][i]
            if np.isinf(params[names[0]]):
                found[f"{label or search.estimator.__class__.__name__}, no noise"] = (
                    score
                )
            else:
                spread = results["std_test_score"][i]
                points[label or "cross-validation"].append(
                    (params[names[0]], score, spread)
                )
        curves = {
            label: tuple(np.array(sorted(rows)).T) for label, rows in points.items()
        }
        return cls(curves, references=found, score_name=score_name).plot(ax=ax)

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
        """Cross-validate an estimator at several epsilons and draw the scores.

        Every fit is a release of its own; ``privacy_of`` a search says what they
        cost together. Meant for public or synthetic data.

        Parameters
        ----------
        estimator : estimator or Pipeline
            With one parameter whose name ends in "epsilon".
        X : array-like
            The data.
        y : array-like
            The target.
        epsilons : array-like of float
            Where to fit.
        cv, scoring, n_jobs
            As in ``GridSearchCV``.
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.

        Returns
        -------
        display : PrivacyUtilityDisplay
        """
        from sklearn.model_selection import GridSearchCV

        names = [
            name
            for name in estimator.get_params()
            if name.rsplit("__", 1)[-1] == "epsilon"
        ]
        search = GridSearchCV(
            estimator,
            {name: list(epsilons) for name in names},
            cv=cv,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=False,
        ).fit(X, y)
        return cls.from_search(search, ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; new axes by default.

        Returns
        -------
        self : PrivacyUtilityDisplay
        """
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots()
        self.ax_, self.figure_, self.lines_ = ax, ax.figure, []
        for i, (label, (epsilon, mean, spread)) in enumerate(self.curves.items()):
            line, marker = STYLES[i % len(STYLES)]
            style = {"linestyle": line, "marker": marker, "capsize": 3}
            drawn = ax.errorbar(epsilon, mean, yerr=spread, label=label, **style)
            self.lines_.append(drawn)
        for i, (label, score) in enumerate((self.references or {}).items()):
            dashes = REFERENCE_STYLES[i % len(REFERENCE_STYLES)]
            ax.axhline(
                score, color="0.35", linestyle=dashes, linewidth=1.2, label=label
            )
        ax.set_xscale("log")
        epsilons = [np.asarray(epsilon, float) for epsilon, *_ in self.curves.values()]
        ticks = np.unique(np.concatenate([*epsilons, []]))
        if len(ticks) <= 10:
            ax.set_xticks(ticks, labels=[f"{t:g}" for t in ticks])
            ax.minorticks_off()
        ax.set_xlabel("epsilon (more privacy to the left)")
        ax.set_ylabel(self.score_name)
        ax.legend()
        return self


def _score_name(scoring):
    """Sign that turns a scorer's value into its metric, and the metric's name."""
    if not isinstance(scoring, str):
        return 1, "score"
    if scoring.startswith("neg_"):
        name = scoring.removeprefix("neg_").replace("_", " ")
        return -1, {"root mean squared error": "RMSE"}.get(name, name)
    return 1, scoring.replace("_", " ")
