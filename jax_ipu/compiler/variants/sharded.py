"""A program over several IPUs: arguments cut along an axis of each, the rest as XLA's partitioner chooses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxlib.mlir import ir as mlir
from jaxlib.mlir.dialects import sdy

from jax_ipu.compiler.frontend.attributes import main_operation
from jax_ipu.compiler.frontend.depth import nested_ops
from jax_ipu.compiler.frontend.legalize import legalize
from jax_ipu.compiler.frontend.parse import whole_module
from jax_ipu.compiler.frontend.partition import partition
from jax_ipu.compiler.frontend.programs import LegalProgram, ParsedProgram
from jax_ipu.compiler.types import Shape

_SHARDING = "sdy.sharding"
_MESH, _AXIS = "ipu_mesh", "ipus"


class NotCut(Exception):
    """The program has no form over several IPUs that can be written here."""


def sharded(
    program: ParsedProgram, num_ipus: int, cuts: Mapping[int, int], shapes: Mapping[int, Shape]
) -> LegalProgram:
    """The program over `num_ipus` IPUs.

    Args:
        program: for one IPU or for so many; it stays as it is.
        num_ipus: the number of IPUs.
        cuts: argument -> the axis along which it is cut. Those without an entry stay as they are, or are whole on every
            IPU. A result that replaces an argument is cut as that is.
        shapes: argument -> its shape; of all that are used.

    Raises:
        NotCut: the program is for several replicas, or its shardings are none of Shardy.
        CompileError: as `partition`.
    """
    if program.num_replicas > 1 or program.num_partitions not in (1, num_ipus):
        raise NotCut
    source = whole_module(program)
    with source.context, mlir.Location.unknown():
        module = mlir.Module.parse(str(source.operation.get_asm(enable_debug_info=True)))
        main: Any = main_operation(module)
        mesh, axes = _mesh(module, num_ipus, program.num_partitions)
        count = len(main.regions[0].blocks[0].arguments)
        if max((*cuts, *shapes), default=-1) >= count:
            raise NotCut  # arguments in tuples
        own = _entries(main, "arg_attrs", count)
        results = _entries(main, "res_attrs", len(mlir.FunctionType(main.attributes["function_type"].value).results))
        if program.num_partitions == 1:
            for entry in (*own, *results):
                entry.pop(_SHARDING, None)
        for index, shape in shapes.items():
            if index not in cuts and _SHARDING in own[index]:
                continue
            attribute = _attribute(mesh, axes, len(shape), cuts.get(index))
            own[index][_SHARDING] = attribute
            if (aliased := own[index].get("tf.aliasing_output")) is not None:
                results[aliased.value][_SHARDING] = attribute
        main.attributes["arg_attrs"] = mlir.ArrayAttr.get([mlir.DictAttr.get(entry) for entry in own])
        main.attributes["res_attrs"] = mlir.ArrayAttr.get([mlir.DictAttr.get(entry) for entry in results])
    options = program.options if program.num_partitions > 1 else b""
    return legalize(partition(ParsedProgram(module, program.name, options, 1, num_ipus)))


def _mesh(module: mlir.Module, num_ipus: int, num_partitions: int) -> tuple[str, list[str]]:
    """The name and the axes of the mesh of the program, which is added to a program for one IPU."""
    meshes: list[Any] = [op for op in module.body.operations if op.operation.name == "sdy.mesh"]
    if num_partitions == 1:
        # JAX gives a program for one device a mesh of that device.
        if any(
            op.operation.name.startswith("sdy.") and op.operation.name != "sdy.mesh"
            for op in nested_ops(module.operation)
        ):
            raise NotCut
        for op in meshes:
            op.operation.erase()
        mesh = mlir.Operation.parse(f'sdy.mesh @{_MESH} = <["{_AXIS}"={num_ipus}]>')
        mlir.InsertionPoint.at_block_begin(module.body).insert(mesh)
        return _MESH, [_AXIS]
    if len(meshes) != 1:
        raise NotCut
    axes = [sdy.MeshAxisAttr(axis).name for axis in sdy.MeshAttr(meshes[0].operation.attributes["mesh"]).axes]
    return str(meshes[0].operation.attributes["sym_name"].value), axes


def _attribute(mesh: str, axes: list[str], rank: int, cut: int | None) -> Any:
    every = ", ".join(f'"{axis}"' for axis in axes)
    dimensions = ", ".join(f"{{{every}}}" if d == cut else "{}" for d in range(rank))
    return mlir.Attribute.parse(f"#sdy.sharding<@{mesh}, [{dimensions}]>")


def _entries(main: Any, key: str, count: int) -> list[dict[str, Any]]:
    """The attributes of the arguments or results, to change and to write back."""
    if key not in main.attributes:
        return [{} for _ in range(count)]
    return [{item.name: item.attr for item in entry} for entry in main.attributes[key]]
