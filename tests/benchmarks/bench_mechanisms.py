"""Speed and memory of the mechanisms beside plain noise and other libraries.

    python tests/benchmarks/bench_mechanisms.py [--small] [--no-peers]

A ratio is how many times as long (or as much memory) a row takes as the row that heads
its column; both are measured in the same run. Plain noise is floating-point noise on
one thread: fast, and it betrays the values by their low-order bits. Other libraries
draw fewer values, in environments made as in examples/audit_other_libraries.py.
"""

import argparse
import os
import platform
import sys
import tempfile
import tracemalloc
from pathlib import Path
from timeit import repeat

import numpy as np
from threadpoolctl import threadpool_limits

from sktensordp import mechanisms as dp
from sktensordp.noise import gaussian_lattice, laplace_lattice
from sktensordp.tensor import mode_products
from tests.support.seams import NoiseStreams, effective_n_threads

BLOCK = 2**16  # values are randomised in blocks of this size
SIGMA = 3.730632  # of Gaussian noise for epsilon = 1, delta = 1e-5
# NumPy's name, scale of the noise, and what it is called elsewhere.
LAWS = {
    "Gaussian": ("standard_normal", SIGMA, "gaussian", "l2", "GaussianAnalytic"),
    "Laplace": ("laplace", 1.0, "laplace", "l1", "Laplace"),
}

_OPENDP = """
import opendp.prelude as dp
dp.enable_features("contrib")
domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size={size})
draw = dp.m.make_{law}(domain, dp.{metric}_distance(T=float), scale={scale}, k={k})
"""
# The example's worker calls draw(x) n times. Here x is a number of values, and draw
# is replaced by the seconds that it takes for them.
_TIMED = """
from time import perf_counter
values, release = np.random.default_rng(0).uniform(size=int(x)).tolist(), draw
def draw(_):
    begin = perf_counter()
    {call}
    return perf_counter() - begin
"""


def best(function, repeats=3):
    """Least seconds of some calls."""
    return min(repeat(function, number=1, repeat=repeats))


def print_table(title, unit, rows, bases=()):
    """Rows of name and cost, with ratios to the rows named in `bases`, which lead."""
    print(f"\n{title:46}{unit:>10}" + "".join(f"{'/' + b:>19}" for b in bases))
    costs = {}
    for name, cost in rows:
        costs[name] = cost
        shown = 1 / cost if unit.endswith("/s") else cost
        ratios = [f"{cost / costs[b]:19.2f}" if b in costs else "" for b in bases]
        print(f"{name:46}{shown:10.4g}" + "".join(ratios), flush=True)


def peers(law, n, folder):
    """Rows of name and seconds for a million values, from other libraries."""
    sys.path.append(str(Path(__file__).parents[2] / "examples"))
    import audit_other_libraries as audit

    _, scale, make, metric, scalar = LAWS[law]
    fields = {"law": make, "metric": metric, "scale": scale}
    doubles = _OPENDP.format(size=None, k=None, **fields)
    lattice = _OPENDP.format(size="int(x)", k=-20, **fields)
    one_value = audit.LIBRARIES["diffprivlib"][1][scalar][0]
    for library, name, setup, call in (
        ("OpenDP", "vector, any double", doubles, "release(values)"),
        ("OpenDP", "vector, multiples of 2^-20", lattice, "release(values)"),
        ("diffprivlib", scalar, one_value, "for value in values: release(value)"),
    ):
        python = audit.environment(folder, library, audit.LIBRARIES[library][0])
        seconds = audit.foreign_mechanism(python, setup + _TIMED.format(call=call))
        yield f"{library} {name}", seconds([n], 3).min() / n * 1e6


def samplers(law, n):
    """Rows of name and seconds for a million values, on one thread."""
    x, out = np.random.default_rng(1).uniform(size=n), np.empty(n)
    rng, source = np.random.default_rng(0), NoiseStreams(0, 0)
    draw, scale = LAWS[law][:2]
    lattice = laplace_lattice(0.0, 1.0, 1.0)
    if law == "Gaussian":
        lattice = gaussian_lattice(SIGMA, n, 1.0, 1e-5)

    def plain(rng, part):
        noise = getattr(rng, draw)(size=x[part].size)
        noise *= scale
        np.add(x[part], noise, out=out[part])

    def aes(block, part):
        plain(np.random.Generator(source.stream(block)), part)

    def protected(block, part):
        lattice.randomize(x[part], source.stream(block), out=out[part])

    def blocks(add):
        for block, start in enumerate(range(0, n, BLOCK)):
            add(block, slice(start, start + BLOCK))

    for name, function in (
        ("PCG64", lambda: blocks(lambda _, part: plain(rng, part))),
        ("AESCounter", lambda: blocks(aes)),
        ("PCG64, not in blocks", lambda: x + getattr(rng, draw)(size=n) * scale),
        (f"{law}Lattice.randomize", lambda: blocks(protected)),
    ):
        yield name, best(function) / n * 1e6


