"""The mean of many people's tensors under local privacy
=====================================================

Each is randomised at its person's side.

Every user holds a tensor with entries -1 and 1 and sends it once, through one of the
mechanisms. The mean over all users is wanted. A population decides how often an entry
is 1, so that its mean is anywhere between -1 and 1; the ends of the range are the worst
case of every mechanism, or close to it.

For every mechanism and epsilon the table gives the squared error of the mean, summed
over the entries: what the mechanism's closed form says of the worst case, what was
measured, and what is left if the mean is clipped to [-1, 1], which costs no privacy.
Beside them is the error of the answer 0 everywhere, which needs no data: an estimate
that is no better is worth nothing. The share of entries where the estimate is within
two standard errors of the population's mean should be 0.954.

"pure" has delta = 0, like Laplace noise, the hybrid mechanism and PrivUnit; Gaussian
noise and the other randomised response have delta = 1e-5.
"""

import argparse
import math

import matplotlib.pyplot as plt
import numpy as np

from sktensordp.mechanisms import (
    GaussianMechanism,
    HybridMechanism,
    LaplaceMechanism,
    PrivUnit,
    TensorRandomizedResponse,
    mean,
)

DELTA = 1e-5
BOUNDS = (-1, 1)
# Entries that a measured error is summed over at least, in one release or in more.
ENTRIES = 500
STYLES = ["s-", "o--", "v-.", "D:", "^-", "P--"]


def mechanisms(epsilon, random_state):
    box = {"bounds": BOUNDS, "random_state": random_state}
    return {
        "Laplace": LaplaceMechanism(epsilon, **box),
        "Gaussian": GaussianMechanism(epsilon, delta=DELTA, **box),
        "response, pure": TensorRandomizedResponse(epsilon, **box),
        "response": TensorRandomizedResponse(epsilon, delta=DELTA, **box),
        "hybrid": HybridMechanism(epsilon, **box),
        "PrivUnit": PrivUnit(epsilon, **box),
    }


def users(n_users, shape, seed):
    """Tensors of all users, float32, and the mean of the population they are from."""
    rng = np.random.default_rng(seed)
    population = rng.uniform(-1, 1, size=shape)
    ones = rng.random((n_users, *shape), dtype=np.float32) < (1 + population) / 2
    return np.where(ones, np.float32(1), np.float32(-1)), population


def measured(mechanism, X, population):
    """Error of the mean, error if it is clipped, and share of entries covered."""
    truth = X.mean(axis=0, dtype=float)
    n_releases = math.ceil(ENTRIES / truth.size)
    total = np.zeros(3)
    for _ in range(n_releases):
        released = mechanism.transform(X)
        found, clipped = mean(released), mean(released, bounds=BOUNDS)
        within = np.abs(found.mean - population) <= 2 * found.standard_error
        total += (
            np.sum((found.mean - truth) ** 2),
            np.sum((clipped.mean - truth) ** 2),
            np.mean(within),
        )
    return total / n_releases


def draw(results, guess, title, output):
    """Closed form as lines, measured as full marks, clipped as hollow ones."""
    figure, axis = plt.subplots(figsize=(9, 5.5), layout="constrained")
    epsilons = list(results)
    for i, (name, style) in enumerate(zip(results[epsilons[0]], STYLES, strict=True)):
        stated, found, clipped, _ = np.transpose([results[e][name] for e in epsilons])
        apart = np.array(epsilons) * 1.04 ** (i - len(STYLES) // 2)
        colour = {"color": f"C{i}", "markersize": 7}
        axis.plot(apart, stated, style[1:], linewidth=1.2, **colour)
        axis.plot(apart, found, style[0], **colour)
        axis.plot(apart, clipped, style[0], markerfacecolor="white", **colour)
        axis.plot([], [], style, label=name, **colour)
    axis.axhline(guess, color="0.35", linestyle=(0, (1, 1)), label="0 everywhere")
    axis.plot([], [], "k-", label="closed form")
    axis.plot([], [], "ko", label="measured")
    axis.plot([], [], "ko", markerfacecolor="white", label="clipped")
    axis.set(xscale="log", yscale="log", title=title)
    axis.set(xlabel="epsilon of a user", ylabel="squared error of the mean, summed")
    axis.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axis.minorticks_off()
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(output, dpi=130)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1, 4, 16])
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--shape", nargs="+", type=int, default=[28, 28])
    parser.add_argument("--random-state", type=int, help="seed of the noise")
    parser.add_argument("--output", default="local_mean.png", metavar="PNG")
    arguments = parser.parse_args()
    n_users, shape = arguments.users, tuple(arguments.shape)
    X, population = users(n_users, shape, seed=0)
    guess = np.sum(X.mean(axis=0, dtype=float) ** 2)
    results = {}
    for epsilon in arguments.epsilons:
        print(f"\nepsilon = {epsilon:g}, {n_users} users, shape {shape}")
        heads = ("closed form", "measured", "clipped")
        print(f"{'':16}{''.join(f'{head:>12}' for head in heads)}{'covered':>9}")
        results[epsilon] = {}
        for name, mechanism in mechanisms(epsilon, arguments.random_state).items():
            stated = mechanism.fit(X).expected_squared_error_ / n_users
            row = stated, *measured(mechanism, X, population)
            results[epsilon][name] = row
            errors = "".join(f"{error:12.4g}" for error in row[:3])
            print(f"{name:16}{errors}{row[3]:9.3f}", flush=True)
        print(f"{'0 everywhere':16}{'':12}{guess:12.4g}")
    draw(results, guess, f"{n_users} users, shape {shape}", arguments.output)
    print(f"\nPicture in {arguments.output}")


if __name__ == "__main__":
    main()
