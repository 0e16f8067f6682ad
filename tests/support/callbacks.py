"""scikit-learn's callbacks, which it has from version 1.9 on."""

from importlib.util import find_spec

import pytest

__all__ = ["HAS_CALLBACKS", "ProgressBar", "needs_callbacks"]

HAS_CALLBACKS = find_spec("sklearn.callback") is not None
if HAS_CALLBACKS:
    from sklearn.callback import ProgressBar
else:
    ProgressBar = None
needs_callbacks = pytest.mark.skipif(
    not HAS_CALLBACKS, reason="this version of scikit-learn has no callbacks"
)
