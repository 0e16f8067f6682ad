"""Randomised response for tensors: three experiments
===================================================

What local privacy leaves of images, of features and of model parameters.

Yuan, Tang, Huang and Wang ("Local differential privacy for tensors in distributed
computing systems", Section V) propose TLDP, which keeps an entry of a tensor or adds
noise to it. They try it in three ways, with three users and a server that is not
trusted:

* Type I: images are randomised, and the server trains on them. The paper's title says
  testing data, its text training data; so the model is tested on clean images and on
  randomised ones.
* Type II: features are randomised, and the server trains on them. Here they are the
  tanh of 16 principal components of public images, in a tensor of 4 x 4.
* Type III: each user trains a model for one epoch, on these features, clips its
  parameters to [-1, 1] and sends them randomised; the server returns their mean; three
  rounds.

**Who is protected.** In Types I and II the person an image is about, by one release of
it or of its features: it may be replaced by any other image. Labels are not protected,
and it does not matter which user holds an image. In Type III a user, with all images
and labels, from the server and the other users: in each round any parameters in the box
may stand in place of any others. That is a far stronger promise, and needs a far larger
epsilon. What a user's three rounds cost together stands below each row, at three times
the delta of one: by adding up, or by the accountant where that is less.

**What is compared.** All mechanisms but those as published are at one true guarantee of
one release: pure epsilon for Laplace noise, the hybrid mechanism and PrivUnit, else
epsilon at delta = 1e-5. With the identity as utility, as in the paper, MVG and IDN are
Gaussian noise once they are calibrated exactly, and share its row. "L" and "G" are
responses with moves by truncated Laplace and Gaussian noise, the sound forms of TLDP-L
and TLDP-G. Those as published are drawn at the epsilon that is claimed; the true one,
at delta = 1e-5, stands below. It is less than the claim for MVG and for IDN (with the
constant that its proof needs), and far more for TLDP, because what its theorems call
the epsilon of a tensor is spent on every entry. A weight ("w") is the mean grey value
of a pixel over public images; one from the image itself, as in the paper, would reveal
it. The more weight, the less often is a pixel kept.

In place of MNIST there are 8 x 8 digits, in place of MobileNet scikit-learn's linear
discriminant analysis, with a shrinkage that follows from what is released, and logistic
regression by stochastic gradients. A fifth of the images is public, without labels;
seven tenths of the rest train. The clip is the paper's, the learning rate of 0.1 was
set by hand. Tests and the lines without noise use what is clean: they are for the
comparison, and no part of a release.

**What it says** (``python examples/tensor_response.py --random-state 0``; mean F1 of
five splits). *Type I*, at epsilon 8 and 32: Laplace 0.03 and 0.67, Gaussian 0.29 and
0.85, the responses 0.28 to 0.38 and 0.83 to 0.85, hybrid 0.74 and 0.88, PrivUnit 0.87
and 0.90; without noise 0.95. To classify an image that is randomised itself is much
harder: 0.29 and 0.74 with PrivUnit, 0.33 at most with the others. TLDP has 0.92 to 0.95
at these claims, at true epsilons from 493 to 2,320. Weights change nothing of it, since
hardly an entry of 64 is ever kept; what is left is noise. *Type II* shows which: at
claims of 1, 2 and 4 TLDP-L has 0.74, 0.86 and 0.89, its true epsilons are 16, 32 and
64, and Laplace noise at these has 0.74, 0.87 and 0.89. *Type III*: up to epsilon 8 a
round, nothing that keeps it is better than labels drawn at random. PrivUnit has 0.61 at
64 and 0.87 at 256 (192 and 768 for all rounds), the others at most 0.25 and 0.56; TLDP
has 0.84 and 0.80 at a claim of 8, a true 1,273 and 1,581. But without noise it is 0.89,
and a user who trains alone and sends nothing has 0.90: here nobody gains by sending.
"""

import argparse
import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold, train_test_split

