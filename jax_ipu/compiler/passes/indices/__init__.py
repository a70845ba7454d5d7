"""Lookups, updates and slices: at known positions, at one index, and of what is read only."""
