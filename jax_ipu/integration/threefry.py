"""threefry2x32, the hash of JAX's default random keys: the ops of JAX's own lowering, built without tracing them.

JAX traces the 20 rounds again for every shape, which takes longer than all else that it does to lower a small program.
The compiler recognises the ops (``compiler/passes/threefry.py``); to the partitioner and in exported programs they are
those of JAX. Tested with jax 0.10.2 and 0.12.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

PLATFORM = "ipu"


def enable() -> None:
    """Registers the lowering, out of line as JAX's own."""
    from jax._src.interpreters import mlir
    from jax._src.random import threefry2x32

    primitive = threefry2x32.threefry2x32_p
    generic = mlir._lowerings[primitive].rule

    def lower(ctx: Any, *words: Any) -> Sequence[Any]:
        aval = ctx.avals_out[0]
        known = all(isinstance(n, int) for n in aval.shape)
        if not known or any(axis is not None for axis in aval.sharding.spec):
            results: Sequence[Any] = generic(ctx, *words)
            return results
        return _emit(ctx, words)

    mlir.register_lowering(primitive, lower, platform=PLATFORM, inline=False)


def _emit(ctx: Any, words: Sequence[Any]) -> Sequence[Any]:
    import numpy as np
    from jax._src.interpreters import mlir
    from jaxlib.mlir.dialects import stablehlo as hlo

    # Not at the start of every process: the module is a part of the compiler.
    from jax_ipu.compiler.passes.threefry import PARITY

    aval = ctx.avals_out[0]
    rank = len(aval.shape)
    numbers: dict[int, Any] = {}

    def whole(value: Any, shape: tuple[int, ...]) -> Any:
        if shape == aval.shape:
            return value
        return mlir.broadcast_in_dim(ctx, value, aval, broadcast_dimensions=range(rank - len(shape), rank))

    def number(value: int) -> Any:
        if value not in numbers:
            numbers[value] = whole(mlir.ir_constant(np.array(value, np.uint32)), ())
        return numbers[value]

    k0, k1 = words[:2]
    shapes = [a.shape for a in ctx.avals_in]
    if shapes[0] != shapes[1]:
        k0, k1 = (whole(k, shape) for k, shape in zip((k0, k1), shapes, strict=False))
        shapes[:2] = [aval.shape, aval.shape]
    parity = mlir.ir_constant(np.array(PARITY, np.uint32))
    if shapes[0]:
        key_aval = aval.update(shape=shapes[0])
        parity = mlir.broadcast_in_dim(ctx, parity, key_aval, broadcast_dimensions=())
    keys = [whole(k, shapes[0]) for k in (k0, k1, hlo.xor(hlo.xor(k0, k1), parity))]
    x, y = (whole(word, shape) for word, shape in zip(words[2:], shapes[2:], strict=True))
    return _hash(keys, x, y, number, hlo)


def _hash(keys: Sequence[Any], x: Any, y: Any, number: Callable[[int], Any], hlo: Any) -> Sequence[Any]:
    from jax_ipu.compiler.passes.threefry import GROUPS, ROTATIONS

    x, y = hlo.add(x, keys[0]), hlo.add(y, keys[1])
    for group in range(GROUPS):
        for bits in ROTATIONS[group % 2]:
            x = hlo.add(x, y)
            rotated = hlo.or_(hlo.shift_left(y, number(bits)), hlo.shift_right_logical(y, number(32 - bits)))
            y = hlo.xor(x, rotated)
        x = hlo.add(x, keys[(group + 1) % 3])
        y = hlo.add(hlo.add(y, keys[(group + 2) % 3]), number(group + 1))
    return x, y
