"""What holds for several units together, against exact enumeration."""

import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, norm

from sktensordp.exceptions import BudgetExceededError
from sktensordp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    MatrixMechanism,
)
from sktensordp.model_selection import PrivateSearchCV
from sktensordp.privacy import (
    PrivacyBudget,
    compose,
    compose_parallel,
    gaussian_delta,
    planned_guarantee,
    privacy_of,
)
from tests.support import divergence as D
from tests.support import events as E
from tests.support.every_estimator import RELEASING
from tests.support.guarantees import guarantee, pure
from tests.support.seams import CALLERS_RELATION, GroupCurve, negative_binomial

pytestmark = pytest.mark.thorough
NOISE = E.Gaussian(2.0)
SIZES = [2, 3, 4, 7]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9])
def test_one_gaussian_release_is_exact(size, share):
    """Size * mu, and not its square root, by mpmath."""
    epsilon = share * size
    exact = D.exact_gaussian(0.5 * size, epsilon)
    of_group = guarantee(NOISE, 1e-5).for_group(size)
    assert of_group.delta_at(epsilon) >= exact
    assert of_group.delta_at(epsilon) == pytest.approx(float(exact), rel=1e-11)


@pytest.mark.parametrize("size", SIZES)
def test_local_gaussian_messages_compose(size):
    messages = guarantee(NOISE, 1e-5).for_group(size, local=True)
    together = guarantee(NOISE, 1e-5).for_group(size)
    for epsilon in (0.0, 1.0, 3.0):
        exact = gaussian_delta(epsilon, 0.5 * math.sqrt(size))
        assert messages.delta_at(epsilon) == pytest.approx(exact, rel=1e-9)
        assert messages.delta_at(epsilon) < together.delta_at(epsilon)
    assert "each randomised by itself" in messages.statement
    assert messages.relation == together.relation


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rate", [0.1, 0.5, 1.3])
def test_counts_with_geometric_noise(size, rate):
    """A count that `size` people change by one each, by a sum over the integers."""
    event = E.Integers(rate, 1)
    law = D.discrete_laplace(rate, size)
    of_group = guarantee(event).for_group(size)
    unknown = guarantee(E.Pure(rate)).for_group(size)
    assert of_group.epsilon == unknown.epsilon == pytest.approx(size * rate)
    for epsilon in np.linspace(0, size * rate * 0.99, 7):
        exact = D.stick(law, epsilon)
        assert of_group.delta_at(epsilon) >= exact * (1 - 1e-12)
        assert of_group.delta_at(epsilon) == pytest.approx(exact, rel=1e-9, abs=1e-14)
        # The worst that a pure epsilon alone allows is this very noise.
        assert unknown.delta_at(epsilon) == of_group.delta_at(epsilon)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("epsilon_of_one", [0.4, 1.1])
def test_people_who_answer_by_randomised_response(size, epsilon_of_one):
    """All 2**size answers, of people who all changed their minds."""
    law, event = D.power(D.response(epsilon_of_one), size), E.Pure(epsilon_of_one)
    messages = guarantee(event).for_group(size, local=True)
    together = guarantee(event).for_group(size)
    for epsilon in np.linspace(0, size * epsilon_of_one * 0.95, 9):
        exact = D.stick(law, epsilon)
        assert messages.delta_at(epsilon) >= exact * (1 - 1e-13)
        assert messages.delta_at(epsilon) == pytest.approx(exact, rel=1e-9, abs=1e-15)
        assert together.delta_at(epsilon) >= messages.delta_at(epsilon) * (1 - 1e-9)
    assert messages.epsilon == pytest.approx(size * epsilon_of_one, rel=1e-12)


