"""Stage "map": plans the tile mapping of arguments, constants and loop state.

Products, convolutions and indexed accesses demand a mapping of their operands. A demand propagates back through views,
elementwise ops and loops to the value that is allocated. Operands and results of an elementwise op share a demand, so
that weights, their momentum and their updates have the same mapping. Values without a demand are mapped linearly; small
ones start at different tiles (`first_tiles.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from jax_ipu.compiler.first_tiles import first_tiles
from jax_ipu.compiler.ir import LOOPS, Block, Module, Op, Value, body_of, size_in_bytes
from jax_ipu.compiler.location import source_line
from jax_ipu.compiler.pipeline import OptimizedProgram
from jax_ipu.compiler.program_io import Signature
from jax_ipu.compiler.stages import staged
from jax_ipu.compiler.stencils import Stencil, arrays, find
from jax_ipu.compiler.types import Shape, num_elements

# Views through which a demand propagates from the result to the operand.
_INVERTIBLE = frozenset(("transpose", "reshape", "optimization_barrier"))
# Tensors of fewer bytes do not fill a tile.
_TILE_OF_ITS_OWN = 1024
UPDATES = frozenset(("dynamic_update_slice", "ipu.update_slice", "scatter"))


# What is equal for demands of one mapping: the op, the number of its operand, the views up to it.
DemandKey = tuple[Op, int, tuple[Op, ...]]


class Demand:
    """The demand of `op` on the mapping of operand `operand`; `path`: the views from the value to the operand."""

    __slots__ = ("op", "operand", "path", "priority")

    def __init__(self, op: Op, operand: int, priority: int, path: tuple[Op, ...] = ()) -> None:
        self.op = op
        self.operand = operand
        self.priority = priority
        self.path = path

    def key(self) -> DemandKey:
        return self.op, self.operand, self.path

    def before(self, view: Op) -> Demand:
        return Demand(self.op, self.operand, self.priority, (view, *self.path))

    def reason(self) -> str:
        """Which op demands the mapping, for the tile map."""
        where = source_line(self.op.location)
        roles = ROLES.get(self.op.name, ("operand",))
        role = roles[min(self.operand, len(roles) - 1)]
        return f"{role} of {self.op.name}{f' at {where}' if where else ''}"


ROLES: dict[str, tuple[str, ...]] = {
    "dot_general": ("left side", "right side"),
    "convolution": ("input", "weights"),
    "dynamic_slice": ("sliced tensor",),
    "gather": ("table",),
    "dynamic_update_slice": ("updated tensor",),
    "scatter": ("updated tensor",),
    "ipu.tile_gather": ("gathered array",),
    "ipu.tile_map": ("operand",),
    "ipu.tile_put": ("array",),
    "slice": ("neighbours in",),
}
_PRIORITY = {"dot_general": 3, "convolution": 3, "gather": 2, "scatter": 2, "dynamic_slice": 1}
_PRIORITY["dynamic_update_slice"] = 1
# Users name the tiles of vertices, so these come before all others; a put may as well copy.
_VERTICES = 4
_PUTS = 1
_PRODUCTS = 3  # the priority of products and convolutions
_LOOKUPS = _PRIORITY["gather"]
_STENCILS = 0  # strips are slower at most
_SORTS = 5  # in place: another mapping would take their memory a second time
# Tables of fewer bytes are mapped as the product demands: comparing mappings costs compile time.
_LARGE_TABLE = 1 << 20
# Likewise: smaller states are mapped as a slice demands. Vectors then lie on one tile, which is slow sooner.
_LARGE_STATE = 1 << 18
_LARGE_VECTOR = 1 << 12
# Ops whose operands may start on any tile.
MOVABLE = frozenset(("dot_general", "dynamic_slice", "dynamic_update_slice", "gather", "scatter"))
# Ops that go over all elements.
PASSES = frozenset(("ipu.map", "reduce", "reduce_window", "concatenate", "pad", "sort", "ipu.sort_with_positions"))
VIEWS = frozenset(("transpose", "reshape", "slice", "reverse", "broadcast_in_dim", "optimization_barrier"))


@dataclass
class Rivals:
    """Lookups in a value whose mapping a product demands.

    Attributes:
        product: that demand.
        lookups: each gather and scatter, and how often it runs.
        products: how often products read or make such a value.
    """

    product: Demand
    lookups: dict[Op, int] = field(default_factory=dict)
    products: int = 0


@dataclass(eq=False)
class Slices:
    """Slices and lookups that decide the mapping of values over which other ops go as a whole.

    Attributes:
        keys: the demands for that mapping.
        lookups: each slice, update, gather and scatter in such a value, and how often it runs.
        passes: each elementwise op and reduction of a whole value, and how often it runs.
    """

    keys: set[DemandKey] = field(default_factory=set)
    lookups: dict[Op, int] = field(default_factory=dict)
    passes: dict[Op, int] = field(default_factory=dict)


class MappingPlan:
    """The demand that decides the mapping of each value; values without one are mapped linearly."""

    __slots__ = (
        "demands",
        "first_tiles",
        "in_strips",
        "moves_starts",
        "own_tiles",
        "partners",
        "preferred",
        "rivals",
        "slices",
        "starts",
        "stencils",
        "without_passes",
    )

    def __init__(
        self,
        demands: dict[Value, Demand],
        partners: dict[Value, Value],
        first_tiles: dict[Value, int],
        rivals: dict[DemandKey, Rivals],
        slices: list[Slices],
        own_tiles: dict[tuple[Op, int], int] | None = None,
        without_passes: frozenset[tuple[Op, int]] = frozenset(),
    ) -> None:
        self.demands = demands
        # Op and number of an operand that is to lie on one tile -> which of the last tiles: 1 is the last.
        self.own_tiles = own_tiles or {}
        # Key of the demand of a product for a large table -> the lookups that demand another mapping, and the demand
        # that costs fewest cycles, once the lowering has tried them.
        self.rivals = rivals
        self.preferred: dict[DemandKey, Demand | None] = {}
        # Slices whose demand the lowering may leave out: `preferred` is None for these.
        self.slices = slices
        # Lookups, and the numbers of their operands, in large values over which no op goes as a whole.
        self.without_passes = without_passes
        # First tile of values that are mapped linearly; tile 0 for others.
        self.first_tiles = first_tiles
        # Whether the lowering chooses the first tiles of what is demanded; op and number of the operand -> that tile,
        # once it has; tile 0 for others.
        self.moves_starts = False
        self.starts: dict[tuple[Op, int], int] = {}
        # Result of a product -> the argument that it updates, whose mapping the result takes.
        self.partners = partners
        # Op whose operand a stencil decides -> the stencil; and the plan without any, if there are some.
        self.stencils: dict[Op, Stencil] = {}
        self.in_strips: MappingPlan | None = None

    def leave_out_stencils(self) -> None:
        """Makes this the plan that no stencil changes."""
        other = self.in_strips
        if other is not None:
            for name in self.__slots__:
                setattr(self, name, getattr(other, name))

    @property
    def has_slices(self) -> bool:
        """Whether a slice, update, gather or scatter decides the mapping of a value."""
        settled = any(demand is not None and demand.key() != key for key, demand in self.preferred.items())
        return settled or any(
            demand.priority < _PRODUCTS and self.preferred.get(demand.key(), demand) is not None
            for demand in self.demands.values()
        )

    def demand(self, value: Value) -> Demand | None:
        """The demand that decides the mapping of the value."""
        demand = self.demands.get(value)
        return None if demand is None else self.preferred.get(demand.key(), demand)

    def reason(self, value: Value) -> str:
        demand = self.demand(value)
        return demand.reason() if demand is not None else "spread linearly"


@dataclass(frozen=True)
class MappedProgram:
    """The optimised program, and where its values live."""

    module: Module
    signature: Signature
    mapping: MappingPlan


@staged("map")
def map_tensors(program: OptimizedProgram, mode: str) -> MappedProgram:
    """Plans the tile mapping of the values of the program.

    Args:
        program: the optimised program.
        mode: "demand": all demands count; "apart": as well, and what would lie on the first tile as a whole has a tile
            of its own; "balanced": as "apart", and what is demanded starts on the tiles that have room; "products":
            only those of products and convolutions; "linear": none.
    """
    return MappedProgram(program.module, program.signature, plan(program.module, mode))


def plan(module: Module, mode: str) -> MappingPlan:
    """The mapping plan of a module; `mode` as for `map_tensors`."""
    in_strips = _plan(module, mode, {})
    stencils = find(module.main.block) if mode in ("demand", "apart", "balanced") else {}
    if not stencils:
        return in_strips
    made = _plan(module, mode, stencils)
    made.stencils = {stencil.op: stencil for stencil in stencils.values()}
    made.in_strips = in_strips
    return made


def _plan(module: Module, mode: str, stencils: dict[Shape, Stencil]) -> MappingPlan:
    demands: dict[Value, Demand] = {}
    partners: dict[Value, Value] = {}
    if mode != "linear":
        least = _PRODUCTS if mode == "products" else 0
        _visit(module.main.block, demands, partners, least, stencils)
        if demands:
            # A second visit: demands of earlier ops now reach the other operands of elementwise ops.
            _visit(module.main.block, demands, partners, least, stencils)
    runs = dict(_runs(module.main.block, 1)) if mode in ("demand", "apart", "balanced") and demands else {}
    first = first_tiles(module.main.block, demands)
    own_tiles = _own_tiles(demands) if mode in ("apart", "balanced") else {}
    slices = _slices(runs, demands)
    alone = frozenset(key[:2] for found in slices if not found.passes for key in found.keys)
    contested = [found for found in slices if found.passes]
    made = MappingPlan(demands, partners, first, _rivals(runs, demands), contested, own_tiles, alone)
    made.moves_starts = mode == "balanced"
    return made


def _own_tiles(demands: dict[Value, Demand]) -> dict[tuple[Op, int], int]:
    """A tile for each slice along all dimensions: it finds its operand on one tile, which would be the first."""
    tiles: dict[tuple[Op, int], int] = {}
    for demand in demands.values():
        operand = demand.op.operands[demand.operand]
        sizes = slice_sizes(demand.op)
        if sizes is None or size_in_bytes(operand) < _TILE_OF_ITS_OWN:
            continue
        if all(size == 1 or size != part for size, part in zip(operand.shape, sizes, strict=True)):
            tiles.setdefault((demand.op, demand.operand), len(tiles) + 1)
    return tiles


def slice_sizes(op: Op) -> Shape | None:
    """The shape of what a slice reads or an update writes; None for other ops."""
    if op.name == "dynamic_update_slice":
        return op.operands[1].shape
    return op.result.shape if op.name == "dynamic_slice" else None


def _slices(runs: dict[Op, int], demands: dict[Value, Demand]) -> list[Slices]:
    """The slices and lookups in large values; where there are passes, the demand may cost more in these than it saves.

    Values that one op goes over together are decided together.
    """
    found: dict[tuple[Op, int], Slices] = {}
    for op, times in runs.items():
        slices: Slices | None = None
        for demand in [demands[v] for v in _as_whole(op) if v in demands]:
            if _STENCILS < demand.priority < _PRODUCTS:
                own = found.setdefault((demand.op, demand.operand), Slices())
                own.keys.add(demand.key())
                slices = own if slices is None or slices is own else _joined(found, slices, own)
        if slices is not None:
            (slices.passes if op.name in PASSES else slices.lookups)[op] = times
    return [slices for slices in dict.fromkeys(found.values()) if slices.lookups]


def _joined(found: dict[tuple[Op, int], Slices], one: Slices, other: Slices) -> Slices:
    one.keys |= other.keys
    one.lookups.update(other.lookups)
    one.passes.update(other.passes)
    found.update({key: one for key, slices in found.items() if slices is other})
    return one


def _as_whole(op: Op) -> list[Value]:
    """The values that must be mapped alike for `op` to be fast: none for ops that are as fast with any mapping."""
    if op.name in PASSES:
        operands = [_viewed(o) for o in op.operands if _is_large(o)]
        return [v for v in (*operands, *op.results) if _is_large(v)]
    if _PRIORITY.get(op.name, _PRODUCTS) >= _PRODUCTS:
        return []
    changed = op.results if op.name in UPDATES else ()
    values = [*op.operands[: max(1, len(changed))], *changed]
    return [v for v in values if _is_large(v)]


def _is_large(state: Value) -> bool:
    is_vector = max(state.shape, default=1) == num_elements(state.shape)
    return size_in_bytes(state) >= (_LARGE_VECTOR if is_vector else _LARGE_STATE)


def _viewed(value: Value) -> Value:
    while value.op is not None and value.op.name in VIEWS:
        value = value.op.operands[0]
    return value


def _rivals(runs: dict[Op, int], demands: dict[Value, Demand]) -> dict[DemandKey, Rivals]:
    """The lookups in large tables whose mapping a product demands."""
    rivals: dict[DemandKey, Rivals] = {}
    for op, times in runs.items():
        if _PRIORITY.get(op.name) != _LOOKUPS or size_in_bytes(op.operands[0]) < _LARGE_TABLE:
            continue
        demand = demands.get(op.operands[0])
        if demand is not None and demand.priority == _PRODUCTS:
            rivals.setdefault(demand.key(), Rivals(demand)).lookups[op] = times
    if not rivals:
        return rivals
    for op, times in runs.items():
        if op.name not in ("dot_general", "convolution"):
            continue
        for value in (*op.operands, op.result):
            while value not in demands and value.op is not None and value.op.name in _INVERTIBLE:
                value = value.op.operands[0]
            demand = demands.get(value)
            for key, found in rivals.items():
                if demand is not None and (demand.op, demand.operand) == key[:2]:
                    found.products += times
    return rivals


def _runs(block: Block, times: int) -> Iterator[tuple[Op, int]]:
    """Each op of the block, and of the regions inside, with how often it runs; loops of unknown length run once."""
    for op in block.ops:
        yield op, times
        for region in op.regions if op.name in LOOPS or op.name in ("if", "case", "ipu.call") else ():
            yield from _runs(region, times * int(op.attrs.get("count", 1)))


def _visit(
    block: Block,
    demands: dict[Value, Demand],
    partners: dict[Value, Value],
    least: int,
    stencils: dict[Shape, Stencil],
) -> None:
    for op in reversed(block.ops):
        name = op.name
        priority = _PRIORITY.get(name)
        if priority is not None:
            if priority < least:
                continue
            # A scatter may have several states, which are mapped alike.
            operands = 2 if priority == _PRODUCTS else len(op.results) if name == "scatter" else 1
            for i in range(min(operands, len(op.operands))):
                _want(demands, op.operands[i], Demand(op, i, priority))
            if name in UPDATES:
                _keep_place(op, demands, partners)
        elif name in UPDATES:
            _keep_place(op, demands, partners)
        elif name in ("sort", "ipu.sort_with_positions"):
            for i in range(len(op.operands) if op.attrs.get("in_place") else 0):
                _want(demands, op.operands[i], Demand(op, i, _SORTS))
        elif name == "ipu.tile_map":
            for i in range(len(op.operands)):
                _want(demands, op.operands[i], Demand(op, i, _VERTICES))
        elif name == "ipu.tile_put":
            demand = demands.get(op.result)
            _want(demands, op.operands[0], Demand(op, 0, demand.priority if demand is not None else _PUTS))
        elif name == "slice" and stack_of(op) is not None:
            # The weights of a layer, by its number: each item of the stack lies as its product wants.
            demand = demands.get(op.result)
            if demand is not None and demand.priority == _PRODUCTS and least <= _PRODUCTS:
                _want(demands, op.operands[0], demand.before(op))
        elif name in _INVERTIBLE:
            for operand, result in zip(op.operands, op.results, strict=True):
                demand = demands.get(result)
                if demand is not None:
                    _want(demands, operand, demand.before(op))
                if name == "reshape" and result in partners:
                    partners.setdefault(operand, partners[result])
        elif name == "ipu.map":
            for array in arrays(op) if stencils else ():
                stencil = stencils.get(array.shape)
                if stencil is not None:
                    _want(demands, array, Demand(stencil.op, stencil.operand, _STENCILS))
            _share(op, demands, partners)
        elif name in ("pad", "concatenate") and stencils:
            _want_source(op, demands, stencils)
        elif name in LOOPS:
            body = op.regions[-1]
            for region in op.regions:
                _visit(region, demands, partners, least, stencils)
            for operand, arg, result in zip(op.operands, body.args, op.results, strict=True):
                _carry(demands, operand, [arg], result)
        elif name == "ipu.call":
            body = body_of(op)
            _visit(body, demands, partners, least, stencils)
            for operand, arg in zip(op.operands, body.args, strict=True):
                demand = demands.get(arg)
                if demand is not None:
                    _want(demands, operand, demand)
        else:
            for region in op.regions:
                if name in ("if", "case"):
                    _visit(region, demands, partners, least, stencils)
            for i, position in enumerate(op.attrs.get("state", ())):
                _carry(demands, op.operands[1 + i], [r.args[i] for r in op.regions], op.results[position])


def stack_of(view: Op) -> tuple[int, int] | None:
    """The dimension along which a slice takes one item, and the number of items; None for other slices."""
    shape = view.operands[0].shape
    cut = [d for d, (whole, part) in enumerate(zip(shape, view.result.shape, strict=True)) if whole != part]
    return (cut[0], shape[cut[0]]) if len(cut) == 1 and view.result.shape[cut[0]] == 1 else None


def _carry(demands: dict[Value, Demand], operand: Value, args: list[Value], result: Value) -> None:
    """Gives the first demand of the arguments that hold a carried value, or that of its result, to all of them."""
    demand = next((demands[value] for value in (*args, result) if value in demands), None)
    if demand is not None:
        for arg in args:
            demands.setdefault(arg, demand)
        _want(demands, operand, demand)


def _keep_place(op: Op, demands: dict[Value, Demand], partners: dict[Value, Value]) -> None:
    """Gives the operand of an update in place the demand of the result, if it has a higher priority than its own."""
    for operand, result in zip(op.operands, op.results, strict=False):
        demand = demands.get(result)
        if demand is not None and demand.priority > _PRIORITY.get(op.name, -1):
            _want(demands, operand, demand)
            if result in partners:
                partners.setdefault(operand, partners[result])


def _want_source(op: Op, demands: dict[Value, Demand], stencils: dict[Shape, Stencil]) -> None:
    """Where a stencil reads what an array was made longer to: the array lies in such blocks as well."""
    demand = demands.get(op.result)
    if demand is None or demand.priority != _STENCILS or demand.path:
        return
    number = max(range(len(op.operands)), key=lambda i: num_elements(op.operands[i].shape))
    source = op.operands[number]
    if 2 * num_elements(source.shape) > num_elements(op.result.shape):
        stencil = stencils[op.result.shape]
        own = stencils.setdefault(source.shape, stencil.source(op, number))
        _want(demands, source, Demand(own.op, own.operand, _STENCILS))


def _want(demands: dict[Value, Demand], value: Value, demand: Demand) -> None:
    known = demands.get(value)
    # Of demands with equal priority the first in program order wins: it is visited last.
    if known is None or known.priority <= demand.priority:
        demands[value] = demand


def _is_state(value: Value) -> bool:
    """Whether the value is an argument or loop state, or an item of such a stack."""
    if value.op is not None and value.op.name == "slice" and stack_of(value.op) is not None:
        value = value.op.operands[0]
    return value.op is None


# What makes these is cheap to read from anywhere, or takes so long per element that all tiles should share the work.
_FREE = frozenset({"broadcast_in_dim", "ipu.threefry2x32"})


def _share(op: Op, demands: dict[Value, Demand], partners: dict[Value, Value]) -> None:
    shape = op.results[0].shape
    best: Demand | None = None
    source: Value | None = None
    for value in (*op.operands, *op.results):
        demand = demands.get(value)
        if demand is not None and value.shape == shape and (best is None or demand.priority > best.priority):
            best, source = demand, value
    if best is None or source is None:
        return
    source = partners.get(source, source)
    updates = _is_state(source)  # which this op may update
    for operand in op.operands:
        producer = operand.op
        if operand.shape == shape and (producer is None or producer.name not in _FREE):
            if operand not in demands:
                demands[operand] = best
                if updates and source is not operand:
                    partners[operand] = source
    for result in op.results:
        if result not in demands:
            demands[result] = best
            if updates:
                partners[result] = source
