#!/usr/bin/env python3
"""Draw the thumbnails of the examples: one curve or one picture, without small text.

    python doc/make_thumbnails.py

Each example names its thumbnail in a comment. Curves are those of doc/results.json;
the other pictures are of scikit-learn's digits, or drawings. Both grounds, light and
dark, show through.
"""

import numpy as np
from make_pages import mean, statements, table_of
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Ellipse, FancyArrowPatch, Rectangle
from pictures import CURVES, IMAGES

BLUE, ORANGE, GREEN, PURPLE, GREY = CURVES
BLUES = LinearSegmentedColormap.from_list("blues", ["#2f86d600", BLUE])
DIVERGING = LinearSegmentedColormap.from_list("both", [ORANGE, "#8a94a000", BLUE])


def empty():
    """An empty figure of the size of a card."""
    figure = Figure(figsize=(4, 2.8))
    axes = figure.add_axes((0.06, 0.08, 0.88, 0.84))
    axes.set_axis_off()
    return figure, axes


def curve(values, color=BLUE, target=None):
    """One thick curve over a line, and perhaps a target."""
    figure, axes = empty()
    x = np.arange(len(values))
    low, high = min(values), max(values)
    floor = low - 0.15 * (high - low)
    axes.fill_between(x, floor, values, color=color, alpha=0.15, linewidth=0)
    axes.plot(x, values, color=color, linewidth=7, solid_capstyle="round")
    axes.plot(x[-1], values[-1], "o", color=color, markersize=16)
    axes.axhline(floor, color=GREY, linewidth=3)
    if target is not None:
        axes.axhline(target, color=ORANGE, linewidth=4, linestyle=(0, (2, 1.5)))
    axes.set_xlim(-0.2, len(values) - 0.7)
    return figure


def stored(run, number, row=None, column=None, color=BLUE):
    """A curve from a stored table: of one row, or of one column."""
    _, columns, rows = table_of(run, number)
    if row is not None:
        found = dict(rows)[row]
    else:
        place = columns.index(column)
        found = [cells[place] for label, cells in rows if label != "inf"]
    values = []
    for cell in found:
        try:
            values.append(float(mean(cell).split()[0].strip("*")))
        except ValueError:
            break
    return curve(values, color)


def bars(lengths, colors):
    """Bars, the first on top."""
    figure, axes = empty()
    axes.barh(range(len(lengths)), lengths, color=colors, height=0.7)
    axes.invert_yaxis()
    return figure


def image(values, cmap=BLUES, limit=None):
    """One large picture of few pixels."""
    figure, axes = empty()
    low = None if limit is None else -limit
    axes.imshow(values, cmap=cmap, vmin=low, vmax=limit, interpolation="nearest")
    return figure


def digit(noise=0.0):
    """A digit, with Laplace noise."""
    from sklearn.datasets import load_digits

    one = load_digits().images[3] / 16
    return one + np.random.default_rng(0).laplace(scale=noise or 1e-9, size=one.shape)


def hours():
    """Counts by zone and hour, most of them missing."""
    hour, zone = np.meshgrid(np.arange(16), np.arange(9))
    counts = 1.2 + np.sin((hour - zone) / 2.5) + np.cos(zone)
    missing = np.random.default_rng(1).random(counts.shape) < 0.45
    return image(np.where(missing, np.nan, counts))


def components():
    """A component of images."""
    from sklearn.datasets import load_digits

    from sktensordp.moments import MultilinearPCA

    digits = load_digits().images
    digits = digits / np.linalg.norm(digits, axis=(1, 2), keepdims=True)
    pca = MultilinearPCA((5, 5), epsilon=1.0, norm_bound=1.0, random_state=0)
    pca.fit(digits)
    one = pca.inverse_transform(np.eye(25)[[7]])[0]
    return image(one.reshape(8, 8), DIVERGING, np.abs(one).max())


