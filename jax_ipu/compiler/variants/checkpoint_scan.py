"""A gradient through a scan with `jax.checkpoint` around the scan's body, made of one that keeps all activations.

The forward loop stacks what the backward loop reads. Here it stacks only what enters each iteration, and the backward
loop computes the rest again.
"""

from __future__ import annotations

from dataclasses import dataclass

from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import Block, Module, Op, Value, clone_ops, has_effect, outside_operands, size_in_bytes
from jax_ipu.compiler.passes.rewriter import Rewriter
from jax_ipu.compiler.types import FLOAT, Shape


@dataclass(frozen=True)
class ScanPair:
    """A forward loop and the backward loop that reads what the forward loop stacks.

    Attributes:
        forward, backward: the ops "while".
        index: the row that an iteration of the forward loop writes.
        kept: the arguments of the forward loop's body that it stacks -> the stack.
        again: what the body computes and stacks -> where the backward loop's body reads its rows.
        back_index: the row that an iteration of the backward loop reads.
        length: the number of iterations.
    """

    forward: Op
    backward: Op
    index: Value
    kept: dict[Value, Value]
    again: dict[Value, list[Op]]
    back_index: Value
    length: int

    @property
    def bytes_again(self) -> int:
        """The bytes of the stacks that are not kept once their rows are computed again."""
        return self.length * sum(map(size_in_bytes, self.again))


def scan_pairs(module: Module) -> list[ScanPair]:
    """The pairs of loops in a program without calls whose forward loop stacks values that can be computed again."""
    loops = [op for op in module.main.block.ops if op.name == "while"]
    pairs = (_pair(one, other) for i, one in enumerate(loops) for other in loops[i + 1 :])
    return [pair for pair in pairs if pair is not None]


def _pair(forward: Op, backward: Op) -> ScanPair | None:
    body, back = forward.regions[1], backward.regions[1]
    kept: dict[Value, Value] = {}
    again: dict[Value, list[Op]] = {}
    indices: set[Value] = set()
    lengths: set[int] = set()
    back_indices: set[Value] = set()
    for argument, update, stack in zip(body.args, body.results, forward.results, strict=True):
        place = next((i for i, operand in enumerate(backward.operands) if operand is stack), None)
        if place is None or not _writes_row(update, argument) or back.results[place] is not back.args[place]:
            continue
        reads = [op for op in back.args[place].users if op is not back.terminator]
        if not all(_reads_row(op) for op in reads):
            continue
        assert update.op is not None
        row = update.op.operands[1]
        source = row.op.operands[0] if row.op and row.op.name in ("broadcast_in_dim", "reshape") else row
        indices.add(update.op.operands[2])
        lengths.add(stack.shape[0])
        back_indices.update(op.operands[1] for op in reads)
        if source in body.args:
            kept[source] = stack
        elif len(stack.users) == 1 and splat_of(source) is None:
            again[row] = reads
    if not again or not len(indices) == len(back_indices) == len(lengths) == 1:
        return None
    index = indices.pop()
    if any(map(has_effect, _needed(body, again, index))):
        return None
    return ScanPair(forward, backward, index, kept, again, back_indices.pop(), lengths.pop())


