"""Exact sums over people with noise: what completions and moments release."""

from ._lengths import check_lengths, squared_lengths
from ._limbs import rounded
from ._messages import LARGEST, Arrays, message, read_message
from ._noisy_sums import (
    MOST_STEPS,
    ROUNDED_UP,
    NoisySums,
    plan_gaussian_sums,
    plan_laplace_sums,
    planned_event,
    row_sums,
)

__all__ = [
    "LARGEST",
    "MOST_STEPS",
    "ROUNDED_UP",
    "Arrays",
    "NoisySums",
    "check_lengths",
    "message",
    "plan_gaussian_sums",
    "plan_laplace_sums",
    "planned_event",
    "read_message",
    "rounded",
    "row_sums",
    "squared_lengths",
]
