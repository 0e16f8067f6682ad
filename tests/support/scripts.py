"""Scripts of examples/ and doc/, which are no modules of a package."""

import runpy
from types import SimpleNamespace

__all__ = ["load_script"]


def load_script(path):
    """The names that a script defines, as attributes; its main part is not run."""
    return SimpleNamespace(**runpy.run_path(str(path), run_name=path.stem))
