"""Runs that are given the noisy sums of another run, as along one trajectory.

Two data sets whose fits have the same releases must leave the same things behind, but
for what protected units compute from their own entries.
"""

import math
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock

import numpy as np
from numpy.testing import assert_array_equal

from sktensordp.completion._noisy_sums import NoisySums

__all__ = ["Trajectory", "recorded"]


@dataclass
class Trajectory:
    """A run whose sums are seen without noise, and what it went on with instead.

    Attributes
    ----------
    noise : list of NoisySums
    exact : list of (list of ndarray of int)
        For every release, its sums in whole steps.
    outputs : list of (list of ndarray)
        What was taken for the noisy sums.
    """

    noise: list = field(default_factory=list)
    exact: list = field(default_factory=list)
    outputs: list = field(default_factory=list)

    @property
    def flat(self):
        """All sums of all releases."""
        return np.concatenate([np.ravel(s) for release in self.exact for s in release])

    @property
    def step(self):
        return self.noise[0].lattice.step

    @property
    def sigma(self):
        return self.noise[0].lattice.sigma


@contextmanager
def recorded(follow=None, factor=1.0):
    """All releases while this lasts; with `follow`, they are given its outputs.

    `factor` is how many times larger than it is the noise of the trajectory is made.
    """
    found, rng = Trajectory(), np.random.default_rng(1)

    def randomize(noise, sums, source):
        step = noise.lattice.step
        exact = [np.rint(s / step).astype(np.int64) for s in sums]
        for whole, s in zip(exact, sums, strict=True):
            assert_array_equal(whole * step, s)
        found.noise.append(noise)
        found.exact.append(exact)
        if follow is None:
            sigma = factor * math.sqrt(noise.noise_variance)
            output = [s + sigma * rng.standard_normal(s.shape) for s in sums]
        else:
            output = follow.outputs[len(found.exact) - 1]
        found.outputs.append([part.copy() for part in output])
        return [part.copy() for part in output]

    with mock.patch.object(NoisySums, "randomize", randomize):
        yield found
