"""Elementwise fusion: groups of elementwise ops of one shape become one op "ipu.map" with a scalar program.

Each group has one position in the block. An op joins the group of one of its operands in two cases: no op outside the
group has used the group so far, and the group moves down to the op; or all other operands exist at the position of the
group, and the op moves up. Either way every value is still computed before it is used. An op that `recompute.py` has
put behind the memory peak moves up to its like only: its result would be kept over the peak again.

Then groups that read components of the same tensors (`x[:, 0]` and `x[:, 1]`, `x[::2]` and `x[1::2]`) become one, not
where memory is short: the tensors are read once. The later group and the slices that it reads move up to the earlier
one.
"""

from __future__ import annotations

from collections.abc import Callable

from jax_ipu.compiler.expression import COST, ScalarBuilder, emit_ops, is_elementwise, splat_of
from jax_ipu.compiler.ir import Block, Module, Op, Value, size_in_bytes
from jax_ipu.compiler.types import Shape, num_elements

MAX_INSTRUCTIONS = 64
# Where memory is short, and a value takes this part of it: what lies between two groups would not fit.
MAX_INSTRUCTIONS_OF_LARGE, LARGE = 2048, 1 / 32
MAX_INPUTS = 16

# Ops that only show the elements of their operand.
_VIEWS = frozenset(("slice", "reshape", "transpose", "broadcast_in_dim"))

# Ops whose regions hold ops on tensors, not scalar bodies.
CONTROL_FLOW = frozenset(("while", "if", "case", "ipu.repeat"))


class _Group:
    __slots__ = ("closed", "inputs", "members", "most", "position", "shape")

    def __init__(self, op: Op, position: int, most: int) -> None:
        self.shape: Shape = op.results[0].shape
        self.members: list[Op] = [op]
        self.inputs: set[Value] = {o for o in op.operands if splat_of(o) is None}
        self.most = most
        self.position = position
        self.closed = False


def run(module: Module) -> None:
    """Fuses the elementwise ops of main."""
    if module.frugal:
        run_block(module.main.block, large=int(LARGE * module.memory))
    else:
        run_block(module.main.block, join=True)


def run_block(block: Block, join: bool = False, large: int | None = None) -> None:
    """Fuses the elementwise ops of the block, and of the regions of control flow inside.

    Args:
        block: changed in place.
        join: whether groups that read components of the same tensors become one.
        large: the bytes from which on groups may be long; none may if None.
    """
    group_of: dict[Op, _Group] = {}
    positions: dict[Op, int] = {}
    groups: list[_Group] = []
    # For each position the ops that are not fused, and the groups.
    slots: list[list[Op | _Group]] = []
    for position, op in enumerate(block.ops):
        slots.append([])
        if op.name in CONTROL_FLOW:
            for region in op.regions:
                run_block(region, join, large)
                _close_used(region, group_of)
        if not is_elementwise(op):
            for operand in op.operands:
                group = group_of.get(operand.op) if operand.op is not None else None
                if group is not None:
                    group.closed = True
            positions[op] = position
            slots[position].append(op)
            continue
        group = _join(op, position, group_of, positions)
        for operand in op.operands:
            other = group_of.get(operand.op) if operand.op is not None else None
            if other is not None and other is not group:
                other.closed = True
        if group is None:
            is_large = large is not None and size_in_bytes(op.results[0]) >= large
            group = _Group(op, position, MAX_INSTRUCTIONS_OF_LARGE if is_large else MAX_INSTRUCTIONS)
            groups.append(group)
        group_of[op] = group
    groups = [group for group in groups if group.members]  # a group without members was merged into another one
    moved = _join_readers(groups, group_of, positions) if join else {}
    for op, position in moved.items():
        slots[positions[op]].remove(op)
        slots[position].append(op)
    for group in groups:
        if group.members:
            slots[group.position].append(group)
    ops: list[Op] = []
    for slot in slots:
        for item in slot:
            ops.append(_emit(item) if isinstance(item, _Group) else item)
    block.ops = ops


def _join_readers(groups: list[_Group], group_of: dict[Op, _Group], positions: dict[Op, int]) -> dict[Op, int]:
    """Merges groups that read components of the same tensors.

    Returns:
        the views that move up, each after those that it shows, and the positions that they move to.
    """
    moved: dict[Op, int] = {}
    readers: dict[tuple[Shape, Value], _Group] = {}  # the last group of a shape that reads components of a tensor

    def position_of(value: Value) -> int:
        if value.op in moved:
            return moved[value.op]
        return _position_of(value, group_of, positions)

    for group in sorted(groups, key=lambda group: group.position):
        if num_elements(group.shape) == 1:
            continue
        made = {member.results[0] for member in group.members}
        read = dict.fromkeys(o for m in group.members for o in m.operands if o in group.inputs and o not in made)
        views = {value: _views(value, positions) for value in read}
        sources = dict.fromkeys(
            chain[-1].operands[0] for chain in views.values() if any(_is_component(view) for view in chain)
        )
        first = None
        if not any(member.attrs.get("recomputed") for member in group.members):
            candidates = (readers.get((group.shape, source)) for source in sources)
            first = next((c for c in candidates if c is not None and _can_join(group, c, views, position_of)), None)
        if first is None:
            readers.update({(group.shape, source): group for source in sources})
            continue
        for chain in views.values():
            for view in reversed(chain):
                if position_of(view.result) > first.position:  # otherwise it is there, maybe shown by others
                    moved.pop(view, None)  # what is moved again comes after what it shows
                    moved[view] = first.position
        first.members.extend(group.members)
        first.inputs |= group.inputs
        for member in group.members:
            group_of[member] = first
        group.members = []
    return moved


