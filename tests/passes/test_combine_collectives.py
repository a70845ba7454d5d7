"""Which all-reduces are combined into one collective."""

import re

import pytest

from jax_ipu import _ipu
from jax_ipu.compiler import api, ir
from jax_ipu.compiler.build import build
from jax_ipu.compiler.frontend.large_constants import LargeConstants
from jax_ipu.compiler.frontend.shown_program import shown_program
from jax_ipu.compiler.lowering.program import lower
from jax_ipu.compiler.passes import dce
from jax_ipu.compiler.passes.collectives import combine_collectives, sum_collectives
from jax_ipu.compiler.progress import Progress
from support.stages import imported, mapped

F = "tensor<4xf32>"


def replicated(body: str, signature: str) -> ir.Module:
    text = f"func.func @main{signature} {{\n{body}\n}}"
    module = imported(text)
    module.num_replicas = 4
    return module


def all_reduce(
    result: str, operand: str, combine: str = "add", dtype: str = "f32", shape: str = "4x", groups: str = "[0, 1, 2, 3]"
) -> str:
    rows = groups.count("], [") + 1
    size = (groups.count(",") + 1) // rows
    t, e = f"tensor<{shape}{dtype}>", f"tensor<{dtype}>"
    return f"""%{result} = "stablehlo.all_reduce"(%{operand})
      <{{replica_groups = dense<[{groups}]> : tensor<{rows}x{size}xi64>}}> ({{
      ^bb0(%l: {e}, %r: {e}):
        %c = stablehlo.{combine} %l, %r : {e}
        stablehlo.return %c : {e}
      }}) : ({t}) -> {t}
    """


def combined(body: str, signature: str) -> list[int]:
    """Returns the number of operands of every all-reduce."""
    module = replicated(body, signature)
    combine_collectives.run(module)
    seen = set(module.main.block.args)
    for op in module.main.block.ops:  # every value is defined before it is used
        assert seen.issuperset(op.operands)
        seen.update(op.results)
    counts = [len(op.operands) for op in module.main.block.ops if op.name == "all_reduce"]
    shown = imported(shown_program(module, LargeConstants()))
    assert counts == [len(op.operands) for op in shown.main.block.ops if op.name == "all_reduce"]
    return counts


BIG, HUGE = "262144x", "4194304x"
COMBINED = {
    "independent": (all_reduce("0", "a") + all_reduce("1", "b") + all_reduce("2", "a", shape="4x"), [3]),
    "dependent": (all_reduce("0", "a") + all_reduce("1", "0") + all_reduce("2", "1"), [1, 1, 1]),
    "used in between": (
        all_reduce("0", "a") + f"%s = stablehlo.sine %0 : {F}\n" + all_reduce("1", "b") + all_reduce("2", "s"),
        [2, 1],
    ),
    "other reductions": (all_reduce("0", "a") + all_reduce("1", "b", "maximum") + all_reduce("2", "b"), [1, 2]),
    "other types": (all_reduce("0", "a") + all_reduce("1", "i", dtype="i32", shape="") + all_reduce("2", "b"), [1, 2]),
    "other groups": (
        all_reduce("0", "a") + all_reduce("1", "b", groups="[0, 1], [2, 3]") + all_reduce("2", "b"),
        [1, 2],
    ),
    "a large one stays alone": (all_reduce("0", "a") + all_reduce("1", "x", shape=BIG) + all_reduce("2", "b"), [1, 2]),
    "large ones": (all_reduce("0", "x", shape=BIG) + all_reduce("1", "x", shape=BIG) + all_reduce("2", "b"), [3]),
    "large ones of pairs": (
        all_reduce("0", "x", shape=BIG, groups="[0, 1], [2, 3]")
        + all_reduce("1", "x", shape=BIG, groups="[0, 1], [2, 3]")
        + all_reduce("2", "x", shape=BIG, groups="[0, 1], [2, 3]"),
        [1, 1, 1],
    ),
    "too large together": (
        all_reduce("0", "h", shape=HUGE) + all_reduce("1", "h", shape=HUGE) + all_reduce("2", "b"),
        [1, 1, 1],
    ),
}


@pytest.mark.parametrize("name", COMBINED)
def test_all_reduces_are_combined(name: str) -> None:
    body, expected = COMBINED[name]
    last = re.search(r"%2 = .*-> (tensor<[^>]*>)\s*$", body, re.S)
    assert last
    signature = f"(%a: {F}, %b: {F}, %i: tensor<i32>, %x: tensor<{BIG}f32>, %h: tensor<{HUGE}f32>) -> {last.group(1)}"
    assert combined(f"{body}\nreturn %2 : {last.group(1)}", signature) == expected


def test_all_reduces_of_one_device_are_left_alone() -> None:
    module = replicated(
        all_reduce("0", "a") + all_reduce("1", "b") + f"return %0, %1 : {F}, {F}", f"(%a: {F}, %b: {F}) -> ({F}, {F})"
    )
    module.num_replicas = 1
    combine_collectives.run(module)
    assert [op.name for op in module.main.block.ops] == ["all_reduce", "all_reduce", "return"]


def test_a_program_that_does_not_fit_is_not_combined() -> None:
    count, n = 4, 450 * 256
    t = f"tensor<{n}xf32>"
    numbers = range(count)
    body = "".join(all_reduce(f"o{i}", f"x{i}", shape=f"{n}x") for i in numbers)
    body += "".join(f"%u{i} = stablehlo.subtract %x{i}, %o{i} : {t}\n" for i in numbers)
    arguments, types = ", ".join(f"%x{i}: {t}" for i in numbers), ", ".join([t] * count)
    text = f"""
module @m attributes {{mhlo.num_replicas = 4 : i32, mhlo.num_partitions = 1 : i32}} {{
  func.func @main({arguments}) -> ({types}) {{
    {body}
    return {", ".join(f"%u{i}" for i in numbers)} : {types}
  }}
}}""".encode()
    target = api.parse_target("ipu2:8")
    settings = api.compile_options(b"")
    with pytest.raises(_ipu.Error, match="memory"):
        before = mapped(text, settings)
        build(before, lower(before, target, settings, keep=False), _ipu.TilePlanCache(), Progress("m"))
    assert api.compile(text, "mlir", b"", "ipu2:8").fullest_tile_bytes < target.bytes_per_tile


ADD = f"%s = stablehlo.add %0, %1 : {F}\n"
SUMMED = {
    "two sums": (all_reduce("0", "a") + all_reduce("1", "b") + ADD, 1),
    "other groups": (all_reduce("0", "a") + all_reduce("1", "b", groups="[0, 1], [2, 3]") + ADD, 2),
    "another reduction": (all_reduce("0", "a") + all_reduce("1", "b", "maximum") + ADD, 2),
    "a second use": (all_reduce("0", "a") + all_reduce("1", "b") + ADD + f"%t = stablehlo.multiply %s, %0 : {F}\n", 2),
    "twice the same": (all_reduce("0", "a") + f"%s = stablehlo.add %0, %0 : {F}\n", 1),
}


@pytest.mark.parametrize("name", SUMMED)
def test_a_sum_of_two_is_all_reduced_once(name: str) -> None:
    body, count = SUMMED[name]
    last = "%t" if "%t" in body else "%s"
    module = replicated(body + f"return {last} : {F}", f"(%a: {F}, %b: {F}) -> {F}")
    sum_collectives.run(module)
    dce.run(module)
    ops = [op.name for op in module.main.block.ops]
    assert ops.count("all_reduce") == count
    if name == "two sums":
        assert ops == ["add", "all_reduce", "return"]
