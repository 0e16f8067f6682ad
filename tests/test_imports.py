"""Imports run one way, and importing the package is light."""

import ast
import inspect
import itertools
import re
import subprocess
import sys
import tomllib
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import sktensordp
from sktensordp import completion, recommend
from tests.support.seams import callers_level

ROOT = Path(sktensordp.__file__).parent
LOWEST = {
    "exceptions", "_validation", "_random", "_sklearn_compat", "_dask", "_docstrings",
    "_extras", "_show_versions", "_json", "_waiting", "_build",
}  # fmt: skip
MIDDLE = LOWEST | {"tensor", "privacy", "noise"}
UPPER = MIDDLE | {"ids", "base", "_client", "_noise_only", "mechanisms"}
MAY_IMPORT = {
    "": {"_show_versions"},
    **dict.fromkeys(LOWEST, frozenset()),
    "_show_versions": {"_build"},
    **dict.fromkeys(["tensor", "noise"], LOWEST),
    "privacy": LOWEST | {"__version__"},
    "ids": LOWEST,
    "base": MIDDLE | {"__version__"},
    "_client": MIDDLE | {"base"},
    "_noise_only": MIDDLE,
    "mechanisms": MIDDLE | {"ids", "base", "_noise_only"},
    "measure": UPPER,
    "moments": UPPER | {"measure"},
    "counts": UPPER | {"measure"},
    "encoding": UPPER,
    "completion": UPPER | {"measure"},
    "recommend": UPPER | {"completion"},
    "model_selection": UPPER
    | {"encoding", "completion", "measure", "moments", "recommend"},
    "papers": UPPER | {"encoding", "completion"},
    "plotting": UPPER
    | {"encoding", "completion", "model_selection", "audit", "counts"},
    "io": LOWEST | {"__version__", "base"},
    "audit": LOWEST | {"privacy"},
    "datasets": LOWEST | {"tensor"},
}
# The one arrow back up: `sktensordp.completion` has the names of `recommend`, too, and
# imports them when they are first used.
BACK_UP = ROOT / "completion" / "__init__.py", "recommend"


@cache
def imports_of(path, source=None):
    """Full names of modules that a module imports from, at any depth of its code."""
    return tuple(_imports_of(path, source))


