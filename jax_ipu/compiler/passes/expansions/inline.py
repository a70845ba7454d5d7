"""Replaces calls and composites by the bodies that they name, so that every later pass sees one block.

Calls are replaced from `main` down, with explicit stacks: chains of calls may be thousands of functions long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.ir import MAX_REGION_DEPTH, Block, Function, Module, Op, Value, clone_ops, too_deep
from jax_ipu.compiler.location import source_line

# Composites that the lowering computes directly.
_DIRECT_COMPOSITES = frozenset(("chlo.erf", "chlo.top_k"))


def run(module: Module) -> None:
    """Leaves only `main`, without calls.

    Raises:
        CompileError: a called function does not exist or calls itself, or regions are nested too deep once the calls in
            them are replaced (INVALID_ARGUMENT).
    """
    inliner = _Inliner(module.functions)
    pending = [(module.main.block, 0)]
    while pending:
        block, depth = pending.pop()
        if depth > MAX_REGION_DEPTH:
            raise too_deep()
        block.ops = list(inliner.without_calls(block.ops))
        pending += ((region, depth + 1) for op in block.ops for region in op.regions)
    for function in module.functions.values():
        if function is not module.main:
            function.block.release()
    module.functions = {"main": module.main}


class _Inliner:
    def __init__(self, functions: dict[str, Function]) -> None:
        self._functions = functions
        # How often each function is still to be inlined; the last time takes the body itself instead of a copy.
        self._left = _counts(functions)

    def without_calls(self, ops: list[Op]) -> Iterator[Op]:
        """`ops` with the bodies of called functions in place of calls; calls in regions stay."""
        open_bodies = [iter(ops)]
        while open_bodies:
            op = next(open_bodies[-1], None)
            if op is None:
                open_bodies.pop()
            elif (callee := _callee(op)) is not None:
                open_bodies.append(iter(self._body(op, callee)))
            elif _is_direct(op):
                results = [(r.shape, r.dtype) for r in op.results]
                attrs = dict(op.attrs.get("composite_attributes") or {})
                direct = Op(op.attrs["name"], op.operands, results, attrs, (), op.location)
                _replace(op, direct.results)
                yield direct
            else:
                yield op

    def _body(self, op: Op, callee: str) -> list[Op]:
        """The ops of the called function with the operands of `op` in place; `op` is replaced by their results."""
        block = self._functions[callee].block
        self._left[callee] -= 1
        if self._left[callee] == 0:
            ops, block.ops = block.ops, []
            for arg, operand in zip(block.args, op.operands, strict=True):
                arg.replace_with(operand)
        else:
            ops = clone_ops(block, dict(zip(block.args, op.operands, strict=True)))
        terminator = ops.pop()
        results = list(terminator.operands)
        terminator.drop()
        _replace(op, results)
        for inner in Block([], ops).walk():
            # Functions that JAX shares between call sites carry no source line of their own.
            inner.location = (inner.location, op.location)
        return ops


def _counts(functions: dict[str, Function]) -> dict[str, int]:
    """How often each function is called on the way from `main`, once all callers are replaced by their bodies."""
    calls = {
        name: [(callee, op) for op in function.block.walk() if (callee := _callee(op)) is not None]
        for name, function in functions.items()
    }
    counts = dict.fromkeys(functions, 0)
    counts["main"] = 1
    for caller in reversed(_callees_first(calls)):
        for callee, _ in calls[caller]:
            counts[callee] += counts[caller]
    return counts


def _callees_first(calls: dict[str, list[tuple[str, Op]]]) -> list[str]:
    """The functions that `main` reaches, each after those that it calls."""
    order: list[str] = []
    done: set[str] = set()
    active = {"main": iter(calls["main"])}  # in the order of calls
    while active:
        caller = next(reversed(active))
        callee, op = next(active[caller], ("", None))
        if op is None:
            del active[caller]
            done.add(caller)
            order.append(caller)
        elif callee not in calls or callee in active:
            reason = "does not exist" if callee not in calls else "is recursive"
            raise CompileError(f"called function {callee} {reason} ({source_line(op.location)})", INVALID_ARGUMENT)
        elif callee not in done:
            active[callee] = iter(calls[callee])
    return order


def _is_direct(op: Op) -> bool:
    return op.name == "composite" and op.attrs.get("name") in _DIRECT_COMPOSITES and len(op.operands) == 1


def _callee(op: Op) -> str | None:
    """The function whose body takes the place of `op`; None where `op` stays."""
    if op.name == "call":
        return str(op.attrs["callee"])
    if op.name == "composite" and not _is_direct(op):
        return str(op.attrs["decomposition"])
    return None


def _replace(op: Op, values: Sequence[Value]) -> None:
    for result, value in zip(op.results, values, strict=True):
        result.replace_with(value)
    op.drop()
