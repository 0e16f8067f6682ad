#!/usr/bin/env python3
"""Measure all that the results page shows, write doc/results.json, and fill the pages.

    python doc/make_results.py --ratings FILE --choices MSWEB STEAM
        --published DOUBAN FLIXSTER YAHOO_MUSIC

One command, at most 25 minutes on two cores. It prints what is done, stores every run
as soon as it ends, and leaves out the runs that are stored for the same code already,
so you can stop it and start it again. `--anew` measures everything again.

FILE has film ratings (a header, then user, item, rating and seconds): MovieLens
latest-small, the edition of 2016. The other files keep their names, and are described
in tests/benchmarks/bench_synthetic.py and bench_published.py. Without the files, the
stored runs on them stay as they are.

Beside the printed tables, it stores their figures (doc/figures.py), which
doc/compare_results.py compares with those of an earlier commit. A script with the
option `--table FILE` writes the score of every seed there.

The pages are filled by doc/make_pages.py, which measures nothing.
"""

import argparse
import datetime
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path

from figures import figures_of, scores_of

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "doc" / "results.json"
LIBRARIES = "numpy", "scipy", "scikit-learn", "tensorly", "dp-accounting"
SEED = "--random-state 0"
RATINGS = "--ratings ratings.csv"
SIMULATIONS = "--epsilons 0.5 1 2 4 8 16 32 64 --missing 0.1 0.3 0.5 0.7 0.9"
PAPERS = "examples/papers"
# The runs, by the name under which pages ask for them. The longest come first.
RUNS = {
    "tucker": f"{PAPERS}/simulation_study.py --realisations 5 {SIMULATIONS}"
    " --decomposition tucker",
    "claims": f"{PAPERS}/which_claims.py {SEED} --trials 100000",
    "ratings study": f"{PAPERS}/ratings_study.py {RATINGS}"
    " --epsilons 0.5 1 2 4 8 16 --splits 2",
    "encoding": f"{PAPERS}/task_aware.py {SEED} --splits 2 --algorithm-one once"
    " --data load diabetes breast-cancer digits",
    "published": "tests/benchmarks/bench_published.py"
    " douban.npz flixster.npz yahoo_music.npz",
    "ratings": f"examples/complete_ratings.py {RATINGS} {SEED} --splits 5"
    " --levels 0.5 5 0.5",
    "cp": f"{PAPERS}/simulation_study.py --realisations 10 {SIMULATIONS}",
    "federated": f"{PAPERS}/federated_gradients.py {SEED} --runs 5"
    " --epsilons 0.5 1 2 4 8",
    "response": f"{PAPERS}/tensor_response.py {SEED} --splits 5 --all-epsilons",
    "users": f"examples/user_privacy.py {RATINGS} {SEED} --splits 5",
    "choices": f"examples/recommend_from_choices.py {SEED}",
    "synthetic": "tests/benchmarks/bench_synthetic.py msweb.npz steam.npz",
    "gradients": "examples/private_gradients.py",
    "errors": f"{PAPERS}/mechanism_errors.py {SEED} --shapes 3 --values 2000000",
    "vertical": f"{PAPERS}/vertical_features.py {SEED} --runs 20"
    " --epsilons 0.5 1 2 4 8 16",
    "local mean": "examples/local_mean.py",
    "test features": f"{PAPERS}/private_test_features.py {SEED}"
    " --epsilons 1 2 4 8 16 32 64 128 --repeats 5",
    "covariance": f"{PAPERS}/covariance.py {SEED} --epsilons 0.1 0.3 1 3 10"
    " --repeats 50",
    "directional": "examples/directional_digits.py",
}


def cells_of(line):
    """The label of a printed row, and its cells.

    Two spaces part cells. One space is enough between numbers with deviations, whose
    columns are narrow.
    """
    label, *cells = re.split(r" {2,}", line.strip())
    return label, [
        cell
        for piece in cells
        for cell in (piece.split() if piece.count("±") > 1 else [piece])
    ]


def tables_of(text):
    """The tables in a printed text: each paragraph that has a line with cells.

    A table has the lines before its first row with cells as `title`, that row as
    `head`, and all others as `rows`. A head without a label has one cell less than
    rows that have one.
    """
    tables = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        lines = [cells_of(line) for line in paragraph.splitlines()]
        first = next((n for n, (_, cells) in enumerate(lines) if cells), None)
        if first is None:
            continue
        (label, cells), rows = lines[first], lines[first + 1 :]
        if rows and all(len(row) == len(cells) + 1 for _, row in rows):
            label, cells = "", [label, *cells]
        title = " ".join(before for before, _ in lines[:first])
        table = {"title": title, "head": [label, cells], "rows": list(map(list, rows))}
        tables.append(table)
    return tables


