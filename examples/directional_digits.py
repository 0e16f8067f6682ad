"""Digits with noise that knows the task
=====================================

They are privatised one by one before anybody sees them.

Each image is a tensor of 8 x 8 pixels, protected as a whole at the person's side (local
differential privacy). A linear model fitted to public images says how much an error in
a row, in a column or in a pixel costs; directional noise goes where it costs least.
A pipeline of the mechanism and a linear classifier is searched over epsilon by
cross-validation; both the images that teach and those that test carry noise.

The picture shows the trade-off. The weights come from public images alone, so that
they cost nothing; weights learned from the private ones would have to be released
privately, with a budget of their own.
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline

from sktensordp.mechanisms import (
    GaussianMechanism,
    TensorVariateGaussian,
    UnimodalDirectionalNoise,
)
from sktensordp.plotting import PrivacyUtilityDisplay
from sktensordp.privacy import privacy_of


def public_weights(X, y):
    """Coefficients of a linear model, for rows, columns and pixels."""
    model = LogisticRegression(C=0.01, max_iter=2000).fit(X, y)
    pixels = model.coef_ - model.coef_.mean(axis=0)
    squares = np.square(pixels).sum(axis=0).reshape(8, 8)
    return np.sqrt(squares.sum(axis=1)), np.sqrt(squares.sum(axis=0)), pixels


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--epsilons", nargs="+", type=float, default=[10.0, 20.0, 40.0, 80.0, 160.0]
    )
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--random-state", type=int, help="seed of the noise")
    parser.add_argument("--output", default="directional_digits.png", metavar="PNG")
    arguments = parser.parse_args()
    X, y = load_digits(return_X_y=True)
    public, private, y_public, y_private = train_test_split(
        X, y, train_size=0.3, stratify=y, random_state=0
    )
    rows, columns, pixels = public_weights(public, y_public)
    common = {
        "delta": 1e-5, "bounds": (0, 16), "random_state": arguments.random_state,
    }  # fmt: skip
    mechanisms = {
        "i.i.d. Gaussian": GaussianMechanism(**common),
        "TVG, weights of rows and columns": TensorVariateGaussian(
            utility=[rows, columns], tensor_shape=(8, 8), **common
        ),
        "UDN, weights of pixels": UnimodalDirectionalNoise(utility=pixels, **common),
    }
    curves, clean = {}, None
    for name, mechanism in mechanisms.items():
        pipeline = make_pipeline(mechanism, RidgeClassifier(alpha=1e4))
        step = pipeline.steps[0][0]
        search = GridSearchCV(
            pipeline, {f"{step}__epsilon": [*arguments.epsilons, np.inf]}, n_jobs=2,
            cv=StratifiedKFold(arguments.folds, shuffle=True, random_state=0),
        ).fit(private, y_private)  # fmt: skip
        scores = search.cv_results_["mean_test_score"]
        spread = search.cv_results_["std_test_score"]
        curves[name] = (arguments.epsilons, scores[:-1], spread[:-1])
        clean = scores[-1]
        text = "".join(f"{score:8.3f}" for score in scores)
        print(f"{name:34}{text}", flush=True)
    print(f"{'epsilon of an image':34}{''.join(f'{e:8g}' for e in arguments.epsilons)}"
          f"{'inf':>8}")  # fmt: skip
    display = PrivacyUtilityDisplay(
        curves, references={"no noise": clean, "chance": 0.1}, score_name="accuracy"
    ).plot()
    display.ax_.legend(loc="center left")
    display.figure_.savefig(arguments.output, dpi=130)
    # A release, as one would make it: one epsilon, chosen beforehand.
    chosen = make_pipeline(
        mechanisms["UDN, weights of pixels"].set_params(epsilon=arguments.epsilons[-1]),
        RidgeClassifier(alpha=1e4),
    ).fit(private, y_private)
    print(f"\n{privacy_of(chosen)}\nPicture in {arguments.output}")


if __name__ == "__main__":
    main()
