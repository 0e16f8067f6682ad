"""Randomised response for tensors: three experiments
===================================================

Three users hold data, and a server that nobody trusts wants to learn a classifier from
them. Every tensor is randomised before it leaves its user. How much can the server
learn from images, from features of images, and from the parameters of models?

Yuan, Tang, Huang and Wang ("Local differential privacy for tensors in distributed
computing systems", Section V) ask this of TLDP, which keeps an entry of a tensor or
adds noise to it:

* **Type I**: images are randomised, and the server trains on them.
* **Type II**: features are randomised, and the server trains on them. Here they are the
  tanh of 16 principal components of public images, in a tensor of 4 × 4.
* **Type III**: each user trains a model for one epoch on these features, clips its
  parameters to [-1, 1] and sends them randomised. The server returns their mean. There
  are three rounds.

**Who is protected.** In Types I and II the person whom an image shows is protected, in
one release of the image or of its features: it may be replaced by any other image.
Labels are not protected, and it does not matter which user holds an image. In Type III
a user with all images and labels is protected, from the server and the other users: in
each round any parameters in the box may take the place of any others. That is a far
stronger promise, and needs a far larger epsilon.

This page shows one split and few epsilons; the tables in :doc:`/results` have more.
"""

# %%
# One message
# -----------
# A user randomises a whole image before it is sent.

# sphinx_gallery_thumbnail_path = "images/thumbnails/tensor_response.png"
from sktensordp.mechanisms import TensorRandomizedResponse

from sklearn.datasets import load_digits

response = TensorRandomizedResponse(4.0, bounds=(0, 16), n_levels=17, random_state=0)
message = response.fit_transform(load_digits().images[:1])
print(f"A message of shape {message.shape[1:]}: {response.privacy_guarantee_}\n")

# %%
# The run on this page
# --------------------

from types import SimpleNamespace

arguments = SimpleNamespace(
    type=[1, 2, 3],
    data=None,
    bounds=[0, 16],
    epsilons=None,
    all_epsilons=False,
    splits=1,
    delta_range=2.0,
    random_state=0,
)
# sphinx_gallery_start_ignore
import argparse
import sys

parser = argparse.ArgumentParser(
    description="What a server learns from randomised images, features and models.",
    formatter_class=argparse.ArgumentDefaultsHelpFormatter, allow_abbrev=False,
)  # fmt: skip
parser.add_argument(
    "--type", nargs="+", type=int, choices=[1, 2, 3],
    help="of the experiment",
)  # fmt: skip
parser.add_argument("--data", metavar="NPZ", help="images X (n, ...) and labels y (n,)")
parser.add_argument("--bounds", nargs=2, type=float, help="of a pixel, public")
parser.add_argument("--epsilons", nargs="+", type=float, help="of one release")
parser.add_argument(
    "--all-epsilons", action="store_true", help="use those of the paper's tables"
)
parser.add_argument("--splits", type=int, help="random splits")
parser.add_argument(
    "--delta-range", type=float,
    help="range of a value that TLDP as published is told in Types II and III, whose "
    "values are in (-1, 1); 256 in the paper's Tables III and IV",
)  # fmt: skip
parser.add_argument("--random-state", type=int, help="seed of the noise")
parser.add_argument("--table", metavar="FILE", help="save all scores here (csv)")
parser.set_defaults(**vars(arguments))
arguments, others = parser.parse_known_args()
if others and "kernel" not in sys.argv[0]:  # a notebook has arguments of its own
    parser.error(f"unknown arguments: {' '.join(others)}")
if not arguments.delta_range >= 2:
    parser.error("--delta-range must be at least 2, the range of the values")
# sphinx_gallery_end_ignore

# %%
# The data
# --------
# The paper has MNIST; here there are digits of 8 × 8 pixels. A fifth of the images is
# public, without labels. Seven tenths of the rest train, and the others test.


from typing import NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split


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


def splits_of(X):
    for seed in range(arguments.splits):
        train, test, y_train, y_test = train_test_split(
            X, y, test_size=0.3, stratify=y, random_state=seed
        )
        yield Split(train, y_train, test, y_test, seed)


X, shape, y = load(arguments.data)
X, X_public, y, _ = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
print(f"{len(X)} images of shape {shape}, {len(X_public)} public ones")

# %%
# How the server learns
# ---------------------
# Nothing is tuned on private data. In Types I and II the model is a linear discriminant
# analysis whose shrinkage follows from what is released (the paper has MobileNet), and
# in Type III a logistic regression by stochastic gradients. Clipping is as in the
# paper; the learning rate of 0.1 was set by hand.
#
# The paper's title speaks of testing data, its text of training data. So the model is
# tested both on clean images and on randomised ones. The tests on clean data serve this
# comparison, and are not part of a release.

