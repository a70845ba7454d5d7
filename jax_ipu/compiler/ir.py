"""The compiler's SSA form: a Module of Functions, each one Block of Ops over Values.

Every block ends with an op "return". Regions of control flow may use values of the blocks around them. `Value.users`
lists the using ops, once per use, so that local rewrites never walk the module.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.types import SIZE, Shape, num_elements, type_text

# How deep regions may be nested: passes and lowering recurse into each level, and Python limits the depth of calls.
MAX_REGION_DEPTH = 256


def too_deep() -> CompileError:
    """The error for a program whose regions are nested deeper than MAX_REGION_DEPTH."""
    return CompileError(
        f"regions (bodies of loops and branches) are nested more than {MAX_REGION_DEPTH} deep, which is the limit;"
        " replace some of them by one loop or one `case` with more branches",
        INVALID_ARGUMENT,
    )


class Value:
    """A tensor. `op` computes it, None for block arguments; `index` is its position among results or arguments."""

    __slots__ = ("dtype", "index", "op", "shape", "users")

    def __init__(self, shape: Shape, dtype: str, op: Op | None = None, index: int = 0) -> None:
        self.shape = shape
        self.dtype = dtype
        self.op = op
        self.index = index
        self.users: list[Op] = []

    def __repr__(self) -> str:
        return type_text(self.shape, self.dtype)

    def replace_with(self, other: Value) -> None:
        """Makes every user use `other`."""
        if other is self:
            return
        for user in self.users:
            operands = user.operands
            for i, operand in enumerate(operands):
                if operand is self:
                    operands[i] = other
        other.users.extend(self.users)
        self.users = []


class Op:
    """An operation. `name` is that of StableHLO without the dialect; the compiler's own ops start with "ipu."."""

    __slots__ = ("attrs", "location", "name", "operands", "regions", "results")

    def __init__(
        self,
        name: str,
        operands: Sequence[Value],
        result_types: Sequence[tuple[Shape, str]],
        attrs: dict[str, Any] | None = None,
        regions: Sequence[Block] = (),
        location: Any = None,
    ) -> None:
        self.name = name
        self.operands = list(operands)
        for operand in self.operands:
            operand.users.append(self)
        self.results = [Value(shape, dtype, self, i) for i, (shape, dtype) in enumerate(result_types)]
        self.attrs: dict[str, Any] = {} if attrs is None else attrs
        self.regions = list(regions)
        self.location = location

    @property
    def result(self) -> Value:
        return self.results[0]

    def set_operands(self, operands: Sequence[Value]) -> None:
        for operand in self.operands:
            operand.users.remove(self)
        self.operands = list(operands)
        for operand in self.operands:
            operand.users.append(self)

    def drop(self) -> None:
        """Removes the uses by this op and by the ops in its regions; the caller removes it from its block."""
        for operand in self.operands:
            operand.users.remove(self)
        for region in self.regions:
            for op in reversed(region.ops):
                op.drop()
        self.release()

    def release(self) -> None:
        """Drops all references: ops and values refer to each other, so only the garbage collector would free them."""
        for result in self.results:
            result.users = []
        for region in self.regions:
            region.release()
        self.operands, self.results, self.regions = [], [], []

    def __repr__(self) -> str:
        results = ", ".join(map(repr, self.results))
        return f"{self.name}({', '.join(map(repr, self.operands))}) -> {results}"


# Loops; the last region is the body.
LOOPS = frozenset(("while", "ipu.repeat"))
# Ops whose results may share storage with any of their operands.
VIEWS = frozenset(
    (
        *("reshape", "transpose", "broadcast_in_dim", "slice", "reverse", "optimization_barrier", "copy"),
        *("bitcast_convert", "ipu.tile_put"),
    )
)
# Ops that do more than compute their results.
_EFFECTS = frozenset(("return", "custom_call", "send", "recv", "infeed", "outfeed"))


