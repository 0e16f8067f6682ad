"""The regression of one block of a decomposition on all others, from noisy sums.

A block is the rows of one mode. They are fitted by ridge regression: the residuals of
the biases are regressed on factors of the other modes that are public or were released
before. The core of a Tucker decomposition is a block of one row, which holds all
entries. Noise is added either to the right-hand sides of the normal equations or to
their solutions. Both are linear in the residuals, with known weights:

    right-hand side   b_i = sum_e h_e r_e
    solution          u_i = sum_e M_i^-1 h_e r_e,   M_i = sum_e h_e h_e^T + lambda I

The residuals r_e are clipped to [-c, c]. Replacing one value changes only the sums of
its own row, by at most 2 c max_e ||q_e||_1, where q_e is h_e or M_i^-1 h_e and the
maximum is over the entries of the row. Laplace noise of that scale makes a block
pure-DP; the proof is in doc/completion_proofs.md.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...measure import NoisySums, row_sums
from ...measure._noisy_sums import OfChunk
from ...tensor import CPForm, TuckerForm, row_posterior
from .._domain import Domain
from .._entries import Entries, present

# Largest number of elements of a matrix of regressors in memory.
_LARGEST_CHUNK = 2**21


@dataclass(frozen=True)
class Residuals:
    """Residuals of a model, clipped and scaled to [-1, 1].

    Attributes
    ----------
    domain : Domain
        Domain of the values.
    offset : float
    model : Rows
    clip : float
        Largest absolute residual before scaling; it becomes 1.
    """

    domain: Domain
    offset: float
    model: Any
    clip: float

    def __call__(self, entries: Entries) -> NDArray[np.float64]:
        residuals = self.domain.clip(entries.values.astype(float))
        residuals -= self.offset
        residuals -= self.model.predict(entries.coordinates)
        return np.clip(residuals / self.clip, -1.0, 1.0)


@dataclass(frozen=True, eq=False)
class Block:
    """One block of a form, and what it is regressed on; all of it is public.

    Attributes
    ----------
    form : CPForm or TuckerForm
    number : int
        Number of the block in the form.
    shape : tuple of (int, int)
        Numbers of its rows and columns.
    others : list of ndarray or None
        All blocks of the form, with None for this one.
    inverses : ndarray of shape (n_rows, n_columns, n_columns), default=None
        M^-1 of every row, if the weights are M^-1 h rather than h.
    """

    form: CPForm | TuckerForm
    number: int
    shape: tuple[int, int]
    others: list[Any]
    inverses: NDArray[np.floating] | None = None

    def weights(
        self, entries: Entries
    ) -> tuple[NDArray[np.integer], NDArray[np.integer], OfChunk]:
        """The rows of a chunk of the data, the place of each entry's, and weights q."""
        of_blocks = self.form.rows(entries.coordinates)
        rows, places = present(of_blocks[self.number], self.shape[0])
        inverses = None if self.inverses is None else self.inverses[rows]

        def weights(chunk: slice) -> NDArray[np.floating]:
            of_chunk = [block_rows[chunk] for block_rows in of_blocks]
            regressors = self.form.regressors(self.number, self.others, of_chunk)
            if inverses is None:
                return regressors
            return np.einsum("eab,eb->ea", inverses[places[chunk]], regressors)

        return rows, places, weights

    def chunks(self, n_entries: int) -> list[slice]:
        """Slices of the entries whose weights fit into memory."""
        size = max(_LARGEST_CHUNK // self.shape[1], 1)
        return [slice(start, start + size) for start in range(0, n_entries, size)]


def regression_on_others(
    entries: Any,
    block: Block,
    residuals_of: Callable[[Entries], NDArray[np.float64]],
    noise: NoisySums,
    streams: Any,
    variance: float,
    ridge: float | None = None,
) -> NDArray[np.float64]:
    """Release noisy sums of a block, and return the posterior means of its rows.

    Parameters
    ----------
    entries : Entries or PartitionedEntries
    block : Block
    residuals_of : callable
        Gives residuals in [-1, 1].
    noise : NoisySums
    streams : NoiseStreams or None
    variance : float
        Variance of the residuals around the regression.
    ridge : float, default=None
        Noise is added to the solutions of regressions with this ridge; None for their
        right-hand sides.
    """
    n_rows, n_columns = block.shape
    design = np.zeros((n_rows, n_columns, n_columns))
    for rows, products in entries.ask(_products, block):
        design[rows] += products
    squares = design
    if ridge is not None:
        inverses = np.linalg.inv(design + ridge * np.eye(n_columns))
        block = replace(block, inverses=inverses)
        design = inverses @ design
        squares = design @ inverses
    sums, scales = noisy_sums(entries, block, residuals_of, noise, streams)
    of_noise = scales**2 * noise.noise_variance
    return row_posterior(
        sums * scales[:, np.newaxis], design, squares, of_noise, variance
    )


def noisy_sums(
    entries: Any,
    block: Block,
    residuals_of: Callable[[Entries], NDArray[np.float64]],
    noise: NoisySums,
    streams: Any,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Release noisy sums of the residuals, each over the scale of its row."""
    longest = np.zeros(block.shape[0])
    for rows, lengths in entries.ask(_longest, block):
        longest[rows] = np.maximum(longest[rows], lengths)
    sums, scales = np.zeros(block.shape), scales_of(longest)
    step = None if noise.lattice is None else noise.lattice.step
    for rows, added in entries.ask(_contributed, block, residuals_of, scales, step):
        sums[rows] += added
    return noise.randomize([sums], streams)[0], scales


def scales_of(longest: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scales of the rows, over which contributions have an L1 norm of at most 1/2.

    Parameters
    ----------
    longest : ndarray of shape (n_rows,)
        Largest L1 norm of the weights of an entry; residuals are in [-1, 1].
    """
    return np.where(longest > 0, 2 * longest, 1.0)


def _products(
    entries: Entries, block: Block
) -> tuple[NDArray[np.integer], NDArray[np.float64]]:
    """Rows of a chunk, and sums of the outer products of their weights."""
    (rows, places, weights), n_columns = block.weights(entries), block.shape[1]
    if block.shape[0] == 1:
        total = np.zeros((1, n_columns, n_columns))
        for chunk in block.chunks(len(places)):
            part = weights(chunk)
            total += part.T @ part
        return rows, total[: len(rows)]

    def outer_products(chunk: slice) -> NDArray[np.floating]:
        own = weights(chunk)
        outer = own[:, :, np.newaxis] * own[:, np.newaxis, :]
        return outer.reshape(-1, n_columns**2)

    sums = row_sums(places, (len(rows), n_columns**2), outer_products)
    return rows, sums.reshape(-1, n_columns, n_columns)


def _longest(
    entries: Entries, block: Block
) -> tuple[NDArray[np.integer], NDArray[np.float64]]:
    """Rows of a chunk, and for each the largest L1 norm of the weights of an entry."""
    rows, places, weights = block.weights(entries)
    longest = np.zeros(len(rows))
    for chunk in block.chunks(len(places)):
        lengths = np.abs(weights(chunk)).sum(axis=1)
        np.maximum.at(longest, places[chunk], lengths)
    return rows, longest


def _contributed(
    entries: Entries,
    block: Block,
    residuals_of: Callable[[Entries], NDArray[np.float64]],
    scales: NDArray[np.float64],
    step: float | None,
) -> tuple[NDArray[np.integer], NDArray[np.float64]]:
    """Rows of a chunk, and sums of their contributions, over the scales of the rows."""
    rows, places, weights = block.weights(entries)
    residuals = residuals_of(entries) / scales[rows][places]

    def contributions(chunk: slice) -> NDArray[np.floating]:
        weighted = weights(chunk) * residuals[chunk, np.newaxis]
        # Keeps the bound where weights nearly cancel and rounding lengthens them.
        excess = np.maximum(2 * np.abs(weighted).sum(axis=1), 1.0)
        return weighted / excess[:, np.newaxis]

    return rows, row_sums(places, (len(rows), block.shape[1]), contributions, step)
