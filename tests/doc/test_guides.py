"""The first pages of the guide run without a warning, and print what they say."""

import re

import numpy as np
import pytest

from sktensordp import plotting
from tests import DOC


def run(page):
    """Execute all Python of a page, in one namespace."""
    names: dict = {}
    text = (DOC / page).read_text()
    for code in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(code, page, "exec"), names)
    return names


def test_what_a_guarantee_means(capsys):
    names = run("guarantee.md")
    first, *_, spent, last = capsys.readouterr().out.splitlines()
    assert first.startswith("(epsilon = 2, delta = 1e-06)-differential privacy for one")
    assert names["twice"].epsilon_at(1e-6) < 4
    assert spent.startswith("(epsilon = 1.765, delta = 1e-05)")
    assert last == "(1.0, 0.0) inf"
    text = (DOC / "guarantee.md").read_text()
    said = re.findall(r"(\d\.\d\d) at (?:epsilon )?([\d.]+)", text)
    assert len(said) == 4
    for probability, epsilon in said:
        right = 1 / (1 + np.exp(-float(epsilon.strip("."))))
        assert abs(float(probability) - right) < 0.005


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
    text = (DOC / "which_mechanism.md").read_text()
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
    rows = (DOC / "plotting.md").read_text().splitlines()
    table = [row.split("`")[1] for row in rows if row.startswith("| `")]
    assert sorted(table) == sorted(plotting.__all__)


def test_dask(capsys):
    pytest.importorskip("dask.dataframe")
    run("dask.md")
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.endswith("dask.array.core.Array'> (2, 16, 16)")
    assert 0.5 <= float(second.strip("[]")) <= 5
    assert third == "epsilon = 4"
