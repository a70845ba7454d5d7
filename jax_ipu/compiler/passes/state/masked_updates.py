"""Masked updates of state: `select(p, update(x), x)` becomes an update of `x` that p decides, without a copy of `x`.

A decoding loop with an end writes `where(done, cache, cache.at[i].set(row))`. Read as it stands, both the old and the
new cache exist, and each trip copies all of it. Here the predicate goes into the update: into its rows, or into the
indices of a scatter, which leaves out what is outside. Where other ops read the new state as well, it is made as it
stands, and the rows that were there before are written back. All values are exactly those of the select.
"""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu.compiler.expression import is_elementwise, replaces_state
from jax_ipu.compiler.ir import Block, Module, Op, Value, clone_block
from jax_ipu.compiler.passes.indices.windows import Spread, Window
from jax_ipu.compiler.passes.rewriter import Rewriter
from jax_ipu.compiler.passes.state.branch_state import UPDATES
from jax_ipu.compiler.types import INTEGER, num_elements

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


def _masked(select: Op, local: set[Op], rewriter: Rewriter) -> Value | None:
    predicate, chosen, other = select.operands
    if chosen is other:
        return chosen
    if num_elements(chosen.shape) == 0:
        return None
    chains = _chains(chosen, other, local)
    if chains is None:
        return None
    mask = Spread.of(predicate, rewriter)
    inverted = Spread(rewriter.elementwise("not", mask.value), mask.dims)
    together = _masked_together(select, chains, mask, inverted, rewriter)
    if together is not None:
        return together
    sides = [(chosen, chains[0], mask), (other, chains[1], inverted)]
    # A side whose new state stays as it is comes first: the select begins with that state.
    sides.sort(key=lambda side: _stays(side[1], select), reverse=True)
    (first, updates, when), (_, others, instead) = sides
    if _stays(others, select) or not all(_allows(update, mask) for update in others):
        return None
    if _stays(updates, select):
        changed = sum(num_elements(_written(update).shape) for update in updates)
        if not changed or 2 * changed > num_elements(chosen.shape):
            return None
        result = first
        for update in reversed(updates):
            result = _undone(update, result, instead, rewriter)
    else:
        if not all(_allows(update, mask) for update in updates):
            return None
        result = _state_of(updates[0]) if updates else first
        for update in updates:
            result = _predicated(update, result, when, rewriter)
    for update in others:
        result = _predicated(update, result, instead, rewriter)
    return result


# Chains of updates. An update is the value that an op makes of a state: a scatter may change several at once. -------


def _op_of(update: Value) -> Op:
    assert update.op is not None
    return update.op


def _state_of(update: Value) -> Value:
    """The value that the update changes."""
    return _op_of(update).operands[update.index]


def _written(update: Value) -> Value:
    """What the update writes, or combines with the state."""
    op = _op_of(update)
    return op.operands[len(op.results) + 1 + update.index if op.name == "scatter" else 1]


def _chains(chosen: Value, other: Value, local: set[Op]) -> tuple[list[Value], list[Value]] | None:
    """The updates that make both values of one state, the first update first; None where they have none in common."""
    found: list[dict[Value, int]] = []
    for value in (chosen, other):
        values = {value: 0}
        while value.op is not None and value.op in local and value.op.name in UPDATES:
            value = _state_of(value)
            values[value] = len(values)
        found.append(values)
    state = next((value for value in found[0] if value in found[1]), None)
    if state is None:
        return None
    chains = [[value for value in values if values[value] < values[state]] for values in found]
    return chains[0][::-1], chains[1][::-1]


def _stays(updates: Sequence[Value], select: Op) -> bool:
    """Whether the updates must be done as they are: others read what they make, or they make other states as well."""
    after = [*(_op_of(update) for update in updates[1:]), select] if updates else []
    return any(
        len(_op_of(update).results) > 1 or any(user is not then for user in update.users)
        for update, then in zip(updates, after, strict=True)
    )


def _masked_together(
    select: Op, chains: tuple[list[Value], list[Value]], mask: Spread, inverted: Spread, rewriter: Rewriter
) -> Value | None:
    """The result of a select, where one scatter changes several states, each of which one select of this mask keeps."""
    updates, when = (chains[0], mask) if chains[0] else (chains[1], inverted)
    if len(updates) != 1 or (chains[0] and chains[1]) or len(_op_of(updates[0]).results) == 1:
        return None
    scatter, position = _op_of(updates[0]), updates[0].index
    if not _decides_windows(scatter, mask) or num_elements(_written(updates[0]).shape) == 0:
        return None
    at = select.operands.index(updates[0])
    for i, result in enumerate(scatter.results):
        if len(result.users) != 1 or result.users[0].name != "select":
            return None
        operands = result.users[0].operands
        if operands[0] is not select.operands[0] or operands[at] is not result:
            return None
        if operands[3 - at] is not scatter.operands[i]:
            return None
    indices = len(scatter.results)
    operands = list(scatter.operands)
    operands[indices] = _masked_indices(scatter, when, rewriter)
    types = [(result.shape, result.dtype) for result in scatter.results]
    masked = Op("scatter", operands, types, dict(scatter.attrs), (clone_block(scatter.regions[0]),), scatter.location)
    rewriter.ops.append(masked)
    # The other selects then choose between a state and itself.
    for i, result in enumerate(scatter.results):
        if i != position:
            other = result.users[0]
            other.set_operands([other.operands[0], masked.results[i], masked.results[i]])
    return masked.results[position]


