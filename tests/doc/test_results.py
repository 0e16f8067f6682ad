"""The figures of the README, the home page and the results come from one file."""

import importlib.util
import json
import re
import sys

import pytest

from tests import DOC, ROOT

RESULTS = json.loads((DOC / "results.json").read_text())


@pytest.fixture
def load(monkeypatch):
    """Load a script of doc/ as a module."""

    def load(name):
        monkeypatch.syspath_prepend(str(DOC))
        spec = importlib.util.spec_from_file_location(name, DOC / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def test_pages_show_what_is_stored(load):
    pages = load("make_pages")
    for page in pages.PAGES:
        text = (ROOT / page).read_text()
        assert pages.filled(text) == text, f"run python doc/make_pages.py: {page}"


@pytest.mark.parametrize("page", ["README.md", "doc/index.md", "doc/results.md"])
def test_measured_errors_are_in_their_places(page, load):
    text = load("make_pages").PLACE.sub("", (ROOT / page).read_text())
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"\b\d+\.\d{3,}\b", text) == []


def test_every_run_is_stored(load):
    runs = load("make_results").RUNS
    stored = {name: run["command"] for name, run in RESULTS["runs"].items()}
    assert stored == runs


def test_every_run_and_picture_is_shown(load):
    pages = load("make_pages")
    text = "".join((ROOT / page).read_text() for page in pages.PAGES)
    for name, command in load("make_results").RUNS.items():
        assert f"`python {command}`" in text, name
    for name in pages.PICTURES:
        assert f"{name}.svg" in text
        assert f"{name}_dark.svg" in text


def test_tables_are_read_from_what_is_printed(load):
    printed = """\
3 fits, mean of 2 splits

by epsilon
                        1         2
input           0.1±0.0 0.20±0.01
  true epsilon          3        inf

epsilon of a row   error  verdict
1                    0.5  false, proved
"""
    first, second = load("make_results").tables_of(printed)
    assert first == {
        "title": "by epsilon",
        "head": ["", ["1", "2"]],
        "rows": [["input", ["0.1±0.0", "0.20±0.01"]], ["true epsilon", ["3", "inf"]]],
    }
    assert second["head"] == ["epsilon of a row", ["error", "verdict"]]
    assert second["rows"] == [["1", ["0.5", "false, proved"]]]


def test_a_run_that_is_stored_is_not_measured_again(load, tmp_path, monkeypatch):
    module = load("make_results")
    (tmp_path / "doc").mkdir()
    (tmp_path / "sktensordp").mkdir()
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(f"print('{name}:  a  b')\n")
    (tmp_path / "doc" / "make_pages.py").write_text("")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "RESULTS", tmp_path / "doc" / "results.json")
    monkeypatch.setattr(module, "RUNS", {"first": "one.py", "second": "two.py"})
    monkeypatch.setattr(module, "commit", lambda: "0123456")
    measure, measured = module.measure, []

    def counted(command, *rest):
        measured.append(command)
        if command == failing:
            raise RuntimeError(command)
        return measure(command, *rest)

    monkeypatch.setattr(module, "measure", counted)
    monkeypatch.setattr(sys, "argv", ["make_results.py", "--jobs", "1"])
    failing = "two.py"
    with pytest.raises(SystemExit):
        module.main()
    failing = None
    module.main()  # goes on with the second
    module.main()  # has nothing to do
    assert measured == ["one.py", "two.py", "two.py"]
    (tmp_path / "one.py").write_text("print('new:  a  b')\n")
    module.main()
    assert measured[3:] == ["one.py"]
    stored = json.loads((tmp_path / "doc" / "results.json").read_text())
    assert list(stored["runs"]) == ["first", "second"]
    assert stored["runs"]["first"]["tables"][0]["head"] == ["new:", ["a", "b"]]
