"""Weights between items from raw choices, for fits that add no noise.

The weights are those of EASE (Steck 2019) with two changes: users with many choices
count less, and the ridge of an item grows with its count. With x the n_u choices of a
user, they regress each item on all others by the matrix ::

    G + kappa sqrt(diag(G)),   G = the sum over users of n_u^-1/2 x x'

and the weights that raise item j are multiplied by (its share of the choices, over the
geometric mean of all shares)^-c. Some choices are hidden to choose kappa and c. So they
are functions of raw choices, as the weights are: nothing here is differentially
private.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import lapack

from ....tensor._choices import Choices

# Values of kappa and c that are compared. Those of `_USUAL` are taken unless others
# find more, by `_SURELY` standard errors of the difference.
_RIDGES, _EXPONENTS, _USUAL = (5.0, 10.0, 20.0, 40.0), (0.0, 0.1, 0.2), (20.0, 0.1)
_SURELY = 1.0
# They are compared on this share of the choices of this many users, who have two or
# more, among the most popular items. Users are asked for `_N_WANTED` items: recall at
# 20 is the usual measure.
_HIDDEN, _N_USERS, _N_POPULAR, _N_WANTED = 0.2, 2000, 1500, 20
# Each choice of a user counts this power of the number of the user's choices.
_OF_SIZE = -0.5
# Number of rows of a matrix that are computed at once.
_N_ROWS = 256


def unprotected_weights(
    choices: Choices, counts: NDArray[np.float64]
) -> NDArray[np.float32]:
    """How much a choice of the row's item raises the score of the column's item.

    Parameters
    ----------
    choices : Choices
        Choices among these items, at least one, each of which somebody chose.
    counts : ndarray of shape (n_items,)
        Weighted counts of the items, descending and positive.

    Returns
    -------
    weights : ndarray of shape (n_items, n_items), float32
        Zeros on the diagonal. The same choices give the same bits.
    """
    ridge, exponent = _best(choices, counts)
    gram = pair_weights(choices, np.maximum(choices.sizes, 1) ** _OF_SIZE)
    weights = _regressed(gram, ridge * np.sqrt(np.diag(gram)))
    weights *= _rarity(counts, exponent)
    return weights


def pair_weights(choices: Choices, weights: NDArray[np.float64]) -> NDArray[np.float32]:
    """Sum over users of their weight for every pair of their items.

    Parameters
    ----------
    choices : Choices
        At least one.
    weights : ndarray of shape (n_users,)
        Positive. They are rounded to 31 bits of the largest cell. Those of users
        without choices are ignored.

    Returns
    -------
    sums : ndarray of shape (n_items, n_items), float32
        Symmetric and, but for the rounding of its cells to single precision, positive
        semidefinite: sums of whole weights are exact, in any order.
    """
    n_items, sizes = choices.n_items, choices.sizes
    of_items = np.bincount(choices.items, np.repeat(weights, sizes), n_items)
    # No cell is larger than the largest one of the diagonal.
    unit = 2.0**31 * (1 - 2.0**-20) / float(of_items.max())
    whole = np.floor(unit * np.where(sizes > 0, weights, 0.0)).astype(np.int32)
    floats = np.empty((n_items, n_items), np.float32)
    for first, sums in choices.pair_sums(whole):
        floats[first : first + len(sums), first:] = sums / unit
    _mirror(floats)
    return floats


def _best(choices: Choices, counts: NDArray[np.float64]) -> tuple[float, float]:
    """Choose kappa and c by hidden choices of some users of the most popular items."""
    n_popular = min(len(counts), _N_POPULAR)
    popular, counts = choices.among(np.arange(n_popular)), counts[:n_popular]
    able = np.flatnonzero(popular.sizes >= 2)
    if len(able) < 2:
        return _USUAL
    rng = np.random.default_rng(0)
    asked = np.sort(rng.choice(able, min(_N_USERS, len(able) // 2), replace=False))
    may_hide = np.repeat(np.isin(np.arange(len(popular.users)), asked), popular.sizes)
    hides = may_hide & (rng.random(len(popular.items)) < _HIDDEN)
    rest = popular.kept(~hides)
    known, hidden = (_rows(part, asked) for part in (rest, popular.kept(hides)))
    n_hidden = hidden.sum(axis=1)
    counted = (n_hidden > 0) & np.any(known, axis=1)
    if not np.any(counted):
        return _USUAL
    known, hidden, n_hidden = known[counted], hidden[counted], n_hidden[counted]
    gram = pair_weights(rest, np.maximum(rest.sizes, 1) ** _OF_SIZE)
    roots = np.sqrt(np.diag(gram))
    # Of some items, all choices are hidden.
    roots = np.maximum(roots, roots[roots > 0].min())
    chosen = sparse.csr_array(known, dtype=np.float32)
    n_wanted = min(_N_WANTED, n_popular)
    recalls = {}
    for ridge in _RIDGES:
        scores = chosen @ _regressed(gram.copy(), ridge * roots)
        for exponent in _EXPONENTS:
            rated = np.where(known, -np.inf, scores * _rarity(counts, exponent))
            top = np.argpartition(-rated, n_wanted - 1, axis=1)[:, :n_wanted]
            n_found = np.take_along_axis(hidden, top, axis=1).sum(axis=1)
            recalls[ridge, exponent] = n_found / np.minimum(n_hidden, n_wanted)
    best = max(recalls, key=lambda values: float(recalls[values].mean()))
    gains = recalls[best] - recalls[_USUAL]
    is_clear = gains.mean() > _SURELY * gains.std() / np.sqrt(len(gains))
    return best if is_clear else _USUAL


def _rows(choices: Choices, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which items the users in some rows chose."""
    return choices.matrix(np.ones(len(choices.items), bool))[rows].toarray()


def _rarity(counts: NDArray[np.float64], exponent: float) -> NDArray[np.float32]:
    """Each count over the geometric mean of all, to the power of minus `exponent`."""
    logs = np.log(counts)
    return np.exp(-exponent * (logs - logs.mean())).astype(np.float32)


def _regressed(
    gram: NDArray[np.float32], ridge: NDArray[np.floating]
) -> NDArray[np.float32]:
    """Regress each item on all others; `gram` is overwritten."""
    gram[np.diag_indices_from(gram)] += ridge
    weights = _inverted(gram)
    weights /= -np.diag(weights)
    np.fill_diagonal(weights, 0.0)
    return weights


def _inverted(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Invert a symmetric, positive definite matrix, which is overwritten.

    If rounding leaves no Cholesky factor in single precision, the inverse is computed
    in double precision, which takes more time and memory.
    """
    diagonal = np.diag(matrix).copy()
    # LAPACK counts cells by columns, so that this triangle is the lower one.
    factor, failed = lapack.spotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
    if failed:
        # The other triangle is as it was.
        matrix = factor
        _mirror(matrix)
        np.fill_diagonal(matrix, diagonal)
        return np.linalg.inv(matrix.astype(np.float64)).astype(np.float32)
    inverse: NDArray[np.float32] = lapack.spotri(factor, lower=1, overwrite_c=1)[0].T
    _mirror(inverse)
    return inverse


def _mirror(matrix: NDArray[np.float32]) -> None:
    """Write the triangle above the diagonal into the one below it."""
    for start in range(0, len(matrix), _N_ROWS):
        stop = start + _N_ROWS
        square = matrix[start:stop, start:stop]
        square[:] = np.triu(square) + np.triu(square, 1).T
        matrix[stop:, start:stop] = matrix[start:stop, stop:].T
