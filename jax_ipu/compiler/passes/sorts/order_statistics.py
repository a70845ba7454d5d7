"""A few elements of a large sorted array are found without the sort, where memory comes first: `jnp.median(x)`.

A sort of floats needs their positions beside them, as equal ones may differ in bits. The element at place k is the
smallest value that at least k + 1 elements do not exceed: a search by bisection over the values of the type counts
them, once for each bit. Zeros compare as equal, and so do NaN: among these the search goes on over their places in the
array.
"""

from __future__ import annotations

from collections.abc import Callable

from jax_ipu.compiler.ir import Block, Module, Op, Value, size_in_bytes
from jax_ipu.compiler.passes.in_parts.array_parts import ArrayParts
from jax_ipu.compiler.passes.rewriter import Rewriter
from jax_ipu.compiler.passes.sorts.sort_order import is_ascending
from jax_ipu.compiler.types import FLOAT, SIGNED, SIZE, num_elements

# Arrays of this part of the memory are not sorted for at most so many elements.
_LARGE, _MOST = 1 / 8, 16
_TYPES = frozenset(("f32", "f16", "bf16", "s32", "s16", "s8", "u32", "u16", "u8"))
_INDEX_TYPES = frozenset(("s32", "s16", "s8", "u32", "u16", "u8"))
_LONGEST = 2**31  # places are s32
# The largest number of a float type as an unsigned one, infinity; the next one is NaN.
_INFINITY = {"f32": 0x7F800000, "f16": 0x7C00, "bf16": 0x7F80}


def run(module: Module) -> None:
    """Applies to the sorts of main, outside of loops and branches."""
    if not module.memory:
        return
    block = module.main.block
    for sort in [op for op in block.ops if op.name == "sort" and _is_large(op, module.memory)]:
        readers = list(dict.fromkeys(sort.result.users))
        if not all(_reads_elements(op, sort.result) and op in block.ops for op in readers):
            continue
        if sum(num_elements(op.result.shape) for op in readers) > _MOST:
            continue
        for reader in readers:
            rewriter = Rewriter()
            rewriter.location = reader.location
            reader.result.replace_with(_elements(sort.operands[0], reader, module.memory, rewriter))
            at = block.ops.index(reader)
            block.ops[at : at + 1] = rewriter.ops
            reader.drop()


def _is_large(sort: Op, memory: int) -> bool:
    value = sort.operands[0]
    one = len(sort.operands) == 1 and len(value.shape) == 1 and value.dtype in _TYPES and value.shape[0] < _LONGEST
    return one and size_in_bytes(value) >= memory * _LARGE and is_ascending(sort.regions[0])


def _reads_elements(op: Op, value: Value) -> bool:
    if op.name == "slice":
        return True
    if op.name not in ("gather", "dynamic_slice") or op.operands[0] is not value:
        return False
    return value not in op.operands[1:] and op.operands[1].dtype in _INDEX_TYPES


def _elements(value: Value, reader: Op, memory: int, rewriter: Rewriter) -> Value:
    """What `reader` reads of the sorted elements of `value`."""
    search = _Search(value, memory, rewriter)
    places = _places(reader, value.shape[0], rewriter)
    found = [rewriter.reshape(search.element(place), (1,)) for place in places]
    joined = found[0]
    if len(found) > 1:
        joined = rewriter.emit("concatenate", found, (len(found),), value.dtype, {"dimension": 0})
    return rewriter.reshape(joined, reader.result.shape)


def _places(reader: Op, size: int, rewriter: Rewriter) -> list[Value]:
    """The places that `reader` reads, s32[] each."""
    if reader.name == "slice":
        (begin,), (stride,) = reader.attrs["start_indices"], reader.attrs["strides"]
        return [rewriter.full((), "s32", begin + i * stride) for i in range(reader.result.shape[0])]
    (length,), index = reader.attrs["slice_sizes"], reader.operands[1]
    wraps = reader.attrs.get("index_wraps") or (0,)
    flat = rewriter.reshape(index, (num_elements(index.shape),))
    places = []
    for i in range(flat.shape[0]):
        first = rewriter.reshape(rewriter.slice(flat, (i,), (i + 1,)), ())
        if wraps[0]:
            wrapped = rewriter.elementwise("add", first, rewriter.full((), first.dtype, wraps[0]))
            negative = _compare("LT", first, rewriter.full((), first.dtype, 0), rewriter)
            first = _select(negative, wrapped, first, rewriter)
        if first.dtype in SIGNED:
            first = rewriter.elementwise("maximum", first, rewriter.full((), first.dtype, 0))
        if size - length < 2 ** (8 * SIZE[first.dtype] - (first.dtype in SIGNED)):
            first = rewriter.elementwise("minimum", first, rewriter.full((), first.dtype, size - length))
        first = rewriter.convert(first, "s32")
        places += [rewriter.elementwise("add", first, rewriter.full((), "s32", j)) for j in range(length)]
    return places


