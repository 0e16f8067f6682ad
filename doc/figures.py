"""Figures of printed tables: their numbers, standard errors, and what is better.

A figure is a list: the label of its row, its column, the number, its standard error
(None for one seed), and whether "lower" or "higher" numbers are better (None if neither
is). doc/make_results.py stores them beside the tables, and doc/compare_results.py
compares them.
"""

import csv
import re
from collections import defaultdict
from statistics import mean, stdev

NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
# A number, perhaps with its deviation. A star refers to a note below the table.
CELL = re.compile(rf"({NUMBER})(?:±({NUMBER}))?\*?")
PAIR = re.compile(rf"({NUMBER}) ({NUMBER})")
# An epsilon beside its delta.
CLAIM = re.compile(rf"\(({NUMBER}), {NUMBER}\)")
# How many splits or draws of the noise are behind a printed deviation.
REPEATS = re.compile(r"--(?:realisations|splits|runs|repeats) (\d+)")
SPLITS_WITHOUT_OPTION = {"gradients": 10}
# Runs that print scores. All others print errors.
SCORES = {
    "federated", "response", "choices", "gradients", "vertical", "test features",
    "directional", "synthetic",
}  # fmt: skip
# Rows that say more about the row above them.
SET_IN = {
    "true epsilon", "its true epsilon", "true epsilon of one round alone",
    "epsilon of all rounds", "least noise of an entry", "tested on randomised",
}  # fmt: skip
# Rows and columns that are neither good nor bad, or good in the middle.
NEITHER = re.compile(r"\btrue\b|\bclaimed\b|epsilon of|of one step|^covered$|^items$")


def value(text):
    """The number that a text is."""
    return float(text.replace(",", ""))


def better(run, label, column):
    """The direction in which a figure is better."""
    if NEITHER.search(label) or NEITHER.search(column) or column.startswith("column "):
        return None
    if column == "audited" or column.endswith("accuracy"):
        return "higher"
    if label.endswith("noise of an entry"):
        return "lower"
    return "higher" if run in SCORES else "lower"


def scores_of(file):
    """The scores of all seeds, by measure, method and epsilon, in a script's --table.

    The file is comma-separated, with the columns measure, method, epsilon, seed and
    score.
    """
    found = defaultdict(list)
    with open(file, newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            key = row["measure"], row["method"], row["epsilon"]
            found[key].append(float(row["score"]))
    return dict(found)


def figures_of(run, command, table, scores=None):
    """The figures of a table that a run has printed.

    Numbers and standard errors are those of the scores. Where there are none, they are
    as exact as they were printed.

    Parameters
    ----------
    run : str
        The name of the run.

    command : str
        Its command, which says how many seeds there are.

    table : dict
        The table, as `tables_of` reads it.

    scores : dict or None, default=None
        What `scores_of` returns.
    """
    repeats = REPEATS.search(command)
    n_seeds = int(repeats[1]) if repeats else SPLITS_WITHOUT_OPTION.get(run, 1)
    figures = []
    for label, column, measure, printed, deviation in numbers_of(table):
        number, error = value(printed), None
        each = _scores_of_cell(scores or {}, measure, label, column)
        if each:
            number = mean(each)
            rounding = 0.51 * 10.0 ** -len(printed.partition(".")[2])
            if abs(value(printed) - number) > rounding:
                raise ValueError(f"{label}, {column}: {printed} is not {number:g}")
            if len(each) > 1:
                error = stdev(each) / len(each) ** 0.5
        elif deviation and n_seeds > 1:
            # The scripts divide squares by the number of seeds.
            error = value(deviation) / (n_seeds - 1) ** 0.5
        if measure.endswith("accuracy"):
            column = f"{column}, accuracy"
        rounded = error if error is None else float(f"{error:.3g}")
        found = float(f"{number:.6g}"), rounded, better(run, label, column)
        figures.append([label, column, *found])
    return figures


def numbers_of(table):
    """Label, column, measure, number and deviation of all that is in cells, as texts.

    Two numbers in one cell have two measures, which the head of the table names.
    """
    head = table["head"][0]
    kind, _, measures = head.rpartition(": ")
    for label, column, cell, deviation in cells_of(table):
        if pair := PAIR.fullmatch(cell):
            for measure, number in zip(
                measures.split(", "), pair.groups(), strict=True
            ):
                yield label, column, f"{kind}: {measure}", number, None
        elif claim := CLAIM.fullmatch(cell):
            yield label, column, head, claim[1], None
        else:
            found = CELL.fullmatch(cell)
            yield label, column, head, found[1], found[2] or deviation


def cells_of(table):
    """Label, column, text and deviation (if it is a column) of cells with numbers.

    A row without numbers is a head for the rows below it. The label of a row that is
    set in begins with that of the row above, and a label that occurs again with that of
    the last row without numbers. A number that is alone in its row holds for all
    columns, and its column is empty.
    """
    (head, columns), rows = table["head"], table["rows"]
    if len(columns) == 1 and CELL.fullmatch(columns[0]):
        # No stored table has a single epsilon, so this one has no head.
        (head, columns), rows = ["", []], [table["head"], *rows]
    widest = max((len(cells) for _, cells in rows), default=0)
    names = [head, *columns] if widest == len(columns) + 1 > 1 else columns
    above, section, taken = "", "", set()
    for label, cells in rows:
        figures = [n for n, cell in enumerate(cells) if _is_figure(cell)]
        if not figures:
            section, names = label.strip(":"), [label, *cells] if cells else names
            continue
        texts = [cell for cell in cells[: figures[0]] if cell not in ("-", "inf")]
        name = ", ".join([label, *texts])
        if label in SET_IN:
            name = f"{above}: {label}"
        elif name in taken:
            name = f"{section}: {label}"
        else:
            above = name
        taken.add(name)
        places = [""] if len(cells) == 1 else names
        if len(places) < len(cells):
            # A head whose cells are one space apart is read as one cell.
            places = [f"column {n}" for n in range(1, len(cells) + 1)]
        for n in figures:
            if places[n] not in ("+-", "seconds"):
                beside = cells[n + 1] if places[n + 1 : n + 2] == ["+-"] else None
                yield name, places[n], cells[n], beside


def _is_figure(cell):
    """Whether a cell has a number that can be compared."""
    return any(form.fullmatch(cell) for form in (CELL, PAIR, CLAIM))


def _scores_of_cell(scores, measure, label, column):
    """The scores of all seeds behind a cell, whose row is a method or an epsilon.

    If several measures have both, the head of the table names the measure.
    """
    column = column or "inf"
    found = {
        of: each
        for (of, *names), each in scores.items()
        if names in ([label, column], [column, label])
    }
    return next(iter(found.values())) if len(found) == 1 else found.get(measure, [])
