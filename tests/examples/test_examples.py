"""The main job runs on the default and on a file, and says what it must say."""

import math
import re

import pytest

from sktensordp.datasets import make_ratings


@pytest.mark.parametrize("source", ["default", "file"])
def test_complete_ratings(tmp_path, run, source):
    arguments = ["--epsilons", "1", "8", "--rank", "3", "--random-state", "0"]
    if source == "file":
        ratings = make_ratings(60, 80, 3000, random_state=0, levels=[1, 2, 3, 4, 5])
        rows = [
            f'"u{u}",{i},{r:g},0'
            for (u, i), r in zip(ratings.data, ratings.target, strict=True)
        ]
        path = tmp_path / "ratings.csv"
        path.write_text("\n".join(["user,item,rating,time", *rows]))
        arguments += ["--ratings", str(path), "--levels", "1", "5", "1"]
    printed = run(tmp_path, "complete_ratings.py", *arguments)
    rows = dict(re.findall(r"^(.*?) {2,}(\d\.\d{3})", printed, flags=re.MULTILINE))
    error = {name: float(value) for name, value in rows.items()}
    assert error["CP with biases, no noise"] < error["global mean"]
    assert error["8"] < error["1"]
    found = re.findall(r"^([18]) ((?: +\d\.\d{3}){5})$", printed, flags=re.MULTILINE)
    for _, row in found:
        *others, auto = map(float, row.split())
        assert auto < min(others) + 0.02
    assert len(found) == 2
    assert printed.count("differential privacy for the value of one") == 10


@pytest.mark.parametrize("source", ["default", "file"])
def test_user_privacy(tmp_path, run, source):
    arguments = ["--epsilons", "1", "32", "--rank", "3", "--random-state", "0"]
    arguments += ["--users", "1000"]
    if source == "file":
        ratings = make_ratings(300, 50, 9000, random_state=0, levels=[1, 2, 3, 4, 5])
        rows = [
            f'"u{u}",i{i},{r:g}'
            for (u, i), r in zip(ratings.data, ratings.target, strict=True)
        ]
        path, features = tmp_path / "ratings.csv", tmp_path / "features.csv"
        path.write_text("\n".join(["user,item,rating", *rows]))
        rows = [f"i{i},{i % 2},{i / 10}" for i in range(45)]
        features.write_text("\n".join(["item,odd,number", *rows]))
        arguments += ["--ratings", path, "--levels", "1", "5", "1", "--per-user", "3"]
        arguments += ["--features", features]
    printed = run(tmp_path, "user_privacy.py", *arguments)
    rows = re.findall(r"^(.*?) {2,}(\d\.\d{3})$", printed, flags=re.MULTILINE)
    error = {name: float(value) for name, value in rows[:5]}
    mean, own = error["global mean"], error["user's own mean, no budget"]
    assert error["CP with biases, no noise"] < error["biases, no noise"] < own < mean
    n_methods = 5 if source == "file" else 3
    table = {
        epsilon: list(map(float, row.split()))
        for epsilon, row in re.findall(
            rf"^(1|32|inf) ((?: +\d\.\d{{3}}){{{n_methods}}})$", printed, re.MULTILINE
        )
    }
    assert len(table) == 3
    assert table["32"][0] < table["1"][0] < mean
    assert table["32"][0] < own
    for sums, statistics, auto, *_ in table.values():
        assert auto < min(sums, statistics) + 0.02
    assert (
        "(epsilon = 32, delta = 1e-05)-differential privacy for everything" in printed
    )
    assert "at one index of mode 0 (add-or-remove)" in printed


@pytest.mark.parametrize("decomposition", ["cp", "tucker"])
def test_simulation_study(tmp_path, run, decomposition):
    arguments = ["--realisations", "1", "--epsilons", "2", "64"]
    arguments += ["--decomposition", decomposition]
    arguments += ["--missing", "0.5", "--epsilon", "64"]
    printed = run(tmp_path, "simulation_study.py", *arguments)
    rows = re.findall(
        r"^(\S.*?) +([\d.]+)±0.0 +([\d.]+)±0.0 {4}(\S.*)$", printed, re.MULTILINE
    )
    holds = {name: what for name, _, _, what in rows}
    assert len(holds) == 12
    false = {name for name, what in holds.items() if what == "no epsilon holds"}
    assert false == {"published gradient", "published output"}
    assert printed.count("No differential privacy for the value of one") == 2
    small, large = ({row[0]: float(row[k]) for row in rows} for k in (1, 2))
    mean = small["predict the mean, no noise"]
    private = [value for name, value in small.items() if "no noise" not in name]
    assert min(private) > 0.95 * mean
    assert large["auto"] < 0.5 * mean < large["published input"]


