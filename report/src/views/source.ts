// The user's files, with what each line costs, and what for: by layer.
import { empty, h, on, panel, replace, select } from "../dom";
import { cyclesError, figure, plusMinus } from "../figure";
import type { Operation, Variable } from "../format";
import { groupings } from "../groups";
import type { Program } from "../model";
import { bytes, cycles, integer, percent, largest, total, type Maybe } from "../numbers";
import { numbers, Table, texts } from "../table";
import type { Built, Context, View } from "../view";

/** What a line costs in one layer. */
interface Part {
  id: number;
  line: number;
  layer: number | null;
  cycles: Maybe;
  exchanged: Maybe;
  bytes: Maybe;
  /** The operation with the most cycles. */
  largest: Operation | null;
}

/** The lines of a file that cost something; `byLayer`: each apart for each layer that it works for. */
function partsOf(program: Program, file: number, byLayer: boolean): Part[] {
  const parts = new Map<string, Part>();
  const partOf = (one: Operation | Variable): Part | null => {
    if (one.source !== file || !one.line) return null;
    const layer = byLayer ? (one.layer ?? null) : null;
    const key = `${one.line} ${layer}`;
    const part = parts.get(key) ?? { id: parts.size, line: one.line, layer, cycles: null, exchanged: null, bytes: null, largest: null };
    parts.set(key, part);
    return part;
  };
  const plus = (a: Maybe, b: Maybe): Maybe => (b === null || b === undefined ? a : (a ?? 0) + b);
  for (const one of program.operations) {
    const part = partOf(one);
    if (!part) continue;
    part.cycles = plus(part.cycles, one.cycles);
    part.exchanged = plus(part.exchanged, one.exchange_bytes);
    if (!part.largest || (one.cycles ?? 0) > (part.largest.cycles ?? 0)) part.largest = one;
  }
  for (const one of program.variables) {
    const part = partOf(one);
    if (part) part.bytes = plus(part.bytes, one.bytes);
  }
  return [...parts.values()];
}

