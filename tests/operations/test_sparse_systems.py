"""Sparse systems of equations: values, gradients, and where they are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from jax.experimental.sparse.linalg import spsolve

from jax_ipu import compiler
from support import modes
from support.as_on_cpu import check_as_on_cpu, run, tolerance
from support.matrices import matrix
from support.processes import output

DTYPES = ("float32", "complex64", "float64", "complex128")


def sparse_system(n, dtype):
    """Returns (data, indices, indptr, b): a row of one entry, an entry in two parts, an invalid entry past the end."""
    random = np.random.default_rng(n)
    dense = np.where(random.uniform(size=(n, n)) < 4 / n, matrix((n, n), dtype), 0) + 3 * np.eye(n, dtype=dtype)
    dense[n // 2] = np.eye(n)[n // 2]
    stored = scipy.sparse.csr_array(dense.astype(dtype))
    data, indices, indptr = stored.data.copy(), stored.indices, stored.indptr
    data[0] /= 2
    data, indices = np.concatenate([data[:1], data, data[:1]]), np.concatenate([indices[:1], indices, indices[:1]])
    return data, indices, np.concatenate([indptr[:1], indptr[1:] + 1]), matrix((n,), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 37, 150])
def test_sparse_systems(n, dtype):
    data, indices, indptr, b = sparse_system(n, dtype)
    for reorder in (0, 1):
        x = run(lambda *args, reorder=reorder: spsolve(*args, tol=1e-8, reorder=reorder), data, indices, indptr, b)
        expected = scipy.sparse.linalg.spsolve(
            scipy.sparse.csr_array((data[:-1], indices[:-1], indptr), shape=(n, n)).tocsc(), b
        )
        assert x.dtype == b.dtype
        np.testing.assert_allclose(x, expected, rtol=20 * tolerance(dtype), atol=20 * tolerance(dtype))


def test_gradients_of_sparse_systems():
    # SciPy, which solves on the CPU, does not accept repeated entries from JAX.
    stored = scipy.sparse.csr_array(np.triu(np.tril(matrix((20, 20), "float32"), 2), -1) + 4 * np.eye(20, dtype="f4"))

    def loss(data, b):
        return jnp.sum(spsolve(data, stored.indices, stored.indptr, b) ** 2)

    check_as_on_cpu(jax.grad(loss, argnums=(0, 1)), stored.data, matrix((20,), "float32"))


@pytest.mark.parametrize("entries", [[(0, 0)], [(0, 0), (0, 1), (1, 0), (1, 1)]], ids=["no row", "equal rows"])
def test_singular_sparse_systems_are_nan(entries):
    stored = scipy.sparse.csr_array((np.ones(len(entries), np.float32), np.transpose(entries)), shape=(2, 2))
    assert np.isnan(run(spsolve, stored.data, stored.indices, stored.indptr, np.ones(2, np.float32))).all()


def test_sparse_systems_whose_dense_matrix_does_not_fit_are_refused():
    n = 1000
    diagonal = np.ones(n, np.float32), np.arange(n, dtype=np.int32), np.arange(n + 1, dtype=np.int32)
    program, _ = modes.lower(spsolve, *diagonal, np.ones(n, np.float32))
    with pytest.raises(compiler.CompileError, match=r"out of IPU memory: .* f32\[1000,1000\]"):
        compiler.compile(program, "mlir", b"", "ipu2:8")


def test_sparse_systems_of_several_ipus():
    data, indices, indptr, b = sparse_system(64, "float32")
    mesh = jax.make_mesh((2,), ("x",), devices=jax.devices("ipu")[:2])
    where = jax.NamedSharding(mesh, jax.P("x"))
    got = jax.jit(spsolve)(
        *(jax.device_put(x, jax.NamedSharding(mesh, jax.P())) for x in (data, indices, indptr)),
        jax.device_put(b, where),
    )
    np.testing.assert_allclose(got, run(spsolve, data, indices, indptr, b), rtol=1e-5, atol=1e-5)


def test_lowering_of_sparse_systems_follows_a_late_import():
    program = (
        "import jax, sys; ipu = jax.devices('ipu')[0]; assert 'jax.experimental.sparse.linalg' not in sys.modules;"
        "import numpy as np; from jax.experimental.sparse.linalg import spsolve;"
        "a = jax.device_put((np.float32([2]), np.int32([0]), np.int32([0, 1]), np.float32([6])), ipu);"
        "assert jax.jit(spsolve)(*a)[0] == 3"
    )
    output(program)
