"""Decompositions against their definitions and against LAPACK on the CPU."""

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from jax._src.lax import linalg as lax_linalg

from jax_ipu import estimate
from support import modes
from support.as_on_cpu import check_as_on_cpu, run, tolerance
from support.matrices import matrix
from support.modes import check, with_codelets

DTYPES = ("float32", "complex64", "float64", "complex128")


def hermitian(x):
    return x + np.swapaxes(x.conj(), -1, -2)


# Functions of a batch of square matrices.
SQUARE = {
    "lu": lax_linalg.lu,
    "qr": jnp.linalg.qr,
    "cholesky": jnp.linalg.cholesky,
    "eigh": jnp.linalg.eigh,
    "svd": jnp.linalg.svd,
    "svdvals": jnp.linalg.svdvals,
    "tridiagonal": lax_linalg.tridiagonal,
    "hessenberg": lax_linalg.hessenberg,
    "schur": lax_linalg.schur,
    "eig": jnp.linalg.eig,
    "inv": jnp.linalg.inv,
    "det": jnp.linalg.det,
    "pinv": jnp.linalg.pinv,
    "expm": jsl.expm,
    "solve": lambda a: jnp.linalg.solve(a, a),
    "triangular_solve": lambda a: lax_linalg.triangular_solve(a, a, left_side=True),
}


@pytest.mark.parametrize("shape", [(0, 2, 2), (3, 0, 40, 40)])
@pytest.mark.parametrize("name", SQUARE)
def test_batches_of_no_matrices(name, shape):
    check_as_on_cpu(SQUARE[name], np.zeros(shape, np.float32))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 5, 3), (3, 5)])
def test_packed_qr_and_product_of_reflectors(shape, dtype):
    a = matrix(shape, dtype)
    check_as_on_cpu(lax_linalg.geqrf, a)
    if shape[-2] >= shape[-1]:
        check_as_on_cpu(lambda a: lax_linalg.householder_product(*lax_linalg.geqrf(a)), a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(97, 70), (70, 97), (2, 96, 96)])
def test_qr_in_panels(shape, dtype):
    """More columns than one panel, partial panels, and one column that has become zero when it is reached."""
    a = matrix(shape, dtype)
    a[..., 40] = a[..., 3]
    packed, taus = run(lax_linalg.geqrf, a)
    m, count = shape[-2], min(shape[-2:])
    np.testing.assert_array_less(np.abs(packed[..., 40, 40]), 1e-3 if tolerance(dtype) > 1e-6 else 1e-10)
    reflectors = np.tril(packed[..., :count], -1) + np.eye(m, count, dtype=dtype)
    q = np.broadcast_to(np.eye(m, dtype=dtype), (*shape[:-2], m, m))
    for j in range(count):
        v = reflectors[..., j, None]
        q = q - q @ v * taus[..., j, None, None] @ np.swapaxes(v.conj(), -1, -2)
    np.testing.assert_allclose(q @ np.triu(packed), a, atol=50 * tolerance(dtype))
    if shape[-2] >= shape[-1]:
        got = run(lax_linalg.householder_product, packed, taus)
        np.testing.assert_allclose(got, q[..., :count], atol=50 * tolerance(dtype))


@with_codelets
def test_qr_in_panels_in_each_mode(mode):
    check(lambda a: lax_linalg.householder_product(*lax_linalg.geqrf(a)), matrix((66, 65)), mode=mode, rtol=1e-3)


def check_lu(a):
    """Checks that L U is `a` with permuted rows, and that each pivot is the largest of its column up to rounding."""
    packed, pivots, order = run(lax_linalg.lu, a)
    with jax.enable_x64(True):
        for got, kind in zip((packed, pivots, order), jax.eval_shape(lax_linalg.lu, a), strict=True):
            assert (got.shape, got.dtype) == (kind.shape, kind.dtype)
    for i in np.ndindex(a.shape[:-2]):
        check_factors(a[i], packed[i], pivots[i], order[i], min(a.shape[-2:]))
    return pivots


