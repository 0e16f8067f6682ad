"""Search for parameters by private scores: the best of a secret number of tries."""

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid, ParameterSampler, RandomizedSearchCV
from sklearn.utils import check_array, check_random_state, indexable
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.parallel import Parallel, delayed

from .._sklearn_compat import (
    Interval,
    StrOptions,
    fit_context,
    of_rows,
    routing_enabled,
    safe_indexing,
)
from .._validation import check_unmasked, checked
from ..base import EstimatorMixin, PrivateEstimatorMixin, SentMixin
from ..completion import ImplicitCompletion
from ..completion._entries import check_entries
from ..noise import laplace_lattice
from ..noise._discrete import categorical
from ..noise._lattice import LaplaceLattice
from ..privacy import PrivacyGuarantee, compose, privacy_of
from ..privacy.accounting._repetitions import (
    RepetitionDistribution,
    negative_binomial,
    poisson,
)
from ..privacy.budgets._preauthorized import run_preauthorized
from ._groups import Rows, Split, Users, check_groups, groups_of, seed_of, uses_of
from ._plan import (
    check_metadata,
    is_seeded,
    left_out_of,
    set_shape,
    steps_of,
    try_guarantee,
    whole_guarantee,
)
from ._scores import STEPS, RowScore, row_score

__all__ = ["PrivateSearchCV"]

_REFUSED = ("epsilon", "delta")
_MOST_LISTED = 1000
_SOURCE = "Papernot and Steinke (2022), Theorem 2; Liu and Talwar (2019)"


