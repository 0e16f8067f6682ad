"""Errors against closed forms, matrix mechanisms, parameters that are refused."""

import json
import math
import tracemalloc
from functools import reduce
from pathlib import Path

import numpy as np
import pytest

from sktensordp import mechanisms as ms
from sktensordp import papers
from sktensordp.privacy import gaussian_delta, gaussian_mu

ORACLE = Path(__file__).with_name("strategy_oracle.json").read_text(encoding="utf-8")
ORACLE = json.loads(ORACLE)["matrix_mechanism"]
DELTA = 1e-5
WHOLE = {"delta": DELTA, "bounds": (0, 1)}
LAP, GM, TVG = ms.LaplaceMechanism, ms.GaussianMechanism, ms.TensorVariateGaussian
MGM, UDN = ms.MatrixGaussian, ms.UnimodalDirectionalNoise
IDN, MVG = ms.IndependentDirectionalNoise, papers.MatrixVariateGaussian
MM = ms.MatrixMechanism


def published(cls):
    return getattr(papers, f"Published{cls.__name__}")


def check_mean(values, expected):
    """Means over the first axis: false-alarm rate 1e-6 each; precise to a tenth."""
    error = 4.9 * np.std(values, axis=0) / math.sqrt(len(values))
    assert np.all(np.abs(np.mean(values, axis=0) - expected) < error)
    return error


@pytest.mark.thorough_after_one
@pytest.mark.parametrize(("k", "cls"), list(enumerate([TVG, UDN, IDN])))
@pytest.mark.parametrize(
    ("shape", "gain", "told"),
    [((16, 5, 5), 0.45, (1.6e4, 644, 40)), ((28, 28), 0.34, (5.6e4, 2.0e3, 72))],
)
def test_errors_relative_to_independent_noise(k, cls, shape, gain, told):
    X, mu = np.zeros((1, *shape)), gaussian_mu(1.0, DELTA)
    iid = GM(**WHOLE).fit(X).expected_squared_error_
    assert iid == pytest.approx((math.prod(shape) / mu) ** 2, rel=1e-3)
    assert cls(**WHOLE).fit(X).expected_squared_error_ == pytest.approx(iid, rel=1e-3)
    # Weights i^-2 along the first mode.
    utility = 1 / np.arange(1.0, shape[0] + 1)
    weights = [utility] + [None] * (len(shape) - 1) if cls is TVG else utility
    error = cls(utility=weights, **WHOLE).fit(X).expected_squared_error_
    relative = error / (iid * np.mean(utility**2))
    ratio = utility.sum() ** 2 / (shape[0] * (utility**2).sum())
    assert pytest.approx(gain, abs=5e-3) == relative == pytest.approx(ratio, rel=1e-3)
    error = published(cls)(**WHOLE).fit(X).expected_squared_error_
    assert error / iid == pytest.approx(told[k], rel=0.02)


@pytest.mark.parametrize(
    ("shape", "truth"), [((16, 5, 5), 0.133212369995), ((28, 28), 0.0970835253844)]
)
def test_true_epsilon_of_the_published_theorems(shape, truth):
    """The supremum over all designs: attained by IDN, neared by a lopsided TVG."""
    X, one = np.zeros((1, *shape)), [np.eye(n)[0] for n in shape]
    guarantee = published(IDN)(**WHOLE).fit(X).privacy_guarantee_
    assert guarantee.epsilon == pytest.approx(truth, rel=1e-3)
    tvg = published(TVG)(utility=one, norm_bound=1.0, delta=DELTA).fit(X)
    assert 0.97 * truth < tvg.privacy_guarantee_.epsilon < truth * (1 + 1e-4)
    with pytest.raises(TypeError, match="directions"):  # for which it is false
        published(IDN)(directions=np.eye(2))


# Weights and widths; L2 sensitivity, best variances and error: soundness.md, 1.2.
P, R = np.array([4.0, 1.0, 0.25, 0.0625]), np.array([1.0, 2.0, 0.5, 1.5])
BEST = [
    (None, [32.1844786627, 128.73791465, 64.3689573254, 386.213743953], 297.7064276),
    (0.5, [3.4794030986723667] * 4, 18.48432896169695),
    (1.5, [22.83093045644522] + [44.56141339585557] * 3, 149.81057690784132),
    (2.5, [31.3146278881, 125.258511552, 62.6292557761, 250.517023105], 281.831650992),
]


@pytest.mark.parametrize(("l2", "variances", "error"), BEST)
@pytest.mark.parametrize("cls", [TVG, UDN, IDN])
def test_least_noise_against_reference_values(cls, l2, variances, error):
    domain = {"bounds": (-R / 2, R / 2), "norm_bound": l2 and l2 / 2, "delta": DELTA}
    utility = [np.sqrt(P)] if cls is TVG else np.sqrt(P)
    mechanism = cls(utility=utility, **domain).fit(np.zeros((1, 4)))
    np.testing.assert_allclose(mechanism.noise_variance_, variances, rtol=1e-3)
    assert mechanism.expected_squared_error_ == pytest.approx(error, rel=1e-3)


