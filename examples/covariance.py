"""Covariance of people's measurements
===================================

By every mechanism for matrices: the covariance estimation of Yang, Xiang, Chen, Li and
Li (2021), Section VIII, at one true guarantee.

The rows of X are people; what is wanted is S = X^T X / n, not centred, as in the
paper. A tenth of the rows is public, and says how large each feature may be, which norm
a row may have, and which directions matter. The others are private: they are clipped to
these limits, and scaled by the norm, which then is 1. The data are ten measurements of
442 diabetes patients in their own units; ``--data FILE`` takes others, an .npz with an
array ``X`` of shape (n, ...).

Protected is a whole private row. Neighbours differ in one row, which is set to zero
in one of them: add or remove, with a public n. Then X^T X moves by x x^T, whose
Frobenius norm is at most 1. (Replacing a row would move it by up to sqrt(2).) In this
relation one release is (epsilon, 1e-5)-differentially private: Gaussian noise by Balle
and Wang (2018), Theorem 8, for a query of sensitivity 1, and the Johnson-Lindenstrauss
release because its Gaussian laws are compared exactly. That is true of all rows but the
last three, which are calibrated as in the paper, at the epsilon that it would claim.
Without weights they are i.i.d. noise, and are drawn as such at their true epsilon,
which is under each.

- "one triangle": a routine for eigenvectors reads one half of a symmetric matrix, and
  this is what it makes of i.i.d. noise. "symmetrised" is the mean of both halves, "PSD"
  the nearest positive semidefinite matrix; that is post-processing, and all rows below
  but one have it.
- "TVG" gives features of small range less noise. A row moves entry (i, j) by at most
  b_i b_j. With q_i = min(b_i^2, c) and sum q_i = 1, the noise N x_1 U x_2 U with
  U = diag(q_i^(1/4)) has the least squared error of all with a diagonal U. It is drawn
  as i.i.d. noise for features divided by q_i^(1/4), of sensitivity sum sqrt(q_i).
- "MVG" has four times the variance, of rows and of columns, in the half of the
  directions that matter least.
- "Johnson-Lindenstrauss" has 10,000 projections; with fewer it is worse.
- "variances alone" is the diagonal of the i.i.d. release.

``python examples/covariance.py --random-state 0``, mean of 50 releases at epsilon = 1,
or published at that claim:

======================  ============  =========  =============
..                      true epsilon  RSS        squared error
======================  ============  =========  =============
i.i.d., one triangle    1             0.0074     0.0087
i.i.d., symmetrised     1             0.0041     0.0049
i.i.d., PSD             1             0.0021     0.0029
TVG, weights of ranges  1             0.00073    0.0012
MVG, directions         1             0.016      0.018
Johnson-Lindenstrauss   1             0.0022     0.0039
variances alone         1             0.00083    0.27
TVG, published          0.019         3.3        3.5
UDN, published          0.068         0.28       0.37
IDN, published          0.24          0.028      0.039
0 everywhere            0                        0.40
======================  ============  =========  =============

RSS is Equation 33, the sum of (lambda_i - v_i^T S v_i)^2 over eigenvalues lambda_i and
eigenvectors v_i of the estimate. It is that part of the squared Frobenius error which
is on the diagonal in this basis, and does not see wrong eigenvectors: an estimate
without any covariance is second best. The squared error does. The paper has IDN and UDN
ahead of Johnson-Lindenstrauss; by either measure they are behind it once its own
calibration is exact. Where all features have the same range, TVG is i.i.d. noise.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import brentq
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from sktensordp.mechanisms import (
    GaussianMechanism,
    IndependentDirectionalNoise,
    JohnsonLindenstrauss,
    MatrixVariateGaussian,
    TensorVariateGaussian,
    UnimodalDirectionalNoise,
)

DELTA = 1e-5
PUBLISHED = {
    "TVG, published": TensorVariateGaussian,
    "UDN, published": UnimodalDirectionalNoise,
    "IDN, published": IndependentDirectionalNoise,
}
# Marker and line of each curve, in the order of the rows.
STYLES = ["s-", "o--", "D-.", "P-", "X:", "^--", "*:", "v--", "<-.", ">:"]


def clipped(X):
    """Private rows, raw and clipped to norm 1, limits of features, and directions."""
    public, private = train_test_split(X, train_size=0.1, random_state=0)
    limits = np.abs(public).max(axis=0)
    # Weights divide by them.
    limits = np.maximum(limits, 0.01 * limits.max())
    norm = np.linalg.norm(public, axis=1).max()
    rows = np.clip(private, -limits, limits) / norm
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
    directions = np.linalg.eigh(public.T @ public)[1]
    return private / norm, rows, limits / norm, directions


def positive(matrices):
    """Nearest positive semidefinite matrices."""
    values, vectors = np.linalg.eigh((matrices + matrices.mT) / 2)
    return (vectors * np.maximum(values, 0)[..., np.newaxis, :]) @ vectors.mT


def estimates(epsilon, rows, limits, directions, n_repeats, random_state):
    """Name, estimates of X^T X and true epsilon of every mechanism."""
    n_rows, size = rows.shape
    common = {"delta": DELTA, "random_state": random_state}
    # What the sums of floating-point products may err by.
    rounding = 1 + 2 * n_rows**2 * np.finfo(float).eps

    def release(mechanism, query):
        return mechanism.fit_transform(
            np.broadcast_to(query, (n_repeats, *query.shape))
        )

    def gaussian(epsilon, scales=1.0, sensitivity=1.0):
        scaled = rows / scales
        mechanism = GaussianMechanism(
            epsilon, sensitivity=sensitivity * rounding, **common
        )
        noisy = release(mechanism, scaled.T @ scaled)
        return noisy * np.multiply.outer(scales, scales)

    iid = gaussian(epsilon)
    lower = np.tril(iid)
    yield "i.i.d., one triangle", lower + np.tril(iid, -1).mT, epsilon
    yield "i.i.d., symmetrised", (iid + iid.mT) / 2, epsilon
    yield "i.i.d., PSD", positive(iid), epsilon
    shares = water_level(limits)
    weighted = gaussian(epsilon, shares**0.25, np.sqrt(shares).sum())
    yield "TVG, weights of ranges", positive(weighted), epsilon
    variances = np.where(np.arange(size) < size // 2, 4, 1)
    covariance = (directions * variances) @ directions.T
    mechanism = MatrixVariateGaussian(
        epsilon, row_covariance=covariance, column_covariance=covariance,
        sensitivity=rounding, **common,
    )  # fmt: skip
    yield "MVG, directions", positive(release(mechanism, rows.T @ rows)), epsilon
    mechanism = JohnsonLindenstrauss(
        epsilon, n_projections=10_000, norm_bound=1.0, **common
    )
    yield "Johnson-Lindenstrauss", positive(release(mechanism, rows)), epsilon
    yield "variances alone", iid * np.eye(size), epsilon
    for name, design in PUBLISHED.items():
        mechanism = design(epsilon, bounds=(0, 1), calibration="published", **common)
        mechanism.fit(np.zeros((1, size, size)))
        truth = mechanism.privacy_guarantee_.epsilon
        yield name, positive(gaussian(truth)), truth


def water_level(limits):
    """min(b_i^2, c) of sum 1, for limits b_i whose squares have a sum of 1 or more."""
    squares = limits**2
    total = min(1, squares.sum())  # Rounding may leave less than 1.

    def excess(c):
        return np.minimum(squares, c).sum() - total

    return np.minimum(squares, brentq(excess, 0, squares.max(), xtol=1e-15))


def errors(found, truth):
    """Residual sum of squares and squared error of every estimate."""
    values, vectors = np.linalg.eigh(found)
    rayleigh = np.einsum("rij,ik,rkj->rj", vectors, truth, vectors, optimize=True)
    rss = np.square(values - rayleigh).sum(axis=1)
    return rss, np.square(found - truth).sum(axis=(1, 2))


def draw(axis, name, epsilons, curves, truths):
    """Mean and spread over epsilon; below, what is true of the published ones."""
    for i, (label, style) in enumerate(zip(curves, STYLES, strict=True)):
        mean, spread = np.transpose(curves[label])
        apart = np.array(epsilons) * 1.03 ** (i - len(curves) // 2)
        # Downwards no further than a log axis can show.
        bars = [np.minimum(spread, mean / 2), spread]
        look = {"color": f"C{i}"}
        if label in truths:
            look = {"color": "0.4", "markerfacecolor": "white"}
            label = f"{label}, at its claim"
        axis.errorbar(
            apart, mean, yerr=bars, fmt=style, capsize=2, linewidth=1.1, markersize=6,
            label=label, **look,
        )  # fmt: skip
    rows = [[f"{epsilon:g}" for epsilon in epsilons]]
    rows += [[f"{truth:.2g}" for truth in row] for row in truths.values()]
    axis.set(xscale="log", yscale="log", title=name)
    ticks = ["\n".join(column) for column in zip(*rows, strict=True)]
    axis.set_xticks(epsilons, ticks, fontsize=8)
    axis.minorticks_off()
    names = ["epsilon", *(f"true, {label.split(',')[0]}" for label in truths)]
    place = {"transform": axis.transAxes, "ha": "right", "va": "top", "fontsize": 8}
    axis.text(-0.01, -0.019, "\n".join(names), **place)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--epsilons", nargs="+", type=float, default=[0.1, 0.3, 1, 3, 10]
    )
    parser.add_argument("--repeats", type=int, default=50, help="of the noise")
    parser.add_argument("--data", metavar="FILE", help=".npz with X of shape (n, ...)")
    parser.add_argument("--random-state", type=int, help="seed of the noise")
    parser.add_argument("--output", default="covariance.png", metavar="PNG")
    arguments = parser.parse_args()
    if arguments.data is None:
        X = load_diabetes(scaled=False).data
    else:
        X = np.load(arguments.data)["X"].astype(float)
    private, *public = clipped(X.reshape(len(X), -1))
    n_rows, truth = len(private), private.T @ private / len(private)
    measures = ("RSS (Equation 33)", "squared error")
    tables = {measure: {} for measure in measures}
    truths = {name: [] for name in PUBLISHED}
    for epsilon in arguments.epsilons:
        settings = arguments.repeats, arguments.random_state
        for name, found, real in estimates(epsilon, *public, *settings):
            pair = errors(found / n_rows, truth)
            for measure, values in zip(measures, pair, strict=True):
                row = tables[measure].setdefault(name, [])
                row.append((values.mean(), values.std()))
            if name in truths:
                truths[name].append(real)
    print(f"{n_rows} private rows of {truth.shape[0]} features, delta = {DELTA:g}")
    for measure, rows in tables.items():
        heads = "".join(f"{e:>16g}" for e in arguments.epsilons)
        print(f"\n{f'{measure}: epsilon':28}{heads}")
        for name, row in rows.items():
            text = "".join(f"{f'{mean:.1e}±{std:.0e}':>16}" for mean, std in row)
            print(f"{name:28}{text}")
            if name in truths:
                text = "".join(f"{real:16.2g}" for real in truths[name])
                print(f"{'  its true epsilon':28}{text}")
    print(f"{'0 everywhere':28}{np.square(truth).sum():16.1e}")
    figure, axes = plt.subplots(
        1, 2, figsize=(13, 5.5), sharey=True, layout="constrained"
    )
    for axis, (measure, rows) in zip(axes, tables.items(), strict=True):
        draw(axis, measure, arguments.epsilons, rows, truths)
    nothing = {"color": "0.35", "linestyle": (0, (1, 1)), "label": "0 everywhere"}
    axes[1].axhline(np.square(truth).sum(), **nothing)
    axes[0].set_ylabel("error of the estimate")
    axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(arguments.output, dpi=130)
    print(f"\nPicture in {arguments.output}")


if __name__ == "__main__":
    main()