class PrivateSearchCV(EstimatorMixin, PrivateEstimatorMixin, RandomizedSearchCV):
    """Search over parameters that is private as a whole: tries, scores and choice.

    Candidates are drawn from the distributions independently; each is fitted and
    gets a score with noise; the best is released with its score. How many are tried
    is random and stays secret, so that all tries together reveal little more than two
    or three of them, however many there were.

    Parameters
    ----------
    estimator : estimator or Pipeline
        Private itself: a completion, or a `Pipeline` with a noise mechanism. No step
        may learn from X before noise is added to it; see Notes. Its own
        `random_state` is None in a real release: with an integer, all tries have the
        same noise.
    param_distributions : dict or list of dicts
        As in ``RandomizedSearchCV``. No epsilon and no delta: see Notes.
    n_iter : float, default=10
        Expected number of candidates.
    law : {"negative_binomial", "poisson"}, default="negative_binomial"
        Of their number. With pure epsilons, the tries together cost at most 2 + `eta`
        times what one costs with the first, and less where that is much: no more
        than a constant above it, which grows slowly with `n_iter`. The second costs
        what its mean and the total variation between neighbours make it, which is
        less where one try reveals very little; it may try nothing, and the estimator
        is then taken as it is.
    eta : float, default=0.0
        In [0, 1], of the truncated negative binomial law: 0 is the logarithmic law,
        which often tries one candidate alone; 1 the geometric one, which does so
        less often and costs more.
    score_epsilon : float, default=1.0
        Epsilon of the score of one candidate.
    scoring : str or callable, default=None
        A mean over rows: "accuracy", "neg_mean_squared_error",
        "neg_root_mean_squared_error", "neg_mean_absolute_error", or a function of a
        fitted estimator, X and y that returns one score for every row, each made of
        that row alone. By default accuracy, or the negative mean squared error.
    score_bounds : (float, float), default=None
        What scores of rows are clipped to; by default [0, 1] for accuracy, and what
        `value_bounds` or `levels` of a completion imply for errors, also at the end of
        a `Pipeline`.
    cv : int, splitter or None, default=None
        None holds out one random part: a record is then used in the fit or in the
        score, and a try costs the larger of the two epsilons alone. With k folds, it
        costs k - 1 fits and a score. A splitter is `KFold`, `RepeatedKFold`,
        `ShuffleSplit`, `PredefinedSplit`, `GroupKFold` or `GroupShuffleSplit`. To
        protect everything of a user, leave None: whole users are held out, most of
        their rows are folded in, and their remaining rows are scored, as by
        `make_fold_in_scorer`.
    test_size : float, default=0.2
        Share of the rows, or of the users, that is held out where `cv` is None.
    refit : bool or "keep", default=True
        True fits the best candidate once more, to all data, which costs one more fit.
        "keep" keeps the best candidate as it was fitted to the (first) training part,
        at no further cost; none where nothing was tried. Users who were held out are
        folded in. False keeps none.
    n_jobs : int, default=None
        As in ``RandomizedSearchCV``. One candidate's fits run side by side.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers: it repeats the choice and the noise of the scores
        in every clone, although never in two fits of one object.

    Attributes
    ----------
    best_params_ : dict
    best_score_ : float
        The noisy score; NaN where nothing was tried. It is optimistic, as the best
        of several.
    best_estimator_ : estimator
        Unless `refit` says that there is none.
    cv_results_ : dict
        One row: the best candidate's parameters and score. What else was tried may
        not be released, nor how much.
    n_splits_ : int
    privacy_guarantee_ : PrivacyGuarantee
        Of everything that the fitted search reveals about its unit. Noise mechanisms
        protect X, not y: this does not cover what later steps learn from y, and
        ``privacy_of`` of the search lists it.

    Raises
    ------
    ValueError
        In `fit`, before anything is drawn.

    Notes
    -----
    A search over epsilon would be charged the largest one for every try, so that it
    would pay for the best of all and might take another. Choose it beforehand, from
    `expected_error`.

    A step that learns from raw X, such as a `StandardScaler` before the mechanism, is
    refused, and so is an encoder like `TaskAwareEncoder`, whose fit has no noise. Of
    what may come before the private step, these learn nothing: `Normalizer`,
    `Binarizer`, a `FunctionTransformer` that computes each row from that row alone
    (which is not checked), columns of such in a `ColumnTransformer`, and a
    `FrozenEstimator` that was fitted to public data. A `CoordinateEncoder` may come
    before a completion of unit "entry", whose coordinates are public; where they are
    not, encode X before the search, with declared `categories`.

    How long the search takes, and how much memory, tells how many candidates were
    tried: keep that secret, too. Warnings of tries are not shown, callbacks of the
    estimator are called in the last fit alone, and those of the search at its beginning
    and end, since they would. An exception in a try ends the search, and is no release
    that a guarantee covers.

    References
    ----------
    .. [1] Papernot and Steinke, "Hyperparameter tuning with Renyi differential
       privacy", ICLR 2022, Theorem 2 and Corollary 3.
    .. [2] Liu and Talwar, "Private selection from private candidates", STOC 2019.
    .. [3] Koskela, Redberg and Wang, "Privacy profiles for private selection",
       ICML 2024.

    Examples
    --------
    >>> from sktensordp.completion import CPCompletion
    >>> from sktensordp.datasets import make_ratings
    >>> from sktensordp.model_selection import PrivateSearchCV
    >>> ratings = make_ratings(40, 40, 800, random_state=0, levels=[1, 2, 3, 4, 5])
    >>> model = CPCompletion(1, epsilon=1.0, levels=[1, 2, 3, 4, 5], max_iter=3)
    >>> search = PrivateSearchCV(model, {"rank": [0, 1, 2]}, n_iter=3)
    >>> round(search.planned_guarantee(ratings.data).epsilon, 3)
    3.0
    >>> search = search.fit(ratings.data, ratings.target)
    >>> sorted(search.best_params_)
    ['rank']
    >>> round(search.privacy_guarantee_.epsilon, 3)  # 2 tries, and the last fit
    3.0
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": "no_validation",
        "param_distributions": [dict, list],
        "n_iter": [Interval(Real, 0, None, closed="neither")],
        "law": [StrOptions({"negative_binomial", "poisson"})],
        "eta": [Interval(Real, 0, 1, closed="both")],
        "score_epsilon": [Interval(Real, 0, None, closed="neither")],
        "scoring": [str, callable, None],
        "score_bounds": ["array-like", None],
        "cv": "no_validation",
        "test_size": [Interval(Real, 0, 1, closed="neither")],
        "refit": ["boolean", StrOptions({"keep"})],
        "n_jobs": [Integral, None],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
    }

    best_params_: dict[str, Any]
    best_score_: float
    best_estimator_: Any
    cv_results_: dict[str, Any]
    n_splits_: int

    def __init__(
        self,
        estimator: Any,
        param_distributions: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        n_iter: float = 10,
        law: str = "negative_binomial",
        eta: float = 0.0,
        score_epsilon: float = 1.0,
        scoring: Any = None,
        score_bounds: tuple[float, float] | None = None,
        cv: Any = None,
        test_size: float = 0.2,
        refit: bool | str = True,
        n_jobs: int | None = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            estimator, param_distributions, n_iter=n_iter, scoring=scoring,
            n_jobs=n_jobs, refit=refit, cv=cv, random_state=random_state,
        )  # fmt: skip
        self.law = law
        self.eta = eta
        self.score_epsilon = score_epsilon
        self.score_bounds = score_bounds
        self.test_size = test_size

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: ArrayLike, y: ArrayLike, **params: Any) -> Self:
        """Try candidates, and release the best.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            As the estimator takes it; coordinates for a completion.
        y : array-like of shape (n_samples,)
            Target.
        **params : dict
            Metadata, as in ``GridSearchCV.fit``: `groups` for a `cv` that splits by
            groups, and what steps after a noise mechanism take in their fit, such as
            ``ridge__sample_weight``, or `sample_weight` where metadata routing is
            enabled. It is treated as public; ``privacy_of(search)`` lists it.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            Before anything is drawn: if epsilon or delta is searched, if the splits or
            the score may depend on values, if what a fit reveals is not known, if a
            step learns from raw X, if metadata would reach a step before the noise,
            if `groups` and `cv` do not go together, or if a candidate would reveal
            something else than the estimator as it is. (Where there are distributions,
            or more than 1000 combinations of lists, some candidates are checked only
            when they are drawn: before they are fitted, but after budgets have
            recorded the search.)
        """
        _refuse_choices(self.estimator)
        if y is None:
            raise ValueError("A search scores predictions of y; it is None.")
        for name, data in (("X", X), ("y", y)):
            if not np.ndim(data):  # scikit-learn's message would show it
                raise ValueError(f"{name} must be array-like, not a scalar.")
            check_unmasked(data, name)
        # Rows are picked from arrays, lists and frames, not from plain memory.
        plain = (np.asarray(d) if isinstance(d, memoryview) else d for d in (X, y))
        X, y = indexable(*plain)
        where = self._checked_where(X, y)
        score = row_score(self.scoring, self.score_bounds, self.estimator)
        shape = np.shape(X)[1:]
        fit, groups, law, lattice, guarantee = self._plan(shape)
        metadata, group_of_row = self._routed(params)
        check_groups(groups, self.cv, X, y, group_of_row)
        for step in steps_of(self.estimator):
            if isinstance(step, SentMixin):
                step._check_sent()
        # Another thread would leave its choice under the guarantee of this one.
        # Callbacks do not learn how many were tried.
        with self._progress(max_tasks=None), self._count_releases().lock:
            self._metadata = getattr(self, "_metadata", frozenset()) | params.keys()
            with self._release(guarantee, anew=True) as streams:
                bits = streams.stream(0)
                splits = groups.splits(
                    X, y, self.cv, float(self.test_size), bits, group_of_row
                )
                n_tries = int(
                    categorical(bits, np.array([law.weights]), np.zeros(1, int))[0]
                )
                best: tuple[dict[str, Any], float, Any] = ({}, -np.inf, None)
                for number in range(1, n_tries + 1):
                    params = _drawn(self.param_distributions, seed_of(bits))
                    candidate = self._candidate(params)
                    self._check_candidate(candidate, fit, groups, shape)
                    set_shape(candidate, where)
                    fits = self._tried(
                        candidate, (X, y, metadata), splits, (score, groups), fit
                    )
                    total = np.array([float(sum(steps for steps, _ in fits))])
                    noisy = float(lattice.randomize(total, streams.stream(number))[0])
                    if noisy > best[1]:
                        best = params, noisy, fits[0][1]
            self.best_params_, noisy, kept = best
            mean = noisy / groups.n_scored(splits)
            reported = score.reported(mean) if kept is not None else np.nan
            if self.refit == "keep" and kept is not None:
                if isinstance(groups, Users):
                    out = np.union1d(splits[0].test, splits[0].history)
                    _fold_in(kept, X, y, out)
                self.best_estimator_ = kept
            elif self._fits_again:
                again = self._candidate(self.best_params_)
                self.best_estimator_ = run_preauthorized(
                    fit, partial(again.fit, **metadata), X, y
                )
            self._publish(reported, len(splits))
        return self

    @fit_context(prefer_skip_nested_validation=False)
    def planned_guarantee(self, X: ArrayLike) -> PrivacyGuarantee:
        """What a fit would reveal, before anything is drawn.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Of which the shape of a row alone is read.

        Returns
        -------
        guarantee : PrivacyGuarantee
            That which `fit` will have.

        Raises
        ------
        ValueError
            As `fit`.
        """
        return self._plan(np.shape(X)[1:])[-1]

    def _plan(
        self, shape: tuple[int, ...]
    ) -> tuple[
        PrivacyGuarantee,
        Rows | Users,
        RepetitionDistribution,
        LaplaceLattice,
        PrivacyGuarantee,
    ]:
        """Guarantee of a fit; whose scores count; law of tries; noise; guarantee."""
        from ..privacy.accounting._events import PureDpEvent

        _refuse_choices(self.estimator)
        self._check_searched()
        fit = whole_guarantee(self.estimator, shape)
        groups = groups_of(self.estimator, fit.unit, self.cv, float(self.test_size))
        for candidate in self._listed():
            self._check_candidate(candidate, fit, groups, shape)
        law, uses = self._distribution(), uses_of(groups, self.cv)
        lattice = laplace_lattice(
            -np.inf, np.inf, float(self.score_epsilon), step=1.0,
            l1=float(STEPS * max(tested for _, tested in uses)),
        )  # fmt: skip
        scored = PrivacyGuarantee.of(
            PureDpEvent(lattice.epsilon), unit=fit.unit, relation=fit.relation,
            statement="A score with discrete Laplace noise.",
            source="Dwork et al. (2006)",
        )  # fmt: skip
        guarantee = self._guarantee(fit, try_guarantee(fit, scored, uses), law)
        return fit, groups, law, lattice, guarantee

    def get_metadata_routing(self) -> MetadataRouter:
        """Where metadata goes, where scikit-learn's metadata routing is enabled.

        Returns
        -------
        routing : MetadataRouter
            To the `fit` of the estimator, to the splits of `cv`, and from `score` to
            the scorer. The scores of rows, by which candidates are compared, take none.
        """
        scorer, _ = self._get_scorers()
        return (
            MetadataRouter(owner=self)
            .add(
                estimator=self.estimator,
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
            .add(
                scorer=scorer,
                method_mapping=MethodMapping().add(caller="score", callee="score"),
            )
            .add(
                splitter=self.cv,
                method_mapping=MethodMapping().add(caller="fit", callee="split"),
            )
        )

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """Names of features seen in `fit`, where there were any."""
        return self.best_estimator_.feature_names_in_

    def __sklearn_is_fitted__(self) -> bool:
        # Set last of all.
        return hasattr(self, "cv_results_")

    @property
    def _fits_again(self) -> bool:
        # Not by identity: True of NumPy is True, too.
        return self.refit != "keep" and bool(self.refit)

    def _candidate(self, params: Mapping[str, Any]) -> Any:
        return clone(self.estimator).set_params(**clone(params, safe=False))

    def _routed(self, params: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """Metadata for the fit of the estimator, and the group of every row."""
        if not params:
            return {}, None
        if routing_enabled():
            routed = process_routing(self, "fit", **params)
            metadata, groups = routed.estimator.fit, routed.splitter.split.get("groups")
        else:
            metadata = {k: v for k, v in params.items() if k != "groups"}
            groups = params.get("groups")
        if metadata:
            check_metadata(self.estimator, metadata)
        for name, data in (("groups", groups), *metadata.items()):
            check_unmasked(data, name)
        return metadata, groups

    def _tried(
        self,
        candidate: Any,
        data: tuple[Any, Any, dict[str, Any]],
        splits: list[Split],
        score: tuple[RowScore, Rows | Users],
        planned: PrivacyGuarantee,
    ) -> list[tuple[int, Any]]:
        """Steps of the scores together, and the fitted candidate, for every split."""
        # One alone stays in this process, and keeps what never leaves it.
        return Parallel(n_jobs=self.n_jobs if len(splits) > 1 else 1)(
            delayed(_fitted)(clone(candidate), data, split, score, planned)
            for split in splits
        )

    def _publish(self, score: float, n_splits: int) -> None:
        """What scikit-learn's searches have, of the best candidate alone."""
        self.best_score_, self.best_index_, self.n_splits_ = score, 0, n_splits
        self.multimetric_ = False
        named = None if callable(self.scoring) else self.scoring
        self.scorer_ = check_scoring(self.estimator, named, allow_none=True)
        self.cv_results_ = {
            "params": [self.best_params_],
            **{f"param_{k}": _alone(v) for k, v in self.best_params_.items()},
            "mean_test_score": np.array([score]),
            "rank_test_score": np.array([1], dtype=np.int32),
        }

    def _distribution(self) -> RepetitionDistribution:
        if self.law == "poisson":
            return poisson(float(self.n_iter))
        return negative_binomial(float(self.n_iter), float(self.eta))

    def _guarantee(
        self,
        fit: PrivacyGuarantee,
        one_try: PrivacyGuarantee,
        law: RepetitionDistribution,
    ) -> PrivacyGuarantee:
        """Of the choice, and of the last fit."""
        from ..privacy.accounting._events import SelectionDpEvent

        chosen = PrivacyGuarantee.of(
            SelectionDpEvent(one_try.event, law),
            delta=law.mean * one_try.delta
            if law.mean * one_try.delta < 1
            else one_try.delta,
            unit=one_try.unit,
            relation=one_try.relation,
            statement=f"The best of some {law.mean:.4g} tries, their number secret.",
            source="; ".join([_SOURCE, one_try.source]),
        )
        if not self._fits_again:
            return chosen
        statement = f"{chosen.statement} And a fit of it to all data."
        return replace(compose(chosen, fit), statement=statement)

    def _checked_where(self, X: Any, y: Any) -> Any:
        """Coordinates for a completion, else `X`; refused where nothing fits to it.

        Before anything is drawn, therefore not by a fit.
        """
        folds = self.cv if isinstance(self.cv, Integral) else 2
        checked(
            check_array, y, ensure_2d=False, allow_nd=True, dtype=None,
            ensure_min_samples=folds, input_name="y",
        )  # fmt: skip
        if hasattr(self.estimator, "_declared_shape"):
            estimator = clone(self.estimator)
            return check_entries(estimator, X, y, estimator._declared_shape())[0]
        return X

    def _check_searched(self) -> None:
        found = self.param_distributions
        grids = [found] if isinstance(found, Mapping) else list(found)
        if not grids or not all(isinstance(grid, Mapping) for grid in grids):
            raise ValueError("param_distributions is a dict, or a list of dicts.")
        named = self.estimator.get_params(deep=True)
        for grid in grids:
            for name, values in grid.items():
                listed = isinstance(values, (Sequence, np.ndarray))
                if not (listed or hasattr(values, "rvs")) or isinstance(values, str):
                    raise ValueError(f"{name!r} needs a list or a distribution.")
                of, _, last = name.rpartition("__")
                owner = named.get(of) if of else self.estimator
                private = owner is None or hasattr(type(owner), "_planned_guarantee")
                if last in _REFUSED and private:
                    raise ValueError(
                        f"{name!r} cannot be searched: every try would be charged for "
                        f"the candidate that reveals most. Choose it beforehand, from "
                        f"what it is expected to cost (expected_error)."
                    )

    def _listed(self) -> list[Any]:
        """Candidates that are checked before anything is drawn.

        All combinations of lists, or of very many those in which every value occurs;
        of a distribution, one value that is the same every time.
        """
        found = self.param_distributions
        known: list[Any] = []
        for grid in [found] if isinstance(found, Mapping) else found:
            lists = {
                name: [values.rvs(random_state=check_random_state(0))]
                if hasattr(values, "rvs")
                else values
                for name, values in grid.items()
            }
            combined = ParameterGrid(lists)
            if len(combined) > _MOST_LISTED:
                longest = min(max(map(len, lists.values())), _MOST_LISTED)
                combined = [
                    {name: values[k % len(values)] for name, values in lists.items()}
                    for k in range(longest)
                ]
            known += map(self._candidate, combined)
        return known

    def _check_candidate(
        self,
        candidate: Any,
        planned: PrivacyGuarantee,
        groups: Rows | Users,
        shape: tuple[int, ...],
    ) -> None:
        for step in steps_of(candidate):
            if hasattr(step, "_parameter_constraints"):
                step._validate_params()
        same = _is_same(whole_guarantee(candidate, shape), planned)
        size = float(self.test_size)
        if not same or groups != groups_of(candidate, planned.unit, self.cv, size):
            raise ValueError(
                "A candidate would reveal something else than the estimator as it is; "
                "search parameters that leave its guarantee as it is."
            )
        if is_seeded(candidate) and not is_seeded(self.estimator):
            raise ValueError(
                "random_state cannot be searched: noise that follows from an integer "
                "which is known protects nobody."
            )

    def _planned_guarantee(self, fitted: Any = None) -> PrivacyGuarantee:
        raise TypeError(
            "What a private search reveals depends on the shape of its data; it is "
            "known when it has been fitted."
        )

    def _unprotected(self) -> list[str]:
        left_out = [
            sentence
            for one in (self.estimator, *self._listed())
            for sentence in left_out_of(one)
        ]
        if hasattr(self, "best_estimator_"):
            left_out += privacy_of(self.best_estimator_).unprotected
        return [
            *super()._unprotected(),
            *dict.fromkeys(left_out),
            *(
                f"Metadata passed to fit ({name}) is treated as public."
                for name in sorted(getattr(self, "_metadata", ()))
            ),
            "How long the search took tells how many candidates were tried, which is "
            "assumed to stay secret.",
        ]


