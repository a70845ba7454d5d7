"""The QR algorithm for Hessenberg matrices, with LAPACK's lahqr's shifts and deflation, and its signs if real.

All matrices of a batch go through the steps of a sweep together: a step is small products at the same place in every
matrix, and the identity for matrices whose sweep does not include that place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jax_ipu.integration.householder import batched_dot, diagonal

# Sweeps without deflation between two exceptional shifts, and per row of the matrix before giving up.
_EXCEPTIONAL_EVERY, _SWEEPS_PER_ROW = 10, 30
# The exceptional shifts are the eigenvalues of ((0.75, -0.4375), (1, 0.75)) times a size, about a diagonal entry.
_EXCEPTIONAL_DIAGONAL, _EXCEPTIONAL_ABOVE = 0.75, -0.4375


def reduce_to_blocks(h: Any, z: Any) -> tuple[Any, Any, Any]:
    """Sweeps until the Hessenberg matrices `h` (..., n, n) are in blocks of 1 (complex) or at most 2 (real) rows.

    Returns T, which is not zeroed below the blocks, Z with the transformations (None if `z` is), and converged (...).
    Entries should be of about 1.

    H and Z are stored side by side and transposed, so that the longer of the two slices of a step is contiguous.
    """
    import jax.numpy as jnp
    from jax import lax

    n, is_real = h.shape[-1], not jnp.iscomplexobj(h)
    if n == 1:
        return h, z, jnp.ones(h.shape[:-2], bool)
    # A real step spans three rows, the last one only two: a row and a column of zeros follow.
    rows = n + 1 if is_real else n
    margin = [(0, 0)] * (h.ndim - 2)
    state = jnp.pad(jnp.swapaxes(h, -1, -2), [*margin, (0, rows - n), (0, rows - n)])
    if z is not None:
        z = jnp.pad(jnp.swapaxes(z, -1, -2), [*margin, (0, rows - n), (0, 0)])
        state = jnp.concatenate([state, z], -1)
    column, row = jnp.arange(rows)[:, None], jnp.arange(state.shape[-1])[None, :]
    most = _SWEEPS_PER_ROW * max(10, n)

    def proceed(loop: tuple[Any, ...]) -> Any:
        _, end, sweeps = loop
        return jnp.any((end > 0) & (sweeps <= most))

    def run(loop: tuple[Any, ...]) -> tuple[Any, ...]:
        state, end, sweeps = loop
        begin = _active_begin(state, n, end)
        apart = begin >= (end - 1 if is_real else end)
        at = begin[..., None, None]
        below = (row > column + 1) & (row < rows) | (row == at) & (column == at - 1)
        state = jnp.where(below, 0, state)
        sweeps = jnp.where(apart, 0, sweeps + 1)
        state = (_double_shift_sweep if is_real else _single_shift_sweep)(state, n, begin, end, sweeps, ~apart)
        return state, jnp.where(apart, begin - 1, end), sweeps

    counts = jnp.zeros(h.shape[:-2], np.int32)
    state, end, _ = lax.while_loop(proceed, run, (state, counts + (n - 1), counts))
    t = jnp.swapaxes(state[..., :n, :n], -1, -2)
    return t, None if z is None else jnp.swapaxes(state[..., :n, rows:], -1, -2), end <= 0


def _diagonals(state: Any, n: int) -> tuple[Any, Any, Any]:
    """The diagonal of H, the entries below it, and those above it, each (..., n); the last two end with a zero."""
    import jax.numpy as jnp

    # The matrix is transposed here: entries below the diagonal are above it.
    h = state[..., :n, :]
    margin = [(0, 0)] * (h.ndim - 2) + [(0, 1)]
    return diagonal(h), jnp.pad(diagonal(h, 1), margin), jnp.pad(diagonal(h, -1), margin)


def _later(x: Any, places: int = 1) -> Any:
    """Entry m + places at m; zeros at the end (or, for negative places, at the beginning)."""
    import jax.numpy as jnp

    n = x.shape[-1]
    zeros = jnp.zeros_like(x[..., : min(abs(places), n)])
    return jnp.concatenate([x[..., places:], zeros] if places > 0 else [zeros, x[..., :places]], -1)[..., :n]


def _size(x: Any) -> Any:
    """|Re x| + |Im x| of each entry (LAPACK's cabs1)."""
    import jax.numpy as jnp

    return jnp.abs(x.real) + jnp.abs(x.imag) if jnp.iscomplexobj(x) else jnp.abs(x)


def _active_begin(state: Any, n: int, end: Any) -> Any:
    """The first row of the block that ends with row `end`: the entry before it below the diagonal is negligible.

    The criterion of Ahues and Tisseur (A new deflation criterion for the QR algorithm, 1997).
    """
    import jax.numpy as jnp

    d, low, up = _diagonals(state, n)
    limits = np.finfo(d.dtype)
    ulp, least = float(limits.eps), float(limits.tiny) * (n / float(limits.eps))
    following, size = _later(d), jnp.abs(low)
    beside = _size(d) + _size(following)
    beside = jnp.where(beside == 0, _later(size, -1) + _later(size), beside)
    apart = _size(d - following)
    ab, ba = jnp.maximum(size, _size(up)), jnp.minimum(size, _size(up))
    aa, bb = jnp.maximum(_size(following), apart), jnp.minimum(_size(following), apart)
    total = jnp.where(aa + ab == 0, 1, aa + ab)
    refined = ba * (ab / total) <= jnp.maximum(least, ulp * (bb * (aa / total)))
    small = (size <= least) | ((size <= ulp * beside) & refined)
    begins = jnp.arange(1, n + 1, dtype=np.int32)
    return jnp.max(jnp.where(small & (begins <= end[..., None]), begins, 0), -1)


def _taken(x: Any, *places: Any) -> list[Any]:
    """The entries of x (..., m) at places (...)."""
    import jax.numpy as jnp

    index = jnp.clip(jnp.stack(places, -1), 0, x.shape[-1] - 1)
    found = jnp.take_along_axis(x, index, -1, mode="promise_in_bounds")
    return [found[..., i] for i in range(len(places))]


def _last_candidate(good: Any, first: Any, last: Any) -> Any:
    """The last place from `first` to `last` where `good` (..., n) holds; `first` if there is none."""
    import jax.numpy as jnp

    places = jnp.arange(good.shape[-1], dtype=np.int32)
    inside = (places > first[..., None]) & (places <= last[..., None])
    return jnp.max(jnp.where(good & inside, places, first[..., None]), -1)


def _double_shift_sweep(state: Any, n: int, begin: Any, end: Any, sweeps: Any, active: Any) -> Any:
    """Francis's step for real matrices, with both eigenvalues of the last 2 x 2 block, where `active`."""
    import jax.numpy as jnp

    d, low, up = _diagonals(state, n)
    entries = jnp.concatenate([d, low, up], -1)
    h11, h21, h12, h22, before, at_begin, below_begin, next_below = _taken(
        entries,
        *(end - 1, n + end - 1, 2 * n + end - 1, end, n + end - 2),
        *(begin, n + begin, n + begin + 1),
    )
    from_end = sweeps % (2 * _EXCEPTIONAL_EVERY) == 0
    exceptional = sweeps % _EXCEPTIONAL_EVERY == 0
    size = jnp.where(from_end, jnp.abs(h21) + jnp.abs(before), jnp.abs(below_begin) + jnp.abs(next_below))
    about = _EXCEPTIONAL_DIAGONAL * size + jnp.where(from_end, h22, at_begin)
    h11, h22 = jnp.where(exceptional, about, h11), jnp.where(exceptional, about, h22)
    h21, h12 = jnp.where(exceptional, size, h21), jnp.where(exceptional, _EXCEPTIONAL_ABOVE * size, h12)

    scale = jnp.abs(h11) + jnp.abs(h12) + jnp.abs(h21) + jnp.abs(h22)
    inverse = 1 / jnp.where(scale == 0, 1, scale)
    h11, h12, h21, h22 = h11 * inverse, h12 * inverse, h21 * inverse, h22 * inverse
    mean = (h11 + h22) / 2
    determinant = (h11 - mean) * (h22 - mean) - h12 * h21
    root = jnp.sqrt(jnp.abs(determinant))
    upper, lower = mean + root, mean - root
    # For two real eigenvalues use twice the one nearer to the last entry.
    nearer = jnp.where(jnp.abs(upper - h22) <= jnp.abs(lower - h22), upper, lower)
    shift = (jnp.where(determinant >= 0, mean, nearer) * scale)[..., None]
    turn = (jnp.where(determinant >= 0, root, 0) * scale)[..., None]

    # The sweep may start where two consecutive subdiagonal entries are small.
    following, below = _later(d), _later(low)
    total = jnp.abs(d - shift) + jnp.abs(turn) + jnp.abs(low)
    total = jnp.where(total == 0, 1, total)
    ratio = low / total
    first = ratio * up + (d - shift) * ((d - shift) / total) + turn * (turn / total)
    second, third = ratio * (d + following - 2 * shift), ratio * below
    largest = jnp.abs(first) + jnp.abs(second) + jnp.abs(third)
    inverse = 1 / jnp.where(largest == 0, 1, largest)
    first, second, third = first * inverse, second * inverse, third * inverse
    around = jnp.abs(_later(d, -1)) + jnp.abs(d) + jnp.abs(following)
    coupling = jnp.abs(_later(low, -1)) * (jnp.abs(second) + jnp.abs(third))
    good = coupling <= float(np.finfo(d.dtype).eps) * jnp.abs(first) * around
    start = _last_candidate(good, begin, end - 2)
    vector = jnp.stack(_taken(jnp.concatenate([first, second, third], -1), start, n + start, 2 * n + start), -1)

    return _chase(state, vector, _real_reflector, start, end, active)


def _real_reflector(vector: Any) -> Any:
    """The symmetric matrix (..., 3, 3) that makes the second and third entry of (..., 3) zero."""
    import jax.numpy as jnp

    scale = jnp.max(jnp.abs(vector), -1, keepdims=True)
    vector = vector / jnp.where(scale == 0, 1, scale)
    a, b, c = (vector[..., i] for i in range(3))
    nothing = (b == 0) & (c == 0)
    beta = -jnp.copysign(jnp.sqrt(a * a + b * b + c * c), a)
    tau = jnp.where(nothing, 0, (beta - a) / jnp.where(nothing, 1, beta))
    length = jnp.where(nothing, 1, a - beta)
    v = jnp.stack([jnp.ones_like(a), b / length, c / length], -1)
    return jnp.eye(3, dtype=v.dtype) - tau[..., None, None] * v[..., :, None] * v[..., None, :]


def _single_shift_sweep(state: Any, n: int, begin: Any, end: Any, sweeps: Any, active: Any) -> Any:
    """The complex step with Wilkinson's shift, where `active`."""
    import jax.numpy as jnp

    d, low, up = _diagonals(state, n)
    entries = jnp.concatenate([d, low, up], -1)
    h11, h21, h12, h22, at_begin, below_begin = _taken(
        entries, end - 1, n + end - 1, 2 * n + end - 1, end, begin, n + begin
    )
    from_end = sweeps % (2 * _EXCEPTIONAL_EVERY) == 0
    exceptional = sweeps % _EXCEPTIONAL_EVERY == 0
    size = _EXCEPTIONAL_DIAGONAL * jnp.abs(jnp.where(from_end, h21, below_begin))
    about = size + jnp.where(from_end, h22, at_begin)
    product = jnp.sqrt(h12) * jnp.sqrt(h21)
    half = (h11 - h22) / 2
    scale = jnp.maximum(_size(product), _size(half))
    scale = jnp.where(scale == 0, 1, scale)
    x, u = half / scale, product / scale
    y = jnp.sqrt(x * x + u * u)
    y = jnp.where(x.real * y.real + x.imag * y.imag < 0, -y, y)
    nothing = product == 0
    wilkinson = h22 - jnp.where(nothing, 0, product * (u / jnp.where(nothing, 1, x + y)))
    shift = jnp.where(exceptional, about, wilkinson)[..., None]

    total = _size(d - shift) + jnp.abs(low)
    total = jnp.where(total == 0, 1, total)
    first, second = (d - shift) / total, low / total
    around = _size(first) * (_size(d) + _size(_later(d)))
    good = jnp.abs(_later(low, -1)) * jnp.abs(second) <= float(np.finfo(d.dtype).eps) * around
    start = _last_candidate(good, begin, end - 1)
    vector = jnp.stack(_taken(jnp.concatenate([first, second], -1), start, n + start), -1)
    return _chase(state, vector, _complex_reflector, start, end, active)


def _complex_reflector(vector: Any) -> Any:
    """The matrix (..., 2, 2) of which the adjoint makes (..., 2) real and its second entry zero."""
    import jax.numpy as jnp

    scale = jnp.max(_size(vector), -1, keepdims=True)
    vector = vector / jnp.where(scale == 0, 1, scale)
    a, b = vector[..., 0], vector[..., 1]
    nothing = (b == 0) & (a.imag == 0)
    norm = jnp.sqrt(a.real * a.real + a.imag * a.imag + b.real * b.real + b.imag * b.imag)
    beta = -jnp.copysign(norm, a.real)
    tau = jnp.where(nothing, 0, (beta - a) / jnp.where(nothing, 1, beta))
    v = jnp.stack([jnp.ones_like(a), b / jnp.where(nothing, 1, a - beta)], -1)
    return jnp.eye(2, dtype=v.dtype) - tau[..., None, None] * v[..., :, None] * v.conj()[..., None, :]


def _chase(state: Any, vector: Any, reflector: Any, start: Any, end: Any, active: Any) -> Any:
    """A sweep of similarity transformations, each of two or three neighbouring rows, from `start` to before `end`.

    `reflector(vector)` is a unitary W (..., w, w) such that W^H vector (..., w) is zero after its first entry. Each
    vector has the entries of the step's rows in the column to their left; the first one is given.
    """
    import jax.numpy as jnp
    from jax import lax

    width = vector.shape[-1]
    rows = state.shape[-2]
    identity = jnp.eye(width, dtype=state.dtype)
    first = vector

    def step(k: Any, loop: tuple[Any, Any]) -> tuple[Any, Any]:
        state, vector = loop
        w = reflector(jnp.where((k == start)[..., None], first, vector))
        w = jnp.where((active & (k >= start) & (k < end))[..., None, None], w, identity)
        left = lax.dynamic_slice_in_dim(state, k, width, -1)
        state = lax.dynamic_update_slice_in_dim(state, batched_dot(left, w.conj()), k, -1)
        right = batched_dot(jnp.swapaxes(w, -1, -2), lax.dynamic_slice_in_dim(state, k, width, -2))
        state = lax.dynamic_update_slice_in_dim(state, right, k, -2)
        following = lax.dynamic_slice_in_dim(right[..., 0, :rows], k + 1, width, -1)
        return state, following

    lowest = jnp.min(jnp.where(active, start, rows), initial=rows)
    highest = jnp.max(jnp.where(active, end, 0), initial=0)
    state, _ = lax.fori_loop(lowest, highest, step, (state, vector))
    return state