def check_factors(a, packed, pivots, order, count):
    """Checks the first `count` steps: their result, and that each pivot was the largest of its column."""
    np.testing.assert_array_equal(order, swapped(len(a), pivots))
    lower = np.tril(packed[:, :count], -1) + np.eye(len(a), count, dtype=a.dtype)
    upper = np.triu(packed[:count])
    limit = 20 * tolerance(a.dtype.name)
    np.testing.assert_allclose((lower @ upper)[:, :count], a[order][:, :count], atol=limit)
    np.testing.assert_allclose((lower @ upper)[:count], a[order][:count], atol=limit)
    if count == min(a.shape):
        np.testing.assert_allclose(lower @ upper, a[order], atol=limit)
    # The entries below a pivot when it was chosen, by LAPACK's norm of a complex number.
    pivot = np.diagonal(upper)
    assert (norm(np.tril(packed[:, :count], -1) * pivot) <= norm(pivot) * (1 + limit) + limit).all()


def swapped(m, pivots):
    """Returns the order of rows after one swap per pivot, each with a row at or after the pivot's."""
    order = list(range(m))
    for i, pivot in enumerate(pivots):
        assert i <= pivot < m
        order[i], order[pivot] = order[pivot], order[i]
    return order


def norm(x):
    return np.abs(x.real) + np.abs(x.imag)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 5, 3), (3, 5), (2, 40, 40), (70, 33), (33, 70), (150, 140)])
def test_lu_in_panels(shape, dtype):
    """One column, one panel, several panels, and several blocks, including partial panels and blocks."""
    check_lu(matrix(shape, dtype))


@with_codelets
def test_lu_in_each_mode(mode):
    check(lax_linalg.lu, matrix((35, 34)), mode=mode, rtol=1e-3)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_lu_of_narrow_floats(dtype):
    """The factorisation of float32, rounded once; JAX has none for narrow floats on the CPU."""
    a = matrix((40, 35)).astype(dtype)
    got, want = run(lax_linalg.lu, a), run(lax_linalg.lu, a.astype(np.float32))
    assert got[0].dtype == dtype
    np.testing.assert_array_equal(got[0], want[0].astype(dtype))
    np.testing.assert_array_equal(got[1], want[1])
    np.testing.assert_array_equal(got[2], want[2])


def test_lu_of_odd_matrices():
    repeated = matrix((40, 40))
    repeated[:, 35], repeated[30] = repeated[:, 3], 0
    check_lu(repeated)
    check_lu((np.indices((5, 5)).sum(0) % 3).astype(np.float32))
    for shape in ((0, 3), (3, 0)):
        check_as_on_cpu(lax_linalg.lu, np.zeros(shape, np.float32))


@pytest.mark.parametrize(
    ("a", "pivots"),
    [
        (np.ones((3, 3)), [0, 1, 2]),
        (np.zeros((40, 40)), range(40)),
        (np.eye(4)[::-1], [3, 2, 2, 3]),
        (np.array([[1, 4, 0], [-2, 2, 1], [2, 2, -1]]), [1, 1, 2]),
    ],
)
def test_lu_takes_the_first_of_equal_pivots(a, pivots):
    """Matrices that are factored without rounding."""
    np.testing.assert_array_equal(check_lu(a.astype(np.float32)), pivots)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("n", [4, 40, 70])
