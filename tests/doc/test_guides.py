"""The pages of the guide run without a warning, and print what they say."""

import re

import numpy as np
import pytest

from sktensordp import plotting
from sktensordp.datasets import make_ratings
from tests import DOC
from tests.support.every_estimator import public_estimators

slow = pytest.mark.slow


def text_of(page):
    return (DOC / page).read_text()


def run(page):
    """Execute all Python of a page, in one namespace."""
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", text_of(page), flags=re.DOTALL):
        exec(compile(code, page, "exec"), names)
    return names


def test_what_a_guarantee_means(capsys):
    names = run("guarantee.md")
    first, *_, spent, last = capsys.readouterr().out.splitlines()
    assert first.startswith("(epsilon = 2, delta = 1e-06)-differential privacy for one")
    assert names["twice"].epsilon_at(1e-6) < 4
    assert spent.startswith("(epsilon = 1.765, delta = 1e-05)")
    assert last == "(1.0, 0.0) inf"
    text = text_of("guarantee.md")
    said = re.findall(r"(\d\.\d\d) at (?:epsilon )?([\d.]+)", text)
    assert len(said) == 4
    for probability, epsilon in said:
        right = 1 / (1 + np.exp(-float(epsilon.strip("."))))
        assert abs(float(probability) - right) < 0.005


@slow
def test_a_ratings_tensor(capsys):
    names = run("ratings.md")
    printed = capsys.readouterr().out
    assert (
        "(epsilon = 4, delta = 0)-differential privacy for the value of one" in printed
    )
    assert "privacy for everything at one index of mode 0" in printed
    # Each of four candidates in 2 of 3 folds; then the last fit, and no score.
    last = names["search"].best_params_["epsilon"]
    assert float(printed.split()[-1]) == 2 * 2 * (2 + 8) + last
    assert names["model"].score(names["X_test"], names["y_test"]) > 0.1


def test_which_mechanism(capsys):
    run("which_mechanism.md")
    *table, ratio = capsys.readouterr().out.splitlines()
    text = text_of("which_mechanism.md")
    for line in table:
        name, *errors = line.split()
        (row,) = re.findall(rf"^\| `{name}`, .*$", text, flags=re.MULTILINE)
        said = [cell.strip(" *").replace(",", "") for cell in row.split("|")[2:-1]]
        assert said == errors
    assert f"It prints `{ratio}`" in text


def test_local_or_central(capsys):
    run("local_or_central.md")
    local, central = map(float, capsys.readouterr().out.split())
    # Roots of means of 16 squares deviate by 1 / sqrt(32) of themselves.
    assert abs(local - 0.016) < 0.016
    assert abs(central - 0.0009) < 0.0009
    assert local > 5 * central


def test_pictures(tmp_path, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    display = run("plotting.md")["display"]
    plt.close("all")
    assert (tmp_path / "profile.png").read_bytes().startswith(b"\x89PNG")
    assert set(display.claimed) == {"UDN as published"}
    rows = text_of("plotting.md").splitlines()
    table = [row.split("`")[1] for row in rows if row.startswith("| `")]
    assert sorted(table) == sorted(plotting.__all__)


@slow
def test_dask(capsys):
    pytest.importorskip("dask.dataframe")
    run("dask.md")
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.endswith("dask.array.core.Array'> (2, 16, 16)")
    assert 0.5 <= float(second.strip("[]")) <= 5
    assert third == "epsilon = 4"


def test_mechanisms(capsys):
    """The guide to the mechanisms: weights released privately, and the total."""
    run("mechanisms.md")
    printed = capsys.readouterr().out
    assert printed.startswith("(epsilon = 3.924, delta = 2e-06)-differential privacy")


def test_local_privacy(capsys):
    """What is claimed and what holds for randomised response of 784 entries."""
    run("local.md")
    printed = capsys.readouterr().out.split("\n")
    assert printed[:3] == ["(1.0, 0.0)", "382.3", "1.0 1e-05"]


def test_encoding(capsys):
    """Loads of households: what is expected, and what strangers' codes come to."""
    run("encoding.md")
    *_, expected, measured = capsys.readouterr().out.split()
    assert 0.2 < float(expected) < float(measured) + 0.05 < 0.5


def test_users(capsys):
    """A search with whole users held out: the guarantee, and what the search cost."""
    names = run("users.md")
    printed = capsys.readouterr().out
    assert "differential privacy for everything at one index of mode 0" in printed
    assert "All releases together" in printed
    assert set(names["search"].best_params_) == {"epsilon", "rank"}


def test_choices(capsys):
    """What the page prints, and that its models find what groups choose."""
    names = run("choices.md")
    printed = capsys.readouterr().out
    first = text_of("choices.md").split("```text\n")[1].split("(epsilon")[0]
    assert printed.startswith(first)
    assert "(epsilon = 2, delta = 1e-06)-differential privacy for everything" in printed
    assert names["server"].recommend([7], k=3).shape == (1, 3)
    assert 0.1 < names["found"]["test_score"][0] < 1


def test_completion(tmp_path, monkeypatch):
    """Ids and values from a file in batches, later bins, deviations, films to see."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    ratings = make_ratings(80, 60, 2000, random_state=0, levels=[1, 2, 3, 4, 5])
    users, films = ratings.data.T
    columns = {"user": users, "film": films + 1000, "time": np.arange(2000) * 10**4}
    table = pd.DataFrame(columns).assign(rating=ratings.target)
    table.to_parquet(tmp_path / "ratings.parquet", row_group_size=700)
    monkeypatch.chdir(tmp_path)
    names = run("completion.md")
    assert names["model"].shape_[2] == 8
    assert names["mean"].dtype == names["std"].dtype == np.float32
    assert names["std"] > 0
    assert names["films"].shape == (3, 10)
    assert names["model"].privacy_guarantee_.epsilon <= 4


def test_the_choice_of_epsilon(capsys):
    """What it says is printed, from zeros, from wines and from who rated what."""
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    run("choosing_epsilon.md")
    plt.close("all")
    printed = capsys.readouterr().out.splitlines()
    said = re.findall(
        r"`([^`]*)`",
        text_of("choosing_epsilon.md").split("It prints ")[1].split(".\n")[0],
    )
    assert printed == said


def test_budgets(capsys):
    """Its assertions hold, block after block."""
    names = run("budgets.md")
    printed = capsys.readouterr().out
    assert "transform of LaplaceMechanism" in printed
    assert "part 2 of 2, disjoint" in printed
    assert "fit of PrivateSearchCV" not in printed
    assert names["search"].best_params_["rank"] in (0, 1, 2, 3)


def test_threat_model():
    """What is shipped to clients works, and no estimator is forgotten."""
    names = run("threat_model.md")
    assert names["estimate"].shape == names["noisy"].shape == (1, 6)
    table = "\n".join(
        line for line in text_of("threat_model.md").split("\n") if line.startswith("|")
    )
    assert set(re.findall(r"`(\w+)`", table)) >= public_estimators()
