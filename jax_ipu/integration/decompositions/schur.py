"""The Schur form, as LAPACK's gees."""

from __future__ import annotations

from typing import Any

import numpy as np

from jax_ipu.integration.decompositions import native
from jax_ipu.integration.decompositions.balancing import permuted, permuting_order
from jax_ipu.integration.decompositions.householder import apply_reflectors, diagonal, hessenberg, over_batches
from jax_ipu.integration.decompositions.qr_algorithm import reduce_to_blocks


def schur(a: Any, *, compute_schur_vectors: bool, sort_eig_vals: bool, select_callable: Any) -> tuple[Any, ...]:
    """T (..., n, n), and the vectors Z (..., n, n) with A = Z T Z^H: LAPACK's gees without sorting.

    T is upper triangular, for real A with 2 x 2 blocks ((x, b), (c, x)), b c < 0, for pairs of eigenvalues. NaN where A
    is not finite or the iteration does not converge.
    """
    import jax.numpy as jnp

    del select_callable
    if sort_eig_vals:
        raise NotImplementedError(
            "schur on ipu does not sort eigenvalues, as on the other platforms of JAX. Leave `sort_eig_vals` out"
        )
    if a.shape[-1] == 0:
        return (a, a) if compute_schur_vectors else (a,)
    if a.shape[-1] <= native.MOST_SCHUR_ROWS:
        return native.schur(a, balanced=False, vectors=compute_schur_vectors)
    start, size, finite = scaled(a)
    order, _ = permuting_order(start)
    t, z, converged = schur_form(permuted(start, order), compute_schur_vectors)
    good = (finite & converged)[..., None, None]
    t = jnp.where(good, t * size[..., None, None], jnp.nan)
    if not compute_schur_vectors:
        return (t,)
    place = jnp.argsort(order, -1)
    z = jnp.take_along_axis(z, place[..., None], -2)
    return t, jnp.where(good, z, jnp.nan)


def scaled(a: Any) -> tuple[Any, Any, Any]:
    """`a` (..., n, n) with entries of about 1, the powers of two it was divided by (...), and whether it is finite.

    Matrices that are not finite become zero.
    """
    import jax.numpy as jnp

    limits = np.finfo(a.dtype)
    largest = jnp.max(jnp.maximum(jnp.abs(a.real), jnp.abs(a.imag)), (-2, -1))
    finite = jnp.isfinite(largest)
    _, exponent = jnp.frexp(jnp.where(finite & (largest > 0), largest, 1))
    exponent = jnp.clip(exponent, limits.minexp + 2, limits.maxexp - 2)
    one = jnp.ones((), a.real.dtype)
    a = jnp.where(finite[..., None, None], a * jnp.ldexp(one, -exponent)[..., None, None].astype(a.dtype), 0)
    return a, jnp.ldexp(one, exponent), finite


def schur_form(a: Any, vectors: bool) -> tuple[Any, Any, Any]:
    """T (..., n, n), Z (..., n, n) or None, converged (...): A = Z T Z^H for A (..., n, n) with entries of about 1."""
    import jax.numpy as jnp

    n = a.shape[-1]
    packed, taus = over_batches(hessenberg)(a)
    z = None
    if vectors:
        identity = jnp.broadcast_to(jnp.eye(n, dtype=a.dtype), a.shape)
        z = over_batches(apply_reflectors)(packed, taus, identity)
    is_real = not jnp.iscomplexobj(a)
    t, z, converged = reduce_to_blocks(jnp.triu(packed, -1), z)
    return (*(_standardised(t, z) if is_real else (jnp.triu(t), z)), converged)


def _standardised(t: Any, z: Any) -> tuple[Any, Any]:
    """Makes each 2 x 2 block of the real T (..., n, n) either ((x, b), (c, x)) with b c < 0 or triangular; updates Z.

    The blocks do not overlap, so all are rotated at once.
    """
    import jax.numpy as jnp

    if t.shape[-1] == 1:
        return t, z
    t = jnp.triu(t, -1)
    d, low, up = diagonal(t), diagonal(t, -1), diagonal(t, 1)
    is_block = low != 0
    *block, cosine, sine = _rotation_of_block(d[..., :-1], up, low, d[..., 1:])
    t = with_turned_pairs(with_turned_pairs(t, cosine, sine, -sine, -1), cosine, sine, -sine, -2)
    # Write the standardised blocks directly: the products would add rounding errors.
    for (row, column), entry in zip(((0, 0), (0, 1), (1, 0), (1, 1)), block, strict=True):
        t = _with_block_entries(t, is_block, entry, row, column)
    if z is not None:
        z = with_turned_pairs(z, cosine, sine, -sine, -1)
    return t, z


