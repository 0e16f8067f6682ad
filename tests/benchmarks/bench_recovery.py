"""Recovery of low-rank tensors without noise, beside TensorLy's masked fits.

    python tests/benchmarks/bench_recovery.py [--small]

A tensor has standard normal factors (and, for a Tucker, a standard normal core) and is
scaled to variance one. Every entry is observed with the same probability. A fit has
recovered it if the root mean square error is at most 0.05 on the entries that were not
observed. For each case, two sets of seeds. TensorLy, if it is installed, runs with a
mask and random starts, for 100 and 500 sweeps.
"""

import argparse
import contextlib
import math
from time import process_time

import numpy as np

from sktensordp.completion import CPCompletion, TuckerCompletion
from tests.support.tensors import low_rank

LARGEST_ERROR = 0.05
# Shape, rank or ranks, and share of the entries that are observed.
CASES = {
    "20 x 20 x 20, rank 3, 30%": ((20, 20, 20), 3, 0.3),
    "30 x 30 x 30, rank 5, 30%": ((30, 30, 30), 5, 0.3),
    "40 x 30 x 20, rank 4, 50%": ((40, 30, 20), 4, 0.5),
    "20 x 20 x 20, rank 3, 10%": ((20, 20, 20), 3, 0.1),
    "20 x 20 x 20, ranks 3 3 3, 30%": ((20, 20, 20), (3, 3, 3), 0.3),
    "40 x 30 x 20, ranks 4 3 2, 50%": ((40, 30, 20), (4, 3, 2), 0.5),
    "20 x 20 x 20, ranks 3 3 3, 10%": ((20, 20, 20), (3, 3, 3), 0.1),
}


def ours(truth, observed, rank, seed, **options):
    """The completed tensor."""
    largest = np.abs(truth).max()
    options = {"epsilon": math.inf, "value_bounds": (-largest, largest), **options}
    completion = CPCompletion if isinstance(rank, int) else TuckerCompletion
    model = completion(rank, random_state=seed, **options)
    return model.fit_transform(np.where(observed, truth, np.nan))


def theirs(truth, observed, rank, seed, n_iter):
    """The completed tensor of TensorLy."""
    from tensorly.decomposition import parafac, tucker

    tensor, options = np.where(observed, truth, 0.0), {"n_iter_max": n_iter}
    if isinstance(rank, int):
        found = parafac(
            tensor, rank, mask=observed, init="random", random_state=seed, tol=1e-9,
            **options,
        )  # fmt: skip
    else:
        found = tucker(
            tensor, rank, mask=observed, init="random", random_state=seed, tol=1e-9,
            **options,
        )  # fmt: skip
    return found.to_tensor()


def recovery(fit, case, seeds):
    """Number of tensors that are recovered, and seconds of processor time for a fit."""
    shape, rank, share = CASES[case]
    found, start = 0, process_time()
    for seed in seeds:
        truth, observed = low_rank(shape, rank, share, seed)
        with contextlib.suppress(np.linalg.LinAlgError):
            error = (fit(truth, observed, rank, seed) - truth)[~observed]
            found += bool(np.sqrt(np.mean(error**2)) <= LARGEST_ERROR)
    return found, (process_time() - start) / len(seeds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="three seeds of each set")
    n = 3 if parser.parse_args().small else 24
    fits = {
        "sktensordp": ours,
        "sktensordp, biases=False": lambda *a: ours(*a, biases=False),
    }
    with contextlib.suppress(ImportError):
        import tensorly  # noqa: F401

        for k in (100, 500):
            fits[f"TensorLy, {k} sweeps"] = lambda *a, k=k: theirs(*a, n_iter=k)
    ours(*low_rank((5, 5, 5), 1, 0.5, 0), 1, 0)  # compiles
    for case in CASES:
        print(f"\n{case:34}{'seeds 0-':>10}{'100-':>10}{'seconds':>10}")
        for name, fit in fits.items():
            sets = [recovery(fit, case, range(first, first + n)) for first in (0, 100)]
            counts = "".join(f"{f'{found} of {n}':>10}" for found, _ in sets)
            seconds = sum(each for _, each in sets) / 2
            print(f"{name:34}{counts}{seconds:10.2f}", flush=True)


if __name__ == "__main__":
    main()
