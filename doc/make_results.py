#!/usr/bin/env python3
"""Run the experiments of the five papers and write their tables to doc/results.md.

    python doc/make_results.py --ratings FILE

takes 23 minutes on two cores that do other work too. FILE has film ratings (a header,
then user, item, rating and seconds, as MovieLens has them; the tables here are of
latest-small, the edition of 2016); without it, the study of ratings is left out. Noise
that has no seed below is drawn afresh, so that the last digits of a table differ in
every run.
"""

import argparse
import datetime
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIBRARIES = "sktensordp", "numpy", "scipy", "scikit-learn", "tensorly", "dp-accounting"
SEED = "--random-state 0"
RATINGS = "--ratings ratings.csv"
EXPERIMENTS = {
    "All five papers: claimed, true, and proved by an audit": [
        f"which_claims.py {SEED}",
    ],
    "Tensor-valued queries (Yang, Xiang, Chen, Li and Li 2021)": [
        f"mechanism_errors.py {SEED}",
        "private_gradients.py",
        f"directional_digits.py {SEED}",
        f"private_test_features.py {SEED}",
        f"covariance.py {SEED}",
    ],
    "Matrix Gaussian mechanisms (Yang, Xiang, Yu et al.)": [
        f"federated_gradients.py {SEED}",
        f"vertical_features.py {SEED}",
    ],
    "Local privacy for tensors (Yuan, Tang, Huang and Wang)": [
        f"tensor_response.py {SEED}",
        f"local_digits.py {SEED}",
        f"local_mean.py {SEED}",
    ],
    "Tensor completion (Wei, Li, Mao and Wang 2022)": [
        "simulation_study.py --realisations 10",
        "simulation_study.py --realisations 5 --decomposition tucker",
        f"ratings_study.py {RATINGS}",
        f"complete_ratings.py {RATINGS} {SEED}",
    ],
    "Task-aware encoding (Cheng, Tang and Chinchali 2022)": [
        f"task_aware.py {SEED}",
    ],
}


def tables_of(command, ratings, folder):
    """What an example prints, and the seconds that it took."""
    script, *arguments = command.split()
    arguments = [str(ratings) if one == "ratings.csv" else one for one in arguments]
    if "--output" in (ROOT / "examples" / script).read_text():
        arguments += ["--output", str(Path(folder, "picture.png"))]
    start = time.monotonic()
    finished = subprocess.run(
        [sys.executable, ROOT / "examples" / script, *arguments],
        check=True, text=True, stdout=subprocess.PIPE,
        env={**os.environ, "MPLBACKEND": "Agg"},
    )  # fmt: skip
    lines = finished.stdout.rstrip().splitlines()
    lines = [line.rstrip() for line in lines if not line.startswith("Picture")]
    return "\n".join(lines).strip("\n"), time.monotonic() - start


def main():
    """Run all, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ratings", type=Path, metavar="FILE", help="film ratings")
    ratings = parser.parse_args().ratings
    start, parts = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        for title, commands in EXPERIMENTS.items():
            parts.append(f"## {title}\n")
            for command in commands:
                if RATINGS in command and ratings is None:
                    continue
                text, seconds = tables_of(command, ratings, folder)
                print(f"{seconds:6.0f} s  {command}", flush=True)
                name = command.split(".py")[0]
                parts.append(
                    f"[`python examples/{command}`](auto_examples/{name}.rst),"
                    f" {seconds:.0f} seconds:\n\n```text\n{text}\n```\n"
                )
    minutes = (time.monotonic() - start) / 60
    versions = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    head = f"""# The papers' experiments

Made by

```bash
python doc/make_results.py --ratings ratings.csv
```

on {datetime.date.today()}, in {minutes:.0f} minutes on {os.cpu_count()} cores ({platform.machine()}),
with Python {platform.python_version()}, {versions}.

What is protected, what departs from the paper, and what every row means is said by the script of
each table; the [gallery](auto_examples/index.rst) has them with their pictures. Every row stands
at a guarantee that is true, unless it is labelled as published or claimed: then the true epsilon
is beside it. Only seeded runs repeat their digits; the paper's own data go in by `--data` or
`--ratings` where a script has them.
"""  # noqa: E501
    (ROOT / "doc" / "results.md").write_text("\n".join([head, *parts]))


if __name__ == "__main__":
    main()
