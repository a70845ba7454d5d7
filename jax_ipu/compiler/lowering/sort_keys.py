"""Comparators of sorts that order the elements by one key of one operand."""

from __future__ import annotations

from dataclasses import dataclass

from jax_ipu.compiler.expression import Instruction, ScalarProgram
from jax_ipu.compiler.types import FLOAT

# How many operands the instructions have that JAX makes keys of: zeros and NaN are made equal to one of them.
_OPERANDS = {"eq": 2, "ne": 2, "select": 3}
# Whether the smaller element is first, by comparison.
_ASCENDING = {"lt": True, "le": True, "total_lt": True, "gt": False, "ge": False}


@dataclass(frozen=True)
class SortKey:
    """The key: of which operand, as a program of an element, and whether the largest are first."""

    operand: int
    program: ScalarProgram
    largest: bool

    @property
    def is_element(self) -> bool:
        """Whether the element is the key itself."""
        return not self.program.code


def single_key(comparator: ScalarProgram) -> SortKey | None:
    """The key by which a comparator orders, floats in their total order; None if it does anything else."""
    last = len(comparator.inputs) + len(comparator.constants) + len(comparator.code) - 1
    if not comparator.code or comparator.outputs != [last]:
        return None
    name, dtype, _, a, b, *_ = comparator.code[-1]
    if name not in _ASCENDING or (dtype in FLOAT and name != "total_lt"):
        return None
    first, second = _of_one_input(comparator, a), _of_one_input(comparator, b)
    if first is None or second is None or first[1].key() != second[1].key() or first[0] ^ second[0] != 1:
        return None
    return SortKey(first[0] // 2, first[1], _ASCENDING[name] == bool(first[0] % 2))


def _of_one_input(comparator: ScalarProgram, register: int) -> tuple[int, ScalarProgram] | None:
    """The input that a register depends on, and the register as a program of it; None if there are several."""
    constants = len(comparator.inputs)
    instructions = constants + len(comparator.constants)
    used: set[int] = set()
    open_registers = [register]
    while open_registers:
        at = open_registers.pop()
        if at in used:
            continue
        used.add(at)
        if at >= instructions:
            name, _, _, *operands = comparator.code[at - instructions]
            if name not in _OPERANDS:
                return None
            open_registers += operands[: _OPERANDS[name]]
    inputs = [r for r in used if r < constants]
    if len(inputs) != 1:
        return None
    renamed = {inputs[0]: 0} | {constants + c: 1 + c for c in range(len(comparator.constants))}
    code: list[Instruction] = []
    for at in sorted(r for r in used if r >= instructions):
        name, dtype, result, *operands = comparator.code[at - instructions]
        count = _OPERANDS[name]
        a, b, c, *_ = (*(renamed[r] for r in operands[:count]), 0, 0)
        renamed[at] = 1 + len(comparator.constants) + len(code)
        code.append((name, dtype, result, a, b, c, 0))
    program = ScalarProgram([comparator.inputs[inputs[0]]], comparator.constants, code, [renamed[register]])
    return inputs[0], program
