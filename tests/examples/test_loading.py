"""The README's main command does its job."""

import re
import shlex
import subprocess
import sys

import pytest

from tests import ROOT


@pytest.mark.thorough
def test_the_main_command(tmp_path, ratings_file):
    """As a user calls it, with its smallest options."""
    block = (
        (ROOT / "README.md").read_text().split("<!-- main command -->\n```bash\n")[1]
    )
    command = shlex.split(block.split("```")[0])
    (script,) = (word for word in command if word.startswith("examples/"))
    picture = tmp_path / "picture.png"
    options = ["--ratings", ratings_file(20, 30, 300), "--levels", "0.5", "5", "0.5"]
    options += ["--rank", "1", "--epsilons", "8"]
    finished = subprocess.run(
        [sys.executable, "-W", "error", ROOT / script, *options, "--output", picture],
        capture_output=True,
        text=True,
        env={"MPLBACKEND": "Agg", "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert finished.returncode == 0, finished.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    # Six methods, and "auto" on items that have ratings.
    assert re.search(r"^8 (?: +\d\.\d{3}){7} +\w+$", finished.stdout, re.MULTILINE)
    text = " ".join(finished.stdout.split())
    # One statement per method.
    assert (
        text.count("(epsilon = 8, delta = 0)-differential privacy for the value") == 6
    )
