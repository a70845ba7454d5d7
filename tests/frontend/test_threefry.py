"""JAX's random bits: the compiler sees one hash in whatever JAX lowers them to, and the bits are those of JAX's CPU."""

import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jax_ipu import _ipu, compiler
from jax_ipu.compiler.ir import Module
from jax_ipu.compiler.lowering import table
from jax_ipu.compiler.lowering.random import lower_threefry
from jax_ipu.debug import profile
from support.devices import compare
from support.modes import check, lower
from support.stages import mapped

KEY = np.array([7, 42], np.uint32)
KEYS = np.arange(10, dtype=np.uint32).reshape(5, 2) * np.uint32(2654435761)
SHAPES = [(), (1,), (0,), (3, 0), (5,), (1001,), (7, 3), (1, 1, 9), (2, 3, 5), (5000,)]
WIDTHS = ["uint8", "uint16", "uint32", "uint64"]

# Name -> function of a key that draws in one of JAX's ways, other than plain bits.
DRAWS = {
    "split": lambda k: jax.random.split(k, 3),
    "split of two dimensions": lambda k: jax.random.split(k, (2, 3)),
    "fold_in": lambda k: jax.random.fold_in(k, 7),
    "uniform": lambda k: jax.random.uniform(k, (33, 5)),
    "bernoulli": lambda k: jax.random.bernoulli(k, 0.3, (500,)),
    "randint": lambda k: jax.random.randint(k, (40,), -5, 9),
    "permutation": lambda k: jax.random.permutation(k, 100),
    "constant key": lambda k: jax.random.bits(jax.random.key(3), (9,)) + k[0],
    "in a loop": lambda k: jax.lax.fori_loop(
        0, 4, lambda i, x: x ^ jax.random.bits(jax.random.fold_in(k, i), (9,)), jnp.zeros(9, jnp.uint32)
    ),
    "several": lambda k: [jax.random.bits(s, (6,)) for s in jax.random.split(k, 3)],
}
each_setting = pytest.mark.parametrize("partitionable", [True, False], ids=["partitionable", "original"])


def hashes(module: Module) -> list:
    return [op for op in module.main.block.walk() if op.name == "ipu.threefry2x32"]


@each_setting
@pytest.mark.parametrize("mode", [("fast", 8), ("tile", 8)], ids=["fast", "tile"])
@pytest.mark.parametrize("width", WIDTHS)
def test_bits(width, mode, partitionable) -> None:
    def draw(key, keys):
        plain = [jax.random.bits(key, shape, width) for shape in SHAPES]
        return plain, [jax.vmap(lambda k, s=shape: jax.random.bits(k, s, width))(keys) for shape in SHAPES[3:7]]

    with jax.enable_x64(True), jax.threefry_partitionable(partitionable):
        check(draw, KEY, KEYS, mode=mode)


@each_setting
@pytest.mark.parametrize("mode", [("fast", 1472), ("tile", 8)], ids=["fast", "tile"])
def test_draws(mode, partitionable) -> None:
    with jax.threefry_partitionable(partitionable):
        check(lambda k: {name: draw(k) for name, draw in DRAWS.items()}, KEY, mode=mode)
        check(lambda ks: jax.vmap(lambda k: jax.random.split(k, 3))(ks), KEYS, mode=mode)


def test_one_hash_without_counters_in_memory() -> None:
    for width in WIDTHS:
        with jax.enable_x64(True):
            program, _ = lower(lambda k, width=width: jax.random.bits(k, (40, 30), width), KEY)
        module = mapped(program).module
        (op,) = hashes(module)
        assert op.attrs["counters"] == ((0, (0, 0)), (0, (30, 1))) and op.attrs["has_operand"] == (False, False)
        assert [r.dtype for r in op.results] == [width.replace("uint", "u")]
        assert {o.name for o in module.main.block.ops} <= {
            "constant", "slice", "reshape", "broadcast_in_dim", "ipu.threefry2x32", "return"
        }  # fmt: skip


def test_lowering_is_that_of_jax() -> None:
    """The ops that the plugin emits are those of JAX's own rule, which other platforms lower to."""
    from jax._src.interpreters import mlir
    from jax._src.random import threefry2x32

    draws = [lambda k: jax.random.bits(k, (5, 3)), jax.vmap(lambda k: jax.random.bits(k, (4,)))]
    rules = mlir._platform_specific_lowerings["ipu"]
    own = rules[threefry2x32.threefry2x32_p]
    for draw, argument in zip(draws, (KEY, KEYS), strict=True):
        one, _ = lower(draw, argument)
        try:
            del rules[threefry2x32.threefry2x32_p]
            other, _ = lower(lambda k, draw=draw: draw(k), argument)
        finally:
            rules[threefry2x32.threefry2x32_p] = own
        assert len(hashes(mapped(one).module)) == len(hashes(mapped(other).module)) == 1
        executables = [compiler.compile(p, "mlir", b"", "ipu2:8") for p in (one, other)]
        first, second = (_ipu.run(e, [argument.tobytes()], "fast") for e in executables)
        assert first == second


