"""The examples of local privacy run, and their tables say what they must say."""

import math
import re

import pytest

SEED = "--random-state", "0"


def test_local_digits(tmp_path, run):
    printed = run(
        tmp_path, "local_digits.py", *SEED, "--epsilons", "8", "64", "--splits", "2"
    )
    rows = re.findall(r"^(.*?) {2,}(\d.\d\d)±\S+ +(\d.\d\d)±", printed, re.MULTILINE)
    score = {name: tuple(map(float, values)) for name, *values in rows}
    assert len(score) == 9
    published = {name for name in score if "published" in name}
    sound = score.keys() - published
    clean = float(re.search(r"^no noise +(\d.\d\d)$", printed, re.MULTILINE)[1])
    assert all(0.8 < score[name][1] < clean for name in sound)
    assert score["Laplace"][0] < score["Gaussian"][0] < score["hybrid"][0]
    assert score["hybrid"][0] < score["PrivUnit"][0]
    # What was published seems better than all of them, and its truth stands below.
    truths = re.findall(r"published .*\n  its true epsilon +(\S+) +(\S+)", printed)
    assert len(truths) == len(published) == 2
    for name in published:
        assert score[name][0] > score["PrivUnit"][0]
    for row in truths:
        at_8, at_64 = (float(value.replace(",", "")) for value in row)
        assert at_8 > 400
        assert at_64 > 4000


@pytest.mark.parametrize("shape", [(23, 23), (2, 3, 4)])
def test_local_mean(tmp_path, run, shape):
    arguments = ["--shape", *map(str, shape), "--epsilons", "1", "16"]
    printed = run(tmp_path, "local_mean.py", *SEED, *arguments, "--users", "2000")
    tables = printed.split("epsilon = ")[1:]
    assert [table.split(",")[0] for table in tables] == ["1", "16"]
    for table in tables:
        found = re.findall(
            r"^([A-Za-z, ]+?) {2,}(\S+) +(\S+) +(\S+) +(\d\S+)$", table, re.M
        )
        rows = {name: tuple(map(float, values)) for name, *values in found}
        assert len(rows) == 6
        for stated, measured, clipped, covered in rows.values():
            # 500 entries and more: six standard deviations of a chi-squared law.
            assert measured < stated * (1 + 6 * math.sqrt(2 / 500))
            assert clipped <= measured
            assert 0.9 < covered < 0.99
        # Noise that does not depend on the data has no case that is better.
        for name in ("Laplace", "Gaussian", "PrivUnit"):
            stated, measured, *_ = rows[name]
            assert measured > stated * (1 - 6 * math.sqrt(2 / 500))
        assert rows["Laplace"][0] > rows["Gaussian"][0] > rows["hybrid"][0]
        guess = float(re.search(r"^0 everywhere +(\S+)$", table, re.MULTILINE)[1])
        assert math.prod(shape) / 6 < guess < math.prod(shape) / 2
