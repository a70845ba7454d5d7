// Two reports side by side: before and after, one chip and another, what fits and what does not.
import { chart, indices, type Chart } from "../chart";
import { empty, h, panel, plainTable } from "../dom";
import { cyclesError, figure, memoryError } from "../figure";
import type { Operation } from "../format";
import type { Program } from "../model";
import { bytes, count, cycles, integer, known, percent, rate, seconds, signed, type Maybe, largest } from "../numbers";
import { numbers, Table, texts } from "../table";
import type { Built, Context, View } from "../view";

interface Metric {
  key: string;
  title: string;
  format: (value: Maybe) => string;
  better: "less" | "more" | null;
  error: "cycles" | "memory" | null;
}

const metrics: Metric[] = [
  { key: "call_seconds", title: "Time of a call", format: seconds, better: "less", error: null },
  { key: "rows_per_second", title: "Rows a second", format: (value) => rate(value, ""), better: "more", error: null },
  { key: "seconds", title: "Time on the chip", format: seconds, better: "less", error: "cycles" },
  { key: "cycles", title: "Cycles", format: cycles, better: "less", error: "cycles" },
  { key: "compute_cycles", title: "Compute", format: cycles, better: "less", error: "cycles" },
  { key: "tile_exchange_cycles", title: "Exchange", format: cycles, better: "less", error: "cycles" },
  { key: "link_cycles", title: "IPU-Links", format: cycles, better: "less", error: null },
  { key: "sync_cycles", title: "Sync", format: cycles, better: "less", error: "cycles" },
  { key: "utilisation", title: "Utilisation", format: percent, better: "more", error: "cycles" },
  { key: "flops", title: "FLOPs", format: count, better: null, error: null },
  { key: "fullest_tile_bytes", title: "Fullest tile", format: bytes, better: "less", error: "memory" },
  { key: "tile_memory_bytes", title: "Memory of a tile", format: bytes, better: null, error: null },
  { key: "total_bytes", title: "Memory of all tiles", format: bytes, better: "less", error: "memory" },
  { key: "host_bytes_in", title: "From the host", format: bytes, better: "less", error: null },
  { key: "host_bytes_out", title: "To the host", format: bytes, better: "less", error: null },
  { key: "host_seconds", title: "Host link", format: seconds, better: "less", error: null },
  { key: "link_bytes", title: "Between IPUs", format: bytes, better: "less", error: null },
];

/** A metric of a report: a number of its estimate, or one that follows from it. */
function metricOf(one: Program, key: string): number | null {
  const call = one.callSeconds();
  if (key === "call_seconds") return call;
  if (key === "rows_per_second") return one.data.program.batch && call ? one.data.program.batch / call : null;
  if (key === "link_cycles") return one.planned ? one.totalPhases().links : null;
  if (key === "tile_exchange_cycles") return one.planned ? one.totalPhases().exchange : null;
  return one.estimate(key);
}

const relative = (a: number, b: number): string => (a === b ? "0 %" : a === 0 ? "" : signed((b - a) / a, percent));

interface Matched {
  id: number;
  name: string;
  kind: string;
  a: Operation | null;
  b: Operation | null;
}

/** Operations of the same scope, kind and name belong together, in the order in which they come. */
function match(a: Program, b: Program): Matched[] {
  const key = (one: Operation) => `${one.scope ?? ""}|${one.kind}|${one.scope ? "" : one.name}`;
  const waiting = new Map<string, Operation[]>();
  for (const one of b.operations) {
    const list = waiting.get(key(one));
    if (list) list.push(one);
    else waiting.set(key(one), [one]);
  }
  const rows: Matched[] = a.operations.map((one, id) => ({ id, name: one.name, kind: one.kind, a: one, b: waiting.get(key(one))?.shift() ?? null }));
  for (const list of waiting.values()) for (const one of list) rows.push({ id: rows.length, name: one.name, kind: one.kind, a: null, b: one });
  return rows;
}

