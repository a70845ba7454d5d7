"""Which part of the user's model an operation belongs to: its layers, direction, shape and call stack."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.location import Frame, operation_path, user_stack
from jax_ipu.compiler.types import type_text

# Parts of a name stack that JAX adds where it transforms or calls: no layer of the user has made them.
_ADDED = frozenset(
    (
        *(
            "while",
            "body",
            "cond",
            "closed_call",
            "core_call",
            "pjit",
            "shard_map",
            "<lambda>",
            "<unnamed function>",
            "",
        ),
        *("checkpoint", "remat", "rematted_computation"),
        *("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"),
    )
)
_BRANCH = re.compile(r"branch_\d+_fun")
# An argument that is a member of a module, and the scopes of equinox, which have the name of a class.
_MEMBER = re.compile(r"(.+)\.\w+")
_CLASS_SCOPE = "eqx."
_TRANSFORMED = re.compile(r"(\w+)\((.*)\)", re.DOTALL)


class Place(NamedTuple):
    """Where in a model an operation is.

    `layers`: the functions under `jit` and the name scopes that it is in, the outermost first: among them are modules
    of flax, equinox, haiku and PyTorch. Those of equinox have the names of classes; below them is the module whose
    member is read, such as "model.layers[0]". `backward`: whether it computes a gradient. `shape`: of its results, such
    as "f32[32,10]"; "" where it is not known. `stack`: the calls that led to it, the innermost first. `reads`: the
    first argument of the program that it reads; "" where it reads none.
    """

    layers: tuple[str, ...]
    backward: bool
    shape: str
    stack: tuple[Frame, ...]
    reads: str = ""


NOWHERE = Place((), False, "", ())


def place_of(op: Op, reads: str = "") -> Place:
    """The place of the operation that was lowered from `op`."""
    path = operation_path(op.location)
    shape = ", ".join(dict.fromkeys(type_text(r.shape, r.dtype) for r in op.results))
    layers = layers_of(path)
    if layers and layers[-1].startswith(_CLASS_SCOPE) and (module := _MEMBER.fullmatch(reads)):
        layers += (module[1],)
    return Place(layers, "transpose(" in path, shape, user_stack(op.location), reads)


def is_member(argument: str) -> bool:
    """Whether an argument is a member of a module, as "model.layers[0].weight" is."""
    return _MEMBER.fullmatch(argument) is not None


def first_place(readers: Sequence[Op], argument: str) -> Place:
    """The place of the first of an argument's readers that is in a layer; of the first, if none is."""
    places = [place_of(op, argument) for op in readers]
    return next((place for place in places if place.layers), places[0] if places else NOWHERE)


def layers_of(path: str) -> tuple[str, ...]:
    """The layers in JAX's name stack: ("step", "MLP", "Dense_0") for "jit(step)/transpose(jvp(MLP))/Dense_0/mul"."""
    parts = _parts(path)[:-1]  # the last is the operation
    layers: list[str] = []
    for part in parts:
        while found := _TRANSFORMED.fullmatch(part):
            part = found[2]
        # A transformation may hold several scopes.
        layers += (layer for layer in _parts(part) if layer not in _ADDED and not _BRANCH.fullmatch(layer))
    return tuple(layers)


def _parts(path: str) -> list[str]:
    """A path cut at the slashes that are in no brackets."""
    parts, depth = [""], 0
    for letter in path:
        depth += (letter == "(") - (letter == ")")
        if letter == "/" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def titles(names: Sequence[str], places: Sequence[Place]) -> list[str]:
    """The names, with what tells equal ones apart: direction, shape, line of the call, layer, weights, or a number."""
    alike: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        alike.setdefault(re.sub(r"(:\d+) \(.*\)$", r"\1", name), []).append(number)
    result = list(names)
    for name, members in alike.items():
        for number, title in zip(members, _told_apart(name, [places[i] for i in members]), strict=True):
            result[number] = title
    return result


def _told_apart(name: str, places: Sequence[Place]) -> list[str]:
    if len(places) == 1:
        return [name]
    directions = ["backward" if place.backward else "" for place in places]
    columns = [
        [place.shape for place in places],
        *(
            [f"from {place.stack[depth].brief}" if depth < len(place.stack) else "" for place in places]
            for depth in range(1, max(len(place.stack) for place in places))
        ),
        _layers_told_apart([place.layers for place in places]),
        # Modules without a name scope are called from one line, each with its own weights.
        [f"of {place.reads}" if place.reads else "" for place in places],
    ]
    marks = directions
    for column in columns:
        # Only columns that tell apart what those before them do not.
        longer = [f"{mark} {text}".strip() for mark, text in zip(marks, column, strict=True)]
        if len(set(longer)) > len(set(marks)):
            marks = longer
    seen: dict[str, int] = {}
    result = []
    for mark in marks:
        seen[mark] = seen.get(mark, 0) + 1
        title = f"{name} {mark}".rstrip()
        result.append(f"{title} #{seen[mark]}" if marks.count(mark) > 1 else title)
    return result


def _layers_told_apart(layers: Sequence[tuple[str, ...]]) -> list[str]:
    """Such as "in block_1/attention", without the outer layers that all are in."""
    columns = zip(*layers, strict=False)
    common = sum(1 for _ in itertools.takewhile(lambda column: len(set(column)) == 1, columns))
    return [f"in {'/'.join(path[common:])}" if path[common:] else "" for path in layers]


def functions_of(place: Place) -> tuple[str, ...]:
    """The user's functions on the call stack, the outermost first, with their files: "step (train.py)"."""
    names = [f"{frame.function or '?'} ({frame.file})" for frame in reversed(place.stack) if not frame.library]
    return tuple(name for name, _ in itertools.groupby(names))


class CostTree:
    """Layers or functions, with what all operations in each of them cost together."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self._known: dict[tuple[str, ...], int] = {}

    def node(self, path: Sequence[str]) -> int | None:
        """The number of the node at a path, which is added if it is new; None for an empty path."""
        key = tuple(path)
        if not key:
            return None
        if key not in self._known:
            parent = self.node(key[:-1])
            self._known[key] = len(self.nodes)
            sums = dict.fromkeys(SUMS)
            self.nodes.append({"id": len(self.nodes), "parent": parent, "name": key[-1], "operations": [], **sums})
        return self._known[key]

    def add(self, operation: dict[str, Any], path: Sequence[str]) -> int | None:
        """Counts an operation in the node at a path, whose number is returned, and in those above."""
        found = self.node(path)
        if found is not None:
            self.nodes[found]["operations"].append(operation["id"])
            self._count(found, {name: operation[name] for name in SUMS[:-1]})
        return found

    def add_variable(self, path: Sequence[str], bytes_: int) -> int | None:
        """Counts the bytes of a variable as `add` counts an operation."""
        found = self.node(path)
        if found is not None:
            self._count(found, {SUMS[-1]: bytes_})
        return found

    def _count(self, number: int, costs: Mapping[str, float | None]) -> None:
        at: int | None = number
        while at is not None:
            node = self.nodes[at]
            for name, cost in costs.items():
                node[name] = node[name] if cost is None else (node[name] or 0) + cost
            at = node["parent"]


# What a node has the sums of: for all operations in it and below it, and for all variables that they write first.
SUMS = (
    *("cycles", "compute_cycles", "exchange_cycles", "link_cycles", "sync_cycles", "exchange_bytes", "flops"),
    *("code_bytes", "variable_bytes"),
)
