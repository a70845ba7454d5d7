"""Updates of a row of a state, such as a layer of a stacked cache, change the state itself and not a copy of the row.

`x[l] = x[l].at[p].set(v)` reads a row, changes a part of it and writes all of it back: here it becomes an update of `x`
at (l, p). A scan over a cache writes what it makes of each row into a second array; where every trip replaces the row
that it reads, that array is the first one. Where the row has a fixed number, what reads the new row finds it in the
state, and a stack of all new rows is the state as well.
"""

from __future__ import annotations

from collections.abc import Callable

from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import Block, Module, Op, Value, clone_block
from jax_ipu.compiler.passes.rewriter import Rewriter
from jax_ipu.compiler.types import INTEGER, Literal, Shape, num_elements


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
        new = _without_row(op, counters, rewriter) or _without_fixed_rows(op, rewriter)
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
    counts = index in counters

    def is_row(read: Op) -> bool:
        if read.name != "dynamic_slice" or read.operands[0] is not state or read.result.shape[0] != 1:
            return False
        at = read.operands[1]
        return read.result.shape[1:] == state.shape[1:] and (at is index or (counts and _unwrapped(at) is index))

    updates = _updates(row, state.shape[1:], is_row)
    if not updates:
        return None
    index = rewriter.convert(index, _wide(index.dtype))
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


def _updates(row: Value, shape: Shape, is_row: Callable[[Op], bool]) -> list[Op] | None:
    """The updates that make `row` of a row of the state, first to last; `is_row`: whether an op reads that row."""
    found: list[Op] = []
    while row.op is not None:
        op = row.op
        if op.name in ("dynamic_slice", "slice"):
            return found[::-1] if is_row(op) else None
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


# Rows of fixed numbers ---------------------------------------------------------------------------------------------


def _without_fixed_rows(op: Op, rewriter: Rewriter) -> Value | None:
    """As `_without_row`, for an update at a fixed row, and for a stack of all rows."""
    if op.name == "concatenate":
        return _without_stack(op, rewriter)
    if op.name != "ipu.update_slice" or not _is_whole_row(op.operands[1], op.operands[0]):
        return None
    starts = op.attrs["start_indices"]
    state, row = op.operands
    if any(starts[1:]) or any(stride != 1 for stride in op.attrs["strides"]):
        return None
    updates = _updates(row, state.shape[1:], _reads_fixed_row(state, starts[0]))
    return _with_fixed_row(state, updates, starts[0], rewriter) if updates else None


def _without_stack(op: Op, rewriter: Rewriter) -> Value | None:
    """The state whose rows, each changed, the op stacks; None where it stacks other values."""
    source = _source(op.operands[0])
    if op.attrs["dimension"] != 0 or source is None or source.name != "slice":
        return None
    state = source.operands[0]
    if state.shape != op.result.shape or not 1 < len(op.operands) == state.shape[0] <= _MOST_STACKED:
        return None
    if not all(_is_whole_row(row, state) for row in op.operands):
        return None
    rows = [_updates(row, state.shape[1:], _reads_fixed_row(state, at)) for at, row in enumerate(op.operands)]
    places = [rewriter.ops.index(updates[-1]) for updates in rows if updates and updates[-1] in rewriter.ops]
    if len(places) < len(rows) or places != sorted(places):
        return None
    new: Value | None = state
    for at, updates in enumerate(rows):
        new = _with_fixed_row(new, updates, at, rewriter) if updates and new is not None else None
    return new


# More updates than this make a program long.
_MOST_STACKED = 128


def _is_whole_row(row: Value, state: Value) -> bool:
    return len(state.shape) > 1 and row.shape == (1, *state.shape[1:]) and num_elements(row.shape) > 0


def _reads_fixed_row(state: Value, at: int) -> Callable[[Op], bool]:
    """Whether an op reads row `at` of the state, or of what it was before other rows were changed."""

    def is_row(read: Op) -> bool:
        begins = (at, *(0 for _ in state.shape[1:]))
        if read.name != "slice" or read.attrs["start_indices"] != begins or any(s != 1 for s in read.attrs["strides"]):
            return False
        if read.result.shape != (1, *state.shape[1:]):
            return False
        before = state
        while before is not read.operands[0]:
            row = _changed_row(before)
            if row is None or row == at or before.op is None:
                return False
            before = before.op.operands[0]
        return True

    return is_row


