"""Randomizers that add noise to samples, tile by tile, each from its own stream.

The noise of a tile is a function of the key of the release and the number of the tile.
It does not depend on the order of the tiles or on the number of threads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._random import NoiseStreams
from .._sklearn_compat import effective_n_threads
from ..noise import GaussianLattice, LaplaceLattice
from ..privacy.calibration._sensitivity import SensitivitySet
from ..tensor import mode_products
from ..tensor._threads import in_threads

_TILE = 2**16


def _slices(size: int, length: int) -> list[slice]:
    """Slices of at most `length` that cover range(size)."""
    return [slice(i, min(i + length, size)) for i in range(0, size, length)]


def sample_chunks(samples: NDArray[np.floating]) -> list[slice]:
    """Slices of whole samples, of some 2^16 entries each."""
    n_samples, n_entries = samples.shape
    return _slices(n_samples, max(1, _TILE // n_entries))


def by_tiles(
    randomize_tile: Callable[..., NDArray[Any]],
    samples: NDArray[np.floating],
    streams: NoiseStreams | None,
    *,
    domain: SensitivitySet | None = None,
    whole_samples: bool = False,
) -> NDArray[np.floating]:
    """Apply a function to all tiles of the samples, on the available threads.

    Parameters
    ----------
    randomize_tile : callable
        Takes the values of a tile, the random bits for this tile, and its columns as a
        slice.
    samples : ndarray of shape (n_samples, n_entries), float32 or float64
    streams : NoiseStreams or None
        None if the function draws nothing; its bits are then None.
    domain : SensitivitySet, default=None
        The samples are clipped to it first.
    whole_samples : bool, default=False
        Whether a tile has all columns.

    Returns
    -------
    released : ndarray of the shape and type of `samples`
    """
    released = np.empty_like(samples)
    spans = [slice(None)] if whole_samples else _slices(samples.shape[1], _TILE)
    tiles = [(rows, columns) for rows in sample_chunks(samples) for columns in spans]
    fractions = None if domain is None else domain.segments(samples)

    def work(number: int) -> None:
        rows, columns = tiles[number]
        bits = None if streams is None else streams.stream(number)
        tile = samples[rows, columns]
        if domain is not None:
            of_rows = None if fractions is None else fractions[rows]
            tile = domain.clip(tile, columns, of_rows)
        released[rows, columns] = randomize_tile(tile, bits, columns)

    in_threads(work, range(len(tiles)), effective_n_threads())
    return released


@dataclass(frozen=True)
class Clipping:
    """Samples clipped to the domain, without noise: for epsilon = inf."""

    domain: SensitivitySet

    def randomize(
        self, samples: NDArray[np.floating], streams: NoiseStreams | None
    ) -> NDArray[np.floating]:
        """Clipped samples; `streams` are not used."""
        return by_tiles(lambda tile, *_: tile, samples, None, domain=self.domain)

    def variance(self, samples: NDArray[np.floating]) -> NDArray[np.float64]:
        """Zero for every entry."""
        return np.zeros(samples.shape)


@dataclass(frozen=True)
class AddedNoise:
    """Clipped samples plus independent noise on a lattice."""

    domain: SensitivitySet
    lattice: GaussianLattice | LaplaceLattice

    def randomize(
        self, samples: NDArray[np.floating], streams: NoiseStreams
    ) -> NDArray[np.floating]:
        """Noisy samples.

        Parameters
        ----------
        samples : ndarray of shape (n_samples, n_entries), float32 or float64
        streams : NoiseStreams

        Returns
        -------
        noisy : ndarray of the shape and type of `samples`
        """
        # The lattice itself clips to the box, if there is one.
        ball = None if self.domain.norm_bound is None else self.domain
        return by_tiles(self.lattice.randomize, samples, streams, domain=ball)


@dataclass(frozen=True)
class WhitenedNoise:
    """Correlated noise: whitens samples, adds unit noise, and colours the sum.

    x U^-1 + z is released on a lattice; (x U^-1 + z) U is post-processing. The
    floating-point errors of whitening thus come before the noise, where they are
    bounded and part of the sensitivity.

    Attributes
    ----------
    domain : SensitivitySet
    lattice : GaussianLattice
        Noise of standard deviation 1.
    shape : tuple of int
        Shape of a sample.
    whitening, colouring : tuple of ndarray
        For each mode, the matrix (or the vector of a diagonal matrix) applied before
        and after the noise.
    centre : float or ndarray of shape (n_entries,)
        Subtracted before whitening and added after colouring.
    limit : float
        Centred entries are clipped to [-limit, limit], to bound the errors of the
        products.
    """

    domain: SensitivitySet
    lattice: GaussianLattice
    shape: tuple[int, ...]
    whitening: tuple[np.ndarray, ...]
    colouring: tuple[np.ndarray, ...]
    centre: float | np.ndarray
    limit: float

    def randomize(
        self, samples: NDArray[np.floating], streams: NoiseStreams
    ) -> NDArray[np.floating]:
        """Noisy samples.

        Parameters
        ----------
        samples : ndarray of shape (n_samples, n_entries), float32 or float64
        streams : NoiseStreams

        Returns
        -------
        noisy : ndarray of shape (n_samples, n_coloured), of the type of `samples`
        """
        fractions = self.domain.segments(samples)
        all_columns, number = slice(None), 0
        released: Any = None
        for rows in sample_chunks(samples):
            row_fractions = None if fractions is None else fractions[rows]
            block = self.domain.clip(samples[rows], all_columns, row_fractions)
            block -= self.centre
            np.clip(block, -self.limit, self.limit, out=block)
            white = mode_products(block.reshape(-1, *self.shape), self.whitening)
            flat = np.ascontiguousarray(white).reshape(len(block), -1)
            for columns in _slices(flat.shape[1], _TILE):
                flat[:, columns] = self.lattice.randomize(
                    flat[:, columns], streams.stream(number), columns
                )
                number += 1
            noisy = mode_products(flat.reshape(white.shape), self.colouring)
            noisy = noisy.reshape(len(block), -1)
            noisy += self.centre
            if released is None:
                released = np.empty((len(samples), noisy.shape[1]), samples.dtype)
            released[rows] = noisy
        return released
