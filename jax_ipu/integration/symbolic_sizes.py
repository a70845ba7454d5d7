"""Lowerings that need to know the sizes, in programs exported with symbolic dimensions.

Such a program gets its sizes when it is called, just before it is compiled. Until then the primitive is a custom call
with its parameters; when JAX has inserted the sizes, the call is replaced by the primitive's lowering. The CPU's calls
of LAPACK get their sizes in the same way. Tested with jax 0.10.2 and 0.12.0.
"""

from __future__ import annotations

import enum
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

CALL_TARGET = "ipu_primitive_of_symbolic_sizes"
PLATFORM = "ipu"

Lowering = Callable[..., Any]


def enable(primitives: Mapping[str, Any]) -> None:
    """Makes JAX expand the calls of these primitives, by name, when it has refined the shapes of a program."""
    from jax._src.export import _export
    from jax._src.interpreters import mlir

    refine = mlir.refine_polymorphic_shapes

    def refine_and_expand(module: Any) -> Any:
        refined = refine(module)
        _expand(refined, primitives)
        return refined

    mlir.refine_polymorphic_shapes = refine_and_expand
    # Stable, because JAX keeps the parameters of these primitives compatible in its own calls.
    _export._CUSTOM_CALL_TARGETS_GUARANTEED_STABLE.add(CALL_TARGET)


def when_known(primitive: Any, lowering: Lowering) -> Lowering:
    """Lowers directly when all sizes are known, else emits a custom call that is expanded later."""

    @functools.wraps(lowering)
    def lower(ctx: Any, *args: Any, **params: Any) -> Any:
        from jax._src import core
        from jax._src.interpreters import mlir

        if all(core.is_constant_shape(aval.shape) for aval in ctx.avals_in):
            return lowering(ctx, *args, **params)
        call = {
            "primitive": primitive.name,
            "dtypes": [aval.dtype.name for aval in ctx.avals_in],
            "params": {name: _encode(value) for name, value in params.items()},
        }
        return mlir.custom_call(
            CALL_TARGET,
            result_types=[mlir.aval_to_ir_type(ctx.module_context, aval) for aval in ctx.avals_out],
            operands=args,
            backend_config=json.dumps(call, sort_keys=True),
            result_shapes=[mlir.eval_dynamic_shape_as_tensor(ctx, aval.shape) for aval in ctx.avals_out],
        ).results

    return lower


def _encode(value: Any) -> Any:
    """A parameter as JSON. Raises TypeError for one that JSON cannot express, such as a function."""
    if isinstance(value, enum.Enum):
        return {type(value).__name__: value.name}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    raise TypeError(f"cannot be part of a program with symbolic dimensions: the parameter {value!r}")


def _decode(value: Any) -> Any:
    from jax._src.lax import linalg

    if isinstance(value, dict):
        ((kind, name),) = value.items()
        return getattr(linalg, kind)[name]
    return tuple(map(_decode, value)) if isinstance(value, list) else value


def _expand(module: Any, primitives: Mapping[str, Any]) -> None:
    """Replaces each call in the module, whose shapes are static now, by a call of a function of the module."""
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import func

    calls = _find_calls(module)
    if not calls:
        return
    symbols = ir.SymbolTable(module.operation)
    names: dict[tuple[str, ...], str] = {}
    with module.context:
        for call in calls:
            operands = list(call.operands)
            text = ir.StringAttr(call.attributes["backend_config"]).value
            key = (text, *(str(operand.type) for operand in operands))
            if key not in names:
                description = json.loads(text)
                shapes = [tuple(ir.RankedTensorType(operand.type).shape) for operand in operands]
                source = ir.Module.parse(_lowered(primitives[description["primitive"]], description, shapes))
                names[key] = mlir.merge_mlir_modules(module, description["primitive"], source, symbols)
            with ir.InsertionPoint(call), call.location:
                types = [result.type for result in call.results]
                replacement = func.CallOp(types, ir.FlatSymbolRefAttr.get(names[key]), operands)
            for old, new in zip(call.results, replacement.results, strict=True):
                old.replace_all_uses_with(new)
            call.erase()


def _find_calls(module: Any) -> list[Any]:
    from jaxlib.mlir import ir

    calls = []

    def visit(operation: Any) -> Any:
        target = operation.attributes["call_target_name"] if operation.name == "stablehlo.custom_call" else None
        if target is not None and ir.StringAttr(target).value == CALL_TARGET:
            calls.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return calls


def _lowered(primitive: Any, description: Mapping[str, Any], shapes: Sequence[tuple[int, ...]]) -> bytes:
    """The bytecode of a module whose main function is the primitive on operands of these shapes."""
    import jax
    from jax._src.interpreters import mlir

    params = {name: _decode(value) for name, value in description["params"].items()}
    struct: Any = jax.ShapeDtypeStruct
    # Use the types of the exported program, whatever the caller's jax_enable_x64 says.
    with jax.enable_x64(any(name in ("float64", "complex128") for name in description["dtypes"])):
        operands = [struct(shape, np.dtype(name)) for shape, name in zip(shapes, description["dtypes"], strict=True)]
        function = jax.jit(lambda *xs: primitive.bind(*xs, **params), keep_unused=True)
        lowered = function.trace(*operands).lower(lowering_platforms=(PLATFORM,))
    return mlir.module_to_bytecode(lowered.compiler_ir())
