"""Finds the products of a training step and tells the planner the pass of each: forward, backward or weight update.

Weights are an argument or loop state. Their first product in program order is the forward pass. Another product that
sums over their other dimension is the backward pass: it gives the gradient of the input. A product whose result goes
through elementwise ops, views and scatters into the new weights is the weight update. The planner then chooses a
mapping of the weights that suits all three (option "fullyConnectedPass" of poplin::matMul).
"""

from __future__ import annotations

from jax_ipu.compiler.ir import Block, Module, Op, Value

FORWARD, BACKWARD, UPDATE = "TRAINING_FWD", "TRAINING_BWD", "TRAINING_WU"
_VIEWS = frozenset(("reshape", "transpose", "optimization_barrier"))
_UPDATES = frozenset(("scatter", "dynamic_update_slice", "ipu.update_slice"))


def run(module: Module) -> None:
    """Sets the attribute "pass" of the products of main that train weights."""
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
        # These weights do not change (inference, or a frozen layer): their products are planned one by one.
        return
    forward.attrs.setdefault("pass", FORWARD)
    for op, i in products[1:]:
        op.attrs.setdefault("pass", FORWARD if _summed(op, i) == summed else BACKWARD)
    for op in updates:
        op.attrs.setdefault("pass", UPDATE)


def _weights(value: Value) -> Value | None:
    """The argument that `value` is a view or a cast of; None where it is neither, or has less than two dimensions."""
    while value.op is not None:
        op = value.op
        cast = op.name == "ipu.map" and len(op.operands) == 1 and op.operands[0].shape == value.shape
        if op.name not in _VIEWS and not cast:
            return None
        value = op.operands[value.index if op.name == "optimization_barrier" else 0]
    return value if len(value.shape) >= 2 else None


def _summed(op: Op, operand: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The dimensions that a product sums over, before transposes of the weights, and the shape before these."""
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
    """The products of `block` whose results become the new weights by elementwise ops, views and updates."""
    found: list[Op] = []
    seen: set[Value] = set()
    # Start from elementwise ops that read the weights with another operand: only an update does.
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
