"""Exact sums over people with noise: what completions and moments release."""

from ._lengths import squared_lengths
from ._limbs import rounded
from ._messages import LARGEST, Arrays, message, read_message
from ._noise_shares import NoiseShares, SharedNoise, plan_shared_noise
from ._noisy_sums import (
    MOST_STEPS,
    ROUNDED_UP,
    BlockSums,
    NoisySums,
    OfChunk,
    plan_gaussian_sums,
    plan_laplace_sums,
    planned_event,
    row_sums,
)
from ._products import SHARE_BITS, ProductSums, whole_shares
from ._releases import Asked, Chunks, People, Question, Releases, contribute
from ._sums import BoundedSums, StepSums, Sums, WholeSums

__all__ = [
    "LARGEST",
    "MOST_STEPS",
    "ROUNDED_UP",
    "SHARE_BITS",
    "Arrays",
    "Asked",
    "BlockSums",
    "BoundedSums",
    "Chunks",
    "NoiseShares",
    "NoisySums",
    "OfChunk",
    "People",
    "ProductSums",
    "Question",
    "Releases",
    "SharedNoise",
    "StepSums",
    "Sums",
    "WholeSums",
    "contribute",
    "message",
    "plan_gaussian_sums",
    "plan_laplace_sums",
    "plan_shared_noise",
    "planned_event",
    "read_message",
    "rounded",
    "row_sums",
    "squared_lengths",
    "whole_shares",
]
