"""Ops that JAX does not emit, as StableHLO text: against XLA:CPU, or NumPy if XLA:CPU lacks the op."""

import jax
import numpy as np
import pytest
from jax._src.lib import _jax, xla_client

from jax_ipu import _ipu, compiler
from support.modes import close

MODES = ["fast", "tile"]
FEATURES = """
  %i = stablehlo.iota dim = 2 : tensor<4x3x5xf32>
  %s = stablehlo.sine %i : tensor<4x3x5xf32>
  %j = stablehlo.iota dim = 1 : tensor<4x3x5xf32>
  %x = stablehlo.multiply %j, %s : tensor<4x3x5xf32>
  %offset = stablehlo.iota dim = 0 : tensor<3xf32>
  %c = stablehlo.constant dense<1.5> : tensor<3xf32>
  %scale = stablehlo.add %offset, %c : tensor<3xf32>"""
GROUP = "replica_groups = dense<0> : tensor<1x1xi64>"
SUM = """({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  })"""


def main(body: str, *results: tuple[str, str]) -> str:
    """A module whose main returns values of types."""
    types = ", ".join(t for _, t in results)
    return f"func.func @main() -> ({types}) {{{body}\n  return {', '.join(v for v, _ in results)} : {types}\n}}"


def batch_norm(name: str, operands: str, types: str, results: list[str]) -> str:
    attributes = "{epsilon = 0.1 : f32, feature_index = 1 : i64}"
    left = f"%r:{len(results)}" if len(results) > 1 else "%r"
    body = f'{FEATURES}\n  {left} = "stablehlo.{name}"({operands}) {attributes} : ({types}) -> ({", ".join(results)})'
    names = [f"%r#{i}" for i in range(len(results))] if len(results) > 1 else ["%r"]
    return main(body, *zip(names, results, strict=True))


def einsum(config: str, a: str, b: str, result: str) -> str:
    types = f"(tensor<{a}xf32>, tensor<{b}xf32>) -> tensor<{result}xf32>"
    body = f"""
  %a = stablehlo.iota dim = 0 : tensor<{a}xf32>
  %b = stablehlo.iota dim = 1 : tensor<{b}xf32>
  %r = "stablehlo.einsum"(%a, %b) {{einsum_config = "{config}"}} : {types}"""
    return main(body, ("%r", f"tensor<{result}xf32>"))


def bitcast(source: str, target: str) -> str:
    """From small integers converted to the source's type."""
    shape = source.rpartition("x")[0]
    body = f"""
  %i = stablehlo.iota dim = 0 : tensor<{shape}xi32>
  %c = stablehlo.convert %i : (tensor<{shape}xi32>) -> tensor<{source}>
  %r = stablehlo.bitcast_convert %c : (tensor<{source}>) -> tensor<{target}>"""
    return main(body, ("%r", f"tensor<{target}>"))


def collective(op: str, attributes: str, region: str = "") -> str:
    body = f"""
  %x = stablehlo.iota dim = 0 : tensor<4x2xf32>
  %r = "stablehlo.{op}"(%x) {region} {{{attributes}}} : (tensor<4x2xf32>) -> tensor<4x2xf32>"""
    return main(body, ("%r", "tensor<4x2xf32>"))


def select(index: str, shape: str, batch_dims: int) -> str:
    types = f"(tensor<4x3x5xi32>, tensor<{shape}xi32>) -> tensor<4x2x5xi32>"
    body = f"""
  %x = stablehlo.iota dim = 1 : tensor<4x3x5xi32>
  %i = stablehlo.constant dense<{index}> : tensor<{shape}xi32>
  %r = "stablehlo.torch_index_select"(%x, %i) {{dim = 1 : i64, batch_dims = {batch_dims} : i64}} : {types}"""
    return main(body, ("%r", "tensor<4x2x5xi32>"))


