"""`ImplicitCompletion`: recommend items from choices without values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from .._noise_only import is_one_of_many, warn_of_noise
from .._sklearn_compat import Interval, fit_context
from .._validation import adds_noise, check_shape, warn
from ..base import recorded_fit
from ..exceptions import AveragesOnlyWarning
from ..measure import NoisySums
from ..privacy import PrivacyGuarantee
from ..privacy._conditions import OWN_ANSWERS
from ..tensor._choices import Choices
from ._checks import check_choices, check_request, choices_of_batches
from ._fitted import keeping_names_if_refused
from ._likely_mistakes import NO_USERS, warn_if_empty
from ._local import Local
from ._ranking import RankingEstimator, Wanted
from ._synthetic import Request, UserSampler, sample_choices
from .measurements.units._cooccurrence import plan_noise, release_sums
from .measurements.units._item_model import ItemModel

_STATEMENT = (
    "Gaussian noise was added to totals over users, counts of items and, if the counts "
    "suffice, centred co-occurrences of items; each user's contribution is bounded. "
    "Scores for a user are computed from these releases and the user's own choices "
    "(joint differential privacy)."
)
_SOURCE = (
    "Dong, Roth and Su (2022), Corollary 3.3; Smith and Thakurta (2022) for shares of "
    "the budget that depend on earlier releases"
)


class ImplicitCompletion(RankingEstimator):
    """Recommend items from people's choices, and protect all choices of each user.

    Choices have no values: they are pairs of a user and an item that the user viewed,
    bought or played. The fit releases noisy counts of the items and a noisy matrix of
    their co-occurrences, under (`epsilon`, `delta`) for all choices of one user. From a
    user's own choices, the model then scores all other items for that user.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget of each user. ``float("inf")`` adds no noise.
    delta : float, default=1e-6
        Budget of each user.
    unit : int, default=0
        The protected mode. It must be 0, the users: a ranking of protected items would
        reveal them.
    shape : tuple of (int, int)
        Numbers of possible users and items. Public and required: read off the data, it
        would reveal the rarest item and the number of users. If you have a
        `CoordinateEncoder` with `categories` for both columns, pass its
        `declared_shape`.
    max_items : int or None, default=None
        Largest number of items whose co-occurrences are released; the fit chooses the
        number by noisy counts. All other items are recommended by their counts. None
        means 1,500 with noise and 15,000 without, or all items if there are fewer. With
        0, everybody gets the most popular items, by noisy counts that spend the whole
        budget. The time of a fit grows with the third power of this number, and its
        memory with the square.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers: it repeats the noise in every clone, although
        never in two fits of one object.

    Attributes
    ----------
    items_ : ndarray of shape (n_similar,), int64
        Items whose co-occurrences were released, by decreasing noisy count. Empty if
        noise would hide the co-occurrences or `max_items` is 0: the model then
        recommends the most popular items to everybody.
    item_counts_ : ndarray of shape (n_items,)
        Noisy weighted counts of all items. Each choice of a user with n choices weighs
        1 / sqrt(n).
    similarity_ : ndarray of shape (n_similar, n_similar)
        How much a choice of the row's item raises the score of the column's item; rows
        and columns are numbered as in `items_`. Zeros on the diagonal. Type float64,
        without noise float32.
    privacy_guarantee_ : PrivacyGuarantee
        Guarantee of everything that is released.
    shape_ : tuple of (int, int)
        Numbers of possible users and items.
    n_features_in_ : int
        2: users and items.

    See Also
    --------
    CPCompletion : For choices with values, such as ratings.
    make_ranking_scorer : Scores of recommendations.

    Notes
    -----
    **Who is protected.** Neighbouring data sets differ by all choices of one user (add
    or remove). Everything that is released satisfies (`epsilon`, `delta`), and so does
    everything that all other users see. A user's own choices serve that user's
    recommendations, in this process only: no public attribute, deep copy or pickle
    holds them (joint differential privacy). The `shape`, the possible users and items,
    is public.

    A repeated pair counts once; order and batches do not matter. Any set of pairs can
    be fitted, even an empty one.

    The noise is Gaussian, on a lattice. Sums over users are sums of integers, and
    exact. The proof is at the top of
    ``completion/measurements/units/_cooccurrence.py`` and in ``doc/user_proofs.md``.
    The weights are those of EASE [1]_. They are computed from the released matrix,
    after its eigenvalues have been shrunk by what the noise adds to them. Without
    noise, they are computed from the choices themselves; a fixed seed hides some of
    these to choose how much each item's count matters.

    References
    ----------
    .. [1] Steck, "Embarrassingly Shallow Autoencoders for Sparse Data", 2019.
    .. [2] Dong, Roth and Su, "Gaussian Differential Privacy", 2022.
    .. [3] Smith and Thakurta, "Fully Adaptive Composition for Gaussian Differential
       Privacy", 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from sktensordp.completion import ImplicitCompletion
    >>> films, books = [(u, i) for u in range(9) for i in (0, 1, 2)], [
    ...     (u, i) for u in range(9, 18) for i in (3, 4, 5)]
    >>> table = np.array([*films, *books, (18, 3)])
    >>> model = ImplicitCompletion(epsilon=float("inf"), shape=(19, 6)).fit(table)
    >>> [int(item) for item in sorted(model.recommend(18, k=2))]  # who has item 3
    [4, 5]
    >>> int(model.recommend(-1, k=1)[0])  # to somebody unknown
    3
    >>> private = ImplicitCompletion(shape=(19, 6), random_state=0).fit(table)
    >>> print(private.privacy_guarantee_)
    This fit: (epsilon = 1, delta = 1e-06)-differential privacy for everything at one
    index of mode 0 (add-or-remove), if answers for a person are shown to that person
    only.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "epsilon": [Interval(Real, 0, None, closed="right")],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "unit": [Interval(Integral, 0, None, closed="left")],
        "shape": ["array-like", None],
        # Fourth powers of shares, times a squared number of choices, fit into 64 bits.
        "max_items": [Interval(Integral, 0, 2**14, closed="both"), None],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
    }

    n_features_in_: int
    _fitted: _Fitted

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: int = 0,
        shape: Sequence[int] | None = None,
        max_items: int | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.shape = shape
        self.max_items = max_items
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        tags.non_deterministic = adds_noise(self.epsilon)
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Release noisy sums over users, and compute the weights between items.

        Parameters
        ----------
        X : array-like of shape (n_choices, 2), or sparse array of shape `shape`
            A user and an item in every row: integers, or integral floats. In a sparse
            array of SciPy or of `sparse`, every stored value above zero is one choice;
            zeros are not choices.
        y : None
            Ignored, with a warning if it is passed: choices have no values.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            Before noise is drawn: if `shape` is not declared; if a row is not a pair of
            a user and an item within it; if a stored value of a sparse array is
            negative, NaN or infinite; or if parameters contradict each other.
        """
        if y is not None:
            # This checks whether y was passed, never what it holds.
            warn(
                "y is ignored: every row of X counts as a choice, whether it has one "
                "star or five. Pass only the rows that are choices, without y, or use "
                "CPCompletion for ratings."
            )
        shape, noise = self._shape_and_noise()
        with keeping_names_if_refused(self):
            choices = Choices.from_keys(check_choices(self, X, shape), shape[1])
            return self._fit(choices, shape, noise)

    @fit_context(prefer_skip_nested_validation=True)
    def fit_batches(self, batches: Iterable[ArrayLike]) -> Self:
        """Fit to choices that come in batches, such as chunks of a file.

        The result, noise included, is that of `fit` on all batches concatenated. Noise
        is drawn only after the last batch has been read and checked. Until then, each
        row takes 8 bytes of memory.

        Parameters
        ----------
        batches : iterable of X
            Each as for `fit`. Iterated over once. A pair in several batches counts
            once.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As `fit`.
        """
        shape, noise = self._shape_and_noise()
        with keeping_names_if_refused(self):
            return self._fit(choices_of_batches(self, batches, shape), shape, noise)

    def _fit(self, choices: Choices, shape: tuple[int, int], noise: NoisySums) -> Self:
        # Without the lock, another thread might store its model under this guarantee.
        with self._progress("step", 2) as on_step, self._count_releases().lock:
            guarantee, draws = self._guarantee(noise), math.isfinite(self.epsilon)
            with recorded_fit(self, guarantee, "fit" if draws else "nobody") as streams:
                max_items = self._max_items(shape)
                sums = release_sums(choices, noise, streams, shape[0], max_items)
            on_step()
            if draws:
                # All that is published from here on is post-processing of `sums`.
                model = ItemModel.from_sums(sums)
            else:
                model = ItemModel.from_choices(sums, choices)
            sampler = UserSampler.of_choices(sums, model)
            self._fitted = _Fitted(model, shape, _LocalChoices(choices), sampler)
            on_step()
        warn_of_noise(sums.are_noise, NO_USERS)
        is_chosen = not draws or not self._max_items(shape)
        if not (len(sums.items) or is_chosen or is_one_of_many()):
            warn(
                "At this epsilon and size only averages could be learned: everybody "
                "gets the same ranking, that of popular items. A larger epsilon or "
                "more users may change that. If popular items are what you want, pass "
                "max_items=0.",
                AveragesOnlyWarning,
            )
        return self

    def fold_in(self, X: ArrayLike) -> Self:
        """Learn the choices of new or returning users; this releases nothing.

        The choices serve these users' recommendations and stay in this process. They
        replace all earlier choices of the same users.

        Parameters
        ----------
        X : array-like of shape (n_choices, 2), or sparse array of shape `shape_`
            All choices of these users, in the form that `fit` takes.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As `fit`, for `X`.
        """
        check_is_fitted(self)
        with self._count_releases().lock:
            fitted = self._fitted
            keys = check_choices(self, X, fitted.shape, reset=False)
            warn_if_empty(keys)
            new = Choices.from_keys(keys, fitted.shape[1])
            local = _LocalChoices(fitted.local.choices_of(fitted.shape).replaced(new))
            self._fitted = replace(fitted, local=local)
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict the scores by which `recommend` ranks items for users.

        Parameters
        ----------
        X : array-like of shape (n_pairs, 2)
            A user and an item in every row, within `shape_`. -1 stands for an unknown
            user or item. The score of an unknown item is 0.

        Returns
        -------
        scores : ndarray of shape (n_pairs,)
            Comparable between items for the same user. Without evidence for or against
            an item, its score for a user with n choices is about n times the item's
            share of all choices. If `items_` is empty, scores are `item_counts_`.

        Raises
        ------
        ValueError
            If an index is fractional, below -1 or outside `shape_`.
        """
        check_is_fitted(self)
        fitted = self._fitted
        pairs = check_request(self, X, fitted.new_units)
        fitted.warn_of_lost_rows(pairs)
        return fitted.predict(pairs)

    def sample_users(
        self,
        n_users: int | None = None,
        *,
        items_per_user: ArrayLike | None = None,
        random_state: int | None = None,
    ) -> NDArray[np.int64]:
        """Draw the choices of synthetic users; this releases nothing.

        The table is computed only from what the fit released, so the guarantee of the
        fit covers it for every user: hand it to anybody, and draw as many tables as you
        like. It is only as good as the model. It does not show what the model did not
        learn: which rare items go together, in which order they were chosen, and when.

        Parameters
        ----------
        n_users : int, default=None
            Number of synthetic users, who are numbered from 0. None takes the released
            number of users: a table of the true size would publish it.
        items_per_user : array-like of int, default=None
            Numbers of items; each user's number is drawn from these with replacement.
            They must be public, since no noise protects them; `privacy_of` then lists
            them. None draws from the released histogram.
        random_state : int or None, default=None
            Seed of the draw. Nothing private depends on it.

        Returns
        -------
        X : ndarray of shape (n_choices, 2)
            A user and an item in every row, all distinct. There may be more users than
            `shape_` has.

        Raises
        ------
        ValueError
            If an argument is out of range.

        Examples
        --------
        >>> import numpy as np
        >>> from sktensordp.completion import ImplicitCompletion
        >>> from sktensordp.datasets import make_choices
        >>> choices = make_choices(3000, 200, 12_000, random_state=0)
        >>> model = ImplicitCompletion(epsilon=4.0, shape=(3000, 200), random_state=0)
        >>> table = model.fit(choices.data).sample_users(500, random_state=0)
        >>> len(np.unique(table[:, 0])), int(table[:, 1].max()) < 200
        (500, True)
        """
        check_is_fitted(self)
        with self._count_releases().lock:
            fitted = self._fitted
            population, n_items = fitted.sampler.population, fitted.shape[1]
            request = Request.from_arguments(
                n_users, items_per_user, random_state, population, n_items
            )
            if request.items_per_user is not None:
                self._fitted = replace(fitted, has_public_lengths=True)
        return sample_choices(fitted.sampler, request)

    @property
    def items_(self) -> NDArray[np.int64]:
        """Items whose co-occurrences were released, by decreasing noisy count."""
        return self._fitted.model.items

    @property
    def item_counts_(self) -> NDArray[np.float64]:
        """Noisy weighted counts of all items."""
        return self._fitted.model.counts

    @property
    def similarity_(self) -> NDArray[np.floating]:
        """Weights between `items_`."""
        return self._fitted.model.similarity

    def _shape_and_noise(self) -> tuple[tuple[int, int], NoisySums]:
        """Check the parameters; compute the shape and the noise from them alone.

        Raises
        ------
        ValueError
            If parameters contradict each other.
        """
        if self.unit == 1:
            raise ValueError(
                "unit=1 would protect items, but a recommendation ranks items, so it "
                "would reveal who chose the ranked items. Put the users to protect "
                "into mode 0, and leave unit=0."
            )
        if self.unit != 0:
            raise ValueError(f"unit must be 0 (users), got {self.unit}.")
        if self.shape is None:
            raise ValueError(
                "`shape` is not declared. Read off the private choices, it would "
                "reveal the rarest item and the number of users. Pass the public "
                "shape=(n_users, n_items), or shape=encoder.declared_shape if a "
                "CoordinateEncoder declares categories."
            )
        shape = check_shape(self.shape)
        if len(shape) != 2:
            raise ValueError(
                f"shape must be (n_users, n_items), got {len(shape)} numbers."
            )
        if shape[1] < 2:
            raise ValueError(
                "shape declares one item: there is nothing to rank. Declare the whole "
                "catalogue."
            )
        if shape[0] * shape[1] >= 2**63:
            raise ValueError(
                "shape has 2^63 pairs of a user and an item, or more: too many to "
                "number them. Declare fewer users or items."
            )
        return shape, plan_noise(
            float(self.epsilon), float(self.delta), shape, self._max_items(shape)
        )

    def _max_items(self, shape: tuple[int, int]) -> int:
        """Largest number of items whose co-occurrences are released."""
        most = most_items(self)
        if self.max_items is not None and most > shape[1]:
            raise ValueError(
                f"max_items = {self.max_items}, but shape declares {shape[1]} items. "
                f"Lower max_items, or declare the whole catalogue."
            )
        return min(most, shape[1])

    def _guarantee(self, noise: NoisySums) -> PrivacyGuarantee:
        from dp_accounting import dp_event

        event, delta, statement = noise.event, float(self.delta), _STATEMENT
        if event is None:
            event, delta = dp_event.NonPrivateDpEvent(), 0.0
            statement = "The choices were used without noise."
        return PrivacyGuarantee.from_event(
            event,
            delta=delta,
            unit=0,
            relation="add-or-remove",
            statement=statement,
            source=_SOURCE,
            conditions=(OWN_ANSWERS,),
        )

    def __privacy_plan__(
        self, fitted: object = None, *, any_shape: bool = False
    ) -> PrivacyGuarantee:
        return self._guarantee(self._shape_and_noise()[1])


