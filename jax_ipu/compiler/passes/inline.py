"""Replaces calls and composites by the bodies they name, so that every later pass sees one block."""

from __future__ import annotations

from collections.abc import Sequence

from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.ir import Block, Module, Op, Value, clone_ops
from jax_ipu.compiler.location import source_line

# Composites that the lowering computes directly.
_DIRECT_COMPOSITES = frozenset(("chlo.erf", "chlo.top_k"))


def run(module: Module) -> None:
    """Leaves only `main`, without calls."""
    _Inliner(module).inline(module.main.block)
    module.functions = {"main": module.main}


class _Inliner:
    def __init__(self, module: Module) -> None:
        self.functions = module.functions
        self.done: set[str] = set()
        self.active: list[str] = []
        # Call sites that are left; the last one takes the body itself instead of a copy.
        self.calls: dict[str, int] = {}
        for function in module.functions.values():
            for op in function.block.walk():
                callee = _callee(op)
                if callee is not None:
                    self.calls[callee] = self.calls.get(callee, 0) + 1

    def inline(self, block: Block) -> None:
        ops: list[Op] = []
        for op in block.ops:
            callee = _callee(op)
            if callee is None:
                for region in op.regions:
                    self.inline(region)
                ops.append(op)
            elif op.attrs.get("name") in _DIRECT_COMPOSITES and len(op.operands) == 1:
                results = [(r.shape, r.dtype) for r in op.results]
                attrs = dict(op.attrs.get("composite_attributes") or {})
                direct = Op(op.attrs["name"], op.operands, results, attrs, (), op.location)
                _replace(op, direct.results)
                ops.append(direct)
            else:
                ops.extend(self._body(op, callee))
        block.ops = ops

    def _body(self, op: Op, callee: str) -> list[Op]:
        """The ops of the called function with the operands of `op` in place; `op` is replaced by their results."""
        function = self.functions.get(callee)
        if function is None or callee in self.active:
            reason = "does not exist" if function is None else "is recursive"
            raise CompileError(f"called function {callee} {reason} ({source_line(op.location)})", INVALID_ARGUMENT)
        if callee not in self.done:
            self.active.append(callee)
            self.inline(function.block)
            self.active.pop()
            self.done.add(callee)
        self.calls[callee] -= 1
        if self.calls[callee] == 0:
            ops = function.block.ops
            for arg, operand in zip(function.block.args, op.operands, strict=True):
                arg.replace_with(operand)
        else:
            ops = clone_ops(function.block, dict(zip(function.block.args, op.operands, strict=True)))
        terminator = ops.pop()
        results = list(terminator.operands)
        terminator.drop()
        _replace(op, results)
        for inner in Block([], ops).walk():
            # Functions that JAX shares between call sites carry no source line of their own.
            inner.location = (inner.location, op.location)
        return ops


def _callee(op: Op) -> str | None:
    if op.name == "call":
        return str(op.attrs["callee"])
    if op.name == "composite":
        return str(op.attrs["decomposition"])
    return None


def _replace(op: Op, values: Sequence[Value]) -> None:
    for result, value in zip(op.results, values, strict=True):
        result.replace_with(value)
    op.drop()
