"""Recognises JAX's threefry2x32, which reaches the compiler as about 100 elementwise ops: one op "ipu.threefry2x32".

Operands: both words of the key, both words of the counter; results: both words of the block; all u32 of one shape. The
match is by structure: JAX writes a function, which XLA's partitioner replaces by its body.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import Block, Module, Op, Value
from jax_ipu.compiler.passes import dce

NAME = "ipu.threefry2x32"
# Bits by which a round rotates; the first and the second row alternate in the five groups of rounds.
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
GROUPS = 5
PARITY = 0x1BD11BDA
_VIEWS = frozenset(("broadcast_in_dim", "reshape"))

# A word of the key, whatever it is broadcast to: a value with its place among the dimensions, or a number.
_Key = tuple[Value, tuple[int, ...]] | int


class _Match(NamedTuple):
    operands: tuple[Value, Value, Value, Value]
    results: tuple[Value, Value]


def run(module: Module) -> None:
    """Replaces the ops in every function, so that each call of one is a call of one op."""
    for function in module.functions.values():
        _run_block(function.block)


def _run_block(block: Block) -> None:
    found: dict[Op, _Match] = {}
    for op in block.ops:
        for region in op.regions:
            _run_block(region)
        if op.name == "shift_left" and op.result.dtype == "u32" and _number(op.operands[1]) == ROTATIONS[0][0]:
            match = _match(op.operands[0])
            if match is not None:
                found[op] = match
    if not found:
        return
    position = {op: i for i, op in enumerate(block.ops)}
    ops: list[Op] = []
    for i, op in enumerate(block.ops):
        match = found.get(op)
        # The new op takes the place of the first rotation; ops of other blocks come before this one.
        if match is not None and all(o.op is None or position.get(o.op, -1) < i for o in match.operands):
            shape = op.result.shape
            whole = Op(NAME, match.operands, [(shape, "u32")] * 2, None, (), op.location)
            for old, new in zip(match.results, whole.results, strict=True):
                old.replace_with(new)
            ops.append(whole)
        ops.append(op)
    block.ops = ops
    dce.run_block(block)


def _match(y: Value) -> _Match | None:
    """The hash whose first rotation is that of `y`, the second word of the counter with its key added."""
    first = y.op
    if first is None or first.name != "add":
        return None
    state = _round(None, y, ROTATIONS[0][0])
    if state is None:
        return None
    x_sum = state[0].op
    assert x_sum is not None
    start = _other(x_sum, y)
    if start.op is None or start.op.name != "add":
        return None
    x = start
    keys: list[tuple[_Key, _Key]] = []
    for group in range(GROUPS):
        for bits in ROTATIONS[group % 2]:
            state = _round(x, y, bits)
            if state is None:
                return None
            x, y = state
        injected = _inject(x, y, group + 1)
        if injected is None:
            return None
        x, y, *pair = injected
        keys.append((pair[0], pair[1]))
    words = [keys[1][1], keys[0][0], keys[0][1]]
    for group, pair_of in enumerate(keys):
        if pair_of != (words[(group + 1) % 3], words[(group + 2) % 3]):
            return None
    if not _is_parity(words[2], words[0], words[1]):
        return None
    # Which operand of the first additions is the key, and which the counter.
    for k0, x1 in _pairs(start.op):
        for k1, x2 in _pairs(first):
            if _key(k0) == words[0] and _key(k1) == words[1]:
                return _Match((k0, k1, x1, x2), (x, y))
    return None


def _round(x: Value | None, y: Value, bits: int) -> tuple[Value, Value] | None:
    """The words after a round with this rotation: x + y, and the rotated y xor x + y."""
    for left in y.users:
        if left.name != "shift_left" or left.operands[0] is not y or _number(left.operands[1]) != bits:
            continue
        for rotated in left.result.users:
            if rotated.name != "or":
                continue
            right = _other(rotated, left.result).op
            if right is None or right.name != "shift_right_logical" or right.operands[0] is not y:
                continue
            if _number(right.operands[1]) != 32 - bits:
                continue
            for mixed in rotated.result.users:
                if mixed.name != "xor":
                    continue
                total = _other(mixed, rotated.result)
                if total.op is None or total.op.name != "add" or y not in total.op.operands:
                    continue
                if x is None or _other(total.op, y) is x:
                    return total, mixed.result
    return None


def _inject(x: Value, y: Value, number: int) -> tuple[Value, Value, _Key, _Key] | None:
    """The words after the keys are added to them, and the number of the group to the second; and these keys."""
    x_sums = [op for op in x.users if op.name == "add" and _other(op, x) is not y]
    if len(x_sums) != 1:
        return None
    for keyed in y.users:
        if keyed.name != "add" or keyed is x_sums[0]:
            continue
        for numbered in keyed.result.users:
            if numbered.name == "add" and _number(_other(numbered, keyed.result)) == number:
                return x_sums[0].result, numbered.result, _key(_other(x_sums[0], x)), _key(_other(keyed, y))
    return None


def _other(op: Op, value: Value) -> Value:
    """The operand of a binary op beside `value`."""
    a, b = op.operands
    return b if a is value else a


def _pairs(op: Op) -> Iterator[tuple[Value, Value]]:
    a, b = op.operands
    yield a, b
    yield b, a


def _number(value: Value) -> int | None:
    """The number that all elements are, None for other values."""
    while value.op is not None and value.op.name in _VIEWS:
        value = value.op.operands[0]
    literal = splat_of(value)
    return int(literal.scalar()) if literal is not None and literal.data else None


def _key(value: Value) -> _Key:
    number = _number(value)
    if number is not None:
        return number
    if value.op is not None and value.op.name == "broadcast_in_dim":
        return value.op.operands[0], tuple(value.op.attrs["broadcast_dimensions"])
    return value, tuple(range(len(value.shape)))


def _is_parity(parity: _Key, k0: _Key, k1: _Key) -> bool:
    """Whether `parity` is the exclusive or of both words of the key and the constant of ThreeFry."""
    if isinstance(parity, int):
        return isinstance(k0, int) and isinstance(k1, int) and parity == k0 ^ k1 ^ PARITY
    value, dims = parity
    op = value.op
    if op is None or op.name != "xor":
        return False

    def is_word(operand: Value, word: _Key) -> bool:
        return _key(operand) == word if isinstance(word, int) else (operand is word[0] and dims == word[1])

    for both, constant in _pairs(op):
        if _number(constant) == PARITY and both.op is not None and both.op.name == "xor":
            return any(is_word(a, k0) and is_word(b, k1) for a, b in _pairs(both.op))
    return False
