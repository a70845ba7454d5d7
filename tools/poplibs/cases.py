"""The shapes of the comparison with PopLibs: JAX functions of one operation, by kind of operation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

TYPES = (("f32", "float32"), ("f16", "float16"))
# Rows, depth, columns.
PRODUCTS = ((64, 64, 64), (128, 128, 128), (256, 256, 256), (128, 784, 256), (128, 256, 10), (1, 512, 512))
MORE_PRODUCTS = (
    *((512, 512, 512), (1024, 1024, 1024), (32, 784, 512), (32, 512, 10), (128, 768, 768), (128, 768, 3072)),
    *((128, 3072, 768), (100, 100, 100), (7, 13, 17), (61, 97, 61), (1, 4096, 1), (512, 1, 512), (333, 65, 129)),
    *(sizes for m in (1, 4, 16, 64) for k in (128, 512, 1024, 2048) for sizes in ((m, k, 1024), (1024, k, m))),
)
# Number, rows, depth, columns.
BATCHES = ((8, 64, 64, 64),)
MORE_BATCHES = ((16, 32, 64, 32), (12, 128, 64, 128), (12, 128, 128, 64), (64, 16, 64, 16))
# Field, input channels, window, output channels, stride.
CONVOLUTIONS = ((16, 32, 3, 64, 1), (28, 1, 5, 8, 1), (14, 64, 1, 64, 1), (16, 32, 3, 32, 2))
# The layers of ResNet-18 and ResNet-50, and first layers of other networks.
LAYERS = (
    *((56, 64, 3, 64, 1), (56, 64, 1, 256, 1), (56, 256, 1, 64, 1), (56, 64, 3, 128, 2), (56, 256, 1, 512, 2)),
    *((28, 128, 3, 128, 1), (28, 128, 1, 512, 1), (28, 512, 1, 128, 1), (28, 128, 3, 256, 2), (28, 512, 1, 1024, 2)),
    *((14, 256, 3, 256, 1), (14, 256, 1, 1024, 1), (14, 1024, 1, 256, 1), (14, 256, 3, 512, 2)),
    *((7, 512, 3, 512, 1), (7, 512, 1, 2048, 1), (7, 2048, 1, 512, 1)),
    *((112, 3, 7, 64, 2), (32, 3, 3, 32, 1), (64, 3, 5, 16, 2), (224, 3, 16, 192, 16)),
)
# Rows, columns, the axis of the sum.
SUMS = ((256, 256, 0), (256, 256, 1), (64, 4096, 1), (1024, 256, None))
MORE_SUMS = tuple((m, n, axis) for m in (32, 512, 2048) for n in (64, 500, 4096) for axis in (0, 1, None))
# Rows, columns, k.
TOP_K = ((1, 1024, 8), (16, 256, 4))
MORE_TOP_K = ((1, 256, 1), (1, 4096, 16), (8, 1024, 8), (64, 64, 2), (128, 256, 10))


class Case(NamedTuple):
    """A function of one operation, the shapes and types of its arguments, and what kind of operation it is.

    `listed`: whether it has a line of its own in the table. `donated`: whether it may overwrite its first argument.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    kind: str
    listed: bool = True
    donated: bool = False


def cases() -> Iterator[Case]:
    """The shapes of the tables in docs/model_accuracy.md."""
    for name, dtype in TYPES:
        yield from _products(name, dtype, PRODUCTS, BATCHES)
    for name, dtype in TYPES:
        yield from _convolutions(name, dtype, 1, CONVOLUTIONS)
    for name, dtype in TYPES:
        yield from _sums(name, dtype, SUMS)
    for name, dtype in TYPES:
        yield from _maps(name, dtype, 65536)
    yield from _top_k(TOP_K)
    for name, dtype in TYPES:
        yield from _more_reductions(name, dtype)
        yield from _more_maps(name, dtype)
        yield from _lookups(name, dtype)


def all_cases() -> Iterator[Case]:
    """Those and more; what PopLibs' planner takes minutes for is not among them."""
    yield from cases()
    for name, dtype in TYPES:
        yield from _products(name, dtype, MORE_PRODUCTS, MORE_BATCHES)
        for batch in (1, 4):
            yield from _convolutions(name, dtype, batch, LAYERS)
        yield from _sums(name, dtype, MORE_SUMS)
        for elements in (1000, 16384, 1_000_000):
            yield from _maps(name, dtype, elements)
    yield from _top_k(MORE_TOP_K)


