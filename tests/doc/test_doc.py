"""The documentation builds without a warning, and says what there is."""

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

from tests import ROOT


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
        assert names <= pages or folder.parent.name in ("measure", "noise", "tensor")
    examples = {path.stem for path in (ROOT / "examples").rglob("*.py")}
    assert examples < {path.stem for path in (site / "auto_examples").rglob("*.html")}


# A page that opens all pages of the site in a frame, at each width, and posts what it
# finds there: what is wider than its column and does not scroll, navigation without
# links, images without text, and the header.
ASKED = """<!doctype html><meta charset="utf-8"><body><iframe id="frame"></iframe>
<script>
const frame = document.getElementById("frame");
const scrolls = (element, column) => {
  for (; element && element !== column; element = element.parentElement) {
    if (getComputedStyle(element).overflowX !== "visible") return true;
  }
  return false;
};
const shown = (element) => element.getClientRects().length > 0;
const named = (element) => element.tagName + "." + element.className + ": "
  + (element.innerText || element.alt || "").slice(0, 40);
const wide = (page, selector) => [...page.querySelectorAll(selector)].flatMap(
  (column) => {
    const right = column.getBoundingClientRect().right + 1;
    const parts = column.matches(".bd-article") ? "*" : "a";
    return [...column.querySelectorAll(parts)].filter((element) => shown(element)
      && element.getBoundingClientRect().right > right
      && !element.closest("mjx-container, .visually-hidden")
      && !scrolls(element.parentElement, column)).map(named);
  });
const look = (page, width) => {
  const links = [...page.querySelectorAll(".bd-header .navbar-nav a.nav-link")];
  const navigation = [...page.querySelectorAll("nav.bd-links")];
  return {
    width: page.documentElement.scrollWidth,
    header: page.querySelector(".bd-header").offsetHeight,
    links: links.filter((link) => link.offsetParent).map((a) => a.innerText.trim()),
    wide: wide(page, ".bd-article, .bd-sidebar-primary, .bd-sidebar-secondary"),
    empty: navigation.filter((one) => !one.querySelector("a")).length,
    mute: [...page.images].filter((image) => !image.alt.trim()).map((i) => i.src),
    sections: [...page.querySelectorAll("dl.class > dd > :is(dl > dt, .rubric)")].map(
      (one) => [one.innerText.replace(":", ""), one.getBoundingClientRect().top]),
    dead: [...page.querySelectorAll("table.autosummary td:first-child")]
      .filter((cell) => !cell.querySelector("a")).map((cell) => cell.innerText),
  };
};
(async () => {
  const answer = {};
  for (const width of WIDTHS) {
    frame.width = width;
    frame.height = 800;
    for (const page of PAGES) {
      const loaded = new Promise((done) => { frame.onload = done; });
      frame.src = page;
      await loaded;
      answer[page + " at " + width] = look(frame.contentDocument, width);
    }
  }
  await fetch("/answer", {method: "POST", body: JSON.stringify(answer)});
})();
</script>"""
HEADER = ["Getting started", "User guide", "Examples", "API reference", "Background"]
WIDTHS = 1280, 390


@pytest.fixture(scope="module")
def answer(site, tmp_path_factory):
    """What Chromium finds on every page of the site, by "PAGE at WIDTH"."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("Chromium is not installed")
    pages = [
        path.relative_to(site).as_posix()
        for path in sorted(site.rglob("*.html"))
        if 'class="bd-article"' in path.read_text()
    ]
    asked = ASKED.replace("WIDTHS", str(list(WIDTHS))).replace("PAGES", str(pages))
    (site / "asked.html").write_text(asked)
    found, is_there = {}, threading.Event()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_POST(self):
            found.update(
                json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            )
            self.send_response(200)
            self.end_headers()
            is_there.set()

        def log_message(self, *args):
            pass

    handler = partial(Handler, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        flags = [
            "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--window-size=1600,900",
            f"--user-data-dir={tmp_path_factory.mktemp('browser')}",
        ]  # fmt: skip
        # The port of debugging keeps the browser open until the page has answered.
        address = f"http://127.0.0.1:{server.server_port}/asked.html"
        process = subprocess.Popen(
            [browser, *flags, "--remote-debugging-port=0", address],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert is_there.wait(600), "the browser did not answer"
        finally:
            process.terminate()
            process.wait(30)
            server.shutdown()
    assert len(found) == len(WIDTHS) * len(pages) > 100
    return found


@pytest.mark.slow
def test_the_header_fits_into_one_row(answer):
    for name, page in answer.items():
        # On a phone, the links are behind the menu button.
        assert page["links"] == (HEADER if name.endswith("1280") else []), name
        assert page["header"] < 90, name


@pytest.mark.slow
def test_nothing_is_wider_than_its_column(answer):
    for name, page in answer.items():
        assert page["width"] <= int(name.split()[-1]), name
    assert {name: page["wide"] for name, page in answer.items() if page["wide"]} == {}


@pytest.mark.slow
def test_navigation_leads_somewhere(answer):
    assert [name for name, page in answer.items() if page["empty"]] == []


@pytest.mark.slow
def test_images_have_a_text(answer):
    assert {name: page["mute"] for name, page in answer.items() if page["mute"]} == {}


@pytest.mark.slow
def test_pages_of_classes_begin_with_the_parameters(answer):
    shown = "Parameters", "Attributes", "Methods", "Raises", "Notes", "Examples"
    seen = 0
    for name, page in answer.items():
        places = {}
        for title, top in page["sections"]:
            if title in shown:
                places.setdefault(title, top)
        assert list(places) == sorted(places, key=shown.index), name
        if "Parameters" in places and name.endswith("1280"):
            # Within the first screen.
            assert places["Parameters"] < 800, name
            seen += 1
    assert seen > 40


@pytest.mark.slow
def test_tables_of_the_reference_link_to_what_they_list(answer):
    """Also to methods that are documented on the page of a base."""
    assert {name: page["dead"] for name, page in answer.items() if page["dead"]} == {}


PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "doc").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        made = target.startswith("auto_examples/")
        if not made and not target.startswith("http"):
            assert (page.parent / target).exists(), target
