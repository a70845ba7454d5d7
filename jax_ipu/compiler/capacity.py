"""Refuses programs in which one op alone needs more than the whole memory, before anything is planned for it."""

from __future__ import annotations

from jax_ipu import _ipu
from jax_ipu.compiler.cost import size_in_bytes
from jax_ipu.compiler.errors import RESOURCE_EXHAUSTED, CompileError
from jax_ipu.compiler.ir import Block, Value
from jax_ipu.compiler.location import source_line
from jax_ipu.compiler.passes.inplace import VIEWS
from jax_ipu.compiler.types import type_text

_CONTROL_FLOW = frozenset(("while", "ipu.repeat", "if", "case", "ipu.call"))


def check(block: Block, target: _ipu.Target) -> None:
    """Raises CompileError(RESOURCE_EXHAUSTED). What passes may still not fit: the graph compiler knows exactly."""
    capacity = target.num_tiles * target.bytes_per_tile
    _check_block(block, target, capacity, {})


def _check_block(block: Block, target: _ipu.Target, capacity: int, roots: dict[Value, Value | None]) -> None:
    for op in block.ops:
        if op.name == "constant":
            roots[op.result] = None if op.attrs["value"].splat else op.result
            continue
        if op.name in VIEWS:
            for operand, result in zip(op.operands, op.results, strict=True):
                roots[result] = roots.get(operand, operand)
            continue
        if op.name in _CONTROL_FLOW:
            for region in op.regions:
                _check_block(region, target, capacity, roots)
            continue
        stored = {roots.get(o, o) for o in op.operands}
        stored.discard(None)
        if op.name != "return" and not op.attrs.get("write_over") and not op.attrs.get("in_place"):
            stored.update(op.results)
        tensors = sorted((v for v in stored if v is not None), key=size_in_bytes, reverse=True)
        needed = sum(map(size_in_bytes, tensors))
        if needed > capacity:
            where = source_line(op.location) or "an unknown source line"
            largest = ", ".join(
                f"{type_text(v.shape, v.dtype)} ({size_in_bytes(v) / 2**20:.1f} MiB)" for v in tensors[:3]
            )
            raise CompileError(
                f"out of IPU memory: {op.name.removeprefix('ipu.')} at {where} needs {needed / 2**20:.1f} MiB for"
                f" {largest}, but {target.num_tiles} tiles of {target.bytes_per_tile} bytes hold"
                f" {capacity / 2**20:.1f} MiB. What helps: smaller arrays or a smaller batch, half precision, or"
                " computing in parts (jax.lax.map, jax.lax.scan).",
                RESOURCE_EXHAUSTED,
            )
