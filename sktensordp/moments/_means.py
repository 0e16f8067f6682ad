"""Means of samples, released in steps that come closer, and shrunk by their noise.

**Guarantee.** One sample that is replaced moves all releases of a mean together by no
more than their share of the budget: each sums one vector for each sample, which follows
from that sample, from earlier releases and from public numbers alone, and is scaled
down to a public radius, in units of which it is released (``_sums.py``). Radii decide
how accurate a mean is, and nothing of what protects a sample.
"""

import math
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ._sums import Question

MEAN_SHARE = 0.1
"""Of the squared budget of a regression, for the mean."""
FAR = 100.0
"""How far a mean may be from 0 at most to be found, in units of the bound."""
MOST_STEPS = 3
"""Most releases of a mean. More of them come closer only where few samples do not."""


class Releases(Protocol):
    """Releases of sums over samples; see `SampleReleases`."""

    sigma: float

    @property
    def n_samples(self) -> int:
        """Number of samples, which is public."""

    def ask(self, question: Question) -> tuple[list[NDArray[Any]], float]:
        """Release the sums that answer a question."""


def released_mean(
    releases: Releases, question: Question, share: float
) -> tuple[NDArray[np.float64], float]:
    """Release the mean of samples that may be far from 0, with a share of the budget.

    With the length that its noise is expected to have at most.

    Each release is of the samples less the mean so far, scaled down to the radius in
    which they are then expected. How many there are, and their radii, follow from the
    noise, the number of samples and the bound, all of which are public.
    """
    error, radii = _radii(question, releases.sigma, share, releases.n_samples)
    mean = None
    for radius in radii:
        asked = replace(
            question,
            bound=radius,
            shares=(share / len(radii),),
            mean=mean,
            is_mean=True,
        )
        (summed,), sigma = releases.ask(asked)
        step = shrunk(summed, asked, sigma) / releases.n_samples
        mean = step if mean is None else mean + step
    assert mean is not None
    return mean, error


def _radii(
    question: Question, sigma: float, share: float, n_samples: int
) -> tuple[float, list[float]]:
    """Radii of the releases whose last error is least, and that error."""
    bound, far = question.bound, FAR * question.bound
    if not sigma:
        return 0.0, [far]
    spread = math.sqrt(math.prod(question.shape)) + 3
    candidates = []
    for n_steps in range(1, MOST_STEPS + 1):
        radii = [far]
        error = 2 * sigma / math.sqrt(share / n_steps) / n_samples * spread
        while len(radii) < n_steps:
            radii.append(min(radii[-1], bound + error * radii[-1]))
        candidates.append((error * radii[-1], radii))
    return min(candidates)


def shrunk(
    total: NDArray[np.float64], question: Question, sigma: float
) -> NDArray[np.float64]:
    """A noisy sum, shrunk towards zero by its share of noise (James and Stein)."""
    if not sigma:
        return total
    noise = len(total) * (2 * sigma * question.unit) ** 2 / question.shares[0]
    energy = float(np.square(total).sum())
    return total * max(1 - noise / energy, 0.0) if energy else total
