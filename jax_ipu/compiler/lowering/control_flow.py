"""Loops, branches and calls. Each carried value of a loop has one variable, which the body updates."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu import _ipu
from jax_ipu.compiler.ir import Block, Op, Value, body_of
from jax_ipu.compiler.lowering.context import Context
from jax_ipu.compiler.types import num_elements, pack_scalar


def write_results(context: Context, block: Block, destinations: dict[int, _ipu.Tensor], name: str) -> None:
    """Copies the results of a lowered block into their destinations.

    Args:
        context: the lowering.
        block: the block, which is lowered.
        destinations: position of a result -> the variable that must hold it; results written in place are there.
        name: the debug name of the copies.
    """
    aside = block.terminator.attrs.get("through_copy", frozenset())
    moves, before = [], []
    for position, destination in destinations.items():
        value = block.results[position]
        if num_elements(value.shape) == 0:
            continue
        source = context.tensor(value)
        if source is destination or source.is_same_view(destination):
            continue
        if position in aside:
            before.append((source, context.variable(source.dtype, source.shape, name)))
            source = before[-1][1]
        moves.append((source, destination))
    context.copy_all(before, name)
    context.copy_all(moves, name)


def _state(context: Context, op: Op, operands: Sequence[Value], args: Sequence[Value]) -> list[_ipu.Tensor]:
    """A variable for each value of the state of `op`, which holds its initial value and may be written."""
    name = context.name(op)
    variables, moves = [], []
    for operand, arg, own in zip(operands, args, op.attrs["own"], strict=True):
        initial = context.tensor(operand)
        if own:
            variables.append(initial)
            continue
        variable = context.allocate(arg, name)
        moves.append((initial, variable))
        variables.append(variable)
    context.copy_all(moves, name)
    return variables


def lower_while(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """A loop that tests its condition before each trip."""
    condition, body = op.regions
    name = context.name(op)
    state = _state(context, op, op.operands, body.args)
    for args in (condition.args, body.args):
        context.tensors.update(zip(args, state, strict=True))
    with context.nested(f"{name} condition") as condition_sequence:
        context.lower_ops(condition.ops)
        predicate = context.tensor(condition.results[0])
    if _writes_behind(body):
        return _writing_behind(context, op, state, condition_sequence, predicate)
    with context.nested(f"{name} body") as body_sequence:
        context.lower_ops(body.ops)
        write_results(context, body, dict(enumerate(state)), name)
    context.sequence.repeat_while_true(condition_sequence, predicate, body_sequence)
    return state


def _writes_behind(body: Block) -> bool:
    return any(op.name == "ipu.host_write" and "slot" in op.attrs for op in body.ops)


def _starts_next(op: Op) -> bool:
    """Whether the op starts a read for the next trip of its loop, if there is one."""
    inside = [inner for region in op.regions for inner in region.ops] if op.name == "if" else [op]
    return any(o.name == "ipu.read_ahead" and o.attrs.get("next") for o in inside)


def _writing_behind(
    context: Context, op: Op, state: list[_ipu.Tensor], condition: _ipu.Sequence, predicate: _ipu.Tensor
) -> Sequence[_ipu.Tensor]:
    """A loop of unknown length whose trips start the writes of the one before, if there was one."""
    body, name = op.regions[1], context.name(op)
    end = max((i + 1 for i, o in enumerate(body.ops) if _starts_next(o)), default=0)
    waiting = context.variable("pred", (), f"{name} written")
    no, yes = (context.scalar_constant("pred", pack_scalar("pred", flag)) for flag in (False, True))
    outer, context.writes_behind = context.writes_behind, _ipu.Sequence(f"{name} written")
    with context.nested(f"{name} body") as trip:
        context.lower_ops(body.ops[:end])
        with context.nested(f"{name} body") as rest:
            context.lower_ops(body.ops[end:])
            write_results(context, body, dict(enumerate(state)), name)
        trip.branch(waiting, context.writes_behind, _ipu.Sequence(name))
        trip.call(context.graph.add_function(rest))
        trip.copy(yes, waiting, name)
    context.sequence.copy(no, waiting, name)
    context.sequence.repeat_while_true(condition, predicate, trip)
    context.sequence.branch(waiting, context.writes_behind, _ipu.Sequence(name))
    context.writes_behind = outer
    return state


def lower_repeat(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """A loop with a trip count known at compile time."""
    body = op.regions[0]
    name = context.name(op)
    state = _state(context, op, op.operands, body.args)
    context.tensors.update(zip(body.args, state, strict=True))
    starts = [op for op in body.ops if _starts_next(op)]
    if starts or _writes_behind(body):
        return _overlapped(context, op, state, starts)
    with context.nested(f"{name} body") as sequence:
        context.lower_ops(body.ops)
        write_results(context, body, dict(enumerate(state)), name)
    context.sequence.repeat(op.attrs["count"], sequence)
    return state


def _overlapped(context: Context, op: Op, state: list[_ipu.Tensor], starts: list[Op]) -> Sequence[_ipu.Tensor]:
    """A loop whose trips start reads for the next one, but for the last trip, and writes of the one before."""
    body, name, count = op.regions[0], context.name(op), op.attrs["count"]
    end = body.ops.index(starts[-1]) + 1 if starts else 0
    outer, context.writes_behind = context.writes_behind, _ipu.Sequence(f"{name} written")
    parts = ([o for o in body.ops[:end] if o not in starts], starts, body.ops[end:])
    functions = []
    for part in parts:
        with context.nested(f"{name} body") as sequence:
            context.lower_ops(part)
            if part is parts[-1]:
                write_results(context, body, dict(enumerate(state)), name)
        functions.append(context.graph.add_function(sequence))
    take, start, compute = functions
    written = context.graph.add_function(context.writes_behind)
    context.writes_behind = outer
    with context.nested(f"{name} trip") as trip:
        for function in (take, start, written, compute):
            trip.call(function)
    for function in (take, start, compute):
        context.sequence.call(function)
    context.sequence.repeat(count - 2, trip)
    for function in (take, written, compute, written):
        context.sequence.call(function)
    return state


def lower_branches(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """if and case; an index of a case without a branch takes the last one. Some results lie in captured state."""
    name = context.name(op)
    positions = op.attrs.get("state", ())
    args = op.regions[0].args if op.regions else ()
    state = dict(zip(positions, _state(context, op, op.operands[1:], args) if positions else (), strict=True))
    made = {i: context.allocate(r, name) for i, r in enumerate(op.results) if i not in state}
    results = [state[i] if i in state else made[i] for i in range(len(op.results))]
    sequences = []
    for region in op.regions:
        context.tensors.update(zip(region.args, state.values(), strict=True))
        with context.nested(name) as sequence:
            context.lower_ops(region.ops)
            # Results with storage of their own first: they may read state that the others write over.
            write_results(context, region, made | state, name)
        sequences.append(sequence)
    chosen = context.tensor(op.operands[0])
    if op.name == "if":
        context.sequence.branch(chosen, *sequences)
    else:
        context.sequence.switch(chosen, list(enumerate(sequences[:-1])), sequences[-1])
    return results


def lower_call(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Calls a function; its variables are its own, so operands are copied in and results out."""
    name, body = context.name(op), body_of(op)
    function = context.functions.get(body)
    if function is None:
        context.tensors.update((arg, context.allocate(arg, name)) for arg in body.args)
        with context.nested(name) as sequence:
            context.lower_ops(body.ops)
        function = context.functions[body] = context.graph.add_function(sequence)
    operands = [context.tensor(operand) for operand in op.operands]
    context.copy_all(list(zip(operands, [context.tensors[arg] for arg in body.args], strict=True)), name)
    context.sequence.call(function)
    sources = [context.tensor(value) for value in body.results]
    results = [context.graph.clone(source, name) for source in sources]
    context.copy_all(list(zip(sources, results, strict=True)), name)
    return results


def lower_store(context: Context, op: Op) -> Sequence[_ipu.Tensor]:
    """Copies a value into the variable of the loop state or argument that must hold it at the end."""
    (target,) = op.attrs["write_over"].values()
    destination = context.tensor(target)
    context.sequence.copy(context.tensor(op.operands[0]), destination, context.name(op))
    return [destination]


LOWERINGS = {
    "ipu.store": lower_store,
    "while": lower_while,
    "ipu.repeat": lower_repeat,
    "if": lower_branches,
    "case": lower_branches,
    "ipu.call": lower_call,
}
