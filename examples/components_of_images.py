"""
Components of people's images
=============================

Every person has one image, and a trusted server has all of them. Which few patterns
make up these images? `MultilinearPCA` releases components of rows and of columns, with
each whole image protected. A flat PCA treats an image as a vector of all its pixels,
and needs noise on the moments of all pairs of pixels.
"""

# %%
# Components of rows and of columns
# ---------------------------------
# The images are handwritten digits of 8 × 8 pixels. Each is divided by its norm first,
# which looks at that image alone, so that no image is longer than the declared
# ``norm_bound=1``. Five components of rows and five of columns make 25 features.

# sphinx_gallery_thumbnail_path = "images/thumbnails/components_of_images.png"
from sktensordp.moments import MultilinearPCA

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

digits = load_digits()
images = digits.images / np.linalg.norm(digits.images, axis=(1, 2), keepdims=True)
train, test, labels, test_labels = train_test_split(
    images, digits.target, random_state=0
)
# The seed makes this page repeatable; a real release has none.
pca = MultilinearPCA((5, 5), epsilon=1.0, norm_bound=1.0, random_state=0).fit(train)
print(f"energy of new images that 25 of 64 numbers keep: {pca.score(test):.2f}")
print(pca.privacy_guarantee_)

# %%
# Energy over epsilon, beside a flat PCA
# --------------------------------------
# One number of components instead of two lets the fit choose: components of the modes,
# or, where there is budget enough, principal components of a core or of all pixels.
# It chooses by what it has released and the noise that it knows. A flat PCA is the same
# estimator for rows of 64 pixels.

import matplotlib.pyplot as plt

rows, test_rows = train.reshape(len(train), -1), test.reshape(len(test), -1)
epsilons = [0.25, 0.5, 1, 2, 4, 8, 16]
kept = {"two numbers, (5, 5)": [], "one number, 25": [], "flat PCA": []}
for epsilon in epsilons:
    options = {"epsilon": epsilon, "norm_bound": 1.0, "random_state": 0}
    modes = MultilinearPCA((5, 5), **options).fit(train)
    chosen = MultilinearPCA(25, **options).fit(train)
    flat = MultilinearPCA(25, **options).fit(rows)
    kept["two numbers, (5, 5)"].append(modes.score(test))
    kept["one number, 25"].append(chosen.score(test))
    kept["flat PCA"].append(flat.score(test_rows))
    print(f"epsilon {epsilon:>5}: method_ = {chosen.method_!r}")

figure = plt.figure(figsize=(9, 4.2), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=[1.25, 1])
axes = left.subplots()
for (name, shares), marker in zip(kept.items(), "os^", strict=True):
    axes.plot(epsilons, shares, marker=marker, label=name)
axes.set(xscale="log", xlabel="epsilon", ylabel="energy of new images that is kept")
axes.set_title("How much do 25 of 64 numbers keep?")
axes.set_xticks(epsilons, labels=[f"{epsilon:g}" for epsilon in epsilons])
axes.minorticks_off()
axes.legend()
# A square of components: rows share a pattern of rows, and columns one of columns.
components = pca.inverse_transform(np.eye(pca.n_components_)).reshape(5, 5, 8, 8)
framed = np.pad(components, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=np.nan)
axes = right.subplots()
axes.imshow(np.block([list(row) for row in framed]), cmap="RdBu", vmin=-0.4, vmax=0.4)
axes.set_title("The 25 components at epsilon 1")
axes.set_axis_off()

# %%
# A classifier on private components
# ----------------------------------
# The components are private; the projections of the training images are not. A model
# that learns from them needs noise of its own, and ``privacy_of`` says so:

from sktensordp.mechanisms import GaussianMechanism
from sktensordp.privacy import privacy_of

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

unprotected = make_pipeline(
    MultilinearPCA((5, 5), norm_bound=1.0, random_state=0),
    LogisticRegression(max_iter=1000),
).fit(train, labels)
print(f"without a mechanism: epsilon = {privacy_of(unprotected).guarantee.epsilon}")
private = make_pipeline(
    MultilinearPCA((5, 5), norm_bound=1.0, random_state=0),
    GaussianMechanism(16.0, norm_bound=1.0, random_state=0),
    LogisticRegression(max_iter=1000),
).fit(train, labels)
print(f"with one: epsilon = {privacy_of(private).guarantee.epsilon:.2f}")

# %%
# That still leaves the labels unprotected, and noise on every image costs much.
# `MultilinearRidgeClassifier` releases sums over all images and labels together. For
# images as small as these, components gain nothing, so it gets all 64 pixels:

from sktensordp.moments import MultilinearRidgeClassifier

classifier = MultilinearRidgeClassifier(
    (8, 8), epsilon=1.0, norm_bound=1.0, classes=range(10), random_state=0
).fit(train, labels)
print(f"share of new digits recognised: {classifier.score(test, test_labels):.2f}")
print(classifier.privacy_guarantee_)
