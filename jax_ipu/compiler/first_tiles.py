"""First tiles of small values: groups of values that are used together start on one tile, and follow each other.

A linear mapping fills as many tiles as a value needs, from tile 0 on: the scales, biases and statistics of many layers
would all be there, with the vertices and the exchange code for them. PopART's mapper starts each tensor where the one
before ends, and PopLibs starts the stages of reductions at a tile that it finds by a hash. Here values stay where the
others lie that an op reads or writes with them, so nothing is exchanged that was not before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from jax_ipu.compiler.groups import Groups, carried
from jax_ipu.compiler.ir import LOOPS, VIEWS, Block, Op, Value, body_of, size_in_bytes
from jax_ipu.compiler.types import num_elements

# The most bytes of a small value.
_SMALL = 32 * 1024
# The fewest bytes that a linear mapping puts on a tile, and those of the smallest share of a reduction's results.
_BYTES_ON_TILE = 128
_SHARE_OF_RESULTS = 8
# Tiles that share a bus receive what both need at twice the rate, so groups start with the first of a pair.
_PAIR = 2
# Ops whose results lie where their operands or the state that they write do, or start where they are told to.
_MOVED = VIEWS - {"bitcast_convert", "ipu.tile_put"} | {
    *("constant", "iota", "concatenate", "pad", "reduce", "ipu.map", "ipu.copy", "ipu.store", "ipu.update_slice"),
    *("all_reduce", "return"),
}


def first_tiles(block: Block, placed: Collection[Value]) -> dict[Value, int]:
    """The first tile of each small value that is mapped linearly; tile 0 for others.

    Args:
        block: main.
        placed: values whose mapping an op demands.
    """
    groups = _Groups(placed)
    groups.add(block.args)
    for op in block.walk():
        _join(groups, op)
    first = dict.fromkeys(groups.values, 0)
    starts: dict[Value, int] = {}
    end = 0
    tiles = groups.tiles()
    for value in groups.values:
        root = groups.root(value)
        if root in groups.fixed:
            continue
        if root not in starts:
            starts[root] = end
            end += -(-tiles[root] // _PAIR) * _PAIR
        first[value] = starts[root]
    _follow_updates(block, groups, first, end)
    return {value: tile for value, tile in first.items() if tile}


def _follow_updates(block: Block, groups: _Groups, first: dict[Value, int], end: int) -> None:
    """The same for states that are written over, and stay at tile 0 otherwise: states of one update lie alike."""
    written = {v for op in block.ops for v in op.attrs.get("write_over", {}).values()}
    known: dict[Value, int] = {}
    for op in block.ops:
        if not op.attrs.get("write_over"):
            continue
        read = (o for o in op.operands if o in written and o.shape == op.results[0].shape)
        states = dict.fromkeys((*op.attrs["write_over"].values(), *read))
        states_at_0 = [v for v in states if v in first and groups.root(v) in groups.fixed and v not in groups.placed]
        if not states_at_0:
            continue
        tile = next((known[v] for v in states_at_0 if v in known), end)
        if tile == end:
            end += -(-max(map(size_in_bytes, states_at_0)) // _BYTES_ON_TILE)
        known.update(dict.fromkeys(states_at_0, tile))
    first.update(known)


def _is_small(value: Value) -> bool:
    """Whether a value of several elements, which is no repeated scalar, is small."""
    if num_elements(value.shape) <= 1 or size_in_bytes(value) > _SMALL:
        return False
    while value.op is not None and value.op.name in VIEWS:
        value = value.op.operands[0]
    if value.op is not None and value.op.name == "constant":
        return not value.op.attrs["value"].splat
    return num_elements(value.shape) > 1


class _Groups(Groups):
    """Small values, in the order in which they were added, in groups that start on one tile.

    Attributes:
        placed: values whose mapping an op demands.
        fixed: the roots of groups that stay at tile 0.
        reduced: values that a reduction spreads thinner than a linear mapping.
    """

    def __init__(self, placed: Collection[Value]) -> None:
        super().__init__()
        self.placed = placed
        self.fixed: set[Value] = set()
        self.reduced: set[Value] = set()

    @property
    def values(self) -> Iterable[Value]:
        return self._parents.keys()

    def add(self, values: Iterable[Value], fixed: bool = False) -> None:
        """Adds the small ones, each as a group of its own if it is new."""
        for value in filter(_is_small, values):
            root = self.root(value) if value in self._parents else self._parents.setdefault(value, value)
            if fixed or value in self.placed:
                self.fixed.add(root)

    def join(self, values: Iterable[Value]) -> None:
        """Makes one group of the groups of the small ones."""
        small = list(filter(_is_small, values))
        self.add(small)
        joined = {self.root(value) for value in small}
        super().join(small)
        if not joined.isdisjoint(self.fixed):
            self.fixed.add(self.root(small[0]))

    def tiles(self) -> dict[Value, int]:
        """By root, the tiles that the largest value of the group takes."""
        tiles: dict[Value, int] = {}
        spread = {self.root(value) for value in self.reduced}
        for value in self._parents:
            root = self.root(value)
            share = _SHARE_OF_RESULTS if root in spread else _BYTES_ON_TILE
            tiles[root] = max(tiles.get(root, 0), -(-size_in_bytes(value) // share))
        return tiles


def _join(groups: _Groups, op: Op) -> None:
    """Joins the values of `op` that must start on one tile."""
    name = op.name
    if name == "return":
        return
    if name in LOOPS or name in ("if", "case"):
        for values in carried(op):
            groups.join(values)
    elif name == "ipu.call":
        # Its operands are copied.
        body = body_of(op)
        groups.add(body.args)
        for values in zip(body.results, op.results, strict=True):
            groups.join(values)
    else:
        used = [*op.operands, *op.results, *op.attrs.get("write_over", {}).values()]
        used += [place.concatenation.result for place in op.attrs.get("inside", {}).values()]
        groups.join(used)
        if name == "reduce":
            groups.reduced.update(filter(_is_small, op.results))
        if name not in _MOVED or (name == "ipu.map" and not _follows(op)) or (name in VIEWS and _is_part(op)):
            groups.add(used, fixed=True)


def _follows(op: Op) -> bool:
    """Whether the result of an elementwise op lies where one of its operands does, or what it writes over."""
    if op.attrs.get("write_over") or op.attrs.get("inside"):
        return True
    shape = op.results[0].shape
    makers = [o.op.name if o.op is not None else "" for o in op.operands if o.shape == shape]
    return any(maker not in ("constant", "broadcast_in_dim") for maker in makers)


def _is_part(view: Op) -> bool:
    """Whether a small result lies in a part of a large value, which starts at tile 0."""
    return _is_small(view.results[0]) and num_elements(view.operands[0].shape) > 1 and not _is_small(view.operands[0])