def with_figures(name, run, scores=None):
    """A run as it is stored: every table has its figures."""
    tables = [
        table | {"figures": figures_of(name, run["command"], table, scores)}
        for table in run["tables"]
    ]
    return run | {"tables": tables}


def code_of(command):
    """A hash of the package and of the script: whether a stored run still counts."""
    files = [*sorted((ROOT / "sktensordp").rglob("*.py")), ROOT / command.split()[0]]
    found = hashlib.sha256(command.encode())
    for file in files:
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def needs(command):
    """Names of the files of data that a command reads."""
    return re.findall(r"\w+\.(?:csv|npz)", command)


def measure(name, command, files, folder):
    """Run a command, and return what is stored of it, with its processor time."""
    script, *arguments = command.split()
    arguments = [str(files.get(one, one)) for one in arguments]
    written = Path(folder, f"{code_of(command)}.csv")
    for option, file in ("--output", written.with_suffix(".png")), ("--table", written):
        if f'"{option}"' in (ROOT / script).read_text():
            arguments += [option, str(file)]
    environment = {
        **os.environ,
        "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    with tempfile.TemporaryFile("w+", encoding="utf-8") as printed:
        process = subprocess.Popen(
            [sys.executable, ROOT / script, *arguments],
            stdout=printed,
            env=environment,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        printed.seek(0)
        lines = [line.rstrip() for line in printed.read().splitlines()]
    text = "\n".join(line for line in lines if not line.startswith("Picture"))
    run = {
        "command": command,
        "code": code_of(command),
        "commit": commit(),
        "seconds": round(used.ru_utime + used.ru_stime),
        "tables": tables_of(text),
    }
    return with_figures(name, run, scores_of(written) if written.exists() else None)


def commit():
    """The commit of the code that is measured."""
    return subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        check=True, cwd=ROOT, text=True, stdout=subprocess.PIPE,
    ).stdout.strip()  # fmt: skip


def read():
    """What is stored."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {"runs": {}}


def write(stored):
    """Store the runs in the order in which they are listed, and where they were made.

    The file is replaced as a whole, so that a program which is stopped leaves a whole
    file.
    """
    made = {
        "date": str(datetime.date.today()),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
    }
    runs = {name: stored["runs"][name] for name in RUNS if name in stored["runs"]}
    part = RESULTS.with_suffix(".part")
    text = json.dumps({"made": made, "runs": runs}, indent=1, ensure_ascii=False)
    # A row of a table, or a figure, in one line.
    text = re.sub(r"\[\s+((?:(?:\"[^\"]*\"|null|[-+.\de]+),?\s+)+)\]", one_line, text)
    text = re.sub(r"\[\s+(\"[^\"]*\"),\s+(\[[^\]]*\])\s+\]", r"[\1, \2]", text)
    part.write_text(text + "\n")
    part.replace(RESULTS)


def one_line(match):
    """A list of texts in one line."""
    return "[" + re.sub(r",\s+", ", ", match[1].strip()) + "]"


def main():
    """Measure what is missing, and fill the pages."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ratings", type=Path, metavar="FILE", help="film ratings")
    parser.add_argument(
        "--published", type=Path, nargs=3, default=[], metavar="FILE",
        help="the splits of Douban, Flixster and YahooMusic",
    )  # fmt: skip
    parser.add_argument(
        "--choices", type=Path, nargs=2, default=[], metavar="FILE",
        help="visits of a website, and purchases of games",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--anew", action="store_true", help="measure everything again")
    arguments = parser.parse_args()
    files = {path.name: path for path in arguments.published + arguments.choices}
    if arguments.ratings:
        files["ratings.csv"] = arguments.ratings.resolve()
    stored, start, failed = read(), time.monotonic(), []
    missing = {
        name: command
        for name, command in RUNS.items()
        if set(needs(command)) <= files.keys()
        and (
            arguments.anew
            or stored["runs"].get(name, {}).get("code") != code_of(command)
        )
    }
    print(f"{len(missing)} of {len(RUNS)} runs to measure", flush=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        ThreadPoolExecutor(arguments.jobs) as pool,
    ):
        waiting = {
            pool.submit(measure, name, command, files, folder): name
            for name, command in missing.items()
        }
        for number, done in enumerate(as_completed(waiting), start=1):
            name = waiting[done]
            if done.exception() is None:
                stored["runs"][name] = done.result()
                write(stored)
                said = f"{stored['runs'][name]['seconds']:5d} s"
            else:
                failed.append(name)
                print(done.exception(), file=sys.stderr)
                said = "failed "
            print(f"[{number}/{len(missing)}] {said}  {name}", flush=True)
    print(f"{(time.monotonic() - start) / 60:.0f} minutes", flush=True)
    if failed:
        parser.exit(1, f"failed, run it again: {', '.join(failed)}\n")
    subprocess.run([sys.executable, ROOT / "doc" / "make_pages.py"], check=True)


if __name__ == "__main__":
    main()