def _spec(dtype: str, *shape: int) -> Any:
    import jax

    structure: Any = jax.ShapeDtypeStruct
    return structure(shape, dtype)


def _products(
    name: str, dtype: str, products: Iterable[tuple[int, int, int]], batches: Iterable[tuple[int, int, int, int]]
) -> Iterator[Case]:
    import jax.numpy as jnp

    for m, k, n in products:
        operands = (_spec(dtype, m, k), _spec(dtype, k, n))
        yield Case(f"product {m}x{k}x{n} {name}", jnp.matmul, operands, "products")
    for count, m, k, n in batches:
        operands = (_spec(dtype, count, m, k), _spec(dtype, count, k, n))
        yield Case(f"{count} products {m}x{k}x{n} {name}", jnp.matmul, operands, "products")


def _convolutions(
    name: str, dtype: str, batch: int, shapes: Iterable[tuple[int, int, int, int, int]]
) -> Iterator[Case]:
    from jax import lax

    def convolve(stride: int) -> Callable[..., Any]:
        dims = ("NHWC", "HWIO", "NHWC")
        return lambda x, w: lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=dims)

    images = "" if batch == 1 else f"{batch} of "
    for size, channels, window, out, stride in shapes:
        image, kernel = _spec(dtype, batch, size, size, channels), _spec(dtype, window, window, channels, out)
        title = f"convolution {images}{size}x{size}x{channels}, {window}x{window} to {out}, stride {stride} {name}"
        yield Case(title, convolve(stride), (image, kernel), "convolutions")


def _sum(axis: int | None) -> Callable[..., Any]:
    import numpy as np
    from jax import lax

    return lambda x: lax.reduce(x, np.zeros((), x.dtype), lax.add, (0, 1) if axis is None else (axis,))


def _sums(name: str, dtype: str, shapes: Iterable[tuple[int, int, int | None]]) -> Iterator[Case]:
    for rows, columns, axis in shapes:
        what = {0: "columns", 1: "rows", None: "all"}[axis]
        title = f"sum of {what} {rows}x{columns} {name}"
        yield Case(title, _sum(axis), (_spec(dtype, rows, columns),), "reductions")


def _maps(name: str, dtype: str, elements: int) -> Iterator[Case]:
    import jax.numpy as jnp

    maps: list[tuple[str, Callable[..., Any], int]] = [
        ("x + y", lambda x, y: x + y, 2),
        ("tanh(x)", jnp.tanh, 1),
        ("x * y + z", lambda x, y, z: x * y + z, 3),
    ]
    for title, function, count in maps:
        yield Case(f"{title} of {elements} {name}", function, (_spec(dtype, elements),) * count, "elementwise")


def _top_k(shapes: Iterable[tuple[int, int, int]]) -> Iterator[Case]:
    from jax import lax

    for rows, length, k in shapes:
        operands = (_spec("int32", rows, length),)
        yield Case(f"top {k} of {rows}x{length} s32", functools.partial(lax.top_k, k=k), operands, "sorts")


def _more_reductions(name: str, dtype: str) -> Iterator[Case]:
    square, large = _spec(dtype, 256, 256), _spec(dtype, 1024, 1024)
    functions: list[tuple[str, Callable[..., Any], Any]] = [
        ("mean of columns 256x256", lambda x: x.mean(0), square),
        ("mean of rows 256x256", lambda x: x.mean(1), square),
        ("mean over 0 and 2 of 16x64x64", lambda x: x.mean((0, 2)), _spec(dtype, 16, 64, 64)),
        ("mean over 1 and 2 of 32x28x28x16", lambda x: x.mean((1, 2)), _spec(dtype, 32, 28, 28, 16)),
        ("variance of rows 256x256", lambda x: x.var(1), square),
        ("sum of columns 1024x1024", _sum(0), large),
        ("sum of rows 1024x1024", _sum(1), large),
        ("sum of all 1024x1024", _sum(None), large),
    ]
    for title, function, operand in functions:
        yield Case(f"{title} {name}", function, (operand,), "reductions", listed=False)


