"""
Running times of the mechanisms
===============================

How long does it take to choose noise for a matrix, and to draw it? Table 5 of Yang,
Xiang, Yu et al. (Matrix Gaussian Mechanisms for Differentially-Private Learning) has
the time of one release by five mechanisms. This page measures the same five here, as
processor time, and separates the fit, which is made once, from the release.

Times differ from machine to machine. The order of the mechanisms and their ratios are
what can be compared.
"""

# %%
# One mechanism
# -------------

# sphinx_gallery_thumbnail_path = "images/thumbnails/running_times.png"
from sktensordp.mechanisms import GaussianMechanism

import numpy as np

mechanism = GaussianMechanism(1.0, delta=1e-5, bounds=(-1, 1))
released = mechanism.fit_transform(np.zeros((1, 30, 64)))
print(f"A release of shape {released.shape[1:]}: {mechanism.privacy_guarantee_}\n")

# %%
# The run on this page
# --------------------
# The paper does not say for which shape its times are. (30, 64) is that of the features
# of Texas hospital stays (Table 3).

from types import SimpleNamespace

options = SimpleNamespace(shape=[30, 64], repeats=5, random_state=0)
# sphinx_gallery_start_ignore
import argparse
import sys

parser = argparse.ArgumentParser(
    description="Running times of the mechanisms.", allow_abbrev=False
)
parser.add_argument("--shape", nargs=2, type=int, metavar=("M", "N"))
parser.add_argument("--repeats", type=int, help="of which the median counts")
parser.add_argument("--random-state", type=int, help="seed of the noise and the task")
parser.add_argument("--output", metavar="FILE", help="save the picture here")
parser.add_argument("--table", metavar="FILE", help="save all scores here (csv)")
parser.set_defaults(**vars(options))
options, others = parser.parse_known_args()
if others and "kernel" not in sys.argv[0]:  # a notebook has arguments of its own
    parser.error(f"unknown arguments: {' '.join(others)}")
# sphinx_gallery_end_ignore

# %%
# The mechanisms
# --------------
# The task is a random matrix W\ :sub:`1` for the rows. UDN takes its singular vectors
# as directions, IDN the axes. MVG has four times the variance in the half of these
# directions that matters less, which needs a decomposition. The matrix mechanism
# looks for the best strategy for W\ :sub:`1` and answers W\ :sub:`1` X, a Kronecker
# product with the identity for the columns. The paper solves for it with CVXPY; the
# library has an iteration of its own.

from sktensordp.mechanisms import (
    IndependentDirectionalNoise,
    MatrixMechanism,
    UnimodalDirectionalNoise,
)
from sktensordp.papers import (
    MatrixVariateGaussian,
    PublishedIndependentDirectionalNoise,
    PublishedMatrixVariateGaussian,
    PublishedUnimodalDirectionalNoise,
)

PAPER = {
    "Gaussian": 0.00164, "MVG": 0.51146, "MM": 0.82323, "UDN": 0.00248, "IDN": 0.00224
}  # fmt: skip


def covariance(task):
    """More noise in the half of the directions that the task uses least."""
    _, vectors = np.linalg.eigh(task.T @ task)
    half = np.arange(len(vectors)) < len(vectors) // 2
    return (vectors * np.where(half, 4, 1)) @ vectors.T


def mechanisms(shape, random_state):
    """Mechanisms by name: calibrated exactly, and as published."""
    rng = np.random.default_rng(random_state)
    task = rng.normal(size=(shape[0], shape[0]))
    box = {"delta": 1e-5, "bounds": (-1, 1), "random_state": random_state}
    udn = {"utility": task, "directions": "singular_vectors", **box}
    return {
        "Gaussian": (GaussianMechanism(**box), GaussianMechanism(**box)),
        "UDN": (
            UnimodalDirectionalNoise(**udn), PublishedUnimodalDirectionalNoise(**udn),
        ),
        "IDN": (
            IndependentDirectionalNoise(utility=task, **box),
            PublishedIndependentDirectionalNoise(utility=task, **box),
        ),
        "MVG": (
            MatrixVariateGaussian(row_covariance=covariance(task), **box),
            PublishedMatrixVariateGaussian(row_covariance=covariance(task), **box),
        ),
        "MM": (
            MatrixMechanism(
                delta=1e-5, workload=[task, np.eye(shape[1])], sensitivity=2.0,
                random_state=random_state,
            ),
        ) * 2,
    }  # fmt: skip


# %%
# The times
# ---------
# One untimed run comes first, which loads what is loaded once.

from statistics import median
from time import process_time


def timed(call):
    """Result, and processor time in seconds."""
    before = process_time()
    result = call()
    return result, process_time() - before


def times(mechanism, X, repeats):
    """Median times of a fit and of a release."""
    mechanism.fit(X).transform(X)
    fits = [timed(lambda: mechanism.fit(X))[1] for _ in range(repeats)]
    return median(fits), median(
        timed(lambda: mechanism.transform(X))[1] for _ in range(repeats)
    )


shape = tuple(options.shape)
found = {}
for name, (exact, published) in mechanisms(shape, options.random_state).items():
    X = np.zeros((1, shape[0] * shape[1]) if name == "MM" else (1, *shape))
    found[name] = (
        *times(exact, X, options.repeats),
        sum(times(published, X, options.repeats)),
    )
print(f"milliseconds of one release, {shape[0]} x {shape[1]}")
heads = "fit", "release", "fit and release", "the same, published", "in the paper"
print(f"{'':10}{''.join(f'{head:>21}' for head in heads)}")
for name, (fit, release, published) in found.items():
    numbers = fit, release, fit + release, published, PAPER[name]
    print(f"{name:10}{''.join(f'{1000 * number:>21.3f}' for number in numbers)}")
# sphinx_gallery_start_ignore
if options.table is not None:
    from _scores import write_scores

    # Times hang on no epsilon: all mechanisms have the default, 1.
    parts = "fit", "release", "fit and release, published"
    write_scores(options.table, [
        (f"milliseconds, {part}", name, 1, None, None, [1000 * seconds])
        for name, all_times in found.items()
        for part, seconds in zip(parts, all_times, strict=True)
    ])  # fmt: skip
# sphinx_gallery_end_ignore

# %%
# The picture
# -----------

import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
places = np.arange(len(found))
for number, (label, values) in enumerate(
    {
        "here, fit and release": [fit + release for fit, release, _ in found.values()],
        "here, release alone": [release for _, release, _ in found.values()],
        "in the paper": [PAPER[name] for name in found],
    }.items()
):
    axis.bar(places + 0.27 * (number - 1), values, 0.27, label=label)
axis.set(yscale="log", ylabel="seconds", title="How long does a release take?")
axis.set_xticks(places, list(found))
figure.legend(loc="outside lower center", ncols=3)
# sphinx_gallery_start_ignore
if options.output is not None:
    figure.savefig(options.output, dpi=130)
# sphinx_gallery_end_ignore
plt.show()

# %%
# What follows
# ------------
# In the paper, MVG and the matrix mechanism take 200 to 500 times as long as the
# others. It names the causes: a singular value decomposition of the data for MVG, and a
# general solver for the matrix mechanism. Neither is necessary. Directions from public
# weights need no decomposition of the data, and the strategy follows from an iteration
# on the matrix of the rows alone. Then all five take a few milliseconds, most of them
# for the fit, which one makes once.

# %%
# From the command line
# ---------------------
# Other shapes:
#
# .. code-block:: bash
#
#     python examples/papers/running_times.py --shape 120 400 --repeats 11
