"""Dynamic slices and updates whose window does not fit on a tile."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jax_ipu
from jax_ipu import compiler
from support.modes import array, check, each_mode, lower

SHAPES = [((40007,), (25001,)), ((3, 30001), (2, 29000)), ((200, 210), (190, 201)), ((50, 3, 2001), (50, 2, 2000))]
STARTS = [(0, 0, 0), (7, 1, 1), (4097, 1, 0), (-3, 5, 999), (15006, 0, 1001), (99999, 99999, 99999)]
shapes = pytest.mark.parametrize(("shape", "window"), SHAPES, ids=lambda s: "x".join(map(str, s)))


@each_mode
@shapes
def test_slice(shape, window, mode):
    x = array(*shape, dtype="int32")
    for start in STARTS[:: 1 if mode[1] == 8 else 3]:
        index = np.array(start[: len(shape)], np.int32)
        check(lambda x, i: lax.dynamic_slice(x, tuple(i), window), x, index, mode=mode)


@each_mode
@shapes
def test_update(shape, window, mode):
    x, u = array(*shape, dtype="int32"), array(*window, dtype="int32", seed=1)
    for start in STARTS[:: 1 if mode[1] == 8 else 3]:
        index = np.array(start[: len(shape)], np.int32)
        check(lambda x, u, i: lax.dynamic_update_slice(x, u, tuple(i)), x, u, index, mode=mode)


def test_long_lines_fit():
    x = jax.ShapeDtypeStruct((20_000_000,), jnp.float32)
    u = jax.ShapeDtypeStruct((10_000_000,), jnp.float32)
    i = jax.ShapeDtypeStruct((), jnp.int32)
    for function, arguments in (
        (lambda x, i: lax.dynamic_slice(x, (i,), u.shape), (x, i)),
        (lambda x, u, i: lax.dynamic_update_slice(x, u, (i,)), (x, u, i)),
    ):
        compiler.compile(lower(function, *arguments)[0], "mlir", b"", "ipu2:1472")


@each_mode
def test_vectors_that_fill_the_tiles_that_slice_them_are_spread(mode):
    """Each vector would be on one tile, where a slice needs no exchange, but all would be on the same tile."""

    def f(vectors, x):
        def step(i, vectors):
            return [lax.dynamic_update_slice(v, x + lax.dynamic_slice(v, (i,), (1,)), (i + 3,)) for v in vectors]

        return lax.fori_loop(0, x.astype(jnp.int32)[0], step, vectors)

    check(f, [array(30_000, seed=i) for i in range(8)], np.full(1, 7, np.float32), mode=mode)


@pytest.mark.parametrize("part", [2, 10])
@pytest.mark.parametrize("updates", [False, True], ids=["slice", "update"])
def test_cost_per_element_does_not_jump_with_the_size(part, updates):
    """Neither where a tile does not hold the operand any more, nor where a tile does not hold the window."""
    before = None
    for n in [10 ** (k // 2) * (3 if k % 2 else 1) for k in range(6, 15)] + [44_000_000, 52_000_000]:
        x, u = jax.ShapeDtypeStruct((n,), jnp.float32), jax.ShapeDtypeStruct((n // part,), jnp.float32)
        i = jax.ShapeDtypeStruct((), jnp.int32)
        if updates:
            update = jax.jit(lambda x, u, i: lax.dynamic_update_slice(x, u, (i,)), donate_argnums=0)
            estimate = jax_ipu.estimate(update, x, u, i)
        else:
            estimate = jax_ipu.estimate(lambda x, i, n=n // part: lax.dynamic_slice(x, (i,), (n,)), x, i)
        assert estimate.fits, n
        cost = estimate.cycles / n
        assert before is None or cost < 1.3 * before, (n, cost, before)
        before = cost


@pytest.mark.parametrize("updates", [False, True], ids=["slice", "update"])
def test_longer_windows_are_not_much_cheaper(updates):
    """A window is shifted over all tiles from where that takes fewer cycles than to copy it on one."""
    dearest = 0
    for n in (4_000, 6_000, 8_000, 12_000, 18_000, 24_000):
        x, u = jax.ShapeDtypeStruct((n,), jnp.float32), jax.ShapeDtypeStruct((n // 2,), jnp.float32)
        i = jax.ShapeDtypeStruct((), jnp.int32)
        if updates:
            cycles = jax_ipu.estimate(lambda x, u, i: lax.dynamic_update_slice(x, u, (i,)), x, u, i).cycles
        else:
            cycles = jax_ipu.estimate(lambda x, i, n=n // 2: lax.dynamic_slice(x, (i,), (n,)), x, i).cycles
        dearest = max(dearest, cycles)
        assert dearest < 2 * cycles, n
