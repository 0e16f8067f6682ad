"""Every example tells its story as a notebook: in cells, and without arguments."""

import ast
import re
from pathlib import Path

import pytest

from tests import DOC, EXAMPLES

pytestmark = pytest.mark.thorough
SCRIPTS = [
    path.relative_to(EXAMPLES)
    for path in sorted(EXAMPLES.rglob("*.py"))
    if path.parent.name != "service"  # programs to copy
    and not path.name.startswith("_")  # what scripts share
]
# Examples outside papers/ that are commands, too.
COMMANDS = {"complete_ratings.py", "recommend_from_choices.py", "user_privacy.py"}

each_script = pytest.mark.parametrize("script", SCRIPTS, ids=str)


@pytest.fixture
def text(script):
    return (EXAMPLES / script).read_text()


@pytest.fixture
def shown(text):
    """What the page of an example shows."""
    hidden = "# sphinx_gallery_start_ignore\n.*?# sphinx_gallery_end_ignore\n"
    return re.sub(hidden, "", text, flags=re.DOTALL)


def imported(tree):
    """Names of the modules that a script imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@each_script
def test_an_example_is_a_page_of_cells(text):
    title, line, *_ = ast.get_docstring(ast.parse(text)).splitlines()
    assert re.fullmatch(r"=+|-+", line)
    assert len(line) >= len(title)
    assert len(re.findall(r"^# %%$", text, re.MULTILINE)) >= 2


@each_script
def test_an_example_needs_no_command_line(script, text):
    if script.name in COMMANDS or script.parent.name == "papers":
        # Else the arguments of a notebook's kernel would end it.
        assert ".parse_args(" not in text
    else:
        assert "argparse" not in set(imported(ast.parse(text)))
    assert "__name__" not in text
    assert "switch_backend" not in text


@each_script
def test_the_page_of_an_example_hides_its_command_line(shown):
    assert "argparse" not in set(imported(ast.parse(shown)))
    assert "parser." not in shown
    assert ".output" not in shown.replace(".outputs", "")


@each_script
def test_commands_stand_at_the_end(shown):
    *cells, _ = shown.split("# %%\n")
    command = re.compile(r"^#? +python [\w/]+\.py", re.MULTILINE)
    assert not [cell for cell in cells if command.search(cell)]


@each_script
def test_the_first_cell_of_an_example_uses_the_library(text):
    names = {
        alias.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module.startswith("sktensordp.")
        for alias in node.names
        if "datasets" not in node.module and "exceptions" not in node.module
    }
    _, cell, *_ = text.split("# %%\n")
    called = {
        node.func.id
        for node in ast.walk(ast.parse(cell))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert names & called


@each_script
def test_an_example_begins_with_the_library(text):
    first = ast.parse(text.split("# %%\n")[1]).body[0]
    assert isinstance(first, ast.ImportFrom)
    assert first.module.startswith("sktensordp.")


@each_script
def test_an_example_has_a_thumbnail_of_its_own(script, text):
    line = r'^# sphinx_gallery_thumbnail_path = "(.*)"$'
    found = re.findall(line, text, flags=re.MULTILINE)
    assert found == [f"images/thumbnails/{script.stem}.png"]
    assert (DOC / found[0]).exists()


@each_script
def test_an_example_uses_public_names_alone(text):
    for name in imported(ast.parse(text)):
        if name.startswith("sktensordp"):
            assert "._" not in name


# What runs as a notebook in another test, which looks at what is printed.
ELSEWHERE = {
    name
    for path in Path(__file__).parent.glob("test_*.py")
    for name in re.findall(r'run_cells\("(.*?)"\)', path.read_text())
}


@pytest.mark.slow
@pytest.mark.parametrize("script", [s for s in SCRIPTS if str(s) not in ELSEWHERE])
def test_an_example_runs_as_a_notebook(script, run_cells):
    run_cells(script, draws=str(script) != "synthetic_users.py")
