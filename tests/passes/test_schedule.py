"""Updates in place, and the order of operations: each pass alone on a small program."""

import pytest

from jax_ipu.compiler import ir, pipeline
from jax_ipu.compiler.passes import schedule
from jax_ipu.compiler.passes.state import inplace
from support.stages import F, module_of, names


def placed(body: str, signature: str, aliases: dict[int, int], read_only: frozenset[int] = frozenset()) -> ir.Block:
    module = module_of(body, signature)
    pipeline.rewrite(module)
    inplace.run(module, aliases, read_only)
    return module.main.block


def test_donated_update_is_written_over_its_argument() -> None:
    block = placed(f"%0 = stablehlo.add %a, %b : {F}\nreturn %0 : {F}", f"(%a: {F}, %b: {F}) -> {F}", {0: 0})
    assert block.ops[0].attrs["write_over"] == {0: block.args[0]}
    assert "through_copy" not in block.terminator.attrs


def test_donated_argument_that_is_read_later_is_not_written_early() -> None:
    block = placed(
        f"""%0 = stablehlo.add %a, %b : {F}
            %r = stablehlo.reverse %a, dims = [0] : {F}
            return %0, %r : {F}, {F}""",
        f"(%a: {F}, %b: {F}) -> ({F}, {F})",
        {0: 0},
    )
    assert all("write_over" not in op.attrs for op in block.ops)


def test_reading_another_view_prevents_writing_over() -> None:
    block = placed(
        f"""%r = stablehlo.reverse %a, dims = [0] : {F}
            %0 = stablehlo.add %a, %r : {F}
            return %0 : {F}""",
        f"(%a: {F}) -> {F}",
        {0: 0},
    )
    assert names(block) == ["reverse", "ipu.map", "ipu.store", "return"]
    assert "write_over" not in block.ops[1].attrs


def test_results_made_elsewhere_are_stored_when_the_argument_is_dead() -> None:
    body = """%zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.dot_general %a, %x, contracting_dims = [1] x [0]
        : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %1 = stablehlo.dot_general %b, %x, contracting_dims = [1] x [0]
        : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0, 1]
        : (tensor<8x8xf32>, tensor<f32>) -> tensor<f32>
      return %0, %1, %2 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<f32>"""
    signature = "(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>, %x: tensor<8x8xf32>)"
    block = placed(body, f"{signature} -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<f32>)", {0: 0, 1: 1})
    expected = ["constant", "dot_general", "ipu.store", "dot_general", "ipu.store", "reduce", "return"]
    assert names(block) == expected
    assert block.ops[2].attrs["write_over"] == {0: block.args[0]}
    assert "through_copy" not in block.terminator.attrs


def test_swapped_donated_arguments_go_through_copies() -> None:
    block = placed(f"return %b, %a : {F}, {F}", f"(%a: {F}, %b: {F}) -> ({F}, {F})", {0: 0, 1: 1})
    assert block.terminator.attrs["through_copy"] == {0, 1}


UPDATE = """%0 = stablehlo.dynamic_update_slice %a, %u, %i
              : (tensor<4xf32>, tensor<2xf32>, tensor<i32>) -> tensor<4xf32>"""


@pytest.mark.parametrize(
    ("results", "types", "read_only", "in_place"),
    [
        ("%0", F, (), True),
        ("%0, %a", f"{F}, {F}", (), False),  # the old value is still needed
        ("%0", F, (0,), False),  # the argument is not changed
    ],
)
def test_update_slice_in_place(results: str, types: str, read_only: tuple[int, ...], in_place: bool) -> None:
    block = placed(
        f"{UPDATE}\nreturn {results} : {types}",
        f"(%a: {F}, %u: tensor<2xf32>, %i: tensor<i32>) -> ({types})",
        {},
        frozenset(read_only),
    )
    assert bool(block.ops[0].attrs.get("in_place")) == in_place


@pytest.mark.parametrize(
    ("then", "written_over"),
    [
        (("%0",), True),
        (("%0", "%m"), False),  # the map's result is needed in addition to the updated one
        (("%0", "%a"), False),  # the argument is needed in addition to the updated one
    ],
)
def test_what_is_updated_into_a_result_is_written_over_its_argument(then: tuple[str, ...], written_over: bool) -> None:
    types = ", ".join(F for _ in then)
    block = placed(
        f"""%m = stablehlo.add %a, %b : {F}
            {UPDATE.replace("%a", "%m")}
            return {", ".join(then)} : {types}""",
        f"(%a: {F}, %b: {F}, %u: tensor<2xf32>, %i: tensor<i32>) -> ({types})",
        {0: 0},
    )
    assert block.ops[0].attrs.get("write_over") == ({0: block.args[0]} if written_over else None)
    assert bool(block.ops[1].attrs.get("in_place")) == ("%m" not in then)


def test_constants_are_never_updated_in_place() -> None:
    block = placed(
        f"""%a = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : {F}
            {UPDATE}
            return %0 : {F}""",
        f"(%u: tensor<2xf32>, %i: tensor<i32>) -> {F}",
        {},
    )
    assert "in_place" not in block.ops[1].attrs


