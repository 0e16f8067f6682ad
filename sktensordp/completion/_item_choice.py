"""Choose the items whose co-occurrences are released, from noisy counts.

More items serve more choices, but every item adds noise to all others. Let C be the sum
of the users' centred products of the m most popular items without noise. In a symmetric
matrix whose cells have independent noise of standard deviation s, a factor of C with
the eigenvalue t can be seen if t^2 > m s^2. What its noisy eigenvector then gets right
has the size t - m s^2 / t (Benaych-Georges and Nadakuditi 2011).

The eigenvalues of C are not known before it is released. They are expected to be
e / sqrt(k) for the k-th largest, up to the 200th, where e = sum of c^2 / N is computed
from the noisy counts c of the m items and the noisy number N of users. So m is the
number that makes the sum over k of (t_k - m s^2 / t_k)^2 largest, among the items whose
counts are real.

What did not help: trying fewer items where noise hides the factors of all real ones
(with 10 or 20 items, recommendations are worse than by popularity, however clear
their factors are), and leaving out of e what the largest of so many noisy counts would
reach by chance.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

# The largest number of factors that is expected.
_MOST_FACTORS = 200
# Expected share of items that nobody chose among those whose counts are called real.
_NOT_REAL = 0.15
# Popularity is better if fewer items are real, or if e is smaller in units of the
# smallest eigenvalue that can be seen.
_LEAST_ITEMS, _LEAST_FACTOR = 40, 0.9


def number_of_items(
    counts: NDArray[np.float64],
    counts_noise: float,
    products_noise: float,
    n_users: float,
    most: int,
) -> int:
    """Choose how many of the most popular items take part.

    Parameters
    ----------
    counts : ndarray of shape (n_items,)
        Noisy weighted counts of all items, in descending order.
    counts_noise, products_noise : float
        Standard deviations of the noise in a count, and in a cell of the products.
    n_users : float
        Noisy number of users.
    most : int
        Largest number of items that may take part.

    Returns
    -------
    m : int
        0 if noise would hide the co-occurrences. Without noise, all items that
        somebody chose, or `most`.
    """
    if not products_noise:
        return min(int(np.count_nonzero(counts > 0)), most)
    n_real = min(_n_real(counts, counts_noise), most)
    least = max(min(_LEAST_ITEMS, (most + 1) // 2), 1)
    if n_real < least:
        return 0
    m = np.arange(least, n_real + 1)
    squares = np.cumsum(counts[:n_real] ** 2)[least - 1 :] - m * counts_noise**2
    first = np.maximum(squares, 1e-300) / n_users
    visible = products_noise * np.sqrt(m)
    strength = first / visible
    n_visible = np.minimum(np.minimum(strength**2, m - 1), _MOST_FACTORS).astype(int)
    # The sum of (t_k - visible^2 / t_k)^2 over the visible factors k.
    k = np.arange(1.0, 1 + _MOST_FACTORS)
    inverse = np.append(0.0, np.cumsum(1 / k))[n_visible]
    gain = first**2 * inverse - 2 * visible**2 * n_visible
    gain += (visible / strength) ** 2 * n_visible * (n_visible + 1) / 2
    best = int(np.argmax(gain))
    if n_visible[best] == 0:
        # The first factor may be just visible, and more items serve more choices.
        best = len(m) - 1
    return int(m[best]) if strength[best] >= _LEAST_FACTOR else 0


def _n_real(counts: NDArray[np.float64], noise: float) -> int:
    """Number of items whose counts are real (Benjamini and Hochberg 1995)."""
    by_chance = len(counts) * ndtr(-counts / noise)
    rank = np.arange(1, len(counts) + 1)
    return int(rank[by_chance <= _NOT_REAL * rank].max(initial=0))
