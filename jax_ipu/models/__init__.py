"""The parts of :class:`jax_ipu.GraphCoreManager`: models of any framework as JAX functions, compiled and run on IPUs.

``adapters`` converts a model of a framework to a `Model`, ``precision`` changes its element types, ``traced_model``
traces it, ``plans`` distributes it over IPUs and slices of the batch, ``compiled`` runs it, ``archive`` stores it, and
``training`` builds training steps.
"""
