"""Replaces calls and composites by the bodies they name, so that every later pass sees one block."""

from __future__ import annotations

from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.ir import Block, Module, Op, clone_ops
from jax_ipu.compiler.location import source_line

# Composites that the lowering computes directly, when they have one operand of a real floating type.
_DIRECT_COMPOSITES = {"chlo.erf"}


def run(module: Module) -> None:
    """Leaves only `main`, without calls."""
    calls: dict[str, int] = {}
    for function in module.functions.values():
        for op in function.block.walk():
            callee = _callee(op)
            if callee is not None:
                calls[callee] = calls.get(callee, 0) + 1
    _inline_block(module, module.main.block, calls, ())
    module.functions = {"main": module.main}


def _callee(op: Op) -> str | None:
    if op.name == "call":
        return str(op.attrs["callee"])
    if op.name == "composite":
        return str(op.attrs["decomposition"])
    if op.name == "custom_call" and op.attrs.get("called_computations"):
        return None
    return None


def _inline_block(module: Module, block: Block, calls: dict[str, int], stack: tuple[str, ...]) -> None:
    ops: list[Op] = []
    for op in block.ops:
        callee = _callee(op)
        if callee is None:
            for region in op.regions:
                _inline_block(module, region, calls, stack)
            ops.append(op)
            continue
        if op.name == "composite" and op.attrs.get("name") in _DIRECT_COMPOSITES and len(op.operands) == 1:
            direct = Op(op.attrs["name"], op.operands, [(r.shape, r.dtype) for r in op.results], {}, (), op.location)
            _replace(op, direct.results)
            ops.append(direct)
            continue
        function = module.functions.get(callee)
        if function is None or callee in stack:
            reason = "does not exist" if function is None else "is recursive"
            raise CompileError(f"called function {callee} {reason} ({source_line(op.location)})", INVALID_ARGUMENT)
        if calls[callee] == 1:
            body = function.block
            for arg, operand in zip(body.args, op.operands, strict=True):
                arg.replace_with(operand)
        else:
            mapping = dict(zip(function.block.args, op.operands, strict=True))
            body = Block([], clone_ops(function.block, mapping))
        _inline_block(module, body, calls, (*stack, callee))
        terminator = body.ops.pop()
        results = list(terminator.operands)
        terminator.drop()
        ops.extend(body.ops)
        _replace(op, results)
    block.ops = ops


def _replace(op: Op, values: list) -> None:  # type: ignore[type-arg]
    for result, value in zip(op.results, values, strict=True):
        result.replace_with(value)
    op.drop()
