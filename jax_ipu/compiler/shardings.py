"""The shardings of the arguments and results of a partitioned program, as serialised xla.OpSharding."""

from __future__ import annotations

from typing import Any

from jaxlib import xla_client

from jax_ipu.compiler.ir import Module
from jax_ipu.compiler.types import Shape

_sharding = xla_client.HloSharding


def sharding_fields(module: Module) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The field "sharding" of each InputSpec and OutputSpec; no field where the module is not partitioned."""
    inputs = module.attrs.get("mhlo.spmd_parameters_shardings", ())
    outputs = module.attrs.get("mhlo.spmd_output_sharding", "")
    if not outputs:
        return [{} for _ in module.main.block.args], [{} for _ in module.main.block.results]
    whole = _sharding.from_string(outputs)
    # A program without results has the sharding of an empty tuple.
    count = len(module.main.block.results)
    results = (whole.tuple_elements() or [whole] * count)[:count]
    parsed = [_sharding.from_string(text) for text in inputs], results
    as_inputs, as_outputs = ([{"sharding": s.to_proto().SerializeToString()} for s in side] for side in parsed)
    return as_inputs, as_outputs


def replicated_arguments(module: Module) -> list[bool]:
    """For each argument whether every IPU holds all of it; False where the module is not partitioned."""
    shardings = [_sharding.from_string(text) for text in module.attrs.get("mhlo.spmd_parameters_shardings", ())]
    count = len(module.main.block.args)
    return [sharding.is_replicated() for sharding in shardings] if len(shardings) == count else [False] * count


def parts_along(module: Module, argument: int, axis: int) -> int:
    """Into how many parts an axis of an argument is cut over the IPUs; 1 where the module does not say."""
    shardings = module.attrs.get("mhlo.spmd_parameters_shardings", ())
    if len(shardings) != len(module.main.block.args):
        return 1
    sharding = _sharding.from_string(shardings[argument])
    return int(sharding.tile_assignment_dimensions()[axis]) if sharding.is_tiled() else 1


def local_shape(shape: Shape, sharding: bytes) -> Shape:
    """The shape of the part of an array on one device; `sharding`: a serialised xla.OpSharding, b"" for the whole."""
    if not sharding:
        return shape
    proto = xla_client.OpSharding()
    proto.ParseFromString(sharding)
    parsed = _sharding.from_proto(proto)
    if parsed.is_replicated() or not parsed.is_tiled():
        return shape
    return tuple(-(-n // parts) for n, parts in zip(shape, parsed.tile_assignment_dimensions(), strict=False))
