"""The table of ops: the test cases of each op, its types, and its implementation on the IPU. A row is one line.

tools/op_support.py makes docs/op_support.md from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.lax import windowed_reductions

BOOL = ("bool",)
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
NARROW_INTEGER = ("int4", "uint4", "int2", "uint2")
INTEGER = (*SIGNED, *UNSIGNED)
FLOAT = ("float32", "float16", "bfloat16", "float64")
NARROW_FLOAT = (
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz"),
    *("float8_e3m4", "float8_e4m3"),
)
STORED_FLOAT = (*NARROW_FLOAT, "float8_e8m0fnu", "float4_e2m1fn")
COMPLEX = ("complex64", "complex128")
REAL = (*FLOAT, *INTEGER)
NUMBER = (*REAL, *COMPLEX)
ANY = (*NUMBER, *BOOL, *NARROW_INTEGER, *STORED_FLOAT)
WIDE_FLOAT = ("float32", "float64")

Shape = tuple[int, ...]
# A shape of the row's type, or a constant argument.
Argument = Shape | np.ndarray


class Row(NamedTuple):
    """One op. `cases` holds the arguments of one call each; the tensors of `large` exceed the memory of a tile."""

    op: str
    function: Callable[..., Any]
    cases: tuple[tuple[Argument, ...], ...]
    dtypes: tuple[str, ...]
    library: str
    low: float = -2
    high: float = 2
    rtol: float | None = None
    large: tuple[Argument, ...] | None = None
    note: str = ""
    # Types for which an operation of the row's function has no codelet.
    no_codelets: tuple[str, ...] = ()
    # How the reference is computed. "pointwise": for all cases in one call. "moves": for narrow types, as uint8.
    # "products": for narrow types, as a product in f64 that is rounded once to the type of the result.
    kind: str = ""


# Types whose elements codelets can move, and those that they compute with.
MOVED = tuple(d for d in ANY if d != "complex128")
# Functions that also run as codelets of our own (execution "codelets"), and the types that have them.
CODELETS: dict[str, tuple[str, ...]] = {
    "popops::map": (*REAL, *BOOL, *NARROW_INTEGER, *STORED_FLOAT, "complex64"),
    "popops::iota": (*FLOAT, *INTEGER, "complex64"),
    "popops::dynamicSlice": MOVED,
    "popops::dynamicUpdate": MOVED,
    "popops::gather": MOVED,
    "popops::scatter": MOVED,
    "popops::multiUpdateAdd": (*REAL, "complex64"),
    "popops::reduce": (*REAL, *BOOL, "complex64"),
    "hlo::reduceWindow": (*REAL, "complex64"),
    "hlo::selectAndScatter": REAL,
    "gcl::collective": MOVED,
    "popops::sort": (*REAL, *BOOL),
    "popops::topK": ("float32",),
    "hlo::fft": ("complex64", "float32"),
    "hlo::rngBitGenerator": ("uint32",),
    "poplin::triangularSolve": ("float32", "complex64"),
    "poplin::experimental::cholesky": ("float32", "complex64"),
}
# Elementary functions have no codelets for f64.
NO_F64 = ("float64",)
# Functions that PopLibs lacks: a chip runs them once they have codelets.
OWN = ("popops::map", "popops::iota")


def codelet_types(row: Row) -> tuple[str, ...]:
    """The types of a row whose operations all run as codelets where they are ours."""
    return tuple(d for d in row.dtypes if d in CODELETS.get(row.library, ()) and d not in row.no_codelets)


BIG = (400, 401)


def shapes(count: int) -> tuple[tuple[Shape, ...], ...]:
    """A scalar, an odd length, no elements, a matrix."""
    return tuple((shape,) * count for shape in ((), (7,), (3, 0), (5, 33)))


def elementwise(op: str, function: Callable[..., Any], count: int, dtypes: tuple[str, ...], **fields: Any) -> Row:
    return Row(op, function, shapes(count), dtypes, "popops::map", large=(BIG,) * count, kind="pointwise", **fields)


def moves(op: str, function: Callable[..., Any], cases: Any, library: str, **fields: Any) -> Row:
    return Row(op, function, cases, ANY, library, kind="moves", **fields)


def i32(*values: Any) -> np.ndarray:
    return np.asarray(values, np.int32)


def _positive(function: Callable[..., Any]) -> Callable[..., Any]:
    """Divisors and exponents that are not close to 0."""
    return lambda x, y: function(x, jnp.where(y == 0, jnp.ones_like(y), y))


def _shift(function: Callable[..., Any]) -> Callable[..., Any]:
    """Shifts by amounts from 0 to beyond the width; negative amounts are not defined."""
    return lambda x, y: function(x, lax.abs(y) if y.dtype.kind == "i" else y)


def _branch(x: Any, i: Any) -> Any:
    return lax.cond(i > 0, lambda x: x + x, lambda x: x, x)


def _lowest(dtype: Any) -> Any:
    return np.asarray(jnp.iinfo(dtype).min if dtype.kind in "iu" else -np.inf, dtype)


def _max_pool(x: Any) -> Any:
    return lax.reduce_window(x, _lowest(x.dtype), lax.max, (1, 3, 2), (1, 2, 2), "VALID")


def _power(x: Any, y: Any) -> Any:
    return lax.pow(lax.abs(x) + x.dtype.type(0.5), y)


def _clamp(a: Any, x: Any, b: Any) -> Any:
    return lax.clamp(jnp.minimum(a, b), x, jnp.maximum(a, b))


def rounded(x: Any) -> Any:
    return lax.reduce_precision(x, 5, 4), lax.reduce_precision(x, 8, 3)


def _round(method: lax.RoundingMethod) -> Callable[..., Any]:
    return lambda x: lax.round(x, method)


def _iota(x: Any) -> Any:
    places = (((5,), 0), ((3, 7), 0), ((3, 7), 1), ((0,), 0), ((1, 1), 1))
    return [lax.broadcasted_iota(x.dtype, shape, dim) for shape, dim in places]


def _broadcast(x: Any) -> Any:
    return lax.broadcast_in_dim(x, (4, *x.shape[:1], 3, *x.shape[1:]), (1, 3)[: x.ndim])


def _pad(x: Any) -> Any:
    return [lax.pad(x, x[0, 0], how) for how in (((1, 2, 1), (0, -1, 2)), ((-1, 3, 0), (2, 2, 0)))]


def _transpose(x: Any) -> Any:
    return lax.transpose(x, range(x.ndim)[::-1]), lax.transpose(x, (*range(1, x.ndim), 0))


def _gather(x: Any, i: Any) -> Any:
    return [x.at[at].get(mode="clip") for at in ((i,), (slice(None), i), (i, i % 3))]


def _constants(x: Any) -> Any:
    return x, jnp.asarray(np.arange(6).reshape(2, 3) % 2, x.dtype), jnp.ones((300,), x.dtype)


def _sums(x: Any) -> Any:
    return [_reduce(lax.add, 0, *dims)(x) for dims in ((0,), (1,), (0, 1))]


def _extremes(x: Any) -> Any:
    zero = jnp.asarray(0, x.dtype)
    return x.max(1, initial=zero), x.min(0, initial=zero)


def _bitwise(x: Any) -> Any:
    return [_reduce(f, start, 1)(x) for f, start in ((lax.bitwise_and, 1), (lax.bitwise_or, 0), (lax.bitwise_xor, 0))]


def _dynamic_update(x: Any, u: Any, i: Any) -> Any:
    return lax.dynamic_update_slice(x, u, (i, np.int32(1)))


def _dynamic_slice(x: Any, i: Any, j: Any) -> Any:
    return lax.dynamic_slice(x, (i, j), (2, 3))


def _solves(a: Any, b: Any) -> Any:
    lower, upper = _triangular(left_side=True, lower=True), _triangular(left_side=True, lower=False, transpose_a=True)
    return lower(a, b), upper(a, b)


def compare(x: Any, y: Any) -> Any:
    equal = (lax.eq(x, y), lax.ne(x, y))
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        return equal
    return (*equal, lax.lt(x, y), lax.le(x, y), lax.gt(x, y), lax.ge(x, y))


def convert(x: Any) -> Any:
    to = ("bool", *REAL) if not jnp.issubdtype(x.dtype, jnp.complexfloating) else ()
    return [lax.convert_element_type(x, t) for t in (*to, *COMPLEX)]


def _from_narrow(x: Any) -> Any:
    return [lax.convert_element_type(x, t) for t in ("float32", "int32", "bool")]


def to_narrow(x: Any) -> Any:
    return [lax.convert_element_type(x, t) for t in (*NARROW_INTEGER, *STORED_FLOAT)]


def _words(x: Any) -> Any:
    """Casts to every integer type that is at most as wide."""
    bits = jnp.dtype(x.dtype).itemsize * 8
    return [lax.bitcast_convert_type(x, f"uint{b}") for b in (8, 16, 32, 64) if b <= bits]


def _spd(x: Any) -> Any:
    """Returns a positive definite matrix, made from any square matrix."""
    return x @ jnp.swapaxes(x.conj(), -1, -2) + 4 * jnp.eye(x.shape[-1], dtype=x.dtype)


def _triangular(**how: Any) -> Callable[..., Any]:
    def solve(a: Any, b: Any) -> Any:
        return lax.linalg.triangular_solve(a + 4 * jnp.eye(a.shape[-1], dtype=a.dtype), b, **how)

    return solve


def _fft(kind: str, *lengths: int) -> Callable[..., Any]:
    return lambda x: lax.fft(x, kind, lengths)


def _dot(dims: Any, **how: Any) -> Callable[..., Any]:
    return lambda x, y: lax.dot_general(x, y, dims, **how)


def _conv(strides: Any, padding: Any, **how: Any) -> Callable[..., Any]:
    return lambda x, w: lax.conv_general_dilated(x, w, strides, padding, **how)


def _reduce(function: Callable[..., Any], start: float, *dims: int) -> Callable[..., Any]:
    return lambda x: lax.reduce(x, np.asarray(start, x.dtype), function, dims)


def _window(function: Callable[..., Any], start: float, *rest: Any) -> Callable[..., Any]:
    return lambda x: lax.reduce_window(x, np.asarray(start, x.dtype), function, *rest)


def _select_and_scatter(x: Any, s: Any) -> Any:
    zero = np.asarray(0, x.dtype)
    window, strides, padding = (3, 2), (2, 2), ((0, 0), (0, 0))
    return windowed_reductions._select_and_scatter(x, lax.ge, window, strides, padding, s, zero, lax.add)


def _scatter(method: str) -> Callable[..., Any]:
    return lambda x, u, i: getattr(x.at[i], method)(u)


def _sorted(x: Any) -> Any:
    places = lax.broadcasted_iota(jnp.int32, x.shape, x.ndim - 1)
    return lax.sort((x, places), dimension=-1, num_keys=1), lax.sort(x, dimension=0)


def _loop(x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] + c[1]), (np.int32(0), x))[1]


def _branches(x: Any, i: Any) -> Any:
    return lax.switch(i, [lambda x: x, lambda x: x + x, lambda x: x * x], x)


def _generator(algorithm: str) -> Callable[..., Any]:
    kind = {"default": 0, "three_fry": 1, "philox": 2}[algorithm]
    return lambda key: [lax.rng_bit_generator(key, (5, 7), d, algorithm=kind) for d in ("uint32", "uint64", "uint8")]


KEY = np.array([1, 2, 3, 4], np.uint32)
MATMUL, CONV = "poplin::matMulGrouped", "poplin::convolution"
EXACT_PRODUCT = {"precision": "highest"}
CONV_CASES = (((2, 3, 7, 5), (4, 3, 3, 2)), ((0, 3, 7, 5), (4, 3, 3, 2)), ((1, 3, 3, 3), (1, 3, 3, 3)))

# fmt: off
ROWS: tuple[Row, ...] = (
    # elementwise
    elementwise("abs", lax.abs, 1, (*FLOAT, *SIGNED, *COMPLEX, *NARROW_FLOAT)),
    elementwise("add", lax.add, 2, (*NUMBER, *NARROW_INTEGER, *NARROW_FLOAT)),
    elementwise("and", lax.bitwise_and, 2, (*INTEGER, *BOOL, *NARROW_INTEGER)),
    elementwise("atan2", lax.atan2, 2, FLOAT, no_codelets=NO_F64),
    elementwise("cbrt", lax.cbrt, 1, FLOAT, no_codelets=NO_F64),
    elementwise("ceil", lax.ceil, 1, (*FLOAT, *NARROW_FLOAT), low=-9, high=9),
    elementwise("clamp", _clamp, 3, REAL),
    elementwise("compare", compare, 2, (*NUMBER, *BOOL, *NARROW_INTEGER, *NARROW_FLOAT)),
    elementwise("complex", lax.complex, 2, WIDE_FLOAT, no_codelets=("float64",)),
    elementwise("convert", convert, 1, (*NUMBER, *BOOL), low=-100, high=100, no_codelets=(*NUMBER, *BOOL)),
    elementwise("convert", to_narrow, 1, ("float32", "int32"), note="to narrow types"),
    elementwise("convert", _from_narrow, 1, (*NARROW_INTEGER, *STORED_FLOAT), note="from narrow types"),
    elementwise("cosine", lax.cos, 1, (*FLOAT, *COMPLEX), low=-9, high=9, no_codelets=NO_F64),
    elementwise("count_leading_zeros", lax.clz, 1, INTEGER),
    elementwise("divide", _positive(lax.div), 2, (*NUMBER, *NARROW_INTEGER)),
    elementwise("exponential", lax.exp, 1, (*FLOAT, *COMPLEX), low=-5, high=5, no_codelets=NO_F64),
    elementwise("exponential_minus_one", lax.expm1, 1, (*FLOAT, *COMPLEX), no_codelets=NO_F64),
    elementwise("floor", lax.floor, 1, (*FLOAT, *NARROW_FLOAT), low=-9, high=9),
    elementwise("imag", lax.imag, 1, COMPLEX),
    elementwise("is_finite", lax.is_finite, 1, FLOAT),
    elementwise("log", lax.log, 1, (*FLOAT, *COMPLEX), low=0.01, high=50, no_codelets=NO_F64),
    elementwise("log_plus_one", lax.log1p, 1, (*FLOAT, *COMPLEX), low=-0.9, high=50, no_codelets=NO_F64),
    elementwise("logistic", lax.logistic, 1, (*FLOAT, *COMPLEX), low=-9, high=9, no_codelets=NO_F64),
    elementwise("maximum", lax.max, 2, (*REAL, *BOOL, *NARROW_INTEGER, *NARROW_FLOAT)),
    elementwise("minimum", lax.min, 2, (*REAL, *BOOL, *NARROW_INTEGER, *NARROW_FLOAT)),
    elementwise("multiply", lax.mul, 2, (*NUMBER, *NARROW_INTEGER, *NARROW_FLOAT)),
    elementwise("negate", lax.neg, 1, (*NUMBER, *NARROW_FLOAT)),
    elementwise("not", lax.bitwise_not, 1, (*INTEGER, *BOOL, *NARROW_INTEGER)),
    elementwise("or", lax.bitwise_or, 2, (*INTEGER, *BOOL, *NARROW_INTEGER)),
    elementwise("popcnt", lax.population_count, 1, INTEGER),
    elementwise("power", _power, 2, FLOAT, rtol=1e-2, no_codelets=NO_F64),
    elementwise("real", lax.real, 1, COMPLEX),
    elementwise("reduce_precision", rounded, 1, FLOAT, no_codelets=("float16",)),
    elementwise("remainder", _positive(lax.rem), 2, REAL),
    elementwise("round_nearest_afz", _round(lax.RoundingMethod.AWAY_FROM_ZERO), 1, FLOAT, low=-9, high=9),
    elementwise("round_nearest_even", _round(lax.RoundingMethod.TO_NEAREST_EVEN), 1, FLOAT, low=-9, high=9),
    elementwise("rsqrt", lax.rsqrt, 1, (*FLOAT, *COMPLEX), low=0.01, high=50),
    elementwise("select", lambda x, y: lax.select(x == y, x, y), 2, (*NUMBER, *BOOL, *NARROW_INTEGER, *NARROW_FLOAT)),
    elementwise("shift_left", _shift(lax.shift_left), 2, INTEGER),
    elementwise("shift_right_arithmetic", _shift(lax.shift_right_arithmetic), 2, INTEGER),
    elementwise("shift_right_logical", _shift(lax.shift_right_logical), 2, INTEGER),
    elementwise("sign", lax.sign, 1, (*NUMBER, *NARROW_FLOAT)),
    elementwise("sine", lax.sin, 1, (*FLOAT, *COMPLEX), low=-9, high=9, no_codelets=NO_F64),
    elementwise("sqrt", lax.sqrt, 1, (*FLOAT, *COMPLEX), low=0.01, high=50),
    elementwise("subtract", lax.sub, 2, (*NUMBER, *NARROW_INTEGER, *NARROW_FLOAT)),
    elementwise("tan", lax.tan, 1, (*FLOAT, *COMPLEX), low=-1.4, high=1.4, no_codelets=NO_F64),
    elementwise("tanh", lax.tanh, 1, (*FLOAT, *COMPLEX), no_codelets=NO_F64),
    elementwise("xor", lax.bitwise_xor, 2, (*INTEGER, *BOOL, *NARROW_INTEGER)),
    Row("bitcast_convert", _words, (((),), ((7,),), ((3, 0),)), (*REAL, *NARROW_FLOAT), "popops::map", large=(BIG,)),
    # views and copies
    moves("broadcast_in_dim", _broadcast, (((),), ((7,),), ((3, 0),), ((1, 5),)), "a view", large=(BIG,)),
    moves("concatenate", lambda x, y: lax.concatenate([x, y, x], 1), (((3, 4), (3, 2)), ((3, 0), (3, 5)), ((1, 33), (1, 1))), "poplar::program::Copy", large=(BIG, (400, 3))),
    Row("constant", _constants, (((2,),),), ANY, "poplar::Graph::addConstant"),
    Row("iota", _iota, (((),),), NUMBER, "popops::iota"),
    moves("pad", _pad, (((4, 5),), ((1, 1),), ((3, 2),)), "poplar::program::Copy", large=(BIG,)),
    moves("reshape", lambda x: (x.reshape(-1), x.reshape(x.shape[::-1])), (((4, 5),), ((1, 1),), ((3, 0, 5),), ((),)), "a view", large=(BIG,)),
    moves("reverse", lambda x: (x[::-1], x[:, ::-1], x[::-1, ::-1]), (((4, 5),), ((1, 1),), ((3, 0),)), "a view", large=(BIG,)),
    moves("slice", lambda x: (x[1:, ::2], x[:-1, 1:3], x[:0]), (((4, 5),), ((1, 3),), ((3, 0),)), "a view", large=(BIG,)),
    moves("transpose", _transpose, (((4, 5),), ((2, 3, 4, 5),), ((3, 0),), ((1, 1, 2, 1, 2, 1, 3, 2),)), "a view", large=(BIG,)),
    moves("optimization_barrier", lambda x: lax.optimization_barrier(x), (((4, 5),), ((3, 0),), ((),)), "nothing"),
    # index
    moves("dynamic_slice", _dynamic_slice, (((4, 5), np.int32(1), np.int32(9)), ((2, 3), np.int32(-3), np.int32(0))), "popops::dynamicSlice", large=(BIG, np.int32(7), np.int32(3))),
    moves("dynamic_update_slice", _dynamic_update, (((4, 5), (2, 3), np.int32(1)), ((4, 5), (0, 3), np.int32(9)), ((4, 5), (4, 1), np.int32(-1))), "popops::dynamicUpdate", large=(BIG, (2, 3), np.int32(9))),
    moves("gather", _gather, (((6, 5), i32(3, 0, -1, 9, 5)), ((6, 5), i32()), ((6, 3, 2), i32([1, 2], [0, 5]))), "popops::gather", large=(BIG, i32(9, 3, 399))),
    moves("scatter", _scatter("set"), (((6, 5), (3, 5), i32(3, 0, 5)), ((6, 5), (0, 5), i32()), ((6,), (2,), i32(1, 9))), "popops::scatter", large=(BIG, (2, 401), i32(3, 9))),
    Row("scatter", _scatter("add"), (((6, 5), (4, 5), i32(3, 0, 3, 9)), ((6, 5), (0, 5), i32())), NUMBER, "popops::multiUpdateAdd", large=(BIG, (2, 401), i32(3, 9))),
    Row("scatter", _scatter("multiply"), (((6, 5), (4, 5), i32(3, 0, 3, 9)),), REAL, "popops::scatter", note="codelets only set complex64, fp8 and fp4"),
    Row("scatter", _scatter("max"), (((6, 5), (4, 5), i32(3, 0, 3, 9)),), REAL, "popops::scatter"),
    # sort
    Row("sort", _sorted, (((5, 33),), ((1, 1),), ((3, 0),)), (*REAL, *BOOL), "popops::sort", large=(BIG,), note="always stable"),
    # reduce
    Row("reduce", _sums, (((5, 33),), ((1, 1),), ((3, 0),)), NUMBER, "popops::reduce", large=(BIG,), note="narrow floats are summed in f32"),
    Row("reduce", _extremes, (((5, 33),), ((1, 1),), ((3, 0),)), REAL, "popops::reduce", large=(BIG,)),
    Row("reduce", _reduce(lax.mul, 1, 0), (((5, 3),), ((0, 3),)), NUMBER, "popops::reduce", low=0.5, high=1.5),
    Row("reduce", _bitwise, (((5, 33),), ((3, 0),)), (*INTEGER, *BOOL), "popops::reduce"),
    Row("reduce", lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0)), (((5, 33),), ((1, 1),)), REAL, "popops::reduce", large=(BIG,), note="several operands, any body"),
    # window
    Row("reduce_window", _window(lax.add, 0, (1, 3, 2), (1, 2, 1), "SAME"), (((2, 8, 9),), ((1, 1, 1),), ((0, 4, 4),)), NUMBER, "hlo::reduceWindow", large=((1, *BIG),)),
    Row("reduce_window", _max_pool, (((2, 8, 9),),), REAL, "hlo::reduceWindow"),
    Row("reduce_window", _window(lax.add, 0, (3, 2), (1, 1), ((1, 1), (0, 2)), (2, 1), (1, 3)), (((6, 9),),), NUMBER, "hlo::reduceWindow", note="dilations"),
    Row("reduce_window", lambda x: (lax.cumsum(x, 0), lax.cumprod(x, 1, reverse=True)), (((5, 7),), ((1, 1),)), REAL, "hlo::reduceWindow", low=0.5, high=1.5, note="cumulative operations"),
    Row("reduce_window", lambda x: (lax.cummax(x, 0), lax.cummin(x, 1)), (((5, 7),), ((1, 1),)), REAL, "hlo::reduceWindow"),
    Row("select_and_scatter", _select_and_scatter, (((7, 6), (3, 3)),), REAL, "hlo::selectAndScatter"),
    # product
    Row("dot_general", _dot((((1,), (0,)), ((), ())), **EXACT_PRODUCT), (((5, 33), (33, 7)), ((4, 0), (0, 3)), ((1, 1), (1, 1))), (*NUMBER, *NARROW_FLOAT[:2]), MATMUL, large=(BIG, (401, 3)), kind="products"),
    Row("dot_general", _dot((((2,), (1,)), ((0,), (2,))), **EXACT_PRODUCT), (((3, 4, 5), (2, 5, 3)), ((0, 4, 5), (2, 5, 0))), NUMBER, MATMUL, note="batches"),
    Row("dot_general", _dot((((0,), (0,)), ((), ())), preferred_element_type="float32"), (((17,), (17,)),), ("float16", "bfloat16", *NARROW_FLOAT[:2]), MATMUL, note="wider results", kind="products"),
    Row("dot_general", _dot((((0,), (0,)), ((), ())), preferred_element_type="int32"), (((17, 2), (17, 3)),), ("int8", "uint8", "int16"), MATMUL, note="wider results"),
    # convolution
    Row("convolution", _conv((1, 1), "SAME"), CONV_CASES, (*FLOAT, *COMPLEX), CONV),
    Row("convolution", _conv((2, 1), ((1, -1), (2, 0)), lhs_dilation=(1, 2), rhs_dilation=(2, 1)), CONV_CASES[:1], (*FLOAT, *COMPLEX), CONV, note="strides, dilations, negative padding"),
    Row("convolution", _conv((1, 1), "VALID", feature_group_count=3), (((2, 6, 5, 5), (9, 2, 3, 3)),), FLOAT, CONV, note="feature groups"),
    Row("convolution", _conv((1, 1), "VALID", batch_group_count=2), (((4, 3, 5, 5), (8, 3, 3, 3)),), FLOAT, CONV, note="batch groups"),
    Row("convolution", _conv((1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")), (((2, 9, 3), (3, 3, 4)),), (*FLOAT, "int32", "int8"), CONV, note="layouts"),
    Row("convolution", _conv((2,), "SAME", preferred_element_type="float32"), (((2, 3, 9), (4, 3, 3)),), ("int8", "uint8", "int32"), CONV, note="of integers into floats"),
    # fft
    Row("fft", lambda x: (_fft("FFT", 8)(x), _fft("IFFT", 8)(x)), (((3, 8),), ((0, 8),)), COMPLEX, "hlo::fft"),
    Row("fft", lambda x: (_fft("FFT", 4, 7)(x), _fft("IRFFT", 4, 12)(x)), (((4, 7),),), COMPLEX, "hlo::fft", note="any lengths"),
    Row("fft", _fft("RFFT", 5, 9), (((2, 5, 9),),), WIDE_FLOAT, "hlo::fft"),
    # linear_algebra
    Row("cholesky", lambda x: lax.linalg.cholesky(_spd(x), symmetrize_input=False), (((5, 5),), ((3, 2, 2),), ((0, 0),)), (*WIDE_FLOAT, *COMPLEX), "poplin::experimental::cholesky", rtol=1e-4),
    Row("triangular_solve", _solves, (((5, 5), (5, 3)), ((2, 3, 3), (2, 3, 1)), ((3, 3), (3, 0))), (*WIDE_FLOAT, *COMPLEX), "poplin::triangularSolve", rtol=1e-4),
    Row("triangular_solve", _triangular(left_side=False, lower=True, unit_diagonal=True, transpose_a=True, conjugate_a=True), (((4, 4), (3, 4)),), (*WIDE_FLOAT, *COMPLEX), "poplin::triangularSolve", rtol=1e-3),
    # control_flow
    Row("while", _loop, (((3, 4),), ((),), ((0,),)), NUMBER, "poplar::program::RepeatWhileTrue"),
    Row("case", _branches, (((3, 4), np.int32(1)), ((3, 4), np.int32(7)), ((0,), np.int32(0))), NUMBER, "poplar::program::Switch"),
    Row("if", _branch, (((3, 4), np.int32(1)), ((), np.int32(0))), NUMBER, "poplar::program::If"),
    Row("map", lambda x: jax.vmap(jax.vmap(lambda y: y * y + y))(x), (((3, 4),),), NUMBER, "popops::map"),
    Row("composite", lambda x: (lax.top_k(x, 3), jax.scipy.special.erf(x)), (((4, 9),),), WIDE_FLOAT, "popops::topK", note="erf and top_k directly, others by their decomposition"),
    # random
    Row("rng_bit_generator", _generator("default"), ((KEY,),), ("uint32",), "hlo::rngBitGenerator", note="default, as XLA:CPU"),
    Row("rng_bit_generator", _generator("three_fry"), ((KEY,),), ("uint32",), "hlo::rngBitGenerator"),
    Row("rng_bit_generator", _generator("philox"), ((KEY,),), ("uint32",), "hlo::rngBitGenerator"),
)
# fmt: on

# Ops that JAX does not emit: where they are tested, and how they are implemented.
ELSEWHERE: dict[str, tuple[str, str]] = {
    "batch_norm_grad": ("test_ops_expanded", "other ops; narrow floats in f32"),
    "batch_norm_inference": ("test_ops_expanded", "other ops; narrow floats in f32"),
    "batch_norm_training": ("test_ops_expanded", "other ops; narrow floats in f32"),
    "broadcast": ("test_ops_expanded", "a view"),
    "create_token": ("test_ops_expanded", "nothing: the order of ops is that of the program"),
    "after_all": ("test_ops_expanded", "nothing: the order of ops is that of the program"),
    "cross-replica-sum": ("test_ops_expanded", "as all_reduce"),
    "custom_call": ("test_features_ffi", "foreign functions with typed handlers on the host; JAX's own targets"),
    "dot": ("test_ops_expanded", "as dot_general"),
    "einsum": ("test_ops_expanded", "as dot_general"),
    "unary_einsum": ("test_ops_expanded", "reduce and transpose"),
    "torch_index_select": ("test_ops_expanded", "as gather"),
    "dynamic_broadcast_in_dim": ("test_ops_expanded", "as broadcast_in_dim, once its shape is known"),
    "dynamic_conv": ("stablehlo_suite", "as convolution, once its padding is known"),
    "dynamic_gather": ("stablehlo_suite", "as gather, once its sizes are known"),
    "dynamic_iota": ("test_ops_expanded", "as iota, once its shape is known"),
    "dynamic_pad": ("test_ops_expanded", "as pad, once its padding is known"),
    "dynamic_reshape": ("test_ops_expanded", "as reshape, once its shape is known"),
    "real_dynamic_slice": ("test_ops_expanded", "slice or dynamic_slice, with constant strides"),
    "get_dimension_size": ("test_ops_expanded", "a constant"),
    "get_tuple_element": ("test_ops_expanded", "nothing"),
    "tuple": ("test_ops_expanded", "nothing"),
    "rng": (
        "test_ops_expanded",
        "threefry bits; every run on every IPU draws other numbers, each process the same ones",
    ),
    "uniform_quantize": ("test_ops_expanded", "other ops; arithmetic is that of the dequantised values"),
    "uniform_dequantize": ("test_ops_expanded", "other ops"),
}
# Each group has one member here; tests with several devices have larger groups.
COLLECTIVES = (
    *("all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "partition_id"),
    *("reduce_scatter", "replica_id"),
)
