"""The examples of completion run, and say what they must say."""

import math
import re

import numpy as np
import pytest

from tests.support.scripts import printed_means

pytestmark = pytest.mark.slow
STARS = {"levels": [1, 2, 3, 4, 5]}


def test_complete_ratings(run, ratings_file, tmp_path):
    path = ratings_file(60, 80, 3000, more=lambda k: ",0", **STARS)
    printed = run(
        "complete_ratings.py", "--epsilons", 1, 8, "--rank", 3, "--random-state", 0,
        "--ratings", path, "--levels", 1, 5, 1, "--splits", 2,
        "--table", tmp_path / "scores.csv",
    )  # fmt: skip
    assert len(printed_means(tmp_path / "scores.csv", printed)) == 4 + 7 * 2
    rows = dict(re.findall(r"^(.*?) {2,}(\d\.\d{3})", printed, flags=re.MULTILINE))
    error = {name: float(value) for name, value in rows.items()}
    assert error["CP and biases"] < error["global mean"]
    assert error["8"] < error["1"]
    found = re.findall(
        r"^([18]) ((?: +\d\.\d{3}){7})   (input|sums|statistics)$",
        printed,
        re.MULTILINE,
    )
    for _, row, _ in found:
        *others, own, auto, rated = map(float, row.split())
        assert auto < min(others) + 0.02
        assert abs(rated - auto) < 0.02
        assert own < auto + 0.02
    assert len(found) == 2
    # One statement per method.
    text = " ".join(printed.split())
    assert (
        text.count("(epsilon = 8, delta = 0)-differential privacy for the value") == 6
    )
    with pytest.raises(SystemExit):
        run("complete_ratings.py", "--typo", 1)


def test_complete_ratings_of_ones_own(run, ratings_file, capsys):
    """Without a declared scale, in another dialect; and scales that do not fit."""
    path = ratings_file(60, 80, 3000, **STARS)
    _, *rows = path.read_text().splitlines()
    path.write_text("\n".join(row.replace(",", "::") for row in rows))
    small = "--epsilons", 8, "--rank", 1, "--random-state", 0, "--ratings", path
    printed = run("complete_ratings.py", *small)
    assert "separator '::', no header; columns: user 0, item 1, rating 2" in printed
    assert "first row: u" in printed
    assert "scale: found within epsilon = 8: 1 2 3 4 5\n" in printed
    assert "declared range" not in printed
    for options, message in [
        (["--levels", 1, 3, 1], "they reach from 1 to 5"),
        (["--levels", 1, 5, 4], "0.0% of the ratings are outside of --levels, and"),
        (["--columns", "user", "item", "stars"], "has no column 'user'"),
        (["--epsilons", 0.1], "Declare your scale: --levels LOW HIGH STEP"),
        (["--levels", 1, 5, 0], "needs a step from LOW to HIGH"),
        (["--splits", 0], "--splits must be at least 1"),
        (["--rank", -1], "--rank at least 0"),
        (["--output", path / "picture.png"], "there is no folder"),
        (["--table", path / "scores.csv"], "there is no folder"),
        (["--output", path.with_name("picture.xyz")], "stored as .xyz, but as .png"),
        (["--features", path], "has no line for most items"),
        (["--features", path.with_name("none.csv")], "needs a header line"),
    ]:
        with pytest.raises(SystemExit):
            run("complete_ratings.py", *small, *options)
        assert re.search(message, capsys.readouterr().err)


def test_user_privacy(run, ratings_file, tmp_path):
    features = tmp_path / "features.csv"
    rows = [f"{i},{i % 2},{i / 10}" for i in range(45)]
    features.write_text("\n".join(["item,odd,number", *rows]))
    printed = run(
        "user_privacy.py", "--epsilons", 1, 32, "--rank", 3, "--random-state", 0,
        "--ratings", ratings_file(300, 50, 9000, **STARS), "--levels", 1, 5, 1,
        "--per-user", 3, "--features", features, "--table", tmp_path / "scores.csv",
    )  # fmt: skip
    assert len(printed_means(tmp_path / "scores.csv", printed)) == 5 + 6 * 3
    rows = re.findall(r"^(.*?) {2,}(\d\.\d{3})$", printed, flags=re.MULTILINE)
    error = {name: float(value) for name, value in rows[:5]}
    mean, own = error["global mean"], error["user's own mean, no budget"]
    assert error["CP with biases, no noise"] < error["biases, no noise"] < own < mean
    table = {
        epsilon: list(map(float, row.split()))
        for epsilon, row in re.findall(
            r"^(1|32|inf) ((?: +\d\.\d{3}){6})$", printed, re.MULTILINE
        )
    }
    assert len(table) == 3
    assert table["32"][0] < table["1"][0] < mean
    assert table["32"][0] < own + 0.01
    for sums, statistics, auto, *_ in table.values():
        assert auto < min(sums, statistics) + 0.02
    _, new = printed.split("RMSE for users who were not in the fit")
    first, last = re.findall(r"^(?:1|32) {2,}(\d\.\d{3})$", new, re.MULTILINE)
    assert float(last) < float(first) < mean
    text = " ".join(printed.split())
    assert (
        "(epsilon = 32, delta = 1e-05)-differential privacy for everything at one "
        "index of mode 0 (add-or-remove)" in text
    )


