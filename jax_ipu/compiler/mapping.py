"""The tile-mapping pass: on which tiles arguments, constants and loop state are born.

Products, convolutions and indexed accesses ask for the layout of their operands. The demand travels back through views,
elementwise ops and loops to the value that is allocated; partners of elementwise ops take over each other's demand, so
weights, their momentum and their updates live alike. What nobody asks for is spread linearly, small states one behind
the other: the biases of many layers would fill the first tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jax_ipu.compiler.cost import size_in_bytes
from jax_ipu.compiler.ir import Block, Module, Op, Value
from jax_ipu.compiler.location import source_line
from jax_ipu.compiler.passes.outline import body_of
from jax_ipu.compiler.types import COMPLEX, num_elements

if TYPE_CHECKING:
    from jax_ipu import _ipu
    from jax_ipu.compiler.lowering.context import Context

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

Creator = Callable[["Context", Demand, str, str], "_ipu.Tensor | None"]


class MappingPlan:
    """Value -> the demand that decides where it lives; values without an entry are mapped linearly."""

    __slots__ = ("_creators", "demands", "first_tiles", "partners")

    def __init__(
        self,
        demands: dict[Value, Demand],
        partners: dict[Value, Value],
        first_tiles: dict[Value, int],
        creators: dict[str, Creator],
    ) -> None:
        self.demands = demands
        # Of states that are spread linearly; others begin on tile 0.
        self.first_tiles = first_tiles
        # Result of a product -> the argument that it updates, which lies where the result should.
        self.partners = partners
        self._creators = creators

    def allocate(self, context: Context, value: Value, name: str) -> _ipu.Tensor | None:
        """A variable of the value's shape in the demanded layout, or None."""
        demand = self.demands.get(value)
        if demand is None or num_elements(value.shape) == 0:
            return None
        wanted = demand.op.operands[demand.operand]
        tensor = self._creators[demand.op.name](context, demand, wanted.dtype, name)
        if tensor is None:
            return None
        for view in reversed(demand.path):
            if view.name == "transpose":
                permutation = view.attrs["permutation"]
                tensor = tensor.dim_shuffle([permutation.index(d) for d in range(len(permutation))])
            elif view.name == "reshape":
                tensor = tensor.reshape(view.operands[0].shape)
        if not tensor.is_strided:
            return None
        return tensor if wanted.dtype == value.dtype else context.graph.clone_as(value.dtype, tensor, name)

    @property
    def has_slices(self) -> bool:
        """Whether anything lies as a slice, an update, a gather or a scatter asks."""
        return any(demand.priority < _PRODUCTS for demand in self.demands.values())

    def reason(self, value: Value) -> str:
        demand = self.demands.get(value)
        return demand.reason() if demand is not None else "spread linearly"


def plan(module: Module, mode: str, creators: dict[str, Creator]) -> MappingPlan:
    """`mode` "linear" ignores every demand, "products" those of slices, updates, gathers and scatters."""
    demands: dict[Value, Demand] = {}
    partners: dict[Value, Value] = {}
    if mode != "linear":
        least = _PRODUCTS if mode == "products" else 0
        _visit(module.main.block, demands, partners, least)
        if demands:
            # Again, now that earlier ops have spoken: partners of elementwise ops learn from each other.
            _visit(module.main.block, demands, partners, least)
    return MappingPlan(demands, partners, _first_tiles(module.main.block, demands), creators)


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


# What the operands of each op ask for --------------------------------------------------------------------------------


def _for_dot(context: Context, demand: Demand, dtype: str, name: str) -> _ipu.Tensor | None:
    from jax_ipu import _ipu
    from jax_ipu.compiler.lowering import dot

    op = demand.op
    shape = dot.DotShape(op)
    if dtype in COMPLEX or 0 in shape.lhs or 0 in shape.rhs:
        return None
    create = _ipu.create_mat_mul_grouped_input_lhs if demand.operand == 0 else _ipu.create_mat_mul_grouped_input_rhs
    tensor = create(context.graph, dtype, op.result.dtype, shape.lhs, shape.rhs, name, dot.options(context, op))
    permutation = shape.lhs_permutation if demand.operand == 0 else shape.rhs_permutation
    return dot.from_matrix(tensor, permutation, op.operands[demand.operand].shape)


