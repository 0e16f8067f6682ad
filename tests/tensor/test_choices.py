"""Choices by user, beside sets of pairs."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from tests.support.seams import Choices

N_ITEMS = 9


def drawn(seed, users=(1, 4, 5, 8)):
    """Choices of some of the users, many of them twice, and their pairs."""
    rng = np.random.default_rng(seed)
    keys = rng.choice(users, 25) * N_ITEMS + rng.integers(0, N_ITEMS, 25)
    pairs = {divmod(key, N_ITEMS) for key in keys.tolist()}
    return Choices.from_keys(keys.astype(np.int64), N_ITEMS), pairs


def pairs_of(choices):
    users = np.repeat(choices.users, choices.sizes).tolist()
    found = list(zip(users, choices.items.tolist(), strict=True))
    assert len(found) == len({*found})
    return {*found}


def test_every_pair_is_there_once():
    choices, pairs = drawn(0)
    assert pairs_of(choices) == pairs
    assert_array_equal(choices.users, np.unique([user for user, _ in pairs]))
    assert choices.n_items == N_ITEMS
    nobody = Choices.from_keys(np.zeros(0, np.int64), N_ITEMS)
    assert (len(nobody.users), nobody.starts.tolist()) == (0, [0])


@pytest.mark.parametrize("users", [[4, 1], [7, 8, 0, 5], [2], []])
def test_users_come_in_the_order_in_which_they_are_asked_for(users):
    """Those without a choice, too."""
    choices, pairs = drawn(0)
    found = choices.of_users(np.array(users, dtype=np.int64))
    assert_array_equal(found.users, users)
    assert pairs_of(found) == {pair for pair in pairs if pair[0] in users}
    places = choices.position(np.array(users, dtype=np.int64))
    assert [place >= 0 for place in places] == [user in choices.users for user in users]


def test_new_choices_take_the_place_of_earlier_ones():
    choices, pairs = drawn(0)
    new, others = drawn(1, users=(0, 4))
    expected = {pair for pair in pairs if pair[0] not in (0, 4)} | others
    assert pairs_of(choices.replaced(new)) == expected


def test_some_items_are_numbered_by_their_places():
    choices, pairs = drawn(0)
    items = np.array([7, 0, 3])
    found = choices.among(items)
    assert_array_equal(found.users, choices.users)
    assert found.n_items == 3
    chosen = {(user, items[item]) for user, item in pairs_of(found)}
    assert chosen == {pair for pair in pairs if pair[1] in items}


def test_a_chunk_is_a_part_of_the_users():
    choices, pairs = drawn(0)
    found = choices.chunk(1, 3)
    assert_array_equal(found.users, choices.users[1:3])
    assert pairs_of(found) == {pair for pair in pairs if pair[0] in choices.users[1:3]}
    assert found.starts[0] == 0
