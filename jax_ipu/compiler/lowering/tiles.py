"""Arrays on the tiles that the user names, vertices of the user's codelets, and the cycle counter."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu import _ipu
from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.location import source_line
from jax_ipu.compiler.lowering.context import Context
from jax_ipu.compiler.mapping import Demand
from jax_ipu.compiler.tile_calls import ATTRIBUTE, OnTiles, VertexCall
from jax_ipu.compiler.types import Literal, Shape, num_elements

# Functions of the C library, which vertices call where the codelets of other programs have their own.
_OF_LIBRARY = ("sin", "cos", "tan")


def lower_tile_put(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """The operand itself where it lies on the tiles, otherwise a copy there; a constant is made there."""
    call: OnTiles = op.attrs[ATTRIBUTE]
    _check_tiles(context, op, call.tiles)
    value, name = op.operands[0], context.name(op)
    if value.op is not None and value.op.name == "constant":
        return [_constant(context, value.op.attrs["value"], call.tiles, name)]
    tensor = context.tensor(value)
    if not op.attrs.get("copy") and _ipu.is_on_tiles(context.graph, tensor, call.tiles):
        return [tensor]
    return [_copy(context, tensor, call.tiles, name)]


def lower_tile_gather(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Copies parts of the operand to the tiles, in one superstep."""
    call: OnTiles = op.attrs[ATTRIBUTE]
    _check_tiles(context, op, call.tiles)
    name = context.name(op)
    tensor = context.tensor(op.operands[0])
    result = _variable(context, op.result.dtype, op.result.shape, call.tiles, name)
    if num_elements(op.result.shape):
        # Parts that follow each other are one piece.
        starts = [i for i, index in enumerate(call.indices) if i == 0 or index != call.indices[i - 1] + 1]
        ends = [*starts[1:], len(call.indices)]
        firsts = [call.indices[begin] for begin in starts]
        pieces = [_parts(tensor, f, f + e - b) for f, b, e in zip(firsts, starts, ends, strict=True)]
        context.sequence.copy(_ipu.concat(pieces, 0), result, name)
    return [result]


