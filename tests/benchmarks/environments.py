"""Environments of other libraries, each with its own packages."""

import subprocess
import sys
import venv
from pathlib import Path


def environment(folder: Path, library: str, packages: list[str]) -> Path:
    """The interpreter of a library's environment, which is made if it is missing.

    One whose installation did not end is made again.

    Parameters
    ----------
    folder : Path
        Where the environments are.
    library : str
    packages : list of str
        What pip installs.

    Returns
    -------
    python : Path
    """
    home = folder / library
    python = home / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    installed = home / "installed"
    if not installed.exists():
        venv.create(home, with_pip=True, clear=True)
        install = [python, "-m", "pip", "install", "--quiet", *packages]
        subprocess.run(install, check=True)
        installed.touch()
    return python
