"""Private gradient descent, accounted step by step
================================================

A mechanism on sums of clipped gradients.

Logistic regression by gradient steps. Each step takes every record with a small
probability (Poisson sampling), clips its gradient, sums, and passes the sum through a
mechanism whose sensitivity is the clip. The guarantee of one step comes from the
fitted mechanism, `subsampled` amplifies it, `compose` adds all steps up. The noise is
chosen by bisection, so that the whole run keeps what was asked for.
"""

import argparse

import numpy as np
from scipy.optimize import brentq
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from sktensordp.mechanisms import GaussianMechanism
from sktensordp.privacy import compose

CLIP = 1.0


def guarantee_of_run(of_step, n_features, rate, n_steps, delta):
    """Of all steps; the epsilon of a step alone sets its noise."""
    step = GaussianMechanism(of_step, delta=delta / n_steps, sensitivity=CLIP)
    step.fit(np.zeros((1, n_features)))
    one = step.privacy_guarantee_.subsampled(rate)
    return compose(*[one] * n_steps, delta=delta)


def fit(X, y, step, rate, n_steps, rng):
    """Coefficients after so many noisy steps."""
    coefficients = np.zeros(X.shape[1])
    for _ in range(n_steps):
        chosen = rng.random(len(X)) < rate
        slopes = 1 / (1 + np.exp(-X[chosen] @ coefficients)) - y[chosen]
        gradients = slopes[:, np.newaxis] * X[chosen]
        lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
        gradients /= np.maximum(lengths / CLIP, 1)
        total = step.transform(gradients.sum(axis=0, keepdims=True))[0]
        coefficients -= 4.0 * total / (rate * len(X))
    return coefficients


def epsilon_of_step(epsilon, n_features, rate, n_steps, delta):
    """The epsilon of one step alone at which the whole run keeps `epsilon`."""

    def excess(log_step):
        step = float(np.exp(log_step))
        run = guarantee_of_run(step, n_features, rate, n_steps, delta)
        return run.epsilon - epsilon

    # Rounded down, so that the run keeps no more than was asked for.
    return float(np.exp(brentq(excess, np.log(0.01), np.log(50), xtol=1e-3) - 1e-3))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 2.0, 8.0])
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--runs", type=int, default=10)
    arguments = parser.parse_args()
    X, y = load_breast_cancer(return_X_y=True)
    # Public units: the features' typical sizes, rounded to powers of ten.
    X = X / 10.0 ** np.round(np.log10(X.mean(axis=0)))
    X = np.column_stack([X, np.ones(len(X))])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    rate, n_steps, delta = arguments.rate, arguments.steps, arguments.delta
    print(f"{n_steps} steps on samples of {rate:g} of the records, delta = {delta:g}")
    print(f"{'epsilon of the run':>20}{'of one step':>14}{'accuracy':>10}{'+-':>7}")
    for epsilon in [*arguments.epsilons, np.inf]:
        of_step = np.inf
        if np.isfinite(epsilon):
            of_step = epsilon_of_step(epsilon, X.shape[1], rate, n_steps, delta)
        step = GaussianMechanism(of_step, delta=delta / n_steps, sensitivity=CLIP)
        step.fit(np.zeros((1, X.shape[1])))
        scores = []
        for run in range(arguments.runs):
            train, test, y_train, y_test = train_test_split(
                X, y, test_size=0.3, random_state=run
            )
            rng = np.random.default_rng(run)
            coefficients = fit(train, y_train, step, rate, n_steps, rng)
            scores.append(np.mean((test @ coefficients > 0) == y_test))
        mean, spread = np.mean(scores), np.std(scores)
        print(f"{epsilon:20g}{of_step:14.3f}{mean:10.3f}{spread:7.3f}", flush=True)
        if np.isfinite(epsilon):
            total = guarantee_of_run(of_step, X.shape[1], rate, n_steps, delta)
    print(f"\nThe last private line's guarantee: {total}")


if __name__ == "__main__":
    main()
