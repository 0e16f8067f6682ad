"""Docstrings of public classes begin with what readers look for: the parameters."""

import importlib
import inspect
import re
import warnings

import pytest

from tests import DOC
from tests.support.public import public

CLASSES = {name: value for name, value in public() if inspect.isclass(value)}
SECTION = re.compile(r"^(\w[\w ]*)\n-+$", flags=re.MULTILINE)
ORDER = [
    "Parameters", "Attributes", "Raises", "Warns", "See Also", "Notes", "References",
    "Examples",
]  # fmt: skip
# Attributes that published algorithms and subclasses inherit, which say nothing new.
INHERITED = {
    "levels_", "model_variance_", "offset_", "privacy_guarantee_", "residual_variance_",
}  # fmt: skip


@pytest.mark.parametrize("name", CLASSES)
def test_parameters_come_after_one_paragraph(name):
    text = inspect.getdoc(CLASSES[name])
    first, *_ = SECTION.split(text)
    if "Parameters" in SECTION.findall(text):
        summary, *more = first.strip().split("\n\n")
        assert "\n" not in summary
        assert len(more) <= 1, f"move what follows into Notes: {more[1:]}"
        assert first.count("\n") < 10


@pytest.mark.parametrize("name", CLASSES)
def test_sections_are_in_the_usual_order(name):
    found = SECTION.findall(inspect.getdoc(CLASSES[name]))
    assert found == sorted(found, key=ORDER.index)


@pytest.mark.parametrize("name", CLASSES)
def test_properties_are_among_the_attributes(name):
    """The pages list properties nowhere else."""
    cls = CLASSES[name]
    _, *parts = SECTION.split(inspect.getdoc(cls))
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    listed = sections.get("Parameters", "") + sections.get("Attributes", "")
    names = {
        word
        for line in re.findall(r"^(\w[\w, ]*) :", listed, flags=re.MULTILINE)
        for word in line.split(", ")
    }
    missing = {
        key
        for key, value in inspect.getmembers(cls, lambda m: isinstance(m, property))
        if not key.startswith("_")
        and value.fget.__module__.startswith("sktensordp.")
        and key not in names
    }
    if "papers" in cls.__module__ or "Attributes" not in sections:
        missing -= INHERITED
    assert missing == set()


@pytest.mark.parametrize("name", ["tensor", "measure", "ids"])
def test_what_packages_offer_to_others_says_what_it_is(name, monkeypatch):
    monkeypatch.syspath_prepend(str(DOC))
    with warnings.catch_warnings():  # Sphinx sets filters
        reference = importlib.import_module("reference")
    module = importlib.import_module(f"sktensordp.{name}")
    texts = reference.comments_in(module)
    for one in module.__all__:
        found = getattr(module, one)
        is_made_here = getattr(found, "__module__", "").startswith("sktensordp.")
        assert texts.get(one) or (is_made_here and inspect.getdoc(found)), one
