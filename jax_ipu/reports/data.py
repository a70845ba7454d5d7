"""The data of a report: one dictionary for one program, as docs/report_format.md describes it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from jax_ipu import _ipu
from jax_ipu.compiler import capacity
from jax_ipu.compiler.accuracy import as_rows
from jax_ipu.compiler.build import BuiltProgram
from jax_ipu.compiler.compilation import Compilation
from jax_ipu.compiler.estimates import Estimate
from jax_ipu.compiler.ir import VIEWS, Op, size_in_bytes
from jax_ipu.compiler.pipeline import without_calls
from jax_ipu.compiler.shardings import parts_along
from jax_ipu.compiler.types import Shape, type_text
from jax_ipu.compiler.variants.batch import find_batch
from jax_ipu.reports.layers import NOWHERE, CostTree, Place, first_place, functions_of, is_member, titles
from jax_ipu.reports.operations import operations_of
from jax_ipu.reports.schedule import of_loops
from jax_ipu.reports.sources import Sources
from jax_ipu.reports.stage_loops import StageLoop, stage_loops
from jax_ipu.version import __version__

FORMAT, VERSION = "jax_ipu report", 1


def report_data(compilation: Compilation, estimate: Estimate, floor: dict[str, Any] | None = None) -> dict[str, Any]:
    """The report of a program, without its insights. Long arrays are `_ipu.Integers`; `plain` makes lists of them.

    Args:
        compilation: the compilation of the program, which may not have fitted.
        estimate: its estimate.
        floor: the floor plan of the chip; by default that of `floor_plan`.
    """
    target, error = compilation.target, compilation.error
    profile, origins, arguments = _profile(compilation)
    planned = estimate.cycles is not None
    sources = Sources(origins, _reads(arguments))
    numbers = replace(estimate, operations=()).as_dict()
    del numbers["operations"]
    data: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "jax_ipu": __version__,
        "program": {
            "name": compilation.name,
            "target": f"{target.version}:{target.num_tiles}",
            "num_ipus": compilation.num_ipus,
            "batch": _batch(compilation),
            "fits": error is None,
            "reason": None if error is None else str(error),
        },
        "chip": _chip(target, floor or floor_plan(target.num_tiles)),
        "estimate": numbers,
        "accuracy": as_rows(),
        "host": {"streams": None if profile is None else _streams(profile, compilation.built)},
        "phases": [{"name": name, "seconds": round(s, 6)} for name, s in compilation.phases.items()],
        "insights": [],
        "run": None,
        "schedule": None,
    }
    if profile is None:
        data |= _without_profile(error)
    else:
        data |= _with_profile(profile, arguments, sources, target, planned)
        if planned and compilation.num_ipus > 1 and (loops := _stage_loops(compilation)):
            data["schedule"] = of_loops(loops, data["tree"], profile.steps)
    data["libraries"] = _libraries(compilation, sources)
    data["sources"] = sources.as_list()
    return data


def _libraries(compilation: Compilation, sources: Sources) -> list[dict[str, Any]] | None:
    """Which library the ops came from, each kind, reason and line once; None without PopLibs."""
    if compilation.built is None or compilation.built.lowered.choices is None:
        return None
    numbers = {op: i for i, op in enumerate(compilation.built.lowered.origins, 1)}
    counts: dict[tuple[str, str, str, int | None, int | None], int] = {}
    for choice in compilation.built.lowered.choices:
        key = (choice.op.name, choice.library, choice.reason, *sources.of(numbers.get(choice.op, 0)))
        counts[key] = counts.get(key, 0) + 1
    names = ("op", "library", "reason", "source", "line")
    return [{**dict(zip(names, key, strict=True)), "count": count} for key, count in counts.items()]


def _batch(compilation: Compilation) -> int | None:
    """The rows of a call, on all IPUs; None where the program has no batch, or what may be one is not cut over them."""
    if compilation.built is None or compilation.legal is None:
        return None
    module = without_calls(compilation.legal)
    batch, parts = find_batch(module), 1
    if batch is not None and compilation.num_ipus > 1:
        parts = parts_along(module, *next(iter(batch.axes.items())))
    module.release()
    return None if batch is None or (compilation.num_ipus > 1 and parts == 1) else batch.size * parts


def _stage_loops(compilation: Compilation) -> list[StageLoop]:
    if compilation.legal is None:
        return []
    module = without_calls(compilation.legal)
    found = stage_loops(module)
    module.release()
    return found


def plain(value: Any) -> Any:
    """The data of a report with lists for all arrays. Data without arrays are returned as they are."""
    if isinstance(value, _ipu.Integers):
        return list(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list) and value and not isinstance(value[0], (int, float, str)):
        return [plain(item) for item in value]
    return value


@functools.lru_cache(maxsize=4)
def floor_plan(num_tiles: int) -> dict[str, Any]:
    """A position for each tile: the two tiles that share a bus side by side, column by column."""
    pairs = math.ceil(num_tiles / 2)
    columns = 16 if pairs % 16 == 0 and pairs > 256 else max(1, round(math.sqrt(pairs / 2)))
    rows = math.ceil(pairs / columns)
    tiles: list[int] = []
    for tile in range(num_tiles):
        column, row = divmod(tile // 2, rows)
        tiles += (2 * column + tile % 2, row)
    return {
        "columns": 2 * columns if num_tiles > 1 else 1,
        "rows": rows,
        "tiles": tiles,
        "source": "Schematic: no public source gives the position of each tile. Tiles are numbered column by column, "
        "the two tiles that share an exchange bus side by side.",
    }


def _chip(target: _ipu.Target, floor: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": target.version,
        "num_tiles": target.num_tiles,
        "tile_memory_bytes": target.bytes_per_tile,
        "clock_hz": target.tile_clock_frequency,
        "workers_per_tile": target.num_worker_contexts,
        "peak_flops": target.peak_flops,
        "host_link_bytes_per_second": target.host_link_bytes_per_second,
        "ipu_link_bytes_per_second": target.ipu_link_bytes_per_second,
        "exchange_bytes_per_cycle": target.exchange_bytes_per_cycle,
        "floor_plan": floor,
    }


class _Argument(NamedTuple):
    """The shape of an argument for the user, where it is first read in the model, and the ops that read it."""

    shape: Shape
    place: Place
    readers: Sequence[Op]


def _profile(compilation: Compilation) -> tuple[_ipu.Profile | None, Sequence[Op], Mapping[str, _Argument]]:
    """The profile, the op that each origin in it stands for, counted from 1, and each argument."""
    if (built := compilation.built) is not None:
        signature = built.signature
        arguments = {
            argument.name: _Argument(argument.value.shape, first_place(readers, argument.name), readers)
            for argument, readers in zip(signature.arguments, signature.readers(), strict=True)
        }
        return built.compiled.profile(), built.lowered.origins, arguments
    if isinstance(error := compilation.error, _ipu.OutOfMemory):
        arguments = {
            name: _Argument(shape, first_place(readers, name), readers) for name, shape, readers in error.arguments
        }
        return error.profile(), error.origins, arguments
    return None, (), {}


def _reads(arguments: Mapping[str, _Argument]) -> dict[Op, str]:
    """The first argument that each op reads, as it is or as a view of it; members of modules before others."""
    found: dict[Op, str] = {}
    for name, argument in sorted(arguments.items(), key=lambda item: not is_member(item[0])):
        pending = list(argument.readers)
        while pending:
            op = pending.pop()
            if op not in found:
                found[op] = name
                if op.name in VIEWS:
                    pending += (user for result in op.results for user in result.users)
    return found


def _with_profile(
    profile: _ipu.Profile, arguments: Mapping[str, _Argument], sources: Sources, target: _ipu.Target, planned: bool
) -> dict[str, Any]:
    """`planned`: whether operations have costs. If not, their columns are null."""
    steps, exchange, memory, tile_memory = profile.steps, profile.exchange, profile.memory, profile.tile_memory
    node_of_step = steps.node
    tree, node_ids = _tree(profile.nodes, planned)
    tiles = target.num_tiles
    kinds = profile.nodes.kind
    # As in traces: a superstep that receives from other IPUs spends its exchange phase on the links.
    links = [cycles if moved else 0 for cycles, moved in zip(steps.exchange, steps.link_bytes, strict=True)]
    operations, layers, functions = operations_of(profile, sources, target, links, planned)
    variables = _variables(
        profile.variables, arguments, sources, layers, functions, [row["title"] for row in operations]
    )
    costs = {
        "compute": list(steps.compute),
        "exchange": list(steps.exchange),
        "links": run_lengths(links),
        "sync": run_lengths(steps.sync),
        "exchange_bytes": list(steps.exchange_bytes),
        "link_bytes": run_lengths(steps.link_bytes),
        "active_tiles": list(steps.active_tiles),
        "mean_compute": [round(total / tiles, 2) for total in steps.total_compute],
        "local_copies": run_lengths(steps.local_copies),
    }
    of_tiles = ("variables", "constants") if not planned else tuple(_CATEGORIES)
    return {
        "operations": operations,
        "layers": layers.nodes,
        "functions": functions.nodes,
        "frames": sources.frames(),
        "steps": {
            "operation": [None if i < 0 else i for i in steps.operation],
            "kind": [kind if (kind := kinds[node]) in _STEP_KINDS else "decision" for node in node_of_step],
            "name": [
                (profile.nodes.name[node] if kinds[node] in _STREAMS else "") or name or None
                for node, name in zip(node_of_step, steps.name, strict=True)
            ],
            "executions": run_lengths(steps.executions),
            "counted": run_lengths(steps.counted),
            "host_bytes": run_lengths(steps.host_bytes),
            "node": [node_ids[node] for node in node_of_step],
            **(costs if planned else dict.fromkeys(costs)),
        },
        "tile_compute": _matrix(profile.tile_compute, tiles) if planned else None,
        "tree": tree,
        "variables": variables,
        "liveness": {
            "steps": len(node_of_step),
            "always_live_bytes": memory.always_live_bytes,
            "not_always_live": run_lengths([b - memory.always_live_bytes for b in steps.live_bytes]),
            "max_tile": run_lengths(steps.fullest_bytes),
            "fullest": run_lengths(steps.fullest_tile),
        },
        "memory": {
            "peak_step": memory.peak_step if memory.peak_step >= 0 else None,
            "categories": {name: {"rle": getattr(memory, name)} if name in of_tiles else None for name in _CATEGORIES},
            "total": {"rle": memory.total},
            "gaps": {"rle": memory.gaps},
            "addresses": {"of_tile": {"rle": memory.addresses_of_tile}, "lists": list(memory.addresses)},
        },
        "tile_memory": _matrix(tile_memory, tiles) if len(tile_memory.lines) == len(node_of_step) else None,
        "exchange": _exchange(exchange, steps, tiles) if planned else None,
    }


def _exchange(exchange: _ipu.ProfileExchange, steps: _ipu.ProfileSteps, tiles: int) -> dict[str, Any]:
    return {
        "steps": list(exchange.steps),
        "sent": _matrix(exchange.sent, tiles),
        "received": _matrix(exchange.received, tiles),
        "pairs": _rows(exchange.pairs, lambda row: row),
        "group_tiles": exchange.group_tiles,
        "between_ipus": run_lengths(steps.link_bytes),
    }


_CATEGORIES = ("variables", "temporaries", "exchange_buffers", "constants", "vertex_state", "code")
# Steps of other nodes are decisions.
_STREAMS = frozenset(("stream in", "stream out"))
_STEP_KINDS = frozenset(("operation", *_STREAMS, "host call"))
# Nodes of a profile that a report has under another name. "other" has no steps.
_NODE_KINDS = {"stream in": "stream", "stream out": "stream"}


def _tree(nodes: _ipu.ProfileNodes, planned: bool) -> tuple[list[dict[str, Any]], dict[int, int]]:
    """The nodes without those that do nothing, and the new number of each."""
    tree: list[dict[str, Any]] = []
    ids: dict[int, int] = {}
    columns = (nodes.kind, nodes.name, nodes.parent, nodes.operation, nodes.trips, nodes.executions)
    ranges = (nodes.first_step, nodes.last_step, nodes.cycles)
    for number, (kind, name, parent, operation, trips, executions, first, last, cycles) in enumerate(
        zip(*columns, *ranges, strict=True)
    ):
        if kind == "other" or (first < 0 and parent >= 0):
            continue
        ids[number] = len(tree)
        tree.append(
            {
                "id": len(tree),
                "parent": ids[parent] if parent >= 0 else None,
                "kind": _NODE_KINDS.get(kind, kind),
                "label": name or kind,
                "trips": trips if kind == "repeat" else None,
                "executions": executions,
                "operation": operation if operation >= 0 else None,
                "first_step": first if first >= 0 else None,
                "last_step": last if last >= 0 else None,
                "cycles": cycles * executions if planned else None,
            }
        )
    return tree, ids


def _variables(
    v: _ipu.ProfileVariables,
    arguments: Mapping[str, _Argument],
    sources: Sources,
    layers: CostTree,
    functions: CostTree,
    operations: Sequence[str],
) -> list[dict[str, Any]]:
    """The variables; the trees count the bytes of those that operations write first.

    `operations`: the titles of the operations.
    """
    rows = v.rows
    alike: dict[str, list[tuple[int, str, Place]]] = {}
    first_of_row: dict[int, int] = {}
    variables = []
    columns = (v.name, v.dtype, v.shape, v.role, v.lasting, v.bytes, v.bytes_on_tile, v.tiles, v.row, v.live_steps)
    for number, (
        name,
        dtype,
        shape,
        role,
        lasting,
        all_bytes,
        most,
        tiles,
        row,
        live,
        used,
        operation,
        origin,
    ) in enumerate(zip(*columns, v.last_use, v.operation, v.origin, strict=True)):
        source, line = sources.of(origin)
        first = first_of_row.setdefault(row, number)
        known = arguments.get(name) if role == "variable" else None
        # An argument belongs to its first reader, any other variable to the operation that writes it first.
        place = sources.place(origin) if known is None else known.place
        counted = all_bytes if role == "variable" else 0
        entry = {
            "id": number,
            "name": name,
            "title": name,
            "dtype": dtype,
            "shape": list(known.shape if known is not None else sources.shape_like(origin, shape)),
            "role": role,
            "lasting": bool(lasting),
            "bytes": all_bytes,
            "max_tile_bytes": most,
            "tiles": tiles,
            "first_step": live[0],
            "last_step": live[-1],
            "last_use_step": used if used >= 0 else None,
            "tile_bytes": {"rle": rows[row]} if first == number else {"same": first},
            "argument": name if known is not None else None,
            "operation": operation if operation >= 0 else None,
            "source": source,
            "line": line,
            "layer": layers.add_variable(place.layers, counted),
        }
        functions.add_variable(functions_of(place), counted)
        if len(live) > 2:
            entry["ranges"] = list(live)
        if known is None:
            # A buffer has the title of its operation.
            called = (
                (name, place._replace(shape=type_text(entry["shape"], dtype)))
                if operation < 0
                else (operations[operation], NOWHERE)
            )
            alike.setdefault(role, []).append((number, *called))
        variables.append(entry)
    for members in alike.values():
        told_apart = titles([name for _, name, _ in members], [place for *_, place in members])
        for (number, *_), title in zip(members, told_apart, strict=True):
            variables[number]["title"] = title
    return variables


def _without_profile(error: BaseException | None) -> dict[str, Any]:
    """The data of a program that was refused before mapping: only the values that need the memory are known."""
    values = error.values if isinstance(error, capacity.TooLarge) else []
    return {
        "operations": [],
        "layers": [],
        "functions": [],
        "frames": [],
        "steps": None,
        "tile_compute": None,
        "tree": [],
        "variables": [
            {
                "id": number,
                "name": value.op.name if value.op is not None else "argument",
                "title": value.op.name if value.op is not None else "argument",
                "dtype": value.dtype,
                "shape": list(value.shape),
                "role": "variable",
                "lasting": False,
                "bytes": size_in_bytes(value),
                "max_tile_bytes": None,
                "tiles": None,
                "first_step": None,
                "last_step": None,
                "last_use_step": None,
                "tile_bytes": None,
                "argument": None,
                "operation": None,
                "source": None,
                "line": None,
                "layer": None,
            }
            for number, value in enumerate(values)
        ],
        "liveness": None,
        "memory": None,
        "tile_memory": None,
        "exchange": None,
    }


def _streams(profile: _ipu.Profile, built: BuiltProgram | None) -> list[dict[str, Any]]:
    """What crosses the host link: in each call, for new arrays, or once."""
    streams: list[dict[str, Any]] = []
    steps, kinds, names = profile.steps, profile.nodes.kind, profile.nodes.name
    for node, bytes_, executions, name in zip(steps.node, steps.host_bytes, steps.executions, steps.name, strict=True):
        kind = kinds[node]
        if kind in _STREAMS:
            direction = "in" if kind == "stream in" else "out"
            label, moved = names[node] or name, bytes_ * executions
            streams.append({"name": label, "direction": direction, "bytes": moved, "when": "each call"})
    if built is not None:
        for a in built.signature.arguments:
            if a.index in built.lowered.state_programs:
                when = "once" if a.resident else "new arrays"
                moved = size_in_bytes(a.value)
                streams.append({"name": a.name, "direction": "in", "bytes": moved, "when": when})
    return streams


def run_lengths(values: Iterable[int]) -> dict[str, list[int]]:
    """Values as {"rle": [value, run length, ...]}."""
    runs: list[int] = []
    for value in values:
        if runs and runs[-2] == value:
            runs[-1] += 1
        else:
            runs += (value, 1)
    return {"rle": runs}


def _matrix(table: _ipu.RunLengthTable, columns: int) -> dict[str, Any]:
    return {"rows": len(table.lines), "columns": columns, "data": _rows(table, lambda row: {"rle": row})}


def _rows(table: _ipu.RunLengthTable, shown: Callable[[_ipu.Integers], Any]) -> list[Any]:
    """The lines of a table; one that equals an earlier line refers to it."""
    rows = table.rows
    first: dict[int, int] = {}
    data: list[Any] = []
    for number, row in enumerate(table.lines):
        earlier = first.setdefault(row, number)
        data.append(shown(rows[row]) if earlier == number else {"same": earlier})
    return data
