"""How well recommenders work for real users if they learned from synthetic ones.

    python tests/benchmarks/bench_synthetic.py msweb.npz steam.npz

A file holds `train` and `test` (user and item of every choice, from 0) and `shape`. A
private model is fitted to the training choices, and synthetic users are drawn from it.
Each recommender learns from these alone, and recommends to the real users from their
own training choices. The tables show Recall@20 of the real users' test choices, the
mean of all fits. The first row is the private model itself. Below "inf" it has no
noise, and each recommender learned from the real users.

The documentation shows visits of areas of a website and purchases of games, a fifth of
them held out. The time grows with the cube of the number of items.

- *EASE*: linear weights between items in closed form (Steck 2019), with an L2 penalty
  of 200;
- *item neighbours*: cosines of items;
- *SVD*: scores by the leading singular vectors.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from sktensordp.completion import ImplicitCompletion, make_ranking_scorer

K, PENALTY, BATCH = 20, 200.0, 2000


def matrix_of(pairs, shape):
    """Choices as a sparse matrix of ones."""
    matrix = csr_array((np.ones(len(pairs)), pairs.T), shape=shape)
    matrix.data[:] = 1
    return matrix


def ease(chosen):
    """Weights between items that predict each from all others."""
    gram = (chosen.T @ chosen).toarray()
    gram[np.diag_indices_from(gram)] += PENALTY
    inverse = np.linalg.inv(gram)
    weights = inverse / -np.diag(inverse)
    np.fill_diagonal(weights, 0)
    return weights


def neighbours(chosen):
    """Cosines of items."""
    gram = (chosen.T @ chosen).toarray()
    lengths = np.sqrt(np.maximum(np.diag(gram), 1))
    cosines = gram / lengths / lengths[:, np.newaxis]
    np.fill_diagonal(cosines, 0)
    return cosines


def svd(rank):
    """Projections on the leading singular vectors of items."""

    def projection(chosen):
        start = np.ones(min(chosen.shape))
        vectors = svds(chosen, k=min(rank, min(chosen.shape) - 1), v0=start)[2]
        return vectors.T @ vectors

    return projection


RECOMMENDERS = {
    "EASE": ease, "item neighbours": neighbours, "SVD, rank 8": svd(8),
    "SVD, rank 32": svd(32), "popularity": None,
}  # fmt: skip


def recall(learn, chosen, train, test):
    """Mean recall of users with choices in both parts."""
    popularity = chosen.sum(axis=0)
    weights = None if learn is None else learn(chosen)
    users = np.flatnonzero((train.sum(axis=1) > 0) & (test.sum(axis=1) > 0))
    found = []
    for start in range(0, len(users), BATCH):
        batch = users[start : start + BATCH]
        known, wanted = train[batch], test[batch].toarray()
        if weights is None:
            scores = np.tile(popularity, (len(batch), 1))
        else:
            scores = known @ weights
        scores[known.nonzero()] = -np.inf
        best = np.argpartition(-scores, K, axis=1)[:, :K]
        hits = np.take_along_axis(wanted, best, axis=1).sum(axis=1)
        found.append(hits / wanted.sum(axis=1))
    return np.concatenate(found).mean()


def recalls(path, epsilon, seed):
    """Recall of every recommender: from synthetic users, or real ones if infinite."""
    with np.load(path) as data:
        pairs, held, shape = data["train"], data["test"], tuple(data["shape"].tolist())
    train, test = matrix_of(pairs, shape), matrix_of(held, shape)
    model = ImplicitCompletion(epsilon=epsilon, shape=shape, random_state=seed)
    model.fit(pairs)
    held = held[np.isin(held[:, 0], pairs[:, 0])]
    found = {
        "private model": make_ranking_scorer("recall", k=K, fold_in_fraction=0)(
            model, held
        )
    }
    chosen = train
    if np.isfinite(epsilon):
        drawn = model.sample_users(random_state=seed)
        chosen = matrix_of(drawn, (drawn[:, 0].max() + 1, shape[1]))
    for name, learn in RECOMMENDERS.items():
        found[name] = recall(learn, chosen, train, test)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1, 2, 4, 8])
    parser.add_argument("--fits", type=int, default=1)
    parser.add_argument("--table", metavar="FILE", help="save all scores here (csv)")
    arguments = parser.parse_args()
    epsilons, rows = [*arguments.epsilons, np.inf], []
    for path in arguments.files:
        scores = {
            epsilon: [
                recalls(path, epsilon, seed)
                for seed in range(arguments.fits if np.isfinite(epsilon) else 1)
            ]
            for epsilon in epsilons
        }
        print(f"{path.stem:18}" + "".join(f"{e:>8g}" for e in epsilons))
        for name in scores[np.inf][0]:
            means = [np.mean([fit[name] for fit in fits]) for fits in scores.values()]
            print(f"{name:18}" + "".join(f"{mean:8.3f}" for mean in means), flush=True)
            rows += [
                (path.stem, name, f"{epsilon:g}", seed, fit[name])
                for epsilon, fits in scores.items()
                for seed, fit in enumerate(fits)
            ]
        print()
    if arguments.table:
        with open(arguments.table, "w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow(["measure", "method", "epsilon", "seed", "score"])
            lines.writerows(rows)


if __name__ == "__main__":
    main()
