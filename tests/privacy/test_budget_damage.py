"""Damaged files of budgets: refused with advice, or counted in full. Never too little.

The damages are seeded; `python -m tests.privacy.test_budget_damage N` tries N others.
"""

import random
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from itertools import combinations
from pathlib import Path
from unittest import mock

import pytest

from sktensordp.privacy import PrivacyBudget
from tests.support.budgets import n_released
from tests.support.guarantees import pure
from tests.support.seams import budgets_file

N_RELEASES, EPSILON, N_DAMAGES = 60, 100.0, 400
ADVICE = (
    "put back the latest good copy", "Put the file back", "Install that version",
    "Look for its disk",
)  # fmt: skip


def flip(rng, pages, older):
    """Some bytes are others, often in the header of the file or of a page."""
    data = bytearray(b"".join(pages))
    for _ in range(rng.choice([1, 1, 2, 8])):
        start = len(pages[0]) * rng.randrange(len(pages))
        where = rng.choice([rng.randrange(100), start + rng.randrange(12)])
        data[rng.choice([where, rng.randrange(len(data))])] ^= 1 << rng.randrange(8)
    return bytes(data)


def swap(rng, pages, older):
    i, j = rng.sample(range(len(pages)), 2)
    pages[i], pages[j] = pages[j], pages[i]
    return b"".join(pages)


def repeat(rng, pages, older):
    i, j = rng.sample(range(len(pages)), 2)
    pages[i] = pages[j]
    return b"".join(pages)


def blank(rng, pages, older):
    i = rng.randrange(len(pages))
    pages[i] = bytes(len(pages[i]))
    return b"".join(pages)


def mix(rng, pages, older):
    """Some pages are as they were earlier."""
    i = rng.randrange(len(older))
    for j in {i, rng.randrange(len(older))}:
        pages[j] = older[j]
    return b"".join(pages)


def cut(rng, pages, older):
    data = b"".join(pages)
    size = rng.choice([rng.randrange(len(data)), 4096 * rng.randrange(len(pages))])
    return data[:size]


def extend(rng, pages, older):
    return b"".join([*pages, *rng.sample(pages, rng.randrange(1, 3))])


DAMAGES = [flip, flip, swap, repeat, blank, mix, cut, extend]


def pages_of(path):
    data = path.read_bytes()
    return [data[i : i + 4096] for i in range(0, len(data), 4096)]


def stored(folder):
    """A file with releases, its pages, and those that it had earlier."""
    path = folder / "whole.db"
    budget = PrivacyBudget(EPSILON, path=path, create=True)
    for number in range(N_RELEASES):
        if number == N_RELEASES - 20:
            older = pages_of(path)
        budget.spend(pure(0.1), f"release {number} of a year")
    return path, pages_of(path), older


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("budget"))


def is_free(path):
    """Whether another process can lock the file."""
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            return error.sqlite_errorname not in ("SQLITE_BUSY", "SQLITE_LOCKED")
        except sqlite3.DatabaseError:
            return True
        return True


def is_noticed(path, budget=None):
    """Whether a budget notices a damage; an error if it breaks what is promised."""
    before, error = path.read_bytes(), None
    try:
        budget = budget or PrivacyBudget(EPSILON, path=path)
        budget.spend(pure(0.1))
    except OSError as raised:
        error = raised  # and with it, what its frames hold
    assert is_free(path)
    if error is None:
        assert n_released(budget) == N_RELEASES + 1
        return False
    assert any(advice in str(error) for advice in ADVICE), error
    assert path.read_bytes() == before
    return True


def try_damage(whole, folder, seed):
    """Whether who opens a damaged file notices it; who has it open is tried, too."""
    rng, (path, pages, older) = random.Random(seed), whole
    damage = rng.choice(DAMAGES)
    damaged = damage(rng, list(pages), list(older))
    copied = folder / "damaged.db"
    copied.write_bytes(damaged)
    noticed = is_noticed(copied)
    shutil.copyfile(path, copied)
    budget = PrivacyBudget(EPSILON, path=copied)
    assert n_released(budget) == N_RELEASES
    copied.write_bytes(damaged)
    is_noticed(copied, budget)
    return damage, damaged == b"".join(pages), noticed


