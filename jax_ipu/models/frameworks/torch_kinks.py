"""PyTorch's functions with kinks, which have PyTorch's gradient there and not JAX's.

JAX divides the gradient of the larger of two equal numbers, and |x| has the slope one at zero; PyTorch gives a number
at its limit the whole gradient or none, function by function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


@jax.custom_jvp
def absolute(x: Any) -> Any:
    """|x|, with the gradient zero at zero."""
    return jnp.abs(x)


@absolute.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x,), (change,) = primals, tangents
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        size = jnp.abs(x)
        direction = jnp.where(size == 0, 0, x / jnp.where(size == 0, 1, size))
        return absolute(x), jnp.real(jnp.conj(direction) * change)
    return absolute(x), jnp.sign(x) * change


def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    """Between two limits, of which the upper one wins; at a limit x has the gradient."""
    if min is not None:
        x = jnp.where(_is_below(x, min), min, x)
    return x if max is None else jnp.where(_is_below(max, x, max), max, x)


def hard_tanh(x: Any, min_val: Any = -1, max_val: Any = 1) -> Any:
    """Between two limits; at a limit there is no gradient."""
    if jnp.issubdtype(x.dtype, jnp.integer):
        min_val, max_val = int(min_val), int(max_val)
    return jnp.where(x <= min_val, min_val, jnp.where(x >= max_val, max_val, x)).astype(x.dtype)


def hard_sigmoid(x: Any) -> Any:
    """A line between -3 and 3, where there is no gradient."""
    return hard_tanh(x + 3, 0, 6) / 6


def hard_swish(x: Any) -> Any:
    """0 up to -3, the identity from 3 on."""
    return jnp.where(x <= -3, 0, jnp.where(x >= 3, x, x * (x + 3) / 6)).astype(x.dtype)


def leaky_relu(x: Any, negative_slope: float = 0.01) -> Any:
    """At zero it has the lower slope."""
    return jnp.where(x > 0, x, negative_slope * x).astype(x.dtype)


def larger(x: Any, y: Any) -> Any:
    """torch.fmax: without NaN where possible; of two equal numbers the first has the gradient."""
    return jnp.where((x >= y) | (y != y), x, y)


def smaller(x: Any, y: Any) -> Any:
    """torch.fmin: without NaN where possible; of two equal numbers the first has the gradient."""
    return jnp.where((x <= y) | (y != y), x, y)


def with_sign(x: Any, y: Any, *, general: Callable[..., Any]) -> Any:
    """torch.copysign: without a gradient at zero."""
    result = general(x, y)
    return jnp.where(x == 0, lax.stop_gradient(result), result)


@jax.custom_jvp
def next_number(x: Any, y: Any) -> Any:
    """torch.nextafter: moves with x where y is another number."""
    return lax.nextafter(*jnp.broadcast_arrays(x, y))


@next_number.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return next_number(*primals), jnp.where(primals[0] != primals[1], tangents[0], 0)


def safe_softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    """Zeros with the gradient zero where all of a row is minus infinity, as where attention is masked."""
    x = x if dtype is None else x.astype(dtype)
    hidden = jnp.all(x == -jnp.inf, dim, keepdims=True)
    return jnp.where(hidden, 0, jax.nn.softmax(jnp.where(hidden, 0, x), dim)).astype(x.dtype)


def sinc(x: Any) -> Any:
    """PyTorch's own expression divides zeros in its gradient."""
    return jnp.sinc(x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(jnp.float32))


@jax.custom_jvp
def bessel_i0(x: Any) -> Any:
    """As JAX's, whose gradient at zero is not zero."""
    return jax.scipy.special.i0(x)


@bessel_i0.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return bessel_i0(*primals), jax.scipy.special.i1(primals[0]) * tangents[0]


def _is_below(x: Any, limit: Any, bound: Any = None) -> Any:
    """Whether x is smaller than the limit; a bound that is NaN wins as well."""
    bound = limit if bound is None else bound
    below = jnp.less(x, limit)
    return below | (bound != bound) if isinstance(bound, jax.Array) else below
