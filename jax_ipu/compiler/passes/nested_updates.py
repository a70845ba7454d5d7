"""Updates of a row of a state, such as a layer of a stacked cache, change the state itself and not a copy of the row.

`x[l] = x[l].at[p].set(v)` reads a row, changes a part of it and writes all of it back: here it becomes an update of `x`
at (l, p). A scan over a cache writes what it makes of each row into a second array; where every trip replaces the row
that it reads, that array is the first one.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import Block, Module, Op, Value, clone_ops
from jax_ipu.compiler.passes.rewriter import Rewriter
from jax_ipu.compiler.types import INTEGER, Literal, num_elements


def run(module: Module) -> None:
    """Rewrites the loops of main and the updates of rows, outer ones first."""
    _run_block(module.main.block, {})


def _run_block(block: Block, counters: dict[Value, int]) -> None:
    """`counters`: values that count from 0 up, and how far."""
    rewriter = Rewriter()
    for op in block.ops:
        if op.name == "ipu.repeat":
            counters.update(_counters(op))
            for position in range(len(op.results)):
                _share_storage(op, position)
        for region in op.regions:
            _run_block(region, counters)
        rewriter.location = op.location
        new = _without_row(op, counters, rewriter)
        if new is None:
            rewriter.ops.append(op)
            continue
        op.result.replace_with(new)
        op.drop()
    block.ops = rewriter.ops


# The array of a scan's results is that of its inputs --------------------------------------------------------------


def _share_storage(loop: Op, position: int) -> None:
    """Lets a carried array begin as the one whose rows the loop reads, if each trip replaces the row that it reads."""
    body = loop.regions[-1]
    state, new = body.args[position], body.results[position].op
    if new is None or not _writes_row(new) or new.operands[0] is not state or len(state.users) != 1:
        return
    if len(new.result.users) != 1 or not _visits_every_row(loop, new.operands[2], state.shape[0]):
        return
    source = _source(new.operands[1])
    if source is None or source.name != "dynamic_slice" or not _same_row(source, new):
        return
    array = source.operands[0]
    if array in body.args or (array.op is not None and array.op in set(body.ops)):
        return
    readers = [user for user in array.users if _is_inside(user, body)]
    if (array.shape, array.dtype) != (state.shape, state.dtype) or array.op is not None:
        return
    if not all(reader.name == "dynamic_slice" and reader.operands[0] is array for reader in readers):
        return
    if not all(_same_row(reader, new) for reader in readers) or any(r not in set(body.ops) for r in readers):
        return
    for reader in readers:
        reader.set_operands([state, *reader.operands[1:]])
    loop.set_operands([array if i == position else o for i, o in enumerate(loop.operands)])


def _is_inside(op: Op, block: Block) -> bool:
    return any(inner is op for inner in block.walk())


def _writes_row(op: Op) -> bool:
    if op.name != "dynamic_update_slice":
        return False
    state, row = op.operands[:2]
    return len(state.shape) > 1 and row.shape == (1, *state.shape[1:]) and num_elements(row.shape) > 0


def _same_row(read: Op, write: Op) -> bool:
    """Whether a dynamic_slice reads the row that `write` writes."""
    return read.result.shape == write.operands[1].shape and read.operands[1] is write.operands[2]


def _source(value: Value) -> Op | None:
    """The op that made what views and updates have changed."""
    while value.op is not None and value.op.name in _KEPT:
        value = value.op.operands[0]
    return value.op


_KEPT = frozenset(("reshape", "broadcast_in_dim", "dynamic_update_slice", "ipu.update_slice", "scatter"))


def _visits_every_row(loop: Op, index: Value, rows: int) -> bool:
    """Whether the index has each value from 0 to rows - 1 in one of the trips."""
    if loop.attrs["count"] != rows:
        return False
    if index.op is not None and index.op.name == "subtract":
        last, index = index.op.operands
        literal = splat_of(last)
        if literal is None or int(literal.scalar()) != rows - 1:
            return False
    return _unwrapped(index) in _counters(loop)


def _counters(loop: Op) -> dict[Value, int]:
    """The arguments of a loop's body that are the number of the trip, and how many trips there are."""
    body = loop.regions[-1]
    found: dict[Value, int] = {}
    for arg, start, next_value in zip(body.args, loop.operands, body.results, strict=True):
        first, step = splat_of(start), next_value.op
        if arg.dtype not in INTEGER or arg.shape or first is None or int(first.scalar()) != 0:
            continue
        if step is not None and step.name == "add" and arg in step.operands:
            one = splat_of(step.operands[1] if step.operands[0] is arg else step.operands[0])
            if one is not None and int(one.scalar()) == 1:
                found[arg] = loop.attrs["count"]
    return found


def _unwrapped(index: Value) -> Value:
    """i of select(i < 0, i + n, i), which JAX writes for an index that may be negative."""
    if index.op is None or index.op.name != "select":
        return index
    test, _, inner = index.op.operands
    if test.op is None or test.op.name != "compare" or test.op.attrs["comparison_direction"] != "LT":
        return index
    zero = splat_of(test.op.operands[1])
    return inner if test.op.operands[0] is inner and zero is not None and int(zero.scalar()) == 0 else index


# A row is changed in the state ------------------------------------------------------------------------------------


