"""``python -m sktensordp.completion`` compiles the kernels of fits and caches them."""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import CPCompletion, ImplicitCompletion, TuckerCompletion

# From 10,000 entries of a tensor, and 200,000 of a matrix, a fit calls other kernels.
_SHAPE, _FEW, _TENSOR, _MANY = (400, 600), 2_000, 12_000, 210_000


def _entries(n: int, n_modes: int = 2) -> tuple[Any, Any]:
    """Coordinates and values of a fit."""
    rng = np.random.default_rng(0)
    shape = (*_SHAPE, 3)[:n_modes]
    X = np.column_stack([rng.integers(size, size=n) for size in shape])
    return X, rng.integers(1, 6, size=n).astype(float)


def _ratings(n: int, n_modes: int = 2, *, epsilon: float = 1.0) -> None:
    X, y = _entries(n, n_modes)
    shape = (*_SHAPE, 3)[:n_modes]
    model = CPCompletion(
        rank=2,
        epsilon=epsilon,
        levels=range(1, 6),
        shape=shape,
        max_iter=7,
    )
    model.fit(X, y).predict(X[:5], return_std=True)


def _tucker() -> None:
    model = TuckerCompletion(rank=2, levels=range(1, 6), shape=_SHAPE, max_iter=7)
    model.fit(*_entries(_FEW))


def _choices() -> None:
    X, _ = _entries(_MANY)
    ImplicitCompletion(epsilon=4.0, shape=_SHAPE).fit(X).sample_users(9)


_FITS: dict[str, Callable[[], None]] = {
    "ratings": lambda: _ratings(_FEW),
    "many ratings": lambda: _ratings(_MANY, epsilon=16.0),
    "ratings in three modes": lambda: _ratings(_TENSOR, 3),
    "ratings, Tucker": _tucker,
    "choices": _choices,
}


def main() -> None:
    """Fit one model of each kind to random numbers; print where the kernels are."""
    argparse.ArgumentParser(
        prog="python -m sktensordp.completion",
        description="Compile the kernels of completions, and store them.",
    ).parse_args()
    warnings.simplefilter("ignore")
    for number, (name, fit) in enumerate(_FITS.items(), start=1):
        start = time.perf_counter()
        fit()
        seconds = time.perf_counter() - start
        print(f"{number} of {len(_FITS)}: {name}, {seconds:.1f} s", flush=True)
    from ..tensor.kernels._rows import product_sums

    folder = product_sums.stats.cache_path
    if folder is not None and Path(folder).exists():
        print(f"Compiled kernels are in {folder}")
    else:
        print("No folder is writable, so every process compiles anew. Set the variable")
        print("NUMBA_CACHE_DIR to one that is.")


if __name__ == "__main__":
    main()
