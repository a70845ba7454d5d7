"""Stage "legalise": a module in the ops that the importer reads, by jaxlib's own passes.

They expand CHLO, make dynamic shapes static and replace quantised arithmetic. Asynchronous operations become
synchronous.
"""

from __future__ import annotations

from jaxlib.mlir import ir as mlir

from jax_ipu.compiler.frontend.depth import nested_ops
from jax_ipu.compiler.frontend.large_constants import LargeConstants
from jax_ipu.compiler.frontend.programs import LegalProgram, LocalProgram
from jax_ipu.compiler.frontend.quantized import QUANTIZED_OPS, dequantize
from jax_ipu.compiler.frontend.rewrite import run_passes
from jax_ipu.compiler.frontend.scans import prepare_scans
from jax_ipu.compiler.stages import staged

_DYNAMIC_OPS = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("dynamic_broadcast_in_dim", "dynamic_conv", "dynamic_gather", "dynamic_iota", "dynamic_pad"),
        *("dynamic_reshape", "get_dimension_size", "real_dynamic_slice", "set_dimension_size"),
    )
)


@staged("legalise")
def legalize(program: LocalProgram) -> LegalProgram:
    """Rewrites the module of the program, in place where it can be; raises as `legalize_module`."""
    source, constants = legalize_module(program.source), program.constants
    if constants.parse_whole is not None and constants.uses_in(source) != constants.uses:
        # A pass has written or removed a constant like a stand-in.
        source, constants = legalize_module(constants.parse_whole()), LargeConstants()
    return LegalProgram(source, program.whole, program.num_replicas, program.num_partitions, constants)


def legalize_module(module: mlir.Module) -> mlir.Module:
    """The module in the ops that the importer reads: rewritten in place where it can be.

    A module without such ops costs one walk. Shapes become static where they follow from constants and argument
    types; the importer refuses what stays dynamic.

    Raises:
        CompileError: the module is not valid StableHLO, or its regions are nested too deep (INVALID_ARGUMENT).
    """
    names = _op_names(module)
    if names & QUANTIZED_OPS:
        module = dequantize(module)
        names.add("chlo.")  # dequantize writes ops of CHLO
    if "stablehlo.async_start" in names:
        _make_synchronous(module)
    if any(name.startswith("chlo.") for name in names):
        if "chlo.scan" in names:
            prepare_scans(module)
        run_passes(module, "func.func(chlo-legalize-to-stablehlo)")
        names = _op_names(module)
    make_static(module, names)
    return module


def make_static(module: mlir.Module, names: set[str] | None = None) -> None:
    """Makes shapes static, in place, where they follow from constants and argument types; `names`: all ops of it."""
    if (names or _op_names(module)) & _DYNAMIC_OPS or _has_dynamic_types(module):
        # Twice: each of the two passes needs constants that the other one folds.
        for _ in range(2):
            run_passes(module, "stablehlo-refine-shapes,func.func(stablehlo-canonicalize-dynamism)")


def computes_no_constants(module: mlir.Module, unusual: bool) -> bool:
    """Whether `legalize_module` neither reads nor writes constants that stand for others.

    Args:
        module: for one IPU.
        unusual: whether the values of those are none that an expansion of CHLO writes.
    """
    names = _op_names(module)
    kept = ("stablehlo.", "func.", "builtin.", *(("chlo.",) if unusual else ()))
    own = all(name.startswith(kept) or name == "sdy.mesh" for name in names)
    return own and not names & (_DYNAMIC_OPS | QUANTIZED_OPS | {"chlo.scan"}) and not _has_dynamic_types(module)


def _op_names(module: mlir.Module) -> set[str]:
    return {op.operation.name for op in nested_ops(module.operation)}


def _make_synchronous(module: mlir.Module) -> None:
    """Replaces async_start by the ops of its region: the compiler chooses the order of execution anyway."""
    starts = [op.operation for op in nested_ops(module.operation) if op.operation.name == "stablehlo.async_start"]
    for start in starts:
        dones = [use.owner.operation for use in start.results[0].uses]
        if any(done.name != "stablehlo.async_done" for done in dones):
            continue  # the importer refuses it
        block = start.regions[0].blocks[0]
        for argument, operand in zip(block.arguments, start.operands, strict=True):
            argument.replace_all_uses_with(operand)
        *body, terminator = [op.operation for op in block.operations]
        results = list(terminator.operands)
        for op in body:
            op.move_before(start)
        for done in dones:
            for result, value in zip(done.results, results, strict=True):
                result.replace_all_uses_with(value)
            done.erase()
        start.erase()


def _has_dynamic_types(module: mlir.Module) -> bool:
    functions = (f.operation for f in module.body.operations if f.operation.name == "func.func")
    return any("?" in str(f.attributes["function_type"]) for f in functions)
