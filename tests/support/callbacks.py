"""scikit-learn's callbacks, which it has from version 1.9 on."""

import math
from importlib.util import find_spec

import pytest

__all__ = ["HAS_CALLBACKS", "Listener", "ProgressBar", "Silent", "needs_callbacks"]

HAS_CALLBACKS = find_spec("sklearn.callback") is not None
if HAS_CALLBACKS:
    from sklearn.callback import ProgressBar
else:
    ProgressBar = None
needs_callbacks = pytest.mark.skipif(
    not HAS_CALLBACKS, reason="this version of scikit-learn has no callbacks"
)


class Silent:
    """A callback that does nothing; a subclass does something at the end of a task."""

    max_propagation_depth = None

    def setup(self, estimator, context):
        """Nothing to prepare."""

    def teardown(self, estimator, context):
        """Nothing to undo."""

    def on_fit_task_begin(self, estimator, context):
        """Nothing happens before the end of a task."""

    def on_fit_task_end(self, estimator, context):
        """Let the fit go on."""
        return False


class Listener:
    """Counts what a callback hears; may ask for the end."""

    def __init__(self, stop_after=math.inf):
        self.heard, self.stop_after = [], stop_after

    def setup(self, estimator, context):
        self.max_tasks = context.max_subtasks

    def teardown(self, estimator, context):
        self.heard.append("over")

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
        assert X is y is metadata is None
        self.heard.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None):
        assert X is y is metadata is None
        self.heard.append(context.task_name)
        return self.n_tasks >= self.stop_after

    @property
    def n_tasks(self):
        return sum(one in ("sweep", "step") for one in self.heard)
