"""What the README shows runs, without a warning, and prints what it promises."""

import ast
import re

import pytest

import sktensordp
from tests import ROOT

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def run(containing):
    """Execute the one block that has some text."""
    (code,) = [block for block in BLOCKS if containing in block]
    names: dict = {}
    exec(compile(code, "README.md", "exec"), names)
    return code, names


def test_every_block_is_run():
    assert len(BLOCKS) == 4


def test_example(capsys):
    code, _ = run("GridSearchCV")
    assert len(ast.parse(code).body) == 10
    assert f"<!-- example -->\n```python\n{code}" in README
    printed = capsys.readouterr().out
    assert printed.startswith("(epsilon = 4, delta = 0)-differential privacy")
    total = float(re.search(r"All releases together: \(epsilon = ([\d.]+)", printed)[1])
    assert total == 2 * (2 + 2 + 4 + 4) + 4
    assert "Not protected:" in printed
    assert "who rated what" in printed
    assert "raw values held out" in printed


def test_commands_are_where_ci_looks_for_them():
    for marker in ("main", "test"):
        block = README.split(f"<!-- {marker} command -->\n```bash\n")[1].split("```")[0]
        assert block.count("\n") == 1
        assert block.startswith("python3 -m venv .venv && ")


@pytest.mark.slow
def test_audit(capsys):
    run("audit_mechanism")
    assert "VIOLATED" in capsys.readouterr().out


def test_encoding(capsys):
    """What a task makes of other people's releases: 0.935 +- 0.018 at epsilon = 5."""
    run("TaskAwareEncoder")
    clean, noisy, *guarantee = capsys.readouterr().out.split()
    assert float(clean) > 0.93
    assert float(noisy) > 0.83
    assert " ".join(guarantee).startswith("(epsilon = 5, delta = 0)-differential")


def test_mechanism(capsys):
    code, names = run("noisy = ")
    assert f"<!-- mechanism -->\n```python\n{code}" in README
    printed = capsys.readouterr().out
    assert printed.startswith(
        "(epsilon = 8, delta = 1e-06)-differential privacy for one"
    )
    assert names["noisy"].shape == (1797, 8, 8)


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {sktensordp.__version__}\n" in text
