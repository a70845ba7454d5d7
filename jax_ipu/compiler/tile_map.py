"""The tile mapping of arguments, results and large temporaries: the data of jax_ipu.debug.tile_map."""

from __future__ import annotations

from typing import NamedTuple

from jax_ipu import _ipu
from jax_ipu.compiler.api import parse_target, reported
from jax_ipu.compiler.contexts import inside
from jax_ipu.compiler.fit import map_program
from jax_ipu.compiler.frontend.legalize import legalize
from jax_ipu.compiler.frontend.parse import parse
from jax_ipu.compiler.frontend.partition import partition
from jax_ipu.compiler.ir import Block, Op, Value, size_in_bytes
from jax_ipu.compiler.location import source_line
from jax_ipu.compiler.lowering.program import lower
from jax_ipu.compiler.options import compile_options
from jax_ipu.compiler.types import num_elements


class Placement(NamedTuple):
    """The mapping of one tensor.

    Attributes:
        name: the path of the argument in the pytree; of a temporary its operation and source line.
        dtype: the type as StableHLO writes it, e.g. "f32".
        shape: the dimensions.
        first_tile: the number of the first tile with a part of the tensor.
        last_tile: the number of the last one.
        tiles: how many tiles have a part of it.
        min_elements: elements on the tile of these that has fewest.
        max_elements: elements on the tile that has most.
        reason: which operation asked for the mapping, or how the tensor is spread without one.

    Examples:
        >>> import io, jax.numpy as jnp, jax_ipu
        >>> (argument, result) = jax_ipu.debug.tile_map(jnp.sin, jnp.ones(64), file=io.StringIO())
        >>> argument.dtype, argument.shape, argument.reason
        ('f32', (64,), 'spread linearly')
        >>> argument.min_elements * argument.tiles <= 64 <= argument.max_elements * argument.tiles
        True
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    first_tile: int
    last_tile: int
    tiles: int
    min_elements: int
    max_elements: int
    reason: str


@inside(reported)
def tile_map(program: bytes, format: str, options: bytes, target: str, temporaries: int) -> list[Placement]:
    """The placements of the arguments, then of the `temporaries` largest values of the main program.

    Other arguments and errors as for `compile`.
    """
    settings = compile_options(options)
    chip = parse_target(target)
    mapped = map_program(legalize(partition(parse(program, format, options))), settings, chip)
    signature, plan = mapped.signature, mapped.mapping
    lowered = lower(mapped, chip, settings)
    placements = []
    for argument in signature.arguments:
        tensor = lowered.tensors.get(argument.value)
        if tensor is not None:
            name = argument.name + (" (resident)" if argument.resident else "")
            placements.append(_placement(lowered.graph, name, argument.value, tensor, plan.reason(argument.value)))
    made = [(op, r) for op in _own_storage(mapped.module.main.block) for r in op.results if r in lowered.tensors]
    made.sort(key=lambda pair: -size_in_bytes(pair[1]))
    for op, value in made[:temporaries]:
        where = source_line(op.location)
        reason = f"made by {op.name.removeprefix('ipu.')}"
        if value in plan.partners:
            reason += ", like what it updates"
        name = f"{op.name.removeprefix('ipu.')}{f' at {where}' if where else ''}"
        placements.append(_placement(lowered.graph, name, value, lowered.tensors[value], reason))
    return placements


def _own_storage(block: Block) -> list[Op]:
    views = ("constant", "return", "reshape", "transpose", "broadcast_in_dim", "slice", "reverse")
    return [op for op in block.ops if op.name not in views and num_elements(op.results[0].shape)]


def _placement(graph: _ipu.Graph, name: str, value: Value, tensor: _ipu.Tensor, reason: str) -> Placement:
    counts = [sum(end - begin for begin, end in tile) for tile in graph.get_tile_mapping(tensor)]
    used = [tile for tile, count in enumerate(counts) if count]
    held = [counts[tile] for tile in used]
    return Placement(
        name,
        value.dtype,
        value.shape,
        used[0] if used else 0,
        used[-1] if used else 0,
        len(used),
        min(held, default=0),
        max(held, default=0),
        reason,
    )