def plain_noise(X):
    """Callables that add plain noise, by name; one array is all that they make."""

    def add(rng, law):
        noise = getattr(rng, law)(size=X.shape)
        noise *= SIGMA
        noise += X

    rng = np.random.default_rng(0)
    aes = np.random.Generator(NoiseStreams(0, 0).stream(0))
    return {
        "PCG64 normals": lambda: add(rng, "standard_normal"),
        "AES normals": lambda: add(aes, "standard_normal"),
        "PCG64 Laplace": lambda: add(rng, "laplace"),
    }


def transforms(X, mechanisms):
    """Rows of name and seconds of `transform`."""
    for name, function in plain_noise(X).items():
        yield name, best(function)
    for name, mechanism in mechanisms.items():
        with threadpool_limits(1):
            yield f"{name}, 1 thread", best(lambda m=mechanism: m.transform(X))
        threads = f"{name}, {effective_n_threads()} threads"
        yield threads, best(lambda m=mechanism: m.transform(X))


def peaks(X, mechanisms):
    """Rows of name and peak memory, the result included, in sizes of `X`."""
    calls = {"PCG64 normals": plain_noise(X)["PCG64 normals"]}
    calls |= {m: lambda m=m: mechanisms[m].transform(X) for m in mechanisms}
    for name, function in calls.items():
        tracemalloc.start()
        function()
        yield name, tracemalloc.get_traced_memory()[1] / X.nbytes
        tracemalloc.stop()


def rotation(shape):
    """Rows of name and seconds for one sample, rotated in its first mode."""
    rng = np.random.default_rng(2)
    X, size = rng.uniform(-1, 1, (1, *shape)), shape[0]
    directions = [np.linalg.qr(rng.standard_normal((size, size)))[0], None]
    rotated = dp.TensorVariateGaussian(
        directions=directions, utility=[rng.uniform(0.1, 1, size), None], bounds=(-1, 1)
    )
    yield "mode_products", best(lambda: mode_products(X, directions), 10)
    yield "fit, once", best(lambda: rotated.fit(X), 1)  # long for many directions
    yield "transform (whitens, draws, colours)", best(lambda: rotated.transform(X))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environments", type=Path, help="where the environments are")
    parser.add_argument("--no-peers", action="store_true", help="this library alone")
    parser.add_argument("--small", action="store_true", help="a quick smoke run")
    arguments = parser.parse_args()
    small = arguments.small
    print(f"{platform.machine()}, {os.cpu_count()} cores, NumPy {np.__version__}")
    n = 200_000 if small else 10_000_000
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.environments or Path(temporary)
        for law in LAWS:
            rows = list(samplers(law, n))
            if not arguments.no_peers:
                rows += peers(law, n // 100, folder)
            title = f"{law} noise, one thread, {n:,} values"
            print_table(title, "million/s", rows, ("PCG64", "AESCounter"))

    X = np.random.default_rng(3).uniform(size=(20 if small else 1000, 100, 100))
    box = {"bounds": (0, 1)}
    weighted = dp.TensorVariateGaussian(utility=[np.linspace(0.1, 1, 100)] * 2, **box)
    gaussian = {
        "Gaussian, bounds": dp.GaussianMechanism(**box),
        "Gaussian, norm_bound": dp.GaussianMechanism(norm_bound=1.0),
        "TensorVariateGaussian, weights": weighted,
    }
    laplace = {"Laplace, bounds": dp.LaplaceMechanism(**box)}
    everything = gaussian | laplace
    for mechanism in everything.values():
        mechanism.fit(X)  # imports what the accounting needs, too
    bases = "PCG64 normals", "AES normals", "PCG64 Laplace"
    for values, chosen in ((X, gaussian), (X[: len(X) // 10], laplace)):
        title = f"transform, {values.size:,} values"
        print_table(title, "s", transforms(values, chosen), bases)
    title = f"Peak memory of transform, {X.nbytes / 1e6:g} MB"
    print_table(title, "arrays", peaks(X, everything), bases[:1])
    shape = (392, 64) if small else (3136, 512)
    title = f"Rotated noise, one sample of {shape}"
    print_table(title, "s", rotation(shape), ("mode_products",))


if __name__ == "__main__":
    main()
