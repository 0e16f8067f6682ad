"""Exact sums over people with noise: what completions and moments release."""

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
from ._products import BELOW_ONE, SHARE_BITS, ProductSums, whole_shares
from ._releases import BoundedSums, Question, Releases, Units, contribute

__all__ = [
    "BELOW_ONE",
    "LARGEST",
    "MOST_STEPS",
    "ROUNDED_UP",
    "SHARE_BITS",
    "Arrays",
    "BlockSums",
    "BoundedSums",
    "NoiseShares",
    "NoisySums",
    "OfChunk",
    "ProductSums",
    "Question",
    "Releases",
    "SharedNoise",
    "Units",
    "contribute",
    "message",
    "plan_gaussian_sums",
    "plan_laplace_sums",
    "plan_shared_noise",
    "planned_event",
    "read_message",
    "rounded",
    "row_sums",
    "whole_shares",
]
