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

from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.privacy import epsilon_for_accuracy
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
    sections: [...page.querySelectorAll(`.class > dd > dl > dt,
      .class > dd > .rubric`)].map(
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
def ask(site, tmp_path_factory):
    """Open a page of our own beside the site in Chromium, and get what it posts."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("Chromium is not installed")

    def ask(page):
        (site / "asked.html").write_text(page)
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
        return found

    return ask


@pytest.fixture(scope="module")
def answer(site, ask):
    """What Chromium finds on every page of the site, by "PAGE at WIDTH"."""
    pages = [
        path.relative_to(site).as_posix()
        for path in sorted(site.rglob("*.html"))
        if 'class="bd-article"' in path.read_text()
    ]
    found = ask(ASKED.replace("WIDTHS", str(list(WIDTHS))).replace("PAGES", str(pages)))
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


# A page that moves the sliders of playground.md, and posts what they show.
PLAYED = """<!doctype html><meta charset="utf-8"><body><iframe id="frame"></iframe>
<script>
const frame = document.getElementById("frame");
frame.onload = async () => {
  const page = frame.contentDocument, answer = {};
  const form = page.querySelector("form.playground");
  answer.hidden = form.hidden;
  answer.curve = form.querySelector(".low").getAttribute("d").length;
  for (const [epsilon, users] of MOVES) {
    form.elements.epsilon.value = Math.log2(epsilon);
    form.elements.users.value = Math.log10(users);
    form.elements.epsilon.dispatchEvent(new Event("input", {bubbles: true}));
    const shown = [...form.querySelectorAll("output")];
    answer[epsilon + " " + users] = Object.fromEntries(
      shown.map((output) => [output.name, output.value]));
  }
  await fetch("/answer", {method: "POST", body: JSON.stringify(answer)});
};
frame.src = "playground.html";
</script>"""
# Epsilons with the errors that are measured, interpolated or unknown there.
MOVES = [(0.25, 10), (0.5, 1000), (4, 100), (8, 1_000_000), (16, 100)]


@pytest.mark.slow
def test_the_sliders_show_what_the_library_says(ask):
    answer = ask(PLAYED.replace("MOVES", json.dumps(MOVES)))
    assert answer["hidden"] is False
    assert answer["curve"] > 1000
    runs = json.loads((ROOT / "doc" / "results.json").read_text())["runs"]
    table = runs["ratings"]["tables"][1]
    place = table["head"][1].index("auto")
    films = {float(epsilon): cells[place] for epsilon, cells in table["rows"]}
    douban = dict(runs["published"]["tables"][0]["rows"])["douban"]
    for epsilon, users in MOVES:
        shown = answer[f"{epsilon:g} {users}"]
        assert float(shown["epsilon-is"]) == epsilon
        assert shown["users-are"] == f"{users:,}"
        rating, mean, total = (
            float(shown[name].split()[0]) for name in ("noise", "mean", "sum")
        )
        one = LaplaceMechanism(epsilon, bounds=(0.5, 5)).fit([[3.0]])
        once = LaplaceMechanism(epsilon, sensitivity=4.5 / users).fit([[3.0]])
        deviation = one.noise_variance_**0.5
        close = partial(pytest.approx, rel=0.05, abs=0.005)
        assert rating == close(deviation)
        assert mean == close(deviation / users**0.5)
        assert total == close(once.noise_variance_**0.5)
        for name, group in (("guess", 1), ("guess-ten", 10)):
            right = float(shown[name].strip("%")) / 100
            # Never understated, and by a tenth of a per cent at most overstated.
            if right < 1:
                assert epsilon_for_accuracy(right) >= group * epsilon
            assert epsilon_for_accuracy(right - 0.001) < group * epsilon
        errors = dict(line.rsplit(": ", 1) for line in shown["errors"].splitlines())
        film = films.get(epsilon, "not measured")
        assert errors["MovieLens latest-small"] == film
        if epsilon == 8:  # half way from 4 to 16, on a scale of powers
            middle = (float(douban[1]) + float(douban[2])) / 2
            assert float(errors["Douban"]) == pytest.approx(middle, abs=1e-3)
        elif epsilon < 1:
            assert errors["Douban"] == "not measured"


# A page that searches, and posts the titles of what is found.
SEARCHED = """<!doctype html><meta charset="utf-8"><body><iframe id="frame"></iframe>
<script>
const frame = document.getElementById("frame");
frame.onload = async () => {
  const shown = () => [...frame.contentDocument.querySelectorAll("#search-results a")];
  for (let tries = 0; tries < 600 && shown().length < 3; tries++) {
    await new Promise((done) => setTimeout(done, 100));
  }
  const found = shown().map((link) => link.getAttribute("href"));
  await fetch("/answer", {method: "POST", body: JSON.stringify({found})});
};
frame.src = "search.html?q=new+user";
</script>"""


@pytest.mark.slow
def test_a_search_for_new_users_leads_to_production(ask):
    first, *others = ask(SEARCHED)["found"]
    assert first.startswith("production.html")
    assert others


PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "doc").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        made = target.startswith("auto_examples/")
        if not made and not target.startswith("http"):
            assert (page.parent / target).exists(), target
