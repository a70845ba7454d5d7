"""A training step that computes activations again, made of one that keeps them all: as with `jax.checkpoint`.

Around the bodies of scans, or around each part of the forward pass. A part ends where a single value goes on to later
products, as behind a layer or a residual block. Of each part only this result is kept; the backward pass computes the
rest again, when the gradient of the result is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from jax_ipu.compiler.expression import splat_of
from jax_ipu.compiler.ir import Block, Module, Op, Value, clone_ops, has_effect, outside_operands, size_in_bytes
from jax_ipu.compiler.location import operation_path, source_line
from jax_ipu.compiler.variants.batch import Batch
from jax_ipu.compiler.variants.checkpoint_scan import ScanPair, checkpoint_body, scan_pairs

_PRODUCTS = frozenset(("dot_general", "convolution"))
# Values that are smaller than the largest by this factor may be kept as well.
_SMALL = 32


class NoParts(Exception):
    """The program is no gradient, or its forward pass has no parts that can be told apart."""


@dataclass(frozen=True)
class Part:
    """Ops of the forward pass, and the value of them that the next part reads."""

    ops: list[Op]
    result: Value


@dataclass(frozen=True)
class Checkpoints:
    """What `jax.checkpoint` can be put around: the bodies of scans, or else parts of the forward pass."""

    scans: list[ScanPair]
    parts: list[Part]

    def text(self) -> str:
        """What it is, with source lines."""
        if self.scans:
            lines = _lines(pair.forward for pair in self.scans)
            return f"the body of the jax.lax.scan{lines and f' at {lines}'}"
        lines = _lines(part.result.op for part in self.parts if part.result.op is not None)
        return f"each of {len(self.parts)} parts of the forward pass{lines and f', which end at {lines}'}"


def _lines(ops: Iterable[Op]) -> str:
    """The source lines of ops, e.g. "model.py:12 (block)", each once."""
    return ", ".join(dict.fromkeys(filter(None, (source_line(op.location) for op in ops))))


def find_checkpoints(module: Module, batch: Batch | None) -> list[Checkpoints]:
    """The choices for a program without calls, larger parts first.

    Args:
        module: the program.
        batch: its batch, if that is known: values with rows are activations.

    Raises:
        NoParts: there are none.
    """
    scans = scan_pairs(module)
    if scans and 2 * sum(pair.bytes_again for pair in scans) >= _kept_bytes(module.main.block):
        return [Checkpoints(scans, [])]
    try:
        parts = _forward_parts(module, batch)
    except NoParts:
        if scans:
            return [Checkpoints(scans, [])]
        raise
    layers = _layers(parts)
    return [Checkpoints([], layers)] * (len(layers) > 1) + [Checkpoints([], parts)]


def checkpointed(batch: Batch | None, choice: int) -> Callable[[Module], None]:
    """What makes the backward pass of a program without calls compute activations again, in place.

    It raises NoParts where there is nothing to compute again; arguments and `choice` as for `find_checkpoints`.
    """

    def change(module: Module) -> None:
        found = find_checkpoints(module, batch)[choice]
        for pair in found.scans:
            checkpoint_body(module, pair)
        if found.parts:
            _checkpoint(module, found.parts)

    return change


def _layers(parts: list[Part]) -> list[Part]:
    """The parts joined to layers, which end at the same source line. Empty where parts are layers, or none repeat."""
    lines = [source_line(part.result.op.location) if part.result.op else "" for part in parts]
    repeated = [i for i, line in enumerate(lines) if line and lines.count(line) > 1]
    if not repeated:
        return []
    ends = [i for i, line in enumerate(lines) if line == lines[repeated[-1]]]
    starts = [0, *(end + 1 for end in ends[:-1])]
    if len(ends) == len(parts):
        return []
    return [
        Part([op for part in parts[start : end + 1] for op in part.ops], parts[end].result)
        for start, end in zip(starts, ends, strict=True)
    ]


def _forward_parts(module: Module, batch: Batch | None) -> list[Part]:
    """The parts, each with at least one product. The last ends before the loss, as soon as a single value goes on."""
    forward = _forward(module.main.block)
    start = batch.marks(module) if batch is not None else {r for op in forward if _has_product(op) for r in op.results}
    activations = _dependent(forward, set(start))
    path = [op for op in forward if any(r in activations for r in op.results)]
    cuts = _single_values(path, activations)
    ends: list[int] = []
    behind: list[int] = []  # cuts since the last product
    found: list[int] = []  # cuts since the first product of the part
    lines: set[str] = set()
    products = False
    for i, op in enumerate(path):
        if _has_product(op):
            if found:  # the part ends before this product, where earlier ones do, or as late as possible
                least = min(cuts[i].others for i in found)
                place = max((cuts[i].line in lines, i) for i in found if cuts[i].others == least)[1]
                ends.append(place)
                lines.add(cuts[place].line)
                found = []
            products, behind = True, []
        if products and i in cuts:
            found.append(i)
            behind.append(i)
    if behind:
        ends.append(behind[0])
    if len(ends) < 2:
        raise NoParts
    return _cut(forward, path, [(end, cuts[end].value) for end in ends])


def _cut(forward: list[Op], path: list[Op], ends: list[tuple[int, Value]]) -> list[Part]:
    """The parts of the path of activations that end so, with the ops that compute something for them, as of weights."""
    number: dict[Op, int] = {}
    start = 0
    for k, (end, _) in enumerate(ends):
        number.update(dict.fromkeys(path[start : end + 1], k))
        start = end + 1
    on_path = set(path)
    for op in reversed(forward):
        if op not in on_path:
            users = [number[u] for r in op.results for u in r.users if u in number]
            if users:
                number[op] = min(users)
    ops: list[list[Op]] = [[] for _ in ends]
    for op in forward:
        if op in number:
            ops[number[op]].append(op)
    return [Part(own, value) for own, (_, value) in zip(ops, ends, strict=True)]


def _checkpoint(module: Module, parts: list[Part]) -> None:
    block = module.main.block
    backward = _Backward(block, set(_forward(block)))
    before: dict[int, list[Op]] = {}
    for part in parts:
        made = _recompute(part, backward)
        if made is not None:
            before.setdefault(made[0], []).extend(made[1])
    if not before:
        raise NoParts
    block.ops = [o for i, op in enumerate(block.ops) for o in (*before.get(i, ()), op)]


def _forward(block: Block) -> list[Op]:
    """The ops of the forward pass: those that depend on no op of the backward pass."""
    backward: set[Value] = set()
    forward: list[Op] = []
    for op in block.ops[:-1]:
        if "transpose(" in operation_path(op.location) or any(v in backward for v in outside_operands(op)):
            backward.update(op.results)
        else:
            forward.append(op)
    return forward if backward else []


def _kept_bytes(block: Block) -> int:
    """The bytes of what the backward pass reads of the forward pass."""
    forward = _forward(block)
    backward = _Backward(block, set(forward))
    return sum(size_in_bytes(r) for op in forward for r in op.results if splat_of(r) is None and backward.users(r))


def _has_product(op: Op) -> bool:
    return op.name in _PRODUCTS or any(inner.name in _PRODUCTS for region in op.regions for inner in region.walk())


def _dependent(ops: list[Op], start: set[Value]) -> set[Value]:
    """`start`, and the results of `ops` that depend on it."""
    found = set(start)
    for op in ops:
        if any(v in found for v in outside_operands(op)):
            found.update(op.results)
    return found


class _Cut(NamedTuple):
    """A place behind which the forward pass reads one large value, and the bytes of all others, which are small."""

    value: Value
    others: int

    @property
    def line(self) -> str:
        """The source line of the value."""
        return source_line(self.value.op.location) if self.value.op is not None else ""


def _single_values(path: list[Op], activations: set[Value]) -> dict[int, _Cut]:
    """The positions of such places on the path of activations."""
    last: dict[Value, int] = {}
    for i, op in enumerate(path):
        last.update((v, i) for v in outside_operands(op) if v in activations)
    live: set[Value] = set()
    found: dict[int, _Cut] = {}
    for i, op in enumerate(path):
        arguments = (v for v in outside_operands(op) if v.op is None)  # from where they are read first
        live = {v for v in (*live, *arguments, *op.results) if v in activations and last.get(v, -1) > i}
        largest = max(live, key=size_in_bytes, default=None)
        others = sum(map(size_in_bytes, live)) - (size_in_bytes(largest) if largest else 0)
        if largest is not None and others * _SMALL < size_in_bytes(largest):
            found[i] = _Cut(largest, others)
    return found


class _Backward:
    """The backward pass of a block: the ops that are not of the forward pass."""

    def __init__(self, block: Block, forward: set[Op]) -> None:
        self._position = {op: i for i, op in enumerate(block.ops)}
        self._owner = {inner: op for op in block.ops for region in op.regions for inner in region.walk()}
        self._forward = forward
        self._ops = block.ops

    def users(self, value: Value) -> list[Op]:
        """The ops that read `value` in the backward pass, also inside of regions."""
        found = dict.fromkeys(value.users)
        return [u for u in found if self._at(u) not in self._forward and u is not self._ops[-1]]

    def first(self, users: list[Op]) -> int:
        """The position of the first of these ops."""
        return min(self._position[self._at(u)] for u in users)

    def from_position(self, value: Value, position: int) -> list[Op]:
        """The ops at `position` and after it that read `value`, also inside of regions."""
        return [u for u in dict.fromkeys(value.users) if self._position.get(self._at(u), -1) >= position]

    def gradient(self, position: int) -> Value | None:
        """A value of the backward pass that exists at `position`, as near to what is computed there as possible."""
        pending, seen = [self._ops[position]], set()
        for op in pending:  # grows
            for value in outside_operands(op):
                made_by = value.op
                if made_by in self._position and made_by not in self._forward and made_by.name != "constant":
                    if self._position[made_by] < position:
                        return value
            for result in op.results:
                following = [self._at(u) for u in result.users if self._at(u) not in seen]
                seen.update(following)
                pending.extend(following)
        return None

    def _at(self, op: Op) -> Op:
        return self._owner.get(op, op)


def _recompute(part: Part, backward: _Backward) -> tuple[int, list[Op]] | None:
    """Gives the backward pass copies of what `part` computes; returns these ops and where they go, or None."""
    own = {r: op for op in part.ops for r in op.results if r is not part.result}
    late = {v: users for v in own if splat_of(v) is None and (users := backward.users(v))}
    if not late:
        return None
    needed: set[Op] = set()
    leaves: dict[Value, None] = {}
    pending = list(late)
    while pending:
        op = own[pending.pop()]
        if op in needed:
            continue
        needed.add(op)
        for value in outside_operands(op):
            if value in own:
                pending.append(value)
            elif value.op is None or value.op.name != "constant":
                leaves[value] = None
    position = backward.first([u for users in late.values() for u in users])
    gradient = backward.gradient(position)
    if gradient is None or any(map(has_effect, needed)):
        raise NoParts
    # As JAX does it: with the gradient at hand, so that nothing is computed before it is needed or taken for the same.
    inputs = [*leaves, gradient]
    barrier = Op("optimization_barrier", inputs, [(v.shape, v.dtype) for v in inputs])
    copies = dict(zip(leaves, barrier.results[:-1], strict=True))
    for user in backward.from_position(gradient, position):
        user.set_operands([barrier.results[-1] if o is gradient else o for o in user.operands])
    ops = clone_ops(Block([], [op for op in part.ops if op in needed]), copies)
    for value, users in late.items():
        for user in users:
            user.set_operands([copies[o] if o is value else o for o in user.operands])
    return position, [barrier, *ops]
