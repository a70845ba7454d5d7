"""How tensors are called in errors and reports: by operation, source line, and the shape in the user's program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.location import source_line
from jax_ipu.compiler.types import Shape

_TENSOR = re.compile(r"(?m)(: variable '(.*)' \w+\[)([\d,]*)\]$")


def debug_name(op: Op) -> str:
    """The name of the tensors and operations that `op` is lowered to: its name and source line."""
    where = source_line(op.location)
    short = op.name.removeprefix("ipu.")
    return f"{short} {where}" if where else short


def same_but_ones(one: Shape, other: Shape) -> bool:
    """Whether two shapes differ at most in dimensions of one, as operations add them to their operands."""
    return [n for n in one if n != 1] == [n for n in other if n != 1]


def with_user_shapes(text: str, arguments: Mapping[str, Shape], ops: Iterable[Op]) -> str:
    """The text of an out-of-memory error, in which each tensor has the shape that it has for the user.

    Args:
        text: what the graph compiler says; its tensors have the names that lowering gave them.
        arguments: the shapes of the arguments, by name.
        ops: those that were lowered.
    """
    results: dict[str, list[Shape]] = {}
    for op in ops:
        results.setdefault(debug_name(op), []).extend(r.shape for r in op.results)

    def shown(match: re.Match[str]) -> str:
        start, name, sizes = match.groups()
        shape = tuple(map(int, sizes.split(","))) if sizes else ()
        candidates = [arguments[name]] if name in arguments else results.get(name, [])
        if shape not in candidates:
            shape = next((one for one in candidates if same_but_ones(one, shape)), shape)
        return f"{start}{','.join(map(str, shape))}]"

    return _TENSOR.sub(shown, text)
