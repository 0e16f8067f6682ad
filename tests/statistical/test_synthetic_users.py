"""Audits of tables of synthetic users alone: what they tell of one user.

The canary has items that nobody else has together. A table is a release of the fit, so
it may tell no more. A false alarm has a probability of at most 1e-4 in each audit.
"""

import sys

import numpy as np
import pytest

from sktensordp.audit import audit_mechanism
from sktensordp.completion import ImplicitCompletion
from tests.benchmarks import bench_synthetic
from tests.support.scripts import printed_means
from tests.support.seams import completion_synthetic

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

SHAPE, N_SYNTHETIC, EPSILON, DELTA = (30, 40), 400, 1.0, 1e-6
USERS = [np.array([user % 5, (user + 1) % 5]) for user in range(20)]
CANARY = np.array([7, 12, 17, 30])
COPIED = 0.01


def pairs(users):
    owners = np.repeat(np.arange(len(users)), [len(items) for items in users])
    return np.column_stack([owners, np.concatenate(users)])


WITHOUT, WITH = pairs(USERS), pairs([*USERS, CANARY])


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    for name, value in {"_N_DRAWN": 100, "_ROUNDS": 2, "_ROUNDS_OF_COUNTS": 1}.items():
        monkeypatch.setattr(completion_synthetic, name, value)


def table_of(X):
    """Synthetic users of a fresh release, as rows of zeros and ones."""
    model = ImplicitCompletion(epsilon=EPSILON, delta=DELTA, shape=SHAPE).fit(X)
    drawn = model.sample_users(N_SYNTHETIC, items_per_user=[2, 4])
    table = np.zeros((N_SYNTHETIC, SHAPE[1]), bool)
    table[tuple(drawn.T)] = True
    return table


def copying(X):
    """The same, but that each user is a copy of a real one in a few cases."""
    table, rng = table_of(X), np.random.default_rng()
    real = np.zeros((int(X[-1, 0]) + 1, SHAPE[1]), bool)
    real[tuple(X.T)] = True
    copies = np.flatnonzero(rng.random(N_SYNTHETIC) < COPIED)
    table[copies] = real[rng.integers(len(real), size=len(copies))]
    return table


def statistics(table):
    """How often the canary's items are drawn, and how often they are one user."""
    canaries = table[:, CANARY].all(axis=1) & (table.sum(axis=1) == len(CANARY))
    return np.array([table[:, CANARY].sum(), canaries.sum()], float)


def audited(sampler, n_trials, **options):
    return audit_mechanism(
        lambda X: statistics(sampler(X.astype(np.int64))),
        WITHOUT,
        WITH,
        epsilon=EPSILON,
        delta=DELTA,
        n_trials=n_trials,
        confidence=1 - 1e-4,
        **options,
    )


def test_tables_tell_no_more_than_is_claimed():
    assert not audited(table_of, 1000).violated


def test_a_sampler_that_copies_users_is_found():
    by_canaries = {"log_likelihood_ratio": lambda outputs: outputs[:, 1]}
    assert audited(copying, 1000, **by_canaries).violated


def test_the_benchmark_of_other_recommenders(tmp_path, monkeypatch, capsys):
    """Who learned from users of two groups finds what the group chooses."""
    groups = np.repeat([0, 1], 40)
    chosen = np.argwhere(groups[:, np.newaxis] == np.repeat([0, 1], 30))
    held = (chosen[:, 0] + chosen[:, 1]) % 4 == 0
    parts = {"train": chosen[~held], "test": chosen[held], "shape": (80, 60)}
    train, test = (
        bench_synthetic.matrix_of(parts[name], (80, 60)) for name in ("train", "test")
    )
    known = bench_synthetic.ease, bench_synthetic.neighbours, bench_synthetic.svd(2)
    for learn in known:
        assert bench_synthetic.recall(learn, train, train, test) == 1
    assert bench_synthetic.recall(None, train, train, test) < 0.9
    file, table = tmp_path / "choices.npz", tmp_path / "scores.csv"
    np.savez(file, **parts)
    arguments = ["--epsilons", "8", "--table", str(table), str(file)]
    monkeypatch.setattr(sys, "argv", ["bench_synthetic.py", *arguments])
    bench_synthetic.main()
    assert len(printed_means(table, capsys.readouterr().out)) == 2 * 6
