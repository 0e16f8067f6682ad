"""Private gradients in federated learning
=======================================

Several parties hold different records of the same kind and learn one model together. In
every round each party sends a noisy sum of gradients to a server. This is the first
type of experiment in Yang et al. (Matrix Gaussian Mechanisms for Differentially-Private
Learning, Section 8).

**Who is protected.** The person behind each record, features and label, from the server
and from all other parties, who see every sum that is sent. Neighbouring data sets
differ in one record, added or removed at one party. All rounds together are
(epsilon, 1e-5)-differentially private (Balle and Wang 2018, Theorem 8; sampled and
composed by privacy-loss distributions).

**What is public.** The classes, the number of features and who may be at which party.
Who is drawn into a sample must stay secret.

This page shows a small run; the table in :doc:`/results` has more epsilons and runs.
"""

# %%
# One noisy sum
# -------------
# A sum of gradients is the answer to a query. If every record's gradient is clipped to
# norm 1, adding or removing a record changes the sum by at most 1.

# sphinx_gallery_thumbnail_path = "images/thumbnails/federated_gradients.png"
from sktensordp.mechanisms import MatrixGaussian

import numpy as np

mechanism = MatrixGaussian(1.0, delta=1e-5, sensitivity=1.0, random_state=0)
noisy = mechanism.fit_transform(np.zeros((1, 64, 10)))
print(f"A sum of shape {noisy.shape[1:]}: {mechanism.privacy_guarantee_}\n")

# %%
# The run on this page
# --------------------

from types import SimpleNamespace

arguments = SimpleNamespace(
    epsilons=[1, 4],
    parties=4,
    rounds=50,
    rate=0.25,
    step=0.03,
    runs=1,
    data=None,
    random_state=0,
)
# sphinx_gallery_start_ignore
import argparse
import sys

parser = argparse.ArgumentParser(
    description="Accuracy of a model that learns from noisy gradients of parties.",
    formatter_class=argparse.ArgumentDefaultsHelpFormatter, allow_abbrev=False,
)  # fmt: skip
parser.add_argument("--epsilons", nargs="+", type=float, help="of a record")
parser.add_argument("--parties", type=int)
parser.add_argument("--rounds", type=int)
parser.add_argument("--rate", type=float, help="of Poisson samples")
parser.add_argument("--step", type=float, help="of the server's model")
parser.add_argument("--runs", type=int, help="random splits")
parser.add_argument("--data", metavar="NPZ", help="X (n, ...) and y (n,)")
parser.add_argument("--random-state", type=int, help="seed of the noise")
parser.add_argument("--output", metavar="FILE", help="also save the picture here")
parser.add_argument("--table", metavar="FILE", help="save all scores here (csv)")
parser.set_defaults(**vars(arguments))
arguments, others = parser.parse_known_args()
if others and "kernel" not in sys.argv[0]:  # a notebook has arguments of its own
    parser.error(f"unknown arguments: {' '.join(others)}")
# sphinx_gallery_end_ignore

# %%
# The data
# --------
# The records are images of digits, shared out among four parties. Every record is
# scaled to norm 1 by itself, which reveals nothing about other records.


import math

from sklearn.datasets import load_digits


def load(path):
    """Records of norm 1, and their classes."""
    if path is None:
        X, y = load_digits(return_X_y=True)
    else:
        with np.load(path) as data:
            X, y = data["X"], data["y"]
    X = X.reshape(len(X), -1).astype(float)
    X -= X.mean(axis=1, keepdims=True)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    X = np.column_stack([X, np.ones(len(X))]) / math.sqrt(2)
    return X, np.unique(y, return_inverse=True)[1]


X, y = load(arguments.data)
print(f"{len(X)} records, {X.shape[1]} features, {y.max() + 1} classes")

# %%
# A party
# -------
# The model is a softmax regression, whose gradient is a matrix of classes × features.
# In every round a party takes a Poisson sample of its records, clips the gradient of
# each in Frobenius norm, adds the gradients up and sends the sum through a mechanism.
# Adding or removing one record changes a sum by at most the clip.
#
# A party pays for all rounds before the first, with ``spend``. If the budget were open
# during the rounds, ``transform`` would record each of them as if nothing had been
# sampled. A record is at one party only, and so costs what this party spends.
#
# The paper clips the sum instead, entry by entry. One record may then move the sum
# across the whole box, as far as all records together, and the noise must hide that.
# Rows with "sum clipped" show the effect, for a box whose diagonal is the clip.