def importance():
    """How much each pixel tells about a digit."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=0.01, max_iter=2000).fit(*load_digits(return_X_y=True))
    pixels = model.coef_ - model.coef_.mean(axis=0)
    return image(np.sqrt(np.square(pixels).sum(axis=0)).reshape(8, 8))


def parties(n_parties, color, arrows="-|>"):
    """Parties around a server."""
    figure, axes = empty()
    angles = np.linspace(0, 2 * np.pi, n_parties, endpoint=False) + np.pi / 2
    for x, y in zip(1.7 * np.cos(angles), np.sin(angles), strict=True):
        axes.add_patch(Circle((x, y), 0.26, color=color))
        ends = (0.78 * x, 0.72 * y), (0.26 * x, 0.38 * y)
        style = {"arrowstyle": arrows, "mutation_scale": 26, "linewidth": 4}
        axes.add_patch(FancyArrowPatch(*ends, color=GREY, **style))
    axes.add_patch(Circle((0, 0), 0.3, color=ORANGE))
    axes.set(xlim=(-2.05, 2.05), ylim=(-1.4, 1.4), aspect="equal")
    return figure


def claim():
    """A claim, and a proof that it is false."""
    figure, axes = empty()
    axes.plot([0, 2.4], [0, 0], color=ORANGE, linewidth=9, solid_capstyle="round")
    axes.plot(2.4, 0, "o", color=ORANGE, markersize=26)
    axes.axvline(1, color=GREY, linewidth=5, linestyle=(0, (2, 1.5)))
    axes.set(xlim=(-0.1, 2.8), ylim=(-1, 1))
    return figure


def two_densities():
    """Two distributions that an audit tells apart."""
    figure, axes = empty()
    x = np.linspace(-4, 6, 201)
    for centre, color in ((0, BLUE), (2, ORANGE)):
        y = np.exp(-((x - centre) ** 2) / 2)
        axes.fill_between(x, y, color=color, alpha=0.35, linewidth=0)
        axes.plot(x, y, color=color, linewidth=6)
    return figure


def told_apart():
    """People in a row, and an eye on one of them."""
    figure, axes = empty()
    for place in range(5):
        color = ORANGE if place == 2 else BLUE
        style = {"color": color, "alpha": 1.0 if place == 2 else 0.45}
        axes.add_patch(Circle((place, 1.0), 0.26, linewidth=0, **style))
        axes.add_patch(Ellipse((place, 0.3), 0.74, 0.7, linewidth=0, **style))
    axes.add_patch(Circle((2, 0.65), 0.98, fill=False, color=GREY, linewidth=7))
    axes.plot([2.7, 3.5], [-0.05, -0.85], color=GREY, linewidth=12)
    axes.set(xlim=(-0.5, 4.5), ylim=(-1.2, 1.9), aspect="equal")
    return figure


def ellipse():
    """A covariance."""
    figure, axes = empty()
    rng = np.random.default_rng(0)
    axis = np.array([[1.5, 0.6], [0.0, 0.45]])
    points = rng.normal(size=(70, 2)) @ axis
    axes.plot(*points.T, "o", color=BLUE, markersize=8, alpha=0.7, markeredgewidth=0)
    shape = {"width": 6.2, "height": 1.9, "angle": 20, "linewidth": 6}
    axes.add_patch(Ellipse((0, 0), fill=False, color=ORANGE, **shape))
    axes.set(xlim=(-4, 4), ylim=(-2, 2))
    return figure


def tries():
    """Candidates of a search, and the best one."""
    figure, axes = empty()
    rng = np.random.default_rng(4)
    x, y = np.arange(11), rng.random(11)
    best = int(y.argmax())
    axes.plot(x, y, "o", color=GREY, markersize=17)
    axes.plot(best, y[best], "o", color=GREEN, markersize=32)
    axes.set(xlim=(-0.7, 10.7), ylim=(-0.2, 1.25))
    return figure


def two_parts():
    """Columns of a table at two parties."""
    figure, axes = empty()
    for column in range(6):
        color = BLUE if column < 3 else GREEN
        for row in range(4):
            at = column + 0.5 * (column > 2), row
            axes.add_patch(Rectangle(at, 0.86, 0.82, color=color, alpha=0.9))
    axes.set(xlim=(-0.1, 6.6), ylim=(-0.1, 4))
    return figure


def verdicts():
    """How many of the papers' statements are true, loose or false."""
    found = list(statements().values())
    counts = [found.count(kind) for kind in ("holds", "loose", "false")]
    return bars(counts, [GREEN, BLUE, ORANGE])


def errors_of_mechanisms():
    """Errors of Gaussian noise with and without weights, at one guarantee."""
    rows = dict(table_of("errors", 1)[2])
    names = "Gaussian, i.i.d.", "MVG", "TVG"
    return bars([float(rows[name][0]) for name in names], [GREY, BLUE, GREEN])


def crossed_map():
    """A table of counts, with its smallest cells crossed out."""
    figure, axes = empty()
    table = np.random.default_rng(3).gamma(1.2, 1.0, (5, 8))
    axes.imshow(table, cmap=BLUES, aspect="auto")
    rows, columns = np.nonzero(table < 0.4)
    axes.plot(columns, rows, "x", color=ORANGE, markersize=16, markeredgewidth=4)
    return figure


THUMBNAILS = {
    "audit_claims": claim,
    "audit_other_libraries": two_densities,
    "choose_epsilon": lambda: curve([9, 5.4, 3.4, 2.3, 1.6, 1.2, 1], BLUE, 2.3),
    "complete_ratings": lambda: stored("ratings", 1, column="auto"),
    "components_of_images": components,
    "directional_digits": importance,
    "federated_ratings": lambda: parties(5, BLUE),
    "federated_users": lambda: parties(8, GREEN, "<|-|>"),
    "hourly_counts": hours,
    "local_digits": lambda: image(digit(0.25)),
    "local_mean": lambda: curve([388.8, 26.71, 2.914], PURPLE),
    "private_gradients": lambda: stored("gradients", 0, column="accuracy", color=GREEN),
    "recommend_from_choices": lambda: stored(
        "choices", 1, column="ImplicitCompletion", color=GREEN
    ),
    "synthetic_users": lambda: bars([0.315, 0.412, 0.461], [GREY, BLUE, ORANGE]),
    "trips_by_place_and_hour": crossed_map,
    "what_a_recommender_tells": told_apart,
    "user_privacy": lambda: stored("users", 1, column="auto", color=PURPLE),
    "covariance": ellipse,
    "federated_gradients": lambda: stored("federated", 0, row="Gaussian", color=PURPLE),
    "mechanism_errors": errors_of_mechanisms,
    "private_search": tries,
    "private_test_features": lambda: stored(
        "test features", 1, row="PrivUnit (delta = 0)"
    ),
    "ratings_study": lambda: stored("ratings study", 0, row="input"),
    "simulation_study": lambda: stored("cp", 0, row="auto", color=ORANGE),
    "task_aware": lambda: stored("encoding", 0, row="task-aware", color=PURPLE),
    "tensor_response": lambda: stored("response", 0, row="PrivUnit", color=GREEN),
    "vertical_features": two_parts,
    "which_claims": verdicts,
}  # fmt: skip


def main():
    """Draw all thumbnails."""
    folder = IMAGES / "thumbnails"
    folder.mkdir(exist_ok=True)
    for name, drawing in THUMBNAILS.items():
        drawing().savefig(folder / f"{name}.png", dpi=100, transparent=True)


if __name__ == "__main__":
    main()
