"""Top-k of a row that takes much of the memory is computed in parts, where memory comes first.

The k first of a part and of the parts before it are those of both together, so a loop goes over the parts with the k
first so far. A sort of the whole row, with positions, would take three times its memory. Where k is much of a step,
both are sorted with their positions in the row; else the k first of both are found, and their positions looked up.
"""

from __future__ import annotations

import itertools

from jax_ipu.compiler.ir import Block, Module, Op, Value, size_in_bytes
from jax_ipu.compiler.passes.rewriter import Rewriter, rewrite
from jax_ipu.compiler.types import FLOAT, SIGNED, SIZE, num_elements

# Rows of this part of the memory are cut, into parts of at most a part of it. With few elements to find, parts are
# smaller: a longer one saves little.
_LARGE, _FEW, _MANY = 1 / 8, 1 / 64, 1 / 40
_LONG = 8  # times k
# The memory that the row and a step may take, and the elements of a step with those so far: the part, both joined,
# sorted with their positions, taken from the positions of both, and the buffers of the sort.
_FREE, _COPIES = 0.8, 8
# Of the memory: with shorter parts the supersteps cost more than the elements.
_LEAST = 1 / 256
# A loop brings each tile its share of all parts over which it goes: they take at most this part of the memory.
_TOGETHER = 1 / 4
_POSITION = SIZE["s32"]


def run(module: Module) -> None:
    """Applies to all ops of main."""
    if module.memory:
        rewrite(module.main.block, {"chlo.top_k": lambda op, rewriter: _top_k(op, rewriter, module.memory)})


