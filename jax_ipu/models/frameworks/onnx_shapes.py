"""ONNX operators on shapes and indices, as https://onnx.ai/onnx/operators defines them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax_ipu.models.frameworks.onnx_table import Call, ints, operator, static


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
