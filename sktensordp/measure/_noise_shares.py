"""Gaussian noise in shares: each of several parties adds a part, and none adds all.

Guarantee. Two data sets are neighbours if one of them has all entries of one unit of
one party, and the other has none of them; or if one sample of one party is replaced by
another. Everything that anybody sees of a fit (the
sums that the server gets, its requests, the model) is (epsilon, delta)-differentially
private for them, if

- secure aggregation reveals one sum for each request, over one set of parties, and a
  repeated request goes to the same set (the difference between sums over two sets has
  only the noise of the parties that are in one of them);
- nothing is revealed of fewer answers, and this sum contains the shares of at least
  `n_honest` parties whose noise the adversary does not know.

The fit ends with an error at a sum of fewer than `n_needed` answers. By then, the
server has seen that sum: only the secure aggregation can ensure the second condition.

Noise is counted in whole steps of a lattice. A share is a discrete Gaussian variate:
an integer n has probability proportional to exp(-n^2 / (2 s^2)). Two facts about it are
proved in doc/user_proofs.md, each up to a factor of at most e^rho on every
probability, where rho < 3e-137 if s^2 / 2 >= `_ROUNDING`:

1. The sum of such variates with s^2 = a and s^2 = b is one with s^2 = a + b.
2. A variate with s^2 = v is a Gaussian of variance v - `_ROUNDING`, rounded to an
   integer at random. The rounding does not depend on how much of its argument is noise.

So the sum of m shares is post-processing of Gaussian noise of variance
m s^2 - `_ROUNDING`, up to e^(m rho) in every coordinate. Composition of the releases is
that of ``completion/measurements/units/_units.py`` and of ``moments/_base.py``.

**Rounding.** Sums that are not whole steps (of products, of moments) are rounded to the
lattice once by each party, before it adds its noise. One person is at one party. So all
other parties round the same exact sums in both neighbouring data sets, and the total
moves as far as that one party's rounded sums: by at most the root of the shares, plus a
step times the root of the number of rounded cells, as if there were one sum over all
people. `n_moved` counts the rounded sums of all releases.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .._random import BLOCK, NoiseSource
from .._validation import LARGEST_INDEX, check_integer
from ..noise import GaussianLattice, discrete_gaussian
from ..privacy._conditions import COLLUDERS, ONE_SUM
from ._noisy_sums import ROUNDED_UP, NoisySums

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

# Variance of the random rounding, in squared steps, and a bound on rho.
_ROUNDING, _RHO = 16, 3e-137
# A coarser share would be rounded up by more than a thousandth, and break the bound.
_LEAST_SCALE = 2**10


@dataclass(frozen=True)
class NoiseShares:
    """How many parties share the noise of an aggregated fit, and how many may fail.

    All parties and the server declare the same numbers: parties in `party`, the server
    in `fit_aggregated`. Each party adds noise of the variance that a trusted server
    would add, divided by `n_honest`.

    Parameters
    ----------
    n_parties : int
        Number of parties, P.
    n_dropouts : int, default=0
        Largest number of parties, d, that do not answer a request. Set the threshold of
        the secure aggregation to `n_needed`.
    n_colluders : int, default=0
        Largest number of parties, a, whose noise the adversary knows. Parties that
        deviate from the protocol count as colluders.

    Attributes
    ----------
    n_needed : int
        Least number of answers to a request: P - d.
    n_honest : int
        Least number of parties whose noise protects a sum: P - d - a.

    Raises
    ------
    ValueError
        If a number is not an integer, or is negative or above 2**31 - 1, or if
        P - d - a is below 1.

    Notes
    -----
    The guarantee holds on condition that the secure aggregation reveals one sum for
    each request, over one set of parties, and no sum of fewer than `n_needed` answers.

    Examples
    --------
    >>> from sktensordp.completion import NoiseShares
    >>> NoiseShares(20, n_dropouts=3, n_colluders=2).n_honest
    15
    """

    n_parties: int
    n_dropouts: int = 0
    n_colluders: int = 0

    def __post_init__(self) -> None:
        for name, least in (("n_parties", 1), ("n_dropouts", 0), ("n_colluders", 0)):
            number = check_integer(getattr(self, name), name, least, LARGEST_INDEX)
            object.__setattr__(self, name, number)
        if self.n_honest < 1:
            raise ValueError(
                f"n_parties - n_dropouts - n_colluders must be at least 1, or no noise "
                f"protects a sum; got {self.n_parties} - {self.n_dropouts} - "
                f"{self.n_colluders}."
            )

    @property
    def n_needed(self) -> int:
        """Least number of answers to a request: P - d."""
        return self.n_parties - self.n_dropouts

    @property
    def n_honest(self) -> int:
        """Least number of parties whose noise protects a sum: P - d - a."""
        return self.n_needed - self.n_colluders


@dataclass(frozen=True)
class SharedNoise:
    """Noise that parties add in shares; see `NoisySums`.

    Attributes
    ----------
    shares : NoiseShares
    step : float
        Step of the lattice.
    scale : int
        s of the discrete Gaussian that a party adds to each sum, in steps.
    n_cells : float
        Number of sums in all releases together.
    n_moved : int, default=0
        Number of those sums that a party rounds after adding up.
    """

    shares: NoiseShares
    step: float
    scale: int
    n_cells: float
    n_moved: int = 0

    norm, share = "l2", 1.0
    conditions = (ONE_SUM, COLLUDERS)
    """Further conditions of a guarantee; `statement` states them with the numbers."""
    source = "; sums of noise: Kairouz, Liu and Steinke (2021)"
    """Source of what a guarantee says about sums of shares, after other sources."""
    name, by = "discrete Gaussian noise", ", in shares by the parties"

    @property
    def statement(self) -> str:
        """What the guarantee requires of secure aggregation and of the parties."""
        shares = self.shares
        return (
            f" It has to be true that secure aggregation reveals one sum for each "
            f"request, over one set of parties, even if the request is repeated, and "
            f"no sum of fewer than {shares.n_needed} answers; and that every sum "
            f"contains the noise of at least {shares.n_honest} of the "
            f"{shares.n_parties} parties, which nobody else knows."
        )

    def lattices(self, n_sums: int) -> list[tuple[float, float]]:
        """Step of the lattice, and factor on the noise, of each sum of a release."""
        return [(self.step, 1.0)] * n_sums

    @property
    def noise_variance(self) -> float:
        """Variance of the noise in a sum if all parties answer."""
        return self.sigma(self.shares.n_parties) ** 2

    def sigma(self, n_answers: int) -> float:
        """Standard deviation of the noise in the sum of `n_answers` answers."""
        return self.step * self.scale * math.sqrt(n_answers)

    def n_bits(self, largest: float) -> int:
        """Number of bits of sums whose exact values are at most `largest` steps."""
        # A sum of noise is further from 0 with probability e^-799.
        noise = 40 * self.scale * math.sqrt(self.shares.n_parties)
        n_bits = 1 + math.ceil(math.log2(ROUNDED_UP * (largest + noise) + 1))
        if n_bits > 53:  # which floating point holds exactly
            raise ValueError(
                f"The noise of {self.shares.n_parties} parties is too large to be "
                "added exactly. Let fewer of them drop out or collude."
            )
        return n_bits

    @property
    def event(self) -> "DpEvent":
        """Event of all releases together."""
        from dp_accounting import dp_event

        from ..privacy.accounting._events import SamplerResidualDpEvent

        n_honest = self.shares.n_honest
        # Standard deviation of the Gaussian behind `n_honest` shares.
        spread = self.step * math.sqrt(n_honest * self.scale**2 - _ROUNDING)
        residual = self.n_cells * n_honest * _RHO
        # Sums that are rounded once are further apart, by up to a step in each cell.
        distance = ROUNDED_UP * (1 + self.step * math.sqrt(self.n_moved))
        noise = dp_event.GaussianDpEvent(noise_multiplier=spread / distance)
        from_ideal = SamplerResidualDpEvent(residual, 0.0)
        return dp_event.ComposedDpEvent([noise, from_ideal])

    def draw(self, size: int, streams: NoiseSource) -> NDArray[np.int64]:
        """One party's noise for the sums of a release, in steps.

        Parameters
        ----------
        size : int
        streams : NoiseStreams
            Streams for this release of this party alone.
        """
        noise = np.empty(size, dtype=np.int64)
        for block, start in enumerate(range(0, size, BLOCK)):
            chunk = noise[start : start + BLOCK]
            chunk[:] = discrete_gaussian(streams.stream(block), self.scale, len(chunk))
        return noise


def plan_shared_noise(noise: NoisySums, shares: NoiseShares) -> SharedNoise:
    """Divide noise among parties.

    Parameters
    ----------
    noise : NoisySums
        Gaussian noise, as one trusted server would add it.
    shares : NoiseShares

    Returns
    -------
    shared : SharedNoise
        Its mu is at most that of `noise`, and its lattice is the same.

    Raises
    ------
    ValueError
        If there are so many parties that a share would be only a few steps.
    """
    lattice = noise.lattice
    assert isinstance(lattice, GaussianLattice)
    needed = (lattice.sigma / lattice.step) ** 2 + _ROUNDING
    # The additional step covers the rounding errors of this line.
    scale = math.ceil(math.sqrt(needed / shares.n_honest)) + 1
    if scale < _LEAST_SCALE:
        raise ValueError(
            f"The noise cannot be divided among {shares.n_honest} parties: a share "
            f"would be {scale} steps of the lattice, and must be at least "
            f"{_LEAST_SCALE}. Let fewer parties, with more units each, add noise."
        )
    step = float(lattice.step)
    return SharedNoise(shares, step, scale, noise.n_cells, noise.n_moved)
