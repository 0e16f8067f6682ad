"""Exact sums over people with noise: what completions and moments release."""

from ._limbs import rounded
from ._noisy_sums import (
    NoisySums,
    plan_gaussian_sums,
    plan_laplace_sums,
    planned_event,
    row_sums,
)

__all__ = [
    "NoisySums",
    "plan_gaussian_sums",
    "plan_laplace_sums",
    "planned_event",
    "rounded",
    "row_sums",
]
