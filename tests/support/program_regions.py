"""Operations of random programs with bodies that jax.lax does not write: as StableHLO text."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence

import jax.numpy as jnp

from support.programs import COMPLEX, EPSILON, FLOATS, INTS, ORDERED, REAL, Drawer, Step, Unsuitable, Value
from support.stablehlo_text import array, region, tensor


@dataclasses.dataclass(frozen=True)
class Reducer:
    """A body that is associative and commutative over as many values as there are identities.

    body makes %c0, %c1 and so on of %a0, %b0, %a1, %b1 and so on; "T" is their type. grows: with the number of terms.
    """

    body: str
    identities: tuple[str, ...]
    grows: bool


def _one(name: str, identity: str, *, grows: bool = False) -> Reducer:
    return Reducer(f"%c0 = stablehlo.{name} %a0, %b0 : T", (identity,), grows)


_PRODUCT_OF_PAIRS = (
    "%p = stablehlo.multiply %a0, %b0 : T %q = stablehlo.multiply %a1, %b1 : T "
    "%s = stablehlo.multiply %b0, %a1 : T %t = stablehlo.multiply %a0, %b1 : T "
    "%c0 = stablehlo.subtract %p, %q : T %c1 = stablehlo.add %t, %s : T"
)
_SUM_AND_LARGEST = "%c1 = stablehlo.maximum %b1, %a1 : T %c0 = stablehlo.add %b0, %a0 : T"
_LARGEST_AND_ITS_SMALLEST = (
    "%g = stablehlo.compare GT, %a0, %b0 : (T, T) -> tensor<i1> %e = stablehlo.compare EQ, %a0, %b0 : (T, T) -> "
    "tensor<i1> %m = stablehlo.minimum %a1, %b1 : T %w = stablehlo.select %g, %a1, %b1 : tensor<i1>, T "
    "%c0 = stablehlo.maximum %a0, %b0 : T %c1 = stablehlo.select %e, %m, %w : tensor<i1>, T"
)
_SUM_WITHOUT_PRODUCT = (  # a + b - a b
    "%p = stablehlo.multiply %a0, %b0 : T %s = stablehlo.add %a0, %b0 : T %c0 = stablehlo.subtract %s, %p : T"
)
_IF_LARGER = (
    "%g = stablehlo.compare LT, %a0, %b0 : (T, T) -> tensor<i1> "
    '%c0 = "stablehlo.if"(%g) ({ stablehlo.return %b0 : T }, { stablehlo.return %a0 : T }) : (tensor<i1>) -> T'
)


def reducers(dtype: str) -> list[Reducer]:
    """What values of a type can be reduced by."""
    if dtype == "bool":
        return [_one("and", "true"), _one("or", "false"), _one("xor", "false")]
    if dtype in COMPLEX:
        return [_one("add", "(0.0, 0.0)", grows=True)]
    if dtype in FLOATS:
        width = {"float16": 4, "bfloat16": 4, "float32": 8, "float64": 16}[dtype]
        infinities = {"float16": ("7C00", "FC00"), "bfloat16": ("7F80", "FF80"), "float32": ("7F800000", "FF800000")}
        infinities["float64"] = ("7FF" + "0" * 13, "FFF" + "0" * 13)
        high, low = (f"0x{bits}" for bits in infinities[dtype])
        assert len(high) == width + 2
        pair = Reducer(_SUM_AND_LARGEST, ("0.0", low), True)
        return [_one("add", "0.0", grows=True), _one("maximum", low), _one("minimum", high), pair]
    info = jnp.iinfo(dtype)
    low, high = str(info.min), str(info.max)
    return [
        _one("add", "0"),
        _one("multiply", "1"),
        _one("xor", "0"),
        _one("and", "-1" if info.min else high),
        _one("or", "0"),
        _one("maximum", low),
        _one("minimum", high),
        Reducer(_PRODUCT_OF_PAIRS, ("1", "0"), False),
        Reducer(_SUM_AND_LARGEST, ("0", low), False),
        Reducer(_LARGEST_AND_ITS_SMALLEST, (low, high), False),
        Reducer(_SUM_WITHOUT_PRODUCT, ("0",), False),
        Reducer(_IF_LARGER, (low,), False),
    ]


def typed(body: str, scalar: str) -> str:
    """The body with a type in the place of T."""
    return re.sub(r"\bT\b", scalar, body)


def body_text(reducer: Reducer, dtype: str) -> str:
    """The region; StableHLO has first all %a, then all %b."""
    scalar = tensor((), dtype)
    count = range(len(reducer.identities))
    arguments = [(f"%{side}{i}", scalar) for side in "ab" for i in count]
    return region(arguments, typed(reducer.body, scalar), [(f"%c{i}", scalar) for i in count])


def call(
    name: str,
    shapes: Sequence[tuple[Sequence[int], str]],
    operands: Sequence[str],
    constants: Sequence[tuple[str, str]],
    results: Sequence[tuple[Sequence[int], str]],
    tail: str,
) -> str:
    """Text of hlo(...) of one operation in generic form over operands and scalar constants (number, dtype)."""
    made = " ".join(f"%k{i} = stablehlo.constant dense<{x}> : {tensor((), t)}" for i, (x, t) in enumerate(constants))
    names = [f"%{i}" for i in range(len(operands))] + [f"%k{i}" for i in range(len(constants))]
    types = [tensor(s, t) for s, t in shapes] + [tensor((), t) for _, t in constants]
    left = "%r" if len(results) == 1 else f"%r:{len(results)}"
    given = ", ".join(tensor(s, t) for s, t in results)
    body = f'{made} {left} = "stablehlo.{name}"({", ".join(names)}) {tail} : ({", ".join(types)}) -> ({given})'
    return f"hlo({body!r}, {[(tuple(s), t) for s, t in results]}, {', '.join(operands)})"


def _others(d: Drawer, v: Value, count: int, **kind: bool) -> tuple[list[str], float, float]:
    """Text of `count` more values like v, and the largest bound and error of all."""
    names, bound, error = [v.name], v.bound, v.error
    for _ in range(count):
        name, w = d.partner(v, **kind)
        names.append(name)
        bound, error = max(bound, w.bound), max(error, w.error)
    return names, bound, error


def _reducer(d: Drawer, dtype: str) -> Reducer:
    return d.pick(reducers(dtype))


def _step(text: str, reducer: Reducer, bound: float, error: float, terms: int) -> Step:
    terms = max(1, terms) if reducer.grows else 1
    return Step(text, bound * terms, error * terms, terms if reducer.grows else 0, special=True)


def reduce(d: Drawer) -> Step:
    v = d.value((*ORDERED, *COMPLEX), min_rank=1)
    reducer, dims = _reducer(d, v.dtype), d.dims(v)
    n = len(reducer.identities)
    names, bound, error = _others(d, v, n - 1)
    result = [n for i, n in enumerate(v.shape) if i not in dims]
    text = call(
        "reduce", [(v.shape, v.dtype)] * n, names, [(x, v.dtype) for x in reducer.identities],
        [(result, v.dtype)] * n, f"{body_text(reducer, v.dtype)} {{dimensions = {array(dims)}}}",
    )  # fmt: skip
    return _step(text, reducer, bound, error, math.prod(v.shape[i] for i in dims))


def _window(
    d: Drawer, shape: Sequence[int], *, dilated: bool
) -> tuple[list[list[int]], list[tuple[int, int]], list[int]]:
    """Sizes, strides, base dilations, window dilations; padding; sizes of the result, which is not negative."""
    rank = len(shape)
    small = rank > 3
    window = [d.integer(1, 2 if small else 5) for _ in shape]
    stride = [d.integer(1, 3) for _ in shape]
    base, dilation = ([d.integer(1, 3 if dilated and not small else 1) for _ in shape] for _ in range(2))
    padding, result = [], []
    for i, n in enumerate(shape):
        spread = max(0, (n - 1) * base[i] + 1) if n else 0
        low = d.integer(-min(2, spread) if dilated else 0, min(3, window[i] - 1) if not dilated else 3)
        high = d.integer(-min(2, max(0, spread + low)) if dilated else 0, 3)
        padding.append((low, high))
        extent = (window[i] - 1) * dilation[i] + 1
        result.append(max(0, (spread + low + high - extent) // stride[i] + 1))
    return [window, stride, base, dilation], padding, result


def _pairs(padding: Sequence[tuple[int, int]]) -> str:
    return f"dense<{[list(p) for p in padding]}> : tensor<{len(padding)}x2xi64>"


def reduce_window(d: Drawer) -> Step:
    v = d.value((*ORDERED, *COMPLEX), min_rank=1)
    reducer = _reducer(d, v.dtype)
    n = len(reducer.identities)
    names, bound, error = _others(d, v, n - 1)
    (window, stride, base, dilation), padding, result = _window(d, v.shape, dilated=True)
    attributes = (
        f"window_dimensions = {array(window)}, window_strides = {array(stride)}, base_dilations = {array(base)}, "
        f"window_dilations = {array(dilation)}, padding = {_pairs(padding)}"
    )
    if math.prod(result) * math.prod(window) > 50_000:
        raise Unsuitable
    text = call(
        "reduce_window", [(v.shape, v.dtype)] * n, names, [(x, v.dtype) for x in reducer.identities],
        [(result, v.dtype)] * n, f"{body_text(reducer, v.dtype)} {{{attributes}}}",
    )  # fmt: skip
    return _step(text, reducer, bound, error, math.prod(window))


def select_and_scatter(d: Drawer) -> Step:
    """Of equal elements the first is selected: in windows of several dimensions all differ, whose order is open."""
    v = d.value(REAL, exact=True, finite=True, min_rank=1)
    if 0 in v.shape:
        raise Unsuitable
    reducer = d.pick([r for r in reducers(v.dtype) if len(r.identities) == 1])
    (window, stride, _, _), padding, result = _window(d, v.shape, dilated=False)
    if 0 in result:
        raise Unsuitable
    operand = v.name
    if sum(n > 1 for n in window) > 1:
        if v.size > 120:
            raise Unsuitable
        operand = f"jnp.argsort({v.name}.reshape(-1)).reshape({v.shape}).astype('{v.dtype}')"
    w = d.value((v.dtype,))
    scalar = tensor((), v.dtype)
    compared = f"%p = stablehlo.compare {d.pick(('GE', 'LE'))}, %a, %b : ({scalar}, {scalar}) -> tensor<i1>"
    select = region([("%a", scalar), ("%b", scalar)], compared, [("%p", "tensor<i1>")])
    attributes = f"window_dimensions = {array(window)}, window_strides = {array(stride)}, padding = {_pairs(padding)}"
    regions = f"({select[1:-1]}, {body_text(reducer, v.dtype)[1:-1]})"
    text = call(
        "select_and_scatter", [(v.shape, v.dtype), (result, v.dtype)], [operand, f"fit({w.name}, {tuple(result)})"],
        [(reducer.identities[0], v.dtype)], [(v.shape, v.dtype)], f"{regions} {{{attributes}}}",
    )  # fmt: skip
    return _step(text, reducer, w.bound, w.error, math.prod(window))


# What makes %p of %a0, %b0, %a1, %b1, with T0 and T1 the types, and the types that the first operand may have.
_LESS = "%p = stablehlo.compare {}, %a{}, %b{} : (T{}, T{}) -> tensor<i1>"
_SIGNED = ("int8", "int16", "int32", "int64", *FLOATS)
COMPARATORS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (_LESS.format("LT", 0, 0, 0, 0), ORDERED),
    (_LESS.format("GT", 0, 0, 0, 0), ORDERED),
    (_LESS.format("LT", 1, 1, 1, 1), ORDERED),
    (_LESS.format("GT", 1, 1, 1, 1), ORDERED),
    ("%p = stablehlo.compare GT, %b0, %a0 : (T0, T0) -> tensor<i1>", ORDERED),
    (
        "%x = stablehlo.abs %a0 : T0 %y = stablehlo.abs %b0 : T0 "
        "%p = stablehlo.compare LT, %x, %y : (T0, T0) -> tensor<i1>",
        _SIGNED,
    ),
    (
        "%x = stablehlo.negate %a0 : T0 %y = stablehlo.negate %b0 : T0 "
        "%p = stablehlo.compare LT, %x, %y : (T0, T0) -> tensor<i1>",
        (*FLOATS, *INTS),
    ),
    (
        "%k = stablehlo.constant dense<3> : T0 %x = stablehlo.remainder %a0, %k : T0 "
        "%y = stablehlo.remainder %b0, %k : T0 %p = stablehlo.compare GT, %x, %y : (T0, T0) -> tensor<i1>",
        INTS,
    ),
    (
        "%e = stablehlo.compare EQ, %a0, %b0 : (T0, T0) -> tensor<i1> "
        "%g = stablehlo.compare GT, %a0, %b0 : (T0, T0) -> tensor<i1> "
        "%l = stablehlo.compare LT, %a1, %b1 : (T1, T1) -> tensor<i1> "
        "%s = stablehlo.and %e, %l : tensor<i1> %p = stablehlo.or %g, %s : tensor<i1>",
        ORDERED,
    ),
    (
        "%e = stablehlo.compare EQ, %a1, %b1 : (T1, T1) -> tensor<i1> "
        "%g = stablehlo.compare GT, %a1, %b1 : (T1, T1) -> tensor<i1> "
        "%l = stablehlo.compare GT, %a0, %b0 : (T0, T0) -> tensor<i1> "
        "%p = stablehlo.select %e, %l, %g : tensor<i1>, tensor<i1>",
        ORDERED,
    ),
)


def sort(d: Drawer) -> Step:
    """Two to four operands by any comparator."""
    comparator, dtypes = d.pick(COMPARATORS)
    v = d.value(dtypes, exact=True, finite=True, min_rank=1)
    operands = [v, d.value(ORDERED, exact=True, finite=True), *(d.value() for _ in range(d.integer(0, 2)))]
    kinds = [tensor((), w.dtype) for w in operands]
    arguments = [(f"%{side}{i}", kinds[i]) for i in range(len(operands)) for side in "ab"]
    body = comparator.replace("T0", kinds[0]).replace("T1", kinds[1])
    tail = (
        f"{region(arguments, body, [('%p', 'tensor<i1>')])} "
        f"{{dimension = {d.integer(0, v.rank - 1)} : i64, is_stable = true}}"
    )
    names = [w.name if w.shape == v.shape else f"fit({w.name}, {v.shape})" for w in operands]
    shapes = [(v.shape, w.dtype) for w in operands]
    floats = [w for w in operands if w.dtype in EPSILON]
    bound, error = (max([getattr(w, k) for w in floats], default=0) for k in ("bound", "error"))
    return Step(call("sort", shapes, names, [], shapes, tail), bound, error)


# What makes %y of %a0, %a1 and %a2 of one type T, the types, and by which factor bound and error grow.
MAPS: tuple[tuple[str, tuple[str, ...], int], ...] = (
    ("%p = stablehlo.add %a0, %a1 : T %y = stablehlo.subtract %p, %a2 : T", (*REAL, *COMPLEX), 3),
    ("%p = stablehlo.maximum %a2, %a1 : T %y = stablehlo.minimum %p, %a0 : T", REAL, 1),
    ("%p = stablehlo.xor %a0, %a1 : T %y = stablehlo.and %p, %a2 : T", (*INTS, "bool"), 1),
    (
        "%p = stablehlo.compare LT, %a0, %a1 : (T, T) -> tensor<i1> %n = stablehlo.negate %a2 : T "
        "%y = stablehlo.select %p, %a0, %n : tensor<i1>, T",
        INTS,
        1,
    ),
    (
        "%k = stablehlo.constant dense<2> : T %p = stablehlo.multiply %a0, %k : T %y = stablehlo.add %p, %a2 : T",
        INTS,
        3,
    ),
    (
        "%p = stablehlo.compare GE, %a0, %a1 : (T, T) -> tensor<i1> "
        '%y = "stablehlo.if"(%p) ({ %s = stablehlo.add %a1, %a2 : T stablehlo.return %s : T }, '
        "{ stablehlo.return %a2 : T }) : (tensor<i1>) -> T",
        INTS,
        2,
    ),
)


def map_elements(d: Drawer) -> Step:
    body, dtypes, grows = d.pick(MAPS)
    v = d.value(dtypes)
    names, bound, error = _others(d, v, 2)
    scalar = tensor((), v.dtype)
    computed = region([(f"%a{i}", scalar) for i in range(3)], typed(body, scalar), [("%y", scalar)])
    shapes = [(v.shape, v.dtype)] * 3
    text = call("map", shapes, names, [], shapes[:1], f"{computed} {{dimensions = {array(range(v.rank))}}}")
    return Step(text, grows * bound, grows * error, grows if grows > 1 else 0)


@dataclasses.dataclass(frozen=True)
class Places:
    """Dimension numbers of a gather or a scatter, and shapes."""

    indices: tuple[int, ...]
    batch: list[int]  # shape that the indices without their vectors give the result or the updates
    numbers: dict[str, list[int]]  # by the part of the attribute's name
    sizes: list[int]  # of a slice, in all dimensions of the operand
    result: list[int]
    depth: int


def _places(d: Drawer, v: Value) -> Places:
    if 0 in v.shape:
        raise Unsuitable
    kinds = ["b" if d.integer(0, 3) == 0 else d.pick("cwww") for _ in v.shape]
    batching = [i for i, k in enumerate(kinds) if k == "b"]
    collapsed = [i for i, k in enumerate(kinds) if k == "c"]
    windows = [i for i, k in enumerate(kinds) if k == "w"]
    free = [i for i in range(v.rank) if i not in batching]
    mapped = [free[i] for i in d.order(len(free))][: d.integer(1, max(1, len(free)))]
    extra = [d.integer(1, 4) for _ in range(d.integer(0 if batching else 1, 2))]
    batch: list[int | tuple[int, int]] = [*((i, v.shape[i]) for i in batching), *extra]
    batch = [batch[i] for i in d.order(len(batch))]
    shape = [x[1] if isinstance(x, tuple) else x for x in batch]
    vector = d.integer(0, len(batch))
    implicit = len(mapped) == 1 and vector == len(batch) and d.flag()
    indices = shape if implicit else [*shape[:vector], len(mapped), *shape[vector:]]

    def place(i: int) -> int:
        """Of a batching dimension of the operand in the indices."""
        at = next(p for p, x in enumerate(batch) if isinstance(x, tuple) and x[0] == i)
        return at if implicit or at < vector else at + 1

    sizes = [d.integer(1, n) if i in windows else 1 for i, n in enumerate(v.shape)]
    rank = len(batch) + len(windows)
    offsets = sorted(d.order(rank)[: len(windows)])
    result, inner, outer = [], iter(windows), iter(shape)
    for i in range(rank):
        result.append(sizes[next(inner)] if i in offsets else next(outer))
    if math.prod(result) > 1500 or not mapped:
        raise Unsuitable
    numbers = {
        "offsets": offsets, "collapsed": collapsed, "batching": batching,
        "places": [place(i) for i in batching], "mapped": mapped, "vector": [len(indices) if implicit else vector],
    }  # fmt: skip
    return Places(tuple(indices), shape, numbers, sizes, result, len(mapped))


def _index_values(d: Drawer, shape: tuple[int, ...]) -> tuple[str, str]:
    """Text of indices, some of them out of bounds, and their type."""
    found = [v for v in d.values if v.dtype in INTS and v.size]
    if not found or d.flag():
        dtype = d.pick(("int32", *INTS))
        numbers = [d.integer(-2 if dtype[0] == "i" else 0, 7) for _ in range(7)]
        return f"jnp.resize(jnp.asarray({numbers}, '{dtype}'), {shape})", dtype
    chosen = d.pick(found)
    d.used.append(dataclasses.replace(chosen, special=False))
    if d.flag():
        return f"fit({chosen.name}, {shape})", chosen.dtype
    return f"(fit({chosen.name}, {shape}) & 7)", chosen.dtype


def gather(d: Drawer) -> Step:
    v = d.value(min_rank=1)
    p = _places(d, v)
    indices, dtype = _index_values(d, p.indices)
    n = p.numbers
    numbers = (
        f"offset_dims = {n['offsets']}, collapsed_slice_dims = {n['collapsed']}, operand_batching_dims = "
        f"{n['batching']}, start_indices_batching_dims = {n['places']}, start_index_map = {n['mapped']}, "
        f"index_vector_dim = {n['vector'][0]}"
    )
    tail = f"{{dimension_numbers = #stablehlo.gather<{numbers}>, slice_sizes = {array(p.sizes)}}}"
    shapes = [(v.shape, v.dtype), (p.indices, dtype)]
    text = call("gather", shapes, [v.name, indices], [], [(p.result, v.dtype)], tail)
    return Step(text, v.bound, v.error)


def scatter(d: Drawer) -> Step:
    """Updates by any body that does not depend on their order."""
    v = d.value((*ORDERED, *COMPLEX), min_rank=1)
    p = _places(d, v)
    reducer = _reducer(d, v.dtype)
    count = len(reducer.identities)
    names, bound, error = _others(d, v, count - 1)
    # Of operands that are one value XLA:CPU updates one only, and writes beyond the end of a buffer.
    names[1:] = [f"({name} - lax.full_like({name}, 1))" for name in names[1:]]
    bound += 1
    updates = []
    for _ in range(count):
        w = d.value((v.dtype,))
        updates.append(f"fit({w.name}, {tuple(p.result)})")
        bound, error = max(bound, w.bound), max(error, w.error)
    indices, dtype = _index_values(d, p.indices)
    n = p.numbers
    numbers = (
        f"update_window_dims = {n['offsets']}, inserted_window_dims = {n['collapsed']}, input_batching_dims = "
        f"{n['batching']}, scatter_indices_batching_dims = {n['places']}, scatter_dims_to_operand_dims = "
        f"{n['mapped']}, index_vector_dim = {n['vector'][0]}"
    )
    shapes = [(v.shape, v.dtype)] * count + [(p.indices, dtype)] + [(p.result, v.dtype)] * count
    tail = f"{body_text(reducer, v.dtype)} {{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>}}"
    text = call("scatter", shapes, [*names, indices, *updates], [], [(v.shape, v.dtype)] * count, tail)
    return _step(text, reducer, bound, error, 1 + math.prod(p.batch))


OPERATIONS = (gather, map_elements, reduce, reduce_window, scatter, select_and_scatter, sort)
