"""Synthetic choices."""

from numbers import Real

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Bunch, check_random_state

from sktensordp._validation import check_integer

_DESCR = """\
Synthetic choices
-----------------

{n_choices} choices of {n_items} items by {n_users} users.

Users and items belong to {n_groups} groups. A user's choice comes from the items of the
user's own group with probability {affinity:g}, otherwise from all items. The activity
of users and the popularity of items follow power laws with exponents {user_exponent:g}
and {item_exponent:g}. No real person is involved.
"""
# Number of users whose choices are drawn at once.
_CHUNK = 256


def make_choices(
    n_users: int = 600,
    n_items: int = 2000,
    n_choices: int = 60_000,
    *,
    n_groups: int = 8,
    affinity: float = 0.7,
    user_exponent: float = 0.7,
    item_exponent: float = 0.8,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    """Generate choices of items by users who belong to groups.

    Every user and every item belongs to a group. A user chooses distinct items: each
    from the user's own group with probability `affinity`, otherwise from all items, and
    in proportion to popularity. The popularity of items follows a power law, and so
    does the number of choices of a user.

    Parameters
    ----------
    n_users : int, default=600
        Number of users. Each chooses at least one item if there are enough choices.
    n_items : int, default=2000
        Number of items. Some may be chosen by nobody.
    n_choices : int, default=60_000
        Number of choices, at most ``n_users * n_items // 2``.
    n_groups : int, default=8
        Number of groups, at most `n_items`.
    affinity : float, default=0.7
        Probability, in [0, 1], of drawing a choice from the user's own group instead of
        all items. With 0, choices do not depend on the groups.
    user_exponent : float, default=0.7
        The `k`-th most active user, counted from 0, has weight
        ``(k + 1) ** -user_exponent``. With 0, all users are equally active.
    item_exponent : float, default=0.8
        Like `user_exponent`, for the popularity of items.
    random_state : int, RandomState instance or None, default=None
        Seed. Pass an int to get the same choices at every call.

    Returns
    -------
    choices : :class:`~sklearn.utils.Bunch`
        Dictionary-like object with these attributes.

        data : ndarray of shape (n_choices, 2), dtype int64
            The user and the item of each choice, in random order.
        shape : tuple of int
            ``(n_users, n_items)``.
        user_groups : ndarray of shape (n_users,)
            The group of each user.
        item_groups : ndarray of shape (n_items,)
            The group of each item.
        feature_names : list of str
            The names of the columns of `data`.
        DESCR : str
            A description of the data.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    See Also
    --------
    make_ratings : Choices with values.
    fetch_movielens : Real ratings; with ``as_choices=True``, every rated item is a
        choice.

    Notes
    -----
    With these arguments, the size, a user's typical number of choices and the share of
    the choices that fall on the most popular tenth of the items are about those of
    public data sets:

    ================================  =======  =======  =========  =====  =====
    choices                           users    items    choices    user   item
    ================================  =======  =======  =========  =====  =====
    films (MovieLens latest-small)    671      9,066    100,004    0.75   1.35
    web pages (Microsoft, UCI)        32,711   285      98,654     0.6    2.0
    games (Steam)                     12,393   5,155    128,804    1.0    1.5
    artists (Last.fm, HetRec 2011)    1,885    16,355   82,636     0.0    1.0
    groceries (retail, FIMI)          88,162   16,470   908,576    0.5    0.95
    ================================  =======  =======  =========  =====  =====

    The last two columns are `user_exponent` and `item_exponent`.

    Examples
    --------
    >>> from sktensordp.datasets import make_choices
    >>> choices = make_choices(50, 80, 1000, random_state=0)
    >>> choices.data.shape, choices.shape
    ((1000, 2), (50, 80))
    """
    counts = {
        "n_users": n_users,
        "n_items": n_items,
        "n_choices": n_choices,
        "n_groups": n_groups,
    }
    for name, count in counts.items():
        check_integer(count, name, 1)
    shares = {"affinity": affinity}
    exponents = {"user_exponent": user_exponent, "item_exponent": item_exponent}
    for name, number in {**shares, **exponents}.items():
        most = 1.0 if name in shares else np.inf
        if not isinstance(number, Real) or not 0 <= number <= most or number == np.inf:
            raise ValueError(
                f"{name} must be a finite number from 0 to {most:g}, got {number!r}."
            )
    n_users, n_items, n_choices = int(n_users), int(n_items), int(n_choices)
    if n_choices > max(n_users * n_items // 2, 1):
        raise ValueError(
            f"n_choices={n_choices} is more than half of the n_users * n_items = "
            f"{n_users * n_items} distinct pairs."
        )
    if n_groups > n_items:
        raise ValueError(f"n_groups={n_groups} is more than n_items={n_items}.")
    rng = check_random_state(random_state)
    sizes = _sizes(n_users, n_items, n_choices, float(user_exponent), rng)
    user_groups = rng.permutation(n_users) % n_groups
    item_groups = rng.permutation(n_items) % n_groups
    popularity = (rng.permutation(n_items) + 1.0) ** -float(item_exponent)
    popularity /= popularity.sum()
    weights = np.empty((n_groups, n_items))
    for group in range(n_groups):
        within = np.where(item_groups == group, popularity, 0.0)
        weights[group] = affinity * within / within.sum() + (1 - affinity) * popularity
    with np.errstate(divide="ignore"):
        logs = np.log(weights)
    data = np.empty((n_choices, 2), dtype=np.int64)
    data[:, 0] = np.repeat(np.arange(n_users), sizes)
    ends = np.append(0, np.cumsum(sizes))
    for start in range(0, n_users, _CHUNK):
        users = np.arange(start, min(start + _CHUNK, n_users))
        # Gumbel's trick: the largest perturbed logs are a draw without replacement.
        perturbed = logs[user_groups[users]] + rng.gumbel(size=(len(users), n_items))
        order = np.argsort(-perturbed, axis=1, kind="stable")
        for user, best in zip(users, order, strict=True):
            data[ends[user] : ends[user + 1], 1] = best[: sizes[user]]
    return Bunch(
        data=data[rng.permutation(n_choices)],
        shape=(n_users, n_items),
        user_groups=user_groups,
        item_groups=item_groups,
        feature_names=["user", "item"],
        DESCR=_DESCR.format(**counts, **shares, **exponents),
    )


def _sizes(
    n_users: int,
    n_items: int,
    n_choices: int,
    exponent: float,
    rng: np.random.RandomState,
) -> NDArray[np.int64]:
    """Numbers of choices: power-law, at most all items, at least one if possible."""
    weights = (rng.permutation(n_users) + 1.0) ** -exponent
    least = int(n_choices >= n_users)
    sizes = np.full(n_users, least, dtype=np.int64)
    left = n_choices - sizes.sum()
    while left:
        free = sizes < n_items
        share = np.where(free, weights, 0.0)
        share = np.floor(left * share / share.sum()).astype(np.int64)
        if not share.any():
            # There is less than one choice for each user: give one to those with the
            # largest weights.
            order = np.argsort(-weights[free], kind="stable")
            sizes[np.flatnonzero(free)[order[:left]]] += 1
        sizes = np.minimum(sizes + share, n_items)
        left = n_choices - sizes.sum()
    return sizes
