"""The main job runs on the default and on a file, and says what it must say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sktensordp.datasets import make_ratings

SCRIPT = Path(__file__).parent.parent / "examples" / "complete_ratings.py"


def run(tmp_path, *arguments):
    picture = tmp_path / "picture.png"
    finished = subprocess.run(
        [sys.executable, "-W", "error", SCRIPT, "--output", picture, *arguments],
        capture_output=True,
        text=True,
        env={"MPLBACKEND": "Agg", "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert finished.returncode == 0, finished.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    return finished.stdout


@pytest.mark.parametrize("source", ["default", "file"])
def test_complete_ratings(tmp_path, source):
    arguments = ["--epsilons", "1", "8", "--rank", "3"]
    if source == "file":
        ratings = make_ratings(60, 80, 3000, random_state=0, levels=[1, 2, 3, 4, 5])
        rows = [
            f'"u{u}",{i},{r:g},0'
            for (u, i), r in zip(ratings.data, ratings.target, strict=True)
        ]
        path = tmp_path / "ratings.csv"
        path.write_text("\n".join(["user,item,rating,time", *rows]))
        arguments += ["--ratings", str(path), "--levels", "1", "5", "1"]
    printed = run(tmp_path, *arguments)
    rows = dict(re.findall(r"^(.*?) {2,}(\d\.\d{3})", printed, flags=re.MULTILINE))
    error = {name: float(value) for name, value in rows.items()}
    assert error["CP with biases, no noise"] < error["global mean"]
    assert error["8"] < error["1"]
    assert printed.count("differential privacy for the value of one") == 4