def iterated(power, size, cuts):
    """Distributions P_0, ..., P_size on cells, with power functions as their cdfs.

    P_0 is uniform, and P_i has the cdf of the i-th iterate: a chain whose neighbours
    all have this power function, and a group has its iterate.
    """
    points = {Fraction(0), Fraction(1)}
    for cut in cuts:
        for _ in range(size + 1):
            points.add(cut)
            cut = power(cut)
    points = sorted(p for p in points if 0 <= p <= 1)
    values, chain = points, []
    for _ in range(size + 1):
        chain.append([values[0], *np.diff(np.array(values, dtype=object))])
        values = [power(value) for value in values]
    return chain


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("delta", [Fraction(1, 10**6), Fraction(1, 50)])
def test_epsilon_and_delta_grow_as_in_the_worst_chain(size, delta):
    """A chain of neighbours with epsilon = log 2 and this delta, in exact fractions.

    Its ends have a delta of delta (2^size - 1) at epsilon size * log 2.
    """
    # Where the better of two lines changes, and its preimages.
    corners = [(1 - delta) / 3]
    while corners[-1] > delta:
        corners.append((corners[-1] - delta) / 2)

    def power(level):
        hidden = min(level / (1 - delta), Fraction(1))
        return delta + (1 - delta) * min(2 * hidden, 1 - (1 - hidden) / 2)

    chain = iterated(power, size, [*corners[:size], 1 - delta])
    for first, second in itertools.pairwise(chain):
        beyond = [max(q - 2 * p, 0) for p, q in zip(first, second, strict=True)]
        assert sum(beyond) <= delta
    one = guarantee(E.Revealing(float(delta), E.Pure(math.log(2))), delta)
    group = one.for_group(size, delta=0.9)
    for power_of_two in np.arange(0, size + 1):
        factor = Fraction(2) ** int(power_of_two)
        pairs = zip(chain[0], chain[-1], strict=True)
        exact = float(sum(max(q - factor * p, 0) for p, q in pairs))
        stated = group.delta_at(float(power_of_two) * math.log(2))
        assert stated >= exact * (1 - 1e-12)
        assert stated == pytest.approx(exact, rel=1e-5)
    formula = float(delta) * (2**size - 1)
    assert stated == pytest.approx(formula, rel=1e-6)
    by_default = one.for_group(size)
    assert by_default.delta == pytest.approx(formula, rel=1e-5)
    assert by_default.epsilon == pytest.approx(size * math.log(2), rel=1e-5)


@pytest.mark.parametrize("size", [2, 4])
def test_residuals_grow_as_epsilon_and_delta(size):
    """The sampler of each neighbour may be d1 away from its ideal distribution."""
    d1, epsilon = 1e-9, 0.5
    noise = E.Composed([E.Pure(epsilon), E.Residual(0.0, d1)])
    of_one = d1 * (1 + math.exp(epsilon))
    least = of_one * math.expm1(size * epsilon) / math.expm1(epsilon)
    group = guarantee(noise, 1e-6).for_group(size)
    assert least <= group.delta_at(size * epsilon) <= 1.5 * least


def test_the_curve_of_a_group_never_falls_below_the_closed_form():
    curve = GroupCurve(lambda e: gaussian_delta(e, 0.3), 6)
    grid = np.linspace(-3, 6, 37)
    exact = [gaussian_delta(abs(e), 1.8) for e in grid]
    exact = [
        -math.expm1(e) + math.exp(e) * d if e < 0 else d
        for e, d in zip(grid, exact, strict=True)
    ]
    found = curve.delta(grid)
    assert np.all(found >= np.array(exact) * (1 - 1e-12))
    np.testing.assert_allclose(found, exact, rtol=2e-3)
    assert float(curve.delta(1.0)) == curve.delta(np.array([1.0]))[0]


@pytest.mark.parametrize("size", [2, 5])
def test_people_added_to_a_poisson_sample(size):
    """Each of them is in the sample or not: a mixture of Gaussian distributions."""
    rate, mu = 0.2, 0.5
    event = E.Sampled(rate, E.Gaussian(1 / mu))
    group = guarantee(event, 1e-5, relation="add-or-remove").for_group(size)
    edges = np.linspace(-12, 12 + size * mu, 40_001)
    weights = binom.pmf(np.arange(size + 1), size, rate)
    added = sum(w * np.diff(norm.cdf(edges - j * mu)) for j, w in enumerate(weights))
    without = np.diff(norm.cdf(edges))
    for epsilon in (0.0, 0.2, 1.0):
        for p, q in ((added, without), (without, added)):
            exact = np.maximum(p - math.exp(epsilon) * q, 0).sum()
            assert group.delta_at(epsilon) >= exact * (1 - 1e-9)
    assert group.delta_at(0.2) < gaussian_delta(0.2, size * mu)


def test_units_in_different_parts_of_the_data():
    """Some of the group in one part, the others in another one."""
    parts = E.Parallel([E.Pure(1.0), NOISE])
    group = guarantee(parts, 1e-5).for_group(3)
    for n in range(4):
        events = [guarantee(e, 1e-5) for e in parts.events]
        mixed = [
            events[i].for_group(k, delta=1e-5) for i, k in ((0, n), (1, 3 - n)) if k
        ]
        shares = [g.event for g in mixed]
        exact = guarantee(E.Composed(shares), 1e-5)
        for epsilon in (0.0, 0.5, 2.0, 4.0):
            assert group.delta_at(epsilon) >= exact.delta_at(epsilon) * (1 - 1e-9)
    both = E.Parallel([E.Pure(1.0), E.Pure(2.0)])
    assert guarantee(both).for_group(3).epsilon == 6.0