X, V = "tensor<4x3x5xf32>", "tensor<3xf32>"
PROGRAMS = {
    "batch_norm_training": batch_norm("batch_norm_training", "%x, %scale, %offset", f"{X}, {V}, {V}", [X, V, V]),
    "batch_norm_inference": batch_norm(
        "batch_norm_inference", "%x, %scale, %offset, %offset, %scale", f"{X}, {V}, {V}, {V}, {V}", [X]
    ),
    "batch_norm_grad": batch_norm(
        "batch_norm_grad", "%x, %scale, %offset, %scale, %s", f"{X}, {V}, {V}, {V}, {X}", [X, V, V]
    ),
    "einsum_matrix": einsum("ab,bc->ac", "2x3", "3x4", "2x4"),
    "einsum_transposed": einsum("ab,bc->ca", "2x3", "3x4", "4x2"),
    "einsum_batch": einsum("bij,bjk->bik", "2x3x4", "2x4x5", "2x3x5"),
    "einsum_sum": einsum("abc,cd->ad", "2x3x4", "4x5", "2x5"),
    "einsum_outer": einsum("ab,cd->abcd", "2x3", "4x5", "2x3x4x5"),
    "torch_index_select": select("[2, 0]", "2", 0),
    "torch_index_select_batch": select("[[2, 0], [1, 1], [0, 2], [1, 0]]", "4x2", 1),
    "bitcast_i8_i4": bitcast("3xi8", "3x2xi4"),
    "bitcast_i4_i8": bitcast("3x2xi4", "3xi8"),
    "bitcast_ui32_i2": bitcast("3xui32", "3x16xi2"),
    "bitcast_i2_ui32": bitcast("3x16xi2", "3xui32"),
    "bitcast_f32_i4": bitcast("2xf32", "2x8xi4"),
    "bitcast_f64_ui16": bitcast("2xf64", "2x4xui16"),
    "bitcast_f8_i4": bitcast("3xf8E4M3FN", "3x2xi4"),
    "all_reduce": collective("all_reduce", GROUP, SUM),
    "all_gather": collective("all_gather", f"all_gather_dim = 0 : i64, {GROUP}"),
    "all_to_all": collective(
        "all_to_all", f"split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 1 : i64, {GROUP}"
    ),
    "collective_permute": collective("collective_permute", "source_target_pairs = dense<0> : tensor<1x2xi64>"),
    "collective_permute_nothing": collective("collective_permute", "source_target_pairs = dense<> : tensor<0x2xi64>"),
    "cross_replica_sum": collective("cross-replica-sum", GROUP),
    "reduce_scatter": collective("reduce_scatter", f"scatter_dimension = 0 : i64, {GROUP}", SUM),
    "ids": main(
        "\n  %p = stablehlo.partition_id : tensor<ui32>\n  %r = stablehlo.replica_id : tensor<ui32>",
        ("%p", "tensor<ui32>"),
        ("%r", "tensor<ui32>"),
    ),
    "tokens": main(
        """
  %0 = stablehlo.create_token : !stablehlo.token
  %1 = stablehlo.after_all %0, %0 : !stablehlo.token
  %x = stablehlo.constant dense<2.0> : tensor<2xf32>
  %2:2 = stablehlo.optimization_barrier %x, %1 : tensor<2xf32>, !stablehlo.token""",
        ("%2#0", "tensor<2xf32>"),
    ),
    "nested_tuples": main(
        """
  %x = stablehlo.constant dense<2.0> : tensor<2xf32>
  %t = stablehlo.tuple %x : tuple<tensor<2xf32>>
  %u = stablehlo.tuple %t, %x : tuple<tuple<tensor<2xf32>>, tensor<2xf32>>
  %v = stablehlo.get_tuple_element %u[0] : (tuple<tuple<tensor<2xf32>>, tensor<2xf32>>) -> tuple<tensor<2xf32>>
  %r = stablehlo.get_tuple_element %v[0] : (tuple<tensor<2xf32>>) -> tensor<2xf32>""",
        ("%r", "tensor<2xf32>"),
    ),
}


def quantized(kind: str) -> str:
    """-1000, -3 and 1000 in both rows of a quantised type, and back."""
    body = f"""
  %x = stablehlo.constant dense<[[-1000.0, -3.0, 1000.0], [-1000.0, -3.0, 1000.0]]> : tensor<2x3xf32>
  %q = stablehlo.uniform_quantize %x : (tensor<2x3xf32>) -> tensor<2x3x!quant.uniform<{kind}>>
  %r = stablehlo.uniform_dequantize %q : (tensor<2x3x!quant.uniform<{kind}>>) -> tensor<2x3xf32>"""
    return main(body, ("%r", "tensor<2x3xf32>"))


