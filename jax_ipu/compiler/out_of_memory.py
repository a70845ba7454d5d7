"""Advice for a program that does not fit: only what helps this program, in the names of the caller.

The numbers are estimates from the memory that the fullest tile needs at its peak. State and code have a fixed size,
values with a batch dimension shrink with the batch, and a tensor that is sharded over n IPUs needs 1/n on each.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jax_ipu import _ipu
from jax_ipu.compiler.ir import VIEWS, Module, Value, size_in_bytes
from jax_ipu.compiler.location import operation_path
from jax_ipu.compiler.program_io import Argument, Signature
from jax_ipu.compiler.shardings import replicated_arguments
from jax_ipu.compiler.types import Shape, num_elements, type_text

# The part of a tile that an estimate may fill: mappings are uneven, and code and buffers may not be known yet.
_SAFE, _SAFE_UNPLANNED = 0.85, 0.5
_SAFE_SEVERAL_IPUS = 0.7
_MOST_IPUS = 64
# Smaller arguments (bytes) are not worth sharding.
_SMALL_BYTES = 64 * 1024
_LONG = 32  # a long axis has at least as many elements on each IPU
_WORTH = 0.1  # a change that saves a smaller part of the need is not mentioned
_WIDE = frozenset(("f32", "f64", "c64", "c128"))
_ROOT = re.compile(r"[A-Za-z_]\w*")
_NAMES_SHOWN = 4


_LESS_CODE = (
    "a loop (jax.lax.scan or jax.lax.fori_loop) over layers or steps that are alike, instead of one copy of their code"
    " for each",
    "several functions under jax.jit, called one after the other: each has the code memory for itself",
)


class Tensor(NamedTuple):
    """A tensor with a part on the fullest tile."""

    shape: Shape
    dtype: str
    bytes_on_tile: float
    lasting: bool  # keeps its contents between calls


class Need(NamedTuple):
    """The memory that the fullest tile needs, in bytes.

    `planned`: operations were planned, so that temporaries and code are known; otherwise only tensors are.
    """

    limit: int
    tensors: list[Tensor]
    working: float  # temporaries and exchange buffers of the running operation
    fixed: float  # constants, vertex state and code
    planned: bool

    @property
    def total(self) -> float:
        return sum(t.bytes_on_tile for t in self.tensors) + self.working + self.fixed

    @staticmethod
    def of(error: _ipu.OutOfMemory, target: _ipu.Target) -> Need:
        peak = error.report.peak
        tensors = [Tensor(t.shape, t.dtype, t.bytes_on_tile, t.lasting) for t in peak.tensors if t.role == "variable"]
        fixed = peak.constants + peak.vertex_state + peak.code
        working = peak.temporaries + peak.exchange_buffers
        return Need(target.bytes_per_tile, tensors, working, fixed, not peak.variables_only)

    @staticmethod
    def of_values(values: Iterable[Value], lasting: frozenset[Value], target: _ipu.Target) -> Need:
        """The need of values that exist at the same time, spread evenly over the tiles."""
        tiles = target.num_tiles
        tensors = [Tensor(v.shape, v.dtype, size_in_bytes(v) / tiles, v in lasting) for v in values]
        return Need(target.bytes_per_tile, tensors, 0, 0, False)


def lacks_code(error: _ipu.OutOfMemory, target: _ipu.Target) -> bool:
    """Whether all fits but the code, which must be in the first part of each tile's memory."""
    report = error.report
    return report.peak.code > target.code_bytes_per_tile and report.max_tile_bytes <= target.bytes_per_tile


def advice(module: Module, signature: Signature, target: _ipu.Target, need: Need, lacks_code: bool = False) -> str:
    """The last part of the message: one line for each change that helps; `lacks_code`: only the code is too large."""
    program = _Program(module, signature)
    lines = (
        list(_LESS_CODE)
        if lacks_code
        else [
            *_smaller_batch(program, need),
            *_several_ipus(program, need),
            *_half_precision(need),
            *_recomputing(program, need),
            *_more_tiles(target, need),
        ]
    )
    if not lines:
        lines = ["smaller arrays, or computing in parts (jax.lax.map, jax.lax.scan)"]
    return "\nWhat helps:" + ";".join(f"\n  * {line}" for line in lines) + "."


def batch_of(module: Module, signature: Signature) -> tuple[int, list[Argument]]:
    """The size of the batch, and the arguments with a batch as their first dimension; (0, []) without one."""
    program = _Program(module, signature)
    return program.batch, program.batched


