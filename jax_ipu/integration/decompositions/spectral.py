"""JAX's spectral divide and conquer for Hermitian matrices, written for TPUs. Tested with jax 0.10.2 and 0.12.0."""

from __future__ import annotations

import functools
from typing import Any

# Blocks of up to this size are left to Jacobi's method, as on TPUs.
_LARGEST_WHOLE = 256


def qdwh(a: Any) -> tuple[Any, Any]:
    """Eigenvectors (..., n, n) and eigenvalues (..., n), ascending, of Hermitian (..., n, n).

    Nakatsukasa and Higham, Stable and efficient spectral divide and conquer algorithms for the symmetric eigenvalue
    decomposition and the SVD, 2013. JAX ends the division with an eigenproblem of a block that is padded with zeros. It
    relies on Jacobi's method, which leaves the zeros in their places, so that method is requested explicitly.
    """
    import jax
    from jax import lax
    from jax._src.tpu.linalg import eigh
    from jax.extend import core

    if a.shape[-1] <= _LARGEST_WHOLE:
        vectors, values = lax.linalg.eigh(
            a, symmetrize_input=False, implementation=lax.linalg.EighImplementation.JACOBI
        )
        return vectors, values
    if a.ndim > 2:
        vectors, values = lax.map(qdwh, a)
        return vectors, values
    divided: Any = functools.partial(eigh.eigh, termination_size=_LARGEST_WHOLE)
    values, vectors = core.jaxpr_as_fun(_ending_with_jacobi(jax.make_jaxpr(divided)(a)))(a)
    return vectors, values


def _ending_with_jacobi(value: Any) -> Any:
    """The jaxpr, or the parameter of an equation, with Jacobi's method requested for every eigenproblem inside."""
    from jax._src.lax import linalg
    from jax.extend import core

    # From jax 0.12 on all jaxprs are closed.
    if isinstance(value, core.ClosedJaxpr) and value.jaxpr is not value:
        return _with(value, jaxpr=_ending_with_jacobi(value.jaxpr))
    if isinstance(value, core.Jaxpr):
        return _with(value, eqns=[_ending_with_jacobi(equation) for equation in value.eqns])
    if isinstance(value, core.JaxprEqn):
        params = {name: _ending_with_jacobi(param) for name, param in value.params.items()}
        if value.primitive is linalg.eigh_p:
            params["algorithm"] = linalg.EighImplementation.JACOBI
        return _with(value, params=params)
    if type(value) in (tuple, list):
        return type(value)(_ending_with_jacobi(item) for item in value)
    return value


def _with(value: Any, **changes: Any) -> Any:
    return value.replace(**changes)
