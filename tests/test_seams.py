"""The private names that tests use are in one list: `tests/support/seams.py`."""

import pkgutil
import re
from collections import Counter
from importlib import import_module

import pytest

import sktensordp
from tests import ROOT
from tests.support import points, seams

TEXTS = {
    path.relative_to(ROOT / "tests").as_posix(): path.read_text(encoding="utf-8")
    for path in (ROOT / "tests").rglob("*.py")
}
del TEXTS["test_seams.py"]  # It shows some.
IMPORT = re.compile(r"^ *from (\S+) import (\([^)]*\)|.*)$", re.M)


def imports_of(text):
    """Modules and names that a text imports, each name as it is called there."""
    for module, names in IMPORT.findall(text):
        for name in re.findall(r"(\w+)(?: as \w+)?", names):
            yield module, name


def private_in(text):
    """Private names of the package in a text: imported, or by their whole address."""
    for module, name in imports_of(text):
        if re.match(r"sktensordp\b.*\._", f"{module}.{name}"):
            yield f"{module}.{name}"
    # In `import`, and in strings that say what to import or to replace.
    yield from re.findall(r"(?<!from )\bsktensordp(?:\.\w+)*\._[A-Za-z]\w*", text)


def test_private_names_come_from_one_place():
    found = {file: list(private_in(text)) for file, text in TEXTS.items()}
    assert not {file: names for file, names in found.items() if names}


@pytest.mark.parametrize(
    "text",
    [
        "from sktensordp import _random",
        "from sktensordp._random import NoiseStreams",
        "from sktensordp.noise import laplace_lattice, _lattice as lattice",
        "    from sktensordp.noise._lattice import laplace_lattice",
        "from sktensordp.noise import (\n    laplace_lattice,\n    _lattice,\n)",
        "from sktensordp.privacy.__main__ import main",
        "import sktensordp.noise._lattice as lattice",
        'import_module("sktensordp.noise._lattice")',
        'monkeypatch.setattr("sktensordp.noise._lattice._dense_normal", None)',
    ],
)
def test_private_names_are_found(text):
    assert list(private_in(text))


@pytest.mark.parametrize(
    "text",
    [
        "from sktensordp.noise import laplace_lattice as _lattice",
        "from tests.support.seams import _types",
        "sktensordp.__version__",
    ],
)
def test_other_names_are_not_found(text):
    assert not list(private_in(text))


def test_the_list_is_in_order_and_has_no_name_twice():
    assert list(seams.PLACES) == sorted(seams.PLACES)
    names = Counter(" ".join(seams.PLACES.values()).split())
    names += Counter(re.findall(r" as (\w+)", " ".join(seams.PLACES)))
    assert names.keys() == seams.NAMES.keys()
    assert max(names.values()) == 1


def test_every_name_is_where_the_list_says():
    pytest.importorskip("dask")
    for name in seams.NAMES:
        getattr(seams, name)


def test_every_name_is_used():
    texts = [text for file, text in TEXTS.items() if file != "support/points.py"]
    used = {place.partition(".")[0] for place in points.PLACES.values()}
    for text in texts:
        imported = imports_of(text)
        used |= {name for module, name in imported if module == seams.__name__}
        used |= {*re.findall(r"\bseams\.(\w+)", text)}
    assert not seams.NAMES.keys() - used
    everything = "".join(texts)
    assert not [name for name in points.PLACES if f'"{name}"' not in everything]


def public_modules():
    """Modules whose address has no private part."""
    for module in pkgutil.walk_packages(sktensordp.__path__, "sktensordp."):
        if "._" not in module.name:
            yield import_module(module.name)


def test_no_name_is_public():
    public = {
        (name, id(getattr(module, name)))
        for module in public_modules()
        for name in getattr(module, "__all__", vars(module))
    }
    assert ("laplace_lattice", id(seams.noise_lattice.laplace_lattice)) in public
    assert not [
        name
        for name, (_, attribute) in seams.NAMES.items()
        if (attribute, id(getattr(seams, name))) in public
    ]


def test_what_is_missing_stops_only_who_asks(monkeypatch):
    monkeypatch.setitem(seams.NAMES, "moved", ("_moved", "moved"))
    monkeypatch.setitem(seams.NAMES, "renamed", ("_random", "renamed"))
    with pytest.raises(ImportError, match=r"sktensordp\._moved"):
        from tests.support.seams import moved  # noqa: F401
    with pytest.raises(ImportError, match=r"sktensordp\._random has no renamed"):
        from tests.support.seams import renamed  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name 'unlisted'"):
        from tests.support.seams import unlisted  # noqa: F401
    assert seams.NoiseStreams
    monkeypatch.setitem(points.POINTS, "moved point", "moved.name")
    with pytest.raises(ImportError, match=r"sktensordp\._moved"):
        points.POINTS["moved point"]
    assert points.original("recording")
