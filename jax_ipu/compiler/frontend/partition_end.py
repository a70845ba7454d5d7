"""Stops XLA's CPU compiler after the partitioner: code generation would take most of the time.

The program gets an additional result, of a custom call without an implementation. The compiler reports that after its
passes and before code generation.
"""

from __future__ import annotations

from typing import Any

from jaxlib import xla_client
from jaxlib.mlir import ir as mlir

from jax_ipu.compiler.frontend.attributes import main_operation

_TARGET = "ipu_end_of_partitioning"
# stablehlo.CustomCallApiVersion API_VERSION_TYPED_FFI: XLA looks up only these targets before code generation.
_TYPED_CALL = 4
_OUTPUT_SHARDING = "mhlo.spmd_output_sharding"
_ALIASES = "mhlo.input_output_alias"


def text_with_end(program: mlir.Module) -> str:
    """The assembly of the program with the additional result; `program` itself does not change.

    A program whose only result is empty gets none: XLA keeps the sharding of such a result only outside of a tuple.
    """
    text = str(program.operation.get_asm(enable_debug_info=True))
    results = _return(main_operation(program)).operands
    if len(results) == 1 and _is_empty(results[0].type):
        return text
    with program.context, mlir.Location.unknown():
        module = mlir.Module.parse(text)
        main = main_operation(module)
        attributes: dict[str, mlir.Attribute] = {
            "call_target_name": mlir.StringAttr.get(_TARGET),
            "api_version": mlir.IntegerAttr.get(mlir.IntegerType.get_signless(32), _TYPED_CALL),
            "backend_config": mlir.DictAttr.get({}),
        }
        scalar = mlir.RankedTensorType.get((), mlir.F32Type.get())
        last = _return(main)
        with mlir.InsertionPoint(last):
            end = mlir.Operation.create("stablehlo.custom_call", [scalar], [], attributes)
        if "res_attrs" in main.attributes:
            signature: Any = main.attributes["res_attrs"]
            main.attributes["res_attrs"] = mlir.ArrayAttr.get([*signature, mlir.DictAttr.get({})])
        _set_results(main, [*last.operands, end.results[0]])
        return str(module.operation.get_asm(enable_debug_info=True))


def remove(module: mlir.Module) -> None:
    """Removes the additional result from the partitioned module, if it has one."""
    with module.context, mlir.Location.unknown():
        main = main_operation(module)
        *results, end = _return(main).operands
        owner: Any = end.owner
        if not _is_end(owner):
            return
        _set_results(main, results)
        owner.operation.erase()
        if "res_attrs" in main.attributes:
            of_results: Any = main.attributes["res_attrs"]
            main.attributes["res_attrs"] = mlir.ArrayAttr.get(list(of_results)[: len(results)])
        attributes: Any = module.operation.attributes
        if _OUTPUT_SHARDING in attributes:
            whole = xla_client.HloSharding.from_string(attributes[_OUTPUT_SHARDING].value)
            texts = [str(sharding).strip() for sharding in whole.tuple_elements()[: len(results)]]
            text = texts[0] if len(texts) == 1 else "{" + ", ".join(texts) + "}"
            attributes[_OUTPUT_SHARDING] = mlir.StringAttr.get(text)
        if _ALIASES in attributes and len(results) == 1:
            # A single result has no index within a tuple.
            place = {"output_index": mlir.DenseI64ArrayAttr.get([])}
            aliases = [{field.name: field.attr for field in alias} | place for alias in attributes[_ALIASES]]
            attributes[_ALIASES] = mlir.ArrayAttr.get([mlir.DictAttr.get(alias) for alias in aliases])


def _is_empty(type_: Any) -> bool:
    return isinstance(type_, mlir.RankedTensorType) and 0 in type_.shape


def _is_end(owner: Any) -> bool:
    """Whether the owner of a value (an operation or a block) is the custom call that was added."""
    if isinstance(owner, mlir.Block) or owner.operation.name != "stablehlo.custom_call":
        return False
    return bool(owner.operation.attributes["call_target_name"].value == _TARGET)


def _return(main: mlir.Operation) -> mlir.Operation:
    block = main.regions[0].blocks[0]
    last: mlir.Operation = block.operations[len(block.operations) - 1].operation
    return last


def _set_results(main: mlir.Operation, results: list[Any]) -> None:
    last = _return(main)
    with mlir.InsertionPoint(last):
        mlir.Operation.create("func.return", [], results, loc=last.location)
    last.erase()
    arguments = [argument.type for argument in main.regions[0].blocks[0].arguments]
    type_ = mlir.FunctionType.get(arguments, [result.type for result in results])
    main.attributes["function_type"] = mlir.TypeAttr.get(type_)
