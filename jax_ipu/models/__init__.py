"""What :class:`jax_ipu.GraphCoreManager` is made of: models of any kind as JAX functions, compiled and run on IPUs.

``adapters`` brings a model of a framework to one form, ``precision`` retypes it, ``program`` traces it, ``plans``
decides how it is laid out over IPUs and time, ``compiled`` runs it, ``archive`` stores it, ``training`` makes steps.
"""
