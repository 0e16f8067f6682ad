"""
The mean of many people's tensors under local privacy
=====================================================

Each of 10,000 users holds a tensor of 28 × 28 answers, -1 or 1, randomises it once on
their own device, and sends the result. You want the mean over all users. This example
measures the error of each mechanism at the same guarantee, compares it with the error
that you can compute in advance, and shows how much clipping the mean helps, at no cost.
"""

# %%
# One message
# -----------
# A mechanism randomises the whole tensor of a person, before it is sent. This is one
# message, and what it reveals at most.

# sphinx_gallery_thumbnail_path = "images/thumbnails/local_mean.png"
from sktensordp.mechanisms import PrivUnit

import numpy as np

mechanism = PrivUnit(4.0, bounds=(-1, 1), random_state=0)
message = mechanism.fit_transform(np.ones((1, 28, 28)))
print(f"a message of shape {message.shape[1:]}: {mechanism.privacy_guarantee_}")

# %%
# The users
# ---------
# For each entry the population has its own share of users who answer 1, so the mean of
# an entry can lie anywhere between -1 and 1. Answers at the ends of the range are the
# worst case for every mechanism, or close to it.

N_USERS, SHAPE, BOUNDS = 10_000, (28, 28), (-1, 1)


def make_users(n_users, shape):
    """Tensors of all users, and the mean of the population that they come from."""
    rng = np.random.default_rng(0)
    population = rng.uniform(-1, 1, size=shape)
    ones = rng.random((n_users, *shape), dtype=np.float32) < (1 + population) / 2
    return np.where(ones, np.float32(1), np.float32(-1)), population


X, population = make_users(N_USERS, SHAPE)
truth = X.mean(axis=0, dtype=float)

# %%
# The mechanisms
# --------------
# Each mechanism protects the whole tensor of a user: if they replaced all of their
# answers, the distribution of what they send would hardly change. Laplace noise, the
# pure response, the hybrid mechanism and PrivUnit have delta = 0; Gaussian noise and
# the other randomised response have delta = 1e-5. The seed makes the numbers on this
# page repeatable; leave it out in a real release, so that nobody can subtract the
# noise.


from sktensordp.mechanisms import (
    GaussianMechanism,
    HybridMechanism,
    LaplaceMechanism,
    TensorRandomizedResponse,
)


def make_mechanisms(epsilon):
    """One mechanism of each kind."""
    box = {"bounds": BOUNDS, "random_state": 0}
    return {
        "Laplace": LaplaceMechanism(epsilon, **box),
        "Gaussian": GaussianMechanism(epsilon, delta=1e-5, **box),
        "response, pure": TensorRandomizedResponse(epsilon, **box),
        "response": TensorRandomizedResponse(epsilon, delta=1e-5, **box),
        "hybrid": HybridMechanism(epsilon, **box),
        "PrivUnit": PrivUnit(epsilon, **box),
    }


# %%
# Expected and measured errors
# ----------------------------
# The errors are squared errors of the mean, summed over its entries. Each mechanism
# states its worst-case error in advance ("closed form"). Clipping the estimate to the
# public range [-1, 1] lowers the error and costs no privacy. "covered" is the share of
# entries where the population's mean lies within two standard errors of the estimate;
# it should be near 0.954. `sktensordp.mechanisms.estimate_mean` computes the mean and
# the standard errors from the released tensors.
#
# The answer 0 for every entry needs no data at all, so an estimate with a larger error
# is worth nothing.


from sktensordp.exceptions import NoiseOnlyWarning
from sktensordp.mechanisms import estimate_mean

import warnings


def mean_errors(mechanism, X, population):
    """Error in closed form, measured, and clipped; share of entries covered."""
    truth = X.mean(axis=0, dtype=float)
    released = mechanism.fit_transform(X)
    with warnings.catch_warnings():
        # Where the error is larger than the range, `estimate_mean` says so; so does the
        # table.
        warnings.simplefilter("ignore", NoiseOnlyWarning)
        found, clipped = estimate_mean(released), estimate_mean(released, bounds=BOUNDS)
    within = np.abs(found.mean - population) <= 2 * found.standard_error
    return (
        mechanism.expected_squared_error_ / len(X),
        np.sum((found.mean - truth) ** 2),
        np.sum((clipped.mean - truth) ** 2),
        np.mean(within),
    )


