"""How much of the package one call enters: five walks, and the sizes of the whole.

    python tests/benchmarks/bench_walks.py

Distinct files and code objects of the package that are called in a second, identical
call, in all threads; compiled kernels are not seen. Below, the number of modules, and
the lines of code without docstrings, comments and blanks.
"""

import warnings
from pathlib import Path

import numpy as np

import sktensordp
from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.mechanisms import GaussianMechanism
from tests.support.walks import code_lines, entered

ROOT = Path(sktensordp.__file__).parent


def walks():
    """The five of them, by name."""
    ratings = make_ratings(n_users=60, n_items=40, n_ratings=1500, random_state=0)
    options = {"levels": ratings.levels, "shape": ratings.shape, "max_iter": 2}
    X = np.random.default_rng(0).uniform(size=(50, 4))

    def fitting(**more):
        def fit():
            CPCompletion(2, **options, **more).fit(ratings.data, ratings.target)

        return fit

    noise = GaussianMechanism(1.0, delta=1e-5, bounds=(0, 1)).fit(X)
    encoder = TaskAwareEncoder(2.0, task=np.eye(4)[:2]).fit(X)
    return {
        'CPCompletion.fit, "input"': fitting(perturbation="input"),
        'CPCompletion.fit, "auto"': fitting(),
        "CPCompletion.fit, unit=0": fitting(unit=0),
        "GaussianMechanism.transform": lambda: noise.transform(X[:1]),
        "TaskAwareEncoder.transform": lambda: encoder.transform(X[:1]),
    }


def main():
    warnings.simplefilter("ignore")
    for name, call in walks().items():
        call()
        codes = entered(call, ROOT)
        files = {code.co_filename for code in codes}
        print(f"{name:30}{len(files):4} files {len(codes):4} functions")
    paths = sorted(ROOT.rglob("*.py"))
    n_lines = sum(code_lines(path.read_text()) for path in paths)
    print(f"{len(paths)} modules, {n_lines} lines of code")


if __name__ == "__main__":
    main()
