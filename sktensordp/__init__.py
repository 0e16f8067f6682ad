"""Differential privacy for tensors, as scikit-learn estimators."""

__version__ = "0.1.0"
