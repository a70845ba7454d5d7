"""Decompositions in programs exported with symbolic dimensions, compared with the same programs with known sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax._src.lax import linalg

from jax_ipu.integration import symbolic_sizes

ipu = jax.devices("ipu")[0]


def matrix(*shape, dtype="float32"):
    generator = np.random.default_rng(0)
    x = generator.standard_normal(shape)
    return (x + 1j * generator.standard_normal(shape) if dtype.startswith("complex") else x).astype(dtype)


def exported(function, dimensions, *args):
    """The function, exported for `ipu` with the symbolic `dimensions` of each argument."""
    scope = export.SymbolicScope()
    shapes = [export.symbolic_shape(names, scope=scope) for names in dimensions]
    specs = [jax.ShapeDtypeStruct(shape, x.dtype) for shape, x in zip(shapes, args, strict=True)]
    return export.export(jax.jit(function), platforms=("ipu",))(*specs)


def check(function, dimensions, *args):
    with jax.enable_x64(any(x.dtype.itemsize * (1 + np.isrealobj(x)) > 8 for x in args)):
        args = jax.device_put(args, ipu)
        got = jax.jit(exported(function, dimensions, *args).call)(*args)
        want = jax.jit(function)(*args)
        jax.tree.map(np.testing.assert_array_equal, got, want)


CASES = {
    "lu": (linalg.lu, ["b, n, n"], matrix(2, 5, 5)),
    "lu of bfloat16": (linalg.lu, ["b, n, n"], matrix(2, 5, 5).astype(jnp.bfloat16)),
    "lu of another shape": (linalg.lu, ["m, n"], matrix(4, 6)),
    "qr": (lambda a: linalg.qr(a, full_matrices=False), ["m, n"], matrix(6, 4)),
    "svd": (lambda a: linalg.svd(a, algorithm=linalg.SvdAlgorithm.POLAR), ["m, n"], matrix(4, 6)),
    "eigh": (lambda a: linalg.eigh(a + a.conj().T), ["n, n"], matrix(5, 5, dtype="complex64")),
    "eig": (linalg.eig, ["b, n, n"], matrix(2, 4, 4)),
    "schur": (linalg.schur, ["n, n"], matrix(5, 5)),
    "hessenberg": (linalg.hessenberg, ["n, n"], matrix(5, 5)),
    "tridiagonal systems": (linalg.tridiagonal_solve, ["n", "n", "n", "n, k"], *matrix(3, 5), matrix(5, 2)),
    "64 bits": (jnp.linalg.inv, ["n, n"], matrix(5, 5, dtype="float64")),
    "two of one kind": (lambda a, b: jnp.linalg.inv(a) @ jnp.linalg.inv(b), ["n, n"] * 2, matrix(5, 5), matrix(5, 5)),
    "two sizes": (lambda a, b: (jnp.linalg.inv(a), jnp.linalg.inv(b)), ["n, n", "m, m"], matrix(5, 5), matrix(3, 3)),
    "in a loop": (lambda a: jax.lax.map(jnp.linalg.det, a), ["b, n, n"], matrix(2, 4, 4)),
    "gradient": (jax.grad(lambda a: jnp.linalg.slogdet(a)[1]), ["n, n"], matrix(5, 5)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_result_is_that_of_known_sizes(case):
    check(*case)


def test_an_exported_program_is_called_with_several_sizes():
    program = exported(jnp.linalg.inv, ["n, n"], matrix(2, 2))
    for n in (1, 3, 7):
        a = jax.device_put(matrix(n, n), ipu)
        np.testing.assert_allclose(program.call(a) @ a, np.eye(n), atol=1e-4)


def test_the_call_survives_serialisation():
    program = export.deserialize(exported(linalg.lu, ["m, n"], matrix(2, 2)).serialize())
    a = jax.device_put(matrix(4, 6), ipu)
    jax.tree.map(np.testing.assert_array_equal, program.call(a), jax.jit(linalg.lu)(a))


def test_a_parameter_that_is_a_function_is_refused():
    def schur(a):
        return linalg.schur(a, sort_eig_vals=True, select_callable=lambda x: x > 0)

    with pytest.raises(TypeError, match="program with symbolic dimensions: the parameter <function"):
        exported(schur, ["n, n"], matrix(5, 5))


def test_programs_without_such_calls_are_left_alone():
    program = exported(lambda a: a @ a, ["n, n"], matrix(2, 2))
    assert symbolic_sizes.CALL_TARGET not in str(program.mlir_module())
    a = jax.device_put(matrix(3, 3), ipu)
    np.testing.assert_allclose(program.call(a), matrix(3, 3) @ matrix(3, 3), rtol=1e-5, atol=1e-6)
