"""The README is short, and its commands are where they are looked for.

test_pages.py runs its code and compares the output.
"""

import ast
import re

import sktensordp
from tests import ROOT

README = (ROOT / "README.md").read_text()


def test_it_is_read_in_a_few_minutes():
    assert len(README.split()) <= 900


def test_the_example_is_ten_lines():
    (code,) = re.findall(r"<!-- example -->\n```python\n(.*?)```", README, re.DOTALL)
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(ast.parse(code).body) <= 12
    assert len([line for line in lines if "import" not in line]) <= 10
    assert README.count("```python") == 1


def test_commands_are_where_ci_looks_for_them():
    for marker in ("main", "test"):
        block = README.split(f"<!-- {marker} command -->\n```bash\n")[1].split("```")[0]
        assert block.count("\n") == 1
        assert block.startswith("python3 -m venv .venv && ")
        # tests/examples run the example.
        assert ("examples/complete_ratings.py" in block) == (marker == "main")


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {sktensordp.__version__}\n" in text
