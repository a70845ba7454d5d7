"""Language models over one IPU and several: memory, code and compile time."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AbstractMesh

import bert_model
import garden
import jax_ipu
import layers
import model
from larger.row import TARGET, Found, fitted, in_host, memories, mib, of, on_device


def gpt2_step(ipus: int, batch: int, options: dict[str, Any], **sizes: int) -> tuple[Any, Any, Any]:
    """The training step in float32 with AdamW, its state and its batch: all cut over the IPUs, blocks recomputed."""
    config, optimizer = model.Config(**sizes), optax.adamw(1e-3)

    def state() -> Any:
        params = model.init(0, config)
        return params, layers.moments(optimizer, params)

    job = garden.Job(
        layers.training_step(lambda params, tokens: model.loss(params, tokens, config, recompute=True), optimizer),
        state,
        lambda number: np.zeros((batch, 129), np.int32),
        batch,
        garden.split_longest(ipus),
    )
    step = garden.jitted(job, AbstractMesh((ipus,), (garden.AXIS,)), options)
    return step, jax.eval_shape(state), of((batch, 129), None, jnp.int32)


def gpt2_over(ipus: int, batch: int) -> Found:
    """GPT-2 small in float32 over several IPUs."""
    found = jax_ipu.estimate(*gpt2_step(ipus, batch, {}), target=TARGET, num_ipus=ipus)
    return Found(fitted(found), found.fits)


def code_of_layers() -> Found:
    """Code and vertex state of GPT-2's layers, on all tiles of an IPU together."""
    known: dict[tuple[str, int], Any] = {}
    for outline in ("never", "always"):
        for count in (1, 2, 4, 12):
            program = gpt2_step(4, 4, {"ipu_outline": outline}, vocabulary=8192, layers=count)
            known[outline, count] = jax_ipu.estimate(*program, target=TARGET, num_ipus=4).report

    def line(what: str) -> str:
        rows = []
        for outline in ("always", "never"):
            own = [getattr(known[outline, count], what) / 1e6 for count in (1, 2, 4, 12)]
            rows.append(f"{', '.join(f'{size:,.0f}' for size in own)} MB ({own[-1] / own[0]:.2f} x)")
        return f"{rows[0]}; {rows[1]} without functions"

    ratio = known["always", 12].code_bytes / known["always", 1].code_bytes
    return Found(f"code {line('code_bytes')}. Vertex state {line('vertex_bytes')}", ratio <= 1.5)


def compile_time_of_layers() -> Found:
    """Processor time of compilations, of all threads, for 1 and 12 layers."""
    jax_ipu.estimate(*gpt2_step(4, 4, {}, vocabulary=64, layers=1, width=24), target=TARGET, num_ipus=4)
    texts, met = [], True
    for options in ({}, {"ipu_outline": "always"}):
        seconds = []
        for count in (1, 12):
            program = gpt2_step(4, 4, options, vocabulary=8192, layers=count)
            start = time.process_time()
            jax_ipu.estimate(*program, target=TARGET, num_ipus=4)
            seconds.append(time.process_time() - start)
        ratio = seconds[1] / seconds[0]
        met = met and ratio <= 3
        texts.append(f"{seconds[0]:.1f} and {seconds[1]:.1f} s, {ratio:.1f} x ({options or 'as it is'})")
    return Found("; ".join(texts).replace("{'ipu_outline': 'always'}", "layers as functions"), met)


