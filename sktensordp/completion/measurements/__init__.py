"""Measurements: what turns private values into a release, one module for each."""