def test_private_choices():
    choice = E.Choice(NOISE, negative_binomial(5.0, 1.0))
    one = guarantee(choice, 1e-5)
    two = one.for_group(2, delta=1e-3)
    assert one.epsilon < two.epsilon_at(1e-5) < math.inf
    # At least twice the shift of one step, as the steps of the chain have it.
    formula = 1e-5 * (1 + math.exp(one.epsilon))
    assert two.epsilon_at(formula) <= 2 * one.epsilon * (1 + 1e-6)
    pure_choice = guarantee(E.Choice(E.Pure(0.5), negative_binomial(5, 1)))
    assert pure_choice.for_group(3).epsilon == pytest.approx(3 * pure_choice.epsilon)


EVENTS = [
    E.Pure(0.5),
    E.Laplace(2.0),
    E.Integers(0.25, 4),
    E.Table(((2, 1), (1, 2))),
    NOISE,
    E.Composed([E.Pure(0.3), NOISE]),
    E.Composed([NOISE, E.Residual(1e-6, 1e-15)]),
    E.Revealing(1e-7, NOISE),
    E.Repeated(E.Sampled(0.05, NOISE), 20),
    E.Nothing(),
]


@pytest.mark.parametrize("event", EVENTS)
def test_groups_of_groups_and_what_composes_with_them(event):
    one = guarantee(event, 1e-4)
    two, four = one.for_group(2, delta=1e-4), one.for_group(4, delta=1e-4)
    twice = two.for_group(2, delta=1e-4)
    assert one.for_group(1) is one
    assert twice.relation == four.relation == "replace-one, any 4 together"
    together = compose(four, four, delta=1e-4)
    for epsilon in (0.0, 0.5, 1.5):
        deltas = [g.delta_at(epsilon) for g in (one, two, four)]
        assert deltas == sorted(deltas)
        assert twice.delta_at(epsilon) >= four.delta_at(epsilon) * (1 - 1e-6)
        assert together.delta_at(epsilon) >= four.delta_at(epsilon) * (1 - 1e-9)
        assert (2 * four).delta_at(epsilon) == pytest.approx(
            together.delta_at(epsilon), rel=1e-6, abs=1e-14
        )
    # Grouped after or before they are composed, two releases cost as much or less.
    first = compose(one, one, delta=1e-4).for_group(4, delta=1e-4)
    assert first.epsilon >= four.epsilon * (1 - 1e-9)


def test_laplace_noise_keeps_its_curve():
    group = guarantee(E.Laplace(2.0)).for_group(3)
    lattice = E.Lattice(0.5, 1, Fraction(1, 2))
    for epsilon in (0.0, 0.4, 1.2):
        exact = -math.expm1((epsilon - 1.5) / 2)
        assert group.delta_at(epsilon) == pytest.approx(exact, rel=1e-12)
        found = guarantee(lattice).for_group(3).delta_at(epsilon)
        assert found == pytest.approx(D.stick(D.discrete_laplace(0.5, 3), epsilon))
    assert guarantee(lattice).for_group(3).epsilon == 1.5


def test_guarantees_for_other_numbers_of_units_do_not_compose():
    one = pure(0.5)
    callers = pure(0.5, relation=CALLERS_RELATION)
    for other in (pure(0.5), callers, one.for_group(3)):
        with pytest.raises(ValueError, match="different relations"):
            compose(one.for_group(2), other)
    # The caller vouches for the relation of one unit, and so for that of two.
    both = compose(one.for_group(2), callers.for_group(2))
    assert both.relation == "replace-one, any 2 together"
    assert both.epsilon == 2.0


def test_budgets_count_groups():
    household = pure(0.25).for_group(4)
    with PrivacyBudget(2.0) as budget:
        budget.spend(household)
        with pytest.raises(ValueError, match="different relations"):
            budget.spend(pure(0.25))
        budget.spend(household)
        with pytest.raises(BudgetExceededError):
            budget.spend(household)
    assert budget.spent.epsilon == pytest.approx(2.0)
    assert budget.spent.relation == household.relation
    # A group that is known by a curve alone fits by itself, or not at all.
    sampled = E.Sampled(0.1, NOISE)
    known = guarantee(sampled, 1e-5).for_group(2)
    assert math.isinf(known.renyi_at(2.0))
    with PrivacyBudget(known.epsilon * 1.01, 1e-5) as budget:
        budget.spend(known)
        with pytest.raises(BudgetExceededError):
            budget.spend(known)


def test_what_protects_nobody_protects_no_group():
    nothing = guarantee(E.NonPrivate(), claimed=(1.0, 1e-6))
    group = nothing.for_group(3)
    assert not group.protects
    assert group.delta_at(10.0) == 1
    assert group.claimed == (3.0, pytest.approx(1e-6 * math.expm1(3) / math.expm1(1)))
    local = nothing.for_group(3, local=True)
    assert local.claimed == (3.0, pytest.approx(3e-6))
    huge = guarantee(E.Revealing(1e-9, NOISE), 1e-5).for_group(10**6)
    assert not huge.protects


