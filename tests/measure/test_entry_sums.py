"""Sums over entries: no kind adds more of an entry than noise was planned for."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sktensordp.completion import CPCompletion
from sktensordp.measure import (
    EntrySums,
    RangeSums,
    Releases,
    plan_gaussian_sums,
    plan_laplace_sums,
)
from tests.support.noise import source_of
from tests.support.people import Asking, Summed
from tests.support.replaying import recorded

BLOCKS = (3, 2), (4, 1)
ORDER = {"l1": 1, "l2": 2}
N_RELEASES = 3


def plan(norm):
    options = {"n_releases": N_RELEASES, "n_entries": 100}
    if norm == "l1":
        return plan_laplace_sums(1.0, n_cells_per_entry=3, **options)
    return plan_gaussian_sums(
        1.0, 1e-6, total_epsilon=1.0, n_cells=30, n_moved=3, **options
    )


def most_steps(noise):
    """How far apart two sums of one release may be, by what is accounted for."""
    if noise.norm == "l1":
        return noise.lattice.l1_steps
    return (1 + 1e-9) * (1 / noise.step + np.sqrt(3))


def added(sums, *vectors):
    """What sums become by vectors of three numbers, two of one block and one."""
    total, vectors = sums.zeros(), np.array(vectors)
    rows = [np.arange(len(vectors)), np.zeros(len(vectors), int)]
    sums.add(total, rows, [vectors[:, :2].copy(), vectors[:, 2:].copy()])
    return total


@pytest.mark.parametrize("norm", ORDER)
def test_two_values_of_an_entry_are_as_far_apart_as_planned(norm, as_released):
    """Whatever a question computes: vectors that are short, long, or no numbers."""
    noise, rng = plan(norm), np.random.default_rng(0)
    sums = EntrySums(BLOCKS, norm, noise.step)
    vectors = rng.standard_normal((200, 3))
    lengths = np.linalg.norm(vectors, ORDER[norm], axis=1, keepdims=True)
    vectors *= rng.choice([0.1, 0.5, 0.5 + noise.step, 0.6, 1.0, 1e300], (200, 1))
    vectors /= lengths
    vectors[-3:, 0] = np.nan, np.inf, -np.inf
    found = [added(sums, vector) for vector in vectors]
    largest = max(
        np.linalg.norm(one - two, ORDER[norm])
        for one, two in itertools.combinations(found, 2)
    )
    assert 0.95 / noise.step < largest <= most_steps(noise)


@pytest.mark.parametrize("norm", ORDER)
@pytest.mark.parametrize("step", [0.0, 2.0**-30, 2.0**-21, 2.0**-4])
def test_no_honest_vector_is_taken_for_a_long_one(norm, step):
    """Of the largest length. With coarse steps, rounding makes some as long as allowed.

    One that is too long is an error here (`tests/support/long_vectors.py`).
    """
    sums, longest = EntrySums(BLOCKS, norm, step), 0.0
    vectors = np.random.default_rng(0).standard_normal((1000, 3))
    vectors /= 2 * np.linalg.norm(vectors, ORDER[norm], axis=1, keepdims=True)
    for vector in vectors:
        found = added(sums, vector)
        assert found.any()
        longest = max(longest, np.linalg.norm(found, ORDER[norm]))
    assert 0.93 * sums.limit < longest <= sums.limit


@pytest.mark.parametrize("bad", [-1, 5, -1e9, 1e300, np.nan, np.inf])
def test_a_number_beyond_its_range_is_not_added(bad, as_released):
    sums = RangeSums((2, 3), 0, 4, times=2, step=1.0)
    total = sums.zeros()
    rows = [np.array([0, 1, 1]), np.array([2, 2, 0])]
    sums.add(total, rows, np.array([4, bad, 0.4]))
    assert_array_equal(total, [4, 0, 0, 0, 4])
    with_negative = RangeSums((1,), -4, 0, times=1, step=1.0)
    total = with_negative.zeros()
    with_negative.add(total, [np.zeros(3, int)], np.array([-4, 3, -5]))
    assert total == [-4]


def test_without_noise_numbers_of_any_size_are_added():
    sums = RangeSums((1,), 0, 1, times=1, step=0.0)
    total = sums.zeros()
    sums.add(total, [np.zeros(2, int)], np.array([-9.5, 1e6]))
    assert total == [1e6 - 9.5]


@pytest.mark.parametrize("norm", ORDER)
def test_all_planned_releases_are_made_and_not_one_more(norm):
    noise, people = plan(norm), Summed()
    releases = Releases(noise, source_of(0), number=1)
    question = Asking((EntrySums(BLOCKS, norm, noise.step),))
    for _ in range(N_RELEASES):
        releases.ask(people, question)
    with pytest.raises(RuntimeError, match="more than the budget"):
        releases.ask(people, question)
    assert people.n_asked == N_RELEASES


@pytest.mark.parametrize("norm", ORDER)
def test_more_columns_than_planned_are_refused(norm):
    noise = plan(norm)
    wide = EntrySums(((1, 3 * N_RELEASES + 1),), norm, noise.step)
    with pytest.raises(RuntimeError, match="that rounding moves"):
        Releases(noise, source_of(0)).ask(Summed(), Asking((wide,)))


@pytest.mark.parametrize("norm", ORDER)
def test_another_norm_is_refused(norm):
    (other,) = ORDER.keys() - {norm}
    noise = plan(norm)
    sums = EntrySums(BLOCKS, other, noise.step)
    with pytest.raises(RuntimeError, match="another norm"):
        Releases(noise, source_of(0)).ask(Summed(), Asking((sums,)))


# Of fits: a value enters the sums once, whatever a question does.

WHERE = np.argwhere(np.ones((6, 5)))
VALUES = np.random.default_rng(0).uniform(0, 1, 30)


@pytest.mark.parametrize("perturbation", ["sums", "statistics", "output", "gradient"])
def test_a_fit_adds_no_vector_that_is_too_long(perturbation, monkeypatch, as_released):
    """Of each kind, ten times as long: they become zero, and sums those of nobody."""
    for kind in (RangeSums, EntrySums):
        add = kind.add

        def longer(sums, total, rows, numbers, add=add):
            if isinstance(numbers, list):
                return add(sums, total, rows, [10 + 10 * part for part in numbers])
            return add(sums, total, rows, 10 * (1 + sums.most) + numbers)

        monkeypatch.setattr(kind, "add", longer)
    model = CPCompletion(
        1, epsilon=4.0, shape=(6, 5), value_bounds=(0, 1), perturbation=perturbation,
        max_iter=3, n_pattern_components=0,
    )  # fmt: skip
    with recorded() as found:
        model.fit(WHERE, VALUES)
    assert len(found.exact) > (perturbation != "sums")
    assert not found.flat.any()