from sktensordp.exceptions import UnsoundClaimWarning
from sktensordp.mechanisms import (
    GaussianMechanism,
    HybridMechanism,
    IndependentDirectionalNoise,
    LaplaceMechanism,
    MatrixVariateGaussian,
    PrivUnit,
    TensorRandomizedResponse,
    mean,
)
from sktensordp.plotting import PrivacyUtilityDisplay

DELTA = 1e-5
FEATURES = (4, 4)
CLIP = 1
N_USERS = 3
N_ROUNDS = 3


class Experiment(NamedTuple):
    """What is sent, by whom it is used, and where something happens."""

    title: str
    unit: str
    epsilons: list
    X: np.ndarray
    shape: tuple
    bounds: tuple
    run: Callable
    weights: np.ndarray | None = None
    n_rounds: int = 1


class Split(NamedTuple):
    """One random split."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    seed: int


def load(path):
    """Images, their shape and their labels."""
    if path is None:
        X, y = load_digits(return_X_y=True)
        return X, (8, 8), y
    with np.load(path) as data:
        X, y = data["X"], data["y"]
    return X.reshape(len(X), -1).astype(float), X.shape[1:], y


def mechanisms(experiment, random_state):
    """Name and mechanism; "published" is in the name of those as published."""
    shape = experiment.shape
    box = {"bounds": experiment.bounds, "tensor_shape": shape}
    box["random_state"] = random_state
    noisy = {**box, "delta": DELTA}
    published = {**noisy, "calibration": "published"}
    as_matrix = {**published, "tensor_shape": (shape[0], math.prod(shape[1:]))}
    gaussian = {"noise": "gaussian"}
    response = TensorRandomizedResponse
    found = {
        "Laplace": LaplaceMechanism(**box),
        "Gaussian = MVG = IDN": GaussianMechanism(**noisy),
        "response, 2 levels": response(**noisy),
        "response-L, 17 levels": response(n_levels=17, **noisy),
        "response-G, 17 levels": response(n_levels=17, **gaussian, **noisy),
        "hybrid": HybridMechanism(**box),
        "PrivUnit": PrivUnit(**box),
        "MVG as published": MatrixVariateGaussian(**as_matrix),
        "IDN as published": IndependentDirectionalNoise(**published),
        "TLDP-L as published": response(**published),
        "TLDP-G as published": response(**gaussian, **published),
    }
    if experiment.weights is not None:
        weights = {"weights": experiment.weights}
        found |= {
            "response-L-w, 17 levels": response(n_levels=17, **weights, **noisy),
            "TLDP-L-w as published": response(**weights, **published),
            "TLDP-G-w as published": response(**gaussian, **weights, **published),
        }
    return found


def weighted_f1(model, X, y):
    return f1_score(y, model.predict(X), average="weighted")


def trained_on_released(mechanism, split):
    """F1 on what is clean and on what is randomised, too; nothing is tuned."""
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    model.fit(mechanism.transform(split.X), split.y)
    tested = split.X_test, mechanism.transform(split.X_test)
    return [weighted_f1(model, X, split.y_test) for X in tested]


def parts(split):
    """Rows and labels of each user."""
    folds = StratifiedKFold(N_USERS, shuffle=True, random_state=split.seed)
    owned = [own for _, own in folds.split(split.X, split.y)]
    return [(split.X[own], split.y[own]) for own in owned]


def local_model(X, y, seed, n_epochs, start=None):
    model = SGDClassifier(
        loss="log_loss", learning_rate="constant", eta0=0.1, max_iter=n_epochs,
        tol=None, random_state=seed,
    )  # fmt: skip
    if start is None:
        return model.fit(X, y)
    return model.fit(X, y, coef_init=start[:, :-1], intercept_init=start[:, -1])


def trained_by_users(mechanism, split):
    """F1 of the mean of what the users sent in the last round."""
    average = None
    for _ in range(N_ROUNDS):
        models = [local_model(*own, split.seed, 1, average) for own in parts(split)]
        own = [np.column_stack([m.coef_, m.intercept_]) for m in models]
        sent = mechanism.transform([one.ravel() for one in own])
        # Clipping what was released costs nothing.
        average = mean(sent, bounds=(-CLIP, CLIP)).mean.reshape(own[0].shape)
    model = models[0]
    model.coef_, model.intercept_ = average[:, :-1], average[:, -1]
    return [weighted_f1(model, split.X_test, split.y_test)]


def user_alone(split):
    """F1 of a user's own model after as many epochs, if nothing is sent."""
    models = [local_model(*own, split.seed, N_ROUNDS) for own in parts(split)]
    return np.mean([weighted_f1(model, split.X_test, split.y_test) for model in models])


