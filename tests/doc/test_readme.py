"""What the README shows runs, without a warning, and prints what it promises."""

import ast
import re

import numpy as np
import pytest

import sktensordp
from sktensordp.datasets import make_ratings
from tests import ROOT
from tests.support.every_estimator import public_estimators

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
    assert len(blocks) == 4


def test_encoding(capsys):
    """What a task makes of other people's releases: 0.935 +- 0.018 at epsilon = 5."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    (code,) = [block for block in blocks if "TaskAwareEncoder" in block]
    exec(compile(code, "README.md", "exec"), {})
    clean, noisy, *guarantee = capsys.readouterr().out.split()
    assert float(clean) > 0.93
    assert float(noisy) > 0.83
    assert " ".join(guarantee).startswith("(epsilon = 5, delta = 0)-differential")


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


def test_guide_to_local_privacy(capsys):
    """What is claimed and what holds for randomised response of 784 entries."""
    text = (ROOT / "doc" / "local.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    exec(compile(code, "local.md", "exec"), {})
    printed = capsys.readouterr().out.split("\n")
    assert printed[:3] == ["(1.0, 0.0)", "382.3", "1.0 1e-05"]


def test_guide_to_encoding(capsys):
    """Loads of households: what is expected, and what strangers' codes come to."""
    text = (ROOT / "doc" / "encoding.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    exec(compile(code, "encoding.md", "exec"), {})
    *_, expected, measured = capsys.readouterr().out.split()
    assert 0.2 < float(expected) < float(measured) + 0.05 < 0.5


def test_guide_to_users(capsys):
    """A search with whole users held out: the guarantee, and what the search cost."""
    text = (ROOT / "doc" / "users.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names = {}
    exec(compile(code, "users.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "differential privacy for everything at one index of mode 0" in printed
    assert "All releases together" in printed
    assert set(names["search"].best_params_) == {"epsilon", "rank"}


def test_guide_to_completion(tmp_path, monkeypatch):
    """Ids and values from a file in batches, later bins, deviations, films to see."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    ratings = make_ratings(80, 60, 2000, random_state=0, levels=[1, 2, 3, 4, 5])
    users, films = ratings.data.T
    columns = {"user": users, "film": films + 1000, "time": np.arange(2000) * 10**4}
    table = pd.DataFrame(columns).assign(rating=ratings.target)
    table.to_parquet(tmp_path / "ratings.parquet", row_group_size=700)
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "doc" / "completion.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names = {}
    exec(compile(code, "completion.md", "exec"), names)
    assert names["model"].shape_[2] == 8
    assert names["mean"].dtype == names["std"].dtype == np.float32
    assert names["std"] > 0
    assert names["films"].shape == (3, 10)
    assert names["model"].privacy_guarantee_.epsilon <= 4


def test_guide_to_the_choice_of_epsilon(capsys):
    """What it says is printed, from zeros, from wines and from who rated what."""
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    text = (ROOT / "doc" / "choosing_epsilon.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    exec(compile(code, "choosing_epsilon.md", "exec"), {})
    plt.close("all")
    printed = capsys.readouterr().out.splitlines()
    said = re.findall(r"`([^`]*)`", text.split("It prints ")[1].split(".\n")[0])
    assert printed == said


def test_guide_to_budgets(capsys):
    """Its assertions hold, block after block."""
    text = (ROOT / "doc" / "budgets.md").read_text()
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(code, "budgets.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "transform of LaplaceMechanism" in printed
    assert "part 2 of 2, disjoint" in printed
    assert "fit of PrivateSearchCV" not in printed
    assert names["search"].best_params_["rank"] in (0, 1, 2, 3)


def test_threat_model():
    """What is shipped to clients works, and no estimator is forgotten."""
    text = (ROOT / "doc" / "threat_model.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names: dict = {}
    exec(compile(code, "threat_model.md", "exec"), names)
    assert names["estimate"].shape == names["noisy"].shape == (1, 6)
    table = "\n".join(line for line in text.split("\n") if line.startswith("|"))
    assert set(re.findall(r"`(\w+)`", table)) >= public_estimators()


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {sktensordp.__version__}\n" in text
