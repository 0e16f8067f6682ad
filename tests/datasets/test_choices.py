import numpy as np
import pytest

from sktensordp.datasets import make_choices
from tests.support.choices import KINDS_OF_CHOICES


def test_types_and_distinct_pairs():
    choices = make_choices(random_state=0)
    assert choices.data.shape == (60_000, 2)
    assert choices.data.dtype == np.int64
    assert choices.shape == (600, 2000)
    assert len(np.unique(choices.data, axis=0)) == 60_000
    assert np.all((choices.data >= 0) & (choices.data < choices.shape))
    assert choices.user_groups.shape == (600,)
    assert choices.item_groups.shape == (2000,)
    assert choices.feature_names == ["user", "item"]
    assert "60000 choices of 2000 items by 600 users" in choices.DESCR
    assert len(np.unique(choices.data[:, 0])) == 600


def test_groups_are_planted():
    for affinity in (0.0, 0.7, 1.0):
        choices = make_choices(400, 2000, 8000, affinity=affinity, random_state=1)
        users, items = choices.data.T
        same_group = np.mean(choices.user_groups[users] == choices.item_groups[items])
        # There are eight groups. Active users run out of items of their own group.
        expected = affinity + (1 - affinity) / 8
        assert expected - 0.15 < same_group < expected + 0.03


def test_popularity_and_activity_are_skewed():
    choices = make_choices(400, 300, 8000, affinity=0.0, random_state=1)
    for column, size in zip(choices.data.T, choices.shape, strict=True):
        counts = np.sort(np.bincount(column, minlength=size))[::-1]
        assert counts[: size // 10].sum() > 0.25 * 8000


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS_OF_CHOICES)
def test_kinds_of_choices_have_their_shapes(kind):
    size, exponents = KINDS_OF_CHOICES[kind]
    data = make_choices(*size, **exponents, random_state=0).data
    n_chosen = np.bincount(data[:, 0], minlength=size[0])
    assert len(np.unique(data, axis=0)) == size[2]
    assert n_chosen.min() >= 1
    # Short baskets and visits, and long histories.
    typical = {"pages": 2, "games": 3, "groceries": 7, "artists": 44, "films": 55}
    assert np.median(n_chosen) == pytest.approx(typical[kind], rel=0.5)
    # Few items are popular, and most are hardly ever chosen.
    popular = np.sort(np.bincount(data[:, 1], minlength=size[1]))[::-1]
    assert popular[: size[1] // 10].sum() > 0.4 * size[2]


@pytest.mark.parametrize("size", [(1, 2, 1), (3, 2, 3), (9, 4, 18), (5, 40, 3)])
def test_small_sizes(size):
    choices = make_choices(*size, n_groups=2, random_state=0)
    assert len(np.unique(choices.data, axis=0)) == size[2]


@pytest.mark.parametrize(
    "options",
    [{"n_users": 0}, {"n_choices": True}, {"n_groups": 2001}, {"affinity": 1.5},
     {"user_exponent": -1}, {"item_exponent": np.inf}, {"n_choices": 600_001}],
)  # fmt: skip
def test_wrong_parameters_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        make_choices(**options)
