"""Synthetic explicit ratings of any size."""

from collections.abc import Sequence
from numbers import Real

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch, check_random_state

from sktensordp._validation import check_integer
from sktensordp.datasets._cells import draw_cells

# Mean, and standard deviations of the user biases, item biases and interaction, as
# fractions of the range of the levels. With the default levels and noise, the ratings
# have the spread of MovieLens latest-small, and biases explain as much of it. The
# interaction explains a little more than in MovieLens, so there is something to learn.
_MEAN = 0.69
_USER_SCALE = 0.095
_ITEM_SCALE = 0.105
_INTERACTION_SCALE = 0.125

_DESCR = """\
Synthetic explicit ratings
--------------------------

{n_ratings} ratings of {n_items} items by {n_users} users, on the scale {levels}.

The rating of an item by a user is a mean, plus a bias of the user, a bias of the
item, an interaction of rank {rank} and a Gaussian residual, rounded to the nearest
level. The activity of users and the popularity of items follow power laws with
exponents {user_exponent} and {item_exponent}. No real person is involved.
"""


def make_ratings(
    n_users: int = 600,
    n_items: int = 2000,
    n_ratings: int = 60_000,
    *,
    rank: int = 5,
    levels: Sequence[float] = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0),
    user_exponent: float = 0.7,
    item_exponent: float = 0.8,
    noise: float = 0.175,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    """Generate explicit ratings of items by users.

    Distinct (user, item) pairs are drawn one after another, each with a probability
    proportional to the activity of the user times the popularity of the item. Both
    follow power laws. The value of a rating is a mean, plus a bias of the user, a bias
    of the item, an interaction of low rank and a Gaussian residual, rounded to the
    nearest level.

    With the defaults, the standard deviation of the ratings is about 1.05. Biases
    fitted to nine tenths of the ratings predict the others with an RMSE of about 0.91,
    and an interaction of rank 5 lowers it to about 0.85. The first two figures are
    close to those of the MovieLens latest-small data.

    Parameters
    ----------
    n_users : int, default=600
        Number of users. A user may have no rating.
    n_items : int, default=2000
        Number of items. An item may have no rating.
    n_ratings : int, default=60_000
        Number of ratings, at most ``n_users * n_items``.
    rank : int, default=5
        Rank of the interaction of users and items; 0 for no interaction.
    levels : array-like of shape (n_levels,), default=(0.5, 1.0, ..., 5.0)
        At least two values that a rating can take, in increasing order.
    user_exponent : float, default=0.7
        The `k`-th most active user, counted from 0, has weight
        ``(k + 1) ** -user_exponent``. With 0, all users are equally active.
    item_exponent : float, default=0.8
        Like `user_exponent`, for the popularity of items.
    noise : float, default=0.175
        Standard deviation of the residual, before rounding, as a fraction of the
        range of the levels.
    random_state : int, RandomState instance or None, default=None
        Seed of the generation. Pass an int for the same ratings at every call.

    Returns
    -------
    ratings : :class:`~sklearn.utils.Bunch`
        Dictionary-like object, with the following attributes.

        data : ndarray of shape (n_ratings, 2), dtype int64
            User and item of each rating, in random order.
        target : ndarray of shape (n_ratings,), dtype float64
            Value of each rating.
        shape : tuple of int
            ``(n_users, n_items)``.
        levels : ndarray of shape (n_levels,)
            Values that a rating can take.
        feature_names : list of str
            Names of the columns of `data`.
        DESCR : str
            Description of the data.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    See Also
    --------
    fetch_movielens : Real ratings of movies.

    Notes
    -----
    The time grows with the number of ratings. It grows with the number of pairs
    ``n_users * n_items`` if the ratings fill a large share of the pairs, or if large
    exponents concentrate them so much that the few likely pairs run out.

    Examples
    --------
    >>> from sktensordp.datasets import make_ratings
    >>> ratings = make_ratings(50, 80, 1000, random_state=0)
    >>> ratings.data.shape, ratings.target.shape, ratings.shape
    ((1000, 2), (1000,), (50, 80))
    >>> float(ratings.target.min()), float(ratings.target.max())
    (0.5, 5.0)
    """
    counts = {"n_users": n_users, "n_items": n_items, "n_ratings": n_ratings}
    for name, count in counts.items():
        check_integer(count, name, 1)
    check_integer(rank, "rank", 0)
    exponents = {"user_exponent": user_exponent, "item_exponent": item_exponent}
    for name, number in {**exponents, "noise": noise}.items():
        if not isinstance(number, Real) or not 0 <= number < np.inf:
            raise ValueError(
                f"{name} must be a finite number of at least 0, got {number!r}."
            )
    scale = np.array(levels, dtype=np.float64)
    if (
        scale.ndim != 1
        or len(scale) < 2
        or not np.isfinite(scale).all()
        or (np.diff(scale) <= 0).any()
    ):
        raise ValueError(
            "levels must hold at least two finite numbers in increasing order, "
            f"got {levels!r}."
        )
    n_users, n_items, n_ratings = int(n_users), int(n_items), int(n_ratings)
    n_cells = n_users * n_items
    if n_ratings > n_cells:
        raise ValueError(
            f"n_ratings={n_ratings} must be at most n_users * n_items = {n_cells}, "
            "the number of distinct pairs."
        )
    if n_cells > np.iinfo(np.int64).max:
        raise ValueError(f"n_users * n_items = {n_cells} must be below 2**63.")

    rng = check_random_state(random_state)
    user_weights = -user_exponent * np.log(rng.permutation(n_users) + 1.0)
    item_weights = -item_exponent * np.log(rng.permutation(n_items) + 1.0)
    cells = draw_cells(n_ratings, user_weights, item_weights, rng)
    data = np.column_stack(np.divmod(cells, n_items))
    values = _draw_values(data, n_users, n_items, rank, noise, rng)
    values = scale[0] + (scale[-1] - scale[0]) * values
    nearest = np.searchsorted((scale[1:] + scale[:-1]) / 2, values)

    return Bunch(
        data=data,
        target=scale[nearest],
        shape=(n_users, n_items),
        levels=scale,
        feature_names=["user", "item"],
        DESCR=_DESCR.format(
            rank=rank,
            levels=", ".join(f"{level:g}" for level in scale),
            **counts,
            **exponents,
        ),
    )


def _draw_values(
    data: NDArray[np.int64],
    n_users: int,
    n_items: int,
    rank: int,
    noise: float,
    rng: np.random.RandomState,
) -> NDArray[np.float64]:
    """Draw the values of the ratings on a scale whose levels span 1."""
    users, items = data.T
    values = _MEAN + noise * rng.standard_normal(len(data))
    values += _USER_SCALE * rng.standard_normal(n_users)[users]
    values += _ITEM_SCALE * rng.standard_normal(n_items)[items]
    for _ in range(rank):
        factor = (_INTERACTION_SCALE / np.sqrt(rank)) * rng.standard_normal(n_users)
        values += factor[users] * rng.standard_normal(n_items)[items]
    return values