from sktensordp.exceptions import NoiseOnlyWarning
from sktensordp.mechanisms import estimate_mean

import warnings

from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold

N_USERS = 3
N_ROUNDS = 3
CLIP = 1


def weighted_f1(model, X, y):
    return f1_score(y, model.predict(X), average="weighted")


def trained_on_released(mechanism, split):
    """F1 on clean test data, and on randomised ones."""
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    model.fit(mechanism.transform(split.X), split.y)
    tested = split.X_test, mechanism.transform(split.X_test)
    return [weighted_f1(model, X, split.y_test) for X in tested]


def data_of_users(split):
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
        models = [
            local_model(*own, split.seed, 1, average) for own in data_of_users(split)
        ]
        own = [np.column_stack([m.coef_, m.intercept_]) for m in models]
        sent = mechanism.transform([one.ravel() for one in own])
        # Clipping what was released costs nothing.
        with warnings.catch_warnings():
            # Small epsilons leave hardly more than noise, and the table shows it.
            warnings.simplefilter("ignore", NoiseOnlyWarning)
            average = estimate_mean(sent, bounds=(-CLIP, CLIP)).mean.reshape(
                own[0].shape
            )
    model = models[0]
    model.coef_, model.intercept_ = average[:, :-1], average[:, -1]
    return [weighted_f1(model, split.X_test, split.y_test)]


def user_alone(split):
    """F1 of a user's own model after as many epochs, if nothing is sent."""
    owned = data_of_users(split)
    models = [local_model(*own, split.seed, N_ROUNDS) for own in owned]
    return np.mean([weighted_f1(model, split.X_test, split.y_test) for model in models])


# %%
# The three experiments
# ---------------------
# A weight is the mean grey value of a pixel over public images. Weights from the image
# itself, as in the paper, would reveal the image.

import math
from collections.abc import Callable

from sklearn.decomposition import PCA

FEATURES = (4, 4)


class Experiment(NamedTuple):
    """What is sent, how it is used, and at which epsilons."""

    title: str
    unit: str
    epsilons: list
    all_epsilons: list
    X: np.ndarray
    shape: tuple
    bounds: tuple
    run: Callable
    weights: np.ndarray | None = None
    n_rounds: int = 1
    told: tuple | None = None


low, high = arguments.bounds
grey = (X_public.mean(axis=0) - low) / (high - low)
components = PCA(math.prod(FEATURES), whiten=True).fit(X_public)
features = np.tanh(components.transform(X))
n_classes = len(np.unique(y))
told = -arguments.delta_range / 2, arguments.delta_range / 2
parameters = (n_classes if n_classes > 2 else 1, features.shape[1] + 1)
experiments = {
    1: Experiment(
        "Type I: images", "epsilon of an image", [8, 32, 128],
        [1, 4, 8, 16, 32, 64, 128], X, shape, (low, high),
        trained_on_released, grey.reshape(shape),
    ),
    2: Experiment(
        "Type II: features", "epsilon of an image", [1, 4, 16, 64],
        [1, 2, 4, 8, 16, 32, 64], features, FEATURES, (-1, 1),
        trained_on_released, told=told,
    ),
    3: Experiment(
        f"Type III: parameters, {N_ROUNDS} rounds", "epsilon of a user, one round",
        [8, 64, 256], [1, 8, 32, 64, 128, 256], features, parameters, (-CLIP, CLIP),
        trained_by_users, n_rounds=N_ROUNDS, told=told,
    ),
}  # fmt: skip

# %%
# What is compared
# ----------------
# Most mechanisms keep the epsilon at the top of their column, for one release: with
# delta = 0 for Laplace noise, the hybrid mechanism and PrivUnit, else at delta = 1e-5.
#
# * With the identity as utility, as in the paper, MVG and IDN are Gaussian noise once
#   they are calibrated exactly, and share its row.
# * "L" and "G" are responses that move an entry by truncated Laplace or Gaussian noise:
#   the sound forms of TLDP-L and TLDP-G.
# * "w" has weights. The larger the weight of a pixel, the less often it is kept.
# * The mechanisms "as published" are drawn at the epsilon that they claim, with the
#   true epsilon at delta = 1e-5 below. This is less than the claim for MVG and for IDN
#   (with the constant that its proof needs), and far more for TLDP, because what its
#   theorems call the epsilon of a tensor is spent on every entry. In Types II and III
#   its noise is for the range of the values, 2. The paper's Tables III and IV have 256,
#   which makes it 128 times as large: ``--delta-range 256``.

