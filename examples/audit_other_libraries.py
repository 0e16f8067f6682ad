"""
Audit the mechanisms of other libraries
=======================================

An audit needs only the outputs of a mechanism, so you can audit any library, even one
that cannot be installed beside this one. This example runs each mechanism in a worker
process, in the environment of its own library, and compares OpenDP and diffprivlib with
NumPy's plain noise and with this library. All claim epsilon = 1.
"""

# %%
# One audit
# ---------
# The auditor gets a function that returns n outputs for an input x. It calls it for two
# inputs, and proves a lower bound on epsilon. Here is this library's mechanism.

# sphinx_gallery_thumbnail_path = "images/thumbnails/audit_other_libraries.png"
from sktensordp.audit import audit_mechanism
from sktensordp.mechanisms import LaplaceMechanism

import numpy as np

laplace = LaplaceMechanism(1.0, bounds=(0, 1), random_state=0).fit([[0.0]])
report = audit_mechanism(
    lambda x, n: laplace.transform(np.tile(x, (n, 1))), [0.0], [1.0], epsilon=1.0,
    n_trials=20_000, batched=True,
)  # fmt: skip
print(f"epsilon >= {report.epsilon_lower:.2f}; claim violated: {report.violated}")

# %%
# A worker
# --------
# The auditor calls ``mechanism(x, n)`` and gets n outputs. For a foreign library this
# function starts a program in the other environment. The program reads x and n as JSON
# from its standard input, and writes the outputs to its standard output as a NumPy
# array.

import io
import json
import subprocess

WORKER = """
import json, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
request = json.load(sys.stdin)
x, n = request["x"][0], request["n"]
{setup}
np.save(sys.stdout.buffer, np.array([[draw(x)] for _ in range(n)], dtype=float))
"""


def foreign_mechanism(python, setup):
    """A mechanism that draws in the environment of the interpreter `python`."""

    def mechanism(x, n):
        request = json.dumps({"x": np.asarray(x).tolist(), "n": n})
        worker = [python, "-c", WORKER.format(setup=setup)]
        done = subprocess.run(
            worker, input=request.encode(), stdout=subprocess.PIPE, check=True
        )
        return np.load(io.BytesIO(done.stdout))

    return mechanism


# %%
# Environments
# ------------
# Each library has an interpreter. By default it is the one that runs this page. To
# audit the other libraries on your machine, make an environment for each of them and
# enter its interpreter below:
#
# .. code-block:: bash
#
#     python -m venv env-opendp && env-opendp/bin/pip install opendp numpy
#     python -m venv env-diffprivlib
#     env-diffprivlib/bin/pip install diffprivlib "scikit-learn<1.6"

import sys

INTERPRETERS = {
    "numpy": sys.executable,
    "sktensordp": sys.executable,
    "opendp": sys.executable,  # for example "env-opendp/bin/python"
    "diffprivlib": sys.executable,  # for example "env-diffprivlib/bin/python"
}


def version_of(library):
    """Version of a library in the environment of its interpreter, if any."""
    look = f"from importlib.metadata import version; print(version('{library}'))"
    found = subprocess.run(
        [INTERPRETERS[library], "-c", look], capture_output=True, text=True
    )
    return found.stdout.strip() or None


# %%
# The mechanisms
# --------------
# A few lines define ``draw`` for each mechanism. Each claims (epsilon, delta) for a
# number that may change by 1. `LaplaceMechanism` shows what a sound mechanism looks
# like in an audit, and NumPy's plain noise is a known mistake: floating-point noise,
# added to a floating-point number.

