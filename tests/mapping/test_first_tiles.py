"""Where small values start: groups that are used together follow each other over the tiles."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_ipu
from jax_ipu.compiler.options import Options
from support.modes import array, close, each_mode, on_cpu, run_ipu
from support.stages import lowered, mapped

V = "tensor<256xf32>"
X = "tensor<64x256xf32>"


def starts(body: str, signature: str) -> list[int]:
    """The first tile of each argument."""
    program = mapped(f"func.func @main{signature} {{\n{body}\n}}", Options())
    return [program.mapping.first_tiles.get(argument.value, 0) for argument in program.signature.arguments]


@pytest.mark.parametrize(
    ("body", "together"),
    [
        # 1 KiB takes 8 tiles.
        (f"%a = stablehlo.sine %0 : {V}\n%b = stablehlo.sine %1 : {V}", {frozenset((0,)), frozenset((1,))}),
        (f"%a = stablehlo.add %0, %1 : {V}\n%b = stablehlo.sine %a : {V}", {frozenset((0, 1))}),
        (
            f"""%r = stablehlo.reshape %1 : ({V}) -> tensor<4x64xf32>
                %s = stablehlo.reshape %0 : ({V}) -> tensor<4x64xf32>
                %t = stablehlo.multiply %r, %s : tensor<4x64xf32>
                %a = stablehlo.reshape %t : (tensor<4x64xf32>) -> {V}
                %b = stablehlo.sine %1 : {V}""",
            {frozenset((0, 1))},
        ),
    ],
    ids=["apart", "read by one op", "through views"],
)
def test_values_of_one_op_start_on_one_tile(body: str, together: set[frozenset[int]]) -> None:
    found = starts(f"{body}\nreturn %a, %b : {V}, {V}", f"(%0: {V}, %1: {V}) -> ({V}, {V})")
    groups = [frozenset(i for i, _ in group) for _, group in itertools.groupby(enumerate(found), key=lambda p: p[1])]
    assert set(groups) == together


def test_what_a_product_places_stays() -> None:
    """A small product starts at tile 0, and so does the bias that is added to it."""
    found = starts(
        f"""%p = stablehlo.dot_general %1, %2, contracting_dims = [1] x [0]
              : (tensor<4x8xf32>, tensor<8x64xf32>) -> tensor<4x64xf32>
            %r = stablehlo.reshape %p : (tensor<4x64xf32>) -> {V}
            %a = stablehlo.add %0, %r : {V}
            return %a : {V}""",
        f"(%0: {V}, %1: tensor<4x8xf32>, %2: tensor<8x64xf32>) -> {V}",
    )
    assert found[0] == 0


def statistics(*xs: jax.Array) -> list[jax.Array]:
    """Means of columns, each of which depends on the one before."""
    found = [jnp.zeros(xs[0].shape[1])]
    for x in xs:
        mean = (x * (1 + found[-1].sum())).mean(0)
        found.append(mean + ((x - mean) ** 2).mean(0))
    return found[1:]


@each_mode
def test_values(mode) -> None:
    xs = [array(24, 40, seed=k) for k in range(3)]
    for result, expected in zip(run_ipu(statistics, xs, mode), on_cpu(statistics, xs), strict=True):
        close(result, np.asarray(expected))


def test_results_of_reductions_follow_each_other() -> None:
    x = jax.ShapeDtypeStruct((64, 256), jnp.float32)
    program, graph = lowered(str(jax.jit(statistics).lower(x, x, x).compiler_ir()))
    first = [
        next(i for i, tile in enumerate(graph.graph.get_tile_mapping(graph.tensors[value])) if tile)
        for value in program.module.main.block.results
    ]
    assert len(set(first)) == len(first)


def test_code_of_small_reductions_is_spread() -> None:
    def most_code(count: int) -> int:
        x = jax.ShapeDtypeStruct((2048, 256), jnp.float32)
        report = jax_ipu.report(statistics, *[x] * count, target="ipu2").as_dict()
        return max(report["memory"]["categories"]["code"]["rle"][::2])

    assert most_code(5) < 2 * most_code(1)
