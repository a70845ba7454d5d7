"""What JAX has no generic form of: QR, Hessenberg, tridiagonal, the Hermitian eigenproblem, tridiagonal systems.

Written in JAX and lowered for ``ipu`` in place of LAPACK, with LAPACK's results. JAX's generic SVD and polar
decomposition build on them. `eig` and `schur` have no rule, as on other accelerators: JAX says so. Tested with jax
0.10.2 and 0.12.0.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from jax_ipu.integration.hermitian import eigh
from jax_ipu.integration.householder import geqp3, geqrf, hessenberg, householder_product, over_batches, tridiagonal
from jax_ipu.integration.tridiagonal_solve import tridiagonal_solve

PLATFORM = "ipu"


def enable() -> None:
    """Registers the lowerings. Importing JAX's module of the SVD registers its generic one."""
    from jax._src.interpreters import mlir
    from jax._src.lax import linalg

    importlib.import_module("jax._src.tpu.linalg.svd")
    rules: dict[Any, Callable[..., Any]] = {
        linalg.geqrf_p: over_batches(geqrf),
        linalg.geqp3_p: _pivoted,
        linalg.householder_product_p: over_batches(householder_product),
        linalg.hessenberg_p: over_batches(hessenberg),
        linalg.tridiagonal_p: tridiagonal,
        linalg.eigh_p: eigh,
        linalg.tridiagonal_solve_p: tridiagonal_solve,
    }
    for primitive, rule in rules.items():
        lowering = mlir.lower_fun(_with_usual_promotion(rule), multiple_results=primitive.multiple_results)
        mlir.register_lowering(primitive, _on_plain_arrays(lowering), platform=PLATFORM)
    for primitive in (linalg.lu_p, linalg.qr_p, linalg.svd_p):
        generic = mlir._lowerings[primitive].rule
        mlir.register_lowering(primitive, _on_plain_arrays(generic), platform=PLATFORM)


def _on_plain_arrays(lowering: Callable[..., Any]) -> Callable[..., Any]:
    """The lowering, without the mesh axes that the types of its operands name.

    The loops in these rules start from constants, which do not vary over the axes of a mesh as the operands may; and
    what they gather has no place in a sharding that the user chooses. XLA partitions what is in them.
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
    """The rule, whatever the user asks of the promotion of types and ranks in code of their own."""

    @functools.wraps(rule)
    def wrapped(*args: Any, **params: Any) -> Any:
        import jax

        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            return rule(*args, **params)

    return wrapped


def _pivoted(a: Any, pivots: Any, *, use_magma: bool | None) -> Any:
    del use_magma  # a choice between libraries for GPUs
    return over_batches(geqp3)(a, pivots)
