"""Vertices of `jax_ipu.tile` for elementwise primitives have the cycles of the same operations elsewhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ipu import _ipu, estimate, tile
from jax_ipu.compiler.tile_calls import OPERATIONS
from jax_ipu.tile import lax as tile_lax
from jax_ipu.tile.expressions import ELEMENTWISE
from support.modes import array, check, each_mode

INTEGERS = {"and", "or", "xor", "not", "clz", "population_count"}
INTEGERS |= {"shift_left", "shift_right_arithmetic", "shift_right_logical"}
OWN_NAMES = {np.float32: "f32", np.float16: "f16", np.int32: "s32", bool: "pred"}


def vertex_cost(primitive, *operands, **attributes):
    """The one superstep of a primitive on one tile, with shapes (and dtypes) as operands."""

    def f(*arrays):
        return tile.tile_map(primitive, *(tile.tile_put_sharded(a, (0,)) for a in arrays), **attributes).array

    arrays = [jax.ShapeDtypeStruct((1, *shape), dtype) for shape, dtype in operands]
    report = estimate(f, *arrays, target="bow:1", donate_argnums=0 if operands else ())
    (operation,) = [o for o in report.operations if o.kind == "poplar::execute"]
    assert "cycles:" not in operation.codelets[0], operation.codelets
    return operation.compute_cycles


def operation_cost(op, dtypes, shapes, result):
    """The operation as the compiler has it for any program, on one tile."""
    graph, program = _ipu.Graph(_ipu.Target("bow", 1)), _ipu.Sequence("operation")
    tensors = [graph.add_variable(d, s, "x") for d, s in zip(dtypes, shapes, strict=True)]
    for tensor in tensors:
        graph.map_linearly(tensor)
    order = [0, 2, 1] if op == "select" else [*range(len(dtypes)), *[0] * (3 - len(dtypes))]
    library = int(op in ("sin", "cos", "tan"))  # the vertex calls the C library, as PopLibs' does
    expression = _ipu.Expression(
        dtypes, [], [(op, dtypes[0] if op != "select" else result, result, *order, library)], [len(dtypes)]
    )
    _ipu.map(graph, expression, [t.broadcast(1000 // t.num_elements, 0) for t in tensors], program, "operation")
    return _ipu.compile_graph(graph, [program], "operation").cost().compute_cycles


@pytest.mark.parametrize("name", sorted(n for n in ELEMENTWISE if tile_lax._OPERATIONS.get(n, n) in OPERATIONS))
def test_elementwise_primitives_cost_what_the_operations_do(name):
    primitive, op = getattr(jax.lax, f"{name}_p"), tile_lax._OPERATIONS.get(name, name)
    attributes = {"new_dtype": np.dtype(np.int32)} if name == "convert_element_type" else {}
    for dtype in (np.int32,) if name in INTEGERS else (np.float32, np.float16):
        dtypes = [bool, dtype, dtype] if op == "select" else [dtype] * OPERATIONS[op]
        result = bool if name in ("eq", "ne", "lt", "le", "gt", "ge", "is_finite") else dtype
        result = np.int32 if attributes else result
        cycles = vertex_cost(primitive, *(((1000,), d) for d in dtypes), **attributes)
        own = [OWN_NAMES[d] for d in dtypes]
        assert op not in ("sin", "cos") or dtype != np.float32 or cycles > 2_300 * 1_000
        assert cycles == operation_cost(op, own, [[1000]] * len(own), OWN_NAMES[result]), dtype


@pytest.mark.parametrize(
    ("name", "attributes", "op"),
    [
        ("round", {"rounding_method": jax.lax.RoundingMethod.TO_NEAREST_EVEN}, "round_nearest_even"),
        ("round", {"rounding_method": jax.lax.RoundingMethod.AWAY_FROM_ZERO}, "round_nearest_afz"),
        ("integer_pow", {"y": 2}, "square"),
        ("integer_pow", {"y": -1}, "inverse"),
    ],
)
def test_parameters_decide_the_operation(name, attributes, op):
    cycles = vertex_cost(getattr(jax.lax, f"{name}_p"), ((1000,), np.float32), **attributes)
    assert cycles == operation_cost(op, ["f32"], [[1000]], "f32")


def test_one_element_for_all_costs_what_a_scalar_does():
    cycles = vertex_cost(jax.lax.mul_p, ((1000,), np.float32), ((), np.float32))
    assert cycles == operation_cost("multiply", ["f32", "f32"], [[1000], [1]], "f32")
    assert cycles < vertex_cost(jax.lax.mul_p, ((1000,), np.float32), ((1000,), np.float32))


# Cycles on a Mk2 IPU by elements, less 45 for the counters around (tests of tessellate-ipu).
@pytest.mark.parametrize(("elements", "measured"), [(64, 330), (128, 422), (256, 620), (512, 998)])
def test_scaled_add_costs_what_was_measured(elements, measured):
    for primitive in (tile.scaled_add_p, tile.scaled_sub_p):
        vector = (elements,), np.float32
        cycles = vertex_cost(primitive, vector, vector, ((1,), np.float32))
        # The launch of a compute set between the counters is not the vertex's.
        assert measured - 90 < cycles < measured


def test_other_vertices():
    x = (1000,), np.float32
    in_place = vertex_cost(tile_lax.sqrt_inplace_p, x)
    assert in_place != vertex_cost(jax.lax.sqrt_p, x) and 0 < in_place < 10000
    fill = vertex_cost(tile_lax._fill_p((1000,), "float32"), tiles=(0,), value=1.0)
    assert fill == _ipu.fill_cycles(_ipu.Graph(_ipu.Target("bow", 1)), "f32", 1000) > 0


def test_cycles_of_a_vertex_come_before_those_of_its_operation():
    x = tile.ShapedArray((24,), "float32")
    assert tile.Vertex("V", ["x"], {"y": x}, operation="sqrt").configuration("v", (0,))["operation"] == "sqrt"
    text = (
        "#include <poplar/Vertex.hpp>\nclass Root : public poplar::MultiVertex {\n public:\n"
        "  poplar::Input<poplar::Vector<float>> x;\n  poplar::Output<poplar::Vector<float>> y;\n"
        "  bool compute(unsigned w) { for (unsigned i = w; i < 24; i += 6) y[i] = x[i]; return true; }\n};\n"
    )
    costs = []
    for i, cycles in enumerate((None, 1234)):
        primitive = tile.primitive_clone(jax.lax.sqrt_p, f"root_{i}")
        vertex = tile.Vertex(
            "Root", ["x"], {"y": x}, codelets=tile.Source("root", text), cycles=cycles, operation="sqrt"
        )
        tile.register_ipu_tile_primitive(primitive, lambda *_, vertex=vertex: vertex)
        costs.append(vertex_cost(primitive, ((24,), np.float32), accuracy=None))
    assert costs == [vertex_cost(jax.lax.sqrt_p, ((24,), np.float32)), 1234]


@pytest.mark.parametrize("operation", ["cosh", "add"])
def test_an_operation_that_the_model_lacks_or_of_other_operands(operation):
    x = tile.ShapedArray((4,), "float32")
    primitive = tile.primitive_clone(jax.lax.neg_p, f"wrong_{operation}")
    vertex = tile.Vertex("Root", ["x"], {"y": x}, operation=operation)
    tile.register_ipu_tile_primitive(primitive, lambda *_: vertex)
    with pytest.raises(Exception, match=operation):
        vertex_cost(primitive, ((4,), np.float32))


@each_mode
def test_values(mode):
    def f(x, y, flags):
        x, y, flags = (tile.tile_put_sharded(a, (2, 0, 5)) for a in (x, y, flags))
        scaled = tile.tile_map(tile.scaled_sub_p, x, y, tile.tile_fill((1,), 0.5, jnp.float32, (2, 0, 5)))
        chosen = tile.tile_map(jax.lax.select_n_p, flags, x, y)
        return scaled.array, chosen.array, tile.tile_map(jax.lax.ge_p, x, y).array

    check(f, array(3, 5), array(3, 5), array(3, 5) > 0, mode=mode)
