"""Collectives between IPUs: values as on CPU devices."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax._src.lax import parallel
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from jax_ipu import _ipu, compiler
from jax_ipu.compiler import replica_groups
from support import replicas
from support.devices import compare
from support.modes import array, close


def pmap(function):
    return lambda devices: jax.pmap(function, axis_name="i", devices=devices)


def sums_in_a_branch(x, *sums):
    return lax.cond(lax.axis_index("i") > 1, lambda: sum(sums), lambda: x * 2)


COLLECTIVES = {
    "psum": lambda x: lax.psum(x, "i"),
    "pmax": lambda x: lax.pmax(x, "i"),
    "pmin": lambda x: lax.pmin(x, "i"),
    "pmean": lambda x: lax.pmean(x, "i"),
    "psum in groups": lambda x: lax.psum(x, "i", axis_index_groups=[[0, 2], [3, 1]]),
    "axis_index": lambda x: x + lax.axis_index("i"),
    "all_gather": lambda x: lax.all_gather(x, "i"),
    "all_gather tiled": lambda x: lax.all_gather(x, "i", axis=1, tiled=True),
    "all_gather in groups": lambda x: lax.all_gather(x, "i", axis_index_groups=[[0, 3], [1, 2]]),
    "all_to_all": lambda x: lax.all_to_all(x[:, :4], "i", 1, 0),
    "all_to_all tiled": lambda x: lax.all_to_all(x, "i", 0, 1, tiled=True),
    "psum_scatter": lambda x: lax.psum_scatter(x, "i", tiled=True),
    "psum_scatter columns": lambda x: lax.psum_scatter(x[:, :4], "i", scatter_dimension=1),
    "ppermute": lambda x: lax.ppermute(x, "i", [(0, 1), (1, 3), (3, 0)]),
    "shift": lambda x: lax.pshuffle(x, "i", [3, 0, 1, 2]),
    "in a loop": lambda x: lax.fori_loop(0, 3, lambda _, v: lax.psum(v, "i") * 0.1, x),
    "gradient": jax.grad(lambda x: jnp.sum(lax.psum(jnp.sin(x), "i") ** 2)),
    "sums in a branch that some take": lambda x: sums_in_a_branch(x, lax.psum(x, "i"), lax.psum(x * x, "i")),
    "sums of sums in a branch": lambda x: sums_in_a_branch(
        x, lax.psum(x, "i") + lax.psum(x * x, "i"), lax.psum(x + 1, "i"), lax.psum(jnp.sin(x), "i")
    ),
    "several": lambda x: [lax.psum(x * k, "i") for k in range(3)],
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collective(name):
    compare(pmap(COLLECTIVES[name]), array(4, 8, 5))


def test_collectives_over_different_axes_of_a_mesh():
    """JAX 0.12 gives them the same channel."""

    def f(devices):
        mesh, spec = Mesh(np.array(devices).reshape(2, 2), ("a", "b")), P("a", "b")

        def body(x):
            return lax.psum(x, "a"), lax.psum(x, "b"), lax.all_gather(x, "a", tiled=True), lax.pmax(x, ("a", "b"))

        return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=(spec,) * 4))

    compare(f, array(8, 6))


ASYNCHRONOUS = {
    "psum": lambda x: parallel.psum_start(x, "i"),
    "all_gather": lambda x: parallel.all_gather_start(x, "i", tiled=True),
    "psum_scatter": lambda x: parallel.psum_scatter_start(x, "i", scatter_dimension=0, tiled=True),
    "all_to_all": lambda x: parallel.all_to_all_start(x, "i", split_axis=0, concat_axis=0, tiled=True),
    "ppermute": lambda x: parallel.ppermute_start(x, "i", [(0, 1), (1, 0)]),
}


@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_asynchronous_collective(name):
    """Two collectives at once, with other work between their starts and ends."""

    def both(x):
        first, second = ASYNCHRONOUS[name](x), ASYNCHRONOUS[name](x * 2)
        other = jnp.sin(x)
        return second.done(), first.done(), other

    def build(devices):
        mesh = Mesh(np.array(devices), ("i",))
        return jax.jit(jax.shard_map(both, mesh=mesh, in_specs=P("i"), out_specs=P("i")))

    compare(build, array(8, 6), count=2)


ASYNCHRONOUS_PROGRAM = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %begun = "stablehlo.async_start"(%x) ({
  ^bb0(%part: tensor<4xf32>):
    %sum = "stablehlo.all_reduce"(%part) <{replica_groups = dense<[[0]]> : tensor<1x1xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    stablehlo.return %sum : tensor<4xf32>
  }) : (tensor<4xf32>) -> !stablehlo.future<tensor<4xf32>>
  %sine = stablehlo.sine %x : tensor<4xf32>
  %total = "stablehlo.async_done"(%begun) : (!stablehlo.future<tensor<4xf32>>) -> tensor<4xf32>
  %result = stablehlo.add %total, %sine : tensor<4xf32>
  return %result : tensor<4xf32>
}
"""


