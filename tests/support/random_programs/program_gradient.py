"""Gradients in random programs."""

from __future__ import annotations

from collections.abc import Callable

from support.programs import Drawer, Step, Unsuitable

# Linear functions of x whose gradient is taken. The value is the largest column sum of the magnitudes of the factors in
# the derivative, for dimensions of x of at most n.
LINEAR: dict[str, Callable[[int], float]] = {
    "lax.cumsum(x, 0)": lambda n: n,
    "lax.pad(x, jnp.zeros((), x.dtype), [(2, -1, 1)] * x.ndim)": lambda n: 1,
    "lax.dynamic_slice_in_dim(x, jnp.int32(2), 1, 0)": lambda n: 1,
    "lax.dynamic_update_slice_in_dim(x, x[:1], 1, 0)": lambda n: 2,
    "x[::-2]": lambda n: 1,
    "jnp.concatenate([x, x[1:]])": lambda n: 2,
    "jnp.broadcast_to(x, (3, *x.shape))": lambda n: 3,
    "x[np.array([0, -1, 0, 5])]": lambda n: 3,
    "x.at[np.array([0, -1, 0])].add(x[:1])": lambda n: 4,
    "lax.scan(lambda c, y: (c + y, c - y), x[0], x)": lambda n: 2 * n + 2,
    "lax.fori_loop(0, 3, lambda i, y: y + lax.rev(y, (0,)), x)": lambda n: 8,
    "lax.cond(x.size > 3, lambda y: y + y, lambda y: -y, x)": lambda n: 2,
    "lax.switch(jnp.argmax(x.reshape(-1)) % 3, [lambda y: y + y, lambda y: -y, lambda y: y[::-1]], x)": lambda n: 2,
    "lax.dot_general(x, lax.full((x.shape[0], 2), 1, x.dtype), (((0,), (0,)), ((), ())))": lambda n: 2,
    "lax.conv_general_dilated(x.reshape(1, 1, -1), jnp.ones((2, 1, 3), x.dtype), (2,), [(1, 2)], (2,))": lambda n: 6,
    "lax.reduce_window(x, 0.0, lax.add, (2,) * x.ndim, (1,) * x.ndim, 'SAME')": lambda n: 16,
    "jax.checkpoint(lambda y: y + y[::-1])(x)": lambda n: 2,
    "lax.sort(x, dimension=0)": lambda n: 1,
    "lax.select(x > 1, x, -x)": lambda n: 1,
    "lax.reduce_max(x, (0,))": lambda n: 1,
}


def gradient(d: Drawer) -> Step:
    v = d.value(("float32", "float64", "float16"), exact=True, finite=True, min_rank=1)
    w = d.value((v.dtype,))
    if 0 in v.shape or v.rank > 4:
        raise Unsuitable
    function = d.pick(tuple(LINEAR))
    terms = LINEAR[function](max(v.shape))
    back = f"(lambda y, vjp: vjp(jax.tree.map(lambda z: fit({w.name}, z.shape), y))[0])"
    text = f"{back}(*jax.vjp(lambda x: {function}, {v.name}))"
    return Step(text, w.bound * terms, w.error * terms, int(terms) + 1, inexact="max" in function)


OPERATIONS = (gradient,)