def _without_row(op: Op, counters: dict[Value, int], rewriter: Rewriter) -> Value | None:
    """The state, changed as the row that is written back was; None where that is another row, or nothing is saved."""
    if _writes_row(op):
        state, row, index = op.operands[:3]
        if _unwrapped(index) in counters:
            index = _unwrapped(index)
    elif op.name == "scatter":
        found = _scattered_row(op)
        if found is None or counters.get(found[2], op.operands[0].shape[0] + 1) > op.operands[0].shape[0]:
            return None
        state, row, index = found
    else:
        return None
    updates = _updates(row, state, index, index in counters)
    if not updates:
        return None
    zero = rewriter.constant(Literal.full(index.dtype, (), 0))
    for update in updates:
        state = _LIFTED[update.name](update, state, index, zero, rewriter)
    return state


def _scattered_row(op: Op) -> tuple[Value, Value, Value] | None:
    """The state, the row and the index of a scatter that writes a single row."""
    if len(op.results) != 1 or not op.result.users or len(op.operands[0].shape) < 2:
        return None
    state, indices, row = op.operands
    numbers = op.attrs["scatter_dimension_numbers"]
    body = op.regions[0]
    if body.results[0] is not body.args[1] or num_elements(indices.shape) != 1 or row.shape != state.shape[1:]:
        return None
    rank = len(row.shape)
    if tuple(numbers["inserted_window_dims"]) != (0,) or tuple(numbers["update_window_dims"]) != tuple(range(rank)):
        return None
    if tuple(numbers["scattered_dims_to_operand_dims"]) != (0,) or numbers["input_batching_dims"]:
        return None
    while indices.op is not None and indices.op.name in ("reshape", "broadcast_in_dim"):
        indices = indices.op.operands[0]
    return None if indices.shape else (state, row, _unwrapped(indices))


def _updates(row: Value, state: Value, index: Value, counts: bool) -> list[Op] | None:
    """The updates that make `row` of the row of the state, first to last; `counts`: the index is never negative."""
    found: list[Op] = []
    shape = state.shape[1:]
    while row.op is not None:
        op = row.op
        if op.name == "dynamic_slice" and op.operands[0] is state:
            read = op.operands[1]
            if not (read is index or (counts and _unwrapped(read) is index)):
                return None
            return found[::-1] if op.result.shape == (1, *shape) else None
        if op.name in ("reshape", "broadcast_in_dim"):
            pair = op.operands[0].shape, op.result.shape
            if pair not in ((shape, (1, *shape)), ((1, *shape), shape)):
                return None
            if op.name == "broadcast_in_dim" and tuple(op.attrs["broadcast_dimensions"]) != tuple(
                range(1, len(shape) + 1)
            ):
                return None
        elif op.name in _LIFTED and row.shape == shape and len(op.results) == 1:  # of a scatter: a single state
            if op.name == "ipu.update_slice" and any(s != 1 for s in op.attrs["strides"]):
                return None
            found.append(op)
        else:
            return None
        row = op.operands[0]
    return None


def _lift_dynamic(update: Op, state: Value, index: Value, zero: Value, rewriter: Rewriter) -> Value:
    _, part, *starts = update.operands
    first = starts[0].dtype if starts else index.dtype
    operands = [state, rewriter.reshape(part, (1, *part.shape)), rewriter.convert(index, first), *starts]
    return rewriter.emit("dynamic_update_slice", operands, state.shape, state.dtype)


def _lift_fixed(update: Op, state: Value, index: Value, zero: Value, rewriter: Rewriter) -> Value:
    part = update.operands[1]
    starts = [rewriter.constant(Literal.full(index.dtype, (), b)) if b else zero for b in update.attrs["start_indices"]]
    operands = [state, rewriter.reshape(part, (1, *part.shape)), index, *starts]
    return rewriter.emit("dynamic_update_slice", operands, state.shape, state.dtype)


def _lift_scatter(update: Op, state: Value, index: Value, zero: Value, rewriter: Rewriter) -> Value:
    _, indices, part = update.operands
    attrs = dict(update.attrs)
    numbers = dict(attrs["scatter_dimension_numbers"])
    axis = numbers["index_vector_dim"]
    if axis == len(indices.shape):
        indices = rewriter.reshape(indices, (*indices.shape, 1))
    # The row that dynamic_slice reads: a scatter leaves out what is outside.
    last = rewriter.constant(Literal.full(index.dtype, (), state.shape[0] - 1))
    row = rewriter.convert(rewriter.elementwise("clamp", zero, index, last, dtype=index.dtype), indices.dtype)
    shape = tuple(1 if d == axis else n for d, n in enumerate(indices.shape))
    joined = tuple(n + 1 if d == axis else n for d, n in enumerate(indices.shape))
    parts = [rewriter.broadcast(row, shape, ()), indices]
    indices = rewriter.emit("concatenate", parts, joined, indices.dtype, {"dimension": axis})
    for name in ("inserted_window_dims", "input_batching_dims", "scattered_dims_to_operand_dims"):
        numbers[name] = tuple(d + 1 for d in numbers[name])
    numbers["inserted_window_dims"] = (0, *numbers["inserted_window_dims"])
    numbers["scattered_dims_to_operand_dims"] = (0, *numbers["scattered_dims_to_operand_dims"])
    attrs["scatter_dimension_numbers"] = numbers
    if attrs.get("index_wraps"):
        attrs["index_wraps"] = (0, *attrs["index_wraps"])
    return rewriter.emit("scatter", [state, indices, part], state.shape, state.dtype, attrs, [_copy(update.regions[0])])


def _copy(block: Block) -> Block:
    args = [Value(arg.shape, arg.dtype, None, arg.index) for arg in block.args]
    return Block(args, clone_ops(block, dict(zip(block.args, args, strict=True))))


_LIFTED = {
    "dynamic_update_slice": _lift_dynamic,
    "ipu.update_slice": _lift_fixed,
    "scatter": _lift_scatter,
}