# Program and expected result, for ops that XLA:CPU lacks or accepts only in serialised programs.
QUANTIZED = "!quant.uniform<i8:f32, 0.5:-20>"
OWN = {
    "dynamic_shapes": (
        main(
            """
  %n = stablehlo.constant dense<[2, 3]> : tensor<2xi64>
  %i = stablehlo.dynamic_iota %n, dim = 1 : (tensor<2xi64>) -> tensor<?x?xi32>
  %m = stablehlo.constant dense<[3, 2]> : tensor<2xi64>
  %d = stablehlo.dynamic_reshape %i, %m : (tensor<?x?xi32>, tensor<2xi64>) -> tensor<?x?xi32>
  %size = stablehlo.get_dimension_size %d, dim = 0 : (tensor<?x?xi32>) -> tensor<i32>
  %k = stablehlo.constant dense<[4, 3, 2]> : tensor<3xi64>
  %b = stablehlo.dynamic_broadcast_in_dim %d, %k, dims = [1, 2] : (tensor<?x?xi32>, tensor<3xi64>) -> tensor<4x3x2xi32>
  %c = stablehlo.broadcast_in_dim %size, dims = [] : (tensor<i32>) -> tensor<4x3x2xi32>
  %r = stablehlo.add %b, %c : tensor<4x3x2xi32>""",
            ("%r", "tensor<4x3x2xi32>"),
        ),
        np.tile(np.array([[0, 1], [2, 0], [1, 2]], np.int32) + 3, (4, 1, 1)),
    ),
    "unary_einsum": (
        main(
            """
  %x = stablehlo.iota dim = 0 : tensor<2x3xf32>
  %r = "stablehlo.unary_einsum"(%x) {einsum_config = "ab->ba"} : (tensor<2x3xf32>) -> tensor<3x2xf32>""",
            ("%r", "tensor<3x2xf32>"),
        ),
        np.tile(np.arange(2, dtype=np.float32), (3, 1)),
    ),
    "collective_broadcast": (
        collective("collective_broadcast", GROUP),
        np.repeat(np.arange(4, dtype=np.float32), 2).reshape(4, 2),
    ),
    "real_dynamic_slice": (
        main(
            """
  %x = stablehlo.iota dim = 0 : tensor<9xi32>
  %0 = stablehlo.constant dense<[2, 3, 4, 1]> : tensor<4xi32>
  %start = stablehlo.slice %0 [3:4] : (tensor<4xi32>) -> tensor<1xi32>
  %limit = stablehlo.constant dense<7> : tensor<1xi32>
  %step = stablehlo.constant dense<2> : tensor<1xi32>
  %r = stablehlo.real_dynamic_slice %x, %start, %limit, %step :
    (tensor<9xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<3xi32>""",
            ("%r", "tensor<3xi32>"),
        ),
        np.array([1, 3, 5], np.int32),
    ),
    "complex_maximum": (
        main(
            """
  %x = stablehlo.constant dense<[(1.0, 2.0), (1.0, -2.0), (-3.0, 9.0)]> : tensor<3xcomplex<f32>>
  %y = stablehlo.constant dense<[(1.0, 3.0), (0.5, 7.0), (-4.0, 9.0)]> : tensor<3xcomplex<f32>>
  %r = stablehlo.maximum %x, %y : tensor<3xcomplex<f32>>""",
            ("%r", "tensor<3xcomplex<f32>>"),
        ),
        np.array([1 + 3j, 1 - 2j, -3 + 9j], np.complex64),
    ),
    "denormal_ceil": (
        main(
            """
  %x = stablehlo.constant dense<[1.0e-40, -1.0e-40, 0.0]> : tensor<3xf32>
  %c = stablehlo.ceil %x : tensor<3xf32>
  %f = stablehlo.floor %x : tensor<3xf32>
  %r = stablehlo.subtract %c, %f : tensor<3xf32>""",
            ("%r", "tensor<3xf32>"),
        ),
        np.zeros(3, np.float32),
    ),
    "quantized_to_unsigned": (
        quantized("u8:f32, 2.0:5"),
        np.array([[-10, -2, 500]] * 2, np.float32),
    ),
    "quantized_to_4_unsigned_bits": (quantized("u4:f32, 1.0:5"), np.array([[-5, -3, 10]] * 2, np.float32)),
    "quantized_to_a_range": (quantized("u4<1:13>:f32, 1.0:5"), np.array([[-4, -3, 8]] * 2, np.float32)),
    "quantized_by_row": (
        quantized("i8:f32:0, {1.0:5, 2.0:0}"),
        np.array([[-133, -3, 122], [-256, -4, 254]], np.float32),
    ),
    # Every bit of NaN in f16.
    "bits_of_nan": (
        main(
            """
  %x = stablehlo.constant dense<[-4, 2080472067, 1]> : tensor<3xi32>
  %h = stablehlo.bitcast_convert %x : (tensor<3xi32>) -> tensor<3x2xf16>
  %r = stablehlo.bitcast_convert %h : (tensor<3x2xf16>) -> tensor<3xi32>""",
            ("%r", "tensor<3xi32>"),
        ),
        np.array([-4, 2080472067, 1], np.int32),
    ),
    "branch_in_map": (
        main(
            """
  %x = stablehlo.iota dim = 0 : tensor<5xi32>
  %r = "stablehlo.map"(%x) ({
  ^bb0(%a: tensor<i32>):
    %s = "stablehlo.case"(%a) ({
      %n = stablehlo.negate %a : tensor<i32>
      stablehlo.return %n : tensor<i32>
    }, {
      %d = stablehlo.add %a, %a : tensor<i32>
      stablehlo.return %d : tensor<i32>
    }, {
      %t = stablehlo.multiply %a, %a : tensor<i32>
      stablehlo.return %t : tensor<i32>
    }) : (tensor<i32>) -> tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) {dimensions = array<i64: 0>} : (tensor<5xi32>) -> tensor<5xi32>""",
            ("%r", "tensor<5xi32>"),
        ),
        np.array([0, 2, 4, 9, 16], np.int32),
    ),
    # XLA:CPU ends the process if a reduction of several operands contains a branch.
    "branch_in_reduce": (
        main(
            """
  %i = stablehlo.iota dim = 0 : tensor<9xf32>
  %x = stablehlo.sine %i : tensor<9xf32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %none = stablehlo.constant dense<-1.0> : tensor<f32>
  %r:2 = "stablehlo.reduce"(%x, %i, %low, %none) ({
  ^bb0(%a: tensor<f32>, %i0: tensor<f32>, %b: tensor<f32>, %i1: tensor<f32>):
    %p = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %s:2 = "stablehlo.if"(%p) ({
      stablehlo.return %a, %i0 : tensor<f32>, tensor<f32>
    }, {
      stablehlo.return %b, %i1 : tensor<f32>, tensor<f32>
    }) : (tensor<i1>) -> (tensor<f32>, tensor<f32>)
    stablehlo.return %s#0, %s#1 : tensor<f32>, tensor<f32>
  }) {dimensions = array<i64: 0>} : (tensor<9xf32>, tensor<9xf32>, tensor<f32>, tensor<f32>) ->
    (tensor<f32>, tensor<f32>)""",
            ("%r#1", "tensor<f32>"),
        ),
        np.array(8, np.float32),
    ),
    # 1 + 3 and 2 + 4 at a step of 1/2 around -20.
    "quantized_add": (
        main(
            f"""
  %x = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %y = stablehlo.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %a = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x{QUANTIZED}>
  %b = stablehlo.uniform_quantize %y : (tensor<2xf32>) -> tensor<2x{QUANTIZED}>
  %c = stablehlo.add %a, %b : tensor<2x{QUANTIZED}>
  %r = stablehlo.uniform_dequantize %c : (tensor<2x{QUANTIZED}>) -> tensor<2xf32>""",
            ("%r", "tensor<2xf32>"),
        ),
        np.array([4, 6], np.float32),
    ),
}