def has_effect(op: Op) -> bool:
    """Whether `op` must run, in program order with other such ops, even if its results are not used."""
    if op.name in _EFFECTS or op.attrs.get("has_side_effect"):
        return True
    if not op.regions:
        return False
    inner = (nested for region in op.regions for nested in region.walk() if nested.name != "return")
    return any(nested.name in _EFFECTS or nested.attrs.get("has_side_effect") for nested in inner)


def size_in_bytes(value: Value) -> int:
    """Bytes of all elements of `value`, in the representation of the host."""
    return num_elements(value.shape) * SIZE[value.dtype]


def body_of(call: Op) -> Block:
    """The block that an op "ipu.call" runs. The first of equal calls holds it as its region."""
    first: Op = call.attrs.get("of") or call
    return first.regions[0]


def blocks_of(block: Block) -> dict[Op, Block]:
    """The block of each op in `block` and in the regions inside of it."""
    found = dict.fromkeys(block.ops, block)
    for op in block.ops:
        for region in op.regions:
            found.update(blocks_of(region))
    return found


def outside_operands(op: Op) -> list[Value]:
    """The values that `op` reads, each once, those that its regions take from outside among them."""
    found = dict.fromkeys(op.operands)
    own: set[Value] = set()
    for region in op.regions:
        own.update(region.args)
        for inner in region.walk():
            found.update(dict.fromkeys(inner.operands))
            own.update(inner.results)
            own.update(a for nested in inner.regions for a in nested.args)
    return [value for value in found if value not in own]


class Block:
    """Arguments and ops; the last op is "return"."""

    __slots__ = ("args", "ops")

    def __init__(self, args: list[Value], ops: list[Op] | None = None) -> None:
        self.args = args
        self.ops: list[Op] = [] if ops is None else ops

    @property
    def terminator(self) -> Op:
        return self.ops[-1]

    @property
    def results(self) -> list[Value]:
        return self.ops[-1].operands

    def walk(self) -> Iterator[Op]:
        """Every op of this block and of the regions inside, each before those in its own regions."""
        open_blocks = [iter(self.ops)]
        while open_blocks:
            for op in open_blocks[-1]:
                yield op
                if op.regions:
                    open_blocks += [iter(region.ops) for region in reversed(op.regions)]
                    break
            else:
                open_blocks.pop()

    def release(self) -> None:
        """Drops all references, so that the memory of the block (mostly literals) is free at once."""
        for arg in self.args:
            arg.users = []
        for op in self.ops:
            op.release()
        self.args, self.ops = [], []


# The attribute of an argument or result of main with its memory kind.
MEMORY_KIND = "mhlo.memory_kind"
# The memory kind of host memory; all others are SRAM.
HOST_MEMORY = "pinned_host"
# JAX's custom call that puts a value into a memory, and its frontend attribute with the memory kind.
PLACEMENT, PLACEMENT_KIND = "annotate_device_placement", "_xla_buffer_placement"
# The attribute with the layout that the caller asks for, and the one with the layout that it has: its dimensions from
# major to minor in memory; row-major without it.
LAYOUT_MODE = "mhlo.layout_mode"
MAJOR_TO_MINOR = "ipu.major_to_minor"
# The attribute with JAX's name of an argument: its path in the pytree.
ARGUMENT_NAME = "ipu.argument_name"
# JAX's own attribute with the same of a result.
RESULT_NAME = "jax.result_info"


class Function:
    """A function; `arg_attrs` and `result_attrs` hold the attributes of the signature by position."""

    __slots__ = ("arg_attrs", "block", "name", "result_attrs")

    def __init__(
        self,
        name: str,
        block: Block,
        arg_attrs: list[dict[str, Any]],
        result_attrs: list[dict[str, Any]],
    ) -> None:
        self.name = name
        self.block = block
        self.arg_attrs = arg_attrs
        self.result_attrs = result_attrs


