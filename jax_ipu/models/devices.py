"""The IPUs that a manager uses, and what they are."""

from __future__ import annotations

from typing import Any

import jax

from jax_ipu import _ipu
from jax_ipu.config import config

PLATFORM = "ipu"


def target_name() -> str:
    """The configured chip and its number of tiles, such as "ipu2:1472"."""
    target = _ipu.Target(config.model_version, config.model_num_tiles)
    return f"{target.version}:{target.num_tiles}"


def first_devices(count: int) -> list[Any]:
    """The first `count` IPUs. Before JAX creates its client, the model is configured with that many."""
    if not config.frozen and config.visible_devices is None and config.device_count < count:
        config.device_count = count
    devices = jax.local_devices(backend=PLATFORM)
    if len(devices) < count:
        there = "is 1 IPU" if len(devices) == 1 else f"are {len(devices)} IPUs"
        raise RuntimeError(
            f"num_ipus={count}, but there {there}: set JAX_IPU_DEVICE_COUNT={count}, or "
            f"jax_ipu.config.device_count = {count} before the first use of JAX"
        )
    return list(devices[:count])


def describe_devices(with_memory: bool) -> list[dict[str, Any]]:
    """What each IPU of the platform is; the memory in use is 0 without `with_memory`, which needs JAX's client."""
    target = _ipu.Target(config.model_version, config.model_num_tiles)
    devices = jax.local_devices(backend=PLATFORM) if with_memory else []
    in_use = {device.id: int(device.memory_stats()["bytes_in_use"]) for device in devices}
    return [
        {
            "id": number,
            "architecture": config.model_version,
            "num_tiles": target.num_tiles,
            "memory_per_tile": target.bytes_per_tile,
            "memory_total": target.num_tiles * target.bytes_per_tile,
            "clock_frequency": target.tile_clock_frequency,
            "device": "model" if config.use_model else "hardware",
            "memory_in_use": in_use.get(number, 0),
        }
        for number in in_use or config.device_ids()
    ]