def checkpoint_body(module: Module, pair: ScanPair) -> None:
    """Makes the backward loop compute again what the forward loop stacks, in place."""
    forward, body = pair.forward, pair.forward.regions[1]
    needed = _needed(body, pair.again, pair.index)
    inputs = [a for a in body.args if a is not pair.index and any(a in outside_operands(op) for op in needed)]
    same = {a: forward.operands[a.index] for a in inputs if body.results[a.index] is a}
    stacks = dict(pair.kept)
    block, back = module.main.block, pair.backward.regions[1]
    for argument in inputs:
        if argument not in same and argument not in stacks:
            place = block.ops.index(forward)
            block.ops[place:place] = _stack(forward, argument, pair.index, pair.length)
            stacks[argument] = forward.results[-1]
    varying = {a for a in inputs if a not in same}
    for op in needed:
        if any(v in varying for v in outside_operands(op)):
            varying.update(op.results)
    first = min(back.ops.index(op) for reads in pair.again.values() for op in reads)
    made = Rewriter()
    copies = {pair.index: pair.back_index, **same}
    for argument in inputs:
        if argument not in same:
            copies[argument] = made.reshape(_read(made, stacks[argument], pair.back_index), argument.shape)
    # As JAX does it, behind a barrier: whatever an iteration reads is there before any of it is computed again.
    fixed = [op for op in needed if not any(v in varying for v in outside_operands(op))]
    before = clone_ops(Block([], fixed), copies)
    rest = [op for op in needed if op not in set(fixed)]
    read = dict.fromkeys(v for op in rest for v in outside_operands(op) if v in copies and splat_of(v) is None)
    gradients = [a for a in back.args if a.dtype in FLOAT and back.results[a.index] is not a and not _is_stack(back, a)]
    values = [*(copies[v] for v in read), *gradients]
    barrier = Op("optimization_barrier", [], [(v.shape, v.dtype) for v in values])
    for gradient, after in zip(gradients, barrier.results[len(read) :], strict=True):
        gradient.replace_with(after)
    barrier.set_operands(values)
    copies.update(zip(read, barrier.results[: len(read)], strict=True))
    back.ops[first:first] = [*made.ops, *before, barrier, *clone_ops(Block([], rest), copies)]
    for row, reads in pair.again.items():
        for op in reads:
            op.result.replace_with(copies[row])


def _writes_row(update: Value, stack: Value) -> bool:
    """Whether `update` is `stack` with one row written, which nothing else reads."""
    op = update.op
    if op is None or op.name != "dynamic_update_slice" or op.operands[0] is not stack or stack.users != [op]:
        return False
    return op.operands[1].shape == (1, *stack.shape[1:]) and _is_zero(op.operands[3:])


def _is_stack(body: Block, argument: Value) -> bool:
    """Whether the loop writes rows of the argument, or adds to it, and reads nothing else of it."""
    update = body.results[argument.index].op
    return update is not None and update.name in ("dynamic_update_slice", "add") and argument.users == [update]


def _reads_row(op: Op) -> bool:
    """Whether `op` reads one row of its operand."""
    if op.name != "dynamic_slice" or op.result.shape != (1, *op.operands[0].shape[1:]):
        return False
    return _is_zero(op.operands[2:])


def _is_zero(starts: list[Value]) -> bool:
    literals = [splat_of(start) for start in starts]
    return all(literal is not None and not literal.scalar() for literal in literals)


def _needed(body: Block, values: dict[Value, list[Op]], given: Value) -> list[Op]:
    """The ops of `body` that compute `values`, in order; `given` is known."""
    found: set[Op] = set()
    own = set(body.ops)
    pending = [v.op for v in values]
    while pending:
        op = pending.pop()
        if op in own and op not in found:
            assert op is not None
            found.add(op)
            pending += [v.op for v in outside_operands(op) if v is not given]
    return [op for op in body.ops if op in found]


def _stack(loop: Op, argument: Value, index: Value, length: int) -> list[Op]:
    """Makes `loop` stack an argument of its body as its last result; returns the ops of the stack's first value."""
    shape, dtype = (length, *argument.shape), argument.dtype
    before = Rewriter()
    loop.operands.append(first := before.full(shape, dtype, 0))
    first.users.append(loop)
    loop.results.append(Value(shape, dtype, loop, len(loop.results)))
    for region in loop.regions:
        region.args.append(Value(shape, dtype, None, len(region.args)))
    body = loop.regions[1]
    inside = Rewriter()
    row = inside.reshape(argument, (1, *argument.shape))
    zeros = [inside.full((), index.dtype, 0)] * len(argument.shape)
    written = inside.emit("dynamic_update_slice", [body.args[-1], row, index, *zeros], shape, dtype)
    body.terminator.set_operands([*body.results, written])
    body.ops[-1:-1] = inside.ops
    return before.ops


def _read(made: Rewriter, stack: Value, index: Value) -> Value:
    shape: Shape = (1, *stack.shape[1:])
    zeros = [made.full((), index.dtype, 0)] * (len(shape) - 1)
    return made.emit("dynamic_slice", [stack, index, *zeros], shape, stack.dtype, {"slice_sizes": shape})
