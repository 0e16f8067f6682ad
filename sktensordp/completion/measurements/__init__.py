"""Measurements, which turn private values into a release: one module for each."""
