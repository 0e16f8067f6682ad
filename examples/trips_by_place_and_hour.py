"""
Trips by place and hour
=======================

A city has a list of bicycle trips: who, from where, to where, when. It wants to publish
tables of them with error bars, and no table may tell what any one rider did. This
example goes from raw rows to a CSV file and a picture. The city is made up.
"""

# %%
# The errors, before anything is spent
# ------------------------------------
# The places and the hours are public, so they are declared. Everything about a rider is
# protected: ``unit=3`` is the column of riders. Ten trips of each rider count. More
# would count more trips, but each has its price in noise. ``random_state=0`` makes the
# noise on this page repeatable; leave it out for a real release.

# sphinx_gallery_thumbnail_path = "images/thumbnails/trips_by_place_and_hour.png"
from sktensordp.completion import CoordinateEncoder
from sktensordp.counts import TensorCounts

places = ["harbour", "centre", "station", "campus", "park", "hills", "fair", "mill"]
encoder = CoordinateEncoder(categories=[places, places, range(24)])
counts = TensorCounts(
    epsilon=2.0, delta=1e-6, shape=encoder.declared_shape, unit=3, max_records=10,
    random_state=0,
)  # fmt: skip
columns = ["origin", "destination", "hour"]
for modes in [(), (0,), (2,), (0, 1), (0, 2)]:
    name = " x ".join(columns[i] for i in modes) or "total"
    print(f"{name:22} ± {1.96 * counts.expected_std(modes):6.0f}")

# %%
# Raw rows
# --------
# Riders take a few trips, or many. Some rows are broken, as in every such list.

import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
n_riders = 8000
trips_of = np.minimum(rng.geometric(0.2, n_riders), 60)
rider = np.repeat(np.arange(n_riders), trips_of)
n = len(rider)
busy = np.array([3, 8, 6, 5, 2, 1, 1, 1]) / 27
origin, destination = rng.choice(len(places), (2, n), p=busy)
peak = rng.choice([8, 13, 18], n, p=[0.4, 0.2, 0.4])
start = pd.Timestamp("2026-03-02") + pd.to_timedelta(
    24 * rng.integers(0, 28, n) + np.clip(rng.normal(peak, 2), 0, 23.99), "h"
)
trips = pd.DataFrame(
    {
        "rider": rider,
        "origin": np.take(places, origin),
        "destination": np.take(places, destination),
        "hour": start.hour,
    }
)
trips.loc[::997, "origin"] = "unknown"
print(trips.head(3).to_string(index=False))
print(f"{len(trips):,} trips of {n_riders:,} riders, of whom one has {trips_of.max()}")

# %%
# From text to numbers
# --------------------
# The encoder knows the declared places and hours, and learns nothing from the trips.
# What it does not know becomes -1: such rows are left out, and nothing tells how many.

encoder.fit(pd.DataFrame([[places[0], places[0], 0]], columns=columns))
coded = encoder.transform(trips[columns])
X = pd.DataFrame(coded, columns=columns).assign(rider=trips["rider"])

# %%
# One release
# -----------

import textwrap

counts.fit(X)
print(textwrap.fill(str(counts.privacy_guarantee_), 88))

# %%
# All tables follow from it, and they agree with each other. The true number here is
# shown for comparison alone; a release must not state it.

kept = X[(coded >= 0).all(axis=1)].groupby("rider").head(10)
table = counts.table((0, 1), categories=encoder, below=100)
print(table.head(4).round(1).to_string(index=False))
true = kept.groupby(["origin", "destination"]).size().reindex(
    pd.MultiIndex.from_product([range(len(places))] * 2), fill_value=0
)  # fmt: skip
inside = (table["low"] <= true.to_numpy()) & (true.to_numpy() <= table["high"])
print(f"{inside.mean():.0%} of the intervals contain the true count")

# %%
# A file for others
# -----------------
# Small cells are marked, so that whoever draws the table can leave them out.

text = table.round(1).to_csv(index=False)
print("\n".join(text.splitlines()[:3]))

# %%
# Sums over cells have standard errors of their own. Adding up those of the cells, as if
# they were independent, gives too large ones.

morning, std = counts.total({2: range(6, 10)}, return_std=True)
naive = 2 * counts.expected_std((2,))
print(f"trips from 6 to 10: {morning:,.0f} ± {1.96 * std:.0f}")
print(f"as if cells were independent: ± {1.96 * naive:.0f}")

# %%
# Two pictures
# ------------
# Cells that are smaller than their margin of error are crossed out.

from sktensordp.plotting import CountsDisplay

import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
CountsDisplay.from_estimator(counts, (0, 2), categories=encoder, ax=left)
CountsDisplay.from_estimator(counts, 0, categories=encoder, ax=right)
left.set_title("Trips by place and hour")
right.set_title("Trips by origin")
right.tick_params(axis="x", labelrotation=45)
plt.show()
