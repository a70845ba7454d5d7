"""How ops that can be computed block by block relate a dimension of their results to one of their operands."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from jax_ipu.compiler.expression import identity_of, is_elementwise, single_op
from jax_ipu.compiler.ir import Op, Value
from jax_ipu.compiler.types import Shape, num_elements

# Views, which take no memory of their own.
VIEWS = frozenset(("broadcast_in_dim", "transpose", "reshape"))
_ROWS = frozenset(("iota", "reduce", "sort", "chlo.top_k", "dot_general"))
# Lookups and scatters, along the dimensions in which each row has indices of its own.
_INDEXED = frozenset(("gather", "scatter"))


def is_blockable(op: Op) -> bool:
    """Whether a block of the results can be computed from blocks of the operands."""
    if op.name in _INDEXED:
        return bool(_batches(op))
    return op.name in VIEWS or op.name in _ROWS or is_elementwise(op)


@dataclass
class Axes:
    """The dimensions along which ops are cut into blocks.

    Attributes:
        of: value -> its dimension that is cut.
        reduced: reductions and products that sum over the dimension that is cut -> that dimension of operand 0.
    """

    of: dict[Value, int] = field(default_factory=dict)
    reduced: dict[Op, int] = field(default_factory=dict)

    def of_operand(self, op: Op, i: int) -> int | None:
        """The dimension of operand i that is cut; None where each block reads all of it."""
        if op in self.reduced:
            if op.name == "dot_general":
                return _other_summed(op, 0, self.reduced[op]) if i else self.reduced[op]
            return self.reduced[op] if i < len(op.results) else None
        return _operand_axis(op, i, self.of[op.results[0]])


def find_axes(ops: Collection[Op], anchor: Value, axis: int) -> Axes | None:
    """The dimensions to cut in all `ops` where that of `anchor` is `axis`; None where the ops do not allow it.

    `anchor` is a result of one of them, and all are connected. A reduction over the dimension that is cut gives a
    partial result of each block, so no other of the ops may read it.
    """
    axes = Axes({anchor: axis})
    pending = [anchor]
    while pending:
        value = pending.pop()
        where = axes.of[value]
        found: list[tuple[Value, int]] = []
        if value.op in ops and value.op is not None:
            if not _allows(value.op, where):
                return None
            found += [(result, where) for result in value.op.results]
            if not _visit_operands(value.op, ops, axes, found):
                return None
        for user in value.users:
            if user not in ops:
                continue
            for i, operand in enumerate(user.operands):
                if operand is not value:
                    continue
                place = _result_axis(user, i, where)
                if place is None:
                    return None
                if place >= 0:
                    found += [(result, place) for result in user.results]
                elif not _reduces(user, i, where, ops, axes):
                    return None
                elif not _visit_operands(user, ops, axes, found):
                    return None
        for other, place in found:
            if other not in axes.of:
                axes.of[other] = place
                pending.append(other)
            elif axes.of[other] != place:
                return None
    missing = any(op not in axes.reduced and any(r not in axes.of for r in op.results) for op in ops)
    mixed = any(op in axes.reduced and any(r in axes.of for r in op.results) for op in ops)
    return None if missing or mixed else axes


def _visit_operands(op: Op, ops: Collection[Op], axes: Axes, found: list[tuple[Value, int]]) -> bool:
    """Adds the operands of `op` that other ops make; False where one of them is not cut."""
    for i, operand in enumerate(op.operands):
        if operand.op in ops:
            place = axes.of_operand(op, i)
            if place is None:
                return False
            found.append((operand, place))
    return True


def _reduces(op: Op, i: int, axis: int, ops: Collection[Op], axes: Axes) -> bool:
    """Notes that the op reduces dimension `axis` of operand i; False where blocks do not allow it.

    Partial results have to be combined, and nothing else may read them.
    """
    if i and op.name == "dot_general":
        axis = _other_summed(op, i, axis)
    if axes.reduced.setdefault(op, axis) != axis or any(user in ops for r in op.results for user in r.users):
        return False
    name = combiner(op)
    return name is not None and identity_of(name, op.result.dtype) is not None


def combiner(op: Op) -> str | None:
    """The elementwise op that combines partial results of a reduction or product; None where there is none."""
    if op.name == "dot_general":
        return "add"
    return single_op(op.regions[0]) if len(op.results) == 1 else None


def _dot_dims(op: Op) -> tuple[tuple[int | None, ...], ...]:
    """For both operands of a product, the operand's dimension that is each dimension of the result."""
    numbers = op.attrs["dot_dimension_numbers"]
    batch = [tuple(numbers[f"{side}_batching_dimensions"]) for side in ("lhs", "rhs")]
    summed = [tuple(numbers[f"{side}_contracting_dimensions"]) for side in ("lhs", "rhs")]
    free = [
        tuple(d for d in range(len(o.shape)) if d not in batch[i] and d not in summed[i])
        for i, o in enumerate(op.operands)
    ]
    nothing = [(None,) * len(dims) for dims in free]
    return (*batch[0], *free[0], *nothing[1]), (*batch[1], *nothing[0], *free[1])


