"""Pictures with one curve per label, including errors over epsilon."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import cycle, product
from operator import itemgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._extras import imported
from .._sklearn_compat import metric_of
from ..privacy import PrivacyGuarantee
from ..privacy._numbers import shown, shown_below
from ..privacy._planned import guarantee_of_candidate
from ..privacy._report import guarantee_of_fits
from . import _style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

    from ..model_selection import ExpectedError

# Metrics whose common names differ from their names in scikit-learn.
_METRICS = {
    "root_mean_squared_error": "RMSE",
    "r2": "R²",
    "f1": "F1 score",
    "roc_auc": "ROC AUC",
}
# Guarantees at the points of a curve; None where unknown.
OfCurve = Sequence[PrivacyGuarantee | None]
# Label, epsilon, score, its standard deviation, and the guarantee if it is known.
_Point = tuple[str, float, float, float, PrivacyGuarantee | None]


class CurvesDisplay:
    """Base of displays that draw one curve per label."""

    notes: Mapping[str, str] | None
    ax_: Any
    figure_: Figure | SubFigure
    lines_: list[Any]

    def _start(
        self, labels: Iterable[str], ax: Axes | None, claims: Collection[str] | None
    ) -> dict[str, dict[str, Any]]:
        """Begin a drawing: the style of each curve, with `claims` set apart."""
        self.ax_ = _style.new_axes() if ax is None else ax
        self.figure_, self.lines_ = self.ax_.figure, []
        styles = {}
        for label, (line, marker) in zip(labels, cycle(_style.STYLES), strict=False):
            style = {"label": _style.wrapped(self._text(label)), "marker": marker}
            is_claim = label in (claims or ())
            style |= _style.claimed_style(self.ax_) if is_claim else {"linestyle": line}
            styles[label] = style
        return styles

    def _text(self, label: str) -> str:
        """Legend text of a curve: its label and its note."""
        note = (self.notes or {}).get(label)
        return f"{label} ({note})" if note else label


class EpsilonsDisplay(CurvesDisplay):
    """Base of displays over epsilon; some curves may be drawn at claimed epsilons."""

    curves: Mapping[str, Any]
    true_epsilons: Mapping[str, ArrayLike] | None
    # Epsilons at which a curve is drawn.
    _epsilons: Callable[[str], NDArray[np.float64]]

    def _with_guarantees(self, guarantees: Mapping[str, OfCurve]) -> Self:
        """Note the true epsilons of curves at claims, and how the guarantees differ."""
        self.true_epsilons = {
            label: np.array([np.nan if g is None else g.epsilon for g in of_curve])
            for label, of_curve in guarantees.items()
            if not all(map(is_true, self._epsilons(label).tolist(), of_curve))
        }
        self.notes = difference_notes(guarantees)
        return self

    def __post_init__(self) -> None:
        for label, true in (self.true_epsilons or {}).items():
            if label not in self.curves or np.size(true) != len(self._epsilons(label)):
                raise ValueError(
                    f"true_epsilons[{label!r}] must hold one number for each point of "
                    f"the curve with that label. The curves are {list(self.curves)}."
                )

    def _text(self, label: str) -> str:
        """Legend text of a curve, with its true epsilons if it is drawn at a claim."""
        text = super()._text(label)
        if label not in (truths := self.true_epsilons or {}):
            return text
        epsilons, true = self._epsilons(label), np.asarray(truths[label], float)
        order = np.argsort(epsilons)[: np.count_nonzero(np.isfinite(epsilons))]
        return f"{text}: {at_claim(true.ravel()[order])}"

    def _draw_level(self, value: float, line: object, **options: Any) -> Line2D:
        """Draw a horizontal line, in grey."""
        style = {"color": _style.shade(self.ax_, 0.65), "linestyle": line, **options}
        return self.ax_.axhline(value, linewidth=1.2, **style)

    def _label_axes(self, y_label: str) -> None:
        """Make epsilon logarithmic; few finite epsilons get a tick each."""
        self.ax_.set(xscale="log", xlabel="epsilon (more privacy to the left)")
        self.ax_.set_ylabel(_style.wrapped(y_label, 60))
        ticks = np.unique(np.concatenate([*map(self._epsilons, self.curves), []]))
        ticks = ticks[np.isfinite(ticks)]
        if len(ticks) <= 10:  # More labels would overlap.
            self.ax_.set_xticks(ticks, labels=[shown(tick) for tick in ticks])
            self.ax_.set_xticks([], minor=True)


@_style.with_shared_text
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
        search: BaseEstimator,
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
        name = _epsilon_parameter(set().union(*results["params"]))
        if "mean_test_score" not in results:
            raise ValueError(
                "The search has more than one score. Pick one, and pass its values as "
                "`curves` to PrivacyUtilityDisplay(...)."
            )
        sign, score_name = _sign_and_name(search.scoring, search.estimator)
        points: list[_Point] = []
        like = getattr(search, "best_estimator_", None)
        scores = zip(results["mean_test_score"], results["std_test_score"], strict=True)
        for params, (mean, spread) in zip(results["params"], scores, strict=True):
            others, guarantee = dict(params), None
            epsilon, alone = others.pop(name), type(search.estimator).__name__
            if np.isfinite(epsilon):
                guarantee = guarantee_of_candidate(search.estimator, params, like)
                alone = "cross-validation"
            label = _params_text(others) or alone
            points.append((label, epsilon, sign * mean, spread, guarantee))
        display = cls._from_points(points, score_name)
        display.references = {**(references or {}), **(display.references or {})}
        return display.plot(ax=ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
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
        names = [_epsilon_parameter(model.get_params()) for model in models.values()]
        classify = any(map(is_classifier, models.values()))
        splits = list(check_cv(cv, y, classifier=classify).split(X, y))
        sign, score_name = _sign_and_name(scoring, *models.values())
        points: list[_Point] = []
        how = {"cv": splits, "scoring": scoring, "n_jobs": n_jobs}
        fits_of = zip(models.items(), names, strict=True)
        for ((label, model), name), epsilon in product(fits_of, sorted(epsilons)):
            candidate = clone(model).set_params(**{name: epsilon})
            result = cross_validate(candidate, X, y, return_estimator=True, **how)
            scores, fits = sign * result["test_score"], result["estimator"]
            guarantee = guarantee_of_fits(fits) if np.isfinite(epsilon) else None
            points.append((label, epsilon, scores.mean(), scores.std(), guarantee))
        return cls._from_points(points, score_name).plot(ax=ax)

    @classmethod
    def _from_points(cls, points: Iterable[_Point], score_name: str) -> Self:
        """A display of points; those at infinite epsilon become references."""
        by_label, without_noise = defaultdict(list), {}
        for label, epsilon, score, *others in points:
            if np.isinf(epsilon):
                without_noise[label] = score
            else:
                by_label[label].append((epsilon, score, *others))
        references = {f"{label}, no noise": s for label, s in without_noise.items()}
        if len(references) > 1 and len(set(references.values())) == 1:
            references = {"no noise": next(iter(references.values()))}
        curves, guarantees = {}, {}
        for label, of_curve in by_label.items():
            by_epsilon = sorted(of_curve, key=itemgetter(0))
            *columns, guarantees[label] = zip(*by_epsilon, strict=True)
            epsilons, mean, spread = map(np.array, columns)
            curves[label] = epsilons, mean, spread
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
        styles = self._start(self.curves, ax, self.true_epsilons)
        for label, (x, y, spread) in self.curves.items():
            style = {"capsize": 3, "elinewidth": 0.8, **styles[label]}
            self.lines_.append(self.ax_.errorbar(x, y, spread, **style))
        handles, dashes = list(self.lines_), cycle(_style.REFERENCE_STYLES)
        for label, score in (self.references or {}).items():
            text = _style.wrapped(label)
            handles.append(self._draw_level(score, next(dashes), label=text))
        self._label_axes(self.score_name)
        _style.place_legend(self.ax_, handles, may_grow=ax is None)
        return self

    def _epsilons(self, label: str) -> NDArray[np.float64]:
        return np.asarray(self.curves[label][0], dtype=float).ravel()


@_style.with_shared_text
@dataclass(eq=False, repr=False)
class ExpectedErrorDisplay(EpsilonsDisplay):
    """Expected errors over epsilon, one curve per estimator, and epsilons for a target.

    A curve whose epsilons are claimed but not true is drawn thin, dotted and grey with
    hollow markers, as by `PrivacyUtilityDisplay`.

    Parameters
    ----------
    curves : dict of str to ExpectedError
        Curves by label, all of one kind of error. The expected error at infinite
        epsilon is drawn as a horizontal line.
    target : float, default=None
        Target for the error, drawn as a horizontal line.
    needed : dict of str to float, default=None
        By label, the epsilon at which a curve meets the target. Leave out curves that
        do not meet it.
    true_epsilons : dict of str to array-like, default=None
        As for `PrivacyUtilityDisplay`: one for every epsilon of a curve.
    $notes

    Attributes
    ----------
    $axes
    lines_ : list of matplotlib Line2D
        One per curve.

    Raises
    ------
    ValueError
        If there is no curve, if the curves are of different kinds of error, or if
        `true_epsilons` does not match them.

    See Also
    --------
    PrivacyUtilityDisplay : Measured scores over epsilon.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism
    >>> from sktensordp.plotting import ExpectedErrorDisplay
    >>> display = ExpectedErrorDisplay.from_estimator(
    ...     {"Laplace": LaplaceMechanism(bounds=(0, 1)),
    ...      "Gaussian": GaussianMechanism(bounds=(0, 1))},
    ...     np.zeros((1, 2, 2)), epsilons=[1, 4, 16], target=8.0)
    >>> {name: round(epsilon, 1) for name, epsilon in display.needed.items()}
    {'Laplace': 4.0, 'Gaussian': 7.3}
    """

    curves: Mapping[str, ExpectedError]
    _: KW_ONLY
    target: float | None = None
    needed: Mapping[str, float] | None = None
    true_epsilons: Mapping[str, ArrayLike] | None = None
    notes: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if len({curve.what for curve in self.curves.values()}) != 1:
            raise ValueError(
                "Curves must show one kind of error; draw each kind on separate axes."
            )
        super().__post_init__()

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        epsilons: ArrayLike,
        target: float | None = None,
        n_users: int | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the expected errors of estimators, before they are fitted.

        The guarantees of the fits are computed too. A curve whose epsilons are claimed
        but not true, as with a published calibration, is drawn thin, dotted and grey.
        If curves differ in their unit, relation or delta, the legend says so.

        Parameters
        ----------
        estimator : estimator or dict of str to estimator
            As for ``expected_error``; or several by label, all with one kind of error.
        X, y : array-like
            As for ``expected_error``, which says what it reads of them.
        epsilons : array-like of shape (n_epsilons,)
            Positive; infinity draws the error without noise as a line.
        target : float, default=None
            Target for the error.
        n_users : int, default=None
            As for ``expected_error``.
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones by default.

        Returns
        -------
        display : ExpectedErrorDisplay

        Raises
        ------
        TypeError, ValueError
            As ``expected_error``.

        Examples
        --------
        >>> import numpy as np
        >>> from sktensordp.mechanisms import GaussianMechanism
        >>> from sktensordp.plotting import ExpectedErrorDisplay
        >>> display = ExpectedErrorDisplay.from_estimator(
        ...     {"1e-5": GaussianMechanism(bounds=(0, 1), delta=1e-5),
        ...      "1e-9": GaussianMechanism(bounds=(0, 1), delta=1e-9)},
        ...     np.zeros((1, 2, 2)), epsilons=[1, 4])
        >>> {label: curve.errors.round(1) for label, curve in display.curves.items()}
        {'1e-5': array([222.7,  18.7]), '1e-9': array([483.2,  35.4])}
        >>> [text.get_text() for text in display.ax_.get_legend().get_texts()]
        ['1e-5 (delta = 1e-05)', '1e-9 (delta = 1e-09)']
        """
        from ..model_selection import epsilon_needed, expected_error
        from ..model_selection._expected_error import step_that_releases

        curves, needed, guarantees = {}, {}, {}
        for label, model in estimators_by_label(estimator).items():
            model, rows = step_that_releases(model, X, n_users)
            curve = expected_error(model, rows, y, epsilons=epsilons, n_users=n_users)
            curves[label] = curve
            like = SimpleNamespace(sample_shape_=np.shape(rows)[1:])
            guarantees[label] = [
                guarantee_of_candidate(model, {"epsilon": epsilon}, like)
                for epsilon in curve.epsilons.tolist()
            ]
            if target is None:
                continue
            # Only if the curve meets the target within the range of `epsilons`.
            reached = curve.errors[np.isfinite(curve.epsilons)] <= target
            if reached.all() or not reached.any():
                continue
            needed[label] = epsilon_needed(
                model, rows, y, error=target, n_users=n_users
            )
        display = cls(curves, target=target, needed=needed)
        return display._with_guarantees(guarantees).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the curves and the target.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones by default.

        Returns
        -------
        self : ExpectedErrorDisplay

        Examples
        --------
        >>> import numpy as np
        >>> from matplotlib.figure import Figure
        >>> from sktensordp.mechanisms import LaplaceMechanism
        >>> from sktensordp.model_selection import expected_error
        >>> from sktensordp.plotting import ExpectedErrorDisplay
        >>> mechanism = LaplaceMechanism(bounds=(0, 1))
        >>> curve = expected_error(mechanism, np.zeros((1, 2, 2)), epsilons=[1, 4])
        >>> display = ExpectedErrorDisplay({"Laplace": curve})
        >>> display.plot(ax=Figure().subplots()).lines_[0].get_ydata().round(1)
        array([128.,   8.])
        """
        ticker = imported("matplotlib.ticker", "plot")
        for label, style in self._start(self.curves, ax, self.true_epsilons).items():
            self._draw_curve(label, style)
        self.ax_.set_yscale("log")
        title, errors = None, self.ax_.yaxis
        if self.target is not None:
            title = f"epsilon for an error of {self.target:g}"
            self._draw_level(self.target, _style.REFERENCE_STYLES[1])
            black = _style.shade(self.ax_, 1.0)
            ring = {"markersize": 9, "fillstyle": "none", "color": black}
            thin = {"linewidth": 0.8, "color": _style.shade(self.ax_, 0.65)}
            for epsilon in (self.needed or {}).values():
                self.ax_.plot([epsilon, epsilon], [0, self.target], **thin)
                self.ax_.plot(epsilon, self.target, "o", **ring)
        self._label_axes(next(iter(self.curves.values())).what)
        low, high = self.ax_.get_ylim()
        if high < 10 * low:
            # Errors that span less than a decade get plain numbers.
            errors.set_major_locator(ticker.AutoLocator())
            errors.set_major_formatter(ticker.ScalarFormatter())
            self.ax_.set_yticks([], minor=True)
        _style.place_legend(self.ax_, self.lines_, may_grow=ax is None, title=title)
        return self

    def _epsilons(self, label: str) -> NDArray[np.float64]:
        return self.curves[label].epsilons

    def _draw_curve(self, label: str, style: dict[str, Any]) -> None:
        curve = self.curves[label]
        is_finite = np.isfinite(curve.epsilons)
        x, y = curve.epsilons[is_finite], curve.errors[is_finite]
        if self.target is not None and label in (needed := self.needed or {}):
            # The line passes through the target, which gets a circle and no marker.
            x, y = np.append(x, needed[label]), np.append(y, self.target)
        order = np.argsort(x)
        style["markevery"] = np.flatnonzero(order < is_finite.sum()).tolist()
        (drawn,) = self.ax_.plot(x[order], y[order], markersize=4, **style)
        self.lines_.append(drawn)
        # The error of a mechanism without noise is zero, and that of some encoders a
        # rounded zero; a logarithmic axis can show neither.
        for error in curve.errors[~is_finite]:
            if error > 1e-12 * curve.errors.max():
                like = {"color": drawn.get_color(), "linestyle": drawn.get_linestyle()}
                self.ax_.axhline(error, linewidth=0.7, **like)

    def _text(self, label: str) -> str:
        """Legend text of a curve, with the epsilon for the target."""
        text = super()._text(label)
        if self.target is None:
            return text
        if label in (needed := self.needed or {}):
            return f"{text}: {shown(needed[label])}"
        curve = self.curves[label]
        is_finite = np.isfinite(curve.epsilons)
        if np.all(curve.errors[is_finite] <= self.target):
            return f"{text}: below {shown(curve.epsilons.min())}"
        return f"{text}: above {shown_below(curve.epsilons[is_finite].max())}"


def _epsilon_parameter(names: Iterable[str]) -> str:
    """The one name that ends in epsilon."""
    found = sorted(name for name in names if name.rsplit("__", 1)[-1] == "epsilon")
    if len(found) != 1:
        raise ValueError(f"Exactly one parameter must end in 'epsilon', got {found}.")
    return found[0]


def _params_text(params: Mapping[str, Any]) -> str:
    """Parameters as text; the repr of an estimator is joined into one line."""
    return ", ".join(
        f"{name.rsplit('__', 1)[-1]} = {' '.join(str(value).split())}"
        for name, value in sorted(params.items())
    )


def _sign_and_name(scoring: object, *estimators: object) -> tuple[int, str]:
    """Sign that turns a score into the metric to draw, and the label of its axis.

    The score of a scorer that is an object keeps its sign, so its label names it.
    """
    from sklearn.base import is_classifier, is_regressor

    sign, prefix, name = 1, "", "score"
    if isinstance(scoring, str):
        name = scoring.removeprefix("neg_")
        sign = 1 if name == scoring else -1
    elif scoring is not None:
        # make_fold_in_scorer wraps a scorer of scikit-learn, which wraps a metric.
        metric, direction = metric_of(getattr(scoring, "scorer", scoring))
        name = getattr(metric, "__name__", name).removesuffix("_score")
        name = "score" if name == "<lambda>" else name
        prefix = "negative " if direction < 0 else ""
    elif all(map(is_classifier, estimators)):
        name = "accuracy"
    elif all(map(is_regressor, estimators)):
        name = "r2"
    name = _METRICS.get(name, name.replace("_", " "))
    return sign, f"{prefix}{name} on held-out data"


def estimators_by_label(estimator: BaseEstimator) -> Mapping[str, Any]:
    """Estimators by label; a single one gets the name of its class."""
    is_single = not isinstance(estimator, Mapping)
    return {type(estimator).__name__: estimator} if is_single else estimator


def is_true(epsilon: float, guarantee: PrivacyGuarantee | None) -> bool:
    """Whether the guarantee has the epsilon at which it is drawn."""
    if guarantee is None:
        return False
    if guarantee.claimed is not None:
        return math.isclose(guarantee.epsilon, epsilon, rel_tol=1e-3)
    # A fit may spend less than the requested epsilon. If a unit is protected, the plan
    # covers any number of sums, so its epsilon is slightly larger than that of any fit.
    slack = 0.02 + 1e-3 * epsilon if isinstance(guarantee.unit, int) else 0.0
    return guarantee.epsilon <= epsilon * (1 + 1e-6) + slack


def difference_notes(
    guarantees: Mapping[str, OfCurve], *, at_delta: bool = True
) -> dict[str, str]:
    """How the guarantees of curves differ, besides epsilon: a note for each label.

    Parameters
    ----------
    guarantees : dict of str to list of PrivacyGuarantee or None
    at_delta : bool, default=True
        Whether to mention the delta at which epsilon is stated.

    Returns
    -------
    notes : dict of str to str
        Labels without a difference are left out.
    """
    descriptions = {}
    for label, of_curve in guarantees.items():
        known = [guarantee for guarantee in of_curve if guarantee is not None]
        # A guarantee that protects nothing is listed with the delta of its claim.
        deltas = [
            g.claimed[1] if g.claimed and not g.protects else g.delta for g in known
        ]
        if known:
            unit, relation = known[0].unit, known[0].relation
            what = f"index of mode {unit}" if isinstance(unit, int) else unit
            words = f"one {what}", relation, f"delta = {shown(max(deltas))}"
            descriptions[label] = words[: 2 + at_delta]
    columns = list(zip(*descriptions.values(), strict=True))
    differ = [k for k, column in enumerate(columns) if len(set(column)) > 1]
    if 0 in differ:  # Different units make the relation superfluous.
        differ = [k for k in differ if k != 1]
    notes = {
        # The label may name a searched parameter already.
        label: ", ".join(words[k] for k in differ if words[k] not in label)
        for label, words in descriptions.items()
    }
    return {label: note for label, note in notes.items() if note}


def at_claim(epsilons: NDArray[np.float64]) -> str:
    """Legend text for a curve at claimed epsilons, given the true epsilons."""
    if np.isnan(epsilons).any():
        return "requested epsilon, the true one is not known"
    if np.isinf(epsilons).all():
        return "claimed, no finite epsilon holds"
    if len(epsilons) <= 6:
        return f"claimed, true epsilon {', '.join(map(_number, epsilons))}"
    lowest, highest = _number(epsilons.min()), _number(epsilons.max())
    return f"claimed, true epsilon {lowest} to {highest}"


def _number(epsilon: float) -> str:
    """An epsilon as text, rounded up."""
    return f"{math.ceil(epsilon):,}" if 1e3 < epsilon < 1e7 else shown(epsilon)
