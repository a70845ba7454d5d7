"""The values that operations treat specially, and the operations that are tested on all of them. A row is one line."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from support import op_table
from support.op_table import BOOL, COMPLEX, FLOAT, INTEGER, NUMBER, REAL, SIGNED

_FRACTIONS = (0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3)
# At the limits of the integer ranges.
_LARGE = (127, 128, 255, 256, 32767, 32768, 2.0**24 + 2, 2.0**31, 2.0**32, 2.0**63, 2.0**64)


def floats(dtype: Any, ends: bool = True) -> np.ndarray:
    """Signed zeros, fractions, infinities, NaN, largest values. `ends`: also integer limits and smallest normals."""
    info = jnp.finfo(dtype)
    sizes = [0, *_FRACTIONS, float(info.max)]
    if ends:
        sizes += [x for x in _LARGE if x < float(info.max)]
        sizes += [float(info.tiny), 1 + float(info.eps), 1 - float(info.eps) / 2]
    both = np.array([s * x for x in sizes for s in (1, -1)]).astype(dtype)
    special = np.array([np.inf, -np.inf, np.nan]).astype(dtype)
    return np.concatenate([both, special])


def denormals(dtype: Any) -> np.ndarray:
    """Values below the least normal number."""
    info = jnp.finfo(dtype)
    least = float(info.smallest_subnormal)
    return np.array([s * x for x in (least, 3 * least, float(info.tiny) / 2) for s in (1, -1)]).astype(dtype)


def integers(dtype: Any) -> np.ndarray:
    """The limits of the range, values around 0, and values around the width, for shifts."""
    info = jnp.iinfo(dtype)
    bits, least, most = int(info.bits), int(info.min), int(info.max)
    near = [0, 1, 2, 3, 7, bits - 1, bits, bits + 1, most - 1, most, most // 2, least, least + 1]
    near += [-1, -2, -3] if least < 0 else []
    # Both have the same type: 2**64 - 1 next to a small integer would give an array of floats.
    return np.array(near, np.int64 if least < 0 else np.uint64).astype(dtype)


def values(dtype: str, only_finite: bool = False) -> np.ndarray:
    kind = jnp.dtype(dtype)
    if kind == np.bool_:
        return np.array([False, True])
    if jnp.issubdtype(kind, jnp.complexfloating):
        part = np.dtype("float32" if dtype == "complex64" else "float64")
        parts = np.array([0, -0.0, 1, -1, 2.5, np.inf, -np.inf, np.nan], part)
        parts = parts[np.isfinite(parts)] if only_finite else parts
        return np.array([complex(a, b) for a, b in itertools.product(parts, parts)], kind)
    return floats(kind) if jnp.issubdtype(kind, jnp.floating) else integers(kind)


def combinations(dtype: str, count: int, only_finite: bool = False) -> list[np.ndarray]:
    """Every combination of `count` special values, as one flat array for each operand."""
    of_one = values(dtype, only_finite)
    if count == 3:
        of_one = floats(jnp.dtype(dtype), ends=False)[::2] if dtype in FLOAT else of_one[::2]
    return _grid(of_one, count)


def denormal_combinations(dtype: str, count: int) -> list[np.ndarray]:
    """All combinations of denormals, zeros, the smallest normal number and others."""
    usual = np.array([0, -0.0, 1, -1.5, float(jnp.finfo(dtype).tiny)]).astype(dtype)
    return _grid(np.concatenate([denormals(jnp.dtype(dtype)), usual]), count)


def _grid(of_one: np.ndarray, count: int) -> list[np.ndarray]:
    return [grid.reshape(-1) for grid in np.meshgrid(*[of_one] * count, indexing="ij")]


def flushed(x: np.ndarray) -> np.ndarray:
    """Returns the values with denormals replaced by zeros of their sign."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return x
    small = np.abs(x.astype(np.float64)) < float(jnp.finfo(x.dtype).tiny)
    return np.where(small, np.copysign(0, x.astype(np.float64)).astype(x.dtype), x)


def lines(dtype: str, exact_sums: bool) -> np.ndarray:
    """Returns a matrix of special values in several orders; half of its lines have no NaN.

    With `exact_sums`, sums and products of the values are exact in any order, unless they are NaN.
    """
    of_one = values(dtype)
    if exact_sums and not np.issubdtype(of_one.dtype, np.integer):
        sizes = [0, -0.0, 1, -1, 2, 0.5, np.nan]
        of_one = np.array(sizes + [np.inf, np.inf, -2] * (of_one.dtype.kind != "c")).astype(of_one.dtype)
    order = np.random.default_rng(0)
    rows = np.stack([of_one, of_one[::-1], *[order.permutation(of_one) for _ in range(3)]])
    if of_one.dtype.kind in "biu":
        return rows
    return np.concatenate([rows, np.where(np.isnan(rows.astype(np.complex128)), of_one.dtype.type(1), rows)])


