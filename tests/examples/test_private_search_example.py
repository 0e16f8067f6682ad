"""What searches cost, as the example states it."""

import re

import pytest

from sktensordp.datasets import make_ratings

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


def check(rows, total, n_candidates):
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


SMALL = ["--epsilons", "4", "--repeats", "1", "--tries", "2", "--max-iter", "2"]


def test_default_ratings(tmp_path, run):
    arguments = [*SMALL, "--completions", "Algorithm 1"]
    check(parsed(run(tmp_path, "private_search.py", *arguments)), 4, 9)


def test_a_file(tmp_path, run):
    ratings = make_ratings(30, 40, 600, random_state=0, levels=[1, 2, 3, 4, 5])
    rows = [
        f'"u{u}",{i},{r:g}'
        for (u, i), r in zip(ratings.data, ratings.target, strict=True)
    ]
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(["user,item,rating", *rows]))
    arguments = [*SMALL, "--ratings", path, "--levels", "1", "5", "1"]
    printed = run(tmp_path, "private_search.py", *arguments)
    assert "600 ratings; users x items are (30, 40)" in printed
    _, published, default = re.split(r"^(?:Algorithm 1|default): ", printed, flags=re.M)
    check(parsed(published), 4, 9)
    check(parsed(default), 4, 3)
    assert printed.count("The scores and the choice made by them") == 2
