"""Compare recommendations from choices with other libraries, which have no privacy.

    python tests/benchmarks/bench_choices.py [--small] [--no-peers]
        [--environments FOLDER] [--data-home FOLDER]

Every rating of MovieLens latest-small counts as a choice. A fifth of each user's items
is held out. Every library learns from the rest, on the same splits, and recommends 20
items to every user. The table shows median seconds of training and Recall@20.

This library protects everything of each user, at epsilon 8 (delta 1e-5), and is also
fitted without noise. `implicit` and LensKit add no noise. Their models run with their
defaults, each library in an environment of its own. They may use THREADS threads. With
`--small`, the choices are synthetic.

The last table is about scale: seconds and peak memory of a fit to synthetic choices in
batches of a million. Each fit runs in a separate process.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

# Workers import this library in their functions: other environments lack it.

THREADS, K = 2, 20
SCALE = [(6_000, 3_700, 1_000_000), (138_000, 27_000, 20_000_000)]
SMALL_SCALE = [(1_000, 500, 50_000)]
REQUIREMENTS = {
    "implicit": ["implicit==0.7.3", "numpy==2.4.6"],
    "lenskit": ["lenskit==2025.8.1", "torch==2.15.0", "numpy==2.4.6"],
}
OURS = "sktensordp"
SETTINGS = {
    OURS: [{"epsilon": 8.0}, {"epsilon": "inf", "max_items": 1500}],
    "implicit": [{"model": "AlternatingLeastSquares"}],
    "lenskit": [{"model": "PopScorer"}, {"model": "EASEScorer"}],
}


def ours(train, shape, setting):
    from sktensordp.completion import ImplicitCompletion

    options = {**setting, "epsilon": float(setting["epsilon"])}
    if "max_items" in options:
        options["max_items"] = min(options["max_items"], shape[1])
    model = ImplicitCompletion(**options, delta=1e-5, shape=shape, random_state=0)
    # Without noise, a fit compiles all loops over choices.
    ImplicitCompletion(epsilon=float("inf"), shape=shape).fit(train[:50])
    return lambda: model.fit(train), lambda: model.recommend(np.arange(shape[0]), K)


def of_implicit(train, shape, setting):
    from implicit.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix

    model = AlternatingLeastSquares(random_state=0, num_threads=THREADS)
    data = csr_matrix((np.ones(len(train), np.float32), tuple(train.T)), shape=shape)

    def recommend():
        return model.recommend(np.arange(shape[0]), data, N=K)[0]

    return lambda: model.fit(data, show_progress=False), recommend


def of_lenskit(train, shape, setting):
    import pandas as pd
    from lenskit import basic, knn
    from lenskit.data import ItemList, RecQuery, from_interactions_df
    from lenskit.training import TrainingOptions

    name = setting["model"]
    module = next(m for m in (basic, knn) if hasattr(m, name))
    model = getattr(module, name)()
    frame = pd.DataFrame(train, columns=["user_id", "item_id"])
    data = from_interactions_df(frame)
    personal = name != "PopScorer"

    def recommend():
        items = ItemList(item_ids=np.arange(shape[1]))
        recommended = np.full((shape[0], K), -1)
        for user, chosen in frame.groupby("user_id")["item_id"]:
            chosen = chosen.to_numpy()
            query = RecQuery(user_id=user, user_items=ItemList(item_ids=chosen))
            inputs = {"query": query} if personal else {}
            scores = np.array(model(**inputs, items=items).scores(), dtype=float)
            scores = np.nan_to_num(scores, nan=-np.inf)
            scores[chosen] = -np.inf
            recommended[user] = np.argsort(-scores, kind="stable")[:K]
        return recommended

    return lambda: model.train(data, TrainingOptions(rng=0)), recommend


MODELS = {OURS: ours, "implicit": of_implicit, "lenskit": of_lenskit}


def work(request):
    """Train a library's models on one split; print seconds, store recommendations."""
    request = json.loads(request)
    stored = np.load(request["file"])
    train, shape = stored["train"], tuple(stored["shape"].tolist())
    for number, setting in enumerate(SETTINGS[request["library"]]):
        make = MODELS[request["library"]]
        # Compiles before the clock starts.
        make(train[::10], shape, setting)[0]()
        fit, recommend = make(train, shape, setting)
        start = perf_counter()
        fit()
        seconds = perf_counter() - start
        np.save(f"{request['file']}.{request['library']}.{number}.npy", recommend())
        print(json.dumps([seconds]), flush=True)


