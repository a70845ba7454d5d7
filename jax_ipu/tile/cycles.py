"""The cycle counter of tiles."""

from __future__ import annotations

from typing import Any

from jax_ipu.integration import tiles as primitives
from jax_ipu.integration.tracebacks import boundary
from jax_ipu.tile.array import TileShardedArray, check_arrays


@boundary
def ipu_cycle_count(*args: TileShardedArray, sync: bool = False) -> tuple[TileShardedArray, ...]:
    """The arguments, and the cycle count of the tiles of the first one when all arguments are ready.

    What reads one of the returned arrays runs after the count. The count is uint32 (tiles, 2): the low and the high
    word of the cycles since the program began, as the IPU model counts them: compute, exchange and syncs of the
    supersteps, with the trips that loops have made. The difference of two counts of one jitted function is what the
    program between them takes, and `ipu_cycle_count_overhead`. Zero on other platforms.

    Args:
        *args: arrays on tiles.
        sync: whether all tiles meet before the count, which takes a sync.

    Raises:
        TypeError: an argument is not on tiles, or there is none.

    Examples:
        >>> import jax, numpy as np
        >>> from jax_ipu import tile
        >>> def f(x):
        ...     x = tile.tile_put_sharded(x, tiles=(0, 1))
        ...     x, start = tile.ipu_cycle_count(x)
        ...     x, end = tile.ipu_cycle_count(x)
        ...     return end.array[0, 0] - start.array[0, 0]
        >>> cycles = jax.jit(f, backend="ipu")(np.ones((2, 8), np.float32))
        >>> int(cycles) == tile.ipu_cycle_count_overhead()
        True
    """
    if not args:
        raise TypeError("ipu_cycle_count: give the arrays to wait for; the count is that of the tiles of the first")
    check_arrays("ipu_cycle_count", args)
    tiles = args[0].tiles
    ready = primitives.barrier([a.array for a in args])
    count = primitives.cycles(ready, tiles, bool(sync))
    *arrays, count = primitives.barrier([*ready, count])
    results = (TileShardedArray(array, a.tiles) for array, a in zip(arrays, args, strict=True))
    return (*results, TileShardedArray(count, tiles))


ipu_hw_cycle_count = ipu_cycle_count


def ipu_cycle_count_overhead() -> int:
    """The cycles between two counts in a row on the configured IPU.

    Examples:
        >>> from jax_ipu.tile import ipu_cycle_count_overhead
        >>> ipu_cycle_count_overhead()
        45
    """
    from jax_ipu import _ipu
    from jax_ipu.config import config

    return _ipu.Target(config.model_version).cycles_between_stamps


def is_ipu_model(device: Any) -> bool:
    """Whether a JAX device is an IPU of the model; False for other platforms' devices.

    Examples:
        >>> import jax
        >>> from jax_ipu.tile import is_ipu_model
        >>> is_ipu_model(jax.devices("ipu")[0])
        True
    """
    return getattr(device, "platform", None) == "ipu"
