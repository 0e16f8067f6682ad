"""The experiments on tensor-valued queries run, and their tables are true."""

import re

import numpy as np
import pytest

from tests import EXAMPLES
from tests.support.scripts import load_script

SEED = "--random-state", "0"
PUBLISHED = ("TVG, published", "UDN, published", "IDN, published")


def table(printed):
    """Means of every row, and the true epsilons under those published."""
    rows, truths, last = {}, {}, None
    for line in printed.splitlines():
        name, *values = re.split(r" {2,}", line.strip())
        if name == "its true epsilon":
            truths[last] = [float(value) for value in values]
        elif values and "epsilon" not in name:
            rows[name] = [float(value.split("±")[0]) for value in values]
            last = name
    return rows, truths


def test_private_test_features(tmp_path, run):
    printed = run(
        tmp_path, "private_test_features.py", *SEED, "--epsilons", "8", "64",
        "--repeats", "2",
    )  # fmt: skip
    _, pixels, features = re.split(r"^.*: epsilon .*$", printed, flags=re.MULTILINE)
    for part in (pixels, features):
        rows, truths = table(part)
        assert len(rows) == 11
        assert set(truths) == set(PUBLISHED)
        clean, chance = rows.pop("no noise")[0], rows.pop("one answer for all")[0]
        assert clean > 0.94
        assert 0.09 < chance < 0.11
        assert all(
            chance / 2 < low < high < clean + 0.01 for low, high in rows.values()
        )
        iid, unit = rows["i.i.d. Gaussian"], rows["PrivUnit (delta = 0)"]
        assert np.all(np.array(unit) > np.array(iid) + 0.1)
        # Published: less than is claimed, and behind noise that holds the claim.
        for name in PUBLISHED:
            assert np.all(np.array(truths[name]) < (8, 64))
            assert rows[name][1] < iid[1]
        assert truths["TVG, published"] < truths["UDN, published"]
        assert truths["UDN, published"] < truths["IDN, published"]
    pixels, features = table(pixels)[0], table(features)[0]
    assert pixels["UDN, weights of entries"][1] > pixels["i.i.d. Gaussian"][1] + 0.02
    assert features["i.i.d. Gaussian"][1] > pixels["i.i.d. Gaussian"][1] + 0.2


@pytest.mark.parametrize("shape", [(12,), (2, 3, 2)])
def test_features_of_a_file(tmp_path, run, shape):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    X = rng.uniform(-1, 1, size=(200, *shape)) / 4 + np.where(y, 0.7, -0.7).reshape(
        -1, *np.ones_like(shape)
    )
    np.savez(tmp_path / "features.npz", X=X, y=y)
    printed = run(
        tmp_path, "private_test_features.py", *SEED, "--epsilons", "100",
        "--repeats", "1", "--data", tmp_path / "features.npz",
    )  # fmt: skip
    rows, _ = table(printed.split("epsilon", 1)[1])
    assert rows["no noise"] == [1.0]
    assert rows["i.i.d. Gaussian"][0] > 0.95


@pytest.mark.parametrize("source", ["default", "file"])
def test_covariance(tmp_path, run, source):
    arguments = ["--epsilons", "0.5", "5", "--repeats", "10"]
    if source == "file":
        # Features of one range.
        X = np.random.default_rng(0).choice([-1.0, 1.0], size=(300, 2, 3))
        np.savez(tmp_path / "rows.npz", X=X)
        arguments += ["--data", tmp_path / "rows.npz"]
    printed = run(tmp_path, "covariance.py", *SEED, *arguments)
    _, first, second = re.split(r"^.*: epsilon .*$", printed, flags=re.MULTILINE)
    rss, truths = table(first)
    error, _ = table(second)
    nothing = error.pop("0 everywhere")[0]
    assert len(rss) == len(error) == 10
    assert set(truths) == set(PUBLISHED)
    for name, found in rss.items():
        # RSS is a part of the squared error, and both fall.
        assert np.all(np.array(found) <= np.multiply(error[name], 1.1))
        assert found[1] < found[0]
    assert truths["TVG, published"] < truths["UDN, published"]
    assert truths["UDN, published"] < truths["IDN, published"] < [0.5, 5]
    for measure in (rss, error):
        for less, more in (
            ("i.i.d., symmetrised", "i.i.d., one triangle"),
            ("i.i.d., PSD", "MVG, directions"),
            ("MVG, directions", "UDN, published"),
            ("IDN, published", "UDN, published"),
            ("UDN, published", "TVG, published"),
        ):
            assert np.all(np.array(measure[less]) < measure[more]), (less, more)
    # What RSS does not see.
    assert rss["variances alone"][1] < rss["i.i.d., symmetrised"][1]
    if source == "default":
        assert error["variances alone"][1] > nothing / 2 > error["i.i.d., PSD"][1]
        assert error["TVG, weights of ranges"][0] < error["i.i.d., PSD"][0] / 1.5
    else:
        assert error["TVG, weights of ranges"] == error["i.i.d., PSD"]


def test_weights_of_ranges_have_the_sensitivity_that_is_declared():
    covariance = load_script(EXAMPLES / "covariance.py")
    rng = np.random.default_rng(0)
    for _ in range(20):
        limits = rng.uniform(0.05, 1.5, size=6)
        limits /= min(1.0, np.linalg.norm(limits))
        shares = covariance.water_level(limits)
        assert shares.sum() == pytest.approx(1)
        assert np.all(shares <= limits**2 + 1e-12)
        declared = np.sqrt(shares).sum()
        rows = limits * rng.uniform(-1, 1, size=(2000, 6)) * rng.choice([1, 3], 6)
        rows = np.clip(rows, -limits, limits)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
        worst = np.sqrt(shares)
        for x in (*rows, worst):
            moved = np.linalg.norm(np.outer(x, x) / np.outer(shares, shares) ** 0.25)
            assert moved <= declared * (1 + 1e-9)
        assert moved == pytest.approx(declared)
