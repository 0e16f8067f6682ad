"""The three experiments of randomised response: their tables say what is true."""

import re

import numpy as np
import pytest

SCRIPT = "tensor_response.py"
SEED = "--random-state", "0"
SOUND = {
    "Laplace", "Gaussian = MVG = IDN", "response, 2 levels", "response-L, 17 levels",
    "response-G, 17 levels", "hybrid", "PrivUnit",
}  # fmt: skip
PUBLISHED = {f"{name} as published" for name in ("MVG", "IDN", "TLDP-L", "TLDP-G")}
WEIGHTED = {
    "response-L-w, 17 levels", "TLDP-L-w as published", "TLDP-G-w as published",
}  # fmt: skip


def table(printed):
    """Numbers of every row; rows below one that is named have its name, too."""
    rows, name = {}, None
    for line in printed.splitlines():
        if found := re.match(r"^( *\S.*?) {2,}(\d.*)$", line):
            label, values = found[1], found[2].replace(",", "").split()
            if label.startswith(" "):
                label = f"{name}:{label[1:]}"
            else:
                name = label
            rows[label] = [float(value.split("±")[0]) for value in values]
    return rows


def named(rows):
    """Of the mechanisms, without references."""
    others = "epsilon of", "no noise", "labels drawn", "a user alone"
    return {name for name in rows if ":" not in name and not name.startswith(others)}


@pytest.mark.parametrize(
    ("kind", "claims", "names", "entries"),
    [
        ("1", ("8", "64"), SOUND | PUBLISHED | WEIGHTED, 64),
        ("2", ("4", "64"), SOUND | PUBLISHED, 16),
        ("3", ("32", "256"), SOUND | PUBLISHED, 170),
    ],
)
def test_tables(tmp_path, run, kind, claims, names, entries):
    printed = run(
        tmp_path, SCRIPT, *SEED, "--type", kind, "--splits", "2", "--epsilons", *claims
    )
    rows = table(printed)
    low, high = map(float, claims)
    assert named(rows) == names
    for name in SOUND | WEIGHTED & names:
        few, many = rows[name]
        assert few < many <= rows["no noise"][0] + 0.02
    assert rows["Laplace"][0] < rows["hybrid"][0] < rows["PrivUnit"][0]
    assert rows["labels drawn at random"] == [0.1]
    for name in names:
        truth = rows.get(f"{name}: true epsilon")
        assert (truth is None) == ("published" not in name)
        if name.startswith("TLDP"):
            # An entry spends what is claimed for all; delta takes a part of it.
            assert 0.5 * entries * low < truth[0]
            assert 0.9 * entries * high < truth[1]
            assert rows[name][0] >= rows["PrivUnit"][0]
        elif truth:
            assert truth[0] < low
            assert truth[1] < high
        totals = rows.get(f"{name}: epsilon of all rounds")
        assert (totals is None) == (kind != "3")
        if totals:
            for one, total in zip(truth or (low, high), totals, strict=True):
                assert one < total <= 3 * one * 1.01
            if name in ("Laplace", "hybrid", "PrivUnit"):
                assert totals == [3 * low, 3 * high]
    # One randomised image or tensor of features says less than all together.
    for name in SOUND if kind != "3" else ():
        assert rows[f"{name}: tested on randomised"][1] < rows[name][1] + 0.01


def test_published_is_laplace_noise_for_every_entry(tmp_path, run):
    """At its true epsilon TLDP is worth what Laplace noise is."""
    printed = run(
        tmp_path, SCRIPT, *SEED, "--type", "2", "--splits", "1",
        "--epsilons", "2", "32",
    )  # fmt: skip
    rows = table(printed)
    truth, _ = rows["TLDP-L as published: true epsilon"]
    assert truth == pytest.approx(32, rel=0.02)
    for below in ("", ": tested on randomised"):
        published, _ = rows["TLDP-L as published" + below]
        _, laplace = rows["Laplace" + below]
        assert published == pytest.approx(laplace, abs=0.08)


def test_own_images(tmp_path, run):
    """Images in colour, of two classes; all types in one picture."""
    rng = np.random.default_rng(0)
    y = np.repeat([3, 7], 150)
    X = rng.integers(0, 256, size=(300, 6, 5, 3)) * np.where(y == 7, 1, 0.5)[
        :, None, None, None
    ]  # fmt: skip
    np.savez(tmp_path / "own.npz", X=X, y=y)
    printed = run(
        tmp_path, SCRIPT, *SEED, "--data", tmp_path / "own.npz", "--bounds", "0", "255",
        "--splits", "1", "--epsilons", "64",
    )  # fmt: skip
    one, two, three = map(table, printed.split("\nType ")[1:])
    assert named(one) == SOUND | PUBLISHED | WEIGHTED
    assert named(two) == named(three) == SOUND | PUBLISHED
    for rows in (one, two, three):
        assert rows["no noise"][0] > 0.9
        assert rows["PrivUnit"][0] > 0.7
        assert rows["labels drawn at random"] == [0.5]