def _refuse_choices(estimator: Any) -> None:
    """Refuse what has no values that a private score could be made of."""
    if any(isinstance(step, ImplicitCompletion) for step in steps_of(estimator)):
        raise ValueError(
            "PrivateSearchCV cannot search ImplicitCompletion: it scores predictions "
            "of values, row by row, and choices have none. There is little to search: "
            "how many items take part follows from noisy counts in each fit. Choose "
            "epsilon beforehand; where you may read the data, compare by GridSearchCV "
            "with make_ranking_scorer."
        )


def _alone(value: Any) -> NDArray[np.object_]:
    """An array of one object, whatever that is."""
    found = np.empty(1, dtype=object)
    found[0] = value
    return found


def _drawn(distributions: Any, seed: int) -> dict[str, Any]:
    """One candidate, independent of all others."""
    sampler = ParameterSampler(distributions, 1, random_state=seed)
    return next(iter(sampler))


def _is_same(guarantee: PrivacyGuarantee, other: PrivacyGuarantee) -> bool:
    said = [(g.event, g.unit, g.relation) for g in (guarantee, other)]
    return said[0] == said[1]


def _fold_in(model: Any, X: Any, y: Any, rows: NDArray[np.intp]) -> None:
    """Units' own rows from some rows of the data, if there are any."""
    if len(rows):
        model.fold_in(safe_indexing(X, rows), safe_indexing(y, rows))


def _fitted(
    candidate: Any,
    data: tuple[Any, Any, dict[str, Any]],
    split: Split,
    scores: tuple[RowScore, Rows | Users],
    planned: PrivacyGuarantee,
) -> tuple[int, Any]:
    """Steps of the scores together, and the fitted candidate."""
    (X, y, metadata), (score, groups) = data, scores
    fitting, held_out = (safe_indexing(X, part) for part in (split.train, split.test))
    fit = partial(candidate.fit, **of_rows(X, metadata, indices=split.train))
    # As many warnings as tries would tell how many there were, and so would callbacks.
    for one in (candidate, *candidate.get_params(deep=True).values()):
        if hasattr(one, "set_callbacks") and not isinstance(one, type):
            one.set_callbacks()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_preauthorized(planned, fit, fitting, safe_indexing(y, split.train))
        # What was folded in stays with the score.
        scored = copy.copy(candidate) if len(split.history) else candidate
        _fold_in(scored, X, y, split.history)
        # What a mechanism draws to score is not released: the score is.
        answers = safe_indexing(y, split.test)
        steps = run_preauthorized(None, score.steps, scored, held_out, answers)
    return groups.total(steps, held_out), candidate
