"""Speed, memory and accuracy of completion, beside NumPy and other libraries.

    python tests/benchmarks/bench_completion.py [--small]
        [--before FOLDER] [--no-sweeps] [--no-files] [--no-peers]

The first part times single sweeps of the fit on synthetic entries (user, item, time)
with power-law users and items, each size in a process of its own. Two references in
NumPy make a sweep of alternating least squares, which is a sweep of the fit without
covariances; it is asserted that they agree with such a sweep. One sums over rows by
`reduceat`. The other, the fastest that was found, sorts rows by their length, so that
all rows of a length are one stack of matrix products. Their threads are those of BLAS.

With `--before FOLDER`, where FOLDER is a checkout of an earlier version, the same
sweeps in double precision run with both versions, one process after the other. So does
a fit with default options, of which each phase is timed. To compare with the version
that solved for one row after the other:

    git worktree add FOLDER a0ad4d6

The second part fits CPCompletion at epsilon 4 to as many entries, rated on half stars,
in batches of a million from a memory map and, where PyArrow is there, from a Parquet
file: reading, checks, randomisation, fit and all.

The third part fits ratings (user, item): median seconds of training, those that passed
and those of all processors, and mean error on a tenth that is held out. On a machine
that does other work too, compare processor time. Every other library runs in an
environment of its own, which is made in `--environments FOLDER`, or anew. Their data
sets are built before the clock starts; validation and grouping of the entries count for
this library. Every process fits a part of the ratings first, so that no compilation is
timed, and may use THREADS threads. `--data-home FOLDER` is where MovieLens lies if not
in the usual place.
"""

import argparse
import contextlib
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

# What a worker needs of this library it imports itself: other environments lack it.

THREADS = 2
RANK = 16
# Entries, and the sizes of the modes.
SIZES = {
    100_000: (3_000, 2_000, 200),
    1_000_000: (14_000, 8_000, 200),
    5_000_000: (70_000, 20_000, 200),
    20_000_000: (140_000, 27_000, 200),
}
# Sizes of the comparison with an earlier version.
PAIRED_SIZES = {
    100_000: (3_000, 2_000, 200),
    200_000: (5_000, 3_000, 200),
    2_000_000: (28_000, 12_000, 200),
    10_000_000: (100_000, 24_000, 200),
}
N_PHASES = 2_000_000  # entries of the fit whose phases are timed
SMALL_SIZES = {20_000: (1_000, 500, 50), 100_000: (3_000, 2_000, 200)}
LARGEST_REFERENCE = 20_000_000
LARGEST_DOUBLE = 1_000_000
# Entries that a reference works on at once: more do not fit into the caches.
CHUNK = 2**13
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


def worker(python, name, *, package=None, **request):
    """Results of one of the WORKERS, in a process of its own, as they come.

    The process imports this library from the folder `package`, if given.
    """
    variables = "OMP", "OPENBLAS", "MKL", "NUMBA", "LK"
    threads = {f"{of}_NUM_THREADS": str(THREADS) for of in variables}
    if package is not None:
        threads["PYTHONPATH"] = str(package)
    command = [python, __file__, "--worker", name, json.dumps(request)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | threads
    ) as process:
        yield from map(json.loads, process.stdout)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, name)


def print_table(title, head, rows):
    """Rows of a name and columns; numbers get four digits."""
    print(f"\n{title:30}" + "".join(f"{h:>12}" for h in head))
    for name, *cells in rows:
        shown = [f"{c:12.4g}" if c is not None else f"{'-':>12}" for c in cells]
        print(f"{name:30}" + "".join(shown), flush=True)


def power_law(rng, size, exponent, n):
    """Indices of which few are frequent, in no order."""
    weights = np.cumsum((np.arange(size) + 20.0) ** -exponent)
    found = np.searchsorted(weights, rng.random(n) * weights[-1])
    return rng.permutation(size)[np.minimum(found, size - 1)]