OPENDP = """
import opendp.prelude as dp
dp.enable_features("contrib")
space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
draw = dp.m.{make}(*space, scale={scale})
"""
DIFFPRIVLIB = """
from diffprivlib.mechanisms import {mechanism}
draw = {mechanism}({arguments}, sensitivity=1.0).randomise
"""
NUMPY = """
rng = np.random.default_rng()
draw = lambda x: x + rng.{noise}
"""
SKTENSORDP = """
from sktensordp.mechanisms import LaplaceMechanism
laplace = LaplaceMechanism(1.0, sensitivity=1.0).fit([[0.0]])
released = iter(laplace.transform(np.full((n, 1), x))[:, 0])
draw = lambda x: next(released)
"""
# Library, mechanism, lines that set it up, claimed (epsilon, delta).
MECHANISMS = [
    ("sktensordp", "LaplaceMechanism", SKTENSORDP, 1.0, 0.0),
    ("numpy", "Laplace noise", NUMPY.format(noise="laplace()"), 1.0, 0.0),
    ("numpy", "Gaussian noise", NUMPY.format(noise="normal(scale=3.730632)"),
     1.0, 1e-5),
    ("opendp", "Laplace", OPENDP.format(make="make_laplace", scale=1.0), 1.0, 0.0),
    ("opendp", "Gaussian", OPENDP.format(make="make_gaussian", scale=3.730632),
     1.0, 1e-5),
    ("diffprivlib", "Laplace",
     DIFFPRIVLIB.format(mechanism="Laplace", arguments="epsilon=1.0"), 1.0, 0.0),
    ("diffprivlib", "GaussianAnalytic",
     DIFFPRIVLIB.format(mechanism="GaussianAnalytic",
                        arguments="epsilon=1.0, delta=1e-5"), 1.0, 1e-5),
]  # fmt: skip

# %%
# The audits
# ----------
# Each audit compares 20,000 outputs for 1/3 with as many for 4/3. Bad luck should not
# condemn a library, so the confidence is 0.999: at most about one in a thousand audits
# of true claims raises a false alarm. For Gaussian noise the auditor bounds mu, the
# parameter of Gaussian differential privacy, and derives epsilon from it, which is
# tighter.
#
# Where a library is not installed, the page shows recorded results, marked as such.
# They were made by this script on 23 November 2026, with OpenDP 0.16.0 and diffprivlib
# 0.6.6 on Python 3.11 (Linux).

from sktensordp.audit import AuditReport

CONFIDENCE, N_TRIALS = 0.999, 20_000
# Lower bounds on epsilon and mu, and the event that proves them.
RECORDED = {
    ("opendp", "Laplace"): (
        0.946, None, "sum of the output < 0.425786 (5467 of 10000 against 1982)",
    ),
    ("opendp", "Gaussian"): (
        0.759, 0.208, "sum of the output < 2.43974 (7056 of 10000 against 6083)",
    ),
    ("diffprivlib", "Laplace"): (
        6.22, None,
        "number of entries y with (y - x') + x' != y in floats >= 1 "
        "(3557 of 10000 against 0)",
    ),
    ("diffprivlib", "GaussianAnalytic"): (
        13.2, 2.51, "learned classifier >= -0.579493 (10000 of 10000 against 7598)",
    ),
}  # fmt: skip


def audit(library, mechanism, setup, epsilon, delta):
    """Audit a mechanism in the environment of its library."""
    return audit_mechanism(
        foreign_mechanism(INTERPRETERS[library], setup), [1 / 3], [4 / 3],
        epsilon=epsilon, delta=delta, n_trials=N_TRIALS, confidence=CONFIDENCE,
        gaussian="Gaussian" in mechanism, batched=True,
    )  # fmt: skip


def recorded(library, mechanism, epsilon, delta):
    """The report of an audit that was run on another machine."""
    epsilon_lower, mu_lower, event = RECORDED[library, mechanism]
    return AuditReport(
        epsilon_lower=epsilon_lower, mu_lower=mu_lower, confidence=CONFIDENCE,
        delta=delta, claimed=epsilon, event=event, n_trials=N_TRIALS,
    )  # fmt: skip


reports = {}
for library, mechanism, setup, epsilon, delta in MECHANISMS:
    version = version_of(library)
    if version is None:
        label = f"{library}, {mechanism} (recorded)"
        reports[label] = recorded(library, mechanism, epsilon, delta)
    else:
        label = f"{library} {version}, {mechanism}"
        reports[label] = audit(library, mechanism, setup, epsilon, delta)
    print(f"{label}\n  {reports[label]}")

# %%
# The bounds beside the claims
# ----------------------------

from sktensordp.plotting import AuditDisplay

import matplotlib.pyplot as plt

display = AuditDisplay(reports).plot()
display.figure_.suptitle("Which libraries keep a claim of epsilon = 1?")
plt.show()

# %%
# The audits find nothing against OpenDP and this library. The noise of NumPy and of
# diffprivlib has the right scale. But adding a float to a float leaves traces of the
# number in the low-order bits, and 20,000 outputs prove an epsilon far above the claim.
# Coarse rounding removes the traces, if it happens before anybody sees the outputs.
