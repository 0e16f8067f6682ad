"""Compiled loops over entries, rows and units: arrays in, arrays out.

Importing this package imports numba. The kernels release the interpreter's lock, so
that ordinary threads can share the work; numba's own thread pool, which would collide
with forks and with other threads, is not used.
"""

from collections.abc import Callable
from typing import Any

import numba

# Sums may be reordered, so that they use vector instructions; NaN and infinity keep
# their meaning.
_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": {"reassoc", "contract"}}


def compiled(function: Callable[..., object]) -> Any:
    """Compile a function on its first call; cache it on disk if that is writable."""
    try:
        return numba.njit(function, cache=True, **_OPTIONS)
    except RuntimeError:
        return numba.njit(function, **_OPTIONS)
