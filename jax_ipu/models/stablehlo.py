"""A StableHLO program as a jax.export.Exported, so that JAX can call it."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
from jaxlib.mlir.dialects import stablehlo

from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.frontend.legalize import legalize_module
from jax_ipu.compiler.frontend.parse import parse_module
from jax_ipu.compiler.types import element_type, numpy_dtype


def exported_of(program: bytes) -> Any:
    """The program's public function @main over flat arguments; its result is one array, or a tuple of them.

    Raises CompileError: the program is not valid StableHLO, or has no @main with a static signature.
    """
    from jax import export

    # A portable artifact has no CHLO.
    module = legalize_module(parse_module(program))
    in_avals, out_avals = _signature(module)
    one = len(out_avals) == 1
    # An export with the same trees, into which the program and its types are put.
    template = export.export(jax.jit(lambda *args: 0.0 if one else (0.0,) * len(out_avals)), platforms=["ipu"])(
        *(0.0 for _ in in_avals)
    )
    known = {field.name for field in dataclasses.fields(template)}
    # Fields that say where arguments and results lie: nothing is said about any of them. (JAX 0.10 and 0.12 differ.)
    nowhere = {
        "in_shardings_hlo": (None,) * len(in_avals),
        "out_shardings_hlo": (None,) * len(out_avals),
        "_in_named_shardings": (None,) * len(in_avals),
        "_out_named_shardings": (None,) * len(out_avals),
    }
    replaced: dict[str, Any] = {name: value for name, value in nowhere.items() if name in known}
    return dataclasses.replace(
        template,
        **replaced,
        fun_name="main",
        in_avals=in_avals,
        out_avals=out_avals,
        mlir_module_serialized=stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version()),
        module_kept_var_idx=tuple(range(len(in_avals))),
    )


def _signature(module: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    for op in module.body.operations:
        if op.operation.name == "func.func" and op.attributes["sym_name"].value == "main":
            types = op.attributes["function_type"].value
            return tuple(map(_aval, types.inputs)), tuple(map(_aval, types.results))
    raise CompileError("the StableHLO program has no function @main", INVALID_ARGUMENT)


def _aval(tensor_type: Any) -> Any:
    if not getattr(tensor_type, "has_static_shape", False):
        raise CompileError(f"@main has an argument or result of type {tensor_type}: it must be a static tensor")
    dtype = numpy_dtype(element_type(str(tensor_type.element_type)))
    return jax.core.ShapedArray(tuple(tensor_type.shape), dtype)
