"""Computes only what is read: a slice or a gather of a computed tensor reads what the tensor is computed from instead.

Only where reads of small parts are all that uses the tensor, as for masks (`arange(n) < i` at a few rows) and for
gradients that are zero outside some rows. Ops are visited from the last to the first, so that a read moves up through
any number of ops. All values are exactly those of the elements that are read.

In a loop, what is read of `arange(n)` or of a few ops on it is computed from the trip number: the table is outside, and
stays for whoever reads it there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from jax_ipu.compiler.expression import is_elementwise, splat_of
from jax_ipu.compiler.ir import Block, Module, Op, Value
from jax_ipu.compiler.passes.indices.positions import read_of_iota, read_of_update
from jax_ipu.compiler.passes.indices.windows import READS, Spread, Window
from jax_ipu.compiler.passes.rewriter import Rewriter
from jax_ipu.compiler.types import Shape, num_elements

# A read at run time costs about as much as an elementwise op on this number of elements.
LARGE = 1 << 16
_MAX_READS = 4
_MAX_ROUNDS = 4
# Elementwise ops between an iota and a read in a loop, which then run in every trip.
_MAX_COUNTED = 3
_UPDATES = frozenset(("dynamic_update_slice", "ipu.update_slice", "scatter", "pad"))


def run(module: Module) -> None:
    """Moves the reads of every block of main."""
    _run_block(module.main.block)


def _run_block(block: Block) -> None:
    for op in block.ops:
        for region in op.regions:
            if op.name in ("while", "ipu.repeat", "if", "case"):
                _run_block(region)
    _read_counted(block)
    # A read of a broadcast may be one of a view, which is not among the ops that were visited.
    for _ in range(_MAX_ROUNDS):
        local = set(block.ops)
        replaced: dict[Op, list[Op]] = {}
        for op in reversed(block.ops):
            if len(op.results) == 1 and op.result.users and _is_read_in_parts(op, local):
                _move_reads(op, local, replaced)
        if not replaced:
            return
        block.ops = [kept for op in block.ops for kept in _flat(op, replaced)]


def _flat(op: Op, replaced: dict[Op, list[Op]]) -> Iterator[Op]:
    if op not in replaced:
        yield op
        return
    for new in replaced[op]:
        yield from _flat(new, replaced)


def _read_counted(block: Block) -> None:
    """Computes what the block's reads take of counted values outside of it."""
    local = set(block.ops)
    replaced: dict[Op, list[Op]] = {}
    reads = [op for op in block.ops if op.name in READS and op.name != "slice"]
    while reads:
        read = reads.pop()
        table = read.operands[0].op
        if table is None or table in local or table.results[0] in read.operands[1:] or not _is_counted(table):
            continue
        if not 0 < 2 * num_elements(read.result.shape) <= num_elements(table.result.shape):
            continue
        rewriter = Rewriter()
        rewriter.location = read.location
        new = _read(table, Window.of_read(read), read, rewriter)
        if new is None:
            for unused in reversed(rewriter.ops):
                unused.drop()
            continue
        read.result.replace_with(new)
        read.drop()
        replaced[read] = rewriter.ops
        local.update(rewriter.ops)
        reads.extend(op for op in rewriter.ops if op.name in READS and op.name != "slice")
    if replaced:
        block.ops = [kept for op in block.ops for kept in _flat(op, replaced)]


def _is_counted(op: Op, most: int = _MAX_COUNTED) -> bool:
    """Whether the op is an iota, or at most so many elementwise ops of one and of constants."""
    if op.name == "iota":
        return True
    if most == 0 or len(op.results) != 1 or not is_elementwise(op):
        return False
    moving = [operand for operand in op.operands if splat_of(operand) is None]
    return len(moving) == 1 and moving[0].op is not None and _is_counted(moving[0].op, most - 1)


def _is_read_in_parts(op: Op, local: set[Op]) -> bool:
    """Whether the op can be computed in parts, and only small parts of its result are read."""
    users = op.result.users
    if len(users) > _MAX_READS:
        return False
    for user in users:
        if user not in local or user.name not in READS or op.result in user.operands[1:]:
            return False
        if num_elements(user.result.shape) == 0:
            return False
    size, read = num_elements(op.result.shape), sum(num_elements(user.result.shape) for user in users)
    if 2 * read > size:
        return False
    if op.name in ("iota", "broadcast_in_dim"):
        return True
    if op.name == "reshape":
        return _without_units(op.result.shape) == _without_units(op.operands[0].shape) and _is_computed(op)
    if op.name == "slice":
        return all(_reads_lines(op, user) for user in users)
    if op.name in _UPDATES:
        return size >= LARGE
    if not is_elementwise(op):
        return False
    moving = sum(1 for user in users if user.name != "slice")
    more = moving * (sum(1 for operand in op.operands if _takes_a_read(operand)) - 1)
    return more <= 0 or (size >= LARGE and 16 * read <= size)


