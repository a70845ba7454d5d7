"""ONNX operators on elements, reductions, shapes and indices, as https://onnx.ai/onnx/operators defines them.

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


# Shapes and indices ---------------------------------------------------------------------------------------------------


@operator("Shape")
def _shape(call: Call, x: Any) -> Any:
    return np.asarray(np.shape(x)[call.attributes.get("start", 0) : call.attributes.get("end")], np.int64)


@operator("Size")
def _size(call: Call, x: Any) -> Any:
    return np.asarray(np.size(x), np.int64)


@operator("Reshape", 5)
def _reshape(call: Call, x: Any, shape: Any) -> Any:
    sizes = ints(shape, "shape")
    if not call.attributes.get("allowzero", 0):
        sizes = tuple(x.shape[i] if size == 0 else size for i, size in enumerate(sizes))
    return jnp.reshape(x, sizes)


@operator("Flatten")
def _flatten(call: Call, x: Any) -> Any:
    axis = call.attributes.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return jnp.reshape(x, (int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:]))))


@operator("Squeeze")
def _squeeze(call: Call, x: Any, axes: Any = None) -> Any:
    chosen = call.attributes.get("axes") if axes is None else ints(axes, "axes")
    return jnp.squeeze(x, None if chosen is None else tuple(chosen))


@operator("Unsqueeze")
def _unsqueeze(call: Call, x: Any, axes: Any = None) -> Any:
    return jnp.expand_dims(x, tuple(call.attributes["axes"]) if axes is None else ints(axes, "axes"))


@operator("Transpose")
def _transpose(call: Call, x: Any) -> Any:
    return jnp.transpose(x, call.attributes.get("perm"))


@operator("Concat", 4)
def _concat(call: Call, *inputs: Any) -> Any:
    return jnp.concatenate(inputs, call.attributes["axis"])


@operator("Split", 2)
def _split(call: Call, x: Any, split: Any = None) -> Any:
    axis = call.attributes.get("axis", 0)
    sizes = call.attributes.get("split") if split is None else ints(split, "split")
    if sizes is None:
        part = -(-x.shape[axis] // call.outputs)
        sizes = [min(part, x.shape[axis] - i * part) for i in range(call.outputs)]
    return tuple(jnp.split(x, np.cumsum(sizes)[:-1].tolist(), axis))


@operator("Slice")
def _slice(call: Call, x: Any, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None) -> Any:
    if call.version < 10:
        begin, end = call.attributes["starts"], call.attributes["ends"]
        along = call.attributes.get("axes")
    else:
        begin, end = ints(starts, "starts"), ints(ends, "ends")
        along = None if axes is None else ints(axes, "axes")
    step = (1,) * len(begin) if steps is None else ints(steps, "steps")
    parts = [slice(None)] * x.ndim
    for axis, b, e, s in zip(range(len(begin)) if along is None else along, begin, end, step, strict=True):
        # With a negative step, an end before the first element includes the first element.
        stop = None if s < 0 and e < -x.shape[axis] else e
        parts[axis] = slice(b, stop, s)
    return x[tuple(parts)]


@operator("Expand")
def _expand(call: Call, x: Any, shape: Any) -> Any:
    return jnp.broadcast_to(x, np.broadcast_shapes(x.shape, ints(shape, "shape")))


@operator("Tile", 6)
def _tile(call: Call, x: Any, repeats: Any) -> Any:
    return jnp.tile(x, ints(repeats, "repeats"))


@operator("Gather")
def _gather(call: Call, x: Any, indices: Any) -> Any:
    return jnp.take(x, indices, axis=call.attributes.get("axis", 0))


@operator("GatherElements")
def _gather_elements(call: Call, x: Any, indices: Any) -> Any:
    axis = call.attributes.get("axis", 0) % x.ndim
    # In the other dimensions the indices may be shorter than x.
    x = x[tuple(slice(None) if i == axis else slice(size) for i, size in enumerate(indices.shape))]
    return jnp.take_along_axis(x, indices, axis)


@operator("GatherND")
def _gather_nd(call: Call, x: Any, indices: Any) -> Any:
    def gather(x: Any, indices: Any) -> Any:
        return x[tuple(jnp.moveaxis(indices, -1, 0))]

    for _ in range(call.attributes.get("batch_dims", 0)):
        gather = jax.vmap(gather)
    return gather(jnp.asarray(x), jnp.asarray(indices))


_SCATTERS = {"none": "set", "add": "add", "mul": "multiply", "min": "min", "max": "max"}


def _scatter(x: Any, index: tuple[Any, ...], updates: Any, reduction: str) -> Any:
    return getattr(jnp.asarray(x).at[index], _SCATTERS[reduction])(updates)


@operator("ScatterND")
def _scatter_nd(call: Call, x: Any, indices: Any, updates: Any) -> Any:
    index = tuple(jnp.moveaxis(jnp.asarray(indices), -1, 0))
    return _scatter(x, index, updates, call.attributes.get("reduction", "none"))


@operator("ScatterElements", 11)
def _scatter_elements(call: Call, x: Any, indices: Any, updates: Any) -> Any:
    axis = call.attributes.get("axis", 0) % x.ndim
    index: list[Any] = list(jnp.ogrid[tuple(slice(size) for size in indices.shape)])
    index[axis] = indices
    return _scatter(x, tuple(index), updates, call.attributes.get("reduction", "none"))


_PADDINGS = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}


@operator("Pad", 2)
def _pad(call: Call, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    amounts = call.attributes["pads"] if pads is None else ints(pads, "pads")
    along = range(x.ndim) if axes is None else [axis % x.ndim for axis in ints(axes, "axes")]
    count = len(along)
    widths = [(0, 0)] * x.ndim
    for i, axis in enumerate(along):
        widths[axis] = (amounts[i], amounts[i + count])
    # Negative amounts remove elements.
    x = x[tuple(slice(-min(a, 0), size + min(b, 0)) for (a, b), size in zip(widths, x.shape, strict=True))]
    widths = [(max(a, 0), max(b, 0)) for a, b in widths]
    mode = _PADDINGS[call.attributes.get("mode", "constant")]
    if mode != "constant":
        return jnp.pad(x, widths, mode)
    constant = call.attributes.get("value", 0.0) if value is None else jnp.reshape(value, ())
    return jnp.pad(x, widths, constant_values=jnp.asarray(constant, x.dtype))


@operator("Trilu")
def _triangle(call: Call, x: Any, k: Any = None) -> Any:
    offset = 0 if k is None else ints(k, "k")[0]
    return jnp.triu(x, offset) if call.attributes.get("upper", 1) else jnp.tril(x, offset)


@operator("OneHot", 9)
def _one_hot(call: Call, indices: Any, depth: Any, values: Any) -> Any:
    (classes,) = ints(depth, "depth")
    indices = jnp.asarray(indices)
    hot = jax.nn.one_hot(jnp.where(indices < 0, indices + classes, indices), classes, dtype=bool)
    return jnp.moveaxis(jnp.where(hot, values[1], values[0]), -1, call.attributes.get("axis", -1))


@operator("EyeLike")
def _eye_like(call: Call, x: Any) -> Any:
    dtype = call.types(call.attributes["dtype"]) if "dtype" in call.attributes else x.dtype
    return jnp.eye(x.shape[0], x.shape[1], k=call.attributes.get("k", 0), dtype=jax.dtypes.canonicalize_dtype(dtype))


@operator("DepthToSpace")
def _depth_to_space(call: Call, x: Any) -> Any:
    batch, channels, height, width = x.shape
    block = call.attributes["blocksize"]
    depth = channels // block**2
    if call.attributes.get("mode", "DCR") == "DCR":
        x = x.reshape(batch, block, block, depth, height, width).transpose(0, 3, 4, 1, 5, 2)
    else:
        x = x.reshape(batch, depth, block, block, height, width).transpose(0, 1, 4, 2, 5, 3)
    return x.reshape(batch, depth, height * block, width * block)


@operator("SpaceToDepth")
def _space_to_depth(call: Call, x: Any) -> Any:
    batch, channels, height, width = x.shape
    block = call.attributes["blocksize"]
    order = (0, 3, 5, 1, 2, 4) if call.attributes.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    x = x.reshape(batch, channels, height // block, block, width // block, block).transpose(order)
    return x.reshape(batch, channels * block**2, height // block, width // block)


@operator("Resize", 11)
def _resize(call: Call, x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
    """Resizes along each axis in turn, with the matrix that ONNX's reference evaluator computes for that axis."""
    chosen = call.attributes.get("axes")
    axes = [axis % x.ndim for axis in chosen] if chosen else list(range(x.ndim))
    by_size = sizes is not None and np.size(sizes) > 0
    amounts = static(sizes if by_size else scales, "sizes" if by_size else "scales")
    policy = call.attributes.get("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch" or call.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise NotImplementedError(f"tf_crop_and_resize and keep_aspect_ratio_policy={policy} are not implemented")
    for axis, amount in zip(axes, amounts, strict=True):
        size = x.shape[axis]
        if (by_size and int(amount) == size) or (not by_size and float(amount) == 1.0):
            continue
        weights = call.resized(np.eye(size, dtype=np.float64 if x.dtype == np.float64 else np.float32), amount, by_size)
        if call.attributes.get("mode", "nearest") == "nearest":
            x = jnp.take(x, np.argmax(weights, axis=0), axis)
        else:
            x = jnp.moveaxis(jnp.tensordot(x, jnp.asarray(weights, x.dtype), (axis, 0)), -1, axis)
    return x