class _Program:
    """The facts about a program that the advice depends on."""

    def __init__(self, module: Module, signature: Signature) -> None:
        self.num_ipus = module.num_replicas * module.num_partitions
        whole = replicated_arguments(module)
        self.replicated = [a for a in signature.arguments if a.used and whole[a.index]]
        self.arguments = [a for a in signature.arguments if a.used and not a.in_host_memory]
        paths = [operation_path(op.location) for op in module.main.block.walk()]
        self.is_gradient = any("transpose(" in path for path in paths)
        self.recomputes = any("checkpoint" in path or "rematted" in path for path in paths)
        by_root: dict[str, list[Argument]] = {}
        for a in self.arguments:
            by_root.setdefault(_root(a), []).append(a)
        # State: arguments that results replace, donated or not, and all others under the same root of the pytree.
        results = {(r.shape, r.dtype) for r in signature.results if r.shape} if self.is_gradient else set()
        state = {
            root
            for root, leaves in by_root.items()
            if any(a.resident or a.donated for a in leaves)
            or all((a.value.shape, a.value.dtype) in results for a in leaves)
        }
        self.state = [a for a in self.arguments if _root(a) in state]
        self.state_shapes = {_canonical(a.value.shape) for a in self.state}
        others = {root: leaves for root, leaves in by_root.items() if root not in state}
        self.batch, self.batched = _batch(others, signature, self.is_gradient)

    def scales(self, tensor: Tensor) -> bool:
        """Whether a tensor grows with the batch."""
        shape = _canonical(tensor.shape)
        return not tensor.lasting and shape not in self.state_shapes and any(d % self.batch == 0 for d in shape)


def _batch(roots: dict[str, list[Argument]], signature: Signature, is_gradient: bool) -> tuple[int, list[Argument]]:
    """The size of the batch, and the arguments with a batch dimension.

    The batch is the common leading dimension of the arguments that are no state; (0, []) where that is ambiguous.
    """
    candidates: dict[int, list[Argument]] = {}
    for leaves in roots.values():
        arrays = [a for a in leaves if num_elements(a.value.shape) > 1]
        sizes = {a.value.shape[0] for a in arrays}
        # Weights have no batch dimension: products sum over their first dimension.
        if len(sizes) == 1 and (is_gradient or not any(_is_summed(a.value) for a in arrays)):
            candidates.setdefault(sizes.pop(), []).extend(arrays)
    candidates.pop(1, None)
    if not is_gradient:
        rows = {r.shape[0] for r in signature.results if r.shape}
        candidates = {size: arrays for size, arrays in candidates.items() if size in rows}
    if len(candidates) != 1:
        return 0, []
    [(size, arrays)] = candidates.items()
    # The steps of a loop are no batch.
    return (0, []) if any(_steers_loops(a.value) for a in arrays) else (size, arrays)


def _is_summed(value: Value, dimension: int = 0) -> bool:
    """Whether a product sums over the dimension of `value`, also through transposes, or a gather reads `value`."""
    for user in value.users:
        if user.name == "transpose" and _is_summed(user.result, user.attrs["permutation"].index(dimension)):
            return True
        if user.name == "gather" and user.operands[0] is value:
            return True
        if user.name == "dot_general":
            numbers = user.attrs["dot_dimension_numbers"]
            for operand, side in zip(user.operands, ("lhs", "rhs"), strict=False):
                if operand is value and dimension in numbers[f"{side}_contracting_dimensions"]:
                    return True
        if user.name == "convolution" and user.operands[1] is value:
            return True
    return False


def _root(argument: Argument) -> str:
    found = _ROOT.match(argument.name)
    return found.group() if found and not argument.name.startswith("argument ") else argument.name


def _canonical(shape: Shape) -> Shape:
    """A shape that is equal for an array and its transposes and reshapes that add dimensions of one element."""
    return tuple(sorted(d for d in shape if d != 1))


def _steers_loops(value: Value) -> bool:
    for user in value.users:
        if user.regions or user.name in ("while", "ipu.repeat", "if", "case", "ipu.call"):
            return user.name in ("while", "ipu.repeat")
        if user.name in VIEWS and any(_steers_loops(result) for result in user.results):
            return True
    return False


def _smaller_batch(program: _Program, need: Need) -> Iterator[str]:
    if program.batch < 2:
        return
    scaling = sum(t.bytes_on_tile for t in need.tensors if program.scales(t)) + need.working
    room = need.limit * (_SAFE if need.planned else _SAFE_UNPLANNED) - (need.total - scaling)
    if scaling <= 0 or room <= 0:
        return
    fits = int(program.batch * room / scaling)
    if fits < 1 or fits >= program.batch:
        return
    fits = 1 << fits.bit_length() - 1
    each = " on each IPU" if program.num_ipus > 1 else ""
    yield f"a batch of about {fits} instead of {program.batch}{each} ({_names(program.batched)})"


