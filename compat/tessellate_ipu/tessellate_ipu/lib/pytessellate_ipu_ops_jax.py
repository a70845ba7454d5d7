"""A limit of TessellateIPU's custom calls."""

# Fields of one vertex that are read and written. `jax_ipu.tile` has no limit.
TileMapMaxInOutAliasingArgs = 4

__all__ = ["TileMapMaxInOutAliasingArgs"]