def _with_block_entries(t: Any, is_block: Any, entry: Any, row: int, column: int) -> Any:
    """T with `entry` (..., n - 1) at (k + row, k + column) for all k of `is_block`."""
    import jax.numpy as jnp

    places = jnp.arange(t.shape[-1])
    at = (places[:, None] - row == places[None, :] - column) & (places[:, None] >= row)
    margin = [(0, 0)] * (entry.ndim - 1) + [(row, 1 - row)]
    spread = jnp.pad(entry, margin)[..., :, None]
    return jnp.where(at & jnp.pad(is_block, margin)[..., :, None], spread, t)


def with_turned_pairs(x: Any, same: Any, first: Any, second: Any, axis: int) -> Any:
    """x (..., n, n) with pairs of neighbouring rows (axis -2) or columns (-1) combined; pairs do not overlap.

    If k and k + 1 are a pair, rows k and k + 1 become same_k x_k + first_k x_{k+1} and same_k x_{k+1} + second_k x_k.
    The coefficients are (..., n - 1); they are 1, 0 and 0 for every other k.
    """
    import jax.numpy as jnp

    def along(coefficient: Any) -> Any:
        return jnp.expand_dims(coefficient, -1 if axis == -2 else -2)

    def padded(coefficient: Any, before: int, value: float) -> Any:
        margin = [(0, 0)] * (coefficient.ndim - 1) + [(before, 1 - before)]
        return jnp.pad(coefficient, margin, constant_values=value)

    own = along(padded(same, 0, 1) * padded(same, 1, 1))
    following, before = along(padded(first, 0, 0)), along(padded(second, 1, 0))
    return own * x + following * shifted(x, -1, axis) + before * shifted(x, 1, axis)


def shifted(x: Any, places: int, axis: int) -> Any:
    """x with its rows (axis -2) or columns (-1) moved by `places` to higher indices; zeros fill the gap."""
    import jax.numpy as jnp
    from jax import lax

    margin = [(0, 0, 0)] * x.ndim
    margin[axis] = (places, -places, 0)
    return lax.pad(x, jnp.zeros((), x.dtype), margin)


def _rotation_of_block(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, ...]:
    """Standardises ((a, b), (c, d)) as LAPACK's lanv2. Returns the new (a, b, c, d), then cosine and sine (...)."""
    import jax.numpy as jnp

    one, zero = jnp.ones_like(a), jnp.zeros_like(a)
    half = (a - d) / 2
    larger = jnp.maximum(jnp.abs(b), jnp.abs(c))
    smaller = jnp.minimum(jnp.abs(b), jnp.abs(c)) * jnp.sign(b) * jnp.sign(c)
    scale = jnp.maximum(jnp.abs(half), larger)
    scale = jnp.where(scale == 0, 1, scale)
    value = (half / scale) * half + (larger / scale) * smaller

    # Two real eigenvalues: triangular.
    root = half + jnp.copysign(jnp.sqrt(scale) * jnp.sqrt(jnp.maximum(value, 0)), half)
    safe = jnp.where(root == 0, 1, root)
    length = jnp.hypot(c, safe)
    real = (d + root, b - c, zero, d - (larger / safe) * smaller, safe / length, c / length)

    # Complex or nearly equal eigenvalues: make the diagonal entries equal.
    sigma = b + c
    length = jnp.hypot(sigma, a - d)
    length = jnp.where(length == 0, 1, length)
    cosine = jnp.sqrt((1 + jnp.abs(sigma) / length) / 2)
    sine = -(half / (length * cosine)) * jnp.copysign(1, sigma)
    aa, bb, cc, dd = a * cosine + b * sine, b * cosine - a * sine, c * cosine + d * sine, d * cosine - c * sine
    a1, b1, c1, d1 = aa * cosine + cc * sine, bb * cosine + dd * sine, cc * cosine - aa * sine, dd * cosine - bb * sine
    mean = (a1 + d1) / 2
    pair = (mean, b1, c1, mean, cosine, sine)
    root_b, root_c = jnp.sqrt(jnp.abs(b1)), jnp.sqrt(jnp.abs(c1))
    shift = jnp.copysign(root_b * root_c, c1)
    inverse = 1 / jnp.sqrt(jnp.where(b1 + c1 == 0, 1, jnp.abs(b1 + c1)))
    turn, slide = root_b * inverse, root_c * inverse
    equal = (mean + shift, b1 - c1, zero, mean - shift, cosine * turn - sine * slide, cosine * slide + sine * turn)
    swapped = (mean, -c1, zero, mean, -sine, cosine)

    kept = (a, b, c, d, one, zero)
    cases = [
        ((c == 0) | ((a == d) & (jnp.sign(b) * jnp.sign(c) < 0)), kept),
        (b == 0, (d, -c, zero, a, zero, one)),
        (value >= 4 * float(np.finfo(a.dtype).eps), real),
        ((b1 != 0) & (jnp.sign(b1) * jnp.sign(c1) > 0), equal),
        ((b1 == 0) & (c1 != 0), swapped),
    ]
    conditions = [condition for condition, _ in cases]
    return tuple(jnp.select(conditions, [case[i] for _, case in cases], pair[i]) for i in range(len(pair)))
