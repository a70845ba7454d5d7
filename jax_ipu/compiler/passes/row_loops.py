"""Loops with a search for each row of large arrays are run for parts of the rows, where memory comes first.

`jnp.searchsorted`, and with it `jnp.digitize` and `jnp.histogram`, is a loop with bounds for each element, which looks
up an element between them: several arrays as large as the operand. A loop over parts of the rows has these for a part
only. What is computed of the rows alone before or after, and sums of them by index, are part of it.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import is_elementwise, splat_of
from jax_ipu.compiler.ir import Block, Module, Op, Value, clone_ops, depending, has_effect, size_in_bytes
from jax_ipu.compiler.passes.rewriter import Rewriter
from jax_ipu.compiler.types import Shape

# Loops with state of this part of the memory are cut.
_LARGE = 1 / 8
# Of the memory: what the arrays that are read and made and the values of one part take together, and what these values
# may take however large the arrays are.
_ALL, _LEAST = 3 / 5, 1 / 32
# Bytes for each byte of state and of what a trip makes: lookups also have buffers, and put their indices in order.
_BUFFERS = 1.25


def run(module: Module) -> None:
    """Applies to the loops of main."""
    block = module.main.block
    if not module.memory:
        return
    for loop in [op for op in block.ops if op.name == "ipu.repeat"]:
        rows = next((o.shape[0] for o in loop.operands if o.shape), 0)
        state = sum(size_in_bytes(o) for o in loop.operands if o.shape[:1] == (rows,))
        if loop not in block.ops or rows < 2 or state < module.memory * _LARGE:
            continue
        group = _Group(block, rows)
        if group.grow(loop):
            group.replace(module.memory)


class _Group:
    """Ops of a block that compute each of `extent` rows by itself. `inputs` are arrays of which they read rows."""

    def __init__(self, block: Block, extent: int) -> None:
        self.block, self.extent = block, extent
        self.ops: list[Op] = []
        self.values: set[Value] = set()
        self.inputs: dict[Value, None] = {}
        self.sums: list[Op] = []  # scatters of rows

    def grow(self, loop: Op) -> bool:
        """Adds the loop, and the ops after it that can be added; whether the loop can."""
        if not self._add(loop):
            return False
        for op in self.block.ops[self.block.ops.index(loop) + 1 :]:
            reads = any(o in self.values for o in op.operands)
            # Another such loop reads the same rows.
            if reads or (op.name == "ipu.repeat" and any(o.shape[:1] == (self.extent,) for o in op.operands)):
                self._add(op)
        return True

    def _add(self, op: Op) -> bool:
        inputs: dict[Value, None] = {}
        if op.name == "scatter":
            if not self._sums_rows(op, inputs):
                return False
            self.sums.append(op)
        elif self._is_of_rows(op, self.values, inputs):
            self.values.update(r for r in op.results if self._has_rows(r))
        else:
            return False
        # What waits for a result of the group as a whole cannot be an input of it.
        late = depending(self.block.ops, [*self.ops, op])
        if any(value.op in late for value in self._whole(op, inputs)):
            self.values.difference_update(op.results)
            if self.sums and self.sums[-1] is op:
                self.sums.pop()
            return False
        self.ops.append(op)
        self.inputs.update(inputs)
        return True

    def _whole(self, op: Op, inputs: dict[Value, None]) -> list[Value]:
        inner = [o for region in op.regions for nested in region.walk() for o in nested.operands]
        return [v for v in (*op.operands, *inner, *inputs) if v not in self.values and v.op is not None]

    def _has_rows(self, value: Value) -> bool:
        return value.shape[:1] == (self.extent,)

    def _read(self, value: Value, values: set[Value], inputs: dict[Value, None]) -> bool:
        """Notes that rows of `value` are read."""
        if not self._has_rows(value):
            return False
        if value not in values and splat_of(value) is None:
            inputs[value] = None
        return True

    def _is_of_rows(self, op: Op, values: set[Value], inputs: dict[Value, None]) -> bool:
        """Whether rows of the results depend on the same rows of `values` and `inputs` only."""
        if is_elementwise(op):
            return self._has_rows(op.result) and all(self._read(o, values, inputs) for o in op.operands)
        if op.name == "broadcast_in_dim":
            dims, value = op.attrs["broadcast_dimensions"], op.operands[0]
            if 0 in dims:
                return dims[0] == 0 and self._has_rows(op.result) and self._read(value, values, inputs)
            return self._has_rows(op.result) and value not in values and not self._has_rows(value)
        if op.name == "reshape":
            return self._has_rows(op.result) and self._read(op.operands[0], values, inputs)
        if op.name == "gather":
            numbers, (table, indices) = op.attrs["dimension_numbers"], op.operands
            own = not numbers["operand_batching_dims"] and 0 not in numbers["offset_dims"]
            return own and table not in values and self._indexed(indices, numbers, values, inputs)
        return op.name == "ipu.repeat" and self._is_loop_of_rows(op, values, inputs)

    def _indexed(self, indices: Value, numbers: dict[str, int], values: set[Value], inputs: dict[Value, None]) -> bool:
        return numbers["index_vector_dim"] != 0 and self._read(indices, values, inputs)

    def _is_loop_of_rows(self, op: Op, values: set[Value], inputs: dict[Value, None]) -> bool:
        body = op.regions[0]
        for operand in op.operands:
            if operand in values or self._has_rows(operand):
                self._read(operand, values, inputs)
        inside = values | {arg for arg in body.args if self._has_rows(arg)}
        for inner in body.ops:
            if inner.name == "constant" and (splat_of(inner.result) is not None or not self._has_rows(inner.result)):
                continue
            if inner.name == "return":
                pairs = zip(inner.operands, body.args, strict=True)
                return all(self._has_rows(arg) == self._read(result, inside, inputs) for result, arg in pairs)
            if self._is_of_rows(inner, inside, inputs):
                inside.update(inner.results)
            elif inner.regions or any(o in inside or self._has_rows(o) for o in (*inner.operands, *inner.results)):
                return False
        return False

    def _sums_rows(self, op: Op, inputs: dict[Value, None]) -> bool:
        numbers = op.attrs["scatter_dimension_numbers"]
        if len(op.results) != 1 or numbers["input_batching_dims"] or 0 in numbers["update_window_dims"]:
            return False
        state, indices, updates = op.operands
        if state in self.values or not self._indexed(indices, numbers, self.values, inputs):
            return False
        return self._read(updates, self.values, inputs)

    # The loop over parts ------------------------------------------------------------------------------------------

    def replace(self, memory: int) -> None:
        """Puts a loop over parts in place of the ops."""
        block = self.block
        inside = {inner for op in self.ops for inner in (op, *(n for region in op.regions for n in region.walk()))}
        made = [r for op in self.ops for r in op.results if r in self.values and any(u not in inside for u in r.users)]
        rows = self._rows(made, memory)
        if not 0 < rows < self.extent:
            return
        at = block.ops.index(self.ops[-1])
        first = block.ops.index(self.ops[0])
        late = depending(block.ops[first:at], self.ops)
        if any(map(has_effect, late)):
            return
        rewriter = Rewriter()
        rewriter.location = self.ops[0].location
        results = self._loop(made, rows, rewriter)
        for old, new in zip([*made, *(op.result for op in self.sums)], results, strict=True):
            old.replace_with(new)
        between = [op for op in block.ops[first:at] if op not in self.ops]
        before = [op for op in between if op not in late]
        after = [op for op in between if op in late]
        block.ops[first : at + 1] = [*before, *rewriter.ops, *after]
        for op in reversed(self.ops):
            op.drop()

    def _rows(self, made: list[Value], memory: int) -> int:
        kept = sum(map(size_in_bytes, {*self.inputs, *made}))
        wholes = {
            o
            for op in self.ops
            for region in op.regions
            for i in region.walk()
            if i.name == "gather"
            for o in i.operands[:1]
        }
        kept += sum(map(size_in_bytes, wholes - set(self.inputs)))
        each = max(_row_bytes(op, self.extent) for op in self.ops) * _BUFFERS
        most = int(max(memory * _ALL - kept, memory * _LEAST) / each)
        # Parts of equal size, where that takes at most twice as many.
        return next((n for n in range(most, most // 2, -1) if self.extent % n == 0), most) if most < self.extent else 0

    def _loop(self, made: list[Value], rows: int, rewriter: Rewriter) -> list[Value]:
        trips, rest = divmod(self.extent, rows)
        start = [
            rewriter.full((), "s32", 0),
            *(rewriter.full((trips, rows, *v.shape[1:]), v.dtype, 0) for v in made),
            *(op.operands[0] for op in self.sums),
        ]
        args = [Value(v.shape, v.dtype, None, i) for i, v in enumerate(start)]
        views = {
            v: rewriter.reshape(_slice(v, 0, trips * rows, rewriter), (trips, rows, *v.shape[1:])) for v in self.inputs
        }
        body = Rewriter()
        body.location = rewriter.location
        zero = body.full((), "s32", 0)
        found: dict[Value, Value] = {}
        for value, view in views.items():
            shape = (1, *view.shape[1:])
            begins = (args[0], *(zero for _ in shape[1:]))
            row = body.emit("dynamic_slice", (view, *begins), shape, view.dtype, {"slice_sizes": shape})
            found[value] = body.reshape(row, shape[1:])
        sums = self._emit(found, args[1 + len(made) :], rows, body)
        following = [body.elementwise("add", args[0], body.full((), "s32", 1))]
        for value, state in zip(made, args[1:], strict=False):
            row = body.reshape(found[value], (1, *found[value].shape))
            begins = (args[0], *(zero for _ in row.shape[1:]))
            following.append(body.emit("dynamic_update_slice", (state, row, *begins), state.shape, state.dtype))
        body.ops.append(Op("return", [*following, *sums], [], None, (), rewriter.location))
        types = [(v.shape, v.dtype) for v in args]
        loop = Op("ipu.repeat", start, types, {"count": trips}, (Block(args, body.ops),), rewriter.location)
        rewriter.ops.append(loop)
        arrays = [rewriter.reshape(r, (trips * rows, *r.shape[2:])) for r in loop.results[1 : 1 + len(made)]]
        sums = loop.results[1 + len(made) :]
        if rest:
            found = {v: _slice(v, trips * rows, self.extent, rewriter) for v in self.inputs}
            sums = self._emit(found, sums, rest, rewriter)
            arrays = [
                rewriter.emit("concatenate", (a, found[v]), v.shape, v.dtype, {"dimension": 0})
                for a, v in zip(arrays, made, strict=True)
            ]
        return [*arrays, *sums]

    def _emit(self, found: dict[Value, Value], sums: list[Value], rows: int, rewriter: Rewriter) -> list[Value]:
        """Adds the ops on `rows` rows; `found` has the values of these. Returns the sums with those of the rows."""
        states = dict(zip(self.sums, sums, strict=True))
        for op in self.ops:
            rewriter.location = op.location
            self._emit_op(op, found, rows, rewriter, states)
        return [states[op] for op in self.sums]

    def _emit_op(
        self, op: Op, found: dict[Value, Value], rows: int, rewriter: Rewriter, states: dict[Op, Value]
    ) -> None:
        def part(value: Value) -> Value:
            literal = splat_of(value)
            if value in found or literal is None or not self._has_rows(value):
                return found.get(value, value)
            return rewriter.constant(literal.reshaped((rows, *value.shape[1:])))

        operands = [part(o) for o in op.operands]
        if op in states:
            operands[0] = states[op]
        elif op.name == "gather" and self._has_rows(table := op.operands[0]):
            literal = splat_of(table)
            operands[0] = table if literal is None else rewriter.constant(literal)
        regions = []
        if op.name == "ipu.repeat":
            body = op.regions[0]
            args = [Value(o.shape, o.dtype, None, i) for i, o in enumerate(operands)]
            inner = Rewriter()
            inside = {**found, **dict(zip(body.args, args, strict=True))}
            for nested in body.ops:
                inner.location = nested.location
                self._emit_op(nested, inside, rows, inner, {})
            regions = [Block(args, inner.ops)]
        elif op.regions:
            args = [Value(a.shape, a.dtype, None, a.index) for a in op.regions[0].args]
            regions = [Block(args, clone_ops(op.regions[0], dict(zip(op.regions[0].args, args, strict=True))))]
        shapes = [(self._shape(r, rows) if op.name not in ("scatter", "constant") else r.shape) for r in op.results]
        types = [(shape, r.dtype) for shape, r in zip(shapes, op.results, strict=True)]
        copy = Op(op.name, operands, types, dict(op.attrs), regions, op.location)
        rewriter.ops.append(copy)
        if op in states:
            states[op] = copy.result
        elif op.name != "constant" or not self._has_rows(op.result):
            found.update(zip(op.results, copy.results, strict=True))

    def _shape(self, value: Value, rows: int) -> Shape:
        return (rows, *value.shape[1:]) if self._has_rows(value) else value.shape


def _slice(value: Value, begin: int, end: int, rewriter: Rewriter) -> Value:
    others = value.shape[1:]
    return rewriter.slice(value, (begin, *(0 for _ in others)), (end, *others))


def _row_bytes(op: Op, extent: int) -> float:
    """The bytes of a row of the state of a loop and of what a trip makes, or of what another op reads and makes."""
    values = [*op.operands, *op.results] if op.name != "ipu.repeat" else list(op.operands)
    held = sum(size_in_bytes(v) for v in values if v.shape[:1] == (extent,)) / extent
    inner = [i for region in op.regions for i in region.ops if op.name == "ipu.repeat" and not is_elementwise(i)]
    made = [size_in_bytes(o) for i in inner if i.name == "gather" for o in (i.operands[1], i.result)]
    return held + max(sum(made) / extent, 4)