def test_ratings_study(tmp_path, run):
    ratings = make_ratings(60, 80, 3000, random_state=0, levels=[1, 2, 3, 4, 5])
    rows = [
        f"u{u},{i},{r:g},{1_000_000 * (k % 12)}"
        for k, ((u, i), r) in enumerate(zip(ratings.data, ratings.target, strict=True))
    ]
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(["user,item,rating,time", *rows]))
    arguments = ["--ratings", path, "--levels", "1", "5", "1", "--rank", "3"]
    arguments += ["--epsilons", "1", "16", "--splits", "1"]
    printed = run(tmp_path, "ratings_study.py", *arguments)
    assert "(60, 80, 5), 5 times with ratings" in printed
    rows = re.findall(
        r"^(\S.*?) {2,}(\d\.\d{3})\*? +(\d\.\d{3})\*? +(\S.*)$", printed, re.MULTILINE
    )
    holds = {name: what for name, _, _, what in rows}
    assert len(holds) == 14
    false = {name for name, what in holds.items() if what == "no epsilon holds"}
    raw = {f"published {name}, bi-scaled" for name in ("input", "gradient", "output")}
    assert false == {"published gradient", "published output"} | raw
    # The halves of the budget add up again.
    both = "half for bi-scaling: (epsilon = 16, delta = 0)-differential privacy"
    assert printed.count(both) == 2
    error = {name: float(value) for name, _, value, _ in rows}
    (mean,) = re.findall(r"^global mean, no noise +(\d\.\d{3})$", printed, re.MULTILINE)
    assert error["auto"] < min(float(mean), error["published input"])


def test_mechanism_errors(tmp_path, run):
    arguments = ["--shapes", "1", "--values", "400000"]
    printed = run(tmp_path, "mechanism_errors.py", *arguments)
    rows = re.findall(
        r"^(\S.*?) {2,}([\d.e+]+) +([\d.e+]+)(.*)$", printed, re.MULTILINE
    )
    stated = {name: float(value) for name, value, _, _ in rows}
    measured = {name: float(value) for name, _, value, _ in rows}
    # 1,000 samples of 16 weighted rows: 5 standard deviations are below 5%.
    assert measured == pytest.approx(stated, rel=0.05)
    # Weights 1/i: the published designs at the true guarantee are the optimum.
    assert {f"{v:.3f}" for k, v in stated.items() if k[1:3] in ("VG", "DN")} == {
        "0.451"
    }
    truth = {name: float(claim.split()[0]) for name, _, _, claim in rows if claim}
    assert len(truth) == 3
    assert max(truth.values()) < 0.14


def test_directional_digits(tmp_path, run):
    arguments = ["--epsilons", "80", "--folds", "3", "--random-state", "0"]
    printed = run(tmp_path, "directional_digits.py", *arguments)
    scores = dict(re.findall(r"^(\S.*?) {2,}(\d\.\d{3})", printed, re.MULTILINE))
    assert float(scores["i.i.d. Gaussian"]) < float(scores["UDN, weights of pixels"])
    assert "(epsilon = 80, delta = 1e-05)-differential privacy for one row" in printed


def test_private_gradients(tmp_path, run):
    arguments = ["--epsilons", "4", "--steps", "20", "--runs", "2"]
    printed = run(tmp_path, "private_gradients.py", *arguments, draws=False)
    (epsilon,) = re.findall(
        r"guarantee: \(epsilon = ([\d.]+), delta = 1e-05\)", printed
    )
    assert 3.9 < float(epsilon) <= 4


def test_hourly_counts(tmp_path, run):
    printed = run(tmp_path, "hourly_counts.py", "--days", "4", "--random-state", "0")
    rows = re.findall(r"^(\S.*?) {2,}(\d+\.\d{3})$", printed, re.MULTILINE)
    error = {name: float(value) for name, value in rows}
    tied, loose = (
        error[f"epsilon = 8, {name}"] for name in ("smooth hours", "hours on their own")
    )
    assert error["epsilon = inf, smooth hours"] < tied < loose < error["mean"]
    held = [float(v) for v in re.findall(r"hold (\d+\.\d)% of", printed)]
    # Counts are integers around few trips, so that intervals cannot be exact.
    assert held == pytest.approx([50, 80, 95], abs=8)
    assert printed.count("(epsilon = 8, delta = 0)-differential privacy for the") == 2


@pytest.mark.parametrize("source", ["default", "file"])
def test_federated_ratings(tmp_path, run, source):
    arguments = ["--epsilon", "3", "--random-state", "0"]
    if source == "file":
        ratings = make_ratings(90, 60, 5000, random_state=1)
        rows = [
            f'"u{u}",{i},{r:g}'
            for (u, i), r in zip(ratings.data, ratings.target, strict=True)
        ]
        path = tmp_path / "ratings.csv"
        path.write_text("\n".join(["user,item,rating", *rows]))
        arguments += ["--ratings", path]
    printed = run(tmp_path, "federated_ratings.py", *arguments)
    found = re.findall(r"^(.+?) {2,}([A-F]*) +(\d\.\d{3})$", printed, re.MULTILINE)
    error = {name: float(value) for name, _, value in found}
    shops = [letters for _, letters, _ in found if letters]
    assert shops == ["ABCD", "ABDE", "ABCDE", "ABCDEF"]
    assert error["no noise"] < error["a trusted server"]
    assert error["no noise"] < error["Fargo joins"]
    if source == "default":
        assert error["a trusted server"] < error["Fargo joins"]
        assert error["Fargo joins"] < error["four shops answer, Evora is down"]
        assert abs(error["Fargo joins"] - error["one machine, as much noise"]) < 0.03
    # Each shop has one message, and what it says is bounded.
    assert len(re.findall(r"^  \w+ +[\d,]+ bytes", printed, re.MULTILINE)) == 6
    (ratio,) = re.findall(r"than e\^(\d\.\d+) times", printed)
    assert 2.9 < float(ratio) <= 3.0
    assert "epsilon = 3 at most, after 4 models" in printed
    right, blind, most = map(float, re.findall(r"(\d+\.\d)%", printed))
    odds = math.exp(3) * blind / (100 - blind)
    assert blind < right < most == pytest.approx(100 * odds / (1 + odds), abs=0.2)
