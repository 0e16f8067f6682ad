"""Processor time that compiling and loading kernels adds to first calls.

    python tests/benchmarks/bench_compilation.py

Every figure is of a process of its own, and is what the first call takes beyond a
second, identical one. The cold ones have an empty cache on disk; the others have what
`python -m sktensordp.completion` left there. Run it on idle cores.
"""

import json
import pickle
import sys
import tempfile
import time
import warnings
from pathlib import Path

from tests.benchmarks.environments import answers

ROOT = Path(__file__).parents[2]


def beyond(call):
    """Seconds of processor time that a first call takes beyond a second one."""
    times = []
    for _ in range(2):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return times[0] - times[1]


def fitting(**options):
    from sktensordp.completion import CPCompletion
    from sktensordp.datasets import make_ratings

    ratings = make_ratings(random_state=0)
    options |= {"levels": ratings.levels, "shape": ratings.shape}
    return lambda: CPCompletion(epsilon=4.0, **options).fit(
        ratings.data, ratings.target
    )


def first_fits():
    """First fit of users, which compiles nothing, then of ratings, in this process."""
    print(json.dumps([beyond(fitting(unit=0)), beyond(fitting())]))


def folding_in(path):
    """One user's ratings, folded into a model that is loaded, in a new process."""
    model = pickle.loads(Path(path).read_bytes())
    start = time.process_time()
    model.fold_in([[0, 0], [0, 1], [0, 2]], [3.0, 4.0, 5.0])
    print(json.dumps([time.process_time() - start]))


def in_a_process(folder, *arguments):
    variables = {"NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    return [*answers(sys.executable, __file__, *arguments, **variables)]


def main():
    if sys.argv[1:] == ["fits"]:
        return first_fits()
    if sys.argv[1:2] == ["store"]:
        return Path(sys.argv[2]).write_bytes(pickle.dumps(fitting(unit=0)()))
    if sys.argv[1:2] == ["fold_in"]:
        return folding_in(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        for cache in ("empty", "filled"):
            ((users, entries),) = in_a_process(folder, "fits")
            print(f"first fit of users:               {users:5.2f} s")
            print(f"first fit, {f'{cache} cache:':23}{entries:5.2f} s")
        path = Path(folder) / "model"
        in_a_process(folder, "store", path)
        ((seconds,),) = in_a_process(folder, "fold_in", path)
        print(f"fold_in of one user, new process: {seconds:5.2f} s")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