def synthetic_entries(n, shape, dtype):
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
    return coordinates, values.astype(dtype)


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


def fit_sweeps(coordinates, values, shape, n_sweeps):
    """Seconds of the grouping, and of all sweeps of a fit but the first.

    A sweep has two times: seconds that passed, and those of all processors.
    """
    from sktensordp.tensor import Observations, fit_cp

    begin, stamps = perf_counter(), []
    entries = Observations.of(coordinates, values)
    grouping = perf_counter() - begin
    fit_cp(
        entries, rank=RANK, biases=False, noise_floor=0.0, max_iter=n_sweeps,
        shape=shape, n_threads=THREADS,
        on_sweep=lambda _: stamps.append((perf_counter(), process_time())),
    )  # fmt: skip
    return grouping, np.diff(stamps, axis=0)


def time_sweeps(n, shape, dtype):
    """Seconds of the grouping, of a sweep, and the peak memory.

    Of a sweep these are the median of the seconds that passed, and the least of those
    of all processors.
    """
    few = 500, 400, 10
    fit_sweeps(*synthetic_entries(N_WARM, few, dtype), few, 2)
    coordinates, values = synthetic_entries(n, shape, dtype)
    forget_peak()
    before = memory("VmRSS")
    grouping, seconds = fit_sweeps(coordinates, values, shape, 6)
    peak = None if before is None else memory("VmHWM") - before
    sweep, processor = np.median(seconds[:, 0]), seconds[:, 1].min()
    yield {"grouping": grouping, "sweep": sweep, "processor": processor, "peak": peak}


