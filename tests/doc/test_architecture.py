"""The page and the picture of the architecture show the code as it is."""

import re
from collections import defaultdict

import pytest

from sktensordp.completion import CPCompletion, ImplicitCompletion
from tests import DOC, ROOT
from tests.support.scripts import load_script
from tests.support.walks import entered
from tests.test_imports import BACK_UP, own_part, parts_of
from tests.test_imports import ROOT as PACKAGE

Image = pytest.importorskip("PIL.Image")
SCRIPT = load_script(DOC / "make_architecture.py")
PAGE = (DOC / "architecture.md").read_text()
PAIRS = [[user, item] for user in range(3) for item in range(4)]


def shown():
    """The text that the script wrote into the picture."""
    with Image.open(SCRIPT.PICTURE) as picture:
        return picture.text["Description"]


@pytest.mark.thorough
def test_the_picture_shows_the_imports():
    imports = SCRIPT.read_imports()
    assert shown() == SCRIPT.described(imports), "run doc/make_architecture.py"
    # And a stale picture is seen: one import more, one less.
    assert shown() != SCRIPT.described(imports | {"noise": {"tensor"}})
    without = {**imports, "audit": imports["audit"] - {"privacy"}}
    assert shown() != SCRIPT.described(without)


@pytest.mark.thorough
def test_the_imports_are_those_of_the_code():
    """As another reader of imports finds them."""
    expected = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        expected[own_part(path)] |= parts_of(path)
    del expected[""]
    expected[own_part(BACK_UP[0])].remove(BACK_UP[1])
    parts = expected.keys()
    assert SCRIPT.read_imports() == {part: expected[part] & parts for part in parts}


@pytest.mark.thorough
def test_what_is_left_out_follows_from_the_arrows():
    imports = SCRIPT.read_imports()
    helpers = SCRIPT.helpers_of(imports)
    drawn = {part: set() for part in imports}
    arrows = list(SCRIPT.arrows_of(imports))
    for part, other in arrows:
        drawn[part].add(other)
    reached = SCRIPT.reachable(imports)
    for part, others in SCRIPT.reachable(drawn).items():
        assert others == reached[part] - helpers
    for part, other in arrows:
        fewer = {**drawn, part: drawn[part] - {other}}
        assert other not in SCRIPT.reachable(fewer)[part]


@pytest.mark.thorough
def test_every_part_has_a_box_and_a_row():
    imports = SCRIPT.read_imports()
    helpers = SCRIPT.helpers_of(imports)
    assert SCRIPT.HELPERS.keys() == helpers
    assert SCRIPT.PARTS.keys() == imports.keys() - helpers
    rows = SCRIPT.rows_of(list(SCRIPT.arrows_of(imports)))
    assert all(rows[a] > rows[b] for a, b in SCRIPT.arrows_of(imports))
    table = re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.MULTILINE)
    assert set(table) == SCRIPT.PARTS.keys()


@pytest.mark.thorough
def test_the_picture_can_be_drawn():
    pytest.importorskip("matplotlib")
    figure = SCRIPT.draw(SCRIPT.read_imports())
    (axes,) = figure.axes
    written = {text.get_text() for text in axes.texts}
    assert written >= SCRIPT.PARTS.keys() | SCRIPT.HELPERS.keys()


def test_files_and_functions_of_the_page_are_there():
    table = re.findall(r"^\| `(\w+)` \| .* \| `(.*)` \|$", PAGE, re.MULTILINE)
    assert len(table) == len(SCRIPT.PARTS)
    for part, name in table:
        folder = PACKAGE if name == f"{part}.py" else PACKAGE / part
        assert (folder / name).exists(), (part, name)
    paths = set(re.findall(r"`((?:\w+/)+\w*(?:\.py)?)`", PAGE))
    assert len(paths) > 20
    for path in paths:
        assert (PACKAGE / path).exists() or (ROOT / path).exists(), path
    steps = re.findall(r"`(\w+)`\s\(`([\w/]+\.py)`\)", PAGE)
    assert len(steps) > 13
    for name, path in steps:
        assert f"def {name}(" in (PACKAGE / path).read_text(), (name, path)


def first_calls(call):
    """The functions of the package that a call enters, in the order of first calls."""
    start = len(str(PACKAGE)) + 1
    codes = entered(call, PACKAGE)
    return [*dict.fromkeys((c.co_name, c.co_filename[start:]) for c in codes)]


def is_in_order(steps, calls):
    """Whether calls occur in this order, others between them."""
    rest = iter(calls)
    return all(step in rest for step in steps)


def test_a_rating_takes_the_path_of_the_page():
    rows = re.findall(r"^\| \d+ \| (.*) \| .* \|$", PAGE, re.MULTILINE)
    steps = re.findall(r"`(\w+)` \(`([\w/]+\.py)`\)", "\n".join(rows))
    assert len(steps) == 15
    model = CPCompletion(
        1, levels=[1, 2, 3], perturbation="input", shape=(3, 4), max_iter=2
    )
    check_path(steps, lambda: model.fit(PAIRS, [1, 2, 3] * 4))


@pytest.mark.filterwarnings("ignore::sktensordp.exceptions.NoiseOnlyWarning")
def test_a_sum_takes_the_path_of_the_page():
    section = PAGE.split("## A sum over people\n")[1].split("\n## ")[0]
    steps = re.findall(r"`(\w+)`\s\(`([\w/]+\.py)`\)", section)
    assert len(steps) == 10
    model = ImplicitCompletion(epsilon=1, shape=(3, 4), max_items=0)
    check_path(steps, lambda: model.fit(PAIRS))


def check_path(steps, call):
    calls = first_calls(call)
    assert is_in_order(steps, calls)
    # And a page that is wrong is seen: two steps exchanged, one that is not there.
    for k in range(len(steps) - 1):
        assert not is_in_order(
            [*steps[:k], steps[k + 1], steps[k], *steps[k + 2 :]], calls
        )
    assert not is_in_order([*steps, ("fold_in", "completion/_fitted.py")], calls)