function chooser(context: Context, text: string): HTMLElement {
  const message = h("p.problem", { role: "alert" });
  const open = async (file: File | undefined) => {
    if (!file) return;
    try {
      await context.open(file);
    } catch (error) {
      message.textContent = `${file.name} cannot be compared: ${error instanceof Error ? error.message : String(error)}.`;
    }
  };
  return h("div.drop", null,
    h("p", null, text),
    h("label.file", null, "Choose a report (.html or .json)", h("input", { type: "file", accept: ".html,.json", onchange: (event: Event) => void open((event.target as HTMLInputElement).files?.[0]) })),
    message,
  );
}

function verdict(letter: string, program: Program): HTMLElement {
  const { fits, reason } = program.data.program;
  return h(
    "div",
    { class: `verdict ${fits ? "good" : "bad"}`, "data-report": letter },
    h("b.letter", null, letter),
    h("strong", null, fits ? "Fits" : "Does not fit"),
    h("span", null, `${program.name} on ${program.target}`),
    reason && h("details.reason", null, h("summary", null, reason.split("\n")[0]), h("pre", null, reason)),
  );
}

/** What each layer costs in both reports, matched by its path. */
function layersOfBoth(a: Program, b: Program): HTMLElement | null {
  const costs = (one: Program) => new Map((one.planned ? (one.data.layers ?? []) : []).map((node) => [one.pathOf(one.data.layers, node.id).join(" / "), node.cycles]));
  const [first, second] = [costs(a), costs(b)];
  const rows = [...new Set([...first.keys(), ...second.keys()])].map((name, id) => ({ id, name, a: first.get(name), b: second.get(name) }));
  if (!rows.length) return null;
  const change = (row: (typeof rows)[number]) => (row.b ?? 0) - (row.a ?? 0);
  const most = largest(rows, (row) => Math.abs(change(row)), 1);
  const table = new Table<(typeof rows)[number]>({
    id: "layers",
    label: "Layers of both reports",
    rows,
    columns: [
      texts("name", "Layer", 320, (row) => row.name, { stay: true }),
      numbers("a", "Cycles A", 90, (row) => row.a, cycles),
      numbers("b", "Cycles B", 90, (row) => row.b, cycles),
      numbers("change", "B − A", 96, change, cycles, { render: (row) => figure(change(row), (value) => signed(value, cycles)), share: (row) => Math.abs(change(row)) / most }),
    ],
    key: (row) => row.id,
    sort: { column: "a", descending: true },
    height: 320,
    none: "",
    filter: (row) => row.name,
  });
  return panel("Layers", "Matched by their paths; each with all that is in it.", table.element);
}