def experiments(X, y, X_public, shape, bounds):
    low, high = bounds
    grey = (X_public.mean(axis=0) - low) / (high - low)
    components = PCA(math.prod(FEATURES), whiten=True).fit(X_public)
    features = np.tanh(components.transform(X))
    n_classes = len(np.unique(y))
    parameters = (n_classes if n_classes > 2 else 1, features.shape[1] + 1)
    return {
        1: Experiment(
            "Type I: images", "epsilon of an image", [1, 4, 8, 16, 32, 64, 128],
            X, shape, bounds, trained_on_released, grey.reshape(shape),
        ),
        2: Experiment(
            "Type II: features", "epsilon of an image", [1, 2, 4, 8, 16, 32, 64],
            features, FEATURES, (-1, 1), trained_on_released,
        ),
        3: Experiment(
            f"Type III: parameters, {N_ROUNDS} rounds", "epsilon of a user, one round",
            [1, 8, 32, 64, 128, 256], features, parameters, (-CLIP, CLIP),
            trained_by_users, n_rounds=N_ROUNDS,
        ),
    }  # fmt: skip


def splits_of(X, y, n_splits):
    for seed in range(n_splits):
        train, test, y_train, y_test = train_test_split(
            X, y, test_size=0.3, stratify=y, random_state=seed
        )
        yield Split(train, y_train, test, y_test, seed)