def _more_maps(name: str, dtype: str) -> Iterator[Case]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    x, row, square = _spec(dtype, 65536), _spec(dtype, 256), _spec(dtype, 256, 256)
    functions: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
        ("x + row", lambda x, r: x + r, (square, row)),
        ("x * column", lambda x, c: x * c[:, None], (square, row)),
        ("x + scalar", lambda x, c: x + c, (x, _spec(dtype))),
        ("x * 2", lambda x: x * 2, (x,)),
        ("x > y", lambda x, y: x > y, (x, x)),
        ("x / y", lambda x, y: x / y, (x, x)),
        ("select", lax.select, (_spec("bool", 65536), x, x)),
        ("where(x > y, x, y)", lambda x, y: jnp.where(x > y, x, y), (x, x)),
        ("relu", jax.nn.relu, (x,)),
        *((f.__name__, f, (x,)) for f in (jnp.exp, jnp.log, jnp.sqrt, lax.rsqrt)),
        ("gelu", jax.nn.gelu, (x,)),
        ("sigmoid", jax.nn.sigmoid, (x,)),
        ("cast to s32", lambda x: x.astype("int32"), (x,)),
        ("cast from s32", lambda x: x.astype(dtype), (_spec("int32", 65536),)),
        ("cast to the other", lambda x: x.astype("float16" if dtype == "float32" else "float32"), (x,)),
        ("x * y + z of 1048576", lambda x, y, z: x * y + z, (_spec(dtype, 1 << 20),) * 3),
        ("softmax of 256x256", jax.nn.softmax, (square,)),
    ]
    for title, function, operands in functions:
        kind = "compositions" if "softmax" in title else "elementwise"
        yield Case(f"{title} {name}", function, operands, kind, listed=False)
    updates: list[tuple[str, Callable[..., Any], int]] = [
        ("x + y in place", lambda x, y: x + y, 2),
        ("x - 0.1 * y in place", lambda x, y: x - jnp.asarray(0.1, x.dtype) * y, 2),
        ("tanh(x) in place", jnp.tanh, 1),
    ]
    for title, function, count in updates:
        yield Case(f"{title} {name}", function, (x,) * count, "elementwise", listed=False, donated=True)


def _lookups(name: str, dtype: str) -> Iterator[Case]:
    import numpy as np
    from jax import lax

    table, rows, place = _spec(dtype, 10000, 64), _spec("int32", 128), _spec("int32")
    matrix, update = _spec(dtype, 1000, 512), _spec(dtype, 1, 512)

    def windows(size: int, stride: int, padding: str) -> Callable[..., Any]:
        shape, steps = (1, size, size, 1), (1, stride, stride, 1)
        return lambda x: lax.reduce_window(x, np.zeros((), x.dtype), lax.add, shape, steps, padding)

    functions: list[tuple[str, Callable[..., Any], tuple[Any, ...], str]] = [
        ("128 rows of 10000x64", lambda t, i: t[i], (table, rows), "lookups"),
        ("1024 rows of 1000x128", lambda t, i: t[i], (_spec(dtype, 1000, 128), _spec("int32", 1024)), "lookups"),
        ("a row of 1000x512", lambda t, i: lax.dynamic_index_in_dim(t, i), (matrix, place), "slices"),
        (
            "64 rows of 4096x64",
            lambda t, i: lax.dynamic_slice_in_dim(t, i, 64),
            (_spec(dtype, 4096, 64), place),
            "slices",
        ),
        ("sum of 2x2 windows", windows(2, 2, "VALID"), (_spec(dtype, 8, 28, 28, 16),), "windows"),
        ("sum of 3x3 windows", windows(3, 2, "SAME"), (_spec(dtype, 4, 56, 56, 64),), "windows"),
    ]
    for title, function, operands, kind in functions:
        yield Case(f"{title} {name}", function, operands, kind, listed=False)
    updated: list[tuple[str, Callable[..., Any], tuple[Any, ...], str]] = [
        ("128 rows added", lambda t, i, u: t.at[i].add(u), (table, rows, _spec(dtype, 128, 64)), "lookups"),
        ("a row set", lambda t, u, i: lax.dynamic_update_index_in_dim(t, u, i, 0), (matrix, update, place), "slices"),
    ]
    for title, function, operands, kind in updated:
        yield Case(f"{title} {name}", function, operands, kind, listed=False, donated=True)
