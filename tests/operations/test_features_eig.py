"""Eigenvalues and Schur forms of general matrices, against their definitions and LAPACK on the CPU."""

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
import scipy.linalg
from jax import lax
from scipy.optimize import linear_sum_assignment

from jax_ipu import estimate
from jax_ipu.integration.decompositions import native, qr_algorithm
from support.modes import each_mode, run_ipu

DTYPES = ("float32", "complex64", "float64", "complex128")
ipu, cpu = jax.devices("ipu")[0], jax.devices("cpu")[0]


def matrix(shape, dtype="float64", seed=0):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal(shape)
    return (x + 1j * generator.standard_normal(shape) if dtype.startswith("complex") else x).astype(dtype)


def run(function, *args, device=ipu):
    """Runs on the IPU, with 64-bit types if the arguments have them."""
    with jax.enable_x64(any(a.dtype in (np.float64, np.complex128) for a in args)):
        return jax.tree.map(np.asarray, jax.jit(function)(*jax.device_put(args, device)))


def adjoint(x):
    return np.swapaxes(x.conj(), -1, -2)


def norms(a):
    """Returns the norms of matrices (..., n, n), 1 for zero, in a type that can hold their squares."""
    size = np.linalg.norm(a.astype(np.complex128), axis=(-2, -1), keepdims=True)
    return np.where(size == 0, 1, size)


def rounding_errors(x, dtype):
    return np.abs(x).max(initial=0) / np.finfo(dtype).eps


def check_eig(a, values, left, right):
    """Checks residuals, in rounding errors of the norm, and the normalisation of LAPACK."""
    size, wide = norms(a), a.astype(np.complex128) / norms(a)
    w = values[..., None, :] / size
    assert values.dtype == left.dtype == right.dtype == np.promote_types(a.dtype, np.complex64)
    assert rounding_errors(wide @ right - right * w, a.dtype) < 20
    assert rounding_errors(adjoint(wide) @ left - left * w.conj(), a.dtype) < 20
    for vectors in (left, right):
        assert rounding_errors(np.linalg.norm(vectors, axis=-2) - 1, a.dtype) < 20
        # One of the components of about the largest size is real.
        lengths = np.abs(vectors)
        largest = lengths > (1 - 10 * np.finfo(a.dtype).eps) * lengths.max(-2, keepdims=True)
        assert (largest & (vectors.imag == 0) & (np.isrealobj(a) | (vectors.real > 0))).any(-2).all()
        if np.isrealobj(a):
            # Pairs are exact conjugates, the one with the positive imaginary part first; other vectors are real.
            second = values.imag < 0
            first = np.roll(second, -1, -1)
            np.testing.assert_array_equal(values[first], values[second].conj())
            columns = np.swapaxes(vectors, -1, -2)
            np.testing.assert_array_equal(columns[first], columns[second].conj())
            assert (columns[values.imag == 0].imag == 0).all() and (values.imag[~first & ~second] == 0).all()


def check_schur(a, t, z):
    """Checks the form of T, that Z is unitary, and Z T Z^H = A, in rounding errors."""
    assert t.dtype == z.dtype == a.dtype
    size, n = norms(a), a.shape[-1]
    wide = z.astype(np.complex128)
    assert rounding_errors(wide @ (t / size) @ adjoint(wide) - a / size, a.dtype) < 30
    assert rounding_errors(wide @ adjoint(wide) - np.eye(n), a.dtype) < 60
    np.testing.assert_array_equal(np.tril(t, -1 if np.iscomplexobj(a) else -2), 0)
    low, up = np.diagonal(t, -1, -2, -1), np.diagonal(t, 1, -2, -1)
    block = low != 0
    assert not (block[..., 1:] & block[..., :-1]).any()
    diagonal = np.diagonal(t, 0, -2, -1)
    np.testing.assert_array_equal(diagonal[..., :-1][block], diagonal[..., 1:][block])
    assert (np.sign(low[block]) * np.sign(up[block]) < 0).all()


def distance(values, expected):
    """Returns the largest distance between two sets of eigenvalues (n,), with the best assignment."""
    apart = np.abs(values[:, None].astype(np.complex128) - expected[None, :])
    return apart[linear_sum_assignment(apart)].max()