def _without_units(shape: Shape) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)


def _is_computed(view: Op) -> bool:
    """Whether the operand of a view is worth reading in parts: views of a tensor that is there cost nothing."""
    op = view.operands[0].op
    return op is not None and len(op.results) == 1 and op.name != "constant"


def _reads_lines(op: Op, read: Op) -> bool:
    """Whether the read of a slice begins, along every dimension that is cut, where the slice does, and has all of it.

    Then it is a slice of a read, which finds the rows of a state where they lie.
    """
    if read.name == "slice":
        return False
    window = Window.of_read(read)
    whole = op.operands[0].shape
    for d, (n, extent) in enumerate(zip(op.result.shape, whole, strict=True)):
        if n != extent and (op.attrs["strides"][d] != 1 or window.sizes[d] != n):
            return False
    return window.name == "dynamic_slice" or not window.attrs["dimension_numbers"]["operand_batching_dims"]


def _takes_a_read(value: Value) -> bool:
    if splat_of(value) is not None:
        return False
    return value.op is None or value.op.name not in ("iota", "broadcast_in_dim")


def _move_reads(op: Op, local: set[Op], replaced: dict[Op, list[Op]]) -> None:
    moved: list[tuple[Op, Value, list[Op]]] = []
    for read in list(op.result.users):
        rewriter = Rewriter()
        rewriter.location = read.location
        new = _read(op, Window.of_read(read), read, rewriter)
        if new is None:
            for unused in reversed([*(made for _, _, ops in moved for made in ops), *rewriter.ops]):
                unused.drop()
            return
        moved.append((read, new, rewriter.ops))
    for read, new, ops in moved:
        read.result.replace_with(new)
        read.drop()
        replaced[read] = ops
        local.discard(read)
        local.update(ops)
    op.drop()
    replaced[op] = []
    local.discard(op)


def _read(op: Op, window: Window, read: Op, rewriter: Rewriter) -> Value | None:
    """What `window` reads of the result of `op`, which `read` does as the program stands."""
    if op.name == "iota":
        return read_of_iota(op, window, rewriter)
    if op.name == "broadcast_in_dim":
        return window.read_spread(Spread.of(op.result, rewriter), rewriter)
    if op.name in _UPDATES:
        return read_of_update(op, window, rewriter)
    if op.name == "reshape":
        same = window.of_units(op.operands[0].shape, rewriter)
        return None if same is None else rewriter.reshape(same.read(op.operands[0], rewriter), window.shape)
    if op.name == "slice":
        return _slice_of_read(op, window, rewriter)
    parts = [_part(operand, window, rewriter) for operand in op.operands]
    return rewriter.emit(op.name, parts, read.result.shape, op.result.dtype, dict(op.attrs))


def _slice_of_read(op: Op, window: Window, rewriter: Rewriter) -> Value | None:
    """What the window reads of a slice, read from the whole along the dimensions that are cut."""
    whole = op.operands[0].shape
    cut = [d for d, n in enumerate(op.result.shape) if n != whole[d]]
    sizes = tuple(whole[d] if d in cut else n for d, n in enumerate(window.sizes))
    begins, shape = [0] * len(window.shape), list(window.shape)
    if window.name == "gather":
        numbers = dict(window.attrs["dimension_numbers"])
        places = dict(zip(window.inner_dims(), numbers["offset_dims"], strict=True))
        if any(d not in places for d in cut):
            return None
    else:
        places = {d: d for d in range(len(whole))}
    for d in cut:
        begins[places[d]], shape[places[d]] = op.attrs["start_indices"][d], whole[d]
    attrs = {**window.attrs, "slice_sizes": sizes}
    lines = replace(window, operand=whole, shape=tuple(shape), attrs=attrs).read(op.operands[0], rewriter)
    ends = tuple(b + n for b, n in zip(begins, window.shape, strict=True))
    return rewriter.slice(lines, tuple(begins), ends)


def _part(value: Value, window: Window, rewriter: Rewriter) -> Value:
    literal = splat_of(value)
    return window.read(value, rewriter) if literal is None else rewriter.constant(literal.reshaped(window.shape))
