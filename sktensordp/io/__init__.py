"""Files of fitted models that hold no code."""

from ._file import dump, load

__all__ = ["dump", "load"]
