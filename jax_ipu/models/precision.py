"""Changes the float types of a traced function to half precision, everywhere or where that is safe.

"float16" computes all float32 operations in float16. "mixed" computes products, convolutions and the operations between
them in float16, and sums, exponentials, divisions and roots (hence normalisations, softmax and losses) in float32; the
result of a float32 operation stays float32 up to the next product. Other types that the model uses (bfloat16, int8,
...) do not change, nor do primitives that contain a float32 program or exist only in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxprs_in_params

from jax_ipu.integration.equations import at_source_line, scan_operands
from jax_ipu.models.recompute import in_order_of_use

PRECISIONS = ("float32", "float16", "mixed")

_HALF = np.dtype(np.float16)
_WIDE = (np.dtype(np.float32), np.dtype(np.float64))
# Operations that always compute in float16.
_PRODUCTS = frozenset(("dot_general", "conv_general_dilated"))
# Operations that "mixed" always computes in float32: they sum many terms or easily leave the range of float16.
_SENSITIVE = frozenset(
    """reduce_sum reduce_prod reduce_window_sum cumsum cumprod cumlogsumexp reduce_window
    exp exp2 expm1 log log1p pow integer_pow square sqrt rsqrt cbrt div logistic lgamma digamma erfc erf_inv""".split()
)
# Operations that keep the types they were traced with: they exist only in float32, use the bits, or call the host.
_ORIGINAL = frozenset(
    """bitcast_convert_type cholesky lu eig eigh svd qr geqrf householder_product triangular_solve tridiagonal
    tridiagonal_solve schur hessenberg fft pure_callback io_callback debug_callback ffi_call custom_call call_exported
    random_gamma_grad igamma igammac igamma_grad_a bessel_i0e bessel_i1e regularized_incomplete_beta zeta polygamma
    reduce_precision nextafter""".split()
)
_RECOMPUTED = ("remat2", "checkpoint")
_TYPE_PARAMETERS = ("dtype", "new_dtype", "preferred_element_type", "out_dtype")


def storage_dtype(dtype: np.dtype[Any], precision: str) -> np.dtype[Any]:
    """Returns the type on the IPU of weights and inputs of type `dtype`."""
    if precision != "float32" and dtype in _WIDE:
        return _HALF
    return np.dtype(jax.dtypes.canonicalize_dtype(dtype))


def retyped(closed: ClosedJaxpr, precision: str) -> Callable[..., list[Any]]:
    """Returns `closed` as a function of (constants, arguments) that computes in the given precision."""

    def run(consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        return _Retyping(precision).run(closed.jaxpr, consts, args)

    return run


def _is_flexible(dtype: Any) -> bool:
    return dtype in _WIDE


def _cast(value: Any, dtype: Any) -> Any:
    return value if jnp.result_type(value) == dtype else jax.lax.convert_element_type(value, dtype)


class _Retyping:
    """Evaluates a jaxpr with float types other than those of its trace."""

    def __init__(self, precision: str) -> None:
        self._unchanged = precision == "float32"
        self._mixed = precision == "mixed"
        # The type of loop carries and of the results of conditional branches, which must be the same on all paths.
        self._carried = np.dtype(np.float32) if self._mixed else _HALF

    def run(self, jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        values: dict[Any, Any] = {}

        def read(atom: Any) -> Any:
            return atom.val if isinstance(atom, Literal) else values[atom]

        values.update(zip(jaxpr.constvars, consts, strict=True))
        values.update(zip(jaxpr.invars, args, strict=True))
        for eqn in jaxpr.eqns:
            with at_source_line(eqn):
                results = self._evaluate(eqn, [read(atom) for atom in eqn.invars])
            values.update(zip(eqn.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _evaluate(self, eqn: Any, operands: list[Any]) -> Sequence[Any]:
        name = eqn.primitive.name
        if self._unchanged and name not in _RECOMPUTED:
            return _bind(eqn, operands, eqn.params)
        special = _SPECIAL.get(name)
        if special is not None:
            return special(self, eqn, operands)
        inner = _inlined(eqn)
        if inner is not None:
            return self.run(*inner, operands)
        if name in _ORIGINAL or any(jaxprs_in_params(eqn.params)):
            return self._bind_original(eqn, operands)
        return self._bind(eqn, operands)

    def _bind(self, eqn: Any, operands: list[Any]) -> Sequence[Any]:
        target = self._target(eqn, operands)
        params = dict(eqn.params)
        for key in _TYPE_PARAMETERS:
            if params.get(key) is not None and _is_flexible(np.dtype(params[key])):
                params[key] = target
        cast = [
            _cast(value, target) if _is_flexible(atom.aval.dtype) else value
            for atom, value in zip(eqn.invars, operands, strict=True)
        ]
        return _bind(eqn, cast, params)

    def _bind_original(self, eqn: Any, operands: list[Any]) -> Sequence[Any]:
        cast = [
            _cast(value, atom.aval.dtype) if _is_flexible(getattr(atom.aval, "dtype", None)) else value
            for atom, value in zip(eqn.invars, operands, strict=True)
        ]
        return _bind(eqn, cast, eqn.params)

    def _target(self, eqn: Any, operands: list[Any]) -> np.dtype[Any]:
        """Returns the type in which an operation computes."""
        name = eqn.primitive.name
        if not self._mixed or name in _PRODUCTS:
            return _HALF
        if name in _SENSITIVE:
            return np.dtype(np.float32)
        present = [
            jnp.result_type(value)
            for atom, value in zip(eqn.invars, operands, strict=True)
            if not isinstance(atom, Literal) and _is_flexible(atom.aval.dtype)
        ]
        halves = bool(present) and all(dtype == _HALF for dtype in present)
        return _HALF if halves else np.dtype(np.float32)

    # Operations with inner programs --------------------------------------------------------------------------------

    def _carry(self, avals: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        return [
            _cast(value, self._carried) if _is_flexible(aval.dtype) else value
            for aval, value in zip(avals, values, strict=True)
        ]

    def _remat(self, eqn: Any, operands: list[Any]) -> Sequence[Any]:
        # Keep the primitive: its barrier prevents that the recomputation is merged with the first computation.
        inner, consts = _opened(eqn.params["jaxpr"])
        traced = jax.make_jaxpr(lambda *args: self.run(inner, consts, args))(*operands)
        if traced.consts:
            return self.run(inner, consts, operands)
        return _bind(eqn, operands, {**eqn.params, "jaxpr": in_order_of_use(traced.jaxpr)})

    def _scan(self, eqn: Any, operands: list[Any]) -> Sequence[Any]:
        body, body_consts = _opened(eqn.params["jaxpr"])
        consts, first, xs = scan_operands(eqn.params, operands)
        carry_avals = [v.aval for v in body.invars[len(consts) : len(consts) + len(first)]]

        def step(carry: list[Any], xs: list[Any]) -> tuple[list[Any], list[Any]]:
            outs = self.run(body, body_consts, [*consts, *carry, *xs])
            return self._carry(carry_avals, outs[: len(carry)]), outs[len(carry) :]

        last, ys = jax.lax.scan(
            step,
            self._carry(carry_avals, first),
            xs,
            length=eqn.params["length"],
            reverse=eqn.params["reverse"],
            unroll=eqn.params["unroll"],
        )
        return [*last, *ys]

    def _while(self, eqn: Any, operands: list[Any]) -> Sequence[Any]:
        params = eqn.params
        cond, cond_captured = _opened(params["cond_jaxpr"])
        body, body_captured = _opened(params["body_jaxpr"])
        in_cond, in_body = params["cond_nconsts"], params["body_nconsts"]
        cond_consts, body_consts = operands[:in_cond], operands[in_cond : in_cond + in_body]
        avals = [v.aval for v in body.invars[in_body:]]

        def step(carry: list[Any]) -> list[Any]:
            return self._carry(avals, self.run(body, body_captured, [*body_consts, *carry]))

        result: list[Any] = jax.lax.while_loop(
            lambda carry: self.run(cond, cond_captured, [*cond_consts, *carry])[0],
            step,
            self._carry(avals, operands[in_cond + in_body :]),
        )
        return result

    def _cond(self, eqn: Any, operands: list[Any]) -> Sequence[Any]:
        def branch(program: Any) -> Callable[..., list[Any]]:
            jaxpr, consts = _opened(program)
            return lambda *args: self._carry([v.aval for v in jaxpr.outvars], self.run(jaxpr, consts, args))

        index, *rest = operands
        branches = [branch(program) for program in eqn.params["branches"]]
        result: list[Any] = jax.lax.switch(jnp.asarray(index, jnp.int32), branches, *rest)
        return result

    # Conversions -----------------------------------------------------------------------------------------------------

    def _convert_element_type(self, eqn: Any, operands: list[Any]) -> Sequence[Any]:
        (value,) = operands
        wanted = np.dtype(eqn.params["new_dtype"])
        if not _is_flexible(wanted):
            return [_cast(value, wanted)]
        if self._mixed:
            # A conversion from a type that is not retyped, such as int32, gives float32; others keep the value's type.
            return [value if _is_flexible(eqn.invars[0].aval.dtype) else _cast(value, np.dtype(np.float32))]
        return [_cast(value, _HALF)]


_SPECIAL: dict[str, Callable[[_Retyping, Any, list[Any]], Sequence[Any]]] = {
    "remat2": _Retyping._remat,
    "checkpoint": _Retyping._remat,
    "scan": _Retyping._scan,
    "while": _Retyping._while,
    "cond": _Retyping._cond,
    "convert_element_type": _Retyping._convert_element_type,
}


def _opened(program: Any) -> tuple[Jaxpr, Sequence[Any]]:
    """Returns (jaxpr, constants) of a closed jaxpr, or of an open one, which has no constants."""
    return getattr(program, "jaxpr", program), getattr(program, "consts", ())


def _inlined(eqn: Any) -> tuple[Jaxpr, Sequence[Any]] | None:
    """Returns the inner program of a primitive that only calls it, or None."""
    if eqn.primitive.name not in ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call"):
        return None
    for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        if key in eqn.params:
            return _opened(eqn.params[key])
    return None


def _bind(eqn: Any, operands: Sequence[Any], params: dict[str, Any]) -> Sequence[Any]:
    results = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(params))
    return results if eqn.primitive.multiple_results else [results]
