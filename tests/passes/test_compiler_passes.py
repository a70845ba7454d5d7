"""The passes over the IR, one at a time, on programs that are small enough to read."""

import gc
from collections.abc import Sequence

import pytest

from jax_ipu.compiler import api, ir
from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.passes import cse, dce, loops
from jax_ipu.compiler.passes.arithmetic import fuse, hoist_broadcasts, simplify, sink_broadcasts
from jax_ipu.compiler.passes.expansions import canonicalize, expand, inline
from support.stages import F, module_of, names


def run(module: ir.Module, passes: Sequence) -> ir.Block:
    for p in passes:
        p.run(module)
    return module.main.block


def test_inline_nested_calls() -> None:
    module = module_of(
        f"%0 = call @f(%a) : ({F}) -> {F}\n%1 = call @f(%0) : ({F}) -> {F}\nreturn %1 : {F}",
        f"(%a: {F}) -> {F}",
        f"""func.func private @f(%a: {F}) -> {F} {{ %0 = call @g(%a) : ({F}) -> {F}
            %1 = stablehlo.sine %0 : {F}
            return %1 : {F} }}
            func.func private @g(%a: {F}) -> {F} {{ %0 = stablehlo.negate %a : {F}
            return %0 : {F} }}""",
    )
    block = run(module, [inline])
    assert names(block) == ["negate", "sine", "negate", "sine", "return"]
    assert block.ops[2].operands == block.ops[1].results
    assert list(module.functions) == ["main"]


def test_recursion_is_refused() -> None:
    module = module_of(
        f"%0 = call @f(%a) : ({F}) -> {F}\nreturn %0 : {F}",
        f"(%a: {F}) -> {F}",
        f"func.func private @f(%a: {F}) -> {F} {{ %0 = call @f(%a) : ({F}) -> {F}\n return %0 : {F} }}",
    )
    with pytest.raises(Exception, match="recursive"):
        inline.run(module)


def test_cse_merges_equal_ops_and_regions() -> None:
    reduce = """ = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0]
                 : (tensor<4xf32>, tensor<f32>) -> tensor<f32>"""
    module = module_of(
        f"""%z = stablehlo.constant dense<0.0> : tensor<f32>
            %0{reduce}
            %1{reduce}
            %2 = stablehlo.add %0, %1 : tensor<f32>
            return %2 : tensor<f32>""",
        f"(%a: {F}) -> tensor<f32>",
    )
    block = run(module, [cse])
    assert names(block) == ["constant", "reduce", "add", "return"]
    assert block.ops[2].operands == [block.ops[1].result] * 2


def test_dce_drops_loop_state_that_feeds_only_itself() -> None:
    module = module_of(
        f"""%0:2 = stablehlo.while(%x = %a, %y = %b) : {F}, tensor<i32>
            cond {{ %c = stablehlo.constant dense<5> : tensor<i32>
                    %p = stablehlo.compare LT, %y, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
                    stablehlo.return %p : tensor<i1> }}
            do {{ %d = stablehlo.constant dense<2> : tensor<i32>
                  %u = stablehlo.multiply %y, %d : tensor<i32>
                  %v = stablehlo.sine %x : {F}
                  stablehlo.return %v, %u : {F}, tensor<i32> }}
            return %0#1 : tensor<i32>""",
        f"(%a: {F}, %b: tensor<i32>) -> tensor<i32>",
    )
    block = run(module, [dce])
    loop = block.ops[0]
    assert len(loop.operands) == len(loop.results) == 1
    assert names(loop.regions[1]) == ["constant", "multiply", "return"]


def loop_text(start: int, limit: int, step: int, direction: str = "LT") -> str:
    return f"""%i = stablehlo.constant dense<{start}> : tensor<i32>
        %0:2 = stablehlo.while(%x = %i, %y = %a) : tensor<i32>, {F}
        cond {{ %c = stablehlo.constant dense<{limit}> : tensor<i32>
                %p = stablehlo.compare {direction}, %x, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
                stablehlo.return %p : tensor<i1> }}
        do {{ %s = stablehlo.constant dense<{step}> : tensor<i32>
              %u = stablehlo.add %x, %s : tensor<i32>
              %v = stablehlo.sine %y : {F}
              stablehlo.return %u, %v : tensor<i32>, {F} }}
        return %0#1 : {F}"""