def run_ipu(text: str, mode: str) -> list[bytes]:
    return _ipu.run(compiler.compile(text.encode(), "mlir", b"", "ipu2:8"), [], mode)


def run_cpu(text: str) -> list[np.ndarray]:
    device = jax.devices("cpu")[0]
    loaded = device.client.compile_and_load(text, _jax.DeviceList((device,)), xla_client.CompileOptions())
    return [np.asarray(parts[0]) for parts in loaded.execute_sharded([]).disassemble_into_single_device_arrays()]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_against_cpu(name, mode):
    with jax.enable_x64(True):
        expected = run_cpu(PROGRAMS[name])
        for data, e in zip(run_ipu(PROGRAMS[name], mode), expected, strict=True):
            close(np.frombuffer(data, e.dtype).reshape(e.shape), e)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OWN)
def test_by_definition(name, mode):
    text, expected = OWN[name]
    (data,) = run_ipu(text, mode)
    close(np.frombuffer(data, expected.dtype).reshape(expected.shape), expected)


def random_pair(kind: str, dtype: str, a: str, b: str, count: int = 20000) -> list[np.ndarray]:
    """Two results of rng in one program."""
    result = f"tensor<{count}x{dtype}>"
    types = f"(tensor<{dtype}>, tensor<{dtype}>, tensor<1xi64>) -> {result}"
    call = f'"stablehlo.rng"(%a, %b, %s) {{rng_distribution = #stablehlo<rng_distribution {kind}>}} : {types}'
    body = f"""
  %a = stablehlo.constant dense<{a}> : tensor<{dtype}>
  %b = stablehlo.constant dense<{b}> : tensor<{dtype}>
  %s = stablehlo.constant dense<{count}> : tensor<1xi64>
  %0 = {call}
  %1 = {call}"""
    numpy_type = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "ui8": np.uint8}[dtype]
    return [np.frombuffer(r, numpy_type) for r in run_ipu(main(body, ("%0", result), ("%1", result)), "fast")]


