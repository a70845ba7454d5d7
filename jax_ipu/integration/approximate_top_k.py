"""approx_max_k and approx_min_k: computed exactly with top-k; JAX lowers them to a custom call for other platforms.

Tested with jax 0.10.2 and 0.12.0.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

PLATFORM = "ipu"


def enable() -> None:
    """Registers the lowering. The result is exact, so it meets every recall target."""
    from jax._src.interpreters import mlir
    from jax._src.lax import ann

    mlir.register_lowering(ann.approx_top_k_p, _lower, platform=PLATFORM)


def _lower(ctx: Any, operand: Any, *, reduction_dimension: int, is_max_k: bool, **params: Any) -> Sequence[Any]:
    from jax._src.interpreters import mlir

    del params  # recall target and reduction hints: the result is exact
    dimension = reduction_dimension % len(ctx.avals_in[0].shape)
    size = ctx.avals_out[0].shape[dimension]
    rule = functools.partial(_top_k, size=size, dimension=dimension, largest=is_max_k)
    lowered: Sequence[Any] = mlir.lower_fun(rule, multiple_results=True)(ctx, operand)
    return lowered


def _top_k(operand: Any, *, size: int, dimension: int, largest: bool) -> tuple[Any, Any]:
    import jax.numpy as jnp
    from jax import lax

    last = jnp.moveaxis(operand, dimension, -1)
    if largest:
        values, indices = lax.top_k(last, size)
    else:
        # Not top_k of -x: negating the smallest integer overflows.
        positions = lax.broadcasted_iota(jnp.int32, last.shape, last.ndim - 1)
        values, indices = (x[..., :size] for x in lax.sort((last, positions), num_keys=1))
    return jnp.moveaxis(values, -1, dimension), jnp.moveaxis(indices, -1, dimension)
