"""Batches of more small matrices than tiles: they fit, at about equal cycles for each, and have right values."""

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest

import jax_ipu
from support.matrices import matrix
from support.modes import run_ipu

MODES = [("fast", 2), ("tile", 2), ("codelets", 2)]


def _definite(a):
    return a @ jnp.swapaxes(a.conj(), -1, -2) + jnp.eye(a.shape[-1], dtype=a.dtype)


def _rebuilt(factors, a):
    return jnp.abs(factors - a).max()


# Each of matrices [batch, n, n]: what is small if the decomposition is right.
ERRORS = {
    "inv": lambda a: _rebuilt(jnp.linalg.inv(a) @ a, jnp.eye(a.shape[-1])),
    "solve": lambda a: _rebuilt(a @ jnp.linalg.solve(a, a[..., :1] * 2), a[..., :1] * 2),
    "lu": lambda a: (lambda p, low, up: _rebuilt(p @ low @ up, a))(
        *jnp.vectorize(jsl.lu, signature="(m,n)->(m,m),(m,n),(m,n)")(a)
    ),
    "det": lambda a: _rebuilt(jnp.linalg.det(a @ a) / jnp.linalg.det(a) ** 2, 1),
    "qr": lambda a: (lambda q, r: _rebuilt(q @ r, a) + _rebuilt(q @ q.mT.conj(), jnp.eye(a.shape[-1])))(
        *jnp.linalg.qr(a)
    ),
    "svd": lambda a: (lambda u, s, v: _rebuilt((u * s[..., None, :]) @ v, a))(*jnp.linalg.svd(a)),
    "eigh": lambda a: (lambda w, v: _rebuilt((v * w[..., None, :]) @ v.mT.conj(), _definite(a)))(
        *jnp.linalg.eigh(_definite(a))
    ),
    "cholesky": lambda a: (lambda low: _rebuilt(low @ low.mT.conj(), _definite(a)))(jnp.linalg.cholesky(_definite(a))),
}


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode[0])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("name", ERRORS)
def test_decompositions(name, dtype, mode):
    shape = (20, 3, 3) if dtype == "float32" else (3, 5, 4, 4)
    a = matrix(shape, dtype) + 2 * np.eye(shape[-1], dtype=dtype)
    (error,) = run_ipu(ERRORS[name], (a,), mode)
    assert error < 2e-3


# Functions of matrices, with how many cycles a matrix may take at millions beside what it takes at a hundred thousand.
FUNCTIONS = {
    "inv": jnp.linalg.inv,
    "solve": lambda a: jnp.linalg.solve(a, a[..., :1]),
    "lu": lambda a: jax.lax.linalg.lu(a)[0],
    "slogdet": lambda a: jnp.linalg.slogdet(a)[1],
    "qr": jnp.linalg.qr,
    "eigh": jnp.linalg.eigh,
    "eigvalsh": jnp.linalg.eigvalsh,
    "svdvals": lambda a: jnp.linalg.svd(a, compute_uv=False),
    "cholesky": jnp.linalg.cholesky,
    "triangular_solve": lambda a: jsl.solve_triangular(a, a[..., :1]),
}


@pytest.mark.parametrize("size", [3, 4, 8])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_millions_fit(name, size):
    per_matrix = []
    for count in (100_000, 30_000_000 // size**2):
        estimate = jax_ipu.estimate(FUNCTIONS[name], jax.ShapeDtypeStruct((count, size, size), jnp.float32))
        assert estimate.fits
        per_matrix.append(estimate.cycles / count)
    assert per_matrix[1] < 2 * per_matrix[0]


# Pairs of counts of matrices on 1,472 tiles: the last that tiles share evenly, and one more.
@pytest.mark.parametrize("size", [4, 20])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_matrix_more(name, size):
    """A matrix more than tiles takes twice the cycles at most, as two on a tile do; also where there are three."""
    counts = (1472, 1473, 2944, 2945, 8832, 8833)
    arrays = [jax.ShapeDtypeStruct((count, size, size), jnp.float32) for count in counts]
    cycles = [jax_ipu.estimate(FUNCTIONS[name], array).cycles for array in arrays]
    for fewer, more in zip(cycles[::2], cycles[1::2], strict=True):
        assert fewer * 0.9 <= more <= fewer * 2.1


@pytest.mark.parametrize("mode", MODES[:2], ids=lambda mode: mode[0])
@pytest.mark.parametrize("count", [3, 5, 20])
@pytest.mark.parametrize("size", [3, 18])
def test_shared_by_workers(count, size, mode):
    """Two tiles with two to ten matrices: each is right, whether workers share it or compute whole ones."""
    a = matrix((count, size, size), "float32") + 2 * np.eye(size, dtype="float32")
    # Products of determinants are not exact for large matrices.
    errors = run_ipu(lambda a: [error(a) for name, error in ERRORS.items() if name != "det"], (a,), mode)
    assert max(errors) < 2e-3


@pytest.mark.parametrize("name", ["eigh", "eigvalsh", "svdvals"])
def test_fewer_matrices_than_tiles(name):
    """Each tile has columns of one matrix, not of several, whose sweeps it would repeat one after the other."""
    cycles = [
        jax_ipu.estimate(FUNCTIONS[name], jax.ShapeDtypeStruct((count, 20, 20), jnp.float32)).cycles
        for count in (1000, 1472)
    ]
    assert cycles[0] < 1.1 * cycles[1]
