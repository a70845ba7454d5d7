"""Finds the products of a training step and tells the planner which of the three each is.

Weights are an argument or loop state. Their first product in program order is the forward one; another product that
reads them along their other dimension gives the gradient of its input; a product whose result flows elementwise into
what updates them is their own gradient, also when that of a lookup is scattered into it. The planner then lays the
weights out for all three.
"""

from __future__ import annotations

from jax_ipu.compiler.ir import Block, Module, Op, Value

FORWARD, BACKWARD, UPDATE = "TRAINING_FWD", "TRAINING_BWD", "TRAINING_WU"
_VIEWS = frozenset(("reshape", "transpose", "optimization_barrier"))
_UPDATES = frozenset(("scatter", "dynamic_update_slice"))


def run(module: Module) -> None:
    _visit(module.main.block)


def _visit(block: Block) -> None:
    readers: dict[Value, list[tuple[Op, int]]] = {}
    for op in block.ops:
        for region in op.regions:
            _visit(region)
        if op.name == "dot_general":
            for i, operand in enumerate(op.operands):
                weights = _weights(operand)
                if weights is not None:
                    readers.setdefault(weights, []).append((op, i))
    for weights, products in readers.items():
        _assign(weights, products, block)


def _assign(weights: Value, products: list[tuple[Op, int]], block: Block) -> None:
    forward, operand = products[0]
    summed = _summed(forward, operand)
    backward = [op for op, i in products[1:] if _summed(op, i) != summed]
    updates = _gradient_products(weights, block)
    updates = [op for op in updates if op is not forward and op not in backward]
    if not updates:
        # Nothing changes these weights: inference, or a frozen layer, whose products are planned one by one.
        return
    forward.attrs.setdefault("pass", FORWARD)
    for op, i in products[1:]:
        op.attrs.setdefault("pass", FORWARD if _summed(op, i) == summed else BACKWARD)
    for op in updates:
        op.attrs.setdefault("pass", UPDATE)


def _weights(value: Value) -> Value | None:
    """The argument that `value` is a view or a cast of."""
    while value.op is not None:
        op = value.op
        cast = op.name == "ipu.map" and len(op.operands) == 1 and op.operands[0].shape == value.shape
        if op.name not in _VIEWS and not cast:
            return None
        value = op.operands[value.index if op.name == "optimization_barrier" else 0]
    return value if len(value.shape) >= 2 else None


def _summed(op: Op, operand: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The dimensions of the weights that a product sums over, with transposes undone, and the shape they are of."""
    numbers = op.attrs["dot_dimension_numbers"]
    dims = set(numbers["lhs_contracting_dimensions" if operand == 0 else "rhs_contracting_dimensions"])
    value = op.operands[operand]
    while value.op is not None and value.op.name != "reshape":
        view = value.op
        if view.name == "transpose":
            dims = {view.attrs["permutation"][d] for d in dims}
        value = view.operands[value.index if view.name == "optimization_barrier" else 0]
    return tuple(sorted(dims)), value.shape


def _gradient_products(weights: Value, block: Block) -> list[Op]:
    """Products of `block` whose results, elementwise and by views, become the value that replaces the weights."""
    found: list[Op] = []
    seen: set[Value] = set()
    # What is made of the weights elementwise: only an update combines them with a product.
    pending = [r for op in weights.users if op.name == "ipu.map" for r in op.results if len(op.operands) > 1]
    while pending:
        value = pending.pop()
        op = value.op
        if op is None or value in seen:
            continue
        seen.add(value)
        if op.name == "dot_general":
            found.append(op)
        elif op.name in _VIEWS or op.name == "ipu.map":
            pending += op.operands
        elif op.name in _UPDATES:
            pending.append(op.operands[value.index])
    inside = set(block.ops)
    return [op for op in found if op in inside]
