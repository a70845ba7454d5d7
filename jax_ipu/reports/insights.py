"""Insights: what of a report deserves attention, and what to do about it. No number here is a guess."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jax_ipu.compiler.tables import bytes_text, percent_text, seconds_text

Insight = dict[str, Any]

# Codelets that use the matrix units with operands of 32 bits.
_WIDE = re.compile(r"poplin::Conv\w+<f32\b")
# How many tiles, variables or operations an insight names.
_SHOWN = 5
_BINS = 16
# Parts of the whole from which something is worth a line.
_NEARLY_FULL, _IMBALANCE, _LARGE = 0.9, 0.1, 0.05


def insight(
    id: str,
    severity: str,
    title: str,
    detail: str,
    action: str | None = None,
    saving: dict[str, int | None] | None = None,
    operations: Sequence[int] = (),
    variables: Sequence[int] = (),
    tiles: Sequence[int] = (),
) -> Insight:
    """One insight as a report holds it; `severity`: "info", "advice" or "problem"."""
    return {
        "id": id,
        "severity": severity,
        "title": title,
        "detail": detail,
        "action": action,
        "saving": saving,
        "operations": list(operations),
        "variables": list(variables),
        "tiles": list(tiles),
    }


def insights(data: dict[str, Any], tried: bool = False) -> list[Insight]:
    """What the data of a report says by itself. `tried`: whether alternatives are compiled, too."""
    found = [*_fits(data)]
    if data["memory"] is not None:
        found += [
            *_fullest_tiles(data),
            *_gaps(data),
            *_histogram(data),
            *_always_live(data),
            *_buffers(data),
            *_late_freed(data),
        ]
    if data["estimate"]["cycles"] and data["operations"]:
        found += [*_wide_products(data, tried), *_limits(data), *_sinks(data), *_imbalance(data)]
    return by_severity(found)


def by_severity(found: list[Insight]) -> list[Insight]:
    """The problems first, then the advice."""
    order = {"problem": 0, "advice": 1, "info": 2}
    return sorted(found, key=lambda one: order[one["severity"]])


def not_tried(data: Mapping[str, Any]) -> list[Insight]:
    """Only the program itself was compiled. Where it does not fit, the reason says which changes were tried."""
    if not data["program"]["fits"]:
        return []
    return [
        insight(
            "alternatives",
            "advice",
            "Alternatives were not tried",
            "Only the program itself was compiled, so what other batches, types and options would save is not known.",
            "jax_ipu.report(..., advice=True), or jax-ipu report --advice, compiles them and says what each saves; "
            "that takes as long as about eight compilations.",
        )
    ]


def expanded(array: Any) -> list[Any]:
    """The values of an array of a report: a plain list, or {"rle": [value, run length, ...]}."""
    if isinstance(array, list):
        return array
    runs = tuple(array["rle"])
    values: list[Any] = []
    for value, length in zip(runs[::2], runs[1::2], strict=True):
        values += [value] * length
    return values


def _fits(data: dict[str, Any]) -> Iterator[Insight]:
    if not data["program"]["fits"]:
        reason = str(data["program"]["reason"])
        first, helps, untried = reason.splitlines()[0], what_helps(reason), what_was_not_tried(reason)
        action = helps + [f"Not tried: {item}" for item in untried]
        one = insight("does not fit", "problem", "The program does not fit", first, "\n".join(action) or None)
        one["helps"], one["untried"] = helps, untried
        yield one


def what_helps(reason: str) -> list[str]:
    """What the compiler has tried that helps, one string for each item."""
    return _items(reason, "What helps")


def what_was_not_tried(reason: str) -> list[str]:
    """What may help and was not tried, one string for each item."""
    return _items(reason, "Not tried")


def _items(reason: str, heading: str) -> list[str]:
    """The items of the list below the line that begins with `heading`."""
    _, _, text = f"\n{reason}".partition(f"\n{heading}")
    items: list[str] = []
    for line in text.splitlines()[1:]:
        mark = re.match(r"\s*[*-] ", line)
        if mark:
            items.append(line[mark.end() :].rstrip(";."))
        elif line.startswith(" ") and items:
            items[-1] += " " + line.strip().rstrip(";.")
        else:
            break
    return items


def _fullest_tiles(data: dict[str, Any]) -> Iterator[Insight]:
    total, limit = expanded(data["memory"]["total"]), data["chip"]["tile_memory_bytes"]
    fullest = sorted(range(len(total)), key=lambda tile: (-total[tile], tile))[:_SHOWN]
    most = total[fullest[0]]
    mean = sum(total) / len(total)
    over = sum(bytes_ > limit for bytes_ in total)
    severity = "problem" if over else "advice" if most > _NEARLY_FULL * limit else "info"
    used = percent_text(most, limit)
    texts = ", ".join(f"{tile}: {bytes_text(total[tile])}" for tile in fullest)
    peak = data["memory"]["peak_step"]
    operation = data["steps"]["operation"][peak] if peak is not None else None
    when = f" The fullest moment is during {data['operations'][operation]['title']}." if operation is not None else ""
    yield insight(
        "fullest tiles",
        severity,
        f"The fullest tile holds {bytes_text(most)}, {used} of its memory",
        f"Tiles {texts}. The mean over all tiles is {bytes_text(mean)}"
        + (f"; {over} tiles hold more than there is room for." if over else ".")
        + when,
        "Select one of these tiles to see what it holds." if severity != "info" else None,
        operations=[] if operation is None else [operation],
        tiles=fullest,
    )


def _gaps(data: dict[str, Any]) -> Iterator[Insight]:
    """Tiles whose bytes fit, but not with the gaps between them."""
    total, gaps = expanded(data["memory"]["total"]), expanded(data["memory"]["gaps"])
    limit = data["chip"]["tile_memory_bytes"]
    beyond = [tile for tile, bytes_ in enumerate(total) if bytes_ <= limit < bytes_ + gaps[tile]]
    if not beyond:
        return
    worst = max(beyond, key=lambda tile: total[tile] + gaps[tile])
    yield insight(
        "gaps",
        "advice",
        f"With the gaps between variables, {len(beyond)} tiles need more memory than they have",
        f"Tile {worst} holds {bytes_text(total[worst])}, and {bytes_text(gaps[worst])} lie in gaps: together more than "
        f"{bytes_text(limit)}. Whether a program fits is decided without gaps.",
        "On a chip, the program may not fit: leave some memory free.",
        tiles=beyond[:_SHOWN],
    )


def _histogram(data: dict[str, Any]) -> Iterator[Insight]:
    total = expanded(data["memory"]["total"])
    low, high = min(total), max(total)
    width = max(1, -(-(high - low + 1) // _BINS))
    counts = [0] * _BINS
    for bytes_ in total:
        counts[(bytes_ - low) // width] += 1
    bounds = [(bytes_text(low + i * width), bytes_text(low + (i + 1) * width)) for i in range(_BINS)]
    parts = [
        f"{start if start == end else f'{start} to {end}'}: {count}"
        for (start, end), count in zip(bounds, counts, strict=True)
        if count
    ]
    one = insight("histogram", "info", "How full the tiles are", "Tiles by their fullest moment: " + "; ".join(parts))
    one["histogram"] = {"low": low, "width": width, "counts": counts}
    yield one


# The parts that take memory in every step: key, name, and what makes the part smaller.
_PARTS = (
    ("code", "code", "A loop (jax.lax.scan) over layers that are alike, or the option ipu_outline, needs less code."),
    ("vertex_state", "vertex state", "Fewer and larger operations have fewer vertices."),
    ("constants", "constants", "Values that the program computes, or takes as arguments, need no constants."),
    ("variables", "variables", "Smaller types, or cutting variables over several IPUs, need less in every step."),
)


def _always_live(data: dict[str, Any]) -> Iterator[Insight]:
    steps = data["liveness"]["steps"]
    always = [
        v
        for v in data["variables"]
        if v["first_step"] == 0 and v["last_step"] == steps - 1 and "ranges" not in v and v["role"] == "variable"
    ]
    always.sort(key=lambda v: (-v["bytes"], v["id"]))
    whole = data["liveness"]["always_live_bytes"]
    if not whole:
        return
    sums = {key: sum(expanded(column)) for key, column in data["memory"]["categories"].items() if column is not None}
    parts = {key: sums.get(key, 0) for key, _, _ in _PARTS[:-1]}
    parts["variables"] = whole - sum(parts.values())
    texts = ", ".join(f"{bytes_text(parts[key])} of {name}" for key, name, _ in _PARTS if parts[key])
    largest = always[:_SHOWN]
    names = ", ".join(f"{v['title']} ({bytes_text(v['bytes'])})" for v in largest)
    one = insight(
        "always live",
        "info",
        f"{bytes_text(whole)} are live during the whole program",
        f"On all tiles together {texts}." + (f" Largest variables: {names}." if names else ""),
        " ".join(action for key, _, action in _PARTS if parts[key] > _IMBALANCE * whole),
        variables=[v["id"] for v in largest],
    )
    one["parts"] = {key: bytes_ for key, bytes_ in parts.items() if bytes_}
    yield one


def _buffers(data: dict[str, Any]) -> Iterator[Insight]:
    """The largest exchange buffers; advice for a large one that a nearly full tile holds at its peak."""
    buffers = [v for v in data["variables"] if v["role"] == "exchange buffer"]
    buffers.sort(key=lambda v: (-v["max_tile_bytes"], v["id"]))
    largest = buffers[:_SHOWN]
    if not largest:
        return
    limit, peak = data["chip"]["tile_memory_bytes"], data["memory"]["peak_step"]
    full = peak is not None and max(expanded(data["memory"]["total"])) > _NEARLY_FULL * limit
    at_peak = [v for v in buffers if full and v["first_step"] <= peak <= v["last_step"]]
    in_the_way = [v for v in at_peak if v["max_tile_bytes"] > _LARGE * limit]
    if in_the_way:
        largest = in_the_way[:_SHOWN]
    most = bytes_text(largest[0]["max_tile_bytes"])
    yield insight(
        "exchange buffers",
        "advice" if in_the_way else "info",
        f"An exchange buffer takes {most} on a tile at the fullest moment"
        if in_the_way
        else f"The largest exchange buffer takes {most} on a tile",
        "Largest on one tile: "
        + ", ".join(f"{v['title']} ({bytes_text(v['max_tile_bytes'])} of {bytes_text(v['bytes'])})" for v in largest),
        "A part of the operand at a time (jax.lax.map over slices) takes a smaller buffer." if in_the_way else None,
        operations=sorted({v["operation"] for v in largest}),
        variables=[v["id"] for v in largest],
    )


def _late_freed(data: dict[str, Any]) -> Iterator[Insight]:
    """Variables that keep their memory in steps after the last one that reads them."""
    limit, ends = data["chip"]["tile_memory_bytes"], data["liveness"]["steps"] - 1
    late = [
        v
        for v in data["variables"]
        if v["role"] == "variable"
        and not v["lasting"]
        and v["last_use_step"] is not None
        and v["last_use_step"] < v["last_step"] < ends
        and v["max_tile_bytes"] > _LARGE * limit / 5
    ]
    late.sort(key=lambda v: (-v["bytes"] * (v["last_step"] - v["last_use_step"]), v["id"]))
    if not late:
        return
    shown = late[:_SHOWN]
    texts = ", ".join(
        f"{v['title']} ({bytes_text(v['bytes'])}, {v['last_step'] - v['last_use_step']} steps)" for v in shown
    )
    yield insight(
        "late freed",
        "info",
        f"{len(late)} variables keep their memory after the last step that reads them"
        if len(late) > 1
        else "A variable keeps its memory after the last step that reads it",
        "Largest: " + texts + ". Loops keep what the next trip reads, and operations keep operands until they end.",
        variables=[v["id"] for v in shown],
    )


def _wide_products(data: dict[str, Any], tried: bool) -> Iterator[Insight]:
    """Products and convolutions with operands of 32 bits, which the matrix units take at a quarter of the rate."""
    whole = sum(row["cycles"] for row in data["operations"])
    wide = [row for row in data["operations"] if any(_WIDE.match(codelet) for codelet in row["codelets"])]
    wide.sort(key=lambda row: (-row["cycles"], row["id"]))
    cycles = sum(row["cycles"] for row in wide)
    if cycles < _LARGE * whole:
        return
    names = ", ".join(f"{row['title']} ({percent_text(row['cycles'], whole)})" for row in wide[:_SHOWN])
    yield insight(
        "float32 products",
        "advice",
        f"Products with float32 operands take {percent_text(cycles, whole)} of the cycles",
        f"Most in {names}. The matrix units take four times as many float16 operands in a cycle.",
        "Give float16 operands where their range and rounding allow"
        + ("." if tried else "; jax_ipu.report(..., advice=True) says what that saves."),
        operations=[row["id"] for row in wide[:_SHOWN]],
    )


def _limits(data: dict[str, Any]) -> Iterator[Insight]:
    e, steps = data["estimate"], data["steps"]
    links = link_cycles(steps)
    parts = {
        "compute": e["compute_cycles"],
        "exchange": e["exchange_cycles"] - links,
        "IPU-Links": links,
        "sync": e["sync_cycles"],
    }
    name = max(parts, key=lambda part: parts[part])
    shares = {part: percent_text(cycles, e["cycles"]) or "0 %" for part, cycles in parts.items()}
    texts = ", ".join(f"{part} {share}" for part, share in shares.items() if part != "IPU-Links" or links)
    streaming = e["streaming_seconds"] or 0.0
    hidden = min(streaming, e["overlapped_seconds"] or 0.0)
    host = (e["host_seconds"] or 0.0) - streaming > (e["seconds"] or math.inf)
    waits = streaming - hidden > (e["seconds"] or math.inf)
    detail = f"Of the cycles: {texts}."
    action = {
        "compute": "Look at the operations with the most cycles, and at how evenly the tiles share them.",
        "exchange": "Look at the steps that exchange most: another order of dimensions may move less data.",
        "IPU-Links": "Look at what crosses from IPU to IPU: another axis to shard, a larger batch on each IPU, or one "
        "sum of gradients for many rows moves fewer bytes for each row.",
        "sync": "Many small steps: larger arrays or batches, or fewer operations, give each step more to do.",
    }[name]
    if host:
        detail += " The host link takes longer than the program: more so if arguments are new in each call."
    if waits:
        detail += " The link to the streaming memory takes longer than the program"
        detail += f", of which {seconds_text(hidden)} are beside it." if hidden else "."
    verb = "take" if name == "IPU-Links" else "takes"
    part = "most" if 2 * parts[name] > e["cycles"] else "the largest part"
    title = f"{name if name == 'IPU-Links' else name.capitalize()} {verb} {part} of the cycles"
    yield insight("limit", "info", title, detail, action)


def link_cycles(steps: dict[str, Any]) -> int:
    """The cycles of one call over the IPU-Links."""
    columns = (expanded(steps[name]) for name in ("counted", "executions", "links"))
    return sum(counted * executions * cycles for counted, executions, cycles in zip(*columns, strict=True))


def _sinks(data: dict[str, Any]) -> Iterator[Insight]:
    # The operations of all branches of conditionals, while the estimate counts one.
    whole = sum(row["cycles"] for row in data["operations"])
    rows = sorted(data["operations"], key=lambda row: (-row["cycles"], row["id"]))[:_SHOWN]
    kinds: dict[str, int] = {}
    for row in data["operations"]:
        kinds[row["kind"]] = kinds.get(row["kind"], 0) + row["cycles"]
    costly = sorted(kinds, key=lambda kind: (-kinds[kind], kind))[:_SHOWN]
    names = ", ".join(f"{row['title']} ({percent_text(row['cycles'], whole)})" for row in rows)
    share = percent_text(sum(row["cycles"] for row in rows), whole)
    many = f"The {len(rows)} costliest operations take" if len(rows) > 1 else "One operation takes"
    by_kind = ", ".join(f"{kind} ({percent_text(kinds[kind], whole)})" for kind in costly)
    detail = f"{names}. By kind: {by_kind}."
    yield insight("sinks", "info", f"{many} {share} of the cycles", detail, operations=[row["id"] for row in rows])


def _imbalance(data: dict[str, Any]) -> Iterator[Insight]:
    """Cycles in which tiles wait for the slowest one to compute."""
    steps = data["steps"]
    columns = (expanded(steps[name]) for name in ("counted", "executions", "compute", "mean_compute"))
    waiting: dict[int, float] = {}
    for operation, counted, executions, slowest, mean in zip(steps["operation"], *columns, strict=True):
        if operation is not None and counted:
            waiting[operation] = waiting.get(operation, 0.0) + executions * (slowest - mean)
    whole = data["estimate"]["cycles"]
    lost = sum(waiting.values())
    worst = sorted(waiting, key=lambda i: (-waiting[i], i))[:_SHOWN]
    worst = [i for i in worst if waiting[i] > _LARGE * whole]
    large = lost > _IMBALANCE * whole
    texts = ", ".join(f"{data['operations'][i]['title']} ({percent_text(waiting[i], whole)})" for i in worst)
    yield insight(
        "imbalance",
        "advice" if large and worst else "info",
        f"A tile waits for slower ones during {percent_text(lost, whole)} of the cycles, on average",
        ("Most in " + texts + ".") if texts else "No operation has much of it.",
        "Dimensions that divide evenly over the tiles, or a larger batch, keep more tiles busy." if large else None,
        operations=worst,
    )