def time_phases(n):
    """Processor seconds of a fit with default options, rank 16, and of its phases."""
    from sktensordp.completion import CPCompletion, _entries
    from sktensordp.completion.measurements import _input, _residual_variance
    from sktensordp.datasets import make_ratings
    from sktensordp.tensor import Observations, _cp_rows

    seconds = {}

    def timed(owner, name, phase):
        function = getattr(owner, name)

        def call(*arguments, **options):
            begin = process_time()
            try:
                return function(*arguments, **options)
            finally:
                seconds[phase] = seconds.get(phase, 0.0) + process_time() - begin

        setattr(owner, name, call)

    timed(_cp_rows, "swept", "sweeps")
    timed(_cp_rows, "_with_learned_prior", "priors")
    timed(Observations, "of", "grouping")
    timed(_entries, "pattern_of", "pattern")
    timed(_input, "residual_variance", "residual variance")
    timed(_residual_variance, "continued", "its sweeps")
    ratings = make_ratings(n // 100, max(n // 400, 50), n, random_state=0)
    times = np.random.default_rng(0).integers(0, 200, (n, 1))
    X, y = np.append(ratings.data, times, axis=1), ratings.target.astype(float)
    shape = tuple((X.max(axis=0) + 1).tolist())
    for part in (slice(N_WARM), slice(None)):
        seconds.clear()
        model = CPCompletion(RANK, epsilon=math.inf, levels=ratings.levels, shape=shape)
        begin = process_time()
        model.fit(X[part], y[part])
        total = process_time() - begin
    yield {"all": total, "outside sweeps": total - seconds["sweeps"], **seconds}


def group_by_length(coordinates, values, shape):
    """For every mode: rows by their number of entries, and the entries in this order.

    A group is the rows, where their entries start, the rows that each entry meets in
    the other modes, and the values.
    """
    groups = []
    for mode, size in enumerate(shape):
        lengths = np.bincount(coordinates[:, mode], minlength=size)
        rows = np.argsort(lengths, kind="stable")
        place = np.empty(size, dtype=np.int32)
        place[rows] = np.arange(size)
        order = np.argsort(place[coordinates[:, mode]], kind="stable")
        others = np.delete(coordinates, mode, axis=1)[order]
        starts = np.concatenate([[0], np.cumsum(lengths[rows])])
        groups.append((rows, starts, np.asfortranarray(others), values[order]))
    return groups


def gather(others, part, factors):
    """Products of the rows that entries meet in the other modes."""
    product = np.take(factors[0], others[part, 0], axis=0)
    for column, factor in enumerate(factors[1:], start=1):
        product *= np.take(factor, others[part, column], axis=0)
    return product


def reduceat_sums(starts, others, values, factors):
    """Sums of b b^T and y b over the entries of rows, by `reduceat`.

    Each of the products is made in one contiguous run over the entries.
    """
    n_columns = factors[0].shape[1]
    gram = np.zeros((len(starts) - 1, n_columns, n_columns), values.dtype)
    shift = np.zeros((len(starts) - 1, n_columns), values.dtype)
    for begin in range(0, len(values), CHUNK):
        end = min(begin + CHUNK, len(values))
        first = np.searchsorted(starts, begin, side="right") - 1
        last = np.searchsorted(starts, end)
        cuts = np.maximum(starts[first:last], begin) - begin
        b = gather(others, slice(begin, end), factors).T.copy()
        shift[first:last] += np.add.reduceat(b * values[begin:end], cuts, axis=1).T
        for q in range(n_columns):
            sums = np.add.reduceat(b[q:] * b[q], cuts, axis=1)
            gram[first:last, q, q:] += sums.T
    below = np.tril_indices(n_columns, -1)
    gram[:, *below] = gram[:, *below[::-1]]
    return gram, shift


def stacked_sums(starts, others, values, factors):
    """The same sums by products of matrices, a stack of them for rows of a length."""
    lengths, n_columns = np.diff(starts), factors[0].shape[1]
    gram = np.zeros((len(lengths), n_columns, n_columns), values.dtype)
    shift = np.zeros((len(lengths), n_columns), values.dtype)
    row = np.searchsorted(lengths, 1)
    while row < len(lengths):
        length = lengths[row]
        same = np.searchsorted(lengths, length, side="right")
        end = min(same, row + max(1, CHUNK // length))
        # One long row comes in parts, a stack of shorter ones at once.
        step = CHUNK if end - row == 1 else (end - row) * length
        for begin in range(starts[row], starts[end], step):
            part = slice(begin, min(begin + step, starts[end]))
            b = gather(others, part, factors).reshape(end - row, -1, n_columns)
            y = values[part].reshape(end - row, 1, -1)
            gram[row:end] += b.transpose(0, 2, 1) @ b
            shift[row:end] += (y @ b)[:, 0]
        row = end
    return gram, shift


def numpy_sweep(groups, sums, factors, prior_means, ridge):
    """Alternating least squares: every mode once, given the others, in place."""
    for mode, (rows, *entries) in enumerate(groups):
        gram, shift = sums(*entries, factors[:mode] + factors[mode + 1 :])
        shift += ridge * prior_means[mode]
        gram += ridge * np.eye(gram.shape[1], dtype=gram.dtype)
        for start in range(0, len(rows), 4096):
            part = slice(start, start + 4096)
            solved = np.linalg.solve(gram[part], shift[part, :, np.newaxis])
            factors[mode][rows[part]] = solved[..., 0]


REFERENCES = {"NumPy, reduceat": reduceat_sums, "NumPy, stacks": stacked_sums}


def time_references(n, shape, dtype):
    """Median seconds of a sweep in NumPy, without the grouping."""
    groups = group_by_length(*synthetic_entries(n, shape, dtype), shape)
    rng = np.random.default_rng(0)
    start = [0.3 * rng.standard_normal((size, RANK)).astype(dtype) for size in shape]
    for name, sums in REFERENCES.items():
        found = []
        for _ in range(3):
            begin = perf_counter()
            numpy_sweep(groups, sums, start, (0, 0, 1), 1.0)
            found.append(perf_counter() - begin)
        yield {"name": name, "seconds": np.median(found)}


def check_references():
    """Fail unless the references agree with a sweep of the library.

    Before it updates a mode, all covariances become zero: the posterior means are then
    a ridge regression on the means of the other modes.
    """
    from sktensordp.tensor import Observations
    from sktensordp.tensor._cp_rows import started
    from sktensordp.tensor._rows import update

    # There are rows without an entry, and rows that the references take in parts.
    shape = 3_000, 300, 2
    for dtype, tolerance in (("float64", 1e-9), ("float32", 1e-3)):
        coordinates, values = synthetic_entries(20_000, shape, dtype)
        groups = group_by_length(coordinates, values, shape)
        entries = Observations.of(coordinates, values, [np.arange(n) for n in shape])
        for sums in REFERENCES.values():
            rows = started(entries, rank=RANK, biases=False, noise=0.64)
            factors = [means.copy() for means in rows.means]
            ridge = rows.noise * float(rows.precision[0, 0])
            numpy_sweep(groups, sums, factors, rows.prior_mean.astype(dtype), ridge)
            for mode in range(len(shape)):
                for other, means in enumerate(rows.means):
                    nothing = np.zeros_like(rows.covariances[other])
                    rows = rows.with_mode(other, means, nothing)
                rows, _ = update(rows, entries, mode)
            for found, expected in zip(factors, rows.means, strict=True):
                np.testing.assert_allclose(
                    found, expected, rtol=tolerance, atol=tolerance
                )


def sweep_rows(sizes, found):
    """Rows of the table of sweeps; what they tell goes to `found`, too."""
    for n, shape in sizes.items():
        for dtype in ("float32", "float64") if n <= LARGEST_DOUBLE else ("float32",):
            request = {"n": n, "shape": shape, "dtype": dtype}
            (times,) = worker(sys.executable, "sweeps", **request)
            times["ns"] = times["sweep"] * 1e9 / n / len(shape)
            found[n, dtype] = times
            columns = (times[name] for name in ("grouping", "sweep", "ns", "peak"))
            yield f"{n:,}, {dtype}", *columns


def paired_rows(sizes, before):
    """Rows of an earlier version's sweeps beside today's, in double precision."""
    for n, shape in sizes.items():
        request = {"n": n, "shape": shape, "dtype": "float64"}
        times = [
            next(worker(sys.executable, "sweeps", package=package, **request))
            for package in (before, Path(__file__).parents[2])
        ]
        ns = [t["processor"] * 1e9 / n / len(shape) for t in times]
        yield f"{n:,}", *ns, ns[1] / ns[0], *(t["peak"] for t in times)


def print_pairs(sizes, n_phases, before):
    """The comparison with an earlier version."""
    head = "ns before", "ns now", "now/before", "MB before", "MB now"
    print(f"\nRank {RANK}, float64; least processor time, per entry and mode", end="")
    print_table("", head, paired_rows(sizes, before))
    packages = before, Path(__file__).parents[2]
    old, new = (
        next(worker(sys.executable, "phases", package=p, n=n_phases)) for p in packages
    )
    rows = [(name, old[name], new[name], new[name] / old[name]) for name in new]
    head = "before", "now", "now/before"
    print_table(f"Fit to {n_phases:,}, s", head, rows)


def reference_rows(sizes, found):
    """Rows of seconds of the references, also over those of the library in `found`."""
    for n, shape in sizes.items():
        if n <= LARGEST_REFERENCE:
            request = {"n": n, "shape": shape, "dtype": "float32"}
            for times in worker(sys.executable, "references", **request):
                name, seconds = times["name"], times["seconds"]
                ratio = seconds / found[n, "float32"]["sweep"]
                yield f"{name}, {n:,}", seconds, seconds * 1e9 / n / len(shape), ratio


def print_targets(found):
    """The targets beside what was found; those of sizes that were not run are out."""
    single = {n: times for (n, dtype), times in found.items() if dtype == "float32"}
    print("\nTargets (found)")

    def target(text, value, met):
        print(f"  {text} ({value:.3g}): {'met' if met else 'MISSED'}")

    if 20_000_000 in single:
        growth = single[20_000_000]["ns"] / single[1_000_000]["ns"]
        text = "ns per entry of a sweep, 20 million over 1 million: at most 1.5"
        target(text, growth, growth <= 1.5)
        peak = single[20_000_000]["peak"]
        if peak is not None:
            text = "peak memory at 20 million, MB: at most 2000"
            target(text, peak, peak <= 2000)


def print_sweeps(sizes):
    """The first part: the sweeps, the references and the targets."""
    check_references()
    found = {}
    head = "grouping s", "sweep s", "ns", "peak MB"
    print(
        f"\nRank {RANK}, no biases, {THREADS} threads; ns per entry and mode; peak",
        end="",
    )
    print(" memory of grouping and fit, beyond the coordinates and values")
    print_table("Sweeps: entries", head, sweep_rows(sizes, found))
    head = "seconds", "ns", "/library"
    print_table("Sweep in NumPy, float32", head, reference_rows(sizes, found))
    print_targets(found)


def save_entries(n, shape, folder):
    """Files of the same entries, by name; they are all that is left of them."""
    coordinates, values = synthetic_entries(n, shape, "float32")
    values = np.clip(np.rint(2 * values + 7) / 2, 0.5, 5)
    folder.mkdir()
    np.save(folder / "X.npy", np.ascontiguousarray(coordinates))
    np.save(folder / "y.npy", values)
    yield "memory map", str(folder)
    with contextlib.suppress(ImportError):
        from pyarrow import parquet, table

        names = [f"mode {mode}" for mode in range(len(shape))]
        columns = dict(zip(names, coordinates.T, strict=True)) | {"value": values}
        path = str(folder / "entries.parquet")
        parquet.write_table(table(columns), path)
        yield "Parquet", path


def read_entries(path):
    """Batches of coordinates and values."""
    if path.endswith(".parquet"):
        from pyarrow.parquet import ParquetFile

        for batch in ParquetFile(path).iter_batches(batch_size=BATCH):
            *columns, values = (column.to_numpy() for column in batch.columns)
            yield np.column_stack(columns), values
        return
    X, y = (np.load(f"{path}/{name}.npy", mmap_mode="r") for name in "Xy")
    for start in range(0, len(y), BATCH):
        yield X[start : start + BATCH], y[start : start + BATCH]


def time_fit(path):
    """Seconds of a fit in batches, its peak memory, and its sweeps."""
    from sktensordp.completion import CPCompletion

    model = CPCompletion(
        RANK, epsilon=4.0, perturbation="input", levels=np.arange(0.5, 5.5, 0.5),
        n_pattern_components=0,
    )  # fmt: skip
    model.fit_batches((X[:N_WARM], y[:N_WARM]) for X, y in read_entries(path))
    forget_peak()
    before, begin = memory("VmRSS"), perf_counter()
    model.fit_batches(read_entries(path))
    seconds = perf_counter() - begin
    peak = None if before is None else memory("VmHWM") - before
    yield {"seconds": seconds, "peak": peak, "sweeps": model.n_iter_}


def print_fits(n, shape):
    """The second part: a fit from every kind of file."""
    with tempfile.TemporaryDirectory() as temporary:
        rows = []
        for name, path in save_entries(n, shape, Path(temporary) / "entries"):
            (found,) = worker(sys.executable, "fits", path=path)
            rows.append((f"{n:,}, {name}", *found.values()))
        print_table("Fits from files: entries", ("seconds", "peak MB", "sweeps"), rows)


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
        for ids, vocabulary, biases, embeddings in (
            (
                coordinates[:, 0],
                model.users,
                model.bias.user_biases,
                model.user_embeddings,
            ),
            (
                coordinates[:, 1],
                model.items,
                model.bias.item_biases,
                model.item_embeddings,
            ),
        ):
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
    """Seconds and held-out error of every setting of a library on every file."""
    from importlib.metadata import version

    yield {"version": version(library)}
    for number, setting in enumerate(SETTINGS[library]):
        for k, file in enumerate(files):
            ratings = dict(np.load(file))
            if k == 0:
                few = {name: ratings[name][:N_WARM] for name in ("train", "values")}
                MODELS[library](ratings | few, setting)[0]()
            fit, predict = MODELS[library](ratings, setting)
            begin = perf_counter(), process_time()
            fit()
            seconds, processor = perf_counter() - begin[0], process_time() - begin[1]
            ends = ratings["levels"][0], ratings["levels"][-1]
            error = np.clip(predict(ratings["test"]), *ends) - ratings["targets"]
            rmse = float(np.sqrt(np.mean(error**2)))
            times = {"seconds": seconds, "processor": processor}
            yield {"setting": number, **times, "rmse": rmse}


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


def peer_rows(files, pythons):
    """Rows of library, version, setting, median times and mean error."""
    for library, python in pythons.items():
        shape = np.load(files[0])["shape"]
        if library == "tensorly" and math.prod(shape.tolist()) > LARGEST_DENSE:
            continue
        first, *results = worker(python, "models", library=library, files=files)
        for number, setting in enumerate(SETTINGS[library]):
            mine = [r for r in results if r["setting"] == number]
            shown = ", ".join(f"{k}={v:g}" for k, v in setting.items()) or "defaults"
            seconds, processor = (
                np.median([r[time] for r in mine]) for time in ("seconds", "processor")
            )
            rmse = np.mean([r["rmse"] for r in mine])
            yield library, first["version"], shown, seconds, processor, rmse


def print_peers(title, files, pythons):
    """The table of a data set, and who takes less processor time with less error."""
    print(f"\n{title}, {len(files)} split(s)")
    print(f"{'library':26}{'setting':56}{'seconds':>9}{'processor':>11}{'RMSE':>9}")
    rows = []
    for library, version, setting, seconds, processor, rmse in peer_rows(
        files, pythons
    ):
        name = f"{library} {version}"
        times = f"{seconds:9.3f}{processor:11.3f}"
        print(f"{name:26}{setting:56}{times}{rmse:9.4f}", flush=True)
        rows.append((library, setting, processor, rmse))
    if len(pythons) == 1:
        return
    for library, setting, processor, rmse in rows:
        if library == OURS:
            better = [
                f"{peer} ({other})"
                for peer, other, s, e in rows
                if peer != OURS and s < processor and e < rmse
            ]
            print(f"less time and less error than {OURS} ({setting}): ", end="")
            print("; ".join(better) or "none")


WORKERS = {
    "sweeps": time_sweeps,
    "phases": time_phases,
    "references": time_references,
    "fits": time_fit,
    "models": time_models,
}


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
    parser.add_argument("--no-sweeps", action="store_true", help="without first part")
    parser.add_argument("--no-files", action="store_true", help="without second part")
    parser.add_argument("--small", action="store_true", help="a quick smoke run")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(*arguments.worker)
    small = arguments.small
    print(f"{platform.machine()}, {os.cpu_count()} cores, NumPy {np.__version__}")
    if arguments.before:
        sizes, n_phases = PAIRED_SIZES, N_PHASES
        if small:
            sizes, n_phases = SMALL_SIZES, 100_000
        print_pairs(sizes, n_phases, arguments.before.absolute())
    if not arguments.no_sweeps:
        print_sweeps(SMALL_SIZES if small else SIZES)
    if not arguments.no_files:
        print_fits(*max((SMALL_SIZES if small else SIZES).items()))
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.environments or Path(temporary)
        pythons = {OURS: sys.executable}
        if not arguments.no_peers:
            from environments import environment

            for library, packages in REQUIREMENTS.items():
                python = environment(folder.absolute(), library, packages)
                pythons[library] = str(python)
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
