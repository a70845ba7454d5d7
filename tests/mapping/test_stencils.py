"""Arrays that stencils read lie in blocks where these have fewer neighbours to receive than strips."""

import jax
import jax.numpy as jnp
import pytest

import jax_ipu
from jax_ipu import _ipu
from jax_ipu.compiler.lowering import stencils
from support.modes import array, check, forget_executables
from support.stages import lowered

MODES = pytest.mark.parametrize("mode", [("fast", 1472), ("tile", 1472), ("tile", 24)], ids=str)
INNER = slice(1, -1)


def loop(step, trips=3):
    return lambda x: jax.lax.fori_loop(0, trips, lambda i, s: step(s), x)


def padded(x):
    p = jnp.pad(x, 1)
    around = 0
    for d in range(x.ndim):
        for side in (slice(0, -2), slice(2, None)):
            around += p[(*[INNER] * d, side, *[INNER] * (x.ndim - d - 1))]
    return x + 0.1 * (around - 2 * x.ndim * x)


def inside(x):
    around = x[2:, INNER] + x[:-2, INNER] + x[INNER, 2:] + x[INNER, :-2]
    return x.at[INNER, INNER].add(0.1 * (around - 4 * x[INNER, INNER]))


def nine(x):
    p, (n, m) = jnp.pad(x, 1), x.shape
    return sum((1 + i) * p[i : i + n, j : j + m] for i in range(3) for j in range(3)) / 20


def rolled(x):
    around = jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1)
    return x + 0.1 * (around - 4 * x)


def extended(x):
    """The rows above and below come from elsewhere, as in a strip of several IPUs."""
    p = jnp.pad(jnp.concatenate([x[:1] * 2, x, jnp.sin(x[-1:])]), ((0, 0), (1, 1)))
    return x + 0.1 * (p[2:, INNER] + p[:-2, INNER] + p[INNER, 2:] + p[INNER, :-2] - 4 * x)


def along_rows(x):
    p = jnp.pad(x, ((0, 0), (1, 1)))
    return x + 0.1 * (p[:, 2:] + p[:, :-2] - 2 * x)


def line(x):
    p = jnp.pad(x, 1)
    return x + 0.1 * (p[2:] + p[:-2] - 2 * x)


def convolved(x):
    kernel = jnp.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]], x.dtype)[None, None]
    return x + 0.1 * jax.lax.conv_general_dilated(x[None, None], kernel, (1, 1), "SAME")[0, 0]


STENCILS = {"padded": padded, "inside": inside, "nine": nine, "rolled": rolled, "extended": extended}


@MODES
@pytest.mark.parametrize("step", STENCILS)
def test_values(step, mode):
    check(loop(STENCILS[step]), array(250, 210), mode=mode, rtol=1e-4, atol=1e-5)


@MODES
def test_values_of_other_shapes_and_types(mode):
    check(loop(padded), array(40, 31, 34), mode=mode, rtol=1e-4, atol=1e-5)
    check(loop(padded), array(250, 211, dtype="float16"), mode=mode, rtol=1e-2, atol=1e-2)
    check(padded, array(250, 210), mode=mode, rtol=1e-4, atol=1e-5)


def estimate(step, shape, dtype=jnp.float32):
    return jax_ipu.estimate(loop(step, 100), jax.ShapeDtypeStruct(shape, dtype), target="ipu2", donate_argnums=0)


@pytest.fixture
def in_strips(monkeypatch):
    """Estimates without the mapping in blocks."""

    def of(*args, **kwargs):
        with monkeypatch.context() as patch:
            patch.setattr(stencils, "settle", lambda mapping, *_: mapping.leave_out_stencils())
            return estimate(*args, **kwargs)

    yield of
    forget_executables()


@pytest.mark.parametrize("step", ["padded", "inside", "nine"])
def test_blocks_receive_less(step, in_strips):
    """In strips a tile receives two whole rows: 640 elements, and computes on 278."""
    blocks, strips = estimate(STENCILS[step], (640, 640)), in_strips(STENCILS[step], (640, 640))
    assert blocks.cycles < strips.cycles
    assert blocks.exchange_cycles < 0.6 * strips.exchange_cycles


@pytest.mark.parametrize(("step", "shape"), [(along_rows, (512, 512)), (line, (200000,)), (convolved, (256, 256))])
def test_others_stay_as_they_are(step, shape, in_strips):
    assert estimate(step, shape).cycles == in_strips(step, shape).cycles


def test_the_state_of_a_stencil_is_in_blocks():
    x = jax.ShapeDtypeStruct((640, 640), jnp.float32)
    program, made = lowered(str(jax.jit(loop(padded), donate_argnums=0).lower(x).compiler_ir()))
    (stencil,) = (s for s in program.mapping.stencils.values() if s.array.shape == (642, 642))
    assert stencil.parts is not None and min(stencil.parts) > 20
    states = [t for v, t in made.tensors.items() if v.shape == (642, 642)]
    held = {sum(map(bool, made.graph.get_tile_mapping(state))) for state in states}
    assert min(held) > 1400


def test_a_tensor_is_mapped_in_blocks():
    graph = _ipu.Graph(_ipu.Target("ipu2", 8))
    tensor = graph.add_variable("f32", (6, 8), "x")
    graph.map_in_blocks(tensor, (3, 2))
    tiles = graph.get_tile_mapping(tensor)
    assert tiles[0] == [(0, 4), (8, 12)] and tiles[3] == [(20, 24), (28, 32)] and not tiles[6]
    for parts in ((3, 3), (8,), (0, 2)):
        with pytest.raises(RuntimeError, match="blocks of a tensor"):
            graph.map_in_blocks(tensor, parts)
