"""Values in `pinned_host` memory: what is larger than an IPU, and what leaves it for a while."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name

import jax_ipu
from larger.row import TARGET, Found, fitted, in_host, memories, mib, of, on_device


def phased_inference() -> Found:
    """A scan over stacked weights in host memory, one layer a trip."""
    _, host = memories()

    def run(weights: Any, x: Any) -> Any:
        return jax.lax.scan(lambda h, w: (jnp.tanh(h @ on_device(w)), None), x, weights)[0]

    weights, texts, met = of((224, 2048, 2048), host), [], True
    for tiles in (0, 64):
        found = jax_ipu.estimate(
            run, weights, of((2048, 2048)), target=TARGET, compiler_options={"ipu_io_tiles": tiles}
        )
        if not found.fits:
            return Found(fitted(found), False)
        over = found.streaming_bytes_in / (4 * weights.size) - 1
        met = met and abs(over) <= 0.01
        texts.append(
            f"{tiles} I/O tiles: {mib(found.total_bytes)} on the tiles, {found.streaming_bytes_in / 2**30:.2f} GiB in"
            f" (+{100 * over:.2f} %), {1e3 * found.call_seconds:.0f} ms, {1e3 * found.overlapped_seconds:.0f} ms at"
            " the same time"
        )
    return Found("; ".join(texts), met)


def _same(tree: Any) -> Any:
    """A value where it is: the CPU has one memory."""
    return tree


def _phased_step(
    take: Callable[[Any], Any], put: Callable[[Any], Any], weights: Any, momentum: Any, x: Any
) -> tuple[Any, Any, Any]:
    """One layer at a time: forward, backward, update; everything else is in host memory."""

    def loss(weights: Any) -> Any:
        layer: Any = jax.checkpoint(lambda h, w: (jnp.tanh(h @ take(w)), None))
        return (jax.lax.scan(layer, x, weights)[0] ** 2).mean()

    def update(_: None, layer: Any) -> Any:
        w, m, g = map(take, layer)
        m = 0.9 * m + g
        return None, (put(w - 0.1 * m), put(m))

    value, gradients = jax.value_and_grad(loss)(weights)
    _, (weights, momentum) = jax.lax.scan(update, None, (weights, momentum, gradients))
    return value, weights, momentum


def phased_training() -> Found:
    """Weights of four times the SRAM of an IPU, and as much momentum."""
    sram, host = memories()
    shape = (232, 2048, 2048)
    step = jax.jit(partial(_phased_step, on_device, in_host), out_shardings=(sram, host, host))
    found = jax_ipu.estimate(step, of(shape, host), of(shape, host), of((8, 2048), sram), target=TARGET)
    if not found.fits:
        return Found(fitted(found), False)
    size = 4 * int(np.prod(shape))
    # Weights for forward, backward and update, momentum and gradients; gradients, weights, momentum.
    over = max(abs(found.streaming_bytes_in / (5 * size) - 1), abs(found.streaming_bytes_out / (3 * size) - 1))
    sram_bytes = 1472 * found.tile_memory_bytes
    text = (
        f"{size / sram_bytes:.2f} times the SRAM of weights, {mib(found.total_bytes)} on the tiles,"
        f" {found.streaming_bytes_in / 2**30:.1f} GiB in, {found.streaming_bytes_out / 2**30:.1f} out,"
        f" {100 * over:.2f} % more than the schedule needs"
    )
    return Found(text, over <= 0.01)


def phased_training_runs() -> Found:
    """The same on 64 tiles, run: values, and bytes that were counted."""
    jax_ipu.config.model_num_tiles = 64
    sram, host = memories()
    shape, rows = (640, 256, 256), 8
    rng = np.random.default_rng(0)
    weights = (rng.normal(size=shape) / 16).astype(np.float32)
    x = rng.normal(size=(rows, 256)).astype(np.float32)
    ipu = jax.devices("ipu")[0]
    step = jax.jit(partial(_phased_step, on_device, in_host), out_shardings=(sram, host, host), donate_argnums=(0, 1))
    state = jax.device_put((weights, np.zeros(shape, np.float32)), host)
    on_cpu = jax.jit(partial(_phased_step, _same, _same), backend="cpu")
    expected, worst = (weights, np.zeros(shape, np.float32)), 0.0
    for _ in range(2):
        before = jax_ipu.counters(ipu)
        value, *state = step(*state, jax.device_put(x, sram))
        jax.block_until_ready(state)
        after = jax_ipu.counters(ipu)
        wanted, *expected = on_cpu(*expected, x)
        for a, b in zip((value, *state), (wanted, *expected), strict=True):
            worst = max(worst, float(np.abs(np.asarray(a) - np.asarray(b)).max() / np.abs(np.asarray(b)).max()))
    moved = after.h2d_bytes - before.h2d_bytes, after.d2h_bytes - before.d2h_bytes
    needed = 5 * weights.nbytes + x.nbytes, 3 * weights.nbytes + 4
    text = (
        f"{weights.nbytes / (64 * 624 * 1024):.2f} times the SRAM; values of two steps within {worst:.1e} of the"
        f" largest; {moved[0]:,} bytes in, {moved[1]:,} out: {sum(moved) - sum(needed):+,} of what the schedule needs"
    )
    return Found(text, worst < 1e-4 and moved == needed)


def optimiser_off_chip() -> Found:
    """Adam for 640 MiB of weights, its state in host memory, leaf by leaf."""
    sram, host = memories()
    count, shape = 40, (2048, 2048)

    def gradients(weights: Any, x: Any) -> Any:
        def loss(weights: Any) -> Any:
            h = x
            for w in weights:
                h = jnp.tanh(h @ w)
            return (h**2).mean()

        return jax.grad(loss)(weights)

    def adam(weights: Any, first: Any, second: Any, x: Any) -> Any:
        results = []
        for w, m, v, g in zip(weights, first, second, gradients(weights, x), strict=True):
            m, v = 0.9 * on_device(m) + 0.1 * g, 0.99 * on_device(v) + 0.01 * g * g
            results.append((w - 1e-3 * m / (jnp.sqrt(v) + 1e-8), in_host(m), in_host(v)))
        return tuple(zip(*results, strict=True))

    def descend(weights: Any, x: Any) -> Any:
        return [w - 1e-3 * g for w, g in zip(weights, gradients(weights, x), strict=True)]

    weights, state, x = [of(shape, sram)] * count, [of(shape, host)] * count, of((8, 2048), sram)
    out = tuple([place] * count for place in (sram, host, host))
    jitted = jax.jit(lambda *args: tuple(map(list, adam(*args))), donate_argnums=0, out_shardings=out)
    found = jax_ipu.estimate(jitted, weights, state, state, x, target=TARGET)
    without = jax_ipu.estimate(descend, weights, x, target=TARGET, donate_argnums=0)
    if not (found.fits and without.fits):
        return Found(fitted(found), False)
    size = 4 * count * shape[0] * shape[1]
    text = (
        f"{mib(found.total_bytes)} with {mib(2 * size)} of state, {mib(without.total_bytes)} by gradient descent"
        f" without one; {mib(found.host_bytes_in)} in, {mib(found.host_bytes_out)} out"
    )
    # Two leaves of the state and what is computed of them are on the tiles at a time.
    leaves = 4 * 4 * shape[0] * shape[1]
    return Found(text, found.total_bytes <= without.total_bytes + leaves and found.host_bytes_in <= 2.02 * size)


def offloaded_activations() -> Found:
    """The named activations of twelve layers: kept, recomputed, in host memory."""
    policies = jax.checkpoint_policies
    choices = {
        "all saved": None,
        "recomputed": policies.nothing_saveable,
        "offloaded": policies.save_and_offload_only_these_names(
            names_which_can_be_saved=[],
            names_which_can_be_offloaded=["h"],
            offload_src="device",
            offload_dst="pinned_host",
        ),
    }
    sram, _ = memories()
    peaks, text, moved = {}, [], 0
    for name, policy in choices.items():

        def layer(h: Any, w: Any) -> Any:
            return jnp.sin(jnp.tanh(checkpoint_name(h, "h") @ w) @ w), None

        body: Any = layer if policy is None else jax.checkpoint(layer, policy=policy)

        def gradients(weights: Any, x: Any, body: Any = body) -> Any:
            return jax.grad(lambda weights: (jax.lax.scan(body, x, weights)[0] ** 2).mean())(weights)

        found = jax_ipu.estimate(gradients, of((12, 512, 512), sram), of((4096, 512), sram), target=TARGET)
        if not found.fits:
            return Found(f"{name}: {fitted(found)}", False)
        peaks[name] = found.total_bytes
        text.append(f"{mib(found.total_bytes)} {name}")
        moved = found.streaming_bytes_out
    text.append(f"{mib(moved)} to host memory")
    return Found(", ".join(text), peaks["offloaded"] < 0.7 * peaks["all saved"] and moved > 0)
