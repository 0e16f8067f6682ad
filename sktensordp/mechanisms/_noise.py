"""How noise is added to many samples: tile by tile, each from its own stream.

The noise of a tile is a function of the release's key and the tile's number, hence
the same in whatever order and on however many threads the tiles are worked off.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._random import NoiseStreams
from .._sklearn_compat import effective_n_threads
from ..noise import GaussianLattice, LaplaceLattice
from ..privacy.calibration._sensitivity import SensitivitySet
from ..tensor import mode_products

__all__ = [
    "AddedNoise",
    "Clipping",
    "WhitenedNoise",
    "by_tiles",
    "sample_parts",
]

_TILE = 2**16


def _parts(size: int, length: int) -> list[slice]:
    """Slices of at most `length` that cover range(size)."""
    return [slice(i, min(i + length, size)) for i in range(0, size, length)]


def sample_parts(samples: NDArray[np.floating]) -> list[slice]:
    """Slices of whole samples, of some 2^16 entries."""
    n_samples, n_entries = samples.shape
    return _parts(n_samples, max(1, _TILE // n_entries))


def by_tiles(
    of_tile: Callable[..., NDArray[Any]],
    samples: NDArray[np.floating],
    streams: NoiseStreams | None,
    *,
    whole_samples: bool = False,
) -> NDArray[np.floating]:
    """What a function makes of all tiles of samples, on the available threads.

    Parameters
    ----------
    of_tile : callable
        Of a block, its own stream of random bits, and its rows and columns (slices).
    samples : ndarray of shape (n_samples, n_entries), float32 or float64
    streams : NoiseStreams or None
        None where nothing is drawn.
    whole_samples : bool, default=False
        Whether a tile has all columns.

    Returns
    -------
    made : ndarray of the shape and type of `samples`
    """
    made = np.empty_like(samples)
    columns = [slice(None)] if whole_samples else _parts(samples.shape[1], _TILE)
    tiles = [(rows, part) for rows in sample_parts(samples) for part in columns]

    def work(number: int) -> None:
        rows, part = tiles[number]
        bits = None if streams is None else streams.stream(number)
        made[rows, part] = of_tile(samples[rows, part], bits, rows, part)

    with ThreadPoolExecutor(min(effective_n_threads(), len(tiles))) as pool:
        # list() raises what a thread raised.
        list(pool.map(work, range(len(tiles))))
    return made


@dataclass(frozen=True)
class Clipping:
    """Samples moved into the domain, without noise: what epsilon = inf leaves."""

    domain: SensitivitySet

    def randomize(
        self, samples: NDArray[np.floating], streams: NoiseStreams | None
    ) -> NDArray[np.floating]:
        """Clipped samples; `streams` are not used."""
        fractions = self.domain.segments(samples)

        def clipped(
            block: NDArray[np.floating], bits: Any, rows: slice, columns: slice
        ) -> NDArray[np.float64]:
            part = None if fractions is None else fractions[rows]
            return self.domain.clip(block, columns, part)

        return by_tiles(clipped, samples, None)

    def variance(self, samples: NDArray[np.floating]) -> NDArray[np.float64]:
        """No entry has any."""
        return np.zeros(samples.shape)


@dataclass(frozen=True)
class AddedNoise:
    """Clipped samples plus independent noise, on a lattice."""

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
        fractions = self.domain.segments(samples)

        def noisy(
            block: NDArray[np.floating], bits: Any, rows: slice, columns: slice
        ) -> NDArray[np.float64]:
            # A lattice with a range clips to it.
            if fractions is not None:
                block = self.domain.clip(block, columns, fractions[rows])
            return self.lattice.randomize(block, bits, columns)

        return by_tiles(noisy, samples, streams)


@dataclass(frozen=True)
class WhitenedNoise:
    """Correlated noise: unit noise added to whitened samples, and coloured again.

    x U^-1 + z is released on a lattice, and (x U^-1 + z) U computed from it, so that
    the floating-point errors of the products act on the samples before the noise,
    where they are bounded and part of the sensitivity.

    Attributes
    ----------
    domain : SensitivitySet
    lattice : GaussianLattice
        For noise of standard deviation 1.
    shape : tuple of int
        Of a sample.
    whitening, colouring : tuple of ndarray
        A matrix (or the vector of a diagonal) for every mode, applied before and after
        the noise.
    centre : float or ndarray of shape (n_entries,)
        Subtracted before the products and added after them.
    limit : float
        Entries beyond it are moved there, to bound the errors of the products.
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
        everything, number = slice(None), 0
        out: Any = None
        for rows in sample_parts(samples):
            part = None if fractions is None else fractions[rows]
            block = self.domain.clip(samples[rows], everything, part)
            block -= self.centre
            np.clip(block, -self.limit, self.limit, out=block)
            white = mode_products(block.reshape(-1, *self.shape), self.whitening)
            flat = np.ascontiguousarray(white).reshape(len(block), -1)
            for columns in _parts(flat.shape[1], _TILE):
                flat[:, columns] = self.lattice.randomize(
                    flat[:, columns], streams.stream(number), columns
                )
                number += 1
            noisy = mode_products(flat.reshape(white.shape), self.colouring)
            noisy = noisy.reshape(len(block), -1)
            noisy += self.centre
            if out is None:
                out = np.empty((len(samples), noisy.shape[1]), samples.dtype)
            out[rows] = noisy
        return out
