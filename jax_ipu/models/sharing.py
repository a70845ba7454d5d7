"""Weights with several names: one array for each storage, and for every name its view of that array.

Frameworks with references (PyTorch, Keras, flax nnx) tie weights by giving one tensor several names. A tied weight is
stored once, and where the framework means one parameter (`Model.shared`) it gets one gradient, the sum over its names.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jax_ipu.models.arrays import to_array
from jax_ipu.models.model import loaded


class _Memory(NamedTuple):
    """Where the elements of a host tensor lie; address and strides in bytes."""

    device: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    itemsize: int

    def order(self) -> list[int]:
        """The dimensions from the slowest to the fastest in memory."""
        return sorted(range(len(self.shape)), key=lambda d: (self.shape[d] != 1, -self.strides[d], d))

    def is_dense(self) -> bool:
        """Whether the elements fill one piece of memory, each of them once."""
        expected = self.itemsize
        for d in reversed(self.order()):
            if self.shape[d] != 1 and self.strides[d] != expected:
                return False
            expected *= self.shape[d]
        return True

    def span(self) -> tuple[int, int]:
        """First byte, and the byte after the last."""
        low = sum(min(s, 0) * (n - 1) for n, s in zip(self.shape, self.strides, strict=True))
        high = sum(max(s, 0) * (n - 1) for n, s in zip(self.shape, self.strides, strict=True))
        return self.address + low, self.address + high + self.itemsize


class View(NamedTuple):
    """One name's view of an array: the array itself, or its elements in another order of dimensions."""

    slot: int
    shape: tuple[int, ...]
    order: tuple[int, ...]  # dimensions from the slowest to the fastest in memory


class Shared(NamedTuple):
    """Every storage once, and each leaf's view of its storage."""

    arrays: list[Any]
    views: list[View]
    owners: list[View]  # for each array, the view in whose form it is stored

    def expand(self, arrays: Sequence[Any]) -> list[Any]:
        """The leaves, from values of `arrays`."""
        return [_reordered(arrays[v.slot], self.owners[v.slot], v) for v in self.views]

    def stored(self, leaf: int, value: Any) -> Any:
        """A value of one leaf as its array has it."""
        view = self.views[leaf]
        return _reordered(value, view, self.owners[view.slot])


def share(leaves: Sequence[Any], apart: Collection[int] = ()) -> Shared:
    """The storages of the leaves, tensors or arrays of any framework.

    Tensors on the host share when they have the same elements at the same place (also transposed), arrays of JAX when
    they are the same object. Leaves at the positions in `apart` share with no other.
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
    """A key that two tensors have in common when they are the same elements at the same place.

    It holds as long as both tensors are alive.
    """
    memory = _memory_of(leaf)
    if memory is None or 0 in memory.shape:
        return ("object", id(leaf))
    if memory.is_dense():
        return ("dense", memory.device, memory.address, memory.dtype, int(np.prod(memory.shape, dtype=np.int64)))
    return ("strided", *memory)


def partly_shared(leaves: Sequence[Any]) -> list[tuple[int, int]]:
    """Pairs of leaves that have some elements in common, but not all of them as `share` could say."""
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
    """None where the framework does not say."""
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
    """Memory as NumPy sees it, whatever its elements are."""

    def __init__(self, memory: _Memory) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (memory.address, True),
            "shape": memory.shape,
            "strides": memory.strides,
            "typestr": f"|V{memory.itemsize}",
        }


def _overlap(one: _Memory, other: _Memory) -> bool:
    """Whether some element is in both, of which the spans meet."""
    if one.device:
        return True
    limit: Any = 10**6  # of candidates: an exact answer can take exponential time
    try:
        return bool(np.shares_memory(np.asarray(_Raw(one)), np.asarray(_Raw(other)), max_work=limit))
    except np.exceptions.TooHardError:
        return True
