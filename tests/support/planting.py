"""Change code by its meaning: a piece of a syntax tree, and another in its place.

A piece is an expression, arguments (`name=value`), or statements that follow each
other. It is looked up in a module, or in a function or class by its qualified name, and
has to occur there once. Layout, comments, quotes and parentheses that mean nothing do
not matter. Only the statement around the piece is written anew.
"""

import ast
from dataclasses import dataclass
from functools import lru_cache

OBJECTS = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
# Lists of expressions that may lose one.
MAY_BE_SHORTER = "args", "elts", "ifs"


class Piece:
    """What a text stands for.

    Attributes
    ----------
    body : list of ast.stmt
    value : ast.expr or None
        If the text is one expression.
    keywords : list of ast.keyword
        If it is arguments; `name=value` is a statement, too.
    """

    def __init__(self, text):
        self.value, self.keywords = None, arguments(text)
        self.body = ast.parse(text).body if len(self.keywords) < 2 else []
        match self.body:
            case [ast.Expr(value)]:
                self.value = value

    @property
    def is_empty(self):
        """Whether nothing takes the place of something."""
        return not self.body and not self.keywords

    def __eq__(self, other):
        return all(
            [*map(shape, mine)] == [*map(shape, theirs)]
            for mine, theirs in (
                (self.body, other.body), (self.keywords, other.keywords),
            )
        )  # fmt: skip

    __hash__ = None


def arguments(text):
    """Return the arguments `name=value, ...` that a text is; none if it is not."""
    try:
        call = ast.parse(f"_({text}\n)").body[0].value
    except SyntaxError:
        return []
    named = isinstance(call, ast.Call) and not call.args
    return call.keywords if named and all(one.arg for one in call.keywords) else []


@dataclass(frozen=True)
class Found:
    """A piece of a tree: `field` of `parent`, from `first` up to `last` if a list."""

    parent: ast.AST
    field: str
    first: int | None = None
    last: int | None = None


def shape(node):
    """Return a tree as text, without whether a name is read or set."""
    return ast.dump(node).replace("ctx=Store()", "ctx=Load()")


def is_same(node, other):
    """Whether two trees mean the same."""
    return type(node) is type(other) and shape(node) == shape(other)


def objects(tree, name):
    """Return the functions or classes of a qualified name; the tree, of none."""
    found = [tree]
    for part in name.split(".") if name else ():
        found = [one for outer in found for one in inner(outer) if one.name == part]
    return found


def inner(node):
    """Yield functions and classes of a node, but for those in one another."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, OBJECTS):
            yield child
        else:
            yield from inner(child)


def find(place, old, new):
    """Yield where an old piece is in a tree, if a new one can take its place.

    Parameters
    ----------
    place : ast.AST
    old, new : Piece

    Yields
    ------
    Found
    """
    # In the place of an expression goes another; of arguments, arguments.
    of_lists = {ast.stmt: old.body, ast.keyword: old.keywords, ast.expr: []}
    if old.value and (new.value or new.is_empty):
        of_lists[ast.expr] = [old.value]
    if (old.value and new.value) or (new.keywords and not new.body):
        of_lists[ast.stmt] = []
    if not new.keywords and not new.is_empty:
        of_lists[ast.keyword] = []
    for node in ast.walk(place):
        for field, value in ast.iter_fields(node):
            if new.value and any(is_same(value, one) for one in of_lists[ast.expr]):
                yield Found(node, field)
            if not isinstance(value, list) or not value:
                continue
            is_fixed = isinstance(value[0], ast.expr) and field not in MAY_BE_SHORTER
            if new.is_empty and is_fixed:
                continue
            for kind, sought in of_lists.items():
                for k in range(len(value) - len(sought) + 1) if sought else ():
                    run = zip(value[k:], sought, strict=False)
                    if isinstance(value[k], kind) and all(is_same(*t) for t in run):
                        yield Found(node, field, k, k + len(sought))


@lru_cache
def parsed(text):
    """Return the tree of a module, which nobody may change."""
    return ast.parse(text)


def n_places(text, name, old, new):
    """How often an old piece is in a module, below a name, where a new one may be."""
    places = objects(parsed(text), name)
    return sum(1 for one in places for _ in find(one, Piece(old), Piece(new)))


def planted(text, name, old, new):
    """Return a module with a new piece in the place of an old one.

    Parameters
    ----------
    text : str
        The module.
    name : str
        Qualified name of the function or class in which the old piece occurs once;
        empty for the module.
    old, new : str

    Returns
    -------
    str
    """
    tree, old, new = ast.parse(text), Piece(old), Piece(new)
    (found,) = (one for place in objects(tree, name) for one in find(place, old, new))
    rows = {node: first_row(node) for node in ast.walk(tree)}
    parents = {child: node for node in ast.walk(tree)
               for child in ast.iter_child_nodes(node)}  # fmt: skip
    statements = None
    if found.first is None:
        setattr(found.parent, found.field, new.value)
    else:
        siblings = getattr(found.parent, found.field)
        removed = siblings[found.first : found.last]
        swap = new.body
        if isinstance(removed[0], ast.stmt):
            statements = removed
            swap = swap or ([] if removed != siblings else [ast.Pass()])
        elif isinstance(removed[0], ast.keyword):
            swap = new.keywords
        elif new.value:
            swap = [new.value]
        siblings[found.first : found.last] = swap
    node = found.parent
    if statements is None:
        while not isinstance(node, ast.stmt):
            node = parents[node]
        statements = swap = [node]
    lines = text.encode().splitlines(keepends=True)
    # `elif` is part of the statement before.
    while lines[statements[0].lineno - 1][statements[0].col_offset :][:4] == b"elif":
        node = parents[statements[0]]
        statements = swap = [node]
    first, last = statements[0], statements[-1]
    row = rows[first]
    before = b"".join(lines[: row - 1]) + lines[row - 1][: first.col_offset]
    after = lines[last.end_lineno - 1][last.end_col_offset :] + b"".join(
        lines[last.end_lineno :]
    )
    written = indented(swap, first.col_offset // 4)
    return before.decode() + written + after.decode()


def first_row(node):
    """Row in which a node begins; of a function or class, with its decorators."""
    nodes = node, *getattr(node, "decorator_list", ())
    return min((one.lineno for one in nodes if hasattr(one, "lineno")), default=0)


def indented(statements, depth):
    """Return statements as text that continues a line, and their indentation."""
    for _ in range(depth):
        statements = [ast.If(ast.Constant(1), statements, [])]
    text = ast.unparse(ast.Module(statements, []))
    return "\n".join(text.split("\n")[depth:]).lstrip()
