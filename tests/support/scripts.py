"""Scripts of examples/ and doc/, which are no modules of a package."""

import ast
import csv
import re
import runpy
from collections import defaultdict
from statistics import mean
from types import SimpleNamespace


def load_script(path):
    """The names that a script defines, as attributes; its main part is not run."""
    return SimpleNamespace(**runpy.run_path(str(path), run_name=path.stem))


def load_definitions(path):
    """Imports, functions, classes and constants (in capitals) of a script in cells."""
    tree = ast.parse(path.read_text())
    tree.body = [statement for statement in tree.body if _defines(statement)]
    names = {"__name__": path.stem}
    exec(compile(tree, path, "exec"), names)
    return SimpleNamespace(**names)


def _defines(statement):
    """Whether a statement defines a name without running the story of the script."""
    if isinstance(statement, ast.Assign):
        stored = [node for target in statement.targets for node in ast.walk(target)]
        return all(
            len(node.id) > 1 and node.id.isupper()
            for node in stored
            if isinstance(node, ast.Name)
        )
    kinds = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
    return isinstance(statement, kinds)


def rows_of(printed):
    """Numbers of the rows of printed tables, by name, without deviations and heads.

    A row that is set in has the name of that above before its own. A name and its
    numbers are two spaces apart, and a head is about an epsilon.
    """
    rows, above = {}, ""
    for line in printed.splitlines():
        found = re.match(r"( *)(\S.*?) {2,}(\d.*|inf.*)$", line)
        if found is None or found[2].startswith("epsilon"):
            continue
        above = above if found[1] else found[2]
        name = f"{above}: {found[2]}" if found[1] else found[2]
        rows[name] = [
            float(cell.split("±")[0]) for cell in found[3].replace(",", "").split()
        ]
    return rows


def printed_means(file, printed):
    """The mean scores in a script's --table, by measure, method and epsilon.

    Each must be printed.
    """
    scores = defaultdict(list)
    with file.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            key = row["measure"], row["method"], row["epsilon"]
            assert int(row["seed"]) == len(scores[key])
            scores[key].append(float(row["score"]))
    means = {key: mean(each) for key, each in scores.items()}
    numbers = set(re.findall(r"\d+\.\d+", printed))
    decimals = {text: len(text.partition(".")[2]) for text in numbers}
    for key, value in means.items():
        assert any(f"{value:.{n}f}" == text for text, n in decimals.items()), key
    return means
