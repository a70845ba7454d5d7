"""Lowerings of JAX's decompositions: QR, LU, Hessenberg, tridiagonal, Schur, SVD, eigenproblems; and of its solvers of
tridiagonal and sparse systems.

Written in JAX and lowered for ``ipu`` in place of LAPACK, with LAPACK's results. JAX's generic polar decomposition
builds on them. Tested with jax 0.10.2 and 0.12.0.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable
from typing import Any

from jax_ipu.integration import late_imports, sparse_solve, symbolic_sizes
from jax_ipu.integration.decompositions import native

PLATFORM = "ipu"


def enable() -> None:
    """Registers the lowerings."""
    from jax._src.interpreters import mlir
    from jax._src.lax import linalg

    native.enable()
    rules: dict[Any, Callable[..., Any]] = {
        linalg.geqrf_p: _loaded("householder", "geqrf", batched=True),
        linalg.geqp3_p: _pivoted,
        linalg.householder_product_p: _loaded("householder", "householder_product", batched=True),
        linalg.hessenberg_p: _loaded("householder", "hessenberg", batched=True),
        linalg.tridiagonal_p: _loaded("householder", "tridiagonal"),
        linalg.lu_p: _loaded("lu", "lu", batched=True),
        linalg.eigh_p: _loaded("hermitian", "eigh"),
        linalg.schur_p: _loaded("schur", "schur"),
        linalg.svd_p: _loaded("singular_values", "svd"),
        linalg.eig_p: _loaded("eig", "eig"),
        linalg.tridiagonal_solve_p: _loaded("tridiagonal_solve", "tridiagonal_solve"),
    }
    for primitive, rule in rules.items():
        mlir.register_lowering(primitive, _lowering(primitive, rule), platform=PLATFORM)
    generic = (linalg.qr_p,)
    for primitive in generic:
        whole = _on_whole_matrices(_on_plain_arrays(mlir._lowerings[primitive].rule))
        mlir.register_lowering(primitive, symbolic_sizes.when_known(primitive, whole), platform=PLATFORM)
    expanded = {primitive.name: primitive for primitive in (*rules, *generic)}
    symbolic_sizes.enable(expanded)

    def register_spsolve(register_lowering: Any, module: Any) -> None:
        primitive = module.spsolve_p
        register_lowering(primitive, _lowering(primitive, sparse_solve.spsolve), platform=PLATFORM)
        expanded[primitive.name] = primitive

    late_imports.when_imported(sparse_solve.MODULE, sparse_solve.PRIMITIVE, register_spsolve)


def _loaded(module: str, function: str, *, batched: bool = False) -> Callable[..., Any]:
    """A rule of a module of this package, which is imported when the rule is first used.

    `batched`: it is written for one matrix.
    """

    def rule(*args: Any, **params: Any) -> Any:
        from jax_ipu.integration.decompositions.householder import over_batches

        found = getattr(importlib.import_module(f"jax_ipu.integration.decompositions.{module}"), function)
        return (over_batches(found) if batched else found)(*args, **params)

    return rule


def _lowering(primitive: Any, rule: Callable[..., Any]) -> Callable[..., Any]:
    from jax._src.interpreters import mlir

    lowering = mlir.lower_fun(_with_usual_promotion(rule), multiple_results=primitive.multiple_results)
    return symbolic_sizes.when_known(primitive, _on_whole_matrices(_on_plain_arrays(lowering)))


def _on_whole_matrices(lowering: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the lowering: every device has whole matrices; XLA decides how batches are split.

    A decomposition has thousands of small dependent steps. XLA would split each of them over the devices that have
    parts of the matrix, with a collective in every step. Loops of a batch are marked, so that devices with different
    parts of it do not wait for each other.
    """

    @functools.wraps(lowering)
    def lower(ctx: Any, *args: Any, **params: Any) -> Any:
        from jax._src.sharding_impls import ShardingContext
        from jax.experimental import xla_metadata

        from jax_ipu.compiler.frontend import batch_loops

        axes = ctx.module_context.axis_context
        if not isinstance(axes, ShardingContext) or axes.num_devices == 1:
            return lowering(ctx, *args, **params)
        first = ctx.avals_in[0].ndim
        # The results of these systems have the batch of their first operands, which are vectors.
        batch = first - 1 if ctx.primitive.name in ("tridiagonal_solve", sparse_solve.PRIMITIVE) else first - 2
        whole = [_whole(ctx, x, aval, batch) for x, aval in zip(args, ctx.avals_in, strict=True)]
        marked: Callable[..., Any] = xla_metadata.set_xla_metadata
        with marked(**{batch_loops.MARK: True}) if batch else contextlib.nullcontext():
            results = lowering(ctx, *whole, **params)
        return [_whole(ctx, x, aval, batch) for x, aval in zip(results, ctx.avals_out, strict=True)]

    return lower


def _whole(ctx: Any, value: Any, aval: Any, batch: int) -> Any:
    """Constrains the value: all dimensions after the first `batch` are replicated on every device."""
    from jax._src import config
    from jax._src.interpreters import mlir
    from jax._src.named_sharding import SdyArray, SdyDim
    from jaxlib import xla_client

    if config.use_shardy_partitioner.value:
        dims = tuple(SdyDim(axes=(), is_open=d < batch) for d in range(aval.ndim))
        return mlir.wrap_with_sharding_op(ctx, value, aval, SdyArray(mesh_shape=None, dim_shardings=dims))
    replicated = xla_client.HloSharding.replicate().to_proto()
    return mlir.wrap_with_sharding_op(ctx, value, aval, replicated, unspecified_dims=set(range(batch)))


def _on_plain_arrays(lowering: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the lowering: its operands have types without mesh axes.

    The loops in these rules start from constants, which do not vary over mesh axes as the operands may; and their
    gathers have no rule for shardings that the user chose. XLA partitions the operations of the rules.
    """

    @functools.wraps(lowering)
    def lower(ctx: Any, *args: Any, **params: Any) -> Any:
        from jax._src import core
        from jax.sharding import AxisType, get_abstract_mesh, use_abstract_mesh

        plain = ctx.replace(avals_in=[core.ShapedArray(aval.shape, aval.dtype) for aval in ctx.avals_in])
        mesh = get_abstract_mesh()
        if mesh.empty:
            return lowering(plain, *args, **params)
        with use_abstract_mesh(mesh.update_axis_types(dict.fromkeys(mesh.axis_names, AxisType.Auto))):
            return lowering(plain, *args, **params)

    return lower


def _with_usual_promotion(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the rule: it runs with JAX's default type and rank promotion, whatever the user has configured."""

    @functools.wraps(rule)
    def wrapped(*args: Any, **params: Any) -> Any:
        import jax

        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            return rule(*args, **params)

    return wrapped


def _pivoted(a: Any, pivots: Any, *, use_magma: bool | None) -> Any:
    from jax_ipu.integration.decompositions.householder import geqp3, over_batches

    del use_magma  # selects a GPU library
    return over_batches(geqp3)(a, pivots)
