"""Modules that an extra installs, imported when they are first needed."""

from importlib import import_module
from typing import Any


def imported(module: str, extra: str) -> Any:
    """A module that an extra of this package installs.

    Raises
    ------
    ModuleNotFoundError
        If it is not installed; the message says how to install it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        name = module.partition(".")[0]
        raise ModuleNotFoundError(
            f"This needs {name}, which is not installed, or is too old: "
            f'pip install "sktensordp[{extra}]"',
            name=module,
        ) from error
