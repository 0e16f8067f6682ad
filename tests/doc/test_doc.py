"""The documentation builds without a warning, and says what there is."""

import importlib
import os
import re
import subprocess
import sys

import pytest

from tests import DOC, ROOT
from tests.support.scripts import load_script


@pytest.mark.slow
def test_the_documentation_builds(tmp_path):
    """All pages; the gallery's examples are shown, and not run."""
    pytest.importorskip("sphinx_gallery")
    command = "-m", "sphinx", "-q", "-W", "--keep-going", "-D", "plot_gallery=0"
    finished = subprocess.run(
        [sys.executable, *command, "-d", tmp_path / "trees", ROOT / "doc", tmp_path],
        capture_output=True,
        text=True,
        env={**os.environ, "MPLBACKEND": "Agg", "PYTHONWARNINGS": "default"},
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    pages = {path.stem for path in (tmp_path / "modules" / "generated").iterdir()}
    for page in pages:
        module, name = page.rsplit(".", 1)
        assert name in importlib.import_module(module).__all__
    # What users meet; samplers and tensor mathematics are for contributors.
    for folder in (ROOT / "sktensordp").glob("*/__init__.py"):
        module = f"sktensordp.{folder.parent.name}"
        names = {f"{module}.{name}" for name in importlib.import_module(module).__all__}
        assert names <= pages or module in ("sktensordp.noise", "sktensordp.tensor")
    examples = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert examples < {path.stem for path in (tmp_path / "auto_examples").iterdir()}


PAGES = [ROOT / "README.md", *sorted((ROOT / "doc").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        made = target.startswith("auto_examples/")
        if not made and not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_results_are_of_the_experiments_that_there_are():
    module = load_script(DOC / "make_results.py")
    commands = [one for part in module.EXPERIMENTS.values() for one in part]
    page = (DOC / "results.md").read_text()
    assert re.findall(r"`python examples/(.*?)`\]", page) == commands