# Changes to the hash that make it another function.
OTHERS = {
    "rotation": ("dense<26> : tensor<ui32>", "dense<25> : tensor<ui32>"),
    "parity": ("dense<466688986> : tensor<ui32>", "dense<466688987> : tensor<ui32>"),
    "number of a group": ("dense<4> : tensor<ui32>", "dense<3> : tensor<ui32>"),
    "operator": ("stablehlo.xor %arg0, %arg1", "stablehlo.or %arg0, %arg1"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_hashes_stay(name) -> None:
    program, _ = lower(lambda k: jax.random.bits(k, (3,)), KEY)
    old, new = OTHERS[name]
    text = program.decode()
    assert old in text
    assert len(hashes(mapped(text).module)) == 1
    assert not hashes(mapped(text.replace(old, new)).module)


def test_sharded_draws(monkeypatch) -> None:
    drawn = []

    def record(context, op):
        drawn.append((op.attrs, [o.op.name for o in op.operands]))
        return lower_threefry(context, op)

    monkeypatch.setitem(table.LOWERINGS, "ipu.threefry2x32", record)

    def build(devices):
        mesh = Mesh(np.array(devices), ("x",))
        split, whole = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (("x",), ()))
        draw = jax.jit(
            lambda k: (jax.random.bits(k, (16, 6)), jax.random.bernoulli(k, 0.4, (64,)), jax.random.split(k, 8)),
            out_shardings=split,
        )
        return lambda key: draw(jax.device_put(key, whole))

    compare(build, KEY, rtol=0, atol=0)
    # The part of an IPU is one number, which is broadcast.
    assert len(drawn) >= 3
    for attrs, operands in drawn:
        assert attrs["has_operand"] == (False, True) and set(operands) == {"broadcast_in_dim"}


def test_shard_map_draws() -> None:
    def build(devices):
        mesh = Mesh(np.array(devices), ("x",))
        spec = PartitionSpec("x")
        draw = jax.shard_map(lambda k: jax.random.bits(k[0], (2, 5)), mesh=mesh, in_specs=spec, out_specs=spec)
        return lambda keys: jax.jit(draw)(jax.device_put(keys, NamedSharding(mesh, spec)))

    compare(build, KEYS[:4], rtol=0, atol=0)


def test_donated_key() -> None:
    def step(key):
        key, sub = jax.random.split(key)
        return key, jax.random.normal(sub, (10,))

    ipu, cpu = (jax.jit(step, donate_argnums=0, backend=platform) for platform in ("ipu", "cpu"))
    states = [jax.device_put(KEY, jax.devices(platform)[0]) for platform in ("ipu", "cpu")]
    for _ in range(3):
        (states[0], mine), (states[1], other) = ipu(states[0]), cpu(states[1])
        np.testing.assert_array_equal(states[0], states[1])
        np.testing.assert_allclose(mine, other, rtol=1e-5)


def test_exported_draw() -> None:
    exported = jax.export.export(jax.jit(lambda k: jax.random.bits(k, (9,))), platforms=("cpu", "ipu"))(KEY)
    again = jax.export.deserialize(exported.serialize())
    mine = jax.jit(again.call, backend="ipu")(KEY)
    np.testing.assert_array_equal(mine, jax.jit(again.call, backend="cpu")(KEY))


def test_exported_draw_of_symbolic_size() -> None:
    sizes = jax.export.symbolic_shape("n, 3")
    draw = jax.jit(lambda k, x: jax.random.bits(k, x.shape))
    spec = jax.ShapeDtypeStruct(sizes, np.float32)
    exported = jax.export.export(draw, platforms=("cpu", "ipu"))(KEY, spec)
    again = jax.export.deserialize(exported.serialize())
    x = np.zeros((7, 3), np.float32)
    mine = jax.jit(again.call, backend="ipu")(KEY, x)
    np.testing.assert_array_equal(mine, jax.jit(again.call, backend="cpu")(KEY, x))


def test_dropout_is_a_draw_and_a_map() -> None:
    def dropout(key, x):
        return jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x * 2, 0)

    x = np.ones((32, 4096), np.float32)
    module = mapped(lower(dropout, KEY, x)[0]).module
    assert [op.name for op in module.main.block.ops if op.name.startswith("ipu.")] == ["ipu.threefry2x32", "ipu.map"]
    operations = {row.operation: row.cycles for row in profile(dropout, KEY, x, file=io.StringIO())}
    assert operations["threefry2x32"] < 20_000
