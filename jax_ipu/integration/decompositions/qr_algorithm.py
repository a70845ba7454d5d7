"""The QR algorithm for Hessenberg matrices, with LAPACK's lahqr's shifts and deflation, and its signs if real.

All matrices of a batch go through the steps of a sweep together: a step is small products at the same place in every
matrix, and the identity for matrices whose sweep does not include that place. The batch is one dimension here, and the
last one, so that an operation on small matrices has long rows. Only of few matrices H and Z are a stack, with the batch
as their first dimension.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from jax_ipu.integration.decompositions.householder import batched_dot, diagonal

# From this many real or complex matrices on, sums of products of rows take less time than a product for each matrix.
_LEAST_REAL_ROW, _LEAST_COMPLEX_ROW = 8, 128
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
    batch = h.shape[:-2]
    if n == 1:
        return h, z, jnp.ones(batch, bool)
    matrices = math.prod(batch)
    # A real step spans three rows, the last one only two: a row and a column of zeros follow.
    rows = n + 1 if is_real else n
    is_stack = matrices < (_LEAST_REAL_ROW if is_real else _LEAST_COMPLEX_ROW)
    form = _Form(n, is_stack)
    state = form.padded(form.transposed(h), rows, rows)
    if z is not None:
        state = jnp.concatenate([state, form.padded(form.transposed(z), rows, n)], form.axes[1])
    column = form.stored(jnp.arange(rows)[:, None, None])
    row = form.stored(jnp.arange(state.shape[form.axes[1]])[None, :, None])
    most = _SWEEPS_PER_ROW * max(10, n)

    def proceed(loop: tuple[Any, ...]) -> Any:
        _, end, sweeps = loop
        return jnp.any((end > 0) & (sweeps <= most))

    def run(loop: tuple[Any, ...]) -> tuple[Any, ...]:
        state, end, sweeps = loop
        begin = _active_begin(state, form, end)
        apart = begin >= (end - 1 if is_real else end)
        at = form.stored(begin[None, None])
        below = (row > column + 1) & (row < rows) | (row == at) & (column == at - 1)
        state = jnp.where(below, 0, state)
        sweeps = jnp.where(apart, 0, sweeps + 1)
        state = (_double_shift_sweep if is_real else _single_shift_sweep)(state, form, begin, end, sweeps, ~apart)
        return state, jnp.where(apart, begin - 1, end), sweeps

    counts = jnp.zeros(matrices, np.int32)
    state, end, _ = lax.while_loop(proceed, run, (state, counts + (n - 1), counts))
    state = form.as_stack(state)[:, :n]
    t, z = (
        None if x is None else jnp.reshape(jnp.swapaxes(x, 1, 2), (*batch, n, n))
        for x in (state[:, :, :n], None if z is None else state[:, :, rows:])
    )
    return t, z, jnp.reshape(end <= 0, batch)


class _Form(NamedTuple):
    """The rows of H, and whether the matrices are a stack."""

    n: int
    is_stack: bool

    def stored(self, x: Any) -> Any:
        """x (rows, columns, matrices) as it is stored."""
        import jax.numpy as jnp

        return jnp.moveaxis(x, -1, 0) if self.is_stack else x

    def as_stack(self, x: Any) -> Any:
        """The inverse, with the batch as the first dimension."""
        import jax.numpy as jnp

        return x if self.is_stack else jnp.moveaxis(x, -1, 0)

    def transposed(self, x: Any) -> Any:
        """The stored transposed matrices of x (..., n, n)."""
        import jax.numpy as jnp

        x = jnp.swapaxes(jnp.reshape(x, (-1, self.n, self.n)), 1, 2)
        return x if self.is_stack else jnp.moveaxis(x, 0, -1)

    def padded(self, x: Any, rows: int, columns: int) -> Any:
        """Stored matrices (n, n) with zeros behind their rows and columns."""
        import jax.numpy as jnp

        margin = [(0, 0)] * 3
        for axis, extent in zip(self.axes, (rows, columns), strict=True):
            margin[axis] = (0, extent - self.n)
        return jnp.pad(x, margin)

    @property
    def axes(self) -> tuple[int, int]:
        """The dimensions of rows and columns."""
        return (1, 2) if self.is_stack else (0, 1)


def _diagonals(state: Any, form: _Form) -> tuple[Any, Any, Any]:
    """The diagonal of H, the entries below it, and those above it, each (n, matrices); the last two end with zeros."""
    import jax.numpy as jnp

    n, margin = form.n, [(0, 1), (0, 0)]
    if form.is_stack:
        h = state[:, :n]
        own, low, up = (diagonal(h, offset).T for offset in (0, 1, -1))
    else:
        width = state.shape[1]
        flat = jnp.reshape(state[:n], (n * width, -1))
        step = width + 1
        own, low, up = flat[: (n - 1) * step + 1 : step], flat[1 : (n - 1) * step : step], flat[width::step][: n - 1]
    # The matrix is transposed here: entries below the diagonal are above it.
    return own, jnp.pad(low, margin), jnp.pad(up, margin)


def _later(x: Any, places: int = 1) -> Any:
    """Entry m + places at m; zeros at the end (or, for negative places, at the beginning)."""
    import jax.numpy as jnp

    n = x.shape[0]
    zeros = jnp.zeros_like(x[: min(abs(places), n)])
    return jnp.concatenate([x[places:], zeros] if places > 0 else [zeros, x[:places]])[:n]


def _size(x: Any) -> Any:
    """|Re x| + |Im x| of each entry (LAPACK's cabs1)."""
    import jax.numpy as jnp

    return jnp.abs(x.real) + jnp.abs(x.imag) if jnp.iscomplexobj(x) else jnp.abs(x)


def _divided(x: Any, size: Any) -> Any:
    """x over the real `size`: in complex numbers it would take a division of two of them."""
    from jax import lax

    return lax.complex(x.real / size, x.imag / size)


def _active_begin(state: Any, form: _Form, end: Any) -> Any:
    """The first row of the block that ends with row `end`: the entry before it below the diagonal is negligible.

    The criterion of Ahues and Tisseur (A new deflation criterion for the QR algorithm, 1997).
    """
    import jax.numpy as jnp

    n = form.n
    d, low, up = _diagonals(state, form)
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
    begins = jnp.arange(1, n + 1, dtype=np.int32)[:, None]
    return jnp.max(jnp.where(small & (begins <= end), begins, 0), 0)


def _taken(x: Any, *places: Any) -> list[Any]:
    """The entries of x (m, matrices) at places (matrices)."""
    import jax.numpy as jnp

    index = jnp.clip(jnp.stack(places), 0, x.shape[0] - 1)
    return list(jnp.take_along_axis(x, index, 0, mode="promise_in_bounds"))


def _last_candidate(good: Any, first: Any, last: Any) -> Any:
    """The last place from `first` to `last` where `good` (n, matrices) holds; `first` if there is none."""
    import jax.numpy as jnp

    places = jnp.arange(good.shape[0], dtype=np.int32)[:, None]
    inside = (places > first) & (places <= last)
    return jnp.max(jnp.where(good & inside, places, first), 0)


def _double_shift_sweep(state: Any, form: _Form, begin: Any, end: Any, sweeps: Any, active: Any) -> Any:
    """Francis's step for real matrices, with both eigenvalues of the last 2 x 2 block, where `active`."""
    import jax.numpy as jnp

    n = form.n
    d, low, up = _diagonals(state, form)
    entries = jnp.concatenate([d, low, up])
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
    shift = jnp.where(determinant >= 0, mean, nearer) * scale
    turn = jnp.where(determinant >= 0, root, 0) * scale

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
    vector = jnp.stack(_taken(jnp.concatenate([first, second, third]), start, n + start, 2 * n + start))
    return _chase(state, form, vector, _real_reflector, start, end, active)


def _real_reflector(vector: Any) -> Any:
    """The symmetric matrices (3, 3, matrices) that make the second and third entry of (3, matrices) zero."""
    import jax.numpy as jnp

    scale = jnp.max(jnp.abs(vector), 0)
    a, b, c = vector / jnp.where(scale == 0, 1, scale)
    nothing = (b == 0) & (c == 0)
    beta = -jnp.copysign(jnp.sqrt(a * a + b * b + c * c), a)
    tau = jnp.where(nothing, 0, (beta - a) / jnp.where(nothing, 1, beta))
    length = jnp.where(nothing, 1, a - beta)
    v = jnp.stack([jnp.ones_like(a), b / length, c / length])
    return jnp.eye(3, dtype=v.dtype)[..., None] - tau * v[:, None] * v[None, :]


def _single_shift_sweep(state: Any, form: _Form, begin: Any, end: Any, sweeps: Any, active: Any) -> Any:
    """The complex step with Wilkinson's shift, where `active`."""
    import jax.numpy as jnp

    n = form.n
    d, low, up = _diagonals(state, form)
    entries = jnp.concatenate([d, low, up])
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
    x, u = _divided(half, scale), _divided(product, scale)
    y = jnp.sqrt(x * x + u * u)
    y = jnp.where(x.real * y.real + x.imag * y.imag < 0, -y, y)
    nothing = product == 0
    wilkinson = h22 - jnp.where(nothing, 0, product * (u / jnp.where(nothing, 1, x + y)))
    shift = jnp.where(exceptional, about, wilkinson)

    total = _size(d - shift) + jnp.abs(low)
    total = jnp.where(total == 0, 1, total)
    first, second = _divided(d - shift, total), _divided(low, total)
    around = _size(first) * (_size(d) + _size(_later(d)))
    good = jnp.abs(_later(low, -1)) * jnp.abs(second) <= float(np.finfo(d.dtype).eps) * around
    start = _last_candidate(good, begin, end - 1)
    vector = jnp.stack(_taken(jnp.concatenate([first, second]), start, n + start))
    return _chase(state, form, vector, _complex_reflector, start, end, active)


def _complex_reflector(vector: Any) -> Any:
    """The matrices (2, 2, matrices) of which the adjoints make (2, matrices) real and its second entry zero."""
    import jax.numpy as jnp

    scale = jnp.max(_size(vector), 0)
    a, b = _divided(vector, jnp.where(scale == 0, 1, scale))
    nothing = (b == 0) & (a.imag == 0)
    norm = jnp.sqrt(a.real * a.real + a.imag * a.imag + b.real * b.real + b.imag * b.imag)
    beta = -jnp.copysign(norm, a.real)
    tau = jnp.where(nothing, 0, _divided(beta - a, jnp.where(nothing, 1, beta)))
    v = jnp.stack([jnp.ones_like(a), b / jnp.where(nothing, 1, a - beta)])
    return jnp.eye(2, dtype=v.dtype)[..., None] - tau * v[:, None] * v.conj()[None, :]


def _chase(state: Any, form: _Form, vector: Any, reflector: Any, start: Any, end: Any, active: Any) -> Any:
    """A sweep of similarity transformations, each of two or three neighbouring rows, from `start` to before `end`.

    `reflector(vector)` is unitary matrices W (w, w, matrices) such that W^H vector (w, matrices) is zero after its
    first entry. Each vector has the entries of the step's rows in the column to their left; the first one is given.
    """
    import jax.numpy as jnp
    from jax import lax

    row, column = form.axes
    width, rows = vector.shape[0], state.shape[row]
    identity = jnp.eye(width, dtype=state.dtype)[..., None]
    first = vector
    products = batched_dot if form.is_stack else _products

    def step(k: Any, loop: tuple[Any, Any]) -> tuple[Any, Any]:
        state, vector = loop
        w = reflector(jnp.where(k == start, first, vector))
        w = form.stored(jnp.where(active & (k >= start) & (k < end), w, identity))
        left = lax.dynamic_slice_in_dim(state, k, width, column)
        state = lax.dynamic_update_slice_in_dim(state, products(left, w.conj()), k, column)
        right = products(jnp.swapaxes(w, row, column), lax.dynamic_slice_in_dim(state, k, width, row))
        state = lax.dynamic_update_slice_in_dim(state, right, k, row)
        beside = lax.index_in_dim(right, 0, row, keepdims=False)
        following = lax.dynamic_slice_in_dim(lax.slice_in_dim(beside, 0, rows, axis=row), k + 1, width, row)
        return state, following.T if form.is_stack else following

    lowest = jnp.min(jnp.where(active, start, rows), initial=rows)
    highest = jnp.max(jnp.where(active, end, 0), initial=0)
    state, _ = lax.fori_loop(lowest, highest, step, (state, vector))
    return state


def _products(a: Any, b: Any) -> Any:
    """The products (m, n, matrices) of a (m, k, matrices) and b (k, n, matrices), for small k."""
    return sum(a[:, i, None] * b[None, i] for i in range(a.shape[1]))