def test_estimators():
    X = np.zeros((3, 2))
    mean = GaussianMechanism(0.5, delta=1e-6, sensitivity=0.01).fit(X)
    four = mean.privacy_guarantee_.for_group(4)
    assert four.relation == f"{CALLERS_RELATION}, any 4 together"
    assert "for one row of X" in str(four)
    with pytest.raises(ValueError, match="local=True is for units"):
        mean.privacy_guarantee_.for_group(4, local=True)
    device = LaplaceMechanism(0.5, bounds=(0, 1)).fit(X).privacy_guarantee_
    assert device.for_group(4, local=True).epsilon == pytest.approx(2.0)
    assert device.for_group(4).epsilon == pytest.approx(2.0)


def test_only_units_of_their_own_are_local():
    added, message = "add-or-remove", "local=True is for units that are randomised"
    for unit, relation in ((0, added), ("cell", "replace-one"), ("sample", added)):
        with pytest.raises(ValueError, match=message):
            pure(1.0, unit=unit, relation=relation).for_group(2, local=True)


def locally(one):
    """Whether it may be the guarantee of units that are each randomised by itself."""
    try:
        return bool(one.for_group(3, local=True))
    except ValueError:
        return False


@pytest.mark.parametrize("case", RELEASING)
def test_which_estimators_randomise_each_unit_by_itself(case):
    """Mechanisms and encoders of samples, and values that are randomised one by one."""
    fitted, _ = case.release()
    estimator = getattr(fitted, "completion_", fitted)
    if case.private == "samples":
        expected = not isinstance(estimator, MatrixMechanism)  # of cells
    else:
        expected = getattr(estimator, "perturbation_", None) == "input"
    assert locally(fitted.privacy_guarantee_) == expected
    assert locally(privacy_of(fitted).guarantee) == expected
    if isinstance(fitted, PrivateSearchCV):
        planned = fitted.planned_guarantee(case.data[0])
    else:
        planned = planned_guarantee(
            case.fresh() if case.private != "samples" else fitted
        )
    # Before a fit, "auto" may come to noise on sums.
    assert not locally(planned) or expected


MESSAGE, SUM = (pure(1.0, local=local) for local in (True, False))


def in_a_file(one, tmp_path):
    path = tmp_path / f"local is {one.local}.db"
    PrivacyBudget(99.0, 1e-3, path=path, create=True).spend(one)
    return PrivacyBudget(99.0, 1e-3, path=path).spent


BUILT = {
    "itself": lambda one, _: one,
    "repeated": lambda one, _: one.repeated(2),
    "composed": lambda one, _: compose(pure(1.0), one),
    "parallel": lambda one, _: compose_parallel(one, pure(1.0)),
    "under a condition": lambda one, _: one.with_conditions(
        "if the shuffler is trusted"
    ),
    "group": lambda one, _: one.for_group(2),
    "pickle": lambda one, _: pickle.loads(pickle.dumps(one)),
    "budget": lambda one, _: spent_by(one),
    "file": in_a_file,
}


def spent_by(one):
    budget = PrivacyBudget(99.0)
    budget.spend(one)
    budget.spend(pure(1.0))
    return budget.spent


@pytest.mark.parametrize("build", BUILT.values(), ids=BUILT)
def test_what_is_built_on_noisy_sums_is_not_local(build, tmp_path):
    assert not locally(build(SUM, tmp_path))
    assert locally(build(MESSAGE, tmp_path))
    assert locally(build(pure(1.0), tmp_path))  # whoever calls vouches for it


def test_sizes_are_positive_integers():
    for size in (0, -1, 2**31):
        with pytest.raises(ValueError, match=r"size must be from 1 to 2\*\*31 - 1"):
            pure(1.0).for_group(size)
    for size in (2.0, "2", None, True):
        with pytest.raises(TypeError, match="size must be an integer"):
            pure(1.0).for_group(size)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_chains_of_random_distributions(size):
    """Neighbours differ more in one order than in the other; the ends by their sum."""
    rng = np.random.default_rng(size)
    grid = np.array([-1.0, 0.0, 0.3, 1.0, 2.0, 4.0])
    for spread in (0.5, 2.0, 20.0, 200.0):
        chain = rng.dirichlet(np.full(4, spread), size=size + 1)
        pairs = [*itertools.pairwise(chain)]
        pairs += [pair[::-1] for pair in pairs]

        def delta_of_one(epsilon, pairs=pairs):
            factor = math.exp(epsilon)
            return max(np.maximum(p - factor * q, 0).sum() for p, q in pairs)

        curve = GroupCurve(delta_of_one, size)
        for first, last in ((chain[0], chain[-1]), (chain[-1], chain[0])):
            for epsilon, stated in zip(grid, curve.delta(grid), strict=True):
                exact = np.maximum(first - math.exp(epsilon) * last, 0).sum()
                assert stated >= exact - 1e-12
