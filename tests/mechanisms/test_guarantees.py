"""What fitted plans guarantee and add: brute force, closed forms, measured noise."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import chi2, ortho_group

from sktensordp import mechanisms as ms
from sktensordp import papers
from tests.support.divergence import gaussian_stick
from tests.support.noise import source_of

SHAPE, DELTA, ALPHA, INF = (3, 2), 1e-5, 1e-6, math.inf
SIGNS = np.array(list(itertools.product([-1.0, 1.0], repeat=6)))
WIDTHS = np.array([[1.0, 2.0], [0.3, 1.5], [0.7, 5.0]])
LOW = np.array([[0.0, -1.0], [2.0, -0.5], [-3.0, 1.0]])
ROWS = np.array([[2.0, 0.5, -0.3], [0.5, 1.0, 0.2], [-0.3, 0.2, 0.7]])
WEIGHTS = [np.array([1.0, 0.5, 0.1]), np.array([0.3, 2.0])]
BOTH = [np.diag(w) for w in WEIGHTS]
TURN = [ortho_group.rvs(n, random_state=7) for n in SHAPE]

DOMAINS = {
    "box": {"bounds": (-0.7, 1.1)},
    "box per entry": {"bounds": (LOW, LOW + WIDTHS)},
    "ball": {"norm_bound": 1.3},
    "box and ball": {"bounds": (-0.5, 0.5), "norm_bound": 0.9},
    "box per entry and ball": {"bounds": (-WIDTHS / 2, WIDTHS / 2), "norm_bound": 1.1},
    "corner of a ball": {"bounds": (-0.1, 0.9), "norm_bound": 0.8},
    "sensitivity": {"sensitivity": 2.5},
}
TVG, UDN = ms.TensorVariateGaussian, ms.UnimodalDirectionalNoise
IDN, MVG = ms.IndependentDirectionalNoise, papers.MatrixVariateGaussian

# Covariances, but for their scale, of noise along the columns of TURN.
TURNED = [t * np.square(u @ t).sum(axis=0) ** -0.5 @ t.T
          for t, u in zip(TURN, BOTH, strict=True)]  # fmt: skip
# Class, parameters, utility, and the covariance where it is not diagonal.
GIVEN = {
    "Laplace": (ms.LaplaceMechanism, {}, None, None),
    "Gaussian": (ms.GaussianMechanism, {}, None, None),
    "Gaussian classic": (ms.GaussianMechanism, {"calibration": "classic"}, None, None),
    "TVG weighted": (TVG, {"utility": WEIGHTS}, BOTH, None),
    "TVG turned": (TVG, {"utility": WEIGHTS, "directions": TURN}, BOTH, TURNED),
    "MGM": (ms.MatrixGaussian, {"utility": [ROWS, None]}, [ROWS, np.eye(2)], None),
    "UDN": (UDN, {"mode": -1, "utility": WEIGHTS[1]}, [np.eye(3), BOTH[1]], None),
    "UDN turned": (UDN, {"utility": ROWS, "directions": "singular_vectors"},
                   [ROWS, np.eye(2)], [np.linalg.inv(ROWS), np.eye(2)]),
    "IDN": (IDN, {"utility": WEIGHTS[0]}, [BOTH[0], np.eye(2)], None),
    "MVG": (MVG, {"column_covariance": np.diag([1.0, 4.0])}, None, None),
    "MVG turned": (MVG, {"row_covariance": ROWS, "column_covariance": ROWS[:2, :2]},
                   None, [ROWS, ROWS[:2, :2]]),
}  # fmt: skip
MECHANISMS = GIVEN | {
    f"{name} published": (getattr(papers, f"Published{c.__name__}"), *rest)
    for name, (c, *rest) in GIVEN.items() if name[0] not in "GL"
}  # fmt: skip
CASES = [
    (name, domain, (1.0, DELTA))
    for name, domain in itertools.product(list(MECHANISMS)[1:], DOMAINS)
    if not (name == "IDN published" and "bounds" not in DOMAINS[domain])
    and not (name.startswith("MVG") and "pub" in name and domain == "sensitivity")
]
BUDGETS = [(0.01, 1e-3), (8.0, 1e-9), (50.0, 0.3)]
CASES += itertools.product(["TVG weighted", "MVG turned"], list(DOMAINS)[:4], BUDGETS)
# Every mechanism and every domain in the first tier, and all pairs in the second.
CASES = [pytest.param(*case, marks=[pytest.mark.slow] if i % 4 else [])
         for i, case in enumerate(CASES)]  # fmt: skip


def sampled_delta(epsilon, mu, lattice):
    """What a sampler at its residual's distance from such noise keeps at epsilon."""
    e1, d1 = lattice.residual_epsilon, lattice.residual_delta
    ideal = gaussian_stick(mu, epsilon - 2 * e1)
    return math.exp(e1) * ideal + d1 * (1 + math.exp(epsilon - e1))


def flat(numbers):
    return np.broadcast_to(numbers, SHAPE).ravel()