def bert_off_chip() -> Found:
    """BERT-base in float32, the moments of AdamW in host memory."""
    config, optimizer = bert_model.Config(), optax.adamw(1e-3, eps=1e-5)
    batch = bert_model.batch(1, 1, 128, config)
    weights = jax.eval_shape(lambda: bert_model.init(0, config, np.float32))
    moments = jax.eval_shape(optimizer.init, weights)
    sram, host = memories()

    def step(weights: Any, moments: Any, *batch: Any) -> Any:
        loss = partial(bert_model.loss, config=config, recompute=True)
        value, gradients = jax.value_and_grad(loss)(weights, *batch)
        changes, moments = optimizer.update(gradients, on_device(moments), weights)
        return optax.apply_updates(weights, changes), in_host(moments), value

    def placed(tree: Any, sharding: Any) -> Any:
        return jax.tree.map(lambda a: of(a.shape, sharding, a.dtype), tree)

    jitted = jax.jit(step, donate_argnums=0, out_shardings=(sram, host, sram))
    found = jax_ipu.estimate(jitted, placed(weights, sram), placed(moments, host), *placed(batch, sram), target=TARGET)
    size = sum(4 * leaf.size for leaf in jax.tree.leaves(moments))
    if not found.fits:
        return Found(fitted(found), False)
    # The weights are donated; the loss and the batch are small.
    over = max(found.host_bytes_in, found.host_bytes_out) / size - 1
    text = f"{fitted(found)}; {mib(size)} of moments, each byte in and out once (+{100 * over:.2f} %)"
    return Found(text, abs(over) <= 0.01)


def llama(recompute: bool, batch: int) -> Found:
    """A Llama-like model in float16: stacked layers in a scan, an output layer of its own, AdamW."""
    vocabulary, width, hidden, count, heads, length = 32_000, 768, 2048, 12, 12, 256
    optimizer = optax.adamw(1e-3, eps=1e-4)

    def norm(scale: Any, x: Any) -> Any:
        wide = x.astype(jnp.float32)
        return (wide * jax.lax.rsqrt((wide**2).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype) * scale

    def rotary(x: Any) -> Any:
        half = x.shape[-1] // 2
        angles = np.outer(np.arange(length), 10_000.0 ** (-np.arange(half) / half))
        cos, sin = (jnp.asarray(f(angles), x.dtype) for f in (np.cos, np.sin))
        a, b = x[..., :half], x[..., half:]
        return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

    def layer(x: Any, w: Any) -> Any:
        h = norm(w["norm_1"], x)
        q, k, v = ((h @ w[n]).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for n in ("q", "k", "v"))
        scores = (rotary(q) @ rotary(k).swapaxes(-1, -2)).astype(jnp.float32) / 8
        scores = jax.nn.softmax(jnp.where(np.tril(np.ones((length, length), bool)), scores, -jnp.inf))
        x = x + (scores.astype(v.dtype) @ v).swapaxes(1, 2).reshape(x.shape) @ w["o"]
        h = norm(w["norm_2"], x)
        return x + (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"], None

    def loss(w: Any, tokens: Any) -> Any:
        body: Any = jax.checkpoint(layer) if recompute else layer
        x = jax.lax.scan(body, w["embedding"][tokens[:, :-1]], w["layers"])[0]
        return layers.cross_entropy(norm(w["norm"], x) @ w["out"], tokens[:, 1:])

    square = (count, width, width)
    shapes = {"q": square, "k": square, "v": square, "o": square, "norm_1": (count, width), "norm_2": (count, width)}
    shapes |= {"gate": (count, width, hidden), "up": (count, width, hidden), "down": (count, hidden, width)}
    whole = {"embedding": (vocabulary, width), "out": (width, vocabulary), "norm": (width,), "layers": shapes}
    params = jax.tree.map(lambda s: of(s, None, jnp.float16), whole, is_leaf=lambda s: isinstance(s, tuple))
    state = params, jax.eval_shape(optimizer.init, params)
    step = layers.training_step(loss, optimizer, 1024.0)
    found = jax_ipu.estimate(step, state, of((batch, length + 1), None, jnp.int32), target=TARGET, donate_argnums=0)
    held = sum(2 * leaf.size for leaf in jax.tree.leaves(state))
    return Found(f"{mib(held)} of weights and moments; {fitted(found)}", found.fits)


def of_the_garden(name: str, task: str, options: Any) -> Found:
    """A program of the model garden."""
    program = garden.programs()[name]
    options = options._replace(mesh=garden._described_mesh(program, options))
    job = program.tasks[task](options)
    found = jax_ipu.estimate(*garden._arguments(job, options), target=TARGET, num_ipus=options.ipus)
    return Found(fitted(found), found.fits)
