"""An all-reduce of which each device keeps a part becomes a reduce-scatter, which sends half and needs no whole result.

The partitioner sums the gradient of weights that are split over the devices so: all-reduce, then the device's own part.
Both must be in one block: in a branch or loop that reads a sum from outside, devices may not meet, or meet again.
"""

from __future__ import annotations

from collections.abc import Callable

from jax_ipu.compiler.ir import Block, Module, Op, Value, blocks_of, clone_block, size_in_bytes
from jax_ipu.compiler.passes.collectives.combine_collectives import MAX_BYTES_OF_PAIRS
from jax_ipu.compiler.passes.rewriter import Rewriter, rewrite
from jax_ipu.compiler.replica_groups import Groups, groups_of
from jax_ipu.compiler.types import INTEGER, SIZE, num_elements

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "subtract": lambda a, b: a - b,
    "divide": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    # Quotients and remainders by powers of two.
    "shift_right_logical": lambda a, b: a >> b,
    "and": lambda a, b: a & b,
}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
}
_DIVIDES = frozenset(("divide", "remainder"))
_SAME = frozenset(("convert", "reshape"))


def run(module: Module) -> None:
    """Applies to all ops of main in a program for several partitions; small sums stay, as they are combined."""
    if module.num_partitions > 1 and module.num_replicas == 1:
        made: dict[Op, Value] = {}
        blocks = blocks_of(module.main.block)
        count = module.num_partitions
        rewrite(module.main.block, {"dynamic_slice": lambda op, rewriter: _slice(op, rewriter, count, blocks, made)})


def _slice(op: Op, rewriter: Rewriter, count: int, blocks: dict[Op, Block], made: dict[Op, Value]) -> Value | None:
    """Rewrites the first slice of an all-reduce, and gives the others that result; `made`: by all-reduce."""
    whole = op.operands[0]
    total, order = _sum_of(whole)
    if total is None:
        return None
    if total in made:
        return made[total]
    if total.name != "all_reduce" or len(total.results) != 1 or size_in_bytes(whole) <= MAX_BYTES_OF_PAIRS:
        return None
    if any(blocks.get(user) is not blocks[total] for user in whole.users):
        return None
    groups = groups_of(total, count, 1)
    dims = {_own_part(user, whole, groups, count) for user in whole.users}
    dim = dims.pop()
    if dims or dim is None:
        return None
    attrs = {**total.attrs, "scatter_dimension": order[dim]}
    region = clone_block(total.regions[0])
    shape = [op.result.shape[order.index(d)] for d in range(len(order))]
    part = rewriter.emit("reduce_scatter", total.operands, tuple(shape), whole.dtype, attrs, (region,))
    made[total] = rewriter.transpose(part, order)
    return made[total]


def _sum_of(whole: Value) -> tuple[Op | None, tuple[int, ...]]:
    """The op of which `whole` is the only use, or the transpose of it, and the order of its dimensions in `whole`."""
    op = whole.op
    if op is not None and op.name == "transpose" and len(op.operands[0].users) == 1:
        return op.operands[0].op, tuple(op.attrs["permutation"])
    return op, tuple(range(len(whole.shape)))


def _own_part(user: Op, whole: Value, groups: Groups, count: int) -> int | None:
    """The dimension along which `user` slices the part of `whole` that has the place of its device in the group."""
    if user.name != "dynamic_slice":
        return None
    _, *begins = user.operands
    shape = user.result.shape
    cut = [d for d, (n, part) in enumerate(zip(whole.shape, shape, strict=True)) if n != part]
    if len(cut) != 1 or any(len(group) * shape[cut[0]] != whole.shape[cut[0]] for group in groups):
        return None
    (dim,) = cut
    parts = [place * shape[dim] for place in _places(groups, count)]
    return dim if _values(begins[dim], count) == parts else None


def _places(groups: Groups, count: int) -> list[int]:
    """The place of each partition in its group; -1 where it has none."""
    places = [-1] * count
    for group in groups:
        for place, partition in enumerate(group):
            places[partition] = place
    return places


def _values(value: Value, count: int) -> list[int] | None:
    """The whole number in `value` on each partition; None where it is not known, is negative, or may wrap."""
    op = value.op
    is_wide = value.dtype in INTEGER and SIZE[value.dtype] >= SIZE["s32"]
    if op is None or not (is_wide or value.dtype == "pred") or num_elements(value.shape) != 1:
        return None
    if op.name == "partition_id":
        return list(range(count))
    if op.name == "constant":
        return [int(op.attrs["value"].numpy().reshape(()))] * count
    if op.name == "dynamic_slice":
        return _looked_up(op, count)
    operands = [_values(operand, count) for operand in op.operands]
    known = [numbers for numbers in operands if numbers is not None and min(numbers) >= 0]
    if len(known) != len(operands):
        return None
    if op.name in _SAME:
        return known[0]
    if op.name == "select":
        return [a if p else b for p, a, b in zip(*known, strict=True)]
    if op.name == "compare":
        holds = _COMPARISONS[op.attrs["comparison_direction"]]
        return [int(holds(a, b)) for a, b in zip(*known, strict=True)]
    if op.name not in _ARITHMETIC or (op.name in _DIVIDES and 0 in known[1]):
        return None
    return [_ARITHMETIC[op.name](a, b) for a, b in zip(*known, strict=True)]


def _looked_up(op: Op, count: int) -> list[int] | None:
    table, *begins = op.operands
    if table.op is None or table.op.name != "constant" or len(begins) != 1:
        return None
    places = _values(begins[0], count)
    if places is None:
        return None
    numbers = table.op.attrs["value"].numpy()
    return [int(numbers[min(max(place, 0), len(numbers) - 1)]) for place in places]