def _several_ipus(program: _Program, need: Need) -> Iterator[str]:
    if program.num_ipus > 1:
        whole = [a for a in program.replicated if _axis(a.value, program.num_ipus) >= 0]
        if whole:
            yield (
                f"cutting over the {program.num_ipus} IPUs what each of them holds whole:"
                f" {', '.join(_groups(whole, program.num_ipus))}"
            )
        else:
            yield f"more than the {program.num_ipus} IPUs that it is for"
        return
    parts = 2
    while parts <= _MOST_IPUS and not _fits_on(program, need, parts):
        parts *= 2
    if parts > _MOST_IPUS:
        return
    cut = [a for a in program.state or program.arguments if _axis(a.value, parts) >= 0 and a not in program.batched]
    text = f"{parts} IPUs (a jax.sharding.Mesh of {parts}, one axis)"
    if cut:
        shown = ", ".join(_groups(cut, parts))
        text += f", with the large arguments cut over them: {shown}"
    if program.batch and program.batch % parts == 0:
        text += f"{'; and' if cut else ', with'} the batch ({_names(program.batched)}) cut along axis 0"
    yield text


def _fits_on(program: _Program, need: Need, parts: int) -> bool:
    batch_is_cut = program.batch and program.batch % parts == 0

    def share(t: Tensor) -> float:
        is_state = t.lasting or _canonical(t.shape) in program.state_shapes
        divides = any(d % parts == 0 for d in t.shape)
        return t.bytes_on_tile / parts if divides and (is_state or batch_is_cut) else t.bytes_on_tile

    working = need.working / parts if batch_is_cut else need.working
    needed = need.fixed + working + sum(map(share, need.tensors))
    return needed <= (_SAFE_SEVERAL_IPUS if need.planned else _SAFE_UNPLANNED) * need.limit


def _axis(value: Value, parts: int) -> int:
    """The axis along which to shard the value over `parts` IPUs; -1 where it should not be sharded.

    The first long axis that `parts` divides: gathered rows lie one after the other, while columns must be rearranged by
    code on every tile. Short axes are often layers or heads, which loops and slices index.
    """
    shape = value.shape
    if size_in_bytes(value) < _SMALL_BYTES:
        return -1
    divides = [d for d in range(len(shape)) if shape[d] and shape[d] % parts == 0]
    long = [d for d in divides if shape[d] >= _LONG * parts]
    return long[0] if long else max(divides, key=shape.__getitem__, default=-1)


def _groups(arguments: list[Argument], parts: int) -> list[str]:
    """The largest arguments with their axis; those of several layers as one: "params['h_*']['kernel'] along axis 1"."""
    groups: dict[tuple[str, int], list[Argument]] = {}
    for a in sorted(arguments, key=lambda a: -size_in_bytes(a.value)):
        groups.setdefault((re.sub(r"\d+", "*", a.name), _axis(a.value, parts)), []).append(a)
    texts = []
    for (_, axis), members in groups.items():
        first = members[0]
        name = _common_name([a.name for a in members])
        texts.append(f"{name} ({type_text(first.value.shape, first.value.dtype)}) along axis {axis}")
    more = len(texts) - _NAMES_SHOWN
    return texts if more <= 0 else [*texts[:_NAMES_SHOWN], f"and {more} more, each along its first long axis"]


def _common_name(names: list[str]) -> str:
    """The names as one, with "*" for the numbers in which they differ."""
    parts = [re.split(r"(\d+)", name) for name in names]
    return "".join(same[0] if len(set(same)) == 1 else "*" for same in zip(*parts, strict=True))


def _half_precision(need: Need) -> Iterator[str]:
    wide = sum(t.bytes_on_tile for t in need.tensors if t.dtype in _WIDE)
    if wide < 2 * _WORTH * need.total:
        return
    halved = need.total - wide / 2
    enough = halved <= need.limit * (_SAFE if need.planned else _SAFE_UNPLANNED)
    yield (
        f"half precision (float16 or bfloat16): {wide / need.total:.0%} of the tile's need is of wider types"
        f"{'' if enough else '; alone it is not enough'}"
    )


def _recomputing(program: _Program, need: Need) -> Iterator[str]:
    shapes = program.state_shapes
    kept = sum(t.bytes_on_tile for t in need.tensors if not t.lasting and _canonical(t.shape) not in shapes)
    if kept < _WORTH * need.total:
        return
    if program.is_gradient and not program.recomputes:
        yield "computing activations again in the backward pass (jax.checkpoint around each layer)"


def _more_tiles(target: _ipu.Target, need: Need) -> Iterator[str]:
    whole = _ipu.Target(target.version).num_tiles
    if whole <= target.num_tiles:
        return
    spread = (need.total - need.fixed) * target.num_tiles / whole + need.fixed
    enough = spread <= need.limit * (_SAFE if need.planned else _SAFE_UNPLANNED)
    yield f"all {whole} tiles of the IPU instead of {target.num_tiles}{'' if enough else ', though alone not enough'}"


def _names(arguments: list[Argument]) -> str:
    names = [a.name for a in itertools.islice(arguments, _NAMES_SHOWN)]
    return ", ".join(names) + (", ..." if len(arguments) > len(names) else "")
