"""Private samples, classified by a public model
=============================================

What a person's features are worth after noise: the third type of experiment of Yang,
Xiang, Chen, Li and Li (2021), private testing data.

A model is trained on clean public data. Each person sends a tensor of features of
their own sample through a mechanism, once, and the model classifies what arrives:
either the 8 x 8 pixels, which a linear model reads; or the 16 tanh units that a network
has before its last layer, computed at the person's side and laid out as 4 x 4. The
entries are in [-1, 1]. The weights of an error are the coefficients of the model that
is used, so that they are public and exact. Digits are scikit-learn's, one half public
and one private; the paper has convolutional networks on larger images. ``--data FILE``
takes such features: an .npz with ``X`` of shape (n, ...), entries in [-1, 1], and
labels ``y``.

Protected is the sample of every person of the private half: any tensor may take the
place of theirs, and what they send is (epsilon, 1e-5)-differentially private (Balle and
Wang 2018, Theorem 8), or with delta = 0 for PrivUnit (Bhowmick et al. 2018, Theorem 1)
and the hybrid mechanism. That is the true guarantee of all rows but the last three.
Those are the paper's calibrations, drawn at the epsilon that they claim; the true one
is under each, and is smaller: they are noisier than their claim needs.

``python examples/private_test_features.py --random-state 0``, mean of five releases at
a true epsilon of 16, 32 and 64, and for those published at that claim:

=========================  =====  =====  =====  =====  =====  =====
..                         pixels               features
-------------------------  -------------------  -------------------
epsilon                    16     32     64     16     32     64
=========================  =====  =====  =====  =====  =====  =====
i.i.d. Gaussian            0.191  0.262  0.417  0.379  0.619  0.859
TVG, weights of modes      0.206  0.302  0.473  0.381  0.621  0.860
UDN, weights of entries    0.215  0.307  0.482  0.382  0.623  0.860
MVG, directions            0.170  0.242  0.335  0.227  0.318  0.492
hybrid (delta = 0)         0.259  0.353  0.497  0.610  0.822  0.956
PrivUnit (delta = 0)       0.495  0.746  0.897  0.935  0.969  0.972
IDN, published             0.135  0.171  0.267  0.251  0.433  0.720
its true epsilon           5.8    13     29     8.6    19     41
no noise                   0.954  0.954  0.954  0.972  0.972  0.972
=========================  =====  =====  =====  =====  =====  =====

- To send 16 learned features and not 64 pixels is worth more than any weights.
- Weights help where some entries hardly matter, as the pixels at the edge. A network
  makes its units matter alike, and there they gain nothing. MVG's directions lose.
- PrivUnit is far ahead of all others, and has delta = 0.
- In the paper IDN is the best and i.i.d. noise second. Here each published design is
  behind i.i.d. noise that protects the whole sample.

Accuracies on the private half are measured for the comparison, and are no release. The
network was chosen on these digits, for all mechanisms alike.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from sktensordp.mechanisms import (
    GaussianMechanism,
    HybridMechanism,
    IndependentDirectionalNoise,
    MatrixVariateGaussian,
    PrivUnit,
    TensorVariateGaussian,
    UnimodalDirectionalNoise,
)

# Marker and line of each curve, in the order of the mechanisms.
STYLES = ["s-", "o--", "D-.", "X:", "P-", "^-", "v--", "<-.", ">:"]


def digits():
    """Features and labels by name: those of the public half, then of the private."""
    X, y = load_digits(return_X_y=True)
    public, private, *labels = train_test_split(
        X / 8 - 1, y, test_size=0.5, stratify=y, random_state=0
    )
    network = MLPClassifier(
        (64, 16), activation="tanh", alpha=0.1, max_iter=1000, random_state=0
    ).fit(public, labels[0])
    units = [hidden(network, X).reshape(-1, 4, 4) for X in (public, private)]
    pixels = [X.reshape(-1, 8, 8) for X in (public, private)]
    return {"pixels": (*pixels, *labels), "features": (*units, *labels)}


def hidden(network, X):
    """What a network has before its last layer."""
    for weights, bias in zip(
        network.coefs_[:-1], network.intercepts_[:-1], strict=True
    ):
        X = np.tanh(X @ weights + bias)
    return X


def mechanisms(model, shape):
    """Name and mechanism, with the shape that it takes samples in."""
    coefficients = model.coef_
    if len(coefficients) > 1:
        # What all classes have in common decides nothing.
        coefficients = coefficients - coefficients.mean(axis=0)
    tensor = coefficients.reshape(-1, *shape)
    modes = [np.moveaxis(tensor, k + 1, -1) for k in range(len(shape))]
    modes = [mode.reshape(-1, mode.shape[-1]) for mode in modes]
    weights = [np.linalg.norm(mode, axis=0) for mode in modes]
    matrix = coefficients.reshape(-1, shape[0], int(np.prod(shape[1:])))
    columns = matrix.reshape(-1, matrix.shape[-1])
    pure = {"bounds": (-1, 1)}
    common = {**pure, "delta": 1e-5}
    published = {**common, "calibration": "published"}
    return {
        "i.i.d. Gaussian": (GaussianMechanism(**common), shape),
        "TVG, weights of modes": (
            TensorVariateGaussian(utility=weights, **common), shape,
        ),
        "UDN, weights of entries": (
            UnimodalDirectionalNoise(utility=coefficients, **common), (-1,),
        ),
        "MVG, directions": (
            MatrixVariateGaussian(
                row_covariance=covariance(modes[0]),
                column_covariance=covariance(columns), **common,
            ), matrix.shape[1:],
        ),
        "hybrid (delta = 0)": (HybridMechanism(**pure), shape),
        "PrivUnit (delta = 0)": (PrivUnit(**pure), shape),
        "TVG, published": (TensorVariateGaussian(utility=weights, **published), shape),
        "UDN, published": (
            UnimodalDirectionalNoise(
                utility=modes[0], directions="singular_vectors", **published
            ), shape,
        ),
        "IDN, published": (
            IndependentDirectionalNoise(utility=modes[0], **published), shape,
        ),
    }  # fmt: skip


def covariance(coefficients):
    """More noise in the half of the directions that the coefficients use least."""
    _, vectors = np.linalg.eigh(coefficients.T @ coefficients)
    half = np.arange(len(vectors)) < len(vectors) // 2
    return (vectors * np.where(half, 4, 1)) @ vectors.T


def accuracies(mechanism, X, y, model, n_repeats):
    """Accuracy on samples that were sent, for every repetition."""
    return [
        model.score(mechanism.transform(X).reshape(len(X), -1), y)
        for _ in range(n_repeats)
    ]


def compare(name, data, arguments):
    """Print a table; curves, true epsilons of those published, accuracy and chance."""
    public, private, y_public, y_private = data
    model = LogisticRegression(C=0.1, max_iter=5000)
    model.fit(public.reshape(len(public), -1), y_public)
    epsilons, shape = arguments.epsilons, private.shape[1:]
    size = " x ".join(map(str, shape))
    print(f"\n{f'{name}, {size}: epsilon':28}{''.join(f'{e:>13g}' for e in epsilons)}")
    curves, truths = {}, {}
    for label, (mechanism, layout) in mechanisms(model, shape).items():
        X, rows, truth = private.reshape(len(private), *layout), [], []
        for epsilon in epsilons:
            mechanism.set_params(epsilon=epsilon, random_state=arguments.random_state)
            mechanism.fit(X)
            found = accuracies(mechanism, X, y_private, model, arguments.repeats)
            rows.append((np.mean(found), np.std(found)))
            truth.append(mechanism.privacy_guarantee_.epsilon)
        curves[label] = (epsilons, *np.transpose(rows))
        text = "".join(f"{f'{mean:.3f}±{std:.3f}':>13}" for mean, std in rows)
        print(f"{label:28}{text}", flush=True)
        if "published" in label:
            truths[label] = truth
            text = "".join(f"{real:13.2g}" for real in truth)
            print(f"{'  its true epsilon':28}{text}")
    clean = model.score(private.reshape(len(private), -1), y_private)
    chance = np.unique(y_private, return_counts=True)[1].max() / len(y_private)
    print(f"{'no noise':28}{clean:13.3f}\n{'one answer for all':28}{chance:13.3f}")
    return f"{name}, {size}", curves, truths, clean, chance


def draw(axis, title, curves, truths, clean, chance):
    """Curves over epsilon; below the claims what is true of those published."""
    for i, (label, style) in enumerate(zip(curves, STYLES, strict=True)):
        epsilons, mean, spread = curves[label]
        apart = np.array(epsilons) * 1.03 ** (i - len(curves) // 2)
        look = {"color": f"C{i}"}
        if label in truths:
            look = {"color": "0.4", "markerfacecolor": "white"}
            label = f"{label}, at its claim"
        axis.errorbar(
            apart, mean, yerr=spread, fmt=style, capsize=2, label=label, **look
        )
    axis.axhline(clean, color="0.35", linestyle=(0, (1, 1)), label="no noise")
    axis.axhline(
        chance, color="0.35", linestyle=(0, (5, 1)), label="one answer for all"
    )
    rows = [[f"{epsilon:g}" for epsilon in epsilons]]
    rows += [[f"{truth:.2g}" for truth in row] for row in truths.values()]
    ticks = ["\n".join(column) for column in zip(*rows, strict=True)]
    axis.set(xscale="log", title=title)
    axis.set_xticks(epsilons, ticks, fontsize=8)
    axis.minorticks_off()
    names = ["epsilon", *(f"true, {name.split(',')[0]}" for name in truths)]
    place = {"transform": axis.transAxes, "ha": "right", "va": "top", "fontsize": 8}
    axis.text(-0.01, -0.019, "\n".join(names), **place)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--epsilons", nargs="+", type=float, default=[1, 2, 4, 8, 16, 32, 64, 128]
    )
    parser.add_argument("--repeats", type=int, default=5, help="of the noise")
    parser.add_argument("--data", metavar="FILE", help=".npz with X in [-1, 1] and y")
    parser.add_argument("--random-state", type=int, help="seed of the noise")
    parser.add_argument("--output", default="private_test_features.png", metavar="PNG")
    arguments = parser.parse_args()
    if arguments.data is None:
        stages = digits()
    else:
        data = np.load(arguments.data)
        X, y = np.clip(data["X"], -1, 1), data["y"]
        stages = {
            "features": train_test_split(
                X, y, test_size=0.5, stratify=y, random_state=0
            )
        }
    figure, axes = plt.subplots(
        1, len(stages), figsize=(2 + 6 * len(stages), 5.5), sharey=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for axis, (name, data) in zip(axes[0], stages.items(), strict=True):
        draw(axis, *compare(name, data, arguments))
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes[0, 0].set_ylabel("accuracy on the private half")
    figure.savefig(arguments.output, dpi=130)
    print(f"\nPicture in {arguments.output}")


if __name__ == "__main__":
    main()
