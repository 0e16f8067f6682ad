"""Fit a recommender under the budget of the year, and store it without code.

    python fit.py --database shop.db --budget budget.db --model model.st

The database has the tables `films(film)`, `ratings(user, film, stars)` and
`tokens(digest, user)`. The budget must be there: whoever is responsible for it creates
it once, with `PrivacyBudget(..., path="budget.db", create=True)`.
"""

from sktensordp import io
from sktensordp.completion import CoordinateEncoder, CPCompletion, Recommender
from sktensordp.exceptions import BudgetExceededError
from sktensordp.privacy import PrivacyBudget

import argparse
import sqlite3
import sys
from contextlib import closing

import numpy as np


def fitted(database, budget, epsilon=1.0):
    """A model that protects each user with all ratings, counted by the budget."""
    with closing(sqlite3.connect(database)) as data:
        films = [film for (film,) in data.execute("SELECT film FROM films")]
        rows = data.execute("SELECT user, film, stars FROM ratings").fetchall()
    model = Recommender(
        CPCompletion(unit=0, epsilon=epsilon, levels=np.arange(1, 11) / 2),
        CoordinateEncoder(categories=[None, films]),
    )
    with budget.covers(model):
        return model.fit([row[:2] for row in rows], [row[2] for row in rows])


def main():
    """Run the job."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("database", "budget", "model"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    budget = PrivacyBudget(4.0, delta=1e-6, path=options.budget, note="service")
    try:
        model = fitted(options.database, budget)
    except BudgetExceededError as error:
        sys.exit(f"refused: {error}")
    # After the block of the budget, and before anything else.
    io.dump(model, options.model)
    print(model.privacy_guarantee_)


if __name__ == "__main__":
    main()