class _LocalChoices(Local):
    """Users' own choices, which stay in this process."""

    def __init__(self, choices: Choices | None = None) -> None:
        self._choices = choices

    def choices_of(self, shape: tuple[int, int]) -> Choices:
        """All users' choices; empty if a copy lost them."""
        if self._choices is None:
            return Choices.from_keys(np.empty(0, dtype=np.int64), shape[1])
        return self._choices


@dataclass(frozen=True, eq=False)
class _Fitted:
    """Result of a fit: the model, computed from releases, and users' own choices."""

    model: ItemModel
    shape: tuple[int, int]
    local: _LocalChoices
    sampler: UserSampler
    has_public_lengths: bool = False

    unit, new_units = 0, ()

    def warn_of_lost_rows(self, coordinates: NDArray[np.integer]) -> None:
        """Warn once if the choices of these users were lost in a copy."""
        if np.any(coordinates[:, 0] >= 0):
            self.local.warn_if_lost(
                "This model was deep-copied or pickled. The choices of users are never "
                "pickled or deep-copied, so all users are treated as unknown. To "
                "restore them, call fold_in(X) with all of their choices."
            )

    def forget(self, users: NDArray[np.integer]) -> _Fitted:
        """Drop the choices of some users."""
        every = self.local.choices_of(self.shape)
        kept = every.of_users(every.users[~np.isin(every.users, users)])
        return replace(self, local=_LocalChoices(kept))

    def pairs_known(self) -> NDArray[np.int64]:
        """The pairs of a user and an item that this process knows."""
        every = self.local.choices_of(self.shape)
        return np.column_stack([np.repeat(every.users, every.sizes), every.items])

    def _choices_of(self, users: NDArray[np.integer]) -> Choices:
        """The stored choices of some users; an unknown user has none."""
        return self.local.choices_of(self.shape).of_users(users.astype(np.int64))

    def predict(self, pairs: NDArray[np.integer]) -> NDArray[np.float64]:
        """Scores of pairs of a user and an item, either of which may be unknown."""
        users, rows = np.unique(pairs[:, 0], return_inverse=True)
        return self.model.at(self._choices_of(users), rows, pairs[:, 1])

    def recommend(
        self, coordinates: NDArray[np.integer], wanted: Wanted
    ) -> NDArray[np.int64]:
        """Best items for the users at coordinates; -1 if none is left."""
        return self.model.best(self._choices_of(coordinates[:, 0]), wanted)

    def similar_items(self, items: NDArray[np.integer], k: int) -> NDArray[np.int64]:
        """See `ItemModel.similar`."""
        return self.model.similar(items, k)


def most_items(completion: ImplicitCompletion) -> int:
    """The `max_items` of a completion, before it is limited by the catalogue."""
    if completion.max_items is not None:
        return int(completion.max_items)
    # With noise, more items cost rounding.
    return 1500 if math.isfinite(completion.epsilon) else 15_000