def test_asynchronous_collective_on_one_ipu():
    x = array(4)
    executable = compiler.compile(ASYNCHRONOUS_PROGRAM.encode(), "mlir", b"", "ipu2:8")
    (result,) = _ipu.run(executable, [x.tobytes()], "fast")
    np.testing.assert_allclose(np.frombuffer(result, np.float32), x + np.sin(x), rtol=1e-5)


def test_control_dependencies_change_no_values():
    def program(x):
        first, second = jnp.sin(x @ x), jnp.cos(x @ x)
        jax.ffi.ffi_call("control_dep", (), has_side_effect=True)(second, first)
        return first + second

    x = array(6, 6)
    actual = jax.jit(program, backend="ipu")(x)
    np.testing.assert_allclose(actual, np.sin(x @ x) + np.cos(x @ x), rtol=1e-4, atol=1e-5)


# Small tensors are gathered and reduced on every replica, large ones in parts; 3737 elements make uneven parts.
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2047,), (37, 101)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "bfloat16", "complex64"])
def test_reduction_of_every_size_and_type(shape, dtype):
    reduce = lax.pmax if dtype == "bool" else lax.psum
    rtol = 2e-2 if dtype == "bfloat16" else 1e-5
    compare(pmap(lambda x: reduce(x, "i")), array(4, *shape, dtype=dtype), rtol=rtol)


def test_sums_of_narrow_floats_do_not_round_on_the_way():
    x = np.array([256.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], jnp.bfloat16)
    devices = jax.devices("ipu")[:8]
    total = jax.pmap(lambda v: lax.psum(v, "i"), axis_name="i", devices=devices)(x)
    assert float(total[0]) == 264  # adding 1 at a time in bf16 would stay at 256


def test_any_body_of_a_reduction():
    """Products, and logical operations, through the public API."""

    def product(x):
        return lax.pmin(jnp.exp(lax.psum(jnp.log(x), "i")), "i")

    compare(pmap(product), array(4, 9, low=0.5, high=1.5))


@pytest.mark.parametrize("axes", ["a", "b", ("a", "b"), ("b", "a")], ids=str)
def test_axes_of_a_mesh(axes):
    def build(devices):
        mesh = Mesh(np.array(devices).reshape(2, 2), ("a", "b"))

        def local(x):
            index = lax.axis_index(axes)
            return lax.psum(x * (1 + index), axes), lax.all_gather(x, axes, tiled=True)

        spec = P("a", "b")
        return jax.jit(jax.shard_map(local, mesh=mesh, in_specs=spec, out_specs=(spec, spec), check_vma=False))

    compare(build, array(8, 6))


def test_reversed_devices_keep_their_positions():
    def build(devices):
        return jax.pmap(lambda x: x + lax.axis_index("i"), axis_name="i", devices=devices[::-1])

    compare(build, array(4, 3))


def reducer(body: str, dtype: str = "f32") -> str:
    return f"""({{
      ^bb0(%a: tensor<{dtype}>, %b: tensor<{dtype}>):
        {body}
        stablehlo.return %c : tensor<{dtype}>
    }})"""


def groups(*members: tuple[int, ...]) -> str:
    """Shorter groups are padded with -1."""
    size = max(map(len, members))
    rows = [[*g, *[-1] * (size - len(g))] for g in members]
    return f"replica_groups = dense<{rows}> : tensor<{len(rows)}x{size}xi64>"