@pytest.mark.parametrize(
    ("start", "limit", "step", "direction", "count"),
    [(0, 10, 1, "LT", 10), (0, 10, 3, "LT", 4), (5, 0, -1, "GT", 5), (0, 10, 1, "LE", 11), (0, 6, 2, "NE", 3)],
)
def test_counted_loops_become_repeat(start: int, limit: int, step: int, direction: str, count: int) -> None:
    block = run(module_of(loop_text(start, limit, step, direction), f"(%a: {F}) -> {F}"), [loops, dce])
    repeat = block.ops[0] if block.ops[0].name == "ipu.repeat" else block.ops[1]
    assert repeat.name == "ipu.repeat"
    assert repeat.attrs["count"] == count


@pytest.mark.parametrize(
    ("start", "limit", "step", "direction"),
    [(0, 10, -1, "LT"), (0, 2147483647, 2, "LT"), (0, 5, 2, "NE")],
)
def test_other_loops_stay(start: int, limit: int, step: int, direction: str) -> None:
    block = run(module_of(loop_text(start, limit, step, direction), f"(%a: {F}) -> {F}"), [loops])
    assert "while" in names(block)


def test_loops_that_never_run_vanish() -> None:
    block = run(module_of(loop_text(3, 3, 1), f"(%a: {F}) -> {F}"), [loops, dce])
    assert names(block) == ["return"]
    assert block.results == block.args


def test_invariant_state_is_captured() -> None:
    module = module_of(
        f"""%0:2 = stablehlo.while(%x = %a, %y = %b) : {F}, {F}
            cond {{ %p = stablehlo.compare LT, %q, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
                    stablehlo.return %p : tensor<i1> }}
            do {{ %v = stablehlo.add %x, %y : {F}
                  stablehlo.return %v, %y : {F}, {F} }}
            %1 = stablehlo.add %0#0, %0#1 : {F}
            return %1 : {F}""",
        f"(%a: {F}, %b: {F}, %q: tensor<f32>) -> {F}",
    )
    block = run(module, [loops])
    loop = block.ops[0]
    assert len(loop.operands) == 1
    assert loop.regions[1].ops[0].operands[1] is block.args[1]
    assert block.ops[1].operands == [loop.result, block.args[1]]


def simplified(body: str, signature: str) -> ir.Block:
    return run(module_of(body, signature), [canonicalize, simplify, dce])


def test_transpose_of_a_product_swaps_its_operands() -> None:
    block = simplified(
        """%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
             : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
           %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
           return %1 : tensor<4x2xf32>""",
        "(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<4x2xf32>",
    )
    assert names(block) == ["dot_general", "return"]
    assert block.ops[0].operands == block.args[::-1]
    assert block.ops[0].attrs["dot_dimension_numbers"]["lhs_contracting_dimensions"] == (0,)


def test_a_part_of_a_small_constant_that_is_repeated_is_a_constant() -> None:
    """As `jnp.polyval` under `jax.vmap` reads its coefficients."""
    block = simplified(
        """%0 = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
           %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<3xf32>) -> tensor<100x3xf32>
           %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<100x3xf32>) -> tensor<3x100xf32>
           %3 = stablehlo.slice %2 [1:2, 0:100] : (tensor<3x100xf32>) -> tensor<1x100xf32>
           %4 = stablehlo.add %a, %3 : tensor<1x100xf32>
           return %4 : tensor<1x100xf32>""",
        "(%a: tensor<1x100xf32>) -> tensor<1x100xf32>",
    )
    literal = splat_of(block.ops[-2].operands[1])
    assert literal is not None and literal.scalar() == 2


def test_sums_of_sums_merge() -> None:
    block = simplified(
        """%z = stablehlo.constant dense<0.0> : tensor<f32>
           %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1]
             : (tensor<2x3x5xf32>, tensor<f32>) -> tensor<2x5xf32>
           %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [1]
             : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
           return %1 : tensor<2xf32>""",
        "(%a: tensor<2x3x5xf32>) -> tensor<2xf32>",
    )
    assert names(block) == ["constant", "reduce", "return"]
    assert block.ops[1].attrs["dimensions"] == (1, 2)


def test_adding_zero_keeps_the_sign_of_zero() -> None:
    block = simplified(
        """%z = stablehlo.constant dense<0.0> : tensor<4xf32>
           %n = stablehlo.constant dense<-0.0> : tensor<4xf32>
           %0 = stablehlo.add %a, %z : tensor<4xf32>
           %1 = stablehlo.subtract %a, %z : tensor<4xf32>
           %2 = stablehlo.subtract %a, %n : tensor<4xf32>
           return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>""",
        f"(%a: {F}) -> ({F}, {F}, {F})",
    )
    # -0 + 0 = +0 and -0 - -0 = +0: only the subtraction of +0 is the identity.
    assert names(block) == ["constant", "constant", "add", "subtract", "return"]
    assert block.results[1] is block.args[0]