def test_recommend_from_choices(run, ratings_file, tmp_path):
    printed = run(
        "recommend_from_choices.py", "--epsilons", 0.5, 20, "--random-state", 0,
        "--splits", 1, "--choices", ratings_file(500, 60, 9000, **STARS),
        "--table", tmp_path / "scores.csv",
    )  # fmt: skip
    assert len(printed_means(tmp_path / "scores.csv", printed)) == 2 + 2 * 2
    assert "9,000 choices of 60 items by 500 users" in printed
    rows = re.findall(r"^(0\.5|20) +(0\.\d+) +(\d+) +(0\.\d+)$", printed, re.MULTILINE)
    small, large = ([float(n) for n in row] for row in rows)
    assert small[2] < large[2]
    assert abs(small[1] - small[3]) < 0.1
    assert large[1] > large[3] - 0.05
    assert "(epsilon = 20, delta = 1e-05)-differential privacy for every" in printed
    with pytest.raises(SystemExit):
        run("recommend_from_choices.py", "--typo", 1)


def test_recommend_choices_of_a_second_file(run, ratings_file, tmp_path):
    rows = ratings_file(500, 60, 9000, **STARS).read_text().splitlines()
    files = tmp_path / "known.csv", tmp_path / "find.csv"
    files[0].write_text("\n".join([rows[0], *rows[1:8001]]))
    files[1].write_text("\n".join([rows[0], *rows[8001:], "nobody,1"]))
    arguments = ["--epsilons", 20, "--random-state", 0, "--choices", files[0]]
    printed = run("recommend_from_choices.py", *arguments, "--test", files[1])
    assert "9,001 choices of 60 items by 501 users" in printed
    # A user of whom no choice is known changes no score.
    files[1].write_text("\n".join([rows[0], *rows[8001:]]))
    again = run("recommend_from_choices.py", *arguments, "--test", files[1])
    pattern = r"no noise +(0\.\d+)$"
    scores = re.findall(pattern, printed, re.MULTILINE)
    assert len(scores) == 2
    assert scores == re.findall(pattern, again, re.MULTILINE)
    with pytest.raises(SystemExit):
        run("recommend_from_choices.py", "--test", files[1])


def test_synthetic_users(run):
    printed = run("synthetic_users.py", draws=False)
    popular, synthetic, real = map(float, re.findall(r": +(0\.\d{3})$", printed, re.M))
    assert popular < synthetic < real
    assert synthetic > 0.8 * real


def test_simulation_study(run, tmp_path):
    arguments = ["--realisations", "1", "--epsilons", "2", "64"]
    arguments += ["--missing", "0.5", "--epsilon", "64", "--random-state", "0"]
    table = tmp_path / "scores.csv"
    printed = run("papers/simulation_study.py", *arguments, "--table", table)
    assert len(printed_means(table, printed)) == 13 * 3
    rows = re.findall(
        r"^(\S.*?) +([\d.]+)±0.0 +([\d.]+)±0.0 {4}(\S.*)$", printed, re.MULTILINE
    )
    holds = {name: what for name, _, _, what in rows}
    assert len(holds) == 13
    false = {name for name, what in holds.items() if what == "no epsilon holds"}
    assert false == {"published gradient", "published output"}
    text = " ".join(printed.split())
    assert text.count("No differential privacy for the value of one") == 2
    small, large = ({row[0]: float(row[k]) for row in rows} for k in (1, 2))
    mean = small["predict the mean, no noise"]
    private = [value for name, value in small.items() if "no noise" not in name]
    assert min(private) > 0.95 * mean
    assert small["published input, clamped"] < 0.8 * small["published input"]
    assert large["auto"] < 0.5 * mean < large["published input"]


