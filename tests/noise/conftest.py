"""Tools of the statistical tests: scripted words, goodness of fit."""

import numpy as np
import pytest
from scipy.stats import chi2


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


def chi_square_p_value(counts, probabilities):
    """P value of Pearson's test; neighbouring cells are pooled to 20 expected."""
    counts, expected = np.asarray(counts), np.asarray(probabilities) * np.sum(counts)
    groups, total = np.empty(len(expected), dtype=int), 0.0
    group = 0
    for i, one in enumerate(expected):
        groups[i] = group
        total += one
        if total >= 20:
            group, total = group + 1, 0.0
    if total:  # what is left at the end joins the last full group
        groups[groups == group] = max(group - 1, 0)
    observed = np.bincount(groups, counts)
    expected = np.bincount(groups, expected)
    assert len(observed) > 1
    assert np.isclose(expected.sum(), observed.sum(), rtol=1e-9)
    statistic = np.sum((observed - expected) ** 2 / expected)
    return chi2.sf(statistic, len(observed) - 1)


@pytest.fixture
def scripted():
    """Function: a bit generator that returns the given words."""
    return ScriptedBits


@pytest.fixture
def chi_square():
    """Function: P value of counts against probabilities, in fixed order."""
    return chi_square_p_value
