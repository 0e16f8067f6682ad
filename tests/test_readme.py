"""What the README shows runs, without a warning, and prints what it promises."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def test_example(capsys):
    text = README.read_text()
    code = text.split("<!-- example -->\n```python\n")[1].split("```")[0]
    assert len(ast.parse(code).body) == 10
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert printed.startswith("(epsilon = 4, delta = 0)-differential privacy")
    total = float(re.search(r"All releases together: \(epsilon = ([\d.]+)", printed)[1])
    assert total == 2 * (2 + 2 + 4 + 4) + 4
    assert "Not protected:" in printed
    assert "who rated what" in printed
    assert "raw values held out" in printed


def test_commands_are_where_ci_looks_for_them():
    text = README.read_text()
    for marker in ("main", "test"):
        block = text.split(f"<!-- {marker} command -->\n```bash\n")[1].split("```")[0]
        assert block.count("\n") == 1
        assert block.startswith("python3 -m venv .venv && ")


def test_audit(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    (code,) = [block for block in blocks if "audit_mechanism" in block]
    exec(compile(code, "README.md", "exec"), {})
    assert "VIOLATED" in capsys.readouterr().out
    assert len(blocks) == 3


def test_mechanism(capsys):
    code = (
        README.read_text().split("<!-- mechanism -->\n```python\n")[1].split("```")[0]
    )
    names = {}
    exec(compile(code, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert printed.startswith(
        "(epsilon = 8, delta = 1e-06)-differential privacy for one"
    )
    assert names["noisy"].shape == (1797, 8, 8)


def test_guide(capsys):
    """The guide to the mechanisms: weights released privately, and the total."""
    text = (ROOT / "doc" / "mechanisms.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    exec(compile(code, "mechanisms.md", "exec"), {})
    printed = capsys.readouterr().out
    assert printed.startswith("(epsilon = 3.924, delta = 2e-06)-differential privacy")
