"""Releases that protect whole users: adaptive rounds of noisy sums over users."""
