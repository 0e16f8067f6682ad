"""Try generated inputs on every estimator, and count how each was met.

    python tests/hardening/fuzz.py --inputs 100000

prints how many inputs each method of each estimator answered and refused with which
error, and exits with 1 if an input was met with anything else. What it tries follows
from the seed, which is a new one each time unless you pass it. It prints the seed, and
a line for each failure that repeats it.
"""

import argparse
import os
import secrets
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

# Small data: threads would cost more than they save.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.callers import SUBJECTS  # noqa: E402
from tests.support.judged import tried  # noqa: E402

BLOCK = 250
SHOWN = 20


def block(job):
    """What comes of a block of inputs for one estimator."""
    number, first, size = job
    return job, *tried(SUBJECTS[number], first, size)


def jobs_of(n_inputs, first_seed):
    """Blocks that make at least as many inputs, for all estimators in turn."""
    n_blocks = -(-n_inputs // BLOCK)
    return [(k % len(SUBJECTS), first_seed + k, BLOCK) for k in range(n_blocks)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument(
        "--estimator", type=int, help="number of one, to repeat a block"
    )
    options = parser.parse_args()
    jobs = jobs_of(options.inputs, options.seed)
    if options.estimator is not None:
        jobs = [(options.estimator, options.seed, BLOCK)]
    began, counts = perf_counter(), Counter()
    print(f"seed {options.seed}, {len(jobs)} blocks of {BLOCK} inputs", flush=True)
    context = get_context("spawn")
    with ProcessPoolExecutor(options.processes, mp_context=context) as pool:
        for (number, first, _), found, unhandled in pool.map(block, jobs):
            counts += found
            for text in unhandled[:SHOWN]:
                print(f"\nUNHANDLED: {text}")
            if unhandled:
                again = f"--estimator {number} --seed {first}"
                print(f"    again: python tests/hardening/fuzz.py {again}", flush=True)
    for (name, method, met), n in sorted(counts.items()):
        print(f"{n:8,} {name}.{method}: {met}")
    failures = sum(n for (_, _, met), n in counts.items() if met == "unhandled")
    seconds = perf_counter() - began
    print(
        f"{counts.total():,} generated inputs in {seconds:.0f} s, "
        f"{failures or 'none'} unhandled"
    )
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
