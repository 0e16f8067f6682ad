#!/usr/bin/env python3
"""Write doc/figures_of_papers.md: which command reproduces which figure of the papers.

    python doc/make_paper_figures.py [--measure [TEXT ...]]

The facts are in doc/paper_figures.toml, and the times in doc/paper_times.json. With
`--measure` the commands are run, or those that have one of the texts, and their
processor times are stored; commands that need files of the reader are left out.
"""

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "doc" / "figures_of_papers.md"
FACTS = ROOT / "doc" / "paper_figures.toml"
TIMES = ROOT / "doc" / "paper_times.json"
SCRIPTS = "examples/papers"
KEYS = {"command", "data", "differs"}, {"absent"}


def facts():
    """The introduction, the papers' names, and every figure."""
    found = tomllib.loads(FACTS.read_text(encoding="utf-8"))
    for figure in found["figure"]:
        keys = figure.keys() - {"paper", "shows", "files"}
        if keys not in KEYS or figure["paper"] not in found["papers"]:
            raise ValueError(f"a figure has other keys than it should: {figure}")
    return found["introduction"], found["papers"], found["figure"]


def commands():
    """The commands that can be timed."""
    return list(
        dict.fromkeys(
            figure["command"]
            for figure in facts()[2]
            if "command" in figure and not figure.get("files")
        )
    )


def said(seconds):
    """A time as one says it."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min"


def table(head, rows):
    """A table in Markdown."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def page():
    """The text of the page."""
    introduction, papers, figures = facts()
    times = json.loads(TIMES.read_text(encoding="utf-8"))
    parts = [introduction]
    for name, title in papers.items():
        rows, absent = [], []
        for figure in (one for one in figures if one["paper"] == name):
            if "absent" in figure:
                absent.append(f"- **{figure['shows']}**: {figure['absent']}.")
                continue
            command = figure["command"]
            time = said(times[command]) if command in times else "not measured"
            rows.append(
                (
                    figure["shows"], f"`python {SCRIPTS}/{command}`", figure["data"],
                    figure["differs"], time,
                )
            )  # fmt: skip
        head = "figure or table", "command", "data", "what differs", "time"
        parts.append(f"## {title}\n\n{table(head, rows)}\n")
        if absent:
            parts.append("Not there:\n\n" + "\n".join(absent) + "\n")
    return "\n".join(parts)


def measure(texts):
    """Run commands and store their processor times."""
    times = json.loads(TIMES.read_text()) if TIMES.exists() else {}
    known = commands()
    times = {command: times[command] for command in known if command in times}
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"} | threads
    for command in known:
        if texts and not any(text in command for text in texts):
            continue
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, *shlex.split(f"{SCRIPTS}/{command}")],
            check=True, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = sum(
            getattr(after, kind) - getattr(before, kind)
            for kind in ("ru_utime", "ru_stime")
        )
        times[command] = round(seconds, 1)
        print(f"{seconds:8.1f} s  {command}", flush=True)
        TIMES.write_text(json.dumps(times, indent=1) + "\n", encoding="utf-8")


def main():
    """Measure if asked to, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", nargs="*", metavar="TEXT")
    arguments = parser.parse_args()
    if arguments.measure is not None:
        measure(arguments.measure)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
