"""Exact sums over people with noise: what completions and moments release."""

from ._entry_sums import EntrySums, RangeSums
from ._limbs import rounded
from ._messages import LARGEST, Arrays
from ._noise_shares import NoiseShares, SharedNoise, plan_shared_noise
from ._noisy_sums import (
    MOST_STEPS,
    ROUNDED_UP,
    NoisySums,
    OfChunk,
    TableNoise,
    laplace_sums,
    plan_gaussian_sums,
    plan_laplace_sums,
    planned_event,
    row_sums,
)
from ._parties import PartySums, fit_aggregated, party
from ._products import SHARE_BITS, ProductSums, whole_shares
from ._releases import Asked, AtHand, Chunks, People, Question, Releases, contribute
from ._requests import LEAST, SumFields
from ._selection import after, left_of, select
from ._sums import WITHIN, BoundedSums, StepSums, Sums, SumsOfSteps, WholeSums

__all__ = [
    "LARGEST",
    "LEAST",
    "MOST_STEPS",
    "ROUNDED_UP",
    "SHARE_BITS",
    "WITHIN",
    "Arrays",
    "Asked",
    "AtHand",
    "BoundedSums",
    "Chunks",
    "EntrySums",
    "NoiseShares",
    "NoisySums",
    "OfChunk",
    "PartySums",
    "People",
    "ProductSums",
    "Question",
    "RangeSums",
    "Releases",
    "SharedNoise",
    "StepSums",
    "SumFields",
    "Sums",
    "SumsOfSteps",
    "TableNoise",
    "WholeSums",
    "after",
    "contribute",
    "fit_aggregated",
    "laplace_sums",
    "left_of",
    "party",
    "plan_gaussian_sums",
    "plan_laplace_sums",
    "plan_shared_noise",
    "planned_event",
    "rounded",
    "row_sums",
    "select",
    "whole_shares",
]
