"""What is made follows from the seed, and from nothing else."""

from functools import partial
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sktensordp.datasets import make_choices, make_low_rank_tensor, make_ratings

MAKERS = {
    "ratings": partial(make_ratings, 20, 30, 200),
    "choices": partial(make_choices, 20, 30, 200),
    "CP": partial(make_low_rank_tensor, (6, 5, 4), 2),
    "Tucker": partial(make_low_rank_tensor, (6, 5, 4), 2, decomposition="tucker"),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_seed_repeats_and_others_differ(make):
    def arrays(seed):
        made = make(random_state=seed)
        return [made[name] for name in ("data", "target", "truth") if name in made]

    one = arrays(3)
    for same in (arrays(3), arrays(np.random.RandomState(3))):
        for mine, other in zip(one, same, strict=True):
            assert_array_equal(mine, other)
    for pair in combinations([one, *map(arrays, (0, 1, 4, None, None))], 2):
        for mine, other in zip(*pair, strict=True):
            assert not np.array_equal(mine, other)
