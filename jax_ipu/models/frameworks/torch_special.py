"""PyTorch's special functions whose expressions in other operations overflow, or have the gradient NaN at a limit."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def _of_wide(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function in f32 at least; of whole numbers it is f32."""

    def widened(x: Any) -> Any:
        dtype = x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.dtype(jnp.float32)
        return function(_wide(x)).astype(dtype)

    return widened


def _wide(x: Any) -> Any:
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


@jax.custom_jvp
def _scaled_erfc(x: Any) -> Any:
    """exp(x^2) erfc(x), from 4 on as a continued fraction."""
    small, large = jnp.minimum(x, 4), jnp.maximum(x, 4)
    fraction = large
    for term in range(20, 0, -1):
        fraction = large + term / 2 / fraction
    return jnp.where(x < 4, jnp.exp(small * small) * jax.scipy.special.erfc(small), 1 / math.sqrt(math.pi) / fraction)


@_scaled_erfc.defjvp
def _(primals: Any, tangents: Any) -> Any:
    result = _scaled_erfc(*primals)
    return result, (2 * primals[0] * result - 2 / math.sqrt(math.pi)) * tangents[0]


@jax.custom_jvp
def _entropy(x: Any) -> Any:
    """-x log x: 0 at 0, minus infinity below."""
    positive = jnp.where(x > 0, x, 1)
    return jnp.where(x == 0, 0, jnp.where(x < 0, -jnp.inf, jnp.where(x > 0, -positive * jnp.log(positive), x)))


@_entropy.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return _entropy(*primals), (-jnp.log(primals[0]) - 1) * tangents[0]


@jax.custom_jvp
def _log_of_normal(x: Any) -> Any:
    t = x / math.sqrt(2)
    low, high = jnp.minimum(t, -0.5), jnp.maximum(t, -0.5)
    return jnp.where(
        t < -0.5, jnp.log(_scaled_erfc(-low) / 2) - low * low, jnp.log1p(-jax.scipy.special.erfc(high) / 2)
    )


@_log_of_normal.defjvp
def _(primals: Any, tangents: Any) -> Any:
    slope = math.sqrt(2 / math.pi) / _scaled_erfc(-primals[0] / math.sqrt(2))
    return _log_of_normal(*primals), slope * tangents[0]


