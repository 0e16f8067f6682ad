"""Random mutants of the package: faults that nobody chose.

A mutant differs from the package in one comparison, number, sign or sum, or lacks one
call or one `not`. Files are drawn by their numbers of such places, and the same seed
draws the same mutants of the same package. `python -m tests.faults --mutants 60 --seed
0` runs the tests against them, and `--within measure noise` draws them from these parts
of the package alone. Some mutants compute the same as the package, so not every one
that survives is a gap.
"""

import ast
import random
import re
from itertools import takewhile
from pathlib import Path

from tests.support.seams import NAMES

OPERATORS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=",
    ast.NotEq: "==", ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
SYMBOLS = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==",
    ast.NotEq: "!=", ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


class Places(ast.NodeVisitor):
    """Places of a text that a mutant can change: (begin, end, new text) in bytes."""

    def __init__(self, text):
        lines = text.encode().splitlines(keepends=True)
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))
        self._text, self.found = text.encode(), []
        self.visit(ast.parse(text))

    def _begin(self, node):
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node):
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def visit(self, node):
        """Look at all of the code but for annotations and errors, which say no more."""
        if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom):
            return
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    self.visit(child)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            self._operator(node.left, node.ops[0], node.comparators[0])
        elif isinstance(node, ast.BinOp):
            self._operator(node.left, node.op, node.right)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
            # The operand may stand in parentheses, which its node does not include.
            begin = self._begin(node)
            size = len("-" if isinstance(node.op, ast.USub) else "not")
            self.found.append((begin, begin + size, ""))
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            new = node.value + 1 if isinstance(node.value, int) else 2 * node.value
            self.found.append((self._begin(node), self._end(node), repr(new or 1.0)))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self.found.append((self._begin(node), self._end(node), "None"))

    def _operator(self, left, operator, right):
        kind, begin = type(operator), self._end(left)
        between = self._text[begin : self._begin(right)].decode()
        if kind in OPERATORS and between.count(SYMBOLS[kind]) == 1:
            # The symbol may be on a later line than the end of its left side.
            begin += len(between.partition(SYMBOLS[kind])[0].encode())
            size = len(SYMBOLS[kind])
            self.found.append((begin, begin + size, OPERATORS[kind]))


def mutants(package, n, seed, within=("",)):
    """Draw mutants.

    Parameters
    ----------
    package : Path
    n, seed : int
    within : sequence of str, default=("",)
        Folders or files below the package. They are drawn from these alone.

    Returns
    -------
    found : list of (str, str, str, str, int)
        File below the package, a name, the text of the file, the mutated one, and the
        number of the line.
    """
    files = sorted(
        path for path in package.rglob("*.py")
        if any(path.is_relative_to(package / part) for part in within)
    )  # fmt: skip
    texts = {path: path.read_text() for path in files}
    places = [(path, one) for path in files for one in Places(texts[path]).found]
    found = []
    for path, (begin, end, new) in random.Random(seed).sample(places, n):
        text = texts[path].encode()
        mutated = (text[:begin] + new.encode() + text[end:]).decode()
        # An operator may begin the line after its left operand.
        pairs = zip(text[begin:end], new.encode(), strict=False)
        same = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        line = text[: begin + same].count(b"\n") + 1
        name = f"line {line}: {mutated.splitlines()[line - 1].strip()}"
        file = path.relative_to(package).as_posix()
        found.append((file, name, texts[path], mutated, line))
    return found


SEAMS = re.compile(r"^ *from tests\.support\.seams import (\([^)]*\)|.*)$", re.M)


def words_of(text):
    """Words of a test, and of the modules whose private names it imports."""
    words = {*re.findall(r"\w+", text)}
    for name in re.findall(r"\w+", " ".join(SEAMS.findall(text))):
        words |= {*re.findall(r"\w+", NAMES.get(name, [""])[0])}
    return words


def likely_tests(folder, file, text, line, n=7):
    """Files of tests that name most of what a module defines, above all at a line.

    They saw 39 of the 60 mutants of seed 0.

    Parameters
    ----------
    folder : Path
        Of the tests.
    file, text : str
        The module, below the package.
    line : int
    n : int, default=7
        Largest number of files.

    Returns
    -------
    likely : list of str
        Below the folder, the likeliest first.
    """
    kinds = ast.ClassDef | ast.FunctionDef
    defined = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    weights = {node.name: 1 for node in defined if not node.name.startswith("__")}
    around = (node for node in defined if node.lineno <= line <= node.end_lineno)
    weights |= {node.name: 6 for node in around}
    part, stem = file.partition("/")[0], Path(file).stem.strip("_")
    scores = {}
    for path in sorted(folder.rglob("test_*.py")):
        words = words_of(path.read_text())
        score = sum(weight for name, weight in weights.items() if name in words)
        score += (
            8 * (stem in path.stem) + 3 * (stem in words) + 2 * (part in path.parts)
        )
        scores[path.relative_to(folder).as_posix()] = score
    return sorted(scores, key=scores.get, reverse=True)[:n]