def test_lu_of_what_is_not_finite(n, dtype):
    """An infinity is the pivot of its column; only results that depend on it are not finite."""
    for row, column in ((1, 0), (n - 2, n // 2), (0, n - 1), (n - 1, n - 1)):
        finite = matrix((n, n), dtype)
        a = finite.copy()
        a[row, column] = np.inf
        packed, pivots, order = run(lax_linalg.lu, a)
        check_factors(finite[:, :column], packed[:, :column], pivots, order, column)
        at = list(order).index(row)
        # Above the infinity, its column is the same as without it.
        above = min(at, column)
        lower = np.tril(packed[:above, :above], -1) + np.eye(above, dtype=dtype)
        np.testing.assert_allclose(
            lower @ packed[:above, column], finite[order][:above, column], atol=20 * tolerance(dtype)
        )
        assert not np.isfinite(packed[at, column])
        if at >= column:
            # If its row was not a pivot before, it is now, and the other rows get no multiple of its row.
            assert at == column
            if dtype == "float32":  # a complex number divided by an infinite one is NaN
                np.testing.assert_array_equal(packed[column + 1 :, column], 0)
                lower, others = np.tril(packed, -1) + np.eye(n, dtype=dtype), np.arange(n) != column
                np.testing.assert_allclose(
                    lower @ np.triu(packed)[:, others], finite[order][:, others], atol=20 * tolerance(dtype)
                )
        a[row, column] = np.nan
        packed, _, order = run(lax_linalg.lu, a)
        assert not np.isfinite(packed).all() and sorted(order) == list(range(n))
        # Rows of U before the first column with NaN do not depend on it.
        assert np.isfinite(packed[:, :column]).all()


@pytest.mark.parametrize("n", [4, 40])
def test_gradients_through_lu(n):
    a = matrix((2, n, n)) + 9 * np.eye(n, dtype=np.float32)
    for function in (jnp.linalg.inv, lambda a: jnp.linalg.slogdet(a)[1], lambda a: jnp.linalg.solve(a, a[..., :2])):
        check_as_on_cpu(jax.grad(lambda a, function=function: jnp.sum(jnp.sin(function(a)))), a)


@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_qr_of_odd_matrices(mode):
    zero_column = matrix((4, 3))
    zero_column[:, 1] = 0
    for a in (zero_column, np.zeros((3, 3), np.float32), np.zeros((0, 3), np.float32), 1e30 * matrix((3, 2))):
        check_as_on_cpu(lambda a: jnp.linalg.qr(a, mode=mode), a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_hessenberg_and_tridiagonal(dtype):
    a = matrix((2, 5, 5), dtype)
    check_as_on_cpu(lax_linalg.hessenberg, a)
    for lower in (True, False):
        check_as_on_cpu(lambda a, lower=lower: lax_linalg.tridiagonal(a, lower=lower), hermitian(a))


@with_codelets
def test_reductions_in_each_mode(mode):
    a = matrix((2, 9, 9))
    for function in (lax_linalg.hessenberg, jnp.linalg.svdvals):
        check(function, a, mode=mode, rtol=1e-3, atol=1e-4)
    check(lambda a: lax_linalg.tridiagonal(a, lower=True), hermitian(a), mode=mode, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_reductions_in_several_stages(dtype):
    n = 70
    a = matrix((n, n), dtype)
    check_as_on_cpu(lax_linalg.hessenberg, a)
    check_as_on_cpu(lambda a: lax_linalg.tridiagonal(a, lower=True), hermitian(a))
    u, s, v = run(lambda a: lax_linalg.svd(a, algorithm=lax_linalg.SvdAlgorithm.QR), a)
    for unitary in (u, v):
        np.testing.assert_allclose(unitary @ unitary.conj().T, np.eye(n), rtol=0, atol=1e-12)
    np.testing.assert_allclose((u * s) @ v, a, rtol=0, atol=1e-11)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 7, 7), (10, 10)])
def test_eigh(shape, dtype):
    a = hermitian(matrix(shape, dtype))
    values, vectors = run(jnp.linalg.eigh, a)
    bound = 20 * tolerance(dtype)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a), rtol=bound, atol=bound)
    np.testing.assert_allclose(a @ vectors, vectors * values[..., None, :], atol=bound)
    identity = np.broadcast_to(np.eye(shape[-1]), a.shape)
    np.testing.assert_allclose(np.swapaxes(vectors.conj(), -1, -2) @ vectors, identity, atol=bound)


def test_eigh_of_odd_matrices():
    for a in (np.zeros((0, 0)), np.zeros((3, 3)), np.eye(4), np.diag([3.0, -1, 2]), 1e30 * hermitian(matrix((3, 3)))):
        a = a.astype(np.float32)
        values, vectors = run(jnp.linalg.eigh, a)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(a), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(a)), atol=1e-5)
    values, vectors = run(jnp.linalg.eigh, np.array([[1, np.nan], [np.nan, 1]], np.float32))
    assert np.isnan(values).all() and np.isnan(vectors).all()


