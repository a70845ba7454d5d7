"""The operators of ONNX as JAX functions, as https://onnx.ai/onnx/operators defines them.

Operators that ONNX itself defines by others (functions of its schemas) need no entry here.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Array = np.ndarray[Any, Any]


class Call(NamedTuple):
    """One node as its operator's function sees it."""

    attributes: dict[str, Any]
    version: int  # of the operator: the opset in which it got its present definition
    outputs: int
    types: Callable[[int], Any]  # a number of TensorProto.DataType as a NumPy dtype
    resized: Callable[[Array, Any, bool], Array]  # a matrix resized along its rows by a scale, or to a size, by ONNX


class NeedsValueError(TypeError):
    """An operator needs the value of an input when the model is compiled, and only the IPU will know it."""


Function = Callable[..., Any]
# Operator -> (the first version that the function is written for, function(call, *inputs) -> an output or a tuple).
OPERATORS: dict[str, tuple[int, Function]] = {}


def _operator(name: str, version: int = 1) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        OPERATORS[name] = (version, function)
        return function

    return register


def _static(value: Any, what: str) -> Array:
    if isinstance(value, np.ndarray):
        return value
    raise NeedsValueError(f"its {what} is computed from the values of the model's inputs, which only the IPU knows")


def _ints(value: Any, what: str) -> tuple[int, ...]:
    return tuple(int(v) for v in np.atleast_1d(_static(value, what)))


# Elementwise ----------------------------------------------------------------------------------------------------------


def _divide(x: Any, y: Any) -> Any:
    # Integers round towards zero.
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
    OPERATORS[_name] = (7, _elementwise(_function))  # before 7, broadcasting was asked for by attributes
for _name, _function in _VARIADIC.items():
    OPERATORS[_name] = (6, _folded(_function))


@_operator("Mean", 6)
def _mean(call: Call, *inputs: Any) -> Any:
    return _folded(jnp.add)(call, *inputs) / len(inputs)


@_operator("Mod")
def _mod(call: Call, x: Any, y: Any) -> Any:
    return jnp.fmod(x, y) if call.attributes.get("fmod", 0) else jnp.mod(x, y)


@_operator("BitShift")
def _bit_shift(call: Call, x: Any, y: Any) -> Any:
    return jnp.left_shift(x, y) if call.attributes["direction"] == "LEFT" else jnp.right_shift(x, y)


@_operator("IsInf")
def _is_inf(call: Call, x: Any) -> Any:
    positive, negative = (call.attributes.get(f"detect_{sign}", 1) for sign in ("positive", "negative"))
    return (jnp.isposinf(x) & bool(positive)) | (jnp.isneginf(x) & bool(negative))


@_operator("Where")
def _where(call: Call, condition: Any, x: Any, y: Any) -> Any:
    return jnp.where(condition, x, y)


@_operator("Clip", 6)
def _clip(call: Call, x: Any, low: Any = None, high: Any = None) -> Any:
    low = call.attributes.get("min", low)
    high = call.attributes.get("max", high)
    x = x if low is None else jnp.maximum(x, jnp.asarray(low, x.dtype))
    return x if high is None else jnp.minimum(x, jnp.asarray(high, x.dtype))


@_operator("LeakyRelu")
def _leaky_relu(call: Call, x: Any) -> Any:
    return jnp.where(x < 0, x * call.attributes.get("alpha", 0.01), x).astype(x.dtype)


@_operator("Elu")
def _elu(call: Call, x: Any) -> Any:
    return jnp.where(x < 0, call.attributes.get("alpha", 1.0) * jnp.expm1(jnp.minimum(x, 0)), x).astype(x.dtype)


@_operator("Selu")
def _selu(call: Call, x: Any) -> Any:
    alpha = call.attributes.get("alpha", 1.6732631921768188)
    gamma = call.attributes.get("gamma", 1.0507010221481323)
    return (gamma * jnp.where(x > 0, x, alpha * jnp.expm1(jnp.minimum(x, 0)))).astype(x.dtype)


