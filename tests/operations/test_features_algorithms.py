"""Each algorithm that JAX names for eigenvalues and singular values, requested by its name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jax_ipu.integration.decompositions import hermitian, singular_values, spectral
from support.matrices import matrix
from support.modes import each_mode, run_ipu

ipu, cpu = jax.devices("ipu")[0], jax.devices("cpu")[0]
DTYPES = ("float32", "complex64", "float64", "complex128")
EIGH = {i.name: i for i in lax.linalg.EighImplementation}
SVD = {i.name: i for i in lax.linalg.SvdAlgorithm}
each_eigh = pytest.mark.parametrize("algorithm", EIGH)
each_svd = pytest.mark.parametrize("algorithm", SVD)


def hermitian_matrix(shape, dtype="float32"):
    x = matrix(shape, dtype)
    return (x + np.swapaxes(x.conj(), -1, -2)) / 2


def run(function, *args, device=ipu):
    with jax.enable_x64(any(a.real.dtype == np.float64 for a in args)):
        return jax.tree.map(np.asarray, jax.jit(function)(*jax.device_put(args, device)))


def eigh(algorithm, **how):
    return lambda a: lax.linalg.eigh(a, implementation=EIGH[algorithm], **how)


def svd(algorithm, **how):
    return lambda a: lax.linalg.svd(a, algorithm=SVD[algorithm], **how)


def unit(dtype):
    return float(np.finfo(dtype).eps)


def check_unitary(x, bound):
    identity = np.broadcast_to(np.eye(x.shape[-1]), (*x.shape[:-2], x.shape[-1], x.shape[-1]))
    np.testing.assert_allclose(np.swapaxes(x.conj(), -1, -2) @ x, identity, rtol=0, atol=bound)


def check_eigh(a, vectors, values, rounding_errors=100):
    bound = rounding_errors * unit(a.dtype)
    size = bound * max(np.abs(values).max(), np.finfo(a.dtype).tiny)
    np.testing.assert_allclose(np.sort(values, -1), np.linalg.eigvalsh(a), rtol=0, atol=size)
    np.testing.assert_allclose(a @ vectors, vectors * values[..., None, :], rtol=0, atol=size)
    check_unitary(vectors, bound)


def check_svd(a, s, u, vh, rounding_errors=100):
    bound = rounding_errors * unit(a.dtype)
    size = bound * max(s.max(), np.finfo(a.dtype).tiny)
    assert (s[..., 1:] <= s[..., :-1]).all() and (s >= 0).all()
    np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False), rtol=0, atol=size)
    k = s.shape[-1]
    np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, rtol=0, atol=size)
    check_unitary(u, bound)
    check_unitary(np.swapaxes(vh.conj(), -1, -2), bound)


@each_eigh
@pytest.mark.parametrize("dtype", DTYPES)
def test_eigh(dtype, algorithm):
    a = hermitian_matrix((2, 1, 15, 15), dtype)
    vectors, values = run(eigh(algorithm), a)
    assert (values[..., 1:] >= values[..., :-1]).all()
    check_eigh(a, vectors, values)


@each_eigh
def test_eigh_of_odd_matrices(algorithm):
    for a in (np.zeros((0, 0)), 3 * np.eye(1), np.zeros((5, 5)), np.diag([3.0, -1]), np.ones((9, 9))):
        a = a.astype(np.float32)
        vectors, values = run(eigh(algorithm), a)
        if a.size:
            check_eigh(a, vectors, values)
    assert all(np.isnan(x).all() for x in run(eigh(algorithm), np.full((3, 3), np.nan, np.float32)))


@each_eigh
def test_part_of_eigenvalues_of_one_triangle(algorithm):
    a = hermitian_matrix((9, 9))
    one_triangle = eigh(algorithm, symmetrize_input=False, lower=False, subset_by_index=(2, 5), sort_eigenvalues=False)
    vectors, values = run(one_triangle, a + np.tril(matrix((9, 9), seed=1), -1))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a)[2:5], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(a @ vectors, vectors * values, atol=1e-5)


def test_spectral_divide_and_conquer_above_the_size_of_jacobi(monkeypatch):
    monkeypatch.setattr(spectral, "_LARGEST_WHOLE", 8)
    a = hermitian_matrix((2, 20, 20))
    check_eigh(a, *run(eigh("QDWH"), a), rounding_errors=300)


def test_the_algorithm_is_the_one_asked_for(monkeypatch):
    """Without a request, the choice depends on the size."""
    called = []
    for module, names in ((hermitian, ("_jacobi", "_qr", "qdwh", "divided")), (singular_values, ("_qr", "_jacobi"))):
        for name in names:
            function = getattr(module, name)
            key = f"{module.__name__.rpartition('.')[2]}.{name}"
            monkeypatch.setattr(module, name, lambda *a, f=function, key=key: (called.append(key), f(*a))[1])
    expected = {
        "QR": "hermitian._qr",
        "JACOBI": "hermitian._jacobi",
        "QDWH": "hermitian.qdwh",
    }
    for algorithm, name in expected.items():
        called.clear()
        jax.jit(eigh(algorithm)).trace(np.eye(14, dtype=np.float32)).lower(lowering_platforms=("ipu",))
        assert called[0] == name
    for algorithm, name in {"QR": "singular_values._qr", "JACOBI": "singular_values._jacobi"}.items():
        called.clear()
        jax.jit(svd(algorithm)).trace(np.eye(14, dtype=np.float32)).lower(lowering_platforms=("ipu",))
        assert called == [name]


@each_svd
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "full"), [((2, 9, 6), True), ((6, 11), False)])
def test_svd(shape, full, dtype, algorithm):
    a = matrix(shape, dtype)
    m, n = shape[-2:]
    u, s, vh = run(svd(algorithm, full_matrices=full), a)
    assert u.shape[-1] == (m if full else min(m, n)) and vh.shape[-2] == (n if full else min(m, n))
    check_svd(a, s, u, vh)
    values = run(svd(algorithm, compute_uv=False), a)
    np.testing.assert_allclose(values, s, rtol=0, atol=100 * unit(dtype) * s.max())


@each_svd
def test_svd_of_odd_matrices(algorithm):
    deficient = matrix((12, 12))
    deficient[:, 3], deficient[:, 7], deficient[5] = deficient[:, 2], 0, 0
    graded = matrix((10, 10)) * 10.0 ** -np.arange(10)
    odd = (deficient, graded, np.zeros((6, 6)), -np.eye(1), np.ones((7, 7)), 1e30 * deficient, 1e-30 * deficient)
    for a in odd:
        a = a.astype(np.float32)
        u, s, vh = run(svd(algorithm), a)
        check_svd(a, s, u, vh)
    u, s, vh = run(svd(algorithm), np.full((4, 3), np.inf, np.float32))
    assert np.isnan(s).all() and np.isnan(vh).all()
    u, s, vh = run(svd(algorithm, full_matrices=True), np.zeros((0, 3), np.float32))
    assert u.shape == (0, 0) and s.shape == (0,) and np.array_equal(vh, np.eye(3))


@each_svd
def test_part_of_singular_values(algorithm):
    a = matrix((9, 6))
    u, s, vh = run(svd(algorithm, full_matrices=False, subset_by_index=(1, 4)), a)
    np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False)[1:4], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(a @ vh.T, u * s, atol=1e-5)


@pytest.mark.parametrize("algorithm", ["QR", "DIVIDE_AND_CONQUER", "JACOBI", "POLAR"])
def test_gradients_of_singular_values(algorithm):
    a = matrix((6, 4))
    gradient = jax.grad(lambda a: jnp.sum(jnp.sin(svd(algorithm, full_matrices=False)(a)[1])))
    expected = run(jax.grad(lambda a: jnp.sum(jnp.sin(jnp.linalg.svd(a, full_matrices=False)[1]))), a, device=cpu)
    np.testing.assert_allclose(run(gradient, a), expected, rtol=1e-3, atol=1e-4)


@each_mode
@pytest.mark.parametrize("name", ["eigh", "svd"])
def test_qr_in_each_mode(name, mode):
    a = matrix((2, 12, 12))
    if name == "eigh":
        a = hermitian_matrix((2, 12, 12))
        check_eigh(a, *run_ipu(eigh("QR"), (a,), mode))
    else:
        u, s, vh = run_ipu(svd("QR"), (a,), mode)
        check_svd(a, s, u, vh)