def test_eigh_of_a_matrix_does_not_depend_on_the_others_of_its_batch():
    """They converge after different numbers of sweeps."""
    batch = np.stack([np.diag(np.arange(7.0)), hermitian(matrix((7, 7))), np.ones((7, 7))]).astype(np.float32)
    together = run(jnp.linalg.eigh, batch)
    for i, a in enumerate(batch):
        for one, all_ in zip(run(jnp.linalg.eigh, a), together, strict=True):
            np.testing.assert_allclose(one, all_[i], rtol=1e-6, atol=1e-6)


def test_eigh_part_and_triangle():
    a = hermitian(matrix((6, 6)))
    noise = np.triu(matrix((6, 6), seed=1), 1)
    values = run(lambda a: lax_linalg.eigh(a, lower=True, symmetrize_input=False, subset_by_index=(1, 4))[1], a + noise)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a)[1:4], rtol=1e-5, atol=1e-5)


def tridiagonal_matrix(diagonal, beside):
    return np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)


N = 100
# Spectra that are difficult for divide and conquer: clusters, equal values, zero couplings, many scales. Their matrices
# are (N, N).
HARD = {
    "random": hermitian(matrix((N, N), "float64")),
    "identity": np.eye(N),
    "zero": np.zeros((N, N)),
    "rank 1": np.ones((N, N)),
    "second differences": tridiagonal_matrix(2 * np.ones(N), -np.ones(N - 1)),
    "Wilkinson": tridiagonal_matrix(np.abs(np.arange(N) - N // 2.0), np.ones(N - 1)),
    "glued": tridiagonal_matrix(np.abs(np.arange(N) % 21 - 10.0), np.where(np.arange(N - 1) % 21 == 20, 1e-8, 1)),
    "weakly coupled": tridiagonal_matrix(matrix(N, "float64"), 1e-9 * matrix(N - 1, "float64", 1)),
    "equal blocks": np.kron(np.eye(N // 4), np.ones((4, 4))),
    "graded": hermitian(matrix((N, N), "float64")) * 10.0 ** -np.add.outer(*2 * [np.linspace(0, 6, N)]),
    "tiny": 1e-30 * hermitian(matrix((N, N), "float64")),
}


def check_eigh(a, bound):
    """`bound` is in rounding errors of the largest eigenvalue."""
    values, vectors = run(jnp.linalg.eigh, a)
    wide, unit = a.astype(np.promote_types(a.dtype, "float64")), bound * np.finfo(a.dtype).eps
    expected = np.linalg.eigvalsh(wide)
    size = unit * np.abs(expected).max()
    np.testing.assert_allclose(values, expected, rtol=0, atol=size)
    np.testing.assert_allclose(wide @ vectors, vectors * values, rtol=0, atol=size)
    np.testing.assert_allclose(vectors.conj().T @ vectors, np.eye(len(a)), rtol=0, atol=unit)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eigh_of_hard_spectra(dtype):
    for a in HARD.values():
        check_eigh(a.astype(dtype), 150)


@pytest.mark.parametrize("n", [13, 17, 64, 300])
def test_eigh_of_any_size(n):
    check_eigh(hermitian(matrix((n, n), "complex64")), 150)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["full", "r", "economic"])
@pytest.mark.parametrize("shape", [(5, 3), (4, 4), (3, 5), (2, 4, 3)])
def test_qr_with_pivots(shape, mode, dtype):
    check_as_on_cpu(lambda a: jsl.qr(a, mode=mode, pivoting=True), matrix(shape, dtype))


def test_qr_with_pivots_of_odd_matrices():
    repeated = matrix((5, 3))[:, [0, 1, 0, 2, 1]]
    for a in (repeated, np.zeros((3, 3), np.float32), 1e30 * matrix((3, 2)), 1e-30 * matrix((3, 2))):
        q, r, order = run(lambda a: jsl.qr(a, pivoting=True), a)
        np.testing.assert_allclose(q @ r, a[:, order], rtol=1e-5, atol=1e-5 * np.abs(a).max())
        diagonal = np.abs(np.diag(r))
        assert (diagonal[1:] <= diagonal[:-1] * 1.0001).all() and sorted(order) == list(range(a.shape[1]))


def test_qr_with_columns_that_come_first():
    a, first = matrix((5, 4)), np.array([0, 0, 1, 0], np.int32)
    check_as_on_cpu(lambda a: lax_linalg.geqp3(a, first), a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tridiagonal_systems_with_pivots(dtype):
    low, diagonal, up = (matrix((2, 9), dtype, seed) for seed in range(3))
    diagonal[:, 4] = 0
    check_as_on_cpu(lax_linalg.tridiagonal_solve, low, diagonal, up, matrix((2, 9, 3), dtype))


def test_singular_tridiagonal_systems():
    ones = np.ones(2, np.float32)
    args = ones, ones, ones, np.array([[1], [2]], np.float32)
    assert np.isnan(run(lax_linalg.tridiagonal_solve, *args)).all()
    solution = run(lambda *args: lax_linalg.tridiagonal_solve(*args, perturb_singular=True), *args)
    assert np.isfinite(solution).all() and (np.abs(solution) > 1e6).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "full"), [((2, 5, 3), False), ((3, 5), True)])
def test_svd(shape, full, dtype):
    a = matrix(shape, dtype)
    u, s, vh = run(lambda a: jnp.linalg.svd(a, full_matrices=full), a)
    bound = 20 * tolerance(dtype)
    np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False), rtol=bound, atol=bound)
    k = s.shape[-1]
    np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, atol=bound)