from sktensordp.privacy import PrivacyBudget

from dataclasses import replace

from scipy.special import softmax

DELTA = 1e-5
CLIP = 1.0
# What a record adds to a sum of clipped gradients, rounding included.
SENSITIVITY = CLIP * (1 + 1e-6)


def half_width(shape):
    """Half the width of the box: two sums in it differ by CLIP at most."""
    return CLIP / 2 / math.sqrt(math.prod(shape))


def of_round(mechanism, shape, rate):
    """What a round reveals about one record, added or removed."""
    n_samples = math.prod(shape) // math.prod(mechanism.sample_shape_)
    one = mechanism.privacy_guarantee_.repeated(n_samples)
    # What holds for any two values that are released holds for these, too. Epsilon is
    # computed when it is asked for, and not here.
    return replace(one, relation="add-or-remove").subsampled(rate, delta=0.0)


def of_run(mechanism, shape, rate, rounds):
    """What all rounds reveal about one record, added or removed."""
    return of_round(mechanism, shape, rate).repeated(rounds, delta=DELTA)


class Party:
    """Holds records that nobody else has, and sends noisy sums of their gradients."""

    def __init__(self, X, labels, mechanism, clips_sum, limit):
        self.X, self.labels = X, labels
        self.mechanism, self.clips_sum = mechanism, clips_sum
        self.budget = PrivacyBudget(limit, DELTA, adaptive=False)

    def join(self, rate, rounds):
        """Pay for all rounds before the first; no result changes what follows."""
        shape = self.labels.shape[1], self.X.shape[1]
        self.budget.spend(
            of_run(self.mechanism, shape, rate, rounds), f"{rounds} rounds"
        )

    def send(self, model, rate, rng):
        """Noisy sum of the clipped gradients of a Poisson sample."""
        chosen = rng.random(len(self.X)) < rate
        X = self.X[chosen]
        slopes = softmax(X @ model.T, axis=1) - self.labels[chosen]
        # A gradient is the outer product of slopes and features.
        lengths = np.linalg.norm(slopes, axis=1) * np.linalg.norm(X, axis=1)
        slopes /= np.maximum(lengths / CLIP, 1)[:, np.newaxis]
        total = slopes.T @ X
        if self.clips_sum:
            half = half_width(total.shape)
            total = np.clip(total, -half, half)
        samples = total.reshape(-1, *self.mechanism.sample_shape_)
        return self.mechanism.transform(samples).reshape(total.shape)


# %%
# What is compared
# ----------------
# Six rows keep the epsilon at the top of their column. ``calibrated`` searches for the
# epsilon of one round at which all rounds together keep it.
#
# The other three are drawn at the epsilon that they claim for one round, which is that
# of the exact mechanisms. "Gaussian per entry" is the i.i.d. baseline of the paper. Its
# noise hides only one of the hundreds of entries in a matrix.

from sktensordp.mechanisms import (
    GaussianMechanism,
    IndependentDirectionalNoise,
    UnimodalDirectionalNoise,
)
from sktensordp.papers import (
    MatrixVariateGaussian,
    PublishedIndependentDirectionalNoise,
    PublishedUnimodalDirectionalNoise,
)

SAME = "Gaussian", "UDN", "IDN", "MGM"
PER_ENTRY = "Gaussian per entry, sum clipped"


