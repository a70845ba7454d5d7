"""Loops with a search for each row of large arrays are run for parts of the rows, where memory comes first.

`jnp.searchsorted`, and with it `jnp.digitize` and `jnp.histogram`, is a loop with bounds for each element, which looks
up an element between them: several arrays as large as the operand. A loop over parts of the rows has these for a part
only. What is computed of the rows alone before or after, and sums of them by index, are part of it.

So is a loop until no row goes on, as `jax.vmap` makes it of a loop for each row (`jax.random.gamma`) and as series are
summed until each element is exact (`jax.scipy.special.exp1`, `gammainc`): rows that are done keep their state, so those
of a part need not wait for others.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import is_elementwise, single_op, splat_of
from jax_ipu.compiler.ir import LOOPS, Block, Module, Op, Value, clone_block, depending, has_effect, size_in_bytes
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
    for loop in [op for op in block.ops if op.name in LOOPS]:
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
        """Adds the loop, the ops after it that can be added, and those before these whose results nothing else reads.

        Returns:
            Whether the loop can be added.
        """
        if not self._add(loop):
            return False
        for op in self.block.ops[self.block.ops.index(loop) + 1 :]:
            reads = any(o in self.values for o in op.operands)
            # Another such loop reads the same rows.
            if reads or (op.name in LOOPS and any(o.shape[:1] == (self.extent,) for o in op.operands)):
                self._add(op)
        places = {op: i for i, op in enumerate(self.block.ops)}
        inside = {inner for op in self.ops for inner in _all(op)}
        late = depending(self.block.ops, self.ops)
        for op in reversed(self.block.ops[: places[self.ops[-1]]]):
            inputs: dict[Value, None] = {}
            read = any(r in self.inputs for r in op.results)
            if not read or op in inside or op.name in LOOPS:
                continue
            if any(user not in inside for result in op.results for user in result.users):
                continue
            if self._is_of_rows(op, set(), inputs) and not any(v.op in late for v in self._whole(op, inputs)):
                self.ops.append(op)
                self.values.update(op.results)
                self.inputs = {v: None for v in (*self.inputs, *inputs) if v not in op.results}
                inside.update(_all(op))
        self.ops.sort(key=places.__getitem__)
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
        if op.name in ("slice", "concatenate", "ipu.threefry2x32"):
            return self._keeps_rows(op) and all(self._read(o, values, inputs) for o in op.operands)
        if op.name in LOOPS and any(r.users for r in op.results if not self._has_rows(r)):
            return False
        if op.name == "while":
            found = _goes_on(op)
            if found is None or not self._has_rows(found[1]) or not _keep_rows_that_are_done(op, found[1]):
                return False
            return self._is_body_of_rows(op, op.regions[0], None, values, inputs) and self._is_body_of_rows(
                op, op.regions[1], op.regions[1].results, values, inputs
            )
        return op.name == "ipu.repeat" and self._is_body_of_rows(
            op, op.regions[0], op.regions[0].results, values, inputs
        )

    def _keeps_rows(self, op: Op) -> bool:
        """Whether the op moves no element to another row, and makes the same of each row wherever it is."""
        if not all(self._has_rows(r) for r in op.results):
            return False
        if op.name == "concatenate":
            return bool(op.attrs["dimension"] != 0)
        if op.name == "slice":
            return (op.attrs["start_indices"][0], op.attrs["strides"][0]) == (0, 1)
        return all(strides[0] == 0 for _, strides in op.attrs.get("counters", ()))

    def _indexed(self, indices: Value, numbers: dict[str, int], values: set[Value], inputs: dict[Value, None]) -> bool:
        return numbers["index_vector_dim"] != 0 and self._read(indices, values, inputs)

    def _is_body_of_rows(
        self, op: Op, body: Block, results: list[Value] | None, values: set[Value], inputs: dict[Value, None]
    ) -> bool:
        """Whether each row of the `results` of a loop's region is made of the same row; None for a condition."""
        for operand in op.operands:
            if operand in values or self._has_rows(operand):
                self._read(operand, values, inputs)
        inside = values | {arg for arg in body.args if self._has_rows(arg)}
        goes_on = _goes_on(op) if results is None else None
        for inner in body.ops:
            if inner.name != "return" and has_effect(inner):
                return False
            if inner.name == "constant" and (splat_of(inner.result) is not None or not self._has_rows(inner.result)):
                continue
            if inner.name == "return":
                pairs = zip(results or (), body.args, strict=False)
                return all(self._has_rows(arg) == self._read(result, inside, inputs) for result, arg in pairs)
            if goes_on is not None and inner is goes_on[0]:
                continue
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
        inside = {inner for op in self.ops for inner in _all(op)}
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
        if op.name in LOOPS:
            for body in op.regions:
                args = [Value(o.shape, o.dtype, None, i) for i, o in enumerate(operands)]
                inner = Rewriter()
                inside = {**found, **dict(zip(body.args, args, strict=True))}
                for nested in body.ops:
                    inner.location = nested.location
                    self._emit_op(nested, inside, rows, inner, {})
                regions.append(Block(args, inner.ops))
        elif op.regions:
            regions = [clone_block(op.regions[0])]
        shapes = [(self._shape(r, rows) if op.name not in ("scatter", "constant") else r.shape) for r in op.results]
        types = [(shape, r.dtype) for shape, r in zip(shapes, op.results, strict=True)]
        attrs = dict(op.attrs)
        if op.name == "slice":
            attrs["limit_indices"] = (rows, *attrs["limit_indices"][1:])
        copy = Op(op.name, operands, types, attrs, regions, op.location)
        rewriter.ops.append(copy)
        if op in states:
            states[op] = copy.result
        elif op.name != "constant" or not self._has_rows(op.result):
            found.update(zip(op.results, copy.results, strict=True))

    def _shape(self, value: Value, rows: int) -> Shape:
        return (rows, *value.shape[1:]) if self._has_rows(value) else value.shape


