"""Sums of samples' moments, as a release asks for them."""

import numpy as np

from sktensordp.measure import contribute
from tests.support.seams import Chunk, Question, Samples

STEP = 2.0**-20


def asked(shape, bound, shares, *args, step=STEP, **options):
    """A question on a lattice."""
    return Question(shape, bound, step, shares, *args, **options)


def summed(rows, question, further=None, sizes=None):
    """Exact sums of these samples, of all of a question's sums, in two limbs."""
    totals = contribute(Samples([Chunk(rows, further, sizes)]), question)
    return np.concatenate(totals, axis=-1)


def steps_of(question, limbs):
    """The same in whole steps of the lattice."""
    ends = np.cumsum([one.n_moved for one in question.sums])[:-1]
    parts = zip(question.sums, np.split(limbs, ends, axis=-1), strict=True)
    return np.concatenate([one.rounded(part) for one, part in parts])


def weights_of(question):
    """Weights of the sums, in units of 2^-20."""
    return np.concatenate([one._weights for one in question.sums])
