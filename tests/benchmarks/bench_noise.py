"""Speed of the samplers beside naive floating-point noise, in the same run.

The naive additions are what the samplers replace: they are fast and betray the
values by their low-order bits. Both sides draw from the same kind of stream, and
naive noise from NumPy's default stream is shown as well. One thread.

    python tests/benchmarks/bench_noise.py [number of values, in millions]
"""

import sys
from time import perf_counter

import numpy as np

from sktensordp._random import NoiseStreams
from sktensordp.noise import discrete_laplace, gaussian_lattice, laplace_lattice

BLOCK = 2**16  # values are randomised in blocks of this size
REPEATS = 3


def millions_per_second(draw, n_values, make_stream):
    """Best of some runs over all blocks."""
    seconds = []
    for _ in range(REPEATS):
        begin = perf_counter()
        for block, start in enumerate(range(0, n_values, BLOCK)):
            draw(make_stream(block), slice(start, start + BLOCK))
        seconds.append(perf_counter() - begin)
    return n_values / min(seconds) / 1e6


def benchmark(n_values):
    """Rows of name, millions of values a second, and the name of the naive row."""
    source = NoiseStreams(0, 0)
    fast = np.random.default_rng(0).bit_generator
    x = np.random.default_rng(1).uniform(size=n_values)
    out = np.empty(n_values)
    laplace = laplace_lattice(0.0, 1.0, 1.0)
    gaussian = gaussian_lattice(1.0, n_values, 1.0, 1e-6)

    def naive_laplace(bits, part):
        out[part] = x[part] + np.random.Generator(bits).laplace(size=x[part].size)

    def naive_gaussian(bits, part):
        out[part] = x[part] + np.random.Generator(bits).normal(size=x[part].size)

    def integers(numerator, denominator):
        return lambda bits, part: discrete_laplace(
            bits, numerator, denominator, x[part].size
        )

    def lattice(mechanism):
        def draw(bits, part):
            mechanism.randomize(x[part], bits, out=out[part])

        return draw

    base = "x + Generator.laplace", "x + Generator.normal"
    cases = [
        (base[0], naive_laplace, source.stream, base[0]),
        (base[0] + ", PCG64", naive_laplace, lambda _: fast, base[0]),
        ("discrete_laplace, rate 1e-6", integers(1, 10**6), source.stream, base[0]),
        ("discrete_laplace, rate 1", integers(1, 1), source.stream, base[0]),
        ("LaplaceLattice.randomize", lattice(laplace), source.stream, base[0]),
        (base[1], naive_gaussian, source.stream, base[1]),
        (base[1] + ", PCG64", naive_gaussian, lambda _: fast, base[1]),
        ("GaussianLattice.randomize", lattice(gaussian), source.stream, base[1]),
    ]
    for name, draw, make_stream, naive in cases:
        yield name, millions_per_second(draw, n_values, make_stream), naive


def main():
    n_values = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 2_000_000
    print(f"{n_values:,} values in blocks of {BLOCK:,}; best of {REPEATS}")
    print(f"{'':32}{'million/s':>10}{'naive/this':>12}")
    speeds = {}
    for name, speed, naive in benchmark(n_values):
        speeds[name] = speed
        print(f"{name:32}{speed:10.1f}{speeds[naive] / speed:12.2f}", flush=True)


if __name__ == "__main__":
    main()