@pytest.mark.parametrize(
    ("a", "b", "quotient", "remainder"),
    [(7, 2, 3, 1), (-7, 2, -3, -1), (7, -2, -3, 1), (7, 0, -1, 7), (-(2**31), -1, -(2**31), 0), (0, -5, 0, 0)],
)
def test_integer_divisions_are_folded(a, b, quotient, remainder) -> None:
    block = simplified(
        f"""%a = stablehlo.constant dense<{a}> : tensor<i32>
            %b = stablehlo.constant dense<{b}> : tensor<i32>
            %0 = stablehlo.divide %a, %b : tensor<i32>
            %1 = stablehlo.remainder %a, %b : tensor<i32>
            return %0, %1 : tensor<i32>, tensor<i32>""",
        "() -> (tensor<i32>, tensor<i32>)",
    )
    found = [splat_of(value).scalar() for value in block.results]
    assert found == [quotient, remainder]


def test_bitcast_to_a_wider_type_takes_the_last_dimension_away() -> None:
    block = run(
        module_of(
            """%0 = stablehlo.bitcast_convert %a : (tensor<3x2xui16>) -> tensor<3xf32>
               return %0 : tensor<3xf32>""",
            "(%a: tensor<3x2xui16>) -> tensor<3xf32>",
        ),
        [expand],
    )
    assert block.results[0].shape == (3,)
    assert block.results[0].dtype == "f32"


def test_bitcast_between_widths() -> None:
    block = run(
        module_of(
            """%0 = stablehlo.bitcast_convert %a : (tensor<3xf32>) -> tensor<3x2xui16>
               return %0 : tensor<3x2xui16>""",
            "(%a: tensor<3xf32>) -> tensor<3x2xui16>",
        ),
        [expand],
    )
    assert "concatenate" in names(block)
    assert block.results[0].shape == (3, 2)
    assert block.results[0].dtype == "u16"


def fused(body: str, signature: str) -> ir.Block:
    return run(module_of(body, signature), [cse, simplify, dce, fuse, dce])


def broadcast(value: str, dims: str, small: str, large: str) -> str:
    return f"stablehlo.broadcast_in_dim %{value}, dims = [{dims}] : (tensor<{small}xf32>) -> tensor<{large}xf32>"


def test_equal_values_with_and_without_unit_dimensions_become_one() -> None:
    module = module_of(
        f"""%0 = stablehlo.constant dense<3.0> : {F}
            %1 = stablehlo.constant dense<3.0> : tensor<1x4xf32>
            %2 = stablehlo.multiply %a, %0 : {F}
            %3 = {broadcast("2", "1", "4", "8x4")}
            %4 = {broadcast("a", "1", "4", "1x4")}
            %5 = stablehlo.multiply %4, %1 : tensor<1x4xf32>
            %6 = {broadcast("5", "0, 1", "1x4", "8x4")}
            %7 = stablehlo.reshape %5 : (tensor<1x4xf32>) -> {F}
            return %3, %6, %7 : tensor<8x4xf32>, tensor<8x4xf32>, {F}""",
        f"(%a: {F}) -> (tensor<8x4xf32>, tensor<8x4xf32>, {F})",
    )
    block = run(module, [simplify, hoist_broadcasts, cse, dce])
    assert names(block) == ["constant", "multiply", "broadcast_in_dim", "return"]
    product, spread = block.ops[1].result, block.ops[2].result
    assert block.ops[-1].operands == [spread, spread, product]


def test_an_op_on_equal_broadcasts_is_computed_before_them() -> None:
    module = module_of(
        f"""%0 = {broadcast("a", "1", "4", "8x4")}
            %1 = {broadcast("b", "1", "4", "8x4")}
            %2 = {broadcast("b", "0", "4", "4x8")}
            %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
            %4 = stablehlo.add %0, %1 : tensor<8x4xf32>
            %5 = stablehlo.add %4, %3 : tensor<8x4xf32>
            return %5 : tensor<8x4xf32>""",
        f"(%a: {F}, %b: {F}) -> tensor<8x4xf32>",
    )
    block = run(module, [hoist_broadcasts, dce])
    sums = [op for op in block.ops if op.name == "add"]
    assert [op.result.shape for op in sums] == [(4,), (8, 4)]


