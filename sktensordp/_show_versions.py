"""Versions of what a fit depends on, for bug reports."""

import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version

_OPTIONAL = (
    "dask", "distributed", "matplotlib", "pandas", "polars", "safetensors", "torch",
)  # fmt: skip


def show_versions() -> None:
    """Print the versions of Python, of this package and of all that it can use.

    It imports no dependency, so it works even if one is broken.

    Examples
    --------
    >>> import sktensordp
    >>> sktensordp.show_versions()
    System:
        python: ...
       machine: ...
    <BLANKLINE>
    Packages:
        sktensordp: ...
    """
    from ._build import build

    print("System:")
    print(f"    python: {sys.version.split()[0]} ({platform.python_implementation()})")
    print(f"   machine: {platform.platform()}")
    print(f"     build: {build()}")
    print("\nPackages:")
    needed = [r for r in requires("sktensordp") or () if "extra ==" not in r]
    names = sorted(re.split(r"[^\w.-]", requirement)[0] for requirement in needed)
    for name in ("sktensordp", *names, *_OPTIONAL):
        try:
            print(f"    {name}: {version(name)}")
        except PackageNotFoundError:
            print(f"    {name}: not installed")