function build(context: Context): Built {
  const { program, store } = context;
  const files = program.data.sources ?? [];
  const whole = program.totalCycles() || 1;
  const without = total(program.operations, (one) => (files[one.source ?? -1] ? 0 : (one.cycles ?? 0)));
  if (!files.length) return { element: h("div.view", null, panel("Source", null, empty("The report knows no source lines: the program came without locations."))) };

  const costs = files.map((_, index) => total(program.operations, (one) => (one.source === index ? (one.cycles ?? 0) : 0)));
  const chosen = () => (store.state.operation === null ? undefined : program.operations[store.state.operation]);
  let file = chosen()?.source ?? costs.indexOf(Math.max(...costs));
  const host = h("div", null);
  const operationsAt = (line: number): Operation[] => program.byLine().get(`${file}:${line}`) ?? [];

  const layersHost = h("div", null);
  const kept = { text: "", by: "layer" };
  let parts: Part[] = [];
  let byLayer: Table<Part> | null = null;
  const chosenPart = () => {
    const one = chosen();
    return one?.source === file ? (parts.find((part) => part.line === one.line && part.layer === (one.layer ?? null))?.id ?? null) : null;
  };
  const drawLayers = () => {
    if (!program.data.layers?.length) return;
    parts = partsOf(program, file, true);
    const most = largest(parts, (row) => row.cycles ?? 0, 1);
    const textOf = (row: Part) => files[file].lines?.[row.line - 1]?.trim() ?? "";
    byLayer = new Table<Part>({
      id: "lines",
      label: "Lines",
      rows: parts,
      columns: [
        numbers("line", "Line", 64, (row) => row.line, integer),
        texts("text", "Text", 260, textOf),
        texts("layer", "Layer", 180, (row) => program.layerOf(row) || null),
        numbers("cycles", "Cycles", 90, (row) => row.cycles, cycles, { share: (row) => (row.cycles ?? 0) / most, sum: true }),
        numbers("bytes", "Variables", 90, (row) => row.bytes, bytes, { sum: true }),
        numbers("exchanged", "Exchanged", 96, (row) => row.exchanged, bytes, { sum: true }),
      ],
      key: (row) => row.id,
      selected: chosenPart,
      onSelect: (row) => row.largest && context.select({ operation: row.largest.id }),
      sort: { column: "cycles", descending: true },
      height: 300,
      none: "No operation comes from this file.",
      filter: (row) => `${row.line} ${textOf(row)} ${program.layerOf(row)}`,
      groupings: groupings(program, (row) => row, ["layer"]),
      state: kept,
    });
    replace(layersHost, panel("Layers", "What the lines of this file cost in each layer that they work for.", byLayer.element));
  };

  const draw = (reveal: boolean) => {
    const one = files[file];
    const costOf = new Map(partsOf(program, file, false).map((part) => [part.line, part]));
    const most = largest(costOf.values(), (part) => part.cycles ?? 0, 1);
    const current = chosen();
    const used = [...costOf.keys()].sort((a, b) => a - b);
    const lines: [number, string | null][] = one.lines ? one.lines.map((text, index) => [index + 1, text]) : used.map((line) => [line, null]);
    const row = ([line, text]: [number, string | null]) => {
      const list = operationsAt(line);
      const { cycles: sum, bytes: held, exchanged: moved }: Partial<Part> = costOf.get(line) ?? {};
      const hot = current?.source === file && current.line === line;
      const errors = [...new Set(list.map((op) => plusMinus(program.accuracyOf(op.kind)?.cycles)))];
      return h(
        "tr",
        {
          "data-line": line,
          class: `${list.length ? "selectable" : ""}${hot ? " chosen" : ""}`,
          tabindex: list.length ? (hot ? 0 : -1) : null,
          "aria-selected": list.length ? String(hot) : null,
          title: list.length ? `${list.map((op) => `${op.name}: ${cycles(op.cycles)} cycles`).slice(0, 8).join("\n")}\nexpected error: ${errors.join(", ")}` : null,
          onclick: list.length
            ? () => {
                // Again on the same line: the next of its operations.
                const at = list.findIndex((op) => op.id === store.state.operation);
                const sorted = [...list].sort((a, b) => (b.cycles ?? 0) - (a.cycles ?? 0));
                context.select({ operation: at < 0 ? sorted[0].id : list[(at + 1) % list.length].id });
              }
            : null,
        },
        h("td.number.source-cycles", null, sum ? h("span.bar", { style: `width:${((100 * sum) / most).toFixed(1)}%` }) : null, h("span", null, sum ? figure(sum, cycles) : "")),
        h("td.number", null, sum ? percent(sum / whole) : ""),
        h("td.number", null, held ? figure(held, bytes) : ""),
        h("td.number", null, moved ? bytes(moved) : ""),
        h("td.number.line-number", null, line),
        h("td.code", null, text === null ? h("em", null, list.map((op) => op.name).join(", ")) : text || " "),
      );
    };
    const table = h("table.source", { role: "grid", "aria-label": one.path },
      h("thead", null, h("tr", null, h("th.number", null, "Cycles"), h("th.number", null, "Share"), h("th.number", { title: "Bytes of the variables that the line makes" }, "Variables"), h("th.number", null, "Exchanged"), h("th.number", null, "Line"), h("th", null, "Text"))),
      h("tbody", null, lines.map(row)),
    );
    const scroller = h("div.source-scroller", { tabindex: 0, role: "group", "aria-label": "Lines: use the arrow keys" }, table);
    on(scroller, "keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      const costly = used.filter((line) => operationsAt(line).length);
      if (!step || !costly.length) return;
      event.preventDefault();
      const now = chosen();
      const at = now?.source === file ? costly.indexOf(now.line as number) : -1;
      const line = costly[Math.max(0, Math.min(costly.length - 1, at < 0 ? 0 : at + step))];
      context.select({ operation: [...operationsAt(line)].sort((a, b) => (b.cycles ?? 0) - (a.cycles ?? 0))[0].id });
      host.querySelector<HTMLElement>(".source-scroller")?.focus({ preventScroll: true });
    });
    const before = host.querySelector(".source-scroller")?.scrollTop ?? 0;
    replace(host, one.lines ? null : empty("The text of this file is not in the report: only its lines that cost something are listed."), used.length || one.lines ? scroller : empty("No operation comes from this file."));
    scroller.scrollTop = before;
    const target = reveal ? (host.querySelector<HTMLElement>(".chosen") ?? host.querySelector<HTMLElement>("tr.selectable")) : null;
    if (target && (target.offsetTop < scroller.scrollTop + 30 || target.offsetTop > scroller.scrollTop + scroller.clientHeight - 30)) scroller.scrollTop = target.offsetTop - 120;
  };
  const show = (next: number) => {
    file = next;
    drawLayers();
    draw(true);
  };
  drawLayers();
  draw(false);
  requestAnimationFrame(() => draw(true));
  const names = files.map((one, index) => [String(index), `${one.path.split("/").slice(-2).join("/")} (${percent(costs[index] / whole)})`] as const);
  return {
    element: h("div.view", null,
      panel(
        "Source",
        [`Cycles and bytes of the operations that each line makes. Expected error: ${cyclesError(program).text}.`, without > 0 ? ` ${cycles(without)} cycles (${percent(without / whole)}) have no source line.` : null, ` ${integer(program.byLine().size)} lines cost something.`],
        h("div.tools", null, files.length > 1 ? select("File", names, String(file), (value) => show(Number(value))) : h("span.path", { title: files[0].path }, names[0][1])),
        host,
      ),
      layersHost,
    ),
    update: (state, before) => {
      if (state.operation === before.operation) return;
      const source = chosen()?.source;
      if (source !== null && source !== undefined && source !== file && files[source]) {
        show(source);
        const picker = host.parentElement?.querySelector("select");
        if (picker) picker.value = String(file);
      } else draw(true);
      byLayer?.reveal(chosenPart());
    },
  };
}

export const source: View = { id: "source", title: "Source", icon: "M5.5 4 1.5 8l4 4 1-1-3-3 3-3zM10.5 4l-1 1 3 3-3 3 1 1 4-4z", build };
