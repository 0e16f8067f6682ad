"""Options of the test run, and fixtures that all tests share."""

import subprocess
import sys
from collections import Counter

import pytest

from tests import EXAMPLES
from tests.support import divergence as divergences


def pytest_addoption(parser):
    parser.addoption(
        "--audit-trials",
        type=int,
        default=300,
        help="fits on each of two neighbours, for every audit of tests/statistical",
    )


def pytest_configure(config):
    """Compile the kernels once, before the workers start side by side."""
    if config.getoption("numprocesses", None) and not config.option.collectonly:
        from tests.support.kernels import compile_kernels

        compile_kernels()


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


@pytest.fixture(scope="session")
def divergence():
    """Divergences computed without the library that accounts for them."""
    return divergences


@pytest.fixture(scope="session")
def run():
    """Run an example as a user would; it draws a picture, and nothing may warn."""

    def run_example(folder, script, *arguments, draws=True):
        picture = folder / "picture.png"
        output = ["--output", picture] if draws else []
        finished = subprocess.run(
            [sys.executable, "-W", "error", EXAMPLES / script, *output, *arguments],
            capture_output=True,
            text=True,
            env={"MPLBACKEND": "Agg", "HOME": str(folder), "PATH": "/usr/bin:/bin"},
        )
        assert finished.returncode == 0, finished.stderr
        assert not draws or picture.read_bytes().startswith(b"\x89PNG")
        return finished.stdout

    return run_example