def test_schedule_runs_updates_after_their_gradients() -> None:
    module = module_of(
        """%0 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0]
             : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
           %1 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1]
             : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
           %2 = stablehlo.subtract %a, %0 : tensor<8x8xf32>
           %3 = stablehlo.subtract %b, %1 : tensor<8x8xf32>
           return %2, %3 : tensor<8x8xf32>, tensor<8x8xf32>""",
        "(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>, %x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)",
    )
    pipeline.rewrite(module)
    assert names(module.main.block) == ["dot_general", "dot_general", "ipu.map", "ipu.map", "return"]
    schedule.run(module, {0: 0, 1: 1})
    assert names(module.main.block) == ["dot_general", "ipu.map", "dot_general", "ipu.map", "return"]


def test_schedule_makes_the_scalars_of_updates_early() -> None:
    """A rate that depends on the step comes last in the program, and is no reason to keep all gradients."""
    square = "tensor<8x8xf32>"
    module = module_of(
        f"""%0 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : ({square}, {square}) -> {square}
           %1 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : ({square}, {square}) -> {square}
           %rate = stablehlo.exponential %step : tensor<f32>
           %rates = stablehlo.broadcast_in_dim %rate, dims = [] : (tensor<f32>) -> {square}
           %2 = stablehlo.multiply %0, %rates : {square}
           %3 = stablehlo.multiply %1, %rates : {square}
           %4 = stablehlo.subtract %a, %2 : {square}
           %5 = stablehlo.subtract %b, %3 : {square}
           return %4, %5, %rate : {square}, {square}, tensor<f32>""",
        f"(%a: {square}, %b: {square}, %x: {square}, %step: tensor<f32>) -> ({square}, {square}, tensor<f32>)",
    )
    pipeline.rewrite(module)
    schedule.run(module, {0: 0, 1: 1})
    made = [name for name in names(module.main.block) if name != "broadcast_in_dim"]
    assert made == ["ipu.map", "dot_general", "ipu.map", "dot_general", "ipu.map", "return"]


def test_schedule_runs_an_update_when_the_old_parameter_has_been_read() -> None:
    """The gradient of the weights exists before the product that computes the gradient of the layer's input."""
    square = "tensor<8x8xf32>"
    module = module_of(
        f"""%0 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : ({square}, {square}) -> {square}
           %1 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [1] : ({square}, {square}) -> {square}
           %2 = stablehlo.dot_general %1, %x, contracting_dims = [1] x [1] : ({square}, {square}) -> {square}
           %3 = stablehlo.subtract %a, %0 : {square}
           return %3, %2 : {square}, {square}""",
        f"(%a: {square}, %x: {square}) -> ({square}, {square})",
    )
    pipeline.rewrite(module)
    schedule.run(module, {0: 0})
    assert names(module.main.block) == ["dot_general", "dot_general", "ipu.map", "dot_general", "return"]


def test_schedule_updates_a_loop_counter_when_its_value_has_been_read() -> None:
    """The counter is updated in place, with no copy in each trip."""
    module = module_of(
        f"""%limit = stablehlo.constant dense<9> : tensor<i32>
            %one = stablehlo.constant dense<1> : tensor<i32>
            %r:2 = stablehlo.while(%i = %one, %y = %x) : tensor<i32>, {F}
              cond {{
                %c = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
                stablehlo.return %c : tensor<i1>
              }} do {{
                %next = stablehlo.add %i, %one : tensor<i32>
                %f = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
                %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> {F}
                %z = stablehlo.multiply %y, %b : {F}
                stablehlo.return %next, %z : tensor<i32>, {F}
              }}
            return %r#1 : {F}""",
        f"(%x: {F}) -> {F}",
    )
    pipeline.rewrite(module)
    schedule.run(module, {})
    inplace.run(module, {}, frozenset())
    (loop,) = (op for op in module.main.block.ops if op.name == "ipu.repeat")
    updates = [op for op in loop.regions[0].ops if op.name == "ipu.map"]
    assert all(op.attrs.get("write_over") for op in updates)
    assert "ipu.store" not in names(loop.regions[0])


def test_schedule_makes_a_large_part_of_a_gradient_when_the_rest_exists() -> None:
    """Tied weights: one part of their gradient is ready at the start of the backward pass, the other one at its end."""
    table, narrow, small = "tensor<4096x128xf32>", "tensor<4096x8xf32>", "tensor<8x128xf32>"
    square = "tensor<128x128xf32>"
    module = module_of(
        f"""%0 = stablehlo.dot_general %s, %h, contracting_dims = [1] x [0] : ({narrow}, {small}) -> {table}
           %1 = stablehlo.dot_general %h, %w, contracting_dims = [1] x [1] : ({small}, {square}) -> {small}
           %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [1] : ({small}, {square}) -> {small}
           %3 = stablehlo.dot_general %s, %2, contracting_dims = [1] x [0] : ({narrow}, {small}) -> {table}
           %4 = stablehlo.add %0, %3 : {table}
           %5 = stablehlo.subtract %a, %4 : {table}
           return %5 : {table}""",
        f"(%a: {table}, %s: {narrow}, %h: {small}, %w: {square}) -> {table}",
    )
    pipeline.rewrite(module)
    schedule.run(module, {0: 0})
    products = [op.result.shape for op in module.main.block.ops if op.name == "dot_general"]
    assert products == [(8, 128), (8, 128), (4096, 128), (4096, 128)]
