"""Which epsilon is needed for an error
====================================

What error to expect at every epsilon, and the least epsilon for an error, before any
budget is spent: of three mechanisms on arrays of 8 x 8, of which the shape alone is
read; of encoders for a linear task, from data of people who consent; and of completed
ratings, from who rated what (where one rating is protected) or from how many ratings
there are (where everything of a user is). Then the completions are fitted at the
epsilons that were found, and their errors measured.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split

from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.encoding import TaskAgnosticEncoder, TaskAwareEncoder
from sktensordp.mechanisms import GaussianMechanism, LaplaceMechanism, PrivUnit
from sktensordp.plotting import ExpectedErrorDisplay


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--squared-error", type=float, default=10.0, help="of an array")
    parser.add_argument("--task-loss", type=float, default=0.5, help="of the variance")
    parser.add_argument("--rmse", type=float, default=0.92, help="of ratings")
    parser.add_argument("--random-state", type=int, default=0)
    parser.add_argument("--output", default="choose_epsilon.png", metavar="PNG")
    arguments = parser.parse_args()
    figure, axes = plt.subplots(1, 3, figsize=(16, 5), layout="constrained")

    arrays = ExpectedErrorDisplay.from_estimator(
        {
            "Laplace": LaplaceMechanism(norm_bound=1),
            "Gaussian": GaussianMechanism(norm_bound=1, delta=1e-6),
            "PrivUnit": PrivUnit(norm_bound=1),
        },
        np.zeros((1, 8, 8)),
        epsilons=[1, 2, 4, 8, 16, 32, 64],
        target=arguments.squared_error,
        ax=axes[0],
    )

    X, y = load_wine(return_X_y=True)
    encoders = ExpectedErrorDisplay.from_estimator(
        {"task-aware": TaskAwareEncoder(), "task-agnostic": TaskAgnosticEncoder()},
        X,
        y,
        epsilons=[0.5, 1, 2, 4, 8],
        target=arguments.task_loss,
        ax=axes[1],
    )

    ratings = make_ratings(random_state=arguments.random_state)
    known, held_out, values, truth = train_test_split(
        ratings.data, ratings.target, test_size=0.1, random_state=arguments.random_state
    )
    declared = {"rank": 5, "levels": ratings.levels, "shape": ratings.shape}
    completions = {
        "one rating": CPCompletion(**declared),
        "one rating, each randomised": CPCompletion(perturbation="input", **declared),
        "everything of a user": CPCompletion(unit=0, delta=1e-5, **declared),
    }
    completed = ExpectedErrorDisplay.from_estimator(
        completions,
        known,
        epsilons=[0.25, 0.5, 1, 2, 4, 8, 16, 32],
        target=arguments.rmse,
        ax=axes[2],
    )

    titles = (
        "arrays of 8 x 8, of a norm of at most 1",
        "wines, linear regression of their cultivars",
        "ratings from 0.5 to 5",
    )
    for axis, title, display in zip(
        axes, titles, (arrays, encoders, completed), strict=True
    ):
        axis.set_title(title)
        print(f"\n{title}: {axis.get_ylabel()} {display.target:g}")
        for label in display.curves:
            epsilon = display.needed.get(label)
            print(f"{label:30}{'none here' if epsilon is None else f'{epsilon:.2f}'}")
    figure.savefig(arguments.output, dpi=130)

    for label, epsilon in completed.needed.items():
        model = completions[label].set_params(
            epsilon=epsilon, random_state=arguments.random_state
        )
        error = root_mean_squared_error(
            truth, model.fit(known, values).predict(held_out)
        )
        print(f"\nmeasured at epsilon = {epsilon:.2f}: {error:.3f}, {label}")
        print(model.privacy_guarantee_)
    print(f"\nPicture in {arguments.output}")


if __name__ == "__main__":
    main()
