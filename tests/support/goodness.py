"""Goodness of fit, for the statistical tests."""

import math

import numpy as np
from scipy.stats import chi2, norm


def chi_square(counts, probabilities):
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


def moments_p_value(errors):
    """P value of means of 0 and covariances of the identity, if many are normal."""
    n, size = errors.shape
    products = errors[:, :, np.newaxis] * errors[:, np.newaxis, :] - np.eye(size)
    parts = np.column_stack([errors, products.reshape(n, -1)])
    scores = math.sqrt(n) * parts.mean(axis=0) / parts.std(axis=0)
    return min(1.0, parts.shape[1] * 2 * norm.sf(np.abs(scores).max()))


def rises(errors):
    """How mean errors rise from each column to the next, by their standard error.

    A rise of 0.2 per cent is allowed.
    """
    rise = np.diff(errors, axis=1) - 0.002 * errors[:, :-1]
    return rise.mean(axis=0) / (rise.std(axis=0, ddof=1) / math.sqrt(len(rise)))
