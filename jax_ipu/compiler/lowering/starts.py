"""Chooses where the values start that products, slices and lookups place, by what is live on the tiles.

Blocks of one shape lie on the same tiles, always from the first one on: the last tiles stay free of what does not fill
all of them, while others are full. Values that elementwise ops read or make together stay together, and so does what a
loop carries; each such group starts where the fullest tile has the least when most is live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from jax_ipu.compiler.groups import Groups, carried
from jax_ipu.compiler.ir import LOOPS, Block, Op, Value, size_in_bytes
from jax_ipu.compiler.lowering.context import Context
from jax_ipu.compiler.mapping import MOVABLE, UPDATES, VIEWS, Demand, MappingPlan
from jax_ipu.compiler.types import SIZE, num_elements

Bytes = NDArray[np.int64]  # on each tile
# Tiles that share a bus receive what both need at twice the rate, so groups start with the first of a pair.
_PAIR = 2
# The fewest bytes that a linear mapping puts on a tile.
_LINEAR = 128
# Smaller values take hardly longer to reach an op from other tiles than the sync before.
_SMALL = 32 * 1024
# What the fullest tile must have less, as a part of it: a smaller gain hardly makes a program fit.
_WORTH_MOVING = 64


def settle(mapping: MappingPlan, trial: Callable[[], Context], main: Block) -> None:
    """Tells the mapping plan, if it asks for that, where the operands start that products and lookups place.

    Args:
        mapping, trial: as of `rivals.settle`.
        main: the whole program.
    """
    if not mapping.moves_starts or mapping.starts:
        return
    context = trial()
    demands = {value: demand for value in mapping.demands if (demand := mapping.demand(value)) is not None}
    together = _together(main, mapping, demands)
    stay = {
        together.root(value)
        for value, demand in demands.items()
        if demand.op.name not in MOVABLE or (demand.op, demand.operand) in mapping.own_tiles
    }
    fixed: Bytes = np.zeros(context.num_tiles, np.int64)
    moved: dict[Value, Bytes] = {}
    places: dict[tuple[Op, int, str], Bytes] = {}
    for value in _live_at_peak(main):
        demand = demands.get(value)
        if demand is None:
            fixed += _linear(value, mapping.first_tiles.get(value, 0), context.num_tiles)
            continue
        key = (demand.op, demand.operand, value.dtype)
        if key not in places:
            places[key] = _placed(context, demand, value)
        root = together.root(value)
        if root in stay:
            fixed += places[key]
        else:
            moved[root] = moved.get(root, 0) + places[key]
    starts = _spread(fixed, moved)
    placing = {demand.op for demand in demands.values()} | {op for op in main.walk() if op.name == "dot_general"}
    mapping.starts = {
        (op, i): start
        for op in placing
        for i, operand in enumerate(op.operands)
        if (start := starts.get(together.root(operand), 0))
    }


def _spread(fixed: Bytes, moved: dict[Value, Bytes]) -> dict[Value, int]:
    """Where each group starts, the largest blocks first; empty where that hardly helps."""
    tiles = len(fixed)
    load = fixed.copy()
    starts: dict[Value, int] = {}
    for root, own in sorted(moved.items(), key=lambda item: -int(item[1].max())):
        # Beside the fullest tile, what each tile has counts as well: the next groups find it even.
        needs = [(float(np.max(all_ := load + np.roll(own, s))), float(np.dot(all_, all_)), s) for s in _steps(tiles)]
        starts[root] = min(needs)[-1]
        load += np.roll(own, starts[root])
    before = fixed + sum(moved.values(), np.zeros_like(fixed))
    return starts if load.max() < before.max() - before.max() // _WORTH_MOVING else {}


def _steps(tiles: int) -> Iterable[int]:
    return range(0, tiles, _PAIR) if tiles % _PAIR == 0 else (0,)


def _placed(context: Context, demand: Demand, value: Value) -> Bytes:
    """Bytes on each tile of a value that is placed as demanded."""
    tensor = context.create(demand, "placed")
    if tensor is None:
        return _linear(value, 0, context.num_tiles)
    counts = np.array(context.graph.elements_on_tiles(tensor)[: context.num_tiles], np.int64)
    # A demand is for a value of another size as well, through views of a part.
    return counts * SIZE[value.dtype] * num_elements(value.shape) // max(1, num_elements(tensor.shape))


def _linear(value: Value, start: int, tiles: int) -> Bytes:
    size = size_in_bytes(value)
    used = max(1, min(tiles, size // _LINEAR))
    held: Bytes = np.zeros(tiles, np.int64)
    held[:used] = -(-size // used)
    return np.roll(held, start)


def _together(main: Block, mapping: MappingPlan, demands: dict[Value, Demand]) -> Groups:
    """The values that lie on the same tiles, or on tiles for the same elements, as long as none is moved."""
    groups = Groups()
    by_demand: dict[tuple[Op, int], list[Value]] = {}
    for value, demand in demands.items():
        by_demand.setdefault((demand.op, demand.operand), []).append(value)
    for values in by_demand.values():
        groups.join(values)
    for result, argument in mapping.partners.items():
        groups.join((result, argument))
    for op in main.walk():
        name = op.name
        for place in carried(op):
            groups.join(place)
        if name in ("ipu.map", "convert"):
            shape = op.results[0].shape
            groups.join(v for v in (*op.operands, *op.results) if v.shape == shape and _counts(v))
        elif name in UPDATES:
            groups.join((*op.operands[: len(op.results)], *op.results))
            if name != "scatter" and _counts(op.operands[1]):
                groups.join((op.operands[0], op.operands[1]))
        elif name == "dynamic_slice":
            if _counts(op.result):
                groups.join((op.operands[0], op.result))
        elif name in VIEWS and name != "broadcast_in_dim":
            for operand, result in zip(op.operands, op.results, strict=False):
                groups.join((operand, result))
    return groups


def _counts(value: Value) -> bool:
    """Whether an op loses much where the value is on other tiles than the rest that it reads or makes."""
    free = value.op is not None and value.op.name in ("constant", "broadcast_in_dim", "iota")
    return not free and size_in_bytes(value) >= _SMALL


def _live_at_peak(main: Block) -> list[Value]:
    """The values with storage of their own that are live where most bytes are, by the order of execution."""
    owner: dict[Value, Value] = {}

    def own(value: Value) -> Value:
        return owner.get(value, value)

    born: dict[Value, int] = dict.fromkeys(main.args, 0)
    dies: dict[Value, int] = {}
    for number, op in enumerate(main.ops):
        if op.name == "constant":
            continue
        for value in _read(op):
            dies[own(value)] = number
        over = op.attrs.get("write_over", {})
        for i, result in enumerate(op.results):
            if op.name in VIEWS:
                owner[result] = own(op.operands[min(i, len(op.operands) - 1)])
            elif i in over:
                owner[result] = own(over[i])
            elif op.attrs.get("in_place"):
                owner[result] = own(op.operands[i])
            elif op.name in LOOPS:
                state = op.regions[-1].args[i]
                owner[result] = owner[state] = own(op.operands[i]) if op.attrs["own"][i] else state
                born.setdefault(own(result), number)
            else:
                born[result] = number
    dies.update(dict.fromkeys(main.args, len(main.ops) - 1))
    changes = [0] * (len(main.ops) + 1)
    for value, first in born.items():
        changes[first] += size_in_bytes(value)
        changes[dies.get(value, first) + 1] -= size_in_bytes(value)
    peak = int(np.argmax(np.cumsum(changes)))
    return [v for v, first in born.items() if first <= peak <= dies.get(v, first)]


def _read(op: Op) -> Iterable[Value]:
    """What an op reads, in its regions as well."""
    yield from op.operands
    for region in op.regions:
        for inner in region.walk():
            yield from inner.operands
