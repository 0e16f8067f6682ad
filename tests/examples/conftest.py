"""Examples run as a user would run them, but in this process."""

import runpy
import sys

import numpy as np
import pytest

from sktensordp.datasets import make_ratings
from tests import EXAMPLES


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run an example; what it prints. It draws a picture, and nothing may warn."""
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")

    def run_example(script, *arguments, draws=True):
        picture = tmp_path / "picture.png"
        output = ["--output", picture] if draws else []
        command = [script, *map(str, [*output, *arguments])]
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", command)
            runpy.run_path(str(EXAMPLES / script), run_name="__main__")
        plt.close("all")
        assert not draws or picture.read_bytes().startswith(b"\x89PNG")
        return capsys.readouterr().out

    return run_example


@pytest.fixture
def ratings_file(tmp_path):
    """Made-up ratings in a file, with more columns where they are given."""

    def write(*shape, more=lambda row: "", **params):
        made = make_ratings(*shape, random_state=0, **params)
        pairs = zip(made.data, made.target, strict=True)
        lines = [f'"u{u}",{i},{r:g}{more(k)}' for k, ((u, i), r) in enumerate(pairs)]
        path = tmp_path / "ratings.csv"
        path.write_text(
            "\n".join(["user,item,rating" + ",time" * bool(more(0)), *lines])
        )
        return path

    return write


@pytest.fixture
def arrays_file(tmp_path):
    """Arrays in a file."""

    def write(**arrays):
        np.savez(tmp_path / "data.npz", **arrays)
        return tmp_path / "data.npz"

    return write
