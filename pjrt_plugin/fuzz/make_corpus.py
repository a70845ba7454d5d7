"""Writes the fuzzer's seeds: contents of small executables that cover the operations and the runtime's features.

python pjrt_plugin/fuzz/make_corpus.py FOLDER
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AbstractMesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from jax_ipu import compiler
from jax_ipu.integration.programs import program_of

HEADER_BYTES = 32  # ipu_model/Stored.hpp
X = np.ones((3, 4), np.float32)
INDICES = np.array([0, 2], np.int32)
SQUARE = np.eye(3, dtype=np.float32)


def train(w, x):
    """Donated state and a kept argument."""
    loss, g = jax.value_and_grad(lambda w: jnp.sum((x @ w) ** 2))(w)
    return w - 0.1 * g, loss


def masked(state, rows):
    """State that a loop updates where a condition holds, and in one of two branches."""

    def body(i, s):
        s = jnp.where(i < 2, s, s.at[i].set(rows[i]))
        return lax.cond(i > 1, lambda s: s.at[0].add(1.0), lambda s: s, s)

    return lax.fori_loop(0, 3, body, state)


def from_host(weights, x):
    """One row of an array in host memory in each trip, and results in host memory."""

    def body(h, w):
        h = jnp.tanh(h @ jax.device_put(w, jax.memory.Space.Device))
        return h, jax.device_put(h, jax.memory.Space.Host)

    return lax.scan(body, x, weights)


def in_host(state):
    """Donated state in host memory."""
    return jax.device_put(jax.device_put(state, jax.memory.Space.Device) + 1, jax.memory.Space.Host)


def halves(x):
    """Two IPUs that exchange."""
    return lax.psum(x, "i") + lax.ppermute(x, "i", [(0, 1), (1, 0)])


PROGRAMS = {
    "elementwise": (lambda x: jnp.tanh(x) * 2 + jnp.where(x > 0, x, -x), (X,)),
    "types": (lambda x: (x.astype(jnp.bfloat16) + 1, x.astype(jnp.int8), x + 1j), (X,)),
    "reduce": (lambda x: (x.sum(0), x.max(1), jnp.argmax(x)), (X,)),
    "product": (lambda x: x @ x.T, (X,)),
    "convolution": (
        lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME"),
        (np.ones((1, 2, 5), np.float32), np.ones((3, 2, 3), np.float32)),
    ),
    "window": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 1), "VALID"), (X,)),
    "window_gradient": (
        jax.grad(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 1), "VALID").sum()),
        (X,),
    ),
    "cumulative": (lambda x: jnp.cumsum(x, 1), (X,)),
    "gather": (lambda x, i: x[i] + x[i, 1:2], (X, INDICES)),
    "scatter": (lambda x, i: x.at[i].add(1.0), (X, INDICES)),
    "slices": (lambda x, i: lax.dynamic_update_slice(x, lax.dynamic_slice(x, i, (2, 2)), (0, 1)), (X, INDICES)),
    "sort": (lambda x: lax.sort((x, x + 1), num_keys=1), (X,)),
    "top_k": (lambda x: lax.top_k(x, 2), (X,)),
    "random": (lambda k: jax.random.normal(jax.random.wrap_key_data(k), (5,)), (np.zeros(2, np.uint32),)),
    "fft": (lambda x: jnp.fft.rfft(x), (X,)),
    "cholesky": (jnp.linalg.cholesky, (SQUARE,)),
    "solve": (jnp.linalg.solve, (SQUARE, X)),
    "singular_values": (jnp.linalg.svd, (SQUARE,)),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, y: y * 2 + i, x), (X,)),
    "branches": (lambda x, i: lax.switch(i[0], [jnp.sin, jnp.cos, lambda y: y], x), (X, INDICES)),
    "layout": (lambda x: (x.T, x.reshape(2, 6)[::-1], jnp.concatenate([x, x])), (X,)),
    "forwarded": (lambda x, i: (x, i + 1), (X, INDICES)),
}


def write(folder: Path) -> int:
    """Compiles every program and returns how many files there are."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    jobs = [(name, jax.jit(function), arguments) for name, (function, arguments) in PROGRAMS.items()]
    jobs.append(("donated", jax.jit(train, donate_argnums=0), (np.ones((4, 2), np.float32), X)))
    jobs.append(("masked", jax.jit(masked, donate_argnums=0), (X, X)))
    sram = SingleDeviceSharding(jax.devices("ipu")[0])
    host = sram.with_memory_kind("pinned_host")
    stack = np.ones((3, 4, 4), np.float32)
    jobs.append(("host_rows", jax.jit(from_host, in_shardings=(host, sram), out_shardings=(sram, host)), (stack, X)))
    jobs.append(("host_state", jax.jit(in_host, in_shardings=host, out_shardings=host, donate_argnums=0), (X,)))
    jobs.append(("states", jax.jit(lambda a, b: (b + 1, a * 2), donate_argnums=(0, 1)), (X, X)))
    for name, function, arguments in jobs:
        lowered = function.trace(*arguments).lower(lowering_platforms=("ipu",))
        text = str(lowered.compiler_ir("stablehlo")).encode()
        executable = compiler.compile(text, "mlir", b"", "ipu2:4")
        (folder / name).write_bytes(executable.serialize()[HEADER_BYTES:])
        names.append(name)
    mesh = AbstractMesh((2,), ("i",))
    whole = jax.ShapeDtypeStruct((2, 4), np.float32, sharding=NamedSharding(mesh, P("i")))
    program = program_of(jax.shard_map(halves, mesh=mesh, in_specs=P("i"), out_specs=P("i")), (whole,), {})
    executable = compiler.compile(program.mlir, "mlir", program.options, "ipu2:4")
    (folder / "collectives").write_bytes(executable.serialize()[HEADER_BYTES:])
    return len(names) + 1


if __name__ == "__main__":
    print(write(Path(sys.argv[1])), "seeds")
