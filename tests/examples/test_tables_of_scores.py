"""The option --table of the papers' experiments: all scores, in one form."""

import csv
import math
from collections import defaultdict

import numpy as np
import pytest
from sklearn.utils import Bunch

from sktensordp import datasets
from sktensordp.datasets import make_ratings
from tests import EXAMPLES
from tests.support.scripts import load_definitions

pytestmark = pytest.mark.slow
PAPERS = EXAMPLES / "papers"
COLUMNS = ["measure", "method", "epsilon", "seed", "claimed", "true", "score"]
# Small runs of each script, and whether it draws.
RUNS = {
    "covariance": ("--epsilons 1 --repeats 2", True),
    "encoder_settings": (
        "--figures 3 6 --epsilons 5 --components 1 --epochs 2 --splits 2", True,
    ),
    "expected_errors": ("--shapes 1 --values 2000", True),
    "federated_gradients": ("--epsilons 2 --rounds 2 --parties 2 --runs 2", True),
    "mechanism_errors": ("--shapes 1 --values 2000", True),
    "private_search": (
        "--epsilons 8 --repeats 2 --tries 2 --max-iter 2 --completions default", True,
    ),
    "private_test_features": ("--epsilons 8 --repeats 2", True),
    "ratings_study": ("--epsilons 4 --splits 1 --rank 1", True),
    "running_times": ("--shape 6 4 --repeats 1", True),
    "simulation_study": (
        "--realisations 1 --epsilons 8 --missing 0.5 --epsilon 8", True,
    ),
    "task_aware": ("--data diabetes --splits 2", True),
    "tensor_response": ("--type 2 --epsilons 16 --splits 2", False),
    "three_types": ("--types 3 --epsilons 8 --repeats 2", True),
    "vertical_features": ("--epsilons 4 --runs 2", True),
    "which_claims": ("--trials 400", True),
}  # fmt: skip


def rows_of(file):
    with file.open(newline="", encoding="utf-8") as lines:
        reader = csv.DictReader(lines)
        assert reader.fieldnames == COLUMNS
        return list(reader)


def test_all_scripts_have_the_option():
    of_all = {path.stem: path.read_text() for path in PAPERS.glob("[!_]*.py")}
    assert of_all.keys() == RUNS.keys()
    for name in RUNS:
        assert '"--table"' in of_all[name], name
        assert "from _scores import write_scores" in of_all[name], name
        assert "csv.writer" not in of_all[name], name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RUNS)
def test_scores_of_a_script(name, run, tmp_path):
    """Seeds from 0 on, numbers everywhere, and no method without a truth it claims."""
    arguments, draws = RUNS[name]
    table = tmp_path / "scores.csv"
    run(f"papers/{name}.py", *arguments.split(), "--table", table, draws=draws)
    rows, seeds = rows_of(table), defaultdict(list)
    assert len(rows) > 5
    for row in rows:
        seeds[row["measure"], row["method"], row["epsilon"]].append(int(row["seed"]))
        assert row["epsilon"] == f"{float(row['epsilon']):g}"
        assert math.isfinite(float(row["score"]))
        if row["claimed"]:
            assert float(row["claimed"]) >= 0
        if "sound" in row["method"]:
            assert float(row["true"]) <= float(row["claimed"]) * (1 + 1e-9)
        if "published" in row["method"] and name != "ratings_study":
            assert row["claimed"] or "no noise" in row["method"]
    assert all(each == list(range(len(each))) for each in seeds.values())


def test_form_of_the_file(tmp_path):
    scores = load_definitions(PAPERS / "_scores.py")
    assert list(scores.COLUMNS) == COLUMNS
    file = tmp_path / "scores.csv"
    rows = [
        ("RMSE", "fit, no noise", math.inf, None, None, [0.5]),
        ("RMSE", 'with "noise"', 0.1 + 0.2, 1.0, math.inf, np.array([1.25, 2.0])),
    ]
    scores.write_scores(file, rows)
    first, second, third = rows_of(file)
    assert [*first.values()] == ["RMSE", "fit, no noise", "inf", "0", "", "", "0.5"]
    assert [*second.values()] == [
        "RMSE", 'with "noise"', "0.3", "0", "1.0", "inf", "1.25",
    ]  # fmt: skip
    assert third["seed"] == "1"


def test_range_that_is_told_to_tldp(run, tmp_path):
    """The paper's 256 for values in (-1, 1): more noise, for TLDP alone."""
    found = []
    for told in ("2", "256"):
        table = tmp_path / f"{told}.csv"
        run(
            "papers/tensor_response.py", "--type", 2, "--epsilons", 64,
            "--delta-range", told, "--table", table, draws=False,
        )  # fmt: skip
        found.append({row["method"]: float(row["score"]) for row in rows_of(table)})
    narrow, wide = found
    changed = {name for name in narrow if narrow[name] != wide[name]}
    assert changed
    assert all(name.startswith("TLDP") for name in changed)
    assert wide["TLDP-L as published"] < narrow["TLDP-L as published"] - 0.2
    with pytest.raises(SystemExit):
        run("papers/tensor_response.py", "--delta-range", 1, draws=False)


OWN_DATA = {
    "covariance": "--epsilons 1 --repeats 1",
    "federated_gradients": "--epsilons 2 --rounds 2 --parties 2 --runs 1",
    "private_test_features": "--epsilons 8 --repeats 1",
    "three_types": "--types 3 --epsilons 8 --repeats 1",
    "vertical_features": "--epsilons 4 --runs 1",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OWN_DATA)
def test_data_of_your_own(name, run, tmp_path):
    """Samples and labels from an .npz change the scores."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    X = np.clip(0.3 * rng.normal(size=(400, 4, 6)) + 0.4 * y[:, None, None], -1, 1)
    np.savez(tmp_path / "own.npz", X=X, y=y)
    found = []
    for own in ([], ["--data", tmp_path / "own.npz"]):
        table = tmp_path / f"scores{len(found)}.csv"
        run(f"papers/{name}.py", *OWN_DATA[name].split(), *own, "--table", table)
        found.append([row["score"] for row in rows_of(table)])
    assert found[1]
    assert found[0] != found[1]


def test_movielens_by_its_name(run, tmp_path, monkeypatch):
    """The study fetches the data that it is told, and no others."""
    made, asked = make_ratings(60, 50, 1500, random_state=0), []
    rows = np.column_stack([made.data, np.arange(1500) * 10**5])

    def fetch(name):
        asked.append(name)
        return Bunch(data=rows, target=made.target)

    monkeypatch.setattr(datasets, "fetch_movielens", fetch)
    printed = run(
        "papers/ratings_study.py", "--ratings", "100k", "--epsilons", 4,
        "--splits", 1, "--rank", 1,
    )  # fmt: skip
    assert asked == ["100k"]
    assert "1,500 ratings" in printed
