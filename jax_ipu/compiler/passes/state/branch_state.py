"""State of conditionals: captured values whose storage the results of `if` and `case` take, as those of loops do.

A conditional that has state reads it as operands behind its predicate, and each region has an argument for each of
them. Attributes: `state`, the position of the result that takes each operand, and `own`, whether the operand gives its
storage; otherwise it is copied to new storage before the branch is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from jax_ipu.compiler.ir import LOOPS, VIEWS, Block, Op, Value, clone_ops

BRANCHES = frozenset(("if", "case"))
UPDATES = frozenset(("dynamic_update_slice", "ipu.update_slice", "scatter"))

# What a branch may do with the value that it returns, the cheapest first: it changes parts of it, or computes all anew.
_CHANGED, _MADE = 2, 1


def captured(op: Op) -> Set[Value]:
    """The values of outer blocks that the regions of `op` read, in program order."""
    inner = [nested for region in op.regions for nested in region.walk()]
    local = {value for nested in inner for value in nested.results}
    for block in (*op.regions, *(region for nested in inner for region in nested.regions)):
        local.update(block.args)
    return dict.fromkeys(value for nested in inner for value in nested.operands if value not in local).keys()


def candidates(op: Op, position: int, outside: Set[Value]) -> dict[Value, tuple[int, bool]]:
    """What may be the storage of a result: captured values of its type.

    Returns:
        For each value how well it suits, and whether the result is that value with parts changed in every branch.
    """
    wanted = op.results[position]
    found: dict[Value, list[int]] = {}
    for region in op.regions:
        for value, how in _origins(region.results[position], outside).items():
            if value.shape == wanted.shape and value.dtype == wanted.dtype:
                found.setdefault(value, []).append(how)
    return {value: (sum(how), how == [_CHANGED] * len(op.regions)) for value, how in found.items()}


def _origins(result: Value, outside: Set[Value]) -> dict[Value, int]:
    """The captured values that a result of a branch comes from by ops that can write over their operands."""
    found: dict[Value, int] = {}
    seen: set[tuple[Value, int]] = set()
    pending = [(result, _CHANGED)]
    while pending:
        value, how = pending.pop()
        if (value, how) in seen:
            continue
        seen.add((value, how))
        if value in outside:
            found[value] = max(how, found.get(value, 0))
            continue
        op = value.op
        if op is None:
            continue
        if op.name in UPDATES or op.name in LOOPS:
            pending.append((op.operands[value.index], how))
        elif op.name in BRANCHES:
            pending += [(region.results[value.index], how) for region in op.regions]
        elif op.name == "ipu.map":
            pending += [(o, _MADE) for o in op.operands if o.shape == value.shape and o.dtype == value.dtype]
    return found


def sink_views(op: Op, state: Value, outside: Set[Value]) -> bool:
    """Makes the views of `state` that the regions capture anew in each region; returns whether there are any."""
    found = False
    for view in outside:
        chain: list[Op] = []
        value = view
        while value is not state and value.op is not None and value.op.name in VIEWS and len(value.op.operands) == 1:
            chain.append(value.op)
            value = value.op.operands[0]
        if value is not state or not chain or any(link.attrs.get("copy") for link in chain):
            continue
        found = True
        for region in op.regions:
            if any(view in nested.operands for nested in region.walk()):
                mapping: dict[Value, Value] = {}
                copies = clone_ops(Block([], chain[::-1]), mapping)
                for inner in region.ops:
                    replace_uses(inner, view, mapping[view])
                region.ops[:0] = copies
    return found


def give(op: Op, states: Sequence[Value], positions: Sequence[int], own: Sequence[bool]) -> None:
    """Makes operands of captured values: `states[i]` becomes the result `positions[i]`."""
    op.set_operands([*op.operands, *states])
    op.attrs["state"], op.attrs["own"] = tuple(positions), tuple(own)
    for region in op.regions:
        for state in states:
            arg = Value(state.shape, state.dtype, None, len(region.args))
            for inner in region.ops:
                replace_uses(inner, state, arg)
            region.args.append(arg)


def replace_uses(op: Op, old: Value, new: Value) -> None:
    """Makes the op, and the ops in its regions, use `new` in place of `old`."""
    for user in (op, *(inner for region in op.regions for inner in region.walk())):
        if old in user.operands:
            user.set_operands([new if o is old else o for o in user.operands])
