"""Training on digits that nobody saw
==================================

What each local mechanism is worth.

Each image of 8 x 8 pixels is randomised as a whole at its person's side. A linear
discriminant analysis learns from what is released, and is tested on clean images, by
the weighted F1 score. Its one setting, how much the covariance is shrunk, follows from
the released images (Ledoit and Wolf), so that the rule is the same for all and costs
nothing. Below some epsilon nearly all images get the same answer, which scores 0.02.

All curves but two are at one true guarantee of an image: pure epsilon, or epsilon at
delta = 1e-5 for Gaussian noise and randomised response. The weighted response protects
pixels the more the nearer they are to the centre. The other two are the randomised
response of Yuan, Tang, Huang and Wang as published (TLDP-L and TLDP-G). It learns much
because what its theorems call the epsilon of an image is spent on every pixel. These
two are drawn at the epsilon that is claimed; the one that is true, at delta = 1e-5,
stands below. Labels are not protected here.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from sktensordp.exceptions import UnsoundClaimWarning
from sktensordp.mechanisms import (
    GaussianMechanism,
    HybridMechanism,
    LaplaceMechanism,
    PrivUnit,
    TensorRandomizedResponse,
)
from sktensordp.plotting import PrivacyUtilityDisplay

DELTA = 1e-5
# Marker and line of each curve, in the order of the mechanisms.
STYLES = ["s-", "o--", "D-.", "v:", "X--", "^-", "P-", "<:", ">:"]


def mechanisms():
    """Name and mechanism, those as published last."""
    image = {"bounds": (0, 16), "tensor_shape": (8, 8)}
    approximate = {**image, "delta": DELTA}
    from_edge = np.minimum(np.arange(8), np.arange(8)[::-1])
    weights = 0.3 * np.minimum.outer(from_edge, from_edge)
    published = {**approximate, "calibration": "published"}
    return {
        "Laplace": LaplaceMechanism(**image),
        "Gaussian": GaussianMechanism(**approximate),
        "response, 2 levels": TensorRandomizedResponse(**approximate),
        "response, 17 levels": TensorRandomizedResponse(n_levels=17, **approximate),
        "response, 17, weighted": TensorRandomizedResponse(
            n_levels=17, weights=weights, **approximate
        ),
        "hybrid": HybridMechanism(**image),
        "PrivUnit": PrivUnit(**image),
        "TLDP-L as published": TensorRandomizedResponse(**published),
        "TLDP-G as published": TensorRandomizedResponse(noise="gaussian", **published),
    }


def scores(mechanism, X, y, n_splits, random_state):
    """Weighted F1 on clean images, one a split, and the true epsilon."""
    found = []
    for split in range(n_splits):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, test_size=0.3, stratify=y, random_state=split
        )
        # Noise of its own for every split.
        seed = None if random_state is None else random_state + split
        pipeline = make_pipeline(
            clone(mechanism).set_params(random_state=seed),
            LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnsoundClaimWarning)
            pipeline.fit(X_train, y_train)
        # The classifier alone: what it is tested on carries no noise.
        predicted = pipeline[-1].predict(X_test)
        found.append(f1_score(y_test, predicted, average="weighted"))
    return found, pipeline[0].privacy_guarantee_.epsilon


def draw(curves, truths, clean, output):
    """Curves over epsilon; below the claims what is true of those as published."""
    figure, axis = plt.subplots(figsize=(10.5, 6), layout="constrained")
    apart = {
        f"{name}, at its claim" if name in truths else name: (
            np.array(epsilons) * 1.03 ** (i - len(curves) // 2), mean, spread,
        )
        for i, (name, (epsilons, mean, spread)) in enumerate(curves.items())
    }  # fmt: skip
    display = PrivacyUtilityDisplay(
        apart, references={"no noise": clean, "chance": 0.1},
        score_name="weighted F1 on clean images",
    ).plot(axis)  # fmt: skip
    for name, style, drawn in zip(curves, STYLES, display.lines_, strict=True):
        line, caps, bars = drawn
        line.set(marker=style[0], linestyle=style[1:])
        for artist in (*caps, *bars):
            artist.set_alpha(0.5)
        if name in truths:
            for artist in (line, *caps, *bars):
                artist.set_color("0.4")
            line.set_markerfacecolor("white")
    epsilons = next(iter(curves.values()))[0]
    rows = [[f"{epsilon:g}" for epsilon in epsilons]]
    rows += [[f"{truth:,.0f}" for truth in row] for row in truths.values()]
    axis.set_xticks(epsilons, ["\n".join(column) for column in zip(*rows, strict=True)])
    axis.minorticks_off()
    axis.set_xlabel("")
    names = ["epsilon", *(f"true epsilon, {name.split()[0]}" for name in truths)]
    place = {"transform": axis.transAxes, "ha": "right", "va": "top"}
    axis.text(-0.01, -0.013, "\n".join(names), **place)
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(output, dpi=130)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--epsilons", nargs="+", type=float, default=[1, 2, 4, 8, 16, 32, 64, 128, 256]
    )
    parser.add_argument("--splits", type=int, default=3, help="random splits")
    parser.add_argument("--random-state", type=int, help="seed of the noise")
    parser.add_argument("--output", default="local_digits.png", metavar="PNG")
    arguments = parser.parse_args()
    epsilons, n_splits = arguments.epsilons, arguments.splits
    data = load_digits(return_X_y=True)
    print(f"{'epsilon of an image':24}{''.join(f'{e:>10g}' for e in epsilons)}")
    curves, truths = {}, {}
    for name, mechanism in mechanisms().items():
        rows, truth = [], []
        for epsilon in epsilons:
            mechanism.set_params(epsilon=epsilon)
            found, real = scores(mechanism, *data, n_splits, arguments.random_state)
            rows.append((np.mean(found), np.std(found)))
            truth.append(real)
        curves[name] = (epsilons, *np.transpose(rows))
        row = "".join(f"{f'{mean:.2f}±{std:.2f}':>10}" for mean, std in rows)
        print(f"{name:24}{row}", flush=True)
        if "published" in name:
            truths[name] = truth
            row = "".join(f"{real:>10,.0f}" for real in truth)
            print(f"{'  its true epsilon':24}{row}")
    clipped = mechanisms()["Laplace"].set_params(epsilon=np.inf)
    clean = np.mean(scores(clipped, *data, n_splits, None)[0])
    print(f"{'no noise':24}{clean:9.2f}")
    draw(curves, truths, clean, arguments.output)
    print(f"\nPicture in {arguments.output}")


if __name__ == "__main__":
    main()