def test_published_noise_against_equations():
    """Equations 25 and 30 of Yang et al. (2021); the latter at P = 1, 16 x 25."""
    log, roots = -math.log(DELTA), [np.sqrt(P), np.array([1.0, 3.0, 0.7])]
    zeta = math.sqrt(12 + 2 * math.sqrt(12 * log) + 2 * log)
    bound = (math.sqrt(zeta**2 + 2) - zeta) ** 2 / 12
    tvg = published(TVG)(utility=roots, **WHOLE).fit(np.zeros((1, 4, 3)))
    total = math.prod(r.sum() for r in roots)
    expected = total / bound / np.multiply.outer(*roots)
    np.testing.assert_allclose(tvg.noise_variance_, expected, rtol=1e-9)
    assert tvg.expected_squared_error_ == pytest.approx(total**2 / bound, rel=1e-9)
    mvg = published(MVG)(bounds=(-0.5, 0.5), delta=DELTA).fit(np.zeros((1, 16, 25)))
    assert mvg.expected_squared_error_ == pytest.approx(408730661367.0455, rel=1e-9)


WORKLOADS = {
    "prefix8": np.tril(np.ones((8, 8))),
    "allrange6": np.array([np.eye(6)[a:b].sum(0) for b in range(7) for a in range(b)]),
}
WORKLOADS["kron_prefix8_allrange6"] = list(WORKLOADS.values())
WORKLOADS["prefix64"] = np.tril(np.ones((64, 64)))


@pytest.mark.parametrize(
    ("key", "count"), [*zip(WORKLOADS, [0, 10**7] * 2, strict=True)]
)
def test_matrix_mechanism(key, count):
    workload = matrix = WORKLOADS[key]
    if "kron" in key:
        matrix = np.kron(*workload)
    X = np.tile(count + np.arange(matrix.shape[1]), (1500, 1))
    mm = MM(workload=workload, delta=DELTA, sensitivity=2.0, random_state=0).fit(X)
    ideal = ORACLE[key] * (2.0 / gaussian_mu(1.0, DELTA)) ** 2
    assert ideal <= mm.expected_squared_error_ <= 1.005 * ideal
    assert mm.noise_variance_.sum() == pytest.approx(mm.expected_squared_error_)
    errors = mm.transform(X) - X @ matrix.T
    check_mean(errors, 0)
    check_mean(np.square(errors), mm.noise_variance_)
    total = np.square(errors).sum(axis=1)
    assert check_mean(total, mm.expected_squared_error_) < 0.1 * total.mean()
    # A change of one cell, whitened, with rounding; and what the noise becomes.
    factors = mm._randomizer.whitening, mm._randomizer.colouring
    strategy, answers = (reduce(np.kron, matrices) for matrices in factors)
    mu = 2 * np.linalg.norm(strategy, axis=0).max()
    mu += mm._randomizer.lattice.step * math.sqrt(len(strategy))
    of_event = 1 / mm.privacy_guarantee_.event.events[0].noise_multiplier
    assert 0.997 * of_event < mu <= of_event <= gaussian_mu(1.0, DELTA)
    np.testing.assert_allclose(answers @ strategy, matrix, atol=1e-8)
    np.testing.assert_allclose(np.square(answers).sum(axis=1), mm.noise_variance_)
    # Two cells that change by 1 each, as when one person moves, are covered too.
    pairs = np.linalg.norm(strategy[:, :, None] - strategy[:, None], axis=0)
    assert (
        pairs.max() + mm._randomizer.lattice.step * math.sqrt(len(strategy)) <= of_event
    )
    assert mm.privacy_guarantee_.unit == "cell"
    assert "for one cell of one histogram (a change of" in str(mm.privacy_guarantee_)
    one = MM(workload=matrix, delta=DELTA, sensitivity=2.0).fit(X)
    found = one.expected_squared_error_, one.privacy_guarantee_.delta_at(0.5)
    known = mm.expected_squared_error_, mm.privacy_guarantee_.delta_at(0.5)
    assert found == pytest.approx(known, rel=5e-3)
    exact = mm.set_params(epsilon=math.inf).fit(X[:2]).transform(X[:2])
    np.testing.assert_allclose(exact, X[:2] @ matrix.T, rtol=1e-12)


def test_the_matrix_mechanism_protects_one_cell_and_no_more():
    """Stated for a sample, or for a person in 20 samples, epsilon would be false."""
    n_samples, n_cells = 20, 8
    mm = MM(1.0).fit(np.zeros((n_samples, n_cells)))
    guarantee, mu = mm.privacy_guarantee_, mm.noise_variance_[0] ** -0.5
    assert guarantee.unit == "cell"
    assert gaussian_delta(1.0, mu) < 1e-6
    # All cells of one sample change by 1, or one cell of all samples.
    for size in (n_cells, n_samples):
        assert gaussian_delta(1.0, math.sqrt(size) * mu) > 1e-2
    composed = n_samples * guarantee
    truth = gaussian_delta(4.0, math.sqrt(n_samples) * mu)
    assert composed.unit == "cell"
    assert 1e-6 < truth < composed.delta_at(4.0) < 1.1 * truth
    assert composed.epsilon_at(1e-6) > 4