@pytest.mark.thorough
@pytest.mark.parametrize("start", range(0, N_DAMAGES, N_DAMAGES // 4))
def test_damages_are_refused_or_harmless(whole, tmp_path, start):
    n_noticed = 0
    for seed in range(start, start + N_DAMAGES // 4):
        damage, same, noticed = try_damage(whole, tmp_path, seed)
        n_noticed += noticed
        if damage not in (flip, swap, mix) and not same:
            assert noticed, (seed, damage)
    assert n_noticed > N_DAMAGES // 8


def test_exchanged_pages_are_a_damage(whole, tmp_path):
    """No newer version made such a file: nobody should look for one."""
    copied, (_, pages, _) = tmp_path / "exchanged.db", whole
    for i, j in combinations(range(len(pages)), 2):
        exchanged = list(pages)
        exchanged[i], exchanged[j] = pages[j], pages[i]
        copied.write_bytes(b"".join(exchanged))
        with pytest.raises(OSError, match="is not a budget, or is damaged"):
            PrivacyBudget(EPSILON, path=copied)


def test_what_is_no_text_is_an_os_error(whole, tmp_path):
    """SQLite quotes the name of the table, which Python cannot decode."""
    copied, data = tmp_path / "bytes.db", whole[0].read_bytes()
    assert data.count(b"CREATE TABLE releases") == 1
    spoiled = data.replace(b"CREATE TABLE releases", b"CREATE TABLE \xcc\xcceases")
    copied.write_bytes(spoiled)
    with pytest.raises(OSError, match="is not a budget, or is damaged"):
        PrivacyBudget(EPSILON, path=copied)
    assert copied.read_bytes() == spoiled


@pytest.mark.parametrize("error", [ValueError, TypeError, OverflowError])
def test_what_cannot_be_read_is_an_error_of_the_database(error):
    """Which of them a damage raises differs between versions of Python."""
    connection = mock.Mock(**{"execute.side_effect": error})
    with pytest.raises(sqlite3.DatabaseError, match="the file is unreadable"):
        budgets_file._run(connection, "SELECT 1")


def test_what_is_not_found_again_is_not_recorded(whole, tmp_path, monkeypatch):
    """As if the row had gone into another page of the file."""
    copied, run = tmp_path / "elsewhere.db", budgets_file._run
    shutil.copyfile(whole[0], copied)

    def losing(connection, query, *values):
        lost = query.startswith("INSERT INTO releases")
        return [] if lost else run(connection, query, *values)

    budget, before = PrivacyBudget(EPSILON, path=copied), copied.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(budgets_file, "_run", losing)
        with pytest.raises(OSError, match="is not a budget, or is damaged"):
            budget.spend(pure(0.1))
    assert copied.read_bytes() == before
    budget.spend(pure(0.1))
    assert n_released(budget) == N_RELEASES + 1


def restored(whole, folder):
    """A budget that has released once more, and then its file is as it was before."""
    path, copied = whole[0], folder / "restored.db"
    shutil.copyfile(path, copied)
    budget = PrivacyBudget(EPSILON, path=copied)
    budget.spend(pure(0.1))
    shutil.copyfile(path, copied)
    return budget, copied


def test_a_backup_that_lost_the_last_release_is_noticed(whole, tmp_path):
    budget, path = restored(whole, tmp_path)
    for ask in (lambda: budget.spend(pure(0.1)), lambda: budget.spent, budget.history):
        with pytest.raises(OSError, match="has lost releases that were recorded"):
            ask()
    # Only who holds the last hash can know: to others, it is a file like any other.
    assert n_released(PrivacyBudget(EPSILON, path=path)) == N_RELEASES


CHANGES = [
    *(
        f"UPDATE releases SET {column} = {column} || ' ' WHERE number = 5"
        for column in ("time", "label", "guarantee", "sentences", "hash")
    ),
    *(
        f"DELETE FROM releases WHERE number {which}"
        for which in ("= 5", "> 50", "= 60", "> 0")
    ),
    "UPDATE budget SET value = '200.0' WHERE name = 'epsilon'",
]


@pytest.mark.parametrize("change", CHANGES)
def test_other_releases_and_limits_are_noticed(whole, tmp_path, change):
    copied = tmp_path / "changed.db"
    shutil.copyfile(whole[0], copied)
    with closing(sqlite3.connect(copied)) as connection, connection:
        connection.execute(change)
    with pytest.raises(OSError, match="is not a budget, or is damaged"):
        PrivacyBudget(EPSILON, path=copied)


def test_a_backup_that_others_wrote_to_is_noticed(whole, tmp_path):
    """Its number of releases is right, and one of them is another."""
    budget, path = restored(whole, tmp_path)
    PrivacyBudget(EPSILON, path=path).spend(pure(0.2), "another release")
    with pytest.raises(OSError, match="has lost releases that were recorded"):
        budget.spend(pure(0.1))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        made = stored(Path(name))
        for number in range(10**6, 10**6 + int(sys.argv[1])):
            try_damage(made, Path(name), number)