@pytest.mark.parametrize(
    ("large", "also", "maps"),
    [
        ("8x4", "", 1),
        ("16384x4", "", 2),  # more work than a map of its own
        ("8x4", "%2", 2),  # a result, so computed in any case
    ],
)
def test_a_small_value_is_computed_in_the_map_that_uses_it(large: str, also: str, maps: int) -> None:
    results, types = (f", {also}", f", {F}") if also else ("", "")
    module = module_of(
        f"""%0 = stablehlo.constant dense<3.0> : {F}
            %1 = stablehlo.divide %a, %0 : {F}
            %2 = stablehlo.rsqrt %1 : {F}
            %3 = {broadcast("2", "1", "4", large)}
            %4 = stablehlo.multiply %x, %3 : tensor<{large}xf32>
            return %4{results} : tensor<{large}xf32>{types}""",
        f"(%a: {F}, %x: tensor<{large}xf32>) -> (tensor<{large}xf32>{types})",
    )
    block = run(module, [hoist_broadcasts, cse, sink_broadcasts, fuse, dce])
    assert names(block).count("ipu.map") == maps


@pytest.mark.parametrize(("then", "maps"), [("stablehlo.add %4, %x", 1), ("stablehlo.reverse %4, dims = [0]", 2)])
def test_a_scalar_is_computed_in_the_map_that_uses_it(then: str, maps: int) -> None:
    """Once for each vertex, whatever its size; a multiplication alone has a faster codelet than a map."""
    large = "tensor<16384x4xf32>"
    module = module_of(
        f"""%1 = stablehlo.multiply %s, %t : tensor<f32>
            %3 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> {large}
            %4 = stablehlo.multiply %x, %3 : {large}
            %5 = {then} : {large}
            return %5 : {large}""",
        f"(%s: tensor<f32>, %t: tensor<f32>, %x: {large}) -> {large}",
    )
    block = run(module, [hoist_broadcasts, cse, sink_broadcasts, fuse, dce])
    assert names(block).count("ipu.map") == maps


def test_fusion_of_a_chain_with_constants() -> None:
    block = fused(
        """%c = stablehlo.constant dense<2.0> : tensor<f32>
           %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<4xf32>
           %0 = stablehlo.multiply %a, %b : tensor<4xf32>
           %1 = stablehlo.add %0, %b : tensor<4xf32>
           return %1 : tensor<4xf32>""",
        f"(%a: {F}) -> {F}",
    )
    assert names(block) == ["ipu.map", "return"]
    program = block.ops[0].attrs["program"]
    assert [i[0] for i in program.code] == ["multiply", "add"]
    assert program.inputs == ["f32"]
    assert len(program.constants) == 1
    assert program.code == [("multiply", "f32", "f32", 0, 1, 0, 0), ("add", "f32", "f32", 2, 1, 0, 0)]
    assert program.outputs == [3]


def test_fusion_with_two_results() -> None:
    block = fused(
        f"""%0 = stablehlo.sine %a : {F}
            %1 = stablehlo.negate %0 : {F}
            return %0, %1 : {F}, {F}""",
        f"(%a: {F}) -> ({F}, {F})",
    )
    assert names(block) == ["ipu.map", "return"]
    assert block.ops[0].attrs["program"].outputs == [1, 2]
    assert block.results == block.ops[0].results


def test_fusion_does_not_cross_a_user_in_between() -> None:
    # The reduction needs the sine, the last addition needs the reduction.
    block = fused(
        """%z = stablehlo.constant dense<0.0> : tensor<f32>
           %0 = stablehlo.sine %a : tensor<4xf32>
           %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0]
             : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
           %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<4xf32>
           %3 = stablehlo.add %0, %2 : tensor<4xf32>
           return %3 : tensor<4xf32>""",
        f"(%a: {F}) -> {F}",
    )
    assert names(block) == ["constant", "ipu.map", "reduce", "broadcast_in_dim", "ipu.map", "return"]


