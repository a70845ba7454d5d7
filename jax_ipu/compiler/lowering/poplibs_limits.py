"""What PopLibs lacks: checks of an op, which raise `Lacks`, before PopLibs computes it."""

from __future__ import annotations

from jax_ipu.compiler.expression import region_program
from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.shapes import ConvShape, DotShape

MOVED = ("f32", "f16", "s32", "u32", "pred")  # by gathers and slices


class Lacks(Exception):
    """PopLibs has not what an op asks for; the message says what."""


def check_product(op: Op) -> None:
    """Refuses matrix products of other types than poplin's, and those without terms."""
    types = (*(o.dtype for o in op.operands), op.result.dtype)
    if types not in (("f32",) * 3, ("f16",) * 3, ("f16", "f16", "f32")):
        raise Lacks(f"poplin has no product of {types[0]} and {types[1]} to {types[2]}")
    if 0 in DotShape(op).lhs:
        raise Lacks("there is nothing to add up")


def window_of(op: Op, shape: ConvShape) -> tuple[object, ...]:
    """The window of a convolution, without its batch groups."""
    types = (*(o.dtype for o in op.operands), op.result.dtype)
    if types not in (("f32",) * 3, ("f16",) * 3, ("f16", "f16", "f32")):
        raise Lacks(f"poplin has no convolution of {types[0]} and {types[1]} to {types[2]}")
    if shape.window[-1] != 1:
        raise Lacks("poplin has no batch groups")
    if not shape.window[0]:
        raise Lacks("there is no spatial dimension")
    return shape.window[:-1]


def combination(op: Op) -> str:
    """How a scatter combines an element with its update: "" if the update replaces it."""
    program = region_program(op.regions[0], op)
    if not program.code and program.outputs == [1]:
        return ""
    name, operands = "several operations", set()
    if len(program.code) == 1:
        name, operands = program.code[0][0], set(program.code[0][3:5])
    if name not in ("add", "multiply", "maximum", "minimum") or operands != {0, 1}:
        raise Lacks(f"popops updates no slices by {name}")
    return name


def check_moved(op: Op, first_index: int, end: int | None = None) -> None:
    """Refuses slices and positions of types that PopLibs does not move."""
    if op.operands[0].dtype not in MOVED:
        raise Lacks(f"PopLibs has no slices of {op.operands[0].dtype}")
    for position in op.operands[first_index:end]:
        if position.dtype not in ("s32", "u32"):
            raise Lacks(f"popops takes positions of s32 and u32, not {position.dtype}")


def check_type(what: str, op: Op, known: tuple[str, ...]) -> None:
    """Refuses a first operand of another type than the `known` ones; `what` names the op."""
    dtype = op.operands[0].dtype
    if dtype not in known:
        raise Lacks(f"PopLibs has no {what} of {dtype}")
