"""Parameter search by private scores: the best of a random, secret number of tries."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral, Real
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid, ParameterSampler, RandomizedSearchCV
from sklearn.utils import Tags, check_array, check_random_state, indexable
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.parallel import Parallel, delayed

from .._sklearn_compat import (
    Interval,
    StrOptions,
    check_method_params,
    fit_context,
    routing_enabled,
    safe_indexing,
    validate_params,
)
from .._validation import (
    check_aligned,
    check_container,
    check_unmasked,
    checked,
    malformed,
    shape_of,
    with_names,
)
from ..base import (
    EstimatorMixin,
    PrivateEstimatorMixin,
    StorableMixin,
    check_seed_of,
    recorded_fit,
)
from ..completion import ImplicitCompletion
from ..completion._base import BaseCompletion
from ..completion._checks import check_entries
from ..completion._problem import declared_shape
from ..ids import numbers_of
from ..measure import AtHand, NoisySums, RangeSums, Releases, laplace_sums
from ..noise import laplace_lattice
from ..noise._discrete import categorical
from ..privacy import PrivacyGuarantee, PrivacyTags, compose, privacy_of
from ..privacy._protocol import is_composite, privacy_tags, states_guarantee
from ..privacy.accounting._repetitions import (
    RepetitionDistribution,
    negative_binomial,
    poisson,
)
from ..privacy.budgets._open import Marks, marked
from ..privacy.budgets._reserved import run_reserved
from ..recommend import Recommender
from ..recommend._recommender import rows_of_search
from ._groups import (
    Rows,
    Split,
    Users,
    check_groups,
    protected_units,
    seed_from,
    use_counts,
)
from ._plan import (
    check_metadata,
    checked_fit_guarantee,
    declare_shape,
    is_seeded,
    steps_of,
    try_guarantee,
    unprotected_by,
)
from ._scores import STEPS, RowScore, row_score

_NOT_SEARCHED = ("epsilon", "delta")
# Up to this many combinations of lists are all checked before the release.
_MOST_CHECKED = 1000
# What candidates must share with the estimator.
_kept = attrgetter("event", "unit", "relation")
_SOURCE = "Papernot and Steinke (2022), Theorem 2; Liu and Talwar (2019)"


class PrivateSearchCV(EstimatorMixin, PrivateEstimatorMixin, RandomizedSearchCV):
    """Parameter search whose guarantee covers all tries, their scores and the choice.

    The search draws candidates (settings of the parameters) independently, fits each
    and adds noise to its score. Then it releases the best candidate with its noisy
    score. The number of tries is random and stays secret, so that all tries together
    reveal little more than two or three of them would.

    Parameters
    ----------
    estimator : estimator or Pipeline
        A private estimator: a completion, a `Recommender`, or a `Pipeline` with a noise
        mechanism. No step may learn from X before noise is added to X; see Notes. Leave
        its `random_state` at None in a real release: with an integer, all tries have
        the same noise.
    param_distributions : dict or list of dicts
        As in ``RandomizedSearchCV``, but without epsilon and delta; see Notes.
    n_iter : float, default=10
        Expected number of candidates.
    n_iter_distribution : {"negative_binomial", "poisson"}, default="negative_binomial"
        Distribution of the number of candidates. With "negative_binomial" and pure
        epsilons (delta is 0), all tries together cost at most 2 + `eta` times the
        epsilon of one try, and less if that epsilon is large. "poisson" costs less if
        one try reveals very little. With "poisson" the search may try nothing; it then
        keeps the estimator unchanged.
    eta : float, default=0.0
        Parameter of the truncated negative binomial distribution, in [0, 1]: from 0,
        the logarithmic distribution, which often tries only one candidate, to 1, the
        geometric distribution, which does so less often and costs more.
    score_epsilon : float, default=1.0
        Epsilon of the score of one candidate.
    scoring : str or callable, default=None
        A mean over rows: "accuracy", "neg_mean_squared_error",
        "neg_root_mean_squared_error", "neg_mean_absolute_error", or a function of a
        fitted estimator, X and y that returns one score for every row, computed from
        that row alone. The default is accuracy for classifiers and the negative mean
        squared error otherwise.
    score_bounds : (float, float), default=None
        Range to which the scores of rows are clipped. The default is [0, 1] for
        accuracy. For errors it follows from the `value_bounds` or `levels` of a
        completion, which may be at the end of a `Pipeline`.
    cv : int, splitter or None, default=None
        None holds out one random test set: each record is used either in the fit or in
        the score, and a try costs only the larger of the two epsilons. With k folds, a
        try costs k - 1 fits and a score. A splitter is `KFold`, `RepeatedKFold`,
        `ShuffleSplit`, `PredefinedSplit`, `GroupKFold` or `GroupShuffleSplit`. To
        protect all entries of a user, leave `cv` at None, or pass `UserKFold` or
        `UserHoldout`: held-out users are then scored as by `make_fold_in_scorer`.
    test_size : float, default=0.2
        Share of the rows, or of the users, to hold out if `cv` is None.
    refit : bool or "keep", default=True
        True fits the best candidate again to all data, which costs one more fit.
        "keep" keeps it as it was fitted to the (first) training set, at no further
        cost, and folds in the users who were held out. False keeps no estimator.
    n_jobs : int, default=None
        As in ``RandomizedSearchCV``. The fits of one candidate run in parallel.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers: every clone repeats the choice and the noise of
        the scores, but two fits of one object never share noise.

    Attributes
    ----------
    best_params_ : dict
        Parameters of the best candidate.
    best_score_ : float
        Noisy score of the best candidate; NaN if nothing was tried. As the best of
        several, it is optimistic. If users are protected, the sum of scores is divided
        by the noisy number of users that the candidate's own fit has released.
    best_estimator_ : estimator
        The fitted best candidate, unless `refit` keeps none.
    feature_names_in_ : ndarray of str
        Names of the features seen in `fit`, if X had any.
    cv_results_ : dict
        One row: the parameters and score of the best candidate. The other candidates
        and their number stay secret.
    n_splits_ : int
        Number of splits.
    scorer_ : callable
        The scorer that `score` uses: that of the name in `scoring`, or the estimator's.
    privacy_guarantee_ : PrivacyGuarantee
        Guarantee of everything that the fitted search reveals about one unit. Noise
        mechanisms protect X, not y: the guarantee does not cover what later steps
        learn from y. ``privacy_of(search)`` lists that.

    Notes
    -----
    A search over epsilon would charge the largest epsilon for every try, and might
    still choose a smaller one. Choose epsilon beforehand, with `expected_error`.

    The search refuses a step that learns from raw X, such as a `StandardScaler` before
    the mechanism, or an encoder like `TaskAwareEncoder`. Only steps that learn nothing
    may come before the private step, such as `Normalizer`, `Binarizer`, a
    `FunctionTransformer` that computes each row from that row alone (which is not
    checked), a `ColumnTransformer` of such steps, and a `FrozenEstimator` that was
    fitted to public data. A `CoordinateEncoder` may come before a completion of unit
    "entry"; if coordinates are private, encode X before the search, with declared
    `categories`.

    The time and memory of the search reveal how many candidates it tried: keep them
    secret too. For the same reason, the search hides the warnings of tries. It calls
    the callbacks of the estimator only in the last fit, and its own only at the
    beginning and the end. An exception in a try ends the search; no guarantee covers
    that exception.

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
    >>> model = CPCompletion(rank=1, epsilon=1.0, levels=[1, 2, 3, 4, 5], max_iter=3)
    >>> search = PrivateSearchCV(model, {"rank": [0, 1, 2]}, n_iter=3)
    >>> round(search.planned_guarantee(ratings.data).epsilon, 3)
    3.0
    >>> search = search.fit(ratings.data, ratings.target)
    >>> sorted(search.best_params_)
    ['rank']
    >>> round(search.privacy_guarantee_.epsilon, 3)  # 2 for the tries, 1 for the refit
    3.0
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": "no_validation",
        "param_distributions": [dict, list],
        "n_iter": [Interval(Real, 0, None, closed="neither")],
        "n_iter_distribution": [StrOptions({"negative_binomial", "poisson"})],
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
    best_index_: int
    best_estimator_: BaseEstimator
    cv_results_: dict[str, Any]
    n_splits_: int
    multimetric_: bool
    _metadata: frozenset[str] = frozenset()

    def __init__(
        self,
        estimator: BaseEstimator,
        param_distributions: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        n_iter: float = 10,
        n_iter_distribution: str = "negative_binomial",
        eta: float = 0.0,
        score_epsilon: float = 1.0,
        scoring: object = None,
        score_bounds: tuple[float, float] | None = None,
        cv: object = None,
        test_size: float = 0.2,
        refit: bool | str = True,
        n_jobs: int | None = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            estimator,
            param_distributions,
            n_iter=n_iter,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            random_state=random_state,
        )
        self.n_iter_distribution = n_iter_distribution
        self.eta = eta
        self.score_epsilon = score_epsilon
        self.score_bounds = score_bounds
        self.test_size = test_size

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: ArrayLike, y: ArrayLike, **params: Any) -> Self:
        """Try candidates and release the best one.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Input of the estimator; coordinates for a completion.
        y : array-like of shape (n_samples,)
            Target.
        **params : dict
            Metadata, as in ``GridSearchCV.fit``: `groups` for a `cv` that splits by
            groups, and parameters of the `fit` of steps after a noise mechanism, such
            as ``ridge__sample_weight``, or `sample_weight` if metadata routing is
            enabled. The search treats metadata as public; ``privacy_of(search)`` lists
            them.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            Before any noise is drawn: if epsilon or delta is searched, if the splits
            may depend on values, if the score is not a mean over rows or has no
            declared range, if the guarantee of a fit is not known, if users would be
            answered from their raw values (``personal=True``), if the rows of a split
            are too few for what a fit has to find, if a step learns from
            raw X, if metadata would reach a step before the noise, if `groups` and
            `cv` do not match, or if a candidate would have another guarantee than the
            estimator. (With distributions, or more than 1000 combinations of lists,
            some candidates are checked only when they are drawn: before they are
            fitted, but after budgets have recorded the search.)
        """
        _refuse_choices(self.estimator)
        self._refuse_missing_values()
        if y is None:
            raise ValueError(
                "y is None, but a search scores predictions of y. Pass the target as y."
            )
        X = self._as_table(X)
        for name, data in (("X", X), ("y", y)):
            check_container(data, name)
            if not shape_of(data, name):  # scikit-learn's message would show the value
                raise malformed("arrays", f"{name} must be array-like, not a scalar.")
            check_unmasked(data, name)
        check_aligned(X, y=y, **params)
        # Rows can be indexed in arrays, lists and frames, but not in a memoryview.
        indexed = (np.asarray(d) if isinstance(d, memoryview) else d for d in (X, y))
        X, y = checked(indexable, *indexed)
        score = row_score(self.scoring, self.score_bounds, self.estimator)
        shape = np.shape(X)[1:]
        fit, units, distribution, noise, guarantee = self._plan(shape)
        X, y, where, kept = self._checked_rows(X, y, units)
        metadata, group_of_row = self._routed(params)
        if kept is not None and group_of_row is not None:
            group_of_row = safe_indexing(group_of_row, kept)
        check_groups(units, self.cv, X, y, group_of_row)
        if isinstance(units, Rows):
            how = self.cv, float(self.test_size), group_of_row
            self._check_for_all(units.fewest(where, y, *how), y)
        for step in steps_of(self.estimator):
            if isinstance(step, PrivateEstimatorMixin):
                check_seed_of(step)
        # Without the lock, another thread might store its choice under this guarantee.
        # Callbacks do not learn how many candidates were tried.
        with self._progress(max_tasks=None), self._count_releases().lock:
            self._metadata = frozenset(self._metadata | params.keys())
            with recorded_fit(self, guarantee) as streams:
                bits = streams.stream(0)
                splits = units.splits(
                    where, y, self.cv, float(self.test_size), bits, group_of_row
                )
                weights = np.array([distribution.weights])
                n_tries = int(categorical(bits, weights, np.zeros(1, int))[0])

                def tries() -> Iterator[_Try]:
                    for _ in range(n_tries):
                        # One sampler for each try, so that tries are independent.
                        (params,) = ParameterSampler(
                            self.param_distributions, 1, random_state=seed_from(bits)
                        )
                        candidate = self._candidate(params)
                        self._check_candidate(candidate, fit, units, shape)
                        declare_shape(candidate, where)
                        of_split = partial(
                            _fit_and_score_split,
                            data=(X, y, metadata),
                            scores=(score, units),
                            planned=fit,
                        )
                        yield _Try(params, candidate, splits, self.n_jobs, of_split)

                question = ScoreQuestion.from_units(noise, units)
                best, noisy = Releases(noise, streams).select(tries(), question)
            self.best_params_ = best.params if best else {}
            fitted = best.fitted if best else []
            best_score = np.nan
            if fitted:
                best_score = score.reported(units.mean(noisy, splits, fitted))
            if self.refit == "keep" and fitted:
                if isinstance(units, Users):
                    held_out = np.union1d(splits[0].test, splits[0].history)
                    _fold_in(fitted[0], X, y, held_out)
                self.best_estimator_ = fitted[0]
            elif self._refits:
                candidate = self._candidate(self.best_params_)
                self.best_estimator_ = run_reserved(
                    fit, partial(candidate.fit, **metadata), X, y
                )
            for step in marked(getattr(self, "best_estimator_", None)):
                # The search, which is not fitted yet, released what it holds.
                if isinstance(step, PrivateEstimatorMixin) and "release_ids_" in vars(
                    step
                ):
                    step.release_ids_ = vars(self).get("release_ids_", ())
            self._publish(best_score, len(splits))
        return self

    @fit_context(prefer_skip_nested_validation=False)
    def planned_guarantee(self, X: ArrayLike) -> PrivacyGuarantee:
        """Compute the guarantee that `fit` will have, without fitting.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Only the shape of a row is read.

        Returns
        -------
        guarantee : PrivacyGuarantee
            Computed without drawing noise or reading a value of X.

        Raises
        ------
        ValueError
            As `fit`.
        """
        return self._plan(np.shape(self._as_table(X))[1:])[-1]

    def _marks(self) -> Marks:
        steps = [s for s in steps_of(self.estimator) if isinstance(s, StorableMixin)]
        return super()._marks().union(*(step._marks() for step in steps))

    def _plan(
        self, shape: tuple[int, ...]
    ) -> tuple[
        PrivacyGuarantee,
        Rows | Users,
        RepetitionDistribution,
        NoisySums,
        PrivacyGuarantee,
    ]:
        """Everything that is known before a fit.

        Returns the guarantee of one fit of the estimator, the protected units, the
        distribution of the number of tries, the noise of the score of one try, and the
        guarantee of the whole search.
        """
        from ..privacy.accounting._events import PureDpEvent

        _refuse_choices(self.estimator)
        self._check_searched()
        fit = checked_fit_guarantee(self.estimator, shape)
        units = protected_units(self.estimator, fit.unit, self.cv)
        for candidate in self._known_candidates():
            self._check_candidate(candidate, fit, units, shape)
        distribution, uses = self._distribution(), use_counts(units, self.cv)
        l1 = float(STEPS * max(tested for _, tested in uses))
        epsilon = float(self.score_epsilon)
        lattice = laplace_lattice(-np.inf, np.inf, epsilon, step=1.0, l1=l1)
        event = PureDpEvent(lattice.epsilon)
        score = fit.derived(
            event,
            statement="A score with discrete Laplace noise.",
            source="Dwork et al. (2006)",
        )
        one_try = try_guarantee(fit, score, uses)
        guarantee = self._guarantee(fit, one_try, distribution)
        noise = laplace_sums(lattice, event, share=l1)
        return fit, units, distribution, noise, guarantee

    def get_metadata_routing(self) -> MetadataRouter:
        """Where the search passes metadata, for scikit-learn's metadata routing.

        Returns
        -------
        routing : MetadataRouter
            From `fit` to the `fit` of the estimator and the splits of `cv`, and from
            `score` to the scorer. The row scores that compare candidates take no
            metadata.
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
        """Names of the features seen in `fit`, if X had any."""
        return self.best_estimator_.feature_names_in_

    def __sklearn_is_fitted__(self) -> bool:
        # The last attribute that `fit` sets.
        return "cv_results_" in vars(self)

    @property
    def _refits(self) -> bool:
        # Compared by value, since NumPy's True counts as True, too.
        return self.refit != "keep" and bool(self.refit)

    def _candidate(self, params: Mapping[str, Any]) -> BaseEstimator:
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
        for name, data in metadata.items():
            check_unmasked(data, name)
        return metadata, None if groups is None else numbers_of(groups, "groups")

    @property
    def scorer_(self) -> Any:
        """The scorer of the name in `scoring`; `score` uses it."""
        if "best_score_" not in vars(self):
            raise AttributeError("scorer_")
        name = None if callable(self.scoring) else self.scoring
        return check_scoring(self.estimator, name, allow_none=True)

    def _publish(self, score: float, n_splits: int) -> None:
        """Set the attributes of scikit-learn's searches, for the best candidate."""
        self.best_score_, self.best_index_, self.n_splits_ = score, 0, n_splits
        self.multimetric_ = False
        self.cv_results_ = {
            "params": [self.best_params_],
            **{
                f"param_{k}": np.fromiter([v], object)
                for k, v in self.best_params_.items()
            },
            "mean_test_score": np.array([score]),
            "rank_test_score": np.array([1], dtype=np.int32),
        }

    def _distribution(self) -> RepetitionDistribution:
        if self.n_iter_distribution == "poisson":
            return poisson(float(self.n_iter))
        return negative_binomial(float(self.n_iter), float(self.eta))

    def _guarantee(
        self,
        fit: PrivacyGuarantee,
        one_try: PrivacyGuarantee,
        distribution: RepetitionDistribution,
    ) -> PrivacyGuarantee:
        """Guarantee of the choice and, if there is one, of the refit."""
        from ..privacy.accounting._events import SelectionDpEvent

        mean = distribution.mean
        statement = f"The best of a random number of tries, {mean:.4g} on average."
        if isinstance(fit.unit, int):
            statement += (
                " Its score is divided by the noisy number of users that its own fits "
                "have released."
            )
        chosen = one_try.derived(
            SelectionDpEvent(one_try.event, distribution),
            delta=mean * one_try.delta if mean * one_try.delta < 1 else one_try.delta,
            statement=statement,
            source="; ".join([_SOURCE, one_try.source]),
            local=False,
        )
        if not self._refits:
            return chosen
        statement += " It is then fitted to all data."
        return replace(compose(chosen, fit), statement=statement)

    def _as_table(self, X: ArrayLike) -> ArrayLike:
        is_of_ids = isinstance(self.estimator, Recommender)
        return self.estimator._as_table(X) if is_of_ids else with_names(X)

    def _checked_rows(
        self, X: ArrayLike, y: ArrayLike, units: Rows | Users
    ) -> tuple[Any, Any, Any, Any]:
        """The rows for the search, and their coordinates, after the checks of a fit.

        A fit would make these checks itself, but only after the release has begun.

        Returns
        -------
        X, y : array-like
        where : array-like
            Coordinates for a completion, else the rows of X.
        kept : ndarray of int or None
            Numbers of the rows that are kept, if some may be left out.
        """
        folds = self.cv if isinstance(self.cv, Integral) else 2
        # If a unit is protected, so is the number of rows.
        is_public = not isinstance(units, Users)
        checked(
            check_array,
            y,
            ensure_2d=False,
            allow_nd=True,
            dtype=None,
            ensure_min_samples=folds if is_public else 0,
            input_name="y",
        )
        if isinstance(self.estimator, Recommender):
            table, y, kept = rows_of_search(self.estimator, X, y)
            return table, y, table, kept
        if isinstance(self.estimator, BaseCompletion):
            estimator = clone(self.estimator)
            where, _ = check_entries(estimator, X, y, declared_shape(estimator))
            return X, y, where, None
        return X, y, X, None

    def _refuse_missing_values(self) -> None:
        """Refuse a completion that would leave out rows that a score counts."""
        grids = self.param_distributions
        grids = [grids] if isinstance(grids, Mapping) else list(grids)
        names = {str(name).rpartition("__")[2] for grid in grids for name in grid}
        declared = [
            getattr(step, "missing_values", None)
            for step in steps_of(self.estimator)
            if isinstance(step, BaseCompletion)
        ]
        if "missing_values" in names or any(one is not None for one in declared):
            raise ValueError(
                "PrivateSearchCV scores every row, so it does not support "
                "missing_values. Leave out the rows with this value before the search, "
                "and set missing_values=None."
            )

    def _check_searched(self) -> None:
        grids = self.param_distributions
        grids = [grids] if isinstance(grids, Mapping) else list(grids)
        if not grids or not all(isinstance(grid, Mapping) for grid in grids):
            raise ValueError("param_distributions must be a dict, or a list of dicts.")
        parameters = self.estimator.get_params(deep=True)
        for grid in grids:
            for name, values in grid.items():
                is_list = isinstance(values, (Sequence, np.ndarray))
                if not (is_list or hasattr(values, "rvs")) or isinstance(values, str):
                    raise ValueError(
                        f"{name!r} in param_distributions must be a list or a "
                        f"distribution."
                    )
                owner_name, _, last = name.rpartition("__")
                owner = parameters.get(owner_name) if owner_name else self.estimator
                private = owner is None or states_guarantee(owner)
                if last in _NOT_SEARCHED and private:
                    raise ValueError(
                        f"{name!r} cannot be searched: every try would cost as much "
                        f"as the most expensive candidate. Choose it beforehand, with "
                        f"expected_error."
                    )

    def _known_candidates(self) -> list[Any]:
        """Candidates to check before any noise is drawn.

        They are all combinations of the lists or, if there are more than 1000, at most
        1000 that cover as many values as possible. A distribution always gives the same
        single value.
        """
        grids = self.param_distributions
        candidates: list[Any] = []
        for grid in [grids] if isinstance(grids, Mapping) else grids:
            lists = {
                name: [values.rvs(random_state=check_random_state(0))]
                if hasattr(values, "rvs")
                else values
                for name, values in grid.items()
            }
            combinations = ParameterGrid(lists)
            if len(combinations) > _MOST_CHECKED:
                longest = min(max(map(len, lists.values())), _MOST_CHECKED)
                combinations = [
                    {name: values[k % len(values)] for name, values in lists.items()}
                    for k in range(longest)
                ]
            candidates += map(self._candidate, combinations)
        return candidates

    def _check_for_all(self, n_rows: int, y: Any) -> None:
        """Refuse what the fit of a candidate to so few rows would refuse.

        Of the targets, only their type is looked at.
        """
        for candidate in self._known_candidates():
            for step in steps_of(candidate):
                if isinstance(step, PrivateEstimatorMixin):
                    step.__privacy_check_rows__(n_rows)
                    step.__privacy_check_targets__(y)

    def _check_candidate(
        self,
        candidate: object,
        planned: PrivacyGuarantee,
        units: Rows | Users,
        shape: tuple[int, ...],
    ) -> None:
        for step in steps_of(candidate):
            validate_params(step)
            if getattr(step, "personal", False) and step.unit == "entry":
                raise ValueError(
                    "A private search cannot try personal=True with unit='entry': one "
                    "raw value would change the predictions for all held-out entries "
                    "of its user, and the noise of the score covers one row. Search "
                    "with personal=False, and fit the best parameters with "
                    "personal=True."
                )
        found = checked_fit_guarantee(candidate, shape)
        if _kept(found) != _kept(planned) or units != protected_units(
            candidate, planned.unit, self.cv
        ):
            raise ValueError(
                "A candidate in param_distributions would have another guarantee than "
                "the estimator. Search only over parameters that leave the guarantee "
                "unchanged."
            )
        if is_seeded(candidate) and not is_seeded(self.estimator):
            raise ValueError(
                "random_state cannot be searched: noise that follows from a known "
                "integer protects nobody."
            )

    def __privacy_plan__(
        self, fitted: object = None, *, any_shape: bool = False
    ) -> PrivacyGuarantee:
        raise TypeError(
            "The guarantee of a private search depends on the shape of its data, and "
            "is known only after its fit."
        )

    def __sklearn_tags__(self) -> Tags:
        if hasattr(self.estimator, "__sklearn_tags__"):
            return super().__sklearn_tags__()
        return BaseEstimator.__sklearn_tags__(self)  # A fit refuses it.

    def __privacy_tags__(self) -> PrivacyTags:
        tags = super().__privacy_tags__()
        steps = [] if is_composite(self.estimator) else steps_of(self.estimator)
        protected = {
            what
            for step in steps
            if states_guarantee(step)
            for what in privacy_tags(step).protects
        }
        tags.protects = "Xy" if len(protected) > 1 else "y" if "y" in protected else "X"
        if hasattr(self, "best_estimator_"):
            tags.conditions = privacy_of(self.best_estimator_).guarantee.conditions
        return tags

    def __privacy_unprotected__(self) -> list[str]:
        unprotected = [
            sentence
            for candidate in (self.estimator, *self._known_candidates())
            for sentence in unprotected_by(candidate)
        ]
        if hasattr(self, "best_estimator_"):
            unprotected += privacy_of(self.best_estimator_).unprotected
        return [
            *super().__privacy_unprotected__(),
            *dict.fromkeys(unprotected),
            *(
                f"Metadata passed to fit ({name}) is treated as public."
                for name in sorted(self._metadata)
            ),
            "The duration of the search reveals how many candidates were tried.",
        ]