class Row(NamedTuple):
    """`reference` is a NumPy function, if XLA:CPU is not the reference; `note` gives the reason."""

    name: str
    function: Callable[..., Any]
    count: int
    dtypes: tuple[str, ...]
    reference: Callable[..., Any] | None = None
    only_finite: bool = False
    note: str = ""


class StructuredRow(NamedTuple):
    """A function of a matrix."""

    name: str
    function: Callable[..., Any]
    dtypes: tuple[str, ...]
    exact_sums: bool = False


def _least(dtype: Any) -> Any:
    return -np.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


def _largest(dtype: Any) -> Any:
    return np.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).max


def _fold(function: Callable[..., Any], start: Any, x: Any, dim: int) -> Any:
    return lax.reduce(x, np.asarray(start, x.dtype), function, (dim,))


def _extremes(x: Any) -> Any:
    return [_fold(f, s(x.dtype), x, dim) for f, s in ((lax.max, _least), (lax.min, _largest)) for dim in (0, 1)]


def _totals(x: Any) -> Any:
    return [_fold(f, s, x, dim) for f, s in ((lax.add, 0), (lax.mul, 1)) for dim in (0, 1)]


def _places(x: Any) -> Any:
    return [f(x, dim) for f in (jnp.argmax, jnp.argmin) for dim in (0, 1)]


def _sorts(x: Any) -> Any:
    places = lax.broadcasted_iota(jnp.int32, x.shape, 1)
    return lax.sort((x, places), dimension=1, num_keys=1), lax.sort(x, dimension=0)


def _windows(x: Any) -> Any:
    shape = (2, 3), (1, 2), "SAME"
    return [
        lax.reduce_window(x, np.asarray(s(x.dtype), x.dtype), f, *shape)
        for f, s in ((lax.max, _least), (lax.min, _largest))
    ]


def _scatters(x: Any) -> Any:
    rows = np.array([0, 3, 3])
    return x.at[rows].max(x[1:4]), x.at[rows].min(x[1:4])


def _round(method: lax.RoundingMethod) -> Callable[..., Any]:
    return lambda x: lax.round(x, method)


_to_even, _away = _round(lax.RoundingMethod.TO_NEAREST_EVEN), _round(lax.RoundingMethod.AWAY_FROM_ZERO)
_reduced = op_table.rounded


def _exp_minus_one(z: Any) -> Any:
    """NumPy's function, but with a real result for an overflow on the real axis, where NumPy gives NaN."""
    y = np.array(np.expm1(z))
    y.imag[z.imag == 0] = z.imag[z.imag == 0]
    return y


def _tan(z: Any) -> Any:
    """NumPy's function, but NaN at both ends of the real axis, where neither part has a limit."""
    return np.where(np.isinf(z.real) & (z.imag == 0), z.dtype.type(complex(np.nan, np.nan)), np.tan(z))


C99 = "the C standard's signs of zero and infinities (annex G), which XLA:CPU loses"

# fmt: off
ROWS: tuple[Row, ...] = (
    Row("abs", lax.abs, 1, (*FLOAT, *SIGNED)),
    Row("abs_complex", lax.abs, 1, COMPLEX, np.abs, note=C99),
    Row("negate", lax.neg, 1, NUMBER),
    Row("sign", lax.sign, 1, NUMBER),
    Row("ceil", lax.ceil, 1, FLOAT),
    Row("floor", lax.floor, 1, FLOAT),
    Row("round_even", _to_even, 1, FLOAT),
    Row("round_away", _away, 1, FLOAT),
    Row("reduce_precision", _reduced, 1, FLOAT),
    Row("is_finite", lax.is_finite, 1, FLOAT),
    Row("convert", op_table.convert, 1, NUMBER),
    Row("convert_to_narrow", op_table.to_narrow, 1, ("float32", "int32")),
    Row("add", lax.add, 2, NUMBER),
    Row("subtract", lax.sub, 2, NUMBER),
    Row("multiply", lax.mul, 2, NUMBER),
    Row("divide", lax.div, 2, NUMBER),
    Row("remainder", lax.rem, 2, REAL),
    Row("maximum", lax.max, 2, NUMBER),
    Row("minimum", lax.min, 2, NUMBER),
    Row("atan2", lax.atan2, 2, FLOAT),
    Row("power", lax.pow, 2, FLOAT),
    Row("compare", op_table.compare, 2, (*NUMBER, *BOOL)),
    Row("select", lambda x, y: lax.select(x == y, x, y), 2, NUMBER),
    Row("clamp", lax.clamp, 3, REAL),
    Row("shift_left", lax.shift_left, 2, INTEGER),
    Row("shift_right_arithmetic", lax.shift_right_arithmetic, 2, INTEGER),
    Row("shift_right_logical", lax.shift_right_logical, 2, INTEGER),
    Row("count_leading_zeros", lax.clz, 1, INTEGER),
    Row("popcnt", lax.population_count, 1, INTEGER),
    Row("exponential", lax.exp, 1, FLOAT),
    Row("exponential_minus_one", lax.expm1, 1, FLOAT),
    Row("log", lax.log, 1, FLOAT),
    Row("log_plus_one", lax.log1p, 1, FLOAT),
    Row("logistic", lax.logistic, 1, FLOAT),
    Row("sqrt", lax.sqrt, 1, FLOAT),
    Row("rsqrt", lax.rsqrt, 1, FLOAT),
    Row("cbrt", lax.cbrt, 1, FLOAT),
    Row("tanh", lax.tanh, 1, FLOAT),
    Row("tan", lax.tan, 1, FLOAT),
    Row("sine", lax.sin, 1, (*FLOAT, *COMPLEX)),
    Row("cosine", lax.cos, 1, (*FLOAT, *COMPLEX)),
    Row("exponential_complex", lax.exp, 1, COMPLEX, np.exp, note=C99),
    Row("exponential_minus_one_complex", lax.expm1, 1, COMPLEX, _exp_minus_one, note=C99),
    Row("log_complex", lax.log, 1, COMPLEX, np.log, note=C99),
    Row("log_plus_one_complex", lax.log1p, 1, COMPLEX, np.log1p, note=C99),
    Row("sqrt_complex", lax.sqrt, 1, COMPLEX, np.sqrt, note=C99),
    Row("rsqrt_complex", lax.rsqrt, 1, COMPLEX, lambda z: 1 / np.sqrt(z), only_finite=True, note=C99),
    Row("tanh_complex", lax.tanh, 1, COMPLEX, np.tanh, note=C99),
    Row("tan_complex", lax.tan, 1, COMPLEX, _tan, note=C99),
    Row("logistic_complex", lax.logistic, 1, COMPLEX, lambda z: 1 / (1 + np.exp(-z)), only_finite=True, note=C99),
)

