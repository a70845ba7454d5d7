"""Elementwise ops as scalar programs, from which `_ipu.Expression` is built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from jax_ipu.compiler.errors import CompileError
from jax_ipu.compiler.ir import Block, Op, Value
from jax_ipu.compiler.location import source_line
from jax_ipu.compiler.types import FLOAT, INTEGER, SIZE, Literal, pack_scalar, type_text

# Scalar op, operand type, result type, three operand registers, immediate.
Instruction = tuple[str, str, str, int, int, int, int]


class ScalarProgram:
    """A program on scalars. Registers are numbered: inputs first, then constants, then one per instruction."""

    __slots__ = ("code", "constants", "inputs", "outputs")

    def __init__(
        self,
        inputs: list[str],
        constants: list[tuple[str, bytes]],
        code: list[Instruction],
        outputs: list[int],
    ) -> None:
        self.inputs = inputs
        self.constants = constants
        self.code = code
        self.outputs = outputs

    def key(self) -> tuple[object, ...]:
        return (tuple(self.inputs), tuple(self.constants), tuple(self.code), tuple(self.outputs))

    def __repr__(self) -> str:
        return f"<{len(self.code)} instructions: {' '.join(i[0] for i in self.code)}>"


class ScalarBuilder:
    """Builds a ScalarProgram. Registers of constants are negative until `finish`."""

    __slots__ = ("_code", "_constant_registers", "_constants", "_inputs", "registers")

    def __init__(self) -> None:
        self._inputs: list[str] = []
        self._constants: list[tuple[str, bytes]] = []
        self._constant_registers: dict[tuple[str, bytes], int] = {}
        self._code: list[Instruction] = []
        self.registers: dict[Value, int] = {}

    def add_input(self, value: Value) -> None:
        self.registers[value] = len(self._inputs)
        self._inputs.append(value.dtype)

    def constant(self, dtype: str, data: bytes) -> int:
        key = (dtype, data)
        register = self._constant_registers.get(key)
        if register is None:
            register = self._constant_registers[key] = -1 - len(self._constants)
            self._constants.append(key)
        return register

    def number(self, dtype: str, value: float) -> int:
        return self.constant(dtype, pack_scalar(dtype, value))

    def emit(
        self, name: str, operand_type: str, result_type: str, a: int = 0, b: int = 0, c: int = 0, immediate: int = 0
    ) -> int:
        self._code.append((name, operand_type, result_type, a, b, c, immediate))
        return len(self._inputs) + len(self._code) - 1

    def finish(self, outputs: Iterable[int]) -> ScalarProgram:
        inputs, shift = len(self._inputs), len(self._constants)

        def place(register: int) -> int:
            if register < 0:
                return inputs - 1 - register
            return register if register < inputs else register + shift

        code = [(o, t, r, place(a), place(b), place(c), i) for o, t, r, a, b, c, i in self._code]
        return ScalarProgram(self._inputs, self._constants, code, [place(o) for o in outputs])


Emitter = Callable[[ScalarBuilder, Op, list[int]], int]

# StableHLO op -> scalar op of the same signature, and a rough cost per element in arithmetic instructions. The cost
# decides what is computed a second time (passes/recompute.py); it is no hardware number.
_UNARY: dict[str, tuple[str, int]] = {
    "abs": ("abs", 1),
    "negate": ("negate", 1),
    "sign": ("sign", 1),
    "not": ("not", 1),
    "popcnt": ("popcnt", 2),
    "count_leading_zeros": ("clz", 2),
    "ceil": ("ceil", 1),
    "floor": ("floor", 1),
    "round_nearest_afz": ("round_nearest_afz", 2),
    "round_nearest_even": ("round_nearest_even", 1),
    "cbrt": ("cbrt", 20),
    "cosine": ("cos", 20),
    "sine": ("sin", 20),
    "tan": ("tan", 20),
    "tanh": ("tanh", 20),
    "exponential": ("exp", 12),
    "exponential_minus_one": ("expm1", 16),
    "log": ("log", 14),
    "log_plus_one": ("log1p", 16),
    "logistic": ("logistic", 16),
    "sqrt": ("sqrt", 8),
    "rsqrt": ("rsqrt", 8),
    "is_finite": ("is_finite", 1),
    "real": ("real", 1),
    "imag": ("imag", 1),
    "convert": ("convert", 1),
    "chlo.erf": ("erf", 16),
}
_BINARY: dict[str, tuple[str, int]] = {
    "add": ("add", 1),
    "subtract": ("subtract", 1),
    "multiply": ("multiply", 1),
    "divide": ("divide", 6),
    "remainder": ("remainder", 10),
    "power": ("power", 30),
    "atan2": ("atan2", 30),
    "maximum": ("maximum", 1),
    "minimum": ("minimum", 1),
    "and": ("and", 1),
    "or": ("or", 1),
    "xor": ("xor", 1),
    "shift_left": ("shift_left", 1),
    "shift_right_logical": ("shift_right_logical", 1),
    "shift_right_arithmetic": ("shift_right_arithmetic", 1),
    "complex": ("complex", 1),
}
TRANSCENDENTAL = frozenset(
    (
        *("cbrt", "cosine", "sine", "tan", "tanh", "exponential", "exponential_minus_one", "log", "log_plus_one"),
        *("logistic", "sqrt", "rsqrt", "power", "atan2", "chlo.erf"),
    )
)
COST: dict[str, int] = {name: entry[1] for name, entry in (_UNARY | _BINARY).items()}
COST.update(compare=1, select=1, clamp=2, reduce_precision=4, bitcast_convert=1)


def _direct(name: str) -> Emitter:
    def emit(builder: ScalarBuilder, op: Op, registers: list[int]) -> int:
        # The instruction has the type of the first operand, also complex(real, imag).
        return builder.emit(name, op.operands[0].dtype, op.result.dtype, *registers)

    return emit


_COMPARE = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}


def _total_less(builder: ScalarBuilder, dtype: str, a: int, b: int) -> int:
    if not dtype.endswith("fnuz"):
        return builder.emit("total_lt", dtype, "pred", a, b)
    # NaN has the bits of -0: its sign puts it below all numbers, and there is no other zero.
    is_nan, is_number = builder.emit("ne", dtype, "pred", a, a), builder.emit("eq", dtype, "pred", b, b)
    first = builder.emit("and", "pred", "pred", is_nan, is_number)
    return builder.emit("or", "pred", "pred", first, builder.emit("lt", dtype, "pred", a, b))


def _compare(builder: ScalarBuilder, op: Op, registers: list[int]) -> int:
    direction = op.attrs["comparison_direction"]
    dtype = op.operands[0].dtype
    a, b = registers
    if op.attrs.get("compare_type") != "TOTALORDER" or dtype not in FLOAT:
        return builder.emit(_COMPARE[direction], dtype, "pred", a, b)
    if direction == "LT":
        return _total_less(builder, dtype, a, b)
    if direction == "GT":
        return _total_less(builder, dtype, b, a)
    less = _total_less(builder, dtype, a, b) if direction != "LE" else 0
    greater = _total_less(builder, dtype, b, a) if direction != "GE" else 0
    if direction == "GE":
        return builder.emit("not", "pred", "pred", less)
    if direction == "LE":
        return builder.emit("not", "pred", "pred", greater)
    different = builder.emit("or", "pred", "pred", less, greater)
    return different if direction == "NE" else builder.emit("not", "pred", "pred", different)


def _select(builder: ScalarBuilder, op: Op, registers: list[int]) -> int:
    return builder.emit("select", op.result.dtype, op.result.dtype, *registers)


def _clamp(builder: ScalarBuilder, op: Op, registers: list[int]) -> int:
    return builder.emit("clamp", op.result.dtype, op.result.dtype, *registers)


def _reduce_precision(builder: ScalarBuilder, op: Op, registers: list[int]) -> int:
    immediate = int(op.attrs["exponent_bits"]) << 8 | int(op.attrs["mantissa_bits"])
    return builder.emit("reduce_precision", op.result.dtype, op.result.dtype, registers[0], immediate=immediate)


def _bitcast(builder: ScalarBuilder, op: Op, registers: list[int]) -> int:
    return builder.emit("bitcast", op.operands[0].dtype, op.result.dtype, registers[0])


def _convert(builder: ScalarBuilder, op: Op, registers: list[int]) -> int:
    return builder.emit("convert", op.operands[0].dtype, op.result.dtype, registers[0])


EMITTERS: dict[str, Emitter] = {name: _direct(entry[0]) for name, entry in (_UNARY | _BINARY).items()}
EMITTERS.update(
    compare=_compare,
    select=_select,
    clamp=_clamp,
    reduce_precision=_reduce_precision,
    bitcast_convert=_bitcast,
    convert=_convert,
)


def is_elementwise(op: Op) -> bool:
    """Whether `op` computes each element of its one result from the same element of its operands."""
    if op.name not in EMITTERS:
        return False
    shape = op.results[0].shape
    if op.name == "bitcast_convert" and SIZE[op.operands[0].dtype] != SIZE[op.results[0].dtype]:
        return False
    return all(operand.shape == shape for operand in op.operands)


def splat_of(value: Value) -> Literal | None:
    """The literal where all elements of `value` are the same compile-time constant, otherwise None."""
    op = value.op
    if op is None or op.name != "constant":
        return None
    literal: Literal = op.attrs["value"]
    return literal if literal.splat else None


def emit_ops(builder: ScalarBuilder, ops: Sequence[Op]) -> None:
    """Adds elementwise ops in order; their operands are inputs, splat constants or results of earlier ops."""
    registers = builder.registers
    for op in ops:
        inputs = []
        for operand in op.operands:
            register = registers.get(operand)
            if register is None:
                literal = splat_of(operand)
                assert literal is not None, f"{operand!r} is no input of the expression"
                register = builder.constant(literal.dtype, bytes(literal.data))
            inputs.append(register)
        registers[op.results[0]] = EMITTERS[op.name](builder, op, inputs)


def region_program(block: Block, op: Op) -> ScalarProgram:
    """The body of a reduce, sort, scatter, ... as a scalar program on its arguments.

    Raises:
        CompileError: the body has another op than elementwise ones on scalars, or reads a value from outside that is no
            constant (UNIMPLEMENTED).
    """
    builder = ScalarBuilder()
    for arg in block.args:
        builder.add_input(arg)
    body: list[Op] = []
    aliases: dict[Value, Value] = {}
    for inner in block.ops[:-1]:
        if inner.name == "constant":
            continue
        if inner.name in ("reshape", "broadcast_in_dim", "optimization_barrier") and inner.result.shape == ():
            aliases[inner.result] = aliases.get(inner.operands[0], inner.operands[0])
            builder.registers[inner.result] = _register(builder, aliases[inner.result], op)
            continue
        if not is_elementwise(inner):
            raise CompileError(
                f"the body of {op.name} at {source_line(op.location) or 'an unknown line'} contains {inner.name}"
                f" on {type_text(inner.operands[0].shape, inner.operands[0].dtype) if inner.operands else 'nothing'},"
                " which is not supported on IPU; write the body with elementwise operations on scalars only"
            )
        for operand in inner.operands:
            if operand not in builder.registers:
                builder.registers[operand] = _register(builder, operand, op)
        emit_ops(builder, [inner])
        body.append(inner)
    return builder.finish([_register(builder, r, op) for r in block.results])


def _register(builder: ScalarBuilder, value: Value, op: Op) -> int:
    register = builder.registers.get(value)
    if register is not None:
        return register
    literal = splat_of(value)
    if literal is None:
        raise CompileError(
            f"the body of {op.name} at {source_line(op.location) or 'an unknown line'} uses a value computed outside"
            " of it, which is not supported on IPU; pass it in as a constant"
        )
    return builder.constant(literal.dtype, bytes(literal.data))


def single_op(block: Block) -> str | None:
    """The name of op where `block` is `return op(arg0, arg1)`, in any order if op commutes; otherwise None."""
    if len(block.ops) != 2 or len(block.args) != 2:
        return None
    op = block.ops[0]
    commutes = op.name in ("add", "multiply", "maximum", "minimum", "and", "or", "xor")
    if op.operands == block.args or (commutes and op.operands == block.args[::-1]):
        return op.name if block.results == op.results else None
    return None


def cumulated(op: Op) -> tuple[str, int] | None:
    """The op and the dimension of a cumulative operation from the front, such as a cumulative sum; None for others."""
    if op.name != "reduce_window" or len(op.results) != 1 or not op.result.shape:
        return None
    shape, window = op.result.shape, op.attrs["window_dimensions"]
    dims = [d for d, n in enumerate(window) if n > 1] or [len(shape) - 1]
    ones = (1,) * len(shape)
    if len(dims) != 1 or any(
        op.attrs.get(key, ones) != ones for key in ("window_strides", "base_dilations", "window_dilations")
    ):
        return None
    (dim,) = dims
    padding = tuple((shape[dim] - 1, 0) if d == dim else (0, 0) for d in range(len(shape)))
    start = op.operands[1]
    while start.op is not None and start.op.name == "broadcast_in_dim" and start.op.operands[0].shape == ():
        start = start.op.operands[0]  # as JAX writes it
    name, first = single_op(op.regions[0]), splat_of(start)
    identity = None if name is None else identity_of(name, op.result.dtype)
    if name is None or first is None or identity is None or first.data != pack_scalar(first.dtype, identity):
        return None
    return (name, dim) if window[dim] == shape[dim] and op.attrs.get("padding") == padding else None


def replaces_state(block: Block) -> bool:
    """Whether `block`, the body of a scatter, returns its updates, which are the arguments after the states."""
    return len(block.ops) == 1 and block.results == block.args[len(block.args) // 2 :]


def identity_of(name: str, dtype: str) -> float | int | bool | None:
    """The neutral element of a reduction by the op `name`; None where it has none."""
    if name == "add":
        return 0
    if name == "multiply":
        return 1
    if name == "or":
        return False if dtype == "pred" else 0
    if name == "and":
        return True if dtype == "pred" else -1
    if name == "maximum" and dtype in FLOAT:
        return float("-inf")
    if name == "minimum" and dtype in FLOAT:
        return float("inf")
    if name in ("maximum", "minimum") and dtype in INTEGER:
        bits = int(dtype[1:])
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype[0] == "s" else (0, (1 << bits) - 1)
        return low if name == "maximum" else high
    return None
