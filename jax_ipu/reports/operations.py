"""The operations of a report, and what layers and functions cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax_ipu import _ipu
from jax_ipu.reports.layers import CostTree, functions_of, titles
from jax_ipu.reports.sources import Sources


def operations_of(
    profile: _ipu.Profile, sources: Sources, target: _ipu.Target, links: Sequence[int], planned: bool
) -> tuple[list[dict[str, Any]], CostTree, CostTree]:
    """The operations, the tree of layers and that of functions.

    Args:
        profile, sources: of the program.
        target: the IPU.
        links: cycles over IPU-Links of one execution of each step.
        planned: whether operations have costs. If not, these are null.
    """
    link_cycles = [0] * len(profile.operations)
    for operation, executions, cycles in zip(profile.steps.operation, profile.steps.executions, links, strict=True):
        if operation >= 0:
            link_cycles[operation] += executions * cycles
    places = [sources.place(origin) for origin in profile.origins]
    names = titles([row.name for row in profile.operations], places)
    layers, functions = CostTree(), CostTree()
    rows = []
    columns = (profile.operations, profile.origins, places, names, link_cycles)
    for number, (cost, origin, place, title, on_links) in enumerate(zip(*columns, strict=True)):
        source, line = sources.of(origin)
        row = {
            "id": number,
            "name": cost.name,
            "title": title,
            "kind": cost.kind,
            "codelets": list(cost.codelets) if planned else None,
            "scope": sources.scope(origin),
            "backward": place.backward,
            "shape": place.shape,
            "source": source,
            "line": line,
            "stack": sources.stack(origin),
            "executions": cost.executions,
            "flops": cost.flops,
            **_costs(cost, on_links, target, planned),
        }
        row["layer"] = layers.add(row, place.layers)
        row["function"] = functions.add(row, functions_of(place))
        rows.append(row)
    return rows, layers, functions


def _costs(row: _ipu.OperationCost, link_cycles: int, target: _ipu.Target, planned: bool) -> dict[str, Any]:
    seconds = row.cycles / target.tile_clock_frequency
    costs = {
        "cycles": row.cycles,
        "compute_cycles": row.compute_cycles,
        "exchange_cycles": row.exchange_cycles,
        "link_cycles": link_cycles,
        "sync_cycles": row.sync_cycles,
        "exchange_bytes": row.exchange_bytes,
        "link_bytes": row.link_bytes,
        "code_bytes": row.code_bytes,
        "tiles": row.tiles,
        "utilisation": round(row.flops / (seconds * target.peak_flops), 6) if seconds else None,
    }
    return costs if planned else dict.fromkeys(costs)
