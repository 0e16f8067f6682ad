"""Compiled loops over entries and rows: arrays in, arrays out.

Importing this package imports numba. The kernels release the interpreter's lock, so
that ordinary threads can share the work. They do not use numba's own thread pool, which
would collide with forks and with other threads.
"""

from collections.abc import Callable
from typing import Any

import numba

# The compiler may reorder sums to use vector instructions; NaN and infinity keep their
# meaning.
_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": {"reassoc", "contract"}}


def compiled(function: Callable[..., object]) -> Any:
    """Compile a function on its first call; cache it on disk if that is writable."""
    try:
        return numba.njit(function, cache=True, **_OPTIONS)
    except RuntimeError:
        return numba.njit(function, **_OPTIONS)
