"""Compiled loops over entries, rows and units: arrays in, arrays out."""