# Windows ----------------------------------------------------------------------------------------------------------


def _outside(op: Op) -> int | None:
    """An index of a scatter at which all windows are outside; None where its type has none."""
    operand, indices = op.operands[0], op.operands[len(op.results)]
    scattered = op.attrs["scatter_dimension_numbers"]["scattered_dims_to_operand_dims"]
    extents = [operand.shape[d] for d in scattered]
    if not extents or indices.dtype not in INTEGER:
        return None
    bits = int(indices.dtype[1:])
    largest = min(max(extents), (1 << (bits - (indices.dtype[0] == "s"))) - 1)
    return largest if largest >= min(extents) else None


def _decides_windows(op: Op, mask: Spread) -> bool:
    """Whether the mask is equal over each window of a scatter, and can be put into its indices."""
    if op.name != "scatter" or _outside(op) is None:
        return False
    sizes = Window.of_update(op).sizes
    return all(sizes[d] == 1 for d in mask.dims)


def _allows(update: Value, mask: Spread) -> bool:
    """Whether the update can be masked."""
    op = _op_of(update)
    if num_elements(_written(update).shape) == 0:
        return False
    if op.name != "scatter" or _decides_windows(op, mask):
        return True
    body = op.regions[0]
    return (len(op.results) == 1 and replaces_state(body)) or (
        _is_distinct(op) and all(is_elementwise(inner) or inner.name == "constant" for inner in body.ops[:-1])
    )


def _is_distinct(scatter: Op) -> bool:
    """Whether no two windows of a scatter are at one place."""
    places = set(Window.of_update(scatter).batch_places().values())
    inner = scatter.attrs["scatter_dimension_numbers"]["update_window_dims"]
    windows = [n for i, n in enumerate(scatter.operands[-1].shape) if i not in inner and i not in places]
    return bool(scatter.attrs.get("unique_indices")) or num_elements(tuple(windows)) == 1


# Updates ----------------------------------------------------------------------------------------------------------


def _updated(op: Op, value: Value, window: Value, rewriter: Rewriter, indices: Value | None = None) -> Value:
    """`value` with other contents where the update `op` writes; `indices`: others for a scatter."""
    if op.name != "scatter":
        operands = (value, window, *op.operands[2:])
        return rewriter.emit(op.name, operands, value.shape, value.dtype, dict(op.attrs))
    args = [Value((), value.dtype, None, i) for i in range(2)]
    body = Block(args, [Op("return", [args[1]], [], None, (), op.location)])
    operands = (value, op.operands[len(op.results)] if indices is None else indices, window)
    return rewriter.emit("scatter", operands, value.shape, value.dtype, dict(op.attrs), (body,))


def _masked_indices(op: Op, mask: Spread, rewriter: Rewriter) -> Value:
    """The indices of a scatter where the mask is set, and others at which nothing is written."""
    indices, outside = op.operands[len(op.results)], _outside(op)
    vector = op.attrs["scatter_dimension_numbers"]["index_vector_dim"]
    windows = Window.of_update(op).corner().read_spread(mask, rewriter)
    along = tuple(d for d in range(len(indices.shape)) if d != vector)
    predicate = rewriter.broadcast(windows, indices.shape, along)
    nowhere = rewriter.full(indices.shape, indices.dtype, outside)
    return rewriter.elementwise("select", predicate, indices, nowhere, dtype=indices.dtype)


def _predicated(update: Value, value: Value, mask: Spread, rewriter: Rewriter) -> Value:
    """The update of `value` in place of its own state, where the mask is set."""
    op, new = _op_of(update), _written(update)
    if _decides_windows(op, mask):
        operands = (value, _masked_indices(op, mask, rewriter), new)
        body = clone_block(op.regions[0])
        return rewriter.emit("scatter", operands, value.shape, value.dtype, dict(op.attrs), (body,))
    window = Window.of_update(op)
    old = window.read(value, rewriter)
    if op.name == "scatter" and not replaces_state(op.regions[0]):
        (new,) = rewriter.apply(op.regions[0], [old, new], new.shape)
    predicate = window.read_spread(mask, rewriter)
    chosen = rewriter.elementwise("select", predicate, new, old, dtype=value.dtype)
    return _updated(op, value, chosen, rewriter)


def _undone(update: Value, value: Value, mask: Spread, rewriter: Rewriter) -> Value:
    """`value`, with what was there before the update where the mask is set."""
    op, window = _op_of(update), Window.of_update(_op_of(update), update.index)
    before = window.read(_state_of(update), rewriter)
    if _decides_windows(op, mask):
        return _updated(op, value, before, rewriter, _masked_indices(op, mask, rewriter))
    after = window.read(value, rewriter)
    predicate = window.read_spread(mask, rewriter)
    chosen = rewriter.elementwise("select", predicate, before, after, dtype=value.dtype)
    return _updated(op, value, chosen, rewriter)