def test_matrix_noise_is_tensor_noise():
    turn = {"directions": [[[0.6, -0.8], [0.8, 0.6]], None]}
    weights = {"utility": [P[:2], None]}
    told = published(MGM), published(TVG)
    for pair, params in (((MGM, TVG), {}), ((MGM, TVG), turn), (told, weights)):
        X, params = np.full((4, 2, 3), 0.3), {"random_state": 3, **WHOLE, **params}
        one, other = (cls(**params).fit(X) for cls in pair)
        np.testing.assert_array_equal(one.transform(X), other.transform(X))
        assert one.privacy_guarantee_.event == other.privacy_guarantee_.event


@pytest.mark.thorough
def test_no_covariance_of_all_entries_is_made():
    """Of weights for one mode, what is made is as large as the samples are."""
    for cls in (TVG, MVG):
        weighed = {"utility": [P[:2], None]} if cls is TVG else {"row_covariance": ROWS}
        mechanism = cls(**weighed, **WHOLE)
        X = np.full((1, 2, 2**15), 0.5, dtype=np.float32)
        tracemalloc.start()
        out = mechanism.fit(X).transform(X)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100 * X.nbytes
        assert (out.dtype, out.shape) == (X.dtype, X.shape)
        assert np.shape(mechanism.noise_variance_)[-1] in (2**15, 1)


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_units_of_a_covariance_do_not_matter(unit):
    X = np.zeros((1, 2, 3))
    noise, same = (
        MVG(row_covariance=scale * np.array(ROWS), **WHOLE).fit(X).noise_variance_
        for scale in (1.0, unit)
    )
    np.testing.assert_allclose(same, noise, rtol=1e-9)


def test_small_budgets_are_kept():
    for epsilon in (5e-5, 3e-4):
        GM(epsilon, **WHOLE).fit(np.zeros((1, 2, 3)))


PU, ROWS = ms.PrivUnit, [[2, 1], [1, 2]]
ANY = [LAP, GM, TVG, MGM, UDN, IDN, MVG, MM]
NAN, SKEW = math.nan, [[1, 0.5], [0, 1]]
OF_UTILITY = {"have 2": [1, 2, 3], "weights": [1, -1], "zero": [0, 0], "fini": [1, NAN]}
OF_TURNS = {"orthogonal": np.ones((2, 2)), "shape": np.eye(3), "None or": "axes"}
OF_COVARIANCE = {"definite": [[1, 2], [2, 1]], "symm": SKEW, r"\(2, 2\)": np.eye(3)}
OF_WORKLOAD = {
    "covers 5 cells, but X has 6": np.ones((2, 5)), "covers 4": [np.ones((2, 2))] * 2,
    "be finite": np.full((2, 6), NAN), "not zero": np.zeros((2, 6)),
    "overflow": np.full((2, 6), 1e200),
}  # fmt: skip
BAD = [
    *((c, {"delta": 0}, "'delta'") for c in ANY[1:]),
    *((c, {"delta": 1e-310}, "delta = 1e-310 is too small") for c in ANY[1:]),
    *((c, {"epsilon": 1e-9}, "too small for the sampler") for c in ANY[1:]),
    *((c, {"sensitivity": 1.0}, "declare it alone") for c in ANY[:7]),
    *((c, {"mode": m}, "out of range") for c in (UDN, IDN) for m in (2, -3)),
    *((TVG, {"utility": [u, None]}, m) for m, u in OF_UTILITY.items()),
    *((c, {"utility": u}, m) for m, u in OF_UTILITY.items() for c in (UDN, IDN)),
    *((c, {"utility": [None]}, "one item for each") for c in (TVG, MGM)),
    *((TVG, {"directions": [t, None]}, m) for m, t in OF_TURNS.items()),
    *((UDN, {"directions": t}, m) for m, t in list(OF_TURNS.items())[:2]),
    *((MVG, {"row_covariance": v}, m) for m, v in OF_COVARIANCE.items()),
    *((MM, {"workload": w}, m) for m, w in OF_WORKLOAD.items()),
    (GM, {"epsilon": 1.1, "calibration": "classic"}, "epsilon <= 1"),
    (published(MVG), {"bounds": None, "sensitivity": 1.0}, "bound on the norm"),
    (published(IDN), {"bounds": None, "norm_bound": 1.0}, "pass bounds"),
    (LAP, {"epsilon": 1e-20}, "too small to be represented"),
    (PU, {"bounds": (5, 6), "norm_bound": 1.0}, "no point in common"),
    *((PU, {"epsilon": e}, "cannot be honoured") for e in (1e-12, 300.0)),
]


@pytest.mark.parametrize(("cls", "params", "message"), BAD)
def test_bad_parameters_are_refused_before_anything_is_released(cls, params, message):
    domain = {} if cls is MM else {"bounds": (0, 1)}
    mechanism = cls(**domain | params)
    with pytest.raises(ValueError, match=message):
        mechanism.fit(np.zeros((4, 6) if cls is MM else (4, 2, 3)))
    assert not {"privacy_guarantee_", "_releases"} & set(vars(mechanism))
