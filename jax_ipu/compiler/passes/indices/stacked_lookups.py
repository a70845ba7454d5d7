"""Lookups that choose for each element one of a few arrays that have just been stacked are selects.

So it is with `jnp.choose(which, [a, b, c])`, and with `jnp.take_along_axis(jnp.stack([a, b, c]), which[None], 0)`: the
other indices of an element are its own position, so no element moves.
"""

from __future__ import annotations

from jax_ipu.compiler.ir import Module, Op, Value
from jax_ipu.compiler.passes.indices import known_indices
from jax_ipu.compiler.passes.indices.windows import component
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule, rewrite
from jax_ipu.compiler.types import SIGNED

# The most arrays that are chosen from.
_MOST = 16


def run(module: Module) -> None:
    """Applies RULES to all ops of main."""
    rewrite(module.main.block, RULES)


def _gather(op: Op, rewriter: Rewriter) -> Value | None:
    table, indices = op.operands
    numbers, stack = op.attrs["dimension_numbers"], table.op
    if stack is None or stack.name != "concatenate":
        return None
    dim = stack.attrs["dimension"]
    parts = _parts(stack, dim)
    if dim not in numbers["start_index_map"] or op.attrs["slice_sizes"][dim] != 1 or parts is None:
        return None
    own: list[Value] = []
    for part in parts:
        # Along the stack there is one element, wherever the index points.
        lookup = Op("gather", (part, indices), [(op.result.shape, part.dtype)], dict(op.attrs), (), op.location)
        found = known_indices.gather(lookup, rewriter)
        lookup.drop()
        if found is None:
            return None
        own.append(found)
    return _chosen(op, own, dim, rewriter)


def _parts(stack: Op, dim: int) -> list[Value] | None:
    """The arrays that are stacked; None where they are many, or parts have several elements along the dimension."""
    found: list[Value] = []
    for part in stack.operands:
        if part.shape[dim] == 1:
            found.append(part)
            continue
        inner = part.op
        nested = None if inner is None or inner.name != "concatenate" or inner.attrs["dimension"] != dim else inner
        more = None if nested is None else _parts(nested, dim)
        if more is None:
            return None
        found += more
    return found if len(found) <= _MOST else None


def _chosen(op: Op, parts: list[Value], dim: int, rewriter: Rewriter) -> Value:
    """Of each element of the parts the one that the lookup's index points to; indices outside move inside."""
    numbers, indices, shape = op.attrs["dimension_numbers"], op.operands[1], op.result.shape
    number, vector = numbers["start_index_map"].index(dim), numbers["index_vector_dim"]
    batch = tuple(d for d in range(len(shape)) if d not in numbers["offset_dims"])
    index = indices if vector == len(indices.shape) else component(indices, vector, number, rewriter)
    index = rewriter.broadcast(rewriter.reshape(index, tuple(shape[d] for d in batch)), shape, batch)
    kind = "SIGNED" if index.dtype in SIGNED else "UNSIGNED"

    def compare(direction: str, limit: int) -> Value:
        return rewriter.elementwise(
            "compare",
            index,
            rewriter.full(shape, index.dtype, limit),
            dtype="pred",
            comparison_direction=direction,
            compare_type=kind,
        )

    wraps = op.attrs.get("index_wraps", ())
    wrap = wraps[number] if wraps and index.dtype in SIGNED else 0
    if wrap:
        negative, more = compare("LT", 0), rewriter.full(shape, index.dtype, wrap)
        moved = rewriter.elementwise("add", index, more)
        index = rewriter.elementwise("select", negative, moved, index, dtype=index.dtype)
    chosen = parts[0]
    for i, part in enumerate(parts[1:], 1):
        chosen = rewriter.elementwise("select", compare("GE", i), part, chosen, dtype=part.dtype)
    return chosen


RULES: dict[str, Rule] = {"gather": _gather}
