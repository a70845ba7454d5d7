"""Runs jaxlib's passes over MLIR modules."""

from __future__ import annotations

from jaxlib.mlir import ir as mlir
from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager

from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError


def run_passes(module: mlir.Module, passes: str) -> None:
    """Runs a comma-separated list of MLIR passes over the module, in place.

    Raises:
        CompileError: a pass fails: the program is not valid (INVALID_ARGUMENT).
    """
    stablehlo.register_stablehlo_passes()
    try:
        with module.context:
            PassManager.parse(f"builtin.module({passes})").run(module.operation)
    except Exception as error:
        raise CompileError(f"the program is not valid StableHLO: {error}", INVALID_ARGUMENT) from error