@_operator("HardSigmoid")
def _hard_sigmoid(call: Call, x: Any) -> Any:
    alpha, beta = call.attributes.get("alpha", 0.2), call.attributes.get("beta", 0.5)
    return jnp.clip(alpha * x + beta, 0, 1).astype(x.dtype)


@_operator("HardSwish")
def _hard_swish(call: Call, x: Any) -> Any:
    return x * jnp.clip(x / 6 + 0.5, 0, 1).astype(x.dtype)


@_operator("Gelu")
def _gelu(call: Call, x: Any) -> Any:
    return jax.nn.gelu(x, approximate=call.attributes.get("approximate", "none") == "tanh")


@_operator("Cast", 6)
def _cast(call: Call, x: Any) -> Any:
    return _as_type(x, call.types(call.attributes["to"]))


@_operator("CastLike")
def _cast_like(call: Call, x: Any, like: Any) -> Any:
    return _as_type(x, like.dtype)


def _as_type(x: Any, dtype: Any) -> Any:
    return jnp.asarray(x).astype(jax.dtypes.canonicalize_dtype(dtype))


@_operator("Dropout", 7)
def _dropout(call: Call, x: Any, ratio: Any = None, training: Any = None) -> Any:
    if training is not None and bool(_static(training, "training_mode")):
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
    "ReduceMax": lambda x, axis, keepdims: jnp.max(x, axis, keepdims=keepdims, initial=_lowest(x)),
    "ReduceMean": lambda x, axis, keepdims: jnp.mean(x, axis, keepdims=keepdims),
    "ReduceMin": lambda x, axis, keepdims: jnp.min(x, axis, keepdims=keepdims, initial=_highest(x)),
    "ReduceProd": lambda x, axis, keepdims: jnp.prod(x, axis, keepdims=keepdims),
    "ReduceSum": lambda x, axis, keepdims: jnp.sum(x, axis, keepdims=keepdims),
    "ReduceSumSquare": lambda x, axis, keepdims: jnp.sum(x * x, axis, keepdims=keepdims),
}


def _lowest(x: Any) -> Any:
    return False if x.dtype == bool else -np.inf if jnp.issubdtype(x.dtype, jnp.floating) else np.iinfo(x.dtype).min


def _highest(x: Any) -> Any:
    return True if x.dtype == bool else np.inf if jnp.issubdtype(x.dtype, jnp.floating) else np.iinfo(x.dtype).max


def _reduction(function: Function) -> Function:
    def reduce(call: Call, x: Any, axes: Any = None) -> Any:
        chosen = call.attributes.get("axes") if axes is None else _ints(axes, "axes")
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


@_operator("CumSum")
def _cumulative_sum(call: Call, x: Any, axis: Any) -> Any:
    (along,) = _ints(axis, "axis")
    reverse = bool(call.attributes.get("reverse", 0))
    total = lax.cumsum(x, along % x.ndim, reverse=reverse)
    return total - x if call.attributes.get("exclusive", 0) else total


def _normalised(function: Function) -> Function:
    def apply(call: Call, x: Any) -> Any:
        if call.version >= 13:
            return function(x, axis=call.attributes.get("axis", -1))
        # All dimensions from the axis on are one.
        axis = call.attributes.get("axis", 1) % x.ndim
        return function(x, axis=tuple(range(axis, x.ndim)))

    return apply


OPERATORS["Softmax"] = (1, _normalised(jax.nn.softmax))
OPERATORS["LogSoftmax"] = (1, _normalised(jax.nn.log_softmax))


