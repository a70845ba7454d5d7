"""Helpers to evaluate the equations of a jaxpr with other types. Tested with jax 0.10.2 and 0.12.0."""

from __future__ import annotations

import contextlib
from typing import Any


def at_source_line(equation: Any) -> contextlib.AbstractContextManager[Any]:
    """Operations traced inside get the source location of `equation`, an equation of a jaxpr."""
    from jax._src import source_info_util

    source = equation.source_info
    name_stack = source_info_util.current_name_stack() + source.name_stack
    return source_info_util.user_context(source.traceback, name_stack=name_stack)


def scan_operands(params: dict[str, Any], operands: list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Splits the operands of a `scan` equation into constants, initial carry and scanned arrays."""
    if "num_consts" in params:  # jax 0.10
        consts, carry = params["num_consts"], params["num_consts"] + params["num_carry"]
        return operands[:consts], operands[consts:carry], operands[carry:]
    parts = params["ft_in"].update(operands).unpack()
    return list(parts[0]), list(parts[1]), list(parts[2])