def exact(epsilon, delta, shape):
    """Mechanisms that keep (epsilon, delta) in a round, by name."""
    n_features = shape[1]
    weights = np.linspace(1.0, 0.1, n_features)
    louder = np.where(np.arange(n_features) < n_features // 2, 1.0, 4.0)
    ball = {"epsilon": epsilon, "delta": delta, "sensitivity": SENSITIVITY}
    return {
        "Gaussian": GaussianMechanism(**ball),
        "UDN": UnimodalDirectionalNoise(mode=1, utility=weights, **ball),
        "IDN": IndependentDirectionalNoise(mode=1, utility=weights, **ball),
        "MGM": MatrixGaussian(utility=[None, weights], **ball),
        "MVG": MatrixVariateGaussian(column_covariance=np.diag(louder), **ball),
        "Gaussian, sum clipped": GaussianMechanism(**ball),
    }


def claimed(epsilon, delta, shape):
    """What was published for a round of (epsilon, delta), by name."""
    half = half_width(shape)
    claim = {"epsilon": epsilon, "delta": delta}
    return {
        "UDN published": PublishedUnimodalDirectionalNoise(
            sensitivity=SENSITIVITY, **claim
        ),
        "IDN published, sum clipped": PublishedIndependentDirectionalNoise(
            bounds=(-half, half), **claim
        ),
        # Every entry is a sample by itself.
        PER_ENTRY: GaussianMechanism(sensitivity=2 * half, tensor_shape=(1,), **claim),
    }


def fitted(mechanism, shape):
    """The mechanism, ready for sums of this shape."""
    return mechanism.fit(np.zeros((1, *(mechanism.tensor_shape or shape))))


def calibrated(name, epsilon, start, shape):
    """A mechanism whose run keeps epsilon, and the epsilon of one round alone."""
    alone = start
    while True:
        mechanism = exact(alone, DELTA / arguments.rounds, shape)[name]
        fitted(mechanism, shape)
        run = of_run(mechanism, shape, arguments.rate, arguments.rounds)
        if 0.99 * epsilon <= run.epsilon <= epsilon:
            return mechanism, alone
        alone *= (0.995 * epsilon / run.epsilon) ** 0.8


shape = int(y.max()) + 1, X.shape[1]
releases = {}
for epsilon in arguments.epsilons:
    alone = epsilon
    for name in exact(1.0, DELTA, shape):
        mechanism, alone = calibrated(name, epsilon, alone, shape)
        releases.setdefault(name, []).append((mechanism, epsilon))
    for name, mechanism in claimed(alone, DELTA / arguments.rounds, shape).items():
        releases.setdefault(name, []).append((fitted(mechanism, shape), math.inf))

# %%
# Learning
# --------
# The server moves the model against the sum of what all parties send, and sees nothing
# else. Below each accuracy stand the least noise of an entry (the smallest standard
# deviation that any entry gets) and the true epsilon.


from functools import reduce
from operator import or_

from sklearn.model_selection import train_test_split


def learn(parties, rng):
    """The server's model: the mean over the second half of the rounds."""
    model, average = np.zeros(shape), np.zeros(shape)
    for step in range(arguments.rounds):
        model -= arguments.step * sum(
            party.send(model, arguments.rate, rng) for party in parties
        )
        if step >= arguments.rounds // 2:
            average += model
    return average


def accuracies(mechanism, limit, clips_sum):
    """Accuracy on test records in each run, and what a run reveals about a record."""
    labels, seed = np.eye(shape[0])[y], arguments.random_state
    found = []
    for run in range(arguments.runs):
        train, test = train_test_split(
            np.arange(len(y)), test_size=0.3, stratify=y, random_state=run
        )
        parties = []
        for k in range(arguments.parties):
            rows = train[k :: arguments.parties]
            # Each party has noise of its own in every run.
            own = 10**6 * seed + 10**3 * run + k
            params = {**mechanism.get_params(), "random_state": own}
            noise = fitted(type(mechanism)(**params), shape)
            parties.append(Party(X[rows], labels[rows], noise, clips_sum, limit))
            parties[-1].join(arguments.rate, arguments.rounds)
        model = learn(parties, np.random.default_rng((seed, run)))
        found.append(np.mean((X[test] @ model.T).argmax(axis=1) == y[test]))
    # A record is at one party, and costs what this party spent.
    return found, reduce(or_, (party.budget.spent for party in parties))


def row(name, texts):
    print(f"{name:34}{''.join(f'{text:>11}' for text in texts)}")


row("epsilon of a record", [f"{epsilon:g}" for epsilon in arguments.epsilons])
curves, truths, runs = {}, {}, {}
for name, of_name in releases.items():
    found = [accuracies(*one, "sum clipped" in name) for one in of_name]
    curves[name] = [np.mean(scores) for scores, _ in found]
    spread = [np.std(scores) for scores, _ in found]
    noise = [math.sqrt(np.min(one.noise_variance_)) for one, _ in of_name]
    true = [guarantee.epsilon for _, guarantee in found]
    kind = "  true epsilon"
    if name == PER_ENTRY:
        true = [
            of_round(mechanism, shape, arguments.rate).epsilon_at(DELTA)
            for mechanism, _ in of_name
        ]
        kind = "  true epsilon of one round alone"
    truths[name] = true
    runs[name] = [scores for scores, _ in found]
    pairs = zip(curves[name], spread, strict=True)
    row(name, [f"{mean:.2f}±{std:.2f}" for mean, std in pairs])
    row("  least noise of an entry", [f"{sigma:.3g}" for sigma in noise])
    row(kind, [f"{epsilon:.3g}" for epsilon in true])
silent = fitted(GaussianMechanism(math.inf, sensitivity=SENSITIVITY), shape)
clean = np.mean(accuracies(silent, math.inf, False)[0])
chance = np.bincount(y).max() / len(y)
row("no noise", [f"{clean:.2f}"])
row("chance", [f"{chance:.2f}"])
# sphinx_gallery_start_ignore
if arguments.table is not None:
    from _scores import write_scores

    scores = [
        # One round alone is no bound on all of them.
        ("accuracy", name, epsilon, epsilon, None if name == PER_ENTRY else true, each)
        for name, of_name in runs.items()
        for epsilon, true, each in zip(
            arguments.epsilons, truths[name], of_name, strict=True
        )
    ]
    for name, one in ("no noise", clean), ("chance", chance):
        scores.append(("accuracy", name, math.inf, None, None, [one]))
    write_scores(arguments.table, scores)
# sphinx_gallery_end_ignore

# %%
# The picture
# -----------
# Each point is drawn at its **true** epsilon. For "Gaussian per entry", this is the
# epsilon of one round alone, so all rounds cost even more.

import matplotlib.pyplot as plt

STYLES = {
    "Gaussian": ("o-", "C0", "Gaussian = UDN = IDN = MGM"),
    "MVG": ("s-", "C1", "MVG, more noise on half the columns"),
    "Gaussian, sum clipped": ("o--", "C0", "Gaussian, sum clipped"),
    "UDN published": ("^:", "0.5", "UDN as published"),
    PER_ENTRY: ("D:", "0.5", "Gaussian per entry, one round alone"),
}
figure, axis = plt.subplots(figsize=(6.4, 5.6), layout="constrained")
for name, (line, color, label) in STYLES.items():
    axis.plot(truths[name], curves[name], line, color=color, label=label)
axis.axhline(clean, color="0.8", zorder=0, label="no noise")
axis.axhline(chance, color="0.8", linestyle=":", zorder=0, label="chance")
axis.set(
    xscale="log", xlabel="true epsilon of a record", ylim=(0, 1),
    title="Which noise lets parties learn together?",
)  # fmt: skip
axis.set_ylabel("accuracy on test records")
axis.xaxis.set_major_formatter("{x:g}")
figure.legend(loc="outside lower center", ncols=2, frameon=False)
# sphinx_gallery_start_ignore
if arguments.output:
    figure.savefig(arguments.output, dpi=130)
# sphinx_gallery_end_ignore
plt.show()

# %%
# What it means
# -------------
# **Directional noise does not help here.** To hide an L2 ball, every direction needs at
# least as much noise as i.i.d. noise has. UDN, IDN and the matrix Gaussian mechanism
# (MGM) add exactly that noise, whatever their weights, so with one seed the table has
# the same numbers four times. MVG was told to make the noise twice as large on half the
# columns. It has no less noise on the other half, and learns less.
#
# **Clip records, not sums.** At the same noise, the clipped sum is hardly better than
# chance: its accuracy is 0.10 to 0.15 in the full run, where clipped records reach 0.49
# to 0.91.
#
# **The published baselines mislead.** The two theorems keep far less epsilon than they
# claim, so their noise hides the model. The per-entry baseline costs a record an
# epsilon of 8 to 255 in one round alone, in columns that allow 0.5 to 8 for all rounds.
# In the paper IDN is ahead of i.i.d. noise in all cases; nothing here confirms that.
#
# **How this differs from the paper.** The paper has deep networks on MNIST, CIFAR-10,
# IMDB and Adult with five parties. Here the model is one matrix, the data are digits,
# there are four parties, and a round is one gradient, not local epochs. The matrix
# mechanism has no row: for the identity as its queries, as in the paper, it is Gaussian
# noise. Every party adds all the noise that its records need, since the server is not
# trusted; a secure sum would need less.
# Rounds, rate, step and clip were chosen by hand on these digits, for all rows alike,
# and the accuracies are measured on raw test records. The guarantee covers neither the
# choice nor the accuracies. NumPy's generator draws the samples, which a real release
# should not rely on.

# %%
# From the command line
# ---------------------
# The table in :doc:`/results` has more epsilons and five runs:
#
# .. code-block:: bash
#
#     python examples/papers/federated_gradients.py --runs 5 --epsilons 0.5 1 2 4 8
#
# ``--data`` takes an .npz file with records ``X`` of shape (n, ...) and labels ``y``.
# ``--step`` should fall as the number of records grows.