FUNCTIONS = {
    "pinv": jnp.linalg.pinv,
    "lstsq": lambda a: jnp.linalg.lstsq(a, a[:, 0])[0],
    "matrix_rank": jnp.linalg.matrix_rank,
    "norm 2": lambda a: jnp.linalg.norm(a, 2),
    "norm nuc": lambda a: jnp.linalg.norm(a, "nuc"),
    "cond": jnp.linalg.cond,
    "slogdet": jnp.linalg.slogdet,
    "inv": jnp.linalg.inv,
    "solve": lambda a: jnp.linalg.solve(a, a[:, :2]),
    "matrix_power": lambda a: jnp.linalg.matrix_power(a, -2),
    "expm": jsl.expm,
    "polar": jsl.polar,
    "lu": jsl.lu,
    "lu_factor": jsl.lu_factor,
    "cho_solve": lambda a: jsl.cho_solve(jsl.cho_factor(a @ a.T + jnp.eye(4)), a),
    "cholesky_update": lambda a: lax_linalg.cholesky_update(jnp.linalg.cholesky(a @ a.T + jnp.eye(4)).T, a[0]),
    "block_diag": lambda a: jsl.block_diag(a, a),
    "tridiagonal_solve": lambda a: lax_linalg.tridiagonal_solve(a[0], a[1] + 9, a[2], a),
    "eigh_tridiagonal": lambda a: jsl.eigh_tridiagonal(a[0], a[1, :3], eigvals_only=True),
    "hessenberg": jsl.hessenberg,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_numpy_and_scipy(name):
    check_as_on_cpu(FUNCTIONS[name], matrix((4, 4)))


@pytest.mark.parametrize("name", ["eigh", "svd", "qr"])
def test_gradients(name):
    functions = {
        "eigh": lambda a: jnp.sum(jnp.cos(jnp.linalg.eigh(a + a.T)[1]) ** 2 * jnp.arange(4.0)),
        "svd": lambda a: jnp.sum(jnp.abs(jnp.linalg.svd(a, full_matrices=False)[0]) * jnp.arange(4.0)),
        "qr": lambda a: jnp.sum(jnp.sin(jnp.linalg.qr(a)[0])),
    }
    check_as_on_cpu(jax.grad(functions[name]), matrix((4, 4)))


def test_under_strict_promotion():
    a = matrix((2, 4, 4), "complex64")
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        check_as_on_cpu(lambda a: jnp.linalg.qr(a), a)
        check_as_on_cpu(lambda a: jnp.linalg.svd(a)[1], a)
        check_as_on_cpu(lambda a: lax_linalg.tridiagonal(a)[1], hermitian(a))


def test_decompositions_of_small_matrices_take_few_supersteps():
    """A superstep for each column and one for Q. Tile-mapped steps take at most 75,000 cycles on hardware."""
    square = jax.ShapeDtypeStruct((32, 32), np.float32)
    result = estimate(jnp.linalg.qr, square, target="ipu2")
    assert {row.operation for row in result.operations} <= {"qr_panel", "apply_reflectors", "iota", "map"}
    assert sum(row.sync_cycles for row in result.operations) < 40 * 126
    assert result.cycles < 75_000


@pytest.mark.parametrize(
    ("reduction", "function", "supersteps"),
    [
        ("tridiagonal", jnp.linalg.eigh, 1 + 2 * 31),
        ("hessenberg", lax_linalg.hessenberg, 1 + 2 * 31),
        ("bidiagonal", jnp.linalg.svd, 1 + 4 * 31),
    ],
)
def test_reductions_of_small_matrices_are_one_operation(reduction, function, supersteps):
    """A superstep that loads, and for each column two or, with reflectors of rows, four."""
    result = estimate(function, jax.ShapeDtypeStruct((32, 32), np.float32), target="ipu2")
    (row,) = (row for row in result.operations if row.operation == reduction)
    assert row.executions == 1 and row.sync_cycles == supersteps * 126


@pytest.mark.parametrize("function", [jnp.linalg.eigh, jnp.linalg.svd])
def test_values_and_vectors_of_small_matrices_are_found_at_the_same_time(function):
    """The rotations are on other tiles than the values, and no loop has an unknown number of trips."""
    result = estimate(function, jax.ShapeDtypeStruct((32, 32), np.float32), target="ipu2")
    (rotations,) = (row for row in result.operations if row.operation.endswith("diagonal_qr"))
    assert result.unknown_trip_counts == 0
    # One tile has the values, two columns of a matrix are on each of the others.
    assert rotations.tiles == 1 + 16 * (2 if function is jnp.linalg.svd else 1)


def test_large_qr_is_factorised_by_panels():
    """Each panel of 32 columns is one operation, with a superstep for each column."""
    result = estimate(jnp.linalg.qr, jax.ShapeDtypeStruct((128, 128), np.float32), target="ipu2")
    (panels,) = (row for row in result.operations if row.operation == "qr_panel")
    assert panels.executions == 4 and panels.sync_cycles == 4 * 32 * 126
    assert result.cycles < 900_000


@pytest.mark.parametrize("n", [5, 40])
def test_decompositions_as_codelets(n):
    a = matrix((2, n, n))
    values, vectors = modes.run_ipu(lambda a: tuple(jnp.linalg.eigh(a)), (hermitian(a),), ("codelets", 8))
    np.testing.assert_allclose(vectors * values[:, None] @ vectors.swapaxes(1, 2), hermitian(a), atol=1e-4)
    np.testing.assert_allclose(vectors @ vectors.swapaxes(1, 2), np.broadcast_to(np.eye(n), a.shape), atol=1e-4)
    left, singular, right = modes.run_ipu(lambda a: tuple(jnp.linalg.svd(a)), (a,), ("codelets", 8))
    np.testing.assert_allclose(left * singular[:, None] @ right, a, atol=1e-4)
    np.testing.assert_allclose(right @ right.swapaxes(1, 2), np.broadcast_to(np.eye(n), a.shape), atol=1e-4)


def test_cumulative_sum_over_tiles_as_codelets():
    check(lambda x: (jnp.cumsum(x), jnp.cumsum(x[::-1])), matrix((5001,)), mode=("codelets", 64))
