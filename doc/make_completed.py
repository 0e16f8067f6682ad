#!/usr/bin/env python3
"""Draw ratings, the same with noise, and their completion: doc/images/completed.png.

    python doc/make_completed.py

The pictures of dark pages and of phones show the same. The errors in the titles are
those of this run.
"""

import numpy as np
from pictures import draw
from sklearn.metrics import root_mean_squared_error

from sktensordp.completion import CPCompletion
from sktensordp.datasets import make_ratings
from sktensordp.mechanisms import LaplaceMechanism

EPSILON = 4.0
SHOWN = 60, 40


def tables():
    """Titles and tables of some users and films."""
    ratings = make_ratings(600, 400, 60_000, random_state=0)
    X, y, bounds = ratings.data, ratings.target, (0.5, 5.0)
    test = np.random.default_rng(0).random(len(y)) < 0.1
    noise = LaplaceMechanism(EPSILON, bounds=bounds, random_state=0)
    noisy = noise.fit_transform(y[:, None])[:, 0]
    model = CPCompletion(
        5, epsilon=EPSILON, value_bounds=bounds, perturbation="input", random_state=0
    ).fit(X[~test], y[~test])
    off = root_mean_squared_error(y, noisy)
    error = root_mean_squared_error(y[test], model.predict(X[test]))

    predicted = model.predict(np.argwhere(np.ones(ratings.shape)))
    predicted = predicted.reshape(ratings.shape)
    few = [
        np.linspace(0, n - 1, s).astype(int)
        for n, s in zip(ratings.shape, SHOWN, strict=True)
    ]
    orders = [np.argsort(predicted.mean(axis=1 - mode)) for mode in (0, 1)]
    chosen = np.ix_(*(order[some] for order, some in zip(orders, few, strict=True)))
    known, released = np.full(ratings.shape, np.nan), np.full(ratings.shape, np.nan)
    known[tuple(X.T)], released[tuple(X.T)] = y, noisy
    return {
        f"1. Ratings: {len(y) / known.size:.0%} are known": known[chosen],
        f"2. With noise: off by {off:.1f} stars": released[chosen],
        f"3. Completed: off by {error:.1f} stars": predicted[chosen],
    }


def drawing(found, phone=False):
    """Return a function that draws the tables, one below the other for phones."""

    def figure(ink):
        from matplotlib.figure import Figure

        size = (3.6, 7.2) if phone else (9, 3.1)
        figure = Figure(figsize=size, layout="constrained")
        places = figure.subplots(*((3, 1) if phone else (1, 3)))
        for axes, (title, table) in zip(places, found.items(), strict=True):
            image = axes.imshow(
                table.T, cmap="cividis", vmin=0.5, vmax=5, aspect="auto",
                interpolation="nearest",
            )  # fmt: skip
            axes.set_title(title, fontsize=12 if phone else 11)
            axes.set(xlabel="users", xticks=[], yticks=[])
            axes.spines[:].set_visible(True)
        figure.axes[0].set_ylabel("films")
        if not phone:
            figure.colorbar(image, ax=figure.axes, label="stars", pad=0.01)
        return figure

    return figure


if __name__ == "__main__":
    found = tables()
    draw("completed", drawing(found), suffix="png", dpi=120)
    draw("completed_phone", drawing(found, phone=True), suffix="png", dpi=150)