from sktensordp.mechanisms import (
    GaussianMechanism,
    HybridMechanism,
    LaplaceMechanism,
    PrivUnit,
)
from sktensordp.papers import (
    PublishedIndependentDirectionalNoise,
    PublishedMatrixVariateGaussian,
    PublishedTensorRandomizedResponse,
)

DELTA = 1e-5


def mechanisms(experiment):
    """Mechanisms by name; "published" is in the name of those as published."""
    shape = experiment.shape
    box = {"bounds": experiment.bounds, "tensor_shape": shape}
    box["random_state"] = arguments.random_state
    noisy = {**box, "delta": DELTA}
    as_matrix = {**noisy, "tensor_shape": (shape[0], math.prod(shape[1:]))}
    gaussian = {"noise": "gaussian"}
    response, tldp = TensorRandomizedResponse, PublishedTensorRandomizedResponse
    as_told = {**noisy, "bounds": experiment.told or experiment.bounds}
    found = {
        "Laplace": LaplaceMechanism(**box),
        "Gaussian = MVG = IDN": GaussianMechanism(**noisy),
        "response, 2 levels": response(**noisy),
        "response-L, 17 levels": response(n_levels=17, **noisy),
        "response-G, 17 levels": response(n_levels=17, **gaussian, **noisy),
        "hybrid": HybridMechanism(**box),
        "PrivUnit": PrivUnit(**box),
        "MVG as published": PublishedMatrixVariateGaussian(**as_matrix),
        "IDN as published": PublishedIndependentDirectionalNoise(**noisy),
        "TLDP-L as published": tldp(**as_told),
        "TLDP-G as published": tldp(**gaussian, **as_told),
    }
    if experiment.weights is not None:
        weights = {"weights": experiment.weights}
        found |= {
            "response-L-w, 17 levels": response(n_levels=17, **weights, **noisy),
            "TLDP-L-w as published": tldp(**weights, **noisy),
            "TLDP-G-w as published": tldp(**gaussian, **weights, **noisy),
        }
    return found


# %%
# Measure and draw
# ----------------
# A table has the weighted F1 of every mechanism. In Type III it also has the epsilon
# that all rounds cost a user, at three times the delta of one: the sum over the rounds,
# or the accountant's result if that is less.
#
# The picture has each score on clean data at its **true** epsilon. It leaves the
# weighted variants out, since their curves would hide the others.


from sktensordp.exceptions import UnsoundClaimWarning

from itertools import repeat

import matplotlib.pyplot as plt