def eig_and_schur(a):
    return lax.linalg.eig(a), lax.linalg.schur(a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(1, 1), (2, 2), (3, 3), (2, 3, 7, 7), (3, 50, 4, 4), (2, 16, 16), (2, 17, 17), (40, 40), (0, 4, 4)]
)
def test_random_matrices(shape, dtype):
    a = matrix(shape, dtype)
    (values, left, right), (t, z) = run(eig_and_schur, a)
    check_eig(a, values, left, right)
    check_schur(a, t, z)
    expected = run(jnp.linalg.eigvals, a, device=cpu)
    assert values.shape == expected.shape
    n = shape[-1]
    for got, want in zip(values.reshape(-1, n), expected.reshape(-1, n), strict=False):
        assert distance(got, want) < 1000 * np.finfo(dtype).eps * np.abs(want).max()


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_empty_matrices(dtype):
    a = np.zeros((2, 0, 0), dtype)
    for got, want in zip(*(jax.tree.leaves(run(eig_and_schur, a, device=d)) for d in (ipu, cpu)), strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype


N = 12
ROTATIONS = scipy.linalg.block_diag(*[[[1, k + 1], [-k - 1, 1]] for k in range(N // 2)])
# (matrix, allowed error of the eigenvalues in rounding errors of the norm, or None if they are ill-conditioned).
SPECIAL = {
    "zero": (np.zeros((N, N)), 0),
    "identity": (np.eye(N), 0),
    "triangular": (np.triu(matrix((N, N))), 0),
    "lower triangular": (np.tril(matrix((N, N))), 0),
    "Jordan block": (2 * np.eye(N) + np.diag(np.ones(N - 1), 1), 0),
    "nilpotent": (np.tril(matrix((N, N)), -1), 0),
    "permuted triangular": (np.triu(matrix((N, N)))[::-1, ::-1][:, [*range(1, N), 0]][[*range(1, N), 0]], 0),
    "isolated": (scipy.linalg.block_diag(np.triu(matrix((4, 4))), matrix((N - 4, N - 4), seed=1)), 50),
    "companion": (scipy.linalg.companion(np.poly(np.arange(1, N + 1) / N)), None),
    "cyclic": (np.roll(np.eye(N), 1, 0), 20),
    "rank 1": (np.ones((N, N)), 20),
    "symmetric": (matrix((N, N)) + matrix((N, N)).T, 50),
    "skew": (matrix((N, N)) - matrix((N, N)).T, 50),
    "pairs": (ROTATIONS, 5),
    "defective pairs": (np.kron(np.eye(N // 2), [[1, 2], [-2, 1]]) + np.diag(np.ones(N - 2), 2), 5),
    "Frank": (np.triu(N - np.maximum.outer(np.arange(N), np.arange(N)) * 1.0, -1), None),
    "badly scaled": (matrix((N, N)) * 10.0 ** np.subtract.outer(*2 * [np.linspace(-4, 4, N)]), 1e-3),
    "graded": (matrix((N, N)) * 10.0 ** -np.add.outer(*2 * [np.linspace(0, 4, N)]), 20),
    "huge": (1e30 * matrix((N, N)), 200),
    "tiny": (1e-30 * matrix((N, N)), 200),
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_matrices(dtype):
    for name, (a, bound) in SPECIAL.items():
        a = a.astype(dtype)
        (values, left, right), (t, z) = run(eig_and_schur, a)
        check_eig(a, values, left, right)
        check_schur(a, t, z)
        if bound is not None:
            # In double precision, because JAX's CPU backend loses the scale of huge and tiny float32 matrices.
            expected = np.linalg.eigvals(a.astype(np.promote_types(a.dtype, np.float64)))
            unit = np.finfo(dtype).eps * norms(a).item()
            assert distance(values, expected) <= bound * unit, name


@each_mode
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_in_every_mode(dtype, mode):
    a = matrix((6, 6), dtype)
    values, left, right, t, z = run_ipu(lambda a: (*lax.linalg.eig(a), *lax.linalg.schur(a)), [a], mode)
    check_eig(a, values, left, right)
    check_schur(a, t, z)


@each_mode
def test_batch_in_every_mode(mode):
    a = np.stack([matrix((5, 5), "float32"), np.zeros((5, 5), np.float32), np.full((5, 5), np.nan, np.float32)])
    values, right = run_ipu(jnp.linalg.eig, [a], mode)
    assert rounding_errors(a[:2] @ right[:2] - right[:2] * values[:2, None, :], "float32") < 50
    assert np.isnan(values[2]).all() and np.isnan(right[2]).all()


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_only_what_is_asked_for(dtype):
    a = matrix((9, 9), dtype)
    values, left, right = run(lax.linalg.eig, a)
    only_left = run(lambda a: lax.linalg.eig(a, compute_right_eigenvectors=False), a)
    only_right = run(lambda a: lax.linalg.eig(a, compute_left_eigenvectors=False), a)
    for got, want in ((only_left, (values, left)), (only_right, (values, right))):
        np.testing.assert_allclose(got[0], want[0], rtol=1e-5)
        np.testing.assert_allclose(got[1], want[1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run(jnp.linalg.eigvals, a), values, rtol=1e-5)
    np.testing.assert_allclose(
        run(lambda a: lax.linalg.schur(a, compute_schur_vectors=False)[0], a),
        run(lambda a: lax.linalg.schur(a)[0], a),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_what_is_not_finite_gives_nan(dtype, bad):
    a = matrix((2, 4, 4), dtype)
    a[1, 2, 1] = bad
    for result in jax.tree.leaves(run(eig_and_schur, a)):
        assert np.isfinite(result[0]).all() and np.isnan(result[1]).all()
    assert np.isnan(run(jnp.linalg.eigvals, np.full((1, 1), bad, dtype))).all()


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_what_does_not_converge_gives_nan(dtype, monkeypatch):
    monkeypatch.setattr(qr_algorithm, "_SWEEPS_PER_ROW", 0)
    n = native.MOST_SCHUR_ROWS + 1
    a = np.stack([matrix((n, n), dtype), np.eye(n, dtype=dtype)])
    for result in jax.tree.leaves(run(lambda a: eig_and_schur(a), a)):
        assert np.isnan(result[0]).all() and np.isfinite(result[1]).all()


@pytest.mark.parametrize("n", [2, native.MOST_SCHUR_ROWS])
@pytest.mark.parametrize("function", [jnp.linalg.eigvals, lax.linalg.schur])
def test_forms_of_small_matrices_are_one_operation(function, n):
    """One vertex for each matrix, in one superstep, and no loop."""
    result = estimate(function, jax.ShapeDtypeStruct((70, n, n), np.float32), target="ipu2")
    (row,) = (row for row in result.operations if row.operation.endswith("schur"))
    assert (row.executions, row.tiles, row.sync_cycles) == (1, 70, 126)
    assert result.unknown_trip_counts == 0


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_small_matrices_as_codelets(dtype):
    a = matrix((9, 5, 5), dtype)
    values, t, z = run_ipu(lambda a: (jnp.linalg.eigvals(a), *lax.linalg.schur(a)), [a], ("codelets", 8))
    check_schur(a, t, z)
    for got, want in zip(values, np.linalg.eigvals(a), strict=True):
        assert distance(got, want) < 1000 * np.finfo(dtype).eps * np.abs(want).max()


def test_gradients():
    a = matrix((2, 5, 5), "float64")

    def of_values(a):
        return jnp.sum(jnp.abs(jnp.linalg.eigvals(a)) ** 3)

    def of_vectors(a):
        _, left, right = lax.linalg.eig(a, enable_eigvec_derivs=True)
        return jnp.sum(jnp.abs(left[..., 0, :]) + jnp.abs(right[..., 1, :]) ** 2)

    for function in (of_values, of_vectors):
        want = run(jax.grad(function), a, device=cpu)
        np.testing.assert_allclose(run(jax.grad(function), a), want, rtol=1e-10, atol=1e-10)


FUNCTIONS = {
    "roots": lambda a: jnp.sort(jnp.roots(a[0], strip_zeros=False)),
    "poly": lambda a: jnp.poly(a),
    "sqrtm": jsl.sqrtm,
    "funm": lambda a: jsl.funm(a, jnp.exp),
    "rsf2csf": lambda a: jnp.abs(jsl.rsf2csf(*jsl.schur(a))[0]),
    "schur, complex": lambda a: jnp.abs(jsl.schur(a, output="complex")[0]),
    "solve_sylvester": lambda a: jsl.solve_sylvester(a, a.T, jnp.eye(6)),
    "solve_sylvester, eigen": lambda a: jsl.solve_sylvester(a, a.T, jnp.eye(6), method="eigen"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_numpy_and_scipy(name):
    a = matrix((6, 6)) + 5 * np.eye(6)
    want = run(FUNCTIONS[name], a, device=cpu)
    np.testing.assert_allclose(run(FUNCTIONS[name], a), want, rtol=1e-9, atol=1e-9)


def test_under_strict_promotion():
    a = matrix((2, 5, 5), "float32")
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        (values, left, right), (t, z) = run(lambda a: (lax.linalg.eig(a), lax.linalg.schur(a)), a)
    check_eig(a, values, left, right)
    check_schur(a, t, z)


def test_choices_that_are_refused():
    a = matrix((3, 3), "float32")
    with pytest.raises(NotImplementedError, match=r"does not sort eigenvalues.*Leave `sort_eig_vals` out"):
        run(lambda a: lax.linalg.schur(a, sort_eig_vals=True), a)
    with pytest.raises(NotImplementedError, match=r"one algorithm, and not LAPACK.*Leave `implementation`"):
        run(lambda a: lax.linalg.eig(a, implementation=lax.linalg.EigImplementation.LAPACK), a)
