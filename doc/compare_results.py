#!/usr/bin/env python3
"""Name the stored figures that became worse from one landing to the next.

    python doc/compare_results.py OLD [NEW]

OLD and NEW are files such as doc/results.json, or commits that have one; NEW is the
file in the working tree if it is left out. A figure became worse if it moved in its
worse direction by more than 0.3% and by more than two standard errors. If neither has a
standard error, which is so after a run with one seed, 0.3% is enough. The standard
error is the larger of the two. Both have the same seeds and splits, so their difference
varies less than that. Runs whose command changed have others, and are not compared.

The exit status is 1 if a figure became worse. Figures that are new or gone, and those
that changed but are neither good nor bad, are listed, too.
"""

import argparse
import json
import subprocess
from pathlib import Path

from figures import figures_of

ROOT = Path(__file__).parent.parent
RESULTS = "doc/results.json"
SHARE, ERRORS = 0.003, 2


def read(where):
    """The runs that are stored in a file, or at a commit."""
    if Path(where).is_file():
        return json.loads(Path(where).read_text(encoding="utf-8"))["runs"]
    shown = subprocess.run(
        ["git", "show", f"{where}:{RESULTS}"],
        check=True, cwd=ROOT, text=True, encoding="utf-8", stdout=subprocess.PIPE,
    )  # fmt: skip
    return json.loads(shown.stdout)["runs"]


def figures(name, run):
    """The figures of a run, by table, row and column.

    Runs that were stored without figures have those that can be read in their tables.
    """
    return {
        (number, label, column): found
        for number, table in enumerate(run["tables"], start=1)
        for label, column, *found in table.get("figures")
        or figures_of(name, run["command"], table)
    }


def change(old, new):
    """How a figure changed: "worse", "other" (neither good nor bad), or None."""
    (before, *_), (after, _, better) = old, new
    # Numbers are rounded, and sums of them are a little off.
    if abs(after - before) <= (SHARE + 1e-9) * abs(before):
        return None
    if better is None:
        return "other"
    loss = after - before if better == "lower" else before - after
    error = max(old[1] or 0, new[1] or 0)
    return "worse" if loss > (ERRORS + 1e-9) * error else None


def compare(old, new):
    """Lines about the figures of two stored results, by what became of them."""
    found = {"worse": [], "other": [], "gone": [], "new": [], "command": []}
    found["gone"] += [f"{name}: the whole run" for name in old.keys() - new.keys()]
    found["new"] += [f"{name}: the whole run" for name in new.keys() - old.keys()]
    for name in (name for name in new if name in old):
        if old[name]["command"] != new[name]["command"]:
            found["command"].append(name)
            continue
        before, after = figures(name, old[name]), figures(name, new[name])
        found["gone"] += [_said(name, key) for key in before if key not in after]
        found["new"] += [_said(name, key) for key in after if key not in before]
        for key in (key for key in before if key in after):
            if (kind := change(before[key], after[key])) is not None:
                text = _difference(before[key], after[key])
                found[kind].append(f"{_said(name, key)}: {text}")
    return found


def _said(name, key):
    """A figure's place, in words."""
    number, label, column = key
    return f"{name}, table {number}, {label}" + (f" | {column}" if column else "")


def _difference(old, new):
    """Both numbers, with the difference in per cent and in standard errors."""
    (before, *_), (after, *_) = old, new
    text = f"{before:g} -> {after:g}"
    if before:
        text += f" ({100 * (after / before - 1):+.1f}%"
        error = max(old[1] or 0, new[1] or 0)
        text += (
            f", {abs(after - before) / error:.1f} standard errors)" if error else ")"
        )
    return text


HEADS = {
    "worse": "Worse",
    "other": "Changed, neither good nor bad",
    "gone": "Gone",
    "new": "New",
    "command": "Not compared, because the command changed",
}


def main():
    """Print what became of the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", metavar="OLD", help="a file, or a commit")
    parser.add_argument("new", metavar="NEW", nargs="?", default=ROOT / RESULTS)
    arguments = parser.parse_args()
    found = compare(read(arguments.old), read(arguments.new))
    for kind, lines in found.items():
        if lines:
            print(f"{HEADS[kind]}: {len(lines)}")
            print("".join(f"  {line}\n" for line in sorted(lines)))
    if not found["worse"]:
        print("No figure became worse.")
    parser.exit(1 if found["worse"] else 0)


if __name__ == "__main__":
    main()
