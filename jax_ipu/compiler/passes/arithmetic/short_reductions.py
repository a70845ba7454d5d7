"""Reductions over a short dimension along which nothing large is stored become elementwise ops.

Such are reductions over what has just been stacked (`jnp.stack([a, b, c]).max(0)`, `jnp.select`), and over elementwise
ops of values that are repeated along the dimension with a few numbers that are not (`jnp.isin(x, members)`,
`jnp.exp(-(x[:, None] - centres) ** 2).sum(1)`), or of arrays that are small beside what is made of them
(`(boards[:, None] == patterns).all(-1)`). Cumulative operations may be in between (`jnp.piecewise`). The body is
applied to one index of the dimension after another, so that what is reduced never exists as a whole.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import cumulated, identity_of, is_elementwise, single_op, splat_of
from jax_ipu.compiler.ir import Module, Op, Value
from jax_ipu.compiler.passes.rewriter import Rewriter, Rule, rewrite
from jax_ipu.compiler.types import FLOAT, SIZE, Literal, Shape, num_elements, pack_scalar

# The most elementwise ops that a reduction becomes.
_MAX_OPS = 96
# The most elements of the dimension along which small arrays are cut into parts.
_MOST_PARTS = 4
# Exact in every type; reductions by other ops sum narrow floats in f32.
_CHOICES = frozenset(("maximum", "minimum", "and", "or"))


def run(module: Module) -> None:
    """Rewrites the reductions of main."""
    rewrite(module.main.block, RULES)


def _reduce(op: Op, rewriter: Rewriter) -> list[Value] | None:
    count = len(op.results)
    operands, inits, body = op.operands[:count], op.operands[count:], op.regions[0]
    if len(op.attrs["dimensions"]) != 1 or any(inner.regions for inner in body.ops):
        return None
    (dim,) = op.attrs["dimensions"]
    size = operands[0].shape[dim]
    if size * (len(body.ops) - 1) > _MAX_OPS:
        return None
    name = single_op(body) if count == 1 else None
    if name not in _CHOICES and any(map(_is_narrow, op.results)):
        return None
    made = _made_of_parts(operands, dim)
    if made is None or size * (len(made) + len(body.ops) - 1) > _MAX_OPS:
        return None
    shape = op.results[0].shape
    all_parts = _Parts(dim, shape, rewriter)
    parts = [[all_parts.at(operand, i) for operand in operands] for i in range(size)]
    literal, identity = splat_of(inits[0]), None if name is None else identity_of(name, inits[0].dtype)
    if literal is not None and identity is not None and literal.data == pack_scalar(literal.dtype, identity):
        results = parts.pop(0)
    else:
        results = [rewriter.spread(init, shape) for init in inits]
    for part in parts:
        results = rewriter.apply(body, results + part, shape)
    return results


def _made_of_parts(operands: list[Value], dim: int) -> list[Op] | None:
    """The elementwise ops that make the operands of a reduction from what has parts along the dimension.

    Returns:
        None if a value has no parts, is read by others than reductions, or if nothing smaller than an operand is
        stacked or repeated.
    """
    found: set[Op] = set()
    elementwise: list[Op] = []
    saves, cut = False, 0
    stack = list(operands)
    while stack:
        value = stack.pop()
        if value.op in found or splat_of(value) is not None or _is_index(value, dim):
            continue
        op = value.op
        if op is None:
            return None
        if op.name == "broadcast_in_dim":
            source = _source_dim(op, dim)
            elements = num_elements(op.operands[0].shape)
            if source is not None and elements > value.shape[dim]:
                cut += elements
            saves = saves or (source is None and elements >= value.shape[dim])
            continue
        found.add(op)
        if _is_stack(op, dim):
            saves = True
        elif _is_cumulative(op, dim):
            elementwise.append(op)
            stack.append(op.operands[0])
        elif is_elementwise(op):
            elementwise.append(op)
            stack.extend(op.operands)
        else:
            return None
    if cut > 0:
        value = operands[0]
        if value.shape[dim] > _MOST_PARTS or 2 * cut > num_elements(value.shape):
            return None
        saves = True
    only = all(user in found or _reduces(user, dim) for op in found for user in op.results[0].users)
    return elementwise if saves and only else None


def _reduces(op: Op, dim: int) -> bool:
    return op.name == "reduce" and tuple(op.attrs["dimensions"]) == (dim,)


def _is_stack(op: Op, dim: int) -> bool:
    """Whether the op puts parts of one index of the dimension each together, in one step or several."""
    if op.name != "concatenate" or op.attrs["dimension"] != dim:
        return False
    return all(part.shape[dim] == 1 or (part.op is not None and _is_stack(part.op, dim)) for part in op.operands)


def _is_cumulative(op: Op, dim: int) -> bool:
    found = cumulated(op)
    return found is not None and found[1] == dim and (found[0] in _CHOICES or not _is_narrow(op.result))


def _is_narrow(value: Value) -> bool:
    return value.dtype in FLOAT and SIZE[value.dtype] < 4


def _is_index(value: Value, dim: int) -> bool:
    """Whether each element is its index in the dimension."""
    op = value.op
    if op is not None and op.name == "broadcast_in_dim" and tuple(op.attrs["broadcast_dimensions"]) == (dim,):
        same = op.operands[0].shape == (value.shape[dim],)
        return same and _is_index(op.operands[0], 0)
    return op is not None and op.name == "iota" and op.attrs["iota_dimension"] == dim


def _source_dim(op: Op, dim: int) -> int | None:
    """The dimension of a broadcast's operand that is dimension `dim` of the result; None if that repeats elements."""
    dims: Shape = op.attrs["broadcast_dimensions"]
    if dim not in dims or op.operands[0].shape[dims.index(dim)] == 1:
        return None
    return dims.index(dim)