def _refuse_choices(estimator: BaseEstimator) -> None:
    """Refuse ImplicitCompletion: a private score needs predictions of values."""
    if any(isinstance(step, ImplicitCompletion) for step in steps_of(estimator)):
        raise ValueError(
            "PrivateSearchCV cannot search ImplicitCompletion: it scores predictions "
            "of values, row by row, and choices have no values. There is little to "
            "search: each fit chooses the number of items by noisy counts. Choose "
            "epsilon beforehand. If you may read the data, compare candidates by "
            "GridSearchCV with make_ranking_scorer."
        )


def _fold_in(
    model: BaseEstimator, X: ArrayLike, y: ArrayLike, rows: NDArray[np.intp]
) -> None:
    """Fold some rows of the data into a model, unless there are none."""
    if len(rows):
        model.fold_in(safe_indexing(X, rows), safe_indexing(y, rows))


@dataclass(frozen=True)
class ScoreQuestion:
    """The score of one try. Everything in it is public.

    Attributes
    ----------
    sums : tuple of RangeSums
        The sum over all splits.
    """

    sums: tuple[RangeSums]

    chunks_at_once = 1

    @classmethod
    def from_units(cls, noise: NoisySums, units: Rows | Users) -> Self:
        """The question for the score of protected units."""
        least, most = units.ends
        times = round(noise.share / (most - least))
        return cls((RangeSums((1,), least, most, times, step=1.0),))

    def add(self, chunk: NDArray[np.int64], *totals: NDArray[np.float64]) -> None:
        """Add the contributions of the units of one split."""
        rows = np.zeros(len(chunk), np.int32)
        self.sums[0].add(totals[0], [rows], chunk)


