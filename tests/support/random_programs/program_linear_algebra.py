"""Solvers of random programs."""

from __future__ import annotations

from support.programs import COMPLEX, Drawer, Step


def solve(d: Drawer) -> Step:
    """Factors of well-conditioned matrices, and solutions of triangular systems with them."""
    v = d.value(("float32", "float64", *COMPLEX), finite=True, min_rank=1)
    n = d.integer(1, 6)
    batch = d.pick(((), (), (2,)))
    small = f"(lambda x: x / (1 + lax.abs(x)) / {n})(fit({v.name}, {(*batch, n, n)}))"
    if d.flag():
        text = f"lax.linalg.cholesky((lambda a: a + jnp.swapaxes(a.conj(), -1, -2) + 4 * jnp.eye({n}))({small}).astype"
        return Step(f"{text}('{v.dtype}'), symmetrize_input=False)", 3, 4 * n * v.error, 8 * n, inexact=True)
    w = d.value((v.dtype,), finite=True)
    left, lower, transposed, conjugated, unit = (d.flag() for _ in range(5))
    shape = (*batch, n, d.integer(1, 3)) if left else (*batch, d.integer(1, 3), n)
    text = (
        f"lax.linalg.triangular_solve(({small} + 2 * jnp.eye({n})).astype('{v.dtype}'), fit({w.name}, {shape}), "
        f"left_side={left}, lower={lower}, transpose_a={transposed}, conjugate_a={conjugated}, unit_diagonal={unit})"
    )
    grown = 2.0**n
    return Step(text, grown * w.bound, grown * w.error + grown**2 * 2 * v.error * w.bound, 8 * n, inexact=True)


OPERATIONS = (solve,)