def _for_convolution(context: Context, demand: Demand, dtype: str, name: str) -> _ipu.Tensor | None:
    from jax_ipu import _ipu
    from jax_ipu.compiler.lowering.convolution import ConvShape

    op = demand.op
    if dtype in COMPLEX or any(num_elements(v.shape) == 0 for v in (*op.operands, op.result)):
        return None
    shape = ConvShape(op)
    lhs = [op.operands[0].shape[d] for d in shape.lhs_permutation]
    rhs = [op.operands[1].shape[d] for d in shape.rhs_permutation]
    permutation = shape.lhs_permutation if demand.operand == 0 else shape.rhs_permutation
    # In memory the dims stand as in the StableHLO operand.
    layout = [permutation.index(d) for d in range(len(permutation))]
    create = _ipu.create_conv_input if demand.operand == 0 else _ipu.create_conv_weights
    tensor = create(
        context.graph,
        lhs,
        rhs,
        *shape.window,
        op.result.dtype,
        layout,
        dtype,
        name,
        context.planning,
    )
    return tensor.dim_shuffle(layout)


def _for_slices(context: Context, demand: Demand, dtype: str, name: str) -> _ipu.Tensor | None:
    from jax_ipu import _ipu

    operand = demand.op.operands[demand.operand]
    sizes = _slice_sizes(demand.op, operand)
    if not sizes:
        return None
    return _ipu.create_sliceable_tensor(context.graph, dtype, operand.shape, list(sizes), list(sizes.values()), name)


def _slice_sizes(op: Op, operand: Value) -> dict[int, int]:
    """Dim -> size of a slice, for the dims of `operand` in which the op's slices move."""
    sizes = op.operands[1].shape if op.name == "dynamic_update_slice" else op.result.shape
    return {d: size for d, size in enumerate(sizes) if size != operand.shape[d]}


def _for_windows(context: Context, demand: Demand, dtype: str, name: str) -> _ipu.Tensor | None:
    """Gathers and scatters: the plan of the lookup says how much of the tensor a tile should hold."""
    from jax_ipu import _ipu

    op = demand.op
    operand, indices = op.operands[0], op.operands[len(op.results) if op.name == "scatter" else 1]
    if op.name == "gather":
        d = op.attrs["dimension_numbers"]
        numbers = (
            d["offset_dims"],
            d["collapsed_slice_dims"],
            d["operand_batching_dims"],
            d["start_indices_batching_dims"],
            d["start_index_map"],
        )
        sizes = op.attrs["slice_sizes"]
    else:
        d = op.attrs["scatter_dimension_numbers"]
        numbers = (
            d["update_window_dims"],
            d["inserted_window_dims"],
            d["input_batching_dims"],
            d["scatter_indices_batching_dims"],
            d["scattered_dims_to_operand_dims"],
        )
        windows = iter(d["update_window_dims"])
        update, single = op.operands[-1].shape, (*d["inserted_window_dims"], *d["input_batching_dims"])
        sizes = tuple(1 if i in single else update[next(windows)] for i in range(len(operand.shape)))
    if num_elements(indices.shape) == 0:
        return None
    return _ipu.create_gather_input(
        context.graph, dtype, operand.shape, indices.shape, *numbers, d["index_vector_dim"], sizes, name
    )


CREATORS: dict[str, Creator] = {
    "dot_general": _for_dot,
    "convolution": _for_convolution,
    "dynamic_slice": _for_slices,
    "dynamic_update_slice": _for_slices,
    "gather": _for_windows,
    "scatter": _for_windows,
}
