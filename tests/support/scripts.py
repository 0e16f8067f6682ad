"""Scripts of examples/ and doc/, which are no modules of a package."""

import ast
import runpy
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
