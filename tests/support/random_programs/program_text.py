"""Operations of random programs that jax.lax cannot express, as StableHLO text, with a reference if XLA has none."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from support.programs import COMPLEX, FLOATS, INTS, Drawer, Step, Unsuitable, Value, copy
from support.stablehlo_text import element, tensor


def text_call(
    body: str, results: Sequence[tuple[Sequence[int], str]], operands: Sequence[str], reference: str = ""
) -> str:
    shown = f", reference={reference}" if reference else ""
    return f"hlo({body!r}, {[(tuple(s), t) for s, t in results]}, {', '.join(operands)}{shown})"


def batch_norm(d: Drawer) -> Step:
    """Training, inference and gradient of batch normalisation over any feature dimension."""
    v = d.value(("float32", "float64"), exact=True, finite=True, min_rank=1)
    axis = d.integer(0, v.rank - 1)
    features, count = v.shape[axis], v.size // max(1, v.shape[axis])
    if 0 in v.shape or v.bound > 16:
        raise Unsuitable
    parts = [d.value((v.dtype,), exact=True, finite=True) for _ in range(4)]
    if max(w.bound for w in parts) > 16:
        raise Unsuitable
    vectors = [f"fit({w.name}, ({features},))" for w in parts]
    whole, vector = tensor(v.shape, v.dtype), tensor((features,), v.dtype)
    attributes = f"{{epsilon = 1.0 : f32, feature_index = {axis} : i64}}"
    bound = max(v.bound, *(w.bound for w in parts), 1.0)
    # 1 / sqrt(variance + 1) <= 1. The variance of values within b has a rounding error of (n + 4) (2 b)^2. The
    # derivative of the root, 1/2, turns it into an error of the quotient, which is multiplied by (x - mean) and the
    # scale.
    rounds = (count + 4) * bound**2
    kind = d.integer(0, 2)
    if kind == 0:
        body = f'%r:3 = "stablehlo.batch_norm_training"(%0, %1, %2) {attributes} : '
        body += f"({whole}, {vector}, {vector}) -> ({whole}, {vector}, {vector})"
        results = [(v.shape, v.dtype), ((features,), v.dtype), ((features,), v.dtype)]
        text = text_call(body, results, [v.name, *vectors[:2]])
        return Step(text, 4 * bound**2 + bound, 0, int(2 * rounds) + 8, inexact=True)
    if kind == 1:
        variance = f"lax.abs({vectors[3]})"
        body = f'%r = "stablehlo.batch_norm_inference"(%0, %1, %2, %3, %4) {attributes} : '
        body += f"({whole}, {vector}, {vector}, {vector}, {vector}) -> {whole}"
        text = text_call(body, [(v.shape, v.dtype)], [v.name, *vectors[:3], variance])
        return Step(text, 2 * bound**2 + bound, 0, 16, inexact=True)
    w = d.value((v.dtype,), exact=True, finite=True)
    if w.bound > 16:
        raise Unsuitable
    bound = max(bound, w.bound)
    body = f'%r:3 = "stablehlo.batch_norm_grad"(%0, %1, %2, %3, %4) {attributes} : '
    body += f"({whole}, {vector}, {vector}, {vector}, {whole}) -> ({whole}, {vector}, {vector})"
    results = [(v.shape, v.dtype), ((features,), v.dtype), ((features,), v.dtype)]
    operands = [v.name, vectors[0], vectors[1], f"lax.abs({vectors[3]})", f"fit({w.name}, {v.shape})"]
    # The gradient is scale / n (n g - sum g - (x - mean) sum(g (x - mean)) / (variance + 1)); it sums n products.
    largest = bound * (2 * bound + 4 * bound**3) * max(1, count)
    return Step(text_call(body, results, operands), largest, 0, 4 * count + 16, inexact=True)


# Storage type: (smallest, largest).
STORAGE = {"i8": (-128, 127), "u8": (0, 255), "i4": (-8, 7), "u4": (0, 15), "i16": (-32768, 32767)}
# Text of operations on quantised values of one type Q, their meaning on floats, and their number of operands.
ON_QUANTIZED: tuple[tuple[str, str, int], ...] = (
    ("%c = stablehlo.add %a, %b : Q", "x + y", 2),
    ("%c = stablehlo.subtract %b, %a : Q", "y - x", 2),
    ("%c = stablehlo.multiply %a, %b : Q", "x * y", 2),
    ("%c = stablehlo.maximum %a, %b : Q", "lax.max(x, y)", 2),
    ("%c = stablehlo.minimum %a, %b : Q", "lax.min(x, y)", 2),
    ("%c = stablehlo.negate %a : Q", "-x", 1),
    ("%c = stablehlo.abs %a : Q", "lax.abs(x)", 1),
    ("%c = stablehlo.add %a, %a : Q", "x + x", 1),
)  # fmt: skip


def quantized(d: Drawer) -> Step:
    """Quantises, computes and dequantises. The reference is the definition in the specification, on floats."""
    v = d.value(("float32",), exact=True, finite=True)
    if v.bound > 1e5:
        raise Unsuitable
    other, _ = d.partner(v, exact=True, finite=True)
    storage = d.pick(sorted(STORAGE))
    low, high = STORAGE[storage]
    if d.flag():
        low = low + d.integer(0, 3)
    axis = d.integer(0, v.rank - 1) if v.rank and d.integer(0, 2) == 0 else None
    count = 1 if axis is None else v.shape[axis]
    if count > 8 or count == 0:
        axis, count = None, 1
    scales = [2.0 ** d.integer(0, 3) for _ in range(count)]
    points = [d.integer(max(low, -20), min(high, 20)) for _ in range(count)]
    pairs = ", ".join(f"{s}:{z}" for s, z in zip(scales, points, strict=True))
    ranged = f"<{low}:{high}>" if low != STORAGE[storage][0] else ""
    kind = f"!quant.uniform<{storage}{ranged}:f32" + (f", {pairs}>" if axis is None else f":{axis}, {{{pairs}}}>")
    plain = tensor(v.shape, "float32")
    q = f"{plain[:-4]}{kind}>"
    operation, meaning, needed = d.pick(ON_QUANTIZED)
    if axis is not None:
        operation, meaning, needed = "", "x", 1  # types with a scale for each index have no arithmetic
    shape = [1] * v.rank
    if axis is not None:
        shape[axis] = count
    s = f"np.array({scales}, np.float32).reshape({shape})"
    z = f"np.array({points}, np.float32).reshape({shape})"
    body = f"%a = stablehlo.uniform_quantize %0 : ({plain}) -> {q} "
    if needed == 2:
        body += f"%b = stablehlo.uniform_quantize %1 : ({plain}) -> {q} "
    body += operation.replace("Q", q)
    body += f" %r = stablehlo.uniform_dequantize {'%c' if operation else '%a'} : ({q}) -> {plain}"
    exact = f"(lambda t: (lax.round(jnp.clip(t / {s} + {z}, {low}.0, {high}.0), 1) - {z}) * {s})"
    result = f"{exact}({meaning})" if operation else "x"
    reference = f"lambda x{', y' if needed == 2 else ''}: (lambda x, y: {result})({exact}(x), "
    reference += f"{exact}(y))" if needed == 2 else "x)"
    operands = [v.name] + ([other] if needed == 2 else [])
    bound = 8.0 * (high - low + 40)
    return Step(text_call(body, [(v.shape, "float32")], operands, reference), bound, 0)


def requantized(d: Drawer) -> Step:
    """Converts from one quantised type to another."""
    v = d.value(("float32",), exact=True, finite=True)
    if v.bound > 1e5:
        raise Unsuitable
    kinds = []
    for _ in range(2):
        storage = d.pick(sorted(STORAGE))
        low, high = STORAGE[storage]
        kinds.append((storage, low, high, 2.0 ** d.integer(0, 3), d.integer(max(low, -20), min(high, 20))))
    plain = tensor(v.shape, "float32")
    (p, q) = (f"{plain[:-4]}!quant.uniform<{k[0]}:f32, {k[3]}:{k[4]}>>" for k in kinds)
    body = (
        f"%a = stablehlo.uniform_quantize %0 : ({plain}) -> {p} %b = stablehlo.uniform_quantize %a : ({p}) -> {q} "
        f"%r = stablehlo.uniform_dequantize %b : ({q}) -> {plain}"
    )
    steps = [
        f"(lambda t: (lax.round(jnp.clip(t / {s} + {z}.0, {low}.0, {high}.0), 1) - {z}) * {s})"
        for _, low, high, s, z in kinds
    ]
    reference = f"lambda x: {steps[1]}({steps[0]}(x))"
    bound = max(8.0 * (k[2] - k[1] + 40) for k in kinds)
    return Step(text_call(body, [(v.shape, "float32")], [v.name], reference), bound, 0)


def _unknown(shape: Sequence[int], dtype: str) -> str:
    return f"tensor<{'?x' * len(shape)}{element(dtype)}>"


def _numbers(d: Drawer, name: str, numbers: Sequence[int]) -> tuple[str, str]:
    """Returns text that makes a vector of numbers, and its type."""
    kind = tensor((len(numbers),), d.pick(("int32", "int64")))
    return f"{name} = stablehlo.constant dense<{list(numbers) or ''}> : {kind} ", kind


def _sizes_of(d: Drawer, name: str, shape: Sequence[int], order: Sequence[int]) -> tuple[str, str]:
    """Returns text that makes a vector of the sizes of %0, with its dimensions in another order, and its type."""
    if not order or d.flag():
        return _numbers(d, name, [shape[i] for i in order])
    text = ""
    for i in order:
        text += f"{name}s{i} = stablehlo.get_dimension_size %0, dim = {i} : ({_SELF}) -> tensor<i32> "
        text += f"{name}v{i} = stablehlo.reshape {name}s{i} : (tensor<i32>) -> tensor<1xi32> "
    kind, parts = f"tensor<{len(order)}xi32>", ", ".join(f"{name}v{i}" for i in order)
    types = ", ".join(["tensor<1xi32>"] * len(order))
    return f"{text}{name} = stablehlo.concatenate {parts}, dim = 0 : ({types}) -> {kind} ", kind


_SELF = "the type of %0"


def _finished(d: Drawer, v: Value, body: str, shape: Sequence[int], reference: str, *others: tuple[str, str]) -> str:
    """Returns the text, whose result %d has an unknown shape, with that shape made known, and its reference over x."""
    unknown, known = _unknown(shape, v.dtype), tensor(shape, v.dtype)
    sizes, kind = _numbers(d, "%n", shape)
    if shape:
        body += f"{sizes}%r = stablehlo.dynamic_reshape %d, %n : ({unknown}, {kind}) -> {known}"
    else:
        body += f"%r = stablehlo.reshape %d : ({known}) -> {known}"
    operands = [v.name, *(name for name, _ in others)]
    return text_call(body.replace(_SELF, tensor(v.shape, v.dtype)), [(shape, v.dtype)], operands, reference)


def dynamic_reshape(d: Drawer) -> Step:
    v = d.value(min_rank=1)
    order = d.order(v.rank)
    shape = [v.shape[i] for i in order]
    made, kind = _sizes_of(d, "%s", v.shape, order)
    body = f"{made}%d = stablehlo.dynamic_reshape %0, %s : ({_SELF}, {kind}) -> {_unknown(shape, v.dtype)} "
    return copy(v, _finished(d, v, body, shape, f"lambda x: lax.reshape(x, {shape})"))


def dynamic_broadcast(d: Drawer) -> Step:
    v = d.value()
    order = d.order(v.rank + 1)
    sizes = [d.integer(1, 4), *(d.pick((1, 3)) if n == 1 else n for n in v.shape)]
    dims = [order.index(i + 1) for i in range(v.rank)]
    shape = [sizes[i] for i in order]
    made, kind = _numbers(d, "%s", shape)
    body = (
        f"{made}%d = stablehlo.dynamic_broadcast_in_dim %0, %s, dims = {dims} : ({_SELF}, {kind}) -> "
        f"{_unknown(shape, v.dtype)} "
    )
    if math.prod(shape) > 1500:
        raise Unsuitable
    return copy(v, _finished(d, v, body, shape, f"lambda x: lax.broadcast_in_dim(x, {shape}, {dims})"))


def dynamic_iota(d: Drawer) -> Step:
    """A dynamic iota with the sizes of a value, added to that value."""
    v = d.value((*INTS, "float32", *COMPLEX), min_rank=1)
    axis = d.integer(0, v.rank - 1)
    made, kind = _sizes_of(d, "%s", v.shape, range(v.rank))
    unknown = _unknown(v.shape, v.dtype)
    body = (
        f"{made}%i = stablehlo.dynamic_iota %s, dim = {axis} : ({kind}) -> {unknown} "
        f"%e = stablehlo.dynamic_reshape %0, %s : ({_SELF}, {kind}) -> {unknown} "
        f"%d = stablehlo.add %i, %e : {unknown} "
    )
    reference = f"lambda x: x + lax.broadcasted_iota(x.dtype, x.shape, {axis})"
    return Step(_finished(d, v, body, v.shape, reference), v.bound + max(v.shape), v.error, 1)


def dynamic_pad(d: Drawer) -> Step:
    v = d.value(min_rank=1)
    config, shape = [], []
    for n in v.shape:
        interior = d.integer(0, 2)
        total = n + max(0, n - 1) * interior
        low = d.integer(-min(2, total), 3)
        high = d.integer(-min(2, max(0, total + low)), 3)
        config.append((low, high, interior))
        shape.append(total + low + high)
    # The three operands have the same type.
    kind = tensor((v.rank,), d.pick(("int32", "int64")))
    made = "".join(
        f"{name} = stablehlo.constant dense<{[c[i] for c in config]}> : {kind} "
        for i, name in enumerate(("%l", "%h", "%m"))
    )
    scalar = tensor((), v.dtype)
    zero = "false" if v.dtype == "bool" else "(0.0, 0.0)" if v.dtype in COMPLEX else "0.0" if v.dtype in FLOATS else "0"
    body = (
        f"{made}%z = stablehlo.constant dense<{zero}> : {scalar} %d = stablehlo.dynamic_pad %0, %z, %l, %h, %m : "
        f"({_SELF}, {scalar}, {kind}, {kind}, {kind}) -> {_unknown(shape, v.dtype)} "
    )
    if math.prod(shape) > 1500:
        raise Unsuitable
    return copy(v, _finished(d, v, body, shape, f"lambda x: lax.pad(x, jnp.zeros((), x.dtype), {config})"))


def real_dynamic_slice(d: Drawer) -> Step:
    v = d.value(min_rank=1)
    begins = [d.integer(0, min(3, n)) for n in v.shape]
    ends = [n - d.integer(0, min(3, n - b)) for b, n in zip(begins, v.shape, strict=True)]
    steps = [d.integer(1, 3) for _ in v.shape]
    shape = [-(-(e - b) // s) for b, e, s in zip(begins, ends, steps, strict=True)]
    kind = tensor((v.rank,), d.pick(("int32", "int64")))
    made = "".join(
        f"{name} = stablehlo.constant dense<{x}> : {kind} " for name, x in (("%b", begins), ("%e", ends), ("%t", steps))
    )
    body = (
        f"{made}%d = stablehlo.real_dynamic_slice %0, %b, %e, %t : ({_SELF}, {kind}, {kind}, {kind}) -> "
        f"{_unknown(shape, v.dtype)} "
    )
    return copy(v, _finished(d, v, body, shape, f"lambda x: lax.slice(x, {begins}, {ends}, {steps})"))


def dynamic_gather(d: Drawer) -> Step:
    """Gathers whole rows, or parts of them."""
    v = d.value(min_rank=1)
    if 0 in v.shape:
        raise Unsuitable
    sizes = [1, *(d.integer(1, n) for n in v.shape[1:])]
    rows = [d.integer(-1, 6) for _ in range(d.integer(1, 4))]
    shape = [len(rows), *sizes[1:]]
    made, kind = _numbers(d, "%s", sizes)
    windows = list(range(1, v.rank))
    numbers = f"offset_dims = {windows}, collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1"
    indices = tensor((len(rows), 1), "int32")
    body = (
        f"{made}%i = stablehlo.constant dense<{[[r] for r in rows]}> : {indices} "
        f'%d = "stablehlo.dynamic_gather"(%0, %i, %s) {{dimension_numbers = #stablehlo.gather<{numbers}>}} : '
        f"({_SELF}, {indices}, {kind}) -> {_unknown(shape, v.dtype)} "
    )
    reference = (
        f"lambda x: lax.gather(x, np.array({[[r] for r in rows]}, np.int32), "
        f"lax.GatherDimensionNumbers({tuple(windows)}, (0,), (0,)), {sizes}, mode='clip')"
    )
    return copy(v, _finished(d, v, body, shape, reference))


# Bits of each type.
_BITS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32}
_BITS |= {"uint32": 32, "int64": 64, "uint64": 64, "float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}
_BITS |= {"float8_e4m3fn": 8, "float8_e5m2": 8, "float8_e3m4": 8, "float8_e4m3b11fnuz": 8}
# Operations on the other form x of the bits: the operation is undone by itself, or its result has the same shape.
_BIT_MOVES = (
    *("x", "lax.rev(lax.rev(x, (0,)), (0,))", "lax.transpose(lax.rev(x, (0,)), tuple(range(x.ndim)))"),
    *("lax.optimization_barrier(x)", "lax.concatenate([x[1:], x[:1]], 0)", "jnp.roll(x, 1, -1)"),
)


def bits_and_back(d: Drawer) -> Step:
    """Casts bits to a type of another width and back, with moves in between."""
    v = d.value(INTS, min_rank=1)
    target = d.pick(sorted(_BITS))
    narrow, wide = _BITS[target], _BITS[v.dtype]
    shape = [*v.shape, wide // narrow] if wide > narrow else list(v.shape)
    if wide < narrow:
        if v.shape[-1] != narrow // wide:
            raise Unsuitable
        shape.pop()
    if not shape or math.prod(shape) > 1500:
        raise Unsuitable
    kinds = tensor(v.shape, v.dtype), tensor(shape, target)
    there = text_call(f"%r = stablehlo.bitcast_convert %0 : ({kinds[0]}) -> {kinds[1]}", [(shape, target)], [v.name])
    moves = _BIT_MOVES if 0 not in shape else _BIT_MOVES[:1]
    # XLA:CPU changes the bits of NaN when it concatenates these types, which a roll does as well.
    if target in ("bfloat16", "float8_e3m4", "float8_e5m2"):
        moves = tuple(m for m in moves if "concatenate" not in m and "roll" not in m)
    move = d.pick(moves)
    back = text_call(
        f"%r = stablehlo.bitcast_convert %0 : ({kinds[1]}) -> {kinds[0]}", [(v.shape, v.dtype)], [f"({move})"]
    )
    return Step(f"(lambda x: {back})({there})")


# Operations whose results have exactly the bits of elements of their operands, and zeros.
MOVES: tuple[Callable[[Drawer], Step], ...] = (
    dynamic_broadcast, dynamic_gather, dynamic_pad, dynamic_reshape, real_dynamic_slice,
)  # fmt: skip
OPERATIONS: tuple[Callable[[Drawer], Step], ...] = (
    batch_norm, bits_and_back, dynamic_broadcast, dynamic_gather, dynamic_iota, dynamic_pad,
    dynamic_reshape, quantized, real_dynamic_slice, requantized,
)  # fmt: skip
