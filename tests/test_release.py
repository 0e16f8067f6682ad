"""What the check of a release refuses."""

import re

import pytest

import sktensordp
from tests import ROOT
from tests.support.scripts import load_script

CHECK = load_script(ROOT / "tests" / "check_release.py")
FILES = (
    "pyproject.toml", "CITATION.cff", "SECURITY.md", "doc/changelog.md", CHECK.CHOOSER,
)  # fmt: skip


@pytest.fixture
def ready(tmp_path):
    """The files of this project, as they would be in a release."""
    for name in (*FILES, "sktensordp/__init__.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text((ROOT / name).read_text().replace(".invalid", ".test"))
    change(
        tmp_path,
        "pyproject.toml",
        "[project.urls]\n",
        '[project.urls]\nDocumentation = "https://d.test"\n',
    )
    version = tmp_path / "sktensordp" / "__init__.py"
    version.write_text('__version__ = "3.1.4"\n')
    citation = tmp_path / "CITATION.cff"
    text = re.sub(r"^version: .*$", "version: 3.1.4", citation.read_text(), flags=re.M)
    citation.write_text(text)
    changelog = tmp_path / "doc" / "changelog.md"
    changelog.write_text("# Changelog\n\n## 3.1.4 (2026-12-01)\n")
    return tmp_path


def change(folder, name, old, new):
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))


def test_after_a_release_everything_goes_on():
    """Step 8 of doc/releases.md: a released version never names later code."""
    version = sktensordp.__version__
    changelog = (ROOT / "doc" / "changelog.md").read_text(encoding="utf-8")
    latest, *earlier = re.findall(r"^## (.*)$", changelog, flags=re.M)
    numbers = [tuple(map(int, re.findall(r"\d+", one)[:3])) for one in earlier]
    here = tuple(map(int, re.findall(r"\d+", version)[:3]))
    assert here > max(numbers)
    number = ".".join(map(str, here))
    if version.endswith(".dev0"):
        assert latest == f"Unreleased ({number})"
    else:
        assert version == number
        assert re.fullmatch(rf"{re.escape(number)} \(\d{{4}}-\d\d-\d\d\)", latest)
    minor = ".".join(number.split(".")[:2])
    assert (ROOT / "tests" / "stored" / f"{minor}.pickle.xz").exists()


def test_a_release_that_is_ready_has_no_problems(ready):
    assert CHECK.problems(ready) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        ("pyproject.toml", "https://d.test", "https://d.invalid", "placeholder"),
        ("SECURITY.md", "# Security", "# Security: a@b.invalid", "placeholder"),
        (CHECK.CHOOSER, "https://", "https://d.invalid/", "placeholder"),
        ("pyproject.toml", "Issues = ", "Bugs = ", "no Issues URL"),
        ("pyproject.toml", "email = ", "mail = ", "no author with an address"),
        ("sktensordp/__init__.py", "3.1.4", "3.1.4.dev0", "the version is 3.1.4.dev0"),
        ("CITATION.cff", "version: 3.1.4", "version: 3.1.3", "another version"),
        ("CITATION.cff", "date-released: 2", "date-released: in 2", "no date"),
        ("doc/changelog.md", "3.1.4", "3.1.3", "no section for 3.1.4"),
        ("doc/changelog.md", "# C", "## Unreleased\n# C", "unreleased changes"),
    ],
)
def test_what_is_wrong_is_said(ready, name, old, new, problem):
    change(ready, name, old, new)
    assert any(problem in found for found in CHECK.problems(ready))


def test_the_example_is_that_of_the_readme():
    code = CHECK.example((ROOT / "README.md").read_text())
    assert "CPCompletion" in code
    compile(code, "README.md", "exec")
