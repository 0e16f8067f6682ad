"""Error of every noise mechanism at one true guarantee
====================================================

A sample is a tensor with entries in [0, 1], of which all may change. Every mechanism
is brought to the same true guarantee, (1, 1e-5) unless told otherwise: those with a
published calibration by raising the epsilon that they claim until that is what really
holds. What is computed from a sample weighs the i-th slice of its first mode by 1/i.
The table gives the weighted error relative to i.i.d. Gaussian noise, as the fitted
object states it and as measured on samples, and what the published calibrations really
guarantee, and cost, at the claim itself.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import brentq

from sktensordp.mechanisms import (
    GaussianMechanism,
    IndependentDirectionalNoise,
    LaplaceMechanism,
    MatrixGaussian,
    MatrixVariateGaussian,
    TensorVariateGaussian,
    UnimodalDirectionalNoise,
)

SHAPES = [(16, 5, 5), (28, 28), (256, 150)]


def mechanisms(shape, delta, random_state):
    """Name and estimator; the weights are those of the first mode."""
    weights = 1 / np.arange(1, shape[0] + 1)
    box = {"bounds": (0, 1), "random_state": random_state}
    gaussian = {**box, "delta": delta}
    per_mode = [weights] + [None] * (len(shape) - 1)
    yield "Gaussian, i.i.d.", GaussianMechanism(**gaussian)
    yield "Laplace (delta = 0)", LaplaceMechanism(**box)
    for name, calibration in (("", "sound"), (", published", "published")):
        gaussian["calibration"] = calibration
        yield f"TVG{name}", TensorVariateGaussian(utility=per_mode, **gaussian)
        if len(shape) == 2:
            yield f"MGM{name}", MatrixGaussian(utility=per_mode, **gaussian)
        yield f"UDN{name}", UnimodalDirectionalNoise(utility=weights, **gaussian)
        yield f"IDN{name}", IndependentDirectionalNoise(utility=weights, **gaussian)
        if len(shape) == 2:
            covariance = np.diag(np.sqrt(1 / weights**2))
            yield (
                f"MVG{name}",
                MatrixVariateGaussian(row_covariance=covariance, **gaussian),
            )


def at_true_epsilon(mechanism, X, epsilon):
    """Fit with the claim at which `epsilon` is what really holds."""
    published = getattr(mechanism, "calibration", "sound") == "published"

    def excess(log_claim):
        mechanism.set_params(epsilon=float(np.exp(log_claim))).fit(X)
        return mechanism.privacy_guarantee_.epsilon - epsilon

    low = high = np.log(epsilon)
    while published and excess(high) < 0:
        low, high = high, high + 1
    claim = np.exp(brentq(excess, low, high, rtol=1e-6)) if published else epsilon
    return mechanism.set_params(epsilon=float(claim)).fit(X)


def measured_error(mechanism, weights, n_values):
    """Mean of the weighted squared error over samples of at least `n_values` values."""
    shape = mechanism.sample_shape_
    X = np.zeros((max(1, n_values // np.prod(shape)), *shape))
    noise = mechanism.transform(X)
    weighted = noise * weights.reshape(-1, *[1] * (len(shape) - 1))
    return np.sum(weighted**2) / len(X)


def stated_error(mechanism, weights):
    """Weighted error from the variance of the noise in each entry."""
    shape = mechanism.sample_shape_
    variance = np.broadcast_to(mechanism.noise_variance_, shape)
    return np.sum(weights**2 @ variance.reshape(len(weights), -1))


def table(shape, epsilon, delta, n_values, random_state):
    """Rows of name, error stated and measured, true epsilon and error at the claim."""
    weights = 1 / np.arange(1, shape[0] + 1)
    reference, X = None, np.zeros((1, *shape))
    for name, mechanism in mechanisms(shape, delta, random_state):
        at_claim = None
        if "published" in name:
            mechanism.set_params(epsilon=epsilon).fit(X)
            truth = mechanism.privacy_guarantee_.epsilon
            at_claim = truth, stated_error(mechanism, weights) / reference
        at_true_epsilon(mechanism, X, epsilon)
        stated = stated_error(mechanism, weights)
        reference = stated if reference is None else reference
        measured = measured_error(mechanism, weights, n_values) / reference
        yield name, stated / reference, measured, at_claim


def draw(results, epsilon, delta, output):
    """Error over shapes: at the true guarantee left, at the claim right."""
    figure, axes = plt.subplots(
        1, 2, figsize=(11, 5), sharey=True, layout="constrained"
    )
    names = list(dict.fromkeys(name for rows in results.values() for name, *_ in rows))
    markers = "osD^vPX<>*hd"
    titles = (
        f"all at the true guarantee ({epsilon:g}, {delta:g})",
        f"published: at the claim ({epsilon:g}, {delta:g})",
    )
    for axis, title in zip(axes, titles, strict=True):
        for i, name in enumerate(names):
            points = []
            for j, rows in enumerate(results.values()):
                found = {row[0]: row for row in rows}.get(name)
                if found is None:
                    continue
                value = found[1] if axis is axes[0] or not found[3] else found[3][1]
                points.append((j + 0.05 * (i - len(names) / 2), value))
            style = "none" if "published" in name else "full"
            axis.plot(
                *zip(*points, strict=True), markers[i % len(markers)], fillstyle=style,
                label=name, color=f"C{i % 10}", markersize=7,
            )  # fmt: skip
        axis.axhline(1, color="0.5", linewidth=0.8)
        axis.set_yscale("log")
        axis.set_xticks(range(len(results)), [str(shape) for shape in results])
        axis.set(title=title, xlabel="shape of a sample")
    axes[0].set_ylabel("weighted squared error / that of i.i.d. Gaussian noise")
    axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(output, dpi=130)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--values", type=int, default=2_000_000, help="noise measured")
    parser.add_argument("--shapes", type=int, default=3, help="how many, small first")
    parser.add_argument("--random-state", type=int, default=0)
    parser.add_argument("--output", default="mechanism_errors.png", metavar="PNG")
    arguments = parser.parse_args()
    epsilon, delta = arguments.epsilon, arguments.delta
    results = {}
    for shape in SHAPES[: arguments.shapes]:
        print(f"\nshape {shape}")
        print(f"{'':22}{'at the true guarantee':>23}{'':4}at the claim")
        print(f"{'':22}{'stated':>11}{'measured':>12}{'true epsilon':>16}{'error':>10}")
        results[shape] = []
        rows = table(shape, epsilon, delta, arguments.values, arguments.random_state)
        for name, stated, measured, at_claim in rows:
            results[shape].append((name, stated, measured, at_claim))
            claim = f"{at_claim[0]:16.3g}{at_claim[1]:10.3g}" if at_claim else ""
            print(f"{name:22}{stated:11.4g}{measured:12.4g}{claim}", flush=True)
    draw(results, epsilon, delta, arguments.output)
    print(f"\nPicture in {arguments.output}")


if __name__ == "__main__":
    main()
