"""Several programs with one set of weights, and several IPUs."""

from __future__ import annotations

import itertools
import resource
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jax_ipu
from larger.language import garden
from larger.row import TARGET, Found, of


def _loss(weights: Any, x: Any) -> Any:
    for w in weights:
        x = jnp.tanh(x @ w)
    return (x**2).mean()


def _train(weights: Any, x: Any) -> Any:
    """A step of gradient descent."""
    value, gradients = jax.value_and_grad(_loss)(weights, x)
    return [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)], value


def programs_in_turns() -> Found:
    """A training step and an evaluation that share four weights, run in turns."""
    ipu = jax.devices("ipu")[0]
    step, evaluate = jax.jit(_train, donate_argnums=0), jax.jit(_loss)
    rng = np.random.default_rng(0)
    weights = [jax.device_put((rng.normal(size=(512, 512)) / 22).astype(np.float32), ipu) for _ in range(4)]
    rounds, batch = 20, np.ones((64, 512), np.float32)
    start, second = jax_ipu.counters(ipu), None
    for number in range(rounds):
        weights, value = step(weights, batch)
        jax.block_until_ready((weights, value, evaluate(weights, batch)))
        second = jax_ipu.counters(ipu) if number == 0 else second
    end = jax_ipu.counters(ipu)
    assert second is not None
    loads, sent = end.engine_loads - second.engine_loads, end.h2d_bytes - second.h2d_bytes
    text = (
        f"from the second round on {loads} loads and {sent:,} bytes to the device, the batches are"
        f" {2 * (rounds - 1) * batch.nbytes:,}; with the first round {end.engine_loads - start.engine_loads} loads and"
        f" {end.h2d_bytes - start.h2d_bytes:,} bytes"
    )
    return Found(text, loads == 0 and sent == 2 * (rounds - 1) * batch.nbytes)


def equal_stages(width: int) -> Found:
    """Four stages of eight layers, `shard_map` and `ppermute` in a scan, 16 micro-batches of 64 rows."""
    count, batches, rows = 4, 16, 64
    mesh = AbstractMesh((count,), ("stage",))

    def stage(weights: Any, x: Any) -> Any:
        for w in weights:
            x = jnp.tanh(x @ w)
        return x

    def send(x: Any) -> Any:
        return jax.lax.ppermute(x, "stage", [(i, (i + 1) % count) for i in range(count)])

    def pipelined(weights: Any, xs: Any) -> Any:
        number, last = jax.lax.axis_index("stage"), count - 1

        def trip(carry: Any, t: Any) -> Any:
            x, outputs = carry
            y = stage(weights[0], jnp.where(number == 0, xs[jnp.minimum(t, batches - 1)], x))
            outputs = jnp.where(t >= last, outputs.at[jnp.maximum(t - last, 0)].set(y), outputs)
            return (send(y), outputs), None

        start = jax.lax.pcast((jnp.zeros_like(xs[0]), jnp.zeros_like(xs)), "stage", to="varying")
        return jax.lax.scan(trip, start, jnp.arange(batches + last))[0][1][None]

    def cycles(function: Any, specs: Any, *shapes: Any) -> Any:
        arguments = [of(shape, NamedSharding(mesh, spec)) for shape, spec in zip(shapes, specs, strict=True)]
        mapped = jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=P("stage"))
        return jax_ipu.estimate(mapped, *arguments, target=TARGET).cycles

    whole = cycles(pipelined, (P("stage"), P()), (count, 8, width, width), (batches, rows, width))
    copy = cycles(send, (P("stage"),), (count * rows, width))
    alone = jax_ipu.estimate(stage, of((8, width, width)), of((rows, width)), target=TARGET).cycles
    trips = batches + count - 1
    text = (
        f"{whole:,} cycles: {whole / (trips * alone):.2f} times {trips} stages of {alone:,},"
        f" {whole / (trips * (alone + copy)):.2f} times with the {copy:,} of a copy to the next IPU in each"
    )
    return Found(text, whole <= 1.05 * trips * alone)


def bert_large_pipeline() -> Found:
    """BERT-Large in float16 over four IPUs, as jax_ipu.pipeline; what waits, against fill and flush alone."""
    program = garden.programs()["bert_large"]
    job: Any = program.tasks["training"](garden.Options(1024, 4, precision="float16"))
    pipe = garden._pipe(job, [f"IPU {number}" for number in range(len(job.stages))], "float16")
    found = pipe.timeline(jax.eval_shape(job.params), *job.batch(0))
    busy = max(sum(s for w, s in found.seconds.items() if w.stage == n) for n in range(found.stages))
    text = (
        f"{job.rows / found.whole:,.0f} sequences a second, {100 * found.idle:.1f} % idle; the whole takes"
        f" {found.whole / busy:.3f} times as long as the busiest IPU computes"
    )
    return Found(text, found.whole <= 1.1 * busy)


def host_cost_of_many_ipus() -> Found:
    """Host time and memory of an estimate of a data parallel step, for more and more IPUs."""
    sizes, texts, seconds = (2048,) * 5, [], []

    for ipus in (4, 4, 16, 64):
        mesh = AbstractMesh((ipus,), ("data",))
        weights = [of((a, b), NamedSharding(mesh, P())) for a, b in itertools.pairwise(sizes)]
        start = time.process_time()
        jax_ipu.estimate(_train, weights, of((64 * ipus, 2048), NamedSharding(mesh, P("data"))), target=TARGET)
        seconds.append(time.process_time() - start)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        texts.append(f"{ipus} IPUs {seconds[-1]:.1f} s, {peak:,.0f} MiB")
    return Found("; ".join(texts[1:]), seconds[-1] <= 3 * seconds[1] + 1)
