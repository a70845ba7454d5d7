"""Common subexpression elimination: merges ops that compute the same value, constants included."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from jax_ipu.compiler.expression import ScalarProgram
from jax_ipu.compiler.ir import Block, Module, Op, Value, has_effect, outside_operands
from jax_ipu.compiler.types import Literal

_NEVER = frozenset(("return", "ipu.random_bits", "rng_bit_generator"))
# Ops with regions are compared only when the regions are small: the comparison visits every op in them.
_MAX_REGION_OPS = 64


def run(module: Module) -> None:
    """Merges equal ops of main, also with equal ops of the blocks around them."""
    _run_block(module.main.block, [{}])


def _key(op: Op) -> Any:
    operands = tuple(map(id, op.operands))
    if op.name == "constant":
        return ("constant", op.attrs["value"].key())
    attrs = tuple([(k, _hashable(v)) for k, v in op.attrs.items()]) if op.attrs else ()
    if not op.regions:
        return (op.name, operands, attrs, tuple([(r.shape, r.dtype) for r in op.results]))
    return (op.name, operands, attrs, _region_keys(op))


def structure_key(op: Op, ignored: Set[str] = frozenset(), captures: bool = False) -> Any:
    """A key that is equal for ops that differ in their operands, and in the attributes `ignored`, only.

    `captures`: the values that regions take from outside may differ, too, in the order of `outside_operands`.
    """
    attrs = tuple((k, _hashable(v)) for k, v in op.attrs.items() if k not in ignored)
    types = tuple(tuple((v.shape, v.dtype) for v in values) for values in (op.operands, op.results))
    return (op.name, types, attrs, _region_keys(op, captures))


def _region_keys(op: Op, captures: bool = False) -> Any:
    numbers: dict[Value, int] = {}
    outside = outside_operands(op) if captures and op.regions else []
    for value in outside:
        numbers[value] = len(numbers)
    taken = tuple((v.shape, v.dtype) for v in outside), tuple(numbers[o] for o in op.operands if outside)
    return tuple(_region_key(region, numbers) for region in op.regions), taken


def _region_key(block: Block, numbers: dict[Value, int]) -> Any:
    for arg in block.args:
        numbers[arg] = len(numbers)
    keys: list[Any] = []
    for op in block.ops:
        operands = tuple((numbers[o],) if o in numbers else id(o) for o in op.operands)
        attrs = tuple((k, _hashable(v)) for k, v in op.attrs.items())
        nested = tuple(_region_key(region, numbers) for region in op.regions)
        for result in op.results:
            numbers[result] = len(numbers)
        keys.append((op.name, operands, attrs, nested, tuple((r.shape, r.dtype) for r in op.results)))
    return (tuple((a.shape, a.dtype) for a in block.args), tuple(keys))


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((k, _hashable(v)) for k, v in value.items())
    if isinstance(value, (tuple, list)):
        return tuple([_hashable(v) for v in value])
    if isinstance(value, Literal | ScalarProgram):
        return value.key()
    return value


def _run_block(block: Block, scopes: list[dict[Any, Op]]) -> None:
    kept: list[Op] = []
    scope = scopes[-1]
    for op in block.ops:
        if op.name in ("while", "if", "case"):
            for region in op.regions:
                _run_block(region, [*scopes, {}])
        if op.name in _NEVER or has_effect(op):
            kept.append(op)
            continue
        small = not op.regions or sum(len(r.ops) for r in op.regions) <= _MAX_REGION_OPS
        if not small:
            kept.append(op)
            continue
        key = _key(op)
        known = None
        for seen in reversed(scopes):
            known = seen.get(key)
            if known is not None:
                break
        if known is None:
            scope[key] = op
            kept.append(op)
            continue
        for result, other in zip(op.results, known.results, strict=True):
            result.replace_with(other)
        op.drop()
    block.ops = kept