@dataclass(eq=False)
class _Try:
    """A candidate that is fitted and scored when its score is requested; see `People`.

    Attributes
    ----------
    params : dict
    candidate : estimator
        Not fitted.
    splits : list of Split
    n_jobs : int or None
    of_split : callable
        Fits a clone of the candidate to a split and scores it.
    fitted : list of estimator
        The fits of all splits, once they exist.
    """

    params: dict[str, Any]
    candidate: BaseEstimator
    splits: list[Split]
    n_jobs: int | None
    of_split: Callable[..., tuple[list[NDArray[np.float64]], Any]]
    fitted: list[Any] = field(default_factory=list)

    def summed(
        self, contribute: Callable[..., Any], question: object
    ) -> tuple[list[NDArray[np.float64]], None]:
        """The sums over all splits, each in steps."""
        # A single fit stays in this process and keeps the data that is never pickled.
        found = Parallel(n_jobs=self.n_jobs if len(self.splits) > 1 else 1)(
            delayed(self.of_split)(
                clone(self.candidate), split, partial(contribute, question=question)
            )
            for split in self.splits
        )
        self.fitted = [fitted for _, fitted in found]
        totals = (totals for totals, _ in found)
        return [sum(of_sums) for of_sums in zip(*totals, strict=True)], None