def _imports_of(path, source):
    inside = ["sktensordp", *path.relative_to(ROOT).with_suffix("").parts]
    for node in ast.walk(ast.parse(source or path.read_text())):
        if isinstance(node, ast.ImportFrom):
            start = inside[: len(inside) - node.level] if node.level else []
            module = [*start, *(node.module.split(".") if node.module else [])]
            yield from (".".join([*module, alias.name]) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def parts_of(path, source=None):
    """Parts of the package that a module imports, but for its own."""
    names = (name.split(".") for name in imports_of(path, source))
    found = {name[1] if name[1:] else "" for name in names if name[0] == "sktensordp"}
    return found - {own_part(path)}


# What foreign objects have: named tuples, and data frames of Dask.
FOREIGN = {"_replace", "_asdict", "_fields", "_make", "_meta"}


def private_names_of(part):
    """Private names that the modules of a part define or assign."""
    found = set()
    for path in modules_of(part):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(
                node.ctx, ast.Store
            ):
                found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return {name for name in found if is_private(name)}


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def modules_of(part):
    alone = ROOT / f"{part}.py"
    return [alone] if alone.exists() else sorted((ROOT / part).rglob("*.py"))


def private_uses(source, own):
    """Private names of other objects that a module uses, but for those in `own`."""
    for node in ast.walk(ast.parse(source)):
        name = ""
        if isinstance(node, ast.Attribute):
            holder = ast.unparse(node.value)
            name = "" if holder in ("self", "cls", "super()") else node.attr
            name = "" if name in own else name
        elif isinstance(node, ast.Call) and node.args[1:]:
            asked = ast.unparse(node.func) in ("getattr", "hasattr", "setattr")
            text = node.args[1]
            if asked and isinstance(text, ast.Constant):
                name = str(text.value)
        if is_private(name):
            yield name


def own_part(path):
    first = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


PARTS = sorted({own_part(path) for path in ROOT.rglob("*.py")} - {""})


@pytest.mark.parametrize("part", sorted({*PARTS} - {"_sklearn_compat"}))
def test_no_part_uses_private_names_of_another(part):
    own = private_names_of(part) | FOREIGN
    for path in modules_of(part):
        assert not {*private_uses(path.read_text(), own)}, path


def test_private_uses_are_found():
    used = "x._there\ny._own\nself._any\nsuper()._any\ngetattr(self, '_fitted', 0)\n"
    assert [*private_uses(used, {"_own"})] == ["_there", "_fitted"]


def test_imports_run_one_way():
    wrong = {
        path: parts_of(path) - MAY_IMPORT[own_part(path)] for path in ROOT.rglob("*.py")
    }
    wrong[BACK_UP[0]].remove(BACK_UP[1])
    assert not {path: parts for path, parts in wrong.items() if parts}
    # And a wrong arrow is seen.
    upward = "def f():\n    from ..completion import CPCompletion\n"
    assert parts_of(ROOT / "privacy" / "_x.py", upward) == {"completion"}
    absolute = "import sktensordp.base\nfrom sktensordp.noise import categorical\n"
    assert parts_of(ROOT / "tensor" / "_x.py", absolute) == {"base", "noise"}
    sibling = "from ._gaussian import gaussian_mu\nfrom .. import exceptions\n"
    assert parts_of(ROOT / "privacy" / "_x.py", sibling) == {"exceptions"}


def test_completion_offers_the_names_of_recommend():
    for name in recommend.__all__:
        assert getattr(completion, name) is getattr(recommend, name)
    assert {*recommend.__all__} < {*completion.__all__} <= {*dir(completion)}
    with pytest.raises(AttributeError, match="has no attribute 'Recomender'"):
        completion.Recomender  # noqa: B018
    # Whichever of the two is imported first.
    for first in ("completion", "recommend"):
        code = f"import sktensordp.{first}; from sktensordp.completion import *"
        subprocess.run([sys.executable, "-c", f"{code}; Recommender"], check=True)


def test_the_core_claims_nothing_that_is_false():
    """Only what the papers print warns of its claims."""
    found = {
        own_part(path)
        for path in ROOT.rglob("*.py")
        if "UnsoundClaimWarning" in path.read_text(encoding="utf-8")
    }
    assert found == {"exceptions", "papers"}


# Inside of a subpackage: from what imports nothing of it to what imports all.
LAYERS = {
    "privacy": [
        ["accounting"], ["calibration"], ["_numbers", "_guarantee"], ["budgets"],
        ["_searches"], ["_collect"], ["_report"], ["_planned"],
    ],
    "tensor": [["kernels"]],
}  # fmt: skip


def module_of(path):
    inside = ["sktensordp", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(inside[:-1] if inside[-1] == "__init__" else inside)


def test_no_file_imports_itself():
    """Not even by way of others: the imports of all files, those in functions too."""
    files = {module_of(path): path for path in ROOT.rglob("*.py")}
    graph = {
        module: {
            name if name in files else name.rpartition(".")[0]
            for name in imports_of(path)
            if name.startswith("sktensordp")
        }
        & files.keys() - {module}
        for module, path in files.items()
    }
    path, part = BACK_UP
    graph[module_of(path)] = {m for m in graph[module_of(path)] if part not in m}
    # CycleError names the files that import one another.
    assert len(list(TopologicalSorter(graph).static_order())) == len(files)
    graph["sktensordp.exceptions"].add("sktensordp.base")
    with pytest.raises(CycleError):
        TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("subpackage", LAYERS)
def test_layers_inside_of_a_subpackage(subpackage):
    known = [set(layer) for layer in LAYERS[subpackage]]
    for layer, above in enumerate(known):
        higher = set().union(*known[layer + 1 :])
        for first in above:
            folder = ROOT / subpackage / first
            paths = folder.rglob("*.py") if folder.is_dir() else [f"{folder}.py"]
            for path in map(Path, paths):
                names = (name.split(".") for name in imports_of(path))
                found = {name[2] for name in names if name[1:2] == [subpackage]}
                assert not found & higher, path


# Whatever tells who calls.
FRAMES = re.compile(
    r"currentframe|_getframe|(outer|inner|current)_?frames|inspect\.(stack|trace)\b|"
    r"from inspect import|\b(f|cr|gi|tb|ag)_(back|globals|locals|code|frame)\b|"
    r"__traceback__|exc_info\(|(import|from) traceback|settrace|setprofile|"
    r"stack_info|findCaller"
)


def test_nothing_depends_on_who_calls():
    """Only where a warning points to."""
    for path in ROOT.rglob("*.py"):
        text = path.read_text()
        own = inspect.getsource(callers_level)
        assert FRAMES.search(own)
        text = text.replace(own, "")
        assert not FRAMES.search(text), path


@pytest.mark.parametrize(
    "text",
    [
        "inspect.currentframe()", "inspect.stack()", "sys._getframe(1)", "x.f_back",
        "getattr(sys, '_getframe')()", "from inspect import stack", "import traceback",
        "from traceback import extract_stack", "error.__traceback__", "sys.exc_info()",
        "sys._getframemodulename(1)", "log.info('', stack_info=True)",
    ],
)  # fmt: skip
def test_reading_the_stack_of_calls_is_found(text):
    assert FRAMES.search(text)


def test_private_scikit_learn_names_are_imported_in_one_place():
    assert not [
        name
        for path in ROOT.rglob("*.py")
        if path.name != "_sklearn_compat.py"
        for name in imports_of(path)
        if name.startswith("sklearn.") and "._" in name
    ]


# Where generators are made that are not those of a release, and why no argument about
# privacy rests on what they draw.
_STARTS = "a fixed start or sketch: it decides how well a fit goes, and holds no data"
_PUBLIC = "generates or splits data that are public, or the caller's own"
_COINS = "an auditor's coins; the guarantee is that of what is audited"
OTHER_GENERATORS = {
    "audit/_one_run.py": _COINS,
    "audit/_people.py": _COINS,
    "audit/_reseeded.py": _COINS,
    "completion/__main__.py": _PUBLIC,
    "completion/_dask.py": _STARTS,
    "completion/_entries.py": _STARTS,
    "completion/_synthetic.py": "computes from released values alone",
    "completion/measurements/_gradient.py": _STARTS,
    "completion/measurements/_statistics.py": _STARTS,
    "completion/measurements/units/_rounds.py": _STARTS,
    "completion/measurements/units/_unprotected_weights.py": (
        "hides choices in fits without noise, which protect nobody"
    ),
    "datasets/_choices.py": _PUBLIC,
    "datasets/_low_rank.py": _PUBLIC,
    "datasets/_ratings.py": _PUBLIC,
    "encoding/_learned.py": "trains on data that fit does not protect",
    "model_selection/_holdout.py": "the guarantee holds for every seed of the folds",
    "model_selection/_private_search.py": "looks at a candidate, and fits none",
    "moments/_rehearsal.py": "simulates noise for public samples; releases nothing",
    "papers/_algorithm_one.py": "trains on data that fit does not protect",
    "privacy/calibration/_gaussian.py": "any start gives multipliers that are checked",
    "tensor/_cp_rows.py": _STARTS,
    "tensor/_leading_terms.py": _STARTS,
    "tensor/_pattern.py": _STARTS,
    "tensor/_tucker.py": _STARTS,
}
# Types, and what turns the bits of a release into draws.
HARMLESS = {"BitGenerator", "Generator", "RandomState"}


def generators_of(path, source=None):
    """Names of sources of randomness that a module calls."""
    for node in ast.walk(ast.parse(source or path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield from {node.func.id} & {"check_random_state", "default_rng"}
        elif isinstance(node, ast.Attribute):
            whole = ast.unparse(node)
            if re.fullmatch(r"(np|numpy)\.random\.\w+", whole):
                yield from {node.attr} - HARMLESS
            elif whole == "os.urandom" or node.attr == "rvs":
                yield whole
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = {getattr(node, "module", None), *(a.name for a in node.names)}
            yield from names & {"random", "numpy.random", "AESCounter"}


def test_what_privacy_rests_on_is_drawn_from_the_streams_of_releases():
    found = {
        str(path.relative_to(ROOT)): set(generators_of(path))
        for path in ROOT.rglob("*.py")
    }
    assert found.pop("_random.py") == {"AESCounter"}
    assert {path for path, names in found.items() if names} == OTHER_GENERATORS.keys()
    for source in (
        "import numpy as np\nnp.random.default_rng()",
        "import numpy as np\nnp.random.PCG64(1)",
        "from numpy.random import default_rng\ndefault_rng()",
        "import random",
        "os.urandom(8)",
    ):
        assert list(generators_of(ROOT / "noise" / "_x.py", source)) or pytest.fail(
            source
        )


def test_what_is_imported_is_declared():
    """No dependency of a dependency is imported without being declared itself."""
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    declared = [*project["dependencies"], *itertools.chain(*extras)]
    # With the extras of a dependency, such as dask[distributed].
    names = {
        name.replace("-", "_")
        for one in declared
        for name in re.findall(r"[\w-]+", re.split("[><=]", one)[0])
    }
    imported = {
        name.partition(".")[0]
        for path in ROOT.rglob("*.py")
        for name in imports_of(path)
    }
    imported -= {*sys.stdlib_module_names, "sktensordp"}
    assert {"scikit_learn" if n == "sklearn" else n for n in imported} <= names


HEAVY = {
    "numba", "dp_accounting", "tensorly", "matplotlib", "randomgen", "torch", "pandas",
    "polars", "pyarrow", "dask", "distributed", "safetensors",
}  # fmt: skip
# Of scikit-learn, what a search is made of.
OF_A_SEARCH = {"sklearn.metrics", "sklearn.model_selection"}
NEWLY_IMPORTED = """
import sys, importlib, sklearn.base
before = set(sys.modules)
for parts in sys.argv[1:]:
    for part in parts.split():
        importlib.import_module(f"sktensordp.{part}")
    print(*set(sys.modules) - before)
"""


def test_heavy_dependencies_wait_for_their_use():
    parts = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    steps = [
        " ".join(parts - {"model_selection"}), "model_selection", "tensor.kernels._rows"
    ]  # fmt: skip
    command = [sys.executable, "-c", NEWLY_IMPORTED, *steps]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    most, search, kernels = (set(line.split()) for line in run.stdout.splitlines())
    assert most >= {"sktensordp.completion", "sktensordp.plotting"}
    assert not (HEAVY | OF_A_SEARCH) & most
    assert not HEAVY & search
    assert kernels >= {"numba", *OF_A_SEARCH}