function build(context: Context): Built {
  const [a, b] = context.programs;
  if (!b) {
    return {
      element: h("div.view", null, panel("Compare", null, chooser(context, "This page has one report. Open another one here, or drop it anywhere on the page, to see both side by side: before and after a change, one chip and another. The file is read by this page only; nothing is sent anywhere."))),
    };
  }
  const plots: Chart[] = [];
  const errors = (kind: "cycles" | "memory" | null): string => {
    if (!kind) return "";
    const of = (one: Program) => (kind === "cycles" ? cyclesError(one).text : memoryError(one).text);
    return of(a) === of(b) ? of(a) : `${of(a)} | ${of(b)}`;
  };
  const rows = metrics
    .map((metric) => {
      const x = metricOf(a, metric.key);
      const y = metricOf(b, metric.key);
      // Quotients of equal numbers may differ in their last bit.
      return { metric, x, y: known(x) && known(y) && Math.abs(y - x) < 1e-9 * Math.abs(x) ? x : y };
    })
    .filter(({ x, y }) => known(x) || known(y))
    .filter(({ metric, x, y }) => !metric.key.startsWith("link_") || x || y);
  const table = plainTable(
    ["", "#A", "#B", "#B − A", "#Change", "#Expected error"],
    rows.map(({ metric, x, y }) => {
      const both = known(x) && known(y);
      const gain = both && metric.better && x !== y ? (y < x === (metric.better === "less") ? "better" : "worse") : "";
      return [
        metric.title,
        figure(x, metric.format, `a_${metric.key}`),
        figure(y, metric.format, `b_${metric.key}`),
        both ? figure(y - x, (value) => signed(value, metric.format), `d_${metric.key}`) : "–",
        both ? h("span", { class: gain }, relative(x, y), h("small", null, ` ${gain}`)) : "–",
        errors(metric.error),
      ];
    }),
  );

  const overlay = (label: string, x: string, first: ArrayLike<number> | null, second: ArrayLike<number> | null, format: (value: Maybe) => string, none: string): HTMLElement => {
    if (!first && !second) return empty(none);
    const length = Math.max(first?.length ?? 0, second?.length ?? 0);
    const fill = (values: ArrayLike<number> | null): (number | null)[] => Array.from({ length }, (_, i) => (values && i < values.length ? values[i] : null));
    const plot = chart({
      label,
      height: 220,
      x: { label: x, values: indices(length) },
      lines: [
        { label: "A", colour: "first", values: fill(first), width: 2 },
        { label: "B", colour: "second", values: fill(second), width: 2, dash: [6, 3] },
      ],
      format,
      binary: true,
    });
    plots.push(plot);
    return plot.element;
  };
  const descending = (values: Float64Array | null) => values && Float64Array.from(values).sort().reverse();
  const live = (one: Program) => one.liveness()?.maxTile ?? null;

  const matched = match(a, b);
  const change = (row: Matched) => (row.b?.cycles ?? 0) - (row.a?.cycles ?? 0);
  const most = largest(matched, (row) => Math.abs(change(row)), 1);
  const operations = new Table<Matched>({
    id: "matched",
    label: "Operations of both reports",
    rows: matched,
    columns: [
      texts("name", "Operation", 200, (row) => row.name, { stay: true }),
      texts("kind", "Kind", 150, (row) => row.kind),
      numbers("a", "Cycles A", 90, (row) => row.a?.cycles, cycles, { sum: true }),
      numbers("b", "Cycles B", 90, (row) => row.b?.cycles, cycles, { sum: true }),
      numbers("change", "B − A", 96, (row) => Math.abs(change(row)), cycles, { saved: change, render: (row) => figure(change(row), (value) => signed(value, cycles)), share: (row) => Math.abs(change(row)) / most }),
      numbers("bytes_a", "Exchanged A", 100, (row) => row.a?.exchange_bytes, bytes),
      numbers("bytes_b", "Exchanged B", 100, (row) => row.b?.exchange_bytes, bytes),
      texts("note", "In", 70, (row) => (row.a && row.b ? "both" : row.a ? "A only" : "B only")),
      texts("scope", "Scope", 200, (row) => row.a?.scope ?? row.b?.scope ?? null),
    ],
    key: (row) => row.id,
    selected: () => {
      const id = context.store.state.operation;
      if (id === null) return null;
      return matched.find((row) => (context.store.state.report === 0 ? row.a : row.b)?.id === id)?.id ?? null;
    },
    onSelect: (row) => {
      const own = context.store.state.report === 0 ? row.a : row.b;
      context.select({ operation: own?.id ?? null, step: own ? undefined : null });
    },
    sort: { column: "change", descending: true },
    height: 420,
    none: "Neither report has operations.",
    filter: (row) => [row.name, row.kind, row.a?.scope, row.b?.scope].join(" "),
  });
  return {
    element: h("div.view", null,
      h("div.columns-2.tight", null, verdict("A", a), verdict("B", b)),
      panel("Figures", null, table),
      h("div.columns-2", null,
        panel("Memory of the tiles, fullest first", null, overlay("Memory of the tiles of both reports", "Tiles, fullest first", descending(a.tileTotals()), descending(b.tileTotals()), bytes, "Neither report has the memory of tiles.")),
        panel("Fullest tile over the program", null, overlay("Memory of the fullest tile of both reports", "Step of the program", live(a), live(b), bytes, "Neither report has liveness.")),
      ),
      layersOfBoth(a, b),
      panel("Operations", `Matched by JAX scope and kind. ${integer(matched.filter((row) => row.a && row.b).length)} are in both.`, operations.element),
      h("details", null, h("summary", null, "Compare with another report"), chooser(context, "It takes the place of report B.")),
    ),
    update: () => operations.reveal(null),
    destroy: () => plots.forEach((plot) => plot.destroy()),
  };
}

export const compare: View = { id: "compare", title: "Compare", icon: "M2 2h5v12H2zM9 2h5v12H9zM3.5 4v8h2V4z", build };
