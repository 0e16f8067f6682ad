"""Audit the mechanisms of other libraries
=======================================

Each runs in the environment that it needs.

All that the auditor asks of a mechanism is a callable ``mechanism(x, n)`` that
returns n outputs. For a library that lives elsewhere the callable starts a worker
there: a program that reads ``{"x": [...], "n": ...}`` as JSON from its standard input
and writes the outputs as an .npy array to its standard output.

The script makes one virtual environment a library (from the package index) unless
``--environments DIR`` holds them already.
"""

import argparse
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from sktensordp.audit import audit_mechanism

_WORKER = """
import json, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
request = json.load(sys.stdin)
x, n = request["x"][0], request["n"]
{setup}
np.save(sys.stdout.buffer, np.array([[draw(x)] for _ in range(n)], dtype=float))
"""
_OPENDP = """
import opendp.prelude as dp
dp.enable_features("contrib")
space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
draw = dp.m.{make}(*space, scale={scale})
"""
_DIFFPRIVLIB = """
from diffprivlib.mechanisms import {name}
draw = {name}({arguments}).randomise
"""
# Library: what to install, and its mechanisms with the claimed (epsilon, delta) for
# a sensitivity of one.
LIBRARIES = {
    "OpenDP": (
        ["numpy", "opendp"],
        {
            "Laplace": (_OPENDP.format(make="make_laplace", scale=1.0), 1.0, 0.0),
            "Gaussian": (
                _OPENDP.format(make="make_gaussian", scale=3.730632), 1.0, 1e-5,
            ),
        },
    ),
    "diffprivlib": (
        ["diffprivlib", "scikit-learn<1.6"],
        {
            "Laplace": (
                _DIFFPRIVLIB.format(
                    name="Laplace", arguments="epsilon=1.0, sensitivity=1.0"
                ), 1.0, 0.0,
            ),
            "GaussianAnalytic": (
                _DIFFPRIVLIB.format(
                    name="GaussianAnalytic",
                    arguments="epsilon=1.0, delta=1e-5, sensitivity=1.0",
                ), 1.0, 1e-5,
            ),
        },
    ),
}  # fmt: skip


def environment(folder, library, packages):
    """Interpreter of the library's own virtual environment."""
    python = folder / library / "bin" / "python"
    if not python.exists():
        print(f"making an environment for {library} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder / library], check=True)
        install = [python, "-m", "pip", "install", "--quiet", *packages]
        subprocess.run(install, check=True)
    return python


def foreign_mechanism(python, setup):
    """Callable that draws in another environment, by the protocol above."""

    def mechanism(x, n):
        request = json.dumps({"x": np.asarray(x).tolist(), "n": n})
        worker = [python, "-c", _WORKER.format(setup=setup)]
        done = subprocess.run(
            worker, input=request.encode(), stdout=subprocess.PIPE, check=True
        )
        return np.load(io.BytesIO(done.stdout))

    return mechanism


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--environments", type=Path, help="where the environments are")
    parser.add_argument("--trials", type=int, default=50_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.environments or Path(temporary)
        for library, (packages, mechanisms) in LIBRARIES.items():
            python = environment(folder, library, packages)
            for name, (setup, epsilon, delta) in mechanisms.items():
                for x, neighbour in (([0.0], [1.0]), ([1 / 3], [4 / 3])):
                    report = audit_mechanism(
                        foreign_mechanism(python, setup), x, neighbour,
                        epsilon=epsilon, delta=delta, n_trials=arguments.trials,
                        gaussian="auss" in name, batched=True,
                    )  # fmt: skip
                    print(f"{library} {name}, {x[0]:.3g} against {neighbour[0]:.3g}:")
                    print(f"  {report}")


if __name__ == "__main__":
    main()