def whitener(plan):
    """What makes a plan's noise white; how far apart rounding may move two values."""
    sigma, step = np.asarray(plan.lattice.sigma), plan.lattice.step
    rounding = np.linalg.norm(np.broadcast_to(step / sigma, 6))
    if not hasattr(plan, "whitening"):
        return np.diag(np.broadcast_to(1 / sigma, 6)), rounding
    factors = [np.diag(w) if np.ndim(w) == 1 else w for w in plan.whitening]
    return np.kron(*factors) / sigma, rounding


def worst(plan, bounds=None, norm_bound=None, sensitivity=None):
    """Longest whitened difference of two rounded values of the domain, and it."""
    white, rounding = whitener(plan)
    diameter = sensitivity or (2 * norm_bound if norm_bound else INF)
    if bounds is None:
        longest = diameter * np.linalg.svd(white)[2][0]
        return np.linalg.norm(white @ longest) + rounding, longest
    widths = flat(np.subtract(*np.clip(bounds[::-1], -diameter / 2, diameter / 2)))
    turned = hasattr(plan, "whitening")
    if norm_bound is None:  # a convex function is largest at a corner
        found = SIGNS * widths
    elif turned:  # random search
        ways = np.random.default_rng(0).standard_normal((500, 6)) @ (white.T @ white)
        found = np.vstack([np.linalg.eigh(white.T @ white)[1].T, SIGNS, ways])
        found = np.geomspace(0.01, 100, 40)[:, None, None] * found
        found = np.clip(found, -widths, widths).reshape(-1, 6)
        found *= np.minimum(1, diameter / np.linalg.norm(found, axis=1))[:, None]
    else:  # a knapsack of squares; rounding lengthens what the ball allows alone
        total = diameter + np.linalg.norm(np.broadcast_to(plan.lattice.step, 6))
        caps = [(0, w * w) for w in widths]
        gains = -(np.diag(white) ** 2)
        found = np.sqrt([linprog(gains, np.ones((1, 6)), total**2, bounds=caps).x])
    lengths = np.linalg.norm(found @ white.T, axis=1)
    # The ends of a box are lattice points; the random search is no bound in any case.
    rounding *= turned and norm_bound is None
    return lengths.max() + rounding, found[lengths.argmax()]


def released(plan, ways, declared):
    """Differences of what a plan without noise releases of two far ends."""
    low, high = declared.get("bounds", (0.0, 0.0))
    scales = [0.5] if "sensitivity" in declared else [0.5, 500, 5e8]  # to be clipped
    ways = np.concatenate([scale * np.array(ways) for scale in scales])
    ends = np.concatenate([flat((low + high) / 2) + way for way in (ways, -ways)])
    means = plan.randomize(ends, source_of(0))
    return means[: len(ways)] - means[len(ways) :]


def real_mu(plan, declared):
    """Mu that brute force finds, and the part of it that was seen in the output."""
    mu, longest = worst(plan, **declared)
    silent = replace(plan.lattice, sigma=plan.lattice.sigma * 1e-12)
    ways = np.vstack([longest, SIGNS, np.random.default_rng(1).normal(size=(50, 6))])
    if "sensitivity" in declared:
        ways *= (declared["sensitivity"] / np.linalg.norm(ways, axis=1))[:, None]
    seen = released(replace(plan, lattice=silent), ways, declared)
    seen = np.linalg.norm(seen @ whitener(plan)[0].T, axis=1).max()
    return max(mu, seen), seen


def doubled(plan):
    """The plan with a domain of twice the size under the same noise."""
    lattice, domain = plan.lattice, plan.domain
    if lattice.n_steps is not None:
        lattice = replace(lattice, low=2 * lattice.low, n_steps=2 * lattice.n_steps)
    limit = {"limit": INF} if hasattr(plan, "whitening") else {}
    for name in ("low", "high", "norm_bound"):
        if getattr(domain, name) is not None:
            domain = replace(domain, **{name: 2 * getattr(domain, name)})
    return replace(plan, domain=domain, lattice=lattice, **limit)


@pytest.mark.parametrize(("name", "domain", "budget"), CASES)
def test_noise_is_enough_and_not_wasted(name, domain, budget):
    (cls, params, *_), declared = MECHANISMS[name], DOMAINS[domain]
    mechanism = cls(budget[0], delta=budget[1], **params, **declared)
    guarantee = mechanism.fit(np.zeros((2, *SHAPE))).privacy_guarantee_
    plan, epsilon, delta = mechanism._randomizer, guarantee.epsilon, guarantee.delta
    assert (epsilon <= budget[0], delta) == (True, budget[1])
    mu, seen = real_mu(plan, declared)
    mu_of_event = 1 / guarantee.event.events[0].noise_multiplier
    assert mu <= mu_of_event
    assert sampled_delta(epsilon, mu, plan.lattice) <= delta * (1 + 1e-9)
    # Not wasted: the domain has values that need all of the noise.
    turned = hasattr(plan, "whitening")
    if not turned:
        assert gaussian_stick(mu, epsilon) >= 0.99 * delta
    elif "bounds" not in declared or domain == "box":
        assert mu >= 0.995 * mu_of_event
    assert domain == "corner of a ball" or seen >= (0.99 if turned else 0.999) * mu
    # Half of the noise and twice the sensitivity are caught.
    half = replace(plan, lattice=replace(plan.lattice, sigma=plan.lattice.sigma / 2))
    twice = (doubled(plan), declared), (plan, {"sensitivity": 5.0})
    for one, values in [(half, declared), twice[domain == "sensitivity"]]:
        assert (
            sampled_delta(epsilon, real_mu(one, values)[0], one.lattice) > 1.1 * delta
        )