def _changed_row(state: Value) -> int | None:
    """The fixed number of the only row that the update which made the state changes; None if there is none."""
    op = state.op
    if op is None or len(op.results) != 1 or op.name not in ("dynamic_update_slice", "ipu.update_slice"):
        return None
    if op.operands[1].shape[:1] != (1,):
        return None
    if op.name == "ipu.update_slice":
        return int(op.attrs["start_indices"][0])
    index = splat_of(op.operands[2])
    return None if index is None else max(0, min(int(index.scalar()), state.shape[0] - 1))


def _with_fixed_row(state: Value, updates: list[Op], at: int, rewriter: Rewriter) -> Value | None:
    """The state with the updates of row `at` where they make it: readers of the row then read it in the state."""
    made = updates[-1]
    if made not in rewriter.ops or any(user.name in _KEEPS for user in made.result.users):
        return None
    place = rewriter.ops.index(made) + 1
    if state.op in rewriter.ops[place:]:
        return None
    early = Rewriter()
    early.location = rewriter.location
    index, zero = (early.constant(Literal.full("s32", (), n)) for n in (at, 0))
    for update in updates:
        state = _LIFTED[update.name](update, state, index, zero, early)
    ends = (at + 1, *state.shape[1:])
    new_row = early.reshape(early.slice(state, (at, *(0 for _ in ends[1:])), ends), made.result.shape)
    rewriter.ops[place:place] = early.ops
    made.result.replace_with(new_row)
    return state


# A row that one of these keeps is needed beside the state, which would have to be copied.
_KEEPS = frozenset(("return", "while", "ipu.repeat"))


def _lift_dynamic(update: Op, state: Value, index: Value, zero: Value, rewriter: Rewriter) -> Value:
    _, part, *starts = update.operands
    dtype = _wide(starts[0].dtype) if starts else index.dtype
    starts = [rewriter.convert(start, dtype) for start in starts]
    operands = [state, rewriter.reshape(part, (1, *part.shape)), _row_as(dtype, index, state, rewriter), *starts]
    return rewriter.emit("dynamic_update_slice", operands, state.shape, state.dtype)


def _lift_fixed(update: Op, state: Value, index: Value, zero: Value, rewriter: Rewriter) -> Value:
    part = update.operands[1]
    fixed = splat_of(index)
    if fixed is not None:
        begins = (int(fixed.scalar()), *update.attrs["start_indices"])
        attrs = {"start_indices": begins, "strides": (1,) * len(begins)}
        operands = [state, rewriter.reshape(part, (1, *part.shape))]
        return rewriter.emit("ipu.update_slice", operands, state.shape, state.dtype, attrs)
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
    indices = rewriter.convert(indices, _wide(indices.dtype))
    # The row that dynamic_slice reads: a scatter leaves out what is outside.
    row = rewriter.convert(_clamped(index, state, rewriter), indices.dtype)
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
    body = clone_block(update.regions[0])
    return rewriter.emit("scatter", [state, indices, part], state.shape, state.dtype, attrs, [body])


def _wide(dtype: str) -> str:
    """An integer type that holds the values of a type and the positions in an array."""
    return "s32" if int(dtype[1:]) < 32 else dtype


def _clamped(index: Value, state: Value, rewriter: Rewriter) -> Value:
    """The row of the state that dynamic_slice reads at an index of at least 32 bits."""
    zero, last = (rewriter.constant(Literal.full(index.dtype, (), row)) for row in (0, state.shape[0] - 1))
    return rewriter.elementwise("clamp", zero, index, last, dtype=index.dtype)


def _row_as(dtype: str, index: Value, state: Value, rewriter: Rewriter) -> Value:
    """An index of a row in another type, in which what is outside of one type must not be a row of the state."""
    return index if dtype == index.dtype else rewriter.convert(_clamped(index, state, rewriter), dtype)


_LIFTED = {
    "dynamic_update_slice": _lift_dynamic,
    "ipu.update_slice": _lift_fixed,
    "scatter": _lift_scatter,
}
