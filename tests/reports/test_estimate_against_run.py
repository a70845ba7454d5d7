"""What is estimated is what runs: the same bytes for the compiler, and the cycles that the counters count.

A few functions in every run, with those that JAX writes with CHLO; the others and the rows of the op table nightly.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jax_ipu
from jax_ipu import _ipu, plugin
from jax_ipu.integration.programs import program_of
from support.modes import array
from support.op_table import ROWS

ipu = jax.devices("ipu")[0]

VECTOR = array(40, seed=1, low=-0.9, high=0.9)
LONG = array(1000, seed=2)
POSITIVE = array(40, seed=3, low=0.1, high=3)
MATRIX = array(12, 12, seed=4) + 4 * np.eye(12, dtype=np.float32)
SYMMETRIC = MATRIX + MATRIX.T
IMAGE = array(2, 8, 8, 3, seed=5)

# Function and arguments.
SAMPLE = {
    "top_k": (lambda x: lax.top_k(x, 5), LONG),
    "erf": (lax.erf, VECTOR),
    "erf_inv": (lax.erf_inv, VECTOR),
    "asin": (jnp.arcsin, VECTOR),
    "sinh": (jnp.sinh, VECTOR),
    "tan": (jnp.tan, VECTOR),
    "lgamma": (lax.lgamma, POSITIVE),
    "det": (jnp.linalg.det, MATRIX),
    "qr": (jnp.linalg.qr, MATRIX),
    "gelu": (lambda x: jax.nn.gelu(x, approximate=False), VECTOR),
    "cumsum": (jnp.cumsum, VECTOR),
    "complex": (lambda x: jnp.abs(jnp.sqrt(x + 1j)), VECTOR),
    "in_place": (lambda x: lax.fori_loop(0, 5, lambda k, c: c.at[k].set(1.0), x), VECTOR),
}
OTHERS = {
    **{name: (getattr(jnp, name), VECTOR) for name in ("arccos", "arctan", "arctanh", "cosh", "arcsinh", "sinc")},
    **{name: (getattr(jnp, name), LONG) for name in ("sort", "argsort", "median", "argmax", "var")},
    **{name: (getattr(jax.scipy.special, name), POSITIVE) for name in ("digamma", "i0e", "i1e", "erfc", "ndtri")},
    **{name: (getattr(jnp.linalg, name), MATRIX) for name in ("inv", "slogdet", "svd", "pinv", "eigvals")},
    **{name: (getattr(jnp.linalg, name), SYMMETRIC) for name in ("eigh", "eigvalsh")},
    **{name: (getattr(jnp.fft, name), LONG) for name in ("fft", "rfft")},
    "cholesky": (jnp.linalg.cholesky, SYMMETRIC @ SYMMETRIC.T),
    "solve": (jnp.linalg.solve, MATRIX, VECTOR[:12]),
    "lstsq": (lambda a, b: jnp.linalg.lstsq(a, b)[0], MATRIX, VECTOR[:12]),
    "expm": (jax.scipy.linalg.expm, MATRIX),
    "lu": (jax.scipy.linalg.lu, MATRIX),
    "bessel_jn": (lambda x: jax.scipy.special.bessel_jn(x, v=2), POSITIVE),
    "matrix_rank": (jnp.linalg.matrix_rank, MATRIX),
    "next_after": (jnp.nextafter, VECTOR, POSITIVE),
    "unique": (lambda x: jnp.unique(x, size=20), LONG),
    "zeta": (jax.scipy.special.zeta, POSITIVE + 1, POSITIVE),
    "polygamma": (lambda x: jax.scipy.special.polygamma(1, x), POSITIVE),
    "approx_max_k": (lambda x: lax.approx_max_k(x, 5), LONG),
    "moe": (lambda x: jax.nn.softmax(lax.top_k(x.reshape(50, 20), 2)[0]), LONG),
    "conv": (lambda x: lax.conv_general_dilated(x, x[:1, :3, :3].transpose(1, 2, 3, 0), (1, 1), "SAME",
                                                 dimension_numbers=("NHWC", "HWIO", "NHWC")), IMAGE),
    "max_pool": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), IMAGE),
    "resize": (lambda x: jax.image.resize(x, (2, 5, 5, 3), "bilinear"), IMAGE),
    "choice": (lambda x: jax.random.choice(jax.random.key(0), x, (5,), replace=False), LONG),
    "gamma": (lambda x: jax.random.gamma(jax.random.key(0), x), POSITIVE),
    "grad_erf": (jax.grad(lambda x: lax.erf(x).sum()), VECTOR),
    "associative_scan": (lambda x: lax.associative_scan(jnp.add, x), LONG),
    "interp": (lambda x: jnp.interp(x, jnp.sort(x), x), VECTOR),
    "histogram": (lambda x: jnp.histogram(x, 10)[0], LONG),
    "polyfit": (lambda x: jnp.polyfit(x, x * x, 3), VECTOR),
}  # fmt: skip


@pytest.fixture
def compiled():
    """The bytes of the programs that PJRT compiles."""
    programs = []

    def record(program, *rest):
        programs.append(bytes(program))  # a view of memory that lasts for the call
        return plugin._compile(program, *rest)

    _ipu.set_compiler(record)
    try:
        yield programs
    finally:
        _ipu.set_compiler(plugin._compile)


def check(function, args, compiled):
    with jax.default_device(ipu):
        run = jax.jit(lambda *args: function(*args))
        program = program_of(run, tuple(args), {})
        jax.block_until_ready(run(*args))
        assert program.mlir == compiled[-1]
        estimate = jax_ipu.estimate(function, *args)
        before = jax_ipu.counters(ipu)
        jax.block_until_ready(run(*args))
        after = jax_ipu.counters(ipu)
    if estimate.unknown_trip_counts == 0:
        assert estimate.cycles == after.cycles - before.cycles
    assert estimate.host_bytes_in == after.h2d_bytes - before.h2d_bytes
    assert estimate.host_bytes_out == after.d2h_bytes - before.d2h_bytes


@pytest.mark.parametrize("name", SAMPLE)
def test_functions(name, compiled):
    function, *args = SAMPLE[name]
    check(function, args, compiled)


@pytest.mark.nightly
@pytest.mark.parametrize("name", OTHERS)
def test_other_functions(name, compiled):
    function, *args = OTHERS[name]
    check(function, args, compiled)


@pytest.mark.nightly
@pytest.mark.parametrize("index", range(len(ROWS)), ids=lambda i: f"{i}-{ROWS[i].op}")
def test_rows_of_the_op_table(index, compiled):
    row = ROWS[index]
    for dtype in row.dtypes[:1]:
        for case in row.cases:
            args = [array(*s, dtype=dtype, low=row.low, high=row.high) if isinstance(s, tuple) else s for s in case]
            check(row.function, args, compiled)