@_operator("TopK", 10)
def _top_k(call: Call, x: Any, k: Any) -> Any:
    (count,) = _ints(k, "K")
    axis = call.attributes.get("axis", -1)
    x = jnp.moveaxis(x, axis, -1)
    largest = call.attributes.get("largest", 1)
    # The negative of the lowest integer is itself.
    order = jnp.argsort(x, axis=-1, descending=bool(largest), stable=True)[..., :count]
    return jnp.moveaxis(jnp.take_along_axis(x, order, -1), -1, axis), jnp.moveaxis(order, -1, axis)


# Shapes and indices ---------------------------------------------------------------------------------------------------


@_operator("Shape")
def _shape(call: Call, x: Any) -> Any:
    return np.asarray(np.shape(x)[call.attributes.get("start", 0) : call.attributes.get("end")], np.int64)


@_operator("Size")
def _size(call: Call, x: Any) -> Any:
    return np.asarray(np.size(x), np.int64)


@_operator("Reshape", 5)
def _reshape(call: Call, x: Any, shape: Any) -> Any:
    sizes = _ints(shape, "shape")
    if not call.attributes.get("allowzero", 0):
        sizes = tuple(x.shape[i] if size == 0 else size for i, size in enumerate(sizes))
    return jnp.reshape(x, sizes)


@_operator("Flatten")
def _flatten(call: Call, x: Any) -> Any:
    axis = call.attributes.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return jnp.reshape(x, (int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:]))))


@_operator("Squeeze")
def _squeeze(call: Call, x: Any, axes: Any = None) -> Any:
    chosen = call.attributes.get("axes") if axes is None else _ints(axes, "axes")
    return jnp.squeeze(x, None if chosen is None else tuple(chosen))


@_operator("Unsqueeze")
def _unsqueeze(call: Call, x: Any, axes: Any = None) -> Any:
    return jnp.expand_dims(x, tuple(call.attributes["axes"]) if axes is None else _ints(axes, "axes"))


@_operator("Transpose")
def _transpose(call: Call, x: Any) -> Any:
    return jnp.transpose(x, call.attributes.get("perm"))


@_operator("Concat", 4)
def _concat(call: Call, *inputs: Any) -> Any:
    return jnp.concatenate(inputs, call.attributes["axis"])


@_operator("Split", 2)
def _split(call: Call, x: Any, split: Any = None) -> Any:
    axis = call.attributes.get("axis", 0)
    sizes = call.attributes.get("split") if split is None else _ints(split, "split")
    if sizes is None:
        part = -(-x.shape[axis] // call.outputs)
        sizes = [min(part, x.shape[axis] - i * part) for i in range(call.outputs)]
    return tuple(jnp.split(x, np.cumsum(sizes)[:-1].tolist(), axis))


@_operator("Slice")
def _slice(call: Call, x: Any, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None) -> Any:
    if call.version < 10:
        begin, end = call.attributes["starts"], call.attributes["ends"]
        along = call.attributes.get("axes")
    else:
        begin, end = _ints(starts, "starts"), _ints(ends, "ends")
        along = None if axes is None else _ints(axes, "axes")
    step = (1,) * len(begin) if steps is None else _ints(steps, "steps")
    parts = [slice(None)] * x.ndim
    for axis, b, e, s in zip(range(len(begin)) if along is None else along, begin, end, step, strict=True):
        # What lies before the first element, counted from the end, ends a step backwards after the first one.
        stop = None if s < 0 and e < -x.shape[axis] else e
        parts[axis] = slice(b, stop, s)
    return x[tuple(parts)]


@_operator("Expand")
def _expand(call: Call, x: Any, shape: Any) -> Any:
    return jnp.broadcast_to(x, np.broadcast_shapes(x.shape, _ints(shape, "shape")))


@_operator("Tile", 6)
def _tile(call: Call, x: Any, repeats: Any) -> Any:
    return jnp.tile(x, _ints(repeats, "repeats"))


@_operator("Gather")
def _gather(call: Call, x: Any, indices: Any) -> Any:
    return jnp.take(x, indices, axis=call.attributes.get("axis", 0))


@_operator("GatherElements")
def _gather_elements(call: Call, x: Any, indices: Any) -> Any:
    axis = call.attributes.get("axis", 0) % x.ndim
    # The other axes of the indices may be shorter.
    x = x[tuple(slice(None) if i == axis else slice(size) for i, size in enumerate(indices.shape))]
    return jnp.take_along_axis(x, indices, axis)


@_operator("GatherND")
def _gather_nd(call: Call, x: Any, indices: Any) -> Any:
    def gather(x: Any, indices: Any) -> Any:
        return x[tuple(jnp.moveaxis(indices, -1, 0))]

    for _ in range(call.attributes.get("batch_dims", 0)):
        gather = jax.vmap(gather)
    return gather(jnp.asarray(x), jnp.asarray(indices))


_SCATTERS = {"none": "set", "add": "add", "mul": "multiply", "min": "min", "max": "max"}


def _scatter(x: Any, index: tuple[Any, ...], updates: Any, reduction: str) -> Any:
    return getattr(jnp.asarray(x).at[index], _SCATTERS[reduction])(updates)


@_operator("ScatterND")
def _scatter_nd(call: Call, x: Any, indices: Any, updates: Any) -> Any:
    index = tuple(jnp.moveaxis(jnp.asarray(indices), -1, 0))
    return _scatter(x, index, updates, call.attributes.get("reduction", "none"))


@_operator("ScatterElements", 11)
def _scatter_elements(call: Call, x: Any, indices: Any, updates: Any) -> Any:
    axis = call.attributes.get("axis", 0) % x.ndim
    index: list[Any] = list(jnp.ogrid[tuple(slice(size) for size in indices.shape)])
    index[axis] = indices
    return _scatter(x, tuple(index), updates, call.attributes.get("reduction", "none"))


_PADDINGS = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}


