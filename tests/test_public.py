"""Public classes, methods, parameters and attributes are as `tests/public.txt` says.

    python -m tests.test_public

writes the file anew, after a change that users are meant to see.
"""

import inspect
from functools import cached_property
from pathlib import Path

from tests.support.public import annotated, function_of, public

STORED = Path(__file__).with_name("public.txt")


def described(function, name):
    """A function with its parameters and their defaults."""
    signature = inspect.signature(function)
    bare = [
        p.replace(annotation=inspect.Parameter.empty)
        for p in signature.parameters.values()
        if p.name not in ("self", "cls")
    ]
    plain = signature.replace(
        parameters=bare, return_annotation=inspect.Signature.empty
    )
    return f"{name}{plain}"


def members(cls):
    """The methods, properties and attributes of a class."""
    start = function_of(inspect.getattr_static(cls, "__init__"))
    parameters = inspect.signature(start).parameters if start else ()
    for name in sorted({*dir(cls), *annotated(cls)} - {*parameters}):
        if name.startswith("_"):
            continue
        found = inspect.getattr_static(cls, name, None)
        function = function_of(found)
        if function is not None and not isinstance(found, property | cached_property):
            yield described(function, name)
        elif function is not None or name in annotated(cls):
            yield name


def snapshot():
    """The public names, one a line."""
    lines = []
    for name, value in public():
        start = getattr(value, "__init__", None) if inspect.isclass(value) else value
        function = function_of(start)
        lines.append(described(function, name) if function else name)
        if inspect.isclass(value):
            lines += [f"{name}.{member}" for member in members(value)]
    return lines


def test_public_names_are_as_stored():
    before, now = STORED.read_text().splitlines(), snapshot()
    gone, new = (
        [n for n in a if n not in b] for a, b in ((before, now), (now, before))
    )
    assert now == before, (
        f"gone: {gone}; new: {new}. If this is meant, run "
        "`python -m tests.test_public`, and say in the changelog what went."
    )


if __name__ == "__main__":
    STORED.write_text("\n".join(snapshot()) + "\n")
