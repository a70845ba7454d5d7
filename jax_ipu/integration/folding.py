"""Evaluates jaxprs where what is known at trace time is computed with NumPy, so that it selects branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class Unknown(Exception):
    """A value that depends on more than what is known."""


def _quotient(a: Any, b: Any) -> Any:
    """Rounds to zero, as StableHLO's divide does for integers."""
    return np.where((a < 0) != (b < 0), -(np.abs(a) // np.abs(b)), np.abs(a) // np.abs(b)).astype(np.result_type(a))


# Each is elementwise, so scalars may be arrays of all grid points.
_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "add": np.add,
    "and": np.bitwise_and,
    "clamp": lambda low, x, high: np.clip(x, low, high),
    "div": _quotient,
    "eq": np.equal,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "not": np.invert,
    "or": np.bitwise_or,
    "rem": np.fmod,
    "select_n": lambda which, *cases: np.choose(np.asarray(which, np.intp), cases),
    "shift_left": np.left_shift,
    "shift_right_arithmetic": np.right_shift,
    "sign": np.sign,
    "sub": np.subtract,
    "xor": np.bitwise_xor,
}
_INLINED = ("closed_call", "jit", "pjit")


def _known(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic)


def _folded(equation: Any, values: Sequence[Any]) -> Any:
    """The value of an equation of known integers and booleans, or None where it has no rule here."""
    if any(np.asarray(v).dtype.kind not in "iub" for v in values):
        return None
    name = equation.primitive.name
    if name == "convert_element_type":
        dtype = np.dtype(equation.params["new_dtype"])
        return np.asarray(values[0]).astype(dtype) if dtype.kind in "iub" else None
    if name in _ELEMENTWISE and all(not v.aval.shape for v in equation.invars):
        return _ELEMENTWISE[name](*values)
    return None


def _bind(equation: Any, operands: Sequence[Any]) -> Any:
    with equation.ctx.manager:
        return equation.primitive.bind(*operands, **equation.primitive.get_bind_params(equation.params))


def evaluate(
    jaxpr: Any,
    consts: Sequence[Any],
    arguments: Sequence[Any],
    read: Callable[[Any], Any] | None = None,
    otherwise: Callable[[Any, Sequence[Any]], Any] = _bind,
) -> list[Any]:
    """The results of a jaxpr. NumPy values are known; all others are traced.

    Args:
        jaxpr: an open or closed jaxpr.
        consts: of its constant variables.
        arguments: one for each input variable.
        read: gives the value of an equation without operands, such as ``program_id``, or None.
        otherwise: gives the results of an equation that is not folded.
    """
    from jax._src import core

    open_jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    environment: dict[Any, Any] = dict(zip(open_jaxpr.constvars, consts, strict=True))
    environment.update(zip(open_jaxpr.invars, arguments, strict=True))

    def value(atom: Any) -> Any:
        if not isinstance(atom, core.Literal):
            return environment[atom]
        aval: Any = atom.aval
        return np.asarray(atom.val, aval.dtype) if aval.dtype.kind in "iub" else atom.val

    def apply(equation: Any, operands: list[Any]) -> Any:
        name = equation.primitive.name
        if not operands and read is not None:
            found = read(equation)
            if found is not None:
                return found
        if name in _INLINED:
            inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
            return evaluate(inner, inner.consts, operands, read, otherwise)
        if name == "cond" and _known(operands[0]):
            branches = equation.params["branches"]
            branch = branches[int(np.clip(operands[0], 0, len(branches) - 1))]
            return evaluate(branch, branch.consts, operands[1:], read, otherwise)
        if operands and all(map(_known, operands)):
            found = _folded(equation, operands)
            if found is not None:
                return found
        return otherwise(equation, operands)

    for equation in open_jaxpr.eqns:
        results = apply(equation, [value(v) for v in equation.invars])
        environment.update(
            zip(equation.outvars, results if equation.primitive.multiple_results else [results], strict=True)
        )
    return [value(v) for v in open_jaxpr.outvars]


def integers(closed_jaxpr: Any, arguments: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """The results of a jaxpr of scalar integers for arrays of arguments; an argument of None is not known.

    Raises:
        Unknown: a result depends on an argument of None, or on a primitive that has no rule here.
    """

    def unknown(equation: Any, _: Sequence[Any]) -> Any:
        return [None] * len(equation.outvars) if equation.primitive.multiple_results else None

    results = evaluate(closed_jaxpr, closed_jaxpr.consts, arguments, otherwise=unknown)
    if not all(map(_known, results)):
        raise Unknown
    return results
