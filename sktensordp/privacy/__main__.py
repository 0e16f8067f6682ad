"""``python -m sktensordp.privacy FILE`` prints the releases in the file of a budget."""

import argparse
import sys

from ._numbers import epsilon_line
from .budgets._budget import budget_of_file
from .budgets._open import patient


def main() -> int:
    """Print a budget, then its releases one by one."""
    parser = argparse.ArgumentParser(
        prog="python -m sktensordp.privacy",
        description="Print a privacy budget, and what it has recorded.",
    )
    parser.add_argument("file", help="the path of a PrivacyBudget")
    try:
        budget = patient(budget_of_file)(parser.parse_args().file)
        print(budget)
        releases = budget.history()
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    rows = releases if isinstance(releases, list) else releases.to_dict("records")
    for row in rows:
        spent = (
            "ids published" if row["event"] is None else epsilon_line(row["epsilon"])
        )
        print(f"{row['time']}  {spent}: {row['label']} ({row['versions']})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
