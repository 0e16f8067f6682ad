"""Differential privacy for tensors, as scikit-learn estimators."""

from ._show_versions import show_versions

__version__ = "0.2.0.dev0"

__all__ = ["show_versions"]