def test_fusion_moves_an_op_up_to_its_group() -> None:
    # The comparison comes after the reduction in the program, but does not depend on it.
    block = fused(
        """%z = stablehlo.constant dense<0.0> : tensor<f32>
           %0 = stablehlo.sine %a : tensor<4xf32>
           %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0]
             : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
           %2 = stablehlo.compare GT, %0, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
           return %1, %2 : tensor<f32>, tensor<4xi1>""",
        f"(%a: {F}) -> (tensor<f32>, tensor<4xi1>)",
    )
    assert names(block) == ["constant", "ipu.map", "reduce", "return"]
    assert [r.dtype for r in block.ops[1].results] == ["f32", "pred"]


@pytest.mark.parametrize(
    "dtype, divisor, op",
    [("f32", "768.0", "multiply"), ("f16", "8.0", "multiply"), ("f16", "3.0", "divide"), ("f32", "1.0e30", "divide")],
)
def test_division_by_a_constant(dtype: str, divisor: str, op: str) -> None:
    """As XLA: a product with the reciprocal, in narrow types only where that is exact."""
    body = f"""%0 = stablehlo.constant dense<{divisor}> : tensor<4x{dtype}>
        %1 = stablehlo.divide %a, %0 : tensor<4x{dtype}>
        return %1 : tensor<4x{dtype}>"""
    block = run(module_of(body, f"(%a: tensor<4x{dtype}>) -> tensor<4x{dtype}>"), [simplify, dce])
    assert names(block) == ["constant", op, "return"]


@pytest.mark.parametrize("shape", ["4", "2x2"])
def test_product_with_a_mask_selects(shape: str) -> None:
    """As XLA, for which the gradient of a maximum of NaN and values that a mask hides rely on it."""
    body = f"""%0 = stablehlo.convert %p : (tensor<{shape}xi1>) -> tensor<{shape}xf32>
        %1 = stablehlo.reshape %0 : (tensor<{shape}xf32>) -> tensor<4xf32>
        %2 = stablehlo.multiply %1, %a : tensor<4xf32>
        return %2 : tensor<4xf32>"""
    block = run(module_of(body, f"(%p: tensor<{shape}xi1>, %a: {F}) -> {F}"), [simplify, dce])
    assert names(block) == (["constant"] if shape == "4" else ["reshape", "constant"]) + ["select", "return"]
    assert block.ops[-2].operands[1] is block.args[1]


def test_values_inside_merged_groups_are_no_inputs() -> None:
    """Two long chains that meet are one map, however many values each has inside."""
    chains = [
        f"%{name}{i + 1} = stablehlo.{op} %{f'{name}{i}' if i else 'a'}, %b : {F}"
        for name, op in (("m", "multiply"), ("s", "subtract"))
        for i in range(18)
    ]
    block = fused(
        "\n".join([*chains, f"%r = stablehlo.add %m18, %s18 : {F}", f"return %r : {F}"]), f"(%a: {F}, %b: {F}) -> {F}"
    )
    assert names(block) == ["ipu.map", "return"]


def test_fused_programs_are_bounded() -> None:
    chain = "\n".join(f"%{i + 1} = stablehlo.sine %{i} : {F}" for i in range(150))
    block = fused(f"%0 = stablehlo.negate %a : {F}\n{chain}\nreturn %150 : {F}", f"(%a: {F}) -> {F}")
    sizes = [len(op.attrs["program"].code) for op in block.ops[:-1]]
    assert sum(sizes) == 151
    assert max(sizes) <= fuse.MAX_INSTRUCTIONS


def test_a_compilation_leaves_nothing_to_the_collector() -> None:
    """Op and Value refer to each other; the memory of a large program must not wait for a garbage collection."""
    program = """
    func.func public @main(%x: tensor<4x4xf32>) -> tensor<4xf32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %y = call @double(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      %sum = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1]
        : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
      return %sum : tensor<4xf32>
    }
    func.func private @double(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %y = stablehlo.add %x, %x : tensor<4x4xf32>
      return %y : tensor<4x4xf32>
    }"""
    gc.collect()
    gc.disable()
    try:
        api.compile(program.encode(), "mlir", b"", "ipu2:16")
        left = [item for item in gc.get_objects() if isinstance(item, ir.Op | ir.Value)]
    finally:
        gc.enable()
    assert left == []


def test_dce_sink_is_no_work() -> None:
    body = """
      %y = stablehlo.add %x, %x : tensor<4xf32>
      stablehlo.custom_call @dce_sink(%y) {has_side_effect = true} : (tensor<4xf32>) -> ()
      return %x : tensor<4xf32>"""
    module = module_of(body, f"(%x: {F}) -> {F}")
    assert names(run(module, (canonicalize, dce))) == ["return"]