def test_ratings_study(run, ratings_file, tmp_path):
    path = ratings_file(
        60, 80, 3000, more=lambda k: f",{1_000_000 * (k % 12)}", **STARS
    )
    printed = run(
        "papers/ratings_study.py", "--ratings", path, "--levels", 1, 5, 1, "--rank", 3,
        "--epsilons", 1, 16, "--splits", 1, "--table", tmp_path / "scores.csv",
    )  # fmt: skip
    assert len(printed_means(tmp_path / "scores.csv", printed)) == 5 + 15 * 2
    assert "(60, 80, 5), 5 times with ratings" in printed
    rows = re.findall(
        r"^(\S.*?) {2,}(\d\.\d{3})\*? +(\d\.\d{3})\*? +(\S.*)$", printed, re.MULTILINE
    )
    holds = {name: what for name, _, _, what in rows}
    assert len(holds) == 15
    false = {name for name, what in holds.items() if what == "no epsilon holds"}
    raw = {f"published {name}, bi-scaled" for name in ("input", "gradient", "output")}
    assert false == {"published gradient", "published output"} | raw
    # The halves of the budget add up again.
    both = "half for bi-scaling: (epsilon = 16, delta = 0)-differential privacy"
    assert " ".join(printed.split()).count(both) == 2
    error = {name: float(value) for name, _, value, _ in rows}
    (mean,) = re.findall(r"^global mean, no noise +(\d\.\d{3})$", printed, re.MULTILINE)
    assert error["auto"] < min(float(mean), error["published input"])


def test_ratings_study_of_train_and_test_files(run, ratings_file, tmp_path):
    """Files as those of MovieLens 100K: tabs, no header, two pairs of all ratings."""
    path = ratings_file(
        60, 80, 3000, more=lambda k: f",{1_000_000 * (k % 12)}", **STARS
    )
    rows = [row.replace(",", "\t") for row in path.read_text().splitlines()[1:]]
    ratings, held_out = [], []
    for name, at in (("ua", 0), ("ub", 300)):
        ratings.append(tmp_path / f"{name}.base")
        held_out.append(tmp_path / f"{name}.test")
        ratings[-1].write_text("\n".join(rows[:at] + rows[at + 300 :]))
        held_out[-1].write_text("\n".join(rows[at : at + 300]))
    small = ["--levels", 1, 5, 1, "--rank", 2, "--epsilons", 8, "--test", *held_out]
    printed = run(
        "papers/ratings_study.py", "--ratings", *ratings, *small,
        "--decomposition", "tucker",
    )  # fmt: skip
    assert "6,000 ratings" in printed
    assert "mean of 2 fits to the files" in printed
    y = np.array([float(row.split("\t")[2]) for row in rows])
    errors = []
    for at in (0, 300):
        fitted = np.delete(y, slice(at, at + 300))
        errors.append(np.sqrt(np.mean((y[at : at + 300] - fitted.mean()) ** 2)))
    found = re.search(r"^global mean, no noise +(\d\.\d{3})$", printed, re.MULTILINE)
    assert float(found[1]) == pytest.approx(np.mean(errors), abs=6e-4)
    for files in ([], ["--ratings", ratings[0]]):
        with pytest.raises(SystemExit):
            run("papers/ratings_study.py", *small, *files)


def test_hourly_counts(run_cells):
    printed = run_cells("hourly_counts.py")
    rows = re.findall(r"^(\S.*?) {2,}(\d+\.\d{3})$", printed, re.MULTILINE)
    error = {name: float(value) for name, value in rows}
    tied, loose = (
        error[f"epsilon = 8, {name}"] for name in ("smooth hours", "unrelated hours")
    )
    assert error["epsilon = inf, smooth hours"] < tied < loose < error["mean"]
    fitted, streamed, ahead = (
        error[name]
        for name in (
            "fitted with all other days",
            "taken in hour by hour",
            "predicted an hour ahead",
        )
    )
    # One day of counts with noise: the two are 5% apart, in either order.
    assert abs(fitted - streamed) < 0.08 * fitted
    assert max(fitted, streamed) < ahead < error["mean"]
    assert printed.count("(epsilon = 8, delta = 0)-differential privacy for the") == 3


def test_federated_ratings(run_cells):
    printed = run_cells("federated_ratings.py")
    found = re.findall(r"^(.+?) {2,}([A-F]*) +(\d\.\d{3})$", printed, re.MULTILINE)
    error = {name: float(value) for name, _, value in found}
    shops = [letters for _, letters, _ in found if letters]
    assert shops == ["ABCD", "ABDE", "ABCDE", "ABCDEF"]
    assert error["no noise"] < error["trusted server, best method"]
    assert error["trusted server, best method"] < error["Fargo joins"]
    assert error["Fargo joins"] < error["four shops answer, Evora is down"]
    same = error["trusted server, same method"]
    assert abs(error["Fargo joins"] - same) < 0.03
    # Each shop has one message, and what it says is bounded.
    assert len(re.findall(r"^\w+ +[\d,]+ bytes", printed, re.MULTILINE)) == 6
    (ratio,) = re.findall(r"than e\^(\d\.\d+) times", printed)
    epsilon = run_cells.names.epsilon
    assert 0.96 * epsilon < float(ratio) <= epsilon
    assert f"spent by each shop: epsilon = {epsilon:g} for each rating" in printed
    blind, right, most = map(float, re.findall(r"(\d+\.\d)% right", printed))
    odds = math.exp(epsilon) * blind / (100 - blind)
    assert blind < right < most == pytest.approx(100 * odds / (1 + odds), abs=0.2)
    # Ratings with their coordinates are not shuffled; those about one film are.
    assert "coordinates are public and show" in printed.replace("\n", " ")
    table = re.findall(
        r"^(no shuffler|shuffled|trusted server) {2,}(\S+) +(\S+)$", printed, re.M
    )
    (_, alone, first), (_, local, second), (_, _, third) = table
    assert float(alone) == 1.0 < float(local)
    assert float(first) > float(second) > float(third)


