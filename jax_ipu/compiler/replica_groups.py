"""The groups of replicas in a collective, from the forms in which StableHLO describes them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from jax_ipu.compiler.errors import INVALID_ARGUMENT, CompileError
from jax_ipu.compiler.ir import Op
from jax_ipu.compiler.location import source_line

Groups = list[list[int]]

# replica_groups=mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'b'}: the devices are numbered in order, and the numbers
# reshaped and transposed, or listed. An axis may be split: 'b':(2)4 is the part of size 4 after a part of size 2.
_COLLECTIVE = re.compile(
    r"channel_id=(?P<channel>\d+), replica_groups=mesh\[(?P<mesh>[^\]]*)\](?:, device_ids=\("
    r"(?:\[(?P<shape>[\d,]*)\](?:T\((?P<transpose>[\d,]*)\))?|(?P<ids>[\d,]*))\))? \{(?P<axes>[^}]*)\}"
)
_MESH_AXIS = re.compile(r"'([^']*)'=(\d+)")
_GROUP_AXIS = re.compile(r"'([^']*)'(?::\((\d+)\)(\d+))?")


def _integers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def mesh_groups(hlo: str) -> dict[int, list[list[int]]]:
    """Channel id -> replica groups, for the collectives in HLO text whose groups are axes of a mesh."""
    return {int(found["channel"]): _groups_in_mesh(found) for found in _COLLECTIVE.finditer(hlo)}


def _groups_in_mesh(found: re.Match[str]) -> list[list[int]]:
    mesh = [(name, int(size)) for name, size in _MESH_AXIS.findall(found["mesh"])]
    sizes = [size for _, size in mesh]
    if found["ids"]:
        devices = np.array(_integers(found["ids"]))
    else:
        devices = np.arange(int(np.prod(sizes, dtype=np.int64)))
        if found["transpose"]:
            devices = devices.reshape(_integers(found["shape"])).transpose(_integers(found["transpose"]))
    wanted = [(name, int(before or 1), int(size or 0)) for name, before, size in _GROUP_AXIS.findall(found["axes"])]
    # Each axis is split into the parts that are named and the parts before, between and after them.
    shape: list[int] = []
    grouped: dict[int, int] = {}  # position in `wanted` -> dimension
    for name, extent in mesh:
        parts = sorted((before, size or extent, i) for i, (n, before, size) in enumerate(wanted) if n == name)
        done = 1
        for before, size, i in parts:
            shape += [before // done, size]
            grouped[i] = len(shape) - 1
            done = before * size
        shape.append(extent // done)
    others = [d for d in range(len(shape)) if d not in grouped.values()]
    order = others + [grouped[i] for i in range(len(wanted))]
    group_size = int(np.prod([shape[d] for d in grouped.values()], dtype=np.int64))
    groups: list[list[int]] = devices.reshape(shape).transpose(order).reshape(-1, group_size).tolist()
    return groups


def groups_of(op: Op, num_partitions: int, num_replicas: int) -> Groups:
    """The groups of a collective, as launch indices (replica * num_partitions + partition).

    Follows the "process groups" of the StableHLO specification.

    Raises:
        CompileError: the groups have different sizes although the shape of the result depends on the size, or name a
            device that the program does not have (INVALID_ARGUMENT).
    """
    listed = [[int(r) for r in group if r >= 0] for group in op.attrs.get("replica_groups", ())]
    listed = [group for group in listed if group]
    with_channel = bool(channel_of(op))
    if op.attrs.get("use_global_device_ids"):
        groups = listed
    elif with_channel and op.name in ("all_to_all", "collective_permute", "collective_broadcast"):
        groups = _over_partitions(listed or [list(range(num_partitions))], num_partitions, num_replicas)
    else:
        listed = listed or [list(range(num_replicas))]
        partitions = range(num_partitions)
        if with_channel:
            groups = [[r * num_partitions + p for r in group for p in partitions] for group in listed]
        else:
            groups = [[r * num_partitions + p for r in group] for p in partitions for group in listed]
    _check_members(op, groups, num_partitions * num_replicas)
    if op.name != "all_reduce" and len({len(group) for group in groups}) > 1:
        raise CompileError(
            f"{op.name} at {source_line(op.location) or 'an unknown source line'} is over groups of different sizes, "
            f"{groups}, which makes results of different shapes; use groups of one size",
            INVALID_ARGUMENT,
        )
    return groups


def regular(groups: Groups, num_devices: int) -> tuple[str, int, int] | None:
    """The groups as (type, size, stride) of a gcl::CommGroup; None where they are not regular.

    Regular groups cover all devices and have ascending members; a block of size * stride devices has `stride` groups.
    """
    size = len(groups[0])
    if size == num_devices:
        return ("ALL", 0, 1) if groups == [list(range(num_devices))] else None
    stride = groups[0][1] - groups[0][0] if size > 1 else 1
    if stride < 1 or num_devices % (size * stride):
        return None
    wanted = [
        [block + first + i * stride for i in range(size)]
        for block in range(0, num_devices, size * stride)
        for first in range(stride)
    ]
    if sorted(groups) != wanted:
        return None
    return ("ORTHOGONAL", size, 1) if stride > 1 and size * stride == num_devices else ("CONSECUTIVE", size, stride)


def sources_of(op: Op, num_partitions: int, num_replicas: int) -> list[int]:
    """For each launch index the one whose operand a collective_permute sends there; -1 where none is sent."""
    pairs = op.attrs["source_target_pairs"]
    pairs = [pairs] if len(pairs) == 2 and isinstance(pairs[0], int) else pairs
    if channel_of(op):
        moves = _over_partitions([list(pair) for pair in pairs], num_partitions, num_replicas)
    else:
        moves = [[r * num_partitions + p for r in pair] for p in range(num_partitions) for pair in pairs]
    _check_members(op, moves, num_partitions * num_replicas)
    sources = [-1] * (num_partitions * num_replicas)
    for source, target in moves:
        sources[target] = source
    return sources


def _check_members(op: Op, groups: Groups, num_devices: int) -> None:
    for member in (m for group in groups for m in group):
        if not 0 <= member < num_devices:
            raise CompileError(
                f"{op.name} at {source_line(op.location) or 'an unknown source line'} names the device {member}, but "
                f"the program runs on {num_devices}; use numbers from 0 to {num_devices - 1}",
                INVALID_ARGUMENT,
            )


def _over_partitions(groups: Groups, num_partitions: int, num_replicas: int) -> Groups:
    return [[r * num_partitions + p for p in group] for r in range(num_replicas) for group in groups]


def channel_of(op: Op) -> int:
    """The channel id of a collective; 0 where it has none."""
    return channel_in(op.attrs.get("channel_handle", ""))


def channel_in(attribute: Any) -> int:
    """The channel id in a `#stablehlo.channel_handle`, given as text or attribute; 0 where there is none."""
    found = re.search(r"handle = (\d+)", str(attribute))
    return int(found.group(1)) if found else 0