class _Parts:
    """The parts of values at one index of a dimension each."""

    def __init__(self, dim: int, shape: Shape, rewriter: Rewriter) -> None:
        self._dim, self._shape, self._rewriter = dim, shape, rewriter
        self._known: dict[tuple[Value, int], Value] = {}

    def at(self, value: Value, index: int) -> Value:
        known = self._known.get((value, index))
        if known is None:
            known = self._known[value, index] = self._make(value, index)
        return known

    def _make(self, value: Value, index: int) -> Value:
        op = value.op
        if op is not None and op.operands and is_elementwise(op) and not _is_index(value, self._dim):
            given = [self.at(operand, index) for operand in op.operands]
            return self._rewriter.emit(op.name, given, self._shape, value.dtype, dict(op.attrs))
        if op is not None and op.name == "reduce_window":
            last = self.at(op.operands[0], index)
            if index == 0:
                return last
            return self._rewriter.apply(op.regions[0], [self.at(value, index - 1), last], self._shape)[0]
        return _leaf(value, self._dim, index, self._shape, self._rewriter)


def _leaf(value: Value, dim: int, index: int, shape: Shape, rewriter: Rewriter) -> Value:
    literal = splat_of(value)
    if literal is not None:
        return rewriter.constant(literal.reshaped(shape))
    if _is_index(value, dim):
        return rewriter.full(shape, value.dtype, index)
    op = value.op
    assert op is not None
    if op.name == "concatenate":
        for operand in op.operands:
            if index < operand.shape[dim]:
                break
            index -= operand.shape[dim]
        if operand.shape[dim] == 1:
            return rewriter.reshape(operand, shape)
        return _leaf(operand, dim, index, shape, rewriter)
    operand = op.operands[0]
    source = _source_dim(op, dim)
    if source is None:
        # What is repeated along the dimension is repeated along the others alone.
        kept = [(n, d) for n, d in zip(operand.shape, op.attrs["broadcast_dimensions"], strict=True) if d != dim]
        dims = tuple(d - (d > dim) for _, d in kept)
        return rewriter.broadcast(rewriter.reshape(operand, tuple(n for n, _ in kept)), shape, dims)
    part = tuple(n for d, n in enumerate(operand.shape) if d != source)
    dims = tuple(d - (d > dim) for d in op.attrs["broadcast_dimensions"] if d != dim)
    constant = operand.op.attrs["value"] if operand.op is not None and operand.op.name == "constant" else None
    if constant is not None:
        elements = constant.numpy().take(index, source)
        return rewriter.broadcast(rewriter.constant(Literal.from_numpy(value.dtype, elements)), shape, dims)
    begins = tuple(index if d == source else 0 for d in range(len(operand.shape)))
    ends = tuple(index + 1 if d == source else n for d, n in enumerate(operand.shape))
    return rewriter.broadcast(rewriter.reshape(rewriter.slice(operand, begins, ends), part), shape, dims)


RULES: dict[str, Rule] = {"reduce": _reduce}