class _Search:
    """The search for elements of the sorted `value`."""

    def __init__(self, value: Value, memory: int, rewriter: Rewriter) -> None:
        self.value, self.dtype, self.rewriter = value, value.dtype, rewriter
        self.bits = 8 * SIZE[value.dtype]
        self.parts = ArrayParts(value, memory, rewriter)

    def element(self, place: Value) -> Value:
        rewriter = self.rewriter
        wanted = rewriter.elementwise("add", place, rewriter.full((), "s32", 1))
        # A key numbers the values in their order; the last one of floats is NaN.
        first, last, sign = 0, 2**self.bits - 1, 2 ** (self.bits - 1)
        if self.dtype in FLOAT:
            first, last = sign - 1 - _INFINITY[self.dtype], sign + _INFINITY[self.dtype] + 1

        def enough(key: Value, body: Rewriter) -> Value:
            limit = self._value(key, body)
            count = self._count("LE", limit, body)
            if self.dtype in FLOAT:
                is_nan = _compare("NE", limit, limit, body)
                count = _select(is_nan, body.full((), "s32", self.parts.size), count, body)
            return _compare("GE", count, wanted, body)

        ends = rewriter.full((), "u32", first), rewriter.full((), "u32", last)
        found = self._value(_bisect(*ends, enough, (last - first).bit_length(), rewriter), rewriter)
        return self._of_equal(found, wanted) if self.dtype in FLOAT else found

    def _of_equal(self, found: Value, wanted: Value) -> Value:
        """The element itself, where several values are equal to the one that was found."""
        rewriter, size = self.rewriter, self.parts.size
        is_nan = _compare("NE", found, found, rewriter)
        numbers = self.parts.count(lambda part, _, body: _compare("EQ", part, part, body), rewriter)
        before = _select(is_nan, numbers, self._count("LT", found, rewriter), rewriter)
        rank = rewriter.elementwise("subtract", wanted, before)

        def enough(place: Value, body: Rewriter) -> Value:
            def counts(part: Value, places: Value, body: Rewriter) -> Value:
                nan = _compare("NE", part, part, body)
                nan = body.elementwise("and", nan, body.spread(is_nan, part.shape))
                equal = _compare("EQ", part, body.spread(found, part.shape), body)
                equal = body.elementwise("or", equal, nan)
                near = _compare("LE", places, body.spread(body.convert(place, "s32"), part.shape), body)
                return body.elementwise("and", equal, near)

            return _compare("GE", self.parts.count(counts, body), rank, body)

        zero = rewriter.full((), self.dtype, 0)
        several = rewriter.elementwise("or", is_nan, _compare("EQ", found, zero, rewriter))
        first = rewriter.full((), "u32", 0)
        last = _select(several, rewriter.full((), "u32", size - 1), first, rewriter)
        place = _bisect(first, last, enough, None, rewriter)
        return _select(several, self.parts.element(rewriter.convert(place, "s32"), rewriter), found, rewriter)

    def _count(self, direction: str, limit: Value, rewriter: Rewriter) -> Value:
        return self.parts.count(
            lambda part, _, body: _compare(direction, part, body.spread(limit, part.shape), body), rewriter
        )

    def _value(self, key: Value, rewriter: Rewriter) -> Value:
        """The value with a key, u32[]."""
        sign = rewriter.full((), "u32", 2 ** (self.bits - 1))
        flipped = rewriter.elementwise("xor", key, sign)
        pattern = flipped if self.dtype in SIGNED else key
        if self.dtype in FLOAT:
            is_positive = _compare("GE", key, sign, rewriter)
            pattern = _select(is_positive, flipped, rewriter.elementwise("not", key), rewriter)
        if self.bits < 32:
            pattern = rewriter.elementwise("and", pattern, rewriter.full((), "u32", 2**self.bits - 1))
        pattern = rewriter.convert(pattern, f"u{self.bits}")
        if self.dtype == pattern.dtype:
            return pattern
        return rewriter.emit("bitcast_convert", (pattern,), (), self.dtype)


def _bisect(
    low: Value, high: Value, enough: Callable[[Value, Rewriter], Value], steps: int | None, rewriter: Rewriter
) -> Value:
    """The first number from `low` to `high`, u32[], for which `enough` holds, as it does for all after it.

    `steps`: how many halvings that takes; None: found at run time.
    """
    start = low, high
    args = [Value((), "u32", None, i) for i in range(2)]
    body = Rewriter()
    body.location = rewriter.location
    half = body.elementwise("subtract", args[1], args[0])
    half = body.elementwise("shift_right_logical", half, body.full((), "u32", 1))
    middle = body.elementwise("add", args[0], half)
    found = enough(middle, body)
    after = body.elementwise("minimum", body.elementwise("add", middle, body.full((), "u32", 1)), args[1])
    following = [_select(found, args[0], after, body), _select(found, middle, args[1], body)]
    body.ops.append(Op("return", following, [], None, (), rewriter.location))
    types = [((), "u32")] * 2
    if steps is not None:
        loop = Op("ipu.repeat", start, types, {"count": steps}, (Block(args, body.ops),), rewriter.location)
    else:
        tested = [Value((), "u32", None, i) for i in range(2)]
        test = Rewriter()
        test.location = rewriter.location
        test.ops.append(Op("return", [_compare("LT", tested[0], tested[1], test)], [], None, (), rewriter.location))
        regions = Block(tested, test.ops), Block(args, body.ops)
        loop = Op("while", start, types, None, regions, rewriter.location)
    rewriter.ops.append(loop)
    return loop.results[1]


def _compare(direction: str, a: Value, b: Value, rewriter: Rewriter) -> Value:
    return rewriter.elementwise("compare", a, b, dtype="pred", comparison_direction=direction)


def _select(which: Value, a: Value, b: Value, rewriter: Rewriter) -> Value:
    return rewriter.elementwise("select", which, a, b, dtype=a.dtype)
