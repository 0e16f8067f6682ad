"""Complete counts over time as they come in
=========================================

Trips between zones of a city, counted by the hour, of which one count in eight is
reported. Each reported count is protected. The example compares time as a smooth mode
with time whose hours are strangers to one another, reads the first days in batches, as
from a file that is too large to load, takes the last day in hour by hour, and draws one
pair of zones with what the model does not know about it. The city is made up.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import root_mean_squared_error

from sktensordp.completion import CoordinateEncoder, CPCompletion

N_ZONES, HOUR, LARGEST = 30, 3600, 40


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epsilon", type=float, default=8.0, help="of one count")
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--random-state", type=int, help="seed of the noise")
    parser.add_argument("--output", default="hourly_counts.png", metavar="PNG")
    return parser.parse_args()


def make_counts(n_days):
    """Expected counts and counts, both of shape (zones, zones, hours)."""
    rng = np.random.default_rng(0)
    hour = np.arange(24 * n_days)[:, np.newaxis] / 24
    # Morning and evening peaks, and a day that is busier towards the weekend.
    peaks = np.exp(4 * np.cos(2 * np.pi * (hour - np.array([8, 18]) / 24)) - 4)
    time = 0.3 + peaks * (1 + 0.3 * np.sin(2 * np.pi * hour / 7))
    origins, targets = rng.gamma(2.0, 1.0, (2, N_ZONES, 2))
    expected = np.einsum("or,dr,hr->odh", origins, targets, time)
    return expected, np.minimum(rng.poisson(expected), LARGEST)


def report(counts, share=8):
    """Rows of origin, destination and second, and their counts, in order of time."""
    rng = np.random.default_rng(1)
    seen = np.argwhere(rng.random(counts.shape) < 1 / share)
    seen = seen[np.argsort(seen[:, 2], kind="stable")]
    return seen * [1, 1, HOUR], counts[tuple(seen.T)].astype(np.float32)


def main():
    arguments = read_arguments()
    expected, counts = make_counts(arguments.days)
    rows, values = report(counts)
    encoder = CoordinateEncoder(freq="h").fit(rows)
    X = encoder.transform(rows)
    cells = np.stack(np.nonzero(np.ones_like(counts)), axis=1)
    truth = counts.ravel().astype(float)

    def completion(**params):
        return CPCompletion(
            3, shape=encoder.shape_, levels=range(LARGEST + 1),
            random_state=arguments.random_state, **params,
        )  # fmt: skip

    print(f"{len(values):,} of {counts.size:,} counts are reported\n")
    print(f"{'error on all counts':44s}{'RMSE':>8s}")
    noise = root_mean_squared_error(truth, np.minimum(expected.ravel(), LARGEST))
    print(f"{'expected counts (Poisson noise alone)':44s}{noise:8.3f}")
    models = {}
    for epsilon in (np.inf, arguments.epsilon):
        for name, modes in (("smooth hours", [2]), ("hours on their own", None)):
            model = completion(epsilon=epsilon, smooth_modes=modes).fit(X, values)
            error = root_mean_squared_error(truth, model.predict(cells))
            label = f"epsilon = {epsilon:g}, {name}"
            print(f"{label:44s}{error:8.3f}", flush=True)
            models[name] = model
    print(f"{'mean':44s}{truth.std():8.3f}\n")

    model = models["smooth hours"]
    print(model.privacy_guarantee_, "\n")
    mean, std = model.predict(cells, return_std=True)
    for share, width in ((50, 0.674), (80, 1.282), (95, 1.960)):
        inside = np.mean(np.abs(truth - mean) <= width * std)
        print(f"{share}% intervals hold {100 * inside:.1f}% of the counts")

    # In batches, and then hour by hour; encoder and tensor grow with the hours.
    last = X[:, 2] >= 24 * (arguments.days - 1)
    encoder = CoordinateEncoder(freq="h").fit(rows[~last])
    batches = np.array_split(np.flatnonzero(~last), 10)
    stream = completion(epsilon=arguments.epsilon, smooth_modes=[2])
    stream.set_params(shape=None).fit_batches(
        (encoder.transform(rows[b]), values[b]) for b in batches
    )
    before = []
    for hour in range(24 * (arguments.days - 1), 24 * arguments.days):
        new = np.flatnonzero(X[:, 2] == hour)
        coordinates = encoder.partial_fit(rows[new]).transform(rows[new])
        ahead = coordinates.copy()
        ahead[:, 2] = hour - 1
        before.append(stream.predict(ahead))
        stream.partial_fit(coordinates, values[new])
    known = cells[:, 2] >= 24 * (arguments.days - 1)
    error = root_mean_squared_error(truth[known], stream.predict(cells[known]))
    whole = root_mean_squared_error(truth[known], mean[known])
    ahead = root_mean_squared_error(values[last], np.concatenate(before))
    print(
        f"\nlast day: an hour ahead {ahead:.3f}, taken in hour by hour {error:.3f}, "
        f"fitted with all others {whole:.3f}\n{stream.privacy_guarantee_}"
    )

    busiest = np.argsort(expected.max(axis=2), axis=None)[-20]
    pair = np.unravel_index(busiest, (N_ZONES, N_ZONES))
    hours = np.arange(counts.shape[2])
    at = np.column_stack([np.full_like(hours, p) for p in pair] + [hours])
    mean, std = model.predict(at, return_std=True)
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    band = {"color": "C0", "alpha": 0.2, "lw": 0, "label": "two standard deviations"}
    axes.fill_between(hours / 24, np.maximum(mean - 2 * std, 0), mean + 2 * std, **band)
    axes.plot(hours / 24, mean, "C0", label="private completion")
    axes.plot(hours / 24, counts[pair], "k.", ms=3, label="counts, mostly unreported")
    axes.set(
        xlabel="day", ylabel="trips in an hour",
        title=f"A busy pair of zones, epsilon = {arguments.epsilon:g} a count",
    )  # fmt: skip
    axes.legend(loc="upper left", frameon=False, ncols=3)
    axes.set_ylim(bottom=0, top=axes.get_ylim()[1] * 1.15)
    figure.savefig(arguments.output, dpi=150)
    print(f"\nPicture: {arguments.output}")


if __name__ == "__main__":
    main()
