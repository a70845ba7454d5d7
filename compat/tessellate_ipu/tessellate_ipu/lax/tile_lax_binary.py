"""Scaled sums and differences."""

from jax_ipu.tile import scaled_add_p, scaled_sub_p

__all__ = ["scaled_add_p", "scaled_sub_p"]