@_operator("Pad", 2)
def _pad(call: Call, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    amounts = call.attributes["pads"] if pads is None else _ints(pads, "pads")
    along = range(x.ndim) if axes is None else [axis % x.ndim for axis in _ints(axes, "axes")]
    count = len(along)
    widths = [(0, 0)] * x.ndim
    for i, axis in enumerate(along):
        widths[axis] = (amounts[i], amounts[i + count])
    # Negative amounts cut off.
    x = x[tuple(slice(-min(a, 0), size + min(b, 0)) for (a, b), size in zip(widths, x.shape, strict=True))]
    widths = [(max(a, 0), max(b, 0)) for a, b in widths]
    mode = _PADDINGS[call.attributes.get("mode", "constant")]
    if mode != "constant":
        return jnp.pad(x, widths, mode)
    constant = call.attributes.get("value", 0.0) if value is None else jnp.reshape(value, ())
    return jnp.pad(x, widths, constant_values=jnp.asarray(constant, x.dtype))


@_operator("Trilu")
def _triangle(call: Call, x: Any, k: Any = None) -> Any:
    offset = 0 if k is None else _ints(k, "k")[0]
    return jnp.triu(x, offset) if call.attributes.get("upper", 1) else jnp.tril(x, offset)


@_operator("OneHot", 9)
def _one_hot(call: Call, indices: Any, depth: Any, values: Any) -> Any:
    (classes,) = _ints(depth, "depth")
    indices = jnp.asarray(indices)
    hot = jax.nn.one_hot(jnp.where(indices < 0, indices + classes, indices), classes, dtype=bool)
    return jnp.moveaxis(jnp.where(hot, values[1], values[0]), -1, call.attributes.get("axis", -1))


@_operator("EyeLike")
def _eye_like(call: Call, x: Any) -> Any:
    dtype = call.types(call.attributes["dtype"]) if "dtype" in call.attributes else x.dtype
    return jnp.eye(x.shape[0], x.shape[1], k=call.attributes.get("k", 0), dtype=jax.dtypes.canonicalize_dtype(dtype))


@_operator("DepthToSpace")
def _depth_to_space(call: Call, x: Any) -> Any:
    batch, channels, height, width = x.shape
    block = call.attributes["blocksize"]
    depth = channels // block**2
    if call.attributes.get("mode", "DCR") == "DCR":
        x = x.reshape(batch, block, block, depth, height, width).transpose(0, 3, 4, 1, 5, 2)
    else:
        x = x.reshape(batch, depth, block, block, height, width).transpose(0, 1, 4, 2, 5, 3)
    return x.reshape(batch, depth, height * block, width * block)


@_operator("SpaceToDepth")
def _space_to_depth(call: Call, x: Any) -> Any:
    batch, channels, height, width = x.shape
    block = call.attributes["blocksize"]
    order = (0, 3, 5, 1, 2, 4) if call.attributes.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    x = x.reshape(batch, channels, height // block, block, width // block, block).transpose(order)
    return x.reshape(batch, channels * block**2, height // block, width // block)


@_operator("Resize", 11)
def _resize(call: Call, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
    """Along one axis after the other, by the matrix that ONNX's reference evaluator gives for that axis."""
    chosen = call.attributes.get("axes")
    axes = [axis % x.ndim for axis in chosen] if chosen else list(range(x.ndim))
    by_size = sizes is not None and np.size(sizes) > 0
    amounts = _static(sizes if by_size else scales, "sizes" if by_size else "scales")
    policy = call.attributes.get("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch" or call.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise NotImplementedError(f"tf_crop_and_resize and keep_aspect_ratio_policy={policy} are not implemented")
    for axis, amount in zip(axes, amounts, strict=True):
        size = x.shape[axis]
        if (by_size and int(amount) == size) or (not by_size and float(amount) == 1.0):
            continue
        weights = call.resized(np.eye(size, dtype=np.float32), amount, by_size)
        if call.attributes.get("mode", "nearest") == "nearest":
            x = jnp.take(x, np.argmax(weights, axis=0), axis)
        else:
            x = jnp.moveaxis(jnp.tensordot(x, jnp.asarray(weights, x.dtype), (axis, 0)), -1, axis)
    return x


# Products -------------------------------------------------------------------------------------------------------------


@_operator("MatMul")
def _matmul(call: Call, x: Any, y: Any) -> Any:
    return jnp.matmul(x, y)


@_operator("Gemm", 7)
def _gemm(call: Call, a: Any, b: Any, c: Any = None) -> Any:
    a = a.T if call.attributes.get("transA", 0) else a
    b = b.T if call.attributes.get("transB", 0) else b
    alpha, beta = call.attributes.get("alpha", 1.0), call.attributes.get("beta", 1.0)
    product = jnp.matmul(a, b)
    product = product if alpha == 1 else (alpha * product).astype(product.dtype)
    if c is None:
        return product
    return product + (c if beta == 1 else (beta * c).astype(c.dtype))


@_operator("Einsum")
def _einsum(call: Call, *inputs: Any) -> Any:
    return jnp.einsum(call.attributes["equation"].replace(" ", ""), *inputs)


def _windows(call: Call, size: Sequence[int], kernel: Sequence[int], input_dilation: bool = False) -> Any:
    """Strides, dilations and (before, after) padding of the spatial dimensions."""
    rank = len(size)
    strides = tuple(call.attributes.get("strides", (1,) * rank))
    dilations = tuple(call.attributes.get("dilations", (1,) * rank))
    mode = call.attributes.get("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER") and not input_dilation:
        pads = []
        for n, k, s, d in zip(size, kernel, strides, dilations, strict=True):
            total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
            less = total // 2
            pads.append((less, total - less) if mode == "SAME_UPPER" else (total - less, less))
        return strides, dilations, pads
    flat = (0,) * (2 * rank) if mode == "VALID" else call.attributes.get("pads", (0,) * (2 * rank))
    return strides, dilations, list(zip(flat[:rank], flat[rank:], strict=True))


def _dimensions(rank: int, weights: str = "OI") -> Any:
    space = string.ascii_lowercase[:rank]
    return ("NC" + space, weights + space, "NC" + space)


@_operator("Conv")
def _conv(call: Call, x: Any, w: Any, bias: Any = None) -> Any:
    strides, dilations, pads = _windows(call, x.shape[2:], w.shape[2:])
    groups = call.attributes.get("group", 1)
    result = lax.conv_general_dilated(
        x,
        w,
        strides,
        pads,
        rhs_dilation=dilations,
        dimension_numbers=_dimensions(x.ndim - 2),
        feature_group_count=groups,
    )
    return result if bias is None else result + bias.reshape(-1, *[1] * (x.ndim - 2))


@_operator("ConvTranspose")
def _conv_transpose(call: Call, x: Any, w: Any, bias: Any = None) -> Any:
    rank = x.ndim - 2
    strides, dilations, pads = _windows(call, x.shape[2:], w.shape[2:], input_dilation=True)
    groups = call.attributes.get("group", 1)
    extra = tuple(call.attributes.get("output_padding", (0,) * rank))
    reach = [(k - 1) * d for k, d in zip(w.shape[2:], dilations, strict=True)]
    mode = call.attributes.get("auto_pad", "NOTSET")
    wanted = call.attributes.get("output_shape")
    if wanted is None and mode.startswith("SAME"):
        wanted = [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
    if wanted is not None:
        pads = []
        for n, s, r, e, want in zip(x.shape[2:], strides, reach, extra, wanted[-rank:], strict=True):
            total = s * (n - 1) + e + r + 1 - want
            less = total // 2
            pads.append((total - less, less) if mode != "SAME_UPPER" else (less, total - less))
    # [in, out / groups, ...] as [out, in / groups, ...], turned round in space.
    w = w.reshape(groups, w.shape[0] // groups, *w.shape[1:]).swapaxes(1, 2)
    w = jnp.flip(w.reshape(-1, *w.shape[2:]), tuple(range(2, x.ndim)))
    result = lax.conv_general_dilated(
        x,
        w,
        (1,) * rank,
        [(r - a, r - b + e) for r, (a, b), e in zip(reach, pads, extra, strict=True)],
        lhs_dilation=strides,
        rhs_dilation=dilations,
        dimension_numbers=_dimensions(rank),
        feature_group_count=groups,
    )
    return result if bias is None else result + bias.reshape(-1, *[1] * rank)


# Pooling and normalisation --------------------------------------------------------------------------------------------


def _pooling(call: Call, x: Any) -> Any:
    """Window, strides, dilations and padding of all dimensions; the last window of a ceil_mode lies half outside."""
    kernel = call.attributes["kernel_shape"]
    strides, dilations, pads = _windows(call, x.shape[2:], kernel)
    outside = []
    for i, (n, k, s, d) in enumerate(zip(x.shape[2:], kernel, strides, dilations, strict=True)):
        before, after = pads[i]
        more = 0
        if call.attributes.get("ceil_mode", 0):
            span = n + before + after - (k - 1) * d - 1
            windows = -(-span // s) + 1
            if (windows - 1) * s >= n + before:  # a window that begins in the padding does not count
                windows -= 1
            more = max((windows - 1) * s + (k - 1) * d + 1 - (n + before + after), 0)
        outside.append(more)
    one = (1, 1)
    return (*one, *kernel), (*one, *strides), (*one, *dilations), [(0, 0), (0, 0), *pads], [0, 0, *outside]


@_operator("MaxPool")
def _max_pool(call: Call, x: Any) -> Any:
    if call.outputs > 1:
        raise NotImplementedError("the second output, the indices of the largest elements, is not implemented")
    window, strides, dilations, pads, outside = _pooling(call, x)
    widths = [(a, b + more) for (a, b), more in zip(pads, outside, strict=True)]
    return lax.reduce_window(x, np.asarray(_lowest(x), x.dtype), lax.max, window, strides, widths, None, dilations)


@_operator("AveragePool")
def _average_pool(call: Call, x: Any) -> Any:
    window, strides, dilations, pads, outside = _pooling(call, x)

    def total(values: Any, widths: Any) -> Any:
        return lax.reduce_window(values, np.zeros((), x.dtype), lax.add, window, strides, widths, None, dilations)

    widths = [(a, b + more) for (a, b), more in zip(pads, outside, strict=True)]
    counted = np.ones((1, 1, *x.shape[2:]), x.dtype)
    if call.attributes.get("count_include_pad", 0):
        counted = np.pad(counted, pads, constant_values=1)
        return total(x, widths) / total(counted, [(0, more) for more in outside])
    return total(x, widths) / total(counted, widths)


@_operator("GlobalAveragePool")
def _global_average_pool(call: Call, x: Any) -> Any:
    return jnp.mean(x, tuple(range(2, x.ndim)), keepdims=True)


@_operator("GlobalMaxPool")
def _global_max_pool(call: Call, x: Any) -> Any:
    return jnp.max(x, tuple(range(2, x.ndim)), keepdims=True)


def _by_channel(value: Any, x: Any) -> Any:
    return jnp.reshape(value, (-1, *[1] * (x.ndim - 2)))


@_operator("BatchNormalization", 7)
def _batch_normalization(call: Call, x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    if call.attributes.get("training_mode", 0) or call.outputs > 1:
        raise NotImplementedError("it is exported for training: export the model in its evaluation mode (model.eval())")
    factor = scale * lax.rsqrt(variance + call.attributes.get("epsilon", 1e-5))
    return ((x - _by_channel(mean, x)) * _by_channel(factor, x) + _by_channel(bias, x)).astype(x.dtype)


def _centred(x: Any, axes: tuple[int, ...], epsilon: float) -> Any:
    mean = jnp.mean(x, axes, keepdims=True)
    centred = x - mean
    inverse = lax.rsqrt(jnp.mean(centred * centred, axes, keepdims=True) + epsilon)
    return centred * inverse, mean, inverse


@_operator("InstanceNormalization", 6)
def _instance_normalization(call: Call, x: Any, scale: Any, bias: Any) -> Any:
    normal, _, _ = _centred(x, tuple(range(2, x.ndim)), call.attributes.get("epsilon", 1e-5))
    return normal * _by_channel(scale, x) + _by_channel(bias, x)


@_operator("LayerNormalization", 17)
def _layer_normalization(call: Call, x: Any, scale: Any, bias: Any = None) -> Any:
    axis = call.attributes.get("axis", -1) % x.ndim
    stash = call.types(call.attributes.get("stash_type", 1))
    wide = x.astype(jax.dtypes.canonicalize_dtype(stash))
    normal, mean, inverse = _centred(wide, tuple(range(axis, x.ndim)), call.attributes.get("epsilon", 1e-5))
    result = normal.astype(x.dtype) * scale
    return (result if bias is None else result + bias, mean, inverse)[: call.outputs]


@_operator("LRN")
def _local_response(call: Call, x: Any) -> Any:
    size, alpha = call.attributes["size"], call.attributes.get("alpha", 1e-4)
    before = (size - 1) // 2
    window, one = (1, size, *[1] * (x.ndim - 2)), (1,) * x.ndim
    widths = [(0, 0), (before, size - 1 - before), *[(0, 0)] * (x.ndim - 2)]
    squares = lax.reduce_window(x * x, np.zeros((), x.dtype), lax.add, window, one, widths)
    scale = call.attributes.get("bias", 1.0) + alpha / size * squares
    return (x / scale ** call.attributes.get("beta", 0.75)).astype(x.dtype)
