"""What fits suppose before they see a value, on the scale of half the values' range."""

__all__ = ["BIAS_PRECISION", "CORE_PRECISION", "FACTOR_PRECISION", "TIE_PRECISION"]

# Where learned precisions start.
BIAS_PRECISION = 20.0
FACTOR_PRECISION = 1.0
TIE_PRECISION = 20.0
# Of every element of a Tucker's core; not learned.
CORE_PRECISION = 100.0