STRUCTURED_ROWS: tuple[StructuredRow, ...] = (
    StructuredRow("reduce_extremes", _extremes, REAL),
    StructuredRow("reduce_totals", _totals, REAL, exact_sums=True),
    StructuredRow("reduce_sums", lambda x: [_fold(lax.add, 0, x, dim) for dim in (0, 1)], COMPLEX, exact_sums=True),
    StructuredRow("reduce_places", _places, REAL),
    StructuredRow("sort", _sorts, NUMBER),
    StructuredRow("top_k", lambda x: lax.top_k(x, 5), REAL),
    StructuredRow("cumulative_extremes", lambda x: (lax.cummax(x, 1), lax.cummin(x, 0, reverse=True)), REAL),
    StructuredRow("cumulative_totals", lambda x: (lax.cumsum(x, 1), lax.cumsum(x, 0)), REAL, exact_sums=True),
    StructuredRow("reduce_window", _windows, REAL),
    StructuredRow("scatter", _scatters, REAL),
)

# There is no type wider than f64 for the exact result.
_WITH_DENORMALS = ("float32", "bfloat16", "float16")
DENORMAL_ROWS: tuple[Row, ...] = (
    Row("abs", lax.abs, 1, _WITH_DENORMALS),
    Row("negate", lax.neg, 1, _WITH_DENORMALS),
    Row("sign", lax.sign, 1, _WITH_DENORMALS),
    Row("ceil", lax.ceil, 1, _WITH_DENORMALS),
    Row("floor", lax.floor, 1, _WITH_DENORMALS),
    Row("truncate", jnp.trunc, 1, _WITH_DENORMALS),
    Row("whole_part", lambda x: jnp.modf(x)[1], 1, _WITH_DENORMALS),
    Row("round_even", _to_even, 1, _WITH_DENORMALS),
    Row("round_away", _away, 1, _WITH_DENORMALS),
    Row("convert_to_bool", lambda x: lax.convert_element_type(x, "bool"), 1, _WITH_DENORMALS),
    Row("convert_to_int", lambda x: lax.convert_element_type(x, "int32"), 1, _WITH_DENORMALS),
    Row("add", lax.add, 2, _WITH_DENORMALS),
    Row("subtract", lax.sub, 2, _WITH_DENORMALS),
    Row("multiply", lax.mul, 2, _WITH_DENORMALS),
    Row("divide", lax.div, 2, _WITH_DENORMALS),
    Row("maximum", lax.max, 2, _WITH_DENORMALS),
    Row("minimum", lax.min, 2, _WITH_DENORMALS),
    Row("clamp", lax.clamp, 3, _WITH_DENORMALS),
    Row("less", lax.lt, 2, _WITH_DENORMALS),
    Row("equal", lax.eq, 2, _WITH_DENORMALS),
    Row("sqrt", lax.sqrt, 1, _WITH_DENORMALS),
    Row("tanh", lax.tanh, 1, _WITH_DENORMALS),
)
# fmt: on
