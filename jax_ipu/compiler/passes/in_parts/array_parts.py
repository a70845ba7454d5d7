"""A large array of one dimension, of which a loop reads parts.

Elementwise ops that make the array are applied to each part, so that no more than a part of their results exists.
"""

from __future__ import annotations

from collections.abc import Callable

from jax_ipu.compiler.expression import is_elementwise, splat_of
from jax_ipu.compiler.ir import Block, Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter
from jax_ipu.compiler.types import FLOAT, SIGNED, SIZE, Literal

# Of the memory: a part with what is made of it.
_PART = 1 / 48
_EXACT = 2**24  # counts up to here are exact in f32
_MOST_OPS = 8

# A predicate of the elements of a part and of their places, s32.
Predicate = Callable[[Value, Value, Rewriter], Value]


class ArrayParts:
    """The parts of `value`, which have equally many elements.

    Where its extent does not divide, it is padded at the end: with NaN, or with the largest number of its type.
    """

    def __init__(self, value: Value, memory: int, rewriter: Rewriter) -> None:
        size, dtype = value.shape[0], value.dtype
        most = min(size, _EXACT, max(1, int(memory * _PART) // (SIZE[dtype] + SIZE["f32"] + SIZE["pred"])))
        # Twice as many parts take few cycles more.
        even = next((n for n in range(most, most // 2, -1) if size % n == 0), None)
        self.rows = most if even is None else even
        self.trips = -(-size // self.rows)
        self.value, self.size = value, self.trips * self.rows
        if even is None:
            last = float("nan") if dtype in FLOAT else 2 ** (8 * SIZE[dtype] - (dtype in SIGNED)) - 1
            attrs = {"edge_padding_low": (0,), "edge_padding_high": (self.size - size,), "interior_padding": (0,)}
            fill = rewriter.constant(Literal.full(dtype, (), last))
            self.value = rewriter.emit("pad", (value, fill), (self.size,), dtype, attrs)
        self.made = _made(self.value)

    def count(self, predicate: Predicate, rewriter: Rewriter) -> Value:
        """How many elements it holds for, s32[]."""
        args = [Value((), "s32", None, i) for i in range(2)]
        body = Rewriter()
        body.location = rewriter.location
        part = self._part(args[0], body)
        places = body.emit("iota", (), part.shape, "s32", {"iota_dimension": 0})
        begin = body.elementwise("multiply", args[0], body.full((), "s32", self.rows))
        places = body.elementwise("add", places, body.spread(begin, part.shape))
        holds = body.convert(predicate(part, places, body), "f32")
        following = [
            body.elementwise("add", args[0], body.full((), "s32", 1)),
            body.elementwise("add", args[1], body.convert(body.sum(holds, (0,)), "s32")),
        ]
        body.ops.append(Op("return", following, [], None, (), rewriter.location))
        start = [rewriter.full((), "s32", 0) for _ in range(2)]
        types = [((), "s32")] * 2
        regions = (Block(args, body.ops),)
        loop = Op("ipu.repeat", start, types, {"count": self.trips}, regions, rewriter.location)
        rewriter.ops.append(loop)
        return loop.results[1]

    def element(self, place: Value, rewriter: Rewriter) -> Value:
        """The element at a place, s32[]."""
        # Of a whole part, so that the array lies on the tiles as for counts.
        rows = rewriter.full((), "s32", self.rows)
        number = rewriter.elementwise("divide", place, rows)
        begin = rewriter.elementwise("subtract", place, rewriter.elementwise("multiply", number, rows))
        part = self._part(number, rewriter)
        element = rewriter.emit("dynamic_slice", (part, begin), (1,), part.dtype, {"slice_sizes": (1,)})
        return rewriter.reshape(element, ())

    def _part(self, number: Value, rewriter: Rewriter) -> Value:
        return self._row(self.value, number, rewriter)

    def _row(self, value: Value, number: Value, rewriter: Rewriter) -> Value:
        """Part `number` of `value`, which is the array or one of which it is made."""
        literal, shape = splat_of(value), (self.rows,)
        if literal is not None:
            return rewriter.constant(literal.reshaped(shape))
        op = value.op
        if op is not None and op in self.made:
            if op.name == "broadcast_in_dim":
                return rewriter.broadcast(op.operands[0], shape, ())
            operands = [self._row(operand, number, rewriter) for operand in op.operands]
            return rewriter.emit(op.name, operands, shape, value.dtype, dict(op.attrs))
        # The rows of this view each lie on all tiles.
        view = rewriter.reshape(value, (self.trips, self.rows))
        attrs = {"slice_sizes": (1, self.rows)}
        begins = number, rewriter.full((), "s32", 0)
        part = rewriter.emit("dynamic_slice", (view, *begins), (1, self.rows), value.dtype, attrs)
        return rewriter.reshape(part, shape)


def _made(value: Value) -> set[Op]:
    """The elementwise ops and broadcasts of scalars that make the array from one other; none if there are several."""
    found: set[Op] = set()
    arrays: set[Value] = set()
    pending = [value]
    while pending:
        inner = pending.pop()
        op = inner.op
        if splat_of(inner) is not None or op in found:
            continue
        scalar = op is not None and op.name == "broadcast_in_dim" and op.operands[0].shape == ()
        if op is not None and (scalar or is_elementwise(op)) and len(found) < _MOST_OPS and not op.regions:
            found.add(op)
            pending += [] if scalar else op.operands
        else:
            arrays.add(inner)
    return found if len(arrays) <= 1 else set()
