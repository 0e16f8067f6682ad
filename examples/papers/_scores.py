"""The scores of an experiment in a file: what its option --table writes."""

import csv

COLUMNS = "measure", "method", "epsilon", "seed", "claimed", "true", "score"


def write_scores(file, rows):
    """Write the score of every seed (csv).

    Parameters
    ----------
    file : path
    rows : iterable of tuple
        Measure; method; epsilon of the row or column in which the scores are printed;
        the epsilons that are claimed and that hold, infinite if none does, and None
        without privacy; and the scores, one for each seed, or only one.
    """
    with open(file, "w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines)
        writer.writerow(COLUMNS)
        for measure, method, epsilon, claimed, true, scores in rows:
            for seed, score in enumerate(scores):
                found = measure, method, f"{epsilon:g}", seed, claimed, true, score
                writer.writerow("" if one is None else one for one in found)
