"""``python -m sktensordp.privacy FILE`` prints the releases in the file of a budget."""

import argparse
import csv
import json
import math
import sys
from datetime import UTC, datetime
from typing import Any

from ._numbers import epsilon_line
from .budgets._budget import PrivacyBudget, budget_of_file
from .budgets._open import patient


def main() -> int:
    """Print a budget, its head, and its releases one by one."""
    parser = argparse.ArgumentParser(
        prog="python -m sktensordp.privacy",
        description="Print a privacy budget, and what it has recorded.",
    )
    parser.add_argument("file", help="the path of a PrivacyBudget")
    parser.add_argument(
        "--since",
        type=_time,
        metavar="TIME",
        help="show releases from this time on, such as 2026-11-01 (UTC)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="the releases as CSV")
    form.add_argument("--json", action="store_true", help="everything as JSON")
    options = parser.parse_args()
    try:
        budget = patient(budget_of_file)(options.file)
        text, head = str(budget), budget.head
        rows = budget.history(as_frame=False)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    if options.since is not None:
        rows = [r for r in rows if datetime.fromisoformat(r["time"]) >= options.since]
    if options.json:
        print(json.dumps(_summary(budget) | {"head": head, "releases": rows}, indent=1))
    elif options.csv:
        from .budgets._file import SHOWN

        writer = csv.writer(sys.stdout, lineterminator="\n")
        # What was done is nested, and the number of columns must not depend on it.
        names = [name for name in SHOWN if name != "event"]
        writer.writerow(names)
        writer.writerows([row[name] for name in names] for row in rows)
    else:
        print(f"{text}\nHead: {head}")
        print("".join(f"{_line(row)}\n" for row in rows), end="")
    return 0


def _time(text: str) -> datetime:
    """A time in UTC, unless the text says otherwise."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _summary(budget: PrivacyBudget) -> dict[str, Any]:
    """What a budget is, and what is left of it; None for an infinite number."""
    spent = budget.spent
    numbers = {
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "spent_if_planned": 0.0 if spent is None else spent.epsilon,
        "remaining": budget.remaining,
    }
    shown = {name: x if math.isfinite(x) else None for name, x in numbers.items()}
    return shown | {"unprotected": budget.unprotected}


def _line(row: dict[str, Any]) -> str:
    """One release in a line of text."""
    spent = "ids published"
    if row["event"] is not None:
        known = row["epsilon"] is not None
        spent = epsilon_line(row["epsilon"] if known else math.inf)
    told = [row["versions"]]
    if row["release"] is not None:
        told += [
            f"build {row['build']}",
            f"release {row['release']}",
            f"by {row['user']} on {row['host']}, process {row['process']}",
        ]
    told += [f"note: {row['note']}"] * bool(row["note"])
    return (
        f"{row['number']}  {row['time']}  {spent}: {row['label']} ({'; '.join(told)})"
    )


if __name__ == "__main__":
    sys.exit(main())
