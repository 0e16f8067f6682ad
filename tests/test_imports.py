"""Imports run one way, and importing the package is light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import sktensordp

ROOT = Path(sktensordp.__file__).parent
LOWEST = {"exceptions", "_validation", "_random", "_sklearn_compat", "_dask"}
MIDDLE = LOWEST | {"tensor", "privacy", "noise"}
MAY_IMPORT = {
    "": set(),
    **dict.fromkeys(LOWEST, frozenset()),
    "tensor": LOWEST,
    "privacy": LOWEST,
    "noise": LOWEST,
    "base": MIDDLE | {"__version__"},
    "mechanisms": MIDDLE | {"base"},
    "encoding": MIDDLE | {"base", "mechanisms"},
    "completion": MIDDLE | {"base", "mechanisms"},
    "model_selection": MIDDLE | {"base", "mechanisms", "encoding", "completion"},
    "plotting": MIDDLE
    | {"base", "mechanisms", "encoding", "completion", "model_selection", "audit"},
    "audit": LOWEST | {"privacy"},
    "datasets": LOWEST | {"tensor"},
}


def imports_of(path, source=None):
    """Parts of the package that a module imports, at any depth of its code."""
    inside = path.relative_to(ROOT).with_suffix("").parts
    found = set()
    for node in ast.walk(ast.parse(source or path.read_text())):
        if isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".") if node.module else []
            if node.level:
                target = [*inside[: len(inside) - node.level], *module]
            elif module[:1] == ["sktensordp"]:
                target = module[1:]
            else:
                continue
            names = [target] if target else [[alias.name] for alias in node.names]
            found |= {name[0] for name in names}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "sktensordp":
                    found.add(parts[1] if len(parts) > 1 else "")
    return found


def part_of(path):
    first = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


@pytest.mark.parametrize(
    "path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT))
)
def test_imports_run_one_way(path):
    part = part_of(path)
    assert imports_of(path) - {part} <= MAY_IMPORT[part]


def test_a_wrong_arrow_is_seen():
    upward = "def f():\n    from ..completion import CPCompletion\n"
    assert imports_of(ROOT / "privacy" / "_x.py", upward) == {"completion"}
    absolute = "import sktensordp.base\nfrom sktensordp.noise import categorical\n"
    assert imports_of(ROOT / "tensor" / "_x.py", absolute) == {"base", "noise"}
    sibling = "from ._gaussian import gaussian_mu\nfrom .. import exceptions\n"
    assert imports_of(ROOT / "privacy" / "_x.py", sibling) == {"privacy", "exceptions"}


def test_private_scikit_learn_names_are_imported_in_one_place():
    for path in ROOT.rglob("*.py"):
        if path.name == "_sklearn_compat.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                "sklearn"
            ):
                names = [*node.module.split("."), *(a.name for a in node.names)]
                assert not any(n.startswith("_") for n in names), path


PARTS = {path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file()}
HEAVY = {
    "numba", "dp_accounting", "tensorly", "matplotlib", "randomgen", "torch", "pandas",
    "polars", "pyarrow", "dask", "distributed",
}  # fmt: skip
# Of scikit-learn, what a search is made of.
OF_A_SEARCH = {"sklearn.metrics", "sklearn.model_selection"}


def newly_imported(*parts):
    """What an import of some parts loads, beyond scikit-learn's own base."""
    code = (
        "import sys, importlib, sklearn.base; before = set(sys.modules);"
        "[importlib.import_module(f'sktensordp.{part}') for part in sys.argv[1:]];"
        "print(*set(sys.modules) - before)"
    )
    command = [sys.executable, "-c", code, *parts]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


def test_heavy_dependencies_wait_for_their_use():
    found = newly_imported(*PARTS - {"model_selection"})
    assert found >= {"sktensordp.completion", "sktensordp.plotting"}
    assert not (HEAVY | OF_A_SEARCH) & found
    assert not HEAVY & newly_imported("model_selection")


def test_what_is_imported_is_seen():
    assert newly_imported("model_selection", "tensor._kernels") >= {
        "numba",
        *OF_A_SEARCH,
    }
