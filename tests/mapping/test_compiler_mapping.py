"""The mappings of arguments and state: demands of products and lookups, partners, and the linear mode."""

import pytest

from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.mapping import MappingPlan
from jax_ipu.compiler.options import Options, compile_options
from jax_ipu.compiler.program_io import Signature
from jax_ipu.compiler.tile_map import Placement, tile_map
from support.stages import lowered, mapped

W = "tensor<96x64xf32>"
X = "tensor<32x96xf32>"
TARGET = "ipu2:64"


def planned(body: str, signature: str, mode: str = "demand") -> tuple[Signature, MappingPlan]:
    text = f"func.func @main{signature} {{\n{body}\n}}"
    program = mapped(text, Options(mode))
    return program.signature, program.mapping


def demand_of(io: Signature, plan: MappingPlan, argument: int) -> tuple[str, int] | None:
    demand = plan.demands.get(io.arguments[argument].value)
    return None if demand is None else (demand.op.name, demand.operand)


DOT = f"""%0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({X}, {W}) -> tensor<32x64xf32>
          return %0 : tensor<32x64xf32>"""


def test_operands_of_a_product_are_demanded() -> None:
    io, plan = planned(DOT, f"(%x: {X}, %w: {W}) -> tensor<32x64xf32>")
    assert demand_of(io, plan, 0) == ("dot_general", 0)
    assert demand_of(io, plan, 1) == ("dot_general", 1)


def test_linear_mode_demands_nothing() -> None:
    io, plan = planned(DOT, f"(%x: {X}, %w: {W}) -> tensor<32x64xf32>", "linear")
    assert demand_of(io, plan, 0) is None
    assert demand_of(io, plan, 1) is None


def test_products_mode_leaves_slices_out() -> None:
    body = f"""%0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({X}, {W}) -> tensor<32x64xf32>
               %1 = stablehlo.dynamic_slice %v, %i, sizes = [1] : (tensor<99xf32>, tensor<i32>) -> tensor<1xf32>
               return %0, %1 : tensor<32x64xf32>, tensor<1xf32>"""
    signature = f"(%x: {X}, %w: {W}, %v: tensor<99xf32>, %i: tensor<i32>) -> (tensor<32x64xf32>, tensor<1xf32>)"
    io, plan = planned(body, signature)
    assert demand_of(io, plan, 2) == ("dynamic_slice", 0) and plan.has_slices
    io, plan = planned(body, signature, "products")
    assert demand_of(io, plan, 1) == ("dot_general", 1)
    assert demand_of(io, plan, 2) is None and not plan.has_slices


def test_demand_travels_back_through_views_and_elementwise_ops() -> None:
    io, plan = planned(
        f"""%t = stablehlo.transpose %w, dims = [1, 0] : (tensor<64x96xf16>) -> tensor<96x64xf16>
            %c = stablehlo.convert %t : (tensor<96x64xf16>) -> {W}
            %0 = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : ({X}, {W}) -> tensor<32x64xf32>
            return %0 : tensor<32x64xf32>""",
        f"(%x: {X}, %w: tensor<64x96xf16>) -> tensor<32x64xf32>",
    )
    assert demand_of(io, plan, 1) == ("dot_general", 1)
    assert [view.name for view in plan.demands[io.arguments[1].value].path] == ["transpose"]


def test_demand_enters_loops() -> None:
    io, plan = planned(
        f"""%n = stablehlo.constant dense<0> : tensor<i32>
            %r:2 = stablehlo.while(%i = %n, %a = %w) : tensor<i32>, tensor<64x64xf32>
            cond {{ %c = stablehlo.constant dense<7> : tensor<i32>
                    %p = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
                    stablehlo.return %p : tensor<i1> }}
            do {{ %o = stablehlo.constant dense<1> : tensor<i32>
                  %j = stablehlo.add %i, %o : tensor<i32>
                  %d = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0]
                    : ({X.replace("96", "64")}, tensor<64x64xf32>) -> tensor<32x64xf32>
                  %g = stablehlo.dot_general %x, %d, contracting_dims = [0] x [0]
                    : ({X.replace("96", "64")}, tensor<32x64xf32>) -> tensor<64x64xf32>
                  %b = stablehlo.subtract %a, %g : tensor<64x64xf32>
                  stablehlo.return %j, %b : tensor<i32>, tensor<64x64xf32> }}
            return %r#1 : tensor<64x64xf32>""",
        f"(%x: {X.replace('96', '64')}, %w: tensor<64x64xf32>) -> tensor<64x64xf32>",
    )
    assert demand_of(io, plan, 1) == ("dot_general", 1)