def measured(experiment, mechanism, splits):
    """The scores of every split, and the guarantee of one release."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsoundClaimWarning)
        mechanism.fit(np.zeros((1, math.prod(experiment.shape))))
    scores = [experiment.run(mechanism, split) for split in splits]
    return np.array(scores), mechanism.privacy_guarantee_


all_scores = []


def of_all_rounds(guarantee, n_rounds):
    """Epsilon of all rounds, at as many times the delta of one."""
    return min(n_rounds * guarantee.epsilon, guarantee.repeated(n_rounds).epsilon)


def number(epsilon):
    return f"{epsilon:,.0f}" if epsilon >= 100 else f"{epsilon:.3g}"


def print_row(name, values):
    print(f"{name:29}{''.join(f'{value:>11}' for value in values)}")


def tabulated(experiment, splits):
    """Print a table; return true epsilons and scores on clean data by mechanism."""
    number_of = f"{len(splits)} split{'s' * (len(splits) > 1)}"
    print(f"\n{experiment.title}; weighted F1, mean±deviation of {number_of}")
    epsilons = arguments.epsilons or experiment.epsilons
    if arguments.all_epsilons:
        epsilons = experiment.all_epsilons
    print_row(experiment.unit, map(number, epsilons))
    curves = {}
    for name, mechanism in mechanisms(experiment).items():
        found = [
            measured(experiment, mechanism.set_params(epsilon=epsilon), splits)
            for epsilon in epsilons
        ]
        scores = np.array([each for each, _ in found])  # by epsilon, split and test
        guarantees = [guarantee for _, guarantee in found]
        labels = [name, "  tested on randomised"]
        truths = [guarantee.epsilon for guarantee in guarantees]
        for label, of_test in zip(labels, np.moveaxis(scores, 2, 0), strict=False):
            print_row(label, [f"{np.mean(f1):.2f}±{np.std(f1):.2f}" for f1 in of_test])
            method = name if label == name else f"{name}: {label.strip()}"
            all_scores.extend(
                zip(
                    repeat(experiment.title), repeat(method), epsilons, epsilons,
                    truths, of_test,
                )
            )  # fmt: skip
        curves[name] = truths, scores[:, :, 0].mean(axis=1)
        if "published" in name:
            print_row("  true epsilon", map(number, truths))
        if experiment.n_rounds > 1:
            totals = [of_all_rounds(g, experiment.n_rounds) for g in guarantees]
            print_row("  epsilon of all rounds", map(number, totals))
    return curves


def without_noise(experiment, splits):
    """Print and return scores to compare with."""
    box = {"bounds": experiment.bounds, "tensor_shape": experiment.shape}
    scores, _ = measured(experiment, LaplaceMechanism(math.inf, **box), splits)
    shares = np.unique(y, return_counts=True)[1] / len(y)
    found = {
        "no noise": scores[:, 0].mean(),
        "labels drawn at random": np.sum(shares**2),
    }
    if experiment.n_rounds > 1:
        found["a user alone, nothing sent"] = np.mean([user_alone(s) for s in splits])
    for name, score in found.items():
        print_row(name, [f"{score:.2f}"])
    return found


STYLES = {
    "Gaussian = MVG = IDN": ("s-", "C1"),
    "response-L, 17 levels": ("v-", "C4"),
    "hybrid": ("P-", "C6"),
    "PrivUnit": ("D-", "C3"),
    "TLDP-L as published": ("o:", "0.5"),
}


def draw(experiment, curves, references):
    """Scores of five rows over the true epsilon; what was published is hollow."""
    figure, axis = plt.subplots(figsize=(6.4, 6), layout="constrained")
    for name, (line, color) in STYLES.items():
        face = "white" if "published" in name else color
        axis.plot(*curves[name], line, color=color, markerfacecolor=face, label=name)
    for (name, score), line in zip(references.items(), ("-", ":", "--"), strict=False):
        axis.axhline(score, color="0.8", linestyle=line, zorder=0, label=name)
    axis.set(
        xscale="log", ylim=(0, 1), title="What can be learned from what people send?"
    )
    axis.set_xlabel(f"true {experiment.unit}")
    axis.set_ylabel("weighted F1 on clean test data")
    axis.xaxis.set_major_formatter("{x:g}")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)


def examine(kind):
    """Print the table of an experiment and draw its picture."""
    if kind in arguments.type:
        experiment = experiments[kind]
        splits = list(splits_of(experiment.X))
        draw(
            experiment, tabulated(experiment, splits), without_noise(experiment, splits)
        )
        plt.show()


# %%
# Type I: images
# --------------
# From epsilon 4 on, PrivUnit teaches the server most. Classifying an image that is
# itself randomised is much harder. In the full run, at epsilon 8 and 32, clean images
# are classified with F1 of
#
# * 0.87 and 0.90 by PrivUnit,
# * 0.74 and 0.88 by the hybrid mechanism,
# * 0.28 to 0.38 and 0.83 to 0.85 by the responses,
# * 0.29 and 0.85 by Gaussian and 0.03 and 0.67 by Laplace noise,
#
# and 0.95 without noise. Randomised images get 0.29 and 0.74 with PrivUnit and 0.33 at
# most with the others. TLDP has 0.92 to 0.95 at these claims, but its true epsilons are
# from 493 to 2,320.

examine(1)

# %%
# Type II: features
# -----------------
# Weights change nothing about TLDP in Type I, since hardly any of the 64 entries is
# ever kept: TLDP is little more than noise. In TLDP-L this is Laplace noise, as Type II
# shows: at its true epsilon, TLDP-L lies on the curve of Laplace noise. In the full run
# it has 0.74, 0.86 and 0.89 at claims of 1, 2 and 4. Its true epsilons are 16, 32 and
# 64, and Laplace noise at these has 0.74, 0.87 and 0.89.

examine(2)

# %%
# Type III: parameters
# --------------------
# Up to an epsilon of 8 per round, no mechanism that keeps it clearly beats labels drawn
# at random. In the full run PrivUnit has 0.61 at 64 and 0.87 at 256 (192 and 768 for
# all rounds), and the others at most 0.25 and 0.56. TLDP has 0.84 and 0.80 at a claim
# of 8, which is truly 1,273 and 1,581.
#
# Without noise F1 is 0.89, but a user who trains alone and sends nothing has 0.90: here
# nobody gains by sending.

examine(3)
# sphinx_gallery_start_ignore
if arguments.table is not None:
    from _scores import write_scores

    write_scores(arguments.table, all_scores)
# sphinx_gallery_end_ignore

# %%
# From the command line
# ---------------------
# The tables in :doc:`/results` have more splits and epsilons:
#
# .. code-block:: bash
#
#     python examples/papers/tensor_response.py --splits 5 --all-epsilons