def measured(experiment, mechanism, splits):
    """Mean and deviation of every score, and the guarantee of one release."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsoundClaimWarning)
        mechanism.fit(np.zeros((1, math.prod(experiment.shape))))
    scores = [experiment.run(mechanism, split) for split in splits]
    summary = np.transpose([np.mean(scores, axis=0), np.std(scores, axis=0)])
    return summary, mechanism.privacy_guarantee_


def of_all_rounds(guarantee, n_rounds):
    """Epsilon of all rounds, at as many times the delta of one."""
    return min(n_rounds * guarantee.epsilon, guarantee.repeated(n_rounds).epsilon)


def number(epsilon):
    return f"{epsilon:,.0f}" if epsilon >= 100 else f"{epsilon:.3g}"


def print_row(name, values):
    print(f"{name:29}{''.join(f'{value:>11}' for value in values)}", flush=True)


def tabulated(experiment, splits, epsilons, random_state):
    """Print a table; its curves, and the true epsilons of those as published."""
    print(f"\n{experiment.title}; weighted F1, mean±deviation of {len(splits)} splits")
    print_row(experiment.unit, map(number, epsilons))
    curves, truths = {}, {}
    for name, mechanism in mechanisms(experiment, random_state).items():
        found = [
            measured(experiment, mechanism.set_params(epsilon=epsilon), splits)
            for epsilon in epsilons
        ]
        scores = np.array([summary for summary, _ in found])
        guarantees = [guarantee for _, guarantee in found]
        labels = [name, "  tested on randomised"]
        for label, column in zip(labels, scores.swapaxes(0, 1), strict=False):
            print_row(label, [f"{f1:.2f}±{std:.2f}" for f1, std in column])
        curves[name] = epsilons, *scores[:, 0].T
        if "published" in name:
            truths[name] = [guarantee.epsilon for guarantee in guarantees]
            print_row("  true epsilon", map(number, truths[name]))
        if experiment.n_rounds > 1:
            totals = [of_all_rounds(g, experiment.n_rounds) for g in guarantees]
            print_row("  epsilon of all rounds", map(number, totals))
    return curves, truths


def without_noise(experiment, splits, y):
    """Scores to compare with."""
    box = {"bounds": experiment.bounds, "tensor_shape": experiment.shape}
    summary, _ = measured(experiment, LaplaceMechanism(math.inf, **box), splits)
    shares = np.unique(y, return_counts=True)[1] / len(y)
    found = {"no noise": summary[0, 0], "labels drawn at random": np.sum(shares**2)}
    if experiment.n_rounds > 1:
        found["a user alone, nothing sent"] = np.mean([user_alone(s) for s in splits])
    for name, score in found.items():
        print_row(name, [f"{score:.2f}"])
    return found


def draw(axis, experiment, curves, truths, references):
    """Curves over epsilon, and below the truth about the claims; what to explain."""
    # Weights leave TLDP as it is: its curves would hide each other.
    curves = {n: curve for n, curve in curves.items() if "-w as" not in n}
    truths = {name: truth for name, truth in truths.items() if name in curves}
    display = PrivacyUtilityDisplay(
        curves, references=references, true_epsilons=truths,
        score_name="weighted F1, tested on what is clean",
    ).plot(axis)  # fmt: skip
    axis.get_legend().remove()
    for _, caps, bars in display.lines_:
        for artist in (*caps, *bars):
            artist.set_alpha(0.4)
    epsilons = next(iter(curves.values()))[0]
    columns = zip(epsilons, *truths.values(), strict=True)
    ticks = ["\n".join(map(number, column)) for column in columns]
    axis.set_xticks(epsilons, ticks, fontsize=8)
    axis.set(title=experiment.title, xlabel="", ylim=(0, 1))
    names = [experiment.unit, *(f"true, {name.split()[0]}" for name in truths)]
    place = {"transform": axis.transAxes, "ha": "right", "va": "top", "fontsize": 8}
    axis.text(-0.02, -0.018, "\n".join(names), **place)
    lines = {line.get_label(): line for line in axis.lines}
    handles = {
        f"{name}, at its claim" if name in truths else name: line
        for name, line in zip(curves, display.lines_, strict=True)
    }
    return handles | {name: lines[name] for name in references}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--type", type=int, choices=[1, 2, 3], help="one instead of all"
    )
    parser.add_argument("--data", metavar="FILE", help=".npz of images X and labels y")
    parser.add_argument(
        "--bounds", nargs=2, type=float, default=[0, 16], help="of a pixel, public"
    )
    parser.add_argument("--epsilons", nargs="+", type=float, help="of one release")
    parser.add_argument("--splits", type=int, default=5, help="random splits")
    parser.add_argument("--random-state", type=int, help="seed of the noise")
    parser.add_argument("--output", default="tensor_response.png", metavar="PNG")
    arguments = parser.parse_args()
    X, shape, y = load(arguments.data)
    X, X_public, y, _ = train_test_split(
        X, y, test_size=0.2, stratify=y, random_state=0
    )
    found = experiments(X, y, X_public, shape, arguments.bounds)
    kinds = [arguments.type] if arguments.type else list(found)
    n_rows = len(kinds) // 2 + 1
    figure, axes = plt.subplots(
        n_rows, 2, figsize=(14, 5.5 * n_rows), layout="constrained", squeeze=False
    )
    *panels, beside = axes.flat
    handles = {}
    for experiment, axis in zip([found[kind] for kind in kinds], panels, strict=True):
        splits = list(splits_of(experiment.X, y, arguments.splits))
        epsilons = arguments.epsilons or experiment.epsilons
        table = tabulated(experiment, splits, epsilons, arguments.random_state)
        references = without_noise(experiment, splits, y)
        handles |= draw(axis, experiment, *table, references)
    beside.axis("off")
    beside.legend(handles.values(), handles, loc="center")
    figure.savefig(arguments.output, dpi=130)
    print(f"\nPicture in {arguments.output}")


if __name__ == "__main__":
    main()