def work_at_scale(request):
    """Print seconds and peak memory of one fit in batches."""
    import resource

    from sktensordp.completion import ImplicitCompletion

    path, shape = json.loads(request)
    pairs = np.load(path, mmap_mode="r")
    model = ImplicitCompletion(epsilon=8.0, shape=shape, random_state=0)
    ImplicitCompletion(epsilon=float("inf"), shape=shape).fit(pairs[:1000])
    start = perf_counter()
    model.fit_batches(pairs[k : k + 10**6] for k in range(0, len(pairs), 10**6))
    seconds = perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps([seconds, peak]))


def load(arguments):
    """Return the data's name, distinct pairs of a user and an item, and the shape."""
    from sktensordp.datasets import fetch_movielens, make_choices

    if arguments.small:
        choices = make_choices(300, 200, 9_000, random_state=0)
        return "synthetic", choices.data, choices.shape
    name, options = "latest-small", {"as_choices": True}
    pairs = fetch_movielens(name, arguments.data_home, **options).data
    columns = [np.unique(column, return_inverse=True)[1] for column in pairs.T]
    pairs = np.column_stack(columns)
    return name, pairs, tuple((pairs.max(axis=0) + 1).tolist())


def compare(arguments, folder):
    from sktensordp.model_selection import ItemHoldout
    from tests.benchmarks.environments import answers, environments, threads
    from tests.support.seams import ranking_scores

    name, pairs, shape = load(arguments)
    splits = ItemHoldout(0.2, n_splits=1 if arguments.small else 3, random_state=0)
    pythons = {OURS: sys.executable}
    if not arguments.no_peers:
        pythons |= environments(arguments.environments or folder, REQUIREMENTS)
    results = {}
    for number, (train, test) in enumerate(splits.split(pairs)):
        path = folder / f"{number}.npz"
        np.savez(path, train=pairs[train], shape=shape)
        held_out = np.unique(pairs[test], axis=0)
        users = np.unique(held_out[:, 0])
        for library, python in pythons.items():
            request = json.dumps({"library": library, "file": str(path)})
            # implicit asks for one BLAS thread.
            blas = "1" if library == "implicit" else str(THREADS)
            variables = threads(THREADS)
            variables |= {"OPENBLAS_NUM_THREADS": blas, "MKL_NUM_THREADS": blas}
            lines = answers(python, __file__, "--worker", request, **variables)
            for k, (seconds,) in enumerate(lines):
                top = np.load(f"{path}.{library}.{k}.npy")[users]
                recall = np.mean(ranking_scores("recall", top, users, held_out))
                results.setdefault((library, k), []).append((seconds, recall))
    print(
        f"\n{name}: {len(pairs):,} choices of {shape[1]:,} items by {shape[0]:,} users"
    )
    print(f"{'':50s}{'seconds':>9s}{'Recall@20':>11s}")
    for (library, k), rows in results.items():
        seconds, recall = zip(*rows, strict=True)
        options = ", ".join(f"{o}={v}" for o, v in SETTINGS[library][k].items())
        print(
            f"{library + ', ' + options:50s}{statistics.median(seconds):9.2f}"
            f"{np.mean(recall):11.3f}"
        )


def print_scale(sizes, folder):
    from sktensordp.datasets import make_ratings
    from tests.benchmarks.environments import answers, threads

    print(f"\n{'choices':>12s}{'users':>10s}{'items':>8s}{'seconds':>9s}{'GB':>7s}")
    for n_users, n_items, n_choices in sizes:
        path = folder / "pairs.npy"
        made = make_ratings(n_users, n_items, n_choices, rank=0, random_state=0)
        np.save(path, made.data.astype(np.int32))
        del made
        request = json.dumps([str(path), [n_users, n_items]])
        worker = __file__, "--scale-worker", request
        ((seconds, peak),) = answers(sys.executable, *worker, **threads(THREADS))
        print(f"{n_choices:12,d}{n_users:10,d}{n_items:8,d}{seconds:9.2f}{peak:7.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data-home", help="folder of MovieLens")
    parser.add_argument("--environments", type=Path, help="folder of the environments")
    parser.add_argument("--no-peers", action="store_true", help="only this library")
    parser.add_argument("--small", action="store_true", help="a quick smoke run")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--scale-worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(arguments.worker)
    if arguments.scale_worker:
        return work_at_scale(arguments.scale_worker)
    print(f"{platform.machine()}, {os.cpu_count()} cores, NumPy {np.__version__}")
    with tempfile.TemporaryDirectory() as temporary:
        compare(arguments, Path(temporary))
        print_scale(SMALL_SCALE if arguments.small else SCALE, Path(temporary))


if __name__ == "__main__":
    main()
