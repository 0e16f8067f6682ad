"""How much of the package one call enters: five walks, and the sizes of the whole.

    python tests/benchmarks/bench_walks.py

Distinct files and code objects of the package that are called in a second, identical
call, in all threads; compiled kernels are not seen. Below, the classes of the package
that a public estimator inherits from, the number of modules, and the lines of code
without docstrings, comments and blanks.
"""

import ast
import importlib
import inspect
import pkgutil
import sys
import threading
import tokenize
import warnings
from pathlib import Path

import numpy as np

import sktensordp
from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.encoding import TaskAwareEncoder
from sktensordp.mechanisms import GaussianMechanism

ROOT = Path(sktensordp.__file__).parent


def entered(call):
    """Numbers of files and of code objects of the package that a call enters."""
    call()
    found = set()

    def saw(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            found.add(frame.f_code)

    threading.setprofile(saw), sys.setprofile(saw)
    try:
        call()
    finally:
        sys.setprofile(None), threading.setprofile(None)
    return len({code.co_filename for code in found}), len(found)


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


def bases():
    """Classes of the package that a public class inherits from, by its name."""
    found = {}
    for module in pkgutil.iter_modules(sktensordp.__path__):
        if module.name.startswith("_"):
            continue
        public = importlib.import_module(f"sktensordp.{module.name}")
        for name in getattr(public, "__all__", ()):
            one = getattr(public, name)
            if inspect.isclass(one) and hasattr(one, "fit"):
                ours = [c for c in one.__mro__ if c.__module__.startswith("sktensordp")]
                found[name] = len(ours) - 1
    return found


def n_lines(path):
    """Lines of code without docstrings, comments and blanks."""
    docstrings = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            first = node.body[0] if node.body else None
            if ast.get_docstring(node, clean=False) is not None and first is not None:
                docstrings |= set(range(first.lineno, (first.end_lineno or 0) + 1))
    ignored = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT,
        tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING,
    }  # fmt: skip
    with path.open("rb") as file:
        used = {
            line
            for token in tokenize.tokenize(file.readline)
            if token.type not in ignored
            for line in range(token.start[0], token.end[0] + 1)
        }
    return len(used - docstrings)


def main():
    warnings.simplefilter("ignore")
    for name, call in walks().items():
        print("{:30}{:4} files {:4} functions".format(name, *entered(call)))
    found = bases()
    most = max(found.values())
    names = ", ".join(sorted(name for name, n in found.items() if n == most))
    print(f"inherited classes: at most {most} ({names}); CPCompletion ", end="")
    print(found["CPCompletion"])
    paths = sorted(ROOT.rglob("*.py"))
    print(f"{len(paths)} modules, {sum(map(n_lines, paths))} lines of code")


if __name__ == "__main__":
    main()
