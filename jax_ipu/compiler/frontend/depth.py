"""Checks how deep the regions of a program are nested: passes and lowering recurse into each level."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from jax_ipu.compiler.ir import MAX_REGION_DEPTH, too_deep

# MLIR's parser recurses into each level as well. Braces of attributes count too, but are rarely nested.
_MAX_BRACES = 4 * MAX_REGION_DEPTH
_BRACE = re.compile(rb"[{}]")


def check_text_depth(program: bytes) -> None:
    """Raises CompileError (INVALID_ARGUMENT) for MLIR text that is nested too deep for MLIR's parser."""
    if program.count(b"{") <= _MAX_BRACES:
        return
    depth = 0
    for brace in _BRACE.finditer(program):
        depth += 1 if brace[0] == b"{" else -1
        if depth > _MAX_BRACES:
            raise too_deep()


def nested_ops(operation: Any) -> Iterator[Any]:
    """Every MLIR operation in the regions of `operation`, each before those in its own regions.

    Raises:
        CompileError: the regions are nested too deep (INVALID_ARGUMENT).
    """
    open_blocks = [_ops(operation)]
    while open_blocks:
        op = next(open_blocks[-1], None)
        if op is None:
            open_blocks.pop()
            continue
        yield op
        if len(op.operation.regions):
            open_blocks.append(_ops(op.operation))
            # Not counted: the bodies of the module and of the function.
            if len(open_blocks) > MAX_REGION_DEPTH + 2:
                raise too_deep()


def _ops(operation: Any) -> Iterator[Any]:
    return (op for region in operation.regions for block in region.blocks for op in block.operations)
