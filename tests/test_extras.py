"""Without an extra: what needs it says which one to install, and nothing else fails."""

import sys
import tomllib
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sktensordp import io
from sktensordp.completion import CPCompletion
from sktensordp.datasets import fetch_movielens
from sktensordp.encoding import TorchTask
from sktensordp.mechanisms import LaplaceMechanism
from sktensordp.model_selection import expected_error
from sktensordp.moments import MultilinearPCA
from sktensordp.plotting import (
    ExpectedErrorDisplay,
    FactorsDisplay,
    PrivacyProfileDisplay,
)
from tests.support.seams import imported

DECLARED = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
EXTRAS = DECLARED["project"]["optional-dependencies"]
X, VALUES = np.argwhere(np.ones((3, 4))), np.arange(12) / 12
LAPLACE = LaplaceMechanism(bounds=(0, 1)).fit(np.zeros((2, 3)))
COMPLETION = CPCompletion(1, epsilon=np.inf, shape=(3, 4), value_bounds=(0, 1))


@pytest.fixture
def without(monkeypatch):
    def hide(name):
        for loaded in [name, *sys.modules]:
            if loaded.partition(".")[0] == name:
                monkeypatch.setitem(sys.modules, loaded, None)

    return hide


def curves():
    curve = expected_error(LAPLACE, np.zeros((1, 3)), epsilons=[1, 4])
    return ExpectedErrorDisplay({"Laplace": curve})


PLOTS = {
    "profile": lambda: PrivacyProfileDisplay.from_estimator(LAPLACE),
    "curves": lambda: curves().plot(),
    "factors": lambda: FactorsDisplay.from_estimator(COMPLETION.fit(X, VALUES)),
}


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_plots(without, plot):
    without("matplotlib")
    with pytest.raises(ImportError, match=r'install "sktensordp\[plot\]"'):
        plot()


def test_a_task_of_torch(without):
    without("torch")
    task = TorchTask(module=None, link="identity")
    for ask in (
        lambda: task.outputs(VALUES),
        lambda: task.value_and_gradient(VALUES, VALUES),
    ):
        with pytest.raises(ImportError, match=r'install "sktensordp\[torch\]"'):
            ask()


def test_ratings_as_a_frame(without, tmp_path):
    """Before anything is downloaded."""
    without("pandas")
    with pytest.raises(ImportError, match=r'install "sktensordp\[pandas\]"'):
        fetch_movielens("100k", tmp_path, as_frame=True)


def test_collections_of_dask(without, monkeypatch):
    """As if there were only what they were made of."""
    da = pytest.importorskip("dask.array")
    coordinates, values = map(da.from_array, (X, VALUES))
    samples = da.ones((6, 3, 2), chunks=(3, 3, 2))
    monkeypatch.setitem(sys.modules, "dask", None)
    for fit in (
        lambda: COMPLETION.fit(coordinates, values),
        lambda: MultilinearPCA(1, norm_bound=3.0).fit(samples),
    ):
        with pytest.raises(ImportError, match=r'install "sktensordp\[dask\]"'):
            fit()


def test_files_without_code(without, tmp_path):
    """Before anything is written."""
    without("safetensors")
    for use in (partial(io.dump, LAPLACE), io.load):
        with pytest.raises(ImportError, match=r'install "sktensordp\[files\]"'):
            use(tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("extra", ["plot", "torch", "pandas", "dask", "files"])
def test_the_extras_that_are_named_are_declared(extra):
    assert extra in EXTRAS


def test_a_broken_module_is_another_error(monkeypatch, tmp_path):
    (tmp_path / "broken_on_import.py").write_text("raise ImportError('no library')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="no library"):
        imported("broken_on_import", "plot")
