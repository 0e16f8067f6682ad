"""
Complete counts over time as they come in
=========================================

A city counts the trips between its zones by the hour, but only one count in eight is
reported. This example predicts all the others, with every reported count protected. It
treats time as smooth, and keeps the model up to date hour by hour. The city is made up.
To publish tables of counts that are all there, see the example "Trips by place and
hour".
"""

# %%
# The model
# ---------
# A count is an integer up to 40, and this range is public. Hours are the third mode,
# and neighbouring hours are alike. What a fit will guarantee is known before there are
# any data.

# sphinx_gallery_thumbnail_path = "images/thumbnails/hourly_counts.png"
from sktensordp.completion import CPCompletion
from sktensordp.privacy import planned_guarantee

import textwrap

model = CPCompletion(rank=3, epsilon=8.0, levels=range(41), smooth_modes=[2])
print(textwrap.fill(str(planned_guarantee(model)), 88))

# %%
# The counts
# ----------
# Thirty zones, seven days: 151,200 counts of trips from one zone to another in one
# hour. The expected counts have a morning and an evening peak and a weekly cycle; the
# counts are Poisson around them.

import numpy as np

n_zones, n_days, largest = 30, 7, 40
rng = np.random.default_rng(0)
day = np.arange(24 * n_days)[:, np.newaxis] / 24
peaks = np.exp(4 * np.cos(2 * np.pi * (day - np.array([8, 18]) / 24)) - 4)
activity = 0.3 + peaks * (1 + 0.3 * np.sin(2 * np.pi * day / 7))
origins, destinations = rng.gamma(2.0, 1.0, (2, n_zones, 2))
expected = np.einsum("or,dr,hr->odh", origins, destinations, activity)
counts = np.minimum(rng.poisson(expected), largest)

# %%
# The reports arrive in order of time, as rows of origin, destination and time in
# seconds. ``freq="h"`` turns seconds into hours, the third mode of the tensor.

from sktensordp.completion import CoordinateEncoder

reported = np.argwhere(np.random.default_rng(1).random(counts.shape) < 1 / 8)
reported = reported[np.argsort(reported[:, 2], kind="stable")]
values = counts[tuple(reported.T)].astype(np.float32)
rows = reported * [1, 1, 3600]

encoder = CoordinateEncoder(freq="h").fit(rows)
X = encoder.transform(rows)
print(f"{len(values):,} of {counts.size:,} counts are reported")

# %%
# What smoothness is worth
# ------------------------
# ``smooth_modes=[2]`` says that neighbouring hours are alike. The scale is public: a
# count is an integer up to 40, so the noise is an integer too. ``random_state=0`` makes
# the noise on this page repeatable; leave it out for a real release.
#
# The error is measured on all 151,200 counts. It cannot fall below the Poisson noise of
# the counts themselves, which remains even if the expected counts are known.

from sklearn.metrics import root_mean_squared_error

cells = np.stack(np.nonzero(np.ones_like(counts)), axis=1)
truth = counts.ravel().astype(float)


def completion(epsilon, smooth_modes, **params):
    """Return a completion of rank 3 for counts up to the largest."""
    return CPCompletion(
        3, epsilon=epsilon, smooth_modes=smooth_modes, levels=range(largest + 1),
        random_state=0, **params,
    )  # fmt: skip


floor = root_mean_squared_error(truth, np.minimum(expected.ravel(), largest))
print(f"{'RMSE of all counts':44}{'trips':>8}")
print(f"{'expected counts (Poisson noise only)':44}{floor:8.3f}")
models = {}
for epsilon in (np.inf, 8.0):
    for name, modes in (("smooth hours", [2]), ("unrelated hours", None)):
        model = completion(epsilon, modes, shape=encoder.shape_).fit(X, values)
        error = root_mean_squared_error(truth, model.predict(cells))
        print(f"{f'epsilon = {epsilon:g}, {name}':44}{error:8.3f}")
        models[epsilon, name] = model
print(f"{'mean':44}{truth.std():8.3f}")

# %%
# Smooth hours help more with noise than without: what is lost in the noise of one hour
# can be learned from its neighbours. This is what the fit guarantees for each reported
# count:

model = models[8.0, "smooth hours"]
print(textwrap.fill(str(model.privacy_guarantee_), 88))

# %%
# One pair of zones
# -----------------
# The picture shows a busy pair over the week. Seven in eight of its counts were never
# reported; the model predicts them from other hours and other pairs. With
# ``return_std=True``, it also returns how far the values may be from the predictions.

import matplotlib.pyplot as plt

busy = np.argsort(expected.max(axis=2), axis=None)[-20]
pair = np.unravel_index(busy, (n_zones, n_zones))
hours = np.arange(24 * n_days)
mean, std = model.predict(
    np.column_stack([np.full_like(hours, zone) for zone in pair] + [hours]),
    return_std=True,
)
seen = reported[(reported[:, :2] == pair).all(axis=1), 2]
unseen = np.setdiff1d(hours, seen)

figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
axes.fill_between(
    hours / 24, np.maximum(mean - 2 * std, 0), mean + 2 * std, color="C0", alpha=0.2,
    lw=0, label="± 2 standard deviations",
)  # fmt: skip
axes.plot(hours / 24, mean, "C0", label="private prediction")
axes.plot(unseen / 24, counts[pair][unseen], ".", color="0.3", ms=4, label="unreported")
axes.plot(seen / 24, counts[pair][seen], "o", color="C1", ms=5, label="reported")
axes.set(
    xlabel="day", ylabel="trips per hour", xlim=(0, n_days), ylim=(0, 48),
    title="How well are unreported hours predicted? (epsilon = 8)",
)  # fmt: skip
axes.legend(loc="upper right", ncols=2)
plt.show()

# %%
# Day by day in batches, then hour by hour
# ----------------------------------------
# The first six days are read in batches, as from a file that is too large to load. On
# the last day the model takes in one hour after another. Before each hour, it predicts
# that hour's reports from the hour before. The encoder and the tensor grow with the
# hours. Every count is still randomised only once, so the updates cost no further
# budget.

last_day = 24 * (n_days - 1)
known = np.flatnonzero(X[:, 2] < last_day)
encoder = CoordinateEncoder(freq="h").fit(rows[known])
stream = completion(8.0, [2])
stream.fit_batches(
    (encoder.transform(rows[batch]), values[batch])
    for batch in np.array_split(known, 10)
)

ahead = []
for hour in range(last_day, 24 * n_days):
    new = np.flatnonzero(X[:, 2] == hour)
    coordinates = encoder.partial_fit(rows[new]).transform(rows[new])
    ahead.append(stream.predict(coordinates - [0, 0, 1]))
    stream.partial_fit(coordinates, values[new])

of_last_day = cells[:, 2] >= last_day
todays, asked = truth[of_last_day], cells[of_last_day]
print("RMSE on the last day, in trips")
for name, error in {
    "predicted an hour ahead": root_mean_squared_error(
        values[X[:, 2] >= last_day], np.concatenate(ahead)
    ),
    "taken in hour by hour": root_mean_squared_error(todays, stream.predict(asked)),
    "fitted with all other days": root_mean_squared_error(todays, model.predict(asked)),
}.items():
    print(f"{name:44}{error:8.3f}")
print(textwrap.fill(str(stream.privacy_guarantee_), 88))

# %%
# The updated model is nearly as good as one fitted to the whole week, and its guarantee
# is the same: epsilon = 8 for each reported count. Which pairs and hours were reported
# is public.
