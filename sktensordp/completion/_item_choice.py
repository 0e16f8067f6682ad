"""Choose the items whose co-occurrences are released, from noisy counts.

With more items, the model covers more of the users' choices, but every item adds noise
to the others. So m, the number of items, is chosen to make the product of two expected
shares largest: the share of all choices that are of the m most popular items, and the
share of the eigenvalues of their co-occurrences that the noise leaves. Everything here
is computed from released values.

**Coverage.** The users' choices have noisy counts c, which add up to about
N n_typ^(1/2), by the noisy totals. The share of the first m is their sum over this.

**Eigenvalues.** Let C be the sum of the users' centred products of m items, each of
length 1 at most. For choices that depend on popularity alone, the largest eigenvalue
before centring would be about e = (sum of c^2) / (N coverage): a user's products are
divided by the number of the user's choices among the m items. How it falls from there
was measured: on choices of films, web pages, artists, games and groceries, with 100 to
1,000 items, the first ten eigenvalues of C were e / k times 0.2 to 1.4. So the k-th is
expected to be t_k = 0.5 e / k.

**Noise.** In a symmetric matrix of size m whose cells have independent noise of
standard deviation s, the eigenvector of t is visible if t^2 > m s^2. The noisy
eigenvector then finds t - m s^2 / t of it (Benaych-Georges and Nadakuditi 2011).

Only items whose counts are real take part. If no eigenvalue is expected to be visible,
no item does.

**Users per cell.** For some choices, the expected eigenvalues are too large, above all
if users with long histories choose among many items. So m is at most 7 (N / s)^(1/2):
N users add vectors of length 1 to a matrix of m^2 cells, whose noise has the standard
deviation s.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

# Largest eigenvalue, in units of what popularity would give.
_FIRST = 0.5
# Expected share of items that nobody chose among those whose counts are called real.
_NOT_REAL = 0.15
# With fewer items, popularity is better.
_LEAST_ITEMS = 50
# Largest number of items, in units of the root of users over noise. Fitted to choices
# of films, web pages, artists, games and groceries, and to synthetic ones of 10, 50 and
# 100 items a user.
_MOST_ITEMS = 7.0


def number_of_items(
    counts: NDArray[np.float64],
    counts_noise: float,
    products_noise: float,
    n_users: float,
    typical_size: float,
    most: int,
) -> int:
    """Choose how many of the most popular items take part.

    Parameters
    ----------
    counts : ndarray of shape (n_items,)
        Noisy weighted counts of all items, in descending order.
    counts_noise, products_noise : float
        Standard deviations of the noise in a count, and in a cell of the products.
    n_users, typical_size : float
        Noisy number of users, and noisy typical number of their choices.
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
    enough = int(_MOST_ITEMS * np.sqrt(n_users / products_noise))
    n_best = min(n_real, max(enough, least))
    m = np.arange(1, n_best + 1)
    counts = counts[:n_best]
    coverage = np.cumsum(counts) / (n_users * np.sqrt(typical_size))
    coverage = np.clip(coverage, 1e-300, 1.0)
    squares = np.maximum(np.cumsum(counts**2) - m * counts_noise**2, counts_noise**2)
    strength = _FIRST * squares / (n_users * coverage) / (products_noise * np.sqrt(m))
    n_visible = np.minimum(strength, m).astype(int)
    # The sum of t_k - m s^2 / t_k over the visible k, in units of the first.
    without_noise = np.append(0.0, np.cumsum(1 / m))[n_visible]
    kept = without_noise - n_visible * (n_visible + 1) / 2 / strength**2
    value = np.where(m >= least, coverage * kept, 0.0)
    best = int(np.argmax(value))
    return int(m[best]) if value[best] > 0 else 0


def _n_real(counts: NDArray[np.float64], noise: float) -> int:
    """Number of items whose counts are real (Benjamini and Hochberg 1995)."""
    by_chance = len(counts) * ndtr(-counts / noise)
    rank = np.arange(1, len(counts) + 1)
    return int(rank[by_chance <= _NOT_REAL * rank].max(initial=0))