@pytest.mark.parametrize(
    ("kind", "dtype", "a", "b", "mean", "deviation"),
    [
        ("UNIFORM", "f32", "-2.0", "3.0", 0.5, 5 / 12**0.5),
        ("UNIFORM", "f64", "0.0", "1.0", 0.5, 1 / 12**0.5),
        ("UNIFORM", "i32", "-5", "7", 0.5, (143 / 12) ** 0.5),
        ("UNIFORM", "ui8", "3", "9", 5.5, (35 / 12) ** 0.5),
        ("NORMAL", "f32", "1.0", "2.0", 1.0, 2.0),
        ("NORMAL", "f64", "1.0", "2.0", 1.0, 2.0),
    ],
)
def test_rng(kind, dtype, a, b, mean, deviation):
    first, second = random_pair(kind, dtype, a, b)
    # Five standard deviations of the estimates.
    assert abs(first.mean() - mean) < 5 * deviation / len(first) ** 0.5
    assert abs(first.std() - deviation) < 5 * deviation / len(first) ** 0.5
    if kind == "UNIFORM":
        assert first.min() >= float(a) and first.max() < float(b)
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / len(first) ** 0.5


def test_rng_in_a_loop_moves_on():
    text = main(
        """
  %a = stablehlo.constant dense<0.0> : tensor<f32>
  %b = stablehlo.constant dense<1.0> : tensor<f32>
  %s = stablehlo.constant dense<[1, 9]> : tensor<2xi64>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %x = stablehlo.constant dense<0.0> : tensor<3x9xf32>
  %r:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<3x9xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %u = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<1x9xf32>
    %z = stablehlo.dynamic_update_slice %y, %u, %i, %zero :
      (tensor<3x9xf32>, tensor<1x9xf32>, tensor<i32>, tensor<i32>) -> tensor<3x9xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %z : tensor<i32>, tensor<3x9xf32>
  }""",
        ("%r#1", "tensor<3x9xf32>"),
    )
    rows = np.frombuffer(run_ipu(text, "fast")[0], np.float32).reshape(3, 9)
    assert len(np.unique(rows)) == 27


def draw_on(device: jax.Device) -> np.ndarray:
    return np.asarray(jax.jit(lambda x: jax.lax.rng_uniform(x, x + 1, (9,)))(jax.device_put(np.float32(0), device)))


def test_rng_draws_new_numbers_in_every_run_and_on_every_device():
    drawn = [draw_on(device) for device in jax.devices("ipu")[:2] for _ in range(2)]
    assert len(np.unique(drawn)) == 36


def test_rng_draws_other_numbers_on_the_ipus_of_one_program():
    devices = jax.devices("ipu")[:2]
    draw = jax.pmap(lambda x: jax.lax.rng_uniform(x, x + 1, (9,)), devices=devices)
    assert len(np.unique(draw(np.zeros(2, np.float32)))) == 18


@pytest.mark.parametrize("kind", ["UNIFORM", "NORMAL"])
def test_rng_is_the_same_in_both_modes(kind):
    text = main(
        f"""
  %a = stablehlo.constant dense<0.0> : tensor<f32>
  %b = stablehlo.constant dense<1.0> : tensor<f32>
  %s = stablehlo.constant dense<[3, 9]> : tensor<2xi64>
  %u = stablehlo.rng %a, %b, %s, distribution = {kind}
    : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<3x9xf32>""",
        ("%u", "tensor<3x9xf32>"),
    )
    fast, tile = ([np.frombuffer(r, np.float32) for r in run_ipu(text, mode)] for mode in MODES)
    close(fast[0], tile[0])
    assert len(np.unique(fast)) == 27
