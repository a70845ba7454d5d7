"""Carries loop state that every trip pads in its padded form: a border is written once, not in every trip.

A stencil with `jnp.pad` fills a padded array and copies the state into it before it reads the neighbours. Here the
padded array is the state: its border never changes, and the new state is copied into its inner part.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import is_elementwise, splat_of
from jax_ipu.compiler.ir import LOOPS, VIEWS, Block, Module, Op, Value
from jax_ipu.compiler.types import num_elements

# Ops that read a view as well as a whole variable. Others, such as products, demand a mapping of the state.
_READERS = frozenset(("slice", "reduce", "return", "ipu.update_slice", "dynamic_update_slice"))


def run(module: Module) -> None:
    """Changes the state of the loops of main, inner loops first."""
    _run_block(module.main.block)


def _run_block(block: Block) -> None:
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _run_block(region)
        after: list[Op] = []
        if op.name in LOOPS:
            for position in range(len(op.results)):
                pads = _pads(op.regions[-1], position)
                if pads:
                    before, inner = _carry_padded(op, position, pads)
                    ops += before
                    after.append(inner)
        ops += [op, *after]
    block.ops = ops


def _pads(body: Block, position: int) -> list[Op]:
    """The equal pads, by constants, of a carried value that may be carried in padded form; none where it may not."""
    state, new = body.args[position], body.results[position]
    if new is state or (new.op is not None and new.op.name in VIEWS) or num_elements(state.shape) == 0:
        return []
    inside = set(body.ops)
    pads = [user for user in state.users if user.name == "pad" and user in inside and _is_border(user, state)]
    equal = [pad for pad in pads if _configuration(pad) == _configuration(pads[0])]
    others = [user for user in state.users if user not in equal]
    if any(user.name not in _READERS and not is_elementwise(user) for user in others):
        return []
    if any(user.operands[0] is state and user.name in ("ipu.update_slice", "dynamic_update_slice") for user in others):
        return []
    return equal


def _is_border(pad: Op, state: Value) -> bool:
    edges = (*pad.attrs["edge_padding_low"], *pad.attrs["edge_padding_high"])
    return (
        pad.operands[0] is state
        and min(edges) >= 0
        and not any(pad.attrs["interior_padding"])
        and (splat_of(pad.operands[1]) is not None)
    )


def _configuration(pad: Op) -> tuple[object, ...]:
    literal = splat_of(pad.operands[1])
    assert literal is not None
    return tuple(pad.attrs["edge_padding_low"]), tuple(pad.attrs["edge_padding_high"]), literal.data


def _carry_padded(loop: Op, position: int, pads: list[Op]) -> tuple[list[Op], Op]:
    """Makes the carried value the padded one; returns the ops for before the loop, and the one for after it."""
    pad, body = pads[0], loop.regions[-1]
    shape, dtype, location = pad.result.shape, pad.result.dtype, pad.location
    begins = tuple(pad.attrs["edge_padding_low"])
    ends = tuple(b + n for b, n in zip(begins, pad.operands[0].shape, strict=True))
    literal = splat_of(pad.operands[1])

    def inner(padded: Value) -> Op:
        strides = (1,) * len(begins)
        attrs = {"start_indices": begins, "limit_indices": ends, "strides": strides}
        types = [(tuple(e - b for b, e in zip(begins, ends, strict=True)), dtype)]
        return Op("slice", [padded], types, attrs, (), location)

    padding = Op("constant", (), [((), dtype)], {"value": literal}, (), location)
    first = Op("pad", [loop.operands[position], padding.result], [(shape, dtype)], dict(pad.attrs), (), location)
    loop.set_operands([first.result if i == position else o for i, o in enumerate(loop.operands)])
    for region in loop.regions:
        state = region.args[position]
        padded = region.args[position] = Value(shape, dtype, None, position)
        if region is body:
            for old in pads:
                old.result.replace_with(padded)
                old.drop()
            dropped = set(pads)
            region.ops = [op for op in region.ops if op not in dropped]
            update = Op(
                "ipu.update_slice",
                [padded, region.results[position]],
                [(shape, dtype)],
                {"start_indices": begins, "strides": (1,) * len(begins)},
                (),
                location,
            )
            results = list(region.results)
            results[position] = update.result
            region.terminator.set_operands(results)
            region.ops.insert(len(region.ops) - 1, update)
        if state.users:
            view = inner(padded)
            state.replace_with(view.result)
            region.ops.insert(0, view)
    result = loop.results[position]
    loop.results[position] = Value(shape, dtype, loop, position)
    view = inner(loop.results[position])
    result.replace_with(view.result)
    return [padding, first], view
