"""The names of TessellateIPU's compiled modules."""
