"""ONNX operators on elements and reductions, as https://onnx.ai/onnx/operators defines them.

Operators that ONNX defines as functions of other operators need no entry here.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jax_ipu.models.frameworks.onnx_table import OPERATORS, Call, Function, ints, lowest, operator, static

# Elementwise ----------------------------------------------------------------------------------------------------------


def _divide(x: Any, y: Any) -> Any:
    # Integer division rounds towards zero.
    return jnp.divide(x, y) if jnp.issubdtype(jnp.result_type(x), jnp.inexact) else _same_shape(lax.div, x, y)


def _same_shape(function: Function, x: Any, y: Any) -> Any:
    return function(*jnp.broadcast_arrays(jnp.asarray(x), jnp.asarray(y)))


def _power(x: Any, y: Any) -> Any:
    if isinstance(y, np.ndarray) and y.size == 1 and y.ndim <= x.ndim and float(y.item()) in (2.0, 3.0, 4.0):
        return lax.integer_pow(x, int(y.item()))
    return jnp.power(x, y).astype(x.dtype)


_UNARY: dict[str, Function] = {
    "Abs": jnp.abs,
    "Acos": jnp.arccos,
    "Acosh": jnp.arccosh,
    "Asin": jnp.arcsin,
    "Asinh": jnp.arcsinh,
    "Atan": jnp.arctan,
    "Atanh": jnp.arctanh,
    "BitwiseNot": jnp.bitwise_not,
    "Ceil": jnp.ceil,
    "Cos": jnp.cos,
    "Cosh": jnp.cosh,
    "Erf": lax.erf,
    "Exp": jnp.exp,
    "Floor": jnp.floor,
    "Identity": lambda x: x,
    "IsNaN": jnp.isnan,
    "Log": jnp.log,
    "Neg": jnp.negative,
    "Not": jnp.logical_not,
    "Reciprocal": lambda x: 1 / x,
    "Relu": lambda x: jnp.maximum(x, jnp.zeros((), x.dtype)),
    "Round": jnp.round,
    "Sigmoid": jax.nn.sigmoid,
    "Sign": jnp.sign,
    "Sin": jnp.sin,
    "Sinh": jnp.sinh,
    "Softplus": jax.nn.softplus,
    "Softsign": jax.nn.soft_sign,
    "Sqrt": jnp.sqrt,
    "Tan": jnp.tan,
    "Tanh": jnp.tanh,
}
_BINARY: dict[str, Function] = {
    "Add": jnp.add,
    "And": jnp.logical_and,
    "BitwiseAnd": jnp.bitwise_and,
    "BitwiseOr": jnp.bitwise_or,
    "BitwiseXor": jnp.bitwise_xor,
    "Div": _divide,
    "Equal": jnp.equal,
    "Greater": jnp.greater,
    "GreaterOrEqual": jnp.greater_equal,
    "Less": jnp.less,
    "LessOrEqual": jnp.less_equal,
    "Mul": jnp.multiply,
    "Or": jnp.logical_or,
    "PRelu": lambda x, slope: jnp.where(x < 0, x * slope, x),
    "Pow": _power,
    "Sub": jnp.subtract,
    "Xor": jnp.logical_xor,
}
_VARIADIC: dict[str, Function] = {"Max": jnp.maximum, "Min": jnp.minimum, "Sum": jnp.add}


def _elementwise(function: Function) -> Function:
    return lambda call, *inputs: function(*inputs)


def _folded(function: Function) -> Function:
    def fold(call: Call, first: Any, *rest: Any) -> Any:
        for value in rest:
            first = function(first, value)
        return first

    return fold


for _name, _function in _UNARY.items():
    OPERATORS[_name] = (1, _elementwise(_function))
for _name, _function in _BINARY.items():
    OPERATORS[_name] = (7, _elementwise(_function))  # before opset 7, an attribute controlled broadcasting
for _name, _function in _VARIADIC.items():
    OPERATORS[_name] = (6, _folded(_function))


@operator("Mean", 6)
def _mean(call: Call, *inputs: Any) -> Any:
    return _folded(jnp.add)(call, *inputs) / len(inputs)


@operator("Mod")
def _mod(call: Call, x: Any, y: Any) -> Any:
    return jnp.fmod(x, y) if call.attributes.get("fmod", 0) else jnp.mod(x, y)


@operator("BitShift")
def _bit_shift(call: Call, x: Any, y: Any) -> Any:
    return jnp.left_shift(x, y) if call.attributes["direction"] == "LEFT" else jnp.right_shift(x, y)


@operator("IsInf")
def _is_inf(call: Call, x: Any) -> Any:
    positive, negative = (call.attributes.get(f"detect_{sign}", 1) for sign in ("positive", "negative"))
    return (jnp.isposinf(x) & bool(positive)) | (jnp.isneginf(x) & bool(negative))


@operator("Where")
def _where(call: Call, condition: Any, x: Any, y: Any) -> Any:
    return jnp.where(condition, x, y)


@operator("Clip", 6)
def _clip(call: Call, x: Any, low: Any = None, high: Any = None) -> Any:
    low = call.attributes.get("min", low)
    high = call.attributes.get("max", high)
    x = x if low is None else jnp.maximum(x, jnp.asarray(low, x.dtype))
    return x if high is None else jnp.minimum(x, jnp.asarray(high, x.dtype))


@operator("LeakyRelu")
def _leaky_relu(call: Call, x: Any) -> Any:
    return jnp.where(x < 0, x * call.attributes.get("alpha", 0.01), x).astype(x.dtype)


@operator("Elu")
def _elu(call: Call, x: Any) -> Any:
    return jnp.where(x < 0, call.attributes.get("alpha", 1.0) * jnp.expm1(jnp.minimum(x, 0)), x).astype(x.dtype)


@operator("Selu")
def _selu(call: Call, x: Any) -> Any:
    alpha = call.attributes.get("alpha", 1.6732631921768188)
    gamma = call.attributes.get("gamma", 1.0507010221481323)
    return (gamma * jnp.where(x > 0, x, alpha * jnp.expm1(jnp.minimum(x, 0)))).astype(x.dtype)


@operator("HardSigmoid")
def _hard_sigmoid(call: Call, x: Any) -> Any:
    alpha, beta = call.attributes.get("alpha", 0.2), call.attributes.get("beta", 0.5)
    return jnp.clip(alpha * x + beta, 0, 1).astype(x.dtype)


@operator("HardSwish")
def _hard_swish(call: Call, x: Any) -> Any:
    return x * jnp.clip(x / 6 + 0.5, 0, 1).astype(x.dtype)


@operator("Gelu")
def _gelu(call: Call, x: Any) -> Any:
    return jax.nn.gelu(x, approximate=call.attributes.get("approximate", "none") == "tanh")


@operator("Cast", 6)
def _cast(call: Call, x: Any) -> Any:
    return _as_type(x, call.types(call.attributes["to"]))


@operator("CastLike")
def _cast_like(call: Call, x: Any, like: Any) -> Any:
    return _as_type(x, like.dtype)


def _as_type(x: Any, dtype: Any) -> Any:
    return jnp.asarray(x).astype(jax.dtypes.canonicalize_dtype(dtype))


@operator("Dropout", 7)
def _dropout(call: Call, x: Any, ratio: Any = None, training: Any = None) -> Any:
    if training is not None and bool(static(training, "training_mode")):
        raise NotImplementedError("a Dropout that is exported for training draws random numbers of its own")
    return (x, jnp.ones(x.shape, bool))[: call.outputs]


# Reductions -----------------------------------------------------------------------------------------------------------


def _log_sum_exp(x: Any, axis: Any, keepdims: bool) -> Any:
    return jax.nn.logsumexp(x, axis=axis, keepdims=keepdims)


_REDUCTIONS: dict[str, Function] = {
    "ReduceL1": lambda x, axis, keepdims: jnp.sum(jnp.abs(x), axis, keepdims=keepdims),
    "ReduceL2": lambda x, axis, keepdims: jnp.sqrt(jnp.sum(x * x, axis, keepdims=keepdims)),
    "ReduceLogSum": lambda x, axis, keepdims: jnp.log(jnp.sum(x, axis, keepdims=keepdims)),
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceMax": lambda x, axis, keepdims: jnp.max(x, axis, keepdims=keepdims, initial=lowest(x)),
    "ReduceMean": lambda x, axis, keepdims: jnp.mean(x, axis, keepdims=keepdims),
    "ReduceMin": lambda x, axis, keepdims: jnp.min(x, axis, keepdims=keepdims, initial=_highest(x)),
    "ReduceProd": lambda x, axis, keepdims: jnp.prod(x, axis, keepdims=keepdims),
    "ReduceSum": lambda x, axis, keepdims: jnp.sum(x, axis, keepdims=keepdims),
    "ReduceSumSquare": lambda x, axis, keepdims: jnp.sum(x * x, axis, keepdims=keepdims),
}


def _highest(x: Any) -> Any:
    return True if x.dtype == bool else np.inf if jnp.issubdtype(x.dtype, jnp.floating) else np.iinfo(x.dtype).max


def _reduction(function: Function) -> Function:
    def reduce(call: Call, x: Any, axes: Any = None) -> Any:
        chosen = call.attributes.get("axes") if axes is None else ints(axes, "axes")
        if not chosen:
            if call.attributes.get("noop_with_empty_axes", 0):
                return x
            chosen = range(x.ndim)
        return function(x, tuple(chosen), bool(call.attributes.get("keepdims", 1))).astype(x.dtype)

    return reduce


for _name, _function in _REDUCTIONS.items():
    OPERATORS[_name] = (1, _reduction(_function))


def _arg(function: Function) -> Function:
    def arg(call: Call, x: Any) -> Any:
        axis = call.attributes.get("axis", 0)
        if call.attributes.get("select_last_index", 0):
            index = x.shape[axis] - 1 - function(jnp.flip(x, axis), axis=axis, keepdims=True)
        else:
            index = function(x, axis=axis, keepdims=True)
        return index if call.attributes.get("keepdims", 1) else jnp.squeeze(index, axis)

    return arg


OPERATORS["ArgMax"] = (1, _arg(jnp.argmax))
OPERATORS["ArgMin"] = (1, _arg(jnp.argmin))


@operator("CumSum")
def _cumulative_sum(call: Call, x: Any, axis: Any) -> Any:
    (along,) = ints(axis, "axis")
    reverse = bool(call.attributes.get("reverse", 0))
    total = lax.cumsum(x, along % x.ndim, reverse=reverse)
    return total - x if call.attributes.get("exclusive", 0) else total


def _normalised(function: Function) -> Function:
    def apply(call: Call, x: Any) -> Any:
        if call.version >= 13:
            return function(x, axis=call.attributes.get("axis", -1))
        # Before opset 13, all dimensions from the axis on are normalised together.
        axis = call.attributes.get("axis", 1) % x.ndim
        return function(x, axis=tuple(range(axis, x.ndim)))

    return apply


OPERATORS["Softmax"] = (1, _normalised(jax.nn.softmax))
OPERATORS["LogSoftmax"] = (1, _normalised(jax.nn.log_softmax))


@operator("TopK", 10)
def _top_k(call: Call, x: Any, k: Any) -> Any:
    (count,) = ints(k, "K")
    axis = call.attributes.get("axis", -1)
    x = jnp.moveaxis(x, axis, -1)
    largest = call.attributes.get("largest", 1)
    # Sort instead of negating: the lowest integer has no negative.
    order = jnp.argsort(x, axis=-1, descending=bool(largest), stable=True)[..., :count]
    return jnp.moveaxis(jnp.take_along_axis(x, order, -1), -1, axis), jnp.moveaxis(order, -1, axis)