def lower_tile_map(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """One vertex on each tile. A field that is read and written takes the operand's memory, or that of a copy."""
    call: VertexCall = op.attrs[ATTRIBUTE]
    _check_tiles(context, op, call.tiles)
    where = source_line(op.location)
    name = f"{call.primitive} {where}" if where else call.primitive
    try:
        return _execute(context, op, call, name)
    except (RuntimeError, ValueError) as error:
        if isinstance(error, _ipu.Error):
            raise
        raise CompileError(f"tile_map of {name}: {error}", INVALID_ARGUMENT) from error


def _execute(context: Context, op: Op, call: VertexCall, name: str) -> list[_ipu.Tensor]:
    count, tiles = len(call.inputs), call.tiles
    operands = [context.tensor(o) for o in op.operands[:count]]
    constants = [
        _replicated(context, value, tiles, f"{name} {field}")
        for value, field in zip(op.operands[count:], call.constants, strict=True)
    ]
    in_place = op.attrs.get("in_place", ())
    aliases = dict(call.aliases)
    results: list[_ipu.Tensor] = []
    back: list[tuple[int, _ipu.Tensor]] = []
    for i, value in enumerate(op.results):
        if i not in aliases:
            results.append(_variable(context, value.dtype, value.shape, tiles, f"{name} {call.outputs[i]}"))
            continue
        tensor = operands[aliases[i]]
        if i in in_place and _ipu.is_on_tiles(context.graph, tensor, tiles):
            results.append(tensor)
            continue
        results.append(_copy(context, tensor, tiles, name))
        if i in in_place:
            back.append((i, tensor))
    edges = [
        (field, tensor)
        for i, (field, tensor) in enumerate(zip(call.inputs, operands, strict=True))
        if i not in aliases.values()
    ]
    edges += zip(call.constants, constants, strict=True)
    edges += zip(call.outputs, results, strict=True)
    for temporary in call.temporaries:
        shape = (len(tiles), *temporary.shape)
        edges.append((temporary.field, _variable(context, temporary.dtype, shape, tiles, f"{name} {temporary.field}")))
    if call.codelets is not None and call.codelets not in context.codelets:
        # Messages name the user's file and line.
        line = "" if call.codelets.text.startswith("#line") else f'#line 1 "{call.codelets.name}"\n'
        _ipu.add_codelets(context.graph, line + call.codelets.text, call.codelets.flags)
        context.codelets.add(call.codelets)
    cycles = call.cycles
    if cycles is None and call.operation:
        cycles = _cycles_of_operation(context, op, call)
    _ipu.execute_vertices(context.graph, call.vertex, tiles, edges, call.values, cycles, context.sequence, name)
    # What is updated in place must end there.
    for i, tensor in back:
        context.sequence.copy(results[i], tensor, name)
        results[i] = tensor
    return results


def _cycles_of_operation(context: Context, op: Op, call: VertexCall) -> int:
    """The cycles of the vertex that has the operation elsewhere, with all its workers."""
    dtype, elements = op.result.dtype, num_elements(op.result.shape[1:])
    if call.operation == "fill":
        return _ipu.fill_cycles(context.graph, dtype, elements)
    dtypes = [o.dtype for o in op.operands]
    n = len(dtypes)
    if call.operation in ("scaled_add", "scaled_subtract"):
        last = call.operation.removeprefix("scaled_")
        code = [("multiply", dtype, dtype, 1, 2, 0, 0), (last, dtype, dtype, 0, n, 0, 0)]
    elif call.operation == "select":  # lax.select_n takes what is chosen where the predicate is false first
        code = [("select", dtype, dtype, 0, 2, 1, 0)]
    else:
        code = [(call.operation, dtypes[0], dtype, 0, n - 1, 0, int(call.operation in _OF_LIBRARY))]
    scalars = [o.shape[1:] != op.result.shape[1:] for o in op.operands]
    expression = _ipu.Expression(dtypes, [], code, [n + len(code) - 1])
    return _ipu.map_cycles(context.graph, expression, scalars, bool(call.aliases), elements)


def lower_cycle_count(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """The cycles since the program began, on each of the tiles."""
    call: OnTiles = op.attrs[ATTRIBUTE]
    _check_tiles(context, op, call.tiles)
    name = context.name(op)
    result = _variable(context, "u32", op.result.shape, call.tiles, name)
    _ipu.cycle_stamp(context.graph, result, context.sequence, name, call.sync)
    return [result]


def create_on_tiles(context: Context, demand: Demand, dtype: str, name: str) -> _ipu.Tensor | None:
    """A variable for an operand of a vertex call or put: on the tiles of the op."""
    call: OnTiles | VertexCall = demand.op.attrs[ATTRIBUTE]
    shape = demand.op.operands[demand.operand].shape
    if not shape or shape[0] != len(call.tiles) or max(call.tiles, default=0) >= context.num_tiles:
        return None
    return _variable(context, dtype, shape, call.tiles, name)


def _check_tiles(context: Context, op: Op, tiles: Sequence[int]) -> None:
    """Raises CompileError if the target has not all of the tiles that the user names."""
    if tiles and max(tiles) >= context.num_tiles:
        where = source_line(op.location) or "an unknown source line"
        raise CompileError(
            f"{op.name.removeprefix('ipu.')} at {where}: there is no tile {max(tiles)}: the target has"
            f" {context.num_tiles} tiles, from 0 to {context.num_tiles - 1}",
            INVALID_ARGUMENT,
        )


def _variable(context: Context, dtype: str, shape: Shape, tiles: tuple[int, ...], name: str) -> _ipu.Tensor:
    tensor = context.graph.add_variable(dtype, shape, name)
    _ipu.map_to_tiles(context.graph, tensor, tiles)
    return tensor


def _copy(context: Context, tensor: _ipu.Tensor, tiles: tuple[int, ...], name: str) -> _ipu.Tensor:
    result = _variable(context, tensor.dtype, tensor.shape, tiles, name)
    if tensor.num_elements:
        context.sequence.copy(tensor, result, name)
    return result


def _constant(context: Context, literal: Literal, tiles: tuple[int, ...], name: str) -> _ipu.Tensor:
    data = bytes(literal.data) * num_elements(literal.shape) if literal.splat else literal.data
    tensor = context.graph.add_constant(literal.dtype, literal.shape, data, name)
    _ipu.map_to_tiles(context.graph, tensor, tiles)
    return tensor


def _replicated(context: Context, value: Value, tiles: tuple[int, ...], name: str) -> _ipu.Tensor:
    """The value on every tile."""
    shape = (len(tiles), *value.shape)
    if value.op is not None and value.op.name == "constant":
        literal: Literal = value.op.attrs["value"]
        data = literal.data if literal.splat else bytes(literal.data) * len(tiles)
        return _constant(context, Literal(literal.dtype, shape, data, literal.splat), tiles, name)
    return _copy(context, context.tensor(value).expand([0]).broadcast(len(tiles), 0), tiles, name)


def _parts(tensor: _ipu.Tensor, begin: int, end: int) -> _ipu.Tensor:
    return tensor.slice([begin, *[0] * (len(tensor.shape) - 1)], [end, *tensor.shape[1:]])


LOWERINGS = {
    "ipu.cycle_count": lower_cycle_count,
    "ipu.tile_gather": lower_tile_gather,
    "ipu.tile_map": lower_tile_map,
    "ipu.tile_put": lower_tile_put,
}
CREATORS = {"ipu.tile_gather": create_on_tiles, "ipu.tile_map": create_on_tiles, "ipu.tile_put": create_on_tiles}