def test_federated_users(run_cells):
    printed = run_cells("federated_users.py")
    rows = re.findall(r"^(.+?) {2,}(\d) +(\d\S*) +(\d\.\d{3})$", printed, re.M)
    error = {name: float(value) for name, *_, value in rows}
    assert [int(fewest) for _, fewest, *_ in rows] == [6, 4, 4, 1, 6, 5]
    # Nothing is spent for dropouts that were planned; with more, the fit ends.
    assert {float(spent) for _, _, spent, _ in rows} == {run_cells.names.epsilon}
    assert "n_parties - n_dropouts = 5 to n_parties = 6, got 4" in " ".join(
        printed.split()
    )
    assert "spent by each shop: 1 1 1 1 1 1" in printed
    exact = run_cells.names.errors
    assert exact["no noise"] < exact["all six shops answer"]
    assert exact["all six shops answer"] < exact["shares: all six shops answer"]
    everybody = error["all six shops answer"]
    assert everybody < error["only Aarhus ever answers"] - 0.02
    assert error["Basel and Cork drop out on the way"] < everybody + 0.03
    # More noise, as two of the shops are not relied on.
    shared = error["shares: all six shops answer"]
    assert shared < everybody + 0.02
    assert error["shares: one shop is away at a time"] < shared + 0.02
    assert "all ratings in one place: True" in printed
    text = " ".join(printed.split())
    assert "if nobody but a trusted server sees the exact sums" in text
    assert "noise of at least 4 of the 6 parties" in text
    assert "no sum of fewer than 5 answers" in text


ROW = re.compile(
    r"^(\S.*?) {2,}([\d.]+) +([\d.]+) +([\d.]+) (\+ raw)? +(\d\.\d{3})\*? *±", re.M
)
METHODS = {
    "GridSearchCV, naive", "GridSearchCV, divided", "PrivateSearchCV",
    'PrivateSearchCV, "keep"', "no search", "known beforehand",
}  # fmt: skip


def parsed(printed):
    """By method: epsilon of one fit, claimed and real ones, whether raw, error."""
    return {
        name: (*map(float, (one, claimed, really)), bool(raw), float(error))
        for name, one, claimed, really, raw, error in ROW.findall(printed)
    }


def check_search(rows, total, n_candidates):
    n_fits = n_candidates * 4 + 1
    assert set(rows) == METHODS
    one, claimed, really, raw, _ = rows["GridSearchCV, naive"]
    assert one == claimed == total
    assert raw
    assert really == pytest.approx(n_fits * total, abs=1e-5)
    one, claimed, really, raw, _ = rows["GridSearchCV, divided"]
    assert one == pytest.approx(total / n_fits, rel=1e-3)
    assert raw
    assert really == pytest.approx(claimed, abs=1e-6)
    for name in METHODS:
        _, claimed, really, raw, error = rows[name]
        assert claimed == total
        assert 0.3 < error < 4
        if not name.startswith("Grid"):
            assert not raw
            assert really == pytest.approx(total, abs=1e-6)
    # Tries, score and choice; with a last fit there is less for each.
    kept, refitted = rows['PrivateSearchCV, "keep"'][0], rows["PrivateSearchCV"][0]
    assert refitted < kept < total
    assert rows["known beforehand"][-1] <= rows["no search"][-1]


def test_private_search(run, ratings_file):
    printed = run(
        "papers/private_search.py", "--epsilons", 4, "--repeats", 1, "--tries", 2,
        "--max-iter", 2, "--levels", 1, 5, 1,
        "--ratings", ratings_file(30, 40, 600, **STARS),
    )  # fmt: skip
    assert "600 ratings; users x items are (30, 40)" in printed
    _, published, default = re.split(r"^(?:Algorithm 1|default): ", printed, flags=re.M)
    check_search(parsed(published), 4, 9)
    check_search(parsed(default), 4, 3)
    text = " ".join(printed.split())
    assert text.count("The scores and the choice of the best candidate") == 2
