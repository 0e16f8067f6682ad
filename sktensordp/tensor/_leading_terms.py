"""Leading terms of the residuals of a matrix fit, from which CP terms start.

The leading singular vectors of the residuals are the structure that the fit still
lacks. Residuals are scaled by the numbers of entries of their row and column, plus the
mean number, so that rows with few entries do not get singular vectors to themselves. To
see whether there is structure, compare with the same residuals with random signs, which
keep every size but no structure (Hong, Sheng and Dobriban 2023, "Selecting the number
of components in PCA via random signflips").

Only residuals of values that a fit may read are read here.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import qr

from ._threads import one_blas_thread

# A singular value of residuals stands out above this multiple of the largest one with
# random signs. With multiples just above one, single terms of noise pass; above 1.2,
# terms of noise-free matrices of rank 10 and 20 are missed.
_TERM_STANDS_OUT = 1.2


class SplitMatrix(Protocol):
    """A matrix whose rows of one mode may be in partitions.

    `LocalMatrix` is in the memory of this process, and `ChunkedMatrix` of completions
    is with the entries in Dask collections.
    """

    @property
    def counts(self) -> list[NDArray[np.integer]]:
        """Number of entries of every row of both modes."""

    @property
    def mode(self) -> int:
        """The mode whose rows may be in partitions."""

    def gram(
        self,
        weights: list[NDArray[np.float64]],
        vectors: NDArray[np.float64],
        flipped: bool,
    ) -> NDArray[np.float64]:
        """A' A times vectors; see `LocalMatrix`."""

    def project(
        self, weights: list[NDArray[np.float64]], vectors: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """A times vectors; see `LocalMatrix`."""


class LocalMatrix(NamedTuple):
    """A sparse matrix of residuals or an incidence, in the memory of this process.

    Attributes
    ----------
    matrix : csr_array of shape (size of `mode`, size of the other mode)
        Its type is float32 or float64.
    counts : list of ndarray of shape (size of the mode,)
        Number of entries of every row of both modes.
    mode : int
        The mode whose rows may be in partitions, if the entries are elsewhere; products
        are by rows of the other mode.
    """

    matrix: sparse.csr_array
    counts: list[NDArray[np.integer]]
    mode: int = 0

    def gram(
        self,
        weights: list[NDArray[np.float64]],
        vectors: NDArray[np.float64],
        flipped: bool,
    ) -> NDArray[np.float64]:
        """A' A times vectors; A is the scaled matrix, with the rows of `mode`.

        With `flipped`, every entry gets a random sign.
        """
        matrix = with_random_signs(self.matrix, 0) if flipped else self.matrix
        own, other = weights
        # All products at once would take as much memory as many entries.
        parts = np.split(vectors, range(16, vectors.shape[1], 16), axis=1)
        return np.concatenate(
            [scaled_gram(matrix, own, other, part) for part in parts], axis=1
        )

    def project(
        self, weights: list[NDArray[np.float64]], vectors: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """A times vectors."""
        own, other = weights
        return own[:, np.newaxis] * product(self.matrix, other, vectors)


def scaled_gram(
    matrix: sparse.csr_array,
    own: NDArray[np.float64],
    other: NDArray[np.float64],
    vectors: NDArray[np.float64],
) -> NDArray[np.float64]:
    """A' A times vectors, for A = diag(own) matrix diag(other)."""
    return other[:, np.newaxis] * product(
        matrix.T, own**2, product(matrix, other, vectors)
    )


def product(
    matrix: sparse.csr_array,
    weights: NDArray[np.float64],
    vectors: NDArray[np.floating],
) -> NDArray[np.floating]:
    """Product of matrix diag(weights) with vectors, in the matrix's type."""
    weighted = weights[:, np.newaxis] * vectors
    # With another type, every product would convert a copy of the matrix.
    return matrix @ weighted.astype(matrix.dtype)


def with_random_signs(
    matrix: sparse.csr_array, seed: int | tuple[int, ...]
) -> sparse.csr_array:
    """The same matrix with random signs of its entries."""
    coins = np.random.default_rng(seed).integers(0, 2, len(matrix.data), dtype=np.int8)
    return sparse.csr_array(
        (matrix.data * (2 * coins - 1), matrix.indices, matrix.indptr),
        shape=matrix.shape,
    )


def leading_terms(
    residuals: SplitMatrix, most: int, *, stand_out: bool = False
) -> list[NDArray[np.float64]]:
    """Rows of terms that follow the residuals, most important term first.

    Parameters
    ----------
    residuals : LocalMatrix or ChunkedMatrix
    most : int
        Number of terms.
    stand_out : bool, default=False
        Whether to leave out the terms whose singular values do not stand out from those
        with random signs.

    Returns
    -------
    rows : list of two ndarray of shape (size of the mode, n_terms)
        Both modes have columns of about the same size. Columns beyond the rank of the
        residuals are zero, unless terms must stand out.
    """
    weights, n_entries = weights_of(residuals)
    values, vectors = _decompose(residuals, weights, most, False)
    if stand_out:
        chance = _decompose(residuals, weights, 1, True)[0][0]
        most = int(np.count_nonzero(values > _TERM_STANDS_OUT * chance))
        values, vectors = values[:most], vectors[:, :most]
    inverse = np.divide(1, values, out=np.zeros_like(values), where=values > 0)
    own = residuals.project(weights, vectors) * inverse
    # With entries at random, the residuals of a term with the rows u and v have the
    # singular vectors d u and e v, where 1 / d and 1 / e are the weights here.
    scale = np.sqrt(values * n_entries)
    rows = []
    for weight, found in zip(weights, (own, vectors), strict=True):
        rows.append(np.zeros((len(found), most)))
        rows[-1][:, : found.shape[1]] = weight[:, np.newaxis] * found * scale
    if residuals.mode:
        rows.reverse()
    # Signs are arbitrary; fix them by the second mode, wherever the entries are.
    largest = np.argmax(np.abs(rows[1]), axis=0)[np.newaxis]
    signs = np.where(np.take_along_axis(rows[1], largest, axis=0) < 0, -1.0, 1.0)
    return [signs * mode_rows for mode_rows in rows]


def weights_of(residuals: SplitMatrix) -> tuple[list[NDArray[np.float64]], int]:
    """Weights of the rows of the split and of the other mode; number of entries."""
    counts = [residuals.counts[k] for k in (residuals.mode, 1 - residuals.mode)]
    weights = [1 / np.sqrt(n + n[n > 0].mean()) for n in counts]
    return weights, int(counts[0].sum())


def _decompose(
    residuals: SplitMatrix,
    weights: list[NDArray[np.float64]],
    n_values: int,
    flipped: bool,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Largest singular values, and vectors of the mode that is not split."""
    gram = partial(residuals.gram, weights, flipped=flipped)
    return leading_vectors(gram, len(weights[1]), n_values)


def leading_vectors(
    gram: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    size: int,
    n_values: int,
    n_vectors: int | None = None,
    n_passes: int = 6,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Largest singular values of a matrix, and its right singular vectors.

    They are found in a block Krylov space (Musco and Musco 2015, "Randomized block
    Krylov methods for stronger and faster approximate singular value decomposition").

    Parameters
    ----------
    gram : callable
        A' A times vectors.
    size : int
        Number of columns of A.
    n_values : int
    n_vectors : int, default=None
        Size of the block; by default, eight more than `n_values`.
    n_passes : int, default=6

    Returns
    -------
    values : ndarray of shape (n_values,)
    vectors : ndarray of shape (size, n_values)
    """
    random = np.random.default_rng(0)
    n_vectors = n_vectors or n_values + 8
    start = random.standard_normal((size, min(n_vectors, size)))
    # The factorisations are small, and threads of BLAS would slow them down.
    with one_blas_thread:
        basis = block = np.linalg.qr(start)[0]
        # Each block is multiplied once: its image is the next block, and its
        # projection.
        images = [gram(block)]
        for _ in range(n_passes):
            image = images[-1][:, : size - basis.shape[1]]
            if not image.shape[1]:
                break
            block, scales = _orthogonal(image, basis)
            # If only rounding errors are new, random vectors continue the basis.
            is_lost = scales <= 1e-10 * np.linalg.norm(image)
            block[:, is_lost] = random.standard_normal((size, is_lost.sum()))
            # Against rounding errors; random vectors have more to remove.
            for _ in range(1 + bool(is_lost.any())):
                block, _ = _orthogonal(block, basis)
            basis = np.concatenate([basis, block], axis=1)
            images.append(gram(block))
        projected = basis.T @ np.concatenate(images, axis=1)
        squares, vectors = np.linalg.eigh((projected + projected.T) / 2)
        order = np.argsort(-squares)[:n_values]
        return np.sqrt(np.maximum(squares[order], 0)), basis @ vectors[:, order]


def _orthogonal(
    vectors: NDArray[np.float64], basis: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """An orthonormal basis of vectors, after their part in another basis is removed.

    Also returns the length of the part that each basis vector added.
    """
    rest = vectors - basis @ (basis.T @ vectors)
    found, triangle, _ = qr(rest, mode="economic", pivoting=True)
    return found, np.abs(np.diag(triangle))