class Module:
    """A program: functions by name, one of them "main". It runs on `num_replicas * num_partitions` IPUs.

    `memory`: bytes of the tiles of each IPU, or 0 where passes need not save memory; `frugal`: memory comes first.
    `num_tiles`: of each IPU, or 0 if they are not known; `io_bytes`: of the tiles for input and output;
    `outline_threshold`: what a function of repeated ops must be worth.
    """

    __slots__ = (
        *("attrs", "combined", "frugal", "functions", "io_bytes", "large_constants", "memory", "name"),
        *("num_partitions", "num_replicas", "num_tiles", "origins", "outline_threshold", "source"),
    )

    def __init__(self, name: str, functions: dict[str, Function], attrs: dict[str, Any], source: Any = None) -> None:
        self.name = name
        self.functions = functions
        self.attrs = attrs
        self.source = source  # the MLIR module
        # The MLIR operation of each imported all_reduce, and the lists of them that passes have combined.
        self.origins: dict[Op, Any] = {}
        self.combined: list[list[Any]] = []
        # The MLIR operations of imported constants of many elements.
        self.large_constants: list[Any] = []
        self.num_replicas = self.num_partitions = 1
        self.memory, self.frugal, self.num_tiles, self.io_bytes = 0, False, 0, 0
        self.outline_threshold = 1.0

    @property
    def main(self) -> Function:
        return self.functions["main"]

    def release(self) -> None:
        """Drops all references to ops and values."""
        for function in self.functions.values():
            function.block.release()
        self.origins, self.combined, self.large_constants = {}, [], []


def depending(ops: Sequence[Op], on: Sequence[Op]) -> set[Op]:
    """Those of `ops`, in order, that read results of the ops `on`, directly or not."""
    values = {r for op in on for r in op.results}
    found: set[Op] = set()
    for op in ops:
        inner = (o for region in op.regions for nested in region.walk() for o in nested.operands)
        if op not in on and any(o in values for o in (*op.operands, *inner)):
            found.add(op)
            values.update(op.results)
    return found


def clone_block(block: Block) -> Block:
    """A copy of a region, for an op beside the one that has it."""
    args = [Value(arg.shape, arg.dtype, None, arg.index) for arg in block.args]
    return Block(args, clone_ops(block, dict(zip(block.args, args, strict=True))))


def clone_ops(block: Block, mapping: dict[Value, Value]) -> list[Op]:
    """Copies of the ops of `block`.

    `mapping` says which values replace which; the copies of results are added to it.
    """
    result: list[Op] = []
    for op in block.ops:
        regions = []
        for region in op.regions:
            args = [Value(arg.shape, arg.dtype, None, arg.index) for arg in region.args]
            mapping.update(zip(region.args, args, strict=True))
            regions.append(Block(args, clone_ops(region, mapping)))
        copy = Op(
            op.name,
            [mapping.get(o, o) for o in op.operands],
            [(r.shape, r.dtype) for r in op.results],
            dict(op.attrs),
            regions,
            op.location,
        )
        mapping.update(zip(op.results, copy.results, strict=True))
        result.append(copy)
    return result


def text(block: Block, indent: int = 0, names: dict[Value, str] | None = None) -> str:
    """A readable listing of the block, for tests and debugging."""
    names = {} if names is None else names
    pad = "  " * indent
    lines: list[str] = []

    def name_of(value: Value) -> str:
        return names.setdefault(value, f"%{len(names)}")

    if block.args:
        lines.append(pad + "args " + ", ".join(f"{name_of(a)}: {a!r}" for a in block.args))
    for op in block.ops:
        results = ", ".join(f"{name_of(r)}: {r!r}" for r in op.results)
        attrs = {k: v for k, v in op.attrs.items() if v is not None}
        operands = ", ".join(map(name_of, op.operands))
        lines.append(f"{pad}{results + ' = ' if results else ''}{op.name}({operands}) {attrs or ''}".rstrip())
        lines.extend(text(region, indent + 1, names) for region in op.regions)
    return "\n".join(lines)