def exponential_linear(x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    """torch.nn.functional.elu; large numbers have no part in an exponential that overflows."""
    wide = _wide(x)
    falling = alpha * scale * jnp.expm1(jnp.where(x > 0, 0, wide) * input_scale)
    return jnp.where(x > 0, wide * scale, falling).astype(x.dtype)


def scaled_exponential_linear(x: Any) -> Any:
    """torch.nn.functional.selu."""
    return exponential_linear(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


def continuous_exponential_linear(x: Any, alpha: float = 1) -> Any:
    """torch.nn.functional.celu."""
    return exponential_linear(x, alpha, 1, 1 / alpha)


def softplus(x: Any, beta: float = 1, threshold: float = 20) -> Any:
    """torch.nn.functional.softplus."""
    wide = _wide(x)
    is_large = wide * beta > threshold
    small = jnp.log1p(jnp.exp(jnp.where(is_large, 0, wide * beta))) / beta
    return jnp.where(is_large, wide, small).astype(x.dtype)


def mish(x: Any) -> Any:
    """torch.nn.functional.mish."""
    wide = _wide(x)
    return (wide * jnp.tanh(softplus(wide))).astype(x.dtype)


@jax.custom_jvp
def _angle_of(y: Any, x: Any) -> Any:
    return lax.atan2(y, x)


@_angle_of.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (y, x), (dy, dx) = primals, tangents
    square = x * x + y * y
    turn = jnp.where(square == 0, 0, (x * dy - y * dx) / jnp.where(square == 0, 1, square))
    return _angle_of(y, x), turn


def angle_of(y: Any, x: Any, *, general: Callable[..., Any]) -> Any:
    """torch.atan2: without a gradient at the origin."""
    if jnp.issubdtype(jnp.result_type(y, x), jnp.floating):
        kind = jnp.result_type(y, x)
        return _angle_of(*jnp.broadcast_arrays(jnp.asarray(y, kind), jnp.asarray(x, kind)))
    return general(y, x)


def angle(z: Any) -> Any:
    """torch.angle: of complex numbers, without a gradient at zero."""
    return _angle_of(z.imag, z.real) if jnp.issubdtype(z.dtype, jnp.complexfloating) else jnp.angle(z)


def _factor_of(logarithm: Callable[[Any], Any], start: float) -> Callable[[Any, Any], Any]:
    """x logarithm(y), zero for x = 0, where it has the slope logarithm(y) in x."""

    @jax.custom_vjp
    def product(x: Any, y: Any) -> Any:
        hidden = x == 0
        return jnp.where(y != y, y, jnp.where(hidden, 0, x * logarithm(jnp.where(hidden, start + 1, y))))

    def forward(x: Any, y: Any) -> Any:
        return product(x, y), (x, y)

    def backward(saved: Any, gradient: Any) -> Any:
        x, y = saved
        hidden = (gradient == 0) | ((x == 0) & (y <= start))
        return jnp.where(hidden, 0, gradient * logarithm(y)), gradient * x / (y - start)

    product.defvjp(forward, backward)

    def promoted(x: Any, y: Any) -> Any:
        kind = jnp.result_type(x, y)
        kind = kind if jnp.issubdtype(kind, jnp.inexact) else jnp.dtype(jnp.float32)
        return product(*jnp.broadcast_arrays(jnp.asarray(x, kind), jnp.asarray(y, kind)))

    return promoted


x_log_y = _factor_of(jnp.log, 0)
x_log1p_y = _factor_of(jnp.log1p, -1)
scaled_erfc = _of_wide(_scaled_erfc)
entropy = _of_wide(_entropy)
log_of_normal = _of_wide(_log_of_normal)


def digamma(x: Any) -> Any:
    """The slope of lgamma; of whole numbers it is f32."""
    return _digamma(x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(jnp.float32))


@jax.custom_jvp
def _digamma(x: Any) -> Any:
    return jnp.where(x == 0, -jnp.inf, lax.digamma(x))


@_digamma.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return _digamma(*primals), polygamma(1, *primals) * tangents[0]


def polygamma(order: int, x: Any) -> Any:
    """The derivative of digamma of this order.

    Left of 0 by the reflection formula (DLMF 5.15.6), as JAX's series is for numbers that are not far below 0:
    pi d^n/dx^n cot(pi x) is a polynomial of c = cot(pi x), since d/dx c = -pi (1 + c^2).
    """
    x = x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(jnp.float32)

    def right(x: Any) -> Any:
        return lax.polygamma(jnp.full_like(x, order), x)

    if order == 0:
        return right(x)
    negative = x < 0
    below = jnp.where(negative, x, -0.25)
    fraction = math.pi * (below - jnp.round(below))
    cotangent = 1 / jnp.tan(fraction)
    derivative = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(order):
        derivative = derivative.deriv() * np.polynomial.Polynomial([-1.0, 0.0, -1.0])
    value = functools.reduce(lambda sum, c: sum * cotangent + c, reversed(derivative.coef), jnp.zeros_like(x))
    left = (-1) ** order * right(1 - below) - math.pi ** (order + 1) * value
    is_pole = (x <= 0) & (x == jnp.floor(x))
    at_pole = jnp.inf if order % 2 else -jnp.inf
    return jnp.where(is_pole, at_pole, jnp.where(negative, left, right(jnp.where(x <= 0, 1, x)))).astype(x.dtype)


def zeta(x: Any, q: Any) -> Any:
    """torch.special.zeta: there is none for x below 1."""
    kind = jnp.result_type(x, q)
    kind = kind if jnp.issubdtype(kind, jnp.inexact) else jnp.dtype(jnp.float32)
    x, q = jnp.asarray(x, kind), jnp.asarray(q, kind)
    return jnp.where(x < 1, jnp.nan, jax.scipy.special.zeta(x, q))
