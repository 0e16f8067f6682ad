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
import time
from functools import partial
from pathlib import Path

import pytest

from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.privacy import epsilon_for_accuracy
from tests import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built documentation; the gallery's examples are shown, and not run.

    The first process of a run that needs it builds it, for all of them.
    """
    pytest.importorskip("sphinx_gallery")
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if is_worker else shared
    folder, built = shared / "site", shared / "site-is-built"
    try:
        folder.mkdir()
    except FileExistsError:
        for _ in range(600):
            if built.exists():
                return folder
            time.sleep(1)
        raise
    # A build writes into its sources, so it takes a copy.
    source, made = tmp_path_factory.mktemp("source"), ("auto_examples", "modules")
    for name in ("doc", "examples"):
        ignored = shutil.ignore_patterns(*made, "_build", "__pycache__")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    recipes = Path("tests", "benchmarks", "audit_recipes.py")  # a page shows them
    (source / recipes).parent.mkdir(parents=True)
    shutil.copy(ROOT / recipes, source / recipes)
    for page in [*ROOT.glob("*.md"), ROOT / "pyproject.toml"]:
        shutil.copy(page, source)
    trees = tmp_path_factory.mktemp("trees")
    command = "-m", "sphinx", "-q", "-W", "--keep-going", "-D", "plot_gallery=0"
    finished = subprocess.run(
        [sys.executable, *command, "-d", trees, source / "doc", folder],
        capture_output=True,
        text=True,
        env={**os.environ, "MPLBACKEND": "Agg", "PYTHONWARNINGS": "default"},
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    built.touch()
    return folder


@pytest.mark.slow
def test_the_documentation_has_every_name_and_example(site):
    documented = {}
    for path in (site / "modules" / "generated").iterdir():
        module, name = path.stem.rsplit(".", 1)
        assert name in importlib.import_module(module).__all__
        assert name not in documented, "one page for one thing"
        documented[name] = getattr(importlib.import_module(module), name)
    # What users meet; samplers and tensor mathematics are for contributors.
    for folder in (ROOT / "sktensordp").glob("*/__init__.py"):
        if folder.parent.name in ("ids", "measure", "noise", "tensor"):
            continue
        module = importlib.import_module(f"sktensordp.{folder.parent.name}")
        for name in module.__all__:
            assert documented[name] is getattr(module, name)
    examples = {path.stem for path in (ROOT / "examples").rglob("*.py")}
    # A program to copy, and no page; doc/production.md walks through it.
    examples -= {path.stem for path in (ROOT / "examples" / "service").iterdir()}
    examples = {name for name in examples if not name.startswith("_")}  # shared code
    assert examples < {path.stem for path in (site / "auto_examples").rglob("*.html")}


HEADER = [
    "Getting started", "User guide", "Examples", "API reference", "Background",
    "Changelog",
]  # fmt: skip
WIDTHS = 1280, 390


@pytest.fixture(scope="module")
def ask(site, tmp_path_factory):
    """Open a page of this folder beside the site in Chromium, and get what it posts.

    Values take the places of their names on the page.
    """
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("Chromium is not installed")

    def ask(name, **values):
        page = Path(__file__).with_name(f"{name}.html").read_text()
        for place, value in values.items():
            page = page.replace(place, json.dumps(value))
        # Processes share the site, so each page has a file of its own.
        (site / f"asked-{name}.html").write_text(page)
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
            address = f"http://127.0.0.1:{server.server_port}/asked-{name}.html"
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
    found = ask("layout", WIDTHS=WIDTHS, PAGES=pages)
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
def test_pages_of_classes_begin_with_methods_and_parameters(answer):
    shown = "Methods", "Parameters", "Attributes", "Raises", "Notes", "Examples"
    seen = 0
    for name, page in answer.items():
        if "inside_" in name:
            continue  # pages of many names begin with a table of these
        places = {}
        for title, top in page["sections"]:
            if title in shown:
                places.setdefault(title, top)
        assert list(places) == sorted(places, key=shown.index), name
        if places and name.endswith("1280"):
            # Within the first screen.
            assert min(places.values()) < 800, name
            seen += 1
    assert seen > 40


@pytest.mark.slow
def test_tables_of_the_reference_link_to_what_they_list(answer):
    """Also to methods that are documented on the page of a base."""
    assert {name: page["dead"] for name, page in answer.items() if page["dead"]} == {}


# Epsilons with the errors that are measured, interpolated or unknown there.
MOVES = [(0.25, 10), (0.5, 1000), (4, 100), (8, 1_000_000), (16, 100)]


@pytest.mark.slow
def test_the_sliders_show_what_the_library_says(ask):
    answer = ask("playground", MOVES=MOVES)
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


@pytest.mark.slow
def test_a_search_for_new_users_leads_to_production(ask):
    first, *others = ask("search")["found"]
    assert first.startswith("production.html")
    assert others


PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "doc").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        made = target.startswith("auto_examples/")
        if not made and not target.startswith("http"):
            assert (page.parent / target).exists(), target