def numbered(n: int) -> str:
    """`%x`: sin(i + 3 r) in replica r; `%y`: i - r."""
    return f"""%i = stablehlo.iota dim = 0 : tensor<{n}xf32>
    %rs = stablehlo.broadcast_in_dim %r, dims = [] : (tensor<f32>) -> tensor<{n}xf32>
    %three = stablehlo.constant dense<3.0> : tensor<{n}xf32>
    %m = stablehlo.multiply %rs, %three : tensor<{n}xf32>
    %s = stablehlo.add %i, %m : tensor<{n}xf32>
    %x = stablehlo.sine %s : tensor<{n}xf32>
    %y = stablehlo.subtract %i, %rs : tensor<{n}xf32>
    """


def numbers(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the values that numbered() computes, by replica."""
    i, r = np.arange(n, dtype=np.float32)[None], np.arange(4, dtype=np.float32)[:, None]
    return np.sin(i + 3 * r), i - r


def one(op: str, attributes: str, region: str = "", n: int = 8, result: int | None = None) -> str:
    out = f"tensor<{result or n}xf32>"
    call = f'%o = "stablehlo.{op}"(%x) <{{{attributes}}}> {region} : (tensor<{n}xf32>) -> {out}'
    return replicas.program(numbered(n) + call, ("%o", out))


def two(op: str, dialect: str, attributes: str, region: str = "", n: int = 8) -> str:
    t = f"tensor<{n}xf32>"
    call = f'%o:2 = "{dialect}.{op}"(%x, %y) <{{{attributes}}}> {region} : ({t}, {t}) -> ({t}, {t})'
    return replicas.program(numbered(n) + call, ("%o#0", t), ("%o#1", t))


SUM = reducer("%c = stablehlo.add %a, %b : tensor<f32>")
MAXIMUM = reducer("%c = stablehlo.maximum %b, %a : tensor<f32>")
PROGRAMS = {
    # The regular groups are those of GCL; the others are not.
    "sum in groups of neighbours": one("all_reduce", groups((0, 1), (2, 3)), SUM),
    "maximum in groups with a stride": one("all_reduce", groups((0, 2), (1, 3)), MAXIMUM),
    "sum in other groups": one("all_reduce", groups((0, 3), (2, 1)), SUM),
    "sum in groups of different sizes": one("all_reduce", groups((0, 1, 2), (3,)), SUM),
    "maximum in groups of different sizes": one("all_reduce", groups((3,), (1,), (2, 0)), MAXIMUM),
    "large sum in groups of different sizes": one("all_reduce", groups((1, 0, 3), (2,)), SUM, n=20_001),
    "large sum": one("all_reduce", groups((0, 1, 2, 3)), SUM, n=50_001),
    "reduce_scatter in groups of neighbours": one(
        "reduce_scatter", f"scatter_dimension = 0 : i64, {groups((0, 1), (2, 3))}", SUM, result=4
    ),
    "reduce_scatter in the other order": one(
        "reduce_scatter", f"scatter_dimension = 0 : i64, {groups((1, 0), (2, 3))}", SUM, result=4
    ),
    "all_gather with a stride": one("all_gather", f"all_gather_dim = 0 : i64, {groups((0, 2), (1, 3))}", result=16),
    "several sums": two("all_reduce", "stablehlo", groups((0, 1, 2, 3)), SUM),
    "several sums in groups of different sizes": two("all_reduce", "stablehlo", groups((0, 1, 2), (3,)), SUM),
    # XLA's own form: operand p goes to member p.
    "tuple all_to_all": two("all_to_all", "mhlo", groups((0, 1), (2, 3))),
    "tuple all_to_all in the other order": two("all_to_all", "mhlo", groups((3, 0), (2, 1))),
}


@pytest.mark.parametrize("mode", [("fast", 8), ("tile", 8), ("codelets", 8)], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_against_cpu_in_every_mode(name, mode):
    expected = replicas.run_cpu(PROGRAMS[name])
    for mine, others in zip(replicas.run_ipu(PROGRAMS[name], mode), expected, strict=True):
        for a, e in zip(mine, others, strict=True):
            close(a, e)


# By the public API, in a process of its own: JAX_IPU_MODEL_EXECUTION is read once.
AS_CODELETS = """
import jax, jax.numpy as jnp, numpy as np
from jax import lax
devices = jax.devices("ipu")[:4]
pairs = [(0, 1), (1, 3), (3, 0)]
for dtype in ("float32", "float16", "bfloat16", "int32", "uint8", "complex64", "bool"):
    x = (np.arange(4 * 8 * 5).reshape(4, 8, 5) % 7 - 2).astype(jnp.dtype(dtype))
    run = jax.pmap(lambda v: (lax.all_gather(v, "i"), lax.all_to_all(v, "i", 0, 1, tiled=True),
                              lax.ppermute(v, "i", pairs)), axis_name="i", devices=devices)
    gathered, exchanged, moved = map(np.asarray, run(x))
    zeros = np.zeros_like(x[0])
    np.testing.assert_array_equal(moved, np.stack([x[3], x[0], zeros, x[1]]))
    for r in range(4):
        np.testing.assert_array_equal(gathered[r], x)
        np.testing.assert_array_equal(exchanged[r], np.concatenate([p[2 * r : 2 * r + 2] for p in x], 1))
    if dtype != "bool":
        total = jax.pmap(lambda v: lax.psum(v, "i"), axis_name="i", devices=devices)(x)
        np.testing.assert_array_equal(np.asarray(total[2]), x.sum(0, dtype=x.dtype))
print("equal")
"""


def test_types_as_codelets(tmp_path):
    environment = {**os.environ, "JAX_IPU_MODEL_EXECUTION": "codelets", "JAX_IPU_MODEL_NUM_TILES": "8"}
    done = subprocess.run(
        [sys.executable, "-c", AS_CODELETS], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "equal\n", done.stderr


def permute(values: np.ndarray, members: list[tuple[int, ...]]) -> np.ndarray:
    """all_to_all of every replica's row by its definition: part p goes to member p; parts are in members' order."""
    out = np.empty_like(values)
    for group in members:
        parts = [np.split(values[m], len(group)) for m in group]
        for p, m in enumerate(group):
            out[m] = np.concatenate([parts[q][p] for q in range(len(group))])
    return out


X, Y = numbers(8)
SPLIT = "split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64"
# Collectives that XLA:CPU does not run, or not as StableHLO defines them: results by replica.
BY_DEFINITION = {
    "collective_broadcast": (one("collective_broadcast", groups((0, 1), (2, 3))), [X[[0, 0, 2, 2]]]),
    "collective_broadcast from the second": (one("collective_broadcast", groups((3, 0), (1, 2))), [X[[3, 1, 1, 3]]]),
    "collective_broadcast to some": (
        one("collective_broadcast", groups((2, 0))),
        [X[[2, 0, 2, 0]] * [[1], [0], [1], [0]]],
    ),
    "all_to_all of several": (
        two("all_to_all", "stablehlo", f"{SPLIT}, {groups((0, 1), (2, 3))}"),
        [permute(v, [(0, 1), (2, 3)]) for v in (X, Y)],
    ),
    "all_to_all of several in other groups": (
        two("all_to_all", "stablehlo", f"{SPLIT}, {groups((3, 0), (2, 1))}"),
        [permute(v, [(3, 0), (2, 1)]) for v in (X, Y)],
    ),
    # x + y - x y, which is not an operator of GCL.
    "any body": (
        one(
            "all_reduce",
            groups((0, 1, 2, 3)),
            reducer(
                "%p = stablehlo.multiply %a, %b : tensor<f32>\n        %q = stablehlo.add %a, %b : tensor<f32>\n"
                "        %c = stablehlo.subtract %q, %p : tensor<f32>"
            ),
        ),
        [np.broadcast_to(1 - np.prod(1 - X, axis=0), X.shape)],
    ),
}


@pytest.mark.parametrize("mode", [("fast", 8), ("tile", 8)], ids=str)
@pytest.mark.parametrize("name", BY_DEFINITION)
def test_by_definition_in_both_modes(name, mode):
    text, expected = BY_DEFINITION[name]
    for r, results in enumerate(replicas.run_ipu(text, mode)):
        for a, e in zip(results, expected, strict=True):
            close(a, e[r].astype(np.float32))


def test_replicas_of_a_partitioned_program():
    """A collective without a channel is between replicas; each partition has one replica here."""
    text = PROGRAMS["large sum"].replace("num_replicas = 4", "num_replicas = 1")
    text = text.replace("num_partitions = 1", "num_partitions = 2").replace(
        "[[0, 1, 2, 3]]> : tensor<1x4", "[[0]]> : tensor<1x1"
    )
    executable = compiler.compile(text.encode(), "mlir", b"", "ipu2:8")
    x = np.sin(np.arange(50_001, dtype=np.float32))
    for (result,) in _ipu.run_replicas(executable, [[], []], "fast"):
        close(np.frombuffer(result, np.float32), x)


def test_with_all_tiles():
    for name in ("large sum in groups of different sizes", "sum in groups of neighbours"):
        expected = replicas.run_cpu(PROGRAMS[name])
        for mode in (("fast", 1472), ("tile", 1472)):
            for mine, others in zip(replicas.run_ipu(PROGRAMS[name], mode), expected, strict=True):
                close(mine[0], others[0])


REGULAR = {
    ((0, 1, 2, 3, 4, 5, 6, 7),): ("ALL", 0, 1),
    ((0, 1), (2, 3), (4, 5), (6, 7)): ("CONSECUTIVE", 2, 1),
    ((4, 5, 6, 7), (0, 1, 2, 3)): ("CONSECUTIVE", 4, 1),
    ((0, 2), (1, 3), (4, 6), (5, 7)): ("CONSECUTIVE", 2, 2),
    ((0, 2, 4, 6), (1, 3, 5, 7)): ("ORTHOGONAL", 4, 1),
    ((0, 4), (1, 5), (2, 6), (3, 7)): ("ORTHOGONAL", 2, 1),
    tuple((i,) for i in range(8)): ("CONSECUTIVE", 1, 1),
    ((7, 6, 5, 4, 3, 2, 1, 0),): None,
    ((0, 1), (2, 3)): None,
    ((0, 1), (2, 3), (4, 5), (7, 6)): None,
    ((0, 1, 2), (3, 4, 5)): None,
    ((0, 3), (1, 2), (4, 7), (5, 6)): None,
    ((0, 1, 4, 5), (2, 3, 6, 7)): None,
    ((0, 1, 2, 3, 4, 5, 6), (7,)): None,
}


@pytest.mark.parametrize("members", REGULAR, ids=str)
def test_which_groups_are_those_of_gcl(members):
    assert replica_groups.regular([list(group) for group in members], 8) == REGULAR[members]


def test_groups_of_different_sizes_that_make_different_shapes_are_refused_with_the_line():
    program = one("all_gather", f"all_gather_dim = 0 : i64, {groups((0, 1, 2), (3,))}", result=24)
    with pytest.raises(compiler.CompileError, match=r"replica id -1|different sizes"):
        compiler.compile(program.encode(), "mlir", b"", "ipu2:8")


def cycles_of_sum(n: int, count: int) -> int:
    t = f"tensor<{n}xf32>"
    members = groups(tuple(range(count)))
    text = f"""
module @m attributes {{mhlo.num_replicas = {count} : i32, mhlo.num_partitions = 1 : i32}} {{
  func.func @main(%x: {t}) -> {t} {{
    %o = "stablehlo.all_reduce"(%x) <{{{members}}}> {SUM} : ({t}) -> {t}
    return %o : {t}
  }}
}}"""
    return compiler.compile(text.encode(), "mlir", b"", "ipu2").cycles


def test_cycles_grow_with_bytes_and_with_ipus():
    sizes = (64, 4096, 262_144, 4_194_304)
    cycles = {count: [cycles_of_sum(n, count) for n in sizes] for count in (2, 4, 8, 16)}
    for row in cycles.values():
        assert row == sorted(row)
    for position in range(len(sizes)):
        assert cycles[4][position] < cycles[8][position] < cycles[16][position]
    # Reduce-scatter and all-gather each send (n - 1) / n of the tensor, half in each direction, over two links to each
    # neighbour: 27.2 GB/s at 1.325 GHz. Two IPUs have one connection only.
    sent = 4 * sizes[-1] / 27.2e9 * 1.325e9
    for count, row in cycles.items():
        ideal = sent * (1 if count == 2 else (count - 1) / count)
        assert ideal < row[-1] < 1.1 * ideal
