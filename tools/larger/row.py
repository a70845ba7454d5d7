"""What the rows of docs/large_models.md share: their results, and arrays that are only described."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

TARGET = "ipu2"
MIB = 2**20


class Found(NamedTuple):
    """What a row is: a text for the table, and whether it is what was asked."""

    text: str
    met: bool


class Row(NamedTuple):
    """A row of the table; `measure` takes a process of its own."""

    check: str
    needed: str
    measure: Callable[[], Found]


def mib(size: float) -> str:
    """A size in MiB."""
    return f"{size / MIB:,.0f} MiB"


def fitted(estimate: Any) -> str:
    """Whether it fits, the fullest tile and the cycles."""
    if not estimate.fits:
        return f"does not fit: {estimate.reason.splitlines()[0]}"
    text = f"fits: fullest tile {estimate.fullest_tile_bytes / 1024:,.0f} KiB, {estimate.cycles:,} cycles"
    return text + (f" ({estimate.savings})" if estimate.savings else "")


def of(shape: tuple[int, ...], sharding: Any = None, dtype: Any = jnp.float32) -> Any:
    """An array that is only described."""
    make: Any = jax.ShapeDtypeStruct
    return make(shape, dtype, sharding=sharding)


def memories() -> tuple[Any, Any]:
    """Shardings for the SRAM of the first IPU, and for host memory."""
    sram = SingleDeviceSharding(jax.devices("ipu")[0])
    return sram, sram.with_memory_kind("pinned_host")


def on_device(tree: Any) -> Any:
    """A value of host memory, on the tiles."""
    return jax.device_put(tree, jax.memory.Space.Device)


def in_host(tree: Any) -> Any:
    """A value in host memory."""
    return jax.device_put(tree, jax.memory.Space.Host)
