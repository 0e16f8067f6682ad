"""The command that compiles all kernels, and stores them."""

import os
import subprocess
import sys

import pytest

from tests import ROOT

COMMAND = [sys.executable, "-m", "sktensordp.completion"]
# Compiled kernels that one process has, and how many of them it had to compile.
KERNELS = """
import importlib, pkgutil
import numba
from sktensordp.tensor import kernels as package
modules = [
    importlib.import_module(f"{package.__name__}.{info.name}")
    for info in pkgutil.iter_modules(package.__path__)
]
kernels = [
    kernel for module in modules for kernel in vars(module).values()
    if isinstance(kernel, numba.core.dispatcher.Dispatcher)
    and kernel.__module__ == module.__name__
]
"""


def run(command, folder):
    environ = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    return subprocess.run(
        command, cwd=ROOT, env=environ, check=True, text=True, stdout=subprocess.PIPE
    ).stdout


@pytest.mark.slow
def test_one_command_compiles_every_kernel(tmp_path):
    said = run(COMMAND, tmp_path)
    assert said.splitlines()[0].startswith("1 of 5: ratings, ")
    assert f"Compiled kernels are in {tmp_path}" in said
    stored = {path.name.split("-")[0] for path in tmp_path.rglob("*.nbc")}
    names = run(
        [sys.executable, "-c", KERNELS + "print(*(k.__qualname__ for k in kernels))"],
        tmp_path,
    )
    assert {name.split(".")[1] for name in stored} == set(names.split())
    # Another process compiles nothing.
    code = (
        "import runpy, sys; sys.argv = ['completion']\n"
        "runpy.run_module('sktensordp.completion', run_name='__main__')\n"
        f"{KERNELS}print(sum(sum(k.stats.cache_misses.values()) for k in kernels))"
    )
    assert run([sys.executable, "-c", code], tmp_path).split()[-1] == "0"


WHOLE_USERS = """
import sys
import warnings
import numpy as np
from sktensordp.completion import CPCompletion, ImplicitCompletion, TuckerCompletion
from sktensordp.datasets import make_ratings
from tests.support.replaying import with_a_pattern
warnings.simplefilter("ignore")
ratings = make_ratings(n_users=60, n_items=30, n_ratings=1500, random_state=0)
X, y = ratings.data, ratings.target
options = {"unit": 0, "levels": ratings.levels, "shape": (60, 30)}
for epsilon in (4.0, np.inf):
    for perturbation in ("auto", "sums", "statistics"):
        for kind in (CPCompletion, TuckerCompletion):
            model = kind(2, epsilon=epsilon, perturbation=perturbation, **options)
            model.fit(X, y).predict(X)
            model.recommend([0, 3], k=2)
            model.fold_in(X[:5], y[:5])
    model = ImplicitCompletion(epsilon=epsilon, unit=0, shape=(60, 30)).fit(X)
    model.predict(X)
    model.recommend([0, 3], k=2)
    model.fold_in(X[:5])
with with_a_pattern():
    CPCompletion(0, epsilon=50.0, **options).fit(X, y)
X = np.column_stack([X, np.arange(len(X)) % 4])
CPCompletion(2, epsilon=4.0, **options | {"shape": (60, 30, 4)}).fit(X, y)
print("numba" in sys.modules)
"""


@pytest.mark.thorough
def test_fits_of_whole_users_compile_nothing(tmp_path):
    assert run([sys.executable, "-c", WHOLE_USERS], tmp_path).split() == ["False"]
