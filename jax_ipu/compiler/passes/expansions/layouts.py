"""Gives arguments and results the layouts that the caller asks for.

An argument or result that is not row-major gets its dimensions in the order of memory, and a transpose that restores
the order of the program. The rest of the compiler and the runtime know only row-major arrays.
"""

from __future__ import annotations

from jax_ipu.compiler.expression import EMITTERS
from jax_ipu.compiler.ir import MAJOR_TO_MINOR, Function, Module, Op, Value
from jax_ipu.compiler.layout_modes import Order, is_automatic, requested_order, row_major


def run(module: Module) -> None:
    """Sets the attribute MAJOR_TO_MINOR of every argument and result of main that is not row-major.

    Arguments with the mode "auto" are row-major. Results with the mode "auto" take the layout of the state that they
    replace; otherwise a layout that needs no rearrangement, where one follows from transposes of row-major values.

    Raises:
        CompileError: a layout has tiles or other properties (UNIMPLEMENTED), or is not valid (INVALID_ARGUMENT).
    """
    main = module.main
    results = main.block.results
    arguments = [
        requested_order(attrs, value, f"argument {i}")
        for i, (attrs, value) in enumerate(zip(main.arg_attrs, main.block.args, strict=True))
    ]
    orders = [
        requested_order(attrs, value, f"result {i}")
        for i, (attrs, value) in enumerate(zip(main.result_attrs, results, strict=True))
    ]
    automatic = [is_automatic(attrs) for attrs in main.result_attrs]
    if any(automatic):
        natural = _natural_orders(main, arguments)
        orders = [natural.get(v, o) if auto else o for v, o, auto in zip(results, orders, automatic, strict=True)]
    _match_states(main, arguments, orders)
    for attrs, value, order in zip(main.arg_attrs, main.block.args, arguments, strict=True):
        if order != row_major(value):
            attrs[MAJOR_TO_MINOR] = order
            _lay_argument(main, value, order)
    terminator = main.block.terminator
    operands = list(terminator.operands)
    for i, (attrs, order) in enumerate(zip(main.result_attrs, orders, strict=True)):
        if order != row_major(operands[i]):
            attrs[MAJOR_TO_MINOR] = order
            transposed = _transpose(operands[i], order)
            main.block.ops.insert(-1, transposed)
            operands[i] = transposed.result
    terminator.set_operands(operands)


def _match_states(main: Function, arguments: list[Order], results: list[Order]) -> None:
    """Gives up the donation of arguments whose result has another layout."""
    for attrs, order in zip(main.arg_attrs, arguments, strict=True):
        output = attrs.get("tf.aliasing_output")
        if output is None:
            continue
        if is_automatic(main.result_attrs[output]):
            results[output] = order
        elif results[output] != order:
            del attrs["tf.aliasing_output"]
            attrs["jax.buffer_donor"] = True


def _natural_orders(main: Function, arguments: list[Order]) -> dict[Value, Order]:
    """Value -> the layout that it has without a rearrangement; values that are not in the result are row-major."""
    orders = {v: order for v, order in zip(main.block.args, arguments, strict=True) if order != row_major(v)}
    for op in main.block.ops:
        order = _natural_order(op, orders)
        if order is not None:
            orders[op.result] = order
    return orders


def _natural_order(op: Op, orders: dict[Value, Order]) -> Order | None:
    if op.name == "transpose":
        operand = op.operands[0]
        place = {dimension: i for i, dimension in enumerate(op.attrs["permutation"])}
        return tuple(place[d] for d in orders.get(operand, row_major(operand)))
    # The partitioner writes reshapes between equal shapes.
    if op.name in EMITTERS or op.name == "reshape":
        whole = [o for o in op.operands if o.shape == op.result.shape and not _is_filled(o)]
        own = {orders.get(o, row_major(o)) for o in whole}
        if len(own) == 1:
            return own.pop()
    return None


def _is_filled(value: Value) -> bool:
    """Whether all elements are the same scalar, so that every layout is the same."""
    op = value.op
    if op is None:
        return False
    return op.name == "constant" or (op.name == "broadcast_in_dim" and not op.operands[0].shape)


def _transpose(value: Value, order: Order) -> Op:
    shape = tuple(value.shape[d] for d in order)
    return Op("transpose", [value], [(shape, value.dtype)], {"permutation": order})


def _lay_argument(main: Function, argument: Value, order: Order) -> None:
    """Replaces `argument` of main by one with its dimensions in the order of memory, and a transpose of it."""
    laid = Value(tuple(argument.shape[d] for d in order), argument.dtype, None, argument.index)
    permutation = tuple(order.index(d) for d in range(len(order)))
    back = _transpose(laid, permutation)
    argument.replace_with(back.result)
    main.block.args[argument.index] = laid
    main.block.ops.insert(0, back)
