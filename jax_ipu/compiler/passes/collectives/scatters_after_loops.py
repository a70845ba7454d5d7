"""A loop that adds up reduce-scatters adds up what each IPU has, and the total is scattered once, behind the loop.

Gradients of weights that are split over the IPUs are summed so in every trip of a loop over micro-batches. The carried
value then is as large as the sum, not as an IPU's part of it, so this is done as far as a part of the memory allows.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import LOOPS, Block, Module, Op, Value, size_in_bytes
from jax_ipu.compiler.passes.collectives.sums_after_loops import (
    addends,
    attributes,
    combiner,
    groups_key,
    is_sum,
    is_zero,
    linear_in,
)
from jax_ipu.compiler.passes.rewriter import Rewriter
from jax_ipu.compiler.types import SIZE, Shape, num_elements

# The part of the memory that all carried values may take more.
_MORE_MEMORY = 1 / 16
# Ops on the way from a reduce-scatter to the carried value.
_ELEMENTWISE = frozenset(("add", "subtract", "negate", "multiply", "divide", "convert"))


def run(module: Module) -> None:
    """Moves reduce-scatters out of the loops of main, out of inner loops first, in a program for several IPUs."""
    if module.num_replicas * module.num_partitions > 1:
        _Scatters(int(module.memory * _MORE_MEMORY) if module.memory else None).run(module.main.block)


class _Way:
    """How a loop's body makes a carried value of reduce-scatters and the value before.

    Attributes:
        ops: what lies between, in order.
        scatters: the reduce-scatters.
        dims: of each value on the way, the dimension along which an IPU has a part.
        count: the number of parts.
    """

    def __init__(self, ops: list[Op], scatters: list[Op], dims: dict[Value, int], count: int) -> None:
        self.ops, self.scatters, self.dims, self.count = ops, scatters, dims, count

    def whole(self, value: Value) -> Shape:
        dim = self.dims[value]
        return tuple(n * self.count if d == dim else n for d, n in enumerate(value.shape))


class _Scatters:
    def __init__(self, left: int | None) -> None:
        self.left = left  # bytes that carried values may still take more; None: any number

    def run(self, block: Block) -> None:
        ops: list[Op] = []
        for op in block.ops:
            for region in op.regions:
                self.run(region)
            before, behind = Rewriter(), Rewriter()
            for index in range(len(op.results)) if op.name in LOOPS else ():
                self._move(op, index, before, behind)
            ops += [*before.ops, op, *behind.ops]
        block.ops = ops

    def _move(self, loop: Op, index: int, before: Rewriter, behind: Rewriter) -> None:
        body, result, first = loop.regions[-1], loop.results[index], loop.operands[index]
        way = _way(body, index)
        if way is None or any(condition.args[index].users for condition in loop.regions[:-1]):
            return
        shape = way.whole(body.results[index])
        more = (num_elements(shape) - num_elements(result.shape)) * SIZE[result.dtype]
        trips = loop.attrs["count"] if loop.name == "ipu.repeat" else 1
        sent = trips * sum(size_in_bytes(scatter.operands[0]) for scatter in way.scatters)
        if sent < num_elements(shape) * SIZE[result.dtype] or (self.left is not None and more > self.left):
            return
        if self.left is not None:
            self.left -= more
        part, dim = result.shape, way.dims[body.results[index]]
        model = way.scatters[0]
        before.location = behind.location = model.location
        attrs = {**attributes(model), "scatter_dimension": dim}
        region = combiner(result.dtype, model.location)
        scatter = Op("reduce_scatter", (), [(part, result.dtype)], attrs, (region,), model.location)
        behind.ops.append(scatter)
        if is_zero(first):
            result.replace_with(scatter.result)
        else:
            # Its uses first: the sum of both takes their place.
            users = Value(part, result.dtype)
            result.replace_with(users)
            users.replace_with(behind.elementwise("add", first, scatter.result))
        scatter.set_operands([result])
        operands = list(loop.operands)
        operands[index] = before.full(shape, first.dtype, 0)
        loop.set_operands(operands)
        for value in (result, *(region.args[index] for region in loop.regions)):
            value.shape = shape
        _add_wholes(body, index, way)


def _way(body: Block, index: int) -> _Way | None:
    """How the body makes the carried value; None if it does anything else, or uses a value on the way again."""

    def operands_of(op: Op) -> list[Value] | None:
        return linear_in(op) if op.name in _ELEMENTWISE or op.name == "transpose" else None

    found = addends(body, index, lambda op: is_sum(op, "reduce_scatter"), operands_of)
    scatters = [value.op for value in found.values if value.op is not None] if found is not None else []
    if found is None or len({groups_key(op) for op in scatters}) != 1:
        return None
    return _with_dims(body, index, [op for op in body.ops if op in found.between], scatters)


def _with_dims(body: Block, index: int, between: list[Op], scatters: list[Op]) -> _Way | None:
    dims: dict[Value, int] = {}
    counts: set[int] = set()
    for scatter in scatters:
        dim = dims[scatter.result] = int(scatter.attrs["scatter_dimension"])
        counts.add(scatter.operands[0].shape[dim] // scatter.result.shape[dim])
    if len(counts) > 1 or any(len(scatter.results) > 1 for scatter in scatters):
        return None
    # The carried value is cut as what is added to it.
    behind_state: list[Op] = []
    for op in between:
        found = {dims[o] for o in op.operands if o in dims}
        if op.name == "transpose" and found:
            found = {op.attrs["permutation"].index(dim) for dim in found}
        if len(found) > 1:
            return None
        if found:
            dims[op.result] = found.pop()
        else:
            behind_state.append(op)
    if behind_state or body.results[index] not in dims:
        return None
    dims[body.args[index]] = dims[body.results[index]]
    users = body.args[index].users
    if any(dims[user.result] != dims[body.args[index]] for user in users):
        return None
    return _Way(between, scatters, dims, counts.pop())


def _add_wholes(body: Block, index: int, way: _Way) -> None:
    """Makes the ops on the way those of whole sums."""
    shapes = {op.result: way.whole(op.result) for op in way.ops}
    made: dict[Value, Value] = {scatter.result: scatter.operands[0] for scatter in way.scatters}
    made[body.args[index]] = body.args[index]
    between = set(way.ops)
    gone = between | set(way.scatters)
    rewriter = Rewriter()
    for op in body.ops:
        if op in between:
            rewriter.location = op.location
            shape = shapes[op.result]
            operands = [made.get(o) or _repeated(o, shape, rewriter) for o in op.operands]
            made[op.result] = rewriter.emit(op.name, operands, shape, op.result.dtype, dict(op.attrs))
        elif op not in gone:
            rewriter.ops.append(op)
    total = made[body.results[index]]
    terminator = body.terminator
    terminator.set_operands([total if i == index else o for i, o in enumerate(terminator.operands)])
    for op in reversed(body.ops):
        if op in gone:
            op.drop()
    body.ops = rewriter.ops


def _repeated(value: Value, shape: Shape, rewriter: Rewriter) -> Value:
    """A number in every element, or zeros, in another shape."""
    literal = splat_of(value)
    if literal is not None:
        return rewriter.constant(literal.reshaped(shape))
    return rewriter.full(shape, value.dtype, 0)
