"""The chips that the IPU model knows. Their table is in ipu_model/core/target_model.cc, and nowhere else."""

from __future__ import annotations

import functools


@functools.cache
def chip_names() -> tuple[str, ...]:
    """The names of the chips, the oldest first. Loads the extension, so nothing calls it when it is imported."""
    from jax_ipu import _ipu

    return tuple(_ipu.chip_names())


@functools.cache
def most_tiles() -> int:
    """The most tiles that a chip has."""
    from jax_ipu import _ipu

    return _ipu.most_tiles()
