"""The passes over the IR, one file each; `jax_ipu.compiler.pipeline` lists them in order."""
