"""The passes over the IR, one file each, in folders by family; `jax_ipu.compiler.pipeline` lists them in order."""