def _fit_and_score_split(
    candidate: BaseEstimator,
    split: Split,
    contribute: Callable[..., Any],
    *,
    data: tuple[Any, Any, dict[str, Any]],
    scores: tuple[RowScore, Rows | Users],
    planned: PrivacyGuarantee,
) -> tuple[list[NDArray[np.float64]], Any]:
    """The sums of the scores in steps, and the fitted candidate."""
    (X, y, metadata), (score, units) = data, scores
    X_train, X_test = (safe_indexing(X, rows) for rows in (split.train, split.test))
    params = check_method_params(X, metadata, indices=split.train)
    # Warnings and callbacks of every try would reveal how many tries there were.
    for value in (candidate, *candidate.get_params(deep=True).values()):
        if hasattr(value, "set_callbacks") and not isinstance(value, type):
            value.set_callbacks()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y_train, y_test = (safe_indexing(y, rows) for rows in (split.train, split.test))
        run_reserved(planned, partial(candidate.fit, **params), X_train, y_train)
        # The candidate that is returned must not keep the rows folded in for its score.
        scored = copy.copy(candidate) if len(split.history) else candidate
        _fold_in(scored, X, y, split.history)
        # Scoring may draw noise, but only the noisy score is released.
        steps = run_reserved(None, score.steps, scored, X_test, y_test)
    return contribute(AtHand(units.contributions(steps, split))), candidate
