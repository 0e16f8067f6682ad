"""Rehearsal of a regression: fits to public or generated samples with simulated noise.

Nothing here is a release. The samples are read without protection, and the noise comes
from a fixed seed, so that it hides nothing and is alike at every epsilon.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..measure import contribute
from ._base import SampleReleases
from ._samples import Samples
from ._sums import Chunk, Question

# Each sample is left out once in a round. More rounds cost time, and the errors of two
# of them were within .01 of those of ten on digits, at epsilon .25 to infinity.
_N_FOLDS, _N_ROUNDS = 5, 2


class SimulatedReleases(SampleReleases):
    """What samples would release, with noise that protects nobody.

    Parameters
    ----------
    chunk : Chunk
        Public or generated samples.
    sigma : float
        Standard deviation of the noise.
    seed : int
    """

    def __init__(self, chunk: Chunk, sigma: float, seed: int) -> None:
        self._samples, self.sigma = Samples([chunk]), sigma
        self._samples.check()
        self._generator = np.random.default_rng(seed)

    def ask(self, question: Question) -> tuple[list[NDArray[np.float64]], float]:
        """Sums that answer a question, and the standard deviation of their noise."""
        answers = []
        for one, total in zip(
            question.sums, contribute(self._samples, question), strict=True
        ):
            noise = self.sigma * self._generator.standard_normal(one.shape)
            answers.append((one.on_lattice(total) + noise, self.sigma))
        return question.read(answers), self.sigma

    def unprotected(self, question: Question) -> NDArray[np.float64] | None:
        """What each sample contributes, if there is no noise."""
        if self.sigma:
            return None
        (chunk,) = self._samples.chunks()
        return question.vectors(chunk)


def splits(
    n_samples: int,
) -> Iterator[list[tuple[NDArray[np.intp], NDArray[np.intp], int]]]:
    """Yield rounds of samples to fit to, samples to predict, and a seed of the noise.

    Every sample is predicted once in a round.

    Raises
    ------
    ValueError
        If there are too few samples.
    """
    if n_samples < 2 * _N_FOLDS:
        raise ValueError(
            f"A rehearsal needs at least {2 * _N_FOLDS} samples, but X has "
            f"{n_samples}. Pass more public or generated samples."
        )
    for a_round in range(_N_ROUNDS):
        order = np.random.default_rng(a_round).permutation(n_samples)
        parts = [order[fold::_N_FOLDS] for fold in range(_N_FOLDS)]
        seeds = range(a_round * _N_FOLDS, (a_round + 1) * _N_FOLDS)
        yield [
            (np.setdiff1d(order, held), held, seed)
            for held, seed in zip(parts, seeds, strict=True)
        ]
