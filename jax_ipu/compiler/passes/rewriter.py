"""The base of rewriting passes: rules that replace an op by new ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import Block, Op, Value
from jax_ipu.compiler.types import Literal, Shape


class Rewriter:
    """Builds the new ops of a block. A new op gets the location of the op that the current rule replaces."""

    __slots__ = ("location", "ops")

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.location: Any = None

    def emit(
        self,
        name: str,
        operands: Sequence[Value],
        shape: Shape,
        dtype: str,
        attrs: dict[str, Any] | None = None,
        regions: Sequence[Block] = (),
    ) -> Value:
        op = Op(name, operands, [(shape, dtype)], attrs, regions, self.location)
        self.ops.append(op)
        return op.results[0]

    def constant(self, literal: Literal) -> Value:
        return self.emit("constant", (), literal.shape, literal.dtype, {"value": literal})

    def full(self, shape: Shape, dtype: str, value: Any) -> Value:
        return self.constant(Literal.full(dtype, shape, value))

    def broadcast(self, value: Value, shape: Shape, dims: tuple[int, ...]) -> Value:
        literal = splat_of(value)
        if literal is not None:
            return self.constant(literal.reshaped(shape))
        if value.shape == shape and dims == tuple(range(len(shape))):
            return value
        return self.emit("broadcast_in_dim", (value,), shape, value.dtype, {"broadcast_dimensions": dims})

    def spread(self, value: Value, shape: Shape) -> Value:
        """`value`, or the scalar `value` in every element of `shape`."""
        return value if value.shape == shape else self.broadcast(value, shape, ())

    def apply(self, body: Block, operands: Sequence[Value], shape: Shape) -> list[Value]:
        """The results of a body of ops on scalars, applied to every element of operands of this shape."""
        values = dict(zip(body.args, operands, strict=True))
        for inner in body.ops[:-1]:
            literal = inner.attrs.get("value") if inner.name == "constant" else None
            if literal is not None:
                values[inner.result] = self.constant(literal.reshaped(shape))
                continue
            given = [self.spread(values.get(o, o), shape) for o in inner.operands]
            values[inner.result] = self.emit(inner.name, given, shape, inner.result.dtype, dict(inner.attrs))
        return [self.spread(values.get(r, r), shape) for r in body.results]

    def reshape(self, value: Value, shape: Shape) -> Value:
        while value.op is not None and value.op.name == "reshape":
            value = value.op.operands[0]
        if value.shape == shape:
            return value
        literal = splat_of(value)
        if literal is not None:
            return self.constant(literal.reshaped(shape))
        return self.emit("reshape", (value,), shape, value.dtype)

    def elementwise(self, name: str, *operands: Value, dtype: str | None = None, **attrs: Any) -> Value:
        """An op on tensors of one shape; `dtype` is the element type of the result, by default that of the first."""
        return self.emit(name, operands, operands[0].shape, dtype or operands[0].dtype, attrs)

    def convert(self, value: Value, dtype: str) -> Value:
        return value if value.dtype == dtype else self.elementwise("convert", value, dtype=dtype)

    def slice(self, value: Value, begins: Shape, ends: Shape, strides: Shape | None = None) -> Value:
        """Every `strides[d]`th element from `begins[d]` up to `ends[d]`; strides are 1 by default."""
        strides = (1,) * len(begins) if strides is None else strides
        shape = tuple(-(-(e - b) // s) for b, e, s in zip(begins, ends, strides, strict=True))
        if shape == value.shape:
            return value
        attrs = {"start_indices": begins, "limit_indices": ends, "strides": strides}
        return self.emit("slice", (value,), shape, value.dtype, attrs)

    def update_slice(self, value: Value, update: Value, begins: Shape, strides: Shape | None = None) -> Value:
        """`value` with `update` in place of every `strides[d]`th element from `begins[d]` on."""
        attrs = {"start_indices": begins, "strides": (1,) * len(begins) if strides is None else strides}
        return self.emit("ipu.update_slice", (value, update), value.shape, value.dtype, attrs)

    def transpose(self, value: Value, permutation: Shape) -> Value:
        if permutation == tuple(range(len(permutation))):
            return value
        shape = tuple(value.shape[p] for p in permutation)
        return self.emit("transpose", (value,), shape, value.dtype, {"permutation": permutation})

    def sum(self, value: Value, dims: Sequence[int]) -> Value:
        """The sum over the dimensions `dims`, which the result does not have."""
        return self.reduce("add", value, dims, 0)

    def reduce(self, name: str, value: Value, dims: Sequence[int], initial: float, dtype: str | None = None) -> Value:
        """`value` reduced over `dims` by the op `name`, whose neutral element is `initial`.

        `dtype`: f32 for sums and products of narrow floats that are not rounded.
        """
        if not dims:
            return self.convert(value, dtype or value.dtype)
        body = self.combiner(name, value.dtype)
        shape = tuple(n for d, n in enumerate(value.shape) if d not in dims)
        first = self.full((), value.dtype, initial)
        result = dtype or value.dtype
        return self.emit("reduce", (value, first), shape, result, {"dimensions": tuple(sorted(dims))}, (body,))

    def combiner(self, name: str, dtype: str) -> Block:
        """The body of a reduction or a scatter by the op `name` on two scalars."""
        args = [Value((), dtype, None, i) for i in range(2)]
        combine = Op(name, args, [((), dtype)], None, (), self.location)
        return Block(args, [combine, Op("return", combine.results, [], None, (), self.location)])

    def sort(self, operands: Sequence[Value], dimension: int, is_stable: bool = True) -> list[Value]:
        """Arrays of one shape, sorted along a dimension by the first one's signed integers, ascending."""
        args = [Value((), value.dtype, None, i) for i, value in enumerate(v for v in operands for _ in range(2))]
        less = {"comparison_direction": "LT", "compare_type": "SIGNED"}
        compare = Op("compare", args[:2], [((), "pred")], less, (), self.location)
        comparator = Block(args, [compare, Op("return", compare.results, [], None, (), self.location)])
        attrs = {"dimension": dimension, "is_stable": is_stable}
        types = [(value.shape, value.dtype) for value in operands]
        self.ops.append(Op("sort", operands, types, attrs, (comparator,), self.location))
        return self.ops[-1].results


# Returns the values that replace the op's results, or None to keep it.
Rule = Callable[[Op, Rewriter], "Sequence[Value] | Value | None"]


def rewrite(block: Block, rules: dict[str, Rule]) -> None:
    """Applies to each op the rule for its name, once, in the regions of an op before the op itself."""
    rewriter = Rewriter()
    ops, done = block.ops, 0
    for position, op in enumerate(ops):
        for region in op.regions:
            rewrite(region, rules)
        if op.name not in rules:
            continue
        # What no rule is for is taken over in one piece: most passes find no op at all.
        rewriter.ops += ops[done:position]
        done = position + 1
        rewriter.location = op.location
        replacement = rules[op.name](op, rewriter)
        if replacement is None:
            rewriter.ops.append(op)
            continue
        values = [replacement] if isinstance(replacement, Value) else replacement
        for result, value in zip(op.results, values, strict=True):
            result.replace_with(value)
        op.drop()
    if done:
        block.ops = rewriter.ops + ops[done:]
