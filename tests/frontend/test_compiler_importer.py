"""StableHLO to IR: types, literals, attributes, locations, and rejected programs."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from jaxlib.mlir.dialects import stablehlo

from jax_ipu import compiler
from jax_ipu.compiler import CompileError, ir
from jax_ipu.compiler.frontend import inline_calls
from jax_ipu.compiler.frontend import parse as parse_stage
from jax_ipu.compiler.frontend.importer import import_program
from jax_ipu.compiler.frontend.parse import parse, parse_module
from jax_ipu.compiler.frontend.programs import LegalProgram
from jax_ipu.compiler.location import source_line
from support.stages import imported


def import_text(text: str) -> ir.Module:
    return imported(text)


def function(body: str, signature: str = "() -> ()") -> ir.Module:
    return import_text(f"func.func @main{signature} {{\n{body}\n}}")


def constant(text: str, type_text: str) -> np.ndarray:
    module = function(
        f"%0 = stablehlo.constant dense<{text}> : tensor<{type_text}>\nreturn %0 : tensor<{type_text}>",
        f"() -> tensor<{type_text}>",
    )
    return module.main.block.ops[0].attrs["value"].numpy()


def test_values_ops_and_uses() -> None:
    module = function(
        """%0 = stablehlo.add %a, %b : tensor<2x3xf32>
           %1 = stablehlo.multiply %0, %0 : tensor<2x3xf32>
           return %1 : tensor<2x3xf32>""",
        "(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32>",
    )
    block = module.main.block
    add, multiply, terminator = block.ops
    assert [op.name for op in block.ops] == ["add", "multiply", "return"]
    assert add.operands == block.args
    assert add.result.shape == (2, 3)
    assert add.result.dtype == "f32"
    assert add.result.users == [multiply, multiply]
    assert terminator.operands == [multiply.result]


@pytest.mark.parametrize(
    ("text", "type_text", "expected"),
    [
        ("[1.0, -2.5]", "2xf32", np.array([1, -2.5], np.float32)),
        ("1.5", "3xf32", np.full(3, 1.5, np.float32)),
        ("[1.0, 0xFF80]", "2xbf16", np.array([1, -np.inf], ml_dtypes.bfloat16)),
        ("3.0", "2xbf16", np.full(2, 3, ml_dtypes.bfloat16)),
        ("[0.5, 2.0]", "2xf8E4M3FN", np.array([0.5, 2], ml_dtypes.float8_e4m3fn)),
        ("[true, false, true]", "3xi1", np.array([True, False, True])),
        ("[1, -2]", "2xi4", np.array([1, -2], ml_dtypes.int4)),
        ("[-1, 7]", "2xi64", np.array([-1, 7], np.int64)),
        ("255", "2xui8", np.full(2, 255, np.uint8)),
        ("[(1.0, 2.0), (-3.0, 0x7F800000)]", "2xcomplex<f32>", np.array([1 + 2j, complex(-3, np.inf)], np.complex64)),
        ("(1.0, 2.0)", "2xcomplex<f64>", np.full(2, 1 + 2j, np.complex128)),
    ],
)
def test_constants(text: str, type_text: str, expected: np.ndarray) -> None:
    value = constant(text, type_text)
    assert value.dtype == expected.dtype
    np.testing.assert_array_equal(value, expected)


def test_large_constant_without_buffer_protocol() -> None:
    expected = np.arange(300).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(constant(f'"0x{expected.tobytes().hex()}"', "300xbf16"), expected)


def test_dimension_numbers() -> None:
    module = function(
        """%0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [1], contracting_dims = [2] x [0]
             : (tensor<5x2x3xf32>, tensor<3x5x4xf32>) -> tensor<5x2x4xf32>
           return %0 : tensor<5x2x4xf32>""",
        "(%a: tensor<5x2x3xf32>, %b: tensor<3x5x4xf32>) -> tensor<5x2x4xf32>",
    )
    assert module.main.block.ops[0].attrs["dot_dimension_numbers"] == {
        "lhs_batching_dimensions": (0,),
        "rhs_batching_dimensions": (1,),
        "lhs_contracting_dimensions": (2,),
        "rhs_contracting_dimensions": (0,),
    }


def test_donation_attributes() -> None:
    module = function(
        "return %a : tensor<2xf32>",
        "(%a: tensor<2xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<3xf32> {jax.buffer_donor = true})"
        " -> tensor<2xf32>",
    )
    assert module.main.arg_attrs == [{"tf.aliasing_output": 0}, {"jax.buffer_donor": True}]


def test_regions_see_outer_values() -> None:
    module = function(
        """%0 = "stablehlo.if"(%p) ({
             "stablehlo.return"(%a) : (tensor<2xf32>) -> ()
           }, {
             %1 = stablehlo.negate %a : tensor<2xf32>
             "stablehlo.return"(%1) : (tensor<2xf32>) -> ()
           }) : (tensor<i1>) -> tensor<2xf32>
           return %0 : tensor<2xf32>""",
        "(%p: tensor<i1>, %a: tensor<2xf32>) -> tensor<2xf32>",
    )
    branch = module.main.block.ops[0]
    assert len(branch.regions) == 2
    assert branch.regions[1].ops[0].operands == [module.main.block.args[1]]


def test_tuples_are_resolved() -> None:
    module = function(
        """%0 = stablehlo.tuple %a, %b : tuple<tensor<2xf32>, tensor<i32>>
           %1 = stablehlo.get_tuple_element %0[1] : (tuple<tensor<2xf32>, tensor<i32>>) -> tensor<i32>
           return %1 : tensor<i32>""",
        "(%a: tensor<2xf32>, %b: tensor<i32>) -> tensor<i32>",
    )
    assert module.main.block.results == [module.main.block.args[1]]


_USER = '"step"("/home/me/train.py":31:8)'
_OPTAX = '"apply"("/usr/lib/python3.12/site-packages/optax/_src/update.py":44:2)'
_STDLIB = '"reduce"("/usr/lib/python3.12/functools.py":9:2)'
_DEBIAN = '"f"("/usr/lib/python3/dist-packages/flax/core/lift.py":7:2)'
_OWN = f'"g"("{Path(compiler.__file__).parents[1] / "models" / "plans.py"}":5:2)'


@pytest.mark.parametrize(
    ("stack", "line"),
    [
        (['"loss"("/home/me/model.py":12:4)', _USER], "model.py:12 (loss)"),
        ([_OPTAX, _USER], "train.py:31 (step, through optax/_src/update.py:44)"),
        # The innermost user line, and the innermost lines of the libraries that it called.
        (
            [_STDLIB, _OPTAX, _USER, _OPTAX, '"main"("/home/me/main.py":1:1)'],
            "train.py:31 (step, through functools.py:9)",
        ),
        ([_DEBIAN, _USER], "train.py:31 (step, through flax/core/lift.py:7)"),
        ([_OWN, _USER], "train.py:31 (step, through jax_ipu/models/plans.py:5)"),
        ([_OPTAX], "optax/_src/update.py:44 (apply)"),
        (['"<module>"("<stdin>":1:0)'], "<stdin>:1 (<module>)"),
    ],
)
def test_source_line(stack: list[str], line: str) -> None:
    location = stack[-1]
    for frame in reversed(stack[:-1]):
        location = f"callsite({frame} at {location})"
    module = function(
        f"""%0 = stablehlo.negate %a : tensor<2xf32> loc("jit(f)/neg"({location}))
           return %0 : tensor<2xf32>""",
        "(%a: tensor<2xf32>) -> tensor<2xf32>",
    )
    assert source_line(module.main.block.ops[0].location) == line


def test_arguments_have_jaxs_names() -> None:
    text = """func.func @main(
        %a: tensor<2xf32> {jax.buffer_donor = true} loc("params['h_3']['kernel']"), %b: tensor<f32>
        ) -> tensor<2xf32> { return %a : tensor<2xf32> }"""
    given, unnamed = import_text(text).main.arg_attrs
    assert given[ir.ARGUMENT_NAME] == "params['h_3']['kernel']" and given["jax.buffer_donor"]
    assert ir.ARGUMENT_NAME not in unnamed


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("not a program", 3, "not valid StableHLO"),
        ("func.func @f() { return }", 3, '"main"'),
        ("func.func @main(%a: tensor<?xf32>) { return }", 12, "dynamic shape"),
        (
            "func.func @main(%a: tensor<2x!quant.uniform<i8:f32, 1.0>>) { return }",
            12,
            "quantised",
        ),
    ],
)
def test_refused(text: str, code: int, words: str) -> None:
    with pytest.raises(CompileError, match=words) as caught:
        import_text(text)
    assert caught.value.code == code


def test_unknown_format() -> None:
    with pytest.raises(CompileError, match='use "mlir"'):
        parse(b"", "hlo")


def test_calls_in_the_module_are_inlined() -> None:
    module = parse_module(
        b"""
        func.func private @double(%x: tensor<f32>) -> tensor<f32> {
          %y = stablehlo.add %x, %x : tensor<f32>
          return %y : tensor<f32>
        }
        func.func private @both(%x: tensor<f32>, %p: tensor<i1>) -> (tensor<f32>, tensor<f32>) {
          %y = func.call @double(%x) : (tensor<f32>) -> tensor<f32>
          %z = "stablehlo.if"(%p) ({
            %0 = stablehlo.multiply %x, %y : tensor<f32>
            stablehlo.return %0 : tensor<f32>
          }, {
            %0 = func.call @double(%y) : (tensor<f32>) -> tensor<f32>
            stablehlo.return %0 : tensor<f32>
          }) : (tensor<i1>) -> tensor<f32>
          return %y, %z : tensor<f32>, tensor<f32>
        }
        func.func private @kept(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }
        func.func @main(%x: tensor<f32>, %p: tensor<i1>) -> tensor<f32> {
          %y:2 = func.call @both(%x, %p) : (tensor<f32>, tensor<i1>) -> (tensor<f32>, tensor<f32>)
          %z:2 = func.call @both(%y#1, %p) : (tensor<f32>, tensor<i1>) -> (tensor<f32>, tensor<f32>)
          %k = func.call @kept(%z#0) : (tensor<f32>) -> tensor<f32>
          %c = stablehlo.composite "own.kept" %k {decomposition = @kept} : (tensor<f32>) -> tensor<f32>
          return %c : tensor<f32>
        }
        """
    )
    inline_calls.run(module)
    module.operation.verify()
    program = import_program(LegalProgram(module, None, 1, 1))
    assert sorted(program.functions) == ["kept", "main"]
    expected = ["add", "multiply", "return", "add", "return", "if"] * 2 + ["composite", "return"]
    names = [op.name for op in program.main.block.walk()]
    assert sorted(names) == sorted(expected) and [op.name for op in program.main.block.ops] == [
        *("add", "if") * 2,
        *("composite", "return"),
    ]


def test_programs_share_contexts_for_a_while(monkeypatch) -> None:
    """Executables do not depend on what a context read before, and no context is kept for ever."""
    monkeypatch.setattr(parse_stage, "_idle", [])
    monkeypatch.setattr(parse_stage, "_MOST_USES", 3)
    artifacts = []
    for number in range(4):
        text = f"""func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{
            %0 = stablehlo.constant dense<{number}.0> : tensor<4xf32>
            %1 = stablehlo.add %a, %0 : tensor<4xf32>
            return %1 : tensor<4xf32> }}"""
        artifacts.append(stablehlo.serialize_portable_artifact_str(text, stablehlo.get_current_version()))
    contexts = []
    made = []
    for artifact in [*artifacts, *artifacts]:
        made.append(compiler.compile(artifact, "mlir", b"", "ipu2:8").serialize())
        contexts.append(parse_stage._idle[-1] if parse_stage._idle else None)
    assert made[:4] == made[4:]
    assert contexts[0] is contexts[1] is not None
    assert contexts[2] is None  # it has read its last program
    assert contexts[3] is contexts[4] is not contexts[0]
