"""Converts a StableHLO program to a jax.export.Exported, which JAX can call."""

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
    """Returns the public function @main with flat arguments; its result is one array or a tuple of arrays.

    Raises CompileError: the program is not valid StableHLO, or has no @main with a static signature.
    """
    from jax import export

    # Legalise first: a portable artifact cannot contain CHLO operations.
    module = legalize_module(parse_module(program))
    in_avals, out_avals = _signature(module)
    one = len(out_avals) == 1
    # Export a stub with the same numbers of arguments and results; program and types are replaced below.
    template = export.export(jax.jit(lambda *args: 0.0 if one else (0.0,) * len(out_avals)), platforms=["ipu"])(
        *(0.0 for _ in in_avals)
    )
    known = {field.name for field in dataclasses.fields(template)}
    # No argument or result has a sharding. The names of these fields differ between JAX 0.10 and 0.12.
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
