"""
Private gradient descent, accounted step by step
================================================

A logistic regression learns from medical records by gradient descent. Each step takes
a random sample of the records and releases one noisy sum of their gradients. How much
do a hundred steps reveal about one record, and what does the noise cost in accuracy?
This example builds the training loop from a mechanism, chooses the noise so that the
whole run keeps a given epsilon, and shows how epsilon grows with the steps.
"""

# %%
# The noise of one step
# ---------------------
# Each step adds Gaussian noise to a sum of gradients, one number for each of 31
# coefficients. No record changes this sum by more than 1.

# sphinx_gallery_thumbnail_path = "images/thumbnails/private_gradients.png"
from sktensordp.mechanisms import GaussianMechanism

import numpy as np

step = GaussianMechanism(2.0, delta=1e-7, sensitivity=1.0).fit(np.zeros((1, 31)))
print(f"one step: {step.privacy_guarantee_}")

# %%
# The data
# --------
# The records are 569 biopsies with 30 features each. Every feature is divided by its
# typical size, rounded to a power of ten, which counts as public here. Every record is
# then scaled to norm 1 by itself.

from sklearn.datasets import load_breast_cancer

X, y = load_breast_cancer(return_X_y=True)
X = X / 10.0 ** np.round(np.log10(X.mean(axis=0)))
X = np.column_stack([X, np.ones(len(X))])
X /= np.linalg.norm(X, axis=1, keepdims=True)

# %%
# One step, and all steps
# -----------------------
# A step takes each record with probability 0.1 (Poisson sampling), clips its gradient
# to norm 1, and passes the sum through a `GaussianMechanism`. Adding or removing a
# record changes the sum by at most the clip, which is the declared sensitivity.
#
# Three calls account for the run. The fitted mechanism states the guarantee of a step
# for a record in the sample; ``subsampled`` strengthens it, because a record is
# probably not in the sample; `compose` adds up the steps. The seed makes the numbers on
# this page repeatable; a real run has no seed, so that nobody can subtract the noise.

from sktensordp.privacy import compose

N_STEPS, RATE, CLIP, DELTA = 100, 0.1, 1.0, 1e-5
N_FEATURES = 31  # with the constant


def make_step(epsilon, n_steps=N_STEPS):
    """The mechanism of one step, with an epsilon of its own."""
    step = GaussianMechanism(
        epsilon, delta=DELTA / n_steps, sensitivity=CLIP, random_state=0
    )
    return step.fit(np.zeros((1, N_FEATURES)))


def guarantee_of_run(step, n_steps=N_STEPS, rate=RATE):
    """What all steps together reveal about one record."""
    sampled = step.privacy_guarantee_.subsampled(rate)
    return compose(*[sampled] * n_steps, delta=DELTA)


# %%
# Choose the noise
# ----------------
# A root finder chooses the epsilon of a single step so that the run as a whole keeps
# the epsilon that you ask for.


from scipy.optimize import root_scalar


def step_for_run(epsilon, n_steps=N_STEPS, rate=RATE):
    """The step at which the whole run keeps `epsilon`."""

    def excess(log_step):
        step = make_step(float(np.exp(log_step)), n_steps)
        return np.log(guarantee_of_run(step, n_steps, rate).epsilon / epsilon)

    start = np.log(epsilon)
    log_step = root_scalar(excess, x0=start, x1=start - 0.3, xtol=5e-3).root
    # Rounded down a little, so that the run spends no more than `epsilon`.
    return make_step(float(np.exp(log_step - 1e-3)), n_steps)


steps = {epsilon: step_for_run(epsilon) for epsilon in (0.5, 2, 8)}
for epsilon, step in steps.items():
    print(f"run at epsilon = {epsilon}: each step at {step.epsilon:.3f}")
guarantee = guarantee_of_run(steps[8])
print(f"\nThe guarantee of the last run: {guarantee}")

# %%
# Train
# -----
# The same loop runs with and without noise, on ten splits into training and test
# records.


from sklearn.model_selection import train_test_split


def train(X, y, step, rng, n_steps=N_STEPS, rate=RATE):
    """Coefficients after all steps."""
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


def accuracies(step, n_runs=10):
    """Accuracy on held-out records, for every split."""
    for run in range(n_runs):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, test_size=0.3, random_state=run
        )
        coefficients = train(X_train, y_train, step, np.random.default_rng(run))
        yield np.mean((X_test @ coefficients > 0) == y_test)


print(f"{N_STEPS} steps on samples of {RATE:g} of the records, delta = {DELTA:g}")
print(f"{'epsilon of the run':>20}{'of one step':>14}{'accuracy':>10}{'+-':>7}")
scores = {}
for epsilon, step in {**steps, np.inf: make_step(np.inf)}.items():
    scores[epsilon] = list(accuracies(step))
    mean, spread = np.mean(scores[epsilon]), np.std(scores[epsilon])
    print(f"{epsilon:20g}{step.epsilon:14.3f}{mean:10.3f}{spread:7.3f}")

# %%
# What the noise costs is on the left. On the right is the epsilon that the run for
# epsilon = 2 has spent after each number of steps. `compose` follows the distribution
# of the privacy loss; the sum of the epsilons of all steps is also valid, and would end
# at 48.

from sktensordp.plotting import PrivacyUtilityDisplay

import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
means, spreads = (
    [statistic(scores[epsilon]) for epsilon in steps] for statistic in (np.mean, np.std)
)
PrivacyUtilityDisplay(
    {"private run": (list(steps), means, spreads)},
    references={
        "no noise": np.mean(scores[np.inf]),
        "most frequent class": np.mean(y),
    },
    score_name="accuracy on held-out records",
).plot(left)
left.set(title="What does the noise cost?", xlabel="epsilon of the whole run")
counts = [1, 3, 10, 30, 100]
one = steps[2].privacy_guarantee_.subsampled(RATE)
composed = [compose(*[one] * count, delta=DELTA).epsilon for count in counts]
right.plot(counts, composed, "o-", label="compose")
right.plot(counts, one.epsilon * np.array(counts), "s--", label="sum of epsilons")
right.set(
    xscale="log", yscale="log", xlabel="steps", ylabel="epsilon spent",
    title="What does each step spend?",
)  # fmt: skip
right.set_xticks(counts, counts)
right.set_yticks([0.3, 1, 3, 10, 30], ["0.3", "1", "3", "10", "30"])
right.minorticks_off()
right.legend()
plt.show()

# %%
# At epsilon = 8 training is as accurate as without noise. An epsilon of 2 costs between
# one and two percentage points, and 0.5 costs eight. The guarantee protects one
# training record that is added or removed. It does not cover the accuracies, which are
# measured on raw test records.
