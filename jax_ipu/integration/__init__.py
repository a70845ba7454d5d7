"""The parts of :mod:`jax_ipu.plugin`, the layer that touches JAX internals. Each module is one feature of JAX."""
