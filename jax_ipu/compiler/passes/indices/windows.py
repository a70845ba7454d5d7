"""Windows: the part of a tensor that an op reads or writes, and the same part of other tensors.

A window of a value that is equal along some dimensions, such as a mask of rows, is read from the value before it was
broadcast, without the dimensions along which it is equal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.passes.indices import known_indices
from jax_ipu.compiler.passes.rewriter import Rewriter
from jax_ipu.compiler.types import Shape

READS = frozenset(("slice", "dynamic_slice", "gather"))


@dataclass(frozen=True)
class Spread:
    """A value that stands for a larger one: dimension i of `value` is dimension `dims[i]` of it, equal over others."""

    value: Value
    dims: Shape

    @classmethod
    def of(cls, value: Value, rewriter: Rewriter) -> Spread:
        """The value before it was broadcast, without dimensions of one element."""
        dims = tuple(range(len(value.shape)))
        op = value.op
        if op is not None and op.name == "broadcast_in_dim":
            value, dims = op.operands[0], tuple(op.attrs["broadcast_dimensions"])
        order = sorted((i for i, n in enumerate(value.shape) if n != 1), key=dims.__getitem__)
        value = rewriter.reshape(value, tuple(n for n in value.shape if n != 1))
        places = {i: place for place, i in enumerate(sorted(order))}
        value = rewriter.transpose(value, tuple(places[i] for i in order))
        return cls(value, tuple(dims[i] for i in order))


@dataclass(frozen=True)
class Window:
    """What the op `name`, one of READS, reads of an operand of shape `operand`, as a tensor of shape `shape`."""

    name: str
    operand: Shape
    shape: Shape
    indices: tuple[Value, ...]
    attrs: dict[str, Any]

    @classmethod
    def of_read(cls, op: Op) -> Window:
        """The window that a slice, a dynamic slice or a gather reads."""
        return cls(op.name, op.operands[0].shape, op.result.shape, tuple(op.operands[1:]), dict(op.attrs))

    @classmethod
    def of_update(cls, op: Op, position: int = 0) -> Window:
        """The window that an update writes, of the operand that becomes the result `position`."""
        operand = op.operands[position].shape
        if op.name == "dynamic_update_slice":
            sizes = op.operands[1].shape
            return cls("dynamic_slice", operand, sizes, tuple(op.operands[2:]), {"slice_sizes": sizes})
        if op.name == "ipu.update_slice":
            begins, strides, shape = op.attrs["start_indices"], op.attrs["strides"], op.operands[1].shape
            ends = tuple(b + (n - 1) * s + 1 for b, n, s in zip(begins, shape, strides, strict=True))
            return cls(
                "slice", operand, shape, (), {"start_indices": begins, "limit_indices": ends, "strides": strides}
            )
        d = op.attrs["scatter_dimension_numbers"]
        count = len(op.results)
        update = op.operands[count + 1 + position].shape
        windows = iter(d["update_window_dims"])
        single = (*d["inserted_window_dims"], *d["input_batching_dims"])
        numbers = {
            "offset_dims": tuple(d["update_window_dims"]),
            "collapsed_slice_dims": tuple(d["inserted_window_dims"]),
            "operand_batching_dims": tuple(d["input_batching_dims"]),
            "start_indices_batching_dims": tuple(d["scatter_indices_batching_dims"]),
            "start_index_map": tuple(d["scattered_dims_to_operand_dims"]),
            "index_vector_dim": d["index_vector_dim"],
        }
        sizes = tuple(1 if i in single else update[next(windows)] for i in range(len(operand)))
        attrs: dict[str, Any] = {"dimension_numbers": numbers, "slice_sizes": sizes}
        if "index_wraps" in op.attrs:
            attrs["index_wraps"] = op.attrs["index_wraps"]
        return cls("gather", operand, update, (op.operands[count],), attrs)

    def read(self, value: Value, rewriter: Rewriter) -> Value:
        """The window of a value of the operand's shape."""
        if self.name == "slice":
            a = self.attrs
            return rewriter.slice(value, a["start_indices"], a["limit_indices"], a["strides"])
        return rewriter.emit(self.name, (value, *self.indices), self.shape, value.dtype, dict(self.attrs))

    def read_spread(self, spread: Spread, rewriter: Rewriter) -> Value:
        """The window of the value that `spread` stands for."""
        value, dims = spread.value, spread.dims
        if self.name == "gather":
            return self._gathered(value, dims, rewriter)
        if self.name == "slice":
            begins, ends, strides = (
                tuple(self.attrs[k][d] for d in dims) for k in ("start_indices", "limit_indices", "strides")
            )
            part = rewriter.slice(value, begins, ends, strides)
        else:
            sizes = tuple(self.attrs["slice_sizes"][d] for d in dims)
            starts = [self.indices[d] for d in dims]
            part = value
            if sizes != value.shape:
                part = rewriter.emit("dynamic_slice", (value, *starts), sizes, value.dtype, {"slice_sizes": sizes})
        return rewriter.broadcast(part, self.shape, dims)

    @property
    def sizes(self) -> Shape:
        """The extent of one window along each dimension of the operand."""
        return self.shape if self.name == "slice" else tuple(self.attrs["slice_sizes"])

    def corner(self) -> Window:
        """The first element of each window of a gather, as a tensor over the windows."""
        numbers = dict(self.attrs["dimension_numbers"])
        rank = len(self.operand)
        batching = numbers["operand_batching_dims"]
        shape = tuple(n for i, n in enumerate(self.shape) if i not in numbers["offset_dims"])
        numbers["collapsed_slice_dims"] = tuple(d for d in range(rank) if d not in batching)
        numbers["offset_dims"] = ()
        attrs = {**self.attrs, "dimension_numbers": numbers, "slice_sizes": (1,) * rank}
        return replace(self, shape=shape, attrs=attrs)

    def inner_dims(self) -> Shape:
        """The dimensions of the operand along which the windows of a gather lie in the result."""
        numbers = self.attrs["dimension_numbers"]
        single = (*numbers["collapsed_slice_dims"], *numbers["operand_batching_dims"])
        return tuple(d for d in range(len(self.operand)) if d not in single)

    def batch_places(self) -> dict[int, int]:
        """Batching dimension of the operand of a gather -> the dimension of the result."""
        numbers = self.attrs["dimension_numbers"]
        vector = numbers["index_vector_dim"]
        along = [i for i in range(len(self.indices[0].shape)) if i != vector]
        batch = [i for i in range(len(self.shape)) if i not in numbers["offset_dims"]]
        pairs = zip(numbers["operand_batching_dims"], numbers["start_indices_batching_dims"], strict=True)
        return {operand: batch[along.index(i)] for operand, i in pairs}

    def of_units(self, shape: Shape, rewriter: Rewriter) -> Window | None:
        """The same window of a tensor of this shape, which differs in dimensions of one element.

        Its result differs in such dimensions, too. None where an index is along such a dimension.
        """
        kept, places = ([d for d, n in enumerate(dims) if n != 1] for dims in (self.operand, shape))
        if [self.operand[d] for d in kept] != [shape[d] for d in places]:
            return None
        moved = dict(zip(places, kept, strict=True))  # dimension of the other tensor -> dimension of this one
        if self.name == "slice":
            begins, ends, strides = (
                tuple(self.attrs[k][moved[d]] if d in moved else unit for d in range(len(shape)))
                for k, unit in (("start_indices", 0), ("limit_indices", 1), ("strides", 1))
            )
            taken = tuple(-(-(e - b) // s) for b, e, s in zip(begins, ends, strides, strict=True))
            taken_from = {"start_indices": begins, "limit_indices": ends, "strides": strides}
            return Window("slice", shape, taken, (), taken_from)
        sizes = tuple(self.sizes[moved[d]] if d in moved else 1 for d in range(len(shape)))
        if self.name == "dynamic_slice":
            dtype = self.indices[0].dtype if self.indices else "s32"
            starts = [self.indices[moved[d]] if d in moved else rewriter.full((), dtype, 0) for d in range(len(shape))]
            return Window("dynamic_slice", shape, sizes, tuple(starts), {"slice_sizes": sizes})
        numbers: dict[str, Any] = dict(self.attrs["dimension_numbers"])
        if any(d not in kept for k in ("operand_batching_dims", "start_index_map") for d in numbers[k]):
            return None
        back = dict(zip(kept, places, strict=True))
        # The dimensions of the result: those of the other tensor that lie there, and None for those of the windows.
        lying: list[int | None] = [None] * len(self.shape)
        for d, place in zip(self.inner_dims(), numbers["offset_dims"], strict=True):
            lying[place] = back.get(d, -1)
        extents = [(d, n) for d, n in zip(lying, self.shape, strict=True) if d != -1]
        for unit in (d for d in range(len(shape)) if d not in moved):
            before = [i for i, (d, _) in enumerate(extents) if d is not None and d < unit]
            after = [i for i, (d, _) in enumerate(extents) if d is not None and d > unit]
            extents.insert(before[-1] + 1 if before else after[0] if after else len(extents), (unit, 1))
        numbers["offset_dims"] = tuple(i for i, (d, _) in enumerate(extents) if d is not None)
        numbers["collapsed_slice_dims"] = tuple(back[d] for d in numbers["collapsed_slice_dims"] if d in back)
        for k in ("operand_batching_dims", "start_index_map"):
            numbers[k] = tuple(back[d] for d in numbers[k])
        attrs: dict[str, Any] = {**self.attrs, "dimension_numbers": numbers, "slice_sizes": sizes}
        return replace(self, operand=shape, shape=tuple(n for _, n in extents), attrs=attrs)

    def _gathered(self, value: Value, dims: Shape, rewriter: Rewriter) -> Value:
        numbers, sizes, (indices,) = self.attrs["dimension_numbers"], self.sizes, self.indices
        collapsed, offsets = numbers["collapsed_slice_dims"], numbers["offset_dims"]
        batching, start_map = self.batch_places(), tuple(numbers["start_index_map"])
        places = dict(zip(self.inner_dims(), offsets, strict=True))
        moving = [d for d in dims if d in start_map and sizes[d] != self.operand[d]]
        if not moving:
            extents = tuple(self.operand[d] if d in batching else sizes[d] for d in dims)
            part = rewriter.slice(value, (0,) * len(dims), extents)
            kept = [(d, n) for d, n in zip(dims, extents, strict=True) if d not in collapsed]
            part = rewriter.reshape(part, tuple(n for _, n in kept))
            return rewriter.broadcast(part, self.shape, tuple({**places, **batching}[d] for d, _ in kept))
        inner = [places[d] for d in dims if d in places]
        results = tuple(i for i in range(len(self.shape)) if i not in offsets or i in inner)
        index_batching = dict(
            zip(numbers["operand_batching_dims"], numbers["start_indices_batching_dims"], strict=True)
        )
        components = [i for i, d in enumerate(start_map) if d in moving]
        attrs: dict[str, Any] = {
            "dimension_numbers": {
                "offset_dims": tuple(i for i, place in enumerate(results) if place in inner),
                "collapsed_slice_dims": tuple(i for i, d in enumerate(dims) if d in collapsed),
                "operand_batching_dims": tuple(i for i, d in enumerate(dims) if d in batching),
                "start_indices_batching_dims": tuple(index_batching[d] for d in dims if d in batching),
                "start_index_map": tuple(dims.index(start_map[i]) for i in components),
                "index_vector_dim": numbers["index_vector_dim"],
            },
            "slice_sizes": tuple(sizes[d] for d in dims),
        }
        if "index_wraps" in self.attrs:
            attrs["index_wraps"] = tuple(self.attrs["index_wraps"][i] for i in components)
        shape = tuple(self.shape[i] for i in results)
        taken = _components(indices, numbers["index_vector_dim"], components, rewriter)
        op = Op("gather", (value, taken), [(shape, value.dtype)], attrs, (), rewriter.location)
        known = known_indices.gather(op, rewriter)
        if known is None:
            rewriter.ops.append(op)
            known = op.result
        else:
            op.drop()
        return rewriter.broadcast(known, self.shape, results)


def _components(indices: Value, axis: int, components: list[int], rewriter: Rewriter) -> Value:
    """Some components of the index vectors, which lie along the dimension `axis` of the indices."""
    shape = indices.shape
    if axis == len(shape) or len(components) == shape[axis]:
        return indices
    pieces = [component(indices, axis, i, rewriter) for i in components]
    if len(pieces) == 1:
        return pieces[0]
    taken = (*shape[:axis], len(pieces), *shape[axis + 1 :])
    return rewriter.emit("concatenate", pieces, taken, indices.dtype, {"dimension": axis})


def component(indices: Value, axis: int, number: int, rewriter: Rewriter) -> Value:
    """The component `number` of the index vectors, with one element along `axis`."""
    op = indices.op
    if op is not None and op.name == "concatenate" and op.attrs["dimension"] == axis:
        for part in op.operands:
            if number < part.shape[axis]:
                return component(part, axis, number, rewriter)
            number -= part.shape[axis]
    begins = tuple(number if d == axis else 0 for d in range(len(indices.shape)))
    ends = tuple(number + 1 if d == axis else n for d, n in enumerate(indices.shape))
    return rewriter.slice(indices, begins, ends)
