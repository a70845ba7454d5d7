"""Compares ipu (the model's fast engine) with XLA:CPU: python benchmarks/run.py [--rounds N] [case ...]

Both run interleaved in one process. A ratio below 1 means that ipu is faster; the goal of each case is beside it.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "mnist"))
import mnist_classifier
import mnist_cnn

warnings.filterwarnings("ignore", "backend and device argument on jit", DeprecationWarning)

Run = Callable[[], None]
fresh = itertools.count()


class Case(NamedTuple):
    """One case: make(platform) returns a function that does the timed work `repeat` times."""

    make: Callable[[str], Run]
    repeat: int
    goal: float


def steady(function, state, *arguments, donate=True):
    """Returns calls that pass a donated state on, as training does."""

    def make(platform: str) -> Run:
        step = jax.jit(function, backend=platform, donate_argnums=0 if donate else ())
        device = jax.devices(platform)[0]
        held = jax.device_put(jax.tree.map(np.array, state), device)
        held, _ = step(held, *arguments)

        def run() -> None:
            nonlocal held
            held, value = step(held, *arguments)
            value.block_until_ready()

        return run

    return make


def call(function, *arguments, on_device=True):
    def make(platform: str) -> Run:
        compiled = jax.jit(function, backend=platform)
        held = jax.device_put(arguments, jax.devices(platform)[0]) if on_device else arguments
        jax.block_until_ready(compiled(*held))

        def run() -> None:
            jax.block_until_ready(compiled(*held))

        return run

    return make


def first_call(function, *arguments):
    """The first call of a function that is new to JAX: tracing, compiling and running."""

    def make(platform: str) -> Run:
        def run() -> None:
            number = float(next(fresh))
            # A new constant, so that no cache on either side contains the program.
            new = jax.jit(lambda *a: jax.tree.map(lambda y: y + number, function(*a)), backend=platform)
            jax.block_until_ready(new(*arguments))

        return run

    return make


def mlp_step():
    state = jax.jit(mnist_classifier.init, backend="cpu")(jax.random.PRNGKey(0))
    rng = np.random.default_rng(0)
    batch = (rng.random((128, 28, 28, 1), np.float32), np.eye(10, dtype=np.float32)[rng.integers(0, 10, 128)])
    return (lambda state, batch: mnist_classifier.update_step(0, state, batch)), jax.tree.map(np.asarray, state), batch


def cnn_step():
    shape = (32, 32, 3)
    params = jax.jit(lambda k: mnist_cnn.init(k, shape), backend="cpu")(jax.random.PRNGKey(0))
    rng = np.random.default_rng(0)
    batch = (rng.random((32, *shape), np.float32), np.eye(10, dtype=np.float32)[rng.integers(0, 10, 32)])
    step = np.int32(0)
    return (
        lambda params, step, batch: mnist_cnn.update_step(0, step, params, batch),
        jax.tree.map(np.asarray, params),
        step,
        batch,
    )


def array(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def indices(size, limit):
    return np.random.default_rng(1).integers(0, limit, size).astype(np.int32)


def max_pool_gradient(x):
    return jax.grad(lambda x: mnist_cnn.max_pool(x).sum())(x)


def layer_norm(x, scale, shift):
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


def lstm(weights, recurrent, bias, inputs):
    """inputs: [time, batch, features]; the gates of a step are one product."""

    def step(carry, x):
        hidden, cell = carry
        i, f, g, o = jnp.split(x @ weights + hidden @ recurrent + bias, 4, axis=-1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    zeros = jnp.zeros((inputs.shape[1], recurrent.shape[0]))
    return lax.scan(step, (zeros, zeros), inputs)[1]


def transformer_layer(params, x):
    """x: [batch, length, features]; four heads; the norms precede the blocks."""
    batch, length, features = x.shape
    y = layer_norm(x, *params["norm1"])
    q, k, v = jnp.moveaxis((y @ params["qkv"]).reshape(batch, length, 3, 4, features // 4), (2, 3), (0, 2))
    weights = jax.nn.softmax(q @ k.swapaxes(-1, -2) / (features // 4) ** 0.5)
    x = x + jnp.moveaxis(weights @ v, 1, 2).reshape(x.shape) @ params["out"]
    y = layer_norm(x, *params["norm2"])
    return x + jax.nn.gelu(y @ params["up"]) @ params["down"]


def transformer_parameters(features):
    norm = (np.ones(features, np.float32), np.zeros(features, np.float32))
    shapes = {
        "qkv": (features, 3 * features),
        "out": (features, features),
        "up": (features, 4 * features),
        "down": (4 * features, features),
    }
    weights = {name: array(*shape) / np.float32(shape[0] ** 0.5) for name, shape in shapes.items()}
    return {"norm1": norm, "norm2": norm, **weights}


def cases() -> dict[str, Case]:
    mlp, cnn = mlp_step(), cnn_step()
    tiny = array(4)
    big = array(1024, 1024)
    return {
        "tiny dispatch": Case(call(lambda x: x * 2 + 1, tiny), 1000, 1.2),
        "MLP step, batch 128": Case(steady(*mlp), 10, 0.9),
        "CNN step, batch 32, 32x32x3": Case(steady(*cnn), 4, 0.5),
        "first call, tiny": Case(first_call(lambda x: x * 2 + 1, tiny), 3, 0.5),
        "first call, MLP step": Case(first_call(mlp[0], *mlp[1:]), 1, 0.6),
        "matmul 1024": Case(call(jnp.dot, big, big), 4, 1.0),
        "logits 128x768x16384": Case(call(lambda x, w: x @ w.T, array(128, 768), array(16384, 768)), 4, 1.0),
        "gelu 1M": Case(call(jax.nn.gelu, big), 10, 1.0),
        "softmax 1024x1024": Case(call(jax.nn.softmax, big), 10, 1.0),
        "log_softmax 1024x1024": Case(call(jax.nn.log_softmax, big), 10, 1.0),
        "layer norm 1024x1024": Case(call(layer_norm, big, array(1024), array(1024)), 10, 1.0),
        "sum rows 1024x1024": Case(call(lambda x: x.sum(1), big), 20, 1.0),
        "argmax rows 1024x1024": Case(call(lambda x: x.argmax(1), big), 5, 1.0),
        "cumsum 1M": Case(call(jnp.cumsum, big.reshape(-1)), 3, 1.0),
        "cumsum 1M bf16": Case(call(jnp.cumsum, big.reshape(-1).astype(jnp.bfloat16)), 3, 1.0),
        "top-k 16 of 1M": Case(call(lambda x: lax.top_k(x, 16), big.reshape(-1)), 3, 1.0),
        "sort 1M": Case(call(jnp.sort, big.reshape(-1)), 1, 1.0),
        "transpose 1024x1024": Case(call(lambda x: x.T + 0, big), 10, 1.0),
        "max-pool gradient": Case(call(max_pool_gradient, array(32, 28, 28, 32)), 3, 1.0),
        "threefry normal 1M": Case(call(lambda k: jax.random.normal(k, (1024, 1024)), jax.random.PRNGKey(0)), 3, 1.0),
        "gather rows 8192x64": Case(call(lambda x, i: x[i], array(8192, 64), indices(8192, 8192)), 10, 1.0),
        "gather 1M": Case(call(lambda x, i: x[i], array(1 << 20), indices(1 << 20, 1 << 20)), 3, 1.0),
        "scatter-add rows 8192x64": Case(
            call(lambda x, i, u: x.at[i].add(u), array(8192, 64), indices(8192, 8192), array(8192, 64)), 10, 1.0
        ),
        "scatter-add 1M into 100k": Case(
            call(lambda x, i, u: x.at[i].add(u), array(100_000), indices(1 << 20, 100_000), array(1 << 20)), 3, 1.0
        ),
        "fft 256x1024": Case(call(jnp.fft.fft, array(256, 1024)), 5, 1.0),
        "matmul 1024 bf16": Case(call(jnp.dot, big.astype(jnp.bfloat16), big.astype(jnp.bfloat16)), 4, 1.0),
        "conv 3x3 64 channels": Case(
            call(
                lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
                array(32, 16, 16, 64),
                array(3, 3, 64, 64),
            ),
            5,
            1.0,
        ),
        "scan 1000 steps": Case(
            call(lambda x: lax.scan(lambda c, _: (jnp.tanh(c) + 0.1, c.sum()), x, None, length=1000), array(64)),
            2,
            1.0,
        ),
        "LSTM scan, 64 steps": Case(
            call(lstm, array(128, 512), array(128, 512), array(512), array(64, 16, 128)), 2, 1.0
        ),
        "transformer layer 4x128x256": Case(
            call(transformer_layer, transformer_parameters(256), array(4, 128, 256)), 5, 1.0
        ),
    }


def measure(case: Case, rounds: int) -> dict[str, list[float]]:
    """Returns seconds per call, one entry per round, for each platform."""
    runs = {platform: case.make(platform) for platform in ("cpu", "ipu")}
    for run in runs.values():
        for _ in range(min(case.repeat, 20)):
            run()
    times: dict[str, list[float]] = {platform: [] for platform in runs}
    for index in range(rounds):
        order = list(runs.items())
        for platform, run in order if index % 2 == 0 else reversed(order):
            time.sleep(0.004)  # lets the other platform's spinning workers go to sleep
            start = time.perf_counter()
            for _ in range(case.repeat):
                run()
            times[platform].append((time.perf_counter() - start) / case.repeat)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", nargs="*", help="part of the name of the cases to run; all by default")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    print(f"jax {jax.__version__}, {jax.devices('ipu')[0]}")
    print(f"{'case':30} {'cpu us':>12} {'ipu us':>12} {'ratio':>7} {'best':>7} {'goal':>6}")
    ratios = []
    for name, case in cases().items():
        if arguments.case and not any(part in name for part in arguments.case):
            continue
        try:
            times = measure(case, arguments.rounds)
        except jax.errors.JaxRuntimeError as error:
            print(f"{name:30} failed: {str(error).splitlines()[0][:120]}")
            continue
        cpu, ipu = (statistics.median(times[p]) for p in ("cpu", "ipu"))
        ratios.append(ipu / cpu)
        best = min(times["ipu"]) / min(times["cpu"])
        print(
            f"{name:30} {cpu * 1e6:12.1f} {ipu * 1e6:12.1f} {ipu / cpu:7.2f} {best:7.2f} {case.goal:6.2f}", flush=True
        )
    if ratios:
        print(f"geometric mean of {len(ratios)} ratios: {statistics.geometric_mean(ratios):.2f} (goal 0.50)")


if __name__ == "__main__":
    main()
