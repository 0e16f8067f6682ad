"""
Choose epsilon from the error that you can accept
=================================================

It is easier to choose an error than an epsilon. Before any budget is spent, this
example computes the error to expect at each epsilon, and the least epsilon for an error
that you can accept. It does so for three tasks: arrays that are randomised as a whole,
features that are encoded for a regression, and ratings that are completed.
"""

# %%
# Arrays: only their shape matters
# --------------------------------
# One person's 8 x 8 array, whose norm is at most 1, is to be released with a squared
# error of at most 10. `expected_error` computes the error of a mechanism,
# `epsilon_needed` the least epsilon for an error, and `ExpectedErrorDisplay` draws
# both. They read only the shape of the arrays, so zeros will do.

# sphinx_gallery_thumbnail_path = "images/thumbnails/choose_epsilon.png"
from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism, PrivUnit
from sktensordp.plotting import ExpectedErrorDisplay

import matplotlib.pyplot as plt
import numpy as np


def show(estimators, X, y=None, *, title, **options):
    """Draw the expected errors, and print the least epsilon for the target."""
    _, axes = plt.subplots(figsize=(6.4, 5), layout="constrained")
    display = ExpectedErrorDisplay.from_estimator(estimators, X, y, ax=axes, **options)
    axes.set_title(title)
    print(f"epsilon for an error of {display.target:g}")
    for name in estimators:
        print(f"{name:30}{display.needed[name]:6.2f}")
    return display


show(
    {
        "Laplace": LaplaceMechanism(norm_bound=1),
        "Gaussian": GaussianMechanism(norm_bound=1, delta=1e-6),
        "PrivUnit": PrivUnit(norm_bound=1),
    },
    np.zeros((1, 8, 8)),
    epsilons=[1, 2, 4, 8, 16, 32, 64],
    target=10.0,
    title="Which epsilon does an 8 x 8 array need?",
)
plt.show()

# %%
# To release one person's whole array, `PrivUnit` needs a far smaller epsilon. It is
# made for this: it randomises the direction of the array instead of its entries.
#
# Encoded features: ask with volunteers' data
# -------------------------------------------
# A linear regression predicts the cultivars of wines from 13 measurements. The task's
# loss should stay below half of the variance. An encoder's error depends on the data,
# so the answer reveals something about them. Use public data, or data of people who
# consent.

from sktensordp.encoding import TaskAgnosticEncoder, TaskAwareEncoder

from sklearn.datasets import load_wine

wines, cultivars = load_wine(return_X_y=True)
show(
    {"task-aware": TaskAwareEncoder(), "task-agnostic": TaskAgnosticEncoder()},
    wines,
    cultivars,
    epsilons=[0.5, 1, 2, 4, 8],
    target=0.5,
    title="Which epsilon does a regression need?",
)
plt.show()

# %%
# An encoder that knows the task reaches the same loss at a smaller epsilon.
#
# Ratings: ask with what is public
# --------------------------------
# Ratings from 0.5 to 5 stars are to be completed with an error of 0.92. If single
# ratings are protected, who rated what is public, and the answer is computed from that.
# If whole users are protected, even who rated what is private, and only the number of
# rows is read: pass as many rows as you may disclose. "input" randomises every rating;
# the default chooses among several methods.

from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_ratings

from sklearn.model_selection import train_test_split

ratings = make_ratings(random_state=0)
known, held_out, values, truth = train_test_split(
    ratings.data, ratings.target, test_size=0.1, random_state=0
)
declared = {"rank": 5, "levels": ratings.levels, "shape": ratings.shape}
completions = {
    "rating": CPCompletion(**declared),
    "rating, input": CPCompletion(perturbation="input", **declared),
    "user": CPCompletion(unit=0, delta=1e-5, **declared),
}
completed = show(
    completions,
    known,
    epsilons=[0.25, 0.5, 1, 2, 4, 8, 16, 32],
    target=0.92,
    title="Which epsilon do 60,000 ratings need?",
)
plt.show()

# %%
# The curve for users starts lower, because the ratings of a user may serve that user
# without noise. It falls more slowly: what users learn from each other is noisier.
#
# Was the answer right?
# ---------------------
# Now spend the budget: fit each completion at its epsilon, and measure the error on
# held-out ratings. The measured errors are close to 0.92. This is the only step that
# adds noise. ``random_state=0`` makes this page repeatable; leave it out for a real
# release. The measured error itself comes from raw ratings and is not protected.

from sktensordp.exceptions import AveragesOnlyWarning

import textwrap
import warnings

from sklearn.metrics import root_mean_squared_error

for name, epsilon in completed.needed.items():
    model = completions[name].set_params(epsilon=epsilon, random_state=0)
    with warnings.catch_warnings():
        # For this error, averages may be enough. A fit warns if it learned no more.
        warnings.simplefilter("ignore", AveragesOnlyWarning)
        predicted = model.fit(known, values).predict(held_out)
    error = root_mean_squared_error(truth, predicted)
    print(f"measured at epsilon = {epsilon:.2f}: {error:.3f}, {name}")
    print(f"{textwrap.fill(str(model.privacy_guarantee_), 88)}\n")
