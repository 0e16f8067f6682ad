"""`ImplicitCompletion`: recommendations from what people chose."""

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted

from .._random import NoiseStreams
from .._sklearn_compat import Interval, fit_context
from .._validation import check_coordinates, check_numeric, check_shape, checked
from ..base import EstimatorMixin, PrivateEstimatorMixin
from ..privacy import PrivacyGuarantee
from ._choices import Choices, check_choices, choices_of_batches
from ._cooccurrence import Releases, plan_noise
from ._entries import check_input
from ._item_model import ItemModel
from .solvers._noisy_sums import NoisySums

__all__ = ["ImplicitCompletion"]

_USUAL_ITEMS = 1500
# Fourth powers of shares, times a squared number of choices, fit into 64 bits.
_MOST_ITEMS = 2**14
_STATEMENT = (
    "Numbers of users, counts of items and centred co-occurrences of items were given "
    "Gaussian noise, with each user's contribution bounded. Scores for a user are "
    "computed from these releases and the user's own choices; show them to that user "
    "only (joint differential privacy)."
)
_SOURCE = (
    "Dong, Roth and Su (2022), Corollary 3.3; Smith and Thakurta (2022) for shares of "
    "the budget that follow from earlier releases"
)


class ImplicitCompletion(EstimatorMixin, PrivateEstimatorMixin, BaseEstimator):
    """Recommend items from what people chose, with everything of a user protected.

    The data are choices without values: who viewed, bought or played what. Noisy counts
    of the items and one noisy matrix of their co-occurrences are released. From these
    follow weights between items, by which a user's own choices score all others.

    **Who is protected.** Neighbouring data sets differ by all choices of one user: they
    are there, or they are not (add or remove). What is released, and so what all other
    users get to see, keeps (`epsilon`, `delta`). A user's own choices serve that user's
    recommendations in this process and leave with no public attribute, deep copy or
    pickle (joint differential privacy). Which users and items there can be, the
    `shape`, is public.

    Parameters
    ----------
    epsilon : float, default=1.0
        Budget of a user. ``float("inf")`` adds no noise.
    delta : float, default=1e-6
        Budget of a user.
    unit : int, default=0
        The mode that is protected: 0, users. Items cannot be, since they are what is
        ranked.
    shape : tuple of (int, int)
        Numbers of users and of items that there can be: public, and required. Read off
        the data, it would reveal the rarest item and how many users there are. If a
        `CoordinateEncoder` declares `categories` for both columns, pass its
        `declared_shape`.
    max_items : int, default=1500
        Largest number of items whose co-occurrences are released; how many there are
        is chosen by noisy counts. Others are recommended by their counts. The default
        stands for all items where the catalogue has fewer.
    random_state : int or None, default=None
        None draws from the operating system's entropy, as a real release must. An
        int is for tests and papers: it repeats the noise in every clone, although
        never in two fits of one object.

    Attributes
    ----------
    items_ : ndarray of shape (n_similar,), int64
        The items whose co-occurrences were released, by falling count. There are none
        where noise would hide them: then everybody is recommended what is popular.
    item_counts_ : ndarray of shape (n_items,)
        Noisy counts of all items, in which a user's choices weigh one over the root of
        their number, or about so for users of very few.
    similarity_ : ndarray of shape (n_similar, n_similar)
        By how much a choice of the row's item raises the score of the column's, both
        numbered as in `items_`. Zeros on the diagonal.
    privacy_guarantee_ : PrivacyGuarantee
        Of everything that is released.
    shape_ : tuple of (int, int)
    n_features_in_ : int
        2: users and items.

    See Also
    --------
    CPCompletion : For choices with values, such as ratings.
    make_ranking_scorer : Scores of what is put on top.

    Notes
    -----
    A repeated pair counts once. The same releases, bit by bit, come out for the same
    pairs in any order and in any batches. Users who are all alike, and no user at all,
    are fitted.

    Noise is Gaussian, on a lattice; sums over users are of integers, and exact. The
    proof is at the top of ``completion/_cooccurrence.py`` and in ``doc/choices.md``.
    The weights are those of EASE [1]_, computed from a low-rank part of the released
    matrix.

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
    >>> table = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 2], [2, 3], [3, 2]])
    >>> model = ImplicitCompletion(epsilon=float("inf"), shape=(5, 4)).fit(table)
    >>> int(model.recommend(3, k=1)[0])
    3
    >>> model.recommend([0, -1], k=2)
    array([[2, 3],
           [2, 0]])
    >>> private = ImplicitCompletion(shape=(5, 4), random_state=0).fit(table)
    >>> print(private.privacy_guarantee_)
    (epsilon = 1, delta = 1e-06)-differential privacy for everything at one index of
    mode 0 (add-or-remove). Numbers of users, counts of items and centred co-occurrences
    of items were given Gaussian noise, ...
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "epsilon": [Interval(Real, 0, None, closed="right")],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "unit": [Interval(Integral, 0, None, closed="left")],
        "shape": ["array-like", None],
        "max_items": [Interval(Integral, 1, _MOST_ITEMS, closed="both")],
        "random_state": [Interval(Integral, 0, None, closed="left"), None],
    }

    n_features_in_: int
    _fitted: "_Fitted"
    _of_fit = ("_fitted",)

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        unit: int = 0,
        shape: Sequence[int] | None = None,
        max_items: int = _USUAL_ITEMS,
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
        tags.non_deterministic = math.isfinite(self.epsilon)
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Release noisy sums over users, and compute the weights between items.

        Parameters
        ----------
        X : array-like of shape (n_choices, 2), or sparse array of shape `shape`
            A user and an item in every row: integers, or integral floats. Of a sparse
            array of SciPy or of `sparse`, every stored value is one choice, whatever it
            is, but zero.
        y : None
            Not accepted: choices have no values.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            Before anything is drawn: if `y` is passed, `shape` is not declared, a row
            is no pair of a user and an item within it, or a sparse array stores zeros;
            and for parameters that do not go together.
        """
        if y is not None:
            raise ValueError(
                "ImplicitCompletion takes no y: choices have no values. Pass the rows "
                "that count as a choice as X alone; to use ratings, fit a CPCompletion."
            )
        shape, noise = self._plan()
        with _same_names_if_refused(self):
            return self._fit(
                Choices.of(check_choices(self, X, shape), shape[1]), shape, noise
            )

    @fit_context(prefer_skip_nested_validation=True)
    def fit_batches(self, batches: Iterable[ArrayLike]) -> Self:
        """Fit to choices that come in batches, as from a file that is read in chunks.

        The same as `fit` to all batches, one below the other, with the same noise.
        Nothing is drawn before the last batch has been read and checked. What is kept
        of each is 8 bytes a row.

        Parameters
        ----------
        batches : iterable of X
            As for `fit`; read once. A pair that comes in several counts once.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As `fit`.
        """
        shape, noise = self._plan()
        with _same_names_if_refused(self):
            return self._fit(choices_of_batches(self, batches, shape), shape, noise)

    def _fit(self, choices: Choices, shape: tuple[int, int], noise: NoisySums) -> Self:
        # Another thread would leave its model under the guarantee of this one.
        with self._progress("step", 2) as on_step, self._count_releases().lock:
            with self._noise_for(self._guarantee(noise)) as streams:
                sums = Releases(noise, streams, shape, self._n_largest(shape)).all(
                    choices
                )
            on_step()
            # From here on, nothing that is published touches the choices.
            model = ItemModel.of(sums)
            self._fitted = _Fitted(model, shape, _LocalChoices(choices))
            on_step()
        return self

    @contextmanager
    def _noise_for(self, guarantee: PrivacyGuarantee) -> Iterator[NoiseStreams | None]:
        """Streams for the releases, which are recorded; an earlier fit is forgotten."""
        if math.isfinite(self.epsilon):
            with self._release(guarantee, anew=True) as streams:
                yield streams
            return
        self._record(guarantee)
        yield None
        self._forget(privacy_guarantee_=guarantee)

    def fold_in(self, X: ArrayLike) -> Self:
        """Learn the choices of users who are new or come back; nothing is released.

        They serve these users' recommendations, stay in this process, and replace older
        ones of the same users.

        Parameters
        ----------
        X : array-like of shape (n_choices, 2), or sparse array of shape `shape_`
            All choices of these users, as for `fit`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            As `fit`, of what is passed.
        """
        check_is_fitted(self)
        with self._count_releases().lock:
            fitted = self._fitted
            keys = check_choices(self, X, fitted.shape, reset=False)
            own = Choices.of(keys, fitted.shape[1])
            local = _LocalChoices(fitted.local.choices_of(fitted.shape).replaced(own))
            self._fitted = replace(fitted, local=local)
        return self

    def recommend(self, users: ArrayLike, k: int = 10) -> NDArray[np.int64]:
        """The items with the largest scores, without those that users have chosen.

        Of items with equal scores, the one with the lower index comes first.

        Parameters
        ----------
        users : int or array-like of shape (n_users,)
            Indices of users; -1 stands for one who is not known, and gets what is
            popular, as do users without a choice.
        k : int, default=10
            Number of items.

        Returns
        -------
        items : ndarray of shape (k,) or (n_users, k)
            Best first. -1 where there is no further item.

        Raises
        ------
        ValueError
            If an index is outside of the shape, or `k` is not positive.
        """
        check_is_fitted(self)
        if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
            raise ValueError(f"k must be a positive integer, got {k!r}.")
        check_numeric(users, "users")
        wanted = np.atleast_1d(users)
        if wanted.ndim != 1:
            raise ValueError("users must be an index or a list of indices.")
        # In which every integer and every fraction stays what it is.
        pairs = np.full((len(wanted), 2), -1, dtype=np.longdouble)
        pairs[:, 0] = wanted
        pairs = check_coordinates(
            checked(check_array, pairs, estimator=self, input_name="users"),
            shape=self.shape_, allow_unknown=True, name="recommend",
        )  # fmt: skip
        fitted = self._fitted
        own = fitted.choices_of(pairs[:, 0].astype(np.int64))
        return fitted.model.best(own, int(k)).reshape(*np.shape(users), int(k))

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Scores of items for users, by which `recommend` ranks.

        Parameters
        ----------
        X : array-like of shape (n_pairs, 2)
            A user and an item in every row, within `shape_`. -1 stands for a user who
            is not known, or for an item that is not, of which the score is 0.

        Returns
        -------
        scores : ndarray of shape (n_pairs,)
            Comparable between items for the same user. For a user of n choices they
            are about n times an item's share of all choices, where nothing speaks for
            or against it. Where `items_` is empty, they are `item_counts_`.

        Raises
        ------
        ValueError
            If an index is fractional, below -1 or outside `shape_`.
        """
        check_is_fitted(self)
        found = check_input(self, X, reset=False)
        pairs = check_coordinates(
            found, shape=self.shape_, allow_unknown=True, name=type(self).__name__
        )
        users, rows = np.unique(pairs[:, 0].astype(np.int64), return_inverse=True)
        fitted = self._fitted
        return fitted.model.at(fitted.choices_of(users), rows, pairs[:, 1])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    @property
    def items_(self) -> NDArray[np.int64]:
        """Items whose co-occurrences were released."""
        return self._fitted.model.items

    @property
    def item_counts_(self) -> NDArray[np.float64]:
        """Noisy counts of all items."""
        return self._fitted.model.counts

    @property
    def similarity_(self) -> NDArray[np.float64]:
        """Weights between `items_`."""
        return self._fitted.model.similarity

    @property
    def shape_(self) -> tuple[int, int]:
        """Numbers of users and of items."""
        return self._fitted.shape

    def _plan(self) -> tuple[tuple[int, int], NoisySums]:
        """Shape and noise, from parameters alone.

        Raises
        ------
        ValueError
            If they do not go together.
        """
        if self.unit == 1:
            raise ValueError(
                "unit=1 would protect items, but these are ranked: whoever asks for a "
                "recommendation would learn who chose the ranked items. Put the users, "
                "who are protected, into mode 0."
            )
        if self.unit != 0:
            raise ValueError(f"unit must be 0, users; got {self.unit}.")
        if self.shape is None:
            raise ValueError(
                "`shape` is not declared. Read off the private choices, it would "
                "reveal the rarest item and the number of users. Pass the public "
                "shape=(n_users, n_items), or shape=encoder.declared_shape of a "
                "CoordinateEncoder with categories."
            )
        shape = check_shape(self.shape)
        if len(shape) != 2:
            raise ValueError(
                f"shape must be (n_users, n_items), got {len(shape)} numbers."
            )
        if shape[1] < 2:
            raise ValueError("shape declares one item: there is nothing to rank.")
        if shape[0] * shape[1] >= 2**63:
            raise ValueError("shape has more pairs than integers can number.")
        n_largest = self._n_largest(shape)
        return shape, plan_noise(
            float(self.epsilon), float(self.delta), shape, n_largest
        )

    def _n_largest(self, shape: tuple[int, int]) -> int:
        """Most items whose co-occurrences are released."""
        if self.max_items > shape[1] and self.max_items != _USUAL_ITEMS:
            raise ValueError(
                f"max_items = {self.max_items}, but shape declares {shape[1]} items."
            )
        return min(int(self.max_items), shape[1])

    def _guarantee(self, noise: NoisySums) -> PrivacyGuarantee:
        from dp_accounting import dp_event

        fields: dict[str, Any] = {
            "unit": 0, "relation": "add-or-remove", "source": _SOURCE,
        }  # fmt: skip
        if noise.event is None:
            return PrivacyGuarantee.of(
                dp_event.NonPrivateDpEvent(), **fields,
                statement="The choices were used as they are (epsilon = inf).",
            )  # fmt: skip
        return PrivacyGuarantee.of(
            noise.event, delta=float(self.delta), statement=_STATEMENT, **fields
        )

    def _planned_guarantee(self, fitted: Any = None) -> PrivacyGuarantee:
        return self._guarantee(self._plan()[1])

    def _unprotected(self) -> list[str]:
        return [
            *super()._unprotected(),
            "Which users and items there can be (the shape) is public.",
            "What is recommended to a user follows from the user's own choices too: it "
            "is for that user alone.",
        ]


class _LocalChoices:
    """Choices of users: kept in this process alone.

    Deep copies and pickles are empty, so that nothing of a user leaves with a model.

    Attributes
    ----------
    lost : bool
        Whether these are a copy, or come out of a pickle, and nobody was told so.
    """

    def __init__(self, choices: Choices | None = None, *, lost: bool = False) -> None:
        self._choices, self.lost = choices, lost

    def choices_of(self, shape: tuple[int, int]) -> Choices:
        """All there are."""
        if self._choices is None:
            return Choices.of(np.empty(0, dtype=np.int64), shape[1])
        return self._choices

    def __reduce__(self) -> tuple[Any, ...]:
        return _choices_left_behind, ()

    def __repr__(self) -> str:
        return "_LocalChoices()"


def _choices_left_behind() -> _LocalChoices:
    """What a pickle and a copy of `_LocalChoices` become."""
    return _LocalChoices(lost=True)


@dataclass(frozen=True, eq=False)
class _Fitted:
    """What a fit leaves: a model of what was released, and users' own choices."""

    model: ItemModel
    shape: tuple[int, int]
    local: _LocalChoices

    def choices_of(self, users: NDArray[np.int64]) -> Choices:
        """Own choices of some users; none of one who is not known.

        Warns once where they did not travel with the model.
        """
        if self.local.lost and np.any(users >= 0):
            self.local.lost = False
            warnings.warn(
                "This model was copied or pickled. The choices of users are never "
                "pickled or copied, so all users are treated as unknown. To restore "
                "them, call fold_in(X) with all of their choices.",
                UserWarning,
                stacklevel=3,
            )
        return self.local.choices_of(self.shape).of_users(users)


@contextmanager
def _same_names_if_refused(estimator: Any) -> Iterator[None]:
    """Names of features stay those of an earlier fit, unless a new one succeeds."""
    names, own = ("n_features_in_", "feature_names_in_"), vars(estimator)
    before, fitted = {n: own[n] for n in names if n in own}, own.get("_fitted")
    try:
        yield
    finally:
        own = vars(estimator)
        # Once a release has been admitted, the earlier fit is forgotten.
        if fitted is not None and own.get("_fitted") is fitted:
            for name in names:
                own.pop(name, None)
            own.update(before)
