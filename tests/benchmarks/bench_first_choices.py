"""What to take first for images with labels, and for counts: two tables of the pages.

    python tests/benchmarks/bench_first_choices.py

The first one is the share of test images of digits that are classified right, of five
splits and seeds. The second is the root mean squared error of answers about a histogram
of 144 cells at epsilon 1 (Gaussian noise with delta = 1e-6), by the number of cells in
which a person is counted; it is computed, not drawn.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from sktensordp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    MatrixMechanism,
    PrivUnit,
)
from sktensordp.moments import MultilinearRidgeClassifier

EPSILONS, SEEDS = (1.0, 2.0, 4.0, 8.0), range(5)
N_CELLS = 144


def classifiers(epsilon, seed):
    """A classifier that protects whole images, and one that learns from noisy ones."""
    central = MultilinearRidgeClassifier(
        (8, 8), epsilon=epsilon, norm_bound=1.0, classes=range(10), random_state=seed
    )
    noise = PrivUnit(epsilon, norm_bound=1.0, random_state=seed)
    local = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.5)
    return {
        "MultilinearRidgeClassifier": central,
        "PrivUnit and LDA, tested on clean images": make_pipeline(noise, local),
        "PrivUnit and LDA, tested on noisy images": make_pipeline(noise, local),
    }


def accuracies(images, labels):
    """Accuracy of each classifier: an array of epsilons and seeds."""
    found = {}
    for epsilon in EPSILONS:
        for seed in SEEDS:
            parts = train_test_split(images, labels, stratify=labels, random_state=seed)
            for name, model in classifiers(epsilon, seed).items():
                X, X_test, y, y_test = parts
                if "LDA" in name:
                    X, X_test = X.reshape(len(X), -1), X_test.reshape(len(X_test), -1)
                model.fit(X, y)
                last = model[-1] if "clean" in name else model
                found.setdefault(name, []).append(last.score(X_test, y_test))
    return {
        name: np.reshape(scores, (len(EPSILONS), -1)) for name, scores in found.items()
    }


def answers():
    """For each question, its matrix."""
    ones, eye = np.ones((1, 12)), np.eye(12)
    return {
        "the cells": np.eye(N_CELLS),
        "sums of rows and of columns of 12 x 12": np.vstack(
            [np.kron(eye, ones), np.kron(ones, eye)]
        ),
        "running totals": np.tril(np.ones((N_CELLS, N_CELLS))),
    }


def errors(workload, n_cells):
    """Errors of the mechanisms, if a person is counted once in each of some cells.

    They are those of Laplace noise on the answers, of answers that are computed from
    cells with Laplace and with Gaussian noise, and of `MatrixMechanism`, which
    covers changes that add up to its `sensitivity`.
    """
    zeros = np.zeros((1, N_CELLS))
    laplace = LaplaceMechanism(1.0, sensitivity=n_cells).fit(zeros)
    gaussian = GaussianMechanism(1.0, sensitivity=n_cells**0.5).fit(zeros)
    matrix = MatrixMechanism(1.0, workload=workload, sensitivity=n_cells).fit(zeros)
    of_cells = np.mean(np.square(workload).sum(axis=1))
    # A cell counts in several answers.
    most = n_cells * np.abs(workload).sum(axis=0).max()
    direct = LaplaceMechanism(1.0, sensitivity=most).fit(workload[:, 0][np.newaxis])
    return [
        np.sqrt(direct.noise_variance_),
        np.sqrt(laplace.noise_variance_ * of_cells),
        np.sqrt(gaussian.noise_variance_ * of_cells),
        np.sqrt(np.mean(matrix.noise_variance_)),
    ]


def main():
    digits = load_digits()
    lengths = np.linalg.norm(digits.images, axis=(1, 2), keepdims=True)
    print("epsilon".ljust(44), *(f"{epsilon:7g}" for epsilon in EPSILONS))
    for name, scores in accuracies(digits.images / lengths, digits.target).items():
        print(name.ljust(44), *(f"{mean:7.3f}" for mean in scores.mean(axis=1)))
    for question, workload in answers().items():
        print(f"\n{question}".ljust(45), "answers    cells  Gaussian  matrix")
        for n_cells in (1, 2, 4, 8, 9, 16, 64):
            row = "".join(f"{error:9.2f}" for error in errors(workload, n_cells))
            print(f"  {n_cells} cells a person".ljust(43), row)


if __name__ == "__main__":
    main()
