"""Sorts, and what is asked of sorted arrays."""