def _all(op: Op) -> list[Op]:
    """The op and those in its regions."""
    return [op, *(inner for region in op.regions for inner in region.walk())]


def _slice(value: Value, begin: int, end: int, rewriter: Rewriter) -> Value:
    others = value.shape[1:]
    return rewriter.slice(value, (begin, *(0 for _ in others)), (end, *others))


def _row_bytes(op: Op, extent: int) -> float:
    """The bytes of a row of the state of a loop and of what a trip makes, or of what another op reads and makes."""
    values = [*op.operands, *op.results] if op.name not in LOOPS else list(op.operands)
    held = sum(size_in_bytes(v) for v in values if v.shape[:1] == (extent,)) / extent
    inner = [i for region in op.regions for i in region.ops if op.name in LOOPS and not is_elementwise(i)]
    made = sum(size_in_bytes(o) for i in inner if i.name == "gather" for o in (i.operands[1], i.result)) / extent
    # What a loop within and random numbers take, with what is made of these.
    others = [_row_bytes(i, extent) for i in inner if i.name in (*LOOPS, "ipu.threefry2x32", "concatenate")]
    return held + max(made, 3 * max(others, default=0), 4)


def _goes_on(loop: Op) -> tuple[Op, Value] | None:
    """The reduction to whether any row goes on that is the condition of a `while`, and its operand: whether each does.

    The condition may also be that and a condition of scalars, such as a limit of the trips, which end for all rows at
    once. Whether a row goes on depends on no scalar that changes, so that a row that is done stays so.
    """
    condition, body = loop.regions
    (result,) = condition.results
    candidates = [result] if result.op is None or result.op.name != "and" else list(result.op.operands)
    for candidate in candidates:
        op = candidate.op
        if op is None or op.name != "reduce" or len(op.results) != 1 or single_op(op.regions[0]) != "or":
            continue
        value, first = op.operands
        literal = splat_of(first)
        if literal is None or any(literal.data) or tuple(op.attrs["dimensions"]) != tuple(range(len(value.shape))):
            return None
        changing = {
            arg
            for arg, before, after in zip(condition.args, body.args, body.results, strict=True)
            if arg.shape == () and before is not after
        }
        return None if changing & _sources(value) else (op, value)
    return None


def _sources(value: Value) -> set[Value]:
    """The values that no op of the same block makes, of which `value` is made, and all in between."""
    found: set[Value] = set()
    pending = [value]
    while pending:
        source = pending.pop()
        if source not in found:
            found.add(source)
            pending += [] if source.op is None else source.op.operands
    return found


def _keep_rows_that_are_done(loop: Op, goes_on: Value) -> bool:
    """Whether the body of a `while` gives the rows that do not go on back as they were; scalars need not be kept."""
    condition, body = loop.regions
    args = dict(zip(condition.args, body.args, strict=True))

    def is_kept(result: Value, arg: Value) -> bool:
        if result is arg or arg.shape == ():
            return True
        op = result.op
        if op is not None and op.name == "and" and args.get(goes_on) is arg:
            return arg in op.operands  # false where it is false
        if op is None or op.name != "select" or op.operands[2] is not arg:
            return False
        predicate = op.operands[0]
        spread = predicate.op
        if spread is not None and spread.name == "broadcast_in_dim" and predicate.shape != goes_on.shape:
            if tuple(spread.attrs["broadcast_dimensions"]) != tuple(range(len(goes_on.shape))):
                return False
            predicate = spread.operands[0]
        return _is_same(goes_on, predicate, args)

    return all(is_kept(result, arg) for result, arg in zip(body.results, body.args, strict=True))


def _is_same(a: Value, b: Value, known: dict[Value, Value]) -> bool:
    """Whether `b` is computed as `a` is; `known`: values that are known to be the same, which grows."""
    if a is b or known.get(a) is b:
        return True
    if a.op is None or b.op is None or a.op.regions or len(a.op.results) != 1 or a.op.name != b.op.name:
        return False
    attrs, others = ({k: v for k, v in op.attrs.items() if k != "value"} for op in (a.op, b.op))
    literals = [op.attrs["value"].key() for op in (a.op, b.op) if "value" in op.attrs]
    same = (a.shape, a.dtype, attrs) == (b.shape, b.dtype, others) and len({*map(repr, literals)}) <= 1
    if not same or not all(_is_same(x, y, known) for x, y in zip(a.op.operands, b.op.operands, strict=True)):
        return False
    known[a] = b
    return True
