"""Processes of the benchmarks, and environments in which other libraries run."""

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any


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


def environments(folder: Path, requirements: dict[str, list[str]]) -> dict[str, Path]:
    """Interpreters by library, each with packages of its own."""
    return {
        library: environment(folder.absolute(), library, packages)
        for library, packages in requirements.items()
    }


def threads(n: int) -> dict[str, str]:
    """Variables that let a process and its libraries use `n` threads."""
    names = "OMP", "OPENBLAS", "MKL", "NUMBA", "LK"
    return {f"{of}_NUM_THREADS": str(n) for of in names}


def answers(
    python: str | Path, script: str, *arguments: Any, **variables: str
) -> Iterator[Any]:
    """Lists and dicts that a script prints as JSON, in a process of its own.

    They come as they are printed, one a line; other lines are a library's own.
    """
    command = [str(python), script, *map(str, arguments)]
    environ = {**os.environ, **variables}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environ
    ) as process:
        for line in process.stdout or ():
            if line[0] in "[{":
                yield json.loads(line)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
