"""Speed, memory and accuracy of completion, beside other libraries.

    python tests/benchmarks/bench_completion.py [--small]
        [--before FOLDER] [--no-fit] [--no-file] [--no-peers]

The first part fits CPCompletion with default options, rank 16 and no noise to ratings
(user, item, time), and prints the processor seconds of the fit. With `--before FOLDER`,
where FOLDER is a checkout of an earlier version, both versions run, one process after
the other.

The second part fits CPCompletion at epsilon 4 to entries (user, item, time) with
power-law users and items, rated on half stars, in batches of a million from a memory
map: reading, checks, randomisation, fit and all.

The third part fits ratings (user, item): median processor seconds of training, and mean
error on a tenth that is held out, and on those of its ratings whose items have ratings
in the other nine tenths (`rated`). Every other library runs in an environment of its
own, which is made in `--environments FOLDER`, or anew. Their data sets are built before
the clock starts; validation and grouping of the entries count for this library. Every
process fits a part of the ratings first, so that no compilation is timed, and may use
THREADS threads. `--data-home FOLDER` is where MovieLens lies if not in the usual place.
"""

import argparse
import contextlib
import json
import math
import os
import platform
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

# What a worker needs of this library it imports itself: other environments lack it.

RANK = 16
THREADS = 2
N_DEFAULT, SMALL_DEFAULT = 2_000_000, 100_000
# Entries of the fit from a file, and the sizes of the modes.
IN_FILE = 20_000_000, (140_000, 27_000, 200)
SMALL_FILE = 100_000, (3_000, 2_000, 200)
BATCH = 1_000_000
LARGEST_DENSE = 10_000_000  # cells of a table that TensorLy gets
# Entries of the fit that is not timed: enough for the kernel that large fits use.
N_WARM = 50_000

REQUIREMENTS = {
    "scikit-surprise": ["scikit-surprise==1.1.5", "numpy==2.4.6", "pandas==2.3.3"],
    "lenskit": ["lenskit==2025.8.1", "torch==2.13.0", "numpy==2.4.6"],
    "tensorly": ["tensorly==0.10.0", "numpy==2.4.6"],
    "myfm": ["myfm==0.4.0", "numpy==2.4.6", "scipy==1.17.1"],
}
# Arguments of every model, beside the library's defaults. The others than the
# defaults were chosen for their error on the held-out ratings, in favour of the peers.
SETTINGS = {
    "sktensordp": [
        {"rank": 10},
        {"rank": 10, "n_pattern_components": 0},
        {"rank": 10, "n_pattern_components": 0, "max_iter": 10},
    ],
    "scikit-surprise": [
        {},
        {"n_factors": 20, "n_epochs": 40, "lr_all": 0.01, "reg_all": 0.1},
        {"n_factors": 50, "n_epochs": 60, "reg_all": 0.1},
        {"n_factors": 100, "n_epochs": 60, "lr_all": 0.01, "reg_all": 0.1},
    ],
    "lenskit": [
        {},
        {"embedding_size": 25, "regularization": 0.13},
        {"embedding_size": 10, "regularization": 0.1},
        {"embedding_size": 10, "regularization": 0.15, "epochs": 5},
    ],
    "tensorly": [{"rank": 2, "n_iter_max": 30}, {"rank": 2, "n_iter_max": 100}],
    "myfm": [{"rank": 10}, {"rank": 10, "n_iter": 300}],
}
OURS = "sktensordp"


def worker(python, name, request, **variables):
    """Results of one of the WORKERS, in a process of its own, as they come."""
    from tests.benchmarks.environments import answers, threads

    arguments = "--worker", name, json.dumps(request)
    return answers(python, __file__, *arguments, **threads(THREADS), **variables)


def power_law(rng, size, exponent, n):
    """Indices of which few are frequent, in no order."""
    weights = np.cumsum((np.arange(size) + 20.0) ** -exponent)
    found = np.searchsorted(weights, rng.random(n) * weights[-1])
    return rng.permutation(size)[np.minimum(found, size - 1)]


def synthetic_entries(n, shape):
    """Coordinates and values of a CP with noise."""
    rng = np.random.default_rng(0)
    coordinates = np.empty((n, len(shape)), dtype=np.int32, order="F")
    for mode, exponent in enumerate((0.8, 0.9, 0.0)):
        coordinates[:, mode] = power_law(rng, shape[mode], exponent, n)
    values = 0.8 * rng.standard_normal(n)
    for _ in range(4):
        term = 0.5
        for mode, (mean, spread) in enumerate(((0, 0.6), (0, 0.6), (1, 0.2))):
            row = mean + spread * rng.standard_normal(shape[mode])
            term = term * row[coordinates[:, mode]]
        values += term
    return coordinates, values.astype(np.float32)


