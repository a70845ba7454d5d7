"""Stage "map": on which tiles arguments, constants and loop state are born.

Products, convolutions and indexed accesses ask for the layout of their operands. The demand travels back through views,
elementwise ops and loops to the value that is allocated; partners of elementwise ops take over each other's demand, so
weights, their momentum and their updates live alike. What nobody asks for is spread linearly, small states one behind
the other: the biases of many layers would fill the first tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

from jax_ipu.compiler.ir import Block, Module, Op, Value, body_of, size_in_bytes
from jax_ipu.compiler.location import source_line
from jax_ipu.compiler.pipeline import OptimizedProgram
from jax_ipu.compiler.program_io import Signature
from jax_ipu.compiler.types import num_elements

# Views that a layout can be carried through, against the data flow.
_INVERTIBLE = frozenset(("transpose", "reshape", "optimization_barrier"))
_LOOPS = frozenset(("while", "ipu.repeat"))
# Bytes of an argument that is spread over few tiles, and what the linear mapping puts on each of them at least.
_SMALL = 32 * 1024
_BYTES_ON_TILE = 128
_UPDATES = frozenset(("dynamic_update_slice", "scatter"))


class Demand:
    """Operand `operand` of `op` wants a layout; `path` are the views from the value to that operand."""

    __slots__ = ("op", "operand", "path", "priority")

    def __init__(self, op: Op, operand: int, priority: int, path: tuple[Op, ...] = ()) -> None:
        self.op = op
        self.operand = operand
        self.priority = priority
        self.path = path

    def before(self, view: Op) -> Demand:
        return Demand(self.op, self.operand, self.priority, (view, *self.path))

    def reason(self) -> str:
        """For the tile map: which op asked."""
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
}
_PRIORITY = {"dot_general": 3, "convolution": 3, "gather": 2, "scatter": 2, "dynamic_slice": 1}
_PRIORITY["dynamic_update_slice"] = 1
_PRODUCTS = 3  # the priority of products and convolutions


class MappingPlan:
    """Value -> the demand that decides where it lives; values without an entry are mapped linearly."""

    __slots__ = ("demands", "first_tiles", "partners")

    def __init__(
        self,
        demands: dict[Value, Demand],
        partners: dict[Value, Value],
        first_tiles: dict[Value, int],
    ) -> None:
        self.demands = demands
        # Of states that are spread linearly; others begin on tile 0.
        self.first_tiles = first_tiles
        # Result of a product -> the argument that it updates, which lies where the result should.
        self.partners = partners

    @property
    def has_slices(self) -> bool:
        """Whether anything lies as a slice, an update, a gather or a scatter asks."""
        return any(demand.priority < _PRODUCTS for demand in self.demands.values())

    def reason(self, value: Value) -> str:
        demand = self.demands.get(value)
        return demand.reason() if demand is not None else "spread linearly"


@dataclass(frozen=True)
class MappedProgram:
    """The optimised program, and where its values live."""

    module: Module
    signature: Signature
    mapping: MappingPlan


def map_tensors(program: OptimizedProgram, mode: str) -> MappedProgram:
    """Plans where the values of the program live.

    Args:
        program: the optimised program.
        mode: "demand": as all ops ask; "products": without slices, updates, gathers and scatters; "linear": no op asks.
    """
    return MappedProgram(program.module, program.signature, plan(program.module, mode))


def plan(module: Module, mode: str) -> MappingPlan:
    """`mode` "linear" ignores every demand, "products" those of slices, updates, gathers and scatters."""
    demands: dict[Value, Demand] = {}
    partners: dict[Value, Value] = {}
    if mode != "linear":
        least = _PRODUCTS if mode == "products" else 0
        _visit(module.main.block, demands, partners, least)
        if demands:
            # Again, now that earlier ops have spoken: partners of elementwise ops learn from each other.
            _visit(module.main.block, demands, partners, least)
    return MappingPlan(demands, partners, _first_tiles(module.main.block, demands))


def _first_tiles(block: Block, demands: dict[Value, Demand]) -> dict[Value, int]:
    """Of small arguments without a demand that are written over: each begins where the last one ends."""
    first: dict[Value, int] = {}
    end = 0
    updates = [op for op in block.ops if op.attrs.get("write_over")]
    written = {target for op in updates for target in op.attrs["write_over"].values()}
    for op in updates:
        shape = op.results[0].shape
        read = (o for o in op.operands if o in written and o.shape == shape)
        states = dict.fromkeys((*op.attrs["write_over"].values(), *read))
        small = [v for v in states if v not in demands and 1 < num_elements(v.shape) and size_in_bytes(v) <= _SMALL]
        if not small:
            continue
        known = [first[v] for v in small if v in first]
        first.update(dict.fromkeys(small, known[0] if known else end))
        if not known:
            end += -(-max(map(size_in_bytes, small)) // _BYTES_ON_TILE)
    return first


def _visit(block: Block, demands: dict[Value, Demand], partners: dict[Value, Value], least: int) -> None:
    for op in reversed(block.ops):
        name = op.name
        priority = _PRIORITY.get(name)
        if priority is not None:
            if priority < least:
                continue
            operands = 2 if priority == _PRODUCTS else 1
            for i in range(min(operands, len(op.operands))):
                _want(demands, op.operands[i], Demand(op, i, priority))
            if name in _UPDATES:
                _keep_place(op, demands, partners)
        elif name in _INVERTIBLE:
            for operand, result in zip(op.operands, op.results, strict=True):
                demand = demands.get(result)
                if demand is not None:
                    _want(demands, operand, demand.before(op))
        elif name == "ipu.map":
            _share(op, demands, partners)
        elif name in _LOOPS:
            body = op.regions[-1]
            for region in op.regions:
                _visit(region, demands, partners, least)
            for operand, arg, result in zip(op.operands, body.args, op.results, strict=True):
                demand = demands.get(arg) or demands.get(result)
                if demand is not None:
                    demands.setdefault(arg, demand)
                    _want(demands, operand, demand)
        elif name == "ipu.call":
            body = body_of(op)
            _visit(body, demands, partners, least)
            for operand, arg in zip(op.operands, body.args, strict=True):
                demand = demands.get(arg)
                if demand is not None:
                    _want(demands, operand, demand)
        else:
            for region in op.regions:
                if name in ("if", "case"):
                    _visit(region, demands, partners, least)


def _keep_place(op: Op, demands: dict[Value, Demand], partners: dict[Value, Value]) -> None:
    """An update in place lies where its result is wanted, when that matters more than the update itself."""
    for operand, result in zip(op.operands, op.results, strict=False):
        demand = demands.get(result)
        if demand is not None and demand.priority > _PRIORITY[op.name]:
            _want(demands, operand, demand)
            if result in partners:
                partners.setdefault(operand, partners[result])


def _want(demands: dict[Value, Demand], value: Value, demand: Demand) -> None:
    known = demands.get(value)
    # Of equal demands the first in program order wins: it is visited last.
    if known is None or known.priority <= demand.priority:
        demands[value] = demand


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
    updates = source.op is None  # an argument or loop state, which this op may update
    for operand in op.operands:
        producer = operand.op
        if operand.shape == shape and (producer is None or producer.name != "broadcast_in_dim"):
            if operand not in demands:
                demands[operand] = best
                if updates and source is not operand:
                    partners[operand] = source
    for result in op.results:
        if result not in demands:
            demands[result] = best
            if updates:
                partners[result] = source