def p_value(noise, covariance):
    """Chi-square test (asymptotic) of all variances and covariances of normals."""
    white = np.linalg.solve(np.linalg.cholesky(covariance), noise.T)
    z = (white @ white.T / len(noise) - np.eye(6)) * math.sqrt(len(noise))
    return chi2.sf(np.square(z).sum() / 2, 21)  # each covariance occurs twice


@pytest.mark.parametrize("name", GIVEN)
def test_variance_and_error_as_measured(name):
    """False-alarm rate (wrong on a correct mechanism) 2e-6; 3% of noise are caught."""
    cls, params, utility, expected = MECHANISMS[name]
    X = np.broadcast_to(LOW + WIDTHS / 2, (20_000, *SHAPE))
    mechanism = cls(**DOMAINS["box per entry"], **params, random_state=0).fit(X)
    noise = (mechanism.transform(X) - X).reshape(-1, 6)
    variance = flat(mechanism.noise_variance_)
    if name == "Laplace":  # the square of a variate has 5 times the squared variance
        z = (np.square(noise).mean(axis=0) / variance - 1) * math.sqrt(len(X) / 5)
        assert chi2.sf(z @ z, 6) > ALPHA
    else:
        expected = np.diag(variance) if expected is None else np.kron(*expected)
        expected = expected * (variance.sum() / np.trace(expected))
        np.testing.assert_allclose(np.diag(expected), variance, rtol=1e-9)
        assert p_value(noise, expected) > ALPHA > p_value(1.03 * noise, expected)
    errors = noise if utility is None else noise @ np.kron(*utility).T
    losses = np.square(errors).sum(axis=1) / mechanism.expected_squared_error_ - 1
    assert abs(losses.mean()) < 4.9 * losses.std() / math.sqrt(len(X)) < 0.05


def longest_in_l1(bounds=(-INF, INF), norm_bound=INF, sensitivity=None):
    """A difference of two values of the domain with the largest L1 norm."""
    if sensitivity is not None:
        return np.full(6, sensitivity / 6)
    widths = flat(np.subtract(bounds[1], bounds[0]))
    caps = np.linspace(0, 10, 100_001)[:, None]
    fits = np.linalg.norm(np.minimum(widths, caps), axis=1) <= 2 * norm_bound
    return np.minimum(widths, caps[fits][-1])


@pytest.mark.parametrize("epsilon", [0.01, 20.0])
@pytest.mark.parametrize("domain", [d for d in DOMAINS if d != "corner of a ball"])
def test_laplace_noise_is_enough_and_not_wasted(domain, epsilon):
    declared = DOMAINS[domain]
    mechanism = ms.LaplaceMechanism(epsilon, **declared).fit(np.zeros((2, *SHAPE)))
    lattice, guarantee = mechanism._randomizer.lattice, mechanism.privacy_guarantee_
    silent = replace(lattice, numerator=2**24, denominator=1)
    silent = replace(mechanism._randomizer, lattice=silent)
    distances = released(silent, [longest_in_l1(**declared)], declared)
    steps = np.abs(distances / lattice.step).sum(axis=1).max()
    assert 0.999 * epsilon <= steps * lattice.rate <= lattice.epsilon * (1 + 1e-12)
    assert lattice.epsilon <= guarantee.epsilon == epsilon
    assert guarantee.delta == guarantee.delta_at(epsilon) == 0


@pytest.mark.parametrize("high", [1.0, np.array([1.0, 0.5, 2.0])])
def test_laplace_composition_against_a_convolution(high):
    widths, h, mass = np.broadcast_to(high, 3), 1 / 2000, np.ones(1)
    mechanism = ms.LaplaceMechanism(widths.sum(), bounds=(0.0, high))
    guarantee = mechanism.fit(np.zeros((1, 3))).privacy_guarantee_
    for width in widths:  # its epsilon; the privacy loss, rounded up to multiples of h
        loss = h * np.arange(-round(width / h), round(width / h) + 1)
        below = np.append(np.exp((loss[:-1] - width) / 2) / 2, 1.0)
        mass = np.convolve(mass, np.diff(below, prepend=0.0))
    loss = h * np.arange(len(mass)) - widths.sum()
    for epsilon in np.array([0.01, 0.3, 0.6, 0.9, 0.99]) * widths.sum():
        # Three losses were rounded by less than h each.
        past = epsilon + np.array([[3 * h], [0]]) - loss
        low, high = np.maximum(-np.expm1(past), 0) @ mass
        assert 0 < low * (1 - 1e-5) <= guarantee.delta_at(epsilon) <= high * 1.002