MOMENTUM = f"""%y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({X}, {W}) -> tensor<32x64xf32>
    %g = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : ({X}, tensor<32x64xf32>) -> {W}
    %n = stablehlo.add %m, %g : {W}
    %v = stablehlo.subtract %w, %n : {W}
    return %v, %n : {W}, {W}"""
MOMENTUM_SIGNATURE = f"""(%w: {W} {{tf.aliasing_output = 0 : i32}}, %m: {W} {{tf.aliasing_output = 1 : i32}}, %x: {X})
    -> ({W}, {W})"""


def placements(body: str, signature: str) -> dict[str, Placement]:
    text = f"func.func @main{signature} {{\n{body}\n}}"
    return {p.name.split(" at ")[0]: p for p in tile_map(text.encode(), "mlir", b"", TARGET, 8)}


def test_momentum_and_gradient_live_where_the_weights_are() -> None:
    found = placements(MOMENTUM, MOMENTUM_SIGNATURE)
    weights, momentum = found["argument 0 (resident)"], found["argument 1 (resident)"]
    assert weights.tiles > 1
    assert weights[3:8] == momentum[3:8]
    text = f"func.func @main{MOMENTUM_SIGNATURE} {{\n{MOMENTUM}\n}}"
    everything = tile_map(text.encode(), "mlir", b"", TARGET, 8)
    gradients = [p for p in everything if p.name.startswith("dot_general") and p.shape == weights.shape]
    assert [g[3:8] for g in gradients] == [weights[3:8]]


def test_every_element_is_on_one_tile() -> None:
    for placement in placements(MOMENTUM, MOMENTUM_SIGNATURE).values():
        elements = 1
        for extent in placement.shape:
            elements *= extent
        assert placement.min_elements * placement.tiles <= elements <= placement.max_elements * placement.tiles


@pytest.mark.parametrize("donated", [False, True])
def test_a_streamed_argument_is_in_memory_in_the_order_of_its_array(donated: bool) -> None:
    body = f"""%t = stablehlo.transpose %w, dims = [1, 0] : (tensor<64x96xf32>) -> {W}
               %0 = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0] : ({X}, {W}) -> tensor<32x64xf32>
               return %0, %w : tensor<32x64xf32>, tensor<64x96xf32>"""
    alias = "{tf.aliasing_output = 1 : i32}" if donated else ""
    signature = f"(%x: {X}, %w: tensor<64x96xf32> {alias}) -> (tensor<32x64xf32>, tensor<64x96xf32>)"
    text = f"func.func @main{signature} {{\n{body}\n}}"
    program, graph = lowered(text, num_tiles=64)
    io, tensors = program.signature, graph.tensors
    # State that stays in SRAM has the order that its product wants.
    assert tensors[io.arguments[1].value].is_row_major == (not donated)


def test_tables_of_lookups_are_demanded() -> None:
    io, plan = planned(
        """%0 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
             collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
             slice_sizes = array<i64: 1, 16>}> : (tensor<1000x16xf32>, tensor<8x1xi32>) -> tensor<8x16xf32>
           return %0 : tensor<8x16xf32>""",
        "(%t: tensor<1000x16xf32>, %i: tensor<8x1xi32>) -> tensor<8x16xf32>",
    )
    assert demand_of(io, plan, 0) == ("gather", 0)
    assert demand_of(io, plan, 1) is None


def option(value: bytes) -> bytes:
    """A CompileOptionsProto with env_option_overrides {"ipu_mapping": value}, after a field of another kind."""
    override = b"\x0a" + bytes([len(value)]) + value
    entry = b"\x0a\x0bipu_mapping\x12" + bytes([len(override)]) + override
    return b"\x20\x01" + b"\x3a" + bytes([len(entry)]) + entry


def test_mapping_option() -> None:
    assert compile_options(b"").mapping == "demand"
    assert compile_options(option(b"linear")).mapping == "linear"
    with pytest.raises(CompileError, match="one of demand, apart, balanced, products, linear") as caught:
        compile_options(option(b"diagonal"))
    assert caught.value.code == INVALID_ARGUMENT
    with pytest.raises(CompileError, match="truncated"):
        compile_options(b"\x3a")


