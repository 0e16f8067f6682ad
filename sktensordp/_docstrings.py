"""Docstrings that share texts: each text is written once and filled in by name."""

import inspect
from collections.abc import Callable, Mapping
from string import Template
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)


def with_texts(texts: Mapping[str, str]) -> Callable[[_Class], _Class]:
    """Class decorator that fills shared texts into a docstring.

    Parameters
    ----------
    texts : mapping of str to str
        Texts by name. The docstring has ``$name`` in the place of a text.

    Returns
    -------
    decorator : callable
    """

    def with_filled_docstring(documented: _Class) -> _Class:
        if documented.__doc__ is not None:  # It is None under python -OO.
            template = Template(inspect.cleandoc(documented.__doc__))
            documented.__doc__ = template.substitute(texts)
        return documented

    return with_filled_docstring
