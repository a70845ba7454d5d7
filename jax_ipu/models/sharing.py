"""Tied weights: one array for each storage, and for every name a view of that array.

Frameworks with references (PyTorch, Keras, flax nnx) tie weights by giving one tensor several names. A tied weight is
stored once. Where the framework treats it as one parameter (`Model.shared`), its gradient is the sum over its names.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jax_ipu.models.arrays import to_array
from jax_ipu.models.model import loaded


class _Memory(NamedTuple):
    """The memory of a host tensor; address and strides are in bytes."""

    device: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    itemsize: int

    def order(self) -> list[int]:
        """Returns the dimensions from the largest to the smallest stride."""
        return sorted(range(len(self.shape)), key=lambda d: (self.shape[d] != 1, -self.strides[d], d))

    def is_dense(self) -> bool:
        """Whether the elements fill a contiguous range of memory without overlap."""
        expected = self.itemsize
        for d in reversed(self.order()):
            if self.shape[d] != 1 and self.strides[d] != expected:
                return False
            expected *= self.shape[d]
        return True

    def span(self) -> tuple[int, int]:
        """Returns the addresses of the first byte and after the last byte."""
        low = sum(min(s, 0) * (n - 1) for n, s in zip(self.shape, self.strides, strict=True))
        high = sum(max(s, 0) * (n - 1) for n, s in zip(self.shape, self.strides, strict=True))
        return self.address + low, self.address + high + self.itemsize


class View(NamedTuple):
    """The view of an array under one name: the array itself, or the array with its dimensions permuted."""

    slot: int
    shape: tuple[int, ...]
    order: tuple[int, ...]  # dimensions from the largest to the smallest stride


class Shared(NamedTuple):
    """One array for each storage, and the view of each leaf."""

    arrays: list[Any]
    views: list[View]
    owners: list[View]  # for each array, the view that defines its shape and order

    def expand(self, arrays: Sequence[Any]) -> list[Any]:
        """Returns the leaves for values of `arrays`."""
        return [_reordered(arrays[v.slot], self.owners[v.slot], v) for v in self.views]

    def stored(self, leaf: int, value: Any) -> Any:
        """Converts a value of one leaf to the shape and order of its array."""
        view = self.views[leaf]
        return _reordered(value, view, self.owners[view.slot])


def share(leaves: Sequence[Any], apart: Collection[int] = ()) -> Shared:
    """Finds the storages of the leaves, which are tensors or arrays of any framework.

    Host tensors share a storage when they have the same elements at the same addresses (also transposed); JAX arrays
    share one when they are the same object. Leaves at the positions in `apart` share with no other leaf.
    """
    slots: dict[Hashable, int] = {}
    arrays: list[Any] = []
    views: list[View] = []
    owners: list[View] = []
    for i, leaf in enumerate(leaves):
        memory = _memory_of(leaf)
        key = ("apart", i) if i in apart else identity(leaf)
        slot = slots.setdefault(key, len(arrays))
        shape = tuple(np.shape(leaf)) if memory is None else memory.shape
        order = range(len(shape)) if memory is None or not memory.is_dense() else memory.order()
        view = View(slot, shape, tuple(order))
        if slot == len(arrays):
            arrays.append(to_array(leaf))
            owners.append(view)
        views.append(view)
    return Shared(arrays, views, owners)


def identity(leaf: Any) -> Hashable:
    """Returns a key that is equal for two tensors with the same elements at the same addresses.

    The key is valid while both tensors are alive.
    """
    memory = _memory_of(leaf)
    if memory is None or 0 in memory.shape:
        return ("object", id(leaf))
    if memory.is_dense():
        return ("dense", memory.device, memory.address, memory.dtype, int(np.prod(memory.shape, dtype=np.int64)))
    return ("strided", *memory)


def partly_shared(leaves: Sequence[Any]) -> list[tuple[int, int]]:
    """Returns pairs of leaves that overlap in memory without having equal identities."""
    found = [(i, memory) for i, leaf in enumerate(leaves) if (memory := _memory_of(leaf)) and 0 not in memory.shape]
    found.sort(key=lambda item: (item[1].device, item[1].span()))
    pairs = []
    near: list[tuple[int, _Memory]] = []
    for i, memory in found:
        start, _ = memory.span()
        near = [(j, other) for j, other in near if other.device == memory.device and other.span()[1] > start]
        pairs += [(j, i) for j, other in near if identity(leaves[i]) != identity(leaves[j]) and _overlap(memory, other)]
        near.append((i, memory))
    return pairs


def _reordered(array: Any, have: View, want: View) -> Any:
    if (have.shape, have.order) == (want.shape, want.order):
        return array
    flat = array.transpose(have.order).reshape([want.shape[d] for d in want.order])
    return flat.transpose(np.argsort(want.order).tolist())


def _memory_of(leaf: Any) -> _Memory | None:
    """Returns the memory of a leaf, or None where the framework does not expose it."""
    if isinstance(leaf, np.ndarray):
        return _Memory("", leaf.__array_interface__["data"][0], leaf.shape, leaf.strides, leaf.dtype.str, leaf.itemsize)
    torch: Any = loaded("torch")
    if torch is None or not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided:
        return None
    size = leaf.element_size()
    strides = tuple(step * size for step in leaf.stride())
    device = "" if leaf.device.type == "cpu" else str(leaf.device)
    return _Memory(device, leaf.data_ptr(), tuple(leaf.shape), strides, str(leaf.dtype), size)


class _Raw:
    """Exposes a range of memory to NumPy as elements of raw bytes."""

    def __init__(self, memory: _Memory) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (memory.address, True),
            "shape": memory.shape,
            "strides": memory.strides,
            "typestr": f"|V{memory.itemsize}",
        }


def _overlap(one: _Memory, other: _Memory) -> bool:
    """Whether two tensors with intersecting address ranges have a common element; True if that is too costly to say."""
    if one.device:
        return True
    limit: Any = 10**6  # candidates that NumPy checks: an exact answer can take exponential time
    try:
        return bool(np.shares_memory(np.asarray(_Raw(one)), np.asarray(_Raw(other)), max_work=limit))
    except np.exceptions.TooHardError:
        return True
