"""Masked updates of state: `select(p, update(x), x)` becomes an update of `x` that p decides, without a copy of `x`.

A decoding loop with an end writes `where(done, cache, cache.at[i].set(row))`. Read as it stands, both the old and the
new cache exist, and each trip copies all of it. Here the predicate goes into the update: into its rows, or into the
indices of a scatter, which leaves out what is outside. Where other ops read the new state as well, it is made as it
stands, and the rows that were there before are written back. All values are exactly those of the select.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jax_ipu.compiler.expression import is_elementwise
from jax_ipu.compiler.ir import Block, Module, Op, Value, clone_ops
from jax_ipu.compiler.passes.branch_state import UPDATES
from jax_ipu.compiler.passes.rewriter import Rewriter
from jax_ipu.compiler.types import INTEGER, Shape, num_elements

_CONTROL_FLOW = frozenset(("while", "if", "case", "ipu.repeat"))


def run(module: Module) -> None:
    """Rewrites the selects of main, and of the regions of its control flow."""
    _run_block(module.main.block)


def _run_block(block: Block) -> None:
    rewriter = Rewriter()
    seen = 0
    local: set[Op] = set()
    for op in block.ops:
        if op.name in _CONTROL_FLOW:
            for region in op.regions:
                _run_block(region)
        rewriter.location = op.location
        replacement = None
        if op.name == "select":
            local.update(rewriter.ops[seen:])
            seen = len(rewriter.ops)
            replacement = _masked(op, local, rewriter)
        if replacement is None:
            rewriter.ops.append(op)
            continue
        op.result.replace_with(replacement)
        op.drop()
    block.ops = rewriter.ops


@dataclass(frozen=True)
class _Mask:
    """A predicate: dimension i of `value` is dimension `dims[i]` of the state; it is equal over all others."""

    value: Value
    dims: Shape

    def inverted(self, rewriter: Rewriter) -> _Mask:
        return _Mask(rewriter.elementwise("not", self.value), self.dims)

    def over(self, shape: Shape, places: dict[int, int], rewriter: Rewriter) -> Value | None:
        """The predicate of a tensor of this shape, of which dimension `places[d]` runs along dimension d of the state.

        None where the predicate differs along another dimension.
        """
        if any(d not in places for d in self.dims):
            return None
        order = sorted(range(len(self.dims)), key=lambda i: places[self.dims[i]])
        value = rewriter.transpose(self.value, tuple(order))
        return rewriter.broadcast(value, shape, tuple(places[self.dims[i]] for i in order))


def _mask(predicate: Value, rewriter: Rewriter) -> _Mask:
    """The predicate before it was broadcast, without dimensions of one element."""
    value, dims = predicate, tuple(range(len(predicate.shape)))
    op = predicate.op
    if op is not None and op.name == "broadcast_in_dim":
        value, dims = op.operands[0], tuple(op.attrs["broadcast_dimensions"])
    kept = [i for i, n in enumerate(value.shape) if n != 1]
    return _Mask(rewriter.reshape(value, tuple(value.shape[i] for i in kept)), tuple(dims[i] for i in kept))


def _masked(select: Op, local: set[Op], rewriter: Rewriter) -> Value | None:
    predicate, chosen, other = select.operands
    if chosen is other or num_elements(chosen.shape) == 0:
        return None
    chains = _chains(chosen, other, local)
    if chains is None:
        return None
    mask = _mask(predicate, rewriter)
    sides = [(chosen, chains[0], mask), (other, chains[1], mask.inverted(rewriter))]
    if not all(_allows(op, mask) for chain in chains for op in chain):
        return None
    # A side whose new state other ops read comes first: the select begins with that state.
    sides.sort(key=lambda side: _is_read_elsewhere(side[0], side[1], select), reverse=True)
    (first, updates, when), (second, others, instead) = sides
    if _is_read_elsewhere(second, others, select):
        return None
    if _is_read_elsewhere(first, updates, select):
        changed = sum(num_elements(op.operands[-1].shape) for op in updates if op.name == "scatter")
        changed += sum(num_elements(op.operands[1].shape) for op in updates if op.name != "scatter")
        if 2 * changed > num_elements(chosen.shape):
            return None
        result = first
        for op in reversed(updates):
            result = _undone(op, result, instead, rewriter)
    else:
        result = updates[0].operands[0] if updates else first
        for op in updates:
            result = _predicated(op, result, when, rewriter)
    for op in others:
        result = _predicated(op, result, instead, rewriter)
    return result


def _chains(chosen: Value, other: Value, local: set[Op]) -> tuple[list[Op], list[Op]] | None:
    """The updates that make both values of one state, the first update first; None where they have none in common."""
    found: list[dict[Value, int]] = []
    for value in (chosen, other):
        values = {value: 0}
        while value.op is not None and value.op in local and value.op.name in UPDATES and len(value.op.results) == 1:
            value = value.op.operands[0]
            values[value] = len(values)
        found.append(values)
    state = next((value for value in found[0] if value in found[1]), None)
    if state is None:
        return None
    chains = [[v.op for v in values if values[v] < values[state] and v.op is not None] for values in found]
    return chains[0][::-1], chains[1][::-1]


def _is_read_elsewhere(value: Value, updates: Sequence[Op], select: Op) -> bool:
    """Whether an op other than the next update, and the select, reads what one of the updates makes."""
    after = [*updates[1:], select] if updates else []
    return any(any(user is not then for user in op.result.users) for op, then in zip(updates, after, strict=True))


# Windows ----------------------------------------------------------------------------------------------------------


def _scatter_dims(op: Op) -> dict[str, Shape]:
    d = op.attrs["scatter_dimension_numbers"]
    names = ("update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims")
    return {name: tuple(d[name]) for name in (*names, "scattered_dims_to_operand_dims")}


def _batch_places(op: Op) -> dict[int, tuple[int, int]]:
    """Batching dimension of the operand of a scatter -> the dimension of the indices and that of the updates."""
    d = _scatter_dims(op)
    _, indices, update = op.operands
    vector = op.attrs["scatter_dimension_numbers"]["index_vector_dim"]
    along = [i for i in range(len(indices.shape)) if i != vector]
    batch = [i for i in range(len(update.shape)) if i not in d["update_window_dims"]]
    pairs = zip(d["input_batching_dims"], d["scatter_indices_batching_dims"], strict=True)
    return {operand: (i, batch[along.index(i)]) for operand, i in pairs}


def _window_places(op: Op) -> dict[int, int]:
    """Dimension of the operand -> the dimension of the window that runs along all of it."""
    operand = op.operands[0]
    if op.name != "scatter":
        return {d: d for d, n in enumerate(op.operands[1].shape) if n == operand.shape[d]}
    d = _scatter_dims(op)
    single = (*d["inserted_window_dims"], *d["input_batching_dims"])
    windows = [i for i in range(len(operand.shape)) if i not in single]
    places = dict(zip(windows, d["update_window_dims"], strict=True))
    whole = {i: w for i, w in places.items() if op.operands[2].shape[w] == operand.shape[i]}
    return whole | {i: update for i, (_, update) in _batch_places(op).items()}


def _outside(op: Op) -> int | None:
    """An index of a scatter at which all windows are outside; None where its type has none."""
    operand, indices, _ = op.operands
    extents = [operand.shape[d] for d in _scatter_dims(op)["scattered_dims_to_operand_dims"]]
    if not extents or indices.dtype not in INTEGER:
        return None
    bits = int(indices.dtype[1:])
    largest = min(max(extents), (1 << (bits - (indices.dtype[0] == "s"))) - 1)
    return largest if largest >= min(extents) else None


def _masks_indices(op: Op, mask: _Mask) -> bool:
    """Whether the mask decides over whole windows of a scatter."""
    return op.name == "scatter" and _outside(op) is not None and set(mask.dims) <= _batch_places(op).keys()


def _allows(op: Op, mask: _Mask) -> bool:
    """Whether the update can be masked."""
    if op.name != "scatter":
        return num_elements(op.operands[1].shape) > 0
    if num_elements(op.operands[2].shape) == 0:
        return False
    if _masks_indices(op, mask):
        return True
    if not set(mask.dims) <= _window_places(op).keys():
        return False
    body = op.regions[0]
    return _replaces(op) or (
        _is_distinct(op) and all(is_elementwise(inner) or inner.name == "constant" for inner in body.ops[:-1])
    )


def _replaces(scatter: Op) -> bool:
    body = scatter.regions[0]
    return len(body.ops) == 1 and body.results[0] is body.args[1]


def _is_distinct(scatter: Op) -> bool:
    """Whether no two windows of a scatter are at one place."""
    d = _scatter_dims(scatter)
    places = {update for _, update in _batch_places(scatter).values()}
    shape = scatter.operands[2].shape
    windows = [n for i, n in enumerate(shape) if i not in d["update_window_dims"] and i not in places]
    return bool(scatter.attrs.get("unique_indices")) or num_elements(tuple(windows)) == 1


def _window(op: Op, value: Value, rewriter: Rewriter) -> Value:
    """What `value` holds where the update `op` writes."""
    if op.name == "dynamic_update_slice":
        sizes = op.operands[1].shape
        operands = (value, *op.operands[2:])
        return rewriter.emit("dynamic_slice", operands, sizes, value.dtype, {"slice_sizes": sizes})
    if op.name == "ipu.update_slice":
        begins, strides, shape = op.attrs["start_indices"], op.attrs["strides"], op.operands[1].shape
        ends = tuple(b + (n - 1) * s + 1 for b, n, s in zip(begins, shape, strides, strict=True))
        return rewriter.slice(value, begins, ends, strides)
    d = _scatter_dims(op)
    _, indices, update = op.operands
    windows = iter(d["update_window_dims"])
    single = (*d["inserted_window_dims"], *d["input_batching_dims"])
    numbers = {
        "offset_dims": d["update_window_dims"],
        "collapsed_slice_dims": d["inserted_window_dims"],
        "operand_batching_dims": d["input_batching_dims"],
        "start_indices_batching_dims": d["scatter_indices_batching_dims"],
        "start_index_map": d["scattered_dims_to_operand_dims"],
        "index_vector_dim": op.attrs["scatter_dimension_numbers"]["index_vector_dim"],
    }
    attrs: dict[str, Any] = {
        "dimension_numbers": numbers,
        "slice_sizes": tuple(1 if i in single else update.shape[next(windows)] for i in range(len(value.shape))),
    }
    if "index_wraps" in op.attrs:
        attrs["index_wraps"] = op.attrs["index_wraps"]
    return rewriter.emit("gather", (value, indices), update.shape, value.dtype, attrs)


def _window_mask(op: Op, mask: _Mask, rewriter: Rewriter) -> Value:
    """The mask where the update `op` writes."""
    update = op.operands[2] if op.name == "scatter" else op.operands[1]
    places = _window_places(op)
    if op.name != "scatter":
        moving = [d not in places for d in mask.dims]
        if any(moving):
            mask = _Mask(_part_of_mask(op, mask, moving, rewriter), mask.dims)
            places = {d: d for d in range(len(update.shape))}
    predicate = mask.over(update.shape, places, rewriter)
    assert predicate is not None
    return predicate


def _part_of_mask(op: Op, mask: _Mask, moving: list[bool], rewriter: Rewriter) -> Value:
    """The part of a mask that lies along the window of an update of a slice."""
    shape = op.operands[1].shape
    sizes = tuple(shape[d] for d in mask.dims)
    if op.name == "ipu.update_slice":
        begins = tuple(op.attrs["start_indices"][d] for d in mask.dims)
        strides = tuple(op.attrs["strides"][d] for d in mask.dims)
        ends = tuple(b + (n - 1) * s + 1 for b, n, s in zip(begins, sizes, strides, strict=True))
        return rewriter.slice(mask.value, begins, ends, strides)
    starts = [op.operands[2 + d] for d in mask.dims]
    return rewriter.emit("dynamic_slice", (mask.value, *starts), sizes, "pred", {"slice_sizes": sizes})


# Updates ----------------------------------------------------------------------------------------------------------


def _updated(op: Op, value: Value, window: Value, rewriter: Rewriter, indices: Value | None = None) -> Value:
    """`value` with other contents where the update `op` writes; `indices`: others for a scatter."""
    if op.name != "scatter":
        operands = (value, window, *op.operands[2:])
        return rewriter.emit(op.name, operands, value.shape, value.dtype, dict(op.attrs))
    args = [Value((), value.dtype, None, i) for i in range(2)]
    body = Block(args, [Op("return", [args[1]], [], None, (), op.location)])
    operands = (value, op.operands[1] if indices is None else indices, window)
    return rewriter.emit("scatter", operands, value.shape, value.dtype, dict(op.attrs), (body,))


def _masked_indices(op: Op, mask: _Mask, rewriter: Rewriter) -> Value:
    """The indices of a scatter where the mask is set, and others at which nothing is written."""
    indices, outside = op.operands[1], _outside(op)
    places = {operand: i for operand, (i, _) in _batch_places(op).items()}
    predicate = mask.over(indices.shape, places, rewriter)
    assert predicate is not None
    nowhere = rewriter.full(indices.shape, indices.dtype, outside)
    return rewriter.elementwise("select", predicate, indices, nowhere, dtype=indices.dtype)


def _predicated(op: Op, value: Value, mask: _Mask, rewriter: Rewriter) -> Value:
    """The update of `value` as `op` does it, where the mask is set."""
    if _masks_indices(op, mask):
        operands = (value, _masked_indices(op, mask, rewriter), op.operands[2])
        body = op.regions[0]
        args = [Value(arg.shape, arg.dtype, None, arg.index) for arg in body.args]
        region = Block(args, clone_ops(body, dict(zip(body.args, args, strict=True))))
        return rewriter.emit("scatter", operands, value.shape, value.dtype, dict(op.attrs), (region,))
    old = _window(op, value, rewriter)
    new = op.operands[2] if op.name == "scatter" else op.operands[1]
    if op.name == "scatter" and not _replaces(op):
        (new,) = rewriter.apply(op.regions[0], [old, new], new.shape)
    chosen = rewriter.elementwise("select", _window_mask(op, mask, rewriter), new, old, dtype=value.dtype)
    return _updated(op, value, chosen, rewriter)


def _undone(op: Op, value: Value, mask: _Mask, rewriter: Rewriter) -> Value:
    """`value`, with what was there before the update `op` where the mask is set."""
    before = _window(op, op.operands[0], rewriter)
    if _masks_indices(op, mask):
        return _updated(op, value, before, rewriter, _masked_indices(op, mask, rewriter))
    after = _window(op, value, rewriter)
    chosen = rewriter.elementwise("select", _window_mask(op, mask, rewriter), before, after, dtype=value.dtype)
    return _updated(op, value, chosen, rewriter)
