"""Scans of CHLO, forward and reverse, through each entry to the compiler, against loops in NumPy."""

import jax
import jax.extend
import numpy as np
import pytest
from jax._src.lib import _jax, xla_client
from jax.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import chlo
from jaxlib.mlir.dialects import stablehlo as hlo

from jax_ipu import _ipu, compiler
from jax_ipu.models import stablehlo

# Results of a step: the values at this position, then the values carried to the next one.
STEPS = {
    "sum": "%s = stablehlo.add %x0, %c0 : {t}\n    stablehlo.return %s, %s : {t}, {t}",
    # Not associative, and its value differs from the carried one.
    "affine": """%two = stablehlo.constant dense<2> : {t}
    %d = stablehlo.multiply %c0, %two : {t}
    %s = stablehlo.subtract %x0, %d : {t}
    stablehlo.return %d, %s : {t}, {t}""",
    # Two inputs and two carries; a step uses both.
    "pair": """%s = stablehlo.add %x0, %c1 : {t}
    %p = stablehlo.maximum %x1, %c0 : {t}
    stablehlo.return %p, %s, %s, %p : {t}, {t}, {t}, {t}""",
    "only_carried": "%s = stablehlo.add %x0, %c0 : {t}\n    stablehlo.return %s : {t}",
}
FUNCTIONS = {
    "sum": lambda x, c: ([x[0] + c[0]], [x[0] + c[0]]),
    "affine": lambda x, c: ([2 * c[0]], [x[0] - 2 * c[0]]),
    "pair": lambda x, c: ([np.maximum(x[1], c[0]), x[0] + c[1]], [x[0] + c[1], np.maximum(x[1], c[0])]),
    "only_carried": lambda x, c: ([], [x[0] + c[0]]),
}
INPUTS = {"sum": 1, "affine": 1, "pair": 2, "only_carried": 1}
OUTPUTS = {"sum": 1, "affine": 1, "pair": 2, "only_carried": 0}


def tensor(shape) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}i32>"


def program(step: str, shape, dim: int, reverse: bool) -> str:
    count, outputs = INPUTS[step], OUTPUTS[step]
    carried = tensor(shape[:dim] + shape[dim + 1 :])
    whole = tensor(shape)
    arguments = [f"%a{i}: {whole}" for i in range(count)] + [f"%b{i}: {carried}" for i in range(count)]
    results = ", ".join([whole] * outputs + [carried] * count)
    names = ", ".join(f"%r#{i}" for i in range(outputs + count)) if outputs + count > 1 else "%r"
    left = f"%r:{outputs + count}" if outputs + count > 1 else "%r"
    inputs, carries = (", ".join(f"%{n}{i}" for i in range(count)) for n in ("a", "b"))
    block = ", ".join(f"%{n}{i}: {carried}" for n in ("x", "c") for i in range(count))
    return f"""func.func @main({", ".join(arguments)}) -> ({results}) {{
  {left} = chlo.scan({inputs}) inits({carries}) dimension={dim} attributes {{is_reverse = {str(reverse).lower()}}} {{
  ^bb0({block}):
    {STEPS[step].format(t=carried)}
  }} : ({", ".join([whole] * count + [carried] * count)}) -> ({results})
  return {names} : {results}
}}"""


def arguments_of(step: str, shape, dim: int) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    carried = shape[:dim] + shape[dim + 1 :]
    return [generator.integers(-9, 9, s).astype(np.int32) for s in [shape] * INPUTS[step] + [carried] * INPUTS[step]]


def expected(step: str, arguments, dim: int, reverse: bool) -> list[np.ndarray]:
    count = INPUTS[step]
    inputs, carried = arguments[:count], list(arguments[count:])
    outputs = [np.zeros_like(inputs[0]) for _ in range(OUTPUTS[step])]
    length = inputs[0].shape[dim]
    for i in reversed(range(length)) if reverse else range(length):
        values, carried = FUNCTIONS[step]([x.take(i, dim) for x in inputs], carried)
        for output, value in zip(outputs, values, strict=True):
            np.moveaxis(output, dim, 0)[i] = value
    return [*outputs, *carried]


def check(results, step, arguments, dim, reverse):
    for got, want in zip(results, expected(step, arguments, dim, reverse), strict=True):
        np.testing.assert_array_equal(np.asarray(got).reshape(want.shape), want)


CASES = [
    *(("sum", (4,), 0), ("sum", (2, 3), 1), ("sum", (3, 2, 4), 1), ("affine", (5, 2), 0), ("pair", (6,), 0)),
    *(("pair", (2, 5, 3), 1), ("only_carried", (4, 3), 0), ("sum", (1, 3), 0)),
    *(("sum", (0,), 0), ("pair", (0, 3), 0), ("sum", (3, 0), 0)),
]


@pytest.mark.parametrize("mode", ["fast", "tile"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("step", "shape", "dim"), CASES)
def test_compiler(step, shape, dim, reverse, mode):
    executable = compiler.compile(program(step, shape, dim, reverse).encode(), "mlir", b"", "ipu2:8")
    arguments = arguments_of(step, shape, dim)
    results = _ipu.run(executable, [x.tobytes() for x in arguments], mode)
    check([np.frombuffer(r, np.int32) for r in results], step, arguments, dim, reverse)


@pytest.mark.parametrize("form", ["text", "bytes"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("step", "shape", "dim"), CASES)
def test_client(step, shape, dim, reverse, form):
    """jaxlib expands CHLO before the plugin gets the program."""
    device, text = jax.devices("ipu")[0], program(step, shape, dim, reverse)
    devices, options = _jax.DeviceList((device,)), xla_client.CompileOptions()
    loaded = device.client.compile_and_load(text if form == "text" else text.encode(), devices, options)
    arguments = arguments_of(step, shape, dim)
    results = loaded.execute_sharded(jax.device_put(arguments, device)).disassemble_into_single_device_arrays()
    check([parts[0] for parts in results], step, arguments, dim, reverse)


def reverse_sum(x, c):
    """A primitive with its own lowering, as a library may have."""
    primitive = jax.extend.core.Primitive("reverse_sum")
    primitive.multiple_results = True
    primitive.def_abstract_eval(lambda x, c: [x, c])

    def lower(ctx, x, c):
        true, zero = ir.BoolAttr.get(True), ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
        scan = chlo.ScanOp([x.type], [c.type], [x], [c], dimension=zero, is_reverse=true)
        block = scan.body.blocks.append(c.type, c.type)
        with ir.InsertionPoint(block):
            total = hlo.add(*block.arguments)
            hlo.return_([total, total])
        return scan.results

    mlir.register_lowering(primitive, lower)
    return primitive.bind(x, c)


@pytest.mark.parametrize("count", [1, 2])
def test_lowering_of_a_library(count):
    arguments = arguments_of("sum", (6, 4), 0)
    mesh = jax.make_mesh((count,), ("i",), devices=jax.devices("ipu")[:count], axis_types=(jax.sharding.AxisType.Auto,))
    shardings = [jax.NamedSharding(mesh, jax.P(None, "i")), jax.NamedSharding(mesh, jax.P("i"))]
    check(jax.jit(reverse_sum)(*jax.device_put(arguments, shardings)), "sum", arguments, 0, True)


@pytest.mark.parametrize("reverse", [False, True])
def test_stablehlo_model(reverse):
    arguments = arguments_of("pair", (2, 5, 3), 1)
    exported = stablehlo.exported_of(program("pair", (2, 5, 3), 1, reverse).encode())
    check(jax.jit(exported.call, backend="ipu")(*arguments), "pair", arguments, 1, reverse)
