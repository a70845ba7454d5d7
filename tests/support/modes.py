"""Runs a function on the model in every execution mode, without JAX's runtime, and compares with JAX on CPU."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ipu import _ipu, compiler
from jax_ipu.integration.programs import artifact
from support.cpu_programs import QUICK, QUICKER, compiled

# (execution, tiles): both modes, with few tiles and with all of them.
MODES = [("fast", 8), ("fast", 1472), ("tile", 8), ("tile", 1472)]
each_mode = pytest.mark.parametrize("mode", MODES, ids=lambda mode: f"{mode[0]}{mode[1]}")
# Also as vertices of the library hlo.
with_codelets = pytest.mark.parametrize("mode", [*MODES, ("codelets", 8)], ids=lambda mode: f"{mode[0]}{mode[1]}")

# Relative tolerances by result type. Differences come from the order of sums and the last places of transcendental
# functions.
RTOL = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-5, "complex64": 2e-5, "float64": 1e-12, "complex128": 1e-12}


def lower(function, *args):
    """Returns the StableHLO text to which JAX lowers the function for the platform, and JAX's Lowered."""
    lowered = jax.jit(function).trace(*args).lower(lowering_platforms=("ipu",))
    return str(lowered.compiler_ir("stablehlo")).encode(), lowered


@functools.lru_cache(maxsize=8)
def _executable(program: bytes, tiles: int):
    """Returns the program compiled: the modes of a test share it, as they are ways to run one executable."""
    return compiler.compile(program, "mlir", b"", f"ipu2:{tiles}")


def run_ipu(function, args, mode, as_jit=False):
    """Returns the flat results of the function on the model, as NumPy arrays.

    `as_jit`: jaxlib first expands ops or makes composites of them, as it does for the plugin. Otherwise the program is
    the one that JAX writes, as other clients may hand it over.
    """
    execution, tiles = mode
    program, lowered = lower(function, *args)
    if as_jit:
        program = artifact(lowered.compiler_ir("stablehlo"))
    executable = _executable(program, tiles)
    flat = [np.asarray(a) for a in jax.tree.leaves(args)]
    kept = sorted(lowered._lowering.compile_args["kept_var_idx"])
    results = _ipu.run(executable, [flat[i].tobytes() for i in kept], execution)
    avals = jax.tree.leaves(lowered.out_info)
    return [np.frombuffer(r, jnp.dtype(a.dtype)).reshape(a.shape) for r, a in zip(results, avals, strict=True)]


@functools.cache
def cpu_jit(function):
    return jax.jit(function, backend="cpu")


_WIDE = frozenset(("bool", "int32", "uint32", "int64", "uint64", "float32", "float64"))


def _are_finite(leaves) -> bool:
    floats = [x for x in map(np.asarray, leaves) if jnp.issubdtype(x.dtype, jnp.inexact)]
    return all(np.isfinite(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)).all() for x in floats)


def on_cpu(function, args):
    """Returns the results of the function as JAX's arrays, computed by JAX on CPU.

    XLA's unoptimised code loses NaN in large reductions: where a value is not finite, the optimised code computes.
    """
    lowered = cpu_jit(function).lower(*args)
    if _are_finite(jax.tree.leaves(args)):
        types = {np.result_type(x).name for x in jax.tree.leaves((args, lowered.out_info))}
        results = compiled(lowered, args, QUICKER if types <= _WIDE else QUICK)(*args)
        if _are_finite(jax.tree.leaves(results)):
            return results
    return compiled(lowered, args, {})(*args)


def forget_executables() -> None:
    """Compiles anew from here on: for tests that change what compiles."""
    _executable.cache_clear()


def close(actual: np.ndarray, expected: np.ndarray, rtol: float | None = None, atol: float | None = None) -> None:
    """Checks that shape and dtype are equal, and that values are equal (integers, booleans) or within the tolerance."""
    assert actual.shape == expected.shape and actual.dtype == expected.dtype, (actual.dtype, actual.shape)
    name = expected.dtype.name
    if name in RTOL:
        tolerance = RTOL[name] if rtol is None else rtol
        wide = np.complex128 if "complex" in name else np.float64
        scale = np.abs(expected.astype(wide)[np.isfinite(expected.astype(wide))]).max(initial=0)
        np.testing.assert_allclose(
            actual.astype(wide), expected.astype(wide), rtol=tolerance, atol=tolerance * scale if atol is None else atol
        )
    else:
        # np.isnan does not support the narrow types of ml_dtypes.
        wide = np.float32 if name.startswith(("float8", "float4")) else expected.dtype
        np.testing.assert_array_equal(actual.astype(wide), expected.astype(wide))


def check(function, *args, mode, rtol=None, atol=None, grad=False) -> None:
    """Compares value, dtype and shape with JAX on CPU and, if asked, the gradient of a weighted sum of the results."""
    args = jax.tree.map(np.asarray, args)
    expected = [np.asarray(x) for x in jax.tree.leaves(on_cpu(function, args))]
    actual = run_ipu(function, args, mode)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        close(a, e, rtol, atol)
    if grad:
        wrt = tuple(i for i, a in enumerate(args) if np.issubdtype(a.dtype, np.floating))
        check(_gradient(function, wrt), *args, mode=mode, rtol=rtol and 4 * rtol, atol=atol and 4 * atol)


@functools.cache
def _gradient(function, wrt: tuple[int, ...]):
    """Returns the gradient of a weighted sum of the results: one function, which JAX traces once for all modes."""

    def scalar(*xs):
        leaves = jax.tree.leaves(function(*xs))
        return sum(jnp.sum(jnp.sin(jnp.arange(x.size, dtype=x.dtype).reshape(x.shape)) * x) for x in leaves)

    return jax.grad(scalar, argnums=wrt)


def array(*shape, dtype="float32", seed=0, low=-2.0, high=2.0):
    """Reproducible uniform values of any dtype."""
    rng = np.random.default_rng(seed)
    kind = jnp.dtype(dtype)
    if kind == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if kind.kind in "iu":
        info = jnp.iinfo(kind)
        return rng.integers(max(info.min, -50), min(info.max, 50), shape, endpoint=True).astype(kind)
    if kind.kind == "c":
        return (rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape)).astype(kind)
    return rng.uniform(low, high, shape).astype(kind)
