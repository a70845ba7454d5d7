"""Stage "parse" for HLO protos, which some PJRT clients send in place of StableHLO: XLA translates them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jaxlib import _jax
from jaxlib.mlir import ir as mlir

from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.frontend.attributes import main_operation, signature_attributes
from jax_ipu.compiler.frontend.parse import parsed_program
from jax_ipu.compiler.frontend.partition import to_stablehlo
from jax_ipu.compiler.frontend.programs import ParsedProgram
from jax_ipu.compiler.ir import LAYOUT_MODE
from jax_ipu.compiler.proto import proto_fields
from jax_ipu.compiler.stages import staged

# A serialised xla.HloModuleProto, and an xla.HloModuleProtoWithConfig, whose first field is one.
HLO_FORMATS = ("hlo", "hlo_with_config")
_MODULE_FIELD = 1
_ALIASES = "mhlo.input_output_alias"
_ALIASED_RESULT = "tf.aliasing_output"
_ARGUMENT_LAYOUTS = "mhlo.xla_entry_computation_parameter_layouts"
_RESULT_LAYOUTS = "mhlo.xla_entry_computation_result_layout"


@staged("parse")
def parse_hlo(program: bytes, program_format: str, options: bytes = b"") -> ParsedProgram:
    """Translates an HLO program, with its donated arguments and layouts as JAX writes them.

    Args:
        program: the bytes of the program.
        program_format: one of HLO_FORMATS.
        options: as of `parse`.

    Raises:
        CompileError: the bytes are no HLO program, or it is for more IPUs than any system has (INVALID_ARGUMENT); its
            arguments or results are nested tuples, or parts of tuples are donated (UNIMPLEMENTED).
    """
    if program_format == "hlo_with_config":
        field = dict(proto_fields(program)).get(_MODULE_FIELD, b"")
        program = field if isinstance(field, bytes) else b""
    try:
        module = to_stablehlo(program)
    except _jax.JaxRuntimeError as error:
        raise CompileError(
            f"the program is not a serialised xla.HloModuleProto that XLA can translate: {error}. Send StableHLO, in "
            'the format "mlir", instead',
            INVALID_ARGUMENT,
        ) from error
    attributes: Any = module.operation.attributes
    main: Any = main_operation(module)
    arguments, results = signature_attributes(module)
    with module.context:
        entries = _layouts(attributes, _ARGUMENT_LAYOUTS, len(arguments))
        for argument, result in _aliases(attributes):
            entries[argument][_ALIASED_RESULT] = mlir.IntegerAttr.get(mlir.IntegerType.get_signless(32), result)
        _add(main, "arg_attrs", entries)
        _add(main, "res_attrs", _layouts(attributes, _RESULT_LAYOUTS, len(results)))
    return parsed_program(module, options)


_Entry = dict[str, mlir.Attribute]


def _layouts(attributes: Any, name: str, count: int) -> list[_Entry]:
    """The layout of each argument or result, where they are given: HLO writes them if one is not row-major."""
    if name not in attributes:
        return [{} for _ in range(count)]
    given: Any = attributes[name]
    layouts: list[Any] = list(given) if isinstance(given, mlir.ArrayAttr) else [given]
    if len(layouts) != count:
        raise CompileError("HLO programs whose arguments or results are nested tuples are not supported on IPU")
    return [{LAYOUT_MODE: mlir.StringAttr.get("{" + ",".join(str(d) for d in layout) + "}")} for layout in layouts]


def _aliases(attributes: Any) -> Iterator[tuple[int, int]]:
    """(argument, result) of each donated argument."""
    aliases: Any = attributes[_ALIASES] if _ALIASES in attributes else ()
    for alias in aliases:
        argument, result = alias["alias"], tuple(alias["output_index"])
        if len(argument["parameter_index"]) > 0 or len(result) > 1:
            raise CompileError("HLO programs that donate an element of a tuple are not supported on IPU")
        yield argument["parameter_number"].value, result[0] if result else 0


def _add(main: Any, name: str, entries: list[_Entry]) -> None:
    """Adds attributes to those of the arguments or results of a function."""
    if not any(entries):
        return
    given: Any = main.attributes[name] if name in main.attributes else ()
    old = [{n.name: n.attr for n in entry} for entry in given] or [{} for _ in entries]
    merged = [mlir.DictAttr.get({**before, **added}) for before, added in zip(old, entries, strict=True)]
    main.attributes[name] = mlir.ArrayAttr.get(merged)
