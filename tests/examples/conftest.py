"""Examples run as a user would run them, but in this process."""

import runpy
import sys
import types
import warnings

import pytest

from sktensordp.datasets import make_ratings
from sktensordp.exceptions import AveragesOnlyWarning
from tests import EXAMPLES

# The arguments of a Jupyter kernel, which an example must not take for its own.
KERNEL = ["ipykernel_launcher.py", "-f", "kernel-0.json"]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run an example as a command and return what it prints; nothing may warn.

    `run.names` holds the names that it defined.
    """
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")

    def run_example(script, *arguments, draws=True):
        picture = tmp_path / "picture.png"
        output = ["--output", picture] if draws else []
        command = [script, *map(str, [*output, *arguments])]
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", command)
            # As Python does for a script: what scripts of a folder share.
            patch.syspath_prepend((EXAMPLES / script).parent)
            names = runpy.run_path(str(EXAMPLES / script), run_name="__main__")
        plt.close("all")
        run_example.names = types.SimpleNamespace(**names)
        assert not draws or picture.read_bytes().startswith(b"\x89PNG")
        return capsys.readouterr().out

    return run_example


@pytest.fixture
def run_cells(tmp_path, monkeypatch, capsys):
    """Run an example cell by cell, as a notebook; return what it prints.

    Nothing may warn. As in a notebook, a figure is drawn and closed at the end of its
    cell, the script's own file is unknown, and the arguments are those of the kernel.
    The example must have three cells of code, draw if it should, and leave no file.
    `run_cells.names` holds the names that the example defined, `run_cells.n_cells`
    and `run_cells.n_figures` count its cells of code and its figures, and
    `run_cells.files` names the files that it left in its folder.
    """
    plt = pytest.importorskip("matplotlib.pyplot")
    parser = pytest.importorskip("sphinx_gallery.py_source_parser")
    plt.switch_backend("Agg")

    def show(*_, **__):
        for number in plt.get_fignums():
            plt.figure(number).canvas.draw()
            run_cells.n_figures += 1
        plt.close("all")

    def run_cells(script, draws=True):
        path, folder = EXAMPLES / script, tmp_path / "notebook"
        folder.mkdir(exist_ok=True)
        run_cells.n_figures = 0
        module = types.ModuleType("__main__")
        _, blocks = parser.split_code_and_text_blocks(path)
        cells = [block for block in blocks if block.type == "code"]
        with monkeypatch.context() as patch, warnings.catch_warnings():
            # Tests that pass arguments fit fewer entries than readers do.
            warnings.simplefilter("error", AveragesOnlyWarning)
            warnings.filterwarnings("error", "delta = .* lets a release reveal")
            warnings.filterwarnings("error", "perturbation=.* does not use")
            warnings.filterwarnings("error", "Clones of one .* have released")
            warnings.filterwarnings("error", "Most coordinates of X occur more than")
            patch.chdir(folder)
            patch.setattr(sys, "argv", KERNEL)
            patch.setattr(plt, "show", show)
            patch.setitem(sys.modules, "__main__", module)
            for cell in cells:
                # A traceback points to the lines of the script.
                content = parser.remove_ignore_blocks(cell.content)
                source = "\n" * (cell.lineno - 1) + content
                exec(compile(source, path, "exec"), vars(module))
                show()
        run_cells.n_cells = len(cells)
        run_cells.names = types.SimpleNamespace(**vars(module))
        run_cells.files = {file.name for file in folder.iterdir()}
        printed = capsys.readouterr().out
        assert printed.strip()
        assert (run_cells.n_figures >= 1) == draws
        assert run_cells.n_cells >= 3
        assert not run_cells.files
        return printed

    return run_cells


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
