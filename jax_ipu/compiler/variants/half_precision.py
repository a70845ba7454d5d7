"""A program in half precision: what JAX writes for float16 arguments in place of float32."""

from __future__ import annotations

from typing import NamedTuple

from jax_ipu.compiler.expression import single_op
from jax_ipu.compiler.ir import Block, Module, Op, Value
from jax_ipu.compiler.types import COMPLEX, FLOAT, Literal, numpy_dtype

_WIDE, _HALF = "f32", "f16"
# Ops that have one form for a type; complex numbers have no half.
_OF_ONE_TYPE = frozenset(("bitcast_convert", "fft", "rng", "rng_bit_generator", "partition_id"))
# Those that make floats of none: random numbers. JAX makes them in f32 whatever the type of the program.
_SOURCES = frozenset(("bitcast_convert", "rng", "rng_bit_generator"))


class NoHalf(Exception):
    """The program calls something of which no form in half precision is known."""


def has_wide(module: Module) -> bool:
    """Whether an argument of the program is an array of float32."""
    return any(value.dtype == _WIDE and value.shape for value in module.main.block.args)


def halve(module: Module) -> None:
    """Makes every float32 of a program without calls float16, in place.

    Sums stay in float32, as JAX sums arrays of float16, and so do random numbers and what is computed of them alone.

    Raises:
        NoHalf: the program has a custom call with a float32.
    """
    _halve_block(module.main.block, _Made(set(), set()))


class _Made(NamedTuple):
    """Values that are made of constants alone, and of random numbers and constants alone. The latter stay wide."""

    constant: set[Value]
    random: set[Value]

    def add(self, op: Op) -> bool:
        """Adds the results of an op; whether they are random floats."""
        if op.regions or op.name == "return":
            return False
        floats = [v for v in op.operands if v.dtype in FLOAT]
        if op.name in _SOURCES and not floats:
            self.random.update(result for result in op.results if result.dtype == _WIDE)
            return True
        if all(v in self.constant for v in op.operands):
            self.constant.update(op.results)
            return False
        if not any(v in self.random for v in floats) or not all(v in self.constant or v in self.random for v in floats):
            return False
        self.random.update(result for result in op.results if result.dtype == _WIDE)
        return True


def _halve_block(block: Block, made: _Made) -> None:
    for value in block.args:
        _halve_value(value)
    ops: list[Op] = []
    for op in block.ops:
        if op.name == "custom_call" and _has_wide(op):
            raise NoHalf
        stays_random = made.add(op)
        if not _stays_wide(op) and not stays_random:
            for operand in dict.fromkeys(op.operands):
                if operand in made.random:
                    half = Op("convert", [operand], [(operand.shape, _HALF)], None, (), op.location)
                    ops.append(half)
                    _replace_in(op, operand, half.result)
            _halve_op(op, made)
            ops.append(op)
            continue
        for operand in dict.fromkeys(op.operands):
            if operand.dtype == _HALF:
                wide = Op("convert", [operand], [(operand.shape, _WIDE)], None, (), op.location)
                ops.append(wide)
                _replace_in(op, operand, wide.result)
        ops.append(op)
        if stays_random:
            continue
        for result in op.results:
            if result.dtype == _WIDE:
                half = Op("convert", [], [(result.shape, _HALF)], None, (), op.location)
                result.replace_with(half.result)
                half.set_operands([result])
                ops.append(half)
    block.ops = ops


def _halve_op(op: Op, made: _Made) -> None:
    if op.name == "constant" and op.result.dtype == _WIDE:
        literal: Literal = op.attrs["value"]
        data = literal.data
        op.attrs["value"] = Literal(_HALF, literal.shape, _as_half(data), literal.splat)
    for result in op.results:
        _halve_value(result)
    for region in op.regions:
        _halve_block(region, made)


def _as_half(data: bytes | memoryview) -> bytes:
    import numpy as np

    with np.errstate(over="ignore"):
        return bytes(np.frombuffer(data, numpy_dtype(_WIDE)).astype(numpy_dtype(_HALF)).tobytes())


def _halve_value(value: Value) -> None:
    if value.dtype == _WIDE:
        value.dtype = _HALF


def _has_wide(op: Op) -> bool:
    return any(v.dtype == _WIDE for v in op.results) or any(v.dtype in FLOAT for v in op.operands)


def _stays_wide(op: Op) -> bool:
    """Whether `op` keeps its types, with conversions around it."""
    if op.name == "reduce":
        return single_op(op.regions[0]) == "add" and op.results[0].dtype == _WIDE
    return op.name in _OF_ONE_TYPE or any(v.dtype in COMPLEX for v in (*op.operands, *op.results))


def _replace_in(op: Op, old: Value, new: Value) -> None:
    op.set_operands([new if o is old else o for o in op.operands])