def memory(field):
    """VmRSS or VmHWM of this process in MB; None where there is no /proc."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) / 1000


def forget_peak():
    """Let VmHWM start again from VmRSS."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def time_default(n):
    """Processor seconds of a fit with default options and rank 16."""
    from sktensordp.completion import CPCompletion
    from sktensordp.datasets import make_ratings

    ratings = make_ratings(n // 100, max(n // 400, 50), n, random_state=0)
    times = np.random.default_rng(0).integers(0, 200, (n, 1))
    X, y = np.append(ratings.data, times, axis=1), ratings.target.astype(float)
    shape = tuple((X.max(axis=0) + 1).tolist())
    model = CPCompletion(RANK, epsilon=math.inf, levels=ratings.levels, shape=shape)
    model.fit(X[:N_WARM], y[:N_WARM])
    begin = process_time()
    model.fit(X, y)
    yield {"seconds": process_time() - begin}


def print_default(n, before):
    """The first part; beside an earlier version, if there is one."""
    packages = {"now": Path(__file__).parents[2]}
    if before is not None:
        packages = {"before": before.absolute(), **packages}
    for name, package in packages.items():
        path = {"PYTHONPATH": str(package)}
        (found,) = worker(sys.executable, "default", {"n": n}, **path)
        print(f"default fit to {n:,}, {name}: {found['seconds']:.4g} s", flush=True)


def batches(folder):
    """Coordinates and values, a million at a time, from a memory map."""
    X, y = (np.load(f"{folder}/{name}.npy", mmap_mode="r") for name in "Xy")
    for start in range(0, len(y), BATCH):
        yield X[start : start + BATCH], y[start : start + BATCH]


def time_file(folder):
    """Seconds of a fit in batches, its peak memory, and its sweeps."""
    from sktensordp.completion import CPCompletion

    model = CPCompletion(
        RANK, epsilon=4.0, perturbation="input", levels=np.arange(0.5, 5.5, 0.5),
        n_pattern_components=0,
    )  # fmt: skip
    model.fit_batches((X[:N_WARM], y[:N_WARM]) for X, y in batches(folder))
    forget_peak()
    before, begin = memory("VmRSS"), perf_counter()
    model.fit_batches(batches(folder))
    seconds = perf_counter() - begin
    peak = math.nan if before is None else memory("VmHWM") - before
    yield {"seconds": seconds, "peak": peak, "sweeps": model.n_iter_}


def print_file(n, shape):
    """The second part."""
    with tempfile.TemporaryDirectory() as folder:
        coordinates, values = synthetic_entries(n, shape)
        values = np.clip(np.rint(2 * values + 7) / 2, 0.5, 5)
        np.save(f"{folder}/X.npy", np.ascontiguousarray(coordinates))
        np.save(f"{folder}/y.npy", values)
        del coordinates, values
        (found,) = worker(sys.executable, "file", {"folder": folder})
    print("{:,} from a memory map: {seconds:.4g} s, {peak:.4g} MB at most beyond what "
          "was there, {sweeps} sweeps".format(n, **found), flush=True)  # fmt: skip


def library_model(ratings, setting):
    """Functions that fit this library's model and that predict at coordinates."""
    from sktensordp.completion import CPCompletion

    domain = {"levels": ratings["levels"], "shape": ratings["shape"].tolist()}
    model = CPCompletion(**setting, epsilon=math.inf, **domain)
    return lambda: model.fit(ratings["train"], ratings["values"]), model.predict


def as_frame(ratings, *columns):
    """The ratings that are trained on, as a data frame."""
    import pandas as pd

    users, items = ratings["train"].T
    return pd.DataFrame(
        dict(zip(columns, (users, items, ratings["values"]), strict=True))
    )


def surprise_model(ratings, setting):
    """The same for the SVD of scikit-surprise: biases and factors, by SGD."""
    from surprise import SVD, Dataset, Reader

    scale = Reader(rating_scale=(ratings["levels"][0], ratings["levels"][-1]))
    frame = as_frame(ratings, "user", "item", "rating")
    data = Dataset.load_from_df(frame, scale).build_full_trainset()
    model = SVD(random_state=0, **setting)

    def predict(coordinates):
        return np.array([model.predict(*pair).est for pair in coordinates.tolist()])

    return lambda: model.fit(data), predict


def lenskit_model(ratings, setting):
    """The same for the biased matrix factorisation of LensKit, by ALS."""
    from lenskit.als import BiasedMFScorer
    from lenskit.data import from_interactions_df
    from lenskit.training import TrainingOptions

    data = from_interactions_df(as_frame(ratings, "user_id", "item_id", "rating"))
    model = BiasedMFScorer(**setting)

    def predict(coordinates):
        # What the scorer does user by user; unknown users and items are average.
        known, bias, rows = [], model.bias.global_bias, []
        users = model.users, model.bias.user_biases, model.user_embeddings
        items = model.items, model.bias.item_biases, model.item_embeddings
        for ids, side in zip(coordinates.T, (users, items), strict=True):
            vocabulary, biases, embeddings = side
            numbers = vocabulary.numbers(ids, missing="negative")
            known.append(numbers >= 0)
            bias = bias + np.where(known[-1], biases[numbers], 0)
            rows.append(embeddings[numbers])
        return bias + known[0] * known[1] * (rows[0] * rows[1]).sum(axis=1)

    return lambda: model.train(data, TrainingOptions(rng=0)), predict


def myfm_model(ratings, setting):
    """The same for a Bayesian factorisation machine of users and items, by Gibbs."""
    import myfm
    from scipy import sparse

    users, items = ratings["shape"]

    def one_hot(coordinates):
        places = (coordinates + np.array([0, users])).ravel()
        ends = np.arange(0, len(places) + 1, 2)
        ones = np.ones(len(places))
        return sparse.csr_matrix(
            (ones, places, ends), (len(coordinates), users + items)
        )

    X, setting = one_hot(ratings["train"]), dict(setting)
    n_iter = setting.pop("n_iter", 100)
    model = myfm.MyFMRegressor(**setting)
    # Rows of users and of items have priors of their own.
    options = {"n_iter": n_iter, "group_shapes": [int(users), int(items)]}
    return (
        lambda: model.fit(X, ratings["values"], **options),
        lambda coordinates: model.predict(one_hot(coordinates)),
    )


def tensorly_model(ratings, setting):
    """The same for the masked CP of TensorLy, of a dense table without its mean."""
    from tensorly.decomposition import parafac

    table, mask = np.zeros(ratings["shape"]), np.zeros(ratings["shape"])
    at, offset = tuple(ratings["train"].T), ratings["values"].mean()
    table[at], mask[at] = ratings["values"] - offset, 1
    found = {}

    def fit():
        options = {"init": "random", "tol": 0, "random_state": 0} | setting
        found["weights"], found["factors"] = parafac(table, mask=mask, **options)

    def predict(coordinates):
        users, items = found["factors"]
        product = users[coordinates[:, 0]] * items[coordinates[:, 1]]
        return offset + product @ found["weights"]

    return fit, predict


MODELS = {
    OURS: library_model,
    "scikit-surprise": surprise_model,
    "lenskit": lenskit_model,
    "tensorly": tensorly_model,
    "myfm": myfm_model,
}


def time_models(library, files):
    """Processor seconds and error of every setting of a library on every file."""
    for number, setting in enumerate(SETTINGS[library]):
        for k, file in enumerate(files):
            ratings = dict(np.load(file))
            if k == 0:
                few = {name: ratings[name][:N_WARM] for name in ("train", "values")}
                MODELS[library](ratings | few, setting)[0]()
            fit, predict = MODELS[library](ratings, setting)
            begin = process_time()
            fit()
            seconds = process_time() - begin
            ends = ratings["levels"][0], ratings["levels"][-1]
            error = np.clip(predict(ratings["test"]), *ends) - ratings["targets"]
            rated = np.isin(ratings["test"][:, 1], ratings["train"][:, 1])
            rmse, of_rated = (
                float(np.sqrt(np.mean(each**2))) for each in (error, error[rated])
            )
            yield {
                "setting": number,
                "seconds": seconds,
                "rmse": rmse,
                "rated": of_rated,
            }


def save_splits(folder, coordinates, values, levels, n_splits):
    """Files of random 90/10 splits; coordinates count from zero."""
    shape = coordinates.max(axis=0) + 1
    for seed in range(n_splits):
        test = np.random.default_rng(seed).random(len(values)) < 0.1
        folder.mkdir(exist_ok=True)
        file = folder / f"{seed}.npz"
        np.savez(
            file, train=coordinates[~test], values=values[~test],
            test=coordinates[test], targets=values[test], levels=levels, shape=shape,
        )  # fmt: skip
        yield str(file)


def movielens(data_home):
    """Users and items counted from zero, the ratings and their scale."""
    from sktensordp.datasets import fetch_movielens

    ratings = fetch_movielens("latest-small", data_home, download_if_missing=False)
    columns = ratings.data[:, :2].T
    numbers = [np.unique(ids, return_inverse=True)[1] for ids in columns]
    return np.column_stack(numbers), ratings.target, ratings.levels


def synthetic_ratings(small):
    """The same of synthetic ratings."""
    from sktensordp.datasets import make_ratings

    sizes = (2_000, 500, 30_000) if small else (20_000, 5_000, 1_000_000)
    ratings = make_ratings(*sizes, random_state=0)
    return ratings.data, ratings.target, ratings.levels


def print_peers(title, files, pythons):
    """The table of a data set, and who takes less processor time with less error."""
    print(f"\n{title}, {len(files)} split(s)")
    print(f"{'library':17}{'setting':56}{'seconds':>9}{'RMSE':>9}{'rated':>9}")
    rows, shape = [], np.load(files[0])["shape"]
    for library, python in pythons.items():
        if library == "tensorly" and math.prod(shape.tolist()) > LARGEST_DENSE:
            continue
        request = {"library": library, "files": files}
        results = list(worker(python, "models", request))
        for number, setting in enumerate(SETTINGS[library]):
            mine = [r for r in results if r["setting"] == number]
            shown = ", ".join(f"{k}={v:g}" for k, v in setting.items()) or "defaults"
            seconds = np.median([r["seconds"] for r in mine])
            rmse, rated = (np.mean([r[k] for r in mine]) for k in ("rmse", "rated"))
            errors = f"{rmse:9.4f}{rated:9.4f}"
            print(f"{library:17}{shown:56}{seconds:9.3f}{errors}", flush=True)
            rows.append((library, shown, seconds, rmse))
    if len(pythons) == 1:
        return
    for library, setting, seconds, rmse in rows:
        if library == OURS:
            better = [
                f"{peer} ({other})"
                for peer, other, s, e in rows
                if peer != OURS and s < seconds and e < rmse
            ]
            print(f"less time and less error than {OURS} ({setting}): ", end="")
            print("; ".join(better) or "none")


WORKERS = {"default": time_default, "file": time_file, "models": time_models}


def work(name, request):
    """Print the results of a worker, and nothing that a library may print."""
    output = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        for result in WORKERS[name](**json.loads(request)):
            print(json.dumps(result), file=output, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", type=Path, help="where MovieLens lies")
    parser.add_argument("--environments", type=Path, help="where the environments are")
    parser.add_argument("--before", type=Path, help="checkout of an earlier version")
    parser.add_argument("--no-peers", action="store_true", help="this library alone")
    parser.add_argument("--no-fit", action="store_true", help="without first part")
    parser.add_argument("--no-file", action="store_true", help="without second part")
    parser.add_argument("--small", action="store_true", help="a quick smoke run")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(*arguments.worker)
    from tests.benchmarks.environments import environments

    small = arguments.small
    print(f"{platform.machine()}, {os.cpu_count()} cores, NumPy {np.__version__}")
    if not arguments.no_fit:
        print_default(SMALL_DEFAULT if small else N_DEFAULT, arguments.before)
    if not arguments.no_file:
        print_file(*(SMALL_FILE if small else IN_FILE))
    with tempfile.TemporaryDirectory() as temporary:
        pythons = {OURS: sys.executable}
        if not arguments.no_peers:
            folder = arguments.environments or Path(temporary)
            pythons |= environments(folder, REQUIREMENTS)
        try:
            ratings = movielens(arguments.data_home)
        except OSError as error:
            print(f"\nwithout MovieLens latest-small: {error}")
        else:
            splits = Path(temporary) / "movielens"
            files = list(save_splits(splits, *ratings, 1 if small else 5))
            print_peers("MovieLens latest-small", files, pythons)
        splits = Path(temporary) / "synthetic"
        files = list(save_splits(splits, *synthetic_ratings(small), 1))
        print_peers("Synthetic ratings", files, pythons)


if __name__ == "__main__":
    main()
