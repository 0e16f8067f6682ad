"""Scripted words in place of random ones."""

import numpy as np
import pytest


class ScriptedBits:
    """Bit generator that returns the given words, then fails."""

    def __init__(self, words):
        self._words = np.array([int(word) for word in words], dtype=np.uint64)
        self.n_used = 0

    @property
    def exhausted(self):
        return self.n_used == len(self._words)

    def random_raw(self, size):
        end = self.n_used + size
        assert end <= len(self._words), "more words are asked for than were scripted"
        words = self._words[self.n_used : end].copy()
        self.n_used = end
        return words


@pytest.fixture
def scripted():
    """Function: a bit generator that returns the given words."""
    return ScriptedBits