def test_small_states_follow_each_other_over_the_tiles() -> None:
    """States of one update start on the same tile, and so does what they are updated by."""
    vector = "tensor<96xf32>"
    arguments = ", ".join(f"%{name}: {vector} {{tf.aliasing_output = {i} : i32}}" for i, name in enumerate("abcd"))
    updates = "\n".join(
        f"%{name}1 = stablehlo.add %{name}, %{g} : {vector}" for name, g in zip("acd", "efg", strict=True)
    )
    io, plan = planned(
        f"""{updates}
            %b1 = stablehlo.multiply %a1, %b : {vector}
            return %a1, %b1, %c1, %d1 : {vector}, {vector}, {vector}, {vector}""",
        f"({arguments}, %e: {vector}, %f: {vector}, %g: {vector}) -> ({vector}, {vector}, {vector}, {vector})",
    )
    a, b, c, d, e, f, g = (plan.first_tiles.get(argument.value, 0) for argument in io.arguments)
    assert a == b == e and c == f and d == g
    assert sorted({a, c, d}) == [0, 4, 8]  # 384 bytes, 128 on a tile, from the first tile of a pair on


def test_a_tied_gradient_lies_where_the_table_does() -> None:
    """A lookup's gradient is added to that of a product with the same table, which is then updated."""
    table, rows, columns = "tensor<640x64xf32>", "tensor<32x64xf32>", "tensor<32x640xf32>"
    io, plan = planned(
        f"""%logits = stablehlo.dot_general %x, %t, contracting_dims = [1] x [1] : ({rows}, {table}) -> {columns}
            %1 = stablehlo.dot_general %logits, %x, contracting_dims = [0] x [0] : ({columns}, {rows}) -> {table}
            %2 = "stablehlo.scatter"(%1, %i, %x) ({{
            ^bb0(%a: tensor<f32>, %b: tensor<f32>):
              %sum = stablehlo.add %a, %b : tensor<f32>
              stablehlo.return %sum : tensor<f32>
            }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
                  scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}
              : ({table}, tensor<32x1xi32>, {rows}) -> {table}
            %3 = stablehlo.subtract %t, %2 : {table}
            return %3 : {table}""",
        f"(%t: {table} {{tf.aliasing_output = 0 : i32}}, %x: {rows}, %i: tensor<32x1xi32>) -> {table}",
    )
    argument = io.arguments[0].value
    products = {v.op.attrs.get("pass"): v for v in plan.demands if v.op is not None and v.op.name == "dot_general"}
    gradient = products["TRAINING_WU"]
    assert demand_of(io, plan, 0) == ("dot_general", 1)
    assert plan.partners[gradient] is argument and gradient.users[0].name == "scatter"


def tied(rows: int, lookups: int) -> str:
    """Sums of looked up rows of a table that a product reads, too."""
    table, index, found = "tensor<20000x512xf32>", f"tensor<{rows}x1xi32>", f"tensor<{rows}x512xf32>"
    scores = f"tensor<{rows}x20000xf32>"
    gathers = "".join(
        f"""%x{n} = "stablehlo.gather"(%t, %i{n}) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1],
            collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
            slice_sizes = array<i64: 1, 512>}}> : ({table}, {index}) -> {found}
        %s{n + 1} = stablehlo.add %s{n}, %x{n} : {found}
        """
        for n in range(lookups)
    )
    indices = ", ".join(f"%i{n}: {index}" for n in range(lookups))
    return f"""func.func @main(%t: {table}, %s0: {found}, {indices}) -> {scores} {{
        {gathers}%scores = stablehlo.dot_general %s{lookups}, %t, contracting_dims = [1] x [1]
            : ({found}, {table}) -> {scores}
        return %scores : {scores}
    }}"""


@pytest.mark.parametrize(
    ("rows", "lookups", "demand"),
    [(1, 1, "right side of dot_general"), (512, 1, "right side of dot_general"), (512, 2, "table of gather")],
)
def test_a_table_lies_as_the_dearer_of_product_and_lookup_demands(rows: int, lookups: int, demand: str) -> None:
    """One row costs little with any mapping, and one lookup of many is as well served by a copy of its own; the one
    copy that the product needs costs less than two lookups save."""
    program, _ = lowered(tied(rows, lookups))
    (table,) = [a for a in program.signature.arguments if a.value.shape[0] == 20000]
    assert program.mapping.reason(table.value).startswith(demand)
    assert program.mapping.has_slices == (lookups > 1)
