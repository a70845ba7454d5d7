"""Single operations of many elements."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .language import layer_norm
from .program import MakeProgram, Program, array, indices, program

_BIG = array(1024, 1024)
_LONG = _BIG.reshape(-1)


def _products(*matrices: Any) -> Any:
    x = matrices[0]
    for matrix in matrices[1:]:
        x = jnp.tanh(x @ matrix)
    return x


def chain(size: int, count: int) -> MakeProgram:
    """A product of matrices with tanh between them."""
    return lambda: Program(_products, tuple(array(size, size, seed=i) / size**0.5 for i in range(count)))


def _segment_sum() -> Program:
    """100,000 rows of 16 into 10,000 segments that are not sorted."""
    ids = indices(100_000, 10_000)
    return Program(lambda x, ids: jax.ops.segment_sum(x, ids, 10_000), (array(100_000, 16), ids))


def _equal_rows(x: Any) -> Any:
    """In each of 20 steps and for each row, how many of 300 patterns equal its start."""
    patterns = indices((300, 2), 3)

    def step(x: Any, i: Any) -> tuple[Any, Any]:
        return x, jax.vmap(lambda row: ((row + i)[:2] == patterns).all(-1).sum())(x)

    return lax.scan(step, x, jnp.arange(20))[1]


def _looped_product(x: Any, matrix: Any) -> Any:
    """100 products of small matrices, one after the other."""
    return lax.fori_loop(0, 100, lambda _, x: jnp.tanh(x @ matrix), x)


def _upper_case(text: Any) -> Any:
    return jnp.where((text >= ord("a")) & (text <= ord("z")), text - 32, text)


def _blend(a: Any, b: Any, alpha: Any) -> Any:
    """A mixture of two images of bytes."""
    return (a.astype(jnp.float32) * alpha + b.astype(jnp.float32) * (1 - alpha)).astype(jnp.uint8)


def _premultiplied(image: Any) -> Any:
    """Colours times their opacity, which is the last channel."""
    return jnp.concatenate([image[..., :3] * image[..., 3:], image[..., 3:]], -1)


def _corners(boxes: Any) -> Any:
    """Boxes by their corners instead of by their centres and extents."""
    x, y, width, height = jnp.split(boxes, 4, -1)
    return jnp.concatenate([x - width / 2, y - height / 2, x + width / 2, y + height / 2], -1)


_IMAGES = array(8, 224, 224, 3)
_BYTES = indices((1024, 1024, 3), 256).astype(np.uint8)
_TEXT = indices(1 << 22, 96).astype(np.uint8) + np.uint8(32)

PROGRAMS: dict[str, MakeProgram] = {
    "matmul 1000 x 4x4": program(jnp.matmul, array(1000, 4, 4), array(1000, 4, 4)),
    "matmul 1000 x 16x16": program(jnp.matmul, array(1000, 16, 16), array(1000, 16, 16)),
    "matmul 64 x 64x64": program(jnp.matmul, array(64, 64, 64), array(64, 64, 64)),
    "matmul 32": program(jnp.dot, array(32, 32), array(32, 32)),
    "matmul 128": program(jnp.dot, array(128, 128), array(128, 128)),
    "loop of 100 products 64": program(_looped_product, array(64, 64), array(64, 64) / 8),
    "matmul 1024": program(jnp.dot, _BIG, _BIG),
    "matmul 1024 bf16": program(jnp.dot, _BIG.astype(jnp.bfloat16), _BIG.astype(jnp.bfloat16), tolerance=2e-2),
    "chain of 4 products 512": chain(512, 4),
    "chain of 3 products 1024": chain(1024, 3),
    "chain of 3 products 2048": chain(2048, 3),
    "dot of vectors 1M": program(jnp.dot, _LONG, _LONG),
    "gelu 1M": program(jax.nn.gelu, _BIG),
    "softmax 1024x1024": program(jax.nn.softmax, _BIG),
    "log_softmax 1024x1024": program(jax.nn.log_softmax, _BIG),
    "layer norm 1024x1024": program(layer_norm, _BIG, array(1024), array(1024)),
    "sum rows 1024x1024": program(lambda x: x.sum(1), _BIG),
    "sums and extremes of short rows 100000x6": program(lambda x: (x.sum(1), x.max(1), x.min(1)), array(100_000, 6)),
    "counts of equal short rows": program(_equal_rows, indices((4, 81), 3)),
    "means over the first and the last of 64x64x256": program(lambda x: x.mean((0, 2)), array(64, 64, 256)),
    "sum rows 16384x64": program(lambda x: x.sum(1), array(16384, 64)),
    "sum rows 10000x100": program(lambda x: x.sum(1), array(10_000, 100)),
    "variance of columns 4096x1024": program(lambda x: x.var(0), array(4096, 1024)),
    "argmax rows 1024x1024": program(lambda x: x.argmax(1), _BIG),
    "argmax of short rows 100000x10": program(lambda x: x.argmax(1), array(100_000, 10)),
    "hypot 1M": program(jnp.hypot, _LONG, _LONG[::-1].copy()),
    "nested where 1M": program(
        lambda x: jnp.where(x > 1, x * 2, jnp.where(x > 0, x + 1, jnp.where(x > -1, x - 1, -x))), _LONG
    ),
    "select of four cases 1M": program(
        lambda x: jnp.select([x < -1, x < 0, x < 1, x < 2], [x, x * 2, x * 3, x * 4], 0.0), _LONG
    ),
    "powers of 10000 numbers": program(lambda x: jnp.vander(x, 8), array(10_000)),
    "distances 128x128x3": program(
        lambda p: ((p[None] - p[:, None]) * (((p[None] - p[:, None]) ** 2).sum(-1) + 0.01)[..., None] ** -1.5).sum(1),
        array(128, 3),
    ),
    "grey values 512x512x3": program(lambda x: x @ jnp.array([0.299, 0.587, 0.114], jnp.float32), array(512, 512, 3)),
    "rotations of 20000 vectors": program(
        lambda m, v: jnp.einsum("nij,nj->ni", m, v), array(20_000, 3, 3), array(20_000, 3)
    ),
    "upsampling 8x32x32x16": program(lambda x: jnp.repeat(jnp.repeat(x, 2, 1), 2, 2), array(8, 32, 32, 16)),
    "cumsum 1M": program(jnp.cumsum, _LONG),
    "cumsum 1M bf16": program(jnp.cumsum, _LONG.astype(jnp.bfloat16), tolerance=5e-2),
    "top-k 16 of 1M": program(lambda x: lax.top_k(x, 16), _LONG),
    "sort 1M": program(jnp.sort, _LONG),
    "positions of positive numbers 1M": program(lambda x: jnp.nonzero(x > 0, size=600_000)[0], _LONG),
    "distinct integers of 1M": program(lambda x: jnp.unique(x, size=1000), indices(1 << 20, 1000)),
    "quotients and remainders 1M": program(lambda x: jnp.divmod(x, 1000), indices(1 << 20, 1 << 20) - (1 << 19)),
    "last digits of 16-bit integers 1M": program(
        lambda x: x % jnp.int16(10), indices(1 << 20, 1 << 15).astype("int16")
    ),
    "transpose 1024x1024": program(lambda x: x.T + 0, _BIG),
    "transpose of bytes 4096x64": program(lambda x: x.T, indices((4096, 64), 128).astype("int8")),
    "images to channels first, bytes": program(
        lambda x: jnp.moveaxis(x, -1, 1), indices((8, 64, 64, 3), 256).astype("uint8")
    ),
    "images to channels last": program(lambda x: jnp.moveaxis(x, 1, -1), array(8, 3, 64, 64)),
    "flipped images": program(lambda x: jnp.flip(x, 2), _IMAGES),
    "flipped images of bytes": program(lambda x: jnp.flip(x, 2), indices((8, 224, 224, 3), 256).astype("uint8")),
    "flip 1000x1000": program(lambda x: jnp.flip(x, 1), array(1000, 1000)),
    "flip 1M": program(jnp.flip, _LONG),
    "repeat 1M": program(lambda x: jnp.repeat(x, 3), _LONG),
    "repeat rows 100000x4": program(lambda x: jnp.repeat(x, 3, axis=0), array(100_000, 4)),
    "repeat columns 1000x1000": program(lambda x: jnp.repeat(x, 3, axis=1), array(1000, 1000)),
    "tile 1000x1000": program(lambda x: jnp.tile(x, (2, 3)), array(1000, 1000)),
    "images padded by reflection": program(
        lambda x: jnp.pad(x, ((0, 0), (3, 3), (3, 3), (0, 0)), mode="reflect"), _IMAGES
    ),
    "vector padded by reflection 1M": program(lambda x: jnp.pad(x, 16, mode="reflect"), _LONG),
    "space to depth": program(
        lambda x: x.reshape(8, 112, 2, 112, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(8, 112, 112, 12), _IMAGES
    ),
    "lower triangle 1024x1024": program(jnp.tril, _BIG),
    "cross products 100000x3": program(jnp.cross, array(100_000, 3), array(100_000, 3, seed=1)),
    "premultiplied alpha 512x512x4": program(_premultiplied, abs(array(512, 512, 4))),
    "corners of 100000 boxes": program(_corners, array(100_000, 4)),
    "packed bits 1M": program(jnp.packbits, indices(1 << 20, 2).astype(np.uint8)),
    "packed bits of 1000 rows": program(lambda x: jnp.packbits(x, axis=-1), indices((1000, 1000), 2).astype(bool)),
    "powers 10000x8": program(lambda x: jnp.vander(x, 8), array(10_000)),
    "interpolation 10000 in 100": program(jnp.interp, array(10_000), np.sort(array(100, seed=1)), array(100, seed=2)),
    "searchsorted 100000 in 100000": program(jnp.searchsorted, np.sort(array(100_000)), array(100_000, seed=1)),
    "erf 1M": program(lax.erf, _BIG),
    "upper case of 4M bytes": program(_upper_case, _TEXT),
    "blend of images of bytes": program(_blend, _BYTES, _BYTES[::-1].copy(), np.float32(0.3)),
    "masks 4M": program(lambda a, b: (a & ~b) | (b & ~a), _TEXT > 64, _TEXT > 80),
    "Gray code of 2M 16-bit integers": program(lambda x: x ^ (x >> 1), _TEXT.view(np.uint16)),
    "counts of equal rows 100000x3": program(
        lambda x, y: (x == y).all(-1).sum(), indices((100_000, 3), 3), indices((100_000, 3), 3, seed=2)
    ),
    "gather rows 8192x64": program(lambda x, i: x[i], array(8192, 64), indices(8192, 8192)),
    "gather 1M": program(lambda x, i: x[i], _LONG, indices(1 << 20, 1 << 20)),
    "scatter-add rows 8192x64": program(
        lambda x, i, u: x.at[i].add(u), array(8192, 64), indices(8192, 8192), array(8192, 64)
    ),
    "scatter-add 1M into 100k": program(
        lambda x, i, u: x.at[i].add(u), array(100_000), indices(1 << 20, 100_000), _LONG
    ),
    "segment sum 100000x16": _segment_sum,
}
