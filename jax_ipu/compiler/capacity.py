"""Refuses programs that cannot fit, before operations are planned: an op larger than the SRAM, too much host memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

from jax_ipu import _ipu
from jax_ipu.compiler.errors import RESOURCE_EXHAUSTED, CompileError
from jax_ipu.compiler.ir import VIEWS, Block, Module, Op, Value, size_in_bytes
from jax_ipu.compiler.location import source_line
from jax_ipu.compiler.program_io import HOST_READS, Signature
from jax_ipu.compiler.types import type_text

_CONTROL_FLOW = frozenset(("while", "ipu.repeat", "if", "case", "ipu.call"))
_SHOWN = 3


class TooLarge(CompileError):
    """`values` exist at the same time and are larger than the memory."""

    def __init__(self, message: str, values: list[Value]) -> None:
        super().__init__(message, RESOURCE_EXHAUSTED)
        self.values = values


def check(block: Block, signature: Signature, target: _ipu.Target) -> None:
    """Raises TooLarge for the first op whose operands and results do not fit.

    A program that passes may still not fit: the graph compiler counts temporaries, code and buffers as well.
    """
    capacity = target.num_tiles * target.bytes_per_tile
    names = {a.value: a.name for a in signature.arguments}
    for position, argument in signature.aliased_inputs.items():
        names.setdefault(signature.results[position], signature.arguments[argument].name)
    for value, name in zip(signature.results, signature.result_names, strict=True):
        names.setdefault(value, name)
    leaving = {signature.results[position] for position in signature.written_where_made}
    _check_block(block, target, capacity, {}, names, block.terminator, leaving)


def check_host_memory(module: Module, signature: Signature, target: _ipu.Target, machine: int | None = None) -> None:
    """Raises CompileError (RESOURCE_EXHAUSTED) where a call needs more host memory than there is.

    `machine`: bytes of the machine that is to run the program on all its IPUs; None where nobody says.
    """
    ipus = module.num_replicas * module.num_partitions
    held = _in_host_memory(module, signature)
    needed = sum(size_in_bytes(value) for _, value in held)
    streaming = target.streaming_memory_bytes(ipus)
    if streaming and needed > streaming:
        own = "an IPU has" if ipus == 1 else f"each of {ipus} IPUs has"
        limit = f"{own} {_size_text(streaming)} of streaming memory ({target.version})"
    elif machine is not None and needed * ipus > machine:
        share = "" if ipus == 1 else f", and {ipus} IPUs need {_size_text(needed * ipus)}"
        limit = f"this machine has {_size_text(machine)} of memory{share}"
    else:
        return
    held.sort(key=lambda entry: -size_in_bytes(entry[1]))
    largest = ", ".join(
        f"{name} {type_text(value.shape, value.dtype)} ({_size_text(size_in_bytes(value))})"
        for name, value in held[:_SHOWN]
    )
    rest = f" and {len(held) - _SHOWN} more" if len(held) > _SHOWN else ""
    raise CompileError(
        f"out of host memory: the program keeps {_size_text(needed)} in pinned_host memory for each IPU: {largest}"
        f"{rest}; {limit}.",
        RESOURCE_EXHAUSTED,
    )


def _in_host_memory(module: Module, signature: Signature) -> list[tuple[str, Value]]:
    """What is in host memory during a call, with names; a result may take the memory of a donated argument."""
    arguments = [argument for argument in signature.arguments if argument.in_host_memory]
    held = [(argument.name, argument.value) for argument in arguments]
    free = Counter((a.value.dtype, a.value.shape) for a in arguments if a.donated)
    for position, value in enumerate(signature.results):
        if not signature.host_results[position] or position in signature.forwarded:
            continue
        kind = value.dtype, value.shape
        if free[kind]:
            free[kind] -= 1
        else:
            held.append((signature.result_names[position], value))
    results = set(signature.results)
    for op in module.main.block.walk():
        if op.name == "ipu.host_buffer" and op.result not in results:
            held.append((f"what {source_line(op.location) or 'a line'} puts there", op.result))
    return held


def _size_text(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 10**9 else f"{size / 1e6:.2f} MB"


def _check_block(
    block: Block,
    target: _ipu.Target,
    capacity: int,
    roots: dict[Value, Value | None],
    names: dict[Value, str],
    end: Op,
    leaving: Set[Value],
) -> None:
    """`end`: of main; `leaving`: the results that are no longer on the IPU there."""
    for op in block.ops:
        if op.name == "constant":
            roots[op.result] = None if op.attrs["value"].splat else op.result
            continue
        if op.name in VIEWS:
            for operand, result in zip(op.operands, op.results, strict=True):
                roots[result] = roots.get(operand, operand)
                if operand in names and roots[result] is not None:
                    names.setdefault(result, names[operand])
            continue
        if op.name in _CONTROL_FLOW:
            for region in op.regions:
                _check_block(region, target, capacity, roots, names, end, leaving)
            continue
        # What is in host memory takes no SRAM.
        operands = op.operands[:1] if op.name == "ipu.host_write" else op.operands
        if op.name in HOST_READS:
            operands = []
        if op is end:
            operands = [o for o in op.operands if o not in leaving]
        # A dictionary, so that equal sizes stay in order.
        stored = dict.fromkeys(roots.get(o, o) for o in operands)
        if (
            op.name not in ("return", "ipu.host_buffer")
            and not op.attrs.get("write_over")
            and not op.attrs.get("in_place")
        ):
            stored.update(dict.fromkeys(op.results))
        tensors = sorted((v for v in stored if v is not None), key=size_in_bytes, reverse=True)
        if sum(map(size_in_bytes, tensors)) > capacity:
            raise TooLarge(_message(op, tensors, target, capacity, names), tensors)


def _message(op: Op, tensors: list[Value], target: _ipu.Target, capacity: int, names: dict[Value, str]) -> str:
    needed, held = _apart(sum(map(size_in_bytes, tensors)), capacity)
    if op.name == "return":
        what = f"the state and the results need {needed} at the end"
    else:
        where = source_line(op.location) or "an unknown source line"
        what = f"{op.name.removeprefix('ipu.')} at {where} needs {needed}"
    largest = ", ".join(
        f"{names[v] + ' ' if v in names else ''}{type_text(v.shape, v.dtype)} ({size_in_bytes(v) / 2**20:.1f} MiB)"
        for v in tensors[:_SHOWN]
    )
    rest = f" and {len(tensors) - _SHOWN} more" if len(tensors) > _SHOWN else ""
    return (
        f"out of IPU memory: {what} for {largest}{rest}, but {target.num_tiles} tiles of {target.bytes_per_tile} bytes"
        f" hold {held}."
    )


def _apart(*sizes: int) -> list[str]:
    """Sizes in MiB, or in bytes where they would look the same."""
    texts = [f"{size / 2**20:.1f} MiB" for size in sizes]
    return texts if len(set(texts)) == len(sizes) else [f"{size:,} bytes" for size in sizes]
