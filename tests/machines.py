"""Run the tests as other machines would: other threads, instructions, linear algebra.

Every setting is one run of pytest with environment variables of its own::

    python -m tests.machines                      # all but slow tests
    python -m tests.machines --only Numba -- -m slow
    python -m tests.machines --together           # one run at all settings at once

What follows ``--`` goes to pytest. Compiled functions are cached in a folder of each
setting's own. The exit status is that of the worst run.

Numba, NumPy and OpenBLAS ignore instructions that the processor lacks: on one without
AVX2, for example, the last settings equal the first.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
SETTINGS = {
    "one thread": dict.fromkeys(THREADS, "1"),
    "two threads": dict.fromkeys(THREADS, "2"),
    "Numba for any processor": {"NUMBA_CPU_NAME": "generic"},
    "NumPy for any processor": {},  # the features are known where NumPy is imported
    "BLAS for Prescott": {"OPENBLAS_CORETYPE": "Prescott"},
    "BLAS for Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
}
TOGETHER = (
    "one thread", "Numba for any processor", "NumPy for any processor",
    "BLAS for Prescott",
)  # fmt: skip


def numpy_features() -> str:
    """Names of the instructions that NumPy found here and can do without."""
    import numpy as np

    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return " ".join(found)


def run(name: str, variables: dict[str, str], options: list[str]) -> int:
    """Run pytest with these environment variables; return its exit status."""
    stated = " ".join(f'{key}="{value}"' for key, value in variables.items())
    print(f"\n=== {name}: {stated}", flush=True)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | variables | {"NUMBA_CACHE_DIR": cache}
        status = subprocess.call(
            [sys.executable, "-m", "pytest", "-q", *options], env=environment
        )
    minutes = (time.perf_counter() - start) / 60
    print(f"=== {name}: exit status {status} after {minutes:.1f} minutes", flush=True)
    return status


def main() -> int:
    """Run the settings that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="part of the names of settings")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("options", nargs="*", help="those of pytest, after --")
    args = parser.parse_args()
    settings = dict(SETTINGS)
    if features := numpy_features():
        settings["NumPy for any processor"] = {"NPY_DISABLE_CPU_FEATURES": features}
    else:
        del settings["NumPy for any processor"]
    if args.together:
        together = [settings[name] for name in TOGETHER if name in settings]
        settings = {"together": {k: v for each in together for k, v in each.items()}}
    options = args.options or ["-m", "not slow"]
    chosen = {name: each for name, each in settings.items() if args.only in name}
    if not chosen:
        parser.error(f"--only: one of {', '.join(settings)}, or a part of it")
    statuses = {name: run(name, each, options) for name, each in chosen.items()}
    print()
    for name, status in statuses.items():
        print(f"{name:26}{'passed' if status == 0 else f'failed ({status})'}")
    return max(statuses.values())


if __name__ == "__main__":
    sys.exit(main())
