#!/usr/bin/env python3
"""Run the experiments of the five papers and write their tables to doc/results.md.

    python doc/make_results.py --ratings FILE

This takes 23 minutes on two cores that do other work too. FILE has film ratings (a
header, then user, item, rating and seconds, as in MovieLens); the tables in
doc/results.md are of latest-small, the edition of 2016. Without FILE, the study of
ratings is left out. Runs without a seed draw fresh noise, so the last digits of their
tables differ every time.
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
SIMULATIONS = "--epsilons 0.5 1 2 4 8 16 32 64 --missing 0.1 0.3 0.5 0.7 0.9"
EXPERIMENTS = {
    "All claims: claimed, true, and proved by an audit": [
        f"papers/which_claims.py {SEED} --trials 100000",
    ],
    "Tensor-valued queries (Yang, Xiang, Chen, Li and Li 2021)": [
        f"papers/mechanism_errors.py {SEED} --shapes 3 --values 2000000",
        "private_gradients.py",
        "directional_digits.py",
        f"papers/private_test_features.py {SEED} --epsilons 1 2 4 8 16 32 64 128"
        " --repeats 5",
        f"papers/covariance.py {SEED} --epsilons 0.1 0.3 1 3 10 --repeats 50",
    ],
    "Matrix Gaussian mechanisms (Yang, Xiang, Yu et al.)": [
        f"papers/federated_gradients.py {SEED} --runs 5 --epsilons 0.5 1 2 4 8",
        f"papers/vertical_features.py {SEED} --runs 20 --epsilons 0.5 1 2 4 8 16",
    ],
    "Local privacy for tensors (Yuan, Tang, Huang and Wang)": [
        f"papers/tensor_response.py {SEED} --splits 5 --all-epsilons",
        "local_digits.py",
        "local_mean.py",
    ],
    "Tensor completion (Wei, Li, Mao and Wang 2022)": [
        f"papers/simulation_study.py --realisations 10 {SIMULATIONS}",
        f"papers/simulation_study.py --realisations 5 {SIMULATIONS}"
        " --decomposition tucker",
        f"papers/ratings_study.py {RATINGS} --epsilons 0.5 1 2 4 8 16 --splits 2",
        f"complete_ratings.py {RATINGS} {SEED}",
    ],
    "Task-aware encoding (Cheng, Tang and Chinchali 2022)": [
        f"papers/task_aware.py {SEED} --splits 2 --algorithm-one once --jobs 2"
        " --data load diabetes breast-cancer digits",
    ],
}
HEAD = """\
# Results: the papers' experiments

This page shows what privacy costs in accuracy in the experiments of the five papers that this library
implements, and what an audit proves about every claim.

## Ratings at a glance

Held-out RMSE on MovieLens latest-small (the edition of 2016: 671 users, 9,066 films, 100,004 ratings on
ten half-star levels), mean of five random 90/10 splits, from

```bash
python examples/complete_ratings.py --ratings ratings.csv --splits 5 --random-state 0
```

| without privacy | RMSE |
|---|---|
| global mean | 1.058 |
| user and item biases | 0.884 |
| CP of rank 10 with biases | 0.859 |
| the same with the pattern: who rated what | 0.837 |

| epsilon of one rating | 0.5 | 1 | 2 | 4 | 8 | 16 |
|---|---|---|---|---|---|---|
| Laplace noise on every rating (`"input"`, `value_bounds`) | 0.986 | 0.950 | 0.916 | 0.880 | 0.858 | 0.844 |
| table of least variance for every rating (`"input"`, `levels`) | 0.961 | 0.923 | 0.881 | 0.851 | 0.838 | 0.837 |
| sums by user and by film (`"sums"`) | 0.923 | 0.910 | 0.901 | 0.894 | 0.888 | 0.886 |
| sums and right-hand sides (`"statistics"`) | 0.930 | 0.911 | 0.896 | 0.884 | 0.873 | 0.867 |
| the default (`perturbation="auto"`) | 0.923 | 0.910 | 0.881 | 0.851 | 0.838 | 0.837 |

At epsilon 4 we aim at 0.860 or less, and reach 0.851.

![Held-out error over epsilon: every method approaches the fit without noise](images/trade_off.png)

Who rated what is public here, and says much about the ratings; `n_pattern_components=0` makes no use of it.
For the tables in which whole users are protected, see
[Protect whole users](users.md#what-it-reaches-on-real-ratings).

## Beside published figures

RMSE on splits for which others published results without privacy (Monti, Bronstein and Bresson 2017; the files are
in the repository `riannevdberg/gc-mc`). Our rows protect each rating, or nothing, and every parameter has its
default. With noise, they are means of three seeds. They come from

```bash
python tests/benchmarks/bench_published.py douban.npz flixster.npz yahoo_music.npz
```

| method | Douban | Flixster | YahooMusic |
|---|---|---|---|
| IMC-GAE (README of `swtheing/IMC-GAE`) | 0.7211 | 0.8838 | 18.7018 |
| GLocal-K (README of `usydnlp/Glocal_K`) | 0.7208 | | |
| `CPCompletion`, no noise | 0.7171 | 0.8664 | 18.82 |
| `CPCompletion`, epsilon 16 | 0.7171 | 0.8664 | 18.94 |
| `CPCompletion`, epsilon 4 | 0.7237 | 0.8796 | 19.53 |
| `CPCompletion`, epsilon 1 | 0.7818 | 0.9598 | 20.97 |

The figures of IMC-GAE and GLocal-K choose among epochs, some of them on the test part. Ours choose nothing, and take
0.3 to 8 seconds of processor time without noise, on an AMD EPYC.

## How to read the other tables

They come from this command:

```bash
python doc/make_results.py --ratings ratings.csv
```

It ran on {made}.

- Above each table is the command that makes it, with a link to the example's page in the
  [gallery](auto_examples/index.rst). That page says who is protected, what differs from the paper and what
  every row means.
- The guarantee of every row holds, unless the row is labelled as published or claimed; then the true
  epsilon stands beside it.
- Only runs with a seed give the same digits again.
- Sentences in the tables, such as guarantees, are as the run printed them. Later versions may say the same
  in other words.
- `ratings.csv` is MovieLens latest-small as above. If you have a paper's own data, pass them with `--data`
  or `--ratings` where a script has the option.
"""  # noqa: E501


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
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        check=True, cwd=ROOT, text=True, stdout=subprocess.PIPE,
    ).stdout.strip()  # fmt: skip
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
    made = (
        f"{datetime.date.today()}, at commit {commit}, in {minutes:.0f} minutes on "
        f"{os.cpu_count()} cores\n({platform.machine()}), with Python "
        f"{platform.python_version()}, {versions}"
    )
    head = HEAD.format(made=made)
    (ROOT / "doc" / "results.md").write_text("\n".join([head, *parts]))


if __name__ == "__main__":
    main()