def _top_k(op: Op, rewriter: Rewriter, memory: int) -> list[Value] | None:
    row = op.operands[0]
    if size_in_bytes(row) < memory * _LARGE:
        return None
    rows, length, k = num_elements(row.shape[:-1]), row.shape[-1], op.attrs["k"]
    each = rows * max(SIZE[row.dtype], _POSITION)
    free = int(memory * _FREE - size_in_bytes(row)) // (each * _COPIES) - k
    few, many, least = (int(memory * part) // each for part in (_FEW, _MANY, _LEAST))
    part = max(least, min(free, many, max(few, _LONG * k)))
    parts = (length - max(k, part)) // part
    if parts < 1:
        return None
    return _in_parts(op, rewriter, part, parts, max(1, int(memory * _TOGETHER) // (each * part)))


def _in_parts(op: Op, rewriter: Rewriter, part: int, parts: int, together: int) -> list[Value]:
    """The results by a first part with what `parts` parts leave, and loops over at most `together` of these."""
    row = op.operands[0]
    zeros, first = (0,) * (len(row.shape) - 1), row.shape[-1] - part * parts
    best = _first_of(op, rewriter.slice(row, (*zeros, 0), (*row.shape[:-1], first)), rewriter)
    loops = -(-parts // together)
    bounds = [parts * loop // loops for loop in range(loops + 1)]
    for begin, end in itertools.pairwise(bounds):
        best = _loop(op, best, (first + begin * part, part, end - begin), rewriter)
    return best


def _loop(op: Op, best: list[Value], numbers: tuple[int, int, int], rewriter: Rewriter) -> list[Value]:
    """The first of `best` and of the parts of the row; `numbers`: where these begin, the length of one, how many."""
    row, dtype = op.operands[0], op.operands[0].dtype
    outer, (first, part, parts) = row.shape[:-1], numbers
    zeros = (0,) * len(outer)
    # A view of which a step reads a row of parts.
    view = rewriter.slice(row, (*zeros, first), (*outer, first + parts * part))
    view = rewriter.reshape(view, (*outer, parts, part))

    start = (rewriter.full((), "s32", 0), *best)
    args = [Value(v.shape, v.dtype, None, i) for i, v in enumerate(start)]
    trip, values, positions = args
    body = Rewriter()
    body.location = rewriter.location
    zero = body.full((), "s32", 0)
    attrs = {"slice_sizes": (*outer, 1, part)}
    begins = (*(zero for _ in outer), trip, zero)
    piece = body.emit("dynamic_slice", (view, *begins), (*outer, 1, part), dtype, attrs)
    joined = _join(values, body.reshape(piece, (*outer, part)), body)
    begin = body.elementwise("multiply", trip, body.full((), "s32", part))
    begin = body.elementwise("add", begin, body.full((), "s32", first))
    # Equal elements are in the order of their positions: those so far come first.
    of_part = body.elementwise(
        "add",
        body.emit("iota", (), (*outer, part), "s32", {"iota_dimension": len(outer)}),
        body.spread(begin, (*outer, part)),
    )
    everywhere = _join(positions, of_part, body)
    k = op.attrs["k"]
    if _LONG * k > k + part:
        largest = bool(op.attrs.get("largest", True))
        found, kept = (_first(v, k, body) for v in _sorted(joined, everywhere, largest, body))
    else:
        found, places = _first_of(op, joined, body)
        kept = _take(everywhere, places, body)
    following = body.elementwise("add", trip, body.full((), "s32", 1))
    body.ops.append(Op("return", [following, found, kept], [], None, (), body.location))
    types = [(v.shape, v.dtype) for v in args]
    loop = Op("ipu.repeat", list(start), types, {"count": parts}, (Block(args, body.ops),), rewriter.location)
    rewriter.ops.append(loop)
    return loop.results[1:]


def _first_of(op: Op, value: Value, rewriter: Rewriter) -> list[Value]:
    copy = Op(op.name, [value], [(r.shape, r.dtype) for r in op.results], dict(op.attrs), (), op.location)
    rewriter.ops.append(copy)
    return copy.results


def _first(value: Value, k: int, rewriter: Rewriter) -> Value:
    return rewriter.slice(value, (0,) * len(value.shape), (*value.shape[:-1], k))


def _sorted(values: Value, positions: Value, largest: bool, rewriter: Rewriter) -> list[Value]:
    """Both sorted by the values in the total order, equal ones by their positions."""
    args = [Value((), v.dtype, None, i) for i, v in enumerate((values, values, positions, positions))]
    body = Rewriter()
    body.location = rewriter.location

    def compare(direction: str, a: Value, b: Value) -> Value:
        order = "TOTALORDER" if a.dtype in FLOAT else "SIGNED" if a.dtype in SIGNED else "UNSIGNED"
        attrs = {"comparison_direction": direction, "compare_type": order}
        return body.emit("compare", (a, b), (), "pred", attrs)

    before = compare("GT" if largest else "LT", *args[:2])
    tie = body.elementwise("and", compare("EQ", *args[:2]), compare("LT", *args[2:]))
    body.ops.append(Op("return", [body.elementwise("or", before, tie)], [], None, (), body.location))
    types = [(v.shape, v.dtype) for v in (values, positions)]
    attrs = {"dimension": len(values.shape) - 1, "is_stable": True}
    sort = Op("sort", (values, positions), types, attrs, (Block(args, body.ops),), rewriter.location)
    rewriter.ops.append(sort)
    return sort.results


def _join(a: Value, b: Value, rewriter: Rewriter) -> Value:
    last = len(a.shape) - 1
    shape = (*a.shape[:-1], a.shape[-1] + b.shape[-1])
    return rewriter.emit("concatenate", (a, b), shape, a.dtype, {"dimension": last})


def _take(value: Value, places: Value, rewriter: Rewriter) -> Value:
    """The elements of the last dimension at `places`, row by row."""
    last = len(value.shape) - 1
    numbers = {
        "offset_dims": (),
        "collapsed_slice_dims": (last,),
        "operand_batching_dims": tuple(range(last)),
        "start_indices_batching_dims": tuple(range(last)),
        "start_index_map": (last,),
        "index_vector_dim": len(places.shape),
    }
    attrs = {"dimension_numbers": numbers, "slice_sizes": (1,) * len(value.shape)}
    return rewriter.emit("gather", (value, places), places.shape, value.dtype, attrs)