def _other_summed(op: Op, i: int, axis: int) -> int:
    """The dimension of a product's other operand that is summed with dimension `axis` of operand i."""
    numbers = op.attrs["dot_dimension_numbers"]
    dims = [numbers[f"{side}_contracting_dimensions"] for side in ("lhs", "rhs")]
    return int(dims[1 - i][tuple(dims[i]).index(axis)])


def _batches(op: Op) -> list[tuple[int, ...]]:
    """For each batch dimension of a gather or scatter: that dimension of each operand, and at last of the result."""
    if op.name == "gather":
        numbers, window, rows = op.attrs["dimension_numbers"], "offset_dims", op.result
        dims = numbers["operand_batching_dims"], numbers["start_indices_batching_dims"]
    elif len(op.operands) == 3:
        numbers, window, rows = op.attrs["scatter_dimension_numbers"], "update_window_dims", op.operands[2]
        dims = numbers["input_batching_dims"], numbers["scatter_indices_batching_dims"]
    else:
        return []
    of_indices = [d for d in range(len(op.operands[1].shape)) if d != numbers["index_vector_dim"]]
    of_rows = [d for d in range(len(rows.shape)) if d not in numbers[window]]
    found: list[tuple[int, ...]] = [(a, b, of_rows[of_indices.index(b)]) for a, b in zip(*dims, strict=True)]
    return found if op.name == "gather" else [(*batch, batch[0]) for batch in found]


def _in_batch(op: Op, known: int, axis: int, wanted: int) -> int | None:
    """The dimension of operand `wanted` in the batch that is dimension `axis` of operand `known`; -1: the result."""
    return next((dims[wanted] for dims in _batches(op) if dims[known] == axis), None)


def _allows(op: Op, axis: int) -> bool:
    if op.name in _INDEXED:
        return _in_batch(op, -1, axis, -1) is not None
    if op.name == "sort":
        return bool(axis != op.attrs.get("dimension", -1) % len(op.results[0].shape))
    return op.name != "chlo.top_k" or axis != len(op.results[0].shape) - 1


def _operand_axis(op: Op, i: int, axis: int) -> int | None:
    """The dimension of operand i that is dimension `axis` of the results; None where there is none."""
    shape = op.operands[i].shape
    if op.name == "broadcast_in_dim":
        dims = tuple(op.attrs["broadcast_dimensions"])
        place = dims.index(axis) if axis in dims else None
        return place if place is not None and shape[place] == op.result.shape[axis] else None
    if op.name == "transpose":
        return int(op.attrs["permutation"][axis])
    if op.name == "reshape":
        return _same_dimension(op.result.shape, axis, shape)
    if op.name == "reduce":
        if i >= len(op.results):
            return None
        kept = [d for d in range(len(shape)) if d not in op.attrs["dimensions"]]
        return kept[axis]
    if op.name == "dot_general":
        return _dot_dims(op)[i][axis]
    return _in_batch(op, -1, axis, i) if op.name in _INDEXED else axis


def _result_axis(op: Op, i: int, axis: int) -> int | None:
    """The dimension of the results that is dimension `axis` of operand i; -1 where it is reduced, None if unknown."""
    shape = op.operands[i].shape
    if op.name == "broadcast_in_dim":
        place = int(op.attrs["broadcast_dimensions"][axis])
        return place if op.result.shape[place] == shape[axis] else None
    if op.name == "transpose":
        return tuple(op.attrs["permutation"]).index(axis)
    if op.name == "reshape":
        return _same_dimension(shape, axis, op.result.shape)
    if op.name == "reduce":
        if i >= len(op.results):
            return None
        return -1 if axis in op.attrs["dimensions"] else axis - sum(d < axis for d in op.attrs["dimensions"])
    if op.name == "dot_general":
        dims = _dot_dims(op)[i]
        return dims.index(axis) if axis in dims else -1
    if op.name in _INDEXED:
        return _in_batch(op, i, axis, -1)
    return axis if _allows(op, axis) else None


def _same_dimension(shape: Shape, axis: int, other: Shape) -> int | None:
    """The dimension of a reshape's other side that has the same elements at each position; None if there is none."""
    before, extent = num_elements(shape[:axis]), shape[axis]
    for d, n in enumerate(other):
        if n == extent and num_elements(other[:d]) == before:
            return d
    return None
