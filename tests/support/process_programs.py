"""Programs over four devices that may belong to several processes, each as a function of the devices.

The tests run them over the IPUs of two processes, and compare with four CPU devices of one process.
"""

from __future__ import annotations

import threading

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def values(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def place(value, mesh, *spec):
    return jax.make_array_from_callback(value.shape, NamedSharding(mesh, P(*spec)), lambda index: value[index])


def flat(devices):
    return Mesh(np.array(devices), ("i",))


def square(devices):
    """The first axis runs across processes, the second one inside a process."""
    return Mesh(np.array(devices).reshape(2, 2), ("a", "b"))


ROWS = P("i")


def over(devices, function, value, mesh=None, spec=ROWS):
    mesh = mesh or flat(devices)
    mapped = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec))
    return mapped(place(value, mesh, *spec))


def psum_along_one_axis(axis):
    def run(devices):
        return over(devices, lambda v: v + lax.psum(v, axis), values(4, 6), square(devices), P("a", "b"))

    return run


def tensor_parallel_product(devices):
    mesh = square(devices)
    x, w = place(values(8, 12), mesh, "a", "b"), place(values(12, 6, seed=1), mesh, "b")
    return jax.jit(lambda x, w: jnp.tanh(x @ w))(x, w)


def resharding(devices):
    mesh = square(devices)
    to = NamedSharding(mesh, P("b", "a"))
    return jax.jit(lambda x: x * 2, out_shardings=to)(place(values(8, 12), mesh, "a", "b"))


def loop_with_a_trip_count_known_at_run_time(devices):
    return over(
        devices,
        lambda x: lax.while_loop(lambda v: lax.psum(v.sum(), "i") < 50, lambda v: v + 1, x),
        np.zeros((4, 3), np.float32),
    )


def reversed_mesh(devices):
    mesh = flat(devices[::-1])
    x = place(values(8, 3), mesh, "i")
    return jax.jit(lambda v: v - v.mean(0))(x)


def random_numbers(devices):
    mesh = flat(devices)
    draw = jax.jit(lambda: jax.random.normal(jax.random.key(3), (8, 5)), out_shardings=NamedSharding(mesh, P("i")))
    return draw()


def training_losses(devices):
    """Data-parallel training steps with donated weights: each process has its rows of the batch."""
    mesh = flat(devices)
    whole = NamedSharding(mesh, P())

    def loss_of(weights, x, y):
        hidden = jnp.tanh(x @ weights["first"])
        return jnp.mean((hidden @ weights["second"] - y) ** 2)

    @jax.jit(donate_argnums=0, out_shardings=(whole, whole))
    def step(weights, x, y):
        loss, gradient = jax.value_and_grad(loss_of)(weights, x, y)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradient), loss

    weights = {"first": place(values(20, 64), mesh), "second": place(values(64, 3, seed=1), mesh)}
    losses = []
    for number in range(5):
        x, y = values(16, 20, seed=10 + number), values(16, 3, seed=20 + number)
        weights, loss = step(weights, place(x, mesh, "i"), place(y, mesh, "i"))
        losses.append(loss)
    return jax.jit(lambda losses: jnp.stack(losses), out_shardings=whole)(losses)


def threads_over_disjoint_pairs(devices):
    """Two threads launch at once, each over one device of each process."""
    results = [None, None]

    def work(number):
        x = place(values(4, 300, seed=number), flat(devices[number::2]), "i")
        step = jax.jit(lambda v: v - v.mean())
        for _ in range(10):
            x = step(x)
        results[number] = x

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


PROGRAMS = {
    "psum": lambda d: over(d, lambda v: lax.psum(v, "i"), values(4, 700)),
    "psum of few elements": lambda d: over(d, lambda v: lax.psum(v, "i"), values(4, 3)),
    "psum float16": lambda d: over(d, lambda v: lax.psum(v, "i"), values(4, 9, dtype=np.float16)),
    "psum of int8": lambda d: over(d, lambda v: lax.psum(v, "i"), np.arange(4, dtype=np.int8)),
    "pmax": lambda d: over(d, lambda v: lax.pmax(v, "i"), values(4, 5)),
    "psum across processes": psum_along_one_axis("a"),
    "psum inside each process": psum_along_one_axis("b"),
    "all_gather": lambda d: over(d, lambda v: lax.all_gather(v, "i").reshape(1, -1), values(4, 500)),
    "psum_scatter": lambda d: over(d, lambda v: lax.psum_scatter(v, "i", tiled=True), values(16, 400)),
    "all_to_all": lambda d: over(d, lambda v: lax.all_to_all(v, "i", 0, 0, tiled=True), values(16, 400)),
    "ppermute": lambda d: over(d, lambda v: lax.ppermute(v, "i", [(0, 3), (1, 2), (2, 0)]), values(4, 600)),
    "axis_index": lambda d: over(d, lambda v: v + lax.axis_index("i"), values(4, 2)),
    "bool": lambda d: over(d, lambda v: lax.all_gather(~v, "i").reshape(1, -1), values(4, 3) > 0),
    "product": tensor_parallel_product,
    "resharding": resharding,
    "loop": loop_with_a_trip_count_known_at_run_time,
    "reversed mesh": reversed_mesh,
    "random numbers": random_numbers,
    "training": training_losses,
    "threads": threads_over_disjoint_pairs,
}


def shards(result):
    """Every shard of the arrays in this process: (index of the array, device's position in the mesh), values."""
    found = {}
    for number, array in enumerate(jax.tree.leaves(result)):
        places = {device: place for place, device in enumerate(array.sharding.mesh.devices.flat)}
        for shard in array.addressable_shards:
            found[f"{number}, {places[shard.device]}"] = np.asarray(shard.data).tolist()
    return found
