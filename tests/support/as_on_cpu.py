"""Linear algebra on the IPU against LAPACK on the CPU."""

import jax
import numpy as np

from support.modes import on_cpu

ipu = jax.devices("ipu")[0]


def run(function, *args):
    """Runs on the IPU, with 64-bit types if the arguments have them."""
    with jax.enable_x64(any(np.asarray(a).dtype.itemsize * (1 + np.isrealobj(a)) > 8 for a in args)):
        return jax.tree.map(np.asarray, jax.jit(function)(*jax.device_put(args, ipu)))


def reference(function, *args):
    """The same on the CPU."""
    with jax.enable_x64(any(np.asarray(a).dtype.itemsize * (1 + np.isrealobj(a)) > 8 for a in args)):
        return jax.tree.map(np.asarray, on_cpu(function, args))


def tolerance(dtype):
    """The relative error of a type."""
    return 2e-5 if dtype in ("float32", "complex64") else 1e-12


def check_as_on_cpu(function, *args):
    """Compares the results of the IPU and the CPU."""
    dtype = np.asarray(args[0]).dtype.name
    for got, want in zip(
        jax.tree.leaves(run(function, *args)), jax.tree.leaves(reference(function, *args)), strict=True
    ):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=20 * tolerance(dtype), atol=20 * tolerance(dtype))
