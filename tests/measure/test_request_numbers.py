"""Numbers of requests: each has noise of its own, up to the last that is answered."""

import pytest

from tests.support.noise import source_of
from tests.support.parties import CASES
from tests.support.requests import numbered

LAST = 2**32 - 1


def test_no_request_is_answered_whose_noise_another_number_has():
    """A stream tells 2**32 of them apart."""
    case = CASES["all cells"]
    _, sums = case.summed()
    (request,) = sums.requests
    asked = case.parties(n=1)[0]
    assert asked.answer(numbered(request, LAST)).shape == sums.answers[0][0].shape
    for number in (LAST + 1, LAST + 2, -1):
        with pytest.raises(ValueError, match="number"):
            case.parties(n=1)[0].answer(numbered(request, number))


def test_the_last_number_has_noise_of_its_own():
    source = source_of(0)
    words = {
        tuple(source.step(number).stream(block).random_raw(2))
        for number in (0, 1, LAST - 1, LAST)
        for block in (0, 1)
    }
    assert len(words) == 8