def _can_join(group: _Group, first: _Group, views: dict[Value, list[Op]], position_of: Callable[[Value], int]) -> bool:
    """Whether all that the group reads can exist where the first one is."""
    sources = (chain[-1].operands[0] if chain else value for value, chain in views.items())
    return _fits(first, group.inputs, group.members, 0) and all(position_of(s) < first.position for s in sources)


def _is_component(op: Op) -> bool:
    """Whether an op shows one of several elements of a dimension, or every second or later one (`x[..., ::2]`)."""
    if op.name != "slice":
        return False
    extents = zip(op.operands[0].shape, op.result.shape, op.attrs["strides"], strict=True)
    return any(whole > part and (part == 1 or stride > 1) for whole, part, stride in extents)


def _views(value: Value, positions: dict[Op, int]) -> list[Op]:
    """The views of the block through which a value shows another one, the last first."""
    views: list[Op] = []
    while value.op is not None and value.op.name in _VIEWS and value.op in positions:
        views.append(value.op)
        value = value.op.operands[0]
    return views


def _close_used(region: Block, group_of: dict[Op, _Group]) -> None:
    for op in region.walk():
        for operand in op.operands:
            group = group_of.get(operand.op) if operand.op is not None else None
            if group is not None:
                group.closed = True


def _position_of(value: Value, group_of: dict[Op, _Group], positions: dict[Op, int]) -> int:
    """The position from which on the value exists; -1 for arguments and values of outer blocks."""
    op = value.op
    if op is None:
        return -1
    group = group_of.get(op)
    return group.position if group is not None else positions.get(op, -1)


def _join(op: Op, position: int, group_of: dict[Op, _Group], positions: dict[Op, int]) -> _Group | None:
    shape = op.results[0].shape
    candidates: list[_Group] = []
    for operand in op.operands:
        group = group_of.get(operand.op) if operand.op is not None else None
        if group is not None and group.shape == shape and group not in candidates:
            candidates.append(group)
    inputs = {o for o in op.operands if splat_of(o) is None}
    moving = [g for g in candidates if not g.closed]
    if moving:
        # Merge all open groups at the position of the op.
        target = moving[0]
        for group in moving[1:]:
            if _fits(target, group.inputs | inputs, group.members, 1):
                target.members.extend(group.members)
                target.inputs |= group.inputs
                for member in group.members:
                    group_of[member] = target
                group.members = []
        if _fits(target, inputs, [], 1):
            target.members.append(op)
            target.inputs |= inputs
            target.position = position
            return target
        return None
    for group in candidates:
        if op.attrs.get("recomputed") and not any(member.attrs.get("recomputed") for member in group.members):
            continue
        others = [o for o in op.operands if o.op is None or group_of.get(o.op) is not group]
        ready = all(_position_of(o, group_of, positions) < group.position for o in others if splat_of(o) is None)
        if ready and _fits(group, inputs, [], 1):
            group.members.append(op)
            group.inputs |= inputs
            return group
    return None


def _fits(group: _Group, inputs: set[Value], members: list[Op], instructions: int) -> bool:
    """Whether the group may take in `members` and as many more instructions, which have these inputs."""
    if len(group.members) + len(members) + instructions > group.most:
        return False
    if len(group.inputs) + len(inputs) <= MAX_INPUTS:
        return True
    made = {m.results[0] for part in (group.members, members) for m in part}
    return len((group.inputs | inputs) - made) <= MAX_INPUTS


def _emit(group: _Group) -> Op:
    members = group.members
    inside = set(members)
    builder = ScalarBuilder()
    inputs: list[Value] = []
    made = {m.results[0] for m in members}
    seen: set[Value] = set()
    for member in members:
        for operand in member.operands:
            if operand in made or operand in seen:
                continue
            if splat_of(operand) is not None:
                continue
            seen.add(operand)
            inputs.append(operand)
    if not inputs:
        # All operands are constants: one stays a tensor, because the expression needs a shape.
        inputs.append(members[0].operands[0])
    for value in inputs:
        builder.add_input(value)
    members = _in_order(members, made)
    emit_ops(builder, members)
    outputs = [m.results[0] for m in members if any(user not in inside for user in m.results[0].users)]
    program = builder.finish(builder.registers[o] for o in outputs)
    last = members[-1]
    cost = sum(COST[m.name] for m in members)
    op = Op(
        "ipu.map",
        inputs,
        [(o.shape, o.dtype) for o in outputs],
        {"program": program, "cost": cost, "names": tuple(m.name for m in members)},
        (),
        last.location,
    )
    for old, new in zip(outputs, op.results, strict=True):
        users = [user for user in old.users if user not in inside]
        for user in set(users):
            user.operands = [new if o is old else o for o in user.operands]
        new.users.extend(users)
        old.users = [user for user in old.users if user in inside]
    for member in reversed(members):
        member.drop()
    return op


def _in_order(members: list[Op], made: set[Value]) -> list[Op]:
    """The members, each after those that it reads: merging groups mixes their order."""
    done: set[Op] = set()
    order: list[Op] = []

    for member in members:
        stack = [member]
        while stack:
            op = stack[-1]
            if op in done:
                stack.pop()
                continue
            missing = [o.op for o in op.operands if o in made and o.op is not None and o.op not in done]
            if missing:
                stack.extend(missing)
                continue
            done.add(op)
            order.append(op)
            stack.pop()
    return order
