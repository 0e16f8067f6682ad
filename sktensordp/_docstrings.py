"""Docstrings that share texts: each text is written once and filled in by name."""

import inspect
import re
from collections.abc import Callable, Mapping
from string import Template
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)


def with_texts(texts: Mapping[str, str]) -> Callable[[_Class], _Class]:
    """Class decorator that fills shared texts into a docstring.

    Parameters
    ----------
    texts : mapping of str to str
        Texts by name. In the docstring, ``$name`` stands for a text.

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


def with_sections_of(base: type) -> Callable[[_Class], _Class]:
    """Class decorator that fills parts of a base's docstring into a docstring.

    Parameters
    ----------
    base : type
        The class whose docstring supplies the parts. ``$parameters``, ``$notes`` and so
        on stand for its sections, ``$summary`` and ``$model`` for the two paragraphs
        before them.

    Returns
    -------
    decorator : callable
    """
    shared = inspect.cleandoc(base.__doc__ or "")
    before, *sections = re.split(r"^(\w+)\n-+\n", shared, flags=re.MULTILINE)
    paragraphs = before.strip().split("\n\n")[1:]
    names = ["summary", "model", *(title.lower() for title in sections[::2])]
    texts = (text.strip("\n") for text in [*paragraphs, *sections[1::2]])
    return with_texts(dict(zip(names, texts, strict=True)))