results = {}
for epsilon in (1, 4, 16):
    print(f"\nepsilon = {epsilon}, {N_USERS:,} users, shape {SHAPE}")
    print(f"{'':16}{'closed form':>12}{'measured':>12}{'clipped':>12}{'covered':>9}")
    for name, mechanism in make_mechanisms(epsilon).items():
        results[epsilon, name] = mean_errors(mechanism, X, population)
        *errors, covered = results[epsilon, name]
        cells = "".join(f"{error:12.4g}" for error in errors)
        print(f"{name:16}{cells}{covered:9.3f}")
    print(f"{'0 everywhere':16}{'':12}{np.sum(truth**2):12.4g}")

# %%
# Which mechanism to take
# -----------------------
# On the left, lines show the closed forms and markers the measured errors. The dotted
# line is the error of the answer 0.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(
    1, 2, figsize=(9, 4.5), sharex=True, sharey=True, layout="constrained"
)
epsilons = sorted({epsilon for epsilon, _ in results})
styles = ["s-", "o--", "v-.", "D:", "^-", "P--"]
for i, (name, style) in enumerate(zip(make_mechanisms(1), styles, strict=True)):
    if name == "response, pure":
        continue  # hardly better than Laplace noise
    stated, found, clipped, _ = np.transpose([results[e, name] for e in epsilons])
    apart = np.array(epsilons) * 1.05 ** (i - 3)  # so that markers do not overlap
    axes[0].plot(apart, stated, style[1:], color=f"C{i}")
    axes[0].plot(apart, found, style[0], color=f"C{i}")
    axes[1].plot(apart, clipped, style, color=f"C{i}", label=name)
questions = "How good is the mean?", "How good is it, clipped to [-1, 1]?"
for axis, title in zip(axes, questions, strict=True):
    axis.axhline(np.sum(truth**2), color="0.35", linestyle=(0, (1, 1)))
    axis.set(xscale="log", yscale="log", title=title, xlabel="epsilon of a user")
    axis.set_xticks(epsilons, epsilons)
    axis.minorticks_off()
axes[0].text(19, np.sum(truth**2) * 1.2, "0 everywhere", ha="right", color="0.35")
axes[0].set_ylabel("squared error of the mean, summed")
axes[1].legend()
plt.show()

# %%
# At epsilon = 1 the hybrid mechanism has the least error, though even its mean has to
# be clipped to beat the answer 0. At epsilon = 4 and 16 it is `PrivUnit`, by a factor
# of 2 and then of 5. The hybrid reports a few random entries of each user, and
# `PrivUnit` one random direction. Randomised response and Gaussian noise report all 784
# entries of each user, which pays off only if you need individual tensors.

# %%
# What a shuffler changes
# -----------------------
# So far, the server knows who sent which message. Suppose that a trusted shuffler
# collects the 10,000 messages and passes them on in random order, without names. Then
# the devices may use less noise for the same guarantee against the server. For
# (1, 1e-6) after the shuffle, `epsilon_before_shuffling` finds the epsilon of a
# message. The last row is a trusted server, which sees all tensors and adds Gaussian
# noise to their mean: replacing one tensor moves the mean by at most 2 * 28 / 10,000.

from sktensordp.model_selection import epsilon_before_shuffling

import textwrap

delta, n_entries = 1e-6, X[0].size


def print_row(name, epsilon, mechanism, released):
    """Epsilon of a message, and the squared errors of the mean."""
    error = mechanism.expected_squared_error_ / len(released)
    estimate = np.clip(released.mean(axis=0, dtype=float), *BOUNDS)
    found = np.sum((estimate - truth) ** 2)
    print(f"{name:28}{epsilon:>9}{error:13.4g}{found:12.4g}")


print("(1, 1e-6)-differential privacy against the server")
print(f"{'':28}{'message':>9}{'closed form':>13}{'clipped':>12}")
alone = PrivUnit(1.0, bounds=BOUNDS, random_state=0)
print_row("PrivUnit", "1.00", alone, alone.fit_transform(X))

local = epsilon_before_shuffling(
    alone, X[:1], epsilon=1.0, delta=delta, n_messages=N_USERS
)
shuffled = PrivUnit(local, bounds=BOUNDS, random_state=0).fit(X)
print_row("PrivUnit, shuffled", f"{local:.2f}", shuffled, shuffled.transform(X))
guarantee = shuffled.privacy_guarantee_.shuffled(N_USERS, delta=delta)

sensitivity = 2 * np.sqrt(n_entries) / N_USERS
central = GaussianMechanism(1.0, delta=delta, sensitivity=sensitivity, random_state=0)
print_row("Gaussian, trusted server", "-", central, central.fit_transform(truth[None]))

print(textwrap.fill(str(guarantee), 88))

# %%
# Against the shuffler itself, a message has the epsilon of its row. The shuffler must
# be honest, and nothing may travel with a message that tells who sent it.
