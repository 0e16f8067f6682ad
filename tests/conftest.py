"""Options of the test run, and fixtures that all tests share."""

import gc
import os
import subprocess
import sys
import warnings
import zlib
from collections import Counter
from unittest import mock

import numpy as np
import pytest

from tests import ROOT
from tests.support import divergence as divergences
from tests.support import noise
from tests.support.leftovers import Leftovers
from tests.support.long_vectors import AS_RELEASED, refusing_long
from tests.support.points import POINTS
from tests.support.seams import measure_sums
from tests.support.tiers import DEFAULT, has_tests_of

TESTS = ROOT / "tests"


def pytest_addoption(parser):
    parser.addoption(
        "--audit-trials",
        type=int,
        default=300,
        help="fits on each of two neighbours, for every audit of tests/statistical",
    )
    parser.addoption(
        "--soak",
        type=int,
        default=1,
        help="how many times as much soak runs try; 4 every week",
    )
    parser.addoption(
        "--fresh-noise",
        action="store_true",
        help="draw noise anew in every run, instead of from the names of the tests",
    )


def pytest_configure(config):
    """Compile the kernels beside the workers, which collect their tests meanwhile.

    Each worker has a core of its own, so that threads of BLAS would only wait. A test
    that is named runs whatever its tier.
    """
    named = any("::" in argument for argument in config.args)
    if named and config.option.markexpr == DEFAULT:
        config.option.markexpr = ""
    if config.getoption("numprocesses", None) and not config.option.collectonly:
        for library in ("OMP", "OPENBLAS", "MKL"):
            os.environ.setdefault(f"{library}_NUM_THREADS", "1")
        command = "from tests.support.kernels import compile_kernels as f; f()"
        compiler = subprocess.Popen([sys.executable, "-c", command], cwd=ROOT)
        config.add_cleanup(compiler.terminate)


# Modules and collected tests stay until the end. To look through them again and again
# for garbage would take a sixth of the time.
gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


SEEN = set()


def pytest_itemcollected(item):
    """Leave all but the first set of parameters to the thorough tier, where marked."""
    test = item.nodeid.partition("[")[0]
    if item.get_closest_marker("thorough_after_one") and test in SEEN:
        item.add_marker("thorough")
    SEEN.add(test)


def pytest_ignore_collect(collection_path, config):
    """Leave out files without a test of the tiers that run, by a look at their text."""
    if collection_path.suffix == ".py" and collection_path.is_relative_to(TESTS):
        text = collection_path.read_text(encoding="utf-8")
        if not has_tests_of(config.option.markexpr, text):
            return True
    return None


def pytest_terminal_summary(terminalreporter):
    """Say how many generated inputs were tried, also by other processes."""
    counts = Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            if report.when == "call":
                counts.update(dict(report.user_properties))
    if tried := counts["generated_inputs"]:
        unhandled = counts["unhandled"] or "none"
        terminalreporter.write_line(
            f"{tried:,} generated inputs, {unhandled} unhandled"
        )


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    """A test fails if it leaves something that another test could stumble over."""
    before = Leftovers()
    yield
    left = before.found()
    assert not left, f"This test leaves behind {', '.join(left)}."


@pytest.fixture(autouse=True)
def no_vector_is_too_long():
    """Vectors of people that are too long fail a test, instead of becoming zero."""
    with mock.patch.object(measure_sums, "without_long", refusing_long):
        yield


@pytest.fixture
def as_released(monkeypatch):
    """Vectors that are too long become zero, as they do for users."""
    monkeypatch.setattr(measure_sums, "without_long", AS_RELEASED)


@pytest.fixture(autouse=True)
def noise_of_the_test(request):
    """Let all noise of a test follow from its name, so that no run fails by chance.

    NumPy's global generator, too, which scikit-learn takes for ``random_state=None``.
    """
    if request.config.getoption("fresh_noise"):
        yield
        return
    name = request.node.nodeid
    np.random.seed(zlib.crc32(name.encode()))  # noqa: NPY002
    with noise.following_from(name):
        yield


@pytest.fixture
def fresh_ids():
    """Let releases of a test have ids of their own."""


@pytest.fixture(autouse=True)
def ids_of_the_test(request):
    """Let all releases have one id: two fits may be compared to the last byte."""
    if "fresh_ids" in request.fixturenames:
        yield
        return
    with mock.patch.object(*POINTS["id of a release"], lambda: 32 * "0"):
        yield


@pytest.fixture
def restored_filters():
    """Restore filters of warnings after threads have run tasks of scikit-learn.

    Each task enters `warnings.catch_warnings`, which restores them only if tasks end in
    the opposite order. A task that goes on after its test would take the warnings of
    later tests, so this waits for it.
    """
    before = Leftovers()
    with warnings.catch_warnings():
        yield
        before.threads()


@pytest.fixture(scope="session")
def divergence():
    """Divergences computed without the library that accounts for them."""
    return divergences


@pytest.fixture(scope="session")
def stream():
    """Function: bits that follow from a seed, which makes a test deterministic."""
    return noise.stream_of


@pytest.fixture
def keys():
    """Keys of all releases, as they are taken: a list."""
    with noise.taking() as taken:
        yield taken


@pytest.fixture
def streams():
    """Keys and blocks of all streams, as they are opened: a list."""
    with noise.drawing() as opened:
        yield opened
