"""People whose sums are known, and questions of these sums."""

from dataclasses import dataclass


class Summed:
    """People who answer with these totals; by default, with those of nobody."""

    def __init__(self, totals=None):
        self._totals, self.n_asked = totals, 0

    def summed(self, contribute, question):
        self.n_asked += 1
        if self._totals is None:
            return [one.zeros() for one in question.sums], None
        return self._totals, None


@dataclass(frozen=True)
class Asking:
    """A question that nobody computes an answer to."""

    sums: tuple
    chunks_at_once = 1
