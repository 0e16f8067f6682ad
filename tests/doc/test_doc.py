"""The documentation builds without a warning, and says what there is."""

import html
import http.server
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from functools import partial

import pytest

from tests import DOC, ROOT
from tests.support.scripts import load_script


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built documentation; the gallery's examples are shown, and not run."""
    pytest.importorskip("sphinx_gallery")
    # A build writes into its sources: each process of the tests takes a copy.
    source, made = tmp_path_factory.mktemp("source"), ("auto_examples", "modules")
    for name in ("doc", "examples"):
        ignored = shutil.ignore_patterns(*made, "_build", "__pycache__")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for page in ROOT.glob("*.md"):
        shutil.copy(page, source)
    folder = tmp_path_factory.mktemp("site")
    trees = tmp_path_factory.mktemp("trees")
    command = "-m", "sphinx", "-q", "-W", "--keep-going", "-D", "plot_gallery=0"
    finished = subprocess.run(
        [sys.executable, *command, "-d", trees, source / "doc", folder],
        capture_output=True,
        text=True,
        env={**os.environ, "MPLBACKEND": "Agg", "PYTHONWARNINGS": "default"},
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return folder


@pytest.mark.slow
def test_the_documentation_has_every_name_and_example(site):
    pages = {path.stem for path in (site / "modules" / "generated").iterdir()}
    for page in pages:
        module, name = page.rsplit(".", 1)
        assert name in importlib.import_module(module).__all__
    # What users meet; samplers and tensor mathematics are for contributors.
    for folder in (ROOT / "sktensordp").glob("*/__init__.py"):
        module = f"sktensordp.{folder.parent.name}"
        names = {f"{module}.{name}" for name in importlib.import_module(module).__all__}
        assert names <= pages or module in ("sktensordp.noise", "sktensordp.tensor")
    examples = {path.stem for path in (ROOT / "examples").rglob("*.py")}
    assert examples < {path.stem for path in (site / "auto_examples").rglob("*.html")}


# What a browser is asked of a page in a frame of some width.
ASKED = """<!doctype html><body><iframe id="frame" width="{width}" height="800"
src="{page}"></iframe><script>
document.getElementById("frame").onload = (event) => {{
  const page = event.target.contentDocument;
  const visible = [...page.querySelectorAll(".bd-header .navbar-nav a.nav-link")]
    .filter((link) => link.offsetParent !== null).map((link) => link.innerText.trim());
  document.body.innerHTML = `<pre id="answer">${{JSON.stringify({{
    header: page.querySelector(".bd-header").offsetHeight,
    width: page.documentElement.scrollWidth, links: visible,
  }})}}</pre>`;
}};</script>"""
HEADER = ["Getting started", "User guide", "Examples", "API reference", "Background"]


@pytest.fixture
def ask(site, tmp_path):
    """Lay a page out in Chromium, in a frame of some width; what came of it."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("Chromium is not installed")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def answer(page, width):
            # A name of its own, or the browser may take the frame from its cache.
            asked = f"asked_{width}.html"
            (site / asked).write_text(ASKED.format(page=page, width=width))
            flags = [
                "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                "--disable-background-networking", "--window-size=1600,900",
                "--virtual-time-budget=8000",
                f"--user-data-dir={tmp_path / str(width)}",
            ]  # fmt: skip
            address = f"http://127.0.0.1:{server.server_port}/{asked}"
            finished = subprocess.run(
                [browser, *flags, "--dump-dom", address],
                capture_output=True,
                text=True,
                timeout=120,
            )
            (found,) = re.findall(r'<pre id="answer">(.*?)</pre>', finished.stdout)
            return json.loads(html.unescape(found))

        yield answer
        server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    ["index.html", "ratings.html", "modules/index.html", "auto_examples/index.html"],
)
def test_the_header_fits_into_one_row(ask, page):
    wide = ask(page, 1280)
    assert wide["links"] == HEADER
    assert wide["header"] < 90
    assert wide["width"] <= 1280
    phone = ask(page, 390)
    assert phone["links"] == []  # behind the menu button
    assert phone["header"] < 90
    assert phone["width"] <= 390


PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "doc").glob("*.md"))]


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
