"""The shapes of tools/compare_poplibs: functions of one operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

TYPES = (("f32", "float32"), ("f16", "float16"))
# Rows, depth, columns.
FEW_PRODUCTS = ((64, 64, 64), (128, 128, 128), (256, 256, 256), (128, 784, 256), (128, 256, 10), (1, 512, 512))
# Batch, field, input channels, window, output channels, stride.
FEW_CONVOLUTIONS = (
    (1, 16, 32, 3, 64, 1),
    (1, 28, 1, 5, 8, 1),
    (1, 14, 64, 1, 64, 1),
    (1, 16, 32, 3, 32, 2),
)
# The layers of ResNet-18 and ResNet-50, and first layers of other networks.
LAYERS = (
    *((56, 64, 3, 64, 1), (56, 64, 1, 256, 1), (56, 256, 1, 64, 1), (56, 64, 3, 128, 2), (56, 256, 1, 512, 2)),
    *((28, 128, 3, 128, 1), (28, 128, 1, 512, 1), (28, 512, 1, 128, 1), (28, 128, 3, 256, 2), (28, 512, 1, 1024, 2)),
    *((14, 256, 3, 256, 1), (14, 256, 1, 1024, 1), (14, 1024, 1, 256, 1), (14, 256, 3, 512, 2)),
    *((7, 512, 3, 512, 1), (7, 512, 1, 2048, 1), (7, 2048, 1, 512, 1)),
    *((112, 3, 7, 64, 2), (32, 3, 3, 32, 1), (64, 3, 5, 16, 2), (224, 3, 16, 192, 16)),
)
FEW_REDUCTIONS = ((256, 256, 0), (256, 256, 1), (64, 4096, 1), (1024, 256, None))
FEW_SORTS = ((1, 1024, 8), (16, 256, 4))


class Case(NamedTuple):
    """A function of one operation, and the shapes and types of its arguments."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def few_cases() -> Iterator[Case]:
    """Those of the table in docs/model_accuracy.md."""
    for types in TYPES:
        for sizes in FEW_PRODUCTS:
            yield _product(types, *sizes)
        yield _batch(types, 8, 64, 64, 64)
    for types in TYPES:
        for shape in FEW_CONVOLUTIONS:
            yield _convolution(types, *shape)
    for types in TYPES:
        for rows, columns, axis in FEW_REDUCTIONS:
            yield _sum(types, rows, columns, axis)
    for types in TYPES:
        yield from _maps(types, 65536)
    for rows, length, k in FEW_SORTS:
        yield _top_k(rows, length, k)


def all_cases() -> Iterator[Case]:
    """Some 300, with those of few_cases; what PopLibs' planner takes minutes for is not among them."""
    yield from few_cases()
    for types in TYPES:
        for sizes in _product_sizes():
            if sizes not in FEW_PRODUCTS:
                yield _product(types, *sizes)
        for batch, m, k, n in ((16, 32, 64, 32), (12, 128, 64, 128), (12, 128, 128, 64), (64, 16, 64, 16)):
            yield _batch(types, batch, m, k, n)
    for types in TYPES:
        for batch in (1, 4):
            for layer in LAYERS:
                yield _convolution(types, batch, *layer)
    for types in TYPES:
        for rows in (32, 512, 2048):
            for columns in (64, 500, 4096):
                for axis in (0, 1, None):
                    yield _sum(types, rows, columns, axis)
    for types in TYPES:
        for elements in (1000, 16384, 1_000_000):
            yield from _maps(types, elements)
    for rows, length, k in ((1, 256, 1), (1, 4096, 16), (8, 1024, 8), (64, 64, 2), (128, 256, 10)):
        yield _top_k(rows, length, k)


def _product_sizes() -> Iterator[tuple[int, int, int]]:
    for n in (512, 1024):
        yield n, n, n
    for m in (1, 4, 16, 64):
        for k in (128, 512, 1024, 2048):
            yield m, k, 1024
            yield 1024, k, m
    yield from ((32, 784, 512), (32, 512, 10), (128, 768, 768), (128, 768, 3072), (128, 3072, 768), (100, 100, 100))
    yield from ((7, 13, 17), (61, 97, 61), (1, 4096, 1), (512, 1, 512), (333, 65, 129))


def _spec(dtype: str, *shape: int) -> Any:
    import jax

    structure: Any = jax.ShapeDtypeStruct
    return structure(shape, dtype)


def _product(types: tuple[str, str], m: int, k: int, n: int) -> Case:
    import jax.numpy as jnp

    name, dtype = types
    return Case(f"product {m}x{k}x{n} {name}", jnp.matmul, (_spec(dtype, m, k), _spec(dtype, k, n)))


def _batch(types: tuple[str, str], count: int, m: int, k: int, n: int) -> Case:
    import jax.numpy as jnp

    name, dtype = types
    arguments = (_spec(dtype, count, m, k), _spec(dtype, count, k, n))
    return Case(f"{count} products {m}x{k}x{n} {name}", jnp.matmul, arguments)


def _convolution(
    types: tuple[str, str], batch: int, size: int, channels: int, window: int, out: int, stride: int
) -> Case:
    from jax import lax

    def convolve(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    name, dtype = types
    image, kernel = _spec(dtype, batch, size, size, channels), _spec(dtype, window, window, channels, out)
    images = "" if batch == 1 else f"{batch} of "
    title = f"convolution {images}{size}x{size}x{channels}, {window}x{window} to {out}, stride {stride} {name}"
    return Case(title, convolve, (image, kernel))


def _sum(types: tuple[str, str], rows: int, columns: int, axis: int | None) -> Case:
    import jax.numpy as jnp
    from jax import lax

    def add_up(x: Any) -> Any:
        return lax.reduce(x, jnp.zeros((), x.dtype), lax.add, (0, 1) if axis is None else (axis,))

    name, dtype = types
    what = {0: "columns", 1: "rows", None: "all"}[axis]
    return Case(f"sum of {what} {rows}x{columns} {name}", add_up, (_spec(dtype, rows, columns),))


def _maps(types: tuple[str, str], elements: int) -> Iterator[Case]:
    import jax.numpy as jnp

    maps: list[tuple[str, Callable[..., Any], int]] = [
        ("x + y", lambda x, y: x + y, 2),
        ("tanh(x)", jnp.tanh, 1),
        ("x * y + z", lambda x, y, z: x * y + z, 3),
    ]
    name, dtype = types
    for title, function, count in maps:
        yield Case(f"{title} of {elements} {name}", function, (_spec(dtype, elements),) * count)


def _top_k(rows: int, length: int, k: int) -> Case:
    from jax import lax

    return Case(f"top {k} of {rows}x{length} s32", lambda x: lax.top_k(x, k), (_spec("int32", rows, length),))
