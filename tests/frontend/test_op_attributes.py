"""Every attribute of StableHLO's ops is read, or is a hint on which no result depends."""

import re
from pathlib import Path

import jax
import pytest
from jaxlib.mlir.dialects import _stablehlo_ops_gen

from jax_ipu import compiler
from jax_ipu.compiler import CompileError
from jax_ipu.compiler.lowering.table import ALTERNATIVES

# Reasons why an attribute may stay unread.
HINTS = {
    "algorithm": "the least precision, as on XLA:CPU: operands are not rounded, sums are at least in f32",
    "broadcast_sizes": "in the type of the result",
    "indices_are_sorted": "any order is valid",
    "result_tilings": "of custom calls: layouts are the compiler's choice; JAX 0.12",
    "result_accuracy": "the least accuracy, as on XLA:CPU, which does not read it either",
    "version": "of a composite, whose decomposition is what is done",
}
# Hints that only newer versions of StableHLO have.
NEWER = {"result_tilings"}


def attributes() -> dict[str, set[str]]:
    """Returns op -> names of its attributes, by MLIR's generated accessors."""
    source = Path(_stablehlo_ops_gen.__file__).read_text()
    ops = {}
    for part in source.split("\n@_ods_cext.register_operation")[1:]:
        name = re.search(r'OPERATION_NAME = "stablehlo\.(\w+)"', part)
        if name is not None:
            ops[name[1]] = set(re.findall(r'operation\.attributes\["(\w+)"\]', part))
    return ops


def test_every_attribute_is_read_or_a_hint():
    files = Path(compiler.__file__).parent.rglob("*.py")
    read = set(re.findall(r'"(\w+)"', "".join(file.read_text() for file in files)))
    ops = {name: found for name, found in attributes().items() if name not in ALTERNATIVES}
    assert len(ops) > 80 and "permutation" in ops["transpose"]
    unread = {(name, attribute) for name, found in ops.items() for attribute in found if attribute not in read}
    assert {attribute for _, attribute in unread} - NEWER == set(HINTS) - NEWER, unread


def test_a_root_that_is_chosen_at_run_time_is_refused():
    """The StableHLO of JAX 0.12 has the attribute and its operand; older ones keep unknown attributes."""
    root = jax.__version_info__ >= (0, 12)
    operands, types = ("%a, %root", "tensor<4xf32>, tensor<1xi32>") if root else ("%a", "tensor<4xf32>")
    text = f"""func.func @main(%a: tensor<4xf32>, %root: tensor<1xi32>) -> tensor<4xf32> {{
  %0 = "stablehlo.collective_broadcast"({operands}) {{replica_groups = dense<0> : tensor<1x1xi64>, has_dynamic_root}}
    : ({types}) -> tensor<4xf32>
  return %0 : tensor<4xf32> }}"""
    with pytest.raises(CompileError, match="chooses its root at run time"):
        compiler.compile(text.encode(), "mlir", b"", "ipu2:8")


@pytest.mark.parametrize(
    ("dtype", "kind", "good"),
    [
        *(("i32", "UNSIGNED", "SIGNED"), ("i32", "FLOAT", "SIGNED"), ("ui8", "SIGNED", "UNSIGNED")),
        *(("i1", "SIGNED", "UNSIGNED"), ("f32", "SIGNED", "FLOAT or TOTALORDER"), ("i32", "TOTALORDER", "SIGNED")),
        ("complex<f32>", "TOTALORDER", "FLOAT"),
    ],
)
def test_comparison_of_another_type_is_refused(dtype, kind, good):
    """Unsigned comparison of signed integers has other results and no other implementation; XLA rejects it, too."""
    tensor = f"tensor<4x{dtype}>"
    for given in (kind, *good.split(" or ")):
        text = f"""func.func @main(%a: {tensor}, %b: {tensor}) -> tensor<4xi1> {{
  %0 = stablehlo.compare EQ, %a, %b, {given} : ({tensor}, {tensor}) -> tensor<4xi1>
  return %0 : tensor<4xi1> }}"""
        if given != kind:
            compiler.compile(text.encode(), "mlir", b"", "ipu2:8")
            continue
        with pytest.raises(CompileError, match=f"has the comparison type {kind}; it must be {good}"):
            compiler.compile(text.encode(), "mlir", b"", "ipu2:8")
